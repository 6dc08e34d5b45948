/* Memory that processes share: files without a name (memfd), sealed, mapped side by side in a range
 * of addresses that was reserved before.
 *
 *   owner:  range | segment 0 | segment 1 |   (nothing yet)   | segment 3 | …    read and write
 *                      │ fd, over a Unix socket (io/local.h)
 *   peer:   range | segment 0 |   (nothing yet)   …                              read only
 *
 * Seals: no process can make a segment smaller, so that touching it never raises SIGBUS, nor
 * larger. SKY_SHARED_READ: none but the maker of the segment can ever write to it, whatever it does
 * with the descriptor. */
#ifndef SKY_IO_SHARED_H
#define SKY_IO_SHARED_H

#include <skymem/types.h>

typedef enum {
    SKY_SHARED_READ, /* peers read */
    SKY_SHARED_WRITE /* peers write too */
} sky_shared_access;

/* Make a segment of `bytes` bytes, all zeros, and map it at `at`, for reading and writing. Its
 * pages take memory once they are touched. `at` is page-aligned and lies with all of `bytes` in a
 * range of sky_pages_reserve.
 * Owner:  *fd is the caller's; closing it leaves the mapping
 * Errors: SKY_E_NOMEM (memory, addresses, descriptors), SKY_E_UNSUPPORTED (a kernel before 5.1);
 *         nothing is changed then */
sky_status sky_shared_make(void *at, size_t bytes, sky_shared_access peers, int *fd);

/* Map at `at` what another process sent as a segment; the descriptor is not trusted.
 * Errors: SKY_E_CORRUPT (no sealed memory of at least that size), SKY_E_NOMEM */
sky_status sky_shared_map(int fd, void *at, size_t bytes, sky_shared_access access);

/* Map a part of what sky_shared_is_safe has approved, for reading, at a place in a range of
 * sky_pages_reserve. `at`, `offset` and `bytes` are multiples of sky_pages_unit, and the part lies
 * within the bytes that were approved.
 * Errors: SKY_E_NOMEM (memory, or mappings: a process may have vm.max_map_count) */
sky_status sky_shared_map_part(int fd, uint64_t offset, void *at, size_t bytes);

/* Unmap: what was at `at` is reserved again, and reads as zeros.
 * Errors: SKY_E_NOMEM; the segment is mapped still */
sky_status sky_shared_unmap(void *at, size_t bytes);

/* Bytes of sealed memory; 0: it is none. */
uint64_t sky_shared_bytes(int fd);

/* Share memory that the caller made (memfd_create with MFD_ALLOW_SEALING): its first `bytes` bytes
 * are mapped at `at` for reading and writing, and then it is sealed as by sky_shared_make for peers
 * that read. What is mapped for writing before stays so. Memory that is sealed so already is mapped
 * for reading alone.
 * Errors: SKY_E_PARAM (no memfd of this size that can be sealed, huge pages of their own pool),
 *         SKY_E_NOMEM */
sky_status sky_shared_adopt(int fd, void *at, size_t bytes);

/* Whether at least so many bytes of what a peer sent may be read, and shown to third ones: no
 * process can shrink it, punch holes into it or newly map it for writing, and no read of it raises
 * SIGBUS. */
bool sky_shared_is_safe(int fd, uint64_t bytes);

/* Some bytes for one reader, which takes them away: reading empties the memory for all that have a
 * descriptor of it, so that nobody reads them again.
 * Owner:  *fd, and *data (by free), are the caller's
 * Errors: SKY_E_NOMEM, SKY_E_UNSUPPORTED; sky_shared_read_once: SKY_E_CORRUPT (no such memory, or
 *         it was read before, or is larger than bytes_max), SKY_E_NOMEM */
sky_status sky_shared_write_once(const void *data, size_t bytes, int *fd);
sky_status sky_shared_read_once(int fd, size_t bytes_max, void **data, size_t *bytes);

/* A sealed copy of some bytes, which nobody can change any more, for a peer to map.
 * Errors: SKY_E_NOMEM, SKY_E_UNSUPPORTED */
sky_status sky_shared_copy(const void *data, size_t bytes, int *fd);

#endif
