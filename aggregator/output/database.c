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
    const struct rs_analysis *analysis; /* the view's */
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

static void put_digits(struct cells cells, const char **field, const struct rs_summary *summary,
                       rs_str id)
{
    put_text(cells, field, rs_vendor_digits(summary, id));
}

static int64_t known(int64_t value, bool is_known)
{
    return is_known ? value : RS_NULL;
}

/* --- StepTraceTime ---------------------------------------------------------------------------- */

static enum rs_status put_step(struct database *db, enum rs_official table,
                               const struct rs_summary *rank_summary,
                               const struct rs_step_row *step, struct rs_err *err)
{
    char number[UNIT_TEXT_BYTES];
    const struct cells cells = cells_of(db, table);
    struct rs_row_step_trace_time *row = add_row(db, table, err);
    if (!row)
        return failed(err);
    (void)snprintf(number, sizeof number, "%" PRId64, step->step);
    row->deviceId = view_device(&db->view, step->device);
    put_text(cells, &row->step, view_has_steps(&db->view, rank_summary) ? number : NULL);
    put_us(cells, &row->computing, step->computing, true);
    put_us(cells, &row->communication_not_overlapped, step->communication_not_overlapped, true);
    put_us(cells, &row->overlapped, step->overlapped, true);
    put_us(cells, &row->communication, step->communication, true);
    put_us(cells, &row->free, step->free, true);
    put_us(cells, &row->stage, step->stage, true);
    put_us(cells, &row->bubble, step->bubble, true);
    put_us(cells, &row->communication_not_overlapped_and_exclude_receive,
           step->communication_not_overlapped_exclude_receive, true);
    put_us(cells, &row->preparing, step->preparing, step->has_work);
    row->rank_id = rank_summary->trace.rank;
    return RS_OK;
}

