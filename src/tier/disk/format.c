#include "tier/disk/format.h"

#include <assert.h>
#include <string.h>

#include <skymem/cache.h>
#include <skymem/keys.h>

#include "base/bytes.h"
#include "base/hash.h"

/* Offsets in the header; docs/formats/disk.md draws them. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_PAGE_BYTES = 12,
    AT_PAGE_COUNT = 16,
    AT_NAME_BYTES = 20,
    AT_PAYLOAD_BYTES = 24,
    AT_SET_MS = 32,
    AT_EXPIRE_MS = 40,
    AT_LEVEL = 48,
    AT_SEALED = 49,
    AT_EVICT = 50,
    AT_ZEROS = 51, /* up to the key */
    AT_KEY = 64,
    AT_PARENT = 96,
    AT_NAME = 128,
    AT_CHECKSUMS = AT_NAME + SKY_NAME_BYTES_MAX,
    AT_NONCE = AT_CHECKSUMS + 8 * SKY_DISK_PAGES_MAX, /* zeros from here when not sealed */
    AT_SEALED_KEYS = AT_NONCE + SKY_DISK_NONCE_BYTES,
    AT_TAG = AT_SEALED_KEYS + 2 * SKY_KEY_BYTES,
    AT_MORE_ZEROS = AT_TAG + SKY_DISK_TAG_BYTES, /* up to the checksum */
    AT_CHECKSUM = SKY_DISK_ACCESS_OFFSET - 8,
};

/* Offsets in the access record. */
enum {
    AT_HITS = 0,
    AT_USED_MS = 8,
    AT_PINNED = 16,
    AT_ACCESS_ZEROS = 17,
    AT_ACCESS_CHECKSUM = SKY_DISK_ACCESS_BYTES - 8,
};

static_assert(AT_MORE_ZEROS <= AT_CHECKSUM, "the parts fit");
static_assert(AT_TAG == SKY_DISK_TAGGED_BYTES, "the tag covers all before it");
static_assert(SKY_DISK_ACCESS_OFFSET / 512 == (SKY_DISK_HEADER_BYTES - 1) / 512,
              "the access record lies in one sector, which a disk writes whole or not at all");
static_assert(SKY_PAYLOAD_BYTES_MAX <= UINT32_MAX, "pages stay below 2^32 bytes");

#define VERSION 1
static const uint8_t magic[8] = {0x89, 'S', 'K', 'Y', 'D', '\r', '\n', 0x1a};

static bool all_zero(const uint8_t *from, const uint8_t *to) {
    size_t bytes = (size_t)(to - from);
    return bytes == 0 || (from[0] == 0 && memcmp(from, from + 1, bytes - 1) == 0);
}

static uint64_t pad_to_page(uint64_t bytes) {
    return (bytes + SKY_DISK_ALIGN - 1) / SKY_DISK_ALIGN * SKY_DISK_ALIGN;
}

/* The page size is a multiple of the padding, so payload and padded payload give the same one. */
sky_disk_geometry sky_disk_geometry_of(uint64_t payload_bytes) {
    assert(payload_bytes <= SKY_PAYLOAD_BYTES_MAX);
    uint32_t page_bytes = SKY_DISK_PAGE_BYTES_MIN;
    while (payload_bytes > (uint64_t)page_bytes * SKY_DISK_PAGES_MAX)
        page_bytes *= 2;
    return (sky_disk_geometry){
        .padded_bytes = pad_to_page(payload_bytes),
        .page_bytes = page_bytes,
        .page_count = (uint32_t)((payload_bytes + page_bytes - 1) / page_bytes),
    };
}

sky_status sky_disk_geometry_of_file(uint64_t file_bytes, sky_disk_geometry *out) {
    uint64_t padded_max = pad_to_page(SKY_PAYLOAD_BYTES_MAX);
    if (file_bytes % SKY_DISK_ALIGN != 0 || file_bytes < SKY_DISK_HEADER_BYTES ||
        file_bytes - SKY_DISK_HEADER_BYTES > padded_max)
        return SKY_E_CORRUPT;
    uint64_t padded = file_bytes - SKY_DISK_HEADER_BYTES;
    *out = sky_disk_geometry_of(padded < padded_max ? padded : SKY_PAYLOAD_BYTES_MAX);
    return SKY_OK;
}

