/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Total Op Info" of one rank: sums over its operations per step and group, in the file's order. Every
 * operation is unpacked once, here, and so becomes its rows of the database on the way.
 *
 * The text tools add floats one after another. The table tools group data frames, which
 * compensate (Kahan), and sum a transport's sizes and times as arrays, which add pairwise: eight running
 * sums up to 128 terms, halves above. All three are kept, since both forms can be asked for and their
 * last digits are part of the answer. What is not known is not a number on its way through them, and comes out as
 * unknown.
 */
#include "ascend/cluster/cluster_priv.h"
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

static void add_value(struct sum *sum, double value, bool is_int)
{
    const double next = value - sum->dirt, total = sum->kahan + next;
    sum->dirt = (total - sum->kahan) - next;
    sum->kahan = total;
    sum->plain += value;
    if (!is_int || fabs(value) > 1e15 ||
        (sum->whole > 0 ? sum->whole : -sum->whole) > INT64_C(1) << 60)
        sum->is_float = true;
    else
        sum->whole += (int64_t)value;
}

/* Not a number for what is not known, unless that is to be skipped. */
static double value_of(const struct rs_ascend_num *num, bool skips_unknown)
{
    return skips_unknown ? rs_ascend_num_double(num) : rs_ascend_num_known(num);
}

void sum_add(struct sum *sum, const struct rs_ascend_num *num, bool skips_unknown)
{
    add_value(sum, value_of(num, skips_unknown), rs_ascend_num_is_int(num));
}