static enum rs_status put_steps(struct database *db, struct rs_err *err)
{
    for (size_t i = 0; i < db->analysis->summary_count; i++) {
        const struct rs_summary *summary = db->analysis->summaries[i];
        const enum rs_official to =
            rs_vendor_has_steps(summary) ? RS_OFFICIAL_DERIVED_STEP : RS_OFFICIAL_STEP_TRACE_TIME;
        const bool is_shown =
            view_has(&db->view, i) && (to == RS_OFFICIAL_STEP_TRACE_TIME || !db->view.is_rank);
        for (size_t k = 0; is_shown && k < summary->step_count; k++) {
            if (db->view.is_rank && !summary->steps[k].has_work)
                continue; /* the vendor writes no row of a step that launched nothing */
            const enum rs_status status = put_step(db, to, summary, &summary->steps[k], err);
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
    const struct cells cells = cells_of(db, RS_OFFICIAL_BANDWIDTH);
    packets->count = 0;
    if (comm_packets_add(db->analysis, item, packets) != RS_OK)
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
    const uint32_t summary = db->analysis->rows[item->row].summary;
    const bool is_derived = vendor_has_comms(db->analysis->summaries[summary]);
    if (!view_has(&db->view, summary) || (is_derived && db->view.is_rank))
        return RS_OK;
    view_item_name(&db->view, item, hash, name);
    const struct comm_times times = comm_times_of(db->analysis, item);
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
    if (!view_has_link(&db->view, link->entry) || vendor_tells_link(db->analysis, link->entry))
        return RS_OK;
    (void)snprintf(selection, sizeof selection, "%s-%s", link->type, link->selection);
    (void)snprintf(src, sizeof src, "%" PRId32, view_end(&db->view, link->entry, link->entry->src));
    (void)snprintf(dst, sizeof dst, "%" PRId32, view_end(&db->view, link->entry, link->entry->dst));
    if (link->has_name)
        view_item_name(&db->view, &link->entry->item, link->hash, name);
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

/* --- the vendor's own rows of the official tables ----------------------------------------------- */

static enum rs_status put_vendor_steps(struct database *db, const struct rs_summary *summary,
                                       struct rs_err *err)
{
    const struct rs_provenance *vendor = summary->trace.vendor;
    const struct cells cells = cells_of(db, RS_OFFICIAL_STEP_TRACE_TIME);
    for (size_t i = 0; i < vendor->step_count; i++) {
        const struct rs_vendor_step *step = &vendor->steps[i];
        const char *text = rs_vendor_text(summary, step->step);
        struct rs_row_step_trace_time *row = add_row(db, RS_OFFICIAL_STEP_TRACE_TIME, err);
        if (!row)
            return failed(err);
        const char **const fields[RS_VENDOR_STEP_FIELDS] = {
            &row->computing,  &row->communication_not_overlapped,
            &row->overlapped, &row->communication,
            &row->free,       &row->stage,
            &row->bubble,     &row->communication_not_overlapped_and_exclude_receive,
            &row->preparing};
        const int64_t device = rs_vendor_device(summary, step);
        row->deviceId = known(device, device >= 0);
        put_text(cells, &row->step, *text ? text : NULL);
        for (size_t k = 0; k < RS_VENDOR_STEP_FIELDS; k++)
            put_digits(cells, fields[k], summary, step->digits[k]);
        row->rank_id = summary->trace.rank;
    }
    return RS_OK;
}

/* As the vendor's own tables: of a transport that carried nothing there is no row, of one without packages one of zeros. */
static bool has_row(const struct rs_summary *summary, const struct rs_vendor_band *band)
{
    if (band->package[0] != RS_STR_NONE)
        return true;
    for (size_t k = 0; k < RS_VENDOR_BAND_FIELDS; k++) {
        const char *digits = rs_vendor_digits(summary, band->fields[k]);
        if (digits && strpbrk(digits, "123456789"))
            return true;
    }
    return false;
}

static enum rs_status put_vendor_bands(struct database *db, const struct rs_summary *summary,
                                       const struct rs_vendor_comm *comm,
                                       const struct rs_vendor_band *bands, struct rs_err *err)
{
    const struct cells cells = cells_of(db, RS_OFFICIAL_BANDWIDTH);
    for (size_t i = 0; i < comm->band_count; i++) {
        const struct rs_vendor_band *band = &bands[i];
        const bool has_package = band->package[0] != RS_STR_NONE;
        if (!has_row(summary, band))
            continue;
        struct rs_row_comm_bandwidth *row = add_row(db, RS_OFFICIAL_BANDWIDTH, err);
        if (!row)
            return failed(err);
        const char **const fields[RS_VENDOR_BAND_FIELDS] = {
            &row->transit_size, &row->transit_time, &row->bandwidth, &row->large_packet_ratio};
        const char **const package[RS_VENDOR_PACKAGE_FIELDS] = {&row->package_size, &row->count,
                                                                &row->total_duration};
        put_text(cells, &row->hccl_op_name, rs_vendor_text(summary, comm->name));
        put_text(cells, &row->group_name, rs_vendor_text(summary, comm->group));
        put_text(cells, &row->transport_type, rs_vendor_text(summary, band->transport));
        for (size_t k = 0; k < RS_VENDOR_BAND_FIELDS; k++)
            put_digits(cells, fields[k], summary, band->fields[k]);
        for (size_t k = 0; k < RS_VENDOR_PACKAGE_FIELDS; k++) {
            if (has_package)
                put_digits(cells, package[k], summary, band->package[k]);
            else
                put_int(cells, package[k], 0);
        }
        put_text(cells, &row->step, rs_vendor_text(summary, comm->step));
        put_text(cells, &row->type, comm->is_p2p ? "p2p" : "collective");
        row->rank_id = summary->trace.rank;
    }
    return RS_OK;
}

static enum rs_status put_vendor_time(struct database *db, const struct rs_summary *summary,
                                      const struct rs_vendor_comm *comm, struct rs_err *err)
{
    const struct cells cells = cells_of(db, RS_OFFICIAL_TIME);
    struct rs_row_comm_time *row = add_row(db, RS_OFFICIAL_TIME, err);
    if (!row)
        return failed(err);
    const char **const fields[] = {&row->start_timestamp,      &row->elapse_time,
                                   &row->transit_time,         &row->wait_time,
                                   &row->synchronization_time, &row->idle_time};
    put_text(cells, &row->hccl_op_name, rs_vendor_text(summary, comm->name));
    put_text(cells, &row->group_name, rs_vendor_text(summary, comm->group));
    for (size_t k = RS_VENDOR_START; k <= RS_VENDOR_IDLE; k++)
        put_digits(cells, fields[k - RS_VENDOR_START], summary, comm->digits[k]);
    put_text(cells, &row->step, rs_vendor_text(summary, comm->step));
    put_text(cells, &row->type, comm->is_p2p ? "p2p" : "collective");
    row->rank_id = summary->trace.rank;
    return RS_OK;
}

static enum rs_status put_vendor_comms(struct database *db, const struct rs_summary *summary,
                                       struct rs_err *err)
{
    const struct rs_provenance *vendor = summary->trace.vendor;
    const struct rs_vendor_band *bands = vendor->bands;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < vendor->comm_count && status == RS_OK; i++) {
        const struct rs_vendor_comm *comm = &vendor->comms[i];
        if (!comm->is_total) { /* no database has sums */
            status = put_vendor_time(db, summary, comm, err);
            if (status == RS_OK)
                status = put_vendor_bands(db, summary, comm, bands, err);
        }
        bands += comm->band_count;
    }
    return status;
}

static enum rs_status put_vendor_links(struct database *db, const struct vendor_groups *groups,
                                       const struct rs_summary *summary, struct rs_err *err)
{
    const struct rs_provenance *vendor = summary->trace.vendor;
    const struct cells cells = cells_of(db, RS_OFFICIAL_MATRIX);
    for (size_t i = 0; i < vendor->link_count; i++) {
        const struct rs_vendor_link *link = &vendor->links[i];
        const struct vendor_ends ends = vendor_ends_of(groups, summary, link);
        char src[UNIT_TEXT_BYTES], dst[UNIT_TEXT_BYTES];
        struct rs_row_comm_matrix *row = add_row(db, RS_OFFICIAL_MATRIX, err);
        if (!row)
            return failed(err);
        const char **const fields[RS_VENDOR_LINK_FIELDS] = {&row->transit_size, &row->transit_time,
                                                            &row->bandwidth};
        vendor_end_text(src, ends.src);
        vendor_end_text(dst, ends.dst);
        put_text(cells, &row->hccl_op_name, rs_vendor_text(summary, link->kind));
        put_text(cells, &row->group_name, rs_vendor_text(summary, link->group));
        put_text(cells, &row->src_rank, src);
        put_text(cells, &row->dst_rank, dst);
        put_text(cells, &row->transport_type, rs_vendor_text(summary, link->transport));
        for (size_t k = 0; k < RS_VENDOR_LINK_FIELDS; k++)
            put_digits(cells, fields[k], summary, link->fields[k]);
        put_text(cells, &row->step, rs_vendor_text(summary, link->step));
        put_text(cells, &row->type, link->is_p2p ? "p2p" : "collective");
        put_text(cells, &row->op_name, rs_vendor_text(summary, link->op_name));
        row->rank_id = summary->trace.rank;
    }
    return RS_OK;
}

static enum rs_status put_vendor_rows(struct database *db, struct rs_err *err)
{
    struct vendor_groups *groups = NULL;
    enum rs_status status = vendor_groups_new(&db->view, &groups);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory for %s", file_name);
    for (size_t i = 0; i < db->analysis->summary_count && status == RS_OK; i++) {
        const struct rs_summary *summary = db->analysis->summaries[i];
        if (!view_has(&db->view, i))
            continue;
        if (rs_vendor_has_steps(summary))
            status = put_vendor_steps(db, summary, err);
        if (status == RS_OK && vendor_has_comms(summary))
            status = put_vendor_comms(db, summary, err);
        if (status == RS_OK && vendor_has_links(summary))
            status = put_vendor_links(db, groups, summary, err);
    }
    vendor_groups_free(&groups);
    return status;
}

/* --- Collective, RankManifest ------------------------------------------------------------------ */

/* What the rows of one operation say together. */
struct sums {
    int64_t bytes;
    rs_ns first_start, last_end;
    rs_dur wait, transfer;
    bool has_wait, has_transfer;
};

static struct sums sums_of(const struct rs_analysis *analysis, const struct rs_job_op *op)
{
    struct sums sums = {.bytes = -1,
                        .first_start = RS_NS_MAX,
                        .last_end = RS_NS_MIN,
                        .has_wait = op->has_wait,
                        .has_transfer = op->has_wait};
    for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
        const struct rs_job_row *row = &analysis->rows[r];
        const struct rs_comm_op *own = comm_op_of(analysis, row);
        sums.bytes = own->bytes > sums.bytes ? own->bytes : sums.bytes;
        sums.first_start = own->start < sums.first_start ? own->start : sums.first_start;
        sums.last_end = own->end > sums.last_end ? own->end : sums.last_end;
        sums.wait = sum_of(sums.wait, row->wait);
        sums.transfer = sum_of(sums.transfer, row->transfer);
        sums.has_wait = sums.has_wait && row->has_wait;
        sums.has_transfer = sums.has_transfer && row->has_transfer && row->has_wait;
    }
    return sums;
}

static enum rs_status put_collectives(struct database *db, struct rs_err *err)
{
    const struct rs_analysis *analysis = db->analysis;
    const struct cells cells = cells_of(db, RS_OFFICIAL_COLLECTIVE);
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        const struct sums sums = sums_of(analysis, op);
        struct rs_row_collective *row = add_row(db, RS_OFFICIAL_COLLECTIVE, err);
        if (!row)
            return failed(err);
        row->op_id = (int64_t)i;
        row->step = known(op->step, op->step != RS_STEP_NONE);
        put_text(cells, &row->group_name, comm_group_text(analysis, op));
        put_text(cells, &row->op, rs_op_type_text((enum rs_op_type)op->type));
        row->seq = known(op->seq, op->seq >= 0);
        row->is_matched = op->is_matched;
        row->bytes = known(sums.bytes, sums.bytes >= 0);
        row->last_rank = known(op->last_rank, op->last_rank >= 0);
        row->ranks_seen = (int64_t)op->row_count;
        row->ranks_expected = known(op->ranks_expected, op->ranks_expected >= 0);
        put_text(cells, &row->coverage, rs_coverage_text(op->coverage != RS_COVERAGE_EXACT));
        row->first_start_ns = known(sums.first_start, op->row_count > 0);
        row->last_end_ns = known(sums.last_end, op->row_count > 0);
        row->wait_ns = known(sums.wait, sums.has_wait);
        row->transfer_ns = known(sums.transfer, sums.has_transfer);
    }
    return RS_OK;
}

