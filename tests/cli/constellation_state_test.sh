#!/usr/bin/env bash
# Proves that no satellite is ever lost: whatever ends `up` and whatever becomes of the scenario's
# file, each that runs is known, and `down` ends it and nobody else's process; and that who does not
# answer is told apart by cause.
. "$(dirname "$0")/common.sh"
have_satellites
port=$(tools/free-ports 100)
scenario=$work/c.yaml

# sky PLANES SLOTS [CHUNK]
sky() {
    cat >"$scenario" <<YAML
constellation: {planes: $1, slots: $2, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 3, window: [1, 3]}
chunk: ${3:-6KiB}
satellite: {memory: 16MiB, processing_ms: 0.02}
links: {isl_gbps: 10, ground_mbps: 1000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 3000}
lookup: binary
udp: {base: 127.0.0.1:$port, key: sky.key, tenant: tenant.key}
YAML
}

# ours: how many processes of this test's satellites there are.
ours() {
    cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -A 3 -x -e --satellite |
        grep -c -x -F "$scenario"
}

# dies EXPRESSION: kill the satellites `s` of which the Python expression is true.
dies() {
    expect 0 "$skymem" constellation status "$scenario" --json
    dying=$(python3 -c 'import json, sys
rows = json.load(open(sys.argv[1]))["list"]
print(*[s["pid"] for s in rows if s["pid"] and eval(sys.argv[2])])' "$work/out" "$1")
    kill -9 $dying
    for pid in $dying; do # a busy machine takes a while to end them
        until grep -qs ') [ZX]' "/proc/$pid/stat" || [ ! -e "/proc/$pid" ]; do sleep 0.01; done
    done
}

# nothing_left: no process, and no file that remembers one.
nothing_left() {
    [ "$(ours)" = 0 ] || fail "$1: $(ours) satellites are left"
    [ -z "$(ls "$XDG_RUNTIME_DIR/skymem")" ] || fail "$1: left $(ls "$XDG_RUNTIME_DIR/skymem")"
}

# A satellite that never says that it listens, so that `up` waits for it.
mkdir "$work/slow"
cp "$skymem" "$work/slow/skymem"
built=$(dirname "$skymem") # where the copy's libraries are: it would look beside itself
export LD_LIBRARY_PATH=$built:$built/llama${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
printf '#!/usr/bin/env python3\nimport time\ntime.sleep(60)\n' >"$work/slow/skymemd"
chmod +x "$work/slow/skymemd"

# end_up SIGNAL: start `up`, end it when some are started; its exit status is in $code.
end_up() {
    code=$(python3 - "$work/slow/skymem" "$scenario" "$1" "$work/err" <<'PYTHON'
import glob, os, signal, subprocess, sys, time
program, scenario, number, err = sys.argv[1:]
for s in (signal.SIGINT, signal.SIGTERM):
    signal.signal(s, signal.SIG_DFL)
up = subprocess.Popen([program, "constellation", "up", scenario], stderr=open(err, "w"))
until = time.time() + 20
while time.time() < until and up.poll() is None:
    state = glob.glob(os.environ["XDG_RUNTIME_DIR"] + "/skymem/constellation-????????????????")
    if state and len(open(state[0]).read().split("\n\n")) > 3:
        break
    time.sleep(0.001)
up.send_signal(getattr(signal, number))
print(up.wait(20))
PYTHON
)
}

# Before `up` there are no keys; what makes them is said.
sky 2 5
expect 1 "$skymem" put a LICENSE --store "sky+udp:$scenario"
says "sky.key: no such key file; 'skymem constellation up $scenario' makes the keys and starts"
# Who reads what the caller had open besides sees its end: satellites do not keep it.
"$skymem" constellation up "$scenario" 9>&1 >/dev/null 2>&1 | timeout 20 cat # makes the keys
[ "${PIPESTATUS[1]}" = 0 ] || fail "satellites hold a descriptor of who started them"
expect 0 "$skymem" constellation down "$scenario"
nothing_left "down"
for way in SIGINT:130:interrupted SIGTERM:143:terminated; do
    IFS=: read -r signal wanted word <<<"$way"
    end_up "$signal"
    [ "$code" = "$wanted" ] || fail "up: $signal: exit $code"
    grep -qE "constellation: $word: ended the [0-9]+ satellites? that this call had started$" \
        "$work/err" || fail "$signal: $(cat "$work/err")"
    [ "$(ours)" = 0 ] || fail "$signal: $(ours) satellites are left"
    expect 0 "$skymem" constellation down "$scenario" # takes the log away
    nothing_left "$signal"
done
end_up SIGKILL
[ "$code" = -9 ] || fail "up: SIGKILL: $code"
left=$(ours)
[ "$left" -ge 3 ] || fail "only $left satellites were started"
expect 0 "$skymem" constellation status "$scenario" --json
holds "o['running'] == $left"
expect 0 "$skymem" constellation down "$scenario" --json
holds "o['stopped'] == $left"
nothing_left "SIGKILL"

# Who has too few descriptors to look at processes neither starts one that is not remembered nor
# forgets those that run.
for limit in $(seq 4 20); do
    (ulimit -n "$limit" && exec "$skymem" constellation up "$scenario") 3>&- >/dev/null 2>&1
    expect 0 "$skymem" constellation down "$scenario"
    nothing_left "up with $limit descriptors"
done
expect 0 "$skymem" constellation up "$scenario"
(ulimit -n 4 && exec "$skymem" constellation down "$scenario") 3>&- >"$work/out" 2>"$work/err" &&
    fail "down without descriptors: $(cat "$work/out")"
says "/proc: Too many open files"
expect 0 "$skymem" constellation down "$scenario" --json
holds 'o["stopped"] == 10'
nothing_left "down without descriptors"

# What an interrupted `up` found running goes on.
expect 0 "$skymem" constellation up "$scenario"
dies "s['plane'] == 2"
python3 - "$work/slow/skymem" "$scenario" <<'PYTHON'
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_DFL)
up = subprocess.Popen([sys.argv[1], "constellation", "up", sys.argv[2]], stderr=subprocess.DEVNULL)
try:
    up.wait(1)
except subprocess.TimeoutExpired:
    up.send_signal(signal.SIGTERM)
    up.wait()
PYTHON
[ "$(ours)" = 5 ] || fail "$(ours) satellites instead of the 5 that ran before"
expect 0 "$skymem" constellation up "$scenario" --json
holds 'o["started"] == 5 and o["running"] == 10'

# A process that got the number of one of ours since is not ours, nor is one that a foreign line
# names; and a line that is there twice is one satellite.
sleep 300 &
bystander=$!
state=$(ls "$XDG_RUNTIME_DIR"/skymem/constellation-????????????????)
start=$(sed 's/.*) //' "/proc/$bystander/stat" | cut -d " " -f 20)
tail -n 1 "$state" >>"$state"
printf '%s\n' "$bystander 1 1 1" "$bystander $start 1 1" "$bystander $start 7 7" nonsense >>"$state"
expect 0 "$skymem" constellation status "$scenario"
grep -q '^10 of 10 satellites run, 10 answer' "$work/out" || fail "status: $(cat "$work/out")"
expect 0 "$skymem" constellation down "$scenario" --json
holds 'o["stopped"] == 10'
kill -0 "$bystander" 2>/dev/null || fail "down ended somebody else's process"
kill "$bystander"
nothing_left "a bystander"

# A file that was changed: nobody is forgotten, and what to do is said.
expect 0 "$skymem" constellation up "$scenario"
head -c 100000 /dev/urandom >"$work/blob"
sky 1 5
expect 1 "$skymem" constellation up "$scenario"
says "started before $scenario was changed still run (10): 'skymem constellation down $scenario'"
expect 0 "$skymem" constellation status "$scenario" --json
holds 'o["running"] == 10 and o["changed"] and len(o["list"]) == 10'
expect 0 "$skymem" constellation status "$scenario"
grep -q "constellation down $scenario' ends them" "$work/out" || fail "status: $(cat "$work/out")"
expect 0 "$skymem" constellation down "$scenario" --json
holds 'o["stopped"] == 10'
nothing_left "fewer satellites"
expect 1 "$skymem" constellation status "$scenario"
says "no satellite of $scenario runs here; 'skymem constellation up $scenario' starts them"

# What a put says of who flies an older file, or under an older key, or is dead.
sky 2 5
expect 0 "$skymem" constellation up "$scenario" --json
sed -i 's/rotation_s: 3000/rotation_s: 2/; s/planes: 2/planes: 5/' "$scenario"
expect 1 "$skymem" put a "$work/blob" --store "sky+udp:$scenario"
says "they were started before $scenario was changed: 'skymem constellation down $scenario'"
expect 0 "$skymem" constellation down "$scenario"
sky 2 5
expect 0 "$skymem" constellation up "$scenario"
cp -p "$work/sky.key" "$work/ours.key"
python3 -c 'import secrets; print(secrets.token_hex(32))' >"$work/sky.key"
expect 4 "$skymem" get a -o "$work/got" --store "sky+udp:$scenario"
says "they were started before $work/sky.key was changed: "
expect 1 "$skymem" constellation up "$scenario"
says "before $work/sky.key was changed"
cp -p "$work/ours.key" "$work/sky.key"
expect 0 "$skymem" put a "$work/blob" --store "sky+udp:$scenario"
# What the key of the sky does not cover: its satellites answer, and know nothing of the change.
sed -i 's/memory: 16MiB/memory: 8MiB/' "$scenario"
edited="$scenario was changed after its satellites were started, and they know nothing of it"
expect 0 "$skymem" put a "$work/blob" --store "sky+udp:$scenario"
grep -qF "$edited" "$work/err" || fail "put under an edited scenario: $(cat "$work/err")"
expect 0 "$skymem" get a -o "$work/got" --store "sky+udp:$scenario"
says "$edited: 'skymem constellation down $scenario', then up"
expect 3 "$skymem" get none --store "sky+udp:$scenario"
grep -qF "$edited" "$work/err" || fail "get of nothing: $(cat "$work/err")"
sed -i 's/memory: 8MiB/memory: 16MiB/' "$scenario"
expect 0 "$skymem" get a -o "$work/got" --store "sky+udp:$scenario"
[ ! -s "$work/err" ] || fail "get under the scenario as it was: $(cat "$work/err")"
expect 0 "$skymem" stat --store "sky+udp:$scenario" --json
holds 're.search(r"\d,\d overhead", o["tiers"][0]["note"])'
# A clock that is behind theirs by more than a second: answers come and are refused.
cat >"$work/clock.c" <<'C'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int failed = (int)syscall(SYS_clock_gettime, id, t);
    t->tv_sec -= id == CLOCK_REALTIME ? 2 : 0;
    return failed;
}
C
if [[ ! $(ldd "$skymem") =~ lib[at]san ]] && # they must be loaded first
    cc -shared -fPIC -o "$work/clock.so" "$work/clock.c"; then
    sleep 2.5 # satellites refuse what was sent before they started
    expect 4 env LD_PRELOAD="$work/clock.so" "$skymem" get a -o "$work/got" \
        --store "sky+udp:$scenario"
    says "answers came and were refused: the machines' clocks are more than half a second apart"
