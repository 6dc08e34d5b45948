"""Proves the adapter on small models with random weights: the tokens and the logits of a model that
restores are those of one that goes on by itself, for every kind of layer, type and batch."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tokenizers
import torch
import transformers

import skymem
from skymem.manager import Sequence
from skymem.prompt_cache import Shape
from skymem.transformers import KVCacheBlock

torch.set_num_threads(1)
SMALL: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": None,
}  # fmt: skip
WINDOW = 40
KINDS: dict[str, Any] = {
    "gemma3": lambda **more: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        **{**SMALL, "num_hidden_layers": 4, "head_dim": 16, "sliding_window": WINDOW,
           "layer_types": ["sliding_attention", "full_attention"] * 2, **more})),
    "qwen2": lambda **more: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        **{**SMALL, "num_hidden_layers": 2, **more})),
    "llama": lambda **more: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **{**SMALL, "num_hidden_layers": 2, **more})),
}  # fmt: skip


def make(kind: str, dtype: torch.dtype = torch.float32, seed: int = 1, **more: Any) -> Any:
    torch.manual_seed(seed)
    return KINDS[kind](**more).to(dtype).eval()


def tokens(count: int, seed: int = 7) -> list[int]:
    return torch.randint(2, 128, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def generate(model: Any, rows: list[list[int]], cache: Any = None, **more: Any) -> Any:
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    options = {"max_new_tokens": 6, "do_sample": False, "use_cache": True, **more}
    return model.generate(input_ids=ids, attention_mask=mask, past_key_values=cache, **options)


def last_logits(model: Any, row: list[int], cache: Any) -> torch.Tensor:
    with torch.no_grad():
        start = cache.get_seq_length()
        out = model(input_ids=torch.tensor([row[start:]]), past_key_values=cache, use_cache=True)
    return out.logits[0, -1]


def own_cache(model: Any, row: list[int]) -> Any:
    cache = transformers.DynamicCache(config=model.config)
    last_logits(model, row, cache)
    return cache


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_restored_is_what_was_computed(kind: str, dtype: torch.dtype) -> None:
    model = make(kind, dtype)
    row = tokens(150)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        assert kvc.add_blocks(row[:128]) == 8
        for end in (150, 130, 50, 20):  # a longer and a shorter window than there are tokens
            cache = kvc.get_cache(row[:end])
            hit = kvc.lookups[0].hit_tokens
            assert hit == min(128, (end - 1) // 16 * 16) == cache.get_seq_length()
            own = own_cache(model, row[:hit])
            # Rows that go on from 128 were computed at once; of a shorter prefix only f32 is equal.
            if hit == 128:
                for a, b in zip(cache.layers, own.layers):
                    assert torch.equal(a.keys, b.keys) and torch.equal(a.values, b.values)
                assert torch.equal(
                    last_logits(model, row[:end], cache), last_logits(model, row[:end], own)
                )
            elif dtype == torch.float32:
                difference = last_logits(model, row[:end], cache) - last_logits(
                    model, row[:end], own
                )
                assert difference.abs().max() < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_the_seeds_listing_and_generated_blocks(kind: str, tmp_path: Path) -> None:
    model = make(kind)
    row = tokens(100)
    cold = generate(model, [row], max_new_tokens=40)
    store = [f"disk:{tmp_path}/store"]
    with KVCacheBlock(model, store=["mem:64MiB", *store], block_tokens=16) as kvc:
        out = generate(model, [row], kvc.get_cache(row), max_new_tokens=40)
        assert kvc.lookups[0].verdict == "miss" and torch.equal(out, cold)
        # 139 tokens went through the model: the last was never fed. 8 blocks, 2 beyond the prompt.
        assert kvc.add_blocks(row) == 8
        assert kvc.add_blocks(row) == 0
    with KVCacheBlock(model, store=store, block_tokens=16) as kvc:
        longer = out[0].tolist() + tokens(20, 8)
        warm = generate(model, [longer], kvc.get_cache(out[0].tolist() + tokens(20, 8)))
        assert kvc.lookups[0].hit_tokens == 128
        assert torch.equal(warm, generate(model, [longer]))


def test_a_batch_with_padding() -> None:
    for kind in KINDS:
        model = make(kind)
        rows = [tokens(100), tokens(100)[:60] + tokens(23, 9), tokens(100)]
        cold = generate(model, rows)
        with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
            kvc.add_blocks(rows[0])
            kvc.add_blocks(rows[1])
            batch = Batch(kvc, rows)
            warm = generate(model, rows, batch.cache)
            assert batch.cache.filled == 96, kind
            assert torch.equal(warm, cold), kind
            kvc.add_blocks(rows[1])  # of another call than the last: it looks, and finds them


class Batch:
    """Texts are what several prompts of several lengths are; here a tokenizer of numbers."""

    padding_side = "left"

    def __init__(self, kvc: KVCacheBlock, rows: list[list[int]]) -> None:
        kvc.tokenizer = self
        self.cache = kvc.get_cache([" ".join(map(str, row)) for row in rows])
        kvc.tokenizer = None

    def __call__(self, text: str) -> Any:
        self.input_ids = [int(word) for word in text.split()]
        return self


def test_a_timeout_is_one_for_all_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("qwen2")
    rows = [tokens(100), tokens(100)[:60] + tokens(23, 9)]
    given: list[float | None] = []
    look = Sequence.look

    def noted(self: Sequence, row: Any, timeout: float | None = None) -> Any:
        given.append(timeout)
        return look(self, row, timeout)

    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        for row in rows:
            kvc.add_blocks(row)
        clock = SimpleNamespace(monotonic=map(float, itertools.count()).__next__)
        monkeypatch.setattr("skymem.transformers.time", clock)
        monkeypatch.setattr(Sequence, "look", noted)
        kvc.tokenizer = Batch.__new__(Batch)
        cache = kvc.get_cache([" ".join(map(str, row)) for row in rows], timeout=100)
        assert cache.filled == 96
        assert given == [99, 98, 97]  # the last: both end at one slot


def test_a_batch_is_stored_row_by_row() -> None:
    model = make("gemma3")
    rows = [tokens(100), tokens(70, 9)]
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        kvc.tokenizer = tokenizer = Batch.__new__(Batch)
        texts = [" ".join(map(str, row)) for row in rows]
        generate(model, rows, kvc.get_cache(texts), max_new_tokens=20)
        # Left of a prompt its row is padded: 119 and 89 tokens are known.
        assert kvc.add_blocks(texts) == 119 // 16 + 89 // 16
        for row in rows:
            cache = kvc.get_cache(row)
            assert cache.filled == (len(row) - 1) // 16 * 16
            difference = last_logits(model, row, cache) - last_logits(
                model, row, own_cache(model, row[: cache.filled])
            )
            assert difference.abs().max() < 1e-5
        tokenizer.padding_side = "right"  # type: ignore[misc]
        with pytest.raises(ValueError, match="padded left"):
            kvc.get_cache(texts)


def test_rows_go_where_their_layer_is() -> None:
    model = make("qwen2")
    row = tokens(100)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        kvc.add_blocks(row)
        assert kvc.shape.devices == [torch.device("cpu")] * 2
        kvc.shape.devices[1] = torch.device("meta")  # as if device_map had put it elsewhere
        layers = kvc.get_cache(row).layers
        assert [layer.keys.device.type for layer in layers] == ["cpu", "meta"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_crop_into_restored_rows_of_a_window_is_refused(kind: str) -> None:
    model = make(kind)
    row = tokens(150)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        kvc.add_blocks(row[:128])
        cache = kvc.get_cache(row)
        last_logits(model, row[:140], cache)
        cache.crop(-12)
        if kind == "gemma3":
            with pytest.raises(ValueError, match="call get_cache with the shorter prompt"):
                cache.crop(-1)
        else:
            cache.crop(-1)
        difference = last_logits(model, row, cache) - last_logits(
            model, row, own_cache(model, row[:128])
        )
        assert difference.abs().max() < 1e-5


def test_the_silent_trap_of_cumulative_length() -> None:
    # Without it masks are made for another place: the answer is wrong and nothing says so. If this
    # fails, Transformers has changed, and `fill` has to be read again.
    model = make("gemma3")
    row = tokens(150)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        kvc.add_blocks(row[:128])
        right, wrong = kvc.get_cache(row), kvc.get_cache(row)
        for layer in wrong.layers:
            if hasattr(layer, "cumulative_length"):
                assert layer.cumulative_length == 128
                assert layer.keys.shape[-2] == WINDOW - 1
                layer.cumulative_length = layer.keys.shape[-2]
        own = last_logits(model, row, own_cache(model, row[:128]))
        assert torch.equal(last_logits(model, row, right), own)
        assert (last_logits(model, row, wrong) - own).abs().max() > 1e-3


def test_only_tokens_that_went_through_are_stored() -> None:
    model = make("gemma3")
    row, other = tokens(64), tokens(64, 9)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        generate(model, [row], kvc.get_cache(row), max_new_tokens=40)
        # A text that goes on otherwise than what was generated: computed, not taken for it.
        assert kvc.add_blocks(row + other) == 8
        cache = kvc.get_cache(row + other + [5])
        assert cache.filled == 128
        own = own_cache(model, row + other)
        assert all(torch.allclose(a.keys, b.keys, atol=1e-5)
                   for a, b in zip(cache.layers, own.layers))  # fmt: skip


def disturb(how: str, model: Any, cache: Any, row: list[int]) -> None:
    """A forward pass of a prompt, and something that a cache may meet besides."""
    ids, ones = torch.tensor([row]), torch.ones(1, len(row), dtype=torch.long)
    more: dict[str, Any] = {}
    if how == "a mask":
        more = {"attention_mask": torch.cat([ones[:, :50], 0 * ones[:, 50:60], ones[:, 60:]], 1)}
    elif how == "positions":
        more = {"position_ids": torch.arange(len(row))[None] * 2}
    elif how == "an inner model":  # of which no hook tells: other tokens, then the prompt
        model.model(input_ids=ids[:, 50:], past_key_values=cache, use_cache=True)
    model(input_ids=ids, past_key_values=cache, use_cache=True, **more)
    if how == "tokens in place":
        ids[:, 30:] = 7
    elif how == "crop":
        cache.crop(-60)
        model(input_ids=torch.full((1, 60), 7), past_key_values=cache, use_cache=True)
    elif how == "crop alone":
        cache.crop(-60)


HOWS = ["nothing", "a mask", "positions", "an inner model", "tokens in place", "crop", "crop alone"]


@pytest.mark.parametrize("how", HOWS)
def test_rows_are_stored_under_their_tokens_alone(how: str) -> None:
    model = make("qwen2")
    row = tokens(100)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc, torch.no_grad():
        disturb(how, model, kvc.get_cache(row), row)
        assert kvc.add_blocks(row) == 6
        cache = kvc.get_cache(row)
        own = own_cache(model, row[:96])
        assert cache.filled == 96
        assert all(torch.allclose(a.keys, b.keys, atol=1e-5)
                   and torch.allclose(a.values, b.values, atol=1e-5)
                   for a, b in zip(cache.layers, own.layers))  # fmt: skip


@pytest.mark.parametrize("how", ["reorder_cache", "batch_select_indices"])
def test_rows_that_change_places_are_computed_again(how: str) -> None:
    model = make("qwen2")
    rows = [tokens(100), tokens(100, 9)]
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc, torch.no_grad():
        cache = kvc.get_cache(torch.tensor(rows))
        model(input_ids=torch.tensor(rows), past_key_values=cache, use_cache=True)
        getattr(cache, how)(torch.tensor([1, 0]))
        assert kvc.add_blocks(torch.tensor(rows)) == 12
        for row in rows:
            own = own_cache(model, row[:96])
            assert torch.allclose(kvc.get_cache(row).layers[0].keys, own.layers[0].keys, atol=1e-5)


def test_two_caches_of_one_model() -> None:
    model = make("qwen2")
    row = tokens(100)
    for _ in range(2):  # the first of them is dropped without close
        first = KVCacheBlock(model, store="mem:64MiB", block_tokens=16)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as second:
        generate(model, [row], second.get_cache(row), max_new_tokens=40)
        assert second.add_blocks(row) == 8
        assert len(model._forward_pre_hooks) == 2
    generate(model, [row], first.get_cache(row), max_new_tokens=40)
    assert first.add_blocks(row) == 8
    first.close()
    assert not model._forward_pre_hooks


def test_beams_and_assisted_decoding() -> None:
    for more in ({"num_beams": 3}, {"prompt_lookup_num_tokens": 3}):
        model = make("qwen2")
        row = tokens(60) + tokens(60)
        with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
            cold = generate(model, [row], max_new_tokens=20, **more)
            out = generate(model, [row], kvc.get_cache(row), max_new_tokens=20, **more)
            assert torch.equal(out, cold)
            assert kvc.add_blocks(row) == (7 if "num_beams" in more else 8)  # of 120 and 139
            cache = kvc.get_cache(row)
            assert cache.filled == 112
            own = own_cache(model, row[:112])
            assert torch.allclose(cache.layers[0].keys, own.layers[0].keys, atol=1e-5)
            cache.batch_repeat_interleave(more.get("num_beams", 1))  # as of any full cache
            warm = generate(model, [row], cache, max_new_tokens=20, **more)
            assert torch.equal(warm, cold)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_assisted_decoding_from_a_restored_prefix(kind: str, seed: int) -> None:
    # Transformers gives the model the whole prompt here, whatever the cache holds: with a cache of
    # its own that is not empty, the answer is another.
    model, draft, row = make(kind, seed=seed), make(kind, seed=seed + 50), tokens(100, seed)
    greedy = generate(model, [row], max_new_tokens=30)
    for more in ({"assistant_model": draft}, {"prompt_lookup_num_tokens": 3}):
        with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
            for blocks in (8, 0):  # of 129 tokens: what was drafted in vain is not stored
                out = generate(model, [row], kvc.get_cache(row), max_new_tokens=30, **more)
                assert torch.equal(out, greedy)
                assert kvc.add_blocks(row) == blocks
            cache = kvc.get_cache(greedy[0].tolist())
            own = own_cache(model, greedy[0].tolist()[:128])
            assert cache.filled == 128
            for a, b in zip(cache.layers, own.layers):
                assert torch.allclose(a.keys, b.keys, atol=1e-5)


@pytest.mark.parametrize("level", ["lossless", "8", "4"])
def test_levels(level: str, tmp_path: Path) -> None:
    model = make("gemma3")
    row = tokens(150)
    store = f"disk:{tmp_path}/store?level={level}"
    with KVCacheBlock(model, store=store, block_tokens=16) as kvc:
        kvc.add_blocks(row[:128])
        cache = kvc.get_cache(row)
        assert cache.filled == 128
        own = own_cache(model, row[:128])
        same = all(torch.equal(a.keys, b.keys) for a, b in zip(cache.layers, own.layers))
        assert same == (level == "lossless")
        near = (last_logits(model, row, cache) - last_logits(model, row, own)).abs().max()
        assert near < {"lossless": 1e-9, "8": 0.02, "4": 0.5}[level]


def test_two_requests_at_once_keep_their_own_caches() -> None:
    model = make("qwen2")
    rows = [tokens(100, 1), tokens(100, 2)]
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        caches = [kvc.get_cache(row) for row in rows]
        for row, cache in zip(rows, caches):
            generate(model, [row], cache, max_new_tokens=40)
        for row, cache in zip(rows, caches):
            assert kvc.add_blocks(row, cache) == 8 and cache.lookups[0].verdict == "miss"
        assert kvc.add_blocks(rows[0], caches[0]) == 0  # it is computed again, and is there


class Scaled(torch.nn.Module):
    """What a layer of PEFT tells of itself."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.active_adapters, self.scaling = ["a"], {"a": 1.0}

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x) * self.scaling[self.active_adapters[0]]


