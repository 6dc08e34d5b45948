#!/usr/bin/env bash
# Proves that nothing acknowledged is lost where enough copies live, with kills at the worst
# moments: of who gives and of who is given chunks while the sky turns, and of one while a put is
# under way; and that satellites whose clocks are apart serve what they hold while the sky turns.
. "$(dirname "$0")/common.sh"
have_satellites
scenario=$work/sky.yaml
store=sky+udp:$scenario
slots=9

port=$(tools/free-ports 30)
# sky ROTATION_S GROUND_MBPS [FAULTS]
sky() {
    cat >"$scenario" <<YAML
constellation: {planes: 3, slots: $slots, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3], replicas: 2}
chunk: 6KiB
satellite: {memory: 16MiB, processing_ms: 0.02, repair_s: 0.2}
links: {isl_gbps: 1, ground_mbps: $2}
time: {start: 2026-01-01T00:00:00Z, rotation_s: $1}
lookup: binary
udp: {base: 127.0.0.1:$port, key: sky.key, tenant: tenant.key}
${3-}
YAML
}

# read_all WHEN CODES: each value of $values comes whole, or the get exits with one of these codes.
read_all() {
    local i code
    for i in $values; do
        for _ in $(seq 60); do # where none answers for want of processor time
            code=0
            timeout 600 "$skymem" get "key.$i" -o "$work/got" --store "$store" \
                >"$work/out" 2>"$work/err" ||
                code=$?
            [ $code = 4 ] && [[ " $2 " != *" 4 "* ]] || break
            sleep 1
        done
        if [ $code = 0 ]; then
            cmp -s "$work/value.$i" "$work/got" || fail "$1: key.$i is not what it was"
        else
            [[ " $2 " = *" $code "* ]] || fail "$1: key.$i: exit $code: $(cat "$work/err")"
        fi
    done
}

# revive COUNT: what died starts empty; until so many chunks are held again.
revive() {
    expect 0 "$skymem" constellation up "$scenario"
    await_chunks "$1"
}

