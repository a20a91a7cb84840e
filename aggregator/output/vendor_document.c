/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication.json and communication_matrix.json of a job in which ranks have the vendor's own documents.
 *
 * Rows of both kinds stand side by side under one key (op@group -> rank), so they are brought together first, one step
 * and class at a time:
 *
 *     vendor rows of all ranks, by (step, class) -------+
 *                                                      +--> entries of one step and class --> sorted --> written
 *     comm_walk(), matrix_walk() of the other ranks  --+
 *
 * Keys are in the order of (group, number in the group, name), the ranks below a key in theirs. A job without any vendor
 * document never comes here: comm_document.c and matrix.c write it in one pass.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of the vendor's documents, found by step and class. */
struct place {
    int64_t step;
    bool is_p2p;
    size_t row; /* in the job's comms or links, which are by rank */
};
struct places {
    struct place *items;
    size_t count, capacity;
};

/* One row of the document. */
struct entry {
    const char *group, *name; /* lent: of the job, or of `texts` */
    int64_t seq;              /* in the name; -1 none */
    int64_t first, second;    /* rank; of a link its ends */
    int32_t rank;             /* who says it */
    const struct place *vendor;
    struct comm_item item;     /* derived, when `vendor` is NULL */
    struct matrix_entry *link; /* of a derived link; owned */
    const char *link_type, *link_selection;
    bool has_name;
};
struct entries {
    struct entry *items;
    size_t count, capacity;
};

struct builder {
    const struct view *view;
    const struct job *job;        /* the view's */
    const struct step_rows *step; /* being written; only where `has_ops` */
    struct output_file *file;
    struct rs_json_out json;
    bool is_links;
    struct places places;
    struct entries entries;
    struct comm_totals *totals;
    struct vendor_groups *groups;
    char **texts; /* of derived names and groups */
    size_t text_count, text_capacity;
};

static int compare_ints(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* --- gathering ------------------------------------------------------------------------------- */

static int by_step_and_class(const void *a_, const void *b_)
{
    const struct place *a = a_, *b = b_;
    if (a->step != b->step)
        return compare_ints(a->step, b->step);
    if (a->is_p2p != b->is_p2p)
        return a->is_p2p ? -1 : 1;
    return compare_ints((int64_t)a->row, (int64_t)b->row);
}

static enum rs_status add_place(struct places *places, const struct place *place)
{
    if (rs_mem_grow((void **)&places->items, &places->capacity, places->count + 1,
                    sizeof *places->items) != RS_OK)
        return RS_NOMEM;
    places->items[places->count++] = *place;
    return RS_OK;
}

static struct place place_of(const struct builder *b, size_t row)
{
    const struct job *job = b->job;
    const char *step = b->is_links ? job->links[row].step : job->comms[row].step;
    const int64_t is_p2p = b->is_links ? job->links[row].is_p2p : job->comms[row].is_p2p;
    return (struct place){.step = rs_vendor_step_number(step), .is_p2p = is_p2p != 0, .row = row};
}

static enum rs_status find_places(struct builder *b)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < b->job->rank_count && status == RS_OK; i++) {
        const struct job_rank *rank = &b->job->ranks[i];
        const size_t first = b->is_links ? rank->link_first : rank->comm_first;
        const size_t count = b->is_links ? rank->link_count : rank->comm_count;
        for (size_t k = first; view_has(b->view, rank->rank) && k < first + count; k++) {
            const struct place place = place_of(b, k);
            status = add_place(&b->places, &place);
            if (status != RS_OK)
                break;
        }
    }
    if (b->places.count)
        qsort(b->places.items, b->places.count, sizeof *b->places.items, by_step_and_class);
    return status;
}

/* "hcom_allReduce__586_3_1" -> 3 */
static int64_t seq_of(const char *name)
{
    const char *last = strrchr(name, '_');
    const char *at = last;
    while (at && at > name && at[-1] != '_')
        at--;
    int64_t seq = 0;
    if (!at || at == last || last - at > 15)
        return -1;
    for (; at < last; at++) {
        if (*at < '0' || *at > '9')
            return -1;
        seq = seq * 10 + (*at - '0');
    }
    return seq;
}

