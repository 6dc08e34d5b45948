/* How far answers moved, as llama.cpp's own perplexity tool measures it: the divergence of whole
 * distributions over the next token, not only of the text's own tokens. */
#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>

const float *eval_logits(eval_model *m, const eval_text *t, uint32_t i) {
    uint32_t vocabulary;
    if (t->questions) {
        if (sky_llama_probe_restore(m->probe) != SKY_OK ||
            sky_llama_probe_decode(m->probe, t->questions[i], t->question_tokens[i]) != SKY_OK)
            return NULL;
        return sky_llama_probe_logits(m->probe, t->question_tokens[i] - 1, &vocabulary);
    }
    if (i == 0 && (sky_llama_probe_restore(m->probe) != SKY_OK ||
                   sky_llama_probe_decode(m->probe, t->tokens + t->prefix, t->next) != SKY_OK))
        return NULL;
    return sky_llama_probe_logits(m->probe, i, &vocabulary);
}

uint32_t eval_choice(const eval_text *t, const float *logits) {
    uint32_t best = t->choice_count ? t->choices[0] : UINT32_MAX;
    for (size_t i = 1; i < t->choice_count; i++)
        best = logits[t->choices[i]] > logits[best] ? t->choices[i] : best;
    return best;
}

typedef struct {
    double kld;
    double nll;
    double dp; /* change of the own token's probability */
    bool same_best;
} moved;

static moved compare_logits(const eval_text *t, uint32_t i, const float *now) {
    size_t v = t->vocabulary, best = 0;
    const float *then = t->logits + i * v;
    for (size_t j = 1; j < v; j++)
        best = now[j] > now[best] ? j : best;
    double sum = 0;
    for (size_t j = 0; j < v; j++)
        sum += (double)expf(now[j] - now[best]);
    double log_sum = log(sum) + (double)now[best];
    float then_sum = (float)t->log_sum[i];
    double shift = log_sum - t->log_sum[i], kld = 0;
    for (size_t j = 0; j < v; j++)
        kld += (double)expf(then[j] - then_sum) * ((double)(then[j] - now[j]) + shift);
    size_t own = t->tokens[t->prefix + i + 1];
    return (moved){
        .kld = kld > 0 ? kld : 0,
        .nll = log_sum - (double)now[own],
        .dp = exp((double)now[own] - log_sum) - exp((double)then[own] - t->log_sum[i]),
        .same_best = best == t->best[i],
    };
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int eval_measure(const cli *c, eval_model *m, const eval_text *t, eval_score *out) {
    double *klds = malloc(t->next * sizeof *klds);
    if (!klds)
        return cli_failed(c, "out of memory");
    eval_score score = {0};
    double nll = 0, squares = 0, n = t->next;
    for (uint32_t i = 0; i < t->next; i++) {
        const float *logits = eval_logits(m, t, i);
        if (!logits) {
            free(klds);
            return cli_failed(c, "%s: the model does not go on", t->name);
        }
        moved m1 = compare_logits(t, i, logits);
        score.right += eval_choice(t, logits) == t->tokens[t->prefix + i + 1];
        klds[i] = m1.kld;
        score.kld_mean += m1.kld / n;
        score.top1 += m1.same_best / n;
        nll += m1.nll / n;
        squares += m1.dp * m1.dp / n;
    }
    qsort(klds, t->next, sizeof *klds, by_size);
    score.kld_p999 = klds[(size_t)(0.999 * (n - 1) + 0.5)];
    score.ppl_ratio = exp(nll - t->nll);
    score.rms_dp = sqrt(squares);
    free(klds);
    *out = score;
    return CLI_OK;
}

#endif
