/* SPDX-License-Identifier: Apache-2.0 */
/*
 * analysis.db: the four official tables (columns, order and units as real files have them, rank_id
 * appended) and two of ours.
 *
 * Written in one transaction into a temporary file that is renamed when it is whole, so it needs no
 * journal. Numbers are handed over as the exact decimal text rounded once to the nearest double, or as
 * integers; unknown is NULL. Collective has one row per operation, since rows per rank are in
 * CommAnalyzerTime already; RankManifest holds what differs between two ways of reading the same data
 * (paths, sources), so comparisons leave it out.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char schema[] =
    "CREATE TABLE StepTraceTime (deviceId INTEGER, step TEXT, computing NUMERIC, "
    "communication_not_overlapped NUMERIC, overlapped NUMERIC, communication NUMERIC, free NUMERIC, "
    "stage NUMERIC, bubble NUMERIC, communication_not_overlapped_and_exclude_receive NUMERIC, "
    "preparing NUMERIC, rank_id INTEGER);"
    "CREATE TABLE CommAnalyzerBandwidth (hccl_op_name TEXT, group_name TEXT, transport_type TEXT, "
    "transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, "
    "package_size NUMERIC, count NUMERIC, total_duration NUMERIC, step TEXT, type TEXT, "
    "rank_id INTEGER);"
    "CREATE TABLE CommAnalyzerMatrix (hccl_op_name TEXT, group_name TEXT, src_rank TEXT, "
    "dst_rank TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, "
    "bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT, rank_id INTEGER);"
    "CREATE TABLE CommAnalyzerTime (hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, "
    "elapse_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, "
    "idle_time NUMERIC, step TEXT, type TEXT, rank_id INTEGER);"
    "CREATE TABLE Collective (op_id INTEGER PRIMARY KEY, step INTEGER, group_name TEXT, op TEXT, "
    "seq INTEGER, is_matched INTEGER, bytes INTEGER, last_rank INTEGER, ranks_seen INTEGER, "
    "ranks_expected INTEGER, coverage TEXT, first_start_ns INTEGER, last_end_ns INTEGER, "
    "wait_ns INTEGER, transfer_ns INTEGER);"
    "CREATE TABLE RankManifest (rank_id INTEGER, path TEXT, state TEXT, reason TEXT, "
    "rank_source TEXT, step_origin TEXT, generation TEXT, host TEXT, events_read INTEGER, "
    "dropped INTEGER, input_bytes INTEGER, raw_bytes INTEGER);";

/* Statements by table, in the order of this enum. */
enum table { STEP_TRACE_TIME, BANDWIDTH, MATRIX, TIME, COLLECTIVE, RANK_MANIFEST, TABLE_COUNT };
static const struct {
    const char *name;
    int columns;
} tables[TABLE_COUNT] = {{"StepTraceTime", 12},      {"CommAnalyzerBandwidth", 13},
                         {"CommAnalyzerMatrix", 12}, {"CommAnalyzerTime", 11},
                         {"Collective", 15},         {"RankManifest", 12}};

struct database {
    const struct rs_analysis *analysis;
    sqlite3 *handle;
    sqlite3_stmt *inserts[TABLE_COUNT];
    const char *path;
    struct comm_packets packets;
    char step[UNIT_TEXT_BYTES]; /* of the operations being written */
    const char *type;           /* "p2p" or "collective" */
};

static enum rs_status failed(const struct database *db, struct rs_err *err)
{
    const int code = sqlite3_errcode(db->handle);
    return rs_err_set(err, code == SQLITE_NOMEM ? RS_NOMEM : RS_IO, "cannot write %s: %s", db->path,
                      sqlite3_errmsg(db->handle));
}

/* --- a row: bind from left to right, then step ------------------------------------------------ */

struct row {
    sqlite3_stmt *insert;
    int column;
    bool has_failed;
};

static struct row row_begin(const struct database *db, enum table table)
{
    return (struct row){.insert = db->inserts[table]};
}

static void put_int(struct row *row, int64_t value, bool is_known)
{
    row->column++;
    if (is_known && sqlite3_bind_int64(row->insert, row->column, value) != SQLITE_OK)
        row->has_failed = true;
}

/* `text` must live until row_end(). NULL is NULL. */
static void put_text(struct row *row, const char *text)
{
    row->column++;
    if (text && sqlite3_bind_text(row->insert, row->column, text, -1, SQLITE_STATIC) != SQLITE_OK)
        row->has_failed = true;
}

static void put_decimal(struct row *row, const char *digits, bool is_known)
{
    row->column++;
    if (is_known &&
        sqlite3_bind_double(row->insert, row->column, strtod(digits, NULL)) != SQLITE_OK)
        row->has_failed = true;
}

