/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stranger's SELECT on a capture: on what was joined so far while it goes on, else on all of it.
 *
 *     AskQuery --> join pool: rs_documents_make(rows), pinned, or captures/ID/rows.db --> read pool: rs_row_store_query() --> QueryRows
 *
 * Rows in a ClickHouse (row_place.h) are brought into memory for it, at most COPIED_MAX: a stranger's statement is guarded by SQLite's
 * authorizer, and means the same wherever rows are. Who wants more asks the ClickHouse by himself.
 *
 * One job goes through both pools: joining is one at a time for a capture, and a query must not hold that up.
 */
#include "aggregator/analysis/rows.h"
#include "aggregator/server/documents.h"
#include "aggregator/server/live.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/store/query.h"
#include "aggregator/store/row_place.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

enum { ANSWER_BYTES = (1 << 20) - 4096, ROWS_MAX = 10000, COPIED_MAX = 2000000 };

static const struct rs_query_limits most = {.rows = ROWS_MAX,
                                            .bytes = ANSWER_BYTES,
                                            .time_ns = (rs_dur)5 * RS_NS_PER_S,
                                            .memory_bytes = 256 << 20};

struct query_job {
    struct pool_job base;
    struct rs_err err;
    enum rs_status status;
    char capture[RS_STORE_ID_BYTES];
    char *capture_dir, *sql;
    struct rs_document_options options;
    struct rs_document_set *set; /* pinned; NULL: the rows that are joined while it goes on */
    struct live *live;           /* NULL: closed */
    bool is_elsewhere;           /* the rows are */
    bool is_others;              /* and another aggregator has the capture */
    bool is_provisional;         /* the capture goes on */
    struct rs_row_notes notes;   /* of a closed capture whose rows are elsewhere */
    struct rs_query_limits limits;
    struct rs_buf json;
    struct rs_query_facts facts;
};

static struct query_job *job_of(struct pool_job *base)
{
    return (struct query_job *)base; /* its first member */
}

static void free_job(struct query_job *job)
{
    rs_documents_unpin(job->base.server->documents, job->set); /* NULL is allowed */
    rs_buf_fini(&job->json);
    live_free(&job->live);
    rs_row_notes_fini(&job->notes);
    rs_mem_free(job->capture_dir);
    rs_mem_free(job->sql);
    rs_mem_free(job);
}

/* How many rows the units have. */
static enum rs_status count_rows(struct rs_row_store *rows, int64_t *count_p, struct rs_err *err)
{
    const struct rs_read_args args = {.capture = RS_ROWS_CAPTURE};
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    enum rs_status status = rs_read_open(rows, RS_READ_WRITE_UNITS, &args, &cursor, err);
    *count_p = 0;
    while (status == RS_OK && (status = rs_cursor_next(cursor, &block, err)) == RS_OK)
        for (size_t i = 0; i < block.count; i++)
            *count_p += ((const struct rs_row_write_unit *)rs_block_row(&block, i))->rows;
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
    return status == RS_END ? RS_OK : status;
}

static enum rs_status bring_here(const struct query_job *job, struct rs_row_store **rows_p,
                                 struct rs_err *err)
{
    struct rs_row_place *place = job->base.server->options.rows;
    struct rs_row_store *from = NULL;
    int64_t count = 0;
    uint64_t copied = 0;
    enum rs_status status = rs_row_place_read(place, job->capture, job->capture_dir, &from, err);
    if (status == RS_OK)
        status = count_rows(from, &count, err);
    if (status == RS_OK && count > COPIED_MAX)
        status = rs_err_set(err, RS_LIMIT,
                            "capture %s has %lld rows, and at most %d are brought here for a "
                            "query: ask %s itself",
                            job->capture, (long long)count, COPIED_MAX, rs_row_place_url(place));
    if (status == RS_OK)
        status = rs_row_store_open(NULL, RS_ROWS_PRIVATE, rows_p, err);
    if (status == RS_OK)
        status = rs_row_store_copy(from, *rows_p, RS_ROWS_CAPTURE, &copied, err);
    rs_row_store_close(&from);
    return status;
}

static void run_query(struct rs_pool_job *pool_job)
{
    struct query_job *job = (struct query_job *)pool_job;
    struct rs_row_store *rows = NULL;
    job->status = job->is_elsewhere ? bring_here(job, &rows, &job->err)
                                    : rs_row_store_open(job->set ? job->set->dir : job->capture_dir,
                                                        RS_ROWS_READ, &rows, &job->err);
    if (job->status == RS_OK)
        job->status =
            rs_row_store_query(rows, job->sql, &job->limits, &job->json, &job->facts, &job->err);
    rs_row_store_close(&rows);
}

