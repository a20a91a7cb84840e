/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a stranger's SQLite file without touching it, and asking it by name.
 *
 *     header 18,19 = 2      WAL mode: reading in place would make a -shm beside it
 *     header 16, 28         page size and pages: a shorter file was cut off
 *     FILE-journal          a writer was stopped; reading would have to roll back
 */
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/vendor/vendor_db.h"
#include "common/vendor/vendor_rows.h"

#include <sqlite3.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUSY_MS = 2000, HEADER_BYTES = 100, VALUE_LIMIT_BYTES = 256 << 20, NAMES_FIRST = 1024 };

struct rs_vendor_db {
    sqlite3 *handle;
    char *path;
    char *copy_dir;                    /* holds the private copy; NULL when read in place */
    struct rs_vendor_rows_file *still; /* NULL: opened by SQLite */
};

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* What the first 100 bytes say; RS_FORMAT when they say that this cannot be read. */
static enum rs_status look_at_header(int fd, const char *path, bool *is_wal_p, struct rs_err *err)
{
    uint8_t head[HEADER_BYTES];
    struct stat st;
    if (fstat(fd, &st) != 0)
        return rs_err_errno(err, "cannot look at %s", path);
    if (!S_ISREG(st.st_mode))
        return rs_err_set(err, RS_FORMAT, "%s is not a plain file", path);
    const ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0)
        return rs_err_errno(err, "cannot read %s", path);
    if (got < HEADER_BYTES || memcmp(head, "SQLite format 3", 16) != 0)
        return rs_err_set(err, RS_FORMAT, "%s is not a whole SQLite database", path);
    const uint32_t stored = (uint32_t)head[16] << 8 | head[17];
    const uint32_t page_bytes = stored == 1 ? 65536 : stored;
    const uint64_t want = (uint64_t)page_bytes * big32(head + 28);
    const bool is_counted = big32(head + 24) == big32(head + 92); /* else the count is stale */
    if (is_counted && (uint64_t)st.st_size < want)
        return rs_err_set(err, RS_FORMAT, "%s is cut off: %lld of %llu bytes", path,
                          (long long)st.st_size, (unsigned long long)want);
    *is_wal_p = head[18] == 2 || head[19] == 2;
    return RS_OK;
}

/* Bytes of the file that stands beside `path` under this ending; 0 when there is none. */
static off_t beside(const char *path, const char *ending)
{
    char name[PATH_MAX];
    struct stat st;
    const int length = snprintf(name, sizeof name, "%s%s", path, ending);
    if (length < 0 || (size_t)length >= sizeof name || lstat(name, &st) != 0 ||
        !S_ISREG(st.st_mode))
        return 0;
    return st.st_size;
}

/* A journal that a writer left behind unfinished; one that was ended keeps its bytes but loses its
 * first ones. */
static bool has_hot_journal(const char *path)
{
    char name[PATH_MAX];
    char first = 0;
    if (beside(path, "-journal") == 0)
        return false;
    (void)snprintf(name, sizeof name, "%s-journal", path);
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return true;
    const bool is_hot = read(fd, &first, 1) != 1 || first != 0;
    (void)close(fd);
    return is_hot;
}

static enum rs_status copy_file(const char *from, const char *to, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (in < 0 || out < 0)
        status = rs_err_errno(err, "cannot copy %s to read it", from);
    while (status == RS_OK) {
        const ssize_t sent = sendfile(out, in, NULL, 1 << 24);
        if (sent == 0)
            break;
        if (sent < 0 && errno != EINTR)
            status = rs_err_errno(err, "cannot copy %s to read it", from);
    }
    if (in >= 0)
        (void)close(in);
    if (out >= 0)
        (void)close(out);
    return status;
}

static void drop_copy(struct rs_vendor_db *db)
{
    static const char *const names[] = {"copy.db", "copy.db-wal", "copy.db-shm"};
    if (!db->copy_dir)
        return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = rs_file_join(db->copy_dir, names[i]);
        if (path)
            (void)unlink(path);
        rs_mem_free(path);
    }
    (void)rmdir(db->copy_dir);
    rs_mem_free(db->copy_dir);
    db->copy_dir = NULL;
}

