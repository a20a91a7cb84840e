/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the three tables that grow with operations.
 *
 * ClusterCommunicationTime and ClusterCommunicationBandwidth have the operations rank by rank, then the
 * sums of all ranks; ClusterCommunicationMatrix has the links of all ranks joined. Their tables are made
 * from data frames by the vendor's tool, so a column is declared INTEGER when no rank has a fraction in it
 * and REAL otherwise; ours are declared by the same rule.
 */
#include "ascend/cluster/bulk.h"
#include "ascend/cluster/cluster_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

enum { ROWS_BYTES = 1 << 17 }; /* of texts that are made before they are put in */

static void put_text(struct bulk_rows *rows, const char *text)
{
    if (text)
        bulk_text(rows, text, strlen(text));
    else
        bulk_null(rows);
}

/* Every number column is REAL or INTEGER, and in both SQLite itself keeps a float without fraction as a
 * short integer (a REAL column gives it back as a float). */
static void put_real(struct bulk_rows *rows, double value)
{
    if (fabs(value) < 1e15 && !signbit(value) && value == (double)(int64_t)value)
        bulk_int(rows, (int64_t)value);
    else
        bulk_real(rows, value);
}

/* `value` is the number's. */
static void put_value(struct bulk_rows *rows, const struct rs_ascend_num *num, double value)
{
    if (num->kind == RS_ASCEND_NUM_NONE)
        bulk_null(rows);
    else if (rs_ascend_num_is_int(num))
        bulk_int(rows,
                 (int64_t)(num->kind == RS_ASCEND_NUM_INT ? num->mantissa : 0 - num->mantissa));
    else
        put_real(rows, value);
}

static void put_num(struct bulk_rows *rows, const struct rs_ascend_num *num)
{
    put_value(rows, num, rs_ascend_num_double(num));
}

void make_start(struct bulk_rows *rows, struct bulk_start *start, const struct row_head *head)
{
    bulk_text(rows, head->step.text, head->step.length);
    bulk_int(rows, head->rank);
    bulk_text(rows, head->name.text, head->name.length);
    bulk_text(rows, head->group.text, head->group.length);
    bulk_take_start(rows, start);
}

static struct row_text text_of(const struct rank_data *rank, rs_str id)
{
    return (struct row_text){rs_strtab_text(&rank->comm.names, id),
                             rs_strtab_length(&rank->comm.names, id)};
}

static void put_total_head(struct bulk_rows *rows, const struct rank_data *rank,
                           const struct total *total)
{
    const struct row_text step = text_of(rank, total->step), group = text_of(rank, total->group);
    bulk_text(rows, step.text, step.length);
    bulk_int(rows, rank->rank);
    bulk_text(rows, "Total Op Info", 13);
    bulk_text(rows, group.text, group.length);
}

static void add_full(struct bulk_table *table, struct bulk_rows *rows, size_t limit_bytes)
{
    if (rows->bytes.length < limit_bytes && rows->status == RS_OK)
        return;
    bulk_add(table, rows);
    bulk_rows_reset(rows);
}

/* How often the vendor's tool counts a group: once per set of ranks that it holds for it. */
static double weight_of(const struct run *run, const struct rank_data *rank, rs_str group_id)
{
    const struct group *group = &run->groups[rank->group_of[group_id]];
    const struct rank_set *a = &group->by_ops[SIDE_COLLECTIVE], *b = &group->by_ops[SIDE_P2P];
    if (!run->options->compat || group->named.count || !a->count || !b->count)
        return 1;
    return a->count == b->count && memcmp(a->ranks, b->ranks, a->count * sizeof *a->ranks) == 0 ? 1
                                                                                                : 2;
}

/* A column whose type depends on what is in it. */
struct real_name {
    const char *name;
    unsigned bit; /* enum real_column */
};

/* "column TYPE" for each. */
static void declare(const struct run *run, const struct real_name *columns, size_t count,
                    struct rs_buf *sql)
{
    for (size_t i = 0; i < count; i++) {
        const bool is_real = run->reals & 1U << columns[i].bit;
        rs_buf_printf(sql, ", %s %s", columns[i].name, is_real ? "REAL" : "INTEGER");
    }
}

/* ---- ClusterCommunicationTime ------------------------------------------------------------------ */

void put_time_row(struct bulk_rows *rows, const struct bulk_start *start,
                  const struct rs_ascend_num *times, const double *values)
{
    bulk_put_start(rows, start);
    for (int i = 0; i <= RS_ASCEND_COMM_IDLE; i++)
        put_value(rows, &times[i], values[i]);
    bulk_int(rows, 0); /* the ratios of single operations */
    bulk_int(rows, 0);
    bulk_end_row(rows);
}

