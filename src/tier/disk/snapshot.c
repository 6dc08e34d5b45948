#include "tier/disk/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "io/file.h"

#define NAME        ".catalogue"
#define MAGIC       UINT64_C(0x31544143594b5389) /* 0x89 "SKYCAT1" */
#define HEAD_BYTES  24
#define FACT_BYTES  104
#define CHECK_BYTES 8
#define COUNT_MAX   (1u << 20)

static void write_fact(sky_writer *w, const sky_disk_fact *fact) {
    sky_write_bytes(w, fact->key.bytes, SKY_KEY_BYTES);
    sky_write_bytes(w, fact->parent.bytes, SKY_KEY_BYTES);
    sky_write_u64(w, fact->hits);
    sky_write_u64(w, (uint64_t)fact->set_ms);
    sky_write_u64(w, (uint64_t)fact->expire_ms);
    sky_write_u64(w, (uint64_t)fact->used_ms);
    sky_write_u32(w, fact->payload_bytes);
    sky_write_u8(w, fact->level);
    sky_write_u8(w, fact->pinned);
    sky_write_u8(w, fact->named);
    sky_write_u8(w, fact->evict);
}

static sky_disk_fact read_fact(sky_reader *r) {
    sky_disk_fact fact = {0};
    memcpy(fact.key.bytes, sky_read_bytes(r, SKY_KEY_BYTES), SKY_KEY_BYTES);
    memcpy(fact.parent.bytes, sky_read_bytes(r, SKY_KEY_BYTES), SKY_KEY_BYTES);
    fact.hits = sky_read_u64(r);
    fact.set_ms = (int64_t)sky_read_u64(r);
    fact.expire_ms = (int64_t)sky_read_u64(r);
    fact.used_ms = (int64_t)sky_read_u64(r);
    fact.payload_bytes = sky_read_u32(r);
    fact.level = sky_read_u8(r);
    fact.pinned = sky_read_u8(r) != 0;
    fact.named = sky_read_u8(r) != 0;
    const uint8_t evict = sky_read_u8(r);
    fact.evict = evict <= SKY_EVICT_LAST ? evict : SKY_EVICT_NORMAL;
    return fact;
}

/* The whole file, or NULL. Owner: caller */
static uint8_t *read_whole(const sky_disk_folder *f, size_t *bytes) {
    sky_file_info info;
    uint8_t *data = NULL;
    size_t got = 0;
    int fd;
    if (sky_file_open(f->root, NAME, SKY_FILE_PLAIN, &fd) != SKY_OK)
        return NULL;
    if (sky_file_check_owner(fd, NAME, NULL) == SKY_OK && sky_file_stat_open(fd, &info) == SKY_OK &&
        info.bytes >= HEAD_BYTES + CHECK_BYTES &&
        info.bytes <= HEAD_BYTES + CHECK_BYTES + (uint64_t)COUNT_MAX * FACT_BYTES)
        data = malloc((size_t)info.bytes);
    if (data &&
        (sky_file_read_at(fd, data, (size_t)info.bytes, 0, &got) != SKY_OK || got != info.bytes)) {
        free(data);
        data = NULL;
    }
    sky_file_close(fd);
    *bytes = got;
    return data;
}

static bool snapshot_is_sound(const uint8_t *data, size_t bytes) {
    size_t body = bytes - CHECK_BYTES;
    return sky_load_u64(data) == MAGIC &&
           sky_load_u64(data + body) == sky_checksum(data, body, 0) &&
           body - HEAD_BYTES == (size_t)sky_load_u32(data + 16) * FACT_BYTES;
}

bool sky_disk_snapshot_decode(const uint8_t *data, size_t bytes, sky_disk_catalogue *c,
                              uint64_t *changes) {
    if (bytes < HEAD_BYTES + CHECK_BYTES || !snapshot_is_sound(data, bytes))
        return false;
    uint32_t count = sky_load_u32(data + 16);
    sky_disk_fact *facts = malloc((count ? count : 1) * sizeof *facts);
    if (!facts)
        return false;
    sky_reader r = sky_reader_over(data + HEAD_BYTES, (size_t)count * FACT_BYTES);
    for (uint32_t i = 0; i < count; i++)
        facts[i] = read_fact(&r);
    bool whole = sky_disk_catalogue_rebuild(c, facts, count) == 0;
    *changes = sky_load_u64(data + 8);
    free(facts);
    return whole;
}

bool sky_disk_snapshot_load(const sky_disk_folder *f, sky_disk_catalogue *c, uint64_t *changes) {
    size_t bytes;
    uint8_t *data = read_whole(f, &bytes);
    bool loaded = data && sky_disk_snapshot_decode(data, bytes, c, changes);
    free(data);
    return loaded;
}

void sky_disk_snapshot_save(const sky_disk_folder *f, sky_disk_catalogue *c, uint64_t changes) {
    uint32_t count = sky_disk_catalogue_count(c);
    size_t bytes = HEAD_BYTES + (size_t)count * FACT_BYTES + CHECK_BYTES;
    uint8_t *data = malloc(bytes);
    if (!data)
        return;
    sky_writer w = sky_writer_over(data, bytes);
    sky_write_u64(&w, MAGIC);
    sky_write_u64(&w, changes);
    sky_write_u32(&w, count);
    sky_write_u32(&w, 0);
    const sky_disk_fact *fact;
    for (uint32_t n = 0; (fact = sky_disk_catalogue_next(c, &n)) != NULL; n++)
        write_fact(&w, fact);
    sky_write_u64(&w, sky_checksum(data, bytes - CHECK_BYTES, 0));
    sky_disk_folder_write(f, NAME, data, bytes);
    free(data);
}
