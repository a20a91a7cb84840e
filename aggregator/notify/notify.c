/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A delivery is one event for one URL. All of them stand in one list, each with the time of its next try; the thread takes the
 * first that is due, so that a URL that does not answer holds up the others by its time limit only.
 */
#include "aggregator/notify/notify.h"

#include "common/base/buf.h"
#include "common/base/counters.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "notify"
#include "common/base/log.h"
#include "common/curl/curl.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    URLS_MAX = 16,
    QUEUE_MAX = 1024,
    TRIES = 6,
    SECRET_MAX_BYTES = 1024,
    CONNECT_LIMIT_S = 5,
    ANSWER_LIMIT_S = 10,
    STOP_LIMIT_S = 5,
    HEX_BYTES = 2 * EVP_MAX_MD_SIZE + 1,
    HOST_BYTES = 128,
};

struct url {
    char *text;            /* whoever knows it may post there: never logged */
    char host[HOST_BYTES]; /* for logs */
    bool is_slack;
};

struct delivery {
    struct delivery *next;
    const struct url *url;
    char event[32];
    char timestamp[24];
    struct rs_buf body;
    rs_ns due; /* monotonic */
    unsigned tries;
};

struct rs_notify {
    struct url urls[URLS_MAX];
    size_t url_count;
    struct rs_buf secret;
    rs_dur retry_ns;
    pthread_t thread;
    bool has_thread;
    pthread_cond_t changed;
    pthread_mutex_t lock; /* guards everything below */
    struct delivery *waiting, **last_p;
    size_t count;
    rs_ns stop_at; /* 0: not told to stop */
};

/* ---- what is sent ------------------------------------------------------------------------------------------------- */

static void member(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    if (*text)
        rs_json_out_string(json, text);
    else
        rs_json_out_null(json);
}

static void put_body(const struct rs_notify_event *event, bool is_slack, struct rs_buf *body)
{
    struct rs_json_out json;
    rs_json_out_init(&json, body, 0);
    rs_json_out_object(&json);
    if (!is_slack) {
        rs_json_out_key(&json, "schema_version");
        rs_json_out_int(&json, 1);
        member(&json, "event", event->event);
        member(&json, "run", event->run);
        member(&json, "capture", event->capture);
        member(&json, "state", event->state);
        rs_json_out_key(&json, "time_ns");
        rs_json_out_int(&json, event->at);
    }
    member(&json, "text", event->text);
    rs_json_out_end(&json);
}

static bool sign(const struct rs_notify *notify, const struct delivery *delivery,
                 char hex_p[HEX_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    struct rs_buf text = {0};
    rs_buf_printf(&text, "%s.", delivery->timestamp);
    rs_buf_bytes(&text, delivery->body.data, delivery->body.length);
    const bool is_fine =
        !text.failed && HMAC(EVP_sha256(), notify->secret.data, (int)notify->secret.length,
                             text.data, text.length, digest, &length);
    rs_buf_fini(&text);
    for (unsigned i = 0; is_fine && i < length; i++)
        (void)snprintf(hex_p + 2 * (size_t)i, 3, "%02x", digest[i]);
    return is_fine;
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
    char text[256];
    (void)snprintf(text, sizeof text, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(list, text);
    return longer ? longer : list;
}

/* As curl declares it. NOLINTNEXTLINE(readability-non-const-parameter) */
static size_t ignore(char *bytes, size_t size, size_t count, void *self)
{
    (void)bytes;
    (void)self;
    return size * count;
}

enum outcome { OUTCOME_TAKEN, OUTCOME_REFUSED, OUTCOME_AGAIN };

/* Without the lock. `why_p` says what is wrong. */
static enum outcome post(const struct rs_notify *notify, const struct delivery *delivery,
                         char why_p[CURL_ERROR_SIZE])
{
    char hex[HEX_BYTES];
    long status = 0;
    CURL *curl = curl_easy_init();
    if (!curl) {
        (void)snprintf(why_p, CURL_ERROR_SIZE, "out of memory");
        return OUTCOME_AGAIN;
    }
    struct curl_slist *headers = add_header(NULL, "Content-Type", "application/json");
    headers = add_header(headers, "User-Agent", "rankscope/" RS_PROGRAM_VERSION);
    if (!delivery->url->is_slack) {
        headers = add_header(headers, "X-Rankscope-Event", delivery->event);
        headers = add_header(headers, "X-Rankscope-Timestamp", delivery->timestamp);
        if (notify->secret.length && sign(notify, delivery, hex)) {
            char value[HEX_BYTES + 8];
            (void)snprintf(value, sizeof value, "sha256=%s", hex);
            headers = add_header(headers, "X-Rankscope-Signature", value);
        }
    }
    *why_p = '\0';
    (void)curl_easy_setopt(curl, CURLOPT_URL, delivery->url->text);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L); /* it was not named */
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_LIMIT_S);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)ANSWER_LIMIT_S);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)delivery->body.length);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, (const char *)delivery->body.data);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why_p);
    const CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_OK)
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    else if (!*why_p)
        (void)snprintf(why_p, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK)
        return OUTCOME_AGAIN;
    if (status >= 200 && status < 300)
        return OUTCOME_TAKEN;
    (void)snprintf(why_p, CURL_ERROR_SIZE, "it answers with %ld", status);
    return status >= 400 && status < 500 && status != 408 && status != 429 ? OUTCOME_REFUSED
                                                                           : OUTCOME_AGAIN;
}

