/* Settings: options whose value may stand in the environment or in a file instead of on the command
 * line. Strongest first: flag, SKYMEM_NAME, --config FILE or $XDG_CONFIG_HOME/skymem/config.yaml,
 * default. The file is a YAML mapping of the names below, with _ for -; `store` may be a list. In
 * each a path may begin with ~/. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yaml.h>

#define CONFIG_BYTES_MAX (16 << 10) /* nested brackets take time that grows with its square */

const cli_option cli_settings[] = {
    {.name = "store",
     .kind = CLI_LIST,
     .value = "URL",
     .max = SKY_TIERS_MAX,
     .help = "a tier, repeated from nearest to farthest: mem:SIZE, shm:SOCKET, disk:PATH, "
             "skymem://HOST:PORT, sky:SCENARIO or sky+udp:SCENARIO",
     .detail =
         "The tiers are mem:SIZE, shm:SOCKET (what a skymemd keeps for all processes of a "
         "user; shm:auto is the user's own, which is started if it is not there), "
         "skymem://HOST:PORT?key=FILE[&connections=N&cipher=aes|chacha] (the store of another "
         "host's skymemd --listen; plain=yes instead of key for neither encryption nor "
         "authentication; skymem://?peers=FILE is several hosts, a line of the file each; "
         "transport=fabric&provider=NAME goes over libfabric instead of TCP, as the host must), "
         "disk:PATH[?max=SIZE&ttl=S&direct=auto|on|off&create=yes|no&fill=puts|evictions"
         "&seal=FILE], "
         "sky:SCENARIO[?scale=X&seed=N] and sky+udp:SCENARIO. level=L in a URL keeps blocks "
         "encoded at that level there. level=8,4,2 keeps them at each of these levels, so "
         "that a deadline can choose. seal=FILE encrypts what a disk folder holds and checks "
         "what comes back: FILE is a key of 64 hexadecimal digits with mode 0600 (openssl "
         "rand -hex 32), and the folder is empty at first. Several disks are levels: what a "
         "nearer one is about to evict is copied to the next; with fill=evictions a disk gets "
         "blocks in no other way.\n"
         "Default: mem:256MiB, then disk:$XDG_CACHE_HOME/skymem?max=8GiB."},
    {.name = "model",
     .kind = CLI_PATH,
     .value = "GGUF",
     .help = "the model: a file, or a name of skymem model ls"},
    {.name = "block-tokens",
     .kind = CLI_COUNT,
     .value = "N",
     .fallback = "128",
     .min = 1,
     .max = SKY_BLOCK_TOKENS_MAX,
     .help = "tokens of a block, the unit that is stored and found"},
    {.name = "level",
     .kind = CLI_CHOICE,
     .value = SKY_LEVEL_NAMES,
     .fallback = "lossless",
     .help = "codec level for every tier except mem: bits for each element",
     .detail = "A tier's own level= overrides it. Unless this is given, blocks are stored without "
               "encoding."},
    {.name = "deadline-ms",
     .kind = CLI_NUMBER,
     .value = "MS",
     .max = 1000000000,
     .help = "stop loading after this time and compute the rest; default: no limit",
     .detail = "The leading blocks that arrived in time are used. For a model with a sliding "
               "window, a shorter prefix is usable only if its own last window was loaded. The "
               "loader requests that window as soon as it predicts that the whole prefix will be "
               "late."},
    {.name = "threads",
     .kind = CLI_COUNT,
     .value = "T",
     .fallback = "0",
     .max = 1024,
     .help = "threads that compute; 0 is one a core"},
    {.name = "kv-type", /* the types of the llama.cpp adapter */
     .kind = CLI_CHOICE,
     .value = "f16|f32|bf16|q8_0|q5_1|q5_0|q4_1|q4_0|iq4_nl",
     .fallback = "f16",
     .help = "type of the KV cache; only f16, f32 and bf16 are cached",
     .detail = "With the other types the model answers, but nothing is loaded or saved."},
    {.name = "flash-attn",
     .kind = CLI_CHOICE,
     .value = "on|off",
     .fallback = "on",
     .help = "flash attention; without it V lies transposed and cannot be cached"},
    {.name = "calibration",
     .kind = CLI_PATH,
     .value = "F.skycal",
     .help = "file of skymem calibrate, for lossy levels; default: found by the model",
     .detail = "Without this option the file is found by the content of the model, in "
               "$XDG_CACHE_HOME/skymem-calibration. none means: use no calibration."},
    {.name = "salt-file",
     .kind = CLI_PATH,
     .value = "FILE",
     .help = "secret of a tenant, which goes into every key: a file of 64 hexadecimal digits, mode "
             "0600 (openssl rand -hex 32); default: none",
     .detail =
         "Values and blocks that were stored under a salt are found under the same salt alone, in "
         "every tier. Without a salt all who use a store share what they save, and can "
         "learn whether somebody stored a text they guess."},
    {.name = NULL},
};

