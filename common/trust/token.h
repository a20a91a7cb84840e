/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens: for people and programs that speak HTTP and have no certificate.
 *
 *     "rst1.SECRET"        SECRET: 32 random bytes in hex; shown once, to who made it
 *     DIR/ID               mode 0600: "DIGEST PARTY CREATED EXPIRES NAME"; DIGEST: SHA-256 of the whole text, ID: its first 12
 *                          of one run alone: a second line, "run RUN"; who does not know of it takes the file for no token
 *
 * The secret has 256 random bits, so its digest needs no salt and no slow function; digests are compared in constant time, all of
 * them every time. The folder is looked at again once a second when somebody asks, and for an unknown token
 * when something came into it, so that a new token counts at once and a revoked one no longer than a second. One folder, any number of processes: each file is written whole or not at all.
 */
#ifndef RS_TRUST_TOKEN_H
#define RS_TRUST_TOKEN_H

#include "common/base/buf.h"
#include "common/trust/identity.h"

enum { RS_TOKEN_ID_BYTES = 13, RS_TOKEN_MAX_BYTES = 128 };

/* What stands in identity.serial of who came with a token: this and its ID. */
extern const char rs_token_serial[]; /* "token-" */

struct rs_tokens;

/* The folder need not be there yet. RS_NOMEM, RS_INVALID: the path is too long. */
RS_MUST_CHECK enum rs_status rs_tokens_open(const char *dir, struct rs_tokens **tokens_p,
                                            struct rs_err *err);
void rs_tokens_close(struct rs_tokens **tokens_p);

/* What a token is to say; lent for the call. */
struct rs_token_wish {
    enum rs_party party; /* user, viewer, operator */
    const char *name;
    const char *run;  /* of this run alone; NULL: of all */
    rs_ns expires_at; /* Unix epoch */
};
/* Makes one and appends its text. RS_INVALID: the name, the party, the run, the time. RS_IO. */
RS_MUST_CHECK enum rs_status rs_tokens_make(struct rs_tokens *tokens,
                                            const struct rs_token_wish *wish, struct rs_buf *text,
                                            struct rs_err *err);

struct rs_token_item {
    char id[RS_TOKEN_ID_BYTES];
    enum rs_party party;
    char name[RS_IDENTITY_NAME_BYTES];
    char run[RS_IDENTITY_RUN_BYTES]; /* "": of all runs */
    rs_ns created_at, expires_at;    /* Unix epoch */
};
/* All of them, expired ones too, in the order of their IDs. */
RS_MUST_CHECK enum rs_status rs_tokens_list(struct rs_tokens *tokens,
                                            void (*visit)(void *self,
                                                          const struct rs_token_item *item),
                                            void *self, struct rs_err *err);
/* Removes the token of that ID, or all of PARTY/NAME. RS_NOTFOUND. */
RS_MUST_CHECK enum rs_status rs_tokens_revoke(struct rs_tokens *tokens, const char *word,
                                              size_t *count_p, struct rs_err *err);

/* Whose token the text is at `now` (Unix epoch). RS_REFUSED: nobody's, or it is over. Any thread. */
RS_MUST_CHECK enum rs_status rs_tokens_identify(struct rs_tokens *tokens, const char *text,
                                                rs_ns now, struct rs_identity *identity_p,
                                                struct rs_err *err);
/* Whether who came with a token is believed still: RS_REFUSED. Any thread. */
RS_MUST_CHECK enum rs_status rs_tokens_check(struct rs_tokens *tokens,
                                             const struct rs_identity *identity, rs_ns now,
                                             struct rs_err *err);

#endif