static void put_total_time(const struct run *run, struct bulk_rows *rows,
                           const struct rank_data *rank, const struct total *total)
{
    const double weight = weight_of(run, rank, total->group);
    double times[TOTAL_TIMES];
    put_total_head(rows, rank, total);
    bulk_int(rows, 0);
    for (int i = 0; i < TOTAL_TIMES; i++) {
        times[i] = total->times[i].kahan * weight;
        put_real(rows, times[i]);
    }
    const double transit = times[1], wait = times[2], sync = times[3];
    const struct rs_ascend_num sync_ratio = rs_ascend_num_ratio(sync, sync + transit);
    const struct rs_ascend_num wait_ratio = rs_ascend_num_ratio(wait, wait + transit);
    put_num(rows, &sync_ratio);
    put_num(rows, &wait_ratio);
    bulk_end_row(rows);
}

void put_total_times(const struct run *run, struct bulk_table *table, struct bulk_rows *rows)
{
    for (size_t r = 0; r < run->rank_count; r++) {
        const struct rank_data *rank = &run->ranks[r];
        for (size_t i = 0; i < rank->totals.count; i++)
            put_total_time(run, rows, rank, &rank->totals.rows[i]);
        add_full(table, rows, ROWS_BYTES);
    }
    add_full(table, rows, 0);
}

void declare_times(const struct run *run, struct rs_buf *sql)
{
    static const struct real_name columns[] = {
        {"start_timestamp", REAL_TIME},          {"elapsed_time", REAL_TIME + 1},
        {"transit_time", REAL_TIME + 2},         {"wait_time", REAL_TIME + 3},
        {"synchronization_time", REAL_TIME + 4}, {"idle_time", REAL_TIME + 5}};
    rs_buf_string(sql, "step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT");
    declare(run, columns, 6, sql);
    rs_buf_string(sql, ", synchronization_time_ratio REAL, wait_time_ratio REAL");
}

/* ---- ClusterCommunicationBandwidth ------------------------------------------------------------- */

void make_band_start(struct bulk_rows *rows, struct bulk_start *band,
                     const struct bulk_start *start, const struct row_text *transport,
                     const struct rs_ascend_num *fields)
{
    bulk_put_start(rows, start);
    bulk_text(rows, transport->text, transport->length);
    for (int i = 0; i < RS_ASCEND_COMM_BAND_FIELDS; i++)
        put_num(rows, &fields[i]);
    bulk_take_start(rows, band);
}

void put_band_row(struct bulk_rows *rows, const struct bulk_start *band,
                  const struct rs_ascend_num *size, const struct rs_ascend_num *count,
                  const struct rs_ascend_num *duration)
{
    bulk_put_start(rows, band);
    put_num(rows, size);
    put_num(rows, count);
    put_num(rows, duration);
    bulk_end_row(rows);
}

static struct rs_ascend_num table_sum(const struct sum *sum, double weight)
{
    return sum->is_float ? rs_ascend_num_of_double(sum->kahan * weight)
                         : rs_ascend_num_of_int(sum->whole * (int64_t)weight);
}

/* Size, time, bandwidth of a transport's sum. False: it carried nothing and is left out. */
static bool fill_fields(const struct band_total *band, struct rs_ascend_num *fields)
{
    fields[RS_ASCEND_COMM_SIZE] = rs_ascend_num_of_double(band->size_pairs);
    fields[RS_ASCEND_COMM_TIME] = rs_ascend_num_of_double(band->time_pairs);
    fields[RS_ASCEND_COMM_BANDWIDTH] =
        rs_ascend_num_ratio(rs_ascend_num_known(&fields[RS_ASCEND_COMM_SIZE]),
                            rs_ascend_num_known(&fields[RS_ASCEND_COMM_TIME]));
    fields[RS_ASCEND_COMM_LARGE_RATIO] = (struct rs_ascend_num){.kind = RS_ASCEND_NUM_INT};
    double sum = 0;
    for (int i = 0; i < RS_ASCEND_COMM_BAND_FIELDS; i++)
        sum += rs_ascend_num_known(&fields[i]);
    return sum != 0;
}

static void put_total_row(struct bulk_rows *rows, const struct rank_data *rank,
                          const struct total *total, const struct band_total *band,
                          const struct rs_ascend_num *numbers)
{
    const struct row_text transport = text_of(rank, band->transport);
    put_total_head(rows, rank, total);
    bulk_text(rows, transport.text, transport.length);
    for (int i = 0; i < RS_ASCEND_COMM_BAND_FIELDS + 3; i++)
        put_num(rows, &numbers[i]);
    bulk_end_row(rows);
}

