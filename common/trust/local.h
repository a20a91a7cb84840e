/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who comes over a unix socket. The kernel says which user it is (SO_PEERCRED), and nothing that the other side writes can
 * change that; what that user may do stands in the settings:
 *
 *     root, and the user of this process             local       everything
 *     named by `operators`, or of a group there      operator    reads, captures, stops and removes everything
 *     named by `viewers`                             viewer      reads everything
 *     everybody else                                 user        the same as an operator, with runs of its own
 *
 * "alice,@ml-ops": names of users, and of groups behind an "@". Without `operators` those of the socket's group are operators:
 * they are whom its owner let in.
 */
#ifndef RS_TRUST_LOCAL_H
#define RS_TRUST_LOCAL_H

#include "common/trust/identity.h"

#include <sys/types.h>

struct rs_local_rules {
    const char *operators, *viewers; /* lent while it is used; NULL, "": nobody is named */
    gid_t group; /* without `operators`: whose members are; (gid_t)-1: of none */
};

/* RS_INVALID names a user or a group that is not there: a slip of the pen must not let in, or keep out, somebody else. */
RS_MUST_CHECK enum rs_status rs_local_check(const struct rs_local_rules *rules, struct rs_err *err);

/* The identity of a user of this machine; its name is the user's, "uid-N" when it has none. Asks the name service, which may
 * take its time: not on the thread of the links. `rules` NULL: everybody who comes is local. */
void rs_local_identify(const struct rs_local_rules *rules, uid_t uid, gid_t gid,
                       struct rs_identity *identity_p);

/* The name of a user, as above. Kept for a minute. Any thread. */
void rs_local_name(uid_t uid, char name_p[RS_IDENTITY_NAME_BYTES]);

#endif
