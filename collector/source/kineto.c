/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's loop.
 *
 *     {  "schemaVersion": 1, ...,  "traceEvents": [  row, row, ...  ],  "traceName": "..."  }
 *        |--- kineto_member() ---|                |-- read_rows() --|  |-- kineto_member() --|
 *
 * A window slides over the text. It is as small as a processor's cache likes, grows for a row or member that
 * needs it, and is what bounds the memory: KINETO_ROW_MAX_BYTES in the rows, KINETO_MEMBER_MAX_BYTES beside them.
 * Nothing of a damaged file is fatal but its end: bad rows are counted and stepped over.
 */
#include "collector/source/kineto_priv.h"
#include "common/base/mem.h"

int64_t window_offset_of(const struct kineto *kineto, const char *place)
{
    return kineto->window_offset + (place - kineto->window);
}

static enum rs_status window_grow(struct kineto *kineto, size_t limit_bytes)
{
    const size_t used = (size_t)(kineto->end - kineto->window);
    size_t capacity = kineto->capacity * 2;
    if (capacity > limit_bytes + KINETO_WINDOW_BYTES)
        capacity = limit_bytes + KINETO_WINDOW_BYTES;
    char *window = rs_mem_realloc(kineto->window, capacity + SCAN_PADDING, 1);
    if (!window)
        return RS_NOMEM;
    kineto->at = window + (kineto->at - kineto->window);
    kineto->end = window + used;
    kineto->window = window;
    kineto->capacity = capacity;
    return RS_OK;
}

/* Moves the window so that it starts at kineto->at and reads more behind its end. *grew_p: there is more;
 * false at the end of the file, and when limit_bytes lie between `at` and the end already. */
enum rs_status window_more(struct kineto *kineto, size_t limit_bytes, bool *grew_p,
                           struct rs_err *err)
{
    *grew_p = false;
    const size_t kept = (size_t)(kineto->end - kineto->at);
    if (kineto->input.is_at_end || kept >= limit_bytes)
        return RS_OK;
    memmove(kineto->window, kineto->at, kept);
    kineto->window_offset += kineto->at - kineto->window;
    kineto->at = kineto->window;
    kineto->end = kineto->window + kept;
    if (kept > kineto->capacity / 2) {
        const enum rs_status status = window_grow(kineto, limit_bytes);
        if (status != RS_OK)
            return rs_err_set(err, status, "%s: out of memory for a window of %zu bytes",
                              kineto->path, kineto->capacity * 2);
    }
    size_t count;
    char *more = kineto->window + kept;
    size_t room = kineto->capacity - kept; /* a window that once grew need not be full again */
    room = room < KINETO_WINDOW_BYTES ? room : KINETO_WINDOW_BYTES;
    const enum rs_status status = input_read(&kineto->input, more, room, &count, err);
    if (status != RS_OK)
        return status;
    kineto->end = more + count;
    memset(more + count, 0, SCAN_PADDING);
    *grew_p = count > 0;
    return RS_OK;
}

static void note_bad(struct kineto *kineto, bool is_long, int64_t offset)
{
    if (!kineto->rows_bad && !kineto->rows_long)
        kineto->first_bad_offset = offset;
    if (is_long)
        kineto->rows_long++;
    else
        kineto->rows_bad++;
}

/* A span that lacks what every one of Kineto's has: what it was, or how long. Its figures would be short of it. */
static bool is_vague(const struct kineto_row *row)
{
    if (row->phase != 'X' || (row->category && !row->category->is_wanted))
        return false;
    return !row->has_duration || !row->has_name || !row->category;
}

