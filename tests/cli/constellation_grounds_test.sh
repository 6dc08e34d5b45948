#!/usr/bin/env bash
# Proves that two ground processes over real satellites agree: what one puts the other reads at its
# next get, though it had put or read the same name before and goes on for long; also after the sky
# has turned; and that a name of which the satellites do not answer is unavailable, not absent.
. "$(dirname "$0")/common.sh"
have_satellites
scenario=$work/sky.yaml
cat >"$scenario" <<YAML
constellation: {planes: 5, slots: 7, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3]}
chunk: 6KiB
satellite: {memory: 16MiB, processing_ms: 0.02}
links: {isl_gbps: 10, ground_mbps: 2000, loss: 0.001, jitter_ms: 0.1}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 4}
lookup: binary
udp: {base: 127.0.0.1:$(tools/free-ports 100), key: sky.key, tenant: tenant.key}
YAML
link_with_build "$work/talk" tests/cli/ground_talk.c ||
    { echo "skipped: the library cannot be linked with here"; exit 77; }
expect 0 "$skymem" constellation up "$scenario"
mkfifo "$work/in1" "$work/out1" "$work/in2" "$work/out2"
"$work/talk" "sky+udp:$scenario" <"$work/in1" >"$work/out1" &
"$work/talk" "sky+udp:$scenario" <"$work/in2" >"$work/out2" &
exec 8>"$work/in1" 7<"$work/out1" 6>"$work/in2" 5<"$work/out2"

# tell IN OUT WANTED LINE: what a ground answers to a line.
tell() {
    local said
    echo "$4" >&"$2"
    read -r -t 30 said <&"$1" || said="nothing"
    [ "$said" = "$3" ] || fail "ground $1: \"$4\" came to \"$said\" instead of \"$3\""
}
for round in 1 2 3; do
    tell 7 8 "ok $((1000 * round))" "put name $((1000 * round))"
    tell 5 6 "ok $((1000 * round))" "get name 0"
    tell 5 6 "ok $((70000 + round))" "put name $((70000 + round))"
    tell 7 8 "ok $((70000 + round))" "has name 0"
    tell 7 8 "ok $((70000 + round))" "get name 0"
    tell 5 6 "ok $((70000 + round))" "get name 0"
    sleep 4 # the sky turns
    tell 7 8 "ok $((70000 + round))" "get name 0"
done
expect 0 "$skymem" put name README.md --store "sky+udp:$scenario"
tell 7 8 "ok $(stat -c %s README.md)" "has name 0"
tell 5 6 "ok $(stat -c %s README.md)" "has name 0"
expect 0 "$skymem" rm name --store "sky+udp:$scenario"
tell 7 8 "SKY_MISS" "get name 0"
tell 5 6 "SKY_MISS" "has name 0"
expect 0 "$skymem" constellation down "$scenario"
tell 7 8 "SKY_E_UNAVAILABLE" "get name 0"
exec 6>&- 8>&-
wait
finish
