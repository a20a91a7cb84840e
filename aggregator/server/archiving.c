/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures go to the archive and come back: when somebody says so, when they are old enough, and when an archived one is asked for.
 *
 *     AskArchive, --archive-after --> rs-archive: upload --> rs-join: let go --> the capture, as it is now
 *     AskArchive{restore}         --> rs-archive: restore ---------------------> the same
 *     a document, a table, a query of an archived capture
 *                                 --> rs-archive: fetch --> rs-join: what was asked for
 *
 * The network has one thread of its own, so that a slow one holds up no join. What goes from here goes on rs-join, behind the jobs of the
 * same capture: nobody reads a folder that is being emptied. Between a fetch and the join that it was for, the folder may have been
 * emptied again: the join looks once more, and says so.
 *
 * Progress is written by the thread of the network and told to who asked by the server's tick.
 */
#include "aggregator/archive/archive.h"
#include "aggregator/server/server_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARCHIVE_QUEUE_MAX = 4096, ARCHIVE_NICE = 5 };
static const rs_dur tell_every_ns = RS_NS_PER_S;
static const rs_dur cache_ns = (rs_dur)24 * 3600 * RS_NS_PER_S; /* what was fetched stays so long */
static const char restored_name[] = "restored"; /* its time says since when it is here again */

struct archiving {
    struct pool_job base;
    struct archiving *next; /* of the server's list, while it is under way */
    char id[RS_STORE_ID_BYTES];
    char *dir;
    bool is_restore;
    const char *why;       /* of one that nobody asked for; NULL: somebody did */
    struct pool_job *then; /* a join that waits for a fetch; NULL: none */
    enum rs_status status;
    struct rs_err err;
    atomic_uint_least64_t done_bytes, all_bytes;
    uint64_t told_bytes;
    rs_ns told_at;
};

/* ---- the folder ----------------------------------------------------------------------------------------------------- */

static bool has_file(const char *dir, const char *name)
{
    char *path = rs_file_join(dir, name);
    const bool is_there = path && access(path, F_OK) == 0;
    rs_mem_free(path);
    return is_there;
}

bool archiving_is_away(const char *dir)
{
    return has_file(dir, RS_ARCHIVE_PLACE_NAME);
}

/* Since when it is here, for the age at which it goes: since it was closed, or came back. */
rs_ns archiving_here_since(const char *dir, rs_ns closed_ns)
{
    struct stat info;
    char *path = rs_file_join(dir, restored_name);
    const rs_ns at = path && stat(path, &info) == 0 ? rs_time_of(&info.st_mtim) : 0;
    rs_mem_free(path);
    return at > closed_ns ? at : closed_ns;
}

static bool is_old_cache(const char *dir, const char *lane, rs_ns now)
{
    struct stat info;
    bool has_files = false;
    char *path = rs_file_join(dir, lane);
    DIR *folder = path && stat(path, &info) == 0 && now - rs_time_of(&info.st_ctim) > cache_ns
                      ? opendir(path)
                      : NULL;
    for (const struct dirent *item = folder ? readdir(folder) : NULL; item && !has_files;
         item = readdir(folder)) /* NOLINT(concurrency-mt-unsafe): a stream of our own */
        has_files = item->d_name[0] != '.';
    if (folder)
        (void)closedir(folder);
    rs_mem_free(path);
    return has_files;
}

bool archiving_is_stale(const char *dir, rs_ns now)
{
    return archiving_is_away(dir) &&
           (is_old_cache(dir, "segments", now) || is_old_cache(dir, "summaries", now));
}

/* ---- jobs ------------------------------------------------------------------------------------------------------------ */

static struct archiving *archiving_of(struct pool_job *base)
{
    return (struct archiving *)base; /* its first member */
}

static void moved(void *self, uint64_t done_bytes, uint64_t all_bytes)
{
    struct archiving *job = self;
    atomic_store_explicit(&job->all_bytes, all_bytes, memory_order_relaxed);
    atomic_store_explicit(&job->done_bytes, done_bytes, memory_order_relaxed);
}