struct rs_ascend_num sum_text(const struct sum *sum)
{
    return sum->is_float ? rs_ascend_num_of_double(sum->plain) : rs_ascend_num_of_int(sum->whole);
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

/* A package size is text where it is a key; as a cell it is a number. */
static struct rs_ascend_num number_of_size(const struct rs_strtab *names, rs_str size)
{
    struct rs_ascend_num num;
    const char *text = rs_strtab_text(names, size);
    const size_t length = rs_strtab_length(names, size);
    if (rs_ascend_num_scan(text, length) != length ||
        rs_ascend_num_parse(text, length, &num) != RS_OK)
        num = (struct rs_ascend_num){0};
    return num;
}

static struct package_total *find_package(struct totals *totals, struct band_total *band,
                                          const struct rs_strtab *names, rs_str size)
{
    for (uint32_t i = band->first; i != NO_INDEX; i = totals->packages[i].next)
        if (totals->packages[i].size == size)
            return &totals->packages[i];
    if (totals->package_count >= NO_INDEX ||
        rs_mem_grow((void **)&totals->packages, &totals->package_capacity,
                    totals->package_count + 1, sizeof *totals->packages) != RS_OK)
        return NULL;
    const uint32_t index = (uint32_t)totals->package_count++;
    totals->packages[index] = (struct package_total){
        .size = size, .number = number_of_size(names, size), .next = NO_INDEX};
    if (band->last == NO_INDEX)
        band->first = index;
    else
        totals->packages[band->last].next = index;
    band->last = index;
    return &totals->packages[index];
}

/* As SQLite's NUMERIC sees it: 0.0 is an integer too. `value` is the number's. */
static void note_real(struct rank_data *rank, unsigned column, const struct rs_ascend_num *num,
                      double value)
{
    if (rank->reals & 1U << column || rs_ascend_num_is_int(num))
        return;
    const bool is_small = fabs(value) <= 1e15;
    if (num->kind == RS_ASCEND_NUM_NONE || !is_small || value != (double)(int64_t)value)
        rank->reals |= 1U << column;
}

/* Size and time of one operation on one transport, for the pairwise sums. */
struct pair_term {
    uint32_t band;
    double size, time;
};

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
static enum rs_status sum_pairs(const struct adder *adder)
{
    struct totals *totals = &adder->rank->totals;
    const struct pair_term *terms = adder->terms;
    const size_t count = adder->term_count;
    size_t *starts = rs_mem_calloc(totals->band_count + 1, sizeof *starts);
    double *values = rs_mem_calloc(count + 1, 2 * sizeof *values);
    if (!starts || !values) {
        rs_mem_free(starts);
        rs_mem_free(values);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < count; i++)
        starts[terms[i].band + 1]++;
    for (size_t b = 0; b < totals->band_count; b++)
        starts[b + 1] += starts[b];
    for (size_t i = 0; i < count; i++) { /* starts[b] runs to where b + 1 starts */
        const size_t at = starts[terms[i].band]++;
        values[at] = terms[i].size;
        values[count + at] = terms[i].time;
    }
    for (size_t b = 0; b < totals->band_count; b++) {
        const size_t from = b ? starts[b - 1] : 0, length = starts[b] - from;
        totals->bands[b].size_pairs = pairwise(values + from, length);
        totals->bands[b].time_pairs = pairwise(values + count + from, length);
    }
    rs_mem_free(starts);
    rs_mem_free(values);
    return RS_OK;
}

/* ---- the operations of one rank on their way into sums and rows ----------------------------------- */

static struct row_text text_of(const struct adder *adder, rs_str id)
{
    return (struct row_text){rs_strtab_text(&adder->comm->names, id),
                             rs_strtab_length(&adder->comm->names, id)};
}

/* A transport without packages has one row all the same. */
static void end_band(struct adder *adder)
{
    const struct rs_ascend_num zero = {.kind = RS_ASCEND_NUM_INT};
    if (adder->band && adder->is_row && !adder->has_package)
        put_band_row(&adder->rows->bands, &adder->band_start, &zero, &zero, &zero);
    adder->band = NULL;
}

static enum rs_status add_op(void *context, const struct rs_ascend_comm_op *op,
                             const struct rs_ascend_num *times)
{
    struct adder *adder = context;
    struct rank_data *rank = adder->rank;
    double values[RS_ASCEND_COMM_TIMES];
    end_band(adder);
    struct total *total = adder->total = find_total(&rank->totals, op->step, op->group);
    if (!total)
        return RS_NOMEM;
    adder->op_count++;
    total->has_op[op->is_p2p ? SIDE_P2P : SIDE_COLLECTIVE] = true;
    for (unsigned t = 0; t <= RS_ASCEND_COMM_IDLE; t++) {
        values[t] = value_of(&times[t], rank->skips_unknown);
        note_real(rank, REAL_TIME + t, &times[t], values[t]);
    }
    for (unsigned t = 0; t < TOTAL_TIMES; t++)
        add_value(&total->times[t], values[RS_ASCEND_COMM_ELAPSE + t],
                  rs_ascend_num_is_int(&times[RS_ASCEND_COMM_ELAPSE + t]));
    if (adder->rows) {
        const struct row_head head = {rank->rank, text_of(adder, op->step),
                                      text_of(adder, op->name), text_of(adder, op->group)};
        make_start(&adder->rows->times, &adder->op_start, &head);
        put_time_row(&adder->rows->times, &adder->op_start, times, values);
    }
    return RS_OK;
}

/* Transports that carried nothing: text names all five, the tables leave them out, as rows and as terms. */
static enum rs_status add_band(void *context, rs_str transport, const struct rs_ascend_num *fields)
{
    struct adder *adder = context;
    struct rank_data *rank = adder->rank;
    double values[RS_ASCEND_COMM_BAND_FIELDS], sum = 0;
    end_band(adder);
    struct band_total *band = adder->band = find_band(&rank->totals, adder->total, transport);
    if (!band)
        return RS_NOMEM;
    for (unsigned i = 0; i < RS_ASCEND_COMM_BAND_FIELDS; i++) {
        sum += values[i] = value_of(&fields[i], rank->skips_unknown);
        note_real(rank, REAL_BAND + i, &fields[i], values[i]);
    }
    const struct pair_term term = {(uint32_t)(band - rank->totals.bands),
                                   values[RS_ASCEND_COMM_SIZE], values[RS_ASCEND_COMM_TIME]};
    add_value(&band->size, term.size, rs_ascend_num_is_int(&fields[RS_ASCEND_COMM_SIZE]));
    add_value(&band->time, term.time, rs_ascend_num_is_int(&fields[RS_ASCEND_COMM_TIME]));
    adder->has_package = false;
    adder->is_row = adder->rows && sum != 0;
    if (adder->is_row) {
        const struct row_text text = text_of(adder, transport);
        make_band_start(&adder->rows->bands, &adder->band_start, &adder->op_start, &text, fields);
    }
    if (sum == 0)
        return RS_OK;
    if (rs_mem_grow((void **)&adder->terms, &adder->term_capacity, adder->term_count + 1,
                    sizeof *adder->terms) != RS_OK)
        return RS_NOMEM;
    adder->terms[adder->term_count++] = term;
    return RS_OK;
}

static enum rs_status add_package(void *context, rs_str size, const struct rs_ascend_num *count,
                                  const struct rs_ascend_num *duration)
{
    struct adder *adder = context;
    struct rank_data *rank = adder->rank;
    const double times = value_of(count, rank->skips_unknown),
                 spent = value_of(duration, rank->skips_unknown);
    struct package_total *package =
        find_package(&rank->totals, adder->band, &adder->comm->names, size);
    if (!package)
        return RS_NOMEM;
    adder->has_package = true;
    add_value(&package->count, times, rs_ascend_num_is_int(count));
    add_value(&package->duration, spent, rs_ascend_num_is_int(duration));
    note_real(rank, REAL_COUNT, count, times);
    note_real(rank, REAL_DURATION, duration, spent);
    rank->reals |= 1U << REAL_PACKAGE; /* sizes are text; whole ones are looked at nowhere */
    if (adder->is_row)
        put_band_row(&adder->rows->bands, &adder->band_start, &package->number, count, duration);
    return RS_OK;
}

void totals_turn_to(struct adder *adder, rs_str step, rs_str group)
{
    end_band(adder);
    adder->total = find_total(&adder->rank->totals, step, group);
}

void totals_begin(struct adder *adder, struct rank_data *rank, const struct rs_ascend_comm *comm,
                  struct rank_rows *rows)
{
    adder->rank = rank;
    adder->comm = comm;
    adder->rows = rows;
    adder->total = NULL;
    adder->band = NULL;
    adder->op_count = adder->term_count = 0;
    totals_fini(&rank->totals);
    rank->reals = 0;
    if (rows) {
        bulk_rows_reset(&rows->times);
        bulk_rows_reset(&rows->bands);
    }
}

struct rs_ascend_comm_visitor totals_visitor(struct adder *adder)
{
    return (struct rs_ascend_comm_visitor){
        .context = adder, .op = add_op, .band = add_band, .package = add_package};
}

static enum rs_status add_bands(struct adder *adder, struct rs_ascend_comm_cursor *cursor)
{
    struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS], count, duration;
    rs_str transport = 0, size = 0;
    while (rs_ascend_comm_band(cursor, &transport, fields)) {
        if (add_band(adder, transport, fields) != RS_OK)
            return RS_NOMEM;
        while (rs_ascend_comm_package(cursor, &size, &count, &duration))
            if (add_package(adder, size, &count, &duration) != RS_OK)
                return RS_NOMEM;
    }
    return RS_OK;
}

