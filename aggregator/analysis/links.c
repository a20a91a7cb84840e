/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does each link carry, and how fast?
 *
 * A message is a send with its recv, or a hop inside a collective that both ends recorded (native ranks).
 *
 *     sender    |s0 ............ s1|
 *     receiver        |r0 ............ r1|
 *
 *   receiving   r1 - max(s0, r0): nothing can arrive before it is sent, nor be waited for before that
 *   sending     s1 - s0 when the receiver came after it (the buffers took it: nobody was in the way),
 *               else s1 - max(s0, r0): before r0 the sender may have stood before full buffers
 *
 * So a sender that a late receiver holds up, and a receiver whose sender is late, make no link slow. The
 * longer of the two is what the message took: the tables. But the receiver's side also holds the time until a
 * busy machine runs it again (3 ms, measured: 175 MB/s for half a megabyte, on a link that is not
 * slow), so blame (slow_link.c) looks at the sending side alone. What is accepted: a slow link behind
 * buffers that take whole messages is seen by the table and not blamed; a message that a late receiver
 * finds in its buffers looks faster than the link.
 *
 * A copy that a device's engine made (HCCL) is recorded by the end that made it, and its time is the link's: the
 * engine waits for nobody. Any other message recorded by one end only counts its bytes and no time; unknown bytes count no bandwidth.
 * Nothing is estimated from the shape of an algorithm.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* One end's record of a hop. */
struct hop {
    int32_t src, dst;
    bool is_recv, is_whole; /* whole: its time is the transfer's, whatever the other end did */
    size_t order;
    int64_t bytes;
    rs_ns start, end;
    const char *transport;
};

struct hops {
    struct hop *items;
    size_t count, capacity;
};

static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_hops(const void *left, const void *right)
{
    const struct hop *a = left, *b = right;
    int order = compare_i64(a->src, b->src);
    order = order != 0 ? order : compare_i64(a->dst, b->dst);
    order = order != 0 ? order : compare_i64(a->is_recv, b->is_recv);
    return order != 0 ? order : (a->order > b->order) - (a->order < b->order);
}

static int compare_messages(const void *left, const void *right)
{
    const struct link_message *a = left, *b = right;
    int order = compare_i64(a->src, b->src);
    order = order != 0 ? order : compare_i64(a->dst, b->dst);
    order = order != 0 ? order : compare_i64(a->step, b->step);
    order = order != 0 ? order : compare_i64(a->bytes, b->bytes);
    return order != 0 ? order : compare_i64(a->link_ns, b->link_ns);
}

static rs_ns later(rs_ns a, rs_ns b)
{
    return a > b ? a : b;
}

static rs_dur sending_time(const struct hop *send, const struct hop *recv)
{
    const rs_ns both = later(send->start, recv->start);
    return recv->start >= send->end ? send->end - send->start : send->end - both;
}

/* The receiver came when the sender had been at it for a while: full buffers, or a slow link? Both fit. */
static bool is_lower_bound(const struct hop *send, const struct hop *recv)
{
    return recv->start < send->end && (recv->start - send->start) * 4 > send->end - send->start;
}

static rs_dur link_time(const struct hop *send, const struct hop *recv)
{
    const rs_dur receiving = recv->end - later(send->start, recv->start);
    return later(later(receiving, sending_time(send, recv)), 0);
}

static const char *transport_text(const struct rs_summary *summary, rs_str transport)
{
    return transport == RS_STR_NONE || transport == RS_STR_EMPTY
               ? "UNKNOWN"
               : rs_strtab_text(&summary->strings, transport);
}

/* `recv` NULL: only one end is known. */
static enum rs_status add_message(struct link_messages *messages, const struct hop *hop,
                                  const struct hop *recv, const struct rs_job_op *op)
{
    if (rs_mem_grow((void **)&messages->items, &messages->capacity, messages->count + 1,
                    sizeof *messages->items) != RS_OK) {
        return RS_NOMEM;
    }
    const rs_dur own = hop->is_whole ? hop->end - hop->start : -1;
    messages->items[messages->count++] = (struct link_message){
        .src = hop->src,
        .dst = hop->dst,
        .step = op->step,
        .op_type = op->type,
        .bytes = hop->bytes,
        .link_ns = recv != NULL ? link_time(hop, recv) : own,
        .sending_ns = recv != NULL ? sending_time(hop, recv) : own,
        .is_lower_bound = recv != NULL && is_lower_bound(hop, recv),
        .transport = hop->transport,
    };
    return RS_OK;
}

