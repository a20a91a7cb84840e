/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/lib/ring_read.h"

#include "common/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

struct rs_ring_reader {
    struct rs_ring *ring; /* shared */
    const struct rs_slot *slots;
    size_t bytes;
    bool is_mapped; /* by us */
    uint64_t tail;
    uint64_t bad;
    uint32_t slot_count; /* as checked at opening: the shared one is not looked at again */
    uint32_t number;
    int64_t thread;
    char thread_name[17];
    struct rs_slot last; /* drained: what was ended just before a death may still look open */
    struct rs_slot_more last_more;
};

enum { TMPFS = 0x01021994 };

enum rs_status rs_ring_check_memory(int fd, uint64_t bytes, struct rs_err *err)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return rs_err_set(err, RS_FORMAT, "shared memory is not sealed against shrinking");
    struct stat stat;
    struct statfs system;
    if (fstat(fd, &stat) != 0 || fstatfs(fd, &system) != 0)
        return rs_err_errno(err, "shared memory");
    if (!S_ISREG(stat.st_mode) || system.f_type != TMPFS)
        return rs_err_set(err, RS_FORMAT, "shared memory is not an anonymous memory file");
    if (stat.st_size < 0 || (uint64_t)stat.st_size != bytes)
        return rs_err_set(err, RS_FORMAT,
                          "shared memory has %" PRId64 " bytes where the message says %" PRIu64,
                          (int64_t)stat.st_size, bytes);
    return RS_OK;
}

static enum rs_status check_header(const struct rs_ring *ring, uint64_t bytes, struct rs_err *err)
{
    struct rs_ring copy;
    memcpy(&copy, ring, 64);
    if (copy.magic != RS_RING_MAGIC)
        return rs_err_set(err, RS_FORMAT, "ring: no magic number");
    if (copy.version != RS_LAYOUT_VERSION)
        return rs_err_set(err, RS_VERSION,
                          "ring: layout version %" PRIu32 ", this program reads %d", copy.version,
                          RS_LAYOUT_VERSION);
    uint64_t slots = copy.slot_count;
    if (copy.header_bytes != RS_RING_HEADER_BYTES || copy.slot_bytes != RS_RING_SLOT_BYTES ||
        slots < 2 || (slots & (slots - 1)) != 0 ||
        RS_RING_HEADER_BYTES + slots * RS_RING_SLOT_BYTES != bytes)
        return rs_err_set(err, RS_FORMAT, "ring: %" PRIu64 " slots do not fit %" PRIu64 " bytes",
                          slots, bytes);
    return RS_OK;
}

static void copy_header(struct rs_ring_reader *reader)
{
    struct rs_ring copy;
    memcpy(&copy, reader->ring, 64);
    reader->slots = (const void *)((const char *)reader->ring + RS_RING_HEADER_BYTES);
    /* from the file's size, which is sealed: the header could have changed since it was checked */
    reader->slot_count = (uint32_t)((reader->bytes - RS_RING_HEADER_BYTES) / RS_RING_SLOT_BYTES);
    reader->number = copy.number;
    reader->thread = copy.thread;
    size_t length = strnlen(copy.thread_name, sizeof copy.thread_name);
    for (size_t i = 0; i < length; i++) {
        char c = copy.thread_name[i];
        reader->thread_name[i] = (char)(c < ' ' || c > '~' ? '?' : c);
    }
    uint64_t head = atomic_load_explicit(&reader->ring->head, memory_order_acquire);
    reader->tail = atomic_load_explicit(&reader->ring->tail, memory_order_relaxed);
    if (head - reader->tail > reader->slot_count)
        reader->tail = head;
}

enum rs_status rs_ring_reader_over(struct rs_ring *ring, uint64_t bytes,
                                   struct rs_ring_reader **reader_p, struct rs_err *err)
{
    enum rs_status status = check_header(ring, bytes, err);
    if (status != RS_OK)
        return status;
    struct rs_ring_reader *reader = rs_mem_calloc(1, sizeof *reader);
    if (reader == NULL)
        return rs_err_set(err, RS_NOMEM, "ring: out of memory");
    reader->ring = ring;
    reader->bytes = bytes;
    copy_header(reader);
    *reader_p = reader;
    return RS_OK;
}

