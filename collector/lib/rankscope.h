/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librankscope: lets a training process be profiled from inside. C and C++.
 *
 *     rankscope_init(NULL);                                  RANK, WORLD_SIZE, ... from the environment
 *     uint32_t fwd = rankscope_name("forward", 0);           names and groups once, outside the loop
 *     uint32_t dp = rankscope_group("dp0", ranks, 4);
 *     for (uint64_t n = 0; n < steps; n++) {
 *         rankscope_step(n);                                 a step boundary: recording starts and stops here
 *         rankscope_op_begin(fwd);  ...  rankscope_op_end();
 *         rankscope_comm_begin(&comm);  ...  rankscope_comm_end();
 *     }
 *     rankscope_fini();
 *
 * Promises: an event costs one predictable branch while nobody records, and no malloc, lock or
 * system call while somebody does (two exceptions, both asked for: names with
 * RANKSCOPE_CPU_TIME read the thread's CPU clock, and the first event of a thread makes its ring).
 * A communication costs two reads of the processor's counter more, recorded or not: how much of a step
 * the loop's thread spends in communication is always known, so that a rank that turns slow can be told
 * from those that wait for it.
 * Events go to a ring per thread in shared memory, which the collector on this host drains; a full
 * ring counts its losses and never waits. The library starts no thread, prints nothing, opens no network
 * connection, and links to nothing but libc.
 *
 * Threads: events from any thread, properly nested within it. rankscope_init(), _fini() and _step()
 * belong to one thread, the one that runs the training loop. After fork() the child is not
 * profiled until it calls rankscope_init() itself.
 *
 * Functions that return int: 0 is done, negative is a negated errno. Text is copied.
 */
#ifndef RANKSCOPE_H
#define RANKSCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RANKSCOPE_API __attribute__((visibility("default")))

enum { RANKSCOPE_UNKNOWN = -1 }; /* a rank, role or peer that is not known */

/* Who this process is. Zero the struct with RANKSCOPE_CONFIG_INIT, set what you know; the rest comes from
 * the environment: RANKSCOPE_RUN, TORCHELASTIC_RUN_ID, SLURM_JOB_ID, MASTER_ADDR:MASTER_PORT; RANK,
 * OMPI_COMM_WORLD_RANK, SLURM_PROCID, PMI_RANK; WORLD_SIZE and its kin; RANKSCOPE_RUNTIME_DIR;
 * RANKSCOPE_RING_BYTES. RANKSCOPE_DISABLE=1 makes every call do nothing. */
struct rankscope_config {
    size_t struct_bytes;     /* sizeof(struct rankscope_config): later versions only append */
    const char *run;         /* NULL: environment, else named by the collector */
    const char *socket_path; /* NULL: collector.sock in the runtime directory */
    int32_t rank;            /* RANKSCOPE_UNKNOWN: environment */
    int32_t world_size;
    int32_t dp, pp, tp; /* coordinates of the rank in the parallel layout, if known */
    uint32_t reserved;  /* 0 */
    size_t ring_bytes;  /* per thread; 0: 1 MiB; rounded to a power of two, 64 KiB to 64 MiB */
};
/* clang-format off */
#define RANKSCOPE_CONFIG_INIT \
    { sizeof(struct rankscope_config), NULL, NULL, -1, -1, -1, -1, -1, 0, 0 }
/* clang-format on */

/* -EINVAL: no rank known, or a text over its limit (run 127 bytes). -EALREADY. -ENOMEM, -ENOSYS:
 * no shared memory. After a failure all other calls do nothing: a job need not check. */
RANKSCOPE_API int rankscope_init(const struct rankscope_config *config);
/* Ends the last step and the recording; what was recorded remains with the collector. */
RANKSCOPE_API void rankscope_fini(void);

/* Step `number` begins, the one before it ends. Numbers grow, by one: a capture of 5 steps from 100 on holds those with the
 * numbers 100 to 104 that were made, and is partial when they were fewer. */
RANKSCOPE_API void rankscope_step(uint64_t number);

/* ---- what else is to be known of it ---- */

/* A word about the run, kept with the raw data of every capture of this rank and written into its trace (rankscope trace chrome): the model,
 * its batch, a commit. A key of 1 to 255 bytes; a value of up to 3,800 bytes, as text, or as JSON that is kept as what it is. Of one key the
 * last one counts. For settings, not for figures of every step: each call takes room beside the names (512 KiB in all). -EINVAL: no
 * key, no value, not JSON, an integer of more than 64 bits, or bytes that are no UTF-8. -E2BIG. -ENOMEM: no room is left. Any thread, any
 * time after rankscope_init(); before it nothing is kept. */
RANKSCOPE_API int rankscope_metadata(const char *key, const char *value);
RANKSCOPE_API int rankscope_metadata_json(const char *key, const char *json);

/* ---- names and groups: registered once, not in the hot path ---- */

enum rankscope_name_flag {
    RANKSCOPE_CPU_TIME = 1, /* also measure the thread's CPU time inside (a system call at both
                             * ends, some 300 ns: for operations of milliseconds). It tells a slow
                             * rank from one that merely had to share its core. */
};
/* The id of a name, the same for the same text; 0 when the table (512 KiB) is full. Any thread. */
RANKSCOPE_API uint32_t rankscope_name(const char *text, unsigned flags);
/* The id of a process group: its name and the global ranks of its members. Any thread. */
RANKSCOPE_API uint32_t rankscope_group(const char *name, const int32_t *ranks, size_t count);

/* ---- communication ---- */

/* The codes of the project's table of operations; never reused. */
enum rankscope_comm_type {
    RANKSCOPE_ALL_REDUCE = 1,
    RANKSCOPE_ALL_GATHER = 2,
    RANKSCOPE_REDUCE_SCATTER = 3,
    RANKSCOPE_ALL_TO_ALL = 4,
    RANKSCOPE_BROADCAST = 5,
    RANKSCOPE_REDUCE = 6,
    RANKSCOPE_GATHER = 7,
    RANKSCOPE_SCATTER = 8,
    RANKSCOPE_BARRIER = 9,
    RANKSCOPE_SEND = 10,
    RANKSCOPE_RECV = 11,
    RANKSCOPE_SEND_RECV = 12, /* a batch of both */
};

enum rankscope_transport {
    RANKSCOPE_TRANSPORT_UNKNOWN = 0,
    RANKSCOPE_TCP = 1,
    RANKSCOPE_UNIX = 2,
    RANKSCOPE_SHM = 3,
    RANKSCOPE_NVLINK = 4,
    RANKSCOPE_PCIE = 5,
    RANKSCOPE_IB = 6,
    RANKSCOPE_ROCE = 7,
    RANKSCOPE_HCCS = 8,
};

struct rankscope_comm {
    uint32_t name;     /* shown in tables; 0: the type's name */
    uint32_t group;    /* rankscope_group(); 0 unknown */
    uint64_t sequence; /* number of the operation within the group, the same on all members;
                        * RANKSCOPE_NO_SEQUENCE unknown */
    uint64_t bytes;    /* size of the operation; RANKSCOPE_NO_BYTES unknown */
    int32_t peer;      /* global rank: the other end, or the root; RANKSCOPE_UNKNOWN */
    uint8_t type;      /* enum rankscope_comm_type */
    uint8_t transport; /* enum rankscope_transport */
};
#define RANKSCOPE_NO_SEQUENCE UINT64_MAX
#define RANKSCOPE_NO_BYTES    UINT64_MAX

/* One hop inside the innermost open communication of this thread: what goes over one link. */
struct rankscope_task {
    uint64_t bytes;
    int32_t peer;      /* global rank at the other end */
    uint8_t is_send;   /* 1: to the peer, 0: from it */
    uint8_t transport; /* enum rankscope_transport */
};

/* ---- memory ---- */

enum rankscope_device_type { /* PyTorch's numbers */
                             RANKSCOPE_DEVICE_CPU = 0,
                             RANKSCOPE_DEVICE_CUDA = 1,
                             RANKSCOPE_DEVICE_XPU = 12,
                             RANKSCOPE_DEVICE_MTIA = 19,
                             RANKSCOPE_DEVICE_NPU = 20,
};

/* What an allocator did: rankscope trace memory shows it over time. Whoever frees a block says the address and the bytes with which it was
 * allocated. */
struct rankscope_memory {
    int64_t bytes; /* < 0: freed */
    uint64_t address;
    int32_t device;      /* of that type, from 0; RANKSCOPE_UNKNOWN: the host */
    uint8_t device_type; /* enum rankscope_device_type */
};

/* ---- events, out of line. Use the functions without "record" below. ---- */

RANKSCOPE_API extern uint32_t rankscope_recording_epoch; /* 0: nobody records. Read only. */
RANKSCOPE_API void rankscope_record_op_begin(uint32_t name);
RANKSCOPE_API void rankscope_record_range_push(uint32_t name);
RANKSCOPE_API void rankscope_record_comm_begin(const struct rankscope_comm *comm);
RANKSCOPE_API void rankscope_record_end(void); /* of the innermost of the three */
RANKSCOPE_API int rankscope_record_task_begin(const struct rankscope_task *task);
RANKSCOPE_API void rankscope_record_task_end(int handle);
RANKSCOPE_API void rankscope_record_mark(uint32_t name);
RANKSCOPE_API void rankscope_record_wait_begin(void); /* the thread communicates, recorded or not */
RANKSCOPE_API void rankscope_record_wait_end(void);
RANKSCOPE_API void rankscope_record_counter(uint32_t name, int64_t value);
RANKSCOPE_API void rankscope_record_memory(const struct rankscope_memory *memory);

/* ---- events ---- */

/* In C these are inline functions with one exported copy each, so that other languages find them too. */
#ifdef __cplusplus
#    define RANKSCOPE_INLINE inline
#else
#    define RANKSCOPE_INLINE RANKSCOPE_API inline
#endif

/* Whether events are kept just now: to leave out work that only prepares them. */
RANKSCOPE_INLINE int rankscope_is_recording(void)
{
    return (int)__builtin_expect(__atomic_load_n(&rankscope_recording_epoch, __ATOMIC_RELAXED) != 0,
                                 0);
}

/* An operation of this thread: computing. On a rank without a device the CPU is the device. */
RANKSCOPE_INLINE void rankscope_op_begin(uint32_t name)
{
    if (rankscope_is_recording())
        rankscope_record_op_begin(name);
}

RANKSCOPE_INLINE void rankscope_op_end(void)
{
    if (rankscope_is_recording())
        rankscope_record_end();
}

/* A named stretch of host time; no work of its own. */
RANKSCOPE_INLINE void rankscope_range_push(uint32_t name)
{
    if (rankscope_is_recording())
        rankscope_record_range_push(name);
}

RANKSCOPE_INLINE void rankscope_range_pop(void)
{
    if (rankscope_is_recording())
        rankscope_record_end();
}

/* Copies *comm. */
RANKSCOPE_INLINE void rankscope_comm_begin(const struct rankscope_comm *comm)
{
    rankscope_record_wait_begin();
    if (rankscope_is_recording())
        rankscope_record_comm_begin(comm);
}

RANKSCOPE_INLINE void rankscope_comm_end(void)
{
    if (rankscope_is_recording())
        rankscope_record_end();
    rankscope_record_wait_end();
}

/* Hops may overlap each other; a handle (-1: not recorded) is given back once, to the same thread. Up to 16 open. */
RANKSCOPE_INLINE int rankscope_task_begin(const struct rankscope_task *task)
{
    return rankscope_is_recording() ? rankscope_record_task_begin(task) : -1;
}

RANKSCOPE_INLINE void rankscope_task_end(int handle)
{
    if (rankscope_is_recording())
        rankscope_record_task_end(handle);
}

RANKSCOPE_INLINE void rankscope_mark(uint32_t name)
{
    if (rankscope_is_recording())
        rankscope_record_mark(name);
}

RANKSCOPE_INLINE void rankscope_counter(uint32_t name, int64_t value)
{
    if (rankscope_is_recording())
        rankscope_record_counter(name, value);
}

/* Copies *memory. */
RANKSCOPE_INLINE void rankscope_memory(const struct rankscope_memory *memory)
{
    if (rankscope_is_recording())
        rankscope_record_memory(memory);
}

/* ---- ranges by their text, as Intel's ITT and torch.profiler.itt have them ---- */

/* For programs that mark their code so already. The text, ASCII, is looked up at each call while somebody records:
 * rankscope_range_push() of a name that is registered once costs less. Depths count from 0 on each thread, recorded or not.
 * rankscope_itt_is_available(): 1 when there is somebody to tell, behind rankscope_init().
 * _mark(): 0; -EINVAL: no text, or not ASCII.
 * _range_push(): the depth of the new range; -EINVAL likewise, and then no range began.
 * _range_pop(): the depth of the range that ended; -ENOENT: there was none. */
RANKSCOPE_API int rankscope_itt_is_available(void);
RANKSCOPE_API int rankscope_itt_mark(const char *text);
RANKSCOPE_API int rankscope_itt_range_push(const char *text);
RANKSCOPE_API int rankscope_itt_range_pop(void);

/* ---- scopes ---- */

/* Begin here, and end where the block does, whichever way it is left: return, break, goto, and in C++ an exception.
 *
 *     RANKSCOPE_OP(forward);                C (GCC, Clang): also RANKSCOPE_RANGE(name), RANKSCOPE_COMM(&comm)
 *     rankscope::op scope(forward);         C++: also rankscope::range, rankscope::comm
 */
#if !defined(__cplusplus) && defined(__GNUC__)
#    define RANKSCOPE_JOIN_(a, b) a##b
#    define RANKSCOPE_JOIN(a, b)  RANKSCOPE_JOIN_(a, b)
#    define RANKSCOPE_SCOPE(kind, begin, what)                                                     \
        const char RANKSCOPE_JOIN(rankscope_##kind##_, __LINE__)                                   \
            __attribute__((cleanup(rankscope_leave_##kind), unused)) = (begin(what), (char)0)
#    define RANKSCOPE_OP(name)    RANKSCOPE_SCOPE(op, rankscope_op_begin, name)
#    define RANKSCOPE_RANGE(name) RANKSCOPE_SCOPE(range, rankscope_range_push, name)
#    define RANKSCOPE_COMM(what)  RANKSCOPE_SCOPE(comm, rankscope_comm_begin, what)

static inline void rankscope_leave_op(const char *scope)
{
    (void)scope;
    rankscope_op_end();
}

static inline void rankscope_leave_range(const char *scope)
{
    (void)scope;
    rankscope_range_pop();
}

static inline void rankscope_leave_comm(const char *scope)
{
    (void)scope;
    rankscope_comm_end();
}
#endif

/* ---- about the library ---- */

/* "tsc" or "cntvct" (the processor's own counter), or "monotonic": no invariant counter here, the system's clock is used. */
RANKSCOPE_API const char *rankscope_clock_name(void);
RANKSCOPE_API uint64_t rankscope_lost_count(void); /* events of this process that found no room */
RANKSCOPE_API int rankscope_is_connected(void); /* to a collector, as of the last step boundary */

#ifdef __cplusplus
}

namespace rankscope
{
class op
{
  public:
    explicit op(uint32_t name)
    {
        rankscope_op_begin(name);
    }
    ~op()
    {
        rankscope_op_end();
    }
    op(const op &) = delete;
    op &operator=(const op &) = delete;
};

class range
{
  public:
    explicit range(uint32_t name)
    {
        rankscope_range_push(name);
    }
    ~range()
    {
        rankscope_range_pop();
    }
    range(const range &) = delete;
    range &operator=(const range &) = delete;
};

class comm
{
  public:
    explicit comm(const rankscope_comm &what)
    {
        rankscope_comm_begin(&what);
    }
    ~comm()
    {
        rankscope_comm_end();
    }
    comm(const comm &) = delete;
    comm &operator=(const comm &) = delete;
};
} // namespace rankscope
#endif

#endif
