/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows over all captures that are closed, whoever's runs they are: a table like others (ask_table.c), whose rows come from one
 * capture's after the other.
 *
 *     AskHistory --> the journal's list, chosen
 *        |
 *        v
 *     LOOKING   read pool: whose rows are at hand (captures/ID/rows.db), as they were joined while it was recorded?
 *        |                 what is archived is not fetched for this
 *        v
 *     JOINING   join pool, one job for each capture that has none, at most JOINS_MAX: captures/ID/.rows/ --rename--> rows.db
 *        |                 whoever asks next finds them
 *        v
 *     READING   ask_table_of(): the read pool reads capture by capture (aggregator/output/history.h), page by page
 *
 * With rows in a ClickHouse (row_place.h) those are looked for, made and read there, and nothing lies in .rows/.
 *
 * One job goes through all of it, and is what the pages are read from. What lacks is said with the first page; what turns out to be
 * damaged, with the page at hand then.
 */
#include "aggregator/deliver/deliver.h"
#include "aggregator/output/history.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/server/step_probe.h"
#include "aggregator/store/row_place.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define RS_LOG_TAG "server"
#include "common/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOINS_MAX = 64, LINES_MAX = 50, LINE_BYTES = 400, NAMES_MAX = 64 };

/* What lies in captures/ID/ while rows are made: none of the capture's files. */
static const char making_name[] = ".rows";

enum rows_state { ROWS_HERE, ROWS_LACKING, ROWS_ARCHIVED, ROWS_LATER, ROWS_FAILED };

struct one_capture {
    char id[RS_STORE_ID_BYTES];
    char *run, *source, *dir;
    const char *state; /* a constant text */
    bool has_failed;   /* nothing was recorded, so nothing lacks */
    bool is_elsewhere; /* another aggregator has it; its rows are in the place of rows, or lack */
    char aggregator[RS_FLEET_ID_BYTES]; /* that one's id */
    rs_ns created_ns;
    enum rows_state rows;
};

struct history_job {
    struct pool_job base;
    struct rs_err err;
    enum rs_status status;
    const struct rs_history_def *def;
    struct rs_history *history;
    struct one_capture *captures; /* in the order of time */
    size_t count, capacity;
    size_t at;           /* the one that is joined, or read next */
    unsigned join_count; /* were joined for this question */
    bool is_at_end;      /* of reading */
    bool has_no_memory;
    /* what was asked for; lent by the message until the list is made */
    const Rankscope__AskHistory *ask;
    const char *user;
    char *cursor;
    uint64_t limit, choice;
    /* What is told with the pages: its own until it is answered, then the reader's. */
    struct table_source own, *told;
};

static struct history_job *job_of(struct pool_job *base)
{
    return (struct history_job *)base; /* its first member */
}

static void free_one(struct one_capture *capture)
{
    rs_mem_free(capture->run);
    rs_mem_free(capture->source);
    rs_mem_free(capture->dir);
}

static void free_job(struct history_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        free_one(&job->captures[i]);
    for (size_t i = 0; i < job->own.line_count; i++)
        rs_mem_free(job->own.lines[i]);
    rs_mem_free(job->own.lines);
    rs_mem_free(job->captures);
    rs_mem_free(job->cursor);
    rs_history_free(&job->history);
    rs_mem_free(job);
}

/* ---- what lacks ---------------------------------------------------------------------------------------------------- */

static void add_line(struct table_source *told, const char *text)
{
    char *copy =
        told->line_count >= LINES_MAX || rs_mem_grow((void **)&told->lines, &told->line_capacity,
                                                     told->line_count + 1, sizeof *told->lines) < 0
            ? NULL
            : rs_mem_strdup(text);
    if (copy)
        told->lines[told->line_count++] = copy;
}

static void tell_of(struct history_job *job, const struct one_capture *capture, const char *why)
{
    char line[LINE_BYTES];
    job->told->is_partial = true;
    if (job->told->line_count + 1 < LINES_MAX)
        (void)snprintf(line, sizeof line, "capture %s is not in it: %s", capture->id, why);
    else
        (void)snprintf(line, sizeof line,
                       "and other captures are not in it: the view captures "
                       "says of each why");
    add_line(job->told, line);
}

static const char *without_text(enum rows_state rows)
{
    switch (rows) {
    case ROWS_ARCHIVED:
        return "archived";
    case ROWS_LATER:
        return "later";
    case ROWS_LACKING:
    case ROWS_FAILED:
        return "failed";
    case ROWS_HERE:
        break;
    }
    return "here";
}

