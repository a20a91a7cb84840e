/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_analysis.db: the vendor's tables, columns, order and units.
 *
 * Its tables of communication are made from data frames, so a column is declared INTEGER when no
 * rank has a fraction in it and REAL otherwise; ours are declared by the same rule.
 */
#include "aggregator/cluster/bulk.h"
#include "aggregator/cluster/cluster_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <jansson.h>
#include <sqlite3.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where rows go: a statement, or, for the three tables that grow with operations, pages. */
struct table {
    const struct run *run;
    sqlite3 *db;
    sqlite3_stmt *stmt;
    struct bulk *bulk; /* NULL: the statement */
    struct rs_err *err;
    int next; /* column of the statement */
    uint32_t
        integers; /* bulk: columns declared INTEGER, by place; as SQLite, they keep whole numbers */
};

static enum rs_status failed(struct table *table)
{
    const int code = sqlite3_errcode(table->db) & 0xff;
    return rs_err_set(table->err, code == SQLITE_NOMEM ? RS_NOMEM : RS_IO,
                      "cannot write cluster_analysis.db: %s", sqlite3_errmsg(table->db));
}

static enum rs_status run_sql(struct table *table, const char *sql)
{
    return sqlite3_exec(table->db, sql, NULL, NULL, NULL) == SQLITE_OK ? RS_OK : failed(table);
}

/* "CREATE TABLE name (columns)" and a statement that fills it. */
static enum rs_status begin_table(struct table *table, const char *name, const char *columns,
                                  int count)
{
    struct rs_buf sql = {0};
    rs_buf_printf(&sql, "CREATE TABLE %s (%s)", name, columns);
    enum rs_status status = sql.failed
                                ? rs_err_set(table->err, RS_NOMEM, "no memory to write %s", name)
                                : run_sql(table, rs_buf_text(&sql));
    rs_buf_reset(&sql);
    rs_buf_printf(&sql, "INSERT INTO %s VALUES (?", name);
    for (int i = 1; i < count; i++)
        rs_buf_string(&sql, ",?");
    rs_buf_string(&sql, ")");
    if (status == RS_OK && (sql.failed || sqlite3_prepare_v2(table->db, rs_buf_text(&sql), -1,
                                                             &table->stmt, NULL) != SQLITE_OK))
        status = failed(table);
    rs_buf_fini(&sql);
    table->next = 1;
    return status;
}

static void put_bytes(struct table *table, const char *text, size_t length)
{
    if (table->bulk)
        bulk_text(table->bulk, text, length);
    else
        (void)sqlite3_bind_text(table->stmt, table->next++, text, (int)length, SQLITE_STATIC);
}

static void put_text(struct table *table, const char *text)
{
    if (text)
        put_bytes(table, text, strlen(text));
    else if (table->bulk)
        bulk_null(table->bulk);
    else
        (void)sqlite3_bind_null(table->stmt, table->next++);
}

static void put_int(struct table *table, int64_t value)
{
    if (table->bulk)
        bulk_int(table->bulk, value);
    else
        (void)sqlite3_bind_int64(table->stmt, table->next++, value);
}

/* Every number column of the large tables is REAL or INTEGER, and in both SQLite itself keeps a
 * float without fraction as a short integer (a REAL column gives it back as a float). */
static void put_real(struct table *table, double value)
{
    const bool is_whole = value == floor(value) && fabs(value) < 1e15 && !signbit(value);
    if (!table->bulk)
        (void)sqlite3_bind_double(table->stmt, table->next++, value);
    else if (is_whole)
        bulk_int(table->bulk, (int64_t)value);
    else
        bulk_real(table->bulk, value);
}

static void put_num(struct table *table, const struct rs_vendor_num *num)
{
    if (num->kind == RS_VENDOR_NUM_NONE)
        put_text(table, NULL);
    else if (rs_vendor_num_is_int(num))
        put_int(table,
                num->kind == RS_VENDOR_NUM_INT ? (int64_t)num->mantissa : -(int64_t)num->mantissa);
    else
        put_real(table, rs_vendor_num_double(num));
}

