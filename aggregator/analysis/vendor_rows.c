/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank's own profiler wrote of its communication, as rows: digits as they came in, beside ours. A figure that is no number
 * is absent (rs_vendor_digits()).
 */
#include "aggregator/analysis/rows_priv.h"
#include "aggregator/analysis/vendor_values.h"

/* A comm's row; its number is its place in the document. */
static enum rs_status put_times(struct rows_filler *filler, const struct rs_summary *summary)
{
    const struct rs_provenance *vendor = summary->trace.vendor;
    rows_of(filler, &rs_table_vendor_comm_time);
    for (size_t i = 0; i < vendor->comm_count; i++) {
        const struct rs_vendor_comm *comm = &vendor->comms[i];
        struct rs_row_vendor_comm_time *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        const char **const fields[RS_VENDOR_TIMES] = {
            [RS_VENDOR_START] = &row->start_timestamp,
            [RS_VENDOR_ELAPSE] = &row->elapse_time,
            [RS_VENDOR_TRANSIT] = &row->transit_time,
            [RS_VENDOR_WAIT] = &row->wait_time,
            [RS_VENDOR_SYNCHRONIZATION] = &row->synchronization_time,
            [RS_VENDOR_IDLE] = &row->idle_time,
            [RS_VENDOR_WAIT_RATIO] = &row->wait_time_ratio,
            [RS_VENDOR_SYNCHRONIZATION_RATIO] = &row->synchronization_time_ratio};
        row->capture = filler->capture;
        row->rank = summary->trace.rank;
        row->part = 0;
        row->row_no = (int64_t)i;
        row->is_p2p = comm->is_p2p;
        row->is_total = comm->is_total;
        rs_block_text(&filler->block, &row->step, rs_vendor_text(summary, comm->step));
        rs_block_text(&filler->block, &row->name, rs_vendor_text(summary, comm->name));
        rs_block_text(&filler->block, &row->group_name, rs_vendor_text(summary, comm->group));
        for (size_t k = 0; k < RS_VENDOR_TIMES; k++)
            rs_block_text(&filler->block, fields[k], rs_vendor_digits(summary, comm->digits[k]));
    }
    return rows_flush(filler);
}

static enum rs_status put_bands(struct rows_filler *filler, const struct rs_summary *summary)
{
    const struct rs_provenance *vendor = summary->trace.vendor;
    size_t comm = 0, left = vendor->comm_count ? vendor->comms[0].band_count : 0;
    rows_of(filler, &rs_table_vendor_bandwidth);
    for (size_t i = 0; i < vendor->band_count; i++) {
        const struct rs_vendor_band *band = &vendor->bands[i];
        while (!left && comm + 1 < vendor->comm_count)
            left = vendor->comms[++comm].band_count;
        left -= left > 0;
        struct rs_row_vendor_bandwidth *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        const char **const fields[RS_VENDOR_BAND_FIELDS] = {
            &row->transit_size, &row->transit_time, &row->bandwidth, &row->large_packet_ratio};
        const char **const package[RS_VENDOR_PACKAGE_FIELDS] = {
            &row->package_size, &row->package_count, &row->package_time};
        row->capture = filler->capture;
        row->rank = summary->trace.rank;
        row->part = 0;
        row->row_no = (int64_t)i;
        row->comm_no = (int64_t)comm;
        rs_block_text(&filler->block, &row->transport, rs_vendor_text(summary, band->transport));
        for (size_t k = 0; k < RS_VENDOR_BAND_FIELDS; k++)
            rs_block_text(&filler->block, fields[k], rs_vendor_digits(summary, band->fields[k]));
        for (size_t k = 0; k < RS_VENDOR_PACKAGE_FIELDS; k++)
            rs_block_text(&filler->block, package[k], rs_vendor_digits(summary, band->package[k]));
    }
    return rows_flush(filler);
}

static enum rs_status put_matrix(struct rows_filler *filler, const struct rs_summary *summary)
{
    const struct rs_provenance *vendor = summary->trace.vendor;
    rows_of(filler, &rs_table_vendor_matrix);
    for (size_t i = 0; i < vendor->link_count; i++) {
        const struct rs_vendor_link *link = &vendor->links[i];
        struct rs_row_vendor_matrix *row = rows_add(filler);
        if (!row)
            return rows_failed(filler);
        const char **const fields[RS_VENDOR_LINK_FIELDS] = {&row->transit_size, &row->transit_time,
                                                            &row->bandwidth};
        row->capture = filler->capture;
        row->rank = summary->trace.rank;
        row->part = 0;
        row->row_no = (int64_t)i;
        row->is_p2p = link->is_p2p;
        row->src = link->src;
        row->dst = link->dst;
        row->global_src = rows_not_negative(link->global_src);
        row->global_dst = rows_not_negative(link->global_dst);
        rs_block_text(&filler->block, &row->step, rs_vendor_text(summary, link->step));
        rs_block_text(&filler->block, &row->kind, rs_vendor_text(summary, link->kind));
        rs_block_text(&filler->block, &row->group_name, rs_vendor_text(summary, link->group));
        rs_block_text(&filler->block, &row->transport, rs_vendor_text(summary, link->transport));
        if (link->op_name != RS_STR_NONE)
            rs_block_text(&filler->block, &row->op_name, rs_vendor_text(summary, link->op_name));
        for (size_t k = 0; k < RS_VENDOR_LINK_FIELDS; k++)
            rs_block_text(&filler->block, fields[k], rs_vendor_digits(summary, link->fields[k]));
    }
    return rows_flush(filler);
}

enum rs_status rows_put_vendor_comms(struct rows_filler *filler, const struct rs_summary *summary)
{
    if (!summary->trace.vendor)
        return RS_OK;
    /* Summaries of before the digits were kept have rows without them: nothing to show. */
    const struct rs_provenance *vendor = summary->trace.vendor;
    const bool has_digits =
        vendor->comm_count && rs_vendor_has_digits(vendor->comms[0].digits, RS_VENDOR_TIMES);
    enum rs_status status = has_digits ? put_times(filler, summary) : RS_OK;
    if (status == RS_OK && has_digits)
        status = put_bands(filler, summary);
    return status == RS_OK ? put_matrix(filler, summary) : status;
}
