#include "tier/disk/segments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "io/file.h"
#include "io/sync.h"

#define NAME         ".segment-%u"
#define NAME_BYTES   24
#define HEADS        16384u /* of chains of rows, by key */
#define NO_ROW       UINT32_MAX
#define ZEROS_BYTES  (1u << 20)
#define PATIENCE     SKY_MS(100)
#define SHARE        64 /* of the folder's limit: the most that one segment takes */
#define SLACK_SHARE  16
#define TABLE_BYTES  (SKY_SEGMENT_ROWS * SKY_SEGMENT_ROW_BYTES)
#define BITMAP_WORDS (SKY_SEGMENT_UNITS_MAX / 64)

typedef enum { ROW_FREE, ROW_RESERVED, ROW_LIVE, ROW_REPLACED } row_state;

typedef struct {
    sky_segment_row row;
    uint32_t next; /* in the chain of its key, as id_of */
    row_state state;
} known_row;

typedef struct {
    int fd;
    uint32_t number;
    uint32_t units;
    uint32_t units_free;
    uint32_t cursor; /* where the search for units goes on */
    bool owned;      /* locked by this process, which allocates here */
    uint64_t changes;
    uint64_t taken[BITMAP_WORDS];
    uint64_t punched[BITMAP_WORDS]; /* free, and without blocks */
    known_row rows[SKY_SEGMENT_ROWS];
} segment;

/* Invariant: of the rows of a key in a chain one is LIVE, that with the highest sequence. */
struct sky_disk_segments {
    sky_mutex mutex;
    int root;
    bool writable;
    bool removal_needs_sync; /* a replaced row was set to zero and may come back without a sync */
    uint32_t units_max;      /* of a new segment; 0: there are none here */
    uint64_t slack_units_max;
    uint64_t slack_units; /* free, and with blocks, in segments that are ours */
    uint64_t sequence;    /* the highest that was seen */
    uint32_t load;
    segment *all[SKY_SEGMENTS_MAX];
    uint32_t heads[HEADS];
};

sky_status sky_disk_segments_create(uint64_t bytes_max, sky_disk_segments **out) {
    sky_disk_segments *s = calloc(1, sizeof *s);
    if (!s)
        return SKY_E_NOMEM;
    uint64_t share = bytes_max / SHARE / SKY_SEGMENT_UNIT_BYTES;
    s->units_max = share < SKY_SEGMENT_UNITS_MIN   ? 0
                   : share > SKY_SEGMENT_UNITS_MAX ? SKY_SEGMENT_UNITS_MAX
                                                   : (uint32_t)share;
    s->slack_units_max = bytes_max / SLACK_SHARE / SKY_SEGMENT_UNIT_BYTES;
    s->root = SKY_FILE_NONE;
    memset(s->heads, 0xff, sizeof s->heads);
    sky_mutex_init(&s->mutex);
    *out = s;
    return SKY_OK;
}

/* ---- rows in memory ---- */

static uint32_t id_of(const segment *g, uint32_t row) {
    return g->number * SKY_SEGMENT_ROWS + row;
}

static known_row *row_of(sky_disk_segments *s, uint32_t id) {
    return &s->all[id / SKY_SEGMENT_ROWS]->rows[id % SKY_SEGMENT_ROWS];
}

static uint32_t *head_of(sky_disk_segments *s, const sky_key *key) {
    return &s->heads[sky_load_u32(key->bytes) % HEADS];
}

/* The row of a key with the highest sequence below `limit`, or NO_ROW. */
static uint32_t newest_below(sky_disk_segments *s, const sky_key *key, uint64_t limit) {
    uint32_t found = NO_ROW;
    uint64_t highest = 0;
    for (uint32_t id = *head_of(s, key); id != NO_ROW; id = row_of(s, id)->next) {
        const sky_segment_row *r = &row_of(s, id)->row;
        if (r->sequence < limit && r->sequence > highest && sky_key_equal(&r->key, key)) {
            highest = r->sequence;
            found = id;
        }
    }
    return found;
}

