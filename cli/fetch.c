/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope fetch ID`: raw data that a capture left with its collectors (`capture --raw none | EXPR`) is sent now.
 *
 * Waits until it is stored, or named as lost: what was held too long, or stood in the way of something newer, is evicted.
 */
#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/answer/answer.h"
#include "common/answer/answer_text.h"
#include "common/client/captures.h"
#include "common/client/client.h"

#include <stdio.h>
#include <string.h>

static struct {
    const char *connect, *ranks;
    bool as_json, is_quiet;
} words;

static char shown[256];

static bool on_progress(void *self, const Rankscope__CaptureInfo *info)
{
    char line[sizeof shown];
    (void)self;
    rs_answer_capture_line(info, line, sizeof line);
    if (!words.is_quiet && strcmp(line, shown) != 0)
        fprintf(stderr, "%s\n", line);
    (void)snprintf(shown, sizeof shown, "%s", line);
    return true;
}

static void print(const Rankscope__CaptureInfo *info)
{
    struct rs_cli_noter noter = {.verb = "fetch"};
    struct rs_buf buf = {0};
    if (words.as_json)
        rs_answer_capture(info, 2, &buf);
    else
        rs_answer_capture_ends(info, rs_cli_note_line, &noter);
    if (words.as_json)
        printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

static int fetch(char **operands)
{
    struct rs_err err = {0};
    struct rs_address address;
    struct rs_capture_follow follow = {.on_progress = on_progress};
    enum rs_status status = rs_client_address(words.connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_capture_fetch(&address, operands[0], words.ranks ? words.ranks : "",
                                         &follow, &err);
    if (status >= 0 && !follow.info)
        status = rs_err_set(&err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    int code = rs_cli_end("fetch", status, &err);
    if (status >= 0) {
        print(follow.info);
        if (follow.info->state == RS_CAPTURE_PARTIAL || follow.info->state == RS_CAPTURE_FAILED)
            code = RS_EXIT_PARTIAL;
    }
    rs_capture_follow_fini(&follow);
    return code;
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_TEXT("ranks", 0, &words.ranks, "EXPR", "whose: 0,3-7, node=n12 (default: all of the capture)"),
    RS_CLI_CONNECT_ARGS(&words.connect),
    RS_OPT_FLAG("json", 0, &words.as_json, "print JSON; unknown is null"),
    RS_CLI_QUIET_ARG(&words.is_quiet),
};
const struct rs_args rs_grammar_fetch = {
    .verb = "fetch", .operands = "ID", .least = 1, .most = 1, .expected = "fetch takes the ID of one capture",
    .summary = "Sends the raw data that a capture left with its collectors (capture --raw none, or for some ranks only), and waits until it is stored. The findings do not need it; verify and export do.",
    RS_OPTIONS(options), .run = fetch,
    .epilogue =
        "  rankscope fetch 20260102-030405-a1b2c3\n"
        "  rankscope fetch 20260102-030405-a1b2c3 --ranks 3,7\n"
        "\n"
        "A collector keeps what nobody asked for a day (--raw-keep), and evicts the oldest when it\n"
        "needs the room.\n"
        "\n"
        "Exit: 0 all of it is stored, 1 some is not there any more (named), 2 bad request,\n"
        "4 no aggregator answers, 130 interrupted (it goes on).\n"};
/* clang-format on */
