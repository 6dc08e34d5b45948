/* Telling the hierarchy what goes next, while it still stands here.
 *
 *   oldest ── victims in order ──► newest
 *   └────── offered ──────┘  as much as an eighth of the limit lacks until it is full, at least 16
 *                            entries and at most 128
 *
 * Sixteen are more than the puts that the hierarchy has under way here at once, each of which
 * evicts one, and the copies that it is behind with. */
#include <string.h>

#include "tier/disk/disk.h"

#define AHEAD_SHARE 8   /* of the limit */
#define AHEAD_ROOM  32  /* of the catalogue's places */
#define AHEAD_FILES 16  /* entries, once anything is offered */
#define AHEAD_LOOKS 128 /* at entries, those offered before included */

/* How many bytes and entries must go until there is as much room as is wanted ahead. */
static sky_disk_amount amount_ahead(const sky_disk *d) {
    uint64_t used = sky_disk_catalogue_bytes(d->catalogue) + d->bytes_claimed;
    uint64_t goal = d->bytes_max - d->bytes_max / AHEAD_SHARE;
    uint32_t room = sky_disk_catalogue_room(d->catalogue);
    sky_disk_amount ahead = {.bytes = used > goal ? used - goal : 0};
    if (room < AHEAD_ROOM || ahead.bytes > 0)
        ahead.files = room + AHEAD_FILES < AHEAD_ROOM ? AHEAD_ROOM - room : AHEAD_FILES;
    return ahead;
}

/* A sealed folder knows hidden keys; the header has the real ones. */
static bool describe_victim(const sky_disk *d, const sky_disk_fact *fact, sky_victim *out) {
    *out = (sky_victim){.key = fact->key,
                        .parent = fact->parent,
                        .bytes = fact->payload_bytes,
                        .coding = fact->level,
                        .ttl_s = sky_disk_left_s(d, fact->expire_ms)};
    sky_disk_header header;
    if (!d->folder.seal)
        return true;
    if (sky_disk_entry_load(&d->folder, &fact->key, &header) != SKY_OK || !header.is_sealed)
        return false;
    memcpy(out->key.bytes, header.sealed.keys, SKY_KEY_BYTES);
    memcpy(out->parent.bytes, header.sealed.keys + SKY_KEY_BYTES, SKY_KEY_BYTES);
    return true;
}

void sky_disk_offer(sky_disk *d) {
    sky_victim victims[SKY_VICTIMS_AT_ONCE];
    sky_disk_fact *facts[SKY_VICTIMS_AT_ONCE], *fact = NULL;
    size_t count = 0;
    d->offers = true;
    if (!d->env.offer)
        return;
    const sky_disk_amount ahead = amount_ahead(d);
    sky_disk_amount seen = {0};
    while ((seen.bytes < ahead.bytes || seen.files < ahead.files) && seen.files < AHEAD_LOOKS &&
           count < SKY_VICTIMS_AT_ONCE &&
           (fact = sky_disk_catalogue_victim_after(d->catalogue, fact)) != NULL) {
        seen.bytes += sky_disk_fact_bytes(fact);
        seen.files++;
        if (fact->offered || fact->named || sky_disk_expired(d, fact->expire_ms) ||
            !describe_victim(d, fact, &victims[count]))
            continue;
        facts[count++] = fact;
    }
    if (count == 0)
        return;
    uint32_t taken = d->env.offer(d->env.offer_context, d->env.index, victims, count);
    for (size_t i = 0; i < count; i++)
        facts[i]->offered = taken >> i & 1;
}
