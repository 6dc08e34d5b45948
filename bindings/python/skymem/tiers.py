"""Stores of your own as tiers: `register_tier("dict", DictStore)` makes "dict:where" a URL.

The library does the rest: batches, deadlines, threads, checksums, names, times to live, codec
levels ("dict:where?level=8"), statistics. A value that comes back damaged is removed and raises
CorruptError once; then it is a miss.

>>> class DictStore:
...     def __init__(self, where: str) -> None:
...         self.values: dict[bytes, bytes] = {}
...     def read(self, key: bytes, offset: int, size: int) -> tuple[memoryview, int] | None:
...         value = self.values.get(key)
...         return value and (memoryview(value)[offset : offset + size], len(value))
...     def write(self, key: bytes, value: bytes, durable: bool) -> None:
...         self.values[key] = value
...     def remove(self, key: bytes) -> bool:
...         return self.values.pop(key, None) is not None
...     def keys(self) -> list[bytes]:
...         return list(self.values)
>>> register_tier("doc", DictStore, volatile=True)
>>> from skymem import Cache
>>> with Cache(["mem:16MiB", "doc:1"]) as cache:
...     cache.put("greeting", b"hello")
...     cache.get("greeting", tiers=[1])
b'hello'
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from skymem import _core

if TYPE_CHECKING:
    from skymem._core import Buffer


class Store(Protocol):
    """What a store can do. Its methods are called on threads of the library, and may wait.

    What they raise: KeyError (not there), PermissionError, MemoryError, OSError, or an exception of
    skymem.errors. Others are printed, and count as a failure of the medium. A store that fails
    three times in a row is left alone for a while. They must not call the cache that they serve:
    it waits for them.

    Optional: keys() -> Iterable[bytes]; usage() -> (values, bytes, most bytes, 0: no limit);
    close(). Without keys, `Cache.list` does not show what the store holds. Statistics call usage,
    so it should be quick. With threads=1 they show the last counts while another call runs.
    """

    def read(self, key: bytes, offset: int, size: int) -> tuple[Buffer, int] | None:
        """So many bytes of a value, or fewer at its end, and the size of the whole.

        None: it is not there. Bytes of one call are of one value, never of two.
        """

    def write(self, key: bytes, value: bytes, durable: bool) -> None:
        """Replace a value as a whole. durable: return when it would survive a loss of power."""

    def remove(self, key: bytes) -> bool:
        """Was it there?"""


_registering = threading.Lock()
_stores: dict[str, tuple[tuple[object, ...], list[Callable[[str], Store]]]] = {}


def register_tier(
    scheme: str, store: Callable[[str], Store], *, threads: int = 1, volatile: bool = False,
    remote: bool = False,
) -> None:  # fmt: skip
    """From now on "scheme:where" opens store(where), until the process ends.

    A scheme may be registered again with the same settings, as a notebook that runs twice does:
    caches opened from then on have the new store.

    threads: how many of its methods may run at once, of different keys; with 1 one after another.
    volatile: what it holds ends with this process; remote: other processes answer for it.
    """
    lists, counts = (not isinstance(store, type) or hasattr(store, name)
                     for name in ("keys", "usage"))  # fmt: skip
    settings = (threads, lists, counts, volatile, remote)
    with _registering:
        if scheme in _stores and _stores[scheme][0] == settings:
            _stores[scheme][1][0] = store
            return
        latest = [store]
        _core.register_tier(scheme, lambda where: latest[0](where), *settings)
        _stores[scheme] = (settings, latest)


class FsspecStore:
    """Values as files of any file system that fsspec knows: register_tier("fsspec", FsspecStore),
    then "fsspec:s3://bucket/folder", "fsspec:memory://folder" and so on. Needs fsspec."""

    def __init__(self, where: str) -> None:
        import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]

        self.fs: Any
        self.fs, self.folder = fsspec.core.url_to_fs(where.partition("?")[0])
        self.fs.makedirs(self.folder, exist_ok=True)

    def path(self, key: bytes) -> str:
        name = key.hex()
        return f"{self.folder}/{name[:2]}/{name}"

    def read(self, key: bytes, offset: int, size: int) -> tuple[bytes, int] | None:
        try:
            with self.fs.open(self.path(key), "rb") as file:
                whole = int(file.seek(0, 2))
                file.seek(offset)
                return file.read(size), whole
        except FileNotFoundError:
            return None

    def write(self, key: bytes, value: bytes, durable: bool) -> None:
        path = self.path(key)
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(path + ".part", value)
        self.fs.mv(path + ".part", path)

    def remove(self, key: bytes) -> bool:
        try:
            self.fs.rm_file(self.path(key))
        except FileNotFoundError:
            return False
        return True

    def keys(self) -> Iterable[bytes]:
        names = (path.rpartition("/")[2] for path in self.fs.find(self.folder))
        return [bytes.fromhex(name) for name in names if len(name) == 64]