static uint64_t header_checksum(const uint8_t header[SKY_DISK_HEADER_BYTES]) {
    return sky_checksum(header, AT_CHECKSUM, VERSION);
}

void sky_disk_access_encode(const sky_disk_access *access,
                            const uint8_t header[SKY_DISK_HEADER_BYTES],
                            uint8_t out[SKY_DISK_ACCESS_BYTES]) {
    memset(out, 0, SKY_DISK_ACCESS_BYTES);
    sky_store_u64(out + AT_HITS, access->hits);
    sky_store_u64(out + AT_USED_MS, (uint64_t)access->used_ms);
    out[AT_PINNED] = access->pinned;
    sky_store_u64(out + AT_ACCESS_CHECKSUM,
                  sky_checksum(out, AT_ACCESS_CHECKSUM, sky_load_u64(header + AT_CHECKSUM)));
}

void sky_disk_header_encode(const sky_disk_header *header, uint8_t out[SKY_DISK_HEADER_BYTES]) {
    assert(header->name_bytes <= SKY_NAME_BYTES_MAX && header->level <= SKY_DISK_LEVEL_MAX &&
           header->evict <= SKY_EVICT_LAST);
    sky_disk_geometry geometry = sky_disk_geometry_of(header->payload_bytes);
    memset(out, 0, SKY_DISK_HEADER_BYTES);
    memcpy(out + AT_MAGIC, magic, sizeof magic);
    sky_store_u32(out + AT_VERSION, VERSION);
    sky_store_u32(out + AT_PAGE_BYTES, geometry.page_bytes);
    sky_store_u32(out + AT_PAGE_COUNT, geometry.page_count);
    sky_store_u32(out + AT_NAME_BYTES, header->name_bytes);
    sky_store_u64(out + AT_PAYLOAD_BYTES, header->payload_bytes);
    sky_store_u64(out + AT_SET_MS, (uint64_t)header->set_ms);
    sky_store_u64(out + AT_EXPIRE_MS, (uint64_t)header->expire_ms);
    out[AT_LEVEL] = header->level;
    out[AT_EVICT] = header->evict;
    memcpy(out + AT_KEY, header->key.bytes, SKY_KEY_BYTES);
    memcpy(out + AT_PARENT, header->parent.bytes, SKY_KEY_BYTES);
    memcpy(out + AT_NAME, header->name, header->name_bytes);
    for (uint32_t i = 0; i < geometry.page_count; i++)
        sky_store_u64(out + AT_CHECKSUMS + 8 * i, header->page_checksums[i]);
    if (header->is_sealed) {
        out[AT_SEALED] = 1;
        memcpy(out + AT_NONCE, header->sealed.nonce, SKY_DISK_NONCE_BYTES);
        memcpy(out + AT_SEALED_KEYS, header->sealed.keys, sizeof header->sealed.keys);
        memcpy(out + AT_TAG, header->sealed.tag, SKY_DISK_TAG_BYTES);
    }
    sky_store_u64(out + AT_CHECKSUM, header_checksum(out));
    sky_disk_access_encode(&header->access, out, out + SKY_DISK_ACCESS_OFFSET);
}

/* Checksums first: what follows may then trust that the bytes are ours, but not that they make
 * sense. */
static bool checksums_right(const uint8_t *in) {
    const uint8_t *record = in + SKY_DISK_ACCESS_OFFSET;
    uint64_t of_header = sky_load_u64(in + AT_CHECKSUM);
    return of_header == header_checksum(in) &&
           sky_load_u64(record + AT_ACCESS_CHECKSUM) ==
               sky_checksum(record, AT_ACCESS_CHECKSUM, of_header);
}

