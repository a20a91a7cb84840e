/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of trust: what its files share about OpenSSL.
 */
#ifndef RS_TRUST_PRIV_H
#define RS_TRUST_PRIV_H

#include "common/trust/identity.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

enum { TRUST_FILE_MAX_BYTES = 256 * 1024, TRUST_PATH_BYTES = 1200 };

/* NULL: it cannot be read. */
X509 *trust_certificate(struct rs_view pem);
/* As rs_identity_of_pem(). */
RS_MUST_CHECK enum rs_status trust_identity(const X509 *certificate, rs_ns now,
                                            struct rs_identity *identity_p, struct rs_err *err);
bool trust_serial(const X509 *certificate, char serial_p[RS_IDENTITY_SERIAL_BYTES]);
/* Unix epoch. */
bool trust_time(const ASN1_TIME *time, rs_ns *ns_p);
/* A pem_password_cb: a daemon has nobody to ask, so a key with a password cannot be read. */
int trust_no_password(char *buf, int size, int rwflag, void *u);
/* OpenSSL's queue of errors belongs to the thread; what stays in it is found by whoever looks next. */
void trust_clear_errors(void);
/* When root makes a file or folder in a folder of somebody else's, it becomes that one's: an aggregator that runs as a user of its
 * own must be able to read what `certs` of root wrote. */
void trust_follow_owner(const char *path, const char *dir);
/* The last of OpenSSL's reasons, for people; clears the queue. Lent, constant. */
const char *trust_last_error(void);

/* The lock of an authority's folder, held until the descriptor is closed; -1 with the sentence. */
int trust_lock(const char *dir, struct rs_err *err);

#endif
