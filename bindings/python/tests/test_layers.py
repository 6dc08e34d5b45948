"""Proves loads and saves layer by layer, and prompts that one process computes and another answers:
what comes is right, what is begun can be ended, and wrong use is an exception."""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skymem
from conftest import Script
from skymem.manager import LayerLoad, Manager, Sequence
from test_manager import TOKENS, Toy, fails

LAYERS = 3
TESTS = str(Path(__file__).parent)


class Gate:
    """A store that answers reads only while it is open."""

    values: dict[bytes, bytes] = {}
    open = threading.Event()
    reading = threading.Event()
    broken = False
    reads_until_shut: int | None = None  # then it shuts itself; None: it does not

    def __init__(self, where: str) -> None: ...

    def read(self, key: bytes, offset: int, size: int) -> Any:
        Gate.reading.set()
        if Gate.reads_until_shut == 0:
            Gate.open.clear()
        elif Gate.reads_until_shut:
            Gate.reads_until_shut -= 1
        Gate.open.wait(30)
        if Gate.broken and size > 2000:  # more than the head
            raise OSError("broken")
        value = self.values.get(key)
        return value and (value[offset : offset + size], len(value))

    def write(self, key: bytes, value: bytes, durable: bool) -> None:
        self.values[key] = value

    def remove(self, key: bytes) -> bool:
        return self.values.pop(key, None) is not None


skymem.register_tier("gate", Gate)


@pytest.fixture
def gate() -> Iterator[skymem.Cache]:
    Gate.values, Gate.broken = {}, False
    Gate.open.set()
    with skymem.Cache("gate:1") as cache:
        yield cache
        Gate.open.set()
        gc.collect()


def saved(cache: skymem.Cache) -> Manager:
    one = Toy()
    one.compute(len(TOKENS))
    manager = Manager(cache, one)
    assert Sequence(manager, one).save(TOKENS)[0] == 4
    return manager


def take(load: LayerLoad, toy: Toy) -> None:
    for layer in range(LAYERS):
        assert load.wait(layer, 60)
        for i in (2 * layer, 2 * layer + 1):
            assert (toy.state[i] == toy.wanted(i, toy.first[i], toy.count)).all()


@pytest.mark.parametrize("level", ["", "?level=lossless"])
def test_layers_come_one_after_another(tmp_path: Path, level: str) -> None:
    with skymem.Cache(["mem:64MiB", f"disk:{tmp_path}/store{level}"]) as cache:
        manager = saved(cache)
        del manager
    for urls in ([f"disk:{tmp_path}/store{level}"], ["mem:64MiB", f"disk:{tmp_path}/store{level}"]):
        with skymem.Cache(urls) as cache:
            two = Toy()
            manager = Manager(cache, two)
            sequence = Sequence(manager, two)
            with sequence.load_layers(TOKENS) as load:
                assert load.lookup.hit_tokens == 512
                take(load, two)
            assert load.lookup.verdict == "hit" and two.count == 512 and two.right()
            assert sum(load.lookup.tier_blocks) == 4
            assert sequence.look(TOKENS).hit_tokens == 512
            del manager, sequence, load


def test_nothing_is_there(cache: skymem.Cache) -> None:
    one = Toy()
    sequence = Sequence(Manager(cache, one), one)
    with sequence.load_layers(TOKENS) as load:
        assert load.lookup.hit_tokens == 0
    assert load.lookup.verdict == "miss" and one.count == 0


def test_layers_are_given_one_after_another(cache: skymem.Cache) -> None:
    one, two = Toy(), Toy()
    one.compute(len(TOKENS))
    manager = Manager(cache, one)
    sequence = Sequence(manager, one)
    with sequence.load_layers(TOKENS) as load, sequence.save_layers(TOKENS) as save:
        assert load.lookup.hit_tokens == 0 and save.first_token == 0
        one.compute(len(TOKENS))
        for layer in (2, 0, 1):
            keys, values = one.state[2 * layer : 2 * layer + 2]
            save.put(layer, keys, values)
    assert (save.blocks, save.size > 0) == (4, True)
    assert Sequence(manager, two).look(TOKENS).hit_tokens == 512 and two.right()
    with Sequence(manager, one).save_layers([*TOKENS, *range(100)]) as save:
        assert save.first_token == 512  # the last whole block is new
        one.compute(700)
        for layer in range(LAYERS):
            rows = one.state[2 * layer : 2 * layer + 2]
            save.put(layer, rows[0][:, 500:], rows[1][:, 500:], first_token=500)
    assert save.blocks == 1
    with Sequence(manager, one).save_layers(TOKENS) as save:
        assert save.first_token == len(TOKENS)
    assert save.blocks == 0


