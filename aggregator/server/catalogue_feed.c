/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A changed capture is one that is read from the journal again, so that the order in which changes were told is of no matter, and a capture that
 * changes a hundred times in two seconds is sent once.
 *
 * Versions are the epoch of the data folder and a counter: after a restart they are newer than all before, whatever was written.
 *
 * What is written is what `capture show` says here, ranks and all, but for findings so far, which change with every join. `mark` tells what is
 * worth a row: another state, how far rows are, whether it is archived. Of a capture that goes on, ranks change all the time: with the same
 * mark it is written again after ten seconds at the earliest, and what changes in between is written with the next that does. Its end is
 * another mark.
 */
#include "aggregator/server/catalogue_feed.h"

#include "aggregator/server/lease.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/server/step_probe.h"
#include "aggregator/store/fleet_captures.h"
#include "common/base/mem.h"
#include "common/base/strtab.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "catalogue"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const rs_dur every_ns = 2 * (rs_dur)RS_NS_PER_S;
static const rs_dur first_pause_ns =
    3 * (rs_dur)RS_NS_PER_S; /* twice as long with each failure in a row */
static const rs_dur longest_pause_ns = 30 * (rs_dur)RS_NS_PER_S;
static const rs_dur same_mark_ns = 10 * (rs_dur)RS_NS_PER_S;

enum { BATCH_MAX = 256, BATCH_BYTES = 8 << 20, EPOCH_SHIFT = 40, MARK_BYTES = 128 };

struct changed {
    struct changed *next;
    char id[RS_STORE_ID_BYTES];
};

/* A capture that goes on, as it was sent last. */
struct sent {
    struct sent *next;
    char id[RS_STORE_ID_BYTES];
    char mark[MARK_BYTES];
    rs_ns at; /* monotonic */
};

struct catalogue_feed {
    struct rs_server *server;
    pthread_t thread;

    /* rs-catalogue alone */
    int64_t version;
    struct sent *sent;
    bool is_away; /* as it was told in the log */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t wake;
    struct changed *changed, **changed_last_p; /* oldest first, each once */
    struct rs_strtab names;                    /* of these: at a start that may be all there are */
    bool must_stop;
};

/* ---- what changed --------------------------------------------------------------------------------------------------------- */

void feed_changed(struct catalogue_feed *feed, const char *id)
{
    if (!feed)
        return;
    (void)pthread_mutex_lock(&feed->lock);
    const bool is_known = rs_strtab_find(&feed->names, id, strlen(id)) != RS_STR_NONE;
    rs_str name = RS_STR_NONE;
    struct changed *item = is_known ? NULL : rs_mem_calloc(1, sizeof *item);
    if (item && rs_strtab_add(&feed->names, id, strlen(id), &name) < 0) {
        rs_mem_free(item);
        item = NULL;
    }
    if (item) {
        (void)snprintf(item->id, sizeof item->id, "%s", id);
        *feed->changed_last_p = item;
        feed->changed_last_p = &item->next;
        (void)pthread_cond_signal(&feed->wake);
    }
    (void)pthread_mutex_unlock(&feed->lock);
    if (!is_known && !item)
        rs_log_error("no memory to tell other aggregators of capture %s: the next start finds it",
                     id);
}

static struct changed *take_changed(struct catalogue_feed *feed)
{
    (void)pthread_mutex_lock(&feed->lock);
    struct changed *all = feed->changed;
    feed->changed = NULL;
    feed->changed_last_p = &feed->changed;
    rs_strtab_reset(&feed->names);
    (void)pthread_mutex_unlock(&feed->lock);
    return all;
}

static void free_changed(struct changed *all)
{
    while (all) {
        struct changed *next = all->next;
        rs_mem_free(all);
        all = next;
    }
}

