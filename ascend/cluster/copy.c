/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's operations from its analysis.db into the large tables, as SQLite copies them, summed on the way.
 *
 *     INSERT INTO ClusterCommunicationTime      SELECT .. FROM rank.CommAnalyzerTime      WHERE sum_op(..)
 *     INSERT INTO ClusterCommunicationBandwidth SELECT .. FROM rank.CommAnalyzerBandwidth WHERE sum_band(..)
 *
 * A row goes from page to page and not through structs of ours: half the time of reading it, keeping it and putting it in. The
 * functions see each row as it goes by; they say which are left out (totals, transports that carried nothing) and add the
 * others up.
 *
 * This is for files as the profiler writes them: every cell of its kind, numbers without fraction as integers, each operation
 * once, its transports together and in the order of operations. At the first thing that is otherwise what was
 * copied of the rank is undone, and who called reads it by way of rs_ascend_comm_visit_db(), which knows what to do and what to say.
 *
 * One thread at a time: who holds the file.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#include <sqlite3.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZES_CACHED = 64, KEY_BYTES = 512 };
enum { STEP, NAME, GROUP, TRANSPORT, TEXTS }; /* the functions' first arguments */

struct copier {
    sqlite3 *db; /* that has the functions */
    struct adder adder;
    struct rs_ascend_comm_visitor visitor;
    struct rank_data *rank;
    enum rs_status status; /* of the rank: RS_INVALID, RS_NOMEM */
    rs_str last[TEXTS];    /* of the row before: names of the rank */
    /* Operations in their order, each once: step and group, then the name. Of the second statement: the one at hand. */
    struct rs_strtab ops;
    rs_str op;
    rs_str transport; /* the one at hand; RS_STR_NONE: none yet */
    struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS];
    bool has_package, is_row;
    uint64_t size_bits[SIZES_CACHED];
    rs_str size_names[SIZES_CACHED]; /* RS_STR_EMPTY: free */
};

enum rs_status copier_new(struct copier **copier_p)
{
    struct copier *copier = rs_mem_calloc(1, sizeof *copier);
    if (!copier || rs_strtab_init(&copier->ops, 0) != RS_OK) {
        rs_mem_free(copier);
        return RS_NOMEM;
    }
    *copier_p = copier;
    return RS_OK;
}

void copier_free(struct copier **copier)
{
    if (!*copier)
        return;
    rs_strtab_fini(&(*copier)->ops);
    adder_fini(&(*copier)->adder);
    rs_mem_free(*copier);
    *copier = NULL;
}

/* ---- cells ---- */

static struct row_text text_of(sqlite3_value *value)
{
    const void *text = sqlite3_value_blob(value); /* as it lies in the page, no NUL behind it */
    return (struct row_text){text ? text : "", text ? (size_t)sqlite3_value_bytes(value) : 0};
}

/* A text as a name of the rank; most repeat the row before. */
static enum rs_status take_name(struct copier *copier, sqlite3_value *value, int place)
{
    struct rs_strtab *names = &copier->rank->comm.names;
    const rs_str last = copier->last[place];
    if (sqlite3_value_type(value) != SQLITE_TEXT)
        return RS_INVALID;
    const struct row_text text = text_of(value);
    if (rs_strtab_length(names, last) == text.length &&
        memcmp(rs_strtab_text(names, last), text.text, text.length) == 0)
        return RS_OK;
    if (!rs_utf8_valid(text.text, text.length))
        return RS_INVALID;
    return rs_strtab_add(names, text.text, text.length, &copier->last[place]);
}

/* A number as the tables hold it: a float has a fraction. */
static bool take_num(sqlite3_value *value, struct rs_ascend_num *num_p)
{
    const int type = sqlite3_value_type(value);
    if (type == SQLITE_INTEGER) {
        *num_p = rs_ascend_num_of_int(sqlite3_value_int64(value));
        return true;
    }
    const double real = sqlite3_value_double(value);
    if (type != SQLITE_FLOAT || !isfinite(real) || real == floor(real))
        return false;
    *num_p = rs_ascend_num_of_double(real);
    return true;
}

