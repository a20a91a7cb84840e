/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of a row: what has a column goes there, the rest (lossless) goes to `extra` as it was written.
 *
 * A value goes to its column only when the column says it exactly; the same number in quotes, say,
 * goes to `extra` too, and whoever writes the row again lets `extra` win. Writers of all years leave values
 * out ("Process Group Description": ,) or forget to escape quotes: the walk goes on at the next member.
 */
#include "collector/source/kineto_priv.h"

enum arg_column {
    ARG_CORRELATION,
    ARG_EXTERNAL_ID,
    ARG_BYTES,
    ARG_FINISHED,
    ARG_INPUT,     /* JSON text of the value; offset in struct rs_batch of the column's pointer */
    ARG_COMM_TEXT, /* offsets in struct rs_comm */
    ARG_COMM_INT,
    ARG_COMM_ID,
};

struct arg_key {
    const char *text; /* NULL behind the last of a length */
    uint8_t column;   /* enum arg_column */
    uint16_t has;     /* enum rs_comm_has */
    uint16_t offset;
};

#define COMM(member)  offsetof(struct rs_comm, member)
#define BATCH(member) offsetof(struct rs_batch, member)

enum { ARG_LENGTH_MAX = 25, ARG_SAME_LENGTH_MAX = 4 };

/* By length, so that a key is compared with its equals only. */
static const struct arg_key arg_keys[ARG_LENGTH_MAX + 1][ARG_SAME_LENGTH_MAX] = {
    [3] = {{"Seq", ARG_COMM_INT, RS_COMM_HAS_SEQ, COMM(seq)}},
    [4] = {{"Rank", ARG_COMM_INT, RS_COMM_HAS_RANK, COMM(rank)}},
    [5] = {{"dtype", ARG_COMM_TEXT, 0, COMM(dtype)},
           {"bytes", ARG_BYTES, 0, 0},
           {"Bytes", ARG_BYTES, 0, 0}},
    [8] = {{"Src Rank", ARG_COMM_INT, RS_COMM_HAS_SRC, COMM(src)},
           {"Dst Rank", ARG_COMM_INT, RS_COMM_HAS_DST, COMM(dst)},
           {"Comms Id", ARG_COMM_ID, RS_COMM_HAS_COMMS_ID, COMM(comms_id)},
           {"finished", ARG_FINISHED, 0, 0}},
    [10] = {{"Group size", ARG_COMM_INT, RS_COMM_HAS_GROUP_SIZE, COMM(group_size)},
            {"Input Dims", ARG_INPUT, 0, BATCH(input_dims)},
            {"Input type", ARG_INPUT, 0, BATCH(input_types)}},
    [11] = {{"correlation", ARG_CORRELATION, 0, 0}, {"External id", ARG_EXTERNAL_ID, 0, 0}},
    [13] = {{"In msg nelems", ARG_COMM_INT, RS_COMM_HAS_IN_NELEMS, COMM(in_nelems)},
            {"In split size", ARG_COMM_TEXT, 0, COMM(in_split)}},
    [14] = {{"Out msg nelems", ARG_COMM_INT, RS_COMM_HAS_OUT_NELEMS, COMM(out_nelems)},
            {"Out split size", ARG_COMM_TEXT, 0, COMM(out_split)}},
    [15] = {{"Collective name", ARG_COMM_TEXT, 0, COMM(collective)},
            {"Concrete Inputs", ARG_INPUT, 0, BATCH(concrete_inputs)}},
    [17] = {{"Global rank start", ARG_COMM_INT, RS_COMM_HAS_GLOBAL_START, COMM(global_start)}},
    [18] = {{"Global rank stride", ARG_COMM_INT, RS_COMM_HAS_GLOBAL_STRIDE, COMM(global_stride)},
            {"Process Group Name", ARG_COMM_TEXT, 0, COMM(group_name)}},
    [19] = {{"Process Group Ranks", ARG_COMM_TEXT, 0, COMM(group_ranks)}},
    [25] = {{"Process Group Description", ARG_COMM_TEXT, 0, COMM(group_description)}},
};

