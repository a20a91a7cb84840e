/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What discovery's two files share: discover.c finds inputs, discover_rank.c says whose they are.
 */
#ifndef RS_SOURCE_DISCOVER_PRIV_H
#define RS_SOURCE_DISCOVER_PRIV_H

#include "collector/source/discover.h"

/* discover_foreign.c: what kind of recording this is, of those that are known and not read ("a memory timeline of PyTorch"); NULL: none
 * of them. `text`: the first bytes of the file, behind blanks. */
const char *foreign_profile(const char *text, size_t length);

/* Reads the rank map and settles the inputs it names. RS_INVALID, RS_IO, RS_NOTFOUND, RS_NOMEM. */
RS_MUST_CHECK enum rs_status inputs_apply_map(struct rs_inputs *inputs, const char *map_path,
                                              struct rs_err *err);

#endif
