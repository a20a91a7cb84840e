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

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

enum { STAGES_MAX = 1024, LABEL_BYTES = 48 };
enum {
    SCHEDULE
}; /* a frame: labels of the stages in the order of the schedule; none: not dualpipev */
enum { STAGE, PLACE, LABEL, PHASE, EXPECTED };

/* A stage that is laid. */
struct schedule {
    struct frame *rows;
    int64_t stage, count;
    int64_t expected; /* ranges in a step, by the peer's own count */
};

/* Labels are made of the micro batch's number and letters: "7", "7b", "7F+13B". */
static void add_label(struct schedule *s, int phase, const char *format, ...) RS_PRINTF(3, 4);
static void add_label(struct schedule *s, int phase, const char *format, ...)
{
    char text[LABEL_BYTES];
    union frame_cell *row = frame_put(s->rows);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    row[STAGE].i = s->stage;
    row[PLACE].i = s->count++;
    row[LABEL].t = frame_str(s->rows, text);
    row[PHASE].i = phase;
}

/* Last number given out, of each direction and half of the V. */
struct marks {
    long long forward0, forward1, backward0, backward1;
};

enum { WARMUP, ONE_F_ONE_F, ONE_B_W_F, OVERLAP, ONE_B_OVERLAP, ONE_B_ONE_B, COOLDOWN };

static void logits(struct schedule *s, int phase)
{
    if (s->stage != 0)
        return;
    s->expected++;
    add_label(s, phase, "logits");
}

/* The part of the schedule before the steady state. */
static void lay_rise(struct schedule *s, long long pp, long long m, struct marks *at)
{
    const long long i = s->stage, warm = 2 * pp - 2 - i * 2, pairs = i + 1, triples = pp - i - 1;
    for (long long j = 0; j < warm; j++)
        add_label(s, WARMUP, "%lld", j);
    at->forward0 = warm - 1;
    for (long long j = 0; j < pairs; j++) {
        add_label(s, ONE_F_ONE_F, "%lld", ++at->forward0);
        add_label(s, ONE_F_ONE_F, "%lld", m + j);
    }
    at->forward1 = m + pairs - 1;
    for (long long j = 0; j < triples; j++) {
        logits(s, ONE_B_W_F);
        add_label(s, ONE_B_W_F, "%lldb", m + j);
        add_label(s, ONE_B_W_F, "%lldw", m + j);
        add_label(s, ONE_B_W_F, "%lld", ++at->forward1);
    }
    at->backward1 = m + triples - 1;
    s->expected += warm + pairs * 2 + triples * 3;
}

static void add_overlap(struct schedule *s, int phase, long long *forward, long long *backward)
{
    ++*forward;
    ++*backward;
    add_label(s, phase, "%lldF+%lldB", *forward, *backward);
}

static void lay_steady(struct schedule *s, long long pp, long long m, struct marks *at)
{
    const long long i = s->stage, overlap = 2 * m - 4 * pp + i * 2 + 2, one = (pp - i - 1) * 2;
    for (long long j = 0; j < overlap / 2; j++) {
        logits(s, OVERLAP);
        if (i == pp - 1 && j == 0) {
            add_label(s, OVERLAP, "%lldF", ++at->forward0);
            add_label(s, OVERLAP, "%lldB", ++at->backward1);
            s->expected++;
        } else {
            add_overlap(s, OVERLAP, &at->forward0, &at->backward1);
        }
        add_overlap(s, OVERLAP, &at->forward1, &at->backward0);
    }
    for (long long j = 0; j < one / 2; j++) {
        logits(s, ONE_B_OVERLAP);
        add_label(s, ONE_B_OVERLAP, "%lldB", ++at->backward1);
        add_overlap(s, ONE_B_OVERLAP, &at->forward1, &at->backward0);
    }
    s->expected += (overlap > 0 ? overlap : 0) + one;
}

