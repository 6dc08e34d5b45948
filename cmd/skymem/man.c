/* Man pages, made from the verb table: see man.h. */
#include "man.h"

#include <string.h>

#define MAN_DATE "November 21, 2026"

/* One word; a backslash, or a leading dot on a line, would be taken for a request. */
static size_t word_out(FILE *to, const char *word, size_t bytes, bool line_start) {
    if (line_start && (*word == '.' || *word == '\''))
        fputs("\\&", to);
    for (size_t i = 0; i < bytes; i++)
        fputs(word[i] == '\\' ? "\\e" : (const char[]){word[i], '\0'}, to);
    return bytes;
}

/* Free text, a line broken after each sentence and before column 80; '\n' parts paragraphs. */
static void man_text(FILE *to, const char *s) {
    size_t column = 0;
    while (*s) {
        size_t bytes = strcspn(s, " \n");
        if (column > 0 && column + 1 + bytes > 78)
            fputc('\n', to), column = 0;
        if (column > 0)
            fputc(' ', to), column++;
        column += word_out(to, s, bytes, column == 0);
        bool sentence = bytes > 1 && s[bytes - 1] == '.' && s[bytes] == ' ';
        s += bytes;
        if (*s == '\n')
            fputs("\n.Pp", to);
        if (*s == '\n' || sentence) {
            fputc('\n', to);
            column = 0;
        }
        s += strspn(s, " \n");
    }
    fputc('\n', to);
}

/* "KEY [FILE]" as macros: .Ar KEY, .Op Ar FILE */
static void man_synopsis(FILE *to, const char *s) {
    while (*s) {
        size_t bytes = strcspn(s, " ");
        bool option = s[0] == '[' && s[bytes - 1] == ']';
        if (option)
            fprintf(to, ".Op Ar %.*s\n", (int)bytes - 2, s + 1);
        else
            fprintf(to, ".Ar %.*s\n", (int)bytes, s);
        s += bytes;
        s += strspn(s, " ");
    }
}

static void option_item(FILE *to, const cli_option *o) {
    fputs(".It ", to);
    if (o->letter)
        fprintf(to, "Fl %c , ", o->letter);
    fprintf(to, "Fl Fl %s", o->name);
    if (o->value)
        fprintf(to, " Ar %s", o->value);
    fputc('\n', to);
    man_text(to, o->help);
    if (o->detail) {
        fputs(".Pp\n", to);
        man_text(to, o->detail);
    }
    if (o->fallback)
        fprintf(to, ".Pp\nDefault:\n.Li %s\n", o->fallback);
}

static void option_list(FILE *to, const cli_verb *verb) {
    fputs(".Bl -tag -width Ds\n", to);
    for (const cli_option *o = verb->options; o && o->name; o++)
        option_item(to, o);
    for (uint32_t i = 0; cli_settings[i].name; i++)
        if (verb->settings & 1u << i)
            option_item(to, &cli_settings[i]);
    for (const cli_option *o = cli_common; o->name; o++)
        if (cli_common_for(verb, o))
            option_item(to, o);
    fputs(".El\n", to);
}

static void json_section(FILE *to, const cli_verb *verb) {
    fprintf(to, ".Ss JSON\nWith\n.Fl Fl json ,\nstandard output holds %s with these fields:\n",
            verb->json_lines ? "one object a line" : "one object");
    fputs(".Bl -tag -width Ds\n", to);
    for (const cli_field *f = verb->fields; f->name; f++) {
        fprintf(to, ".It Va %s\n", f->name);
        man_text(to, f->says);
    }
    fputs(".It Va error , exit\n", to);
    man_text(to, CLI_JSON_FAILURE);
    fputs(".El\n", to);
}

static void exit_section(FILE *to, const char *failed, const char *not_found, bool unavailable) {
    fputs(".Sh EXIT STATUS\n.Bl -tag -width Ds\n.It 0\nDone.\n.It 1\n", to);
    man_text(to, failed
                     ? failed
                     : "It failed; one line on standard error says what, where, and what to do.");
    fputs(".It 2\nThe command line or a setting is wrong.\n", to);
    if (not_found) {
        fputs(".It 3\n", to);
        man_text(to, not_found);
    }
    if (unavailable) {
        fputs(".It 4\n", to);
        man_text(to, CLI_UNAVAILABLE_SAYS);
    }
    fputs(".El\n", to);
}

static void example_section(FILE *to, const cli_verb *verb) {
    fputs(".Sh EXAMPLES\n", to);
    for (const cli_example *e = verb->examples; e->command; e++) {
        if (e != verb->examples)
            fputs(".Pp\n", to);
        char says[300];
        snprintf(says, sizeof says, "%s:", e->says);
        if (says[0] >= 'a' && says[0] <= 'z')
            says[0] = (char)(says[0] - 32);
        man_text(to, says);
        fputs(".Bd -literal -offset indent\n$ ", to);
        word_out(to, e->command, strlen(e->command), false);
        fputs("\n.Ed\n", to);
    }
}

static void man_title(FILE *to, const char *page) {
    char upper[64] = "";
    for (size_t i = 0; page[i] && i < sizeof upper - 1; i++)
        upper[i] = page[i] >= 'a' && page[i] <= 'z' ? (char)(page[i] - 32) : page[i];
    fprintf(to, ".Dd %s\n.Dt %s 1\n.Os SkyMemory %s\n.Sh NAME\n.Nm %s\n", MAN_DATE, upper,
            sky_version(), page);
}

