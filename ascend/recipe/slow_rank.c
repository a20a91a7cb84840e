/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_rank: which ranks the others wait for.
 *
 * Peer: every collective is a vote. Its members' durations are compared: who waits least arrived
 * last. With up to 100 members Dixon's one-sided test at 99.5 % on the smallest duration, beyond
 * that everything below mean - 3 sigma (and the smallest when something is above mean + 3 sigma).
 * Names with send or receive do not count; a group whose operations do not all have the same
 * number of rows is left out whole; us are written into columns named Ns.
 *
 * Corrected: ns in the columns named Ns; of a group with a lost record only the operations that
 * lack a member are left out; operations without a CANN_API row count by their own start.
 *
 * Our own table, RankscopeSlowRank: members of a collective end together, so with clocks aligned at its end a
 * member arrived at -duration. What the operation lost, from the early arrivals (the first
 * quartile; the first one in groups of up to four) to the last, is shared among the late: each
 * stretch between two arrivals in equal parts among all who had not arrived. Of its
 * share a rank answers only for the part that it was slower in since its operation before (own work
 * against the group's lower median); the rest it inherited by having waited for others. Slow is who
 * lost clearly more than the ranks do in the median (five deviations and 1 % of the time).
 * That works for two members and for several slow ranks, and gives ns, not votes.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Frames: what ranks give; then what finish() makes of it for the results. */
enum { OPS, SPANS, VOTES, BALLOTS, VERDICTS };
enum { GROUP, NAME, RANK, START, END, WORK };
#define NO_WORK (-1) /* the rank's first operation: what it did before is not known */

enum { DIXON_MAX = 100, VALUES_MAX = 1 << 20 };
/* Dixon's critical values, one-sided, 99.5 %, for 3, 4, ... 100 values. */
static const double dixon_995[] = {
    0.994, 0.920, 0.823, 0.744, 0.680, 0.723, 0.676, 0.638, 0.707, 0.675, 0.649, 0.672, 0.649,
    0.629, 0.611, 0.595, 0.580, 0.568, 0.556, 0.545, 0.536, 0.526, 0.519, 0.510, 0.503, 0.496,
    0.489, 0.484, 0.478, 0.473, 0.468, 0.463, 0.458, 0.454, 0.450, 0.446, 0.442, 0.439, 0.435,
    0.432, 0.429, 0.425, 0.423, 0.420, 0.417, 0.414, 0.412, 0.409, 0.407, 0.405, 0.402, 0.400,
    0.398, 0.396, 0.394, 0.392, 0.391, 0.388, 0.387, 0.385, 0.383, 0.382, 0.380, 0.379, 0.377,
    0.376, 0.374, 0.372, 0.371, 0.370, 0.368, 0.368, 0.366, 0.365, 0.364, 0.363, 0.361, 0.360,
    0.359, 0.358, 0.356, 0.356, 0.355, 0.353, 0.352, 0.352, 0.351, 0.350, 0.349, 0.348, 0.347,
    0.346, 0.345, 0.344, 0.344, 0.343, 0.341, 0.341,
};

struct rank_sum {
    int64_t rank, first, last, late, judged, steps;
    double own, inherited; /* ns */
    int64_t worst, worst_start;
    rs_str worst_name, worst_group;
};

struct state {
    struct rank_sum *ranks;
    size_t rank_count;
    size_t incomplete; /* operations that lack members */
};

/* Disjoint intervals in order of time. */
struct spans {
    int64_t (*items)[2];
    size_t count, capacity;
};

static int by_start(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0] ? 1 : -1) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* The union of columns start, start + 1 of the rows. */
static enum rs_status unite(const struct frame *rows, size_t start, struct spans *spans)
{
    if (rs_mem_grow((void **)&spans->items, &spans->capacity, rows->count + 1,
                    sizeof *spans->items) != RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < rows->count; i++) {
        spans->items[i][0] = frame_row(rows, i)[start].i;
        spans->items[i][1] = frame_row(rows, i)[start + 1].i;
    }
    qsort(spans->items, rows->count, sizeof *spans->items, by_start);
    for (size_t i = 0; i < rows->count; i++) {
        int64_t *last = spans->count ? spans->items[spans->count - 1] : NULL;
        if (last && spans->items[i][0] <= last[1]) {
            last[1] = spans->items[i][1] > last[1] ? spans->items[i][1] : last[1];
            continue;
        }
        spans->items[spans->count][0] = spans->items[i][0];
        spans->items[spans->count++][1] = spans->items[i][1];
    }
    return RS_OK;
}