static uint32_t newest(sky_disk_segments *s, const sky_key *key) {
    return newest_below(s, key, UINT64_MAX);
}

static void mark_newest(sky_disk_segments *s, const sky_key *key) {
    uint32_t top = newest(s, key);
    for (uint32_t id = *head_of(s, key); id != NO_ROW; id = row_of(s, id)->next) {
        known_row *k = row_of(s, id);
        if (sky_key_equal(&k->row.key, key))
            k->state = id == top ? ROW_LIVE : ROW_REPLACED;
    }
}

static void row_link(sky_disk_segments *s, segment *g, uint32_t row) {
    known_row *k = &g->rows[row];
    uint32_t *head = head_of(s, &k->row.key);
    k->next = *head;
    *head = id_of(g, row);
    if (k->row.sequence > s->sequence)
        s->sequence = k->row.sequence;
    mark_newest(s, &k->row.key);
}

static void row_unlink(sky_disk_segments *s, segment *g, uint32_t row) {
    known_row *k = &g->rows[row];
    uint32_t *link = head_of(s, &k->row.key);
    while (*link != id_of(g, row))
        link = &row_of(s, *link)->next;
    *link = k->next;
    k->state = ROW_FREE;
    mark_newest(s, &k->row.key);
}

static bool is_linked(const known_row *k) {
    return k->state == ROW_LIVE || k->state == ROW_REPLACED;
}

/* ---- units ---- */

static bool bit(const uint64_t *map, uint32_t unit) {
    return map[unit / 64] >> unit % 64 & 1;
}

static void set_bits(uint64_t *map, uint32_t unit, uint32_t count, bool value) {
    for (uint32_t i = unit; i < unit + count; i++)
        map[i / 64] = value ? map[i / 64] | UINT64_C(1) << i % 64
                            : map[i / 64] & ~(UINT64_C(1) << i % 64);
}

static uint32_t count_bits(const uint64_t *map, uint32_t unit, uint32_t count) {
    uint32_t set = 0;
    for (uint32_t i = unit; i < unit + count; i++)
        set += bit(map, i);
    return set;
}

static void take_units(sky_disk_segments *s, segment *g, uint32_t unit, uint32_t count) {
    uint32_t holes = count_bits(g->punched, unit, count);
    set_bits(g->taken, unit, count, true);
    set_bits(g->punched, unit, count, false);
    g->units_free -= count;
    s->slack_units -= g->owned ? count - holes : 0;
}

static uint64_t data_at(uint32_t unit) {
    return SKY_SEGMENT_DATA_OFFSET + (uint64_t)unit * SKY_SEGMENT_UNIT_BYTES;
}

static void give_units(sky_disk_segments *s, segment *g, uint32_t unit, uint32_t count) {
    set_bits(g->taken, unit, count, false);
    g->units_free += count;
    if (!g->owned)
        return;
    if (s->slack_units + count > s->slack_units_max &&
        sky_file_punch(g->fd, data_at(unit), (uint64_t)count * SKY_SEGMENT_UNIT_BYTES) == SKY_OK)
        set_bits(g->punched, unit, count, true);
    else
        s->slack_units += count;
}

/* The first unit of so many that are free, or UINT32_MAX. */
static uint32_t find_units(segment *g, uint32_t count) {
    if (g->units_free < count)
        return UINT32_MAX;
    uint32_t run = 0, unit = g->cursor;
    for (uint32_t i = 0; i < g->units + count; i++, unit++) {
        if (unit == g->units)
            unit = run = 0;
        run = bit(g->taken, unit) ? 0 : run + 1;
        if (run == count) {
            g->cursor = unit + 1 == g->units ? 0 : unit + 1;
            return unit + 1 - count;
        }
    }
    return UINT32_MAX;
}

/* ---- rows on the disk ---- */

