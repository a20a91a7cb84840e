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

static const char ops_sql[] = "SELECT s.value, startNs, endNs FROM COMMUNICATION_OP "
                              "JOIN STRING_IDS s ON s.id = groupName "
                              "WHERE startNs IS NOT NULL AND endNs IS NOT NULL";
static const char work_sql[] = "SELECT t.startNs, t.endNs FROM COMPUTE_TASK_INFO c JOIN TASK t "
                               "ON t.globalTaskId = c.globalTaskId "
                               "WHERE t.startNs IS NOT NULL AND t.endNs IS NOT NULL";
static const char steps_sql[] = "SELECT id, startNs, endNs FROM STEP_TIME "
                                "WHERE startNs >= :from AND startNs <= :to ORDER BY rowid";

static void read_rows(struct inputs *in, struct frame *rows, const char *kinds, const char *sql)
{
    if (frame_init(rows, kinds) != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for a rank's rows");
    in_load(in, rows, in->profiler, sql);
    if (!rows->count)
        in_fail(in, RS_NOTFOUND, "%s has no such rows", rs_ascend_db_path(in->profiler));
}

static void fill(struct inputs *in, struct frame *frames)
{
    struct frame ops, work, steps;
    struct rank_rows rows = {.ops = &ops, .work = &work, .steps = &steps};
    if (in->status == RS_OK)
        in->status = rank_metadata(in->run, in, &rows.meta, &in->err);
    read_rows(in, &ops, "tii", ops_sql);
    read_rows(in, &work, "ii", work_sql);
    read_rows(in, &steps, "iii", steps_sql);
    if (in->status == RS_OK && add_kinds(in->run, &rows, in->of->rank, &frames[0]) != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for a rank's rows");
    frame_fini(&ops);
    frame_fini(&work);
    frame_fini(&steps);
    rs_ascend_metadata_fini(&rows.meta);
}

#define COLUMNS                                                                                    \
    "stepId:i|parallelType:t|stepStartTime:i|stepEndTime:i|totalCommunicationOperatorTime:i|"      \
    "timeRatioOfStepCommunicationOperator:r|totalTimeWithoutCommunicationBlackout:i|"              \
    "ratioOfUnmaskedCommunication:r"
#define ROWS                                                                                       \
    "SELECT step, kind, start, end, communication, CAST(communication AS REAL) / "                 \
    "nullif(max(end - start, 0), 0), unmasked, "                                                   \
    "round_even(CAST(unmasked AS REAL) / nullif(max(end - start, 0), 0), 5)"

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    const bool compat = run->options->compat;
    const struct result result = {.name = "ComputationalOperatorMaskingLinearity",
                                  .file = "computational_op_masking.csv",
                                  .columns = compat ? COLUMNS : COLUMNS "|rankId:i",
                                  .sql = compat ? ROWS " FROM kinds" : ROWS ", rank FROM kinds",
                                  .is_optional = true};
    return result_write(run, &result, err);
}

const struct recipe recipe_computational_op_masking = {
    .info = {"computational_op_masking",
             "how much of each parallelism's communication computing hides",
             "ComputationalOperatorMaskingLinearity"},
    .folder = "ComputationalOpMasking",
    .needs = NEED_PROFILER,
    .frames = {{.name = "kinds",
                .columns = "kind:t step:i start:i end:i communication:i unmasked:i rank:i",
                .requires = "COMMUNICATION_OP.groupName COMMUNICATION_OP.startNs "
                            "COMMUNICATION_OP.endNs COMPUTE_TASK_INFO.globalTaskId "
                            "TASK.globalTaskId TASK.startNs TASK.endNs STEP_TIME.id "
                            "STEP_TIME.startNs STEP_TIME.endNs STRING_IDS.value"}},
    .fill = fill,
    .finish = finish,
};
