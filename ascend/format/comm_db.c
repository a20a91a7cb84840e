/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CommAnalyzerTime, CommAnalyzerBandwidth and CommAnalyzerMatrix.
 *
 * The bandwidth table has a row per operation, transport and package size; its rows are read first
 * and chained per operation (step, group, name), and the time table then picks up its chains. An
 * operation with bandwidth alone is no operation. Columns are asked for by name: CANN's own
 * communication_analyzer.db has neither step nor type.
 */
#include "ascend/format/comm.h"
#include "ascend/format/rows.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#include <string.h>

struct band_row {
    rs_str transport, size; /* size RS_STR_NONE: no packages */
    struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS];
    struct rs_ascend_num count, duration;
    size_t next; /* index + 1 of the next row of the operation; 0: none */
};

struct chain {
    rs_str name, group, step;
    bool is_taken;      /* its operation is there */
    size_t first, last; /* index + 1 */
};

struct rs_ascend_bands {
    struct band_row *rows;
    size_t count, capacity;
    struct chain *chains;
    size_t chain_count, chain_capacity;
    uint32_t *slots; /* open addressing: index + 1 */
    size_t slot_count;
    size_t guess;   /* the chain that is likely asked for next */
    bool has_twins; /* a transport stands twice in an operation, with different figures */
};

enum { SIZES_CACHED = 64, COLUMNS_CACHED = 12 };

/* Most cells of a text column repeat the row before, and package sizes are few: remembered, they need
 * neither a look into the table of names nor their digits found again. */
struct memory {
    rs_str last[COLUMNS_CACHED]; /* by column; RS_STR_EMPTY at first */
    uint64_t size_bits[SIZES_CACHED];
    rs_str size_names[SIZES_CACHED]; /* RS_STR_EMPTY: free */
};

struct db_reader {
    struct rs_ascend_comm *comm;
    struct rs_ascend_db *db;
    struct rs_err *err;
    const struct rs_ascend_comm_visitor *visitor; /* NULL: operations go into comm */
    struct memory memory;
    struct rs_buf clean; /* the text at hand, when its bytes are not UTF-8 */
};

void rs_ascend_bands_free(struct rs_ascend_bands **bands)
{
    if (!*bands)
        return;
    rs_mem_free((*bands)->rows);
    rs_mem_free((*bands)->chains);
    rs_mem_free((*bands)->slots);
    rs_mem_free(*bands);
    *bands = NULL;
}

/* Empty, in the memory of the last time. */
static struct rs_ascend_bands *new_bands(struct rs_ascend_comm *comm)
{
    struct rs_ascend_bands *bands = comm->bands;
    if (!bands)
        return comm->bands = rs_mem_calloc(1, sizeof *bands);
    bands->count = bands->chain_count = bands->guess = 0;
    bands->has_twins = false;
    if (bands->slot_count)
        memset(bands->slots, 0, bands->slot_count * sizeof *bands->slots);
    return bands;
}

/* `cells[column]` as a name. */
static enum rs_status add_text(struct db_reader *r, const struct rs_ascend_cell *cells, int column,
                               rs_str *id_p)
{
    const struct rs_ascend_cell *cell = &cells[column];
    const struct rs_strtab *names = &r->comm->names;
    const rs_str last = r->memory.last[column];
    char digits[RS_ASCEND_NUM_TEXT_BYTES];
    const char *text = cell->text;
    size_t length = cell->length;
    if (cell->kind == RS_ASCEND_CELL_INT || cell->kind == RS_ASCEND_CELL_REAL) {
        const struct rs_ascend_num num = rs_ascend_cell_num(cell);
        length = rs_ascend_num_print(&num, digits);
        text = digits;
    }
    if (rs_strtab_length(names, last) == length &&
        memcmp(rs_strtab_text(names, last), text, length) == 0) {
        *id_p = last;
        return RS_OK;
    }
    text = rs_utf8_clean(text, length, &r->clean, &length);
    const enum rs_status status = rs_strtab_add(&r->comm->names, text, length, id_p);
    if (status == RS_OK)
        r->memory.last[column] = *id_p;
    return status == RS_OK ? status
                           : rs_err_set(r->err, status, "%s: %s", rs_ascend_db_path(r->db),
                                        rs_status_text(status));
}

