/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of one run, for the standing watch (step_watch.c): captures of a few steps of ranks that tell none while they run.
 *
 *   WAITING --due, nobody records--> ASKED --closed--> READING, on rs-join: two lengths a rank, then it is removed --> WAITING
 *      ^                               | refused
 *      +-------------------------------+   after that the pauses grow
 *
 * common/client/probe_watch.h says who is recorded, when, and what is an alarm. A probe is a capture like any other, but that lists
 * leave it out, that no webhook names it, and that it goes when it was read; one that this process left to the next goes by
 * retention.c.
 *
 * Thread: the server's.
 */
#ifndef RS_SERVER_STEP_PROBE_H
#define RS_SERVER_STEP_PROBE_H

#include "aggregator/server/server.h"
#include "common/client/probe_watch.h"

/* Zeroed is WAITING. */
struct step_probe {
    struct rs_probe_watch rule;
    char capture[RS_COORD_ID_BYTES]; /* ASKED, READING; "" WAITING */
    char why[RS_COORD_REASON_BYTES]; /* it came to nothing */
    bool is_reading, is_stopped, is_told;
    bool was_recording;        /* some rank, at the last look */
    rs_ns asked_at, looked_at; /* monotonic */
    rs_dur disturbed_ns;       /* so long some rank recorded or wrote */
    bool has_alarm;            /* until who watches takes it */
    struct rs_run_alarm alarm;
};

/* A rank of the run that tells no steps, as it is seen now. RS_NOMEM. */
RS_MUST_CHECK enum rs_status step_probe_add(struct step_probe *probe,
                                            const struct rs_coord_seen *seen,
                                            const int32_t role[RS_ROLE_COUNT]);
/* That were all of them; false: the run has none. */
bool step_probe_seen(const struct rs_server *server, struct step_probe *probe, rs_ns now);
/* Moves it on. `is_recording`: somebody records some of the run. */
void step_probe_tick(struct rs_server *server, struct step_probe *probe, const char *run,
                     bool is_recording, rs_ns now);
void step_probe_fini(struct step_probe *probe);

/* Whether a capture is a probe, of the standing watch or of an operator's `rankscope watch` (ask.c: nobody else may mark one). */
bool step_probe_is(const struct rs_coord_capture *capture);
/* The same of its row. */
bool step_probe_is_row(const struct rs_capture_facts *facts);

/* step_probe_read.c; any thread: of these ranks, what the capture in that folder tells. As many figures as ranks have room. RS_NOTFOUND,
 * RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status step_probe_figures(const char *dir, const uint32_t *ranks,
                                                size_t rank_count, struct rs_probe_figure *figures,
                                                size_t *count_p, struct rs_err *err);

#endif
