/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vendor's own tool says of the rank: versions, step figures, operations with their transports and package
 * sizes, links. From its analysis database where that has them, else from step_trace_time.csv, communication.json and
 * communication_matrix.json; one source per document, never two.
 *
 * Figures go on as the digits of the file (official tables show them so) and, where ours are compared with them, as
 * whole ps. Nothing of ours is computed from them but what a rank without a trace has
 * nothing else for (ascend_text_steps.c, ascend_links.c). "Total Op Info" stands in the text form; a database has none, and
 * the document that is made of it has the sums of its rows, added as the vendor adds them: one after another.
 */
#include "ascend/format/comm.h"
#include "ascend/format/step.h"
#include "ascend/source/ascend_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <math.h>
#include <string.h>

enum { VENDOR_ROWS_MAX = 1 << 20 }; /* of each table; thousands are usual */

static const double ps_per_us = 1e6;
static const double ps_per_ms = 1e9;

/* NULL and RS_OK: it does not say. */
static enum rs_status add_text(struct ascend *a, const char *text, rs_str *id_p)
{
    return text && *text ? ascend_text(a, text, id_p) : RS_OK;
}

static int64_t time_of(const struct rs_ascend_num *num, double ps_per_unit)
{
    return num->kind == RS_ASCEND_NUM_NONE ? RS_VENDOR_UNKNOWN
                                           : rs_vendor_ps(rs_ascend_num_double(num), ps_per_unit);
}

/* us since 1970 -> ns; a double of them is good to a quarter of a us. */
static int64_t start_of(const struct rs_ascend_num *num)
{
    const double us = rs_ascend_num_double(num);
    if (num->kind == RS_ASCEND_NUM_NONE || !(fabs(us) < (double)RS_VENDOR_LIMIT / 1e3))
        return RS_VENDOR_UNKNOWN;
    const double whole = floor(us);
    return (int64_t)whole * 1000 + llround((us - whole) * 1e3);
}

static enum rs_status reported_too_much(struct ascend *a, size_t count)
{
    return rs_trace_info_drop(&a->stream->info, &a->stream->strings,
                              "a row of the vendor's own figures, beyond the limit",
                              (int64_t)(count - VENDOR_ROWS_MAX));
}

/* As Python writes it; NONE: no number there. */
static enum rs_status digits_of(struct ascend *a, const struct rs_ascend_num *num, rs_str *id_p)
{
    char text[RS_ASCEND_NUM_TEXT_BYTES];
    *id_p = RS_STR_NONE;
    if (num->kind == RS_ASCEND_NUM_NONE)
        return RS_OK;
    const size_t length = rs_ascend_num_print(num, text);
    return ascend_text_bytes(a, text, length, id_p);
}

static enum rs_status all_digits(struct ascend *a, const struct rs_ascend_num *nums, size_t count,
                                 rs_str *ids)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = digits_of(a, &nums[i], &ids[i]);
    return status;
}

/* A name of the comm, in the stream's table. */
static enum rs_status name_of(struct ascend *a, const struct rs_ascend_comm *comm, rs_str id,
                              rs_str *id_p)
{
    *id_p = RS_STR_NONE;
    return id == RS_STR_NONE ? RS_OK
                             : ascend_text_bytes(a, rs_strtab_text(&comm->names, id),
                                                 rs_strtab_length(&comm->names, id), id_p);
}

/* ---- steps ---- */

static enum rs_status take_steps(struct ascend *a, const struct rs_ascend_steps *steps)
{
    struct rs_provenance *vendor = a->stream->info.vendor;
    const size_t count = steps->count < VENDOR_ROWS_MAX ? steps->count : VENDOR_ROWS_MAX;
    enum rs_status status =
        rs_mem_grow((void **)&vendor->steps, &vendor->step_capacity, count, sizeof *vendor->steps);
    for (size_t i = 0; i < count && status == RS_OK; i++) {
        struct rs_vendor_step row = {.device = steps->rows[i].device};
        for (int k = 0; k < RS_VENDOR_STEP_FIELDS; k++)
            row.ps[k] = time_of(&steps->rows[i].values[k], ps_per_us);
        status = ascend_text(a, steps->rows[i].step, &row.step);
        if (status == RS_OK)
            status = all_digits(a, steps->rows[i].values, RS_VENDOR_STEP_FIELDS, row.digits);
        if (status == RS_OK)
            vendor->steps[vendor->step_count++] = row;
    }
    return status == RS_OK && count < steps->count ? reported_too_much(a, steps->count) : status;
}

