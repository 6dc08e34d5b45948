/* Help on a terminal: what it is for, examples first, then every option. */
#include "cli.h"

#include <string.h>

#define WRAP 92

/* Print words from column `indent` on, wrapped; the cursor already stands at `column`. */
static void wrap(FILE *to, const char *text, size_t column, size_t indent) {
    bool fresh = true;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (!fresh && column + 1 + word > WRAP) {
            fprintf(to, "\n%*s", (int)indent, "");
            column = indent;
            fresh = true;
        }
        fprintf(to, "%s%.*s", fresh ? "" : " ", (int)word, text);
        column += word + (fresh ? 0 : 1);
        fresh = false;
        text += word;
        if (*text == '\n') {
            fprintf(to, "\n%*s", (int)indent, "");
            column = indent;
            fresh = true;
        }
        text += strspn(text, " \n");
    }
    fputc('\n', to);
}

/* "left            right, wrapped under itself" */
static void entry(FILE *to, const char *left, const char *right, size_t indent) {
    size_t column = 2 + strlen(left);
    fprintf(to, "  %s", left);
    if (column + 2 > indent) {
        fprintf(to, "\n%*s", (int)indent, "");
    } else {
        fprintf(to, "%*s", (int)(indent - column), "");
    }
    wrap(to, right, indent, indent);
}

static void option_line(FILE *to, const cli_option *o) {
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
    entry(to, left, right, 26);
}

static void options(FILE *to, const cli_verb *verb) {
    fputs("\nOptions\n", to);
    for (const cli_option *o = verb->options; o && o->name; o++)
        option_line(to, o);
    for (uint32_t i = 0; cli_settings[i].name; i++)
        if (verb->settings & 1u << i)
            option_line(to, &cli_settings[i]);
    for (const cli_option *o = cli_common; o->name; o++) {
        bool refused = (strcmp(o->name, "json") == 0 && !verb->fields) ||
                       (strcmp(o->name, "config") == 0 && !verb->settings);
        if (!refused)
            option_line(to, o);
    }
}

static void exits(FILE *to, const cli_verb *verb) {
    fputs("\nExit status\n", to);
    entry(to, "0", "done", 6);
    entry(to, "1", verb->failed ? verb->failed : "it failed; one line on stderr says why", 6);
    entry(to, "2", "the command line or a setting is wrong", 6);
    if (verb->not_found)
        entry(to, "3", verb->not_found, 6);
}

void cli_help_verb(const cli_verb *verb, FILE *to) {
    fprintf(to, "skymem %s: %s\n\n  skymem %s%s%s%s\n", verb->name, verb->summary, verb->name,
            verb->synopsis[0] ? " " : "", verb->synopsis, " [options]");
    fputs("\nExamples\n", to);
    for (const cli_example *e = verb->examples; e->command; e++) {
        fprintf(to, "  $ %s\n      ", e->command);
        wrap(to, e->says, 6, 6);
    }
    if (verb->about) {
        fputs("\nAbout\n  ", to);
        wrap(to, verb->about, 2, 2);
    }
    options(to, verb);
    if (verb->fields) {
        fprintf(to, "\nJSON, %s\n", verb->json_lines ? "one object a line" : "one object");
        for (const cli_field *f = verb->fields; f->name; f++)
            entry(to, f->name, f->says, 26);
        entry(to, "error, exit", CLI_JSON_FAILURE, 26);
    }
    exits(to, verb);
}

void cli_help_all(FILE *to) {
    fprintf(to,
            "skymem %s: one prefix cache for language models, from memory to the sky\n\n"
            "  skymem VERB [arguments] [options]\n\nVerbs\n",
            sky_version());
    for (size_t i = 0; cli_verbs[i]; i++)
        entry(to, cli_verbs[i]->name, cli_verbs[i]->summary, 14);
    fputs("\nStart with\n"
          "  $ skymem demo                   a real model, cold and warm from every tier\n"
          "  $ echo hello | skymem put k     store a value; skymem get k reads it back\n"
          "  $ skymem VERB --help            any verb, by example\n",
          to);
}