enum rs_status rs_ring_reader_open(int fd, uint64_t bytes, struct rs_ring_reader **reader_p,
                                   struct rs_err *err)
{
    if (bytes > RS_RING_HEADER_BYTES + (uint64_t)RS_RING_MAX_BYTES || bytes < RS_RING_HEADER_BYTES)
        return rs_err_set(err, RS_LIMIT, "ring of %" PRIu64 " bytes", bytes);
    enum rs_status status = rs_ring_check_memory(fd, bytes, err);
    if (status != RS_OK)
        return status;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return rs_err_errno(err, "ring: cannot map");
    status = rs_ring_reader_over(map, bytes, reader_p, err);
    if (status == RS_OK)
        (*reader_p)->is_mapped = true;
    else
        munmap(map, bytes);
    return status;
}

void rs_ring_reader_close(struct rs_ring_reader **reader_p)
{
    struct rs_ring_reader *reader = *reader_p;
    *reader_p = NULL;
    if (reader == NULL)
        return;
    if (reader->is_mapped)
        munmap(reader->ring, reader->bytes);
    rs_mem_free(reader);
}

static void copy_slot(const struct rs_ring_reader *reader, uint64_t position, void *to)
{
    memcpy(to, &reader->slots[position & (reader->slot_count - 1)], RS_RING_SLOT_BYTES);
}

static bool is_sound(const struct rs_slot *slot, uint64_t available)
{
    bool is_double = slot->kind == RS_RECORD_STEP || slot->kind == RS_RECORD_COMM ||
                     slot->kind == RS_RECORD_TASK || slot->kind == RS_RECORD_MEMORY;
    return slot->kind >= RS_RECORD_STEP && slot->kind <= RS_RECORD_MEMORY &&
           slot->slots == (is_double ? 2 : 1) && slot->slots <= available &&
           slot->end >= slot->start;
}

/* The record at our position, or false when it makes no sense. */
static bool read_record(struct rs_ring_reader *reader, uint64_t head, struct rs_ring_record *record)
{
    *record = (struct rs_ring_record){.more.peer = -1};
    copy_slot(reader, reader->tail, &record->slot);
    if (!is_sound(&record->slot, head - reader->tail))
        return false;
    if (record->slot.slots == 2)
        copy_slot(reader, reader->tail + 1, &record->more);
    return true;
}

static void give_back(struct rs_ring_reader *reader)
{
    /* pairs with the acquire in has_room() of record.c */
    atomic_store_explicit(&reader->ring->tail, reader->tail, memory_order_release);
}

enum rs_status rs_ring_drain(struct rs_ring_reader *reader, rs_ring_record_fn *take, void *self,
                             struct rs_err *err)
{
    /* The state first: a thread that had ended has published its last head. */
    uint32_t state = atomic_load_explicit(&reader->ring->state, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&reader->ring->head, memory_order_acquire);
    if (head - reader->tail > reader->slot_count)
        return rs_err_set(err, RS_FORMAT,
                          "ring of thread %" PRId64 ": head %" PRIu64 " is beyond tail %" PRIu64
                          " by more than its %" PRIu32 " slots",
                          reader->thread, head, reader->tail, reader->slot_count);
    enum rs_status status = RS_OK;
    while (reader->tail != head) {
        struct rs_ring_record record;
        if (!read_record(reader, head, &record)) {
            reader->bad++;
            reader->tail++;
            continue;
        }
        status = take(self, &record, err);
        if (status < 0)
            break;
        reader->last = record.slot;
        reader->last_more = record.more;
        reader->tail += record.slot.slots;
    }
    give_back(reader);
    if (status < 0)
        return status;
    return state == RS_RING_ENDED ? RS_END : RS_OK;
}

