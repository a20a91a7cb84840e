/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of `extra`: templates and numbers (FORMAT.md, "Extra").
 *
 *     "Ev Idx": 7431, "cbid": 211     ->  template  "Ev Idx": #, "cbid": #     numbers 7431 211
 *
 * Rows of one template have their numbers in columns, where they count up or repeat. A run of digits
 * is a number only when printing it again gives the same digits (no leading zero, at most 18), so any
 * bytes come back as they were. Templates live as long as a chunk.
 */
#include "common/base/mem.h"
#include "common/chunk/chunk_priv.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    MARK_NUMBER = 0, /* in a template: a number stands here */
    MARK_BYTE = 1,   /* in a template: the next byte is itself (it is 0 or 1) */
    DIGITS_MAX = 18,
    SLACK = 32, /* bytes that short copies may touch behind their end */
    DIGITS_ROOM = 20,
    LOOSE_ROWS = 3, /* templates of so few rows do not get columns */
    FIRST_SLOTS = 1024,
};

/* Plain text between two numbers of a template. */
struct piece {
    uint32_t offset; /* into text */
    uint32_t length;
};

struct text_template {
    uint32_t offset; /* into text; when reading: the first of its numbers + 1 pieces */
    uint32_t length;
    uint32_t numbers; /* per row */
    uint32_t rows;
    uint32_t first_number; /* into sorted */
    uint32_t next;         /* row in turn, while numbers are dealt out */
    uint32_t hash;
};

struct extra_coder {
    size_t row_capacity;
    uint32_t *templates;    /* [row_capacity] 0 or template + 1 */
    uint32_t *first_number; /* [row_capacity] into numbers */
    struct rs_buf text;     /* of all templates; when reading: of all pieces, and slack */
    struct piece *pieces;   /* when reading */
    size_t piece_count, piece_capacity;
    uint64_t text_bytes; /* of all rows */
    struct text_template *items;
    size_t count, capacity;
    uint32_t *slots; /* open addressing, template + 1 */
    size_t slot_count;
    uint64_t *numbers; /* as they come in the rows */
    size_t number_count, number_capacity;
    uint64_t *sorted; /* by template, number, row */
    size_t sorted_capacity;
};

void extra_free(struct extra_coder **coder_p)
{
    struct extra_coder *coder = *coder_p;
    if (!coder)
        return;
    rs_mem_free(coder->templates);
    rs_mem_free(coder->first_number);
    rs_buf_fini(&coder->text);
    rs_mem_free(coder->pieces);
    rs_mem_free(coder->items);
    rs_mem_free(coder->slots);
    rs_mem_free(coder->numbers);
    rs_mem_free(coder->sorted);
    rs_mem_free(coder);
    *coder_p = NULL;
}

enum rs_status extra_new(size_t rows, struct extra_coder **coder_p)
{
    struct extra_coder *coder = rs_mem_calloc(1, sizeof *coder);
    if (!coder)
        return RS_NOMEM;
    coder->row_capacity = rows;
    coder->templates = rs_mem_calloc(rows, sizeof *coder->templates);
    coder->first_number = rs_mem_calloc(rows, sizeof *coder->first_number);
    coder->slots = rs_mem_calloc(FIRST_SLOTS, sizeof *coder->slots);
    coder->slot_count = FIRST_SLOTS;
    if (!coder->templates || !coder->first_number || !coder->slots) {
        extra_free(&coder);
        return RS_NOMEM;
    }
    *coder_p = coder;
    return RS_OK;
}

static bool is_digit(uint8_t byte)
{
    return (uint8_t)(byte - '0') < 10;
}

/* How many of the next eight bytes stand in a template as they are: no digit, no mark. */
static size_t plain_bytes(const uint8_t *text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)text[i] << (8 * i);
    const uint64_t digits = word ^ (ones * '0'); /* a digit: below 10 */
    /* the lowest bit set is exact: a borrow only goes upwards */
    const uint64_t found =
        (((digits - ones * 10) & ~digits) | ((word - ones * (MARK_BYTE + 1)) & ~word)) &
        (ones * 128);
    return found ? (size_t)__builtin_ctzll(found) / 8 : 8;
}

