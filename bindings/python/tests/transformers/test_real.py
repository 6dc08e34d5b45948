"""Proves on real weights (Gemma 3 270M and Qwen2.5-Coder 0.5B, f32) that a restored prefix gives
the tokens of a cold run, and the logits of a run that goes on by itself, to the bit; in this
process and in another, from disk and from satellites."""

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

from skymem.keys import block_keys
from skymem.transformers import KVCacheBlock

HOME = Path(os.environ.get("SKYMEM_BUILD", "build")) / "python"
FOLDERS = [HOME / "model", HOME / "model-qwen"]
TEXT = Path(__file__).parents[4] / "share/texts/licence.txt"
torch.set_num_threads(1)


def opened(folder: Path) -> tuple[Any, Any]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    # Said for all tests: a model's own settings may ask for more than the likeliest token.
    model.generation_config.repetition_penalty = 1.0
    return model, AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: str(folder.name))
def parts(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any, Path]]:
    if not request.param.exists():
        pytest.skip("tools/transformers made no such model: tools/get-model fetches its weights")
    yield (*opened(request.param), request.param)


def prompt_of(tokenizer: Any, count: int) -> str:
    text: str = tokenizer.decode(tokenizer(TEXT.read_text()).input_ids[1:count])
    return text + "\nIn short:"


def test_the_listing_of_the_paper(parts: tuple[Any, Any, Path], tmp_path: Path) -> None:
    model, tokenizer, _ = parts
    prompt = prompt_of(tokenizer, 700)
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
        assert kvc.manager is not None
        cut = DynamicCache(config=model.config)
        model(input_ids=ids[:, :held], past_key_values=cut, use_cache=True, logits_to_keep=1)
        kvc.store.remove_many(block_keys(ids[0].tolist(), namespace=kvc.manager.namespace,
                                         block_tokens=kvc.block_tokens))  # fmt: skip
        kvc.add_blocks(ids[0, :held])
        restored = kvc.get_cache(prompt)
        assert restored.filled == held
        assert kvc.lookups[0].tier_blocks == (held // kvc.block_tokens,)
        wanted = model(input_ids=ids[:, held:], past_key_values=cut, use_cache=True).logits
        got = model(input_ids=ids[:, held:], past_key_values=restored, use_cache=True).logits
        assert torch.equal(got, wanted)


ANOTHER = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_real import *
model, tokenizer = opened(Path(sys.argv[1]))
prompt = prompt_of(tokenizer, 300)
with KVCacheBlock(model, tokenizer, store=sys.argv[2]) as kvc:
    cache = kvc.get_cache(prompt)
    out = model.generate(**tokenizer(prompt, return_tensors="pt"), past_key_values=cache,
                         max_new_tokens=4, do_sample=False)
    print(kvc.lookups[0].verdict, out[0, -4:].tolist())
    kvc.add_blocks(prompt)
    kvc.store.flush(120)
"""


def two_processes(folder: Path, store: str) -> None:
    answers = [
        subprocess.run([sys.executable, "-P", "-c", ANOTHER, folder, store], check=True,
                       text=True, stdout=subprocess.PIPE).stdout.split(" ", 1)
        for _ in range(2)
    ]  # fmt: skip
    assert [verdict for verdict, _ in answers] == ["miss", "hit"]
    assert answers[0][1] == answers[1][1]


def test_another_process_reads_them_from_disk(
    parts: tuple[Any, Any, Path], tmp_path: Path
) -> None:
    two_processes(parts[2], f"disk:{tmp_path}/store")


def test_another_process_reads_them_from_the_sky(
    parts: tuple[Any, Any, Path], sky: Path
) -> None:
    two_processes(parts[2], f"sky+udp:{sky}")