static enum rs_status keep_text(struct builder *b, const char *text, const char **text_p)
{
    if (rs_mem_grow((void **)&b->texts, &b->text_capacity, b->text_count + 1, sizeof *b->texts) !=
        RS_OK)
        return RS_NOMEM;
    char *copy = rs_mem_strdup(text);
    if (!copy)
        return RS_NOMEM;
    *text_p = b->texts[b->text_count++] = copy;
    return RS_OK;
}

static enum rs_status add_entry(struct builder *b, const struct entry *entry)
{
    if (rs_mem_grow((void **)&b->entries.items, &b->entries.capacity, b->entries.count + 1,
                    sizeof *b->entries.items) != RS_OK)
        return RS_NOMEM;
    b->entries.items[b->entries.count++] = *entry;
    return RS_OK;
}

static void forget_entries(struct builder *b)
{
    for (size_t i = 0; i < b->entries.count; i++)
        rs_mem_free(b->entries.items[i].link);
    for (size_t i = 0; i < b->text_count; i++)
        rs_mem_free(b->texts[i]);
    b->entries.count = 0;
    b->text_count = 0;
}

static enum rs_status add_vendor_entry(struct builder *b, const struct place *place)
{
    struct entry entry = {.vendor = place, .seq = -1};
    if (b->is_links) {
        const struct rs_row_vendor_matrix *link = &b->job->links[place->row];
        const struct vendor_ends ends = vendor_ends_of(b->groups, link);
        entry.rank = (int32_t)link->rank;
        entry.group = link->group_name;
        entry.name = link->kind;
        entry.first = ends.src;
        entry.second = ends.dst;
    } else {
        const struct rs_row_vendor_comm_time *comm = &b->job->comms[place->row];
        if (comm->is_total)
            return RS_OK;
        entry.rank = (int32_t)comm->rank;
        entry.group = comm->group_name;
        entry.name = comm->name;
        entry.seq = seq_of(entry.name);
        entry.first = entry.rank;
    }
    return add_entry(b, &entry);
}

