/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: a begin notes a time in the ring's header, an end writes one record.
 *
 *     begin        open[depth++] = {kind, name, ticks}
 *     end          open[--depth] -> slots[head mod count], head += 1 or 2
 *
 * The open entries live in shared memory too, so that the collector can tell what a killed
 * process was doing. A record becomes visible by the release store of head in publish(), which pairs
 * with the acquire load in rs_ring_drain(); room comes back by the collector's release store
 * of tail, which pairs with the acquire load in reserve().
 *
 * One thread, one ring. What begins before a recording starts and ends inside it leaves no trace: the
 * thread's epoch tells. Beyond 64 levels of nesting an event is counted as lost.
 */
#include "collector/lib/client_priv.h"

#include <string.h>

uint32_t rankscope_recording_epoch;

/* What a thread keeps at hand. Plain memory: only its thread looks. */
struct thread_view {
    struct rs_ring *ring; /* NULL: none yet */
    struct rs_slot *slots;
    uint64_t head;
    uint64_t tail; /* as last seen: the true one is never behind it */
    uint32_t slot_count;
    uint32_t epoch;  /* of the recording this thread has entered */
    uint32_t depth;  /* may exceed the table: what is above is not kept */
    bool is_refused; /* no ring in this recording: events are only counted */
    uint64_t comm_count;
    uint64_t lost;
    uint64_t lost_reported;
    uint64_t lost_first, lost_last; /* ticks */
};
static _Thread_local struct thread_view self __attribute__((tls_model("initial-exec")));

static uint32_t current_epoch(void)
{
    return __atomic_load_n(&rankscope_recording_epoch, __ATOMIC_ACQUIRE);
}

/* The thread's first event of a recording: a ring if it has none, and nothing open. */
static __attribute__((noinline)) bool enter(uint32_t epoch)
{
    if (self.ring == NULL && !(self.is_refused && self.epoch == epoch)) {
        struct rs_ring *ring = rankscope_priv_ring_new();
        if (ring != NULL) {
            self = (struct thread_view){
                .ring = ring,
                .slots = (struct rs_slot *)(void *)((char *)ring + RS_RING_HEADER_BYTES),
                .slot_count = ring->slot_count,
            };
        }
    }
    self.epoch = epoch;
    self.depth = 0;
    self.is_refused = self.ring == NULL;
    if (self.is_refused)
        return false;
    memset(self.ring->tasks, 0, sizeof self.ring->tasks);
    atomic_store_explicit(&self.ring->open_depth, 0, memory_order_relaxed);
    atomic_store_explicit(&self.ring->epoch, epoch, memory_order_release);
    return true;
}

/* Whether this thread may write. False: the recording just ended, or there is no ring. */
static inline bool entered(void)
{
    uint32_t epoch = current_epoch();
    if (__builtin_expect(epoch == 0, 0))
        return false;
    if (__builtin_expect(self.epoch == epoch && self.ring != NULL, 1))
        return true;
    if (self.epoch != epoch && enter(epoch))
        return true;
    struct rs_control *control = rankscope_priv_client.control;
    if (control != NULL)
        atomic_fetch_add_explicit(&control->lost_without_ring, 1, memory_order_relaxed);
    return false;
}

static __attribute__((noinline)) void count_loss(uint64_t ticks)
{
    if (self.lost == self.lost_reported)
        self.lost_first = ticks;
    self.lost_last = ticks;
    self.lost++;
    atomic_store_explicit(&self.ring->lost, self.lost, memory_order_relaxed);
}

static bool has_room(uint32_t slots)
{
    if (__builtin_expect(self.head - self.tail + slots <= self.slot_count, 1))
        return true;
    self.tail = atomic_load_explicit(&self.ring->tail, memory_order_acquire); /* rs_ring_drain() */
    return self.head - self.tail + slots <= self.slot_count;
}

static struct rs_slot *slot_at(uint64_t position)
{
    return &self.slots[position & (self.slot_count - 1)];
}

static void publish(uint32_t slots)
{
    self.head += slots;
    atomic_store_explicit(&self.ring->head, self.head, memory_order_release);
}

/* There is room again after losses: a marker says how many, and when. */
static __attribute__((noinline)) void report_loss(void)
{
    *slot_at(self.head) = (struct rs_slot){.kind = RS_RECORD_LOSS,
                                           .slots = 1,
                                           .start = self.lost_first,
                                           .end = self.lost_last,
                                           .value = self.lost - self.lost_reported};
    self.lost_reported = self.lost;
    publish(1);
}

/* Room for a record, a loss marker before it if one is due. False: lost and counted. */
static inline bool reserve(uint32_t slots, uint64_t ticks)
{
    bool has_lost = self.lost != self.lost_reported;
    if (__builtin_expect(!has_room(slots + (has_lost ? 1 : 0)), 0)) {
        count_loss(ticks);
        return false;
    }
    if (__builtin_expect(has_lost, 0))
        report_loss();
    return true;
}

