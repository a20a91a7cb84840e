/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room's own: what a run knows, stage by stage.
 *
 *     load.c    a worker per rank: files --> comm, steps, metadata, totals
 *     join.c    one thread: groups over ranks, local -> global ranks, rows in the output's order
 *     stage.c   pipeline stages, parallel indexes
 *     text_*.c  writers, each of one file; they only read what join made
 *     db_rows.c, db.c   the database: operations go in while ranks are loaded, the rest after join
 */
#ifndef RS_CLUSTER_CLUSTER_PRIV_H
#define RS_CLUSTER_CLUSTER_PRIV_H

#include "ascend/cluster/bulk.h"
#include "ascend/cluster/cluster.h"
#include "ascend/format/comm.h"
#include "ascend/format/step.h"

#define NO_INDEX UINT32_MAX

/* A sum as the text tools make it (plain, integers stay integers) and as the tables' tools make it
 * (compensated). `dirt`: the lost low part. */
struct sum {
    double plain, kahan, dirt;
    int64_t whole;
    bool is_float; /* some term was no integer */
};

enum { TOTAL_TIMES = 5 }; /* elapse, transit, wait, synchronization, idle */

struct package_total {
    rs_str size;
    struct rs_ascend_num number; /* the size as a number; NONE: it is none */
    struct sum count, duration;
    uint32_t next; /* index in packages, NO_INDEX: last */
};

struct band_total {
    rs_str transport;
    struct sum size, time;
    double size_pairs, time_pairs; /* the sums as arrays are summed: pairwise */
    uint32_t first, last;          /* packages */
    uint32_t next;                 /* band of the same total */
};

/* Sums of one rank's operations of one step in one group. */
struct total {
    rs_str step, group;
    bool has_op[2]; /* by enum side */
    struct sum times[TOTAL_TIMES];
    uint32_t first, last; /* bands */
};

struct totals {
    struct total *rows;
    size_t count, capacity;
    struct band_total *bands;
    size_t band_count, band_capacity;
    struct package_total *packages;
    size_t package_count, package_capacity;
};

/* Which columns of the database's tables hold something that is no integer. */
enum real_column {
    REAL_TIME,                    /* start, elapse, transit, wait, synchronization, idle */
    REAL_BAND = REAL_TIME + 6,    /* size, time, bandwidth, large packet ratio */
    REAL_PACKAGE = REAL_BAND + 4, /* package size */
    REAL_COUNT,
    REAL_DURATION,
    REAL_LINK, /* size, time */
};

struct rank_data {
    const struct rs_ascend_rank *vendor;
    int64_t rank;
    bool is_db;         /* its operations or links are */
    bool skips_unknown; /* in sums, as the vendor's tool does; else they are unknown, too */
    bool has_db_steps;  /* of Level0 only the steps are in the database */
    struct rs_ascend_comm comm;
    struct rs_ascend_steps steps;
    struct rs_ascend_metadata meta;
    bool has_meta;
    struct rs_ascend_place place;
    struct totals totals;
    size_t op_count; /* read; comm has them only if a text document wants them */
    uint32_t reals;  /* bits of enum real_column */
    unsigned read_parts, bad_parts;
    struct rs_buf reason; /* sentences; empty: whole */
    /* made by join: by this rank's string ids */
    uint32_t *group_of; /* index of the group, NO_INDEX */
    uint32_t *step_of;
    uint32_t *name_of; /* number of an operation's or kind's name over all ranks */
};

enum side { SIDE_COLLECTIVE, SIDE_P2P, SIDES };

struct rank_set {
    int64_t *ranks; /* ascending */
    size_t count, capacity;
};

struct group {
    const char *hash;      /* lent by the rank that named it first */
    const char *id, *name; /* of the metadata; "" */
    struct rank_set named; /* of the metadata; empty: not known */
    struct rank_set by_ops[SIDES], by_any[SIDES];
    int64_t *global; /* by local rank; -1: not known */
    size_t global_count;
    struct rank_set both; /* by_any of both sides */
    uint32_t key;         /* index in keys; NO_INDEX: nothing refers to the group */
};

/* A tuple of ranks under which the text documents file their groups. */
struct key {
    const struct rank_set *ranks;
};

/* One operation of one rank, or one link, in the order of the documents. */
struct op_ref {
    uint32_t key, step, name, group, rank, index;
};
struct link_ref {
    uint32_t key, step, name, group;
    int64_t src, dst;
    uint32_t rank, index;
};

struct stages {
    struct rank_set *sets;
    size_t count;
};

/* How ranks lie in the parallel sizes. */
struct layout {
    bool is_known;
    int64_t tp, cp, dp, pp;
};

