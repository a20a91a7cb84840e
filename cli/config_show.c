/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope config show [VERB...]`: what every option that nobody gave would be, and who says so.
 *
 * What is shown comes of the grammar that the verb is parsed by, so it is what the verb would take: its default, the environment's
 * member, or the line of a settings file.
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

static struct {
    bool is_all, as_json;
} words;

struct show {
    struct rs_buf buf;
    struct rs_json_out json; /* into buf */
    size_t verb_count;
    enum rs_status status; /* of the first failure */
    struct rs_err *err;
};

/* The value as it would be typed; "" for what has no fixed default. */
static void value_text(const struct rs_arg *item, char *text, size_t room)
{
    *text = '\0';
    switch (item->kind) {
    case RS_ARG_FLAG:
        (void)snprintf(text, room, "%s", *item->flag ? "yes" : "no");
        break;
    case RS_ARG_TEXT: {
        (void)snprintf(text, room, "%s", *item->text ? *item->text : "");
        break;
    }
    case RS_ARG_LIST: {
        const struct rs_arg_list *list = item->list;
        size_t used = 0;
        for (size_t i = 0; i < list->count && used < room; i++)
            used +=
                (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "", list->items[i]);
        break;
    }
    case RS_ARG_INT:
        (void)snprintf(text, room, "%" PRId64, *item->number);
        break;
    case RS_ARG_DURATION:
        (void)snprintf(text, room, "%gs", (double)*item->number / 1e9);
        break;
    case RS_ARG_SIZE:
        (void)snprintf(text, room, "%" PRId64, *item->number);
        break;
    case RS_ARG_PERCENT:
        (void)snprintf(text, room, "%g%%", *item->share * 100);
        break;
    }
}

static void print_item(struct show *show, const struct rs_args *args, const struct rs_arg *item,
                       const char *value, const char *source)
{
    if (!words.as_json) {
        printf("  %-22s %-36s %s\n", item->name, *value ? value : "-", source);
        return;
    }
    struct rs_json_out *json = &show->json;
    rs_json_out_object(json);
    rs_json_put_string(json, "verb", args->verb);
    rs_json_put_string(json, "option", item->name);
    rs_json_put_text(json, "value", value);
    rs_json_put_string(json, "source", source);
    rs_json_out_end(json);
}

static void describe(void *self, const struct rs_args *args)
{
    struct show *show = self;
    bool has_head = false;
    for (size_t i = 0; i < args->count && show->status == RS_OK; i++) {
        const struct rs_arg *item = &args->items[i];
        enum rs_arg_source from = RS_ARG_FROM_DEFAULT;
        const char *file = NULL;
        char value[1024];
        char source[4200];
        show->status = rs_args_fill(args, item, &from, &file, show->err);
        if (show->status < 0)
            return;
        value_text(item, value, sizeof value);
        if (from == RS_ARG_FROM_DEFAULT && !words.is_all)
            continue;
        (void)snprintf(source, sizeof source, "%s",
                       from == RS_ARG_FROM_FILE          ? file
                       : from == RS_ARG_FROM_ENVIRONMENT ? item->environment
                                                         : "default");
        if (!has_head && !words.as_json)
            printf("%s\n", args->verb);
        has_head = true;
        print_item(show, args, item, value, source);
    }
    show->verb_count += has_head;
}

static bool is_wanted(const char *name, char *const *wanted)
{
    const bool is_all = !*wanted;
    while (*wanted && strcmp(*wanted, name) != 0)
        wanted++;
    return is_all || *wanted;
}

/* `where`: the file in whose section it stands, which may be [common] or of a sub-verb; NULL: an operand. */
static enum rs_status check_word(const char *word, const char *where, struct rs_err *err)
{
    struct rs_nearest nearest = rs_nearest(word);
    bool is_known = where && strcmp(word, "common") == 0;
    const struct rs_verb *verb = NULL;
    for (size_t i = 0; (verb = rs_verb_at(i)) && !is_known; i++) {
        const size_t length = strlen(verb->name);
        rs_nearest_look(&nearest, verb->name);
        is_known = strncmp(word, verb->name, length) == 0 &&
                   (!word[length] || (where && word[length] == ' '));
    }
    return is_known ? RS_OK
                    : rs_err_set(err, RS_INVALID, "%s%sthere is no verb \"%.40s\"%s%s%s",
                                 where ? where : "", where ? ": " : "", word,
                                 nearest.best ? "; did you mean \"" : "",
                                 nearest.best ? nearest.best : "", nearest.best ? "\"?" : "");
}

static enum rs_status print_all(struct show *show, char *const *wanted)
{
    const struct rs_verb *verb = NULL;
    if (words.as_json) {
        rs_json_out_init(&show->json, &show->buf, 2);
        rs_json_out_array(&show->json);
    } else {
        printf("settings files:%s\n", rs_settings_file(0) ? "" : " none");
        for (size_t i = 0; rs_settings_file(i); i++)
            printf("  %s\n", rs_settings_file(i));
    }
    for (size_t i = 0; (verb = rs_verb_at(i)) && show->status == RS_OK; i++)
        if (is_wanted(verb->name, wanted) && verb->run != rs_cmd_config)
            rs_verb_describe(verb, describe, show);
    if (show->status < 0)
        return show->status;
    if (words.as_json) {
        rs_json_out_end(&show->json);
        printf("%s\n", rs_buf_text(&show->buf));
    } else if (!show->verb_count) {
        printf("everything is at its default; --all shows the defaults\n");
    }
    return RS_OK;
}

static enum rs_status config_show(char **operands, struct rs_err *err)
{
    struct show show = {.err = err};
    const struct rs_setting *setting = NULL;
    enum rs_status status = RS_OK;
    for (size_t i = 0; operands[i] && status == RS_OK; i++)
        status = check_word(operands[i], NULL, err);
    for (size_t i = 0; status == RS_OK && (setting = rs_settings_at(i)); i++)
        status = check_word(setting->section, setting->file, err);
    if (status == RS_OK)
        status = print_all(&show, operands);
    rs_buf_fini(&show.buf);
    return status;
}

/* clang-format off */
static const struct rs_arg show_options[] = {
    RS_OPT_FLAG("all", 'a', &words.is_all, "options at their default, too"),
    RS_OPT_FLAG("json", 0, &words.as_json, "as a JSON array of {verb, option, value, source}"),
};
const struct rs_args rs_grammar_config_show = {
    .verb = "config show", .operands = "[VERB...]", .most = RS_ARGS_ANY,
    .summary = "Which values options have that are not given, and where they come from: the environment, a settings file, or the default.",
    RS_OPTIONS(show_options), .act = config_show,
    .epilogue =
        "  rankscope config show                    # what differs from the defaults\n"
        "  rankscope config show --all collector\n"
        "\n"
        "Read are /etc/rankscope/*.conf, then ~/.config/rankscope/*.conf; RANKSCOPE_CONFIG names\n"
        "another file. An option that is given counts over RANKSCOPE_*, which counts over files.\n"
        "\n"
        "Exit: 0 shown, 2 a file is wrong.\n"};
/* clang-format on */
