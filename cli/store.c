/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope store copy|rm`: rows of captures in ClickHouse.
 *
 *     copy FOLDER URL    the capture is joined here into a private store --unit by unit--> the database
 *     copy URL FOLDER    the database --unit by unit--> FOLDER/.copy.PID --whole--> FOLDER/rows.db; those of killed ones go first
 *     copy URL URL       from one server to another
 */
#include "cli/store.h"

#include "aggregator/analysis/rows.h"
#include "aggregator/deliver/deliver.h"
#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/wire/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char copy_verb[] = "store copy";
static const char making_prefix[] = ".copy.";

static struct {
    const char *name;
    bool is_quiet;
    struct rs_clickhouse_options store;
} words;

/* "": the folder's name is none of a capture. */
static void name_of(const char *path, char name[RS_STORE_ID_BYTES])
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t first = length;
    while (first && path[first - 1] != '/')
        first--;
    (void)snprintf(name, RS_STORE_ID_BYTES, "%.*s", (int)(length - first), path + first);
    if (length - first >= RS_STORE_ID_BYTES || !rs_wire_is_capture_id(name))
        *name = '\0';
}

static enum rs_status open_url(const char *url, const char *name, enum rs_row_mode mode,
                               struct rs_row_store **rows_p, struct rs_err *err)
{
    struct rs_clickhouse_options options = words.store;
    options.url = url;
    return rs_clickhouse_open(&options, name, mode, rows_p, err);
}

/* The capture in the folder, joined as every table of it is. */
static enum rs_status join(const char *dir, struct rs_row_store **rows_p, bool *is_partial_p,
                           struct rs_err *err)
{
    struct rs_deliver_result result = {0};
    struct rs_deliver_options how = {.rows = NULL};
    struct rs_cli_noter noter = {.verb = copy_verb};
    enum rs_status status = rs_row_store_open(NULL, RS_ROWS_PRIVATE, &how.rows, err);
    if (status == RS_OK)
        status = rs_deliver_capture(dir, &how, rs_cli_note_line, &noter, &result, err);
    *is_partial_p = result.is_partial || result.is_provisional;
    rs_deliver_result_fini(&result);
    if (status == RS_OK)
        *rows_p = how.rows;
    else
        rs_row_store_close(&how.rows);
    return status;
}

/* What a copy has left, whole or not. */
static enum rs_status remove_making(const char *making, enum rs_status status, struct rs_err *err)
{
    struct rs_err second = {0};
    return access(making, F_OK) == 0 ? rs_file_remove_tree(making, status == RS_OK ? err : &second)
                                     : RS_OK;
}

/* Whether nobody writes into what a copy made: its process is gone, and with it the lock of who writes rows. */
static bool is_left(const char *path, long pid)
{
    char *members = rs_file_join(path, "members");
    const bool is_gone = pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
    const int fd = members && is_gone ? open(members, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    const bool is_free = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        (void)close(fd);
    rs_mem_free(members);
    return is_gone && is_free;
}

/* What copies into the folder have left that were killed. */
static void sweep_makings(const char *dir)
{
    struct rs_err err = {0};
    DIR *stream = opendir(dir);
    for (const struct dirent *item = stream ? rs_dir_next(stream) : NULL; item;
         item = rs_dir_next(stream)) {
        char *end = NULL;
        if (strncmp(item->d_name, making_prefix, sizeof making_prefix - 1) != 0)
            continue;
        const long pid = strtol(item->d_name + sizeof making_prefix - 1, &end, 10);
        char *path = *end ? NULL : rs_file_join(dir, item->d_name);
        if (path && is_left(path, pid))
            rs_cli_note(copy_verb, "%s is of a copy that was killed%s", path,
                        rs_file_remove_tree(path, &err) < 0 ? ", and cannot be removed"
                                                            : ": removed");
        rs_mem_free(path);
    }
    if (stream)
        (void)closedir(stream);
}

/* Into a folder: aside first, so that its rows are those of before or all of these. An aggregator that has the folder makes rows in it,
 * too, under a name of its own. */
static enum rs_status copy_to_folder(struct rs_row_store *from, const char *dir, uint64_t *rows_p,
                                     struct rs_err *err)
{
    struct rs_row_store *to = NULL;
    char name[32];
    (void)snprintf(name, sizeof name, "%s%ld", making_prefix, (long)getpid());
    char *making = rs_file_join(dir, name);
    enum rs_status status = making ? RS_OK : rs_err_set(err, RS_NOMEM, "out of memory");
    if (status == RS_OK && access(dir, F_OK) < 0)
        status = rs_err_errno(err, "cannot copy into %s", dir);
    if (status == RS_OK)
        sweep_makings(dir);
    if (status == RS_OK)
        status = remove_making(making, RS_OK, err);
    if (status == RS_OK)
        status = rs_file_make_dirs(making, 0750, err);
    if (status == RS_OK)
        status = rs_row_store_open(making, RS_ROWS_WRITE, &to, err);
    if (status == RS_OK)
        status = rs_row_store_copy(from, to, RS_ROWS_CAPTURE, rows_p, err);
    rs_row_store_close(&to);
    if (status == RS_OK)
        status = rs_row_store_move(making, dir, err);
    const enum rs_status removed = making ? remove_making(making, status, err) : RS_OK;
    rs_mem_free(making);
    return status == RS_OK ? removed : status;
}

static enum rs_status copy(const char *from_word, const char *to_word, const char *name,
                           uint64_t *rows_p, bool *is_partial_p, struct rs_err *err)
{
    struct rs_row_store *from = NULL, *to = NULL;
    enum rs_status status = rs_clickhouse_is_url(from_word)
                                ? open_url(from_word, name, RS_ROWS_READ, &from, err)
                                : join(from_word, &from, is_partial_p, err);
    if (status == RS_OK && rs_clickhouse_is_url(to_word)) {
        status = open_url(to_word, name, RS_ROWS_WRITE, &to, err);
        if (status == RS_OK)
            status = rs_row_store_copy(from, to, RS_ROWS_CAPTURE, rows_p, err);
    } else if (status == RS_OK) {
        status = copy_to_folder(from, to_word, rows_p, err);
    }
    rs_row_store_close(&from);
    rs_row_store_close(&to);
    return status;
}

/* Which capture is copied: what --as says, else the name of the folder, which one of the two is. */
static enum rs_status find_name(const char *from, const char *to, char name[RS_STORE_ID_BYTES],
                                struct rs_err *err)
{
    const bool is_from_url = rs_clickhouse_is_url(from), is_to_url = rs_clickhouse_is_url(to);
    if (!is_from_url && !is_to_url)
        return rs_err_set(err, RS_INVALID,
                          "one of the two is a database: clickhouse://[USER@]HOST/DATABASE");
    if (words.name && !rs_wire_is_capture_id(words.name))
        return rs_err_set(err, RS_INVALID,
                          "--as: a capture's name is of a-z, A-Z, 0-9, -, _ and ., 63 at most, not "
                          "\"%.100s\"",
                          words.name);
    if (words.name)
        (void)snprintf(name, RS_STORE_ID_BYTES, "%.63s", words.name);
    else if (!is_from_url || !is_to_url)
        name_of(is_from_url ? to : from, name);
    return *name ? RS_OK
                 : rs_err_set(err, RS_INVALID,
                              "which capture? No folder of one is named; give its name with --as");
}

static int store_copy(char **operands)
{
    struct rs_err err = {0};
    char name[RS_STORE_ID_BYTES] = "";
    uint64_t rows = 0;
    bool is_partial = false;
    enum rs_status status = find_name(operands[0], operands[1], name, &err);
    if (status == RS_OK)
        status = copy(operands[0], operands[1], name, &rows, &is_partial, &err);
    if (status < 0)
        return rs_cli_fail(copy_verb, &err);
    if (!words.is_quiet)
        printf("%s: %" PRIu64 " rows copied to %s\n", name, rows, operands[1]);
    return is_partial ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

static enum rs_status store_rm(char **operands, struct rs_err *err)
{
    struct rs_clickhouse_options options = words.store;
    enum rs_status status = RS_OK;
    options.url = *operands;
    while (*++operands && status == RS_OK)
        status = rs_clickhouse_remove(&options, *operands, err);
    return status;
}

/* clang-format off */
static const struct rs_arg copy_options[] = {
    RS_OPT_TEXT("as", 0, &words.name, "ID", "the capture's name in the database (default: the name of its folder)"),
    RS_CLI_QUIET_ARG(&words.is_quiet),
    RS_CLI_STORE_ARGS(&words.store),
};
const struct rs_args rs_grammar_store_copy = {
    .verb = copy_verb, .operands = "FROM TO", .least = 2, .most = 2, .expected = "give where from and where to; see --help",
    .summary = "Copies the rows of one capture: from its folder into a ClickHouse database, from there into a capture's folder, or from one database into another. What is there is replaced, unit by unit; a reader sees each whole.",
    RS_OPTIONS(copy_options), .run = store_copy,
    .epilogue =
        "  rankscope store copy /var/lib/rankscope/captures/20260102-030405-a1b2c3 \\\n"
        "                       clickhouse://profiler@ch.example.com/rankscope\n"
        "  rankscope store copy clickhouse://profiler@ch.example.com/rankscope captures/20260102-030405-a1b2c3\n"
        "\n"
        "clickhouse:// is HTTPS (port 8443); clickhouse+http:// (8123) is for this machine alone. Rows only:\n"
        "what the capture was made of (segments) goes to an archive (rankscope archive).\n"
        "\n"
        "Exit: 0 copied, 1 copied, and something is missing in the capture (named), 2 no such capture, 3 refused,\n"
        "4 the database does not answer.\n"};
static const struct rs_arg rm_options[] = {
    RS_CLI_STORE_ARGS(&words.store),
};
const struct rs_args rs_grammar_store_rm = {
    .verb = "store rm", .operands = "URL ID...", .least = 2, .most = RS_ARGS_ANY, .expected = "give a database and the IDs of captures",
    .summary = "Removes rows of captures from a ClickHouse database, by their partitions.",
    RS_OPTIONS(rm_options), .act = store_rm,
    .epilogue =
        "  rankscope store rm clickhouse://profiler@ch.example.com/rankscope 20260102-030405-a1b2c3\n"
        "\n"
        "Exit: 0 they are not there (any more), 2 bad request, 3 refused, 4 the database does not answer.\n"};
/* clang-format on */
