/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be asked over all captures: row structs and descriptors, as those of a capture's tables (tables.h).
 *
 *     history/NAME.def -> struct rs_row_history_NAME, and the descriptor of the view
 *
 * aggregator/output/history.h makes the rows.
 */
#ifndef RS_MODEL_HISTORY_H
#define RS_MODEL_HISTORY_H

#include "aggregator/model/columns.h"

enum rs_history_view {
    RS_HISTORY_CAPTURES,
    RS_HISTORY_RANKS,
    RS_HISTORY_FINDINGS,
    RS_HISTORY_HOSTS,
    RS_HISTORY_VIEW_COUNT
};

struct rs_history_def {
    const char *name; /* "captures": HTTP, the command line */
    const struct rs_table *table;
    const char *help;
};
const struct rs_history_def *rs_history_def(enum rs_history_view view);
/* False: there is none of that name. */
bool rs_history_named(const char *name, enum rs_history_view *view_p);

#define C RS_FIELD
struct rs_row_history_captures {
#include "aggregator/model/history/captures.def"
};
struct rs_row_history_ranks {
#include "aggregator/model/history/ranks.def"
};
struct rs_row_history_findings {
#include "aggregator/model/history/findings.def"
};
struct rs_row_history_hosts {
#include "aggregator/model/history/hosts.def"
};
#undef C

#endif
