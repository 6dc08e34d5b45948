#!/usr/bin/env bash
# Proves that tools/experiment does what docs/experiment.md says, small: with a tiny model and ten
# satellites that are processes it finds the prompt in them, also when the one that holds most is
# killed, generates 30 tokens with and without, and writes the table that it prints. How much sooner
# is the experiment's affair; what it says of that is checked on made-up rows.
. "$(dirname "$0")/common.sh"
need_engine
python3 tests/cli/tiny_gguf.py llama "$work/tiny.gguf" || fail "no tiny model"
mkdir -m 700 "$work/tmp"
export TMPDIR=$work/tmp # the satellites' scenario lies there

# A satellite may be late where 11 processes share few cores: then it is asked again.
found() {
    python3 - "$work/results/experiment.jsonl" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
sys.exit(any(r["hit_tokens"] != (r["prompt_tokens"] - 1) // 16 * 16 for r in rows))
PYTHON
}
for _ in 1 2 3; do
    expect 0 tools/experiment "$build" --model "$work/tiny.gguf" --small --results "$work/results"
    ! found || break
done
found || fail "not all was found: $(cat "$work/results/experiment.jsonl")"
cp "$work/out" "$work/said"
cp "$work/results/experiment.jsonl" "$work/out"
lines_hold 'len(rows) == 2 and [r["killed"] for r in rows] == [0, 1]'
lines_hold 'all((r["satellites"], r["servers"], r["level"]) == (11, 10, "8") for r in rows)'
lines_hold 'all(r["new_tokens"] == 30 and r["saved_blocks"] > 20 for r in rows)'
lines_hold 'all(0 < r["bytes_moved"] and r["corrupt_blocks"] == 0 for r in rows)'
lines_hold 'all(r["calibrated"] is False for r in rows)'
lines_hold 'rows[0]["killed_chunks"] == 0 < rows[1]["killed_chunks"]'
lines_hold 'all(0 < r["first_with_s"] < r["with_s"] and 0 < r["first_without_s"] < r["without_s"]
    and abs(1 - r["with_s"] / r["without_s"] - r["sooner"]) < 1e-9 for r in rows)'
while read -r line; do
    grep -qxF -- "$line" "$work/results/experiment.md" || fail "the table lacks: $line"
done < <(grep '^|' "$work/said")
grep -q '^| 250 characters | 10 of 11, 1 killed | 8, uncalibrated | ' "$work/said" ||
    fail "$(cat "$work/said")"
grep -q '^| \*authors, HQQ\* | 10 | 8 bits | 10.2 | 7.8 | 24% |' "$work/said" ||
    fail "$(cat "$work/said")"
! pgrep -f "$work/tmp" >/dev/null || fail "satellites were left"
left=$(ls -A "$work/tmp" | grep -v '^skymem-ports-') # of tools/free-ports
[ -z "$left" ] || fail "it left files: $left"

# ended by SIGTERM it leaves none either
tools/experiment "$build" --model "$work/tiny.gguf" --small --results "$work/none" \
    >"$work/out" 2>"$work/err" &
experiment=$!
for _ in $(seq 1200); do
    ! pgrep -f "satellite.*$work/tmp" >/dev/null || break
    sleep 0.05
done
kill -TERM "$experiment" || fail "it ended before: $(cat "$work/err")"
code=0
wait "$experiment" || code=$?
[ "$code" = 143 ] || fail "exit $code after SIGTERM: $(cat "$work/err")"
! pgrep -f "$work/tmp" >/dev/null || fail "satellites were left after SIGTERM"

# … whenever it comes: while a program is being started, before the experiment knows of it. And so
# does a terminal's Ctrl-C, which goes to each program that the experiment has started, too.
for end in up:SIGTERM run:SIGTERM down:SIGTERM up:SIGINT run:SIGINT down:SIGINT; do
    setsid -w python3 - "${end%:*}" "${end#*:}" tools/experiment "$build" \
        --model "$work/tiny.gguf" --small --results "$work/none" \
        <<'PYTHON' >"$work/out" 2>"$work/err"
import importlib.machinery, os, signal, subprocess, sys
verb, number = sys.argv[1], signal.Signals[sys.argv[2]]
sys.argv = sys.argv[3:]
experiment = importlib.machinery.SourceFileLoader("experiment", sys.argv[0]).load_module()
class Popen(subprocess.Popen):
    def __init__(self, words, **keywords):
        super().__init__(words, **keywords)
        if verb in words:
            (os.kill if number == signal.SIGTERM else os.killpg)(os.getpid(), number)
experiment.subprocess.Popen = Popen
experiment.main()
PYTHON
    code=$?
    [ "$code" = 143 ] || [ "$code:${end#*:}" = 130:SIGINT ] ||
        fail "exit $code after $end: $(cat "$work/err")"
    ! pgrep -f "$work/tmp" >/dev/null || fail "processes were left after $end"
done

# nor does one whose messages nobody reads
tools/experiment "$build" --model "$work/tiny.gguf" --small --results "$work/none" \
    >"$work/out" 2> >(:)
[ $? = 1 ] || fail "no error where nobody reads what it says"
! pgrep -f "$work/tmp" >/dev/null || fail "satellites were left by one that nobody reads"

# What it says of a gain: beaten, one of them, hidden by the new tokens, not beaten.
python3 - <<'PYTHON' || fail "the verdicts"
import importlib.machinery, sys
experiment = importlib.machinery.SourceFileLoader("experiment", "tools/experiment").load_module()
said = [experiment.verdict({"sooner": sooner, "most": most})
        for sooner, most in ((0.24, 0.9), (0.22, 0.9), (0.1, 0.2), (0.1, 0.9))]
print(said)
sys.exit(said != ["yes", "Quanto's only", "no: 30 new tokens hide it", "no"])
PYTHON

# Rows that are measured again take the place of their own, in the order of the table.
python3 - "$work/before.jsonl" <<'PYTHON' || fail "rows measured again"
import importlib.machinery, json, sys
experiment = importlib.machinery.SourceFileLoader("experiment", "tools/experiment").load_module()
def row(prompt, satellites, killed, level, value):
    return dict(prompt=prompt, satellites=satellites, killed=killed, level=level, v=value)
short, long = "250 characters", "512 tokens"
before = [row(short, 11, 0, "8", 1), row(short, 95, 3, "8", 2), row(long, 11, 0, "4", 3)]
with open(sys.argv[1], "w", encoding="utf-8") as f:
    f.write("".join(json.dumps(r) + "\n" for r in before))
new = [row(long, 11, 0, "8", 4), row(short, 95, 3, "8", 5), row(short, 95, 0, "8", 6)]
said = [r["v"] for r in experiment.renew(new, sys.argv[1])]
print(said)
sys.exit(said != [1, 6, 5, 4, 3])
PYTHON
expect 2 tools/experiment "$build" --model "$work/tiny.gguf" --at 250-11 --results "$work/none"
expect 1 tools/experiment "$build" --model "$work/absent.gguf" --small --results "$work/none"
[ ! -e "$work/none" ] || fail "results of nothing"
finish