/* ---- operations ---- */

static enum rs_status add_band(struct rs_provenance *vendor, const struct rs_vendor_band *row)
{
    if (rs_mem_grow((void **)&vendor->bands, &vendor->band_capacity, vendor->band_count + 1,
                    sizeof *vendor->bands) != RS_OK)
        return RS_NOMEM;
    vendor->bands[vendor->band_count++] = *row;
    return RS_OK;
}

/* The transports of the operation at the cursor, one row per package size. */
static enum rs_status take_bands(struct ascend *a, const struct rs_ascend_comm *comm,
                                 struct rs_ascend_comm_cursor *cursor, uint32_t *count_p)
{
    struct rs_provenance *vendor = a->stream->info.vendor;
    const size_t first = vendor->band_count;
    struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS], package[2];
    rs_str transport, size;
    enum rs_status status = RS_OK;
    while (status == RS_OK && rs_ascend_comm_band(cursor, &transport, fields)) {
        struct rs_vendor_band row = {.package = {RS_STR_NONE, RS_STR_NONE, RS_STR_NONE}};
        bool has_package = false;
        status = name_of(a, comm, transport, &row.transport);
        if (status == RS_OK)
            status = all_digits(a, fields, RS_VENDOR_BAND_FIELDS, row.fields);
        while (status == RS_OK && rs_ascend_comm_package(cursor, &size, &package[0], &package[1])) {
            status = name_of(a, comm, size, &row.package[0]);
            if (status == RS_OK)
                status = all_digits(a, package, 2, row.package + 1);
            if (status == RS_OK)
                status = add_band(vendor, &row);
            has_package = true;
        }
        if (status == RS_OK && !has_package)
            status = add_band(vendor, &row);
    }
    *count_p = (uint32_t)(vendor->band_count - first);
    return status;
}

static enum rs_status take_op(struct ascend *a, const struct rs_ascend_comm *comm,
                              const struct rs_ascend_comm_op *op)
{
    struct rs_provenance *vendor = a->stream->info.vendor;
    struct rs_ascend_comm_cursor cursor;
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES];
    rs_ascend_comm_op_open(comm, op, &cursor, times);
    struct rs_vendor_comm row = {
        .is_p2p = op->is_p2p,
        .is_total = strncmp(rs_strtab_text(&comm->names, op->name), "Total ", 6) == 0,
        .start = start_of(&times[RS_ASCEND_COMM_START]),
        .elapse = time_of(&times[RS_ASCEND_COMM_ELAPSE], ps_per_ms),
        .transit = time_of(&times[RS_ASCEND_COMM_TRANSIT], ps_per_ms),
        .wait = time_of(&times[RS_ASCEND_COMM_WAIT], ps_per_ms),
        .synchronization = time_of(&times[RS_ASCEND_COMM_SYNC], ps_per_ms),
        .idle = time_of(&times[RS_ASCEND_COMM_IDLE], ps_per_ms),
    };
    enum rs_status status = name_of(a, comm, op->step, &row.step);
    if (status == RS_OK)
        status = name_of(a, comm, op->group, &row.group);
    if (status == RS_OK)
        status = name_of(a, comm, op->name, &row.name);
    if (status == RS_OK)
        status = all_digits(a, times, RS_VENDOR_TIMES, row.digits);
    if (status == RS_OK)
        status = take_bands(a, comm, &cursor, &row.band_count);
    if (status == RS_OK)
        vendor->comms[vendor->comm_count++] = row;
    return status;
}

static enum rs_status take_comms(struct ascend *a, const struct rs_ascend_comm *comm)
{
    struct rs_provenance *vendor = a->stream->info.vendor;
    const size_t count = comm->op_count < VENDOR_ROWS_MAX ? comm->op_count : VENDOR_ROWS_MAX;
    enum rs_status status =
        rs_mem_grow((void **)&vendor->comms, &vendor->comm_capacity, count, sizeof *vendor->comms);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = take_op(a, comm, &comm->ops[i]);
    return status == RS_OK && count < comm->op_count ? reported_too_much(a, comm->op_count)
                                                     : status;
}

/* ---- links ---- */

static int32_t global_of(const struct rs_ascend_group *group, int32_t rank)
{
    return group && rank >= 0 && (size_t)rank < group->count ? (int32_t)group->ranks[rank] : -1;
}

