#!/usr/bin/env bash
# Proves that a satellite that stands still is called slow, and not dead, and answers late; and that
# what is there is never said to be absent: not while satellites stand still, whether their chunks
# have no copy or parity makes up for them, and not while migration is behind the rotation. What was
# only late is read afterwards.
. "$(dirname "$0")/common.sh"
have_satellites
scenario=$work/sky.yaml
store=sky+udp:$scenario
values=8

port=$(tools/free-ports 40)
# sky RULE ROTATION_S
sky() {
    cat >"$scenario" <<YAML
constellation: {planes: 5, slots: 7, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3], $1}
chunk: 6KiB
satellite: {memory: 16MiB, processing_ms: 0.02}
links: {isl_gbps: 10, ground_mbps: 2000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: $2}
lookup: binary
udp: {base: 127.0.0.1:$port, key: sky.key, tenant: tenant.key}
YAML
    expect 0 "$skymem" constellation up "$scenario"
}

# put_all BYTES
put_all() {
    for i in $(seq $values); do
        head -c "$1" /dev/urandom >"$work/value.$i"
        patient 0 "$skymem" put "key.$i" "$work/value.$i" --store "$store"
    done
}

# most COUNT: the processes of as many satellites that hold most chunks.
most() {
    "$skymem" constellation status "$scenario" --json | python3 -c 'import json, sys
rows = sorted(json.load(sys.stdin)["list"], key=lambda s: -s["chunks"])
print(*[s["pid"] for s in rows[:int(sys.argv[1])]])' "$1"
}

# read_all WHEN CODES: each value comes whole, or the get exits with one of these codes. $whole is
# how many came.
read_all() {
    whole=0
    for i in $(seq $values); do
        local code=0
        timeout 600 "$skymem" get "key.$i" -o "$work/got" --store "$store" \
            >"$work/out" 2>"$work/err" ||
            code=$?
        if [ $code = 0 ]; then
            cmp -s "$work/value.$i" "$work/got" || fail "$1: key.$i is not what it was"
            whole=$((whole + 1))
        else
            [[ " $2 " = *" $code "* ]] || fail "$1: key.$i: exit $code: $(cat "$work/err")"
        fi
    done
}

# all_come WHEN: within half a minute each value comes whole.
all_come() {
    for _ in $(seq 15); do
        read_all "$1" 4
        [ $whole -lt $values ] || return 0
        sleep 1
    done
    fail "$1: $whole of $values values came"
}

sky "replicas: 1" 100000
put_all 60000 # each has a chunk on every server
still=$(most 1)
kill -STOP "$still"
read_all "one stands still" 4
[ $whole -lt $values ] || fail "no value needed the satellite that stood still"
expect 0 "$skymem" constellation status "$scenario" --timeout 1 --json
holds 'o["running"] == 35 and o["slow"] >= 1'
holds "[s['slow'] for s in o['list'] if s['pid'] == $still] == [True]"
expect 0 "$skymem" constellation status "$scenario" --timeout 0.2
grep -q "^35 of 35 satellites run, .* slow; " "$work/out" || fail "status: $(cat "$work/out")"
expect 0 "$skymem" stat --satellites --timeout 0.2 --store "$store"
grep -qE "^sky\+udp [0-9],[0-9] +slow" "$work/out" || fail "stat: $(cat "$work/out")"
(
    sleep 4
    kill -CONT "$still"
) &
expect 0 "$skymem" stat --satellites --store "$store" --json
holds 'all(s["answered"] and not s["slow"] for s in o["satellites"])'
wait
all_come "it moves again"
expect 3 "$skymem" get never --store "$store"
expect 0 "$skymem" constellation down "$scenario"

sky "parity: 3" 100000
put_all 60000
still=$(most 3)
# shellcheck disable=SC2086
kill -STOP $still
read_all "three of a stripe with parity 3 stand still" ""
# shellcheck disable=SC2086
kill -CONT $still
expect 0 "$skymem" constellation down "$scenario"

# hold_left: the satellites of the column that the window leaves next stand still from the turn on;
# $still are their processes. The window turns towards lower slots.
hold_left() {
    "$skymem" constellation status "$scenario" --json >"$work/status"
    still=$(python3 - "$work/status" 7 4 <<'PYTHON'
import calendar, json, os, signal, sys, time
slots, rotation_s = int(sys.argv[2]), float(sys.argv[3])
start = calendar.timegm((2026, 1, 1, 0, 0, 0))
turns = int((time.time() - start) // rotation_s)
slot = ((slots + 1) // 2 - turns + 1 - 1) % slots + 1
column = [s["pid"] for s in json.load(open(sys.argv[1]))["list"]
          if s["slot"] == slot and 2 <= s["plane"] <= 4]
time.sleep(max(0, start + (turns + 1) * rotation_s - 0.2 - time.time()))
for pid in column:
    os.kill(pid, signal.SIGSTOP)
time.sleep(0.4)
print(*column)
PYTHON
)
}

# The sky turns, and who has a third of the chunks hands none over: who should have them answers
# that they are not there.
sky "replicas: 1" 4
put_all 250000
for _ in 1 2 3; do
    hold_left
    read_all "migration is behind" 4
    # shellcheck disable=SC2086
    kill -CONT $still
    all_come "migration is behind"
done
expect 0 "$skymem" constellation down "$scenario"
finish