def test_what_comes_is_late_and_then_there(gate: skymem.Cache) -> None:
    manager = saved(gate)
    two = Toy()
    sequence = Sequence(manager, two)
    with sequence.load_layers(TOKENS) as load:
        pass  # the store answered all
    assert load.lookup.hit_tokens == 512
    Gate.open.clear()
    found: list[LayerLoad] = []
    thread = threading.Thread(target=lambda: found.append(sequence.load_layers(TOKENS)))
    thread.start()  # it waits for the store: what is there?
    Gate.open.set()
    thread.join()
    load = found[0]
    assert select.select([load], [], [], 60)[0] and load.wait(0)
    take(load, two)
    assert load.end().hit_tokens == 512 and two.right()


@pytest.mark.parametrize("url", ["mem:64MiB", "disk:{}/store", "disk:{}/store?level=lossless"])
def test_an_exception_gives_a_load_up_that_has_come(tmp_path: Path, url: str) -> None:
    with skymem.Cache(url.format(tmp_path)) as cache:
        manager = saved(cache)
        two = Toy()
        sequence = Sequence(manager, two)
        with pytest.raises(ZeroDivisionError):
            with sequence.load_layers(TOKENS) as load:
                take(load, two)
                fails()
        assert load.lookup.verdict == "recompute" and load.lookup.hit_tokens == 0
        assert two.count == 0
        with sequence.load_layers(TOKENS) as load:
            take(load, two)
        assert load.lookup.verdict == "hit" and two.right()
        del manager, sequence, load


def test_a_load_that_is_given_up_leaves_the_arrays_alone(script: Script) -> None:
    script(
        """
import gc, sys, threading
sys.path.insert(0, sys.argv[1])
import skymem
from test_layers import Gate, saved, TOKENS, Toy
from skymem.manager import Manager, Sequence
with skymem.Cache("gate:1") as cache:
    Gate.open.set()
    manager = saved(cache)
    two = Toy()
    for way in ("timeout", "exception", "drop"):
        Gate.reads_until_shut = 4
        Gate.open.set()
        sequence = Sequence(manager, two)
        try:
            with sequence.load_layers(TOKENS) as load:
                assert load.lookup.hit_tokens == 512
                assert not load.wait(2, 0.05)
                if way == "timeout":
                    assert load.end(0.01).verdict == "recompute" and two.count == 0
                elif way == "exception":
                    raise ZeroDivisionError
                else:
                    del sequence
                    load.sequence = None
                    break
        except ZeroDivisionError:
            assert load.lookup.verdict == "recompute" and two.count == 0
        except RuntimeError as error:  # it was ended before the with
            assert "no load is under way" in str(error)
        except AttributeError:
            assert way == "drop"
        two.state.clear()
        Gate.reads_until_shut = None
        Gate.open.set()
        gc.collect()
    sequence = load = None
    gc.collect()
    assert Sequence(manager, two).look(TOKENS).hit_tokens == 512 and two.right()
    del manager
""",
        TESTS,
    )


def test_a_layer_that_does_not_come_is_an_exception(gate: skymem.Cache) -> None:
    manager = saved(gate)
    two = Toy()
    sequence = Sequence(manager, two)
    Gate.broken = True
    with sequence.load_layers(TOKENS) as load:
        assert load.lookup.hit_tokens == 512
        with pytest.raises(skymem.Error, match="layer 2 of a load"):
            load.wait(2, 60)
    assert load.lookup.verdict == "recompute" and two.count == 0
    Gate.broken = False


def test_an_engine_that_raises(cache: skymem.Cache) -> None:
    manager = saved(cache)

    class Raises(Toy):
        def restore(self, count: int) -> Any:
            fails()

    class RaisesLate(Toy):
        def restored(self, commit: bool) -> None:
            fails()

    sequence = Sequence(manager, Raises())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="of its own"):
            sequence.load_layers(TOKENS)
    sequence = Sequence(manager, RaisesLate())
    load = sequence.load_layers(TOKENS)
    with pytest.raises(ZeroDivisionError, match="of its own"):
        load.end()