/* A package size as its shortest digits. */
static enum rs_status add_size(struct db_reader *r, const struct rs_ascend_num *size, rs_str *id_p)
{
    char text[RS_ASCEND_NUM_TEXT_BYTES];
    const double value = rs_ascend_num_double(size);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits ^= rs_ascend_num_is_int(size); /* 4 and 4.0 are spelt differently */
    const size_t slot = (size_t)((bits * UINT64_C(0x9E3779B97F4A7C15)) >> 58);
    if (r->memory.size_names[slot] != RS_STR_EMPTY && r->memory.size_bits[slot] == bits) {
        *id_p = r->memory.size_names[slot];
        return RS_OK;
    }
    const enum rs_status status =
        rs_strtab_add(&r->comm->names, text, rs_ascend_num_print(size, text), id_p);
    if (status == RS_OK) {
        r->memory.size_bits[slot] = bits;
        r->memory.size_names[slot] = *id_p;
    }
    return status;
}

static void flaw(struct db_reader *r, const char *sentence)
{
    struct rs_buf *flaws = &r->comm->flaws;
    if (!strstr(rs_buf_text(flaws), sentence))
        rs_buf_printf(flaws, "%s%s", flaws->length ? "; " : "", sentence);
}

/* CANN's own communication_analyzer.db has neither steps nor types: there the step may be missing. */
static uint32_t stepless(const struct rs_ascend_rows *rows, unsigned step)
{
    return rows->lacks >> (step + 1) & 1 ? 1U << step : 0;
}

static bool cell_is(const struct rs_ascend_cell *cell, const char *text)
{
    return cell->kind == RS_ASCEND_CELL_TEXT && cell->length == strlen(text) &&
           memcmp(cell->text, text, cell->length) == 0;
}

/* "step" when the table has no steps; is_p2p from the type, else (also when that is neither) from the operation's
 * name. */
static enum rs_status read_step_and_type(struct db_reader *r, const struct rs_ascend_cell *cells,
                                         int column, rs_str op_name, rs_str *step_p, bool *is_p2p_p)
{
    const struct rs_ascend_cell *step = &cells[column], *type = step + 1;
    *is_p2p_p =
        cell_is(type, "p2p") || (!cell_is(type, "collective") &&
                                 rs_ascend_is_p2p(rs_strtab_text(&r->comm->names, op_name)));
    if (step->kind != RS_ASCEND_CELL_NULL)
        return add_text(r, cells, column, step_p);
    return rs_strtab_add(&r->comm->names, "step", 4, step_p);
}

/* ---- bandwidth --------------------------------------------------------------------------- */

static size_t hash_of(rs_str name, rs_str group, rs_str step)
{
    uint64_t h = ((uint64_t)name << 32 | group) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= (h >> 29) + step;
    h *= UINT64_C(0xBF58476D1CE4E5B9);
    return (size_t)(h ^ h >> 32);
}

static bool is_chain(const struct chain *chain, rs_str name, rs_str group, rs_str step)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a place in the table */
    return chain->name == name && chain->group == group && chain->step == step;
}

static struct chain *find_chain(struct rs_ascend_bands *bands, rs_str name, rs_str group,
                                rs_str step)
{
    if (bands->guess < bands->chain_count &&
        is_chain(&bands->chains[bands->guess], name, group, step))
        return &bands->chains[bands->guess++];
    if (bands->slot_count == 0)
        return NULL;
    for (size_t i = hash_of(name, group, step);; i++) {
        const uint32_t slot = bands->slots[i & (bands->slot_count - 1)];
        if (slot == 0)
            return NULL;
        if (is_chain(&bands->chains[slot - 1], name, group, step)) {
            bands->guess = slot;
            return &bands->chains[slot - 1];
        }
    }
}

static void enter_slot(struct rs_ascend_bands *bands, size_t index)
{
    const struct chain *chain = &bands->chains[index];
    size_t i = hash_of(chain->name, chain->group, chain->step);
    while (bands->slots[i & (bands->slot_count - 1)])
        i++;
    bands->slots[i & (bands->slot_count - 1)] = (uint32_t)index + 1;
}

