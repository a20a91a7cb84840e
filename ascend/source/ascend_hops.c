/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small tasks of one operation -> what went over which link.
 *
 *   Memcpy, Reduce_Inline       one transfer each; those inside a chip are none
 *   RDMA payloads               consecutive payloads on a plane and the tasks that close them are one transfer: a
 *                               payload task alone is only the posting of it (reference 4.3: 3 tasks close a send or
 *                               receive, 5 any other operation)
 *   all else                    waiting and telling
 *
 * Ends are ranks within the group; they become global ones, or the transfer is counted as lost.
 */
#include "ascend/source/ascend_priv.h"

#include <string.h>
#include <strings.h>

enum ascend_task_kind ascend_task_kind_of(const char *type, const char *rdma_type)
{
    if (strcasecmp(rdma_type, "RDMA_SEND_PAYLOAD") == 0 ||
        strcasecmp(type, "RDMA_SEND_PAYLOAD") == 0)
        return ASCEND_TASK_RDMA_PAYLOAD;
    if (strcasecmp(type, "Memcpy") == 0 || strcasecmp(type, "Reduce_Inline") == 0 ||
        strcasecmp(type, "Reduce Inline") == 0)
        return ASCEND_TASK_COPY;
    return ASCEND_TASK_OTHER;
}

static const char *transport_of(const char *link)
{
    if (strcasecmp(link, "HCCS") == 0 || strcasecmp(link, "HCCS_SW") == 0)
        return "HCCS";
    if (strcasecmp(link, "PCIE") == 0)
        return "PCIE";
    if (strcasecmp(link, "SIO") == 0)
        return "SIO";
    if (strcasecmp(link, "ROCE") == 0 || strcasecmp(link, "STANDARD_ROCE") == 0)
        return "RDMA";
    /* by name, whatever it is: our own export has makes that the vendor does not know */
    static const char *const none[] = {"", "N/A", "RESERVED", "INVALID_TYPE", "ON_CHIP"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (strcasecmp(link, none[i]) == 0)
            return NULL;
    return link;
}

struct hop {
    int64_t src, dst, bytes;
    rs_ns start, end;
    const char *transport;
};

static enum rs_status emit_hop(struct ascend *a, struct ascend_op *op, const struct hop *hop,
                               struct rs_err *err)
{
    const int64_t src = ascend_global_rank(a, op->group, hop->src);
    const int64_t dst = ascend_global_rank(a, op->group, hop->dst);
    if (src < 0 || dst < 0) {
        a->hops_lost++;
        return RS_OK;
    }
    if (src == dst)
        return RS_OK;
    if (op->peer < 0)
        op->peer = src == a->rank->rank ? dst : src;
    struct ascend_row row = {.kind = RS_KIND_COMM_TASK,
                             .name = op->name,
                             .category = RS_STR_NONE,
                             .start = hop->start,
                             .end = hop->end,
                             .correlation = -1,
                             .external_id = op->id,
                             .bytes = hop->bytes};
    rs_str transport = RS_STR_NONE;
    struct rs_comm *comm;
    size_t at;
    enum rs_status status = ascend_group_lane(a, op->device, op->group, &row.lane);
    if (status == RS_OK && hop->transport)
        status = ascend_text(a, hop->transport, &transport);
    if (status == RS_OK) {
        status = ascend_emit(a, &row, &at, err);
        if (status != RS_OK)
            return status;
        status = rs_batch_comm(&a->batch, at, &comm);
    }
    if (status != RS_OK)
        return rs_err_set(err, status, "%s: %s", a->rank->dir, rs_status_text(status));
    comm->src = src;
    comm->dst = dst;
    comm->has = RS_COMM_HAS_SRC | RS_COMM_HAS_DST;
    comm->transport = transport;
    if (hop->bytes >= 0) {
        comm->bytes = hop->bytes;
        comm->has |= RS_COMM_HAS_BYTES;
    }
    if (op->transport == RS_STR_NONE)
        op->transport = transport;
    else if (transport != op->transport)
        op->transport = RS_STR_EMPTY; /* several: told per transfer */
    return RS_OK;
}

/* RDMA on one plane: payloads, then the tasks that close them. */
struct run {
    struct hop hop;
    unsigned left; /* tasks until it is closed; 0: no run, or payloads still come */
    bool is_open;
};

static void take_payload(struct run *run, const struct ascend_task *task)
{
    int64_t sum;
    if (!run->is_open || run->left) /* one that was never closed is not known to have arrived */
        *run = (struct run){
            .hop = {.src = task->src, .dst = task->dst, .start = task->start, .transport = "RDMA"},
            .is_open = true};
    const bool is_known = run->hop.bytes >= 0 && task->size >= 0 &&
                          !__builtin_add_overflow(run->hop.bytes, task->size, &sum);
    run->hop.bytes = is_known ? sum : -1;
}

/* True: the task was the run's last. */
static bool close_run(struct run *run, const struct ascend_task *task, bool is_p2p)
{
    if (!run->is_open)
        return false;
    run->left = (run->left ? run->left : is_p2p ? 3 : 5) - 1;
    if (run->left)
        return false;
    run->hop.end = task->end;
    run->is_open = false;
    return true;
}

enum { PLANES_MAX = 64 };

enum rs_status ascend_emit_hops(struct ascend *a, struct ascend_op *op,
                                const struct ascend_task *tasks, size_t count, struct rs_err *err)
{
    struct run runs[PLANES_MAX] = {0};
    const bool is_p2p = rs_ascend_is_p2p(op->name_text);
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        const struct ascend_task *task = &tasks[i];
        const bool is_inside = strcasecmp(task->link, "ON_CHIP") == 0;
        struct run *run = task->plane >= 0 && task->plane < PLANES_MAX ? &runs[task->plane] : NULL;
        if (run && task->kind == ASCEND_TASK_RDMA_PAYLOAD)
            take_payload(run, task);
        else if (run && close_run(run, task, is_p2p))
            status = emit_hop(a, op, &run->hop, err);
        if (status == RS_OK && task->kind == ASCEND_TASK_COPY && !is_inside && task->size > 0 &&
            task->dst >= 0) {
            const struct hop hop = {.src = task->src,
                                    .dst = task->dst,
                                    .bytes = task->size,
                                    .start = task->start,
                                    .end = task->end,
                                    .transport = transport_of(task->link)};
            status = emit_hop(a, op, &hop, err);
        }
    }
    return status;
}
