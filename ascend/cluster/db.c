/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_analysis.db: the vendor's tables, columns, order and units.
 *
 *     db_begin     a file with the large tables, empty
 *     workers      a rank's operations as rows, put in by whoever holds the next rank
 *     write_db     sums and links, then, by SQLite, the small tables and what the large ones are declared as
 *                  (that is known only when every rank has been seen)
 *
 * So no operation is kept longer than it takes to write it.
 */
#include "ascend/cluster/bulk.h"
#include "ascend/cluster/cluster_priv.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <jansson.h>
#include <sqlite3.h>

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A small table, by SQLite. */
struct table {
    const struct run *run;
    sqlite3 *db;
    sqlite3_stmt *stmt;
    struct rs_err *err;
    int next; /* column of the statement */
};

static enum rs_status failed(struct table *table)
{
    const int code = sqlite3_errcode(table->db) & 0xff;
    return rs_err_set(table->err, code == SQLITE_NOMEM ? RS_NOMEM : RS_IO,
                      "cannot write cluster_analysis.db: %s", sqlite3_errmsg(table->db));
}

static enum rs_status run_sql(struct table *table, const char *sql)
{
    return sqlite3_exec(table->db, sql, NULL, NULL, NULL) == SQLITE_OK ? RS_OK : failed(table);
}

/* "CREATE TABLE name (columns)" and a statement that fills it. */
static enum rs_status begin_table(struct table *table, const char *name, const char *columns,
                                  int count)
{
    struct rs_buf sql = {0};
    rs_buf_printf(&sql, "CREATE TABLE %s (%s)", name, columns);
    enum rs_status status = sql.failed
                                ? rs_err_set(table->err, RS_NOMEM, "no memory to write %s", name)
                                : run_sql(table, rs_buf_text(&sql));
    rs_buf_reset(&sql);
    rs_buf_printf(&sql, "INSERT INTO %s VALUES (?", name);
    for (int i = 1; i < count; i++)
        rs_buf_string(&sql, ",?");
    rs_buf_string(&sql, ")");
    if (status == RS_OK && (sql.failed || sqlite3_prepare_v2(table->db, rs_buf_text(&sql), -1,
                                                             &table->stmt, NULL) != SQLITE_OK))
        status = failed(table);
    rs_buf_fini(&sql);
    table->next = 1;
    return status;
}

static void put_text(struct table *table, const char *text)
{
    (void)sqlite3_bind_text(table->stmt, table->next++, text, -1, SQLITE_STATIC); /* NULL is NULL */
}

static void put_int(struct table *table, int64_t value)
{
    (void)sqlite3_bind_int64(table->stmt, table->next++, value);
}

static void put_real(struct table *table, double value)
{
    (void)sqlite3_bind_double(table->stmt, table->next++, value);
}

static void put_num(struct table *table, const struct rs_ascend_num *num)
{
    if (num->kind == RS_ASCEND_NUM_NONE)
        put_text(table, NULL);
    else if (rs_ascend_num_is_int(num))
        put_int(table,
                (int64_t)(num->kind == RS_ASCEND_NUM_INT ? num->mantissa : 0 - num->mantissa));
    else
        put_real(table, rs_ascend_num_double(num));
}

static enum rs_status end_row(struct table *table)
{
    table->next = 1;
    const int code = sqlite3_step(table->stmt);
    (void)sqlite3_reset(table->stmt);
    return code == SQLITE_DONE ? RS_OK : failed(table);
}

static enum rs_status end_table(struct table *table, enum rs_status status)
{
    (void)sqlite3_finalize(table->stmt);
    table->stmt = NULL;
    return status;
}

/* ---- the small tables -------------------------------------------------------------------------- */

