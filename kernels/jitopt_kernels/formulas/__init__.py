"""The formula of every map-type ONNX operator, by its name in lower case; `jitopt.ops` names them by dotted string.

A formula takes registers (Vec, Mask), scalars, or with the JIT off NumPy arrays, and returns the same kind. Attributes
come after the tensors as scalars. Nothing here loads or stores: kernels do, whole registers or masked tails.
"""

from . import activation, arithmetic, logic, maths
from .activation import *  # noqa: F403
from .arithmetic import *  # noqa: F403
from .logic import *  # noqa: F403
from .maths import *  # noqa: F403

__all__ = sorted([*activation.__all__, *arithmetic.__all__, *logic.__all__, *maths.__all__])
