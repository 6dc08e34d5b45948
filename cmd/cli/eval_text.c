/* Texts, and the state of their beginnings: see eval.h. */
#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

#include "model.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (16u << 20)

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int eval_folder_texts(const cli *c, const char *folder, char ***paths, size_t *count) {
    DIR *d = opendir(folder);
    if (!d)
        return cli_failed(c, "%s: %s", folder, strerror(errno));
    char **found = NULL;
    size_t n = 0;
    int code = CLI_OK;
    for (struct dirent *e; code == CLI_OK && (e = readdir(d));) {
        size_t bytes = strlen(e->d_name);
        if (bytes < 5 || strcmp(e->d_name + bytes - 4, ".txt") != 0)
            continue;
        char **more = realloc(found, (n + 1) * sizeof *found);
        if (more)
            found = more;
        if (!more || asprintf(&found[n], "%s/%s", folder, e->d_name) < 0)
            code = cli_failed(c, "out of memory");
        else
            n++;
    }
    closedir(d);
    if (n > 0)
        qsort(found, n, sizeof *found, by_name);
    *paths = found;
    *count = n;
    return code;
}

int eval_tokens(const cli *c, const eval_model *m, const char *path, uint32_t **tokens,
                size_t *count) {
    cli_blob text = {0};
    int code = cli_blob_read(c, path, TEXT_BYTES_MAX, &text);
    const cli_model model = {.llama = m->llama, .engine = m->engine};
    if (code == CLI_OK)
        code = cli_model_tokenize(c, &model, text.data, text.bytes, 0, tokens, count);
    cli_blob_free(&text);
    return code;
}

static void name_after(const char *path, char *out, size_t out_bytes) {
    const char *slash = strrchr(path, '/');
    snprintf(out, out_bytes, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = '\0';
}

/* The state's rows as streams, and a copy of them. */
static int take_streams(const cli *c, eval_model *m, eval_text *t) {
    uint32_t layer_count;
    const sky_llama_layer *layers = sky_llama_probe_layers(m->probe, &layer_count);
    const sky_tensor *rows = sky_llama_probe_rows(m->probe, &t->stream_count);
    t->streams = calloc(t->stream_count, sizeof *t->streams);
    for (size_t i = 0; t->streams && i < t->stream_count; i++) {
        const sky_llama_layer *l = &layers[i / 2];
        bool is_k = i % 2 == 0;
        t->streams[i] = (eval_stream){
            .layer = l,
            .is_k = is_k,
            .first_token = rows[i].first_token,
            .token_count = rows[i].token_count,
            .heads = l->kv_heads,
            .dim = is_k ? l->k_width : l->v_width,
            .rows = rows[i].data,
        };
        t->element_count += eval_elements(&t->streams[i]);
    }
    t->originals = malloc(t->element_count * sizeof *t->originals);
    if (!t->streams || !t->originals)
        return cli_failed(c, "out of memory");
    uint16_t *at = t->originals;
    for (size_t i = 0; i < t->stream_count; i++) {
        eval_stream *s = &t->streams[i];
        memcpy(at, s->rows, eval_elements(s) * sizeof *at);
        s->original = at;
        at += eval_elements(s);
    }
    return CLI_OK;
}

/* Logits of the continuation with the rows as they are. */
static int take_reference(const cli *c, eval_model *m, eval_text *t) {
    sky_llama_probe_logits(m->probe, 0, &t->vocabulary);
    size_t v = t->vocabulary;
    t->logits = malloc(t->next * v * sizeof *t->logits);
    t->log_sum = malloc(t->next * sizeof *t->log_sum);
    t->best = malloc(t->next * sizeof *t->best);
    if (!t->logits || !t->log_sum || !t->best)
        return cli_failed(c, "out of memory");
    t->nll = 0;
    for (uint32_t i = 0; i < t->next; i++) {
        float *at = t->logits + i * v;
        const float *logits = eval_logits(m, t, i);
        if (!logits)
            return cli_failed(c, "%s: the model does not go on", t->name);
        memcpy(at, logits, v * sizeof *at);
        size_t best = 0;
        for (size_t j = 1; j < v; j++)
            best = at[j] > at[best] ? j : best;
        double sum = 0;
        for (size_t j = 0; j < v; j++)
            sum += (double)expf(at[j] - at[best]);
        t->best[i] = (uint32_t)best;
        t->log_sum[i] = log(sum) + (double)at[best];
        t->right += eval_choice(t, at) == t->tokens[t->prefix + i + 1];
        t->nll += (t->log_sum[i] - (double)at[t->tokens[t->prefix + i + 1]]) / t->next;
    }
    return CLI_OK;
}

int eval_text_take(const cli *c, eval_model *m, const uint32_t *tokens, uint32_t prefix,
                   uint32_t next, eval_text *t) {
    size_t bytes = ((size_t)prefix + next + 1) * sizeof *tokens;
    uint32_t *copy = malloc(bytes);
    if (!copy)
        return cli_failed(c, "out of memory");
    memcpy(copy, tokens, bytes - (next ? 0 : sizeof *tokens));
    t->tokens = copy;
    t->prefix = prefix;
    t->next = next;
    sky_status status = sky_llama_probe_prefill(m->probe, t->tokens, prefix);
    if (status != SKY_OK)
        return cli_failed(c, "%s: cannot be computed: %s", t->name, sky_status_text(status));
    int code = take_streams(c, m, t);
    return code == CLI_OK && next ? take_reference(c, m, t) : code;
}

int eval_text_load(const cli *c, eval_model *m, const char *path, uint32_t prefix, uint32_t next,
                   eval_text *t) {
    uint32_t *tokens = NULL;
    size_t count = 0;
    int code = eval_tokens(c, m, path, &tokens, &count);
    if (code != CLI_OK)
        return code;
    eval_text_free(t);
    name_after(path, t->name, sizeof t->name);
    if (count < (size_t)prefix + next + 1)
        code = cli_failed(c, "%s: has %zu tokens, %u are needed; ask for a shorter --prefix", path,
                          count, prefix + next + 1);
    else
        code = eval_text_take(c, m, tokens, prefix, next, t);
    free(tokens);
    return code;
}

void eval_text_resume(const eval_model *m, eval_text *t) {
    size_t row_sets;
    const sky_tensor *rows = sky_llama_probe_rows(m->probe, &row_sets);
    for (size_t i = 0; i < t->stream_count; i++)
        t->streams[i].rows = rows[i].data;
    eval_text_reset(t);
}

void eval_text_free(eval_text *t) {
    free(t->tokens);
    free(t->streams);
    free(t->originals);
    free(t->logits);
    free(t->log_sum);
    free(t->best);
    for (uint32_t i = 0; t->questions && i < t->next; i++)
        free(t->questions[i]);
    free(t->questions);
    free(t->question_tokens);
    free(t->choices);
    memset(t, 0, sizeof *t);
}

void eval_text_reset(const eval_text *t) {
    for (size_t i = 0; i < t->stream_count; i++)
        memcpy(t->streams[i].rows, t->streams[i].original,
               eval_elements(&t->streams[i]) * sizeof(uint16_t));
}

#endif