static bool take_nums(sqlite3_value **values, size_t count, struct rs_ascend_num *nums)
{
    for (size_t i = 0; i < count; i++)
        if (!take_num(values[i], &nums[i]))
            return false;
    return true;
}

static bool is_text(const struct row_text *text, const char *word)
{
    return text->length == strlen(word) && memcmp(text->text, word, text->length) == 0;
}

static bool is_total(const struct row_text *name)
{
    return name->length >= 6 && memcmp(name->text, "Total ", 6) == 0;
}

/* The row's operation: its step, group and name in one. False: too long for a key. */
static bool make_key(const struct copier *copier, const struct row_text *name, char key[KEY_BYTES],
                     size_t *length_p)
{
    const rs_str ids[] = {copier->last[STEP], copier->last[GROUP]};
    if (name->length > KEY_BYTES - sizeof ids)
        return false;
    memcpy(key, ids, sizeof ids);
    memcpy(key + sizeof ids, name->text, name->length);
    *length_p = sizeof ids + name->length;
    return true;
}

/* Ends a function: a row that is not as expected ends the rank. */
static void answer(sqlite3_context *context, struct copier *copier, enum rs_status status,
                   bool is_row)
{
    if (copier->status == RS_OK && status != RS_OK)
        copier->status = status == RS_NOMEM ? RS_NOMEM : RS_INVALID;
    sqlite3_result_int(context, copier->status == RS_OK && is_row);
}

/* ---- sum_op(step, name, group, the six times, type) ---- */

static enum rs_status add_op(struct copier *copier, sqlite3_value **values, bool *is_row_p)
{
    enum { TIMES = 6, TYPE = GROUP + 1 + TIMES };
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES] = {0};
    char key[KEY_BYTES];
    size_t length = 0;
    if (sqlite3_value_type(values[NAME]) != SQLITE_TEXT ||
        sqlite3_value_type(values[TYPE]) != SQLITE_TEXT)
        return RS_INVALID;
    const struct row_text name = text_of(values[NAME]), type = text_of(values[TYPE]);
    const bool is_p2p = is_text(&type, "p2p");
    enum rs_status status = take_name(copier, values[STEP], STEP);
    if (status == RS_OK)
        status = take_name(copier, values[GROUP], GROUP);
    if (status != RS_OK)
        return status;
    if ((*is_row_p = !is_total(&name)) == false)
        return RS_OK;
    if (!rs_utf8_valid(name.text, name.length) || (!is_p2p && !is_text(&type, "collective")) ||
        !take_nums(values + GROUP + 1, TIMES, times) || !make_key(copier, &name, key, &length))
        return RS_INVALID;
    const size_t had = copier->ops.count;
    status = rs_strtab_add(&copier->ops, key, length, &copier->op);
    if (status == RS_OK && copier->ops.count == had)
        return RS_INVALID; /* an operation twice */
    const struct rs_ascend_comm_op op = {
        .group = copier->last[GROUP], .step = copier->last[STEP], .is_p2p = is_p2p};
    return status == RS_OK ? copier->visitor.op(copier->visitor.context, &op, times) : status;
}

static void sum_op(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct copier *copier = sqlite3_user_data(context);
    bool is_row = false;
    enum rs_status status = RS_OK;
    (void)count;
    if (copier->status == RS_OK)
        status = add_op(copier, values, &is_row);
    answer(context, copier, status, is_row);
}

/* ---- sum_band(step, name, group, transport, its four fields, package size, count, duration) ---- */

static bool is_op(const struct copier *copier, rs_str op, const char *key, size_t length)
{
    return rs_strtab_length(&copier->ops, op) == length &&
           memcmp(rs_strtab_text(&copier->ops, op), key, length) == 0;
}

