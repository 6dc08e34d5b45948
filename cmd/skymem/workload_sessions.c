/* Documents, questions and arrivals: see workload.h. */
#include "workload.h"

#include "profile.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX     (1u << 20)
#define ARRIVALS_BYTES_MAX (1u << 30)

const char *const workload_kind_names[WORKLOAD_KINDS] = {"multi-turn", "multi-request",
                                                         "shared-document"};

/* Of the folder of texts that comes along; session i reads text i, and further on once they are
 * through. */
static const char *const texts[] = {"prose", "code", "dialogue", "licence", "german"};
#define TEXTS (sizeof texts / sizeof texts[0])

static const char *const questions[] = {
    "\n\nWhat is the text above about? Answer in one sentence.\n",
    "\n\nWho or what is named first in it?\n",
    "\n\nWhich part of it would you leave out, and why?\n",
    "\n\nGive it a title of at most six words.\n",
    "\n\nWrite down one number or name that stands in it.\n",
    "\n\nWhat would you ask its author?\n",
};
#define QUESTIONS (sizeof questions / sizeof questions[0])

static int out_of_memory(const workload *w) {
    return cli_failed(w->c, "out of memory");
}

/* ---- arrivals ---- */

/* The time of one line in ms; negative: it is none. */
static double arrival_of(const char *line, size_t bytes) {
    json_t *object = json_loadb(line, bytes, 0, NULL), *time = json_object_get(object, "timestamp");
    double ms = json_is_number(time) ? json_number_value(time) : -1;
    json_decref(object);
    return isfinite(ms) ? ms : -1;
}

static int take_arrivals(workload *w, const cli_blob *file, const char *path, size_t wanted,
                         double speed) {
    const char *at = file->data, *end = at + file->bytes;
    double first = 0, last = 0;
    size_t count = 0;
    while (at < end && count < wanted) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        double ms = arrival_of(at, (size_t)(line_end - at));
        if (ms < 0 || ms < last)
            return cli_failed(
                w->c,
                "%s:%zu: not an object with a \"timestamp\" in ms, later than the one "
                "before",
                path, count + 1);
        first = count == 0 ? ms : first;
        w->arrivals_ms[count++] = (ms - first) / speed;
        last = ms;
        at = line_end + (line_end < end);
    }
    return count == wanted
               ? CLI_OK
               : cli_failed(w->c, "%s: %zu arrivals; %zu are needed", path, count, wanted);
}

int workload_read_arrivals(workload *w, const char *path, double speed) {
    cli_blob file = {0};
    int code = cli_blob_read(w->c, path, ARRIVALS_BYTES_MAX, &file);
    w->arrivals_ms = calloc(WORKLOAD_REQUESTS_MAX, sizeof *w->arrivals_ms);
    if (code == CLI_OK && !w->arrivals_ms)
        code = out_of_memory(w);
    if (code == CLI_OK)
        code = take_arrivals(w, &file, path, (size_t)w->sessions * w->turns, speed);
    cli_blob_free(&file);
    return code;
}

/* ---- documents and questions ---- */

/* Tokens that stand before every text, whatever it says. */
static int count_openers(const workload *w, size_t *count) {
    workload_text a = {0}, b = {0};
    int code = cli_model_tokenize(w->c, &w->model, "a", 1, 0, &a.tokens, &a.count);
    if (code == CLI_OK)
        code = cli_model_tokenize(w->c, &w->model, "b", 1, 0, &b.tokens, &b.count);
    *count = 0;
    while (code == CLI_OK && *count < a.count && *count < b.count &&
           a.tokens[*count] == b.tokens[*count])
        ++*count;
    free(a.tokens);
    free(b.tokens);
    return code;
}

/* The tokens of a text without its openers. Owner: the caller frees them. */
static int cut_sessions(const workload *w, const char *text, size_t bytes, size_t openers,
                        workload_text *out) {
    int code = cli_model_tokenize(w->c, &w->model, text, bytes, 0, &out->tokens, &out->count);
    if (code != CLI_OK)
        return code;
    openers = openers < out->count ? openers : out->count;
    out->count -= openers;
    memmove(out->tokens, out->tokens + openers, out->count * sizeof *out->tokens);
    return CLI_OK;
}

/* Tokens of a text from `from` on, with the openers before them. */
static int make_document(const workload *w, const workload_text *all, size_t openers, size_t from,
                         workload_text *out) {
    out->tokens = malloc(w->context * sizeof *out->tokens);
    out->count = w->context;
    if (!out->tokens)
        return out_of_memory(w);
    memcpy(out->tokens, all->tokens, openers * sizeof *out->tokens);
    memcpy(out->tokens + openers, all->tokens + openers + from,
           (w->context - openers) * sizeof *out->tokens);
    return CLI_OK;
}

