#include "tier/disk/segments.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "io/clock.h"
#include "io/file.h"
#include "io/sync.h"
#include "tier/disk/segment_file.h"

#define HEADS        16384u /* of chains of rows, by key */
#define NO_ROW       UINT32_MAX
#define SHARE        64 /* of the folder's limit: the most that one segment takes */
#define SLACK_SHARE  16
#define CLEARED_BITS 65536
#define FULL_NS      SKY_MS(500) /* what others remove is seen so late */
#define TABLE_BYTES  (SKY_SEGMENT_ROWS * SKY_SEGMENT_ROW_BYTES)

#define SEQUENCES_A_MS  (UINT64_C(1) << 19)
#define SEQUENCE_MS_MAX (SKY_SEGMENT_SEQUENCE_MAX / SEQUENCES_A_MS / 2) /* in the year 2109 */

static_assert(SKY_SEGMENTS_MAX <= 64, "unread has a bit for each");

/* Invariant: of the rows of a key in a chain one is LIVE, that with the highest sequence. */
struct sky_disk_segments {
    sky_mutex mutex;
    int root;
    bool writable;
    uint64_t unread; /* one bit for each segment that could not be read: any key may stand there */
    uint64_t cleared[CLEARED_BITS / 64]; /* keys of rows that may come back, hashed */
    uint32_t units_max;                  /* of a new segment; 0: there are none here */
    uint64_t slack_units_max;
    uint64_t slack_units; /* free, and with blocks, in segments that are ours */
    uint64_t sequence;    /* the highest that was seen */
    uint32_t load;
    sky_time full_until; /* there was no room: not looked for again before; 0: look */
    sky_segment *all[SKY_SEGMENTS_MAX];
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

static uint32_t id_of(const sky_segment *g, uint32_t row) {
    return g->number * SKY_SEGMENT_ROWS + row;
}

static sky_segment_known *row_of(sky_disk_segments *s, uint32_t id) {
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

static uint32_t newest_row(sky_disk_segments *s, const sky_key *key) {
    return newest_below(s, key, UINT64_MAX);
}

static void mark_newest(sky_disk_segments *s, const sky_key *key) {
    uint32_t top = newest_row(s, key);
    for (uint32_t id = *head_of(s, key); id != NO_ROW; id = row_of(s, id)->next) {
        sky_segment_known *k = row_of(s, id);
        if (sky_key_equal(&k->row.key, key))
            k->state = id == top ? SKY_ROW_LIVE : SKY_ROW_REPLACED;
    }
}

static void row_link(sky_disk_segments *s, sky_segment *g, uint32_t row) {
    sky_segment_known *k = &g->rows[row];
    uint32_t *head = head_of(s, &k->row.key);
    k->next = *head;
    *head = id_of(g, row);
    if (k->row.sequence > s->sequence)
        s->sequence = k->row.sequence;
    mark_newest(s, &k->row.key);
}

static void row_unlink(sky_disk_segments *s, sky_segment *g, uint32_t row) {
    sky_segment_known *k = &g->rows[row];
    uint32_t *link = head_of(s, &k->row.key);
    while (*link != id_of(g, row))
        link = &row_of(s, *link)->next;
    *link = k->next;
    k->state = SKY_ROW_FREE;
    mark_newest(s, &k->row.key);
}

static bool is_linked(const sky_segment_known *k) {
    return k->state == SKY_ROW_LIVE || k->state == SKY_ROW_REPLACED;
}

/* ---- units ---- */

static void take_units(sky_disk_segments *s, sky_segment *g, uint32_t unit, uint32_t count) {
    uint32_t with_blocks = sky_segment_take_units(g, unit, count);
    s->slack_units -= g->owned ? with_blocks : 0;
}

static void give_units(sky_disk_segments *s, sky_segment *g, uint32_t unit, uint32_t count) {
    bool too_many = g->owned && s->slack_units + count > s->slack_units_max;
    bool punched = sky_segment_give_units(g, unit, count, too_many);
    s->full_until = g->owned ? 0 : s->full_until;
    s->slack_units += g->owned && !punched ? count : 0;
}

/* Forget a row and give its units back. */
static void drop_row(sky_disk_segments *s, sky_segment *g, uint32_t row) {
    const sky_segment_row was = g->rows[row].row;
    row_unlink(s, g, row);
    give_units(s, g, was.unit, was.unit_count);
}

/* For keys with one bit, a removal syncs once more than it has to. */
static uint64_t *cleared_bit(sky_disk_segments *s, const sky_key *key, uint64_t *mask) {
    uint32_t number = sky_load_u32(key->bytes + 4) % CLEARED_BITS;
    *mask = UINT64_C(1) << number % 64;
    return &s->cleared[number / 64];
}

/* A row was cleared, by this process or another: it may come back until a sync, which a removal of
 * its key begins with. */
static void note_cleared(sky_disk_segments *s, sky_segment *g, uint32_t row) {
    uint64_t mask;
    *cleared_bit(s, &g->rows[row].row.key, &mask) |= mask;
    g->stale = true;
}

/* A row does not stand on the disk any more. */
static void drop_cleared(sky_disk_segments *s, sky_segment *g, uint32_t row) {
    note_cleared(s, g, row);
    drop_row(s, g, row);
}

/* ---- segments on the disk ---- */

static void adopt_row(sky_disk_segments *s, sky_segment *g, uint32_t row, const uint8_t *bytes) {
    sky_segment_known *k = &g->rows[row];
    sky_segment_row there;
    if (k->state != SKY_ROW_FREE ||
        sky_segment_row_decode(bytes, g->number, row, g->units, &there) != SKY_OK ||
        !sky_segment_units_free(g, there.unit, there.unit_count))
        return;
    k->row = there;
    take_units(s, g, there.unit, there.unit_count);
    row_link(s, g, row);
}

/* What is no segment, or may not be opened, holds nothing; what fails may hold anything. */
static void note_read(sky_disk_segments *s, uint32_t number, sky_status status) {
    const uint64_t bit = UINT64_C(1) << number;
    bool failed = status == SKY_E_IO || status == SKY_E_NOMEM;
    s->unread = failed ? s->unread | bit : s->unread & ~bit;
}

/* Read the rows again, if that can be. */
static sky_status reload_rows(sky_disk_segments *s, sky_segment *g) {
    uint8_t *table = calloc(1, TABLE_BYTES);
    size_t got;
    if (!table)
        return SKY_E_NOMEM;
    g->changes = sky_segment_changes(g);
    sky_status status = sky_file_read_at(g->fd, table, TABLE_BYTES, SKY_SEGMENT_HEAD_BYTES, &got);
    for (uint32_t row = 0; row < SKY_SEGMENT_ROWS && status == SKY_OK; row++) {
        sky_segment_row there;
        const uint8_t *bytes = table + (size_t)row * SKY_SEGMENT_ROW_BYTES;
        if (is_linked(&g->rows[row]) &&
            (sky_segment_row_decode(bytes, g->number, row, g->units, &there) != SKY_OK ||
             !sky_segment_row_same(&there, &g->rows[row].row)))
            drop_cleared(s, g, row);
    }
    for (uint32_t row = 0; row < SKY_SEGMENT_ROWS && status == SKY_OK; row++)
        adopt_row(s, g, row, table + (size_t)row * SKY_SEGMENT_ROW_BYTES);
    free(table);
    return status;
}

/* Another process, now or before, may have cleared any row without a sync. */
static void distrust_cleared(sky_disk_segments *s) {
    memset(s->cleared, 0xff, sizeof s->cleared);
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++)
        if (s->all[n])
            s->all[n]->stale = true;
}

/* Know the rows as they stand on the disk. Those of a segment of ours are known in any case. */
static sky_status segment_reload(sky_disk_segments *s, sky_segment *g) {
    sky_status status = reload_rows(s, g);
    if (!g->owned) {
        note_read(s, g->number, status);
        distrust_cleared(s);
    }
    return status;
}

/* Open a segment that exists. SKY_E_CORRUPT: what stands there is none, or is not finished. */
static sky_status open_segment(sky_disk_segments *s, uint32_t number) {
    char name[SKY_SEGMENT_NAME_BYTES];
    sky_file_info info;
    int fd;
    sky_segment_name(number, name);
    sky_status status = sky_file_open_own(s->root, name,
                                          s->writable ? SKY_FILE_WRITE : SKY_FILE_READ, &fd, &info);
    if (status == SKY_OK) {
        status = sky_segment_make(number, fd, info.bytes, &s->all[number]);
        if (status != SKY_OK)
            sky_file_close(fd);
    }
    if (status == SKY_OK)
        return segment_reload(s, s->all[number]);
    note_read(s, number, status);
    return status;
}

/* Free units that have blocks. */
static uint32_t slack_of(const sky_segment *g) {
    return g->units_free - sky_segment_holes(g, 0, g->units);
}

static void close_segment(sky_disk_segments *s, uint32_t number) {
    sky_segment *g = s->all[number];
    if (!g)
        return;
    for (uint32_t row = 0; row < SKY_SEGMENT_ROWS; row++)
        if (is_linked(&g->rows[row]))
            row_unlink(s, g, row);
    s->slack_units -= g->owned ? slack_of(g) : 0;
    sky_file_close(g->fd);
    free(g);
    s->all[number] = NULL;
}

static void close_all(sky_disk_segments *s) {
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++)
        close_segment(s, n);
    s->slack_units = s->unread = 0;
    memset(s->cleared, 0, sizeof s->cleared);
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

/* Those that came since: only the next number is asked for, past what is no segment; and those that
 * could not be opened. */
static bool open_new(sky_disk_segments *s) {
    bool any = false;
    sky_status status = SKY_OK;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX && (status != SKY_MISS || s->unread >> n); n++) {
        if (s->all[n])
            continue;
        status = open_segment(s, n);
        any |= status == SKY_OK;
    }
    return any;
}