# slay_at_turn WHO AFTER_S: at the next turn of the sky, and so much later, a satellite of the
# column that the window leaves or of the one it enters. The window turns towards lower slots.
slay_at_turn() {
    "$skymem" constellation status "$scenario" --json >"$work/status"
    python3 - "$work/status" "$slots" "$rotation_s" "$1" "$2" <<'PYTHON' || fail "none was killed"
import calendar, json, os, signal, sys, time
slots, rotation_s, who = int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
after_s = float(sys.argv[5])
start = calendar.timegm((2026, 1, 1, 0, 0, 0))
turns = int((time.time() - start) // rotation_s)
overhead = ((slots + 1) // 2 - turns) % slots
slot = {"leaves": overhead + 1, "enters": overhead - 2}[who]
rows = {(s["plane"], (s["slot"] - 1) % slots): s for s in json.load(open(sys.argv[1]))["list"]}
victim = rows[2, (slot - 1) % slots]
time.sleep(max(0, start + (turns + 1) * rotation_s + after_s - time.time()))
os.kill(victim["pid"], signal.SIGKILL)
print("killed", victim["plane"], victim["slot"], "which held", victim["chunks"])
PYTHON
}

rotation_s=5
sky $rotation_s 2000
values="1 2 3 4 5 6"
expect 0 "$skymem" constellation up "$scenario"
for i in $values; do
    head -c $((i * 40000)) /dev/urandom >"$work/value.$i"
    patient 0 "$skymem" put "key.$i" "$work/value.$i" --store "$store"
done
whole=$(chunks)
for moment in "leaves 0" "leaves 0.01" "leaves 0.05" "enters 0" "enters 0.01" "enters 0.05"; do
    # shellcheck disable=SC2086
    slay_at_turn $moment
    read_all "killed: $moment" 4
    revive "$whole"
done
read_all "after kills at turns" ""
expect 0 "$skymem" constellation down "$scenario"

# A put takes a second and a half; at half a second one that it fills is killed. A put that was over
# before, as this script got no processor time, does not count.
sky 100000 20
expect 0 "$skymem" constellation up "$scenario"
values=1
head -c 1500000 /dev/urandom >"$work/value.1"
patient 0 "$skymem" put key.1 "$work/value.1" --store "$store"
whole=$(chunks)
acknowledged=0 kills=0
for _ in $(seq 30); do
    [ $kills -lt 3 ] || break
    "$skymem" constellation status "$scenario" --json >"$work/status"
    victim=$(python3 -c 'import json, sys
rows = [s for s in json.load(open(sys.argv[1]))["list"] if s["chunks"] > 0]
print(rows[int(sys.argv[2]) * 2]["pid"])' "$work/status" $((kills + 1)))
    head -c 1500000 /dev/urandom >"$work/next"
    "$skymem" put key.1 "$work/next" --store "$store" >"$work/out" 2>"$work/err" &
    put=$!
    sleep 0.5
    if kill -0 $put 2>/dev/null; then
        kill -9 "$victim"
        kills=$((kills + 1))
        killed=1
    else
        killed=0
    fi
    code=0
    wait $put || code=$?
    patient 0 "$skymem" get key.1 -o "$work/got" --store "$store"
    if [ $code = 0 ]; then
        acknowledged=$((acknowledged + killed))
        cmp -s "$work/next" "$work/got" || fail "an acknowledged put is not what is read"
    else
        [ $code = 1 ] || fail "a put with a kill: exit $code: $(cat "$work/err")"
        cmp -s "$work/next" "$work/got" || cmp -s "$work/value.1" "$work/got" ||
            fail "neither the value before nor the one that was put"
    fi
    cp "$work/got" "$work/value.1"
    revive "$whole"
    read_all "revived" ""
done
[ $kills = 3 ] || fail "only $kills puts were under way at the kill"
[ $acknowledged -gt 0 ] || fail "no put did without the satellite that was killed"
expect 0 "$skymem" constellation down "$scenario"

# Clocks apart: each satellite is early or late by up to 0.3 s, its neighbours by something else.
cat >"$work/clock.c" <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long skew_ms = -1000000;
static long own_skew_ms(void) { /* from the arguments: --satellite PLANE,SLOT */
    char text[4096] = "";
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t bytes = f ? fread(text, 1, sizeof text - 1, f) : 0;
    unsigned plane, slot;
    if (f)
        fclose(f);
    for (size_t i = 0; i < bytes; i += strlen(text + i) + 1)
        if (sscanf(text + i, "%u,%u", &plane, &slot) == 2)
            return (long)(plane * 5 + slot * 7) % 13 * 50 - 300;
    return 0;
}
int clock_gettime(clockid_t id, struct timespec *t) {
    int failed = (int)syscall(SYS_clock_gettime, id, t);
    if (id != CLOCK_REALTIME)
        return failed;
    if (skew_ms == -1000000)
        skew_ms = own_skew_ms();
    long long ns = t->tv_sec * 1000000000LL + t->tv_nsec + skew_ms * 1000000LL;
    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
    return failed;
}
C
if [[ ! $(ldd "$skymem") =~ lib[at]san ]] && # they must be loaded first
    cc -shared -fPIC -o "$work/clock.so" "$work/clock.c"; then
    sky 2 2000 "faults: {skew_ms: 300}"
    expect 0 env LD_PRELOAD="$work/clock.so" "$skymem" constellation up "$scenario"
    sleep 1 # what was sent before the latest of them started is refused there
    values="1 2 3 4"
    for round in 1 2 3 4; do
        for i in $values; do
            head -c $((i * 40000)) /dev/urandom >"$work/value.$i"
            patient 0 "$skymem" put "key.$i" "$work/value.$i" --store "$store"
        done
        read_all "clocks apart, round $round" ""
        sleep 2
        read_all "clocks apart, turned" ""
    done
    expect 0 "$skymem" constellation down "$scenario"
fi
finish
