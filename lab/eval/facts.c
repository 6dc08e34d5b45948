/* Planted facts: sentences such as "The password of Agnes is apple." stand scattered in prose;
 * the model is asked for each password and chooses among all. People believe this sooner than a
 * divergence: either the cache still knows what was read, or it does not. */
#include "facts.h"

#ifdef SKYMEM_WITH_LLAMA

#include "model.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    "Agnes", "Boris", "Clara", "David",  "Elena",  "Frank",  "Greta", "Hugo",
    "Irene", "Jacob", "Karen", "Louis",  "Maria",  "Niels",  "Olga",  "Peter",
    "Quinn", "Rosa",  "Simon", "Teresa", "Ursula", "Victor", "Wanda", "Xavier",
};
static const char *const words[] = {
    " apple",  " river",  " candle", " tiger",  " piano",  " garden", " silver", " bread",
    " winter", " horse",  " letter", " copper", " orange", " window", " forest", " coffee",
    " castle", " pencil", " rabbit", " island", " butter", " summer", " dragon", " paper",
};
#define FACTS   (sizeof names / sizeof names[0])
#define PLANTED (2 * FACTS) /* each twice: a small model needs it */

/* The filler in as many pieces as there are facts, each cut between words, a fact behind each. */
static char *facts_compose(const char *filler, size_t bytes) {
    size_t room = bytes + PLANTED * 64 + 1, at = 0;
    char *text = malloc(room);
    size_t from = 0;
    for (size_t i = 0; text && i < PLANTED; i++) {
        size_t to = bytes * (i + 1) / PLANTED;
        while (to > from && to < bytes && filler[to] != ' ' && filler[to] != '\n')
            to--;
        memcpy(text + at, filler + from, to - from);
        at += to - from;
        from = to;
        at += (size_t)snprintf(text + at, room - at, "\n\nThe password of %s is%s.\n\n",
                               names[i % FACTS], words[i % FACTS]);
    }
    return text;
}

/* Tokens of a text without the one that opens a prompt. */
static int cut_question(const cli *c, const cli_model *model, const char *text, size_t opening,
                        uint32_t **tokens, uint32_t *count) {
    size_t all = 0;
    int code = cli_model_tokenize(c, model, text, strlen(text), 0, tokens, &all);
    if (code != CLI_OK)
        return code;
    memmove(*tokens, *tokens + opening, (all - opening) * sizeof **tokens);
    *count = (uint32_t)(all - opening);
    return CLI_OK;
}

static int facts_ask(const cli *c, const cli_model *model, size_t opening, eval_text *t) {
    t->questions = calloc(FACTS, sizeof *t->questions);
    t->question_tokens = calloc(FACTS, sizeof *t->question_tokens);
    t->choices = calloc(FACTS, sizeof *t->choices);
    if (!t->questions || !t->question_tokens || !t->choices)
        return cli_failed(c, "out of memory");
    int code = CLI_OK;
    t->next = FACTS;
    for (size_t i = 0; i < FACTS && code == CLI_OK; i++) {
        char text[128];
        snprintf(text, sizeof text, "\n\nThe password of %s is", names[i]);
        code = cut_question(c, model, text, opening, &t->questions[i], &t->question_tokens[i]);
    }
    for (size_t i = 0; i < FACTS && code == CLI_OK; i++) {
        uint32_t *tokens = NULL, count = 0;
        code = cut_question(c, model, words[i], opening, &tokens, &count);
        if (code == CLI_OK)
            t->choices[i] = tokens[0];
        free(tokens);
    }
    t->choice_count = FACTS;
    return code;
}

int eval_text_facts(const cli *c, eval_model *m, const char *filler_path, uint32_t prefix,
                    eval_text *t) {
    const cli_model model = {.llama = m->llama, .engine = m->engine};
    uint32_t *tokens = NULL;
    size_t count = 0, opening = 0;
    cli_blob filler = {0};
    eval_text_free(t);
    snprintf(t->name, sizeof t->name, "planted-facts");
    int code = cli_model_tokenize(c, &model, "", 0, 0, &tokens, &opening);
    free(tokens);
    tokens = NULL;
    if (code == CLI_OK)
        code = cli_blob_read(c, filler_path, 1u << 24, &filler);
    /* four letters a token, ten tokens a fact: cut to what is asked for afterwards */
    size_t bytes = prefix > 13 * PLANTED ? 4 * (prefix - 11 * PLANTED) : 4 * PLANTED;
    char *text = code == CLI_OK
                     ? facts_compose(filler.data, bytes < filler.bytes ? bytes : filler.bytes)
                     : NULL;
    if (text)
        code = cli_model_tokenize(c, &model, text, strlen(text), FACTS + 1, &tokens, &count);
    if (code == CLI_OK)
        code = facts_ask(c, &model, opening, t);
    for (size_t i = 0; code == CLI_OK && i < FACTS; i++)
        tokens[count + 1 + i] = t->choices[i];
    if (code == CLI_OK)
        code = eval_text_take(c, m, tokens, (uint32_t)count, FACTS, t);
    free(tokens);
    free(text);
    cli_blob_free(&filler);
    return code;
}

#endif
