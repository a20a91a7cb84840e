/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes of this node can be captured, and why others cannot: what `rankscope doctor` tells. It only looks. One thread.
 */
#ifndef RS_AGENT_DOCTOR_H
#define RS_AGENT_DOCTOR_H

#include "collector/agent/flight_ask.h"
#include "collector/agent/tracedir.h"
#include "collector/trigger/process.h"
#include "collector/trigger/torch.h"
#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RS_DOCTOR_SENTENCES_MAX = 8, RS_DOCTOR_SENTENCE_BYTES = 600 };

struct rs_doctor_patient {
    struct rs_process process;
    const char *framework; /* "torch", "torch_npu", "mindspore" */
    struct rs_torch torch; /* torch, torch_npu */
    int64_t step;          /* of a profiler that tells it; -1 unknown */
    char config_dir[1024]; /* where it is told by a file; "" it is not */
    bool is_rank;          /* else why_no_rank */
    const char *why_no_rank;
    char reasons[RS_DOCTOR_SENTENCES_MAX]
                [RS_DOCTOR_SENTENCE_BYTES]; /* why it cannot be captured; none: it can */
    size_t reason_count;
    char notes[RS_DOCTOR_SENTENCES_MAX][RS_DOCTOR_SENTENCE_BYTES];
    size_t note_count;
    bool has_offer; /* torch: could a hang of it be explained, and how */
    struct rs_flight_offer offer;
};

/* Who answers on a socket of the profiler's. */
struct rs_doctor_server {
    bool is_there, is_ours;
    pid_t pid; /* 0 unknown */
    char text[128];
};

struct rs_doctor_clock {
    bool is_known, is_synchronised;
    int64_t max_error_us;
};

/* Folders that everybody may write to, and what can be done there. */
enum { RS_DOCTOR_OPEN_MAX = 4 };
struct rs_doctor_open {
    char path[1024];
    const char *so_what;
};

struct rs_doctor {
    const char *trace_dir, *socket_dir; /* lent; NULL: the defaults */
    char trace_default[RS_TRACEDIR_BYTES];
    struct rs_doctor_server server; /* of the collector's address */
    struct rs_tracedir_facts folder;
    struct rs_doctor_clock clock;
    struct rs_doctor_open open[RS_DOCTOR_OPEN_MAX];
    size_t open_count;
    struct rs_doctor_patient *patients;
    size_t count, capacity;
    size_t hidden_count; /* processes whose maps may not be read */
};

/* Below this, captures of a few busy ranks are refused for want of room. */
#define RS_DOCTOR_LITTLE_SPACE_BYTES (1024LL * 1024 * 1024)

/* Fills everything but trace_dir and socket_dir, which are the caller's to set. RS_NOMEM, RS_IO; rs_doctor_fini() either way. */
RS_MUST_CHECK enum rs_status rs_doctor_look(struct rs_doctor *doctor, struct rs_err *err);
void rs_doctor_fini(struct rs_doctor *doctor);

/* Appends what was found: as a JSON document without an end of line; as lines for people, sentences of ranks broken at `width` columns,
 * those of the node at `fact_width`. */
void rs_doctor_json(const struct rs_doctor *doctor, struct rs_buf *buf);
void rs_doctor_text(const struct rs_doctor *doctor, unsigned width, unsigned fact_width,
                    struct rs_buf *buf);

#endif