static enum rs_status take_link(struct ascend *a, const struct rs_ascend_comm *comm,
                                const struct rs_ascend_comm_link *link)
{
    struct rs_provenance *vendor = a->stream->info.vendor;
    struct rs_vendor_link row = {.is_p2p = link->is_p2p, .src = link->src, .dst = link->dst};
    struct rs_ascend_num fields[RS_VENDOR_LINK_FIELDS];
    const struct rs_ascend_group *group =
        rs_ascend_group_find(&a->meta, rs_strtab_text(&comm->names, link->group));
    rs_ascend_comm_link_open(comm, link, fields);
    row.global_src = global_of(group, link->src);
    row.global_dst = global_of(group, link->dst);
    enum rs_status status = ascend_group_has_place(a, rs_strtab_text(&comm->names, link->group),
                                                   link->src > link->dst ? link->src : link->dst);
    if (status == RS_OK)
        status = name_of(a, comm, link->step, &row.step);
    if (status == RS_OK)
        status = name_of(a, comm, link->group, &row.group);
    if (status == RS_OK)
        status = name_of(a, comm, link->kind, &row.kind);
    if (status == RS_OK)
        status = name_of(a, comm, link->transport, &row.transport);
    if (status == RS_OK)
        status = name_of(a, comm, link->op_name, &row.op_name);
    if (status == RS_OK)
        status = all_digits(a, fields, RS_VENDOR_LINK_FIELDS, row.fields);
    if (status == RS_OK)
        vendor->links[vendor->link_count++] = row;
    return status;
}

static enum rs_status take_links(struct ascend *a, const struct rs_ascend_comm *comm)
{
    struct rs_provenance *vendor = a->stream->info.vendor;
    const size_t count = comm->link_count < VENDOR_ROWS_MAX ? comm->link_count : VENDOR_ROWS_MAX;
    enum rs_status status =
        rs_mem_grow((void **)&vendor->links, &vendor->link_capacity, count, sizeof *vendor->links);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = take_link(a, comm, &comm->links[i]);
    return status == RS_OK && count < comm->link_count ? reported_too_much(a, comm->link_count)
                                                       : status;
}

/* ---- sums of a database's operations ---- */

struct sum {
    double value;
    bool is_float, is_known; /* one that is not known makes the sum unknown */
};

static void sum_num(struct sum *sum, const struct rs_ascend_num *num)
{
    sum->is_known = sum->is_known && num->kind != RS_ASCEND_NUM_NONE;
    sum->is_float = sum->is_float || !rs_ascend_num_is_int(num);
    sum->value += rs_ascend_num_double(num);
}

static struct rs_ascend_num num_of_sum(const struct sum *sum)
{
    if (!sum->is_known)
        return (struct rs_ascend_num){0};
    return sum->is_float || fabs(sum->value) > 9e15 ? rs_ascend_num_of_double(sum->value)
                                                    : rs_ascend_num_of_int((int64_t)sum->value);
}

struct package_sum {
    rs_str size;
    struct sum count, duration;
};
struct band_sum {
    rs_str transport;
    struct sum size, time;
    struct package_sum *packages; /* in the order of their first */
    size_t package_count, package_capacity;
};
struct total_sum {
    struct sum times[RS_ASCEND_COMM_IDLE + 1];
    struct band_sum *bands;
    size_t band_count, band_capacity;
};

static const struct sum no_sum = {.is_known = true};

static struct band_sum *band_of(struct total_sum *total, rs_str transport)
{
    for (size_t i = 0; i < total->band_count; i++)
        if (total->bands[i].transport == transport)
            return &total->bands[i];
    if (rs_mem_grow((void **)&total->bands, &total->band_capacity, total->band_count + 1,
                    sizeof *total->bands) != RS_OK)
        return NULL;
    total->bands[total->band_count] =
        (struct band_sum){.transport = transport, .size = no_sum, .time = no_sum};
    return &total->bands[total->band_count++];
}

static struct package_sum *package_of(struct band_sum *band, rs_str size)
{
    for (size_t i = band->package_count; i-- > 0;)
        if (band->packages[i].size == size)
            return &band->packages[i];
    if (rs_mem_grow((void **)&band->packages, &band->package_capacity, band->package_count + 1,
                    sizeof *band->packages) != RS_OK)
        return NULL;
    band->packages[band->package_count] =
        (struct package_sum){.size = size, .count = no_sum, .duration = no_sum};
    return &band->packages[band->package_count++];
}

