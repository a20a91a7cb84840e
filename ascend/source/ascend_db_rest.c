/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a database no figure of a step is made of, but a timeline shows.
 *
 *   MSTX_EVENTS   RANGE, MARK
 *   PYTORCH_API   CPU_OP, PYTHON (lossless, else data loaders only; counted as read in any case)
 *   GC_RECORD     OVERHEAD (lossless)
 *   all else      ascend_db_tables.c (lossless): what connects operators and their call chains, too
 */
#include "ascend/source/ascend_db_priv.h"
#include "common/base/json_out.h"

#include <string.h>
#include <strings.h>

enum { OP_TYPE = 50001 };

/* ---- what else a row says: members of its extra, in a lossless reading ---- */

static void put_member(struct db_reader *reader, struct sqlite3_stmt *rows,
                       const struct db_member *member, struct rs_json_out *json)
{
    const char *text = member->is_text ? db_string(reader, rows, member->column) : "";
    int64_t number;
    if (*text) {
        rs_json_out_key(json, member->key);
        rs_json_out_string(json, text);
    } else if (rs_ascend_column_int(rows, member->column, &number)) {
        rs_json_out_key(json, member->key);
        rs_json_out_int(json, number);
    }
}

enum rs_status db_put_members(struct db_reader *reader, struct sqlite3_stmt *rows,
                              const struct db_member *members, size_t count, size_t at)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    if (!reader->a.is_lossless)
        return RS_OK;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    for (size_t i = 0; i < count; i++)
        put_member(reader, rows, &members[i], &json);
    rs_json_out_end(&json);
    enum rs_status status = buf.failed ? RS_NOMEM : RS_OK;
    if (status == RS_OK && buf.length > 2) /* without its braces */
        status = rs_batch_extra(&reader->a.batch, at, (const char *)buf.data + 1, buf.length - 2);
    rs_buf_fini(&buf);
    return status;
}

/* ---- marks, operators ---- */

/* The framework marks each communication operation: {"streamId": "7", "opName": "HcclAllreduce", "groupName": ...}, in quotes or in
 * escaped ones. */
static bool is_of_communication(const char *message)
{
    return strstr(message, "streamId") && strstr(message, "opName") && strstr(message, "groupName");
}

static enum rs_status emit_mstx(struct db_reader *reader, struct sqlite3_stmt *rows,
                                struct rs_err *err)
{
    static const struct db_member members[] = {
        {4, false, "eventType"}, {5, false, "rangeId"},      {6, false, "category"},
        {7, true, "domain"},     {8, false, "endGlobalTid"}, {9, false, "connectionId"}};
    struct ascend *a = &reader->a;
    struct ascend_row row = {
        .kind = RS_KIND_RANGE, .correlation = -1, .external_id = -1, .bytes = -1};
    if (!db_times(reader, rows, &row.start, &row.end))
        return RS_OK;
    if (row.end == row.start)
        row.kind = RS_KIND_MARK;
    reader->comm_marks += is_of_communication(db_string(reader, rows, 2));
    const uint64_t global = (uint64_t)db_int(rows, 3, 0);
    enum rs_status status = ascend_text(a, db_string(reader, rows, 2), &row.name);
    if (status == RS_OK)
        status = ascend_text(a, "mstx", &row.category);
    if (status == RS_OK)
        status =
            ascend_host_lane(a, (int64_t)(global >> 32), (int64_t)(global & UINT32_MAX), &row.lane);
    size_t at;
    if (status != RS_OK)
        return db_status(reader, status, err);
    status = ascend_emit(a, &row, &at, err);
    return status == RS_OK ? db_status(reader,
                                       db_put_members(reader, rows, members,
                                                      sizeof members / sizeof members[0], at),
                                       err)
                           : status;
}

enum rs_status db_read_marks(struct db_reader *reader, struct rs_err *err)
{
    static const char *const columns[] = {"startNs",      "endNs",        "message",  "globalTid",
                                          "eventType",    "rangeId",      "category", "domainId",
                                          "endGlobalTid", "connectionId", NULL};
    const enum rs_status status = db_emit_table(reader, "MSTX_EVENTS", columns, emit_mstx, err);
    if (status != RS_OK || !reader->comm_marks || reader->op_count)
        return status;
    /* a rank that was profiled without a level: its marks say when, and not when the device did it */
    return db_status(reader,
                     rs_trace_info_drop(&reader->a.stream->info, &reader->a.stream->strings,
                                        "a mark of a communication operation, which the rank was "
                                        "profiled without (`rankscope recipe mstx2commop` makes "
                                        "operations of them, for analyse to read)",
                                        reader->comm_marks),
                     err);
}

