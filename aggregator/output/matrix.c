/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which operations stand for a link: per (step, group, type, link) the fastest, the middle one and the
 * slowest three by bandwidth, and the total; the official selection, links in global ranks.
 *
 * What an operation moved over a link, and how long the link took, is in op_link: hops where they were recorded, a send
 * with its recv.
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

/* An entry per link of the operation that `item` speaks for. */
static enum rs_status put_links(const struct step_rows *step, const struct comm_item *item,
                                struct entries *entries)
{
    const struct step_op *op = &step->ops[item->op];
    const char *type = official_type((enum rs_op_type)item->type);
    enum rs_status status = RS_OK;
    for (size_t i = op->link_first; i < op->link_end && status == RS_OK; i++) {
        const struct rs_row_job_link *link = &step->links[i];
        const bool has_time = link->busy_ns != RS_NULL;
        status = put_entry(entries, (struct matrix_entry){.type = type,
                                                          .src = (int32_t)link->src,
                                                          .dst = (int32_t)link->dst,
                                                          .transport = link->transport,
                                                          .bytes = link->bytes,
                                                          .time = has_time ? link->busy_ns : 0,
                                                          .has_time = has_time,
                                                          .item = *item});
    }
    return status;
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
    const struct step_rows *step;
    struct entries entries;
    struct matrix_visit to;
    char hash[COMM_HASH_BYTES]; /* of the group whose entries are held; "" none */
};

/* The member that gives an operation its name and rank: a pair's send, else the lowest rank's. */
static size_t speaker_of(const struct step_rows *step, size_t op_index)
{
    const struct step_op *op = &step->ops[op_index];
    for (size_t m = op->member_first; m < op->member_end; m++)
        if (step->members[m].row->op == RS_OP_SEND)
            return m;
    return op->member_first;
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
    /* Every member of an operation comes by; one (the sender, of a pair) speaks for all. */
    if (item->row != speaker_of(c->step, item->op))
        return RS_OK;
    return put_links(c->step, item, &c->entries) == RS_OK
               ? RS_OK
               : rs_err_set(err, RS_NOMEM, "no memory for the links of a step");
}

enum rs_status matrix_walk(const struct step_rows *step, bool is_p2p, matrix_row_fn *visit,
                           void *self, struct rs_err *err)
{
    struct collector c = {.step = step, .to = {.visit = visit, .self = self}};
    c.to.hash = c.hash;
    enum rs_status status = comm_walk(step, is_p2p, collect, &c, err);
    if (status == RS_OK)
        status = visit_entries(&c.entries, &c.to, err);
    rs_mem_free(c.entries.items);
    return status;
}

/* --- communication_matrix.json ------------------------------------------------------------ */

bool view_has_link(const struct view *view, const struct matrix_entry *entry)
{
    /* The sender tells of a link; the receiver where nobody read the sender. */
    return !view->is_rank || entry->src == view->rank ||
           (entry->dst == view->rank && !job_rank(view->job, entry->src));
}

int32_t view_end(const struct view *view, const struct step_rows *step,
                 const struct matrix_entry *entry, int32_t rank)
{
    const struct job_group *group =
        view->is_rank ? job_group(view->job, step->ops[entry->item.op].row->group_id) : NULL;
    for (size_t i = 0; group && i < group->rank_count; i++)
        if (group->ranks[i] == rank)
            return (int32_t)i;
    return rank;
}

struct writer {
    struct view view;
    const struct step_rows *step; /* being written */
    struct output_file *file;
    struct rs_json_out json;
    char key[COMM_HASH_BYTES + 64];
};

void matrix_put_entry(const struct view *view, const struct step_rows *step,
                      const struct matrix_row *row, struct rs_json_out *json)
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
        view_item_name(view, step, &row->entry->item, row->hash, name);
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
                   view_end(&w->view, w->step, row->entry, row->entry->src),
                   view_end(&w->view, w->step, row->entry, row->entry->dst));
    rs_json_out_key(json, text);
    matrix_put_entry(&w->view, w->step, row, json);
    return output_file_drain(w->file, err);
}

static enum rs_status write_class(struct writer *w, bool is_p2p, struct rs_err *err)
{
    rs_json_out_key(&w->json, is_p2p ? "p2p" : "collective");
    rs_json_out_object(&w->json);
    w->key[0] = '\0';
    const enum rs_status status = matrix_walk(w->step, is_p2p, write_row, w, err);
    if (status != RS_OK)
        return status;
    if (*w->key)
        rs_json_out_end(&w->json);
    rs_json_out_end(&w->json);
    return RS_OK;
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

enum rs_status matrix_document(const struct view *view, struct output_file *file,
                               struct rs_err *err)
{
    struct writer w = {.view = *view, .file = file};
    struct step_rows *step = NULL;
    bool has_step = false;
    if (vendor_any_links(view))
        return vendor_matrix_document(view, file, err);
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
    return status;
}
