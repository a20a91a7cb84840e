/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory between a training process and the collector, and the two messages that hand
 * it over. RING.md draws it; the numbers there are the enum constants here.
 *
 * Two kinds of memory file, both sealed against resizing: one control file per process, one ring
 * file per thread. Native byte order: both ends are on one machine. Whoever reads a byte that
 * the other side writes checks it; atomics mark those bytes. The first 64-byte line of each file
 * is written before the file is handed over and never again.
 *
 *   who writes         control                                     ring
 *   the process        everything but the request line             everything but the consumer line
 *   the collector      the request line                            the consumer line
 */
#ifndef RS_LIB_LAYOUT_H
#define RS_LIB_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    RS_LAYOUT_VERSION = 1,

    RS_CONTROL_HEADER_BYTES = 4096,
    RS_CONTROL_ANCHORS_OFFSET = 1024,
    RS_CONTROL_ANCHOR_COUNT = 32,
    RS_CONTROL_NAMES_BYTES = 512 * 1024,
    RS_CONTROL_BYTES = RS_CONTROL_HEADER_BYTES + RS_CONTROL_NAMES_BYTES,

    RS_RING_HEADER_BYTES = 8192,
    RS_RING_OPEN_OFFSET = 1024,
    RS_RING_OPEN_DEPTH = 64,
    RS_RING_TASK_OFFSET = RS_RING_OPEN_OFFSET + 64 * RS_RING_OPEN_DEPTH,
    RS_RING_TASK_DEPTH = 16,
    RS_RING_SLOT_BYTES = 32,
    RS_RING_MIN_BYTES = 64 * 1024,
    RS_RING_MAX_BYTES = 64 * 1024 * 1024,
    RS_RING_DEFAULT_BYTES = 1024 * 1024,

    RS_LIB_MAX_RINGS = 256, /* of one process alive at a time */
    RS_LIB_RUN_BYTES = 128, /* with its NUL */
    RS_LIB_TEXT_BYTES = 64,
    RS_LIB_NAME_MAX_BYTES = 4096,
};

#define RS_CONTROL_MAGIC UINT64_C(0x31304c5254435352) /* "RSCTRL01" */
#define RS_RING_MAGIC    UINT64_C(0x3130474e49525352) /* "RSRING01" */
#define RS_HELLO_MAGIC   UINT32_C(0x4c485352)         /* "RSHL" */
#define RS_ATTACH_MAGIC  UINT32_C(0x54415352)         /* "RSAT" */

enum rs_clock_kind { RS_CLOCK_MONOTONIC = 1, RS_CLOCK_TSC = 2, RS_CLOCK_CNTVCT = 3 };

/* One instant on two clocks. */
struct rs_anchor {
    _Atomic uint64_t ticks;      /* the clock of the records */
    _Atomic int64_t realtime_ns; /* Unix epoch */
};

/* ---- the control file ---- */

enum rs_lib_state { RS_LIB_RUNNING = 1, RS_LIB_FINISHED = 2 };

/*        request seen       start <= step        step >= stop
 *  IDLE ------------> ARMED -----------> RECORDING ---------> FINISHED     all by rankscope_step(),
 *                       | step >= stop                                     FINISHED also by rankscope_fini()
 *                       +----------> MISSED                                a new request starts over
 */
enum rs_lib_capture_state {
    RS_LIB_IDLE = 0,
    RS_LIB_ARMED = 1,
    RS_LIB_RECORDING = 2,
    RS_LIB_CAPTURED = 3,
    RS_LIB_MISSED = 4,
};

#define RS_LIB_START_NEXT UINT64_C(0)

struct rs_control {
    /* line 0: what it is */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t names_bytes;
    uint32_t clock_kind; /* enum rs_clock_kind */
    uint8_t line0_rest[40];