static void free_job(struct archiving *job)
{
    rs_mem_free(job->dir);
    rs_mem_free(job);
}

static struct archiving *new_job(struct rs_server *server, const char *id)
{
    struct archiving *job = rs_mem_calloc(1, sizeof *job);
    char *dir = rs_store_capture_dir(server->options.store, id);
    if (!job || !dir) {
        rs_mem_free(job);
        rs_mem_free(dir);
        return NULL;
    }
    job->base.server = server;
    job->dir = dir;
    (void)snprintf(job->id, sizeof job->id, "%.63s", id);
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", job->id);
    return job;
}

static void run_upload(struct rs_pool_job *pool_job)
{
    struct archiving *job = (struct archiving *)pool_job;
    const struct rs_archive_progress progress = {.moved = moved, .self = job};
    job->status = rs_archive_upload(job->base.server->options.archive, job->id, job->dir, &progress,
                                    &job->err);
}

static void run_let_go(struct rs_pool_job *pool_job)
{
    struct archiving *job = (struct archiving *)pool_job;
    job->status =
        rs_archive_let_go(job->base.server->options.archive, job->id, job->dir, &job->err);
}

static enum rs_status mark_restored(const struct archiving *job, struct rs_err *err)
{
    char *path = rs_file_join(job->dir, restored_name);
    const enum rs_status status = path ? rs_file_replace(path, "", 0, false, err)
                                       : rs_err_set(err, RS_NOMEM, "out of memory");
    rs_mem_free(path);
    return status;
}

static void run_restore(struct rs_pool_job *pool_job)
{
    struct archiving *job = (struct archiving *)pool_job;
    const struct rs_server_options *options = &job->base.server->options;
    const struct rs_archive_progress progress = {.moved = moved, .self = job};
    const bool is_new = access(job->dir, F_OK) < 0;
    job->status = rs_archive_restore(options->archive, job->id, job->dir, &progress, &job->err);
    if (job->status == RS_OK)
        job->status = mark_restored(job, &job->err);
    if (job->status == RS_OK && is_new) /* the catalogue did not have it */
        job->status = rs_store_rebuild(options->store, job->id, &job->err);
}

static void run_fetch(struct rs_pool_job *pool_job)
{
    struct archiving *job = (struct archiving *)pool_job;
    job->status =
        rs_archive_fetch(job->base.server->options.archive, job->id, job->dir, NULL, &job->err);
}

/* ---- who asked ------------------------------------------------------------------------------------------------------- */

static void unlist(struct archiving *job)
{
    struct archiving **at = &job->base.server->archivings;
    while (*at && *at != job)
        at = &(*at)->next;
    if (*at)
        *at = job->next;
}

static void log_end(const struct archiving *job)
{
    const struct rs_identity self = {.party = RS_PARTY_AGGREGATOR, .name = "archive"};
    const struct rs_audit_line line = {
        .who = &self, .from = "", .what = "capture.archive", .subject = job->id};
    if (job->status == RS_OK && job->why)
        rs_audit_put(job->base.server->audit, &line);
    if (job->status == RS_OK)
        rs_log_info("capture %s is %s%s%s", job->id, job->is_restore ? "restored" : "archived",
                    job->why ? ": " : "", job->why ? job->why : "");
    else if (job->status != RS_NOTFOUND && job->status != RS_CANCELLED)
        rs_log_warn("capture %s cannot be %s: %s", job->id,
                    job->is_restore ? "restored" : "archived", job->err.text);
    if (job->status == RS_OK)
        feed_changed(job->base.server->feed, job->id);
    if (job->status == RS_OK)
        rs_count(job->is_restore ? RS_COUNT_ARCHIVE_RESTORED : RS_COUNT_ARCHIVE_ARCHIVED, 1);
    else
        rs_count(RS_COUNT_ARCHIVE_FAILED, 1);
}