static bool segments_refresh(sky_disk_segments *s) {
    bool any = false;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++) {
        sky_segment *g = s->all[n];
        bool unread = s->unread >> n & 1;
        if (!g || g->owned)
            continue;
        if (unread && sky_segment_is_gone(g))
            close_segment(s, n);
        else if (unread || sky_segment_changes(g) != g->changes)
            any |= segment_reload(s, g) == SKY_OK;
    }
    return open_new(s) || any;
}

bool sky_disk_segments_refresh(sky_disk_segments *s) {
    sky_mutex_lock(&s->mutex);
    const uint64_t unread = s->unread;
    bool any = s->root >= 0 && (segments_refresh(s) || s->unread != unread);
    sky_mutex_unlock(&s->mutex);
    return any;
}

bool sky_disk_segments_known(sky_disk_segments *s) {
    sky_mutex_lock(&s->mutex);
    if (s->unread)
        segments_refresh(s);
    bool known = s->unread == 0;
    sky_mutex_unlock(&s->mutex);
    return known;
}

/* ---- looking ---- */

static sky_disk_place place_of(sky_disk_segments *s, uint32_t id) {
    const sky_segment_row *r = &row_of(s, id)->row;
    return (sky_disk_place){.segment = id / SKY_SEGMENT_ROWS,
                            .row = id % SKY_SEGMENT_ROWS,
                            .unit_count = r->unit_count,
                            .base = sky_segment_data_at(r->unit),
                            .sequence = r->sequence,
                            .checksum = r->checksum,
                            .load = s->load};
}

