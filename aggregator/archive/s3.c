/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question, one answer:
 *
 *     perform() --> try --> 2xx: done
 *        ^           |----> 404, 403, other 4xx: told at once
 *        |           `----> no link, 408, 429, 5xx: wait, again, five times in all
 *        `------------------'
 *
 * A large object goes up in parts. Were it cut off, the next put of the same key finds the upload that was begun and what it holds:
 *
 *     GET ?uploads&prefix=KEY --> its UploadId, or POST ?uploads --> a new one
 *     GET ?uploadId           --> parts that are there, size and MD5 of each
 *     PUT ?partNumber&uploadId   for each part that is not there, or is another
 *     POST ?uploadId          --> the object, whole
 *     HEAD                    --> is it ours? An upload that somebody else began says another digest: it is removed, and sent anew
 *
 * curl 7.88 signs the query as it is given, so parameters stand in the order of their names and each has its "=", and it takes the
 * digest of what is sent from our header.
 */
#include "aggregator/archive/s3.h"

#include "aggregator/archive/xml.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/curl/curl.h"

#include <openssl/evp.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TRIES = 5,
    PARTS_MAX = 9000, /* S3 allows 10,000 */
    PART_MIN_BYTES = 8 << 20,
    CONNECT_LIMIT_S = 10,
    STALL_LIMIT_S = 30, /* less than 1 KiB/s for so long is no link */
    ANSWER_MAX_BYTES = 8 << 20,
    ETAG_BYTES = 64,
    UPLOAD_ID_BYTES = 1024,
    URL_BYTES = 4096,
};

