/* A prompt that another process computes while this one waits for its blocks: one skymem run
 * --prefill-only, and a skymemd between, over whose socket or over TCP the blocks come. Nothing is
 * computed here but the question, so that the row shows what the other's state is worth. */
#include "demo.h"

#ifdef SKYMEM_WITH_LLAMA

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ANNOUNCED_S 600 /* until the other process has loaded the model */
#define PATIENCE_S  600 /* from one block to the next */

typedef struct {
    demo *d;
    const char *source;
    bool tcp;
    char socket[4120], text[4120];
    pid_t host, process; /* 0: none */
} prefill;

/* The text as a file that the other process can read. */
static int write_text(prefill *p, const char *folder) {
    cli *c = p->d->c;
    const char *file = cli_text(c, "prompt-file"), *text = cli_text(c, "prompt");
    text = text ? text : cli_demo_text;
    snprintf(p->text, sizeof p->text, "%s%s", file ? file : folder, file ? "" : "/text");
    FILE *to = file ? NULL : fopen(p->text, "we");
    bool written = file || (to && fwrite(text, 1, strlen(text), to) == strlen(text));
    if (to && fclose(to) != 0)
        written = false;
    return written ? CLI_OK : cli_failed(c, "%s: %s", p->text, strerror(errno));
}

/* Its arguments: those of this command that keys depend on, and how fast to compute. */
static int start_process(prefill *p) {
    static const char *const same[] = {"--calibration", "--kv-type", "--flash-attn"};
    cli *c = p->d->c;
    char program[4096], store[4200], block_tokens[16], threads[24];
    const char *argv[24] = {program,   "run",     "--prefill-only", "--prompt-file", p->text,
                            "--store", store,     "--block-tokens", block_tokens,    "--threads",
                            threads,   "--model", p->d->model.path};
    size_t count = 13;
    if (!cli_beside_program("skymem", program, sizeof program))
        return cli_failed(c, "this program's own file is not to be found");
    snprintf(store, sizeof store, "shm:%s", p->socket);
    snprintf(block_tokens, sizeof block_tokens, "%u", p->d->block_tokens);
    snprintf(threads, sizeof threads, "%llu", (unsigned long long)cli_count(c, "threads"));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (cli_given(c, same[i] + 2)) {
            argv[count++] = same[i];
            argv[count++] = cli_text(c, same[i] + 2);
        }
    p->process = demo_process_start(argv, -1);
    return p->process > 0 ? CLI_OK : cli_failed(c, "%s does not start", program);
}

/* What the host tells of itself, for json_decref; NULL: nothing. */
static json_t *host_json(const char *socket) {
    char *line = NULL;
    if (sky_host_text(socket, sky_now() + SKY_SECONDS(10), &line) != SKY_OK)
        return NULL;
    json_t *object = json_loads(line, 0, NULL);
    free(line);
    return object;
}

static bool is_announced(const char *socket) {
    json_t *object = host_json(socket);
    json_t *keys = json_object_get(json_object_get(object, "cache"), "announced");
    bool announced = json_integer_value(keys) > 0;
    json_decref(object);
    return announced;
}

/* Until the other process has loaded the model, and begins. */
static int wait_announced(prefill *p) {
    sky_time until = sky_now() + SKY_SECONDS(ANNOUNCED_S);
    cli_progress("%s: another process loads the model", p->source);
    while (!is_announced(p->socket)) {
        bool ended = waitpid(p->process, NULL, WNOHANG) != 0;
        if (ended)
            p->process = 0;
        if (ended || sky_now() > until)
            return cli_failed(p->d->c, "%s: the other process did not begin", p->source);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return CLI_OK;
}

/* Wait for the blocks, and answer. What else the text has is not asked about, so the other process
 * ends then. */
static int wait_and_answer(prefill *p, sky_sequence *sequence) {
    demo *d = p->d;
    sky_awaited awaited = {0};
    uint32_t stored = 0;
    cli_progress("%s: waiting for the other process", p->source);
    (void)sky_sequence_await(sequence, d->prompts[0], DEMO_PROMPT, SKY_SECONDS(PATIENCE_S),
                             &stored);
    (void)sky_sequence_awaited(sequence, &awaited);
    demo_process_stop(p->process);
    p->process = 0;
    if (stored < DEMO_SHARED / d->block_tokens * d->block_tokens)
        return cli_failed(d->c, "%s: the other process ended after %u tokens", p->source, stored);
    int code = demo_warm(d, p->source, sequence, 0, 1, 1);
    if (code != CLI_OK)
        return code;
    demo_row *row = &d->rows[d->row_count - 1];
    row->wait_ms = cli_ms(awaited.waited_ns);
    row->ttft_ms += row->wait_ms;
    row->speedup = d->rows[0].ttft_ms / row->ttft_ms;
    demo_tell_row(d);
    return CLI_OK;
}

/* Over the socket, or into memory of this process's own over TCP. */
static int open_store(const prefill *p, cli_store *store) {
    char url[4200];
    const char *urls[] = {url, "mem:256MiB"};
    snprintf(url, sizeof url, "shm:%s", p->socket);
    if (!p->tcp)
        return cli_store_open_urls(p->d->c, urls, 1, store);
    json_t *object = host_json(p->socket);
    json_t *address = json_object_get(json_object_get(object, "peers"), "address");
    snprintf(url, sizeof url, "skymem://%s?plain=yes",
             address ? json_string_value(address) : "nowhere");
    json_decref(object);
    urls[0] = "mem:256MiB";
    urls[1] = url;
    return cli_store_open_urls(p->d->c, urls, 2, store);
}

static int answer_from_it(prefill *p) {
    const sky_manager_options options = {
        .block_tokens = p->d->block_tokens, .profile = p->d->model.profile, .load_only = true};
    cli_store store = {0};
    sky_manager *manager = NULL;
    sky_sequence *sequence = NULL;
    sky_error error = {0};
    int code = open_store(p, &store);
    if (code == CLI_OK && (sky_manager_create(store.cache, p->d->model.engine, &options, &manager,
                                              &error) != SKY_OK ||
                           sky_sequence_open(manager, p->d->model.engine, &sequence) != SKY_OK))
        code = cli_failed(p->d->c, "%s: %s", p->source, error.text);
    if (code == CLI_OK)
        code = wait_and_answer(p, sequence);
    sky_sequence_close(sequence);
    sky_manager_destroy(manager);
    cli_store_close(&store);
    return code;
}

int demo_prefill(demo *d, const char *source, bool tcp) {
    static const char *const listen[] = {"--listen", "0", "--peer-plain", NULL};
    prefill p = {.d = d, .source = source, .tcp = tcp};
    char folder[4096];
    int code = cli_scratch_make(d->c, NULL, "demo", folder, sizeof folder);
    if (code != CLI_OK)
        return code;
    snprintf(p.socket, sizeof p.socket, "%s/skymemd.sock", folder);
    code = write_text(&p, folder);
    if (code == CLI_OK)
        code = demo_host_start(d, p.socket, tcp ? listen : NULL, &p.host);
    if (code == CLI_OK)
        code = start_process(&p);
    if (code == CLI_OK)
        code = wait_announced(&p);
    if (code == CLI_OK)
        code = answer_from_it(&p);
    demo_process_stop(p.process);
    demo_process_stop(p.host);
    cli_scratch_remove(folder);
    return code;
}

#endif
