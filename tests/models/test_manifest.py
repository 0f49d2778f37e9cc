"""The manifest of models and finding them on disk, without a network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench import models

CONTENT = b"not really a model"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ONE = f"""
[[package]]
name = "carrier"
version = "1.2"
registry = "{{registry}}"
licence = "MIT"
[[package.file]]
name = "one"
member = "carrier/data/one.onnx"
sha256 = "{DIGEST}"
"""


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> models.Entry:
    """A manifest of one file, and an empty models folder."""
    entries = models.parse_manifest(ONE.format(registry="pypi"))
    monkeypatch.setattr(models, "manifest", lambda: entries)
    monkeypatch.setenv("JITOPT_MODELS_DIR", str(tmp_path))
    monkeypatch.delenv("JITOPT_EXTRA_MODELS", raising=False)
    return entries["one"]


def test_the_manifest_names_every_model_once_with_version_licence_and_source() -> None:
    entries = models.manifest()
    assert len(entries) >= 24
    for name, entry in entries.items():
        assert entry.name == name and entry.what and entry.package.licence and entry.package.version
        assert entry.role == "data" or entry.inputs
        assert entry.package.registry == "local" or entry.member
        assert not Path(entry.member).is_absolute() and ".." not in Path(entry.member).parts
    assert len({entry.sha256 for entry in entries.values() if entry.sha256}) == sum(
        bool(entry.sha256) for entry in entries.values()
    )


def test_the_networks_of_the_onnx_package_need_no_download() -> None:
    light = [entry for entry in models.manifest().values() if entry.package.registry == "onnx"]
    assert len(light) == 9
    assert all(entry.build and models.source(entry).is_file() for entry in light)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("pypi", "cargo"), "registry 'cargo'"),
        ((DIGEST, "abc"), "no sha256"),
        (('name = "one"', 'name = "one"\nrole = "toy"'), "role 'toy'"),
    ],
)
def test_a_wrong_manifest_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        models.parse_manifest(ONE.format(registry="pypi").replace(*change))


def test_a_name_may_stand_in_the_manifest_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        models.parse_manifest(ONE.format(registry="pypi") + ONE.format(registry="npm"))


def test_an_unfetched_model_says_how_to_get_it(one: models.Entry) -> None:
    with pytest.raises(models.NotFetched, match=r"python -m bench\.models --fetch one"):
        models.load("one")
    assert models.missing(one)


def test_an_unknown_name_lists_the_known_ones(one: models.Entry) -> None:
    with pytest.raises(KeyError, match="no model 'two'; there are one"):
        models.load("two")


def test_a_fetched_model_is_found_and_verified(one: models.Entry, tmp_path: Path) -> None:
    (tmp_path / "one.onnx").write_bytes(CONTENT)
    assert models.load("one") == tmp_path / "one.onnx"
    (tmp_path / "one.onnx").write_bytes(CONTENT + b"!")
    with pytest.raises(models.NotFetched, match="damaged"):
        models.load("one")


def test_an_extra_file_stands_for_the_entry_of_its_digest(
    one: models.Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "a.onnx").write_bytes(b"another model")
    monkeypatch.setenv("JITOPT_EXTRA_MODELS", str(extra))
    with pytest.raises(models.NotFetched):
        models.load("one")
    (extra / "whatever it is called.onnx").write_bytes(CONTENT)
    assert models.load("one") == extra / "whatever it is called.onnx"


def test_a_local_model_points_at_the_extra_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "manifest", lambda: models.parse_manifest(ONE.format(registry="local")))
    monkeypatch.setenv("JITOPT_MODELS_DIR", str(tmp_path))
    monkeypatch.delenv("JITOPT_EXTRA_MODELS", raising=False)
    with pytest.raises(models.NotFetched, match="JITOPT_EXTRA_MODELS"):
        models.load("one")


def test_a_built_model_must_have_been_built_of_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ONE.format(registry="pypi").replace("one.onnx", "one.pth")
    text = text.replace('name = "one"', f'name = "one"\nbuild = "{__name__}:anything"')
    monkeypatch.setattr(models, "manifest", lambda: models.parse_manifest(text))
    monkeypatch.setenv("JITOPT_MODELS_DIR", str(tmp_path))
    (tmp_path / "one.pth").write_bytes(CONTENT)
    with pytest.raises(models.NotFetched, match="one is not built"):
        models.load("one")
    target = models.built_path(models.entry("one"), tmp_path / "one.pth")
    target.write_bytes(b"built")
    assert models.load("one") == target and target.suffix == ".onnx"
    assert models.built_path(models.entry("one"), Path(__file__)) != target


def test_names_select_files_and_packages() -> None:
    assert [entry.name for entry in models.select(["ocr-cls", "u2netp"])] == ["ocr-cls", "u2netp"]
    of_package = [entry.name for entry in models.select(["rapidocr-onnxruntime", "ocr-det"])]
    assert sorted(of_package) == ["ocr-cls", "ocr-det", "ocr-rec"]
    assert [entry.name for entry in models.select(["silero-vad"])] == ["silero-vad", "silero-vad-sequence", "speech"]
    with pytest.raises(KeyError, match="no model 'nothing'"):
        models.select(["nothing"])


def test_the_list_shows_what_is_here(one: models.Entry, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert models.main([]) == 0
    assert "no  one" in capsys.readouterr().out
    (tmp_path / "one.onnx").write_bytes(CONTENT)
    assert models.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert "yes one" in listed and "carrier 1.2 (pypi; MIT)" in listed
