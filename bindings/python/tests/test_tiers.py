"""Proves that a store written in Python is a tier like others, and that its faults are misses or
errors, never wrong bytes or a crash."""

from __future__ import annotations

import errno
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skymem
from conftest import Script
from skymem.tiers import FsspecStore, register_tier


class Derived(skymem.Error):
    """What a store may raise: an error of its own."""


class DictStore:
    values: dict[bytes, bytes] = {}
    raises: BaseException | None = None
    answer: Any = None
    closed = 0

    def __init__(self, where: str) -> None:
        if where.startswith("refuse"):
            raise ValueError(f"no store at {where}")

    def read(self, key: bytes, offset: int, size: int) -> Any:
        if DictStore.raises:
            raise DictStore.raises
        if DictStore.answer is not None:
            return DictStore.answer
        value = self.values.get(key)
        return value and (value[offset : offset + size], len(value))

    def write(self, key: bytes, value: bytes, durable: bool) -> None:
        if DictStore.raises:
            raise DictStore.raises
        self.values[key] = value

    def remove(self, key: bytes) -> bool:
        return self.values.pop(key, None) is not None

    def keys(self) -> list[bytes]:
        return list(self.values)

    def usage(self) -> tuple[int, int, int]:
        return len(self.values), sum(map(len, self.values.values())), 1 << 30

    def close(self) -> None:
        DictStore.closed += 1


register_tier("dict", DictStore, threads=4)
KEY = b"k" * 32


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    DictStore.values, DictStore.raises, DictStore.answer = {}, None, None
    yield
    DictStore.raises = DictStore.answer = None


def test_it_is_a_tier_like_others() -> None:
    closed = DictStore.closed
    with skymem.Cache(["mem:16MiB", "dict:x"]) as cache:
        cache.put("a", b"hello", ttl=1000)
        cache.put_many([KEY], [bytes(100000)])
        cache.flush(None)
        assert len(DictStore.values) == 2
        assert {e.name for e in cache.list() if e.tier == 1} == {"a", None}
        numbers = {(s.name, s.tier): s.number for s in cache.metrics()}
        assert numbers["skymem_tier_entries", 1] == 2
        assert numbers["skymem_tier_limit_bytes", 1] == 1 << 30
    assert DictStore.closed == closed + 1
    with skymem.Cache(["dict:x"]) as cache:
        assert cache.get("a") == b"hello" and cache.get("b") is None
        assert cache.get(KEY, offset=5, size=10) == bytes(10)
        assert cache.prefix([KEY]) == 1
        assert cache.remove("a") and not cache.has("a")


