/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What earlier captures of a run tell of its ranks. Roles: the process groups in their summaries, by name or description
 * ("mesh_tp", "PIPELINE_MODEL_PARALLEL_GROUP"); a rank's index is its place in the group. And how much of a step is a rank's own:
 * who is slow in a job whose steps all take the same time.
 *
 *     a capture is closed --rs_infer_roles_capture()--> thread rs-infer reads its summaries --> table --rs_infer_roles_of()--> coordinator
 *
 * The newest capture of a run counts; what it does not tell of a rank stays as an earlier one told it. The reading is done on a thread of
 * its own, since a thousand summaries take a while; until then nothing is known.
 */
#ifndef RS_SERVER_INFER_ROLES_H
#define RS_SERVER_INFER_ROLES_H

#include "common/base/err.h"
#include "common/request/roles.h"

struct rs_infer_roles;

RS_MUST_CHECK enum rs_status rs_infer_roles_start(struct rs_infer_roles **infer_p,
                                                  struct rs_err *err);
/* What is still to be read is left unread. Of NULL is allowed. */
void rs_infer_roles_stop(struct rs_infer_roles **infer_p);

/* A capture whose streams are complete, in `directory`. Copies. Any thread; without memory its roles are not inferred. */
void rs_infer_roles_capture(struct rs_infer_roles *infer, const char *run, const char *directory);
/* True: `roles_p` is the caller's (rs_roles_fini()). Any thread. */
bool rs_infer_roles_of(struct rs_infer_roles *infer, const char *run, struct rs_roles *roles_p);

/* Adds what the groups of the capture in `directory` tell: ascending by rank. RS_NOTFOUND, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_infer_roles_read(const char *directory, struct rs_roles *roles,
                                                 struct rs_err *err);

#endif