static sky_status find_place(sky_disk_segments *s, const sky_key *key, bool at_once,
                             sky_disk_place *out) {
    uint32_t id;
    while ((id = newest_row(s, key)) != NO_ROW) {
        sky_segment *g = s->all[id / SKY_SEGMENT_ROWS];
        uint32_t row = id % SKY_SEGMENT_ROWS;
        sky_status status = sky_segment_is_gone(g) ? SKY_MISS
                                                   : sky_segment_row_compare(g, row, at_once);
        if (status == SKY_OK)
            *out = place_of(s, id);
        if (status != SKY_MISS)
            return status;
        drop_cleared(s, g, row);
    }
    return s->unread ? SKY_E_IO : SKY_MISS;
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

void sky_disk_segments_shrink(sky_disk_segments *s) {
    sky_mutex_lock(&s->mutex);
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++)
        if (s->all[n] && s->all[n]->owned)
            s->slack_units -= sky_segment_punch_free(s->all[n]);
    sky_mutex_unlock(&s->mutex);
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
        const sky_segment_known *k = row_of(s, *cursor);
        found = k->state == (replaced ? SKY_ROW_REPLACED : SKY_ROW_LIVE);
        *key = k->row.key;
    }
    sky_mutex_unlock(&s->mutex);
    return found;
}

