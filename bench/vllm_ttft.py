#!/usr/bin/env python3
"""bench/vllm_ttft.py BUILD [ROUNDS]: the first token of vLLM with a shared prefix.

A question of 32 tokens behind a prefix of 2,048, on a model of Qwen2.5-0.5B's shape with random
weights in bf16, for each store: cold; behind blocks that vLLM still has; and from the store, after
vLLM has forgotten its blocks. The median of the rounds counts. Needs `make vllm`. Writes
bench/results/vllm.md, and its table into docs/vllm.md.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

PREFIX, QUESTION = 2048, 32
MAKE = """
import sys, torch
from transformers import Qwen2Config, Qwen2ForCausalLM
torch.manual_seed(3)
config = Qwen2Config(vocab_size=8192, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                     num_attention_heads=14, num_key_value_heads=2, max_position_embeddings=4096)
Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""


def answers(python, model, store, rounds):
    """Seconds of each round: cold, from vLLM's own blocks, from the store."""
    from python_calls import HOME

    prompts = []
    for n in range(rounds):
        prefix = [(i * i * 7 + i * 3 + 31 * n) % 8000 for i in range(PREFIX)]
        prompts += [{"tokens": prefix + [1] * QUESTION}, {"tokens": prefix + [2] * QUESTION},
                    {"tokens": prefix + [3] * QUESTION, "before": "reset"}]
    job = {"model": model, "stores": [store], "prompts": [{"tokens": [5] * 64}, *prompts],
           "settings": {"dtype": "bfloat16", "max_model_len": 4096}, "max_tokens": 1}
    engine = os.path.join(HOME, "bindings", "python", "tests", "vllm", "engine.py")
    said = subprocess.run([python, "-P", engine], input=json.dumps(job), text=True, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    lines = [json.loads(line.removeprefix("answer ")) for line in said.splitlines()
             if line.startswith("answer ")][1:]
    assert [line["cached"] for line in lines] == [0, PREFIX, PREFIX] * rounds
    return [[line["seconds"] for line in lines[kind::3]] for kind in range(3)]


def main():
    from python_calls import bench_tool, keep

    build = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if sys.argv[2:] else 3
    python = os.path.join(build, "python", "vllm", "bin", "python")
    head = bench_tool().head(f"bench/vllm_ttft.py {' '.join(sys.argv[1:])}")
    lines = ["| store | cold, s | vLLM's own blocks, s | from the store, s | sooner than cold |",
             "|---|--:|--:|--:|--:|"]
    with tempfile.TemporaryDirectory() as scratch:
        model = os.path.join(scratch, "model")
        subprocess.run([python, "-P", "-c", MAKE, model], check=True, stderr=subprocess.DEVNULL)
        for store in ("mem:1GiB", f"disk:{scratch}/store"):
            cold, own, kept = (statistics.median(one)
                               for one in answers(python, model, store, rounds))
            lines.append(f"| `{store.split(':')[0]}:` | {cold:.2f} | {own:.3f} | {kept:.3f} | "
                         f"{cold / kept:.1f} × |")
    keep("vllm", "# First token of vLLM", head, lines)


if __name__ == "__main__":
    main()
