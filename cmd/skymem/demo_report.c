/* What the demo says: lines as it goes, a table and the sky's account at the end, or JSON. */
#include "demo.h"

#ifdef SKYMEM_WITH_LLAMA

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

void demo_tell(const demo *d, const char *format, ...) {
    cli_progress(NULL);
    if (d->c->json)
        return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    cli_flush();
}

/* The first line of the answer to a question, in a buffer of the caller's. */
static const char *answer_line(const demo *d, size_t question, char text[600]) {
    size_t used = 0;
    const demo_answer *a = &d->cold[question];
    for (uint32_t i = 0; i < a->token_count && used < 600 - 64; i++)
        used += sky_llama_piece(d->model.llama, a->tokens[i], text + used, 63);
    text[used] = '\0';
    char *line = text + strspn(text, " \n");
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* The question's own last sentence, and the first line of the answer. */
void demo_tell_answer(const demo *d, size_t question) {
    char text[600];
    const char *line = answer_line(d, question, text);
    const char *asked = strrchr(cli_demo_questions[question], ':');
    while (asked > cli_demo_questions[question] && *--asked != ':')
        ;
    char shown[200];
    snprintf(shown, sizeof shown, "%s", asked + 2);
    shown[strcspn(shown, "\n")] = '\0';
    shown[0] = (char)toupper((unsigned char)shown[0]);
    demo_tell(d, "  %s %s", shown, line);
}

/* "31.0x sooner", "2.5x slower". */
static const char *factor_text(double speedup, char out[32]) {
    bool slower = speedup < 1;
    snprintf(out, 32, "%.1fx %s", slower ? 1 / speedup : speedup, slower ? "slower" : "sooner");
    return out;
}

/* The row that was just measured, in a line. */
void demo_tell_row(const demo *d) {
    const demo_row *row = &d->rows[d->row_count - 1];
    char loaded[24], factor[32];
    if (d->row_count == 1)
        demo_tell(d, "  %-18s first token after %7.0f ms, all %u tokens computed", row->source,
                  row->ttft_ms, DEMO_PROMPT);
    else if (row->load_alone_ms > 0)
        demo_tell(d,
                  "  %-18s first token after %7.0f ms, %s: %u tokens loaded and %u computed; "
                  "loaded alone it takes %.0f ms",
                  row->source, row->ttft_ms, factor_text(row->speedup, factor),
                  row->hit_tokens - row->computed_tokens, row->computed_tokens, row->load_alone_ms);
    else if (row->wait_ms > 0)
        demo_tell(d, "  %-18s first token after %7.0f ms, %.0f ms of them for the other process",
                  row->source, row->ttft_ms, row->wait_ms);
    else
        demo_tell(d, "  %-18s first token after %7.0f ms, %s, %s moved", row->source, row->ttft_ms,
                  factor_text(row->speedup, factor), cli_bytes_text(row->bytes_moved, loaded));
}

/* The name of the processor, as /proc/cpuinfo has it. */
static void cpu_name(char *out, size_t out_bytes) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    snprintf(out, out_bytes, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(out, out_bytes, "%s", colon + 2);
        out[strcspn(out, "\n")] = '\0';
        break;
    }
    if (file)
        fclose(file);
}

static json_t *sky_json(const demo_row *row) {
    const sky_sky_report *r = &row->report;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "light_ms",
                     cli_ms(r->light_ns), "link_ms", cli_ms(r->link_ns), "processing_ms",
                     cli_ms(r->processing_ns), "session_ms", cli_ms(r->session_ns), "decode_ms",
                     row->compute_ms, "chunks", (json_int_t)r->chunks, "servers",
                     (json_int_t)r->servers, "rotations", (json_int_t)row->rotations,
                     "migrated_chunks", (json_int_t)r->migrated_chunks, "migrated_bytes",
                     (json_int_t)r->migrated_bytes, "purged_blocks", (json_int_t)r->purged_blocks);
}