static void put_us(struct row *row, int64_t ns, bool is_known)
{
    char text[UNIT_TEXT_BYTES];
    unit_us(text, ns);
    put_decimal(row, text, is_known);
}

static void put_ms(struct row *row, rs_dur ns, bool is_known)
{
    char text[UNIT_TEXT_BYTES];
    unit_ms(text, ns);
    put_decimal(row, text, is_known);
}

static void put_mb(struct row *row, int64_t bytes)
{
    char text[UNIT_TEXT_BYTES];
    unit_mb(text, bytes);
    put_decimal(row, text, true);
}

static void put_rate(struct row *row, int64_t bytes, rs_dur time, bool has_time)
{
    char text[UNIT_TEXT_BYTES];
    unit_gb_per_s(text, bytes, time);
    put_decimal(row, text, has_time && time > 0);
}

static enum rs_status row_end(const struct database *db, struct row *row, struct rs_err *err)
{
    const bool is_done = !row->has_failed && sqlite3_step(row->insert) == SQLITE_DONE;
    const enum rs_status status = is_done ? RS_OK : failed(db, err);
    (void)sqlite3_reset(row->insert);
    (void)sqlite3_clear_bindings(row->insert);
    return status;
}

/* --- StepTraceTime ---------------------------------------------------------------------------- */

static enum rs_status put_step(const struct database *db, int32_t rank,
                               const struct rs_step_row *step, struct rs_err *err)
{
    char number[UNIT_TEXT_BYTES];
    (void)snprintf(number, sizeof number, "%" PRId64, step->step);
    struct row row = row_begin(db, STEP_TRACE_TIME);
    put_int(&row, step->device, true);
    put_text(&row, number);
    put_us(&row, step->computing, true);
    put_us(&row, step->communication_not_overlapped, true);
    put_us(&row, step->overlapped, true);
    put_us(&row, step->communication, true);
    put_us(&row, step->free, true);
    put_us(&row, step->stage, true);
    put_us(&row, step->bubble, true);
    put_us(&row, step->communication_not_overlapped_exclude_receive, true);
    put_us(&row, step->preparing, step->has_work);
    put_int(&row, rank, true);
    return row_end(db, &row, err);
}

static enum rs_status put_steps(struct database *db, struct rs_err *err)
{
    for (size_t i = 0; i < db->analysis->summary_count; i++) {
        const struct rs_summary *summary = db->analysis->summaries[i];
        for (size_t k = 0; k < summary->step_count; k++) {
            const enum rs_status status =
                put_step(db, summary->trace.rank, &summary->steps[k], err);
            if (status != RS_OK)
                return status;
        }
    }
    return RS_OK;
}

/* --- CommAnalyzerTime, CommAnalyzerBandwidth ------------------------------------------------- */

