/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose times may be compared?
 *
 * A clock is a host's, or of a file that names no host that file's own. Clocks that could be aligned (clock_fit.c) form a
 * domain: within it Wait, Transfer and LastRank are computed, as far as they are larger than what the clocks are known to.
 * Across domains nothing is said, unless --assume-common-clock says that all is one clock. A file that lost its
 * time base takes no part at all.
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

bool clock_names_host(const struct join *join, size_t summary)
{
    return host_of(join->out->summaries[summary]) != NULL;
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

/* Hosts from 1 on by name, then one for each file that names none; 0 is everybody, where that is assumed. Each is a
 * domain, until they are aligned. */
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
        join->host[s] = 0;
        if (name != NULL && !join->assume_common_clock) {
            hosts[count++] = (struct host){name, (uint32_t)s};
        } else if (name == NULL && out->ranks[s].takes_part) {
            join->unknown_hosts++;
        }
    }
    qsort(hosts, count, sizeof *hosts, compare_hosts);
    uint32_t host = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || (strcmp(hosts[i].name, hosts[i - 1].name) != 0 &&
                       !is_only_id_of_name(hosts, count, i))) {
            host++;
        }
        join->host[hosts[i].summary] = host;
    }
    rs_mem_free(hosts);
    join->host_count = 0;
    for (size_t s = 0; s < out->summary_count; s++) {
        if (join->host[s] == 0 && !join->assume_common_clock) {
            join->host[s] = ++host;
        }
        join->domain[s] = join->host[s];
        out->clocks[s] = (struct rs_job_clock){
            .method = join->assume_common_clock ? RS_CLOCK_ASSUMED : RS_CLOCK_REFERENCE};
    }
    join->host_count = join->assume_common_clock ? 1 : host;
    return RS_OK;
}

const char *rs_clock_method_text(enum rs_clock_method method)
{
    static const char *const texts[] = {
        [RS_CLOCK_REFERENCE] = "reference",
        [RS_CLOCK_ENDS] = "ends",
        [RS_CLOCK_ASSUMED] = "assumed",
        [RS_CLOCK_NONE] = "none",
    };
    return texts[method];
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
