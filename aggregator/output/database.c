/* SPDX-License-Identifier: Apache-2.0 */
/*
 * analysis.db: the four official tables (columns, order and units as real files have them) and, of a job, rank_id
 * appended to each and six tables of ours. Of one rank it is what its own profiler would have written.
 *
 * Official tables have the vendor's own rows of a rank whose recording has them (vendor.c), ours of the others.
 *
 * Rows are the structs of aggregator/model/official. Figures are exact decimal text, rounded once to the nearest double when
 * they are stored; unknown is NULL. Collective has one row per operation, since rows per rank are in CommAnalyzerTime
 * already; CollectiveBandwidth is what nccl-tests would say of it (bandwidth.c); LinkEstimate is what nobody recorded
 * (estimate.c); DerivedStepTraceTime and DerivedCommTime are what we found for ranks of which the official tables show
 * the vendor's figures; RankManifest holds what differs
 * between two ways of reading the same data (paths, sources), so comparisons leave it out.
 */
#include "aggregator/model/official.h"
#include "aggregator/output/output_priv.h"
#include "aggregator/store/table_file.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char file_name[] = "analysis.db";

struct database {
    struct view view;
    const struct step_rows *operations; /* of the step being written */
    struct rs_table_file *file;
    struct rs_table tables[RS_OFFICIAL_COUNT]; /* of a rank's own file without rank_id */
    struct rs_table_rows rows[RS_OFFICIAL_COUNT];
    struct comm_packets packets;
    char step[UNIT_TEXT_BYTES]; /* of the operations being written */
    const char *type;           /* "p2p" or "collective" */
};

/* A row of a table, all absent, until the next one; NULL: rows_failed() has the status. */
static void *add_row(struct database *db, enum rs_official table, struct rs_err *err)
{
    return rs_table_rows_add(&db->rows[table], db->file, err);
}

static enum rs_status failed(const struct rs_err *err)
{
    return err && err->status != RS_OK ? err->status : RS_NOMEM;
}

/* ---- cells: a field of a row of `table` ---- */

struct cells {
    struct rs_block *block;
};
static struct cells cells_of(struct database *db, enum rs_official table)
{
    return (struct cells){&db->rows[table].block};
}

static void put_text(struct cells cells, const char **field, const char *text)
{
    rs_block_text(cells.block, field, text);
}

static void put_us(struct cells cells, const char **field, int64_t ns, bool is_known)
{
    char text[UNIT_TEXT_BYTES];
    rs_unit_us(text, ns);
    put_text(cells, field, is_known ? text : NULL);
}

static void put_ms(struct cells cells, const char **field, rs_dur ns, bool is_known)
{
    char text[UNIT_TEXT_BYTES];
    rs_unit_ms(text, ns);
    put_text(cells, field, is_known ? text : NULL);
}

static void put_mb(struct cells cells, const char **field, int64_t bytes)
{
    char text[UNIT_TEXT_BYTES];
    rs_unit_mb(text, bytes);
    put_text(cells, field, text);
}

static void put_int(struct cells cells, const char **field, int64_t value)
{
    char text[UNIT_TEXT_BYTES];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    put_text(cells, field, text);
}

static void put_rate(struct cells cells, const char **field, int64_t bytes, rs_dur time,
                     bool has_time)
{
    char text[UNIT_TEXT_BYTES];
    unit_gb_per_s(text, bytes, time);
    put_text(cells, field, has_time && time > 0 ? text : NULL);
}

static int64_t known(int64_t value, bool is_known)
{
    return is_known ? value : RS_NULL;
}

/* --- StepTraceTime ---------------------------------------------------------------------------- */