static sky_status read_row(const segment *g, uint32_t row, bool at_once, sky_segment_row *out) {
    uint8_t bytes[SKY_SEGMENT_ROW_BYTES];
    size_t got = sizeof bytes;
    const sky_span part = {bytes, sizeof bytes};
    sky_status status = SKY_OK;
    if (at_once && !sky_file_read_resident(g->fd, &part, 1, sky_segment_row_at(row)))
        return SKY_E_BUSY;
    if (!at_once)
        status = sky_file_read_at(g->fd, bytes, sizeof bytes, sky_segment_row_at(row), &got);
    if (status != SKY_OK)
        return status;
    return got == sizeof bytes ? sky_segment_row_decode(bytes, g->number, row, g->units, out)
                               : SKY_E_CORRUPT;
}

static bool same_row(const sky_segment_row *a, const sky_segment_row *b) {
    return a->sequence == b->sequence && a->unit == b->unit && a->unit_count == b->unit_count &&
           a->checksum == b->checksum && sky_key_equal(&a->key, &b->key);
}

/* What this process knows of a row is what the disk says.
 * Errors: SKY_MISS: it is not; SKY_E_BUSY */
static sky_status compare_row(const segment *g, uint32_t row, bool at_once) {
    sky_segment_row there;
    sky_status status = read_row(g, row, at_once, &there);
    if (status == SKY_OK)
        return same_row(&there, &g->rows[row].row) ? SKY_OK : SKY_MISS;
    return status == SKY_E_BUSY ? status : SKY_MISS;
}

/* No other process writes the row meanwhile. A file system without such locks has one process. */
static bool hold_row(const segment *g, uint32_t row) {
    sky_status status = sky_file_lock_range(g->fd, sky_segment_row_at(row), SKY_SEGMENT_ROW_BYTES,
                                            sky_now() + PATIENCE);
    return status != SKY_E_BUSY;
}

static void release_row(const segment *g, uint32_t row) {
    sky_file_unlock_range(g->fd, sky_segment_row_at(row), SKY_SEGMENT_ROW_BYTES);
}

/* Set a row to zero, unless it is another by now. */
static sky_status clear_row(const segment *g, uint32_t row) {
    static const uint8_t zeros[SKY_SEGMENT_ROW_BYTES];
    if (!hold_row(g, row))
        return SKY_E_IO;
    sky_status status = compare_row(g, row, false);
    if (status == SKY_OK)
        status = sky_file_write_at(g->fd, zeros, sizeof zeros, sky_segment_row_at(row));
    release_row(g, row);
    return status;
}

static sky_status write_row(segment *g, uint32_t row) {
    uint8_t bytes[SKY_SEGMENT_ROW_BYTES], changes[8];
    sky_segment_row_encode(&g->rows[row].row, g->number, row, bytes);
    sky_store_u64(changes, ++g->changes);
    if (!hold_row(g, row))
        return SKY_E_BUSY;
    sky_status status = sky_file_write_at(g->fd, bytes, sizeof bytes, sky_segment_row_at(row));
    release_row(g, row);
    if (status == SKY_OK) /* a hint */
        sky_file_write_at(g->fd, changes, sizeof changes, SKY_SEGMENT_CHANGES_AT);
    return status;
}

/* Forget a row and give its units back. */
static void drop_row(sky_disk_segments *s, segment *g, uint32_t row) {
    const sky_segment_row was = g->rows[row].row;
    row_unlink(s, g, row);
    give_units(s, g, was.unit, was.unit_count);
}

/* ---- segments on the disk ---- */

static uint64_t read_changes(const segment *g) {
    uint8_t bytes[8] = {0};
    size_t got;
    if (sky_file_read_at(g->fd, bytes, sizeof bytes, SKY_SEGMENT_CHANGES_AT, &got) != SKY_OK)
        return UINT64_MAX;
    return sky_load_u64(bytes);
}

static void adopt_row(sky_disk_segments *s, segment *g, uint32_t row, const uint8_t *bytes) {
    known_row *k = &g->rows[row];
    sky_segment_row there;
    if (k->state != ROW_FREE ||
        sky_segment_row_decode(bytes, g->number, row, g->units, &there) != SKY_OK ||
        count_bits(g->taken, there.unit, there.unit_count) > 0)
        return;
    k->row = there;
    take_units(s, g, there.unit, there.unit_count);
    row_link(s, g, row);
}

