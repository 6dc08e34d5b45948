/* What a model is: everything its GGUF file says (key-values and tensor table, by BLAKE2b) and
 * holds (tensor data, by XXH3, 253 MB in 30 ms from the page cache), for each file of a split
 * model, and the settings of the adapter that shape its KV. */
#include "adapter.h"

#include <errno.h>
#include <fcntl.h>
#include <gguf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <skymem/keys.h>

#define PATH_BYTES 4096
#define SPLITS_MAX 1024

typedef struct {
    const uint8_t *data;
    size_t bytes;
} mapped;

static sky_status map_file(const char *path, mapped *out, sky_error *error) {
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
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    int reason = errno;
    close(fd);
    if (data == MAP_FAILED)
        return sky__llama_fail(error, SKY_E_IO, "%s: cannot map the model: %s", path,
                               strerror(reason));
    madvise(data, (size_t)st.st_size, MADV_SEQUENTIAL);
    *out = (mapped){data, (size_t)st.st_size};
    return SKY_OK;
}

/* Where tensor data starts and ends, and how many files the model has. */
static sky_status read_table(const char *path, const mapped *file, size_t *data_offset,
                             uint32_t *split_count, sky_error *error) {
    if (memcmp(file->data, "GGUF", 4) != 0)
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
    *split_count = key >= 0 && gguf_get_kv_type(table, key) == GGUF_TYPE_UINT16
                       ? gguf_get_val_u16(table, key)
                       : 1;
    gguf_free(table);
    if (offset > file->bytes || end > file->bytes)
        return sky__llama_fail(error, SKY_E_SYNTAX,
                               "%s: the file ends at byte %zu of %zu; fetch it again", path,
                               file->bytes, end);
    *data_offset = offset;
    return SKY_OK;
}

/* Fold one file into `digest`. */
static sky_status add_file(const char *path, uint8_t digest[32], uint32_t *split_count,
                           sky_error *error) {
    mapped file = {0};
    sky_status status = map_file(path, &file, error);
    if (status != SKY_OK)
        return status;
    size_t data_offset = 0;
    status = read_table(path, &file, &data_offset, split_count, error);
    if (status == SKY_OK) {
        uint64_t content = sky_content_hash(file.data + data_offset, file.bytes - data_offset, 0);
        sky_span pieces[] = {
            {digest, 32}, {(void *)(uintptr_t)file.data, data_offset}, {&content, sizeof content}};
        sky_digest(pieces, 3, digest);
    }
    munmap((void *)(uintptr_t)file.data, file.bytes);
    return status;
}

sky_status sky__llama_fingerprint(const char *model_path, const char *settings, uint8_t out[32],
                                  sky_error *error) {
    uint8_t digest[32];
    sky_span piece = {(void *)(uintptr_t)settings, strlen(settings)};
    sky_digest(&piece, 1, digest);

    uint32_t split_count = 1;
    sky_status status = add_file(model_path, digest, &split_count, error);
    char prefix[PATH_BYTES], path[PATH_BYTES];
    if (status == SKY_OK && split_count > 1 &&
        (split_count > SPLITS_MAX ||
         llama_split_prefix(prefix, sizeof prefix, model_path, 0, (int32_t)split_count) <= 0))
        status = sky__llama_fail(error, SKY_E_SYNTAX,
                                 "%s: a model of %u files; name the first, …-00001-of-%05u.gguf",
                                 model_path, split_count, split_count);
    for (uint32_t i = 1; status == SKY_OK && i < split_count; i++) {
        uint32_t ignored;
        llama_split_path(path, sizeof path, prefix, (int32_t)i, (int32_t)split_count);
        status = add_file(path, digest, &ignored, error);
    }
    if (status == SKY_OK)
        memcpy(out, digest, 32);
    return status;
}