/* Cut text number `text` into the documents of its sessions. */
static int read_documents(workload *w, size_t text, size_t openers) {
    char name[64], path[4096];
    cli_blob blob = {0};
    workload_text all = {0};
    snprintf(name, sizeof name, "texts/%s.txt", texts[text]);
    if (!cli_share_find(name, path, sizeof path))
        return cli_failed(w->c, "%s did not come along", path);
    int code = cli_blob_read(w->c, path, TEXT_BYTES_MAX, &blob);
    if (code == CLI_OK)
        code = cli_model_tokenize(w->c, &w->model, blob.data, blob.bytes, 0, &all.tokens,
                                  &all.count);
    for (size_t i = text, from = 0; code == CLI_OK && i < w->sessions; i += TEXTS) {
        if (from + w->context > all.count) {
            code = cli_usage(w->c,
                             "%s has %zu tokens with this model, too few for the documents of %u "
                             "sessions: give a smaller --context or fewer --sessions",
                             path, all.count, w->sessions);
            break;
        }
        code = make_document(w, &all, openers, from, &w->documents[i]);
        from += w->context - openers;
    }
    cli_blob_free(&blob);
    free(all.tokens);
    return code;
}

/* Room in the model for the longest prompt and its answer. */
static int reserve_sessions(const workload *w) {
    size_t question = 0;
    sky_error error = {0};
    for (size_t i = 0; i < w->question_count; i++)
        question = w->questions[i].count > question ? w->questions[i].count : question;
    size_t most = w->context + w->turns * (question + w->predict);
    uint32_t trained = sky_llama_trained_tokens(w->model.llama);
    if (most > trained)
        return cli_usage(w->c,
                         "the longest conversation has %zu tokens, and the model's context holds "
                         "%u: give fewer --turns or a smaller --context",
                         most, trained);
    return sky_llama_reserve(w->model.llama, (uint32_t)most, &error) == SKY_OK
               ? CLI_OK
               : cli_failed(w->c, "%s", error.text);
}

int workload_prepare(workload *w) {
    size_t openers;
    int code = count_openers(w, &openers);
    w->questions = calloc(QUESTIONS, sizeof *w->questions);
    w->warm.tokens = calloc(w->predict, sizeof *w->warm.tokens);
    if (code == CLI_OK && (!w->questions || !w->warm.tokens))
        code = out_of_memory(w);
    for (size_t i = 0; code == CLI_OK && i < TEXTS && i < w->sessions; i++)
        code = read_documents(w, i, openers);
    for (size_t i = 0; code == CLI_OK && i < QUESTIONS; i++) {
        code = cut_sessions(w, questions[i], strlen(questions[i]), openers, &w->questions[i]);
        w->question_count += code == CLI_OK;
    }
    return code == CLI_OK ? reserve_sessions(w) : code;
}

/* ---- the cold run ---- */

static void forget_requests(workload *w) {
    for (size_t i = 0; i < w->request_count; i++) {
        free(w->requests[i].prompt.tokens);
        free(w->requests[i].cold.tokens);
    }
    memset(w->requests, 0, w->request_count * sizeof *w->requests);
    w->request_count = 0;
}

/* The prompt of a session's turn: its document, or with a history the prompt and the cold answer of
 * the turn before, and then a question. */
static int make_prompt(const workload *w, uint32_t session, uint32_t turn, workload_request *r) {
    const workload_request *before = turn > 0 ? r - w->sessions : NULL;
    const workload_text *document = &w->documents[w->kind == WORKLOAD_SHARED ? 0 : session];
    const workload_text *question = &w->questions[(session + turn) % w->question_count];
    bool goes_on = before && w->kind != WORKLOAD_REQUESTS;
    const workload_text *from = goes_on ? &before->prompt : document;
    size_t answered = goes_on ? before->cold.count : 0;
    r->cold.tokens = calloc(w->predict, sizeof *r->cold.tokens);
    r->prompt.count = from->count + answered + question->count;
    r->prompt.tokens = calloc(r->prompt.count + w->predict, sizeof *r->prompt.tokens);
    if (!r->cold.tokens || !r->prompt.tokens)
        return out_of_memory(w);
    uint32_t *to = r->prompt.tokens;
    memcpy(to, from->tokens, from->count * sizeof *to);
    if (goes_on)
        memcpy(to + from->count, before->cold.tokens, answered * sizeof *to);
    memcpy(to + from->count + answered, question->tokens, question->count * sizeof *to);
    return CLI_OK;
}

int workload_cold(workload *w, workload_kind kind) {
    int code = CLI_OK;
    forget_requests(w);
    w->kind = kind;
    cli_stage("%s, cold: %u requests", workload_kind_names[kind], w->sessions * w->turns);
    for (uint32_t i = 0; code == CLI_OK && i < w->sessions * w->turns; i++) {
        workload_request *r = &w->requests[w->request_count++];
        cli_progress("%s, cold: request %u of %u", workload_kind_names[kind], i + 1,
                     w->sessions * w->turns);
        code = make_prompt(w, i % w->sessions, i / w->sessions, r);
        if (code == CLI_OK)
            code = workload_answer_one(w, NULL, &r->prompt, &r->cold);
    }
    cli_progress(NULL);
    return code;
}

void workload_free(workload *w) {
    forget_requests(w);
    for (size_t i = 0; i < WORKLOAD_SESSIONS_MAX; i++)
        free(w->documents[i].tokens);
    for (size_t i = 0; i < w->question_count; i++)
        free(w->questions[i].tokens);
    free(w->questions);
    free(w->arrivals_ms);
    free(w->warm.tokens);
    cli_model_close(&w->model);
}

#endif