static enum rs_status sum_op(struct total_sum *total, const struct rs_ascend_comm *comm,
                             const struct rs_ascend_comm_op *op)
{
    struct rs_ascend_comm_cursor cursor;
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES], fields[RS_ASCEND_COMM_BAND_FIELDS];
    struct rs_ascend_num count, duration;
    rs_str transport, size;
    rs_ascend_comm_op_open(comm, op, &cursor, times);
    for (int t = RS_ASCEND_COMM_ELAPSE; t <= RS_ASCEND_COMM_IDLE; t++)
        sum_num(&total->times[t], &times[t]);
    while (rs_ascend_comm_band(&cursor, &transport, fields)) {
        struct band_sum *band = band_of(total, transport);
        if (!band)
            return RS_NOMEM;
        sum_num(&band->size, &fields[RS_ASCEND_COMM_SIZE]);
        sum_num(&band->time, &fields[RS_ASCEND_COMM_TIME]);
        while (rs_ascend_comm_package(&cursor, &size, &count, &duration)) {
            struct package_sum *package = package_of(band, size);
            if (!package)
                return RS_NOMEM;
            sum_num(&package->count, &count);
            sum_num(&package->duration, &duration);
        }
    }
    return RS_OK;
}

static struct rs_ascend_num ratio_of(const struct sum *part, const struct sum *transit)
{
    return part->is_known && transit->is_known
               ? rs_ascend_num_ratio(part->value, part->value + transit->value)
               : (struct rs_ascend_num){0};
}

static enum rs_status put_total_bands(struct ascend *a, const struct rs_ascend_comm *comm,
                                      const struct total_sum *total)
{
    struct rs_provenance *vendor = a->stream->info.vendor;
    enum rs_status status = RS_OK;
    for (size_t b = 0; b < total->band_count && status == RS_OK; b++) {
        const struct band_sum *band = &total->bands[b];
        const struct rs_ascend_num fields[RS_VENDOR_BAND_FIELDS] = {num_of_sum(&band->size),
                                                                    num_of_sum(&band->time)};
        struct rs_vendor_band row = {.package = {RS_STR_NONE, RS_STR_NONE, RS_STR_NONE}};
        status = name_of(a, comm, band->transport, &row.transport);
        if (status == RS_OK)
            status = all_digits(a, fields, RS_VENDOR_BAND_FIELDS, row.fields);
        for (size_t p = 0; p < band->package_count && status == RS_OK; p++) {
            const struct rs_ascend_num package[2] = {num_of_sum(&band->packages[p].count),
                                                     num_of_sum(&band->packages[p].duration)};
            status = name_of(a, comm, band->packages[p].size, &row.package[0]);
            if (status == RS_OK)
                status = all_digits(a, package, 2, row.package + 1);
            if (status == RS_OK)
                status = add_band(vendor, &row);
        }
        if (status == RS_OK && !band->package_count)
            status = add_band(vendor, &row);
    }
    return status;
}

static enum rs_status put_total(struct ascend *a, const struct rs_ascend_comm *comm,
                                const struct rs_ascend_comm_op *like, const struct total_sum *total)
{
    struct rs_provenance *vendor = a->stream->info.vendor;
    struct rs_ascend_num times[RS_VENDOR_TIMES] = {0};
    for (int t = RS_ASCEND_COMM_ELAPSE; t <= RS_ASCEND_COMM_IDLE; t++)
        times[t] = num_of_sum(&total->times[t]);
    const struct sum *transit = &total->times[RS_ASCEND_COMM_TRANSIT];
    times[RS_ASCEND_COMM_WAIT_RATIO] = ratio_of(&total->times[RS_ASCEND_COMM_WAIT], transit);
    times[RS_ASCEND_COMM_SYNC_RATIO] = ratio_of(&total->times[RS_ASCEND_COMM_SYNC], transit);
    struct rs_vendor_comm row = {.is_p2p = like->is_p2p,
                                 .is_total = true,
                                 .start = RS_VENDOR_UNKNOWN,
                                 .elapse = RS_VENDOR_UNKNOWN,
                                 .transit = RS_VENDOR_UNKNOWN,
                                 .wait = RS_VENDOR_UNKNOWN,
                                 .synchronization = RS_VENDOR_UNKNOWN,
                                 .idle = RS_VENDOR_UNKNOWN,
                                 .group = RS_STR_EMPTY};
    const size_t first = vendor->band_count;
    enum rs_status status = name_of(a, comm, like->step, &row.step);
    if (status == RS_OK)
        status = ascend_text(a, "Total Op Info", &row.name);
    if (status == RS_OK)
        status = all_digits(a, times, RS_VENDOR_TIMES, row.digits);
    if (status == RS_OK)
        status = put_total_bands(a, comm, total);
    row.band_count = (uint32_t)(vendor->band_count - first);
    if (status == RS_OK && rs_mem_grow((void **)&vendor->comms, &vendor->comm_capacity,
                                       vendor->comm_count + 1, sizeof *vendor->comms) != RS_OK)
        status = RS_NOMEM;
    if (status == RS_OK)
        vendor->comms[vendor->comm_count++] = row;
    return status;
}

