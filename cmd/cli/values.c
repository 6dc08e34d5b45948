/* Values of options: checked and kept, wherever they came from, and asked for by the verbs. */
#include "cli.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

cli_value *cli_find(cli *c, const char *name) {
    for (size_t i = 0; i < c->value_count; i++)
        if (strcmp(c->values[i].option->name, name) == 0)
            return &c->values[i];
    return NULL;
}

static size_t least_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edits (insert, remove, replace) that turn one word into the other; words of up to 31 letters. */
static size_t edit_distance(const char *a, const char *b) {
    size_t bytes_a = strlen(a), bytes_b = strlen(b), row[32];
    if (bytes_a > 31 || bytes_b > 31)
        return SIZE_MAX;
    for (size_t j = 0; j <= bytes_b; j++)
        row[j] = j;
    for (size_t i = 1; i <= bytes_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= bytes_b; j++) {
            size_t replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least_size(replace, least_size(row[j], row[j - 1]) + 1);
        }
    }
    return row[bytes_b];
}

/* Few edits, and a small part of the word: `ls` is not close to `rm`. */
static bool is_close(const char *word, const char *candidate, size_t edits) {
    size_t a = strlen(word), b = strlen(candidate);
    return edits <= 2 && 3 * edits < (a > b ? a : b);
}

const char *cli_closest(const char *word, const char *const *candidates, size_t count) {
    const char *best = NULL;
    size_t best_edits = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t edits = edit_distance(word, candidates[i]);
        if (strlen(word) >= 3 && strncmp(word, candidates[i], strlen(word)) == 0)
            edits = 0;
        if (edits < best_edits && is_close(word, candidates[i], edits)) {
            best_edits = edits;
            best = candidates[i];
        }
    }
    return best;
}

/* What came from where, for a message: "--threads", "SKYMEM_THREADS", "config.yaml:3: threads". */
static void describe_origin(const cli *c, const cli_value *v, cli_origin origin, unsigned line,
                            char *out, size_t out_bytes) {
    char underscored[64];
    snprintf(underscored, sizeof underscored, "%s", v->option->name);
    for (char *p = underscored; *p; p++)
        *p = *p == '-' ? '_' : origin == CLI_FROM_ENVIRONMENT ? (char)(*p & ~0x20) : *p;
    if (origin == CLI_FROM_ENVIRONMENT)
        snprintf(out, out_bytes, "SKYMEM_%s", underscored);
    else if (origin == CLI_FROM_FILE)
        snprintf(out, out_bytes, "%s:%u: %s", c->config_path, line, underscored);
    else
        snprintf(out, out_bytes, "--%s", v->option->name);
}

static bool parse_count(const char *text, uint64_t *out) {
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

static bool parse_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out);
}

static bool parse_choice(const char *text, const char *words, uint64_t *which) {
    size_t bytes = strlen(text);
    for (uint64_t i = 0;; i++) {
        size_t length = strcspn(words, "|");
        if (bytes == length && strncmp(text, words, length) == 0) {
            *which = i;
            return true;
        }
        if (words[length] == '\0')
            return false;
        words += length + 1;
    }
}

/* What a number should be; max 0: it has no bound above. */
static const char *describe_range(char *must, size_t must_bytes, const char *what, double min,
                                  unsigned long long max) {
    int used = snprintf(must, must_bytes, max ? "%s from %.15g" : "%s of at least %.15g", what,
                        min);
    if (max)
        snprintf(must + used, must_bytes - (size_t)used, " to %llu", max);
    return must;
}

/* NULL when the text is a value of this option; else what it should be. */
static const char *convert_value(cli_value *v, const char *text, char *must, size_t must_bytes) {
    const cli_option *o = v->option;
    double from = o->from > 0 ? o->from : (double)o->min;
    switch (o->kind) {
    case CLI_COUNT:
        if (parse_count(text, &v->whole) && v->whole >= o->min && (!o->max || v->whole <= o->max))
            return NULL;
        return describe_range(must, must_bytes, "a whole number", (double)o->min, o->max);
    case CLI_NUMBER:
        if (parse_number(text, &v->number) && v->number >= from &&
            (!o->max || v->number <= (double)o->max))
            return NULL;
        return describe_range(must, must_bytes, "a number", from, o->max);
    case CLI_CHOICE:
        if (parse_choice(text, o->value, &v->whole))
            return NULL;
        snprintf(must, must_bytes, "one of: %s", o->value);
        return must;
    case CLI_FLAG:
        v->whole = 1;
        return NULL;
    case CLI_PATH:
    case CLI_SCENARIO:
        return text[0] ? NULL : "a path; it is empty";
    case CLI_TEXT:
    case CLI_LIST:
        return NULL;
    }
    return NULL;
}

