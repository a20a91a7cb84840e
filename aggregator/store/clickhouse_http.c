/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     clickhouse_run()      curl_easy_perform, the answer into a buffer
 *     clickhouse_stream_*() the same transfer in a multi handle: what is not asked for yet waits at the server
 *
 * User and password go in headers: addresses are written into logs. The server answers an error with a status and
 * "Code: 60, e.displayText() = ..."; numbers below are those of its list (dbms/src/Common/ErrorCodes).
 */
#include "aggregator/store/clickhouse_http.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/curl/curl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    TRIES = 3,
    CONNECT_LIMIT_S = 10,
    STALL_LIMIT_S = 300, /* a read may be thought about for so long */
    ALIVE_IDLE_S = 15,   /* then the system asks whether the other machine is there still */
    ALIVE_EVERY_S = 5,
    ANSWER_MAX_BYTES = 64 << 20,
    PASSWORD_MAX_BYTES = 4096,
    ERROR_MAX_BYTES = 4096,
    URL_BYTES = 2048,
    NAME_BYTES = 64,
    WAIT_MS = 1000,
};

struct clickhouse_link {
    CURL *curl;
    CURLM *multi;
    struct curl_slist *headers;
    char base[URL_BYTES]; /* "https://host:8443" */
    char database[NAME_BYTES], user[NAME_BYTES], password[PASSWORD_MAX_BYTES];
    char *ca_file, *cert_file, *key_file;
    rs_dur retry_ns;
    long connect_s, stall_s;
    /* of the transfer that goes on */
    struct rs_buf *into;
    size_t room;
    struct rs_buf error; /* the text of an answer that is none */
    struct rs_buf sql;
    bool is_too_long, is_streaming, is_over;
    char why[CURL_ERROR_SIZE];
};

/* ---- life --------------------------------------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
    return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789_")] == '\0';
}

static bool is_loopback(const char *host)
{
    struct in_addr address;
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

bool rs_clickhouse_is_url(const char *text)
{
    return strncmp(text, "clickhouse://", 13) == 0 || strncmp(text, "clickhouse+http://", 18) == 0;
}

static enum rs_status bad_url(const char *url, struct rs_err *err)
{
    return rs_err_set(
        err, RS_INVALID,
        "a ClickHouse is clickhouse://[USER@]HOST[:PORT]/DATABASE, names of a-z, A-Z, "
        "0-9 and _, not \"%.200s\"",
        url);
}

static enum rs_status parse_url(struct clickhouse_link *link, const char *url, struct rs_err *err)
{
    const bool is_plain = strncmp(url, "clickhouse+http://", 18) == 0;
    const char *rest = strstr(url, "://");
    char *host = NULL, *port = NULL, *user = NULL, *path = NULL, http[URL_BYTES];
    enum rs_status status = RS_OK;
    if (!rs_clickhouse_is_url(url) || !rest || strpbrk(url, "?#\\ "))
        return bad_url(url, err);
    CURLU *parts = curl_url();
    (void)snprintf(http, sizeof http, "%s%s", is_plain ? "http" : "https", rest);
    if (!parts || curl_url_set(parts, CURLUPART_URL, http, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_PATH, &path, 0) != CURLUE_OK || !is_name(path + 1) ||
        strlen(path + 1) >= NAME_BYTES)
        status = bad_url(url, err);
    if (status == RS_OK) {
        char *password = NULL;
        (void)curl_url_get(parts, CURLUPART_PORT, &port, 0);
        if (curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_OK &&
            (!is_name(user) || strlen(user) >= NAME_BYTES))
            status = bad_url(url, err);
        else if (curl_url_get(parts, CURLUPART_PASSWORD, &password, 0) == CURLUE_OK)
            status = rs_err_set(err, RS_INVALID,
                                "the address of a ClickHouse has no password in it: others see "
                                "command lines; --store-password names a file");
        curl_free(password);
    }
    if (status == RS_OK && is_plain && !is_loopback(host))
        status = rs_err_set(err, RS_REFUSED,
                            "the ClickHouse at %.200s: beyond this machine only clickhouse:// is "
                            "spoken, with TLS",
                            host);
    if (status == RS_OK) {
        (void)snprintf(link->base, sizeof link->base, "%s://%s:%s", is_plain ? "http" : "https",
                       host,
                       port       ? port
                       : is_plain ? "8123"
                                  : "8443");
        (void)snprintf(link->database, sizeof link->database, "%s", path + 1);
        (void)snprintf(link->user, sizeof link->user, "%s", user ? user : "default");
    }
    curl_free(host);
    curl_free(port);
    curl_free(user);
    curl_free(path);
    curl_url_cleanup(parts);
    return status;
}

/* The first line of the file, else of the environment; none: "". */
static enum rs_status find_password(struct clickhouse_link *link, const char *path,
                                    struct rs_err *err)
{
    const char *given = getenv("RANKSCOPE_STORE_PASSWORD"); /* NOLINT(concurrency-mt-unsafe) */
    struct rs_buf text = {0};
    struct stat info;
    enum rs_status status = RS_OK;
    if (path && stat(path, &info) == 0 && (info.st_mode & 077))
        return rs_err_set(err, RS_REFUSED,
                          "%s: others may read it: make it 0600, it holds a password", path);
    if (path)
        status = rs_file_read(path, PASSWORD_MAX_BYTES - 1, &text, err);
    if (status == RS_OK && path)
        given = rs_buf_text(&text);
    if (status == RS_OK && given)
        (void)snprintf(link->password, sizeof link->password, "%.*s", (int)strcspn(given, "\r\n"),
                       given);
    rs_buf_fini(&text);
    return status;
}

