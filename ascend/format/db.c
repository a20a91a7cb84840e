/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a stranger's SQLite file without touching it, and asking it by name.
 *
 *     header 18,19 = 2      WAL mode: reading in place would make a -shm beside it
 *     header 16, 28         page size and pages: a shorter file was cut off
 *     FILE-journal          a writer was stopped; reading would have to roll back
 */
#include "ascend/format/db.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

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

enum {
    BUSY_MS = 2000,
    HEADER_BYTES = 100,
    VALUE_LIMIT_BYTES = 256 << 20,
    WHOLE_LIMIT_BYTES = 16 << 20, /* of a file that is attached as bytes in memory */
    BEHIND_BYTES =
        256, /* of a damaged page SQLite reads a little further, as it says of files that it maps */
    NAMES_FIRST = 1024
};

struct rs_ascend_db {
    sqlite3 *handle;
    char *path;
    char *copy_dir;     /* holds the private copy; NULL when read in place */
    const char *schema; /* of the handle */
    bool is_lent;       /* the handle is somebody else's */
    bool is_utf8;
};

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* What the first 100 bytes say; RS_FORMAT when they say that this cannot be read. */
struct header {
    bool is_wal, is_utf8;
};

static enum rs_status look_at_header(int fd, const char *path, struct header *header_p,
                                     struct rs_err *err)
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
    header_p->is_wal = head[18] == 2 || head[19] == 2;
    header_p->is_utf8 = big32(head + 56) <= 1; /* 0: nothing was written yet */
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

static void drop_copy(struct rs_ascend_db *db)
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
static enum rs_status make_copy(struct rs_ascend_db *db, char **copy_p, struct rs_err *err)
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
    memcpy(uri + used, query, strlen(query) + 1);
    return uri;
}

static enum rs_status sqlite_failed(struct rs_ascend_db *db, struct rs_err *err)
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

static enum rs_status open_handle(struct rs_ascend_db *db, const char *path, const char *query,
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

/* What the file says of itself, when it can be read at all. */
static enum rs_status look_at_file(const char *path, struct header *header_p, struct rs_err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return rs_err_set(err, RS_NOTFOUND, "%s is not there", path);
    if (fd < 0)
        return rs_err_errno(err, "cannot open %s", path);
    const enum rs_status status = look_at_header(fd, path, header_p, err);
    (void)close(fd);
    if (status == RS_OK && has_hot_journal(path))
        return rs_err_set(err, RS_FORMAT,
                          "%s was left in the middle of a write (a -journal stands beside it)",
                          path);
    return status;
}

static const char *query_of(const char *path, const struct header *header)
{
    return header->is_wal || !folder_is_writable(path) ? "?mode=ro&immutable=1" : "?mode=ro";
}

static enum rs_status open_in(struct rs_ascend_db *db, struct rs_err *err)
{
    struct header header = {0};
    enum rs_status status = look_at_file(db->path, &header, err);
    if (status != RS_OK)
        return status;
    db->is_utf8 = header.is_utf8;
    if (header.is_wal && beside(db->path, "-wal") > 0) {
        char *copy = NULL;
        status = make_copy(db, &copy, err);
        if (status == RS_OK)
            status = open_handle(db, copy, "?mode=rw", err);
        rs_mem_free(copy);
        return status;
    }
    return open_handle(db, db->path, query_of(db->path, &header), err);
}

static bool attach_uri(sqlite3 *host, const char *uri, const char *schema)
{
    sqlite3_stmt *stmt = NULL;
    bool is_done = false;
    if (sqlite3_prepare_v2(host, "ATTACH ?1 AS ?2", -1, &stmt, NULL) == SQLITE_OK) {
        (void)sqlite3_bind_text(stmt, 1, uri, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(stmt, 2, schema, -1, SQLITE_STATIC);
        is_done = sqlite3_step(stmt) == SQLITE_DONE;
    }
    (void)sqlite3_finalize(stmt);
    return is_done;
}

static void detach(sqlite3 *host, const char *schema)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(host, "DETACH ?1", -1, &stmt, NULL) == SQLITE_OK) {
        (void)sqlite3_bind_text(stmt, 1, schema, -1, SQLITE_STATIC);
        (void)sqlite3_step(stmt);
    }
    (void)sqlite3_finalize(stmt);
}

/* All bytes of a file that nobody writes meanwhile, and BEHIND_BYTES of zeros, for sqlite3_free(); NULL: too many, or something is
 * the matter. */
