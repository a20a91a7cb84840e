/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a set are written into a folder of its own below DATA/documents, numbered by a counter: two sets never share
 * one, and whoever reads a set's file by its path reads that set, however the cache changes meanwhile (it is pinned).
 *
 * The lock guards the list of sets, the pins and the counters. It is never held while files are made, read or removed; a set
 * that is to go is taken out of the list under the lock and removed afterwards.
 */
#include "aggregator/server/documents.h"

#include "aggregator/archive/archive.h"
#include "aggregator/deliver/rows.h"
#include "aggregator/store/row_place.h"
#include "common/base/counters.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "documents"
#include "common/base/log.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 4, FILES_MAX = 1 << 20, SETS_MAX = 256, MANY_RANKS = 256 };
static const char report_name[] = "report";

struct rs_documents {
    char *dir;
    uint64_t limit_bytes;
    bool has_rows_elsewhere;
    pthread_mutex_t lock; /* guards all below */
    struct rs_document_set *sets;
    size_t set_count;
    uint64_t bytes, clock, last_number;
};

/* ---- folders ------------------------------------------------------------------------------------------------- */

bool rs_document_name_is_good(const char *name)
{
    unsigned parts = 1;
    bool is_begin = true;
    for (const char *p = name; *p; p++) {
        const bool is_word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                             (*p >= '0' && *p <= '9') || *p == '_' || *p == '-' || *p == '+';
        if (*p == '/' && !is_begin && parts < DEPTH_MAX) {
            parts++;
            is_begin = true;
        } else if (is_word || (*p == '.' && !is_begin)) {
            is_begin = false;
        } else {
            return false;
        }
    }
    return !is_begin && strlen(name) < 256;
}

typedef enum rs_status visit_fn(void *self, const char *name, const struct stat *info);

/* Visits the regular files below `dir`, `prefix` before their names. Links and what is not readable are left out. */
static enum rs_status walk(const char *dir, const char *prefix, int depth, visit_fn *visit,
                           void *self, struct rs_err *err)
{
    DIR *stream = opendir(dir);
    enum rs_status status = RS_OK;
    if (!stream)
        return rs_err_errno(err, "cannot read the folder %s", dir);
    for (const struct dirent *entry = rs_dir_next(stream); entry && status == RS_OK;
         entry = rs_dir_next(stream)) {
        struct stat info;
        char name[512];
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
            snprintf(name, sizeof name, "%s%s", prefix, entry->d_name) >= (int)sizeof name - 1)
            continue;
        if (S_ISREG(info.st_mode)) {
            status = visit(self, name, &info);
        } else if (S_ISDIR(info.st_mode) && depth < DEPTH_MAX) {
            char *path = rs_file_join(dir, entry->d_name);
            const size_t length = strlen(name);
            name[length] = '/'; /* there is room: see above */
            name[length + 1] = '\0';
            status = path ? walk(path, name, depth + 1, visit, self, err) : RS_NOMEM;
            rs_mem_free(path);
        }
    }
    (void)closedir(stream);
    return status == RS_NOMEM ? rs_err_set(err, RS_NOMEM, "out of memory") : status;
}

/* Below one folder of ours: its files and empty folders. */
static void remove_tree(const char *dir, int depth)
{
    DIR *stream = opendir(dir);
    if (!stream)
        return;
    for (const struct dirent *entry = rs_dir_next(stream); entry; entry = rs_dir_next(stream)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(stream), entry->d_name, 0) == 0 || depth >= DEPTH_MAX)
            continue;
        char *path = rs_file_join(dir, entry->d_name);
        if (path)
            remove_tree(path, depth + 1);
        rs_mem_free(path);
    }
    (void)closedir(stream);
    if (rmdir(dir) < 0 && errno != ENOENT)
        rs_log_warn("cannot remove %s", dir);
}

/* ---- sets ----------------------------------------------------------------------------------------------------- */

static void free_set(struct rs_document_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        rs_mem_free(set->items[i].name);
    for (size_t i = 0; i < set->line_count; i++)
        rs_mem_free(set->lines[i]);
    rs_mem_free(set->items);
    rs_mem_free(set->lines);
    rs_mem_free(set->shares);
    rs_mem_free(set->dir);
    rs_mem_free(set);
}

static void drop_set(struct rs_document_set *set)
{
    if (set->dir && !set->options.is_raw)
        remove_tree(set->dir, 0);
    free_set(set);
}

