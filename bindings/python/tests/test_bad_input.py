"""Proves that bad input ends in an exception that says what to do, never in a crash."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skymem
from conftest import Script
from skymem import _core

KEY = b"k" * 32
BAD: list[tuple[Callable[[skymem.Cache], Any], type[Exception], str]] = [
    (lambda c: c.get_into("a", b"x" * 9), BufferError, "out: .*read-only; pass a bytearray"),
    (lambda c: c.get_into("a", np.frombuffer(b"x" * 9, np.uint8)), BufferError, "read-only"),
    (lambda c: c.get_into("a", np.zeros((9, 2), np.uint8)[:, 0]), BufferError, "copy from it"),
    (lambda c: c.put("a", np.zeros((9, 2), np.uint8)[:, 0]), BufferError, "ascontiguousarray"),
    (lambda c: c.put("a", np.array([object()])), TypeError, "give it a dtype of numbers"),
    (lambda c: c.get_into("a", np.array([object()] * 9)), TypeError, "array of Python objects"),
    (lambda c: c.get_into("a", np.zeros(1, [("x", "O")])), TypeError, "array of Python objects"),
    (lambda c: c.put("a", np.zeros(1, "M8[s]")), BufferError, "view.numpy.uint8"),
    (lambda c: c.put("a", "text"), TypeError, "bytes, a memoryview, a numpy array or a tensor"),
    (lambda c: c.put("a", None), TypeError, "is wanted, not"),
    (lambda c: c.put_many(["a", "b"], [b"x"]), ValueError, "1 buffers for 2 keys"),
    (lambda c: c.put_many([KEY], [b"x"], parents=[]), ValueError, "one for each key"),
    (lambda c: c.put_many([KEY], [b"x"], parents=["a"]), TypeError, "a block's key is bytes"),
    (lambda c: c.put("a", b"x", parent=KEY), skymem.ParamError, "an argument is out of range"),
    (lambda c: c.put(b"short", b""), ValueError, "32 bytes, not 5; a name is a str"),
    (lambda c: c.put("", b""), ValueError, "1 to 1024 bytes"),
    (lambda c: c.put("x" * 1025, b""), ValueError, "not 1025"),
    (lambda c: c.put("\ud800", b""), UnicodeEncodeError, "surrogates"),
    (lambda c: c.put(7, b""), TypeError, "a block's key is bytes"),
    (lambda c: c.start("get", [], [b"x"]), ValueError, "1 buffers for 0 keys"),
    (lambda c: c.run(99, []), skymem.ParamError, "not started"),
    (lambda c: c.has_many(["a"] * 70000), ValueError, "at most 65536"),
    (lambda c: c.get_into("a", bytearray(3)), skymem.SmallError, "get of a: .* too small"),
    (lambda c: c.get_into("a", [bytearray(3), -1]), OverflowError, "negative"),
    (lambda c: c.get("a", timeout=-1), ValueError, "timeout: seconds"),
    (lambda c: c.get("a", timeout=float("nan")), ValueError, "timeout: seconds"),
    (lambda c: c.get("a", tiers=[5]), skymem.ParamError, "tiers: .* its tiers are 0 to 0"),
    (lambda c: c.get("a", tiers=[99]), ValueError, "tiers: places from 0"),
    (lambda c: c.get("a", tiers=[-1]), ValueError, "tiers: places from 0"),
    (lambda c: c.put(KEY, b"x", ttl=-1), ValueError, "ttl: 0 or more"),
    (lambda c: c.get("a", offset=-1), ValueError, "offset: 0 or more"),
    (lambda c: c.get_into("a", bytearray(9), size=-1), ValueError, "size: 0 or more"),
    (lambda c: c.start("what", ["a"]), ValueError, "op: one of has, get"),
    (lambda c: c.start("put", ["a"]), TypeError, "put: values are wanted"),
    (lambda c: c.start("get", ["a"], [b"read-only"]), BufferError, "read-only"),
    (lambda c: c.run(99, ["a"]), skymem.ParamError, "not started"),
    (lambda c: c.run(-1, ["a"]), skymem.ParamError, "not started"),
    (lambda c: c.submit(_core.OP_get, ["a"], event_fd=1), skymem.ParamError, "not started"),
    (lambda c: c.prefix(["a"]), TypeError, "a block's key is bytes"),
    (lambda c: c.prefix([b"a"]), ValueError, "32 bytes"),
    (lambda c: c.prefix([KEY], timeout=-1), ValueError, "timeout: seconds"),
    (lambda c: c.put("a", b"x", if_version=-1), ValueError, "if_version: that of"),
    (lambda c: c.put("a", b"x", if_version=2**64), ValueError, "if_version: that of"),
    (lambda c: c.put("a", b"x", if_version=1), skymem.UnsupportedError, "keeps versions"),
    (lambda c: c.remove("a", if_version=0), skymem.UnsupportedError, "`tiers` names it"),
    (lambda c: skymem.block_keys([1] * 128, block_tokens=2**32 + 1), ValueError, "below 2..32"),
    (lambda c: skymem.block_keys([1] * 128, block_tokens=0), ValueError, "1 or more, not 0"),
    (lambda c: skymem.block_keys([-1] * 128), ValueError, "0 or more and below 2..32.*not -1"),
    (lambda c: skymem.block_keys([2**32] * 128), ValueError, "below 2..32"),
    (lambda c: c.get("a", timeout="1"), TypeError, "timeout: seconds or None.*not '1'"),
    (lambda c: c.get("a", offset=-1), ValueError, "^offset: 0 or more is wanted$"),
    (lambda c: skymem.Cache("mem:1MiB", salt=b"x"), ValueError, "salt: 32 secret bytes"),
    (lambda c: skymem.Cache([Path("/")]), TypeError, "urls: a str"),  # type: ignore[list-item]
    (lambda c: c.get("a", level=5), ValueError, "level: one of lossless, 8, .* not 5"),
    (lambda c: c.put("a", b"", if_version=1.5), TypeError, "if_version.*not 1.5"),
    (lambda c: skymem.register_tier("wide", dict, threads=2**32), ValueError, "below 2..32"),
    (lambda c: skymem.block_keys([0.5] * 128), TypeError, "."),  # type: ignore[list-item]
    (lambda c: skymem.block_keys([1], namespace=b"x"), ValueError, "namespace"),
    (lambda c: skymem.block_keys([1] * 128, after=b"x"), ValueError, "after: a block's key has 32"),
    (lambda c: skymem.block_keys([1] * 128, after="x"),  # type: ignore[arg-type]
     TypeError, "after: a block's key is bytes"),
    (lambda c: skymem.Cache("what:ever"), skymem.UrlError, "no store is called 'what'"),
    (lambda c: skymem.Cache("sky:nope"), skymem.UrlError, "sky:nope: .* there are .*, seed, "),
    (lambda c: skymem.Cache([]), skymem.ParamError, "."),
    (lambda c: skymem.Cache("mem:-1"), skymem.UrlError, "mem"),
    (lambda c: skymem.Cache(7), TypeError, "."),  # type: ignore[arg-type]
    (lambda c: skymem.Cache([7]), TypeError, "."),  # type: ignore[list-item]
    (lambda c: skymem.Cache("mem:16MiB\0?x"), ValueError, "has a NUL"),
    (lambda c: skymem.Cache(["mem:16MiB", "disk:/tmp/a\0b"]), ValueError, "has a NUL"),
    (lambda c: skymem.keys.read_salt("/tmp/a\0b"), ValueError, "has a NUL"),
    (lambda c: skymem.Cache("disk:/proc/none"), skymem.Error, "/proc/none"),
    (lambda c: _core.Batch(), TypeError, "cannot create"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_it_says_what_to_do(cache: skymem.Cache, number: int) -> None:
    cache.put("a", b"123456789")
    call, kind, words = BAD[number]
    with pytest.raises(kind, match=words):
        call(cache)
    assert cache.get("a") == b"123456789"


@pytest.mark.parametrize("grows", [False, True])
def test_lists_that_change_under_their_opening(cache: skymem.Cache, grows: bool) -> None:
    first: list[Any] = []
    last: list[Any] = [b"z"]

    class Changing:
        def __dlpack__(self, **_: Any) -> object:
            if grows:
                last.extend([b"y"] * 5000)
            else:
                first.clear()
            return np.zeros(4, np.uint8).__dlpack__()

    first.extend([Changing(), b"x"])
    with pytest.raises((ValueError, IndexError), match="changed meanwhile|list index"):
        cache.put_many([KEY, b"l" * 32], [first, last])


def test_memory_that_is_gone_is_said(cache: skymem.Cache) -> None:
    view = memoryview(bytearray(9))
    view.release()
    with pytest.raises(BufferError, match="value: .*released memoryview.*pass an open one"):
        cache.put("a", view)
    mapped = mmap.mmap(-1, 4096)
    mapped.close()
    with pytest.raises(BufferError, match="out: .*mmap closed.*pass an open one"):
        cache.get_into("a", mapped)


def test_a_lease_is_in_one_with(cache: skymem.Cache) -> None:
    cache.put("a", b"hello")
    with cache.lease("a") as view, pytest.raises(BufferError, match="has ended"):
        lease = cache.lease("a")
        with lease as first:
            with pytest.raises(RuntimeError, match="in a with already"):
                lease.__enter__()
            assert bytes(first) == bytes(view) == b"hello"
        lease.__enter__()


def test_closed_is_said(cache: skymem.Cache) -> None:
    batch = cache.submit(_core.OP_has, ["a"])
    cache.close()
    cache.close()
    assert batch.wait(None)
    for call in (cache.list, cache.stat, cache.metrics, cache.prometheus, cache.verify,
                 lambda: cache.get("a"), lambda: cache.has("a"), lambda: cache.flush(None),
                 lambda: cache.prefix([KEY])):  # fmt: skip
        with pytest.raises(ValueError, match="the cache is closed; open another one"):
            call()


def test_arrays_live_as_long_as_the_batch(script: Script, tmp_path: Path) -> None:
    # Each buffer is a mapping of its own: freed too early it is a crash, or wrong bytes.
    script(
        """
