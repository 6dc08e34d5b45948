/* Making a scenario that fails smaller, so that what is left is what it takes.
 *
 *     entries ── leave one out, or halve its number ──► text ──► run ──► same check fails? keep it
 *
 * Works on keys as text, whatever they mean: a candidate that is no scenario any more is refused by
 * the reader, and one that passes, or fails another check, is not kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/yaml.h"
#include "lab/sim/run.h"
#include "lab/sim/shrink.h"

#define ENTRIES_MAX 96
#define VALUE_BYTES 160

typedef struct {
    char section[32];
    char key[32];
    char value[VALUE_BYTES]; /* as it stood, brackets of a list included */
} entry;

typedef struct {
    entry entries[ENTRIES_MAX];
    uint32_t count;
} document;

typedef struct {
    sky_sim_options options;
    char check[48]; /* the one that failed */
    uint32_t runs_left;
    char *text;
    size_t text_max;
    sky_sim_result result;
} shrinking;

/* ---- documents ---- */

static sky_status add_entry(void *context, const sky_yaml_entry *e) {
    document *d = context;
    if (!e->key[0])
        return SKY_OK;
    if (d->count == ENTRIES_MAX)
        return SKY_E_PARAM;
    entry *to = &d->entries[d->count];
    size_t used = 0;
    snprintf(to->section, sizeof to->section, "%.31s", e->section);
    snprintf(to->key, sizeof to->key, "%.31s", e->key);
    to->value[0] = 0;
    for (unsigned i = 0; i < e->value_count; i++) {
        const char *before = !e->list ? "" : i == 0 ? "[" : ", ";
        used += (size_t)snprintf(to->value + used, VALUE_BYTES - used, "%s%s", before,
                                 e->values[i]);
        if (used + 2 > VALUE_BYTES)
            return SKY_E_PARAM;
    }
    if (e->list)
        strcpy(to->value + used, "]");
    d->count++;
    return SKY_OK;
}

/* Entries of a section follow each other: the reader knows no section twice. */
static bool write_document(const document *d, char *text, size_t text_max) {
    size_t used = 0;
    for (uint32_t i = 0; i < d->count && used < text_max; i++) {
        const entry *e = &d->entries[i];
        bool inside = e->section[0];
        bool begins = i == 0 || strcmp(d->entries[i - 1].section, e->section) != 0;
        bool ends = i + 1 == d->count || strcmp(d->entries[i + 1].section, e->section) != 0;
        used += (size_t)snprintf(text + used, text_max - used, "%s%s%s: %s%s",
                                 inside && begins ? e->section : "",
                                 !inside  ? ""
                                 : begins ? ": {"
                                          : ", ",
                                 e->key, e->value,
                                 !inside ? "\n"
                                 : ends  ? "}\n"
                                         : "");
    }
    return used < text_max;
}

static void leave_out(document *d, uint32_t i) {
    memmove(&d->entries[i], &d->entries[i + 1], (d->count - i - 1) * sizeof(entry));
    d->count--;
}

/* "2000" to "1000", "20KiB" to "10KiB"; whole numbers stay whole. False: no number, or none smaller
 * in reach. */
static bool shrink_halve(entry *e) {
    size_t digits = strspn(e->value, "0123456789.");
    char unit[VALUE_BYTES];
    if (digits == 0)
        return false;
    bool whole = !memchr(e->value, '.', digits);
    double value = strtod(e->value, NULL);
    double smaller = whole ? (double)(uint64_t)(value / 2) : value / 2;
    if (value < 1e-4)
        return false;
    snprintf(unit, sizeof unit, "%s", e->value + digits);
    snprintf(e->value, sizeof e->value, whole ? "%.0f%s" : "%.6f%s", smaller, unit);
    return smaller < value;
}

/* ---- trying ---- */

static const char *first_failed(const sky_sim_result *r) {
    for (uint32_t i = 0; i < r->check_count; i++) {
        if (!r->checks[i].passed)
            return r->checks[i].name;
    }
    return NULL;
}

static bool still_fails(shrinking *s, const document *d) {
    if (s->runs_left == 0 || !write_document(d, s->text, s->text_max))
        return false;
    s->runs_left--;
    sky_error ignored;
    if (sky_sim_run_text(s->text, strlen(s->text), "smaller", &s->options, &s->result, &ignored) !=
        SKY_OK)
        return false;
    const char *failed = first_failed(&s->result);
    return failed && strcmp(failed, s->check) == 0;
}

/* One go over all entries; true when any became smaller. Halving goes on while it helps. */
static bool shrink_pass(shrinking *s, document *d, document *candidate) {
    bool smaller = false;
    for (uint32_t i = d->count; i-- > 0;) {
        *candidate = *d;
        leave_out(candidate, i);
        if (still_fails(s, candidate)) {
            *d = *candidate;
            smaller = true;
            continue;
        }
        for (;;) {
            *candidate = *d;
            if (!shrink_halve(&candidate->entries[i]) || !still_fails(s, candidate))
                break;
            *d = *candidate;
            smaller = true;
        }
    }
    return smaller;
}

sky_status sky_sim_shrink(char *text, size_t text_max, const sky_sim_options *options,
                          uint32_t runs, sky_error *error) {
    document *documents = calloc(2, sizeof *documents);
    shrinking s = {.options = *options, .runs_left = runs, .text_max = text_max};
    s.options.trace_path = NULL; /* the trace asked for is of the run that failed */
    s.text = malloc(text_max);
    sky_status status = SKY_E_NOMEM;
    if (!documents || !s.text) {
        sky_fail(error, status, "a smaller scenario");
        goto cleanup;
    }
    status = sky_sim_run_text(text, strlen(text), "scenario", options, &s.result, error);
    if (status == SKY_OK)
        status = sky_yaml_walk(text, strlen(text), "scenario", add_entry, &documents[0], error);
    if (status != SKY_OK)
        goto cleanup;
    const char *failed = first_failed(&s.result);
    if (!failed) {
        status = sky_fail(error, SKY_E_PARAM, "no check fails: there is nothing to look for");
        goto cleanup;
    }
    snprintf(s.check, sizeof s.check, "%s", failed);
    s.options.events_max = s.result.events + 1000; /* a default may ask for far more */
    while (shrink_pass(&s, &documents[0], &documents[1]))
        ;
    if (write_document(&documents[0], s.text, text_max))
        strcpy(text, s.text);
cleanup:
    free(s.text);
    free(documents);
    return status;
}