static enum rs_status put_bandwidths(struct database *db, struct rs_err *err)
{
    const struct rs_analysis *analysis = db->analysis;
    const struct cells cells = cells_of(db, RS_OFFICIAL_COLLECTIVE_BANDWIDTH);
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        const struct op_bandwidth band = op_bandwidth_of(analysis, op);
        char algorithm[UNIT_TEXT_BYTES], bus[UNIT_TEXT_BYTES], factor[UNIT_TEXT_BYTES];
        struct rs_row_collective_bandwidth *row =
            add_row(db, RS_OFFICIAL_COLLECTIVE_BANDWIDTH, err);
        if (!row)
            return failed(err);
        op_bandwidth_algorithm(algorithm, &band);
        op_bandwidth_bus(bus, &band);
        (void)snprintf(factor, sizeof factor, "%.17g",
                       band.factor_over ? (double)band.factor / (double)band.factor_over : 0);
        row->op_id = (int64_t)i;
        row->step = known(op->step, op->step != RS_STEP_NONE);
        put_text(cells, &row->group_name, comm_group_text(analysis, op));
        put_text(cells, &row->op, rs_op_type_text((enum rs_op_type)op->type));
        row->seq = known(op->seq, op->seq >= 0);
        row->ranks = known(band.ranks, band.ranks > 0);
        row->bytes = known(band.bytes, band.bytes >= 0);
        row->time_ns = known(band.time, band.time > 0);
        put_text(cells, &row->algorithm_bandwidth,
                 band.bytes >= 0 && band.time > 0 ? algorithm : NULL);
        put_text(cells, &row->bus_factor, band.factor_over > 0 ? factor : NULL);
        put_text(cells, &row->bus_bandwidth, op_bandwidth_has_bus(&band) ? bus : NULL);
        put_text(cells, &row->transport_type, band.transport);
        put_text(cells, &row->coverage, rs_coverage_text(op->coverage != RS_COVERAGE_EXACT));
    }
    return RS_OK;
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

