/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which send belongs to which receive: by equal order on both sides.
 *
 * The notify tasks of an operation name both ends within the group; the k-th send from a to b
 * and the k-th receive at b from a are one transfer. A name is hcom_send__D_D_D or hcom_receive (or
 * recv); an operation whose tasks disagree about the ends is left out.
 */
#include "ascend/recipe/recipe_priv.h"

#include <string.h>

/* The number counts per communicator; the peer lets those with the same local ranks share it. */
#define PAIR_SQL(join, condition)                                                                  \
    "SELECT name, communicator, start, op, is_receive, iif(is_receive, d, s) AS src, "             \
    "iif(is_receive, s, d) AS dst, row_number() OVER (PARTITION BY iif(:compat, '', "              \
    "communicator), iif(is_receive, d, s), iif(is_receive, s, d) ORDER BY start, op) - 1, :rank "  \
    "FROM (SELECT n.value AS name, g.value AS communicator, c.startNs AS start, c.opId AS op, "    \
    "is_receive(n.value) AS is_receive, min(t.srcRank) AS s, min(t.dstRank) AS d, "                \
    "max(t.srcRank) AS s2, max(t.dstRank) AS d2 FROM COMMUNICATION_TASK_INFO t "                   \
    "JOIN COMMUNICATION_OP c ON c.opId = t.opId AND c.groupName = t.groupName "                    \
    "JOIN STRING_IDS n ON n.id = c.opName JOIN STRING_IDS g ON g.id = c.groupName "                \
    "JOIN STRING_IDS y ON y.id = t.taskType " join                                                 \
    "WHERE y.value IN ('Notify_Record', 'Notify_Wait') AND lower(n.value) LIKE 'hcom_%' "          \
    "AND " condition " GROUP BY c.opId) WHERE is_receive IS NOT NULL AND s = s2 AND d = d2 AND "   \
    "s BETWEEN 0 AND 4294967294 AND d BETWEEN 0 AND 4294967294 ORDER BY start, op"

static const char *sql_of(const struct inputs *in)
{
    if (!in_has(in, "CANN_API.connectionId COMMUNICATION_OP.connectionId"))
        return PAIR_SQL("", "c.startNs >= :from AND c.startNs <= :to");
    return in->run->options->compat
               ? PAIR_SQL("JOIN CANN_API a ON a.connectionId = c.connectionId ",
                          "a.startNs >= :from AND a.startNs <= :to")
               : PAIR_SQL("LEFT JOIN CANN_API a ON a.connectionId = c.connectionId ",
                          "coalesce(a.startNs, c.startNs) >= :from AND "
                          "coalesce(a.startNs, c.startNs) <= :to");
}

void pairs_load(struct inputs *in, struct frame *pairs)
{
    in_require(in, in->profiler,
               "COMMUNICATION_OP.opId COMMUNICATION_OP.opName COMMUNICATION_OP.groupName "
               "COMMUNICATION_TASK_INFO.opId COMMUNICATION_TASK_INFO.srcRank "
               "COMMUNICATION_TASK_INFO.dstRank COMMUNICATION_TASK_INFO.taskType "
               "COMMUNICATION_TASK_INFO.groupName STRING_IDS.value");
    in_load(in, pairs, in->profiler, sql_of(in));
    if (!pairs->count)
        in_fail(in, RS_NOTFOUND, "%s has no sends and receives with known ends",
                rs_ascend_db_path(in->profiler));
}

void pairs_load_if_any(struct inputs *in, struct frame *pairs)
{
    if (in->status != RS_OK)
        return;
    pairs_load(in, pairs);
    if (in->status == RS_NOTFOUND)
        in->status = RS_OK;
}

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

int pair_kind(const char *name)
{
    static const struct {
        const char *head;
        int is_receive;
    } heads[] = {{"hcom_send_", 0},    {"hcom_Send_", 0}, {"hcom_receive_", 1},
                 {"hcom_Receive_", 1}, {"hcom_recv_", 1}, {"hcom_Recv_", 1}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        const size_t length = strlen(heads[i].head);
        if (strncmp(name, heads[i].head, length) == 0 && is_numbered(name + length))
            return heads[i].is_receive;
    }
    return -1;
}
