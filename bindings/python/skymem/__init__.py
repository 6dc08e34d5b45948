"""SkyMemory: a cache for the attention state (KV cache) of language models.

>>> import skymem
>>> with skymem.Cache(["mem:16MiB"]) as cache:
...     cache.put("greeting", b"hello")
...     cache.get("greeting")
b'hello'

`Cache` is a store of any bytes under any key, in tiers. `skymem.keys` names the blocks of prompts.
`AsyncCache` is for asyncio. `Blob` shares blocks in memory of a program's own.
Importing this imports neither numpy nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skymem._core import Batch
from skymem._core import version as __version__
from skymem.blob import Blob, Block, Layout, Mapping
from skymem.cache import (
    BUCKET_BOUNDS_NS,
    LEVELS,
    Cache,
    Entry,
    Info,
    Lease,
    Sample,
    TierStat,
    Verified,
)
from skymem.errors import (
    BusyError,
    CancelledError,
    ConflictError,
    CorruptError,
    DeadlineError,
    DeniedError,
    Error,
    ForkedError,
    FullError,
    IoError,
    MissError,
    NoMemoryError,
    ParamError,
    SmallError,
    UnavailableError,
    UnsupportedError,
    UrlError,
)
from skymem.keys import block_keys, digest
from skymem.tiers import register_tier

if TYPE_CHECKING:
    from skymem.aio import AsyncCache

__all__ = [
    "BUCKET_BOUNDS_NS", "LEVELS", "AsyncCache", "Batch", "Blob", "Block", "BusyError", "Cache",
    "CancelledError", "ConflictError", "CorruptError", "DeadlineError", "DeniedError", "Entry",
    "Error", "ForkedError", "FullError", "Info", "IoError", "Layout", "Lease", "Mapping",
    "MissError", "NoMemoryError", "ParamError", "Sample", "SmallError", "TierStat",
    "UnavailableError", "UnsupportedError", "UrlError", "Verified", "__version__", "block_keys",
    "digest", "register_tier",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "AsyncCache":  # asyncio alone takes longer to import than all the rest
        from skymem.aio import AsyncCache

        return AsyncCache
    raise AttributeError(f"module 'skymem' has no attribute {name!r}")
