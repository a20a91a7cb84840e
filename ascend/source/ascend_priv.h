/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of the Ascend sources: what the database and the text reader share.
 *
 *   ascend.c          which form; rows into batches; groups; what is known of the whole
 *   ascend_db.c       the database's host rows, steps and tasks
 *   ascend_db_check.c  does it hold what figures are made of
 *   ascend_db_comm.c  its communication operations and their transfers
 *   ascend_db_stretch.c  when its operations were under way, by generation
 *   ascend_db_rest.c  what only a timeline shows
 *   ascend_db_tables.c  tables that no figure is made of
 *   ascend_hops.c     the tasks of one operation -> transfers between global ranks
 *   ascend_text.c     the text form: which files there are, and what becomes of their rows
 *   ascend_text_work.c  operators of tables; what is known without a trace
 *   ascend_text_steps.c  steps of a rank without a trace, from its step figures
 *   ascend_links.c    its links, from its own figures
 *   ascend_trace.c    rows of trace_view.json
 *   ascend_figures.c  the vendor's text algorithm
 *   ascend_json.c     communication.json: names, groups, starts
 *   ascend_vendor.c     the vendor's own figures and versions, kept beside ours
 *   ascend_documents.c  files that travel as they are, and their way back
 *   ascend_tables.c   the text form's tables of memory, networks, statistics
 *   csv.c             tables of text
 */
#ifndef RS_SOURCE_ASCEND_PRIV_H
#define RS_SOURCE_ASCEND_PRIV_H

#include "ascend/source/ascend.h"
#include "common/base/buf.h"

enum { ASCEND_BATCH_ROWS = 4096 };

/* A communicator that operations of this rank name. */
struct ascend_group {
    char hash[RS_ASCEND_HASH_BYTES];
    const struct rs_ascend_group *known; /* in meta; NULL: no metadata names it */
    int64_t size;                        /* -1 unknown */
    rs_str name, description, ranks;     /* of the stream; ranks is "[0, 2]" */
};

/* How many ranks a communicator has at least: somebody's place in it was seen. */
struct ascend_bound {
    char hash[RS_ASCEND_HASH_BYTES];
    int64_t size;
};

struct ascend {
    const struct rs_ascend_rank *rank;
    bool is_lossless;
    bool is_counted; /* rows of the input are counted by whoever parses them */
    struct rs_source_stream *stream;
    struct rs_sink sink;
    struct rs_batch batch;
    struct rs_ascend_metadata meta;
    struct ascend_group *groups;
    size_t group_count, group_capacity;
    struct ascend_bound *bounds;
    size_t bound_count, bound_capacity;
    int64_t hops_lost; /* transfers whose ends are not known as global ranks */
    int64_t rows_bad;  /* rows without times */
    /* what the files hold and nobody can use, as sentences: the rank is partial */
    struct json_t *settings; /* NULL: none. What the profiler's metadata says besides groups */
    struct rs_buf flaws;
    bool flaws_touch_steps;
};

/* A row on its way into the batch. */
struct ascend_row {
    enum rs_kind kind;
    uint8_t flags;
    uint32_t lane;
    rs_str name, category;
    rs_ns start, end;
    int64_t correlation, external_id, bytes; /* -1 none */
};

/* ---- ascend.c ---- */

/* Prepares all but the batch's rows; metadata of the directory is read. Undo with ascend_close(), also on failure. */
RS_MUST_CHECK enum rs_status ascend_open(struct ascend *a, const struct rs_ascend_rank *rank,
                                         unsigned flags, struct rs_source_stream *stream,
                                         struct rs_sink sink, struct rs_err *err);
void ascend_close(struct ascend *a);
/* Hands over what waits, and fills stream->info: rank, world, groups, drops, versions behind `form`. */
RS_MUST_CHECK enum rs_status ascend_finish(struct ascend *a, const char *form, struct rs_err *err);
/* Marks the recording as damaged. */
RS_MUST_CHECK enum rs_status ascend_partial(struct ascend *a, const char *why);

/* One more of the profiler's metadata: JSON text, or plain text. What is there already, is the groups' or a version of the schema is
 * passed over. RS_NOMEM. */
RS_MUST_CHECK enum rs_status ascend_setting(struct ascend *a, const char *name, const char *value);

/* One more reason why the rank is partial; "" is none. */
void ascend_flaw(struct ascend *a, const char *sentence);

