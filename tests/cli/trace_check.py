#!/usr/bin/env python3
"""trace_check.py [--open] FILE [NAME...]: is FILE a trace as chrome://tracing and Perfetto read it?

One JSON array. Events of a thread nest; each pair ends once, after it began, and pairs of one id
nest; what a tier did for a request, but for what is done after the answer, lies in the request's
time. With --open requests may have no end: the process was killed. Each NAME names an event."""

import json
import sys
from collections import defaultdict

SLACK_US = 0.002  # times are printed to a nanosecond each


def check_event(e):
    assert e["ph"] in "XbeM" and isinstance(e["pid"], int) and isinstance(e["tid"], int), e
    assert e["ph"] == "M" or (e["ts"] >= 0 and e["cat"] and "request" in e["args"]), e
    assert ("dur" in e) == (e["ph"] == "X") and ("id" in e) == (e["ph"] in "be"), e
    key = e["args"].get("key", "00000000")
    assert len(key) == 8 and int(key, 16) >= 0, e


def check_threads(events):
    threads = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            threads[e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"]))
    for spans in threads.values():
        stack = []
        for span in sorted(spans, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1][1] <= span[0] + SLACK_US:
                stack.pop()
            assert not stack or span[1] <= stack[-1][1] + SLACK_US, (stack[-1], span)
            stack.append(span)


def check_pairs(events, may_be_open):
    """Returns request id -> [begin, end]."""
    pairs, requests = defaultdict(list), {}
    for e in events:
        if e["ph"] not in "be":
            continue
        stack = pairs[e["cat"], e["id"]]
        if e["ph"] == "b":
            assert not stack or stack[-1]["ts"] <= e["ts"], e
            stack.append(e)
        else:
            begin = stack.pop()
            assert begin["name"] == e["name"] and begin["ts"] <= e["ts"], (begin, e)
        if e["cat"] == "request":
            requests.setdefault(e["args"]["request"], [e["ts"], float("inf")])
            if e["ph"] == "e":
                requests[e["args"]["request"]][1] = e["ts"]
    assert may_be_open or not any(pairs.values()), [s for s in pairs.values() if s]
    return requests


def check_requests(events, requests):
    for e in events:
        if e["ph"] in "be" and e["cat"] == "tier" and " for " not in e["name"]:
            if e["name"] in ("queue", "answer") or e["args"]["request"] not in requests:
                continue
            begin, end = requests[e["args"]["request"]]
            assert begin - SLACK_US <= e["ts"] <= end + SLACK_US, (e, begin, end)


def main():
    may_be_open = sys.argv[1] == "--open"
    path, *names = sys.argv[1 + may_be_open:]
    with open(path, encoding="ascii") as f:
        events = json.load(f)
    assert isinstance(events, list)
    for e in events:
        check_event(e)
    check_threads(events)
    check_requests(events, check_pairs(events, may_be_open))
    seen = {e["name"] for e in events}
    assert seen.issuperset(names), (set(names) - seen, seen)
    print(f"{path}: {len(events)} events")


if __name__ == "__main__":
    main()
