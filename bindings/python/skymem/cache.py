"""A cache of tiers, as `skymem.Cache`."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from skymem import _core
from skymem.errors import BusyError, Error, MissError, UrlError

if TYPE_CHECKING:
    from skymem._core import Buffer, Target

Key = str | bytes
"""A name (str), or the key of a block (32 bytes)."""

Level = str | float
"""A level of the codec, such as "lossless", "2.5" or 4."""

LEVELS = _core.levels
"""Levels of the codec, from exact to smallest."""

BUCKET_BOUNDS_NS = _core.bucket_bounds_ns
"""The longest time that each bucket of a histogram counts (`Sample.buckets`); the last has none."""

Op = Literal["has", "get", "put", "remove", "prefetch", "pin", "unpin", "lease"]
Evict = Literal["normal", "soon", "last"]
"""When a value leaves a full tier: before others, after them, or neither."""

OPS: dict[str, int] = {name: getattr(_core, "OP_" + name) for name in get_args(Op)}

PREFIX_KEYS = 1024  # looked up in one batch


class Entry(NamedTuple):
    """What a tier holds under one key."""

    key: bytes
    name: str | None
    size: int
    set_ms: int
    used_ms: int
    hits: int
    tier: int
    pinned: bool
    level: str | None
    parent: bytes
    evict: Evict


class Info(NamedTuple):
    """What the nearest tier that has a key tells of it.

    ttl: seconds it is still kept; 0: no end, or the tier does not say so without a read (disk).
    version: for `if_version`; 0: the tier keeps none.
    """

    size: int
    tier: int
    level: str | None
    ttl: int
    pinned: bool
    version: int
    evict: Evict


class TierStat(NamedTuple):
    """What a tier is, and how it is now."""

    url: str
    leases: bool
    volatile: bool
    unlisted: bool
    sky: bool
    remote: bool
    versions: bool
    failing: bool
    note: str
    levels: tuple[str, ...]


class Verified(NamedTuple):
    """What `Cache.verify` found: damaged entries and orphans were dropped."""

    entries: int
    size: int
    corrupt: int
    orphans: int


class Sample(NamedTuple):
    """One number of a cache. Of a histogram: counts of its buckets (`BUCKET_BOUNDS_NS`, and one
    more), and the sum in ns."""

    name: str
    kind: str
    tier: int
    tier_kind: str
    label: str
    value: str
    unit: str
    help: str
    number: int | None
    buckets: tuple[int, ...] | None
    sum_ns: int


CLASSES: tuple[Evict, ...] = get_args(Evict)


def class_of(evict: Evict) -> int:
    """The number of an eviction class by name."""
    if evict not in CLASSES:
        raise ValueError(f"evict: one of {', '.join(CLASSES)} is wanted, not {evict!r}")
    return CLASSES.index(evict)


def level_name(level: Level) -> str:
    """The name of a level, which may be given as a number: 4 and 4.0 are "4"."""
    name = f"{level:g}" if isinstance(level, float) else str(level)
    if name not in LEVELS:
        raise ValueError(f"level: one of {', '.join(LEVELS)} is wanted, not {level!r}")
    return name


def coding_of(level: Level | None) -> int:
    """The number of a level by name; 0 for None."""
    return 0 if level is None else LEVELS.index(level_name(level)) + 1


def level_of(coding: int) -> str | None:
    """The name of the level that a number stands for."""
    return LEVELS[coding - 1] if 1 <= coding <= len(LEVELS) else None


def tiers_mask(tiers: Sequence[int] | None) -> int:
    """Places of tiers as bits; None, or none of them: all."""
    if tiers and not 0 <= min(tiers) <= max(tiers) < 32:  # more bits do not reach the library
        raise ValueError(f"tiers: places from 0 on are wanted, not {list(tiers)}")
    return sum(1 << tier for tier in set(tiers)) if tiers else 0


def version_of(version: int | None) -> int:
    """What the library calls the version that a change is made only of; None: any."""
    if version is not None and not isinstance(version, int):
        raise TypeError(f"if_version: that of `Info` is wanted, or 0: nothing, not {version!r}")
    if version is not None and not 0 <= version < 2**64 - 1:
        raise ValueError(f"if_version: that of `Info` is wanted, or 0: nothing, not {version}")
    return 0 if version is None else version or 2**64 - 1


def leading(batch: _core.Batch) -> int:
    """How many leading keys of a batch of has are there; it is over."""
    for count, status in enumerate(batch.statuses()):
        if status < 0:
            batch.check()
        if status:
            return count
    return len(batch.statuses())


def chain(keys: Sequence[bytes], first: int) -> tuple[Sequence[bytes], list[bytes | None]]:
    """Some keys from the first on, and the keys before them, of which a tier may make use."""
    for key in (some := keys[first : first + PREFIX_KEYS]):
        if not isinstance(key, bytes):
            raise TypeError(f"keys: a block's key is bytes, not {type(key)}")
    return some, [None, *some[:-1]]


def resolve(url: str) -> str:
    """A scenario of the package by its name ("sky:seed" is "sky:…/scenarios/seed.yaml"), and a
    folder below the user's own ("disk:~/skymem")."""
    scheme, colon, rest = str(url).partition(":")
    if scheme == "disk" and rest.startswith("~/"):
        return "disk:" + os.path.expanduser(rest)
    name, question, query = rest.partition("?")
    if scheme not in ("sky", "sky+udp") or not colon or os.path.exists(name) or "/" in name:
        return url
    folder = os.path.join(os.path.dirname(__file__), "scenarios")
    there = sorted(file[:-5] for file in os.listdir(folder) if file.endswith(".yaml"))
    scenario = name.removesuffix(".yaml")
    if scenario not in there:
        raise UrlError(
            f"{url}: no file and no scenario is called so; there are {', '.join(there)}")
    return f"{scheme}:{os.path.join(folder, scenario)}.yaml{question}{query}"


