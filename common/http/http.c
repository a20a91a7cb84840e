/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a listener: the address is bound here, libmicrohttpd takes connections from it, a thread each (what is asked for may
 * have to be waited for). Over TLS, our certificate is looked up for every handshake, so that a renewed one counts at once.
 */
#include "common/http/http.h"

#include "common/base/counters.h"
#include "common/base/mem.h"
#include "common/http/http_priv.h"
#include "common/trust/token.h"
#include "common/wire/link.h"

#define RS_LOG_TAG "http"
#include "common/base/log.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the address ------------------------------------------------------------------------------------------------- */

/* "HOST:PORT", "[IPv6]:PORT". */
static bool split(const char *address, char host_p[RS_HTTP_TEXT_BYTES], char port_p[16])
{
    const char *colon = strrchr(address, ':');
    const bool has_brackets = colon && *address == '[' && colon[-1] == ']';
    if (!colon || (size_t)(colon - address) >= RS_HTTP_TEXT_BYTES || strlen(colon) > 6)
        return false;
    (void)snprintf(host_p, RS_HTTP_TEXT_BYTES, "%.*s",
                   (int)(colon - address) - (has_brackets ? 2 : 0), address + has_brackets);
    (void)snprintf(port_p, 16, "%s", colon + 1);
    return true;
}

static int bind_first(const struct addrinfo *found)
{
    const int on = 1;
    int fd = -1;
    for (; found && fd < 0; found = found->ai_next) {
        fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0) {
            const int why = errno;
            (void)close(fd);
            errno = why;
            fd = -1;
        }
    }
    return fd;
}

static void name_port(struct rs_http *http, int fd)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    char port[NI_MAXSERV];
    char *colon = strrchr(http->address, ':');
    if (getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
        getnameinfo((struct sockaddr *)&own, length, NULL, 0, port, sizeof port, NI_NUMERICSERV) ==
            0)
        (void)snprintf(colon + 1, sizeof http->address - (size_t)(colon + 1 - http->address), "%s",
                       port);
}

/* -1 with the sentence. */
static int listen_at(struct rs_http *http, struct rs_err *err)
{
    const struct addrinfo wish = {.ai_family = AF_UNSPEC,
                                  .ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[RS_HTTP_TEXT_BYTES], port[16];
    if (!split(http->address, host, port)) {
        (void)rs_err_set(err, RS_INVALID, "%.100s is not HOST:PORT", http->address);
        return -1;
    }
    const int failure = getaddrinfo(*host ? host : NULL, port, &wish, &found);
    if (failure) {
        (void)rs_err_set(err, RS_INVALID, "cannot find %.100s: %s", http->address,
                         gai_strerror(failure));
        return -1;
    }
    const int fd = bind_first(found);
    freeaddrinfo(found);
    if (fd < 0 && errno == EADDRINUSE)
        (void)rs_err_set(err, RS_EXISTS, "somebody listens at %.100s already", http->address);
    else if (fd < 0)
        (void)rs_err_errno(err, "cannot listen at %.100s", http->address);
    else
        name_port(http, fd);
    return fd;
}

/* ---- TLS --------------------------------------------------------------------------------------------------------- */

static void free_pair(struct http_pair *pair)
{
    for (unsigned i = 0; i < pair->chain_count; i++)
        gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key)
        gnutls_privkey_deinit(pair->key);
    rs_mem_free(pair);
}

/* NULL: what is in the folder cannot be read by GnuTLS, or there is no memory. */
static struct http_pair *read_pair(const struct rs_trust_texts *texts)
{
    struct http_pair *pair = rs_mem_calloc(1, sizeof *pair);
    const gnutls_datum_t certificate = {texts->certificate.data,
                                        (unsigned)texts->certificate.length};
    const gnutls_datum_t key = {texts->key.data, (unsigned)texts->key.length};
    unsigned count = sizeof pair->chain / sizeof pair->chain[0];
    if (!pair)
        return NULL;
    if (gnutls_pcert_list_import_x509_raw(pair->chain, &count, &certificate, GNUTLS_X509_FMT_PEM,
                                          GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED) == 0)
        pair->chain_count = count;
    if (!pair->chain_count || gnutls_privkey_init(&pair->key) < 0 ||
        gnutls_privkey_import_x509_raw(pair->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0) < 0) {
        free_pair(pair);
        return NULL;
    }
    return pair;
}

