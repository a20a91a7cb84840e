/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope config show [VERB...]`: what every option that nobody gave would be, and who says so.
 *
 * Each verb is run with a table of its own being described instead of parsed (cli/options/args.h), so what is shown here
 * is what the verb would take: its default, the environment's member, or the line of a settings file.
 */
#include "cli/cli.h"
#include "cli/options/args.h"
#include "cli/options/nearest.h"
#include "cli/options/settings.h"
#include "cli/verbs.h"
#include "common/base/buf.h"
#include "common/base/json_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct show {
    bool is_all, as_json;
    struct rs_buf buf;
    struct rs_json_out json; /* into buf */
    size_t verb_count;
    bool has_failed;
    struct rs_err err;
};

/* The value as it would be typed; "" for what has no fixed default. */
static void value_text(const struct rs_arg *item, char *text, size_t room)
{
    *text = '\0';
    switch (item->kind) {
    case RS_ARG_FLAG:
        (void)snprintf(text, room, "%s", *(const bool *)item->target ? "yes" : "no");
        break;
    case RS_ARG_TEXT: {
        const char *value = *(const char *const *)item->target;
        (void)snprintf(text, room, "%s", value ? value : "");
        break;
    }
    case RS_ARG_LIST: {
        const struct rs_arg_list *list = item->target;
        size_t used = 0;
        for (size_t i = 0; i < list->count && used < room; i++)
            used +=
                (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "", list->items[i]);
        break;
    }
    case RS_ARG_INT:
        (void)snprintf(text, room, "%" PRId64, *(const int64_t *)item->target);
        break;
    case RS_ARG_DURATION:
        (void)snprintf(text, room, "%gs", (double)*(const int64_t *)item->target / 1e9);
        break;
    case RS_ARG_SIZE:
        (void)snprintf(text, room, "%" PRId64, *(const int64_t *)item->target);
        break;
    case RS_ARG_PERCENT:
        (void)snprintf(text, room, "%g%%", *(const double *)item->target * 100);
        break;
    }
}

static void print_item(struct show *show, const struct rs_args *args, const struct rs_arg *item,
                       const char *value, const char *source)
{
    if (!show->as_json) {
        printf("  %-22s %-36s %s\n", item->name, *value ? value : "-", source);
        return;
    }
    struct rs_json_out *json = &show->json;
    rs_json_out_object(json);
    rs_json_out_key(json, "verb");
    rs_json_out_string(json, args->verb);
    rs_json_out_key(json, "option");
    rs_json_out_string(json, item->name);
    rs_json_out_key(json, "value");
    if (*value)
        rs_json_out_string(json, value);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "source");
    rs_json_out_string(json, source);
    rs_json_out_end(json);
}

static void describe(void *self, const struct rs_args *args)
{
    struct show *show = self;
    bool has_head = false;
    for (size_t i = 0; i < args->count && !show->has_failed; i++) {
        const struct rs_arg *item = &args->items[i];
        enum rs_arg_source from = RS_ARG_FROM_DEFAULT;
        const char *file = NULL;
        char value[1024];
        char source[4200];
        if (rs_args_fill(args, item, &from, &file, &show->err) != RS_OK) {
            show->has_failed = true;
            return;
        }
        value_text(item, value, sizeof value);
        if (from == RS_ARG_FROM_DEFAULT && !show->is_all)
            continue;
        (void)snprintf(source, sizeof source, "%s",
                       from == RS_ARG_FROM_FILE          ? file
                       : from == RS_ARG_FROM_ENVIRONMENT ? item->environment
                                                         : "default");
        if (!has_head && !show->as_json)
            printf("%s\n", args->verb);
        has_head = true;
        print_item(show, args, item, value, source);
    }
    show->verb_count += has_head;
}

static void run_verb(const struct rs_verb *verb)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s", verb->name);
    char *words[] = {name, NULL, NULL};
    if (!verb->subverbs[0]) {
        (void)verb->run(1, words);
        return;
    }
    for (size_t i = 0; i < RS_SUBVERBS_MAX && verb->subverbs[i]; i++) {
        char subverb[32];
        (void)snprintf(subverb, sizeof subverb, "%s", verb->subverbs[i]);
        words[1] = subverb;
        (void)verb->run(2, words);
    }
}

static bool is_wanted(const char *name, int argc, char *const *argv)
{
    if (argc == 0)
        return true;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

/* Every operand must be a verb; a section of a file must be one, or common. */
static enum rs_status check_words(int argc, char *const *argv, struct rs_err *err)
{
    const struct rs_setting *setting = NULL;
    for (size_t i = 0; i < (size_t)argc || (setting = rs_settings_at(i - (size_t)argc)); i++) {
        const char *word = i < (size_t)argc ? argv[i] : setting->section;
        const char *where = i < (size_t)argc ? NULL : setting->file;
        struct rs_nearest nearest = rs_nearest(word);
        bool is_known = where && strcmp(word, "common") == 0;
        const struct rs_verb *verb = NULL;
        for (size_t k = 0; (verb = rs_verb_at(k)) && !is_known; k++) {
            const size_t length = strlen(verb->name);
            rs_nearest_look(&nearest, verb->name);
            is_known = strncmp(word, verb->name, length) == 0 &&
                       (!word[length] || (where && word[length] == ' '));
        }
        if (!is_known)
            return rs_err_set(err, RS_INVALID, "%s%sthere is no verb \"%.40s\"%s%s%s",
                              where ? where : "", where ? ": " : "", word,
                              nearest.best ? "; did you mean \"" : "",
                              nearest.best ? nearest.best : "", nearest.best ? "\"?" : "");
    }
    return RS_OK;
}

static int print_all(struct show *show, int argc, char *const *argv)
{
    const struct rs_verb *verb = NULL;
    if (show->as_json) {
        rs_json_out_init(&show->json, &show->buf, 2);
        rs_json_out_array(&show->json);
    } else {
        printf("settings files:%s\n", rs_settings_file(0) ? "" : " none");
        for (size_t i = 0; rs_settings_file(i); i++)
            printf("  %s\n", rs_settings_file(i));
    }
    rs_args_describe_with(describe, show);
    for (size_t i = 0; (verb = rs_verb_at(i)) && !show->has_failed; i++)
        if (is_wanted(verb->name, argc, argv) && verb->run != rs_cmd_config)
            run_verb(verb);
    rs_args_describe_with(NULL, NULL);
    if (show->has_failed)
        return rs_cli_fail("config show", &show->err);
    if (show->as_json) {
        rs_json_out_end(&show->json);
        printf("%s\n", rs_buf_text(&show->buf));
    } else if (!show->verb_count) {
        printf("everything is at its default; --all shows the defaults\n");
    }
    return RS_EXIT_COMPLETE;
}

int rs_cmd_config_show(int argc, char **argv)
{
    struct show show = {.as_json = false};
    const struct rs_arg items[] = {
        {.name = "all",
         .letter = 'a',
         .kind = RS_ARG_FLAG,
         .target = &show.is_all,
         .help = "options at their default, too"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &show.as_json,
         .help = "as a JSON array of {verb, option, value, source}"},
    };
    const struct rs_args args = {
        .verb = "config show",
        .operands = "[VERB...]",
        .summary = "Which values options have that are not given, and where they come from: "
                   "the environment, a settings file, or the default.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope config show                    # what differs from the defaults\n"
            "  rankscope config show --all collector\n"
            "\n"
            "Read are /etc/rankscope/*.conf, then ~/.config/rankscope/*.conf; RANKSCOPE_CONFIG names\n"
            "another file. An option that is given counts over RANKSCOPE_*, which counts over files.\n"
            "\n"
            "Exit: 0 shown, 2 a file is wrong.\n"};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &show.err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK)
        status = check_words(argc - first, argv + first, &show.err);
    const int code = status == RS_OK ? print_all(&show, argc - first, argv + first)
                                     : (int)rs_cli_fail("config show", &show.err);
    rs_buf_fini(&show.buf);
    return code;
}
