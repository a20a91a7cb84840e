/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/source/ascend_documents.h"

#include "ascend/format/db.h"
#include "ascend/source/ascend_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <jansson.h>
#include <sqlite3.h>
#include <zlib.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char row_name[] = "vendor document";
static const char output_name[] = "ASCEND_PROFILER_OUTPUT";

enum {
    PIECE_BYTES = 144 * 1024,       /* before base64: one row, far below a chunk */
    DOCUMENT_MAX_BYTES = 512 << 20, /* one file */
    FOLDER_MAX_BYTES = 255,
    LEVEL = 6,           /* of deflate */
    DEFLATE_MOST = 1100, /* times, that it can make of a byte */
};

/* Those of the output folder; the others stand beside it. */
static const char *const in_output[] = {"communication.json", "communication_matrix.json",
                                        "step_trace_time.csv", "analysis.db",
                                        "communication_analyzer.db"};

/* ---- base64 ---- */

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode64(struct rs_buf *buf, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i += 3) {
        const size_t left = length - i;
        const uint32_t word = (uint32_t)bytes[i] << 16 |
                              (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (left > 2 ? bytes[i + 2] : 0U);
        const char text[4] = {digits64[word >> 18 & 63], digits64[word >> 12 & 63],
                              (char)(left > 1 ? digits64[word >> 6 & 63] : '='),
                              (char)(left > 2 ? digits64[word & 63] : '=')};
        rs_buf_bytes(buf, text, 4);
    }
}

static int value64(char letter)
{
    const char *at = letter ? strchr(digits64, letter) : NULL;
    return at ? (int)(at - digits64) : -1;
}

/* False: not base64. */
static bool decode64(struct rs_buf *buf, const char *text, size_t length)
{
    if (length % 4)
        return false;
    for (size_t i = 0; i < length; i += 4) {
        const bool is_last = i + 4 == length;
        const size_t pads = !is_last || text[i + 3] != '=' ? 0 : text[i + 2] == '=' ? 2 : 1;
        uint32_t word = 0;
        for (size_t k = 0; k < 4; k++) {
            const int value = k >= 4 - pads ? 0 : value64(text[i + k]);
            if (value < 0)
                return false;
            word = word << 6 | (uint32_t)value;
        }
        for (size_t k = 0; k < 3 - pads; k++)
            rs_buf_u8(buf, (uint8_t)(word >> (16 - 8 * k)));
    }
    return true;
}

/* ---- emitting ---- */

static const char *folder_of(const struct rs_ascend_rank *rank)
{
    const char *slash = strrchr(rank->dir, '/');
    return slash ? slash + 1 : rank->dir;
}

static void write_piece(struct rs_buf *buf, const char *folder, const char *name, size_t bytes)
{
    json_t *texts[2] = {json_string(folder), json_string(name)};
    for (int i = 0; i < 2; i++) {
        char *quoted = texts[i] ? json_dumps(texts[i], JSON_ENCODE_ANY) : NULL;
        rs_buf_printf(buf, "\"%s\":%s,", i ? "document" : "folder", quoted ? quoted : "\"\"");
        free(quoted);
        json_decref(texts[i]);
    }
    rs_buf_printf(buf, "\"bytes\":%zu", bytes);
}

static enum rs_status emit_piece(struct ascend *a, const struct rs_buf *extra, struct rs_err *err)
{
    struct ascend_row row = {.kind = RS_KIND_METADATA,
                             .flags = RS_EVENT_NO_END | RS_EVENT_NO_TIME,
                             .category = RS_STR_NONE,
                             .correlation = -1,
                             .external_id = -1,
                             .bytes = -1};
    size_t at;
    enum rs_status status = ascend_text(a, row_name, &row.name);
    if (status == RS_OK)
        status = ascend_host_lane(a, 0, 0, &row.lane);
    if (status != RS_OK)
        return status;
    status = ascend_emit(a, &row, &at, err);
    if (status != RS_OK)
        return status;
    a->batch.phase[at] = 'M';
    return rs_batch_extra(&a->batch, at, (const char *)extra->data, extra->length);
}

