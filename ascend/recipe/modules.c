/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules of a network, the framework calls under them and the kernels those launched: what module_statistic, operator_mfu
 * and calibrate_npu_gpu count.
 *
 * As the peer does it, per rank: mstx ranges of the domain "Module" are a tree by time; framework calls that
 * launched a kernel (COMPUTE_TASK_INFO, COMMUNICATION_OP, COMMUNICATION_SCHEDULE_TASK_INFO) hang under
 * the innermost range around them. Backward: calls with two connection ids are forward and
 * backward of one operation; runs of backward calls of one forward module become ranges of their
 * own, marked [Backward]. Calls of equal (parent, module, name, place, kernels, sequence of calls) over all
 * repetitions are one row. Where repetitions that follow each other have different sequences,
 * the modules get _0, _1, ... At most 20 levels.
 */
#include "ascend/recipe/modules.h"

#include "common/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events of the tree: module ranges and calls. */
enum { E_START, E_END, E_NAME, E_IS_CALL, E_BACKWARD, E_UP, E_KERNELS, E_TIME, E_FIRST, E_COUNT };
#define EVENT_KINDS "iitiiitrii"
/* Forward and backward calls. */
enum { F_NAME, F_START, F_END, F_BWD_START, F_BWD_END, F_MODULE };
#define FLOW_KINDS "tiiiii"
/* Calls under modules, one row each. */
enum {
    C_PARENT,
    C_MODULE,
    C_START, /* of the module */
    C_END,
    C_OP,
    C_OP_START,
    C_KERNELS,
    C_TIME,
    C_PLACE, /* among the calls of the module */
    C_SEQUENCE,
    C_FIRST, /* its kernels: places in the tree's order of them */
    C_COUNT
};
#define CALL_KINDS "ttiititriiii"
/* Equal calls together. */
enum {
    G_PARENT,
    G_MODULE,
    G_OP,
    G_PLACE,
    G_KERNELS,
    G_SEQUENCE,
    G_TOTAL,
    G_COUNT,
    G_START,
    G_AT,
    G_SHARES
};
#define GROUP_KINDS "tttitiriiit"

enum { LEVELS_MAX = 20, NOWHERE = -1 };

struct tree {
    struct frame events;
    uint32_t *order; /* by start, longest first */
    const struct frame *kernels;
    struct frame_order kernel_order; /* by call */
    const struct modules_want *want;
};

static enum rs_status add_event(struct frame *events, const char *name, int64_t start, int64_t end,
                                bool is_call, bool is_backward)
{
    union frame_cell *row = frame_add(events);
    if (!row)
        return RS_NOMEM;
    row[E_START].i = start;
    row[E_END].i = end;
    row[E_IS_CALL].i = is_call;
    row[E_BACKWARD].i = is_backward;
    row[E_UP].i = NOWHERE;
    row[E_KERNELS].t = RS_STR_EMPTY;
    return frame_text_id(events, name, &row[E_NAME].t);
}

static int by_nesting(const void *a, const void *b, void *data)
{
    const struct frame *events = data;
    const uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    const union frame_cell *x = frame_row(events, p), *y = frame_row(events, q);
    if (x[E_START].i != y[E_START].i)
        return x[E_START].i < y[E_START].i ? -1 : 1;
    if (x[E_END].i != y[E_END].i)
        return x[E_END].i > y[E_END].i ? -1 : 1;
    return (p > q) - (p < q);
}

/* E_UP of each event: the innermost module range around it. */
static enum rs_status build(struct tree *tree)
{
    struct frame *events = &tree->events;
    uint32_t *stack = rs_mem_calloc(events->count + 1, sizeof *stack);
    size_t depth = 0;
    rs_mem_free(tree->order);
    tree->order = rs_mem_calloc(events->count + 1, sizeof *tree->order);
    if (!stack || !tree->order) {
        rs_mem_free(stack);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < events->count; i++)
        tree->order[i] = (uint32_t)i;
    qsort_r(tree->order, events->count, sizeof *tree->order, by_nesting, events);
    for (size_t i = 0; i < events->count; i++) {
        union frame_cell *row = events->cells + tree->order[i] * events->columns;
        while (depth && (frame_row(events, stack[depth - 1])[E_START].i > row[E_START].i ||
                         frame_row(events, stack[depth - 1])[E_END].i < row[E_END].i))
            depth--;
        row[E_UP].i = depth ? (int64_t)stack[depth - 1] : NOWHERE;
        if (!row[E_IS_CALL].i)
            stack[depth++] = tree->order[i];
    }
    rs_mem_free(stack);
    return RS_OK;
}

