"""Prompts that begin alike are computed once, by all vLLM engines that share a store.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "SkyMemoryConnector",
        "kv_connector_module_path": "skymem.vllm", "kv_role": "kv_both",
        "kv_connector_extra_config": {"stores": ["mem:4GiB", "disk:/var/cache/skymem"]}}'

A block of vLLM is a payload: its bytes of each layer, in the order of the layers. vLLM's scheduler
has one connector, which looks keys up and plans; the worker has another, which copies:

    scheduler  get_num_new_matched_tokens   how many blocks behind vLLM's own are stored
               build_connector_meta         a Plan: what to load and save in this step
    worker     start_load_kv                store -> paged tensors, before the forward pass
               wait_for_save                paged tensors -> host memory; a thread stores it

A block that does not come whole is reported to vLLM, which computes it (`failed`). Steps that were
planned before the scheduler heard of it may build on that block, so they save nothing (`clean`).
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
)
from vllm.logger import init_logger

from skymem.cache import Cache
from skymem.complaints import Complaints
from skymem.errors import Error, ParamError, UnsupportedError, UrlError
from skymem.keys import block_keys, digest
from skymem.vllm_keys import named_tokens, namespace_of, refusal

SETTINGS = {"stores": None, "timeout": 2.0, "queue_bytes": 1 << 30}
NEVER = float("-inf")
ASK_AGAIN_S = 1.0  # vLLM asks at each step while a request waits for room

# Of vLLM's own name, or it would not be shown: vLLM sets up that logger alone.
logger = init_logger("vllm.skymem")
complaints = Complaints(logger)


@dataclass
class Blocks:
    """Blocks of one request, one behind the other: keys, keys of the blocks before, vLLM's ids."""

    keys: list[bytes]
    parents: list[bytes | None]
    ids: list[int]


@dataclass
class Plan(KVConnectorMetadata):
    """What the worker does in a step. clean: the last step when the scheduler last heard of a
    failed load; what is planned after it builds on no block that failed before it."""

    step: int = 0
    clean: int = 0
    loads: list[Blocks] = field(default_factory=list)
    saves: list[Blocks] = field(default_factory=list)


@dataclass
class Namespace(KVConnectorHandshakeMetadata):
    """What a worker tells the scheduler: the namespace of its keys."""

    digest: bytes


@dataclass
class Tracked:
    """A request. Counts are in blocks: found in the store from `first` on, offered to it."""

    request: Any
    namespace: bytes
    keys: list[bytes] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    first: int = 0
    found: int = 0
    looked: float = NEVER
    load: bool = False
    saved: int = 0

    def key_blocks(self, blocks: int, size: int) -> list[bytes]:
        """Keys of the leading blocks, of `size` tokens each. Their tokens stay as they are."""
        have = len(self.keys)
        if have < blocks:
            tokens = list(self.request.all_token_ids[have * size : blocks * size])
            self.keys += block_keys(tokens, namespace=self.namespace, block_tokens=size,
                                    after=self.keys[-1] if have else None)  # fmt: skip
        return self.keys[: max(blocks, 0)]


_caches: weakref.WeakValueDictionary[tuple[str, ...], Cache] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def shared_cache(urls: Sequence[str]) -> Cache:
    """One cache for both connectors of a process: memory is shared by none but these."""
    with _lock:
        cache = _caches.get(tuple(urls))
        if cache is None or cache.closed:
            cache = _caches[tuple(urls)] = Cache(urls)
        return cache


def settings_of(extra: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(extra) - set(SETTINGS))
    if unknown or not extra.get("stores"):
        what = f"{unknown[0]}: unknown" if unknown else "stores: URLs of stores are wanted"
        raise ValueError(f"kv_connector_extra_config: {what}; it takes {', '.join(SETTINGS)}")
    stores = extra["stores"]
    return {**SETTINGS, **extra, "stores": [stores] if isinstance(stores, str) else list(stores)}