static enum rs_status emit_bytes(struct ascend *a, const char *name, const uint8_t *bytes,
                                 size_t length, struct rs_err *err)
{
    uLongf packed_length = compressBound(length);
    uint8_t *packed = rs_mem_calloc(1, packed_length);
    struct rs_buf extra = {0};
    enum rs_status status = packed ? RS_OK : RS_NOMEM;
    if (status == RS_OK && compress2(packed, &packed_length, bytes, length, LEVEL) != Z_OK)
        status = RS_NOMEM;
    const size_t parts = (packed_length + PIECE_BYTES - 1) / PIECE_BYTES;
    for (size_t part = 0; part < parts && status == RS_OK; part++) {
        const size_t at = part * PIECE_BYTES;
        const size_t left = packed_length - at;
        rs_buf_reset(&extra);
        write_piece(&extra, folder_of(a->rank), name, length);
        rs_buf_printf(&extra, ",\"part\":%zu,\"parts\":%zu,\"deflate\":\"", part, parts);
        encode64(&extra, packed + at, left < PIECE_BYTES ? left : PIECE_BYTES);
        rs_buf_u8(&extra, '"');
        status = extra.failed ? RS_NOMEM : emit_piece(a, &extra, err);
    }
    rs_buf_fini(&extra);
    rs_mem_free(packed);
    return status;
}

static enum rs_status lose(struct ascend *a, const char *what)
{
    return rs_trace_info_drop(&a->stream->info, &a->stream->strings, what, 1);
}

/* A file that is not there is none of ours; one that cannot be read is one counted loss. */
static enum rs_status emit_file(struct ascend *a, const char *path, const char *name,
                                struct rs_err *err)
{
    struct rs_buf buf = {0};
    if (!path || access(path, F_OK) != 0)
        return RS_OK;
    enum rs_status status = rs_file_read_regular(path, DOCUMENT_MAX_BYTES, &buf, NULL);
    if (status == RS_OK)
        status = emit_bytes(a, name, buf.data ? buf.data : (const uint8_t *)"", buf.length, err);
    else if (status != RS_NOMEM)
        status = lose(a, "a document of the vendor's analysis that cannot be kept");
    rs_buf_fini(&buf);
    return status;
}

/* ---- a database without its events ---- */

static int copy_rows(sqlite3 *to, struct rs_ascend_db *from, const char *table, int columns)
{
    char text[128] = "";
    struct sqlite3_stmt *rows = NULL;
    sqlite3_stmt *insert = NULL;
    struct rs_buf sql = {0};
    rs_buf_printf(&sql, "INSERT INTO %s VALUES (?", table);
    for (int i = 1; i < columns; i++)
        rs_buf_string(&sql, ",?");
    rs_buf_string(&sql, ")");
    (void)snprintf(text, sizeof text, "SELECT * FROM %s", table);
    int code =
        sql.failed ? SQLITE_NOMEM : sqlite3_prepare_v2(to, rs_buf_text(&sql), -1, &insert, NULL);
    if (code == SQLITE_OK && rs_ascend_db_prepare(from, text, &rows, NULL) != RS_OK)
        code = SQLITE_CORRUPT;
    while (code == SQLITE_OK && rs_ascend_db_step(from, rows, NULL) == RS_OK) {
        for (int i = 0; i < columns; i++)
            (void)sqlite3_bind_value(insert, i + 1, sqlite3_column_value(rows, i));
        code = sqlite3_step(insert) == SQLITE_DONE ? sqlite3_reset(insert) : SQLITE_ERROR;
    }
    rs_ascend_db_finish(&rows);
    (void)sqlite3_finalize(insert);
    rs_buf_fini(&sql);
    return code;
}

/* A word of a declaration: what could end it is left out. */
static void write_word(struct rs_buf *buf, const char *text, bool is_name)
{
    if (is_name)
        rs_buf_u8(buf, '"');
    for (; *text; text++) {
        const bool is_plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                              (*text >= '0' && *text <= '9') || *text == '_' || *text == ' ';
        if (is_plain || (is_name && *text != '"'))
            rs_buf_u8(buf, (uint8_t)*text);
    }
    if (is_name)
        rs_buf_u8(buf, '"');
}

/* The same columns with the same types, so that values stay what they are. The declaration of the file is not run:
 * it is anyone's text. */
