/* What a model is: BLAKE2b-256 of everything its GGUF file says (key-values and tensor table) and
 * holds (tensor data), for each file of a split model, and of the settings of the adapter that
 * shape its KV. A cryptographic hash, as a second model of the same fingerprint would be answered
 * from the state of the first.
 *
 * Hashing takes a second a gigabyte, so the digest of tensor data is kept, in
 *   $XDG_CACHE_HOME/skymem-fingerprint/DEVICE-INODE:
 *   | magic 8 | size 8 | modified ns 8 | changed ns 8 | from 8 | digest 32 | XXH3-64 of that 8 |
 * and holds while the file has the same size and times. `changed` is the time that no program can
 * set. Of a file that changed within the last seconds nothing is kept: a later write might leave
 * the same times. Only records that nobody else can have written are read. */
#include "adapter.h"

#include <errno.h>
#include <fcntl.h>
#include <gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <skymem/keys.h>

#define PATH_BYTES 4096
#define SPLITS_MAX 1024

#define MAGIC        UINT64_C(0x31474e46594b53) /* "SKYFNG1" */
#define RECORD_BYTES 80
#define SETTLED_NS   (INT64_C(2) * 1000000000)
#define PIECE_BYTES  ((size_t)256 << 10)

typedef struct {
    int fd;
    size_t bytes;
    struct stat stat; /* as it was when it was opened */
} model_file;

/* ---- digests that are kept ---- */

static int64_t ns_of(struct timespec t) {
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The record's file; false where there is no cache folder. */
static bool record_path(const model_file *file, bool make, char path[PATH_BYTES]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool own = cache && cache[0] == '/';
    if (!own && (!home || home[0] != '/'))
        return false;
    int used = snprintf(path, PATH_BYTES, "%s%s/skymem-fingerprint", own ? cache : home,
                        own ? "" : "/.cache");
    if (used < 0 || used > PATH_BYTES - 64)
        return false;
    if (make)
        mkdir(path, 0700); /* its parent is there, or there is no cache */
    snprintf(path + used, PATH_BYTES - (size_t)used, "/%jx-%jx", (uintmax_t)file->stat.st_dev,
             (uintmax_t)file->stat.st_ino);
    return true;
}

/* All of the record but the digest and the sum. */
static void describe_file(const model_file *file, uint64_t from, uint64_t words[5]) {
    words[0] = MAGIC;
    words[1] = file->bytes;
    words[2] = (uint64_t)ns_of(file->stat.st_mtim);
    words[3] = (uint64_t)ns_of(file->stat.st_ctim);
    words[4] = from;
}

static bool is_ours(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 022) == 0 && st.st_nlink == 1;
}

static bool load_digest(const model_file *file, uint64_t from, uint8_t out[32]) {
    char path[PATH_BYTES];
    uint8_t record[RECORD_BYTES];
    uint64_t words[5], sum;
    if (!record_path(file, false, path))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool found = is_ours(fd) && read(fd, record, sizeof record) == sizeof record;
    close(fd);
    describe_file(file, from, words);
    sum = sky_content_hash(record, RECORD_BYTES - 8, 0);
    found = found && memcmp(record, words, sizeof words) == 0 &&
            memcmp(record + RECORD_BYTES - 8, &sum, 8) == 0;
    if (found)
        memcpy(out, record + sizeof words, 32);
    return found;
}

static bool is_settled(const model_file *file) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ns_of(file->stat.st_ctim) <= ns_of(now) - SETTLED_NS;
}

