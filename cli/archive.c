/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope archive ID...` and `rankscope restore ID...`: closed captures to the aggregator's object storage, and back;
 * `rankscope rm ID...`: those that nobody needs any more.
 *
 * The aggregator does it, and goes on when this command is interrupted; asked again, what is there is not sent twice.
 */
#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/answer/answer.h"
#include "common/client/captures.h"
#include "common/client/client.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *connect;
    bool as_json, is_quiet;
} words;

struct moving {
    const char *verb, *id;
    bool has_line;
};

static const char *size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    (void)snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

static void end_line(struct moving *moving)
{
    if (moving->has_line)
        (void)fputc('\n', stderr);
    moving->has_line = false;
}

/* On a terminal one line that changes; elsewhere a line each time. */
static void show(void *self, uint64_t done_bytes, uint64_t all_bytes)
{
    struct moving *moving = self;
    char done[32], all[32];
    if (words.is_quiet)
        return;
    const bool is_terminal = isatty(STDERR_FILENO) != 0;
    (void)fprintf(stderr, "%s%s: %s%s%s%s", is_terminal ? "\r\033[K" : "", moving->id,
                  strcmp(moving->verb, "archive") == 0 ? "archived " : "restored ",
                  size_text(done_bytes, done), all_bytes ? " of " : "",
                  all_bytes ? size_text(all_bytes, all) : "");
    if (!is_terminal)
        (void)fputc('\n', stderr);
    moving->has_line = is_terminal;
    (void)fflush(stderr);
}

/* What the aggregator says of it then: of one that was removed, as it was. */
static enum rs_status ask(const char *verb, const struct rs_address *address, const char *id,
                          Rankscope__CaptureInfo **info_p, struct rs_err *err)
{
    struct moving moving = {.verb = verb, .id = id};
    const struct rs_client_move move = {
        .is_restore = strcmp(verb, "restore") == 0, .on_progress = show, .self = &moving};
    if (strcmp(verb, "rm") == 0)
        return rs_client_capture(address, RS_CLIENT_REMOVE, id, info_p, err);
    const enum rs_status status = rs_client_capture_move(address, id, &move, info_p, err);
    end_line(&moving);
    return status;
}

static enum rs_status move_one(const char *verb, const struct rs_address *address, const char *id,
                               struct rs_err *err)
{
    struct rs_buf json = {0};
    Rankscope__CaptureInfo *info = NULL;
    const enum rs_status status = ask(verb, address, id, &info, err);
    if (status >= 0 && !info)
        return rs_err_set(err, RS_VERSION, "the aggregator did not say what %s",
                          strcmp(verb, "rm") == 0 ? "it removed" : "became of it");
    if (status < 0)
        return status;
    if (words.as_json)
        rs_answer_capture(info, 2, &json);
    if (words.as_json)
        printf("%s\n", rs_buf_text(&json));
    else if (!words.is_quiet && strcmp(verb, "archive") == 0)
        printf("%s archived at %.1023s\n", id, info->archive);
    else if (!words.is_quiet)
        printf("%s %s\n", id, strcmp(verb, "rm") == 0 ? "removed" : "restored");
    rs_buf_fini(&json);
    rankscope__capture_info__free_unpacked(info, NULL);
    return RS_OK;
}

/* Each is tried: one that cannot be moved does not keep the others. */
static int move_all(const char *verb, char **ids)
{
    struct rs_err err = {0};
    struct rs_address address;
    int code = RS_EXIT_COMPLETE;
    if (rs_client_address(words.connect, &address, &err) < 0)
        return rs_cli_fail(verb, &err);
    for (; *ids; ids++) {
        const enum rs_status status = move_one(verb, &address, *ids, &err);
        if (status == RS_CANCELLED) {
            if (strcmp(verb, "rm") != 0)
                rs_cli_note(verb, "the aggregator goes on with %s", *ids);
            return RS_EXIT_INTERRUPTED;
        }
        if (status < 0)
            code = rs_cli_fail(verb, &err);
        if (status == RS_UNREACHABLE)
            return code;
    }
    return code;
}

static int archive(char **ids)
{
    return move_all("archive", ids);
}

static int restore(char **ids)
{
    return move_all("restore", ids);
}

static int rm(char **ids)
{
    return move_all("rm", ids);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("json", 0, &words.as_json, "print each capture as it is now, as JSON"),
    RS_CLI_QUIET_ARG(&words.is_quiet),
    RS_CLI_CONNECT_ARGS(&words.connect),
};
const struct rs_args rs_grammar_archive = {
    .verb = "archive", .operands = "ID...", .least = 1, .most = RS_ARGS_ANY, .expected = "archive takes the IDs of captures",
    .summary = "Moves captures that are closed to the object storage that the aggregator was started with (--archive s3://BUCKET). They stay in the list; what is asked of one is fetched then.",
    RS_OPTIONS(options), .run = archive,
    .epilogue =
        "  rankscope archive 20260102-030405-a1b2c3\n"
        "\n"
        "Nothing goes from the aggregator's disk before all of it is there. Interrupted, the\n"
        "aggregator goes on; asked again, what is there already is not sent twice.\n"
        "\n"
        "Exit: 0 archived, 2 there is no such capture, 3 refused: it goes on, there is no archive, or\n"
        "you may not, 4 no aggregator answers, or no archive, 130 interrupted.\n"};
const struct rs_args rs_grammar_restore = {
    .verb = "restore", .operands = "ID...", .least = 1, .most = RS_ARGS_ANY, .expected = "restore takes the IDs of captures",
    .summary = "Brings archived captures back to the aggregator's disk, byte for byte: each file is held against its SHA-256. One that the aggregator does not know is looked for in the archive.",
    RS_OPTIONS(options), .run = restore,
    .epilogue =
        "  rankscope restore 20260102-030405-a1b2c3\n"
        "\n"
        "What is in the archive stays there, and goes with rankscope rm.\n"
        "\n"
        "Exit: 0 restored, 2 there is no such capture, 3 refused, 4 no aggregator answers, or\n"
        "no archive, 130 interrupted.\n"};
static const struct rs_arg rm_options[] = {
    RS_OPT_FLAG("json", 0, &words.as_json, "print each capture as it was, as JSON"),
    RS_CLI_QUIET_ARG(&words.is_quiet),
    RS_CLI_CONNECT_ARGS(&words.connect),
};
const struct rs_args rs_grammar_rm = {
    .verb = "rm", .operands = "ID...", .least = 1, .most = RS_ARGS_ANY, .expected = "rm takes the IDs of captures",
    .summary = "Removes captures that are closed, with all that the aggregator stored of them. There is no way back.",
    RS_OPTIONS(rm_options), .run = rm,
    .epilogue =
        "  rankscope rm 20260102-030405-a1b2c3\n"
        "\n"
        "Exit: 0 removed, 2 there is no such capture, 3 refused: it goes on, or you may not,\n"
        "4 no aggregator answers.\n"};
/* clang-format on */
