"""Proves the client that LMCache's native_plugin calls, as LMCache calls it: from several threads,
with memory that ctypes shows, told by an eventfd; that what is late, refused, damaged or of another
size is a miss and never an error of LMCache; and that closing gives up what is under way. With
LMCache itself: tests/lmcache."""

from __future__ import annotations

import ctypes
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import skymem
from skymem.lmcache import Completion, SkyMemory


Late = tuple[str, threading.Event]


def shown(data: bytes) -> memoryview:
    """Memory as LMCache shows it: of a ctypes array, of format <B."""
    return memoryview((ctypes.c_ubyte * len(data)).from_buffer(bytearray(data)))


def done(client: SkyMemory, *numbers: int) -> list[Completion]:
    """Wait for these batches, as LMCache does, and for no others."""
    poller = select.poll()
    poller.register(client.event_fd(), select.POLLIN)
    came: dict[int, Completion] = {}
    while len(came) < len(numbers):
        assert poller.poll(60000)
        came |= {one[0]: one for one in client.drain_completions()}
    assert sorted(came) == sorted(numbers)
    return [came[number] for number in numbers]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[SkyMemory]:
    client = SkyMemory(["mem:16MiB", f"disk:{tmp_path}/store"])
    yield client
    client.close()


def test_what_is_stored_is_found_loaded_and_deleted(client: SkyMemory) -> None:
    keys = [f"model@00000001@0@{n:02x}" for n in range(3)]
    values = [bytes([n]) * 5000 for n in range(3)]
    one = client.submit_batch_set(keys[:2], [shown(value) for value in values[:2]])
    assert done(client, one) == [(one, True, "", [True, True])]
    out = [shown(b"~" * 5000) for _ in keys]
    has, get = client.submit_batch_exists(keys), client.submit_batch_get(keys, out)
    assert has != get
    assert done(client, has, get) == [(has, True, "", [True, True, False]),
                                      (get, True, "", [True, True, False])]  # fmt: skip
    assert [bytes(view) for view in out[:2]] == values[:2]
    gone = client.submit_batch_delete(keys)
    assert done(client, gone) == [(gone, True, "", [True, True, False])]
    has = client.submit_batch_exists(keys)
    assert done(client, has) == [(has, True, "", [False] * 3)]


def test_another_size_is_a_miss(client: SkyMemory) -> None:
    done(client, client.submit_batch_set(["a", "b"], [shown(b"four"), shown(b"four")]))
    small, large = shown(b"..."), shown(b".....")
    assert done(client, client.submit_batch_get(["a", "b"], [small, large]))[0][3] == [False, False]


def test_processes_share_what_has_one_namespace(tmp_path: Path) -> None:
    url = f"disk:{tmp_path}/store"
    one = SkyMemory(url)
    assert done(one, one.submit_batch_set(["a"], [shown(b"value")]))[0][1]
    one.close()
    other, apart = SkyMemory([url]), SkyMemory([url], namespace="f16")
    assert done(other, other.submit_batch_exists(["a"]))[0][3] == [True]
    assert done(apart, apart.submit_batch_exists(["a"]))[0][3] == [False]
    other.close()
    apart.close()


def test_what_is_late_is_a_miss(caplog: pytest.LogCaptureFixture, late_store: Late) -> None:
    client = SkyMemory(late_store[0], timeout=0.3)
    began = time.monotonic()
    get, put = client.submit_batch_get(["a"], [shown(b"..")]), client.submit_batch_set(
        ["b"], [shown(b"..")])  # fmt: skip
    late, failed = done(client, get, put)
    assert time.monotonic() - began >= 0.3
    assert late[1] and late[3] == [False] and "deadline" in late[2]
    assert not failed[1] and "deadline" in failed[2]
    assert "deadline" in caplog.text
    late_store[1].set()
    client.close()


def test_what_is_refused_is_told_later(client: SkyMemory) -> None:
    number = client.submit_batch_get(["a"], [memoryview(b"read-only")])
    (told,) = done(client, number)
    assert told[:2] == (number, False) and "read-only" in told[2] and told[3] == [False]


def test_closing_gives_up_what_is_under_way(late_store: Late) -> None:
    client = SkyMemory(late_store[0], timeout=50)
    out = shown(b"as it was")
    client.submit_batch_get(["a"], [out])
    late_store[1].set()
    client.close()
    client.close()
    assert bytes(out) == b"as it was"
    assert client.drain_completions() == []
    with pytest.raises(ValueError, match="closed"):
        client.submit_batch_exists(["a"])


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="timeout: seconds above 0"):
        SkyMemory("mem:1MiB", timeout=0)
    with pytest.raises(skymem.UrlError):
        SkyMemory(["nowhere"])
    with pytest.raises(TypeError, match="tiers"):
        SkyMemory("mem:1MiB", tiers=1)  # type: ignore[call-arg]


def test_a_batch_of_no_keys_is_done_at_once(client: SkyMemory) -> None:
    began = time.monotonic()
    number = client.submit_batch_exists([])
    assert done(client, number) == [(number, True, "", [])]
    assert time.monotonic() - began < 5  # and not at its timeout, of 10 s


class Broken:
    """A store that fails."""

    def __init__(self, where: str) -> None: ...

    def read(self, key: bytes, offset: int, size: int) -> None:
        raise OSError("broken")

    def write(self, key: bytes, value: bytes, durable: bool) -> None:
        raise OSError("broken")


def test_a_store_that_fails_often_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    skymem.register_tier("broken", Broken)
    client = SkyMemory("broken:x")
    for n in range(4):
        assert not done(client, client.submit_batch_set([str(n)], [shown(b"..")]))[0][1]
        assert done(client, client.submit_batch_get([str(n)], [shown(b"..")]))[0][3] == [False]
    assert len([one for one in caplog.records if "put failed" in one.getMessage()]) == 1
    gets = [one.getMessage() for one in caplog.records if "get failed" in one.getMessage()]
    assert len(gets) <= 2  # it fails, and is skipped then: what it may have is unavailable
    client.close()


def test_many_threads_submit(client: SkyMemory) -> None:
    numbers: list[int] = []
    lock = threading.Lock()

    def work(first: int) -> None:
        for n in range(first, first + 50):
            number = client.submit_batch_set([str(n)], [shown(str(n).encode() * 100)])
            with lock:
                numbers.append(number)

    threads = [threading.Thread(target=work, args=(50 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one[1] for one in done(client, *numbers))
    has = client.submit_batch_exists([str(n) for n in range(200)])
    assert done(client, has)[0][3] == [True] * 200