struct run {
    const struct rs_cluster_options *options;
    struct rs_cluster_result *result;
    bool wants_db, wants_text; /* the forms to be written */
    struct db_file *db;        /* of wants_db */
    struct later *later; /* load.c: for ranks whose operations are read when it is their turn */
    struct rank_data *ranks;
    size_t rank_count;
    struct rs_strtab steps, names, hashes;
    struct group *groups;
    size_t group_count, group_capacity;
    struct rs_strtab tuples; /* bytes of rank sets --> key */
    struct key *keys;        /* by id of tuples */
    size_t key_count, key_capacity;
    struct op_ref *ops; /* only for the text documents */
    size_t op_count;
    struct link_ref *links;
    size_t link_count;
    struct stages stages;
    struct layout layout;
    uint32_t reals;
};

/* One rank's rows of the tables that grow with operations. */
struct rank_rows {
    struct bulk_rows times, bands;
    bool
        is_later; /* its operations are not read yet: load_later() does it when it is the rank's turn */
};

/* load.c */
RS_MUST_CHECK enum rs_status load_ranks(struct run *run, const struct rs_ascend_list *list,
                                        struct rs_err *err);
/* Of the database's tables: copies the operations of a rank that was left for later, or makes `rows` of them. By who holds
 * the file, in the order of ranks. */
void load_later(struct run *run, size_t rank_index, struct bulk *bulk, struct rank_rows *rows);
/* Forgets the ranks. */
void unload_ranks(struct run *run);
void rank_data_fini(struct rank_data *rank);

/* totals.c */
/* Sums of the operations in `comm` (the rank's own, or a worker's), and their rows, if a database is written.
 *
 *     totals_begin -> operations, shown by the visitor or, with totals_add_all, those kept in comm -> totals_end
 *
 * totals_begin again forgets what was added and keeps the memory, for the next rank too. */
struct adder {
    struct rank_data *rank;
    const struct rs_ascend_comm *comm;
    struct rank_rows *rows;  /* NULL: no rows */
    struct total *total;     /* of the operation at hand */
    struct band_total *band; /* of the transport at hand; NULL: none */
    bool has_package, is_row;
    size_t op_count;
    struct bulk_start op_start, band_start;
    struct pair_term *terms;
    size_t term_count, term_capacity;
};
void totals_begin(struct adder *adder, struct rank_data *rank, const struct rs_ascend_comm *comm,
                  struct rank_rows *rows);
struct rs_ascend_comm_visitor totals_visitor(struct adder *adder);
RS_MUST_CHECK enum rs_status totals_add_all(struct adder *adder);
/* The transports that follow are of an operation of this step and group, which was added before. */
void totals_turn_to(struct adder *adder, rs_str step, rs_str group);
RS_MUST_CHECK enum rs_status totals_end(struct adder *adder);
void adder_fini(struct adder *adder);
/* The rank's sums name things by ids of `comm`; now by those of the rank's own. */
RS_MUST_CHECK enum rs_status totals_rename(struct rank_data *rank,
                                           const struct rs_ascend_comm *comm);
void totals_fini(struct totals *totals);
void sum_add(struct sum *sum, const struct rs_ascend_num *num, bool skips_unknown);
struct rs_ascend_num sum_text(const struct sum *sum);

/* copy.c: operations from a rank's analysis.db into the large tables by INSERT .. SELECT, summed on the way. */
struct copier;
RS_MUST_CHECK enum rs_status copier_new(struct copier **copier_p);
void copier_free(struct copier **copier);
/* RS_INVALID: something in it is not as the profiler writes it; nothing was copied, and the rank's sums are to be begun
 * again. RS_NOMEM. What cannot be written shows in bulk->status. */
RS_MUST_CHECK enum rs_status copy_rank(struct copier *copier, struct bulk *bulk,
                                       struct rs_ascend_db *from, struct rank_data *rank);
/* After the rank's links, too, are there: ends its sums. RS_NOMEM. */
RS_MUST_CHECK enum rs_status copy_end(struct copier *copier);

/* join.c */
RS_MUST_CHECK enum rs_status join_ranks(struct run *run);
void join_fini(struct run *run);
bool rank_set_has(const struct rank_set *set, int64_t rank);
RS_MUST_CHECK enum rs_status rank_set_add(struct rank_set *set, int64_t rank);
/* Global rank of a link's end; -1 unknown. */
int64_t global_rank(const struct group *group, int32_t local);
/* The ranks that a group is said to have: its metadata's, else those seen on this side. */
const struct rank_set *group_ranks(const struct group *group, enum side side);
/* The rank's data, or NULL. */
const struct rank_data *find_rank(const struct run *run, int64_t rank);

/* matrix.c: links of the documents one by one; what several ranks say of one link is one link. */
struct link_row {
    uint32_t key, step, name, group;
    int64_t src, dst;
    struct sum size, time;
    const char *first_transport, *last_transport;
    const char *first_op, *last_op; /* NULL: a database says nothing */
};
/* `*at_p` starts at 0. False: no more. */
bool next_link(const struct run *run, size_t *at_p, struct link_row *row_p);

