/* skymemd: the host daemon: a command line around sky_host_run, and its counters as JSON. With
 * --satellite it is something else: satellite.c. */
#include "daemon.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include <skymem-sky/skies.h>
#include <skymem/skymem.h>

#define ARENA_URL  "mem:256MiB"
#define TEXT_BYTES 65536u /* for Prometheus, to begin with */

typedef struct {
    const char *socket_path;
    const char *urls[SKY_TIERS_MAX + 1];    /* the arena's place is first, then as given */
    char expanded[SKY_TIERS_MAX + 1][4096]; /* those that began with ~/ */
    size_t url_count;
    const char *satellite, *scenario_path, *state_path;
} host;

static const char usage_text[] =
    "skymemd: one SkyMemory cache for all processes of a user on this host\n\n"
    "  skymemd --socket PATH [--store URL]...\n"
    "  skymemd --satellite PLANE,SLOT --scenario FILE [--state FILE]\n\n"
    "Examples\n"
    "  $ skymemd --socket /run/skymemd.sock --store mem:1GiB --store "
    "disk:/var/cache/skymem?max=50GiB\n"
    "      stays in the foreground and prints \"ready\"; SIGTERM writes out what is queued and "
    "ends it\n"
    "  $ skymem put greeting hello.txt --store shm:/run/skymemd.sock\n"
    "      any program of the user reads and writes it, in shared memory\n"
    "  $ skymem stat --store shm:/run/skymemd.sock --json\n"
    "      its counters; with --prometheus as Prometheus's text, for a textfile collector\n"
    "  $ skymemd --satellite 3,4 --scenario scenarios/constellation.yaml\n"
    "      one satellite on a UDP socket; skymem constellation up runs a whole set\n\n"
    "Options\n"
    "  --socket PATH   where to listen; only processes of the same user are served\n"
    "  --store URL     a tier, repeated from nearest to farthest. The first is mem:SIZE, the\n"
    "                  arena that clients are shown; without it mem:256MiB is put before\n"
    "  --satellite P,S be satellite S of plane P: keep chunks, answer over UDP\n"
    "  --scenario FILE its constellation, address and key\n"
    "  --state FILE    keep there up to when it took messages, so that none counts again after a\n"
    "                  restart with a clock that was set back\n"
    "  --version       print the version\n"
    "  -h, --help      this page\n\n"
    "Not in this version: --listen, --resp, --http.\n\n"
    "Exit status: 0 after SIGTERM or SIGINT; 1 it failed; 2 the command line is wrong.\n";

int daemon_say(int code, const char *what, const char *why) {
    char *text = NULL, *shown = NULL;
    int bytes = asprintf(&text, "%s: %s", what, why);
    if (bytes >= 0 && (shown = malloc(4 * (size_t)bytes + 1)))
        sky_text_escape(text, (size_t)bytes, false, shown, 4 * (size_t)bytes + 1);
    fprintf(stderr, "skymemd: %s%s\n", shown ? shown : "out of memory",
            code == USAGE ? "; see skymemd --help" : "");
    free(shown);
    if (bytes >= 0)
        free(text);
    return code;
}

/* ---- command line ---- */

/* What getopt_long stopped at: a long word, which it has stepped past, or a letter. */
static const char *wrong_word(char **argv) {
    static char letter[] = "-?";
    letter[1] = (char)optopt;
    return optopt == 0 || optopt == 'h' || optopt > 255 ? argv[optind - 1] : letter;
}

/* A path that begins with ~/, in a URL, is in the home folder, as for skymem. */
static bool expand_home(host *h, size_t i) {
    const char *url = h->urls[i], *home = getenv("HOME"), *tilde = strstr(url, ":~/");
    if (!tilde)
        return true;
    int bytes = home && home[0] == '/' ? snprintf(h->expanded[i], sizeof h->expanded[i], "%.*s%s%s",
                                                  (int)(tilde + 1 - url), url, home, tilde + 2)
                                       : -1;
    if (bytes < 0 || (size_t)bytes >= sizeof h->expanded[i])
        return false;
    h->urls[i] = h->expanded[i];
    return true;
}

