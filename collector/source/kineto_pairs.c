/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Trace Event Format lets a span be two rows, its begin and its end, of one thread and properly nested.
 *
 *     {"ph": "B", "name": "a"} ... {"ph": "B", "name": "b"} ... {"ph": "E"} ... {"ph": "E"}
 *                 a |-------------------- b |------------------|b ----------------|a
 *
 * The begin's text is kept (the window moves on) and read again when its end comes. The lossless reading keeps both rows
 * as they are.
 */
#include "collector/source/kineto_priv.h"
#include "common/base/mem.h"

enum { HALVES_MAX = 16384, HALF_MAX_BYTES = 64 * 1024 };

struct kineto_half {
    int64_t process, thread;
    uint64_t text_hash; /* of ids that are written as text */
    char *text;
    size_t length;
};

static uint64_t hash_of(const struct kineto_id *id)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (size_t i = 0; id->text.text && i < id->text.length; i++)
        hash = (hash ^ (unsigned char)id->text.text[i]) * 0x100000001b3U;
    return hash;
}

static enum rs_status open_half(struct kineto *kineto, const struct kineto_row *row)
{
    struct kineto_halves *halves = &kineto->halves;
    const size_t length = (size_t)(row->end - row->begin);
    if (halves->count >= HALVES_MAX || length > HALF_MAX_BYTES) {
        halves->lost++;
        return RS_OK;
    }
    if (rs_mem_grow((void **)&halves->items, &halves->capacity, halves->count + 1,
                    sizeof *halves->items) != RS_OK)
        return RS_NOMEM;
    char *text = rs_mem_calloc(length + 1 + SCAN_PADDING, 1);
    if (!text)
        return RS_NOMEM;
    memcpy(text, row->begin, length);
    text[length] = ']'; /* what may stand behind a row */
    halves->items[halves->count++] =
        (struct kineto_half){.process = row->pid.value,
                             .thread = row->tid.value,
                             .text_hash = hash_of(&row->pid) * 31 + hash_of(&row->tid),
                             .text = text,
                             .length = length + 1};
    return RS_OK;
}

/* The row of the begin, with the time between as its duration. False: they do not fit each other. */
static bool join_halves(struct kineto *kineto, const struct kineto_half *half,
                        const struct kineto_row *last, struct kineto_row *row)
{
    const char *const end = kineto->end;
    const bool was_lossless = kineto->is_lossless;
    kineto->end = half->text + half->length;
    kineto->is_lossless = true; /* all of the row is wanted */
    const enum kineto_parse parse = kineto_row_parse(kineto, half->text, row);
    kineto->end = end;
    kineto->is_lossless = was_lossless;
    if (parse != PARSE_OK || !row->has_time || !last->has_time || row->time.is_negative ||
        last->time.is_negative || last->time.whole > INT64_MAX / 2000 ||
        row->time.whole > INT64_MAX / 2000)
        return false;
    const int64_t begin = row->time.whole * 1000 + row->time.thousandths;
    const int64_t duration = last->time.whole * 1000 + last->time.thousandths - begin;
    if (duration < 0)
        return false;
    row->phase = 'X';
    row->has_duration = true;
    row->duration = (struct kineto_decimal){
        .whole = duration / 1000, .thousandths = (int32_t)(duration % 1000), .is_exact = true};
    return true;
}

static enum rs_status close_half(struct kineto *kineto, const struct kineto_row *row,
                                 struct rs_err *err)
{
    struct kineto_halves *halves = &kineto->halves;
    const uint64_t hash = hash_of(&row->pid) * 31 + hash_of(&row->tid);
    size_t at = halves->count;
    while (at > 0 && (halves->items[at - 1].process != row->pid.value ||
                      halves->items[at - 1].thread != row->tid.value ||
                      halves->items[at - 1].text_hash != hash))
        at--;
    if (!at) {
        halves->lost++;
        return RS_OK;
    }
    struct kineto_half half = halves->items[at - 1];
    memmove(&halves->items[at - 1], &halves->items[at], (halves->count - at) * sizeof half);
    halves->count--;
    struct kineto_row whole;
    enum rs_status status = RS_OK;
    if (!join_halves(kineto, &half, row, &whole))
        halves->lost++;
    else if (!whole.category || whole.category->is_wanted)
        status = kineto_emit(kineto, &whole, err);
    rs_mem_free(half.text);
    return status;
}

enum rs_status kineto_half(struct kineto *kineto, const struct kineto_row *row, struct rs_err *err)
{
    if (row->phase == 'E')
        return close_half(kineto, row, err);
    const enum rs_status status = open_half(kineto, row);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "%s: out of memory", kineto->path);
}

void kineto_halves_fini(struct kineto *kineto)
{
    for (size_t i = 0; i < kineto->halves.count; i++)
        rs_mem_free(kineto->halves.items[i].text);
    rs_mem_free(kineto->halves.items);
    kineto->halves = (struct kineto_halves){0};
}
