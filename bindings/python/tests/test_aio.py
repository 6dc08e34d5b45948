"""Proves that AsyncCache never blocks its loop, and gives buffers back when cancelled."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

import skymem
from skymem import _core
from conftest import first_version

KEYS = [bytes([i + 1]) * 32 for i in range(4)]


def test_calls_overlap_and_the_loop_runs() -> None:
    async def main() -> None:
        async with skymem.AsyncCache("sky:seed") as cache:
            await cache.put_many(KEYS, [bytes([i]) * 65536 for i in range(4)])
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.001)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            values = await asyncio.gather(*(cache.get(key) for key in KEYS))
            ticking.cancel()
            assert values == [bytes([i]) * 65536 for i in range(4)]
            assert ticks > 3
            assert await cache.has_many([*KEYS, b"z" * 32]) == [True] * 4 + [False]
            assert await cache.get(b"z" * 32) is None
            assert await cache.remove(KEYS[0]) and not await cache.has(KEYS[0])

    asyncio.run(main())


def test_a_get_hears_of_changes_and_has_one_deadline() -> None:
    class Changing(skymem.AsyncCache):
        """The value grows, or goes, after it was looked at."""

        def __init__(self) -> None:
            super().__init__("mem:16MiB")
            self.later: list[bytes | None] = []
            self.timeouts: list[float] = []

        async def _run(self, op: int, *args: Any, **options: Any) -> _core.Batch:
            batch = await super()._run(op, *args, **options)
            self.timeouts.append(options["timeout"])
            if op == _core.OP_has and self.later:
                value = self.later.pop(0)
                self.cache.put("a", value) if value else self.cache.remove("a")
            return batch

    async def main() -> None:
        async with Changing() as cache:
            cache.cache.put("a", b"1")
            cache.later = [b"22", b"333"]
            assert await cache.get("a", timeout=60) == b"333"
            assert cache.timeouts[0] == 60
            assert all(a > b for a, b in zip(cache.timeouts, cache.timeouts[1:]))
            cache.later = [None]
            assert await cache.get("a", timeout=60) is None
            cache.cache.put("a", b"1")
            cache.later = [b"1" * n for n in range(2, 99)]
            with pytest.raises(skymem.BusyError, match="eight times"):
                await cache.get("a", timeout=60)

    asyncio.run(main())


def test_a_cancelled_task_gives_its_buffer_back() -> None:
    async def main() -> None:
        async with skymem.AsyncCache("sky:seed") as cache:
            await cache.put(KEYS[0], bytes(1 << 20))
            out = bytearray(1 << 20)
            task = asyncio.create_task(cache.get_many([KEYS[0]], [out]))
            await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            out.clear()  # BufferError if the batch still held it
            with pytest.raises(skymem.DeadlineError):
                await cache.get_many([KEYS[0]], [bytearray(1 << 20)], timeout=0.001)

    asyncio.run(main())


def test_every_call_on_keys() -> None:
    async def main() -> None:
        async with skymem.AsyncCache("mem:64MiB") as cache:
            await cache.put_many(KEYS[:3], [b"x" * 10] * 3, parents=[None, *KEYS[:2]])
            assert await cache.prefix(KEYS[:4]) == 3 and await cache.prefix([]) == 0
            assert await cache.prefix([KEYS[3], KEYS[0]]) == 0
            assert await cache.has_many(KEYS[2:4], tiers=[0]) == [True, False]
            assert await cache.has(KEYS[0], tiers=[0]) and not await cache.has(KEYS[3])
            assert await cache.pin(KEYS[0]) and not await cache.pin(KEYS[3])
            info = await cache.info(KEYS[0])
            assert info is not None and (info.size, info.tier, info.pinned) == (10, 0, True)
            await cache.put(KEYS[0], b"x" * 10, evict="soon")
            await cache.put_many(KEYS[1:2], [b"x" * 10], evict="last")
            classes = [await cache.info(key) for key in KEYS[:2]]
            assert [info and info.evict for info in classes] == ["last", "last"]  # its child's
            assert await cache.unpin(KEYS[0]) and await cache.info(KEYS[3]) is None
            out = bytearray(4)
            assert await cache.get_into(KEYS[0], out, offset=6, size=4) == 4 and out == b"xxxx"
            assert await cache.get_into(KEYS[3], out) is None
            with await cache.lease(KEYS[1]) as view:
                assert bytes(view) == b"x" * 10
            with pytest.raises(skymem.MissError, match="not found"):
                await cache.lease(KEYS[3])
            assert await cache.remove_many([KEYS[2], KEYS[3]]) == [True, False]

    asyncio.run(main())


def test_versions(versions: str) -> None:
    async def main(own: skymem.Cache) -> None:
        async with skymem.AsyncCache(own) as cache:
            first = first_version(own, "a")
            with pytest.raises(skymem.ConflictError) as raised:
                await cache.put("a", b"two", if_version=0)
            assert raised.value.version == first
            info = await cache.info("a", tiers=[0])
            assert info is not None and info.version == first
            second = await cache.put("a", b"two", if_version=first)
            assert second and await cache.remove("a", if_version=second)

    with skymem.Cache(versions) as own:
        asyncio.run(main(own))


def test_it_closes_with_tasks_waiting() -> None:
    async def main() -> None:
        cache = skymem.AsyncCache("sky:seed")
        await cache.put(KEYS[0], bytes(1 << 20))
        task = asyncio.create_task(cache.get_many([KEYS[0]], [bytearray(1 << 20)]))
        await asyncio.sleep(0.005)
        await cache.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ValueError, match="closed"):
            await cache.get("a")

    asyncio.run(main())


def test_a_cache_of_the_callers_stays_open() -> None:
    async def main(own: skymem.Cache) -> None:
        async with skymem.AsyncCache(own) as cache:
            await cache.put("a", b"1")
            assert await cache.get("a") == b"1"
            assert await cache.prefetch(["a"]) == [True]

    with skymem.Cache("mem:16MiB") as own:
        open_before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            asyncio.run(main(own))
            skymem.AsyncCache(own)  # dropped without close
        assert own.get("a") == b"1"
        assert len(os.listdir("/proc/self/fd")) == open_before
