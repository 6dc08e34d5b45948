#!/usr/bin/env bash
# Proves that README.md is true: what it shows of a terminal is what the commands print (times on a
# clock apart), every command it names takes the options it gives, and its C names the real calls.
. "$(dirname "$0")/common.sh"

# The fenced blocks with a prompt: their commands in order, each with what it is said to print.
python3 - "$skymem" "$work" <<'PYTHON' || fail "see above"
import re, subprocess, sys

skymem, work = sys.argv[1:]
blocks = re.findall(r"^```\n(\$ .*?)^```$", open("README.md", encoding="utf-8").read(), re.M | re.S)
ran = wrong = 0


def steady(text):
    return re.sub(r"in [\d.]+ ms: (light [\d.]+), links [\d.]+", r"in _ ms: \1, links _", text)


for block in blocks:
    for command, wanted in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
        here = command.replace("build/skymem", skymem)
        here = here.replace("~/.cache/skymem-example", f"{work}/disk")
        got = subprocess.run(["bash", "-c", here], stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.STDOUT).stdout
        ran += 1
        if steady(got) != steady(wanted):
            wrong += 1
            print(f"{command}\nprints\n{got}and README.md says\n{wanted}")
print(f"{ran} commands, {wrong} wrong")
sys.exit(wrong != 0 or ran < 3)
PYTHON

named=0
while read -r verb rest; do
    named=$((named + 1))
    "$skymem" "$verb" --help >"$work/help" || fail "README.md names skymem $verb"
    for option in $(grep -o -- ' --[a-z-]*' <<<" ${rest%%#*}"); do
        [ "$option" = --help ] || grep -q -- "$option\b" "$work/help" ||
            fail "README.md gives skymem $verb $option"
    done
done < <(grep -o 'build/skymem [a-z]* .*' README.md | sed 's/^build.skymem //')
[ "$named" -ge 8 ] || fail "README.md names only $named commands"

calls=$(grep -o '\bsky_[a-z_]*(' README.md | sort -u | tr -d '(')
[ "$(wc -w <<<"$calls")" -ge 3 ] || fail "README.md shows no calls: $calls"
for call in $calls; do
    grep -q "\b$call(" include/skymem/*.h || fail "README.md calls $call, which no header has"
done
finish