/* Know the rows as they stand on the disk. */
static sky_status reload(sky_disk_segments *s, segment *g) {
    uint8_t *table = calloc(1, TABLE_BYTES);
    size_t got;
    if (!table)
        return SKY_E_NOMEM;
    g->changes = read_changes(g);
    sky_status status = sky_file_read_at(g->fd, table, TABLE_BYTES, SKY_SEGMENT_HEAD_BYTES, &got);
    for (uint32_t row = 0; row < SKY_SEGMENT_ROWS && status == SKY_OK; row++) {
        sky_segment_row there;
        const uint8_t *bytes = table + (size_t)row * SKY_SEGMENT_ROW_BYTES;
        if (is_linked(&g->rows[row]) &&
            (sky_segment_row_decode(bytes, g->number, row, g->units, &there) != SKY_OK ||
             !same_row(&there, &g->rows[row].row)))
            drop_row(s, g, row);
    }
    for (uint32_t row = 0; row < SKY_SEGMENT_ROWS && status == SKY_OK; row++)
        adopt_row(s, g, row, table + (size_t)row * SKY_SEGMENT_ROW_BYTES);
    free(table);
    return status;
}

static void name_of(uint32_t number, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, NAME, (unsigned)number);
}

/* An open file as a segment, if it is one. Owner: the caller, with the descriptor */
static sky_status segment_make(uint32_t number, int fd, uint64_t bytes, segment **out) {
    uint8_t mark[SKY_SEGMENT_MARK_BYTES] = {0};
    uint32_t units;
    size_t got;
    sky_status status = sky_file_read_at(fd, mark, sizeof mark, 0, &got);
    if (status == SKY_OK)
        status = sky_segment_head_decode(number, mark, &units);
    if (status == SKY_OK && bytes < sky_segment_file_bytes(units))
        status = SKY_E_CORRUPT;
    if (status != SKY_OK)
        return status;
    segment *g = calloc(1, sizeof *g);
    if (!g)
        return SKY_E_NOMEM;
    g->fd = fd;
    g->number = number;
    g->units = g->units_free = units;
    *out = g;
    return SKY_OK;
}

/* Open a segment that exists. SKY_E_CORRUPT: what stands there is none, or is not finished. */
static sky_status open_segment(sky_disk_segments *s, uint32_t number) {
    char name[NAME_BYTES];
    sky_file_info info;
    int fd;
    name_of(number, name);
    sky_status status = sky_file_open_own(s->root, name,
                                          s->writable ? SKY_FILE_WRITE : SKY_FILE_READ, &fd, &info);
    if (status == SKY_OK) {
        status = segment_make(number, fd, info.bytes, &s->all[number]);
        if (status != SKY_OK)
            sky_file_close(fd);
    }
    return status == SKY_OK ? reload(s, s->all[number]) : status;
}

static void close_segment(sky_disk_segments *s, uint32_t number) {
    segment *g = s->all[number];
    if (!g)
        return;
    for (uint32_t row = 0; row < SKY_SEGMENT_ROWS; row++)
        if (is_linked(&g->rows[row]))
            row_unlink(s, g, row);
    sky_file_close(g->fd);
    free(g);
    s->all[number] = NULL;
}

static void close_all(sky_disk_segments *s) {
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++)
        close_segment(s, n);
    s->slack_units = 0;
    s->removal_needs_sync = false;
}

void sky_disk_segments_destroy(sky_disk_segments *s) {
    if (!s)
        return;
    close_all(s);
    sky_mutex_deinit(&s->mutex);
    free(s);
}

void sky_disk_segments_load(sky_disk_segments *s, int root, bool writable) {
    sky_mutex_lock(&s->mutex);
    close_all(s);
    s->root = root;
    s->writable = writable;
    s->load++;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++)
        if (open_segment(s, n) == SKY_MISS)
            break;
    sky_mutex_unlock(&s->mutex);
}

