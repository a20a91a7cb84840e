/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the rows of one query, eight bytes a cell, texts once.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum rs_status frame_init(struct frame *frame, const char *kinds)
{
    *frame = (struct frame){0};
    const bool is_named = strchr(kinds, ':') != NULL; /* "name:t duration:i"; else "ti" */
    for (const char *at = kinds; *at; at++)
        if (!is_named || (at > kinds && at[-1] == ':')) {
            RS_CHECK(frame->columns < FRAME_COLUMNS_MAX);
            frame->kinds[frame->columns++] = *at;
        }
    return rs_strtab_init(&frame->texts, 0);
}

void frame_fini(struct frame *frame)
{
    rs_mem_free(frame->cells);
    rs_strtab_fini(&frame->texts);
    *frame = (struct frame){0};
}

union frame_cell *frame_add(struct frame *frame)
{
    if (rs_mem_grow((void **)&frame->cells, &frame->capacity, (frame->count + 1) * frame->columns,
                    sizeof *frame->cells) != RS_OK)
        return NULL;
    union frame_cell *row = frame->cells + frame->count * frame->columns;
    memset(row, 0, frame->columns * sizeof *row);
    frame->count++;
    return row;
}

union frame_cell *frame_put(struct frame *frame)
{
    union frame_cell *row = frame_add(frame);
    frame->failed |= !row;
    return row ? row : frame->spare;
}

rs_str frame_str(struct frame *frame, const char *text)
{
    rs_str id = RS_STR_NONE;
    frame->failed |= rs_strtab_add(&frame->texts, text, strlen(text), &id) != RS_OK;
    return id;
}

static rs_str translate(rs_str id, const rs_str *map)
{
    return id == RS_STR_NONE ? RS_STR_NONE : map[id];
}

enum rs_status frame_append(struct frame *frame, const struct frame *more)
{
    RS_CHECK(strcmp(frame->kinds, more->kinds) == 0);
    rs_str *map = rs_mem_calloc(more->texts.count, sizeof *map);
    enum rs_status status = map ? RS_OK : RS_NOMEM;
    for (size_t i = 0; i < more->texts.count && status == RS_OK; i++)
        status = rs_strtab_add(&frame->texts, rs_strtab_text(&more->texts, (rs_str)i),
                               rs_strtab_length(&more->texts, (rs_str)i), &map[i]);
    for (size_t r = 0; r < more->count && status == RS_OK; r++) {
        union frame_cell *row = frame_add(frame);
        if (!row) {
            status = RS_NOMEM;
            break;
        }
        const union frame_cell *from = frame_row(more, r);
        for (size_t c = 0; c < frame->columns; c++) {
            row[c] = from[c];
            if (frame->kinds[c] == 't')
                row[c].t = translate(from[c].t, map);
        }
    }
    rs_mem_free(map);
    return status;
}

static enum rs_status load_cell(struct frame *frame, size_t column, sqlite3_stmt *stmt,
                                union frame_cell *cell)
{
    const int at = (int)column;
    const bool is_null = sqlite3_column_type(stmt, at) == SQLITE_NULL;
    switch (frame->kinds[column]) {
    case 'i':
        cell->i = RS_NULL;
        return is_null || rs_ascend_column_int(stmt, at, &cell->i) ? RS_OK : RS_FORMAT;
    case 'r':
        cell->r = is_null ? (double)NAN : sqlite3_column_double(stmt, at);
        return RS_OK;
    default:
        cell->t = RS_STR_NONE;
        if (is_null)
            return RS_OK;
        const char *text = rs_ascend_column_text(stmt, at); /* before _bytes, as SQLite asks */
        return rs_strtab_add(&frame->texts, text, (size_t)sqlite3_column_bytes(stmt, at), &cell->t);
    }
}

enum rs_status frame_take(struct frame *frame, sqlite3_stmt *stmt)
{
    union frame_cell *row = frame_add(frame);
    enum rs_status status = row ? RS_OK : RS_NOMEM;
    for (size_t c = 0; c < frame->columns && status == RS_OK; c++)
        status = load_cell(frame, c, stmt, &row[c]);
    return status;
}

