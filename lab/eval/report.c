/* Lines, tables and the plot of `eval`: see report.h. */
#include "report.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINES_BYTES_MAX (64u << 20)

static double report_gbps(double elements, double seconds) {
    return seconds > 0 ? 2 * elements / seconds / 1e9 : 0;
}

static json_t *number_or_null(double value) {
    return value > 0 ? json_real(value) : json_null();
}

static int print_line(const cli *c, const eval_row *row) {
    const eval_text *t = row->text;
    double elements = (double)t->element_count;
    json_t *o = json_pack(
        "{s:s, s:o, s:f, s:I, s:f, s:f, s:f, s:f, s:o, s:o, s:f, s:i, s:o, s:o}", "level",
        row->scheme->name, "text", cli_json_text(t->name), "bits_per_element",
        8 * row->bytes / elements, "bytes", (json_int_t)row->bytes, "kld_mean", row->score.kld_mean,
        "kld_p999", row->score.kld_p999, "top1", row->score.top1, "ppl_ratio", row->score.ppl_ratio,
        "encode_gbps", number_or_null(report_gbps(elements, row->scheme->encode_s)), "decode_gbps",
        number_or_null(report_gbps(elements, row->scheme->decode_s)), "rms_dp", row->score.rms_dp,
        "prefix", (int)t->prefix, "right",
        t->questions ? json_integer(row->score.right) : json_null(), "asked",
        t->questions ? json_integer(t->next) : json_null());
    return cli_json_print(c, o);
}

