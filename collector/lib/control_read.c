/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/lib/control_read.h"

#include "collector/lib/ring_read.h"
#include "common/base/const.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

enum { TEXT_MAX_BYTES = 4096, RANKS_MAX = 65536, BOUNDARY_TRIES = 8 };

struct name_list {
    struct rs_lib_name *items;
    size_t count;
    size_t capacity;
};

struct rs_control_reader {
    struct rs_control *control; /* shared */
    uint64_t names_read;        /* bytes */
    uint64_t request_seq;       /* last one written, even */
    struct name_list names;
    struct name_list groups;
};

static enum rs_status check_header(const struct rs_control *control, struct rs_err *err)
{
    struct rs_control copy;
    memcpy(&copy, control, 64);
    if (copy.magic != RS_CONTROL_MAGIC)
        return rs_err_set(err, RS_FORMAT, "control file: no magic number");
    if (copy.version != RS_LAYOUT_VERSION)
        return rs_err_set(err, RS_VERSION,
                          "control file: layout version %" PRIu32 ", this program reads %d",
                          copy.version, RS_LAYOUT_VERSION);
    if (copy.header_bytes != RS_CONTROL_HEADER_BYTES || copy.names_bytes != RS_CONTROL_NAMES_BYTES)
        return rs_err_set(err, RS_FORMAT, "control file: sizes of another layout");
    return RS_OK;
}

enum rs_status rs_control_open(int fd, uint64_t bytes, struct rs_control_reader **reader_p,
                               struct rs_err *err)
{
    if (bytes != RS_CONTROL_BYTES)
        return rs_err_set(err, RS_FORMAT, "control file of %" PRIu64 " bytes", bytes);
    enum rs_status status = rs_ring_check_memory(fd, bytes, err);
    if (status != RS_OK)
        return status;
    struct rs_control_reader *reader = rs_mem_calloc(1, sizeof *reader);
    if (reader == NULL)
        return rs_err_set(err, RS_NOMEM, "control file: out of memory");
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        status = rs_err_errno(err, "control file: cannot map");
        rs_mem_free(reader);
        return status;
    }
    reader->control = map;
    status = check_header(map, err);
    if (status != RS_OK) {
        rs_control_close(&reader);
        return status;
    }
    reader->request_seq =
        atomic_load_explicit(&reader->control->request_seq, memory_order_relaxed) & ~UINT64_C(1);
    *reader_p = reader;
    return RS_OK;
}

static void free_names(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        rs_mem_free(rs_const_away(list->items[i].text));
        rs_mem_free(rs_const_away(list->items[i].ranks));
    }
    rs_mem_free(list->items);
}

void rs_control_close(struct rs_control_reader **reader_p)
{
    struct rs_control_reader *reader = *reader_p;
    *reader_p = NULL;
    if (reader == NULL)
        return;
    munmap(reader->control, RS_CONTROL_BYTES);
    free_names(&reader->names);
    free_names(&reader->groups);
    rs_mem_free(reader);
}

/* A length from the other side: never negative. */
static int64_t length_of(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

void rs_control_progress(const struct rs_control_reader *reader, struct rs_lib_progress *p)
{
    struct rs_control *c = reader->control;
    /* The number of the request first: what it says of the capture is at least as new. */
    p->request_seq = atomic_load_explicit(&c->capture_seq, memory_order_acquire);
    uint32_t state = atomic_load_explicit(&c->capture_state, memory_order_acquire);
    p->capture_state = state <= RS_LIB_MISSED ? (enum rs_lib_capture_state)state : RS_LIB_IDLE;
    p->epoch = atomic_load_explicit(&c->epoch, memory_order_relaxed);
    p->first_step = atomic_load_explicit(&c->first_step, memory_order_relaxed);
    p->next_step = atomic_load_explicit(&c->next_step, memory_order_relaxed);
    p->first_ticks = atomic_load_explicit(&c->first_ticks, memory_order_relaxed);
    p->step_start_ticks = atomic_load_explicit(&c->step_start_ticks, memory_order_acquire);
    /* The sum and the step belong together: once more when a boundary came in between. A process that makes them faster than
     * they are read, or lies, is believed after some tries; the difference is a step. */
    for (int i = 0; i < BOUNDARY_TRIES; i++) {
        p->step_count = atomic_load_explicit(&c->step_count, memory_order_acquire);
        p->step = atomic_load_explicit(&c->step, memory_order_relaxed);
        p->own_ns = length_of(atomic_load_explicit(&c->own_ns, memory_order_relaxed));
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&c->step_count, memory_order_relaxed) == p->step_count)
            break;
    }
    p->mean_step_ns = length_of(atomic_load_explicit(&c->mean_step_ns, memory_order_relaxed));
    p->heartbeat_ns = atomic_load_explicit(&c->heartbeat_ns, memory_order_relaxed);
    p->ring_count = atomic_load_explicit(&c->ring_count, memory_order_relaxed);
    p->lost_without_ring = atomic_load_explicit(&c->lost_without_ring, memory_order_relaxed);
    p->is_finished = atomic_load_explicit(&c->state, memory_order_acquire) == RS_LIB_FINISHED;
}

