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

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RANK, GROUP, TOKENS };

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

static void fill(struct inputs *in, struct frame *frames)
{
    struct rs_ascend_metadata meta = {0};
    struct rs_buf group = {0};
    struct frame shapes;
    int64_t sum = 0;
    size_t counted = 0;
    if (frame_init(&shapes, "t") != RS_OK)
        in_fail(in, RS_NOMEM, "no memory for shapes");
    if (in->status == RS_OK)
        in->status = rank_metadata(in->run, in, &meta, &in->err);
    print_group(&meta, &group);
    in_load(in, &shapes, in->profiler,
            "SELECT s.value FROM COMPUTE_TASK_INFO c "
            "JOIN TASK ON TASK.globalTaskId = c.globalTaskId "
            "LEFT JOIN STRING_IDS s ON s.id = c.inputShapes "
            "WHERE c.opType = (SELECT id FROM STRING_IDS WHERE value = 'GroupedMatmul') "
            "AND TASK.startNs >= :from AND TASK.endNs <= :to");
    if (!shapes.count)
        in_fail(in, RS_NOTFOUND, "%s has no such rows", rs_ascend_db_path(in->profiler));
    for (size_t i = 0; i < shapes.count; i++) {
        int64_t tokens = 0;
        const rs_str id = frame_row(&shapes, i)[0].t;
        if (id == RS_STR_NONE || !tokens_of(frame_text(&shapes, id), &tokens))
            continue;
        sum += tokens;
        counted++;
    }
    if (counted) {
        union frame_cell *row = frame_put(&frames[0]);
        row[RANK].i = in->of->rank;
        row[GROUP].t = frame_str(&frames[0], rs_buf_text(&group));
        row[TOKENS].i = sum;
    }
    rs_ascend_metadata_fini(&meta);
    rs_buf_fini(&group);
    frame_fini(&shapes);
}

static const struct result results[] = {
    {.name = "EPTokensSummary",
     .file = "ep_tokens_summary.csv",
     .columns = "rank:i|epRanks:t|inputShapesSummary:i",
     .sql = "SELECT rank, members, tokens FROM experts ORDER BY rank, members"},
    {.name = "TopEPTokensInfo",
     .file = "top_ep_tokens_info.csv",
     .columns = "epRanks:t|tokensDiff:i",
     .sql = "SELECT members, max(tokens) - min(tokens) AS gap FROM experts GROUP BY members "
            "ORDER BY gap DESC, members LIMIT 20"},
};

const struct recipe recipe_ep_load_balance = {
    .info = {"ep_load_balance", "tokens of each rank's experts and the spread within a group",
             "EPTokensSummary, TopEPTokensInfo"},
    .folder = "EPLoadBalance",
    .needs = NEED_PROFILER,
    .frames = {{.name = "experts",
                .columns = "rank:i members:t tokens:i",
                .requires = "COMPUTE_TASK_INFO.opType COMPUTE_TASK_INFO.inputShapes "
                            "COMPUTE_TASK_INFO.globalTaskId TASK.globalTaskId STRING_IDS.value"}},
    .fill = fill,
    .results = results,
    .result_count = COLUMN_COUNT(results),
};
