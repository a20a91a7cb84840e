/* SPDX-License-Identifier: Apache-2.0 */
/*
 * analysis.db: the four official tables (columns, order and units as real files have them) and, of a job, rank_id
 * appended to each and six tables of ours. Of one rank it is what its own profiler would have written.
 *
 * Numbers are handed over as the exact decimal text rounded once to the nearest double, or as integers;
 * unknown is NULL. Collective has one row per operation, since rows per rank are in CommAnalyzerTime
 * already; CollectiveBandwidth is what nccl-tests would say of it (bandwidth.c); LinkEstimate is what nobody recorded
 * (estimate.c); VendorStepTraceTime and VendorCommTime are what the vendor's own tool says of its ranks, as provenance:
 * nothing is computed from them; RankManifest holds what differs
 * between two ways of reading the same data (paths, sources), so comparisons leave it out.
 */
#include "aggregator/output/output_priv.h"
#include "aggregator/output/rows.h"
#include "common/base/buf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Official tables; RANK stands where a job's file has one more column. */
#define RANK "%s"
static const char official_schema[] =
    "CREATE TABLE StepTraceTime (deviceId INTEGER, step TEXT, computing NUMERIC, "
    "communication_not_overlapped NUMERIC, overlapped NUMERIC, communication NUMERIC, free NUMERIC, "
    "stage NUMERIC, bubble NUMERIC, communication_not_overlapped_and_exclude_receive NUMERIC, "
    "preparing NUMERIC" RANK ");"
    "CREATE TABLE CommAnalyzerBandwidth (hccl_op_name TEXT, group_name TEXT, transport_type TEXT, "
    "transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, "
    "package_size NUMERIC, count NUMERIC, total_duration NUMERIC, step TEXT, type TEXT" RANK ");"
    "CREATE TABLE CommAnalyzerMatrix (hccl_op_name TEXT, group_name TEXT, src_rank TEXT, "
    "dst_rank TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, "
    "bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT" RANK ");"
    "CREATE TABLE CommAnalyzerTime (hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, "
    "elapse_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, "
    "idle_time NUMERIC, step TEXT, type TEXT" RANK ");";
static const char own_schema[] =
    "CREATE TABLE Collective (op_id INTEGER PRIMARY KEY, step INTEGER, group_name TEXT, op TEXT, "
    "seq INTEGER, is_matched INTEGER, bytes INTEGER, last_rank INTEGER, ranks_seen INTEGER, "
    "ranks_expected INTEGER, coverage TEXT, first_start_ns INTEGER, last_end_ns INTEGER, "
    "wait_ns INTEGER, transfer_ns INTEGER);"
    "CREATE TABLE CollectiveBandwidth (op_id INTEGER PRIMARY KEY, step INTEGER, group_name TEXT, "
    "op TEXT, seq INTEGER, ranks INTEGER, bytes INTEGER, time_ns INTEGER, "
    "algorithm_bandwidth NUMERIC, bus_factor NUMERIC, bus_bandwidth NUMERIC, transport_type TEXT, "
    "coverage TEXT);"
    "CREATE TABLE LinkEstimate (group_name TEXT, op TEXT, src_rank INTEGER, dst_rank INTEGER, "
    "operations INTEGER, bytes INTEGER, time_ns INTEGER, bandwidth NUMERIC, estimated_by TEXT);"
    "CREATE TABLE VendorStepTraceTime (rank_id INTEGER, deviceId INTEGER, step TEXT, "
    "computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC, "
    "communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
    "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC);"
    "CREATE TABLE VendorCommTime (rank_id INTEGER, hccl_op_name TEXT, group_name TEXT, "
    "start_ns INTEGER, elapse_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC, "
    "synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT);"
    "CREATE TABLE RankManifest (rank_id INTEGER, path TEXT, state TEXT, reason TEXT, "
    "rank_source TEXT, step_origin TEXT, generation TEXT, host TEXT, events_read INTEGER, "
    "dropped INTEGER, input_bytes INTEGER, raw_bytes INTEGER, framework TEXT, "
    "framework_version TEXT, cann_version TEXT);";