/* Writes the text's template to `to` (room for twice its length) and its numbers; the template's
 * length. */
static size_t split_text(const uint8_t *text, size_t length, uint8_t *to, uint64_t *numbers,
                         size_t *number_count)
{
    size_t used = 0;
    size_t found = 0;
    for (size_t i = 0; i < length;) {
        const size_t plain = length - i >= 8 ? plain_bytes(text + i) : 0;
        if (plain) {
            memcpy(to + used, text + i, 8); /* what is too much is written over */
            used += plain;
            i += plain;
            continue;
        }
        const uint8_t byte = text[i];
        if (!is_digit(byte)) {
            if (byte <= MARK_BYTE)
                to[used++] = MARK_BYTE;
            to[used++] = byte;
            i++;
            continue;
        }
        size_t end = i + 1;
        uint64_t value = (uint64_t)(byte - '0');
        for (; end < length && is_digit(text[end]); end++)
            value = value * 10 + (uint64_t)(text[end] - '0');
        if (end - i <= DIGITS_MAX && (byte != '0' || end == i + 1)) {
            to[used++] = MARK_NUMBER;
            numbers[found++] = value;
        } else {
            memcpy(to + used, text + i, end - i);
            used += end - i;
        }
        i = end;
    }
    *number_count = found;
    return used;
}

static enum rs_status double_slots(struct extra_coder *coder)
{
    const size_t slot_count = coder->slot_count * 2;
    uint32_t *slots = rs_mem_calloc(slot_count, sizeof *slots);
    if (!slots)
        return RS_NOMEM;
    for (size_t i = 0; i < coder->count; i++) {
        size_t slot = coder->items[i].hash & (slot_count - 1);
        while (slots[slot])
            slot = (slot + 1) & (slot_count - 1);
        slots[slot] = (uint32_t)i + 1;
    }
    rs_mem_free(coder->slots);
    coder->slots = slots;
    coder->slot_count = slot_count;
    return RS_OK;
}

/* The template at the end of `text` that is not committed yet: known or new. */
static enum rs_status find_template(struct extra_coder *coder, size_t length, size_t numbers,
                                    uint32_t *index_p)
{
    const uint8_t *text = coder->text.data + coder->text.length;
    const uint32_t hash = (uint32_t)XXH3_64bits(text, length);
    size_t slot = hash & (coder->slot_count - 1);
    for (; coder->slots[slot]; slot = (slot + 1) & (coder->slot_count - 1)) {
        const uint32_t index = coder->slots[slot] - 1;
        const struct text_template *known = &coder->items[index];
        if (known->hash == hash && known->length == length &&
            memcmp(coder->text.data + known->offset, text, length) == 0) {
            *index_p = index;
            return RS_OK;
        }
    }
    if (rs_mem_grow((void **)&coder->items, &coder->capacity, coder->count + 1,
                    sizeof *coder->items) != RS_OK)
        return RS_NOMEM;
    coder->items[coder->count] = (struct text_template){.offset = (uint32_t)coder->text.length,
                                                        .length = (uint32_t)length,
                                                        .numbers = (uint32_t)numbers,
                                                        .hash = hash};
    coder->slots[slot] = (uint32_t)coder->count + 1;
    *index_p = (uint32_t)coder->count++;
    rs_buf_commit(&coder->text, length);
    return coder->count * 2 > coder->slot_count ? double_slots(coder) : RS_OK;
}