/* "(0,1)"; copied by the statement's owner until the row is done. */
static char *set_text(const struct rank_set *set)
{
    struct rs_buf buf = {0};
    rs_buf_string(&buf, "(");
    for (size_t i = 0; i < set->count; i++)
        rs_buf_printf(&buf, "%s%lld", i ? "," : "", (long long)set->ranks[i]);
    rs_buf_string(&buf, ")");
    char *text = buf.failed ? NULL : rs_mem_strdup(rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return text;
}

static enum rs_status put_group(struct table *table, const struct group *group, enum side side)
{
    const struct rank_set *set = group_ranks(group, side);
    if (table->run->options->compat && !group->named.count)
        set = &group->by_ops[side];
    if (!set->count)
        return RS_OK;
    char *ranks = set_text(set);
    if (!ranks)
        return rs_err_set(table->err, RS_NOMEM, "no memory to write groups");
    put_text(table, side == SIDE_P2P ? "p2p" : "collective");
    put_text(table, ranks);
    put_text(table, group->hash);
    put_text(table, group->id);
    put_text(table, group->name);
    const enum rs_status status = end_row(table);
    rs_mem_free(ranks);
    return status;
}

static enum rs_status write_groups(struct table *table)
{
    const struct run *run = table->run;
    enum rs_status status =
        begin_table(table, "CommunicationGroupMapping",
                    "type TEXT, rank_set TEXT, group_name TEXT, group_id TEXT, pg_name TEXT", 5);
    for (int side = 0; side < SIDES; side++)
        for (size_t i = 0; i < run->group_count && status == RS_OK; i++)
            if (run->groups[i].by_any[side].count)
                status = put_group(table, &run->groups[i], (enum side)side);
    return end_table(table, status);
}

static void put_place(struct table *table, bool has_place, const int64_t *place)
{
    for (int i = 0; i < 3; i++) {
        if (has_place)
            put_int(table, place[i]);
        else if (table->run->options->compat)
            put_int(table, 0); /* the vendor's tool cannot say "unknown" */
        else
            put_text(table, NULL);
    }
}

static enum rs_status put_rank_steps(struct table *table, const struct rank_data *rank)
{
    char index[32];
    int64_t place[3];
    enum rs_status status = RS_OK;
    const bool has_place = place_of(&table->run->layout, rank->rank, place);
    (void)snprintf(index, sizeof index, "%lld", (long long)rank->rank);
    for (size_t i = 0; i < rank->steps.count && status == RS_OK; i++) {
        put_text(table, rank->steps.rows[i].step);
        put_text(table, "rank");
        put_text(table, index);
        for (int f = 0; f < RS_ASCEND_STEP_FIELDS; f++)
            put_num(table, &rank->steps.rows[i].values[f]);
        put_place(table, has_place, place);
        status = end_row(table);
    }
    return status;
}

static bool is_first_of_step(const struct run *run, size_t rank, size_t row)
{
    const char *step = run->ranks[rank].steps.rows[row].step;
    for (size_t r = 0; r <= rank; r++) {
        const size_t end = r == rank ? row : run->ranks[r].steps.count;
        for (size_t i = 0; i < end; i++)
            if (strcmp(run->ranks[r].steps.rows[i].step, step) == 0)
                return false;
    }
    return true;
}

static enum rs_status put_stage_step(struct table *table, const struct rank_set *stage,
                                     const char *step, const char *index)
{
    double maxima[RS_ASCEND_STEP_FIELDS];
    if (!stage_row(table->run, stage, step, maxima))
        return RS_OK;
    put_text(table, step);
    put_text(table, "stage");
    put_text(table, index);
    for (int f = 0; f < RS_ASCEND_STEP_FIELDS; f++)
        put_real(table, maxima[f]);
    for (int i = 0; i < 3; i++)
        put_text(table, "NA"); /* as the vendor's tool, text in an INTEGER column */
    return end_row(table);
}

static enum rs_status put_stage_steps(struct table *table, const struct rank_set *stage)
{
    const struct run *run = table->run;
    enum rs_status status = RS_OK;
    char *index = set_text(stage);
    if (!index)
        return rs_err_set(table->err, RS_NOMEM, "no memory to write stages");
    for (size_t r = 0; r < run->rank_count; r++)
        for (size_t i = 0; i < run->ranks[r].steps.count && status == RS_OK; i++)
            if (is_first_of_step(run, r, i))
                status = put_stage_step(table, stage, run->ranks[r].steps.rows[i].step, index);
    rs_mem_free(index);
    return status;
}

static enum rs_status write_steps(struct table *table)
{
    const struct run *run = table->run;
    struct rs_buf columns = {0};
    rs_buf_string(&columns, "step TEXT,type TEXT,\"index\" TEXT");
    for (int f = 0; f < RS_ASCEND_STEP_FIELDS; f++)
        rs_buf_printf(&columns, ",%s NUMERIC", rs_ascend_step_columns[f]);
    rs_buf_string(&columns, ",dp_index INTEGER,pp_index INTEGER,tp_index INTEGER");
    enum rs_status status = begin_table(table, "ClusterStepTraceTime", rs_buf_text(&columns), 15);
    rs_buf_fini(&columns);
    for (size_t r = 0; r < run->rank_count && status == RS_OK; r++)
        status = put_rank_steps(table, &run->ranks[r]);
    for (size_t s = 0; s < run->stages.count && status == RS_OK; s++)
        status = put_stage_steps(table, &run->stages.sets[s]);
    return end_table(table, status);
}

static bool is_new_host(const struct run *run, size_t index)
{
    const char *uid = run->ranks[index].place.host_uid;
    for (size_t i = 0; uid && i < index; i++)
        if (run->ranks[i].place.host_uid && strcmp(run->ranks[i].place.host_uid, uid) == 0)
            return false;
    return uid != NULL;
}

/* Only databases name hosts. Without any, the two tables of places are left out, as the vendor's tool
 * has none for text. */
static bool has_hosts(const struct run *run)
{
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].place.host_uid)
            return true;
    return false;
}

