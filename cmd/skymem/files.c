/* Whole files in and out, and a scratch folder. A regular file is mapped, anything else read. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int too_large(const cli *c, const char *path, uint64_t bytes_max) {
    char text[24];
    return cli_failed(c, "%s: larger than %s, the most there may be", path,
                      cli_bytes_text(bytes_max, text));
}

static int read_all(const cli *c, int fd, const char *path, uint64_t bytes_max, cli_blob *out) {
    size_t room = 1u << 16;
    out->data = malloc(room);
    for (;;) {
        if (!out->data)
            return cli_failed(c, "%s: out of memory", path);
        ssize_t got = read(fd, (uint8_t *)out->data + out->bytes, room - out->bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cli_failed(c, "%s: %s", path, strerror(errno));
        if (got == 0)
            return CLI_OK;
        out->bytes += (size_t)got;
        if (out->bytes > bytes_max)
            return too_large(c, path, bytes_max);
        if (out->bytes == room) {
            room *= 2;
            void *more = realloc(out->data, room);
            if (!more)
                free(out->data);
            out->data = more;
        }
    }
}

int cli_blob_read(const cli *c, const char *path, uint64_t bytes_max, cli_blob *out) {
    bool standard = !path || strcmp(path, "-") == 0;
    const char *shown = standard ? "standard input" : path;
    memset(out, 0, sizeof *out);
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cli_failed(c, "%s: %s", shown, strerror(errno));
    struct stat st;
    int code = CLI_OK;
    if (!standard && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        if ((uint64_t)st.st_size > bytes_max) {
            code = too_large(c, shown, bytes_max);
        } else {
            void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
            if (data == MAP_FAILED)
                code = cli_failed(c, "%s: %s", shown, strerror(errno));
            else
                *out = (cli_blob){data, (size_t)st.st_size, true};
        }
    } else {
        code = read_all(c, fd, shown, bytes_max, out);
    }
    if (!standard)
        close(fd);
    if (code != CLI_OK)
        cli_blob_free(out);
    return code;
}

void cli_blob_free(cli_blob *blob) {
    if (blob->mapped)
        munmap(blob->data, blob->bytes);
    else
        free(blob->data);
    *blob = (cli_blob){0};
}

int cli_file_write(const cli *c, const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "we");
    if (!file)
        return cli_failed(c, "%s: %s", path, strerror(errno));
    bool whole = fwrite(data, 1, bytes, file) == bytes;
    if (fclose(file) != 0 || !whole)
        return cli_failed(c, "%s: %s; is the disk full?", path, strerror(errno));
    return CLI_OK;
}

int cli_scratch_make(const cli *c, const char *name, char *path, size_t path_bytes) {
    char home[4000];
    mkdir(cli_cache_home(home, sizeof home), 0700);
    snprintf(path, path_bytes, "%s/skymem-%s-XXXXXX", home, name);
    if (mkdtemp(path))
        return CLI_OK;
    int failure = errno;
    path[0] = '\0';
    return cli_failed(c, "%s: %s; set XDG_CACHE_HOME to a folder that can be written", home,
                      strerror(failure));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st, (void)kind, (void)where;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void cli_scratch_remove(const char *path) {
    if (path[0])
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