/* Where an event hangs. */
struct place {
    const union frame_cell *module;
    struct rs_buf parent; /* "outer/inner" of the ranges around the module */
    bool is_backward;
};

/* False: under no module, or too deep. */
static bool find_place(const struct tree *tree, const union frame_cell *event, struct place *place)
{
    int64_t chain[LEVELS_MAX];
    size_t depth = 0;
    rs_buf_reset(&place->parent);
    place->is_backward = false;
    for (int64_t at = event[E_UP].i; at != NOWHERE;
         at = frame_row(&tree->events, (size_t)at)[E_UP].i) {
        if (depth == LEVELS_MAX)
            return false;
        place->is_backward =
            place->is_backward || frame_row(&tree->events, (size_t)at)[E_BACKWARD].i;
        chain[depth++] = at;
    }
    if (!depth)
        return false;
    place->module = frame_row(&tree->events, (size_t)chain[0]);
    for (size_t i = depth; i-- > 1;)
        rs_buf_printf(
            &place->parent, "%s%s", i + 1 < depth ? "/" : "",
            frame_text(&tree->events, frame_row(&tree->events, (size_t)chain[i])[E_NAME].t));
    return !place->parent.failed;
}

/* ---- reading ---- */

static enum rs_status read_modules(const struct inputs *in, struct frame *modules,
                                   struct rs_err *err)
{
    const struct frame_query query = {
        .sql = "SELECT coalesce(n.value, ''), e.startNs, e.endNs FROM MSTX_EVENTS e "
               "LEFT JOIN STRING_IDS n ON n.id = e.message "
               "LEFT JOIN STRING_IDS d ON d.id = e.domainId "
               "WHERE e.eventType = 2 AND d.value = 'Module' ORDER BY e.startNs"};
    enum rs_status status = db_requires(
        in->profiler,
        "MSTX_EVENTS.domainId MSTX_EVENTS.message MSTX_EVENTS.startNs STRING_IDS.value", err);
    if (status == RS_OK)
        status = frame_load(modules, in->profiler, &query, err);
    if (status == RS_OK && !modules->count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no ranges of the domain Module",
                            rs_ascend_db_path(in->profiler));
    return status;
}

#define SHAPE(column) "(SELECT trim(value, char(34, 39)) FROM STRING_IDS WHERE id = c." column ")"

enum rs_status modules_kernels(const struct inputs *in, bool with_shapes, struct frame *kernels,
                               struct rs_err *err)
{
    static const char *const tables[] = {"COMPUTE_TASK_INFO", "COMMUNICATION_OP",
                                         "COMMUNICATION_SCHEDULE_TASK_INFO"};
    enum rs_status status =
        db_requires(in->profiler,
                    "PYTORCH_API.connectionId PYTORCH_API.name CONNECTION_IDS.id "
                    "CONNECTION_IDS.connectionId",
                    err);
    if (status == RS_OK && with_shapes)
        status = db_requires(in->profiler,
                             "COMPUTE_TASK_INFO.inputDataTypes COMPUTE_TASK_INFO.inputShapes "
                             "COMPUTE_TASK_INFO.outputShapes",
                             err);
    for (size_t i = 0; i < 3 && status == RS_OK; i++) {
        char sql[1400];
        const bool is_op = i == 1;
        const struct frame_query query = {.sql = sql};
        if (!rs_ascend_db_has_table(in->profiler, tables[i]))
            continue;
        (void)snprintf(sql, sizeof sql,
                       "SELECT coalesce(n.value, ''), t.startNs, t.endNs, o.value, "
                       "CAST(p.startNs AS INTEGER), CAST(p.endNs AS INTEGER), %s, NULL FROM %s %s "
                       "JOIN CONNECTION_IDS k ON k.connectionId = t.connectionId "
                       "JOIN PYTORCH_API p ON p.connectionId = k.id "
                       "JOIN STRING_IDS o ON o.id = p.name "
                       "ORDER BY CAST(p.startNs AS INTEGER), t.startNs",
                       with_shapes && i == 0
                           ? "c.globalTaskId, " SHAPE("inputDataTypes") ", " SHAPE(
                                 "inputShapes") ", " SHAPE("outputShapes")
                           : "NULL, NULL, NULL, NULL",
                       is_op ? "COMMUNICATION_OP t" : tables[i],
                       is_op ? "JOIN STRING_IDS n ON n.id = t.opType"
                             : "c JOIN TASK t ON t.globalTaskId = c.globalTaskId "
                               "LEFT JOIN STRING_IDS n ON n.id = c.name");
        status = frame_load(kernels, in->profiler, &query, err);
    }
    if (status == RS_OK && !kernels->count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no kernels with framework calls",
                            rs_ascend_db_path(in->profiler));
    return status;
}

