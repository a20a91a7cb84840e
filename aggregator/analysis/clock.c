/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose times may be compared?
 *
 * A clock domain is a host. Files that name no host form one domain if every symmetric operation among
 * them is feasible as the clocks stand (nobody leaves before the last has come); if not, each rank
 * is a domain of its own. Across domains Wait, Transfer and LastRank are not computed, unless
 * --assume-common-clock says so. A file that lost its time base takes no part at all.
 *
 * Threshold: RS_CLOCK_BOUND_NS, what devices of one host were seen to differ by. What is accepted:
 * files without a host whose clocks differ by less than the waiting of their operations pass as one domain.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct host {
    const char *name;
    uint32_t summary;
};

static int compare_hosts(const void *left, const void *right)
{
    const struct host *a = left, *b = right;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->summary > b->summary) - (a->summary < b->summary);
}

static const char *host_of(const struct rs_summary *summary)
{
    const rs_str host = summary->trace.host;
    return host == RS_STR_NONE || host == RS_STR_EMPTY ? NULL
                                                       : rs_strtab_text(&summary->strings, host);
}

static bool is_with_id(const char *name, const char *plain, size_t length)
{
    return strncmp(name, plain, length) == 0 && strncmp(name + length, " (", 2) == 0;
}

/* "node7", of a source that knows no machine id, and "node7 (id)" are one host when there is one such id. Sorted, all of
 * these stand right behind the plain name, which is hosts[at - 1]. */
static bool is_only_id_of_name(const struct host *hosts, size_t count, size_t at)
{
    const char *plain = hosts[at - 1].name;
    const size_t length = strlen(plain);
    if (!is_with_id(hosts[at].name, plain, length)) {
        return false;
    }
    for (size_t i = at + 1; i < count && is_with_id(hosts[i].name, plain, length); i++) {
        if (strcmp(hosts[i].name, hosts[at].name) != 0) {
            return false;
        }
    }
    return true;
}

/* Domains 1.. are hosts, 0 the files without one (or everybody), above those each for itself. */
enum rs_status clock_domains(struct join *join)
{
    const struct rs_analysis *out = join->out;
    struct host *hosts = rs_mem_calloc(out->summary_count + 1, sizeof *hosts);
    if (hosts == NULL) {
        return RS_NOMEM;
    }
    size_t count = 0;
    join->unknown_hosts = 0;
    for (size_t s = 0; s < out->summary_count; s++) {
        const char *name = host_of(out->summaries[s]);
        join->domain[s] = 0;
        if (name != NULL && !join->assume_common_clock) {
            hosts[count++] = (struct host){name, (uint32_t)s};
        } else if (name == NULL && out->ranks[s].takes_part) {
            join->unknown_hosts++;
        }
    }
    qsort(hosts, count, sizeof *hosts, compare_hosts);
    uint32_t domain = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || (strcmp(hosts[i].name, hosts[i - 1].name) != 0 &&
                       !is_only_id_of_name(hosts, count, i))) {
            domain++;
        }
        join->domain[hosts[i].summary] = domain;
    }
    rs_mem_free(hosts);
    for (size_t s = 0; s < out->summary_count; s++) {
        if (join->domain[s] == 0 && !join->assume_common_clock && !join->unknown_share_clock) {
            join->domain[s] = ++domain;
        }
    }
    return RS_OK;
}

/* A symmetric operation among files without a host that could not have happened on one clock. */
bool clock_has_conflict(const struct join *join)
{
    const struct rs_analysis *out = join->out;
    for (size_t i = 0; i < out->op_count; i++) {
        const struct rs_job_op *op = &out->ops[i];
        if (!op->is_matched || rs_op_type_dependency((enum rs_op_type)op->type) != RS_DEPENDS_ALL) {
            continue;
        }
        rs_ns max_start = RS_NS_MIN, min_end = RS_NS_MAX;
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const struct rs_job_row *row = &out->rows[r];
            const struct rs_comm_op *own = join_op(join, row->summary, row->op_index);
            if (join->domain[row->summary] != 0) {
                continue;
            }
            max_start = own->start > max_start ? own->start : max_start;
            if ((own->flags & RS_OP_UNFINISHED) == 0 && own->end < min_end) {
                min_end = own->end;
            }
        }
        if (max_start != RS_NS_MIN && min_end != RS_NS_MAX && max_start > min_end &&
            max_start - min_end > RS_CLOCK_BOUND_NS) {
            return true;
        }
    }
    return false;
}

bool clock_crosses(const struct join *join, const struct rs_job_op *op)
{
    const struct rs_job_row *rows = &join->out->rows[op->row_first];
    for (size_t r = 1; r < op->row_count; r++) {
        if (join->domain[rows[r].summary] != join->domain[rows[0].summary]) {
            return true;
        }
    }
    return false;
}
