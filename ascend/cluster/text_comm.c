/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_communication.json and cluster_communication_matrix.json, written in one pass over the
 * sorted rows: what is in memory is one row at a time.
 *
 *     { "(0, 1)": { "step1": { "op@group": { "0": {..}, "1": {..} }, "Total Op Info@group": {..} } } }
 *
 * Keys, their order and the spacing are those of the vendor's tool.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

#define PUT(sink, literal) sink_bytes((sink), (literal), sizeof(literal) - 1)

static void put_key(struct sink *sink, const struct rank_set *set)
{
    PUT(sink, "\"(");
    for (size_t i = 0; i < set->count; i++) {
        if (i)
            PUT(sink, ", ");
        sink_int(sink, set->ranks[i]);
    }
    if (set->count == 1)
        PUT(sink, ",");
    PUT(sink, ")\": {");
}

/* "name@group": */
static void put_name(struct sink *sink, const char *name, size_t length, const char *group)
{
    char text[512];
    const int used =
        snprintf(text, sizeof text, "%.*s@%s", (int)(length < 400 ? length : 400), name, group);
    if (length < 400 && used > 0 && (size_t)used < sizeof text) {
        sink_quoted(sink, text, (size_t)used);
    } else {
        char *whole = rs_mem_calloc(length + strlen(group) + 2, 1);
        if (!whole) {
            sink->status = rs_err_set(&sink->err, RS_NOMEM, "no memory to write %s", sink->path);
            return;
        }
        memcpy(whole, name, length);
        whole[length] = '@';
        memcpy(whole + length + 1, group, strlen(group) + 1);
        sink_quoted(sink, whole, length + 1 + strlen(group));
        rs_mem_free(whole);
    }
    PUT(sink, ": {");
}

/* ---- cluster_communication.json ------------------------------------------------------------ */

static const char *const time_heads[RS_ASCEND_COMM_TIMES] = {
    "\"Start Timestamp(us)\": ", "\"Elapse Time(ms)\": ",           "\"Transit Time(ms)\": ",
    "\"Wait Time(ms)\": ",       "\"Synchronization Time(ms)\": ",  "\"Idle Time(ms)\": ",
    "\"Wait Time Ratio\": ",     "\"Synchronization Time Ratio\": "};

static const char *const standard_transports[] = {"RDMA", "HCCS", "PCIE", "SDMA", "SIO"};
enum { STANDARD_TRANSPORTS = 5 };

/* Databases keep no ratios; the text form has them. */
static void fill_ratios(struct rs_ascend_num *times)
{
    const double transit = rs_ascend_num_known(&times[RS_ASCEND_COMM_TRANSIT]);
    const double wait = rs_ascend_num_known(&times[RS_ASCEND_COMM_WAIT]);
    const double sync = rs_ascend_num_known(&times[RS_ASCEND_COMM_SYNC]);
    if (times[RS_ASCEND_COMM_WAIT_RATIO].kind == RS_ASCEND_NUM_NONE)
        times[RS_ASCEND_COMM_WAIT_RATIO] = rs_ascend_num_ratio(wait, wait + transit);
    if (times[RS_ASCEND_COMM_SYNC_RATIO].kind == RS_ASCEND_NUM_NONE)
        times[RS_ASCEND_COMM_SYNC_RATIO] = rs_ascend_num_ratio(sync, sync + transit);
}

static void put_times(struct sink *sink, const struct rs_ascend_num *times)
{
    bool is_first = true;
    PUT(sink, "{\"Communication Time Info\": {");
    for (int i = 0; i < RS_ASCEND_COMM_TIMES; i++) {
        if (times[i].kind == RS_ASCEND_NUM_NONE)
            continue;
        if (!is_first)
            PUT(sink, ", ");
        is_first = false;
        sink_text(sink, time_heads[i]);
        sink_num(sink, &times[i]);
    }
    PUT(sink, "}, \"Communication Bandwidth Info\": {");
}

static void put_field(struct sink *sink, const char *head, const struct rs_ascend_num *num)
{
    sink_text(sink, head);
    sink_num(sink, num); /* null: not known */
}