static enum rs_status read_flows(const struct inputs *in, struct frame *flows, struct rs_err *err)
{
    const struct frame_query query = {
        .sql = "SELECT fn.value, CAST(f.startNs AS INTEGER), CAST(f.endNs AS INTEGER), "
               "CAST(b.startNs AS INTEGER), CAST(b.endNs AS INTEGER), -1 FROM "
               "(SELECT connectionId, min(id) lo, max(id) hi FROM CONNECTION_IDS "
               "GROUP BY connectionId HAVING count(*) > 1) c "
               "JOIN PYTORCH_API f ON f.connectionId = c.lo JOIN STRING_IDS fn ON fn.id = f.name "
               "LEFT JOIN PYTORCH_API b ON b.connectionId = c.hi "
               "WHERE fn.value NOT LIKE 'Enqueue%' AND fn.value NOT LIKE 'Dequeue%' "
               "ORDER BY c.connectionId"};
    enum rs_status status = frame_load(flows, in->profiler, &query, err);
    for (size_t i = 0; i < flows->count && status == RS_OK; i++)
        for (size_t c = F_BWD_START; c <= F_BWD_END; c++)
            if (flows->cells[i * flows->columns + c].i == RS_NULL)
                flows->cells[i * flows->columns + c].i = 0;
    return status;
}

static enum rs_status add_modules(struct tree *tree, const struct frame *modules)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < modules->count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(modules, i);
        status = add_event(&tree->events, frame_text(modules, row[0].t), row[1].i, row[2].i, false,
                           false);
    }
    return status;
}

/* ---- backward ---- */

/* Backward ranges of the forward modules, as rows (name, start, end) of `ranges`. */
struct run_of_calls {
    int64_t module; /* event */
    int64_t start, end;
};

static int by_backward(const void *a, const void *b, void *data)
{
    const struct frame *flows = data;
    const uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    const int64_t x = frame_row(flows, p)[F_BWD_START].i, y = frame_row(flows, q)[F_BWD_START].i;
    return x != y ? (x < y ? -1 : 1) : (p > q) - (p < q);
}

static enum rs_status add_range(struct tree *forward, struct frame *ranges, bool parents,
                                const struct run_of_calls *calls)
{
    struct place place = {0};
    enum rs_status status = RS_OK;
    union frame_cell *row;
    const union frame_cell *module = frame_row(&forward->events, (size_t)calls->module);
    /* a call right under the module, to ask for its place */
    const union frame_cell probe[] = {{0}, {0}, {0}, {0}, {0}, {.i = calls->module}};
    if (!find_place(forward, probe, &place))
        status = place.parent.failed ? RS_NOMEM : RS_END;
    else if (parents && place.parent.length == 0)
        status = RS_END;
    if (status == RS_OK) {
        row = frame_add(ranges);
        status = row ? frame_text_id(ranges,
                                     parents ? rs_buf_text(&place.parent)
                                             : frame_text(&forward->events, module[E_NAME].t),
                                     &row[0].t)
                     : RS_NOMEM;
        if (status == RS_OK) {
            row[1].i = calls->start - parents;
            row[2].i = calls->end + parents;
        }
    }
    rs_buf_fini(&place.parent);
    return status == RS_END ? RS_OK : status;
}

