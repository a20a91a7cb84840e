/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/quota.h"

#include "aggregator/server/bounds.h"
#include "common/base/mem.h"

#include <string.h>

static const rs_dur minute_ns = 60 * (rs_dur)RS_NS_PER_S;
static const rs_dur half_life_ns = 250 * (rs_dur)RS_NS_PER_MS;
/* A disk that stands still for seconds is nobody's greed. */
static const rs_dur rest_max_ns = 50 * (rs_dur)RS_NS_PER_MS;

struct quota {
    struct quota *next;
    struct rs_identity who;
    struct quota_limits limits;
    bool is_shared; /* by all links of the identity; else this link's own */
    size_t links;
    rs_ns left_at; /* when its last link closed */
    uint32_t used[QUOTA_KIND_COUNT];
    rs_ns minute; /* when the counts of what is per minute began */
    size_t waiting_bytes;
    size_t peak_bytes,
        peak_before_bytes; /* the most that waited: in this second, in the one before */
    rs_ns peak_since;
    uint64_t recent_bytes; /* that came lately: half of them count after half_life_ns */
    rs_ns recent_at;
    rs_ns waiting_since; /* the oldest chunk under way was put, or the one before it was done */
    rs_ns rests_until;
    /* Bytes that may be taken now; it grows with time up to one second's, and goes below 0 by one chunk. */
    int64_t credit;
    rs_ns credited_at;
};

/* The one table. A node of thousands of ranks has one link and two streams a rank; a person has some windows open. */
static const struct quota_limits limits_of[RS_PARTY_COUNT] = {
    [RS_PARTY_GUEST] = {.most = {[QUOTA_LINKS] = 256}},
    [RS_PARTY_NODE] = {.most = {[QUOTA_LINKS] = 16,
                                [QUOTA_STREAMS] = BOUND_STREAMS,
                                [QUOTA_RANKS] = 16384,
                                [QUOTA_CAPTURES] = 600},
                       .bytes_per_s = UINT64_C(1) << 30},
    [RS_PARTY_USER] = {.most = {[QUOTA_LINKS] = 64,
                                [QUOTA_STREAMS] = 8192,
                                [QUOTA_RANKS] = 4096,
                                [QUOTA_CAPTURES] = 60},
                       .bytes_per_s = UINT64_C(256) << 20},
    [RS_PARTY_VIEWER] = {.most = {[QUOTA_LINKS] = 256,
                                  [QUOTA_STREAMS] = 8192,
                                  [QUOTA_RANKS] = 4096,
                                  [QUOTA_CAPTURES] = 60},
                         .bytes_per_s = UINT64_C(256) << 20},
    [RS_PARTY_OPERATOR] = {.most = {[QUOTA_LINKS] = 1024,
                                    [QUOTA_STREAMS] = 8192,
                                    [QUOTA_RANKS] = 4096,
                                    [QUOTA_CAPTURES] = 600},
                           .bytes_per_s = UINT64_C(256) << 20},
};

static const char *const kind_texts[QUOTA_KIND_COUNT] = {[QUOTA_LINKS] = "links at a time",
                                                         [QUOTA_STREAMS] = "streams at a time",
                                                         [QUOTA_RANKS] = "new ranks in a minute",
                                                         [QUOTA_CAPTURES] =
                                                             "new captures in a minute"};

static bool is_per_minute(enum quota_kind kind)
{
    return kind == QUOTA_RANKS || kind == QUOTA_CAPTURES;
}

static bool is_own(const struct rs_identity *who)
{
    return who->party != RS_PARTY_LOCAL && who->party != RS_PARTY_AGGREGATOR;
}

static void forget(struct quotas *quotas, struct quota *quota)
{
    struct quota **at = &quotas->first;
    while (*at != quota)
        at = &(*at)->next;
    *at = quota->next;
    if (quotas->last == quota)
        quotas->last = NULL;
    rs_mem_free(quota);
}

void quotas_fini(struct quotas *quotas)
{
    while (quotas->first)
        forget(quotas, quotas->first);
}

