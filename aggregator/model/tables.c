/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/model/tables.h"

#include "common/reduce/classify.h"
#include "common/reduce/summary.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

const char *rs_op_text(int64_t code)
{
    return code >= 0 && code < RS_OP_TYPE_COUNT ? rs_op_type_text((enum rs_op_type)code)
                                                : "unknown";
}

const char *rs_coverage_text(int64_t code)
{
    return code == 0 ? "exact" : code == 1 ? "partial" : "unknown";
}

const char *rs_unit_kind_text(int64_t code)
{
    static const char *const texts[] = {
        [RS_UNIT_RANK] = "rank", [RS_UNIT_STEP] = "step", [RS_UNIT_CAPTURE] = "capture"};
    return code >= 0 && code < (int64_t)COUNT_OF(texts) ? texts[code] : "unknown";
}

const char *rs_step_origin_name(int64_t code)
{
    return code >= RS_STEPS_NONE && code <= RS_STEPS_NATIVE
               ? rs_step_origin_text((enum rs_step_origin)code)
               : "unknown";
}

const char *rs_work_class_name(int64_t code)
{
    return code >= 0 && code < RS_WORK_CLASS_COUNT ? rs_work_class_text((enum rs_work_class)code)
                                                   : "unknown";
}

#define C RS_COLUMN

#define RS_ROW rs_row_rank
static const struct rs_column rank_columns[] = {
#include "aggregator/model/tables/rank.def"
};
#undef RS_ROW
const struct rs_table rs_table_rank = {"rank", rank_columns, COUNT_OF(rank_columns),
                                       sizeof(struct rs_row_rank)};

#define RS_ROW rs_row_step
static const struct rs_column step_columns[] = {
#include "aggregator/model/tables/step.def"
};
#undef RS_ROW
const struct rs_table rs_table_step = {"step", step_columns, COUNT_OF(step_columns),
                                       sizeof(struct rs_row_step)};

#define RS_ROW rs_row_step_device
static const struct rs_column step_device_columns[] = {
#include "aggregator/model/tables/step_device.def"
};
#undef RS_ROW
const struct rs_table rs_table_step_device = {"step_device", step_device_columns,
                                              COUNT_OF(step_device_columns),
                                              sizeof(struct rs_row_step_device)};

#define RS_ROW rs_row_rank_device
static const struct rs_column rank_device_columns[] = {
#include "aggregator/model/tables/rank_device.def"
};
#undef RS_ROW
const struct rs_table rs_table_rank_device = {"rank_device", rank_device_columns,
                                              COUNT_OF(rank_device_columns),
                                              sizeof(struct rs_row_rank_device)};

#define RS_ROW rs_row_kernel
static const struct rs_column kernel_columns[] = {
#include "aggregator/model/tables/kernel.def"
};
#undef RS_ROW
const struct rs_table rs_table_kernel = {"kernel", kernel_columns, COUNT_OF(kernel_columns),
                                         sizeof(struct rs_row_kernel)};

#define RS_ROW rs_row_comm_group
static const struct rs_column comm_group_columns[] = {
#include "aggregator/model/tables/comm_group.def"
};
#undef RS_ROW
const struct rs_table rs_table_comm_group = {"comm_group", comm_group_columns,
                                             COUNT_OF(comm_group_columns),
                                             sizeof(struct rs_row_comm_group)};

#define RS_ROW rs_row_op
static const struct rs_column op_columns[] = {
#include "aggregator/model/tables/op.def"
};
#undef RS_ROW
const struct rs_table rs_table_op = {"op", op_columns, COUNT_OF(op_columns),
                                     sizeof(struct rs_row_op)};

#define RS_ROW rs_row_op_member
static const struct rs_column op_member_columns[] = {
#include "aggregator/model/tables/op_member.def"
};
#undef RS_ROW
const struct rs_table rs_table_op_member = {
    "op_member", op_member_columns, COUNT_OF(op_member_columns), sizeof(struct rs_row_op_member)};

#define RS_ROW rs_row_op_packet
static const struct rs_column op_packet_columns[] = {
#include "aggregator/model/tables/op_packet.def"
};
#undef RS_ROW
const struct rs_table rs_table_op_packet = {
    "op_packet", op_packet_columns, COUNT_OF(op_packet_columns), sizeof(struct rs_row_op_packet)};

