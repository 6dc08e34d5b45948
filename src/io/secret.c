#include "io/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <skymem/keys.h>

#include "base/error.h"
#include "io/file.h"

#define DIGITS (2 * SKY_SECRET_FILE_BYTES)

void sky_random(void *out, size_t bytes) {
    uint8_t *at = out;
    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno != EINTR) { /* no kernel we run on */
            perror("skymem: getrandom");
            abort();
        }
        at += got > 0 ? got : 0;
        bytes -= got > 0 ? (size_t)got : 0;
    }
}

/* What stands before the memory, so that whoever frees it need not know its size. */
#define HEAD_BYTES 64
typedef struct {
    size_t bytes; /* of the mapping */
} region;

void *sky_secret_alloc(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t whole = (HEAD_BYTES + bytes + page - 1) / page * page;
    uint8_t *map = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    (void)madvise(map, whole, MADV_DONTDUMP);
    (void)mlock2(map, whole, MLOCK_ONFAULT); /* what is used, as far as the limit goes */
    ((region *)(void *)map)->bytes = whole;
    return map + HEAD_BYTES;
}

void sky_secret_free(void *memory) {
    if (!memory)
        return;
    uint8_t *map = (uint8_t *)memory - HEAD_BYTES;
    size_t whole = ((region *)(void *)map)->bytes;
    explicit_bzero(map, whole);
    munmap(map, whole);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool parse_hex(const char *text, size_t bytes, uint8_t *out) {
    if (bytes == DIGITS + 1 && text[DIGITS] == '\n')
        bytes--;
    bool ok = bytes == DIGITS;
    for (size_t i = 0; ok && i < SKY_SECRET_FILE_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        ok = high >= 0 && low >= 0;
        out[i] = (uint8_t)(ok ? (unsigned)high << 4 | (unsigned)low : 0u);
    }
    return ok;
}

static sky_status check_owner(const char *path, const struct stat *st, sky_error *error) {
    if (!S_ISREG(st->st_mode))
        return sky_fail(error, SKY_E_CORRUPT, "%s: a key is a plain file", path);
    if (st->st_mode & 077)
        return sky_fail(error, SKY_E_DENIED,
                        "%s: mode %04o lets others read or change the key; chmod 600 it", path,
                        (unsigned)(st->st_mode & 07777));
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return sky_fail(error, SKY_E_DENIED,
                        "%s: belongs to user %u; a key must belong to who uses it, or to root",
                        path, (unsigned)st->st_uid);
    return SKY_OK;
}

/* Checked and read through one descriptor, so that it is the same file. */
sky_status sky_secret_read(const char *path, uint8_t out[SKY_SECRET_FILE_BYTES], sky_error *error) {
    char text[DIGITS + 2];
    uint8_t key[SKY_SECRET_FILE_BYTES];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0) {
        sky_status status = errno == EACCES ? SKY_E_DENIED : SKY_E_IO;
        sky_fail(error, status, "%s: %s; a key is 64 hexadecimal digits, mode 0600", path,
                 strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    sky_status status = check_owner(path, &st, error);
    if (status == SKY_OK) {
        ssize_t got = read(fd, text, sizeof text);
        if (got < 0)
            status = sky_fail(error, SKY_E_IO, "%s: %s", path, strerror(errno));
        else if (!parse_hex(text, (size_t)got, key))
            status = sky_fail(error, SKY_E_CORRUPT, "%s: a key is 64 hexadecimal digits", path);
    }
    close(fd);
    if (status == SKY_OK)
        memcpy(out, key, sizeof key);
    explicit_bzero(text, sizeof text);
    explicit_bzero(key, sizeof key);
    return status;
}

sky_status sky_salt_read(const char *path, uint8_t salt[SKY_SALT_BYTES], sky_error *error) {
    static const uint8_t none[SKY_SALT_BYTES];
    uint8_t read[SKY_SECRET_FILE_BYTES];
    sky_status status = path ? sky_secret_read(path, read, error)
                             : sky_fail(error, SKY_E_PARAM, "sky_salt_read: path is NULL");
    if (status == SKY_OK && memcmp(read, none, sizeof none) == 0)
        status = sky_fail(error, SKY_E_CORRUPT,
                          "%s: a salt of zeros is none; fill it by: openssl rand -hex 32", path);
    if (status == SKY_OK)
        memcpy(salt, read, sizeof read);
    explicit_bzero(read, sizeof read);
    return status;
}

sky_status sky_secret_make(const char *path, sky_error *error) {
    uint8_t key[SKY_SECRET_FILE_BYTES];
    char text[DIGITS + 2];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        sky_status status = errno == EEXIST ? SKY_E_BUSY : sky_errno_status(errno);
        return sky_fail(error, status == SKY_MISS ? SKY_E_IO : status, "%s: %s", path,
                        strerror(errno));
    }
    sky_random(key, sizeof key);
    for (size_t i = 0; i < sizeof key; i++)
        snprintf(text + 2 * i, 3, "%02x", key[i]);
    text[DIGITS] = '\n';
    bool ok = write(fd, text, DIGITS + 1) == DIGITS + 1;
    ok = close(fd) == 0 && ok;
    explicit_bzero(key, sizeof key);
    explicit_bzero(text, sizeof text);
    if (ok)
        return SKY_OK;
    unlink(path);
    return sky_fail(error, SKY_E_IO, "%s: cannot be written", path);
}