static int parse(host *h, int argc, char **argv, bool *finished) {
    enum { HELP = 'h', SOCKET = 256, STORE, VERSION, LATER, SATELLITE, SCENARIO, STATE };
    static const struct option options[] = {{"socket", required_argument, NULL, SOCKET},
                                            {"store", required_argument, NULL, STORE},
                                            {"help", no_argument, NULL, HELP},
                                            {"version", no_argument, NULL, VERSION},
                                            {"listen", required_argument, NULL, LATER},
                                            {"peer-key", required_argument, NULL, LATER},
                                            {"resp", required_argument, NULL, LATER},
                                            {"http", required_argument, NULL, LATER},
                                            {"config", required_argument, NULL, LATER},
                                            {"satellite", required_argument, NULL, SATELLITE},
                                            {"scenario", required_argument, NULL, SCENARIO},
                                            {"state", required_argument, NULL, STATE},
                                            {NULL, 0, NULL, 0}};
    int which = 0;
    opterr = 0; /* what is wrong is told below, in our words */
    for (int c; (c = getopt_long(argc, argv, ":h", options, &which)) != -1;) {
        if (c == HELP || c == VERSION) {
            if (c == HELP)
                fputs(usage_text, stdout);
            else
                printf("skymemd %s\n", sky_version());
            *finished = true;
            return DONE;
        }
        if (c == LATER)
            return daemon_say(USAGE, options[which].name, "not in this version");
        if (c == ':')
            return daemon_say(USAGE, argv[optind - 1], "needs a value");
        if (c == '?')
            return daemon_say(USAGE, wrong_word(argv), "no such option");
        if (c == SOCKET)
            h->socket_path = optarg;
        else if (c == SATELLITE)
            h->satellite = optarg;
        else if (c == SCENARIO)
            h->scenario_path = optarg;
        else if (c == STATE)
            h->state_path = optarg;
        else if (h->url_count == SKY_TIERS_MAX)
            return daemon_say(USAGE, "--store", "at most 8 tiers");
        else
            h->urls[++h->url_count] = optarg;
    }
    if (optind < argc)
        return daemon_say(USAGE, argv[optind], "no such argument");
    for (size_t i = 1; i <= h->url_count; i++)
        if (!expand_home(h, i))
            return daemon_say(USAGE, h->urls[i], "too long, or there is no HOME for ~/");
    if (h->satellite && (h->socket_path || h->url_count > 0))
        return daemon_say(USAGE, "--satellite", "has no socket and no stores of its own");
    if (h->satellite)
        return DONE;
    if (h->scenario_path || h->state_path)
        return daemon_say(USAGE, h->scenario_path ? "--scenario" : "--state",
                          "goes with --satellite PLANE,SLOT");
    if (!h->socket_path)
        return daemon_say(USAGE, "--socket", "is missing");
    return DONE;
}

/* ---- signals ---- */

int daemon_catch_signals(int *fd) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    *fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *fd >= 0 ? DONE : daemon_say(FAILED, "signalfd", strerror(errno));
}

void daemon_notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, bytes);
    close(fd);
}

void daemon_ready(void) {
    puts("ready");
    fflush(stdout);
    daemon_notify("READY=1");
}

/* ---- counters ---- */

typedef struct {
    json_t *cache;
    json_t *tiers[SKY_TIERS_MAX];
} numbers;

static bool add_number(void *context, const sky_metric_sample *s) {
    const numbers *n = context;
    bool whole = s->tier == SKY_TIER_NONE;
    if (!s->histogram && (whole || strcmp(s->metric->group, "tier") == 0))
        json_object_set_new(whole ? n->cache : n->tiers[s->tier], s->metric->field,
                            json_integer((json_int_t)s->number));
    return true;
}

static json_t *tier_json(sky_cache *cache, size_t tier) {
    sky_tier_stat s = {0};
    char url[4 * sizeof s.url], note[4 * sizeof s.note]; /* the URL may be cut in a character */
    sky_cache_stat(cache, tier, &s);
    sky_text_escape(s.url, strlen(s.url), true, url, sizeof url);
    sky_text_escape(s.note, strlen(s.note), true, note, sizeof note);
    return json_pack("{s:s, s:b, s:s}", "url", url, "failing", s.failing, "note", note);
}

