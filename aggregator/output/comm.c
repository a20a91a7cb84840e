/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of communication.json and of CommAnalyzerTime / CommAnalyzerBandwidth, figure by figure.
 *
 * Names. The official key is op@group; ours is <op>__<last 3 of the group's hash>_<seq>_<n>@<hash>.
 * n is 1 but for point-to-point and unmatched rows: their seq counts per pair (or is missing, -1 as
 * the vendor writes it), so one rank can have several operations of one name; they are told apart by n.
 *
 *     group 0, seq 4:   0 -> 1, 0 -> 2      rank 0: send__048_4_1, send__048_4_2
 *                                           rank 1: recv__048_4_1    rank 2: recv__048_4_1
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct rs_comm_op *comm_op_of(const struct rs_analysis *analysis,
                                    const struct rs_job_row *row)
{
    return &analysis->summaries[row->summary]->ops[row->op_index];
}

const char *comm_group_text(const struct rs_analysis *analysis, const struct rs_job_op *op)
{
    const char *text = op->group == RS_NO_GROUP ? NULL : analysis->groups[op->group].text;
    return text ? text : "";
}

void comm_step_text(char text[UNIT_TEXT_BYTES], int64_t step)
{
    if (step == RS_STEP_NONE)
        (void)snprintf(text, UNIT_TEXT_BYTES, "step");
    else
        (void)snprintf(text, UNIT_TEXT_BYTES, "step%" PRId64, step);
}

/* HCCL's groups bear the hash of their communicator as their name already; a counter of a process is never so
 * long. */
static bool is_vendor_hash(const char *group, size_t length)
{
    return length >= 12 && length < COMM_HASH_BYTES && (!group[length] || group[length] == '@');
}

void comm_group_hash(char text[COMM_HASH_BYTES], const char *group)
{
    uint32_t high = 0, low = 0;
    const size_t digits = strspn(group, "0123456789");
    if (is_vendor_hash(group, digits)) {
        memcpy(text, group, digits);
        text[digits] = '\0';
        return;
    }
    for (; *group; group++) {
        high = high * 29 + (uint8_t)*group;
        low = low * 131 + (uint8_t)*group;
    }
    (void)snprintf(text, COMM_HASH_BYTES, "%" PRIu64, (uint64_t)high << 32 | low);
}

void comm_item_name(const struct rs_analysis *analysis, const struct comm_item *item,
                    const char *hash, char text[COMM_NAME_BYTES])
{
    const struct rs_job_row *row = &analysis->rows[item->row];
    const struct rs_comm_op *own = comm_op_of(analysis, row);
    if (own->op_text != RS_STR_NONE) {
        (void)snprintf(text, COMM_NAME_BYTES, "%s",
                       rs_strtab_text(&analysis->summaries[row->summary]->strings, own->op_text));
        return;
    }
    const size_t length = strlen(hash);
    (void)snprintf(text, COMM_NAME_BYTES, "%s__%s_%" PRId64 "_%" PRIu32,
                   rs_op_type_text((enum rs_op_type)item->type),
                   length > 3 ? hash + length - 3 : hash,
                   analysis->ops[item->op].seq < 0 ? -1 : analysis->ops[item->op].seq, item->nth);
}

/* As HCCL's operations are called; all_to_all is the one whose count is what a rank gives, which is what is known. */
static const char *official_word(uint8_t type)
{
    static const char *const words[RS_OP_TYPE_COUNT] = {
        [RS_OP_UNKNOWN] = "unknown",
        [RS_OP_ALL_REDUCE] = "allReduce",
        [RS_OP_ALL_GATHER] = "allGather",
        [RS_OP_REDUCE_SCATTER] = "reduceScatter",
        [RS_OP_ALL_TO_ALL] = "alltoallv",
        [RS_OP_BROADCAST] = "broadcast",
        [RS_OP_REDUCE] = "reduce",
        [RS_OP_GATHER] = "gather",
        [RS_OP_SCATTER] = "scatter",
        [RS_OP_BARRIER] = "barrier",
        [RS_OP_SEND] = "send",
        [RS_OP_RECV] = "receive",
        [RS_OP_SEND_RECV] = "batchSendRecv",
    };
    return type < RS_OP_TYPE_COUNT ? words[type] : words[RS_OP_UNKNOWN];
}

