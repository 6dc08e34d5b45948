"""Proves that blocks in a program's own memory are read by others without a copy, by buffer, layer
and whole; that what is used keeps what it lies in; and that bad input ends in an exception."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skymem
from conftest import Script, daemon
from skymem import Layout, _core

KEY = b"k" * 32
LAYERS, SIZE = 5, 3000


@pytest.fixture
def blob(host: str) -> Iterator[skymem.Blob]:
    with skymem.Blob(host, 1 << 20) as one:
        yield one


@pytest.fixture
def reader(host: str) -> Iterator[skymem.Blob]:
    with skymem.Blob(host) as one:
        yield one


def bytes_of(layer: int, kv: int) -> bytes:
    """What no two buffers share."""
    return bytes((3 * i + 16 * layer + 5 * kv) % 251 for i in range(SIZE))


def publish(blob: skymem.Blob, key: bytes = KEY) -> Layout:
    """A block of layers of K and V, backwards in memory and with gaps."""
    start = blob.take(LAYERS * 2 * 4096)
    rows = [(layer, kv) for layer in range(LAYERS) for kv in range(2)]
    offsets = [start + 4096 * (2 * LAYERS - 1 - i) + 100 for i in range(len(rows))]
    with memoryview(blob) as memory:
        for offset, (layer, kv) in zip(offsets, rows, strict=True):
            memory[offset : offset + SIZE] = bytes_of(layer, kv)
    layout = Layout(key, offsets, [SIZE] * len(rows), (LAYERS, 2, 1))
    blob.put(layout)
    return layout


def test_a_block_is_read(blob: skymem.Blob, reader: skymem.Blob) -> None:
    layout = publish(blob)
    whole = b"".join(bytes_of(layer, kv) for layer in range(LAYERS) for kv in range(2))
    block = reader.get(KEY)
    assert block is not None
    with block:
        assert block.layout[:1] + block.layout[3:] == layout[:1] + layout[3:]
        assert block.layout.offsets == tuple(layout.offsets)
        assert block.layout.sizes == tuple(layout.sizes)
        for layer in range(LAYERS):
            assert bytes(block.view(layer, 1)) == bytes_of(layer, 1)
            assert block.read(layer) == bytes_of(layer, 0) + bytes_of(layer, 1)
        assert block.read() == whole and block.check() and block.check(LAYERS - 1)
        out = np.zeros((2, SIZE), np.uint8)
        assert block.read_into(out, 3) == 2 * SIZE
        assert out.tobytes() == bytes_of(3, 0) + bytes_of(3, 1)
        pieces = [bytearray(7), bytearray(len(whole))]
        assert block.read_into([*pieces]) == len(whole)
        assert bytes(pieces[0] + pieces[1])[: len(whole)] == whole
        assert block.view(0).readonly
    assert reader.get(b"x" * 32) is None


def test_an_array_is_the_region(blob: skymem.Blob, reader: skymem.Blob) -> None:
    rows = np.frombuffer(blob, np.float32).reshape(64, -1)
    rows[:] = np.arange(rows.size).reshape(rows.shape)
    size = rows.strides[0]
    layouts = [
        Layout(bytes([i]) * 32, range(i * size, rows.nbytes, 16 * size), [size] * 4, (2, 2, 1))
        for i in range(16)
    ]
    blob.put_many(layouts)
    for i, layout in enumerate(layouts):
        with reader.get(layout.key) as block:
            seen = [np.frombuffer(block.view(n // 2, n % 2), np.float32) for n in range(4)]
            assert (np.stack(seen) == rows[i::16]).all()
    del rows


def test_layers_along_another_axis(blob: skymem.Blob, reader: skymem.Blob) -> None:
    memoryview(blob)[:12] = bytes(range(12))
    # K and V, layers, buffers: shape [2, 3, 2]
    blob.put(Layout(KEY, range(12), [1] * 12, (2, 3, 2), layer_axis=1))
    with reader.get(KEY) as block:
        assert block.read(1) == bytes([2, 3, 8, 9])
        assert bytes(block.view(2, 1, 1)) == bytes([11])
        with pytest.raises(IndexError):
            block.view(3)


def test_blocks_lie_side_by_side(host: str, reader: skymem.Blob) -> None:
    page = mmap.PAGESIZE
    blob = skymem.Blob(host, 60 * page)
    pool = np.frombuffer(blob, np.uint8).reshape(3, 2, -1, page)  # layers, K and V, slots
    pool[:] = np.arange(pool.size // page, dtype=np.uint8).reshape(3, 2, -1, 1)
    layer, kv, slot = pool.strides[:3]
    slots = [8, 9, 2, 0, 7]
    keys = [bytes([n]) * 32 for n in range(6)]
    for key, n in zip(keys, slots, strict=False):
        offsets = [i * layer + j * kv + n * slot for i in range(3) for j in range(2)]
        blob.put(Layout(key, offsets, [page] * 6, (3, 2, 1)))
    with reader.map(keys) as mapping:
        assert len(mapping) == 5  # the sixth is not there
        for i in range(3):
            for j in range(2):
                array = np.frombuffer(mapping.view(i, j), np.uint8).reshape(-1, page)
                assert (array == pool[i, j, slots]).all()
        assert mapping.check()
        pool[1, 0, 2] ^= 1
        assert not mapping.check() and not mapping.check(1) and mapping.check(2)
        pool[1, 0, 2] ^= 1
        with pytest.raises(IndexError):
            mapping.view(3)
        with pytest.raises(IndexError):
            mapping.check(3)
        with pytest.raises(skymem.DeadlineError):
            blob.remove(keys[4], timeout=0.01)
    with pytest.raises(ValueError, match="ended"):
        mapping.view(0)
    with pytest.raises(skymem.BusyError, match="arrays made"):
        reader.close()  # `array` is one still
    assert (array == pool[2, 1, slots]).all()
    del array
    assert blob.remove(keys[4], timeout=30) in (True, False)  # the array's end removed it, or this
    assert reader.map([]) is None and reader.map(keys[5:]) is None
    with pytest.raises(ValueError, match="32"):
        reader.map([b"short"])
    with pytest.raises(TypeError):
        reader.map([1])  # type: ignore[list-item]
    blob.put(Layout(KEY, [100], [page], (1, 1, 1)))
    with pytest.raises(skymem.UnsupportedError, match="page"):
        reader.map([KEY])
    del pool
    blob.close()


def test_a_change_is_noticed(blob: skymem.Blob, reader: skymem.Blob) -> None:
    layout = publish(blob)
    block = reader.get(KEY)
    assert block is not None
    memoryview(blob)[layout.offsets[2 * 3]] ^= 1
    assert not block.check() and not block.check(3) and block.check(2)
    with pytest.raises(skymem.CorruptError, match="read"):
        block.read(3)
    with pytest.raises(skymem.CorruptError):
        block.read_into(bytearray(1 << 20))
    assert block.read(2) == bytes_of(2, 0) + bytes_of(2, 1)


def test_what_is_used_stays(blob: skymem.Blob, reader: skymem.Blob) -> None:
    publish(blob)
    block = reader.get(KEY)
    assert block is not None
    with block:
        seen = np.frombuffer(block.view(1, 0), np.uint8)
    with pytest.raises(ValueError, match="has ended; get it again"):
        block.view(1)
    with pytest.raises(skymem.BusyError, match="arrays made from them"):
        reader.close()
    with pytest.raises(skymem.DeadlineError, match="has it open"):
        blob.remove(KEY, timeout=0.01)
    assert seen.tobytes() == bytes_of(1, 0)
    with pytest.raises(skymem.BusyError, match="put: 0 of 1"):
        publish(blob)  # withdrawn, and open still
    del seen
    blob.remove(KEY)  # True, unless it went with the array
    assert not blob.remove(KEY)
    publish(blob)
    memory = memoryview(blob)
    with pytest.raises(skymem.BusyError, match="arrays of its memory"):
        blob.close()
    memory.release()
    block = reader.get(KEY)
    assert block is not None
    del block  # dropped, not ended
    assert blob.remove(KEY, timeout=30)
    reader.close()
    reader.close()
    assert reader.closed and not blob.closed


def test_remove_waits_for_a_reader(blob: skymem.Blob, reader: skymem.Blob) -> None:
    publish(blob)
    block = reader.get(KEY)
    assert block is not None
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(blob.remove(KEY)))
    thread.start()
    while reader.get(KEY) is not None:  # until it is withdrawn
        pass
    assert not done and block.read(0) == bytes_of(0, 0) + bytes_of(0, 1)
    with pytest.raises(skymem.BusyError, match="calls are under way"):
        blob.close()
    block.end()
    thread.join(60)
    assert done == [True]


def test_ctrl_c_ends_remove(host: str, script: Script) -> None:
    text = """
