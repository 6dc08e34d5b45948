"""Proves that each call of Cache does what its words say, on memory and disk."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import skymem
from conftest import first_version
from skymem import _core


def test_a_value_comes_back(tiered: skymem.Cache) -> None:
    tiered.put("a", b"hello")
    assert tiered.get("a") == b"hello"
    assert tiered.get("a", offset=1, size=3) == b"ell"
    assert tiered.get("a", offset=2) == b"llo"
    assert tiered.get("a", offset=9) == b""
    assert tiered.get("b") is None
    assert tiered.has("a") and not tiered.has("b")
    info = tiered.info("a")
    assert info is not None and (info.size, info.tier, info.pinned) == (5, 0, False)
    assert tiered.info("b") is None
    tiered.put("a", b"")
    assert tiered.get("a") == b""
    assert tiered.remove("a") and not tiered.remove("a")


def test_it_is_on_disk_for_the_next_process(tmp_path: Path) -> None:
    with skymem.Cache(f"disk:{tmp_path}/store") as cache:
        cache.put("a", b"hello", durable=True)
    with skymem.Cache(["mem:16MiB", f"disk:{tmp_path}/store"]) as cache:
        info = cache.info("a")
        assert info is not None and info.tier == 1
        assert cache.prefetch(["a", "b"]) == [True, False]
        info = cache.info("a")
        assert info is not None and info.tier == 0


def test_arrays_go_in_and_out_without_gaps(cache: skymem.Cache) -> None:
    for dtype in (np.float16, np.float32, np.int64, np.bool_, [("O", "i4")]):
        a = np.zeros((3, 4), dtype=dtype)
        a.view(np.uint8)[:] = 7
        cache.put("a", a)
        b = np.zeros_like(a)
        assert cache.get_into("a", b) == a.nbytes
        assert b.tobytes() == a.tobytes()


def test_pieces_follow_each_other(cache: skymem.Cache) -> None:
    cache.put_many(["a"], [[b"one", np.frombuffer(b"two", np.uint8), memoryview(b"three")]])
    assert cache.get("a") == b"onetwothree"
    head, tail = bytearray(2), bytearray(5)
    assert cache.get_into("a", [head, 4, tail]) == 11  # with those passed over
    assert (head, tail) == (b"on", b"three")
    rows = np.zeros((2, 3), np.uint8)
    cache.put_many(["b", "c"], [b"xyz", b"uvw"])
    assert cache.get_many(["b", "c"], list(rows)) == [3, 3]
    assert rows.tobytes() == b"xyzuvw"


def test_arrays_of_ctypes(cache: skymem.Cache) -> None:
    out = ((ctypes.c_uint16 * 2) * 3)()  # it shows its shape, but no strides
    cache.put("a", ctypes.create_string_buffer(b"twelve bytes", 12))
    assert cache.get_into("a", out) == 12
    assert bytes(out) == b"twelve bytes"


def test_blocks_have_parents_and_prefixes(tiered: skymem.Cache) -> None:
    keys = skymem.block_keys(range(1000))
    assert len(keys) == 7
    tiered.put_many(keys[:3], [b"x" * n for n in (1, 2, 3)], parents=[None, *keys[:2]])
    assert tiered.prefix(keys) == 3 == tiered.prefix(keys, tiers=[0])
    tiered.flush(None)
    entries = {(e.tier, e.key): e for e in tiered.list()}
    assert len(entries) == 6
    assert entries[1, keys[1]].parent == keys[0]
    assert entries[0, keys[2]].size == 3 and entries[0, keys[2]].name is None
    assert tiered.remove(keys[0])  # and what only it makes reachable
    assert tiered.prefix(keys) == 0
    assert tiered.has_many(keys[:3]) == [False] * 3


def test_keys_go_on_after_a_block() -> None:
    keys = skymem.block_keys(range(1000), block_tokens=64)
    for n in range(1, 15):
        rest = skymem.block_keys(range(64 * n, 1000), block_tokens=64, after=keys[n - 1])
        assert rest == keys[n:]
    assert skymem.block_keys(range(63), block_tokens=64, after=keys[0]) == []


def test_a_prefix_is_as_long_as_its_first_gap(cache: skymem.Cache) -> None:
    keys = skymem.block_keys(range(3000), block_tokens=1)
    cache.put_many(keys, [b"x"] * len(keys), parents=[None, *keys[:-1]])
    assert cache.prefix(keys) == 3000 and cache.prefix([]) == 0
    assert cache.remove(keys[2500])
    assert cache.prefix(keys) == 2500 and cache.prefix(keys[2500:]) == 0
    with pytest.raises(skymem.DeadlineError):
        cache.prefix(keys, timeout=0)


def test_a_failure_behind_the_first_gap_is_none(tmp_path: Path) -> None:
    keys = skymem.block_keys(range(30), block_tokens=10)

    class Store:
        def __init__(self, where: str) -> None: ...

        def read(self, key: bytes, offset: int, size: int) -> None:
            if key == keys[2]:
                raise OSError("broken")

        def write(self, key: bytes, value: bytes, durable: bool) -> None: ...

        def remove(self, key: bytes) -> bool:
            return False

    skymem.register_tier("gap", Store)
    with skymem.Cache(["mem:16MiB", "gap:1"]) as cache:
        cache.put(keys[0], b"x", tiers=[0])
        assert cache.prefix(keys) == 1
        with pytest.raises(skymem.IoError, match=keys[2].hex()):
            cache.prefix(keys[2:])


def test_no_keys_are_a_batch_that_is_over(cache: skymem.Cache) -> None:
    assert cache.has_many([]) == cache.remove_many([]) == cache.prefetch([]) == []
    assert cache.get_many([], []) == [] and cache.prefix([]) == 0
    cache.put_many([], [])
    batch = cache.start("lease", [])
    assert batch.wait(0) and batch.leases() == batch.sizes() == []
    batch.cancel()
    batch.check()

    async def none() -> None:
        async with skymem.AsyncCache(cache) as own:
            assert await own.has_many([]) == [] and await own.prefix([]) == 0

    asyncio.run(none())


def test_versions_let_one_of_two_changes_win(versions: str) -> None:
    with skymem.Cache(versions) as cache:
        assert cache.stat()[0].versions
        first = first_version(cache, "a")
        assert cache.info("a").version == first  # type: ignore[union-attr]
        second = cache.put("a", b"two", if_version=first)
        assert second is not None and second > first
        with pytest.raises(skymem.ConflictError, match="put of a: ") as raised:
            cache.put("a", b"three", if_version=first)
        assert raised.value.version == second and cache.get("a") == b"two"
        with pytest.raises(skymem.ConflictError):
            cache.put("a", b"four", if_version=0)
        with pytest.raises(skymem.ConflictError) as raised:
            cache.remove("a", if_version=first)
        assert raised.value.version == second
        assert cache.remove("a", if_version=second)
        with pytest.raises(skymem.ConflictError) as raised:
            cache.put("a", b"five", if_version=second)
        assert raised.value.version == 0 and cache.get("a") is None
        with pytest.raises(skymem.ConflictError) as raised:
            cache.remove("a", if_version=second)
        assert raised.value.version == 0 and not cache.remove("a", if_version=0)
        assert cache.put("b", b"six") and not cache.put(b"k" * 32, b"a block has none")
    with skymem.Cache("mem:16MiB") as cache:
        assert cache.put("a", b"1") is None and not cache.stat()[0].versions


def test_names_are_those_of_the_command(tmp_path: Path) -> None:
    command = os.path.join(os.environ.get("SKYMEM_BUILD", "build"), "skymem")
    if not os.path.exists(command):
        pytest.skip("the command is not built")
    store = f"disk:{tmp_path}/store"
    (tmp_path / "text").write_bytes(b"from a file")
    subprocess.run([command, "put", "clé", tmp_path / "text", "--store", store], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    with skymem.Cache(store) as cache:
        assert cache.get("clé") == b"from a file"
        cache.put("b", b"from Python", durable=True)
        assert sorted(str(e.name) for e in cache.list()) == ["b", "clé"]
    out = subprocess.run([command, "get", "b", "--store", store], capture_output=True, check=True)
    assert out.stdout == b"from Python"


def test_pins_and_times_to_live(tiered: skymem.Cache) -> None:
    tiered.put("a", b"1")
    assert tiered.pin("a") and not tiered.pin("b")
    info = tiered.info("a")
    assert info is not None and info.pinned
    assert tiered.unpin("a")
    with pytest.raises(skymem.ParamError):
        tiered.unpin("a")
    tiered.put("t", b"1", ttl=3600)
    info = tiered.info("t")
    assert info is not None and 3500 < info.ttl <= 3600
    detail = tiered.run(_core.OP_get, ["t"], [bytearray(1)]).details()[0]
    assert detail is not None and 3500 < detail[3] <= 3600


def test_eviction_classes(tmp_path: Path) -> None:
    with skymem.Cache(f"disk:{tmp_path}/store?max=1MiB") as cache:  # room for 9 of these
        value = b"x" * 100_000
        cache.put("last", value, evict="last")
        cache.put("normal", value)
        cache.put_many(["soon"], [value], evict="soon")
        for key in ("last", "normal", "soon"):
            info = cache.info(key)
            assert info is not None and info.evict == key
        assert {e.name: e.evict for e in cache.list()} == {k: k for k in ("last", "normal", "soon")}
        for i in range(7):
            put = cache.start("put", [f"more{i}"], [value])
            put.wait(None)
            put.check()
        assert cache.has_many(["last", "normal", "soon"]) == [True, True, False]
        for i in range(9):
            cache.put(f"again{i}", value)
        assert cache.has_many(["last", "normal"]) == [True, False]
        with pytest.raises(ValueError, match="normal, soon, last is wanted, not 'never'"):
            cache.put("x", b"", evict="never")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="0 to 2"):
            cache.run(_core.OP_put, ["x"], [b""], evict=3)


def test_a_lease_shows_what_memory_keeps(cache: skymem.Cache) -> None:
    cache.put("a", np.arange(1000))
    with cache.lease("a") as view:
        assert view.readonly and view.nbytes == 8000
        array = np.frombuffer(view, np.int64)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(ValueError, match="released"):
        view[0]
    cache.put("a", b"another")  # what the array shows stays
    assert (array == np.arange(1000)).all()
    with pytest.raises(skymem.BusyError, match="1 leases, or arrays made from them, are in use"):
        cache.close()
    del array
    with pytest.raises(skymem.MissError, match="lease of 'b': not found"):
        cache.lease("b")
    with skymem.Cache("mem:16MiB") as other:
        other.put("a", b"1")
        lease = other.lease("a")
        del lease  # never entered


def test_a_salt_makes_other_names() -> None:
    with skymem.Cache("mem:16MiB") as one, skymem.Cache("mem:16MiB", salt=b"s" * 32) as two:
        assert one.name_key("a") != two.name_key("a")
    with pytest.raises(ValueError, match="salt: 32 secret bytes are wanted"):
        skymem.Cache("mem:16MiB", salt=b"abc")


def test_what_it_tells_of_itself(tiered: skymem.Cache) -> None:
    tiered.put("a", b"hello")
    tiered.get("a")
    tiered.get("b")
    mem, disk = tiered.stat()
    assert mem.url == "mem:64MiB" and mem.leases and mem.volatile and not disk.volatile
    assert not disk.failing and disk.levels == ()
    numbers = {(s.name, s.tier): s.number for s in tiered.metrics()}
    assert numbers["skymem_cache_hits_total", -1] == 1
    sample = next(s for s in tiered.metrics() if s.name == "skymem_cache_hits_total")
    assert sample.kind == "counter" and sample.help.startswith("Gets of a key")
    histogram = next(s for s in tiered.metrics() if s.buckets)
    assert len(histogram.buckets or ()) == len(skymem.BUCKET_BOUNDS_NS) + 1
    assert skymem.BUCKET_BOUNDS_NS[:2] == (256, 512)
    text = tiered.prometheus()
    assert "# TYPE skymem_cache_hits_total counter" in text
    assert "skymem_cache_hits_total 1" in text
    tiered.flush(None)
    assert tiered.verify() == (2, 10, 0, 0)


def test_a_damaged_value_is_no_answer(tmp_path: Path) -> None:
    with skymem.Cache(f"disk:{tmp_path}/store") as cache:
        cache.put("a", b"hello" * 1000, durable=True)
    files = [p for p in (tmp_path / "store").rglob("*") if p.is_file() and p.stat().st_size > 4096]
    for path in files:
        data = bytearray(path.read_bytes())
        data = data.replace(b"hellohello", b"hellohullo")
        path.write_bytes(data)
    with skymem.Cache(f"disk:{tmp_path}/store") as cache:
        with pytest.raises(skymem.CorruptError, match="damaged or foreign bytes"):
            cache.get("a")
        assert cache.get("a") is None


def test_a_level_is_a_name() -> None:
    assert skymem.LEVELS[0] == "lossless" and skymem.LEVELS[-1] == "archive"
    with skymem.Cache("mem:16MiB") as cache:
        assert not cache.has("a", level="4") and not cache.has("a", level=4.0)
        with pytest.raises(ValueError, match="level: one of lossless"):
            cache.has("a", level="5")


def test_the_declarations_are_those_of_the_headers() -> None:
    # What must agree is compiled from the headers; here is what Python says once more by itself.
    from skymem.errors import _KINDS

    errors = {name for name, value, _ in _core.status_list() if value < 0}
    assert errors | {"SKY_MISS"} == set(_KINDS)
    assert all(getattr(skymem, kind.__name__) is kind for kind in _KINDS.values())
    assert set(skymem.__all__) <= set(dir(skymem)) | {"AsyncCache"}
    assert all(hasattr(_core, f"OP_{name}") for name in
               ("has", "get", "put", "remove", "prefetch", "pin", "unpin", "lease"))  # fmt: skip
