/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pp_chart: the forward and backward passes of each micro batch on the device, for a chart of the pipeline.
 *
 * Peer: mstx ranges whose message has forward, backward or WeightGradStore_pop, with the times of their
 * device task, as StepTaskInfo(name, startNs, endNs, type), written into every input. FP/0 when
 * "forward" is in the message, else BP/1. With pp_type dualpipev the names come from that
 * schedule, if the number of ranges that do not overlap is exactly the expected one in a step,
 * else they stay empty; the schedule needs microbatch_num >= 2 * pp. Its SQL has no brackets, so
 * --step-id filters the last of the three words only.
 *
 * Corrected: the result is a table with a rank column and the inputs stay as they are; --step-id filters
 * all three. The pairing of sends and receives that the peer runs first is its own recipe here.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { RANK, STEP, MESSAGE, START, END, TYPE, NAME };

enum { STAGES_MAX = 1024, LABEL_BYTES = 48 };

/* Labels of one stage in the order of the schedule. */
struct label {
    char text[LABEL_BYTES];
    int phase;
};

struct schedule {
    struct label *labels;
    size_t count, capacity;
    size_t expected; /* ranges in a step, by the peer's own count */
};

struct state {
    struct schedule *stages; /* [pp]; NULL: not dualpipev */
    int64_t tp, pp, dp, microbatches;
};

/* Labels are made of the micro batch's number and letters: "7", "7b", "7F+13B". */
static bool add_label(struct schedule *stage, int phase, long long number, const char *letters)
{
    if (rs_mem_grow((void **)&stage->labels, &stage->capacity, stage->count + 1,
                    sizeof *stage->labels) != RS_OK)
        return false;
    struct label *label = &stage->labels[stage->count++];
    label->phase = phase;
    (void)snprintf(label->text, sizeof label->text, "%lld%s", number, letters);
    return true;
}

static bool add_overlap(struct schedule *stage, int phase, long long forward, long long backward)
{
    char letters[LABEL_BYTES / 2];
    (void)snprintf(letters, sizeof letters, "F+%lldB", backward);
    return add_label(stage, phase, forward, letters);
}

/* Last number given out, of each direction and half of the V. */
struct marks {
    long long forward0, forward1, backward0, backward1;
};

enum { WARMUP, ONE_F_ONE_F, ONE_B_W_F, OVERLAP, ONE_B_OVERLAP, ONE_B_ONE_B, COOLDOWN };

static bool logits(struct schedule *stage, long long i, int phase)
{
    if (i != 0)
        return true;
    stage->expected++;
    if (!add_label(stage, phase, 0, ""))
        return false;
    (void)snprintf(stage->labels[stage->count - 1].text, LABEL_BYTES, "logits");
    return true;
}

/* The part of the schedule before the steady state. */
static bool lay_rise(struct schedule *s, long long i, long long pp, long long m, struct marks *at)
{
    bool ok = true;
    const long long warm = 2 * pp - 2 - i * 2, pairs = i + 1, triples = pp - i - 1;
    for (long long j = 0; j < warm; j++)
        ok = ok && add_label(s, WARMUP, j, "");
    at->forward0 = warm - 1;
    s->expected += (size_t)warm;
    for (long long j = 0; j < pairs; j++) {
        ok = ok && add_label(s, ONE_F_ONE_F, ++at->forward0, "") &&
             add_label(s, ONE_F_ONE_F, m + j, "");
    }
    at->forward1 = m + pairs - 1;
    s->expected += (size_t)pairs * 2;
    for (long long j = 0; j < triples; j++) {
        ok = ok && logits(s, i, ONE_B_W_F) && add_label(s, ONE_B_W_F, m + j, "b") &&
             add_label(s, ONE_B_W_F, m + j, "w") && add_label(s, ONE_B_W_F, ++at->forward1, "");
    }
    at->backward1 = m + triples - 1;
    s->expected += (size_t)triples * 3;
    return ok;
}

static bool lay_steady(struct schedule *s, long long i, long long pp, long long m, struct marks *at)
{
    bool ok = true;
    const long long overlap = 2 * m - 4 * pp + i * 2 + 2, one = (pp - i - 1) * 2;
    for (long long j = 0; j < overlap / 2; j++) {
        ok = ok && logits(s, i, OVERLAP);
        if (i == pp - 1 && j == 0) {
            ok = ok && add_label(s, OVERLAP, ++at->forward0, "F") &&
                 add_label(s, OVERLAP, ++at->backward1, "B");
            s->expected++;
        } else {
            at->forward0++;
            at->backward1++;
            ok = ok && add_overlap(s, OVERLAP, at->forward0, at->backward1);
        }
        at->forward1++;
        at->backward0++;
        ok = ok && add_overlap(s, OVERLAP, at->forward1, at->backward0);
    }
    s->expected += (size_t)(overlap > 0 ? overlap : 0);
    for (long long j = 0; j < one / 2; j++) {
        ok = ok && logits(s, i, ONE_B_OVERLAP) && add_label(s, ONE_B_OVERLAP, ++at->backward1, "B");
        at->forward1++;
        at->backward0++;
        ok = ok && add_overlap(s, ONE_B_OVERLAP, at->forward1, at->backward0);
    }
    s->expected += (size_t)one;
    return ok;
}