import gc, sys, numpy as np, skymem
from skymem import _core
cache = skymem.Cache([f"disk:{sys.argv[1]}/store"])
keys = [bytes([i + 1]) * 32 for i in range(16)]
batch = cache.submit(_core.OP_put, keys, [np.full(1 << 20, i, np.uint8) for i in range(16)])
gc.collect()
junk = [np.full(1 << 20, 255, np.uint8) for i in range(32)]
assert batch.wait(None)
batch.check()
out = [np.empty(1 << 20, np.uint8) for _ in keys]
batch = cache.submit(_core.OP_get, keys, out)
try:
    out[0].resize(5)  # it is held
    held = False
except ValueError:
    held = True
seen = out[3]
del out
gc.collect()
assert batch.wait(None) and batch.sizes() == [1 << 20] * 16 and (seen == 3).all() and held
for _ in range(50):  # dropped under way: cancelled before the memory goes
    cache.submit(_core.OP_get, keys, [np.empty(1 << 20, np.uint8) for _ in keys])
cache.close()
""",
        str(tmp_path),
    )


@pytest.mark.parametrize("call", ["get_into", "prefix"])
def test_ctrl_c_ends_a_blocking_call(script: Script, call: str) -> None:
    # A store that answers only after the interrupt: nothing but the interrupt can end the get.
    done = script(
        """