/* ---- room ---- */

/* Its rows are read once nobody else writes any: without them nothing is free here.
 * Errors: SKY_E_BUSY (another process has it), SKY_E_IO, SKY_E_NOMEM */
static sky_status segment_own(sky_disk_segments *s, sky_segment *g) {
    sky_status status = g->owned ? SKY_OK : sky_file_lock(g->fd, 0);
    if (g->owned || status != SKY_OK)
        return status;
    status = segment_reload(s, g);
    g->owned = status == SKY_OK;
    if (g->owned)
        s->slack_units += slack_of(g);
    else
        sky_file_unlock(g->fd);
    return status;
}

static uint32_t free_row(const sky_segment *g) {
    uint32_t row = 0;
    while (row < SKY_SEGMENT_ROWS && g->rows[row].state != SKY_ROW_FREE)
        row++;
    return row;
}

/* A place whose old entry somebody is about to write to is left alone. */
static sky_status take_place(sky_disk_segments *s, sky_segment *g, uint32_t count,
                             sky_disk_place *out) {
    uint32_t row = free_row(g);
    uint32_t unit = row < SKY_SEGMENT_ROWS ? sky_segment_find_units(g, count) : UINT32_MAX;
    if (unit == UINT32_MAX || sky_segment_is_held(g, unit, count))
        return SKY_E_FULL;
    if (sky_segment_holes(g, unit, count) > 0 &&
        sky_file_fill(g->fd, sky_segment_data_at(unit), (uint64_t)count * SKY_SEGMENT_UNIT_BYTES) ==
            SKY_E_FULL)
        return SKY_E_FULL;
    sky_segment_zero_ahead(g, unit + count);
    take_units(s, g, unit, count);
    g->rows[row].state = SKY_ROW_RESERVED;
    g->rows[row].row = (sky_segment_row){.unit = unit, .unit_count = count};
    *out = (sky_disk_place){.segment = g->number,
                            .row = row,
                            .unit_count = count,
                            .base = sky_segment_data_at(unit),
                            .load = s->load};
    return SKY_OK;
}

/* In one that exists: ours before those that nobody has. One that was removed or cut short is
 * forgotten. */
static sky_status take_anywhere(sky_disk_segments *s, uint32_t count, sky_disk_place *out) {
    for (int ours = 1; ours >= 0; ours--) {
        for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++) {
            sky_segment *g = s->all[n];
            if (!g || g->owned != ours || segment_own(s, g) != SKY_OK)
                continue;
            if (sky_segment_is_gone(g)) {
                close_segment(s, n);
                s->load++; /* places in it are none */
                continue;
            }
            if (take_place(s, g, count, out) == SKY_OK)
                return SKY_OK;
        }
    }
    return SKY_E_FULL;
}

/* An open file as a segment, with its lock. One that is none, or is not finished, is made again. */
static sky_status make_at(sky_disk_segments *s, uint32_t number, const char *name, int fd) {
    sky_file_info info;
    sky_segment **out = &s->all[number];
    sky_status status = sky_file_stat_open(fd, &info);
    if (status == SKY_OK)
        status = sky_segment_make(number, fd, info.bytes, out);
    if (status != SKY_E_CORRUPT)
        return status;
    if (info.nameless)
        return SKY_E_BUSY;
    status = sky_segment_format(number, s->units_max, s->root, fd);
    if (status == SKY_OK)
        status = sky_file_stat_open(fd, &info);
    if (status == SKY_OK)
        status = sky_segment_make(number, fd, info.bytes, out);
    if (status != SKY_OK && !info.nameless)
        sky_file_remove(s->root, name);
    return status;
}