static enum rs_status write_hosts(struct table *table)
{
    const struct run *run = table->run;
    if (!has_hosts(run))
        return RS_OK;
    enum rs_status status = begin_table(table, "HostInfo", "hostUid TEXT,hostName TEXT", 2);
    for (size_t r = 0; r < run->rank_count && status == RS_OK; r++) {
        if (!is_new_host(run, r))
            continue;
        put_text(table, run->ranks[r].place.host_uid);
        put_text(table, run->ranks[r].place.host_name);
        status = end_row(table);
    }
    return end_table(table, status);
}

/* Text results do not say where they ran, but their directory starts with the host's name unless the
 * user chose another: when a database names a host like that, it is the one. */
static const char *host_by_name(const struct run *run, const char *dir)
{
    const char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    for (size_t i = 0; i < run->rank_count; i++) {
        const char *host = run->ranks[i].place.host_name;
        const size_t length = host ? strlen(host) : 0;
        if (length && strncmp(name, host, length) == 0 && name[length] == '_' &&
            strspn(name + length + 1, "0123456789") > 0 &&
            name[length + 1 + strspn(name + length + 1, "0123456789")] == '_')
            return run->ranks[i].place.host_uid;
    }
    return NULL;
}

static enum rs_status write_devices(struct table *table)
{
    const struct run *run = table->run;
    if (!has_hosts(run))
        return RS_OK;
    enum rs_status status = begin_table(
        table, "RankDeviceMap", "rankId INTEGER,deviceId INTEGER,hostUid TEXT,profilePath TEXT", 4);
    for (size_t r = 0; r < run->rank_count && status == RS_OK; r++) {
        const struct rank_data *rank = &run->ranks[r];
        const int64_t device = rank->place.device >= 0 ? rank->place.device
                               : rank->steps.count     ? rank->steps.rows[0].device
                                                       : -1;
        char whole[PATH_MAX];
        put_int(table, rank->rank);
        if (device >= 0)
            put_int(table, device);
        else
            put_text(table, NULL);
        put_text(table, rank->place.host_uid ? rank->place.host_uid
                                             : host_by_name(run, rank->vendor->dir));
        put_text(table, realpath(rank->vendor->dir, whole) ? whole : rank->vendor->dir);
        status = end_row(table);
    }
    return end_table(table, status);
}

/* distributed_args without the member "rank", which differs from rank to rank. */
static char *base_info(const char *text)
{
    json_t *args = json_loads(text, 0, NULL);
    (void)json_object_del(args, "rank");
    char *dumped = args ? json_dumps(args, JSON_ENSURE_ASCII) : NULL;
    char *copy = dumped ? rs_mem_strdup(dumped) : NULL;
    free(dumped); /* jansson's */
    json_decref(args);
    return copy;
}

/* As the vendor's tool: no table where no rank names sizes. */
static enum rs_status write_base(struct table *table)
{
    const struct run *run = table->run;
    size_t r = 0;
    while (r < run->rank_count && !(run->ranks[r].has_meta && run->ranks[r].meta.has_sizes))
        r++;
    if (r == run->rank_count)
        return RS_OK;
    enum rs_status status = begin_table(table, "ClusterBaseInfo", "key TEXT,value TEXT", 2);
    char *value = status == RS_OK ? base_info(run->ranks[r].meta.distributed_args) : NULL;
    if (status == RS_OK && !value)
        status = rs_err_set(table->err, RS_NOMEM, "no memory to write sizes");
    if (status == RS_OK) {
        put_text(table, "distributed_args");
        put_text(table, value);
        status = end_row(table);
    }
    rs_mem_free(value);
    return end_table(table, status);
}

/* ---- the file ----------------------------------------------------------------------------------- */

struct large {
    const char *name;
    unsigned part; /* enum rs_ascend_comm_part */
    unsigned columns;
    void (*declare)(const struct run *run, struct rs_buf *sql);
};

