/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables over a link: the rows of a named read, by pages.
 *
 *     AskTable --> join pool: rs_documents_make(rows), open the read --> reader --+
 *                                                                                 |
 *          +----------------------------------------------------------------------+
 *          v
 *     read pool: a page (block of rows) --> TableRows --> taken by the link? the next page --> ... last
 *
 *     MAKING    a job of the join pool runs; there is no reader
 *     READING   a job of the read pool has the reader: nobody else touches it
 *     SENDING   the page is in the outbox; the reader rests
 *     (end)     the last page's job has closed the reader; a link that goes before that closes it in session_reap()
 *
 * The reader's set is pinned and its rows are one snapshot, so all pages of an answer are of one generation, whatever comes
 * in meanwhile. A page is at most 1 MiB, and one is in memory at a time however slowly the link takes it. A cursor names the
 * generation of the set and the place in it; the rows of another generation are refused.
 */
#include "aggregator/analysis/rows.h"
#include "aggregator/analysis/spans.h"
#include "aggregator/server/documents.h"
#include "aggregator/server/live.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/store/row_place.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/lend.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_BYTES = (1 << 20) - 4096, CURSOR_BYTES = RS_TOKEN_BYTES + 24 };

struct table_reader {
    struct rs_document_set *set; /* pinned; NULL: the rows of a capture that goes on */
    enum rs_read read;
    struct rs_row_store *rows; /* NULL: read to the end */
    struct rs_cursor *cursor;
    struct rs_spans *spans;     /* instead of both: raw events */
    struct table_source source; /* instead of all of them; self NULL: none, or read to the end */
    size_t lines_told;          /* of its lines; more may come with each block */
    uint64_t source_rows;       /* handed out by it, but for those of the block */
    uint64_t skip;              /* of its rows: they were sent in answer to another question */
    struct rs_block block;
    size_t at;     /* rows of the block that were handed out */
    uint64_t left; /* of the limit */
    /* Which rows: lists of its own. */
    int64_t *steps;
    int32_t *ranks;
    struct rs_read_filter filter;
    uint64_t filter_digest; /* 0: all rows */
    bool has_begun, is_reading;
    bool is_live; /* the capture goes on */
};

struct table_job {
    struct pool_job base;
    struct rs_err err;
    enum rs_status status;
    struct table_reader *reader; /* while a page is made: the session's */
    /* to make the rows */
    char capture[RS_STORE_ID_BYTES];
    char *capture_dir;
    struct rs_document_options options;
    struct live *live;         /* NULL: closed */
    bool is_elsewhere;         /* another aggregator's, whose rows are in the place of rows */
    char cursor[CURSOR_BYTES]; /* where to go on; then of the page */
    /* a page */
    struct rs_buf page;
    size_t rows;
    bool is_last;
};

static struct table_job *job_of(struct pool_job *base)
{
    return (struct table_job *)base; /* its first member */
}

static void close_rows(struct table_reader *reader)
{
    rs_cursor_close(&reader->cursor);
    rs_row_store_close(&reader->rows);
    rs_spans_close(&reader->spans);
    rs_block_fini(&reader->block);
    if (reader->source.self)
        reader->source.close(reader->source.self);
    reader->source.self = NULL;
}

static bool has_rows(const struct table_reader *reader)
{
    return reader->rows || reader->spans || reader->source.self;
}

static void free_reader(struct rs_server *server, struct table_reader **reader_p)
{
    struct table_reader *reader = *reader_p;
    if (!reader)
        return;
    *reader_p = NULL;
    close_rows(reader);
    rs_documents_unpin(server->documents, reader->set); /* NULL is allowed */
    for (size_t i = 0; i < reader->source.line_count; i++)
        rs_mem_free(reader->source.lines[i]);
    rs_mem_free(reader->source.lines);
    rs_mem_free(reader->steps);
    rs_mem_free(reader->ranks);
    rs_mem_free(reader);
}

void ask_table_free(struct session *session)
{
    free_reader(session->server, &session->table);
}

static void free_job(struct table_job *job)
{
    rs_buf_fini(&job->page);
    live_free(&job->live);
    rs_mem_free(job->capture_dir);
    rs_mem_free(job);
}

