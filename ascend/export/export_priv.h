/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of the Ascend export.
 *
 *   ascend.c         life; which row goes where; the directory
 *   tables.c  the schema, the enums, strings by id
 *   host.c    PYTORCH_API, CONNECTION_IDS, CANN_API, MSTX_EVENTS, STEP_TIME
 *   chains.c  PYTORCH_CALLCHAINS
 *   memory.c  MEMORY_RECORD, OP_MEMORY, GC_RECORD
 *   device.c  TASK, COMPUTE_TASK_INFO, MEMCPY_INFO; windows of steps
 *   comm.c    COMMUNICATION_OP, COMMUNICATION_TASK_INFO, groups
 *   trace.c   OVERLAP_ANALYSIS, trace_view.json
 *   kept.c    tables that an Ascend profiler had recorded, as it had them
 *   text.c    kernel_details.csv, op_statistic.csv, ...; operators.c: operator_details.csv
 *   about.c   META_DATA, HOST_INFO, ..., profiler_info and profiler_metadata
 *
 * Times in lists here count from the stream's time base, those in tables from the Unix epoch.
 */
#ifndef RS_ASCEND_EXPORT_PRIV_H
#define RS_ASCEND_EXPORT_PRIV_H

#include "ascend/export/export.h"
#include "ascend/export/rows.h"
#include "common/base/buf.h"
#include "common/reduce/work.h"

#include <stdio.h>

enum table {
    T_STRING_IDS,
    T_SESSION,
    T_NPU_INFO,
    T_HOST_INFO,
    T_RANK_DEVICE,
    T_META_DATA,
    T_STEP_TIME,
    T_TASK,
    T_COMPUTE,
    T_MEMCPY,
    T_COMM_OP,
    T_COMM_TASK,
    T_CANN_API,
    T_PYTORCH_API,
    T_CALLCHAINS,
    T_CONNECTION_IDS,
    T_MSTX,
    T_MEMORY_RECORD,
    T_OP_MEMORY,
    T_GC_RECORD,
    T_COUNTER,
    T_OVERLAP,
    T_API_TYPE,
    T_DATA_TYPE,
    T_LINK_TYPE,
    T_TRANSPORT_TYPE,
    T_RDMA_TYPE,
    T_MSTX_TYPE,
    T_MEMCPY_TYPE,
    T_OVERLAP_TYPE,
    T_COUNT
};

/* Strings of the database: three spaces of ids, as its writers have them. */
enum space { SPACE_DEVICE, SPACE_HOST, SPACE_MEMORY, SPACE_COUNT };
#define NO_STRING INT64_C(4294967295)

#define LIST(type)                                                                                 \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, capacity;                                                                    \
    }

/* A kernel (or host piece) of communication. */
struct comm_piece {
    rs_ns start, end; /* from the time base */
    int32_t device;   /* of the summary: -1 the CPU */
    int64_t stream, correlation;
    rs_str dtype; /* of the stream; RS_STR_NONE unknown */
    int64_t in_nelems, out_nelems;
};

struct launch {
    int64_t correlation;
    rs_ns start, end;
};

/* An API row without a connection of its own. */
struct loose_api {
    rs_ns start, end;
    int64_t type, global_tid, name;
};

struct host_op {
    rs_ns start, end;
    uint32_t lane;
    rs_str name;
};

/* An allocator event of a device: bytes < 0 gives back. */
struct memory_event {
    rs_ns at;                                    /* of the epoch */
    int64_t address, bytes, allocated, reserved; /* reserved -1 unknown */
    int64_t device, global_tid;
};

struct unfinished {
    int64_t task;
    rs_ns start;
};

struct step_bound {
    int64_t step;
    rs_ns host_start, host_end, start, end;
    bool is_seen;
};

struct rs_export_ascend {
    struct rs_export_options options;
    const struct rs_strtab *strings;
    const struct rs_lanes *lanes;
    struct rs_reduce *reduce;
    struct db_rows rows;
    char *work_dir;   /* while it is being written */
    char *output_dir; /* ASCEND_PROFILER_OUTPUT in it */
    int32_t rank;

    struct rs_strtab texts[SPACE_COUNT];
    int64_t *ids[SPACE_COUNT]; /* [id_capacity] by the stream's id: ours, or -1 */
    size_t id_capacity;
    uint8_t *classes; /* [id_capacity] enum rs_work_class by name; 0 not asked */

    LIST(struct comm_piece) pieces;
    LIST(struct launch) launches;
    LIST(struct launch) works; /* device rows with a correlation: what it launched */
    LIST(struct loose_api) loose;
    LIST(struct host_op) host_ops; /* while no device row was seen */
    LIST(struct memory_event) memory;
    LIST(struct unfinished) unfinished;
    LIST(struct step_bound) bounds;
    LIST(int32_t) devices;
    bool has_device_work;
    bool has_frames; /* of Python */
    bool has_gc;
    bool has_stacks;
    struct rs_strtab stacks;  /* with has_stacks: call stacks as texts; a chain's id is a text's */
    struct kept_tables *kept; /* NULL: none yet */
    int64_t main_process;     /* of the first host row; -1 */
    int64_t next_task, next_connection;
    const struct rs_trace_info *info; /* from finish on */
    struct rs_summary own;            /* of this recording */
    bool has_own;
    struct rs_export_result result;
};