static enum rs_status end_row(struct table *table)
{
    if (table->bulk) {
        bulk_end_row(table->bulk);
        return table->bulk->status;
    }
    table->next = 1;
    const int code = sqlite3_step(table->stmt);
    (void)sqlite3_reset(table->stmt);
    return code == SQLITE_DONE ? RS_OK : failed(table);
}

static enum rs_status end_table(struct table *table, enum rs_status status)
{
    (void)sqlite3_finalize(table->stmt);
    table->stmt = NULL;
    return status;
}

/* A column whose type depends on what is in it. */
struct real_name {
    const char *name;
    unsigned bit; /* enum real_column */
};

static void put_id(struct table *table, const struct rank_data *rank, rs_str id)
{
    put_bytes(table, rs_strtab_text(&rank->comm.names, id),
              rs_strtab_length(&rank->comm.names, id));
}

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

static enum rs_status put_op_time(struct table *table, const struct rank_data *rank,
                                  const struct rs_vendor_comm_op *op)
{
    struct rs_vendor_num times[RS_VENDOR_COMM_TIMES];
    struct rs_vendor_comm_cursor cursor;
    rs_vendor_comm_op_open(&rank->comm, op, &cursor, times);
    put_id(table, rank, op->step);
    put_int(table, rank->rank);
    put_id(table, rank, op->name);
    put_id(table, rank, op->group);
    for (int i = 0; i <= RS_VENDOR_COMM_IDLE; i++)
        put_num(table, &times[i]);
    put_real(table, 0);
    put_real(table, 0);
    return end_row(table);
}

static enum rs_status put_total_time(struct table *table, const struct rank_data *rank,
                                     const struct total *total)
{
    const double weight = weight_of(table->run, rank, total->group);
    double times[TOTAL_TIMES];
    put_id(table, rank, total->step);
    put_int(table, rank->rank);
    put_text(table, "Total Op Info");
    put_id(table, rank, total->group);
    put_real(table, 0);
    for (int i = 0; i < TOTAL_TIMES; i++) {
        times[i] = total->times[i].kahan * weight;
        put_real(table, times[i]);
    }
    const double transit = times[1], wait = times[2], sync = times[3];
    const struct rs_vendor_num sync_ratio = rs_vendor_num_ratio(sync, sync + transit);
    const struct rs_vendor_num wait_ratio = rs_vendor_num_ratio(wait, wait + transit);
    put_num(table, &sync_ratio);
    put_num(table, &wait_ratio);
    return end_row(table);
}

static void declare_times(const struct run *run, struct rs_buf *sql)
{
    static const struct real_name columns[] = {
        {"start_timestamp", REAL_TIME},          {"elapsed_time", REAL_TIME + 1},
        {"transit_time", REAL_TIME + 2},         {"wait_time", REAL_TIME + 3},
        {"synchronization_time", REAL_TIME + 4}, {"idle_time", REAL_TIME + 5}};
    rs_buf_string(sql, "step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT");
    declare(run, columns, 6, sql);
    rs_buf_string(sql, ", synchronization_time_ratio REAL, wait_time_ratio REAL");
}

static enum rs_status fill_times(struct table *table)
{
    const struct run *run = table->run;
    enum rs_status status = RS_OK;
    for (size_t r = 0; r < run->rank_count; r++)
        for (size_t i = 0; i < run->ranks[r].comm.op_count && status == RS_OK; i++)
            status = put_op_time(table, &run->ranks[r], &run->ranks[r].comm.ops[i]);
    for (size_t r = 0; r < run->rank_count; r++)
        for (size_t i = 0; i < run->ranks[r].totals.count && status == RS_OK; i++)
            status = put_total_time(table, &run->ranks[r], &run->ranks[r].totals.rows[i]);
    return status;
}

