#include "tier/disk/segment_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "io/file.h"
#include "io/sync.h"

#define NAME         ".segment-%u"
#define PATIENCE     SKY_MS(100)
#define KEY_LOCKS_AT (UINT64_C(1) << 48) /* past any segment's end */
#define ZERO_UNITS   256u /* written with zeros at once, before they are used first */

/* ---- units ---- */

static bool unit_bit(const uint64_t *map, uint32_t unit) {
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
        set += unit_bit(map, i);
    return set;
}

bool sky_segment_units_free(const sky_segment *g, uint32_t unit, uint32_t count) {
    return count_bits(g->taken, unit, count) == 0;
}

uint32_t sky_segment_take_units(sky_segment *g, uint32_t unit, uint32_t count) {
    uint32_t holes = sky_segment_holes(g, unit, count);
    set_bits(g->taken, unit, count, true);
    set_bits(g->punched, unit, count, false);
    g->units_free -= count;
    g->zeroed = unit + count > g->zeroed ? unit + count : g->zeroed;
    return count - holes;
}

uint32_t sky_segment_holes(const sky_segment *g, uint32_t unit, uint32_t count) {
    return count_bits(g->punched, unit, count);
}

bool sky_segment_give_units(sky_segment *g, uint32_t unit, uint32_t count, bool punch) {
    set_bits(g->taken, unit, count, false);
    g->units_free += count;
    bool punched = punch && sky_file_punch(g->fd, sky_segment_data_at(unit),
                                           (uint64_t)count * SKY_SEGMENT_UNIT_BYTES) == SKY_OK;
    if (punched)
        set_bits(g->punched, unit, count, true);
    return punched;
}

/* The first unit of so many that are free, or UINT32_MAX. */
uint32_t sky_segment_find_units(sky_segment *g, uint32_t count) {
    if (g->units_free < count)
        return UINT32_MAX;
    uint32_t run = 0, unit = g->cursor;
    for (uint32_t i = 0; i < g->units + count; i++, unit++) {
        if (unit == g->units)
            unit = run = 0;
        run = unit_bit(g->taken, unit) ? 0 : run + 1;
        if (run == count) {
            g->cursor = unit + 1 == g->units ? 0 : unit + 1;
            return unit + 1 - count;
        }
    }
    return UINT32_MAX;
}

static sky_status write_zeros(int fd, uint64_t from, uint64_t to) {
    static const uint8_t zeros[65536];
    sky_status status = SKY_OK;
    for (uint64_t at = from; at < to && status == SKY_OK; at += sizeof zeros) {
        uint64_t left = to - at;
        status = sky_file_write_at(fd, zeros, left < sizeof zeros ? (size_t)left : sizeof zeros,
                                   at);
    }
    return status;
}

/* Blocks that are written the first time have to be noted by the file system, which a sync waits
 * for: that is done for many at once. */
void sky_segment_zero_ahead(sky_segment *g, uint32_t end) {
    while (g->zeroed < end) {
        uint32_t to = g->zeroed + ZERO_UNITS < g->units ? g->zeroed + ZERO_UNITS : g->units;
        if (write_zeros(g->fd, sky_segment_data_at(g->zeroed), sky_segment_data_at(to)) != SKY_OK)
            return; /* what is stored there says why */
        g->zeroed = to;
    }
}

/* ---- rows ---- */