static const char empty_sha256[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct rs_s3 {
    struct rs_s3_shared *shared;
    CURL *curl;
    uint8_t *part; /* PART_MIN_BYTES or more, made when it is first needed */
    size_t part_capacity;
};

/* A question and what came back. */
struct exchange {
    const char *method;      /* GET, HEAD, PUT, POST, DELETE */
    const char *key, *query; /* query "": none */
    const void *body;
    size_t length;
    const char *sha256;      /* of the body */
    const char *meta_sha256; /* told with it; NULL: nothing is */
    /* what comes back goes into `answer`, or into the file */
    struct rs_buf answer;
    size_t answer_max;
    int fd;                /* -1: into answer */
    uint64_t from, wanted; /* the file has `from` bytes, and is to have `wanted` */
    rs_s3_progress *progress;
    void *self;
    /* headers of the answer */
    char etag[ETAG_BYTES];
    char told_sha256[RS_SHA256_HEX_BYTES];
    uint64_t content_length;
    /* of the try that goes on */
    size_t sent;
    bool is_too_long;
    int write_errno;
    struct rs_s3 *s3;
};

enum rs_status rs_s3_open(struct rs_s3_shared *shared, struct rs_s3 **s3_p, struct rs_err *err)
{
    struct rs_s3 *s3 = rs_mem_calloc(1, sizeof *s3);
    CURL *curl = curl_easy_init();
    if (!s3 || !curl) {
        rs_mem_free(s3);
        curl_easy_cleanup(curl);
        return rs_err_set(err, RS_NOMEM, "no memory to reach the archive");
    }
    *s3 = (struct rs_s3){.shared = shared, .curl = curl};
    *s3_p = s3;
    return RS_OK;
}

void rs_s3_close(struct rs_s3 **s3_p)
{
    struct rs_s3 *s3 = *s3_p;
    *s3_p = NULL;
    if (!s3)
        return;
    curl_easy_cleanup(s3->curl);
    rs_mem_free(s3->part);
    rs_mem_free(s3);
}

/* ---- one try ---------------------------------------------------------------------------------------------------- */

static long status_of(const struct exchange *exchange)
{
    long status = 0;
    (void)curl_easy_getinfo(exchange->s3->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t on_body_wanted(char *bytes, size_t size, size_t count, void *self)
{
    struct exchange *exchange = self;
    const size_t room = size * count, left = exchange->length - exchange->sent;
    const size_t length = left < room ? left : room;
    if (length)
        memcpy(bytes, (const uint8_t *)exchange->body + exchange->sent, length);
    exchange->sent += length;
    return length;
}

static int on_seek(void *self, curl_off_t offset, int origin)
{
    struct exchange *exchange = self;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > exchange->length)
        return CURL_SEEKFUNC_CANTSEEK;
    exchange->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static bool write_all(struct exchange *exchange, const char *bytes, size_t length)
{
    while (length) {
        const ssize_t wrote = pwrite(exchange->fd, bytes, length, (off_t)exchange->from);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            exchange->write_errno = wrote < 0 ? errno : ENOSPC;
            return false;
        }
        bytes += wrote;
        length -= (size_t)wrote;
        exchange->from += (uint64_t)wrote;
        if (exchange->progress)
            exchange->progress(exchange->self, (uint64_t)wrote);
    }
    return true;
}

/* Into the file goes what was asked for only; an error's text goes where it can be read. */
static size_t on_body(char *bytes, size_t size, size_t count, void *self)
{
    struct exchange *exchange = self;
    const size_t length = size * count;
    const long status = status_of(exchange);
    if (exchange->fd >= 0 && (status == 200 || status == 206)) {
        if (length > exchange->wanted - exchange->from) {
            exchange->is_too_long = true;
            return 0;
        }
        return write_all(exchange, bytes, length) ? length : 0;
    }
    if (length > exchange->answer_max - exchange->answer.length) {
        exchange->is_too_long = true;
        return 0;
    }
    rs_buf_bytes(&exchange->answer, bytes, length);
    return exchange->answer.failed ? 0 : length;
}

static void take_value(const char *line, size_t length, size_t skip, char *value_p, size_t room)
{
    while (skip < length && (line[skip] == ' ' || line[skip] == '\t'))
        skip++;
    while (length > skip && (line[length - 1] == '\r' || line[length - 1] == '\n'))
        length--;
    (void)snprintf(value_p, room, "%.*s", (int)(length - skip), line + skip);
}

static size_t on_header(char *bytes, size_t size, size_t count, void *self)
{
    static const char etag[] = "etag:", sha256[] = "x-amz-meta-sha256:",
                      total[] = "content-length:";
    struct exchange *exchange = self;
    const size_t length = size * count;
    char text[32];
    if (length > sizeof etag && strncasecmp(bytes, etag, sizeof etag - 1) == 0)
        take_value(bytes, length, sizeof etag - 1, exchange->etag, sizeof exchange->etag);
    else if (length > sizeof sha256 && strncasecmp(bytes, sha256, sizeof sha256 - 1) == 0)
        take_value(bytes, length, sizeof sha256 - 1, exchange->told_sha256,
                   sizeof exchange->told_sha256);
    else if (length > sizeof total && strncasecmp(bytes, total, sizeof total - 1) == 0) {
        take_value(bytes, length, sizeof total - 1, text, sizeof text);
        exchange->content_length = strtoull(text, NULL, 10);
    }
    return length;
}

static int on_progress(void *self, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                       curl_off_t up)
{
    const struct exchange *exchange = self;
    (void)down_all;
    (void)down;
    (void)up_all;
    (void)up;
    return atomic_load_explicit(&exchange->s3->shared->is_stopped, memory_order_relaxed) ? 1 : 0;
}

static bool add_header(struct curl_slist **list_p, const char *name, const char *value)
{
    char text[2048];
    (void)snprintf(text, sizeof text, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(*list_p, text);
    if (longer)
        *list_p = longer;
    return longer != NULL;
}

static bool has_body(const struct exchange *exchange)
{
    return strcmp(exchange->method, "PUT") == 0 || strcmp(exchange->method, "POST") == 0;
}

static void set_up(struct exchange *exchange, const char *url, const char *signature,
                   struct curl_slist *headers, char why_p[CURL_ERROR_SIZE])
{
    struct rs_s3 *s3 = exchange->s3;
    CURL *curl = s3->curl;
    curl_easy_reset(curl); /* keeps the connection */
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* it is signed as it is */
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_LIMIT_S);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_LIMIT_S);
    (void)curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, signature);
    (void)curl_easy_setopt(curl, CURLOPT_USERNAME, s3->shared->key_id);
    (void)curl_easy_setopt(curl, CURLOPT_PASSWORD, s3->shared->secret);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why_p);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, exchange);
    if (*s3->shared->ca_file)
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, s3->shared->ca_file);
    if (strcmp(exchange->method, "HEAD") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (strcmp(exchange->method, "DELETE") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, exchange->method);
    } else if (strcmp(exchange->method, "POST") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)exchange->length);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, exchange->body ? exchange->body : "");
    } else if (strcmp(exchange->method, "PUT") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)exchange->length);
        (void)curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_body_wanted);
        (void)curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
        (void)curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        (void)curl_easy_setopt(curl, CURLOPT_SEEKDATA, exchange);
    } else if (exchange->fd >= 0 && exchange->from) {
        (void)curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)exchange->from);
    }
}

