/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Total Op Info" of one rank: sums over its operations per step and group, in the file's order.
 *
 * The text tools add floats one after another. The table tools group data frames, which
 * compensate (Kahan), and sum a transport's sizes and times as arrays, which add pairwise: eight running
 * sums up to 128 terms, halves above. All three are kept, since both forms can be asked for and their
 * last digits are part of the answer.
 */
#include "aggregator/cluster/cluster_priv.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

void totals_fini(struct totals *totals)
{
    rs_mem_free(totals->rows);
    rs_mem_free(totals->bands);
    rs_mem_free(totals->packages);
    *totals = (struct totals){0};
}

void sum_add(struct sum *sum, const struct rs_vendor_num *num)
{
    const double value = rs_vendor_num_double(num);
    const double next = value - sum->dirt, total = sum->kahan + next;
    sum->dirt = (total - sum->kahan) - next;
    sum->kahan = total;
    sum->plain += value;
    if (!rs_vendor_num_is_int(num) || fabs(value) > 1e15 ||
        (sum->whole > 0 ? sum->whole : -sum->whole) > INT64_C(1) << 60)
        sum->is_float = true;
    else
        sum->whole += (int64_t)value;
}

struct rs_vendor_num sum_text(const struct sum *sum)
{
    return sum->is_float ? rs_vendor_num_of_double(sum->plain) : rs_vendor_num_of_int(sum->whole);
}

/* Few per rank (steps x groups), and the next operation's is mostly near the last one's. */
static struct total *find_total(struct totals *totals, rs_str step, rs_str group)
{
    for (size_t i = totals->count; i-- > 0;)
        if (totals->rows[i].group == group && totals->rows[i].step == step)
            return &totals->rows[i];
    if (rs_mem_grow((void **)&totals->rows, &totals->capacity, totals->count + 1,
                    sizeof *totals->rows) != RS_OK)
        return NULL;
    totals->rows[totals->count] =
        (struct total){.step = step, .group = group, .first = NO_INDEX, .last = NO_INDEX};
    return &totals->rows[totals->count++];
}

static struct band_total *find_band(struct totals *totals, struct total *total, rs_str transport)
{
    for (uint32_t i = total->first; i != NO_INDEX; i = totals->bands[i].next)
        if (totals->bands[i].transport == transport)
            return &totals->bands[i];
    if (totals->band_count >= NO_INDEX ||
        rs_mem_grow((void **)&totals->bands, &totals->band_capacity, totals->band_count + 1,
                    sizeof *totals->bands) != RS_OK)
        return NULL;
    const uint32_t index = (uint32_t)totals->band_count++;
    totals->bands[index] = (struct band_total){
        .transport = transport, .first = NO_INDEX, .last = NO_INDEX, .next = NO_INDEX};
    if (total->last == NO_INDEX)
        total->first = index;
    else
        totals->bands[total->last].next = index;
    total->last = index;
    return &totals->bands[index];
}

static struct package_total *find_package(struct totals *totals, struct band_total *band,
                                          rs_str size)
{
    for (uint32_t i = band->first; i != NO_INDEX; i = totals->packages[i].next)
        if (totals->packages[i].size == size)
            return &totals->packages[i];
    if (totals->package_count >= NO_INDEX ||
        rs_mem_grow((void **)&totals->packages, &totals->package_capacity,
                    totals->package_count + 1, sizeof *totals->packages) != RS_OK)
        return NULL;
    const uint32_t index = (uint32_t)totals->package_count++;
    totals->packages[index] = (struct package_total){.size = size, .next = NO_INDEX};
    if (band->last == NO_INDEX)
        band->first = index;
    else
        totals->packages[band->last].next = index;
    band->last = index;
    return &totals->packages[index];
}

/* As SQLite's NUMERIC sees it: 0.0 is an integer too. */
static void note_real(struct rank_data *rank, unsigned column, const struct rs_vendor_num *num)
{
    if (rank->reals & 1U << column || rs_vendor_num_is_int(num))
        return;
    const double value = rs_vendor_num_double(num);
    if (num->kind == RS_VENDOR_NUM_NONE || value != floor(value) || fabs(value) > 1e15)
        rank->reals |= 1U << column;
}

/* Size and time of one operation on one transport, for the pairwise sums. */
struct pair_term {
    uint32_t band;
    double size, time;
};

struct pair_terms {
    struct pair_term *items;
    size_t count, capacity;
};

/* Operations that moved nothing are no rows of the tables, hence no terms. */
static enum rs_status add_term(struct pair_terms *terms, uint32_t band,
                               const struct rs_vendor_num *fields)
{
    double sum = 0;
    for (unsigned i = 0; i < RS_VENDOR_COMM_BAND_FIELDS; i++)
        sum += rs_vendor_num_double(&fields[i]);
    if (sum == 0)
        return RS_OK;
    if (rs_mem_grow((void **)&terms->items, &terms->capacity, terms->count + 1,
                    sizeof *terms->items) != RS_OK)
        return RS_NOMEM;
    terms->items[terms->count++] =
        (struct pair_term){band, rs_vendor_num_double(&fields[RS_VENDOR_COMM_SIZE]),
                           rs_vendor_num_double(&fields[RS_VENDOR_COMM_TIME])};
    return RS_OK;
}

