/* Lines, tables and the plot of `eval`. */
#ifndef SKYMEM_LAB_EVAL_REPORT_H
#define SKYMEM_LAB_EVAL_REPORT_H

#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

typedef struct {
    const eval_scheme *scheme;
    const eval_text *text;
    double bytes;
    eval_score score;
} eval_row;

/* What a scheme did over all texts so far, and what is left of its rows for the table. */
typedef struct {
    char name[48]; /* the scheme's */
    uint32_t texts;
    double bytes, elements;
    double kld, kld_p999, top1, log_ppl, encode_s, decode_s;
    uint32_t right, asked;
} eval_sum;

typedef struct {
    eval_sum *sums;
    size_t count;
} eval_report;

int eval_report_add(const cli *c, eval_report *report, const eval_row *row);
/* Take lines that earlier runs printed. */
int eval_report_read(const cli *c, eval_report *report, const char *path);
/* The table of means, and the plot if it has a path. */
int eval_report_end(const cli *c, eval_report *report, const char *plot_path);
void eval_report_free(eval_report *report);

/* ---- plot.c ---- */
int eval_plot(const cli *c, const eval_report *report, const char *path);

#endif
#endif