/* The database with what waits in its -wal, in a folder of our own. */
static enum rs_status make_copy(struct rs_vendor_db *db, char **copy_p, struct rs_err *err)
{
    const char *base = getenv("TMPDIR");
    db->copy_dir = rs_file_join(base && *base ? base : "/tmp", "rankscope-db-XXXXXX");
    if (!db->copy_dir)
        return rs_err_set(err, RS_NOMEM, "no memory to open %s", db->path);
    if (!mkdtemp(db->copy_dir)) {
        rs_mem_free(db->copy_dir);
        db->copy_dir = NULL;
        return rs_err_errno(err, "cannot make a folder for a copy of %s", db->path);
    }
    char *copy = rs_file_join(db->copy_dir, "copy.db");
    char *copy_wal = rs_file_join(db->copy_dir, "copy.db-wal");
    char *wal = rs_mem_calloc(strlen(db->path) + 5, 1);
    enum rs_status status = copy && copy_wal && wal ? RS_OK : RS_NOMEM;
    if (status == RS_OK) {
        (void)snprintf(wal, strlen(db->path) + 5, "%s-wal", db->path);
        status = copy_file(db->path, copy, err);
    }
    if (status == RS_OK)
        status = copy_file(wal, copy_wal, err);
    rs_mem_free(wal);
    rs_mem_free(copy_wal);
    if (status != RS_OK) {
        rs_mem_free(copy);
        return status;
    }
    *copy_p = copy;
    return RS_OK;
}

/* "file:PATH?..." with every byte that means something in a URI escaped. */
static char *uri_of(const char *path, const char *query)
{
    static const char hex[] = "0123456789ABCDEF";
    char *uri = rs_mem_calloc(strlen(path) * 3 + strlen(query) + 8, 1);
    if (!uri)
        return NULL;
    size_t used = 5;
    memcpy(uri, "file:", used);
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        const bool is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                              (*p >= '0' && *p <= '9') || strchr("/._-", *p);
        if (is_plain) {
            uri[used++] = (char)*p;
            continue;
        }
        uri[used++] = '%';
        uri[used++] = hex[*p >> 4];
        uri[used++] = hex[*p & 15];
    }
    memcpy(uri + used, query, strlen(query));
    return uri;
}

static enum rs_status sqlite_failed(struct rs_vendor_db *db, struct rs_err *err)
{
    const int code = db->handle ? sqlite3_errcode(db->handle) & 0xff : SQLITE_NOMEM;
    const char *why = db->handle ? sqlite3_errmsg(db->handle) : "no memory";
    if (code == SQLITE_NOMEM)
        return rs_err_set(err, RS_NOMEM, "no memory to read %s", db->path);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return rs_err_set(err, RS_IO, "%s is being written by another program", db->path);
    if (code == SQLITE_IOERR || code == SQLITE_CANTOPEN)
        return rs_err_set(err, RS_IO, "cannot read %s: %s", db->path, why);
    return rs_err_set(err, RS_FORMAT, "%s: %s", db->path, why);
}

static enum rs_status open_handle(struct rs_vendor_db *db, const char *path, const char *query,
                                  struct rs_err *err)
{
    char *uri = uri_of(path, query);
    if (!uri)
        return rs_err_set(err, RS_NOMEM, "no memory to open %s", db->path);
    const int code = sqlite3_open_v2(uri, &db->handle,
                                     (db->copy_dir ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
                                         SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
                                     NULL);
    rs_mem_free(uri);
    if (code != SQLITE_OK)
        return sqlite_failed(db, err);
    (void)sqlite3_busy_timeout(db->handle, BUSY_MS);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, VALUE_LIMIT_BYTES);
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    if (sqlite3_exec(db->handle, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL) !=
        SQLITE_OK)
        return sqlite_failed(db, err);
    return RS_OK;
}

static bool folder_is_writable(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof folder)
        return false;
    memcpy(folder, path, length);
    folder[length] = '\0';
    return access(slash ? (length ? folder : "/") : ".", W_OK) == 0;
}