/* ---- LOOKING -------------------------------------------------------------------------------------------------------- */

/* Of this program's version, and no database that is damaged. */
static bool has_rows(const struct rs_server *server, const char *dir)
{
    struct rs_row_store *rows = NULL;
    struct rs_err err = {0};
    if (server->options.rows)
        return rs_row_place_is_whole(server->options.rows, dir);
    const bool is_there = rs_row_store_open(dir, RS_ROWS_READ, &rows, &err) == RS_OK;
    rs_row_store_close(&rows);
    return is_there;
}

static void run_look(struct rs_pool_job *pool_job)
{
    struct history_job *job = (struct history_job *)pool_job;
    unsigned joins = 0;
    for (size_t i = 0; i < job->count; i++) {
        struct one_capture *capture = &job->captures[i];
        if (capture->is_elsewhere)
            continue;
        if (has_rows(job->base.server, capture->dir)) {
            capture->rows = ROWS_HERE;
        } else if (capture->has_failed) {
            capture->rows = ROWS_FAILED;
        } else if (archiving_is_away(capture->dir)) {
            capture->rows = ROWS_ARCHIVED;
            tell_of(
                job, capture,
                "it is archived, and its rows are not at hand; rankscope restore brings it back");
        } else if (joins == JOINS_MAX) {
            capture->rows = ROWS_LATER;
            tell_of(job, capture, "others had to be joined first; ask again");
        } else {
            capture->rows = ROWS_LACKING;
            joins++;
        }
    }
}

/* ---- JOINING -------------------------------------------------------------------------------------------------------- */

/* What a join that was cut off has left, or this one: a failure is met by whoever makes it anew. */
static void remove_making(const char *making)
{
    struct rs_err err = {0};
    if (access(making, F_OK) == 0 && rs_file_remove_tree(making, &err) < 0)
        rs_log_warn("%s", err.text);
}

/* Without its parents: one that was removed since it was listed does not come back as an empty folder. */
static enum rs_status make_making(const char *making, struct rs_err *err)
{
    return mkdir(making, 0750) == 0 ? RS_OK
                                    : rs_err_errno(err, "cannot create the folder %s", making);
}

/* Another question may have made them meanwhile; jobs of one capture run one at a time. */
static void run_join(struct rs_pool_job *pool_job)
{
    struct history_job *job = (struct history_job *)pool_job;
    const struct one_capture *capture = &job->captures[job->at];
    struct rs_deliver_options how = {.rows = NULL};
    struct rs_deliver_result result = {0};
    job->err = (struct rs_err){0};
    job->status = RS_OK;
    if (has_rows(job->base.server, capture->dir))
        return;
    if (job->base.server->options.rows) {
        job->status = archiving_check(&job->base, capture->id, capture->dir, &job->err);
        if (job->status == RS_OK)
            job->status = rows_make(job->base.server, capture->id, capture->dir, &job->err);
        return;
    }
    char *making = rs_file_join(capture->dir, making_name);
    job->status = making ? RS_OK : rs_err_set(&job->err, RS_NOMEM, "out of memory");
    if (making)
        remove_making(making);
    if (job->status == RS_OK)
        job->status = archiving_check(&job->base, capture->id, capture->dir, &job->err);
    if (job->status == RS_OK)
        job->status = make_making(making, &job->err);
    if (job->status == RS_OK)
        job->status = rs_row_store_open(making, RS_ROWS_WRITE, &how.rows, &job->err);
    if (job->status == RS_OK)
        job->status = rs_deliver_capture(capture->dir, &how, NULL, NULL, &result, &job->err);
    rs_row_store_close(&how.rows);
    if (job->status == RS_OK)
        job->status = rs_row_store_move(making, capture->dir, &job->err);
    if (making)
        remove_making(making);
    rs_deliver_result_fini(&result);
    rs_mem_free(making);
}

static void go_on(struct history_job *job);

static void end_with(struct history_job *job)
{
    if (job->base.session->link)
        ask_refuse(job->base.session, &job->err);
    free_job(job);
}

static void dropped(struct history_job *job)
{
    job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    end_with(job);
}

static void joined(struct pool_job *base)
{
    struct history_job *job = job_of(base);
    struct one_capture *capture = &job->captures[job->at];
    if (base->base.was_dropped) {
        dropped(job);
        return;
    }
    capture->rows = job->status == RS_OK ? ROWS_HERE : ROWS_FAILED;
    job->join_count++;
    if (job->status < 0) {
        rs_log_warn("capture %s cannot be joined: %s", capture->id, job->err.text);
        tell_of(job, capture, job->err.text);
    }
    job->at++;
    go_on(job);
}