/* Another process may be at it as well: it has the lock then, or had it and the head is there. */
static sky_status make_segment(sky_disk_segments *s, uint32_t number) {
    char name[SKY_SEGMENT_NAME_BYTES];
    sky_file_info info;
    int fd;
    sky_segment_name(number, name);
    sky_status status = sky_file_open_own(s->root, name, SKY_FILE_WRITE | SKY_FILE_CREATE, &fd,
                                          &info);
    if (status != SKY_OK)
        return status;
    status = sky_file_lock(fd, 0);
    if (status == SKY_OK)
        status = make_at(s, number, name, fd);
    if (status == SKY_OK)
        return segment_own(s, s->all[number]);
    sky_file_close(fd);
    return status;
}

/* Small entries use up rows before units: the blocks of what is then free for nobody go back. */
static void give_back_useless(sky_disk_segments *s) {
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++)
        if (s->all[n] && s->all[n]->owned && free_row(s->all[n]) == SKY_SEGMENT_ROWS)
            s->slack_units -= sky_segment_punch_free(s->all[n]);
}

/* No segment more while too many units are free. */
static sky_status make_next(sky_disk_segments *s) {
    sky_status status = SKY_E_FULL;
    give_back_useless(s);
    if (s->slack_units > s->slack_units_max)
        return SKY_E_FULL;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX && status != SKY_OK; n++) {
        if (s->all[n])
            continue;
        status = make_segment(s, n);
        if (status != SKY_E_BUSY && status != SKY_E_CORRUPT)
            break;
    }
    return status;
}

static sky_status reserve_units(sky_disk_segments *s, uint32_t count, sky_disk_place *out) {
    if (s->full_until && sky_now() < s->full_until)
        return SKY_E_FULL;
    sky_status status = take_anywhere(s, count, out);
    if (status != SKY_E_FULL)
        return status;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX; n++) /* others may have removed something */
        if (s->all[n] && s->all[n]->owned)
            segment_reload(s, s->all[n]);
    status = take_anywhere(s, count, out);
    if (status != SKY_E_FULL)
        return status;
    status = make_next(s);
    if (status == SKY_OK)
        return take_anywhere(s, count, out);
    s->full_until = status == SKY_E_FULL ? sky_now() + FULL_NS : 0;
    return status == SKY_MISS ? SKY_E_IO : status; /* the folder has gone */
}

/* A segment's file, open once more. */
static sky_status open_again(const sky_disk_segments *s, const sky_segment *g, int *fd) {
    char name[SKY_SEGMENT_NAME_BYTES];
    sky_file_info info;
    sky_segment_name(g->number, name);
    sky_status status = sky_file_open_own(s->root, name, SKY_FILE_WRITE, fd, &info);
    if (status != SKY_OK)
        return SKY_E_IO;
    if (!sky_file_replaced(g->fd, s->root, name))
        return SKY_OK;
    sky_file_close(*fd);
    return SKY_E_IO;
}

static void free_place(sky_disk_segments *s, sky_segment *g, uint32_t row) {
    sky_segment_known *k = &g->rows[row];
    k->state = SKY_ROW_FREE;
    give_units(s, g, k->row.unit, k->row.unit_count);
}

sky_status sky_disk_segments_reserve(sky_disk_segments *s, uint64_t file_bytes, sky_disk_place *out,
                                     int *fd) {
    uint64_t count = (file_bytes + SKY_SEGMENT_UNIT_BYTES - 1) / SKY_SEGMENT_UNIT_BYTES;
    if (count > SKY_SEGMENT_ENTRY_UNITS_MAX || s->units_max == 0)
        return SKY_E_UNSUPPORTED;
    sky_mutex_lock(&s->mutex);
    bool usable = s->writable && s->sequence < SKY_SEGMENT_SEQUENCE_MAX;
    sky_status status = usable ? reserve_units(s, (uint32_t)count, out) : SKY_E_UNSUPPORTED;
    if (status == SKY_OK) {
        sky_segment *g = s->all[out->segment];
        status = open_again(s, g, fd);
        if (status != SKY_OK)
            free_place(s, g, out->row);
    }
    sky_mutex_unlock(&s->mutex);
    return status;
}

