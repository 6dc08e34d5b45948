#!/usr/bin/env bash
# Proves the three printers of the table of metrics, each of a hierarchy of mem, disk and sky:
# text for people, JSON, and Prometheus's text as its parser reads it; skymemd's; and SKYMEM_TRACE.
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")

# prometheus FILE: it is sound.
prometheus() {
    python3 "$here/prometheus_check.py" "$1" >"$work/said" 2>&1 || fail "$1: $(cat "$work/said")"
}

prometheus tests/golden/prometheus.txt

# The checker itself: each of these is no such text.
head='# HELP skymem_a_total A.\n# TYPE skymem_a_total counter\n'
histogram='# HELP a_seconds A.\n# TYPE a_seconds histogram\na_seconds_bucket{le="0.5"} 2\n'
for wrong in 'skymem_a_total 1\n' "${head}skymem_a_total 1" "${head}skymem_a_total one\n" \
    "${head}skymem_a_total 1\nskymem_a_total 1\n" "${head}skymem_a_total{b=\"\"c\"} 1\n" \
    "${head}skymem_a_total 1\n# HELP b B.\n# TYPE b gauge\nb 1\n${head}" \
    '# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n' \
    "${histogram}a_seconds_bucket{le=\"+Inf\"} 1\na_seconds_sum 1\na_seconds_count 1\n" \
    "${histogram}a_seconds_bucket{le=\"+Inf\"} 3\na_seconds_sum 1\na_seconds_count 2\n" \
    "${histogram}a_seconds_sum 1\na_seconds_count 2\n"; do
    printf '%b' "$wrong" >"$work/wrong"
    python3 "$here/prometheus_check.py" "$work/wrong" >/dev/null 2>&1 &&
        fail "taken for sound: $wrong"
done

sed 's/^until:.*//' scenarios/constellation.yaml >"$work/sky.yaml"
(umask 077 && python3 -c 'import secrets; print(secrets.token_hex(32))' >"$work/sky.key")
stores=(--store mem:4MiB --store "disk:$work/disk?max=64MiB" --store "sky:$work/sky.yaml")

expect 0 "$skymem" put greeting README.md "${stores[@]}"
expect 0 "$skymem" stat "${stores[@]}" --prometheus
cp "$work/out" "$work/text"
prometheus "$work/text"
for line in 'skymem_tier_entries{tier="1",kind="disk"} 1' \
    'skymem_session_puts_total{tier="2",kind="sky"} 0' \
    'skymem_transport_dropped_datagrams_total{tier="2",kind="sky",reason="forged"} 0' \
    "skymem_tier_info{tier=\"1\",kind=\"disk\",where=\"$work/disk\"} 1"; do
    grep -qxF "$line" "$work/text" || fail "no line $line"
done
! grep -q 'max=64MiB' "$work/text" || fail "the query of a URL is shown"
expect 0 "$skymem" stat "${stores[@]}" --json
holds '[t["name"] for t in o["tiers"]] == ["mem", "disk", "sky"] and o["cache"]["hits"] == 0'
holds 'all(t["bytes_max"] > 0 and t["queued"] == 0 and not t["failing"] for t in o["tiers"])'
holds '"session" not in o["tiers"][1] and o["tiers"][2]["session"]["retries"] == 0'
holds 'o["tiers"][2]["transport"]["datagrams_sent"] == 0'
expect 0 "$skymem" stat "${stores[@]}" --all
grep -q '^TIER  COUNTED' "$work/out" || fail "no list of numbers: $(cat "$work/out")"

expect 2 "$skymem" stat key "${stores[@]}" --prometheus
says "--prometheus: without KEY"
expect 2 "$skymem" stat "${stores[@]}" --prometheus --satellites
expect 2 "$skymem" stat "${stores[@]}" --prometheus --all
says "--all: without"

# A trace is of one process, and a warning says why there is none.
expect 0 env SKYMEM_TRACE="$work/trace" "$skymem" get greeting "${stores[@]}" -o "$work/value"
python3 "$here/trace_check.py" "$work/trace" get 'submit get' 'mem get' 'disk get' \
    >"$work/said" 2>&1 || fail "a trace: $(cat "$work/said")"
event='"cat":"t","pid":1,"tid":1,"args":{"request":0}'
for wrong in '[' '{}' "[{\"name\":\"a\",\"ph\":\"b\",\"id\":\"1\",\"ts\":1,$event}]" \
    "[{\"name\":\"a\",\"ph\":\"e\",\"id\":\"1\",\"ts\":1,$event}]" \
    "[{\"name\":\"a\",\"ph\":\"X\",\"ts\":1,\"dur\":5,$event},
      {\"name\":\"b\",\"ph\":\"X\",\"ts\":2,\"dur\":9,$event}]"; do
    echo "$wrong" >"$work/wrong"
    python3 "$here/trace_check.py" "$work/wrong" >/dev/null 2>&1 && fail "taken for a trace: $wrong"
done
ln -s "$work/trace" "$work/link"
expect 0 env SKYMEM_TRACE="$work/link" "$skymem" get greeting "${stores[@]}" -o "$work/value"
says "SKYMEM_TRACE=$work/link: it is a link"

# A daemon's are those of its own process.
start_daemon --socket "$work/d.sock" "${stores[@]}"
expect 0 "$skymem" stat --store "shm:$work/d.sock" --prometheus
cp "$work/out" "$work/text"
prometheus "$work/text"
grep -qxF 'skymem_tier_entries{tier="2",kind="sky"} 0' "$work/text" || fail "the daemon has no sky"
expect 0 "$skymem" stat --store "shm:$work/d.sock" --json
holds '"prometheus" not in o and o["cache"]["misses"] == 0 and o["tiers"][1]["write_backs"] == 0'
expect 0 "$skymem" stat --store "shm:$work/d.sock" --all
grep -q '^tier 0: bytes_max ' "$work/out" || fail "no numbers of tiers: $(cat "$work/out")"
kill -TERM "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"
finish
