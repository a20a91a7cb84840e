/* SPDX-License-Identifier: Apache-2.0 */
/*
 * computational_op_masking: how much of the communication of each kind of parallelism computing hides.
 *
 * Peer, per rank, kind and step: operations of communicators whose group_name is of the kind, and computing, as far as they
 * lie fully inside the step on the host; both united; how long the operations take, how long no computing runs beside
 * them, and the shares of the step of both (the second of 5 digits). Times are ns. A kind that the rank has no operations of has
 * no rows. Kinds: --parallel-types 'dp;tp,ep' (two kinds; the second one of two names), else those below.
 *
 * Corrected: a column says whose row it is (the peer's rows of all ranks cannot be told apart); groups also from
 * profiler_metadata.json.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <string.h>

enum { KIND, STEP, FROM, TO, COMMUNICATION, UNMASKED, RANK };
#define KINDS "tiiiiii"
static const char *const standard_kinds = "dp,edp;edp;dp;ep;pp;mp;tp";

enum { OP_GROUP, OP_START, OP_END };
enum { STEP_ID, STEP_START, STEP_END };

/* The names of a kind: `length` bytes, comma between them. */
struct kind {
    const char *names;
    size_t length;
};

/* The kind at *at_p, which moves behind it; false: none is left. */
static bool next_kind(const char **at_p, struct kind *kind)
{
    const char *at = *at_p;
    at += strspn(at, "; ");
    kind->names = at;
    kind->length = strcspn(at, ";");
    *at_p = at + kind->length;
    return kind->length > 0;
}

static bool is_of_kind(const struct kind *kind, const char *name)
{
    const size_t length = strlen(name);
    for (size_t at = 0; at < kind->length;) {
        const char *word = kind->names + at;
        size_t size = 0;
        while (at + size < kind->length && word[size] != ',')
            size++;
        if (size == length && strncmp(word, name, length) == 0)
            return true;
        at += size + 1;
    }
    return false;
}

/* "dp,edp" is shown as "dp+edp". */
static enum rs_status kind_text(struct frame *part, const struct kind *kind, rs_str *id_p)
{
    char *text = rs_mem_strndup(kind->names, kind->length);
    if (!text)
        return RS_NOMEM;
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '+';
    const enum rs_status status = frame_text_id(part, text, id_p);
    rs_mem_free(text);
    return status;
}

/* ---- lengths ---- */

/* A walk over rows ordered by start: their union, as far as they lie inside [from, to]. */
struct walk {
    const struct frame *rows;
    const struct frame_order *order;
    size_t column; /* of the start; the end is behind it */
    size_t at;
    int64_t from, to;
};

static bool next_row(struct walk *walk, int64_t *start_p, int64_t *end_p)
{
    while (walk->at < walk->order->count) {
        const union frame_cell *row =
            frame_row(walk->rows, walk->order->rows[walk->at]) + walk->column;
        if (row[0].i > walk->to)
            return false;
        walk->at++;
        if (row[0].i >= walk->from && row[1].i <= walk->to && row[1].i >= row[0].i) {
            *start_p = row[0].i;
            *end_p = row[1].i;
            return true;
        }
    }
    return false;
}

/* The next stretch without a gap. `held_p` keeps the row behind it. */
struct held {
    int64_t start, end;
    bool is_there;
};

static bool next_stretch(struct walk *walk, struct held *held, int64_t *start_p, int64_t *end_p)
{
    if (!held->is_there && !next_row(walk, &held->start, &held->end))
        return false;
    *start_p = held->start;
    *end_p = held->end;
    while ((held->is_there = next_row(walk, &held->start, &held->end)) && held->start <= *end_p)
        *end_p = held->end > *end_p ? held->end : *end_p;
    return true;
}

/* How long `ops` take, and how long nothing of `work` runs beside them. */
static void measure(struct walk ops, struct walk work, int64_t *total_p, int64_t *bare_p)
{
    struct held op = {0}, piece = {0};
    int64_t start, end, from = 0, to = 0;
    bool has_work = next_stretch(&work, &piece, &from, &to);
    *total_p = *bare_p = 0;
    while (next_stretch(&ops, &op, &start, &end)) {
        *total_p += end - start;
        *bare_p += end - start;
        while (has_work && from < end) {
            const int64_t first = from > start ? from : start, last = to < end ? to : end;
            *bare_p -= last > first ? last - first : 0;
            if (to > end)
                break; /* it may reach into the next one */
            has_work = next_stretch(&work, &piece, &from, &to);
        }
    }
}

