/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/model/history.h"

#include "common/base/check.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define C               RS_COLUMN

#define RS_ROW rs_row_history_captures
static const struct rs_column captures_columns[] = {
#include "aggregator/model/history/captures.def"
};
#undef RS_ROW
static const struct rs_table captures_table = {"history_captures", captures_columns,
                                               COUNT_OF(captures_columns),
                                               sizeof(struct rs_row_history_captures)};

#define RS_ROW rs_row_history_ranks
static const struct rs_column ranks_columns[] = {
#include "aggregator/model/history/ranks.def"
};
#undef RS_ROW
static const struct rs_table ranks_table = {"history_ranks", ranks_columns, COUNT_OF(ranks_columns),
                                            sizeof(struct rs_row_history_ranks)};

#define RS_ROW rs_row_history_findings
static const struct rs_column findings_columns[] = {
#include "aggregator/model/history/findings.def"
};
#undef RS_ROW
static const struct rs_table findings_table = {"history_findings", findings_columns,
                                               COUNT_OF(findings_columns),
                                               sizeof(struct rs_row_history_findings)};

#define RS_ROW rs_row_history_hosts
static const struct rs_column hosts_columns[] = {
#include "aggregator/model/history/hosts.def"
};
#undef RS_ROW
static const struct rs_table hosts_table = {"history_hosts", hosts_columns, COUNT_OF(hosts_columns),
                                            sizeof(struct rs_row_history_hosts)};
#undef C

static const struct rs_history_def defs[RS_HISTORY_VIEW_COUNT] = {
    [RS_HISTORY_CAPTURES] = {"captures", &captures_table,
                             "how long a step took, and what was found first, capture by capture"},
    [RS_HISTORY_RANKS] = {"ranks", &ranks_table,
                          "the steps of every rank, and whether a finding names it"},
    [RS_HISTORY_FINDINGS] = {"findings", &findings_table,
                             "every finding, a row for each thing that it names"},
    [RS_HISTORY_HOSTS] = {"hosts", &hosts_table, "in how many runs a host was named"},
};

const struct rs_history_def *rs_history_def(enum rs_history_view view)
{
    RS_CHECK((unsigned)view < RS_HISTORY_VIEW_COUNT);
    return &defs[view];
}

bool rs_history_named(const char *name, enum rs_history_view *view_p)
{
    for (unsigned i = 0; i < RS_HISTORY_VIEW_COUNT; i++)
        if (strcmp(defs[i].name, name) == 0) {
            *view_p = (enum rs_history_view)i;
            return true;
        }
    return false;
}
