/* Keys: 32 bytes from the system's source of chance, kept in files that only their owner reads. */
#ifndef SKY_IO_SECRET_H
#define SKY_IO_SECRET_H

#include <skymem/types.h>

#define SKY_SECRET_FILE_BYTES 32

/* Bytes nobody can guess. */
void sky_random(void *out, size_t bytes);

/* Read a key: a plain file of 64 hexadecimal digits, a line break after them or not, that belongs
 * to this user (or root) and is open to nobody else (mode 0600 or 0400).
 * Errors: SKY_E_DENIED (it is open to others, or theirs), SKY_E_CORRUPT (not a key), SKY_E_IO;
 *         `error` says which file, why, and what to do */
sky_status sky_secret_read(const char *path, uint8_t out[SKY_SECRET_FILE_BYTES], sky_error *error);

/* Zeroed memory for keys: never swapped out (as far as RLIMIT_MEMLOCK goes), not part of a
 * core dump, wiped when it is freed. Aligned to 64 bytes; a page at least, so not for small things
 * in number. A child of fork() sees it as any other memory.
 * Owner:  sky_secret_free; NULL when there is no memory */
void *sky_secret_alloc(size_t bytes);
void sky_secret_free(void *memory); /* NULL is fine */

/* Make a file with a new key, mode 0600, unless there is one already.
 * Errors: SKY_E_IO, SKY_E_DENIED, SKY_E_FULL; SKY_E_BUSY: it is there */
sky_status sky_secret_make(const char *path, sky_error *error);

#endif
