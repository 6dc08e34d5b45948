#!/usr/bin/env bash
# Proves `skymem orbit`: the reference distances, what is seen and when, SGP4's verification set,
# the quickest ways, a CZML file as Cesium reads it, CSV, and errors that say what is wrong.
. "$(dirname "$0")/common.sh"

at=2026-11-20T00:00:00Z
seattle=(--lat 47.6 --lon -122.3)

expect 0 "$skymem" orbit shells --json
lines_hold 'len(rows) >= 6 and rows[0]["name"] == "starlink-a" and rows[0]["phasing"] == 17'

# Distances: the seed's own figures on its Earth, then with the phasing of the filing.
grid=(--planes 72 --slots 22 --altitude-km 550 --inclination-deg 53)
expect 0 "$skymem" orbit latency "${grid[@]}" --earth-radius-km 6371 --json
holds 'abs(o["d_m_km"] - 1969.922) < 1e-3 and abs(o["intra_ms"] - 6.571) < 1e-3'
holds 'abs(o["d_n_min_km"] - 363.364) < 1e-3 and abs(o["d_n_max_km"] - 603.780) < 1e-3'
holds 'abs(o["d_n_km"] - 603.780) < 1e-3 and abs(o["period_s"] - 5730.1) < 0.05'
expect 0 "$skymem" orbit latency "${grid[@]}" --earth-radius-km 6371 --time 1432.53 --json
holds 'abs(o["d_n_km"] - 363.364) < 1e-2'
expect 0 "$skymem" orbit latency --shell starlink-a --phasing 0 --earth-radius-km 6371 --json
holds 'abs(o["d_n_max_km"] - 603.780) < 1e-3'
example=$(COLUMNS=100 "$skymem" orbit --help | sed -n 's/^  [$] skymem //p' | head -1)
expect 0 "$skymem" $example
grep -q '^to the next plane, same slot (D_n), greatest  *603.780  km$' "$work/out" ||
    fail "the first example: $(cat "$work/out")"
expect 0 "$skymem" orbit latency --shell starlink-a --json
holds 'abs(o["d_n_min_km"] - 830.2) < 0.1 and abs(o["d_n_max_km"] - 960.3) < 0.1'
holds 'abs(o["slot_s"] - 260.9) < 0.1 and abs(o["plane_s"] - 1182) < 0.1'
holds 'abs(o["node_drift_deg_day"] + 4.489) < 1e-3'

# With other phasings lasers join other slots than equal ones, and `isl` spans what `latency` says.
for shell in oneweb kuiper-b starlink-b; do
    expect 0 "$skymem" orbit isl --shell $shell --json
    cp "$work/out" "$work/links"
    expect 0 "$skymem" orbit latency --shell $shell --json
    python3 - "$work/links" "$work/out" <<'PYTHON' || fail "$shell: latency and isl differ"
import json, sys
links = [json.loads(l) for l in open(sys.argv[1])]
o = json.load(open(sys.argv[2]))
ends = [[list(map(int, l[k].split(","))) for k in ("from", "to")] + [l] for l in links]
between = [(b[1] - a[1], l["km"]) for a, b, l in ends if b[0] == a[0] + 1]
slots = max(a[1] for a, b, l in ends)
assert {d % slots for d, km in between} == {o["link_offset"] % slots}
kms = [km for d, km in between]
assert o["link_min_km"] - 1e-3 <= min(kms) and max(kms) <= o["link_max_km"] + 1e-3
assert o["link_max_km"] <= o["d_n_max_km"]
PYTHON
done