static enum rs_status grow_slots(struct rs_ascend_bands *bands)
{
    if ((bands->chain_count + 1) * 2 <= bands->slot_count)
        return RS_OK;
    const size_t wanted = bands->slot_count ? bands->slot_count * 2 : 1024;
    uint32_t *slots = wanted > UINT32_MAX ? NULL : rs_mem_calloc(wanted, sizeof *slots);
    if (!slots)
        return RS_NOMEM;
    rs_mem_free(bands->slots);
    bands->slots = slots;
    bands->slot_count = wanted;
    for (size_t i = 0; i < bands->chain_count; i++)
        enter_slot(bands, i);
    return RS_OK;
}

static enum rs_status add_chain(struct rs_ascend_bands *bands, const struct chain *chain,
                                struct chain **chain_p)
{
    if (grow_slots(bands) != RS_OK ||
        rs_mem_grow((void **)&bands->chains, &bands->chain_capacity, bands->chain_count + 1,
                    sizeof *bands->chains) != RS_OK)
        return RS_NOMEM;
    bands->chains[bands->chain_count++] = *chain;
    enter_slot(bands, bands->chain_count - 1);
    *chain_p = &bands->chains[bands->chain_count - 1];
    return RS_OK;
}

/* The same transport of the same operation again, with other figures, or without packages beside some. */
static bool is_other_band(const struct band_row *a, const struct band_row *b)
{
    if (a->transport != b->transport)
        return false;
    if (a->size == RS_STR_NONE || b->size == RS_STR_NONE)
        return true;
    for (int i = 0; i < RS_ASCEND_COMM_BAND_FIELDS; i++)
        if (memcmp(&a->fields[i], &b->fields[i], sizeof a->fields[i]) != 0)
            return true;
    return false;
}

static enum rs_status append_row(struct rs_ascend_bands *bands, const struct chain *key,
                                 const struct band_row *row)
{
    struct chain *chain = bands->chain_count ? &bands->chains[bands->chain_count - 1] : NULL;
    if (!chain || !is_chain(chain, key->name, key->group, key->step)) /* else: as the row before */
        chain = find_chain(bands, key->name, key->group, key->step);
    if (!chain && add_chain(bands, key, &chain) != RS_OK)
        return RS_NOMEM;
    if (rs_mem_grow((void **)&bands->rows, &bands->capacity, bands->count + 1,
                    sizeof *bands->rows) != RS_OK)
        return RS_NOMEM;
    bands->rows[bands->count++] = *row;
    if (chain->last && is_other_band(&bands->rows[chain->last - 1], row))
        bands->has_twins = true;
    if (chain->last)
        bands->rows[chain->last - 1].next = bands->count;
    else
        chain->first = bands->count;
    chain->last = bands->count;
    return RS_OK;
}

static bool is_zero(const struct rs_ascend_num *num)
{
    return rs_ascend_num_double(num) == 0;
}

enum { B_NAME, B_GROUP, B_TRANSPORT, B_FIELDS, B_PACKAGE = 7, B_COUNT, B_DURATION, B_STEP };

static enum rs_status read_band_row(struct db_reader *r, const struct rs_ascend_cell *cells,
                                    struct rs_ascend_bands *bands)
{
    struct chain key = {0};
    struct band_row row = {.size = RS_STR_NONE};
    bool is_p2p = false;
    enum rs_status status = add_text(r, cells, B_NAME, &key.name);
    if (status == RS_OK)
        status = add_text(r, cells, B_GROUP, &key.group);
    if (status == RS_OK)
        status = add_text(r, cells, B_TRANSPORT, &row.transport);
    if (status == RS_OK)
        status = read_step_and_type(r, cells, B_STEP, RS_STR_EMPTY, &key.step, &is_p2p);
    if (status != RS_OK)
        return status;
    for (int i = 0; i < RS_ASCEND_COMM_BAND_FIELDS; i++)
        row.fields[i] = rs_ascend_cell_num(&cells[B_FIELDS + i]);
    const struct rs_ascend_num package = rs_ascend_cell_num(&cells[B_PACKAGE]);
    row.count = rs_ascend_cell_num(&cells[B_COUNT]);
    row.duration = rs_ascend_cell_num(&cells[B_DURATION]);
    if (!is_zero(&package) || !is_zero(&row.count) || !is_zero(&row.duration)) {
        status = add_size(r, &package, &row.size);
    }
    if (status == RS_OK)
        status = append_row(bands, &key, &row);
    return status == RS_OK ? status
                           : rs_err_set(r->err, status, "%s: %s", rs_ascend_db_path(r->db),
                                        rs_status_text(status));
}

