#!/usr/bin/env bash
# Proves that `skymem locate` gives the layouts and moves of tests/golden/placement.txt (the paper's
# figures among them), and a usage error for what cannot be.
. "$(dirname "$0")/common.sh"

python3 - "$skymem" tests/golden/placement.txt <<'PYTHON' || fail "see above"
import json, subprocess, sys

skymem, path = sys.argv[1:]
checked = wrong = 0


def slot_plane(satellite):
    return f'{satellite["slot"]},{satellite["plane"]}'


def told(kind, answer):
    if kind == "layout":
        return " ".join(slot_plane(s) for s in answer["servers"])
    if kind == "window":
        return f'{answer["window"]["planes"]}x{answer["window"]["slots"]}'
    return " ".join(f'{m["server"]}:{slot_plane(m["from"])}>{slot_plane(m["to"])}'
                    for m in answer["moves"])


for number, line in enumerate(open(path, encoding="utf-8"), 1):
    if not line.strip() or line.startswith("#"):
        continue
    left, _, wanted = line.partition("=")
    kind, planes, slots, centre, strategy, servers, window, weights, shift = left.split()
    slot, plane = centre.split(",")
    command = [skymem, "locate", "--json", "--planes", planes, "--slots", slots,
               "--center", f"{plane},{slot}", "--servers", servers, "--strategy", strategy,
               "--shift", shift]
    command += [] if window == "auto" else ["--window", window]
    command += [] if weights == "0,0" else ["--weights", weights]
    ran = subprocess.run(command, capture_output=True, text=True)
    checked += 1
    if kind == "reject":
        good = ran.returncode == json.loads(ran.stdout)["exit"] == 2
        good = good and ran.stderr.count("\n") == 1
        got = ran.stderr
    else:
        got = told(kind, json.loads(ran.stdout)) if ran.returncode == 0 else ran.stderr
        good = got.split() == wanted.split()
    if not good:
        wrong += 1
        print(f"{path}:{number}: {line.strip()}\n  got {got}")
print(f"{checked} cases, {wrong} wrong")
sys.exit(wrong != 0 or checked < 20)
PYTHON

sky=(--planes 5 --slots 19 --center 3,4 --servers 9)
expect 0 "$skymem" locate "${sky[@]}" --strategy rotation-hop --shift 1 --chunks 11 --json
holds 'o["strategy"] == "rotation-hop" and o["window"] == {"planes": 3, "slots": 3}'
holds '[m["server"] for m in o["moves"]] == [3, 6, 8]'
holds 'o["chunks"][9] == {"chunk": 10, "server": 1, "plane": 3, "slot": 4}'
holds 'len(o["chunks"]) == 11'
expect 0 "$skymem" locate "${sky[@]}" --strategy hop --json
holds 'o["moves"] == []'
expect 0 "$skymem" locate "${sky[@]}" --strategy rotation
grep -q '\[5\]' "$work/out" || fail "the drawing lacks the centre: $(cat "$work/out")"
expect 2 "$skymem" locate --planes 5 --slots 19 --center 3,4 --servers 96 --strategy hop
says "95"
expect 2 "$skymem" locate "${sky[@]}" --strategy rotation --window 2x3
expect 2 "$skymem" locate "${sky[@]}" --strategy rotation --weights 1,2
says "hop and rotation-hop"
expect 0 "$skymem" locate "${sky[@]}" --strategy hop --window 3x3
says "hop has no window"
expect 0 "$skymem" locate "${sky[@]}" --strategy predictive --json
says "predictive places each block by its expected use; these places are those of a use now"
expect 2 "$skymem" locate "${sky[@]}" --strategy rotation --window 3
expect 2 "$skymem" locate "${sky[@]}" --strategy rotation --window 7x7
expect 2 "$skymem" locate --planes 5 --slots 19 --center 6,4 --servers 9 --strategy hop
says "--center 6,4"
expect 2 "$skymem" locate --planes 0 --slots 19 --center 3,4 --servers 9 --strategy hop
expect 2 "$skymem" locate "${sky[@]}" --strategy spiral
expect 2 "$skymem" locate --planes 5
expect 1 "$skymem" locate --scenario "$work/absent.yaml"
expect 0 "$skymem" locate --scenario scenarios/demo-rotation-hop.yaml --json
holds 'o["strategy"] == "rotation-hop" and len(o["servers"]) > 1'
expect 0 "$skymem" locate --planes 5 --slots 19 --center 3,4 --servers 1 --strategy rotation
grep -q "^rotation, 1 server in a window of 1 plane x 1 slot;" "$work/out" ||
    fail "one server: $(head -1 "$work/out")"
# a KEY is looked for in a sky, and not computed
expect 2 "$skymem" locate key --store mem:1MiB
says "name one with --store sky+udp:FILE"
expect 3 "$skymem" locate key --store sky:scenarios/seed.yaml
says "key: not found in any tier"
expect 2 "$skymem" locate key --planes 5 --store sky:scenarios/seed.yaml
says "locate KEY has no use for --planes"

# In a physical sky orbits say who is overhead: there is a layout around a satellite, no rotation.
expect 2 "$skymem" locate --scenario scenarios/physical.yaml
says "orbits say who is overhead"
expect 2 "$skymem" locate --scenario scenarios/physical.yaml --center 3,4 --shift 1
says "orbits say who is overhead"
expect 0 "$skymem" locate --scenario scenarios/physical.yaml --center 3,4 --json
holds 'o["servers"][0] == {"server": 1, "plane": 3, "slot": 4} and len(o["servers"]) == 25'
finish