static enum rs_status take_row(struct kineto *kineto, const struct kineto_row *row,
                               struct rs_err *err)
{
    kineto->at = row->end;
    const bool is_usable = row->phase && (row->has_time || row->phase != 'X');
    kineto->rows_vague += is_usable && !kineto->take && is_vague(row);
    if (kineto->probe_left) {
        kineto->probe_left--;
        kineto->probe_usable += is_usable;
        kineto->probe_categories += is_usable && row->category;
        if (kineto_row_is_unwanted(kineto, row)) {
            kineto->stream->info.rows_read++;
            kineto->stream->info.events_read += row->phase == 'X';
            return RS_OK;
        }
    }
    if (is_usable && !kineto->take && !kineto->is_lossless && kineto_is_half(row))
        return kineto_half(kineto, row, err);
    if (is_usable && kineto->take) {
        kineto->stream->info.rows_read++;
        kineto->stream->info.events_read += row->phase == 'X';
        return kineto->take(kineto->take_self, row, err);
    }
    if (is_usable && (kineto->is_lossless || row->phase == 'X'))
        return kineto_emit(kineto, row, err);
    kineto->rows_timeless += !is_usable;
    kineto->stream->info.rows_read += is_usable;
    return RS_OK;
}

/* Steps over the row at kineto->at, which is no JSON or too long, and saves it if its extent is clear. */
static enum rs_status take_bad_row(struct kineto *kineto, bool is_long, struct rs_err *err)
{
    const int64_t offset = window_offset_of(kineto, kineto->at);
    bool is_whole = !is_long;
    for (;;) {
        const char *row_end;
        const char *next;
        if (kineto_resync(kineto, kineto->at, &row_end, &next) == PARSE_OK) {
            struct kineto_row row;
            if (is_whole && kineto_row_salvage(kineto, kineto->at, row_end, &row) == PARSE_OK) {
                kineto->rows_repaired++;
                const enum rs_status status = take_row(kineto, &row, err);
                kineto->at = next;
                return status;
            }
            note_bad(kineto, is_long, offset);
            kineto->at = next;
            return RS_OK;
        }
        if ((size_t)(kineto->end - kineto->at) >= KINETO_ROW_MAX_BYTES) {
            kineto->at = next;
            is_whole = false;
        }
        const bool was_at_end = kineto->input.is_at_end;
        bool grew;
        const enum rs_status status = window_more(kineto, KINETO_ROW_MAX_BYTES + 4096, &grew, err);
        if (status != RS_OK)
            return status;
        if (!grew && was_at_end) {
            note_bad(kineto, is_long, offset);
            kineto->at = kineto->end;
            return RS_OK;
        }
    }
}

/* The row at kineto->at. */
static enum rs_status read_row(struct kineto *kineto, struct kineto_row *row, struct rs_err *err)
{
    switch (kineto_row_parse(kineto, kineto->at, row)) {
    case PARSE_OK:
        return take_row(kineto, row, err);
    case PARSE_SKIP:
        kineto->at = row->end;
        kineto->stream->info.rows_read++;
        kineto->stream->info.events_read += row->phase == 'X';
        return RS_OK;
    case PARSE_BAD:
        return take_bad_row(kineto, false, err);
    case PARSE_MORE:
        break;
    }
    const int64_t bad = kineto->rows_bad + kineto->rows_long + kineto->rows_repaired;
    kineto->is_suspicious = bad > KINETO_BAD_ROWS_TRUSTED;
    if (kineto->is_suspicious && kineto->end - kineto->at > KINETO_SUSPICIOUS_BYTES)
        return take_bad_row(kineto, false, err);
    const bool was_at_end = kineto->input.is_at_end;
    bool grew;
    const enum rs_status status = window_more(kineto, KINETO_ROW_MAX_BYTES, &grew, err);
    if (status != RS_OK || grew || (!was_at_end && kineto->input.is_at_end))
        return status;
    if (!was_at_end)
        return take_bad_row(kineto, true, err);
    const char *row_end;
    const char *next;
    if (kineto_resync(kineto, kineto->at, &row_end, &next) == PARSE_OK)
        return take_bad_row(kineto, false, err);
    kineto->at = kineto->end; /* cut inside this row */
    return RS_OK;
}

