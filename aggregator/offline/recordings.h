/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings one by one, of files or of a capture's raw data: whose each is, and its events, as often as one wants them.
 *
 *     rs_recordings_of_files(), _of_capture() --> rs_recordings_survey() of each --> rs_recordings_settle(): ranks are known
 *                                                                                     --> rs_recording_read(), any number of times
 *
 * Whose a file is may stand behind its events: hence the survey, a first reading. One thread.
 */
#ifndef RS_OFFLINE_RECORDINGS_H
#define RS_OFFLINE_RECORDINGS_H

#include "aggregator/store/store.h"
#include "collector/source/discover.h"

struct rs_recording {
    struct rs_input *input; /* NULL: a stream of the capture */
    size_t stream;
    int32_t rank; /* -1: nobody's, or not known yet */
};

struct rs_recordings {
    struct rs_inputs inputs;
    struct rs_stored *stored; /* NULL: files */
    struct rs_recording *items;
    size_t count;
};

/* Whoever takes the events of a recording: `begin` has its tables, which live until `end` returned; `end` what is known of the whole. `end`
 * does not come when reading failed. Any of them may be NULL. */
struct rs_taker {
    enum rs_status (*begin)(void *self, const struct rs_strtab *strings,
                            const struct rs_lanes *lanes, struct rs_err *err);
    enum rs_status (*batch)(void *self, const struct rs_batch *batch, struct rs_err *err);
    enum rs_status (*end)(void *self, const struct rs_trace_info *info, struct rs_err *err);
    void *self;
};

/* As rs_discover(): the candidates are items. Close it after a failure, too. */
RS_MUST_CHECK enum rs_status rs_recordings_of_files(const char *const *paths, size_t count,
                                                    const struct rs_discover_options *how,
                                                    struct rs_recordings *recordings_p,
                                                    struct rs_err *err);
/* Streams of the raw lane of the capture in `dir`; their ranks are known. */
RS_MUST_CHECK enum rs_status
rs_recordings_of_capture(const char *dir, struct rs_recordings *recordings_p, struct rs_err *err);
/* Of a zeroed one is allowed. */
void rs_recordings_close(struct rs_recordings *recordings);

/* Reads it for the first time, into `taker`. A file that cannot be read is no failure: its input says so afterwards. */
RS_MUST_CHECK enum rs_status rs_recordings_survey(struct rs_recordings *recordings,
                                                  struct rs_recording *recording,
                                                  const struct rs_taker *taker, struct rs_err *err);
/* When all were surveyed: ranks of files. As rs_inputs_resolve(). */
RS_MUST_CHECK enum rs_status rs_recordings_settle(struct rs_recordings *recordings,
                                                  struct rs_err *err);

/* RS_PARTIAL: of a damaged one what is whole was read. `flags` as of rs_input_read(). */
RS_MUST_CHECK enum rs_status rs_recording_read(const struct rs_recordings *recordings,
                                               const struct rs_recording *recording, unsigned flags,
                                               const struct rs_taker *taker, struct rs_err *err);

#endif
