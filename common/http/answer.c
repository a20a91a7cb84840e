/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes out. A whole body has an ETag of its digest, is compressed when the other side can read that and it is worth it,
 * and is not sent again to who has it. Pieces go out as they come.
 */
#include "common/base/counters.h"
#include "common/base/digest.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/http/http_priv.h"

#include <zlib.h>
#include <zstd.h>

#include <stdio.h>
#include <string.h>

enum { WORTH_BYTES = 1024, PIECE_BYTES = 64 << 10, ZSTD_LEVEL = 1 };

/* ---- problems --------------------------------------------------------------------------------------------------- */

static unsigned status_of(enum rs_status status)
{
    switch (status) {
    case RS_INVALID:
    case RS_FORMAT:
        return 400;
    case RS_NOTFOUND:
        return 404;
    case RS_REFUSED:
        return 403;
    case RS_EXISTS:
        return 409;
    case RS_LIMIT:
        return 429;
    case RS_UNREACHABLE:
    case RS_CANCELLED:
        return 503;
    case RS_TIMEOUT:
        return 504;
    case RS_OK:
    case RS_END:
    case RS_AGAIN:
    case RS_PARTIAL:
    case RS_NOMEM:
    case RS_IO:
    case RS_VERSION:
        break;
    }
    return 500;
}

static const char *title_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *title;
    } titles[] = {
        {400, "The request is not valid"},
        {401, "Nobody asks"},
        {403, "This may not be asked"},
        {404, "There is no such thing"},
        {405, "This cannot be done with it"},
        {409, "It exists already"},
        {413, "The request is too large"},
        {415, "The request is of another type"},
        {421, "This name is not served"},
        {429, "Too much at once"},
        {500, "The service failed"},
        {503, "The service cannot answer now"},
        {504, "It took too long"},
    };
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        if (titles[i].status == status)
            return titles[i].title;
    return "It came to nothing";
}

void rs_http_problem_as(struct rs_http_answer *answer, unsigned status, const char *detail)
{
    struct rs_json_out json;
    answer->status = status;
    answer->type = "application/problem+json";
    (void)snprintf(answer->detail, sizeof answer->detail, "%s", detail);
    rs_buf_reset(&answer->body);
    rs_json_out_init(&json, &answer->body, 0);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "title");
    rs_json_out_string(&json, title_of(status));
    rs_json_out_key(&json, "status");
    rs_json_out_uint(&json, status);
    rs_json_out_key(&json, "detail");
    rs_json_out_string(&json, detail);
    rs_json_out_end(&json);
    rs_buf_u8(&answer->body, '\n');
}

void rs_http_problem(struct rs_http_answer *answer, const struct rs_err *err)
{
    rs_http_problem_as(answer, status_of(err->status),
                       *err->text ? err->text : rs_status_text(err->status));
}

/* ---- a whole body ------------------------------------------------------------------------------------------------ */

enum coding { CODING_NONE, CODING_GZIP, CODING_ZSTD };

/* "gzip, zstd;q=0.5": what is listed with a weight of 0 is not wanted. */
static bool accepts(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; *at;) {
        at += strspn(at, " \t,");
        const size_t item = strcspn(at, ",");
        const size_t word = strcspn(at, " \t;,");
        if (word == length && strncasecmp(at, name, length) == 0) {
            const char *q = memchr(at, '=', item);
            return !q || strspn(q + 1, "0.") != strcspn(q + 1, " ,");
        }
        at += item;
    }
    return false;
}

static bool pack_gzip(const struct rs_buf *from, struct rs_buf *to)
{
    enum { GZIP = 16 + MAX_WBITS, MEMORY = 9 }; /* fast: it is made for every answer anew */
    z_stream stream = {0};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    const size_t room = deflateBound(&stream, (uLong)from->length);
    stream.next_in = from->data;
    stream.avail_in = (uInt)from->length;
    stream.next_out = rs_buf_reserve(to, room);
    stream.avail_out = (uInt)room;
    const bool is_whole = stream.next_out && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    if (is_whole)
        rs_buf_commit(to, stream.total_out);
    (void)deflateEnd(&stream);
    return is_whole;
}

