/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a database hold what the figures are made of? Asked before it is read, one question per table, so that a column
 * that was renamed, emptied or filled with something else makes the rank partial, with the column's name, and never a
 * zero that nobody can tell from a true one.
 *
 * Only columns that some figure is made of are asked for, and only in tables that are there: a table exists where the
 * profiler had rows for it.
 */
#include "ascend/source/ascend_db_priv.h"

#include <sqlite3.h>

#include <stdio.h>

enum need {
    NEED_NUMBER, /* a whole number; digits as text count */
    NEED_STRING, /* an id of STRING_IDS, or a text itself */
    NEED_TEXT,   /* text itself */
};

static const struct check {
    const char *table, *column;
    enum need need;
    bool may_lack; /* older files have no such column */
} checks[] = {
    {"STRING_IDS", "id", NEED_NUMBER, false},
    {"STRING_IDS", "value", NEED_TEXT, false},
    {"STEP_TIME", "id", NEED_NUMBER, false},
    {"STEP_TIME", "startNs", NEED_NUMBER, false},
    {"STEP_TIME", "endNs", NEED_NUMBER, false},
    {"SESSION_TIME_INFO", "startTimeNs", NEED_NUMBER, false},
    {"SESSION_TIME_INFO", "endTimeNs", NEED_NUMBER, false},
    {"TASK", "startNs", NEED_NUMBER, false},
    {"TASK", "endNs", NEED_NUMBER, false},
    {"TASK", "deviceId", NEED_NUMBER, true},
    {"TASK", "connectionId", NEED_NUMBER, false},
    {"TASK", "globalTaskId", NEED_NUMBER, false},
    {"TASK", "streamId", NEED_NUMBER, true},
    {"TASK", "taskType", NEED_STRING, false},
    {"COMPUTE_TASK_INFO", "globalTaskId", NEED_NUMBER, false},
    {"COMPUTE_TASK_INFO", "name", NEED_STRING, false},
    {"MEMCPY_INFO", "globalTaskId", NEED_NUMBER, false},
    {"MEMCPY_INFO", "size", NEED_NUMBER, false},
    {"COMMUNICATION_OP", "startNs", NEED_NUMBER, false},
    {"COMMUNICATION_OP", "endNs", NEED_NUMBER, false},
    {"COMMUNICATION_OP", "opName", NEED_STRING, false},
    {"COMMUNICATION_OP", "groupName", NEED_STRING, false},
    {"COMMUNICATION_OP", "connectionId", NEED_NUMBER, false},
    {"COMMUNICATION_OP", "opId", NEED_NUMBER, true},
    {"COMMUNICATION_OP", "dataType", NEED_NUMBER, true},
    {"COMMUNICATION_OP", "count", NEED_NUMBER, true},
    {"COMMUNICATION_OP", "deviceId", NEED_NUMBER, true},
    {"COMMUNICATION_OP", "rankSize", NEED_NUMBER, true},
    {"COMMUNICATION_TASK_INFO", "globalTaskId", NEED_NUMBER, false},
    {"COMMUNICATION_TASK_INFO", "opId", NEED_NUMBER, false},
    {"COMMUNICATION_TASK_INFO", "groupName", NEED_STRING, true},
    {"COMMUNICATION_TASK_INFO", "taskType", NEED_STRING, false},
    {"COMMUNICATION_TASK_INFO", "planeId", NEED_NUMBER, false},
    {"COMMUNICATION_TASK_INFO", "srcRank", NEED_NUMBER, false},
    {"COMMUNICATION_TASK_INFO", "dstRank", NEED_NUMBER, false},
    {"COMMUNICATION_TASK_INFO", "size", NEED_NUMBER, false},
    {"COMMUNICATION_TASK_INFO", "linkType", NEED_NUMBER, false},
    {"COMMUNICATION_TASK_INFO", "rdmaType", NEED_NUMBER, true},
    {"CANN_API", "startNs", NEED_NUMBER, false},
    {"CANN_API", "endNs", NEED_NUMBER, false},
    {"CANN_API", "type", NEED_NUMBER, false},
    {"CANN_API", "connectionId", NEED_NUMBER, false},
    {"CANN_API", "globalTid", NEED_NUMBER, true},
    {"CANN_API", "name", NEED_STRING, false},
    {"MSTX_EVENTS", "startNs", NEED_NUMBER, false},
    {"MSTX_EVENTS", "endNs", NEED_NUMBER, false},
    {"MSTX_EVENTS", "message", NEED_STRING, false},
    {"ENUM_API_TYPE", "id", NEED_NUMBER, false},
    {"ENUM_API_TYPE", "name", NEED_TEXT, false},
    {"ENUM_HCCL_DATA_TYPE", "id", NEED_NUMBER, false},
    {"ENUM_HCCL_DATA_TYPE", "name", NEED_TEXT, false},
    {"ENUM_HCCL_LINK_TYPE", "id", NEED_NUMBER, false},
    {"ENUM_HCCL_LINK_TYPE", "name", NEED_TEXT, false},
    {"RANK_DEVICE_MAP", "rankId", NEED_NUMBER, false},
    {"RANK_DEVICE_MAP", "deviceId", NEED_NUMBER, false},
    {"HOST_INFO", "hostUid", NEED_TEXT, false},
    {"HOST_INFO", "hostName", NEED_TEXT, false},
    {"META_DATA", "name", NEED_TEXT, false},
    {"META_DATA", "value", NEED_TEXT, false},
};

