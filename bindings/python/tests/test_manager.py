"""Proves that an engine in Python gets its state back, from memory and coded from disk, and that
what it does wrong is raised."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skymem
import skymem.manager
from skymem.manager import Manager, Sequence

HEADS, DIM, WINDOW = 2, 8, 200
GROUPS = [(0, 1, HEADS, DIM, DIM, "f32"), (WINDOW, 2, HEADS, DIM, DIM, "f32")]


class Toy:
    """State of token t in layer i, K or V, head h is t + i / 8 + kv / 2, h later."""

    def __init__(self, name: bytes = b"toy") -> None:
        self.name = name
        self.state: list[Any] = []  # [heads, tokens, dim]
        self.first: list[int] = []
        self.count = 0

    def compute(self, count: int) -> None:
        self.first, self.count = [0] * 6, count
        self.state = [self.wanted(i, 0, count) for i in range(6)]

    @staticmethod
    def wanted(i: int, first: int, count: int) -> Any:
        t = np.arange(first, count, dtype=np.float32)[None, :, None]
        h = np.arange(HEADS, dtype=np.float32)[:, None, None]
        return np.broadcast_to(t + h * 1000 + i / 8, (HEADS, count - first, DIM)).copy()

    def right(self, error: float = 0.0) -> bool:
        return all(
            abs(state - self.wanted(i, first, self.count)).max() <= error
            for i, (state, first) in enumerate(zip(self.state, self.first))
        )

    def fingerprint(self) -> bytes:
        return skymem.digest(self.name)

    def layout(self) -> Any:
        return GROUPS

    def extract(self, first: int, count: int) -> Any:
        return list(zip(self.first, self.state))

    def restore(self, count: int) -> Any:
        self.count = count
        self.first = [0, 0] + [max(0, count - WINDOW)] * 4
        # tokens first in memory, heads first in the shape
        self.state = [
            np.zeros((count - first, HEADS, DIM), np.float32).transpose(1, 0, 2)
            for first in self.first
        ]
        return list(zip(self.first, self.state))

    def restored(self, commit: bool) -> None:
        if not commit:
            self.count = 0


TOKENS = list(range(1000, 1600))


def test_a_prefix_comes_back(tmp_path: Path) -> None:
    store = f"disk:{tmp_path}/store"
    with skymem.Cache(["mem:64MiB", store]) as cache:
        one = Toy()
        one.compute(len(TOKENS))
        manager = Manager(cache, one)
        sequence = Sequence(manager, one)
        assert sequence.look(TOKENS).verdict == "miss"
        one.compute(len(TOKENS))
        assert sequence.save(TOKENS)[0] == 4
        assert sequence.save(TOKENS) == (0, 0)
        with pytest.raises(skymem.BusyError, match="managers use it"):
            cache.close()
        keys = skymem.block_keys(TOKENS, namespace=manager.namespace)
        assert cache.prefix(keys) == 4
        del sequence, manager
    for urls, tier in (([store], 0), (["mem:64MiB", store], 1), (["mem:64MiB", store], 1)):
        with skymem.Cache(urls) as cache:
            two = Toy()
            manager = Manager(cache, two)
            look = Sequence(manager, two).look([*TOKENS, 7])
            assert (look.verdict, look.hit_tokens, look.prompt_tokens) == ("hit", 512, 601)
            assert look.tier_blocks[tier] == 4 and look.bytes_loaded > 0
            assert look.level_blocks == {}
            assert two.count == 512 and two.right()
            del manager


@pytest.mark.parametrize("level", ["lossless", "8"])
def test_levels(tmp_path: Path, level: str) -> None:
    with skymem.Cache(f"disk:{tmp_path}/store?level={level}") as cache:
        one, two = Toy(), Toy()
        one.compute(len(TOKENS))
        manager = Manager(cache, one)
        assert cache.stat()[0].levels == (level,)
        assert Sequence(manager, one).save(TOKENS)[0] == 4
        look = Sequence(manager, two).look(TOKENS)
        assert look.hit_tokens == 512
        assert look.level_blocks == ({} if level == "lossless" else {level: 4})  # not smaller here
        assert two.right(0.0 if level == "lossless" else 40.0)
        assert two.right() == (level == "lossless")
        del manager


def test_another_model_never_hits(cache: skymem.Cache) -> None:
    one, other = Toy(), Toy(b"other")
    one.compute(len(TOKENS))
    manager, theirs = Manager(cache, one), Manager(cache, other)
    Sequence(manager, one).save(TOKENS)
    assert Sequence(theirs, other).look(TOKENS).verdict == "miss"
    with pytest.raises(skymem.ParamError, match="an engine of another model"):
        Sequence(manager, other)
    salted = Manager(cache, one, salt=b"s" * 32)
    assert Sequence(salted, one).look(TOKENS).verdict == "miss"


def bad(name: str, value: Any) -> Toy:
    class Bad(Toy):
        def __getattribute__(self, wanted: str) -> Any:
            if wanted == name:
                return lambda *_: value() if callable(value) else value
            return super().__getattribute__(wanted)

    return Bad()


def fails() -> None:
    raise ZeroDivisionError("of its own")


@pytest.mark.parametrize(
    ("name", "value", "kind", "words"),
    [
        ("fingerprint", b"short", ValueError, "fingerprint"),
        ("fingerprint", fails, ZeroDivisionError, "of its own"),
        ("layout", [(0, 1)], TypeError, "a group is"),
        ("layout", [(0, 1, 2, 8, 8, "f64")], ValueError, "f16, f32 or bf16, not f64"),
        ("layout", GROUPS * 5, ValueError, "at most 8 groups"),
        ("layout", None, TypeError, "iter"),
    ],
)
def test_a_bad_engine_is_refused(
    cache: skymem.Cache, name: str, value: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        Manager(cache, bad(name, value))


ROW = np.zeros((HEADS, 600, DIM), np.float32)


@pytest.mark.parametrize(
    ("name", "value", "kind", "words"),
    [
        ("extract", [], ValueError, "0 tensors where the layout has 6"),
        ("extract", fails, ZeroDivisionError, "of its own"),
        ("extract", [(0, ROW[0])] * 6, TypeError, "heads, tokens, dim"),
        ("extract", [(0, ROW.astype(np.float64))] * 6, TypeError, "f16, f32 or bf16"),
        ("extract", [(0, ROW[:, ::-1])] * 6, TypeError, "no stride below 0"),
        ("extract", [(0, ROW[:, :5])] * 6, skymem.CorruptError, "save"),
        ("extract", [(0, ROW[:1])] * 6, skymem.CorruptError, "save"),
        ("extract", [(0, ROW.astype(np.float16))] * 6, skymem.CorruptError, "save"),
        ("restore", [(0, np.broadcast_to(ROW[0], ROW.shape))] * 6, BufferError, "read-only"),
        ("restore", fails, ZeroDivisionError, "of its own"),
        ("restored", fails, ZeroDivisionError, "of its own"),
    ],
)
def test_what_an_engine_does_wrong_is_raised(
    cache: skymem.Cache, name: str, value: Any, kind: type[Exception], words: str
) -> None:
    one, wrong = Toy(), bad(name, value)
    one.compute(len(TOKENS))
    wrong.compute(len(TOKENS))
    manager = Manager(cache, one)
    with pytest.raises(kind, match=words):
        if name == "extract":
            Sequence(manager, wrong).save(TOKENS)
        else:
            Sequence(manager, one).save(TOKENS)
            Sequence(manager, wrong).look(TOKENS)
    sequence = Sequence(manager, one)
    one.compute(len(TOKENS))
    sequence.save(TOKENS)
    assert sequence.look(TOKENS).hit_tokens == 512 and one.right()


def test_bad_arguments(cache: skymem.Cache) -> None:
    one = Toy()
    manager = Manager(cache, one)
    sequence = Sequence(manager, one)
    with pytest.raises(skymem.ParamError):
        sequence.look([])
    with pytest.raises(ValueError, match="0 or more"):
        sequence.look([-1])
    with pytest.raises(TypeError, match="Profile"):
        Manager(cache, one, profile=b"x")  # type: ignore[arg-type]
    with pytest.raises(skymem.CorruptError):
        skymem.manager.Profile(b"x" * 100)
    with pytest.raises(ValueError, match="salt"):
        Manager(cache, one, salt=b"x")
    sequence.cancel()
    with pytest.raises(skymem.CancelledError):
        sequence.look(TOKENS)

def test_cycles_are_collected() -> None:
    class Engine(Toy):
        def __init__(self, manager: Manager) -> None:
            super().__init__()
            self.sequence = Sequence(manager, self)

    cache = skymem.Cache("mem:1MiB")
    cache.put("a", b"x")
    manager = Manager(cache, Toy())
    engines = [weakref.ref(Engine(manager)) for _ in range(20)]
    gc.collect()
    assert not any(engine() for engine in engines)
    del manager
    cache.close()
    caches = []
    for op in ("get", "lease"):
        held: Any = skymem.Cache("mem:1MiB")
        held.put("a", b"x")
        held.batch = held.start(op, ["a"], [bytearray(1)] if op == "get" else None)
        assert held.batch.wait(None)
        held.leases = held.batch.leases() if op == "lease" else []
        caches.append(weakref.ref(held))
        del held
    gc.collect()
    assert not any(cache() for cache in caches)
