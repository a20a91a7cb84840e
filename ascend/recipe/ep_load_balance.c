/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ep_load_balance: how many tokens each rank's experts get.
 *
 * Peer: GroupedMatmul tasks that lie in the step; of their input shapes "a,b;c,d;..." all but the last two,
 * the sum of first dimensions; a shape with one part or with something that is no number does
 * not count. Summed per rank; the rank's group is the first of parallel_group_info whose name is
 * "exp". Per group the largest minus the smallest rank, the 20 largest. Nothing to correct.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP, RANK, TOKENS };
#define KINDS "tii"
enum { TOP = 20 };

/* The first number of a part "128,4096"; false when there is none. */
static bool first_dimension(const char *part, size_t length, int64_t *value_p)
{
    char text[32];
    const char *comma = memchr(part, ',', length);
    const size_t digits = comma ? (size_t)(comma - part) : length;
    if (digits >= sizeof text)
        return false;
    memcpy(text, part, digits);
    text[digits] = '\0';
    char *end = NULL;
    const long long value = strtoll(text, &end, 10);
    while (*end == ' ')
        end++;
    if (end == text || *end)
        return false;
    *value_p = value;
    return true;
}

/* Sum of first dimensions of all parts but the last two; false: the shape does not count. */
static bool tokens_of(const char *shape, int64_t *tokens_p)
{
    int64_t sums[3] = {0, 0, 0}; /* of the parts up to the one before last, last but one, last */
    size_t count = 0;
    bool is_number[3] = {true, true, true};
    for (const char *p = shape; *p;) {
        while (*p == '"' || *p == ';')
            p++;
        const size_t length = strcspn(p, ";\"");
        int64_t value = 0;
        if (!length)
            continue;
        const bool good = first_dimension(p, length, &value);
        sums[0] = sums[1];
        is_number[0] = is_number[1];
        sums[1] = sums[2];
        is_number[1] = is_number[2];
        sums[2] += value;
        is_number[2] = is_number[2] && good;
        count++;
        p += length;
    }
    *tokens_p = sums[0];
    return count > 1 && is_number[0];
}

static void print_group(const struct rs_ascend_metadata *meta, struct rs_buf *text)
{
    for (size_t i = 0; i < meta->group_count; i++) {
        const struct rs_ascend_group *group = &meta->groups[i];
        if (strcmp(group->name, "exp") != 0)
            continue;
        for (size_t k = 0; k < group->count; k++)
            rs_buf_printf(text, "%s%" PRId64, k ? "," : "", group->ranks[k]);
        return;
    }
}

static enum rs_status add_tokens(struct frame *part, const struct frame *shapes, int64_t rank,
                                 const char *group)
{
    int64_t sum = 0;
    size_t counted = 0;
    for (size_t i = 0; i < shapes->count; i++) {
        int64_t tokens = 0;
        const rs_str id = frame_row(shapes, i)[0].t;
        if (id == RS_STR_NONE || !tokens_of(frame_text(shapes, id), &tokens))
            continue;
        sum += tokens;
        counted++;
    }
    if (!counted)
        return RS_OK;
    union frame_cell *row = frame_add(part);
    if (!row)
        return RS_NOMEM;
    row[RANK].i = rank;
    row[TOKENS].i = sum;
    return frame_text_id(part, group, &row[GROUP].t);
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    struct rs_ascend_metadata meta = {0};
    struct rs_buf group = {0};
    void *shapes = NULL;
    enum rs_status status =
        db_requires(in->profiler,
                    "COMPUTE_TASK_INFO.opType COMPUTE_TASK_INFO.inputShapes "
                    "COMPUTE_TASK_INFO.globalTaskId TASK.globalTaskId STRING_IDS.value",
                    err);
    if (status == RS_OK)
        status = rank_metadata(run, in, &meta, err);
    if (status != RS_OK)
        return status;
    print_group(&meta, &group);
    rs_ascend_metadata_fini(&meta);
    status = frame_map(in, in->profiler, "t",
                       "SELECT s.value FROM COMPUTE_TASK_INFO c "
                       "JOIN TASK ON TASK.globalTaskId = c.globalTaskId "
                       "LEFT JOIN STRING_IDS s ON s.id = c.inputShapes "
                       "WHERE c.opType = (SELECT id FROM STRING_IDS WHERE value = 'GroupedMatmul') "
                       "AND TASK.startNs >= ?1 AND TASK.endNs <= ?2",
                       &shapes, err);
    struct frame *part = frame_new(KINDS);
    if (status == RS_OK)
        status = part ? add_tokens(part, shapes, in->of->rank, rs_buf_text(&group)) : RS_NOMEM;
    rs_buf_fini(&group);
    if (shapes)
        frame_drop(shapes);
    return frame_part(part, status, part_p, err);
}

