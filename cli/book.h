/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of captures: the coordinator's words, written down in the store's rows.
 */
#ifndef RS_CLI_BOOK_H
#define RS_CLI_BOOK_H

#include "aggregator/gate/gate.h"
#include "cli/learn.h"

struct rs_book {
    struct rs_store *store;
    struct rs_learn *learn; /* NULL: roles are not learned from captures */
};

/* Keeps a pointer to the book. */
struct rs_gate_book rs_book_of(struct rs_book *book);
/* Learns from the captures that are there. RS_IO. */
RS_MUST_CHECK enum rs_status rs_book_learn(struct rs_book *book, struct rs_err *err);

#endif