static enum rs_status put_step(struct database *db, const struct job_rank *rank,
                               const struct rs_row_step_device *step, struct rs_err *err)
{
    const enum rs_official table =
        rank->has_steps ? RS_OFFICIAL_DERIVED_STEP : RS_OFFICIAL_STEP_TRACE_TIME;
    /* the vendor writes no row of a step that launched nothing */
    if (!view_has(&db->view, rank->rank) ||
        (db->view.is_rank && (rank->has_steps || step->preparing_ns == RS_NULL)))
        return RS_OK;
    char number[UNIT_TEXT_BYTES];
    const struct cells cells = cells_of(db, table);
    struct rs_row_step_trace_time *row = add_row(db, table, err);
    if (!row)
        return failed(err);
    (void)snprintf(number, sizeof number, "%" PRId64, step->step);
    row->deviceId = view_device(&db->view, step->device);
    put_text(cells, &row->step, view_has_steps(&db->view, rank) ? number : NULL);
    put_us(cells, &row->computing, step->computing_ns, true);
    put_us(cells, &row->communication_not_overlapped, step->communication_not_overlapped_ns, true);
    put_us(cells, &row->overlapped, step->overlapped_ns, true);
    put_us(cells, &row->communication, step->communication_ns, true);
    put_us(cells, &row->free, step->free_ns, true);
    put_us(cells, &row->stage, step->stage_ns, true);
    put_us(cells, &row->bubble, step->bubble_ns, true);
    put_us(cells, &row->communication_not_overlapped_and_exclude_receive,
           step->communication_not_overlapped_exclude_receive_ns, true);
    put_us(cells, &row->preparing, step->preparing_ns, step->preparing_ns != RS_NULL);
    row->rank_id = rank->rank;
    return RS_OK;
}

static enum rs_status put_steps(struct database *db, struct rs_err *err)
{
    struct rows_reading steps = {0};
    const void *row = NULL;
    enum rs_status status =
        rows_reading_open(&steps, db->view.job->rows, RS_READ_STEP_DEVICES, err);
    while (status == RS_OK && (status = rows_reading_next(&steps, &row, err)) == RS_OK && row) {
        const struct rs_row_step_device *step = row;
        const struct job_rank *rank = job_rank(db->view.job, step->rank);
        if (rank)
            status = put_step(db, rank, step, err);
    }
    rows_reading_close(&steps);
    return status;
}

/* --- CommAnalyzerTime, CommAnalyzerBandwidth ------------------------------------------------- */

static enum rs_status put_packets(struct database *db, const struct comm_item *item,
                                  const char *name, const char *hash, struct rs_err *err)
{
    struct comm_packets *packets = &db->packets;
    const struct cells cells = cells_of(db, RS_OFFICIAL_BANDWIDTH);
    packets->count = 0;
    if (comm_packets_add(db->operations, item, packets) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for %s", file_name);
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
            struct rs_row_comm_bandwidth *row = add_row(db, RS_OFFICIAL_BANDWIDTH, err);
            if (!row)
                return failed(err);
            put_text(cells, &row->hccl_op_name, name);
            put_text(cells, &row->group_name, hash);
            put_text(cells, &row->transport_type, packet->transport);
            put_mb(cells, &row->transit_size, bytes);
            put_ms(cells, &row->transit_time, time, has_time);
            put_rate(cells, &row->bandwidth, bytes, time, has_time);
            put_int(cells, &row->large_packet_ratio, 0);
            put_mb(cells, &row->package_size, packet->bytes);
            put_int(cells, &row->count, packet->count);
            put_ms(cells, &row->total_duration, packet->time, packet->has_time);
            put_text(cells, &row->step, db->step);
            put_text(cells, &row->type, db->type);
            row->rank_id = item->rank;
        }
    }
    return status;
}