    /* line 1: the process, at each step boundary */
    _Atomic uint64_t step;
    _Atomic uint64_t step_count; /* boundaries so far; 0: no step yet */
    _Atomic uint64_t mean_step_ns;
    _Atomic int64_t heartbeat_ns;       /* realtime of the last boundary */
    _Atomic uint32_t state;             /* enum rs_lib_state */
    _Atomic uint32_t ring_count;        /* rings made so far */
    _Atomic uint64_t step_start_ticks;  /* of the step under way in a recording; 0 none */
    _Atomic uint64_t lost_without_ring; /* events of threads that got no ring */
    _Atomic uint64_t own_ns;            /* of its steps so far, outside communication; 0 unknown */

    /* line 2: the process about the request */
    _Atomic uint64_t capture_seq; /* the request that the rest of the line is about; written last */
    _Atomic uint32_t capture_state; /* enum rs_lib_capture_state */
    _Atomic uint32_t epoch;         /* of the last recording: stamps open entries */
    _Atomic uint64_t first_step;    /* first step recorded */
    _Atomic uint64_t next_step;     /* the step that was not recorded any more */
    _Atomic uint64_t first_ticks;   /* where the recording starts */
    _Atomic uint64_t names_used;    /* bytes of the names area that are whole; grows only */
    _Atomic uint64_t anchor_total;  /* anchors published so far */
    uint8_t line2_rest[8];

    /* line 3: the collector's request */
    _Atomic uint64_t request_seq; /* 0: none yet; odd: being written; else a request */
    _Atomic uint64_t start_step;  /* RS_LIB_START_NEXT: at the next boundary */
    _Atomic uint64_t
        stop_step; /* the first step not to record (START_NEXT: how many steps); 0: stop at once */
    uint8_t line3_rest[40];

    uint8_t to_anchors[RS_CONTROL_ANCHORS_OFFSET - 256];
    struct rs_anchor anchors[RS_CONTROL_ANCHOR_COUNT]; /* number n stands at n mod 32 */
    uint8_t to_names[RS_CONTROL_HEADER_BYTES - RS_CONTROL_ANCHORS_OFFSET -
                     16 * RS_CONTROL_ANCHOR_COUNT];
};
_Static_assert(sizeof(struct rs_control) == RS_CONTROL_HEADER_BYTES, "control header");

/* Entries of the names area, back to back, each padded to 8 bytes. Names and groups have ids of their own,
 * dense from 1 in order of their entries. */
enum rs_lib_entry_kind { RS_LIB_ENTRY_NAME = 1, RS_LIB_ENTRY_GROUP = 2 };
/* Of a name that is none: "key NUL value", the value as JSON; of one key the last one counts. It has an id, so that a collector that does
 * not know of it counts names as the process does. */
enum rs_lib_entry_flag { RS_LIB_ENTRY_METADATA = 0x8000 };

struct rs_lib_entry {
    uint32_t entry_bytes; /* with this head and the padding */
    uint16_t kind;
    uint16_t flags;      /* enum rankscope_name_flag, enum rs_lib_entry_flag */
    uint32_t text_bytes; /* the text follows the head, without NUL */
    uint32_t rank_count; /* groups: int32 ranks follow the text, after padding to 4 */
};
_Static_assert(sizeof(struct rs_lib_entry) == 16, "names entry");

/* ---- the ring file ---- */

enum rs_record_kind {
    RS_RECORD_STEP = 1,
    RS_RECORD_OP = 2,
    RS_RECORD_RANGE = 3,
    RS_RECORD_COMM = 4,
    RS_RECORD_TASK = 5,
    RS_RECORD_MARK = 6,
    RS_RECORD_COUNTER = 7,
    RS_RECORD_LOSS = 8,
    RS_RECORD_MEMORY = 9,
};

enum rs_record_flag { RS_RECORD_HAS_CPU = 1, RS_RECORD_IS_SEND = 2, RS_RECORD_CUT = 4 };

/* A record is one slot, or two when `slots` says so (STEP, COMM, TASK, MEMORY). */
struct rs_slot {
    uint8_t kind;
    uint8_t flags;
    uint8_t slots;  /* 1 or 2 */
    uint8_t depth;  /* of nesting, from 0 */
    uint32_t name;  /* id of a name; 0 none */
    uint64_t start; /* ticks */
    uint64_t end;
    uint64_t
        value; /* CPU ns (HAS_CPU); counter: the value; loss: how many; COMM, TASK: bytes; MEMORY: bytes, those freed negative */
};
_Static_assert(sizeof(struct rs_slot) == RS_RING_SLOT_BYTES, "slot");