# What is seen: highest first, all above the mask, and the passes agree.
expect 0 "$skymem" orbit visible --shell starlink-a "${seattle[@]}" --at $at --json
lines_hold '15 <= len(rows) <= 24'
lines_hold 'all(r["elevation_deg"] >= 25 and 550 <= r["range_km"] <= 1150 for r in rows)'
lines_hold 'all(a["elevation_deg"] >= b["elevation_deg"] for a, b in zip(rows, rows[1:]))'
lines_hold 'all(abs(r["one_way_ms"] - r["range_km"] / 299.792458) < 1e-4 for r in rows)'
lines_hold 'all(r["satellite"] == "%d,%d" % (r["plane"], r["slot"]) for r in rows)'
cp "$work/out" "$work/visible"
expect 0 "$skymem" orbit passes --shell starlink-a "${seattle[@]}" --start $at --hours 0.2 --json
python3 - "$work/visible" "$work/out" <<'PYTHON' || fail "passes and visible disagree"
import json, sys
seen, passes = ([json.loads(l) for l in open(p)] for p in sys.argv[1:])
begun = {p["satellite"] for p in passes if p["up_at_start"]}
cut = all(p["up_at_start"] == (p["rise"] == "2026-11-20T00:00:00.000Z") and
          p["up_at_end"] == (p["set"] == "2026-11-20T00:12:00.000Z") for p in passes)
begun = begun if cut and any(p["up_at_end"] for p in passes) else None
ordered = all(p["rise"] <= p["culminate"] <= p["set"] for p in passes)
sys.exit(0 if begun == {s["satellite"] for s in seen} and ordered else 1)
PYTHON
"$skymem" orbit passes --shell starlink-a "${seattle[@]}" --start $at --hours 8784 \
    >"$work/out" 2>"$work/err" &
passes=$!
for _ in $(seq 1200); do [ -s "$work/err" ] || sleep 0.05; done # it says so before it begins
kill $passes
wait $passes
says "1584 satellites for 8784 hours take minutes"
expect 0 "$skymem" orbit visible --shell starlink-a "${seattle[@]}" --at now --json
lines_hold 'len(rows) >= 15'
# a table: heads with units, and the same number of decimals in all of a column
expect 0 "$skymem" orbit visible --shell starlink-a "${seattle[@]}" --at $at
head -1 "$work/out" | grep -q '^SATELLITE  PLANE  SLOT  ELEVATION, deg  AZIMUTH, deg  RANGE, km' ||
    fail "no head with units: $(head -1 "$work/out")"
python3 - "$work/out" <<'PYTHON' || fail "decimals are not aligned: $(cat "$work/out")"
import re, sys
head, *rows = open(sys.argv[1]).read().splitlines()
points = [tuple(m.start() for m in re.finditer(r"\.", row)) for row in rows]
assert len(rows) >= 15 and len(set(points)) == 1 and len(points[0]) == 4, points
PYTHON
expect 0 "$skymem" orbit shells
head -1 "$work/out" | grep -q 'ALTITUDE, km  INCLINATION, deg' || fail "$(head -1 "$work/out")"
expect 0 "$skymem" orbit overhead --shell starlink-a --lat 30 --lon 8 --start $at --hours 24 --json
lines_hold '71 <= sum(r["plane_steps"] for r in rows) <= 75'
lines_hold '-353 <= sum(r["slot_steps"] for r in rows) <= -343'
expect 0 "$skymem" orbit overhead --shell kuiper-b --lat 60 --lon 10 --start $at --hours 1
grep -q "in 241 of 241 slots nothing" "$work/err" || fail "blindness is not told"

# A span that ends in a pass ends in its highest point until then, and between two looks may be one.
expect 0 "$skymem" orbit passes --shell starlink-a --lat 48 --lon 0 --min-elevation 60 --start $at \
    --hours 0.5434 --json
lines_hold '[r["max_elevation_deg"] for r in rows if r["satellite"] == "36,19"][0] > 80.8'
expect 0 "$skymem" orbit passes --shell starlink-a --lat 48 --lon 0 --min-elevation 80 --start $at \
    --hours 0.5403 --json
lines_hold 'any(r["satellite"] == "36,19" for r in rows)'

# Every row of the verification set, faults included.
python3 - "$skymem" tests/golden/sgp4.txt "$work" <<'PYTHON' || fail "see above"
import json, subprocess, sys

skymem, path, work = sys.argv[1:]
sets, lines = [], [l.rstrip("\n") for l in open(path) if not l.startswith("#")]
for l in lines:
    if len(l) == 69 and l.startswith("1 "):
        sets.append([l, None, []])
    elif len(l) == 69 and l.startswith("2 "):
        sets[-1][1] = l
    else:
        sets[-1][2].append(l.split())