/* ---- READING --------------------------------------------------------------------------------------------------------- */

/* One whose rows went since, or cannot be read, is like one whose rows lack: the others do not fail with it. */
static enum rs_status read_one(struct history_job *job, struct rs_block *block, struct rs_err *err)
{
    const struct one_capture *capture = &job->captures[job->at];
    struct rs_row_store *rows = NULL;
    struct rs_err why = {0};
    struct rs_history_capture facts = {.id = capture->id,
                                       .run = capture->run,
                                       .source = capture->source,
                                       .state = capture->state,
                                       .created_ns = capture->created_ns,
                                       .without = without_text(capture->rows)};
    enum rs_status status = RS_OK;
    if (capture->rows == ROWS_HERE)
        status = rs_row_place_read(job->base.server->options.rows, capture->id, capture->dir, &rows,
                                   &why);
    if (status == RS_OK)
        status = rs_history_add(job->history, &facts, rows, block, &why);
    rs_row_store_close(&rows);
    if (status == RS_OK || capture->rows != ROWS_HERE || status == RS_NOMEM)
        return status < 0 ? rs_err_set(err, status, "%s", why.text) : status;
    rs_log_warn("the rows of capture %s cannot be read: %s", capture->id, why.text);
    tell_of(job, capture, why.text);
    facts.without = without_text(ROWS_FAILED);
    return rs_history_add(job->history, &facts, NULL, block, err);
}

static enum rs_status next_rows(struct table_source *source, struct rs_block *block,
                                struct rs_err *err)
{
    struct history_job *job = source->self;
    enum rs_status status = RS_OK;
    job->told = source;
    block->count = 0;
    while (status == RS_OK && !block->count && job->at < job->count) {
        status = read_one(job, block, err);
        job->at++;
    }
    if (status == RS_OK && !block->count && !job->is_at_end) {
        job->is_at_end = true;
        status = rs_history_end(job->history, block, err);
    }
    return status == RS_OK && !block->count ? RS_END : status;
}

static void close_rows(void *self)
{
    free_job(self);
}

/*
 * Of the captures and of the choice: with others a cursor means other rows. So it does where rows came or went since, as each
 * question makes some of those that lack.
 */
static uint64_t generation_of(const struct history_job *job)
{
    uint32_t captures = rs_crc32c(0, job->def->name, strlen(job->def->name));
    for (size_t i = 0; i < job->count; i++) {
        const uint8_t rows = (uint8_t)job->captures[i].rows;
        captures = rs_crc32c(captures, job->captures[i].id, strlen(job->captures[i].id) + 1);
        captures = rs_crc32c(captures, &rows, sizeof rows);
    }
    return (uint64_t)captures << 32 | job->choice;
}

static void answer(struct history_job *job)
{
    struct session *session = job->base.session;
    char *cursor = job->cursor;
    const uint64_t limit = job->limit;
    struct table_source source = job->own;
    source.table = job->def->table;
    source.next = next_rows;
    source.close = close_rows;
    source.self = job;
    source.generation = generation_of(job);
    job->own = (struct table_source){.self = NULL}; /* the lines are the reader's */
    job->cursor = NULL;
    job->at = 0;
    ask_table_of(session, &source, cursor, limit);
    rs_mem_free(cursor);
}

/* The next that lacks, or the answer. */
static void go_on(struct history_job *job)
{
    struct session *session = job->base.session;
    if (!session->link) {
        free_job(job);
        return;
    }
    while (job->at < job->count && job->captures[job->at].rows != ROWS_LACKING)
        job->at++;
    if (job->at == job->count) {
        answer(job);
        return;
    }
    job->base.finish = joined;
    job->base.base.run = run_join;
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", job->captures[job->at].id);
    if (server_pool_put(session, session->server->join_pool, &job->base) < 0) {
        (void)rs_err_set(&job->err, RS_LIMIT, "too much waits to be joined: try again");
        end_with(job);
    }
}

static void looked(struct pool_job *base)
{
    struct history_job *job = job_of(base);
    if (base->base.was_dropped)
        dropped(job);
    else
        go_on(job);
}

/* ---- the list ---------------------------------------------------------------------------------------------------------- */

