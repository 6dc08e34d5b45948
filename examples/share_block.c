/* Two processes of a host share a block that one of them laid out itself, and nobody copies it.
 *
 *   cc share_block.c -o share_block $(pkg-config --cflags --libs skymem)
 *   ./share_block shm:auto
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <skymem/skymem.h>

enum { LAYERS = 4, KV = 2, BUFFERS = LAYERS * KV, BUFFER_BYTES = 65536 };

static int fail(const char *what, sky_status status) {
    fprintf(stderr, "share_block: %s: %s\n", what, sky_status_text(status));
    return 1;
}

static sky_blob *open_blob(const char *url, uint64_t bytes) {
    const sky_blob_options options = {.struct_bytes = sizeof options, .bytes = bytes};
    sky_blob *blob = NULL;
    sky_error error;
    if (sky_blob_open(url, &options, &blob, &error) != SKY_OK)
        fprintf(stderr, "share_block: %s\n", error.text);
    return blob;
}

/* The second process: read layer by layer, where the first wrote it. */
static int read_block(const char *url, const sky_key *key) {
    sky_blob *blob = open_blob(url, 0);
    sky_block *block;
    if (!blob)
        return 1;
    sky_status status = sky_block_get(blob, key, SKY_TIME_NEVER, &block);
    if (status != SKY_OK)
        return fail("get", status);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        sky_span k, v;
        (void)sky_block_view(block, layer, 0, 0, &k);
        (void)sky_block_view(block, layer, 1, 0, &v);
        status = sky_block_read(block, layer, NULL, 0); /* compare with the checksums */
        if (status != SKY_OK)
            return fail("read", status);
        printf("layer %u: K %c, V %c\n", layer, *(char *)k.data, *(char *)v.data);
    }
    sky_block_release(block);
    sky_blob_close(blob);
    return 0;
}

/* The first: buffers wherever its allocator puts them. */
static sky_status write_block(sky_blob *blob, const sky_key *key) {
    uint64_t offsets[BUFFERS], sizes[BUFFERS];
    sky_status status = SKY_OK;
    for (int i = 0; i < BUFFERS && status == SKY_OK; i++) {
        sizes[i] = BUFFER_BYTES;
        status = sky_blob_take(blob, BUFFER_BYTES, &offsets[i]);
        if (status == SKY_OK)
            memset((char *)sky_blob_memory(blob) + offsets[i], 'a' + i, BUFFER_BYTES);
    }
    const sky_block_layout layout = {
        .key = *key, .shape = {LAYERS, KV, 1}, .offsets = offsets, .sizes = sizes};
    return status == SKY_OK ? sky_block_put(blob, &layout, 1, SKY_TIME_NEVER, NULL) : status;
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "shm:auto";
    const uint32_t tokens[] = {1, 2, 3, 4};
    const sky_namespace anybody = {0};
    sky_key key;
    sky_block_key(&anybody, NULL, tokens, 4, &key);
    int ends[2], status = 0;
    char ready = 0;
    if (pipe(ends) != 0)
        return 1;
    const pid_t reader = fork(); /* before anything is opened */
    if (reader == 0)
        return read(ends[0], &ready, 1) == 1 && ready ? read_block(url, &key) : 1;
    sky_blob *blob = open_blob(url, BUFFERS * BUFFER_BYTES);
    sky_status put = blob ? write_block(blob, &key) : SKY_E_IO;
    ready = put == SKY_OK;
    if (write(ends[1], &ready, 1) != 1 || waitpid(reader, &status, 0) != reader)
        return 1;
    sky_blob_close(blob);
    return put != SKY_OK ? fail("put", put) : status != 0;
}
