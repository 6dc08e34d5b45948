/* Tests whether your own store keeps the promises of a tier. It is the suite that the library's
 * tiers pass, for drivers (skymem/tier.h).
 *
 *   #include <skymem/conformance.h>
 *
 *   int main(void) {
 *       const sky_conformance dir = {sizeof dir, .driver = &tier_dir, .url = "dir:/tmp/values"};
 *       return sky_conformance_run(&dir);
 *   }
 *
 * It is an archive for test programs, not a part of libskymem, and brings the library along:
 * `pkg-config --cflags --libs skymem-conformance`, or with CMake
 * find_package(skymem COMPONENTS conformance) and skymem::conformance instead of skymem::skymem. It
 * needs cmocka. */
#ifndef SKYMEM_CONFORMANCE_H
#define SKYMEM_CONFORMANCE_H

#include <skymem/tier.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero what you do not set. */
typedef struct {
    size_t struct_bytes; /* sizeof(sky_conformance) of the caller's header */
    const sky_tier_driver *driver;
    const char *url; /* of a store for this alone: everything in it is removed */
    /* Empty the store, which is not open. NULL: by the driver's `list` and `remove`; a store that
     * is volatile begins empty. */
    void (*clear)(void *context);
    void *context;
    uint64_t payload_bytes_max; /* the largest to try; 0: 3 MiB and some */
    uint32_t items_max;         /* in the largest batches; 0: 1000 */
} sky_conformance;

/* Run every test that applies: leases, pins and reopening where the driver has them. cmocka reports
 * each on standard output.
 * The result: how many tests failed; -1 and a sentence on standard error: an argument is wrong, or
 * the store cannot be opened
 * Threads: one at a time */
int sky_conformance_run(const sky_conformance *conformance);

#ifdef __cplusplus
}
#endif
#endif
