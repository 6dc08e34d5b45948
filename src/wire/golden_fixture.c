#include "wire/golden_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void sky_golden_open(sky_golden *g, const char *path) {
    *g = (sky_golden){.file = fopen(path, "r")};
    if (!g->file)
        fail_msg("%s: not there; tests run in the source folder", path);
}

static size_t from_hex(const char *hex, uint8_t *out) {
    size_t n = 0;
    unsigned byte;
    for (; n < SKY_GOLDEN_BYTES_MAX && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
        out[n] = (uint8_t)byte;
    assert_int_equal(hex[2 * n], 0);
    return n;
}

bool sky_golden_next(sky_golden *g) {
    char line[2 * SKY_GOLDEN_BYTES_MAX + 64], verdict[16], hex[2 * SKY_GOLDEN_BYTES_MAX + 1];
    _Static_assert(SKY_GOLDEN_BYTES_MAX == 512, "1024 digits below");
    while (fgets(line, sizeof line, g->file)) {
        if (line[0] == '#' || sscanf(line, "%15s %31s %1024s", verdict, g->name, hex) != 3)
            continue;
        g->accept = strcmp(verdict, "accept") == 0;
        assert_true(g->accept || strcmp(verdict, "reject") == 0);
        g->accepted += g->accept;
        g->rejected += !g->accept;
        g->byte_count = from_hex(hex, g->bytes);
        return true;
    }
    fclose(g->file);
    return false;
}

void sky_golden_print(const char *name, const uint8_t *bytes, size_t byte_count) {
    printf("accept %s ", name);
    for (size_t i = 0; i < byte_count; i++)
        printf("%02x", bytes[i]);
    puts("");
}