fi

# Satellites keep no time to live: what has one is refused there, and goes where it is kept.
expect 1 "$skymem" put mayfly "$work/blob" --ttl 60 --store "sky+udp:$scenario"
says "its satellites keep no time to live; put it without --ttl"
expect 0 "$skymem" put mayfly "$work/blob" --ttl 60 --store "disk:$work/disk" \
    --store "sky+udp:$scenario" --json
holds 'o["stored"] == ["disk"]'
says "not stored in sky+udp: sky+udp:$scenario: its satellites keep no time to live"
expect 3 "$skymem" get mayfly --store "sky+udp:$scenario"
dies "s['slot'] < 5"
expect 4 "$skymem" get a -o "$work/got" --store "sky+udp:$scenario"
one='satellite [12],[1-4] does not answer'
some='[2-8] satellites do not answer, such as [12],[1-4]'
grep -qE ": ($one|$some);.* starts the 8 that died" "$work/err" ||
    fail "who is silent: $(cat "$work/err")"
says "; 'skymem constellation up $scenario' starts the 8 that died"
expect 0 "$skymem" constellation status "$scenario"
says "1,1 1,2 1,3 1,4 2,1 and others do not run; 'skymem constellation up $scenario' starts them"
dies "s['running']"
expect 4 "$skymem" get a -o "$work/got" --store "sky+udp:$scenario"
says "nothing came from them: they do not run ('skymem constellation up $scenario' starts them"
expect 0 "$skymem" constellation up "$scenario" --json
holds 'o["started"] == 10'

