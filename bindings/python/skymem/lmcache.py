"""A second-level store (L2) for LMCache, on the stores of SkyMemory.

    lmcache server --l1-size-gb 20 --eviction-policy LRU --l2-adapter '{"type": "native_plugin",
        "module_path": "skymem.lmcache", "class_name": "SkyMemory",
        "adapter_params": {"stores": ["shm:auto", "disk:/var/cache/skymem"]}}'

A chunk of LMCache is a payload, whose key is a digest of LMCache's own key. LMCache starts batches
and does not wait; it polls an eventfd, and asks which batches are done:

    submit_batch_set, _get, _exists, _delete   start a batch ──► its number
    drain_completions                          [(number, done, error, [of each key])]
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from skymem.cache import Cache, Op
from skymem.complaints import Complaints
from skymem.errors import Error
from skymem.keys import digest

if TYPE_CHECKING:
    from skymem._core import Batch

FORMAT = b"skymem.lmcache 1 "

Completion = tuple[int, bool, str, list[bool]]

logger = logging.getLogger(__name__)


class Started(NamedTuple):
    """A batch that is not done. sizes: bytes of each buffer; until: monotonic time."""

    op: Op
    batch: Batch
    sizes: list[int]
    until: float


class SkyMemory:
    """The client that LMCache's `native_plugin` wants. adapter_params:

    stores     URLs of stores, from nearest to farthest
    timeout    seconds that an operation may take; then a load is a miss, and a store failed
    namespace  any text that tells apart what must not be shared: LMCache's keys name the model,
               but not its weights or the type of its state
    """

    def __init__(
        self, stores: str | Sequence[str], timeout: float = 10.0, namespace: str = ""
    ) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout: seconds above 0 are wanted, not {timeout!r}")
        self._cache = Cache(stores)
        self._namespace = digest(FORMAT, namespace.encode())
        self._timeout = timeout
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._changed = threading.Condition()
        self._started: dict[int, Started] = {}
        self._finished: list[Completion] = []
        self._count = 0
        self._complaints = Complaints(logger)
        self._open = True
        self._watcher = threading.Thread(target=self._watch, name="skymem-lmcache", daemon=True)
        self._watcher.start()

    def event_fd(self) -> int:
        """An eventfd, readable when a batch may be done."""
        return self._event

    def submit_batch_set(self, keys: Sequence[str], buffers: Sequence[memoryview]) -> int:
        """Store values. Their memory must stay as it is until the batch is done."""
        return self._submit("put", keys, buffers)

    def submit_batch_get(self, keys: Sequence[str], buffers: Sequence[memoryview]) -> int:
        """Load values, each of the size of its buffer. A value of another size is a miss."""
        return self._submit("get", keys, buffers)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        """Is each there?"""
        return self._submit("has", keys, None)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """Remove values. Was each there?"""
        return self._submit("remove", keys, None)

    def _submit(self, op: Op, keys: Sequence[str], buffers: Sequence[memoryview] | None) -> int:
        digests = [digest(self._namespace, key.encode()) for key in keys]
        with self._changed:
            if not self._open:
                raise ValueError("the client is closed; make another one")
            self._count += 1
            if not keys:
                return self._tell(True, "", [])
            try:
                batch = self._cache.start(op, digests, buffers, timeout=self._timeout,
                                          event_fd=self._event)  # fmt: skip
            except (Error, BufferError, ValueError) as error:  # such as a full queue
                self._complaints.say(f"{op} was refused", error)
                return self._tell(False, str(error), [False] * len(keys))
            sizes = [buffer.nbytes for buffer in buffers or ()]
            until = time.monotonic() + self._timeout
            self._started[self._count] = Started(op, batch, sizes, until)
            self._changed.notify()
            return self._count

    def _tell(self, done: bool, error: str, there: list[bool]) -> int:
        """The batch that was counted last is done without having been started."""
        self._finished.append((self._count, done, error, there))
        os.eventfd_write(self._event, 1)
        return self._count

    def drain_completions(self) -> list[Completion]:
        """Batches that are done. Each is given out once."""
        with self._changed:
            try:
                if self._open:
                    os.eventfd_read(self._event)
            except BlockingIOError:
                pass
            done, self._finished = self._finished, []
            for number, one in list(self._started.items()):
                if one.batch.wait(0):
                    del self._started[number]
                    done.append(self._completion(number, one))
        return done

    def _completion(self, number: int, one: Started) -> Completion:
        said = ""
        try:
            one.batch.check()
        except Error as error:
            said = str(error)
            self._complaints.say(f"{one.op} failed", error)
        there = [status == 0 for status in one.batch.statuses()]
        if one.op == "get":
            sizes = one.batch.sizes()
            there = [t and size == n for t, size, n in zip(there, sizes, one.sizes)]
        # Parts of a load or of a lookup are of use. A store is done or not, as a whole.
        return number, one.op != "put" or all(there), said, there

    def _watch(self) -> None:
        """Say that a batch is late: its deadline does not raise the eventfd."""
        with self._changed:
            while self._open:
                until = min((one.until for one in self._started.values()), default=None)
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    os.eventfd_write(self._event, 1)
                    left = 0.1  # until it is drained
                self._changed.wait(left)

    def close(self) -> None:
        """Cancel batches, wait at most 10 s for writes to farther stores, and close."""
        with self._changed:
            if not self._open:
                return
            self._open = False
            self._changed.notify()
            for one in self._started.values():
                one.batch.cancel()
            self._started.clear()
        self._watcher.join()
        try:
            self._cache.flush(10)
        except Error as error:
            logger.warning("SkyMemory: not all was written: %s", error)
        self._cache.close()
        os.close(self._event)