static enum rs_status split_row(struct extra_coder *coder, const struct rs_batch *batch, size_t row)
{
    const size_t length = batch->extra_length[row];
    coder->templates[row] = 0;
    if (!length)
        return RS_OK;
    uint8_t *to = rs_buf_reserve(&coder->text, length * 2);
    if (!to || rs_mem_grow((void **)&coder->numbers, &coder->number_capacity,
                           coder->number_count + length, sizeof *coder->numbers) != RS_OK)
        return RS_NOMEM;
    const uint8_t *text = (const uint8_t *)batch->extra + batch->extra_offset[row];
    size_t numbers;
    uint32_t index;
    const size_t used =
        split_text(text, length, to, coder->numbers + coder->number_count, &numbers);
    if (find_template(coder, used, numbers, &index) != RS_OK)
        return RS_NOMEM;
    coder->templates[row] = index + 1;
    coder->first_number[row] = (uint32_t)coder->number_count;
    coder->items[index].rows++;
    coder->number_count += numbers;
    coder->text_bytes += length;
    return RS_OK;
}

static void forget_templates(struct extra_coder *coder)
{
    memset(coder->slots, 0, coder->slot_count * sizeof *coder->slots);
    rs_buf_reset(&coder->text);
    coder->text_bytes = 0;
    coder->count = 0;
    coder->number_count = 0;
}

enum rs_status extra_split(struct extra_coder *coder, const struct rs_batch *batch,
                           const uint32_t **templates_p)
{
    forget_templates(coder);
    for (size_t row = 0; row < batch->count; row++) {
        if (split_row(coder, batch, row) != RS_OK)
            return RS_NOMEM;
    }
    *templates_p = coder->templates;
    return RS_OK;
}

/* Where each template's numbers stand in `sorted`; how many there are, or SIZE_MAX past the limit. */
static size_t place_numbers(struct extra_coder *coder, uint64_t limit)
{
    uint64_t total = 0;
    for (size_t i = 0; i < coder->count; i++) {
        struct text_template *item = &coder->items[i];
        item->first_number = (uint32_t)total;
        item->next = 0;
        total += (uint64_t)item->numbers * item->rows;
        if (total > limit)
            return SIZE_MAX;
    }
    return (size_t)total;
}

static void encode_numbers(const uint64_t *values, size_t count, uint64_t *stored,
                           struct rs_buf *directory, struct rs_buf *data)
{
    if (count <= LOOSE_ROWS) {
        for (size_t i = 0; i < count; i++)
            rs_buf_varint(directory, values[i]);
        return;
    }
    const size_t at = directory->length;
    rs_buf_u8(directory, 0);
    rs_buf_varint(directory, values[0]);
    uint64_t before = values[0];
    for (size_t i = 0; i < count; i++) {
        stored[i] = zigzag(values[i] - before);
        before = values[i];
    }
    const enum encoding encoding = ints_encode(stored, count, false, directory, data);
    if (!directory->failed)
        directory->data[at] = (uint8_t)(PREDICT_PREVIOUS << 4 | encoding);
}

void extra_encode(struct extra_coder *coder, size_t rows, struct rs_buf *directory,
                  struct rs_buf *data)
{
    rs_buf_varint(directory, coder->count);
    if (!coder->count)
        return;
    rs_buf_varint(directory, coder->text_bytes);
    for (size_t i = 0; i < coder->count; i++)
        rs_buf_varint(directory, coder->items[i].length);
    rs_buf_bytes(data, coder->text.data, coder->text.length);
    const size_t total = place_numbers(coder, UINT32_MAX);
    /* `sorted` holds one column more: room for what is stored of the column in turn */
    if (total == SIZE_MAX || rs_mem_grow((void **)&coder->sorted, &coder->sorted_capacity,
                                         total + rows, sizeof *coder->sorted) != RS_OK) {
        directory->failed = true;
        return;
    }
    for (size_t row = 0; row < rows; row++) {
        if (!coder->templates[row])
            continue;
        struct text_template *item = &coder->items[coder->templates[row] - 1];
        const uint64_t *numbers = coder->numbers + coder->first_number[row];
        uint64_t *to = coder->sorted + item->first_number + item->next++;
        for (size_t n = 0; n < item->numbers; n++)
            to[n * item->rows] = numbers[n];
    }
    for (size_t i = 0; i < coder->count; i++) {
        const struct text_template *item = &coder->items[i];
        for (size_t n = 0; n < item->numbers; n++)
            encode_numbers(coder->sorted + item->first_number + n * item->rows, item->rows,
                           coder->sorted + total, directory, data);
    }
}