static enum rs_status put_item(void *self, const struct comm_item *item, const char *hash,
                               struct rs_err *err)
{
    struct database *db = self;
    char name[COMM_NAME_BYTES];
    const bool is_derived = vendor_has_comms(db->view.job, item->rank);
    if (!view_has(&db->view, item->rank) || (is_derived && db->view.is_rank))
        return RS_OK;
    view_item_name(&db->view, db->operations, item, hash, name);
    const struct comm_times times = comm_times_of(db->operations, item);
    const enum rs_official table = is_derived ? RS_OFFICIAL_DERIVED_TIME : RS_OFFICIAL_TIME;
    const struct cells cells = cells_of(db, table);
    struct rs_row_comm_time *row = add_row(db, table, err);
    if (!row)
        return failed(err);
    put_text(cells, &row->hccl_op_name, name);
    put_text(cells, &row->group_name, hash);
    put_us(cells, &row->start_timestamp, times.start, true);
    put_ms(cells, &row->elapse_time, times.elapse, true);
    put_ms(cells, &row->transit_time, times.transit, times.has_transit);
    put_ms(cells, &row->wait_time, times.wait, times.has_wait);
    put_ms(cells, &row->synchronization_time, times.wait, times.has_wait);
    put_ms(cells, &row->idle_time, 0, true);
    put_text(cells, &row->step, db->step);
    put_text(cells, &row->type, db->type);
    row->rank_id = item->rank;
    return is_derived ? RS_OK : put_packets(db, item, name, hash, err);
}

/* --- CommAnalyzerMatrix ----------------------------------------------------------------------- */

static enum rs_status put_link(void *self, const struct matrix_row *link, struct rs_err *err)
{
    struct database *db = self;
    char selection[64], src[16], dst[16], name[COMM_NAME_BYTES] = "";
    if (!view_has_link(&db->view, link->entry) || vendor_tells_link(db->view.job, link->entry))
        return RS_OK;
    (void)snprintf(selection, sizeof selection, "%s-%s", link->type, link->selection);
    (void)snprintf(src, sizeof src, "%" PRId32,
                   view_end(&db->view, db->operations, link->entry, link->entry->src));
    (void)snprintf(dst, sizeof dst, "%" PRId32,
                   view_end(&db->view, db->operations, link->entry, link->entry->dst));
    if (link->has_name)
        view_item_name(&db->view, db->operations, &link->entry->item, link->hash, name);
    const struct cells cells = cells_of(db, RS_OFFICIAL_MATRIX);
    struct rs_row_comm_matrix *row = add_row(db, RS_OFFICIAL_MATRIX, err);
    if (!row)
        return failed(err);
    put_text(cells, &row->hccl_op_name, selection);
    put_text(cells, &row->group_name, link->hash);
    put_text(cells, &row->src_rank, src);
    put_text(cells, &row->dst_rank, dst);
    put_text(cells, &row->transport_type, link->entry->transport);
    put_mb(cells, &row->transit_size, link->entry->bytes);
    put_ms(cells, &row->transit_time, link->entry->time, link->entry->has_time);
    put_rate(cells, &row->bandwidth, link->entry->bytes, link->entry->time, link->entry->has_time);
    put_text(cells, &row->step, db->step);
    put_text(cells, &row->type, db->type);
    put_text(cells, &row->op_name, name);
    row->rank_id = link->entry->src;
    return RS_OK;
}

static enum rs_status put_communication(struct database *db, struct rs_err *err)
{
    struct step_rows *step = NULL;
    bool has_step = false;
    enum rs_status status = step_rows_open(db->view.job->rows, db->view.job->shelf, &step, err);
    db->operations = step;
    while (status == RS_OK && (status = step_rows_next(step, &has_step, err)) == RS_OK &&
           has_step) {
        comm_step_text(db->step, step->step);
        for (int p2p = 1; p2p >= 0 && status == RS_OK; p2p--) {
            db->type = p2p ? "p2p" : "collective";
            status = comm_walk(step, p2p, put_item, db, err);
            if (status == RS_OK)
                status = matrix_walk(step, p2p, put_link, db, err);
        }
    }
    step_rows_close(&step);
    db->operations = NULL;
    return status;
}

/* --- the vendor's own rows of the official tables ----------------------------------------------- */