# A file that went away or got another name.
mv "$scenario" "$work/other.yaml"
expect 0 "$skymem" constellation down "$work/other.yaml"
grep -q "0 satellites stopped" "$work/out" || fail "down of the new name: $(cat "$work/out")"
says "10 satellites run for $scenario"
expect 1 "$skymem" constellation status "$work/none.yaml"
expect 0 "$skymem" constellation status "$scenario" --json
holds 'o["running"] == 10 and o["changed"]'
expect 1 "$skymem" constellation up "$scenario"
says "No such file"
cd "$work"
expect 0 "$skymem" constellation down c.yaml --json
holds 'o["stopped"] == 10'
cd - >"$work/out"
nothing_left "a file that is gone"
expect 1 "$skymem" constellation down "$scenario"
says "No such file"

# A folder that went away with its scenario.
mkdir -p "$work/upper/folder"
sky 1 3
mv "$scenario" "$work/upper/folder"
expect 0 "$skymem" constellation up "$work/upper/folder/c.yaml"
rm -rf "$work/upper"
expect 0 "$skymem" constellation status "$work/upper/folder/c.yaml" --json
holds 'o["running"] == 3 and o["changed"]'
cd "$work"
expect 0 "$skymem" constellation down upper/folder/c.yaml --json
holds 'o["stopped"] == 3'
cd - >"$work/out"
nothing_left "a folder that is gone"
expect 1 "$skymem" constellation down "$work/upper/folder/c.yaml"
says "No such file"