static void put_more(const struct rs_slot_more *more)
{
    memcpy(slot_at(self.head + 1), more, sizeof *more);
}

/* The next open entry, or NULL when nested too deep. */
static inline struct rs_open *push(void)
{
    uint32_t depth = self.depth++;
    return __builtin_expect(depth < RS_RING_OPEN_DEPTH, 1) ? &self.ring->open[depth] : NULL;
}

static inline void show_depth(void)
{
    atomic_store_explicit(&self.ring->open_depth,
                          self.depth < RS_RING_OPEN_DEPTH ? self.depth : RS_RING_OPEN_DEPTH,
                          memory_order_release);
}

static inline void begin(uint8_t kind, uint32_t name)
{
    if (!entered())
        return;
    struct rs_open *open = push();
    if (open == NULL)
        return;
    open->kind = kind;
    open->flags = 0;
    open->name = name & 0x7fffffffu;
    if (__builtin_expect((name & 0x80000000u) != 0, 0)) {
        open->flags = RS_RECORD_HAS_CPU;
        open->cpu_start_ns = rankscope_priv_system_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    open->start = rankscope_priv_ticks();
    show_depth();
}

void rankscope_record_op_begin(uint32_t name)
{
    begin(RS_RECORD_OP, name);
}

void rankscope_record_range_push(uint32_t name)
{
    begin(RS_RECORD_RANGE, name);
}

void rankscope_record_comm_begin(const struct rankscope_comm *comm)
{
    if (!entered())
        return;
    struct rs_open *open = push();
    if (open == NULL)
        return;
    open->kind = RS_RECORD_COMM;
    open->flags = 0;
    open->type = comm->type;
    open->transport = comm->transport;
    open->name = comm->name & 0x7fffffffu;
    open->group = comm->group;
    open->peer = comm->peer;
    open->seq = comm->sequence;
    open->bytes = comm->bytes;
    open->comm = ++self.comm_count;
    open->start = rankscope_priv_ticks();
    show_depth();
}

static void write_comm(const struct rs_open *open, uint64_t end)
{
    if (!reserve(2, end))
        return;
    struct rs_slot *slot = slot_at(self.head);
    slot->kind = open->kind;
    slot->flags = open->flags;
    slot->slots = 2;
    slot->depth = (uint8_t)(self.depth & 0xff);
    slot->name = open->name;
    slot->start = open->start;
    slot->end = end;
    slot->value = open->bytes;
    const struct rs_slot_more more = {.group = open->group,
                                      .peer = open->peer,
                                      .seq = open->seq,
                                      .comm = open->comm,
                                      .type = open->type,
                                      .transport = open->transport};
    put_more(&more);
    publish(2);
}

static inline void write_op(const struct rs_open *open, uint64_t end)
{
    uint64_t cpu_ns = 0;
    if (__builtin_expect((open->flags & RS_RECORD_HAS_CPU) != 0, 0))
        cpu_ns = rankscope_priv_system_ns(CLOCK_THREAD_CPUTIME_ID) - open->cpu_start_ns;
    if (!reserve(1, end))
        return;
    struct rs_slot *slot = slot_at(self.head);
    slot->kind = open->kind;
    slot->flags = open->flags;
    slot->slots = 1;
    slot->depth = (uint8_t)self.depth;
    slot->name = open->name;
    slot->start = open->start;
    slot->end = end;
    slot->value = cpu_ns;
    publish(1);
}

void rankscope_record_end(void)
{
    uint64_t end = rankscope_priv_ticks();
    if (current_epoch() != self.epoch || self.depth == 0 || self.ring == NULL)
        return; /* begun before this recording */
    self.depth--;
    if (__builtin_expect(self.depth >= RS_RING_OPEN_DEPTH, 0)) {
        count_loss(end);
        return;
    }
    const struct rs_open *open = &self.ring->open[self.depth];
    if (open->kind == RS_RECORD_COMM)
        write_comm(open, end);
    else
        write_op(open, end);
    show_depth(); /* after the record: a death in between shows the operation twice, never not at all */
}

/* The communication that a hop belongs to: the innermost open one. */
static const struct rs_open *open_comm(void)
{
    uint32_t depth = self.depth < RS_RING_OPEN_DEPTH ? self.depth : RS_RING_OPEN_DEPTH;
    while (depth > 0)
        if (self.ring->open[--depth].kind == RS_RECORD_COMM)
            return &self.ring->open[depth];
    return NULL;
}

int rankscope_record_task_begin(const struct rankscope_task *task)
{
    if (!entered())
        return -1;
    for (int i = 0; i < RS_RING_TASK_DEPTH; i++) {
        struct rs_open *open = &self.ring->tasks[i];
        if (open->in_use != 0)
            continue;
        const struct rs_open *comm = open_comm();
        open->kind = RS_RECORD_TASK;
        open->flags = task->is_send ? RS_RECORD_IS_SEND : 0;
        open->transport = task->transport;
        open->peer = task->peer;
        open->bytes = task->bytes;
        open->comm = comm != NULL ? comm->comm : 0;
        open->group = comm != NULL ? comm->group : 0;
        open->seq = comm != NULL ? comm->seq : RANKSCOPE_NO_SEQUENCE;
        open->type = comm != NULL ? comm->type : 0;
        open->in_use = 1;
        open->start = rankscope_priv_ticks();
        return i;
    }
    count_loss(rankscope_priv_ticks());
    return -1;
}

void rankscope_record_task_end(int handle)
{
    uint64_t end = rankscope_priv_ticks();
    if (handle < 0 || handle >= RS_RING_TASK_DEPTH || current_epoch() != self.epoch ||
        self.ring == NULL || self.ring->tasks[handle].in_use == 0)
        return;
    write_comm(&self.ring->tasks[handle], end);
    self.ring->tasks[handle].in_use = 0;
}

/* Events without a length. */
static void write_point(uint8_t kind, uint32_t name, uint64_t value)
{
    if (!entered())
        return;
    uint64_t now = rankscope_priv_ticks();
    if (!reserve(1, now))
        return;
    *slot_at(self.head) = (struct rs_slot){.kind = kind,
                                           .slots = 1,
                                           .depth = (uint8_t)(self.depth & 0xff),
                                           .name = name & 0x7fffffffu,
                                           .start = now,
                                           .end = now,
                                           .value = value};
    publish(1);
}

void rankscope_record_mark(uint32_t name)
{
    write_point(RS_RECORD_MARK, name, 0);
}

void rankscope_record_counter(uint32_t name, int64_t value)
{
    write_point(RS_RECORD_COUNTER, name, (uint64_t)value);
}

void rankscope_record_memory(const struct rankscope_memory *memory)
{
    if (!entered())
        return;
    const uint64_t now = rankscope_priv_ticks();
    if (!reserve(2, now))
        return;
    *slot_at(self.head) = (struct rs_slot){.kind = RS_RECORD_MEMORY,
                                           .slots = 2,
                                           .depth = (uint8_t)(self.depth & 0xff),
                                           .start = now,
                                           .end = now,
                                           .value = (uint64_t)memory->bytes};
    const struct rs_slot_more more = {
        .peer = memory->device, .seq = memory->address, .type = memory->device_type};
    put_more(&more);
    publish(2);
}

void rankscope_priv_record_step(const struct rankscope_priv_step *step)
{
    if (!entered() || !reserve(2, step->end))
        return;
    *slot_at(self.head) = (struct rs_slot){.kind = RS_RECORD_STEP,
                                           .flags = RS_RECORD_HAS_CPU,
                                           .slots = 2,
                                           .start = step->start,
                                           .end = step->end,
                                           .value = step->cpu_ns};
    const struct rs_slot_more more = {.peer = RANKSCOPE_UNKNOWN, .seq = step->number};
    put_more(&more);
    publish(2);
}

/* ---- how long the loop's thread communicates, recorded or not ---- */

/* Nothing is summed before rankscope_step() made the thread the loop's. */
static _Thread_local struct {
    uint64_t began; /* of the outermost communication; ticks */
    uint64_t sum;   /* since the last step boundary */
    uint32_t depth;
    bool is_loop, has_any;
} waits __attribute__((tls_model("initial-exec")));

void rankscope_record_wait_begin(void)
{
    if (waits.is_loop && waits.depth++ == 0)
        waits.began = rankscope_priv_ticks();
}

void rankscope_record_wait_end(void)
{
    if (waits.depth == 0 || --waits.depth != 0)
        return;
    waits.sum += rankscope_priv_ticks() - waits.began;
    waits.has_any = true;
}

bool rankscope_priv_record_waited(uint64_t now, uint64_t *ticks_p)
{
    if (waits.depth !=
        0) { /* a boundary within a communication: its first part belongs to the step that ends */
        waits.sum += now - waits.began;
        waits.began = now;
    }
    *ticks_p = waits.sum;
    waits.sum = 0;
    waits.is_loop = true;
    return waits.has_any;
}

void rankscope_priv_record_forget(void)
{
    self = (struct thread_view){.ring = NULL};
}

/* The copies of the inline functions that other languages link to. */
extern inline int rankscope_is_recording(void);
extern inline void rankscope_op_begin(uint32_t name);
extern inline void rankscope_op_end(void);
extern inline void rankscope_range_push(uint32_t name);
extern inline void rankscope_range_pop(void);
extern inline void rankscope_comm_begin(const struct rankscope_comm *comm);
extern inline void rankscope_comm_end(void);
extern inline int rankscope_task_begin(const struct rankscope_task *task);
extern inline void rankscope_task_end(int handle);
extern inline void rankscope_mark(uint32_t name);
extern inline void rankscope_memory(const struct rankscope_memory *memory);
extern inline void rankscope_counter(uint32_t name, int64_t value);
