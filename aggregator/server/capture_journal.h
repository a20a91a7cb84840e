/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of captures: the coordinator's captures, written down as the store's rows.
 */
#ifndef RS_SERVER_CAPTURE_JOURNAL_H
#define RS_SERVER_CAPTURE_JOURNAL_H

#include "aggregator/server/infer_roles.h"
#include "aggregator/server/server.h"

/* In a capture's folder: the id of the aggregator that took it over from this one. */
#define RS_CAPTURE_GIVEN_UP_NAME "given-up"

struct rs_capture_journal {
    struct rs_store *store;
    struct rs_infer_roles *infer; /* NULL: roles are not inferred from captures */
};

/* Keeps a pointer to the journal. */
struct rs_server_journal rs_capture_journal_interface(struct rs_capture_journal *journal);
/* Infers roles from the captures that are there. RS_IO. */
RS_MUST_CHECK enum rs_status rs_capture_journal_infer_roles(struct rs_capture_journal *journal,
                                                            struct rs_err *err);

#endif
