/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recipes of this room share: the frame (rows of one query), grouping, the peer's
 * statistics, tables out, and the shape of a recipe.
 */
#ifndef RS_RECIPE_RECIPE_PRIV_H
#define RS_RECIPE_RECIPE_PRIV_H

#include "ascend/format/db.h"
#include "ascend/recipe/recipe.h"
#include "common/base/buf.h"
#include "common/base/null.h"
#include "common/base/strtab.h"

#include <pthread.h>
#include <string.h>

/* ---- frame.c: rows of integers, reals and texts ------------------------------------------- */

enum { FRAME_COLUMNS_MAX = 20 };

union frame_cell {
    int64_t i;
    double r;
    rs_str t;
};

/* `kinds` says a letter per column: i integer, r real, t text (an id of `texts`). */
struct frame {
    char kinds[FRAME_COLUMNS_MAX + 1];
    size_t columns;
    union frame_cell *cells; /* [count * columns] */
    size_t count, capacity;
    struct rs_strtab texts;
    union frame_cell spare[FRAME_COLUMNS_MAX]; /* what frame_put() lends when there is no memory */
    bool failed;                               /* a row or a text was lost */
};

RS_MUST_CHECK enum rs_status frame_init(struct frame *frame, const char *kinds);
void frame_fini(struct frame *frame);

static inline const union frame_cell *frame_row(const struct frame *frame, size_t row)
{
    return frame->cells + row * frame->columns;
}
static inline const char *frame_text(const struct frame *frame, rs_str id)
{
    return rs_strtab_text(&frame->texts, id);
}

static inline union frame_cell *frame_at(struct frame *frame, size_t row) /* to be changed */
{
    return frame->cells + row * frame->columns;
}

/* A new last row, all zero. Without memory the frame has `failed`, asked for once, at the end. Lends until the next row. */
union frame_cell *frame_put(struct frame *frame);
rs_str frame_str(struct frame *frame, const char *text);

/* A new last row, all zero; NULL: no memory. Lends until the next row. */
union frame_cell *frame_add(struct frame *frame);
/* Appends the rows of `more`, which has the same kinds; texts are translated. */
RS_MUST_CHECK enum rs_status frame_append(struct frame *frame, const struct frame *more);

/* Appends the statement's row. RS_FORMAT: an integer column of it is neither a whole number nor NULL. */
struct sqlite3_stmt;
RS_MUST_CHECK enum rs_status frame_take(struct frame *frame, struct sqlite3_stmt *row);

/* Row numbers ordered by the columns of `keys` (texts by bytes), then by row. */
struct frame_order {
    uint32_t *rows;
    size_t count;
    char keys[FRAME_COLUMNS_MAX + 1]; /* "\1\3": column numbers, each + 1 */
};
RS_MUST_CHECK enum rs_status frame_order(const struct frame *frame, const char *keys,
                                         struct frame_order *order_p);
void frame_order_fini(struct frame_order *order);
/* ---- stats.c: sums and quantiles as the peer's libraries make them -------------------------- */

struct stats {
    size_t count;
    double mean, std, min, q1, median, q3, max, sum; /* std is NaN for one value */
};

/* As a data frame's groupby does it: compensated sums, running variance, a + (b - a) * t. */
void stats_of_group(const double *values, size_t count, double *sorted, struct stats *stats_p);
/* As a single column does it: pairwise sums, two passes, interpolation from the nearer end. */
void stats_of_column(const double *values, size_t count, double *sorted, struct stats *stats_p);
double stats_pairwise_sum(const double *values, size_t count);
double stats_quantile(const double *sorted, size_t count, double q); /* from the nearer end */
double stats_std_population(const double *values, size_t count, double *mean_p);
void stats_sort(double *values, size_t count);
double stats_median_sorted(const double *sorted, size_t count);

/* A sum that keeps what rounding takes away. */
struct stats_sum {
    double sum, lost;
};
void stats_add(struct stats_sum *sum, double value);

double stats_round(double value, int digits);     /* half to even, after scaling */
double stats_round_sql(double value, int digits); /* SQLite's round() */
/* The shortest digits that read back, in Python's clothes: 1e+16, 0.5, 3.0. */
void stats_print(double value, char *text, size_t size);
void stats_print_us(int64_t ns, char *text, size_t size); /* ns / 1000 exactly, no trailing zeros */