/* Runs of backward calls of one module, first as parents' ranges, then as the modules'. */
static enum rs_status make_ranges(struct tree *forward, struct frame *flows, const uint32_t *order,
                                  size_t count, struct frame *ranges)
{
    enum rs_status status = RS_OK;
    for (int pass = 0; pass < 2 && status == RS_OK; pass++)
        for (size_t at = 0, end = 0; at < count && status == RS_OK; at = end) {
            const union frame_cell *first = frame_row(flows, order[at]);
            struct run_of_calls calls = {first[F_MODULE].i, first[F_BWD_START].i,
                                         first[F_BWD_END].i};
            for (end = at + 1;
                 end < count && frame_row(flows, order[end])[F_MODULE].i == calls.module; end++) {
                const int64_t last = frame_row(flows, order[end])[F_BWD_END].i;
                calls.end = last > calls.end ? last : calls.end;
            }
            status = add_range(forward, ranges, pass == 0, &calls);
        }
    return status;
}

static enum rs_status add_backward(struct tree *tree, const struct frame *modules,
                                   struct frame *flows)
{
    struct tree forward = {0};
    struct frame ranges = {0};
    uint32_t *order = rs_mem_calloc(flows->count + 1, sizeof *order);
    size_t count = 0;
    enum rs_status status = order ? frame_init(&forward.events, EVENT_KINDS) : RS_NOMEM;
    if (status == RS_OK)
        status = frame_init(&ranges, "tii");
    if (status == RS_OK)
        status = add_modules(&forward, modules);
    for (size_t i = 0; i < flows->count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(flows, i);
        status = add_event(&forward.events, frame_text(flows, row[F_NAME].t), row[F_START].i,
                           row[F_END].i, true, false);
    }
    if (status == RS_OK)
        status = build(&forward);
    for (size_t i = 0; i < flows->count && status == RS_OK; i++) {
        union frame_cell *row = flows->cells + i * flows->columns;
        row[F_MODULE].i = frame_row(&forward.events, modules->count + i)[E_UP].i;
        if (row[F_MODULE].i != NOWHERE)
            order[count++] = (uint32_t)i;
    }
    if (status == RS_OK) {
        qsort_r(order, count, sizeof *order, by_backward, flows);
        status = make_ranges(&forward, flows, order, count, &ranges);
    }
    for (size_t i = 0; i < ranges.count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(&ranges, i);
        status = add_event(&tree->events, frame_text(&ranges, row[0].t), row[1].i, row[2].i, false,
                           true);
    }
    rs_mem_free(order);
    rs_mem_free(forward.order);
    frame_fini(&forward.events);
    frame_fini(&ranges);
    return status;
}

/* ---- calls ---- */

/* One event per call, with its kernels' names and time. */
static enum rs_status add_calls(struct tree *tree)
{
    const struct frame *kernels = tree->kernels;
    struct frame_order *order = &tree->kernel_order;
    struct rs_buf names = {0};
    enum rs_status status = frame_order(
        kernels, (char[]){KERNEL_OP_START + 1, KERNEL_OP_END + 1, KERNEL_OP + 1, 0}, order);
    for (size_t at = 0, end = 0; status == RS_OK && at < order->count; at = end) {
        const union frame_cell *row = frame_row(kernels, order->rows[at]);
        double time = 0;
        end = frame_group_end(kernels, order, at);
        rs_buf_reset(&names);
        for (size_t i = at; i < end; i++) {
            const union frame_cell *kernel = frame_row(kernels, order->rows[i]);
            rs_buf_printf(&names, "%s%s", i == at ? "" : ", ",
                          frame_text(kernels, kernel[KERNEL_NAME].t));
            time += (double)(kernel[KERNEL_END].i - kernel[KERNEL_START].i);
        }
        status = names.failed
                     ? RS_NOMEM
                     : add_event(&tree->events, frame_text(kernels, row[KERNEL_OP].t),
                                 row[KERNEL_OP_START].i, row[KERNEL_OP_END].i, true, false);
        if (status == RS_OK) {
            union frame_cell *event =
                tree->events.cells + (tree->events.count - 1) * tree->events.columns;
            event[E_TIME].r = time;
            event[E_FIRST].i = (int64_t)at;
            event[E_COUNT].i = (int64_t)(end - at);
            status = frame_text_id(&tree->events, rs_buf_text(&names), &event[E_KERNELS].t);
        }
    }
    rs_buf_fini(&names);
    return status;
}