static bool pack_zstd(const struct rs_buf *from, struct rs_buf *to)
{
    const size_t room = ZSTD_compressBound(from->length);
    void *out = rs_buf_reserve(to, room);
    const size_t used =
        out ? ZSTD_compress(out, room, from->data, from->length, ZSTD_LEVEL) : (size_t)-1;
    if (!out || ZSTD_isError(used))
        return false;
    rs_buf_commit(to, used);
    return true;
}

static enum coding pack(struct MHD_Connection *connection, struct rs_buf *body)
{
    const char *list =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    struct rs_buf packed = {0};
    enum coding coding = CODING_NONE;
    if (!list || body->length < WORTH_BYTES || body->length > UINT32_MAX / 2)
        return CODING_NONE;
    if (accepts(list, "zstd") && pack_zstd(body, &packed))
        coding = CODING_ZSTD;
    else if (accepts(list, "gzip") && pack_gzip(body, &packed))
        coding = CODING_GZIP;
    if (coding == CODING_NONE) {
        rs_buf_fini(&packed);
        return coding;
    }
    rs_buf_fini(body);
    *body = packed;
    return coding;
}

/* "*", or a list in which it stands. */
static bool has_it(const char *list, const char *etag)
{
    char quoted[RS_HTTP_ETAG_BYTES + 16];
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    return strcmp(list, "*") == 0 || strstr(list, quoted);
}

/* NULL: no memory. Takes the body. */
static struct MHD_Response *whole(struct MHD_Connection *connection, struct rs_http_answer *answer)
{
    static const char *const names[] = {NULL, "gzip", "zstd"};
    const char *known =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    char etag[RS_HTTP_ETAG_BYTES + 8] = "";
    char digest[RS_SHA256_HEX_BYTES];
    struct rs_buf *body = &answer->body;
    if (answer->status == 200 && !*answer->etag &&
        rs_sha256_hex(body->data, body->length, digest) == RS_OK)
        (void)snprintf(answer->etag, sizeof answer->etag, "%.32s", digest);
    const enum coding coding = pack(connection, body);
    if ((answer->status == 200 || answer->status == 304) && *answer->etag)
        (void)snprintf(etag, sizeof etag, "%s%s%s", answer->etag, coding ? "-" : "",
                       coding ? names[coding] : "");
    if (known && *etag && has_it(known, etag)) {
        answer->status = 304;
        rs_buf_fini(body);
    }
    const bool is_empty = body->length == 0;
    struct MHD_Response *response =
        is_empty ? MHD_create_response_from_buffer(0, etag, MHD_RESPMEM_MUST_COPY)
                 : MHD_create_response_from_buffer_with_free_callback(body->length, body->data,
                                                                      rs_mem_free);
    if (!response || is_empty)
        rs_buf_fini(body);
    *body = (struct rs_buf){0};
    if (!response)
        return NULL;
    char quoted[sizeof etag + 2];
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    if (*etag)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, quoted);
    if (coding && !is_empty)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, names[coding]);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    return response;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------- */

struct pieces {
    enum rs_status (*next)(void *self, struct rs_buf *buf);
    void (*end)(void *self);
    void *self;
    struct rs_buf buf;
    size_t sent; /* of buf */
    enum rs_status status;
};

