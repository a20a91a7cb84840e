/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one operation moved, as rows: packets of members whose hops were recorded (op_packet), links (op_link), and the figures that
 * a document needs of all its members together.
 *
 *     hops of a member    send 0->1 4 KiB HCCS, send 0->1 4 KiB HCCS, recv 1->0 ...   one row of two packets: what it sent counts;
 *                                                                                     what it received, where it sent nothing
 *     messages of an op   0->1, 0->1, 1->0                                            two links
 *
 * A member without hops has no packet here: its message is one packet of its size over its transfer time, which op_member says.
 */
#include "aggregator/analysis/rows_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static bool has_text(rs_str id)
{
    return id != RS_STR_NONE && id != RS_STR_EMPTY;
}

/* --- figures of all members -------------------------------------------------------------------------------- */

/* What is known, and only that; two that differ are told as such. */
static const char *one_of(const char *a, const char *b)
{
    if (!b || strcmp(b, "UNKNOWN") == 0)
        return a;
    return !a || strcmp(a, b) == 0 ? b : "SEVERAL";
}

static const char *transport_of(const struct rs_summary *summary, const struct rs_comm_op *own)
{
    const char *found = NULL;
    if (has_text(own->transport))
        return rs_strtab_text(&summary->strings, own->transport);
    for (uint32_t i = 0; i < own->task_count; i++) {
        const rs_str id = summary->tasks[own->task_first + i].transport;
        if (has_text(id))
            found = one_of(found, rs_strtab_text(&summary->strings, id));
    }
    return found;
}

static int64_t place_in(const struct rs_job_group *group, int32_t rank)
{
    for (size_t i = 0; group && i < group->rank_count; i++)
        if (group->ranks[i] == rank)
            return (int64_t)i;
    return -1;
}

struct rs_job_op_figures rs_analysis_op_figures(const struct rs_analysis *analysis,
                                                const struct rs_job_op *op)
{
    if (analysis->figures)
        return analysis->figures[op - analysis->ops];
    const struct rs_job_group *group =
        op->group == RS_NO_GROUP ? NULL : &analysis->groups[op->group];
    struct rs_job_op_figures figures = {.bytes = -1, .longest_ns = 0, .root_no = -1};
    bool has_time = op->has_wait && op->row_count > 0;
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &analysis->rows[r];
        const struct rs_summary *summary = analysis->summaries[row->summary];
        const struct rs_comm_op *own = &summary->ops[row->op_index];
        figures.bytes = own->bytes > figures.bytes ? own->bytes : figures.bytes;
        figures.longest_ns =
            row->transfer > figures.longest_ns ? row->transfer : figures.longest_ns;
        has_time = has_time && row->has_transfer && row->has_wait;
        figures.transport = one_of(figures.transport, transport_of(summary, own));
        figures.has_hops =
            figures.has_hops || (own->task_count && !rs_comm_op_has_calls_only(summary, own));
        if (own->root >= 0)
            figures.root_no =
                own->flags & RS_OP_ROOT_IN_GROUP ? own->root : place_in(group, own->root);
    }
    if (!has_time)
        figures.longest_ns = -1;
    return figures;
}

/* --- packets ------------------------------------------------------------------------------------------------ */

struct packet {
    const char *transport;
    int64_t bytes, count;
    rs_dur time;
};

static int by_transport_and_size(const void *a_, const void *b_)
{
    const struct packet *a = a_, *b = b_;
    const int order = strcmp(a->transport, b->transport);
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Every byte once: what this rank sent, or, where it sent nothing, what it received. */
static size_t take_packets(const struct rs_summary *summary, const struct rs_comm_op *own,
                           struct packet *packets)
{
    const struct rs_comm_task *tasks = summary->tasks + own->task_first;
    bool has_send = false;
    size_t count = 0, kept = 0;
    for (uint32_t i = 0; i < own->task_count; i++)
        has_send = has_send || (tasks[i].is_send && tasks[i].bytes >= 0);
    for (uint32_t i = 0; i < own->task_count; i++)
        if (tasks[i].is_send == has_send && tasks[i].bytes >= 0)
            packets[count++] = (struct packet){
                .transport = has_text(tasks[i].transport)
                                 ? rs_strtab_text(&summary->strings, tasks[i].transport)
                                 : "UNKNOWN",
                .bytes = tasks[i].bytes,
                .count = 1,
                .time = tasks[i].end - tasks[i].start};
    if (!count) { /* so that its hops are known of */
        packets[0] = (struct packet){.transport = "UNKNOWN", .bytes = RS_NULL};
        return 1;
    }
    qsort(packets, count, sizeof *packets, by_transport_and_size);
    for (size_t i = 1; i < count; i++) {
        struct packet *last = &packets[kept];
        if (by_transport_and_size(last, &packets[i]) != 0) {
            packets[++kept] = packets[i];
            continue;
        }
        last->count = sum_of(last->count, packets[i].count);
        last->time = sum_of(last->time, packets[i].time);
    }
    return kept + 1;
}

static enum rs_status put_packets_of(struct rows_filler *filler, const struct numbered *op,
                                     size_t member, const struct packet *packets, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        struct rs_row_op_packet *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        row->capture = filler->capture;
        row->step = filler->analysis->ops[op->op].step;
        row->group_id = op->group_id;
        row->op_no = op->op_no;
        row->member_no = (int64_t)member;
        row->packet_no = (int64_t)k;
        rs_block_text(&filler->block, &row->transport, packets[k].transport);
        row->bytes = packets[k].bytes;
        row->count = packets[k].count;
        row->time_ns = packets[k].time;
    }
    return RS_OK;
}

