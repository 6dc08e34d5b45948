/* Folders for tests of the disk tier. */
#ifndef SKY_TIER_DISK_DISK_FIXTURE_H
#define SKY_TIER_DISK_DISK_FIXTURE_H

#include "tier/tier_fixture.h"

/* A new folder below $TMPDIR or /tmp. Owner: caller, with disk_folder_drop */
char *disk_folder_make(void);
/* Remove it with all it holds, and free the name. */
void disk_folder_drop(char *folder);

/* Open "disk:FOLDER" plus `query` ("?max=1MiB" or ""); asserts that it opens. */
sky_tier *disk_open(const char *folder, const char *query);
void disk_close(sky_tier *tier);

/* Remove the snapshot, so that the next open reads the folder. */
void disk_forget_catalogue(const char *folder);

/* Flip a bit of byte `at` of an entry, in its file or in a segment. */
void disk_entry_damage(const char *folder, const sky_key *key, uint64_t at);
/* Path of a key's file in the folder. */
void disk_entry_path(const char *folder, const sky_key *key, char path[256]);
/* How many of that kind stand in the folder: 'e' entries, 't' temporary files, 'd' folders. */
size_t disk_count_files(const char *folder, char kind);

#endif
