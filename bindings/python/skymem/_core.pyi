from collections.abc import Sequence as Sequence_
from typing import Any, Protocol

from typing_extensions import Buffer as _Buffer
from typing_extensions import Self, TypeAlias

class SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

Buffer: TypeAlias = _Buffer | SupportsDLPack
Target: TypeAlias = _Buffer | SupportsDLPack

version: str
levels: tuple[str, ...]
OP_has: int
OP_get: int
OP_put: int
OP_remove: int
OP_prefetch: int
OP_pin: int
OP_unpin: int
OP_lease: int

class Lease:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def end(self) -> None: ...

class Batch:
    def wait(self, seconds: float | None, /) -> bool: ...
    def cancel(self) -> None: ...
    def check(self) -> None: ...
    def statuses(self) -> list[int]: ...
    def sizes(self) -> list[int | None]: ...
    def found(self) -> list[bool]: ...
    def details(self) -> list[tuple[int, int, int, int, bool] | None]: ...
    def leases(self) -> list[Lease | None]: ...

class Cache:
    def __new__(cls, urls: Sequence_[str], salt: bytes | None = None) -> Self: ...
    @property
    def closed(self) -> bool: ...
    def submit(
        self,
        op: int,
        keys: Sequence_[str | bytes],
        buffers: Sequence_[object] | None = None,
        parents: Sequence_[bytes | None] | None = None,
        offset: int = 0,
        size: int = 0,
        timeout: float | None = None,
        ttl: int = 0,
        coding: int = 0,
        wanted: int = 0,
        durable: bool = False,
        drop: bool = False,
        tiers: int = 0,
        at_ms: int = 0,
        event_fd: int = 0,
    ) -> Batch: ...
    def run(
        self,
        op: int,
        keys: Sequence_[str | bytes],
        buffers: Sequence_[object] | None = None,
        parents: Sequence_[bytes | None] | None = None,
        offset: int = 0,
        size: int = 0,
        timeout: float | None = None,
        ttl: int = 0,
        coding: int = 0,
        wanted: int = 0,
        durable: bool = False,
        drop: bool = False,
        tiers: int = 0,
        at_ms: int = 0,
        event_fd: int = 0,
    ) -> Batch: ...
    def read(
        self,
        key: str | bytes,
        offset: int = 0,
        size: int = 0,
        timeout: float | None = None,
        wanted: int = 0,
        tiers: int = 0,
    ) -> bytes | None: ...
    def count_prefix(
        self,
        keys: Sequence_[bytes],
        timeout: float | None = None,
        wanted: int = 0,
        tiers: int = 0,
    ) -> int: ...
    def flush(self, seconds: float | None, /) -> int: ...
    def name_key(self, name: str, /) -> bytes: ...
    def close(self) -> None: ...
    def entries(
        self,
    ) -> list[tuple[bytes, str | None, int, int, int, int, int, bool, int, bytes]]: ...
    def tiers(self) -> list[tuple[str, int, bool, str, bytes]]: ...
    def samples(
        self,
    ) -> list[
        tuple[str, str, int, str, str, str, str, int | None, tuple[int, ...] | None, int]
    ]: ...
    def prometheus(self) -> str: ...
    def check(self) -> tuple[int, int, int, int]: ...

def block_keys(namespace: bytes, tokens: Sequence_[int], block_tokens: int, /) -> list[bytes]: ...
def digest(pieces: Sequence_[Buffer], /) -> bytes: ...
def content_hash(data: Buffer, /) -> int: ...
def namespace_salt(namespace: bytes, salt: bytes, /) -> bytes: ...
def salt_read(path: str, /) -> bytes: ...
def leave() -> None: ...
def gone() -> None: ...
def register_tier(
    scheme: str,
    factory: object,
    threads: int,
    lists: bool,
    is_volatile: bool,
    remote: bool,
    /,
) -> None: ...
def status_list() -> list[tuple[str, int, str]]: ...

class Profile:
    def __new__(cls, data: Buffer) -> Self: ...
    @property
    def id(self) -> int: ...

class Manager:
    def __new__(
        cls,
        cache: Cache,
        engine: object,
        block_tokens: int = 128,
        drop: bool = False,
        salt: bytes | None = None,
        profile: Profile | None = None,
    ) -> Self: ...
    @property
    def refusal(self) -> str | None: ...
    @property
    def namespace(self) -> bytes: ...

class Sequence:
    def __new__(cls, manager: Manager, engine: object) -> Self: ...
    def load(
        self, tokens: Sequence_[int], timeout: float | None = None, /
    ) -> tuple[str, int, int, tuple[int, ...], int, int, int, int, int]: ...
    def save(self, tokens: Sequence_[int], /) -> tuple[int, int]: ...
    def cancel(self) -> None: ...
