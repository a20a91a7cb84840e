/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files that another program watches: they appear whole, and each version is newer than the last.
 *
 * A watcher that compares times of modification in whole seconds misses a second version within the same second, and
 * one that opens a half-written file acts on half of it. So: a temporary file in the same folder, fsync, an explicit
 * time, rename(2).
 */
#ifndef RS_BASE_REPLACE_H
#define RS_BASE_REPLACE_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stddef.h>

/* Creates `path`; it appears whole. RS_EXISTS: something of that name is there (nothing is changed). RS_IO. */
RS_MUST_CHECK enum rs_status rs_file_create(const char *path, const void *data, size_t length,
                                            struct rs_err *err);

/* Replaces `path`, or creates it. Its time becomes now, or the whole second after the old file's when that is not
 * before now's second; *mtime_p (may be NULL) says which. Mode is the old file's, and its owner where we may. RS_REFUSED: `path` is a
 * link, or no regular file. RS_IO. */
RS_MUST_CHECK enum rs_status rs_file_replace_newer(const char *path, const void *data,
                                                   size_t length, rs_ns *mtime_p,
                                                   struct rs_err *err);

#endif