static CURLcode try_once(struct exchange *exchange, char why_p[CURL_ERROR_SIZE])
{
    const struct rs_s3_shared *shared = exchange->s3->shared;
    char url[URL_BYTES], signature[128];
    struct curl_slist *headers = NULL;
    *why_p = '\0';
    (void)snprintf(url, sizeof url, "%s/%s%s%s%s%s", shared->endpoint, shared->bucket,
                   *exchange->key ? "/" : "", exchange->key, *exchange->query ? "?" : "",
                   exchange->query);
    (void)snprintf(signature, sizeof signature, "aws:amz:%s:s3", shared->region);
    bool is_fine = add_header(&headers, "x-amz-content-sha256",
                              exchange->length ? exchange->sha256 : empty_sha256);
    if (is_fine && exchange->meta_sha256)
        is_fine = add_header(&headers, "x-amz-meta-sha256", exchange->meta_sha256);
    if (is_fine && *shared->session_token)
        is_fine = add_header(&headers, "x-amz-security-token", shared->session_token);
    if (is_fine && has_body(exchange))
        is_fine = add_header(&headers, "Content-Type", "application/octet-stream");
    exchange->sent = 0;
    exchange->is_too_long = false;
    exchange->write_errno = 0;
    exchange->content_length = 0;
    *exchange->etag = *exchange->told_sha256 = '\0';
    rs_buf_reset(&exchange->answer);
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (is_fine) {
        set_up(exchange, url, signature, headers, why_p);
        code = curl_easy_perform(exchange->s3->curl);
    }
    curl_slist_free_all(headers);
    if (!*why_p)
        (void)snprintf(why_p, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
    return code;
}

/* ---- what came of it --------------------------------------------------------------------------------------------- */

struct said {
    char code[64], message[256];
};

static bool take_error(void *self, const char *path, const char *text)
{
    struct said *said = self;
    if (strcmp(path, "Code") == 0)
        (void)snprintf(said->code, sizeof said->code, "%.63s", text);
    else if (strcmp(path, "Message") == 0)
        (void)snprintf(said->message, sizeof said->message, "%.255s", text);
    return true;
}

static enum rs_status refused(struct exchange *exchange, long status, struct rs_err *err)
{
    const struct rs_s3_shared *shared = exchange->s3->shared;
    struct said said = {"", ""};
    (void)!rs_xml_read(exchange->answer.data, exchange->answer.length, take_error, &said, NULL);
    const enum rs_status kind = status == 404                                     ? RS_NOTFOUND
                                : status == 401 || status == 403                  ? RS_REFUSED
                                : status == 408 || status == 429 || status >= 500 ? RS_UNREACHABLE
                                                                                  : RS_IO;
    return rs_err_set(err, kind, "the archive at %s answers %ld to %s of %s/%s%s%s%s%s",
                      shared->endpoint, status, exchange->method, shared->bucket, exchange->key,
                      *said.code ? ": " : "", said.code, *said.message ? ", " : "", said.message);
}

/* RS_AGAIN: it may pass. */
static enum rs_status judge(struct exchange *exchange, CURLcode code, const char *why,
                            struct rs_err *err)
{
    const struct rs_s3_shared *shared = exchange->s3->shared;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return rs_err_set(err, RS_CANCELLED, "stopped while the archive was asked");
    if (exchange->write_errno) {
        errno = exchange->write_errno;
        return rs_err_errno(err, "what the archive sends cannot be written");
    }
    if (exchange->is_too_long)
        return rs_err_set(err, RS_LIMIT, "the archive sends more of %s than there should be",
                          exchange->key);
    if (code == CURLE_OUT_OF_MEMORY || exchange->answer.failed)
        return rs_err_set(err, RS_NOMEM, "no memory to ask the archive");
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT)
        return rs_err_set(err, RS_INVALID, "the archive at %s: %s", shared->endpoint, why);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return rs_err_set(err, RS_REFUSED, "the archive at %s is not who it says: %s",
                          shared->endpoint, why);
    if (code != CURLE_OK) {
        (void)rs_err_set(err, RS_UNREACHABLE, "the archive at %s cannot be reached: %s",
                         shared->endpoint, why);
        return RS_AGAIN;
    }
    const long status = status_of(exchange);
    if (status >= 200 && status < 300)
        return RS_OK;
    const enum rs_status kind = refused(exchange, status, err);
    return kind == RS_UNREACHABLE ? RS_AGAIN : kind;
}