/* ---- one rank ---- */

struct rank_rows {
    struct frame *ops, *work, *steps;
    struct rs_ascend_metadata meta;
    bool has_meta;
};

static const char *name_of_group(const struct rank_rows *rows, const char *text)
{
    char hash[RS_ASCEND_HASH_BYTES];
    rs_ascend_group_key(text, hash);
    const struct rs_ascend_group *group = rs_ascend_group_find(&rows->meta, hash);
    return group ? group->name : NULL;
}

/* The rows of a kind, in a frame of their own (start, end). */
static enum rs_status pick(const struct rank_rows *rows, const struct kind *kind,
                           struct frame *picked)
{
    for (size_t i = 0; i < rows->ops->count; i++) {
        const union frame_cell *row = frame_row(rows->ops, i);
        const char *name = row[OP_GROUP].t == RS_STR_NONE
                               ? NULL
                               : name_of_group(rows, frame_text(rows->ops, row[OP_GROUP].t));
        if (!name || !is_of_kind(kind, name))
            continue;
        union frame_cell *added = frame_add(picked);
        if (!added)
            return RS_NOMEM;
        added[0].i = row[OP_START].i;
        added[1].i = row[OP_END].i;
    }
    return RS_OK;
}

static enum rs_status add_kind(const struct rank_rows *rows, const struct frame_order *work_order,
                               const struct kind *kind, int64_t rank, struct frame *part)
{
    struct frame picked;
    struct frame_order order = {0};
    rs_str text = RS_STR_NONE;
    enum rs_status status = frame_init(&picked, "ii");
    if (status != RS_OK)
        return status;
    status = pick(rows, kind, &picked);
    if (status == RS_OK && picked.count)
        status = frame_order(&picked, "\1", &order);
    if (status == RS_OK && picked.count)
        status = kind_text(part, kind, &text);
    for (size_t i = 0; i < rows->steps->count && picked.count && status == RS_OK; i++) {
        const union frame_cell *step = frame_row(rows->steps, i);
        union frame_cell *row = frame_add(part);
        if (!row) {
            status = RS_NOMEM;
            break;
        }
        row[KIND].t = text;
        row[STEP].i = step[STEP_ID].i;
        row[FROM].i = step[STEP_START].i;
        row[TO].i = step[STEP_END].i;
        row[RANK].i = rank;
        measure((struct walk){&picked, &order, 0, 0, row[FROM].i, row[TO].i},
                (struct walk){rows->work, work_order, 0, 0, row[FROM].i, row[TO].i},
                &row[COMMUNICATION].i, &row[UNMASKED].i);
    }
    frame_order_fini(&order);
    frame_fini(&picked);
    return status;
}

static enum rs_status add_kinds(const struct run *run, const struct rank_rows *rows, int64_t rank,
                                struct frame *part)
{
    const char *at = run->options->parallel_types ? run->options->parallel_types : standard_kinds;
    struct frame_order order;
    struct kind kind;
    enum rs_status status = frame_order(rows->work, "\1", &order);
    if (status != RS_OK)
        return status;
    while (status == RS_OK && next_kind(&at, &kind))
        status = add_kind(rows, &order, &kind, rank, part);
    frame_order_fini(&order);
    return status;
}