static struct sent **find_sent(struct catalogue_feed *feed, const char *id)
{
    struct sent **at = &feed->sent;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

/* ---- a row ---------------------------------------------------------------------------------------------------------------- */

struct row {
    struct rs_fleet_capture row; /* lends from the rest */
    char mark[MARK_BYTES];
    struct rs_coord_capture *capture; /* NULL: it is removed */
    char id[RS_STORE_ID_BYTES];
    char source[RS_COORD_SOURCE_BYTES];
    struct rs_buf head, info, notes;
};

static void row_fini(struct row *row)
{
    if (row->capture)
        rs_coord_capture_fini(row->capture);
    rs_mem_free(row->capture);
    rs_buf_fini(&row->head);
    rs_buf_fini(&row->info);
    rs_buf_fini(&row->notes);
}

static enum rs_fleet_rows rows_of(const struct rs_server *server, const char *dir)
{
    const struct rs_row_place *place = server->options.rows;
    return rs_row_place_is_whole(place, dir)     ? RS_FLEET_ROWS_WHOLE
           : rs_row_place_is_joining(place, dir) ? RS_FLEET_ROWS_SO_FAR
                                                 : RS_FLEET_ROWS_NONE;
}

/* What of a capture is worth a row of its own. */
static void put_mark(const struct rs_server *server, const struct rs_coord_capture *capture,
                     char mark[MARK_BYTES])
{
    (void)snprintf(mark, MARK_BYTES, "%s %" PRId64 " %d %d", rs_capture_state_text(capture->state),
                   capture->closed_ns, (int)rows_of(server, capture->directory),
                   archiving_is_away(capture->directory));
}

static void put_notes(const struct rs_server *server, const char *dir, struct rs_buf *buf)
{
    struct rs_row_notes notes = {0};
    if (rs_row_place_notes(server->options.rows, dir, &notes, NULL) == RS_OK)
        rs_row_notes_put(&notes, buf);
    rs_row_notes_fini(&notes);
    (void)rs_buf_text(buf);
}

static void fill_row(const struct rs_server *server, struct row *row)
{
    const struct rs_coord_capture *capture = row->capture;
    put_mark(server, capture, row->mark);
    rs_coord_source(capture, row->source);
    row->row.mark = row->mark;
    row->row.run = capture->run;
    row->row.owner = capture->owner;
    row->row.state = rs_capture_state_text(capture->state);
    row->row.reason = capture->reason;
    row->row.source = row->source;
    row->row.created_ns = capture->created_ns;
    row->row.closed_ns = capture->closed_ns;
    row->row.world = capture->world;
    row->row.rank_count = (int64_t)capture->rank_count;
    row->row.rows = rows_of(server, capture->directory);
    if (row->row.rows == RS_FLEET_ROWS_WHOLE)
        put_notes(server, capture->directory, &row->notes);
    row->row.notes = row->notes.length ? (const char *)row->notes.data : "";
    row->row.head = rs_view_of(row->head.data, row->head.length);
    row->row.info = rs_view_of(row->info.data, row->info.length);
}

/* RS_AGAIN: nothing is to be said of it now. */
static enum rs_status make_row(struct catalogue_feed *feed, const char *id, struct row *row,
                               struct rs_err *err)
{
    struct rs_server *server = feed->server;
    *row = (struct row){.row = {.id = row->id, .aggregator = rs_lease_id(server->options.lease)}};
    (void)snprintf(row->id, sizeof row->id, "%s", id);
    row->row.mark = row->row.run = row->row.owner = row->row.state = row->row.reason =
        row->row.source = row->row.notes = "";
    row->capture = rs_mem_calloc(1, sizeof *row->capture);
    if (!row->capture)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    enum rs_status status =
        server->journal.find(server->journal.self, id, RS_JOURNAL_ALL, row->capture, err);
    if (status < 0) {
        rs_mem_free(row->capture);
        row->capture = NULL;
        row->row.is_removed = true;
        return status == RS_NOTFOUND ? RS_OK : status;
    }
    if (*row->capture->given_up_to) { /* others ask the one that has it now */
        rs_coord_capture_fini(row->capture);
        rs_mem_free(row->capture);
        row->capture = NULL;
        row->row.is_removed = true;
        return RS_OK;
    }
    if (step_probe_is(row->capture))
        return RS_AGAIN;
    if (!ask_pack_info(server, row->capture, false, &row->head) ||
        !ask_pack_info(server, row->capture, true, &row->info))
        return rs_err_set(err, RS_NOMEM, "out of memory");
    fill_row(server, row);
    return row->notes.failed ? rs_err_set(err, RS_NOMEM, "out of memory") : RS_OK;
}

static bool is_due(struct catalogue_feed *feed, const struct row *row)
{
    const struct sent *sent = *find_sent(feed, row->id);
    return !sent || strcmp(sent->mark, row->mark) != 0 ||
           rs_time_monotonic() - sent->at >= same_mark_ns;
}

static void keep_sent(struct catalogue_feed *feed, const struct row *row)
{
    struct sent **at = find_sent(feed, row->id), *sent = *at;
    const bool goes_on = row->capture && !row->capture->closed_ns;
    if (!goes_on && sent) {
        *at = sent->next;
        rs_mem_free(sent);
    } else if (goes_on) {
        if (!sent)
            sent = *at = rs_mem_calloc(1, sizeof *sent);
        if (!sent)
            return; /* it is sent more often */
        (void)snprintf(sent->id, sizeof sent->id, "%s", row->id);
        (void)snprintf(sent->mark, sizeof sent->mark, "%s", row->mark);
        sent->at = rs_time_monotonic();
    }
}

/* ---- sending -------------------------------------------------------------------------------------------------------------- */

static enum rs_status send_rows(struct catalogue_feed *feed, struct row *rows, size_t count,
                                struct rs_err *err)
{
    struct rs_fleet_capture *sent = rs_mem_calloc(count + 1, sizeof *sent);
    if (!sent)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        rows[i].row.version = ++feed->version;
        sent[i] = rows[i].row;
    }
    const enum rs_status status =
        count ? rs_fleet_put_captures(feed->server->options.rows, sent, count, err) : RS_OK;
    rs_mem_free(sent);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        keep_sent(feed, &rows[i]);
    return status;
}

