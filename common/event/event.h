/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profiling event is. The dictionary of the house.
 *
 * Events travel in batches: columns of equal length, one batch a few thousand events of one
 * rank, in the order in which the source found them (not sorted by time).
 *
 *     row i        kind[i]  name[i]  lane[i]  start[i]  end[i]  ...
 *                                       |
 *     lanes        a table of the stream of batches, grows only: what "pid/tid" of a trace is
 *
 *       lane 0  host    pid 542 tid 542      "thread 542 (python)"
 *       lane 1  host    pid 542 tid 639
 *       lane 2  device  device 2 stream 0    (a trace's pid 2 tid 0)
 *
 * Invariants (rs_batch_check() tells which of the first four is broken):
 *  1. every column holds `count` entries; capacity >= count.
 *  2. end >= start for every row; an instant has end == start.
 *  3. name, category and every other rs_str is an id of the batch's string table.
 *  4. lane < lanes->count, comm < comm_count or RS_NO_COMM, extra spans lie inside extra_bytes.
 *  5. a kernel, memcpy, memset, step_window or sync row has a device lane; op and comm rows of native ranks
 *     have a host lane (the CPU is the device).
 *
 * Times are nanoseconds counted from the stream's time base. The base is part of
 * struct rs_trace_info, because a trace may name it behind its events; absolute traces
 * have base 0. absolute = base_ns + start.
 *
 * A batch belongs to one thread at a time; it is handed over whole.
 */
#ifndef RS_EVENT_EVENT_H
#define RS_EVENT_EVENT_H

#include "common/base/err.h"
#include "common/base/slots.h"
#include "common/base/strtab.h"
#include "common/base/time.h"
#include "common/event/provenance.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rs_kind {
#define X(name, code, text, is_device_work, sentence) RS_KIND_##name = (code),
#include "common/event/event_kinds.def"
#undef X
    RS_KIND_COUNT
};

const char *rs_kind_text(enum rs_kind kind);    /* the profiler's own word for it */
bool rs_kind_is_device_work(enum rs_kind kind); /* counts as computing, communication or memory */

enum rs_event_flag {
    RS_EVENT_UNFINISHED =
        1,               /* `finished: false`: start is valid, end is where the recording stopped */
    RS_EVENT_NO_END = 2, /* the row has no duration by nature (instant, flow, metadata) */
    RS_EVENT_DURATION_CLAMPED =
        4, /* the source had a negative or overflowing duration: end = start */
    RS_EVENT_NO_TIME =
        8, /* the row had no time (metadata of some writers): start is 0 and says nothing */
    RS_EVENT_NO_NAME = 16, /* the row had no name: `name` is the empty string */
    /* of a kernel: its source knows what it is; its name is not asked, and the communication rows of one
     * external id are one operation, named as its vendor names it */
    RS_EVENT_COMPUTING = 32,
    RS_EVENT_COMMUNICATION = 64,
};

enum rs_lane_kind { RS_LANE_HOST, RS_LANE_DEVICE, RS_LANE_OTHER };

struct rs_lane {
    uint8_t kind;        /* enum rs_lane_kind */
    int32_t device;      /* device index; -1 on host lanes */
    int64_t process;     /* pid on host lanes, device on device lanes */
    int64_t thread;      /* tid on host lanes, stream on device lanes */
    rs_str process_text; /* for "Spans", "Traces", "": the text; else RS_STR_NONE */
    rs_str thread_text;
};

struct rs_lanes {
    struct rs_lane *items;
    size_t count;
    size_t capacity;
    struct rs_slots index; /* of the first index.count items, once there are many (rs_lanes_find) */
};

/* Arguments of a communication row. A member that was not there is -1 / RS_STR_NONE / 0 in `has`. */
enum rs_comm_has {
    RS_COMM_HAS_IN_NELEMS = 1,
    RS_COMM_HAS_OUT_NELEMS = 2,
    RS_COMM_HAS_GROUP_SIZE = 4,
    RS_COMM_HAS_SRC = 8,
    RS_COMM_HAS_DST = 16,
    RS_COMM_HAS_SEQ = 32,
    RS_COMM_HAS_COMMS_ID = 64,
    RS_COMM_HAS_RANK = 128,
    RS_COMM_HAS_BYTES = 256,
    RS_COMM_HAS_GLOBAL_START = 512,
    RS_COMM_HAS_GLOBAL_STRIDE = 1024,
};