/* A client's certificate would be refused by every client, each with words of its own. */
static bool is_servers(const struct rs_trust_texts *texts)
{
    const gnutls_datum_t pem = {texts->certificate.data, (unsigned)texts->certificate.length};
    gnutls_x509_crt_t certificate = NULL;
    bool is_fine = false;
    if (gnutls_x509_crt_init(&certificate) < 0)
        return false;
    is_fine = gnutls_x509_crt_import(certificate, &pem, GNUTLS_X509_FMT_PEM) == 0 &&
              gnutls_x509_crt_check_key_purpose(certificate, GNUTLS_KP_TLS_WWW_SERVER, 0) != 0;
    gnutls_x509_crt_deinit(certificate);
    return is_fine;
}

/* The newest pair in front; the old one counts on when there is none. */
static enum rs_status load_pair(struct rs_http *http, struct rs_err *err)
{
    struct rs_trust_texts texts = {.ca = {0}};
    enum rs_status status = rs_trust_texts(http->trust, &texts, err);
    if (status == RS_OK && !is_servers(&texts))
        status =
            rs_err_set(err, RS_REFUSED,
                       "the certificate in %.200s is a client's: a server's is an aggregator's, or "
                       "made by \"rankscope certs issue node NAME --host HOST\"",
                       http->options.certs);
    struct http_pair *pair = status == RS_OK ? read_pair(&texts) : NULL;
    rs_trust_texts_fini(&texts);
    if (status == RS_OK && !pair)
        status = rs_err_set(err, RS_FORMAT, "the certificate in %.200s cannot be used for HTTPS",
                            http->options.certs);
    if (pair) {
        (void)pthread_mutex_lock(&http->lock);
        pair->next = http->pairs;
        http->pairs = pair;
        (void)pthread_mutex_unlock(&http->lock);
    }
    return status;
}

/* GnuTLS has no place for a pointer of ours: the daemon of the connection is asked. One listener per process is TLS. */
static _Atomic(struct rs_http *) tls_listener;

static int pick_pair(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                     const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                     gnutls_pcert_st **chain_p, unsigned *chain_count_p, gnutls_privkey_t *key_p)
{
    struct rs_http *http = atomic_load(&tls_listener);
    (void)session;
    (void)authorities;
    (void)count;
    (void)algorithms;
    (void)algorithm_count;
    if (!http)
        return -1;
    (void)pthread_mutex_lock(&http->lock);
    struct http_pair *pair = http->pairs;
    (void)pthread_mutex_unlock(&http->lock);
    *chain_p = pair->chain;
    *chain_count_p = pair->chain_count;
    *key_p = pair->key;
    return 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* libmicrohttpd's own words: a handshake that fails, mostly. */
__attribute__((format(printf, 2, 0))) static void on_log(void *self, const char *format,
                                                         va_list arguments)
{
    char text[300];
    (void)self;
    (void)vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    if (strstr(text, "TLS") || strstr(text, "handshake"))
        rs_count(RS_COUNT_TLS_FAILED, 1);
    rs_log_debug("%s", text);
}

static enum rs_status start_daemon(struct rs_http *http, int fd, struct rs_err *err)
{
    struct rs_trust_texts texts = {.ca = {0}};
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[4] = {{MHD_OPTION_END, 0, NULL}};
    if (http->trust) {
        const enum rs_status status = rs_trust_texts(http->trust, &texts, err);
        if (status < 0)
            return status;
        union {
            int (*in)(gnutls_session_t, const gnutls_datum_t *, int, const gnutls_pk_algorithm_t *,
                      int, gnutls_pcert_st **, unsigned *, gnutls_privkey_t *);
            void *out;
        } pick = {.in = pick_pair};
        static char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
        union {
            const char *in;
            char *out;
        } ca = {.in = rs_buf_text(&texts.ca)};
        flags |= MHD_USE_TLS;
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, ca.out};
        tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, priorities};
        tls[2] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, pick.out};
        tls[3] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    }
    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, http,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, http,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)HTTP_CONNECTIONS_OF_ONE, MHD_OPTION_CONNECTION_TIMEOUT, http->options.timeout_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEAD_BYTES, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)HTTP_STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
    rs_trust_texts_fini(&texts);
    return http->daemon ? RS_OK
                        : rs_err_set(err, RS_IO, "cannot serve HTTP at %.100s", http->address);
}