/* The text as it will be used: a path with its home. NULL, and `why`. */
static char *keep_text(const cli_option *option, const char *text, const char **why) {
    bool scenario = option->kind == CLI_SCENARIO;
    if (option->kind == CLI_PATH || option->kind == CLI_LIST || scenario) {
        char *path = cli_home_expand(text, why);
        char *found = path && (scenario || option->kind == CLI_LIST)
                          ? cli_scenario_expand(path, !scenario, why)
                          : NULL;
        if (!path || option->kind == CLI_PATH)
            return path;
        free(path);
        return found;
    }
    *why = "out of memory";
    return strdup(text);
}

int cli_take(cli *c, cli_value *v, const char *text, cli_origin origin, unsigned line) {
    char where[4200], must[128];
    describe_origin(c, v, origin, line, where, sizeof where);
    const char *wrong = convert_value(v, text, must, sizeof must);
    if (wrong)
        return cli_usage(c, "%s %s: must be %s", where, text, wrong);
    bool adds = v->option->kind == CLI_LIST && v->count > 0 && v->origin == origin;
    if (!adds)
        while (v->count > 0)
            free(v->texts[--v->count]);
    size_t most = v->option->kind == CLI_LIST && v->option->max ? v->option->max : CLI_LIST_MAX;
    if (v->count == most)
        return cli_usage(c, "%s: at most %zu of them", where, most);
    const char *why;
    v->texts[v->count] = keep_text(v->option, text, &why);
    if (!v->texts[v->count])
        return cli_usage(c, "%s %s: %s", where, text, why);
    v->count++;
    v->origin = origin;
    v->line = line;
    return CLI_OK;
}

static cli_value *value_of(cli *c, const char *name) {
    cli_value *v = cli_find(c, name);
    assert(v && "the verb's row lacks the option");
    return v;
}

bool cli_given(cli *c, const char *name) {
    return value_of(c, name)->count > 0;
}

bool cli_flag(cli *c, const char *name) {
    return value_of(c, name)->count > 0;
}

const char *cli_text(cli *c, const char *name) {
    cli_value *v = value_of(c, name);
    return v->count > 0 ? v->texts[0] : NULL;
}

uint64_t cli_count(cli *c, const char *name) {
    return value_of(c, name)->whole;
}

double cli_number(cli *c, const char *name) {
    return value_of(c, name)->number;
}

bool cli_has_word(const char *words, char parted_by, const char *word) {
    size_t bytes = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += bytes)
        if ((at == words || at[-1] == parted_by) && (at[bytes] == parted_by || at[bytes] == '\0'))
            return true;
    return false;
}

/* The next word of names parted by blanks that was given as an option; NULL at their end. */
static const cli_value *next_given(cli *c, const char **names) {
    char name[64];
    while (**names) {
        size_t bytes = strcspn(*names, " ");
        snprintf(name, sizeof name, "%.*s", (int)bytes, *names);
        *names += bytes + ((*names)[bytes] == ' ');
        const cli_value *v = value_of(c, name);
        if (v->origin == CLI_FROM_FLAG)
            return v;
    }
    return NULL;
}

int cli_one_of(cli *c, const char *names) {
    const cli_value *first = next_given(c, &names), *second = next_given(c, &names);
    if (!second)
        return CLI_OK;
    return cli_usage(c, "--%s and --%s exclude each other: give one of them", first->option->name,
                     second->option->name);
}

int cli_only(cli *c, const char *what, const char *names) {
    for (const cli_option *o = c->verb->options; o && o->name; o++)
        if (value_of(c, o->name)->origin == CLI_FROM_FLAG && !cli_has_word(names, ' ', o->name))
            return cli_usage(c, "%s has no use for --%s", what, o->name);
    return CLI_OK;
}