/* .Nd parses its line, so that a summary's "In" or "No" would be a macro: keep words lower-case. */
static void man_description(FILE *to, const char *summary) {
    char first = summary[0];
    fprintf(to, ".Nd %c%s\n", first >= 'A' && first <= 'Z' ? first + 32 : first, summary + 1);
}

void cli_man_verb(const cli_verb *verb, FILE *to) {
    char page[64];
    snprintf(page, sizeof page, "skymem-%s", verb->name);
    man_title(to, page);
    man_description(to, verb->summary);
    fprintf(to, ".Sh SYNOPSIS\n.Nm skymem\n.Cm %s\n", verb->name);
    man_synopsis(to, verb->synopsis);
    fputs(".Op Ar options\n.Sh DESCRIPTION\n", to);
    man_text(to, verb->summary);
    if (verb->about) {
        fputs(".Pp\n", to);
        man_text(to, verb->about);
    }
    fputs(".Pp\nThe options are:\n", to);
    option_list(to, verb);
    if (verb->fields)
        json_section(to, verb);
    exit_section(to, verb->failed, verb->not_found, verb->unavailable);
    example_section(to, verb);
    fputs(".Sh SEE ALSO\n.Xr skymem 1\n", to);
}

static void settings_section(FILE *to) {
    fputs(".Ss Settings\n"
          "Some options are settings: their value is taken from the command line, else\n"
          "from the environment, else from a file, else it is the default.\n"
          ".Cm skymem config\n"
          "prints what is in force and where each value came from.\n"
          "The variable of\n.Fl Fl block-tokens\nis\n.Ev SKYMEM_BLOCK_TOKENS ,\n"
          "its name in the file\n.Li block_tokens ,\nand so on for:\n.Bl -tag -width Ds\n",
          to);
    for (const cli_option *o = cli_settings; o->name; o++)
        option_item(to, o);
    fputs(".El\n", to);
}

/* The verb after `last` in the order of the alphabet, as SEE ALSO wants it; NULL at the end. */
static const char *next_name(const cli_verb *const *verbs, const char *last) {
    const char *next = NULL;
    for (size_t i = 0; verbs[i]; i++)
        if (strcmp(verbs[i]->name, last) > 0 && (!next || strcmp(verbs[i]->name, next) < 0))
            next = verbs[i]->name;
    return next;
}

void cli_man_all(const cli_verb *const *verbs, FILE *to) {
    man_title(to, "skymem");
    fputs(".Nd one prefix cache for language models, from memory to the sky\n"
          ".Sh SYNOPSIS\n.Nm\n.Ar verb\n.Op Ar arguments\n.Op Ar options\n"
          ".Sh DESCRIPTION\n"
          "SkyMemory keeps the attention state (KV cache) of language models under the\n"
          "text it came from: in process memory, on disk, and in a constellation of\n"
          "satellites.\n"
          "A prompt that begins like an earlier one is answered without computing that\n"
          "part again.\n"
          ".Ss Verbs\nEach has a page of its own.\n.Bl -tag -width prefetch\n",
          to);
    for (size_t i = 0; verbs[i]; i++) {
        fprintf(to, ".It Cm %s\n", verbs[i]->name);
        man_text(to, verbs[i]->summary);
    }
    fputs(".El\n", to);
    settings_section(to);
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
          ".It Ev SKYMEM_CONFIG\nThe settings file, unless\n.Fl Fl config\nnames one.\n"
          ".It Ev SKYMEM_STORE\nThe hierarchy: URLs parted by blanks, nearest first.\n"
          ".It Ev SKYMEM_LOG\nWhat the library logs:\n"
          ".Li error , warning\n(default),\n.Li info\nor\n.Li debug ,\n"
          "on standard error, or with\n.Li ,FILE\nbehind it at the end of that file,\n"
          "which is a regular file of the user's own, and no link, or a device.\n"
          ".It Ev SKYMEM_TRACE\nA file for a trace of every request, which chrome://tracing and\n"
          "Perfetto open:\nwhere it waited, which tier answered, and what was copied afterwards.\n"
          ".Li %p\nin its name is the process's number.\nAn older trace is replaced.\n"
          ".It Ev NO_COLOR\nNo bold type and no colour, unless\n.Fl Fl color\nasks for them.\n"
          ".El\n"
          ".Sh FILES\n.Bl -tag -width Ds\n"
          ".It Pa $XDG_CONFIG_HOME/skymem/config.yaml\nSettings.\n"
          ".It Pa $XDG_CACHE_HOME/skymem\nThe default disk tier.\n"
          ".It Pa $XDG_CACHE_HOME/skymem-rates\nHow fast this machine computes each model.\n"
          ".It Pa $XDG_DATA_HOME/skymem/scenarios/NAME.yaml\nThe scenario that is called NAME;\n"
          "after this folder, the installed\n.Pa share/skymem/scenarios\nis searched.\n.El\n",
          to);
    exit_section(to, NULL, "Not found: a miss.", true);
    fputs(".Sh SEE ALSO\n", to);
    const char *last = "";
    for (const char *name; (name = next_name(verbs, last)); last = name)
        fprintf(to, ".Xr skymem-%s 1%s\n", name, next_name(verbs, name) ? " ," : "");
}
