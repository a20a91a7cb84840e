/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope rm ID...`: captures that nobody needs any more.
 */
#include "cli/cli.h"
#include "cli/options/args.h"
#include "common/answer/answer.h"
#include "common/client/client.h"

#include <stdio.h>
#include <string.h>

static const char verb[] = "rm";

static struct {
    const char *connect;
    bool as_json, is_quiet;
} words;

struct removing {
    struct rs_buf json; /* of the capture as it was */
    bool is_there;
};

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct removing *removing = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        return false;
    removing->is_there = true;
    rs_answer_capture(reply->capture, 2, &removing->json);
    return true;
}

static enum rs_status remove_one(const struct rs_address *address, char *id, struct rs_err *err)
{
    struct removing removing = {.is_there = false};
    Rankscope__AskRemove ask_remove = RANKSCOPE__ASK_REMOVE__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask_remove.id = id;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_REMOVE;
    ask.remove = &ask_remove;
    enum rs_status status = rs_client_ask(address, &ask, on_reply, &removing, err);
    if (status >= 0 && !removing.is_there)
        status = rs_err_set(err, RS_VERSION, "the aggregator did not say what it removed");
    if (status >= 0 && words.as_json)
        printf("%s\n", rs_buf_text(&removing.json));
    else if (status >= 0 && !words.is_quiet)
        printf("%s removed\n", id);
    rs_buf_fini(&removing.json);
    return status;
}

/* Each is tried: one that cannot be removed does not keep the others. */
static int remove_all(char **ids, int count)
{
    struct rs_err err = {0};
    struct rs_address address;
    int code = RS_EXIT_COMPLETE;
    if (rs_client_address(words.connect, &address, &err) < 0)
        return rs_cli_fail(verb, &err);
    for (int i = 0; i < count; i++) {
        const enum rs_status status = remove_one(&address, ids[i], &err);
        if (status == RS_CANCELLED)
            return RS_EXIT_INTERRUPTED;
        if (status < 0)
            code = rs_cli_fail(verb, &err);
        if (status == RS_UNREACHABLE)
            return code;
    }
    return code;
}

int rs_cmd_rm(int argc, char **argv)
{
    static const struct rs_arg items[] = {
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &words.as_json,
         .help = "print each capture as it was, as JSON"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &words.is_quiet,
         .help = "print nothing but errors"},
        RS_CLI_CONNECT_ARGS(&words.connect),
    };
    static const struct rs_args args = {
        .verb = verb,
        .operands = "ID...",
        .summary = "Removes captures that are closed, with all that the aggregator stored of them. "
                   "There is no way back.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope rm 20260102-030405-a1b2c3\n"
            "\n"
            "Exit: 0 removed, 2 there is no such capture, 3 refused: it goes on, or you may "
            "not,\n4 no aggregator answers.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && first == argc)
        status = rs_err_set(&err, RS_INVALID, "rm takes the IDs of captures");
    return status < 0 ? rs_cli_fail(verb, &err) : remove_all(argv + first, argc - first);
}