static void end_job(struct archiving *job)
{
    struct session *session = job->base.session;
    if (job->base.base.was_dropped || job->status == RS_CANCELLED)
        job->status =
            rs_err_set(&job->err, RS_UNREACHABLE,
                       "the aggregator stops; ask again, what is there is not sent twice");
    log_end(job);
    unlist(job);
    if (session && session->link && job->status == RS_OK)
        ask_show(session, job->id);
    else if (session && session->link)
        ask_refuse(session, &job->err);
    free_job(job);
}

static bool put(struct rs_server *server, struct session *session, struct rs_pool *pool,
                struct archiving *job)
{
    if (session)
        return server_pool_put(session, pool, &job->base) == RS_OK;
    job->base.server = server;
    return rs_pool_put(pool, &job->base.base) == RS_OK;
}

static void ended(struct pool_job *base)
{
    end_job(archiving_of(base));
}

static void uploaded(struct pool_job *base)
{
    struct archiving *job = archiving_of(base);
    struct rs_server *server = base->server;
    if (job->status == RS_OK && !base->base.was_dropped) {
        base->base.run = run_let_go;
        base->finish = ended;
        if (put(server, base->session, server->join_pool, job))
            return;
        job->status = rs_err_set(&job->err, RS_LIMIT, "too much waits to be done: try again");
    }
    end_job(job);
}

static enum rs_status begin(struct rs_server *server, struct session *session, const char *id,
                            bool is_restore, const char *why, struct rs_err *err)
{
    struct archiving *job = new_job(server, id);
    if (!job)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    job->is_restore = is_restore;
    job->why = why;
    job->told_at = rs_time_monotonic();
    job->base.base.run = is_restore ? run_restore : run_upload;
    job->base.finish = is_restore ? ended : uploaded;
    job->next = server->archivings;
    server->archivings = job;
    if (put(server, session, server->archive_pool, job))
        return RS_OK;
    unlist(job);
    free_job(job);
    return rs_err_set(err, RS_LIMIT, "too much waits for the archive: try again");
}

static bool is_under_way(const struct rs_server *server, const char *id)
{
    for (const struct archiving *job = server->archivings; job; job = job->next)
        if (strcmp(job->id, id) == 0)
            return true;
    return false;
}

void ask_archive(struct session *session, const Rankscope__AskArchive *ask)
{
    struct rs_server *server = session->server;
    struct rs_err err = {0};
    enum rs_status status = RS_OK;
    bool is_closed = false;
    if (!server->archive_pool)
        status =
            rs_err_set(&err, RS_REFUSED,
                       "this aggregator has no archive: it is started with --archive s3://BUCKET");
    else if (!rs_wire_is_capture_id(ask->id))
        status = rs_err_set(&err, RS_INVALID, "that is no name of a capture");
    if (status == RS_OK) {
        status = ask_is_closed(session, ask->id, &is_closed, &err);
        if (status == RS_NOTFOUND && ask->restore)
            status = RS_OK; /* the archive may have it */
        else if (status == RS_OK && !is_closed)
            status = rs_err_set(&err, RS_REFUSED, "capture %.60s goes on: stop it first", ask->id);
    }
    if (status == RS_OK && is_under_way(server, ask->id))
        status = rs_err_set(&err, RS_REFUSED,
                            "capture %.60s is being archived or restored just now", ask->id);
    if (status == RS_OK)
        status = begin(server, session, ask->id, ask->restore, NULL, &err);
    if (status < 0)
        ask_refuse(session, &err);
    else
        server_tick_soon(server);
}

void archiving_begin(struct rs_server *server, const char *id, const char *why)
{
    struct rs_err err = {0};
    if (server->archive_pool && !is_under_way(server, id) &&
        begin(server, NULL, id, false, why, &err) < 0)
        rs_log_warn("capture %s is not archived: %s", id, err.text);
}

static void stale_gone(struct pool_job *base)
{
    struct archiving *job = archiving_of(base);
    if (job->status < 0 && !base->base.was_dropped)
        rs_log_warn("what was fetched of capture %s cannot be removed: %s", job->id, job->err.text);
    free_job(job);
}

