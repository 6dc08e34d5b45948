/* skymemd: the host daemon. In this version it keeps a hierarchy open and answers who connects
 * to its socket with one line of JSON, its counters; it does not yet lend memory to other
 * processes, serve keys or listen on a network. With --satellite it is something else: satellite.c.
 *
 * One thread; poll over the socket and a signalfd. A client that does not read is let go after a
 * second, and nothing is ever read from it. */
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

#define FLUSH_S    10
#define SEND_S     1      /* a client may take so long to read its answer */
#define TEXT_BYTES 65536u /* for Prometheus, to begin with */

typedef struct {
    const char *socket_path;
    const char *urls[SKY_TIERS_MAX];
    char expanded[SKY_TIERS_MAX][4096]; /* those that began with ~/ */
    size_t url_count;
    const char *satellite, *scenario_path, *state_path;
    sky_cache *cache;
    int listener;
    int signals;
    bool bound;
    struct stat socket_file; /* as it was bound */
    uint64_t clients;        /* answered so far */
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
    "      its counters; with --prometheus as Prometheus's text, for a textfile collector\n"
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
    h->bound = h->bound && lstat(h->socket_path, &h->socket_file) == 0;
    if (h->bound && listen(h->listener, 64) == 0)
        return DONE;
    struct stat st;
    if (failure == EADDRINUSE && lstat(h->socket_path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return daemon_say(FAILED, h->socket_path, "is there and is no socket; name another path");
    return daemon_say(FAILED, h->socket_path,
                      failure == EADDRINUSE ? "in use; is another skymemd running?"
                                            : strerror(failure));
}

/* Remove the socket's file, unless another file or another daemon's socket is there by now. */
static void unbind(const host *h) {
    struct stat st;
    if (h->bound && lstat(h->socket_path, &st) == 0 && st.st_dev == h->socket_file.st_dev &&
        st.st_ino == h->socket_file.st_ino)
        unlink(h->socket_path);
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

static json_t *tier_json(host *h, size_t tier) {
    sky_tier_stat s = {0};
    char url[4 * sizeof s.url], note[4 * sizeof s.note]; /* the URL may be cut in a character */
    sky_cache_stat(h->cache, tier, &s);
    sky_text_escape(s.url, strlen(s.url), true, url, sizeof url);
    sky_text_escape(s.note, strlen(s.note), true, note, sizeof note);
    return json_pack("{s:s, s:b, s:s}", "url", url, "failing", s.failing, "note", note);
}

/* All numbers as text; NULL: there is no memory. */
static char *prometheus_text(host *h) {
    size_t room = TEXT_BYTES, bytes;
    char *text = NULL;
    do {
        free(text);
        text = malloc(room);
        bytes = 0;
        if (!text)
            return NULL;
        if (sky_cache_prometheus(h->cache, text, room, &bytes) == SKY_OK)
            return text;
        room = bytes + TEXT_BYTES;
    } while (bytes > 0);
    free(text);
    return NULL;
}

static uint64_t sum(host *h, sky_metric_id metric) {
    uint64_t all = 0;
    for (size_t i = 0; i < sky_tier_count(h->cache); i++)
        all += sky_cache_metric(h->cache, i, metric);
    return all;
}

/* The nearest tier stands for the arena until there is one. */
static json_t *stat_json(host *h) {
    numbers n = {.cache = json_object()};
    json_t *tiers = json_array();
    for (size_t i = 0; i < sky_tier_count(h->cache); i++) {
        n.tiers[i] = tier_json(h, i);
        json_array_append_new(tiers, n.tiers[i]);
    }
    (void)sky_cache_metrics(h->cache, add_number, &n);
    char *text = prometheus_text(h);
    json_t *object = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s?}", "clients",
        (json_int_t)h->clients, "leases",
        (json_int_t)sky_cache_metric(h->cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES), "entries",
        (json_int_t)sum(h, SKY_METRIC_TIER_ENTRIES), "arena_bytes_used",
        (json_int_t)sky_cache_metric(h->cache, 0, SKY_METRIC_TIER_BYTES_USED), "arena_bytes_max",
        (json_int_t)sky_cache_metric(h->cache, 0, SKY_METRIC_TIER_BYTES_MAX), "hits",
        (json_int_t)sky_cache_metric(h->cache, SKY_TIER_NONE, SKY_METRIC_CACHE_HITS), "misses",
        (json_int_t)sky_cache_metric(h->cache, SKY_TIER_NONE, SKY_METRIC_CACHE_MISSES), "corrupt",
        (json_int_t)sum(h, SKY_METRIC_TIER_CORRUPT), "cache", n.cache, "tiers", tiers, "prometheus",
        text);
    free(text);
    return object;
}

/* A client that left early is everyday: told to who asks for everything. */
static void say_unsent(int failure) {
    const char *log = getenv("SKYMEM_LOG");
    if ((failure != EPIPE && failure != ECONNRESET) || (log && strncmp(log, "debug", 5) == 0))
        daemon_say(FAILED, "a client", strerror(failure));
}

/* Within SEND_S for each buffer full; errno tells why not. */
static int send_all(int client, const char *bytes, size_t left) {
    while (left > 0) {
        ssize_t sent = send(client, bytes, left, MSG_NOSIGNAL);
        if (sent <= 0)
            return -1;
        bytes += sent;
        left -= (size_t)sent;
    }
    return 0;
}

static void answer(host *h) {
    const struct timeval patience = {.tv_sec = SEND_S};
    int client = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    h->clients++;
    json_t *object = stat_json(h);
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (line) {
        size_t bytes = strlen(line);
        line[bytes] = '\n'; /* in place of the terminator: sent with its length */
        if (send_all(client, line, bytes + 1) != 0)
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
    unbind(&h);
    if (h.listener >= 0)
        close(h.listener);
    if (h.signals >= 0)
        close(h.signals);
    return code;
}
