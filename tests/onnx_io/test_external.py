"""Data beside the model: read from its folder only, and never trusted about sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from jitopt.errors import MemoryLimitError, ModelError
from jitopt.ir.graph import Graph
from jitopt.onnx_io import read_model
from tests.onnx_io.support import any_operator, model_of, read

WEIGHTS = np.arange(6, dtype=np.float32)


def external_model(**entries: str) -> onnx.ModelProto:
    weights = TensorProto(name="w", dims=[2, 3], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        weights.external_data.add(key=key, value=value)
    return model_of([helper.make_node("Add", ["x", "w"], ["y"])], ["x"], ["y"], [weights])


def saved(folder: Path, **entries: str) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(external_model(**entries).SerializeToString())
    return path


def weights_of(graph: Graph) -> list:
    (constant,) = graph.constants
    assert constant.constant is not None
    return constant.constant.ravel().tolist()


def test_data_are_read_at_their_offset(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"\0" * 8 + WEIGHTS.tobytes() + b"\0" * 9)
    path = saved(tmp_path, location="sub/w.bin", offset="8", length="24")
    for source in (path, str(path)):
        assert weights_of(read_path(source)) == WEIGHTS.tolist()
    assert weights_of(read_path(saved(tmp_path, location="sub/w.bin", offset="8"))) == WEIGHTS.tolist()


def read_path(path: Path | str, **options: int) -> Graph:
    return read_model(path, operators=any_operator, **options)


@pytest.mark.parametrize("location", ["../w.bin", "sub/../../w.bin", "{folder}/w.bin", "..\\w.bin", "link.bin"])
def test_files_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    location = location.format(folder=tmp_path)
    with pytest.raises(ModelError, match="outside the model's folder") as caught:
        read_path(saved(folder, location=location))
    assert location in str(caught.value) and "initialiser 'w'" in str(caught.value) and caught.value.model


def test_a_store_of_links_may_keep_model_and_data_together(tmp_path: Path) -> None:
    store, view = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    store.mkdir()
    view.mkdir(parents=True)
    (store / "abc").write_bytes(WEIGHTS.tobytes())
    saved(store, location="model.onnx_data").rename(store / "def")
    (view / "model.onnx").symlink_to(store / "def")
    (view / "model.onnx_data").symlink_to(store / "abc")
    assert weights_of(read_path(view / "model.onnx")) == WEIGHTS.tolist()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "none.bin"}, "'none.bin', which does not exist in"),
        ({"location": "."}, "does not exist"),
        ({}, "without a location"),
        ({"location": "w.bin", "offset": "4"}, r"needs bytes 4 to 28 of 'w.bin', which has 24"),
        ({"location": "w.bin", "length": "20"}, "has 20 bytes in 'w.bin' where its shape needs 24"),
        ({"location": "w.bin", "offset": "-4"}, "the external data offset '-4'"),
        ({"location": "w.bin", "offset": "9" * 30}, "which is no size"),
        ({"location": "w.bin", "offset": "9" * 18}, "which has 24"),
        ({"location": "w\0.bin"}, "outside"),
    ],
)
def test_what_can_be_wrong_with_a_file(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    with pytest.raises(ModelError, match=message) as caught:
        read_path(saved(tmp_path, **entries))
    assert "initialiser 'w'" in str(caught.value)


def test_bytes_have_no_folder() -> None:
    with pytest.raises(ModelError, match=r"lies in the file 'w.bin'.*pass the model's path"):
        read(external_model(location="w.bin"))


def test_memory_is_bounded_before_reading(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    with pytest.raises(MemoryLimitError):
        read_path(saved(tmp_path, location="w.bin"), max_memory=23)