static enum rs_status emit_operator(struct db_reader *reader, struct sqlite3_stmt *rows,
                                    struct rs_err *err)
{
    static const struct db_member members[] = {
        {5, false, "Sequence number"}, {6, false, "Fwd thread id"}, {7, true, "Input type"},
        {8, true, "Input Dims"},       {9, false, "connectionId"},  {10, false, "callchainId"}};
    struct ascend *a = &reader->a;
    struct ascend_row row = {
        .kind = RS_KIND_CPU_OP, .correlation = -1, .external_id = -1, .bytes = -1};
    const char *type = db_name(&reader->api_types, rows, 4);
    const bool is_operator =
        *type ? strcasecmp(type, "op") == 0 : db_int(rows, 4, OP_TYPE) == OP_TYPE;
    int64_t number;
    if (!db_times(reader, rows, &row.start, &row.end))
        return RS_OK;
    const char *name = db_string(reader, rows, 2);
    if (db_step_number(name, &number))
        return RS_OK; /* emitted as a step */
    if (!a->is_lossless && !rs_event_is_input(name, strlen(name)))
        return RS_OK;
    if (!is_operator)
        row.kind = strcasecmp(type, "trace") == 0 ? RS_KIND_PYTHON : RS_KIND_OTHER;
    const uint64_t global = (uint64_t)db_int(rows, 3, 0);
    enum rs_status status = ascend_text(a, name, &row.name);
    if (status == RS_OK)
        status = ascend_text(a, is_operator ? "cpu_op" : type, &row.category);
    if (status == RS_OK)
        status =
            ascend_host_lane(a, (int64_t)(global >> 32), (int64_t)(global & UINT32_MAX), &row.lane);
    size_t at;
    if (status != RS_OK)
        return db_status(reader, status, err);
    status = ascend_emit(a, &row, &at, err);
    return status == RS_OK ? db_status(reader,
                                       db_put_members(reader, rows, members,
                                                      sizeof members / sizeof members[0], at),
                                       err)
                           : status;
}

/* Operators count as read whether they are emitted or not, so that a rank's figures are the same either way. */
enum rs_status db_read_operators(struct db_reader *reader, struct rs_err *err)
{
    static const char *const columns[] = {"startNs",      "endNs",       "name",
                                          "globalTid",    "type",        "sequenceNumber",
                                          "fwdThreadId",  "inputDtypes", "inputShapes",
                                          "connectionId", "callchainId", NULL};
    static const char inputs[] = /* a coarse sieve; emit_operator() looks closer */
        " WHERE t.name IN (SELECT id FROM STRING_IDS WHERE value LIKE '%data%loader%')";
    struct rs_trace_info *info = &reader->a.stream->info;
    struct sqlite3_stmt *rows = NULL;
    if (!rs_ascend_db_has_table(reader->db, "PYTORCH_API"))
        return RS_OK;
    enum rs_status status =
        rs_ascend_db_prepare(reader->db, "SELECT count(*) FROM PYTORCH_API", &rows, err);
    if (status == RS_OK)
        status = rs_ascend_db_step(reader->db, rows, err);
    if (status == RS_OK) {
        info->rows_read += db_int(rows, 0, 0);
        info->events_read += db_int(rows, 0, 0);
    }
    rs_ascend_db_finish(&rows);
    if (status != RS_OK ||
        (!reader->a.is_lossless && !rs_ascend_db_has_table(reader->db, "STRING_IDS")))
        return status;
    const int64_t bad = reader->a.rows_bad;
    reader->a.is_counted = true;
    status = db_emit_rows(reader, "PYTORCH_API", columns, reader->a.is_lossless ? "" : inputs,
                          emit_operator, err);
    reader->a.is_counted = false;
    reader->a.rows_bad = bad;
    return status;
}

/* ---- collections of garbage, and all other tables: for the timeline only ---- */

static enum rs_status emit_gc(struct db_reader *reader, struct sqlite3_stmt *rows,
                              struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row row = {.kind = RS_KIND_OVERHEAD,
                             .category = RS_STR_NONE,
                             .correlation = -1,
                             .external_id = -1,
                             .bytes = -1};
    if (!db_times(reader, rows, &row.start, &row.end))
        return RS_OK;
    const uint64_t global = (uint64_t)db_int(rows, 2, 0);
    enum rs_status status = ascend_text(a, "GC", &row.name);
    if (status == RS_OK)
        status =
            ascend_host_lane(a, (int64_t)(global >> 32), (int64_t)(global & UINT32_MAX), &row.lane);
    size_t at;
    return status == RS_OK ? ascend_emit(a, &row, &at, err) : db_status(reader, status, err);
}

/* Rows that no figure is made of: they are not counted as read, and only a lossless reading has them. */
enum rs_status db_read_rest(struct db_reader *reader, struct rs_err *err)
{
    static const char *const gc[] = {"startNs", "endNs", "globalTid", NULL};
    const int64_t bad = reader->a.rows_bad;
    if (!reader->a.is_lossless)
        return RS_OK;
    reader->a.is_counted = true;
    enum rs_status status = db_emit_table(reader, "GC_RECORD", gc, emit_gc, err);
    if (status == RS_OK)
        status = db_read_tables(reader, err);
    reader->a.is_counted = false;
    reader->a.rows_bad = bad;
    return status;
}
