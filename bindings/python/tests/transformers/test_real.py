"""Proves on real weights (Gemma 3 270M, f32) that a restored prefix gives the tokens of a cold run,
and the logits of a run that goes on by itself, to the bit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from skymem.transformers import KVCacheBlock

FOLDER = Path(os.environ.get("SKYMEM_BUILD", "build")) / "python/model"
TEXT = Path(__file__).parents[4] / "share/texts/licence.txt"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="tools/transformers made no model")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def parts() -> Iterator[tuple[Any, Any]]:
    yield (
        AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval(),
        AutoTokenizer.from_pretrained(FOLDER),
    )


def test_the_listing_of_the_paper(parts: tuple[Any, Any], tmp_path: Path) -> None:
    model, tokenizer = parts
    text = TEXT.read_text()
    prompt = tokenizer.decode(tokenizer(text).input_ids[1:700]) + "\nIn short:"
    inputs = tokenizer(prompt, return_tensors="pt")
    cold = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    store = f"disk:{tmp_path}/store"
    with KVCacheBlock(model, tokenizer, store=["mem:1GiB", store]) as kvc:
        for verdict in ("miss", "hit", "hit"):
            out = model.generate(
                **inputs, past_key_values=kvc.get_cache(prompt), max_new_tokens=8, do_sample=False
            )
            assert kvc.lookups[0].verdict == verdict
            assert torch.equal(out, cold)
            kvc.add_blocks(prompt)
        held = kvc.lookups[0].hit_tokens
    # Logits: to the bit those of a model that goes on by itself from the same place.
    ids = inputs.input_ids
    with KVCacheBlock(model, tokenizer, store=store) as kvc, torch.no_grad():
        own = DynamicCache(config=model.config)
        model(input_ids=ids, past_key_values=own, use_cache=True, logits_to_keep=1)
        cut = DynamicCache(config=model.config)
        model(input_ids=ids[:, :held], past_key_values=cut, use_cache=True, logits_to_keep=1)
        kvc.store.remove_many(skymem_keys(kvc, ids[0].tolist()))
        kvc.add_blocks(ids[0, :held])
        restored = kvc.get_cache(prompt)
        assert restored.filled == held and kvc.lookups[0].tier_blocks == (held // 128,)
        wanted = model(input_ids=ids[:, held:], past_key_values=cut, use_cache=True).logits
        got = model(input_ids=ids[:, held:], past_key_values=restored, use_cache=True).logits
        assert torch.equal(got, wanted)


def skymem_keys(kvc: KVCacheBlock, tokens: list[int]) -> list[bytes]:
    from skymem.keys import block_keys

    assert kvc.manager is not None
    return block_keys(tokens, namespace=kvc.manager.namespace)


def test_another_process_reads_them(tmp_path: Path) -> None:
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_real import *
model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
prompt = TEXT.read_text()[:1200]
with KVCacheBlock(model, tokenizer, store="disk:" + sys.argv[1]) as kvc:
    cache = kvc.get_cache(prompt)
    out = model.generate(**tokenizer(prompt, return_tensors="pt"), past_key_values=cache,
                         max_new_tokens=4, do_sample=False)
    print(kvc.lookups[0].verdict, out[0, -4:].tolist())
    kvc.add_blocks(prompt)
"""
    answers = [
        subprocess.run([sys.executable, "-P", "-c", program, f"{tmp_path}/store"], check=True,
                       text=True, stdout=subprocess.PIPE).stdout.split(" ", 1)
        for _ in range(2)
    ]  # fmt: skip
    assert [verdict for verdict, _ in answers] == ["miss", "hit"]
    assert answers[0][1] == answers[1][1]