/* Those that came since: only the next number is asked for, past what is no segment. */
static bool open_new(sky_disk_segments *s) {
    bool any = false;
    sky_status status = SKY_OK;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX && status != SKY_MISS; n++) {
        if (s->all[n])
            continue;
        status = open_segment(s, n);
        any |= status == SKY_OK;
    }
    return any;
}

static bool refresh(sky_disk_segments *s) {
    bool any = false;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++) {
        segment *g = s->all[n];
        if (g && !g->owned && read_changes(g) != g->changes) {
            reload(s, g);
            any = true;
        }
    }
    return open_new(s) || any;
}

bool sky_disk_segments_refresh(sky_disk_segments *s) {
    sky_mutex_lock(&s->mutex);
    bool any = s->root >= 0 && refresh(s);
    sky_mutex_unlock(&s->mutex);
    return any;
}

/* ---- looking ---- */

static sky_disk_place place_of(sky_disk_segments *s, uint32_t id) {
    const sky_segment_row *r = &row_of(s, id)->row;
    return (sky_disk_place){.segment = id / SKY_SEGMENT_ROWS,
                            .row = id % SKY_SEGMENT_ROWS,
                            .unit_count = r->unit_count,
                            .base = data_at(r->unit),
                            .sequence = r->sequence,
                            .checksum = r->checksum,
                            .load = s->load};
}

static bool is_nameless(const segment *g) {
    sky_file_info info;
    return sky_file_stat_open(g->fd, &info) != SKY_OK || info.nameless;
}

static sky_status find_place(sky_disk_segments *s, const sky_key *key, bool at_once,
                             sky_disk_place *out) {
    uint32_t id;
    while ((id = newest(s, key)) != NO_ROW) {
        segment *g = s->all[id / SKY_SEGMENT_ROWS];
        uint32_t row = id % SKY_SEGMENT_ROWS;
        sky_status status = is_nameless(g) ? SKY_MISS : compare_row(g, row, at_once);
        if (status == SKY_OK)
            *out = place_of(s, id);
        if (status != SKY_MISS)
            return status;
        drop_row(s, g, row);
    }
    return SKY_MISS;
}

sky_status sky_disk_segments_find(sky_disk_segments *s, const sky_key *key, bool at_once,
                                  sky_disk_place *out, int *fd) {
    if (!at_once)
        sky_mutex_lock(&s->mutex);
    else if (!sky_mutex_try_lock(&s->mutex))
        return SKY_E_BUSY;
    sky_status status = find_place(s, key, at_once, out);
    if (status == SKY_OK)
        status = sky_file_copy(s->all[out->segment]->fd, fd);
    sky_mutex_unlock(&s->mutex);
    return status;
}

bool sky_disk_segments_stand(sky_disk_segments *s, const sky_key *key, const sky_disk_place *p) {
    sky_disk_place now;
    sky_mutex_lock(&s->mutex);
    bool stands = find_place(s, key, false, &now) == SKY_OK && now.sequence == p->sequence &&
                  now.row == p->row && now.segment == p->segment && now.load == p->load;
    sky_mutex_unlock(&s->mutex);
    return stands;
}

bool sky_disk_segments_next(sky_disk_segments *s, bool replaced, uint32_t *cursor, sky_key *key) {
    bool found = false;
    sky_mutex_lock(&s->mutex);
    for (; !found && *cursor < SKY_SEGMENTS_MAX * SKY_SEGMENT_ROWS; ++*cursor) {
        if (!s->all[*cursor / SKY_SEGMENT_ROWS])
            continue;
        const known_row *k = row_of(s, *cursor);
        found = k->state == (replaced ? ROW_REPLACED : ROW_LIVE);
        *key = k->row.key;
    }
    sky_mutex_unlock(&s->mutex);
    return found;
}

/* ---- room ---- */

static bool own(sky_disk_segments *s, segment *g) {
    if (g->owned)
        return true;
    if (sky_file_lock(g->fd, 0) != SKY_OK)
        return false;
    g->owned = true;
    s->slack_units += g->units_free;
    return reload(s, g) == SKY_OK;
}

