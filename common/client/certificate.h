/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate asked for over the link: the first one with an invite, the next one with the one that ends soon.
 *
 * The key is made here and stays here; a request for it goes out, a certificate comes back, and the folder of certificates
 * (common/trust/trust.h) is written anew. Links that are there go on, the next one shows the new certificate.
 */
#ifndef RS_CLIENT_CERTIFICATE_H
#define RS_CLIENT_CERTIFICATE_H

#include "common/client/client.h"
#include "common/trust/invite.h"

enum { RS_CLIENT_HOST_PORT_BYTES = 192 };

/* Joins as the node of that name at `address` (HOST:PORT of `aggregator --join`) and writes `dir`. *connect_p is where to send
 * to: the host of the address with the port that it told; empty when it told none. RS_REFUSED: the invite is used, over, for another
 * name, or who answers is not of its authority. RS_UNREACHABLE and others as rs_client_ask_within(). */
RS_MUST_CHECK enum rs_status rs_client_join(const char *address, const struct rs_invite *invite,
                                            const char *name, const char *dir,
                                            const struct rs_client_patience *patience,
                                            char connect_p[RS_CLIENT_HOST_PORT_BYTES],
                                            struct rs_err *err);

/* Has the certificate in address->certs renewed by the aggregator there. RS_REFUSED: it has no authority. */
RS_MUST_CHECK enum rs_status rs_client_renew(const struct rs_address *address,
                                             const struct rs_client_patience *patience,
                                             struct rs_err *err);

/* When a certificate should be renewed: with a third of its time left (Unix epoch). */
rs_ns rs_client_renew_at(const struct rs_identity *identity);

#endif