static enum rs_status decode_numbers(uint64_t *values_p, size_t count, struct rs_view *directory,
                                     struct rs_view *data)
{
    if (count <= LOOSE_ROWS) {
        for (size_t i = 0; i < count; i++)
            values_p[i] = rs_view_varint(directory);
        return directory->failed ? RS_FORMAT : RS_OK;
    }
    const uint8_t descriptor = rs_view_u8(directory);
    uint64_t before = rs_view_varint(directory);
    if (descriptor >> 4 != PREDICT_PREVIOUS ||
        ints_decode((enum encoding)(descriptor & 15), count, values_p, directory, data) != RS_OK)
        return RS_FORMAT;
    for (size_t i = 0; i < count; i++)
        values_p[i] = before += unzigzag(values_p[i]);
    return RS_OK;
}

/* Cuts a template into the pieces between its numbers, which go to `text` without escapes. */
static enum rs_status cut_template(struct extra_coder *coder, struct rs_view from,
                                   struct text_template *item)
{
    if (rs_mem_grow((void **)&coder->pieces, &coder->piece_capacity,
                    coder->piece_count + from.length + 1, sizeof *coder->pieces) != RS_OK)
        return RS_NOMEM;
    uint8_t *to = rs_buf_reserve(&coder->text, from.length + SLACK);
    if (!to)
        return RS_NOMEM;
    size_t used = 0;
    struct piece *piece = &coder->pieces[coder->piece_count];
    *piece = (struct piece){.offset = (uint32_t)coder->text.length};
    *item = (struct text_template){.offset = (uint32_t)coder->piece_count};
    for (size_t i = 0; i < from.length; i++) {
        if (from.data[i] == MARK_NUMBER) {
            piece->length = (uint32_t)(coder->text.length + used - piece->offset);
            *++piece = (struct piece){.offset = (uint32_t)(coder->text.length + used)};
            item->numbers++;
            continue;
        }
        if (from.data[i] == MARK_BYTE && (++i == from.length || from.data[i] > MARK_BYTE))
            return RS_FORMAT;
        to[used++] = from.data[i];
    }
    piece->length = (uint32_t)(coder->text.length + used - piece->offset);
    coder->piece_count += item->numbers + 1;
    rs_buf_commit(&coder->text, used);
    return RS_OK;
}

static enum rs_status read_templates(struct extra_coder *coder, size_t count,
                                     struct rs_view *directory, struct rs_view *data)
{
    if (rs_mem_grow((void **)&coder->items, &coder->capacity, count, sizeof *coder->items) != RS_OK)
        return RS_NOMEM;
    coder->piece_count = 0;
    rs_buf_reset(&coder->text);
    for (size_t i = 0; i < count; i++) {
        const uint64_t length = rs_view_varint(directory);
        if (directory->failed || !length || length > data->length)
            return RS_FORMAT;
        const enum rs_status status =
            cut_template(coder, rs_view_take(data, (size_t)length), &coder->items[i]);
        if (status != RS_OK)
            return status;
    }
    coder->count = count;
    return RS_OK;
}

static enum rs_status read_numbers(struct extra_coder *coder, uint64_t limit,
                                   struct rs_view *directory, struct rs_view *data)
{
    const size_t total = place_numbers(coder, limit);
    if (total == SIZE_MAX)
        return RS_FORMAT;
    if (rs_mem_grow((void **)&coder->sorted, &coder->sorted_capacity, total + 1,
                    sizeof *coder->sorted) != RS_OK)
        return RS_NOMEM;
    for (size_t i = 0; i < coder->count; i++) {
        const struct text_template *item = &coder->items[i];
        if (!item->rows)
            return RS_FORMAT;
        for (size_t n = 0; n < item->numbers; n++) {
            if (decode_numbers(coder->sorted + item->first_number + n * item->rows, item->rows,
                               directory, data) != RS_OK)
                return RS_FORMAT;
        }
    }
    return RS_OK;
}

