/* skymem constellation: run a scenario's satellites on this machine, as processes of their own. */
#include "constellation.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_NS SKY_SECONDS(30)
#define ASK_NS   SKY_SECONDS(2)
#define STOP_NS  SKY_SECONDS(5)

static void rest(void) {
    poll(NULL, 0, 10);
}

/* ---- up ---- */

static int make_keys(const cli *c, const constellation *x) {
    const char *paths[] = {x->site.key_path, x->site.tenant_path};
    for (size_t i = 0; i < 2; i++) {
        sky_error error;
        if (!paths[i][0] || access(paths[i], F_OK) == 0)
            continue;
        if (sky_satellite_key_make(paths[i], &error) != SKY_OK)
            return cli_failed(c, "%s", error.text);
        cli_note(c, "made %s", paths[i]);
    }
    return CLI_OK;
}

/* Until it has said "ready"; false: it ended, or took too long. */
static bool await_ready(constellation_process *p, sky_time until) {
    char line[8] = {0};
    struct pollfd fd = {.fd = p->ready, .events = POLLIN};
    sky_time left = until - sky_now();
    bool ready = poll(&fd, 1, left > 0 ? (int)(left / 1000000) : 0) == 1 &&
                 read(p->ready, line, sizeof line - 1) > 0 && strncmp(line, "ready", 5) == 0;
    close(p->ready);
    p->ready = -1;
    return ready;
}

static uint64_t memory_of(const constellation *x) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < x->site.satellite_count; i++)
        sum += x->processes[i].running ? x->processes[i].memory_bytes : 0;
    return sum;
}

static int say_up(const cli *c, const constellation *x, uint32_t started, double ms) {
    uint32_t running = constellation_running(x);
    char memory[24];
    if (c->json)
        return cli_json_print(
            c, json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "scenario", x->scenario, "satellites",
                         (json_int_t)x->site.satellite_count, "started", (json_int_t)started,
                         "running", (json_int_t)running, "memory_bytes", (json_int_t)memory_of(x),
                         "ready_ms", ms));
    printf("%u of %u satellites run (%u started, %.0f ms), %s of memory together\n", running,
           x->site.satellite_count, started, ms, cli_bytes_text(memory_of(x), memory));
    return CLI_OK;
}

static int up(cli *c, constellation *x) {
    sky_time began = sky_now();
    uint32_t started = 0;
    int code = make_keys(c, x);
    for (uint32_t i = 0; code == CLI_OK && i < x->site.satellite_count; i++) {
        if (x->processes[i].running)
            continue;
        code = constellation_start(c, x, i);
        started += code == CLI_OK;
    }
    uint32_t silent = 0;
    for (uint32_t i = 0; i < x->site.satellite_count; i++)
        if (x->processes[i].ready >= 0)
            silent += !await_ready(&x->processes[i], began + READY_NS);
    double ms = cli_ms(sky_now() - began);
    while (waitpid(-1, NULL, WNOHANG) > 0) { /* those that ended at once */
    }
    constellation_look(x);
    int saved = constellation_save(c, x);
    if (code != CLI_OK)
        return code;
    if (silent > 0) {
        char words[CONSTELLATION_WORDS_BYTES];
        return cli_failed(c, "%u of %u satellites did not come up%s; see %s", silent, started,
                          constellation_last_words(x, words), x->log_path);
    }
    return saved == CLI_OK ? say_up(c, x, started, ms) : saved;
}

/* ---- status ---- */

static json_t *satellite_json(const constellation_process *p, const sky_satellite_stat *s) {
    return json_pack("{s:I, s:I, s:I, s:b, s:b, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
                     "s:I, s:f}",
                     "plane", (json_int_t)s->satellite.plane, "slot", (json_int_t)s->satellite.slot,
                     "pid", (json_int_t)p->pid, "running", p->running, "answered", s->answered,
                     "ms", s->answered ? s->ms : 0.0, "chunks", (json_int_t)s->chunks, "chunks_max",
                     (json_int_t)s->chunks_max, "gets", (json_int_t)s->gets, "migrated",
                     (json_int_t)s->migrated, "malformed", (json_int_t)s->malformed, "foreign",
                     (json_int_t)s->foreign, "stale", (json_int_t)s->stale, "replayed",
                     (json_int_t)s->replayed, "forged", (json_int_t)s->forged, "memory_bytes",
                     (json_int_t)(p->running ? p->memory_bytes : 0), "cpu_s",
                     p->running ? p->cpu_s : 0.0);
}

static int say_status(const cli *c, const constellation *x, const sky_satellite_stat *stats) {
    uint64_t chunks = 0, migrated = 0, refused = 0;
    uint32_t answered = 0;
    double cpu_s = 0;
    char memory[24];
    json_t *list = json_array();
    for (uint32_t i = 0; i < x->site.satellite_count; i++) {
        answered += stats[i].answered;
        chunks += stats[i].chunks;
        migrated += stats[i].migrated;
        refused += stats[i].foreign + stats[i].stale + stats[i].replayed + stats[i].forged;
        cpu_s += x->processes[i].running ? x->processes[i].cpu_s : 0;
        json_array_append_new(list, satellite_json(&x->processes[i], &stats[i]));
    }
    uint32_t running = constellation_running(x);
    if (c->json)
        return cli_json_print(
            c, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "scenario",
                         x->scenario, "satellites", (json_int_t)x->site.satellite_count, "running",
                         (json_int_t)running, "answered", (json_int_t)answered, "chunks",
                         (json_int_t)chunks, "migrated", (json_int_t)migrated, "refused_datagrams",
                         (json_int_t)refused, "memory_bytes", (json_int_t)memory_of(x), "cpu_s",
                         cpu_s, "list", list));
    json_decref(list);
    printf("%u of %u satellites run, %u answer; %llu chunks held, %llu migrated; %llu datagrams "
           "refused; %s of memory and %.2f s of processor time together\n",
           running, x->site.satellite_count, answered, (unsigned long long)chunks,
           (unsigned long long)migrated, (unsigned long long)refused,
           cli_bytes_text(memory_of(x), memory), cpu_s);
    return CLI_OK;
}