/* ---- the thread --------------------------------------------------------------------------------------------------- */

static void free_delivery(struct delivery *delivery)
{
    rs_buf_fini(&delivery->body);
    rs_mem_free(delivery);
}

/* With the lock. The one that is due first, taken out; NULL: none is due by then, and *next_p says when. */
static struct delivery *take_due(struct rs_notify *notify, rs_ns now, rs_ns *next_p)
{
    struct delivery **first = NULL;
    for (struct delivery **at = &notify->waiting; *at; at = &(*at)->next)
        if (!first || (*at)->due < (*first)->due)
            first = at;
    *next_p = first ? (*first)->due : now + 3600 * (rs_dur)RS_NS_PER_S;
    if (!first || (*first)->due > now)
        return NULL;
    struct delivery *delivery = *first;
    *first = delivery->next;
    if (!delivery->next)
        notify->last_p = first;
    delivery->next = NULL;
    notify->count--;
    return delivery;
}

/* With the lock. */
static void put_back(struct rs_notify *notify, struct delivery *delivery)
{
    *notify->last_p = delivery;
    notify->last_p = &delivery->next;
    notify->count++;
}

/* What became of a try; the delivery is freed, or waits for its next one. */
static void settle(struct rs_notify *notify, struct delivery *delivery, enum outcome outcome,
                   const char *why)
{
    const bool is_last = ++delivery->tries >= TRIES || notify->stop_at;
    if (outcome == OUTCOME_TAKEN) {
        rs_count(RS_COUNT_NOTIFY_SENT, 1);
    } else if (outcome == OUTCOME_AGAIN && !is_last) {
        rs_log_debug("webhook of %s: %s; again", delivery->url->host, why);
        delivery->due = rs_time_monotonic() + (notify->retry_ns << (delivery->tries - 1));
        put_back(notify, delivery);
        return;
    } else {
        rs_count(RS_COUNT_NOTIFY_LOST, 1);
        rs_log_warn("%s was not told to %s after %u tries: %s", delivery->event,
                    delivery->url->host, delivery->tries, why);
    }
    free_delivery(delivery);
}

static void *run(void *self)
{
    struct rs_notify *notify = self;
    (void)pthread_mutex_lock(&notify->lock);
    while (!notify->stop_at || (notify->waiting && rs_time_monotonic() < notify->stop_at)) {
        rs_ns next = 0;
        const rs_ns now = notify->stop_at ? RS_NS_MAX : rs_time_monotonic(); /* all are due then */
        struct delivery *delivery = take_due(notify, now, &next);
        if (!delivery) {
            const struct timespec until = {.tv_sec = (time_t)(next / RS_NS_PER_S),
                                           .tv_nsec = (long)(next % RS_NS_PER_S)};
            (void)pthread_cond_timedwait(&notify->changed, &notify->lock, &until);
            continue;
        }
        char why[CURL_ERROR_SIZE];
        (void)pthread_mutex_unlock(&notify->lock);
        const enum outcome outcome = post(notify, delivery, why);
        (void)pthread_mutex_lock(&notify->lock);
        settle(notify, delivery, outcome, why);
    }
    (void)pthread_mutex_unlock(&notify->lock);
    return NULL;
}

