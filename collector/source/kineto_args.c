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
    const char *text;
    uint8_t length;
    uint8_t column; /* enum arg_column */
    uint16_t has;   /* enum rs_comm_has */
    uint16_t offset;
};

#define KEY(text, column, has, offset)                                                             \
    {                                                                                              \
        text, sizeof(text) - 1, column, has, offset                                                \
    }
#define COMM(member)  offsetof(struct rs_comm, member)
#define BATCH(member) offsetof(struct rs_batch, member)

/* By length, so that a key is compared with its equals only. */
static const struct arg_key arg_keys[] = {
    KEY("Seq", ARG_COMM_INT, RS_COMM_HAS_SEQ, COMM(seq)),
    KEY("Rank", ARG_COMM_INT, RS_COMM_HAS_RANK, COMM(rank)),
    KEY("dtype", ARG_COMM_TEXT, 0, COMM(dtype)),
    KEY("bytes", ARG_BYTES, 0, 0),
    KEY("Bytes", ARG_BYTES, 0, 0),
    KEY("Src Rank", ARG_COMM_INT, RS_COMM_HAS_SRC, COMM(src)),
    KEY("Dst Rank", ARG_COMM_INT, RS_COMM_HAS_DST, COMM(dst)),
    KEY("Comms Id", ARG_COMM_ID, RS_COMM_HAS_COMMS_ID, COMM(comms_id)),
    KEY("finished", ARG_FINISHED, 0, 0),
    KEY("Group size", ARG_COMM_INT, RS_COMM_HAS_GROUP_SIZE, COMM(group_size)),
    KEY("Input Dims", ARG_INPUT, 0, BATCH(input_dims)),
    KEY("Input type", ARG_INPUT, 0, BATCH(input_types)),
    KEY("correlation", ARG_CORRELATION, 0, 0),
    KEY("External id", ARG_EXTERNAL_ID, 0, 0),
    KEY("In msg nelems", ARG_COMM_INT, RS_COMM_HAS_IN_NELEMS, COMM(in_nelems)),
    KEY("In split size", ARG_COMM_TEXT, 0, COMM(in_split)),
    KEY("Out msg nelems", ARG_COMM_INT, RS_COMM_HAS_OUT_NELEMS, COMM(out_nelems)),
    KEY("Out split size", ARG_COMM_TEXT, 0, COMM(out_split)),
    KEY("Collective name", ARG_COMM_TEXT, 0, COMM(collective)),
    KEY("Concrete Inputs", ARG_INPUT, 0, BATCH(concrete_inputs)),
    KEY("Global rank start", ARG_COMM_INT, RS_COMM_HAS_GLOBAL_START, COMM(global_start)),
    KEY("Global rank stride", ARG_COMM_INT, RS_COMM_HAS_GLOBAL_STRIDE, COMM(global_stride)),
    KEY("Process Group Name", ARG_COMM_TEXT, 0, COMM(group_name)),
    KEY("Process Group Ranks", ARG_COMM_TEXT, 0, COMM(group_ranks)),
    KEY("Process Group Description", ARG_COMM_TEXT, 0, COMM(group_description)),
};

enum { ARG_KEY_COUNT = sizeof arg_keys / sizeof arg_keys[0], ARG_LENGTH_MAX = 25 };

static const struct arg_key *find_key(struct kineto_span key)
{
    /* bit n: there is a key of length n */
    static const uint32_t lengths = 1U << 3 | 1U << 4 | 1U << 5 | 1U << 8 | 1U << 10 | 1U << 11 |
                                    1U << 13 | 1U << 14 | 1U << 15 | 1U << 17 | 1U << 18 |
                                    1U << 19 | 1U << 25;
    if (key.length > ARG_LENGTH_MAX || !(lengths >> key.length & 1))
        return NULL;
    for (size_t i = 0; i < ARG_KEY_COUNT && arg_keys[i].length <= key.length; i++) {
        if (arg_keys[i].length == key.length && same_bytes(arg_keys[i].text, key.text, key.length))
            return &arg_keys[i];
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
        value_end = text;
        while ((unsigned char)(*value_end - '-') <= '9' - '-') /* - . / and digits */
            value_end++;
        if (value_end == text || *value_end != ',')
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

static enum rs_status take_arg(struct arg_walk *walk)
{
    const struct arg_key *key = find_key(walk->key);
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

enum rs_status kineto_args(struct kineto *kineto, const struct kineto_row *row, size_t at)
{
    struct arg_walk walk = {.kineto = kineto, .at = at};
    const char *end = row->args.text + row->args.length;
    const char *text = scan_blanks(row->args.text);
    while (text < end && *text == '"') {
        bool has_escape = false;
        const char *quote = scan_string_end(text + 1, end, &has_escape);
        if (!quote)
            break;
        walk.key = (struct kineto_span){.text = text + 1, .length = (size_t)(quote - text - 1)};
        text = scan_blanks(quote + 1);
        if (text >= end)
            break;
        if (*text == ':') {
            text = scan_blanks(text + 1);
            if (text >= end || !take_value(&walk, text, end))
                break;
            const enum rs_status status = take_arg(&walk);
            if (status != RS_OK)
                return status;
            text = walk.value.text + walk.value.length;
        }
        const char *key = *text == ',' ? scan_blanks(text + 1) : text;
        text = *key == '"' && key < end ? key : next_key(text, end);
    }
    return RS_OK;
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