enum { TIMES, BANDS, LINKS, LARGE_TABLES };
static const struct large large_tables[LARGE_TABLES] = {
    {"ClusterCommunicationTime", RS_ASCEND_COMM_OPS, 12, declare_times},
    {"ClusterCommunicationBandwidth", RS_ASCEND_COMM_OPS, 12, declare_bands},
    {"ClusterCommunicationMatrix", RS_ASCEND_COMM_LINKS, 10, declare_links},
};

enum {
    AHEAD_MAX = 8, /* ranks whose rows wait for an earlier one's */
    HOLDERS_MAX = 64,
    ROWS_COUNT = AHEAD_MAX + HOLDERS_MAX
};

struct db_file {
    char *path, *temporary;
    struct bulk bulk;
    struct bulk_table tables[LARGE_TABLES]; /* belong to who `is_writing` */
    pthread_mutex_t lock;                   /* of all that follows */
    pthread_cond_t moved;
    size_t next; /* the rank whose rows come next */
    bool is_writing;
    struct rank_rows *waiting[AHEAD_MAX]; /* by rank % AHEAD_MAX */
    struct rank_rows *spare[ROWS_COUNT];
    size_t spare_count;
    struct rank_rows rows[ROWS_COUNT];
};

static bool is_wanted(const struct run *run, const struct large *large)
{
    const enum rs_cluster_mode mode = run->options->mode;
    return mode == RS_CLUSTER_ALL ||
           (mode == RS_CLUSTER_COMMUNICATION_TIME) == (large->part == RS_ASCEND_COMM_OPS);
}

/* ---- begin ---- */