/* The operation of the row: the one at hand, or one further on. */
static enum rs_status turn_to_op(struct copier *copier, const struct row_text *name)
{
    char key[KEY_BYTES];
    size_t length = 0;
    if (!make_key(copier, name, key, &length))
        return RS_INVALID;
    if (copier->op != RS_STR_NONE && is_op(copier, copier->op, key, length))
        return RS_OK;
    const rs_str next = copier->op == RS_STR_NONE ? RS_STR_EMPTY + 1 : copier->op + 1;
    const rs_str op = next < copier->ops.count && is_op(copier, next, key, length)
                          ? next /* as mostly */
                          : rs_strtab_find(&copier->ops, key, length);
    if (op == RS_STR_NONE || (copier->op != RS_STR_NONE && op < copier->op))
        return RS_INVALID; /* it has no times, or its rows do not stand together */
    copier->op = op;
    copier->transport = RS_STR_NONE;
    totals_turn_to(&copier->adder, copier->last[STEP], copier->last[GROUP]);
    return copier->adder.total ? RS_OK : RS_NOMEM;
}

/* A package size as its shortest digits. */
static enum rs_status size_name(struct copier *copier, const struct rs_ascend_num *size,
                                rs_str *id_p)
{
    char text[RS_ASCEND_NUM_TEXT_BYTES];
    const double value = rs_ascend_num_double(size);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const size_t slot = (size_t)((bits * UINT64_C(0x9E3779B97F4A7C15)) >> 58);
    if (copier->size_names[slot] != RS_STR_EMPTY && copier->size_bits[slot] == bits) {
        *id_p = copier->size_names[slot];
        return RS_OK;
    }
    const enum rs_status status =
        rs_strtab_add(&copier->rank->comm.names, text, rs_ascend_num_print(size, text), id_p);
    if (status == RS_OK) {
        copier->size_bits[slot] = bits;
        copier->size_names[slot] = *id_p;
    }
    return status;
}

static bool is_zero(const struct rs_ascend_num *num)
{
    return num->kind == RS_ASCEND_NUM_INT && num->mantissa == 0; /* a float has a fraction */
}

static enum rs_status turn_to_band(struct copier *copier,
                                   const struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS],
                                   bool has_package)
{
    if (copier->transport == copier->last[TRANSPORT]) /* once more: for another package */
        return has_package && copier->has_package &&
                       memcmp(copier->fields, fields, sizeof copier->fields) == 0
                   ? RS_OK
                   : RS_INVALID;
    double sum = 0;
    for (int i = 0; i < RS_ASCEND_COMM_BAND_FIELDS; i++)
        sum += rs_ascend_num_double(&fields[i]);
    copier->is_row = sum != 0;
    copier->has_package = has_package;
    copier->transport = copier->last[TRANSPORT];
    memcpy(copier->fields, fields, sizeof copier->fields);
    return copier->visitor.band(copier->visitor.context, copier->transport, fields);
}

static enum rs_status add_band(struct copier *copier, sqlite3_value **values, bool *is_row_p)
{
    enum { SIZE = RS_ASCEND_COMM_BAND_FIELDS, COUNT, DURATION, NUMBERS };
    struct rs_ascend_num nums[NUMBERS];
    rs_str size = RS_STR_EMPTY;
    memset(nums, 0, sizeof nums); /* they are compared byte by byte */
    if (sqlite3_value_type(values[NAME]) != SQLITE_TEXT)
        return RS_INVALID;
    const struct row_text name = text_of(values[NAME]);
    enum rs_status status = take_name(copier, values[STEP], STEP);
    if (status == RS_OK)
        status = take_name(copier, values[GROUP], GROUP);
    if (status == RS_OK)
        status = take_name(copier, values[TRANSPORT], TRANSPORT);
    if (status == RS_OK && !take_nums(values + TEXTS, NUMBERS, nums))
        status = RS_INVALID;
    if (status != RS_OK || is_total(&name))
        return status;
    status = turn_to_op(copier, &name);
    const bool has_package =
        !is_zero(&nums[SIZE]) || !is_zero(&nums[COUNT]) || !is_zero(&nums[DURATION]);
    if (status == RS_OK)
        status = turn_to_band(copier, nums, has_package);
    *is_row_p = copier->is_row;
    if (status != RS_OK || !has_package)
        return status;
    status = size_name(copier, &nums[SIZE], &size);
    return status == RS_OK ? copier->visitor.package(copier->visitor.context, size, &nums[COUNT],
                                                     &nums[DURATION])
                           : status;
}

