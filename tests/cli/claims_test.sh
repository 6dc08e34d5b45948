#!/usr/bin/env bash
# Proves, on real weights, what `skymem eval --claims` measured of CacheGen's claims: symbols
# grouped by layer and channel take at least a sixth fewer bits, but its tables cost more than that;
# and differences to an anchor take more bits, not fewer. Two models, if both were fetched: one head
# for K and V and windows, two heads and none. 256 tokens: the claims are of rows, not of answers.
. "$(dirname "$0")/common.sh"
need_model
for weights in "$model" "$(cat "$build/model-qwen2.5-coder-0.5b.path" 2>/dev/null)"; do
    [ -r "$weights" ] || continue
    expect 0 "$skymem" eval --model "$weights" --weights file --claims --continue 1 --prefix 256 \
        --threads 1 --text share/texts/prose.txt --json
    # whole: one distribution for all
    lines_hold 'rows[-1]["claim"] == "groups"'
    lines_hold 'rows[-1]["by_channel"] < 5 / 6 * rows[-1]["whole"]'
    lines_hold 'rows[-1]["by_layer"] < rows[-1]["whole"] < rows[-1]["by_channel_with_tables"]'
    for kind in '"V", "as stored"' '"K", "as stored"' '"K", "rope undone"'; do
        lines_hold "(lambda of: len(of) >= 18 and
            sum(r['anchor'] - r['none'] for r in of) / len(of) > 0.1 and
            sum(r['anchor'] < r['none'] for r in of) <= len(of) / 9)(
            [r for r in rows if r['claim'] == 'delta' and (r['kv'], r['rows']) == ($kind)])"
    done
done
finish
