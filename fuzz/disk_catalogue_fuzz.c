/* Proves: no bytes in place of a disk folder's catalogue make its reader read past them, nor the
 * catalogue that it fills lose count: as many entries are listed, found and removed as it says. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tier/disk/snapshot.h"

#define ENTRIES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void expect(bool true_thing) {
    if (!true_thing)
        abort();
}

static void check(const uint8_t *data, size_t bytes) {
    sky_disk_catalogue *c;
    uint64_t changes = 0;
    if (sky_disk_catalogue_create(ENTRIES_MAX, &c) != SKY_OK)
        return;
    (void)sky_disk_snapshot_decode(data, bytes, c, &changes);
    uint32_t count = sky_disk_catalogue_count(c), listed = 0;
    expect(count <= ENTRIES_MAX && count + sky_disk_catalogue_room(c) == ENTRIES_MAX);
    sky_disk_fact *fact;
    for (uint32_t n = 0; (fact = sky_disk_catalogue_next(c, &n)) != NULL; n++, listed++) {
        expect(sky_disk_catalogue_find(c, &fact->key) == fact);
        (void)sky_disk_catalogue_reachable(c, fact);
    }
    expect(listed == count);
    while ((fact = sky_disk_catalogue_victim(c)) != NULL)
        expect(sky_disk_catalogue_remove(c, fact, NULL, NULL) == 1);
    for (uint32_t n = 0; (fact = sky_disk_catalogue_next(c, &n)) != NULL; n = 0)
        expect(sky_disk_catalogue_remove(c, fact, NULL, NULL) >= 1);
    expect(sky_disk_catalogue_count(c) == 0 && sky_disk_catalogue_bytes(c) == 0);
    sky_disk_catalogue_destroy(c);
}

/* A fuzzer does not guess checksums, nor a count: mend both, so that what stands behind them is
 * reached too. */
static void mend(uint8_t *data, size_t bytes) {
    static const uint8_t magic[8] = {0x89, 'S', 'K', 'Y', 'C', 'A', 'T', '1'};
    enum { HEAD = 24, FACT = 104 };
    size_t count = (bytes - HEAD - 8) / FACT, body = HEAD + count * FACT;
    memcpy(data, magic, sizeof magic);
    for (int i = 0; i < 4; i++)
        data[16 + i] = (uint8_t)(count >> 8 * i);
    uint64_t sum = sky_checksum(data, body, 0);
    for (int i = 0; i < 8; i++)
        data[body + (size_t)i] = (uint8_t)(sum >> 8 * i);
    check(data, body + 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    check(data, bytes);
    if (bytes < 32)
        return 0;
    uint8_t *copy = malloc(bytes);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    mend(copy, bytes);
    free(copy);
    return 0;
}
