/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of captures: the coordinator's words, written down in the store's rows.
 */
#ifndef RS_CLI_BOOK_H
#define RS_CLI_BOOK_H

#include "aggregator/gate/gate.h"

/* Keeps a pointer to the store. */
struct rs_gate_book rs_book_of(struct rs_store *store);

#endif
