#!/usr/bin/env python3
"""bench/overlap.py BUILD [--quick] [--at LIST] [MODEL...]: `skymem bench overlap` of models, on one
thread.

Writes bench/results/overlap.jsonl, the lines as the program says them and the model's name, and
overlap.md, a table for each model. Without MODEL: gemma-3-270m and both Qwens, of those that this
machine has. With --at these rows alone are measured, and go in the place of those of before. With
--quick prompts are of 512 tokens instead of 2,048, for models that take minutes for one. With
--lines FILE instead of BUILD the tables are made of lines measured before.
"""

import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(HOME, "bench", "results")
NOTE = """\
Each model by `skymem bench overlap --threads 1 --model NAME --json`. The three times of a row are
measured one after the other in one run: the column *compute alone* is the same work in each, and
shows how much the machine's speed changed meanwhile. All three end with the computation of the 32
new tokens. In rows that say under *of these new tokens* how long that took, its best measurement
counts in all three, and loads of less than 1.5 s are the best of five; the other rows are of an
earlier run. Answers are the cold run's to the last bit, but for levels 8 and 4; the bench fails
otherwise. A link is a driver tier, which reads whole values: of Gemma, whose layers have windows,
it moves 37.8 MB where 14.2 MB are used. `skymem plan` knows what the links before have shown of the
engine."""
MODELS = ("gemma-3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")


def machine():
    """The head of every table of bench/results: command, date, commit, machine."""
    path = os.path.join(HOME, "tools", "bench")
    loader = importlib.machinery.SourceFileLoader("tools_bench", path)
    spec = importlib.util.spec_from_loader("tools_bench", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module.head("bench/overlap.py build")


def measure(build, model, at, quick):
    """The lines of one model, or none when it is not here."""
    if subprocess.run([os.path.join(HOME, "tools", "get-model"), "--cached", model],
                      stdout=subprocess.DEVNULL).returncode:
        print(f"{model} was not fetched", file=sys.stderr)
        return []
    command = [os.path.join(build, "skymem"), "bench", "overlap", "--threads", "1", "--json",
               "--model", model] + (["--at", at] if at else []) + (["--quick"] if quick else [])
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) | {"model": model} for line in run.stdout.splitlines()]


def places(rows):
    """For each place: load alone, compute alone, both, tokens computed, plan (None: no link), and
    what of each is the new tokens' (None: measured before that was said)."""
    found = {}
    for row in rows:
        load = re.fullmatch(r"(.*), load alone", row["case"])
        both = re.fullmatch(r"(.*), both: (\d+) tokens computed", row["case"])
        plan = re.fullmatch(r"(.*), skymem plan", row["case"])
        new = re.fullmatch(r"(.*), of these \d+ new tokens", row["case"])
        if load:
            found[load[1]] = [row["value"], row["ref_value"], None, None, None, None]
        elif both:
            found[both[1]][2:4] = row["value"], int(both[2])
        elif plan:
            found[plan[1]][4] = row["value"]
        elif new:
            found[new[1]][5] = min(row["value"], row["ref_value"])
    return found


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def place_of(row):
    """What rows that are measured together have in common. Which rate is the equal one varies."""
    place = re.sub(r", (load alone|both|of these|skymem plan).*", "", row["case"])
    return row["model"], "equal" if "(equal)" in place else place


def renew(old, new):
    """The old lines, but for those of places that were measured again."""
    again = {place_of(row) for row in new}
    return sorted([row for row in old if place_of(row) not in again] + new,
                  key=lambda row: (MODELS.index(row["model"]), order_of(row["case"])))


def order_of(case):
    """As the bench has its rows: what holds for all, the links by rate, then the others."""
    names = ("level 8, ", "level 4, ", "disk", "sky")
    name = next((n for n in names if case.startswith(n)), "")
    rate = re.match(r"([0-9.]+) Mb/s( \(equal\))?", case.removeprefix(name))
    at = float(rate[1]) if rate and not rate[2] else 0
    return (2 + names.index(name), at) if name else (1 if rate else 0, at)


def judge(found):
    """How the rows of a model keep what docs/streaming.md says of them."""
    ratios = {name: both / min(load, cold) for name, (load, cold, both, *_) in found.items()}
    plans = [plan / both for _, _, both, _, plan, _ in found.values() if plan]
    near = sum(abs(p - 1) <= 0.15 for p in plans)
    worst = max(ratios, key=ratios.get)
    return (f"At most {ratios[worst]:.2f} of the better one ({worst}); `skymem plan` within 15 % at"
            f" {near} of {len(plans)} links.")


def table(model, rows):
    stored = next(r for r in rows if r["case"] == "bytes of the prefix")
    tokens = int(rows[0]["case"].split()[0])
    yield f"## {model}: {tokens - 32:,} tokens stored, 32 new, {stored['value'] / 1e6:.1f} MB"
    yield ""
    yield ("| from | load alone ms | compute alone ms | both ms | of the better one"
           " | of these new tokens ms | tokens computed | `skymem plan` ms | of both |")
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for name, (load, cold, both, computed, plan, new) in places(rows).items():
        foreseen = f"{plan:,.0f} | {plan / both:.2f}" if plan else "|"
        yield (f"| {name} | {load:,.0f} | {cold:,.0f} | {both:,.0f} | {both / min(load, cold):.2f}"
               f" | {f'{new:,.0f}' if new else ''} | {computed} | {foreseen} |")
    yield ""
    yield judge(places(rows))
    yield ""


def main():
    words, at, rows = sys.argv[1:], None, []
    quick = "--quick" in words
    words = [word for word in words if word != "--quick"]
    if words[0] == "--lines":
        rows = lines_of(words[1])
    else:
        if words[1:2] == ["--at"]:
            at, rows = words[2], lines_of(os.path.join(RESULTS, "overlap.jsonl"))
        for model in words[3 if at else 1:] or MODELS:
            rows = renew(rows, measure(words[0], model, at, quick))
    lines = machine() + [NOTE, ""]
    for model in dict.fromkeys(row["model"] for row in rows):
        lines += table(model, [row for row in rows if row["model"] == model])
    for name, content in (("overlap.jsonl", [json.dumps(row) for row in rows]),
                          ("overlap.md", lines[:-1])):
        with open(os.path.join(RESULTS, name), "w", encoding="utf-8") as f:
            f.write("\n".join(content) + "\n")


if __name__ == "__main__":
    main()