static uint32_t free_row(const segment *g) {
    uint32_t row = 0;
    while (row < SKY_SEGMENT_ROWS && g->rows[row].state != ROW_FREE)
        row++;
    return row;
}

static sky_status take_place(sky_disk_segments *s, segment *g, uint32_t count,
                             sky_disk_place *out) {
    uint32_t row = free_row(g);
    uint32_t unit = row < SKY_SEGMENT_ROWS ? find_units(g, count) : UINT32_MAX;
    if (unit == UINT32_MAX)
        return SKY_E_FULL;
    if (count_bits(g->punched, unit, count) > 0 &&
        sky_file_fill(g->fd, data_at(unit), (uint64_t)count * SKY_SEGMENT_UNIT_BYTES) == SKY_E_FULL)
        return SKY_E_FULL;
    take_units(s, g, unit, count);
    g->rows[row].state = ROW_RESERVED;
    g->rows[row].row = (sky_segment_row){.unit = unit, .unit_count = count};
    *out = (sky_disk_place){.segment = g->number,
                            .row = row,
                            .unit_count = count,
                            .base = data_at(unit),
                            .load = s->load};
    return SKY_OK;
}

/* In one that exists: ours before those that nobody has. */
static sky_status take_anywhere(sky_disk_segments *s, uint32_t count, sky_disk_place *out) {
    for (int ours = 1; ours >= 0; ours--) {
        for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++) {
            segment *g = s->all[n];
            if (!g || g->owned != ours || !own(s, g))
                continue;
            if (is_nameless(g))
                return SKY_E_IO;
            if (take_place(s, g, count, out) == SKY_OK)
                return SKY_OK;
        }
    }
    return SKY_E_FULL;
}

/* All blocks are written once, so that a sync of what is stored here has none to note. */
static sky_status write_zeros(int fd, uint64_t bytes) {
    uint8_t *zeros = calloc(1, ZEROS_BYTES);
    sky_status status = zeros ? sky_file_reserve(fd, bytes) : SKY_E_NOMEM;
    for (uint64_t at = 0; at < bytes && status == SKY_OK; at += ZEROS_BYTES) {
        uint64_t left = bytes - at;
        status = sky_file_write_at(fd, zeros, left < ZEROS_BYTES ? (size_t)left : ZEROS_BYTES, at);
    }
    free(zeros);
    return status;
}

/* Its head comes last: what a crash leaves before is no segment, and is made again. */
static sky_status format_segment(const sky_disk_segments *s, uint32_t number, int fd) {
    uint8_t mark[SKY_SEGMENT_MARK_BYTES];
    uint32_t units = SKY_SEGMENT_UNITS_MIN;
    for (uint32_t n = 0; n < number && units < s->units_max; n++)
        units *= 2;
    units = units < s->units_max ? units : s->units_max;
    sky_segment_head_encode(number, units, mark);
    sky_status status = write_zeros(fd, sky_segment_file_bytes(units));
    if (status == SKY_OK)
        status = sky_file_sync(fd);
    if (status == SKY_OK)
        status = sky_file_write_at(fd, mark, sizeof mark, 0);
    if (status == SKY_OK)
        status = sky_file_sync(fd);
    return status == SKY_OK ? sky_folder_sync(s->root) : status;
}

/* Another process may be at it as well: it has the lock then, or had it and the head is there. */
static sky_status make_segment(sky_disk_segments *s, uint32_t number) {
    char name[NAME_BYTES];
    sky_file_info info;
    int fd;
    name_of(number, name);
    sky_status status = sky_file_open_own(s->root, name, SKY_FILE_WRITE | SKY_FILE_CREATE, &fd,
                                          &info);
    if (status != SKY_OK)
        return status;
    status = sky_file_lock(fd, 0);
    if (status == SKY_OK)
        status = sky_file_stat_open(fd, &info);
    bool made = status == SKY_OK && segment_make(number, fd, info.bytes, &s->all[number]) == SKY_OK;
    if (!made && status == SKY_OK) {
        status = info.nameless ? SKY_E_BUSY : format_segment(s, number, fd);
        if (status == SKY_OK)
            status = sky_file_stat_open(fd, &info);
        if (status == SKY_OK)
            status = segment_make(number, fd, info.bytes, &s->all[number]);
        if (status != SKY_OK && !info.nameless)
            sky_file_remove(s->root, name);
    }
    if (status != SKY_OK) {
        sky_file_close(fd);
        return status;
    }
    s->all[number]->owned = true;
    s->slack_units += s->all[number]->units_free;
    return reload(s, s->all[number]);
}