struct rs_slot_more {
    uint32_t group; /* id of a group; 0 unknown */
    int32_t peer;   /* MEMORY: the device, -1 the host */
    uint64_t seq;   /* STEP: its number; COMM: its sequence; MEMORY: the address */
    uint64_t comm;  /* COMM: its own number in this ring, from 1; TASK: that of its COMM, 0 none */
    uint8_t type;   /* MEMORY: c10's kind of device */
    uint8_t transport;
    uint8_t rest[6];
};
_Static_assert(sizeof(struct rs_slot_more) == RS_RING_SLOT_BYTES, "second slot");

/* What is begun and not ended: survives a kill -9 of the process. */
struct rs_open {
    uint8_t kind;
    uint8_t flags;
    uint8_t type;
    uint8_t transport;
    uint32_t name;
    uint64_t start; /* ticks */
    uint64_t cpu_start_ns;
    uint32_t group;
    int32_t peer;
    uint64_t seq;
    uint64_t bytes;
    uint64_t comm;
    uint64_t in_use; /* tasks: 1 while open */
};
_Static_assert(sizeof(struct rs_open) == 64, "open entry");

enum rs_ring_state { RS_RING_LIVE = 1, RS_RING_ENDED = 2 };

struct rs_ring {
    /* line 0: what it is */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t slot_bytes;
    uint32_t slot_count; /* a power of two */
    int64_t thread;      /* tid */
    uint32_t number;     /* of the ring within the process, from 0 */
    char thread_name[16];
    uint8_t line0_rest[12];

    /* line 1: the producer. Slots [tail, head) are full; positions only grow; slot = position mod count */
    _Atomic uint64_t head;
    _Atomic uint64_t lost;  /* events that found the ring full, or nested too deep */
    _Atomic uint32_t state; /* enum rs_ring_state */
    _Atomic uint32_t epoch; /* of the recording that the open entries belong to */
    _Atomic uint32_t open_depth;
    uint8_t line1_rest[36];

    /* line 2: the consumer */
    _Atomic uint64_t tail;
    uint8_t line2_rest[56];

    uint8_t to_open[RS_RING_OPEN_OFFSET - 192];
    struct rs_open open[RS_RING_OPEN_DEPTH];
    struct rs_open tasks[RS_RING_TASK_DEPTH];
    uint8_t to_slots[RS_RING_HEADER_BYTES - RS_RING_TASK_OFFSET - 64 * RS_RING_TASK_DEPTH];
};
_Static_assert(sizeof(struct rs_ring) == RS_RING_HEADER_BYTES, "ring header");

/* ---- the messages, over collector.sock (SOCK_SEQPACKET), process to collector ---- */

/* First message, with the control file's descriptor. Texts end in NUL. */
struct rs_hello {
    uint32_t magic;
    uint32_t version;
    uint32_t message_bytes;
    uint32_t clock_kind;
    uint64_t control_bytes;
    int64_t pid;           /* in the process's own namespace */
    int64_t started_ns;    /* realtime of rankscope_init() */
    uint64_t anchor_ticks; /* one anchor pair, taken when the message was written */
    int64_t anchor_realtime_ns;
    int32_t rank;
    int32_t world_size;         /* -1 unknown */
    int32_t dp, pp, tp;         /* -1 unknown */
    uint32_t flags;             /* 0 */
    char run[RS_LIB_RUN_BYTES]; /* "": unknown */
    char host[RS_LIB_TEXT_BYTES];
    char program[RS_LIB_TEXT_BYTES];
    uint8_t rest[176];
};
_Static_assert(sizeof(struct rs_hello) == 512, "hello");

/* A ring, with its descriptor. */
struct rs_attach {
    uint32_t magic;
    uint32_t version;
    uint32_t message_bytes;
    uint32_t number; /* of the ring */
    uint64_t ring_bytes;
    uint8_t rest[40];
};
_Static_assert(sizeof(struct rs_attach) == 64, "attach");

#endif