static unsigned char *read_still(const char *path, sqlite3_int64 *count_p)
{
    /* where SQLite's readers put their locks, and a writer puts its own before it touches a page */
    struct flock readers = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0x40000002, .l_len = 510};
    unsigned char *bytes = NULL;
    struct stat st;
    sqlite3_int64 count = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fcntl(fd, F_SETLK, &readers) == 0 && !has_hot_journal(path) && fstat(fd, &st) == 0 &&
        S_ISREG(st.st_mode) && st.st_size <= WHOLE_LIMIT_BYTES)
        bytes = sqlite3_malloc64((sqlite3_uint64)st.st_size + BEHIND_BYTES);
    while (bytes && count < st.st_size) {
        const ssize_t got = pread(fd, bytes + count, (size_t)(st.st_size - count), count);
        if (got <= 0)
            break;
        count += got;
    }
    (void)close(fd);
    if (bytes && count < st.st_size) {
        sqlite3_free(bytes);
        bytes = NULL;
    }
    if (bytes)
        memset(bytes + count, 0, BEHIND_BYTES);
    *count_p = count;
    return bytes;
}

/* A file of a few MiB is read at once: by itself SQLite would read it page by page, and look at the folders above it, at what
 * stands beside it and at its locks again and again. False: the file itself is to be attached. */
static bool attach_bytes(const char *path, sqlite3 *host, const char *schema)
{
    sqlite3_int64 count = 0;
    unsigned char *bytes = read_still(path, &count);
    if (!bytes)
        return false;
    if (!attach_uri(host, ":memory:", schema)) {
        sqlite3_free(bytes);
        return false;
    }
    if (sqlite3_deserialize(host, schema, bytes, count, count + BEHIND_BYTES,
                            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY) !=
        SQLITE_OK) { /* it has freed them */
        detach(host, schema);
        return false;
    }
    /* pages are looked at where they lie, not copied once more; nothing is mapped, so no file can shrink below it */
    char *sql = sqlite3_mprintf("PRAGMA \"%w\".mmap_size=%lld", schema, count);
    if (sql)
        (void)sqlite3_exec(host, sql, NULL, NULL, NULL); /* without, it only is slower */
    sqlite3_free(sql);
    return true;
}

