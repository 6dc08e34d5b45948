#include "push.h"

#ifdef SKYMEM_WITH_LLAMA

static void push_part(void *context, size_t computed_tokens) {
    cli_push *p = context;
    if (p->status == SKY_OK)
        p->status = sky_sequence_push(p->sequence, computed_tokens);
}

int cli_push_compute(cli *c, cli_model *m, cli_push *p, const uint32_t *tokens, size_t first,
                     size_t count) {
    p->status = sky_sequence_push_begin(p->sequence, tokens, count);
    m->computed = push_part;
    m->computed_context = p;
    int code = cli_model_compute(c, m, tokens, first, count);
    m->computed = NULL;
    if (code == CLI_OK)
        push_part(p, count);
    (void)sky_sequence_push_end(p->sequence, &p->blocks, &p->bytes);
    return code;
}

int cli_await_blocks(cli *c, sky_sequence *sequence, const uint32_t *tokens, size_t count,
                     cli_awaited *out) {
    if (!cli_given(c, "wait-ms"))
        return CLI_OK;
    sky_time began = sky_now();
    uint64_t patience_ms = cli_count(c, "wait-ms");
    cli_progress("waiting for another process to compute %zu tokens", count);
    sky_status status = sky_sequence_await(sequence, tokens, count, SKY_MS(patience_ms),
                                           &out->tokens);
    out->ms = cli_ms(sky_now() - began);
    cli_progress(NULL);
    if (status == SKY_MISS && out->tokens > 0)
        cli_note(c,
                 "the process that computed the prompt ended after %u tokens; computing the rest",
                 out->tokens);
    else if (status == SKY_E_DEADLINE)
        cli_note(c, "nothing came for %llu ms after %u tokens; computing the rest",
                 (unsigned long long)patience_ms, out->tokens);
    else if (status != SKY_OK && status != SKY_MISS)
        return cli_failed(c, "the wait failed: %s", sky_status_text(status));
    return CLI_OK;
}

#endif