static enum rs_status open_in(struct rs_vendor_db *db, struct rs_err *err)
{
    bool is_wal = false;
    const int fd = open(db->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return rs_err_set(err, RS_NOTFOUND, "%s is not there", db->path);
    if (fd < 0)
        return rs_err_errno(err, "cannot open %s", db->path);
    enum rs_status status = look_at_header(fd, db->path, &is_wal, err);
    (void)close(fd);
    if (status != RS_OK)
        return status;
    if (has_hot_journal(db->path))
        return rs_err_set(err, RS_FORMAT,
                          "%s was left in the middle of a write (a -journal stands beside it)",
                          db->path);
    if (is_wal && beside(db->path, "-wal") > 0) {
        char *copy = NULL;
        status = make_copy(db, &copy, err);
        if (status == RS_OK)
            status = open_handle(db, copy, "?mode=rw", err);
        rs_mem_free(copy);
        return status;
    }
    const bool is_still = is_wal || !folder_is_writable(db->path);
    return open_handle(db, db->path, is_still ? "?mode=ro&immutable=1" : "?mode=ro", err);
}

enum rs_status rs_vendor_db_open(const char *path, struct rs_vendor_db **db_p, struct rs_err *err)
{
    struct rs_vendor_db *db = rs_mem_calloc(1, sizeof *db);
    if (!db)
        return rs_err_set(err, RS_NOMEM, "no memory to open %s", path);
    db->path = rs_mem_strdup(path);
    const enum rs_status status =
        db->path ? open_in(db, err) : rs_err_set(err, RS_NOMEM, "no memory to open %s", path);
    if (status != RS_OK) {
        rs_vendor_db_close(&db);
        return status;
    }
    *db_p = db;
    return RS_OK;
}

enum rs_status rs_vendor_db_open_still(const char *path, struct rs_vendor_rows_file *file,
                                       bool is_whole, struct rs_vendor_db **db_p,
                                       struct rs_err *err)
{
    if (!rs_vendor_pages_open(file, path, is_whole))
        return rs_vendor_db_open(path, db_p, err);
    struct rs_vendor_db *db = rs_mem_calloc(1, sizeof *db);
    if (db)
        db->path = rs_mem_strdup(path);
    if (!db || !db->path) {
        rs_vendor_pages_close(file);
        rs_mem_free(db);
        return rs_err_set(err, RS_NOMEM, "no memory to open %s", path);
    }
    db->still = file;
    *db_p = db;
    return RS_OK;
}

struct rs_vendor_rows_file *rs_vendor_db_still(const struct rs_vendor_db *db)
{
    return db->still;
}

/* SQLite is needed after all. The pages read so far are forgotten: without the lock they may age. */
static enum rs_status need_sqlite(struct rs_vendor_db *db, struct rs_err *err)
{
    if (db->still) {
        rs_vendor_pages_close(db->still);
        rs_buf_reset(&db->still->bytes);
        db->still = NULL;
    }
    if (db->handle)
        return RS_OK;
    const enum rs_status status = open_in(db, err);
    if (status != RS_OK) {
        (void)sqlite3_close(db->handle);
        db->handle = NULL;
    }
    return status;
}

void rs_vendor_db_close(struct rs_vendor_db **db)
{
    if (!*db)
        return;
    if ((*db)->still)
        rs_vendor_pages_close((*db)->still);
    (void)sqlite3_close((*db)->handle);
    drop_copy(*db);
    rs_mem_free((*db)->path);
    rs_mem_free(*db);
    *db = NULL;
}

const char *rs_vendor_db_path(const struct rs_vendor_db *db)
{
    return db->path;
}

static bool has(struct rs_vendor_db *db, const char *sql, const char *first, const char *second)
{
    sqlite3_stmt *stmt = NULL;
    bool found = false;
    if (need_sqlite(db, NULL) != RS_OK)
        return false;
    if (sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL) == SQLITE_OK) {
        (void)sqlite3_bind_text(stmt, 1, first, -1, SQLITE_STATIC);
        if (second)
            (void)sqlite3_bind_text(stmt, 2, second, -1, SQLITE_STATIC);
        found = sqlite3_step(stmt) == SQLITE_ROW;
    }
    (void)sqlite3_finalize(stmt);
    return found;
}