static inline const struct arg_key *find_key(struct kineto_span key)
{
    if (key.length > ARG_LENGTH_MAX)
        return NULL;
    const struct arg_key *keys = arg_keys[key.length];
    for (size_t i = 0; i < ARG_SAME_LENGTH_MAX && keys[i].text; i++) {
        if (same_bytes(keys[i].text, key.text, key.length))
            return &keys[i];
    }
    return NULL;
}

/* Where the walk stands: one member of the arguments. */
struct arg_walk {
    struct kineto *kineto;
    size_t at;            /* row of the batch */
    struct rs_comm *comm; /* NULL until the first communication argument */
    struct kineto_span key, value;
    bool is_string, has_escape;
    bool is_kept; /* the column says it all */
};

static enum rs_status comm_of(struct arg_walk *walk)
{
    if (walk->comm)
        return RS_OK;
    return rs_batch_comm(&walk->kineto->batch, walk->at, &walk->comm);
}

static enum rs_status comm_text(struct arg_walk *walk, const struct arg_key *key)
{
    enum rs_status status = comm_of(walk);
    if (status != RS_OK)
        return status;
    struct kineto_span text = walk->value;
    if (walk->is_string)
        text = (struct kineto_span){.text = text.text + 1, .length = text.length - 2};
    rs_str id;
    status = kineto_intern(walk->kineto, text, walk->has_escape, &id);
    if (status == RS_OK)
        memcpy((char *)walk->comm + key->offset, &id, sizeof id);
    walk->is_kept = walk->is_string;
    return status;
}

static enum rs_status comm_number(struct arg_walk *walk, const struct arg_key *key)
{
    const enum rs_status status = comm_of(walk);
    if (status != RS_OK)
        return status;
    int64_t value;
    if (key->column == ARG_COMM_ID) {
        uint64_t id;
        struct kineto_span text = walk->value;
        if (walk->is_string && text.length > 2)
            text = (struct kineto_span){.text = text.text + 1, .length = text.length - 2};
        if (!text_plain_unsigned(text, &id))
            return RS_OK;
        walk->is_kept = !walk->is_string;
        walk->comm->comms_id = id;
    } else {
        if (!text_integer(walk->value, &value))
            return RS_OK;
        walk->is_kept = text_plain_integer(walk->value, &value);
        memcpy((char *)walk->comm + key->offset, &value, sizeof value);
    }
    walk->comm->has |= key->has;
    return RS_OK;
}

/* A column of non-negative numbers, -1 for none. */
static void count_column(struct arg_walk *walk, int64_t *column)
{
    int64_t value;
    const bool is_plain = text_plain_integer(walk->value, &value);
    if ((!is_plain && !text_integer(walk->value, &value)) || value < 0)
        return;
    column[walk->at] = value;
    walk->is_kept = is_plain;
}

/* Memory rows write "Bytes" and may be negative; all others "bytes". */
static void bytes_column(struct arg_walk *walk)
{
    struct rs_batch *batch = &walk->kineto->batch;
    const bool is_memory = batch->kind[walk->at] == RS_KIND_MEMORY;
    if (is_memory != (walk->key.text[0] == 'B'))
        return;
    int64_t value;
    if (!is_memory) {
        count_column(walk, batch->bytes);
    } else if (text_plain_integer(walk->value, &value)) {
        batch->bytes[walk->at] = value;
        walk->is_kept = value != INT64_MIN;
    }
}

static enum rs_status input_column(struct arg_walk *walk, const struct arg_key *key)
{
    rs_str *column;
    memcpy(&column, (const char *)&walk->kineto->batch + key->offset, sizeof(void *));
    walk->is_kept = true;
    return rs_strtab_add(&walk->kineto->stream->strings, walk->value.text, walk->value.length,
                         &column[walk->at]);
}

