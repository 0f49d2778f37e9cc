"""Everybody who can be measured, behind one form: load a model for given feeds and threads, then run it at will.

Feeds come as NumPy arrays and answers go out as NumPy arrays for everyone, so what that costs is in everyone's time. A
contestant whose packages are not installed is not in the race, and the report says so. All of them run float32 but
`openvino-default`, which may choose less on CPUs that have it: it has a column of its own and no part in the ratio.
Importers that know only some opsets (torch, ncnn, MNN, TVM) are given the same model in the newest one.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.inputs import Feeds
from jitopt.api import load_graph
from jitopt.errors import JitoptError
from jitopt.peer import model_bytes, runtime_answers, runtime_session

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Loaded:
    """A model ready to run: `run()` gives all outputs in order; `about` is what the contestant says of it."""

    run: Callable[[], list[Array]]
    about: dict[str, Any] = field(default_factory=dict)


Load = Callable[[Path, Feeds, int, Path], Loaded]
"""(model, feeds, threads, folder for files of one's own) -> Loaded. Raises whatever the contestant raises."""


@dataclass(frozen=True)
class Contestant:
    """`title` heads its column, `modules` are what it imports, `package` is whose version counts."""

    title: str
    package: str
    modules: tuple[str, ...]
    load: Load
    in_ratio: bool = True

    @property
    def missing(self) -> str:
        """Names of modules that are not installed; empty when it can run."""
        return ", ".join(name for name in self.modules if importlib.util.find_spec(name) is None)

    @property
    def version(self) -> str | None:
        return None if self.missing else importlib.metadata.version(self.package)


class Newest:
    """A model in the newest opset, as a file in a folder, and the names of its inputs and outputs in order."""

    def __init__(self, model: Path, folder: Path) -> None:
        graph = load_graph(model)
        self.inputs, self.outputs = ([value.name for value in values] for values in (graph.inputs, graph.outputs))
        self.file = folder / "model.onnx"
        self.file.write_bytes(model_bytes(graph))


def load_jitopt(model: Path, feeds: Feeds, threads: int, _folder: Path) -> Loaded:
    import jitopt

    session = jitopt.compile(model, num_threads=threads, feeds=feeds)
    said = session.explain().as_dict()
    about = {
        "operators": said["original_ops"], "kernels": said["kernels_run"], "reorders": said["reorders_run"],
        "host_steps": len(said["host_steps"]), "pool_bytes": session.memory(feeds).pool_bytes,
    }  # fmt: skip
    return Loaded(lambda: session.run(None, feeds), about)


def load_onnxruntime(model: Path, feeds: Feeds, threads: int, _folder: Path) -> Loaded:
    session = runtime_session(model, threads)
    return Loaded(lambda: runtime_answers(session, feeds))


def load_openvino(model: Path, feeds: Feeds, threads: int, _folder: Path) -> Loaded:
    return _load_openvino(model, feeds, threads, {"INFERENCE_PRECISION_HINT": "f32"})


def load_openvino_default(model: Path, feeds: Feeds, threads: int, _folder: Path) -> Loaded:
    return _load_openvino(model, feeds, threads, {})


def _load_openvino(model: Path, feeds: Feeds, threads: int, hints: Mapping[str, Any]) -> Loaded:
    """Compiled for the shapes of the feeds; one stream, as one run at a time is what is measured."""
    import openvino

    core = openvino.Core()
    read = core.read_model(model)
    read.reshape({name: list(array.shape) for name, array in feeds.items()})
    limits = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(read, "CPU", {**limits, **hints})
    request, given = compiled.create_infer_request(), dict(feeds)

    def run() -> list[Array]:
        found = request.infer(given, share_inputs=True)
        return [found[output] for output in compiled.outputs]

    return Loaded(run)


def load_torch(model: Path, feeds: Feeds, threads: int, folder: Path) -> Loaded:
    return _load_torch(model, feeds, threads, folder, lambda module: module)


def load_torch_compile(model: Path, feeds: Feeds, threads: int, folder: Path) -> Loaded:
    import torch

    loaded = _load_torch(model, feeds, threads, folder, torch.compile)
    loaded.run()  # compiles
    return loaded


def _load_torch(model: Path, feeds: Feeds, threads: int, folder: Path, prepare: Callable[[Any], Any]) -> Loaded:
    import onnx2torch
    import torch

    torch.set_num_threads(threads)
    newest = Newest(model, folder)
    module = prepare(onnx2torch.convert(str(newest.file)).eval())
    given = [torch.from_numpy(feeds[name].copy()) for name in newest.inputs]

    def run() -> list[Array]:
        with torch.inference_mode():
            found = module(*given)
        return [each.numpy() for each in (found if isinstance(found, (tuple, list)) else (found,))]

    return Loaded(run)


def load_ncnn(model: Path, feeds: Feeds, threads: int, folder: Path) -> Loaded:
    """Through pnnx, its own converter; Winograd on. Its tensors have no batch axis."""
    import ncnn
    import pnnx

    newest = Newest(model, folder)
    if any(array.shape[:1] != (1,) or array.dtype != np.float32 for array in feeds.values()):
        raise JitoptError("ncnn takes float32 tensors of batch 1")
    shapes = ",".join(f"{list(feeds[name].shape)}f32".replace(" ", "") for name in newest.inputs)
    command = [pnnx.EXEC_PATH, newest.file.name, f"inputshape={shapes}", "fp16=0"]
    made = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    net = ncnn.Net()
    net.opt.num_threads, net.opt.use_winograd_convolution = threads, True
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, f"use_{option}", False)
    files = [folder / f"{newest.file.stem}.ncnn.{kind}" for kind in ("param", "bin")]
    if not all(each.is_file() for each in files):
        raise JitoptError(f"pnnx does not convert the model: {(made.stdout.splitlines() or [''])[-1]}")
    if net.load_param(str(files[0])) or net.load_model(str(files[1])):
        raise JitoptError("ncnn does not load the converted model")
    given = [ncnn.Mat(np.ascontiguousarray(feeds[name][0])) for name in newest.inputs]

    def run() -> list[Array]:
        extractor = net.create_extractor()
        for index, mat in enumerate(given):
            extractor.input(f"in{index}", mat)
        return [np.array(extractor.extract(f"out{index}")[1])[None] for index in range(len(newest.outputs))]

    return Loaded(run)