static bool unused_bytes_zero(const uint8_t *in, uint32_t name_bytes, uint32_t page_count) {
    const uint8_t *record = in + SKY_DISK_ACCESS_OFFSET;
    return all_zero(in + AT_ZEROS, in + AT_KEY) &&
           all_zero(in + AT_NAME + name_bytes, in + AT_CHECKSUMS) &&
           all_zero(in + AT_CHECKSUMS + 8 * (size_t)page_count, in + AT_NONCE) &&
           all_zero(in + (in[AT_SEALED] ? AT_MORE_ZEROS : AT_NONCE), in + AT_CHECKSUM) &&
           all_zero(record + AT_ACCESS_ZEROS, record + AT_ACCESS_CHECKSUM);
}

static bool sizes_right(const uint8_t *in) {
    uint64_t payload_bytes = sky_load_u64(in + AT_PAYLOAD_BYTES);
    if (payload_bytes > SKY_PAYLOAD_BYTES_MAX)
        return false;
    sky_disk_geometry geometry = sky_disk_geometry_of(payload_bytes);
    return sky_load_u32(in + AT_PAGE_BYTES) == geometry.page_bytes &&
           sky_load_u32(in + AT_PAGE_COUNT) == geometry.page_count &&
           sky_load_u32(in + AT_NAME_BYTES) <= SKY_NAME_BYTES_MAX;
}

static bool values_right(const uint8_t *in) {
    const uint8_t *record = in + SKY_DISK_ACCESS_OFFSET;
    return sky_load_u64(in + AT_SET_MS) <= SKY_DISK_MS_MAX &&
           sky_load_u64(in + AT_EXPIRE_MS) <= SKY_DISK_MS_MAX &&
           in[AT_LEVEL] <= SKY_DISK_LEVEL_MAX && in[AT_SEALED] <= 1 &&
           in[AT_EVICT] <= SKY_EVICT_LAST && sky_load_u64(record + AT_USED_MS) <= SKY_DISK_MS_MAX &&
           record[AT_PINNED] <= 1;
}

sky_status sky_disk_header_decode(const uint8_t in[SKY_DISK_HEADER_BYTES], sky_disk_header *out) {
    if (memcmp(in + AT_MAGIC, magic, sizeof magic) != 0 ||
        sky_load_u32(in + AT_VERSION) != VERSION || !checksums_right(in) || !sizes_right(in))
        return SKY_E_CORRUPT;
    uint32_t name_bytes = sky_load_u32(in + AT_NAME_BYTES);
    uint32_t page_count = sky_load_u32(in + AT_PAGE_COUNT);
    if (!unused_bytes_zero(in, name_bytes, page_count) || !values_right(in))
        return SKY_E_CORRUPT;

    const uint8_t *record = in + SKY_DISK_ACCESS_OFFSET;
    memset(out, 0, sizeof *out);
    memcpy(out->key.bytes, in + AT_KEY, SKY_KEY_BYTES);
    memcpy(out->parent.bytes, in + AT_PARENT, SKY_KEY_BYTES);
    out->is_sealed = in[AT_SEALED] != 0;
    memcpy(out->sealed.nonce, in + AT_NONCE, SKY_DISK_NONCE_BYTES);
    memcpy(out->sealed.keys, in + AT_SEALED_KEYS, sizeof out->sealed.keys);
    memcpy(out->sealed.tag, in + AT_TAG, SKY_DISK_TAG_BYTES);
    out->payload_bytes = sky_load_u64(in + AT_PAYLOAD_BYTES);
    out->set_ms = (int64_t)sky_load_u64(in + AT_SET_MS);
    out->expire_ms = (int64_t)sky_load_u64(in + AT_EXPIRE_MS);
    out->level = in[AT_LEVEL];
    out->evict = in[AT_EVICT];
    out->name_bytes = name_bytes;
    memcpy(out->name, in + AT_NAME, name_bytes);
    for (uint32_t i = 0; i < page_count; i++)
        out->page_checksums[i] = sky_load_u64(in + AT_CHECKSUMS + 8 * i);
    out->access.hits = sky_load_u64(record + AT_HITS);
    out->access.used_ms = (int64_t)sky_load_u64(record + AT_USED_MS);
    out->access.pinned = record[AT_PINNED] != 0;
    out->checksum = sky_disk_header_checksum(in);
    return SKY_OK;
}

