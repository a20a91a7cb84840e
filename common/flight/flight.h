/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What flight recorders say: the last communication calls of every rank of a job, side by side.
 *
 *   set ─┬─ strings                   names, sizes, stack frames; an id means the same for all ranks
 *        ├─ dumps[]                   one per process and file: rank, host, what the ring dropped
 *        │    ├─ groups[]             the process groups that this process knows, as it knows them
 *        │    └─ entries[first, count)  its calls, in the order of their record ids
 *        ├─ entries[]                 of all dumps
 *        └─ witnesses[]               what others say of a rank: NCCL RAS, NCCL Inspector
 *
 * Filled by the readers of collector/source, read by the analysis of hangs.
 * Nothing here judges. Times are ns since the Unix epoch on the clock of the rank's host; RS_FLIGHT_UNKNOWN is
 * "not in the dump". A set belongs to one thread.
 */
#ifndef RS_FLIGHT_FLIGHT_H
#define RS_FLIGHT_FLIGHT_H

#include "common/base/err.h"
#include "common/base/strtab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_FLIGHT_UNKNOWN INT64_MIN
/* Times of calls are 0 to this (the year 2116), what a dump says beyond is unknown: a difference of two always fits. */
#define RS_FLIGHT_TIME_MAX (INT64_C(1) << 62)
#define RS_FLIGHT_NO_GROUP UINT32_MAX

enum rs_flight_op {
    RS_FLIGHT_OTHER, /* a name that we do not know; `name` has it */
    RS_FLIGHT_ALL_REDUCE,
    RS_FLIGHT_ALL_GATHER,
    RS_FLIGHT_REDUCE_SCATTER,
    RS_FLIGHT_ALL_TO_ALL,
    RS_FLIGHT_BARRIER,
    RS_FLIGHT_BROADCAST,
    RS_FLIGHT_REDUCE,
    RS_FLIGHT_GATHER,
    RS_FLIGHT_SCATTER,
    RS_FLIGHT_SEND,
    RS_FLIGHT_RECV,
    RS_FLIGHT_COALESCED, /* closes a group of calls that went out as one */
};
const char *rs_flight_op_text(enum rs_flight_op op); /* "all_reduce" */

enum rs_flight_state { RS_FLIGHT_SCHEDULED, RS_FLIGHT_STARTED, RS_FLIGHT_COMPLETED };

enum rs_flight_flag {
    RS_FLIGHT_RETIRED = 1, /* not on the list of outstanding work any more */
    RS_FLIGHT_P2P = 2,
    RS_FLIGHT_TIMED_OUT = 4, /* retired by the watchdog without having completed */
};

/* One call of one rank. */
struct rs_flight_entry {
    int64_t record_id;                /* counts the calls of this process and backend */
    int64_t seq;                      /* of its group: collectives count apart from p2p */
    int64_t created_ns;               /* the host called it */
    int64_t started_ns, completed_ns; /* when the watchdog noticed */
    int64_t duration_ns;              /* of the device; RS_FLIGHT_UNKNOWN */
    int64_t timeout_ns;               /* RS_FLIGHT_UNKNOWN */
    int64_t in_numel, out_numel;      /* elements of all tensors; -1 unknown */
    rs_str name, sizes, dtypes,
        frames;                 /* RS_STR_EMPTY unknown; frames: a line each, innermost first */
    uint32_t group;             /* index into the dump's groups */
    int32_t peer_src, peer_dst; /* of p2p, as ranks of the group; -1 unknown */
    uint8_t op, state, flags;
};

/* A process group as one process knows it. */
struct rs_flight_group {
    rs_str name, desc; /* "7", "tp"; the desc of gloo's groups is "undefined" */
    int32_t *ranks;    /* global, in the order of group ranks; NULL unknown */
    size_t rank_count;
    int64_t pg_id;                                       /* -1 unknown */
    int64_t last_enqueued, last_started, last_completed; /* pg_status; RS_FLIGHT_UNKNOWN */
};

enum rs_flight_rank_source {
    RS_FLIGHT_RANK_NONE,
    RS_FLIGHT_RANK_MAP,     /* --rank-map */
    RS_FLIGHT_RANK_PATTERN, /* --rank-from */
    RS_FLIGHT_RANK_NAME,    /* the file's name */
    RS_FLIGHT_RANK_ASKED,   /* the process was asked, and is known */
};