class Lease:
    """A payload where memory keeps it, until the `with` ends.

    Arrays made from the view may outlive it: what they show stays as it is until they are gone.
    """

    __slots__ = ("_lease", "_view")

    def __init__(self, lease: _core.Lease) -> None:
        self._lease = lease
        self._view: memoryview | None = None

    def __enter__(self) -> memoryview:
        if self._view is not None:
            raise RuntimeError("the lease is in a with already; take another one")
        self._view = memoryview(self._lease)
        return self._view

    def __exit__(self, *_: object) -> None:
        view, self._view = self._view, None
        if view is not None:
            try:
                view.release()
            except BufferError:  # an array was made from it, which holds it
                pass
        self._lease.end()


def lease_of(batch: _core.Batch, key: Key) -> Lease:
    """The lease of a batch of one."""
    lease = batch.leases()[0]
    if lease is None:
        raise MissError(f"lease of {key!r}: not found")
    return Lease(lease)


def info_of(detail: tuple[int, int, int, int, bool, int, int] | None) -> Info | None:
    """What a batch found out of one of its keys."""
    if detail is None:
        return None
    size, tier, coding, ttl, pinned, version, evict = detail
    return Info(size, tier, level_of(coding), ttl, pinned, version, CLASSES[evict])


_open: weakref.WeakSet[Cache] = weakref.WeakSet()