bool rs_vendor_db_has_table(struct rs_vendor_db *db, const char *table)
{
    return has(db, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1", table, NULL);
}

bool rs_vendor_db_has_column(struct rs_vendor_db *db, const char *table, const char *column)
{
    return rs_vendor_db_has_table(db, table) &&
           has(db, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2 COLLATE NOCASE", table,
               column);
}

enum rs_status rs_vendor_db_prepare(struct rs_vendor_db *db, const char *sql,
                                    struct sqlite3_stmt **stmt_p, struct rs_err *err)
{
    const enum rs_status status = need_sqlite(db, err);
    if (status != RS_OK)
        return status;
    if (sqlite3_prepare_v2(db->handle, sql, -1, stmt_p, NULL) != SQLITE_OK)
        return sqlite_failed(db, err);
    return RS_OK;
}

enum rs_status rs_vendor_db_step(struct rs_vendor_db *db, struct sqlite3_stmt *stmt,
                                 struct rs_err *err)
{
    const int code = sqlite3_step(stmt);
    return code == SQLITE_ROW ? RS_OK : code == SQLITE_DONE ? RS_END : sqlite_failed(db, err);
}

void rs_vendor_db_finish(struct sqlite3_stmt **stmt)
{
    (void)sqlite3_finalize(*stmt);
    *stmt = NULL;
}

static bool digits_to_int(const char *text, int64_t *value_p)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return false;
    *value_p = value;
    return true;
}

bool rs_vendor_column_int(struct sqlite3_stmt *stmt, int column, int64_t *value_p)
{
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_INTEGER:
        *value_p = sqlite3_column_int64(stmt, column);
        return true;
    case SQLITE_TEXT:
        return digits_to_int(rs_vendor_column_text(stmt, column), value_p);
    case SQLITE_FLOAT: {
        const double value = sqlite3_column_double(stmt, column);
        if (!(value > -9.2e18 && value < 9.2e18))
            return false;
        *value_p = (int64_t)value;
        return (double)*value_p >= value && (double)*value_p <= value;
    }
    default:
        return false;
    }
}

const char *rs_vendor_column_text(struct sqlite3_stmt *stmt, int column)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);
    return text ? (const char *)text : "";
}

/* ---- small tables, from pages where they are plain ------------------------------------------------ */

/* RS_OK: on the first row; the cursor is the caller's to close, in any case. RS_NOTFOUND: no such table or no row.
 * RS_AGAIN: SQLite has to be asked. */
static enum rs_status first_row(struct rs_vendor_db *db, const char *table,
                                const char *const *columns, size_t count,
                                struct rs_vendor_rows *rows)
{
    *rows = (struct rs_vendor_rows){0};
    if (!db->still)
        return RS_AGAIN;
    enum rs_status status = rs_vendor_rows_open(rows, db, db->still, table, columns, count, NULL);
    if (status == RS_OK && !rows->stmt)
        status = rs_vendor_rows_next(rows, NULL);
    else if (status != RS_NOTFOUND)
        status = RS_AGAIN;
    return status == RS_END ? RS_NOTFOUND : status < 0 && status != RS_NOTFOUND ? RS_AGAIN : status;
}

/* NULL: no memory. */
static char *copy_cell(const struct rs_vendor_cell *cell)
{
    return rs_mem_strndup(cell->text, cell->length);
}

