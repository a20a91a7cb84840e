/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope fetch ID`: raw data that a capture left with its collectors (`capture --raw none | EXPR`) is sent now.
 *
 * Waits until it is stored, or named as lost: what was held too long, or stood in the way of something newer, is evicted.
 */
#include "cli/capture.h"
#include "cli/cli.h"
#include "cli/options/args.h"
#include "common/base/lend.h"
#include "common/client/client.h"

#include <string.h>

static struct {
    const char *connect, *ranks;
    bool as_json, is_quiet;
} words;

struct fetching {
    Rankscope__CaptureInfo *info; /* the newest; protobuf-c's memory */
    char shown[256];
};

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct fetching *fetching = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        return false;
    char line[sizeof fetching->shown];
    capture_progress_line(reply->capture, line, sizeof line);
    if (!words.is_quiet && strcmp(line, fetching->shown) != 0)
        fprintf(stderr, "%s\n", line);
    (void)snprintf(fetching->shown, sizeof fetching->shown, "%s", line);
    if (fetching->info)
        rankscope__capture_info__free_unpacked(fetching->info, NULL);
    fetching->info = capture_info_copy(reply->capture);
    return fetching->info != NULL;
}

static const struct rs_arg items[] = {
    {.name = "ranks",
     .kind = RS_ARG_TEXT,
     .target = &words.ranks,
     .value = "EXPR",
     .help = "whose: 0,3-7, node=n12 (default: all of the capture)"},
    RS_CLI_CONNECT_ARGS(&words.connect),
    {.name = "json",
     .kind = RS_ARG_FLAG,
     .target = &words.as_json,
     .help = "print JSON; unknown is null"},
    {.name = "quiet",
     .letter = 'q',
     .kind = RS_ARG_FLAG,
     .target = &words.is_quiet,
     .help = "print nothing but errors"},
};
static const struct rs_args args = {
    .verb = "fetch",
    .operands = "ID",
    .summary = "Sends the raw data that a capture left with its collectors (capture --raw none, or "
               "for some ranks only), and waits until it is stored. The findings do not need it; "
               "verify and export do.",
    .items = items,
    .count = sizeof items / sizeof items[0],
    .epilogue =
        "  rankscope fetch 20260102-030405-a1b2c3\n"
        "  rankscope fetch 20260102-030405-a1b2c3 --ranks 3,7\n"
        "\n"
        "A collector keeps what nobody asked for a day (--raw-keep), and evicts the oldest when it\n"
        "needs the room.\n"
        "\n"
        "Exit: 0 all of it is stored, 1 some is not there any more (named), 2 bad request,\n"
        "4 no aggregator answers, 130 interrupted (it goes on).\n"};

static int fetch(char *id)
{
    struct rs_err err = {0};
    struct rs_address address;
    struct fetching fetching = {.info = NULL};
    Rankscope__AskFetch ask_fetch = RANKSCOPE__ASK_FETCH__INIT;
    ask_fetch.id = id;
    ask_fetch.ranks = rs_lend(words.ranks ? words.ranks : "");
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_FETCH;
    ask.fetch = &ask_fetch;
    enum rs_status status = rs_client_address(words.connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_ask(&address, &ask, on_reply, &fetching, &err);
    if (status >= 0 && !fetching.info)
        status = rs_err_set(&err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    int code = status == RS_CANCELLED ? RS_EXIT_INTERRUPTED : RS_EXIT_COMPLETE;
    if (status < 0 && status != RS_CANCELLED) {
        code = rs_cli_fail("fetch", &err);
    } else if (status >= 0) {
        if (fetching.info->state == RS_CAPTURE_PARTIAL || fetching.info->state == RS_CAPTURE_FAILED)
            code = RS_EXIT_PARTIAL;
        if (words.as_json)
            capture_print_info(fetching.info, true);
        else
            capture_report_ranks(fetching.info);
    }
    if (fetching.info)
        rankscope__capture_info__free_unpacked(fetching.info, NULL);
    return code;
}

int rs_cmd_fetch(int argc, char **argv)
{
    struct rs_err err = {0};
    int first = 0;
    const enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status < 0)
        return rs_cli_fail("fetch", &err);
    if (argc - first != 1) {
        (void)rs_err_set(&err, RS_INVALID, "fetch takes the ID of one capture");
        return rs_cli_fail("fetch", &err);
    }
    return fetch(argv[first]);
}