#define RS_ROW rs_row_op_link
static const struct rs_column op_link_columns[] = {
#include "aggregator/model/tables/op_link.def"
};
#undef RS_ROW
const struct rs_table rs_table_op_link = {"op_link", op_link_columns, COUNT_OF(op_link_columns),
                                          sizeof(struct rs_row_op_link)};

#define RS_ROW rs_row_link
static const struct rs_column link_columns[] = {
#include "aggregator/model/tables/link.def"
};
#undef RS_ROW
const struct rs_table rs_table_link = {"link", link_columns, COUNT_OF(link_columns),
                                       sizeof(struct rs_row_link)};

#define RS_ROW rs_row_note
static const struct rs_column note_columns[] = {
#include "aggregator/model/tables/note.def"
};
#undef RS_ROW
const struct rs_table rs_table_note = {"note", note_columns, COUNT_OF(note_columns),
                                       sizeof(struct rs_row_note)};

#define RS_ROW rs_row_vendor_step
static const struct rs_column vendor_step_columns[] = {
#include "aggregator/model/tables/vendor_step.def"
};
#undef RS_ROW
const struct rs_table rs_table_vendor_step = {"vendor_step", vendor_step_columns,
                                              COUNT_OF(vendor_step_columns),
                                              sizeof(struct rs_row_vendor_step)};

#define RS_ROW rs_row_finding
static const struct rs_column finding_columns[] = {
#include "aggregator/model/tables/finding.def"
};
#undef RS_ROW
const struct rs_table rs_table_finding = {"finding", finding_columns, COUNT_OF(finding_columns),
                                          sizeof(struct rs_row_finding)};

#define RS_ROW rs_row_finding_place
static const struct rs_column finding_place_columns[] = {
#include "aggregator/model/tables/finding_place.def"
};
#undef RS_ROW
const struct rs_table rs_table_finding_place = {"finding_place", finding_place_columns,
                                                COUNT_OF(finding_place_columns),
                                                sizeof(struct rs_row_finding_place)};

#define RS_ROW rs_row_evidence
static const struct rs_column evidence_columns[] = {
#include "aggregator/model/tables/evidence.def"
};
#undef RS_ROW
const struct rs_table rs_table_evidence = {"evidence", evidence_columns, COUNT_OF(evidence_columns),
                                           sizeof(struct rs_row_evidence)};

const struct rs_table rs_table_undecided = {"undecided", finding_columns, COUNT_OF(finding_columns),
                                            sizeof(struct rs_row_finding)};
const struct rs_table rs_table_undecided_place = {"undecided_place", finding_place_columns,
                                                  COUNT_OF(finding_place_columns),
                                                  sizeof(struct rs_row_finding_place)};
const struct rs_table rs_table_undecided_evidence = {"undecided_evidence", evidence_columns,
                                                     COUNT_OF(evidence_columns),
                                                     sizeof(struct rs_row_evidence)};

#define RS_ROW rs_row_diagnosis
static const struct rs_column diagnosis_columns[] = {
#include "aggregator/model/tables/diagnosis.def"
};
#undef RS_ROW
const struct rs_table rs_table_diagnosis = {
    "diagnosis", diagnosis_columns, COUNT_OF(diagnosis_columns), sizeof(struct rs_row_diagnosis)};

#define RS_ROW rs_row_wait_cause
static const struct rs_column wait_cause_columns[] = {
#include "aggregator/model/tables/wait_cause.def"
};
#undef RS_ROW
const struct rs_table rs_table_wait_cause = {"wait_cause", wait_cause_columns,
                                             COUNT_OF(wait_cause_columns),
                                             sizeof(struct rs_row_wait_cause)};

#define RS_ROW rs_row_unjudged
static const struct rs_column unjudged_columns[] = {
#include "aggregator/model/tables/unjudged.def"
};
#undef RS_ROW
const struct rs_table rs_table_unjudged = {"unjudged", unjudged_columns, COUNT_OF(unjudged_columns),
                                           sizeof(struct rs_row_unjudged)};

#define RS_ROW rs_row_capture
static const struct rs_column capture_columns[] = {
#include "aggregator/model/tables/capture.def"
};
#undef RS_ROW
const struct rs_table rs_table_capture = {"capture", capture_columns, COUNT_OF(capture_columns),
                                          sizeof(struct rs_row_capture)};

#define RS_ROW rs_row_stream
static const struct rs_column stream_columns[] = {
#include "aggregator/model/tables/stream.def"
};
#undef RS_ROW
const struct rs_table rs_table_stream = {"stream", stream_columns, COUNT_OF(stream_columns),
                                         sizeof(struct rs_row_stream)};

