"""The folder of compiled things: round trips, damage, owners, folders that cannot be used."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from jitopt.codegen import cache as cache_module
from jitopt.codegen.cache import Cache

KEY = "00ff"


def test_round_trip_of_header_and_sections(cache):
    weights = np.arange(100, dtype="f4")
    assert cache.store("programs", KEY, {"a": [1, None, "x"]}, {"empty": b"", "w": weights.data, "code": b"abc"})
    entry = cache.load("programs", KEY)
    assert entry.header == {"a": [1, None, "x"]}
    assert list(entry.sections) == ["empty", "w", "code"]
    loaded = np.frombuffer(entry.sections["w"], "f4")
    np.testing.assert_array_equal(loaded, weights)
    assert loaded.ctypes.data % 64 == 0
    assert bytes(entry.sections["code"]) == b"abc" and len(entry.sections["empty"]) == 0


def test_nothing_there_is_none(cache):
    assert cache.load("kernels", KEY) is None


def test_every_damaged_byte_and_every_cut_is_noticed(cache):
    cache.store("kernels", KEY, {"n": 1}, {"code": bytes(range(100))})
    path = cache.entry_path("kernels", KEY)
    whole = path.read_bytes()
    padding = whole.index(bytes(range(100)))
    head = whole.rindex(b"}", 0, padding) + 1
    for at in [*range(head), *range(padding, len(whole))]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        assert cache.load("kernels", KEY) is None, at
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert cache.load("kernels", KEY) is None, cut
    path.write_bytes(whole)
    assert cache.load("kernels", KEY) is not None


def test_an_entry_under_anothers_name_is_not_it(cache):
    cache.store("kernels", KEY, {}, {})
    cache.entry_path("kernels", KEY).rename(cache.entry_path("kernels", "1234"))
    assert cache.load("kernels", "1234") is None


def test_the_folder_is_closed_to_others_and_explains_itself(cache):
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert "cache clear" in (cache.folder / "README").read_text()


@pytest.mark.parametrize("mode", [0o755, 0o720])
def test_an_open_folder_is_not_read(tmp_path, mode, caplog):
    folder = tmp_path / "open"
    Cache(folder).store("kernels", KEY, {}, {"code": b"x"})
    folder.chmod(mode)
    opened = Cache(folder)
    assert opened.load("kernels", KEY) is None and not opened.writable
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_folder_or_entry_of_another_user_is_not_read(cache, monkeypatch, caplog):
    cache.store("kernels", KEY, {}, {"code": b"x"})
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert cache.load("kernels", KEY) is None
    assert not Cache(cache.folder).writable


def test_an_entry_that_is_a_link_is_not_followed(cache, tmp_path):
    cache.store("kernels", KEY, {}, {"code": b"x"})
    path = cache.entry_path("kernels", KEY)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.load("kernels", KEY) is None


def test_where_nothing_can_be_written_one_warning_then_memory(tmp_path, caplog):
    (tmp_path / "file").write_text("not a folder")
    unusable = Cache(tmp_path / "file" / "cache")
    assert unusable.load("kernels", KEY) is None
    for key in (KEY, "11"):
        assert not unusable.store("kernels", key, {"n": 1}, {"code": b"xyz"})
        assert bytes(unusable.load("kernels", key).sections["code"]) == b"xyz"
    assert unusable.store_text("kernels", KEY, "text") is None
    assert len(caplog.records) == 1 and "JITOPT_CACHE_DIR" in caplog.text


def test_a_full_disk_leaves_no_half_written_file(cache, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module.Path, "replace", full)
    assert not cache.store("kernels", KEY, {}, {"code": b"x"})
    assert not cache.store("kernels", "22", {}, {"code": b"x"})
    assert len(caplog.records) == 1
    assert list((cache.folder / "kernels").iterdir()) == []
    assert cache.load("kernels", KEY) is not None


def test_concurrent_writers_leave_a_whole_entry(cache):
    def write(number):
        for _ in range(50):
            cache.store("kernels", KEY, {"n": number}, {"code": bytes([number]) * 5000})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        entry = cache.load("kernels", KEY)
        assert entry is None or set(bytes(entry.sections["code"])) == {entry.header["n"]}
    for thread in threads:
        thread.join()
    assert [path.suffix for path in (cache.folder / "kernels").iterdir()] == [".bin"]


def test_clear_and_size(cache):
    cache.store("kernels", KEY, {}, {"code": b"x" * 1000})
    path = cache.store_text("kernels", KEY, "def kernel(): pass\n")
    assert path.read_text() == "def kernel(): pass\n"
    assert cache.size_bytes() > 1000
    assert cache.clear() == 2
    assert cache.size_bytes() == 0 and cache.load("kernels", KEY) is None


def test_the_environment_moves_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("JITOPT_CACHE_DIR", str(tmp_path / "moved"))
    assert Cache.default().folder == tmp_path / "moved" / "v1"
    assert Cache.default() is Cache.default()


def test_names_cannot_leave_the_folder(cache):
    for kind, key in (("../x", KEY), ("kernels", "../../etc"), ("kernels", "")):
        with pytest.raises(ValueError, match="cannot name"):
            cache.entry_path(kind, key)