/* What of `whole` is not in `cut`. */
static enum rs_status subtract(const struct spans *whole, const struct spans *cut,
                               struct spans *left)
{
    size_t k = 0;
    if (rs_mem_grow((void **)&left->items, &left->capacity, whole->count + cut->count + 1,
                    sizeof *left->items) != RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < whole->count; i++) {
        int64_t at = whole->items[i][0];
        const int64_t end = whole->items[i][1];
        while (k < cut->count && cut->items[k][1] <= at)
            k++;
        for (size_t j = k; j < cut->count && cut->items[j][0] < end; j++) {
            if (cut->items[j][0] > at) {
                left->items[left->count][0] = at;
                left->items[left->count++][1] = cut->items[j][0];
            }
            at = cut->items[j][1] > at ? cut->items[j][1] : at;
        }
        if (at < end) {
            left->items[left->count][0] = at;
            left->items[left->count++][1] = end;
        }
    }
    return RS_OK;
}

/* Own work before each operation: since the operation before began, all time but that in which
 * the rank only communicated. What a rank computes while it waits for another counts as its work. */
static enum rs_status fill_work(struct frame *rows, const struct spans *waiting)
{
    struct frame_order order;
    const enum rs_status status = frame_order(rows, (char[]){START + 1, 0}, &order);
    int64_t before = 0, spent = 0, spent_before = 0; /* only communicating, up to a start */
    size_t k = 0;
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < order.count; i++) {
        union frame_cell *row = rows->cells + order.rows[i] * rows->columns;
        const int64_t now = row[START].i;
        while (k < waiting->count && waiting->items[k][1] <= now) {
            spent += waiting->items[k][1] - waiting->items[k][0];
            k++;
        }
        const int64_t open =
            k < waiting->count && waiting->items[k][0] < now ? now - waiting->items[k][0] : 0;
        row[WORK].i = i == 0 ? NO_WORK : now - before - (spent + open - spent_before);
        before = now;
        spent_before = spent + open;
    }
    frame_order_fini(&order);
    return RS_OK;
}

static void measure_work(struct inputs *in, struct frame *rows)
{
    struct frame tasks;
    struct spans computing = {0}, communicating = {0}, waiting = {0};
    if (frame_init(&tasks, "ii") != RS_OK)
        in_fail(in, RS_NOMEM, "no memory to sort operations");
    if (in_has(in, "COMPUTE_TASK_INFO.globalTaskId TASK.globalTaskId TASK.startNs TASK.endNs"))
        in_load(in, &tasks, in->profiler,
                "SELECT TASK.startNs, TASK.endNs FROM COMPUTE_TASK_INFO c "
                "JOIN TASK ON TASK.globalTaskId = c.globalTaskId");
    if (in->status == RS_OK &&
        (unite(&tasks, 0, &computing) != RS_OK || unite(rows, START, &communicating) != RS_OK ||
         subtract(&communicating, &computing, &waiting) != RS_OK ||
         fill_work(rows, &waiting) != RS_OK))
        in_fail(in, RS_NOMEM, "no memory to sort operations");
    rs_mem_free(computing.items);
    rs_mem_free(communicating.items);
    rs_mem_free(waiting.items);
    frame_fini(&tasks);
}

#define OPS_SQL(join, time)                                                                        \
    "SELECT g.value, n.value, :rank, c.startNs, c.endNs, 0 FROM COMMUNICATION_OP c "               \
    "JOIN STRING_IDS g ON g.id = c.groupName JOIN STRING_IDS n ON n.id = c.opName " join           \
    "WHERE " time " >= :from AND " time " <= :to AND " IS_SPAN("c.startNs", "c.endNs")
#define API "JOIN CANN_API a ON a.connectionId = c.connectionId "