static enum rs_status add_hop(struct hops *hops, const struct hop *hop)
{
    if (rs_mem_grow((void **)&hops->items, &hops->capacity, hops->count + 1, sizeof *hops->items) !=
        RS_OK) {
        return RS_NOMEM;
    }
    hops->items[hops->count++] = *hop;
    return RS_OK;
}

static enum rs_status add_tasks(struct hops *hops, const struct rs_analysis *out, size_t s,
                                const struct rs_comm_op *op)
{
    const struct rs_summary *summary = out->summaries[s];
    for (size_t t = 0; t < op->task_count && op->task_first + t < summary->task_count; t++) {
        const struct rs_comm_task *task = &summary->tasks[op->task_first + t];
        const struct hop hop = {
            .src = task->src,
            .dst = task->dst,
            .is_recv = !task->is_send,
            .is_whole = op->op_text != RS_STR_NONE, /* a vendor's operation */
            .order = hops->count,
            .bytes = task->bytes,
            .start = rs_analysis_time(out, s, task->start),
            .end = rs_analysis_time(out, s, task->end),
            .transport = transport_text(summary, task->transport),
        };
        if (task->src >= 0 && task->dst >= 0 && add_hop(hops, &hop) != RS_OK) {
            return RS_NOMEM;
        }
    }
    return RS_OK;
}

/* A send or recv without tasks is one hop itself; the other row's rank is its peer. */
static enum rs_status add_row(struct hops *hops, const struct rs_analysis *out,
                              const struct rs_job_op *op, const struct rs_job_row *row)
{
    const struct rs_summary *summary = out->summaries[row->summary];
    const struct rs_comm_op *own = &summary->ops[row->op_index];
    if (own->task_count > 0) {
        return add_tasks(hops, out, row->summary, own);
    }
    if (!op->is_matched || op->row_count != 2 ||
        (own->type != RS_OP_SEND && own->type != RS_OP_RECV) ||
        (own->flags & RS_OP_UNFINISHED) != 0) {
        return RS_OK;
    }
    const struct rs_job_row *rows = &out->rows[op->row_first];
    const int32_t peer = rows[0].rank == row->rank ? rows[1].rank : rows[0].rank;
    const bool is_recv = own->type == RS_OP_RECV;
    const struct hop hop = {
        .src = is_recv ? peer : row->rank,
        .dst = is_recv ? row->rank : peer,
        .is_recv = is_recv,
        .bytes = own->bytes,
        .start = rs_analysis_time(out, row->summary, own->start),
        .end = rs_analysis_time(out, row->summary, own->end),
        .transport = transport_text(summary, own->transport),
    };
    return add_hop(hops, &hop);
}

static size_t run_length(const struct hops *hops, size_t begin, bool is_recv)
{
    size_t end = begin;
    while (end < hops->count && hops->items[end].src == hops->items[begin].src &&
           hops->items[end].dst == hops->items[begin].dst && hops->items[end].is_recv == is_recv) {
        end++;
    }
    return end - begin;
}

/* The clocks of its members are known well enough to say what a link took. */
static bool are_timed(const struct rs_analysis *out, const struct rs_job_op *op)
{
    for (size_t r = op->row_first + 1; r < op->row_first + op->row_count; r++) {
        if (rs_analysis_clock_bound(out, out->rows[op->row_first].summary, out->rows[r].summary) >
            2 * (rs_dur)RS_CLOCK_BOUND_NS) {
            return false;
        }
    }
    return true;
}

