/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of a link, as its certificate says.
 *
 * A certificate of Rankscope names its party in one URI among its subject alternative names:
 *
 *     spiffe://rankscope/node/gpu-017        a collector, for the host of that name
 *     spiffe://rankscope/operator/alice      may capture, stop, fetch, ask for hangs; and read
 *     spiffe://rankscope/viewer/bob          may read
 *     spiffe://rankscope/user/carol          may capture, stop and read what is of her own processes
 *     spiffe://rankscope/aggregator/main     the service itself
 *
 * rs_identity_of_pem() is the one function that maps a certificate to an identity, for every protocol. That the chain leads
 * to our authority was proven by the handshake; here the time, the name and the revocations are looked at.
 */
#ifndef RS_TRUST_IDENTITY_H
#define RS_TRUST_IDENTITY_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/base/view.h"

#include <stdbool.h>
#include <stdint.h>

enum rs_party {
    RS_PARTY_NOBODY, /* nothing is known: may do nothing */
    RS_PARTY_GUEST,  /* came without a certificate where that is allowed: may ask for one */
    RS_PARTY_LOCAL, /* of this machine: root, the service's own user, or guarded by nothing (--insecure-loopback) */
    RS_PARTY_NODE,       /* a collector */
    RS_PARTY_USER,       /* may do with runs of its own name what an operator may with all */
    RS_PARTY_VIEWER,     /* may read */
    RS_PARTY_OPERATOR,   /* may capture, stop and read */
    RS_PARTY_AGGREGATOR, /* the service itself */
    RS_PARTY_COUNT
};

enum {
    RS_IDENTITY_NAME_BYTES = 64,
    RS_IDENTITY_SERIAL_BYTES = 41, /* hex of 20 bytes */
    RS_IDENTITY_TEXT_BYTES = 80,   /* "operator/NAME" */
    RS_IDENTITY_RUN_BYTES = 128,
};

struct rs_identity {
    enum rs_party party;
    char name
        [RS_IDENTITY_NAME_BYTES]; /* letters, digits, ".", "_", "-"; empty without a certificate */
    char serial
        [RS_IDENTITY_SERIAL_BYTES]; /* lower-case hex, or "token-ID" (token.h); empty: neither */
    rs_ns begins_at, expires_at;    /* Unix epoch; 0 without either */
    bool has_uid;                   /* it came over a unix socket: the kernel says who it is */
    uint32_t uid;
    char run[RS_IDENTITY_RUN_BYTES]; /* what it may do, it may with this run alone; "": with all */
};

/* "node", "operator", ...; never NULL. */
const char *rs_party_name(enum rs_party party);
/* Of a party that a certificate can be issued for. RS_INVALID names them. */
RS_MUST_CHECK enum rs_status rs_party_parse(const char *text, enum rs_party *party_p,
                                            struct rs_err *err);
/* Whether the text can be the name of a party: 1 to 63 letters, digits, ".", "_", "-", and no "." in front. */
bool rs_identity_is_name(const char *name);
/* "operator/alice"; "local" and the like without a certificate. */
void rs_identity_text(const struct rs_identity *identity, char text_p[RS_IDENTITY_TEXT_BYTES]);

/* Whether two links are of the same party: the same name, whichever certificate of it they showed. */
bool rs_identity_is_same(const struct rs_identity *one, const struct rs_identity *other);
/* Whether what it sees and captures ends at what is of its own name. */
bool rs_identity_is_user(const struct rs_identity *identity);
/* Whether what it may do ends at one run, and whether a run is that one; true of all runs for who is not so bound. */
bool rs_identity_is_of_one_run(const struct rs_identity *identity);
bool rs_identity_is_of_run(const struct rs_identity *identity, const char *run);
/* Whether it may change something (capture, stop, fetch, ask ranks), and whether it may read what was captured. */
bool rs_identity_may_operate(const struct rs_identity *identity);
bool rs_identity_may_read(const struct rs_identity *identity);

/* Of a certificate in PEM. RS_FORMAT: it cannot be read. RS_REFUSED: it names no party of ours, or is not valid at `now`
 * (Unix epoch). Revocations are rs_trust_identify()'s part. Any thread. */
RS_MUST_CHECK enum rs_status rs_identity_of_pem(struct rs_view pem, rs_ns now,
                                                struct rs_identity *identity_p, struct rs_err *err);

#endif