static bool is_entry(const struct rs_lib_entry *entry, uint64_t available)
{
    if (entry->kind != RS_LIB_ENTRY_NAME && entry->kind != RS_LIB_ENTRY_GROUP)
        return false;
    if (entry->text_bytes > TEXT_MAX_BYTES || entry->rank_count > RANKS_MAX)
        return false;
    uint64_t need =
        sizeof *entry + ((entry->text_bytes + 3u) & ~3u) + 4u * (uint64_t)entry->rank_count;
    return entry->entry_bytes % 8 == 0 && entry->entry_bytes >= need &&
           entry->entry_bytes <= available;
}

static enum rs_status add_entry(struct name_list *list, const struct rs_lib_entry *entry,
                                const char *body)
{
    enum rs_status status =
        rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items);
    if (status != RS_OK)
        return status;
    char *text = rs_mem_strndup(body, entry->text_bytes);
    int32_t *ranks = rs_mem_calloc((size_t)entry->rank_count + 1, sizeof *ranks);
    if (text == NULL || ranks == NULL) {
        rs_mem_free(text);
        rs_mem_free(ranks);
        return RS_NOMEM;
    }
    memcpy(ranks, body + ((entry->text_bytes + 3u) & ~3u),
           sizeof *ranks * (size_t)entry->rank_count);
    list->items[list->count++] = (struct rs_lib_name){.text = text,
                                                      .length = entry->text_bytes,
                                                      .flags = entry->flags,
                                                      .ranks = ranks,
                                                      .rank_count = entry->rank_count};
    return RS_OK;
}

enum rs_status rs_control_names(struct rs_control_reader *reader, struct rs_err *err)
{
    const char *area = (const char *)reader->control + RS_CONTROL_HEADER_BYTES;
    uint64_t used = atomic_load_explicit(&reader->control->names_used, memory_order_acquire);
    if (used > RS_CONTROL_NAMES_BYTES)
        return rs_err_set(err, RS_FORMAT, "names: %" PRIu64 " bytes used of %d", used,
                          RS_CONTROL_NAMES_BYTES);
    while (reader->names_read < used) {
        struct rs_lib_entry entry = {0};
        uint64_t available = used - reader->names_read;
        if (available >= sizeof entry)
            memcpy(&entry, area + reader->names_read, sizeof entry);
        if (!is_entry(&entry, available))
            return rs_err_set(err, RS_FORMAT, "names: no entry at byte %" PRIu64,
                              reader->names_read);
        struct name_list *list = entry.kind == RS_LIB_ENTRY_NAME ? &reader->names : &reader->groups;
        if (add_entry(list, &entry, area + reader->names_read + sizeof entry) != RS_OK)
            return rs_err_set(err, RS_NOMEM, "names: out of memory");
        reader->names_read += entry.entry_bytes;
    }
    return RS_OK;
}

static const struct rs_lib_name *item(const struct name_list *list, uint32_t id)
{
    return id >= 1 && id <= list->count ? &list->items[id - 1] : NULL;
}

const struct rs_lib_name *rs_control_name(const struct rs_control_reader *reader, uint32_t id)
{
    return item(&reader->names, id);
}

const struct rs_lib_name *rs_control_group(const struct rs_control_reader *reader, uint32_t id)
{
    return item(&reader->groups, id);
}

uint64_t rs_control_request(struct rs_control_reader *reader, uint64_t start, uint64_t stop)
{
    struct rs_control *control = reader->control;
    uint64_t seq = reader->request_seq + 2;
    atomic_store_explicit(&control->request_seq, seq - 1, memory_order_relaxed);
    atomic_store_explicit(&control->start_step, start, memory_order_release);
    atomic_store_explicit(&control->stop_step, stop, memory_order_release);
    atomic_store_explicit(&control->request_seq, seq, memory_order_release);
    reader->request_seq = seq;
    return seq;
}
