/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of the Kineto reader: what its files share.
 *
 *   kineto.c         the window over the file, the document's members, the loop over rows
 *   kineto_row.c     text of one row  -> struct kineto_row (places in the window, nothing copied)
 *   kineto_pour.c    struct kineto_row -> a row of the batch: kind, lane, times, name
 *   kineto_args.c    arguments        -> columns, or the `extra` column
 *   kineto_resync.c  a row that is no JSON: where does the next one begin, what can be saved
 *   kineto_top.c     members beside the rows: time base, distributedInfo, host, metadata
 *   kineto_text.c    numbers, escapes, values to be passed over
 *
 * Every pointer into the window is valid until the window moves (window_more()), which
 * happens between rows only: a row that is cut by the window's end is parsed again from its start.
 * Behind the window lie SCAN_PADDING zero bytes, so an expected character never matches there: the parsers
 * compare first and ask "was that the end?" only when a comparison failed.
 */
#ifndef RS_SOURCE_KINETO_PRIV_H
#define RS_SOURCE_KINETO_PRIV_H

#include "collector/source/inflate.h"
#include "collector/source/kineto.h"
#include "collector/source/scan.h"
#include "common/base/buf.h"

enum {
    KINETO_WINDOW_BYTES = 256 * 1024,
    KINETO_ROW_MAX_BYTES = 4 * 1024 * 1024,     /* a longer row is dropped and counted */
    KINETO_MEMBER_MAX_BYTES = 32 * 1024 * 1024, /* a longer top-level member ends the reading */
    KINETO_BATCH_ROWS = 4096,
    KINETO_BAD_ROWS_TRUSTED = 16,        /* so many bad rows, and a row without an end in */
    KINETO_SUSPICIOUS_BYTES = 16 * 1024, /* so many bytes is taken for bad at once */
    KINETO_OTHERS_MAX = 16, /* members of a row that have no place in struct kineto_row */
    KINETO_CATEGORIES = 64, /* slots for categories of one file; more are interned each time */
    KINETO_NAME_CACHE = 512,
    KINETO_LANE_CACHE = 64,
};

/* pid or tid of a row that has none. */
#define KINETO_NO_ID INT64_MIN

struct kineto_span {
    const char *text; /* NULL: not there */
    size_t length;
};

enum kineto_parse { PARSE_OK, PARSE_SKIP, PARSE_MORE, PARSE_BAD };

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
    bool is_wanted; /* X rows are poured without RS_SOURCE_LOSSLESS */
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
    bool has_time, has_duration;
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

struct kineto_name_slot {
    const char *text; /* in the string table */
    uint32_t length;
    rs_str id;
};

struct kineto_lane_slot {
    bool is_used;
    uint8_t kind;
    int64_t process, thread;
    uint32_t index;
};

/* A row for somebody else than the batch. Places in it are valid until the function returns. */
typedef enum rs_status kineto_take_fn(void *self, const struct kineto_row *row, struct rs_err *err);

struct kineto {
    const char *path;
    kineto_take_fn *take; /* NULL: rows are poured as Kineto's */
    void *take_self;
    bool is_lossless;
    struct rs_source_stream *stream;
    struct rs_sink sink;
    scan_close_fn *close;

    struct input input;
    char *window; /* capacity + SCAN_PADDING bytes */
    size_t capacity;
    const char *at;        /* where reading stands, inside the window */
    const char *end;       /* of the bytes in the window */
    const char *limit;     /* how far a row's end is looked for; at most `end` */
    int64_t window_offset; /* of window[0] in the (inflated) text */

    struct rs_batch batch;
    struct rs_buf scratch;  /* decoded strings */
    struct rs_buf metadata; /* lossless: top-level members as JSON text */
    struct kineto_category categories[KINETO_CATEGORIES];
    size_t category_count;
    struct kineto_category spare_category; /* when the table is full */
    struct kineto_name_slot names[KINETO_NAME_CACHE];
    struct kineto_lane_slot lanes[KINETO_LANE_CACHE];

    bool has_rows_member;  /* traceEvents was found */
    bool is_behind_rows;   /* and its array ended */
    bool is_closed;        /* the document's last brace was found */
    bool looks_like_trace; /* a member only traces have was found */
    bool is_suspicious;    /* too many rows were bad */
    bool is_unit_known, is_unit_ns;
    bool has_fraction;
    bool has_old_names; /* categories of before 2022 */
    bool has_base, is_base_at_tail;
    int64_t base_ns;
    rs_ns latest;          /* latest start of any row */
    int64_t rows_repaired; /* read in spite of unescaped quotes */
    int64_t rows_bad, rows_long, rows_timeless;
    int64_t members_bad;
    int64_t first_bad_offset;
};

/* kineto.c */
RS_MUST_CHECK enum rs_status window_more(struct kineto *kineto, size_t limit_bytes, bool *grew_p,
                                         struct rs_err *err);