static int compare_texts(const void *a, const void *b, void *data)
{
    const struct rs_strtab *texts = data;
    const struct rs_strtab_entry *x = &texts->entries[*(const uint32_t *)a];
    const struct rs_strtab_entry *y = &texts->entries[*(const uint32_t *)b];
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = shorter ? memcmp(x->text, y->text, shorter) : 0;
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* ranks[id] = place of the text among all; NULL: no memory. */
static uint32_t *rank_texts(struct rs_strtab *texts)
{
    uint32_t *ids = rs_mem_calloc(texts->count, sizeof *ids);
    uint32_t *ranks = rs_mem_calloc(texts->count, sizeof *ranks);
    if (!ids || !ranks) {
        rs_mem_free(ids);
        rs_mem_free(ranks);
        return NULL;
    }
    for (size_t i = 0; i < texts->count; i++)
        ids[i] = (uint32_t)i;
    qsort_r(ids, texts->count, sizeof *ids, compare_texts, texts);
    for (size_t i = 0; i < texts->count; i++)
        ranks[ids[i]] = (uint32_t)i;
    rs_mem_free(ids);
    return ranks;
}

/* Bits that are ordered, as unsigned numbers, like the cells. `ranks`: of texts, in byte order; what is no text comes last. */
static uint64_t bits_of(char kind, const union frame_cell *cell, const uint32_t *ranks)
{
    const uint64_t sign = UINT64_C(1) << 63;
    uint64_t bits;
    if (kind == 't')
        return !ranks || cell->t == RS_STR_NONE ? UINT32_MAX : ranks[cell->t];
    if (kind == 'i')
        return (uint64_t)cell->i ^ sign;
    const double value = cell->r + 0.0; /* -0 is 0 */
    memcpy(&bits, &value, sizeof bits);
    return bits & sign ? ~bits : bits | sign;
}

struct keyed {
    uint64_t key;
    uint32_t row;
};

/* Orders by the key, byte after byte from the lowest; equal ones stay as they are. Where it came to lie. */
static struct keyed *sort_keyed(struct keyed *rows, struct keyed *other, size_t count)
{
    enum { BYTE = 8, VALUES = 1 << BYTE };
    for (unsigned shift = 0; shift < 64; shift += BYTE) {
        size_t places[VALUES] = {0}, at = 0;
        for (size_t i = 0; i < count; i++)
            places[rows[i].key >> shift & (VALUES - 1)]++;
        if (places[rows[0].key >> shift & (VALUES - 1)] == count)
            continue; /* the byte is the same in all of them */
        for (size_t value = 0; value < VALUES; value++) {
            const size_t own = places[value];
            places[value] = at;
            at += own;
        }
        for (size_t i = 0; i < count; i++)
            other[places[rows[i].key >> shift & (VALUES - 1)]++] = rows[i];
        struct keyed *swap = rows;
        rows = other;
        other = swap;
    }
    return rows;
}

static bool has_text(const struct frame *frame, const char *keys)
{
    for (; *keys; keys++)
        if (frame->kinds[*keys - 1] == 't')
            return true;
    return false;
}

/* By the last key first: each further one keeps what is equal to it in the order of those behind. */
static void sort_rows(const struct frame *frame, const char *keys, const uint32_t *ranks,
                      struct keyed *buffer, uint32_t *rows)
{
    for (size_t k = strlen(keys); k-- > 0;) {
        const size_t column = (size_t)(keys[k] - 1);
        for (size_t i = 0; i < frame->count; i++)
            buffer[i] = (struct keyed){
                bits_of(frame->kinds[column], frame_row(frame, rows[i]) + column, ranks), rows[i]};
        const struct keyed *sorted = sort_keyed(buffer, buffer + frame->count, frame->count);
        for (size_t i = 0; i < frame->count; i++)
            rows[i] = sorted[i].row;
    }
}

enum rs_status frame_order(const struct frame *frame, const char *keys, struct frame_order *order_p)
{
    RS_CHECK(strlen(keys) < sizeof order_p->keys);
    *order_p = (struct frame_order){0};
    struct rs_strtab texts = frame->texts; /* read only; entries are shared */
    if (frame->count > UINT32_MAX)
        return RS_LIMIT;
    const bool is_ranked = has_text(frame, keys);
    uint32_t *ranks = is_ranked ? rank_texts(&texts) : NULL;
    uint32_t *rows = rs_mem_calloc(frame->count ? frame->count : 1, sizeof *rows);
    struct keyed *buffer = rs_mem_calloc(2 * frame->count + 1, sizeof *buffer);
    const bool is_made = rows && buffer && (ranks || !is_ranked);
    if (is_made) {
        for (size_t i = 0; i < frame->count; i++)
            rows[i] = (uint32_t)i;
        if (frame->count)
            sort_rows(frame, keys, ranks, buffer, rows);
        *order_p = (struct frame_order){.rows = rows, .count = frame->count};
        memcpy(order_p->keys, keys, strlen(keys) + 1);
    } else {
        rs_mem_free(rows);
    }
    rs_mem_free(buffer);
    rs_mem_free(ranks);
    return is_made ? RS_OK : RS_NOMEM;
}

void frame_order_fini(struct frame_order *order)
{
    rs_mem_free(order->rows);
    *order = (struct frame_order){0};
}

enum rs_status db_requires(struct rs_ascend_db *db, const char *list, struct rs_err *err)
{
    char word[128];
    for (const char *p = list; *p;) {
        const size_t length = strcspn(p, " ");
        if (length >= sizeof word)
            return rs_err_set(err, RS_INVALID, "too long a name in %s", list);
        memcpy(word, p, length);
        word[length] = '\0';
        p += length + (p[length] == ' ');
        char *dot = strchr(word, '.');
        RS_CHECK(dot);
        *dot = '\0';
        if (!rs_ascend_db_has_table(db, word))
            return rs_err_set(err, RS_NOTFOUND, "%s has no table %s", rs_ascend_db_path(db), word);
        if (!rs_ascend_db_has_column(db, word, dot + 1))
            return rs_err_set(err, RS_NOTFOUND, "table %s of %s has no column %s", word,
                              rs_ascend_db_path(db), dot + 1);
    }
    return RS_OK;
}
