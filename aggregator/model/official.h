/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of analysis.db, in the vendor's shape: row structs and descriptors from official/NAME.def.
 *
 * Figures are decimal digits (DECIMAL, NUMERIC): ours exact, the vendor's as they came in; what is unknown is absent. The first
 * five end with rank_id, which a rank's own file does not have.
 */
#ifndef RS_MODEL_OFFICIAL_H
#define RS_MODEL_OFFICIAL_H

#include "aggregator/model/columns.h"

#define C RS_FIELD
struct rs_row_step_trace_time {
#include "aggregator/model/official/step_trace_time.def"
};
struct rs_row_comm_bandwidth {
#include "aggregator/model/official/comm_bandwidth.def"
};
struct rs_row_comm_matrix {
#include "aggregator/model/official/comm_matrix.def"
};
struct rs_row_comm_time {
#include "aggregator/model/official/comm_time.def"
};
struct rs_row_collective {
#include "aggregator/model/official/collective.def"
};
struct rs_row_collective_bandwidth {
#include "aggregator/model/official/collective_bandwidth.def"
};
struct rs_row_link_estimate {
#include "aggregator/model/official/link_estimate.def"
};
struct rs_row_rank_manifest {
#include "aggregator/model/official/rank_manifest.def"
};
#undef C

/* In the order in which analysis.db has them. The first four are official, the others ours. */
enum rs_official {
    RS_OFFICIAL_STEP_TRACE_TIME,
    RS_OFFICIAL_BANDWIDTH,
    RS_OFFICIAL_MATRIX,
    RS_OFFICIAL_TIME,
    RS_OFFICIAL_COLLECTIVE,
    RS_OFFICIAL_COLLECTIVE_BANDWIDTH,
    RS_OFFICIAL_LINK_ESTIMATE,
    RS_OFFICIAL_DERIVED_STEP,
    RS_OFFICIAL_DERIVED_TIME,
    RS_OFFICIAL_RANK_MANIFEST,
    RS_OFFICIAL_COUNT
};
enum { RS_OFFICIAL_OF_A_RANK = 4 }; /* so many are in a rank's own file, without rank_id */
extern const struct rs_table rs_official_tables[RS_OFFICIAL_COUNT];

#endif