static sky_status make_next(sky_disk_segments *s) {
    sky_status status = SKY_E_FULL;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX && status != SKY_OK; n++) {
        if (s->all[n])
            continue;
        status = make_segment(s, n);
        if (status != SKY_E_BUSY && status != SKY_E_CORRUPT)
            break;
    }
    return status;
}

static sky_status reserve(sky_disk_segments *s, uint32_t count, sky_disk_place *out) {
    sky_status status = take_anywhere(s, count, out);
    if (status != SKY_E_FULL)
        return status;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++) /* others may have removed something */
        if (s->all[n] && s->all[n]->owned)
            reload(s, s->all[n]);
    status = take_anywhere(s, count, out);
    if (status == SKY_E_FULL)
        status = make_next(s);
    else
        return status;
    return status == SKY_OK ? take_anywhere(s, count, out) : status;
}

sky_status sky_disk_segments_reserve(sky_disk_segments *s, uint64_t file_bytes, sky_disk_place *out,
                                     int *fd) {
    uint64_t count = (file_bytes + SKY_SEGMENT_UNIT_BYTES - 1) / SKY_SEGMENT_UNIT_BYTES;
    if (count > SKY_SEGMENT_ENTRY_UNITS_MAX || s->units_max == 0)
        return SKY_E_UNSUPPORTED;
    sky_mutex_lock(&s->mutex);
    bool usable = s->writable && s->sequence < SKY_SEGMENT_SEQUENCE_MAX;
    sky_status status = usable ? reserve(s, (uint32_t)count, out) : SKY_E_UNSUPPORTED;
    if (status == SKY_OK)
        status = sky_file_copy(s->all[out->segment]->fd, fd);
    sky_mutex_unlock(&s->mutex);
    return status;
}

sky_status sky_disk_segments_open(sky_disk_segments *s, const sky_disk_place *p, int *fd) {
    sky_mutex_lock(&s->mutex);
    const segment *g = p->load == s->load ? s->all[p->segment] : NULL;
    sky_status status = g ? sky_file_copy(g->fd, fd) : SKY_E_IO;
    sky_mutex_unlock(&s->mutex);
    return status;
}

/* ---- entries that come and go ---- */

sky_status sky_disk_segments_publish(sky_disk_segments *s, const sky_key *key, sky_disk_place *p,
                                     sky_disk_place *old) {
    sky_status status = SKY_E_IO;
    sky_mutex_lock(&s->mutex);
    segment *g = p->load == s->load ? s->all[p->segment] : NULL;
    if (g && !is_nameless(g)) {
        uint32_t before = newest(s, key);
        known_row *k = &g->rows[p->row];
        *old = before == NO_ROW ? (sky_disk_place){0} : place_of(s, before);
        k->row.key = *key;
        k->row.sequence = s->sequence + 1;
        k->row.checksum = p->checksum;
        status = write_row(g, p->row);
        if (status == SKY_OK) {
            p->sequence = k->row.sequence;
            row_link(s, g, p->row);
        }
    }
    sky_mutex_unlock(&s->mutex);
    return status;
}