static size_t print_number(uint64_t value, uint8_t *to)
{
    if (value < 10) {
        to[0] = (uint8_t)('0' + value);
        return 1;
    }
    uint8_t digits[DIGITS_ROOM];
    size_t first = DIGITS_ROOM;
    for (; value; value /= 10)
        digits[--first] = (uint8_t)('0' + value % 10);
    memcpy(to, digits + first, DIGITS_ROOM - first);
    return DIGITS_ROOM - first;
}

/* Most pieces are short: sixteen bytes at once, what is too much is written over or is slack. */
static void copy_piece(uint8_t *to, const uint8_t *from, size_t length)
{
    memcpy(to, from, 16);
    if (length > 16)
        memcpy(to + 16, from + 16, length - 16);
}

/* Rebuilds one row's text at `to`, which has SLACK behind `room`; its length, or SIZE_MAX when there is no
 * room. */
static size_t join_row(struct extra_coder *coder, uint32_t index, uint8_t *to, size_t room)
{
    struct text_template *item = &coder->items[index];
    const uint8_t *text = coder->text.data;
    const struct piece *piece = &coder->pieces[item->offset];
    const struct piece *const last = piece + item->numbers;
    const size_t stride = item->rows;
    size_t number = item->first_number + item->next++;
    size_t used = 0;
    for (;; piece++, number += stride) {
        if (piece->length > room - used)
            return SIZE_MAX;
        copy_piece(to + used, text + piece->offset, piece->length);
        used += piece->length;
        if (piece == last)
            return used;
        if (room - used >= DIGITS_ROOM) {
            used += print_number(coder->sorted[number], to + used);
            continue;
        }
        uint8_t digits[DIGITS_ROOM];
        const size_t length = print_number(coder->sorted[number], digits);
        if (length > room - used)
            return SIZE_MAX;
        memcpy(to + used, digits, length);
        used += length;
    }
}

static enum rs_status join_rows(struct extra_coder *coder, const uint32_t *templates,
                                struct rs_batch *batch, size_t text_bytes)
{
    if (rs_mem_grow((void **)&batch->extra, &batch->extra_capacity, text_bytes + SLACK, 1) != RS_OK)
        return RS_NOMEM;
    size_t used = 0;
    for (size_t row = 0; row < batch->count; row++) {
        batch->extra_offset[row] = batch->extra_length[row] = 0;
        if (!templates[row])
            continue;
        const size_t length =
            join_row(coder, templates[row] - 1, (uint8_t *)batch->extra + used, text_bytes - used);
        if (length == SIZE_MAX)
            return RS_FORMAT;
        batch->extra_offset[row] = (uint32_t)used;
        batch->extra_length[row] = (uint32_t)length;
        used += length;
    }
    batch->extra_bytes = used;
    return used == text_bytes ? RS_OK : RS_FORMAT;
}

enum rs_status extra_decode(struct extra_coder *coder, const uint32_t *templates,
                            struct rs_batch *batch, struct rs_view *directory, struct rs_view *data)
{
    coder->count = 0;
    const uint64_t count = rs_view_varint(directory);
    const uint64_t text_bytes = count ? rs_view_varint(directory) : 0;
    if (directory->failed || count > batch->count || text_bytes > RS_CHUNK_EXTRA_MAX_BYTES)
        return RS_FORMAT;
    enum rs_status status = read_templates(coder, (size_t)count, directory, data);
    if (status != RS_OK)
        return status;
    for (size_t row = 0; row < batch->count; row++) {
        if (templates[row] > count)
            return RS_FORMAT;
        if (templates[row])
            coder->items[templates[row] - 1].rows++;
    }
    status = read_numbers(coder, text_bytes, directory, data);
    return status == RS_OK ? join_rows(coder, templates, batch, (size_t)text_bytes) : status;
}