def load_mnn(model: Path, feeds: Feeds, threads: int, folder: Path) -> Loaded:
    """By its C++ converter itself: importing the module `MNN.tools` around it installs packages and reports home."""
    import _tools
    import MNN

    newest, file = Newest(model, folder), folder / "model.mnn"
    words = ("-f", "ONNX", "--modelFile", str(newest.file), "--MNNModel", str(file), "--bizCode", "")
    _tools.mnnconvert(["mnnconvert", *words])
    if not file.is_file():
        raise JitoptError("MNN does not convert the model")
    manager = MNN.nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": threads},))
    module = MNN.nn.load_module_from_file(str(file), newest.inputs, newest.outputs, runtime_manager=manager)
    given = []
    for name in newest.inputs:
        array = feeds[name]
        kind = MNN.expr.int if array.dtype.kind == "i" else MNN.expr.float
        variable = MNN.expr.placeholder(list(array.shape), MNN.expr.NCHW, kind)
        variable.write(array.astype(np.int32) if array.dtype.kind == "i" else array)
        given.append(variable)
    return Loaded(lambda: [MNN.expr.convert(y, MNN.expr.NCHW).read().copy() for y in module.onForward(given)])


def load_tvm(model: Path, feeds: Feeds, _threads: int, folder: Path) -> Loaded:
    """By its default pipeline for this CPU, untuned; TVM_NUM_THREADS is set for the whole process."""
    import onnx
    import tvm
    from tvm.relax import VirtualMachine
    from tvm.relax.frontend.onnx import from_onnx

    from jitopt.codegen.host import host_cpu

    newest, shapes = Newest(model, folder), {name: list(array.shape) for name, array in feeds.items()}
    module = from_onnx(onnx.load(newest.file), shape_dict=shapes)
    machine = VirtualMachine(tvm.compile(module, tvm.target.Target({"kind": "llvm", "mcpu": host_cpu()})), tvm.cpu())
    given = [tvm.runtime.tensor(feeds[name]) for name in newest.inputs]

    def run() -> list[Array]:
        found = machine["main"](*given)
        return [each.numpy() for each in ((found,) if hasattr(found, "numpy") else found)]

    return Loaded(run)


OURS = "jitopt"
CONTESTANTS: dict[str, Contestant] = {
    OURS: Contestant("jitopt", "jitopt", ("jitopt",), load_jitopt),
    "onnxruntime": Contestant("ONNX Runtime", "onnxruntime", ("onnxruntime",), load_onnxruntime),
    "openvino": Contestant("OpenVINO f32", "openvino", ("openvino",), load_openvino),
    "openvino-default": Contestant(
        "OpenVINO default", "openvino", ("openvino",), load_openvino_default, in_ratio=False
    ),
    "torch": Contestant("torch eager", "torch", ("torch", "onnx2torch"), load_torch),
    "torch-compile": Contestant("torch.compile", "torch", ("torch", "onnx2torch"), load_torch_compile),
    "ncnn": Contestant("ncnn", "ncnn", ("ncnn", "pnnx"), load_ncnn),
    "mnn": Contestant("MNN", "MNN", ("MNN",), load_mnn),
    "tvm": Contestant("TVM", "apache-tvm", ("tvm", "onnx"), load_tvm),
}


def installed(chosen: list[str]) -> list[str]:
    """Those of the chosen contestants whose packages are installed."""
    return [name for name in chosen if not CONTESTANTS[name].missing]


def environment(threads: int) -> dict[str, str]:
    """Variables for a process in which contestants run on `threads` threads: some take their number from there only."""
    return {"OMP_NUM_THREADS": str(threads), "TVM_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
