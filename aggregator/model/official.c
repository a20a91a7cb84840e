/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/model/official.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define C               RS_COLUMN

#define RS_ROW rs_row_step_trace_time
static const struct rs_column step_trace_time_columns[] = {
#include "aggregator/model/official/step_trace_time.def"
};
#undef RS_ROW

#define RS_ROW rs_row_comm_bandwidth
static const struct rs_column comm_bandwidth_columns[] = {
#include "aggregator/model/official/comm_bandwidth.def"
};
#undef RS_ROW

#define RS_ROW rs_row_comm_matrix
static const struct rs_column comm_matrix_columns[] = {
#include "aggregator/model/official/comm_matrix.def"
};
#undef RS_ROW

#define RS_ROW rs_row_comm_time
static const struct rs_column comm_time_columns[] = {
#include "aggregator/model/official/comm_time.def"
};
#undef RS_ROW

#define RS_ROW rs_row_collective
static const struct rs_column collective_columns[] = {
#include "aggregator/model/official/collective.def"
};
#undef RS_ROW

#define RS_ROW rs_row_collective_bandwidth
static const struct rs_column collective_bandwidth_columns[] = {
#include "aggregator/model/official/collective_bandwidth.def"
};
#undef RS_ROW

#define RS_ROW rs_row_link_estimate
static const struct rs_column link_estimate_columns[] = {
#include "aggregator/model/official/link_estimate.def"
};
#undef RS_ROW

#define RS_ROW rs_row_rank_manifest
static const struct rs_column rank_manifest_columns[] = {
#include "aggregator/model/official/rank_manifest.def"
};
#undef RS_ROW

#undef C

#define TABLE(name, columns)                                                                       \
    {                                                                                              \
        name, columns##_columns, COUNT_OF(columns##_columns), sizeof(struct rs_row_##columns)      \
    }

const struct rs_table rs_official_tables[RS_OFFICIAL_COUNT] = {
    [RS_OFFICIAL_STEP_TRACE_TIME] = TABLE("StepTraceTime", step_trace_time),
    [RS_OFFICIAL_BANDWIDTH] = TABLE("CommAnalyzerBandwidth", comm_bandwidth),
    [RS_OFFICIAL_MATRIX] = TABLE("CommAnalyzerMatrix", comm_matrix),
    [RS_OFFICIAL_TIME] = TABLE("CommAnalyzerTime", comm_time),
    [RS_OFFICIAL_COLLECTIVE] = TABLE("Collective", collective),
    [RS_OFFICIAL_COLLECTIVE_BANDWIDTH] = TABLE("CollectiveBandwidth", collective_bandwidth),
    [RS_OFFICIAL_LINK_ESTIMATE] = TABLE("LinkEstimate", link_estimate),
    [RS_OFFICIAL_DERIVED_STEP] = TABLE("DerivedStepTraceTime", step_trace_time),
    [RS_OFFICIAL_DERIVED_TIME] = TABLE("DerivedCommTime", comm_time),
    [RS_OFFICIAL_RANK_MANIFEST] = TABLE("RankManifest", rank_manifest),
};