/* In pieces, so that a stop is heard. */
static void pause_for(const struct rs_s3_shared *shared, rs_dur length)
{
    const rs_ns until = rs_time_monotonic() + length;
    const struct timespec piece = {.tv_nsec = 20 * (long)RS_NS_PER_MS};
    while (rs_time_monotonic() < until &&
           !atomic_load_explicit(&shared->is_stopped, memory_order_relaxed))
        (void)nanosleep(&piece, NULL);
}

static enum rs_status perform(struct exchange *exchange, struct rs_err *err)
{
    struct rs_err last = {0};
    enum rs_status status = RS_AGAIN;
    for (unsigned tries = 0; status == RS_AGAIN && tries < TRIES; tries++) {
        char why[CURL_ERROR_SIZE];
        const uint64_t before = exchange->from;
        if (tries)
            pause_for(exchange->s3->shared, exchange->s3->shared->retry_ns << (tries - 1));
        const CURLcode code = try_once(exchange, why);
        if (code == CURLE_RANGE_ERROR) /* it sends whole objects only */
            exchange->from = 0;
        status = judge(exchange, code, why, &last);
        if (status == RS_AGAIN && exchange->from > before)
            tries = 0; /* it moves on */
    }
    if (status == RS_AGAIN)
        status = last.status;
    return status < 0 ? rs_err_set(err, status, "%s", last.text) : status;
}

