/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `rankscope doctor` share. doctor.c looks, doctor_say.c tells. One thread.
 */
#ifndef RS_CLI_DOCTOR_PRIV_H
#define RS_CLI_DOCTOR_PRIV_H

#include "cli/tracedir.h"
#include "collector/trigger/process.h"
#include "collector/trigger/torch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DOCTOR_SENTENCES_MAX = 8, DOCTOR_SENTENCE_BYTES = 600 };

struct doctor_patient {
    struct rs_process process;
    const char *framework; /* "torch", "torch_npu", "mindspore" */
    struct rs_torch torch; /* torch, torch_npu */
    int64_t step;          /* of a profiler that tells it; -1 unknown */
    char config_dir[1024]; /* where it is told by a file; "" it is not */
    bool is_rank;          /* else why_no_rank */
    const char *why_no_rank;
    char reasons[DOCTOR_SENTENCES_MAX]
                [DOCTOR_SENTENCE_BYTES]; /* why it cannot be captured; none: it can */
    size_t reason_count;
    char notes[DOCTOR_SENTENCES_MAX][DOCTOR_SENTENCE_BYTES];
    size_t note_count;
};

/* Who answers on a socket of the profiler's. */
struct doctor_server {
    bool is_there, is_ours;
    pid_t pid; /* 0 unknown */
    char text[128];
};

struct doctor_clock {
    bool is_known, is_synchronised;
    int64_t max_error_us;
};

struct doctor {
    bool as_json, is_quiet;
    const char *trace_dir, *socket_dir;
    char trace_default[RS_TRACEDIR_BYTES];
    struct doctor_server server; /* of the collector's address */
    struct rs_tracedir_facts folder;
    struct doctor_clock clock;
    struct doctor_patient *patients;
    size_t count, capacity;
    size_t hidden_count; /* processes whose maps may not be read */
};

/* Below this, captures of a few busy ranks are refused for want of room. */
#define DOCTOR_LITTLE_SPACE_BYTES (1024LL * 1024 * 1024)

void doctor_print_json(struct doctor *doctor);
void doctor_print_text(const struct doctor *doctor);

#endif