static int make_table(sqlite3 *to, struct rs_ascend_db *from, const char *table, int *columns_p)
{
    char text[160];
    struct sqlite3_stmt *stmt = NULL;
    struct rs_buf sql = {0};
    int code = SQLITE_CORRUPT;
    *columns_p = 0;
    rs_buf_printf(&sql, "CREATE TABLE %s (", table);
    (void)snprintf(text, sizeof text, "SELECT name, type FROM pragma_table_info('%s')", table);
    if (rs_ascend_db_prepare(from, text, &stmt, NULL) == RS_OK) {
        while (rs_ascend_db_step(from, stmt, NULL) == RS_OK) {
            rs_buf_string(&sql, (*columns_p)++ ? ", " : "");
            write_word(&sql, rs_ascend_column_text(stmt, 0), true);
            rs_buf_u8(&sql, ' ');
            write_word(&sql, rs_ascend_column_text(stmt, 1), false);
        }
        rs_buf_u8(&sql, ')');
        code = sql.failed ? SQLITE_NOMEM : sqlite3_exec(to, rs_buf_text(&sql), NULL, NULL, NULL);
    }
    rs_ascend_db_finish(&stmt);
    rs_buf_fini(&sql);
    return code;
}

static int copy_table(sqlite3 *to, struct rs_ascend_db *from, const char *table)
{
    int columns = 0;
    if (!rs_ascend_db_has_table(from, table))
        return SQLITE_OK;
    const int code = make_table(to, from, table, &columns);
    return code == SQLITE_OK && columns > 0 ? copy_rows(to, from, table, columns) : code;
}

/* Some tables of a database as a database of their own. */
static enum rs_status emit_tables(struct ascend *a, const char *path, const char *const *tables,
                                  size_t count, struct rs_err *err)
{
    struct rs_ascend_db *from = NULL;
    sqlite3 *to = NULL;
    sqlite3_int64 length = 0;
    unsigned char *bytes = NULL;
    const char *slash = strrchr(path, '/');
    int code = sqlite3_open(":memory:", &to);
    enum rs_status status = rs_ascend_db_open(path, &from, NULL);
    for (size_t i = 0; i < count && code == SQLITE_OK && status == RS_OK; i++)
        code = copy_table(to, from, tables[i]);
    if (code == SQLITE_OK && status == RS_OK) {
        bytes = sqlite3_serialize(to, "main", &length, 0);
        status = bytes ? emit_bytes(a, slash ? slash + 1 : path, bytes, (size_t)length, err)
                       : RS_OK; /* none of the tables is there */
    } else if (status != RS_NOMEM) {
        status = lose(a, "a document of the vendor's analysis that cannot be kept");
    }
    sqlite3_free(bytes);
    (void)sqlite3_close(to);
    rs_ascend_db_close(&from);
    return status;
}

/* Something waits in its -wal: the file alone is not what it says. */
static bool has_wal(const char *path)
{
    char wal[4096];
    struct stat about;
    const int length = snprintf(wal, sizeof wal, "%s-wal", path);
    return length > 0 && (size_t)length < sizeof wal && stat(wal, &about) == 0 && about.st_size > 0;
}

static enum rs_status emit_databases(struct ascend *a, struct rs_err *err)
{
    static const char *const about[] = {"META_DATA", "HOST_INFO", "RANK_DEVICE_MAP", "NPU_INFO"};
    static const char *const tables[] = {"CommAnalyzerTime", "CommAnalyzerBandwidth",
                                         "CommAnalyzerMatrix", "StepTraceTime"};
    const struct rs_ascend_rank *rank = a->rank;
    enum rs_status status = RS_OK;
    if (rank->profiler_db)
        status = emit_tables(a, rank->profiler_db, about, sizeof about / sizeof about[0], err);
    if (status == RS_OK && rank->analysis_db && has_wal(rank->analysis_db))
        status = emit_tables(a, rank->analysis_db, tables, sizeof tables / sizeof tables[0], err);
    return status;
}

enum rs_status ascend_emit_documents(struct ascend *a, struct rs_err *err)
{
    const struct rs_ascend_rank *rank = a->rank;
    const bool was_counted = a->is_counted;
    const char *slash = rank->info ? strrchr(rank->info, '/') : NULL;
    if (!a->is_lossless || rank->framework == RS_ASCEND_MSMONITOR)
        return RS_OK;
    a->is_counted = true; /* no rows of a recording */
    enum rs_status status = emit_file(a, rank->info, slash ? slash + 1 : "profiler_info.json", err);
    if (status == RS_OK)
        status = emit_file(a, rank->metadata, "profiler_metadata.json", err);
    if (status == RS_OK)
        status = emit_databases(a, err);
    for (size_t i = 0; i < sizeof in_output / sizeof in_output[0] && status == RS_OK; i++) {
        char *path = rank->output ? rs_file_join(rank->output, in_output[i]) : NULL;
        if (!rank->output)
            break;
        const bool is_emitted =
            path && rank->analysis_db && strcmp(path, rank->analysis_db) == 0 && has_wal(path);
        status = !path ? RS_NOMEM : is_emitted ? RS_OK : emit_file(a, path, in_output[i], err);
        rs_mem_free(path);
    }
    a->is_counted = was_counted;
    return status;
}