/* Sorted hops of one operation: the k-th send of a link is its k-th receive. */
static enum rs_status pair_hops(struct link_messages *messages, const struct rs_analysis *out,
                                const struct hops *hops, const struct rs_job_op *op)
{
    for (size_t i = 0; i < hops->count;) {
        const size_t sends = run_length(hops, i, false);
        size_t receives = 0;
        if (i + sends < hops->count && hops->items[i + sends].src == hops->items[i].src &&
            hops->items[i + sends].dst == hops->items[i].dst) {
            receives = run_length(hops, i + sends, true);
        }
        const struct hop *first = &hops->items[i];
        const size_t count = first->is_whole ? sends + receives : sends > 0 ? sends : receives;
        for (size_t k = 0; k < count; k++) {
            const bool has_other = sends == receives && !first->is_whole;
            const struct hop *other = has_other ? &first[sends + k] : NULL;
            struct hop hop = first[k];
            if (hop.bytes < 0 && other != NULL) {
                hop.bytes = other->bytes;
            }
            const bool is_pair = other != NULL && op->has_wait && are_timed(out, op) &&
                                 (other->bytes < 0 || other->bytes == hop.bytes);
            if (add_message(messages, &hop, is_pair ? other : NULL, op) != RS_OK) {
                return RS_NOMEM;
            }
        }
        i += sends + receives;
    }
    return RS_OK;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sums of messages[begin, end) of one link; `rates` is scratch. */
static void sum_link(const struct link_messages *messages, size_t begin, size_t end, double *rates,
                     struct rs_job_link *link)
{
    size_t timed = 0;
    *link = (struct rs_job_link){
        .src = messages->items[begin].src,
        .dst = messages->items[begin].dst,
        .transport = messages->items[begin].transport,
        .busy = -1,
    };
    for (size_t i = begin; i < end; i++) {
        const struct link_message *message = &messages->items[i];
        link->count++;
        link->bytes = join_sum(link->bytes, message->bytes > 0 ? message->bytes : 0);
        if (message->link_ns >= 0) {
            link->busy = join_sum(link->busy > 0 ? link->busy : 0, message->link_ns);
        }
        if (message->bytes > 0 && message->link_ns > 0) {
            rates[timed++] = (double)message->bytes * 1e9 / (double)message->link_ns;
        }
    }
    if (timed > 0) {
        qsort(rates, timed, sizeof *rates, compare_doubles);
        link->median_bytes_per_s = rates[timed / 2];
        link->fast_bytes_per_s = rates[timed * 9 / 10];
    }
}

static enum rs_status sum_links(struct rs_analysis *out, struct link_messages *messages)
{
    if (messages->count == 0) {
        return RS_OK;
    }
    double *rates = rs_mem_calloc(messages->count, sizeof *rates);
    size_t capacity = 0;
    enum rs_status status = rates != NULL ? RS_OK : RS_NOMEM;
    for (size_t begin = 0; begin < messages->count && status == RS_OK;) {
        size_t end = begin;
        while (end < messages->count && messages->items[end].src == messages->items[begin].src &&
               messages->items[end].dst == messages->items[begin].dst) {
            end++;
        }
        status =
            rs_mem_grow((void **)&out->links, &capacity, out->link_count + 1, sizeof *out->links);
        if (status == RS_OK) {
            sum_link(messages, begin, end, rates, &out->links[out->link_count++]);
        }
        begin = end;
    }
    rs_mem_free(rates);
    return status;
}

/* The messages of one operation; `hops` is scratch. */
static enum rs_status collect_op(const struct rs_analysis *analysis, size_t op_index,
                                 struct hops *hops, struct link_messages *messages)
{
    const struct rs_job_op *op = &analysis->ops[op_index];
    enum rs_status status = RS_OK;
    hops->count = 0;
    for (size_t r = op->row_first; r < op->row_first + op->row_count && status == RS_OK; r++) {
        status = add_row(hops, analysis, op, &analysis->rows[r]);
    }
    if (status == RS_OK && hops->count > 0) {
        qsort(hops->items, hops->count, sizeof *hops->items, compare_hops);
        status = pair_hops(messages, analysis, hops, op);
    }
    return status;
}

enum rs_status rs_analysis_messages(const struct rs_analysis *analysis, size_t op_index,
                                    rs_analysis_message_fn *visit, void *self)
{
    struct hops hops = {0};
    struct link_messages messages = {0};
    enum rs_status status = collect_op(analysis, op_index, &hops, &messages);
    for (size_t i = 0; i < messages.count && status == RS_OK; i++) {
        const struct link_message *m = &messages.items[i];
        const struct rs_job_message message = {.src = m->src,
                                               .dst = m->dst,
                                               .transport = m->transport,
                                               .bytes = m->bytes,
                                               .link_ns = m->link_ns,
                                               .sending_ns =
                                                   m->is_lower_bound ? -1 : m->sending_ns};
        status = visit(self, &message);
    }
    rs_mem_free(hops.items);
    rs_mem_free(messages.items);
    return status;
}

enum rs_status links_collect(struct rs_analysis *analysis, struct link_messages *messages)
{
    struct hops hops = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < analysis->op_count && status == RS_OK; i++) {
        status = collect_op(analysis, i, &hops, messages);
    }
    rs_mem_free(hops.items);
    if (status == RS_OK && messages->count > 0) {
        qsort(messages->items, messages->count, sizeof *messages->items, compare_messages);
        status = sum_links(analysis, messages);
    }
    return status;
}