static enum rs_status fill_column(struct arg_walk *walk, const struct arg_key *key)
{
    struct rs_batch *batch = &walk->kineto->batch;
    switch ((enum arg_column)key->column) {
    case ARG_CORRELATION: /* of a flow, the column is its id */
        if (batch->kind[walk->at] != RS_KIND_FLOW_START &&
            batch->kind[walk->at] != RS_KIND_FLOW_END)
            count_column(walk, batch->correlation);
        return RS_OK;
    case ARG_EXTERNAL_ID:
        count_column(walk, batch->external_id);
        return RS_OK;
    case ARG_BYTES:
        bytes_column(walk);
        return RS_OK;
    case ARG_FINISHED:
        walk->is_kept = span_is(walk->value, "false");
        if (walk->is_kept)
            batch->flags[walk->at] |= RS_EVENT_UNFINISHED;
        return RS_OK;
    case ARG_INPUT:
        return input_column(walk, key);
    case ARG_COMM_TEXT:
        return comm_text(walk, key);
    case ARG_COMM_INT:
    case ARG_COMM_ID:
        return comm_number(walk, key);
    }
    return RS_OK;
}

/* Raw JSON with line breaks turned into blanks: a line break ends the arguments in `extra`. */
static enum rs_status append_raw(struct kineto *kineto, size_t at, struct kineto_span text)
{
    struct rs_batch *batch = &kineto->batch;
    const enum rs_status status = rs_batch_extra(batch, at, text.text, text.length);
    if (status != RS_OK)
        return status;
    char *copy = batch->extra + batch->extra_bytes - text.length;
    for (size_t i = 0; i < text.length; i++) {
        if ((unsigned char)copy[i] < ' ')
            copy[i] = ' ';
    }
    return RS_OK;
}

static enum rs_status append_text(struct kineto *kineto, size_t at, const char *text)
{
    return rs_batch_extra(&kineto->batch, at, text, strlen(text));
}

/* Escapes quotes of a string whose writer forgot to. */
static enum rs_status append_string(struct kineto *kineto, size_t at, struct kineto_span text)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < text.length && status == RS_OK; i++) {
        const bool is_inner = text.text[i] == '"' && i > 0 && i + 1 < text.length;
        if (is_inner && text.text[i - 1] != '\\')
            status = append_text(kineto, at, "\\");
        if (status == RS_OK)
            status = append_raw(kineto, at, (struct kineto_span){text.text + i, 1});
    }
    return status;
}

/* Words that JSON does not know (nan, inf) become strings. */
static enum rs_status append_member(struct arg_walk *walk)
{
    struct kineto *kineto = walk->kineto;
    enum rs_status status = RS_OK;
    if (kineto->batch.extra_length[walk->at])
        status = append_text(kineto, walk->at, ", ");
    if (status == RS_OK)
        status = append_raw(kineto, walk->at,
                            (struct kineto_span){walk->key.text - 1, walk->key.length + 2});
    if (status == RS_OK)
        status = append_text(kineto, walk->at, ": ");
    if (status != RS_OK)
        return status;
    if (!text_is_value(walk->value)) {
        status = append_text(kineto, walk->at, "\"");
        if (status == RS_OK)
            status = append_raw(kineto, walk->at, walk->value);
        return status == RS_OK ? append_text(kineto, walk->at, "\"") : status;
    }
    const bool is_short = walk->is_string && walk->value.length > 2;
    if (is_short && memchr(walk->value.text + 1, '"', walk->value.length - 2))
        return append_string(kineto, walk->at, walk->value);
    return append_raw(kineto, walk->at, walk->value);
}

/* The value's extent. False: there is none before `end`. A string with forgotten quotes ends where a member does. */
static bool take_value(struct arg_walk *walk, const char *text, const char *end)
{
    walk->is_string = *text == '"';
    walk->has_escape = false;
    const char *value_end;
    if (walk->is_string) {
        const char *quote = scan_string_end(text + 1, end, &walk->has_escape);
        const char *next = quote ? scan_blanks(quote + 1) : NULL;
        if (!quote || (next < end && *next != ','))
            quote = kineto_loose_string_end(text + 1, end);
        value_end = quote ? quote + 1 : NULL;
    } else {
        value_end = scan_number(text);
        if (value_end == text || (*value_end != ',' && *value_end != '\n'))
            value_end = text_value_end(text, end);
        if (!value_end && *text != '[' && *text != '{')
            value_end = end;
    }
    if (!value_end)
        return false;
    while (!walk->is_string && value_end > text && (unsigned char)value_end[-1] <= ' ')
        value_end--;
    walk->value = (struct kineto_span){.text = text, .length = (size_t)(value_end - text)};
    return true;
}