class SkyMemoryConnector(KVConnectorBase_V1):
    """The prefix cache of a vLLM engine. kv_connector_extra_config:

    stores       URLs of stores, from nearest to farthest
    timeout      seconds that a lookup or a load may take; then the engine computes
    queue_bytes  of host memory that wait to be stored; what does not fit is not stored
    """

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        transfer = vllm_config.kv_transfer_config
        self.settings = settings_of(transfer.kv_connector_extra_config)
        transfer.kv_load_failure_policy = "recompute"  # a miss is no failure of a request
        self.loads, self.saves = transfer.is_kv_consumer, transfer.is_kv_producer
        self.why: str | None = refusal(vllm_config, kv_cache_config)
        self.cache: Cache | None = None
        self.block_tokens = kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
        self.namespace: bytes | None = None
        self.tracked: dict[str, Tracked] = {}
        self.step = self.clean = 0
        self.layers: dict[str, torch.Tensor] = {}
        self.failed: set[int] = set()
        self.failed_step = 0
        self.queued, self.lock = 0, threading.Lock()
        self.thread = ThreadPoolExecutor(1, "skymem-save")
        if self.why is None:
            self._open()
        if self.why is not None and role == KVConnectorRole.WORKER:
            logger.warning("SkyMemory keeps nothing of this engine: %s.", self.why)

    def _open(self) -> None:
        try:
            self.cache = shared_cache(self.settings["stores"])
        except (ParamError, UrlError):
            raise
        except Error as error:
            self.why = str(error)

    @property
    def requires_kv_delivery(self) -> bool:
        return False  # what is not stored is a miss

    # ---- scheduler ----

    def set_xfer_handshake_metadata(self, metadata: dict[int, Any]) -> None:
        told = metadata.get(0)  # none: the worker keeps nothing, and has said why
        self.namespace = told.digest if told is not None else None

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        if self.namespace is None or self.cache is None:
            return 0, False
        size, name = self.block_tokens, request.request_id
        one = self.tracked.get(name)
        if one is None or one.request is not request:
            one = self.tracked[name] = Tracked(request, self._namespace_of(request))
        one.load, first = False, num_computed_tokens // size
        if not self.loads:
            return 0, False
        if first == one.first and time.monotonic() - one.looked < ASK_AGAIN_S:
            return one.found * size, False
        one.first, one.found, one.looked = first, 0, time.monotonic()
        # One token at least is left to compute, or there is nothing to answer from.
        keys = one.key_blocks(min(named_tokens(request), request.num_tokens - 1) // size, size)
        if len(keys) > one.first:
            one.found = self._prefix(keys, one.first)
        return one.found * size, False

    def _namespace_of(self, request: Any) -> bytes:
        assert self.namespace is not None
        if not request.cache_salt:
            return self.namespace
        return digest(self.namespace, b"salt", str(request.cache_salt).encode())

    def _prefix(self, keys: list[bytes], first: int) -> int:
        assert self.cache is not None
        try:
            return self.cache.prefix(keys[first:], timeout=self.settings["timeout"])
        except Error as error:
            complaints.say("a lookup failed", error)
            return 0

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        one = self.tracked.get(request.request_id)
        if one is not None and num_external_tokens:
            one.load, one.found = True, num_external_tokens // self.block_tokens

    def build_connector_meta(self, scheduler_output: Any) -> Plan:
        self.step += 1
        plan = Plan(self.step, self.clean)
        for new in scheduler_output.scheduled_new_reqs:
            one = self.tracked.get(new.req_id)
            if one is not None:
                one.ids = list(new.block_ids[0])
                self._plan(plan, one, new.num_computed_tokens, scheduler_output, new.req_id)
        old = scheduler_output.scheduled_cached_reqs
        for name, ids, start in zip(old.req_ids, old.new_block_ids, old.num_computed_tokens):
            one = self.tracked.get(name)
            if one is not None:
                fresh = list(ids[0]) if ids else []
                one.ids = fresh if name in old.resumed_req_ids else one.ids + fresh
                self._plan(plan, one, start, scheduler_output, name)
        return plan

    def _plan(self, plan: Plan, one: Tracked, start: int, output: Any, name: str) -> None:
        request, size = one.request, self.block_tokens
        end = min(start + output.num_scheduled_tokens[name], named_tokens(request)) // size
        if not one.load and (not self.saves or end <= one.saved):
            return
        keys = one.key_blocks(max(end, one.first + one.found if one.load else 0), size)
        chain = [None, *keys]

        def part(first: int, last: int) -> Blocks:
            return Blocks(keys[first:last], chain[first:last], one.ids[first:last])

        if one.load:
            plan.loads.append(part(one.first, one.first + one.found))
            one.load = False
        if self.saves and end > one.saved:
            plan.saves.append(part(one.saved, end))
            one.saved = end

    def update_connector_output(self, connector_output: Any) -> None:
        if connector_output.invalid_block_ids:
            self.clean = self.step
            for one in self.tracked.values():
                one.saved, one.looked = 0, NEVER  # what was saved and found is asked for again

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        self.tracked.pop(request.request_id, None)
        return False, None

    # ---- worker ----

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        if self.why is not None:
            return
        count = self._kv_cache_config.num_blocks
        page = self._kv_cache_config.kv_cache_groups[0].kv_cache_spec.page_size_bytes
        try:
            for name, tensor in sorted(kv_caches.items()):
                if tensor.shape[0] % count or tensor.numel() // count * tensor.itemsize != page:
                    raise UnsupportedError(f"{name} has the shape {tuple(tensor.shape)}")
                self.layers[name] = tensor.unflatten(0, (count, -1))
            config = self._vllm_config
            self.namespace = namespace_of(config, self.layers, self.block_tokens)
        except (Error, OSError, ValueError) as error:
            self.why = str(error)
            logger.warning("SkyMemory keeps nothing of this engine: %s.", self.why)

    def get_handshake_metadata(self) -> Namespace | None:
        return None if self.namespace is None else Namespace(self.namespace)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        plan = self._get_connector_metadata()
        for blocks in plan.loads:
            came = self._load(blocks)
            if came < len(blocks.ids):
                self.failed.update(blocks.ids[came:])
                self.failed_step = plan.step

    def _load(self, blocks: Blocks) -> int:
        """Copy blocks into the paged tensors. How many leading ones came whole."""
        assert self.cache is not None
        host = self._host(len(blocks.ids))
        try:
            batch = self.cache.start("get", blocks.keys, list(host), parents=blocks.parents,
                                     timeout=self.settings["timeout"])  # fmt: skip
            batch.wait(None)
            came = 0
            for status, size in zip(batch.statuses(), batch.sizes()):
                if status or size != host.shape[1]:
                    break
                came += 1
        except Error as error:
            complaints.say("a load failed", error)
            return 0
        ids = torch.tensor(blocks.ids[:came], dtype=torch.long)
        for tensor, rows in self._rows(host[:came]):
            tensor[ids.to(tensor.device)] = rows.to(tensor.device, non_blocking=True)
        return came

    def _host(self, blocks: int) -> torch.Tensor:
        """[blocks, bytes] in host memory; pinned for a device. torch keeps pinned memory that is
        let go until the copies that were started from it are over."""
        first = next(iter(self.layers.values()))
        size = sum(tensor[0].numel() * tensor.itemsize for tensor in self.layers.values())
        return torch.empty(blocks, size, dtype=torch.uint8, pin_memory=first.device.type == "cuda")

    def _rows(self, host: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Each layer, and its part of host memory as the layer's blocks."""
        out, at = [], 0
        for tensor in self.layers.values():
            size = tensor[0].numel() * tensor.itemsize
            rows = host[:, at : at + size].view(tensor.dtype)
            out.append((tensor, rows.unflatten(1, tensor.shape[1:])))
            at += size
        return out

    def wait_for_layer_load(self, layer_name: str) -> None:
        return  # start_load_kv has loaded all, or queued it on the stream of the forward pass

    def save_kv_layer(self, *args: Any, **kwargs: Any) -> None:
        return  # wait_for_save takes all layers at once

    def wait_for_save(self) -> None:
        plan = self._get_connector_metadata()
        if plan.clean < self.failed_step:
            return
        for blocks in plan.saves:
            size = len(blocks.ids) * self._host(0).shape[1]
            with self.lock:
                if self.queued + size > self.settings["queue_bytes"]:
                    logger.warning_once("SkyMemory: stores are slow; some blocks are not stored.")
                    continue
                self.queued += size
            self._save(blocks, size)

    def _save(self, blocks: Blocks, size: int) -> None:
        """Copy blocks to host memory, on the stream of the forward pass, and let a thread store it.
        What later steps write comes after the copy on that stream."""
        host, event = self._host(len(blocks.ids)), None
        ids = torch.tensor(blocks.ids, dtype=torch.long)
        for tensor, rows in self._rows(host):
            rows.copy_(tensor[ids.to(tensor.device)], non_blocking=True)
        if host.is_pinned():
            event = torch.cuda.Event()
            event.record()
        self.thread.submit(self._store, blocks, host, event).add_done_callback(
            lambda _: self._stored(size))  # fmt: skip

    def _store(self, blocks: Blocks, host: torch.Tensor, event: Any) -> None:
        assert self.cache is not None
        if event is not None:
            event.synchronize()
        try:
            there = self.cache.has_many(blocks.keys, timeout=self.settings["timeout"])
            new = [i for i, found in enumerate(there) if not found]
            self.cache.put_many([blocks.keys[i] for i in new], [host[i] for i in new],
                                parents=[blocks.parents[i] for i in new])  # fmt: skip
        except Error as error:
            complaints.say("blocks were not stored", error)

    def _stored(self, size: int) -> None:
        with self.lock:
            self.queued -= size

    def get_block_ids_with_load_errors(self) -> set[int]:
        failed, self.failed = self.failed, set()
        return failed

    def shutdown(self) -> None:
        """Store what is queued, and wait at most 10 s for stores that are written behind."""
        self.thread.shutdown(wait=True)
        if self.cache is not None and not self.cache.closed:
            try:
                self.cache.flush(10)
            except Error as error:
                complaints.say("not all was written", error)
