/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which send belongs to which receive: by equal order on both sides.
 *
 * The notify tasks of an operation name both ends within the group; the k-th send from a to b
 * and the k-th receive at b from a are one transfer. A name is hcom_send__D_D_D or hcom_receive (or
 * recv); an operation whose tasks disagree about the ends is left out.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { NAME, GROUP, START, OP, SRC_MIN, SRC_MAX, DST_MIN, DST_MAX };
#define KINDS "ttiiiiii"

#define PAIR_SQL(join, condition)                                                                  \
    "SELECT n.value, g.value, c.startNs, c.opId, min(t.srcRank), max(t.srcRank), "                 \
    "min(t.dstRank), max(t.dstRank) FROM COMMUNICATION_TASK_INFO t "                               \
    "JOIN COMMUNICATION_OP c ON c.opId = t.opId AND c.groupName = t.groupName "                    \
    "JOIN STRING_IDS n ON n.id = c.opName JOIN STRING_IDS g ON g.id = c.groupName "                \
    "JOIN STRING_IDS y ON y.id = t.taskType " join                                                 \
    "WHERE y.value IN ('Notify_Record', 'Notify_Wait') AND lower(n.value) LIKE 'hcom_%' "          \
    "AND " condition " GROUP BY c.opId ORDER BY c.startNs, c.opId"

/* "_D_D_D" with nothing behind it. */
static bool is_numbered(const char *text)
{
    for (int i = 0; i < 3; i++) {
        if (*text++ != '_')
            return false;
        const size_t digits = strspn(text, "0123456789");
        if (!digits)
            return false;
        text += digits;
    }
    return !*text;
}

/* hcom_send_ / hcom_Send_ and the two spellings of receive. */
static bool is_pair_name(const char *name, bool *is_receive_p)
{
    static const struct {
        const char *head;
        bool is_receive;
    } heads[] = {{"hcom_send_", false},   {"hcom_Send_", false}, {"hcom_receive_", true},
                 {"hcom_Receive_", true}, {"hcom_recv_", true},  {"hcom_Recv_", true}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        const size_t length = strlen(heads[i].head);
        if (strncmp(name, heads[i].head, length) == 0 && is_numbered(name + length)) {
            *is_receive_p = heads[i].is_receive;
            return true;
        }
    }
    return false;
}

static enum rs_status add_op(struct pair_list *list, const struct frame *rows, size_t r)
{
    const union frame_cell *row = frame_row(rows, r);
    const char *name = frame_text(rows, row[NAME].t);
    bool is_receive = false;
    if (!is_pair_name(name, &is_receive) || row[SRC_MIN].i != row[SRC_MAX].i ||
        row[DST_MIN].i != row[DST_MAX].i || row[SRC_MIN].i < 0 || row[DST_MIN].i < 0 ||
        row[SRC_MIN].i >= INT64_C(0xFFFFFFFF) || row[DST_MIN].i >= INT64_C(0xFFFFFFFF))
        return RS_OK;
    if (rs_mem_grow((void **)&list->ops, &list->capacity, list->count + 1, sizeof *list->ops) !=
        RS_OK)
        return RS_NOMEM;
    struct pair_op op = {.op_row = row[OP].i,
                         .src = is_receive ? row[DST_MIN].i : row[SRC_MIN].i,
                         .dst = is_receive ? row[SRC_MIN].i : row[DST_MIN].i,
                         .start = row[START].i,
                         .is_receive = is_receive};
    const char *group = frame_text(rows, row[GROUP].t);
    if (rs_strtab_add(&list->texts, name, strlen(name), &op.name) != RS_OK ||
        rs_strtab_add(&list->texts, group, strlen(group), &op.group) != RS_OK)
        return RS_NOMEM;
    list->ops[list->count++] = op;
    return RS_OK;
}

struct counter {
    rs_str group;
    int64_t src, dst, next;
};

/* The running number of each (group, src, dst); in compat groups share their counters. */
static enum rs_status number_ops(struct pair_list *list, bool compat)
{
    struct counter *counters = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct pair_op *op = &list->ops[i];
        size_t k = 0;
        while (k < count && (counters[k].src != op->src || counters[k].dst != op->dst ||
                             (!compat && counters[k].group != op->group)))
            k++;
        if (k == count) {
            if (rs_mem_grow((void **)&counters, &capacity, count + 1, sizeof *counters) != RS_OK) {
                rs_mem_free(counters);
                return RS_NOMEM;
            }
            counters[count++] = (struct counter){op->group, op->src, op->dst, 0};
        }
        op->number = counters[k].next++;
    }
    rs_mem_free(counters);
    return RS_OK;
}

static const char *sql_of(const struct run *run, const struct inputs *in)
{
    const bool has_api = rs_ascend_db_has_column(in->profiler, "CANN_API", "connectionId") &&
                         rs_ascend_db_has_column(in->profiler, "COMMUNICATION_OP", "connectionId");
    if (!has_api)
        return PAIR_SQL("", "c.startNs >= ?1 AND c.startNs <= ?2");
    return run->options->compat
               ? PAIR_SQL("JOIN CANN_API a ON a.connectionId = c.connectionId ",
                          "a.startNs >= ?1 AND a.startNs <= ?2")
               : PAIR_SQL("LEFT JOIN CANN_API a ON a.connectionId = c.connectionId ",
                          "coalesce(a.startNs, c.startNs) >= ?1 AND "
                          "coalesce(a.startNs, c.startNs) <= ?2");
}

enum rs_status pair_list_read(const struct run *run, const struct inputs *in,
                              struct pair_list *list_p, struct rs_err *err)
{
    const int64_t params[] = {in->from, in->to};
    const struct frame_query query = {.sql = sql_of(run, in), .params = params, .param_count = 2};
    struct pair_list list = {0};
    struct frame rows;
    enum rs_status status =
        db_requires(in->profiler,
                    "COMMUNICATION_OP.opId COMMUNICATION_OP.opName COMMUNICATION_OP.groupName "
                    "COMMUNICATION_TASK_INFO.opId COMMUNICATION_TASK_INFO.srcRank "
                    "COMMUNICATION_TASK_INFO.dstRank COMMUNICATION_TASK_INFO.taskType "
                    "COMMUNICATION_TASK_INFO.groupName STRING_IDS.value",
                    err);
    if (status != RS_OK)
        return status;
    if (frame_init(&rows, KINDS) != RS_OK || rs_strtab_init(&list.texts, 0) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "no memory for sends and receives");
    if (status == RS_OK)
        status = frame_load(&rows, in->profiler, &query, err);
    for (size_t i = 0; i < rows.count && status == RS_OK; i++)
        status = add_op(&list, &rows, i);
    if (status == RS_OK)
        status = number_ops(&list, run->options->compat);
    frame_fini(&rows);
    if (status == RS_OK && !list.count)
        status = rs_err_set(err, RS_NOTFOUND, "%s has no sends and receives with known ends",
                            rs_ascend_db_path(in->profiler));
    if (status != RS_OK) {
        pair_list_fini(&list);
        return status;
    }
    *list_p = list;
    return RS_OK;
}

void pair_list_fini(struct pair_list *list)
{
    rs_strtab_fini(&list->texts);
    rs_mem_free(list->ops);
    *list = (struct pair_list){0};
}