static enum rs_status add_call(const struct tree *tree, const union frame_cell *event,
                               const struct place *place, struct frame *calls)
{
    char module[1200];
    union frame_cell *row = frame_add(calls);
    if (!row)
        return RS_NOMEM;
    (void)snprintf(module, sizeof module, "%s%s", place->is_backward ? "[Backward]" : "",
                   frame_text(&tree->events, place->module[E_NAME].t));
    row[C_START].i = place->module[E_START].i;
    row[C_END].i = place->module[E_END].i;
    row[C_OP_START].i = event[E_START].i;
    row[C_TIME].r = event[E_TIME].r;
    row[C_FIRST].i = event[E_FIRST].i;
    row[C_COUNT].i = event[E_COUNT].i;
    if (rs_strtab_add(&calls->texts, place->parent.length ? (const char *)place->parent.data : "",
                      place->parent.length, &row[C_PARENT].t) != RS_OK ||
        frame_text_id(calls, module, &row[C_MODULE].t) != RS_OK ||
        frame_text_of(calls, &tree->events, event[E_NAME].t, &row[C_OP].t) != RS_OK)
        return RS_NOMEM;
    return frame_text_of(calls, &tree->events, event[E_KERNELS].t, &row[C_KERNELS].t);
}

static enum rs_status list_calls(const struct tree *tree, struct frame *calls)
{
    struct place place = {0};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < tree->events.count && status == RS_OK; i++) {
        const union frame_cell *event = frame_row(&tree->events, tree->order[i]);
        if (!event[E_IS_CALL].i)
            continue;
        if (find_place(tree, event, &place))
            status = add_call(tree, event, &place, calls);
        else if (place.parent.failed)
            status = RS_NOMEM;
    }
    rs_buf_fini(&place.parent);
    return status;
}

/* Each call's place in its module, and the number of the module's sequence of calls. */
static enum rs_status number_calls(struct frame *calls)
{
    struct frame_order order;
    struct frame sequences;
    struct rs_buf text = {0};
    enum rs_status status = frame_init(&sequences, "t");
    if (status == RS_OK)
        status = frame_order(
            calls, (char[]){C_START + 1, C_PARENT + 1, C_MODULE + 1, C_END + 1, C_OP_START + 1, 0},
            &order);
    if (status != RS_OK) {
        frame_fini(&sequences);
        return status;
    }
    frame_order_by(&order, (char[]){C_START + 1, C_PARENT + 1, C_MODULE + 1, C_END + 1, 0});
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        rs_str id = RS_STR_NONE;
        end = frame_group_end(calls, &order, at);
        rs_buf_reset(&text);
        for (size_t i = at; i < end; i++)
            rs_buf_printf(&text, "%s%s", i == at ? "" : "/",
                          frame_text(calls, frame_row(calls, order.rows[i])[C_OP].t));
        status = text.failed ? RS_NOMEM : frame_text_id(&sequences, rs_buf_text(&text), &id);
        for (size_t i = at; i < end; i++) {
            union frame_cell *row = calls->cells + order.rows[i] * calls->columns;
            row[C_PLACE].i = (int64_t)(i - at);
            row[C_SEQUENCE].i = id;
        }
    }
    rs_buf_fini(&text);
    frame_order_fini(&order);
    frame_fini(&sequences);
    return status;
}

/* Of each kernel of a group of equal calls its mean share, "45.2%,30.1%"; nothing stands where none is known. The peer leaves
 * unknown places out, so that nobody could say whose the others are. */
static enum rs_status print_shares(const struct tree *tree, const struct frame *calls,
                                   const uint32_t *rows, size_t count, struct rs_buf *text)
{
    const bool compat = tree->want->compat;
    double *values = rs_mem_calloc(count, sizeof *values);
    bool is_any = false;
    if (!values)
        return RS_NOMEM;
    for (int64_t k = 0; k < frame_row(calls, rows[0])[C_COUNT].i; k++) {
        char number[40];
        size_t known = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t at = (size_t)(frame_row(calls, rows[i])[C_FIRST].i + k);
            const double share =
                frame_row(tree->kernels, tree->kernel_order.rows[at])[KERNEL_SHARE].r;
            if (share > 0)
                values[known++] = share;
        }
        if (compat ? is_any && known : k > 0)
            rs_buf_u8(text, ',');
        if (!known)
            continue;
        is_any = true;
        stats_print(stats_round(stats_pairwise_sum(values, known) / (double)known * 100, 2), number,
                    sizeof number);
        rs_buf_printf(text, "%s%%", number);
    }
    if (!is_any)
        rs_buf_reset(text);
    rs_mem_free(values);
    return text->failed ? RS_NOMEM : RS_OK;
}