static inline const char *text_of(const struct rs_export_ascend *e, rs_str id)
{
    return rs_strtab_text(e->strings, id);
}

/* An instant of the stream as the tables have it; within +-2^61, so that differences of two fit. */
#define EPOCH_LIMIT (INT64_C(1) << 61)
static inline int64_t epoch_ns(const struct rs_export_ascend *e, rs_ns instant)
{
    int64_t sum;
    if (__builtin_add_overflow(instant, e->options.base_ns, &sum))
        sum = instant > 0 ? EPOCH_LIMIT : -EPOCH_LIMIT;
    return sum > EPOCH_LIMIT ? EPOCH_LIMIT : sum < -EPOCH_LIMIT ? -EPOCH_LIMIT : sum;
}

RS_MUST_CHECK enum rs_status no_room(enum rs_status status, struct rs_err *err);

/* The value of a member of a row's `extra`: its text as written. False when it is not there. */
bool extra_find(const struct rs_batch *batch, size_t at, const char *key, const char **value_p,
                size_t *length_p);
bool extra_int(const struct rs_batch *batch, size_t at, const char *key, int64_t *value_p);
/* A member that is a string, decoded, into `text`, which is emptied first. False when it is none; text->failed: no memory. */
bool extra_text(const struct rs_batch *batch, size_t at, const char *key, struct rs_buf *text);

/* ---- tables.c ---- */

/* Is this one of the tables that we make? */
bool tables_has(const char *name);
RS_MUST_CHECK enum rs_status tables_create(struct rs_export_ascend *e, struct rs_err *err);
/* Indexes, and tables that got no row go away. */
RS_MUST_CHECK enum rs_status tables_settle(struct rs_export_ascend *e, struct rs_err *err);
RS_MUST_CHECK enum rs_status tables_strings(struct rs_export_ascend *e, struct rs_err *err);
RS_MUST_CHECK enum rs_status string_id(struct rs_export_ascend *e, enum space space,
                                       const char *text, size_t length, int64_t *id_p,
                                       struct rs_err *err);
RS_MUST_CHECK enum rs_status text_id(struct rs_export_ascend *e, enum space space, const char *text,
                                     int64_t *id_p, struct rs_err *err);
/* Of a string of the stream; remembered. RS_STR_NONE is NO_STRING. */
RS_MUST_CHECK enum rs_status stream_id(struct rs_export_ascend *e, enum space space, rs_str id,
                                       int64_t *id_p, struct rs_err *err);
/* Room for what is remembered per string of the stream. */
RS_MUST_CHECK enum rs_status room_for_strings(struct rs_export_ascend *e, struct rs_err *err);

/* ---- host.c ---- */

RS_MUST_CHECK enum rs_status host_operator(struct rs_export_ascend *e, const struct rs_batch *batch,
                                           size_t at, int64_t type, struct rs_err *err);
RS_MUST_CHECK enum rs_status host_other(struct rs_export_ascend *e, const struct rs_batch *batch,
                                        size_t at, struct rs_err *err);
RS_MUST_CHECK enum rs_status host_step(struct rs_export_ascend *e, const struct rs_batch *batch,
                                       size_t at, struct rs_err *err);
RS_MUST_CHECK enum rs_status host_api(struct rs_export_ascend *e, const struct rs_batch *batch,
                                      size_t at, struct rs_err *err);
RS_MUST_CHECK enum rs_status host_mark(struct rs_export_ascend *e, const struct rs_batch *batch,
                                       size_t at, struct rs_err *err);
RS_MUST_CHECK enum rs_status host_counter(struct rs_export_ascend *e, const struct rs_batch *batch,
                                          size_t at, struct rs_err *err);
/* Steps, API rows without a connection, types and connections that are known only now. */
RS_MUST_CHECK enum rs_status host_settle(struct rs_export_ascend *e, struct rs_err *err);
int64_t global_tid(const struct rs_export_ascend *e, uint32_t lane);
/* An API row that stands for nothing but a connection of a step (device_settle()), by its name. */
#define STEP_CALL "rankscope: window of a step"
RS_MUST_CHECK enum rs_status host_bound_api(struct rs_export_ascend *e, rs_ns instant,
                                            int64_t connection, struct rs_err *err);

/* ---- chains.c ---- */

/* SQL: the frames of a row of PYTORCH_API as one text, as the vendor writes it. text_tables() makes the index for it, tables_settle()
 * removes it. */