/* Behind the opening bracket of traceEvents, to behind its closing one, or to the file's end. */
static enum rs_status read_rows(struct kineto *kineto, struct rs_err *err)
{
    struct kineto_row row;
    kineto->has_rows_member = true;
    enum rs_status status = RS_OK;
    while (status == RS_OK) {
        kineto->at = scan_blanks(kineto->at);
        if (kineto->at >= kineto->end) {
            bool grew;
            status = window_more(kineto, KINETO_WINDOW_BYTES, &grew, err);
            if (status == RS_OK && !grew)
                return RS_OK;
        } else if (*kineto->at == '{') {
            status = read_row(kineto, &row, err);
        } else if (*kineto->at == ',') {
            kineto->at++;
        } else if (*kineto->at == ']') {
            kineto->at++;
            kineto->is_behind_rows = true;
            return RS_OK;
        } else {
            status = take_bad_row(kineto, false, err);
        }
    }
    return status;
}

/* To the next thing that looks like a member of the document: a line's first quote with a colon
 * behind the string, or the last brace. False: nothing in this window. */
static bool find_member(struct kineto *kineto)
{
    const char *at = kineto->at;
    while (at < kineto->end) {
        const char *comma = memchr(at, ',', (size_t)(kineto->end - at));
        if (!comma)
            return false;
        const char *key = scan_blanks(comma + 1);
        const char *quote =
            *key == '"' ? memchr(key + 1, '"', (size_t)(kineto->end - key - 1)) : NULL;
        const char *colon = quote ? scan_blanks(quote + 1) : NULL;
        if (colon && *colon == ':' && colon - key < 128 &&
            !memchr(key, '\n', (size_t)(colon - key))) {
            kineto->at = comma;
            return true;
        }
        at = comma + 1;
    }
    return false;
}

/* A member that cannot be read (log lines without quotes): on with the next one, in this window. */
static void skip_bad_member(struct kineto *kineto)
{
    kineto->members_bad++;
    kineto->at++;
    if (find_member(kineto))
        return;
    kineto->at = kineto->end;
    const char *last = kineto->end;
    while (last > kineto->window && (unsigned char)last[-1] <= ' ')
        last--;
    kineto->is_closed = last > kineto->window && last[-1] == '}';
}

/* The member at kineto->at (its quote), when all of it is in the window. */
static enum kineto_parse parse_member(struct kineto *kineto, struct kineto_span *key,
                                      const char **value_p, const char **value_end_p)
{
    bool has_escape = false;
    const char *quote = scan_string_end(kineto->at + 1, kineto->end, &has_escape);
    if (!quote)
        return PARSE_MORE;
    *key = (struct kineto_span){.text = kineto->at + 1, .length = (size_t)(quote - kineto->at - 1)};
    const char *value = scan_blanks(quote + 1);
    if (*value != ':')
        return value >= kineto->end ? PARSE_MORE : PARSE_BAD;
    value = scan_blanks(value + 1);
    if (value >= kineto->end)
        return PARSE_MORE;
    *value_p = value;
    if (*value == '[' && span_is(*key, "traceEvents"))
        return PARSE_SKIP;
    *value_end_p = text_value_end(value, kineto->end);
    if (!*value_end_p)
        return PARSE_MORE;
    const char *next = scan_blanks(*value_end_p);
    if (*next == ',' || *next == '}')
        return PARSE_OK;
    return next >= kineto->end ? PARSE_MORE : PARSE_BAD;
}

static enum rs_status read_member(struct kineto *kineto, struct rs_err *err)
{
    struct kineto_span key = {0};
    const char *value = NULL;
    const char *value_end = NULL;
    enum rs_status status = RS_OK;
    switch (parse_member(kineto, &key, &value, &value_end)) {
    case PARSE_OK:
        kineto->at = value_end;
        status =
            kineto_member(kineto, key, (struct kineto_span){value, (size_t)(value_end - value)});
        if (status < 0)
            return rs_err_set(err, status, "%s: %s at a member of the document", kineto->path,
                              rs_status_text(status));
        return RS_OK;
    case PARSE_SKIP:
        kineto->at = value + 1;
        return read_rows(kineto, err);
    case PARSE_BAD:
        skip_bad_member(kineto);
        return RS_OK;
    case PARSE_MORE:
        break;
    }
    /* Quotes of log lines may be out of step up to the file's end; any other member was cut there. */
    const bool is_log =
        key.text && (span_is(key, "INFO") || span_is(key, "WARNING") || span_is(key, "ERROR"));
    bool grew;
    status = window_more(kineto, KINETO_MEMBER_MAX_BYTES, &grew, err);
    if (status != RS_OK || grew)
        return status;
    if (is_log || !kineto->input.is_at_end)
        skip_bad_member(kineto);
    else
        kineto->at = kineto->end;
    return RS_OK;
}

