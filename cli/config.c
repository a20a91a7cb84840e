/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope config init|validate|set`: the file that torch_npu's and MindSpore's dynamic profilers watch.
 *
 * A running job acts on every version of this file. So a version is complete (renamed into place), newer by a whole
 * second (the watchers compare seconds), and was judged by the same rules as any capture request before it is
 * there; what does not pass is not written.
 */
#include "cli/cli.h"
#include "cli/options/args.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/base/replace.h"
#include "common/request/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char file_name[] = "profiler_config.json";

struct options {
    const char *out, *framework_name;
    enum rs_config_framework framework;
    bool is_forced, as_json, is_quiet;
};

static enum rs_status take_framework(struct options *options, struct rs_err *err)
{
    const char *name = options->framework_name;
    if (!name || strcmp(name, "auto") == 0)
        options->framework = RS_CONFIG_DETECT;
    else if (strcmp(name, "torch_npu") == 0)
        options->framework = RS_CONFIG_TORCH_NPU;
    else if (strcmp(name, "mindspore") == 0)
        options->framework = RS_CONFIG_MINDSPORE;
    else
        return rs_err_set(err, RS_INVALID,
                          "--framework is torch_npu, mindspore or auto, not \"%.40s\"", name);
    return RS_OK;
}

/* The file that is meant: in a folder, the one of the usual name. NULL: no memory. */
static char *path_of(const char *operand)
{
    struct stat info;
    if (stat(operand, &info) == 0 && S_ISDIR(info.st_mode))
        return rs_file_join(operand, file_name);
    return rs_mem_strdup(operand);
}

/* ---- init ------------------------------------------------------------------------------------------------------------ */

static enum rs_status make_template(enum rs_config_framework framework, struct rs_buf *buf,
                                    struct rs_err *err)
{
    const bool is_mindspore = framework == RS_CONFIG_MINDSPORE;
    struct rs_capture_request request;
    enum rs_status status = rs_request_init(
        &request, is_mindspore ? RS_DIALECT_MINDSPORE : RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE);
    if (status < 0)
        return rs_err_set(err, status, "no memory for a template");
    status = rs_request_to_config(&request, framework, buf, err);
    rs_request_fini(&request);
    return status;
}

static enum rs_status write_template(const struct options *options, const struct rs_buf *buf,
                                     struct rs_err *err)
{
    char *path = path_of(options->out);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", options->out);
    enum rs_status status = options->is_forced
                                ? rs_file_replace_newer(path, buf->data, buf->length, NULL, err)
                                : rs_file_create(path, buf->data, buf->length, err);
    if (status == RS_EXISTS)
        status = rs_err_set(err, RS_EXISTS, "%s is there already; --force replaces it", path);
    if (status == RS_OK && !options->is_quiet)
        printf("%s: a %s template; start_step %s captures nothing until it is changed\n", path,
               rs_config_framework_name(options->framework),
               options->framework == RS_CONFIG_MINDSPORE ? "-1" : "0");
    rs_mem_free(path);
    return status;
}

static int config_init(int argc, char **argv)
{
    struct options options = {.framework_name = "torch_npu"};
    const struct rs_arg items[] = {
        {.name = "out",
         .letter = 'o',
         .kind = RS_ARG_TEXT,
         .target = &options.out,
         .value = "FILE",
         .help = "write it there (a folder: profiler_config.json in it) instead of to stdout"},
        {.name = "framework",
         .kind = RS_ARG_TEXT,
         .target = &options.framework_name,
         .value = "NAME",
         .help = "torch_npu (default) or mindspore"},
        {.name = "force",
         .kind = RS_ARG_FLAG,
         .target = &options.is_forced,
         .help = "replace a file that is there"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &options.is_quiet,
         .help = "say nothing when it worked"},
    };
    const struct rs_args args = {
        .verb = "config init",
        .operands = "",
        .summary = "A profiler_config.json with every documented key at its default.",
        .items = items,
        .count = sizeof items / sizeof items[0]};
    struct rs_err err = {0};
    struct rs_buf buf = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && first < argc)
        status =
            rs_err_set(&err, RS_INVALID, "no operand is expected: \"%.60s\"; see -o", argv[first]);
    if (status == RS_OK)
        status = take_framework(&options, &err);
    if (status == RS_OK && options.framework == RS_CONFIG_DETECT)
        options.framework = RS_CONFIG_TORCH_NPU;
    if (status == RS_OK)
        status = make_template(options.framework, &buf, &err);
    if (status == RS_OK && options.out)
        status = write_template(&options, &buf, &err);
    else if (status == RS_OK)
        printf("%s", rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return status == RS_OK ? RS_EXIT_COMPLETE : (int)rs_cli_fail("config init", &err);
}

/* ---- validate -------------------------------------------------------------------------------------------------------- */

static void print_notes(const char *path, const struct rs_request_notes *notes, FILE *stream)
{
    struct rs_buf buf = {0};
    for (size_t i = 0; i < notes->count; i++) {
        const struct rs_request_note *note = &notes->items[i];
        rs_buf_string(&buf, path);
        if (note->line)
            rs_buf_printf(&buf, ":%u:%u", note->line, note->column);
        rs_buf_string(&buf, ": ");
        rs_request_note_print(note, &buf);
        rs_buf_u8(&buf, '\n');
    }
    if (notes->left_off_count)
        rs_buf_printf(&buf, "%s: and %zu more\n", path, notes->left_off_count);
    fprintf(stream, "%s", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

static void print_document(const char *path, enum rs_config_framework framework,
                           const struct rs_request_notes *notes,
                           const struct rs_capture_request *request)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "file");
    rs_json_out_string(&json, path);
    rs_json_out_key(&json, "framework");
    if (framework == RS_CONFIG_DETECT)
        rs_json_out_null(&json);
    else
        rs_json_out_string(&json, rs_config_framework_name(framework));
    rs_json_out_key(&json, "valid");
    rs_json_out_bool(&json, request != NULL);
    rs_json_out_key(&json, "notes");
    rs_request_notes_to_json(notes, &json);
    rs_json_out_key(&json, "request");
    if (request) {
        struct rs_buf document = {0};
        rs_request_to_json(request, 0, &document);
        rs_json_out_number(&json, rs_buf_text(&document)); /* JSON as it is */
        rs_buf_fini(&document);
    } else {
        rs_json_out_null(&json);
    }
    rs_json_out_end(&json);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

static void print_decision(const char *path, enum rs_config_framework framework,
                           const struct rs_request_notes *notes, bool is_valid)
{
    if (is_valid)
        printf("%s: a valid %s configuration\n", path, rs_config_framework_name(framework));
    else
        printf("%s: %zu %s\n", path, notes->refusal_count,
               notes->refusal_count == 1 ? "error" : "errors");
}

static enum rs_status validate_file(const char *path, const struct options *options,
                                    struct rs_err *err)
{
    struct rs_buf text = {0};
    struct rs_request_notes notes = {0};
    struct rs_capture_request request = {0};
    enum rs_config_framework framework = options->framework;
    enum rs_status status = rs_file_read(path, RS_REQUEST_READ_MAX_BYTES, &text, err);
    if (status == RS_OK) {
        status = rs_request_from_config((const char *)text.data, text.length, &framework, &request,
                                        &notes, err);
        if (options->as_json) {
            print_document(path, framework, &notes, status == RS_OK ? &request : NULL);
        } else if (!options->is_quiet) {
            print_notes(path, &notes, stdout);
            print_decision(path, framework, &notes, status == RS_OK);
        }
    }
    rs_request_fini(&request);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&text);
    return status;
}

static int config_validate(int argc, char **argv)
{
    struct options options = {0};
    const struct rs_arg items[] = {
        {.name = "framework",
         .kind = RS_ARG_TEXT,
         .target = &options.framework_name,
         .value = "NAME",
         .help = "torch_npu, mindspore, or auto by its keys (default)"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &options.as_json,
         .help = "print what was found, and the request it becomes, as JSON"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &options.is_quiet,
         .help = "say nothing; the exit code says it"},
    };
    const struct rs_args args = {
        .verb = "config validate",
        .operands = "FILE",
        .summary = "Holds a profiler_config.json against the documents: every error with its line "
                   "and column. Exit 2 when there is one.",
        .items = items,
        .count = sizeof items / sizeof items[0]};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc - first != 1)
        status = rs_err_set(&err, RS_INVALID, "one FILE is expected");
    if (status == RS_OK)
        status = take_framework(&options, &err);
    if (status < 0)
        return rs_cli_fail("config validate", &err);
    char *path = path_of(argv[first]);
    status = path ? validate_file(path, &options, &err)
                  : rs_err_set(&err, RS_NOMEM, "no memory to read %s", argv[first]);
    rs_mem_free(path);
    if (status == RS_INVALID)
        return RS_EXIT_BAD_REQUEST; /* told on stdout, all of it */
    return status == RS_OK ? RS_EXIT_COMPLETE : (int)rs_cli_fail("config validate", &err);
}

/* ---- set ------------------------------------------------------------------------------------------------------------- */

static enum rs_status edit_all(struct rs_buf *text, enum rs_config_framework framework,
                               char *const *settings, int count, struct rs_err *err)
{
    for (int i = 0; i < count; i++) {
        const char *equals = strchr(settings[i], '=');
        if (!equals || equals == settings[i])
            return rs_err_set(err, RS_INVALID, "KEY=VALUE is expected, not \"%.60s\"", settings[i]);
        char *key = rs_mem_strndup(settings[i], (size_t)(equals - settings[i]));
        struct rs_buf next = {0};
        const struct rs_config_text config = {(const char *)text->data, text->length, framework};
        const enum rs_status status =
            key ? rs_request_config_edit(&config, key, equals + 1, &next, err)
                : rs_err_set(err, RS_NOMEM, "no memory for a key");
        rs_mem_free(key);
        if (status < 0) {
            rs_buf_fini(&next);
            return status;
        }
        rs_buf_fini(text);
        *text = next;
    }
    return RS_OK;
}

/* The framework of the text as it is; what is wrong with it may be what is about to be mended. */
static enum rs_config_framework framework_of(const struct rs_buf *text,
                                             enum rs_config_framework framework)
{
    struct rs_request_notes notes = {0};
    struct rs_capture_request request = {0};
    struct rs_err ignored;
    if (rs_request_from_config((const char *)text->data, text->length, &framework, &request, &notes,
                               &ignored) == RS_OK)
        rs_request_fini(&request);
    rs_request_notes_fini(&notes);
    return framework;
}

/* Judges the text as it would be. What is wrong is told on stderr, all of it. */
static enum rs_status check_text(const char *path, const struct rs_buf *text,
                                 enum rs_config_framework framework, const struct options *options,
                                 struct rs_err *err)
{
    struct rs_request_notes notes = {0};
    struct rs_capture_request request = {0};
    const enum rs_status status = rs_request_from_config((const char *)text->data, text->length,
                                                         &framework, &request, &notes, err);
    if (status < 0 || !options->is_quiet)
        print_notes(path, &notes, stderr);
    rs_request_fini(&request);
    rs_request_notes_fini(&notes);
    if (status == RS_INVALID)
        return rs_err_set(err, RS_INVALID, "%s would not be valid and is left as it is", path);
    return status;
}

static enum rs_status set_file(const char *path, char *const *settings, int count,
                               const struct options *options, struct rs_err *err)
{
    struct rs_buf text = {0};
    rs_ns mtime = 0;
    enum rs_status status = rs_file_read(path, RS_REQUEST_TEXT_MAX_BYTES, &text, err);
    if (status == RS_OK) {
        const enum rs_config_framework framework = framework_of(&text, options->framework);
        if (framework == RS_CONFIG_DETECT)
            status =
                rs_err_set(err, RS_INVALID, "%s is not a JSON object; see config validate", path);
        if (status == RS_OK)
            status = edit_all(&text, framework, settings, count, err);
        if (status == RS_OK)
            status = check_text(path, &text, framework, options, err);
    }
    if (status == RS_OK)
        status = rs_file_replace_newer(path, text.data, text.length, &mtime, err);
    rs_buf_fini(&text);
    if (status < 0)
        return status;
    const rs_ns ahead = mtime - rs_time_realtime();
    if (ahead > 2 * (rs_ns)RS_NS_PER_S)
        rs_cli_note("config set",
                    "%s: the time of the last version was ahead of the clock; this one is %" PRId64
                    " s ahead, and versions written by others are ignored until then",
                    path, ahead / RS_NS_PER_S);
    if (!options->is_quiet)
        printf("%s: %d %s set\n", path, count, count == 1 ? "key" : "keys");
    return RS_OK;
}

static int config_set(int argc, char **argv)
{
    struct options options = {0};
    const struct rs_arg items[] = {
        {.name = "framework",
         .kind = RS_ARG_TEXT,
         .target = &options.framework_name,
         .value = "NAME",
         .help = "torch_npu, mindspore, or auto by its keys (default)"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &options.is_quiet,
         .help = "print errors only"},
    };
    const struct rs_args args = {
        .verb = "config set",
        .operands = "FILE KEY=VALUE...",
        .summary =
            "Changes keys of a profiler_config.json that a job may be watching: what the file "
            "becomes is checked first, and replaces it as a whole. Everything else in it stays "
            "as it is.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue = "  rankscope config set profiler_config.json start_step=120 active=2\n"
                    "  rankscope config set profiler_config.json is_rank=true rank_list=1,4-7\n"
                    "  rankscope config set profiler_config.json profiler_level=Level1 "
                    "metadata.why=\"slow since 14:00\"\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc - first < 2)
        status = rs_err_set(&err, RS_INVALID, "FILE and at least one KEY=VALUE are expected");
    if (status == RS_OK)
        status = take_framework(&options, &err);
    if (status == RS_OK) {
        char *path = path_of(argv[first]);
        status = path ? set_file(path, argv + first + 1, argc - first - 1, &options, &err)
                      : rs_err_set(&err, RS_NOMEM, "no memory to read %s", argv[first]);
        rs_mem_free(path);
    }
    return status == RS_OK ? RS_EXIT_COMPLETE : (int)rs_cli_fail("config set", &err);
}

int rs_cmd_config(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {{"init", config_init},
                 {"validate", config_validate},
                 {"set", config_set},
                 {"show", rs_cmd_config_show}};
    struct rs_err err = {0};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf(
            "usage: rankscope config init|validate|set|show [...]\n\n"
            "The profiler_config.json that torch_npu's and MindSpore's dynamic profilers watch:\n"
            "  init      a template with every documented key\n"
            "  validate  every error with its line and column\n"
            "  set       change keys; checked first, replaced as a whole\n"
            "And Rankscope's own settings (/etc/rankscope/*.conf, ~/.config/rankscope/*.conf):\n"
            "  show      every option, its value and where that comes from\n\n"
            "  rankscope config init -o /srv/job                # a folder: profiler_config.json in it\n"
            "  rankscope config set /srv/job start_step=120 active=2\n"
            "  rankscope config validate /srv/job/profiler_config.json\n\n"
            "Exit: 0 right, or done; 2 there are errors; 3 the file cannot be written.\n"
            "rankscope config WORD --help says more.\n");
        return RS_EXIT_COMPLETE;
    }
    for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    (void)rs_err_set(&err, RS_INVALID, "init, validate, set or show is expected%s%.40s%s",
                     argc > 1 ? ", not \"" : "", argc > 1 ? argv[1] : "", argc > 1 ? "\"" : "");
    return rs_cli_fail("config", &err);
}
