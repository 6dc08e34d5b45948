/* Giving a folder its seal: what the files of seal.c say, when the folder is empty enough. */
#include "tier/disk/folder.h"

#include <stdatomic.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/file.h"
#include "tier/disk/seal.h"

#define PATIENCE SKY_SECONDS(2)

static void note_entry(void *found, const sky_key *key) {
    (void)key;
    atomic_store((atomic_bool *)found, true);
}

/* A ledger that is damaged or gone says nothing: look for entries then. */
static bool is_empty(const sky_disk_folder *f) {
    sky_disk_ledger ledger;
    atomic_bool found = false;
    uint64_t swept;
    sky_disk_ledger_peek(f, &ledger);
    if (ledger.known)
        return ledger.bytes_used == 0;
    return sky_disk_folder_scan(f, note_entry, &found, &swept) == SKY_OK && !atomic_load(&found);
}

static sky_status open_seal(sky_disk_folder *f, const char *path, const char *key_path, bool create,
                            sky_error *error) {
    sky_status status = sky_disk_seal_open(f->root, path, key_path, &f->seal, error);
    if (status != SKY_MISS || !key_path)
        return status == SKY_MISS ? SKY_OK : status;
    if (!create || !sky_disk_folder_writable(f) || !is_empty(f))
        return sky_fail(error, SKY_E_PARAM,
                        "%s: is not sealed, and an existing folder does not become so: name an "
                        "empty one, or leave out seal=",
                        path);
    return sky_disk_seal_begin_folder(f->root, path, key_path, &f->seal, error);
}

sky_status sky_disk_folder_seal(sky_disk_folder *f, const char *path, const char *key_path,
                                bool create, sky_error *error) {
    /* Two processes that make one folder agree on its salt. */
    bool lock = key_path && sky_disk_folder_writable(f);
    if (lock && sky_file_lock(f->ledger, sky_now() + PATIENCE) != SKY_OK)
        return sky_fail(error, SKY_E_BUSY, "%s: another process holds its ledger", path);
    sky_status status = open_seal(f, path, key_path, create, error);
    if (lock)
        sky_file_unlock(f->ledger);
    return status;
}