/* What it names was looked at already (rights.c); without a name it is the one run of who is bound to one. */
static bool is_chosen(const struct history_job *job, const struct rs_coord_capture *capture)
{
    bool is_of_runs = !job->ask->n_runs;
    for (size_t i = 0; i < job->ask->n_runs && !is_of_runs; i++)
        is_of_runs = strcmp(job->ask->runs[i], capture->run) == 0;
    return is_of_runs && rs_identity_is_of_run(&job->base.session->identity, capture->run) &&
           capture->closed_ns && capture->created_ns >= job->ask->since_ns &&
           (!job->user || strcmp(capture->owner, job->user) == 0);
}

static bool add_capture(void *self, const struct rs_coord_capture *capture)
{
    struct history_job *job = self;
    if (!is_chosen(job, capture) || step_probe_is(capture))
        return true;
    if (rs_mem_grow((void **)&job->captures, &job->capacity, job->count + 1,
                    sizeof *job->captures) < 0) {
        job->has_no_memory = true;
        return false;
    }
    struct one_capture *item = &job->captures[job->count++];
    *item = (struct one_capture){.created_ns = capture->created_ns,
                                 .state = rs_capture_state_text(capture->state),
                                 .has_failed = capture->state == RS_CAPTURE_FAILED,
                                 .run = rs_mem_strdup(capture->run),
                                 .source =
                                     rs_mem_strdup(capture->is_files ? "files" : capture->adapters),
                                 .dir = rs_mem_strdup(capture->directory)};
    (void)snprintf(item->id, sizeof item->id, "%s", capture->id);
    job->has_no_memory = !item->run || !item->source || !item->dir;
    return !job->has_no_memory;
}

static enum rs_capture_state state_of(const char *text)
{
    for (int i = 0; i < RS_CAPTURE_STATE_COUNT; i++)
        if (strcmp(text, rs_capture_state_text((enum rs_capture_state)i)) == 0)
            return (enum rs_capture_state)i;
    return RS_CAPTURE_FAILED;
}

static int compare_captures(const void *left, const void *right)
{
    const struct one_capture *a = left, *b = right;
    if (a->created_ns != b->created_ns)
        return a->created_ns < b->created_ns ? -1 : 1;
    const int by_id = strcmp(a->id, b->id);
    if (by_id)
        return by_id;
    if (a->is_elsewhere != b->is_elsewhere)
        return a->is_elsewhere ? 1 : -1;
    return (b->rows == ROWS_HERE) - (a->rows == ROWS_HERE);
}

/* A capture that was restored from the archive by another aggregator stands in both catalogues: it counts once, ours first. */
static void leave_doubles_out(struct history_job *job)
{
    size_t kept = 0;
    for (size_t i = 0; i < job->count; i++) {
        if (kept && strcmp(job->captures[kept - 1].id, job->captures[i].id) == 0)
            free_one(&job->captures[i]);
        else
            job->captures[kept++] = job->captures[i];
    }
    job->count = kept;
}

/* One of another aggregator, as its owner wrote it into the catalogue. False: no memory. */
static bool add_other(struct history_job *job, const struct rs_fleet_capture *other)
{
    struct rs_coord_capture *capture = rs_mem_calloc(1, sizeof *capture);
    if (!capture)
        return false;
    capture->state = state_of(other->state);
    capture->created_ns = other->created_ns;
    capture->closed_ns = other->closed_ns;
    rs_coord_set_source(capture, other->source);
    (void)snprintf(capture->id, sizeof capture->id, "%s", other->id);
    (void)snprintf(capture->run, sizeof capture->run, "%s", other->run);
    (void)snprintf(capture->owner, sizeof capture->owner, "%s", other->owner);
    rs_utf8_plain(capture->run); /* anybody may have written it */
    const size_t before = job->count;
    (void)add_capture(job, capture);
    rs_mem_free(capture);
    if (job->count == before)
        return !job->has_no_memory;
    struct one_capture *item = &job->captures[before];
    item->is_elsewhere = true;
    item->rows = other->rows == RS_FLEET_ROWS_WHOLE ? ROWS_HERE
                 : item->has_failed                 ? ROWS_FAILED
                                                    : ROWS_LATER;
    (void)snprintf(item->aggregator, sizeof item->aggregator, "%.16s", other->aggregator);
    rs_utf8_plain(item->aggregator);
    return !job->has_no_memory;
}

