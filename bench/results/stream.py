#!/usr/bin/env python3
"""bench/results/stream.py: draw stream.svg from stream.jsonl (skymem bench stream --json)."""

import json
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))
COLOURS = {"pacer": "#1b7f5c", "cachegen-meant": "#d08770", "cachegen-written": "#b0b0b0",
           "oracle": "#444444", "f16": "#b0b0b0", "q8_0": "#d08770", "text": "#7f8fb0"}
TRACES = ["steady", "steps", "sawtooth", "handover", "walk"]
LINKS = ["3 Gb/s", "1 Gb/s", "200 Mb/s", "20 Mb/s"]
LATE_MOST = 20  # %, at the top


def share_of(ms):
    """Of the height: from 32 ms to 100 s."""
    return (math.log10(ms) - 1.5) / 3.5


def text(x, y, words, anchor="middle", size=11):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def group(x, base, name, bars, height, show):
    """Bars (label, value, share of the height) of one group, and their name under them."""
    out = []
    for i, (label, value, share) in enumerate(bars):
        top = base - max(share, 0.004) * height
        out.append(f'<rect x="{x + 20 * i}" y="{top:.1f}" width="17" height="{base - top:.1f}" '
                   f'fill="{COLOURS[label]}"/>')
        out.append(text(x + 20 * i + 8, top - 3, show(value), size=8))
    out.append(text(x + 10 * len(bars), base + 15, name))
    return out


def axis(base, height, label, ticks):
    """Lines at (words, share of the height), and what they measure, with its unit."""
    out = [f'<text transform="translate(12 {base - height / 2:.1f}) rotate(-90)" '
           f'text-anchor="middle" font-size="11">{label}</text>']
    for words, share in ticks:
        y = base - share * height
        out.append(f'<line x1="42" y1="{y:.1f}" x2="680" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(text(38, y + 4, words, "end", 9))
    return out


def legend(x, y, labels):
    out = []
    for i, label in enumerate(labels):
        out.append(f'<rect x="{x + 120 * i}" y="{y - 9}" width="10" height="10" '
                   f'fill="{COLOURS[label]}"/>')
        out.append(text(x + 120 * i + 14, y, label, "start"))
    return out


def main():
    with open(os.path.join(HERE, "stream.jsonl"), encoding="utf-8") as f:
        lines = list(map(json.loads, f))
    rows = {r["case"]: r["value"] for r in lines}
    text_ms = next(r["ref_value"] for r in lines if r["case"].endswith("first token, f16"))
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="690" height="560" '
           'font-family="sans-serif">', '<rect width="690" height="560" fill="white"/>']
    policies = ["pacer", "cachegen-meant", "cachegen-written", "oracle"]
    out.append(text(20, 20, "Contexts that take longer than 2 s, at 100 Mb/s on average", "start",
                    13))
    out += axis(220, 170, "late, % of contexts", [(str(v), v / LATE_MOST) for v in (0, 5, 10, 15)])
    for i, trace in enumerate(TRACES):
        values = [rows[f"{trace}, 100 Mb/s, late: {p}"] for p in policies]
        bars = [(p, v, v / LATE_MOST) for p, v in zip(policies, values)]
        out += group(60 + 124 * i, 220, trace, bars, 170, lambda v: f"{v:.1f}")
    out += legend(30, 255, policies)
    out.append(text(20, 300, "Time to the last row of 4,096 tokens (logarithmic)", "start", 13))
    out += axis(500, 200, "ms", [(f"{ms:,}", share_of(ms)) for ms in (100, 1000, 10000)])
    for i, link in enumerate(LINKS):
        bars = []
        for label, case in (("pacer", ""), ("f16", ", f16"), ("q8_0", ", q8_0")):
            bars.append((label, rows[f"{link} first token{case}"]))
        bars.append(("text", text_ms))
        shares = [(label, ms, share_of(ms)) for label, ms in bars]
        out += group(60 + 150 * i, 500, link, shares, 200, lambda v: f"{v:.0f}")
    out += legend(30, 540, ["pacer", "f16", "q8_0", "text"])
    with open(os.path.join(HERE, "stream.svg"), "w", encoding="utf-8") as f:
        f.write("\n".join(out + ["</svg>", ""]))


main()
