#!/usr/bin/env python3
"""bench/transformers_ttft.py BUILD: the first token of Transformers with a shared prefix.

1,000 shared tokens and a question of 32, the demo's weights in f32, one thread, greedy: cold; with
a past_key_values that was kept in RAM and is cloned for the request; from memory; from disk, read
past the page cache. Blocks of 128 hold 896 of the 1,000 tokens, of 32 hold 992, of 40 all.
Rounds take turns; the median counts. Needs tools/transformers BUILD. Writes
bench/results/transformers.md.
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

INSIDE = r"""
import copy, json, statistics, sys, tempfile, time
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from skymem.transformers import KVCacheBlock

torch.set_num_threads(1)
folder, text, rounds = sys.argv[1], open(sys.argv[2]).read(), int(sys.argv[3])
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
ids = tokenizer(text).input_ids
prefix, asked = ids[:1000], [ids[1000 + 32 * i : 1032 + 32 * i] for i in range(rounds)]
scratch = tempfile.TemporaryDirectory()
kept = DynamicCache(config=model.config)
with torch.no_grad():
    model(torch.tensor([prefix]), past_key_values=kept, logits_to_keep=1)

def answer(cache, question):
    whole = torch.tensor([prefix + question])
    return model.generate(input_ids=whole, attention_mask=torch.ones_like(whole),
                          past_key_values=cache, max_new_tokens=1, do_sample=False,
                          return_dict_in_generate=True, output_logits=True)

blocks = {tokens: KVCacheBlock(model, tokenizer, store="mem:1GiB", block_tokens=tokens)
          for tokens in (32, 40, 128)}
disks = {tokens: KVCacheBlock(model, tokenizer, block_tokens=tokens,
                              store=f"disk:{scratch.name}/{tokens}?direct=on")
         for tokens in blocks}
for kvc in (*blocks.values(), *disks.values()):
    kvc.add_blocks(prefix)
    kvc.store.flush(None)
ways = {
    "computed": lambda q: None,
    "past_key_values kept in RAM, cloned": lambda q: copy.deepcopy(kept),
}
for where, kvcs in ("memory", blocks), ("disk", disks):
    for tokens, kvc in kvcs.items():
        ways[f"SkyMemory, {where}, blocks of {tokens}"] = (
            lambda q, kvc=kvc: kvc.get_cache(prefix + q))
rows = {name: {"ms": [], "cache_ms": [], "same": True} for name in ways}
answer(copy.deepcopy(kept), asked[0])
for question in asked:
    logits = {}
    for name, way in ways.items():
        begin = time.perf_counter()
        cache = way(question)
        middle = time.perf_counter()
        out = answer(cache, question)
        end = time.perf_counter()
        rows[name]["ms"].append((end - begin) * 1e3)
        rows[name]["cache_ms"].append((middle - begin) * 1e3)
        logits[name] = out.logits[0]
        rows[name]["same"] &= bool(out.logits[0].argmax() == logits["computed"].argmax())
        rows[name].setdefault("equal", True)
        rows[name]["equal"] &= torch.equal(out.logits[0],
                                           logits.get("past_key_values kept in RAM, cloned",
                                                      out.logits[0]))
for row in rows.values():
    row["ms"], row["cache_ms"] = statistics.median(row["ms"]), statistics.median(row["cache_ms"])
print(json.dumps(rows))
"""


def main():
    from python_calls import HOME, bench_tool

    build = os.path.abspath(sys.argv[1])
    python = os.path.join(build, "python", "transformers", "bin", "python")
    said = subprocess.run(
        [python, "-P", "-c", INSIDE, os.path.join(build, "python", "model"),
         os.path.join(HOME, "share", "texts", "licence.txt"), sys.argv[2] if sys.argv[2:] else "9"],
        check=True, stdout=subprocess.PIPE, text=True)
    rows = json.loads(said.stdout.strip().splitlines()[-1])
    cold = rows["computed"]["ms"]
    lines = ["# First token of Transformers", "",
             *bench_tool().head(f"bench/transformers_ttft.py {sys.argv[1]}"),
             "| answer from | first token, ms | times sooner | get_cache, ms | same token |"
             " logits |",
             "|---|--:|--:|--:|---|---|"]
    for name, row in rows.items():
        logits = "" if name == "computed" else "equal to RAM's" if row["equal"] else "close"
        lines.append(f"| {name} | {row['ms']:,.1f} | {cold / row['ms']:,.1f} |"
                     f" {row['cache_ms']:,.1f} | {'yes' if row['same'] else 'no'} | {logits} |")
    path = os.path.join(HOME, "bench", "results", "transformers.md")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