static enum rs_status read_bands(struct db_reader *r, struct rs_ascend_bands *bands)
{
    static const char *const columns[] = {"hccl_op_name",       "group_name",   "transport_type",
                                          "transit_size",       "transit_time", "bandwidth",
                                          "large_packet_ratio", "package_size", "count",
                                          "total_duration",     "step",         "type"};
    struct rs_ascend_rows rows = {0};
    enum rs_status status = rs_ascend_rows_open(&rows, r->db, "CommAnalyzerBandwidth", columns,
                                                sizeof columns / sizeof columns[0], r->err);
    rows.expect = (struct rs_ascend_expect){.numbers = 0x7fU << B_FIELDS,
                                            .texts = 7 | 1U << B_STEP,
                                            .may_lack = stepless(&rows, B_STEP)};
    while (status == RS_OK && (status = rs_ascend_rows_next(&rows, r->err)) == RS_OK)
        status = read_band_row(r, rows.cells, bands);
    if (status == RS_END)
        rs_ascend_rows_flaws(&rows, "CommAnalyzerBandwidth", columns, &r->comm->flaws);
    if (status == RS_END && bands->has_twins)
        flaw(r, "CommAnalyzerBandwidth says twice, and differently, "
                "what one transport of an operation carried");
    rs_ascend_rows_close(&rows);
    return status == RS_END || status == RS_NOTFOUND ? RS_OK : status; /* no such table: no rows */
}

/* ---- operations --------------------------------------------------------------------------- */

/* Rows of one transport stand together; each starts where the transport changes. */
static void write_bands(struct rs_ascend_comm_writer *writer, const struct rs_ascend_bands *bands,
                        const struct chain *chain)
{
    rs_str transport = RS_STR_NONE;
    for (size_t i = chain ? chain->first : 0; i; i = bands->rows[i - 1].next) {
        const struct band_row *row = &bands->rows[i - 1];
        if (row->transport != transport)
            rs_ascend_comm_band_begin(writer, row->transport, row->fields);
        transport = row->transport;
        if (row->size != RS_STR_NONE)
            rs_ascend_comm_add_package(writer, row->size, &row->count, &row->duration);
    }
}

static enum rs_status write_op(struct db_reader *r, const struct rs_ascend_comm_op *op,
                               const struct rs_ascend_num *times,
                               const struct rs_ascend_bands *bands, const struct chain *chain)
{
    struct rs_ascend_comm_writer writer;
    rs_ascend_comm_op_begin(&writer, r->comm, times);
    write_bands(&writer, bands, chain);
    const size_t at = writer.op.at;
    writer.op = *op;
    writer.op.at = at;
    return rs_ascend_comm_op_end(&writer);
}

/* The same to a visitor. */
static enum rs_status show_op(const struct rs_ascend_comm_visitor *visitor,
                              const struct rs_ascend_comm_op *op, const struct rs_ascend_num *times,
                              const struct rs_ascend_bands *bands, const struct chain *chain)
{
    rs_str transport = RS_STR_NONE;
    enum rs_status status = visitor->op(visitor->context, op, times);
    for (size_t i = chain ? chain->first : 0; i && status == RS_OK; i = bands->rows[i - 1].next) {
        const struct band_row *row = &bands->rows[i - 1];
        if (row->transport != transport)
            status = visitor->band(visitor->context, row->transport, row->fields);
        transport = row->transport;
        if (row->size != RS_STR_NONE && status == RS_OK)
            status = visitor->package(visitor->context, row->size, &row->count, &row->duration);
    }
    return status;
}

enum { T_NAME, T_GROUP, T_TIMES, T_STEP = 8, TIME_COLUMNS = 6 };

