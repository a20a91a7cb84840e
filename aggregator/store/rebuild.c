/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The databases, made again from the folders of captures.
 *
 *   at every start
 *     catalogue.db cannot be read, or is not what was written (seal.c) --> it is kept as catalogue.db.damaged-TIME, and an empty one takes its place
 *     a folder of captures/ that the catalogue does not have --> its row, ranks and positions, from facts.seg (of a capture of
 *                                                                an earlier program: capture.db) and the segments
 *   when it is asked for (rs_store_rebuild())
 *     a capture that is closed --> the same, whatever the catalogue has; capture.db anew; rows.db and members/ go; rows in a ClickHouse
 *                                  are written again by the next aggregator that has it (row_place.h)
 *
 * So a catalogue that was lost is there again after a start, and a capture that was copied here from elsewhere is found. A capture
 * that was open when the catalogue went comes back open: what its collectors still have is taken, then it is closed.
 */
#include "aggregator/store/row_place.h"
#include "aggregator/store/store_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "store"
#include "common/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum rs_status store_put_catalogue_aside(const char *path, struct rs_err *err)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    const rs_ns now = rs_time_realtime();
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char from[4200];
        char to[4300];
        (void)snprintf(from, sizeof from, "%.4100s%s", path, suffixes[i]);
        (void)snprintf(to, sizeof to, "%.4100s.damaged-%lld%s", path,
                       (long long)(now / RS_NS_PER_S), suffixes[i]);
        if (rename(from, to) < 0 && errno != ENOENT)
            return rs_err_errno(err, "cannot keep %s aside", from);
        if (i == 0)
            rs_log_error("%s cannot be read: it is kept as %s and made again from the captures",
                         from, to);
    }
    return RS_OK;
}

/* Of a capture that was not closed: what its streams and its folder tell. */
static void open_facts(const char *dir, const struct rs_stored *stored,
                       struct rs_capture_facts *facts)
{
    struct stat info;
    *facts = *rs_stored_facts(stored);
    (void)snprintf(facts->state, sizeof facts->state, "collecting");
    (void)snprintf(facts->source, sizeof facts->source, "files");
    facts->is_closed = false;
    facts->start_step = -1;
    facts->settle_ns = 5 * (rs_dur)RS_NS_PER_S;
    if (stat(dir, &info) == 0)
        facts->created_ns = rs_file_changed_ns(&info);
}

static enum rs_status put_positions(struct rs_store *store, const struct rs_stored *stored,
                                    enum rs_stream_lane lane, const char *id, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < rs_stored_stream_count(stored) && status == RS_OK; i++) {
        const struct rs_stored_stream *from = rs_stored_stream(stored, i);
        struct rs_store_stream stream = {.run = from->run,
                                         .incarnation = from->incarnation,
                                         .rank = from->rank,
                                         .lane = lane,
                                         .durable_seq = from->last_seq,
                                         .is_ended = from->is_ended,
                                         .is_partial = from->is_partial || from->loss.chunks ||
                                                       from->missing_count};
        (void)snprintf(stream.capture, sizeof stream.capture, "%.63s", id);
        status = catalogue_put_position(store->catalogue, &stream, err);
    }
    return status;
}

/* A folder as it was read. */
struct folder {
    struct rs_stored *lanes[RS_STREAM_LANE_COUNT];
    struct rs_capture_facts facts;
};

static void close_folder(struct folder *folder)
{
    for (int lane = 0; folder && lane < RS_STREAM_LANE_COUNT; lane++)
        if (folder->lanes[lane])
            rs_stored_close(&folder->lanes[lane]);
    rs_mem_free(folder);
}

static enum rs_status open_folder(const char *dir, const char *id, struct folder **folder_p,
                                  struct rs_err *err)
{
    struct folder *folder = rs_mem_calloc(1, sizeof *folder);
    enum rs_status status = folder ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory for a capture");
    for (int lane = 0; lane < RS_STREAM_LANE_COUNT && status == RS_OK; lane++)
        status = rs_store_open_lane(dir, (enum rs_stream_lane)lane, &folder->lanes[lane], err);
    if (status < 0) {
        close_folder(folder);
        return status;
    }
    const struct rs_stored *raw = folder->lanes[RS_STREAM_RAW];
    if (rs_stored_facts(raw)->is_closed)
        folder->facts = *rs_stored_facts(raw);
    else
        open_facts(dir, rs_stored_stream_count(raw) ? raw : folder->lanes[RS_STREAM_SUMMARY],
                   &folder->facts);
    /* the folder's name is the id */
    (void)snprintf(folder->facts.id, sizeof folder->facts.id, "%.63s", id);
    *folder_p = folder;
    return RS_OK;
}

