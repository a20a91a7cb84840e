/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of the Kineto reader: what its files share.
 *
 *   kineto.c         the window over the file, the document's members, the loop over rows
 *   kineto_row.c     text of one row  -> struct kineto_row (places in the window, nothing copied)
 *   kineto_emit.c    struct kineto_row -> a row of the batch: kind, lane, times, name
 *   kineto_pairs.c   a B row and its E row -> one X row
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
#include "collector/source/trace_row.h"
#include "common/base/buf.h"

enum {
    KINETO_WINDOW_BYTES = 256 * 1024,
    KINETO_ROW_MAX_BYTES = 4 * 1024 * 1024,     /* a longer row is dropped and counted */
    KINETO_MEMBER_MAX_BYTES = 32 * 1024 * 1024, /* a longer top-level member ends the reading */
    KINETO_BATCH_ROWS = 4096,
    KINETO_BAD_ROWS_TRUSTED = 16,        /* so many bad rows, and a row without an end in */
    KINETO_SUSPICIOUS_BYTES = 16 * 1024, /* so many bytes is taken for bad at once */
    KINETO_CATEGORIES = 64, /* slots for categories of one file; more are interned each time */
    KINETO_CATEGORY_SLOTS = 16,
    KINETO_NAME_CACHE = 512,
    KINETO_LANE_CACHE = 64,
};

enum { KINETO_PROBE_ROWS = 64 };
enum kineto_parse { PARSE_OK, PARSE_SKIP, PARSE_MORE, PARSE_BAD };

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

/* Rows of phase B that wait for their E (kineto_pairs.c). */
struct kineto_halves {
    struct kineto_half *items; /* open ones, in file order */
    size_t count, capacity;
    int64_t lost; /* without the other half, or too many at once */
};

struct kineto {
    const char *path;
    kineto_take_fn *take; /* NULL: rows are emitted as Kineto's */
    void *take_self;
    bool is_lossless;
    struct rs_source_stream *stream;
    struct rs_sink sink;
    scan_close_fn *close;
    struct scan_marks marks; /* of the arguments parsed last */

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
    const struct kineto_category
        *category_slots[KINETO_CATEGORY_SLOTS]; /* kineto_row.c: by their first bytes */
    struct kineto_category spare_category;      /* when the table is full */
    struct kineto_name_slot names[KINETO_NAME_CACHE];
    struct kineto_lane_slot lanes[KINETO_LANE_CACHE];

    struct kineto_halves halves;
    bool is_array; /* the rows alone, without a document around them */
    /* Whether such rows are Kineto's is judged by the first ones, which every way of reading parses whole. */
    unsigned probe_left, probe_usable, probe_categories;
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
    int64_t rows_bad, rows_long, rows_timeless, rows_far;
    int64_t rows_vague; /* taken, and a member that they need is missing or no value of its kind */
    int64_t rows_homeless;   /* device work without a device: set aside */
    int64_t rows_threadless; /* of a host, without process or thread */
    int64_t rows_foreign;    /* of a category that is not known, that may be a launch, an operator,
                                a collective or a step */
    int64_t rows_clamped;    /* with a duration below 0, or beyond all time: taken as 0 long */
    bool has_middle;
    rs_ns
        middle; /* median start of the first batch: what lies months away from it is no time of this recording */
    char foreign_device[64]; /* a device category that no table knows; "" none */
    char unknown_category
        [64]; /* the first of spans that is no device's either: they are kept, and nothing is made of them */
    int64_t members_bad;
    int64_t first_bad_offset;
};

/* kineto.c */
RS_MUST_CHECK enum rs_status window_more(struct kineto *kineto, size_t limit_bytes, bool *grew_p,
                                         struct rs_err *err);
int64_t window_offset_of(const struct kineto *kineto, const char *place);

/* kineto_row.c: whether this way of reading has no use for the row. */
bool kineto_row_is_unwanted(const struct kineto *kineto, const struct kineto_row *row);
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

/* kineto_pairs.c: B and E rows, of one thread and nested, become one X row when the E comes. */
static inline bool kineto_is_half(const struct kineto_row *row)
{
    return row->phase == 'B' || row->phase == 'E';
}
RS_MUST_CHECK enum rs_status kineto_half(struct kineto *kineto, const struct kineto_row *row,
                                         struct rs_err *err);
void kineto_halves_fini(struct kineto *kineto);

/* kineto_emit.c */
RS_MUST_CHECK enum rs_status kineto_emit(struct kineto *kineto, const struct kineto_row *row,
                                         struct rs_err *err);
RS_MUST_CHECK enum rs_status kineto_emit_flush(struct kineto *kineto, struct rs_err *err);
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

/* kineto_text.c: more in trace_row.h. All take text that ends with a zero byte at or behind `end`. */
/* Is it a string, object, array, number or literal that JSON knows (told by its ends and letters)? */
bool text_is_value(struct kineto_span span);
/* Appends the decoded text of a JSON string; what is no escape stays as it is. */
void text_decode(struct kineto_span span, struct rs_buf *buf);

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
    if (length >= 4) {
        uint32_t head, other_head, tail, other_tail;
        memcpy(&head, a, sizeof head);
        memcpy(&other_head, b, sizeof other_head);
        memcpy(&tail, a + length - 4, sizeof tail);
        memcpy(&other_tail, b + length - 4, sizeof other_tail);
        return head == other_head && tail == other_tail;
    }
    while (length && *a == *b) {
        length--;
        a++;
        b++;
    }
    return !length;
}

#endif