static enum rs_status put_files(struct database *db, struct rs_row_store *rows, struct rs_err *err)
{
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

static enum rs_status put_all(struct database *db, struct rs_row_store *rows, struct rs_err *err)
{
    enum rs_status status = put_steps(db, err);
    if (status == RS_OK)
        status = put_communication(db, err);
    if (status == RS_OK)
        status = put_vendor_rows(db, err);
    if (status == RS_OK && !db->view.is_rank)
        status = put_collectives(db, err);
    if (status == RS_OK && !db->view.is_rank)
        status = put_bandwidths(db, err);
    if (status == RS_OK && !db->view.is_rank)
        status = estimate_walk(db->analysis, put_estimate, db, err);
    if (status == RS_OK && !db->view.is_rank)
        status = put_files(db, rows, err);
    for (size_t i = 0; i < table_count(db) && status == RS_OK; i++)
        status = rs_table_rows_flush(&db->rows[i], db->file, err);
    return status;
}

enum rs_status database_write(const struct view *view, struct rs_row_store *rows, const char *dir,
                              struct rs_err *err)
{
    struct database *db = rs_mem_calloc(1, sizeof *db);
    if (!db)
        return rs_err_set(err, RS_NOMEM, "no memory for %s", file_name);
    db->view = *view;
    db->analysis = view->analysis;
    enum rs_status status = rs_table_file_create(dir, file_name, &db->file, err);
    if (status == RS_OK)
        status = make_tables(db, err);
    if (status == RS_OK)
        status = put_all(db, rows, err);
    for (size_t i = 0; i < RS_OFFICIAL_COUNT; i++)
        rs_table_rows_fini(&db->rows[i]);
    comm_packets_fini(&db->packets);
    status = rs_table_file_close(&db->file, status, err);
    rs_mem_free(db);
    return status;
}
