/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope config init|validate|set`: the file that torch_npu's and MindSpore's dynamic profilers watch.
 *
 * A running job acts on every version of this file. So a version is complete (renamed into place), newer by a whole
 * second (the watchers compare seconds), and was judged by the same rules as any capture request before it is
 * there; what does not pass is not written.
 */
#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/replace.h"
#include "common/request/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char file_name[] = "profiler_config.json";

static struct {
    const char *out, *framework;
    bool is_forced, as_json, is_quiet;
} words;

static enum rs_status take_framework(enum rs_config_framework *framework_p, struct rs_err *err)
{
    static const enum rs_config_framework all[] = {RS_CONFIG_DETECT, RS_CONFIG_TORCH_NPU,
                                                   RS_CONFIG_MINDSPORE};
    *framework_p = RS_CONFIG_DETECT;
    for (size_t i = 0; words.framework && i < sizeof all / sizeof all[0]; i++)
        if (strcmp(words.framework, rs_config_framework_name(all[i])) == 0) {
            *framework_p = all[i];
            return RS_OK;
        }
    return words.framework
               ? rs_err_set(err, RS_INVALID,
                            "--framework is torch_npu, mindspore or auto, not \"%.40s\"",
                            words.framework)
               : RS_OK;
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

static enum rs_status write_template(enum rs_config_framework framework, const struct rs_buf *buf,
                                     struct rs_err *err)
{
    char *path = path_of(words.out);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", words.out);
    enum rs_status status = words.is_forced
                                ? rs_file_replace_newer(path, buf->data, buf->length, NULL, err)
                                : rs_file_create(path, buf->data, buf->length, err);
    if (status == RS_EXISTS)
        status = rs_err_set(err, RS_EXISTS, "%s is there already; --force replaces it", path);
    if (status == RS_OK && !words.is_quiet)
        printf("%s: a %s template; start_step %s captures nothing until it is changed\n", path,
               rs_config_framework_name(framework), framework == RS_CONFIG_MINDSPORE ? "-1" : "0");
    rs_mem_free(path);
    return status;
}

static enum rs_status config_init(char **operands, struct rs_err *err)
{
    enum rs_config_framework framework;
    struct rs_buf buf = {0};
    if (*operands)
        return rs_err_set(err, RS_INVALID, "no operand is expected: \"%.60s\"; see -o", *operands);
    enum rs_status status = take_framework(&framework, err);
    if (status == RS_OK && framework == RS_CONFIG_DETECT)
        framework = RS_CONFIG_TORCH_NPU;
    if (status == RS_OK)
        status = rs_config_template(framework, &buf, err);
    if (status == RS_OK && words.out)
        status = write_template(framework, &buf, err);
    else if (status == RS_OK)
        printf("%s", rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return status;
}

/* ---- validate -------------------------------------------------------------------------------------------------------- */

static enum rs_status validate_file(const char *path, enum rs_config_framework framework,
                                    struct rs_err *err)
{
    struct rs_buf text = {0}, shown = {0};
    struct rs_request_notes notes = {0};
    struct rs_capture_request request = {0};
    enum rs_status status = rs_file_read(path, RS_REQUEST_READ_MAX_BYTES, &text, err);
    const bool is_read = status == RS_OK;
    if (is_read)
        status = rs_request_from_config((const char *)text.data, text.length, &framework, &request,
                                        &notes, err);
    if (is_read && words.as_json) {
        rs_config_document(path, framework, &notes, status == RS_OK ? &request : NULL, &shown);
    } else if (is_read && !words.is_quiet) {
        rs_request_notes_print(path, &notes, NULL, &shown);
        if (status == RS_OK)
            rs_buf_printf(&shown, "%s: a valid %s configuration\n", path,
                          rs_config_framework_name(framework));
        else
            rs_buf_printf(&shown, "%s: %zu %s\n", path, notes.refusal_count,
                          notes.refusal_count == 1 ? "error" : "errors");
    }
    printf("%s", rs_buf_text(&shown));
    rs_request_fini(&request);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&shown);
    rs_buf_fini(&text);
    return status;
}

static int config_validate(char **operands)
{
    struct rs_err err = {0};
    enum rs_config_framework framework;
    if (take_framework(&framework, &err) < 0)
        return rs_cli_fail("config validate", &err);
    char *path = path_of(operands[0]);
    const enum rs_status status =
        path ? validate_file(path, framework, &err)
             : rs_err_set(&err, RS_NOMEM, "no memory to read %s", operands[0]);
    rs_mem_free(path);
    if (status == RS_INVALID)
        return RS_EXIT_BAD_REQUEST; /* told on stdout, all of it */
    return rs_cli_end("config validate", status, &err);
}

/* ---- set ------------------------------------------------------------------------------------------------------------- */

static enum rs_status set_file(const char *path, char *const *settings,
                               enum rs_config_framework framework, struct rs_err *err)
{
    struct rs_buf text = {0}, shown = {0};
    struct rs_request_notes notes = {0};
    rs_ns mtime = 0;
    int count = 0;
    enum rs_status status = rs_file_read(path, RS_REQUEST_TEXT_MAX_BYTES, &text, err);
    if (status == RS_OK)
        status = rs_config_edit_all(path, &text, framework, settings, &notes, err);
    if (status < 0 || !words.is_quiet) /* what is wrong is told, all of it */
        rs_request_notes_print(path, &notes, NULL, &shown);
    fprintf(stderr, "%s", rs_buf_text(&shown));
    if (status == RS_OK)
        status = rs_file_replace_newer(path, text.data, text.length, &mtime, err);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&shown);
    rs_buf_fini(&text);
    if (status < 0)
        return status;
    const rs_ns ahead = mtime - rs_time_realtime();
    if (ahead > 2 * (rs_ns)RS_NS_PER_S)
        rs_cli_note("config set",
                    "%s: the time of the last version was ahead of the clock; this one is %" PRId64
                    " s ahead, and versions written by others are ignored until then",
                    path, ahead / RS_NS_PER_S);
    while (settings[count])
        count++;
    if (!words.is_quiet)
        printf("%s: %d %s set\n", path, count, count == 1 ? "key" : "keys");
    return RS_OK;
}

static enum rs_status config_set(char **operands, struct rs_err *err)
{
    enum rs_config_framework framework;
    enum rs_status status = take_framework(&framework, err);
    if (status < 0)
        return status;
    char *path = path_of(operands[0]);
    status = path ? set_file(path, operands + 1, framework, err)
                  : rs_err_set(err, RS_NOMEM, "no memory to read %s", operands[0]);
    rs_mem_free(path);
    return status;
}

static const char config_help[] =
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
    "rankscope config WORD --help says more.\n";

int rs_cmd_config(int argc, char **argv)
{
    struct rs_err err = {0};
    const struct rs_verb config = {.name = "config"};
    const struct rs_verb *sub = argc > 1 ? rs_verb_sub_named(&config, argv[1]) : NULL;
    if (sub)
        return rs_verb_run(sub, argc - 1, argv + 1);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(config_help, stdout);
        return RS_EXIT_COMPLETE;
    }
    (void)rs_err_set(&err, RS_INVALID, "init, validate, set or show is expected%s%.40s%s",
                     argc > 1 ? ", not \"" : "", argc > 1 ? argv[1] : "", argc > 1 ? "\"" : "");
    return rs_cli_fail("config", &err);
}

/* clang-format off */
static const struct rs_arg init_options[] = {
    RS_OPT_TEXT("out", 'o', &words.out, "FILE", "write it there (a folder: profiler_config.json in it) instead of to stdout"),
    RS_OPT_TEXT("framework", 0, &words.framework, "NAME", "torch_npu (default) or mindspore"),
    RS_OPT_FLAG("force", 0, &words.is_forced, "replace a file that is there"),
    RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "say nothing when it worked"),
};
const struct rs_args rs_grammar_config_init = {
    .verb = "config init", .operands = "", .most = RS_ARGS_ANY,
    .summary = "A profiler_config.json with every documented key at its default.",
    RS_OPTIONS(init_options), .act = config_init};
static const struct rs_arg validate_options[] = {
    RS_OPT_TEXT("framework", 0, &words.framework, "NAME", "torch_npu, mindspore, or auto by its keys (default)"),
    RS_OPT_FLAG("json", 0, &words.as_json, "print what was found, and the request it becomes, as JSON"),
    RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "say nothing; the exit code says it"),
};
const struct rs_args rs_grammar_config_validate = {
    .verb = "config validate", .operands = "FILE", .least = 1, .most = 1, .expected = "one FILE is expected",
    .summary = "Holds a profiler_config.json against the documents: every error with its line and column. Exit 2 when there is one.",
    RS_OPTIONS(validate_options), .run = config_validate};
static const struct rs_arg set_options[] = {
    RS_OPT_TEXT("framework", 0, &words.framework, "NAME", "torch_npu, mindspore, or auto by its keys (default)"),
    RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "print errors only"),
};
const struct rs_args rs_grammar_config_set = {
    .verb = "config set", .operands = "FILE KEY=VALUE...", .least = 2, .most = RS_ARGS_ANY, .expected = "FILE and at least one KEY=VALUE are expected",
    .summary = "Changes keys of a profiler_config.json that a job may be watching: what the file becomes is checked first, and replaces it as a whole. Everything else in it stays as it is.",
    RS_OPTIONS(set_options), .act = config_set,
    .epilogue =
        "  rankscope config set profiler_config.json start_step=120 active=2\n"
        "  rankscope config set profiler_config.json is_rank=true rank_list=1,4-7\n"
        "  rankscope config set profiler_config.json profiler_level=Level1 metadata.why=\"slow since 14:00\"\n"};
/* clang-format on */
