/* Help on a terminal: what it is for, examples first, then every option. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_LEAST   40
#define COLUMNS_USUAL   80
#define COLUMNS_MOST    100 /* longer lines are hard to read */
#define COLUMNS_NARROW  70  /* below, explanations begin farther left */
#define OPTION_COLUMN   26
#define NARROW_COLUMN   6
#define SENTENCE_COLUMN 6

/* A page of help: where it goes, and how wide it is. */
typedef struct {
    FILE *to;
    size_t columns;
} page;

static page page_open(FILE *to) {
    const char *text = getenv("COLUMNS");
    struct winsize size;
    size_t columns = text ? strtoul(text, NULL, 10) : 0;
    if (columns == 0 && ioctl(fileno(to), TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (columns == 0)
        columns = COLUMNS_USUAL;
    columns = columns < COLUMNS_LEAST ? COLUMNS_LEAST : columns;
    return (page){to, columns > COLUMNS_MOST ? COLUMNS_MOST : columns};
}

/* Print words from column `indent` on, wrapped; the cursor already stands at `column`. */
static void print_wrapped(const page *p, const char *text, size_t column, size_t indent) {
    bool fresh = true;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (!fresh && column + 1 + word > p->columns) {
            fprintf(p->to, "\n%*s", (int)indent, "");
            column = indent;
            fresh = true;
        }
        fprintf(p->to, "%s%.*s", fresh ? "" : " ", (int)word, text);
        column += word + (fresh ? 0 : 1);
        fresh = false;
        text += word;
        text += strspn(text, " \n");
    }
    fputc('\n', p->to);
}

/* The bytes of the next word of a command; blanks within quotes do not part words. */
static size_t command_word(const char *text) {
    size_t bytes = 0;
    for (char quote = '\0'; text[bytes] && (quote || text[bytes] != ' '); bytes++)
        if (text[bytes] == quote)
            quote = '\0';
        else if (!quote && (text[bytes] == '\'' || text[bytes] == '"'))
            quote = text[bytes];
    return bytes;
}

/* The bytes of what stays on one line: a word, or an option and its value if they fit on it. */
static size_t command_part(const char *text, size_t bytes_max) {
    size_t bytes = command_word(text);
    if (text[0] != '-' || text[bytes] != ' ' || text[bytes + 1] == '-')
        return bytes;
    size_t both = bytes + 1 + command_word(text + bytes + 1);
    return both <= bytes_max ? both : bytes;
}

/* A command that can be copied: a long one goes on behind a backslash. */
static void command_line(const page *p, const char *command) {
    size_t column = 3;
    fputs("  $", p->to);
    while (*command) {
        size_t bytes = command_part(command, p->columns - SENTENCE_COLUMN - 4);
        size_t tail = command[bytes] ? 2 : 0; /* room for " \" */
        if (column > 8 && column + 1 + bytes + tail > p->columns) {
            fprintf(p->to, " \\\n%*s", SENTENCE_COLUMN + 1, "");
            column = SENTENCE_COLUMN + 1;
        }
        fprintf(p->to, " %.*s", (int)bytes, command);
        column += 1 + bytes;
        command += bytes + strspn(command + bytes, " ");
    }
    fputc('\n', p->to);
}

/* "left            right, wrapped under itself" */
static void print_entry(const page *p, const char *left, const char *right, size_t indent) {
    size_t column = 2;
    for (const char *c = left; *c; c++)
        column += ((unsigned char)*c & 0xc0) != 0x80; /* code points, not bytes */
    if (p->columns < COLUMNS_NARROW && indent > NARROW_COLUMN)
        indent = NARROW_COLUMN;
    fprintf(p->to, "  %s", left);
    if (column + 2 > indent)
        fprintf(p->to, "\n%*s", (int)indent, "");
    else
        fprintf(p->to, "%*s", (int)(indent - column), "");
    print_wrapped(p, right, indent, indent);
}

static void option_line(const page *p, const cli_option *o) {
    char left[96], right[600];
    char letter[8] = "";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
    if (o->fallback)
        snprintf(right, sizeof right, "%s (default: %s)", o->help, o->fallback);
    else
        snprintf(right, sizeof right, "%s", o->help);
    print_entry(p, left, right, OPTION_COLUMN);
}

static void print_options(const page *p, const cli_verb *verb) {
    fputs("\nOptions\n", p->to);
    for (const cli_option *o = verb->options; o && o->name; o++)
        option_line(p, o);
    for (uint32_t i = 0; cli_settings[i].name; i++)
        if (verb->settings & 1u << i)
            option_line(p, &cli_settings[i]);
    for (const cli_option *o = cli_common; o->name; o++)
        if (cli_common_for(verb, o))
            option_line(p, o);
}

static void print_exits(const page *p, const cli_verb *verb) {
    fputs("\nExit status\n", p->to);
    print_entry(p, "0", "done", 6);
    print_entry(p, "1", verb->failed ? verb->failed : "it failed; one line on stderr says why", 6);
    print_entry(p, "2", "the command line or a setting is wrong", 6);
    if (verb->not_found)
        print_entry(p, "3", verb->not_found, 6);
    if (verb->unavailable)
        print_entry(p, "4", CLI_UNAVAILABLE_SAYS, 6);
}

static void print_example(const page *p, const char *command, const char *says) {
    command_line(p, command);
    fprintf(p->to, "%*s", SENTENCE_COLUMN, "");
    print_wrapped(p, says, SENTENCE_COLUMN, SENTENCE_COLUMN);
}

/* The first paragraph; the man page has all. */
static void print_about(const page *p, const cli_verb *verb) {
    char first[1000];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(verb->about, "\n"), verb->about);
    fputs("\nAbout\n  ", p->to);
    print_wrapped(p, first, 2, 2);
}