/* ---- out.c: tables ------------------------------------------------------------------------- */

struct run;
struct recipe_rank;
struct inputs;
#define COLUMN_COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))
/* Files of each rank, which recipes write while it is mapped. */
struct rank_files {
    struct rs_recipe_written files[2];
    size_t count;
};
/* Where the rank's file stands: OUT/cluster_analysis_output/FOLDER/NAME, its folders made. Freshly allocated. */
RS_MUST_CHECK enum rs_status rank_file_path(const struct run *run, const char *name, char **path_p,
                                            struct rs_err *err);
void rank_files_add(struct inputs *in, struct rank_files *files, const char *name, uint64_t rows);
/* Tells the caller of the run about a table or file. */
RS_MUST_CHECK enum rs_status out_note(struct run *run, const char *name, uint64_t rows,
                                      struct rs_err *err);

/* ---- select.c: tables by SQL ------------------------------------------------------------------ */

/* A frame that statements read as a table. */
enum { ORDERS_MAX = 8 };
struct frame_table {
    const char *columns; /* "name:t duration:i" */
    const struct frame *frame;
    struct frame_order orders[ORDERS_MAX]; /* that statements asked for; see select_forget() */
    size_t order_count;
};
struct sqlite3;
struct sqlite3_stmt;
/* All return SQLite's code. */
int select_frame(struct sqlite3 *db, const char *name, struct frame_table *source);
void select_forget(struct frame_table *source); /* the frame's rows have changed, or are gone */
int select_functions(struct sqlite3 *db);       /* group_stats() and the others */
/* All values of a group, in their order, with a number each. */
struct gathered {
    double *values;
    int64_t *ranks; /* of list() and its kin: what goes with each value */
    size_t count, capacity, rank_capacity;
    char separator[4]; /* of list() */
    bool failed;
};
struct sqlite3_context;
struct sqlite3_value;
/* Of one recipe each. */
void slow_rows(struct sqlite3_context *context, struct gathered *all);
void tokens(struct sqlite3_context *context, int argc, struct sqlite3_value **argv);
void step_bare(struct sqlite3_context *context, int argc, struct sqlite3_value **argv);
void end_bare(struct sqlite3_context *context);
/* :compat, :step, :top; of a rank besides :rank and the step's window, :from and :to. */
void select_bind(const struct run *run, const struct inputs *in, int64_t rank,
                 struct sqlite3_stmt *stmt);

/* A table of the result: a SELECT over the frames. Without a name: a statement on the
 * way there; what it answers, (rank, is missing, text), is told as problems. */
struct result {
    const char *name; /* in the database */
    const char *file; /* in text form */
    const char
        *columns; /* "OpType:t|Count:i|duration:r=Duration(us)": names, kinds, titles in csv */
    const char *rank_sql;   /* of each rank as it comes, over its own rows; NULL: none */
    const char *sql;        /* its answer has these columns; NULL: none */
    const char *compat_sql; /* NULL: the same; "": no such table */
    const char *then_sql;   /* more rows, behind those; NULL: none */
    const char *when;       /* not there where this has no answer; NULL: always there */
    int64_t rank;           /* :rank of sql */
    size_t index_columns;   /* the first so many get an index */
    bool is_ms;             /* text form shows columns that end in Ns as Ms, not Us */
    bool is_optional;       /* not there without a row */
    bool is_full_there;     /* the same in compat only: the peer writes no empty table */
    bool is_only_db;        /* not there in text form */
    bool is_only_text;
    bool by_rank; /* NAMER and FILE_R.csv of each rank R that has rows, which is :rank of sql */
    bool is_rows; /* no result: a table of the statements behind it; columns as frames have them */
};
#define RESULT_STATS "|Count:i|MeanNs:r|StdNs:r|MinNs:r|Q1Ns:r|MedianNs:r|Q3Ns:r|MaxNs:r|SumNs:r"
/* These columns of group_stats() AS s. */
#define SELECT_STATS                                                                               \
    "stat(s,0), stat(s,1), stat(s,2), stat(s,3), stat(s,4), stat(s,5), stat(s,6), stat(s,7), "     \
    "stat(s,8)"