static void put_total_band(const struct run *run, struct bulk_rows *rows,
                           const struct rank_data *rank, const struct total *total)
{
    enum { SIZE = RS_ASCEND_COMM_BAND_FIELDS, COUNT, DURATION, NUMBERS };
    const struct rs_ascend_num zero = {.kind = RS_ASCEND_NUM_INT};
    const double weight = weight_of(run, rank, total->group);
    for (uint32_t b = total->first; b != NO_INDEX; b = rank->totals.bands[b].next) {
        const struct band_total *band = &rank->totals.bands[b];
        struct rs_ascend_num numbers[NUMBERS];
        if (!fill_fields(band, numbers))
            continue;
        numbers[SIZE] = numbers[COUNT] = numbers[DURATION] = zero;
        if (band->first == NO_INDEX)
            put_total_row(rows, rank, total, band, numbers);
        for (uint32_t p = band->first; p != NO_INDEX; p = rank->totals.packages[p].next) {
            const struct package_total *package = &rank->totals.packages[p];
            numbers[SIZE] = package->number;
            numbers[COUNT] = table_sum(&package->count, weight);
            numbers[DURATION] = table_sum(&package->duration, weight);
            put_total_row(rows, rank, total, band, numbers);
        }
    }
}

void put_total_bands(const struct run *run, struct bulk_table *table, struct bulk_rows *rows)
{
    for (size_t r = 0; r < run->rank_count; r++) {
        const struct rank_data *rank = &run->ranks[r];
        for (size_t i = 0; i < rank->totals.count; i++)
            put_total_band(run, rows, rank, &rank->totals.rows[i]);
        add_full(table, rows, ROWS_BYTES);
    }
    add_full(table, rows, 0);
}

void declare_bands(const struct run *run, struct rs_buf *sql)
{
    static const struct real_name columns[] = {
        {"transit_size", REAL_BAND},      {"transit_time", REAL_BAND + 1},
        {"bandwidth", REAL_BAND + 2},     {"large_packet_ratio", REAL_BAND + 3},
        {"package_size", REAL_PACKAGE},   {"count", REAL_COUNT},
        {"total_duration", REAL_DURATION}};
    rs_buf_string(sql,
                  "step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT, band_type TEXT");
    declare(run, columns, 7, sql);
}

/* ---- ClusterCommunicationMatrix ---------------------------------------------------------------- */

/* `name` NULL: of the sums. */
static void put_link(const struct run *run, struct bulk_rows *rows, const struct link_row *row,
                     const char *name)
{
    const double size = row->size.kahan, time = row->time.kahan;
    bulk_text(rows, rs_strtab_text(&run->steps, row->step),
              rs_strtab_length(&run->steps, row->step));
    if (name)
        bulk_text(rows, name, rs_strtab_length(&run->names, row->name));
    else
        bulk_text(rows, "Total Op Info", 13);
    bulk_text(rows, run->groups[row->group].hash, rs_strtab_length(&run->hashes, row->group));
    put_real(rows, (double)row->src);
    put_real(rows, (double)row->dst);
    put_text(rows, row->first_transport);
    put_text(rows, row->first_op);
    put_real(rows, size);
    put_real(rows, time);
    put_real(rows, fabs(time) < 1e-15 ? 0 : size / time);
    bulk_end_row(rows);
}

static void put_link_totals(const struct run *run, struct bulk_rows *rows,
                            struct link_totals *totals)
{
    link_totals_fold(totals);
    for (size_t i = 0; i < totals->count; i++)
        put_link(run, rows, &totals->rows[i], NULL);
    totals->count = 0;
}

enum rs_status put_links(const struct run *run, struct bulk_table *table, struct bulk_rows *rows)
{
    struct link_totals totals = {0};
    struct link_row row, last = {0};
    enum rs_status status = RS_OK;
    size_t at = 0;
    while (status == RS_OK && next_link(run, &at, &row)) {
        const char *name = rs_strtab_text(&run->names, row.name);
        if (totals.count && (row.key != last.key || row.step != last.step))
            put_link_totals(run, rows, &totals);
        put_link(run, rows, &row, name);
        if (counts_in_table(name))
            status = link_totals_add(&totals, &row);
        add_full(table, rows, ROWS_BYTES);
        last = row;
    }
    put_link_totals(run, rows, &totals);
    add_full(table, rows, 0);
    rs_mem_free(totals.rows);
    return status;
}

void declare_links(const struct run *run, struct rs_buf *sql)
{
    static const struct real_name columns[] = {{"transit_size", REAL_LINK},
                                               {"transit_time", REAL_LINK + 1}};
    rs_buf_string(sql,
                  "step TEXT, hccl_op_name TEXT, group_name TEXT, src_rank REAL, dst_rank REAL, "
                  "transport_type TEXT, op_name TEXT");
    declare(run, columns, 2, sql);
    rs_buf_string(sql, ", bandwidth REAL");
}