static bool lay_fall(struct schedule *s, long long i, long long pp, long long m, struct marks *at)
{
    bool ok = true, first_is_zero = false;
    for (long long j = 0; j < i + 1; j++) {
        if (j % 2 == 0)
            ok = ok && logits(s, i, ONE_B_ONE_B) && add_label(s, ONE_B_ONE_B, ++at->backward1, "B");
        else
            ok = ok && add_label(s, ONE_B_ONE_B, ++at->backward0, "B");
        first_is_zero = j % 2 == 0;
    }
    s->expected += (size_t)(i + 1) + (size_t)pp;
    while (ok && (at->backward0 < m - 1 || at->backward1 < m * 2 - 1))
        for (int turn = 0; turn < 2; turn++) {
            const bool zero = (turn == 0) == first_is_zero;
            if (zero && at->backward0 < m - 1)
                ok = ok && add_label(s, COOLDOWN, ++at->backward0, "B");
            else if (!zero && at->backward1 < m * 2 - 1)
                ok = ok && add_label(s, COOLDOWN, ++at->backward1, "B");
        }
    return ok;
}

static enum rs_status lay_schedule(struct state *state)
{
    state->stages = rs_mem_calloc((size_t)state->pp, sizeof *state->stages);
    if (!state->stages)
        return RS_NOMEM;
    for (long long i = 0; i < state->pp; i++) {
        struct marks at = {-1, -1, -1, -1};
        struct schedule *stage = &state->stages[i];
        if (!lay_rise(stage, i, state->pp, state->microbatches, &at) ||
            !lay_steady(stage, i, state->pp, state->microbatches, &at) ||
            !lay_fall(stage, i, state->pp, state->microbatches, &at))
            return RS_NOMEM;
    }
    return RS_OK;
}

static void take_shape(struct run *run, const struct rs_ascend_metadata *meta)
{
    enum { MICROBATCHES_MAX = 1 << 16 };
    struct state *state = run->state;
    if (!meta->pp_type || strcasecmp(meta->pp_type, "dualpipev") != 0)
        return;
    state->tp = meta->tp < 1 ? 1 : meta->tp;
    state->dp = meta->dp < 1 ? 1 : meta->dp;
    state->microbatches = meta->microbatches;
    if (!meta->has_sizes || meta->pp < 1 || meta->pp > STAGES_MAX)
        run_add_problem(run, -1, true, "pp_type is dualpipev, but the pipeline size is not known");
    else if (meta->microbatches < meta->pp * 2 || meta->microbatches > MICROBATCHES_MAX)
        run_add_problem(run, -1, true,
                        "dualpipev needs at least %" PRId64 " micro batches, not %" PRId64,
                        meta->pp * 2, meta->microbatches);
    else
        state->pp = meta->pp;
}

/* The pipeline's kind, from the first rank that says it. */
static enum rs_status start(struct run *run, struct rs_err *err)
{
    struct state *state = run->state;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < run->rank_count && status == RS_OK; i++) {
        struct inputs in;
        struct rs_ascend_metadata meta;
        if (inputs_open(run, &run->ranks[i], &in, NULL) != RS_OK)
            continue;
        const bool has_meta = rank_metadata(&in, &meta, NULL) == RS_OK;
        if (has_meta) {
            take_shape(run, &meta);
            rs_ascend_metadata_fini(&meta);
        }
        inputs_close(&in);
        if (has_meta)
            break;
    }
    if (status == RS_OK && state->pp && lay_schedule(state) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "no memory for the schedule");
    return status;
}

/* Keeps ranges that begin when the last kept one has ended. */
static void keep_apart(struct frame *part)
{
    int64_t last = -1;
    size_t kept = 0;
    for (size_t i = 0; i < part->count; i++) {
        const union frame_cell *row = frame_row(part, i);
        if (row[START].i < last)
            continue;
        last = row[END].i;
        memmove(part->cells + kept++ * part->columns, row, part->columns * sizeof *row);
    }
    part->count = kept;
}

static enum rs_status name_plain(struct frame *part)
{
    rs_str forward, backward;
    enum rs_status status = frame_text_id(part, "FP", &forward);
    if (status == RS_OK)
        status = frame_text_id(part, "BP", &backward);
    for (size_t i = 0; i < part->count && status == RS_OK; i++) {
        union frame_cell *row = part->cells + i * part->columns;
        const bool is_forward = strcasestr(frame_text(part, row[MESSAGE].t), "forward");
        row[TYPE].i = is_forward ? 0 : 1;
        row[NAME].t = is_forward ? forward : backward;
    }
    return status;
}