static enum rs_status still_meta(struct rs_vendor_db *db, const char *name, char **value_p,
                                 struct rs_err *err)
{
    static const char *const columns[] = {"name", "value"};
    struct rs_vendor_rows rows;
    enum rs_status status = first_row(db, "META_DATA", columns, 2, &rows);
    const struct rs_vendor_cell *cells = rows.cells;
    while (status == RS_OK && cells[0].kind == RS_VENDOR_CELL_TEXT &&
           (cells[0].length != strlen(name) || memcmp(cells[0].text, name, strlen(name)) != 0))
        status = rs_vendor_rows_next(&rows, NULL);
    if (status == RS_OK && cells[0].kind == RS_VENDOR_CELL_TEXT &&
        cells[1].kind == RS_VENDOR_CELL_TEXT) {
        *value_p = copy_cell(&cells[1]);
        status = *value_p ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory to read %s", db->path);
    } else if (status == RS_END || status == RS_NOTFOUND) {
        status = rs_err_set(err, RS_NOTFOUND, "META_DATA of %s has no %s", db->path, name);
    } else {
        status = RS_AGAIN;
    }
    rs_vendor_rows_close(&rows);
    return status;
}

static enum rs_status still_rank(struct rs_vendor_db *db, int64_t *rank_p, int64_t *device_p,
                                 struct rs_err *err)
{
    static const char *const columns[] = {"rankId", "deviceId"};
    struct rs_vendor_rows rows;
    enum rs_status status = first_row(db, "RANK_DEVICE_MAP", columns, 2, &rows);
    if (status == RS_NOTFOUND) {
        status = rs_err_set(err, RS_NOTFOUND, "%s has no rank in RANK_DEVICE_MAP", db->path);
    } else if (status == RS_OK && rows.cells[0].kind == RS_VENDOR_CELL_INT &&
               rows.cells[1].kind == RS_VENDOR_CELL_INT) {
        *rank_p = rows.cells[0].whole;
        *device_p = rows.cells[1].whole;
    } else {
        status = RS_AGAIN;
    }
    rs_vendor_rows_close(&rows);
    return status;
}

static enum rs_status still_host(struct rs_vendor_db *db, char **uid_p, char **name_p,
                                 struct rs_err *err)
{
    static const char *const columns[] = {"hostUid", "hostName"};
    struct rs_vendor_rows rows;
    enum rs_status status = first_row(db, "HOST_INFO", columns, 2, &rows);
    if (status == RS_NOTFOUND) {
        status = rs_err_set(err, RS_NOTFOUND, "%s has no host in HOST_INFO", db->path);
    } else if (status == RS_OK && rows.cells[0].kind == RS_VENDOR_CELL_TEXT &&
               rows.cells[1].kind == RS_VENDOR_CELL_TEXT) {
        char *uid = copy_cell(&rows.cells[0]), *name = copy_cell(&rows.cells[1]);
        if (uid && name) {
            *uid_p = uid;
            *name_p = name;
        } else {
            rs_mem_free(uid);
            rs_mem_free(name);
            status = rs_err_set(err, RS_NOMEM, "no memory to read %s", db->path);
        }
    } else {
        status = RS_AGAIN;
    }
    rs_vendor_rows_close(&rows);
    return status;
}

enum rs_status rs_vendor_db_meta(struct rs_vendor_db *db, const char *name, char **value_p,
                                 struct rs_err *err)
{
    const enum rs_status still = still_meta(db, name, value_p, err);
    if (still != RS_AGAIN)
        return still;
    if (!rs_vendor_db_has_column(db, "META_DATA", "value"))
        return rs_err_set(err, RS_NOTFOUND, "%s has no META_DATA", db->path);
    sqlite3_stmt *stmt = NULL;
    enum rs_status status =
        rs_vendor_db_prepare(db, "SELECT value FROM META_DATA WHERE name = ?1 LIMIT 1", &stmt, err);
    if (status == RS_OK) {
        (void)sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
        status = rs_vendor_db_step(db, stmt, err);
    }
    if (status == RS_OK) {
        *value_p = rs_mem_strdup(rs_vendor_column_text(stmt, 0));
        if (!*value_p)
            status = rs_err_set(err, RS_NOMEM, "no memory to read %s", db->path);
    } else if (status == RS_END) {
        status = rs_err_set(err, RS_NOTFOUND, "META_DATA of %s has no %s", db->path, name);
    }
    rs_vendor_db_finish(&stmt);
    return status;
}