/* The document's members, from behind its opening brace. */
static enum rs_status read_document(struct kineto *kineto, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    while (status == RS_OK && !kineto->is_closed) {
        kineto->at = scan_blanks(kineto->at);
        if (kineto->at >= kineto->end) {
            bool grew;
            status = window_more(kineto, KINETO_WINDOW_BYTES, &grew, err);
            if (status == RS_OK && !grew)
                break;
        } else if (*kineto->at == '"') {
            status = read_member(kineto, err);
        } else if (*kineto->at == ',') {
            kineto->at++;
        } else if (*kineto->at == '}') {
            kineto->is_closed = true;
        } else {
            skip_bad_member(kineto);
        }
    }
    return status < 0 ? status : RS_OK;
}

/* The file's first bytes: RS_NOTFOUND when neither an object nor an array of rows starts there. An empty file is an empty recording. */
static enum rs_status read_start(struct kineto *kineto, struct rs_err *err)
{
    bool grew;
    enum rs_status status = window_more(kineto, KINETO_WINDOW_BYTES, &grew, err);
    if (status != RS_OK)
        return status;
    if (kineto->end - kineto->at >= 3 && memcmp(kineto->at, "\xef\xbb\xbf", 3) == 0)
        kineto->at += 3;
    kineto->at = scan_blanks(kineto->at);
    if (kineto->at >= kineto->end)
        return RS_OK;
    if (*kineto->at != '{' && *kineto->at != '[')
        return rs_err_set(err, RS_NOTFOUND,
                          "%s is not a Kineto trace: it starts with neither { nor [", kineto->path);
    kineto->is_array = *kineto->at++ == '[';
    kineto->probe_left = kineto->is_array ? KINETO_PROBE_ROWS : 0;
    return RS_OK;
}

/* The Trace Event Format's other shape, which early PyTorch wrote: the rows alone, [ {...}, {...} ]. */
static enum rs_status read_array(struct kineto *kineto, struct rs_err *err)
{
    const enum rs_status status = read_rows(kineto, err);
    kineto->is_closed = kineto->is_behind_rows;
    return status;
}

static enum rs_status kineto_open(struct kineto *kineto, struct rs_err *err)
{
    kineto->close = scan_close_best();
    kineto->capacity = KINETO_WINDOW_BYTES;
    kineto->window = rs_mem_calloc(kineto->capacity + SCAN_PADDING, 1);
    if (!kineto->window)
        return rs_err_set(err, RS_NOMEM, "%s: out of memory", kineto->path);
    kineto->at = kineto->end = kineto->window;
    enum rs_status status = rs_batch_init(&kineto->batch, &kineto->stream->strings,
                                          &kineto->stream->lanes, KINETO_BATCH_ROWS);
    if (status != RS_OK)
        return rs_err_set(err, status, "%s: out of memory", kineto->path);
    return input_open(&kineto->input, kineto->path, err);
}

static void kineto_close(struct kineto *kineto)
{
    input_close(&kineto->input);
    rs_batch_fini(&kineto->batch);
    kineto_halves_fini(kineto);
    rs_buf_fini(&kineto->scratch);
    rs_buf_fini(&kineto->metadata);
    rs_mem_free(kineto->window);
    rs_mem_free(kineto);
}