static enum rs_status put_vendor_step(struct database *db, const struct rs_row_vendor_step *step,
                                      struct rs_err *err)
{
    const struct cells cells = cells_of(db, RS_OFFICIAL_STEP_TRACE_TIME);
    struct rs_row_step_trace_time *row = add_row(db, RS_OFFICIAL_STEP_TRACE_TIME, err);
    if (!row)
        return failed(err);
    row->deviceId = step->device;
    put_text(cells, &row->step, *step->step ? step->step : NULL);
    put_text(cells, &row->computing, step->computing);
    put_text(cells, &row->communication_not_overlapped, step->communication_not_overlapped);
    put_text(cells, &row->overlapped, step->overlapped);
    put_text(cells, &row->communication, step->communication);
    put_text(cells, &row->free, step->free);
    put_text(cells, &row->stage, step->stage);
    put_text(cells, &row->bubble, step->bubble);
    put_text(cells, &row->communication_not_overlapped_and_exclude_receive,
             step->communication_not_overlapped_exclude_receive);
    put_text(cells, &row->preparing, step->preparing);
    row->rank_id = (int32_t)step->rank;
    return RS_OK;
}

static enum rs_status put_vendor_steps(struct database *db, struct rs_err *err)
{
    struct rows_reading steps = {0};
    const void *row = NULL;
    enum rs_status status =
        rows_reading_open(&steps, db->view.job->rows, RS_READ_VENDOR_STEPS, err);
    while (status == RS_OK && (status = rows_reading_next(&steps, &row, err)) == RS_OK && row) {
        const struct rs_row_vendor_step *step = row;
        if (view_has(&db->view, (int32_t)step->rank))
            status = put_vendor_step(db, step, err);
    }
    rows_reading_close(&steps);
    return status;
}

/* As the vendor's own tables: of a transport that carried nothing there is no row, of one without packages one of zeros. */
static bool has_row(const struct rs_row_vendor_bandwidth *band)
{
    const char *const fields[] = {band->transit_size, band->transit_time, band->bandwidth,
                                  band->large_packet_ratio};
    if (band->package_size)
        return true;
    for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++)
        if (fields[k] && strpbrk(fields[k], "123456789"))
            return true;
    return false;
}

static enum rs_status put_vendor_band(struct database *db,
                                      const struct rs_row_vendor_comm_time *comm,
                                      const struct rs_row_vendor_bandwidth *band,
                                      struct rs_err *err)
{
    const struct cells cells = cells_of(db, RS_OFFICIAL_BANDWIDTH);
    const bool has_package = band->package_size != NULL;
    if (!has_row(band))
        return RS_OK;
    struct rs_row_comm_bandwidth *row = add_row(db, RS_OFFICIAL_BANDWIDTH, err);
    if (!row)
        return failed(err);
    put_text(cells, &row->hccl_op_name, comm->name);
    put_text(cells, &row->group_name, comm->group_name);
    put_text(cells, &row->transport_type, band->transport);
    put_text(cells, &row->transit_size, band->transit_size);
    put_text(cells, &row->transit_time, band->transit_time);
    put_text(cells, &row->bandwidth, band->bandwidth);
    put_text(cells, &row->large_packet_ratio, band->large_packet_ratio);
    put_text(cells, &row->package_size, has_package ? band->package_size : "0");
    put_text(cells, &row->count, has_package ? band->package_count : "0");
    put_text(cells, &row->total_duration, has_package ? band->package_time : "0");
    put_text(cells, &row->step, comm->step);
    put_text(cells, &row->type, comm->is_p2p ? "p2p" : "collective");
    row->rank_id = (int32_t)comm->rank;
    return RS_OK;
}

static enum rs_status
put_vendor_time(struct database *db, const struct rs_row_vendor_comm_time *comm, struct rs_err *err)
{
    const struct cells cells = cells_of(db, RS_OFFICIAL_TIME);
    struct rs_row_comm_time *row = add_row(db, RS_OFFICIAL_TIME, err);
    if (!row)
        return failed(err);
    put_text(cells, &row->hccl_op_name, comm->name);
    put_text(cells, &row->group_name, comm->group_name);
    put_text(cells, &row->start_timestamp, comm->start_timestamp);
    put_text(cells, &row->elapse_time, comm->elapse_time);
    put_text(cells, &row->transit_time, comm->transit_time);
    put_text(cells, &row->wait_time, comm->wait_time);
    put_text(cells, &row->synchronization_time, comm->synchronization_time);
    put_text(cells, &row->idle_time, comm->idle_time);
    put_text(cells, &row->step, comm->step);
    put_text(cells, &row->type, comm->is_p2p ? "p2p" : "collective");
    row->rank_id = (int32_t)comm->rank;
    return RS_OK;
}

