/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the model and the results of its reads: row structs and descriptors, both from the .def files.
 *
 *     tables/NAME.def -> struct rs_row_NAME, rs_table_NAME      what is stored; the first line says its unit
 *     reads/NAME.def  -> struct rs_row_NAME, rs_table_NAME      what a read answers (reads.h)
 *
 * A key column without RS_NULLABLE that holds RS_NULL is stored as that number: operations outside every
 * step stand before all steps.
 */
#ifndef RS_MODEL_TABLES_H
#define RS_MODEL_TABLES_H

#include "aggregator/model/columns.h"

/* A unit is written and replaced as a whole: one part of a rank, one step, or what is said of the capture once. */
enum rs_unit_kind { RS_UNIT_RANK, RS_UNIT_STEP, RS_UNIT_CAPTURE };

/* Words of codes, for RS_ENUM columns. Any code: "unknown" for one that is none. */
const char *rs_op_text(int64_t code);       /* enum rs_op_type */
const char *rs_coverage_text(int64_t code); /* 0 exact, 1 partial */
const char *rs_unit_kind_text(int64_t code);
const char *rs_step_origin_name(int64_t code); /* enum rs_step_origin */
const char *rs_work_class_name(int64_t code);  /* enum rs_work_class */

#define C RS_FIELD
struct rs_row_rank {
#include "aggregator/model/tables/rank.def"
};
struct rs_row_step {
#include "aggregator/model/tables/step.def"
};
struct rs_row_step_device {
#include "aggregator/model/tables/step_device.def"
};
struct rs_row_rank_device {
#include "aggregator/model/tables/rank_device.def"
};
struct rs_row_kernel {
#include "aggregator/model/tables/kernel.def"
};
struct rs_row_comm_group {
#include "aggregator/model/tables/comm_group.def"
};
struct rs_row_op {
#include "aggregator/model/tables/op.def"
};
struct rs_row_op_member {
#include "aggregator/model/tables/op_member.def"
};
struct rs_row_op_packet {
#include "aggregator/model/tables/op_packet.def"
};
struct rs_row_op_link {
#include "aggregator/model/tables/op_link.def"
};
struct rs_row_link {
#include "aggregator/model/tables/link.def"
};
struct rs_row_note {
#include "aggregator/model/tables/note.def"
};
struct rs_row_vendor_step {
#include "aggregator/model/tables/vendor_step.def"
};
struct rs_row_finding {
#include "aggregator/model/tables/finding.def"
};
struct rs_row_finding_place {
#include "aggregator/model/tables/finding_place.def"
};
struct rs_row_evidence {
#include "aggregator/model/tables/evidence.def"
};
struct rs_row_diagnosis {
#include "aggregator/model/tables/diagnosis.def"
};
struct rs_row_wait_cause {
#include "aggregator/model/tables/wait_cause.def"
};
struct rs_row_unjudged {
#include "aggregator/model/tables/unjudged.def"
};
struct rs_row_capture {
#include "aggregator/model/tables/capture.def"
};
struct rs_row_stream {
#include "aggregator/model/tables/stream.def"
};
struct rs_row_input {
#include "aggregator/model/tables/input.def"
};
struct rs_row_coverage {
#include "aggregator/model/tables/coverage.def"
};
struct rs_row_clock {
#include "aggregator/model/tables/clock.def"
};
struct rs_row_vendor_comm_time {
#include "aggregator/model/tables/vendor_comm_time.def"
};
struct rs_row_vendor_bandwidth {
#include "aggregator/model/tables/vendor_bandwidth.def"
};
struct rs_row_vendor_matrix {
#include "aggregator/model/tables/vendor_matrix.def"
};
struct rs_row_write_unit {
#include "aggregator/model/tables/write_unit.def"
};
struct rs_row_rank_breakdown {
#include "aggregator/model/reads/rank_breakdown.def"
};
struct rs_row_official_step {
#include "aggregator/model/reads/official_step.def"
};
struct rs_row_vendor_official_step {
#include "aggregator/model/reads/vendor_official_step.def"
};
struct rs_row_step_breakdown {
#include "aggregator/model/reads/step_breakdown.def"
};
struct rs_row_groups {
#include "aggregator/model/reads/groups.def"
};
struct rs_row_collectives {
#include "aggregator/model/reads/collectives.def"
};
struct rs_row_job_op {
#include "aggregator/model/reads/job_op.def"
};
struct rs_row_job_member {
#include "aggregator/model/reads/job_member.def"
};
struct rs_row_job_packet {
#include "aggregator/model/reads/job_packet.def"
};
struct rs_row_job_link {
#include "aggregator/model/reads/job_link.def"
};
struct rs_row_rank_steps {
#include "aggregator/model/reads/rank_steps.def"
};
struct rs_row_span {
#include "aggregator/model/reads/span.def"
};
struct rs_row_counter {
#include "aggregator/model/reads/counter.def"
};
#undef C

extern const struct rs_table rs_table_rank;
extern const struct rs_table rs_table_step;
extern const struct rs_table rs_table_step_device;
extern const struct rs_table rs_table_rank_device;
extern const struct rs_table rs_table_kernel;
extern const struct rs_table rs_table_comm_group;
extern const struct rs_table rs_table_op;
extern const struct rs_table rs_table_op_member;
extern const struct rs_table rs_table_op_packet;
extern const struct rs_table rs_table_op_link;
extern const struct rs_table rs_table_link;
extern const struct rs_table rs_table_note;
extern const struct rs_table rs_table_vendor_step;
extern const struct rs_table rs_table_finding;
extern const struct rs_table rs_table_finding_place;
extern const struct rs_table rs_table_evidence;
/* Of who came closest when nobody is named: rows are those of finding, finding_place and evidence. */
extern const struct rs_table rs_table_undecided;
extern const struct rs_table rs_table_undecided_place;
extern const struct rs_table rs_table_undecided_evidence;
extern const struct rs_table rs_table_diagnosis;
extern const struct rs_table rs_table_wait_cause;
extern const struct rs_table rs_table_unjudged;
extern const struct rs_table rs_table_capture;
extern const struct rs_table rs_table_stream;
extern const struct rs_table rs_table_input;
extern const struct rs_table rs_table_coverage;
extern const struct rs_table rs_table_clock;
extern const struct rs_table rs_table_vendor_comm_time;
extern const struct rs_table rs_table_vendor_bandwidth;
extern const struct rs_table rs_table_vendor_matrix;
extern const struct rs_table rs_table_write_unit;
extern const struct rs_table rs_table_rank_breakdown;
extern const struct rs_table rs_table_official_step;
extern const struct rs_table rs_table_vendor_official_step;
extern const struct rs_table rs_table_step_breakdown;
extern const struct rs_table rs_table_groups;
extern const struct rs_table rs_table_collectives;
extern const struct rs_table rs_table_job_op;
extern const struct rs_table rs_table_job_member;
extern const struct rs_table rs_table_job_packet;
extern const struct rs_table rs_table_job_link;
extern const struct rs_table rs_table_rank_steps;
extern const struct rs_table rs_table_span;
extern const struct rs_table rs_table_host_span; /* rows are struct rs_row_span, too */
extern const struct rs_table rs_table_counter;

/* Every table that is stored, by name; NULL behind the last. */
extern const struct rs_table *const rs_tables[];
/* NULL: there is none of that name. */
const struct rs_table *rs_table_named(const char *name);

#endif