checked = 0
for first, second, rows in sets:
    open(f"{work}/one.tle", "w").write(f"{first}\n{second}\n")
    minutes = ",".join(r[0] for r in rows)
    ran = subprocess.run([skymem, "orbit", "propagate", "--tle", f"{work}/one.tle", "--json",
                          "--minutes", minutes], capture_output=True, text=True)
    said = [json.loads(l) for l in ran.stdout.splitlines()]
    faults = [r for r in rows if r[1] == "fault"]
    if ran.returncode != (1 if faults else 0) or len(said) != len(rows):
        sys.exit(f"{first}: exit {ran.returncode}, {len(said)} rows: {ran.stderr}")
    for row, s in zip(rows, said):
        checked += 1
        if row[1] == "fault":
            good = s["error"] and s["r_km"] == [None] * 3
        else:
            off = [abs(a - float(b)) for a, b in zip(s["r_km"] + s["v_km_s"], row[1:7])]
            good = s["error"] is None and max(off[:3]) <= 1.1e-6 and max(off[3:]) <= 1.1e-9
        if not good:
            sys.exit(f"{first}: {row} but {s}")
print(f"{len(sets)} satellites, {checked} rows")
sys.exit(checked < 670)
PYTHON

# The same satellite as OMM; two lines of CSV out.
cat >"$work/one.json" <<'JSON'
[{"OBJECT_NAME":"VANGUARD 1","EPOCH":"2000-06-27T18:50:19.733568","MEAN_MOTION":10.82419157,
"ECCENTRICITY":0.1859667,"INCLINATION":34.2682,"RA_OF_ASC_NODE":348.7242,"NORAD_CAT_ID":5,
"ARG_OF_PERICENTER":331.7664,"MEAN_ANOMALY":19.3264,"BSTAR":2.8098e-5}]
JSON
expect 0 "$skymem" orbit propagate --tle "$work/one.json" --minutes 360 --csv
head -1 "$work/out" >"$work/head"
echo 'satellite,minutes,r_km_x,r_km_y,r_km_z,v_km_s_x,v_km_s_y,v_km_s_z,error' >"$work/wanted"
cmp -s "$work/head" "$work/wanted" ||
    fail "no head: $(cat "$work/out")"
grep -q '^"VANGUARD 1",360,-7154.031' "$work/out" || fail "another place: $(cat "$work/out")"

# Rows where there is a place and rows where there is none, in either order: one table, one CSV.
{
    echo NORAD_CAT_ID,BSTAR,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE, \
        ARG_OF_PERICENTER,MEAN_ANOMALY,OBJECT_NAME
    echo 28872,.24476E-3,2005-11-29T00:28:59,16.46015938,.0303955,96.4736,157.9986, \
        244.0492,110.6523,'"A ""B"", C"'
    echo 5,.28098E-4,2000-06-27T18:50:19,10.82419157,.1859667,34.2682,348.7242, \
        331.7664,19.3264,VANGUARD 1
} >"$work/gone.csv"
for minutes in 0,60 60,0 0,1e300; do
    expect 1 "$skymem" orbit propagate --tle "$work/gone.csv" --minutes $minutes
    says 'A "B", C at'
    [ "$(wc -l <"$work/out")" = 5 ] || fail "a table of $(cat "$work/out")"
    expect 1 "$skymem" orbit propagate --tle "$work/gone.csv" --minutes $minutes --csv
    python3 - "$work/out" <<'PYTHON' || fail "no CSV: $(cat "$work/out")"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1]), restkey="more"))
assert len(rows) == 4 and all("more" not in r and None not in r.values() for r in rows)
assert rows[0]["satellite"] == 'A "B", C' and rows[3]["satellite"] == "VANGUARD 1"
assert any(r["error"] for r in rows) and all(bool(r["error"]) != bool(r["r_km_x"]) for r in rows)
PYTHON
done