enum table {
    STEP_TRACE_TIME,
    BANDWIDTH,
    MATRIX,
    TIME,
    OFFICIAL_COUNT,
    COLLECTIVE = OFFICIAL_COUNT,
    COLLECTIVE_BANDWIDTH,
    LINK_ESTIMATE,
    VENDOR_STEP,
    VENDOR_COMM,
    RANK_MANIFEST,
    TABLE_COUNT
};
static const struct rs_rows_table tables[TABLE_COUNT] = {
    {"StepTraceTime", 12},      {"CommAnalyzerBandwidth", 13},
    {"CommAnalyzerMatrix", 12}, {"CommAnalyzerTime", 11},
    {"Collective", 15},         {"CollectiveBandwidth", 13},
    {"LinkEstimate", 9},        {"VendorStepTraceTime", 12},
    {"VendorCommTime", 11},     {"RankManifest", 15}};

struct database {
    struct view view;
    const struct rs_analysis *analysis; /* the view's */
    struct rs_rows rows;
    struct comm_packets packets;
    char step[UNIT_TEXT_BYTES]; /* of the operations being written */
    const char *type;           /* "p2p" or "collective" */
};

/* The column that a rank's own file lacks. */
static void put_rank(const struct database *db, struct rs_row *row, int32_t rank)
{
    if (!db->view.is_rank)
        rs_row_int(row, rank, true);
}

static void put_us(struct rs_row *row, int64_t ns, bool is_known)
{
    char text[UNIT_TEXT_BYTES];
    unit_us(text, ns);
    rs_row_decimal(row, text, is_known);
}

static void put_ms(struct rs_row *row, rs_dur ns, bool is_known)
{
    char text[UNIT_TEXT_BYTES];
    unit_ms(text, ns);
    rs_row_decimal(row, text, is_known);
}

static void put_mb(struct rs_row *row, int64_t bytes)
{
    char text[UNIT_TEXT_BYTES];
    unit_mb(text, bytes);
    rs_row_decimal(row, text, true);
}

static void put_rate(struct rs_row *row, int64_t bytes, rs_dur time, bool has_time)
{
    char text[UNIT_TEXT_BYTES];
    unit_gb_per_s(text, bytes, time);
    rs_row_decimal(row, text, has_time && time > 0);
}

/* --- StepTraceTime ---------------------------------------------------------------------------- */

static enum rs_status put_step(const struct database *db, const struct rs_summary *rank_summary,
                               const struct rs_step_row *step, struct rs_err *err)
{
    char number[UNIT_TEXT_BYTES];
    (void)snprintf(number, sizeof number, "%" PRId64, step->step);
    struct rs_row row = rs_row_begin(&db->rows, STEP_TRACE_TIME);
    rs_row_int(&row, view_device(&db->view, step->device), true);
    rs_row_text(&row, view_has_steps(&db->view, rank_summary) ? number : NULL);
    put_us(&row, step->computing, true);
    put_us(&row, step->communication_not_overlapped, true);
    put_us(&row, step->overlapped, true);
    put_us(&row, step->communication, true);
    put_us(&row, step->free, true);
    put_us(&row, step->stage, true);
    put_us(&row, step->bubble, true);
    put_us(&row, step->communication_not_overlapped_exclude_receive, true);
    put_us(&row, step->preparing, step->has_work);
    put_rank(db, &row, rank_summary->trace.rank);
    return rs_row_end(&db->rows, &row, err);
}

static enum rs_status put_steps(struct database *db, struct rs_err *err)
{
    for (size_t i = 0; i < db->analysis->summary_count; i++) {
        const struct rs_summary *summary = db->analysis->summaries[i];
        for (size_t k = 0; view_has(&db->view, i) && k < summary->step_count; k++) {
            if (db->view.is_rank && !summary->steps[k].has_work)
                continue; /* the vendor writes no row of a step that launched nothing */
            const enum rs_status status = put_step(db, summary, &summary->steps[k], err);
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
        return rs_err_set(err, RS_NOMEM, "no memory for %s", db->rows.path);
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
            struct rs_row row = rs_row_begin(&db->rows, BANDWIDTH);
            rs_row_text(&row, name);
            rs_row_text(&row, hash);
            rs_row_text(&row, packet->transport);
            put_mb(&row, bytes);
            put_ms(&row, time, has_time);
            put_rate(&row, bytes, time, has_time);
            rs_row_int(&row, 0, true);
            put_mb(&row, packet->bytes);
            rs_row_int(&row, packet->count, true);
            put_ms(&row, packet->time, packet->has_time);
            rs_row_text(&row, db->step);
            rs_row_text(&row, db->type);
            put_rank(db, &row, item->rank);
            status = rs_row_end(&db->rows, &row, err);
        }
    }
    return status;
}

