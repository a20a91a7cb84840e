/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one recording over time, as torch.profiler's export_memory_timeline() writes it, out of the allocator's rows.
 *
 * A trace tells who allocated how much when, and not what for: torch knows that from tensors that it holds in its process. So all bytes
 * are of the category without a name (8th of 8), and INCREMENT_VERSION, which moves bytes from one category to another, does not
 * come. What is freed and was not seen allocated was there before: PREEXISTING.
 */
#ifndef RS_TRACE_MEMORY_H
#define RS_TRACE_MEMORY_H

#include "aggregator/trace/calls.h"
#include "common/base/buf.h"

enum rs_memory_action { /* torch's numbers */
                        RS_MEMORY_PREEXISTING = 1,
                        RS_MEMORY_CREATE = 2,
                        RS_MEMORY_INCREMENT_VERSION = 3,
                        RS_MEMORY_DESTROY = 4
};
enum { RS_MEMORY_CATEGORIES = 8, RS_MEMORY_NO_CATEGORY = 7 };

struct rs_memory_event {
    rs_ns time; /* Unix ns; -1: before the recording */
    enum rs_memory_action action;
    int64_t bytes; /* > 0; freed: < 0 */
};
struct rs_memory_timeline {
    struct rs_memory_event *events; /* those from before first, then by time */
    size_t count, capacity;
    int64_t peak_bytes; /* of what was seen */
    uint64_t unknown;   /* rows left out: a free that names no address, a time that is none */
};

/* A device as torch names it: "cpu", "cuda:0", "npu", "xpu:1" (without a number: the first of that kind that allocates). */
struct rs_memory_device {
    int32_t type, index; /* type: c10's number; index -1: the first, or the host */
};
bool rs_memory_device_named(const char *word, struct rs_memory_device *device_p);
/* "cpu", "cuda:0", ... into `text`. */
void rs_memory_device_text(const struct rs_memory_device *device, char *text, size_t size);
/* The first device that allocates, else the host. False: nobody does. */
bool rs_memory_device_default(const struct rs_trace_calls *calls,
                              struct rs_memory_device *device_p);

/* What that device's allocator did. RS_NOTFOUND: nothing was recorded of it (the sentence says of whom something was). RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_memory_timeline_new(const struct rs_trace_calls *calls,
                                                    rs_ns base_ns,
                                                    const struct rs_memory_device *device,
                                                    struct rs_memory_timeline *timeline_p,
                                                    struct rs_err *err);
void rs_memory_timeline_fini(struct rs_memory_timeline *timeline);

/* [times in us, [bytes by category, behind a 0]] */
void rs_memory_write_sizes(const struct rs_memory_timeline *timeline, struct rs_buf *out);
/* [[time in ns, action, bytes, category], ...] */
void rs_memory_write_events(const struct rs_memory_timeline *timeline, struct rs_buf *out);
/* A page with a picture of it that loads nothing. */
void rs_memory_write_page(const struct rs_memory_timeline *timeline, const char *title,
                          struct rs_buf *out);

#endif
