/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pull reader of JSON in memory: one token at a time, no tree, no allocation per token.
 *
 *     while ((status = rs_vjson_next(&json, err)) == RS_OK)
 *         switch (json.token) ...
 *
 * Strict (RFC 8259, UTF-8): what a lenient reader would let pass is RS_FORMAT with the place. The
 * grammar is checked as the tokens go by, so a document is known to be whole only when
 * RS_VJSON_END came. Depth is bounded. A string lends the document's bytes, or, where it held
 * escapes, the reader's own until the next token. Escaped NUL is refused.
 *
 * One thread at a time.
 */
#ifndef RS_ASCEND_FORMAT_JSON_H
#define RS_ASCEND_FORMAT_JSON_H

#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RS_VJSON_DEPTH_MAX = 64 };

enum rs_vjson_token {
    RS_VJSON_OBJECT,     /* { */
    RS_VJSON_OBJECT_END, /* } */
    RS_VJSON_ARRAY,
    RS_VJSON_ARRAY_END,
    RS_VJSON_KEY, /* text, length; its value is the next token */
    RS_VJSON_STRING,
    RS_VJSON_NUMBER, /* text, length: as it stands, for rs_ascend_num_parse() */
    RS_VJSON_TRUE,
    RS_VJSON_FALSE,
    RS_VJSON_NULL,
    RS_VJSON_END, /* the document was whole and nothing but white space follows */
};

struct rs_vjson {
    const char *start, *at, *end;
    const char *name; /* of the document, for sentences; keeps a pointer to it */
    enum rs_vjson_token token;
    const char *text; /* KEY, STRING, NUMBER: lends until the next token */
    size_t length;
    unsigned depth;
    bool in_object[RS_VJSON_DEPTH_MAX];
    uint8_t expects; /* enum in json.c */
    struct rs_buf scratch;
};

/* Keeps pointers to `data` and `name`. */
void rs_vjson_init(struct rs_vjson *json, const void *data, size_t length, const char *name);
void rs_vjson_fini(struct rs_vjson *json);

/* RS_FORMAT: not JSON from here on; RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_vjson_next(struct rs_vjson *json, struct rs_err *err);

/* Just after KEY, or where a value was just begun (token is OBJECT or ARRAY): to its end. */
RS_MUST_CHECK enum rs_status rs_vjson_skip(struct rs_vjson *json, struct rs_err *err);

/* The next token must be this one; else RS_FORMAT, saying what stands there. */
RS_MUST_CHECK enum rs_status rs_vjson_want(struct rs_vjson *json, enum rs_vjson_token token,
                                           struct rs_err *err);

/* RS_FORMAT with the document's name and the byte. */
enum rs_status rs_vjson_fail(const struct rs_vjson *json, const char *what, struct rs_err *err);

bool rs_vjson_is(const struct rs_vjson *json, const char *text);

#endif