/* ---- putting back ---- */

struct rs_ascend_documents {
    char *dir;
    struct rs_buf packed; /* of the document at hand */
    char *folder, *name;  /* NULL: none at hand */
    int64_t bytes, part, parts;
    size_t count;
};

/* RANK of HEAD_RANK.TAIL, or HEAD.TAIL: only digits may vary. */
static bool is_numbered(const char *name, const char *head, const char *tail)
{
    const size_t length = strlen(name), head_length = strlen(head), tail_length = strlen(tail);
    if (length < head_length + tail_length || strncmp(name, head, head_length) != 0 ||
        strcmp(name + length - tail_length, tail) != 0)
        return false;
    const char *at = name + head_length;
    const size_t middle = length - head_length - tail_length;
    return !middle || (*at == '_' && middle <= 19 && strspn(at + 1, "0123456789") == middle - 1);
}

static bool is_of_output(const char *name)
{
    for (size_t i = 0; i < sizeof in_output / sizeof in_output[0]; i++)
        if (strcmp(name, in_output[i]) == 0)
            return true;
    return is_numbered(name, "ascend_pytorch_profiler", ".db") ||
           is_numbered(name, "ascend_mindspore_profiler", ".db");
}

static bool is_known(const char *name)
{
    return is_of_output(name) || is_numbered(name, "profiler_info", ".json") ||
           strcmp(name, "profiler_metadata.json") == 0;
}

/* One part of a path and no way out of the folder. */
static bool is_folder_name(const char *name)
{
    const size_t length = strlen(name);
    return length && length <= FOLDER_MAX_BYTES && *name != '.' && !strchr(name, '/');
}

static enum rs_status write_document(struct rs_ascend_documents *documents, const uint8_t *bytes,
                                     size_t length, struct rs_err *err)
{
    struct rs_buf path = {0};
    const bool is_inner = is_of_output(documents->name);
    rs_buf_printf(&path, "%s/%s%s%s", documents->dir, documents->folder, is_inner ? "/" : "",
                  is_inner ? output_name : "");
    enum rs_status status = path.failed
                                ? rs_err_set(err, RS_NOMEM, "no memory to put documents back")
                                : rs_file_make_dirs(rs_buf_text(&path), RS_FOLDER_MODE, err);
    rs_buf_printf(&path, "/%s", documents->name);
    if (status == RS_OK)
        status = path.failed ? rs_err_set(err, RS_NOMEM, "no memory to put documents back")
                             : rs_file_replace(rs_buf_text(&path), bytes, length, false, err);
    rs_buf_fini(&path);
    documents->count += status == RS_OK;
    return status;
}

static void forget(struct rs_ascend_documents *documents)
{
    rs_mem_free(documents->folder);
    rs_mem_free(documents->name);
    documents->folder = documents->name = NULL;
    rs_buf_reset(&documents->packed);
}