static enum rs_status add_item(struct rs_document_set *set, const char *name, uint64_t size)
{
    if (set->count >= FILES_MAX ||
        rs_mem_grow((void **)&set->items, &set->capacity, set->count + 1, sizeof *set->items) < 0)
        return RS_NOMEM;
    char *copy = rs_mem_strdup(name);
    if (!copy)
        return RS_NOMEM;
    set->items[set->count++] = (struct rs_document){.name = copy, .size = size};
    set->bytes += size;
    return RS_OK;
}

static bool is_of_rows(const char *name)
{
    return strncmp(name, "rows.db", 7) == 0 || strncmp(name, "members/", 8) == 0;
}

/* Where a capture is archived, and where its rows are, is nothing of the capture. */
static bool is_of_places(const char *name)
{
    return strcmp(name, RS_ROW_PLACE_FILE) == 0 || strcmp(name, RS_ARCHIVE_PLACE_NAME) == 0 ||
           strcmp(name, RS_ARCHIVE_LIST_NAME) == 0 || strcmp(name, "restored") == 0;
}

/* Rows count, and are no documents; of a capture's own files they are. */
static enum rs_status add_file(void *self, const char *name, const struct stat *info)
{
    struct rs_document_set *set = self;
    if (is_of_places(name))
        return RS_OK;
    if (set->options.has_rows && is_of_rows(name)) {
        set->bytes += (uint64_t)info->st_size;
        return RS_OK;
    }
    return rs_document_name_is_good(name) ? add_item(set, name, (uint64_t)info->st_size) : RS_OK;
}

static int by_name(const void *a_, const void *b_)
{
    const struct rs_document *a = a_, *b = b_;
    return strcmp(a->name, b->name);
}

static bool is_same_style(const struct rs_output_style *a, const struct rs_output_style *b)
{
    return a->width == b->width && a->has_colour == b->has_colour && a->has_utf8 == b->has_utf8;
}

/* Whether all that is wanted is in a set that was made with `have`. */
static bool covers(const struct rs_document_options *have, const struct rs_document_options *want)
{
    return have->assume_common_clock == want->assume_common_clock && have->is_raw == want->is_raw &&
           have->has_deliverables >= want->has_deliverables && have->has_rows >= want->has_rows &&
           (want->report == RS_DELIVER_NO_REPORT ||
            (have->report == want->report &&
             (want->report != RS_DELIVER_TEXT || is_same_style(&have->style, &want->style))));
}

/* What is made when `want` is asked for. Joining is what takes its time: a capture that is closed is joined once for its tables,
 * its deliverables and its report, whichever of them is asked for first. One that goes on is joined for what is wanted. */
static struct rs_document_options what_to_make(const struct rs_documents *documents,
                                               const struct rs_document_options *want,
                                               const struct rs_deliver_live *live)
{
    struct rs_document_options made = *want;
    if (live || want->is_raw)
        return made;
    made.has_deliverables = true;
    made.has_rows = want->has_rows || !documents->has_rows_elsewhere;
    if (made.report == RS_DELIVER_NO_REPORT)
        made.report = RS_DELIVER_JSON;
    return made;
}

bool rs_document_is_wanted(const struct rs_document_options *want, const char *name)
{
    return strcmp(name, report_name) == 0 ? want->report != RS_DELIVER_NO_REPORT
                                          : want->has_deliverables || want->is_raw;
}

/* ---- the generation -------------------------------------------------------------------------------------------- */

struct hashing {
    uint64_t sum; /* of the files' hashes: their order in the folder does not matter */
    size_t count;
};

static enum rs_status hash_file(void *self, const char *name, const struct stat *info)
{
    struct hashing *hashing = self;
    if (is_of_rows(name) || is_of_places(name))
        return RS_OK; /* derived */
    const int64_t facts[3] = {info->st_size, info->st_mtim.tv_sec, info->st_mtim.tv_nsec};
    hashing->sum += XXH64(name, strlen(name), XXH64(facts, sizeof facts, 0));
    hashing->count++;
    return RS_OK;
}

