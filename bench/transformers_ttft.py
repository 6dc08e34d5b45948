#!/usr/bin/env python3
"""bench/transformers_ttft.py BUILD [ROUNDS]: the first token of Transformers with a shared prefix.

A question of 32 tokens behind a prefix of 1,000 and of 1,017, real weights in f32, one thread,
greedy: cold; with a past_key_values that was kept in RAM and is cloned for the request; from
memory; from disk, read past the page cache; blocks of 16 to 128. Then what a block length costs:
tokens of the prefix that are found, the time of a save, the size at level 4. Rounds take turns; the
median counts. Needs tools/transformers BUILD. Writes bench/results/transformers.md, and its tables
into docs/transformers.md.
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
from skymem.manager import Sequence
from skymem.prompt_cache import PromptCache, State
from skymem.transformers import KVCacheBlock

torch.set_num_threads(1)
folder, text, rounds = sys.argv[1], open(sys.argv[2]).read(), int(sys.argv[3])
lengths = [int(length) for length in sys.argv[4:]]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
model.generation_config.repetition_penalty = 1.0
tokenizer = AutoTokenizer.from_pretrained(folder)
ids = tokenizer(text).input_ids
scratch = tempfile.TemporaryDirectory()
RAM = "past_key_values kept in RAM, cloned"
BLOCKS = (16, 32, 64, 128)

def opened(tokens, url):
    return KVCacheBlock(model, tokenizer, store=url, block_tokens=tokens)

memory = {tokens: opened(tokens, "mem:1GiB") for tokens in BLOCKS}
disk = {tokens: opened(tokens, f"disk:{scratch.name}/{tokens}?direct=on")
        for tokens in BLOCKS}
coded = {tokens: opened(tokens, f"disk:{scratch.name}/{tokens}-4?direct=on&level=4")
         for tokens in BLOCKS}

@torch.no_grad()
def computed(prefix):
    # What the model makes of a prefix, in a cache that any of these can save.
    shape = memory[16].shape
    cache = PromptCache(shape, [prefix], [State(shape)])
    model(input_ids=torch.tensor([prefix]), past_key_values=cache, logits_to_keep=1)
    return cache

def save(kvc, cache, prefix):
    begin = time.perf_counter()
    kvc._save(cache, [Sequence(kvc.manager, cache.states[0])], [prefix])
    kvc.store.flush(None)
    return (time.perf_counter() - begin) * 1e3

def answer(cache, prompt):
    whole = torch.tensor([prompt])
    return model.generate(input_ids=whole, attention_mask=torch.ones_like(whole),
                          past_key_values=cache, max_new_tokens=1, do_sample=False,
                          return_dict_in_generate=True, output_logits=True).logits[0]

def first_tokens(prefix, asked):
    kept = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.tensor([prefix]), past_key_values=kept, logits_to_keep=1)
    ways = {"computed": lambda prompt: None, RAM: lambda prompt: copy.deepcopy(kept)}
    for where, kvcs in ("memory", memory), ("disk", disk):
        for tokens, kvc in kvcs.items():
            ways[f"SkyMemory, {where}, blocks of {tokens}"] = kvc.get_cache
    rows = {name: {"ms": [], "cache_ms": [], "same": True, "near": 0.0} for name in ways}
    answer(copy.deepcopy(kept), prefix + asked[0])
    for question in asked:
        logits = {}
        for name, way in ways.items():
            begin = time.perf_counter()
            cache = way(prefix + question)
            middle = time.perf_counter()
            logits[name] = answer(cache, prefix + question)
            end = time.perf_counter()
            row = rows[name]
            row["ms"].append((end - begin) * 1e3)
            row["cache_ms"].append((middle - begin) * 1e3)
            row["same"] &= bool(logits[name].argmax() == logits["computed"].argmax())
            if name != "computed":
                row["near"] = max(row["near"], float((logits[name] - logits[RAM]).abs().max()))
    for row in rows.values():
        row["ms"], row["cache_ms"] = map(statistics.median, (row["ms"], row["cache_ms"]))
    return rows

out = {"ttft": {}, "found": {}, "save": {}, "bits": {}}
for length in lengths:
    prefix = ids[:length]
    asked = [ids[length + 32 * i : length + 32 * (i + 1)] for i in range(rounds)]
    cache = computed(prefix)
    for kvcs in memory, disk, coded:
        for tokens, kvc in kvcs.items():
            save(kvc, cache, prefix)
    out["found"][length] = {t: kvc.get_cache(prefix + asked[0]).filled
                            for t, kvc in memory.items()}
    out["ttft"][length] = first_tokens(prefix, asked)
for tokens in BLOCKS:
    plain = sum(entry.size for entry in disk[tokens].store.list())
    out["bits"][tokens] = 32 * sum(e.size for e in coded[tokens].store.list()) / plain
    for name, kvcs in ("memory", memory), ("disk", disk):
        kvc, times = kvcs[tokens], []
        for _ in range(5):
            for entry in kvc.store.list():
                kvc.store.remove(entry.key)
            times.append(save(kvc, cache, prefix))
        out["save"].setdefault(name, {})[tokens] = statistics.median(times)
print(json.dumps(out))
"""


