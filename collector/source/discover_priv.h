/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What discovery's two files share: discover.c finds inputs, discover_rank.c says whose they are.
 */
#ifndef RS_SOURCE_DISCOVER_PRIV_H
#define RS_SOURCE_DISCOVER_PRIV_H

#include "collector/source/discover.h"

#include <sys/stat.h>

/* Adds a sentence to inputs->told. */
RS_MUST_CHECK enum rs_status inputs_tell(struct rs_inputs *inputs, const char *format, ...)
    RS_PRINTF(2, 3);
/* Sets state and reason (replacing an older one). */
RS_MUST_CHECK enum rs_status input_set(struct rs_input *input, enum rs_input_state state,
                                       const char *format, ...) RS_PRINTF(3, 4);

/* discover_vendor.c: is this folder, or file, part of a result directory of an Ascend profiler? Then it is kept for
 * inputs_add_vendors(). */
RS_MUST_CHECK enum rs_status inputs_note_vendor(struct rs_inputs *inputs, const char *path,
                                                const struct stat *about, bool *is_vendor_p);
/* The ranks in what was noted, as inputs. */
RS_MUST_CHECK enum rs_status inputs_add_vendors(struct rs_inputs *inputs, struct rs_err *err);

/* Reads the rank map and settles the inputs it names. RS_INVALID, RS_IO, RS_NOTFOUND, RS_NOMEM. */
RS_MUST_CHECK enum rs_status inputs_apply_map(struct rs_inputs *inputs, const char *map_path,
                                              struct rs_err *err);

#endif