static void put_transport(struct sink *sink, const char *name, size_t length, bool is_first)
{
    if (!is_first)
        PUT(sink, ", ");
    sink_quoted(sink, name, length);
}

static void put_packages(struct sink *sink, const struct rs_ascend_comm *comm,
                         struct rs_ascend_comm_cursor *cursor)
{
    struct rs_ascend_num count, duration;
    rs_str size = 0;
    bool is_first = true;
    PUT(sink, ", \"Size Distribution\": {");
    while (rs_ascend_comm_package(cursor, &size, &count, &duration)) {
        if (!is_first)
            PUT(sink, ", ");
        is_first = false;
        sink_quoted(sink, rs_strtab_text(&comm->names, size), rs_strtab_length(&comm->names, size));
        PUT(sink, ": [");
        sink_num(sink, &count);
        PUT(sink, ", ");
        sink_num(sink, &duration);
        PUT(sink, "]");
    }
    PUT(sink, "}}");
}

static void put_band(struct sink *sink, const struct rs_ascend_comm *comm,
                     const struct rs_ascend_num *fields, struct rs_ascend_comm_cursor *cursor)
{
    put_field(sink, ": {\"Transit Size(MB)\": ", &fields[RS_ASCEND_COMM_SIZE]);
    put_field(sink, ", \"Transit Time(ms)\": ", &fields[RS_ASCEND_COMM_TIME]);
    put_field(sink, ", \"Bandwidth(GB/s)\": ", &fields[RS_ASCEND_COMM_BANDWIDTH]);
    put_field(sink, ", \"Large Packet Ratio\": ", &fields[RS_ASCEND_COMM_LARGE_RATIO]);
    put_packages(sink, comm, cursor);
}

/* A transport of the standard five that the operation's database rows leave out, being zero. */
static void put_zero_bands(struct sink *sink, unsigned seen, bool is_first)
{
    for (unsigned i = 0; i < STANDARD_TRANSPORTS; i++) {
        if (seen & 1U << i)
            continue;
        put_transport(sink, standard_transports[i], strlen(standard_transports[i]), is_first);
        is_first = false;
        PUT(sink, ": {\"Transit Size(MB)\": 0, \"Transit Time(ms)\": 0, \"Bandwidth(GB/s)\": 0, "
                  "\"Large Packet Ratio\": 0, \"Size Distribution\": {}}");
    }
}

static unsigned standard_bit(const char *name)
{
    for (unsigned i = 0; i < STANDARD_TRANSPORTS; i++)
        if (strcmp(name, standard_transports[i]) == 0)
            return 1U << i;
    return 0;
}

static void put_op(struct sink *sink, const struct rank_data *rank,
                   const struct rs_ascend_comm_op *op)
{
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES], fields[RS_ASCEND_COMM_BAND_FIELDS];
    struct rs_ascend_comm_cursor cursor;
    const struct rs_strtab *names = &rank->comm.names;
    rs_str transport = 0;
    unsigned seen = 0;
    bool is_first = true;
    rs_ascend_comm_op_open(&rank->comm, op, &cursor, times);
    if (rank->is_db)
        fill_ratios(times);
    put_times(sink, times);
    while (rs_ascend_comm_band(&cursor, &transport, fields)) {
        const char *name = rs_strtab_text(names, transport);
        put_transport(sink, name, rs_strtab_length(names, transport), is_first);
        is_first = false;
        seen |= rank->is_db ? standard_bit(name) : 0;
        put_band(sink, &rank->comm, fields, &cursor);
    }
    if (rank->is_db)
        put_zero_bands(sink, seen, is_first);
    PUT(sink, "}}");
}

