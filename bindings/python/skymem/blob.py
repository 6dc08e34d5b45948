"""Blocks in memory of a program's own, shared by the processes of a host, as `skymem.Blob`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from skymem import _core

if TYPE_CHECKING:
    from skymem._core import Target

TIMEOUT = 10.0


class Layout(NamedTuple):
    """Where the buffers of a block lie in the region of its `Blob`.

    key: of the block, 32 bytes.
    offsets, sizes: of each buffer, in bytes; the last axis of the shape varies fastest.
    shape: buffers along each axis, such as (52, 2, 1): layers, K and V, buffers. At most 4,096.
    layer_axis: which axis counts layers. Of the others the first counts K and V.
    """

    key: bytes
    offsets: Sequence[int]
    sizes: Sequence[int]
    shape: tuple[int, int, int]
    layer_axis: int = 0


class Block:
    """A block that is open: read-only, and there until the `with` or `end()`, whatever its owner
    does. Arrays made from its views may outlive that: then it stays open until they are gone.
    """

    __slots__ = ("_block", "layout")

    def __init__(self, block: _core.Block) -> None:
        self._block = block
        self.layout = Layout(*block.layout())

    def __enter__(self) -> Block:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def view(self, layer: int, kv: int = 0, buffer: int = 0) -> memoryview:
        """One buffer where it lies. Its bytes are compared with nothing: see `check`."""
        return self._block.view(layer, kv, buffer)

    def read(self, layer: int | None = None) -> bytes:
        """A layer's buffers, K's before V's, or all of the block; CorruptError: they changed."""
        return self._block.read(layer)

    def read_into(self, out: Target | list[Target], layer: int | None = None) -> int:
        """The same into writable memory, or a list of it that is filled one after the other. How
        many bytes; after CorruptError it holds any bytes."""
        return self._block.read_into(layer, tuple(out) if isinstance(out, list) else (out,))

    def check(self, layer: int | None = None) -> bool:
        """Are the bytes of a layer, or all, still those that were published?"""
        return self._block.check(layer)

    def end(self) -> None:
        """No more views; the block goes back when the last that there is goes."""
        self._block.end()


class Mapping:
    """Blocks side by side: each buffer of their shape is one range of addresses, of the owners' own
    memory. Read-only, and there until the `with` or `end()`, as a `Block` is.

    len(mapping): how many blocks, the leading ones of the keys.
    """

    __slots__ = ("_blocks", "_mapping")

    def __init__(self, mapping: _core.Mapping) -> None:
        self._mapping = mapping
        self._blocks = mapping.count()

    def __enter__(self) -> Mapping:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __len__(self) -> int:
        return self._blocks

    def view(self, layer: int, kv: int = 0, buffer: int = 0) -> memoryview:
        """One buffer of all blocks, one after the other. It is compared with nothing: see `check`.
        """
        return self._mapping.view(layer, kv, buffer)

    def check(self, layer: int | None = None) -> bool:
        """Are the bytes of a layer, or all, still those that were published?"""
        return self._mapping.check(layer)

    def end(self) -> None:
        """No more views; the blocks go back when the last that there is goes."""
        self._mapping.end()


class Blob(_core.Blob):
    """A connection to a host's daemon, and a region of memory whose blocks others map.

    memoryview(blob), or numpy.frombuffer(blob, …), is the region, zeroed and writable. A program
    without an allocator of its own has `take` and `give`.

    >>> with Blob("shm:auto", 1 << 20) as mine, Blob("shm:auto") as yours:  # doctest: +SKIP
    ...     offset = mine.take(4096)
    ...     memoryview(mine)[offset : offset + 5] = b"hello"
    ...     mine.put(Layout(b"k" * 32, [offset], [5], (1, 1, 1)))
    ...     with yours.get(b"k" * 32) as block:
    ...         block.read()
    b'hello'

    The owner must not change a published buffer before `remove` of its block returned. Its blocks
    go when it closes the blob or dies. Every call is safe from any thread; a child of fork() opens
    a blob of its own. timeout: seconds until DeadlineError; Ctrl-C is heard then, by `remove` soon.
    """

    def __new__(cls, url: str = "shm:auto", size: int = 0, *, fd: int = -1) -> Blob:
        return super().__new__(cls, url, size, fd)

    def __init__(self, url: str = "shm:auto", size: int = 0, *, fd: int = -1) -> None:
        """Connect to the daemon of a URL, shm:SOCKET or shm:auto, and register `size` bytes.

        size 0: this program only reads.
        fd: a memfd of at least so many bytes, made with MFD_ALLOW_SEALING, which is sealed. Map it
        for writing before: the blob shows it read-only. It stays the caller's.
        """

    def __enter__(self) -> Blob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self.close()

    def put(self, layout: Layout, *, timeout: float = TIMEOUT) -> None:
        """Publish a block of this region: each buffer is read once, and none is copied."""
        self.publish((layout,), timeout)

    def put_many(self, layouts: Iterable[Layout], *, timeout: float = TIMEOUT) -> None:
        """Publish blocks, in their order. After an error remove all of them before their memory
        changes."""
        self.publish(layouts, timeout)

    def get(self, key: bytes, *, timeout: float = TIMEOUT) -> Block | None:
        """Open the block that somebody published last under a key; None: nobody did."""
        block = self.open_block(key, timeout)
        return block and Block(block)

    def map(self, keys: Iterable[bytes], *, timeout: float = TIMEOUT) -> Mapping | None:
        """Open blocks, and map their buffers side by side, until the first that is not there; None:
        the first is not. UnsupportedError: a buffer has no whole pages, or blocks differ.
        """
        mapping = self.open_mapping(keys, timeout)
        return mapping and Mapping(mapping)

    def remove(self, key: bytes, *, timeout: float | None = None) -> bool:
        """Withdraw a block of this blob, and wait until nobody has it open: then its memory may
        change. Was it published? After DeadlineError call again: it is open still."""
        return self.withdraw(key, timeout)