/* To the next opening quote of a key behind `text`. */
static const char *next_key(const char *text, const char *end)
{
    const char *comma = text < end ? memchr(text, ',', (size_t)(end - text)) : NULL;
    while (comma) {
        const char *quote = scan_blanks(comma + 1);
        if (quote >= end || *quote == '"')
            return quote;
        comma = memchr(comma + 1, ',', (size_t)(end - comma - 1));
    }
    return end;
}

static enum rs_status take_arg(struct arg_walk *walk, const struct arg_key *key)
{
    walk->is_kept = false;
    if (!walk->value.length)
        return RS_OK;
    if (key) {
        const enum rs_status status = fill_column(walk, key);
        if (status != RS_OK)
            return status;
    }
    return walk->is_kept || !walk->kineto->is_lossless ? RS_OK : append_member(walk);
}

/* The member whose key is between the quotes at `open` and `close`. *behind_p: where it ends; `end` when nothing can follow. */
static enum rs_status take_member(struct arg_walk *walk, const char *open, const char *close,
                                  const char *end, const char **behind_p)
{
    *behind_p = end;
    walk->key = (struct kineto_span){.text = open + 1, .length = (size_t)(close - open - 1)};
    const char *text = scan_blanks(close + 1);
    if (text < end && *text == ':') {
        text = scan_blanks(text + 1);
        if (text >= end || !take_value(walk, text, end))
            return RS_OK;
        const enum rs_status status = take_arg(walk, find_key(walk->key));
        if (status != RS_OK)
            return status;
        text = walk->value.text + walk->value.length;
    }
    *behind_p = text;
    return RS_OK;
}

/* The opening quote of the key behind a member that ends at `text`, or `end`. */
static const char *key_behind(const char *text, const char *end)
{
    if (text >= end)
        return end;
    const char *key = *text == ',' ? scan_blanks(text + 1) : text;
    return *key == '"' && key < end ? key : next_key(text, end);
}

/* ---- with the quotes that the scan for the arguments' end has seen ---- */

struct quote_walk {
    const char *begin, *end; /* of the arguments */
    const uint64_t *quotes;
    size_t block;
    uint64_t left; /* quotes of the block that are not passed */
};

/* The next quote; `end` when there is none. */
static inline const char *next_quote(struct quote_walk *at)
{
    while (!at->left) {
        if ((at->block + 1) * 64 >= (size_t)(at->end - at->begin))
            return at->end;
        at->left = at->quotes[++at->block];
    }
    const char *quote = at->begin + at->block * 64 + __builtin_ctzll(at->left);
    at->left &= at->left - 1;
    return quote < at->end ? quote : at->end;
}

/* The quote at `text` is the next one. */
static void go_to_quote(struct quote_walk *at, const char *text)
{
    const size_t offset = (size_t)(text - at->begin);
    at->block = offset / 64;
    at->left = at->quotes[at->block] >> offset % 64 << offset % 64;
}

/* Is what stands between a key's closing quote and the next quote a value without strings in it, and does the next quote begin
 * a key? Then the value is passed over without looking for its end. */
static inline bool is_plain_between(const char *close, const char *next)
{
    if (close[1] != ':')
        return false;
    const char *value = scan_blanks(close + 2);
    if (*value == '[' || *value == '{')
        return false;
    const char *last = next - 1;
    while (*last == ' ' || *last == '\n' || *last == '\r' || *last == '\t')
        last--;
    return *last == ',';
}