static enum rs_status attach(const char *path, sqlite3 *host, const char *schema,
                             struct rs_err *err)
{
    struct header header = {0};
    const enum rs_status status = look_at_file(path, &header, err);
    if (status != RS_OK)
        return status;
    if (!header.is_utf8 || (header.is_wal && beside(path, "-wal") > 0))
        return rs_err_set(err, RS_INVALID, "%s cannot be attached", path);
    (void)sqlite3_db_config(host, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    (void)sqlite3_limit(host, SQLITE_LIMIT_LENGTH, VALUE_LIMIT_BYTES);
    if (!header.is_wal && attach_bytes(path, host, schema))
        return RS_OK;
    char *uri = uri_of(path, query_of(path, &header));
    if (!uri)
        return rs_err_set(err, RS_NOMEM, "no memory to open %s", path);
    const bool is_done = attach_uri(host, uri, schema);
    rs_mem_free(uri);
    return is_done ? RS_OK
                   : rs_err_set(err, RS_IO, "cannot attach %s: %s", path, sqlite3_errmsg(host));
}

enum rs_status rs_ascend_db_attach(const char *path, sqlite3 *host, const char *schema,
                                   struct rs_ascend_db **db_p, struct rs_err *err)
{
    struct rs_ascend_db *db = rs_mem_calloc(1, sizeof *db);
    char *copy = rs_mem_strdup(path);
    const enum rs_status status = db && copy
                                      ? attach(path, host, schema, err)
                                      : rs_err_set(err, RS_NOMEM, "no memory to open %s", path);
    if (status != RS_OK) {
        rs_mem_free(db);
        rs_mem_free(copy);
        return status;
    }
    *db = (struct rs_ascend_db){
        .handle = host, .path = copy, .schema = schema, .is_utf8 = true, .is_lent = true};
    *db_p = db;
    return RS_OK;
}

enum rs_status rs_ascend_db_open(const char *path, struct rs_ascend_db **db_p, struct rs_err *err)
{
    struct rs_ascend_db *db = rs_mem_calloc(1, sizeof *db);
    if (!db)
        return rs_err_set(err, RS_NOMEM, "no memory to open %s", path);
    db->path = rs_mem_strdup(path);
    db->schema = "main";
    const enum rs_status status =
        db->path ? open_in(db, err) : rs_err_set(err, RS_NOMEM, "no memory to open %s", path);
    if (status != RS_OK) {
        rs_ascend_db_close(&db);
        return status;
    }
    *db_p = db;
    return RS_OK;
}

void rs_ascend_db_close(struct rs_ascend_db **db)
{
    if (!*db)
        return;
    if (!(*db)->is_lent)
        (void)sqlite3_close((*db)->handle);
    drop_copy(*db);
    rs_mem_free((*db)->path);
    rs_mem_free(*db);
    *db = NULL;
}

sqlite3 *rs_ascend_db_sqlite(struct rs_ascend_db *db)
{
    return db->handle;
}

const char *rs_ascend_db_path(const struct rs_ascend_db *db)
{
    return db->path;
}

const char *rs_ascend_db_schema(const struct rs_ascend_db *db)
{
    return db->schema;
}

bool rs_ascend_db_is_utf8(const struct rs_ascend_db *db)
{
    return db->is_utf8;
}

void rs_ascend_db_spare_locks(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* too late is harmless */
}

/* From the schema that SQLite keeps in memory; of a view it says no. */
bool rs_ascend_db_has_table(struct rs_ascend_db *db, const char *table)
{
    return sqlite3_table_column_metadata(db->handle, db->schema, table, NULL, NULL, NULL, NULL,
                                         NULL, NULL) == SQLITE_OK;
}

bool rs_ascend_db_has_column(struct rs_ascend_db *db, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(db->handle, db->schema, table, column, NULL, NULL, NULL,
                                         NULL, NULL) == SQLITE_OK;
}

enum rs_status rs_ascend_db_prepare(struct rs_ascend_db *db, const char *sql,
                                    struct sqlite3_stmt **stmt_p, struct rs_err *err)
{
    if (sqlite3_prepare_v2(db->handle, sql, -1, stmt_p, NULL) != SQLITE_OK)
        return sqlite_failed(db, err);
    return RS_OK;
}

enum rs_status rs_ascend_db_step(struct rs_ascend_db *db, struct sqlite3_stmt *stmt,
                                 struct rs_err *err)
{
    const int code = sqlite3_step(stmt);
    return code == SQLITE_ROW ? RS_OK : code == SQLITE_DONE ? RS_END : sqlite_failed(db, err);
}

void rs_ascend_db_finish(struct sqlite3_stmt **stmt)
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

bool rs_ascend_column_int(struct sqlite3_stmt *stmt, int column, int64_t *value_p)
{
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_INTEGER:
        *value_p = sqlite3_column_int64(stmt, column);
        return true;
    case SQLITE_TEXT:
        return digits_to_int(rs_ascend_column_text(stmt, column), value_p);
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

const char *rs_ascend_column_text(struct sqlite3_stmt *stmt, int column)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);
    return text ? (const char *)text : "";
}

/* ---- small tables ----------------------------------------------------------------------------------- */

enum rs_status rs_ascend_db_meta(struct rs_ascend_db *db, const char *name, char **value_p,
                                 struct rs_err *err)
{
    if (!rs_ascend_db_has_column(db, "META_DATA", "value"))
        return rs_err_set(err, RS_NOTFOUND, "%s has no META_DATA", db->path);
    sqlite3_stmt *stmt = NULL;
    enum rs_status status =
        rs_ascend_db_prepare(db, "SELECT value FROM META_DATA WHERE name = ?1 LIMIT 1", &stmt, err);
    if (status == RS_OK) {
        (void)sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
        status = rs_ascend_db_step(db, stmt, err);
    }
    if (status == RS_OK) {
        *value_p = rs_mem_strdup(rs_ascend_column_text(stmt, 0));
        if (!*value_p)
            status = rs_err_set(err, RS_NOMEM, "no memory to read %s", db->path);
    } else if (status == RS_END) {
        status = rs_err_set(err, RS_NOTFOUND, "META_DATA of %s has no %s", db->path, name);
    }
    rs_ascend_db_finish(&stmt);
    return status;
}

