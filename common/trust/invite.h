/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An invite: what a new node needs to be believed once, and to believe whom it joins.
 *
 *     "rsi1.SECRET.AUTHORITY"     SECRET: 24 random bytes; AUTHORITY: the authority's certificate; both in base64
 *
 * The authority keeps a digest of the secret (invites/DIGEST: until when, for which name), never the secret. The node
 * makes its key itself and sends a request for a certificate, over a link on which the other side has proven to have one of
 * this very authority: nothing that crosses the network helps anybody to be that node.
 */
#ifndef RS_TRUST_INVITE_H
#define RS_TRUST_INVITE_H

#include "common/base/buf.h"
#include "common/trust/authority.h"

enum { RS_INVITE_SECRET_BYTES = 33, RS_INVITE_MAX_BYTES = 8192 };

struct rs_invite {
    char secret[RS_INVITE_SECRET_BYTES]; /* as it is written */
    struct rs_buf ca;                    /* PEM */
};

/* Opens an invite for the node of that name until `expires_at` (Unix epoch) and appends its text. */
RS_MUST_CHECK enum rs_status rs_invite_make(struct rs_authority *authority, const char *name,
                                            rs_ns expires_at, struct rs_buf *text,
                                            struct rs_err *err);
/* RS_FORMAT. */
RS_MUST_CHECK enum rs_status rs_invite_parse(const char *text, struct rs_invite *invite_p,
                                             struct rs_err *err);
void rs_invite_fini(struct rs_invite *invite);

/* Uses an invite up, whatever comes of it: RS_REFUSED when there is none of that secret, it is over, or it is for another
 * name. Of two that come with the same one, one gets it. */
RS_MUST_CHECK enum rs_status rs_invite_take(struct rs_authority *authority, const char *secret,
                                            const char *name, rs_ns now, struct rs_err *err);

#endif
