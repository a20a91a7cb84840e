/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A streaming JSON writer: documents of any size from a fixed stack, no tree.
 *
 * Writes into a buffer; the caller drains it to a file when it likes. Commas and quotes are the
 * writer's; misuse (a value where a key belongs) is a bug and checked. Strings are
 * escaped; bytes that are not UTF-8 become U+FFFD, so the output is always valid JSON.
 * With `indent_count` > 0 every member stands on its own line.
 */
#ifndef RS_BASE_JSON_OUT_H
#define RS_BASE_JSON_OUT_H

#include "common/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { RS_JSON_OUT_DEPTH = 32 };

struct rs_json_out {
    struct rs_buf *buf; /* keeps a pointer to it */
    unsigned indent_count;
    unsigned depth;
    bool in_object[RS_JSON_OUT_DEPTH];
    bool has_members[RS_JSON_OUT_DEPTH];
    bool has_key; /* a key was written, its value was not */
};

void rs_json_out_init(struct rs_json_out *json, struct rs_buf *buf, unsigned indent_count);

void rs_json_out_object(struct rs_json_out *json);
void rs_json_out_array(struct rs_json_out *json);
void rs_json_out_end(struct rs_json_out *json); /* of the innermost object or array */

void rs_json_out_key(struct rs_json_out *json, const char *key);
void rs_json_out_key_bytes(struct rs_json_out *json, const char *key, size_t length);
void rs_json_out_string(struct rs_json_out *json, const char *text);
void rs_json_out_bytes(struct rs_json_out *json, const char *text, size_t length);
void rs_json_out_int(struct rs_json_out *json, int64_t value);
void rs_json_out_uint(struct rs_json_out *json, uint64_t value);
void rs_json_out_bool(struct rs_json_out *json, bool value);
void rs_json_out_null(struct rs_json_out *json);
/* The shortest digits that read back as the same double; a number that JSON has no word for
 * becomes null. */
void rs_json_out_double(struct rs_json_out *json, double value);
/* A number already printed by the caller (for instance ns as us with three decimals). */
void rs_json_out_number(struct rs_json_out *json, const char *digits);

/* A member, its key and its value. */
void rs_json_put_string(struct rs_json_out *json, const char *key, const char *text);
void rs_json_put_int(struct rs_json_out *json, const char *key, int64_t value);
void rs_json_put_uint(struct rs_json_out *json, const char *key, uint64_t value);
void rs_json_put_bool(struct rs_json_out *json, const char *key, bool value);
void rs_json_put_null(struct rs_json_out *json, const char *key);
/* null for NULL and "", or for what is not known. */
void rs_json_put_text(struct rs_json_out *json, const char *key, const char *text);
void rs_json_put_known(struct rs_json_out *json, const char *key, int64_t value, bool is_known);
/* Begins one that ends with rs_json_out_end(). */
void rs_json_put_object(struct rs_json_out *json, const char *key);
void rs_json_put_array(struct rs_json_out *json, const char *key);

#endif
