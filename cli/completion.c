/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope completion bash|zsh|fish|man|conf`: what shells, man and operators read, written from the option
 * tables that parsing and --help read.
 *
 * What is printed for one verb is a form's `item`, given its grammar (cli/options/args.h). `--all DIR` writes every form, as the package installs them.
 */
#include "cli/cli.h"
#include "cli/options/args.h"
#include "cli/verbs.h"
#include "common/base/file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct writer {
    FILE *to;
    const char *man_dir; /* man pages: a file for each verb */
    const char *only;    /* conf: options of this verb */
    struct rs_err err;   /* the first failure */
};

static void describe_all(rs_args_describe_fn *describe, void *self)
{
    const struct rs_verb *verb = NULL;
    for (size_t i = 0; (verb = rs_verb_at(i)); i++)
        rs_verb_describe(verb, describe, self);
}

/* What a value is, for shells that can complete files and folders. */
static bool is_folder(const struct rs_arg *item)
{
    return item->value && strcmp(item->value, "DIR") == 0;
}

static bool is_file(const struct rs_arg *item)
{
    return item->value && (strcmp(item->value, "FILE") == 0 || strcmp(item->value, "PATH") == 0);
}

/* What may stand behind the verb: true, and it is printed. */
static bool put_words(FILE *to, const struct rs_verb *verb, const char *before, const char *behind)
{
    const struct rs_verb *sub = rs_verb_sub(verb, 0);
    if (!verb->words && !sub)
        return false;
    fprintf(to, "%s%s%s", before, verb->name, behind);
    for (size_t i = 0; (sub = rs_verb_sub(verb, i)); i++)
        fprintf(to, " %s", strchr(sub->name, ' ') + 1);
    if (verb->words)
        fprintf(to, " %s", verb->words);
    return true;
}

static void put_verbs(FILE *to)
{
    const struct rs_verb *verb = NULL;
    for (size_t i = 0; (verb = rs_verb_at(i)); i++)
        fprintf(to, "%s%s", i ? " " : "", verb->name);
}

/* ---- bash --------------------------------------------------------------------------------------------------------- */

static void bash_item(void *self, const struct rs_args *args)
{
    FILE *to = ((struct writer *)self)->to;
    fprintf(to, "        \"%s\") options=\"--help", args->verb);
    for (size_t i = 0; i < args->count; i++)
        fprintf(to, " --%s", args->items[i].name);
    fprintf(to, "\"; folders=\"");
    for (size_t i = 0; i < args->count; i++)
        if (is_folder(&args->items[i]))
            fprintf(to, " --%s ", args->items[i].name);
    fprintf(to, "\"; files=\"");
    for (size_t i = 0; i < args->count; i++)
        if (is_file(&args->items[i]))
            fprintf(to, " --%s ", args->items[i].name);
    fprintf(to, "\"; values=\"");
    for (size_t i = 0; i < args->count; i++)
        if (args->items[i].value && !is_folder(&args->items[i]) && !is_file(&args->items[i]))
            fprintf(to, " --%s ", args->items[i].name);
    fprintf(to, "\" ;;\n");
}

static void write_bash(struct writer *writer)
{
    FILE *to = writer->to;
    const struct rs_verb *verb = NULL;
    fprintf(to, "# bash completion of rankscope, written by `rankscope completion bash`\n"
                "_rankscope() {\n"
                "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                "    local verb=${COMP_WORDS[1]} words= options= folders= files= values=\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                "        COMPREPLY=($(compgen -W \"");
    put_verbs(to);
    fprintf(to, " help --help --version\" -- \"$word\"))\n"
                "        return\n"
                "    fi\n"
                "    case $verb in\n");
    for (size_t i = 0; (verb = rs_verb_at(i)); i++) {
        if (put_words(to, verb, "        ", ") words=\""))
            fprintf(to, "\"%s ;;\n",
                    rs_verb_sub(verb, 0) ? "; verb=\"$verb ${COMP_WORDS[2]}\"" : "");
    }
    fprintf(to, "    esac\n    case $verb in\n");
    describe_all(bash_item, writer);
    fprintf(to,
            "    esac\n"
            "    if [[ $folders == *\" $before \"* ]]; then\n"
            "        COMPREPLY=($(compgen -d -- \"$word\"))\n"
            "    elif [[ $files == *\" $before \"* ]]; then\n"
            "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
            "    elif [[ $values == *\" $before \"* ]]; then\n"
            "        COMPREPLY=()\n"
            "    elif [[ $word == -* ]]; then\n"
            "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
            "    else\n"
            "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\"))\n"
            "    fi\n"
            "}\n"
            "complete -o filenames -F _rankscope rankscope\n");
}

/* ---- zsh ---------------------------------------------------------------------------------------------------------- */

/* Inside '...[text]...': brackets and colons end the text, quotes the word. */
static void put_zsh(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", to);
        else if (strchr("[]:\\", *text))
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
    }
}

static void zsh_item(void *self, const struct rs_args *args)
{
    FILE *to = ((struct writer *)self)->to;
    fprintf(to, "        '%s')\n            _arguments '--help[print help and stop]'", args->verb);
    for (size_t i = 0; i < args->count; i++) {
        const struct rs_arg *item = &args->items[i];
        fprintf(to, " \\\n                '%s--%s%s[", item->kind == RS_ARG_LIST ? "*" : "",
                item->name, item->value ? "=" : "");
        put_zsh(to, item->help);
        fputc(']', to);
        if (item->value) {
            fputc(':', to);
            put_zsh(to, item->value);
            fprintf(to, ":%s", is_folder(item) ? "_files -/" : is_file(item) ? "_files" : "");
        }
        fputc('\'', to);
    }
    fprintf(to, " \\\n                '*:operand:_files' ;;\n");
}

static void write_zsh(struct writer *writer)
{
    FILE *to = writer->to;
    const struct rs_verb *verb = NULL;
    fprintf(to, "#compdef rankscope\n"
                "# zsh completion of rankscope, written by `rankscope completion zsh`\n"
                "_rankscope() {\n"
                "    local verb=$words[2]\n"
                "    local -a verbs\n"
                "    if (( CURRENT == 2 )); then\n"
                "        verbs=(");
    for (size_t i = 0; (verb = rs_verb_at(i)); i++) {
        fprintf(to, "\n            '%s:", verb->name);
        put_zsh(to, verb->sentence);
        fputc('\'', to);
    }
    fprintf(to, ")\n        _describe verb verbs\n        return\n    fi\n    case $verb in\n");
    for (size_t i = 0; (verb = rs_verb_at(i)); i++) {
        if (put_words(to, verb, "        ", ") if (( CURRENT == 3 )); then compadd --"))
            fprintf(to, "; fi%s ;;\n",
                    rs_verb_sub(verb, 0)
                        ? "; verb=\"$verb $words[3]\"; shift words; (( CURRENT-- ))"
                        : "");
    }
    fprintf(to, "    esac\n    shift words; (( CURRENT-- ))\n    case $verb in\n");
    describe_all(zsh_item, writer);
    fprintf(to, "    esac\n}\n_rankscope \"$@\"\n");
}

/* ---- fish --------------------------------------------------------------------------------------------------------- */

static void put_fish(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            fputc('\\', to);
        fputc(*text, to);
    }
}

static void fish_item(void *self, const struct rs_args *args)
{
    FILE *to = ((struct writer *)self)->to;
    const char *space = strchr(args->verb, ' ');
    for (size_t i = 0; i < args->count; i++) {
        const struct rs_arg *item = &args->items[i];
        fprintf(to, "complete -c rankscope -n '__fish_seen_subcommand_from %.*s%s%s' -l %s",
                space ? (int)(space - args->verb) : (int)strlen(args->verb), args->verb,
                space ? "; and __fish_seen_subcommand_from" : "", space ? space : "", item->name);
        if (item->letter)
            fprintf(to, " -s %c", item->letter);
        if (item->value)
            fprintf(to, " -r%s", is_folder(item) || is_file(item) ? "F" : "f");
        fprintf(to, " -d '");
        put_fish(to, item->help);
        fprintf(to, "'\n");
    }
}

static void write_fish(struct writer *writer)
{
    FILE *to = writer->to;
    const struct rs_verb *verb = NULL;
    fprintf(to, "# fish completion of rankscope, written by `rankscope completion fish`\n");
    for (size_t i = 0; (verb = rs_verb_at(i)); i++) {
        fprintf(to, "complete -c rankscope -f -n __fish_use_subcommand -a %s -d '", verb->name);
        put_fish(to, verb->sentence);
        fprintf(to, "'\n");
        if (put_words(to, verb, "complete -c rankscope -n '__fish_seen_subcommand_from ", "' -a '"))
            fprintf(to, "'\n");
    }
    describe_all(fish_item, writer);
}

/* ---- man ---------------------------------------------------------------------------------------------------------- */

/* roff: a leading dot or quote is a request, a backslash an escape, a dash a hyphen. */
static void put_roff(FILE *to, const char *text)
{
    bool is_line_start = true;
    for (; *text; text++) {
        if (is_line_start && (*text == '.' || *text == '\''))
            fputs("\\&", to);
        if (*text == '\\')
            fputs("\\e", to);
        else if (*text == '-')
            fputs("\\-", to);
        else
            fputc(*text, to);
        is_line_start = *text == '\n';
    }
}

static void man_head(FILE *to, const char *page, const char *sentence)
{
    fprintf(to, ".TH \"");
    for (const char *at = page; *at; at++)
        fputc(toupper((unsigned char)*at), to);
    fprintf(to, "\" 1 \"\" \"rankscope %s\" \"Rankscope\"\n.SH NAME\n", RS_PROGRAM_VERSION);
    put_roff(to, page);
    fprintf(to, " \\- ");
    put_roff(to, sentence);
    fputc('\n', to);
}

static void man_options(FILE *to, const struct rs_args *args)
{
    fprintf(to, ".SH OPTIONS\n");
    for (size_t i = 0; i < args->count; i++) {
        const struct rs_arg *item = &args->items[i];
        fprintf(to, ".TP\n");
        if (item->letter)
            fprintf(to, "\\fB\\-%c\\fR, ", item->letter);
        fprintf(to, "\\fB\\-\\-");
        put_roff(to, item->name);
        fprintf(to, "\\fR");
        if (item->value) {
            fprintf(to, " \\fI");
            put_roff(to, item->value);
            fprintf(to, "\\fR");
        }
        fputc('\n', to);
        put_roff(to, item->help);
        if (item->environment)
            fprintf(to, " [%s]", item->environment);
        fputc('\n', to);
    }
    fprintf(to, ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint help and stop\n");
}

static void man_page(void *self, const struct rs_args *args)
{
    struct writer *writer = self;
    char page[64] = "rankscope-";
    char path[4096];
    const size_t length = strlen(page);
    (void)snprintf(page + length, sizeof page - length, "%s", args->verb);
    for (char *at = page; *at; at++)
        if (*at == ' ')
            *at = '-';
    (void)snprintf(path, sizeof path, "%s/%s.1", writer->man_dir, page);
    FILE *to = writer->man_dir ? fopen(path, "w") : writer->to;
    if (!to) {
        (void)rs_err_errno(&writer->err, "cannot write %s", path);
        return;
    }
    const char *end = strchr(args->summary, '.');
    char sentence[256];
    (void)snprintf(sentence, sizeof sentence, "%.*s",
                   end ? (int)(end - args->summary) : (int)strlen(args->summary), args->summary);
    man_head(to, page, sentence);
    fprintf(to, ".SH SYNOPSIS\n\\fBrankscope %s\\fR [\\fIOPTION\\fR...] ", args->verb);
    put_roff(to, args->operands);
    fprintf(to, "\n.SH DESCRIPTION\n");
    put_roff(to, args->summary);
    fputc('\n', to);
    man_options(to, args);
    if (args->epilogue) {
        fprintf(to, ".SH NOTES\n.nf\n");
        put_roff(to, args->epilogue);
        fprintf(to, ".fi\n");
    }
    fprintf(to, ".SH SEE ALSO\n\\fBrankscope\\fR(1)\n");
    if (writer->man_dir && fclose(to) != 0)
        (void)rs_err_errno(&writer->err, "cannot write %s", path);
}

static void write_man(struct writer *writer)
{
    FILE *to = writer->to;
    const struct rs_verb *verb = NULL;
    man_head(to, "rankscope", "profiles all ranks of a training job and names who holds them up");
    fprintf(
        to,
        ".SH SYNOPSIS\n\\fBrankscope\\fR \\fIVERB\\fR [\\fIOPTION\\fR...] [\\fIOPERAND\\fR...]\n"
        ".SH VERBS\n");
    for (size_t i = 0; (verb = rs_verb_at(i)); i++) {
        fprintf(to, ".TP\n\\fB%s\\fR\n", verb->name);
        put_roff(to, verb->sentence);
        fputc('\n', to);
    }
    fprintf(to, ".SH EXIT STATUS\n"
                ".TP\n0\ncomplete\n"
                ".TP\n1\na result, but partial: what is missing is said\n"
                ".TP\n2\nbad request or bad input\n"
                ".TP\n3\nrefused: policy, permission, room\n"
                ".TP\n4\nno aggregator answers\n"
                ".TP\n5\na threshold that was asked for is crossed\n"
                ".TP\n130\ninterrupted\n"
                ".SH FILES\n"
                ".TP\n/etc/rankscope/*.conf, ~/.config/rankscope/*.conf\n"
                "settings, see \\fBrankscope\\-config\\-show\\fR(1)\n"
                ".TP\n/run/rankscope\nsockets\n"
                ".TP\n/var/lib/rankscope\ncaptures, and the spool of a collector\n");
}

/* ---- conf --------------------------------------------------------------------------------------------------------- */

static void conf_item(void *self, const struct rs_args *args)
{
    FILE *to = ((struct writer *)self)->to;
    fprintf(to, "\n[%s]\n", args->verb);
    for (size_t i = 0; i < args->count; i++) {
        const struct rs_arg *item = &args->items[i];
        fprintf(to, "# %s\n#%s = %s\n", item->help, item->name,
                item->kind == RS_ARG_FLAG ? "yes" : item->value);
    }
}

static void write_conf(struct writer *writer)
{
    const struct rs_verb *verb = NULL;
    fprintf(
        writer->to,
        "# Settings of Rankscope. Every line is a comment: what is not set has its default.\n"
        "# An option given on the command line counts over RANKSCOPE_* variables, these over this file.\n"
        "# Every option of every verb can stand here, in a section of the verb's name.\n"
        "# `rankscope config show` says what counts, and why. '$' and '\\' are written \\$ and \\\\.\n"
        "\n"
        "[common]\n"
        "# the aggregator, for every verb that asks one: unix:PATH or HOST:PORT\n"
        "#connect = unix:/run/rankscope/aggregator.sock\n");
    for (size_t i = 0; (verb = rs_verb_at(i)); i++)
        if (verb->args == &rs_grammar_aggregator || verb->args == &rs_grammar_collector)
            rs_verb_describe(verb, conf_item, writer);
}

/* ---- the verb ----------------------------------------------------------------------------------------------------- */

static const struct form {
    const char *name, *file;
    void (*write)(struct writer *writer);
} forms[] = {
    {"bash", "rankscope.bash", write_bash}, {"zsh", "rankscope.zsh", write_zsh},
    {"fish", "rankscope.fish", write_fish}, {"man", "man1/rankscope.1", write_man},
    {"conf", "rankscope.conf", write_conf},
};

enum { FORM_COUNT = sizeof forms / sizeof forms[0] };

static enum rs_status write_all(const char *dir, struct rs_err *err)
{
    char man[4096];
    (void)snprintf(man, sizeof man, "%s/man1", dir);
    enum rs_status status = rs_file_make_dirs(man, 0755, err);
    for (size_t i = 0; i < FORM_COUNT && status == RS_OK; i++) {
        char path[4200];
        (void)snprintf(path, sizeof path, "%s/%s", dir, forms[i].file);
        struct writer writer = {.to = fopen(path, "w")};
        if (!writer.to)
            return rs_err_errno(err, "cannot write %s", path);
        forms[i].write(&writer);
        if (fclose(writer.to) != 0)
            status = rs_err_errno(err, "cannot write %s", path);
    }
    struct writer pages = {.man_dir = man};
    if (status == RS_OK)
        describe_all(man_page, &pages);
    if (status == RS_OK && pages.err.status < 0) {
        *err = pages.err;
        status = pages.err.status;
    }
    return status;
}

static enum rs_status write_one(const char *name, struct rs_err *err)
{
    struct writer writer = {.to = stdout};
    for (size_t i = 0; i < FORM_COUNT; i++) {
        if (strcmp(name, forms[i].name) != 0)
            continue;
        forms[i].write(&writer);
        if (strcmp(name, "man") == 0)
            describe_all(man_page, &writer);
        return RS_OK;
    }
    return rs_err_set(err, RS_INVALID, "bash, zsh, fish, man or conf is expected, not \"%.40s\"",
                      name);
}

static const char *all;

static enum rs_status completion(char **operands, struct rs_err *err)
{
    if (all ? *operands != NULL : !*operands || operands[1])
        return rs_err_set(err, RS_INVALID, "one of bash, zsh, fish, man, conf is expected");
    return all ? write_all(all, err) : write_one(operands[0], err);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_TEXT("all", 0, &all, "DIR", "write every form into DIR, as a package installs them"),
};
const struct rs_args rs_grammar_completion = {
    .verb = "completion", .operands = "bash|zsh|fish|man|conf", .most = RS_ARGS_ANY,
    .summary = "Completion for a shell, the man pages, or a settings file with every option, on stdout.",
    RS_OPTIONS(options), .act = completion,
    .epilogue =
        "  source <(rankscope completion bash)\n"
        "  rankscope completion fish > ~/.config/fish/completions/rankscope.fish\n"
        "  rankscope completion conf > ~/.config/rankscope/rankscope.conf\n"};
/* clang-format on */
