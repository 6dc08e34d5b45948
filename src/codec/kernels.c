/* See kernels.h. */
#include "codec/kernels.h"

#include <stdatomic.h>
#include <string.h>

#define KERNELS      sky__kernels_scalar
#define NAME         "scalar"
#define TABLES_BYTES 0 /* by table, not by unit */
#include "codec/kernels_set.h"

/* Best first. */
static const sky_codec_kernels *const all[] = {
#if defined(__x86_64__)
    &sky__kernels_avx512,
    &sky__kernels_avx2,
#elif defined(__aarch64__)
    &sky__kernels_neon,
#endif
    &sky__kernels_scalar,
};
#define COUNT (sizeof all / sizeof all[0])

static _Atomic(const sky_codec_kernels *) in_use;

static const sky_codec_kernels *choose_kernels(void) {
    size_t i = 0;
    while (!all[i]->here())
        i++;
    return all[i];
}

const sky_codec_kernels *sky__kernels(void) {
    const sky_codec_kernels *kernels = atomic_load_explicit(&in_use, memory_order_relaxed);
    if (!kernels) {
        kernels = choose_kernels();
        atomic_store_explicit(&in_use, kernels, memory_order_relaxed);
    }
    return kernels;
}

const char *sky_codec_kernels_name(void) {
    return sky__kernels()->name;
}

sky_status sky_codec_kernels_use(const char *name) {
    for (size_t i = 0; name && i < COUNT; i++) {
        if (strcmp(all[i]->name, name) != 0)
            continue;
        if (!all[i]->here())
            return SKY_E_UNSUPPORTED;
        atomic_store_explicit(&in_use, all[i], memory_order_relaxed);
        return SKY_OK;
    }
    if (name) {
        static const char *const known[] = {"scalar", "avx2", "avx512", "neon"};
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (strcmp(known[i], name) == 0)
                return SKY_E_UNSUPPORTED;
        return SKY_E_PARAM;
    }
    atomic_store_explicit(&in_use, choose_kernels(), memory_order_relaxed);
    return SKY_OK;
}