import os, signal, sys, threading, skymem
class Store:
    def __init__(self, where): pass
    def read(self, key, offset, size):
        reading.set()
        if not interrupted.wait(20):
            print("late")
        raise KeyError(key)
    def write(self, key, value, durable): pass
    def remove(self, key): return False
reading, interrupted = threading.Event(), threading.Event()
def press():
    reading.wait()
    os.kill(os.getpid(), signal.SIGINT)
skymem.register_tier("silent", Store)
cache = skymem.Cache("silent:1")
threading.Thread(target=press).start()
out = bytearray(1 << 20)
try:
    cache.get_into(b"k" * 32, out) if sys.argv[1] == "get_into" else cache.prefix([b"k" * 32])
    print("answered")
except KeyboardInterrupt:
    out.clear()  # nobody holds it any more
    print("stopped")
interrupted.set()
cache.close()
""",
        call,
    )
    assert done.stdout == "stopped\n"


def test_ctrl_c_ends_an_opening(script: Script) -> None:
    done = script(
        """
import os, signal, skymem
class Store:
    def __init__(self, where): os.kill(os.getpid(), signal.SIGINT)
    def read(self, key, offset, size): return None
    def write(self, key, value, durable): pass
    def remove(self, key): return False
skymem.register_tier("pressed", Store)
try:
    skymem.Cache("pressed:1")