def test_an_adapter_is_in_the_key() -> None:
    model, row = make("llama"), tokens(100)
    layer = Scaled(model.model.layers[0].self_attn.k_proj)
    model.model.layers[0].self_attn.k_proj = layer.eval()
    with skymem.Cache("mem:64MiB") as cache:
        with KVCacheBlock(model, store=cache, block_tokens=16) as kvc:
            assert kvc.add_blocks(row) == 6 and kvc.get_cache(row).filled == 96
            layer.scaling["a"] = 2.0
            with pytest.raises(ValueError, match="other adapters act on the model now"):
                kvc.get_cache(row)
        with KVCacheBlock(model, store=cache, block_tokens=16) as kvc:
            assert kvc.get_cache(row).filled == 0


@pytest.mark.parametrize("wrapped", [True, False])
def test_wrapped_models(wrapped: bool) -> None:
    row, model, calls = tokens(100), make("llama"), []
    outer = torch.compile(model, backend="eager") if wrapped else model
    with KVCacheBlock(outer, store="mem:64MiB", block_tokens=16) as kvc:
        out = generate(outer, [row], kvc.get_cache(row), max_new_tokens=40)
        hook = model.register_forward_pre_hook(lambda *_: calls.append(1))
        assert kvc.add_blocks(row) == 8 and not calls
        hook.remove()
        assert torch.equal(generate(outer, [row], kvc.get_cache(row), max_new_tokens=40), out)


