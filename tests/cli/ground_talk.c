/* A ground that goes on: tests/cli/constellation_grounds_test.sh starts two of them. It opens the
 * store that it is given, and obeys lines: "put NAME BYTES", "get NAME", "has NAME". A value's
 * bytes are all its length modulo 251. It answers "ok BYTES", "wrong", or the name of a status. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem-sky/skies.h>
#include <skymem/skymem.h>

static unsigned char bytes[1 << 20];

static int holds(size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != (unsigned char)(count % 251))
            return 0;
    return 1;
}

static void answer(sky_cache *cache, const char *verb, const char *name, size_t count) {
    sky_op op = !strcmp(verb, "put") ? SKY_OP_PUT : !strcmp(verb, "get") ? SKY_OP_GET : SKY_OP_HAS;
    sky_namespace general = {{0}};
    sky_span span = {bytes, op == SKY_OP_PUT ? count : sizeof bytes};
    sky_item item = {.name = name, .name_bytes = strlen(name), .spans = &span};
    sky_call call = {.durable = 1};
    item.span_count = op != SKY_OP_HAS;
    memset(bytes, op == SKY_OP_PUT ? (int)(count % 251) : 0, span.bytes);
    sky_status status = sky_name_key(&general, name, strlen(name), &item.key);
    if (status == SKY_OK)
        status = sky_run(cache, op, &item, 1, &call);
    if (status == SKY_OK)
        status = item.status;
    if (status != SKY_OK)
        puts(sky_status_name(status));
    else if (op == SKY_OP_GET && !holds((size_t)item.bytes))
        puts("wrong");
    else
        printf("ok %llu\n", (unsigned long long)item.bytes);
}

int main(int argc, char **argv) {
    const char *urls[] = {argc > 1 ? argv[1] : ""};
    char verb[8], name[64];
    size_t count;
    sky_cache *cache;
    sky_error error = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (sky_skies_register() != SKY_OK || sky_cache_open(urls, 1, &cache, &error) != SKY_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    while (scanf("%7s %63s %zu", verb, name, &count) == 3 && count <= sizeof bytes)
        answer(cache, verb, name, count);
    sky_cache_close(cache);
    return 0;
}