static eval_sum *sum_of(eval_report *report, const char *name) {
    for (size_t i = 0; i < report->count; i++)
        if (strcmp(report->sums[i].name, name) == 0)
            return &report->sums[i];
    eval_sum *more = realloc(report->sums, (report->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    report->sums = more;
    eval_sum *sum = &report->sums[report->count++];
    *sum = (eval_sum){0};
    snprintf(sum->name, sizeof sum->name, "%s", name);
    return sum;
}

int eval_report_add(const cli *c, eval_report *report, const eval_row *row) {
    eval_sum *sum = sum_of(report, row->scheme->name);
    if (!sum)
        return cli_failed(c, "out of memory");
    if (row->text->questions) {
        sum->right += row->score.right;
        sum->asked += row->text->next;
    } else {
        sum->texts++;
        sum->bytes += row->bytes;
        sum->elements += (double)row->text->element_count;
        sum->kld += row->score.kld_mean;
        sum->kld_p999 = fmax(sum->kld_p999, row->score.kld_p999);
        sum->top1 += row->score.top1;
        sum->log_ppl += log(row->score.ppl_ratio);
        sum->encode_s += row->scheme->encode_s;
        sum->decode_s += row->scheme->decode_s;
    }
    return c->json ? print_line(c, row) : CLI_OK;
}

static double report_field(const json_t *line, const char *name) {
    return json_number_value(json_object_get(line, name));
}

/* SKY_E_SYNTAX: eval did not print it. */
static sky_status take_line(eval_report *report, const json_t *line) {
    const char *level = json_string_value(json_object_get(line, "level"));
    double elements = 8 * report_field(line, "bytes") / report_field(line, "bits_per_element");
    double right = report_field(line, "right"), asked = report_field(line, "asked");
    if (!level || !(elements > 0) || !(right >= 0 && right <= asked && asked <= 1e6))
        return SKY_E_SYNTAX;
    eval_sum *sum = sum_of(report, level);
    if (!sum)
        return SKY_E_NOMEM;
    if (asked > 0) {
        sum->right += (uint32_t)right;
        sum->asked += (uint32_t)asked;
        return SKY_OK;
    }
    sum->texts++;
    sum->bytes += report_field(line, "bytes");
    sum->elements += elements;
    sum->kld += report_field(line, "kld_mean");
    sum->kld_p999 = fmax(sum->kld_p999, report_field(line, "kld_p999"));
    sum->top1 += report_field(line, "top1");
    sum->log_ppl += log(report_field(line, "ppl_ratio"));
    if (report_field(line, "encode_gbps") > 0)
        sum->encode_s += 2e-9 * elements / report_field(line, "encode_gbps");
    if (report_field(line, "decode_gbps") > 0)
        sum->decode_s += 2e-9 * elements / report_field(line, "decode_gbps");
    return SKY_OK;
}

int eval_report_read(const cli *c, eval_report *report, const char *path) {
    cli_blob file;
    int code = cli_blob_read(c, path, LINES_BYTES_MAX, &file);
    sky_status status = SKY_OK;
    size_t at = 0, number = 0;
    while (code == CLI_OK && status == SKY_OK && (at < file.bytes || number == 0)) {
        const char *text = (const char *)file.data + at;
        const char *end = memchr(text, '\n', file.bytes - at);
        size_t bytes = end ? (size_t)(end - text) + 1 : file.bytes - at;
        json_t *line = json_loadb(text, bytes, 0, NULL);
        status = take_line(report, line);
        json_decref(line);
        at += bytes;
        number++;
    }
    if (status != SKY_OK)
        code = cli_failed(c, "%s:%zu: %s", path, number,
                          status == SKY_E_NOMEM ? "out of memory" : "no line that eval prints");
    cli_blob_free(&file);
    return code;
}

/* The divergence the levels have at so many bits, between two by interpolation of its logarithm,
 * which falls evenly with bits; 0: not between two. */
static double ladder_at(const eval_report *report, double bits) {
    double low = 0, low_kld = 0, high = 1e9, high_kld = 0;
    for (size_t i = 0; i < report->count; i++) {
        const eval_sum *s = &report->sums[i];
        sky_level level;
        if (sky_level_parse(s->name, &level) != SKY_OK || !(s->elements > 0 && s->kld > 0))
            continue;
        double here = 8 * s->bytes / s->elements, kld = s->kld / s->texts;
        if (here <= bits && here > low) {
            low = here;
            low_kld = kld;
        }
        if (here >= bits && here < high) {
            high = here;
            high_kld = kld;
        }
    }
    if (low_kld <= 0 || high_kld <= 0)
        return 0;
    double share = high > low ? (bits - low) / (high - low) : 0;
    return low_kld * pow(high_kld / low_kld, share);
}

static void ladder_cell(cli_table *t, const eval_report *report, const eval_sum *s) {
    double ladder = s->elements > 0 ? ladder_at(report, 8 * s->bytes / s->elements) : 0;
    sky_level level;
    if (ladder > 0 && sky_level_parse(s->name, &level) != SKY_OK)
        cli_table_cell(t, "%.2f", s->kld / s->texts / ladder);
    else
        cli_table_cell(t, "%s", "");
}

static void speed_cell(cli_table *t, double elements, double seconds) {
    if (seconds > 0)
        cli_table_cell(t, "%.2f", report_gbps(elements, seconds));
    else
        cli_table_cell(t, "%s", "");
}

static void print_table(const eval_report *report) {
    static const char *const head[] = {"LEVEL",      "BITS", "KLD",      "/ LADDER", "WORST 0.1%",
                                       "SAME TOP-1", "PPL",  "ENC GB/s", "DEC GB/s", "FACTS"};
    cli_table t = {.columns = "lrrrrrrrrr"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        cli_table_cell(&t, "%s", head[i]);
    for (size_t i = 0; i < report->count; i++) {
        const eval_sum *s = &report->sums[i];
        double n = s->texts ? s->texts : 1;
        cli_table_cell(&t, "%s", s->name);
        cli_table_cell(&t, "%.3f", s->elements > 0 ? 8 * s->bytes / s->elements : 0);
        cli_table_cell(&t, "%.2g", s->kld / n);
        ladder_cell(&t, report, s);
        cli_table_cell(&t, "%.2g", s->kld_p999);
        cli_table_cell(&t, "%.4f", s->top1 / n);
        cli_table_cell(&t, "%+.2f %%", 100 * (exp(s->log_ppl / n) - 1));
        speed_cell(&t, s->elements, s->encode_s);
        speed_cell(&t, s->elements, s->decode_s);
        if (s->asked)
            cli_table_cell(&t, "%u of %u", s->right, s->asked);
        else
            cli_table_cell(&t, "%s", "");
    }
    cli_table_print(&t, stdout);
    cli_table_free(&t);
}

int eval_report_end(const cli *c, eval_report *report, const char *plot_path) {
    if (!c->json)
        print_table(report);
    return plot_path ? eval_plot(c, report, plot_path) : CLI_OK;
}

void eval_report_free(eval_report *report) {
    free(report->sums);
    *report = (eval_report){0};
}

#endif