struct rs_flight_dump {
    char *path; /* where it was read, or how it was asked for */
    char *host; /* "" unknown */
    int32_t rank;
    int32_t pid; /* of the process that was asked, on its host; 0 unknown */
    enum rs_flight_rank_source rank_source;
    rs_str version, backend; /* "2.10", "nccl" */
    int64_t taken_ns;        /* when the dump was made, by the host's clock; RS_FLIGHT_UNKNOWN */
    bool is_taken_known;     /* asked for by us; else the time of the file, which copying changes */
    bool is_partial;         /* truncated: only what is whole is here */
    bool is_sparse;    /* record ids have gaps: made with onlyactive, finished calls are left out */
    bool knows_starts; /* some call was noticed to have started: "scheduled" means something */
    bool is_half_blind; /* gloo: states stay scheduled, p2p is not recorded */
    char *stack;        /* where its program is now, frames as in an entry; NULL not asked */
    char *problem;      /* what could not be read; NULL nothing */
    int64_t
        dropped; /* calls before the first that the ring has; RS_FLIGHT_UNKNOWN without entries */
    int64_t bad_entries; /* of another form than ours; left out */
    struct rs_flight_group *groups;
    size_t group_count, group_capacity;
    size_t entry_first, entry_count; /* in the set's entries */
};

enum rs_flight_witness_kind { RS_WITNESS_RAS, RS_WITNESS_INSPECTOR };

/* What NCCL's RAS or Inspector says of one rank of one communicator. */
struct rs_flight_witness {
    enum rs_flight_witness_kind kind;
    rs_str comm, host; /* hash or name of the communicator */
    int32_t rank;      /* of the communicator, which is global for the world's; -1 unknown */
    int32_t comm_size; /* -1 unknown */
    bool is_missing;   /* RAS: it does not answer */
    bool is_dead;      /* RAS: considered dead */
    bool is_unresponsive;
    rs_str error;  /* its async error, or RS_STR_EMPTY */
    rs_str op;     /* function that was counted */
    int64_t count; /* calls of it launched (RAS), last number recorded (Inspector) */
    int64_t at_ns; /* RS_FLIGHT_UNKNOWN */
};

struct rs_flight_set {
    struct rs_strtab strings;
    struct rs_flight_dump *dumps; /* sorted by rank after rs_flight_set_sort() */
    size_t dump_count, dump_capacity;
    struct rs_flight_entry *entries;
    size_t entry_count, entry_capacity;
    struct rs_flight_witness *witnesses;
    size_t witness_count, witness_capacity;
    char **notes; /* sentences: files that were skipped, ranks that stood twice */
    size_t note_count, note_capacity;
};

RS_MUST_CHECK enum rs_status rs_flight_set_init(struct rs_flight_set *set);
void rs_flight_set_fini(struct rs_flight_set *set);

/* Begins a dump: the calls that rs_flight_add() brings next are its. The pointer is valid until the next one. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_begin(struct rs_flight_set *set, const char *path,
                                             struct rs_flight_dump **dump_p);
/* Takes the last dump back, with its calls. */
void rs_flight_drop_last(struct rs_flight_set *set);
/* A call of the last dump (copies it; times that cannot be are unknown then). RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_add(struct rs_flight_set *set,
                                           const struct rs_flight_entry *entry);
/* Room for so many more dumps of the size of the last, at once and in huge pages: calls are the bulk of what is held, and small pages
 * cost a fault for every 39 of them. A hint: without memory nothing happens. */
void rs_flight_expect(struct rs_flight_set *set, size_t dumps);
/* The group of this name and description in the last dump, added when it is new. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_group_of(struct rs_flight_set *set, rs_str name, rs_str desc,
                                                uint32_t *index_p);
/* When the last dump is whole: order of record ids, what was dropped, what its states mean. */
void rs_flight_end(struct rs_flight_set *set);

RS_MUST_CHECK enum rs_status rs_flight_witness_add(struct rs_flight_set *set,
                                                   const struct rs_flight_witness *witness);
RS_MUST_CHECK enum rs_status rs_flight_note(struct rs_flight_set *set, const char *format, ...)
    RS_PRINTF(2, 3);
/* Replaces the dump's problem. */
RS_MUST_CHECK enum rs_status rs_flight_problem(struct rs_flight_dump *dump, const char *format, ...)
    RS_PRINTF(2, 3);

/* Dumps in the order of their ranks; of several of one rank the newest stays and a note names the others. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_set_sort(struct rs_flight_set *set);

/* Is this call over, as far as its process knew? */
bool rs_flight_is_done(const struct rs_flight_dump *dump, const struct rs_flight_entry *entry);

/* "nccl:recv 3<-0" -> backend, RS_FLIGHT_RECV, 0 -> 3. Splits at the last colon. */
struct rs_flight_name {
    const char *op_text; /* inside the text */
    size_t op_length, backend_length;
    enum rs_flight_op op;
    int32_t src, dst; /* -1 */
};
struct rs_flight_name rs_flight_name_read(const char *text, size_t length);

#endif