/* Sums over link rows: "Total Op Info" of a (key, step). */
struct link_totals {
    struct link_row *rows;
    size_t count, capacity;
};
RS_MUST_CHECK enum rs_status link_totals_add(struct link_totals *totals,
                                             const struct link_row *row);
/* Folds what was added: one row per (group, src, dst), in this order. */
void link_totals_fold(struct link_totals *totals);
/* Is a link of this name counted in the totals? Text: neither top, middle nor bottom; tables: total. */
bool counts_in_text(const char *name);
bool counts_in_table(const char *name);

/* stage.c */
RS_MUST_CHECK enum rs_status find_stages(struct run *run);
void find_layout(struct run *run);
/* dp, pp, tp of the rank; false: not known. */
bool place_of(const struct layout *layout, int64_t rank, int64_t place_p[3]);

/* sink.c: a document on its way to a file. Errors are sticky. */
struct sink {
    char *path, *temporary;
    int fd;
    uint8_t *data;
    size_t length;
    uint64_t written;
    enum rs_status status;
    struct rs_err err;
};
enum { SINK_BYTES = 1 << 20, SINK_ROOM = 4096 };
RS_MUST_CHECK enum rs_status sink_open(struct sink *sink, const char *dir, const char *name);
/* Puts the file in its place, or removes it when something failed; RS_OK or sink->err. */
RS_MUST_CHECK enum rs_status sink_close(struct sink *sink);
void sink_flush(struct sink *sink);
void sink_bytes(struct sink *sink, const char *bytes, size_t length);
void sink_text(struct sink *sink, const char *text);
void sink_num(struct sink *sink, const struct rs_ascend_num *num);
void sink_int(struct sink *sink, int64_t value);
void sink_quoted(struct sink *sink, const char *text, size_t length); /* as a JSON string */

/* Writers: each opens, fills and closes one file in `dir`. `bytes_p`: how long it became. */
RS_MUST_CHECK enum rs_status write_step_csv(const struct run *run, const char *dir,
                                            uint64_t *bytes_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status write_group_json(const struct run *run, const char *dir,
                                              uint64_t *bytes_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status write_comm_json(const struct run *run, const char *dir,
                                             uint64_t *bytes_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status write_matrix_json(const struct run *run, const char *dir,
                                               uint64_t *bytes_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status write_db(const struct run *run, const char *dir, uint64_t *bytes_p,
                                      struct rs_err *err);

/* db.c: write_db() is the end of a file that these begin and fill.
 *
 *     db_begin -> db_take_rows .. db_give_rows (workers, any order of ranks) -> write_db -> db_drop
 *
 * Rows go into the file in the order of ranks, whoever brings them; a worker that is far ahead waits. */
RS_MUST_CHECK enum rs_status db_begin(struct run *run, const char *dir, struct rs_err *err);
struct rank_rows *db_take_rows(struct db_file *file); /* lends, empty */
void db_give_rows(struct run *run, size_t rank_index, struct rank_rows *rows);
void db_drop(struct run *run); /* removes what was not finished; nothing begun is fine */

/* db_rows.c */
struct row_text {
    const char *text;
    size_t length;
};
/* What stands in front in a row of one operation. */
struct row_head {
    int64_t rank;
    struct row_text step, name, group;
};
void make_start(struct bulk_rows *rows, struct bulk_start *start, const struct row_head *head);
void put_time_row(struct bulk_rows *rows, const struct bulk_start *start,
                  const struct rs_ascend_num *times, const double *values);
/* What stands in front in a row of one transport of it. */
void make_band_start(struct bulk_rows *rows, struct bulk_start *band,
                     const struct bulk_start *start, const struct row_text *transport,
                     const struct rs_ascend_num *fields);
void put_band_row(struct bulk_rows *rows, const struct bulk_start *band,
                  const struct rs_ascend_num *size, const struct rs_ascend_num *count,
                  const struct rs_ascend_num *duration);
/* The sums' rows of all ranks. */
void put_total_times(const struct run *run, struct bulk_table *table, struct bulk_rows *rows);
void put_total_bands(const struct run *run, struct bulk_table *table, struct bulk_rows *rows);
RS_MUST_CHECK enum rs_status put_links(const struct run *run, struct bulk_table *table,
                                       struct bulk_rows *rows);
/* "CREATE TABLE" of each. */
void declare_times(const struct run *run, struct rs_buf *sql);
void declare_bands(const struct run *run, struct rs_buf *sql);
void declare_links(const struct run *run, struct rs_buf *sql);

/* The maxima of a stage's ranks at one step. False: none of them has the step. */
bool stage_row(const struct run *run, const struct rank_set *stage, const char *step,
               double maxima_p[RS_ASCEND_STEP_FIELDS]);

/* result.c */
enum rs_status note(struct rs_cluster_result *result, const char *format, ...) RS_PRINTF(2, 3);

#endif