/* What a cursor is of: the rows' generation (live rows: the token has theirs) and the choice of rows. */
static uint64_t generation_of(const struct table_reader *reader)
{
    return (reader->set ? reader->set->generation : reader->source.generation) ^
           reader->filter_digest;
}

/* ---- pages ------------------------------------------------------------------------------------------------------------ */

/* The next rows of the block at hand, as many as fit a message. */
static enum rs_status put_page(struct table_job *job)
{
    struct table_reader *reader = job->reader;
    const struct rs_table *table = reader->block.table;
    size_t count = reader->block.count - reader->at;
    if (count > reader->left)
        count = (size_t)reader->left;
    if (count > RS_CURSOR_ROWS)
        count = RS_CURSOR_ROWS;
    for (;; count /= 2) {
        rs_buf_reset(&job->page);
        if (count)
            rs_block_put(table, rs_block_row(&reader->block, reader->at), count, &job->page);
        if (job->page.failed)
            return rs_err_set(&job->err, RS_NOMEM, "out of memory");
        if (job->page.length <= PAGE_BYTES)
            break;
        if (count == 1)
            return rs_err_set(&job->err, RS_LIMIT, "a row of %s is larger than a message",
                              table->name);
    }
    reader->at += count;
    reader->left -= count;
    job->rows = count;
    return RS_OK;
}

/* The next block of a source, without what was sent before this question. */
static enum rs_status next_of_source(struct table_job *job)
{
    struct table_reader *reader = job->reader;
    enum rs_status status = RS_OK;
    do {
        reader->source_rows += reader->block.count;
        reader->at = 0;
        status = reader->source.next(&reader->source, &reader->block, &job->err);
        if (status == RS_OK && reader->skip) {
            reader->at =
                reader->skip < reader->block.count ? (size_t)reader->skip : reader->block.count;
            reader->skip -= reader->at;
        }
    } while (status == RS_OK && reader->at >= reader->block.count);
    return status;
}

static enum rs_status next_block(struct table_job *job)
{
    struct table_reader *reader = job->reader;
    if (reader->source.self)
        return next_of_source(job);
    reader->at = 0;
    return reader->spans ? rs_spans_next(reader->spans, &reader->block, &job->err)
                         : rs_cursor_next(reader->cursor, &reader->block, &job->err);
}

static void put_token(struct table_job *job)
{
    const struct table_reader *reader = job->reader;
    const size_t left = reader->block.count - reader->at;
    char token[RS_TOKEN_BYTES];
    if (reader->source.self)
        (void)snprintf(token, sizeof token, "0.%" PRIu64, reader->source_rows + reader->at);
    else if (reader->spans)
        rs_spans_token_before(reader->spans, left, token);
    else
        rs_cursor_token_before(reader->cursor, left, token);
    (void)snprintf(job->cursor, sizeof job->cursor, "%016" PRIx64 ".%s", generation_of(reader),
                   token);
}

static void run_page(struct rs_pool_job *pool_job)
{
    struct table_job *job = (struct table_job *)pool_job;
    struct table_reader *reader = job->reader;
    job->status = RS_OK;
    if (reader->at >= reader->block.count)
        job->status = next_block(job);
    const bool is_over = job->status == RS_END;
    if (is_over)
        reader->at = reader->block.count = 0;
    if (job->status >= 0)
        job->status = put_page(job);
    if (job->status < 0)
        return;
    put_token(job);
    job->is_last = is_over || !reader->left ||
                   (!reader->source.self && reader->at == reader->block.count &&
                    reader->block.count < RS_CURSOR_ROWS);
    if (job->is_last)
        close_rows(reader);
}

static void post_page(struct session *session, struct table_job *job)
{
    struct table_reader *reader = session->table;
    Rankscope__TableRows rows = RANKSCOPE__TABLE_ROWS__INIT;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    rows.read = rs_lend(reader->source.table ? reader->source.table->name
                                             : rs_read_def(reader->read)->name);
    rows.rows = (uint32_t)job->rows;
    rows.block.data = job->page.data;
    rows.block.len = job->page.length;
    rows.cursor = job->cursor;
    rows.is_partial = reader->set ? reader->set->is_partial : reader->source.is_partial;
    rows.is_provisional = reader->set ? reader->set->is_provisional : reader->is_live;
    if (reader->set && !reader->has_begun) {
        rows.lines = reader->set->lines;
        rows.n_lines = reader->set->line_count;
    } else if (reader->lines_told < reader->source.line_count) {
        rows.lines = reader->source.lines + reader->lines_told;
        rows.n_lines = reader->source.line_count - reader->lines_told;
        reader->lines_told = reader->source.line_count;
    }
    reader->has_begun = true;
    reply.last = job->is_last;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_TABLE;
    reply.table = &rows;
    session->is_ended = job->is_last;
    session_post(session, &reply.base);
}

