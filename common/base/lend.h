/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf-c's messages hold `char *` for texts that packing only reads. A message that is filled to be packed points into what it tells
 * of, without a copy; one that was unpacked owns its texts and has none of these.
 */
#ifndef RS_COMMON_BASE_LEND_H
#define RS_COMMON_BASE_LEND_H

/* The text, for a message that is only packed. NULL stays NULL. */
static inline char *rs_lend(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

#endif
