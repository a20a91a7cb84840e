/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Webhooks: what happened is told to other services, over HTTP, by a thread of its own.
 *
 *     rs_notify_put() --bounded queue--> rs-notify: POST to each URL; again after 1, 2, 4, ... s, six times in all
 *
 * A generic webhook gets the event as JSON, signed when there is a secret:
 *
 *     X-Rankscope-Event: culprit_found
 *     X-Rankscope-Timestamp: 1795454820
 *     X-Rankscope-Signature: sha256=HEX      HMAC-SHA256 of "TIMESTAMP.BODY" with the secret
 *
 * One for Slack (and for what speaks as it does) gets {"text": "..."}. An answer of 2xx is the end; of 4xx too, but for 408 and
 * 429, since the same would be refused again. What the queue cannot hold and what was tried in vain is counted and logged; nothing
 * ever waits for it.
 */
#ifndef RS_NOTIFY_H
#define RS_NOTIFY_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stddef.h>
#include <stdint.h>

struct rs_notify;

struct rs_notify_options {
    const char *const *urls; /* generic; http:// or https:// */
    size_t url_count;
    const char *const *slack_urls;
    size_t slack_count;
    const char *secret_file; /* its first line signs generic events; NULL: they are not signed */
    rs_dur retry_ns;         /* before the second try; doubled each time; 0: 1 s */
};

/* Copies. With no URL *notify_p is NULL, which all others allow. RS_INVALID: a URL, or the secret. RS_NOTFOUND, RS_IO: the file. */
RS_MUST_CHECK enum rs_status rs_notify_start(const struct rs_notify_options *options,
                                             struct rs_notify **notify_p, struct rs_err *err);

/* Lent for the call. */
struct rs_notify_event {
    const char *event; /* "culprit_found", "capture_failed", "regression", "rank_missing" */
    const char *run, *capture, *state; /* "": none, null in the event */
    const char *text;                  /* one sentence for people */
    rs_ns at;                          /* Unix epoch */
};
/* Any thread. */
void rs_notify_put(struct rs_notify *notify, const struct rs_notify_event *event);

/* Tries what waits once more, and begins nothing after 5 s; the rest is counted as lost. */
void rs_notify_stop(struct rs_notify **notify_p);

#endif