static enum rs_status write_summary(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {
        {"rank", 'i', NULL}, {"epRanks", 't', NULL}, {"inputShapesSummary", 'i', NULL}};
    static const struct table table = {
        "EPTokensSummary", "ep_tokens_summary.csv", columns, 3, 0, false};
    struct frame_state *state = run->state;
    struct frame_order order;
    enum rs_status status = frame_order(&state->rows, (char[]){RANK + 1, GROUP + 1, 0}, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort ranks");
    status = table_begin(run, &table, err);
    for (size_t i = 0; i < order.count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(&state->rows, order.rows[i]);
        const struct cell cells[] = {cell_int(row[RANK].i),
                                     cell_text(frame_text(&state->rows, row[GROUP].t)),
                                     cell_int(row[TOKENS].i)};
        status = table_row(run, cells, err);
    }
    frame_order_fini(&order);
    return status == RS_OK ? table_end(run, err) : status;
}

struct gap {
    rs_str group;
    int64_t tokens;
    size_t order;
};

static int by_tokens(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;
    if (x->tokens != y->tokens)
        return x->tokens > y->tokens ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static enum rs_status write_top(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {{"epRanks", 't', NULL}, {"tokensDiff", 'i', NULL}};
    static const struct table table = {
        "TopEPTokensInfo", "top_ep_tokens_info.csv", columns, 2, 0, false};
    struct frame_state *state = run->state;
    struct frame_order order = {0};
    struct gap *gaps = rs_mem_calloc(state->rows.count + 1, sizeof *gaps);
    size_t count = 0;
    enum rs_status status =
        gaps ? frame_order(&state->rows, (char[]){GROUP + 1, TOKENS + 1, 0}, &order) : RS_NOMEM;
    if (status != RS_OK) {
        rs_mem_free(gaps);
        return rs_err_set(err, status, "no memory to sort groups");
    }
    frame_order_by(&order, (char[]){GROUP + 1, 0});
    for (size_t at = 0, end = 0; at < order.count; at = end) {
        end = frame_group_end(&state->rows, &order, at);
        const union frame_cell *least = frame_row(&state->rows, order.rows[at]);
        const union frame_cell *most = frame_row(&state->rows, order.rows[end - 1]);
        gaps[count] = (struct gap){least[GROUP].t, most[TOKENS].i - least[TOKENS].i, count};
        count++;
    }
    qsort(gaps, count, sizeof *gaps, by_tokens);
    status = table_begin(run, &table, err);
    for (size_t i = 0; i < count && i < TOP && status == RS_OK; i++) {
        const struct cell cells[] = {cell_text(frame_text(&state->rows, gaps[i].group)),
                                     cell_int(gaps[i].tokens)};
        status = table_row(run, cells, err);
    }
    rs_mem_free(gaps);
    frame_order_fini(&order);
    return status == RS_OK ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    const enum rs_status status = write_summary(run, err);
    return status == RS_OK ? write_top(run, err) : status;
}

const struct recipe recipe_ep_load_balance = {
    .info = {"ep_load_balance", "tokens of each rank's experts and the spread within a group",
             "EPTokensSummary, TopEPTokensInfo"},
    .folder = "EPLoadBalance",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct frame_state),
    .kinds = KINDS,
    FRAME_RECIPE,
    .map = map,
    .finish = finish,
};