/* Best effort: without it the next start hashes again. */
static void save_digest(const model_file *file, uint64_t from, const uint8_t digest[32]) {
    char path[PATH_BYTES], temp[PATH_BYTES + 32];
    uint8_t record[RECORD_BYTES];
    uint64_t words[5], sum;
    if (!is_settled(file) || !record_path(file, true, path))
        return;
    describe_file(file, from, words);
    memcpy(record, words, sizeof words);
    memcpy(record + sizeof words, digest, 32);
    sum = sky_content_hash(record, RECORD_BYTES - 8, 0);
    memcpy(record + RECORD_BYTES - 8, &sum, 8);
    snprintf(temp, sizeof temp, "%s.%ld", path, (long)getpid());
    unlink(temp);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool written = write(fd, record, sizeof record) == sizeof record;
    written = close(fd) == 0 && written;
    if (!written || rename(temp, path) != 0)
        unlink(temp);
}

/* ---- files ---- */

static sky_status open_model(const char *path, model_file *out, sky_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO would wait for a writer */
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return sky__llama_fail(error, SKY_E_IO, "%s: cannot open the model: %s", path,
                               strerror(reason));
    }
    if (!S_ISREG(st.st_mode) || st.st_size < 4) {
        close(fd);
        return sky__llama_fail(error, SKY_E_SYNTAX, "%s: not a GGUF model file", path);
    }
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *out = (model_file){fd, (size_t)st.st_size, st};
    return SKY_OK;
}

/* Another file at `path`, or another size or time of the open one. */
static bool has_changed(const model_file *file, const char *path) {
    struct stat now, named;
    const struct stat *then = &file->stat;
    return fstat(file->fd, &now) != 0 || stat(path, &named) != 0 || named.st_dev != now.st_dev ||
           named.st_ino != now.st_ino || now.st_size != then->st_size ||
           ns_of(now.st_mtim) != ns_of(then->st_mtim) || ns_of(now.st_ctim) != ns_of(then->st_ctim);
}

/* ---- hashing ---- */

/* A part of a file, read in pieces: a mapping would kill the process when the file shrinks. */
typedef struct {
    const model_file *file;
    sky_span first; /* hashed before the part */
    size_t from, to;
    sky_span last; /* and behind it */
    uint8_t *buffer;
    int failure; /* errno; EAGAIN: the file ended early */
} part;

static bool take_span(sky_span *span, sky_span *piece) {
    *piece = *span;
    *span = (sky_span){0};
    return piece->bytes > 0;
}

static bool next_piece(void *context, sky_span *piece) {
    part *p = context;
    if (take_span(&p->first, piece))
        return true;
    if (p->from == p->to)
        return take_span(&p->last, piece);
    size_t bytes = p->to - p->from < PIECE_BYTES ? p->to - p->from : PIECE_BYTES;
    ssize_t got;
    do {
        got = pread(p->file->fd, p->buffer, bytes, (off_t)p->from);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        p->failure = got < 0 ? errno : EAGAIN;
        return false;
    }
    p->from += (size_t)got;
    *piece = (sky_span){p->buffer, (size_t)got};
    return true;
}

static sky_status digest_part(const char *path, part *p, uint8_t out[32], sky_error *error) {
    p->buffer = malloc(PIECE_BYTES);
    if (!p->buffer)
        return sky__llama_fail(error, SKY_E_NOMEM, "%s: no memory to read it", path);
    sky_digest_each(next_piece, p, out);
    free(p->buffer);
    if (p->failure != 0 && p->failure != EAGAIN)
        return sky__llama_fail(error, SKY_E_IO, "%s: cannot read the model: %s", path,
                               strerror(p->failure));
    if (p->failure == EAGAIN || has_changed(p->file, path))
        return sky__llama_fail(error, SKY_E_IO,
                               "%s: the model changed while it was read; start again when it is "
                               "complete",
                               path);
    return SKY_OK;
}

/* What a file's header says. */
typedef struct {
    size_t data_offset;   /* where tensor data starts */
    uint32_t split_count; /* files that the model has */
    bool rope_by_context; /* two sets of factors: one for large contexts, one for others */
} file_table;

