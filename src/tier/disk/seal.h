/* Sealing at rest: what a disk tier's folder holds when its URL says ?seal=KEYFILE.
 *
 *   key file ──BLAKE2b(salt in PATH/.seal)─► folder key
 *                                             ├─► names  the file's name: a keyed hash of the key
 *                                             ├─► bytes  XChaCha20: payload, name, key, parent
 *                                             └─► macs   BLAKE2b: each page, and the header
 *
 * Encrypt, then authenticate. Each entry has a random nonce, so the same value stored twice looks
 * different; the header's tag covers all of the header, the tags of the pages included, and a
 * page's tag covers the nonce, the entry and the page's number. So a page, a header or a file in
 * the place of another does not open: it is damage.
 *
 * Surprises: the tier below disk.c knows hidden keys only, in its catalogue, its ledger and the
 * tree of blocks; the real ones stand in the header, encrypted, for sky_list. Sizes, times, uses,
 * pins and which block follows which are in clear. Who may write to the folder can remove an entry,
 * change its uses and its pin, and put an older file of the same entry in its place. */
#ifndef SKY_TIER_DISK_SEAL_H
#define SKY_TIER_DISK_SEAL_H

#include "tier/disk/format.h"

#define SKY_DISK_SEAL_FILE_BYTES 72 /* PATH/.seal: | magic 8 | salt 32 | check 32 | */

typedef struct sky_disk_seal sky_disk_seal;

/* The seal of a folder that is open at `root` (`path`, in what errors say), from the key file that
 * the URL names (NULL: it names none).
 * Owner:  sky_disk_seal_close
 * Errors: SKY_MISS (the folder has none), SKY_E_DENIED (sealed, and no key or another one; or the
 *         key file is open to others), SKY_E_CORRUPT, SKY_E_IO, SKY_E_NOMEM; `error` says what to
 *         do, but for SKY_MISS */
sky_status sky_disk_seal_open(int root, const char *path, const char *key_path, sky_disk_seal **out,
                              sky_error *error);
/* Make a folder without entries a sealed one. Owner, errors: as above */
sky_status sky_disk_seal_begin_folder(int root, const char *path, const char *key_path,
                                      sky_disk_seal **out, sky_error *error);
/* Can this key file be read and used? Asked before a folder is made for it. Errors: as above */
sky_status sky_disk_seal_check(const char *key_path, sky_error *error);
/* The same seal for a folder that was made again. Errors: SKY_E_IO, SKY_E_DENIED */
sky_status sky_disk_seal_again(const sky_disk_seal *seal, int root);
void sky_disk_seal_close(sky_disk_seal *seal); /* NULL is fine */

/* The key that the folder knows; without a seal (NULL) the key itself. Zero stays zero. */
sky_key sky_disk_seal_hide(const sky_disk_seal *seal, const sky_key *key);

/* Make the header of an entry to come a sealed one: a nonce, and the real keys and the name, which
 * stands there already, encrypted. */
void sky_disk_seal_begin(const sky_disk_seal *seal, sky_disk_header *h, const sky_key *key,
                         const sky_key *parent);
/* Encrypt or decrypt payload bytes in place; `at` is where they stand, a multiple of 64. */
void sky_disk_seal_bytes(const sky_disk_seal *seal, const sky_disk_header *h, uint64_t at,
                         uint8_t *data, size_t bytes);
/* Its tag, when all else in it is known. */
void sky_disk_seal_end(const sky_disk_seal *seal, sky_disk_header *h);
/* Check the tag of a header and decrypt its name and keys. False when it is not this folder's. */
bool sky_disk_seal_read(const sky_disk_seal *seal, const uint8_t bytes[SKY_DISK_HEADER_BYTES],
                        sky_disk_header *h);
/* What pages are authenticated with; NULL without a seal. */
const uint8_t *sky_disk_seal_page_key(const sky_disk_seal *seal);

#endif