void comm_item_official_name(const struct rs_analysis *analysis, const struct comm_item *item,
                             const char *hash, char text[COMM_NAME_BYTES])
{
    const struct rs_comm_op *own = comm_op_of(analysis, &analysis->rows[item->row]);
    const size_t length = strlen(hash);
    if (own->op_text != RS_STR_NONE) {
        comm_item_name(analysis, item, hash, text);
        return;
    }
    (void)snprintf(text, COMM_NAME_BYTES, "hcom_%s__%s_%" PRId64 "_%" PRIu32,
                   official_word(item->type), length > 3 ? hash + length - 3 : hash,
                   analysis->ops[item->op].seq < 0 ? -1 : analysis->ops[item->op].seq, item->nth);
}

bool view_has(const struct view *view, size_t summary)
{
    return !view->is_rank || summary == view->summary;
}

int32_t view_device(const struct view *view, int32_t device)
{
    return view->is_rank && device < 0 ? 0 : device;
}

bool view_has_steps(const struct view *view, const struct rs_summary *summary)
{
    return !view->is_rank || summary->step_origin != RS_STEPS_NONE;
}

void view_item_name(const struct view *view, const struct comm_item *item, const char *hash,
                    char text[COMM_NAME_BYTES])
{
    if (view->is_rank)
        comm_item_official_name(view->analysis, item, hash, text);
    else
        comm_item_name(view->analysis, item, hash, text);
}

size_t comm_step_end(const struct rs_analysis *analysis, size_t first)
{
    size_t end = first;
    while (end < analysis->op_count && analysis->ops[end].step == analysis->ops[first].step)
        end++;
    return end;
}

static int compare_ints(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_type_rank_row(const void *a_, const void *b_)
{
    const struct comm_item *a = a_, *b = b_;
    if (a->type != b->type)
        return compare_ints(a->type, b->type);
    if (a->rank != b->rank)
        return compare_ints(a->rank, b->rank);
    return (a->row > b->row) - (a->row < b->row);
}

static int by_type_nth_rank(const void *a_, const void *b_)
{
    const struct comm_item *a = a_, *b = b_;
    if (a->type != b->type)
        return compare_ints(a->type, b->type);
    if (a->nth != b->nth)
        return compare_ints(a->nth, b->nth);
    return compare_ints(a->rank, b->rank);
}

static enum rs_status add_items(const struct rs_analysis *analysis, size_t op_index,
                                struct comm_items *run)
{
    const struct rs_job_op *op = &analysis->ops[op_index];
    if (rs_mem_grow((void **)&run->items, &run->capacity, run->count + op->row_count,
                    sizeof *run->items) != RS_OK)
        return RS_NOMEM;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++)
        run->items[run->count++] =
            (struct comm_item){.op = op_index,
                               .row = r,
                               .rank = analysis->rows[r].rank,
                               .type = comm_op_of(analysis, &analysis->rows[r])->type};
    return RS_OK;
}

/* Numbers what bears one name on one rank, and puts the members of a name side by side. */
static void order_run(struct comm_items *run)
{
    qsort(run->items, run->count, sizeof *run->items, by_type_rank_row);
    for (size_t i = 0; i < run->count; i++) {
        const struct comm_item *before = i ? &run->items[i - 1] : NULL;
        struct comm_item *item = &run->items[i];
        const bool is_same = before && before->type == item->type && before->rank == item->rank;
        item->nth = is_same ? before->nth + 1 : 1;
    }
    qsort(run->items, run->count, sizeof *run->items, by_type_nth_rank);
}

static bool in_one_run(const struct rs_analysis *analysis, size_t a, size_t b)
{
    const struct rs_job_op *x = &analysis->ops[a], *y = &analysis->ops[b];
    return x->seq == y->seq &&
           strcmp(comm_group_text(analysis, x), comm_group_text(analysis, y)) == 0;
}

static enum rs_status visit_run(const struct rs_analysis *analysis, struct comm_items *run,
                                comm_item_fn *visit, void *self, struct rs_err *err)
{
    char hash[COMM_HASH_BYTES];
    if (!run->count)
        return RS_OK;
    comm_group_hash(hash, comm_group_text(analysis, &analysis->ops[run->items[0].op]));
    order_run(run);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->count && status == RS_OK; i++)
        status = visit(self, &run->items[i], hash, err);
    run->count = 0;
    return status;
}

enum rs_status comm_walk(const struct rs_analysis *analysis, struct comm_span span,
                         comm_item_fn *visit, void *self, struct rs_err *err)
{
    struct comm_items run = {0};
    enum rs_status status = RS_OK;
    size_t run_op = span.first;
    for (size_t i = span.first; i < span.end && status == RS_OK; i++) {
        if (!in_one_run(analysis, run_op, i)) {
            status = visit_run(analysis, &run, visit, self, err);
            run_op = i;
        }
        if (status == RS_OK && analysis->ops[i].is_p2p == span.is_p2p &&
            add_items(analysis, i, &run) != RS_OK)
            status = rs_err_set(err, RS_NOMEM, "no memory for the operations of a step");
    }
    if (status == RS_OK)
        status = visit_run(analysis, &run, visit, self, err);
    rs_mem_free(run.items);
    return status;
}