static int64_t count_steps(struct inputs *in)
{
    struct frame steps;
    int64_t count = 1;
    if (in->run->options->step_id >= 0 || !rs_ascend_db_has_table(in->profiler, "STEP_TIME"))
        return count;
    if (frame_init(&steps, "i") != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for steps");
    in_load(in, &steps, in->profiler, "SELECT count(*) FROM STEP_TIME");
    if (steps.count && frame_row(&steps, 0)[0].i > 0)
        count = frame_row(&steps, 0)[0].i;
    frame_fini(&steps);
    return count;
}

static void fill(struct inputs *in, struct frame *frames)
{
    struct frame *rows = &frames[OPS];
    const bool compat = in->run->options->compat;
    int64_t first = INT64_MAX, last = INT64_MIN;
    in_load(in, rows, in->profiler,
            !in_has(in, "CANN_API.connectionId COMMUNICATION_OP.connectionId")
                ? OPS_SQL("", "c.startNs")
            : compat ? OPS_SQL(API, "a.startNs")
                     : OPS_SQL("LEFT " API, "coalesce(a.startNs, c.startNs)"));
    if (!rows->count)
        in_fail(in, RS_NOTFOUND, "%s has no communication operations",
                rs_ascend_db_path(in->profiler));
    const int64_t steps = count_steps(in);
    if (!compat)
        measure_work(in, rows);
    for (size_t i = 0; i < rows->count; i++) {
        const union frame_cell *row = frame_row(rows, i);
        first = row[START].i < first ? row[START].i : first;
        last = row[END].i > last ? row[END].i : last;
    }
    union frame_cell *span = frame_put(&frames[SPANS]);
    span[0].i = in->of->rank;
    span[1].i = first;
    span[2].i = last;
    span[3].i = steps;
}

static bool is_p2p(const char *name)
{
    return strstr(name, "send") || strstr(name, "receive");
}

/* ---- the peer's votes ---- */

static double dixon_ratio(const double *x, size_t n)
{
    const size_t low = n <= 10 ? 1 : 2, high = n <= 7 ? n - 1 : n <= 13 ? n - 2 : n - 3;
    const double span = x[high] - x[0];
    return span > 0 || span < 0 ? (x[low] - x[0]) / span : 0;
}

static size_t distinct(const double *sorted, size_t n)
{
    size_t count = n ? 1 : 0;
    for (size_t i = 1; i < n; i++)
        count += sorted[i] > sorted[i - 1];
    return count;
}

/* Marks the members that are voted slow; how many. */
static size_t vote(const double *times, const double *sorted, size_t n, bool *slow)
{
    size_t least = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        slow[i] = false;
        if (times[i] < times[least])
            least = i;
    }
    if (n <= 2 || (n <= DIXON_MAX && distinct(sorted, n) <= 3))
        return 0;
    if (n <= DIXON_MAX) {
        slow[least] = dixon_ratio(sorted, n) > dixon_995[n - 3];
        return slow[least];
    }
    double mean;
    const double std = stats_std_population(times, n, &mean);
    for (size_t i = 0; i < n; i++)
        count += slow[i] = times[i] < mean - 3 * std;
    if (sorted[n - 1] > mean + 3 * std && !slow[least]) {
        slow[least] = true;
        count++;
    }
    return count;
}

/* Room for the members of one operation. */
struct box {
    double *times, *sorted;
    bool *slow;
};

/* The vote of one operation: its members are order positions from..end-1. */
static void count_votes(struct run *run, struct box *box, const struct frame_order *order,
                        size_t from, size_t end)
{
    const struct frame *ops = &run->frames[OPS];
    struct frame *votes = &run->frames[VOTES], *ballots = &run->frames[BALLOTS];
    const size_t n = end - from;
    const union frame_cell *first = frame_row(ops, order->rows[from]);
    struct rs_buf ranks = {0};
    struct stats stats;
    int64_t stamp = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const union frame_cell *row = frame_row(ops, order->rows[from + i]);
        const double ns = (double)(row[END].i - row[START].i);
        box->times[i] = run->options->compat ? ns / 1000.0 : ns;
        box->sorted[i] = box->times[i];
    }
    stats_sort(box->sorted, n);
    if (!vote(box->times, box->sorted, n, box->slow))
        return;
    for (size_t i = 0; i < n; i++) {
        const union frame_cell *row = frame_row(ops, order->rows[from + i]);
        if (!box->slow[i])
            continue;
        frame_put(votes)[0].i = row[RANK].i;
        rs_buf_printf(&ranks, "%s%" PRId64, ranks.length ? "," : "", row[RANK].i);
        stamp = row[START].i < stamp ? row[START].i : stamp;
    }
    stats_of_column(box->times, n, box->sorted, &stats);
    union frame_cell *ballot = frame_put(ballots);
    ballots->failed |= ranks.failed;
    ballot[0].t = frame_str(ballots, rs_buf_text(&ranks));
    ballot[1].t = frame_str_of(ballots, ops, first[NAME].t);
    ballot[2].t = frame_str_of(ballots, ops, first[GROUP].t);
    ballot[3].i = stamp;
    const double figures[] = {stats.mean,   stats.std, stats.min, stats.q1,
                              stats.median, stats.q3,  stats.max, stats.sum};
    ballot[4].i = (int64_t)stats.count;
    for (size_t i = 0; i < COLUMN_COUNT(figures); i++)
        ballot[5 + i].r = figures[i];
    rs_buf_fini(&ranks);
}