/* All numbers as text; NULL: there is no memory. */
static char *prometheus_text(sky_cache *cache) {
    size_t room = TEXT_BYTES, bytes;
    char *text = NULL;
    do {
        free(text);
        text = malloc(room);
        bytes = 0;
        if (!text)
            return NULL;
        if (sky_cache_prometheus(cache, text, room, &bytes) == SKY_OK)
            return text;
        room = bytes + TEXT_BYTES;
    } while (bytes > 0);
    free(text);
    return NULL;
}

static uint64_t sum(sky_cache *cache, sky_metric_id metric) {
    uint64_t all = 0;
    for (size_t i = 0; i < sky_tier_count(cache); i++)
        all += sky_cache_metric(cache, i, metric);
    return all;
}

static void add(json_t *object, const char *name, uint64_t number) {
    json_object_set_new(object, name, json_integer((json_int_t)number));
}

static json_t *stat_json(sky_cache *cache, const sky_host_stat *stat) {
    json_t *o = json_object();
    add(o, "clients", stat->clients);
    add(o, "connections", stat->connections);
    add(o, "refused", stat->refused);
    add(o, "disconnected", stat->disconnected);
    add(o, "leases", sky_cache_metric(cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES));
    add(o, "entries", sum(cache, SKY_METRIC_TIER_ENTRIES));
    add(o, "arena_bytes_used", sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_USED));
    add(o, "arena_bytes_max", sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_MAX));
    add(o, "arena_bytes_committed", stat->committed_bytes);
    add(o, "hits", stat->hits);
    add(o, "misses", stat->misses);
    add(o, "corrupt", sum(cache, SKY_METRIC_TIER_CORRUPT));
    return o;
}

/* What clients get as the host's counters; NULL: there is no memory. */
static char *stat_text(void *context, sky_cache *cache, const sky_host_stat *stat) {
    (void)context;
    numbers n = {.cache = json_object()};
    json_t *object = stat_json(cache, stat), *tiers = json_array();
    for (size_t i = 0; i < sky_tier_count(cache); i++) {
        n.tiers[i] = tier_json(cache, i);
        json_array_append_new(tiers, n.tiers[i]);
    }
    (void)sky_cache_metrics(cache, add_number, &n);
    char *text = prometheus_text(cache);
    json_object_set_new(object, "cache", n.cache);
    json_object_set_new(object, "tiers", tiers);
    json_object_set_new(object, "prometheus", text ? json_string(text) : json_null());
    free(text);
    text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}

/* ---- serving ---- */

static void ready(void *context) {
    (void)context;
    daemon_ready();
}

static int serve(host *h) {
    bool has_arena = h->url_count > 0 && strncmp(h->urls[1], "mem:", 4) == 0;
    h->urls[0] = ARENA_URL;
    sky_host_options options = {.struct_bytes = sizeof options,
                                .socket_path = h->socket_path,
                                .urls = has_arena ? h->urls + 1 : h->urls,
                                .url_count = h->url_count + !has_arena,
                                .ready = ready,
                                .text = stat_text,
                                .context = h};
    sky_error error = {0};
    int code = daemon_catch_signals(&options.stop_fd); /* before any thread, to be inherited */
    if (code != DONE)
        return code;
    sky_status status = sky_host_run(&options, &error);
    daemon_notify("STOPPING=1");
    close(options.stop_fd);
    if (status == SKY_OK)
        return DONE;
    bool usage = status == SKY_E_SYNTAX || status == SKY_E_PARAM || status == SKY_E_UNSUPPORTED;
    return daemon_say(usage ? USAGE : FAILED, status == SKY_E_DEADLINE ? "stopping" : "serving",
                      error.text[0] ? error.text : sky_status_text(status));
}

int main(int argc, char **argv) {
    host h = {0};
    bool finished = false;
    prctl(PR_SET_DUMPABLE, 0); /* keys and prompts: no core dump, no other process looks in */
    int code = parse(&h, argc, argv, &finished);
    if (code != DONE || finished)
        return code;
    return h.satellite ? satellite_main(h.satellite, h.scenario_path, h.state_path) : serve(&h);
}