/* ---- ClusterCommunicationBandwidth ------------------------------------------------------------- */

/* What stands before the package in a row of a transport. */
struct band_row {
    const struct rank_data *rank;
    rs_str step, name, group, transport; /* name RS_STR_NONE: of the totals */
    struct rs_vendor_num fields[RS_VENDOR_COMM_BAND_FIELDS];
};

/* A package size is text where it is a key; as a cell it is a number. */
static void put_size(struct table *table, const struct rank_data *rank, rs_str size)
{
    struct rs_vendor_num num = {.kind = RS_VENDOR_NUM_INT};
    if (size != RS_STR_NONE) {
        const char *text = rs_strtab_text(&rank->comm.names, size);
        const size_t length = rs_strtab_length(&rank->comm.names, size);
        if (rs_vendor_num_scan(text, length) != length ||
            rs_vendor_num_parse(text, length, &num) != RS_OK)
            num = (struct rs_vendor_num){0};
    }
    put_num(table, &num);
}

static enum rs_status put_band_row(struct table *table, const struct band_row *row, rs_str size,
                                   const struct rs_vendor_num *count,
                                   const struct rs_vendor_num *duration)
{
    put_id(table, row->rank, row->step);
    put_int(table, row->rank->rank);
    if (row->name == RS_STR_NONE)
        put_bytes(table, "Total Op Info", 13);
    else
        put_id(table, row->rank, row->name);
    put_id(table, row->rank, row->group);
    put_id(table, row->rank, row->transport);
    for (int i = 0; i < RS_VENDOR_COMM_BAND_FIELDS; i++)
        put_num(table, &row->fields[i]);
    put_size(table, row->rank, size);
    put_num(table, count);
    put_num(table, duration);
    return end_row(table);
}

/* Text names all five transports; the tables leave out those that carried nothing. */
static bool is_idle(const struct rs_vendor_num *fields)
{
    double sum = 0;
    for (int i = 0; i < RS_VENDOR_COMM_BAND_FIELDS; i++)
        sum += rs_vendor_num_double(&fields[i]);
    return sum == 0;
}

static enum rs_status put_op_bands(struct table *table, const struct rank_data *rank,
                                   const struct rs_vendor_comm_op *op)
{
    const struct rs_vendor_num zero = {.kind = RS_VENDOR_NUM_INT};
    struct rs_vendor_num count, duration;
    struct rs_vendor_comm_cursor cursor;
    struct band_row row = {.rank = rank, .step = op->step, .name = op->name, .group = op->group};
    enum rs_status status = RS_OK;
    rs_str size = 0;
    rs_vendor_comm_bands_open(&rank->comm, op, &cursor);
    while (status == RS_OK && rs_vendor_comm_band(&cursor, &row.transport, row.fields)) {
        const bool is_left_out = is_idle(row.fields);
        if (cursor.packages == 0 && !is_left_out)
            status = put_band_row(table, &row, RS_STR_NONE, &zero, &zero);
        while (rs_vendor_comm_package(&cursor, &size, &count, &duration))
            if (!is_left_out && status == RS_OK)
                status = put_band_row(table, &row, size, &count, &duration);
    }
    return status;
}

static struct rs_vendor_num table_sum(const struct sum *sum, double weight)
{
    return sum->is_float ? rs_vendor_num_of_double(sum->kahan * weight)
                         : rs_vendor_num_of_int(sum->whole * (int64_t)weight);
}

