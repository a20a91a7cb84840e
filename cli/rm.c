/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope rm ID...`: captures that nobody needs any more.
 */
#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/answer/answer.h"
#include "common/client/captures.h"
#include "common/client/client.h"

#include <stdio.h>
#include <string.h>

static const char verb[] = "rm";

static struct {
    const char *connect;
    bool as_json, is_quiet;
} words;

static enum rs_status remove_one(const struct rs_address *address, const char *id,
                                 struct rs_err *err)
{
    struct rs_buf json = {0};
    Rankscope__CaptureInfo *info = NULL; /* as it was */
    enum rs_status status = rs_client_capture(address, RS_CLIENT_REMOVE, id, &info, err);
    if (status >= 0 && !info)
        return rs_err_set(err, RS_VERSION, "the aggregator did not say what it removed");
    if (status < 0)
        return status;
    if (words.as_json)
        rs_answer_capture(info, 2, &json);
    if (words.as_json)
        printf("%s\n", rs_buf_text(&json));
    else if (!words.is_quiet)
        printf("%s removed\n", id);
    rs_buf_fini(&json);
    rankscope__capture_info__free_unpacked(info, NULL);
    return RS_OK;
}

/* Each is tried: one that cannot be removed does not keep the others. */
static int remove_all(char **ids)
{
    struct rs_err err = {0};
    struct rs_address address;
    int code = RS_EXIT_COMPLETE;
    if (rs_client_address(words.connect, &address, &err) < 0)
        return rs_cli_fail(verb, &err);
    for (; *ids; ids++) {
        const enum rs_status status = remove_one(&address, *ids, &err);
        if (status == RS_CANCELLED)
            return RS_EXIT_INTERRUPTED;
        if (status < 0)
            code = rs_cli_fail(verb, &err);
        if (status == RS_UNREACHABLE)
            return code;
    }
    return code;
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("json", 0, &words.as_json, "print each capture as it was, as JSON"),
    RS_CLI_QUIET_ARG(&words.is_quiet),
    RS_CLI_CONNECT_ARGS(&words.connect),
};
const struct rs_args rs_grammar_rm = {
    .verb = verb, .operands = "ID...", .least = 1, .most = RS_ARGS_ANY, .expected = "rm takes the IDs of captures",
    .summary = "Removes captures that are closed, with all that the aggregator stored of them. There is no way back.",
    RS_OPTIONS(options), .run = remove_all,
    .epilogue =
        "  rankscope rm 20260102-030405-a1b2c3\n"
        "\n"
        "Exit: 0 removed, 2 there is no such capture, 3 refused: it goes on, or you may not,\n"
        "4 no aggregator answers.\n"};
/* clang-format on */
