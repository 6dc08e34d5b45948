/* skymemd: the host daemon: a command line around sky_host_run, and its counters as JSON. With
 * --satellite it is something else: satellite.c. */
#include "background.h"
#include "config.h"
#include "daemon.h"
#include "passed.h"
#include "peers.h"
#include "satellite.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <jansson.h>

#include <skymem-sky/skies.h>
#include <skymem/skymem.h>

#define TEXT_BYTES  65536u /* for Prometheus, to begin with */
#define AUTO_IDLE_S 600u   /* shm:auto without a client so long ends */

enum {
    HELP = 'h',
    SOCKET = 256,
    STORE,
    IDLE,
    CONFIG,
    CHECK,
    AUTO,
    VERSION,
    LATER,
    LISTEN,
    PEER_KEY,
    PEER_PLAIN,
    PEER_TRANSPORT,
    SATELLITE,
    SCENARIO,
    STATE
};

typedef struct {
    const char *config_path; /* NULL: none is named */
    bool check, automatic;
    daemon_config flags;                   /* what stands on the command line */
    daemon_config *config, *config_before; /* the file's, and what a reload replaced */
    const char *satellite, *scenario_path, *state_path;
    int reload_fd;
    daemon_peers peers;
    passed_descriptors passed;
} host;

static const char usage_text[] =
    "skymemd: one SkyMemory cache for all processes of a user on this host\n\n"
    "  skymemd --socket PATH [--store URL]... [--idle SECONDS]\n"
    "          [--listen ADDRESS:PORT --peer-key FILE]\n"
    "  skymemd --config FILE [--check]\n"
    "  skymemd --auto\n"
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
    "  $ skymemd --socket /run/skymemd.sock --listen 10.0.0.7:7700 --peer-key "
    "/etc/skymem/peer.key\n"
    "      other hosts with the same key open it as "
    "skymem://10.0.0.7:7700?key=/etc/skymem/peer.key\n"
    "  $ skymemd --satellite 3,4 --scenario scenarios/constellation.yaml\n"
    "      one satellite on a UDP socket; skymem constellation up runs a whole set\n\n"
    "Options\n"
    "  --socket PATH   where to listen; processes of the same user are served, and of\n"
    "                  the users that the configuration names\n"
    "  --store URL     a tier, repeated from nearest to farthest. The first is mem:SIZE, the\n"
    "                  arena that clients are shown; without it mem:256MiB is put before\n"
    "  --idle SECONDS  end when no client was there for so long; default: never\n"
    "  --config FILE   a YAML file with socket, store, idle, users and pools; options go before\n"
    "                  it. SIGHUP reads it again: users, pools and idle change then\n"
    "  --check         read the file of --config, say what is wrong, and open nothing; silence is\n"
    "                  yes\n"
    "  --auto          be the daemon of shm:auto, in the background: what programs of this user\n"
    "                  start when they first use it. Its file is skymem/skymemd.yaml in\n"
    "                  $XDG_CONFIG_HOME; its socket is skymem/skymemd.sock in\n"
    "                  $XDG_RUNTIME_DIR, or in /tmp/skymem-UID. It ends after 10 idle minutes\n"
    "  --listen [A:]P  serve other hosts too, over TCP; without an address those of this machine\n"
    "                  alone. --idle looks at programs of this machine only\n"
    "  --peer-key FILE the key that they have: 64 hexadecimal digits (openssl rand -hex 32), a "
    "file\n"
    "                  that only its owner reads (chmod 600). Repeat it to take several, such as\n"
    "                  the old one and the new one\n"
    "  --peer-plain    take connections that are neither encrypted nor authenticated\n"
    "  --peer-transport T  tcp, the default, or fabric:PROVIDER: over libfabric by the provider\n"
    "                  of that name, such as tcp or verbs (RDMA). Clients say\n"
    "                  transport=fabric&provider=PROVIDER\n"
    "  --satellite P,S be satellite S of plane P: keep chunks, answer over UDP\n"
    "  --scenario FILE its constellation, address and key\n"
    "  --state FILE    keep there up to when it took messages, so that none counts again after a\n"
    "                  restart with a clock that was set back\n"
    "  --version       print the version\n"
    "  -h, --help      this page\n\n"
    "Not in this version: --resp, --http.\n\n"
    "Exit status: 0 after SIGTERM or SIGINT; 1 it failed; 2 the command line is wrong.\n";

/* ---- command line ---- */

