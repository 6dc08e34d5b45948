/* skymem bench net: chunks over real UDP on loopback, from one thread to another, beside datagrams
 * of the same length and with the same offloads that carry nothing. */
#include "bench.h"
#include "net_measure.h"

static const struct {
    const char *name;
    sky_net_kind kind;
} rows[] = {
    {"bare", SKY_NET_BARE},     {"touched", SKY_NET_TOUCHED}, {"plain", SKY_NET_PLAIN},
    {"aes", SKY_NET_AES},       {"chacha", SKY_NET_CHACHA},   {"sealed", SKY_NET_SEALED},
    {"opened", SKY_NET_OPENED}, {"whole", SKY_NET_WHOLE},
};
#define ROWS (sizeof rows / sizeof *rows)

static double net_least(double a, double b) {
    return a == 0 || b < a ? b : a;
}

/* Turn and turn about; the best of each, for that is what the machine can do. */
static int net_measure_rows(bench *b, bool offloads, sky_net_result best[ROWS]) {
    int rounds = b->quick ? 1 : 5;
    for (size_t n = 0; n < ROWS * (size_t)rounds; n++) {
        sky_net_result r = {0}, *kept = &best[n % ROWS];
        sky_error error;
        sky_status status = sky_net_measure(rows[n % ROWS].kind, b->quick ? 0.2 : 0.7, offloads, &r,
                                            &error);
        if (status != SKY_OK)
            return cli_failed(b->c, "%s", error.text);
        if (r.datagrams == 0)
            continue;
        r.sender_ns = net_least(kept->sender_ns, r.sender_ns);
        r.receiver_ns = net_least(kept->receiver_ns, r.receiver_ns);
        r.gigabytes_per_s = r.gigabytes_per_s > kept->gigabytes_per_s ? r.gigabytes_per_s
                                                                      : kept->gigabytes_per_s;
        *kept = r;
    }
    return CLI_OK;
}

/* What the slower end spends on a datagram: its pace, where nothing else runs. */
static double pace_ns(const sky_net_result *r) {
    return r->sender_ns > r->receiver_ns ? r->sender_ns : r->receiver_ns;
}

static int bench_offloads(bench *b, bool offloads) {
    sky_net_result best[ROWS] = {0};
    int code = net_measure_rows(b, offloads, best);
    for (size_t i = 0; code == CLI_OK && i < 2 * ROWS; i++) {
        const sky_net_result *r = &best[i % ROWS];
        bool pace = i >= ROWS;
        char name[64];
        if (r->datagrams == 0) /* none arrived */
            continue;
        snprintf(name, sizeof name, "%s %s%s", r->offloads, rows[i % ROWS].name,
                 pace ? " pace" : "");
        code = bench_row(b, name, pace ? pace_ns(r) : r->gigabytes_per_s, pace ? "ns" : "GB/s",
                         i % ROWS == 0 ? NULL : "bare",
                         pace ? pace_ns(&best[0]) : best[0].gigabytes_per_s);
    }
    return code;
}

int bench_net(bench *b) {
    int code = bench_offloads(b, true);
    return code == CLI_OK ? bench_offloads(b, false) : code;
}