/* Most and least rows of an operation of the group that starts at `at`; where the group ends. */
static size_t group_sizes(const struct frame *rows, const struct frame_order *order, size_t at,
                          size_t *most_p, size_t *least_p)
{
    const rs_str group = frame_row(rows, order->rows[at])[GROUP].t;
    *most_p = 0;
    *least_p = SIZE_MAX;
    while (at < order->count && frame_row(rows, order->rows[at])[GROUP].t == group) {
        const size_t end = frame_group_end(rows, order, at);
        if (!is_p2p(frame_text(rows, frame_row(rows, order->rows[at])[NAME].t))) {
            *most_p = end - at > *most_p ? end - at : *most_p;
            *least_p = end - at < *least_p ? end - at : *least_p;
        }
        at = end;
    }
    return at;
}

static enum rs_status collect_votes(struct run *run, const struct frame_order *order)
{
    struct state *state = run->state;
    const struct frame *ops = &run->frames[OPS];
    struct box box = {.times = rs_mem_calloc(ops->count + 1, sizeof *box.times),
                      .sorted = rs_mem_calloc(ops->count + 1, sizeof *box.sorted),
                      .slow = rs_mem_calloc(ops->count + 1, sizeof *box.slow)};
    const bool is_made = box.times && box.sorted && box.slow;
    for (size_t at = 0, group_end = 0; at < order->count && is_made; at = group_end) {
        size_t most, least;
        group_end = group_sizes(ops, order, at, &most, &least);
        if (most != least && run->options->compat)
            continue;
        for (size_t end; at < group_end; at = end) {
            end = frame_group_end(ops, order, at);
            if (is_p2p(frame_text(ops, frame_row(ops, order->rows[at])[NAME].t)))
                continue;
            if (end - at < most)
                state->incomplete++;
            else
                count_votes(run, &box, order, at, end);
        }
    }
    rs_mem_free(box.times);
    rs_mem_free(box.sorted);
    rs_mem_free(box.slow);
    return is_made ? RS_OK : RS_NOMEM;
}

/* ---- our own: lost time by arrival ---- */

struct arrival {
    struct rank_sum *sum;
    double at, work; /* ns; at: after the first arrival; work < 0: unknown */
    int64_t start;
};

