/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd, xz and bzip2 data, in blocks: what inflate.c hands to these libraries. gzip is ISA-L's business, there.
 *
 *     file --read(2)--> caller's block --unpack_some()--> caller's buffer
 *
 * Several frames, streams or members behind one another are one text, as the formats' own tools have it.
 */
#ifndef RS_SOURCE_UNPACK_H
#define RS_SOURCE_UNPACK_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unpack_kind { UNPACK_NONE, UNPACK_ZSTD, UNPACK_XZ, UNPACK_BZIP2 };
enum { UNPACK_MAGIC_BYTES = 6 };

/* By a file's first bytes. */
enum unpack_kind unpack_kind_of(const uint8_t *head, size_t count);
const char *unpack_name(enum unpack_kind kind); /* "zstd", "xz", "bzip2" */

struct unpack;

/* RS_NOMEM; the caller frees with unpack_free(). A window of more than 128 MiB is refused when it comes. */
RS_MUST_CHECK enum rs_status unpack_new(enum unpack_kind kind, struct unpack **unpack_p);
void unpack_free(struct unpack **unpack_p); /* of NULL is allowed */

struct unpack_io {
    const uint8_t *in;
    size_t in_count;
    uint8_t *out;
    size_t out_count;
    bool is_last; /* the file has no more than `in` */
};

/* Takes from `in`, writes to `out`, moves both. RS_OK; RS_FORMAT: damaged, or needs more memory than is allowed. */
RS_MUST_CHECK enum rs_status unpack_some(struct unpack *unpack, struct unpack_io *io);
/* Between two frames, or behind the last: the file may end here. */
bool unpack_may_end(const struct unpack *unpack);

#endif