enum { CHECKS = sizeof checks / sizeof checks[0], TABLE_COLUMNS_MAX = 16 };

/* SQL that is 1 for a cell against the need. Ordinary cells are known by the first comparison. */
static void put_condition(struct rs_buf *sql, const struct check *check, bool has_strings)
{
    const char *c = check->column;
    if (check->need == NEED_TEXT || (check->need == NEED_STRING && !has_strings))
        rs_buf_printf(sql, ",total(typeof(\"%s\")<>'text')", c);
    else if (check->need == NEED_STRING)
        rs_buf_printf(sql,
                      ",total(\"%s\" IS NULL OR (\"%s\" NOT IN (SELECT id FROM STRING_IDS) AND"
                      " typeof(\"%s\")<>'text'))",
                      c, c, c);
    else
        rs_buf_printf(sql,
                      ",total(typeof(\"%s\")<>'integer' AND NOT (typeof(\"%s\")='real' AND"
                      " \"%s\"=CAST(\"%s\" AS INTEGER)) AND (typeof(\"%s\")<>'text' OR"
                      " \"%s\" GLOB '*[^0-9]*' OR \"%s\"=''))",
                      c, c, c, c, c, c, c);
}

static void put_flaw(struct ascend *a, const struct check *check, double bad, int64_t count)
{
    static const char *const wants[] = {"number", "known name", "text"};
    char sentence[160];
    (void)snprintf(sentence, sizeof sentence, "%s.%s: %.0f of %lld cells hold no %s", check->table,
                   check->column, bad, (long long)count, wants[check->need]);
    ascend_flaw(a, sentence);
}

/* The checks from `first` on that are of one table; returns how many. */
static size_t checks_of_table(size_t first)
{
    size_t count = 1;
    while (first + count < CHECKS && checks[first + count].table == checks[first].table)
        count++;
    return count;
}

static enum rs_status check_table(struct db_reader *reader, size_t first, size_t count,
                                  bool has_strings, struct rs_err *err)
{
    size_t asked[TABLE_COLUMNS_MAX], asked_count = 0;
    struct sqlite3_stmt *rows = NULL;
    struct rs_buf sql = {0};
    rs_buf_string(&sql, "SELECT count(*)");
    for (size_t i = first; i < first + count; i++) {
        char sentence[128];
        if (rs_ascend_db_has_column(reader->db, checks[i].table, checks[i].column)) {
            put_condition(&sql, &checks[i], has_strings);
            asked[asked_count++] = i;
        } else if (!checks[i].may_lack) {
            (void)snprintf(sentence, sizeof sentence, "%s has no column %s", checks[i].table,
                           checks[i].column);
            ascend_flaw(&reader->a, sentence);
        }
    }
    rs_buf_printf(&sql, " FROM %s", checks[first].table);
    enum rs_status status = db_prepare(reader, &sql, &rows, err);
    if (status == RS_OK)
        status = rs_ascend_db_step(reader->db, rows, err);
    for (size_t i = 0; i < asked_count && status == RS_OK; i++)
        if (sqlite3_column_double(rows, (int)i + 1) > 0)
            put_flaw(&reader->a, &checks[asked[i]], sqlite3_column_double(rows, (int)i + 1),
                     sqlite3_column_int64(rows, 0));
    rs_ascend_db_finish(&rows);
    return status;
}

/* The vendor's tools enter a text once (twice, for two layers): a table of equal texts names nothing. */
static enum rs_status check_strings(struct db_reader *reader, struct rs_err *err)
{
    struct sqlite3_stmt *rows = NULL;
    enum rs_status status = rs_ascend_db_prepare(
        reader->db, "SELECT count(*), count(DISTINCT value) FROM STRING_IDS", &rows, err);
    if (status == RS_OK)
        status = rs_ascend_db_step(reader->db, rows, err);
    if (status == RS_OK && sqlite3_column_int64(rows, 0) > 2 * sqlite3_column_int64(rows, 1) + 2)
        ascend_flaw(&reader->a, "STRING_IDS.value: most ids have the same text");
    rs_ascend_db_finish(&rows);
    return status;
}

enum rs_status db_check(struct db_reader *reader, struct rs_err *err)
{
    const size_t flaws = reader->a.flaws.length; /* of the documents, so far */
    const bool has_strings = rs_ascend_db_has_column(reader->db, "STRING_IDS", "id") &&
                             rs_ascend_db_has_column(reader->db, "STRING_IDS", "value");
    enum rs_status status = has_strings ? check_strings(reader, err) : RS_OK;
    for (size_t i = 0, count; i < CHECKS && status == RS_OK; i += count) {
        count = checks_of_table(i);
        if (rs_ascend_db_has_table(reader->db, checks[i].table))
            status = check_table(reader, i, count, has_strings, err);
    }
    reader->a.flaws_touch_steps = reader->a.flaws.length > flaws;
    return status;
}