enum rs_status rs_ascend_db_metadata(struct rs_ascend_db *db, struct rs_ascend_metadata *meta_p,
                                     struct rs_err *err)
{
    static const char *const names[] = {"parallel_group_info", "distributed_args", "pp_info"};
    char *texts[3] = {NULL, NULL, NULL};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < 3 && status == RS_OK; i++) {
        status = rs_ascend_db_meta(db, names[i], &texts[i], err);
        if (status == RS_NOTFOUND)
            status = RS_OK;
    }
    if (status == RS_OK && !texts[0] && !texts[1] && !texts[2])
        status = rs_err_set(err, RS_NOTFOUND, "%s says nothing about groups", db->path);
    if (status == RS_OK) {
        struct rs_err why = {0};
        status = rs_ascend_metadata_parse(texts[0], texts[1], texts[2], meta_p, &why);
        if (status != RS_OK)
            (void)rs_err_set(err, status, "%s: %s", db->path, why.text);
    }
    for (size_t i = 0; i < 3; i++)
        rs_mem_free(texts[i]);
    return status;
}

enum rs_status rs_ascend_db_rank(struct rs_ascend_db *db, int64_t *rank_p, int64_t *device_p,
                                 struct rs_err *err)
{
    int64_t rank = 0, device = -1;
    if (!rs_ascend_db_has_column(db, "RANK_DEVICE_MAP", "rankId"))
        return rs_err_set(err, RS_NOTFOUND, "%s has no RANK_DEVICE_MAP", db->path);
    const bool has_device = rs_ascend_db_has_column(db, "RANK_DEVICE_MAP", "deviceId");
    sqlite3_stmt *stmt = NULL;
    enum rs_status status =
        rs_ascend_db_prepare(db,
                             has_device ? "SELECT rankId, deviceId FROM RANK_DEVICE_MAP LIMIT 1"
                                        : "SELECT rankId, NULL FROM RANK_DEVICE_MAP LIMIT 1",
                             &stmt, err);
    if (status == RS_OK)
        status = rs_ascend_db_step(db, stmt, err);
    if (status == RS_END || (status == RS_OK && !rs_ascend_column_int(stmt, 0, &rank)))
        status = rs_err_set(err, RS_NOTFOUND, "RANK_DEVICE_MAP of %s is empty", db->path);
    if (status == RS_OK) {
        (void)rs_ascend_column_int(stmt, 1, &device);
        *rank_p = rank;
        *device_p = device;
    }
    rs_ascend_db_finish(&stmt);
    return status;
}

/* A copy, as UTF-8. */
static char *clean_column(struct sqlite3_stmt *stmt, int column)
{
    struct rs_buf scratch = {0};
    const char *text = rs_ascend_column_text(stmt, column);
    size_t length = strlen(text);
    text = rs_utf8_clean(text, length, &scratch, &length);
    char *copy = rs_mem_strndup(text, length);
    rs_buf_fini(&scratch);
    return copy;
}

enum rs_status rs_ascend_db_host(struct rs_ascend_db *db, char **uid_p, char **name_p,
                                 struct rs_err *err)
{
    if (!rs_ascend_db_has_column(db, "HOST_INFO", "hostUid") ||
        !rs_ascend_db_has_column(db, "HOST_INFO", "hostName"))
        return rs_err_set(err, RS_NOTFOUND, "%s has no HOST_INFO", db->path);
    sqlite3_stmt *stmt = NULL;
    enum rs_status status =
        rs_ascend_db_prepare(db, "SELECT hostUid, hostName FROM HOST_INFO LIMIT 1", &stmt, err);
    if (status == RS_OK)
        status = rs_ascend_db_step(db, stmt, err);
    if (status == RS_END)
        status = rs_err_set(err, RS_NOTFOUND, "HOST_INFO of %s is empty", db->path);
    if (status == RS_OK) {
        char *uid = clean_column(stmt, 0), *name = clean_column(stmt, 1);
        if (uid && name) {
            *uid_p = uid;
            *name_p = name;
        } else {
            rs_mem_free(uid);
            rs_mem_free(name);
            status = rs_err_set(err, RS_NOMEM, "no memory to read %s", db->path);
        }
    }
    rs_ascend_db_finish(&stmt);
    return status;
}