static void answer(struct session *session, struct query_job *job)
{
    Rankscope__QueryRows rows = RANKSCOPE__QUERY_ROWS__INIT;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    rows.json.data = job->json.data;
    rows.json.len = job->json.length;
    rows.rows = job->facts.rows;
    rows.is_cut = job->facts.is_cut;
    rows.is_provisional = job->is_provisional;
    rows.is_partial = job->notes.is_partial;
    rows.lines = job->notes.lines;
    rows.n_lines = job->notes.count;
    if (job->set) {
        rows.is_partial = job->set->is_partial;
        rows.is_provisional = job->set->is_provisional;
        rows.lines = job->set->lines;
        rows.n_lines = job->set->line_count;
    }
    reply.last = true;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_QUERY;
    reply.query = &rows;
    session->is_ended = true;
    session_post(session, &reply.base);
}

static void queried(struct pool_job *base)
{
    struct query_job *job = job_of(base);
    if (base->base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    if (base->session->link && job->status < 0)
        ask_refuse(base->session, &job->err);
    else if (base->session->link)
        answer(base->session, job);
    free_job(job);
}

static void run_join(struct rs_pool_job *pool_job)
{
    struct query_job *job = (struct query_job *)pool_job;
    if (job->is_others)
        return;
    job->status = archiving_check(&job->base, job->capture, job->capture_dir, &job->err);
    struct rs_row_place *place = job->base.server->options.rows;
    const bool is_joining =
        !job->options.assume_common_clock && rs_row_place_is_joining(place, job->capture_dir);
    job->is_elsewhere = place && !job->options.assume_common_clock && (is_joining || !job->live);
    if (job->status < 0 || is_joining)
        return;
    if (job->is_elsewhere) {
        job->status = rows_make(job->base.server, job->capture, job->capture_dir, &job->err);
        if (job->status == RS_OK)
            job->status = rs_row_place_notes(place, job->capture_dir, &job->notes, &job->err);
        return;
    }
    job->status = rs_documents_make(job->base.server->documents, job->capture, job->capture_dir,
                                    &job->options, live_facts_of(job->live), &job->set, &job->err);
}

static void joined(struct pool_job *base)
{
    struct query_job *job = job_of(base);
    struct session *session = base->session;
    if (base->base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    if (session->link && job->status >= 0) {
        job->base.finish = queried;
        job->base.base.run = run_query;
        if (server_pool_put(session, session->server->read_pool, &job->base) == RS_OK)
            return;
        job->status =
            rs_err_set(&job->err, RS_LIMIT, "too many read from this aggregator: try again");
    }
    if (session->link)
        ask_refuse(session, &job->err);
    free_job(job);
}

static enum rs_status fill_job(const struct rs_server *server, const Rankscope__AskQuery *ask,
                               struct query_job *job)
{
    if (!server->documents)
        return rs_err_set(&job->err, RS_REFUSED, "this aggregator makes no tables");
    if (!rs_wire_is_capture_id(ask->capture))
        return rs_err_set(&job->err, RS_INVALID, "that is no name of a capture");
    if (strlen(ask->sql) > RS_QUERY_SQL_BYTES_MAX)
        return rs_err_set(&job->err, RS_INVALID, "a query has at most 64 KiB");
    job->options = (struct rs_document_options){.has_rows = true,
                                                .assume_common_clock = ask->assume_common_clock};
    job->limits = most;
    if (ask->limit && ask->limit < job->limits.rows)
        job->limits.rows = ask->limit;
    job->sql = rs_mem_strdup(ask->sql);
    job->capture_dir = rs_store_capture_dir(server->options.store, ask->capture);
    if (!job->sql || !job->capture_dir || live_of(server, ask->capture, &job->live) < 0)
        return rs_err_set(&job->err, RS_NOMEM, "out of memory");
    job->is_provisional = job->live != NULL;
    (void)snprintf(job->capture, sizeof job->capture, "%s", ask->capture);
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", job->capture);
    return RS_OK;
}

static enum rs_status take_other(struct query_job *job, const struct rs_fleet_capture *other)
{
    job->is_others = job->is_elsewhere = true;
    job->is_provisional = other->rows == RS_FLEET_ROWS_SO_FAR;
    return rs_row_notes_take(other->notes, &job->notes, &job->err);
}

void ask_query(struct session *session, const Rankscope__AskQuery *ask,
               const struct rs_fleet_capture *other)
{
    struct query_job *job = rs_mem_calloc(1, sizeof *job);
    struct rs_err err = {0};
    if (!job) {
        (void)rs_err_set(&err, RS_NOMEM, "out of memory");
        ask_refuse(session, &err);
        return;
    }
    job->base.server = session->server;
    enum rs_status status = fill_job(session->server, ask, job);
    job->base.finish = joined;
    job->base.base.run = run_join;
    if (status == RS_OK && other)
        status = take_other(job, other);
    if (status == RS_OK &&
        (other ? server_pool_put(session, session->server->join_pool, &job->base)
               : archiving_put_join(session, &job->base, job->capture, job->capture_dir)) < 0)
        status = rs_err_set(&job->err, RS_LIMIT,
                            "too many wait for tables of this aggregator: try again");
    if (status < 0) {
        ask_refuse(session, &job->err);
        free_job(job);
    }
}
