/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which operations stand for a link: per (step, group, type, link) the fastest, the middle one and the
 * slowest three by bandwidth, and the total; the official selection, links in global ranks.
 *
 * What an operation moved over a link, and how long the link took, is the analysis' to say
 * (rs_analysis_messages()): hops where they were recorded, a send with its recv.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entries {
    struct matrix_entry *items;
    size_t count, capacity;
};

struct matrix_visit {
    matrix_row_fn *visit;
    void *self;
    const char *hash;
};

/* As the official files spell it; types they do not know keep our name without underscores. */
static const char *official_type(enum rs_op_type type)
{
    switch (type) {
    case RS_OP_ALL_REDUCE:
        return "allreduce";
    case RS_OP_ALL_GATHER:
        return "allgather";
    case RS_OP_REDUCE_SCATTER:
        return "reducescatter";
    case RS_OP_ALL_TO_ALL:
        return "alltoall";
    case RS_OP_RECV:
        return "receive";
    case RS_OP_SEND_RECV:
        return "batchsendrecv";
    case RS_OP_UNKNOWN:
    case RS_OP_BROADCAST:
    case RS_OP_REDUCE:
    case RS_OP_GATHER:
    case RS_OP_SCATTER:
    case RS_OP_BARRIER:
    case RS_OP_SEND:
    case RS_OP_TYPE_COUNT:
        break;
    }
    return rs_op_type_text(type);
}

static enum rs_status put_entry(struct entries *entries, struct matrix_entry entry)
{
    if (rs_mem_grow((void **)&entries->items, &entries->capacity, entries->count + 1,
                    sizeof *entries->items) != RS_OK)
        return RS_NOMEM;
    entries->items[entries->count++] = entry;
    return RS_OK;
}

/* Messages of one operation -> one entry per link: they come link by link. Unknown bytes say nothing of a
 * link; an unknown time makes the entry's unknown. */
struct op_messages {
    struct entries *entries;
    size_t first; /* where this operation's entries begin */
    const char *type;
    struct comm_item item;
};

static enum rs_status put_message(void *self, const struct rs_job_message *message)
{
    struct op_messages *op = self;
    struct entries *entries = op->entries;
    if (message->bytes < 0)
        return RS_OK;
    struct matrix_entry *last =
        entries->count > op->first ? &entries->items[entries->count - 1] : NULL;
    if (last && last->src == message->src && last->dst == message->dst) {
        last->bytes = sum_of(last->bytes, message->bytes);
        last->time = sum_of(last->time, message->link_ns > 0 ? message->link_ns : 0);
        last->has_time = last->has_time && message->link_ns >= 0;
        return RS_OK;
    }
    return put_entry(entries,
                     (struct matrix_entry){.type = op->type,
                                           .src = message->src,
                                           .dst = message->dst,
                                           .transport = message->transport,
                                           .bytes = message->bytes,
                                           .time = message->link_ns > 0 ? message->link_ns : 0,
                                           .has_time = message->link_ns >= 0,
                                           .item = op->item});
}

