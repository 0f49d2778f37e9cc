"""Feeds from the command line: arrays from files or numbers for the inputs that are named, made up for the others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jitopt import samples
from jitopt.cli.common import extents
from jitopt.cli.main import UsageError
from jitopt.errors import FeedError
from jitopt.ir.dtypes import dtype_of
from jitopt.samples import FREE_EXTENT
from jitopt.session import NodeArg

Array = np.ndarray[Any, Any]
_NAMES = {"float": "float32", "double": "float64"}


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """`--input` and `--shape`, both repeatable, and `--seed`."""
    group = parser.add_argument_group("inputs")
    group.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", type=_pair, dest="inputs",
        help="an input's array, or a number as NAME=16000; inputs without one get made-up values",
    )  # fmt: skip
    group.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1,3,224,224", type=_pair, dest="shapes",
        help=f"the shape of a made-up input (default: free extents are 1 on axis 0, {FREE_EXTENT} elsewhere)",
    )  # fmt: skip
    group.add_argument("--seed", type=int, default=0, help="of the made-up values")


def make_feeds(
    inputs: Sequence[NodeArg], options: argparse.Namespace, seed: int | None = None,
    below: Mapping[str, int] | None = None,
) -> dict[str, Array]:  # fmt: skip
    """An array for every input; made-up indices stay `below` the bound of their input.

    Raises UsageError for an unknown input name or a file that holds no array, OSError for one that cannot be read.
    """
    ports = {port.name: port for port in inputs}
    files, shapes = dict(options.inputs), dict(options.shapes)
    for name in (*files, *shapes):
        if name not in ports:
            raise UsageError(f"the model has no input {name!r}; its inputs are {', '.join(map(repr, ports)) or 'none'}")
    rng = np.random.default_rng(options.seed if seed is None else seed)
    bound: dict[str, int] = {}
    given = {name: _load(file, ports[name]) for name, file in files.items()}
    asked = {name: _shape(name, text) for name, text in shapes.items()}
    for name, shape in (*((n, a.shape) for n, a in given.items()), *asked.items()):
        bound.update(_symbols(ports[name], shape))
    return {
        name: given[name] if name in given else made_up(port, asked.get(name), bound, rng, (below or {}).get(name))
        for name, port in ports.items()
    }


def made_up(
    port: NodeArg, shape: Sequence[int] | None, bound: dict[str, int], rng: np.random.Generator,
    below: int | None = None,
) -> Array:  # fmt: skip
    """Values for an input, as `jitopt.samples.made_up` gives them.

    Free extents are what `bound` says, and what they become is entered there. Raises UsageError for an input that is
    no tensor, or of unknown rank.
    """
    name = _element(port)
    if port.type == name:
        raise UsageError(f"values for input {port.name!r} of type {port.type} cannot be made up")
    if shape is None:
        if port.shape is None:
            raise UsageError(f"the rank of input {port.name!r} is not known: give --shape {port.name}=...")
        shape = [_extent(dim, axis, bound) for axis, dim in enumerate(port.shape)]
    try:
        return samples.made_up(dtype_of(_NAMES.get(name, name)), shape, rng, below)
    except FeedError as error:
        raise UsageError(f"input {port.name!r}: {error.message}") from None


def _extent(dim: int | str | None, axis: int, bound: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    fallback = FREE_EXTENT if axis else 1
    return fallback if dim is None else bound.setdefault(dim, fallback)


def _symbols(port: NodeArg, shape: Sequence[int]) -> dict[str, int]:
    """The values a shape gives to the named extents of an input."""
    dims = port.shape or []
    return {dim: extent for dim, extent in zip(dims, shape, strict=False) if isinstance(dim, str)}


def _element(port: NodeArg) -> str:
    return port.type.removeprefix("tensor(").removesuffix(")")


def _load(file: str, port: NodeArg) -> Array:
    number = _number(file)
    if number is not None and not Path(file).exists():
        name = _element(port)
        return np.full([d if isinstance(d, int) else 1 for d in port.shape or ()], number, _NAMES.get(name, name))
    with Path(file).open("rb") as source:
        try:
            found = np.load(source, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise UsageError(f"{file} is no .npy file: {error}") from error
    if not isinstance(found, np.ndarray):
        raise UsageError(f"{file} holds several arrays; an input takes one, from a .npy file")
    return found


def _number(text: str) -> float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _shape(name: str, text: str) -> tuple[int, ...]:
    try:
        return extents(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--shape {name}: {error}") from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value
