/* What the verbs of `skymem` and `skymem-lab` share.
 *
 *   argv ─► parse.c ─► cli { verb, values, arguments } ─► run ─► exit code
 *              ▲
 *     SKYMEM_* and config.yaml (settings.c)
 *
 * Every verb is one row of a table, in a file of its own, verb_NAME.c. The row is the single
 * source: parsing, `--help`, `help --man` and the man pages are made from it. The rows of the verbs
 * that `skymem-lab` runs stand here, so that `skymem` can explain them without that program. */
#ifndef SKYMEM_CLI_H
#define SKYMEM_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <skymem-sky/skies.h>
#include <skymem/skymem.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NOT_FOUND = 3, CLI_UNAVAILABLE = 4 };

/* When a verb with a key exits 4. */
#define CLI_UNAVAILABLE_SAYS "satellites or hosts that may hold the key do not answer"

#define CLI_OPTIONS_MAX    40
#define CLI_LIST_MAX       16
#define CLI_ARGUMENTS_MANY 255

typedef enum {
    CLI_FLAG,     /* no value */
    CLI_TEXT,     /* anything */
    CLI_PATH,     /* a file or a folder; a leading ~/ is the home folder */
    CLI_COUNT,    /* a whole number within min … max (max 0: no limit) */
    CLI_NUMBER,   /* a finite number within min … max (max 0: no limit) */
    CLI_CHOICE,   /* one of the words in `value`, parted by | */
    CLI_LIST,     /* a path or a URL, ~/ as above, at most `max` times (0: CLI_LIST_MAX); in sky:
                   and sky+udp: URLs a scenario as below */
    CLI_SCENARIO, /* a scenario: its file, or its name (scenarios.c) */
} cli_kind;

typedef struct {
    const char *name; /* without the dashes; NULL ends a list */
    cli_kind kind;
    const char *value;    /* what stands for the value in help; CLI_CHOICE: the words */
    const char *fallback; /* the default as one would write it; NULL: none */
    const char *help;     /* one short sentence, for --help */
    uint64_t min;
    uint64_t max;
    char letter;        /* "o": -o is the same; 0: none */
    double from;        /* CLI_NUMBER: in place of min, where that is no whole number */
    const char *detail; /* what only the man page adds to `help`; NULL: nothing */
} cli_option;

/* The settings: options that may also come from SKYMEM_* and the configuration file. */
enum {
    CLI_SET_STORE = 1u << 0,
    CLI_SET_MODEL = 1u << 1,
    CLI_SET_BLOCK_TOKENS = 1u << 2,
    CLI_SET_LEVEL = 1u << 3,
    CLI_SET_DEADLINE = 1u << 4,
    CLI_SET_THREADS = 1u << 5,
    CLI_SET_KV_TYPE = 1u << 6,
    CLI_SET_FLASH = 1u << 7,
    CLI_SET_CALIBRATION = 1u << 8,
    CLI_SET_SALT = 1u << 9,
    CLI_SET_KEYS = CLI_SET_STORE | CLI_SET_SALT, /* of a verb that makes keys for a store */
    CLI_SET_ENGINE = CLI_SET_MODEL | CLI_SET_BLOCK_TOKENS | CLI_SET_LEVEL | CLI_SET_DEADLINE |
                     CLI_SET_THREADS | CLI_SET_KV_TYPE | CLI_SET_FLASH | CLI_SET_CALIBRATION,
    CLI_SET_ALL = (1u << 10) - 1,
};
extern const cli_option cli_settings[]; /* row i belongs to bit i; ends with a NULL name */
extern const cli_option cli_common[];   /* what every verb takes: --json, --quiet, --help … */

typedef struct {
    const char *command;
    const char *says;
} cli_example;

typedef struct {
    const char *name;
    const char *says;
} cli_field;

typedef struct cli cli;

typedef struct {
    const char *name;
    const char *summary;  /* one line, imperative, no full stop */
    const char *synopsis; /* its arguments: "KEY [FILE]" */
    const char *words;    /* what the first argument may be, parted by |; NULL: anything */
    const char *about;    /* paragraphs, parted by a newline: --help shows the first; may be NULL */
    uint32_t settings;    /* CLI_SET_* bits it takes */
    const cli_option *options; /* its own; NULL for none */
    uint8_t arguments_min;
    uint8_t arguments_max; /* CLI_ARGUMENTS_MANY: any number */
    bool json_lines;       /* --json prints one object a line */
    bool makes_folders;    /* it may store: a disk tier's folder is made when it is absent */
    const cli_example *examples;
    const cli_field *fields; /* of the JSON object; NULL: --json is refused */
    const char *failed;      /* when it exits 1, if there is more to say than "it failed" */
    const char *not_found;   /* when it exits 3; NULL: never */
    bool unavailable;        /* it may exit 4: CLI_UNAVAILABLE_SAYS */
    int (*run)(cli *c);      /* NULL: skymem-lab runs it */
} cli_verb;