#define CALL_STACK_OF(row)                                                                         \
    "SELECT group_concat(frame, ';' || char(13, 10)) FROM (SELECT f.value AS frame FROM "          \
    "PYTORCH_CALLCHAINS c JOIN STRING_IDS f ON f.id = c.stack WHERE c.id = " row ".callchainId "   \
    "ORDER BY c.stackDepth)"
/* The chain whose frames are the lines of this text, innermost first. */
RS_MUST_CHECK enum rs_status chains_of_text(struct rs_export_ascend *e, const char *text,
                                            size_t length, int64_t *chain_p, struct rs_err *err);
/* Call chains of operators; after the host's rows. */
RS_MUST_CHECK enum rs_status chains_settle(struct rs_export_ascend *e, struct rs_err *err);

/* ---- memory.c ---- */

RS_MUST_CHECK enum rs_status memory_row(struct rs_export_ascend *e, const struct rs_batch *batch,
                                        size_t at, struct rs_err *err);
RS_MUST_CHECK enum rs_status memory_gc(struct rs_export_ascend *e, const struct rs_batch *batch,
                                       size_t at, struct rs_err *err);
/* Allocations and their ends; after the host's rows. */
RS_MUST_CHECK enum rs_status memory_settle(struct rs_export_ascend *e, struct rs_err *err);

/* ---- device.c ---- */

RS_MUST_CHECK enum rs_status device_row(struct rs_export_ascend *e, const struct rs_batch *batch,
                                        size_t at, struct rs_err *err);
/* The work of a rank whose CPU is the device. */
RS_MUST_CHECK enum rs_status device_host_work(struct rs_export_ascend *e, struct rs_err *err);
/* Ends of unfinished rows; rows that bound windows of steps. */
RS_MUST_CHECK enum rs_status device_settle(struct rs_export_ascend *e, struct rs_err *err);
/* Of a TASK or COMMUNICATION_OP that nothing launched, as the vendor writes it. */
#define RS_EXPORT_NO_CONNECTION INT64_C(4294967295)

/* One row of TASK. connection -1 none. */
struct task {
    rs_ns start, end;
    int32_t device;
    int64_t connection, stream;
    const char *type;
};
RS_MUST_CHECK enum rs_status put_task(struct rs_export_ascend *e, const struct task *task,
                                      int64_t *id_p, struct rs_err *err);
/* As vendors count them: the CPU of a rank without a device is its device 0. */
static inline int32_t device_number(int32_t device)
{
    return device < 0 ? 0 : device;
}

/* ---- comm.c ---- */

RS_MUST_CHECK enum rs_status comm_write(struct rs_export_ascend *e, struct rs_err *err);
/* parallel_group_info of the groups that this rank's operations name; {} when none is known. */
RS_MUST_CHECK enum rs_status comm_groups(const struct rs_export_ascend *e, struct rs_buf *json,
                                         struct rs_err *err);

/* ---- kept.c ---- */

/* A row of a table that the recording's own profiler had: whether it is one, and then it is in its table. */
RS_MUST_CHECK enum rs_status kept_row(struct rs_export_ascend *e, const struct rs_batch *batch,
                                      size_t at, bool *is_kept_p, struct rs_err *err);
bool kept_has(const struct rs_export_ascend *e, const char *name);
/* Ends the tables of text. */
RS_MUST_CHECK enum rs_status kept_settle(struct rs_export_ascend *e, struct rs_err *err);
void kept_fini(struct rs_export_ascend *e);

/* ---- text.c, operators.c ---- */

/* A new file of the output folder; the caller closes it and frees the path, also on failure. */
RS_MUST_CHECK enum rs_status table_file_open(const struct rs_export_ascend *e, const char *name,
                                             char **path_p, FILE **file_p, struct rs_err *err);
/* Quoted where that is needed. */
void table_file_cell(struct rs_buf *line, const char *text);
/* Writes the line with its end, and empties it. */
RS_MUST_CHECK enum rs_status table_file_line(FILE *file, const char *path, struct rs_buf *line,
                                             struct rs_err *err);
/* After all tables of the database but those of the trace's layers. */
RS_MUST_CHECK enum rs_status text_tables(struct rs_export_ascend *e, struct rs_err *err);
/* Times of operators, for text_tables(). */
RS_MUST_CHECK enum rs_status operators_settle(struct rs_export_ascend *e, struct rs_err *err);

/* ---- trace.c ---- */

/* After the base was added. */
RS_MUST_CHECK enum rs_status trace_overlap(struct rs_export_ascend *e, struct rs_err *err);
RS_MUST_CHECK enum rs_status trace_view(struct rs_export_ascend *e, struct rs_err *err);

/* ---- about.c ---- */

RS_MUST_CHECK enum rs_status about_tables(struct rs_export_ascend *e, struct rs_err *err);
RS_MUST_CHECK enum rs_status about_files(struct rs_export_ascend *e, struct rs_err *err);
/* HOST_PID_STAMP_ascend_pt. `turn` makes another one of it. */
void about_name(const struct rs_export_ascend *e, unsigned turn, char *text, size_t size);

#endif
