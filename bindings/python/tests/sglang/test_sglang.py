"""Proves the storage backend under SGLang's own controller and host pools, on a CPU: pages that one
engine backed up another prefetches, to the byte, in each layout and by both interfaces; what is
damaged, of another model or rank, or late ends the prefix; and a store that is down is a miss."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sglang")
import torch
import torch.distributed
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageExtraInfo, PoolName
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost
from sglang.srt.mem_cache.utils import get_hash_str
from sglang.srt.runtime_context import get_parallel

import skymem
from skymem.sglang import SkyMemory

PAGE = 16
PAGES = 150  # more than SGLang asks for at once
TOKENS = [(n * n * 7 + n) % 30000 for n in range(PAGE * PAGES)]


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What SGLang's launcher sets before it makes a controller."""
    where = tmp_path_factory.mktemp("group") / "store"
    torch.distributed.init_process_group("gloo", f"file://{where}", rank=0, world_size=1)
    with get_parallel().override(
        attn_dcp_size=1, attn_dcp_rank=0, tp_rank=0, tp_size=1, pp_rank=0, pp_size=1,
        attn_tp_rank=0, attn_tp_size=1, attn_dp_rank=0, attn_dp_size=1,
    ):  # fmt: skip
        yield
    torch.distributed.destroy_process_group()


def hashes_of(tokens: list[int]) -> list[str]:
    """SGLang's hashes of pages."""
    hashes: list[str] = []
    for first in range(0, len(tokens), PAGE):
        last = hashes[-1] if hashes else None
        hashes.append(get_hash_str(tokens[first : first + PAGE], last))
    return hashes


class Allocator:
    """Of the device's memory, which no test here moves."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def get_kvcache(self) -> Any:
        return self.pool


class Engine:
    """SGLang's controller over a host pool, and its backend."""

    def __init__(self, stores: Any, *, layout: str = "page_first", mla: bool = False,
                 model: str = "model", v1: int = 1, **extra: Any) -> None:  # fmt: skip
        size = PAGE * PAGES
        shape = {"size": size, "page_size": PAGE, "dtype": torch.bfloat16, "layer_num": 3,
                 "device": "cpu", "enable_memory_saver": False}  # fmt: skip
        where = {"pin_memory": False, "device_capacity_tokens": size, "start_layer": 0,
                 "end_layer": 2}  # fmt: skip
        if mla:
            pool = MLATokenToKVPool(kv_lora_rank=32, qk_rope_head_dim=16, **shape)
            self.host = MLATokenToKVPoolHost(pool._mla_buffer_info(), 2.0, 0, PAGE, layout,
                                             target_layer_num=3, **where)  # fmt: skip
        else:
            pool = MHATokenToKVPool(head_num=2, head_dim=32, **shape)
            self.host = MHATokenToKVPoolHost(pool._mha_buffer_info(), 2.0, 0, PAGE, layout, **where)
        self.controller = HiCacheController(
            Allocator(pool), self.host, PAGE, torch.distributed.group.WORLD, threading.Event(),
            storage_backend="dynamic", model_name=model, prefetch_threshold=PAGE,
            storage_backend_extra_config={
                "backend_name": "skymem", "module_path": "skymem.sglang",
                "class_name": "SkyMemory", "interface_v1": v1, "stores": stores, **extra,
            })  # fmt: skip

    @property
    def backend(self) -> SkyMemory:
        backend = self.controller.storage_backend
        assert isinstance(backend, SkyMemory)
        return backend

    def flat(self, indices: torch.Tensor) -> torch.Tensor:
        pages = [self.host.get_data_page(int(first)).flatten() for first in indices[::PAGE]]
        return torch.cat(pages).view(torch.uint8).clone()

    def back_up(self, seed: int = 1) -> torch.Tensor:
        """Fill host memory, and let SGLang's thread store it. What it holds."""
        indices = self.host.alloc(PAGE * PAGES)
        torch.manual_seed(seed)
        self.host.kv_buffer.copy_(torch.randn(self.host.kv_buffer.shape))
        self.controller.write_storage(indices, TOKENS, hashes_of(TOKENS), [])
        stored = self.controller.ack_backup_queue.get(timeout=60)
        assert stored.completed_tokens == len(TOKENS)
        return self.flat(indices)

    def prefetch(self) -> tuple[int, torch.Tensor]:
        """How many tokens SGLang's threads found and brought, and what host memory holds then."""
        self.controller.prefetch("request", TOKENS, None, [])
        found = self.controller.prefetch_hit_queue.get(timeout=60)
        if not found.storage_hit_count:
            return 0, torch.empty(0)
        found.host_indices = self.host.alloc(found.storage_hit_count)
        self.host.kv_buffer.zero_()
        self.controller.prefetch_buffer.put(found)
        came = 0
        while True:
            ack = self.controller.ack_prefetch_queue.get(timeout=60)
            if ack.completed_req:
                return came, self.flat(found.host_indices[:came])
            came = ack.completed_tokens

    def close(self) -> None:
        self.controller.detach_storage_backend()