def test_damage_is_no_answer() -> None:
    with skymem.Cache("dict:x") as cache:
        cache.put("a", b"hello")
        (key,) = DictStore.values
        DictStore.values[key] = DictStore.values[key].replace(b"hello", b"hallo")
        with pytest.raises(skymem.CorruptError):
            cache.get("a")
        assert cache.get("a") is None and not DictStore.values


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (KeyError("gone"), None),
        (skymem.MissError("gone"), None),
        (skymem.BusyError("later"), skymem.BusyError),
        (skymem.Error("it has no status"), skymem.IoError),
        (Derived("nor has this"), skymem.IoError),
        (PermissionError("no"), skymem.DeniedError),
        (MemoryError(), skymem.NoMemoryError),
        (OSError(errno.EIO, "broken"), skymem.IoError),
        (ZeroDivisionError("a fault"), skymem.IoError),
    ],
)
def test_what_a_store_raises(raised: Any, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with skymem.Cache("dict:x") as cache:
        cache.put("a", b"hello")
        DictStore.raises = raised
        if kind:
            with pytest.raises(kind):
                cache.get("a")
        else:
            assert cache.get("a") is None
        DictStore.raises = None
    assert bool(printed) == isinstance(raised, ZeroDivisionError)


@pytest.mark.parametrize(
    "answer",
    [(b"", 5), (b"x" * 4096, 1 << 40), ("text", 5), 7, (b"x",), (b"x" * 10, -1), (b"x" * 500, 500)],
)
def test_wrong_answers(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with skymem.Cache("dict:x") as cache:
        cache.put("a", b"hello")
        DictStore.answer = answer
        with pytest.raises((skymem.CorruptError, skymem.IoError)):
            cache.get("a", timeout=30)


def test_no_room() -> None:
    with skymem.Cache("dict:x") as cache:
        DictStore.raises = OSError(errno.ENOSPC, "full")
        with pytest.raises(skymem.FullError):
            cache.put("a", b"hello")


def test_schemes() -> None:
    for scheme, threads in (("not a scheme", 1), ("dict", 1), ("mem", 1), ("many", 1000)):
        with pytest.raises(skymem.Error, match=f"the scheme {scheme} is none or is taken"):
            register_tier(scheme, DictStore, threads=threads)
    with pytest.raises(skymem.Error, match="no store at refuse"):
        skymem.Cache("dict:refuse")


def test_a_scheme_again() -> None:
    made = []
    for run in range(2):

        class Numbered(DictStore):
            number = run

            def __init__(self, where: str) -> None:
                super().__init__(where)
                made.append(self.number)

        register_tier("again", Numbered)
        with skymem.Cache("again:x"):
            pass
    assert made == [0, 1]


def test_a_scheme_from_many_threads() -> None:
    wrong = []

    def register(start: threading.Barrier) -> None:
        start.wait()
        try:
            register_tier("race", Plain)
        except skymem.Error as error:
            wrong.append(error)

    class Plain(DictStore):
        pass

    start = threading.Barrier(8)
    threads = [threading.Thread(target=register, args=(start,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_pins() -> None:
    with skymem.Cache(["mem:16MiB", "dict:x"]) as cache:
        cache.put("a", b"hello", tiers=[1])
        with pytest.raises(skymem.UnsupportedError):
            cache.pin("a")
        assert not cache.pin("b") and not cache.unpin("b")


def test_a_slow_store_meets_deadlines() -> None:
    class Slow(DictStore):
        def read(self, key: bytes, offset: int, size: int) -> Any:
            time.sleep(0.3)
            return super().read(key, offset, size)

    register_tier("slow", Slow)
    with skymem.Cache("slow:x") as cache:
        cache.put("a", b"hello")
        with pytest.raises(skymem.DeadlineError):
            cache.get("a", timeout=0.01)
        threads = [threading.Thread(target=cache.get, args=("a",)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_statistics_do_not_wait_for_a_store() -> None:
    writing, answer = threading.Event(), threading.Event()

    class Slow(DictStore):
        def write(self, key: bytes, value: bytes, durable: bool) -> None:
            writing.set()
            assert answer.wait(60)
            super().write(key, value, durable)

    register_tier("slowwrite", Slow)
    with skymem.Cache(["mem:16MiB", "slowwrite:x"]) as cache:
        limit = 'skymem_tier_limit_bytes{tier="1",kind="slowwrite"} 1073741824'
        assert limit in cache.prometheus()
        cache.put(KEY, b"hello")  # written back behind the answer
        assert writing.wait(60)
        try:
            numbers = {(s.name, s.tier): s.number for s in cache.metrics()}
            assert numbers["skymem_tier_limit_bytes", 1] == 1 << 30
            assert numbers["skymem_tier_entries", 1] == 0  # as it counted last
            assert limit in cache.prometheus()
            assert [t.failing for t in cache.stat()] == [False, False]
        finally:
            answer.set()
        cache.flush(None)
        numbers = {(s.name, s.tier): s.number for s in cache.metrics()}
        assert numbers["skymem_tier_entries", 1] == 1


def test_the_end_of_the_interpreter(script: Script) -> None:
    done = script(
        """
import threading, time, skymem
from skymem.tiers import register_tier
class Store:
    def __init__(self, where): self.values = {}
    def read(self, key, offset, size):
        time.sleep(0.05)
        value = self.values.get(key)
        return value and (value[offset:offset + size], len(value))
    def write(self, key, value, durable): self.values[key] = value; print("written")
    def remove(self, key): return False
register_tier("own", Store)
cache = skymem.Cache(["mem:16MiB", "own:x"])
cache.put(b"k" * 32, b"hello")  # written back behind the answer
def forever():
    while True:
        cache.get("b")
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
"""
    )
    assert done.stdout == "written\n"


def test_fsspec(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    register_tier("fsspec", FsspecStore)
    for url in (f"fsspec:file://{tmp_path}/folder", "fsspec:memory://folder"):
        with skymem.Cache(["mem:16MiB", url]) as cache:
            cache.put("a", b"hello")
            cache.put(KEY, bytes(100000))
        with skymem.Cache(url) as cache:
            assert cache.get("a") == b"hello" and cache.get(KEY) == bytes(100000)
            assert sorted(e.size for e in cache.list()) == [5, 100000]
            assert cache.remove("a") and cache.get("a") is None


def test_each_scheme_has_its_own_store(script: Script) -> None:
    script(
        """
import skymem
def store_of(number):
    class Store:
        def __init__(self, where): self.values = {}
        def read(self, key, offset, size): return self.values.get(key)
        def write(self, key, value, durable): written.append(number)
        def remove(self, key): return False
    return Store
written = []
for number in range(32):
    skymem.register_tier(f"own{number}", store_of(number))
try:
    skymem.register_tier("more", store_of(32))
    raise SystemExit("there is no end")
except skymem.FullError as error:
    assert "32 schemes are registered" in str(error)
for number in (31, 0, 20):
    with skymem.Cache(f"own{number}:x") as cache:
        cache.put("a", b"1")
assert written == [31, 0, 20]
"""
    )


def test_an_error_without_a_status_loses_nothing() -> None:
    def refuse(where: str) -> Any:
        raise Derived("no such store")

    register_tier("derived", refuse)
    with pytest.raises(skymem.IoError, match="no such store"):
        skymem.Cache("derived:x")
    with skymem.Cache("dict:x") as cache:
        cache.put("a", b"hello")
        DictStore.raises = Derived("for a moment")
        with pytest.raises(skymem.IoError):
            cache.get("a")
        with pytest.raises(skymem.IoError):
            cache.put("b", b"x")
        DictStore.raises = None
        assert cache.get("a") == b"hello"


def test_an_interrupt_while_a_store_counts() -> None:
    class Interrupted(DictStore):
        armed = False

        def usage(self) -> tuple[int, int, int]:
            if Interrupted.armed:
                Interrupted.armed = False
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.2)
            return 0, 0, 0

    register_tier("interrupted", Interrupted)
    with skymem.Cache("interrupted:x") as cache:
        Interrupted.armed = True
        with pytest.raises(KeyboardInterrupt):
            cache.stat()
            time.sleep(1)


# The garbage collector runs on a thread of the cache, and that cache is garbage.
COLLECTOR = """
import gc, time, skymem
closed = []
class Store:
    def __init__(self, where): pass
    def read(self, key, offset, size): time.sleep(.3); gc.collect(); return b"x", 1
    def write(self, key, value, durable): pass
    def remove(self, key): return False
    def close(self): closed.append(1)
skymem.register_tier("collector", Store)
class Holder: pass
holder = Holder()
holder.me, holder.cache = holder, skymem.Cache("collector:1")
holder.batch = holder.cache.start("get", ["a"], [bytearray(1)])
time.sleep(.1)
del holder
while not closed: time.sleep(.05)
print("closed")
"""

SUBINTERPRETER = """
import skymem, time, _xxsubinterpreters as interpreters
class Store:
    def __init__(self, where): self.values = {}
    def read(self, key, offset, size):
        time.sleep(.2); v = self.values.get(key); return v and (v[offset:offset + size], len(v))
    def write(self, key, value, durable): self.values[key] = value
    def remove(self, key): return False
skymem.register_tier("main", Store)
cache = skymem.Cache("main:1")
cache.put("a", b"hello")
other = interpreters.create()
interpreters.run_string(other, "import skymem; skymem.Cache('mem:1MiB').put('a', b'x')")
interpreters.destroy(other)
print(cache.get("a"))
"""


@pytest.mark.parametrize(
    ("program", "said"), [(COLLECTOR, "closed"), (SUBINTERPRETER, "b'hello'")]
)
def test_in_a_process_of_its_own(program: str, said: str, script: Script) -> None:
    assert script(program).stdout.strip() == said