enum { LANES = 8, BLOCK = 128 };

static double pairwise(const double *terms, size_t count)
{
    double lanes[LANES], sum = 0;
    size_t i = 0;
    if (count > BLOCK) {
        const size_t half = count / 2 - count / 2 % LANES;
        return pairwise(terms, half) + pairwise(terms + half, count - half);
    }
    if (count >= LANES) {
        memcpy(lanes, terms, sizeof lanes);
        for (i = LANES; i + LANES <= count; i += LANES)
            for (size_t lane = 0; lane < LANES; lane++)
                lanes[lane] += terms[i + lane];
        sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
              ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    }
    for (; i < count; i++)
        sum += terms[i];
    return sum;
}

/* The terms band by band, in order, then each band's two sums. */
static enum rs_status sum_pairs(struct totals *totals, const struct pair_terms *terms)
{
    size_t *starts = rs_mem_calloc(totals->band_count + 1, sizeof *starts);
    double *values = rs_mem_calloc(terms->count + 1, 2 * sizeof *values);
    if (!starts || !values) {
        rs_mem_free(starts);
        rs_mem_free(values);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < terms->count; i++)
        starts[terms->items[i].band + 1]++;
    for (size_t b = 0; b < totals->band_count; b++)
        starts[b + 1] += starts[b];
    for (size_t i = 0; i < terms->count; i++) { /* starts[b] runs to where b + 1 starts */
        const size_t at = starts[terms->items[i].band]++;
        values[at] = terms->items[i].size;
        values[terms->count + at] = terms->items[i].time;
    }
    for (size_t b = 0; b < totals->band_count; b++) {
        const size_t from = b ? starts[b - 1] : 0, count = starts[b] - from;
        totals->bands[b].size_pairs = pairwise(values + from, count);
        totals->bands[b].time_pairs = pairwise(values + terms->count + from, count);
    }
    rs_mem_free(starts);
    rs_mem_free(values);
    return RS_OK;
}

static enum rs_status add_bands(struct rank_data *rank, struct rs_vendor_comm_cursor *cursor,
                                struct total *total, struct pair_terms *terms)
{
    struct rs_vendor_num fields[RS_VENDOR_COMM_BAND_FIELDS], count, duration;
    rs_str transport = 0, size = 0;
    while (rs_vendor_comm_band(cursor, &transport, fields)) {
        struct band_total *band = find_band(&rank->totals, total, transport);
        if (!band)
            return RS_NOMEM;
        if (add_term(terms, (uint32_t)(band - rank->totals.bands), fields) != RS_OK)
            return RS_NOMEM;
        sum_add(&band->size, &fields[RS_VENDOR_COMM_SIZE]);
        sum_add(&band->time, &fields[RS_VENDOR_COMM_TIME]);
        for (unsigned i = 0; i < RS_VENDOR_COMM_BAND_FIELDS; i++)
            note_real(rank, REAL_BAND + i, &fields[i]);
        while (rs_vendor_comm_package(cursor, &size, &count, &duration)) {
            struct package_total *package = find_package(&rank->totals, band, size);
            if (!package)
                return RS_NOMEM;
            sum_add(&package->count, &count);
            sum_add(&package->duration, &duration);
            note_real(rank, REAL_COUNT, &count);
            note_real(rank, REAL_DURATION, &duration);
            rank->reals |=
                1U << REAL_PACKAGE; /* sizes are text; whole ones are looked at nowhere */
        }
    }
    return RS_OK;
}

static enum rs_status add_ops(struct rank_data *rank, struct pair_terms *terms)
{
    struct rs_vendor_num times[RS_VENDOR_COMM_TIMES];
    for (size_t i = 0; i < rank->comm.op_count; i++) {
        const struct rs_vendor_comm_op *op = &rank->comm.ops[i];
        struct rs_vendor_comm_cursor cursor;
        struct total *total = find_total(&rank->totals, op->step, op->group);
        if (!total)
            return RS_NOMEM;
        rs_vendor_comm_op_open(&rank->comm, op, &cursor, times);
        for (unsigned t = 0; t < TOTAL_TIMES; t++)
            sum_add(&total->times[t], &times[RS_VENDOR_COMM_ELAPSE + t]);
        for (unsigned t = 0; t <= RS_VENDOR_COMM_IDLE; t++)
            note_real(rank, REAL_TIME + t, &times[t]);
        if (add_bands(rank, &cursor, total, terms) != RS_OK)
            return RS_NOMEM;
    }
    return RS_OK;
}

enum rs_status totals_make(struct rank_data *rank)
{
    struct rs_vendor_num fields[3];
    struct pair_terms terms = {0};
    enum rs_status status = add_ops(rank, &terms);
    if (status == RS_OK)
        status = sum_pairs(&rank->totals, &terms);
    rs_mem_free(terms.items);
    for (size_t i = 0; i < rank->comm.link_count; i++) {
        rs_vendor_comm_link_open(&rank->comm, &rank->comm.links[i], fields);
        note_real(rank, REAL_LINK, &fields[0]);
        note_real(rank, REAL_LINK + 1, &fields[1]);
    }
    return status;
}