/* The rows of the first of the list, as many as go into a request. *end_p: behind them. */
static enum rs_status make_rows(struct catalogue_feed *feed, struct changed *all, struct row *rows,
                                size_t *count_p, struct changed **end_p, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    size_t bytes = 0;
    *count_p = 0;
    for (*end_p = all; *end_p && *count_p < BATCH_MAX && bytes < BATCH_BYTES;
         *end_p = (*end_p)->next) {
        struct row *row = &rows[*count_p];
        status = make_row(feed, (*end_p)->id, row, err);
        if (status == RS_OK && is_due(feed, row)) {
            bytes += row->head.length + row->info.length;
            ++*count_p;
            continue;
        }
        row_fini(row);
        if (status == RS_NOMEM)
            return status;
        if (status < 0) { /* the others are not to wait for it */
            rs_log_warn("other aggregators do not hear of capture %s: %s", (*end_p)->id, err->text);
            *err = (struct rs_err){.status = RS_OK};
        }
    }
    return RS_OK;
}

/* What of the list was sent is taken out of it. */
static enum rs_status send_some(struct catalogue_feed *feed, struct changed **all_p,
                                struct rs_err *err)
{
    struct row *rows = rs_mem_calloc(BATCH_MAX, sizeof *rows);
    struct changed *end = NULL;
    size_t count = 0;
    if (!rows)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    enum rs_status status = make_rows(feed, *all_p, rows, &count, &end, err);
    if (status == RS_OK)
        status = send_rows(feed, rows, count, err);
    for (size_t i = 0; i < count; i++)
        row_fini(&rows[i]);
    rs_mem_free(rows);
    while (status == RS_OK && *all_p != end) {
        struct changed *done = *all_p;
        *all_p = done->next;
        rs_mem_free(done);
    }
    return status;
}

static void tell(struct catalogue_feed *feed, enum rs_status status, const struct rs_err *why)
{
    if (status < 0 && !feed->is_away)
        rs_log_warn("other aggregators do not hear of captures here: %s", why->text);
    else if (status >= 0 && feed->is_away)
        rs_log_info("other aggregators hear of captures here again");
    feed->is_away = status < 0;
}

/* ---- RECONCILING ---------------------------------------------------------------------------------------------------------- */

struct reconciling {
    struct catalogue_feed *feed;
    struct rs_fleet_captures told; /* in the order of names */
    bool *are_here;                /* of these */
};

static int compare_ids(const void *left, const void *right)
{
    const struct rs_fleet_capture *a = left, *b = right;
    return strcmp(a->id, b->id);
}

/* Whatever the database does not say as it is here is written again. */
static bool look_at(void *self, const struct rs_coord_capture *capture)
{
    struct reconciling *reconciling = self;
    const struct rs_fleet_capture key = {.id = capture->id};
    char mark[MARK_BYTES];
    const struct rs_fleet_capture *told =
        reconciling->told.count ? bsearch(&key, reconciling->told.items, reconciling->told.count,
                                          sizeof key, compare_ids)
                                : NULL;
    if (told)
        reconciling->are_here[told - reconciling->told.items] = true;
    put_mark(reconciling->feed->server, capture, mark);
    if (!told || told->is_removed || strcmp(told->mark, mark) != 0)
        feed_changed(reconciling->feed, capture->id);
    return true;
}

static enum rs_status reconcile(struct catalogue_feed *feed, struct rs_err *err)
{
    struct rs_server_journal *journal = &feed->server->journal;
    struct reconciling reconciling = {.feed = feed};
    enum rs_status status =
        rs_fleet_marks(feed->server->options.rows, rs_lease_id(feed->server->options.lease),
                       &reconciling.told, err);
    if (status < 0)
        return status;
    const size_t count = reconciling.told.count;
    reconciling.are_here = rs_mem_calloc(count + 1, sizeof *reconciling.are_here);
    if (!reconciling.are_here)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    if (count)
        qsort(reconciling.told.items, count, sizeof *reconciling.told.items, compare_ids);
    if (status == RS_OK)
        status = (journal->heads ? journal->heads : journal->list)(journal->self, look_at,
                                                                   &reconciling, err);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        if (!reconciling.are_here[i] && !reconciling.told.items[i].is_removed)
            feed_changed(feed, reconciling.told.items[i].id);
    rs_mem_free(reconciling.are_here);
    rs_fleet_captures_fini(&reconciling.told);
    return status;
}

