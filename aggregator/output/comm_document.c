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

struct writer {
    struct view view;
    const struct rs_analysis *analysis; /* the view's */
    struct sheet *sheet;
    struct rs_json_out json;
    char key[KEY_BYTES];     /* "" before the first */
    struct comm_packets own; /* of the row being written */
    struct comm_packets all; /* of the class, by rank */
    size_t compact_at;
    struct total *totals; /* by index of summary */
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
    unit_ms(text, ns);
    put_number(json, key, is_known ? text : NULL);
}

static void put_times(struct rs_json_out *json, const rs_ns *start, const struct total *t)
{
    char text[UNIT_TEXT_BYTES];
    rs_json_out_key(json, "Communication Time Info");
    rs_json_out_object(json);
    if (start) {
        unit_us(text, *start);
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
        unit_mb(text, packets[i].bytes);
        rs_json_out_key(json, text);
        rs_json_out_array(json);
        rs_json_out_int(json, packets[i].count);
        unit_ms(text, packets[i].time);
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
    unit_mb(text, bytes);
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
static enum rs_status keep_packets(struct writer *w)
{
    struct comm_packets *all = &w->all;
    if (rs_mem_grow((void **)&all->items, &all->capacity, all->count + w->own.count,
                    sizeof *all->items) != RS_OK)
        return RS_NOMEM;
    if (w->own.count)
        memcpy(all->items + all->count, w->own.items, w->own.count * sizeof *all->items);
    all->count += w->own.count;
    if (all->count < w->compact_at)
        return RS_OK;
    comm_packets_compact(all);
    w->compact_at = all->count < PACKETS_SOFT_MAX / 2 ? PACKETS_SOFT_MAX : 2 * all->count;
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

static enum rs_status write_item(void *self, const struct comm_item *item, const char *hash,
                                 struct rs_err *err)
{
    struct writer *w = self;
    char name[COMM_NAME_BYTES];
    char key[KEY_BYTES];
    if (!view_has(&w->view, w->analysis->rows[item->row].summary))
        return RS_OK;
    view_item_name(&w->view, item, hash, name);
    (void)snprintf(key, sizeof key, "%s@%s", name, hash);
    if (strcmp(key, w->key) != 0) {
        if (*w->key)
            rs_json_out_end(&w->json);
        memcpy(w->key, key, sizeof key);
        rs_json_out_key(&w->json, key);
        rs_json_out_object(&w->json);
    }
    const struct comm_times times = comm_times_of(w->analysis, item);
    const struct total one = {.elapse = times.elapse,
                              .transit = times.transit,
                              .wait = times.wait,
                              .has_transit = times.has_transit,
                              .has_wait = times.has_wait};
    w->own.count = 0;
    if (comm_packets_add(w->analysis, item, &w->own) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for communication.json");
    comm_packets_compact(&w->own);
    open_rank(w, item->rank);
    put_times(&w->json, &times.start, &one);
    put_bandwidth(&w->json, w->own.items, w->own.count, false);
    close_rank(w);
    keep_times(&w->totals[w->analysis->rows[item->row].summary], &one);
    if (keep_packets(w) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for communication.json");
    return sheet_drain(w->sheet, err);
}

static enum rs_status write_totals(struct writer *w, struct rs_err *err)
{
    comm_packets_compact(&w->all);
    rs_json_out_key(&w->json, "Total Op Info");
    rs_json_out_object(&w->json);
    size_t at = 0;
    for (size_t i = 0; i < w->analysis->summary_count; i++) {
        if (!w->totals[i].is_seen)
            continue;
        const int32_t rank = w->analysis->summaries[i]->trace.rank;
        while (at < w->all.count && w->all.items[at].rank < rank)
            at++;
        size_t end = at;
        while (end < w->all.count && w->all.items[end].rank == rank)
            end++;
        open_rank(w, rank);
        put_times(&w->json, NULL, &w->totals[i]);
        put_bandwidth(&w->json, w->all.items + at, end - at, true);
        close_rank(w);
        at = end;
        const enum rs_status status = sheet_drain(w->sheet, err);
        if (status != RS_OK)
            return status;
    }
    rs_json_out_end(&w->json);
    return RS_OK;
}

static enum rs_status write_class(struct writer *w, struct comm_span span, struct rs_err *err)
{
    rs_json_out_key(&w->json, span.is_p2p ? "p2p" : "collective");
    rs_json_out_object(&w->json);
    w->key[0] = '\0';
    w->all.count = 0;
    w->compact_at = PACKETS_SOFT_MAX;
    memset(w->totals, 0, w->analysis->summary_count * sizeof *w->totals);
    enum rs_status status = comm_walk(w->analysis, span, write_item, w, err);
    if (status == RS_OK && *w->key) {
        rs_json_out_end(&w->json);
        status = write_totals(w, err);
    }
    if (status == RS_OK)
        rs_json_out_end(&w->json);
    return status;
}

enum rs_status comm_document(const struct view *view, struct sheet *sheet, struct rs_err *err)
{
    const struct rs_analysis *analysis = view->analysis;
    struct writer w = {.view = *view, .analysis = analysis, .sheet = sheet};
    w.totals = rs_mem_calloc(analysis->summary_count + 1, sizeof *w.totals);
    if (!w.totals)
        return rs_err_set(err, RS_NOMEM, "no memory for communication.json");
    rs_json_out_init(&w.json, &sheet->buf, 0);
    rs_json_out_object(&w.json);
    enum rs_status status = RS_OK;
    for (size_t i = 0, end; i < analysis->op_count && status == RS_OK; i = end) {
        char text[UNIT_TEXT_BYTES];
        end = comm_step_end(analysis, i);
        comm_step_text(text, analysis->ops[i].step);
        rs_json_out_key(&w.json, text);
        rs_json_out_object(&w.json);
        status = write_class(&w, (struct comm_span){i, end, true}, err);
        if (status == RS_OK)
            status = write_class(&w, (struct comm_span){i, end, false}, err);
        if (status == RS_OK)
            rs_json_out_end(&w.json);
    }
    if (status == RS_OK) {
        rs_json_out_end(&w.json);
        rs_buf_u8(&sheet->buf, '\n');
    }
    comm_packets_fini(&w.own);
    comm_packets_fini(&w.all);
    rs_mem_free(w.totals);
    return status;
}