/* Reads what take_member() would, member by member. */
static enum rs_status take_marked(struct arg_walk *walk, const char *text, const char *end)
{
    struct quote_walk at = {.begin = text, .end = end, .quotes = walk->kineto->marks.quotes};
    at.left = at.quotes[0];
    const char *open = next_quote(&at);
    if (open != scan_blanks(text))
        return RS_OK;
    while (open < end) {
        const char *close = next_quote(&at);
        if (close == end)
            return RS_OK;
        const char *next = next_quote(&at);
        const struct kineto_span name = {.text = open + 1, .length = (size_t)(close - open - 1)};
        const struct arg_key *key = find_key(name);
        enum rs_status status = RS_OK;
        if (next < end && is_plain_between(close, next)) {
            walk->key = name;
            if (key && !take_value(walk, scan_blanks(close + 2), end))
                return RS_OK;
            if (key)
                status = take_arg(walk, key);
        } else if (next < end) {
            const char *behind;
            status = take_member(walk, open, close, end, &behind);
            next = key_behind(behind, end);
            if (next < end) {
                go_to_quote(&at, next);
                next = next_quote(&at);
            }
        } else if (key) { /* no key without a quote */
            status = take_member(walk, open, close, end, &next);
            next = end;
        }
        if (status != RS_OK)
            return status;
        open = next;
    }
    return RS_OK;
}

enum rs_status kineto_args(struct kineto *kineto, const struct kineto_row *row, size_t at)
{
    struct arg_walk walk = {.kineto = kineto, .at = at};
    const char *end = row->args.text + row->args.length;
    if (row->has_marks && !kineto->is_lossless)
        return take_marked(&walk, row->args.text, end);
    const char *text = scan_blanks(row->args.text);
    enum rs_status status = RS_OK;
    while (status == RS_OK && text < end && *text == '"') {
        bool has_escape = false;
        const char *quote = scan_string_end(text + 1, end, &has_escape);
        if (!quote)
            break;
        status = take_member(&walk, text, quote, end, &text);
        text = key_behind(text, end);
    }
    return status;
}

/* `"key": text`, after a comma when it is not the first behind the line break. */
static enum rs_status append_pair(struct kineto *kineto, size_t at, const char *key,
                                  struct kineto_span value, bool *is_first)
{
    enum rs_status status = append_text(kineto, at, *is_first ? "\"" : ", \"");
    *is_first = false;
    if (status == RS_OK)
        status = append_text(kineto, at, key);
    if (status == RS_OK)
        status = append_text(kineto, at, "\": ");
    return status == RS_OK ? append_raw(kineto, at, value) : status;
}

/* Not exactly what the columns say: then the text as it was stands here. */
static bool is_exact(const struct kineto *kineto, const struct kineto_decimal *decimal)
{
    return decimal->is_exact && !kineto->is_unit_ns && decimal->whole < INT64_MAX / 1000 &&
           !(decimal->is_negative && !decimal->whole && !decimal->thousandths);
}

enum rs_status kineto_others(struct kineto *kineto, const struct kineto_row *row, size_t at)
{
    const struct rs_batch *batch = &kineto->batch;
    bool is_first = true;
    enum rs_status status = append_text(kineto, at, "\n");
    if (status == RS_OK && row->args.text &&
        scan_blanks(row->args.text) == row->args.text + row->args.length)
        status = append_pair(kineto, at, "args", (struct kineto_span){"{}", 2}, &is_first);
    if (status == RS_OK && row->has_time && !is_exact(kineto, &row->time))
        status = append_pair(kineto, at, "ts", row->time_text, &is_first);
    if (status == RS_OK && row->has_duration &&
        (!is_exact(kineto, &row->duration) || batch->flags[at] & RS_EVENT_DURATION_CLAMPED))
        status = append_pair(kineto, at, "dur", row->duration_text, &is_first);
    for (size_t i = 0; i < row->other_count && status == RS_OK; i++) {
        if (!is_first)
            status = append_text(kineto, at, ", ");
        if (status == RS_OK)
            status = append_raw(kineto, at, row->others[i]);
        is_first = false;
    }
    return status;
}