#define RS_ROW rs_row_input
static const struct rs_column input_columns[] = {
#include "aggregator/model/tables/input.def"
};
#undef RS_ROW
const struct rs_table rs_table_input = {"input", input_columns, COUNT_OF(input_columns),
                                        sizeof(struct rs_row_input)};

#define RS_ROW rs_row_coverage
static const struct rs_column coverage_columns[] = {
#include "aggregator/model/tables/coverage.def"
};
#undef RS_ROW
const struct rs_table rs_table_coverage = {"coverage", coverage_columns, COUNT_OF(coverage_columns),
                                           sizeof(struct rs_row_coverage)};

#define RS_ROW rs_row_clock
static const struct rs_column clock_columns[] = {
#include "aggregator/model/tables/clock.def"
};
#undef RS_ROW
const struct rs_table rs_table_clock = {"clock", clock_columns, COUNT_OF(clock_columns),
                                        sizeof(struct rs_row_clock)};

#define RS_ROW rs_row_vendor_comm_time
static const struct rs_column vendor_comm_time_columns[] = {
#include "aggregator/model/tables/vendor_comm_time.def"
};
#undef RS_ROW
const struct rs_table rs_table_vendor_comm_time = {"vendor_comm_time", vendor_comm_time_columns,
                                                   COUNT_OF(vendor_comm_time_columns),
                                                   sizeof(struct rs_row_vendor_comm_time)};

#define RS_ROW rs_row_vendor_bandwidth
static const struct rs_column vendor_bandwidth_columns[] = {
#include "aggregator/model/tables/vendor_bandwidth.def"
};
#undef RS_ROW
const struct rs_table rs_table_vendor_bandwidth = {"vendor_bandwidth", vendor_bandwidth_columns,
                                                   COUNT_OF(vendor_bandwidth_columns),
                                                   sizeof(struct rs_row_vendor_bandwidth)};

#define RS_ROW rs_row_vendor_matrix
static const struct rs_column vendor_matrix_columns[] = {
#include "aggregator/model/tables/vendor_matrix.def"
};
#undef RS_ROW
const struct rs_table rs_table_vendor_matrix = {"vendor_matrix", vendor_matrix_columns,
                                                COUNT_OF(vendor_matrix_columns),
                                                sizeof(struct rs_row_vendor_matrix)};

#define RS_ROW rs_row_write_unit
static const struct rs_column write_unit_columns[] = {
#include "aggregator/model/tables/write_unit.def"
};
#undef RS_ROW
const struct rs_table rs_table_write_unit = {"write_unit", write_unit_columns,
                                             COUNT_OF(write_unit_columns),
                                             sizeof(struct rs_row_write_unit)};

#define RS_ROW rs_row_rank_breakdown
static const struct rs_column rank_breakdown_columns[] = {
#include "aggregator/model/reads/rank_breakdown.def"
};
#undef RS_ROW
const struct rs_table rs_table_rank_breakdown = {"rank_breakdown", rank_breakdown_columns,
                                                 COUNT_OF(rank_breakdown_columns),
                                                 sizeof(struct rs_row_rank_breakdown)};

#define RS_ROW rs_row_official_step
static const struct rs_column official_step_columns[] = {
#include "aggregator/model/reads/official_step.def"
};
#undef RS_ROW
const struct rs_table rs_table_official_step = {"official_step", official_step_columns,
                                                COUNT_OF(official_step_columns),
                                                sizeof(struct rs_row_official_step)};

#define RS_ROW rs_row_vendor_official_step
static const struct rs_column vendor_official_step_columns[] = {
#include "aggregator/model/reads/vendor_official_step.def"
};
#undef RS_ROW
const struct rs_table rs_table_vendor_official_step = {
    "vendor_official_step", vendor_official_step_columns, COUNT_OF(vendor_official_step_columns),
    sizeof(struct rs_row_vendor_official_step)};

#define RS_ROW rs_row_step_breakdown
static const struct rs_column step_breakdown_columns[] = {
#include "aggregator/model/reads/step_breakdown.def"
};
#undef RS_ROW
const struct rs_table rs_table_step_breakdown = {"step_breakdown", step_breakdown_columns,
                                                 COUNT_OF(step_breakdown_columns),
                                                 sizeof(struct rs_row_step_breakdown)};

#define RS_ROW rs_row_groups
static const struct rs_column groups_columns[] = {
#include "aggregator/model/reads/groups.def"
};
#undef RS_ROW
const struct rs_table rs_table_groups = {"groups", groups_columns, COUNT_OF(groups_columns),
                                         sizeof(struct rs_row_groups)};