static void page_made(struct pool_job *base)
{
    struct table_job *job = job_of(base);
    struct session *session = base->session;
    if (base->base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    session->table->is_reading = false;
    if (session->link && job->status < 0)
        ask_refuse(session, &job->err);
    else if (session->link)
        post_page(session, job);
    free_job(job);
    ask_table_pump(session);
}

static void refuse(struct session *session, enum rs_status status, const char *text)
{
    struct rs_err err = {0};
    (void)rs_err_set(&err, status, "%s", text);
    ask_refuse(session, &err);
}

void ask_table_pump(struct session *session)
{
    struct table_reader *reader = session->table;
    if (!reader || reader->is_reading || !has_rows(reader) || session->outbox || !session->link ||
        session->is_ended || session->is_failed)
        return;
    struct table_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job) {
        refuse(session, RS_NOMEM, "out of memory");
        return;
    }
    job->reader = reader;
    job->base.finish = page_made;
    job->base.base.run = run_page;
    reader->is_reading = true;
    if (server_pool_put(session, session->server->read_pool, &job->base) < 0) {
        reader->is_reading = false;
        refuse(session, RS_LIMIT, "too many read from this aggregator: try again");
        free_job(job);
    }
}

/* ---- the beginning ------------------------------------------------------------------------------------------------------ */

/* "" or GENERATION.TOKEN, of this generation. */
static enum rs_status check_cursor(const struct table_job *job, const char **token_p,
                                   struct rs_err *err)
{
    char generation[24];
    *token_p = NULL;
    if (!*job->cursor)
        return RS_OK;
    (void)snprintf(generation, sizeof generation, "%016" PRIx64 ".", generation_of(job->reader));
    if (strncmp(job->cursor, generation, strlen(generation)) != 0)
        return rs_err_set(err, RS_NOTFOUND,
                          "the rows were made anew since that page, or others are asked for: "
                          "read again from the start");
    *token_p = job->cursor + strlen(generation);
    return RS_OK;
}

/* All rows of a closed capture where rows are, when that is not its folder: with what was noted of it when they were made. */
static enum rs_status open_whole(struct table_job *job, struct rs_row_place *place)
{
    struct table_reader *reader = job->reader;
    struct rs_row_notes notes = {0};
    enum rs_status status = rows_make(job->base.server, job->capture, job->capture_dir, &job->err);
    if (status == RS_OK)
        status = rs_row_place_notes(place, job->capture_dir, &notes, &job->err);
    if (status == RS_OK)
        status = rs_row_place_read(place, job->capture, job->capture_dir, &reader->rows, &job->err);
    reader->source.lines = notes.lines;
    reader->source.line_count = notes.count;
    reader->source.line_capacity = notes.capacity;
    reader->source.is_partial = notes.is_partial;
    return status;
}

/* The windows that were joined so far of a capture that is not closed; else all of it is joined, or was. */
static enum rs_status open_rows(struct table_job *job)
{
    struct table_reader *reader = job->reader;
    struct rs_row_place *place = job->base.server->options.rows;
    if (job->is_elsewhere)
        return rs_row_place_read(place, job->capture, job->capture_dir, &reader->rows, &job->err);
    if (!job->options.assume_common_clock && rs_row_place_is_joining(place, job->capture_dir))
        return rs_row_place_read(place, job->capture, job->capture_dir, &reader->rows, &job->err);
    if (place && !job->live && !job->options.assume_common_clock)
        return open_whole(job, place);
    const enum rs_status status =
        rs_documents_make(job->base.server->documents, job->capture, job->capture_dir,
                          &job->options, live_facts_of(job->live), &reader->set, &job->err);
    return status == RS_OK
               ? rs_row_store_open(reader->set->dir, RS_ROWS_READ, &reader->rows, &job->err)
               : status;
}