static void sum_band(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct copier *copier = sqlite3_user_data(context);
    bool is_row = false;
    enum rs_status status = RS_OK;
    (void)count;
    if (copier->status == RS_OK)
        status = add_band(copier, values, &is_row);
    answer(context, copier, status, is_row);
}

/* ---- a rank ---- */

#define TIME_COLUMNS                                                                               \
    "start_timestamp, elapse_time, transit_time, wait_time, synchronization_time, idle_time"
#define BAND_COLUMNS                                                                               \
    "transit_size, transit_time, bandwidth, large_packet_ratio, package_size, count, total_duration"

/* The schema stands for %s. */
#define TIMES_SQL                                                                                        \
    "INSERT INTO main.ClusterCommunicationTime SELECT step, ?1, hccl_op_name, group_name, " TIME_COLUMNS \
    ", 0, 0 FROM %s.CommAnalyzerTime WHERE sum_op(step, hccl_op_name, group_name, " TIME_COLUMNS         \
    ", type) ORDER BY rowid"
#define BANDS_SQL                                                                                  \
    "INSERT INTO main.ClusterCommunicationBandwidth SELECT step, ?1, hccl_op_name, group_name, "   \
    "transport_type, " BAND_COLUMNS " FROM %s.CommAnalyzerBandwidth WHERE sum_band(step, "         \
    "hccl_op_name, group_name, transport_type, " BAND_COLUMNS ") ORDER BY rowid"

/* The functions, when the file has not got them yet. */
static int bring_functions(struct copier *copier, sqlite3 *db)
{
    const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
    if (copier->db == db)
        return SQLITE_OK;
    int code = sqlite3_create_function(db, "sum_op", 10, flags, copier, sum_op, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function(db, "sum_band", 11, flags, copier, sum_band, NULL, NULL);
    copier->db = code == SQLITE_OK ? db : NULL;
    return code;
}

static enum rs_status copy_table(struct copier *copier, sqlite3 *db, struct rs_ascend_db *from,
                                 size_t which)
{
    sqlite3_stmt *stmt = NULL;
    char sql[800];
    if (!rs_ascend_db_has_table(from, which ? "CommAnalyzerBandwidth" : "CommAnalyzerTime"))
        return RS_INVALID;
    copier->op = copier->transport = RS_STR_NONE;
    if (which == 0)
        (void)snprintf(sql, sizeof sql, TIMES_SQL, rs_ascend_db_schema(from));
    else
        (void)snprintf(sql, sizeof sql, BANDS_SQL, rs_ascend_db_schema(from));
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return RS_INVALID; /* a generation without one of the columns */
    (void)sqlite3_bind_int64(stmt, 1, copier->rank->rank);
    const int code = sqlite3_step(stmt);
    (void)sqlite3_finalize(stmt);
    return copier->status != RS_OK ? copier->status : code == SQLITE_DONE ? RS_OK : RS_INVALID;
}

enum rs_status copy_rank(struct copier *copier, struct bulk *bulk, struct rs_ascend_db *from,
                         struct rank_data *rank)
{
    enum rs_status status = RS_OK;
    copier->rank = rank;
    copier->status = RS_OK;
    for (int i = 0; i < TEXTS; i++)
        copier->last[i] = RS_STR_EMPTY;
    memset(copier->size_names, 0, sizeof copier->size_names);
    rs_strtab_reset(&copier->ops);
    totals_begin(&copier->adder, rank, &rank->comm, NULL);
    copier->visitor = totals_visitor(&copier->adder);
    if (bring_functions(copier, bulk->db) != SQLITE_OK)
        status = RS_INVALID;
    for (size_t i = 0; i < 2 && status == RS_OK; i++)
        status = copy_table(copier, bulk->db, from, i);
    bulk_keep(bulk, status == RS_OK);
    return status;
}

enum rs_status copy_end(struct copier *copier)
{
    return totals_end(&copier->adder);
}