static enum rs_status read_op_row(struct db_reader *r, const struct rs_ascend_cell *cells,
                                  struct rs_ascend_bands *bands)
{
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES] = {0};
    struct rs_ascend_comm_op op = {0};
    enum rs_status status = add_text(r, cells, T_NAME, &op.name);
    if (status == RS_OK)
        status = add_text(r, cells, T_GROUP, &op.group);
    if (status == RS_OK)
        status = read_step_and_type(r, cells, T_STEP, op.name, &op.step, &op.is_p2p);
    if (status != RS_OK)
        return status;
    if (strncmp(rs_strtab_text(&r->comm->names, op.name), "Total ", 6) == 0)
        return RS_OK;
    for (int i = 0; i < TIME_COLUMNS; i++)
        times[i] = rs_ascend_cell_num(&cells[T_TIMES + i]);
    struct chain *chain = find_chain(bands, op.name, op.group, op.step);
    if (!chain) { /* nothing of it went over any transport */
        const struct chain own = {.name = op.name, .group = op.group, .step = op.step};
        if (add_chain(bands, &own, &chain) != RS_OK)
            return rs_err_set(r->err, RS_NOMEM, "no memory to read %s", rs_ascend_db_path(r->db));
    } else if (chain->is_taken) {
        flaw(r, "CommAnalyzerTime has an operation twice");
    }
    chain->is_taken = true;
    status = r->visitor ? show_op(r->visitor, &op, times, bands, chain)
                        : write_op(r, &op, times, bands, chain);
    return status == RS_OK ? status
                           : rs_err_set(r->err, status, "%s: %s", rs_ascend_db_path(r->db),
                                        rs_status_text(status));
}

/* What went over transports, of operations without times. */
static void look_for_orphans(struct db_reader *r, const struct rs_ascend_bands *bands)
{
    for (size_t i = 0; i < bands->chain_count; i++)
        if (!bands->chains[i].is_taken &&
            strncmp(rs_strtab_text(&r->comm->names, bands->chains[i].name), "Total ", 6) != 0) {
            flaw(r, "CommAnalyzerBandwidth has operations that CommAnalyzerTime has not");
            return;
        }
}

static enum rs_status read_ops(struct db_reader *r)
{
    static const char *const columns[] = {
        "hccl_op_name", "group_name",           "start_timestamp", "elapse_time", "transit_time",
        "wait_time",    "synchronization_time", "idle_time",       "step",        "type"};
    struct rs_ascend_bands *bands = new_bands(r->comm);
    struct rs_ascend_rows rows = {0};
    if (!bands)
        return RS_NOMEM;
    enum rs_status status = read_bands(r, bands);
    bands->guess = 0;
    if (status == RS_OK)
        status = rs_ascend_rows_open(&rows, r->db, "CommAnalyzerTime", columns,
                                     sizeof columns / sizeof columns[0], r->err);
    rows.expect = (struct rs_ascend_expect){.numbers = 0x3fU << T_TIMES,
                                            .texts = 3 | 1U << T_STEP,
                                            .may_lack = stepless(&rows, T_STEP)};
    while (status == RS_OK && (status = rs_ascend_rows_next(&rows, r->err)) == RS_OK)
        status = read_op_row(r, rows.cells, bands);
    if (status == RS_END) {
        rs_ascend_rows_flaws(&rows, "CommAnalyzerTime", columns, &r->comm->flaws);
        look_for_orphans(r, bands);
    }
    rs_ascend_rows_close(&rows);
    return status == RS_END ? RS_OK : status;
}

/* ---- links -------------------------------------------------------------------------------- */

enum { L_KIND, L_GROUP, L_SRC, L_DST, L_TRANSPORT, L_FIELDS, L_STEP = 8, L_TYPE, L_OP };

/* A kind starts with the operation's type: "send-total", "allreduce-top1". */
static bool is_p2p_kind(const char *kind)
{
    return strncmp(kind, "send", 4) == 0 || strncmp(kind, "receive", 7) == 0 ||
           strncmp(kind, "batchsendrecv", 13) == 0;
}