import signal, sys, threading, skymem
mine, yours = skymem.Blob(sys.argv[1], 4096), skymem.Blob(sys.argv[1])
mine.put(skymem.Layout(b"k" * 32, [0], [9], (1, 1, 1)))
block = yours.get(b"k" * 32)
def press():
    while yours.get(b"k" * 32) is not None:
        pass
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=press).start()
try:
    mine.remove(b"k" * 32)
except KeyboardInterrupt:
    print("ended")
"""
    assert script(text, host).stdout == "ended\n"


def test_an_owner_that_dies(host: str, reader: skymem.Blob) -> None:
    text = """
import sys, skymem
blob = skymem.Blob(sys.argv[1], 4096)
memoryview(blob)[:5] = b"hello"
blob.put(skymem.Layout(b"k" * 32, [0], [5], (1, 1, 1)))
print("there", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", text, host], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout and owner.stdout.readline() == b"there\n"
        block = reader.get(KEY)
        assert block is not None
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    while reader.get(KEY) is not None:  # until the host noticed
        pass
    assert block.read() == b"hello" == bytes(block.view(0))


def test_memory_of_the_caller(host: str, reader: skymem.Blob) -> None:
    fd = os.memfd_create("region", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 8192)
    memory = mmap.mmap(fd, 8192)
    for _ in range(2):  # the second time it is sealed already
        with skymem.Blob(host, 8192, fd=fd) as blob:
            memory[4096:4100] = b"mine"
            with memoryview(blob) as seen:
                assert seen.readonly and bytes(seen[4096:4100]) == b"mine"
            blob.put(Layout(KEY, [4096], [4], (1, 1, 1)))
            with reader.get(KEY) as block:
                assert block.read() == b"mine"
    memory.close()
    os.close(fd)
    with pytest.raises(skymem.ParamError, match="memfd"), open(__file__, "rb") as file:
        skymem.Blob(host, 100, fd=file.fileno())
    with pytest.raises(skymem.ParamError, match="is not open"):
        skymem.Blob(host, 100, fd=99999)


def test_a_cache_finds_it(host: str, blob: skymem.Blob) -> None:
    publish(blob)
    with skymem.Cache(host) as cache:
        assert cache.has(KEY)
        assert cache.get(KEY, size=SIZE) == bytes_of(0, 0)


def test_fork(blob: skymem.Blob, reader: skymem.Blob) -> None:
    publish(blob)
    block = reader.get(KEY)
    assert block is not None
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (
                lambda: blob.take(1), lambda: reader.get(KEY), lambda: block.read(),
                lambda: block.view(0), lambda: blob.remove(KEY), lambda: block.check(),
            ):  # fmt: skip
                with pytest.raises(skymem.ForkedError):
                    call()
            with pytest.raises(BufferError):
                memoryview(blob)
            blob.close()
            reader.close()  # though the parent's block is open
            block.end()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert block.read(0) == bytes_of(0, 0) + bytes_of(0, 1)


BAD: list[tuple[Callable[[skymem.Blob, Any], Any], type[Exception], str]] = [
    (lambda b, k: b.put((KEY, [0], [1], (1, 1, 1))), TypeError, "a layout is"),
    (lambda b, k: b.put([1]), TypeError, "a layout is"),
    (lambda b, k: b.put(Layout(b"x", [0], [1], (1, 1, 1))), ValueError, "32 bytes"),
    (lambda b, k: b.put(Layout("x", [0], [1], (1, 1, 1))), TypeError, "is bytes"),
    (lambda b, k: b.put(Layout(KEY, [], [], (1, 1, 1))), ValueError, "1 to 4096 buffers, not 0"),
    (lambda b, k: b.put(Layout(KEY, [0] * 4097, [1], (1, 1, 1))), ValueError, "not 4097"),
    (lambda b, k: b.put(Layout(KEY, [0], [1, 1], (1, 1, 1))), ValueError, "1 offsets and 2 sizes"),
    (lambda b, k: b.put(Layout(KEY, [0], [1], (1, 2, 1))), ValueError, "shape of 1, 2, 1"),
    (lambda b, k: b.put(Layout(KEY, [0], [1], (2**31, 2**31, 4))), ValueError, "for a shape of"),
    (lambda b, k: b.put(Layout(KEY, [0], [1], (2**32, 1, 1))), ValueError, "below 2..32"),
    (lambda b, k: b.put(Layout(KEY, [0], [1], (-1, 1, 1))), ValueError, "0 or more"),
    (lambda b, k: b.put(Layout(KEY, [0], [1], (1, 1))), TypeError, "a layout is"),
    (lambda b, k: b.put(Layout(KEY, [0], [1], None)), TypeError, "a layout is"),
    (lambda b, k: b.put(Layout(KEY, [0], [1], (1, 1, 1), 3)), skymem.ParamError, "0 of 1"),
    (lambda b, k: b.put(Layout(KEY, [0], [0], (1, 1, 1))), skymem.ParamError, "0 of 1"),
    (lambda b, k: b.put(Layout(KEY, [1 << 20], [1], (1, 1, 1))), skymem.ParamError, "0 of 1"),
    (lambda b, k: b.put(Layout(KEY, [1], [1 << 20], (1, 1, 1))), skymem.ParamError, "0 of 1"),
    (lambda b, k: b.put(Layout(KEY, [2**64 - 1], [2], (1, 1, 1))), skymem.ParamError, "0 of 1"),
    (lambda b, k: b.put(Layout(KEY, [2**64], [1], (1, 1, 1))), OverflowError, "."),
    (lambda b, k: b.put(Layout(KEY, [-1], [1], (1, 1, 1))), OverflowError, "."),
    (lambda b, k: b.put(Layout(KEY, [0.5], [1], (1, 1, 1))), TypeError, "."),
    (lambda b, k: b.put(Layout(KEY, 7, [1], (1, 1, 1))), TypeError, "."),
    (lambda b, k: b.put_many(7), TypeError, "."),
    (lambda b, k: b.put(Layout(KEY, [0], [1], (1, 1, 1))), skymem.BusyError, "busy|in use|again"),
    (lambda b, k: b.put(Layout(b"y" * 32, [0], [1], (1, 1, 1)), timeout=-1), ValueError, "timeout"),
    (lambda b, k: b.get("x" * 32), TypeError, "is bytes"),
    (lambda b, k: b.get(b"x"), ValueError, "32 bytes"),
    (lambda b, k: b.get(KEY, timeout=float("nan")), ValueError, "timeout"),
    (lambda b, k: b.remove(b"x"), ValueError, "32 bytes"),
    (lambda b, k: b.take(0), skymem.ParamError, "take: 0 bytes"),
    (lambda b, k: b.take(-1), OverflowError, "."),
    (lambda b, k: b.take(2 << 20), skymem.FullError, "take: 2097152 bytes of a region of 1048576"),
    (lambda b, k: b.take(2**64 - 1), skymem.FullError, "take"),
    (lambda b, k: b.take("1"), TypeError, "."),
    (lambda b, k: b.give(1 << 19), skymem.ParamError, "was not taken"),
    (lambda b, k: b.give(2**64 - 1), skymem.ParamError, "was not taken"),
    (lambda b, k: k.view(LAYERS), IndexError, "no buffer"),
    (lambda b, k: k.view(0, 2), IndexError, "no buffer"),
    (lambda b, k: k.view(0, 0, 1), IndexError, "no buffer"),
    (lambda b, k: k.view(-1), ValueError, "0 or more"),
    (lambda b, k: k.view(2**32), ValueError, "below"),
    (lambda b, k: k.view(None), TypeError, "."),
    (lambda b, k: k.read(LAYERS), IndexError, "no buffer"),
    (lambda b, k: k.read(2**32 - 1), IndexError, "no block has"),
    (lambda b, k: k.read(-1), ValueError, "0 or more"),
    (lambda b, k: k.read(1.5), TypeError, "."),
    (lambda b, k: k.check(LAYERS), IndexError, "no buffer"),
    (lambda b, k: k.read_into(bytearray(5)), skymem.SmallError, "30000 bytes are wanted"),
    (lambda b, k: k.read_into(bytearray(SIZE), 0), skymem.SmallError, "6000 bytes are wanted"),
    (lambda b, k: k.read_into(b"x" * (1 << 20)), BufferError, "read-only"),
    (lambda b, k: k.read_into(k.view(0), 0), BufferError, "read-only"),
    (lambda b, k: k.read_into([]), ValueError, "1 to 4096 buffers"),
    (lambda b, k: k.read_into([bytearray(1)] * 4097), ValueError, "not 4097"),
    (lambda b, k: k.read_into(np.zeros((99, 999), np.uint8)[:, :2]), BufferError, "gaps"),
    (lambda b, k: k.read_into(bytearray(1 << 20), LAYERS), IndexError, "no buffer"),
    (lambda b, k: k.read_into(None), TypeError, "is wanted"),
    (lambda b, k: skymem.Blob("mem:1MiB"), skymem.UrlError, "."),
    (lambda b, k: skymem.Blob("shm:/nowhere/at/all"), skymem.IoError, "nowhere"),
    (lambda b, k: skymem.Blob("shm:/a\0b"), ValueError, "."),
    (lambda b, k: skymem.Blob(7), TypeError, "."),
    (lambda b, k: _core.Block(), TypeError, "."),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input(blob: skymem.Blob, reader: skymem.Blob, number: int) -> None:
    call, kind, sentence = BAD[number]
    publish(blob)
    with reader.get(KEY) as block, pytest.raises(kind, match=sentence):
        call(blob, block)
    assert blob.remove(KEY, timeout=30)


def test_bad_sizes(host: str, reader: skymem.Blob) -> None:
    for size in (-1, 2**64):
        with pytest.raises(OverflowError):
            skymem.Blob(host, size)
    for size in (2**64 - 1, 2**63, 2**45):
        with pytest.raises((skymem.ParamError, skymem.NoMemoryError, skymem.FullError)):
            skymem.Blob(host, size)
    with pytest.raises(BufferError, match="no memory here"):
        memoryview(reader)
    with pytest.raises(skymem.ParamError):
        reader.take(1)
    reader.close()
    with pytest.raises(BufferError, match="closed; open another"):
        memoryview(reader)
    for call in (lambda: reader.get(KEY), lambda: reader.take(1), lambda: reader.remove(KEY)):
        with pytest.raises(ValueError, match="closed; open another"):
            call()


def test_threads(host: str, blob: skymem.Blob, reader: skymem.Blob) -> None:
    """Reads, views and ends of one block at once, and of many."""
    publish(blob)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(200):
            block = reader.get(KEY)
            if block is None:
                wrong.append("a miss")
                return
            end = threading.Thread(target=block.end)
            end.start()
            try:
                if bytes(block.view(2)) != bytes_of(2, 0) or len(block.read(1)) != 2 * SIZE:
                    wrong.append("other bytes")
            except ValueError as error:  # it ended before
                if "get it again" not in str(error):
                    raise
            end.join()  # or it is in use still, when the reader closes

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert blob.remove(KEY, timeout=60)


def test_the_host_ends(tmp_path: Path) -> None:
    with daemon(tmp_path) as (url, process):
        with skymem.Blob(url, 1 << 20) as blob, skymem.Blob(url) as reader:
            layout = publish(blob)
            block = reader.get(KEY)
            assert block is not None
            process.kill()
            process.wait()
            for call in (
                lambda: reader.get(KEY), lambda: blob.remove(KEY),
                lambda: blob.put(layout._replace(key=b"x" * 32)),
            ):  # fmt: skip
                with pytest.raises(skymem.IoError):
                    call()
            assert block.read(0) == bytes_of(0, 0) + bytes_of(0, 1)
            block.end()