static enum rs_status add_item(void *self, const struct comm_item *item, const char *hash,
                               struct rs_err *err)
{
    struct builder *b = self;
    char name[COMM_NAME_BYTES];
    if (!view_has(b->view, item->rank) || vendor_has_comms(b->job, item->rank))
        return RS_OK;
    struct entry entry = {.item = *item, .rank = item->rank, .first = item->rank};
    view_item_name(b->view, b->step, item, hash, name);
    if (keep_text(b, hash, &entry.group) != RS_OK || keep_text(b, name, &entry.name) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for communication.json");
    entry.seq = seq_of(entry.name);
    return add_entry(b, &entry) == RS_OK
               ? RS_OK
               : rs_err_set(err, RS_NOMEM, "no memory for communication.json");
}

static enum rs_status add_link(void *self, const struct matrix_row *row, struct rs_err *err)
{
    struct builder *b = self;
    char name[64];
    if (!view_has_link(b->view, row->entry) || vendor_tells_link(b->job, row->entry))
        return RS_OK;
    (void)snprintf(name, sizeof name, "%s-%s", row->type, row->selection);
    struct entry entry = {.seq = -1,
                          .rank = row->entry->src,
                          .first = view_end(b->view, b->step, row->entry, row->entry->src),
                          .second = view_end(b->view, b->step, row->entry, row->entry->dst),
                          .link_type = row->type,
                          .link_selection = row->selection,
                          .has_name = row->has_name,
                          .link = rs_mem_calloc(1, sizeof *entry.link)};
    if (!entry.link || keep_text(b, row->hash, &entry.group) != RS_OK ||
        keep_text(b, name, &entry.name) != RS_OK || add_entry(b, &entry) != RS_OK) {
        rs_mem_free(entry.link);
        return rs_err_set(err, RS_NOMEM, "no memory for communication_matrix.json");
    }
    *entry.link = *row->entry;
    return RS_OK;
}

static int by_key_and_rank(const void *a_, const void *b_)
{
    const struct entry *a = a_, *b = b_;
    int order = strcmp(a->group, b->group);
    if (!order)
        order = compare_ints(a->seq, b->seq);
    if (!order)
        order = strcmp(a->name, b->name);
    if (!order)
        order = compare_ints(a->first, b->first);
    if (!order)
        order = compare_ints(a->second, b->second);
    if (order)
        return order;
    /* told by both ends: the sender's row stands */
    const bool is_sender_a = a->rank == a->first, is_sender_b = b->rank == b->first;
    if (is_sender_a != is_sender_b)
        return is_sender_a ? -1 : 1;
    return compare_ints(a->rank, b->rank);
}

/* --- writing --------------------------------------------------------------------------------- */

static void put_digits(struct rs_json_out *json, const char *key, const char *digits)
{
    rs_json_out_key(json, key);
    if (digits)
        rs_json_out_number(json, digits);
    else
        rs_json_out_null(json);
}

static void put_times(struct rs_json_out *json, const struct rs_row_vendor_comm_time *comm)
{
    if (!comm->is_total)
        put_digits(json, "Start Timestamp(us)", comm->start_timestamp);
    put_digits(json, "Elapse Time(ms)", comm->elapse_time);
    put_digits(json, "Transit Time(ms)", comm->transit_time);
    put_digits(json, "Wait Time(ms)", comm->wait_time);
    put_digits(json, "Synchronization Time(ms)", comm->synchronization_time);
    put_digits(json, "Idle Time(ms)", comm->idle_time);
    put_digits(json, "Wait Time Ratio", comm->wait_time_ratio);
    put_digits(json, "Synchronization Time Ratio", comm->synchronization_time_ratio);
}

static void put_packages(struct rs_json_out *json, const struct rs_row_vendor_bandwidth *bands,
                         size_t count)
{
    rs_json_out_key(json, "Size Distribution");
    rs_json_out_object(json);
    for (size_t i = 0; i < count; i++) {
        if (!bands[i].package_size)
            continue;
        rs_json_out_key(json, bands[i].package_size);
        rs_json_out_array(json);
        rs_json_out_number(json, bands[i].package_count ? bands[i].package_count : "null");
        rs_json_out_number(json, bands[i].package_time ? bands[i].package_time : "null");
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

/* A transport; sums have neither a rate nor a ratio, and name the time first. */
static void put_transport(struct rs_json_out *json, const struct rs_row_vendor_bandwidth *bands,
                          size_t count, bool is_total)
{
    rs_json_out_key(json, bands->transport);
    rs_json_out_object(json);
    if (is_total)
        put_digits(json, "Transit Time(ms)", bands->transit_time);
    put_digits(json, "Transit Size(MB)", bands->transit_size);
    if (!is_total) {
        put_digits(json, "Transit Time(ms)", bands->transit_time);
        put_digits(json, "Bandwidth(GB/s)", bands->bandwidth);
        put_digits(json, "Large Packet Ratio", bands->large_packet_ratio);
    }
    put_packages(json, bands, count);
    rs_json_out_end(json);
}

static void put_comm(struct builder *b, const struct place *place)
{
    const struct rs_row_vendor_comm_time *comm = &b->job->comms[place->row];
    const struct rs_row_vendor_bandwidth *bands = b->job->bands;
    const size_t last = b->job->band_firsts[place->row + 1];
    struct rs_json_out *json = &b->json;
    rs_json_out_key(json, "Communication Time Info");
    rs_json_out_object(json);
    put_times(json, comm);
    rs_json_out_end(json);
    rs_json_out_key(json, "Communication Bandwidth Info");
    rs_json_out_object(json);
    for (size_t i = b->job->band_firsts[place->row], end; i < last; i = end) {
        for (end = i + 1; end < last; end++)
            if (strcmp(bands[end].transport, bands[i].transport) != 0)
                break;
        put_transport(json, bands + i, end - i, comm->is_total != 0);
    }
    rs_json_out_end(json);
}

static void put_link(struct builder *b, const struct place *place)
{
    const struct rs_row_vendor_matrix *link = &b->job->links[place->row];
    rs_json_out_object(&b->json);
    rs_json_out_key(&b->json, "Transport Type");
    rs_json_out_string(&b->json, link->transport);
    put_digits(&b->json, "Transit Size(MB)", link->transit_size);
    put_digits(&b->json, "Transit Time(ms)", link->transit_time);
    put_digits(&b->json, "Bandwidth(GB/s)", link->bandwidth);
    if (link->op_name) {
        rs_json_out_key(&b->json, "Op Name");
        rs_json_out_string(&b->json, link->op_name);
    }
    rs_json_out_end(&b->json);
}

/* The level that says whose figures these are; a rank's own file has none. */
static void open_rank(struct builder *b, int32_t rank)
{
    char text[16];
    if (b->view->is_rank)
        return;
    (void)snprintf(text, sizeof text, "%" PRId32, rank);
    rs_json_out_key(&b->json, text);
    rs_json_out_object(&b->json);
}

static void close_rank(struct builder *b)
{
    if (!b->view->is_rank)
        rs_json_out_end(&b->json);
}

static enum rs_status put_operation(struct builder *b, const struct entry *entry)
{
    enum rs_status status = RS_OK;
    open_rank(b, entry->rank);
    if (entry->vendor)
        put_comm(b, entry->vendor);
    else
        status = comm_put_item(b->step, &entry->item, b->totals, &b->json);
    close_rank(b);
    return status;
}

static void put_pair(struct builder *b, const struct entry *entry)
{
    char src[UNIT_TEXT_BYTES], dst[UNIT_TEXT_BYTES], text[2 * UNIT_TEXT_BYTES];
    vendor_end_text(src, (int32_t)entry->first);
    vendor_end_text(dst, (int32_t)entry->second);
    (void)snprintf(text, sizeof text, "%s-%s", src, dst);
    rs_json_out_key(&b->json, text);
    if (entry->vendor) {
        put_link(b, entry->vendor);
        return;
    }
    const struct matrix_row row = {.type = entry->link_type,
                                   .selection = entry->link_selection,
                                   .hash = entry->group,
                                   .entry = entry->link,
                                   .has_name = entry->has_name};
    matrix_put_entry(b->view, b->step, &row, &b->json);
}

static bool is_one_key(const struct entry *a, const struct entry *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->group, b->group) == 0;
}

static enum rs_status put_entries(struct builder *b, struct rs_err *err)
{
    const struct entry *before = NULL;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < b->entries.count && status == RS_OK; i++) {
        const struct entry *entry = &b->entries.items[i];
        const bool is_same = before && is_one_key(before, entry);
        /* twice the same row: one name for two, or both ends of a link */
        if (is_same && before->first == entry->first && before->second == entry->second)
            continue;
        if (before && !is_same)
            rs_json_out_end(&b->json);
        if (!is_same) {
            struct rs_buf key = {0};
            rs_buf_printf(&key, "%s@%s", entry->name, entry->group);
            rs_json_out_key(&b->json, key.failed ? "" : rs_buf_text(&key));
            rs_buf_fini(&key);
            rs_json_out_object(&b->json);
        }
        if (b->is_links)
            put_pair(b, entry);
        else
            status = put_operation(b, entry);
        before = entry;
        if (status == RS_OK)
            status = output_file_drain(b->file, err);
    }
    if (before)
        rs_json_out_end(&b->json);
    return status;
}

/* "Total Op Info": by rank, the vendor's row or the sums of what was put of ours. */
static enum rs_status put_totals(struct builder *b, const struct place *places, size_t count,
                                 struct rs_err *err)
{
    rs_json_out_key(&b->json, "Total Op Info");
    rs_json_out_object(&b->json);
    size_t at = 0;
    for (size_t i = 0; i < b->job->rank_count; i++) {
        const struct job_rank *rank = &b->job->ranks[i];
        const struct place *total = NULL;
        for (; at < count && b->job->comms[places[at].row].rank <= rank->rank; at++)
            if (b->job->comms[places[at].row].is_total)
                total = &places[at];
        if (!total && !comm_totals_has(b->totals, i))
            continue;
        open_rank(b, rank->rank);
        if (total)
            put_comm(b, total);
        else
            comm_put_total(b->totals, i, &b->json);
        close_rank(b);
        const enum rs_status status = output_file_drain(b->file, err);
        if (status != RS_OK)
            return status;
    }
    rs_json_out_end(&b->json);
    return RS_OK;
}

/* One step: where its vendor rows lie, and whether there are operations of ours. */
struct step {
    size_t place_first, place_end;
    bool has_ops;
};

static enum rs_status put_class(struct builder *b, const struct step *step, bool is_p2p,
                                struct rs_err *err)
{
    size_t first = step->place_first, end;
    enum rs_status status = RS_OK;
    while (first < step->place_end && b->places.items[first].is_p2p && !is_p2p)
        first++;
    for (end = first; end < step->place_end && b->places.items[end].is_p2p == is_p2p; end++)
        if (add_vendor_entry(b, &b->places.items[end]) != RS_OK)
            return rs_err_set(err, RS_NOMEM, "no memory for the rows of a step");
    if (step->has_ops)
        status = b->is_links ? matrix_walk(b->step, is_p2p, add_link, b, err)
                             : comm_walk(b->step, is_p2p, add_item, b, err);
    if (status != RS_OK)
        return status;
    if (b->entries.count)
        qsort(b->entries.items, b->entries.count, sizeof *b->entries.items, by_key_and_rank);
    comm_totals_reset(b->totals);
    rs_json_out_key(&b->json, is_p2p ? "p2p" : "collective");
    rs_json_out_object(&b->json);
    status = put_entries(b, err);
    if (status == RS_OK && !b->is_links && b->entries.count)
        status = put_totals(b, b->places.items + first, end - first, err);
    if (status == RS_OK)
        rs_json_out_end(&b->json);
    forget_entries(b);
    return status == RS_NOMEM ? rs_err_set(err, status, "no memory for the rows of a step")
                              : status;
}

static enum rs_status put_step(struct builder *b, const struct step *step, int64_t number,
                               struct rs_err *err)
{
    char text[UNIT_TEXT_BYTES];
    comm_step_text(text, number);
    rs_json_out_key(&b->json, text);
    rs_json_out_object(&b->json);
    enum rs_status status = put_class(b, step, true, err);
    if (status == RS_OK)
        status = put_class(b, step, false, err);
    if (status == RS_OK)
        rs_json_out_end(&b->json);
    return status;
}

/* Both come in order of their steps. */
static enum rs_status put_steps(struct builder *b, struct rs_err *err)
{
    struct step_rows *own = NULL;
    struct step step = {0};
    bool has_own = false;
    enum rs_status status = step_rows_open(b->job->rows, b->job->shelf, &own, err);
    b->step = own;
    if (status == RS_OK)
        status = step_rows_next(own, &has_own, err);
    while (status == RS_OK && (step.place_end < b->places.count || has_own)) {
        step.place_first = step.place_end;
        const bool has_place = step.place_first < b->places.count;
        const int64_t next_place = has_place ? b->places.items[step.place_first].step : INT64_MAX;
        const int64_t number = has_own && own->step < next_place ? own->step : next_place;
        while (step.place_end < b->places.count && b->places.items[step.place_end].step == number)
            step.place_end++;
        step.has_ops = has_own && own->step == number;
        status = put_step(b, &step, number, err);
        if (status == RS_OK && step.has_ops)
            status = step_rows_next(own, &has_own, err);
    }
    step_rows_close(&own);
    return status;
}

static enum rs_status write_document(const struct view *view, struct output_file *file,
                                     bool is_links, struct rs_err *err)
{
    struct builder b = {.view = view, .job = view->job, .file = file, .is_links = is_links};
    enum rs_status status = comm_totals_new(b.job, &b.totals);
    if (status == RS_OK)
        status = vendor_groups_new(view, &b.groups);
    if (status == RS_OK)
        status = find_places(&b);
    if (status != RS_OK)
        status = rs_err_set(err, status, "no memory for the vendor's rows");
    if (status == RS_OK) {
        rs_json_out_init(&b.json, &file->buf, 0);
        rs_json_out_object(&b.json);
        status = put_steps(&b, err);
    }
    if (status == RS_OK) {
        rs_json_out_end(&b.json);
        rs_buf_u8(&file->buf, '\n');
    }
    forget_entries(&b);
    comm_totals_free(&b.totals);
    vendor_groups_free(&b.groups);
    rs_mem_free(b.entries.items);
    rs_mem_free(b.places.items);
    rs_mem_free(b.texts);
    return status;
}

enum rs_status vendor_comm_document(const struct view *view, struct output_file *file,
                                    struct rs_err *err)
{
    return write_document(view, file, false, err);
}

enum rs_status vendor_matrix_document(const struct view *view, struct output_file *file,
                                      struct rs_err *err)
{
    return write_document(view, file, true, err);
}