/* Everything between open and close. */
static enum rs_status kineto_run(struct kineto *kineto, struct rs_err *err)
{
    enum rs_status status = read_start(kineto, err);
    if (status == RS_OK)
        status = kineto->is_array ? read_array(kineto, err) : read_document(kineto, err);
    if (status == RS_OK)
        status = kineto_emit_flush(kineto, err);
    if (status < 0)
        return status;
    if (kineto->is_closed && !kineto->has_rows_member)
        return rs_err_set(err, RS_NOTFOUND, "%s is not a Kineto trace: it has no traceEvents",
                          kineto->path);
    const bool has_no_row =
        !kineto->probe_usable &&
        (!kineto->probe_left || kineto->is_behind_rows || kineto->rows_bad || kineto->rows_long);
    if (kineto->is_array && (has_no_row || (kineto->probe_usable && !kineto->probe_categories)))
        return rs_err_set(err, RS_NOTFOUND, "%s is not a Kineto trace: its rows have no categories",
                          kineto->path);
    status = kineto_conclude(kineto);
    if (status < 0)
        return rs_err_set(err, status, "%s: %s", kineto->path, rs_status_text(status));
    return kineto->stream->info.is_partial ? RS_PARTIAL : RS_OK;
}

enum rs_status rs_kineto_read(const char *path, unsigned flags, struct rs_source_stream *stream,
                              struct rs_sink sink, struct rs_err *err)
{
    struct kineto *kineto = rs_mem_calloc(1, sizeof *kineto);
    if (!kineto)
        return rs_err_set(err, RS_NOMEM, "%s: out of memory", path);
    kineto->path = path;
    kineto->is_lossless = (flags & RS_SOURCE_LOSSLESS) != 0;
    kineto->stream = stream;
    kineto->sink = sink;
    kineto->input.fd = -1;
    enum rs_status status = kineto_open(kineto, err);
    if (status == RS_OK)
        status = kineto_run(kineto, err);
    kineto_close(kineto);
    return status;
}

static enum rs_status run_array(struct kineto *kineto, struct rs_err *err)
{
    bool grew;
    enum rs_status status = window_more(kineto, KINETO_WINDOW_BYTES, &grew, err);
    if (status != RS_OK)
        return status;
    kineto->at = scan_blanks(kineto->at);
    if (kineto->at < kineto->end && *kineto->at == '{') {
        kineto->at++;
        status = read_document(kineto, err);
    } else if (kineto->at < kineto->end && *kineto->at == '[') {
        kineto->at++;
        status = read_rows(kineto, err);
    }
    if (status < 0)
        return status;
    if (!kineto->has_rows_member)
        return rs_err_set(err, RS_FORMAT, "%s holds no array of rows", kineto->path);
    struct rs_trace_info *info = &kineto->stream->info;
    info->input_bytes += kineto->input.file_bytes;
    info->raw_bytes += kineto->input.raw_bytes;
    if (!kineto->is_behind_rows)
        return rs_err_set(err, RS_PARTIAL, "%s is cut off at byte %lld", kineto->path,
                          (long long)kineto->input.raw_bytes);
    if (kineto->rows_bad || kineto->rows_long)
        return rs_err_set(err, RS_PARTIAL, "%s is damaged from byte %lld on", kineto->path,
                          (long long)kineto->first_bad_offset);
    return RS_OK;
}

enum rs_status kineto_rows(const char *path, struct rs_source_stream *stream, kineto_take_fn *take,
                           void *self, struct rs_err *err)
{
    struct kineto *kineto = rs_mem_calloc(1, sizeof *kineto);
    if (!kineto)
        return rs_err_set(err, RS_NOMEM, "%s: out of memory", path);
    kineto->path = path;
    kineto->is_lossless = true;
    kineto->stream = stream;
    kineto->take = take;
    kineto->take_self = self;
    kineto->input.fd = -1;
    enum rs_status status = kineto_open(kineto, err);
    if (status == RS_OK)
        status = run_array(kineto, err);
    kineto_close(kineto);
    return status;
}
