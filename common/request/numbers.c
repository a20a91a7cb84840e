/* SPDX-License-Identifier: Apache-2.0 */
#include "common/request/numbers.h"

#include "common/request/rank_expr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum rs_status rs_numbers_of_steps(const char *text, int64_t *steps, size_t max, size_t *count_p,
                                   struct rs_err *err)
{
    *count_p = 0;
    char *end = NULL;
    if (text && !*text)
        return rs_err_set(err, RS_INVALID, "step is a number, or several: 12,13");
    for (const char *at = text; at && *at; at = *end ? end + 1 : end) {
        const bool is_number = (*at >= '0' && *at <= '9') || *at == '-';
        errno = 0;
        const long long step = is_number ? strtoll(at, &end, 10) : 0;
        if (!is_number || errno || end == at || (*end && *end != ',') || (*end && !end[1]) ||
            *count_p == max)
            return rs_err_set(err, RS_INVALID, "step is a number, or several: 12,13");
        steps[(*count_p)++] = step;
    }
    return RS_OK;
}

enum rs_status rs_numbers_of_ranks(const char *text, uint32_t *ranks, size_t max, size_t *count_p,
                                   struct rs_err *err)
{
    struct rs_rank_expr *expr = NULL;
    struct rs_rank_set set = {0};
    *count_p = 0;
    if (!text)
        return RS_OK;
    enum rs_status status = rs_rank_expr_parse(text, strlen(text), &expr, err);
    if (status == RS_OK)
        status =
            rs_rank_expr_eval(expr, NULL, 0, 0, &set, err); /* nobody is there: all are unknown */
    if (status >= 0 && (set.remark_count || !set.unknown_count))
        status = rs_err_set(err, RS_INVALID, "ranks of a table are numbers: 0-3,8");
    for (size_t i = 0; status >= 0 && i < set.unknown_count; i++)
        for (uint64_t rank = set.unknown[i].first; status >= 0 && rank <= set.unknown[i].last;
             rank++) {
            if (*count_p == max)
                status =
                    rs_err_set(err, RS_INVALID, "at most %zu ranks can be asked for at once", max);
            else
                ranks[(*count_p)++] = (uint32_t)rank;
        }
    rs_rank_expr_free(&expr);
    rs_rank_set_fini(&set);
    return status < 0 ? status : RS_OK;
}
