"""The farthest level of SGLang's hierarchical cache, in stores of SkyMemory.

    python -m sglang.launch_server --model-path MODEL --enable-hierarchical-cache
        --hicache-mem-layout page_first --hicache-storage-backend dynamic
        --hicache-storage-backend-extra-config '{"backend_name": "skymem", "interface_v1": 1,
            "module_path": "skymem.sglang", "class_name": "SkyMemory",
            "hicache_storage_pass_prefix_keys": true,
            "stores": ["shm:auto", "disk:/var/cache/skymem"]}'

SGLang moves pages between the device and a host pool. From the pool it stores them here, and looks
them up here, page by page under chained hashes of their tokens. A page is a payload, whose pieces
lie where the host pool says. Its parent is the page before it: within a call always, and over the
first page of a call with hicache_storage_pass_prefix_keys.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import time
from collections.abc import Sequence
from typing import Any

import sglang
import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage
from sglang.srt.runtime_context import get_server_args

from skymem.cache import Cache
from skymem.complaints import Complaints
from skymem.errors import Error, ParamError, UnsupportedError, UrlError
from skymem.keys import digest

FORMAT = "skymem.sglang 1"

logger = logging.getLogger(__name__)


# Of the server's arguments: what the state depends on and the host pool does not show. Both kinds
# of fp8 are uint8 there, and the state of a draft model may lie in the same pages.
ARGUMENTS = ("model_path", "revision", "dtype", "quantization", "kv_cache_dtype",
             "speculative_algorithm", "speculative_draft_model_path")  # fmt: skip


def server_arguments() -> list[str]:
    try:
        args = get_server_args()
    except ValueError:  # a controller without a server
        return []
    return [f"{name} {getattr(args, name, None)}" for name in ARGUMENTS]


@functools.cache
def bytes_type(size: int) -> Any:
    return ctypes.c_ubyte * size


def last_of(extra_info: Any) -> str | None:
    """The page before the first of a call."""
    last: str | None = (getattr(extra_info, "prefix_keys", None) or [None])[-1]
    return last


class SkyMemory(HiCacheStorage):
    """A storage backend of SGLang. hicache-storage-backend-extra-config:

    stores        URLs of stores, from nearest to farthest
    timeout       seconds that a call may take (5); then a lookup or a load is a miss
    namespace     any text that tells apart what must not be shared: keys name the model, the type
                  and shape of its state, and SGLang's version, but not the content of its weights
    interface_v1  1: pages are read and written where they lie, without a copy
    """

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        extra = storage_config.extra_config or {}
        if not extra.get("stores"):
            raise ValueError("hicache-storage-backend-extra-config: stores: URLs are wanted")
        self.config, self.extra = storage_config, extra
        self.timeout = float(extra.get("timeout", 5.0))
        if not self.timeout > 0:
            raise ValueError(f"timeout: seconds above 0 are wanted, not {self.timeout}")
        self.namespace = b""
        self.complaints = Complaints(logger)
        self.cache: Cache | None = None
        try:
            self.cache = Cache(extra["stores"])
        except (ParamError, UrlError):
            raise
        except Error as error:
            self.complaints.say("nothing is kept", error)

    # ---- whose pages these are ----

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        config, pool = self.config, mem_pool_host
        if self.extra.get("interface_v1"):
            try:
                self._pages(torch.arange(pool.page_size))
            except (AttributeError, NotImplementedError, ValueError) as error:
                raise UnsupportedError(f"interface_v1: of this host pool SGLang does not say where "
                                       f"pages lie ({error}); leave it out") from error  # fmt: skip
        ranks = [config.pp_rank, config.pp_size, config.attn_cp_rank, config.attn_cp_size]
        if not config.is_mla_model:  # whose state is the same on all ranks
            ranks += [config.tp_rank, config.tp_size]
        pieces = [FORMAT, sglang.__version__, config.model_name, ranks, pool.layout,
                  str(pool.dtype), pool.page_size, pool.get_size_per_token(),
                  bool(self.extra.get("interface_v1")), self.extra.get("namespace", ""),
                  server_arguments()]  # fmt: skip
        self.namespace = digest(repr(pieces).encode())

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        if str(host_pool_name) != "kv":
            raise UnsupportedError(f"SkyMemory keeps no pool of {host_pool_name} of SGLang")

    def _key(self, page: str) -> bytes:
        return digest(self.namespace, page.encode())

    def _pages(self, indices: torch.Tensor) -> list[list[memoryview]]:
        """The pieces of each page in host memory."""
        pointers, sizes = self.mem_pool_host.get_page_buffer_meta(indices)
        pieces = [memoryview(bytes_type(size).from_address(pointer))
                  for pointer, size in zip(pointers, sizes)]  # fmt: skip
        each = len(pieces) * self.mem_pool_host.page_size // len(indices)
        return [pieces[at : at + each] for at in range(0, len(pieces), each)]

    # ---- what SGLang calls, from threads of its own. A failure is a miss, and no exception. ----

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """How many leading pages are there."""
        if self.cache is None:
            return 0
        try:
            return self.cache.prefix([self._key(key) for key in keys], timeout=self.timeout)
        except (Error, ValueError) as error:
            self.complaints.say("a lookup failed", error)
            return 0

    def batch_get_v1(
        self, keys: list[str], host_indices: torch.Tensor, extra_info: Any = None
    ) -> list[bool]:
        """Load pages to their places in the host pool."""
        return self._load(keys, self._pages(host_indices), last_of(extra_info)) if keys else []

    def batch_set_v1(
        self, keys: list[str], host_indices: torch.Tensor, extra_info: Any = None
    ) -> list[bool]:
        """Store pages from their places in the host pool."""
        return self._store(keys, self._pages(host_indices), last_of(extra_info)) if keys else []

    def _chain(
        self, keys: Sequence[str], before: str | None
    ) -> tuple[list[bytes], list[bytes | None]]:
        """Keys of pages, and of the pages before them."""
        names = [self._key(key) for key in keys]
        return names, [None if before is None else self._key(before), *names[:-1]]

    def _load(
        self, keys: Sequence[str], pages: Sequence[list[memoryview]], before: str | None = None
    ) -> list[bool]:
        found = [False] * len(keys)
        if self.cache is None:
            return found
        names, parents = self._chain(keys, before)
        try:
            batch = self.cache.start("get", names, pages, parents=parents, timeout=self.timeout)
            batch.wait(None)
            for i, (status, size) in enumerate(zip(batch.statuses(), batch.sizes())):
                found[i] = status == 0 and size == sum(piece.nbytes for piece in pages[i])
            batch.check()
        except (Error, ValueError) as error:  # ValueError: it is closed
            self.complaints.say("a load failed", error)
        return found

    def _store(
        self, keys: Sequence[str], pages: Sequence[Any], before: str | None = None
    ) -> list[bool]:
        if self.cache is None:
            return [False] * len(keys)
        names, parents = self._chain(keys, before)
        until = time.monotonic() + self.timeout
        try:
            there = self.cache.has_many(names, timeout=self.timeout)
            new = [i for i, found in enumerate(there) if not found]
            if new:
                self.cache.put_many([names[i] for i in new], [pages[i] for i in new],
                                    parents=[parents[i] for i in new],
                                    timeout=max(0.0, until - time.monotonic()))  # fmt: skip
        except (Error, ValueError) as error:
            self.complaints.say("pages were not stored", error)
            return [False] * len(keys)
        return [True] * len(keys)

    # ---- without interface_v1: flat tensors, which SGLang copies ----

    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[torch.Tensor | None]:
        pages = [[memoryview(page.view(-1).view(torch.uint8).numpy())] for page in target_locations]
        found = self._load(keys, pages)
        return [page if there else None for page, there in zip(target_locations, found)]

    def batch_set(
        self, keys: list[str], values: Any = None, target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:  # fmt: skip
        return all(self._store(keys, [value.contiguous().view(-1) for value in values]))

    def get(
        self, key: str, target_location: Any = None, target_sizes: Any = None
    ) -> torch.Tensor | None:
        return self.batch_get([key], [target_location])[0]

    def set(
        self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None
    ) -> bool:
        return self.batch_set([key], [value])

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def clear(self) -> None:
        """Nothing: stores are shared, and what is not used leaves them in time."""
        logger.warning("SkyMemory: stores are shared with others, and stay as they are.")

    def close(self) -> None:
        """Wait at most 10 s for writes to farther stores, and close."""
        if self.cache is None or self.cache.closed:
            return
        try:
            self.cache.flush(10)
        except Error as error:
            self.complaints.say("not all was written", error)
        self.cache.close()