static bool add_header(struct clickhouse_link *link, const char *name, const char *value)
{
    char text[PASSWORD_MAX_BYTES + 64];
    (void)snprintf(text, sizeof text, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(link->headers, text);
    if (longer)
        link->headers = longer;
    return longer != NULL;
}

static bool copy_text(char **to, const char *from)
{
    *to = from ? rs_mem_strdup(from) : NULL;
    return !from || *to;
}

/* What is the same in every transfer. */
static enum rs_status prepare(struct clickhouse_link *link, struct rs_err *err)
{
    link->curl = curl_easy_init();
    link->multi = curl_multi_init();
    const bool has_password = *link->password != '\0';
    if (link->curl && link->multi && add_header(link, "X-ClickHouse-User", link->user) &&
        (!has_password || add_header(link, "X-ClickHouse-Key", link->password)) &&
        add_header(link, "Expect", "") &&
        add_header(link, "Content-Type", "application/octet-stream"))
        return RS_OK;
    return rs_err_set(err, RS_NOMEM, "no memory to reach ClickHouse");
}

enum rs_status clickhouse_link_open(const struct rs_clickhouse_options *options,
                                    struct clickhouse_link **link_p, struct rs_err *err)
{
    struct clickhouse_link *link = rs_mem_calloc(1, sizeof *link);
    if (!link)
        return rs_err_set(err, RS_NOMEM, "no memory to reach ClickHouse");
    link->retry_ns = options->retry_ns ? options->retry_ns : 500 * (rs_dur)RS_NS_PER_MS;
    link->connect_s = options->connect_s ? (long)options->connect_s : CONNECT_LIMIT_S;
    link->stall_s = options->stall_s ? (long)options->stall_s : STALL_LIMIT_S;
    enum rs_status status = parse_url(link, options->url, err);
    if (status == RS_OK)
        status = find_password(link, options->password_file, err);
    if (status == RS_OK && (!copy_text(&link->ca_file, options->ca_file) ||
                            !copy_text(&link->cert_file, options->cert_file) ||
                            !copy_text(&link->key_file, options->key_file)))
        status = rs_err_set(err, RS_NOMEM, "no memory to reach ClickHouse");
    if (status == RS_OK)
        status = prepare(link, err);
    if (status == RS_OK)
        *link_p = link;
    else
        clickhouse_link_close(&link);
    return status;
}

enum rs_status clickhouse_link_twin(const struct clickhouse_link *link,
                                    struct clickhouse_link **link_p, struct rs_err *err)
{
    struct clickhouse_link *twin = rs_mem_calloc(1, sizeof *twin);
    if (!twin)
        return rs_err_set(err, RS_NOMEM, "no memory to reach ClickHouse");
    memcpy(twin->base, link->base, sizeof twin->base);
    memcpy(twin->database, link->database, sizeof twin->database);
    memcpy(twin->user, link->user, sizeof twin->user);
    memcpy(twin->password, link->password, sizeof twin->password);
    twin->retry_ns = link->retry_ns;
    twin->connect_s = link->connect_s;
    twin->stall_s = link->stall_s;
    enum rs_status status = RS_OK;
    if (!copy_text(&twin->ca_file, link->ca_file) ||
        !copy_text(&twin->cert_file, link->cert_file) ||
        !copy_text(&twin->key_file, link->key_file))
        status = rs_err_set(err, RS_NOMEM, "no memory to reach ClickHouse");
    if (status == RS_OK)
        status = prepare(twin, err);
    if (status == RS_OK)
        *link_p = twin;
    else
        clickhouse_link_close(&twin);
    return status;
}

void clickhouse_link_close(struct clickhouse_link **link_p)
{
    struct clickhouse_link *link = *link_p;
    if (!link)
        return;
    clickhouse_stream_end(link);
    curl_easy_cleanup(link->curl);
    (void)curl_multi_cleanup(link->multi);
    curl_slist_free_all(link->headers);
    rs_buf_fini(&link->error);
    rs_buf_fini(&link->sql);
    explicit_bzero(link->password, sizeof link->password);
    rs_mem_free(link->ca_file);
    rs_mem_free(link->cert_file);
    rs_mem_free(link->key_file);
    rs_mem_free(link);
    *link_p = NULL;
}

const char *clickhouse_link_database(const struct clickhouse_link *link)
{
    return link->database;
}

/* ---- a transfer ------------------------------------------------------------------------------------------------------- */

static long status_of(const struct clickhouse_link *link)
{
    long status = 0;
    (void)curl_easy_getinfo(link->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *self)
{
    struct clickhouse_link *link = self;
    const size_t length = size * count;
    if (status_of(link) != 200) {
        if (link->error.length < ERROR_MAX_BYTES)
            rs_buf_bytes(&link->error, bytes, length);
        return length;
    }
    if (!link->into)
        return length;
    if (length > link->room - link->into->length) {
        link->is_too_long = true;
        return 0;
    }
    rs_buf_bytes(link->into, bytes, length);
    return link->into->failed ? 0 : length;
}

static enum rs_status set_up(struct clickhouse_link *link, const char *sql,
                             const struct rs_buf *body, bool has_database, struct rs_err *err)
{
    CURL *curl = link->curl;
    struct rs_buf url = {0};
    char *escaped = body ? curl_easy_escape(curl, sql, 0) : NULL;
    /* Unknown settings are an error: these are of every version since 2018. */
    rs_buf_printf(&url, "%s/?wait_end_of_query=1&join_default_strictness=ALL&join_use_nulls=1%s%s",
                  link->base, has_database ? "&database=" : "", has_database ? link->database : "");
    if (escaped)
        rs_buf_printf(&url, "&query=%s", escaped);
    const bool has_failed = url.failed || (body && !escaped);
    curl_easy_reset(curl); /* keeps the connection */
    (void)curl_easy_setopt(curl, CURLOPT_URL, rs_buf_text(&url));
    curl_free(escaped);
    rs_buf_fini(&url);
    rs_buf_reset(&link->sql);
    rs_buf_string(&link->sql, sql);
    if (has_failed || link->sql.failed)
        return rs_err_set(err, RS_NOMEM, "no memory to ask ClickHouse");
    rs_buf_reset(&link->error);
    link->is_too_long = false;
    *link->why = '\0';
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    /* Plain text goes to this machine, and to no proxy of the environment: the password is in it. Through TLS a proxy sees nothing. */
    if (strncmp(link->base, "http://", 7) == 0)
        (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, link->connect_s);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, link->stall_s);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, (long)ALIVE_IDLE_S);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, (long)ALIVE_EVERY_S);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, link->headers);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, link->why);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, link);
    if (link->ca_file)
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, link->ca_file);
    if (link->cert_file)
        (void)curl_easy_setopt(curl, CURLOPT_SSLCERT, link->cert_file);
    if (link->key_file)
        (void)curl_easy_setopt(curl, CURLOPT_SSLKEY, link->key_file);
    /* On a connection that was used before, libcurl sends a request again by itself when nothing was answered: rows would be there twice,
     * and of one generation. */
    (void)curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, body ? 1L : 0L);
    (void)curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, body ? 1L : 0L);
    (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                           (curl_off_t)(body ? body->length : link->sql.length));
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS,
                           body ? (const char *)body->data : rs_buf_text(&link->sql));
    return RS_OK;
}

