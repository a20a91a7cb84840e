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

/* <op>__<last 3 of the hash>_<seq>_<nth>, or the vendor's own. */
static void put_name(const struct step_rows *step, const struct comm_item *item, const char *hash,
                     const char *prefix, const char *word, char text[COMM_NAME_BYTES])
{
    const char *vendor = step->members[item->row].row->vendor_name;
    const int64_t seq = step->ops[item->op].row->seq;
    const size_t length = strlen(hash);
    if (vendor)
        (void)snprintf(text, COMM_NAME_BYTES, "%s", vendor);
    else
        (void)snprintf(text, COMM_NAME_BYTES, "%s%s__%s_%" PRId64 "_%" PRIu32, prefix, word,
                       length > 3 ? hash + length - 3 : hash, seq == RS_NULL ? -1 : seq, item->nth);
}

void comm_item_name(const struct step_rows *step, const struct comm_item *item, const char *hash,
                    char text[COMM_NAME_BYTES])
{
    put_name(step, item, hash, "", rs_op_text(item->type), text);
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

void comm_item_official_name(const struct step_rows *step, const struct comm_item *item,
                             const char *hash, char text[COMM_NAME_BYTES])
{
    put_name(step, item, hash, "hcom_", official_word(item->type), text);
}

bool view_has(const struct view *view, int32_t rank)
{
    return !view->is_rank || rank == view->rank;
}

int64_t view_device(const struct view *view, int64_t device)
{
    return view->is_rank && device < 0 ? 0 : device;
}

bool view_has_steps(const struct view *view, const struct job_rank *rank)
{
    return !view->is_rank || rank->has_step_numbers;
}

void view_item_name(const struct view *view, const struct step_rows *step,
                    const struct comm_item *item, const char *hash, char text[COMM_NAME_BYTES])
{
    if (view->is_rank)
        comm_item_official_name(step, item, hash, text);
    else
        comm_item_name(step, item, hash, text);
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

static enum rs_status add_items(const struct step_rows *step, size_t op_index,
                                struct comm_items *run)
{
    const struct step_op *op = &step->ops[op_index];
    if (rs_mem_grow((void **)&run->items, &run->capacity,
                    run->count + (op->member_end - op->member_first), sizeof *run->items) != RS_OK)
        return RS_NOMEM;
    for (size_t m = op->member_first; m < op->member_end; m++)
        run->items[run->count++] = (struct comm_item){.op = op_index,
                                                      .row = m,
                                                      .rank = (int32_t)step->members[m].row->rank,
                                                      .type = (uint8_t)step->members[m].row->op};
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

static bool in_one_run(const struct step_rows *step, size_t a, size_t b)
{
    const struct rs_row_job_op *x = step->ops[a].row, *y = step->ops[b].row;
    return x->seq == y->seq && x->group_id == y->group_id;
}

static enum rs_status visit_run(const struct step_rows *step, struct comm_items *run,
                                comm_item_fn *visit, void *self, struct rs_err *err)
{
    char hash[COMM_HASH_BYTES];
    if (!run->count)
        return RS_OK;
    comm_group_hash(hash, step->ops[run->items[0].op].row->group_name);
    order_run(run);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->count && status == RS_OK; i++)
        status = visit(self, &run->items[i], hash, err);
    run->count = 0;
    return status;
}

enum rs_status comm_walk(const struct step_rows *step, bool is_p2p, comm_item_fn *visit, void *self,
                         struct rs_err *err)
{
    struct comm_items run = {0};
    enum rs_status status = RS_OK;
    size_t run_op = 0;
    for (size_t i = 0; i < step->op_count && status == RS_OK; i++) {
        if (!in_one_run(step, run_op, i)) {
            status = visit_run(step, &run, visit, self, err);
            run_op = i;
        }
        if (status == RS_OK && !step->ops[i].row->is_p2p == !is_p2p &&
            add_items(step, i, &run) != RS_OK)
            status = rs_err_set(err, RS_NOMEM, "no memory for the operations of a step");
    }
    if (status == RS_OK)
        status = visit_run(step, &run, visit, self, err);
    rs_mem_free(run.items);
    return status;
}

struct comm_times comm_times_of(const struct step_rows *step, const struct comm_item *item)
{
    const struct rs_row_job_member *row = step->members[item->row].row;
    const bool has_transit = row->transfer_ns != RS_NULL, has_wait = row->wait_ns != RS_NULL;
    return (struct comm_times){.start = row->start_ns,
                               .elapse = row->end_ns - row->start_ns,
                               .transit = has_transit ? row->transfer_ns : 0,
                               .wait = has_wait ? row->wait_ns : 0,
                               .has_transit = has_transit,
                               .has_wait = has_wait};
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

enum rs_status comm_packets_add(const struct step_rows *step, const struct comm_item *item,
                                struct comm_packets *packets)
{
    const struct step_member *member = &step->members[item->row];
    const struct rs_row_job_member *row = member->row;
    enum rs_status status = RS_OK;
    for (size_t i = member->packet_first; i < member->packet_end && status == RS_OK; i++) {
        const struct rs_row_job_packet *packet = &step->packets[i];
        if (packet->bytes == RS_NULL)
            continue;
        status = put_packet(packets, (struct comm_packet){.rank = item->rank,
                                                          .transport = packet->transport,
                                                          .bytes = packet->bytes,
                                                          .count = packet->count,
                                                          .time = packet->time_ns,
                                                          .has_time = true});
    }
    if (member->packet_first < member->packet_end || row->bytes == RS_NULL)
        return status;
    const struct comm_times times = comm_times_of(step, item);
    return put_packet(packets, (struct comm_packet){.rank = item->rank,
                                                    .transport = row->transport && *row->transport
                                                                     ? row->transport
                                                                     : "UNKNOWN",
                                                    .bytes = row->bytes,
                                                    .count = 1,
                                                    .time = times.transit,
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