/* That its findings are final by now makes other documents of the same files. */
static enum rs_status generation_of(const char *capture, const char *dir,
                                    const struct rs_deliver_live *live, uint64_t *generation_p,
                                    struct rs_err *err)
{
    struct hashing hashing = {0};
    struct stat info;
    if (stat(dir, &info) < 0 || !S_ISDIR(info.st_mode))
        return rs_err_set(err, RS_NOTFOUND, "there is no capture %s", capture);
    const enum rs_status status = walk(dir, "", 0, hash_file, &hashing, err);
    *generation_p = XXH64(&hashing, sizeof hashing, live && live->is_summarised ? 1 : 0);
    return status;
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

static void take_line(void *self, const char *line)
{
    struct rs_document_set *set = self;
    char *copy = rs_mem_grow((void **)&set->lines, &set->line_capacity, set->line_count + 1,
                             sizeof *set->lines) < 0
                     ? NULL
                     : rs_mem_strdup(line);
    if (copy)
        set->lines[set->line_count++] = copy;
    else
        set->has_failed = true;
}

static enum rs_status write_report(const struct rs_document_set *set, const struct rs_buf *report,
                                   struct rs_err *err)
{
    char *path = rs_file_join(set->dir, report_name);
    const enum rs_status status =
        path ? rs_file_replace(path, report->data, report->length, false, err)
             : rs_err_set(err, RS_NOMEM, "out of memory");
    rs_mem_free(path);
    return status;
}

static enum rs_status digest_items(struct rs_document_set *set, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < set->count && status == RS_OK; i++) {
        char *path = rs_file_join(set->dir, set->items[i].name);
        status = path ? rs_sha256_file(path, set->items[i].sha256, err)
                      : rs_err_set(err, RS_NOMEM, "out of memory");
        rs_mem_free(path);
    }
    return status;
}

/* The files that are in the set's folder become its items; what the result knows becomes the set's. */
static enum rs_status list_files(struct rs_document_set *set, struct rs_deliver_result *result,
                                 enum rs_status status, struct rs_err *err)
{
    if (status == RS_OK && set->options.report != RS_DELIVER_NO_REPORT)
        status = write_report(set, &result->report, err);
    if (status == RS_OK)
        status = walk(set->dir, "", 0, add_file, set, err);
    if (status == RS_OK && set->has_failed)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    if (status == RS_OK && set->count) { /* of rows alone there are no documents */
        qsort(set->items, set->count, sizeof *set->items, by_name);
        status = digest_items(set, err);
    }
    set->is_partial = set->is_partial || result->is_partial;
    set->is_provisional = result->is_provisional;
    set->shares = result->shares;
    set->share_count = result->share_count;
    result->shares = NULL;
    const bool was_large = result->rank_count >= MANY_RANKS;
    rs_deliver_result_fini(result);
    if (was_large)
        (void)malloc_trim(0); /* nobody needs it until the next is asked for */
    return status;
}

static enum rs_status fill_set(struct rs_document_set *set, const char *capture_dir,
                               const struct rs_deliver_live *live, struct rs_err *err)
{
    struct rs_deliver_result result = {0};
    struct rs_deliver_options how = {.out_dir = set->options.has_deliverables ? set->dir : NULL,
                                     .assume_common_clock = set->options.assume_common_clock,
                                     .report = set->options.report,
                                     .style = set->options.style,
                                     .live = live};
    enum rs_status status = rs_file_make_dirs(set->dir, 0700, err);
    if (status == RS_OK && set->options.has_rows)
        status = rs_row_store_open(set->dir, RS_ROWS_WRITE, &how.rows, err);
    if (status == RS_OK)
        status = rs_deliver_capture(capture_dir, &how, take_line, set, &result, err);
    rs_row_store_close(&how.rows);
    return list_files(set, &result, status, err);
}

/* What its owner noted of the rows becomes lines as it is. */
static enum rs_status fill_set_of_rows(struct rs_document_set *set, struct rs_row_store *rows,
                                       const struct rs_row_notes *notes, struct rs_err *err)
{
    struct rs_deliver_result result = {0};
    const struct rs_deliver_options how = {.report = set->options.report,
                                           .style = set->options.style};
    enum rs_status status = rs_file_make_dirs(set->dir, 0700, err);
    for (size_t i = 0; i < notes->count; i++)
        take_line(set, notes->lines[i]);
    set->is_partial = notes->is_partial;
    if (status == RS_OK)
        status = rs_deliver_report_of_rows(rows, &how, &result, err);
    return list_files(set, &result, status, err);
}