static enum rs_status name_scheduled(struct run *run, const struct inputs *in, struct frame *part)
{
    const struct state *state = run->state;
    const int64_t stage_at = in->of->rank / (state->tp * state->dp);
    struct frame_order order;
    enum rs_status status = RS_OK;
    if (in->of->rank < 0 || stage_at >= state->pp) {
        run_add_problem(run, in->of->rank, true, "the rank is in no stage of the pipeline");
        part->count = 0;
        return RS_OK;
    }
    const struct schedule *stage = &state->stages[stage_at];
    keep_apart(part);
    status = frame_order(part, (char[]){STEP + 1, 0}, &order);
    for (size_t at = 0, end = 0; status == RS_OK && at < order.count; at = end) {
        end = frame_group_end(part, &order, at);
        const bool fits = end - at == stage->expected && end - at <= stage->count;
        if (!fits)
            run_add_problem(run, in->of->rank, true,
                            "a step has %zu ranges, the schedule %zu; not named", end - at,
                            stage->expected);
        for (size_t i = at; i < end && status == RS_OK; i++) {
            union frame_cell *row = part->cells + order.rows[i] * part->columns;
            row[TYPE].i = fits ? stage->labels[i - at].phase : 0;
            status = frame_text_id(part, fits ? stage->labels[i - at].text : "", &row[NAME].t);
        }
    }
    frame_order_fini(&order);
    return status;
}

#define CHART_SQL(step, join, condition)                                                           \
    "SELECT :rank, " step ", m.value, TASK.startNs, TASK.endNs, 0, NULL FROM MSTX_EVENTS e "       \
    "JOIN TASK ON TASK.connectionId = e.connectionId JOIN STRING_IDS m ON m.id = e.message " join  \
    "WHERE " condition " ORDER BY TASK.startNs"
#define WORDS_COMPAT                                                                               \
    "m.value LIKE '%forward%' OR m.value LIKE '%backward%' OR "                                    \
    "m.value LIKE '%WeightGradStore_pop%' AND e.startNs >= :from AND e.startNs <= :to"
#define WORDS                                                                                      \
    "(m.value LIKE '%forward%' OR m.value LIKE '%backward%' OR "                                   \
    "m.value LIKE '%WeightGradStore_pop%') AND e.startNs >= :from AND e.startNs <= :to"
#define STEPS "LEFT JOIN STEP_TIME s ON e.startNs >= s.startNs AND e.endNs <= s.endNs "

static void fill(struct inputs *in, struct frame *frames)
{
    const struct state *state = in->run->state;
    const bool compat = in->run->options->compat;
    struct frame *part = &frames[0];
    if (in_has(in, "STEP_TIME.startNs"))
        in_load(in, part, in->profiler,
                compat ? CHART_SQL("s.id", STEPS, WORDS_COMPAT) : CHART_SQL("s.id", STEPS, WORDS));
    else
        in_load(in, part, in->profiler,
                compat ? CHART_SQL("0", "", WORDS_COMPAT) : CHART_SQL("0", "", WORDS));
    if (!part->count)
        in_fail(in, RS_NOTFOUND, "%s has no such rows", rs_ascend_db_path(in->profiler));
    if (in->status == RS_OK &&
        (state->stages ? name_scheduled(in->run, in, part) : name_plain(part)) != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for the chart");
}

static const struct result results[] = {
    {.name = "StepTaskInfo",
     .file = "step_task_info.csv",
     .columns = "rank:i|name:t|startNs:i=startNs|endNs:i=endNs|type:i",
     .sql = "SELECT rank, name, start, end, type FROM ranges"}};

static void stop(struct run *run)
{
    struct state *state = run->state;
    for (int64_t i = 0; state->stages && i < state->pp; i++)
        rs_mem_free(state->stages[i].labels);
    rs_mem_free(state->stages);
}

const struct recipe recipe_pp_chart = {
    .info = {"pp_chart", "forward and backward passes of the micro batches, for a pipeline chart",
             "StepTaskInfo"},
    .folder = "PPChart",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct state),
    .frames = {{.name = "ranges",
                .columns = "rank:i step:i message:t start:i end:i type:i name:t",
                .requires = "MSTX_EVENTS.message MSTX_EVENTS.startNs MSTX_EVENTS.endNs "
                            "MSTX_EVENTS.connectionId TASK.connectionId TASK.startNs "
                            "STRING_IDS.value"}},
    .start = start,
    .fill = fill,
    .results = results,
    .result_count = COLUMN_COUNT(results),
    .stop = stop,
};