static json_t *row_json(const demo *d, const demo_row *row) {
    json_t *object = json_pack(
        "{s:s, s:f, s:f, s:I, s:I, s:I, s:I, s:b, s:o, s:b, s:f, s:f}", "source", row->source,
        "ttft_ms", row->ttft_ms, "speedup", row->speedup, "hit_tokens", (json_int_t)row->hit_tokens,
        "overlapped_tokens", (json_int_t)row->computed_tokens, "bytes_loaded",
        (json_int_t)row->bytes_loaded, "bytes_moved", (json_int_t)row->bytes_moved, "identical",
        row->identical, "bare_ms", row->bare_ms > 0 ? json_real(row->bare_ms) : json_null(),
        "logits_equal", row->logits_equal, "load_ms", row->load_ms, "compute_ms", row->compute_ms);
    if (row != &d->rows[0])
        json_object_set_new(object, "promised_ms", json_real(demo_promised_ms(d, row)));
    if (row->load_alone_ms > 0)
        json_object_set_new(object, "load_alone_ms", json_real(row->load_alone_ms));
    if (row->load_alone_ms > 0)
        json_object_set_new(object, "compute_alone_ms", json_real(row->compute_alone_ms));
    if (row->wait_ms > 0)
        json_object_set_new(object, "wait_ms", json_real(row->wait_ms));
    if (row->sky)
        json_object_set_new(object, "sky", sky_json(row));
    return object;
}

static int report_json(const demo *d) {
    char cpu[128], text[600];
    json_t *rows = json_array(), *answers = json_array(), *cold_ms = json_array();
    json_t *warnings = json_array();
    demo_warnings broken;
    cpu_name(cpu, sizeof cpu);
    for (size_t i = 0; i < d->row_count; i++)
        json_array_append_new(rows, row_json(d, &d->rows[i]));
    for (size_t i = 0; i < CLI_DEMO_QUESTIONS; i++) {
        const char *line = answer_line(d, i, text);
        json_array_append_new(answers, cli_json_utf8(line, strlen(line)));
        json_array_append_new(cold_ms, json_real(d->cold[i].ttft_ms));
    }
    demo_warn(d, &broken);
    for (size_t i = 0; i < broken.count; i++)
        json_array_append_new(warnings, json_string(broken.texts[i]));
    return cli_json_print(
        d->c, json_pack("{s:o, s:I, s:I, s:o, s:s, s:I, s:I, s:I, s:o, s:o, s:o}", "model",
                        cli_json_text(d->model.path), "prompt_tokens", (json_int_t)DEMO_PROMPT,
                        "suffix_tokens", (json_int_t)DEMO_SUFFIX, "rows", rows, "cpu", cpu,
                        "block_tokens", (json_int_t)d->block_tokens, "questions",
                        (json_int_t)CLI_DEMO_QUESTIONS, "predict", (json_int_t)d->predict,
                        "answers", answers, "cold_ms", cold_ms, "warnings", warnings));
}

static void print_rows(const demo *d) {
    static const char *const head[] = {"SOURCE", "FIRST TOKEN", "SPEEDUP",     "KNOWN",
                                       "MOVED",  "LLAMA.CPP",   "SAME TOKENS", "SAME LOGITS"};
    cli_table table = {.columns = "lrrrrrll"};
    char loaded[24];
    for (size_t i = 0; i < 8; i++)
        cli_table_cell(&table, "%s", head[i]);
    for (size_t i = 0; i < d->row_count; i++) {
        const demo_row *row = &d->rows[i];
        bool warm = i > 0;
        cli_table_cell(&table, "%s", row->source);
        cli_table_cell(&table, "%.1f ms", row->ttft_ms);
        cli_table_cell(&table, "%.1fx", row->speedup);
        cli_table_cell(&table, "%u tokens", row->hit_tokens);
        cli_table_cell(&table, "%s", warm ? cli_bytes_text(row->bytes_moved, loaded) : "");
        if (row->bare_ms > 0)
            cli_table_cell(&table, "%.1f ms", row->bare_ms);
        else
            cli_table_cell(&table, "%s", "");
        cli_table_cell(&table, "%s",
                       !warm            ? ""
                       : row->identical ? "yes"
                       : row->lossy     ? "no"
                                        : "NO");
        cli_table_cell(&table, "%s", !warm ? "" : row->logits_equal ? "to the bit" : "no");
    }
    cli_table_print(&table, stdout);
}