def test_wrong_use_is_said(cache: skymem.Cache) -> None:
    manager = saved(cache)
    two = Toy()
    sequence = Sequence(manager, two)
    for call in (lambda: sequence.load_wait(0), lambda: sequence.load_end(None)):
        with pytest.raises(RuntimeError, match="no load is under way .* begin one first"):
            call()
    with pytest.raises(RuntimeError, match="no save is under way"):
        sequence.save_end()
    with pytest.raises(RuntimeError, match="no push is under way"):
        sequence.push(1)
    load = sequence.load_layers(TOKENS)
    for busy in (sequence.look, sequence.save, sequence.load_layers, sequence.push_blocks,
                 sequence.await_blocks):  # fmt: skip
        with pytest.raises(RuntimeError, match="a load is under way on this sequence; end it"):
            busy(TOKENS)
    with pytest.raises(skymem.ParamError, match="layer 3 of a load"):
        load.wait(3)
    with pytest.raises(ValueError, match="2..32"):
        load.wait(-1)
    assert load.end().hit_tokens == 512 and two.right()

    two.compute(700)
    save = sequence.save_layers(list(range(700)))
    rows = two.state[0]
    for keys, values, kind in (
        (rows[:, :600], rows[:, :600], skymem.ParamError),  # not to the end
        (rows[:1], rows[:1], skymem.ParamError),  # of one head
        (rows, rows.astype(np.float16), skymem.ParamError),
        (rows, rows.astype(np.float64), TypeError),
        (rows[0], rows, TypeError),
        ("text", rows, TypeError),
    ):
        with pytest.raises(kind, match="layer 0|rows are|keys: bytes"):
            save.put(0, keys, values)
    with pytest.raises(skymem.ParamError, match="no such layer"):
        save.put(3, rows, rows)
    save.put(0, two.state[0], two.state[1])
    with pytest.raises(skymem.ParamError, match="layers are missing"):
        save.end()
    with pytest.raises(ZeroDivisionError):
        with sequence.save_layers(list(range(700))) as save:
            save.put(1, two.state[2], two.state[3])
            fails()
    assert sequence.look(list(range(700))).hit_tokens == 0
    for patience in (0, -1, 601, float("nan")):
        with pytest.raises(ValueError, match="patience: seconds"):
            sequence.await_blocks(TOKENS, patience)
    assert sequence.await_blocks(TOKENS, 1) == 512  # memory has them
    assert sequence.await_blocks([5] * 600, 1) == 0


def test_arrays_of_a_load_are_held(cache: skymem.Cache) -> None:
    manager = saved(cache)
    two = Toy()
    sequence = Sequence(manager, two)
    load = sequence.load_layers(TOKENS)
    array = weakref.ref(two.state[0])
    two.state.clear()
    gc.collect()
    assert array() is not None and load.wait(LAYERS - 1, 60)
    load.end()
    assert array() is None


def test_a_child_of_fork_leaves_them_to_its_parent(cache: skymem.Cache) -> None:
    manager = saved(cache)
    two = Toy()
    sequence, other = Sequence(manager, two), Sequence(manager, two)
    load = sequence.load_layers(TOKENS)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            said = 0
            for call in (lambda: other.look(TOKENS), lambda: other.save(TOKENS), load.end,
                         lambda: load.wait(0), lambda: Sequence(manager, two),
                         lambda: Manager(cache, two)):  # fmt: skip
                try:
                    call()
                except skymem.ForkedError:
                    said += 1
            sequence.cancel()
            del load, sequence, other, manager
            gc.collect()
            code = 0 if said == 6 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert load.end().hit_tokens == 512 and two.right()
    assert other.look(TOKENS).hit_tokens == 512


def pushing(store: str, told: Any, go: Any) -> None:
    one = Toy()
    one.compute(len(TOKENS))
    with skymem.Cache(store) as cache:
        manager = Manager(cache, one)
        sequence = Sequence(manager, one)
        with sequence.push_blocks(TOKENS) as push:
            told.set()
            assert go.wait(60)
            push.put(300)
            push.put(len(TOKENS))
        assert push.blocks == 4 and push.size > 0
        del manager, sequence, push


def test_one_process_computes_and_another_answers(tmp_path: Path, host: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    told, go = spawn.Event(), spawn.Event()
    child = spawn.Process(target=pushing, args=(host, told, go))
    child.start()
    try:
        assert told.wait(120)
        with skymem.Cache(["mem:64MiB", host]) as cache:
            two = Toy()
            manager = Manager(cache, two)
            sequence = Sequence(manager, two)
            threading.Timer(0.05, go.set).start()
            assert sequence.await_blocks(TOKENS, 60) == 512
            assert sequence.look(TOKENS).hit_tokens == 512 and two.right()
            assert sequence.await_blocks([5] * 600, 0.2) == 0  # nobody is to compute it
            del manager, sequence
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()


def test_ctrl_c_ends_a_wait(script: Script) -> None:
    done = script(
        """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import skymem
from test_layers import Gate, saved, TOKENS, Toy
from skymem.manager import Sequence
inside = threading.Event()
def press():
    inside.wait()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press).start()
Gate.open.set()
with skymem.Cache("gate:1") as cache:
    manager = saved(cache)
    Gate.reads_until_shut = 4
    two = Toy()
    sequence = Sequence(manager, two)
    try:
        with sequence.load_layers(TOKENS) as load:
            inside.set()
            load.wait(2)
    except KeyboardInterrupt:
        print("stopped", load.lookup.verdict, two.count)
    Gate.reads_until_shut = None
    Gate.open.set()
    assert sequence.look(TOKENS).hit_tokens == 512  # it goes on: the load was ended, not cancelled
    del manager, sequence, load
""",
        TESTS,
    )
    assert done.stdout == "stopped recompute 0\n"