def test_models_that_no_key_can_name() -> None:
    packed = torch.ao.quantization.quantize_dynamic(
        make("llama"), {torch.nn.Linear}, dtype=torch.qint8
    )
    with pytest.raises(skymem.UnsupportedError, match="is packed"):
        KVCacheBlock(packed)
    with pytest.raises(skymem.UnsupportedError, match="is not in memory"):
        KVCacheBlock(make("llama").to("meta"))
    shard = make("llama")
    shard.model.layers[1].mlp.up_proj.weight.data = torch.empty(0)  # as DeepSpeed's ZeRO 3 has it
    with pytest.raises(skymem.UnsupportedError, match="up_proj.weight is not in memory"):
        KVCacheBlock(shard)
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    with pytest.raises(skymem.UnsupportedError, match="by the length of the whole prompt"):
        KVCacheBlock(make("llama", rope_parameters=rope))
    model = make("llama")
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        model.to(torch.bfloat16)
        with pytest.raises(skymem.UnsupportedError, match="make another KVCacheBlock"):
            kvc.add_blocks(tokens(100))


def test_keys_and_values_of_unlike_length() -> None:
    config = transformers.DeepseekV3Config(**{
        **SMALL, "num_hidden_layers": 2, "moe_intermediate_size": 16, "n_routed_experts": 2,
        "num_experts_per_tok": 1, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 16, "n_group": 1, "topk_group": 1,
        "first_k_dense_replace": 1, "num_key_value_heads": 4,
    })  # fmt: skip
    torch.manual_seed(1)
    model, row = transformers.DeepseekV3ForCausalLM(config).eval(), tokens(100)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        assert kvc.add_blocks(row) == 6
        cache, own = kvc.get_cache(row), own_cache(model, row[:96])
        assert cache.filled == 96 and cache.layers[0].keys.shape != cache.layers[0].values.shape
        difference = last_logits(model, row, cache) - last_logits(model, row, own)
        assert difference.abs().max() < 1e-5