static void total_fini(struct total_sum *total)
{
    for (size_t i = 0; i < total->band_count; i++)
        rs_mem_free(total->bands[i].packages);
    rs_mem_free(total->bands);
}

/* The sum that an operation belongs to: by the id of its step, and its class. */
static size_t class_of(const struct rs_ascend_comm_op *op)
{
    return 2 * (size_t)op->step + op->is_p2p;
}

struct totals {
    struct total_sum *items; /* in the order of their first operations */
    size_t *firsts;          /* that operation */
    size_t count, capacity, first_capacity;
    size_t *index; /* by class_of(); 0: none yet, else 1 + place */
};

static enum rs_status sum_into(struct totals *totals, const struct rs_ascend_comm *comm, size_t op)
{
    size_t *at = &totals->index[class_of(&comm->ops[op])];
    if (!*at) {
        if (rs_mem_grow((void **)&totals->items, &totals->capacity, totals->count + 1,
                        sizeof *totals->items) != RS_OK ||
            rs_mem_grow((void **)&totals->firsts, &totals->first_capacity, totals->count + 1,
                        sizeof *totals->firsts) != RS_OK)
            return RS_NOMEM;
        totals->items[totals->count] = (struct total_sum){0};
        for (int t = 0; t <= RS_ASCEND_COMM_IDLE; t++)
            totals->items[totals->count].times[t] = no_sum;
        totals->firsts[totals->count] = op;
        *at = ++totals->count;
    }
    return sum_op(&totals->items[*at - 1], comm, &comm->ops[op]);
}

/* One sum per step and class. */
static enum rs_status take_totals(struct ascend *a, const struct rs_ascend_comm *comm)
{
    struct totals totals = {.index = rs_mem_calloc(2 * comm->names.count + 2, sizeof(size_t))};
    enum rs_status status = totals.index ? RS_OK : RS_NOMEM;
    for (size_t i = 0; i < comm->op_count && i < VENDOR_ROWS_MAX && status == RS_OK; i++)
        status = sum_into(&totals, comm, i);
    for (size_t i = 0; i < totals.count; i++) {
        if (status == RS_OK)
            status = put_total(a, comm, &comm->ops[totals.firsts[i]], &totals.items[i]);
        total_fini(&totals.items[i]);
    }
    rs_mem_free(totals.items);
    rs_mem_free(totals.firsts);
    rs_mem_free(totals.index);
    return status;
}

/* ---- where it stands ---- */

/* RS_OK also when there is nothing; what cannot be read is one counted loss. */
static enum rs_status forgive(struct ascend *a, enum rs_status status, const struct rs_err *why)
{
    if (status >= 0 || status == RS_NOTFOUND)
        return RS_OK;
    if (status == RS_NOMEM)
        return status;
    ascend_flaw(a, why->text);
    return rs_trace_info_drop(&a->stream->info, &a->stream->strings,
                              "a file of the vendor's own figures that cannot be read", 1);
}

static enum rs_status read_db_steps(struct ascend *a, struct rs_ascend_db *db)
{
    struct rs_ascend_steps steps;
    struct rs_err err = {0};
    enum rs_status status = rs_ascend_steps_read_db(db, &steps, &err);
    if (status == RS_OK) {
        ascend_flaw(a, rs_buf_text(&steps.flaws));
        status = take_steps(a, &steps);
        rs_ascend_steps_fini(&steps);
    }
    return forgive(a, status, &err);
}

