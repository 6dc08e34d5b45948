/* put_chain URL KEY...: puts a prompt's blocks, each behind the one before. */
#include <stdio.h>

#include <skymem/skymem.h>

int main(int argc, char **argv) {
    sky_error error = {0};
    sky_cache *cache;
    sky_key parent = {{0}};
    const char *url = argc > 1 ? argv[1] : "";
    sky_status status = sky_cache_open(&url, 1, &cache, &error);
    if (status != SKY_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    for (int i = 2; i < argc && status == SKY_OK; i++) {
        sky_span span = {argv[i], 64};
        sky_item item = {.parent = parent, .spans = &span, .span_count = 1};
        const sky_call call = {.durable = true};
        status = sky_key_parse(argv[i], &item.key);
        if (status == SKY_OK)
            status = sky_run(cache, SKY_OP_PUT, &item, 1, &call);
        if (status == SKY_OK)
            status = item.status;
        parent = item.key;
    }
    sky_cache_close(cache);
    return status != SKY_OK;
}
