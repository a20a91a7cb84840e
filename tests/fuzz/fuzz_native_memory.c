/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hostile program puts into the memory that it shares with the collector: a ring's header and slots, and the names area of the
 * control file (names, groups, what it says of its run). The first byte says how much of the input is the ring's. Promises held here: the
 * readers end, hand on no more records than slots were published, and every record, name and group is what layout.h allows; what was
 * refused once is refused again, and nothing is handed on twice.
 */
#include "collector/lib/control_read.h"
#include "collector/lib/ring_read.h"
#include "common/base/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = RS_RING_HEADER_BYTES + RS_RING_MIN_BYTES, SLOTS = RS_RING_MIN_BYTES / 32 };
enum { NAMES_MAX = RS_CONTROL_NAMES_BYTES / 16 };

static enum rs_status count_record(void *self, const struct rs_ring_record *record,
                                   struct rs_err *err)
{
    size_t *count = self;
    (void)err;
    ++*count;
    RS_CHECK(record->slot.kind >= RS_RECORD_STEP && record->slot.kind <= RS_RECORD_MEMORY);
    RS_CHECK(record->slot.slots == 1 || record->slot.slots == 2 || record->is_open);
    RS_CHECK(!record->is_open || record->slot.end == 0);
    return RS_OK;
}

/* Head, state, epoch and depth are the input's; what says which layout it is stays, or nothing would be read. */
static void read_ring(const uint8_t *data, size_t size)
{
    struct rs_ring *ring = aligned_alloc(4096, BYTES);
    struct rs_ring_reader *reader = NULL;
    size_t count = 0;
    RS_CHECK(ring);
    memset(ring, 0, BYTES);
    memcpy((char *)ring + 64, data, size < BYTES - 64 ? size : BYTES - 64);
    ring->magic = RS_RING_MAGIC;
    ring->version = RS_LAYOUT_VERSION;
    ring->header_bytes = RS_RING_HEADER_BYTES;
    ring->slot_bytes = RS_RING_SLOT_BYTES;
    ring->slot_count = SLOTS;
    const uint64_t head = atomic_load(&ring->head);
    atomic_store(&ring->head, 0);
    atomic_store(&ring->tail, 0);
    RS_CHECK(rs_ring_reader_over(ring, BYTES, &reader, NULL) == RS_OK);
    /* Slots lie far behind the header: a second copy of the input makes short ones of use. */
    memcpy((char *)ring + RS_RING_HEADER_BYTES, data,
           size < RS_RING_MIN_BYTES ? size : RS_RING_MIN_BYTES);
    atomic_store(&ring->head, head & 1 ? head : head % (SLOTS + 1));
    const uint64_t published = atomic_load(&ring->head);
    const enum rs_status status = rs_ring_drain(reader, count_record, &count, NULL);
    RS_CHECK(status == RS_OK || status == RS_END || (status == RS_FORMAT && published > SLOTS));
    RS_CHECK(count + rs_ring_bad(reader) <= SLOTS);
    if (status != RS_FORMAT) {
        size_t again = 0, open = 0;
        RS_CHECK(rs_ring_drain(reader, count_record, &again, NULL) == status && again == 0);
        RS_CHECK(rs_ring_open_entries(reader, atomic_load(&ring->epoch), count_record, &open,
                                      NULL) == RS_OK);
        RS_CHECK(open <= RS_RING_OPEN_DEPTH + RS_RING_TASK_DEPTH);
    }
    rs_ring_reader_close(&reader);
    free(ring);
}

static int control_file(char **map_p)
{
    static char *map;
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        RS_CHECK(fd >= 0 && ftruncate(fd, RS_CONTROL_BYTES) == 0);
        RS_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
        map = mmap(NULL, RS_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        RS_CHECK(map != MAP_FAILED);
    }
    *map_p = map;
    return fd;
}

static void read_names(const uint8_t *data, size_t size)
{
    struct rs_control_reader *reader = NULL;
    char *map = NULL;
    const int fd = control_file(&map);
    struct rs_control *control = (struct rs_control *)(void *)map;
    const size_t length = size < RS_CONTROL_NAMES_BYTES ? size : RS_CONTROL_NAMES_BYTES;
    memset(map, 0, RS_CONTROL_HEADER_BYTES);
    memcpy(map + RS_CONTROL_HEADER_BYTES, data, length);
    control->magic = RS_CONTROL_MAGIC;
    control->version = RS_LAYOUT_VERSION;
    control->header_bytes = RS_CONTROL_HEADER_BYTES;
    control->names_bytes = RS_CONTROL_NAMES_BYTES;
    atomic_store(&control->names_used, length);
    RS_CHECK(rs_control_open(fd, RS_CONTROL_BYTES, &reader, NULL) == RS_OK);
    const enum rs_status status = rs_control_names(reader, NULL);
    RS_CHECK(status == RS_OK || status == RS_FORMAT);
    RS_CHECK(rs_control_names(reader, NULL) == status);
    uint32_t count = 0;
    for (const struct rs_lib_name *name; (name = rs_control_name(reader, count + 1)); count++)
        RS_CHECK(name->length <= RS_LIB_NAME_MAX_BYTES && name->text[name->length] == '\0');
    RS_CHECK(count <= NAMES_MAX);
    for (uint32_t id = 1; rs_control_group(reader, id); id++)
        RS_CHECK(++count <= NAMES_MAX);
    rs_control_close(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const size_t of_ring = (size - 1) * data[0] / 255;
    read_ring(data + 1, of_ring);
    read_names(data + 1 + of_ring, size - 1 - of_ring);
    return 0;
}