/* What getopt_long stopped at: a long word, which it has stepped past, or a letter. */
static const char *wrong_word(char **argv) {
    static char letter[] = "-?";
    letter[1] = (char)optopt;
    return optopt == 0 || optopt == 'h' || optopt > 255 ? argv[optind - 1] : letter;
}

static int check_words(const host *h) {
    bool serves = h->flags.socket_path || h->flags.stores.url_count > 0 || h->config_path ||
                  h->automatic || h->check || h->flags.has_idle || h->peers.options.address;
    if (h->satellite)
        return serves ? daemon_say(USAGE, "--satellite", "has no socket and no stores of its own")
                      : DONE;
    if (h->scenario_path || h->state_path)
        return daemon_say(USAGE, h->scenario_path ? "--scenario" : "--state",
                          "goes with --satellite PLANE,SLOT");
    if (h->automatic && h->flags.socket_path)
        return daemon_say(USAGE, "--auto", "has its own socket");
    return peers_check(&h->peers);
}

static int take_option(host *h, int which) {
    switch (which) {
    case SOCKET:
        free(h->flags.socket_path);
        h->flags.socket_path = config_expand_home(optarg);
        return h->flags.socket_path ? DONE : daemon_say(USAGE, optarg, "there is no HOME for ~/");
    case STORE:
        return config_add_store(&h->flags.stores, optarg, "--store", 0);
    case IDLE:
        return config_idle(&h->flags, optarg) ? DONE : daemon_say(USAGE, "--idle", CONFIG_IDLE);
    case LISTEN:
        h->peers.options.address = optarg;
        return DONE;
    case PEER_KEY:
        return peers_add_key(&h->peers, optarg);
    case PEER_PLAIN:
        h->peers.options.plain = true;
        return DONE;
    case PEER_TRANSPORT:
        h->peers.options.transport = optarg;
        return DONE;
    case CONFIG:
        h->config_path = optarg;
        return DONE;
    case CHECK:
        h->check = true;
        return DONE;
    case AUTO:
        h->automatic = true;
        return DONE;
    case SATELLITE:
        h->satellite = optarg;
        return DONE;
    case SCENARIO:
        h->scenario_path = optarg;
        return DONE;
    default:
        h->state_path = optarg;
        return DONE;
    }
}

static int parse_words(host *h, int argc, char **argv, bool *finished) {
    static const struct option options[] = {
        {"socket", required_argument, NULL, SOCKET},
        {"store", required_argument, NULL, STORE},
        {"idle", required_argument, NULL, IDLE},
        {"config", required_argument, NULL, CONFIG},
        {"check", no_argument, NULL, CHECK},
        {"auto", no_argument, NULL, AUTO},
        {"help", no_argument, NULL, HELP},
        {"version", no_argument, NULL, VERSION},
        {"listen", required_argument, NULL, LISTEN},
        {"peer-key", required_argument, NULL, PEER_KEY},
        {"peer-plain", no_argument, NULL, PEER_PLAIN},
        {"peer-transport", required_argument, NULL, PEER_TRANSPORT},
        {"resp", required_argument, NULL, LATER},
        {"http", required_argument, NULL, LATER},
        {"satellite", required_argument, NULL, SATELLITE},
        {"scenario", required_argument, NULL, SCENARIO},
        {"state", required_argument, NULL, STATE},
        {NULL, 0, NULL, 0}};
    int which = 0, code = DONE;
    opterr = 0; /* what is wrong is told below, in our words */
    for (int c; code == DONE && (c = getopt_long(argc, argv, ":h", options, &which)) != -1;) {
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
        code = take_option(h, c);
    }
    if (code == DONE && optind < argc)
        return daemon_say(USAGE, argv[optind], "no such argument");
    return code == DONE ? check_words(h) : code;
}

/* ---- signals ---- */

static int catch_reload(int *fd) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    return daemon_catch_set(&set, fd);
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

static uint64_t sum_metric(sky_cache *cache, sky_metric_id metric) {
    uint64_t all = 0;
    for (size_t i = 0; i < sky_tier_count(cache); i++)
        all += sky_cache_metric(cache, i, metric);
    return all;
}

static void put_number(json_t *object, const char *name, uint64_t number) {
    json_object_set_new(object, name, json_integer((json_int_t)number));
}