/* What skymem-lab runs. */
extern const cli_verb cli_verb_bench, cli_verb_eval, cli_verb_sim;

/* Where a value came from. */
typedef enum { CLI_FROM_DEFAULT, CLI_FROM_FILE, CLI_FROM_ENVIRONMENT, CLI_FROM_FLAG } cli_origin;

typedef struct {
    const cli_option *option;
    cli_origin origin;
    unsigned line; /* CLI_FROM_FILE */
    size_t count;  /* 0: not given and no default */
    char *texts[CLI_LIST_MAX];
    uint64_t whole; /* CLI_COUNT, CLI_FLAG; CLI_CHOICE: which word */
    double number;  /* CLI_NUMBER */
} cli_value;

struct cli {
    const cli_verb *const *verbs; /* the program's, in the order of `help`, ending with NULL */
    const cli_verb *verb;
    cli_value values[CLI_OPTIONS_MAX];
    size_t value_count;
    const char *arguments[1024];
    size_t argument_count;
    bool json;
    char config_path[4096]; /* the file in use; empty: none */
};

/* What a command line asks for instead of the verb. */
typedef enum { CLI_ASKED_NOTHING, CLI_ASKED_HELP, CLI_ASKED_VERSION } cli_asked;

/* parse.c: returns CLI_OK, or the exit code after having said why. */
int cli_parse(cli *c, const cli_verb *verb, int argc, char **argv, cli_asked *asked);
void cli_free(cli *c);

/* values.c
 * Take a text for a value, replacing what a weaker origin gave. */
int cli_take(cli *c, cli_value *value, const char *text, cli_origin origin, unsigned line);
cli_value *cli_find(cli *c, const char *name); /* NULL when the verb has no such option */
/* The candidate closest to a mistyped word: at most 2 edits away and fewer than a third of the
 * longer word's letters, or continuing a word of 3 letters or more. NULL when there is none. */
const char *cli_closest(const char *word, const char *const *candidates, size_t count);

/* Values in force; the verb must have the option. */
bool cli_given(cli *c, const char *name);
bool cli_flag(cli *c, const char *name);
const char *cli_text(cli *c, const char *name); /* NULL when there is none */
/* For verbs that do several things: a usage error when a flag of the verb's own was given that this
 * one, `what`, has no use for. `names` are those it has, parted by blanks. */
int cli_only(cli *c, const char *what, const char *names);
/* A usage error that names two of them when more than one of these options, parted by blanks, was
 * given on the command line. */
int cli_one_of(cli *c, const char *names);
/* Whether a list, its words parted by one character, has a word. */
bool cli_has_word(const char *words, char parted_by, const char *word);
uint64_t cli_count(cli *c, const char *name);
double cli_number(cli *c, const char *name);

/* settings.c */
int cli_settings_load(cli *c);
/* Whether the verb takes this one of cli_common. */
bool cli_common_for(const cli_verb *verb, const cli_option *option);

/* paths.c
 * $XDG_NAME, or ~/FALLBACK when it is unset or not absolute; NULL, and "" in `out`, when the
 * account has no home. */
const char *cli_home_of(const char *variable, const char *fallback, char *out, size_t out_bytes);
/* $XDG_CACHE_HOME or ~/.cache; NULL, and "", as above. */
const char *cli_cache_home(char *out, size_t out_bytes);
/* Where eval keeps weights as F32, below the cache folder; NULL without a home. */
const char *cli_weights_folder(char *out, size_t out_bytes);
/* $XDG_DATA_HOME/skymem/scenarios or ~/.local/share/skymem/scenarios; NULL, and "", as above. */
const char *cli_scenario_home(char *out, size_t out_bytes);
/* A path, or a URL, with a leading ~/ of its path replaced by the home folder: a shell does so at
 * the beginning of a word alone, and nobody does for the environment and a file.
 * Owner: the caller frees; NULL, and `why`, when it cannot be. */