static void lay_fall(struct schedule *s, long long pp, long long m, struct marks *at)
{
    const bool first_is_zero = s->stage % 2 == 0;
    for (long long j = 0; j < s->stage + 1; j++) {
        if (j % 2 == 0)
            logits(s, ONE_B_ONE_B);
        add_label(s, ONE_B_ONE_B, "%lldB", j % 2 == 0 ? ++at->backward1 : ++at->backward0);
    }
    s->expected += s->stage + 1 + pp;
    while (at->backward0 < m - 1 || at->backward1 < m * 2 - 1)
        for (int turn = 0; turn < 2; turn++) {
            const bool zero = (turn == 0) == first_is_zero;
            if (zero ? at->backward0 < m - 1 : at->backward1 < m * 2 - 1)
                add_label(s, COOLDOWN, "%lldB", zero ? ++at->backward0 : ++at->backward1);
        }
}

static void lay_schedule(struct frame *rows, const struct rs_ascend_metadata *meta)
{
    for (int64_t i = 0; i < meta->pp && !rows->failed; i++) {
        struct marks at = {-1, -1, -1, -1};
        struct schedule stage = {.rows = rows, .stage = i};
        const size_t first = rows->count;
        lay_rise(&stage, meta->pp, meta->microbatches, &at);
        lay_steady(&stage, meta->pp, meta->microbatches, &at);
        lay_fall(&stage, meta->pp, meta->microbatches, &at);
        for (size_t row = first; row < rows->count; row++)
            frame_at(rows, row)[EXPECTED].i = stage.expected;
    }
}

static void take_shape(struct run *run, const struct rs_ascend_metadata *meta)
{
    enum { MICROBATCHES_MAX = 1 << 16 };
    if (!meta->pp_type || strcasecmp(meta->pp_type, "dualpipev") != 0)
        return;
    if (!meta->has_sizes || meta->pp < 1 || meta->pp > STAGES_MAX)
        run_add_problem(run, -1, true, "pp_type is dualpipev, but the pipeline size is not known");
    else if (meta->microbatches < meta->pp * 2 || meta->microbatches > MICROBATCHES_MAX)
        run_add_problem(run, -1, true,
                        "dualpipev needs at least %" PRId64 " micro batches, not %" PRId64,
                        meta->pp * 2, meta->microbatches);
    else
        lay_schedule(&run->frames[SCHEDULE], meta);
    run->number = (meta->tp < 1 ? 1 : meta->tp) * (meta->dp < 1 ? 1 : meta->dp);
}

/* The pipeline's kind, from the first rank that says it. */
static enum rs_status start(struct run *run, struct rs_err *err)
{
    bool has_meta = false;
    for (size_t i = 0; i < run->rank_count && !has_meta; i++) {
        struct inputs in;
        struct rs_ascend_metadata meta;
        if (inputs_open(run, &run->ranks[i], &in, NULL) != RS_OK)
            continue;
        has_meta = rank_metadata(&in, &meta, NULL) == RS_OK;
        if (has_meta) {
            take_shape(run, &meta);
            rs_ascend_metadata_fini(&meta);
        }
        inputs_close(&in);
    }
    return run->frames[SCHEDULE].failed ? rs_err_set(err, RS_NOMEM, "no memory for the schedule")
                                        : RS_OK;
}

static void take_schedule(struct inputs *in, struct frame *schedule)
{
    in->number = in->run->number;
    schedule->failed |= frame_append(schedule, &in->run->frames[SCHEDULE]) != RS_OK;
}

/* clang-format off */

static const char spans_sql[] =
    "SELECT iif(has('STEP_TIME.startNs'), s.id, 0), m.value, TASK.startNs, TASK.endNs FROM MSTX_EVENTS e JOIN TASK "
    "ON TASK.connectionId = e.connectionId JOIN STRING_IDS m ON m.id = e.message LEFT JOIN STEP_TIME s ON e.startNs "
    ">= s.startNs AND e.endNs <= s.endNs WHERE (m.value LIKE '%forward%' OR m.value LIKE '%backward%') AND (:compat "
    "OR " IN_STEP("e.startNs") ") OR m.value LIKE '%WeightGradStore_pop%' AND " IN_STEP("e.startNs")
    " ORDER BY TASK.startNs";