static enum rs_status status_of_code(long http, long code)
{
    enum { UNKNOWN_TABLE = 60, UNKNOWN_DATABASE = 81 };
    if (code == UNKNOWN_TABLE || code == UNKNOWN_DATABASE)
        return RS_NOTFOUND;
    /* password, user, address, rights */
    if (http == 401 || http == 403 || (code >= 192 && code <= 195) || code == 497 || code == 516)
        return RS_REFUSED;
    return http == 408 || http == 429 || http == 502 || http == 503 || http == 504 ? RS_UNREACHABLE
                                                                                   : RS_IO;
}

static enum rs_status judge(struct clickhouse_link *link, CURLcode result, struct rs_err *err)
{
    const long http = status_of(link);
    if (link->is_too_long)
        return rs_err_set(err, RS_LIMIT,
                          "the ClickHouse at %s answers with more than there should be",
                          link->base);
    if (result == CURLE_OUT_OF_MEMORY || (link->into && link->into->failed))
        return rs_err_set(err, RS_NOMEM, "no memory for what ClickHouse answers");
    if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE ||
        result == CURLE_SSL_CERTPROBLEM)
        return rs_err_set(err, RS_REFUSED,
                          "the ClickHouse at %s is not who it says, or we are not: %s", link->base,
                          *link->why ? link->why : curl_easy_strerror(result));
    if (result != CURLE_OK)
        return rs_err_set(err, RS_UNREACHABLE, "the ClickHouse at %s cannot be reached: %s",
                          link->base, *link->why ? link->why : curl_easy_strerror(result));
    if (http == 200)
        return RS_OK;
    const char *text = rs_buf_text(&link->error);
    const char *code = strstr(text, "Code: ");
    return rs_err_set(err, status_of_code(http, code ? strtol(code + 6, NULL, 10) : 0),
                      "the ClickHouse at %s says %ld: %.*s", link->base, http,
                      (int)strcspn(text, "\n"), text);
}