# A file that is no scenario any more.
sky 1 5
expect 0 "$skymem" constellation up "$scenario"
echo "{" >"$scenario"
expect 0 "$skymem" constellation down "$scenario" --json
holds 'o["stopped"] == 5'
nothing_left "a broken file"

# Whose last words they are: here the third's port is taken, and what others said before is not his.
sky 1 5
expect 0 "$skymem" constellation up "$scenario"
log=$(ls "$XDG_RUNTIME_DIR"/skymem/*.log)
dies "s['slot'] != 1"
expect 0 "$skymem" constellation status "$scenario"
grep -q '^1 of 5 satellites runs, 1 answers; 0 chunks held' "$work/out" || fail "$(cat "$work/out")"
expect 0 "$skymem" constellation down "$work/other.yaml"
says "1 satellite runs for $scenario"
expect 0 "$skymem" constellation up "$scenario"
dies "s['slot'] == 3"
echo "skymemd: 1,3: old words" >>"$log"
python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", int(sys.argv[1])))
print("bound", flush=True)
time.sleep(60)' $((port + 2)) >"$work/bound" &
holder=$!
for _ in $(seq 100); do [ -s "$work/bound" ] || sleep 0.1; done
expect 1 "$skymem" constellation up "$scenario"
says "satellite 1,3 did not come up, saying \"127.0.0.1:$((port + 2)): in use"
kill "$holder"
expect 0 "$skymem" constellation down "$scenario" --json
holds 'o["stopped"] == 4'
nothing_left "a port that is taken"

# The keys of an installed scenario are the user's, even where its folder may be written.
mkdir -p "$work/usr/bin" "$work/usr/share/skymem/scenarios"
cp "$skymem" "$skymemd" "$work/usr/bin"
sky 1 5
cp "$scenario" "$work/usr/share/skymem/scenarios/mine.yaml"
export XDG_DATA_HOME=$work/data
expect 0 "$work/usr/bin/skymem" constellation up mine
made=$(grep -c "made $work/data/skymem/scenarios/" "$work/err")
[ "$made" = 2 ] || fail "keys: $(cat "$work/err")"
beside=$(ls "$work/usr/share/skymem/scenarios")
[ "$beside" = mine.yaml ] || fail "beside an installed scenario: $beside"
expect 0 "$work/usr/bin/skymem" put a "$work/blob" --store sky+udp:mine
expect 0 "$work/usr/bin/skymem" constellation status mine --json
holds "o['answered'] == 5 and o['scenario'] == '$work/data/skymem/scenarios/mine.yaml'"
expect 0 "$work/usr/bin/skymem" constellation down mine
nothing_left "an installed scenario"
echo '# newer' >>"$work/usr/share/skymem/scenarios/mine.yaml"
expect 0 "$work/usr/bin/skymem" constellation up mine
says "$work/data/skymem/scenarios/mine.yaml differs from the installed $work/usr/share/skymem"
expect 0 "$work/usr/bin/skymem" constellation down mine
grep -q "^5 satellites stopped" "$work/out" || fail "down of the copy: $(cat "$work/out")"

# One that is given by its path is never copied: without keys, its folder must be the user's.
mkdir -m 555 "$work/theirs"
cp "$scenario" "$work/theirs/other.yaml"
as_user=()
[ "$(id -u)" != 0 ] || as_user=(setpriv --bounding-set=-dac_override --inh-caps=-dac_override)
if ! "${as_user[@]}" test -w "$work/theirs"; then
    expect 1 "${as_user[@]}" "$skymem" constellation up "$work/theirs/other.yaml"
    says "other.yaml: its keys are made in its folder, and this folder is not yours; copy"
    [ ! -e "$work/data/skymem/scenarios/other.yaml" ] || fail "a copy of what a path names"
    cp -p "$work"/*.key "$work/theirs"
    expect 0 "${as_user[@]}" "$skymem" constellation up "$work/theirs/other.yaml"
    expect 0 "$skymem" constellation down "$work/theirs/other.yaml"
    grep -q "^5 satellites stopped" "$work/out" || fail "down of a path: $(cat "$work/out")"
fi
chmod 700 "$work/theirs"

# Without a udp section every verb says the same.
sed -i '/^udp/d' "$scenario"
expect 2 "$skymem" constellation up "$scenario"
says "real satellites need a section such as udp: {"
expect 2 "$skymem" put a "$work/blob" --store "sky+udp:$scenario"
says "real satellites need a section such as udp: {"
nothing_left "no udp section"
finish
