/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication.json: step -> p2p | collective -> op@group -> rank -> the official object; in a rank's own file
 * without the rank.
 *
 * Written in one pass per step and class; only the totals per rank ("Total Op Info") and the
 * packets behind them are kept until the class ends.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = COMM_NAME_BYTES + COMM_HASH_BYTES + 1, PACKETS_SOFT_MAX = 4096 };

/* Sums of one rank over a class. */
struct total {
    rs_dur elapse, transit, wait;
    bool is_seen, has_transit, has_wait;
};

struct comm_totals {
    struct comm_packets own; /* of the row being written */
    struct comm_packets all; /* of the class, by rank */
    size_t compact_at;
    bool is_compact;
    struct total *by_rank; /* [job->rank_count] */
    const struct job *job;
};

struct writer {
    struct view view;
    const struct step_rows *step; /* being written */
    struct output_file *file;
    struct rs_json_out json;
    char key[KEY_BYTES]; /* "" before the first */
    struct comm_totals *totals;
};

static void put_number(struct rs_json_out *json, const char *key, const char *digits)
{
    rs_json_out_key(json, key);
    if (digits)
        rs_json_out_number(json, digits);
    else
        rs_json_out_null(json);
}

static void put_ms(struct rs_json_out *json, const char *key, rs_dur ns, bool is_known)
{
    char text[UNIT_TEXT_BYTES];
    rs_unit_ms(text, ns);
    put_number(json, key, is_known ? text : NULL);
}

static void put_times(struct rs_json_out *json, const rs_ns *start, const struct total *t)
{
    char text[UNIT_TEXT_BYTES];
    rs_json_out_key(json, "Communication Time Info");
    rs_json_out_object(json);
    if (start) {
        rs_unit_us(text, *start);
        put_number(json, "Start Timestamp(us)", text);
    }
    const bool has_both = t->has_wait && t->has_transit;
    put_ms(json, "Elapse Time(ms)", t->elapse, true);
    put_ms(json, "Transit Time(ms)", t->transit, t->has_transit);
    put_ms(json, "Wait Time(ms)", t->wait, t->has_wait);
    put_ms(json, "Synchronization Time(ms)", t->wait, t->has_wait);
    put_ms(json, "Idle Time(ms)", 0, true);
    unit_ratio(text, t->wait, t->transit);
    put_number(json, "Wait Time Ratio", has_both ? text : NULL);
    put_number(json, "Synchronization Time Ratio", has_both ? text : NULL);
    rs_json_out_end(json);
}

static void put_distribution(struct rs_json_out *json, const struct comm_packet *packets,
                             size_t count)
{
    char text[UNIT_TEXT_BYTES];
    rs_json_out_key(json, "Size Distribution");
    rs_json_out_object(json);
    for (size_t i = 0; i < count; i++) {
        rs_unit_mb(text, packets[i].bytes);
        rs_json_out_key(json, text);
        rs_json_out_array(json);
        rs_json_out_int(json, packets[i].count);
        rs_unit_ms(text, packets[i].time);
        rs_json_out_number(json, packets[i].has_time ? text : "null");
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

/* One transport: a run of packets of one rank. In totals the official files leave the rates out. */
static void put_transport(struct rs_json_out *json, const struct comm_packet *packets, size_t count,
                          bool is_total)
{
    char text[UNIT_TEXT_BYTES];
    int64_t bytes = 0;
    rs_dur time = 0;
    bool has_time = true;
    for (size_t i = 0; i < count; i++) {
        bytes = sum_of(bytes, product_of(packets[i].bytes, packets[i].count));
        time = sum_of(time, packets[i].time);
        has_time = has_time && packets[i].has_time;
    }
    rs_json_out_key(json, packets[0].transport);
    rs_json_out_object(json);
    if (is_total)
        put_ms(json, "Transit Time(ms)", time, has_time);
    rs_unit_mb(text, bytes);
    put_number(json, "Transit Size(MB)", text);
    if (!is_total) {
        put_ms(json, "Transit Time(ms)", time, has_time);
        unit_gb_per_s(text, bytes, time);
        put_number(json, "Bandwidth(GB/s)", has_time && time > 0 ? text : NULL);
        put_number(json, "Large Packet Ratio", "0");
    }
    put_distribution(json, packets, count);
    rs_json_out_end(json);
}

static void put_bandwidth(struct rs_json_out *json, const struct comm_packet *packets, size_t count,
                          bool is_total)
{
    rs_json_out_key(json, "Communication Bandwidth Info");
    rs_json_out_object(json);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count; end++)
            if (strcmp(packets[end].transport, packets[i].transport) != 0)
                break;
        put_transport(json, packets + i, end - i, is_total);
    }
    rs_json_out_end(json);
}