/* `rows` are `count` equal calls. */
static enum rs_status add_group(const struct tree *tree, const struct frame *calls,
                                const uint32_t *rows, size_t count, struct frame *groups)
{
    const union frame_cell *first = frame_row(calls, rows[0]);
    struct stats_sum total = {0, 0};
    struct rs_buf text = {0};
    union frame_cell *row = frame_add(groups);
    enum rs_status status = row ? RS_OK : RS_NOMEM;
    if (status != RS_OK)
        return status;
    row[G_START].i = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const union frame_cell *call = frame_row(calls, rows[i]);
        stats_add(&total, call[C_TIME].r);
        row[G_START].i = call[C_OP_START].i < row[G_START].i ? call[C_OP_START].i : row[G_START].i;
    }
    row[G_PLACE].i = first[C_PLACE].i;
    row[G_SEQUENCE].i = first[C_SEQUENCE].i;
    row[G_TOTAL].r = total.sum;
    row[G_COUNT].i = (int64_t)count;
    row[G_SHARES].t = RS_STR_NONE;
    if (frame_text_of(groups, calls, first[C_PARENT].t, &row[G_PARENT].t) != RS_OK ||
        frame_text_of(groups, calls, first[C_MODULE].t, &row[G_MODULE].t) != RS_OK ||
        frame_text_of(groups, calls, first[C_OP].t, &row[G_OP].t) != RS_OK ||
        frame_text_of(groups, calls, first[C_KERNELS].t, &row[G_KERNELS].t) != RS_OK)
        return RS_NOMEM;
    if (tree->want->has_shares) {
        status = print_shares(tree, calls, rows, count, &text);
        if (status == RS_OK && (text.length || tree->want->compat))
            status = frame_text_id(groups, rs_buf_text(&text), &row[G_SHARES].t);
        rs_buf_fini(&text);
    }
    return status;
}

