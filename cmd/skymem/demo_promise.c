/* What each row of the demo promises, and which rows did not keep it.
 *
 * A promise is a time to the first token, not a factor, so that it holds on a fast and on a slow
 * machine. It is made of what was measured beside the row:
 *
 *   row             promised at most
 *   mem             1.25 x llama.cpp's own restore from memory (the column LLAMA.CPP)
 *   shm, disk, sky  1.5 x that, and for a simulated sky the time that light, links and satellites
 *                   take
 *   sky-slow        1.05 x the sooner of loading alone and computing alone, both measured with it
 *   sky+udp         3 x that: its satellites share the processor with the model
 *   prefill-…       3 x the cold time: the other process has the same processors
 *   mem-partial     1.25 x the cold time, by the share of the prompt that has to be computed
 *
 * The cold time is what all factors are relative to. It is steady when the slowest question took
 * at most 4/3 of the fastest. */
#include "demo.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define MEMORY_SLACK  1.25
#define TIER_SLACK    1.5
#define PROCESS_SLACK 3.0
#define MEETING_SLACK 1.05
#define SPREAD_MAX    (4.0 / 3)

double demo_promised_ms(const demo *d, const demo_row *row) {
    double cold_ms = d->rows[0].ttft_ms;
    if (row == &d->rows[0])
        return 0;
    if (row->wait_ms > 0)
        return PROCESS_SLACK * cold_ms;
    if (row->bare_ms <= 0)
        return MEMORY_SLACK * cold_ms * (DEMO_PROMPT - row->hit_tokens) / DEMO_PROMPT;
    if (row->load_alone_ms > 0)
        return MEETING_SLACK * fmin(row->load_alone_ms, row->compute_alone_ms);
    if (strcmp(row->source, "mem") == 0)
        return MEMORY_SLACK * row->bare_ms;
    if (strcmp(row->source, "sky+udp") == 0)
        return PROCESS_SLACK * row->bare_ms;
    const sky_sky_report *r = &row->report;
    double sky_ms = row->sky ? cli_ms(r->light_ns + r->link_ns + r->processing_ns + r->session_ns)
                             : 0;
    return TIER_SLACK * row->bare_ms + sky_ms;
}

double demo_cold_spread(const demo *d) {
    double least = d->cold[0].ttft_ms, most = least;
    for (size_t i = 1; i < CLI_DEMO_QUESTIONS; i++) {
        double ms = d->cold[i].ttft_ms;
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    return most / least;
}

static void add_warning(demo_warnings *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_warning(demo_warnings *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->texts[w->count++], sizeof w->texts[0], format, arguments);
    va_end(arguments);
}

void demo_warn(const demo *d, demo_warnings *w) {
    double spread = demo_cold_spread(d);
    w->count = 0;
    if (spread > SPREAD_MAX)
        add_warning(
            w,
            "cold: the slowest question took %.2f times as long as the fastest; run the demo again "
            "on an idle machine before you compare speedups",
            spread);
    for (size_t i = 1; i < d->row_count; i++) {
        const demo_row *row = &d->rows[i];
        double promised_ms = demo_promised_ms(d, row);
        if (row->ttft_ms > promised_ms)
            add_warning(w, "%s: slower than promised, %.1f ms instead of at most %.1f ms",
                        row->source, row->ttft_ms, promised_ms);
    }
}

#endif