static void put_total_band(struct sink *sink, const struct rank_data *rank,
                           const struct band_total *band)
{
    const struct rs_strtab *names = &rank->comm.names;
    const struct rs_ascend_num time = sum_text(&band->time), size = sum_text(&band->size);
    const struct rs_ascend_num bandwidth =
        rs_ascend_num_ratio(rs_ascend_num_known(&size), rs_ascend_num_known(&time));
    PUT(sink, ": {\"Transit Time(ms)\": ");
    sink_num(sink, &time);
    PUT(sink, ", \"Transit Size(MB)\": ");
    sink_num(sink, &size);
    PUT(sink, ", \"Size Distribution\": {");
    for (uint32_t i = band->first; i != NO_INDEX; i = rank->totals.packages[i].next) {
        const struct package_total *package = &rank->totals.packages[i];
        const struct rs_ascend_num count = sum_text(&package->count);
        const struct rs_ascend_num duration = sum_text(&package->duration);
        if (i != band->first)
            PUT(sink, ", ");
        sink_quoted(sink, rs_strtab_text(names, package->size),
                    rs_strtab_length(names, package->size));
        PUT(sink, ": [");
        sink_num(sink, &count);
        PUT(sink, ", ");
        sink_num(sink, &duration);
        PUT(sink, "]");
    }
    PUT(sink, "}, \"Bandwidth(GB/s)\": ");
    sink_num(sink, &bandwidth);
    PUT(sink, "}");
}

/* Times always come out as floats: the vendor's tool starts these sums at 0.0. */
static void put_total(struct sink *sink, const struct rank_data *rank, const struct total *total)
{
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES] = {0};
    const struct rs_strtab *names = &rank->comm.names;
    unsigned seen = 0;
    bool is_first = true;
    for (unsigned i = 0; i < TOTAL_TIMES; i++)
        times[RS_ASCEND_COMM_ELAPSE + i] = rs_ascend_num_of_double(total->times[i].plain);
    fill_ratios(times);
    put_times(sink, times);
    for (uint32_t i = total->first; i != NO_INDEX; i = rank->totals.bands[i].next) {
        const struct band_total *band = &rank->totals.bands[i];
        const char *name = rs_strtab_text(names, band->transport);
        put_transport(sink, name, rs_strtab_length(names, band->transport), is_first);
        is_first = false;
        seen |= standard_bit(name);
        put_total_band(sink, rank, band);
    }
    for (unsigned i = 0; rank->is_db && i < STANDARD_TRANSPORTS; i++) {
        if (seen & 1U << i)
            continue;
        put_transport(sink, standard_transports[i], strlen(standard_transports[i]), is_first);
        is_first = false;
        PUT(sink, ": {\"Transit Time(ms)\": 0, \"Transit Size(MB)\": 0, \"Size Distribution\": {}, "
                  "\"Bandwidth(GB/s)\": 0}");
    }
    PUT(sink, "}}");
}

static void put_rank(struct sink *sink, int64_t rank, bool is_first)
{
    if (!is_first)
        PUT(sink, ", ");
    PUT(sink, "\"");
    sink_int(sink, rank);
    PUT(sink, "\": ");
}

static const struct total *find_total(const struct rank_data *rank, uint32_t step, uint32_t group)
{
    for (size_t i = 0; i < rank->totals.count; i++) {
        const struct total *total = &rank->totals.rows[i];
        if (rank->group_of[total->group] == group && rank->step_of[total->step] == step)
            return total;
    }
    return NULL;
}

static void put_group_total(const struct run *run, struct sink *sink, uint32_t step, uint32_t group)
{
    const struct group *of = &run->groups[group];
    bool is_first = true;
    put_name(sink, "Total Op Info", 13, of->hash);
    for (size_t i = 0; i < of->both.count; i++) {
        const struct rank_data *rank = find_rank(run, of->both.ranks[i]);
        const struct total *total = rank ? find_total(rank, step, group) : NULL;
        if (!total)
            continue;
        put_rank(sink, rank->rank, is_first);
        is_first = false;
        put_total(sink, rank, total);
    }
    PUT(sink, "}");
}

