/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture's Ascend ranks as folders again: the vendor's documents that travelled with their events.
 */
#ifndef RS_ASCEND_VERBS_DOCUMENTS_H
#define RS_ASCEND_VERBS_DOCUMENTS_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct rs_documents_result {
    size_t ranks; /* streams that brought documents */
    size_t
        others; /* streams that brought none: not of an Ascend profiler, or from an older collector */
    bool is_partial; /* something of a stream is missing or damaged; told on stderr */
};

/* Writes DIR/FOLDER/... for each stream. RS_NOTFOUND, RS_IO, RS_NOMEM: nothing can be said of the capture. */
RS_MUST_CHECK enum rs_status rs_documents_restore(const char *verb, const char *capture,
                                                  const char *dir,
                                                  struct rs_documents_result *result_p,
                                                  struct rs_err *err);

#endif
