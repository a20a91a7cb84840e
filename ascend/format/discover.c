/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking a tree for the ranks of a run.
 *
 *   look_at -- a directory --> is it a rank's? yes: add_rank, and do not go deeper
 *      |                                       no: each entry by name
 *      `---- a file      --> msmonitor_*.db: add_loose; else nothing of ours
 *
 * Afterwards the list is sorted and of several directories of one rank the newest stays.
 */
#include "ascend/format/db.h"
#include "ascend/format/format.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INFO_LIMIT_BYTES = 16 << 20, ENTRIES_MAX = 1 << 20, STAMP_DIGITS = 17 };

#define OUTPUT_NAME "ASCEND_PROFILER_OUTPUT"

struct entries {
    char **names;
    size_t count, capacity;
};

static void entries_fini(struct entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        rs_mem_free(entries->names[i]);
    rs_mem_free(entries->names);
    *entries = (struct entries){0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum rs_status entries_read(const char *path, struct entries *entries, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    DIR *dir = opendir(path);
    if (!dir)
        return rs_err_errno(err, "cannot list %s", path);
    for (struct dirent *item; status == RS_OK && (item = rs_dir_next(dir));) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        if (entries->count >= ENTRIES_MAX)
            status = rs_err_set(err, RS_LIMIT, "%s has more than %d entries", path, ENTRIES_MAX);
        else if (rs_mem_grow((void **)&entries->names, &entries->capacity, entries->count + 1,
                             sizeof *entries->names) != RS_OK ||
                 !(entries->names[entries->count] = rs_mem_strdup(item->d_name)))
            status = rs_err_set(err, RS_NOMEM, "no memory to list %s", path);
        else
            entries->count++;
    }
    (void)closedir(dir);
    if (status != RS_OK) {
        entries_fini(entries);
        return status;
    }
    if (entries->count)
        qsort(entries->names, entries->count, sizeof *entries->names, by_name);
    return RS_OK;
}

static bool starts_with(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

static bool ends_with(const char *text, const char *tail)
{
    const size_t length = strlen(text), tail_length = strlen(tail);
    return length >= tail_length && strcmp(text + length - tail_length, tail) == 0;
}

/* A whole number of digits alone, as in file names; -1 when it is none. */
static int64_t digits(const char *text, size_t length)
{
    int64_t value = 0;
    if (length == 0 || length > 18)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* The R of HEAD_R.TAIL; RS_ASCEND_NO_RANK for HEAD.TAIL; -2 when the name is another one. */
static int64_t rank_in_name(const char *name, const char *head, const char *tail)
{
    if (!starts_with(name, head) || !ends_with(name, tail))
        return -2;
    const char *from = name + strlen(head);
    const size_t length = strlen(name);
    if (length < strlen(head) + strlen(tail))
        return -2;
    const size_t middle = length - strlen(head) - strlen(tail);
    if (middle == 0)
        return RS_ASCEND_NO_RANK;
    const int64_t value = *from == '_' ? digits(from + 1, middle - 1) : -1;
    return value < 0 ? -2 : value;
}

/* msmonitor_PID_STAMP_R.db: true, with stamp and rank. */
static bool parse_loose(const char *name, int64_t *stamp_p, int64_t *rank_p)
{
    if (!starts_with(name, "msmonitor_") || !ends_with(name, ".db"))
        return false;
    const char *pid = name + strlen("msmonitor_");
    const char *stamp = strchr(pid, '_');
    const char *rank = stamp ? strchr(stamp + 1, '_') : NULL;
    if (!rank || digits(pid, (size_t)(stamp - pid)) < 0 || rank - stamp - 1 != STAMP_DIGITS)
        return false;
    const size_t rank_length = strlen(rank + 1) - 3;
    const int64_t number = digits(rank + 1, rank_length);
    *stamp_p = digits(stamp + 1, STAMP_DIGITS);
    *rank_p = number;
    return *stamp_p >= 0 && (number >= 0 || strncmp(rank + 1, "-1.db", 5) == 0);
}

/* The 17 digits before _ascend_pt; names may hold more underscores, so from the right. */
static int64_t stamp_of(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    const char *tail = strstr(name, "_ascend_");
    while (tail && strstr(tail + 1, "_ascend_"))
        tail = strstr(tail + 1, "_ascend_");
    if (!tail || tail - name < STAMP_DIGITS)
        return -1;
    return digits(tail - STAMP_DIGITS, STAMP_DIGITS);
}

static enum rs_status note(struct rs_ascend_list *list, enum rs_ascend_note_kind kind,
                           const char *path, const char *format, ...) RS_PRINTF(4, 5);

static enum rs_status note(struct rs_ascend_list *list, enum rs_ascend_note_kind kind,
                           const char *path, const char *format, ...)
{
    char text[RS_ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (rs_mem_grow((void **)&list->notes, &list->note_capacity, list->note_count + 1,
                    sizeof *list->notes) != RS_OK)
        return RS_NOMEM;
    struct rs_ascend_note made = {kind, rs_mem_strdup(path), rs_mem_strdup(text)};
    if (!made.path || !made.text) {
        rs_mem_free(made.path);
        rs_mem_free(made.text);
        return RS_NOMEM;
    }
    list->notes[list->note_count++] = made;
    return RS_OK;
}

static void rank_fini(struct rs_ascend_rank *rank)
{
    rs_mem_free(rank->dir);
    rs_mem_free(rank->output);
    rs_mem_free(rank->profiler_db);
    rs_mem_free(rank->analysis_db);
    rs_mem_free(rank->info);
    rs_mem_free(rank->metadata);
    rs_mem_free(rank->cann_version);
    rs_mem_free(rank->framework_version);
    *rank = (struct rs_ascend_rank){0};
}

static enum rs_status take_path(char **field, const char *dir, const char *name)
{
    if (*field)
        return RS_OK; /* the first by name stays */
    *field = rs_file_join(dir, name);
    return *field ? RS_OK : RS_NOMEM;
}

static bool is_text_output(const char *name)
{
    static const char *const names[] = {"trace_view.json", "communication.json",
                                        "communication_matrix.json", "step_trace_time.csv",
                                        "kernel_details.csv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static enum rs_status look_at_output_file(struct rs_ascend_rank *rank, const char *name)
{
    static const char *const heads[] = {"ascend_pytorch_profiler", "ascend_mindspore_profiler"};
    if (strcmp(name, "analyse.done") == 0)
        rank->has_done = true;
    if (is_text_output(name))
        rank->forms |= RS_ASCEND_F_TEXT;
    if (strcmp(name, "analysis.db") == 0 || strcmp(name, "communication_analyzer.db") == 0) {
        rank->forms |= RS_ASCEND_F_DB;
        return take_path(&rank->analysis_db, rank->output, name);
    }
    for (size_t i = 0; i < 2; i++) {
        const int64_t number = rank_in_name(name, heads[i], ".db");
        if (number == -2)
            continue;
        rank->forms |= RS_ASCEND_F_DB;
        rank->framework = i == 0 ? RS_ASCEND_PYTORCH : RS_ASCEND_MINDSPORE;
        if (!rank->profiler_db && rank->rank == RS_ASCEND_NO_RANK && number >= 0) {
            rank->rank = number;
            rank->source = "database name";
        }
        return take_path(&rank->profiler_db, rank->output, name);
    }
    return RS_OK;
}

static enum rs_status look_at_output(struct rs_ascend_rank *rank, struct rs_err *err)
{
    struct entries entries = {0};
    enum rs_status status = entries_read(rank->output, &entries, err);
    for (size_t i = 0; i < entries.count && status == RS_OK; i++)
        status = look_at_output_file(rank, entries.names[i]);
    entries_fini(&entries);
    return status;
}

static char *copy_text(const json_t *root, const char *key, const char *other)
{
    const char *text = json_string_value(json_object_get(root, key));
    if (!text && other)
        text = json_string_value(json_object_get(root, other));
    return rs_mem_strdup(text ? text : "");
}

/* profiler_info_R.json: the end mark, versions, and rank_id (a string when it came from RANK). */
static enum rs_status read_info(struct rs_ascend_rank *rank, struct rs_ascend_list *list)
{
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    enum rs_status status = rs_file_read_regular(rank->info, INFO_LIMIT_BYTES, &buf, &err);
    json_t *root = status == RS_OK ? json_loadb((const char *)buf.data, buf.length, 0, NULL) : NULL;
    rs_buf_fini(&buf);
    if (!json_is_object(root)) {
        json_decref(root);
        return note(list, RS_ASCEND_NOTE_FAILED, rank->info, "%s",
                    status == RS_OK ? "profiler_info is not whole JSON" : err.text);
    }
    rank->has_end = json_is_object(json_object_get(root, "end_info")) ||
                    json_object_get(root, "ms_profiler_info"); /* MindSpore writes it at the end */
    rank->cann_version = copy_text(root, "cann_version", NULL);
    rank->framework_version = copy_text(root, "torch_npu_version", "ms_version");
    const json_t *id = json_object_get(root, "rank_id");
    const int64_t number = json_is_integer(id) ? json_integer_value(id)
                           : json_is_string(id)
                               ? digits(json_string_value(id), json_string_length(id))
                               : -1;
    if (rank->rank == RS_ASCEND_NO_RANK && number >= 0) {
        rank->rank = number;
        rank->source = "rank_id of profiler_info";
    }
    json_decref(root);
    return rank->cann_version && rank->framework_version ? RS_OK : RS_NOMEM;
}

/* Entries of the rank's own directory. */
static enum rs_status look_at_own(struct rs_ascend_rank *rank, const struct entries *entries)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < entries->count && status == RS_OK; i++) {
        const char *name = entries->names[i];
        const int64_t number = rank_in_name(name, "profiler_info", ".json");
        if (number != -2) {
            if (number >= 0 && rank->rank == RS_ASCEND_NO_RANK) {
                rank->rank = number;
                rank->source = "profiler_info";
            }
            status = take_path(&rank->info, rank->dir, name);
        } else if (strcmp(name, "profiler_metadata.json") == 0) {
            status = take_path(&rank->metadata, rank->dir, name);
        } else if (strcmp(name, OUTPUT_NAME) == 0) {
            status = take_path(&rank->output, rank->dir, name);
        } else if (strcmp(name, "FRAMEWORK") == 0 || starts_with(name, "PROF_")) {
            rank->forms |= RS_ASCEND_F_RAW;
        }
    }
    return status;
}

/* MindSpore's dynamic profiler puts a rank's directory into rankR_startA_stopB: the only place that says the rank of one
 * without a device, whose profiler writes no profiler_info. */
static void ask_parent(struct rs_ascend_rank *rank)
{
    const char *end = strrchr(rank->dir, '/');
    const char *name = end;
    while (name && name > rank->dir && name[-1] != '/')
        name--;
    if (!name || rank->framework != RS_ASCEND_MINDSPORE || !starts_with(name, "rank"))
        return;
    const char *number = name + strlen("rank");
    const size_t length = strspn(number, "0123456789");
    const char *start = number + length;
    if (!starts_with(start, "_start"))
        return;
    const char *stop = start + strlen("_start");
    stop += strspn(stop, "0123456789");
    if (!starts_with(stop, "_stop") || digits(number, length) < 0)
        return;
    rank->rank = digits(number, length);
    rank->source = "folder of the dynamic profiler";
}

/* MindSpore on a CPU writes no profiler_info, but FRAMEWORK/cpu_framework_R.txt. */
static void ask_framework(struct rs_ascend_rank *rank)
{
    static const char *const heads[][2] = {{"cpu_framework", ".txt"},
                                           {"cpu_op_execute_timestamp", ".txt"}};
    struct entries entries = {0};
    char *raw = rs_file_join(rank->dir, "FRAMEWORK");
    if (raw && access(raw, F_OK) == 0 && entries_read(raw, &entries, NULL) == RS_OK) {
        for (size_t i = 0; i < entries.count && rank->rank == RS_ASCEND_NO_RANK; i++)
            for (size_t k = 0; k < 2 && rank->rank == RS_ASCEND_NO_RANK; k++) {
                const int64_t number = rank_in_name(entries.names[i], heads[k][0], heads[k][1]);
                rank->rank = number >= 0 ? number : RS_ASCEND_NO_RANK;
            }
        rank->source = rank->rank >= 0 ? "a name in FRAMEWORK" : rank->source;
    }
    entries_fini(&entries);
    rs_mem_free(raw);
}

/* Where the names say nothing: the database's own map, then distributed_args. */
static void ask_inside(struct rs_ascend_rank *rank)
{
    struct rs_ascend_db *db = NULL;
    int64_t number = -1, device = -1;
    if (rank->profiler_db && rs_ascend_db_open(rank->profiler_db, &db, NULL) == RS_OK) {
        if (rs_ascend_db_rank(db, &number, &device, NULL) == RS_OK && number >= 0) {
            rank->rank = number;
            rank->source = "RANK_DEVICE_MAP";
        }
        rs_ascend_db_close(&db);
    }
    struct rs_ascend_metadata meta;
    if (rank->rank == RS_ASCEND_NO_RANK && rank->metadata &&
        rs_ascend_metadata_read(rank, &meta, NULL) == RS_OK) {
        if (meta.rank >= 0) {
            rank->rank = meta.rank;
            rank->source = "distributed_args";
        }
        rs_ascend_metadata_fini(&meta);
    }
}

static enum rs_ascend_state state_of(const struct rs_ascend_rank *rank)
{
    const bool is_parsed = rank->forms & (RS_ASCEND_F_DB | RS_ASCEND_F_TEXT);
    if (rank->framework == RS_ASCEND_MSMONITOR)
        return RS_ASCEND_FINISHED;
    if (is_parsed)
        return rank->has_end || rank->has_done || !rank->info ? RS_ASCEND_FINISHED
                                                              : RS_ASCEND_UNFINISHED;
    if ((rank->forms & RS_ASCEND_F_RAW) && rank->has_end)
        return RS_ASCEND_UNPARSED;
    return RS_ASCEND_UNFINISHED;
}

static enum rs_status fill_rank(struct rs_ascend_rank *rank, const struct entries *entries,
                                struct rs_ascend_list *list)
{
    struct rs_err err = {0};
    enum rs_status status = look_at_own(rank, entries);
    if (status == RS_OK && rank->output) {
        status = look_at_output(rank, &err);
        if (status != RS_OK && status != RS_NOMEM)
            status = note(list, RS_ASCEND_NOTE_FAILED, rank->output, "%s", err.text);
    }
    if (status == RS_OK && rank->info)
        status = read_info(rank, list);
    if (status != RS_OK)
        return status;
    if (rank->rank == RS_ASCEND_NO_RANK)
        ask_parent(rank);
    if (rank->rank == RS_ASCEND_NO_RANK)
        ask_inside(rank);
    if (rank->rank == RS_ASCEND_NO_RANK && rank->framework == RS_ASCEND_MINDSPORE)
        ask_framework(rank);
    rank->state = state_of(rank);
    return RS_OK;
}

/* Empty texts instead of NULL, and into the list; takes `rank` in any case. */
static enum rs_status keep(struct rs_ascend_list *list, struct rs_ascend_rank *rank)
{
    if (!rank->cann_version)
        rank->cann_version = rs_mem_strdup("");
    if (!rank->framework_version)
        rank->framework_version = rs_mem_strdup("");
    if (!rank->cann_version || !rank->framework_version ||
        rs_mem_grow((void **)&list->ranks, &list->capacity, list->count + 1, sizeof *list->ranks) !=
            RS_OK) {
        rank_fini(rank);
        return RS_NOMEM;
    }
    list->ranks[list->count++] = *rank;
    return RS_OK;
}

static enum rs_status add_rank(struct rs_ascend_list *list, const char *dir,
                               const struct entries *entries)
{
    struct rs_ascend_rank rank = {.rank = RS_ASCEND_NO_RANK,
                                  .source = "none",
                                  .stamp = stamp_of(dir),
                                  .dir = rs_mem_strdup(dir)};
    rank.framework = ends_with(dir, "ascend_ms") ? RS_ASCEND_MINDSPORE : RS_ASCEND_PYTORCH;
    const enum rs_status status = rank.dir ? fill_rank(&rank, entries, list) : RS_NOMEM;
    if (status != RS_OK) {
        rank_fini(&rank);
        return status;
    }
    return keep(list, &rank);
}

static enum rs_status add_loose(struct rs_ascend_list *list, const char *dir, const char *name)
{
    struct rs_ascend_rank rank = {.framework = RS_ASCEND_MSMONITOR,
                                  .forms = RS_ASCEND_F_DB,
                                  .source = "database name",
                                  .dir = rs_mem_strdup(dir),
                                  .profiler_db = rs_file_join(dir, name)};
    (void)parse_loose(name, &rank.stamp, &rank.rank);
    if (!rank.dir || !rank.profiler_db) {
        rank_fini(&rank);
        return RS_NOMEM;
    }
    rank.state = state_of(&rank);
    return keep(list, &rank);
}

static bool is_rank_dir(const char *dir, const struct entries *entries)
{
    if (ends_with(dir, "_ascend_pt") || ends_with(dir, "_ascend_ms"))
        return true;
    for (size_t i = 0; i < entries->count; i++)
        if (strcmp(entries->names[i], OUTPUT_NAME) == 0)
            return true;
    return false;
}

/* A link to a rank's directory. */
static bool is_rank_behind(const char *path)
{
    struct stat st;
    char *output = rs_file_join(path, OUTPUT_NAME);
    const bool is_one = stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
                        (ends_with(path, "_ascend_pt") || ends_with(path, "_ascend_ms") ||
                         (output && access(output, F_OK) == 0));
    rs_mem_free(output);
    return is_one;
}

static enum rs_status look_at(struct rs_ascend_list *list, const char *dir, int depth);

static enum rs_status look_at_entry(struct rs_ascend_list *list, const char *dir, const char *name,
                                    int depth)
{
    int64_t stamp = 0, number = 0;
    struct stat st;
    char *path = rs_file_join(dir, name);
    enum rs_status status = RS_OK;
    if (!path)
        return RS_NOMEM;
    if (lstat(path, &st) != 0)
        status = note(list, RS_ASCEND_NOTE_SKIPPED, path, "gone while looking");
    else if (S_ISLNK(st.st_mode) && is_rank_behind(path))
        status = note(list, RS_ASCEND_NOTE_FAILED, path,
                      "a rank's directory behind a link: name it on the command line to have it "
                      "read");
    else if (S_ISLNK(st.st_mode))
        status = note(list, RS_ASCEND_NOTE_SKIPPED, path, "a link; links are not followed");
    else if (S_ISREG(st.st_mode) && parse_loose(name, &stamp, &number))
        status = add_loose(list, dir, name);
    else if (S_ISDIR(st.st_mode) && depth >= RS_ASCEND_DEPTH_MAX)
        status = note(list, RS_ASCEND_NOTE_SKIPPED, path, "deeper than %d directories",
                      RS_ASCEND_DEPTH_MAX);
    else if (S_ISDIR(st.st_mode))
        status = look_at(list, path, depth + 1);
    rs_mem_free(path);
    return status;
}

/* PROF_NUMBER_TIME_ID, which CANN records; inside a rank's folder nobody looks. */
static bool is_raw_dir(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    if (!starts_with(name, "PROF_"))
        return false;
    const size_t number = strspn(name + 5, "0123456789");
    const char *time = name + 5 + number;
    const size_t digits_of_time = *time == '_' ? strspn(time + 1, "0123456789") : 0;
    return number && digits_of_time && time[1 + digits_of_time] == '_';
}

static enum rs_status look_at(struct rs_ascend_list *list, const char *dir, int depth)
{
    struct entries entries = {0};
    struct rs_err err = {0};
    if (is_raw_dir(dir))
        return note(
            list, RS_ASCEND_NOTE_FAILED, dir,
            "%s is raw data of CANN's own profiler, outside of a rank's folder: not parsed by "
            "the vendor's tool yet",
            strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir);
    enum rs_status status = entries_read(dir, &entries, &err);
    if (status != RS_OK)
        return status == RS_NOMEM ? status : note(list, RS_ASCEND_NOTE_FAILED, dir, "%s", err.text);
    if (is_rank_dir(dir, &entries))
        status = add_rank(list, dir, &entries);
    else
        for (size_t i = 0; i < entries.count && status == RS_OK; i++)
            status = look_at_entry(list, dir, entries.names[i], depth);
    entries_fini(&entries);
    return status;
}

/* `path` without trailing slashes; for ASCEND_PROFILER_OUTPUT or a file in it the directory
 * above. NULL: no memory. */
static char *rank_dir_of(const char *path)
{
    char *dir = rs_mem_strdup(path);
    if (!dir)
        return NULL;
    for (size_t length = strlen(dir); length > 1 && dir[length - 1] == '/'; length--)
        dir[length - 1] = '\0';
    char *slash = strrchr(dir, '/');
    if (slash && slash != dir && strcmp(slash + 1, OUTPUT_NAME) == 0)
        *slash = '\0';
    return dir;
}

static enum rs_status look_at_file(struct rs_ascend_list *list, const char *path,
                                   struct rs_err *err)
{
    int64_t stamp = 0, number = 0;
    const char *slash = strrchr(path, '/');
    char *dir = slash ? rs_mem_strndup(path, slash == path ? 1 : (size_t)(slash - path))
                      : rs_mem_strdup(".");
    if (!dir)
        return RS_NOMEM;
    enum rs_status status = RS_OK;
    if (parse_loose(slash ? slash + 1 : path, &stamp, &number)) {
        status = add_loose(list, dir, slash ? slash + 1 : path);
    } else if (ends_with(dir, OUTPUT_NAME)) {
        char *rank_dir = rank_dir_of(dir);
        status = rank_dir ? look_at(list, rank_dir, 0) : RS_NOMEM;
        rs_mem_free(rank_dir);
    } else {
        status = rs_err_set(err, RS_INVALID,
                            "%s is neither a directory nor a database of a profiler", path);
    }
    rs_mem_free(dir);
    return status;
}

static enum rs_status look_at_path(struct rs_ascend_list *list, const char *path,
                                   struct rs_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? rs_err_set(err, RS_NOTFOUND, "%s is not there", path)
                               : rs_err_errno(err, "cannot look at %s", path);
    if (!S_ISDIR(st.st_mode))
        return look_at_file(list, path, err);
    char *dir = rank_dir_of(path);
    if (!dir)
        return RS_NOMEM;
    const enum rs_status status = look_at(list, dir, 0);
    rs_mem_free(dir);
    return status;
}

/* Newest first within a rank; of two equally new ones the database form, then the later name. */
static int by_rank(const void *a, const void *b)
{
    const struct rs_ascend_rank *x = a, *y = b;
    if (x->framework != y->framework)
        return x->framework < y->framework ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->stamp != y->stamp)
        return x->stamp > y->stamp ? -1 : 1;
    const unsigned dx = x->forms & RS_ASCEND_F_DB, dy = y->forms & RS_ASCEND_F_DB;
    if (dx != dy)
        return dx > dy ? -1 : 1;
    return strcmp(y->profiler_db ? y->profiler_db : y->dir,
                  x->profiler_db ? x->profiler_db : x->dir);
}

/* HOST_PID of HOST_PID_STAMP_ascend_pt: how long it is. */
static size_t process_length(const char *dir)
{
    const size_t length = strlen(dir);
    const size_t tail = STAMP_DIGITS + sizeof "_ascend_pt" - 1;
    return length > tail ? length - tail : length;
}

/* Of two results one is kept when they are of one rank; without a rank, when they are of one process: two processes
 * that name none are not the same. */
static bool is_same_rank(const struct rs_ascend_rank *a, const struct rs_ascend_rank *b)
{
    if (a->framework != b->framework || a->rank != b->rank)
        return false;
    const size_t length = process_length(a->dir);
    return a->rank != RS_ASCEND_NO_RANK || a->framework == RS_ASCEND_MSMONITOR ||
           (a->stamp >= 0 && b->stamp >= 0 && length == process_length(b->dir) &&
            strncmp(a->dir, b->dir, length) == 0);
}

static enum rs_status drop_duplicates(struct rs_ascend_list *list)
{
    enum rs_status status = RS_OK;
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct rs_ascend_rank *rank = &list->ranks[i];
        size_t at = kept;
        while (at > 0 && list->ranks[at - 1].rank == rank->rank &&
               !is_same_rank(&list->ranks[at - 1], rank))
            at--;
        const struct rs_ascend_rank *last = at ? &list->ranks[at - 1] : NULL;
        if (!last || !is_same_rank(last, rank)) {
            list->ranks[kept++] = *rank;
            continue;
        }
        if (status == RS_OK && rank->rank == RS_ASCEND_NO_RANK)
            status = note(list, RS_ASCEND_NOTE_DUPLICATE, rank->dir,
                          "another result of one process; the newer one is kept: %s", last->dir);
        else if (status == RS_OK)
            status = note(list, RS_ASCEND_NOTE_DUPLICATE,
                          rank->profiler_db ? rank->profiler_db : rank->dir,
                          "another result of rank %" PRId64 "; the newer one is kept: %s",
                          rank->rank, last->dir);
        rank_fini(rank);
    }
    list->count = kept;
    return status;
}

enum rs_status rs_ascend_discover(const char *const *paths, size_t count,
                                  struct rs_ascend_list *list_p, struct rs_err *err)
{
    struct rs_ascend_list list = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = look_at_path(&list, paths[i], err);
    if (status == RS_OK && list.count) {
        qsort(list.ranks, list.count, sizeof *list.ranks, by_rank);
        status = drop_duplicates(&list);
    }
    if (status != RS_OK) {
        rs_ascend_list_fini(&list);
        return status == RS_NOMEM ? rs_err_set(err, RS_NOMEM, "no memory to look for ranks")
                                  : status;
    }
    *list_p = list;
    return RS_OK;
}

void rs_ascend_list_fini(struct rs_ascend_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        rank_fini(&list->ranks[i]);
    for (size_t i = 0; i < list->note_count; i++) {
        rs_mem_free(list->notes[i].path);
        rs_mem_free(list->notes[i].text);
    }
    rs_mem_free(list->ranks);
    rs_mem_free(list->notes);
    *list = (struct rs_ascend_list){0};
}