/* All of a capture or nothing of it; what the catalogue had of it is gone. */
static enum rs_status enter(struct rs_store *store, const struct folder *folder, struct rs_err *err)
{
    const char *id = folder->facts.id;
    const struct rs_stored *raw = folder->lanes[RS_STREAM_RAW];
    enum rs_status status = catalogue_begin(store->catalogue, err);
    if (status < 0)
        return status;
    status = catalogue_forget(store->catalogue, id, err);
    for (size_t i = 0; i < rs_stored_rank_count(raw) && status == RS_OK; i++)
        status = catalogue_put_rank(store->catalogue, id, rs_stored_rank(raw, i), err);
    if (status == RS_OK)
        status = catalogue_put(store->catalogue, &folder->facts, err);
    for (int lane = 0; lane < RS_STREAM_LANE_COUNT && status == RS_OK; lane++)
        status = put_positions(store, folder->lanes[lane], (enum rs_stream_lane)lane, id, err);
    if (status == RS_OK)
        return catalogue_commit(store->catalogue, err);
    catalogue_rollback(store->catalogue);
    return status;
}

static enum rs_status add_capture(struct rs_store *store, const char *dir, const char *id,
                                  struct rs_err *err)
{
    struct folder *folder = NULL;
    enum rs_status status = open_folder(dir, id, &folder, err);
    if (status < 0)
        return status;
    status = enter(store, folder, err);
    close_folder(folder);
    return status;
}

/* When a file was written last; RS_NS_MIN: it is not there. */
static rs_ns written_at(const char *path)
{
    struct stat info;
    if (!path || stat(path, &info) < 0)
        return RS_NS_MIN;
    return rs_file_changed_ns(&info);
}

/* Of a capture that the catalogue calls open: whether its folder says that it was closed, and no chunk came behind that. Then the catalogue
 * lost its last writes (its journal was cut), and with them when it was closed. */
static bool was_closed(const char *dir)
{
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    struct rs_capture_rank *ranks = NULL;
    size_t count = 0;
    bool is_closed =
        facts && facts_read(dir, facts, &ranks, &count, NULL) == RS_OK && facts->is_closed;
    char *path = is_closed ? rs_file_join(dir, FACTS_FILE) : NULL;
    const rs_ns closed_at = written_at(path);
    rs_mem_free(path);
    /* Closing writes this one last: cut off before, it is closed again. */
    path = is_closed ? rs_file_join(dir, "capture.db") : NULL;
    is_closed = is_closed && written_at(path) >= closed_at;
    rs_mem_free(path);
    rs_mem_free(ranks);
    rs_mem_free(facts);
    for (int lane = 0; lane < RS_STREAM_LANE_COUNT && is_closed; lane++) {
        uint32_t *numbers = NULL;
        size_t segments = 0;
        is_closed =
            list_segments(dir, (enum rs_stream_lane)lane, &numbers, &segments, NULL) == RS_OK;
        for (size_t i = 0; i < segments && is_closed; i++) {
            path = segment_path(dir, (enum rs_stream_lane)lane, numbers[i]);
            is_closed = path && written_at(path) <= closed_at;
            rs_mem_free(path);
        }
        rs_mem_free(numbers);
    }
    return is_closed;
}

/* Whether a folder of captures has to be entered: the catalogue does not know it, or less of it than the folder. */
static bool must_enter(struct rs_store *store, const char *dir, const char *id)
{
    struct rs_capture_facts *known = rs_mem_calloc(1, sizeof *known);
    const enum rs_status status =
        known ? catalogue_find(store->catalogue, id, known, NULL) : RS_NOMEM;
    /* One that was opened again for what is to be fetched keeps when it was closed. */
    const bool is_open = status == RS_OK && !known->is_closed && !known->closed_ns;
    rs_mem_free(known);
    return status == RS_NOTFOUND || (is_open && was_closed(dir));
}

/* Holds nothing and needs nothing: called while the store is opened, before any other thread knows it. */
enum rs_status store_find_folders(struct rs_store *store, struct rs_err *err)
{
    char *path = rs_file_join(store->data_dir, "captures");
    DIR *folder = path ? opendir(path) : NULL;
    size_t found = 0;
    enum rs_status status = RS_OK;
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory to look for captures");
    if (!folder)
        status = rs_err_errno(err, "cannot read %s", path);
    for (const struct dirent *item = folder ? rs_dir_next(folder) : NULL; item && status == RS_OK;
         item = rs_dir_next(folder)) {
        struct rs_err why = {0};
        if (!store_is_id(item->d_name))
            continue;
        char *dir = rs_file_join(path, item->d_name);
        if (dir && !must_enter(store, dir, item->d_name)) {
            rs_mem_free(dir);
            continue;
        }
        const enum rs_status added = dir ? add_capture(store, dir, item->d_name, &why) : RS_NOMEM;
        rs_mem_free(dir);
        if (added == RS_NOMEM)
            status = rs_err_set(err, added, "no memory to look for captures");
        else if (added < 0 && added != RS_NOTFOUND) /* one that cannot be read stops no other */
            rs_log_error(
                "capture %s is not in the catalogue as its folder has it, and that cannot be read: %s",
                item->d_name, why.text);
        found += added == RS_OK;
    }
    if (folder)
        (void)closedir(folder);
    if (found)
        rs_log_warn(
            "%zu captures were found in %s that the catalogue did not have, or not as they were closed",
            found, path);
    rs_mem_free(path);
    return status;
}

