/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/summary.h"

#include "common/base/mem.h"

enum rs_status rs_summary_init(struct rs_summary *summary)
{
    *summary = (struct rs_summary){0};
    rs_trace_info_init(&summary->trace);
    return rs_strtab_init(&summary->strings, 0);
}

void rs_summary_fini(struct rs_summary *summary)
{
    for (size_t i = 0; i < summary->group_count; i++)
        rs_mem_free(summary->groups[i].ranks);
    rs_mem_free(summary->groups);
    rs_mem_free(summary->devices);
    rs_mem_free(summary->steps);
    rs_mem_free(summary->ops);
    rs_mem_free(summary->tasks);
    rs_mem_free(summary->kernels);
    rs_mem_free(summary->spans);
    rs_trace_info_fini(&summary->trace);
    rs_strtab_fini(&summary->strings);
    *summary = (struct rs_summary){0};
}