enum rs_status rs_vendor_db_metadata(struct rs_vendor_db *db, struct rs_vendor_metadata *meta_p,
                                     struct rs_err *err)
{
    static const char *const names[] = {"parallel_group_info", "distributed_args", "pp_info"};
    char *texts[3] = {NULL, NULL, NULL};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < 3 && status == RS_OK; i++) {
        status = rs_vendor_db_meta(db, names[i], &texts[i], err);
        if (status == RS_NOTFOUND)
            status = RS_OK;
    }
    if (status == RS_OK && !texts[0] && !texts[1] && !texts[2])
        status = rs_err_set(err, RS_NOTFOUND, "%s says nothing about groups", db->path);
    if (status == RS_OK) {
        struct rs_err why = {0};
        status = rs_vendor_metadata_parse(texts[0], texts[1], texts[2], meta_p, &why);
        if (status != RS_OK)
            (void)rs_err_set(err, status, "%s: %s", db->path, why.text);
    }
    for (size_t i = 0; i < 3; i++)
        rs_mem_free(texts[i]);
    return status;
}

enum rs_status rs_vendor_db_rank(struct rs_vendor_db *db, int64_t *rank_p, int64_t *device_p,
                                 struct rs_err *err)
{
    int64_t rank = 0, device = -1;
    const enum rs_status still = still_rank(db, rank_p, device_p, err);
    if (still != RS_AGAIN)
        return still;
    if (!rs_vendor_db_has_column(db, "RANK_DEVICE_MAP", "rankId"))
        return rs_err_set(err, RS_NOTFOUND, "%s has no RANK_DEVICE_MAP", db->path);
    const bool has_device = rs_vendor_db_has_column(db, "RANK_DEVICE_MAP", "deviceId");
    sqlite3_stmt *stmt = NULL;
    enum rs_status status =
        rs_vendor_db_prepare(db,
                             has_device ? "SELECT rankId, deviceId FROM RANK_DEVICE_MAP LIMIT 1"
                                        : "SELECT rankId, NULL FROM RANK_DEVICE_MAP LIMIT 1",
                             &stmt, err);
    if (status == RS_OK)
        status = rs_vendor_db_step(db, stmt, err);
    if (status == RS_END || (status == RS_OK && !rs_vendor_column_int(stmt, 0, &rank)))
        status = rs_err_set(err, RS_NOTFOUND, "RANK_DEVICE_MAP of %s is empty", db->path);
    if (status == RS_OK) {
        (void)rs_vendor_column_int(stmt, 1, &device);
        *rank_p = rank;
        *device_p = device;
    }
    rs_vendor_db_finish(&stmt);
    return status;
}

enum rs_status rs_vendor_db_host(struct rs_vendor_db *db, char **uid_p, char **name_p,
                                 struct rs_err *err)
{
    const enum rs_status still = still_host(db, uid_p, name_p, err);
    if (still != RS_AGAIN)
        return still;
    if (!rs_vendor_db_has_column(db, "HOST_INFO", "hostUid") ||
        !rs_vendor_db_has_column(db, "HOST_INFO", "hostName"))
        return rs_err_set(err, RS_NOTFOUND, "%s has no HOST_INFO", db->path);
    sqlite3_stmt *stmt = NULL;
    enum rs_status status =
        rs_vendor_db_prepare(db, "SELECT hostUid, hostName FROM HOST_INFO LIMIT 1", &stmt, err);
    if (status == RS_OK)
        status = rs_vendor_db_step(db, stmt, err);
    if (status == RS_END)
        status = rs_err_set(err, RS_NOTFOUND, "HOST_INFO of %s is empty", db->path);
    if (status == RS_OK) {
        char *uid = rs_mem_strdup(rs_vendor_column_text(stmt, 0));
        char *name = rs_mem_strdup(rs_vendor_column_text(stmt, 1));
        if (uid && name) {
            *uid_p = uid;
            *name_p = name;
        } else {
            rs_mem_free(uid);
            rs_mem_free(name);
            status = rs_err_set(err, RS_NOMEM, "no memory to read %s", db->path);
        }
    }
    rs_vendor_db_finish(&stmt);
    return status;
}

