/* skymemd: the host daemon. In this version it keeps a hierarchy open and answers who connects
 * to its socket with one line of JSON, its counters; it does not yet lend memory to other
 * processes, serve keys or listen on a network. With --satellite it is something else: satellite.c.
 *
 * One thread; poll over the socket and a signalfd. A client that does not read is let go: the
 * answer fits a socket's buffer, and nothing is ever read from it. */
#include "daemon.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include <skymem-sky/skies.h>
#include <skymem/skymem.h>

#define FLUSH_S 10

typedef struct {
    const char *socket_path;
    const char *urls[SKY_TIERS_MAX];
    size_t url_count;
    const char *satellite, *scenario_path, *state_path;
    sky_cache *cache;
    int listener;
    int signals;
    bool bound;
    uint64_t clients; /* answered so far */
} host;

static const char usage_text[] =
    "skymemd: keep a SkyMemory hierarchy open on this host\n\n"
    "  skymemd --socket PATH [--store URL]...\n"
    "  skymemd --satellite PLANE,SLOT --scenario FILE [--state FILE]\n\n"
    "Examples\n"
    "  $ skymemd --socket /run/skymemd.sock --store mem:1GiB --store "
    "disk:/var/cache/skymem?max=50GiB\n"
    "      stays in the foreground and prints \"ready\"; SIGTERM writes out what is queued and "
    "ends it\n"
    "  $ skymem stat --store shm:/run/skymemd.sock --json\n"
    "      its counters\n"
    "  $ skymemd --satellite 3,4 --scenario scenarios/constellation.yaml\n"
    "      one satellite on a UDP socket; skymem constellation up runs a whole set\n\n"
    "Options\n"
    "  --socket PATH   where to listen; answers each connection with one line of JSON\n"
    "  --store URL     a tier, repeated from nearest to farthest (default: mem:256MiB)\n"
    "  --satellite P,S be satellite S of plane P: keep chunks, answer over UDP\n"
    "  --scenario FILE its constellation, address and key\n"
    "  --state FILE    keep there up to when it took messages, so that none counts again after a\n"
    "                  restart with a clock that was set back\n"
    "  --version       print the version\n"
    "  -h, --help      this page\n\n"
    "Not in this version: serving keys and leases to other processes, --arena, --listen, --resp,\n"
    "--http.\n\n"
    "Exit status: 0 after SIGTERM or SIGINT; 1 it failed; 2 the command line is wrong.\n";

int daemon_say(int code, const char *what, const char *why) {
    fprintf(stderr, "skymemd: %s: %s%s\n", what, why, code == USAGE ? "; see skymemd --help" : "");
    return code;
}

/* ---- command line ---- */

/* What getopt_long stopped at: a long word, which it has stepped past, or a letter. */
static const char *wrong_word(char **argv) {
    static char letter[] = "-?";
    letter[1] = (char)optopt;
    return optopt == 0 || optopt == 'h' || optopt > 255 ? argv[optind - 1] : letter;
}

static int parse(host *h, int argc, char **argv, bool *finished) {
    enum { HELP = 'h', SOCKET = 256, STORE, VERSION, LATER, SATELLITE, SCENARIO, STATE };
    static const struct option options[] = {{"socket", required_argument, NULL, SOCKET},
                                            {"store", required_argument, NULL, STORE},
                                            {"help", no_argument, NULL, HELP},
                                            {"version", no_argument, NULL, VERSION},
                                            {"arena", required_argument, NULL, LATER},
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
            h->urls[h->url_count++] = optarg;
    }
    if (optind < argc)
        return daemon_say(USAGE, argv[optind], "no such argument");
    for (size_t i = 0; i < h->url_count; i++)
        if (strstr(h->urls[i], ":~"))
            return daemon_say(USAGE, h->urls[i], "~ is not the home folder here; write it out");
    if (h->satellite && (h->socket_path || h->url_count > 0))
        return daemon_say(USAGE, "--satellite", "has no socket and no stores of its own");
    if (h->satellite)
        return DONE;
    if (h->scenario_path || h->state_path)
        return daemon_say(USAGE, h->scenario_path ? "--scenario" : "--state",
                          "goes with --satellite PLANE,SLOT");
    if (!h->socket_path)
        return daemon_say(USAGE, "--socket", "is missing");
    if (h->url_count == 0)
        h->urls[h->url_count++] = "mem:256MiB";
    return DONE;
}

/* ---- socket ---- */