void rs_ring_discard(struct rs_ring_reader *reader)
{
    reader->tail = atomic_load_explicit(&reader->ring->head, memory_order_acquire);
    give_back(reader);
}

/* Is this open entry the record drained last? The thread was killed between writing it and taking it off. A start alone does
 * not tell: a counter of 25 MHz stands still while an operation ends and the next one of its kind begins. */
static bool is_drained(const struct rs_ring_reader *reader, const struct rs_open *open,
                       uint32_t depth)
{
    const struct rs_slot *last = &reader->last;
    if (open->start != last->start || open->kind != last->kind)
        return false;
    if (open->kind == RS_RECORD_COMM) /* numbered in their ring */
        return open->comm == reader->last_more.comm;
    if (open->kind == RS_RECORD_TASK)
        return open->comm == reader->last_more.comm && open->peer == reader->last_more.peer &&
               open->bytes == last->value;
    return open->name == last->name && depth == last->depth;
}

static enum rs_status take_open(struct rs_ring_reader *reader, const struct rs_open *from,
                                uint32_t depth, rs_ring_record_fn *take, void *self,
                                struct rs_err *err)
{
    struct rs_open open;
    memcpy(&open, from, sizeof open);
    bool is_known = open.kind == RS_RECORD_OP || open.kind == RS_RECORD_RANGE ||
                    open.kind == RS_RECORD_COMM || open.kind == RS_RECORD_TASK;
    if (!is_known || is_drained(reader, &open, depth))
        return RS_OK;
    bool is_double = open.kind == RS_RECORD_COMM || open.kind == RS_RECORD_TASK;
    struct rs_ring_record record = {.slot = {.kind = open.kind,
                                             .flags = (uint8_t)(open.flags & RS_RECORD_IS_SEND),
                                             .slots = (uint8_t)(is_double ? 2 : 1),
                                             .depth = (uint8_t)depth,
                                             .name = open.name,
                                             .start = open.start,
                                             .value = is_double ? open.bytes : 0},
                                    .more = {.peer = -1},
                                    .is_open = true};
    if (is_double)
        record.more = (struct rs_slot_more){.group = open.group,
                                            .peer = open.peer,
                                            .seq = open.seq,
                                            .comm = open.comm,
                                            .type = open.type,
                                            .transport = open.transport};
    return take(self, &record, err);
}

enum rs_status rs_ring_open_entries(struct rs_ring_reader *reader, uint32_t epoch,
                                    rs_ring_record_fn *take, void *self, struct rs_err *err)
{
    struct rs_ring *ring = reader->ring;
    if (atomic_load_explicit(&ring->epoch, memory_order_acquire) != epoch)
        return RS_OK;
    uint32_t depth = atomic_load_explicit(&ring->open_depth, memory_order_acquire);
    if (depth > RS_RING_OPEN_DEPTH)
        return RS_OK;
    enum rs_status status = RS_OK;
    for (uint32_t i = 0; i < depth && status >= 0; i++)
        status = take_open(reader, &ring->open[i], i, take, self, err);
    for (uint32_t i = 0; i < RS_RING_TASK_DEPTH && status >= 0; i++)
        if (ring->tasks[i].in_use == 1)
            status = take_open(reader, &ring->tasks[i], depth, take, self, err);
    return status < 0 ? status : RS_OK;
}

int64_t rs_ring_thread(const struct rs_ring_reader *reader)
{
    return reader->thread;
}

const char *rs_ring_thread_name(const struct rs_ring_reader *reader)
{
    return reader->thread_name;
}

uint32_t rs_ring_number(const struct rs_ring_reader *reader)
{
    return reader->number;
}

uint64_t rs_ring_lost(const struct rs_ring_reader *reader)
{
    return atomic_load_explicit(&reader->ring->lost, memory_order_relaxed);
}

uint64_t rs_ring_bad(const struct rs_ring_reader *reader)
{
    return reader->bad;
}
