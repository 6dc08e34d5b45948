"""Proves the connector in real vLLM engines, each a process of its own, on small models with
random weights: what one engine stored another finds, with the same tokens; what is damaged, of
another model, or under another salt is a miss; and an engine answers without its store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

ENGINE = Path(__file__).with_name("engine.py")
PROMPT = [(n * n * 7 + n * 3) % 500 for n in range(200)]  # six blocks of 32, and 8 tokens
FOUND = 192


def model_of(folder: Path, seed: int) -> str:
    torch.manual_seed(seed)
    config = Qwen2Config(vocab_size=512, hidden_size=128, intermediate_size=256,
                         num_hidden_layers=3,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024,
                         initializer_range=0.2)  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return model_of(tmp_path_factory.mktemp("model"), 1)


def run(model: str, stores: list[str], *prompts: dict[str, Any]) -> list[dict[str, Any]]:
    job = {"model": model, "stores": stores, "prompts": prompts}
    done = subprocess.run([sys.executable, "-P", str(ENGINE)], input=json.dumps(job), text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("answer ")]
    return [json.loads(line.removeprefix("answer ")) for line in lines]


def same(one: dict[str, Any], other: dict[str, Any], within: float = 1e-4) -> bool:
    return one["tokens"] == other["tokens"] and one["logprobs"] == pytest.approx(
        other["logprobs"], abs=within
    )


@pytest.fixture(scope="module")
def stored(model: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Any]:
    """A store, what an engine answered that stored it, and once more from its own blocks."""
    folder = str(tmp_path_factory.mktemp("stored") / "store")
    cold, local = run(model, [f"disk:{folder}"], {"tokens": PROMPT}, {"tokens": PROMPT})
    assert cold["cached"] == 0 and local["cached"] == FOUND and same(cold, local)
    return folder, cold, local


def test_another_engine_finds_what_one_stored(model: str, stored: tuple[str, Any, Any]) -> None:
    folder, cold, local = stored
    hit, whole, part, salted, again, damaged, healed = run(
        model, [f"disk:{folder}"],
        {"tokens": PROMPT},
        {"tokens": PROMPT[:FOUND], "before": "reset"},
        {"tokens": PROMPT[:100] + PROMPT[:50], "before": "reset"},
        {"tokens": PROMPT, "salt": "tenant", "before": "reset"},
        {"tokens": PROMPT, "salt": "tenant", "before": "reset"},
        {"tokens": PROMPT, "before": folder},
        {"tokens": PROMPT, "before": "reset"},
    )  # fmt: skip
    assert hit["cached"] == FOUND and same(hit, local, 0)  # to the bit
    assert whole["cached"] == FOUND - 32  # one token at least is computed
    assert part["cached"] == 96
    assert salted["cached"] == 0 and again["cached"] == FOUND and same(salted, cold)
    assert same(damaged, cold)
    assert healed["cached"] == FOUND and same(healed, cold)


def test_another_model_finds_nothing(stored: tuple[str, Any, Any], tmp_path: Path) -> None:
    other = model_of(tmp_path / "other", 2)
    (answer,) = run(other, [f"disk:{stored[0]}"], {"tokens": PROMPT})
    assert answer["cached"] == 0 and answer["tokens"] != stored[1]["tokens"]


def test_an_engine_answers_without_its_store(model: str, stored: tuple[str, Any, Any]) -> None:
    (answer,) = run(model, ["skymem://127.0.0.1:1?plain=yes"], {"tokens": PROMPT})
    assert answer["cached"] == 0 and same(answer, stored[1], 0)