static int compare_ints(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static double rate_of(const struct matrix_entry *entry)
{
    return entry->has_time && entry->time > 0 ? (double)entry->bytes / (double)entry->time : 0;
}

/* By type, link, bandwidth descending, operation. */
static int by_link_and_rate(const void *a_, const void *b_)
{
    const struct matrix_entry *a = a_, *b = b_;
    const int type = strcmp(a->type, b->type);
    if (type)
        return type;
    if (a->src != b->src)
        return compare_ints(a->src, b->src);
    if (a->dst != b->dst)
        return compare_ints(a->dst, b->dst);
    const double x = rate_of(a), y = rate_of(b);
    if (x < y || x > y)
        return x < y ? 1 : -1;
    return a->item.row < b->item.row ? -1 : a->item.row > b->item.row;
}

static bool is_one_link(const struct matrix_entry *a, const struct matrix_entry *b)
{
    return a->src == b->src && a->dst == b->dst && strcmp(a->type, b->type) == 0;
}

static size_t link_end(const struct entries *entries, size_t first)
{
    size_t end = first + 1;
    while (end < entries->count && is_one_link(&entries->items[first], &entries->items[end]))
        end++;
    return end;
}

static const char *const selections[] = {"top1",  "middle",  "bottom1",
                                         "total", "bottom2", "bottom3"};
enum {
    SELECT_TOP,
    SELECT_MIDDLE,
    SELECT_BOTTOM1,
    SELECT_TOTAL,
    SELECT_BOTTOM2,
    SELECT_BOTTOM3,
    SELECTION_COUNT
};

/* The entry that a selection picks from [first, first + count), false when there are too few. */
static bool select_entry(const struct entries *entries, size_t first, size_t count, int selection,
                         struct matrix_entry *entry_p)
{
    static const size_t from_end[SELECTION_COUNT] = {
        [SELECT_BOTTOM1] = 1, [SELECT_BOTTOM2] = 2, [SELECT_BOTTOM3] = 3};
    size_t at = 0;
    if (selection == SELECT_MIDDLE)
        at = count / 2;
    else if (from_end[selection]) {
        if (from_end[selection] > count)
            return false;
        at = count - from_end[selection];
    }
    *entry_p = entries->items[first + at];
    for (size_t i = 1; selection == SELECT_TOTAL && i < count; i++) {
        entry_p->bytes = sum_of(entry_p->bytes, entries->items[first + i].bytes);
        entry_p->time = sum_of(entry_p->time, entries->items[first + i].time);
        entry_p->has_time = entry_p->has_time && entries->items[first + i].has_time;
    }
    return true;
}

/* One selection of one type over all its links. */
static enum rs_status visit_selection(const struct entries *entries, size_t first, size_t end,
                                      int selection, struct matrix_visit *to, struct rs_err *err)
{
    struct matrix_entry entry;
    struct matrix_row row = {.type = entries->items[first].type,
                             .selection = selections[selection],
                             .hash = to->hash,
                             .entry = &entry,
                             .has_name = selection != SELECT_TOTAL};
    enum rs_status status = RS_OK;
    for (size_t i = first, stop; i < end && status == RS_OK; i = stop) {
        stop = link_end(entries, i);
        if (select_entry(entries, i, stop - i, selection, &entry))
            status = to->visit(to->self, &row, err);
    }
    return status;
}

/* All of one group and class: ordered, chosen, visited; the entries are gone afterwards. */
static enum rs_status visit_entries(struct entries *entries, struct matrix_visit *to,
                                    struct rs_err *err)
{
    if (!entries->count)
        return RS_OK;
    qsort(entries->items, entries->count, sizeof *entries->items, by_link_and_rate);
    enum rs_status status = RS_OK;
    for (size_t i = 0, end; i < entries->count && status == RS_OK; i = end) {
        for (end = i; end < entries->count; end++)
            if (strcmp(entries->items[end].type, entries->items[i].type) != 0)
                break;
        for (int s = 0; s < SELECTION_COUNT && status == RS_OK; s++)
            status = visit_selection(entries, i, end, s, to, err);
    }
    entries->count = 0;
    return status;
}

struct collector {
    const struct rs_analysis *analysis;
    struct entries entries;
    struct matrix_visit to;
    char hash[COMM_HASH_BYTES]; /* of the group whose entries are held; "" none */
};

/* The row that gives an operation its name and rank: a pair's send, else the lowest rank's. */
static size_t speaker_of(const struct rs_analysis *analysis, size_t op_index)
{
    const struct rs_job_op *op = &analysis->ops[op_index];
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++)
        if (comm_op_of(analysis, &analysis->rows[r])->type == RS_OP_SEND)
            return r;
    return op->row_first;
}

static enum rs_status collect(void *self, const struct comm_item *item, const char *hash,
                              struct rs_err *err)
{
    struct collector *c = self;
    if (strcmp(c->hash, hash) != 0) {
        const enum rs_status status = visit_entries(&c->entries, &c->to, err);
        if (status != RS_OK)
            return status;
        (void)snprintf(c->hash, sizeof c->hash, "%s", hash);
    }
    /* Every row of an operation comes by; its first row (the sender's, of a pair) speaks for all. */
    if (item->row != speaker_of(c->analysis, item->op))
        return RS_OK;
    struct op_messages op = {.entries = &c->entries,
                             .first = c->entries.count,
                             .type = official_type((enum rs_op_type)item->type),
                             .item = *item};
    const enum rs_status status = rs_analysis_messages(c->analysis, item->op, put_message, &op);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for the links of a step");
}

enum rs_status matrix_walk(const struct rs_analysis *analysis, struct comm_span span,
                           matrix_row_fn *visit, void *self, struct rs_err *err)
{
    struct collector c = {.analysis = analysis, .to = {.visit = visit, .self = self}};
    c.to.hash = c.hash;
    enum rs_status status = comm_walk(analysis, span, collect, &c, err);
    if (status == RS_OK)
        status = visit_entries(&c.entries, &c.to, err);
    rs_mem_free(c.entries.items);
    return status;
}

/* --- communication_matrix.json ------------------------------------------------------------ */

bool view_has_link(const struct view *view, const struct matrix_entry *entry)
{
    if (!view->is_rank)
        return true;
    /* The sender tells of a link; the receiver where nobody read the sender. */
    const int32_t rank = view->analysis->summaries[view->summary]->trace.rank;
    if (entry->src == rank)
        return true;
    for (size_t i = 0; entry->dst == rank && i < view->analysis->summary_count; i++)
        if (view->analysis->summaries[i]->trace.rank == entry->src)
            return false;
    return entry->dst == rank;
}

