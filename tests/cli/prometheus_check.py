#!/usr/bin/env python3
"""prometheus_check.py FILE...: is each file Prometheus's text (exposition format 0.0.4), strictly?

Own checks: every sample after its family's HELP and TYPE, families whole and once, names, labels,
escapes, values, `_total` on counters alone, histograms cumulative up to +Inf and equal to their
_count. Then the parser of prometheus_client, where it is installed, must see as many samples."""

import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\d+(?:\.\d+)?)")


def family_of(name, kinds):
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and kinds.get(base) == "histogram":
            return base
    return name


def check_histogram(name, series):
    for labels, parts in series.items():
        bounds = [float(b) for b, _ in parts["_bucket"]]
        counts = [count for _, count in parts["_bucket"]]
        assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf"), (name, labels, bounds)
        assert counts == sorted(counts), (name, labels, counts)
        assert counts[-1] == parts["_count"][0][1], (name, labels, "count")
        assert len(parts["_sum"]) == len(parts["_count"]) == 1, (name, labels)


def check(text):
    kinds, helps, seen, closed, samples, histograms = {}, set(), set(), set(), 0, {}
    current = None
    assert text.endswith("\n"), "the last line has no end"
    for number, line in enumerate(text[:-1].split("\n"), 1):
        head = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
        if head:
            word, name, rest = head.groups()
            assert name not in closed, f"{number}: {name} comes in two places"
            if word == "HELP":
                assert name not in helps, f"{number}: two HELP lines of {name}"
                helps.add(name)
                closed |= {current} if current else set()
                current = name
            else:
                assert name == current and rest in ("counter", "gauge", "histogram"), line
                assert (rest == "counter") == name.endswith("_total"), line
                kinds[name] = rest
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, f"{number}: no sample: {line}"
        name, labels = sample.group(1), re.findall(LABEL, sample.group(2) or "")
        family = family_of(name, kinds)
        assert family == current and family in kinds, f"{number}: not under its TYPE: {line}"
        assert len(dict(labels)) == len(labels), f"{number}: a label twice: {line}"
        assert (name, tuple(labels)) not in seen, f"{number}: twice: {line}"
        seen.add((name, tuple(labels)))
        samples += 1
        if kinds[family] == "histogram":
            rest = tuple(label for label in labels if label[0] != "le")
            parts = histograms.setdefault(family, {}).setdefault(
                rest, {"_bucket": [], "_sum": [], "_count": []})
            parts[name.removeprefix(family)].append(
                (dict(labels).get("le", "0"), float(sample.groups()[-1])))
    for name, series in histograms.items():
        check_histogram(name, series)
    return samples


def main():
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        text_string_to_metric_families = None
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        samples = check(text)
        if text_string_to_metric_families:
            families = list(text_string_to_metric_families(text))
            assert sum(len(family.samples) for family in families) == samples, path
            assert all(family.documentation for family in families), path
        print(f"{path}: {samples} samples"
              f"{', as prometheus_client reads it' if text_string_to_metric_families else ''}")


if __name__ == "__main__":
    main()