static sky_status read_row(const sky_segment *g, uint32_t row, bool at_once, sky_segment_row *out) {
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

bool sky_segment_row_same(const sky_segment_row *a, const sky_segment_row *b) {
    return a->sequence == b->sequence && a->unit == b->unit && a->unit_count == b->unit_count &&
           a->checksum == b->checksum && sky_key_equal(&a->key, &b->key);
}

sky_status sky_segment_row_compare(const sky_segment *g, uint32_t row, bool at_once) {
    sky_segment_row there;
    sky_status status = read_row(g, row, at_once, &there);
    if (status == SKY_OK)
        return sky_segment_row_same(&there, &g->rows[row].row) ? SKY_OK : SKY_MISS;
    return status == SKY_E_CORRUPT ? SKY_MISS : status;
}

/* No other process writes the row meanwhile. A file system without such locks has one process. */
static bool hold_row(const sky_segment *g, uint32_t row) {
    sky_status status = sky_file_lock_range(g->fd, sky_segment_row_at(row), SKY_SEGMENT_ROW_BYTES,
                                            sky_now() + PATIENCE);
    return status != SKY_E_BUSY;
}

static void release_row(const sky_segment *g, uint32_t row) {
    sky_file_unlock_range(g->fd, sky_segment_row_at(row), SKY_SEGMENT_ROW_BYTES);
}

sky_status sky_segment_row_clear(const sky_segment *g, uint32_t row) {
    static const uint8_t zeros[SKY_SEGMENT_ROW_BYTES];
    if (!hold_row(g, row))
        return SKY_E_BUSY;
    sky_status status = sky_segment_row_compare(g, row, false);
    if (status == SKY_OK)
        status = sky_file_write_at(g->fd, zeros, sizeof zeros, sky_segment_row_at(row));
    release_row(g, row);
    return status;
}

sky_status sky_segment_row_write(sky_segment *g, uint32_t row) {
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

uint64_t sky_segment_changes(const sky_segment *g) {
    uint8_t bytes[8] = {0};
    size_t got;
    if (sky_file_read_at(g->fd, bytes, sizeof bytes, SKY_SEGMENT_CHANGES_AT, &got) != SKY_OK)
        return UINT64_MAX;
    return sky_load_u64(bytes);
}

/* ---- files ---- */

void sky_segment_name(uint32_t number, char name[SKY_SEGMENT_NAME_BYTES]) {
    snprintf(name, SKY_SEGMENT_NAME_BYTES, NAME, (unsigned)number);
}

/* An open file as a segment, if it is one. Owner: the caller, with the descriptor */
sky_status sky_segment_make(uint32_t number, int fd, uint64_t bytes, sky_segment **out) {
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
    sky_segment *g = calloc(1, sizeof *g);
    if (!g)
        return SKY_E_NOMEM;
    g->fd = fd;
    g->number = number;
    g->units = g->units_free = units;
    *out = g;
    return SKY_OK;
}

bool sky_segment_is_gone(const sky_segment *g) {
    sky_file_info info;
    return sky_file_stat_open(g->fd, &info) != SKY_OK || info.nameless ||
           info.bytes < sky_segment_file_bytes(g->units);
}

bool sky_segment_hold_key(const sky_segment *g, const sky_key *key) {
    return sky_file_lock_range(g->fd, KEY_LOCKS_AT + sky_load_u32(key->bytes), 1,
                               sky_now() + PATIENCE) != SKY_E_BUSY;
}

void sky_segment_release_key(const sky_segment *g, const sky_key *key) {
    sky_file_unlock_range(g->fd, KEY_LOCKS_AT + sky_load_u32(key->bytes), 1);
}

bool sky_segment_is_held(const sky_segment *g, uint32_t unit, uint32_t count) {
    uint64_t at = sky_segment_data_at(unit), bytes = (uint64_t)count * SKY_SEGMENT_UNIT_BYTES;
    if (sky_file_lock_range(g->fd, at, bytes, 0) == SKY_E_BUSY)
        return true;
    sky_file_unlock_range(g->fd, at, bytes);
    return false;
}

uint32_t sky_segment_punch_free(sky_segment *g) {
    uint32_t punched = 0;
    for (uint32_t end, unit = 0; unit < g->units; unit = end) {
        bool idle = !unit_bit(g->taken, unit) && !unit_bit(g->punched, unit);
        end = unit + 1;
        while (end < g->units && (!unit_bit(g->taken, end) && !unit_bit(g->punched, end)) == idle)
            end++;
        if (!idle || sky_file_punch(g->fd, sky_segment_data_at(unit),
                                    (uint64_t)(end - unit) * SKY_SEGMENT_UNIT_BYTES) != SKY_OK)
            continue;
        set_bits(g->punched, unit, end - unit, true);
        punched += end - unit;
    }
    return punched;
}

/* Its head comes last: what a crash leaves before is no segment, and is made again. */
sky_status sky_segment_format(uint32_t number, uint32_t units_max, int root, int fd) {
    uint8_t mark[SKY_SEGMENT_MARK_BYTES];
    uint32_t units = SKY_SEGMENT_UNITS_MIN;
    for (uint32_t n = 0; n < number && units < units_max; n++)
        units *= 2;
    units = units < units_max ? units : units_max;
    sky_segment_head_encode(number, units, mark);
    sky_status status = sky_file_reserve(fd, sky_segment_file_bytes(units));
    if (status == SKY_OK)
        status = write_zeros(fd, 0, SKY_SEGMENT_DATA_OFFSET);
    if (status == SKY_OK)
        status = sky_file_sync(fd);
    if (status == SKY_OK)
        status = sky_file_write_at(fd, mark, sizeof mark, 0);
    if (status == SKY_OK)
        status = sky_file_sync(fd);
    return status == SKY_OK ? sky_folder_sync(root) : status;
}
