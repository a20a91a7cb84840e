/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An invite: what a new node needs to be believed once, and to believe whom it joins.
 *
 *     "rsi1.SECRET.AUTHORITY"     SECRET: 24 random bytes; AUTHORITY: the authority's certificate; both in base64
 *
 * The authority keeps a digest of the secret (invites/DIGEST: until when, how often, for which name), never the secret. The node
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

enum { RS_INVITE_USES_MAX = 100000 };

/* Whom an invite is for. */
struct rs_invite_terms {
    const char *name; /* of a node; NULL: any that has no certificate that counts */
    unsigned uses;    /* 1 for a name; up to RS_INVITE_USES_MAX for any */
    rs_ns expires_at; /* Unix epoch */
};

/* Opens an invite and appends its text. RS_INVALID: the terms. */
RS_MUST_CHECK enum rs_status rs_invite_make(struct rs_authority *authority,
                                            const struct rs_invite_terms *terms,
                                            struct rs_buf *text, struct rs_err *err);
/* RS_FORMAT. */
RS_MUST_CHECK enum rs_status rs_invite_parse(const char *text, struct rs_invite *invite_p,
                                             struct rs_err *err);
void rs_invite_fini(struct rs_invite *invite);

/* Takes a use of an invite, whatever comes of it: RS_REFUSED when there is none of that secret, it is over, is for another
 * name, or is for any and the name is taken: a certificate of that node counts still. Of two that come with the last use, one gets
 * it. */
RS_MUST_CHECK enum rs_status rs_invite_take(struct rs_authority *authority, const char *secret,
                                            const char *name, rs_ns now, struct rs_err *err);

#endif
