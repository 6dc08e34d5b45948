#!/usr/bin/env bash
# Proves that `skymem bench policies` counts what each policy keeps as other programs of the same
# policies do (in Python, below), and refuses what is no trace.
. "$(dirname "$0")/common.sh"

python3 - "$work/trace.jsonl" "$work/expected.json" <<'PYTHON'
import heapq, json, random, sys
from collections import Counter, OrderedDict

rng = random.Random(7)
requests, sessions, number = [], [], 0
for _ in range(500):  # prompts that go on where one before them ended, or begin with a common block
    if sessions and rng.random() < 0.6:
        blocks = list(rng.choice(sessions[-40:]))
    else:
        blocks = [rng.randrange(5)]
    for _ in range(rng.randrange(1, 9)):
        blocks.append(5 + number)
        number += 1
    sessions.append(blocks)
    requests.append(blocks)
room_of_all = 1 + max(max(r) for r in requests)


class Queue(OrderedDict):
    def __init__(self, room):
        super().__init__()
        self.room = room

    def hit(self, b, cost):
        self.move_to_end(b)

    def put(self, b, cost):
        if len(self) >= self.room:
            self.popitem(last=False)
        self[b] = 0


class Fifo(Queue):
    def hit(self, b, cost):
        pass


class Sieve:
    def __init__(self, room):
        self.room, self.order, self.hits, self.hand = room, [], {}, None

    def __contains__(self, b):
        return b in self.hits

    def hit(self, b, cost):
        self.hits[b] = 1

    def put(self, b, cost):
        if len(self.order) >= self.room:  # order: the oldest first
            i = self.order.index(self.hand) if self.hand is not None else 0
            while self.hits[self.order[i]]:
                self.hits[self.order[i]] = 0
                i = (i + 1) % len(self.order)
            gone = self.order.pop(i)
            del self.hits[gone]
            self.hand = self.order[i] if i < len(self.order) else None
        self.hits[b] = 0
        self.order.append(b)


class S3:
    def __init__(self, room):
        self.room = room
        self.small, self.main, self.ghost = OrderedDict(), OrderedDict(), OrderedDict()

    def __contains__(self, b):
        return b in self.small or b in self.main

    def hit(self, b, cost):
        of = self.small if b in self.small else self.main
        of[b] = min(3, of[b] + 1)

    def evict(self):
        if len(self.small) >= max(1, self.room // 10) or not self.main:
            b, hits = self.small.popitem(last=False)
            if hits:
                self.main[b] = 0
                return
            self.ghost[b] = 0
            if len(self.ghost) > self.room:
                self.ghost.popitem(last=False)
        else:
            b, hits = self.main.popitem(last=False)
            if hits:
                self.main[b] = hits - 1

    def put(self, b, cost):
        while len(self.small) + len(self.main) >= self.room:
            self.evict()
        (self.main if self.ghost.pop(b, None) is not None else self.small)[b] = 0


class Gdsf:
    def __init__(self, room):
        self.room, self.age, self.worth, self.hits, self.heap = room, 0.0, {}, {}, []

    def __contains__(self, b):
        return b in self.worth

    def weigh(self, b, cost):
        self.worth[b] = self.age + self.hits[b] * cost
        heapq.heappush(self.heap, (self.worth[b], b))

    def hit(self, b, cost):
        self.hits[b] += 1
        self.weigh(b, cost)

    def put(self, b, cost):
        if len(self.worth) >= self.room:
            worth, gone = heapq.heappop(self.heap)
            while self.worth.get(gone) != worth:
                worth, gone = heapq.heappop(self.heap)
            self.age = worth
            del self.worth[gone]
        self.hits[b] = 1
        self.weigh(b, cost)


class Classes:
    def __init__(self, room, class_of):
        self.room, self.class_of = room, class_of
        self.rings = [OrderedDict(), OrderedDict(), OrderedDict()]  # soon, normal, last

    def __contains__(self, b):
        return any(b in ring for ring in self.rings)

    def hit(self, b, cost):
        next(ring for ring in self.rings if b in ring).move_to_end(b)

    def put(self, b, cost):
        if sum(map(len, self.rings)) >= self.room:
            next(ring for ring in self.rings if ring).popitem(last=False)
        self.rings[self.class_of(b, round((cost - 1) * 64))][b] = 0
        while len(self.rings[2]) > self.room // 2:
            self.rings[1][self.rings[2].popitem(last=False)[0]] = 0


uses = Counter(b for r in requests for b in r)
expected = {}
kinds = {"lru": Queue, "fifo": Fifo, "sieve": Sieve, "s3-fifo": S3, "gdsf": Gdsf,
         "lru, last often": lambda n: Classes(n, lambda b, i: 2 if uses[b] >= 5 else 1),
         "lru, soon once": lambda n: Classes(n, lambda b, i: 0 if uses[b] == 1 else 1),
         "lru, last front": lambda n: Classes(n, lambda b, i: 2 if i < 4 else 1)}
for per_cent in 1, 3, 10, 30:
    for name, kind in kinds.items():
        store = kind(max(1, room_of_all * per_cent // 100))
        found = spared = cost = 0
        for r in requests:
            prefix = 0
            while prefix < len(r) and r[prefix] in store:
                spared += 1 + prefix / 64
                prefix += 1
            found += prefix
            for i in reversed(range(len(r))):
                cost += 1 + i / 64
                (store.hit if r[i] in store else store.put)(r[i], 1 + i / 64)
        room = f"room for {per_cent} %, {name}"
        expected[f"found, {room}"] = 100 * found / sum(map(len, requests))
        expected[f"spared, {room}"] = 100 * spared / cost
with open(sys.argv[1], "w") as f:
    for r in requests:
        print(json.dumps({"timestamp": 0, "hash_ids": r}), file=f)
json.dump(expected, open(sys.argv[2], "w"))
PYTHON

expect 0 "$skymem" bench policies --trace "$work/trace.jsonl" --json
lines_hold "{r['case'] for r in rows} == set(json.load(open('$work/expected.json')))"
lines_hold "all(abs(r['value'] - json.load(open('$work/expected.json'))[r['case']]) < 1e-6
    for r in rows)"
lines_hold 'len(set(r["value"] for r in rows)) > 30' # the policies differ
expect 0 "$skymem" bench policies --trace "$work/trace.jsonl"

expect 2 "$skymem" bench policies
says "needs --trace"
expect 1 "$skymem" bench policies --trace "$work/none"
for wrong in '{"hash_ids": 5}' '{"hash_ids": [1, -1]}' '{"hash_ids": [10000000]}' \
    '{"hash_ids": ["a"]}' 'x'; do
    printf '{"hash_ids": [0]}\n%s\n' "$wrong" >"$work/wrong"
    expect 1 "$skymem" bench policies --trace "$work/wrong"
    says "request 2: needs hash_ids"
done
echo '{"hash_ids": []}' >"$work/wrong"
expect 1 "$skymem" bench policies --trace "$work/wrong"
says "no blocks are asked for"
finish