void archiving_forget_cache(struct rs_server *server, const char *id)
{
    struct archiving *job = server->options.archive ? new_job(server, id) : NULL;
    if (!job)
        return;
    job->base.base.run = run_let_go;
    job->base.finish = stale_gone;
    if (!put(server, NULL, server->join_pool, job))
        free_job(job); /* the next look finds it again */
}

/* ---- what needs an archived capture --------------------------------------------------------------------------------- */

static void fetched(struct pool_job *base)
{
    struct archiving *job = archiving_of(base);
    struct rs_server *server = base->server;
    struct session *session = base->session;
    struct pool_job *then = job->then;
    if (base->base.was_dropped || job->status == RS_CANCELLED)
        then->base.was_dropped = true;
    else if (job->status < 0)
        then->before = job->err;
    free_job(job);
    if (then->base.was_dropped || server_pool_put(session, server->join_pool, then) < 0) {
        then->base.was_dropped = true; /* as if the pool had stopped: it is told */
        then->finish(then);
    }
}

enum rs_status archiving_put_join(struct session *session, struct pool_job *then, const char *id,
                                  const char *dir)
{
    struct rs_server *server = session->server;
    struct archiving *job = NULL;
    if (!server->archive_pool || !archiving_is_away(dir))
        return server_pool_put(session, server->join_pool, then);
    job = new_job(server, id);
    if (!job)
        return RS_NOMEM;
    then->server = server;
    then->session = session;
    job->then = then;
    job->base.base.run = run_fetch;
    job->base.finish = fetched;
    if (put(server, session, server->archive_pool, job))
        return RS_OK;
    free_job(job);
    return RS_LIMIT;
}

enum rs_status archiving_check(const struct pool_job *base, const char *id, const char *dir,
                               struct rs_err *err)
{
    if (base->before.status < 0)
        return rs_err_set(err, base->before.status, "capture %s is archived: %s", id,
                          base->before.text);
    return rs_archive_fetch(NULL, id, dir, NULL, err);
}

enum rs_status archiving_remove(struct rs_server *server, const char *id, struct rs_err *err)
{
    char *dir = rs_store_capture_dir(server->options.store, id);
    enum rs_status status = RS_OK;
    if (!dir)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    if (has_file(dir, RS_ARCHIVE_LIST_NAME))
        status =
            server->options.archive
                ? rs_archive_remove(server->options.archive, id, err)
                : rs_err_set(
                      err, RS_REFUSED,
                      "capture %s is archived, too, and this aggregator has no --archive to remove it there",
                      id);
    rs_mem_free(dir);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------------------------------- */

static void tell(struct archiving *job, rs_ns now)
{
    struct session *session = job->base.session;
    const uint64_t done = atomic_load_explicit(&job->done_bytes, memory_order_relaxed);
    if (!session || !session->link || now - job->told_at < tell_every_ns ||
        (done == job->told_bytes && done))
        return;
    Rankscope__ArchiveProgress progress = RANKSCOPE__ARCHIVE_PROGRESS__INIT;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    progress.done_bytes = done;
    progress.all_bytes = atomic_load_explicit(&job->all_bytes, memory_order_relaxed);
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_ARCHIVE;
    reply.archive = &progress;
    job->told_at = now;
    job->told_bytes = done;
    session_post(session, &reply.base);
}

rs_ns archiving_tick(struct rs_server *server, rs_ns now)
{
    for (struct archiving *job = server->archivings; job; job = job->next)
        tell(job, now);
    return server->archivings ? now + tell_every_ns : RS_NS_MAX;
}

enum rs_status archiving_start(struct rs_server *server, struct rs_err *err)
{
    const struct rs_pool_options options = {.name = "rs-archive",
                                            .threads = 1,
                                            .nice = ARCHIVE_NICE,
                                            .queue_max = ARCHIVE_QUEUE_MAX,
                                            .done = server_pool_done,
                                            .self = server};
    return server->options.archive && server->join_pool
               ? rs_pool_start(&options, &server->archive_pool, err)
               : RS_OK;
}

void archiving_drain(struct rs_server *server)
{
    rs_archive_stop(server->options.archive);
}
