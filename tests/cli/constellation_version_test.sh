#!/usr/bin/env bash
# Proves that of processes that change one version of a key over real satellites one wins, also
# while the sky turns; that the others exit 1 and say which version is stored; and that a tier
# without versions says that it has none.
. "$(dirname "$0")/common.sh"
have_satellites
scenario=$work/sky.yaml
store=sky+udp:$scenario
cat >"$scenario" <<YAML
constellation: {planes: 3, slots: 7, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3], replicas: 2}
chunk: 6KiB
satellite: {memory: 16MiB, processing_ms: 0.02, repair_s: 0.5}
links: {isl_gbps: 10, ground_mbps: 2000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 8}
lookup: binary
udp: {base: 127.0.0.1:$(tools/free-ports 30), key: sky.key, tenant: tenant.key}
YAML
racers=4
for i in $(seq $racers); do
    head -c $((i * 7000)) /dev/urandom >"$work/value.$i"
done
expect 0 "$skymem" constellation up "$scenario"

# race VERSION: each racer puts its own value over it. $won is the version of the one that did, and
# $winner its number. A satellite that has just taken over may not decide yet: then all try again.
race() {
    won='' winner=''
    for _ in $(seq 10); do
        local jobs=()
        for i in $(seq $racers); do
            "$skymem" put key "$work/value.$i" --if-version "$1" --json --store "$store" \
                >"$work/out.$i" 2>"$work/err.$i" &
            jobs+=($!)
        done
        local wins=0 unsure=0
        for i in $(seq $racers); do
            local code=0
            wait "${jobs[$((i - 1))]}" || code=$?
            case $code in
            0) wins=$((wins + 1)) winner=$i
                won=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["version"])' "$work/out.$i") ;;
            1) grep -q "key: version [0-9]* is stored, so nothing was changed" "$work/err.$i" ||
                fail "a loser says $(cat "$work/err.$i")" ;;
            4) unsure=$((unsure + 1)) ;;
            *) fail "a racer exits $code: $(cat "$work/err.$i")" ;;
            esac
        done
        [ "$wins" -le 1 ] || fail "$wins of $racers won version $1"
        [ "$wins" = 0 ] || return 0
        [ "$unsure" -gt 0 ] || fail "nobody won version $1, and nobody says why"
    done
    fail "nobody won version $1"
}

race none
for _ in $(seq 8); do
    expect 0 "$skymem" get key -o "$work/got" --json --store "$store"
    holds "o['version'] == $won"
    cmp -s "$work/value.$winner" "$work/got" || fail "what is stored is not the winner's"
    race "$won"
done
expect 0 "$skymem" stat key --json --store "$store"
holds "o['version'] == $won"
expect 1 "$skymem" rm key --if-version $((won - 1)) --store "$store"
says "key: version $won is stored, so nothing was changed"
expect 0 "$skymem" rm key --if-version "$won" --store "$store"
expect 3 "$skymem" get key --store "$store"
expect 1 "$skymem" rm key --if-version "$won" --store "$store"
says "key: nothing is stored, so nothing was changed"

# Tiers without versions, and words that are none.
expect 1 "$skymem" put key "$work/value.1" --if-version none --store "disk:$work/disk"
says "--if-version: no tier here keeps versions"
expect 0 "$skymem" put key "$work/value.1" --store "disk:$work/disk"
expect 0 "$skymem" put key "$work/value.2" --if-version none --store "disk:$work/disk" \
    --store "$store"
expect 0 "$skymem" get key -o "$work/got" --store "disk:$work/disk" --store "$store"
cmp -s "$work/value.2" "$work/got" || fail "a nearer tier keeps what was there before"
for word in 0 -1 x 18446744073709551615 99999999999999999999 ''; do
    expect 2 "$skymem" put key "$work/value.1" --if-version "$word" --store "$store"
done
expect 2 "$skymem" put --as block "$(printf '%064d' 1)" "$work/value.1" --if-version none \
    --store "$store"
expect 0 "$skymem" constellation down "$scenario"
finish