int64_t window_offset_of(const struct kineto *kineto, const char *place);

/* kineto.c: the rows of a file of the same family (trace_view.json: an array without a document around it), each to
 * `take`. Their categories are added to the stream's strings; stream->info counts them. RS_OK; RS_PARTIAL: cut or
 * damaged, the sentence says where; else as rs_kineto_read(). */
RS_MUST_CHECK enum rs_status kineto_rows(const char *path, struct rs_source_stream *stream,
                                         kineto_take_fn *take, void *self, struct rs_err *err);

/* kineto_row.c: the row at its '{'. PARSE_SKIP: whole, and not wanted; row->phase and end are set. */
enum kineto_parse kineto_row_parse(struct kineto *kineto, const char *text, struct kineto_row *row);

/* kineto_resync.c */
/* The text of a bad row is [text, *row_end_p); the next thing in the array (row or ']') is at *next_p.
 * PARSE_MORE: not in the window; text before *next_p cannot hold the place and may be forgotten. */
enum kineto_parse kineto_resync(const struct kineto *kineto, const char *text,
                                const char **row_end_p, const char **next_p);
/* Reads a bad row whose extent is known, taking quotes inside strings as they come. PARSE_OK or PARSE_BAD. */
enum kineto_parse kineto_row_salvage(struct kineto *kineto, const char *text, const char *row_end,
                                     struct kineto_row *row);
/* The closing quote of a string that may hold unescaped quotes: the first that is followed by what follows a value. NULL: none. */
const char *kineto_loose_string_end(const char *text, const char *end);

/* kineto_pour.c */
RS_MUST_CHECK enum rs_status kineto_pour(struct kineto *kineto, const struct kineto_row *row,
                                         struct rs_err *err);
RS_MUST_CHECK enum rs_status kineto_pour_flush(struct kineto *kineto, struct rs_err *err);
/* The category of this text, known from now on. NULL: no memory. */
const struct kineto_category *kineto_category_of(struct kineto *kineto, const char *text,
                                                 size_t length);
/* Interns a string's text (between its quotes), decoding escapes. */
RS_MUST_CHECK enum rs_status kineto_intern(struct kineto *kineto, struct kineto_span text,
                                           bool has_escape, rs_str *id_p);

/* kineto_args.c: the arguments of batch row `at`. */
RS_MUST_CHECK enum rs_status kineto_args(struct kineto *kineto, const struct kineto_row *row,
                                         size_t at);
/* Members of the row itself that have no column, behind a '\n'. */
RS_MUST_CHECK enum rs_status kineto_others(struct kineto *kineto, const struct kineto_row *row,
                                           size_t at);

/* kineto_top.c */
RS_MUST_CHECK enum rs_status kineto_member(struct kineto *kineto, struct kineto_span key,
                                           struct kineto_span value);
/* Fills stream->info from what was read. */
RS_MUST_CHECK enum rs_status kineto_conclude(struct kineto *kineto);

/* kineto_text.c: all take text that ends with a zero byte at or behind `end`. */
/* The number at `text`, perhaps in quotes; where it ends, or NULL when there is none. */
const char *text_decimal(const char *text, struct kineto_decimal *decimal_p);
/* An integer that is the whole of the span, perhaps in quotes. */
bool text_integer(struct kineto_span span, int64_t *value_p);
/* The same without quotes, and written as printf("%lld") would: it survives as a number. */
bool text_plain_integer(struct kineto_span span, int64_t *value_p);
bool text_plain_unsigned(struct kineto_span span, uint64_t *value_p);
/* Behind the value at `text`; NULL when it has no end before `end`. */
const char *text_value_end(const char *text, const char *end);
/* Is it a string, object, array, number or literal that JSON knows (told by its ends and letters)? */
bool text_is_value(struct kineto_span span);
/* Appends the decoded text of a JSON string; what is no escape stays as it is. */
void text_decode(struct kineto_span span, struct rs_buf *buf);
bool span_is(struct kineto_span span, const char *text);

/* memcmp() == 0 for the short texts that most names are, without a call. */
static inline bool same_bytes(const char *a, const char *b, size_t length)
{
    uint64_t one, two;
    if (length > 32)
        return memcmp(a, b, length) == 0;
    for (; length >= 16; length -= 8, a += 8, b += 8) {
        memcpy(&one, a, sizeof one);
        memcpy(&two, b, sizeof two);
        if (one != two)
            return false;
    }
    if (length >= 8) {
        uint64_t one_end, two_end;
        memcpy(&one, a, sizeof one);
        memcpy(&two, b, sizeof two);
        memcpy(&one_end, a + length - 8, sizeof one_end);
        memcpy(&two_end, b + length - 8, sizeof two_end);
        return one == two && one_end == two_end;
    }
    while (length && *a == *b) {
        length--;
        a++;
        b++;
    }
    return !length;
}

#endif