static bool is_key(const char *key)
{
    return key[strspn(
               key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+")] == '\0';
}

static struct exchange asking(struct rs_s3 *s3, const char *method, const char *key,
                              const char *query)
{
    RS_CHECK(is_key(key));
    return (struct exchange){.s3 = s3,
                             .method = method,
                             .key = key,
                             .query = query,
                             .fd = -1,
                             .answer_max = ANSWER_MAX_BYTES};
}

/* ---- small objects -------------------------------------------------------------------------------------------------- */

enum rs_status rs_s3_head(struct rs_s3 *s3, const char *key, struct rs_s3_object *object_p,
                          struct rs_err *err)
{
    struct exchange exchange = asking(s3, "HEAD", key, "");
    const enum rs_status status = perform(&exchange, err);
    *object_p = (struct rs_s3_object){.size = exchange.content_length};
    (void)snprintf(object_p->sha256, sizeof object_p->sha256, "%s", exchange.told_sha256);
    rs_buf_fini(&exchange.answer);
    return status;
}

enum rs_status rs_s3_put(struct rs_s3 *s3, const char *key, const void *data, size_t length,
                         const char sha256[RS_SHA256_HEX_BYTES], struct rs_err *err)
{
    struct exchange exchange = asking(s3, "PUT", key, "");
    exchange.body = data;
    exchange.length = length;
    exchange.sha256 = exchange.meta_sha256 = sha256;
    const enum rs_status status = perform(&exchange, err);
    rs_buf_fini(&exchange.answer);
    return status;
}

enum rs_status rs_s3_get(struct rs_s3 *s3, const char *key, size_t limit_bytes, struct rs_buf *buf,
                         struct rs_err *err)
{
    struct exchange exchange = asking(s3, "GET", key, "");
    exchange.answer_max = limit_bytes;
    enum rs_status status = perform(&exchange, err);
    if (status == RS_OK)
        rs_buf_bytes(buf, exchange.answer.data, exchange.answer.length);
    if (status == RS_OK && buf->failed)
        status = rs_err_set(err, RS_NOMEM, "no memory for what the archive sends");
    rs_buf_fini(&exchange.answer);
    return status;
}

enum rs_status rs_s3_remove(struct rs_s3 *s3, const char *key, struct rs_err *err)
{
    struct exchange exchange = asking(s3, "DELETE", key, "");
    const enum rs_status status = perform(&exchange, err);
    rs_buf_fini(&exchange.answer);
    return status == RS_NOTFOUND ? RS_OK : status;
}

enum rs_status rs_s3_get_file(struct rs_s3 *s3, const char *key, const char *path, uint64_t size,
                              rs_s3_progress *progress, void *self, struct rs_err *err)
{
    struct exchange exchange = asking(s3, "GET", key, "");
    struct stat info;
    enum rs_status status = RS_OK;
    exchange.fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (exchange.fd < 0 || fstat(exchange.fd, &info) < 0) {
        status = rs_err_errno(err, "cannot write %s", path);
        if (exchange.fd >= 0)
            (void)close(exchange.fd);
        return status;
    }
    /* What is longer than the object is no beginning of it. */
    exchange.from = (uint64_t)info.st_size <= size ? (uint64_t)info.st_size : 0;
    exchange.wanted = size;
    exchange.progress = progress;
    exchange.self = self;
    if (!exchange.from && ftruncate(exchange.fd, 0) < 0)
        status = rs_err_errno(err, "cannot write %s", path);
    if (exchange.from && progress)
        progress(self, exchange.from);
    if (status == RS_OK && exchange.from < size)
        status = perform(&exchange, err);
    if (status == RS_OK && exchange.from != size)
        status = rs_err_set(err, RS_FORMAT,
                            "the archive sent %" PRIu64 " of the %" PRIu64 " bytes of %s",
                            exchange.from, size, key);
    if (status == RS_OK && fsync(exchange.fd) < 0)
        status = rs_err_errno(err, "cannot make %s durable", path);
    if (close(exchange.fd) < 0 && status == RS_OK)
        status = rs_err_errno(err, "cannot write %s", path);
    rs_buf_fini(&exchange.answer);
    return status;
}

/* ---- lists ------------------------------------------------------------------------------------------------------------- */

/* A value in a query. */
static void put_escaped(struct rs_buf *buf, const char *text)
{
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
            (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' ||
            byte == '~')
            rs_buf_u8(buf, byte);
        else
            rs_buf_printf(buf, "%%%02X", byte);
    }
}

struct page {
    bool (*visit)(void *self, const char *key, uint64_t size);
    void *self;
    char key[1024], next[1100];
    uint64_t size;
    bool is_truncated, has_ended;
};

static bool take_object(void *self, const char *path, const char *text)
{
    struct page *page = self;
    if (strcmp(path, "Contents/Key") == 0)
        (void)snprintf(page->key, sizeof page->key, "%s", text);
    else if (strcmp(path, "Contents/Size") == 0)
        page->size = strtoull(text, NULL, 10);
    else if (strcmp(path, "NextContinuationToken") == 0)
        (void)snprintf(page->next, sizeof page->next, "%s", text);
    else if (strcmp(path, "IsTruncated") == 0)
        page->is_truncated = strcmp(text, "true") == 0;
    else if (strcmp(path, "Contents") == 0)
        page->has_ended = !page->visit(page->self, page->key, page->size);
    return !page->has_ended;
}

enum rs_status rs_s3_list(struct rs_s3 *s3, const char *prefix,
                          bool (*visit)(void *self, const char *key, uint64_t size), void *self,
                          struct rs_err *err)
{
    struct page page = {.visit = visit, .self = self};
    enum rs_status status = RS_OK;
    do {
        struct rs_buf query = {0};
        if (*page.next) {
            rs_buf_string(&query, "continuation-token=");
            put_escaped(&query, page.next);
            rs_buf_string(&query, "&");
        }
        rs_buf_string(&query, "list-type=2&prefix=");
        put_escaped(&query, prefix);
        struct exchange exchange = asking(s3, "GET", "", rs_buf_text(&query));
        page.is_truncated = false;
        *page.next = '\0';
        status = query.failed ? rs_err_set(err, RS_NOMEM, "no memory to ask the archive")
                              : perform(&exchange, err);
        if (status == RS_OK)
            status =
                rs_xml_read(exchange.answer.data, exchange.answer.length, take_object, &page, err);
        rs_buf_fini(&exchange.answer);
        rs_buf_fini(&query);
    } while (status == RS_OK && page.is_truncated && *page.next && !page.has_ended);
    return status;
}

/* ---- large objects ------------------------------------------------------------------------------------------------------ */

struct part {
    char etag[ETAG_BYTES]; /* with its quotes; "": not there */
    uint64_t size;
};

struct upload {
    struct rs_s3 *s3;
    const char *key, *path, *sha256;
    uint64_t size;
    size_t part_bytes, part_count;
    struct part *parts;
    char id[UPLOAD_ID_BYTES];
    int fd;
    /* while answers are read */
    char seen_key[1024], seen_id[UPLOAD_ID_BYTES], marker[32];
    unsigned long seen_number;
    struct part seen_part;
    bool is_truncated;
};

static bool take_upload(void *self, const char *path, const char *text)
{
    struct upload *upload = self;
    if (strcmp(path, "Upload/Key") == 0)
        (void)snprintf(upload->seen_key, sizeof upload->seen_key, "%s", text);
    else if (strcmp(path, "Upload/UploadId") == 0)
        (void)snprintf(upload->seen_id, sizeof upload->seen_id, "%s", text);
    else if (strcmp(path, "Upload") == 0 && strcmp(upload->seen_key, upload->key) == 0)
        (void)snprintf(upload->id, sizeof upload->id, "%s", upload->seen_id);
    return true;
}

static bool take_id(void *self, const char *path, const char *text)
{
    struct upload *upload = self;
    if (strcmp(path, "UploadId") == 0)
        (void)snprintf(upload->id, sizeof upload->id, "%s", text);
    return true;
}

static bool take_part(void *self, const char *path, const char *text)
{
    struct upload *upload = self;
    if (strcmp(path, "Part/PartNumber") == 0)
        upload->seen_number = strtoul(text, NULL, 10);
    else if (strcmp(path, "Part/ETag") == 0)
        (void)snprintf(upload->seen_part.etag, sizeof upload->seen_part.etag, "%.*s",
                       ETAG_BYTES - 1, text);
    else if (strcmp(path, "Part/Size") == 0)
        upload->seen_part.size = strtoull(text, NULL, 10);
    else if (strcmp(path, "IsTruncated") == 0)
        upload->is_truncated = strcmp(text, "true") == 0;
    else if (strcmp(path, "NextPartNumberMarker") == 0)
        (void)snprintf(upload->marker, sizeof upload->marker, "%.31s", text);
    else if (strcmp(path, "Part") == 0 && upload->seen_number >= 1 &&
             upload->seen_number <= upload->part_count)
        upload->parts[upload->seen_number - 1] = upload->seen_part;
    return true;
}

static enum rs_status ask_xml(struct upload *upload, const char *method, const char *key,
                              struct rs_buf *query, rs_xml_visit *visit, struct rs_err *err)
{
    struct exchange exchange = asking(upload->s3, method, key, rs_buf_text(query));
    if (strcmp(method, "POST") == 0)
        exchange.meta_sha256 = upload->sha256;
    enum rs_status status = query->failed
                                ? rs_err_set(err, RS_NOMEM, "no memory to ask the archive")
                                : perform(&exchange, err);
    if (status == RS_OK)
        status = rs_xml_read(exchange.answer.data, exchange.answer.length, visit, upload, err);
    rs_buf_fini(&exchange.answer);
    rs_buf_fini(query);
    return status;
}

/* One that was begun, or a new one. Not every server lists what was begun: then it is begun anew. */
static enum rs_status find_upload(struct upload *upload, struct rs_err *err)
{
    struct rs_buf query = {0};
    rs_buf_string(&query, "prefix=");
    put_escaped(&query, upload->key);
    rs_buf_string(&query, "&uploads=");
    enum rs_status status = ask_xml(upload, "GET", "", &query, take_upload, err);
    if (status == RS_CANCELLED || status == RS_NOMEM)
        return status;
    for (*upload->marker = '\0'; *upload->id;) {
        struct rs_buf parts = {0};
        if (*upload->marker) {
            rs_buf_string(&parts, "part-number-marker=");
            put_escaped(&parts, upload->marker);
            rs_buf_string(&parts, "&");
        }
        rs_buf_string(&parts, "uploadId=");
        put_escaped(&parts, upload->id);
        upload->is_truncated = false;
        status = ask_xml(upload, "GET", upload->key, &parts, take_part, err);
        if (status < 0)
            *upload->id = '\0'; /* it is over */
        if (status < 0 || !upload->is_truncated || !*upload->marker)
            break;
    }
    if (*upload->id)
        return RS_OK;
    memset(upload->parts, 0, upload->part_count * sizeof *upload->parts);
    rs_buf_string(&query, "uploads=");
    status = ask_xml(upload, "POST", upload->key, &query, take_id, err);
    return status == RS_OK && !*upload->id
               ? rs_err_set(err, RS_FORMAT, "the archive began an upload and gave no id")
               : status;
}

static enum rs_status read_part(struct upload *upload, size_t index, size_t *length_p,
                                struct rs_err *err)
{
    struct rs_s3 *s3 = upload->s3;
    const uint64_t offset = (uint64_t)index * upload->part_bytes;
    const uint64_t left = upload->size - offset;
    const size_t length = left < upload->part_bytes ? (size_t)left : upload->part_bytes;
    for (size_t done = 0; done < length;) {
        const ssize_t got =
            pread(upload->fd, s3->part + done, length - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return rs_err_errno(err, "cannot read %s", upload->path);
        if (got == 0)
            return rs_err_set(err, RS_IO, "%s became shorter while it was read", upload->path);
        done += (size_t)got;
    }
    *length_p = length;
    return RS_OK;
}

static bool is_there(const struct part *part, const void *data, size_t length)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_length = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";
    char text[sizeof hex + 2];
    if (part->size != length ||
        EVP_Digest(data, length, digest, &digest_length, EVP_md5(), NULL) != 1)
        return false;
    for (unsigned i = 0; i < digest_length; i++)
        (void)snprintf(hex + 2 * (size_t)i, 3, "%02x", digest[i]);
    (void)snprintf(text, sizeof text, "\"%s\"", hex);
    return strcmp(part->etag, text) == 0;
}

static enum rs_status put_part(struct upload *upload, size_t index, rs_s3_progress *progress,
                               void *self, struct rs_err *err)
{
    size_t length = 0;
    char sha256[RS_SHA256_HEX_BYTES];
    struct rs_buf query = {0};
    struct part *part = &upload->parts[index];
    enum rs_status status = read_part(upload, index, &length, err);
    if (status == RS_OK && !is_there(part, upload->s3->part, length)) {
        rs_buf_printf(&query, "partNumber=%zu&uploadId=", index + 1);
        put_escaped(&query, upload->id);
        struct exchange exchange = asking(upload->s3, "PUT", upload->key, rs_buf_text(&query));
        exchange.body = upload->s3->part;
        exchange.length = length;
        exchange.sha256 = sha256;
        if (query.failed || rs_sha256_hex(upload->s3->part, length, sha256) < 0)
            status = rs_err_set(err, RS_NOMEM, "no memory to send %s", upload->path);
        if (status == RS_OK)
            status = perform(&exchange, err);
        if (status == RS_OK && !*exchange.etag)
            status = rs_err_set(err, RS_FORMAT, "the archive took a part and gave it no tag");
        part->size = length;
        (void)snprintf(part->etag, sizeof part->etag, "%s", exchange.etag);
        rs_buf_fini(&exchange.answer);
    }
    if (status == RS_OK && progress)
        progress(self, length);
    rs_buf_fini(&query);
    return status;
}

static void put_tag(struct rs_buf *buf, const char *tag)
{
    for (; *tag; tag++) /* quotes, and whatever a server makes of it */
        switch (*tag) {
        case '"':
            rs_buf_string(buf, "&quot;");
            break;
        case '<':
            rs_buf_string(buf, "&lt;");
            break;
        case '&':
            rs_buf_string(buf, "&amp;");
            break;
        default:
            rs_buf_u8(buf, (uint8_t)*tag);
        }
}

static bool take_failure(void *self, const char *path, const char *text)
{
    struct said *said = self;
    (void)take_error(said, path, text);
    return true;
}

/* It answers 200 before it knows: an error may stand in the answer. */
static enum rs_status complete(struct upload *upload, struct rs_err *err)
{
    char sha256[RS_SHA256_HEX_BYTES];
    struct rs_buf query = {0}, body = {0};
    struct said said = {"", ""};
    rs_buf_string(&body, "<CompleteMultipartUpload>");
    for (size_t i = 0; i < upload->part_count; i++) {
        rs_buf_printf(&body, "<Part><PartNumber>%zu</PartNumber><ETag>", i + 1);
        put_tag(&body, upload->parts[i].etag);
        rs_buf_string(&body, "</ETag></Part>");
    }
    rs_buf_string(&body, "</CompleteMultipartUpload>");
    rs_buf_string(&query, "uploadId=");
    put_escaped(&query, upload->id);
    struct exchange exchange = asking(upload->s3, "POST", upload->key, rs_buf_text(&query));
    exchange.body = body.data;
    exchange.length = body.length;
    exchange.sha256 = sha256;
    enum rs_status status = RS_OK;
    if (body.failed || query.failed || rs_sha256_hex(body.data, body.length, sha256) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory to send %s", upload->path);
    if (status == RS_OK)
        status = perform(&exchange, err);
    if (status == RS_OK)
        status =
            rs_xml_read(exchange.answer.data, exchange.answer.length, take_failure, &said, err);
    if (status == RS_OK && *said.code)
        status = rs_err_set(err, RS_IO, "the archive cannot put %s together: %s, %s", upload->key,
                            said.code, said.message);
    rs_buf_fini(&exchange.answer);
    rs_buf_fini(&query);
    rs_buf_fini(&body);
    return status;
}

static enum rs_status put_parts(struct upload *upload, rs_s3_progress *progress, void *self,
                                struct rs_err *err)
{
    struct rs_s3_object object;
    enum rs_status status = find_upload(upload, err);
    for (size_t i = 0; i < upload->part_count && status == RS_OK; i++)
        status = put_part(upload, i, progress, self, err);
    /* Cut off behind its answer, it is asked for again and the upload is not there any more: the object tells. */
    if (status == RS_OK)
        status = complete(upload, err);
    if (status == RS_OK || status == RS_NOTFOUND)
        status = rs_s3_head(upload->s3, upload->key, &object, err);
    if (status == RS_OK &&
        (object.size != upload->size || strcmp(object.sha256, upload->sha256) != 0)) {
        status = rs_s3_remove(upload->s3, upload->key, err);
        if (status == RS_OK)
            status = rs_err_set(err, RS_FORMAT,
                                "the archive holds another object as %s: it is removed, try again",
                                upload->key);
    }
    return status;
}

static enum rs_status make_room(struct rs_s3 *s3, size_t bytes, struct rs_err *err)
{
    if (s3->part_capacity >= bytes)
        return RS_OK;
    rs_mem_free(s3->part);
    s3->part = rs_mem_calloc(bytes, 1);
    s3->part_capacity = s3->part ? bytes : 0;
    return s3->part ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory to send a file");
}

enum rs_status rs_s3_put_file(struct rs_s3 *s3, const char *key, const char *path, uint64_t size,
                              const char sha256[RS_SHA256_HEX_BYTES], rs_s3_progress *progress,
                              void *self, struct rs_err *err)
{
    const uint64_t mib = 1 << 20;
    const uint64_t needed = (size / PARTS_MAX + mib) / mib * mib;
    const size_t part_bytes = needed > PART_MIN_BYTES ? (size_t)needed : PART_MIN_BYTES;
    struct upload upload = {.s3 = s3,
                            .key = key,
                            .path = path,
                            .sha256 = sha256,
                            .size = size,
                            .part_bytes = part_bytes,
                            .part_count = (size_t)((size + part_bytes - 1) / part_bytes),
                            .fd = -1};
    size_t length = 0;
    enum rs_status status = make_room(s3, part_bytes, err);
    if (status == RS_OK) {
        upload.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (upload.fd < 0)
            status = rs_err_errno(err, "cannot open %s", path);
    }
    if (status == RS_OK && upload.part_count > 1) {
        upload.parts = rs_mem_calloc(upload.part_count, sizeof *upload.parts);
        status = upload.parts ? put_parts(&upload, progress, self, err)
                              : rs_err_set(err, RS_NOMEM, "no memory to send %s", path);
    } else if (status == RS_OK) {
        if (size)
            status = read_part(&upload, 0, &length, err);
        if (status == RS_OK)
            status = rs_s3_put(s3, key, s3->part, length, sha256, err);
        if (status == RS_OK && progress)
            progress(self, length);
    }
    if (upload.fd >= 0)
        (void)close(upload.fd);
    rs_mem_free(upload.parts);
    return status;
}