@pytest.fixture
def engines() -> Iterator[Any]:
    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> Engine:
            engine = Engine(*args, **options)
            stack.callback(engine.close)
            return engine

        yield make


@pytest.mark.parametrize("v1", [0, 1])
@pytest.mark.parametrize("mla", [False, True])
@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
def test_another_engine_has_what_one_stored(
    engines: Any, tmp_path: Path, layout: str, mla: bool, v1: int
) -> None:
    stores = ["mem:64MiB", f"disk:{tmp_path}/store"]
    one = engines(stores, layout=layout, mla=mla, v1=v1)
    held = one.back_up()
    assert one.prefetch()[0] == len(TOKENS)
    one.backend.cache.flush(None)
    keys = [one.backend._key(page) for page in hashes_of(TOKENS)]
    parents = {entry.key: entry.parent for entry in one.backend.cache.list() if entry.tier == 1}
    chained = [parents[key] == before for before, key in zip(keys, keys[1:])]
    # Without interface_v1 SGLang does not say which page is before the first of a call.
    assert len(chained) == PAGES - 1 and chained.count(False) == (0 if v1 else 1)
    other = engines(stores, layout=layout, mla=mla, v1=v1)
    came, there = other.prefetch()
    assert came == len(TOKENS) and torch.equal(there, held)


def test_what_is_of_another_is_a_miss(engines: Any, tmp_path: Path) -> None:
    stores = [f"disk:{tmp_path}/store"]
    engines(stores).back_up()
    for other in ({"model": "other"}, {"namespace": "fine-tuned"}, {"v1": 0}, {"mla": True},
                  {"layout": "layer_first"}):  # fmt: skip
        assert engines(stores, **other).prefetch()[0] == 0
    rank = engines(stores)
    rank.backend.config.tp_rank, rank.backend.config.tp_size = 1, 2
    rank.backend.register_mem_pool_host(rank.host)
    assert rank.prefetch()[0] == 0
    assert engines(stores).prefetch()[0] == len(TOKENS)


def test_arguments_of_the_server_tell_states_apart(
    engines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = engines([f"disk:{tmp_path}/store"])

    def namespace(**arguments: str) -> bytes:
        given = SimpleNamespace(model_path="model", **arguments)
        monkeypatch.setattr("skymem.sglang.get_server_args", lambda: given)
        one.backend.register_mem_pool_host(one.host)
        return one.backend.namespace

    plain = namespace(kv_cache_dtype="fp8_e4m3")  # both kinds of fp8 are uint8 in the host pool
    assert plain == namespace(kv_cache_dtype="fp8_e4m3") != namespace(kv_cache_dtype="fp8_e5m2")
    assert plain != namespace(kv_cache_dtype="fp8_e4m3", speculative_draft_model_path="draft")


def test_damage_ends_the_prefix(engines: Any, tmp_path: Path) -> None:
    stores = [f"disk:{tmp_path}/store"]
    one = engines(stores)
    held = one.back_up()
    key = one.backend._key(hashes_of(TOKENS)[140]).hex()
    (path,) = (p for p in (tmp_path / "store").rglob("*") if key[4:] in p.name)
    with open(path, "r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))
    came, there = engines(stores).prefetch()
    assert came == 140 * PAGE and torch.equal(there, held[: there.numel()])


def test_a_store_that_is_late_is_a_miss(
    engines: Any, late_store: tuple[str, threading.Event]
) -> None:
    one = engines([late_store[0]], timeout=0.3)
    page = get_hash_str(TOKENS[:PAGE])
    indices = one.host.alloc(PAGE)
    assert one.backend.batch_set_v1([page], indices, HiCacheStorageExtraInfo()) == [False]
    assert one.backend.batch_get_v1([page], indices) == [False]
    assert one.prefetch()[0] == 0
    late_store[1].set()


def test_an_engine_starts_without_its_store(engines: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    one = engines([f"disk:{tmp_path}/file/store"])
    assert one.backend.cache is None and one.prefetch()[0] == 0
    assert not one.backend.exists("a") and not one.backend.set("a", torch.zeros(4))
    assert one.backend.get("a", torch.zeros(4)) is None


def test_what_cannot_be_kept_is_refused(engines: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stores: URLs are wanted"):
        engines([])
    with pytest.raises(ValueError, match="timeout: seconds above 0"):
        engines(["mem:1MiB"], timeout=0)
    with pytest.raises(ValueError, match="nowhere: a store is SCHEME:PATH"):
        engines(["nowhere"])
    one = engines([f"disk:{tmp_path}/store"])
    with pytest.raises(skymem.UnsupportedError, match="swa"):
        one.backend.register_mem_host_pool_v2(one.host, PoolName.SWA)
    assert one.backend.batch_set_v1([], torch.arange(0)) == []
    assert one.backend.batch_get_v1([], torch.arange(0)) == []
    one.host.layout = "page_unified"
    with pytest.raises(skymem.UnsupportedError, match="interface_v1: of this host pool"):
        one.backend.register_mem_pool_host(one.host)
    one.backend.close()
    assert one.backend.batch_exists(["a"]) == 0 and not one.backend.set("a", torch.zeros(4))
    assert one.backend.get("a", torch.zeros(4)) is None
