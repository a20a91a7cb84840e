/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_step_trace_time.csv and communication_group.json.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/buf.h"
#include "common/base/csv_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- cluster_step_trace_time.csv ----------------------------------------------------------- */

static void put_cell(struct sink *sink, const char *text)
{
    struct rs_buf cell = {0};
    rs_csv_text(&cell, text);
    if (cell.failed && sink->status == RS_OK)
        sink->status = rs_err_set(&sink->err, RS_NOMEM, "no memory to write %s", sink->path);
    sink_bytes(sink, (const char *)cell.data, cell.length);
    rs_buf_fini(&cell);
}

/* Always a float, as the vendor's tool reads the column. */
static void put_time(struct sink *sink, const struct rs_ascend_num *num)
{
    char text[RS_ASCEND_NUM_TEXT_BYTES];
    sink_text(sink, ",");
    if (num->kind == RS_ASCEND_NUM_NONE)
        return;
    sink_bytes(sink, text, rs_ascend_num_print_double(rs_ascend_num_double(num), text));
}

static void put_rank_rows(const struct run *run, const struct rank_data *rank, struct sink *sink)
{
    int64_t place[3];
    const bool has_place = place_of(&run->layout, rank->rank, place);
    for (size_t i = 0; i < rank->steps.count; i++) {
        const struct rs_ascend_step *row = &rank->steps.rows[i];
        put_cell(sink, row->step);
        sink_text(sink, ",rank,");
        sink_int(sink, rank->rank);
        for (int f = 0; f < RS_ASCEND_STEP_FIELDS; f++)
            put_time(sink, &row->values[f]);
        for (int p = 0; has_place && p < 3; p++) {
            sink_text(sink, ",");
            sink_int(sink, place[p]);
        }
        sink_text(sink, "\r\n");
    }
}

/* "(0, 1)" or "(3,)": a Python tuple. */
static void put_tuple(struct sink *sink, const struct rank_set *set)
{
    sink_text(sink, "(");
    for (size_t i = 0; i < set->count; i++) {
        if (i)
            sink_text(sink, ", ");
        sink_int(sink, set->ranks[i]);
    }
    sink_text(sink, set->count == 1 ? ",)" : ")");
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

static void put_stage_row(const struct run *run, const struct rank_set *stage, const char *step,
                          struct sink *sink)
{
    double maxima[RS_ASCEND_STEP_FIELDS];
    if (!stage_row(run, stage, step, maxima))
        return;
    put_cell(sink, step);
    sink_text(sink, ",stage,\"");
    put_tuple(sink, stage);
    sink_text(sink, "\"");
    for (int f = 0; f < RS_ASCEND_STEP_FIELDS; f++) {
        const struct rs_ascend_num num = rs_ascend_num_of_double(maxima[f]);
        put_time(sink, &num);
    }
    sink_text(sink, run->layout.is_known ? ",NA,NA,NA\r\n" : "\r\n");
}

enum rs_status write_step_csv(const struct run *run, const char *dir, uint64_t *bytes_p,
                              struct rs_err *err)
{
    struct sink sink;
    enum rs_status status = sink_open(&sink, dir, "cluster_step_trace_time.csv");
    if (status == RS_OK) {
        sink_text(&sink, "Step,Type,Index");
        for (int f = 0; f < RS_ASCEND_STEP_FIELDS; f++) {
            sink_text(&sink, ",");
            sink_text(&sink, rs_ascend_step_headings[f]);
        }
        sink_text(&sink, run->layout.is_known ? ",DP Index,PP Index,TP Index\r\n" : "\r\n");
        for (size_t i = 0; i < run->rank_count; i++)
            put_rank_rows(run, &run->ranks[i], &sink);
        for (size_t s = 0; s < run->stages.count; s++)
            for (size_t r = 0; r < run->rank_count; r++)
                for (size_t i = 0; i < run->ranks[r].steps.count; i++)
                    if (is_first_of_step(run, r, i))
                        put_stage_row(run, &run->stages.sets[s], run->ranks[r].steps.rows[i].step,
                                      &sink);
    }
    status = sink_close(&sink);
    *bytes_p = sink.written;
    return status == RS_OK ? status : rs_err_set(err, status, "%s", sink.err.text);
}

/* ---- communication_group.json -------------------------------------------------------------- */

static void put_list(struct sink *sink, const struct rank_set *set)
{
    sink_text(sink, "[");
    for (size_t i = 0; i < set->count; i++) {
        if (i)
            sink_text(sink, ", ");
        sink_int(sink, set->ranks[i]);
    }
    sink_text(sink, "]");
}

/* The rank sets seen on one side, each once. */
static void put_sets(const struct run *run, enum side side, struct sink *sink)
{
    bool is_first = true;
    for (size_t i = 0; i < run->group_count; i++) {
        const struct rank_set *set = &run->groups[i].by_any[side];
        bool is_new = set->count > 0;
        for (size_t o = 0; o < i && is_new; o++) {
            const struct rank_set *other = &run->groups[o].by_any[side];
            is_new = other->count != set->count ||
                     memcmp(other->ranks, set->ranks, set->count * sizeof *set->ranks) != 0;
        }
        if (!is_new)
            continue;
        if (!is_first)
            sink_text(sink, ", ");
        is_first = false;
        put_list(sink, set);
    }
}

static void put_group(const struct group *group, enum side side, struct sink *sink)
{
    sink_text(sink, side == SIDE_P2P ? "{\"type\": \"p2p\", \"rank_set\": "
                                     : "{\"type\": \"collective\", \"rank_set\": ");
    put_list(sink, group_ranks(group, side));
    sink_text(sink, ", \"group_name\": ");
    sink_quoted(sink, group->hash, strlen(group->hash));
    sink_text(sink, ", \"group_id\": ");
    sink_quoted(sink, group->id, strlen(group->id));
    sink_text(sink, ", \"pg_name\": ");
    sink_quoted(sink, group->name, strlen(group->name));
    sink_text(sink, "}");
}

enum rs_status write_group_json(const struct run *run, const char *dir, uint64_t *bytes_p,
                                struct rs_err *err)
{
    struct sink sink;
    enum rs_status status = sink_open(&sink, dir, "communication_group.json");
    if (status == RS_OK) {
        bool is_first = true;
        sink_text(&sink, "{\"collective\": [");
        put_sets(run, SIDE_COLLECTIVE, &sink);
        sink_text(&sink, "], \"p2p\": [");
        put_sets(run, SIDE_P2P, &sink);
        sink_text(&sink, "], \"comm_group_parallel_info\": [");
        for (int side = 0; side < SIDES; side++)
            for (size_t i = 0; i < run->group_count; i++) {
                if (!run->groups[i].by_any[side].count)
                    continue;
                if (!is_first)
                    sink_text(&sink, ", ");
                is_first = false;
                put_group(&run->groups[i], (enum side)side, &sink);
            }
        sink_text(&sink, "]}");
    }
    status = sink_close(&sink);
    *bytes_p = sink.written;
    return status == RS_OK ? status : rs_err_set(err, status, "%s", sink.err.text);
}