#define STAT_MEAN "stat(s,1)"
#define STAT_SUM  "stat(s,8)"
RS_MUST_CHECK enum rs_status result_write(struct run *run, const struct result *result,
                                          struct rs_err *err);
/* Does the statement, over the frames, have an answer at all? */
RS_MUST_CHECK enum rs_status result_ask(struct run *run, const char *sql, int64_t rank,
                                        bool *is_any_p, struct rs_err *err);

/* The first cell of its first row; nothing when it has none. Free with rs_buf_fini(). */
RS_MUST_CHECK enum rs_status result_text(struct run *run, const char *sql, int64_t rank,
                                         struct rs_buf *text_p, struct rs_err *err);
/* Makes the rows of one that is_rows, to be changed before others read them. Lends; one a run. */
RS_MUST_CHECK enum rs_status result_rows(struct run *run, const struct result *result,
                                         struct frame **rows_p, struct rs_err *err);

/* Open output: a database or a folder. */
struct out;
RS_MUST_CHECK enum rs_status out_open(struct run *run, struct rs_err *err);
/* The frame is a table of the results' SELECTs from now on. Keeps a pointer to it and to the name. */
RS_MUST_CHECK enum rs_status out_add_frame(struct run *run, const char *name,
                                           struct frame_table *table, struct rs_err *err);
bool results_stream(const struct run *run); /* has the recipe a rank_sql? */
/* Begins the tables of a recipe that writes while ranks come; adds what a rank's rows give to them. */
RS_MUST_CHECK enum rs_status results_begin(struct run *run, struct rs_err *err);
RS_MUST_CHECK enum rs_status results_add(struct run *run, int64_t rank, struct rs_err *err);
/* With `keep` what was written stands; without it the database is as it was. */
RS_MUST_CHECK enum rs_status out_close(struct run *run, bool keep, struct rs_err *err);

/* ---- a run ---------------------------------------------------------------------------------- */

struct recipe_rank {
    const struct rs_ascend_rank *vendor;
    int64_t rank;
};

/* A rank's databases while it is being mapped; NULL where it has none. */
struct inputs {
    const struct recipe_rank *of;
    struct run *run;
    struct rs_ascend_db *profiler, *analysis;
    int64_t from, to; /* the step's host window, inclusive; all time without --step-id */
    int64_t number;   /* :number, :figure and :text of SELECTs */
    double figure;
    const char *text;
    /* The first failure; from then on the calls below do nothing. Asked for once, when the rank is mapped. */
    enum rs_status status;
    struct rs_err err;
};

enum recipe_need {
    NEED_PROFILER = 1 << 0,
    NEED_ANALYSIS = 1 << 1,
    MAY_PROFILER = 1 << 2,
    MAY_ANALYSIS = 1 << 3
};

enum { FRAMES_MAX = 16, RESULTS_MAX = 12 };

/* Rows that a recipe gathers of each rank: a table of its results' SELECTs. Without a name: a statement on the way
 * there, on the rank's connection; what it answers, (is missing, text), is told as problems of the rank. */
struct frame_spec {
    const char *name;
    const char *columns;  /* "name:t duration:i": names and kinds */
    const char *requires; /* "TABLE.column ..." that a rank has to have; NULL: nothing */
    const char *sql; /* of the rank; may read the frames above it; NULL: before() gives the rows */
    const char *
        asks; /* "TABLE.column ..."; a rank without it is asked else_sql. NULL: all are asked sql */
    const char *else_sql;                                   /* NULL: it has no rows */
    const char *compat_sql;                                 /* NULL: the same; "": no rows */
    void (*before)(struct inputs *in, struct frame *frame); /* what no statement can say */
    const char *missing; /* "no such rows", which a rank has instead; NULL: it may have none */
    bool is_analysis;    /* requires and sql are about analysis.db, not the profiler's database */
    bool is_passing;     /* for the rank's statements and rank_sql: the rows do not stay */
    bool is_apart;       /* a rank without it is told, and stays */
    size_t spared_by;    /* a rank with rows of that frame may be without it; 0: of none */
};