def first_token_table(rows):
    cold, ram = rows["computed"]["ms"], rows["past_key_values kept in RAM, cloned"]["ms"]
    lines = ["| answer from | first token, ms | times sooner | of RAM's time | get_cache, ms |"
             " same token | farthest logit from RAM's, 1e-5 |",
             "|---|--:|--:|--:|--:|---|--:|"]
    for name, row in rows.items():
        near = "" if name == "computed" else f"{row['near'] * 1e5:.1f}"
        lines.append(f"| {name} | {row['ms']:,.1f} | {cold / row['ms']:,.1f} |"
                     f" {row['ms'] / ram:.2f} | {row['cache_ms']:,.1f} |"
                     f" {'yes' if row['same'] else 'no'} | {near} |")
    return lines


def cost_table(said):
    lengths = list(said["found"])
    lines = ["| tokens in a block | " + " | ".join(f"found of {n}" for n in lengths) +
             " | save to memory, ms | to disk, ms | level 4, bits an element |",
             "|--:|" + "--:|" * (len(lengths) + 3)]
    for tokens, bits in said["bits"].items():
        found = " | ".join(str(said["found"][n][tokens]) for n in lengths)
        lines.append(f"| {tokens} | {found} | {said['save']['memory'][tokens]:,.1f} |"
                     f" {said['save']['disk'][tokens]:,.1f} | {bits:.2f} |")
    return lines


def main():
    from python_calls import HOME, bench_tool, keep

    build = os.path.abspath(sys.argv[1])
    rounds = sys.argv[2] if sys.argv[2:] else "9"
    python = os.path.join(build, "python", "transformers", "bin", "python")
    head = bench_tool().head(f"bench/transformers_ttft.py {' '.join(sys.argv[1:])}")
    lines = []
    for title, folder, lengths in (("Gemma 3 270M", "model", ("1000", "1017")),
                                   ("Qwen2.5-Coder 0.5B", "model-qwen", ("1000",))):
        answered = subprocess.run(
            [python, "-P", "-c", INSIDE, os.path.join(build, "python", folder),
             os.path.join(HOME, "share", "texts", "licence.txt"), rounds, *lengths],
            check=True, stdout=subprocess.PIPE, text=True)
        said = json.loads(answered.stdout.strip().splitlines()[-1])
        for length, rows in said["ttft"].items():
            lines += [f"### {title}, a prefix of {int(length):,} tokens", "",
                      *first_token_table(rows), ""]
        lines += [f"### {title}: what a block length costs", "", *cost_table(said), ""]
    keep("transformers", "# First token of Transformers", head, lines)


if __name__ == "__main__":
    main()