static sky_status read_table(const char *path, const model_file *file, file_table *out,
                             sky_error *error) {
    char magic[4];
    if (pread(file->fd, magic, 4, 0) != 4 || memcmp(magic, "GGUF", 4) != 0)
        return sky__llama_fail(error, SKY_E_SYNTAX, "%s: not a GGUF model file", path);
    struct gguf_context *table = gguf_init_from_file(path,
                                                     (struct gguf_init_params){.no_alloc = true});
    if (!table)
        return sky__llama_fail(error, SKY_E_SYNTAX,
                               "%s: the GGUF header is damaged; fetch the file again", path);
    size_t offset = gguf_get_data_offset(table), end = offset;
    for (int64_t i = 0; i < gguf_get_n_tensors(table); i++) {
        size_t tensor_end = offset + gguf_get_tensor_offset(table, i) +
                            gguf_get_tensor_size(table, i);
        if (tensor_end > end)
            end = tensor_end;
    }
    int64_t key = gguf_find_key(table, "split.count");
    bool split = key >= 0 && gguf_get_kv_type(table, key) == GGUF_TYPE_UINT16;
    *out = (file_table){.data_offset = offset,
                        .split_count = split ? gguf_get_val_u16(table, key) : 1,
                        .rope_by_context = gguf_find_tensor(table, "rope_factors_long.weight") >=
                                           0};
    gguf_free(table);
    if (offset > file->bytes || end > file->bytes)
        return sky__llama_fail(error, SKY_E_SYNTAX,
                               "%s: the file ends at byte %zu of %zu; fetch it again", path,
                               file->bytes, end);
    return SKY_OK;
}

static sky_status digest_content(const char *path, const model_file *file, size_t from,
                                 uint8_t out[32], sky_error *error) {
    part content = {.file = file, .from = from, .to = file->bytes};
    if (load_digest(file, from, out))
        return SKY_OK;
    sky_status status = digest_part(path, &content, out, error);
    if (status == SKY_OK)
        save_digest(file, from, out);
    return status;
}

/* Fold one file into `digest`. */
static sky_status add_file(const char *path, uint8_t digest[32], file_table *out,
                           sky_error *error) {
    model_file file = {0};
    sky_status status = open_model(path, &file, error);
    if (status != SKY_OK)
        return status;
    uint8_t content[32];
    status = read_table(path, &file, out, error);
    if (status == SKY_OK)
        status = digest_content(path, &file, out->data_offset, content, error);
    if (status == SKY_OK) {
        part header = {.file = &file,
                       .first = {digest, 32},
                       .to = out->data_offset,
                       .last = {content, sizeof content}};
        status = digest_part(path, &header, digest, error);
    }
    close(file.fd);
    return status;
}

sky_status sky__llama_fingerprint(const char *model_path, const char *settings, uint8_t out[32],
                                  bool *rope_by_context, sky_error *error) {
    uint8_t digest[32];
    sky_span piece = {(void *)(uintptr_t)settings, strlen(settings)};
    sky_digest(&piece, 1, digest);

    file_table table = {.split_count = 1};
    sky_status status = add_file(model_path, digest, &table, error);
    uint32_t split_count = table.split_count;
    bool by_context = table.rope_by_context;
    char prefix[PATH_BYTES], path[PATH_BYTES];
    if (status == SKY_OK && split_count > 1 &&
        (split_count > SPLITS_MAX ||
         llama_split_prefix(prefix, sizeof prefix, model_path, 0, (int32_t)split_count) <= 0))
        status = sky__llama_fail(error, SKY_E_SYNTAX,
                                 "%s: a model of %u files; name the first, …-00001-of-%05u.gguf",
                                 model_path, split_count, split_count);
    for (uint32_t i = 1; status == SKY_OK && i < split_count; i++) {
        llama_split_path(path, sizeof path, prefix, (int32_t)i, (int32_t)split_count);
        status = add_file(path, digest, &table, error);
        by_context |= table.rope_by_context;
    }
    if (status != SKY_OK)
        return status;
    memcpy(out, digest, 32);
    *rope_by_context = by_context;
    return SKY_OK;
}
