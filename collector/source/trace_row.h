/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a file of the Trace Event Format, for readers of other dialects than Kineto's.
 *
 * Kineto's own reader emits its rows itself (kineto.h). Ascend's trace_view.json has the same rows without a document
 * around them and other meanings: its reader takes each row as parsed text, through kineto_rows().
 * Every place in a row is inside the reader's window and valid until the take function returns; behind the window lie
 * zero bytes, so the text functions below may be called on any of them.
 */
#ifndef RS_SOURCE_TRACE_ROW_H
#define RS_SOURCE_TRACE_ROW_H

#include "collector/source/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KINETO_OTHERS_MAX = 16, /* members of a row that have no place in struct kineto_row */
};

/* pid or tid of a row that has none. */
#define KINETO_NO_ID INT64_MIN

struct kineto_span {
    const char *text; /* NULL: not there */
    size_t length;
};

/* A decimal number as written. */
struct kineto_decimal {
    int64_t whole;       /* INT64_MAX when it overflows */
    int32_t thousandths; /* first three decimals, not rounded */
    bool is_negative;
    bool has_fraction;
    bool is_exact; /* the three members above say it all, in canonical form */
};

struct kineto_category {
    struct kineto_span text; /* in the string table: stays where it is */
    rs_str id;
    uint8_t kind;   /* of its X rows */
    bool is_wanted; /* X rows are emitted without RS_SOURCE_LOSSLESS */
};

struct kineto_id {
    int64_t value;           /* KINETO_NO_ID: not there */
    struct kineto_span text; /* written as a string: its text */
    bool has_escape;
};

struct kineto_row {
    const char *begin; /* at its '{' */
    const char *end;   /* behind its '}' */
    char phase;        /* 0: not there */
    bool has_name, name_has_escape;
    bool is_odd;       /* something needs its text in `extra` to survive */
    bool has_finished; /* `finished` may stand in the arguments */
    bool
        has_marks; /* the reader knows where quotes are in the arguments, until it parses another row */
    bool has_time, has_duration;
    bool is_unwanted; /* the reader at work has no use for a row of this phase and category */
    const struct kineto_category *category; /* NULL: not there */
    struct kineto_span name;
    struct kineto_id pid, tid;
    struct kineto_decimal time, duration;
    struct kineto_span time_text, duration_text;
    struct kineto_span id;   /* of a flow: value as written */
    struct kineto_span args; /* between the braces */
    size_t other_count;
    struct kineto_span others[KINETO_OTHERS_MAX]; /* "key": value as written */
};

/* A row for somebody else than the batch. Places in it are valid until the function returns. */
typedef enum rs_status kineto_take_fn(void *self, const struct kineto_row *row, struct rs_err *err);

/* kineto.c: the rows of a file of the same family (trace_view.json: an array without a document around it), each to
 * `take`. Their categories are added to the stream's strings; stream->info counts them. RS_OK; RS_PARTIAL: cut or
 * damaged, the sentence says where; else as rs_kineto_read(). */
RS_MUST_CHECK enum rs_status kineto_rows(const char *path, struct rs_source_stream *stream,
                                         kineto_take_fn *take, void *self, struct rs_err *err);

/* All take text that ends with a zero byte at or behind `end`. */
/* The number at `text`, perhaps in quotes; where it ends, or NULL when there is none (*decimal says nothing then). */
const char *text_decimal(const char *text, struct kineto_decimal *decimal);
/* An integer that is the whole of the span, perhaps in quotes. */
bool text_integer(struct kineto_span span, int64_t *value_p);
/* The same without quotes, and written as printf("%lld") would: it survives as a number. */
bool text_plain_integer(struct kineto_span span, int64_t *value_p);
bool text_plain_unsigned(struct kineto_span span, uint64_t *value_p);
/* Behind the value at `text`; NULL when it has no end before `end`. */
const char *text_value_end(const char *text, const char *end);
bool span_is(struct kineto_span span, const char *text);

#endif
