#include "fabric/library.h"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <signal.h>

#include "base/error.h"
#include "io/sync.h"

#define FILE_NAME "libfabric.so.1"

static sky_mutex mutex = SKY_MUTEX_INIT;
static bool loaded;
static sky__fabric_library library;

/* What a signal does is the program's to say, and was said before. */
static void *open_quietly(void) {
    struct sigaction before[NSIG];
    bool known[NSIG];
    for (int n = 1; n < NSIG; n++)
        known[n] = sigaction(n, NULL, &before[n]) == 0;
    void *handle = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    for (int n = 1; n < NSIG; n++)
        if (known[n])
            (void)sigaction(n, &before[n], NULL);
    return handle;
}

/* A function from where data is, which C does not convert. */
static bool find_symbol(void *handle, const char *name, void *function) {
    void *found = dlsym(handle, name);
    *(void **)function = found;
    return found != NULL;
}

/* With the mutex held. Its structures grow at their ends alone, and it makes those that it reads:
 * one at least as new as the header serves. */
static sky_status load_library(sky_error *error) {
    sky__fabric_library *l = &library;
    void *handle = open_quietly();
    if (!handle)
        return sky_fail(error, SKY_E_UNSUPPORTED,
                        "libfabric does not load: %.200s (Debian: apt install libfabric1)",
                        dlerror());
    if (!find_symbol(handle, "fi_getinfo", &l->getinfo) ||
        !find_symbol(handle, "fi_freeinfo", &l->freeinfo) ||
        !find_symbol(handle, "fi_dupinfo", &l->dupinfo) ||
        !find_symbol(handle, "fi_fabric", &l->fabric) ||
        !find_symbol(handle, "fi_strerror", &l->strerror) ||
        !find_symbol(handle, "fi_version", &l->version))
        return sky_fail(error, SKY_E_UNSUPPORTED, FILE_NAME ": not libfabric, or another version");
    uint32_t has = l->version();
    if (FI_VERSION_LT(has, FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)))
        return sky_fail(error, SKY_E_UNSUPPORTED,
                        FILE_NAME " is of version %u.%u, and this was built with %d.%d",
                        FI_MAJOR(has), FI_MINOR(has), FI_MAJOR_VERSION, FI_MINOR_VERSION);
    loaded = true;
    return SKY_OK;
}

sky_status sky__fabric_load(const sky__fabric_library **out, sky_error *error) {
    sky_mutex_lock(&mutex);
    sky_status status = loaded ? SKY_OK : load_library(error);
    sky_mutex_unlock(&mutex);
    if (status == SKY_OK)
        *out = &library;
    return status;
}