/* A socket file without a listener is what a killed daemon left; anything else stays. */
static bool is_stale(const struct sockaddr_un *address) {
    struct stat st;
    if (lstat(address->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static int listen_on(host *h) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(h->socket_path) >= sizeof address.sun_path)
        return daemon_say(USAGE, h->socket_path, "a socket's path has at most 107 bytes");
    strcpy(address.sun_path, h->socket_path);
    if (is_stale(&address))
        unlink(h->socket_path);
    h->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0077); /* the owner only */
    h->bound = h->listener >= 0 &&
               bind(h->listener, (const struct sockaddr *)&address, sizeof address) == 0;
    int failure = errno;
    umask(mask);
    if (h->bound && listen(h->listener, 64) == 0)
        return DONE;
    struct stat st;
    if (failure == EADDRINUSE && lstat(h->socket_path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return daemon_say(FAILED, h->socket_path, "is there and is no socket; name another path");
    return daemon_say(FAILED, h->socket_path,
                      failure == EADDRINUSE ? "in use; is another skymemd running?"
                                            : strerror(failure));
}

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

/* ---- answering ---- */

static json_t *tier_json(const sky_tier_stat *s) {
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s}", "url", s->url,
                     "entries", (json_int_t)s->entries, "bytes_used", (json_int_t)s->bytes_used,
                     "bytes_max", (json_int_t)s->bytes_max, "hits", (json_int_t)s->hits, "misses",
                     (json_int_t)s->misses, "evictions", (json_int_t)s->evictions, "corrupt",
                     (json_int_t)s->corrupt, "errors", (json_int_t)s->errors, "failing", s->failing,
                     "note", s->note);
}

/* The nearest tier stands for the arena until there is one. */
static json_t *stat_json(host *h) {
    uint64_t entries = 0, hits = 0, misses = 0, corrupt = 0, used = 0, max = 0;
    json_t *tiers = json_array();
    for (size_t i = 0; i < sky_tier_count(h->cache); i++) {
        sky_tier_stat s = {0};
        sky_cache_stat(h->cache, i, &s);
        used = i ? used : s.bytes_used;
        max = i ? max : s.bytes_max;
        entries += s.entries;
        hits += s.hits;
        misses = s.misses; /* of the farthest tier: what nobody had */
        corrupt += s.corrupt;
        json_array_append_new(tiers, tier_json(&s));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "clients",
                     (json_int_t)h->clients, "leases", (json_int_t)0, "entries",
                     (json_int_t)entries, "arena_bytes_used", (json_int_t)used, "arena_bytes_max",
                     (json_int_t)max, "hits", (json_int_t)hits, "misses", (json_int_t)misses,
                     "corrupt", (json_int_t)corrupt, "tiers", tiers);
}

/* A client that left early is everyday: told to who asks for everything. */
static void say_unsent(int failure) {
    const char *log = getenv("SKYMEM_LOG");
    if ((failure != EPIPE && failure != ECONNRESET) || (log && strncmp(log, "debug", 5) == 0))
        daemon_say(FAILED, "a client", strerror(failure));
}

static void answer(host *h) {
    int client = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0)
        return;
    h->clients++;
    json_t *object = stat_json(h);
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (line) {
        size_t bytes = strlen(line);
        line[bytes] = '\n'; /* in place of the terminator: sent with its length */
        if (send(client, line, bytes + 1, MSG_NOSIGNAL) < 0)
            say_unsent(errno);
    }
    free(line);
    json_decref(object);
    close(client);
}

static void serve(host *h) {
    struct pollfd fds[] = {{h->signals, POLLIN, 0}, {h->listener, POLLIN, 0}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        if (fds[0].revents)
            return;
        if (fds[1].revents)
            answer(h);
    }
}

static int start(host *h) {
    sky_error error = {0};
    int code = daemon_catch_signals(
        &h->signals); /* before any thread, so that all inherit the mask */
    if (code == DONE)
        code = listen_on(h);
    if (code != DONE)
        return code;
    sky_status status = sky_cache_open(h->urls, h->url_count, &h->cache, &error);
    if (status == SKY_OK)
        return DONE;
    h->cache = NULL;
    bool usage = status == SKY_E_SYNTAX || status == SKY_E_PARAM || status == SKY_E_UNSUPPORTED;
    return daemon_say(usage ? USAGE : FAILED, "--store",
                      error.text[0] ? error.text : sky_status_text(status));
}

int main(int argc, char **argv) {
    host h = {.listener = -1, .signals = -1};
    bool finished = false;
    prctl(PR_SET_DUMPABLE, 0); /* keys and prompts: no core dump, no other process looks in */
    int code = parse(&h, argc, argv, &finished);
    if (code != DONE || finished)
        return code;
    if (h.satellite)
        return satellite_main(h.satellite, h.scenario_path, h.state_path);
    code = start(&h);
    if (code == DONE) {
        daemon_ready();
        serve(&h);
        daemon_notify("STOPPING=1");
        if (sky_flush(h.cache, sky_now() + SKY_SECONDS(FLUSH_S), NULL) != SKY_OK)
            code = daemon_say(FAILED, "stopping", "not everything queued was written in 10 s");
    }
    sky_cache_close(h.cache);
    if (h.bound)
        unlink(h.socket_path);
    if (h.listener >= 0)
        close(h.listener);
    if (h.signals >= 0)
        close(h.signals);
    return code;
}