static int status(cli *c, constellation *x) {
    sky_satellite_stat *stats = calloc(x->site.satellite_count, sizeof *stats);
    sky_satellite_stat *asked = calloc(x->site.satellite_count, sizeof *asked);
    uint32_t count = 0;
    int code = CLI_FAILED;
    sky_error error;
    if (!stats || !asked) {
        cli_failed(c, "out of memory");
        goto cleanup;
    }
    for (uint32_t i = 0; i < x->site.satellite_count; i++) {
        stats[i].satellite = constellation_satellite(x, i);
        if (x->processes[i].running)
            asked[count++].satellite = stats[i].satellite;
    }
    if (count > 0 &&
        sky_satellite_ask(x->scenario, asked, count, sky_now() + ASK_NS, &error) != SKY_OK) {
        cli_failed(c, "%s", error.text);
        goto cleanup;
    }
    for (uint32_t i = 0; i < count; i++) {
        sky_satellite s = asked[i].satellite;
        stats[(s.plane - 1) * x->site.slots + s.slot - 1] = asked[i];
    }
    code = say_status(c, x, stats);
cleanup:
    free(stats);
    free(asked);
    return code;
}

/* ---- down ---- */

static void signal_all(const constellation *x, int number) {
    for (uint32_t i = 0; i < x->site.satellite_count; i++)
        if (x->processes[i].running)
            kill(x->processes[i].pid, number);
}

static int down(cli *c, constellation *x) {
    uint32_t before = constellation_running(x);
    signal_all(x, SIGTERM);
    for (sky_time until = sky_now() + STOP_NS; constellation_running(x) > 0 && sky_now() < until;) {
        rest();
        constellation_look(x);
    }
    uint32_t killed = constellation_running(x);
    signal_all(x, SIGKILL);
    for (sky_time until = sky_now() + STOP_NS; constellation_running(x) > 0 && sky_now() < until;) {
        rest();
        constellation_look(x);
    }
    int code = constellation_save(c, x);
    if (code != CLI_OK)
        return code;
    unlink(x->log_path);
    if (c->json)
        return cli_json_print(c, json_pack("{s:s, s:I, s:I}", "scenario", x->scenario, "stopped",
                                           (json_int_t)before, "killed", (json_int_t)killed));
    printf("%u satellites stopped%s\n", before, killed ? ", some by force" : "");
    return CLI_OK;
}

/* ---- the verb ---- */

static int run(cli *c) {
    static const struct {
        const char *name;
        int (*run)(cli *c, constellation *x);
    } actions[] = {{"up", up}, {"status", status}, {"down", down}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(c->arguments[0], actions[i].name) != 0)
            continue;
        constellation x;
        int code = constellation_open(c, c->arguments[1], &x);
        if (code == CLI_OK)
            code = actions[i].run(c, &x);
        constellation_close(&x);
        return code;
    }
    return cli_usage(c, "%s: up, status or down", c->arguments[0]);
}

const cli_verb cli_verb_constellation = {
    .name = "constellation",
    .summary = "Run a scenario's satellites on this machine",
    .synopsis = "up|status|down SCENARIO",
    .about =
        "up starts every satellite of the scenario that does not run, each a process of its own "
        "(skymemd --satellite) on the UDP port that the scenario's udp section gives it, and waits "
        "until all listen. A satellite that died is started again, empty. Key files that are not "
        "there are made, mode 0600: the satellites read the constellation's, the tenant's stays "
        "on the ground.\n"
        "status asks those that run how they are. down ends them.\n"
        "What was started is kept in $XDG_RUNTIME_DIR/skymem; only those processes are ever "
        "signalled. --store sky+udp:SCENARIO is the ground to them.",
    .arguments_min = 2,
    .arguments_max = 2,
    .examples =
        (const cli_example[]){
            {"skymem constellation up scenarios/constellation.yaml", "95 satellites listen"},
            {"skymem put k FILE --store sky+udp:scenarios/constellation.yaml", "a value in orbit"},
            {"skymem constellation status scenarios/constellation.yaml --json",
             "how each of them is"},
            {"skymem constellation down scenarios/constellation.yaml", "all end"},
            {NULL, NULL}},
    .fields =
        (const cli_field[]){
            {"scenario", "its file"},
            {"satellites", "up, status: that the scenario has"},
            {"started", "up: by this call"},
            {"running", "up, status: processes there are"},
            {"ready_ms", "up: until all listened"},
            {"memory_bytes", "up, status: of all together, shared pages counted once"},
            {"answered", "status: that answered within 2 s"},
            {"chunks", "status: held by all"},
            {"migrated", "status: chunks handed on as the sky turned"},
            {"cpu_s", "status: processor time so far"},
            {"refused_datagrams", "status: that satellites did not take, for any of the reasons in "
                                  "list"},
            {"list", "status: {plane slot pid running answered ms chunks chunks_max gets migrated "
                     "malformed foreign stale replayed forged memory_bytes cpu_s} of each: foreign "
                     "to forged are datagrams that were not of this sky, too old, seen before, or "
                     "under a wrong tag"},
            {"stopped", "down: that ran"},
            {"killed", "down: that did not end by themselves"},
            {NULL, NULL}},
    .failed = "A satellite did not come up, or a file cannot be written.",
    .run = run,
};