static size_t slot_of(const struct rs_vendor_names *names, int64_t id)
{
    const size_t mask = names->slot_count - 1;
    size_t slot = (size_t)(((uint64_t)id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
    while (names->texts[slot] && names->ids[slot] != id)
        slot = (slot + 1) & mask;
    return slot;
}

static enum rs_status names_widen(struct rs_vendor_names *names)
{
    struct rs_vendor_names wide = *names;
    wide.slot_count = names->slot_count ? names->slot_count * 2 : NAMES_FIRST;
    wide.ids = rs_mem_calloc(wide.slot_count, sizeof *wide.ids);
    wide.texts = rs_mem_calloc(wide.slot_count, sizeof *wide.texts);
    if (!wide.ids || !wide.texts) {
        rs_mem_free(wide.ids);
        rs_mem_free(wide.texts);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < names->slot_count; i++) {
        if (!names->texts[i])
            continue;
        const size_t slot = slot_of(&wide, names->ids[i]);
        wide.ids[slot] = names->ids[i];
        wide.texts[slot] = names->texts[i];
    }
    rs_mem_free(names->ids);
    rs_mem_free(names->texts);
    *names = wide;
    return RS_OK;
}

static enum rs_status names_add(struct rs_vendor_names *names, int64_t id, const char *text)
{
    enum { TEXT_MAX_BYTES = 1 << 30 };
    const size_t length = strlen(text) + 1;
    if (names->length + length > TEXT_MAX_BYTES)
        return RS_LIMIT;
    if ((names->count + 1) * 2 > names->slot_count && names_widen(names) != RS_OK)
        return RS_NOMEM;
    if (rs_mem_grow((void **)&names->bytes, &names->capacity, names->length + length, 1) != RS_OK)
        return RS_NOMEM;
    const size_t slot = slot_of(names, id);
    if (names->texts[slot])
        return RS_OK; /* the first of one id stays */
    memcpy(names->bytes + names->length, text, length);
    names->ids[slot] = id;
    names->texts[slot] = names->length + 1;
    names->length += length;
    names->count++;
    return RS_OK;
}

enum rs_status rs_vendor_names_load(struct rs_vendor_db *db, const char *table,
                                    struct rs_vendor_names *names_p, struct rs_err *err)
{
    struct rs_vendor_names names = {0};
    char sql[160];
    /* STRING_IDS calls its text "value", the enumerations call it "name" */
    const char *column = rs_vendor_db_has_column(db, table, "value") ? "value" : "name";
    if (!rs_vendor_db_has_column(db, table, "id") || !rs_vendor_db_has_column(db, table, column)) {
        *names_p = names;
        return RS_OK;
    }
    (void)snprintf(sql, sizeof sql, "SELECT id, %s FROM \"%s\"", column, table);
    sqlite3_stmt *stmt = NULL;
    enum rs_status status = rs_vendor_db_prepare(db, sql, &stmt, err);
    while (status == RS_OK) {
        int64_t id = 0;
        status = rs_vendor_db_step(db, stmt, err);
        if (status != RS_OK || !rs_vendor_column_int(stmt, 0, &id))
            continue;
        status = names_add(&names, id, rs_vendor_column_text(stmt, 1));
        if (status != RS_OK)
            (void)rs_err_set(err, status, "%s: the texts of %s: %s", db->path, table,
                             rs_status_text(status));
    }
    rs_vendor_db_finish(&stmt);
    if (status != RS_END) {
        rs_vendor_names_fini(&names);
        return status;
    }
    *names_p = names;
    return RS_OK;
}

void rs_vendor_names_fini(struct rs_vendor_names *names)
{
    rs_mem_free(names->ids);
    rs_mem_free(names->texts);
    rs_mem_free(names->bytes);
    *names = (struct rs_vendor_names){0};
}

const char *rs_vendor_names_find(const struct rs_vendor_names *names, int64_t id)
{
    if (!names->slot_count)
        return NULL;
    const size_t slot = slot_of(names, id);
    return names->texts[slot] ? names->bytes + names->texts[slot] - 1 : NULL;
}