static enum rs_status put_packets(struct database *db, const struct comm_item *item,
                                  const char *name, const char *hash, struct rs_err *err)
{
    struct comm_packets *packets = &db->packets;
    packets->count = 0;
    if (comm_packets_add(db->analysis, item, packets) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for %s", db->path);
    comm_packets_compact(packets);
    enum rs_status status = RS_OK;
    for (size_t i = 0, end; i < packets->count && status == RS_OK; i = end) {
        int64_t bytes = 0;
        rs_dur time = 0;
        bool has_time = true;
        for (end = i; end < packets->count; end++) {
            const struct comm_packet *packet = &packets->items[end];
            if (strcmp(packet->transport, packets->items[i].transport) != 0)
                break;
            bytes = sum_of(bytes, product_of(packet->bytes, packet->count));
            time = sum_of(time, packet->time);
            has_time = has_time && packet->has_time;
        }
        for (size_t k = i; k < end && status == RS_OK; k++) {
            const struct comm_packet *packet = &packets->items[k];
            struct row row = row_begin(db, BANDWIDTH);
            put_text(&row, name);
            put_text(&row, hash);
            put_text(&row, packet->transport);
            put_mb(&row, bytes);
            put_ms(&row, time, has_time);
            put_rate(&row, bytes, time, has_time);
            put_int(&row, 0, true);
            put_mb(&row, packet->bytes);
            put_int(&row, packet->count, true);
            put_ms(&row, packet->time, packet->has_time);
            put_text(&row, db->step);
            put_text(&row, db->type);
            put_int(&row, item->rank, true);
            status = row_end(db, &row, err);
        }
    }
    return status;
}

static enum rs_status put_item(void *self, const struct comm_item *item, const char *hash,
                               struct rs_err *err)
{
    struct database *db = self;
    char name[COMM_NAME_BYTES];
    comm_item_name(db->analysis, item, hash, name);
    const struct comm_times times = comm_times_of(db->analysis, item);
    struct row row = row_begin(db, TIME);
    put_text(&row, name);
    put_text(&row, hash);
    put_us(&row, times.start, true);
    put_ms(&row, times.elapse, true);
    put_ms(&row, times.transit, times.has_transit);
    put_ms(&row, times.wait, times.has_wait);
    put_ms(&row, times.wait, times.has_wait);
    put_ms(&row, 0, true);
    put_text(&row, db->step);
    put_text(&row, db->type);
    put_int(&row, item->rank, true);
    const enum rs_status status = row_end(db, &row, err);
    return status == RS_OK ? put_packets(db, item, name, hash, err) : status;
}

/* --- CommAnalyzerMatrix ----------------------------------------------------------------------- */

static enum rs_status put_link(void *self, const struct matrix_row *link, struct rs_err *err)
{
    struct database *db = self;
    char selection[64], src[16], dst[16], name[COMM_NAME_BYTES] = "";
    (void)snprintf(selection, sizeof selection, "%s-%s", link->type, link->selection);
    (void)snprintf(src, sizeof src, "%" PRId32, link->entry->src);
    (void)snprintf(dst, sizeof dst, "%" PRId32, link->entry->dst);
    if (link->has_name)
        comm_item_name(db->analysis, &link->entry->item, link->hash, name);
    struct row row = row_begin(db, MATRIX);
    put_text(&row, selection);
    put_text(&row, link->hash);
    put_text(&row, src);
    put_text(&row, dst);
    put_text(&row, link->entry->transport);
    put_mb(&row, link->entry->bytes);
    put_ms(&row, link->entry->time, link->entry->has_time);
    put_rate(&row, link->entry->bytes, link->entry->time, link->entry->has_time);
    put_text(&row, db->step);
    put_text(&row, db->type);
    put_text(&row, name);
    put_int(&row, link->entry->src, true);
    return row_end(db, &row, err);
}

static enum rs_status put_communication(struct database *db, struct rs_err *err)
{
    const struct rs_analysis *analysis = db->analysis;
    enum rs_status status = RS_OK;
    for (size_t i = 0, end; i < analysis->op_count && status == RS_OK; i = end) {
        end = comm_step_end(analysis, i);
        comm_step_text(db->step, analysis->ops[i].step);
        for (int p2p = 1; p2p >= 0 && status == RS_OK; p2p--) {
            db->type = p2p ? "p2p" : "collective";
            status = comm_walk(analysis, (struct comm_span){i, end, p2p}, put_item, db, err);
            if (status == RS_OK)
                status = matrix_walk(analysis, (struct comm_span){i, end, p2p}, put_link, db, err);
        }
    }
    return status;
}

/* --- Collective, RankManifest ------------------------------------------------------------------ */

/* What the rows of one operation say together. */
struct sums {
    int64_t bytes;
    rs_ns first_start, last_end;
    rs_dur wait, transfer;
    bool has_transfer;
};

static struct sums sums_of(const struct rs_analysis *analysis, const struct rs_job_op *op)
{
    struct sums sums = {
        .bytes = -1, .first_start = RS_NS_MAX, .last_end = RS_NS_MIN, .has_transfer = op->has_wait};
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &analysis->rows[r];
        const struct rs_comm_op *own = comm_op_of(analysis, row);
        sums.bytes = own->bytes > sums.bytes ? own->bytes : sums.bytes;
        sums.first_start = own->start < sums.first_start ? own->start : sums.first_start;
        sums.last_end = own->end > sums.last_end ? own->end : sums.last_end;
        sums.wait = sum_of(sums.wait, row->wait);
        sums.transfer = sum_of(sums.transfer, row->transfer);
        sums.has_transfer = sums.has_transfer && row->has_transfer;
    }
    return sums;
}

