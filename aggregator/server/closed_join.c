/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture that was closed is joined at once, so that the first who asks for its tables or its report finds them made: with
 * thousands of ranks that takes the better part of a minute.
 *
 *     closed --a job of rs-join, behind all of that capture--> documents.c: DATA/documents/N (rows, deliverables, report)
 *
 * With a ClickHouse its rows are made there instead (rows_owed.c), and documents when somebody asks.
 *
 * It is done for the sake of speed alone: when much is closed at once, or the queue is full, those that are too many are joined when
 * somebody asks, as are all of earlier lives of the process.
 */
#include "aggregator/server/documents.h"
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "join"
#include "common/base/log.h"

#include <stdio.h>

enum { WAITING_MAX = 4 };

struct closed_job {
    struct pool_job base;
    char capture[RS_STORE_ID_BYTES];
    char *dir;
    enum rs_status status;
    struct rs_err err;
};

/* On rs-join. */
static void run_closed(struct rs_pool_job *pool_job)
{
    struct closed_job *job = (struct closed_job *)pool_job; /* its first member's first */
    const struct rs_document_options want = {.has_rows = true};
    struct rs_documents *documents = job->base.server->documents;
    struct rs_document_set *set = NULL;
    job->status =
        rs_documents_make(documents, job->capture, job->dir, &want, NULL, &set, &job->err);
    if (job->status == RS_OK)
        rs_documents_unpin(documents, set);
}

static void free_job(struct closed_job *job)
{
    rs_mem_free(job->dir);
    rs_mem_free(job);
}

static void made(struct pool_job *base)
{
    struct closed_job *job = (struct closed_job *)base; /* its first member */
    base->server->closed_join_count--;
    /* It may hold no rank, or was removed meanwhile. */
    if (!base->base.was_dropped && job->status < 0 && job->status != RS_NOTFOUND)
        rs_log_warn("capture %s cannot be joined: %s", job->capture, job->err.text);
    free_job(job);
}

void closed_join(struct rs_server *server, const char *id)
{
    if (server->options.rows) { /* reads need its rows, and those go first */
        rows_owed_add(server, id);
        return;
    }
    if (!server->documents || !server->join_pool || server->is_draining ||
        server->closed_join_count >= WAITING_MAX)
        return;
    struct closed_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job)
        return;
    (void)snprintf(job->capture, sizeof job->capture, "%s", id);
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", id);
    job->dir = rs_store_capture_dir(server->options.store, id);
    job->base.server = server;
    job->base.finish = made;
    job->base.base.run = run_closed;
    if (job->dir && rs_pool_put(server->join_pool, &job->base.base) == RS_OK)
        server->closed_join_count++;
    else
        free_job(job);
}
