/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of output: what its files share.
 *
 *   sheet    a deliverable being written: buffer, temporary name, rename
 *   units    exact decimal texts of ns and bytes
 *   view     a document of the job, or the same in the shape that one rank's own profiler writes
 *   comm     the rows of communication.json and of the database, figure by figure
 *   matrix   the selection per link of communication_matrix.json and CommAnalyzerMatrix
 */
#ifndef RS_OUTPUT_OUTPUT_PRIV_H
#define RS_OUTPUT_OUTPUT_PRIV_H

#include "aggregator/output/output.h"
#include "common/base/json_out.h"

/* --- sheet ------------------------------------------------------------------------------- */

struct sheet {
    struct rs_buf buf; /* append here, then sheet_drain() */
    char *path;
    char *temporary;
    int fd;
};

/* A name beside `dir`/`name` that rename(2) can put in its place; both freed with rs_mem_free(). */
RS_MUST_CHECK enum rs_status sheet_names(const char *dir, const char *name, char **path_p,
                                         char **temporary_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status sheet_open(struct sheet *sheet, const char *dir, const char *name,
                                        struct rs_err *err);
/* Writes the buffer out when it holds more than 256 KiB. */
RS_MUST_CHECK enum rs_status sheet_drain(struct sheet *sheet, struct rs_err *err);
/* With status RS_OK the file appears; otherwise nothing remains of it. Returns the status, or its own failure. */
RS_MUST_CHECK enum rs_status sheet_close(struct sheet *sheet, enum rs_status status,
                                         struct rs_err *err);

/* --- sums -------------------------------------------------------------------------------- */

/* Times and bytes come from strangers' files: sums stop at the largest number instead of wrapping. */
static inline int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static inline int64_t product_of(int64_t a, int64_t b)
{
    int64_t product;
    if (!__builtin_mul_overflow(a, b, &product))
        return product;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/* --- units ------------------------------------------------------------------------------- */

enum { UNIT_TEXT_BYTES = 32 };

void unit_us(char text[UNIT_TEXT_BYTES], int64_t ns);    /* "-0.500": always three decimals */
void unit_ms(char text[UNIT_TEXT_BYTES], int64_t ns);    /* exact, zeros behind the point cut */
void unit_mb(char text[UNIT_TEXT_BYTES], int64_t bytes); /* 10^6 bytes, exact, zeros cut */
/* Rounded to four decimals, zeros cut: bytes over time in 10^9 bytes/s; a fraction. */
void unit_gb_per_s(char text[UNIT_TEXT_BYTES], int64_t bytes, rs_dur time);
void unit_ratio(char text[UNIT_TEXT_BYTES], rs_dur part,
                rs_dur rest); /* part / (part + rest), 0 of 0 is 0 */

/* For people: three digits and the unit that fits ("12.3 ms", "1.20 GB"). */
void unit_people_time(char text[UNIT_TEXT_BYTES], int64_t ns);
void unit_people_bytes(char text[UNIT_TEXT_BYTES], int64_t bytes);
void unit_people_rate(char text[UNIT_TEXT_BYTES], double bytes_per_s); /* GB/s */

/* --- tables ------------------------------------------------------------------------------ */

/* Per step row of each summary: may P2PWait be told? Index as in analysis->step_p2p_wait. */
RS_MUST_CHECK enum rs_status p2p_known_new(const struct rs_analysis *analysis, bool **known_p);

RS_MUST_CHECK enum rs_status table_rank_breakdown(const struct rs_analysis *analysis,
                                                  struct sheet *sheet, struct rs_err *err);
RS_MUST_CHECK enum rs_status table_step_trace_time(const struct rs_analysis *analysis,
                                                   struct sheet *sheet, struct rs_err *err);
RS_MUST_CHECK enum rs_status table_step_breakdown(const struct rs_analysis *analysis,
                                                  struct sheet *sheet, struct rs_err *err);
RS_MUST_CHECK enum rs_status table_collectives(const struct rs_analysis *analysis,
                                               struct sheet *sheet, struct rs_err *err);

/* --- comm -------------------------------------------------------------------------------- */

const struct rs_comm_op *comm_op_of(const struct rs_analysis *analysis,
                                    const struct rs_job_row *row);
const char *comm_group_text(const struct rs_analysis *analysis, const struct rs_job_op *op);

enum { COMM_HASH_BYTES = 24, COMM_NAME_BYTES = 96 };

/* "step12", or "step" outside every step. */
void comm_step_text(char text[UNIT_TEXT_BYTES], int64_t step);
/* The official decimal hash of a communicator's name. */
void comm_group_hash(char text[COMM_HASH_BYTES], const char *group);

/* One row in the order of the documents: (step, group, seq), then type, nth, rank. */
struct comm_item {
    size_t op, row;
    int32_t rank;
    uint8_t type;
    uint32_t nth; /* how many-th of this name on this rank, from 1 */
};
struct comm_items {
    struct comm_item *items;
    size_t count, capacity;
};

/* The op text of a row: the vendor's own, or <op>__<last 3 of the group hash>_<seq>_<nth>. */
void comm_item_name(const struct rs_analysis *analysis, const struct comm_item *item,
                    const char *hash, char text[COMM_NAME_BYTES]);

/* The same in HCCL's words: hcom_allReduce__<last 3>_<seq>_<nth>. */
void comm_item_official_name(const struct rs_analysis *analysis, const struct comm_item *item,
                             const char *hash, char text[COMM_NAME_BYTES]);

/* Whose document: the job's, or the one that a rank's own profiler writes. */
struct view {
    const struct rs_analysis *analysis;
    bool is_rank;
    size_t summary; /* of the rank */
};
/* Is what this summary says in the document? */
bool view_has(const struct view *view, size_t summary);
/* Vendors count devices from 0: the CPU of a rank without a device is its device 0. */
int32_t view_device(const struct view *view, int32_t device);
/* A rank's own profiler leaves the step empty where there are none. */
bool view_has_steps(const struct view *view, const struct rs_summary *summary);
void view_item_name(const struct view *view, const struct comm_item *item, const char *hash,
                    char text[COMM_NAME_BYTES]);

typedef enum rs_status comm_item_fn(void *self, const struct comm_item *item, const char *hash,
                                    struct rs_err *err);
/* One class of the operations of one step. */
struct comm_span {
    size_t first, end; /* ops [first, end) */
    bool is_p2p;
};
/* Every row of a span, in the documents' order. */
RS_MUST_CHECK enum rs_status comm_walk(const struct rs_analysis *analysis, struct comm_span span,
                                       comm_item_fn *visit, void *self, struct rs_err *err);
/* The end of the run of ops that share the step of `first`. */
size_t comm_step_end(const struct rs_analysis *analysis, size_t first);

/* Times of a row; a figure without `has` is unknown. Synchronization = wait, idle = 0. */
struct comm_times {
    rs_ns start;
    rs_dur elapse, transit, wait;
    bool has_transit, has_wait;
};
struct comm_times comm_times_of(const struct rs_analysis *analysis, const struct comm_item *item);

/* Bytes that went over one transport in packets of one size. */
struct comm_packet {
    int32_t rank;
    const char *transport; /* lives in a summary; "UNKNOWN" */
    int64_t bytes, count;
    rs_dur time;
    bool has_time;
};
struct comm_packets {
    struct comm_packet *items;
    size_t count, capacity;
};
/* Appends the packets of a row (its hops, or its message as one packet); none when bytes are unknown. */
RS_MUST_CHECK enum rs_status comm_packets_add(const struct rs_analysis *analysis,
                                              const struct comm_item *item,
                                              struct comm_packets *packets);
/* Sorts by (rank, transport, size) and merges equal ones. */
void comm_packets_compact(struct comm_packets *packets);
void comm_packets_fini(struct comm_packets *packets);

RS_MUST_CHECK enum rs_status comm_document(const struct view *view, struct sheet *sheet,
                                           struct rs_err *err);

/* --- matrix ------------------------------------------------------------------------------ */

/* What one operation moved over one directed link. */
struct matrix_entry {
    const char *type; /* "allreduce", "send", ... as the official files spell it */
    int32_t src, dst;
    const char *transport;
    int64_t bytes;
    rs_dur time;
    bool has_time;
    struct comm_item item; /* whose name and rank it bears */
};

struct matrix_row {
    const char *type, *selection, *hash; /* "allreduce", "top1", ... */
    const struct matrix_entry *entry;    /* of "total": sums, without a name */
    bool has_name;
};
/* Rows come by type, then selection, then link. */
typedef enum rs_status matrix_row_fn(void *self, const struct matrix_row *row, struct rs_err *err);
RS_MUST_CHECK enum rs_status matrix_walk(const struct rs_analysis *analysis, struct comm_span span,
                                         matrix_row_fn *visit, void *self, struct rs_err *err);
RS_MUST_CHECK enum rs_status matrix_document(const struct view *view, struct sheet *sheet,
                                             struct rs_err *err);

/* --- view: which links of a job are a rank's, and their ends in its words ------------------- */

bool view_has_link(const struct view *view, const struct matrix_entry *entry);
/* A global rank; in a rank's own file its place within the group, where the group is known. */
int32_t view_end(const struct view *view, const struct matrix_entry *entry, int32_t rank);

/* --- bandwidth ----------------------------------------------------------------------------- */

/* What nccl-tests would say of an operation: size over time, and times a factor what went over the bus. */
struct op_bandwidth {
    int64_t bytes;               /* -1 unknown */
    int64_t ranks;               /* of the group; -1 unknown */
    rs_dur time;                 /* from when nobody waited any more; 0 unknown */
    int64_t factor, factor_over; /* as a fraction; factor_over 0: unknown, or none is defined */
    const char *transport;       /* lives in a summary; "UNKNOWN"; "SEVERAL" */
};
struct op_bandwidth op_bandwidth_of(const struct rs_analysis *analysis, const struct rs_job_op *op);
bool op_bandwidth_has_bus(const struct op_bandwidth *band);
/* GB/s, nine digits; of what is known. */
void op_bandwidth_algorithm(char text[UNIT_TEXT_BYTES], const struct op_bandwidth *band);
void op_bandwidth_bus(char text[UNIT_TEXT_BYTES], const struct op_bandwidth *band);

/* All operations of one type, group and transport. */
struct bandwidth_sum {
    uint8_t type;
    const char *group, *transport;
    int64_t ranks, factor, factor_over;
    int64_t count, bytes;
    rs_dur time;
    bool is_exact; /* every operation was seen on all its ranks */
};
struct bandwidth_sums {
    struct bandwidth_sum *items; /* by time descending, then type, group, transport */
    size_t count, capacity;
};
/* Of those whose bus bandwidth is known. RS_NOMEM. */
RS_MUST_CHECK enum rs_status bandwidth_sums_build(const struct rs_analysis *analysis,
                                                  struct bandwidth_sums *sums);

/* --- estimate ------------------------------------------------------------------------------ */

/* What a link would have carried, had the operations of one type been done in this way. */
struct link_estimate {
    const char *group;
    uint8_t type;
    int32_t src, dst; /* global ranks */
    int64_t count, bytes;
    rs_dur time;
    const char *estimated_by; /* "ring", "chain", "pairs", "star" */
};
typedef enum rs_status estimate_fn(void *self, const struct link_estimate *link,
                                   struct rs_err *err);
/* By group, type, root, link. Operations that recorded what they moved are left out. */
RS_MUST_CHECK enum rs_status estimate_walk(const struct rs_analysis *analysis, estimate_fn *visit,
                                           void *self, struct rs_err *err);

/* --- database, manifest ------------------------------------------------------------------ */

/* `input` may be NULL for a rank's own file. */
RS_MUST_CHECK enum rs_status database_write(const struct view *view,
                                            const struct rs_output_input *input, const char *dir,
                                            struct rs_err *err);
RS_MUST_CHECK enum rs_status manifest_write(const struct rs_output_input *input, const char *dir,
                                            const char *const *names, size_t name_count,
                                            struct rs_err *err);

#endif