def test_images_end_what_is_kept() -> None:
    model = make("llama")
    model.config.image_token_id = 100
    row = [t if t != 100 else 3 for t in tokens(50)] + [100] * 4 + tokens(46, 2)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        out = generate(model, [row], kvc.get_cache(row), max_new_tokens=20)
        assert kvc.add_blocks(row) == 3
        assert kvc.get_cache(row).filled == 48
        assert torch.equal(generate(model, [row], kvc.get_cache(row), max_new_tokens=20), out)
        assert kvc.add_blocks(row[50:]) == 0 and kvc.get_cache(row[50:]).filled == 0


def test_padding_of_one_prompt_is_refused_where_the_answer_would_be_wrong() -> None:
    model, row = make("llama"), tokens(100)
    padded = [0] * 28 + row
    ids = torch.tensor([padded])
    mask = torch.tensor([[0] * 28 + [1] * 100])
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        kvc.add_blocks(padded)
        with pytest.raises(ValueError, match="without padding"):
            model.generate(input_ids=ids, attention_mask=mask, do_sample=False, max_new_tokens=2,
                           past_key_values=kvc.get_cache(padded))  # fmt: skip


def test_a_level_is_applied_to_all_that_is_closed_at_once(tmp_path: Path) -> None:
    model, row, url = make("gemma3"), tokens(300), f"disk:{tmp_path}/store"
    with KVCacheBlock(model, store=["mem:64MiB", url], level=4, block_tokens=16) as kvc:
        kvc.add_blocks(row)
    with skymem.Cache(url) as cache:
        assert [entry.level for entry in cache.list()] == ["4"] * 18