sky_status sky_disk_segments_open(sky_disk_segments *s, const sky_disk_place *p, int *fd) {
    sky_mutex_lock(&s->mutex);
    const sky_segment *g = p->load == s->load ? s->all[p->segment] : NULL;
    sky_status status = g ? sky_file_copy(g->fd, fd) : SKY_E_IO;
    sky_mutex_unlock(&s->mutex);
    return status;
}

/* ---- entries that come and go ---- */

/* Above all that were seen; and by the clock above those of before that were not: a row that
 * another process cleared comes back after a power failure, unless that was synced. */
static uint64_t next_sequence(const sky_disk_segments *s) {
    const sky_clock *clock = sky_clock_system();
    int64_t ms = clock->wall_ms(clock);
    uint64_t by_time = ms > 0 ? (uint64_t)ms : 0;
    by_time = by_time < SEQUENCE_MS_MAX ? by_time : SEQUENCE_MS_MAX; /* it may be wrong */
    by_time *= SEQUENCES_A_MS;
    return by_time > s->sequence ? by_time : s->sequence + 1;
}

/* Write the row above all that stand for the key, also those that other processes wrote. */
static sky_status write_above(sky_disk_segments *s, sky_segment *g, const sky_key *key,
                              sky_disk_place *p, sky_disk_place *old) {
    segments_refresh(s);
    if (s->unread)
        return SKY_E_IO;
    uint32_t before = newest_row(s, key);
    sky_segment_known *k = &g->rows[p->row];
    *old = before == NO_ROW ? (sky_disk_place){0} : place_of(s, before);
    k->row.key = *key;
    k->row.sequence = next_sequence(s);
    k->row.checksum = p->checksum;
    sky_status status = sky_segment_row_write(g, p->row);
    if (status == SKY_OK) {
        p->sequence = k->row.sequence;
        row_link(s, g, p->row);
    }
    return status;
}

sky_status sky_disk_segments_publish(sky_disk_segments *s, const sky_key *key, sky_disk_place *p,
                                     sky_disk_place *old) {
    sky_status status = SKY_E_IO;
    sky_mutex_lock(&s->mutex);
    sky_segment *g = p->load == s->load ? s->all[p->segment] : NULL;
    sky_segment *first = s->all[0] ? s->all[0] : g;
    if (g && !sky_segment_is_gone(g)) {
        status = SKY_E_BUSY;
        if (sky_segment_hold_key(first, key)) {
            status = write_above(s, g, key, p, old);
            sky_segment_release_key(first, key);
        }
    }
    sky_mutex_unlock(&s->mutex);
    return status;
}

static sky_status clear_row(sky_disk_segments *s, sky_segment *g, uint32_t row) {
    note_cleared(s, g, row);
    sky_status status = sky_segment_row_clear(g, row);
    if (status == SKY_OK || status == SKY_MISS)
        drop_row(s, g, row);
    return status;
}

void sky_disk_segments_release(sky_disk_segments *s, const sky_disk_place *p) {
    sky_mutex_lock(&s->mutex);
    sky_segment *g = p->load == s->load ? s->all[p->segment] : NULL;
    sky_segment_known *k = g ? &g->rows[p->row] : NULL;
    if (k && p->sequence == 0 && k->state == SKY_ROW_RESERVED)
        free_place(s, g, p->row);
    else if (k && k->state == SKY_ROW_REPLACED && k->row.sequence == p->sequence)
        clear_row(s, g, p->row);
    sky_mutex_unlock(&s->mutex);
}

void sky_disk_segments_withdraw(sky_disk_segments *s, const sky_disk_place *p) {
    sky_mutex_lock(&s->mutex);
    sky_segment *g = p->load == s->load ? s->all[p->segment] : NULL;
    if (g && is_linked(&g->rows[p->row]) && g->rows[p->row].row.sequence == p->sequence)
        clear_row(s, g, p->row);
    sky_mutex_unlock(&s->mutex);
}