/* The level that says whose figures these are; a rank's own file has none. */
static void open_rank(struct writer *w, int32_t rank)
{
    char text[16];
    if (w->view.is_rank)
        return;
    (void)snprintf(text, sizeof text, "%" PRId32, rank);
    rs_json_out_key(&w->json, text);
    rs_json_out_object(&w->json);
}

static void close_rank(struct writer *w)
{
    if (!w->view.is_rank)
        rs_json_out_end(&w->json);
}

/* The packets of the class are merged whenever they have doubled, so their number stays that of distinct
 * (rank, transport, size). */
static enum rs_status keep_packets(struct comm_totals *totals)
{
    struct comm_packets *all = &totals->all, *own = &totals->own;
    if (rs_mem_grow((void **)&all->items, &all->capacity, all->count + own->count,
                    sizeof *all->items) != RS_OK)
        return RS_NOMEM;
    if (own->count)
        memcpy(all->items + all->count, own->items, own->count * sizeof *all->items);
    all->count += own->count;
    totals->is_compact = false;
    if (all->count < totals->compact_at)
        return RS_OK;
    comm_packets_compact(all);
    totals->compact_at = all->count < PACKETS_SOFT_MAX / 2 ? PACKETS_SOFT_MAX : 2 * all->count;
    return RS_OK;
}

static void keep_times(struct total *total, const struct total *one)
{
    if (!total->is_seen)
        *total = (struct total){.is_seen = true, .has_transit = true, .has_wait = true};
    total->elapse = sum_of(total->elapse, one->elapse);
    total->transit = sum_of(total->transit, one->has_transit ? one->transit : 0);
    total->wait = sum_of(total->wait, one->has_wait ? one->wait : 0);
    total->has_transit = total->has_transit && one->has_transit;
    total->has_wait = total->has_wait && one->has_wait;
}

enum rs_status comm_put_item(const struct step_rows *step, const struct comm_item *item,
                             struct comm_totals *totals, struct rs_json_out *json)
{
    const struct comm_times times = comm_times_of(step, item);
    const struct job_rank *rank = job_rank(totals->job, item->rank);
    const struct total one = {.elapse = times.elapse,
                              .transit = times.transit,
                              .wait = times.wait,
                              .has_transit = times.has_transit,
                              .has_wait = times.has_wait};
    totals->own.count = 0;
    if (comm_packets_add(step, item, &totals->own) != RS_OK)
        return RS_NOMEM;
    comm_packets_compact(&totals->own);
    put_times(json, &times.start, &one);
    put_bandwidth(json, totals->own.items, totals->own.count, false);
    if (rank)
        keep_times(&totals->by_rank[rank - totals->job->ranks], &one);
    return keep_packets(totals);
}

static enum rs_status write_item(void *self, const struct comm_item *item, const char *hash,
                                 struct rs_err *err)
{
    struct writer *w = self;
    char name[COMM_NAME_BYTES];
    char key[KEY_BYTES];
    if (!view_has(&w->view, item->rank))
        return RS_OK;
    view_item_name(&w->view, w->step, item, hash, name);
    (void)snprintf(key, sizeof key, "%s@%s", name, hash);
    if (strcmp(key, w->key) != 0) {
        if (*w->key)
            rs_json_out_end(&w->json);
        memcpy(w->key, key, sizeof key);
        rs_json_out_key(&w->json, key);
        rs_json_out_object(&w->json);
    }
    open_rank(w, item->rank);
    const enum rs_status status = comm_put_item(w->step, item, w->totals, &w->json);
    close_rank(w);
    return status == RS_OK ? output_file_drain(w->file, err)
                           : rs_err_set(err, status, "no memory for communication.json");
}

/* --- sums of a class ------------------------------------------------------------------------ */

enum rs_status comm_totals_new(const struct job *job, struct comm_totals **totals_p)
{
    struct comm_totals *totals = rs_mem_calloc(1, sizeof *totals);
    if (totals)
        totals->by_rank = rs_mem_calloc(job->rank_count + 1, sizeof *totals->by_rank);
    if (!totals || !totals->by_rank) {
        rs_mem_free(totals);
        return RS_NOMEM;
    }
    totals->job = job;
    comm_totals_reset(totals);
    *totals_p = totals;
    return RS_OK;
}