static enum rs_status read_db_comm(struct ascend *a, struct rs_ascend_db *db,
                                   enum rs_ascend_comm_part part)
{
    struct rs_ascend_comm comm;
    struct rs_err err = {0};
    enum rs_status status = rs_ascend_comm_init(&comm);
    if (status != RS_OK)
        return status;
    status = rs_ascend_comm_read_db(&comm, part, db, &err);
    if (status == RS_OK && part == RS_ASCEND_COMM_OPS) {
        status = take_comms(a, &comm);
        if (status == RS_OK)
            status = take_totals(a, &comm);
    } else if (status == RS_OK) {
        status = take_links(a, &comm);
    }
    if (status == RS_OK)
        ascend_flaw(a, rs_buf_text(&comm.flaws));
    rs_ascend_comm_fini(&comm);
    return forgive(a, status, &err);
}

static enum rs_status read_db(struct ascend *a)
{
    struct rs_ascend_db *db = NULL;
    struct rs_err err = {0};
    enum rs_status status = rs_ascend_db_open(a->rank->analysis_db, &db, &err);
    if (status != RS_OK)
        return forgive(a, status, &err);
    status = read_db_steps(a, db);
    if (status == RS_OK)
        status = read_db_comm(a, db, RS_ASCEND_COMM_OPS);
    if (status == RS_OK)
        status = read_db_comm(a, db, RS_ASCEND_COMM_LINKS);
    rs_ascend_db_close(&db);
    return status;
}

static enum rs_status read_csv(struct ascend *a)
{
    struct rs_ascend_steps steps;
    struct rs_err err = {0};
    char *path = rs_file_join(a->rank->output, "step_trace_time.csv");
    if (!path)
        return RS_NOMEM;
    enum rs_status status = rs_ascend_steps_read_csv(path, &steps, &err);
    rs_mem_free(path);
    if (status == RS_OK) {
        a->stream->info.vendor->has_text_steps = true;
        ascend_flaw(a, rs_buf_text(&steps.flaws));
        status = take_steps(a, &steps);
        rs_ascend_steps_fini(&steps);
    }
    return forgive(a, status, &err);
}

static enum rs_status read_json(struct ascend *a, enum rs_ascend_comm_part part)
{
    struct rs_ascend_comm comm;
    struct rs_err err = {0};
    struct rs_buf scratch = {0};
    char *path =
        rs_file_join(a->rank->output, part == RS_ASCEND_COMM_OPS ? "communication.json"
                                                                 : "communication_matrix.json");
    enum rs_status status = path ? rs_ascend_comm_init(&comm) : RS_NOMEM;
    if (status == RS_OK) {
        comm.keeps_totals = true;
        status = rs_ascend_comm_read_text(&comm, part, path, &scratch, &err);
        if (status == RS_OK)
            status = part == RS_ASCEND_COMM_OPS ? take_comms(a, &comm) : take_links(a, &comm);
        if (status == RS_OK)
            ascend_flaw(a, rs_buf_text(&comm.flaws));
        rs_ascend_comm_fini(&comm);
    }
    rs_buf_fini(&scratch);
    rs_mem_free(path);
    return forgive(a, status, &err);
}

enum rs_status ascend_report_provenance(struct ascend *a)
{
    const struct rs_ascend_rank *rank = a->rank;
    struct rs_provenance *vendor = rs_provenance_new();
    if (!vendor)
        return RS_NOMEM;
    rs_provenance_free(&a->stream->info.vendor);
    a->stream->info.vendor = vendor;
    enum rs_status status = add_text(a,
                                     rank->framework == RS_ASCEND_MINDSPORE   ? "MindSpore"
                                     : rank->framework == RS_ASCEND_MSMONITOR ? "msmonitor"
                                                                              : "torch_npu",
                                     &vendor->framework);
    if (status == RS_OK)
        status = add_text(a, rank->framework_version, &vendor->framework_version);
    if (status == RS_OK)
        status = add_text(a, rank->cann_version, &vendor->cann_version);
    if (status == RS_OK && rank->analysis_db)
        status = read_db(a);
    if (status == RS_OK && rank->output && !vendor->step_count)
        status = read_csv(a);
    if (status == RS_OK && rank->output && !vendor->comm_count)
        status = read_json(a, RS_ASCEND_COMM_OPS);
    if (status == RS_OK && rank->output && !vendor->link_count)
        status = read_json(a, RS_ASCEND_COMM_LINKS);
    return status;
}