static size_t slot_of(const struct rs_ascend_names *names, int64_t id)
{
    const size_t mask = names->slot_count - 1;
    size_t slot = (size_t)(((uint64_t)id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
    while (names->texts[slot] && names->ids[slot] != id)
        slot = (slot + 1) & mask;
    return slot;
}

static enum rs_status names_widen(struct rs_ascend_names *names)
{
    struct rs_ascend_names wide = *names;
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

static enum rs_status names_add_clean(struct rs_ascend_names *names, int64_t id, const char *text,
                                      size_t text_length)
{
    enum { TEXT_MAX_BYTES = 1 << 30 };
    const size_t length = text_length + 1;
    if (names->length + length > TEXT_MAX_BYTES)
        return RS_LIMIT;
    if ((names->count + 1) * 2 > names->slot_count && names_widen(names) != RS_OK)
        return RS_NOMEM;
    if (rs_mem_grow((void **)&names->bytes, &names->capacity, names->length + length, 1) != RS_OK)
        return RS_NOMEM;
    const size_t slot = slot_of(names, id);
    if (names->texts[slot])
        return RS_OK; /* the first of one id stays */
    memcpy(names->bytes + names->length, text, text_length);
    names->bytes[names->length + text_length] = '\0';
    names->ids[slot] = id;
    names->texts[slot] = names->length + 1;
    names->length += length;
    names->count++;
    return RS_OK;
}

static enum rs_status names_add(struct rs_ascend_names *names, int64_t id, const char *text)
{
    struct rs_buf scratch = {0};
    size_t length = strlen(text);
    text = rs_utf8_clean(text, length, &scratch, &length);
    const enum rs_status status = names_add_clean(names, id, text, length);
    rs_buf_fini(&scratch);
    return status;
}

enum rs_status rs_ascend_names_load(struct rs_ascend_db *db, const char *table,
                                    struct rs_ascend_names *names_p, struct rs_err *err)
{
    struct rs_ascend_names names = {0};
    char sql[160];
    /* STRING_IDS calls its text "value", the enumerations call it "name" */
    const char *column = rs_ascend_db_has_column(db, table, "value") ? "value" : "name";
    if (!rs_ascend_db_has_column(db, table, "id") || !rs_ascend_db_has_column(db, table, column)) {
        *names_p = names;
        return RS_OK;
    }
    (void)snprintf(sql, sizeof sql, "SELECT id, %s FROM \"%s\"", column, table);
    sqlite3_stmt *stmt = NULL;
    enum rs_status status = rs_ascend_db_prepare(db, sql, &stmt, err);
    while (status == RS_OK) {
        int64_t id = 0;
        status = rs_ascend_db_step(db, stmt, err);
        if (status != RS_OK || !rs_ascend_column_int(stmt, 0, &id))
            continue;
        status = names_add(&names, id, rs_ascend_column_text(stmt, 1));
        if (status != RS_OK)
            (void)rs_err_set(err, status, "%s: the texts of %s: %s", db->path, table,
                             rs_status_text(status));
    }
    rs_ascend_db_finish(&stmt);
    if (status != RS_END) {
        rs_ascend_names_fini(&names);
        return status;
    }
    *names_p = names;
    return RS_OK;
}

void rs_ascend_names_fini(struct rs_ascend_names *names)
{
    rs_mem_free(names->ids);
    rs_mem_free(names->texts);
    rs_mem_free(names->bytes);
    *names = (struct rs_ascend_names){0};
}

const char *rs_ascend_names_find(const struct rs_ascend_names *names, int64_t id)
{
    if (!names->slot_count)
        return NULL;
    const size_t slot = slot_of(names, id);
    return names->texts[slot] ? names->bytes + names->texts[slot] - 1 : NULL;
}

/* ---- columns of texts ---- */

bool rs_ascend_is_text_id(const char *table, const char *column)
{
    /* in whatever table */
    static const char *const texts[] = {
        "name",           "operatorName", "component",    "message",         "opName",
        "groupName",      "algType",      "opType",       "taskType",        "inputFormats",
        "inputDataTypes", "inputShapes",  "outputShapes", "outputDataTypes", "outputFormats",
        "attrInfo",       "opState",      "hf32Eligible", "stack",
    };
    /* those that are a number of another kind in other tables */
    static const struct {
        const char *table, *column;
    } texts_of[] = {{"NPU_MEM", "type"},
                    {"NPU_OP_MEM", "type"},
                    {"HBM", "type"},
                    {"DDR", "type"},
                    {"LLC", "mode"}};
    if (strncmp(table, "ENUM_", 5) == 0)
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i], column) == 0)
            return true;
    for (size_t i = 0; i < sizeof texts_of / sizeof texts_of[0]; i++)
        if (strcmp(texts_of[i].table, table) == 0 && strcmp(texts_of[i].column, column) == 0)
            return true;
    return false;
}