except KeyboardInterrupt:
    print("stopped")
"""
    )
    assert done.stdout == "stopped\n"


# An engine of one layer, whose state of token t is t; and a store that keeps blocks, and answers
# only after `answer` is set.
SLOW_LOAD = """
import os, signal, sys, threading, numpy as np, skymem
from skymem.manager import Manager, Sequence
class Engine:
    threads = set()
    def fingerprint(self): return bytes(32)
    def layout(self): return [(0, 1, 1, 8, 8, "f32")]
    def extract(self, first, count):
        self.threads.add(threading.get_ident())
        return [(0, rows()) for _ in range(2)]
    def restore(self, count):
        self.threads.add(threading.get_ident())
        self.state = [np.zeros((1, count, 8), np.float32) for _ in range(2)]
        return [(0, state) for state in self.state]
    def restored(self, commit): self.threads.add(threading.get_ident())
def rows(): return np.repeat(np.arange(600, dtype=np.float32)[None, :, None], 8, 2)
class Store:
    kept, slow = {}, False
    def __init__(self, where): pass
    def read(self, key, offset, size):
        if key not in self.kept: return None
        if Store.slow:
            asked.set()
            if not answer.wait(20): print("late")
        return self.kept[key][offset:offset + size], len(self.kept[key])
    def write(self, key, value, durable):
        if Store.slow:
            asked.set()
            if not answer.wait(20): print("late")
        self.kept[key] = value
    def remove(self, key): return self.kept.pop(key, None) is not None
    def keys(self): return list(self.kept)
asked, answer = threading.Event(), threading.Event()
skymem.register_tier("slow", Store)
cache = skymem.Cache("slow:1")
engine = Engine()
manager = Manager(cache, engine)
"""


@pytest.mark.parametrize("call", ["look", "save"])
def test_ctrl_c_ends_a_load_and_a_save(script: Script, call: str) -> None:
    done = script(
        SLOW_LOAD
        + """
tokens = list(range(600))
if sys.argv[1] == "look":
    assert Sequence(manager, engine).save(tokens)[0] == 4
    assert Sequence(manager, engine).look(tokens).hit_tokens == 512
    assert (engine.state[0] == rows()[:, :512]).all()
    assert engine.threads == {threading.get_ident()}
Store.slow = True
def press():
    asked.wait()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press).start()
sequence = Sequence(manager, engine)
try:
    getattr(sequence, sys.argv[1])(tokens)
    print("answered")
except KeyboardInterrupt:
    print("stopped", answer.is_set())
answer.set()
Store.slow = False
try:
    sequence.look(tokens)
except skymem.CancelledError:
    print("spent")
if sys.argv[1] == "look":
    assert Sequence(manager, engine).look(tokens).hit_tokens == 512
del sequence, manager
cache.close()
""",
        call,
    )
    assert done.stdout == "stopped False\nspent\n"


def test_the_end_of_the_interpreter_while_a_daemon_thread_loads(script: Script) -> None:
    script(
        SLOW_LOAD
        + """
tokens = list(range(600))
assert Sequence(manager, engine).save(tokens)[0] == 4
Store.slow = True
threading.Thread(target=Sequence(manager, engine).look, args=(tokens,), daemon=True).start()
asked.wait()
threading.Timer(1, answer.set).start()
"""
    )


def test_a_thread_that_keeps_the_gil_delays_and_no_more(cache: skymem.Cache) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.2)  # so long a thread that computes keeps it, when others want it
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(10000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        cache.put("a", bytes(1 << 20))
        batch = cache.submit(_core.OP_get, ["a"], [bytearray(1 << 20)])
        assert batch.wait(None) and batch.sizes() == [1 << 20]
        assert cache.get("a", timeout=60) == bytes(1 << 20)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("call", ["list", "verify"])
def test_ctrl_c_ends_a_listing_and_a_check(script: Script, call: str) -> None:
    # Pressed in a store, on a thread of the library; a thousand values would take ten seconds.
    done = script(
        """