#define RS_ROW rs_row_collectives
static const struct rs_column collectives_columns[] = {
#include "aggregator/model/reads/collectives.def"
};
#undef RS_ROW
const struct rs_table rs_table_collectives = {"collectives", collectives_columns,
                                              COUNT_OF(collectives_columns),
                                              sizeof(struct rs_row_collectives)};

#define RS_ROW rs_row_job_op
static const struct rs_column job_op_columns[] = {
#include "aggregator/model/reads/job_op.def"
};
#undef RS_ROW
const struct rs_table rs_table_job_op = {"job_op", job_op_columns, COUNT_OF(job_op_columns),
                                         sizeof(struct rs_row_job_op)};

#define RS_ROW rs_row_job_member
static const struct rs_column job_member_columns[] = {
#include "aggregator/model/reads/job_member.def"
};
#undef RS_ROW
const struct rs_table rs_table_job_member = {"job_member", job_member_columns,
                                             COUNT_OF(job_member_columns),
                                             sizeof(struct rs_row_job_member)};

#define RS_ROW rs_row_job_packet
static const struct rs_column job_packet_columns[] = {
#include "aggregator/model/reads/job_packet.def"
};
#undef RS_ROW
const struct rs_table rs_table_job_packet = {"job_packet", job_packet_columns,
                                             COUNT_OF(job_packet_columns),
                                             sizeof(struct rs_row_job_packet)};

#define RS_ROW rs_row_job_link
static const struct rs_column job_link_columns[] = {
#include "aggregator/model/reads/job_link.def"
};
#undef RS_ROW
const struct rs_table rs_table_job_link = {"job_link", job_link_columns, COUNT_OF(job_link_columns),
                                           sizeof(struct rs_row_job_link)};

#define RS_ROW rs_row_rank_steps
static const struct rs_column rank_steps_columns[] = {
#include "aggregator/model/reads/rank_steps.def"
};
#undef RS_ROW
const struct rs_table rs_table_rank_steps = {"rank_steps", rank_steps_columns,
                                             COUNT_OF(rank_steps_columns),
                                             sizeof(struct rs_row_rank_steps)};

#define RS_ROW rs_row_span
static const struct rs_column span_columns[] = {
#include "aggregator/model/reads/span.def"
};
#undef RS_ROW
const struct rs_table rs_table_span = {"span", span_columns, COUNT_OF(span_columns),
                                       sizeof(struct rs_row_span)};
const struct rs_table rs_table_host_span = {"host_span", span_columns, COUNT_OF(span_columns),
                                            sizeof(struct rs_row_span)};

#define RS_ROW rs_row_counter
static const struct rs_column counter_columns[] = {
#include "aggregator/model/reads/counter.def"
};
#undef RS_ROW
const struct rs_table rs_table_counter = {"counter", counter_columns, COUNT_OF(counter_columns),
                                          sizeof(struct rs_row_counter)};
#undef C

const struct rs_table *const rs_tables[] = {&rs_table_rank,
                                            &rs_table_step,
                                            &rs_table_step_device,
                                            &rs_table_rank_device,
                                            &rs_table_kernel,
                                            &rs_table_comm_group,
                                            &rs_table_op,
                                            &rs_table_op_member,
                                            &rs_table_op_packet,
                                            &rs_table_op_link,
                                            &rs_table_link,
                                            &rs_table_note,
                                            &rs_table_vendor_step,
                                            &rs_table_finding,
                                            &rs_table_finding_place,
                                            &rs_table_evidence,
                                            &rs_table_undecided,
                                            &rs_table_undecided_place,
                                            &rs_table_undecided_evidence,
                                            &rs_table_diagnosis,
                                            &rs_table_wait_cause,
                                            &rs_table_unjudged,
                                            &rs_table_capture,
                                            &rs_table_stream,
                                            &rs_table_input,
                                            &rs_table_coverage,
                                            &rs_table_clock,
                                            &rs_table_vendor_comm_time,
                                            &rs_table_vendor_bandwidth,
                                            &rs_table_vendor_matrix,
                                            &rs_table_write_unit,
                                            NULL};

const struct rs_table *rs_table_named(const char *name)
{
    for (size_t i = 0; rs_tables[i]; i++)
        if (strcmp(rs_tables[i]->name, name) == 0)
            return rs_tables[i];
    return NULL;
}
