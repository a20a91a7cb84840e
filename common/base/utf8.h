/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Well-formed UTF-8 (RFC 3629), for text that comes from strangers. Any thread.
 */
#ifndef RS_COMMON_BASE_UTF8_H
#define RS_COMMON_BASE_UTF8_H

#include "common/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed sequence at `p` (1..4), 0 when it is none: no overlong forms, no surrogates, nothing
 * past U+10FFFF. `left` is at least 1. */
size_t rs_utf8_length(const unsigned char *p, size_t left);
/* How many bytes from the start are well-formed; `length`: all. */
size_t rs_utf8_valid(const char *text, size_t length);
/* `text` when it is well-formed; else a copy in `scratch`, which is emptied first, with each byte that is not part of
 * a sequence spelt "\xHH". *length_p is that of the result. Out of memory: scratch->failed, and the part that is
 * well-formed. The copy lends until scratch changes. */
const char *rs_utf8_clean(const char *text, size_t length, struct rs_buf *scratch,
                          size_t *length_p);

/* The character of a sequence that rs_utf8_length() found. */
uint32_t rs_utf8_char(const unsigned char *p, size_t length);
/* Does this character steer a terminal (C0 with newline and tab, DEL, C1) or turn the order of the text that follows
 * (bidirectional controls)? */
bool rs_utf8_is_control(uint32_t character);
/* Replaces what must not reach a terminal or a log by '?', one for each byte: controls, and bytes that are not UTF-8. */
void rs_utf8_plain(char *text);
/* Appends the text with controls, but those in `keep`, as \u001b, and "\xHH" for bytes that are not UTF-8. */
void rs_utf8_escape(struct rs_buf *buf, const char *text, size_t length, const char *keep);

#endif