/* Equal calls of all repetitions, in the order of their first start. */
static enum rs_status group_calls(const struct tree *tree, const struct frame *calls,
                                  struct frame *groups)
{
    struct frame_order order;
    enum rs_status status = frame_order(calls,
                                        (char[]){C_PARENT + 1, C_MODULE + 1, C_OP + 1, C_PLACE + 1,
                                                 C_KERNELS + 1, C_SEQUENCE + 1, 0},
                                        &order);
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        end = frame_group_end(calls, &order, at);
        status = add_group(tree, calls, order.rows + at, end - at, groups);
    }
    frame_order_fini(&order);
    if (status == RS_OK)
        status = frame_order(groups, (char[]){G_START + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < order.count; i++)
        groups->cells[order.rows[i] * groups->columns + G_AT].i = (int64_t)i;
    frame_order_fini(&order);
    return RS_OK;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Order positions from..end stand one after another in time; gives modules of different sequences
 * different names. `numbers` has room. */
static enum rs_status tell_apart(struct frame *groups, const struct frame_order *order, size_t from,
                                 size_t end, int64_t *numbers)
{
    size_t count = 0;
    for (size_t i = from; i < end; i++)
        numbers[i - from] = frame_row(groups, order->rows[i])[G_SEQUENCE].i;
    qsort(numbers, end - from, sizeof *numbers, by_number);
    for (size_t i = 0; i < end - from; i++)
        if (i == 0 || numbers[i] != numbers[i - 1])
            numbers[count++] = numbers[i];
    for (size_t i = from; count > 1 && i < end; i++) {
        char name[1300];
        union frame_cell *row = groups->cells + order->rows[i] * groups->columns;
        size_t suffix = 0;
        while (numbers[suffix] != row[G_SEQUENCE].i)
            suffix++;
        (void)snprintf(name, sizeof name, "%s_%zu", frame_text(groups, row[G_MODULE].t), suffix);
        if (frame_text_id(groups, name, &row[G_MODULE].t) != RS_OK)
            return RS_NOMEM;
    }
    return RS_OK;
}

static enum rs_status separate(struct frame *groups)
{
    struct frame_order order;
    int64_t *numbers = rs_mem_calloc(groups->count + 1, sizeof *numbers);
    enum rs_status status =
        numbers ? frame_order(groups, (char[]){G_PARENT + 1, G_MODULE + 1, G_AT + 1, 0}, &order)
                : RS_NOMEM;
    if (status != RS_OK) {
        rs_mem_free(numbers);
        return status;
    }
    frame_order_by(&order, (char[]){G_PARENT + 1, G_MODULE + 1, 0});
    for (size_t at = 0, module_end = 0; at < order.count && status == RS_OK;) {
        size_t end = at + 1;
        if (at >= module_end)
            module_end = frame_group_end(groups, &order, at);
        while (end < module_end && frame_row(groups, order.rows[end])[G_AT].i ==
                                       frame_row(groups, order.rows[end - 1])[G_AT].i + 1)
            end++;
        status = tell_apart(groups, &order, at, end, numbers);
        at = end;
    }
    rs_mem_free(numbers);
    frame_order_fini(&order);
    return status;
}

static enum rs_status emit(const struct frame *groups, struct frame *part, int64_t rank)
{
    struct frame_order order;
    enum rs_status status = frame_order(groups, (char[]){G_START + 1, G_PLACE + 1, 0}, &order);
    for (size_t i = 0; status == RS_OK && i < order.count; i++) {
        const union frame_cell *group = frame_row(groups, order.rows[i]);
        union frame_cell *row = frame_add(part);
        if (!row) {
            status = RS_NOMEM;
            break;
        }
        row[MODULE_TOTAL].r = group[G_TOTAL].r;
        row[MODULE_MEAN].r = group[G_TOTAL].r / (double)group[G_COUNT].i;
        row[MODULE_COUNT].i = group[G_COUNT].i;
        row[MODULE_RANK].i = rank;
        if (frame_text_of(part, groups, group[G_PARENT].t, &row[MODULE_PARENT].t) != RS_OK ||
            frame_text_of(part, groups, group[G_MODULE].t, &row[MODULE_NAME].t) != RS_OK ||
            frame_text_of(part, groups, group[G_OP].t, &row[MODULE_OP].t) != RS_OK ||
            frame_text_of(part, groups, group[G_KERNELS].t, &row[MODULE_KERNELS].t) != RS_OK ||
            frame_text_of(part, groups, group[G_SHARES].t, &row[MODULE_SHARES].t) != RS_OK)
            status = RS_NOMEM;
    }
    frame_order_fini(&order);
    return status;
}

static enum rs_status summarise(const struct tree *tree, struct frame *part, int64_t rank)
{
    struct frame calls = {0}, groups = {0};
    enum rs_status status = frame_init(&calls, CALL_KINDS);
    if (status == RS_OK)
        status = frame_init(&groups, GROUP_KINDS);
    if (status == RS_OK)
        status = list_calls(tree, &calls);
    if (status == RS_OK)
        status = number_calls(&calls);
    if (status == RS_OK)
        status = group_calls(tree, &calls, &groups);
    if (status == RS_OK)
        status = separate(&groups);
    if (status == RS_OK)
        status = emit(&groups, part, rank);
    frame_fini(&calls);
    frame_fini(&groups);
    return status;
}

enum rs_status modules_sum(const struct inputs *in, const struct frame *kernels,
                           const struct modules_want *want, struct frame *part, struct rs_err *err)
{
    struct frame modules = {0}, flows = {0};
    struct tree tree = {.kernels = kernels, .want = want};
    enum rs_status status = RS_OK;
    if (frame_init(&modules, "tii") != RS_OK || frame_init(&flows, FLOW_KINDS) != RS_OK ||
        frame_init(&tree.events, EVENT_KINDS) != RS_OK)
        status = RS_NOMEM;
    if (status == RS_OK)
        status = read_modules(in, &modules, err);
    if (status == RS_OK && want->has_backward)
        status = read_flows(in, &flows, err);
    if (status == RS_OK)
        status = add_modules(&tree, &modules);
    if (status == RS_OK && flows.count)
        status = add_backward(&tree, &modules, &flows);
    if (status == RS_OK)
        status = add_calls(&tree);
    if (status == RS_OK)
        status = build(&tree);
    if (status == RS_OK)
        status = summarise(&tree, part, in->of->rank);
    frame_fini(&modules);
    frame_fini(&flows);
    frame_fini(&tree.events);
    frame_order_fini(&tree.kernel_order);
    rs_mem_free(tree.order);
    return status == RS_NOMEM ? rs_err_set(err, RS_NOMEM, "no memory for modules") : status;
}