def test_what_was_restored_may_leave_the_store() -> None:
    model, row = make("gemma3"), tokens(150)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        kvc.add_blocks(row)
        generate(model, [row], kvc.get_cache(row))
        for entry in kvc.store.list():
            kvc.store.remove(entry.key)
        assert kvc.add_blocks(row) == 9  # computed anew


@torch.no_grad()
@pytest.mark.parametrize(
    "how", ["mask", "positions", "beams", "copy", "dropout", "autocast", "types"]
)
def test_what_no_key_tells_is_not_stored(how: str) -> None:
    model = make("llama", attention_dropout=0.5)
    if how == "types":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=128, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=None
        )).eval()  # fmt: skip
    ids, other = torch.tensor([tokens(100)]), torch.tensor([tokens(100, 9)])
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        cache = kvc.get_cache(ids)
        if how == "mask":  # by place, not by name
            mask = torch.ones_like(ids)
            mask[:, 50:60] = 0
            model(ids, mask, past_key_values=cache)
        elif how == "positions":
            model(ids, None, torch.arange(100)[None] * 2, past_key_values=cache)
        elif how == "beams":
            model(input_ids=torch.cat([ids, other]), past_key_values=cache)
            cache.reorder_cache(torch.tensor([1, 0]))
        elif how == "copy":
            model(input_ids=ids, past_key_values=cache)
            shallow = copy.copy(cache)
            shallow.crop(-60)
            model(input_ids=other[:, :60], past_key_values=shallow)
        elif how == "dropout":
            model.train()
            model(input_ids=ids, past_key_values=cache)
            with pytest.raises(ValueError, match="model.eval"):
                kvc.add_blocks(ids)
            model.eval()
        elif how == "autocast":
            with torch.autocast("cpu", torch.bfloat16):
                model(input_ids=ids, past_key_values=cache)
        else:
            model(input_ids=ids, token_type_ids=torch.full_like(ids, 77), past_key_values=cache)
        assert cache.tokens_of(0) == [] and kvc.add_blocks(ids) == 6
        restored, own = kvc.get_cache(ids), own_cache(model, ids[0, :96].tolist())
        assert restored.filled == 96
        for a, b in zip(restored.layers, own.layers):
            assert torch.allclose(a.keys, b.keys, atol=1e-5)


