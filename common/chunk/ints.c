/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of integers: four ways to write them, and the choice.
 *
 * zstd works behind this file, so the question is not how short a stream is but how well its
 * bytes can be guessed. Byte planes keep the noise of true ns stamps in one plane and leave the
 * others nearly constant; varints win where values are small with rare large ones. The choice is made by
 * the order-0 entropy of a sample, in integers, so that every machine chooses the same.
 */
#include "common/chunk/chunk_priv.h"

#include <string.h>

enum {
    SAMPLE = 512,
    INDEX_MAX = 256,
    INDEX_SLOTS = 1024, /* power of two, so that probes stay short at 256 values */
    VARINT_MAX_BYTES = 10,
};

static size_t byte_width(uint64_t all_bits)
{
    return all_bits ? (size_t)(64 - __builtin_clzll(all_bits) + 7) / 8 : 1;
}

/* 256 * log2(n), good to 0.09 bits; n >= 1. */
static uint64_t log2_scaled(uint64_t n)
{
    const unsigned whole = 63u - (unsigned)__builtin_clzll(n);
    const uint64_t fraction = whole >= 8 ? (n >> (whole - 8)) & 255 : (n << (8 - whole)) & 255;
    return (uint64_t)whole * 256 + fraction;
}

/* Bits * 256 that an order-0 coder needs for bytes counted in `counts`. */
static uint64_t entropy_scaled(const uint16_t counts[256], uint64_t total)
{
    uint64_t bits = 0;
    const uint64_t log_total = log2_scaled(total);
    for (size_t i = 0; i < 256; i++) {
        if (counts[i])
            bits += counts[i] * (log_total - log2_scaled(counts[i]));
    }
    return bits;
}

static uint64_t planes_cost(const uint64_t *values, size_t count, size_t width)
{
    uint64_t cost = 0;
    for (size_t plane = 0; plane < width; plane++) {
        uint16_t counts[256] = {0};
        for (size_t i = 0; i < count; i++)
            counts[(values[i] >> (8 * plane)) & 255]++;
        cost += entropy_scaled(counts, count) + count * 16; /* a constant plane is not quite free */
    }
    return cost;
}

static uint64_t varint_cost(const uint64_t *values, size_t count)
{
    uint16_t counts[256] = {0};
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t rest = values[i];
        for (; rest >= 128; rest >>= 7, total++)
            counts[(rest & 127) | 128]++;
        counts[rest]++;
        total++;
    }
    return entropy_scaled(counts, total);
}

static bool planes_are_better(const uint64_t *values, size_t count, size_t width)
{
    if (width == 1)
        return true;
    if (count < 32)
        return false;
    const size_t taken = count < SAMPLE ? count : SAMPLE;
    const uint64_t *sample = values + (count - taken) / 2;
    return planes_cost(sample, taken, width) < varint_cost(sample, taken);
}

void ints_varints(const uint64_t *values, size_t count, struct rs_buf *buf)
{
    uint8_t *const start = rs_buf_reserve(buf, count * VARINT_MAX_BYTES);
    if (!start)
        return;
    uint8_t *at = start;
    for (size_t i = 0; i < count; i++) {
        uint64_t rest = values[i];
        for (; rest >= 128; rest >>= 7)
            *at++ = (uint8_t)(rest | 128);
        *at++ = (uint8_t)rest;
    }
    rs_buf_commit(buf, (size_t)(at - start));
}

static void put_planes(const uint64_t *values, size_t count, size_t width, struct rs_buf *data)
{
    uint8_t *at = rs_buf_reserve(data, count * width);
    if (!at)
        return;
    for (size_t plane = 0; plane < width; plane++, at += count) {
        const unsigned shift = (unsigned)plane * 8;
        for (size_t i = 0; i < count; i++)
            at[i] = (uint8_t)(values[i] >> shift);
    }
    rs_buf_commit(data, count * width);
}

/* The values by order of first appearance; false when there are more than INDEX_MAX. */
static bool put_index(const uint64_t *values, size_t count, struct rs_buf *directory,
                      struct rs_buf *data)
{
    uint64_t keys[INDEX_SLOTS];
    uint16_t slots[INDEX_SLOTS] = {0}; /* index + 1 */
    uint64_t distinct[INDEX_MAX];
    size_t distinct_count = 0;
    uint8_t *at = rs_buf_reserve(data, count);
    if (!at)
        return true;
    for (size_t i = 0; i < count; i++) {
        size_t slot = (size_t)((values[i] * UINT64_C(0x9e3779b97f4a7c15)) >> 54);
        while (slots[slot] && keys[slot] != values[i])
            slot = (slot + 1) & (INDEX_SLOTS - 1);
        if (!slots[slot]) {
            if (distinct_count == INDEX_MAX)
                return false;
            keys[slot] = values[i];
            distinct[distinct_count++] = values[i];
            slots[slot] = (uint16_t)distinct_count;
        }
        at[i] = (uint8_t)(slots[slot] - 1);
    }
    rs_buf_commit(data, count);
    rs_buf_varint(directory, distinct_count);
    uint64_t before = 0;
    for (size_t i = 0; i < distinct_count; i++) {
        rs_buf_zigzag(directory, (int64_t)(distinct[i] - before));
        before = distinct[i];
    }
    return true;
}

