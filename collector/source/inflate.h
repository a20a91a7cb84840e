/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a trace file, plain, gzip, zstd, xz or bzip2, in blocks and bounded memory.
 *
 *   file --read(2)--> [in 256 KiB] --ISA-L--> caller's buffer           (gzip)
 *   file --read(2)--> [in 256 KiB] --unpack.h-> caller's buffer         (zstd, xz, bzip2)
 *   file --read(2)------------------------->  caller's buffer       (plain)
 *
 * Which of them is decided by the first bytes, never by the name. A gzip file may have several members (pigz,
 * concatenation); zeros behind the last are ignored. A member that is cut or damaged gives what
 * could be inflated before, then the end, with `problem` saying what and where.
 */
#ifndef RS_SOURCE_INFLATE_H
#define RS_SOURCE_INFLATE_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input_gzip;   /* ISA-L's state and the compressed block */
struct input_packed; /* another library's, the same */

struct input {
    int fd;
    int64_t file_bytes; /* size when opened */
    int64_t raw_bytes;  /* given to the caller so far */
    bool is_at_end;
    char problem[160];     /* "" or a sentence without the path: why the end came early */
    unsigned char head[6]; /* plain: the bytes looked at to tell the kind */
    size_t head_count;
    struct input_gzip *gzip;     /* NULL: not gzip */
    struct input_packed *packed; /* NULL: none of the others */
};

/* RS_NOTFOUND, RS_IO (also when it is no regular file), RS_NOMEM. */
RS_MUST_CHECK enum rs_status input_open(struct input *input, const char *path, struct rs_err *err);
void input_close(struct input *input); /* of a zeroed struct is allowed */

/* Up to `capacity` bytes; 0 at the end. RS_IO. */
RS_MUST_CHECK enum rs_status input_read(struct input *input, char *buffer, size_t capacity,
                                        size_t *count_p, struct rs_err *err);

#endif
