/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong tokens, by the address that they come from: who brings many is told to wait, and is not written into the audit log line by line.
 *
 *     each address has 20 for nothing; one more comes back every 2 s      (a bucket; 256 addresses, the one that was quiet longest goes)
 *
 * A right token is taken from there all the same: other people may be behind the address. Guessing 256 random bits is hopeless at any
 * rate; what is bounded is what it costs, and what it hides.
 */
#include "common/base/time.h"
#include "common/http/http_priv.h"

#include <stdio.h>
#include <string.h>

static const rs_dur back_every_ns = 2 * (rs_dur)RS_NS_PER_S; /* as Retry-After says */
enum { WRONG_FREE = 20 };

/* Room for the host of "HOST:PORT" and "[HOST]:PORT". */
static void host_of(const char *from, char host[HTTP_WRONG_HOST_BYTES])
{
    const char *colon = strrchr(from, ':');
    const size_t length = colon ? (size_t)(colon - from) : strlen(from);
    (void)snprintf(host, HTTP_WRONG_HOST_BYTES, "%.*s", (int)length, from);
}

/* The address's place, or the one that is given up for it. */
static struct http_wrong *place_of(struct rs_http *http, const char *host)
{
    struct http_wrong *oldest = &http->wrongs[0];
    for (size_t i = 0; i < HTTP_WRONG_HOSTS; i++) {
        struct http_wrong *wrong = &http->wrongs[i];
        if (strcmp(wrong->host, host) == 0)
            return wrong;
        if (wrong->at < oldest->at)
            oldest = wrong;
    }
    *oldest = (struct http_wrong){.at = 0};
    (void)snprintf(oldest->host, sizeof oldest->host, "%s", host);
    return oldest;
}

bool http_wrong_token(struct rs_http *http, const char *from, rs_ns now)
{
    char host[HTTP_WRONG_HOST_BYTES];
    host_of(from, host);
    (void)pthread_mutex_lock(&http->wrong_lock);
    struct http_wrong *wrong = place_of(http, host);
    const int64_t back = wrong->at ? (now - wrong->at) / back_every_ns : 0;
    wrong->count = back < wrong->count ? wrong->count - back : 0;
    /* What is left of the time counts for the next one. */
    wrong->at = wrong->count && wrong->at ? wrong->at + back * back_every_ns : now;
    const bool is_too_many = wrong->count >= WRONG_FREE;
    wrong->count += !is_too_many;
    (void)pthread_mutex_unlock(&http->wrong_lock);
    return is_too_many;
}