static enum rs_status put_item(void *self, const struct comm_item *item, const char *hash,
                               struct rs_err *err)
{
    struct database *db = self;
    char name[COMM_NAME_BYTES];
    if (!view_has(&db->view, db->analysis->rows[item->row].summary))
        return RS_OK;
    view_item_name(&db->view, item, hash, name);
    const struct comm_times times = comm_times_of(db->analysis, item);
    struct rs_row row = rs_row_begin(&db->rows, TIME);
    rs_row_text(&row, name);
    rs_row_text(&row, hash);
    put_us(&row, times.start, true);
    put_ms(&row, times.elapse, true);
    put_ms(&row, times.transit, times.has_transit);
    put_ms(&row, times.wait, times.has_wait);
    put_ms(&row, times.wait, times.has_wait);
    put_ms(&row, 0, true);
    rs_row_text(&row, db->step);
    rs_row_text(&row, db->type);
    put_rank(db, &row, item->rank);
    const enum rs_status status = rs_row_end(&db->rows, &row, err);
    return status == RS_OK ? put_packets(db, item, name, hash, err) : status;
}

/* --- CommAnalyzerMatrix ----------------------------------------------------------------------- */

static enum rs_status put_link(void *self, const struct matrix_row *link, struct rs_err *err)
{
    struct database *db = self;
    char selection[64], src[16], dst[16], name[COMM_NAME_BYTES] = "";
    if (!view_has_link(&db->view, link->entry))
        return RS_OK;
    (void)snprintf(selection, sizeof selection, "%s-%s", link->type, link->selection);
    (void)snprintf(src, sizeof src, "%" PRId32, view_end(&db->view, link->entry, link->entry->src));
    (void)snprintf(dst, sizeof dst, "%" PRId32, view_end(&db->view, link->entry, link->entry->dst));
    if (link->has_name)
        view_item_name(&db->view, &link->entry->item, link->hash, name);
    struct rs_row row = rs_row_begin(&db->rows, MATRIX);
    rs_row_text(&row, selection);
    rs_row_text(&row, link->hash);
    rs_row_text(&row, src);
    rs_row_text(&row, dst);
    rs_row_text(&row, link->entry->transport);
    put_mb(&row, link->entry->bytes);
    put_ms(&row, link->entry->time, link->entry->has_time);
    put_rate(&row, link->entry->bytes, link->entry->time, link->entry->has_time);
    rs_row_text(&row, db->step);
    rs_row_text(&row, db->type);
    rs_row_text(&row, name);
    put_rank(db, &row, link->entry->src);
    return rs_row_end(&db->rows, &row, err);
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
        struct rs_row row = rs_row_begin(&db->rows, COLLECTIVE);
        rs_row_int(&row, (int64_t)i, true);
        rs_row_int(&row, op->step, op->step != RS_STEP_NONE);
        rs_row_text(&row, comm_group_text(analysis, op));
        rs_row_text(&row, rs_op_type_text((enum rs_op_type)op->type));
        rs_row_int(&row, op->seq, op->seq >= 0);
        rs_row_int(&row, op->is_matched, true);
        rs_row_int(&row, sums.bytes, sums.bytes >= 0);
        rs_row_int(&row, op->last_rank, op->last_rank >= 0);
        rs_row_int(&row, (int64_t)op->row_count, true);
        rs_row_int(&row, op->ranks_expected, op->ranks_expected >= 0);
        rs_row_text(&row, op->coverage == RS_COVERAGE_EXACT ? "exact" : "partial");
        rs_row_int(&row, sums.first_start, op->row_count > 0);
        rs_row_int(&row, sums.last_end, op->row_count > 0);
        rs_row_int(&row, sums.wait, op->has_wait);
        rs_row_int(&row, sums.transfer, sums.has_transfer);
        const enum rs_status status = rs_row_end(&db->rows, &row, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status put_bandwidths(const struct database *db, struct rs_err *err)
{
    const struct rs_analysis *analysis = db->analysis;
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        const struct op_bandwidth band = op_bandwidth_of(analysis, op);
        char algorithm[UNIT_TEXT_BYTES], bus[UNIT_TEXT_BYTES], factor[UNIT_TEXT_BYTES];
        op_bandwidth_algorithm(algorithm, &band);
        op_bandwidth_bus(bus, &band);
        (void)snprintf(factor, sizeof factor, "%.17g",
                       band.factor_over ? (double)band.factor / (double)band.factor_over : 0);
        struct rs_row row = rs_row_begin(&db->rows, COLLECTIVE_BANDWIDTH);
        rs_row_int(&row, (int64_t)i, true);
        rs_row_int(&row, op->step, op->step != RS_STEP_NONE);
        rs_row_text(&row, comm_group_text(analysis, op));
        rs_row_text(&row, rs_op_type_text((enum rs_op_type)op->type));
        rs_row_int(&row, op->seq, op->seq >= 0);
        rs_row_int(&row, band.ranks, band.ranks > 0);
        rs_row_int(&row, band.bytes, band.bytes >= 0);
        rs_row_int(&row, band.time, band.time > 0);
        rs_row_decimal(&row, algorithm, band.bytes >= 0 && band.time > 0);
        rs_row_decimal(&row, factor, band.factor_over > 0);
        rs_row_decimal(&row, bus, op_bandwidth_has_bus(&band));
        rs_row_text(&row, band.transport);
        rs_row_text(&row, op->coverage == RS_COVERAGE_EXACT ? "exact" : "partial");
        const enum rs_status status = rs_row_end(&db->rows, &row, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status put_estimate(void *self, const struct link_estimate *link, struct rs_err *err)
{
    const struct database *db = self;
    struct rs_row row = rs_row_begin(&db->rows, LINK_ESTIMATE);
    rs_row_text(&row, link->group);
    rs_row_text(&row, rs_op_type_text((enum rs_op_type)link->type));
    rs_row_int(&row, link->src, true);
    rs_row_int(&row, link->dst, true);
    rs_row_int(&row, link->count, true);
    rs_row_int(&row, link->bytes, true);
    rs_row_int(&row, link->time, true);
    put_rate(&row, link->bytes, link->time, true);
    rs_row_text(&row, link->estimated_by);
    return rs_row_end(&db->rows, &row, err);
}

/* --- VendorStepTraceTime, VendorCommTime ------------------------------------------------------- */

/* ps of the vendor's unit, as a number of that unit. */
static void put_said(struct rs_row *row, int64_t ps, int64_t ps_per_unit)
{
    char text[64];
    const int digits = ps_per_unit == 1000000 ? 6 : 9;
    const int64_t size = ps < 0 ? -ps : ps; /* within RS_SAID_LIMIT */
    (void)snprintf(text, sizeof text, "%s%" PRId64 ".%0*" PRId64, ps < 0 ? "-" : "",
                   size / ps_per_unit, digits, size % ps_per_unit);
    rs_row_decimal(row, text, ps != RS_SAID_UNKNOWN);
}

static enum rs_status put_said_step(const struct database *db, const struct rs_summary *summary,
                                    const struct rs_said_step *step, struct rs_err *err)
{
    struct rs_row row = rs_row_begin(&db->rows, VENDOR_STEP);
    rs_row_int(&row, summary->trace.rank, summary->trace.rank >= 0);
    rs_row_int(&row, step->device, step->device >= 0);
    rs_row_text(&row, rs_strtab_text(&summary->strings, step->step));
    for (int i = 0; i < RS_SAID_STEP_FIELDS; i++)
        put_said(&row, step->ps[i], 1000000);
    return rs_row_end(&db->rows, &row, err);
}

static enum rs_status put_said_comm(const struct database *db, const struct rs_summary *summary,
                                    const struct rs_said_comm *comm, struct rs_err *err)
{
    const int64_t times[] = {comm->elapse, comm->transit, comm->wait, comm->synchronization,
                             comm->idle};
    struct rs_row row = rs_row_begin(&db->rows, VENDOR_COMM);
    rs_row_int(&row, summary->trace.rank, summary->trace.rank >= 0);
    rs_row_text(&row, rs_strtab_text(&summary->strings, comm->name));
    rs_row_text(&row, rs_strtab_text(&summary->strings, comm->group));
    rs_row_int(&row, comm->start, comm->start != RS_SAID_UNKNOWN);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        put_said(&row, times[i], 1000000000);
    rs_row_text(&row, rs_strtab_text(&summary->strings, comm->step));
    rs_row_text(&row, comm->is_p2p ? "p2p" : "collective");
    return rs_row_end(&db->rows, &row, err);
}

static enum rs_status put_vendors(const struct database *db, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < db->analysis->summary_count && status == RS_OK; i++) {
        const struct rs_summary *summary = db->analysis->summaries[i];
        const struct rs_provenance *said = summary->trace.said;
        for (size_t k = 0; said && k < said->step_count && status == RS_OK; k++)
            status = put_said_step(db, summary, &said->steps[k], err);
        for (size_t k = 0; said && k < said->comm_count && status == RS_OK; k++)
            status = put_said_comm(db, summary, &said->comms[k], err);
    }
    return status;
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
        struct rs_row row = rs_row_begin(&db->rows, RANK_MANIFEST);
        rs_row_int(&row, file->rank, file->rank >= 0);
        rs_row_text(&row, file->path);
        rs_row_text(&row, rs_output_state_text(file->state));
        rs_row_text(&row, file->reason);
        rs_row_text(&row, is_read ? rs_rank_source_text(file->rank_source) : NULL);
        rs_row_text(&row, is_read ? rs_step_origin_text(file->step_origin) : NULL);
        rs_row_text(&row, file->generation);
        rs_row_text(&row, file->host);
        rs_row_int(&row, file->events_read, is_read);
        rs_row_int(&row, dropped, is_read);
        rs_row_int(&row, file->input_bytes, is_read);
        rs_row_int(&row, file->raw_bytes, is_read);
        rs_row_text(&row, file->framework);
        rs_row_text(&row, file->framework_version);
        rs_row_text(&row, file->cann_version);
        const enum rs_status status = rs_row_end(&db->rows, &row, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

/* --- life ------------------------------------------------------------------------------------- */

static enum rs_status make_tables(struct database *db, struct rs_err *err)
{
    const char *rank = db->view.is_rank ? "" : ", rank_id INTEGER";
    struct rs_rows_table wanted[TABLE_COUNT];
    struct rs_buf sql = {0};
    rs_buf_printf(&sql, official_schema, rank, rank, rank, rank);
    if (!db->view.is_rank)
        rs_buf_string(&sql, own_schema);
    enum rs_status status = sql.failed
                                ? rs_err_set(err, RS_NOMEM, "no memory for %s", db->rows.path)
                                : rs_rows_run(&db->rows, rs_buf_text(&sql), err);
    rs_buf_fini(&sql);
    for (int i = 0; i < TABLE_COUNT; i++) {
        wanted[i] = tables[i];
        wanted[i].columns -= db->view.is_rank;
    }
    return status == RS_OK ? rs_rows_tables(&db->rows, wanted,
                                            db->view.is_rank ? OFFICIAL_COUNT : TABLE_COUNT, err)
                           : status;
}

enum rs_status database_write(const struct view *view, const struct rs_output_input *input,
                              const char *dir, struct rs_err *err)
{
    struct database db = {.view = *view, .analysis = view->analysis};
    enum rs_status status = rs_rows_create(&db.rows, dir, "analysis.db", err);
    if (status == RS_OK)
        status = make_tables(&db, err);
    if (status == RS_OK)
        status = put_steps(&db, err);
    if (status == RS_OK)
        status = put_communication(&db, err);
    if (status == RS_OK && !view->is_rank)
        status = put_collectives(&db, err);
    if (status == RS_OK && !view->is_rank)
        status = put_bandwidths(&db, err);
    if (status == RS_OK && !view->is_rank)
        status = estimate_walk(view->analysis, put_estimate, &db, err);
    if (status == RS_OK && !view->is_rank)
        status = put_vendors(&db, err);
    if (status == RS_OK && !view->is_rank)
        status = put_files(&db, input, err);
    comm_packets_fini(&db.packets);
    return rs_rows_close(&db.rows, status, err);
}
