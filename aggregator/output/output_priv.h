/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of output: what its files share.
 *
 *   output_file  a deliverable being written: buffer, temporary name, rename
 *   view         a document of the job, or the same in the shape that one rank's own profiler writes
 *   job          ranks, groups and the vendor's rows, read once
 *   step_rows    the operations of one step after the other
 *   comm         the rows of communication.json and of the database, figure by figure
 *   matrix       the selection per link of communication_matrix.json and CommAnalyzerMatrix
 */
#ifndef RS_OUTPUT_OUTPUT_PRIV_H
#define RS_OUTPUT_OUTPUT_PRIV_H

#include "aggregator/analysis/vendor_values.h"
#include "aggregator/model/reads.h"
#include "aggregator/output/output.h"
#include "aggregator/output/units.h"
#include "aggregator/store/row_store.h"
#include "common/base/json_out.h"

/* --- output_file ------------------------------------------------------------------------------- */

struct output_file {
    struct rs_buf buf; /* append here, then output_file_drain() */
    char *path;
    char *temporary;
    int fd;
};

/* A name beside `dir`/`name` that rename(2) can put in its place; both freed with rs_mem_free(). */
RS_MUST_CHECK enum rs_status output_file_names(const char *dir, const char *name, char **path_p,
                                               char **temporary_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status output_file_open(struct output_file *file, const char *dir,
                                              const char *name, struct rs_err *err);
/* Writes the buffer out when it holds more than 256 KiB. */
RS_MUST_CHECK enum rs_status output_file_drain(struct output_file *file, struct rs_err *err);
/* With status RS_OK the file appears; otherwise nothing remains of it. Returns the status, or its own failure. */
RS_MUST_CHECK enum rs_status output_file_close(struct output_file *file, enum rs_status status,
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

/* --- tables ------------------------------------------------------------------------------ */

/* A read row by row. Of a zeroed one: close is allowed. */
struct rows_reading {
    struct rs_cursor *cursor;
    struct rs_block block;
    size_t at;
    bool is_over;
};
RS_MUST_CHECK enum rs_status rows_reading_open(struct rows_reading *reading,
                                               struct rs_row_store *rows, enum rs_read read,
                                               struct rs_err *err);
/* The next row, lent until the next call; NULL behind the last. */
RS_MUST_CHECK enum rs_status rows_reading_next(struct rows_reading *reading, const void **row_p,
                                               struct rs_err *err);
void rows_reading_close(struct rows_reading *reading);

/* A read as a CSV file: its titles, then its rows. */
RS_MUST_CHECK enum rs_status table_of_read(struct rs_row_store *rows, enum rs_read read,
                                           struct output_file *file, struct rs_err *err);
/* Two reads: the vendor's rows and ours. */
RS_MUST_CHECK enum rs_status table_step_trace_time(struct rs_row_store *rows,
                                                   struct output_file *file, struct rs_err *err);

/* Steps that one document has read, for those that come after it: as long as they are few. Zeroed but for the limit: none. */
struct step_shelf {
    size_t limit_bytes;
    struct step_kept *steps;
    size_t count, capacity, bytes;
    bool is_whole;  /* all steps of the job stand here */
    bool is_in_use; /* a reading puts them here */
    bool is_closed; /* they are too many */
};

/* --- job: what is said once of a job's ranks and groups (job.c) -------------------------------- */

struct job_rank {
    int32_t rank;
    bool has_step_numbers;         /* its recording has steps */
    bool has_steps;                /* the vendor's own step_trace_time is in its recording */
    size_t comm_first, comm_count; /* its rows in `comms`; none: no document of the vendor's */
    size_t link_first, link_count; /* its rows in `links` */
};
struct job_group {
    const struct rs_row_comm_group *row;
    int32_t *ranks; /* sorted; NULL unknown */
    size_t rank_count;
};
struct job {
    struct rs_row_store *rows; /* lent */
    struct job_rank *ranks;    /* sorted by rank */
    size_t rank_count;
    struct job_group *groups; /* sorted by group_id */
    size_t group_count;
    const struct rs_row_vendor_comm_time *comms; /* by rank, place in the document */
    const struct rs_row_vendor_bandwidth *bands; /* those of comm i from band_firsts[i] on */
    const struct rs_row_vendor_matrix *links;
    size_t *band_firsts;
    struct rs_block comm_block, band_block, link_block, group_block; /* what the rows lie in */
    struct step_shelf *shelf;
};
/* Keeps a pointer to the store. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status job_open(struct rs_row_store *rows, struct job **job_p,
                                      struct rs_err *err);
void job_close(struct job **job_p);
struct job_rank *job_rank(const struct job *job, int64_t rank); /* NULL: nobody read this one */
const struct job_group *job_group(const struct job *job, int64_t group_id); /* NULL: none */

/* --- step_rows: the operations of one step after the other (step_rows.c) ------------------------ */

struct step_member {
    const struct rs_row_job_member *row;
    size_t packet_first, packet_end; /* in `packets`; none: its hops were not recorded */
};
struct step_op {
    const struct rs_row_job_op *row;
    size_t member_first, member_end, link_first, link_end;
};
/* Rows are lent until the next step. */
struct step_rows {
    int64_t step;
    struct step_op *ops;
    size_t op_count;
    struct step_member *members;
    size_t member_count;
    const struct rs_row_job_packet *packets;
    const struct rs_row_job_link *links;
};
void step_shelf_fini(struct step_shelf *shelf);
/* From the shelf when all of them stand there, else from the store, and onto the shelf. NULL: no shelf. */
RS_MUST_CHECK enum rs_status step_rows_open(struct rs_row_store *rows, struct step_shelf *shelf,
                                            struct step_rows **step_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status step_rows_next(struct step_rows *step, bool *has_p,
                                            struct rs_err *err);
void step_rows_close(struct step_rows **step_p);

/* The operations alone, all steps in one. Of a zeroed one: close is allowed. */
struct ops_reading {
    const struct step_shelf *shelf; /* NULL: they are read */
    size_t step, op;                /* the next one on the shelf */
    struct rows_reading reading;
};
RS_MUST_CHECK enum rs_status ops_reading_open(struct ops_reading *ops, const struct job *job,
                                              struct rs_err *err);
/* The next one, lent until the next call; NULL behind the last. */
RS_MUST_CHECK enum rs_status
ops_reading_next(struct ops_reading *ops, const struct rs_row_job_op **op_p, struct rs_err *err);
void ops_reading_close(struct ops_reading *ops);

/* --- comm -------------------------------------------------------------------------------- */

enum { COMM_HASH_BYTES = 24, COMM_NAME_BYTES = 96 };

/* "step12", or "step" outside every step. */
void comm_step_text(char text[UNIT_TEXT_BYTES], int64_t step);
/* The official decimal hash of a communicator's name. */
void comm_group_hash(char text[COMM_HASH_BYTES], const char *group);

/* One member in the order of the documents: (step, group, seq), then type, nth, rank. */
struct comm_item {
    size_t op, row; /* in the step's ops and members */
    int32_t rank;
    uint8_t type;
    uint32_t nth; /* how many-th of this name on this rank, from 1 */
};
struct comm_items {
    struct comm_item *items;
    size_t count, capacity;
};

/* The op text of a row: the vendor's own, or <op>__<last 3 of the group hash>_<seq>_<nth>. */
void comm_item_name(const struct step_rows *step, const struct comm_item *item, const char *hash,
                    char text[COMM_NAME_BYTES]);

/* The same in HCCL's words: hcom_allReduce__<last 3>_<seq>_<nth>. */
void comm_item_official_name(const struct step_rows *step, const struct comm_item *item,
                             const char *hash, char text[COMM_NAME_BYTES]);

/* Whose document: the job's, or the one that a rank's own profiler writes. */
struct view {
    const struct job *job;
    bool is_rank;
    int32_t rank;
};
/* Is what this rank says in the document? */
bool view_has(const struct view *view, int32_t rank);
/* Vendors count devices from 0: the CPU of a rank without a device is its device 0. */
int64_t view_device(const struct view *view, int64_t device);
/* A rank's own profiler leaves the step empty where there are none. */
bool view_has_steps(const struct view *view, const struct job_rank *rank);
void view_item_name(const struct view *view, const struct step_rows *step,
                    const struct comm_item *item, const char *hash, char text[COMM_NAME_BYTES]);

typedef enum rs_status comm_item_fn(void *self, const struct comm_item *item, const char *hash,
                                    struct rs_err *err);
/* Every member of one class of the operations of a step, in the documents' order. */
RS_MUST_CHECK enum rs_status comm_walk(const struct step_rows *step, bool is_p2p,
                                       comm_item_fn *visit, void *self, struct rs_err *err);

/* Times of a row; a figure without `has` is unknown. Synchronization = wait, idle = 0. */
struct comm_times {
    rs_ns start;
    rs_dur elapse, transit, wait;
    bool has_transit, has_wait;
};
struct comm_times comm_times_of(const struct step_rows *step, const struct comm_item *item);

/* Bytes that went over one transport in packets of one size. */
struct comm_packet {
    int32_t rank;
    const char *transport; /* lives in a step's rows; "UNKNOWN" */
    int64_t bytes, count;
    rs_dur time;
    bool has_time;
};
struct comm_packets {
    struct comm_packet *items;
    size_t count, capacity;
};
/* Appends the packets of a row (its hops, or its message as one packet); none when bytes are unknown. */
RS_MUST_CHECK enum rs_status comm_packets_add(const struct step_rows *step,
                                              const struct comm_item *item,
                                              struct comm_packets *packets);
/* Sorts by (rank, transport, size) and merges equal ones. */
void comm_packets_compact(struct comm_packets *packets);
void comm_packets_fini(struct comm_packets *packets);

RS_MUST_CHECK enum rs_status comm_document(const struct view *view, struct output_file *file,
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
RS_MUST_CHECK enum rs_status matrix_walk(const struct step_rows *step, bool is_p2p,
                                         matrix_row_fn *visit, void *self, struct rs_err *err);
RS_MUST_CHECK enum rs_status matrix_document(const struct view *view, struct output_file *file,
                                             struct rs_err *err);

/* --- view: which links of a job are a rank's, and their ends in its words ------------------- */

bool view_has_link(const struct view *view, const struct matrix_entry *entry);
/* A global rank; in a rank's own file its place within the group, where the group is known. */
int32_t view_end(const struct view *view, const struct step_rows *step,
                 const struct matrix_entry *entry, int32_t rank);

/* --- bandwidth ----------------------------------------------------------------------------- */

/* What nccl-tests would say of an operation: size over time, and times a factor what went over the bus. */
struct op_bandwidth {
    int64_t bytes;               /* -1 unknown */
    int64_t ranks;               /* of the group; -1 unknown */
    rs_dur time;                 /* from when nobody waited any more; 0 unknown */
    int64_t factor, factor_over; /* as a fraction; factor_over 0: unknown, or none is defined */
    const char *transport;       /* lives where the operation does; "UNKNOWN"; "SEVERAL" */
};
struct op_bandwidth op_bandwidth_of(const struct rs_analysis *analysis, const struct rs_job_op *op);
struct op_bandwidth op_bandwidth_of_row(const struct rs_row_job_op *row);
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
RS_MUST_CHECK enum rs_status estimate_walk(const struct job *job, estimate_fn *visit, void *self,
                                           struct rs_err *err);

/* --- vendor: what a rank's own profiler wrote, in place of ours (vendor.c) ------------------- */

/* Does the recording of this rank have the document? Then official tables show the vendor's rows, and none of ours. */
bool vendor_has_comms(const struct job *job, int32_t rank);
bool vendor_has_links(const struct job *job, int32_t rank);
/* Is one of them in the view? */
bool vendor_any_comms(const struct view *view);
bool vendor_any_links(const struct view *view);
/* Has the rank that tells of a link (the sender; who receives, where nobody read that) its own document? Then it is in there. */
bool vendor_tells_link(const struct job *job, const struct matrix_entry *entry);
/* Ends of a link as ranks of the job (below 0: place -1 - end of the group, nobody says who that is); in a rank's own file
 * within the group. */
struct vendor_ends {
    int32_t src, dst;
};
struct vendor_groups; /* which rank of the job is which of a group */
RS_MUST_CHECK enum rs_status vendor_groups_new(const struct view *view,
                                               struct vendor_groups **groups_p);
void vendor_groups_free(struct vendor_groups **groups_p);
struct vendor_ends vendor_ends_of(const struct vendor_groups *groups,
                                  const struct rs_row_vendor_matrix *link);

void vendor_end_text(char text[UNIT_TEXT_BYTES], int32_t end); /* "3", "?5" */

/* comm_document(), matrix_document() where at least one rank has the vendor's. */
RS_MUST_CHECK enum rs_status vendor_comm_document(const struct view *view, struct output_file *file,
                                                  struct rs_err *err);
RS_MUST_CHECK enum rs_status vendor_matrix_document(const struct view *view,
                                                    struct output_file *file, struct rs_err *err);

/* comm_document.c, for vendor_document.c: the object of one derived row, and of the sums of one rank's. */
struct comm_totals;
RS_MUST_CHECK enum rs_status comm_totals_new(const struct job *job, struct comm_totals **totals_p);
void comm_totals_free(struct comm_totals **totals_p);
void comm_totals_reset(struct comm_totals *totals);
RS_MUST_CHECK enum rs_status comm_put_item(const struct step_rows *step,
                                           const struct comm_item *item, struct comm_totals *totals,
                                           struct rs_json_out *json);
/* False: nothing of the job's rank number `index` was put since the reset; then nothing is written. */
bool comm_totals_has(const struct comm_totals *totals, size_t index);
void comm_put_total(struct comm_totals *totals, size_t index, struct rs_json_out *json);
/* matrix.c: the object of one derived link. */
void matrix_put_entry(const struct view *view, const struct step_rows *step,
                      const struct matrix_row *row, struct rs_json_out *json);

/* --- database, manifest ------------------------------------------------------------------ */

RS_MUST_CHECK enum rs_status database_write(const struct view *view, const char *dir,
                                            struct rs_err *err);
/* From reads: capture, input, coverage, comm_group, note. */
RS_MUST_CHECK enum rs_status manifest_write(struct rs_row_store *rows, const char *dir,
                                            const char *const *names, size_t name_count,
                                            struct rs_err *err);

/* clock.c, from reads: capture, clock */
RS_MUST_CHECK enum rs_status clock_document(struct rs_row_store *rows, struct output_file *file,
                                            struct rs_err *err);

#endif
