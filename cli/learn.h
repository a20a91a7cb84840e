/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What earlier captures of a run tell of its ranks' roles: the process groups in their summaries, by name or description
 * ("mesh_tp", "PIPELINE_MODEL_PARALLEL_GROUP"); a rank's index is its place in the group.
 *
 *     a capture is closed --rs_learn_capture()--> thread rs-learn reads its summaries --> table --rs_learn_roles()--> coordinator
 *
 * The newest capture of a run counts; what it does not tell of a rank stays as an earlier one told it. The reading is done on a thread of
 * its own, since a thousand summaries take a while; until then nothing is known.
 */
#ifndef RS_CLI_LEARN_H
#define RS_CLI_LEARN_H

#include "common/base/err.h"
#include "common/request/roles.h"

struct rs_learn;

RS_MUST_CHECK enum rs_status rs_learn_start(struct rs_learn **learn_p, struct rs_err *err);
/* What is still to be read is left unread. Of NULL is allowed. */
void rs_learn_stop(struct rs_learn **learn_p);

/* A capture whose streams are complete, in `directory`. Copies. Any thread; without memory it is not learned from. */
void rs_learn_capture(struct rs_learn *learn, const char *run, const char *directory);
/* True: `roles_p` is the caller's (rs_roles_fini()). Any thread. */
bool rs_learn_roles(struct rs_learn *learn, const char *run, struct rs_roles *roles_p);

/* Adds what the groups of the capture in `directory` tell: ascending by rank. RS_NOTFOUND, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_learn_read(const char *directory, struct rs_roles *roles,
                                           struct rs_err *err);

#endif