static json_t *stat_json(sky_cache *cache, const sky_host_stat *stat) {
    json_t *o = json_object();
    put_number(o, "clients", stat->clients);
    put_number(o, "connections", stat->connections);
    put_number(o, "refused", stat->refused);
    put_number(o, "disconnected", stat->disconnected);
    put_number(o, "leases",
               sky_cache_metric(cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) +
                   stat->direct_leases);
    put_number(o, "entries", sum_metric(cache, SKY_METRIC_TIER_ENTRIES));
    put_number(o, "arena_bytes_used", sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_USED));
    put_number(o, "arena_bytes_max", sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_MAX));
    put_number(o, "arena_bytes_committed", stat->committed_bytes);
    put_number(o, "hits", stat->hits);
    put_number(o, "misses", stat->misses);
    put_number(o, "regions", stat->regions);
    put_number(o, "region_bytes", stat->region_bytes);
    put_number(o, "blocks", stat->blocks);
    put_number(o, "block_bytes", stat->block_bytes);
    put_number(o, "block_puts", stat->block_puts);
    put_number(o, "block_copied_bytes", stat->block_copied_bytes);
    put_number(o, "block_corrupt", stat->block_corrupt);
    put_number(o, "corrupt", sum_metric(cache, SKY_METRIC_TIER_CORRUPT));
    put_number(o, "evictions", sum_metric(cache, SKY_METRIC_TIER_EVICTIONS));
    json_object_set_new(o, "pool", json_string(stat->pool));
    return o;
}

/* What clients get as the host's counters; NULL: there is no memory. */
static char *stat_text(void *context, sky_cache *cache, const sky_host_stat *stat) {
    const host *h = context;
    numbers n = {.cache = json_object()};
    json_t *object = stat_json(cache, stat), *tiers = json_array();
    for (size_t i = 0; i < sky_tier_count(cache); i++) {
        n.tiers[i] = tier_json(cache, i);
        json_array_append_new(tiers, n.tiers[i]);
    }
    (void)sky_cache_metrics(cache, add_number, &n);
    char *text = prometheus_text(cache);
    if (h->peers.server)
        json_object_set_new(object, "peers", peers_json(&h->peers));
    json_object_set_new(object, "cache", n.cache);
    json_object_set_new(object, "tiers", tiers);
    json_object_set_new(object, "prometheus", text ? json_string(text) : json_null());
    free(text);
    text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}

/* ---- serving ---- */

static void say_ready(void *context) {
    const host *h = context;
    if (h->automatic)
        background_ready();
    daemon_ready();
}

/* The file's settings, where the command line does not say otherwise. */
static sky_host_settings settings_of(const host *h) {
    const daemon_config *c = h->config;
    uint32_t fallback = h->automatic ? AUTO_IDLE_S : 0;
    return (sky_host_settings){.idle_s = h->flags.has_idle ? h->flags.idle_s
                                         : c->has_idle     ? c->idle_s
                                                           : fallback,
                               .users = c->users,
                               .user_count = c->user_count};
}

static daemon_stores *own_stores(host *h, daemon_config *c) {
    return h->flags.stores.url_count > 0 ? &h->flags.stores : &c->stores;
}

/* The default file is that of shm:auto alone: another daemon has what it is told. */
static int read_config(host *h, daemon_config **out) {
    char path[4096] = "";
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    *out = calloc(1, sizeof **out);
    if (!*out)
        return daemon_say(FAILED, "configuration", "out of memory");
    if (h->config_path)
        return config_read(h->config_path, false, *out);
    if (!h->automatic)
        return DONE;
    if (xdg && xdg[0] == '/')
        snprintf(path, sizeof path, "%s/skymem/skymemd.yaml", xdg);
    else if (home && home[0] == '/')
        snprintf(path, sizeof path, "%s/.config/skymem/skymemd.yaml", home);
    return path[0] ? config_read(path, true, *out) : DONE;
}

static void drop_config(daemon_config *c) {
    if (c)
        config_free(c);
    free(c);
}