static enum rs_status put_vendor_comms(struct database *db, const struct job_rank *rank,
                                       struct rs_err *err)
{
    const struct job *job = db->view.job;
    enum rs_status status = RS_OK;
    for (size_t i = rank->comm_first; i < rank->comm_first + rank->comm_count; i++) {
        const struct rs_row_vendor_comm_time *comm = &job->comms[i];
        if (comm->is_total) /* no database has sums */
            continue;
        status = put_vendor_time(db, comm, err);
        for (size_t k = job->band_firsts[i]; k < job->band_firsts[i + 1] && status == RS_OK; k++)
            status = put_vendor_band(db, comm, &job->bands[k], err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status put_vendor_link(struct database *db, const struct vendor_groups *groups,
                                      const struct rs_row_vendor_matrix *link, struct rs_err *err)
{
    const struct cells cells = cells_of(db, RS_OFFICIAL_MATRIX);
    const struct vendor_ends ends = vendor_ends_of(groups, link);
    char src[UNIT_TEXT_BYTES], dst[UNIT_TEXT_BYTES];
    struct rs_row_comm_matrix *row = add_row(db, RS_OFFICIAL_MATRIX, err);
    if (!row)
        return failed(err);
    vendor_end_text(src, ends.src);
    vendor_end_text(dst, ends.dst);
    put_text(cells, &row->hccl_op_name, link->kind);
    put_text(cells, &row->group_name, link->group_name);
    put_text(cells, &row->src_rank, src);
    put_text(cells, &row->dst_rank, dst);
    put_text(cells, &row->transport_type, link->transport);
    put_text(cells, &row->transit_size, link->transit_size);
    put_text(cells, &row->transit_time, link->transit_time);
    put_text(cells, &row->bandwidth, link->bandwidth);
    put_text(cells, &row->step, link->step);
    put_text(cells, &row->type, link->is_p2p ? "p2p" : "collective");
    put_text(cells, &row->op_name, link->op_name ? link->op_name : "");
    row->rank_id = (int32_t)link->rank;
    return RS_OK;
}

static enum rs_status put_vendor_rows(struct database *db, struct rs_err *err)
{
    struct vendor_groups *groups = NULL;
    const struct job *job = db->view.job;
    enum rs_status status = vendor_groups_new(&db->view, &groups);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory for %s", file_name);
    status = put_vendor_steps(db, err);
    for (size_t i = 0; i < job->rank_count && status == RS_OK; i++) {
        const struct job_rank *rank = &job->ranks[i];
        if (!view_has(&db->view, rank->rank))
            continue;
        status = put_vendor_comms(db, rank, err);
        for (size_t k = 0; k < rank->link_count && status == RS_OK; k++)
            status = put_vendor_link(db, groups, &job->links[rank->link_first + k], err);
    }
    vendor_groups_free(&groups);
    return status;
}

/* --- Collective, RankManifest ------------------------------------------------------------------ */

static void fill_collective(struct cells cells, const struct rs_row_job_op *op,
                            struct rs_row_collective *row)
{
    row->op_id = op->op_id;
    row->step = op->step;
    put_text(cells, &row->group_name, op->group_name);
    put_text(cells, &row->op, rs_op_text(op->op));
    row->seq = op->seq;
    row->is_matched = op->is_matched;
    row->bytes = op->bytes;
    row->last_rank = op->last_rank;
    row->ranks_seen = op->ranks_seen;
    row->ranks_expected = op->ranks_expected;
    put_text(cells, &row->coverage, rs_coverage_text(op->is_partial));
    row->first_start_ns = op->first_start_ns;
    row->last_end_ns = op->last_end_ns;
    row->wait_ns = op->wait_ns;
    row->transfer_ns = op->transfer_ns;
}

static void fill_bandwidth(struct cells cells, const struct rs_row_job_op *op,
                           struct rs_row_collective_bandwidth *row)
{
    const struct op_bandwidth band = op_bandwidth_of_row(op);
    char algorithm[UNIT_TEXT_BYTES], bus[UNIT_TEXT_BYTES], factor[UNIT_TEXT_BYTES];
    op_bandwidth_algorithm(algorithm, &band);
    op_bandwidth_bus(bus, &band);
    (void)snprintf(factor, sizeof factor, "%.17g",
                   band.factor_over ? (double)band.factor / (double)band.factor_over : 0);
    row->op_id = op->op_id;
    row->step = op->step;
    put_text(cells, &row->group_name, op->group_name);
    put_text(cells, &row->op, rs_op_text(op->op));
    row->seq = op->seq;
    row->ranks = known(band.ranks, band.ranks > 0);
    row->bytes = op->bytes;
    row->time_ns = known(band.time, band.time > 0);
    put_text(cells, &row->algorithm_bandwidth, band.bytes >= 0 && band.time > 0 ? algorithm : NULL);
    put_text(cells, &row->bus_factor, band.factor_over > 0 ? factor : NULL);
    put_text(cells, &row->bus_bandwidth, op_bandwidth_has_bus(&band) ? bus : NULL);
    put_text(cells, &row->transport_type, band.transport);
    put_text(cells, &row->coverage, rs_coverage_text(op->is_partial));
}

static enum rs_status put_collectives(struct database *db, struct rs_err *err)
{
    struct ops_reading ops = {0};
    const struct rs_row_job_op *op = NULL;
    enum rs_status status = ops_reading_open(&ops, db->view.job, err);
    while (status == RS_OK && (status = ops_reading_next(&ops, &op, err)) == RS_OK && op) {
        struct rs_row_collective *row = add_row(db, RS_OFFICIAL_COLLECTIVE, err);
        struct rs_row_collective_bandwidth *band =
            row ? add_row(db, RS_OFFICIAL_COLLECTIVE_BANDWIDTH, err) : NULL;
        if (!band) {
            status = failed(err);
            break;
        }
        fill_collective(cells_of(db, RS_OFFICIAL_COLLECTIVE), op, row);
        fill_bandwidth(cells_of(db, RS_OFFICIAL_COLLECTIVE_BANDWIDTH), op, band);
    }
    ops_reading_close(&ops);
    return status;
}

static enum rs_status put_estimate(void *self, const struct link_estimate *link, struct rs_err *err)
{
    struct database *db = self;
    const struct cells cells = cells_of(db, RS_OFFICIAL_LINK_ESTIMATE);
    struct rs_row_link_estimate *row = add_row(db, RS_OFFICIAL_LINK_ESTIMATE, err);
    if (!row)
        return failed(err);
    put_text(cells, &row->group_name, link->group);
    put_text(cells, &row->op, rs_op_type_text((enum rs_op_type)link->type));
    row->src_rank = link->src;
    row->dst_rank = link->dst;
    row->operations = link->count;
    row->bytes = link->bytes;
    row->time_ns = link->time;
    put_rate(cells, &row->bandwidth, link->bytes, link->time, true);
    put_text(cells, &row->estimated_by, link->estimated_by);
    return RS_OK;
}

/* How many rows of an input were dropped; `row_p` is the first row of coverage that is not asked for yet. */
static enum rs_status sum_drops(struct rows_reading *coverage, const void **row_p, int64_t input_no,
                                int64_t *sum_p, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    *sum_p = 0;
    while (status == RS_OK && *row_p) {
        const struct rs_row_coverage *row = *row_p;
        if (row->input_no != RS_NULL && row->input_no > input_no)
            break;
        if (row->input_no == input_no)
            *sum_p = sum_of(*sum_p, row->count);
        status = rows_reading_next(coverage, row_p, err);
    }
    return status;
}

static enum rs_status put_file(struct database *db, const struct rs_row_input *input,
                               int64_t dropped, struct rs_err *err)
{
    const struct cells cells = cells_of(db, RS_OFFICIAL_RANK_MANIFEST);
    struct rs_row_rank_manifest *row = add_row(db, RS_OFFICIAL_RANK_MANIFEST, err);
    if (!row)
        return failed(err);
    row->rank_id = input->rank;
    put_text(cells, &row->path, input->path);
    put_text(cells, &row->state, input->state);
    put_text(cells, &row->reason, input->reason);
    put_text(cells, &row->rank_source, input->rank_source);
    put_text(cells, &row->step_origin, input->step_origin);
    put_text(cells, &row->generation, input->format);
    put_text(cells, &row->host, input->host);
    row->events_read = input->events_read;
    row->dropped = known(dropped, input->rank_source != NULL);
    row->input_bytes = input->input_bytes;
    row->raw_bytes = input->raw_bytes;
    put_text(cells, &row->framework, input->framework);
    put_text(cells, &row->framework_version, input->framework_version);
    put_text(cells, &row->cann_version, input->cann_version);
    return RS_OK;
}

static enum rs_status put_files(struct database *db, struct rs_err *err)
{
    struct rs_row_store *rows = db->view.job->rows;
    struct rows_reading inputs = {0}, coverage = {0};
    const void *input = NULL, *missing = NULL;
    enum rs_status status = rows_reading_open(&inputs, rows, RS_READ_INPUTS, err);
    if (status == RS_OK)
        status = rows_reading_open(&coverage, rows, RS_READ_COVERAGE, err);
    if (status == RS_OK)
        status = rows_reading_next(&coverage, &missing, err);
    while (status == RS_OK && (status = rows_reading_next(&inputs, &input, err)) == RS_OK &&
           input) {
        const struct rs_row_input *row = input;
        int64_t dropped = 0;
        status = sum_drops(&coverage, &missing, row->input_no, &dropped, err);
        if (status == RS_OK)
            status = put_file(db, row, dropped, err);
    }
    rows_reading_close(&inputs);
    rows_reading_close(&coverage);
    return status;
}

/* --- life ------------------------------------------------------------------------------------- */

static size_t table_count(const struct database *db)
{
    return db->view.is_rank ? RS_OFFICIAL_OF_A_RANK : RS_OFFICIAL_COUNT;
}

static enum rs_status make_tables(struct database *db, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < table_count(db) && status == RS_OK; i++) {
        db->tables[i] = rs_official_tables[i];
        db->tables[i].column_count -= db->view.is_rank;
        db->rows[i].table = &db->tables[i];
        status = rs_table_file_add_table(db->file, &db->tables[i], err);
    }
    return status;
}

static enum rs_status put_all(struct database *db, struct rs_err *err)
{
    enum rs_status status = put_steps(db, err);
    if (status == RS_OK)
        status = put_communication(db, err);
    if (status == RS_OK)
        status = put_vendor_rows(db, err);
    if (status == RS_OK && !db->view.is_rank)
        status = put_collectives(db, err);
    if (status == RS_OK && !db->view.is_rank)
        status = estimate_walk(db->view.job, put_estimate, db, err);
    if (status == RS_OK && !db->view.is_rank)
        status = put_files(db, err);
    for (size_t i = 0; i < table_count(db) && status == RS_OK; i++)
        status = rs_table_rows_flush(&db->rows[i], db->file, err);
    return status;
}

enum rs_status database_write(const struct view *view, const char *dir, struct rs_err *err)
{
    struct database *db = rs_mem_calloc(1, sizeof *db);
    if (!db)
        return rs_err_set(err, RS_NOMEM, "no memory for %s", file_name);
    db->view = *view;
    enum rs_status status = rs_table_file_create(dir, file_name, &db->file, err);
    if (status == RS_OK)
        status = make_tables(db, err);
    if (status == RS_OK)
        status = put_all(db, err);
    for (size_t i = 0; i < RS_OFFICIAL_COUNT; i++)
        rs_table_rows_fini(&db->rows[i]);
    comm_packets_fini(&db->packets);
    status = rs_table_file_close(&db->file, status, err);
    rs_mem_free(db);
    return status;
}