static void put_totals(const struct run *run, struct sink *sink, uint32_t key, uint32_t step)
{
    for (uint32_t g = 0; g < run->group_count; g++) {
        if (run->groups[g].key != key)
            continue;
        bool has_ops = false;
        for (size_t i = 0; i < run->groups[g].both.count && !has_ops; i++) {
            const struct rank_data *rank = find_rank(run, run->groups[g].both.ranks[i]);
            has_ops = rank && find_total(rank, step, g);
        }
        if (!has_ops)
            continue;
        PUT(sink, ", ");
        put_group_total(run, sink, step, g);
    }
}

/* What has to be closed and opened between two rows. */
static void turn_page(const struct run *run, struct sink *sink, bool is_new_key, bool is_new_step,
                      uint32_t key)
{
    if (is_new_key) {
        put_key(sink, run->keys[key].ranks);
    } else if (is_new_step) {
        PUT(sink, ", ");
    }
}

static void put_step(const struct run *run, struct sink *sink, uint32_t step)
{
    sink_quoted(sink, rs_strtab_text(&run->steps, step), rs_strtab_length(&run->steps, step));
    PUT(sink, ": {");
}

/* The rows of one name, from `at` on; returns where the next one begins. Of two rows of one rank, which
 * would be one key twice, the last counts. */
static size_t put_op_rows(const struct run *run, struct sink *sink, size_t at)
{
    const struct op_ref *first = &run->ops[at];
    bool is_first = true;
    put_name(sink, rs_strtab_text(&run->names, first->name),
             rs_strtab_length(&run->names, first->name), run->groups[first->group].hash);
    for (; at < run->op_count; at++) {
        const struct op_ref *ref = &run->ops[at];
        if (ref->key != first->key || ref->step != first->step || ref->name != first->name ||
            ref->group != first->group)
            break;
        const struct op_ref *next = at + 1 < run->op_count ? ref + 1 : NULL;
        if (next && next->rank == ref->rank && next->name == ref->name &&
            next->group == ref->group && next->step == ref->step)
            continue;
        const struct rank_data *rank = &run->ranks[ref->rank];
        put_rank(sink, rank->rank, is_first);
        is_first = false;
        put_op(sink, rank, &rank->comm.ops[ref->index]);
    }
    PUT(sink, "}");
    return at;
}

static void put_all_ops(const struct run *run, struct sink *sink)
{
    size_t at = 0;
    PUT(sink, "{");
    while (at < run->op_count) {
        const struct op_ref ref = run->ops[at];
        const bool is_new_key = at == 0 || run->ops[at - 1].key != ref.key;
        const bool is_new_step = is_new_key || run->ops[at - 1].step != ref.step;
        if (is_new_key && at)
            PUT(sink, ", ");
        if (is_new_step) {
            turn_page(run, sink, is_new_key, is_new_step, ref.key);
            put_step(run, sink, ref.step);
        } else {
            PUT(sink, ", ");
        }
        at = put_op_rows(run, sink, at);
        const bool is_last_of_key = at == run->op_count || run->ops[at].key != ref.key;
        if (is_last_of_key || run->ops[at].step != ref.step) {
            put_totals(run, sink, ref.key, ref.step);
            PUT(sink, "}");
        }
        if (is_last_of_key)
            PUT(sink, "}");
    }
    PUT(sink, "}");
}

enum rs_status write_comm_json(const struct run *run, const char *dir, uint64_t *bytes_p,
                               struct rs_err *err)
{
    struct sink sink;
    enum rs_status status = sink_open(&sink, dir, "cluster_communication.json");
    if (status == RS_OK)
        put_all_ops(run, &sink);
    status = sink_close(&sink);
    *bytes_p = sink.written;
    return status == RS_OK ? status : rs_err_set(err, status, "%s", sink.err.text);
}

/* ---- cluster_communication_matrix.json ------------------------------------------------------ */