void comm_totals_free(struct comm_totals **totals_p)
{
    struct comm_totals *totals = *totals_p;
    if (!totals)
        return;
    comm_packets_fini(&totals->own);
    comm_packets_fini(&totals->all);
    rs_mem_free(totals->by_rank);
    rs_mem_free(totals);
    *totals_p = NULL;
}

void comm_totals_reset(struct comm_totals *totals)
{
    totals->all.count = 0;
    totals->compact_at = PACKETS_SOFT_MAX;
    memset(totals->by_rank, 0, totals->job->rank_count * sizeof *totals->by_rank);
}

bool comm_totals_has(const struct comm_totals *totals, size_t index)
{
    return totals->by_rank[index].is_seen;
}

static int by_packet_rank(const void *key_, const void *packet_)
{
    const int32_t rank = *(const int32_t *)key_;
    const struct comm_packet *packet = packet_;
    return (rank > packet->rank) - (rank < packet->rank);
}

void comm_put_total(struct comm_totals *totals, size_t index, struct rs_json_out *json)
{
    const int32_t rank = totals->job->ranks[index].rank;
    if (!totals->is_compact)
        comm_packets_compact(&totals->all);
    totals->is_compact = true;
    const struct comm_packet *items = totals->all.items;
    const size_t count = totals->all.count;
    const struct comm_packet *any =
        count ? bsearch(&rank, items, count, sizeof *items, by_packet_rank) : NULL;
    size_t first = any ? (size_t)(any - items) : 0, end = first;
    while (any && first && items[first - 1].rank == rank)
        first--;
    while (any && end < count && items[end].rank == rank)
        end++;
    put_times(json, NULL, &totals->by_rank[index]);
    put_bandwidth(json, items + first, end - first, true);
}

static enum rs_status write_totals(struct writer *w, struct rs_err *err)
{
    rs_json_out_key(&w->json, "Total Op Info");
    rs_json_out_object(&w->json);
    for (size_t i = 0; i < w->view.job->rank_count; i++) {
        if (!comm_totals_has(w->totals, i))
            continue;
        open_rank(w, w->view.job->ranks[i].rank);
        comm_put_total(w->totals, i, &w->json);
        close_rank(w);
        const enum rs_status status = output_file_drain(w->file, err);
        if (status != RS_OK)
            return status;
    }
    rs_json_out_end(&w->json);
    return RS_OK;
}

static enum rs_status write_class(struct writer *w, bool is_p2p, struct rs_err *err)
{
    rs_json_out_key(&w->json, is_p2p ? "p2p" : "collective");
    rs_json_out_object(&w->json);
    w->key[0] = '\0';
    comm_totals_reset(w->totals);
    enum rs_status status = comm_walk(w->step, is_p2p, write_item, w, err);
    if (status == RS_OK && *w->key) {
        rs_json_out_end(&w->json);
        status = write_totals(w, err);
    }
    if (status == RS_OK)
        rs_json_out_end(&w->json);
    return status;
}

static enum rs_status write_step(struct writer *w, struct rs_err *err)
{
    char text[UNIT_TEXT_BYTES];
    comm_step_text(text, w->step->step);
    rs_json_out_key(&w->json, text);
    rs_json_out_object(&w->json);
    enum rs_status status = write_class(w, true, err);
    if (status == RS_OK)
        status = write_class(w, false, err);
    if (status == RS_OK)
        rs_json_out_end(&w->json);
    return status;
}

enum rs_status comm_document(const struct view *view, struct output_file *file, struct rs_err *err)
{
    struct writer w = {.view = *view, .file = file};
    struct step_rows *step = NULL;
    bool has_step = false;
    if (vendor_any_comms(view))
        return vendor_comm_document(view, file, err);
    if (comm_totals_new(view->job, &w.totals) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for communication.json");
    rs_json_out_init(&w.json, &file->buf, 0);
    rs_json_out_object(&w.json);
    enum rs_status status = step_rows_open(view->job->rows, view->job->shelf, &step, err);
    w.step = step;
    while (status == RS_OK && (status = step_rows_next(step, &has_step, err)) == RS_OK && has_step)
        status = write_step(&w, err);
    if (status == RS_OK) {
        rs_json_out_end(&w.json);
        rs_buf_u8(&file->buf, '\n');
    }
    step_rows_close(&step);
    comm_totals_free(&w.totals);
    return status;
}