static void open_spans(struct table_job *job)
{
    const char *token = NULL;
    job->status = check_cursor(job, &token, &job->err);
    if (job->status == RS_OK)
        job->status = rs_spans_open(job->capture_dir, job->reader->read, &job->reader->filter,
                                    token, &job->reader->spans, &job->err);
    if (job->status == RS_AGAIN)
        job->status = rs_err_set(&job->err, RS_NOTFOUND, "%s", job->err.text);
}

static void run_open(struct rs_pool_job *pool_job)
{
    struct table_job *job = (struct table_job *)pool_job;
    struct table_reader *reader = job->reader;
    job->status = job->is_elsewhere
                      ? RS_OK
                      : archiving_check(&job->base, job->capture, job->capture_dir, &job->err);
    if (job->status < 0)
        return;
    if (rs_read_is_raw(reader->read)) {
        open_spans(job);
        return;
    }
    struct rs_read_args args = {.capture = RS_ROWS_CAPTURE, .filter = reader->filter};
    job->status = open_rows(job);
    if (job->status == RS_OK)
        job->status = check_cursor(job, &args.token, &job->err);
    if (job->status == RS_OK)
        job->status = rs_read_open(reader->rows, reader->read, &args, &reader->cursor, &job->err);
    if (job->status == RS_AGAIN)
        job->status = rs_err_set(&job->err, RS_NOTFOUND, "%s", job->err.text);
}

static void opened(struct pool_job *base)
{
    struct table_job *job = job_of(base);
    struct session *session = base->session;
    if (base->base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    if (session->link && job->status < 0)
        ask_refuse(session, &job->err);
    if (session->link && job->status == RS_OK) {
        session->table = job->reader;
        job->reader = NULL;
    }
    free_reader(session->server, &job->reader);
    free_job(job);
    ask_table_pump(session);
}

/* The numbers, with room for one more: never no memory at all. */
static enum rs_status take_filter(struct table_reader *reader, const Rankscope__AskTable *ask,
                                  struct rs_err *err)
{
    struct rs_read_filter *filter = &reader->filter;
    struct rs_buf digested = {0};
    reader->steps = rs_mem_calloc(ask->n_steps + 1, sizeof *reader->steps);
    reader->ranks = rs_mem_calloc(ask->n_ranks + 1, sizeof *reader->ranks);
    if (!reader->steps || !reader->ranks)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < ask->n_steps; i++)
        reader->steps[i] = ask->steps[i];
    for (size_t i = 0; i < ask->n_ranks; i++) {
        if (ask->ranks[i] > INT32_MAX)
            return rs_err_set(err, RS_INVALID, "%" PRIu32 " is no rank", ask->ranks[i]);
        reader->ranks[i] = (int32_t)ask->ranks[i];
    }
    *filter = (struct rs_read_filter){.steps = reader->steps,
                                      .step_count = ask->n_steps,
                                      .ranks = reader->ranks,
                                      .rank_count = ask->n_ranks,
                                      .from_ns = ask->from_ns,
                                      .to_ns = ask->to_ns ? ask->to_ns : INT64_MAX};
    if (rs_read_check_filter(reader->read, filter, err) < 0)
        return err->status;
    if (!filter->step_count && !filter->rank_count)
        return RS_OK;
    rs_read_sql(reader->read, filter, &digested);
    rs_buf_bytes(&digested, reader->ranks, ask->n_ranks * sizeof *reader->ranks);
    rs_buf_printf(&digested, "%" PRId64 " %" PRId64, ask->from_ns, ask->to_ns);
    reader->filter_digest = rs_crc32c(0, digested.data, digested.length);
    const bool has_failed = digested.failed;
    rs_buf_fini(&digested);
    return has_failed ? rs_err_set(err, RS_NOMEM, "out of memory") : RS_OK;
}