enum rs_status clickhouse_run(struct clickhouse_link *link, const char *sql,
                              const struct rs_buf *body, bool has_database, struct rs_buf *answer,
                              struct rs_err *err)
{
    if (answer)
        rs_buf_reset(answer);
    link->into = answer;
    link->room = ANSWER_MAX_BYTES;
    const enum rs_status status = set_up(link, sql, body, has_database, err);
    return status == RS_OK ? judge(link, curl_easy_perform(link->curl), err) : status;
}

static void pause_for(rs_dur length)
{
    const struct timespec time = {.tv_sec = length / RS_NS_PER_S,
                                  .tv_nsec = (long)(length % RS_NS_PER_S)};
    (void)nanosleep(&time, NULL);
}

enum rs_status clickhouse_ask(struct clickhouse_link *link, const char *sql, struct rs_buf *answer,
                              struct rs_err *err)
{
    enum rs_status status = RS_UNREACHABLE;
    for (unsigned tries = 0; status == RS_UNREACHABLE && tries < TRIES; tries++) {
        if (tries)
            pause_for(link->retry_ns << (tries - 1));
        status = clickhouse_run(link, sql, NULL, true, answer, err);
    }
    return status;
}

/* ---- piece by piece ------------------------------------------------------------------------------------------------------ */

enum rs_status clickhouse_stream_begin(struct clickhouse_link *link, const char *sql,
                                       struct rs_err *err)
{
    const enum rs_status status = set_up(link, sql, NULL, true, err);
    if (status != RS_OK)
        return status;
    if (curl_multi_add_handle(link->multi, link->curl) != CURLM_OK)
        return rs_err_set(err, RS_NOMEM, "no memory to ask ClickHouse");
    link->is_streaming = true;
    link->is_over = false;
    return RS_OK;
}

static CURLcode result_of(struct clickhouse_link *link)
{
    int left = 0;
    for (CURLMsg *message; (message = curl_multi_info_read(link->multi, &left)) != NULL;)
        if (message->msg == CURLMSG_DONE)
            return message->data.result;
    return CURLE_RECV_ERROR;
}

enum rs_status clickhouse_stream_next(struct clickhouse_link *link, struct rs_buf *buf,
                                      struct rs_err *err)
{
    const size_t before = buf->length;
    link->into = buf;
    link->room = SIZE_MAX;
    while (!link->is_over && buf->length == before) {
        int running = 0;
        if (curl_multi_perform(link->multi, &running) != CURLM_OK)
            return rs_err_set(err, RS_NOMEM, "no memory for what ClickHouse answers");
        if (!running) {
            const enum rs_status status = judge(link, result_of(link), err);
            link->is_over = true;
            if (status != RS_OK)
                return status;
        } else if (buf->length == before) {
            (void)curl_multi_poll(link->multi, NULL, 0, WAIT_MS, NULL);
        }
    }
    return buf->length == before ? RS_END : RS_OK;
}

void clickhouse_stream_end(struct clickhouse_link *link)
{
    if (link->is_streaming)
        (void)curl_multi_remove_handle(link->multi, link->curl);
    link->is_streaming = false;
}