# Who has no place is told of; only when nobody has one it is a failure.
expect 0 "$skymem" orbit visible --tle "$work/gone.csv" --lat 0 --lon 0 --at 2006-01-01T00:00:00Z
says '1 of 2 satellites have no place at that time; A "B", C: '
expect 0 "$skymem" orbit passes --tle "$work/gone.csv" --lat 0 --lon 0 --start 2006-01-01T00:00:00Z
says "1 of 2 satellites"
head -2 "$work/gone.csv" >"$work/lost.csv"
for when in "visible --at" "passes --start"; do
    expect 1 "$skymem" orbit $when 2006-01-01T00:00:00Z --tle "$work/lost.csv" --lat 0 --lon 0
    says "no satellite has a place"
done

# Links and ways: a torus where planes go all around, a seam where they do not.
expect 0 "$skymem" orbit isl --shell starlink-a --json
lines_hold 'len(rows) == 2 * 72 * 22 and all(r["up"] and not r["seam"] for r in rows)'
expect 0 "$skymem" orbit isl --shell starlink-a --from 72,1 --to 1,18 --json
lines_hold 'rows[0]["hops"] == 1 and rows[0]["path"] == [[72, 1], [1, 18]]'
expect 0 "$skymem" orbit isl --shell oneweb --from 1,1 --to 12,1 --json
lines_hold 'rows[0]["hops"] >= 11'
expect 0 "$skymem" orbit isl --shell starlink-a --from 72,1 --to 1,18
grep -q "PATH *$" "$work/out" && grep -q "72,1 1,18 *$" "$work/out" || fail "no path in the table"
expect 0 "$skymem" orbit isl --shell starlink-a --from 72,1 --to 1,18 --csv
grep -q ',1,"72,1 1,18"$' "$work/out" || fail "no path in the CSV: $(cat "$work/out")"
expect 0 "$skymem" orbit isl --shell oneweb --from 1,1 --json
lines_hold 'len(rows) == 12 * 49 and min(r["km"] for r in rows) == 0'
expect 2 "$skymem" orbit latency --shell oneweb --time 1e300
says "--time 1e300: must be a number from 0 to 1000000000"
few=(--planes 1 --slots 5 --altitude-km 550 --inclination-deg 0)
expect 1 "$skymem" orbit isl "${few[@]}" --from 1,1 --to 1,2
says "no path"

# CZML: a document, then a packet a satellite: metres in the frame of the Earth, seconds after an
# epoch; from Seattle on WGS84 they are as far away as `visible` says.
expect 0 "$skymem" orbit visible --shell starlink-b "${seattle[@]}" --at $at --json
cp "$work/out" "$work/visible"
expect 0 "$skymem" orbit czml --shell starlink-b --start $at --hours 0.5 -o "$work/sky.czml" --json
holds 'o["satellites"] == 375'
python3 - "$work/sky.czml" "$work/visible" <<'PYTHON' || fail "no CZML that Cesium reads"
import json, math, re, sys
czml = json.load(open(sys.argv[1]))
seen = {r["satellite"]: r["range_km"] for r in map(json.loads, open(sys.argv[2]))}
lat, lon, e2 = math.radians(47.6), math.radians(-122.3), 6.69437999014e-3
curve = 6378137 / math.sqrt(1 - e2 * math.sin(lat) ** 2)
seattle = [curve * math.cos(lat) * math.cos(lon), curve * math.cos(lat) * math.sin(lon),
           curve * (1 - e2) * math.sin(lat)]