static enum rs_status put_total_bands(struct table *table, const struct rank_data *rank,
                                      const struct total *total)
{
    const struct rs_vendor_num zero = {.kind = RS_VENDOR_NUM_INT};
    const double weight = weight_of(table->run, rank, total->group);
    struct band_row row = {
        .rank = rank, .step = total->step, .name = RS_STR_NONE, .group = total->group};
    enum rs_status status = RS_OK;
    for (uint32_t b = total->first; b != NO_INDEX && status == RS_OK;
         b = rank->totals.bands[b].next) {
        const struct band_total *band = &rank->totals.bands[b];
        row.transport = band->transport;
        row.fields[RS_VENDOR_COMM_SIZE] = rs_vendor_num_of_double(band->size_pairs);
        row.fields[RS_VENDOR_COMM_TIME] = rs_vendor_num_of_double(band->time_pairs);
        row.fields[RS_VENDOR_COMM_BANDWIDTH] =
            rs_vendor_num_ratio(rs_vendor_num_double(&row.fields[RS_VENDOR_COMM_SIZE]),
                                rs_vendor_num_double(&row.fields[RS_VENDOR_COMM_TIME]));
        row.fields[RS_VENDOR_COMM_LARGE_RATIO] = zero;
        if (is_idle(row.fields))
            continue;
        if (band->first == NO_INDEX)
            status = put_band_row(table, &row, RS_STR_NONE, &zero, &zero);
        for (uint32_t p = band->first; p != NO_INDEX && status == RS_OK;
             p = rank->totals.packages[p].next) {
            const struct package_total *package = &rank->totals.packages[p];
            const struct rs_vendor_num count = table_sum(&package->count, weight);
            const struct rs_vendor_num duration = table_sum(&package->duration, weight);
            status = put_band_row(table, &row, package->size, &count, &duration);
        }
    }
    return status;
}

static void declare_bands(const struct run *run, struct rs_buf *sql)
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

static enum rs_status fill_bands(struct table *table)
{
    const struct run *run = table->run;
    enum rs_status status = RS_OK;
    for (size_t r = 0; r < run->rank_count; r++)
        for (size_t i = 0; i < run->ranks[r].comm.op_count && status == RS_OK; i++)
            status = put_op_bands(table, &run->ranks[r], &run->ranks[r].comm.ops[i]);
    for (size_t r = 0; r < run->rank_count; r++)
        for (size_t i = 0; i < run->ranks[r].totals.count && status == RS_OK; i++)
            status = put_total_bands(table, &run->ranks[r], &run->ranks[r].totals.rows[i]);
    return status;
}

/* ---- ClusterCommunicationMatrix ---------------------------------------------------------------- */

static enum rs_status put_link(struct table *table, const struct link_row *row, const char *name)
{
    const struct run *run = table->run;
    const double size = row->size.kahan, time = row->time.kahan;
    put_text(table, rs_strtab_text(&run->steps, row->step));
    put_text(table, name);
    put_text(table, run->groups[row->group].hash);
    put_real(table, (double)row->src);
    put_real(table, (double)row->dst);
    put_text(table, row->first_transport);
    put_text(table, row->first_op);
    put_real(table, size);
    put_real(table, time);
    put_real(table, fabs(time) < 1e-15 ? 0 : size / time);
    return end_row(table);
}

static enum rs_status put_link_totals(struct table *table, struct link_totals *totals)
{
    enum rs_status status = RS_OK;
    link_totals_fold(totals);
    for (size_t i = 0; i < totals->count && status == RS_OK; i++)
        status = put_link(table, &totals->rows[i], "Total Op Info");
    totals->count = 0;
    return status;
}

static enum rs_status fill_links(struct table *table)
{
    const struct run *run = table->run;
    struct link_totals totals = {0};
    struct link_row row, last = {0};
    enum rs_status status = RS_OK;
    size_t at = 0;
    while (status == RS_OK && next_link(run, &at, &row)) {
        const char *name = rs_strtab_text(&run->names, row.name);
        if (totals.count && (row.key != last.key || row.step != last.step))
            status = put_link_totals(table, &totals);
        if (status == RS_OK)
            status = put_link(table, &row, name);
        if (status == RS_OK && counts_in_table(name) && link_totals_add(&totals, &row) != RS_OK)
            status = rs_err_set(table->err, RS_NOMEM, "no memory for sums over links");
        last = row;
    }
    if (status == RS_OK)
        status = put_link_totals(table, &totals);
    rs_mem_free(totals.rows);
    return status;
}