const cli_option cli_common[] = {
    {.name = "json", .kind = CLI_FLAG, .help = "print JSON on standard output and nothing else"},
    {.name = "config",
     .kind = CLI_PATH,
     .value = "FILE",
     .help = "read settings from FILE (default: $XDG_CONFIG_HOME/skymem/config.yaml)"},
    {.name = "quiet",
     .kind = CLI_FLAG,
     .letter = 'q',
     .help = "print the answer and what failed, no notes and no progress"},
    {.name = "verbose",
     .kind = CLI_FLAG,
     .letter = 'v',
     .help = "log what the library does on standard error, as SKYMEM_LOG=info does"},
    {.name = "color",
     .kind = CLI_CHOICE,
     .value = "auto|always|never",
     .fallback = "auto",
     .help = "bold type and colour; auto: on a terminal, unless NO_COLOR is set"},
    {.name = "version", .kind = CLI_FLAG, .letter = 'V', .help = "print the version"},
    {.name = "help", .kind = CLI_FLAG, .letter = 'h', .help = "explain by example"},
    {.name = NULL},
};

bool cli_common_for(const cli_verb *verb, const cli_option *option) {
    return (verb->fields || strcmp(option->name, "json") != 0) &&
           (verb->settings || strcmp(option->name, "config") != 0);
}

/* The row of a key as the file writes it (block_tokens for block-tokens). */
static const cli_option *row_of(const char *key) {
    for (const cli_option *o = cli_settings; o->name; o++) {
        const char *a = o->name, *b = key;
        while (*a && (*a == *b || (*a == '-' && *b == '_')))
            a++, b++;
        if (!*a && !*b)
            return o;
    }
    return NULL;
}

static int unknown_key(const cli *c, const char *key, unsigned line) {
    const char *names[16];
    size_t count = 0;
    for (; cli_settings[count].name && count < 16; count++)
        names[count] = cli_settings[count].name;
    const char *close = cli_closest(key, names, count);
    return cli_usage(c, "%s:%u: unknown key \"%s\"%s%s%s", c->config_path, line, key,
                     close ? ", did you mean \"" : "", close ? close : "", close ? "\"?" : "");
}