struct recipe {
    struct rs_recipe_info info;
    const char *folder; /* of the text form */
    unsigned needs;     /* enum recipe_need; 0: the recipe reads its input in finish() alone */
    int64_t top;        /* --top-num where none is given */
    const char *
        optional; /* "TABLE(column,..) ..": what a profiler's database may lack, with no rows or values then */
    struct frame_spec frames[FRAMES_MAX];
    const struct result *results; /* written one after another, unless there is finish() */
    size_t result_count;
#define RESULTS(of) .results = (of), .result_count = COLUMN_COUNT(of)
    /* Each may be NULL. write: files of a rank, after its statements; the result is files then, whatever --export-type says.
     * Any thread, sees only its rank; start and finish: the caller's. */
    void (*write)(struct inputs *in, struct rank_files *files);
    enum rs_status (*start)(struct run *run, struct rs_err *err);
    enum rs_status (*finish)(struct run *run, struct rs_err *err);
};

struct run {
    const struct recipe *recipe;
    const struct rs_recipe_options *options;
    const char *const *paths;
    size_t path_count;
    struct rs_ascend_list list;
    struct recipe_rank *ranks; /* in reading order */
    size_t rank_count;
    int64_t number; /* the recipe's */
    struct frame frames[FRAMES_MAX];
    struct frame_table tables[FRAMES_MAX]; /* of the frames, as SELECTs see them */
    struct out *out;
    struct rs_recipe_result *result;
    pthread_mutex_t problem_lock; /* guards result->problems while threads map */
};

/* Adds to the result's problems; any thread. */
void run_add_problem(struct run *run, int64_t rank, bool is_missing, const char *format, ...)
    RS_PRINTF(4, 5);

/* pool.c: map on threads, reduce in order. The number of ranks that gave data through used_p. */
RS_MUST_CHECK enum rs_status run_map(struct run *run, size_t *used_p, struct rs_err *err);

/* Opens what the recipe needs and finds the step; the connections keep a pointer to `in`. Pairs with inputs_close(). */
RS_MUST_CHECK enum rs_status inputs_open(struct run *run, const struct recipe_rank *rank,
                                         struct inputs *in, struct rs_err *err);
void in_prepare(struct inputs *in); /* what the recipe's statements may ask of its connections */
void inputs_close(struct inputs *in);

/* What stands behind the first `at`, which ends the text; NULL: none. */
static inline char *cut(char *text, char at)
{
    char *found = strchr(text, at);
    if (found)
        *found++ = '\0';
    return found;
}

/* A statement with its parameters; finish it with rs_ascend_db_finish(). in_step(): is there another row? */
struct sqlite3_stmt *in_ask(struct inputs *in, struct rs_ascend_db *db, const char *sql);
bool in_step(struct inputs *in, struct rs_ascend_db *db, struct sqlite3_stmt *stmt);
/* Appends the answer to the frame. */
void in_load(struct inputs *in, struct frame *frame, struct rs_ascend_db *db, const char *sql);
void in_fail(struct inputs *in, enum rs_status status, const char *format, ...) RS_PRINTF(3, 4);
void in_require(struct inputs *in, struct rs_ascend_db *db, const char *list);
bool in_has(const struct inputs *in, const char *list); /* of the profiler's database */