static void declare_links(const struct run *run, struct rs_buf *sql)
{
    static const struct real_name columns[] = {{"transit_size", REAL_LINK},
                                               {"transit_time", REAL_LINK + 1}};
    rs_buf_string(sql,
                  "step TEXT, hccl_op_name TEXT, group_name TEXT, src_rank REAL, dst_rank REAL, "
                  "transport_type TEXT, op_name TEXT");
    declare(run, columns, 2, sql);
    rs_buf_string(sql, ", bandwidth REAL");
}

/* ---- the small tables -------------------------------------------------------------------------- */

/* "(0,1)"; copied by the statement's owner until the row is done. */
static char *set_text(const struct rank_set *set)
{
    struct rs_buf buf = {0};
    rs_buf_string(&buf, "(");
    for (size_t i = 0; i < set->count; i++)
        rs_buf_printf(&buf, "%s%lld", i ? "," : "", (long long)set->ranks[i]);
    rs_buf_string(&buf, ")");
    char *text = buf.failed ? NULL : rs_mem_strdup(rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return text;
}

static enum rs_status put_group(struct table *table, const struct group *group, enum side side)
{
    const struct rank_set *set = group_ranks(group, side);
    if (table->run->options->compat && !group->named.count)
        set = &group->by_ops[side];
    if (!set->count)
        return RS_OK;
    char *ranks = set_text(set);
    if (!ranks)
        return rs_err_set(table->err, RS_NOMEM, "no memory to write groups");
    put_text(table, side == SIDE_P2P ? "p2p" : "collective");
    put_text(table, ranks);
    put_text(table, group->hash);
    put_text(table, group->id);
    put_text(table, group->name);
    const enum rs_status status = end_row(table);
    rs_mem_free(ranks);
    return status;
}

static enum rs_status write_groups(struct table *table)
{
    const struct run *run = table->run;
    enum rs_status status =
        begin_table(table, "CommunicationGroupMapping",
                    "type TEXT, rank_set TEXT, group_name TEXT, group_id TEXT, pg_name TEXT", 5);
    for (int side = 0; side < SIDES; side++)
        for (size_t i = 0; i < run->group_count && status == RS_OK; i++)
            if (run->groups[i].by_any[side].count)
                status = put_group(table, &run->groups[i], (enum side)side);
    return end_table(table, status);
}

static void put_place(struct table *table, bool has_place, const int64_t *place)
{
    for (int i = 0; i < 3; i++) {
        if (has_place)
            put_int(table, place[i]);
        else if (table->run->options->compat)
            put_int(table, 0); /* the vendor's tool cannot say "unknown" */
        else
            put_text(table, NULL);
    }
}

static enum rs_status put_rank_steps(struct table *table, const struct rank_data *rank)
{
    char index[32];
    int64_t place[3];
    enum rs_status status = RS_OK;
    const bool has_place = place_of(&table->run->layout, rank->rank, place);
    (void)snprintf(index, sizeof index, "%lld", (long long)rank->rank);
    for (size_t i = 0; i < rank->steps.count && status == RS_OK; i++) {
        put_text(table, rank->steps.rows[i].step);
        put_text(table, "rank");
        put_text(table, index);
        for (int f = 0; f < RS_VENDOR_STEP_FIELDS; f++)
            put_num(table, &rank->steps.rows[i].values[f]);
        put_place(table, has_place, place);
        status = end_row(table);
    }
    return status;
}

static bool is_first_of_step(const struct run *run, size_t rank, size_t row)
{
    const char *step = run->ranks[rank].steps.rows[row].step;
    for (size_t r = 0; r <= rank; r++) {
        const size_t end = r == rank ? row : run->ranks[r].steps.count;
        for (size_t i = 0; i < end; i++)
            if (strcmp(run->ranks[r].steps.rows[i].step, step) == 0)
                return false;
    }
    return true;
}

static enum rs_status put_stage_step(struct table *table, const struct rank_set *stage,
                                     const char *step, const char *index)
{
    double maxima[RS_VENDOR_STEP_FIELDS];
    if (!stage_row(table->run, stage, step, maxima))
        return RS_OK;
    put_text(table, step);
    put_text(table, "stage");
    put_text(table, index);
    for (int f = 0; f < RS_VENDOR_STEP_FIELDS; f++)
        put_real(table, maxima[f]);
    for (int i = 0; i < 3; i++)
        put_text(table, "NA"); /* as the vendor's tool, text in an INTEGER column */
    return end_row(table);
}

static enum rs_status put_stage_steps(struct table *table, const struct rank_set *stage)
{
    const struct run *run = table->run;
    enum rs_status status = RS_OK;
    char *index = set_text(stage);
    if (!index)
        return rs_err_set(table->err, RS_NOMEM, "no memory to write stages");
    for (size_t r = 0; r < run->rank_count; r++)
        for (size_t i = 0; i < run->ranks[r].steps.count && status == RS_OK; i++)
            if (is_first_of_step(run, r, i))
                status = put_stage_step(table, stage, run->ranks[r].steps.rows[i].step, index);
    rs_mem_free(index);
    return status;
}

static enum rs_status write_steps(struct table *table)
{
    const struct run *run = table->run;
    struct rs_buf columns = {0};
    rs_buf_string(&columns, "step TEXT,type TEXT,\"index\" TEXT");
    for (int f = 0; f < RS_VENDOR_STEP_FIELDS; f++)
        rs_buf_printf(&columns, ",%s NUMERIC", rs_vendor_step_columns[f]);
    rs_buf_string(&columns, ",dp_index INTEGER,pp_index INTEGER,tp_index INTEGER");
    enum rs_status status = begin_table(table, "ClusterStepTraceTime", rs_buf_text(&columns), 15);
    rs_buf_fini(&columns);
    for (size_t r = 0; r < run->rank_count && status == RS_OK; r++)
        status = put_rank_steps(table, &run->ranks[r]);
    for (size_t s = 0; s < run->stages.count && status == RS_OK; s++)
        status = put_stage_steps(table, &run->stages.sets[s]);
    return end_table(table, status);
}

static bool is_new_host(const struct run *run, size_t index)
{
    const char *uid = run->ranks[index].place.host_uid;
    for (size_t i = 0; uid && i < index; i++)
        if (run->ranks[i].place.host_uid && strcmp(run->ranks[i].place.host_uid, uid) == 0)
            return false;
    return uid != NULL;
}

/* Only databases name hosts. Without any, the two tables of places are left out, as the vendor's tool
 * has none for text. */
static bool has_hosts(const struct run *run)
{
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].place.host_uid)
            return true;
    return false;
}