static enum rs_status finish(struct rs_ascend_documents *documents, struct rs_err *err)
{
    uLongf length = (uLongf)documents->bytes;
    uint8_t *bytes = NULL;
    enum rs_status status = RS_OK;
    if (length / DEFLATE_MOST > documents->packed.length + 1)
        /* NOLINTNEXTLINE(bugprone-branch-clone): the order of the questions */
        status = rs_err_set(err, RS_FORMAT, "the document %s is damaged", documents->name);
    else if (!(bytes = rs_mem_calloc(1, length + 1)) || documents->packed.failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to put a document back");
    else if (uncompress(bytes, &length, documents->packed.data, documents->packed.length) != Z_OK ||
             length != (uLongf)documents->bytes)
        status = rs_err_set(err, RS_FORMAT, "the document %s is damaged", documents->name);
    if (status == RS_OK)
        status = write_document(documents, bytes, length, err);
    rs_mem_free(bytes);
    forget(documents);
    return status;
}

struct piece {
    const char *folder, *name, *text;
    size_t text_length;
    json_int_t bytes, part, parts;
};

static enum rs_status take_piece(struct rs_ascend_documents *documents, const struct piece *piece,
                                 struct rs_err *err)
{
    const bool is_first = piece->part == 0;
    if (!is_folder_name(piece->folder) || !is_known(piece->name) || piece->bytes < 0 ||
        piece->parts < 1)
        return rs_err_set(err, RS_FORMAT, "a piece of no document that is known");
    if (piece->bytes > DOCUMENT_MAX_BYTES || piece->parts > DOCUMENT_MAX_BYTES / PIECE_BYTES + 1)
        return rs_err_set(err, RS_LIMIT, "a document of more than %d bytes", DOCUMENT_MAX_BYTES);
    if (is_first) {
        forget(documents);
        documents->folder = rs_mem_strdup(piece->folder);
        documents->name = rs_mem_strdup(piece->name);
        documents->bytes = piece->bytes;
        documents->parts = piece->parts;
        documents->part = 0;
        if (!documents->folder || !documents->name)
            return rs_err_set(err, RS_NOMEM, "no memory to put a document back");
    }
    if (!documents->name || piece->part != documents->part || piece->parts != documents->parts ||
        piece->bytes != documents->bytes || strcmp(piece->name, documents->name) != 0 ||
        strcmp(piece->folder, documents->folder) != 0)
        return rs_err_set(err, RS_FORMAT, "a piece of %s that does not follow the one before",
                          piece->name);
    if (documents->packed.length > compressBound(DOCUMENT_MAX_BYTES) ||
        !decode64(&documents->packed, piece->text, piece->text_length))
        return rs_err_set(err, RS_FORMAT, "a piece of %s is damaged", piece->name);
    documents->part++;
    return documents->part == documents->parts ? finish(documents, err) : RS_OK;
}

static enum rs_status take_row(struct rs_ascend_documents *documents, const struct rs_batch *batch,
                               size_t at, struct rs_err *err)
{
    struct rs_buf text = {0};
    struct piece piece = {0};
    rs_buf_u8(&text, '{');
    rs_buf_bytes(&text, batch->extra + batch->extra_offset[at], batch->extra_length[at]);
    rs_buf_u8(&text, '}');
    json_t *root = text.failed ? NULL : json_loadb((const char *)text.data, text.length, 0, NULL);
    const bool is_piece =
        root && json_unpack(root, "{s:s, s:s, s:s%, s:I, s:I, s:I}", "folder", &piece.folder,
                            "document", &piece.name, "deflate", &piece.text, &piece.text_length,
                            "bytes", &piece.bytes, "part", &piece.part, "parts", &piece.parts) == 0;
    const enum rs_status status =
        is_piece ? take_piece(documents, &piece, err)
                 : rs_err_set(err, RS_FORMAT, "a piece of a document that is none");
    json_decref(root);
    rs_buf_fini(&text);
    return status;
}

enum rs_status rs_ascend_documents_take(struct rs_ascend_documents *documents,
                                        const struct rs_batch *batch, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < batch->count && status == RS_OK; i++)
        if (batch->kind[i] == RS_KIND_METADATA && batch->extra_length[i] &&
            strcmp(rs_strtab_text(batch->strings, batch->name[i]), row_name) == 0)
            status = take_row(documents, batch, i, err);
    return status;
}

enum rs_status rs_ascend_documents_new(const char *dir, struct rs_ascend_documents **documents_p,
                                       struct rs_err *err)
{
    struct rs_ascend_documents *documents = rs_mem_calloc(1, sizeof *documents);
    if (documents)
        documents->dir = rs_mem_strdup(dir);
    if (!documents || !documents->dir) {
        rs_mem_free(documents);
        return rs_err_set(err, RS_NOMEM, "no memory to put documents back");
    }
    *documents_p = documents;
    return RS_OK;
}

void rs_ascend_documents_free(struct rs_ascend_documents **documents_p)
{
    struct rs_ascend_documents *documents = *documents_p;
    if (!documents)
        return;
    forget(documents);
    rs_buf_fini(&documents->packed);
    rs_mem_free(documents->dir);
    rs_mem_free(documents);
    *documents_p = NULL;
}

size_t rs_ascend_documents_count(const struct rs_ascend_documents *documents)
{
    return documents->count;
}
