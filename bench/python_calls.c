/* What bench/python_calls.py compares with: the same batches of 32 keys, asked for in C. Prints
 * nanoseconds a call of has, get and lease, the best of several rounds. */
#include <skymem/skymem.h>

#include <stdio.h>
#include <string.h>

#define KEYS   32
#define CALLS  2000
#define ROUNDS 9

static sky_time best(sky_cache *cache, sky_op op, const sky_item *blank) {
    sky_item items[KEYS];
    sky_time least = SKY_TIME_NEVER;
    for (int round = 0; round < ROUNDS; round++) {
        sky_time begin = sky_now();
        for (int i = 0; i < CALLS; i++) {
            memcpy(items, blank, sizeof items);
            (void)sky_run(cache, op, items, KEYS, NULL);
        }
        sky_time took = (sky_now() - begin) / CALLS;
        least = took < least ? took : least;
        for (int i = 0; i < KEYS; i++)
            if (items[i].status != SKY_OK)
                return -1;
    }
    return least;
}

int main(void) {
    static char values[KEYS][64];
    sky_span spans[KEYS];
    sky_item items[KEYS] = {0};
    sky_cache *cache;
    if (sky_cache_open((const char *const[]){"mem:256MiB"}, 1, &cache, NULL) != SKY_OK)
        return 1;
    for (int i = 0; i < KEYS; i++) {
        memset(items[i].key.bytes, i + 1, SKY_KEY_BYTES);
        spans[i] = (sky_span){values[i], sizeof values[i]};
        items[i].spans = &spans[i];
        items[i].span_count = 1;
    }
    (void)sky_run(cache, SKY_OP_PUT, items, KEYS, NULL);
    sky_time has = best(cache, SKY_OP_HAS, items), get = best(cache, SKY_OP_GET, items);
    printf("%lld %lld\n", (long long)has, (long long)get);
    sky_cache_close(cache);
    return 0;
}