def test_a_deep_copy_is_used_as_its_original() -> None:
    model, row = make("llama"), tokens(100)
    greedy = generate(model, [row], max_new_tokens=12)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        kvc.add_blocks(row)
        cache = copy.deepcopy(kvc.get_cache(row))
        out = generate(model, [row], cache, max_new_tokens=12, prompt_lookup_num_tokens=3)
        assert torch.equal(out, greedy)


def test_a_copy_of_the_model_stores_nothing_under_its_keys() -> None:
    model, row = make("qwen2"), tokens(100)
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc, torch.no_grad():
        trained = copy.deepcopy(model)
        for weights in trained.parameters():
            weights.add_(0.05 * torch.randn_like(weights))
        generate(trained, [row], kvc.get_cache(row))
        assert kvc.add_blocks(row) == 6  # of the model
        cache, own = kvc.get_cache(row), own_cache(model, row[:96])
        assert torch.allclose(cache.layers[0].keys, own.layers[0].keys, atol=1e-5)
        model.model.layers[0].train()
        with pytest.raises(ValueError, match="model.eval"):
            kvc.add_blocks(row)


def test_positions_in_planes() -> None:
    config = transformers.Qwen2VLConfig(
        text_config={**SMALL, "num_hidden_layers": 2, "rope_parameters": {
            "rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}},
        vision_config={"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2,
                       "mlp_ratio": 2},
        image_token_id=125, video_token_id=126, vision_start_token_id=123,
        vision_end_token_id=124)  # fmt: skip
    torch.manual_seed(1)
    model = transformers.Qwen2VLForConditionalGeneration(config).eval()
    row = [min(token, 120) for token in tokens(100)]
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        assert kvc.shape.media == {125, 126}
        cache = kvc.get_cache(row)
        cold = generate(model, [row], cache)
        assert not cache.unsure and kvc.add_blocks(row) == 6
        assert torch.equal(generate(model, [row], kvc.get_cache(row)), cold)
        types = torch.ones(1, 4, dtype=torch.long)
        with pytest.raises(ValueError, match="token_type_ids: no key tells of it"):
            model(input_ids=torch.tensor([row[96:]]), token_type_ids=types,
                  past_key_values=kvc.get_cache(row))  # fmt: skip


def test_another_model_never_hits(tmp_path: Path) -> None:
    row = tokens(100)
    models = [make("llama"), make("llama", seed=2), make("llama", num_hidden_layers=3),
              make("llama", torch.bfloat16), make("llama", rope_theta=5e5)]  # fmt: skip
    with skymem.Cache(f"disk:{tmp_path}/store") as store:
        for model in models:
            kvc = KVCacheBlock(model, store=store, block_tokens=16)
            assert kvc.get_cache(row).filled == 0
            assert kvc.add_blocks(row) == 6
            kvc.close()
        kvc = KVCacheBlock(copy.deepcopy(models[0]), store=store, block_tokens=16)
        assert kvc.get_cache(row).filled == 96
        kvc.close()


def test_by_default_at_most_31_tokens_of_a_prefix_are_left() -> None:
    model = make("llama")
    row = tokens(159)
    with KVCacheBlock(model, store="mem:64MiB") as kvc:
        assert kvc.add_blocks(row) == 4
        assert kvc.get_cache([*row, 5]).filled == 128


def test_refusals() -> None:
    model = make("llama")
    with KVCacheBlock(model, store="mem:64MiB") as kvc:
        with pytest.raises(ValueError, match="a text needs a tokenizer"):
            kvc.get_cache("text")
        with pytest.raises(skymem.BusyError, match="managers use it"):
            kvc.store.close()
    with pytest.raises(ValueError, match="closed"):
        kvc.get_cache([1, 2])
    config = transformers.MambaConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4
    )
    with pytest.raises(skymem.UnsupportedError, match="its state is not rows"):
        KVCacheBlock(transformers.MambaForCausalLM(config), store="mem:64MiB")
    for other in (transformers.BertModel(transformers.BertConfig(**SMALL, num_hidden_layers=1)), 7):
        with pytest.raises(skymem.UnsupportedError, match="a causal language model"):
            KVCacheBlock(other, store="mem:64MiB")


def test_a_model_whose_prompt_sees_itself_whole_is_refused() -> None:
    vision = transformers.SiglipVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
        image_size=28, patch_size=14,
    )  # fmt: skip
    text = transformers.GemmaConfig(**SMALL, num_hidden_layers=2, head_dim=16)
    config = transformers.PaliGemmaConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), image_token_index=63,
        projection_dim=16,
    )  # fmt: skip
    model = transformers.PaliGemmaForConditionalGeneration(config).eval()
    with pytest.raises(skymem.UnsupportedError, match="tokens behind them"):
        KVCacheBlock(model, store="mem:64MiB")