/* What YAML takes for no value. */
static bool is_null(const char *text) {
    return !text[0] || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

/* The text of a plain value, which ends where it seems to; NULL: it is none. */
static const char *text_of(const yaml_node_t *node) {
    const char *text = (const char *)node->data.scalar.value;
    return node->type == YAML_SCALAR_NODE && strlen(text) == node->data.scalar.length ? text : NULL;
}

/* One value of the file; a key of another verb is checked by name only. */
static int take_scalar(cli *c, const cli_option *row, const yaml_node_t *node) {
    unsigned line = (unsigned)node->start_mark.line + 1;
    const char *text = text_of(node);
    if (!text)
        return cli_usage(c, "%s:%u: %s must be a plain value", c->config_path, line, row->name);
    if (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && is_null(text))
        return cli_usage(c, "%s:%u: %s has no value", c->config_path, line, row->name);
    cli_value *v = cli_find(c, row->name);
    if (!v || v->option != row || v->origin > CLI_FROM_FILE) /* else the verb's own */
        return CLI_OK;
    return cli_take(c, v, text, CLI_FROM_FILE, line);
}

static int take_pair(cli *c, yaml_document_t *document, const yaml_node_pair_t *pair,
                     uint32_t *rows_seen) {
    const yaml_node_t *key = yaml_document_get_node(document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(document, pair->value);
    unsigned line = (unsigned)key->start_mark.line + 1;
    const char *name = text_of(key);
    if (!name)
        return cli_usage(c, "%s:%u: a key must be a plain word", c->config_path, line);
    const cli_option *row = row_of(name);
    if (!row)
        return unknown_key(c, name, line);
    if (*rows_seen >> (row - cli_settings) & 1)
        return cli_usage(c, "%s:%u: %s is there twice", c->config_path, line, name);
    *rows_seen |= 1u << (row - cli_settings);
    if (row->kind != CLI_LIST || value->type != YAML_SEQUENCE_NODE)
        return take_scalar(c, row, value);
    if (value->data.sequence.items.start == value->data.sequence.items.top)
        return cli_usage(c, "%s:%u: %s is an empty list", c->config_path, line, name);
    for (yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top;
         i++) {
        int code = take_scalar(c, row, yaml_document_get_node(document, *i));
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int take_document(cli *c, yaml_document_t *document) {
    const yaml_node_t *root = yaml_document_get_root_node(document);
    if (!root)
        return CLI_OK;
    if (root->type == YAML_SCALAR_NODE && root->data.scalar.length == 0)
        return CLI_OK;
    if (root->type != YAML_MAPPING_NODE)
        return cli_usage(c, "%s:%u: must be a mapping of settings", c->config_path,
                         (unsigned)root->start_mark.line + 1);
    uint32_t rows_seen = 0;
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        int code = take_pair(c, document, p, &rows_seen);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int not_yaml(cli *c, const yaml_parser_t *parser) {
    return cli_usage(c, "%s:%u: not YAML: %s", c->config_path,
                     (unsigned)parser->problem_mark.line + 1,
                     parser->problem ? parser->problem : "unreadable");
}

/* Nothing but the end may follow: a second document would be passed over without a word. */
static int expect_end(cli *c, yaml_parser_t *parser) {
    yaml_document_t next;
    int code = CLI_OK;
    if (!yaml_parser_load(parser, &next))
        return not_yaml(c, parser);
    if (yaml_document_get_root_node(&next))
        code = cli_usage(c, "%s:%u: a second document; only one is read", c->config_path,
                         (unsigned)next.start_mark.line + 1);
    yaml_document_delete(&next);
    return code;
}

static int read_file(cli *c, FILE *file) {
    yaml_parser_t parser;
    yaml_document_t document;
    int code;
    if (!yaml_parser_initialize(&parser))
        return cli_failed(c, "out of memory");
    yaml_parser_set_input_file(&parser, file);
    if (yaml_parser_load(&parser, &document)) {
        code = take_document(c, &document);
        yaml_document_delete(&document);
        if (code == CLI_OK)
            code = expect_end(c, &parser);
    } else if (ferror(file)) {
        code = cli_failed(c, "%s: %s", c->config_path, strerror(errno));
    } else {
        code = not_yaml(c, &parser);
    }
    yaml_parser_delete(&parser);
    return code;
}

/* A plain file; a pipe is not waited for. NULL, and `why`, when it is none; `absent`: nothing is
 * there, or where others may not look. */
static FILE *open_file(const char *path, const char **why, bool *absent) {
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *absent = fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES);
    bool plain = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    FILE *file = plain && st.st_size <= CONFIG_BYTES_MAX ? fdopen(fd, "r") : NULL;
    *why = plain ? "too large for settings" : fd >= 0 ? "not a plain file" : strerror(errno);
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* Into c->config_path what --config, else SKYMEM_CONFIG, asks for; else where settings usually are,
 * and empty if that is nowhere. */
static int find_file(cli *c, bool *asked) {
    char home[4000];
    const char *why = "", *text = cli_text(c, "config");
    if (!text)
        text = getenv("SKYMEM_CONFIG");
    *asked = text && text[0];
    char *path = *asked ? cli_home_expand(text, &why) : NULL;
    if (*asked && !path)
        return cli_failed(c, "%s: %s", text, why);
    if (path)
        snprintf(c->config_path, sizeof c->config_path, "%s", path);
    else if (cli_home_of("XDG_CONFIG_HOME", ".config", home, sizeof home))
        snprintf(c->config_path, sizeof c->config_path, "%s/skymem/config.yaml", home);
    free(path);
    return CLI_OK;
}

static int load_file(cli *c) {
    const char *why;
    bool asked, absent;
    int code = find_file(c, &asked);
    if (code != CLI_OK || !c->config_path[0])
        return code;
    FILE *file = open_file(c->config_path, &why, &absent);
    if (!file) {
        if (asked || !absent)
            return cli_failed(c, "%s: %s", c->config_path, why);
        c->config_path[0] = '\0';
        return CLI_OK;
    }
    code = read_file(c, file);
    fclose(file);
    return code;
}

/* SKYMEM_BLOCK_TOKENS and the like; SKYMEM_STORE holds URLs parted by blanks. */
static int load_variable(cli *c, cli_value *v) {
    char name[64] = "SKYMEM_";
    for (size_t i = 0; v->option->name[i] && i < 48; i++)
        name[7 + i] = v->option->name[i] == '-' ? '_' : (char)(v->option->name[i] & ~0x20);
    const char *text = getenv(name);
    if (!text || !text[0])
        return CLI_OK;
    if (v->option->kind != CLI_LIST)
        return cli_take(c, v, text, CLI_FROM_ENVIRONMENT, 0);
    char *copy = strdup(text), *rest = copy;
    int code = copy ? CLI_OK : cli_failed(c, "out of memory");
    for (char *word; code == CLI_OK && (word = strtok_r(rest, " \t\n", &rest));)
        code = cli_take(c, v, word, CLI_FROM_ENVIRONMENT, 0);
    free(copy);
    return code;
}

static int default_store(cli *c) {
    cli_value *v = cli_find(c, "store");
    if (!v || v->count > 0)
        return CLI_OK;
    char home[4000], url[4096];
    int code = cli_take(c, v, "mem:256MiB", CLI_FROM_DEFAULT, 0);
    if (!cli_cache_home(home, sizeof home))
        return code;
    snprintf(url, sizeof url, "disk:%s/skymem?max=8GiB", home);
    return code == CLI_OK ? cli_take(c, v, url, CLI_FROM_DEFAULT, 0) : code;
}

int cli_settings_load(cli *c) {
    if (!c->verb->settings)
        return CLI_OK;
    int code = load_file(c);
    for (size_t i = 0; i < c->value_count && code == CLI_OK; i++) {
        cli_value *v = &c->values[i];
        bool setting = v->option >= cli_settings &&
                       v->option < cli_settings + sizeof cli_settings / sizeof cli_settings[0];
        if (setting && v->origin != CLI_FROM_FLAG)
            code = load_variable(c, v);
    }
    return code == CLI_OK ? default_store(c) : code;
}