/* A new row of the batch; *at_p its index, valid until the next call. A negative length is clamped. */
RS_MUST_CHECK enum rs_status ascend_emit(struct ascend *a, const struct ascend_row *row,
                                         size_t *at_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status ascend_text(struct ascend *a, const char *text, rs_str *id_p);
RS_MUST_CHECK enum rs_status ascend_text_bytes(struct ascend *a, const char *text, size_t length,
                                               rs_str *id_p);
/* Lanes. `name` may be NULL. */
RS_MUST_CHECK enum rs_status ascend_host_lane(struct ascend *a, int64_t pid, int64_t tid,
                                              uint32_t *lane_p);
RS_MUST_CHECK enum rs_status ascend_device_lane(struct ascend *a, int64_t device, int64_t stream,
                                                const char *name, uint32_t *lane_p);
/* The lane of a communicator's operations on a device. */
RS_MUST_CHECK enum rs_status ascend_group_lane(struct ascend *a, int64_t device, size_t group,
                                               uint32_t *lane_p);

#define ASCEND_NO_GROUP SIZE_MAX
/* The group of this decimal hash; known from now on. ASCEND_NO_GROUP for an empty one. `size` -1 unknown. */
RS_MUST_CHECK enum rs_status ascend_group_find(struct ascend *a, const char *hash, int64_t size,
                                               size_t *group_p);
/* A rank with this place within the group was named, so the group has at least place + 1 ranks. Before the first
 * ascend_group_find() of the group. RS_NOMEM. */
RS_MUST_CHECK enum rs_status ascend_group_has_place(struct ascend *a, const char *hash,
                                                    int64_t place);
/* The one group of the metadata whose hash ends with these characters; NULL: none, or several. */
const char *ascend_group_by_tail(const struct ascend *a, const char *tail);
/* Global rank of a rank within a group; -1 unknown. */
int64_t ascend_global_rank(const struct ascend *a, size_t group, int64_t rank_in_group);

/* One HCCL operation, from whichever form. */
struct ascend_op {
    rs_str name; /* hcom_allReduce__606_0_1 */
    const char *name_text;
    rs_ns start, end;
    int64_t device, connection, id; /* id: joins its transfers; -1 none */
    size_t group;                   /* ASCEND_NO_GROUP unknown */
    int64_t count;                  /* elements; -1 unknown */
    const char *dtype;              /* "FP16"; NULL unknown */
    int64_t peer;                   /* global rank; -1 unknown */
    rs_str transport;               /* RS_STR_NONE unknown */
};
RS_MUST_CHECK enum rs_status ascend_emit_op(struct ascend *a, const struct ascend_op *op,
                                            struct rs_err *err);

/* ---- ascend_vendor.c ---- */

/* Fills stream->info.vendor. What is not there is left out, what cannot be read is counted. RS_NOMEM. */
RS_MUST_CHECK enum rs_status ascend_report_provenance(struct ascend *a);

/* ---- ascend_documents.c ---- */

/* The vendor's small files, in a lossless reading. */
RS_MUST_CHECK enum rs_status ascend_emit_documents(struct ascend *a, struct rs_err *err);

/* ---- ascend_tables.c ---- */

/* Tables of the rank's output folder; `first`, `last` of the recording. */
RS_MUST_CHECK enum rs_status ascend_emit_tables(struct ascend *a, rs_ns first, rs_ns last,
                                                struct rs_err *err);

/* ---- ascend_hops.c ---- */

/* A small task of an operation. */
struct ascend_task {
    rs_ns start, end;
    int64_t plane;
    int64_t src, dst; /* within the group; -1 none */
    int64_t size;     /* bytes; -1 unknown */
    uint8_t kind;     /* enum ascend_task_kind */
    const char *link; /* "HCCS", "ON_CHIP"; "" unknown. Lives as long as the call */
};
enum ascend_task_kind { ASCEND_TASK_OTHER, ASCEND_TASK_COPY, ASCEND_TASK_RDMA_PAYLOAD };

/* Kind by the names that the vendor writes: task type, RDMA type, transport. Any may be "". */
enum ascend_task_kind ascend_task_kind_of(const char *type, const char *rdma_type);

/* Emits the transfers among the tasks of one operation, which are sorted by start, and fills peer and transport of
 * `op` from them. */
RS_MUST_CHECK enum rs_status ascend_emit_hops(struct ascend *a, struct ascend_op *op,
                                              const struct ascend_task *tasks, size_t count,
                                              struct rs_err *err);

#endif
