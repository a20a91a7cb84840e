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

#include <sqlite3.h>

#include <stdlib.h>
#include <string.h>

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

/* tokens(shape); NULL: it does not count. */
void tokens(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const char *shape = (const char *)sqlite3_value_text(argv[0]);
    int64_t sum = 0;
    (void)argc;
    if (shape && tokens_of(shape, &sum))
        sqlite3_result_int64(context, sum);
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
    .frames = {{.name = "groups",
                .columns = GROUP_COLUMNS,
                .requires = "COMPUTE_TASK_INFO.opType COMPUTE_TASK_INFO.inputShapes "
                            "COMPUTE_TASK_INFO.globalTaskId TASK.globalTaskId STRING_IDS.value",
                .before = groups_load,
                .is_passing = true},
               {.name = "shapes",
                .columns = "shape:t",
                .sql = "SELECT s.value FROM COMPUTE_TASK_INFO c "
                       "JOIN TASK ON TASK.globalTaskId = c.globalTaskId "
                       "LEFT JOIN STRING_IDS s ON s.id = c.inputShapes "
                       "WHERE c.opType = (SELECT id FROM STRING_IDS WHERE value = 'GroupedMatmul') "
                       "AND TASK.startNs >= :from AND TASK.endNs <= :to",
                .missing = "no such rows",
                .is_passing = true},
               {.name = "experts",
                .columns = "rank:i members:t tokens:i",
                .sql = "SELECT :rank, coalesce((SELECT ranks FROM groups WHERE name = 'exp' "
                       "LIMIT 1), ''), sum(tokens(shape)) AS n FROM shapes HAVING n NOT NULL"}},
    RESULTS(results),
};
