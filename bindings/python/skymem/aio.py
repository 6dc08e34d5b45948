"""`skymem.AsyncCache`: the calls of `Cache` as coroutines, over one eventfd."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from skymem import _core
from skymem.cache import (
    Cache,
    Evict,
    Info,
    Key,
    Lease,
    Level,
    chain,
    class_of,
    coding_of,
    info_of,
    leading,
    lease_of,
    tiers_mask,
    version_of,
)
from skymem.errors import BusyError, SmallError

if TYPE_CHECKING:
    from skymem._core import Buffer, Target


def let_go(waiting: dict[_core.Batch, asyncio.Future[None]], event: int) -> None:
    """Cancel what is under way, which would tell the eventfd; then close that."""
    for batch, future in list(waiting.items()):
        batch.cancel()
        future.cancel()
    waiting.clear()
    os.close(event)


class AsyncCache:
    """A cache for one event loop, which it never blocks. A cancelled task cancels its batch.

    Calls about all of a cache (list, stat, verify, metrics) are those of `cache`; a thread may
    wait for them: `await asyncio.to_thread(cache.cache.list)`.

    >>> async def main() -> bytes | None:
    ...     async with AsyncCache(["mem:16MiB"]) as cache:
    ...         await cache.put("greeting", b"hello")
    ...         return await cache.get("greeting")
    >>> asyncio.run(main())
    b'hello'
    """

    def __init__(self, cache: Cache | str | Sequence[str]) -> None:
        self.cache = cache if isinstance(cache, Cache) else Cache(cache)
        self._owner = not isinstance(cache, Cache)
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[_core.Batch, asyncio.Future[None]] = {}
        self._let_go = weakref.finalize(self, let_go, self._waiting, self._event)
        self._let_go.atexit = False

    async def __aenter__(self) -> AsyncCache:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel what is under way, write out what is queued and close."""
        if self._event < 0:
            return
        if self._loop is not None:
            self._loop.remove_reader(self._event)
        self._let_go()
        self._event = -1
        if self._owner:
            await asyncio.get_running_loop().run_in_executor(None, self.cache.close)

    def _look(self) -> None:
        """Which batches are over? The eventfd said so, or a deadline passed."""
        try:
            os.eventfd_read(self._event)
        except OSError:
            pass
        for batch, future in list(self._waiting.items()):
            if batch.wait(0):
                del self._waiting[batch]
                if not future.done():
                    future.set_result(None)

    async def _run(
        self, op: int, keys: Sequence[Key], buffers: Sequence[object] | None = None,
        parents: Sequence[bytes | None] | None = None, *, offset: int = 0, size: int = 0,
        timeout: float | None = None, ttl: int = 0, durable: bool = False, drop: bool = False,
        tiers: Sequence[int] | None = None, level: Level | None = None,
        if_version: int | None = None, evict: Evict = "normal", check: bool = True,
    ) -> _core.Batch:  # fmt: skip
        if self._event < 0:
            raise ValueError("the cache is closed; open another one")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._event, self._look)
        elif self._loop is not loop:
            raise RuntimeError("an AsyncCache belongs to one event loop; make one for each")
        batch = self.cache.submit(
            op, keys, buffers, parents, offset, size, timeout, ttl, 0, coding_of(level), durable,
            drop, tiers_mask(tiers), 0, self._event, version_of(if_version), class_of(evict),
        )  # fmt: skip
        if not batch.wait(0):
            self._waiting[batch] = future = loop.create_future()
            alarm = None if timeout is None else loop.call_later(timeout + 0.001, self._look)
            try:
                await future
            finally:
                self._waiting.pop(batch, None)
                batch.cancel()  # nothing, when it is over
                if alarm is not None:
                    alarm.cancel()
        if check:
            batch.check()
        return batch

    async def put(
        self, key: Key, value: Buffer, *, parent: bytes | None = None, ttl: int = 0,
        durable: bool = False, drop: bool = False, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
        if_version: int | None = None, evict: Evict = "normal",
    ) -> int | None:  # fmt: skip
        """As `Cache.put`."""
        batch = await self._run(_core.OP_put, (key,), (value,), (parent,), ttl=ttl, durable=durable,
                                drop=drop, timeout=timeout, tiers=tiers, level=level,
                                if_version=if_version, evict=evict)  # fmt: skip
        return batch.versions()[0] or None

    async def put_many(
        self, keys: Sequence[Key], values: Sequence[Buffer | Sequence[Buffer]], *,
        parents: Sequence[bytes | None] | None = None, ttl: int = 0, durable: bool = False,
        drop: bool = False, timeout: float | None = None, tiers: Sequence[int] | None = None,
        level: Level | None = None, evict: Evict = "normal",
    ) -> None:  # fmt: skip
        """As `Cache.put_many`."""
        await self._run(_core.OP_put, keys, values, parents, ttl=ttl, durable=durable, drop=drop,
                        timeout=timeout, tiers=tiers, level=level, evict=evict)  # fmt: skip

    async def get(self, key: Key, *, timeout: float | None = None) -> bytes | None:
        """As `Cache.get`, of a whole payload."""
        until = None if timeout is None else time.monotonic() + timeout
        left = timeout
        for _ in range(8):  # it may change between the two questions
            detail = (await self._run(_core.OP_has, (key,), timeout=left)).details()[0]
            if detail is None:
                return None
            out = bytearray(detail[0])
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                size = (await self.get_many((key,), (out,), timeout=left))[0]
            except SmallError:
                size = None
            if size is not None:
                return bytes(memoryview(out)[:size])
            left = None if until is None else max(0.0, until - time.monotonic())
        raise BusyError("get: the value changed while it was read, eight times")

    async def get_into(
        self, key: Key, out: Target | Sequence[Target | int], *, offset: int = 0, size: int = 0,
        timeout: float | None = None, tiers: Sequence[int] | None = None,
        level: Level | None = None,
    ) -> int | None:  # fmt: skip
        """As `Cache.get_into`."""
        return (await self.get_many((key,), (out,), offset=offset, size=size, timeout=timeout,
                                    tiers=tiers, level=level))[0]  # fmt: skip

    async def get_many(
        self, keys: Sequence[Key], out: Sequence[Target | Sequence[Target | int]], *,
        offset: int = 0, size: int = 0, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
    ) -> list[int | None]:  # fmt: skip
        """As `Cache.get_many`."""
        batch = await self._run(_core.OP_get, keys, out, offset=offset, size=size, timeout=timeout,
                                tiers=tiers, level=level)  # fmt: skip
        return batch.sizes()

    async def has_many(
        self, keys: Sequence[Key], *, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
    ) -> list[bool]:  # fmt: skip
        """As `Cache.has_many`."""
        batch = await self._run(_core.OP_has, keys, timeout=timeout, tiers=tiers, level=level)
        return batch.found()

    async def has(
        self, key: Key, *, timeout: float | None = None, tiers: Sequence[int] | None = None,
        level: Level | None = None,
    ) -> bool:  # fmt: skip
        """As `Cache.has`."""
        return (await self.has_many((key,), timeout=timeout, tiers=tiers, level=level))[0]

    async def info(
        self, key: Key, *, timeout: float | None = None, tiers: Sequence[int] | None = None
    ) -> Info | None:
        """As `Cache.info`."""
        batch = await self._run(_core.OP_has, (key,), timeout=timeout, tiers=tiers)
        return info_of(batch.details()[0])

    async def prefix(
        self, keys: Sequence[bytes], *, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
    ) -> int:  # fmt: skip
        """As `Cache.prefix`."""
        until = None if timeout is None else time.monotonic() + timeout
        found = first = 0
        while found == first < len(keys):
            some, parents = chain(keys, first)
            left = timeout if until is None or not first else max(0.0, until - time.monotonic())
            found += leading(await self._run(_core.OP_has, some, None, parents, timeout=left,
                                             tiers=tiers, level=level, check=False))  # fmt: skip
            first += len(some)
        return found

    async def lease(self, key: Key, *, timeout: float | None = None) -> Lease:
        """As `Cache.lease`; it ends with a `with`."""
        return lease_of(await self._run(_core.OP_lease, (key,), timeout=timeout), key)

    async def remove_many(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """As `Cache.remove_many`."""
        return (await self._run(_core.OP_remove, keys, timeout=timeout)).found()

    async def remove(
        self, key: Key, *, timeout: float | None = None, tiers: Sequence[int] | None = None,
        if_version: int | None = None,
    ) -> bool:  # fmt: skip
        """As `Cache.remove`."""
        batch = await self._run(_core.OP_remove, (key,), timeout=timeout, tiers=tiers,
                                if_version=if_version)  # fmt: skip
        return batch.found()[0]

    async def pin(self, key: Key, *, timeout: float | None = None) -> bool:
        """As `Cache.pin`."""
        return (await self._run(_core.OP_pin, (key,), timeout=timeout)).found()[0]

    async def unpin(self, key: Key, *, timeout: float | None = None) -> bool:
        """As `Cache.unpin`."""
        return (await self._run(_core.OP_unpin, (key,), timeout=timeout)).found()[0]

    async def prefetch(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """As `Cache.prefetch`, to the nearest tier."""
        return (await self._run(_core.OP_prefetch, keys, timeout=timeout)).found()