/* ---- rs-catalogue --------------------------------------------------------------------------------------------------------- */

/* Until then, or until something changed when that is waited for. True: it is time to stop. */
static bool wait_for(struct catalogue_feed *feed, rs_ns until, bool is_for_change)
{
    const struct timespec time = {.tv_sec = (time_t)(until / RS_NS_PER_S),
                                  .tv_nsec = (long)(until % RS_NS_PER_S)};
    (void)pthread_mutex_lock(&feed->lock);
    while (!feed->must_stop && is_for_change && !feed->changed)
        (void)pthread_cond_wait(&feed->wake, &feed->lock);
    while (!feed->must_stop && rs_time_monotonic() < until)
        (void)pthread_cond_timedwait(&feed->wake, &feed->lock, &time);
    const bool must_stop = feed->must_stop;
    (void)pthread_mutex_unlock(&feed->lock);
    return must_stop;
}

static void *run(void *self)
{
    struct catalogue_feed *feed = self;
    struct changed *all = NULL;
    bool is_reconciled = false, must_stop = false;
    rs_dur pause_ns = 0;
    rs_thread_is(RS_THREAD_CATALOGUE);
    while (!must_stop) {
        struct rs_err why = {0};
        enum rs_status status = RS_OK;
        if (!is_reconciled) {
            status = reconcile(feed, &why);
            is_reconciled = status >= 0;
        }
        if (!all)
            all = take_changed(feed);
        while (status >= 0 && all)
            status = send_some(feed, &all, &why);
        tell(feed, status, &why);
        pause_ns = status >= 0 ? 0 : pause_ns ? 2 * pause_ns : first_pause_ns;
        pause_ns = pause_ns < longest_pause_ns ? pause_ns : longest_pause_ns;
        must_stop =
            wait_for(feed, rs_time_monotonic() + (pause_ns ? pause_ns : every_ns), !pause_ns);
    }
    struct rs_err ignored = {0};
    if (!all)
        all = take_changed(feed);
    while (!feed->is_away && all && send_some(feed, &all, &ignored) == RS_OK)
        continue;
    free_changed(all);
    return NULL;
}

/* ---- life ----------------------------------------------------------------------------------------------------------------- */

enum rs_status feed_start(struct rs_server *server, struct catalogue_feed **feed_p,
                          struct rs_err *err)
{
    pthread_condattr_t monotonic;
    if (!server->options.rows || !server->options.lease)
        return RS_OK;
    struct catalogue_feed *feed = rs_mem_calloc(1, sizeof *feed);
    if (!feed || rs_strtab_init(&feed->names, 0) < 0) {
        rs_mem_free(feed);
        return rs_err_set(err, RS_NOMEM, "no memory for the catalogue");
    }
    feed->server = server;
    feed->version = rs_lease_epoch(server->options.lease) << EPOCH_SHIFT;
    feed->changed_last_p = &feed->changed;
    (void)pthread_mutex_init(&feed->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&feed->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (pthread_create(&feed->thread, NULL, run, feed) != 0) {
        (void)pthread_cond_destroy(&feed->wake);
        (void)pthread_mutex_destroy(&feed->lock);
        rs_strtab_fini(&feed->names);
        rs_mem_free(feed);
        return rs_err_set(err, RS_IO, "cannot start a thread that tells of captures");
    }
    (void)pthread_setname_np(feed->thread, "rs-catalogue");
    *feed_p = feed;
    return RS_OK;
}

void feed_stop(struct catalogue_feed **feed_p)
{
    struct catalogue_feed *feed = *feed_p;
    if (!feed)
        return;
    *feed_p = NULL;
    (void)pthread_mutex_lock(&feed->lock);
    feed->must_stop = true;
    (void)pthread_cond_signal(&feed->wake);
    (void)pthread_mutex_unlock(&feed->lock);
    (void)pthread_join(feed->thread, NULL);
    free_changed(take_changed(feed));
    while (feed->sent) {
        struct sent *next = feed->sent->next;
        rs_mem_free(feed->sent);
        feed->sent = next;
    }
    (void)pthread_cond_destroy(&feed->wake);
    (void)pthread_mutex_destroy(&feed->lock);
    rs_strtab_fini(&feed->names);
    rs_mem_free(feed);
}