static ssize_t read_piece(void *self, uint64_t at, char *out, size_t room)
{
    struct pieces *pieces = self;
    (void)at;
    while (pieces->sent == pieces->buf.length) {
        if (pieces->status == RS_END)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (pieces->status < 0)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        rs_buf_reset(&pieces->buf);
        pieces->sent = 0;
        pieces->status = pieces->next(pieces->self, &pieces->buf);
        if (pieces->buf.failed)
            return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    const size_t left = pieces->buf.length - pieces->sent;
    const size_t count = left < room ? left : room;
    memcpy(out, pieces->buf.data + pieces->sent, count);
    pieces->sent += count;
    return (ssize_t)count;
}

static void end_pieces(void *self)
{
    struct pieces *pieces = self;
    pieces->end(pieces->self);
    rs_buf_fini(&pieces->buf);
    rs_mem_free(pieces);
}

static struct MHD_Response *in_pieces(struct rs_http_answer *answer)
{
    struct pieces *pieces = rs_mem_calloc(1, sizeof *pieces);
    struct MHD_Response *response = NULL;
    if (!pieces) {
        answer->end(answer->self);
        return NULL;
    }
    *pieces = (struct pieces){.next = answer->next, .end = answer->end, .self = answer->self};
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES, read_piece, pieces,
                                                 end_pieces);
    if (!response)
        end_pieces(pieces);
    else if (*answer->etag) {
        char quoted[RS_HTTP_ETAG_BYTES + 2];
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", answer->etag);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, quoted);
    }
    return response;
}

/* ---- both --------------------------------------------------------------------------------------------------------- */

static void add_policy(struct MHD_Response *response, const struct rs_http_answer *answer)
{
    static const char document_policy[] =
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; "
        "base-uri 'none'; form-action 'none'; sandbox";
    /* Nothing from anywhere else, nothing inline. */
    static const char page_policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    char text[sizeof document_policy + 128];
    const char *policy = answer->is_page ? page_policy : document_policy;
    if (!answer->is_page && answer->script_sha256) {
        (void)snprintf(text, sizeof text, "%s allow-scripts; script-src 'sha256-%.64s'",
                       document_policy, answer->script_sha256);
        policy = text;
    }
    (void)MHD_add_response_header(response, "Content-Security-Policy", policy);
}

static void add_headers(struct MHD_Response *response, const struct rs_http_answer *answer)
{
    static const char *const always[][2] = {
        {"Cache-Control", "private, no-cache"}, /* kept, and asked about every time */
        {"Cross-Origin-Resource-Policy", "same-origin"}, {"Referrer-Policy", "no-referrer"},
        {"X-Content-Type-Options", "nosniff"},           {"X-Frame-Options", "DENY"},
    };
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        (void)MHD_add_response_header(response, always[i][0], always[i][1]);
    add_policy(response, answer);
    if (answer->type)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    if (*answer->location)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_LOCATION, answer->location);
    if (answer->allow)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    if (answer->status == 401)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                      "Bearer realm=\"rankscope\"");
    if (answer->status == 429 || answer->status == 503)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "2");
    if (*answer->file) {
        char text[RS_HTTP_TEXT_BYTES + 32];
        (void)snprintf(text, sizeof text, "attachment; filename=\"%s\"", answer->file);
        (void)MHD_add_response_header(response, "Content-Disposition", text);
    }
}

enum MHD_Result http_send(struct MHD_Connection *connection, struct rs_http_answer *answer)
{
    if (answer->body.failed && !answer->next) {
        struct rs_err err = {0};
        rs_buf_fini(&answer->body);
        (void)rs_err_set(&err, RS_NOMEM, "out of memory");
        rs_http_problem(answer, &err);
    }
    if (answer->status >= 500)
        rs_count(RS_COUNT_HTTP_FAILED, 1);
    else if (answer->status >= 400)
        rs_count(RS_COUNT_HTTP_REFUSED, 1);
    struct MHD_Response *response = NULL;
    if (answer->next) {
        rs_buf_fini(&answer->body);
        response = in_pieces(answer);
    } else {
        response = whole(connection, answer);
    }
    if (!response)
        return MHD_NO;
    add_headers(response, answer);
    const enum MHD_Result result = MHD_queue_response(connection, answer->status, response);
    MHD_destroy_response(response);
    return result;
}