static enum rs_status read_link_row(struct db_reader *r, const struct rs_ascend_cell *cells)
{
    struct rs_ascend_comm_link link = {.op_name = RS_STR_NONE};
    struct rs_ascend_num fields[3];
    int64_t src = 0, dst = 0;
    enum rs_status status = add_text(r, cells, L_KIND, &link.kind);
    if (status == RS_OK)
        status = add_text(r, cells, L_GROUP, &link.group);
    if (status == RS_OK)
        status = add_text(r, cells, L_TRANSPORT, &link.transport);
    if (status == RS_OK && cells[L_OP].kind != RS_ASCEND_CELL_NULL)
        status = add_text(r, cells, L_OP, &link.op_name);
    if (status == RS_OK)
        status = read_step_and_type(r, cells, L_STEP,
                                    link.op_name == RS_STR_NONE ? RS_STR_EMPTY : link.op_name,
                                    &link.step, &link.is_p2p);
    if (status != RS_OK)
        return status;
    if (!cell_is(&cells[L_TYPE], "p2p") && !cell_is(&cells[L_TYPE], "collective"))
        link.is_p2p = is_p2p_kind(rs_strtab_text(&r->comm->names, link.kind));
    if (!rs_ascend_cell_int(&cells[L_SRC], &src) || !rs_ascend_cell_int(&cells[L_DST], &dst) ||
        src < 0 || dst < 0 || src > INT32_MAX || dst > INT32_MAX)
        return rs_err_set(r->err, RS_FORMAT, "%s: CommAnalyzerMatrix has a link without ranks",
                          rs_ascend_db_path(r->db));
    link.src = (int32_t)src;
    link.dst = (int32_t)dst;
    for (int i = 0; i < 3; i++)
        fields[i] = rs_ascend_cell_num(&cells[L_FIELDS + i]);
    return rs_ascend_comm_add_link(r->comm, &link, fields);
}

static enum rs_status read_links(struct db_reader *r)
{
    static const char *const columns[] = {
        "hccl_op_name", "group_name", "src_rank", "dst_rank", "transport_type", "transit_size",
        "transit_time", "bandwidth",  "step",     "type",     "op_name"};
    struct rs_ascend_rows rows = {0};
    enum rs_status status = rs_ascend_rows_open(&rows, r->db, "CommAnalyzerMatrix", columns,
                                                sizeof columns / sizeof columns[0], r->err);
    rows.expect = (struct rs_ascend_expect){.numbers = 1U << L_SRC | 1U << L_DST | 7U << L_FIELDS,
                                            .texts = 3 | 1U << L_TRANSPORT | 1U << L_STEP,
                                            .may_lack = stepless(&rows, L_STEP)};
    while (status == RS_OK && (status = rs_ascend_rows_next(&rows, r->err)) == RS_OK)
        status = read_link_row(r, rows.cells);
    if (status == RS_END)
        rs_ascend_rows_flaws(&rows, "CommAnalyzerMatrix", columns, &r->comm->flaws);
    rs_ascend_rows_close(&rows);
    return status == RS_END ? RS_OK : status;
}

static enum rs_status failed_to_read(const struct db_reader *r, enum rs_status status)
{
    return status == RS_NOMEM
               ? rs_err_set(r->err, RS_NOMEM, "no memory to read %s", rs_ascend_db_path(r->db))
               : status;
}

enum rs_status rs_ascend_comm_visit_db(struct rs_ascend_comm *comm, struct rs_ascend_db *db,
                                       const struct rs_ascend_comm_visitor *visitor,
                                       struct rs_err *err)
{
    struct db_reader r = {.comm = comm, .db = db, .err = err, .visitor = visitor};
    const enum rs_status status = read_ops(&r);
    rs_buf_fini(&r.clean);
    if (status != RS_OK)
        return failed_to_read(&r, status);
    comm->parts |= RS_ASCEND_COMM_OPS;
    return RS_OK;
}

enum rs_status rs_ascend_comm_read_db(struct rs_ascend_comm *comm, enum rs_ascend_comm_part part,
                                      struct rs_ascend_db *db, struct rs_err *err)
{
    struct db_reader r = {.comm = comm, .db = db, .err = err};
    const bool is_ops = part == RS_ASCEND_COMM_OPS;
    const size_t ops = comm->op_count, links = comm->link_count, bytes = comm->bytes.length;
    const enum rs_status status = is_ops ? read_ops(&r) : read_links(&r);
    rs_buf_fini(&r.clean);
    if (status != RS_OK) {
        comm->op_count = ops;
        comm->link_count = links;
        comm->bytes.length = bytes;
        comm->bytes.failed = false;
        return failed_to_read(&r, status);
    }
    comm->parts |= (unsigned)part;
    return RS_OK;
}