uint64_t sky_disk_header_checksum(const uint8_t header[SKY_DISK_HEADER_BYTES]) {
    return sky_load_u64(header + AT_CHECKSUM);
}

void sky_disk_pages_begin(sky_disk_pages *p, sky_disk_header *header, uint64_t from) {
    p->header = header;
    p->geometry = sky_disk_geometry_of(header->payload_bytes);
    p->at = from;
    p->tag_key = NULL;
    assert(from % p->geometry.page_bytes == 0);
}

static void page_begin(sky_disk_pages *p, uint32_t page) {
    const sky_disk_header *h = p->header;
    if (!p->tag_key) {
        sky_checksum_init(&p->sum, sky_checksum(h->key.bytes, SKY_KEY_BYTES, page));
        return;
    }
    uint8_t number[4];
    sky_store_u32(number, page);
    sky_blake2b_init(&p->tag, p->tag_key);
    sky_blake2b_add(&p->tag, "page", 4);
    sky_blake2b_add(&p->tag, h->sealed.nonce, SKY_DISK_NONCE_BYTES);
    sky_blake2b_add(&p->tag, h->key.bytes, SKY_KEY_BYTES);
    sky_blake2b_add(&p->tag, number, sizeof number);
}

static void page_add(sky_disk_pages *p, const uint8_t *data, size_t bytes) {
    if (p->tag_key)
        sky_blake2b_add(&p->tag, data, bytes);
    else
        sky_checksum_add(&p->sum, data, bytes);
}

static uint64_t page_end(sky_disk_pages *p) {
    uint8_t tag[32];
    if (!p->tag_key)
        return sky_checksum_end(&p->sum);
    sky_blake2b_end(&p->tag, tag);
    return sky_load_u64(tag);
}

/* Sum up to the end of the page under the cursor, or of the data. True when a page ended: its
 * number and checksum. */
static bool sum_page(sky_disk_pages *p, const uint8_t **data, size_t *bytes, uint32_t *page,
                     uint64_t *sum) {
    uint64_t page_bytes = p->geometry.page_bytes, begin = p->at / page_bytes * page_bytes;
    uint64_t end = begin + page_bytes;
    if (end > p->geometry.padded_bytes)
        end = p->geometry.padded_bytes;
    size_t n = end - p->at < *bytes ? (size_t)(end - p->at) : *bytes;
    *page = (uint32_t)(begin / page_bytes);
    if (p->at == begin)
        page_begin(p, *page);
    page_add(p, *data, n);
    p->at += n;
    *data += n;
    *bytes -= n;
    if (p->at < end)
        return false;
    *sum = page_end(p);
    return true;
}

void sky_disk_pages_note(sky_disk_pages *p, const uint8_t *data, size_t bytes) {
    uint32_t page;
    uint64_t sum;
    assert(bytes <= p->geometry.padded_bytes - p->at);
    while (bytes > 0)
        if (sum_page(p, &data, &bytes, &page, &sum))
            p->header->page_checksums[page] = sum;
}

bool sky_disk_pages_check(sky_disk_pages *p, const uint8_t *data, size_t bytes) {
    uint32_t page;
    uint64_t sum;
    assert(bytes <= p->geometry.padded_bytes - p->at);
    while (bytes > 0)
        if (sum_page(p, &data, &bytes, &page, &sum) && p->header->page_checksums[page] != sum)
            return false;
    return true;
}

void sky_disk_path(const sky_key *key, char out[SKY_DISK_PATH_BYTES]) {
    sky_key_hex(key, out + SKY_DISK_FOLDER_CHARS + 1);
    const char *hex = out + SKY_DISK_FOLDER_CHARS + 1;
    out[0] = hex[0];
    out[1] = hex[1];
    out[2] = '/';
    out[3] = hex[2];
    out[4] = hex[3];
    out[SKY_DISK_FOLDER_CHARS] = '/';
}
