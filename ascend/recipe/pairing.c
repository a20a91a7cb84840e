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

/* clang-format off */
#define SENDER "iif(is_receive, d, s)"
#define RECEIVER "iif(is_receive, s, d)"
/* The number counts per communicator; the peer lets those with the same local ranks share it. */
const char pairs_sql[] =
    "SELECT name, communicator, start, op, is_receive, " SENDER ", " RECEIVER ", row_number() OVER (PARTITION BY "
    "iif(:compat, '', communicator), " SENDER ", " RECEIVER " ORDER BY start, op) - 1, :rank FROM (SELECT n.value "
    "AS name, g.value AS communicator, c.startNs AS start, c.opId AS op, is_receive(n.value) AS is_receive, "
    "min(t.srcRank) AS s, min(t.dstRank) AS d, max(t.srcRank) AS s2, max(t.dstRank) AS d2 FROM "
    "COMMUNICATION_TASK_INFO t JOIN COMMUNICATION_OP c ON c.opId = t.opId AND c.groupName = t.groupName JOIN "
    "STRING_IDS n ON n.id = c.opName JOIN STRING_IDS g ON g.id = c.groupName JOIN STRING_IDS y ON y.id = t.taskType "
    LEFT_JOIN_API("c") "WHERE y.value IN ('Notify_Record', 'Notify_Wait') AND lower(n.value) LIKE 'hcom_%' AND "
    IN_STEP(CALL_TIME) " GROUP BY c.opId) WHERE is_receive IS NOT NULL AND s = s2 AND d = d2 AND s BETWEEN 0 AND "
    "4294967294 AND d BETWEEN 0 AND 4294967294 ORDER BY start, op";
/* clang-format on */

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
