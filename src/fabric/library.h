/* libfabric, loaded when somebody first asks for it: docs/decisions/0053 says why it is not linked.
 *
 * Loading it loads what its providers need. One of these, libpsm_infinipath, takes over SIGINT,
 * SIGTERM, SIGSEGV and others of the process as it is loaded: they are put back. Thread-safe. */
#ifndef SKY_FABRIC_LIBRARY_H
#define SKY_FABRIC_LIBRARY_H

#include <skymem/types.h>

struct fi_info;
struct fi_fabric_attr;
struct fid_fabric;

#define SKY__FABRIC_VERSION FI_VERSION(1, 14) /* of its interface, which ours is written for */

/* What it exports; all else is reached through its objects. */
typedef struct {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **out);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
    const char *(*strerror)(int code);
    uint32_t (*version)(void);
} sky__fabric_library;

/* It stays loaded. Errors: SKY_E_UNSUPPORTED (it is not installed, or older than what this was
 * built with, or this was built without it); `error` says so */
sky_status sky__fabric_load(const sky__fabric_library **out, sky_error *error);

#endif