int32_t view_end(const struct view *view, const struct matrix_entry *entry, int32_t rank)
{
    const struct rs_job_op *op = &view->analysis->ops[entry->item.op];
    if (!view->is_rank || op->group == RS_NO_GROUP)
        return rank;
    const struct rs_job_group *group = &view->analysis->groups[op->group];
    for (size_t i = 0; group->ranks && i < group->rank_count; i++)
        if (group->ranks[i] == rank)
            return (int32_t)i;
    return rank;
}

struct writer {
    struct view view;
    const struct rs_analysis *analysis; /* the view's */
    struct output_file *file;
    struct rs_json_out json;
    char key[COMM_HASH_BYTES + 64];
};

void matrix_put_entry(const struct view *view, const struct matrix_row *row,
                      struct rs_json_out *json)
{
    char text[UNIT_TEXT_BYTES], name[COMM_NAME_BYTES];
    rs_json_out_object(json);
    rs_json_out_key(json, "Transport Type");
    rs_json_out_string(json, row->entry->transport);
    rs_json_out_key(json, "Transit Size(MB)");
    rs_unit_mb(text, row->entry->bytes);
    rs_json_out_number(json, text);
    rs_json_out_key(json, "Transit Time(ms)");
    rs_unit_ms(text, row->entry->time);
    rs_json_out_number(json, row->entry->has_time ? text : "null");
    rs_json_out_key(json, "Bandwidth(GB/s)");
    unit_gb_per_s(text, row->entry->bytes, row->entry->time);
    rs_json_out_number(json, row->entry->has_time && row->entry->time > 0 ? text : "null");
    if (row->has_name) {
        view_item_name(view, &row->entry->item, row->hash, name);
        rs_json_out_key(json, "Op Name");
        rs_json_out_string(json, name);
    }
    rs_json_out_end(json);
}

static enum rs_status write_row(void *self, const struct matrix_row *row, struct rs_err *err)
{
    struct writer *w = self;
    struct rs_json_out *json = &w->json;
    char text[UNIT_TEXT_BYTES], key[sizeof w->key];
    if (!view_has_link(&w->view, row->entry))
        return RS_OK;
    (void)snprintf(key, sizeof key, "%s-%s@%s", row->type, row->selection, row->hash);
    if (strcmp(key, w->key) != 0) {
        if (*w->key)
            rs_json_out_end(json);
        memcpy(w->key, key, sizeof key);
        rs_json_out_key(json, key);
        rs_json_out_object(json);
    }
    (void)snprintf(text, sizeof text, "%" PRId32 "-%" PRId32,
                   view_end(&w->view, row->entry, row->entry->src),
                   view_end(&w->view, row->entry, row->entry->dst));
    rs_json_out_key(json, text);
    matrix_put_entry(&w->view, row, json);
    return output_file_drain(w->file, err);
}

static enum rs_status write_class(struct writer *w, struct comm_span span, struct rs_err *err)
{
    rs_json_out_key(&w->json, span.is_p2p ? "p2p" : "collective");
    rs_json_out_object(&w->json);
    w->key[0] = '\0';
    const enum rs_status status = matrix_walk(w->analysis, span, write_row, w, err);
    if (status != RS_OK)
        return status;
    if (*w->key)
        rs_json_out_end(&w->json);
    rs_json_out_end(&w->json);
    return RS_OK;
}

enum rs_status matrix_document(const struct view *view, struct output_file *file,
                               struct rs_err *err)
{
    const struct rs_analysis *analysis = view->analysis;
    struct writer w = {.view = *view, .analysis = analysis, .file = file};
    if (vendor_any_links(view))
        return vendor_matrix_document(view, file, err);
    rs_json_out_init(&w.json, &file->buf, 0);
    rs_json_out_object(&w.json);
    for (size_t i = 0, end; i < analysis->op_count; i = end) {
        char text[UNIT_TEXT_BYTES];
        end = comm_step_end(analysis, i);
        comm_step_text(text, analysis->ops[i].step);
        rs_json_out_key(&w.json, text);
        rs_json_out_object(&w.json);
        enum rs_status status = write_class(&w, (struct comm_span){i, end, true}, err);
        if (status == RS_OK)
            status = write_class(&w, (struct comm_span){i, end, false}, err);
        if (status != RS_OK)
            return status;
        rs_json_out_end(&w.json);
    }
    rs_json_out_end(&w.json);
    rs_buf_u8(&file->buf, '\n');
    return RS_OK;
}
