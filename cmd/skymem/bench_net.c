/* skymem bench net: chunks over real UDP on loopback, from one thread to another, beside datagrams
 * of the same length and with the same offloads that carry nothing. */
#include "bench.h"

static const struct {
    const char *name;
    sky_net_kind kind;
} rows[] = {
    {"bare", SKY_NET_BARE},     {"touched", SKY_NET_TOUCHED}, {"plain", SKY_NET_PLAIN},
    {"aes", SKY_NET_AES},       {"chacha", SKY_NET_CHACHA},   {"sealed", SKY_NET_SEALED},
    {"opened", SKY_NET_OPENED}, {"whole", SKY_NET_WHOLE},
};
#define ROWS (sizeof rows / sizeof *rows)

/* Turn and turn about; the best of each, for that is what the machine can do. */
static int measure(bench *b, bool offloads, sky_net_result best[ROWS]) {
    int rounds = b->quick ? 1 : 5;
    for (size_t n = 0; n < ROWS * (size_t)rounds; n++) {
        sky_net_result r = {0};
        sky_error error;
        sky_status status = sky_net_measure(rows[n % ROWS].kind, b->quick ? 0.2 : 0.7, offloads, &r,
                                            &error);
        if (status != SKY_OK && status != SKY_E_UNSUPPORTED)
            return cli_failed(b->c, "%s", error.text);
        if (r.gigabytes_per_s > best[n % ROWS].gigabytes_per_s)
            best[n % ROWS] = r;
    }
    return CLI_OK;
}

static int bench_offloads(bench *b, bool offloads) {
    sky_net_result best[ROWS] = {0};
    int code = measure(b, offloads, best);
    for (size_t i = 0; code == CLI_OK && i < ROWS; i++) {
        char name[64];
        if (best[i].gigabytes_per_s == 0) /* not on this machine */
            continue;
        snprintf(name, sizeof name, "%s %s", best[i].offloads, rows[i].name);
        code = bench_row(b, name, best[i].gigabytes_per_s, "GB/s", i == 0 ? NULL : "bare",
                         best[0].gigabytes_per_s);
    }
    return code;
}

int bench_net(bench *b) {
    int code = bench_offloads(b, true);
    return code == CLI_OK ? bench_offloads(b, false) : code;
}