/* What was cleared does not come back. */
static sky_status sync_cleared(sky_disk_segments *s) {
    sky_status status = SKY_OK;
    for (uint32_t n = 0; n < SKY_SEGMENTS_MAX && status == SKY_OK; n++) {
        sky_segment *g = s->all[n];
        if (!g || !g->stale)
            continue;
        status = sky_file_sync(g->fd);
        g->stale = status != SKY_OK;
    }
    if (status == SKY_OK)
        memset(s->cleared, 0, sizeof s->cleared);
    return status;
}

/* Set all rows of a key but its newest to zero, the oldest first: whatever happens meanwhile, none
 * comes back that another had replaced. */
static sky_status clear_replaced(sky_disk_segments *s, const sky_key *key) {
    uint32_t top = newest_row(s, key), id = NO_ROW;
    sky_status status = SKY_OK;
    while (top != NO_ROW && (status == SKY_OK || status == SKY_MISS)) {
        uint32_t oldest = NO_ROW;
        uint64_t limit = row_of(s, top)->row.sequence;
        while ((id = newest_below(s, key, limit)) != NO_ROW) {
            oldest = id;
            limit = row_of(s, id)->row.sequence;
        }
        if (oldest == NO_ROW)
            return SKY_OK;
        sky_segment *g = s->all[oldest / SKY_SEGMENT_ROWS];
        status = clear_row(s, g, oldest % SKY_SEGMENT_ROWS);
    }
    return status;
}

static sky_status remove_key(sky_disk_segments *s, const sky_key *key, bool synced,
                             uint64_t *freed_bytes) {
    sky_disk_place p;
    uint64_t mask;
    sky_status status = find_place(s, key, false, &p);
    if (status == SKY_OK && !s->writable)
        return SKY_E_DENIED;
    if (status == SKY_OK) {
        segment_own(s, s->all[p.segment]); /* of a dead process: its blocks are ours to give back */
        status = find_place(s, key, false, &p); /* owning reads the disk again */
    }
    if (status == SKY_OK)
        status = clear_replaced(s, key);
    if (status != SKY_OK)
        return status;
    if (*cleared_bit(s, key, &mask) & mask)
        status = sync_cleared(s);
    sky_segment *g = s->all[p.segment];
    if (status == SKY_OK)
        status = sky_segment_row_clear(g, p.row);
    if (status != SKY_OK)
        return status;
    if (g->rows[p.row].state == SKY_ROW_LIVE && g->rows[p.row].row.sequence == p.sequence)
        drop_cleared(s, g, p.row);
    *freed_bytes = (uint64_t)p.unit_count * SKY_SEGMENT_UNIT_BYTES;
    return synced ? sky_file_sync(g->fd) : SKY_OK;
}

/* Two rows of one key with one sequence are not ours: both go. */
sky_status sky_disk_segments_remove(sky_disk_segments *s, const sky_key *key, bool synced,
                                    uint64_t *freed_bytes) {
    uint64_t more;
    sky_mutex_lock(&s->mutex);
    if (s->root >= 0)
        segments_refresh(s); /* another process may have put it */
    sky_status status = s->unread ? SKY_E_IO : remove_key(s, key, synced, freed_bytes);
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

bool sky_disk_segments_settle(sky_disk_segments *s, const sky_key *key, bool keep) {
    sky_disk_place p;
    bool again = false;
    sky_mutex_lock(&s->mutex);
    if (s->writable && find_place(s, key, false, &p) == SKY_OK) {
        sky_segment *g = s->all[p.segment];
        if (keep && sky_file_sync(g->fd) == SKY_OK)
            clear_replaced(s, key);
        if (!keep && sky_segment_row_clear(g, p.row) == SKY_OK) {
            drop_cleared(s, g, p.row);
            uint32_t top = newest_row(s, key);
            again = top != NO_ROW && newest_below(s, key, row_of(s, top)->row.sequence) != NO_ROW;
        }
    }
    sky_mutex_unlock(&s->mutex);
    return again;
}
