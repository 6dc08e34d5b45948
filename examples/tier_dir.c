/* A store of your own as a tier: each value is a file in one folder. own_tier.c is a program that
 * uses it, docs/writing-a-tier.md explains it, and the tests run the conformance suite on it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <skymem/skymem.h>

#define NAME_BYTES 65 /* 64 hexadecimal digits and a NUL */

typedef struct {
    int folder;
} dir_store;

static sky_status status_of_errno(void) {
    return errno == ENOENT                     ? SKY_MISS
           : errno == EACCES || errno == EROFS ? SKY_E_DENIED
           : errno == ENOSPC                   ? SKY_E_FULL
           : errno == ENOMEM                   ? SKY_E_NOMEM
                                               : SKY_E_IO;
}

static void name_of_key(const sky_key *key, char name[NAME_BYTES]) {
    for (size_t i = 0; i < sizeof key->bytes; i++)
        snprintf(name + 2 * i, 3, "%02x", key->bytes[i]);
}

static bool key_of_name(const char *name, sky_key *key) {
    unsigned byte;
    for (size_t i = 0; i < sizeof key->bytes; i++) {
        if (sscanf(name + 2 * i, "%2x", &byte) != 1)
            return false;
        key->bytes[i] = (unsigned char)byte;
    }
    return name[NAME_BYTES - 1] == '\0';
}

static sky_status dir_open(const char *where, void **self, sky_error *error) {
    if (strchr(where, '?')) {
        snprintf(error->text, sizeof error->text, "dir:%s: this store has no settings", where);
        return SKY_E_SYNTAX;
    }
    (void)mkdir(where, 0700); /* it may be there */
    int folder = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        snprintf(error->text, sizeof error->text, "cannot open the folder: %s", strerror(errno));
        return SKY_E_IO;
    }
    dir_store *store = malloc(sizeof *store);
    if (!store) {
        close(folder);
        return SKY_E_NOMEM;
    }
    store->folder = folder;
    *self = store;
    return SKY_OK;
}

static void dir_close(void *self) {
    dir_store *store = self;
    close(store->folder);
    free(store);
}

static sky_status dir_read(void *self, const sky_key *key, uint64_t offset, void *data,
                           uint64_t bytes, uint64_t *value_bytes) {
    const dir_store *store = self;
    char name[NAME_BYTES];
    name_of_key(key, name);
    int file = openat(store->folder, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return status_of_errno();
    struct stat facts;
    sky_status status = fstat(file, &facts) == 0 ? SKY_OK : status_of_errno();
    for (uint64_t done = 0; status == SKY_OK && done < bytes;) {
        ssize_t n = pread(file, (char *)data + done, bytes - done, (off_t)(offset + done));
        if (n < 0)
            status = status_of_errno();
        if (n == 0)
            break;
        done += (uint64_t)n;
    }
    *value_bytes = (uint64_t)facts.st_size;
    close(file);
    return status;
}

/* The value is written under another name, and gets its own when it is whole. */
static sky_status dir_write(void *self, const sky_key *key, const void *value, uint64_t bytes,
                            bool durable) {
    const dir_store *store = self;
    char name[NAME_BYTES], temporary[NAME_BYTES + 4];
    name_of_key(key, name);
    snprintf(temporary, sizeof temporary, "%s.new", name);
    int file = openat(store->folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return status_of_errno();
    sky_status status = SKY_OK;
    for (uint64_t done = 0; status == SKY_OK && done < bytes;) {
        ssize_t n = write(file, (const char *)value + done, bytes - done);
        if (n < 0)
            status = status_of_errno();
        done += n > 0 ? (uint64_t)n : 0;
    }
    if (status == SKY_OK && durable && fsync(file) != 0)
        status = status_of_errno();
    close(file);
    if (status == SKY_OK && renameat(store->folder, temporary, store->folder, name) != 0)
        status = status_of_errno();
    if (status != SKY_OK)
        unlinkat(store->folder, temporary, 0);
    else if (durable && fsync(store->folder) != 0)
        status = status_of_errno();
    return status;
}

static sky_status dir_remove(void *self, const sky_key *key) {
    const dir_store *store = self;
    char name[NAME_BYTES];
    name_of_key(key, name);
    return unlinkat(store->folder, name, 0) == 0 ? SKY_OK : status_of_errno();
}

static sky_status dir_each(const dir_store *store,
                           bool (*each)(void *context, const sky_key *key, uint64_t bytes),
                           void *context) {
    int again = openat(store->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    if (!folder)
        return status_of_errno();
    bool more = true;
    for (const struct dirent *e; more && (e = readdir(folder)) != NULL;) {
        sky_key key;
        struct stat facts;
        if (strlen(e->d_name) == NAME_BYTES - 1 && key_of_name(e->d_name, &key) &&
            fstatat(store->folder, e->d_name, &facts, 0) == 0)
            more = each(context, &key, (uint64_t)facts.st_size);
    }
    closedir(folder);
    return SKY_OK;
}

typedef struct {
    sky_tier_key_fn each;
    void *context;
} key_listener;

static bool pass_key_on(void *context, const sky_key *key, uint64_t bytes) {
    const key_listener *l = context;
    (void)bytes;
    return l->each(l->context, key);
}

static sky_status dir_list(void *self, sky_tier_key_fn each, void *context) {
    key_listener listener = {each, context};
    return dir_each(self, pass_key_on, &listener);
}

static bool add_bytes(void *context, const sky_key *key, uint64_t bytes) {
    uint64_t *counts = context;
    (void)key;
    counts[0]++;
    counts[1] += bytes;
    return true;
}

static sky_status dir_usage(void *self, uint64_t *entries, uint64_t *bytes, uint64_t *bytes_max) {
    uint64_t counts[2] = {0, 0};
    sky_status status = dir_each(self, add_bytes, counts);
    *entries = counts[0];
    *bytes = counts[1];
    *bytes_max = 0;
    return status;
}

static const sky_tier_driver tier_dir = {.struct_bytes = sizeof tier_dir,
                                         .threads = 4,
                                         .open = dir_open,
                                         .read = dir_read,
                                         .write = dir_write,
                                         .remove = dir_remove,
                                         .list = dir_list,
                                         .usage = dir_usage,
                                         .close = dir_close};