import os, signal, sys, time, skymem
class Store:
    kept, reads = {}, 0
    def __init__(self, where): pass
    def read(self, key, offset, size):
        if walking:
            Store.reads += 1
            if Store.reads == 1:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        value = self.kept[key]
        return value[offset:offset + size], len(value)
    def write(self, key, value, durable): self.kept[key] = value
    def remove(self, key): return self.kept.pop(key, None) is not None
    def keys(self): return list(self.kept)
walking = False
skymem.register_tier("pressed", Store)
cache = skymem.Cache("pressed:1")
cache.put_many([f"{n}" for n in range(1000)], [b"1"] * 1000)
walking = True
try:
    getattr(cache, sys.argv[1])()
except KeyboardInterrupt:
    print("stopped", Store.reads < 900)
walking = False
assert len(cache.list()) == 1000 and cache.verify().entries == 1000
cache.close()
""",
        call,
    )
    assert done.stdout == "stopped True\n" and done.stderr == ""


def test_the_end_of_the_interpreter_with_work_under_way(script: Script) -> None:
    script(
        """
import threading, skymem, numpy as np
from skymem import _core
cache = skymem.Cache("sky:seed")
keys = [bytes([i + 1]) * 32 for i in range(8)]
cache.put_many(keys, [bytes(1 << 18)] * 8)
def forever():
    out = bytearray(1 << 18)
    while True:
        cache.get_into(keys[0], out)