/* What recipes with frames start, map, reduce and stop by. frames.c */
RS_MUST_CHECK enum rs_status frames_start(struct run *run, struct rs_err *err);
RS_MUST_CHECK enum rs_status frames_map(struct inputs *in, void **part_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status frames_reduce(struct run *run, const struct recipe_rank *rank,
                                           void *data, struct rs_err *err);
RS_MUST_CHECK enum rs_status frames_finish(struct run *run, struct rs_err *err);
void frames_drop(void *data);
void frames_stop(struct run *run);

/* RS_OK when all of "TABLE.column ..." are there, RS_NOTFOUND with the first that is not. */
RS_MUST_CHECK enum rs_status db_requires(struct rs_ascend_db *db, const char *list,
                                         struct rs_err *err);

/* What the rank says about its communicators and the job. RS_NOTFOUND: nothing. */
RS_MUST_CHECK enum rs_status rank_metadata(const struct inputs *in,
                                           struct rs_ascend_metadata *meta_p, struct rs_err *err);
/* The groups that the rank itself names, in its order; fails where it names none. */
#define GROUP_COLUMNS "hash:t id:t name:t ranks:t rank:i"
void groups_load(struct inputs *in, struct frame *groups);
void groups_load_if_any(struct inputs *in, struct frame *groups);
#define FRAME_GROUPS                                                                               \
    {                                                                                              \
        .name = "groups", .columns = GROUP_COLUMNS, .before = groups_load_if_any                   \
    }
/* Tables made of them: `known`, one row a group, and `member`, (hash, local rank as text, rank). */
#define RESULT_KNOWN(in_compat)                                                                    \
    {                                                                                              \
        .sql = "CREATE TEMP TABLE known (hash PRIMARY KEY, id, name, ranks) WITHOUT ROWID; "       \
               "INSERT OR IGNORE INTO known SELECT hash, id, name, ranks FROM groups ORDER BY "    \
               "groups.rowid; "                                                                    \
               "CREATE TEMP TABLE member (hash, local, rank, PRIMARY KEY (hash, local)) WITHOUT "  \
               "ROWID; INSERT INTO member SELECT hash, CAST(key AS TEXT), value FROM known, "      \
               "json_each('[' || ranks || ']'); "                                                  \
               "SELECT g.rank, 0, 'group ' || g.id || ' (' || g.name || ') has ' || "              \
               "json_array_length('[' || g.ranks || ']') || ' ranks here and ' || "                \
               "json_array_length('[' || k.ranks || ']') || ' in an earlier rank; the earlier is " \
               "kept' FROM groups g JOIN known k USING (hash) "                                    \
               "WHERE g.id <> k.id OR g.name <> k.name OR g.ranks <> k.ranks",                     \
        .compat_sql = in_compat                                                                    \
    }

/* A frame: which kinds of operations each communicator was seen with, and in which ranks; and the table made of it. */
#define FRAME_SEEN                                                                                 \
    {                                                                                              \
        .name = "seen", .columns = "kind:t hash:t rank:i",                                         \
        .requires = "CommAnalyzerTime.hccl_op_name CommAnalyzerTime.group_name",                   \
        .is_analysis = true,                                                                       \
        .sql =                                                                                     \
            "SELECT DISTINCT CASE WHEN lower(hccl_op_name) LIKE '%send%' OR lower(hccl_op_name) "  \
            "LIKE '%receive%' OR lower(hccl_op_name) LIKE '%recv%' THEN 'p2p' ELSE 'collective' "  \
            "END, group_name, :rank FROM CommAnalyzerTime WHERE group_name IS NOT NULL"            \
    }
#define SEEN_RANKS "'(' || coalesce(nullif(ranks, ''), list(rank, rank, ',')) || ')'"
#define FROM_SEEN  "FROM seen LEFT JOIN known USING (hash) "
#define RESULT_GROUP_MAP                                                                           \
    .name = "CommunicationGroupMapping", .file = "communication_group_map.csv",                    \
    .columns = "type:t|rank_set:t|group_name:t|group_id:t|pg_name:t",                              \
    .sql = "SELECT kind, " SEEN_RANKS ", hash, coalesce(id, ''), coalesce(name, '') " FROM_SEEN    \
           "GROUP BY kind, hash"

/* Temporary tables on the way from ranks within a communicator to ranks of the run. `links` says (hash, local, rank, at) of
 * copies that a rank makes to itself, which nobody else names: its place in the communicator. Metadata are asked first. */
#define RESULT_SELVES(in_compat, links)                                                            \
    {                                                                                              \
        .sql = "CREATE TEMP TABLE claim AS SELECT * FROM (" links ") WHERE hash IS NOT NULL AND "  \
               "local IS NOT NULL ORDER BY hash, local, at; "                                      \
               "CREATE TEMP TABLE self (self_hash, self_local, self_rank, "                        \
               "PRIMARY KEY (self_hash, self_local)) WITHOUT ROWID; "                              \
               "INSERT OR IGNORE INTO self SELECT hash, local, rank FROM claim ORDER BY rowid; "   \
               "SELECT rank, 0, 'in group ' || hash || ' ranks ' || self_rank || ' and ' || "      \
               "rank || ' both say that they are its rank ' || local || '; the first is kept' "    \
               "FROM claim JOIN self ON self_hash = hash AND self_local = local "                  \
               "WHERE rank <> self_rank",                                                          \
        .compat_sql = in_compat                                                                    \
    }
#define RANK_OF(of, name)                                                                          \
    "coalesce((SELECT rank FROM member WHERE hash = " of " AND local = " name "), "                \
    "(SELECT self_rank FROM self WHERE self_hash = " of " AND self_local = " name "))"

/* A table's host calls, a.*: in compat only rows that have one, where calls are known; else by the row's own time. */
#define API_OPTIONAL                                                                               \
    "CANN_API(name,startNs,endNs;connectionId) COMMUNICATION_OP(opName,opType,groupName,startNs,"  \
    "endNs,opId;connectionId) "
#define TASKS_OPTIONAL                                                                             \
    "TASK(globalTaskId,taskType,startNs,endNs;connectionId) COMPUTE_TASK_INFO(globalTaskId) "
#define LEFT_JOIN_API(of) "LEFT JOIN CANN_API a ON a.connectionId = " of ".connectionId "
#define HAS_API(table)                                                                             \
    "(a.connectionId IS NOT NULL OR NOT :compat OR NOT has('CANN_API.connectionId " table          \
    ".connectionId'))"
#define IN_STEP(time) time " >= :from AND " time " <= :to"
/* When the host called for an operation; in compat nothing else counts, where calls are known. */
#define CALL_TIME                                                                                  \
    "iif(:compat AND has('CANN_API.connectionId COMMUNICATION_OP.connectionId'), a.startNs, "      \
    "coalesce(a.startNs, c.startNs))"

/* Of the row's start and end: both are there, and C's subtraction of them is no overflow either. */
#define IS_SPAN(start, end) end " - " start " BETWEEN -9.2e18 AND 9.2e18 "

/* pairing.c: the rank's sends and receives, a frame. `number` is of this (communicator, src, dst), in order of start, from 0;
 * src and dst are ranks within the communicator, sender and receiver. The recipe's optional tables have API_OPTIONAL. */
extern const char pairs_sql[];
#define PAIR_COLUMNS "name:t communicator:t start:i op:i is_receive:i src:i dst:i number:i rank:i"
#define PAIR_TABLES                                                                                \
    "COMMUNICATION_OP.opId COMMUNICATION_OP.opName COMMUNICATION_OP.groupName "                    \
    "COMMUNICATION_TASK_INFO.opId COMMUNICATION_TASK_INFO.srcRank "                                \
    "COMMUNICATION_TASK_INFO.dstRank COMMUNICATION_TASK_INFO.taskType "                            \
    "COMMUNICATION_TASK_INFO.groupName STRING_IDS.value"
#define FRAME_PAIRS(...)                                                                           \
    {                                                                                              \
        .name = "pairs", .columns = PAIR_COLUMNS, .sql = pairs_sql, __VA_ARGS__                    \
    }
#define PAIRS_OPTIONAL .asks = PAIR_TABLES

int pair_kind(
    const char *
        name); /* of an operation: 0 a send, 1 a receive; -1: neither, or its ends are not numbered */

/* alike.c: how alike two names are, 0..1, as difflib's ratio() of a against b; 0 when it is less than `least` for certain.
 * -1: no memory. */
double alike(const char *a, const char *b, double least);

/* clang-format off */
#define RECIPES(X)                                                                                 \
    X(communication_group_map)                                                                     \
    X(communication_time_sum) X(communication_matrix_sum) X(cluster_time_summary)                  \
        X(cluster_time_compare_summary) X(slow_rank) X(slow_link) X(hccl_sum) X(p2p_pairing)       \
            X(pp_chart) X(free_analysis) X(cann_api_sum) X(compute_op_sum) X(mstx_sum)             \
                X(ep_load_balance) X(freq_analysis) X(communication_bottleneck)                    \
                    X(module_statistic) X(computational_op_masking) X(operator_mfu) X(mstx2commop) \
                        X(export_summary) X(calibrate_npu_gpu)
/* clang-format on */
#define RECIPE_EXTERN(name) extern const struct recipe recipe_##name;
RECIPES(RECIPE_EXTERN)

#endif