static enum rs_status put_collectives(const struct database *db, struct rs_err *err)
{
    const struct rs_analysis *analysis = db->analysis;
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        const struct sums sums = sums_of(analysis, op);
        struct row row = row_begin(db, COLLECTIVE);
        put_int(&row, (int64_t)i, true);
        put_int(&row, op->step, op->step != RS_STEP_NONE);
        put_text(&row, comm_group_text(analysis, op));
        put_text(&row, rs_op_type_text((enum rs_op_type)op->type));
        put_int(&row, op->seq, op->seq >= 0);
        put_int(&row, op->is_matched, true);
        put_int(&row, sums.bytes, sums.bytes >= 0);
        put_int(&row, op->last_rank, op->last_rank >= 0);
        put_int(&row, (int64_t)op->row_count, true);
        put_int(&row, op->ranks_expected, op->ranks_expected >= 0);
        put_text(&row, op->coverage == RS_COVERAGE_EXACT ? "exact" : "partial");
        put_int(&row, sums.first_start, op->row_count > 0);
        put_int(&row, sums.last_end, op->row_count > 0);
        put_int(&row, sums.wait, op->has_wait);
        put_int(&row, sums.transfer, sums.has_transfer);
        const enum rs_status status = row_end(db, &row, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status put_files(const struct database *db, const struct rs_output_input *input,
                                struct rs_err *err)
{
    for (size_t i = 0; i < input->file_count; i++) {
        const struct rs_output_file *file = &input->files[i];
        const bool is_read = file->state == RS_OUTPUT_WHOLE || file->state == RS_OUTPUT_PARTIAL;
        int64_t dropped = 0;
        for (size_t k = 0; k < file->drop_count; k++)
            dropped = sum_of(dropped, file->drops[k].count);
        struct row row = row_begin(db, RANK_MANIFEST);
        put_int(&row, file->rank, file->rank >= 0);
        put_text(&row, file->path);
        put_text(&row, rs_output_state_text(file->state));
        put_text(&row, file->reason);
        put_text(&row, is_read ? rs_rank_source_text(file->rank_source) : NULL);
        put_text(&row, is_read ? rs_step_origin_text(file->step_origin) : NULL);
        put_text(&row, file->generation);
        put_text(&row, file->host);
        put_int(&row, file->events_read, is_read);
        put_int(&row, dropped, is_read);
        put_int(&row, file->input_bytes, is_read);
        put_int(&row, file->raw_bytes, is_read);
        const enum rs_status status = row_end(db, &row, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

/* --- life ------------------------------------------------------------------------------------- */

static enum rs_status prepare(struct database *db, struct rs_err *err)
{
    static const char marks[] = "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?";
    if (sqlite3_exec(db->handle,
                     "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
                     "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-8192; BEGIN",
                     NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(db->handle, schema, NULL, NULL, NULL) != SQLITE_OK)
        return failed(db, err);
    for (int i = 0; i < TABLE_COUNT; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "INSERT INTO %s VALUES (%.*s)", tables[i].name,
                       2 * tables[i].columns - 1, marks);
        if (sqlite3_prepare_v2(db->handle, text, -1, &db->inserts[i], NULL) != SQLITE_OK)
            return failed(db, err);
    }
    return RS_OK;
}

static enum rs_status fill(struct database *db, const struct rs_output_input *input,
                           struct rs_err *err)
{
    enum rs_status status = prepare(db, err);
    if (status == RS_OK)
        status = put_steps(db, err);
    if (status == RS_OK)
        status = put_communication(db, err);
    if (status == RS_OK)
        status = put_collectives(db, err);
    if (status == RS_OK)
        status = put_files(db, input, err);
    if (status == RS_OK && sqlite3_exec(db->handle, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        status = failed(db, err);
    return status;
}

static enum rs_status write_file(struct database *db, const struct rs_output_input *input,
                                 const char *temporary, struct rs_err *err)
{
    (void)unlink(temporary);
    enum rs_status status = RS_OK;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(temporary, &db->handle, flags, NULL) != SQLITE_OK)
        status =
            db->handle ? failed(db, err) : rs_err_set(err, RS_NOMEM, "no memory for %s", db->path);
    if (status == RS_OK)
        status = fill(db, input, err);
    for (int i = 0; i < TABLE_COUNT; i++)
        (void)sqlite3_finalize(db->inserts[i]);
    if (sqlite3_close(db->handle) != SQLITE_OK && status == RS_OK)
        status = rs_err_set(err, RS_IO, "cannot close %s", db->path);
    comm_packets_fini(&db->packets);
    return status;
}

enum rs_status database_write(const struct rs_output_input *input, const char *dir,
                              struct rs_err *err)
{
    char *path = NULL, *temporary = NULL;
    enum rs_status status = sheet_names(dir, "analysis.db", &path, &temporary, err);
    if (status != RS_OK)
        return status;
    struct database db = {.analysis = input->analysis, .path = path};
    status = write_file(&db, input, temporary, err);
    if (status == RS_OK && rename(temporary, path) != 0)
        status = rs_err_errno(err, "cannot rename to %s", path);
    if (status != RS_OK)
        (void)unlink(temporary);
    rs_mem_free(path);
    rs_mem_free(temporary);
    return status;
}