threads = [threading.Thread(target=forever, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
left = cache.submit(_core.OP_get, keys, [np.empty(1 << 18, np.uint8) for _ in keys])
"""
    )


def test_a_call_that_waits_gives_up_at_the_end(script: Script) -> None:
    # What ends after the package itself finds the cache closed, though a thread was in a get.
    done = script(
        """
import atexit, threading
atexit.register(lambda: print(cache.closed))
import skymem
class Store:
    def __init__(self, where): pass
    def read(self, key, offset, size):
        reading.set()
        threading.Event().wait(3)
        raise KeyError(key)
    def write(self, key, value, durable): pass
    def remove(self, key): return False
reading = threading.Event()
skymem.register_tier("silent", Store)
cache = skymem.Cache("silent:1")
threading.Thread(target=cache.get_into, args=(b"k" * 32, bytearray(9)), daemon=True).start()
reading.wait()
"""
    )
    assert done.stdout == "True\n"


def test_close_waits_for_no_call_and_breaks_none(script: Script) -> None:
    done = script(
        """
import threading, skymem
class Store:
    def __init__(self, where): pass
    def read(self, key, offset, size):
        reading.set()
        answer.wait(20)
        return b"", 0
    def write(self, key, value, durable): pass
    def remove(self, key): return False
reading, answer = threading.Event(), threading.Event()
skymem.register_tier("silent", Store)
cache = skymem.Cache("silent:1")
thread = threading.Thread(target=cache.has, args=(b"k" * 32,))
thread.start()
reading.wait()
try:
    cache.close()
except skymem.BusyError as error:
    print(error)
    answer.set()
    thread.join()
    cache.close()
"""
    )
    assert "1 calls are under way on other threads; wait for them first" in done.stdout


def test_a_lease_and_a_batch_outlive_the_names_of_their_cache(script: Script) -> None:
    script(
        """
import skymem, numpy as np
from skymem import _core
cache = skymem.Cache("mem:64MiB")
cache.put("a", np.arange(1000))
view = cache.lease("a").__enter__()
batch = cache.submit(_core.OP_has, ["a"])
del cache
assert bytes(view) == np.arange(1000).tobytes() and batch.wait(1) and batch.found() == [True]
"""
    )


def test_threads_do_not_wait_for_each_other(cache: skymem.Cache) -> None:
    big = np.random.default_rng(7).integers(0, 255, 4 << 20, np.uint8)
    cache.put("a", big)
    seen: list[bool] = []

    def work() -> None:
        out = np.empty_like(big)
        for _ in range(20):
            seen.append(cache.get_into("a", out) == big.nbytes and bool((out == big).all()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 80


def test_a_deadline_and_a_cancel(tmp_path: Path) -> None:
    with skymem.Cache("sky:seed") as cache:
        cache.put(KEY, bytes(1 << 20))
        out = bytearray(1 << 20)
        with pytest.raises(skymem.DeadlineError, match="the deadline passed") as raised:
            cache.get_into(KEY, out, timeout=0.0001)
        assert raised.value.name == "SKY_E_DEADLINE" and raised.value.status == -4
        batch = cache.submit(_core.OP_get, [KEY], [out])
        assert not batch.wait(0)
        batch.cancel()
        out.clear()
        assert batch.wait(None)
        with pytest.raises(skymem.CancelledError, match=f"get of {KEY.hex()}: cancelled"):
            batch.check()


def test_fork_opens_its_own(tiered: skymem.Cache) -> None:
    tiered.put("a", b"1")
    lease = tiered.lease("a")
    lent = lease.__enter__()
    batch = tiered.start("get", ["a"], [bytearray(1)])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            said = 0
            for call in (lambda: tiered.get("a"), tiered.stat, lambda: batch.wait(None)):
                try:
                    call()
                except skymem.ForkedError:
                    said += 1
            code = 2 if said == 3 else 4
            tiered.close()
            with skymem.Cache("mem:16MiB") as own:
                own.put("b", b"2")
                code = 0 if code == 2 and own.get("b") == b"2" else 3
        finally:
            os._exit(code)
    until = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    assert tiered.get("a") == b"1" == bytes(lent)
    lease.__exit__()


def test_multiprocessing(script: Script, tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        """
import multiprocessing, sys, skymem

def work(folder):
    with skymem.Cache(f"disk:{folder}/store") as cache:
        return cache.get("a")

if __name__ == "__main__":
    cache = skymem.Cache(f"disk:{sys.argv[1]}/store")
    cache.put("a", b"shared")
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(work, [sys.argv[1]] * 4) == [b"shared"] * 4
    assert cache.get("a") == b"shared"
"""
    )
    script(f"import runpy, sys; runpy.run_path({str(path)!r}, run_name='__main__')", str(tmp_path))


def test_leases_that_nobody_took_hold_the_cache() -> None:
    cache = skymem.Cache("mem:1MiB")
    cache.put("a", b"1" * 1000)
    batch = cache.start("lease", ["a"])
    assert batch.wait(None)
    with pytest.raises(skymem.BusyError, match="1 leases"):
        cache.close()
    (lease,) = batch.leases()
    assert lease is not None and memoryview(lease)[:3] == b"111"
    lease.end()
    dropped = cache.start("lease", ["a"])
    assert dropped.wait(None)
    del dropped
    under_way = cache.start("lease", ["a"])
    cache.close()
    assert under_way.leases() == [None]


class Emptier:
    """An object that empties the list it is in while it is looked at."""

    values: list[Any] = []

    def __getattribute__(self, name: str) -> Any:
        Emptier.values.clear()
        return lambda **_: None


def test_a_list_that_is_emptied_while_it_is_read() -> None:
    with skymem.Cache("mem:1MiB") as cache:
        for _ in range(1000):
            Emptier.values = [Emptier(), b"x"]
            with pytest.raises((TypeError, ValueError)):
                cache.put("a", Emptier.values)


class Tensor(ctypes.Structure):
    """DLPack's, without the end that its owner has."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("id", ctypes.c_int32),
                ("dims", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]  # fmt: skip


class Liar:
    """A tensor of a shape that no tensor has, or without memory."""

    def __init__(self, shape: list[int] | None, dims: int, memory: bool = True) -> None:
        self.memory, self.shape = bytearray(64), (ctypes.c_int64 * 4)(*(shape or []))
        data = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) if memory else None
        self.tensor = Tensor(data, 1, 0, dims, 1, 8, 1)
        if shape is not None:
            self.tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))

    def __dlpack__(self) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


LIES = [Liar([-1], 1), Liar([-8, -8], 2), Liar([1 << 62], 1), Liar([1 << 33, 1 << 33], 2),
        Liar(None, 1), Liar([64], 1, memory=False), Liar([1], -1)]  # fmt: skip


@pytest.mark.parametrize("liar", LIES)
def test_tensors_that_lie(liar: Any) -> None:
    with skymem.Cache("mem:1MiB") as cache:
        cache.put("a", b"x" * 64)
        for call in (lambda: cache.put("b", liar), lambda: cache.get_into("a", liar),
                     lambda: skymem.digest(liar)):  # fmt: skip
            with pytest.raises((TypeError, ValueError, BufferError), match="tensor"):
                call()
        assert not cache.has("b") and liar.memory == bytes(64)