char *cli_home_expand(const char *text, const char **why);
/* A path relative to the folder that skymem lies in; false: there is nothing. The folder is the
 * same for skymem-lab, wherever that is installed. */
bool cli_beside_program(const char *relative, char *out, size_t out_bytes);

/* say.c: messages. Each prints one line to stderr and returns the exit code. cli_say_setup takes
 * what the common options say of them, before the verb runs. */
typedef enum {
    CLI_COLOR_AUTO,
    CLI_COLOR_ALWAYS,
    CLI_COLOR_NEVER
} cli_color; /* as --color has it */
void cli_say_setup(bool is_quiet, bool verbose, bool json, cli_color wanted);
/* What was printed reaches its reader now. The first errno that there was; 0: it has reached it.
 * stdio drops what could not be written, so that nothing else knows why later. */
int cli_flush(void);
/* Whether this output has bold type and colour: --color, NO_COLOR, a terminal. */
bool cli_colored(FILE *to);
int cli_failed(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_usage(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_not_found(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_unavailable(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Not with --quiet. */
void cli_note(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Progress: one line on a terminal, rewritten in place, nowhere else, and not with --json or
 * --quiet; NULL clears it. */
void cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A longer part of the work begins: a line of its own where progress is not shown for want of a
 * terminal, nowhere else, and not with --json or --quiet. */
void cli_stage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "13.5 MiB", "512 B". */
const char *cli_bytes_text(uint64_t bytes, char out[24]);
/* "1 entry", "12 entries". */
#define CLI_COUNT_TEXT_BYTES 64
const char *cli_count_text(uint64_t count, const char *one, const char *many,
                           char out[CLI_COUNT_TEXT_BYTES]);
/* What a noun ends in behind a count. */
static inline const char *cli_plural(uint64_t count) {
    return count == 1 ? "" : "s";
}
/* "3 s", "5 min", "2 h", "4 d". */
const char *cli_age_text(double seconds, char out[24]);
double cli_ms(sky_time ns);
double cli_median(double *values, size_t count); /* sorts them */

/* Bytes as text a terminal and JSON can show: valid UTF-8 stays, anything else becomes \xHH, a
 * backslash is doubled. Owner: the caller frees. */
char *cli_escape(const void *data, size_t bytes);
/* The same as a JSON string: of each text that may be of any bytes, a path among them. */
json_t *cli_json_text(const char *text);
/* The same for a message or a table, in which a backslash stays one. Owner: the caller frees. */
char *cli_printable(const char *text);
/* Model text: what is no UTF-8 becomes U+FFFD, nothing else changes. */
json_t *cli_json_utf8(const char *data, size_t bytes);
/* Print one object and a newline, and release it. Returns CLI_OK or CLI_FAILED. */
int cli_json_print(const cli *c, json_t *object);
/* The same with as many significant digits for reals; cli_json_print has 9. */
int cli_json_row(const cli *c, json_t *object, int digits);
/* With --json a verb that failed before it had an object prints {error, exit}, so that a script
 * finds one whatever happened. Returns the exit code it was given. */
int cli_json_failure(const cli *c, int code);

/* table.c: columns aligned on the widest cell; 'l' and 'r' in `columns` tell left from right. */
typedef struct {
    const char *columns;
    char **cells;
    size_t cell_count;
    size_t cell_max;
} cli_table;
void cli_table_cell(cli_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first row is the head, and all are as long: at most 32 columns. Frees the cells. */
void cli_table_print(cli_table *t, FILE *to);
void cli_table_free(cli_table *t);

/* files.c */
typedef struct {
    void *data;
    size_t bytes;
} cli_blob;
/* All of a file, "-" or NULL for standard input; says why when it cannot. */
int cli_blob_read(const cli *c, const char *path, uint64_t bytes_max, cli_blob *out);
void cli_blob_free(cli_blob *blob);
/* Can it be written? Before work that takes minutes; what is there stays as it is. "-" and
 * standard output's own file are none. */
int cli_file_try(const cli *c, const char *path);
/* False if one is not there; either may be NULL. */
bool cli_same_file(const char *a, const char *b);
/* The file is there when all of it is written; until then what was there stays. */
int cli_file_write(const cli *c, const char *path, const void *data, size_t bytes);
/* A folder of its own for this run under `home` (NULL: the cache folder), and its removal with all
 * that is in it; a signal that ends the program removes it too. One at a time. */
int cli_scratch_make(const cli *c, const char *home, const char *name, char *path,
                     size_t path_bytes);
void cli_scratch_remove(const char *path);

/* store.c: the hierarchy of --store. */
typedef struct {
    sky_cache *cache;
    size_t tier_count;
    char names[SKY_TIERS_MAX][16];  /* "mem", "disk", "sky", "disk-2" */
    uint32_t traits[SKY_TIERS_MAX]; /* of sky_tier_stat */
    uint64_t put_bytes;             /* of what is being put, to explain "no room"; 0: nothing is */
    bool put_ends;                  /* … and it has a time to live */
} cli_store;
int cli_store_open(cli *c, cli_store *out);
/* The same for an operation with a deadline, 0: none, which covers what other hosts take to answer:
 * the operation waits for them, not the opening. */
int cli_store_open_by(cli *c, sky_time deadline_ns, cli_store *out);
int cli_store_open_urls(const cli *c, const char *const *urls, size_t count, cli_store *out);
void cli_store_close(cli_store *store);
/* Name the tiers by the schemes of these URLs; a second of the same scheme gets a number. */
void cli_store_name(const char *const *urls, cli_store *store);
const char *cli_store_tier(const cli_store *store, uint8_t tier);
/* Whether a tier has all of these traits. */
bool cli_store_is(const cli_store *store, size_t tier, uint32_t traits);
/* Satellites that are processes of their own. */
#define CLI_REAL_SKY (SKY_TIER_SKY | SKY_TIER_REMOTE)
/* What a tier counts. */
static inline uint64_t cli_store_metric(const cli_store *store, size_t tier, sky_metric_id metric) {
    return sky_cache_metric(store->cache, tier, metric);
}
/* Whether what the tier holds is still there after this process. */
bool cli_store_lasts(const cli_store *store, size_t tier);
/* Run one item and return its status. */
sky_status cli_one(const cli_store *store, sky_op op, sky_item *item, const sky_call *call);

/* The salt of --salt-file; zeros where the verb has none or it was not given. */
int cli_salt(cli *c, uint8_t salt[SKY_SALT_BYTES]);
/* Why a file or a URL was refused: what it says is the user's to mend, what it meets is not. */
int cli_refused(const cli *c, sky_status status, const sky_error *error);
/* What a scenario file says of the sky; says why when it cannot. */
int cli_scenario_read(const cli *c, const char *path, sky_constellation *constellation,
                      sky_placement *placement, sky_satellite *centre);

/* scenarios.c: a scenario is named by its file, or as NAME where NAME.yaml is in
 * $XDG_DATA_HOME/skymem/scenarios, beside the installed program or in the source tree. */
bool cli_scenario_find(const char *name, char *out, size_t out_bytes); /* false: as it is named */
/* The names that are found, and why one is not; NULL for what looks like a path. */
void cli_scenario_names(char *out, size_t out_bytes, const char *parted_by);
const char *cli_scenario_refused(const char *name);
/* A value of the command line with its scenario, if it has one, as a path.
 * Owner: the caller frees; NULL, and `why` (until the next call), when there is none. */
char *cli_scenario_expand(const char *text, bool url, const char **why);
/* The same for an argument, in place. */
int cli_scenario_argument(cli *c, size_t which);
/* The same for a scenario whose keys are made in its folder. One that is found by name where
 * scenarios are installed, or in a folder that is not the user's, is copied to
 * $XDG_DATA_HOME/skymem/scenarios, where every verb finds it first from then on. One that is given
 * by its path is never copied: without its keys, and in a folder that is not the user's, it is
 * refused. */
int cli_scenario_own(cli *c, size_t which);
/* Whether real satellites of a scenario lack a key file; `missing`: its path, or NULL. */
bool cli_keys_missing(const char *path, char *missing, size_t missing_bytes);

/* For help and manual: the fields of cli_json_failure. */
#define CLI_JSON_FAILURE "these two alone when it failed first: the sentence, and the exit status"

/* help.c: wrapped to COLUMNS, else to the terminal's width, else to 80 columns. */
void cli_help_verb(const cli_verb *verb, FILE *to);
void cli_help_all(const cli_verb *const *verbs, FILE *to);

/* program.c: all of a program: find the verb, parse its options, and let `run` do the rest with
 * them and with the words of the command line, unless help or the version was asked for. Returns
 * what main does. */
int cli_program(int argc, char **argv, const cli_verb *const *verbs,
                int (*run)(cli *c, char **argv));
const cli_verb *cli_verb_find(const cli_verb *const *verbs, const char *name); /* NULL: none */

#endif