class Cache(_core.Cache):
    """Tiers from nearest to farthest, used as one.

    >>> with Cache(["mem:16MiB"]) as cache:
    ...     cache.put("greeting", b"hello")
    ...     cache.get("greeting")
    b'hello'

    A key is a name (str) or the 32 bytes of a block's key. Values are anything with memory: bytes,
    numpy arrays, torch tensors. Every call is safe from any thread; a child of fork() opens a cache
    of its own. What all calls take:

    timeout  seconds, after which DeadlineError is raised
    tiers    places of the tiers that take part, from 0; None: all
    level    of the codec, by name (see `skymem.LEVELS`): only what is stored at this level; tiers
             that have no levels, such as memory, ignore it
    """

    def __new__(cls, urls: str | Sequence[str], *, salt: bytes | None = None) -> Cache:
        names = [urls] if isinstance(urls, str) else list(urls)
        self = super().__new__(cls, [resolve(url) for url in names], salt)
        _open.add(self)
        return self

    def __init__(self, urls: str | Sequence[str], *, salt: bytes | None = None) -> None:
        """Open tiers: mem:SIZE, disk:PATH, sky:SCENARIO, sky+udp:SCENARIO, or one of your own.

        salt: 32 secret bytes of a tenant, whose names nobody else can name.
        """

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self.close()

    # ---- one key ----

    def put(
        self, key: Key, value: Buffer, *, parent: bytes | None = None, ttl: int = 0,
        durable: bool = False, drop: bool = False, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
        if_version: int | None = None, evict: Evict = "normal",
    ) -> int | None:  # fmt: skip
        """Store a value. ttl: seconds until it is forgotten; durable: it survives a loss of power.

        parent: of a block, the key of the block before it.
        evict: when memory or a disk is full, "soon" leaves before all others, and "last" after
        them, as far as those take no more than half of it. Skies know no classes.
        if_version: only if that is stored (0: only if nothing is), else ConflictError, whose
        `version` is that of the value that is; of a name in one tier that keeps versions.
        UnavailableError: it may have happened; look. Returns the version, from such a tier.
        """
        batch = self.run(
            _core.OP_put, (key,), (value,), (parent,), 0, 0, timeout, ttl, 0, coding_of(level),
            durable, drop, tiers_mask(tiers), 0, 0, version_of(if_version), class_of(evict),
        )  # fmt: skip
        return batch.versions()[0] or None

    def get(
        self, key: Key, *, offset: int = 0, size: int = 0, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
    ) -> bytes | None:  # fmt: skip
        """The payload as new bytes, or a part of it; None when it is not there."""
        return self.read(key, offset, size, timeout, coding_of(level), tiers_mask(tiers))

    def get_into(
        self, key: Key, out: Target | Sequence[Target | int], *, offset: int = 0, size: int = 0,
        timeout: float | None = None, tiers: Sequence[int] | None = None,
        level: Level | None = None,
    ) -> int | None:  # fmt: skip
        """Copy the payload into writable memory; how many bytes, or None when it is not there.

        A list of buffers takes pieces that follow each other. A number in it passes over as many
        bytes, which count too.
        """
        return self.get_many((key,), (out,), offset=offset, size=size, timeout=timeout,
                             tiers=tiers, level=level)[0]  # fmt: skip

    def has(
        self, key: Key, *, timeout: float | None = None, tiers: Sequence[int] | None = None,
        level: Level | None = None,
    ) -> bool:  # fmt: skip
        """Is the key in some tier?"""
        return self.has_many((key,), timeout=timeout, tiers=tiers, level=level)[0]

    def info(
        self, key: Key, *, timeout: float | None = None, tiers: Sequence[int] | None = None
    ) -> Info | None:
        """What the nearest tier that has the key tells of it."""
        return info_of(self.run(
            _core.OP_has, (key,), None, None, 0, 0, timeout, 0, 0, 0, False, False,
            tiers_mask(tiers),
        ).details()[0])  # fmt: skip

    def remove(
        self, key: Key, *, timeout: float | None = None, tiers: Sequence[int] | None = None,
        if_version: int | None = None,
    ) -> bool:  # fmt: skip
        """Remove the key, and every block that only it makes reachable. Was it there?

        if_version: as of `put`.
        """
        return self.run(
            _core.OP_remove, (key,), None, None, 0, 0, timeout, 0, 0, 0, False, False,
            tiers_mask(tiers), 0, 0, version_of(if_version),
        ).found()[0]  # fmt: skip

    def pin(self, key: Key, *, timeout: float | None = None) -> bool:
        """Never evict the key. Was it there? UnsupportedError: only in a tier without pins."""
        return self.run(_core.OP_pin, (key,), None, None, 0, 0, timeout).found()[0]

    def unpin(self, key: Key, *, timeout: float | None = None) -> bool:
        """Let the key be evicted again. Was it there?"""
        return self.run(_core.OP_unpin, (key,), None, None, 0, 0, timeout).found()[0]

    def lease(self, key: Key, *, timeout: float | None = None) -> Lease:
        """Read a payload where memory keeps it, without a copy. MissError when it is not there.

        >>> with Cache("mem:16MiB") as cache:
        ...     cache.put("greeting", b"hello")
        ...     with cache.lease("greeting") as view:
        ...         bytes(view[:4])
        b'hell'
        """
        return lease_of(self.run(_core.OP_lease, (key,), None, None, 0, 0, timeout), key)

    # ---- many keys in one batch ----

    def put_many(
        self, keys: Sequence[Key], values: Sequence[Buffer | Sequence[Buffer]], *,
        parents: Sequence[bytes | None] | None = None, ttl: int = 0, durable: bool = False,
        drop: bool = False, timeout: float | None = None, tiers: Sequence[int] | None = None,
        level: Level | None = None, evict: Evict = "normal",
    ) -> None:  # fmt: skip
        """Store values, each a buffer or a list of buffers that follow each other."""
        self.run(
            _core.OP_put, keys, values, parents, 0, 0, timeout, ttl, 0, coding_of(level), durable,
            drop, tiers_mask(tiers), 0, 0, 0, class_of(evict),
        )  # fmt: skip

    def get_many(
        self, keys: Sequence[Key], out: Sequence[Target | Sequence[Target | int]], *,
        offset: int = 0, size: int = 0, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
    ) -> list[int | None]:  # fmt: skip
        """Copy payloads into writable memory, one buffer a key: the bytes of each, None: not there.

        >>> with Cache("mem:16MiB") as cache:
        ...     cache.put_many(["a", "b"], [b"one", b"two"])
        ...     out = [bytearray(3), bytearray(3), bytearray(3)]
        ...     cache.get_many(["a", "b", "c"], out), bytes(out[1])
        ([3, 3, None], b'two')
        """
        return self.run(
            _core.OP_get, keys, out, None, offset, size, timeout, 0, 0, coding_of(level), False,
            False, tiers_mask(tiers),
        ).sizes()  # fmt: skip

    def has_many(
        self, keys: Sequence[Key], *, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
    ) -> list[bool]:  # fmt: skip
        """Is each key in some tier?"""
        return self.run(
            _core.OP_has, keys, None, None, 0, 0, timeout, 0, 0, coding_of(level), False, False,
            tiers_mask(tiers),
        ).found()  # fmt: skip

    def remove_many(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """Remove keys. Was each there?"""
        return self.run(_core.OP_remove, keys, None, None, 0, 0, timeout).found()

    def start(
        self, op: Op, keys: Sequence[Key], buffers: Sequence[object] | None = None, *,
        parents: Sequence[bytes | None] | None = None, offset: int = 0, size: int = 0,
        timeout: float | None = None, ttl: int = 0, durable: bool = False, drop: bool = False,
        tiers: Sequence[int] | None = None, level: Level | None = None, evict: Evict = "normal",
        event_fd: int = 0,
    ) -> _core.Batch:  # fmt: skip
        """Start a batch and go on: values for "put", or memory for "get", one a key.

        event_fd: an eventfd that is raised when the batch is over, but not by its timeout; it stays
        open until `wait` or `cancel` of the batch.

        >>> with Cache("mem:16MiB") as cache:
        ...     put = cache.start("put", ["a", "b"], [b"one", b"two"])
        ...     put.wait(None)
        ...     put.check()  # raises what failed
        ...     out = [bytearray(3), bytearray(3)]
        ...     get = cache.start("get", ["a", "c"], out)
        ...     get.wait(1.5), get.sizes()
        True
        (True, [3, None])
        """
        if op not in OPS:
            raise ValueError(f"op: one of {', '.join(OPS)} is wanted, not {op!r}")
        return self.submit(
            OPS[op], keys, buffers, parents, offset, size, timeout, ttl, 0, coding_of(level),
            durable, drop, tiers_mask(tiers), 0, event_fd, 0, class_of(evict),
        )  # fmt: skip

    def prefetch(
        self, keys: Sequence[Key], *, at_ms: int = 0, timeout: float | None = None
    ) -> list[bool]:
        """Bring payloads to the nearest tier, or, at a time, to where a sky will be overhead."""
        return self.run(
            _core.OP_prefetch, keys, None, None, 0, 0, timeout, 0, 0, 0, False, False, 0, at_ms
        ).found()

    def prefix(
        self, keys: Sequence[bytes], *, timeout: float | None = None,
        tiers: Sequence[int] | None = None, level: Level | None = None,
    ) -> int:  # fmt: skip
        """How many leading keys of blocks are in some tier."""
        until = None if timeout is None else time.monotonic() + timeout
        found = first = 0
        while found == first < len(keys):
            some, parents = chain(keys, first)
            left = timeout if until is None or not first else max(0.0, until - time.monotonic())
            batch = self.submit(_core.OP_has, some, None, parents, 0, 0, left, 0, 0,
                                coding_of(level), False, False, tiers_mask(tiers))  # fmt: skip
            batch.wait(None)
            found += leading(batch)
            first += len(some)
        return found

    # ---- all of it ----

    def stat(self) -> list[TierStat]:
        """What each tier is and how it is, nearest first."""
        return [
            TierStat(
                url, bool(traits & 1), bool(traits & 2), bool(traits & 4), bool(traits & 8),
                bool(traits & 16), bool(traits & 128), failing, note,
                tuple(LEVELS[coding - 1] for coding in codings),
            )
            for url, traits, failing, note, codings in self.tiers()
        ]  # fmt: skip

    def metrics(self) -> list[Sample]:
        """Every number that the cache and its tiers count."""
        return [Sample(*row) for row in self.samples()]

    def verify(self) -> Verified:
        """Read and check every byte of every tier; drop what is damaged."""
        return Verified(*self.check())

    def list(self) -> list[Entry]:  # the last: below it the word means this
        """Every entry of every tier, in no particular order."""
        return [
            Entry(*row[:8], level_of(row[8]), row[9], CLASSES[row[10]]) for row in self.entries()
        ]


def _close_all() -> None:
    """Before the interpreter ends: calls that wait give up, then what is queued is written out."""
    _core.leave()
    until = time.monotonic() + 1
    for cache in list(_open):
        while not cache.closed:
            try:
                cache.close()
            except BusyError:
                if time.monotonic() > until:  # something leased is still in use: write out only
                    try:
                        cache.flush(10)
                    except Error:
                        pass
                    break
                time.sleep(0.02)
    _core.gone()


atexit.register(_close_all)
