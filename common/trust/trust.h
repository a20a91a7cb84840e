/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of certificates: who we are, whom we believe, and who is no longer believed.
 *
 *     DIR/ca.crt     the authority, and no other, signs whom we believe
 *     DIR/tls.crt    our certificate        } absent together for a party that has none yet
 *     DIR/tls.key    our key, mode 0600     }
 *     DIR/crl.pem    what the authority revoked; may be missing
 *
 * The names are those of Kubernetes' TLS secrets. The files are looked at again when one asks (rs_trust_refresh()), so that
 * a renewed certificate or a revocation counts without a restart; what cannot be read leaves what was read before.
 */
#ifndef RS_TRUST_TRUST_H
#define RS_TRUST_TRUST_H

#include "common/base/buf.h"
#include "common/trust/identity.h"

struct rs_trust;

/* Reads the folder. RS_NOTFOUND: one of the files is not there. RS_REFUSED: others may read the key, or it has expired.
 * RS_FORMAT: a file cannot be read, key and certificate do not belong together, or the authority did not sign it. */
RS_MUST_CHECK enum rs_status rs_trust_open(const char *dir, struct rs_trust **trust_p,
                                           struct rs_err *err);
/* Believes the authority in `ca` (PEM) and has no certificate: for joining. */
RS_MUST_CHECK enum rs_status rs_trust_of_authority(struct rs_view ca, struct rs_trust **trust_p,
                                                   struct rs_err *err);
void rs_trust_close(struct rs_trust **trust_p);

/* Looks whether a file changed and reads them again: the generation is then another. On failure the old ones count, and the
 * sentence says what is wrong with the new; said once for each change. Any thread. */
RS_MUST_CHECK enum rs_status rs_trust_refresh(struct rs_trust *trust, unsigned *generation_p,
                                              struct rs_err *err);

/* Copies, NUL behind each; certificate and key are empty for who has none. Any thread. */
struct rs_trust_texts {
    struct rs_buf ca, certificate, key;
};
RS_MUST_CHECK enum rs_status rs_trust_texts(struct rs_trust *trust, struct rs_trust_texts *texts_p,
                                            struct rs_err *err);
void rs_trust_texts_fini(struct rs_trust_texts *texts);

/* Our own identity; RS_PARTY_NOBODY without a certificate. */
struct rs_identity rs_trust_own(struct rs_trust *trust);

/* The identity of a certificate in PEM that the handshake took: as rs_identity_of_pem(), and RS_REFUSED when it is revoked,
 * by what was read last. Any thread. */
RS_MUST_CHECK enum rs_status rs_trust_identify(struct rs_trust *trust, struct rs_view pem,
                                               rs_ns now, struct rs_identity *identity_p,
                                               struct rs_err *err);
/* Whether an identity that was taken before still counts at `now` (Unix epoch), by what was read last: RS_REFUSED says why
 * not. Any thread; touches no disk. */
RS_MUST_CHECK enum rs_status rs_trust_check(struct rs_trust *trust,
                                            const struct rs_identity *identity, rs_ns now,
                                            struct rs_err *err);

#endif
