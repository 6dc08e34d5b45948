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
    text = re.sub(r", waiting or rebuilding [\d.]+", "", text)  # on a busy machine only
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

# A front page reads quickly: no sentence has more than 30 words, and one table is enough.
python3 - <<'PYTHON' || fail "see above"
import re, sys

text = open("README.md", encoding="utf-8").read()
tables = len(re.findall(r"^\|[ :|-]+\|$", text, re.M))
prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
prose = "\n".join(l for l in prose.split("\n") if not l.startswith(("|", "#", "    ")))
long = 0
for paragraph in re.split(r"\n\s*\n|\n(?=- )", prose):
    words = re.sub(r"\]\([^)]*\)", "]", " ".join(paragraph.split()))
    for sentence in re.split(r"(?<=[.!?])\s+", words):
        if len(sentence.split()) > 30:
            long += 1
            print(f"README.md: {len(sentence.split())} words: {sentence}")
if tables != 1:
    print(f"README.md has {tables} tables instead of one")
sys.exit(long > 0 or tables != 1)
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
    grep -q "\b$call(" include/*/*.h || fail "README.md calls $call, which no header has"
done
finish