static void tell_of_others(struct history_job *job)
{
    char why[256];
    for (size_t i = 0; i < job->count; i++) {
        const struct one_capture *capture = &job->captures[i];
        if (!capture->is_elsewhere || capture->rows != ROWS_LATER)
            continue;
        (void)snprintf(why, sizeof why,
                       "its rows are not in the database yet, and aggregator %s makes them",
                       capture->aggregator);
        tell_of(job, capture, why);
    }
}

static void add_others(struct history_job *job, const struct rs_fleet_captures *others)
{
    for (size_t i = 0; i < others->count && !job->has_no_memory; i++)
        if (rs_wire_is_capture_id(others->items[i].id) && !add_other(job, &others->items[i]))
            job->has_no_memory = true;
    if (job->count)
        qsort(job->captures, job->count, sizeof *job->captures, compare_captures);
    leave_doubles_out(job);
    tell_of_others(job);
}

static uint32_t choice_of(const Rankscope__AskHistory *ask)
{
    uint32_t choice = 0;
    for (size_t i = 0; i < ask->n_hosts; i++)
        choice = rs_crc32c(choice, ask->hosts[i], strlen(ask->hosts[i]) + 1);
    return ask->n_ranks ? rs_crc32c(choice, ask->ranks, ask->n_ranks * sizeof *ask->ranks) : choice;
}

static enum rs_status fill_job(struct session *session, struct history_job *job)
{
    const Rankscope__AskHistory *ask = job->ask;
    const struct rs_history_filter filter = {.hosts = (const char *const *)ask->hosts,
                                             .host_count = ask->n_hosts,
                                             .ranks = ask->ranks,
                                             .rank_count = ask->n_ranks};
    struct rs_server *server = session->server;
    enum rs_history_view view;
    if (!server->documents)
        return rs_err_set(&job->err, RS_REFUSED, "this aggregator makes no tables");
    if (!rs_history_named(ask->view, &view))
        return rs_err_set(&job->err, RS_INVALID, "this aggregator has no history of \"%.60s\"",
                          ask->view);
    if (ask->n_hosts > NAMES_MAX || ask->n_runs > NAMES_MAX || ask->n_ranks > RS_READ_FILTER_MAX)
        return rs_err_set(&job->err, RS_INVALID,
                          "at most %d runs, %d hosts and %d ranks can be asked for at once",
                          (int)NAMES_MAX, (int)NAMES_MAX, (int)RS_READ_FILTER_MAX);
    job->def = rs_history_def(view);
    job->limit = ask->limit;
    job->choice = choice_of(ask);
    job->cursor = rs_mem_strdup(ask->cursor);
    if (!job->cursor)
        return rs_err_set(&job->err, RS_NOMEM, "out of memory");
    enum rs_status status = rs_history_new(view, &filter, &job->history, &job->err);
    /* On the thread that all ranks are answered on: ranks of thousands of captures are not read here. */
    if (status == RS_OK)
        status = (server->journal.heads ? server->journal.heads : server->journal.list)(
            server->journal.self, add_capture, job, &job->err);
    if (status == RS_OK && job->has_no_memory)
        status = rs_err_set(&job->err, RS_NOMEM, "out of memory");
    return status;
}

static void tell_away(struct history_job *job, const char *away)
{
    char line[LINE_BYTES];
    (void)snprintf(line, sizeof line, "captures of other aggregators are not in it: %.300s", away);
    add_line(job->told, line);
    job->told->is_partial = true;
}

void ask_history(struct session *session, const Rankscope__AskHistory *ask, const char *user,
                 const struct rs_fleet_captures *others, const char *away)
{
    struct rs_err err = {0};
    struct history_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job) {
        (void)rs_err_set(&err, RS_NOMEM, "out of memory");
        ask_refuse(session, &err);
        return;
    }
    job->base.session = session;
    job->base.finish = looked;
    job->base.base.run = run_look;
    job->told = &job->own;
    job->ask = ask;
    job->user = user;
    enum rs_status status = fill_job(session, job);
    if (status == RS_OK && others)
        add_others(job, others);
    if (status == RS_OK && *away)
        tell_away(job, away);
    if (status == RS_OK && job->has_no_memory)
        status = rs_err_set(&job->err, RS_NOMEM, "out of memory");
    job->ask = NULL;
    job->user = NULL;
    if (status == RS_OK && server_pool_put(session, session->server->read_pool, &job->base) < 0)
        status = rs_err_set(&job->err, RS_LIMIT, "too many read from this aggregator: try again");
    if (status < 0)
        end_with(job);
}
