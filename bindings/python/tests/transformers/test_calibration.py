"""Proves that a calibration made from a Transformers model knows how its keys are rotated, is of
that model alone, and makes a level better; on real weights (Gemma 3 270M)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import skymem
from skymem import calibration
from skymem.calibration import Turns, calibrate, turns_of, weighted_klt
from skymem.prompt_cache import Shape
from skymem.transformers import KVCacheBlock
from test_real import FOLDERS, opened
from test_tiny import KINDS, SMALL, generate, make, tokens

TEXTS = Path(__file__).parents[4] / "share/texts"


@pytest.mark.parametrize("kind", [*KINDS, "cohere"])
@torch.no_grad()
def test_how_keys_are_rotated_is_found(kind: str) -> None:
    if kind == "cohere":  # pairs of neighbours
        torch.manual_seed(1)
        model: Any = transformers.CohereForCausalLM(
            transformers.CohereConfig(**{**SMALL, "num_hidden_layers": 2})
        ).eval()
    else:
        model = make(kind)
    shape = Shape(model, None)
    found = turns_of(model, shape)
    assert {t.kind for t in found} == {"interleaved" if kind == "cohere" else "neox"}
    assert all(len(t.frequencies) == shape.dim // 2 for t in found)
    # Layers with a window and without have frequencies of their own in this model.
    assert len({float(t.frequencies[1]) for t in found}) == (2 if kind == "gemma3" else 1)
    # The rope of the library undoes what the model did: equal rows become equal bytes.
    cache = transformers.DynamicCache(config=model.config)
    model(input_ids=torch.full((1, 32), 9), past_key_values=cache)
    for turns, layer in zip(found, cache.layers):
        rows = layer.keys[0]
        assert rows[:, 1:].sub(rows[:, :1]).abs().max() > 1e-3
        undone = turns.undo(rows, 0)
        assert undone[:, 1:].sub(undone[:, :1]).abs().max() < 1e-4
        rope = turns.rope()
        assert rope is not None
        profile = skymem.codec.layout([(shape.heads, shape.dim, shape.dim, rope)])
        profile.seal()
        right, bare = (
            len(skymem.codec.encode_stream(rows.transpose(0, 1), level="8", profile=p))
            for p in (profile, None)
        )
        assert right < bare


def test_the_basis_weighs_all_errors_alike() -> None:
    g = torch.Generator().manual_seed(5)
    a, b = (torch.randn(3, 6, 6, generator=g, dtype=torch.float64) for _ in range(2))
    covariance, weight = a @ a.mT, b @ b.mT
    f, back = weighted_klt(covariance, weight)
    eye = torch.eye(6, dtype=torch.float64)
    assert torch.allclose(f @ back, eye.expand(3, 6, 6), atol=1e-9)
    assert torch.allclose(back @ weight @ back.mT, eye.expand(3, 6, 6), atol=1e-6)
    spread = f.mT @ covariance @ f
    assert (spread - torch.diag_embed(spread.diagonal(dim1=1, dim2=2))).abs().max() < 1e-8


def test_a_calibration_is_of_its_model_alone(tmp_path: Path) -> None:
    model = make("gemma3")
    texts = [tokens(1200, seed) for seed in (1, 2)]
    said: list[str] = []
    profile = calibrate(model, None, texts, levels=[4, "archive"], progress=said.append)
    assert said[0] == "text 1 of 4" and said[-1] == "steps, round 4 of 4"
    assert all(parameter.requires_grad for parameter in model.parameters())
    # Full layers are stored first; the model has them second and fourth.
    assert [layer[3] for layer in profile.layers] == [1, 3, 0, 2]
    (tmp_path / "tiny.skycal").write_bytes(profile.data())
    row = tokens(150)
    with KVCacheBlock(model, store=f"disk:{tmp_path}/store", level=4, block_tokens=16,
                      calibration=str(tmp_path / "tiny.skycal")) as kvc:  # fmt: skip
        assert kvc.store.stat()[0].levels == ("4",)
        kvc.add_blocks(row)
        out = generate(model, [row], kvc.get_cache(row))
        assert kvc.lookups[0].hit_tokens == 144 and out.shape == (1, 156)
    with pytest.raises(skymem.ParamError, match="another model"):
        KVCacheBlock(make("gemma3", seed=2), store="mem:64MiB", calibration=profile)
    with skymem.Cache("mem:64MiB") as store:
        with pytest.raises(ValueError, match="the store is open"):
            KVCacheBlock(model, store=store, level=4)
    with pytest.raises(ValueError, match="memory keeps rows as they are"):
        KVCacheBlock(model, store="mem:64MiB", level=4)
    with pytest.raises(ValueError, match="none is as long as 640"):
        calibrate(model, None, [tokens(639)])
    with pytest.raises(ValueError, match="level: one of lossless"):
        calibrate(model, None, texts, levels=[5])


def test_a_calibration_stands_for_that_of_another_engine() -> None:
    model = make("llama")
    texts = [tokens(700)]
    shape = Shape(model, None)
    rows = [(shape.heads, shape.dim, shape.v_dim, turns.rope()) for turns in turns_of(model, shape)]

    def other(rows: list[Any]) -> skymem.codec.Profile:
        out = skymem.codec.layout(rows, fingerprint=bytes(range(32)), order=range(len(rows))[::-1])
        out.seal()
        return out

    made = calibrate(model, None, texts, levels=["archive"], matrices=False, like=other(rows))
    assert made.fingerprint == bytes(range(32))
    assert [layer[3] for layer in made.layers] == list(range(len(rows)))[::-1]
    own = calibrate(model, None, texts, levels=["archive"])
    assert len(made.data()) < len(own.data()) - 4 * len(rows) * shape.heads * shape.dim**2
    with pytest.raises(ValueError, match="of another model"):
        calibrate(model, None, texts, levels=["4"], like=other(rows[1:]))
    rope = skymem.codec.rope(shape.dim, kind="interleaved")
    with pytest.raises(ValueError, match="channels in another order"):
        calibrate(model, None, texts, levels=["4"], like=other([(*r[:3], rope) for r in rows]))


def test_one_piece_does_not_outweigh_all_others() -> None:
    stream = calibration.Stream(0, 1, calibration.NO_TURNS)
    for size in (1.0, 1.0, 1.0, 30.0):
        stream.weigh(math.sqrt(size) * torch.eye(4)[None], 0)
        stream.end_piece()
    weight = stream.weight([torch.ones(4)] * 4) / calibration.GRADIENT_UNIT
    assert float(weight[0, 0, 0]) == pytest.approx(3 + math.sqrt(30), rel=1e-3)


@pytest.mark.parametrize("window", [30, 128, 512])
def test_bits_are_measured_on_rows_where_they_lie(window: int) -> None:
    # A window layer holds one row less than its window: of a short one less than a block.
    first = calibration.PREFIX_TOKENS - (window - 1)
    rows = torch.randn(2, window - 1, 16, generator=torch.Generator().manual_seed(3))
    stream = calibration.Stream(0, 0, calibration.NO_TURNS)
    stream.take(rows, first)
    ((position, block),) = stream.blocks
    start = max(0, window - 1 - calibration.BLOCK_TOKENS)
    assert position == first + start
    assert torch.equal(block.transpose(0, 1), rows[:, start:])


def test_tokens_tell_how_fine_they_are_to_be() -> None:
    g = torch.Generator().manual_seed(3)
    stream = calibration.Stream(0, 1, calibration.NO_TURNS)
    for _ in range(3):
        rows = torch.randn(2, 508, 16, generator=g)
        rows[0, :, 3] = rows[0, ::2, 3].repeat_interleave(2)  # alike in both tokens of a pair
        stream.take(rows, 4)
        stream.weigh(torch.randn(2, 508, 16, generator=g) * torch.exp2(rows[0, :, 3:4] / 2), 4)
        stream.end_piece()
    stream.learn(False)
    assert stream.fineness is not None
    told = stream.fineness.reshape(2, 16)
    assert 0.6 * calibration.SHRINK < float(told[0, 3]) < 1.1 * calibration.SHRINK
    told[0, 3] = 0
    assert float(told.abs().max()) < 0.1


@torch.no_grad()
def divergence(model: Any, ids: torch.Tensor, held: int, cache: Any, said: Any) -> float:
    """Nats between what the model says with a cache and what it said, per token."""
    out = model(input_ids=ids[:, held:], past_key_values=cache, use_cache=True).logits[0]
    now = torch.log_softmax(out.double(), -1)
    return float((said.exp() * (said - now)).sum(-1).mean())


@pytest.mark.skipif(not FOLDERS[0].exists(), reason="tools/transformers made no model")
def test_a_level_is_smaller_and_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = opened(FOLDERS[0])
    monkeypatch.setattr(calibration, "SEGMENTS_MAX", 6)
    texts = [path.read_text() for path in sorted((TEXTS / "calibration").glob("*.txt"))]
    profile = calibrate(model, tokenizer, texts, levels=["4"])
    ids = torch.tensor([tokenizer((TEXTS / "prose.txt").read_text()).input_ids[600:1152]])
    row, held = ids[0].tolist(), 512
    found = {}
    for name, level, known in (
        ("as it is", None, None), ("bare", 4, None), ("calibrated", 4, profile),
    ):  # fmt: skip
        store = f"disk:{tmp_path}/{name}"
        with KVCacheBlock(model, tokenizer, store, level=level, calibration=known) as kvc:
            assert kvc.add_blocks(row[:held]) == held // kvc.block_tokens
            cache = kvc.get_cache(row)
            assert cache.filled == held
            if level is None:
                with torch.no_grad():
                    out = model(input_ids=ids[:, held:], past_key_values=cache, use_cache=True)
                said = torch.log_softmax(out.logits[0].double(), -1)
            else:
                found[name] = divergence(model, ids, held, cache, said)
            found[name + ", bytes"] = sum(entry.size for entry in kvc.store.list())
    assert found["calibrated"] < found["bare"] / 2, found
    # f32 rows at about 4 bits an element
    assert found["calibrated, bytes"] < found["as it is, bytes"] / 7.5, found