void cli_help_verb(const cli_verb *verb, FILE *to) {
    const page p = page_open(to);
    char line[256];
    fprintf(to, "skymem %s: ", verb->name);
    print_wrapped(&p, verb->summary, 9 + strlen(verb->name), 2);
    snprintf(line, sizeof line, "skymem %s%s%s [options]", verb->name, verb->synopsis[0] ? " " : "",
             verb->synopsis);
    fputs("\n  ", to);
    print_wrapped(&p, line, 2, 6);
    fputs("\nExamples\n", to);
    for (const cli_example *e = verb->examples; e->command; e++)
        print_example(&p, e->command, e->says);
    if (verb->about)
        print_about(&p, verb);
    print_options(&p, verb);
    if (verb->fields) {
        fprintf(to, "\nJSON, %s\n", verb->json_lines ? "one object a line" : "one object");
        for (const cli_field *f = verb->fields; f->name; f++)
            print_entry(&p, f->name, f->says, OPTION_COLUMN);
        print_entry(&p, "error, exit", CLI_JSON_FAILURE, OPTION_COLUMN);
    }
    print_exits(&p, verb);
    snprintf(line, sizeof line, "man skymem-%s, or skymem help --man %s | mandoc -a", verb->name,
             verb->name);
    fputs("\nDetails\n  ", to);
    print_wrapped(&p, line, 2, 2);
}

void cli_help_all(const cli_verb *const *verbs, FILE *to) {
    const page p = page_open(to);
    fprintf(to, "skymem %s: ", sky_version());
    print_wrapped(&p, "one prefix cache for language models, from memory to the sky", 14, 2);
    fputs("\n  skymem VERB [arguments] [options]\n\nVerbs\n", to);
    for (size_t i = 0; verbs[i]; i++)
        print_entry(&p, verbs[i]->name, verbs[i]->summary, 17);
    fputs("\nStart with\n", to);
    print_example(&p, "skymem demo", "a real model, cold and warm from every tier");
    print_example(&p, "echo hello | skymem put k", "store a value; skymem get k reads it back");
    print_example(&p, "skymem VERB --help", "any verb, by example");
}
