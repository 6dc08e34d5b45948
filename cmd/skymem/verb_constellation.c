/* skymem constellation: run a scenario's satellites on this machine, as processes of their own. */
#include "constellation.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define READY_NS  SKY_SECONDS(30)
#define TIMEOUT_S "10"
#define NAMED_MAX 5 /* satellites in a note */

/* "3 of 5 satellites run", "1 of 1 satellite runs". */
static const char *running_text(const constellation *x, char out[64]) {
    uint32_t running = constellation_running(x), all = x->site.satellite_count;
    snprintf(out, 64, "%u of %u satellite%s run%s", running, all, cli_plural(all),
             running == 1 ? "s" : "");
    return out;
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

/* SIGINT and SIGTERM become a descriptor, so that they come between two steps and not within one.
 * Who ignores them, as what a shell runs behind its back, goes on to. */
static int catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < 2; i++) {
        struct sigaction was;
        if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaddset(&set, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The signal that came; 0: none. */
static int signal_of(int signals) {
    struct signalfd_siginfo info;
    return read(signals, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

/* Until it has said "ready", or a signal came; false: it ended, or took too long. */
static bool await_ready(constellation_process *p, int signals, sky_time until) {
    char line[8] = {0};
    struct pollfd fds[] = {{.fd = p->ready, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    sky_time left = until - sky_now();
    if (poll(fds, 2, left > 0 ? (int)(left / 1000000) : 0) < 1 || fds[1].revents)
        return false;
    bool ready = read(p->ready, line, sizeof line - 1) > 0 && strncmp(line, "ready", 5) == 0;
    close(p->ready);
    p->ready = -1;
    return ready;
}

/* A pipe for each satellite stays open until all are ready: as many as the administrator allows. */
static void raise_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static uint64_t memory_of(const constellation *x) {
    uint64_t sum = 0;
    for (size_t i = 0; i < x->process_count; i++)
        sum += x->processes[i].running ? x->processes[i].memory_bytes : 0;
    return sum;
}

static int say_up(const cli *c, const constellation *x, uint32_t started, double ms) {
    uint32_t running = constellation_running(x);
    char memory[24], run[64];
    if (c->json)
        return cli_json_print(
            c, json_pack("{s:o, s:I, s:I, s:I, s:I, s:f}", "scenario", cli_json_text(x->scenario),
                         "satellites", (json_int_t)x->site.satellite_count, "started",
                         (json_int_t)started, "running", (json_int_t)running, "memory_bytes",
                         (json_int_t)memory_of(x), "ready_ms", ms));
    printf("%s (%u started, %.0f ms), %s of memory together\n", running_text(x, run), started, ms,
           cli_bytes_text(memory_of(x), memory));
    return CLI_OK;
}

/* All that do not run, one after the other; a signal stops it. */
static int start_all(const cli *c, constellation *x, int signals, uint32_t *started, int *number) {
    int code = CLI_OK;
    for (uint32_t i = 0; i < x->site.satellite_count && code == CLI_OK && *number == 0; i++) {
        sky_satellite s = constellation_satellite(x, i);
        if (constellation_find(x, s))
            continue;
        code = constellation_start(c, x, s);
        *started += code == CLI_OK;
        *number = signal_of(signals);
    }
    return code;
}

/* How many did not come up; `one` is the first of them. */
static uint32_t await_all(constellation *x, int signals, sky_time until, sky_satellite *one,
                          int *number) {
    uint32_t silent = 0;
    for (size_t i = 0; i < x->process_count && *number == 0; i++) {
        constellation_process *p = &x->processes[i];
        if (p->ready < 0 || await_ready(p, signals, until))
            continue;
        *number = signal_of(signals);
        if (silent++ == 0)
            *one = p->satellite;
    }
    return silent;
}

static int end_interrupted(const cli *c, constellation *x, uint32_t started, int number) {
    constellation_end(x, true);
    cli_failed(c, "%s: ended the %u satellite%s that this call had started",
               number == SIGINT ? "interrupted" : "terminated", started, cli_plural(started));
    return 128 + number;
}

static int not_up(const cli *c, const constellation *x, uint32_t count, sky_satellite one) {
    char words[CONSTELLATION_WORDS_BYTES];
    constellation_last_words(x, one, words);
    if (count == 1)
        return cli_failed(c, "satellite %u,%u did not come up%s; see %s", one.plane, one.slot,
                          words, x->log_path);
    return cli_failed(c, "%u satellites did not come up, such as %u,%u%s; see %s", count, one.plane,
                      one.slot, words, x->log_path);
}

static int start_and_wait(const cli *c, constellation *x, int signals) {
    sky_time began = sky_now();
    uint32_t started = 0;
    int number = 0;
    sky_satellite one = {0, 0};
    int code = start_all(c, x, signals, &started, &number);
    uint32_t silent = await_all(x, signals, began + READY_NS, &one, &number);
    double ms = cli_ms(sky_now() - began);
    constellation_look(x);
    constellation_measure(x);
    if (number != 0)
        return end_interrupted(c, x, started, number);
    if (code == CLI_OK && silent > 0)
        return not_up(c, x, silent, one);
    return code == CLI_OK ? say_up(c, x, started, ms) : code;
}

static int run_up(cli *c, constellation *x) {
    struct stat log;
    int code = constellation_site(c, x);
    if (code == CLI_OK)
        code = make_keys(c, x);
    if (code != CLI_OK)
        return code;
    const char *changed = constellation_changed(x);
    if (changed)
        return cli_failed(c,
                          "satellites that were started before %s was changed still run (%u): "
                          "'skymem constellation down %s' first",
                          changed, constellation_running(x), c->arguments[1]);
    if (constellation_running(x) == 0)
        code = constellation_begin(c, x);
    if (code != CLI_OK)
        return code;
    x->log_from = stat(x->log_path, &log) == 0 ? (long)log.st_size : 0;
    raise_descriptors();
    int signals = catch_signals();
    if (signals < 0)
        return cli_failed(c, "signalfd: %s", strerror(errno));
    code = start_and_wait(c, x, signals);
    close(signals);
    return code;
}

/* Where none is remembered: do some run all the same? They are not ended, as somebody else may have
 * started them. */
static int check_unrecorded(const cli *c, const constellation *x) {
    pid_t one = 0;
    char text[CLI_COUNT_TEXT_BYTES];
    uint32_t count = constellation_count_all(x, &one);
    if (count == 0)
        return CLI_OK;
    return cli_failed(c,
                      "%s for %s without a record in %s, such as process %d: \"pkill -f -- "
                      "'--scenario %s$'\" ends %s",
                      cli_count_text(count, "satellite runs", "satellites run", text), x->scenario,
                      x->state_path, (int)one, x->scenario, count == 1 ? "it" : "them");
}

/* ---- status ---- */

/* It runs, and did not answer when it was asked. */
static bool is_slow(const constellation_process *p, const sky_satellite_stat *s,
                    const char *changed) {
    return p && p->running && !s->answered && !changed;
}

static json_t *satellite_json(const constellation_process *p, const sky_satellite_stat *s,
                              const char *changed) {
    return json_pack(
        "{s:I, s:I, s:I, s:b, s:b, s:b, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:f}",
        "plane", (json_int_t)s->satellite.plane, "slot", (json_int_t)s->satellite.slot, "pid",
        (json_int_t)p->pid, "running", p->running, "answered", s->answered, "slow",
        is_slow(p, s, changed), "ms", s->answered ? s->ms : 0.0, "chunks", (json_int_t)s->chunks,
        "chunks_max", (json_int_t)s->chunks_max, "gets", (json_int_t)s->gets, "migrated",
        (json_int_t)s->migrated, "malformed", (json_int_t)s->malformed, "foreign",
        (json_int_t)s->foreign, "stale", (json_int_t)s->stale, "replayed", (json_int_t)s->replayed,
        "forged", (json_int_t)s->forged, "memory_bytes",
        (json_int_t)(p->running ? p->memory_bytes : 0), "cpu_s", p->running ? p->cpu_s : 0.0);
}

/* `changed`: since they were started; NULL: nothing. */
static int say_status(const cli *c, const constellation *x, const sky_satellite_stat *stats,
                      size_t count, const char *changed) {
    static const constellation_process none = {.pid = 0};
    uint64_t chunks = 0, migrated = 0, refused = 0;
    uint32_t answered = 0, slow = 0;
    double cpu_s = 0;
    char memory[24], run[64], answer[CLI_COUNT_TEXT_BYTES];
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const constellation_process *p = constellation_find(x, stats[i].satellite);
        answered += stats[i].answered;
        slow += is_slow(p, &stats[i], changed);
        chunks += stats[i].chunks;
        migrated += stats[i].migrated;
        refused += stats[i].foreign + stats[i].stale + stats[i].replayed + stats[i].forged;
        cpu_s += p ? p->cpu_s : 0;
        json_array_append_new(list, satellite_json(p ? p : &none, &stats[i], changed));
    }
    uint32_t running = constellation_running(x);
    if (c->json)
        return cli_json_print(
            c,
            json_pack("{s:o, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "scenario",
                      cli_json_text(x->scenario), "satellites", (json_int_t)x->site.satellite_count,
                      "running", (json_int_t)running, "changed", changed != NULL, "answered",
                      (json_int_t)answered, "slow", (json_int_t)slow, "chunks", (json_int_t)chunks,
                      "migrated", (json_int_t)migrated, "refused_datagrams", (json_int_t)refused,
                      "memory_bytes", (json_int_t)memory_of(x), "cpu_s", cpu_s, "list", list));
    json_decref(list);
    if (changed) {
        printf("satellites that were started before %s was %s still run (%u): 'skymem "
               "constellation down %s' ends them\n",
               changed, x->gone ? "removed" : "changed", running, c->arguments[1]);
        return CLI_OK;
    }
    char late[32] = "";
    if (slow > 0)
        snprintf(late, sizeof late, ", %u %s slow", slow, slow == 1 ? "is" : "are");
    printf("%s, %s%s; %llu chunk%s held, %llu migrated; %llu datagram%s refused; %s of memory and "
           "%.2f s of processor time together\n",
           running_text(x, run), cli_count_text(answered, "answers", "answer", answer), late,
           (unsigned long long)chunks, cli_plural(chunks), (unsigned long long)migrated,
           (unsigned long long)refused, cli_plural(refused), cli_bytes_text(memory_of(x), memory),
           cpu_s);
    return CLI_OK;
}

/* Names some of those that do not run, where others do. */
static void note_missing(const cli *c, const constellation *x) {
    char names[160] = "";
    uint32_t missing = x->site.satellite_count - constellation_running(x);
    if (missing == 0 || missing == x->site.satellite_count)
        return;
    for (uint32_t i = 0, named = 0; i < x->site.satellite_count && named < NAMED_MAX; i++) {
        sky_satellite s = constellation_satellite(x, i);
        const constellation_process *p = constellation_find(x, s);
        size_t used = strlen(names);
        if (p)
            continue;
        snprintf(names + used, sizeof names - used, "%s%u,%u", named++ ? " " : "", s.plane, s.slot);
    }
    cli_note(c, "%s%s %s not run; 'skymem constellation up %s' starts %s", names,
             missing > NAMED_MAX ? " and others" : "", missing == 1 ? "does" : "do",
             c->arguments[1], missing == 1 ? "it" : "them");
}

static int ask_satellites(cli *c, const constellation *x) {
    sky_satellite_stat *stats = calloc(x->site.satellite_count, sizeof *stats);
    sky_satellite_stat *asked = calloc(x->site.satellite_count, sizeof *asked);
    uint32_t count = 0;
    int code = CLI_FAILED;
    sky_error error;
    sky_time until = sky_now() + (sky_time)(cli_number(c, "timeout") * 1e9);
    if (!stats || !asked) {
        cli_failed(c, "out of memory");
        goto cleanup;
    }
    for (uint32_t i = 0; i < x->site.satellite_count; i++) {
        stats[i].satellite = constellation_satellite(x, i);
        if (constellation_find(x, stats[i].satellite))
            asked[count++].satellite = stats[i].satellite;
    }
    if (count > 0 && sky_satellite_ask(x->scenario, asked, count, until, &error) != SKY_OK) {
        cli_failed(c, "%s", error.text);
        goto cleanup;
    }
    for (uint32_t i = 0; i < count; i++) {
        sky_satellite s = asked[i].satellite;
        stats[(s.plane - 1) * x->site.slots + s.slot - 1] = asked[i];
    }
    code = say_status(c, x, stats, x->site.satellite_count, NULL);
    note_missing(c, x);
cleanup:
    free(stats);
    free(asked);
    return code;
}

/* Started from other files than those there are: who is where, and under which key, is not to be
 * known from these, so nobody is asked. */
static int list_only(const cli *c, const constellation *x, const char *changed) {
    sky_satellite_stat *stats = calloc(x->process_count, sizeof *stats);
    if (!stats)
        return cli_failed(c, "out of memory");
    for (size_t i = 0; i < x->process_count; i++)
        stats[i].satellite = x->processes[i].satellite;
    int code = say_status(c, x, stats, x->process_count, changed);
    free(stats);
    return code;
}

static int run_status(cli *c, constellation *x) {
    if (constellation_running(x) == 0) {
        constellation_note_others(c, x);
        if (check_unrecorded(c, x) != CLI_OK)
            return CLI_FAILED;
    }
    constellation_measure(x);
    if (x->gone && constellation_running(x) > 0)
        return list_only(c, x, x->scenario);
    int code = constellation_site(c, x);
    if (code != CLI_OK)
        return code;
    const char *changed = constellation_changed(x);
    code = changed ? list_only(c, x, changed) : ask_satellites(c, x);
    if (code != CLI_OK || constellation_running(x) > 0)
        return code;
    return cli_failed(c, "no satellite of %s runs here; 'skymem constellation up %s' starts them",
                      x->scenario, c->arguments[1]);
}

/* ---- down ---- */

static int run_down(cli *c, constellation *x) {
    uint32_t before = constellation_running(x);
    if (before == 0) {
        constellation_note_others(c, x);
        if (check_unrecorded(c, x) != CLI_OK)
            return CLI_FAILED;
    }
    if (before == 0 && x->gone)
        return cli_failed(c, "%s: %s", c->arguments[1], strerror(ENOENT));
    uint32_t killed = constellation_end(x, false);
    uint32_t left = constellation_running(x);
    if (left > 0)
        return cli_failed(c, "%u of %u satellite%s cannot be ended, even by force", left, before,
                          cli_plural(before));
    unlink(x->log_path);
    if (c->json)
        return cli_json_print(c, json_pack("{s:o, s:I, s:I}", "scenario",
                                           cli_json_text(x->scenario), "stopped",
                                           (json_int_t)before, "killed", (json_int_t)killed));
    printf("%u satellite%s stopped%s\n", before, cli_plural(before),
           killed ? ", some by force" : "");
    return CLI_OK;
}

/* ---- the verb ---- */

static int constellation_run(cli *c) {
    static const struct {
        const char *name;
        int (*run)(cli *c, constellation *x);
    } actions[] = {{"up", run_up}, {"status", run_status}, {"down", run_down}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(c->arguments[0], actions[i].name) != 0)
            continue;
        constellation x;
        bool starts = actions[i].run == run_up;
        int code = starts ? cli_scenario_own(c, 1) : cli_scenario_argument(c, 1);
        if (code != CLI_OK)
            return code;
        code = constellation_open(c, c->arguments[1], starts, &x);
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
    .words = "up|status|down",
    .about =
        "up starts every satellite of the scenario as a process of its own, on UDP ports "
        "of this host, and waits until all listen. status asks those that run how they "
        "are. down stops them.\n"
        "The ports are those of the scenario's udp section. up restarts a satellite that "
        "died; it is then empty. Key files that are missing are made with mode 0600. The "
        "satellites read the constellation's key; the tenant's stays on the ground. Keys are "
        "made in the scenario's folder. A scenario that is installed and found by name is first "
        "copied to $XDG_DATA_HOME/skymem/scenarios, even by a user who may write to its folder; "
        "every verb then uses the copy. A scenario given by its path is never copied.\n"
        "down stops all that were started for the file, even if the file has changed or is "
        "gone. up adds nothing to satellites that were started before the file or its key "
        "changed. If up is interrupted, it stops the satellites it started and exits with "
        "128 + the signal number.\n"
        "What runs is recorded in $XDG_RUNTIME_DIR/skymem, or in /tmp/skymem-UID/ where "
        "that is not set. Shells with different values do not see each other's satellites. "
        "Only recorded processes get a signal. Where none is recorded, status and down name "
        "those that run all the same, such as after the record was removed, and fail. "
        "--store sky+udp:SCENARIO is the ground "
        "station for them.",
    .options = (const cli_option[]){{.name = "timeout",
                                     .kind = CLI_NUMBER,
                                     .value = "S",
                                     .fallback = TIMEOUT_S,
                                     .max = 3600,
                                     .help = "status: seconds until a satellite that runs and does "
                                             "not answer is called slow"},
                                    {.name = NULL}},
    .arguments_min = 2,
    .arguments_max = 2,
    .examples = (const cli_example[]){{"skymem constellation up constellation",
                                       "95 satellites listen"},
                                      {"echo hello | skymem put k --store sky+udp:constellation",
                                       "a value in orbit"},
                                      {"skymem constellation status constellation --json",
                                       "how each of them is"},
                                      {"skymem constellation down constellation", "all end"},
                                      {NULL, NULL}},
    .fields =
        (const cli_field[]){
            {"scenario", "its file"},
            {"satellites", "up, status: that the scenario has"},
            {"started", "up: by this call"},
            {"running", "up, status: processes there are"},
            {"ready_ms", "up: until all listened"},
            {"memory_bytes", "up, status: of all together, shared pages counted once"},
            {"changed", "status: they were started before the file or its key was changed, or it "
                        "is gone; then none is asked and list has those that run"},
            {"answered", "status: that answered in time"},
            {"slow", "status: that run and did not answer in time"},
            {"chunks", "status: held by all"},
            {"migrated", "status: chunks handed on as the sky turned"},
            {"cpu_s", "status: processor time so far"},
            {"refused_datagrams", "status: that satellites did not take, for any of the reasons in "
                                  "list"},
            {"list",
             "status: {plane slot pid running answered slow ms chunks chunks_max gets migrated "
             "malformed foreign stale replayed forged memory_bytes cpu_s} of each: foreign "
             "to forged are datagrams that were not of this sky, too old, seen before, or "
             "under a wrong tag"},
            {"stopped", "down: that ran"},
            {"killed", "down: that did not end by themselves"},
            {NULL, NULL}},
    .failed = "up: a satellite did not come up, or those that run were started before the file was "
              "changed or have no record; down: one does not end; status: none runs; or a file "
              "cannot be written",
    .run = constellation_run,
};