static void print_sky(const demo *d) {
    static const char *const head[] = {"SKY",    "LIGHT",  "LINKS",   "SATELLITES", "SESSION",
                                       "DECODE", "CHUNKS", "SERVERS", "ROTATIONS",  "MIGRATED"};
    cli_table table = {.columns = "lrrrrrrrrr"};
    char moved[24];
    for (size_t i = 0; i < 10; i++)
        cli_table_cell(&table, "%s", head[i]);
    size_t rows = 0;
    for (size_t i = 0; i < d->row_count; i++) {
        const demo_row *row = &d->rows[i];
        const sky_sky_report *r = &row->report;
        if (!row->sky)
            continue;
        rows++;
        cli_table_cell(&table, "%s", row->source + 4);
        cli_table_cell(&table, "%.1f ms", cli_ms(r->light_ns));
        cli_table_cell(&table, "%.1f ms", cli_ms(r->link_ns));
        cli_table_cell(&table, "%.1f ms", cli_ms(r->processing_ns));
        cli_table_cell(&table, "%.1f ms", cli_ms(r->session_ns));
        cli_table_cell(&table, "%.1f ms", row->compute_ms);
        cli_table_cell(&table, "%llu", (unsigned long long)r->chunks);
        cli_table_cell(&table, "%u", r->servers);
        cli_table_cell(&table, "%llu", (unsigned long long)row->rotations);
        cli_table_cell(&table, "%s", cli_bytes_text(r->migrated_bytes, moved));
    }
    if (!rows) {
        cli_table_free(&table);
        return;
    }
    printf("\nWhere the sky's time goes: light there and back, links (serialisation and queues), "
           "satellites,\nthe session's window, and the model's own 32 tokens.\n\n");
    cli_table_print(&table, stdout);
}

/* What was loaded and what computed at once, against each alone. */
static void print_slow(const demo *d) {
    static const char *const head[] = {"SLOW LINK",    "LOADED",        "COMPUTED",
                                       "BOTH AT ONCE", "LOADING ALONE", "COMPUTING ALONE"};
    cli_table table = {.columns = "lrrrrr"};
    for (size_t i = 0; i < 6; i++)
        cli_table_cell(&table, "%s", head[i]);
    size_t rows = 0;
    for (size_t i = 0; i < d->row_count; i++) {
        const demo_row *row = &d->rows[i];
        if (row->load_alone_ms <= 0)
            continue;
        rows++;
        cli_table_cell(&table, "%s", row->source);
        cli_table_cell(&table, "%u tokens", row->hit_tokens - row->computed_tokens);
        cli_table_cell(&table, "%u tokens", row->computed_tokens);
        cli_table_cell(&table, "%.1f ms", row->ttft_ms);
        cli_table_cell(&table, "%.1f ms", row->load_alone_ms);
        cli_table_cell(&table, "%.1f ms", row->compute_alone_ms);
    }
    if (!rows) {
        cli_table_free(&table);
        return;
    }
    printf("\nOver a slow link the model computes the beginning while the end is loaded.\n\n");
    cli_table_print(&table, stdout);
}

int demo_report(const demo *d) {
    char cpu[128];
    cli_progress(NULL);
    if (d->c->json)
        return report_json(d);
    cpu_name(cpu, sizeof cpu);
    printf("\n");
    print_rows(d);
    print_sky(d);
    print_slow(d);
    printf(
        "\nFirst token: median over %d questions, from the prompt's tokens being known to the "
        "first "
        "new token.\nllama.cpp: its own restore from memory plus the same %u tokens, the limit for "
        "a warm answer.\n%s.\n",
        CLI_DEMO_QUESTIONS, DEMO_SUFFIX, cpu);
    demo_warnings broken;
    demo_warn(d, &broken);
    for (size_t i = 0; i < broken.count; i++)
        printf("%s%s.\n", i ? "" : "\n", broken.texts[i]);
    return CLI_OK;
}

#endif