struct rs_comm {
    uint32_t has;      /* enum rs_comm_has: which numbers are valid */
    rs_str collective; /* "Collective name" as written; native: the op type's name */
    rs_str dtype;      /* c10 name: "Float", "BFloat16", ... */
    rs_str group_name; /* "Process Group Name" */
    rs_str group_description;
    rs_str group_ranks; /* text "[0, 1, ...]", may be cut: "[0, ..., 29, ...]" */
    rs_str in_split, out_split;
    rs_str transport;              /* native: "TCP", "UNIX", "NVLINK", ...; else RS_STR_NONE */
    int64_t in_nelems, out_nelems; /* elements */
    int64_t group_size;
    int64_t src, dst; /* global ranks: "Src Rank", "Dst Rank"; native tasks: the two ends */
    int64_t
        rank; /* "Rank" of record_param_comms: rank in the group, for p2p the peer's in the group */
    int64_t global_start, global_stride; /* "Global rank start", "Global rank stride" */
    int64_t seq;                         /* framework sequence number */
    uint64_t comms_id;                   /* "Comms Id" */
    int64_t bytes; /* native: message bytes as contracts section 5 defines them */
};

#define RS_NO_COMM UINT32_MAX

struct rs_batch {
    const struct rs_strtab *strings; /* keeps a pointer to the stream's tables; they only grow */
    const struct rs_lanes *lanes;

    size_t count;
    size_t capacity;
    uint8_t *kind;    /* enum rs_kind */
    uint8_t *flags;   /* enum rs_event_flag */
    uint8_t *phase;   /* the Chrome phase letter: 'X', 'M', 'i', 's', 'f', 'C', ... native: 0 */
    rs_str *category; /* "cat" as written ("kernel", "Kernel"); RS_STR_NONE when absent */
    rs_str *name;
    uint32_t *lane; /* index into lanes */
    rs_ns *start;   /* from the time base */
    rs_ns *end;
    int64_t *correlation; /* launch <-> device work; flows: the flow id; -1 none */
    int64_t *external_id; /* "External id"; -1 none */
    int64_t *bytes;       /* memory rows and counters; -1 (INT64_MIN for RS_KIND_MEMORY) none */
    int64_t *cpu_ns;      /* native ops: CPU time of the thread inside the row; -1 none */
    rs_str *input_dims;   /* JSON text of the arg's value as written; RS_STR_NONE none */
    rs_str *input_types;
    rs_str *concrete_inputs;
    uint32_t *comm; /* index into comms, or RS_NO_COMM */
    uint32_t
        *extra_offset; /* into extra: JSON members "k": v, comma separated, of `args` that have */
    uint32_t *extra_length; /* no column; a row's other top-level members follow a '\n' */

    struct rs_comm *comms;
    size_t comm_count;
    size_t comm_capacity;
    char *extra;
    size_t extra_bytes;
    size_t extra_capacity;
};

/* Columns for `capacity` rows (copies nothing, keeps pointers to both tables). */
RS_MUST_CHECK enum rs_status rs_batch_init(struct rs_batch *batch, const struct rs_strtab *strings,
                                           const struct rs_lanes *lanes, size_t capacity);
void rs_batch_fini(struct rs_batch *batch);  /* of a zeroed batch is allowed */
void rs_batch_reset(struct rs_batch *batch); /* empty; memory is kept */

/* Index of a new row with every column at its "none"; start = end = 0. RS_LIMIT when full
 * (columns never grow: the source hands the batch over and resets it). */
RS_MUST_CHECK enum rs_status rs_batch_row(struct rs_batch *batch, size_t *row_p);
/* Gives the row comm columns, all "none". */
RS_MUST_CHECK enum rs_status rs_batch_comm(struct rs_batch *batch, size_t row,
                                           struct rs_comm **comm_p);
/* Copies text behind the row's extra (only for the newest row that has extra). */
RS_MUST_CHECK enum rs_status rs_batch_extra(struct rs_batch *batch, size_t row, const char *text,
                                            size_t length);