void quotas_sweep(struct quotas *quotas, rs_ns now)
{
    for (struct quota *quota = quotas->first, *next = NULL; quota; quota = next) {
        next = quota->next;
        if (!quota->links && !quota->waiting_bytes &&
            (!quota->is_shared || now - quota->left_at > minute_ns))
            forget(quotas, quota);
    }
}

static struct quota *find(const struct quotas *quotas, const struct rs_identity *who)
{
    struct quota *quota = quotas->first;
    while (quota && !(quota->is_shared && rs_identity_is_same(&quota->who, who)))
        quota = quota->next;
    return quota;
}

static bool is_within(const struct quota *quota, enum quota_kind kind)
{
    return !quota->limits.most[kind] || quota->used[kind] < quota->limits.most[kind];
}

static enum rs_status refuse(const struct quota *quota, enum quota_kind kind, struct rs_err *err)
{
    char who[RS_IDENTITY_TEXT_BYTES];
    rs_identity_text(&quota->who, who);
    return rs_err_set(err, RS_LIMIT, "%s has %u %s, the most that one may have", who,
                      quota->limits.most[kind], kind_texts[kind]);
}

enum rs_status quota_open(struct quotas *quotas, const struct rs_identity *who, rs_ns now,
                          struct quota **quota_p, struct rs_err *err)
{
    struct quota *quota = is_own(who) ? find(quotas, who) : NULL;
    if (!quota) {
        quota = rs_mem_calloc(1, sizeof *quota);
        if (!quota)
            return rs_err_set(err, RS_NOMEM, "no memory for an account");
        quota->who = *who;
        quota->is_shared = is_own(who);
        quota->limits =
            quota->is_shared ? limits_of[who->party] : (struct quota_limits){.bytes_per_s = 0};
        if (quota->is_shared && quotas->limits)
            quota->limits = *quotas->limits;
        quota->minute = quota->credited_at = now;
        quota->credit = (int64_t)quota->limits.bytes_per_s;
        quota->next = quotas->first;
        quotas->first = quota;
    }
    if (!is_within(quota, QUOTA_LINKS))
        return refuse(quota, QUOTA_LINKS, err);
    quota->links++;
    quota->used[QUOTA_LINKS]++;
    *quota_p = quota;
    return RS_OK;
}

void quota_close(struct quota *quota, rs_ns now)
{
    if (!quota)
        return;
    quota->links--;
    quota->used[QUOTA_LINKS]--;
    quota->left_at = now;
}

enum rs_status quota_take(struct quota *quota, enum quota_kind kind, rs_ns now, struct rs_err *err)
{
    if (now - quota->minute >= minute_ns) {
        quota->minute = now;
        for (int i = 0; i < QUOTA_KIND_COUNT; i++)
            if (is_per_minute((enum quota_kind)i))
                quota->used[i] = 0;
    }
    if (!is_within(quota, kind))
        return refuse(quota, kind, err);
    quota->used[kind]++;
    return RS_OK;
}

void quota_give(struct quota *quota, enum quota_kind kind)
{
    if (quota && quota->used[kind])
        quota->used[kind]--;
}

/* ---- bytes --------------------------------------------------------------------------------------------------------- */

static void credit(struct quota *quota, rs_ns now)
{
    const int64_t most = (int64_t)quota->limits.bytes_per_s;
    const rs_dur since = now - quota->credited_at;
    if (since >= RS_NS_PER_S)
        quota->credit = most;
    else if (since > 0)
        quota->credit += (int64_t)((double)most * (double)since / (double)RS_NS_PER_S);
    if (quota->credit > most)
        quota->credit = most;
    quota->credited_at = now;
}

/* What it had waiting lately. */
static size_t peak_of(const struct quota *quota, rs_ns now)
{
    const rs_dur age = now - quota->peak_since;
    if (age >= 2 * (rs_dur)RS_NS_PER_S)
        return quota->waiting_bytes;
    if (age >= RS_NS_PER_S || quota->peak_bytes > quota->peak_before_bytes)
        return quota->peak_bytes;
    return quota->peak_before_bytes;
}

