/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The authority: the folder whose key signs all certificates of one installation.
 *
 *     DIR/ca.key        its key (P-256), mode 0600: whoever has it is everybody
 *     DIR/ca.crt        its certificate, valid for ten years
 *     DIR/crl.pem       what it revoked, by serial number
 *     DIR/issued/       one file a certificate that it signed, SERIAL.crt
 *     DIR/invites/      one file an invite that is open, DIGEST of its secret (invite.h)
 *     DIR/lock          held while something is changed
 *
 * Keys of others are never here: they are made where they are used, and come as requests (PKCS#10). The exception is
 * `certs issue`, where the person who runs it makes a folder to carry away.
 */
#ifndef RS_TRUST_AUTHORITY_H
#define RS_TRUST_AUTHORITY_H

#include "common/base/buf.h"
#include "common/trust/identity.h"

enum { RS_AUTHORITY_HOSTS_MAX = 32 };
/* Certificates begin so long before they are made: clocks of hosts differ. */
#define RS_AUTHORITY_EARLY_NS (300 * (rs_dur)RS_NS_PER_S)
/* How long a certificate may be valid, from when it is made. */
#define RS_AUTHORITY_VALID_MAX_NS ((rs_dur)825 * 86400 * RS_NS_PER_S)

/* What a certificate is to say. */
struct rs_certificate_wish {
    enum rs_party party;
    const char *name; /* rs_identity_is_name() */
    const char *const *
        hosts; /* names and addresses under which an aggregator is reached, or a node's /metrics; none for others */
    size_t host_count;
    rs_dur valid_ns; /* from now on; 1 s to RS_AUTHORITY_VALID_MAX_NS */
};

struct rs_authority;

/* Makes a new one. RS_EXISTS: there is one. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_authority_create(const char *dir, struct rs_err *err);
/* RS_NOTFOUND: there is none. RS_REFUSED: others may read its key. RS_FORMAT. One thread at a time. */
RS_MUST_CHECK enum rs_status rs_authority_open(const char *dir, struct rs_authority **authority_p,
                                               struct rs_err *err);
void rs_authority_close(struct rs_authority **authority_p);

/* Makes a key and a certificate in `out_dir` (made with mode 0700), as rs_trust_open() reads them. RS_EXISTS: there is a
 * certificate and not `replace`. RS_INVALID: the wish. */
RS_MUST_CHECK enum rs_status rs_authority_issue(struct rs_authority *authority,
                                                const struct rs_certificate_wish *wish,
                                                const char *out_dir, bool replace,
                                                struct rs_identity *identity_p, struct rs_err *err);
/* Signs the key of a request (PEM) from outside; nothing else of it counts. Appends the certificate (PEM) to `certificate`.
 * RS_FORMAT: it cannot be read, is not signed by its own key, or that is neither P-256, P-384 nor Ed25519. */
RS_MUST_CHECK enum rs_status rs_authority_sign(struct rs_authority *authority,
                                               const struct rs_certificate_wish *wish,
                                               struct rs_view request, struct rs_buf *certificate,
                                               struct rs_err *err);

/* Revokes a certificate that it issued. RS_NOTFOUND; RS_EXISTS: it is revoked already. Copy crl.pem to where it counts. */
RS_MUST_CHECK enum rs_status rs_authority_revoke(struct rs_authority *authority, const char *serial,
                                                 struct rs_err *err);

/* Every certificate that was issued, in no order. */
struct rs_authority_item {
    struct rs_identity identity;
    rs_ns begins_at;
    bool is_revoked;
};
typedef void rs_authority_item_fn(void *self, const struct rs_authority_item *item);
RS_MUST_CHECK enum rs_status rs_authority_list(struct rs_authority *authority,
                                               rs_authority_item_fn *each, void *self,
                                               struct rs_err *err);

/* Lent. */
/* Under which an aggregator of this machine is reached without anybody naming it: localhost, its addresses, the host's name, for which `own`
 * is room. How many. */
size_t rs_authority_own_hosts(const char *hosts[RS_AUTHORITY_HOSTS_MAX], char own[256]);
/* For how long a certificate of that party counts when nobody says it. */
rs_dur rs_authority_usual_ns(enum rs_party party);

/* Ends all that count of "PARTY/NAME", or the one of a serial number; `each` gets the serial number of each that is ended. RS_NOTFOUND: there is
 * none. */
RS_MUST_CHECK enum rs_status
rs_authority_revoke_named(struct rs_authority *authority, const char *wanted,
                          void (*each)(void *self, const char *wanted, const char *serial),
                          void *self, struct rs_err *err);

struct rs_view rs_authority_ca(const struct rs_authority *authority);
const char *rs_authority_dir(const struct rs_authority *authority);
/* Appends crl.pem as it is now. */
RS_MUST_CHECK enum rs_status rs_authority_revocations(const struct rs_authority *authority,
                                                      struct rs_buf *pem, struct rs_err *err);

/* ---- the other side: who wants a certificate ------------------------------------------------------------------------ */

/* A fresh key (P-256) and a request for it, both PEM, appended. The key never leaves this machine. */
RS_MUST_CHECK enum rs_status rs_request_make(struct rs_buf *key, struct rs_buf *request,
                                             struct rs_err *err);
/* Writes the four files of a folder of certificates (trust.h), mode 0600 and 0700; `revoked` may be empty. The certificate
 * goes last: whoever looks meanwhile keeps the old pair. */
RS_MUST_CHECK enum rs_status rs_trust_folder_write(const char *dir, struct rs_view ca,
                                                   struct rs_view certificate, struct rs_view key,
                                                   struct rs_view revoked, struct rs_err *err);
/* Replaces the list of revocations in such a folder. */
RS_MUST_CHECK enum rs_status rs_trust_revocations_write(const char *dir, struct rs_view revoked,
                                                        struct rs_err *err);

#endif
