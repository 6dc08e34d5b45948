/* The catalogue on disk, so that opening a folder need not read it: PATH/.catalogue.
 *
 *   | magic 8 | changes 8 | count 4 | zero 4 | count × 104: one fact each | checksum 8 |
 *
 * Written when a tier closes, with the ledger's count of changes at that time. Whoever opens the
 * folder and finds the same count in the ledger takes it as it is; otherwise it is a list of hints,
 * and the folder is read. Not synced: a damaged one is ignored. */
#ifndef SKY_TIER_DISK_SNAPSHOT_H
#define SKY_TIER_DISK_SNAPSHOT_H

#include "tier/disk/catalogue.h"
#include "tier/disk/folder.h"

/* Fill the catalogue. False when that is not all there is: no sound snapshot, or no room for it. */
bool sky_disk_snapshot_load(const sky_disk_folder *f, sky_disk_catalogue *c, uint64_t *changes);
/* The same from bytes. */
bool sky_disk_snapshot_decode(const uint8_t *data, size_t bytes, sky_disk_catalogue *c,
                              uint64_t *changes);
/* Best effort. */
void sky_disk_snapshot_save(const sky_disk_folder *f, sky_disk_catalogue *c, uint64_t changes);

#endif
