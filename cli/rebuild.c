/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope rebuild ID...|--all`: what an aggregator keeps in databases, made again from the segments of its captures.
 *
 * The segments are the truth, so `capture list`, `capture show` and `report` say the same afterwards, byte for byte. The data is
 * taken as an aggregator takes it: one that runs has to be stopped first.
 */
#include "aggregator/store/store.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/base/paths.h"

#include <unistd.h>

static const char verb[] = "rebuild";

static struct {
    const char *data;
    bool all, is_quiet;
} words;

struct rebuilding {
    struct rs_store *store;
    size_t done, failed;
};

static bool rebuild_one(void *self, const char *id)
{
    struct rebuilding *rebuilding = self;
    struct rs_err err = {0};
    if (rs_store_rebuild(rebuilding->store, id, &err) == RS_OK) {
        rebuilding->done++;
        if (!words.is_quiet)
            printf("%s\n", id);
    } else {
        rebuilding->failed++;
        rs_cli_note(verb, "%s", err.text);
    }
    return err.status != RS_NOMEM;
}

static int rebuild(const char *data, char **ids)
{
    struct rebuilding rebuilding = {.store = NULL};
    struct rs_err err = {0};
    char captures[4096];
    const int length = snprintf(captures, sizeof captures, "%s/captures", data);
    enum rs_status status = RS_OK;
    if (length < 0 || (size_t)length >= sizeof captures || access(captures, F_OK) < 0)
        status = rs_err_set(&err, RS_NOTFOUND, "%.600s is no aggregator's data", data);
    if (status == RS_OK)
        status = rs_store_open(data, 0, &rebuilding.store, &err);
    if (status == RS_OK && words.all)
        status = rs_store_list_folders(rebuilding.store, rebuild_one, &rebuilding, &err);
    while (*ids && status == RS_OK && rebuild_one(&rebuilding, *ids))
        ids++;
    rs_store_close(&rebuilding.store);
    if (status < 0)
        return rs_cli_fail(verb, &err);
    if (!rebuilding.failed)
        return RS_EXIT_COMPLETE;
    return rebuilding.done ? RS_EXIT_PARTIAL : RS_EXIT_BAD_REQUEST;
}

static int run(char **ids)
{
    struct rs_err err = {0};
    char usual[RS_PATHS_BYTES];
    if (words.all == (*ids != NULL))
        (void)rs_err_set(&err, RS_INVALID, "give the IDs of captures, or --all");
    else if (words.data || rs_paths_data_dir(usual, &err) == RS_OK)
        return rebuild(words.data ? words.data : usual, ids);
    return rs_cli_fail(verb, &err);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("all", 0, &words.all, "every capture of the data folder"),
    RS_OPT_TEXT("data", 0, &words.data, "DIR", "the aggregator's data (default: its own)", .environment = "RANKSCOPE_DATA"),
    RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "print nothing but what failed"),
};
const struct rs_args rs_grammar_rebuild = {
    .verb = verb, .operands = "ID...", .most = RS_ARGS_ANY,
    .summary = "Makes the rows of captures in the catalogue, and each one's capture.db, again from the segments in its folder. Stop the aggregator of the data first. A catalogue that is lost or cannot be read is made again by every start of an aggregator, too.",
    RS_OPTIONS(options), .run = run,
    .epilogue =
        "  rankscope rebuild 20260102-030405-a1b2c3\n"
        "  rankscope rebuild --all --data /srv/rankscope\n"
        "\n"
        "A capture that is not closed is left to the aggregator, and named.\n"
        "\n"
        "Exit: 0 all of them, 1 some could not be rebuilt (named), 2 none could, or a bad request,\n"
        "3 refused.\n"};
/* clang-format on */