/* Plain or TLS: by the rule of all addresses. */
static enum rs_status guard(struct rs_http *http, struct rs_err *err)
{
    struct rs_address address;
    enum rs_status status = rs_address_parse(http->address, &address, err);
    if (status == RS_OK && address.is_unix)
        status = rs_err_set(err, RS_INVALID, "HTTP is served at HOST:PORT, not at a unix socket");
    if (status == RS_OK)
        status = rs_address_guard(&address, http->options.certs, http->options.is_insecure_loopback,
                                  err);
    if (status < 0)
        return status;
    http->is_plain = address.guard == RS_ADDRESS_LOCAL;
    if (http->is_plain)
        return RS_OK;
    if (atomic_load(&tls_listener))
        return rs_err_set(err, RS_LIMIT, "one address is served over HTTPS");
    status = rs_trust_open(http->options.certs, &http->trust, err);
    return status == RS_OK ? load_pair(http, err) : status;
}

enum rs_status rs_http_start(const struct rs_http_options *options, struct rs_http **http_p,
                             struct rs_err *err)
{
    struct rs_http *http = rs_mem_calloc(1, sizeof *http);
    if (!http)
        return rs_err_set(err, RS_NOMEM, "no memory for HTTP");
    http->options = *options;
    if (!http->options.timeout_s)
        http->options.timeout_s = HTTP_TIMEOUT_S;
    (void)pthread_mutex_init(&http->lock, NULL);
    (void)pthread_mutex_init(&http->wrong_lock, NULL);
    (void)snprintf(http->address, sizeof http->address, "%s", options->address);
    enum rs_status status = http_late_open(err);
    if (status == RS_OK)
        status = guard(http, err);
    const int fd = status == RS_OK ? listen_at(http, err) : -1;
    if (status == RS_OK && fd < 0)
        status = err ? err->status : RS_IO;
    if (status == RS_OK) {
        if (!http->is_plain)
            atomic_store(&tls_listener, http);
        status = start_daemon(http, fd, err);
    }
    if (status < 0) {
        if (fd >= 0 && !http->daemon)
            (void)close(fd);
        rs_http_stop(&http);
        return status;
    }
    *http_p = http;
    return RS_OK;
}

const char *rs_http_address(const struct rs_http *http)
{
    return http->address;
}

bool rs_http_is_plain(const struct rs_http *http)
{
    return http->is_plain;
}

void rs_http_refresh(struct rs_http *http)
{
    struct rs_err err = {0};
    unsigned generation = http->generation;
    if (!http->trust)
        return;
    if (rs_trust_refresh(http->trust, &generation, &err) < 0)
        rs_log_warn("%s", err.text);
    if (generation == http->generation)
        return;
    http->generation = generation;
    if (load_pair(http, &err) < 0)
        rs_log_warn("%s", err.text);
}

enum rs_status rs_http_check(struct rs_http *http, const struct rs_identity *who,
                             struct rs_err *err)
{
    if (strncmp(who->serial, rs_token_serial, strlen(rs_token_serial)) == 0)
        return http->options.check_token ? http->options.check_token(http->options.self, who, err)
                                         : RS_OK;
    return http->trust && *who->serial ? rs_trust_check(http->trust, who, rs_time_realtime(), err)
                                       : RS_OK;
}

void rs_http_stop(struct rs_http **http_p)
{
    struct rs_http *http = *http_p;
    *http_p = NULL;
    if (!http)
        return;
    if (http->daemon)
        MHD_stop_daemon(http->daemon); /* the socket, too */
    struct rs_http *own = http;
    (void)atomic_compare_exchange_strong(&tls_listener, &own, NULL);
    while (http->pairs) {
        struct http_pair *next = http->pairs->next;
        free_pair(http->pairs);
        http->pairs = next;
    }
    rs_trust_close(&http->trust);
    (void)pthread_mutex_destroy(&http->lock);
    (void)pthread_mutex_destroy(&http->wrong_lock);
    rs_mem_free(http);
}