static int by_arrival(const void *a, const void *b)
{
    const struct arrival *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_rank(const void *a, const void *b)
{
    const struct rank_sum *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static double lower_median(double *values, size_t count)
{
    stats_sort(values, count);
    return count ? values[(count - 1) / 2] : 0;
}

static double usual_work(const struct arrival *who, size_t n, double *scratch)
{
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (who[i].work >= 0)
            scratch[known++] = who[i].work;
    return lower_median(scratch, known);
}

/* Shares the time lost in one operation among those who were late to it. */
static void blame(struct arrival *who, size_t n, double *scratch, rs_str name, rs_str group)
{
    enum { LATE_NS = 10000 };
    qsort(who, n, sizeof *who, by_arrival);
    const size_t early = (n - 1) / 4;
    const double reference = who[early].at, usual = usual_work(who, n, scratch);
    double share = 0;
    for (size_t i = 0; i < n; i++) {
        struct rank_sum *sum = who[i].sum;
        sum->judged++;
        if (i <= early)
            continue;
        share += (who[i].at - who[i - 1].at) / (double)(n - i);
        const double late = who[i].at - reference;
        double own = who[i].work < 0 ? 0 : who[i].work - usual;
        own = own < 0 ? 0 : own > late ? late : own;
        const double part = late > 0 ? share * own / late : 0;
        sum->own += part;
        sum->inherited += share - part;
        sum->late += own > LATE_NS && own > usual / 20;
        if (part > (double)sum->worst) {
            sum->worst = (int64_t)part;
            sum->worst_name = name;
            sum->worst_group = group;
            sum->worst_start = who[i].start;
        }
    }
}

static enum rs_status blame_all(struct run *run, const struct frame_order *order)
{
    struct state *state = run->state;
    const struct frame *ops = &run->frames[OPS];
    struct arrival *who = rs_mem_calloc(ops->count + 1, sizeof *who);
    double *scratch = rs_mem_calloc(ops->count + 1, sizeof *scratch);
    enum rs_status status = who && scratch ? RS_OK : RS_NOMEM;
    qsort(state->ranks, state->rank_count, sizeof *state->ranks, by_rank);
    for (size_t at = 0, end = 0; at < order->count && status == RS_OK; at = end) {
        const union frame_cell *first = frame_row(ops, order->rows[at]);
        int64_t longest = INT64_MIN;
        end = frame_group_end(ops, order, at);
        if (end - at < 2 || is_p2p(frame_text(ops, first[NAME].t)))
            continue;
        for (size_t i = at; i < end; i++) {
            const union frame_cell *row = frame_row(ops, order->rows[i]);
            longest = row[END].i - row[START].i > longest ? row[END].i - row[START].i : longest;
        }
        for (size_t i = at; i < end; i++) {
            const union frame_cell *row = frame_row(ops, order->rows[i]);
            const struct rank_sum key = {.rank = row[RANK].i};
            who[i - at] = (struct arrival){
                .sum = bsearch(&key, state->ranks, state->rank_count, sizeof key, by_rank),
                .at = (double)(longest - (row[END].i - row[START].i)),
                .work = (double)row[WORK].i,
                .start = row[START].i};
        }
        blame(who, end - at, scratch, first[NAME].t, first[GROUP].t);
    }
    rs_mem_free(who);
    rs_mem_free(scratch);
    return status;
}

/* What a rank may lose before it is called slow: beyond the median by five deviations. */
static enum rs_status find_bar(const struct state *state, double *median_p, double *deviation_p)
{
    double *values = rs_mem_calloc(state->rank_count + 1, sizeof *values);
    if (!values)
        return RS_NOMEM;
    for (size_t i = 0; i < state->rank_count; i++)
        values[i] = state->ranks[i].own;
    *median_p = lower_median(values, state->rank_count);
    for (size_t i = 0; i < state->rank_count; i++)
        values[i] = fabs(state->ranks[i].own - *median_p);
    *deviation_p = 1.4826 * lower_median(values, state->rank_count);
    rs_mem_free(values);
    return RS_OK;
}

static enum rs_status judge(struct run *run)
{
    const struct state *state = run->state;
    const struct frame *ops = &run->frames[OPS];
    struct frame *verdicts = &run->frames[VERDICTS];
    double median = 0, deviation = 0;
    const enum rs_status status = find_bar(state, &median, &deviation);
    for (size_t i = 0; i < state->rank_count && status == RS_OK; i++) {
        const struct rank_sum *sum = &state->ranks[i];
        const double span = (double)(sum->last - sum->first);
        const double bar = 5 * deviation > span / 100 ? 5 * deviation : span / 100;
        const bool is_slow = sum->judged && sum->own - median > bar;
        const bool has_worst = sum->worst_name != RS_STR_NONE;
        union frame_cell *row = frame_put(verdicts);
        row[0].i = sum->rank;
        row[1].t = frame_str(verdicts, !sum->judged ? "not judged" : is_slow ? "slow" : "ok");
        row[2].i = llround(sum->own);
        row[3].i = llround(sum->own / (double)sum->steps);
        row[4].r = span > 0 ? sum->own / span : 0;
        row[5].i = llround(sum->inherited);
        row[6].i = sum->late;
        row[7].i = sum->judged;
        row[8].t = frame_str_of(verdicts, ops, sum->worst_name);
        row[9].t = frame_str_of(verdicts, ops, sum->worst_group);
        row[10].i = has_worst ? sum->worst : RS_NULL;
        row[11].i = has_worst ? sum->worst_start : RS_NULL;
        row[12].t = frame_str(verdicts, state->incomplete ? "partial" : "bounded");
    }
    return status;
}

static const struct result results[] = {
    {.name = "SlowRank",
     .file = "rank_stats.csv",
     .columns = "rankId:i|slowAffectCount:i",
     .index_columns = 1,
     .sql = "SELECT rank, count(*) FROM votes GROUP BY rank"},
    {.name = "SlowOpStats",
     .file = "slow_op_stats.csv",
     .columns = "SlowRank:t|OpName:t|GroupName:t|Timestamp:i" RESULT_STATS,
     .sql = "SELECT * FROM ballots ORDER BY stamp"},
    {.name = "RankscopeSlowRank",
     .file = "rankscope_slow_rank.csv",
     .columns = "rankId:i|verdict:t|lostNs:i|lostPerStepNs:i|lostShare:r|inheritedNs:i|lateOps:i|"
                "judgedOps:i|worstOpName:t|worstGroupName:t|worstLostNs:i|worstTimestamp:i|"
                "confidence:t",
     .index_columns = 1,
     .sql = "SELECT * FROM verdicts",
     .compat_sql = ""},
};

static enum rs_status sum_ranks(struct run *run)
{
    struct state *state = run->state;
    const struct frame *spans = &run->frames[SPANS];
    state->ranks = rs_mem_calloc(spans->count + 1, sizeof *state->ranks);
    for (size_t i = 0; i < spans->count && state->ranks; i++) {
        const union frame_cell *span = frame_row(spans, i);
        state->ranks[state->rank_count++] = (struct rank_sum){.rank = span[0].i,
                                                              .first = span[1].i,
                                                              .last = span[2].i,
                                                              .steps = span[3].i,
                                                              .worst_name = RS_STR_NONE,
                                                              .worst_group = RS_STR_NONE};
    }
    return state->ranks ? RS_OK : RS_NOMEM;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    const struct state *state = run->state;
    const bool compat = run->options->compat;
    struct frame_order order = {0};
    enum rs_status status = sum_ranks(run);
    if (status == RS_OK)
        status = frame_order(&run->frames[OPS], (char[]){GROUP + 1, NAME + 1, 0}, &order);
    if (status == RS_OK)
        status = collect_votes(run, &order);
    if (status == RS_OK && !compat)
        status = blame_all(run, &order);
    if (status == RS_OK && !compat)
        status = judge(run);
    frame_order_fini(&order);
    for (size_t i = VOTES; i <= VERDICTS; i++)
        status = run->frames[i].failed ? RS_NOMEM : status;
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to compare operations");
    if (state->incomplete && !compat)
        run_add_problem(run, -1, false, "%zu collectives lack a member and have no vote",
                        state->incomplete);
    for (size_t i = 0; i < COLUMN_COUNT(results) && status == RS_OK; i++) {
        struct result result = results[i];
        result.is_optional = compat; /* the peer writes no empty table */
        status = result_write(run, &result, err);
    }
    return status;
}

static void stop(struct run *run)
{
    struct state *state = run->state;
    rs_mem_free(state->ranks);
}

const struct recipe recipe_slow_rank = {
    .info = {"slow_rank",
             "which ranks the others wait for: the peer's votes and lost time by arrival",
             "SlowRank, SlowOpStats, RankscopeSlowRank"},
    .folder = "SlowRankAnalysis",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct state),
    .frames = {{.name = "ops",
                .columns = "communicator:t name:t rank:i start:i end:i work:i",
                .requires = "COMMUNICATION_OP.groupName COMMUNICATION_OP.opName "
                            "COMMUNICATION_OP.startNs COMMUNICATION_OP.endNs STRING_IDS.value"},
               {.name = "spans", .columns = "rank:i first:i last:i steps:i"},
               {.name = "votes", .columns = "rank:i"},
               {.name = "ballots",
                .columns = "ranks:t name:t communicator:t stamp:i count:i mean:r std:r min:r q1:r "
                           "median:r q3:r max:r sum:r"},
               {.name = "verdicts",
                .columns =
                    "rank:i verdict:t lost:i step_lost:i share:r inherited:i late:i judged:i "
                    "worst:t worst_group:t worst_lost:i worst_start:i confidence:t"}},
    .fill = fill,
    .finish = finish,
    .stop = stop,
};