static bool same_text(const char *a, const char *b) {
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

/* Something of a running host that only a new one can have differs. */
static bool needs_restart(const daemon_config *a, const daemon_config *b) {
    bool differs = !same_text(a->socket_path, b->socket_path) ||
                   a->stores.url_count != b->stores.url_count;
    for (size_t i = 1; i <= a->stores.url_count && !differs; i++)
        differs = !same_text(a->stores.urls[i], b->stores.urls[i]);
    return differs;
}

/* SIGHUP: a file with a fault changes nothing, which is said. */
static bool reload_settings(void *context, sky_host_settings *settings) {
    host *h = context;
    struct signalfd_siginfo told;
    daemon_config *c;
    while (read(h->reload_fd, &told, sizeof told) > 0)
        ;
    daemon_notify("RELOADING=1");
    if (read_config(h, &c) != DONE || config_check(c, own_stores(h, c), false) != DONE) {
        daemon_say(DONE, "SIGHUP", "nothing was changed: the settings from before stay in force");
        drop_config(c);
        daemon_notify("READY=1");
        return false;
    }
    if (needs_restart(h->config, c))
        daemon_say(DONE, "socket and store", "changed; they do when the daemon starts again");
    drop_config(h->config_before);
    h->config_before = h->config;
    h->config = c;
    *settings = settings_of(h);
    daemon_notify("READY=1");
    return true;
}

/* What skymem keeps where it is told nothing. */
static int add_cache_folder(daemon_stores *s) {
    char url[4200];
    const char *xdg = getenv("XDG_CACHE_HOME");
    bool set = xdg && xdg[0] == '/';
    snprintf(url, sizeof url, "disk:%.4000s/skymem?max=8GiB", set ? xdg : "~/.cache");
    return config_add_store(s, url, "--auto", 0);
}

/* Where to listen, and what to keep. */
static int prepare_host(host *h, sky_host_options *o) {
    static char path[108];
    sky_error error = {0};
    daemon_stores *stores = own_stores(h, h->config);
    passed_take(&h->passed);
    o->listen_fd = h->passed.listener;
    o->kept = h->passed.kept;
    o->kept_count = h->passed.kept_count;
    o->forget = passed_forget;
    o->keep = !h->automatic && passed_may_keep() ? passed_keep : NULL;
    o->socket_path = h->flags.socket_path ? h->flags.socket_path : h->config->socket_path;
    if (h->automatic) {
        if (sky_host_path(path, sizeof path, &error) != SKY_OK)
            return daemon_say(FAILED, "--auto", error.text);
        o->socket_path = path;
    }
    if (h->automatic && stores->url_count == 0 && add_cache_folder(stores) != DONE)
        return FAILED;
    o->urls = config_urls(stores, &o->url_count);
    o->settings = settings_of(h);
    if (o->socket_path || o->listen_fd > 0 || (h->check && h->config_path)) /* shm:auto has one */
        return DONE;
    return daemon_say(USAGE, "--socket", "is missing, and no --config FILE has a socket");
}

static int run_host(host *h, sky_host_options *o) {
    sky_error error = {0};
    int code = daemon_catch_signals(&o->stop_fd); /* before any thread, to be inherited */
    if (code == DONE)
        code = catch_reload(&h->reload_fd);
    if (code != DONE)
        return code;
    o->reload_fd = h->reload_fd;
    sky_status status = sky_host_run(o, &error);
    daemon_notify("STOPPING=1");
    close(o->stop_fd);
    close(h->reload_fd);
    if (status == SKY_OK)
        return DONE;
    bool usage = status == SKY_E_SYNTAX || status == SKY_E_PARAM || status == SKY_E_UNSUPPORTED;
    return daemon_say(usage ? USAGE : FAILED, status == SKY_E_DEADLINE ? "stopping" : "serving",
                      error.text[0] ? error.text : sky_status_text(status));
}

static sky_status cache_opened(void *context, sky_cache *cache, sky_error *error) {
    host *h = context;
    return peers_start(&h->peers, cache, error);
}

static void cache_closing(void *context) {
    host *h = context;
    peers_stop(&h->peers);
}

static int serve_host(host *h) {
    sky_host_options options = {.struct_bytes = sizeof options,
                                .ready = say_ready,
                                .text = stat_text,
                                .context = h,
                                .reload = reload_settings,
                                .opened = cache_opened,
                                .closing = cache_closing};
    int code = read_config(h, &h->config);
    if (code == DONE)
        code = prepare_host(h, &options);
    if (code == DONE)
        code = config_check(h->config, own_stores(h, h->config), h->check);
    if (code == DONE && !h->check) {
        code = h->automatic ? background_start(options.socket_path) : DONE;
        code = code == DONE ? run_host(h, &options) : code;
    }
    drop_config(h->config);
    drop_config(h->config_before);
    passed_free(&h->passed);
    return code;
}

int main(int argc, char **argv) {
    host h = {0};
    bool finished = false;
    prctl(PR_SET_DUMPABLE, 0); /* keys and prompts: no core dump, no other process looks in */
    int code = parse_words(&h, argc, argv, &finished);
    if (code == DONE && !finished)
        code = h.satellite ? satellite_main(h.satellite, h.scenario_path, h.state_path)
                           : serve_host(&h);
    config_free(&h.flags);
    return code;
}