static void note_peak(struct quota *quota, rs_ns now)
{
    const rs_dur age = now - quota->peak_since;
    if (age >= RS_NS_PER_S) {
        quota->peak_before_bytes = age < 2 * (rs_dur)RS_NS_PER_S ? quota->peak_bytes : 0;
        quota->peak_bytes = 0;
        quota->peak_since = now;
    }
    if (quota->waiting_bytes > quota->peak_bytes)
        quota->peak_bytes = quota->waiting_bytes;
}

/* While several send: as much as the one that wants most of the others has waiting, so that nobody waits behind much more than he
 * sends; two that send all they can grow up to the bound. */
static size_t share_of(const struct quotas *quotas, const struct quota *quota, rs_ns now)
{
    size_t most = 0;
    for (const struct quota *other = quotas->first; other && most < BOUND_SHARE_BYTES;
         other = other->next) {
        const size_t peak = other != quota ? peak_of(other, now) : 0;
        if (peak > most)
            most = peak;
    }
    return most < BOUND_SHARE_BYTES ? most : BOUND_SHARE_BYTES;
}

static uint64_t recent_of(const struct quota *quota, rs_ns now)
{
    const rs_dur age = now - quota->recent_at;
    const int64_t halvings = age > 0 ? age / half_life_ns : 0;
    return halvings < 64 ? quota->recent_bytes >> halvings : 0;
}

static void note_recent(struct quota *quota, size_t bytes, rs_ns now)
{
    const uint64_t left = recent_of(quota, now);
    if (left != quota->recent_bytes || !quota->recent_at)
        quota->recent_at = now;
    quota->recent_bytes = left + bytes;
}

/* A chunk of it kept the disk for so long: it leaves it to the others for half as long again, or less, the nearer it is to what they send. With
 * that a polite one waits less than twice as long as alone (tests/bench/bench_greedy.c; measured: rests as long as the chunk took gave 1.9 times). */
static void rest(const struct quotas *quotas, struct quota *quota, rs_dur took, rs_ns now)
{
    const uint64_t own = recent_of(quota, now);
    uint64_t most = 0;
    for (const struct quota *other = quotas->first; other; other = other->next) {
        const uint64_t recent = other != quota ? recent_of(other, now) : 0;
        most = recent > most ? recent : most;
    }
    if (own <= most || took <= 0)
        return;
    took = took < rest_max_ns ? took : rest_max_ns;
    quota->rests_until = now + (rs_dur)(1.5 * (double)took * (double)(own - most) / (double)own);
}

rs_ns quota_rests_until(const struct quotas *quotas, const struct quota *quota, rs_ns now)
{
    return now < quotas->shared_until && now < quota->rests_until ? quota->rests_until : 0;
}

void quota_put(struct quotas *quotas, struct quota *quota, size_t bytes, rs_ns now)
{
    if (!quota->waiting_bytes)
        quota->waiting_since = now;
    note_recent(quota, bytes, now);
    if (quotas->last && quotas->last != quota)
        quotas->shared_until = now + RS_NS_PER_S;
    quotas->last = quota;
    quota->waiting_bytes += bytes;
    note_peak(quota, now);
    if (!quota->limits.bytes_per_s)
        return;
    credit(quota, now);
    quota->credit -= (int64_t)bytes;
}

void quota_done(const struct quotas *quotas, struct quota *quota, size_t bytes, rs_ns now)
{
    if (!quota)
        return;
    quota->waiting_bytes -= bytes < quota->waiting_bytes ? bytes : quota->waiting_bytes;
    if (now < quotas->shared_until)
        rest(quotas, quota, now - quota->waiting_since, now);
    quota->waiting_since = now;
}

bool quota_may_read(const struct quotas *quotas, struct quota *quota, rs_ns now)
{
    if (quota_rests_until(quotas, quota, now))
        return false;
    /* While nobody else sends, the queue is all its own. */
    if (now < quotas->shared_until && quota->waiting_bytes > 0 &&
        quota->waiting_bytes >= share_of(quotas, quota, now))
        return false;
    if (!quota->limits.bytes_per_s)
        return true;
    credit(quota, now);
    return quota->credit > 0;
}