static void put_link(struct sink *sink, const struct link_row *row, bool is_first)
{
    const struct rs_ascend_num size = sum_text(&row->size), time = sum_text(&row->time);
    const struct rs_ascend_num bandwidth =
        rs_ascend_num_ratio(rs_ascend_num_known(&size), rs_ascend_num_known(&time));
    const char *op = row->last_op ? row->last_op : "";
    if (!is_first)
        PUT(sink, ", ");
    PUT(sink, "\"");
    sink_int(sink, row->src);
    PUT(sink, "-");
    sink_int(sink, row->dst);
    PUT(sink, "\": {\"Transport Type\": ");
    sink_quoted(sink, row->last_transport, strlen(row->last_transport));
    PUT(sink, ", \"Transit Time(ms)\": ");
    sink_num(sink, &time);
    PUT(sink, ", \"Transit Size(MB)\": ");
    sink_num(sink, &size);
    PUT(sink, ", \"Op Name\": ");
    sink_quoted(sink, op, strlen(op));
    PUT(sink, ", \"Bandwidth(GB/s)\": ");
    sink_num(sink, &bandwidth);
    PUT(sink, "}");
}

static void put_link_totals(const struct run *run, struct sink *sink, struct link_totals *totals)
{
    link_totals_fold(totals);
    for (size_t i = 0; i < totals->count; i++) {
        const bool is_new = i == 0 || totals->rows[i].group != totals->rows[i - 1].group;
        if (is_new) {
            if (i)
                PUT(sink, "}");
            PUT(sink, ", ");
            put_name(sink, "Total Op Info", 13, run->groups[totals->rows[i].group].hash);
        }
        put_link(sink, &totals->rows[i], is_new);
    }
    if (totals->count)
        PUT(sink, "}");
    totals->count = 0;
}

/* Position among the rows: what is open right now. */
struct page {
    bool is_open;
    struct link_row row; /* the last one written */
};

static void close_step(const struct run *run, struct sink *sink, struct link_totals *totals)
{
    PUT(sink, "}");
    put_link_totals(run, sink, totals);
    PUT(sink, "}");
}

static void open_for(const struct run *run, struct sink *sink, struct page *page,
                     const struct link_row *row, struct link_totals *totals)
{
    const struct link_row *last = &page->row;
    const bool is_new_key = !page->is_open || last->key != row->key;
    const bool is_new_step = is_new_key || last->step != row->step;
    const bool is_new_name = is_new_step || last->name != row->name || last->group != row->group;
    if (!is_new_name)
        return;
    if (page->is_open && is_new_step)
        close_step(run, sink, totals);
    else if (page->is_open)
        PUT(sink, "}, ");
    if (page->is_open && is_new_key)
        PUT(sink, "}, ");
    if (is_new_step) {
        turn_page(run, sink, is_new_key, is_new_step, row->key);
        put_step(run, sink, row->step);
    }
    put_name(sink, rs_strtab_text(&run->names, row->name), rs_strtab_length(&run->names, row->name),
             run->groups[row->group].hash);
}

static void put_all_links(const struct run *run, struct sink *sink)
{
    struct link_totals totals = {0};
    struct page page = {.is_open = false};
    struct link_row row;
    size_t at = 0;
    PUT(sink, "{");
    while (sink->status == RS_OK && next_link(run, &at, &row)) {
        const bool is_same = page.is_open && page.row.key == row.key && page.row.step == row.step &&
                             page.row.name == row.name && page.row.group == row.group;
        open_for(run, sink, &page, &row, &totals);
        put_link(sink, &row, !is_same);
        if (counts_in_text(rs_strtab_text(&run->names, row.name)) &&
            link_totals_add(&totals, &row) != RS_OK)
            sink->status = rs_err_set(&sink->err, RS_NOMEM, "no memory to write %s", sink->path);
        page.row = row;
        page.is_open = true;
    }
    if (page.is_open) {
        close_step(run, sink, &totals);
        PUT(sink, "}");
    }
    PUT(sink, "}");
    rs_mem_free(totals.rows);
}

enum rs_status write_matrix_json(const struct run *run, const char *dir, uint64_t *bytes_p,
                                 struct rs_err *err)
{
    struct sink sink;
    enum rs_status status = sink_open(&sink, dir, "cluster_communication_matrix.json");
    if (status == RS_OK)
        put_all_links(run, &sink);
    status = sink_close(&sink);
    *bytes_p = sink.written;
    return status == RS_OK ? status : rs_err_set(err, status, "%s", sink.err.text);
}