/* ---- when it is asked for --------------------------------------------------------------------------------- */

/* Rows are joined again by whoever asks for them. */
static void drop_rows(const char *dir)
{
    static const char *const names[] = {"rows.db", "rows.db-wal", "rows.db-shm"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = rs_file_join(dir, names[i]);
        if (path)
            (void)unlink(path);
        rs_mem_free(path);
    }
    char *members = rs_file_join(dir, "members");
    DIR *stream = members ? opendir(members) : NULL;
    for (const struct dirent *item = stream ? rs_dir_next(stream) : NULL; item;
         item = rs_dir_next(stream))
        (void)unlinkat(dirfd(stream), item->d_name, 0);
    if (stream)
        (void)closedir(stream);
    if (members)
        (void)rmdir(members);
    rs_mem_free(members);
    rs_row_place_made_again(dir);
}

static enum rs_status rebuild_folder(struct rs_store *store, const char *dir,
                                     const struct folder *folder, struct rs_err *err)
{
    const struct rs_stored *raw = folder->lanes[RS_STREAM_RAW];
    const size_t count = rs_stored_rank_count(raw);
    struct rs_capture_facts known;
    struct rs_capture_rank *ranks = NULL;
    size_t known_count = 0;
    if (!folder->facts.is_closed)
        return rs_err_set(err, RS_REFUSED,
                          "capture %s is not closed: an aggregator that is started with this data "
                          "goes on with it",
                          folder->facts.id);
    enum rs_status status = facts_read(dir, &known, &ranks, &known_count, NULL);
    rs_mem_free(ranks);
    if (status != RS_OK) /* of an earlier program, or damaged */
        status =
            facts_append(dir, &folder->facts, count ? rs_stored_rank(raw, 0) : NULL, count, err);
    if (status == RS_OK)
        status = capture_db_write(dir, &folder->facts, count ? rs_stored_rank(raw, 0) : NULL, count,
                                  err);
    if (status == RS_OK)
        status = enter(store, folder, err);
    if (status == RS_OK)
        drop_rows(dir);
    return status;
}

enum rs_status rs_store_rebuild(struct rs_store *store, const char *id, struct rs_err *err)
{
    struct rs_capture_facts known;
    struct folder *folder = NULL;
    if (!store_is_id(id))
        return rs_err_set(err, RS_INVALID, "\"%.63s\" is no capture id", id);
    char *dir = rs_store_capture_dir(store, id);
    enum rs_status status = dir ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory for a capture");
    if (status == RS_OK && access(dir, F_OK) < 0)
        status = rs_err_set(err, RS_NOTFOUND, "there is no capture %s in %s", id, store->data_dir);
    if (status == RS_OK && rs_store_find_capture(store, id, &known, NULL) == RS_OK &&
        !known
             .is_closed) /* it was opened again: its folder tells how it was when it was closed before */
        status = rs_err_set(err, RS_REFUSED,
                            "capture %s is not closed: an aggregator that is started with this "
                            "data goes on with it",
                            id);
    if (status == RS_OK)
        status = open_folder(dir, id, &folder, err);
    (void)pthread_mutex_lock(&store->lock);
    if (status == RS_OK)
        status = rebuild_folder(store, dir, folder, err);
    (void)pthread_mutex_unlock(&store->lock);
    close_folder(folder);
    rs_mem_free(dir);
    return status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum rs_status rs_store_list_folders(const struct rs_store *store,
                                     bool (*visit)(void *self, const char *id), void *self,
                                     struct rs_err *err)
{
    char **names = NULL;
    size_t count = 0, capacity = 0;
    char *path = rs_file_join(store->data_dir, "captures");
    DIR *stream = path ? opendir(path) : NULL;
    enum rs_status status = stream || !path ? RS_OK : rs_err_errno(err, "cannot read %s", path);
    for (const struct dirent *item = stream ? rs_dir_next(stream) : NULL; item && status == RS_OK;
         item = rs_dir_next(stream)) {
        if (!store_is_id(item->d_name))
            continue;
        status = rs_mem_grow((void **)&names, &capacity, count + 1, sizeof *names);
        if (status == RS_OK && !(names[count] = rs_mem_strdup(item->d_name)))
            status = RS_NOMEM;
        count += status == RS_OK;
    }
    if (stream)
        (void)closedir(stream);
    if (status == RS_NOMEM || !path)
        status = rs_err_set(err, RS_NOMEM, "no memory to list captures");
    if (count)
        qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++) {
        if (status == RS_OK && !visit(self, names[i]))
            status = RS_END;
        rs_mem_free(names[i]);
    }
    rs_mem_free(names);
    rs_mem_free(path);
    return status == RS_END ? RS_OK : status;
}