static enum rs_status write_hosts(struct table *table)
{
    const struct run *run = table->run;
    if (!has_hosts(run))
        return RS_OK;
    enum rs_status status = begin_table(table, "HostInfo", "hostUid TEXT,hostName TEXT", 2);
    for (size_t r = 0; r < run->rank_count && status == RS_OK; r++) {
        if (!is_new_host(run, r))
            continue;
        put_text(table, run->ranks[r].place.host_uid);
        put_text(table, run->ranks[r].place.host_name);
        status = end_row(table);
    }
    return end_table(table, status);
}

/* Text results do not say where they ran, but their directory starts with the host's name unless the
 * user chose another: when a database names a host like that, it is the one. */
static const char *host_by_name(const struct run *run, const char *dir)
{
    const char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    for (size_t i = 0; i < run->rank_count; i++) {
        const char *host = run->ranks[i].place.host_name;
        const size_t length = host ? strlen(host) : 0;
        if (length && strncmp(name, host, length) == 0 && name[length] == '_' &&
            strspn(name + length + 1, "0123456789") > 0 &&
            name[length + 1 + strspn(name + length + 1, "0123456789")] == '_')
            return run->ranks[i].place.host_uid;
    }
    return NULL;
}

static enum rs_status write_devices(struct table *table)
{
    const struct run *run = table->run;
    if (!has_hosts(run))
        return RS_OK;
    enum rs_status status = begin_table(
        table, "RankDeviceMap", "rankId INTEGER,deviceId INTEGER,hostUid TEXT,profilePath TEXT", 4);
    for (size_t r = 0; r < run->rank_count && status == RS_OK; r++) {
        const struct rank_data *rank = &run->ranks[r];
        const int64_t device = rank->place.device >= 0 ? rank->place.device
                               : rank->steps.count     ? rank->steps.rows[0].device
                                                       : -1;
        char whole[PATH_MAX];
        put_int(table, rank->rank);
        if (device >= 0)
            put_int(table, device);
        else
            put_text(table, NULL);
        put_text(table, rank->place.host_uid ? rank->place.host_uid
                                             : host_by_name(run, rank->vendor->dir));
        put_text(table, realpath(rank->vendor->dir, whole) ? whole : rank->vendor->dir);
        status = end_row(table);
    }
    return end_table(table, status);
}