/* Of a schedule: ranges that begin when the last kept one has ended, numbered in their step. :number ranks are a stage. */
static const char named_sql[] =
    "CREATE TEMP TABLE span AS SELECT rowid AS id, * FROM spans; "
    "CREATE INDEX temp.span_start ON span (start, id); "
    "SELECT 1, 'the rank is in no stage of the pipeline' WHERE EXISTS (SELECT 1 FROM schedule) AND (:rank < 0 OR "
    ":rank / :number NOT IN (SELECT stage FROM schedule)); "
    "CREATE TEMP TABLE label AS SELECT place, label, phase, expected, count(*) OVER () AS labels FROM schedule "
    "WHERE stage = :rank / :number AND :rank >= 0; "
    "CREATE TEMP TABLE kept AS WITH RECURSIVE kept (id, until) AS (SELECT id, end FROM span WHERE id = 0 UNION ALL "
    "SELECT span.id, span.end FROM kept JOIN span ON span.id = (SELECT s.id FROM span s WHERE s.start >= until AND "
    "s.id > kept.id ORDER BY s.start, s.id LIMIT 1)) "
    "SELECT id, row_number() OVER (PARTITION BY step ORDER BY id) - 1 AS place, step, count(*) OVER (PARTITION BY "
    "step) AS n, expected, labels FROM kept JOIN span USING (id) JOIN (SELECT DISTINCT expected, labels FROM "
    "label); "
    "SELECT DISTINCT 1, 'a step has ' || n || ' ranges, the schedule ' || expected || '; "
    "not named' FROM kept WHERE n <> expected OR n > labels";
static const char ranges_sql[] =
    "SELECT :rank, iif(is_plain, iif(message LIKE '%forward%', 'FP', 'BP'), coalesce(label, '')), start, end, "
    "iif(is_plain, message NOT LIKE '%forward%', coalesce(phase, 0)) FROM span JOIN (SELECT NOT EXISTS (SELECT 1 "
    "FROM schedule) AS is_plain) LEFT JOIN kept ON kept.id = span.id LEFT JOIN label ON label.place = kept.place "
    "AND n = kept.expected AND n <= kept.labels WHERE is_plain OR kept.id IS NOT NULL ORDER BY span.id";
/* clang-format on */

static const struct result results[] = {
    {.name = "StepTaskInfo",
     .file = "step_task_info.csv",
     .columns = "rank:i|name:t|startNs:i=startNs|endNs:i=endNs|type:i",
     .sql = "SELECT rank, name, start, end, type FROM ranges"}};

const struct recipe recipe_pp_chart = {
    .info = {"pp_chart", "forward and backward passes of the micro batches, for a pipeline chart",
             "StepTaskInfo"},
    .folder = "PPChart",
    .needs = NEED_PROFILER,
    .optional = "STEP_TIME(id,endNs;startNs)",
    .frames = {{.name = "schedule",
                .columns = "stage:i place:i label:t phase:i expected:i",
                .requires = "MSTX_EVENTS.message MSTX_EVENTS.startNs MSTX_EVENTS.endNs "
                            "MSTX_EVENTS.connectionId TASK.connectionId TASK.startNs "
                            "STRING_IDS.value",
                .before = take_schedule,
                .is_passing = true},
               {.name = "spans",
                .columns = "step:i message:t start:i end:i",
                .sql = spans_sql,
                .missing = "no such rows",
                .is_passing = true},
               {.sql = named_sql},
               {.name = "ranges",
                .columns = "rank:i name:t start:i end:i type:i",
                .sql = ranges_sql}},
    .start = start,
    RESULTS(results),
};