static enum rs_status open_file(struct table *table, const char *path)
{
    if (sqlite3_open_v2(path, &table->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return failed(table);
    return run_sql(table, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
}

static enum rs_status close_file(struct table *table, enum rs_status status)
{
    if (status == RS_OK)
        status = run_sql(table, "COMMIT");
    if (sqlite3_close(table->db) != SQLITE_OK && status == RS_OK)
        status = rs_err_set(table->err, RS_IO, "cannot close cluster_analysis.db");
    table->db = NULL;
    return status;
}

static enum rs_status make_file(const struct run *run, struct db_file *file, struct rs_err *err)
{
    (void)unlink(file->temporary);
    if (bulk_open(&file->bulk, file->temporary) == RS_OK)
        for (size_t i = 0; i < LARGE_TABLES; i++)
            if (is_wanted(run, &large_tables[i]))
                bulk_begin(&file->tables[i], &file->bulk, large_tables[i].name,
                           large_tables[i].columns);
    return file->bulk.status == RS_OK
               ? RS_OK
               : rs_err_set(err, file->bulk.status, "%s", file->bulk.err.text);
}

enum rs_status db_begin(struct run *run, const char *dir, struct rs_err *err)
{
    struct db_file *file = rs_mem_calloc(1, sizeof *file);
    if (!file)
        return rs_err_set(err, RS_NOMEM, "no memory to write %s", dir);
    file->path = rs_file_join(dir, "cluster_analysis.db");
    file->temporary = rs_file_join(dir, ".cluster_analysis.db.part");
    (void)pthread_mutex_init(&file->lock, NULL);
    (void)pthread_cond_init(&file->moved, NULL);
    for (size_t i = 0; i < ROWS_COUNT; i++)
        file->spare[file->spare_count++] = &file->rows[i];
    run->db = file;
    return file->path && file->temporary ? make_file(run, file, err)
                                         : rs_err_set(err, RS_NOMEM, "no memory to write %s", dir);
}

void db_drop(struct run *run)
{
    struct db_file *file = run->db;
    if (!file)
        return;
    file->bulk.status = RS_CANCELLED; /* no more rows */
    for (size_t i = 0; i < LARGE_TABLES; i++)
        bulk_end(&file->tables[i], NULL);
    const enum rs_status closed = bulk_close(&file->bulk);
    RS_DCHECK(closed == RS_CANCELLED);
    (void)closed;
    for (size_t i = 0; i < ROWS_COUNT; i++) {
        bulk_rows_fini(&file->rows[i].times);
        bulk_rows_fini(&file->rows[i].bands);
    }
    if (file->temporary)
        (void)unlink(file->temporary);
    (void)pthread_mutex_destroy(&file->lock);
    (void)pthread_cond_destroy(&file->moved);
    rs_mem_free(file->path);
    rs_mem_free(file->temporary);
    rs_mem_free(file);
    run->db = NULL;
}

/* ---- rows in the order of ranks ---- */

/* There is one for everybody: who holds one is a worker, or waits. */
struct rank_rows *db_take_rows(struct db_file *file)
{
    (void)pthread_mutex_lock(&file->lock);
    RS_CHECK(file->spare_count > 0);
    struct rank_rows *rows = file->spare[--file->spare_count];
    (void)pthread_mutex_unlock(&file->lock);
    return rows;
}

static void add_rows(struct run *run, size_t rank_index, struct rank_rows *rows)
{
    struct db_file *file = run->db;
    if (rows->is_later)
        load_later(run, rank_index, &file->bulk, rows);
    rows->is_later = false;
    if (file->tables[TIMES].bulk) {
        bulk_add(&file->tables[TIMES], &rows->times);
        bulk_add(&file->tables[BANDS], &rows->bands);
    }
    bulk_rows_reset(&rows->times);
    bulk_rows_reset(&rows->bands);
}

/* Who brings the next rank's rows puts them in, and those of the ranks after it that wait already. */
void db_give_rows(struct run *run, size_t rank_index, struct rank_rows *rows)
{
    struct db_file *file = run->db;
    (void)pthread_mutex_lock(&file->lock);
    while (rank_index >= file->next + AHEAD_MAX)
        (void)pthread_cond_wait(&file->moved, &file->lock);
    file->waiting[rank_index % AHEAD_MAX] = rows;
    while (!file->is_writing && (rows = file->waiting[file->next % AHEAD_MAX])) {
        file->waiting[file->next % AHEAD_MAX] = NULL;
        file->is_writing = true;
        const size_t turn = file->next;
        (void)pthread_mutex_unlock(&file->lock);
        add_rows(run, turn, rows);
        (void)pthread_mutex_lock(&file->lock);
        file->is_writing = false;
        file->next++;
        file->spare[file->spare_count++] = rows;
        (void)pthread_cond_broadcast(&file->moved);
    }
    (void)pthread_mutex_unlock(&file->lock);
}

/* ---- end ---- */

/* The large table gets its columns: the rows are there, in this order. */
static enum rs_status end_large(const struct run *run, struct bulk_table *table,
                                const struct large *large)
{
    struct rs_buf columns = {0};
    if (!table->bulk)
        return RS_OK;
    large->declare(run, &columns);
    const enum rs_status status = columns.failed ? RS_NOMEM : RS_OK;
    bulk_end(table, status == RS_OK ? rs_buf_text(&columns) : NULL);
    rs_buf_fini(&columns);
    return status;
}

static enum rs_status finish_large(const struct run *run, struct db_file *file, struct rs_err *err)
{
    struct bulk_rows rows = {0};
    enum rs_status status = RS_OK;
    if (file->tables[TIMES].bulk) {
        put_total_times(run, &file->tables[TIMES], &rows);
        put_total_bands(run, &file->tables[BANDS], &rows);
    }
    if (file->tables[LINKS].bulk)
        status = put_links(run, &file->tables[LINKS], &rows);
    bulk_rows_fini(&rows);
    for (size_t i = 0; i < LARGE_TABLES; i++) {
        const enum rs_status ended = end_large(run, &file->tables[i], &large_tables[i]);
        status = status == RS_OK ? ended : status;
    }
    const enum rs_status closed = bulk_close(&file->bulk);
    if (closed != RS_OK)
        return rs_err_set(err, closed, "%s", file->bulk.err.text);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for sums over links");
}

static enum rs_status finish_small(const struct run *run, const char *path, struct rs_err *err)
{
    static enum rs_status (*const small[])(struct table *) = {
        write_groups, write_steps, write_hosts, write_devices, write_base};
    struct table table = {.run = run, .err = err};
    enum rs_status status = open_file(&table, path);
    for (size_t i = 0; i < sizeof small / sizeof small[0] && status == RS_OK; i++)
        status = small[i](&table);
    return close_file(&table, status);
}

enum rs_status write_db(const struct run *run, const char *dir, uint64_t *bytes_p,
                        struct rs_err *err)
{
    struct db_file *file = run->db;
    struct stat st;
    (void)dir; /* db_begin() had it */
    enum rs_status status = finish_large(run, file, err);
    if (status == RS_OK)
        status = finish_small(run, file->temporary, err);
    if (status == RS_OK && rename(file->temporary, file->path) != 0)
        status = rs_err_errno(err, "cannot put %s in its place", file->path);
    if (status == RS_OK && stat(file->path, &st) == 0)
        *bytes_p = (uint64_t)st.st_size;
    return status;
}