/* distributed_args without the member "rank", which differs from rank to rank. */
static char *base_info(const char *text)
{
    json_t *args = json_loads(text, 0, NULL);
    (void)json_object_del(args, "rank");
    char *dumped = args ? json_dumps(args, JSON_ENSURE_ASCII) : NULL;
    char *copy = dumped ? rs_mem_strdup(dumped) : NULL;
    free(dumped); /* jansson's */
    json_decref(args);
    return copy;
}

static enum rs_status write_base(struct table *table)
{
    const struct run *run = table->run;
    enum rs_status status = begin_table(table, "ClusterBaseInfo", "key TEXT,value TEXT", 2);
    for (size_t r = 0; r < run->rank_count && status == RS_OK; r++) {
        if (!run->ranks[r].has_meta || !run->ranks[r].meta.has_sizes)
            continue;
        char *value = base_info(run->ranks[r].meta.distributed_args);
        if (!value)
            return end_table(table, rs_err_set(table->err, RS_NOMEM, "no memory to write sizes"));
        put_text(table, "distributed_args");
        put_text(table, value);
        status = end_row(table);
        rs_mem_free(value);
        break;
    }
    return end_table(table, status);
}

/* ---- the file ----------------------------------------------------------------------------------- */

struct large {
    const char *name;
    unsigned part; /* enum rs_vendor_comm_part */
    void (*declare)(const struct run *run, struct rs_buf *sql);
    enum rs_status (*fill)(struct table *table);
    uint32_t root;
};

enum { LARGE_TABLES = 3 };
static const struct large large_tables[LARGE_TABLES] = {
    {"ClusterCommunicationTime", RS_VENDOR_COMM_OPS, declare_times, fill_times, 0},
    {"ClusterCommunicationBandwidth", RS_VENDOR_COMM_OPS, declare_bands, fill_bands, 0},
    {"ClusterCommunicationMatrix", RS_VENDOR_COMM_LINKS, declare_links, fill_links, 0},
};

static bool is_wanted(const struct run *run, const struct large *large)
{
    const enum rs_cluster_mode mode = run->options->mode;
    return mode == RS_CLUSTER_ALL ||
           (mode == RS_CLUSTER_COMMUNICATION_TIME) == (large->part == RS_VENDOR_COMM_OPS);
}