struct comm_times comm_times_of(const struct rs_analysis *analysis, const struct comm_item *item)
{
    const struct rs_job_row *row = &analysis->rows[item->row];
    const struct rs_comm_op *own = comm_op_of(analysis, row);
    return (struct comm_times){.start = own->start,
                               .elapse = own->end - own->start,
                               .transit = row->transfer,
                               .wait = row->wait,
                               .has_transit = row->has_wait && row->has_transfer,
                               .has_wait = row->has_wait};
}

/* --- packets ----------------------------------------------------------------------------- */

static enum rs_status put_packet(struct comm_packets *packets, struct comm_packet packet)
{
    if (rs_mem_grow((void **)&packets->items, &packets->capacity, packets->count + 1,
                    sizeof *packets->items) != RS_OK)
        return RS_NOMEM;
    packets->items[packets->count++] = packet;
    return RS_OK;
}

static const char *transport_text(const struct rs_summary *summary, rs_str id)
{
    return id == RS_STR_NONE || id == RS_STR_EMPTY ? "UNKNOWN"
                                                   : rs_strtab_text(&summary->strings, id);
}

/* Every byte once: what this rank sent, or, where it sent nothing, what it received. */
static enum rs_status put_tasks(const struct rs_summary *summary, const struct rs_comm_op *own,
                                int32_t rank, struct comm_packets *packets)
{
    const struct rs_comm_task *tasks = summary->tasks + own->task_first;
    bool has_send = false;
    for (uint32_t i = 0; i < own->task_count; i++)
        has_send = has_send || (tasks[i].is_send && tasks[i].bytes >= 0);
    for (uint32_t i = 0; i < own->task_count; i++) {
        if (tasks[i].is_send != has_send || tasks[i].bytes < 0)
            continue;
        const struct comm_packet packet = {.rank = rank,
                                           .transport = transport_text(summary, tasks[i].transport),
                                           .bytes = tasks[i].bytes,
                                           .count = 1,
                                           .time = tasks[i].end - tasks[i].start,
                                           .has_time = true};
        if (put_packet(packets, packet) != RS_OK)
            return RS_NOMEM;
    }
    return RS_OK;
}

enum rs_status comm_packets_add(const struct rs_analysis *analysis, const struct comm_item *item,
                                struct comm_packets *packets)
{
    const struct rs_job_row *row = &analysis->rows[item->row];
    const struct rs_summary *summary = analysis->summaries[row->summary];
    const struct rs_comm_op *own = comm_op_of(analysis, row);
    if (own->task_count)
        return put_tasks(summary, own, item->rank, packets);
    if (own->bytes < 0)
        return RS_OK;
    const struct comm_times times = comm_times_of(analysis, item);
    return put_packet(packets,
                      (struct comm_packet){.rank = item->rank,
                                           .transport = transport_text(summary, own->transport),
                                           .bytes = own->bytes,
                                           .count = 1,
                                           .time = times.has_transit ? times.transit : 0,
                                           .has_time = times.has_transit});
}

static int by_rank_transport_size(const void *a_, const void *b_)
{
    const struct comm_packet *a = a_, *b = b_;
    if (a->rank != b->rank)
        return compare_ints(a->rank, b->rank);
    const int order = strcmp(a->transport, b->transport);
    if (order)
        return order;
    return compare_ints(a->bytes, b->bytes);
}

void comm_packets_compact(struct comm_packets *packets)
{
    if (!packets->count)
        return;
    qsort(packets->items, packets->count, sizeof *packets->items, by_rank_transport_size);
    size_t kept = 0;
    for (size_t i = 1; i < packets->count; i++) {
        struct comm_packet *last = &packets->items[kept];
        const struct comm_packet *next = &packets->items[i];
        if (by_rank_transport_size(last, next) == 0) {
            last->count = sum_of(last->count, next->count);
            last->time = sum_of(last->time, next->time);
            last->has_time = last->has_time && next->has_time;
        } else {
            packets->items[++kept] = *next;
        }
    }
    packets->count = kept + 1;
}

void comm_packets_fini(struct comm_packets *packets)
{
    rs_mem_free(packets->items);
    *packets = (struct comm_packets){0};
}
