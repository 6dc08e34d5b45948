#!/usr/bin/env bash
# Proves what a verb says besides its answer: notes that --quiet takes away, colour as --color and
# NO_COLOR say, the library's log as --verbose and SKYMEM_LOG say, and the version.
. "$(dirname "$0")/common.sh"
store=(--store mem:1MiB --store "disk:$work/disk")
echo value >"$work/value"

# notes: --quiet keeps the answer and what failed
expect 0 "$skymem" put k "$work/value" --store mem:1MiB
says "gone with it"
expect 0 "$skymem" put k "$work/value" --store mem:1MiB -q
[ ! -s "$work/err" ] || fail "--quiet says: $(cat "$work/err")"
grep -q "^k: 6 B in mem$" "$work/out" || fail "--quiet took the answer: $(cat "$work/out")"
expect 3 "$skymem" get nothing "${store[@]}" --store "disk:$work/other?create=yes" --quiet
says "nothing: not found in any tier"
expect 2 "$skymem" ls -q -v
says "--quiet and --verbose exclude each other"

# colour: never in a file unless asked for, and on a terminal unless refused
expect 0 "$skymem" put k "$work/value" "${store[@]}"
bold=$'\033[1m'
expect 0 "$skymem" stat "${store[@]}"
! grep -qF "$bold" "$work/out" || fail "bold type in a file"
expect 0 "$skymem" stat "${store[@]}" --color always
grep -qF "$bold" "$work/out" || fail "--color always has no bold type"
export TERM=xterm
on_terminal "$skymem" stat "${store[@]}"
grep -qF "$bold" "$work/screen" || fail "no bold type on a terminal: $(cat "$work/screen")"
for refused in "env NO_COLOR=1 $skymem stat" "env TERM=dumb $skymem stat" \
    "$skymem stat --color never"; do
    on_terminal $refused "${store[@]}"
    grep -q '^TIER ' "$work/screen" || fail "no table: $refused"
    ! grep -qF "$bold" "$work/screen" || fail "bold type all the same: $refused"
done
expect 2 "$skymem" stat --color sometimes
says "--color sometimes: must be one of: auto|always|never"

# the log: none by default, on standard error or in a file, of the level asked for
expect 0 "$skymem" get k "${store[@]}"
[ ! -s "$work/err" ] || fail "a log without being asked: $(cat "$work/err")"
expect 0 "$skymem" get k "${store[@]}" -v
grep -q "^skymem: info: opened disk:$work/disk.* as tier 1$" "$work/err" ||
    fail "-v does not tell of the tiers: $(cat "$work/err")"
! grep -q "debug" "$work/err" || fail "-v tells too much"
expect 0 env SKYMEM_LOG=debug "$skymem" get k "${store[@]}"
grep -Eq "^skymem: debug: tier 1: get of 1 keys: 1 ok, .* ms$" "$work/err" ||
    fail "SKYMEM_LOG=debug does not tell of requests: $(cat "$work/err")"
expect 0 env SKYMEM_LOG="info,$work/log" "$skymem" get k "${store[@]}"
expect 0 env SKYMEM_LOG="info,$work/log" "$skymem" ls "${store[@]}"
[ ! -s "$work/err" ] || fail "the log went to standard error: $(cat "$work/err")"
[ "$(grep -c "info: opened disk:" "$work/log")" = 2 ] || fail "log file: $(cat "$work/log")"
grep -Eq '^[0-9-]{10}T[0-9:.]{12}Z \[[0-9]+\] info: ' "$work/log" || fail "log lines lack the time"
expect 0 env SKYMEM_LOG=everything "$skymem" ls "${store[@]}"
says "SKYMEM_LOG=everything: must be error, warning, info or debug"
expect 0 env SKYMEM_LOG="info,$work/no/such/log" "$skymem" get k "${store[@]}"
grep -q "SKYMEM_LOG=info,.*No such file" "$work/err" || fail "a log that cannot be opened"

# what a message or a table repeats of somebody's words neither breaks a line nor steers a terminal
for words in "ls --store" "stat --store" ""; do
    expect 2 "$skymem" $words $'none\n\e[2J\xff:a'
    says 'none\x0a\x1b[2J\xff'
done
expect 0 "$skymem" put k "$work/value" --store "disk:$work/"$'odd\e[2J'
expect 0 "$skymem" stat --store "disk:$work/"$'odd\e[2J'
grep -qF '/odd\x1b[2J' "$work/out" || fail "a table shows a raw URL: $(cat -v "$work/out")"

# … and JSON stays JSON, whatever bytes a path has
odd=$work/$'a"\n\xff'
mkdir -m 700 "$odd" "$work/run"
cat >"$odd/s.yaml" <<YAML
constellation: {planes: 1, slots: 1}
placement: {strategy: rotation-hop, servers: 1}
udp: {base: 127.0.0.1:7600, key: sky.key}
YAML
expect 0 env XDG_RUNTIME_DIR="$work/run" "$skymem" constellation down "$odd/s.yaml" --json
holds 'o["scenario"].endswith("/a\"\\x0a\\xff/s.yaml") and o["stopped"] == 0'
expect 1 env XDG_RUNTIME_DIR="$work/run" "$skymem" constellation status "$odd/s.yaml" --json
holds 'o["scenario"].endswith("/a\"\\x0a\\xff/s.yaml") and o["running"] == 0'
expect 0 "$skymem" orbit czml --shell starlink-a --hours 0.1 -o "$odd/sky.czml" --json
holds 'o["file"].endswith("/a\"\\x0a\\xff/sky.czml")'
calibration=$(ls share/calibration/*.skycal | head -n 1)
expect 0 "$skymem" calibrate --from "$calibration" -o "$odd/c.skycal" --json
holds 'o["file"].endswith("/a\"\\x0a\\xff/c.skycal")'

# a wrong setting comes before a key file that is not there yet
cp scenarios/constellation.yaml "$work/never.yaml"
expect 2 "$skymem" stat --store "sky+udp:$work/never.yaml?speed=1"
says "unknown setting 'speed'"
expect 1 "$skymem" stat --store "sky+udp:$work/never.yaml"
says "makes the keys and starts the satellites"

# the version, with or without a verb
version=$("$skymem" --version)
for words in -V "ls -V" "run --version" "put --version k"; do
    expect 0 "$skymem" $words
    [ "$(cat "$work/out")" = "$version" ] || fail "$words: $(cat "$work/out")"
done
expect 0 "$skymem" orbit --help
for option in --quiet --verbose --color --version; do
    grep -q -- "$option" "$work/out" || fail "--help does not tell of $option"
done
finish