void sky_disk_segments_release(sky_disk_segments *s, const sky_disk_place *p) {
    sky_mutex_lock(&s->mutex);
    segment *g = p->load == s->load ? s->all[p->segment] : NULL;
    known_row *k = g ? &g->rows[p->row] : NULL;
    if (k && p->sequence == 0 && k->state == ROW_RESERVED) {
        k->state = ROW_FREE;
        give_units(s, g, k->row.unit, k->row.unit_count);
    } else if (k && k->state == ROW_REPLACED && k->row.sequence == p->sequence) {
        s->removal_needs_sync |= clear_row(g, p->row) == SKY_OK;
        drop_row(s, g, p->row);
    }
    sky_mutex_unlock(&s->mutex);
}

static sky_status sync_all(sky_disk_segments *s) {
    sky_status status = SKY_OK;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX && status == SKY_OK; n++)
        if (s->all[n])
            status = sky_file_sync(s->all[n]->fd);
    return status;
}

/* Set all rows of a key but its newest to zero, the oldest first: whatever happens meanwhile, none
 * comes back that another had replaced. */
static sky_status clear_replaced(sky_disk_segments *s, const sky_key *key) {
    uint32_t top = newest(s, key), id = NO_ROW;
    sky_status status = SKY_OK;
    while (top != NO_ROW && status != SKY_E_IO) {
        uint32_t oldest = NO_ROW;
        uint64_t limit = row_of(s, top)->row.sequence;
        while ((id = newest_below(s, key, limit)) != NO_ROW) {
            oldest = id;
            limit = row_of(s, id)->row.sequence;
        }
        if (oldest == NO_ROW)
            return SKY_OK;
        segment *g = s->all[oldest / SKY_SEGMENT_ROWS];
        status = clear_row(g, oldest % SKY_SEGMENT_ROWS);
        s->removal_needs_sync = true;
        drop_row(s, g, oldest % SKY_SEGMENT_ROWS);
    }
    return status;
}

static sky_status remove_key(sky_disk_segments *s, const sky_key *key, bool synced,
                             uint64_t *freed_bytes) {
    sky_disk_place p;
    sky_status status = find_place(s, key, false, &p);
    if (status != SKY_OK)
        return status;
    if (!s->writable)
        return SKY_E_DENIED;
    clear_replaced(s, key);
    if (s->removal_needs_sync) {
        status = sync_all(s);
        s->removal_needs_sync = status != SKY_OK;
    }
    segment *g = s->all[p.segment];
    if (status == SKY_OK)
        status = clear_row(g, p.row);
    if (status != SKY_OK)
        return status == SKY_MISS ? SKY_MISS : SKY_E_IO;
    drop_row(s, g, p.row);
    *freed_bytes = (uint64_t)p.unit_count * SKY_SEGMENT_UNIT_BYTES;
    return synced ? sky_file_sync(g->fd) : SKY_OK;
}

/* Two rows of one key with one sequence are not ours: both go. */
sky_status sky_disk_segments_remove(sky_disk_segments *s, const sky_key *key, bool synced,
                                    uint64_t *freed_bytes) {
    uint64_t more;
    sky_mutex_lock(&s->mutex);
    sky_status status = remove_key(s, key, synced, freed_bytes);
    for (sky_status next = status; next == SKY_OK;)
        next = remove_key(s, key, synced, &more);
    sky_mutex_unlock(&s->mutex);
    return status;
}

sky_status sky_disk_segments_sync(sky_disk_segments *s, const sky_key *key) {
    sky_disk_place p;
    sky_mutex_lock(&s->mutex);
    sky_status status = find_place(s, key, false, &p);
    if (status == SKY_OK)
        status = sky_file_sync(s->all[p.segment]->fd);
    sky_mutex_unlock(&s->mutex);
    return status;
}

void sky_disk_segments_settle(sky_disk_segments *s, const sky_key *key, bool keep) {
    sky_disk_place p;
    sky_mutex_lock(&s->mutex);
    if (s->writable && find_place(s, key, false, &p) == SKY_OK) {
        segment *g = s->all[p.segment];
        if (!keep && clear_row(g, p.row) == SKY_OK)
            drop_row(s, g, p.row);
        else if (keep && sky_file_sync(g->fd) == SKY_OK)
            clear_replaced(s, key);
    }
    sky_mutex_unlock(&s->mutex);
}
