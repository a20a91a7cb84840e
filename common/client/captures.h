/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of an aggregator: one is started, followed to its end, asked about, stopped, removed; all are listed.
 *
 *     rs_client_capture_start()   --AskStart-->   what every rank answers, then its progress, until the last --> follow->info
 *     rs_client_capture_follow()  --AskCapture--> its progress
 *     rs_client_capture()         once
 *
 * Infos and lists are the caller's, and protobuf-c's memory. As rs_client_ask(): RS_CANCELLED is Ctrl-C, and the capture goes on.
 */
#ifndef RS_CLIENT_CAPTURES_H
#define RS_CLIENT_CAPTURES_H

#include "common/client/capture_request.h"
#include "common/request/request.h"
#include "common/wire/link.h"

enum rs_client_about { RS_CLIENT_SHOW, RS_CLIENT_STOP, RS_CLIENT_REMOVE };

/* What the aggregator says of a capture; *info_p NULL: it said nothing of it. */
RS_MUST_CHECK enum rs_status rs_client_capture(const struct rs_address *address,
                                               enum rs_client_about about, const char *id,
                                               Rankscope__CaptureInfo **info_p, struct rs_err *err);

/* A closed one goes to the archive of its aggregator, or comes back. *info_p as above. Interrupted, the aggregator goes on. */
struct rs_client_move {
    bool is_restore;
    /* How much of how much is done; 0: not known how much. */
    void (*on_progress)(void *self, uint64_t done_bytes, uint64_t all_bytes);
    void *self;
};
RS_MUST_CHECK enum rs_status rs_client_capture_move(const struct rs_address *address,
                                                    const char *id,
                                                    const struct rs_client_move *move,
                                                    Rankscope__CaptureInfo **info_p,
                                                    struct rs_err *err);

/* Those of a run ("": of all), in one list however many messages bring it; *list_p NULL: nothing came. */
RS_MUST_CHECK enum rs_status rs_client_captures(const struct rs_address *address, const char *run,
                                                bool has_no_ranks, Rankscope__CaptureList **list_p,
                                                struct rs_err *err);

/* A copy of a message that is lent; NULL: no memory. */
Rankscope__CaptureInfo *rs_capture_info_copy(const Rankscope__CaptureInfo *info);

/* One that is followed: the first three are the caller's, the rest begins zeroed. */
struct rs_capture_follow {
    /* The answer to a start, lent; NULL: an aggregator of minor version 1 gives none. May be NULL itself. */
    void (*on_answer)(void *self, struct rs_request_answer *answer);
    /* Each time something changed. False: that is enough. */
    bool (*on_progress)(void *self, const Rankscope__CaptureInfo *info);
    void *self;
    char id[64];                  /* as soon as it is known */
    Rankscope__CaptureInfo *info; /* the newest */
    bool is_start, is_answered;
    enum rs_status status; /* of the answer to a start */
    struct rs_err err;     /* when that is a failure */
};

RS_MUST_CHECK enum rs_status rs_client_capture_start(const struct rs_address *address,
                                                     struct rs_capture_question *question,
                                                     struct rs_capture_follow *follow,
                                                     struct rs_err *err);
/* RS_CLIENT_SHOW, or RS_CLIENT_STOP: it is ended, and followed until it is. */
RS_MUST_CHECK enum rs_status rs_client_capture_follow(const struct rs_address *address,
                                                      enum rs_client_about about, const char *id,
                                                      struct rs_capture_follow *follow,
                                                      struct rs_err *err);
/* Raw data that was left with collectors is sent now; followed until it is stored, or lost. `ranks`: whose, "" all. */
RS_MUST_CHECK enum rs_status rs_client_capture_fetch(const struct rs_address *address,
                                                     const char *id, const char *ranks,
                                                     struct rs_capture_follow *follow,
                                                     struct rs_err *err);
void rs_capture_follow_fini(struct rs_capture_follow *follow);

#endif