enum rs_status totals_add_all(struct adder *adder)
{
    const struct rs_ascend_comm *comm = adder->comm;
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES];
    struct rs_ascend_comm_cursor cursor;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < comm->op_count && status == RS_OK; i++) {
        rs_ascend_comm_op_open(comm, &comm->ops[i], &cursor, times);
        status = add_op(adder, &comm->ops[i], times);
        if (status == RS_OK)
            status = add_bands(adder, &cursor);
    }
    return status;
}

enum rs_status totals_end(struct adder *adder)
{
    struct rank_data *rank = adder->rank;
    struct rs_ascend_num fields[3];
    end_band(adder);
    rank->op_count = adder->op_count;
    const uint32_t real_links = 3U << REAL_LINK; /* all that can be found */
    for (size_t i = 0; i < rank->comm.link_count && (rank->reals & real_links) != real_links; i++) {
        rs_ascend_comm_link_open(&rank->comm, &rank->comm.links[i], fields);
        note_real(rank, REAL_LINK, &fields[0], rs_ascend_num_double(&fields[0]));
        note_real(rank, REAL_LINK + 1, &fields[1], rs_ascend_num_double(&fields[1]));
    }
    return sum_pairs(adder);
}

void adder_fini(struct adder *adder)
{
    bulk_start_fini(&adder->op_start);
    bulk_start_fini(&adder->band_start);
    rs_mem_free(adder->terms);
    *adder = (struct adder){0};
}

static enum rs_status rename_one(struct rank_data *rank, const struct rs_ascend_comm *comm,
                                 rs_str *id)
{
    return rs_strtab_add(&rank->comm.names, rs_strtab_text(&comm->names, *id),
                         rs_strtab_length(&comm->names, *id), id);
}

enum rs_status totals_rename(struct rank_data *rank, const struct rs_ascend_comm *comm)
{
    struct totals *totals = &rank->totals;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < totals->count && status == RS_OK; i++) {
        status = rename_one(rank, comm, &totals->rows[i].step);
        if (status == RS_OK)
            status = rename_one(rank, comm, &totals->rows[i].group);
    }
    for (size_t i = 0; i < totals->band_count && status == RS_OK; i++)
        status = rename_one(rank, comm, &totals->bands[i].transport);
    for (size_t i = 0; i < totals->package_count && status == RS_OK; i++)
        status = rename_one(rank, comm, &totals->packages[i].size);
    return status;
}