static enum rs_status fill_job(struct session *session, const Rankscope__AskTable *ask,
                               struct table_job *job)
{
    struct rs_server *server = session->server;
    job->options = (struct rs_document_options){.has_rows = true,
                                                .assume_common_clock = ask->assume_common_clock};
    if (!server->documents)
        return rs_err_set(&job->err, RS_REFUSED, "this aggregator makes no tables");
    if (!rs_wire_is_capture_id(ask->capture))
        return rs_err_set(&job->err, RS_INVALID, "that is no name of a capture");
    if (strlen(ask->cursor) >= sizeof job->cursor)
        return rs_err_set(&job->err, RS_INVALID, "that is no cursor of a table");
    job->reader = rs_mem_calloc(1, sizeof *job->reader);
    job->capture_dir = rs_store_capture_dir(server->options.store, ask->capture);
    if (!job->reader || !job->capture_dir || live_of(server, ask->capture, &job->live) < 0)
        return rs_err_set(&job->err, RS_NOMEM, "out of memory");
    if (!rs_read_named(ask->read, &job->reader->read))
        return rs_err_set(&job->err, RS_INVALID, "this aggregator has no table \"%.60s\"",
                          ask->read);
    if (take_filter(job->reader, ask, &job->err) < 0)
        return job->err.status;
    job->reader->left = ask->limit ? ask->limit : UINT64_MAX;
    job->reader->is_live = job->live != NULL;
    (void)snprintf(job->capture, sizeof job->capture, "%s", ask->capture);
    (void)snprintf(job->cursor, sizeof job->cursor, "%s", ask->cursor);
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", job->capture);
    return RS_OK;
}

/* What its owner noted of the rows, for the user. */
static enum rs_status take_notes(struct table_job *job, const struct rs_fleet_capture *other)
{
    struct table_reader *reader = job->reader;
    struct rs_row_notes notes = {0};
    const enum rs_status status = rs_row_notes_take(other->notes, &notes, &job->err);
    if (status < 0)
        return status;
    job->is_elsewhere = true;
    reader->is_live = other->rows == RS_FLEET_ROWS_SO_FAR;
    reader->source.lines = notes.lines;
    reader->source.line_count = notes.count;
    reader->source.line_capacity = notes.capacity;
    reader->source.is_partial = notes.is_partial;
    return RS_OK;
}

void ask_table(struct session *session, const Rankscope__AskTable *ask,
               const struct rs_fleet_capture *other)
{
    struct table_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job) {
        refuse(session, RS_NOMEM, "out of memory");
        return;
    }
    enum rs_status status = fill_job(session, ask, job);
    if (status == RS_OK && other)
        status = take_notes(job, other);
    job->base.finish = opened;
    job->base.base.run = run_open;
    if (status == RS_OK &&
        (other ? server_pool_put(session, session->server->join_pool, &job->base)
               : archiving_put_join(session, &job->base, job->capture, job->capture_dir)) < 0)
        status = rs_err_set(&job->err, RS_LIMIT,
                            "too many wait for tables of this aggregator: try again");
    if (status < 0) {
        ask_refuse(session, &job->err);
        free_reader(session->server, &job->reader);
        free_job(job);
    }
}

void ask_table_of(struct session *session, const struct table_source *source, const char *cursor,
                  uint64_t limit)
{
    struct table_job at = {.status = RS_OK};
    struct table_reader *reader = rs_mem_calloc(1, sizeof *reader);
    const char *token = NULL;
    int64_t first = 0;
    if (!reader) {
        source->close(source->self);
        for (size_t i = 0; i < source->line_count; i++)
            rs_mem_free(source->lines[i]);
        rs_mem_free(source->lines);
        refuse(session, RS_NOMEM, "out of memory");
        return;
    }
    reader->source = *source;
    reader->left = limit ? limit : UINT64_MAX;
    at.reader = reader;
    if (snprintf(at.cursor, sizeof at.cursor, "%s", cursor) >= (int)sizeof at.cursor)
        at.status = rs_err_set(&at.err, RS_INVALID, "that is no cursor of a table");
    else
        at.status = check_cursor(&at, &token, &at.err);
    if (at.status == RS_OK && token && !rs_read_place(token, &first, &reader->skip))
        at.status = rs_err_set(&at.err, RS_INVALID, "\"%.60s\" is no place in a table", token);
    if (at.status < 0) {
        ask_refuse(session, &at.err);
        free_reader(session->server, &reader);
        return;
    }
    session->table = reader;
    ask_table_pump(session);
}