time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
head, packets = czml[0], czml[1:]
assert head["id"] == "document" and head["version"] == "1.0"
assert re.fullmatch(f"{time}/{time}", head["clock"]["interval"])
assert re.fullmatch(time, head["clock"]["currentTime"])
assert head["clock"]["range"] in ("UNBOUNDED", "CLAMPED", "LOOP_STOP")
assert head["clock"]["step"] in ("SYSTEM_CLOCK", "SYSTEM_CLOCK_MULTIPLIER", "TICK_DEPENDENT")
assert len({p["id"] for p in packets}) == len(packets) == 375
for p in packets:
    place = p["position"]
    assert re.fullmatch(time, place["epoch"]) and place["referenceFrame"] == "FIXED"
    assert place["interpolationAlgorithm"] in ("LINEAR", "LAGRANGE", "HERMITE")
    values = place["cartesian"]
    assert len(values) % 4 == 0 and len(values) // 4 > place["interpolationDegree"]
    times = values[0::4]
    assert times[0] == 0 and times[-1] == 1800 and all(a < b for a, b in zip(times, times[1:]))
    for i in range(0, len(values), 4):
        assert abs(math.hypot(*values[i + 1:i + 4]) - 7653137) < 1
    if p["name"] in seen:
        assert abs(math.dist(values[1:4], seattle) - 1000 * seen.pop(p["name"])) < 1
    assert p["point"]["pixelSize"] > 0
    assert len(p["point"]["color"]["rgba"]) == 4
    assert all(0 <= c <= 255 for c in p["point"]["color"]["rgba"])
assert not seen and len(open(sys.argv[2]).readlines()) > 1
PYTHON

# Windows: at 50 degrees of latitude more stands than at the equator; beyond the shell nothing does.
expect 0 "$skymem" orbit windows --shell kuiper-a --lat 0,50,75 -o "$work/w.svg" --json
lines_hold 'rows[0]["visible"] < rows[1]["visible"] and rows[2]["visible"] == 0'
lines_hold 'rows[1]["3x1_whole"] > 0.8 and rows[0]["3x3_whole"] == 0'
lines_hold 'abs(rows[0]["slots_day"] + 503) <= 3 and abs(rows[0]["planes_day"] - 34.5) <= 2'
python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' "$work/w.svg" ||
    fail "the drawing is no XML"

# What cannot be.
expect 2 "$skymem" orbit
expect 2 "$skymem" orbit visibel
says "did you mean visible"
expect 2 "$skymem" orbit latency --shell starlink
says "no shell"
expect 2 "$skymem" orbit latency --shell oneweb --planes 3
says "one or the other"
expect 2 "$skymem" orbit latency --planes 3
expect 2 "$skymem" orbit latency --shell oneweb --phasing 12
says "--phasing 12: must be less than the number of planes, 12"
expect 2 "$skymem" orbit latency "${grid[@]}" --phasing 72
expect 2 "$skymem" orbit isl --shell oneweb --time 1e300
expect 2 "$skymem" orbit visible --shell oneweb --at $at
says "--lat and --lon"
expect 2 "$skymem" orbit visible --shell oneweb --lat 91 --lon 0 --at $at
says "--lat 91"
expect 2 "$skymem" orbit visible --shell oneweb "${seattle[@]}" --at yesterday
says "--at yesterday"
expect 2 "$skymem" orbit propagate --minutes 1
expect 2 "$skymem" orbit propagate --tle "$work/one.json" --minutes 1,x
for from in 13,1 4294967297,1 1,4294967297 -1,1; do
    expect 2 "$skymem" orbit isl --shell oneweb --from "$from"
done
expect 2 "$skymem" orbit czml --shell starlink-a --hours 1000 --step 1 -o "$work/x"
expect 2 "$skymem" orbit shells --json --csv
expect 2 "$skymem" orbit shells --shell starlink-a
says "orbit shells has no use for --shell"
expect 2 "$skymem" orbit latency --tle "$work/one.json"
says "orbit latency has no use for --tle"
expect 2 "$skymem" orbit visible --tle "$work/one.json" --light-km-s 2e5 "${seattle[@]}" --at $at
says "nothing of a shell"
expect 1 "$skymem" orbit propagate --tle "$work/absent" --minutes 1
head -c 100 "$work/one.tle" >"$work/cut.tle"
expect 1 "$skymem" orbit propagate --tle "$work/cut.tle" --minutes 1
says "cut.tle:2: "
expect 1 "$skymem" orbit isl --tle "$work/one.json"
says "no grid"
expect 2 "$skymem" orbit czml --shell starlink-a -o -
says "standard output holds the report"
finish