/* Takes what is too much out of the list: unpinned, oldest use first. Under the lock. */
static struct rs_document_set *take_surplus(struct rs_documents *documents)
{
    struct rs_document_set *gone = NULL;
    while (documents->bytes > documents->limit_bytes || documents->set_count > SETS_MAX) {
        struct rs_document_set **oldest = NULL;
        for (struct rs_document_set **at = &documents->sets; *at; at = &(*at)->next)
            if (!(*at)->pin_count && (!oldest || (*at)->used_at < (*oldest)->used_at))
                oldest = at;
        if (!oldest)
            break;
        struct rs_document_set *set = *oldest;
        *oldest = set->next;
        documents->bytes -= set->bytes;
        documents->set_count--;
        set->next = gone;
        gone = set;
    }
    return gone;
}

static void drop_all(struct rs_document_set *sets)
{
    while (sets) {
        struct rs_document_set *next = sets->next;
        drop_set(sets);
        sets = next;
    }
}

static struct rs_document_set *new_set(struct rs_documents *documents, const char *capture,
                                       const char *capture_dir,
                                       const struct rs_document_options *options,
                                       uint64_t generation)
{
    struct rs_document_set *set = rs_mem_calloc(1, sizeof *set);
    if (!set)
        return NULL;
    (void)snprintf(set->capture, sizeof set->capture, "%s", capture);
    set->options = *options;
    set->generation = generation;
    set->pin_count = 1;
    if (options->is_raw) {
        set->dir = rs_mem_strdup(capture_dir);
    } else {
        char name[32];
        (void)pthread_mutex_lock(&documents->lock);
        const uint64_t number = ++documents->last_number;
        (void)pthread_mutex_unlock(&documents->lock);
        (void)snprintf(name, sizeof name, "%" PRIu64, number);
        set->dir = rs_file_join(documents->dir, name);
    }
    if (set->dir)
        return set;
    rs_mem_free(set);
    return NULL;
}

static void keep_set(struct rs_documents *documents, struct rs_document_set *set)
{
    (void)pthread_mutex_lock(&documents->lock);
    set->used_at = ++documents->clock;
    set->next = documents->sets;
    documents->sets = set;
    documents->bytes += set->bytes;
    documents->set_count++;
    struct rs_document_set *gone = take_surplus(documents);
    (void)pthread_mutex_unlock(&documents->lock);
    drop_all(gone);
}

/* ---- of rows ---------------------------------------------------------------------------------------------------- */

static bool take_note(void *self, const struct rs_block *block, size_t count)
{
    bool *has_one = self;
    for (size_t i = 0; i < count; i++) {
        const struct rs_row_note *row = rs_block_row(block, i);
        *has_one = *has_one || row->is_of_input;
    }
    return !*has_one;
}

/* Of a closed capture that is whole, and of which there is nothing to be told beside it, the report is in the rows that were written when
 * it was closed: for that alone nothing is joined once more. NULL: it is, for whatever reason; the join tells it better. */
static struct rs_document_set *set_of_own_rows(struct rs_documents *documents, const char *capture,
                                               const char *capture_dir,
                                               const struct rs_document_options *options,
                                               uint64_t generation)
{
    static const struct rs_row_notes nothing = {.count = 0};
    struct rs_row_store *rows = NULL;
    struct rs_document_set *set = NULL;
    bool has_note = false;
    const struct rs_deliver_read notes = {
        .read = RS_READ_NOTES, .take = take_note, .self = &has_note};
    if (rs_row_store_is_joining(capture_dir) ||
        rs_row_store_open(capture_dir, RS_ROWS_READ, &rows, NULL) < 0)
        return NULL;
    if (rs_deliver_read_rows(rows, &notes, NULL) == RS_OK && !has_note)
        set = new_set(documents, capture, capture_dir, options, generation);
    if (set && (fill_set_of_rows(set, rows, &nothing, NULL) < 0 || set->is_partial)) {
        drop_set(set);
        set = NULL;
    }
    rs_row_store_close(&rows);
    rs_count(RS_COUNT_REPORTS_OF_ROWS, set ? 1 : 0);
    return set;
}

static bool is_report_alone(const struct rs_document_options *options)
{
    return options->report != RS_DELIVER_NO_REPORT && !options->has_deliverables &&
           !options->has_rows && !options->is_raw && !options->assume_common_clock;
}

static enum rs_status keep_or_drop(struct rs_documents *documents, struct rs_document_set *set,
                                   enum rs_status status, struct rs_document_set **set_p)
{
    if (status < 0) {
        drop_set(set);
        return status;
    }
    keep_set(documents, set);
    *set_p = set;
    return RS_OK;
}