enum encoding ints_encode(const uint64_t *values, size_t count, bool may_index,
                          struct rs_buf *directory, struct rs_buf *data)
{
    uint64_t differing = 0;
    uint64_t all_bits = 0;
    for (size_t i = 0; i < count; i++) {
        differing |= values[i] ^ values[0];
        all_bits |= values[i];
    }
    if (!differing) {
        rs_buf_varint(directory, values[0]);
        return ENCODE_CONST;
    }
    const size_t width = byte_width(all_bits);
    if (may_index && width > 1 && count >= 64 && put_index(values, count, directory, data))
        return ENCODE_INDEX;
    if (planes_are_better(values, count, width)) {
        rs_buf_varint(directory, width);
        put_planes(values, count, width, data);
        return ENCODE_PLANES;
    }
    const size_t before = data->length;
    ints_varints(values, count, data);
    rs_buf_varint(directory, data->length - before);
    return ENCODE_VARINT;
}

enum rs_status ints_read_varints(struct rs_view *view, size_t count, uint64_t *values_p)
{
    const uint8_t *at = view->data;
    const uint8_t *const end = view->data + view->length;
    size_t i = 0;
    while (i < count && end - at >= VARINT_MAX_BYTES) {
        uint64_t value = *at++;
        if (value >= 128) {
            value &= 127;
            unsigned shift = 7;
            uint64_t byte;
            do {
                byte = *at++;
                value |= (byte & 127) << shift;
                shift += 7;
            } while (byte >= 128 && shift < 70);
            if (byte >= 128 || (shift == 70 && byte > 1))
                return RS_FORMAT;
        }
        values_p[i++] = value;
    }
    struct rs_view rest = rs_view_of(at, (size_t)(end - at));
    for (; i < count; i++)
        values_p[i] = rs_view_varint(&rest);
    if (rest.failed)
        return RS_FORMAT;
    *view = rest;
    return RS_OK;
}

static enum rs_status read_planes(size_t count, uint64_t *values_p, struct rs_view *directory,
                                  struct rs_view *data)
{
    const uint64_t width = rs_view_varint(directory);
    if (directory->failed || width < 1 || width > 8)
        return RS_FORMAT;
    const struct rs_view planes = rs_view_take(data, count * (size_t)width);
    if (planes.failed)
        return RS_FORMAT;
    const uint8_t *at = planes.data;
    for (size_t i = 0; i < count; i++)
        values_p[i] = at[i];
    for (unsigned plane = 1; plane < width; plane++) {
        at += count;
        for (size_t i = 0; i < count; i++)
            values_p[i] |= (uint64_t)at[i] << (8 * plane);
    }
    return RS_OK;
}

static enum rs_status read_index(size_t count, uint64_t *values_p, struct rs_view *directory,
                                 struct rs_view *data)
{
    uint64_t distinct[INDEX_MAX] = {0};
    const uint64_t distinct_count = rs_view_varint(directory);
    if (distinct_count > INDEX_MAX)
        return RS_FORMAT;
    uint64_t before = 0;
    for (size_t i = 0; i < distinct_count; i++) {
        before += (uint64_t)rs_view_zigzag(directory);
        distinct[i] = before;
    }
    const struct rs_view bytes = rs_view_take(data, count);
    if (directory->failed || bytes.failed)
        return RS_FORMAT;
    uint8_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = bytes.data[i] > largest ? bytes.data[i] : largest;
        values_p[i] = distinct[bytes.data[i]];
    }
    return largest < distinct_count ? RS_OK : RS_FORMAT;
}

static enum rs_status read_varint_stream(size_t count, uint64_t *values_p,
                                         struct rs_view *directory, struct rs_view *data)
{
    const uint64_t bytes = rs_view_varint(directory);
    if (directory->failed || bytes > data->length)
        return RS_FORMAT;
    struct rs_view stream = rs_view_take(data, (size_t)bytes);
    const enum rs_status status = ints_read_varints(&stream, count, values_p);
    return status == RS_OK && stream.length ? RS_FORMAT : status;
}

enum rs_status ints_decode(enum encoding encoding, size_t count, uint64_t *values_p,
                           struct rs_view *directory, struct rs_view *data)
{
    switch (encoding) {
    case ENCODE_CONST: {
        const uint64_t value = rs_view_varint(directory);
        for (size_t i = 0; i < count; i++)
            values_p[i] = value;
        return directory->failed ? RS_FORMAT : RS_OK;
    }
    case ENCODE_VARINT:
        return read_varint_stream(count, values_p, directory, data);
    case ENCODE_PLANES:
        return read_planes(count, values_p, directory, data);
    case ENCODE_INDEX:
        return read_index(count, values_p, directory, data);
    case ENCODING_COUNT:
        break;
    }
    return RS_FORMAT;
}