enum rs_status rows_put_packets(struct rows_filler *filler, const struct numbered *ops,
                                size_t count)
{
    const struct rs_analysis *analysis = filler->analysis;
    struct packet *packets = NULL;
    size_t capacity = 0;
    enum rs_status status = RS_OK;
    rows_of(filler, &rs_table_op_packet);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const struct rs_job_op *op = &analysis->ops[ops[i].op];
        for (size_t r = 0; r < op->row_count && status == RS_OK; r++) {
            const struct rs_job_row *member = &analysis->rows[op->row_first + r];
            const struct rs_summary *summary = analysis->summaries[member->summary];
            const struct rs_comm_op *own = &summary->ops[member->op_index];
            if (!own->task_count || rs_comm_op_has_calls_only(summary, own))
                continue;
            if (rs_mem_grow((void **)&packets, &capacity, own->task_count, sizeof *packets) !=
                RS_OK)
                status = rs_err_set(filler->err, RS_NOMEM, "no memory for packets of a step");
            else
                status = put_packets_of(filler, &ops[i], r, packets,
                                        take_packets(summary, own, packets));
        }
    }
    rs_mem_free(packets);
    return status == RS_OK ? rows_flush(filler) : status;
}

/* --- links ---------------------------------------------------------------------------------------------------- */

/* Messages of one operation come link by link. Unknown bytes say nothing of a link; an unknown time makes the link's unknown. */
struct op_messages {
    struct rows_filler *filler;
    const struct numbered *op;
    struct rs_row_op_link link; /* being summed; texts are the summary's */
    bool has_link;
};

static enum rs_status end_link(struct op_messages *messages)
{
    struct rows_filler *filler = messages->filler;
    if (!messages->has_link)
        return RS_OK;
    struct rs_row_op_link *row = rows_add(filler);
    if (!row)
        return rows_failed(filler);
    *row = messages->link;
    row->transport = NULL;
    rs_block_text(&filler->block, &row->transport, messages->link.transport);
    messages->has_link = false;
    return RS_OK;
}

static enum rs_status add_message(void *self, const struct rs_job_message *message)
{
    struct op_messages *messages = self;
    struct rs_row_op_link *link = &messages->link;
    if (message->bytes < 0)
        return RS_OK;
    if (messages->has_link && link->src == message->src && link->dst == message->dst) {
        link->bytes = sum_of(link->bytes, message->bytes);
        if (message->link_ns < 0)
            link->busy_ns = RS_NULL;
        else if (link->busy_ns != RS_NULL)
            link->busy_ns = sum_of(link->busy_ns, message->link_ns);
        return RS_OK;
    }
    const enum rs_status status = end_link(messages);
    *link = (struct rs_row_op_link){.capture = messages->filler->capture,
                                    .step = messages->filler->analysis->ops[messages->op->op].step,
                                    .group_id = messages->op->group_id,
                                    .op_no = messages->op->op_no,
                                    .src = message->src,
                                    .dst = message->dst,
                                    .transport = message->transport,
                                    .bytes = message->bytes,
                                    .busy_ns = rows_not_negative(message->link_ns)};
    messages->has_link = true;
    return status;
}

enum rs_status rows_put_op_links(struct rows_filler *filler, const struct numbered *ops,
                                 size_t count)
{
    enum rs_status status = RS_OK;
    rows_of(filler, &rs_table_op_link);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        struct op_messages messages = {.filler = filler, .op = &ops[i]};
        status = rs_analysis_messages(filler->analysis, ops[i].op, add_message, &messages);
        if (status == RS_OK)
            status = end_link(&messages);
        else if (status == RS_NOMEM)
            (void)rs_err_set(filler->err, status, "no memory for the links of a step");
    }
    return status == RS_OK ? rows_flush(filler) : status;
}
