#!/usr/bin/env bash
# Proves that prose does not contradict the tables: between `<!-- from FILE... -->` and
# `<!-- end -->` every number with a decimal point, or with "ms" or "times" behind it, is one of
# FILE's, rounded as far as the text rounds it; and that the section on speed has none. Proves too
# that the pictures of docs/figures are those of the tables beside them.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }

# check DOCUMENT...: a line for each number that no table has.
check() {
    python3 - "$@" <<'PYTHON'
import re, sys

MARKED = re.compile(r"<!-- from ([^>]*?) -->(.*?)<!-- end -->", re.DOTALL)
SAID = re.compile(r"(?<![\w.,/])(\d[\d,]*(?:\.\d+)?)(?= ms\b| times\b)|(?<![\w.,/])(\d[\d,]*\.\d+)")
VALUE = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?")
wrong = marked = 0
for path in sys.argv[1:]:
    text = open(path, encoding="utf-8").read()
    for part in MARKED.finditer(text):
        marked += 1
        values = []
        for table in part.group(1).split():
            content = open(table, encoding="utf-8").read()
            if table.endswith(".csv"):
                content = content.replace(",", " ")
            values += [float(v.replace(",", "")) for v in VALUE.findall(content)]
        for m in SAID.finditer(part.group(2)):
            said = (m.group(1) or m.group(2)).replace(",", "")
            half = 0.5000001 * 10 ** -len(said.partition(".")[2])
            if not any(abs(value - float(said)) <= half for value in values):
                wrong += 1
                line = text.count("\n", 0, part.start(2) + m.start()) + 1
                print(f"{path}:{line}: {said} is not in {part.group(1)}")
sys.exit(wrong > 0 or marked == 0)
PYTHON
}

check docs/*.md || fail "see above"
marked=$(cat docs/*.md | grep -c '<!-- from ')
[ "$marked" -ge 4 ] || fail "only $marked parts of the prose are checked"
ended=$(cat docs/*.md | grep -c '<!-- end -->')
[ "$ended" = "$marked" ] || fail "$marked parts begin and $ended end"

# It bites: another digit, another unit; and a figure as the table has it passes.
printf 'case,p99_ms\nget,59.933\n' >"$work/table.csv"
refused() {
    printf '<!-- from %s -->%s<!-- end -->\n' "$work/table.csv" "$1" >"$work/text.md"
    ! check "$work/text.md" >/dev/null || fail "not refused: $1"
}
refused "a get takes 59.8 ms"
refused "a get takes 61 ms"
refused "59.94 in all"
printf '<!-- from %s -->a get takes 59.9 ms, or 60 ms, of 100<!-- end -->\n' "$work/table.csv" \
    >"$work/text.md"
check "$work/text.md" || fail "refused, though the table has it"

# Speed is in the table of `bench sim` alone.
speed=$(sed -n '/^## Speed/,/^## The study/p' docs/SIMULATION.md)
grep -q 'bench/results/sim.md' <<<"$speed" || fail "docs/SIMULATION.md lost its speed"
! grep -E '[0-9.]+ (million|M) events|[0-9,]+ hours a minute' <<<"$speed" ||
    fail "docs/SIMULATION.md: a speed that bench/results/sim.md may contradict"

# Drawn again, each picture is the one that is there; a panel has a title, and names both axes.
mkdir "$work/figures"
cp docs/figures/*.csv "$work/figures"
expect 0 "$skymem" sim --figures "$work/figures" --redraw
for table in authors links loss day migration neighbours physical-day physical-migration \
    physical-sweeps placement; do
    cmp -s "$work/figures/$table.svg" "docs/figures/$table.svg" ||
        fail "docs/figures/$table.svg is old: skymem sim --figures docs/figures --redraw"
    cmp -s "$work/figures/$table.csv" "docs/figures/$table.csv" || fail "$table.csv is drawn over"
done
panels=$(grep -c '<g ' "$work/figures/physical-sweeps.svg")
titles=$(grep -o 'font-weight="bold">[^<]*' "$work/figures/physical-sweeps.svg" | sort -u | wc -l)
[ "$panels" = 8 ] && [ "$titles" = 8 ] || fail "$panels panels have $titles titles"
grep -q '>10000<' "$work/figures/migration.svg" || fail "migration: no axis in gets an hour"
# six points of rotation, and the mark in the legend
[ "$(grep -c '<circle' "$work/figures/migration.svg")" = 7 ] || fail "migration: points unmarked"
echo 'strategy,gets_per_h' >"$work/figures/migration.csv"
expect 1 "$skymem" sim --figures "$work/figures" --redraw
says "migration.csv:1: not a row of this table"
rm "$work/figures/day.csv"
expect 1 "$skymem" sim --figures "$work/figures" --redraw
says "day.csv"
finish