static enum rs_status read_rows(struct run *run, const struct inputs *in, struct rank_rows *rows,
                                struct rs_err *err)
{
    void *ops = NULL, *work = NULL, *steps = NULL;
    enum rs_status status =
        db_requires(in->profiler,
                    "COMMUNICATION_OP.groupName COMMUNICATION_OP.startNs COMMUNICATION_OP.endNs "
                    "COMPUTE_TASK_INFO.globalTaskId TASK.globalTaskId TASK.startNs TASK.endNs "
                    "STEP_TIME.id STEP_TIME.startNs STEP_TIME.endNs STRING_IDS.value",
                    err);
    if (status == RS_OK)
        status = rank_metadata(run, in, &rows->meta, err);
    rows->has_meta = status == RS_OK;
    if (status == RS_OK)
        status = frame_map(in, in->profiler, "tii",
                           "SELECT s.value, startNs, endNs FROM COMMUNICATION_OP "
                           "JOIN STRING_IDS s ON s.id = groupName "
                           "WHERE startNs IS NOT NULL AND endNs IS NOT NULL",
                           &ops, err);
    rows->ops = ops;
    if (status == RS_OK)
        status = frame_map(in, in->profiler, "ii",
                           "SELECT t.startNs, t.endNs FROM COMPUTE_TASK_INFO c JOIN TASK t "
                           "ON t.globalTaskId = c.globalTaskId "
                           "WHERE t.startNs IS NOT NULL AND t.endNs IS NOT NULL",
                           &work, err);
    rows->work = work;
    if (status == RS_OK)
        status = frame_map(in, in->profiler, "iii",
                           "SELECT id, startNs, endNs FROM STEP_TIME "
                           "WHERE startNs >= ?1 AND startNs <= ?2 ORDER BY rowid",
                           &steps, err);
    rows->steps = steps;
    return status;
}

static void rows_fini(struct rank_rows *rows)
{
    struct frame *const all[] = {rows->ops, rows->work, rows->steps};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            frame_drop(all[i]);
    if (rows->has_meta)
        rs_ascend_metadata_fini(&rows->meta);
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    struct rank_rows rows = {0};
    struct frame *part = frame_new(KINDS);
    enum rs_status status = read_rows(run, in, &rows, err);
    if (status == RS_OK)
        status = part ? add_kinds(run, &rows, in->of->rank, part) : RS_NOMEM;
    rows_fini(&rows);
    return frame_part(part, status, part_p, err);
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    enum { SHARE_DIGITS = 5 };
    static const struct column columns[] = {{"stepId", 'i', NULL},
                                            {"parallelType", 't', NULL},
                                            {"stepStartTime", 'i', NULL},
                                            {"stepEndTime", 'i', NULL},
                                            {"totalCommunicationOperatorTime", 'i', NULL},
                                            {"timeRatioOfStepCommunicationOperator", 'r', NULL},
                                            {"totalTimeWithoutCommunicationBlackout", 'i', NULL},
                                            {"ratioOfUnmaskedCommunication", 'r', NULL},
                                            {"rankId", 'i', NULL}};
    const struct table table = {"ComputationalOperatorMaskingLinearity",
                                "computational_op_masking.csv",
                                columns,
                                COLUMN_COUNT(columns) - (run->options->compat ? 1 : 0),
                                0,
                                false};
    const struct frame *rows = &((const struct frame_state *)run->state)->rows;
    enum rs_status status = rows->count ? table_begin(run, &table, err) : RS_OK;
    for (size_t i = 0; i < rows->count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(rows, i);
        const double step = (double)(row[TO].i - row[FROM].i);
        const struct cell cells[] = {
            cell_int(row[STEP].i),
            cell_text(frame_text(rows, row[KIND].t)),
            cell_int(row[FROM].i),
            cell_int(row[TO].i),
            cell_int(row[COMMUNICATION].i),
            step > 0 ? cell_real((double)row[COMMUNICATION].i / step) : cell_text(NULL),
            cell_int(row[UNMASKED].i),
            step > 0 ? cell_real(stats_round((double)row[UNMASKED].i / step, SHARE_DIGITS))
                     : cell_text(NULL),
            cell_int(row[RANK].i)};
        status = table_row(run, cells, err);
    }
    return status == RS_OK && rows->count ? table_end(run, err) : status;
}

const struct recipe recipe_computational_op_masking = {
    .info = {"computational_op_masking",
             "how much of each parallelism's communication computing hides",
             "ComputationalOperatorMaskingLinearity"},
    .folder = "ComputationalOpMasking",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct frame_state),
    .kinds = KINDS,
    FRAME_RECIPE,
    .map = map,
    .finish = finish,
};
