/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration text that makes a Kineto client record: generated from numbers and a checked
 * path, never free text from a user, because the client's grammar has no quoting (a '=', '#' or
 * line end in a value would be read as something else) and any non-empty text starts a capture.
 */
#ifndef RS_TRIGGER_KINETO_CONFIG_H
#define RS_TRIGGER_KINETO_CONFIG_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/request/request.h"

#include <stdbool.h>
#include <stdint.h>

struct rs_kineto_config {
    const char *
        log_file; /* absolute, ends in ".json" and has it nowhere else; the client puts _PID before it */
    int64_t start_time_ms;     /* Unix ms; 0: as soon as the client can; ignored with iterations */
    int32_t duration_ms;       /* > 0, unless iterations > 0 */
    int32_t iterations;        /* > 0: record so many optimizer steps */
    int32_t start_iteration;   /* -1: the next multiple of roundup; else this one */
    int32_t iteration_roundup; /* >= 1, with start_iteration -1 */
    int32_t warmup_s;          /* >= 0 */
    int32_t
        warmup_iterations; /* >= 0: with the profiler on, before those that are recorded; with iterations */
    uint32_t activities; /* set of enum rs_activity; 0: all */
    bool record_shapes, profile_memory, with_stack, with_flops, with_modules;
    const char *trace_id; /* letters, digits, '-', '_' */
};

/* Appends the text. RS_INVALID names the member and the rule it breaks; nothing is appended then. */
RS_MUST_CHECK enum rs_status rs_kineto_config_text(const struct rs_kineto_config *config,
                                                   struct rs_buf *buf, struct rs_err *err);

/* Would a client since 2026-06 take this path? Under /tmp/ or under `trace_dir` (its own
 * KINETO_ONDEMAND_TRACE_DIR, "" unset), without "..". Older clients take any. */
bool rs_kineto_path_is_allowed(const char *path, const char *trace_dir);

#endif