/* An empty table, for the bulk writer. */
static enum rs_status create_large(struct table *table, struct large *large)
{
    struct rs_buf sql = {0};
    sqlite3_stmt *stmt = NULL;
    rs_buf_printf(&sql, "CREATE TABLE %s (", large->name);
    large->declare(table->run, &sql);
    rs_buf_string(&sql, ")");
    enum rs_status status =
        sql.failed ? rs_err_set(table->err, RS_NOMEM, "no memory to write %s", large->name)
                   : run_sql(table, rs_buf_text(&sql));
    rs_buf_fini(&sql);
    if (status != RS_OK)
        return status;
    if (sqlite3_prepare_v2(table->db, "SELECT rootpage FROM sqlite_master WHERE name = ?1", -1,
                           &stmt, NULL) != SQLITE_OK ||
        sqlite3_bind_text(stmt, 1, large->name, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW)
        status = failed(table);
    else
        large->root = (uint32_t)sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return status;
}

static enum rs_status write_small(struct table *table, struct large *large)
{
    static enum rs_status (*const small[])(struct table *) = {
        write_groups, write_steps, write_hosts, write_devices, write_base};
    enum rs_status status = run_sql(table, "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; "
                                           "PRAGMA synchronous=OFF; BEGIN");
    for (size_t i = 0; i < LARGE_TABLES && status == RS_OK; i++)
        if (is_wanted(table->run, &large[i]))
            status = create_large(table, &large[i]);
    for (size_t i = 0; i < sizeof small / sizeof small[0] && status == RS_OK; i++)
        status = small[i](table);
    return status == RS_OK ? run_sql(table, "COMMIT") : status;
}

/* Schema and small tables with SQLite. */
static enum rs_status make_file(struct table *table, const char *path, struct large *large)
{
    enum rs_status status = RS_OK;
    (void)unlink(path);
    if (sqlite3_open_v2(path, &table->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        status = failed(table);
    if (status == RS_OK)
        status = write_small(table, large);
    if (sqlite3_close(table->db) != SQLITE_OK && status == RS_OK)
        status = rs_err_set(table->err, RS_IO, "cannot close cluster_analysis.db");
    table->db = NULL;
    return status;
}

/* The large tables, into the closed file. */
static enum rs_status fill_file(struct table *table, const char *path, const struct large *large)
{
    struct bulk *bulk = rs_mem_calloc(1, sizeof *bulk);
    if (!bulk)
        return rs_err_set(table->err, RS_NOMEM, "no memory to write %s", path);
    enum rs_status status = bulk_open(bulk, path);
    table->bulk = bulk;
    for (size_t i = 0; i < LARGE_TABLES && status == RS_OK; i++) {
        if (!is_wanted(table->run, &large[i]))
            continue;
        bulk_begin(bulk, large[i].root);
        status = large[i].fill(table);
        bulk_end(bulk);
    }
    table->bulk = NULL;
    const enum rs_status closed = bulk_close(bulk);
    if (closed != RS_OK)
        status = rs_err_set(table->err, closed, "%s", bulk->err.text);
    rs_mem_free(bulk);
    return status;
}

enum rs_status write_db(const struct run *run, const char *dir, uint64_t *bytes_p,
                        struct rs_err *err)
{
    struct table table = {.run = run, .err = err};
    struct large large[LARGE_TABLES];
    struct stat st;
    char *path = rs_file_join(dir, "cluster_analysis.db");
    char *temporary = rs_file_join(dir, ".cluster_analysis.db.part");
    enum rs_status status =
        path && temporary ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory to write %s", dir);
    memcpy(large, large_tables, sizeof large);
    if (status == RS_OK)
        status = make_file(&table, temporary, large);
    if (status == RS_OK)
        status = fill_file(&table, temporary, large);
    if (status == RS_OK && rename(temporary, path) != 0)
        status = rs_err_errno(err, "cannot put %s in its place", path);
    if (status != RS_OK && temporary)
        (void)unlink(temporary);
    if (status == RS_OK && stat(path, &st) == 0)
        *bytes_p = (uint64_t)st.st_size;
    rs_mem_free(path);
    rs_mem_free(temporary);
    return status;
}