@pytest.mark.parametrize("wrong", [{"input_ids": [1, 2]}, [], torch.zeros(1, 0), torch.tensor(3)])
def test_prompts_that_are_none(wrong: Any) -> None:
    with KVCacheBlock(make("llama"), store="mem:64MiB") as kvc:
        with pytest.raises((TypeError, ValueError), match="prompt"):
            kvc.get_cache(wrong)


def test_an_error_in_a_with_is_what_one_sees() -> None:
    with pytest.raises(IndexError):
        with KVCacheBlock(make("llama"), store="mem:64MiB") as kvc:
            kvc.add_blocks([10**6] * 40)


def test_keys_do_not_depend_on_how_a_model_was_opened(tmp_path: Path) -> None:
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="a")
    prints = set()
    for name in ("one", "two"):
        make("llama").save_pretrained(tmp_path / name)
        model = transformers.LlamaForCausalLM.from_pretrained(tmp_path / name)
        prints.add(Shape(model, tokenizer).print)
        tokenizer(["a b b", "b"], padding=True, truncation=True, max_length=2)
        model.config.use_cache = False
        prints.add(Shape(model, tokenizer).print)
    assert len(prints) == 1
    tokenizer.add_tokens(["c"])
    assert Shape(model, tokenizer).print not in prints


def test_padded_tokens_are_prompts_of_several_lengths() -> None:
    model = make("gemma3")
    rows = [tokens(100), tokens(70, 9)]
    ids = torch.tensor([rows[0], [0] * 30 + rows[1]])
    with KVCacheBlock(model, store="mem:64MiB", block_tokens=16) as kvc:
        cold = generate(model, rows)
        for verdict in ("miss", "hit"):
            cache = kvc.get_cache(ids)
            assert [found.verdict for found in kvc.lookups] == [verdict] * 2
            assert torch.equal(generate(model, rows, cache), cold)
            kvc.add_blocks(ids)
        with pytest.raises(ValueError, match="begins with padding"):
            kvc.get_cache(ids[1:].repeat(2, 1))


def test_another_process_reads_them(tmp_path: Path) -> None:
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_tiny import *
kvc = KVCacheBlock(make("gemma3"), store="disk:" + sys.argv[1], block_tokens=16)
print(kvc.get_cache(tokens(150)).filled, kvc.add_blocks(tokens(150)))
kvc.close()
"""
    for wanted in ("0 9\n", "144 0\n"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, f"{tmp_path}/store"], check=True, text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert done.stdout == wanted
