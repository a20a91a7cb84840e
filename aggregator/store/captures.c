/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures and their ranks as rows: asked and changed from any thread. One connection writes, another reads, each behind a lock: who
 * asks does not wait for what is being made durable.
 */
#include "aggregator/store/store_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "store"
#include "common/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

char *rs_store_capture_dir(const struct rs_store *store, const char *id)
{
    char name[RS_STORE_ID_BYTES + 16];
    (void)snprintf(name, sizeof name, "captures/%.63s", id);
    return rs_file_join(store->data_dir, name);
}

/* An id is a folder's name: letters, digits, '-', '_' and '.', not first. */
bool store_is_id(const char *id)
{
    const size_t length = strnlen(id, RS_STORE_ID_BYTES);
    if (length == 0 || length >= RS_STORE_ID_BYTES || id[0] == '.')
        return false;
    return strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
           length;
}

void rs_store_tag_names(struct rs_store *store, const char *id)
{
    (void)snprintf(store->tag, sizeof store->tag, "%.*s", RS_STORE_TAG_BYTES - 1, id);
}

static enum rs_status make_id(const struct rs_store *store, char id[RS_STORE_ID_BYTES], rs_ns now,
                              struct rs_err *err)
{
    uint8_t bytes[3];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return rs_err_errno(err, "cannot get random bytes");
    const time_t seconds = (time_t)(now / RS_NS_PER_S);
    struct tm parts = {0};
    (void)gmtime_r(&seconds, &parts);
    (void)snprintf(id, RS_STORE_ID_BYTES, "%04d%02d%02d-%02d%02d%02d-%02x%02x%02x%s",
                   parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                   parts.tm_min, parts.tm_sec, bytes[0], bytes[1], bytes[2], store->tag);
    return RS_OK;
}