static enum rs_status list_raw(struct rs_document_set *set, const char *capture_dir,
                               struct rs_err *err)
{
    const enum rs_status status = walk(capture_dir, "", 0, add_file, set, err);
    if (set->count)
        qsort(set->items, set->count, sizeof *set->items, by_name);
    set->bytes = 0; /* nothing was copied */
    return status;
}

enum rs_status rs_documents_make(struct rs_documents *documents, const char *capture,
                                 const char *capture_dir, const struct rs_document_options *options,
                                 const struct rs_deliver_live *live, struct rs_document_set **set_p,
                                 struct rs_err *err)
{
    RS_ON_THREAD(JOIN);
    uint64_t generation = 0;
    const enum rs_status status = generation_of(capture, capture_dir, live, &generation, err);
    if (status < 0)
        return status;
    *set_p = rs_documents_find(documents, capture, options, generation);
    if (*set_p)
        return RS_OK;
    if (!live && is_report_alone(options)) {
        *set_p = set_of_own_rows(documents, capture, capture_dir, options, generation);
        if (*set_p) {
            keep_set(documents, *set_p);
            return RS_OK;
        }
    }
    const struct rs_document_options made = what_to_make(documents, options, live);
    struct rs_document_set *set = new_set(documents, capture, capture_dir, &made, generation);
    if (!set)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    return keep_or_drop(documents, set,
                        options->is_raw ? list_raw(set, capture_dir, err)
                                        : fill_set(set, capture_dir, live, err),
                        set_p);
}

enum rs_status rs_documents_make_of_rows(struct rs_documents *documents, const char *capture,
                                         const struct rs_document_rows *from,
                                         const struct rs_document_options *options,
                                         struct rs_document_set **set_p, struct rs_err *err)
{
    RS_ON_THREAD(JOIN);
    const int64_t version = from->version;
    const uint64_t generation = XXH64(&version, sizeof version, 2);
    *set_p = rs_documents_find(documents, capture, options, generation);
    if (*set_p)
        return RS_OK;
    struct rs_document_set *set = new_set(documents, capture, "", options, generation);
    if (!set)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    return keep_or_drop(documents, set, fill_set_of_rows(set, from->rows, from->notes, err), set_p);
}

struct rs_document_set *rs_documents_find(struct rs_documents *documents, const char *capture,
                                          const struct rs_document_options *options,
                                          uint64_t generation)
{
    (void)pthread_mutex_lock(&documents->lock);
    struct rs_document_set *set = documents->sets;
    while (set && (set->generation != generation || strcmp(set->capture, capture) != 0 ||
                   !covers(&set->options, options)))
        set = set->next;
    if (set) {
        set->pin_count++;
        set->used_at = ++documents->clock;
    }
    (void)pthread_mutex_unlock(&documents->lock);
    return set;
}

void rs_documents_unpin(struct rs_documents *documents, struct rs_document_set *set)
{
    if (!set)
        return;
    (void)pthread_mutex_lock(&documents->lock);
    set->pin_count--;
    (void)pthread_mutex_unlock(&documents->lock);
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

enum rs_status rs_documents_open(const char *dir, uint64_t limit_bytes,
                                 struct rs_documents **documents_p, struct rs_err *err)
{
    struct rs_documents *documents = rs_mem_calloc(1, sizeof *documents);
    if (!documents)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    documents->limit_bytes = limit_bytes ? limit_bytes : (uint64_t)2 << 30;
    (void)pthread_mutex_init(&documents->lock, NULL);
    documents->dir = rs_mem_strdup(dir);
    enum rs_status status = documents->dir ? RS_OK : rs_err_set(err, RS_NOMEM, "out of memory");
    if (status == RS_OK) {
        remove_tree(dir, 0);
        status = rs_file_make_dirs(dir, 0700, err);
    }
    if (status < 0)
        rs_documents_close(&documents);
    else
        *documents_p = documents;
    return status;
}

void rs_documents_have_rows_elsewhere(struct rs_documents *documents)
{
    documents->has_rows_elsewhere = true;
}

void rs_documents_close(struct rs_documents **documents_p)
{
    struct rs_documents *documents = *documents_p;
    if (!documents)
        return;
    *documents_p = NULL;
    drop_all(documents->sets);
    (void)pthread_mutex_destroy(&documents->lock);
    rs_mem_free(documents->dir);
    rs_mem_free(documents);
}