/* Tests the invariants 1 to 4, those that memory rests on (5 is a promise of sources); RS_FORMAT with a
 * sentence that names row and column. */
RS_MUST_CHECK enum rs_status rs_batch_check(const struct rs_batch *batch, struct rs_err *err);

/* The lane with these coordinates, added when new. */
RS_MUST_CHECK enum rs_status rs_lanes_find(struct rs_lanes *lanes, const struct rs_lane *lane,
                                           uint32_t *index_p);
void rs_lanes_fini(struct rs_lanes *lanes);

/* A range in which a data loader fetches the next batch: "enumerate(DataLoader)#...__next__". Readers that leave operators
 * out keep these. */
bool rs_event_is_input(const char *name, size_t length);

/* A process group as a trace's header or metadata names it. */
struct rs_group_info {
    rs_str name;        /* "0", "mesh_dp"; RS_STR_NONE unknown */
    rs_str description; /* "default_pg"; RS_STR_NONE unknown */
    int64_t size;       /* -1 unknown */
    int32_t *ranks;     /* global ranks as listed; count may be < size when the list was cut */
    size_t rank_count;
};

enum rs_rank_source {
    RS_RANK_UNKNOWN,
    RS_RANK_MAP,      /* --rank-map */
    RS_RANK_METADATA, /* the file's own distributedInfo, or a native HELLO */
    RS_RANK_NAME,     /* a pattern in the file's name */
    RS_RANK_ASSUMED,  /* the only input */
    RS_RANK_PROCESS,  /* the environment of the process that wrote it */
};
const char *rs_rank_source_text(enum rs_rank_source source); /* "map", "metadata", "name", ... */

/* Why rows were not used, and how many. */
struct rs_drop {
    rs_str reason;
    int64_t count;
};

/* What a source knows of the whole recording, complete when its last batch was emitted. */
struct rs_trace_info {
    int32_t rank; /* -1: no rank */
    enum rs_rank_source rank_source;
    int32_t world_size; /* -1 unknown */
    rs_str host;        /* RS_STR_NONE unknown */
    rs_str trace_id;    /* RS_STR_NONE none */
    rs_str backend;     /* "nccl", "gloo", "native", ...; RS_STR_NONE unknown */
    rs_str generation; /* format generation in words, for the manifest: "kineto ns, base at head" */
    rs_str
        metadata; /* lossless: the top-level members that are not events, as JSON text {...}; else RS_STR_NONE.
                   * Of an Ascend rank, in any reading: its profiler's metadata without groups */
    bool has_time_base;    /* false: truncated before the base was read; times are only relative */
    rs_ns base_ns;         /* Unix epoch ns of time 0 of the batches */
    bool is_partial;       /* truncated or damaged: what was whole was emitted */
    bool has_whole_steps;  /* partial, but no step lacks anything; not kept in chunks */
    rs_str partial_reason; /* sentence with file and byte offset; RS_STR_NONE */
    int64_t events_read;   /* X rows, the Trace row too */
    int64_t rows_read;     /* all rows of any phase */
    int64_t input_bytes;   /* of the file */
    int64_t raw_bytes;     /* after inflating */
    rs_ns
        written_ns; /* when its profiler had written the last of it, Unix ns of its host's clock; 0 unknown. Chunks leave it to the summary */
    struct rs_group_info *groups;
    size_t group_count;
    size_t group_capacity;
    struct rs_drop *drops;
    size_t drop_count;
    size_t drop_capacity;
    struct rs_provenance
        *vendor; /* by the vendor's own tool; NULL: there is none. Chunks leave it to the summary */
};

void rs_trace_info_init(struct rs_trace_info *info); /* every member at its "unknown" */
void rs_trace_info_fini(struct rs_trace_info *info);
RS_MUST_CHECK enum rs_status rs_trace_info_drop(struct rs_trace_info *info,
                                                struct rs_strtab *strings, const char *reason,
                                                int64_t count);

/* Where a source emits. `batch` is lent until the function returns. A status < 0 stops the source,
 * which returns it. */
struct rs_sink {
    enum rs_status (*batch)(void *self, const struct rs_batch *batch, struct rs_err *err);
    void *self;
};

#endif