enum rs_status store_put_durably(struct rs_store *store, const struct rs_capture_facts *facts,
                                 struct rs_err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    const enum rs_status status = catalogue_put_durably(store->catalogue, facts, err);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

static bool is_there(struct rs_store *store, const char *id)
{
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    const bool is_found = facts && rs_store_find_capture(store, id, facts, NULL) == RS_OK;
    rs_mem_free(facts);
    return is_found;
}

enum rs_status rs_store_name_capture(struct rs_store *store, struct rs_capture_facts *facts,
                                     struct rs_err *err)
{
    if (!facts->created_ns)
        facts->created_ns = rs_time_realtime();
    if (!facts->id[0])
        return make_id(store, facts->id, facts->created_ns, err);
    if (!store_is_id(facts->id))
        return rs_err_set(err, RS_INVALID, "\"%.63s\" is no capture id", facts->id);
    if (is_there(store, facts->id))
        return rs_err_set(err, RS_EXISTS, "there is a capture %.63s already", facts->id);
    return RS_OK;
}

enum rs_status rs_store_create_capture(struct rs_store *store, struct rs_capture_facts *facts,
                                       struct rs_err *err)
{
    RS_OFF_THREAD(LINKS);
    enum rs_status status = rs_store_name_capture(store, facts, err);
    if (status < 0)
        return status;
    char *dir = rs_store_capture_dir(store, facts->id);
    if (!dir)
        status = rs_err_set(err, RS_NOMEM, "no memory for a capture");
    for (int lane = 0; lane < RS_STREAM_LANE_COUNT && status == RS_OK; lane++) {
        char *folder = rs_file_join(dir, lane_folder((enum rs_stream_lane)lane));
        status = folder ? rs_file_make_dirs(folder, 0750, err)
                        : rs_err_set(err, RS_NOMEM, "no memory for a capture");
        rs_mem_free(folder);
    }
    /* The folders' names are synced with the first segment: until then nothing in them was promised. */
    if (status == RS_OK)
        status = rs_store_update_capture(store, facts, err);
    rs_mem_free(dir);
    return status;
}

enum rs_status rs_store_sync_captures(struct rs_store *store, struct rs_err *err)
{
    RS_OFF_THREAD(LINKS);
    (void)pthread_mutex_lock(&store->lock);
    const enum rs_status status = catalogue_sync(store->catalogue, err);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

enum rs_status rs_store_update_capture(struct rs_store *store, const struct rs_capture_facts *facts,
                                       struct rs_err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    const enum rs_status status = catalogue_put(store->catalogue, facts, err);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

struct catalogue *catalogue_to_read(struct rs_store *store)
{
    (void)pthread_mutex_lock(store->reading ? &store->read_lock : &store->lock);
    return store->reading ? store->reading : store->catalogue;
}

void catalogue_done(struct rs_store *store)
{
    (void)pthread_mutex_unlock(store->reading ? &store->read_lock : &store->lock);
}

enum rs_status rs_store_find_capture(struct rs_store *store, const char *id,
                                     struct rs_capture_facts *facts_p, struct rs_err *err)
{
    const enum rs_status status = catalogue_find(catalogue_to_read(store), id, facts_p, err);
    catalogue_done(store);
    return status;
}

bool rs_store_was_removed(struct rs_store *store, const char *id)
{
    const bool was_removed = catalogue_was_removed(catalogue_to_read(store), id);
    catalogue_done(store);
    return was_removed;
}

enum rs_status rs_store_list_captures(struct rs_store *store,
                                      bool (*visit)(void *self,
                                                    const struct rs_capture_facts *facts),
                                      void *self, struct rs_err *err)
{
    const enum rs_status status = catalogue_list(catalogue_to_read(store), visit, self, err);
    catalogue_done(store);
    return status;
}

enum rs_status rs_store_put_rank(struct rs_store *store, const char *id,
                                 const struct rs_capture_rank *rank, struct rs_err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    const enum rs_status status = catalogue_put_rank(store->catalogue, id, rank, err);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

enum rs_status rs_store_put_ranks(struct rs_store *store, const char *id,
                                  const struct rs_capture_rank *ranks, size_t count,
                                  struct rs_err *err)
{
    RS_OFF_THREAD(LINKS);
    (void)pthread_mutex_lock(&store->lock);
    enum rs_status status = catalogue_begin(store->catalogue, err);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = catalogue_put_rank(store->catalogue, id, &ranks[i], err);
    if (status == RS_OK)
        status = catalogue_commit(store->catalogue, err);
    if (status < 0)
        catalogue_rollback(store->catalogue);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

enum rs_status rs_store_list_ranks(struct rs_store *store, const char *id,
                                   bool (*visit)(void *self, const struct rs_capture_rank *rank),
                                   void *self, struct rs_err *err)
{
    const enum rs_status status =
        catalogue_list_ranks(catalogue_to_read(store), id, visit, self, err);
    catalogue_done(store);
    return status;
}

enum rs_status rs_store_count_captures(struct rs_store *store, size_t *all_p, size_t *open_p,
                                       struct rs_err *err)
{
    const enum rs_status status = catalogue_count(catalogue_to_read(store), all_p, open_p, err);
    catalogue_done(store);
    return status;
}

size_t rs_store_count_ranks(struct rs_store *store, const char *id)
{
    const size_t count = catalogue_count_ranks(catalogue_to_read(store), id);
    catalogue_done(store);
    return count;
}

/* ---- removing ---------------------------------------------------------------------------------------------------------
 *
 *     captures/ID --rename--> captures/.removed-ID --> its name into `removed` --> its rows go --> its files go
 *
 * From the rename on nobody finds it; whatever comes after is done again by the next start if it has to be.
 */

static const char removed_prefix[] = ".removed-";

static enum rs_status paths_of(const struct rs_store *store, const char *id, char **dir_p,
                               char **removed_p, struct rs_err *err)
{
    char name[RS_STORE_ID_BYTES + sizeof removed_prefix];
    char *captures = rs_file_join(store->data_dir, "captures");
    (void)snprintf(name, sizeof name, "%s%s", removed_prefix, id);
    *dir_p = captures ? rs_file_join(captures, id) : NULL;
    *removed_p = captures ? rs_file_join(captures, name) : NULL;
    rs_mem_free(captures);
    return *dir_p && *removed_p ? RS_OK
                                : rs_err_set(err, RS_NOMEM, "no memory to remove a capture");
}

/* With the lock. */
static enum rs_status forget(struct rs_store *store, const char *id, struct rs_err *err)
{
    enum rs_status status = removed_append(store, id, err);
    if (status == RS_OK)
        status = catalogue_begin(store->catalogue, err);
    if (status == RS_OK)
        status = catalogue_forget(store->catalogue, id, err);
    if (status == RS_OK)
        status = catalogue_put_removed(store->catalogue, id, err);
    if (status == RS_OK)
        status = catalogue_commit(store->catalogue, err);
    if (status < 0)
        catalogue_rollback(store->catalogue);
    return status;
}

static enum rs_status sync_captures(const struct rs_store *store, struct rs_err *err)
{
    char *captures = rs_file_join(store->data_dir, "captures");
    const enum rs_status status = captures
                                      ? rs_file_sync_dir(captures, err)
                                      : rs_err_set(err, RS_NOMEM, "no memory to remove a capture");
    rs_mem_free(captures);
    return status;
}

enum rs_status rs_store_remove_capture(struct rs_store *store, const char *id, struct rs_err *err)
{
    RS_OFF_THREAD(LINKS);
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    char *dir = NULL, *removed = NULL;
    if (!facts)
        return rs_err_set(err, RS_NOMEM, "no memory to remove a capture");
    (void)pthread_mutex_lock(&store->lock);
    enum rs_status status = store_is_id(id)
                                ? catalogue_find(store->catalogue, id, facts, err)
                                : rs_err_set(err, RS_NOTFOUND, "there is no capture %.60s", id);
    if (status == RS_OK && !facts->is_closed)
        status = rs_err_set(err, RS_REFUSED, "capture %s is not closed: stop it first", id);
    if (status == RS_OK)
        status = paths_of(store, id, &dir, &removed, err);
    /* A folder that somebody removed by hand leaves a row to be forgotten. */
    if (status == RS_OK && rename(dir, removed) < 0 && errno != ENOENT)
        status = rs_err_errno(err, "cannot rename %s", dir);
    /* Rows that are gone before the name is would bring the capture back after a power cut. */
    if (status == RS_OK)
        status = sync_captures(store, err);
    if (status == RS_OK)
        status = forget(store, id, err);
    (void)pthread_mutex_unlock(&store->lock);
    if (status == RS_OK && access(removed, F_OK) == 0)
        status = rs_file_remove_tree(removed, err);
    rs_mem_free(facts);
    rs_mem_free(dir);
    rs_mem_free(removed);
    return status;
}

enum rs_status store_end_removals(struct rs_store *store, struct rs_err *err)
{
    char *path = rs_file_join(store->data_dir, "captures");
    DIR *folder = path ? opendir(path) : NULL;
    enum rs_status status =
        path ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory to look for captures");
    for (const struct dirent *item = folder ? rs_dir_next(folder) : NULL; item && status == RS_OK;
         item = rs_dir_next(folder)) {
        struct rs_err why = {0};
        if (strncmp(item->d_name, removed_prefix, sizeof removed_prefix - 1) != 0)
            continue;
        char *dir = rs_file_join(path, item->d_name);
        status = dir ? forget(store, item->d_name + sizeof removed_prefix - 1, err)
                     : rs_err_set(err, RS_NOMEM, "no memory to look for captures");
        if (status == RS_OK && rs_file_remove_tree(dir, &why) < 0)
            rs_log_warn("%s", why.text); /* it takes room, and harms nothing */
        rs_mem_free(dir);
    }
    if (folder)
        (void)closedir(folder);
    rs_mem_free(path);
    return status;
}