void rs_notify_put(struct rs_notify *notify, const struct rs_notify_event *event)
{
    if (!notify)
        return;
    for (size_t i = 0; i < notify->url_count; i++) {
        struct delivery *delivery = rs_mem_calloc(1, sizeof *delivery);
        bool is_put = false;
        if (delivery) {
            delivery->url = &notify->urls[i];
            delivery->due = rs_time_monotonic();
            (void)snprintf(delivery->event, sizeof delivery->event, "%s", event->event);
            (void)snprintf(delivery->timestamp, sizeof delivery->timestamp, "%lld",
                           (long long)(event->at / RS_NS_PER_S));
            put_body(event, notify->urls[i].is_slack, &delivery->body);
        }
        (void)pthread_mutex_lock(&notify->lock);
        if (delivery && !delivery->body.failed && notify->count < QUEUE_MAX && !notify->stop_at) {
            put_back(notify, delivery);
            is_put = true;
            (void)pthread_cond_signal(&notify->changed);
        }
        (void)pthread_mutex_unlock(&notify->lock);
        if (is_put)
            continue;
        if (delivery)
            free_delivery(delivery);
        rs_count(RS_COUNT_NOTIFY_LOST, 1);
        rs_log_warn("%s is not told to %s: too much waits for it", event->event,
                    notify->urls[i].host);
    }
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

/* The host of a URL; false: it is none. */
static bool find_host(const char *text, char host_p[HOST_BYTES])
{
    CURLU *parts = curl_url();
    char *host = NULL;
    const bool is_fine = parts && curl_url_set(parts, CURLUPART_URL, text, 0) == CURLUE_OK &&
                         curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK;
    (void)snprintf(host_p, HOST_BYTES, "%s", is_fine ? host : "");
    curl_free(host);
    curl_url_cleanup(parts);
    return is_fine;
}

static enum rs_status add_urls(struct rs_notify *notify, const char *const *urls, size_t count,
                               bool is_slack, struct rs_err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(urls[i], "https://", 8) != 0 && strncmp(urls[i], "http://", 7) != 0)
            return rs_err_set(err, RS_INVALID,
                              "a webhook begins with https:// or http://, not %.12s", urls[i]);
        if (notify->url_count >= URLS_MAX)
            return rs_err_set(err, RS_INVALID, "there may be %d webhooks at most", URLS_MAX);
        struct url *url = &notify->urls[notify->url_count];
        *url = (struct url){.text = rs_mem_strdup(urls[i]), .is_slack = is_slack};
        if (!url->text)
            return rs_err_set(err, RS_NOMEM, "no memory for webhooks");
        notify->url_count++;
        if (!find_host(urls[i], url->host))
            return rs_err_set(err, RS_INVALID, "webhook %zu is no URL", i + 1);
    }
    return RS_OK;
}

static enum rs_status read_secret(struct rs_notify *notify, const char *path, struct rs_err *err)
{
    const enum rs_status status =
        path ? rs_file_read(path, SECRET_MAX_BYTES, &notify->secret, err) : RS_OK;
    if (status < 0 || !path)
        return status;
    notify->secret.length = strcspn(rs_buf_text(&notify->secret), "\r\n");
    return notify->secret.length >= 16
               ? RS_OK
               : rs_err_set(err, RS_INVALID, "%s: a secret has at least 16 bytes on its first line",
                            path);
}

enum rs_status rs_notify_start(const struct rs_notify_options *options, struct rs_notify **notify_p,
                               struct rs_err *err)
{
    pthread_condattr_t monotonic;
    *notify_p = NULL;
    if (!options->url_count && !options->slack_count)
        return RS_OK;
    struct rs_notify *notify = rs_mem_calloc(1, sizeof *notify);
    if (!notify)
        return rs_err_set(err, RS_NOMEM, "no memory for webhooks");
    notify->retry_ns = options->retry_ns ? options->retry_ns : RS_NS_PER_S;
    notify->last_p = &notify->waiting;
    (void)pthread_mutex_init(&notify->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&notify->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    enum rs_status status = add_urls(notify, options->urls, options->url_count, false, err);
    if (status == RS_OK)
        status = add_urls(notify, options->slack_urls, options->slack_count, true, err);
    if (status == RS_OK)
        status = read_secret(notify, options->secret_file, err);
    if (status == RS_OK && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        status = rs_err_set(err, RS_IO, "libcurl cannot be used");
    if (status == RS_OK && pthread_create(&notify->thread, NULL, run, notify) != 0)
        status = rs_err_set(err, RS_IO, "cannot start a thread for webhooks");
    notify->has_thread = status == RS_OK;
    if (status < 0)
        rs_notify_stop(&notify);
    *notify_p = notify;
    return status;
}

void rs_notify_stop(struct rs_notify **notify_p)
{
    struct rs_notify *notify = *notify_p;
    *notify_p = NULL;
    if (!notify)
        return;
    (void)pthread_mutex_lock(&notify->lock);
    notify->stop_at = rs_time_monotonic() + STOP_LIMIT_S * (rs_dur)RS_NS_PER_S;
    (void)pthread_cond_signal(&notify->changed);
    (void)pthread_mutex_unlock(&notify->lock);
    if (notify->has_thread)
        (void)pthread_join(notify->thread, NULL);
    while (notify->waiting) {
        struct delivery *next = notify->waiting->next;
        rs_count(RS_COUNT_NOTIFY_LOST, 1);
        free_delivery(notify->waiting);
        notify->waiting = next;
    }
    for (size_t i = 0; i < notify->url_count; i++)
        rs_mem_free(notify->urls[i].text);
    if (notify->secret.data)
        OPENSSL_cleanse(notify->secret.data, notify->secret.capacity);
    rs_buf_fini(&notify->secret);
    (void)pthread_cond_destroy(&notify->changed);
    (void)pthread_mutex_destroy(&notify->lock);
    rs_mem_free(notify);
}
