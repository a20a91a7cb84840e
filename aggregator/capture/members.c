/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture's ranks: found in order, counted by state while they move; and what is said when it is closed.
 */
#include "aggregator/capture/coord_priv.h"
#include "aggregator/capture/plan.h"
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define RS_LOG_TAG "capture"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rs_coord_capture *capture_new(void)
{
    return rs_mem_calloc(1, sizeof(struct rs_coord_capture));
}

void rs_coord_capture_fini(struct rs_coord_capture *capture)
{
    rs_mem_free(capture->ranks);
    rs_mem_free(capture->order);
    if (capture->request)
        rs_request_fini(capture->request);
    rs_mem_free(capture->request);
    capture->ranks = NULL;
    capture->order = NULL;
    capture->request = NULL;
    capture->rank_count = capture->rank_capacity = capture->order_capacity = 0;
}

void capture_free(struct rs_coord_capture *capture)
{
    if (capture)
        rs_coord_capture_fini(capture);
    rs_mem_free(capture);
}

enum rs_status capture_add(struct rs_coord *coord, struct rs_coord_capture *capture)
{
    const enum rs_status status =
        rs_mem_grow((void **)&coord->captures, &coord->capture_capacity, coord->capture_count + 1,
                    sizeof(struct rs_coord_capture *));
    if (status == RS_OK)
        coord->captures[coord->capture_count++] = capture;
    return status;
}

/* ---- ranks ------------------------------------------------------------------------------------------ */

/* The first place in `order` whose rank is not below `rank`. */
static size_t lower_bound(const struct rs_coord_capture *capture, uint32_t rank)
{
    size_t low = 0;
    size_t high = capture->rank_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (capture->ranks[capture->order[middle]].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct rs_coord_rank *member_find(const struct rs_coord_capture *capture, uint32_t rank,
                                  const char *incarnation)
{
    for (size_t at = lower_bound(capture, rank); at < capture->rank_count; at++) {
        struct rs_coord_rank *item = &capture->ranks[capture->order[at]];
        if (item->rank != rank)
            return NULL;
        if (!incarnation || strcmp(item->incarnation, incarnation) == 0)
            return item;
    }
    return NULL;
}

struct rs_coord_rank *member_find_open(const struct rs_coord_capture *capture, uint32_t rank)
{
    for (size_t at = lower_bound(capture, rank); at < capture->rank_count; at++) {
        struct rs_coord_rank *item = &capture->ranks[capture->order[at]];
        if (item->rank != rank)
            return NULL;
        if (!rs_progress_is_final(item->state))
            return item;
    }
    return NULL;
}

enum rs_status member_add(struct rs_coord_capture *capture, const struct rs_coord_rank *rank,
                          rs_ns now, struct rs_coord_rank **rank_p)
{
    if (capture->rank_count >= UINT32_MAX / 2 ||
        rs_mem_grow((void **)&capture->ranks, &capture->rank_capacity, capture->rank_count + 1,
                    sizeof *capture->ranks) < 0 ||
        rs_mem_grow((void **)&capture->order, &capture->order_capacity, capture->rank_count + 1,
                    sizeof *capture->order) < 0)
        return RS_NOMEM;
    /* Behind those of the same number: incarnations stand in the order they came. */
    size_t at = lower_bound(capture, rank->rank);
    while (at < capture->rank_count && capture->ranks[capture->order[at]].rank == rank->rank)
        at++;
    memmove(&capture->order[at + 1], &capture->order[at],
            (capture->rank_count - at) * sizeof *capture->order);
    capture->order[at] = (uint32_t)capture->rank_count;
    struct rs_coord_rank *item = &capture->ranks[capture->rank_count++];
    *item = *rank;
    item->moved_at = now;
    item->is_changed = true;
    item->seen_generation = 0; /* it may be a copy of another coordinator's */
    capture->counts[item->state]++;
    *rank_p = item;
    return RS_OK;
}

/* A collector's words end on somebody's terminal: they must not steer it. */
static void set_text(struct rs_coord_rank *rank, const char *text)
{
    (void)snprintf(rank->text, sizeof rank->text, "%s", text);
    rs_utf8_plain(rank->text);
}

static void log_more(struct rs_coord_capture *capture)
{
    if (capture->logged_more)
        rs_log_info("capture %s: and so are %zu more ranks", capture->id, capture->logged_more);
    capture->logged_more = 0;
}

/* Ranks of which the same is to be said one after the other are one line, and how many more there are. */
static void log_end(struct rs_coord_capture *capture, const struct rs_coord_rank *rank)
{
    char said[sizeof rank->text + 16];
    (void)snprintf(said, sizeof said, "%d %s", (int)rank->state, rank->text);
    const uint32_t digest = rs_crc32c(0, said, strlen(said)) | 1;
    if (digest == capture->logged) {
        capture->logged_more++;
        return;
    }
    log_more(capture);
    capture->logged = digest;
    rs_log_info("capture %s: rank %u is %s%s%s", capture->id, rank->rank,
                rs_progress_word(rank->state, rank->text), *rank->text ? ": " : "", rank->text);
}

void member_move(struct rs_coord_capture *capture, struct rs_coord_rank *rank,
                 enum rs_progress_state state, const char *text, rs_ns now)
{
    const bool is_new = rank->state != state;
    capture->counts[rank->state]--;
    capture->counts[state]++;
    rank->state = state;
    if (text != rank->text)
        set_text(rank, text);
    rank->moved_at = now;
    rank->is_changed = true;
    capture->moved_at = now;
    capture->is_changed = true;
    if (*capture->id && is_new && rs_progress_is_final(state) && state != RS_PROGRESS_DONE)
        log_end(capture, rank);
}

static void clock_text(rs_ns realtime, char *text, size_t bytes)
{
    const time_t seconds = (time_t)(realtime / RS_NS_PER_S);
    struct tm parts;
    if (!gmtime_r(&seconds, &parts) || !strftime(text, bytes, "%H:%M:%SZ", &parts))
        (void)snprintf(text, bytes, "-");
}

bool member_is_unreachable(const struct rs_coord_rank *rank)
{
    return strncmp(rank->text, RS_UNREACHABLE_TEXT, sizeof RS_UNREACHABLE_TEXT - 1) == 0;
}

bool member_set_unreachable(struct rs_coord_capture *capture, struct rs_coord_rank *rank,
                            bool is_unreachable, rs_ns since_realtime, rs_ns until_realtime)
{
    char since[16];
    char until[16];
    if (member_is_unreachable(rank) == is_unreachable)
        return false;
    if (is_unreachable) {
        clock_text(since_realtime, since, sizeof since);
        clock_text(until_realtime, until, sizeof until);
        (void)snprintf(rank->text, sizeof rank->text,
                       RS_UNREACHABLE_TEXT " %s; it is waited for until %s, or stop the capture",
                       since, until);
    } else {
        rank->text[0] = '\0';
    }
    rank->is_changed = true;
    capture->is_changed = true;
    return true;
}

size_t members_final(const struct rs_coord_capture *capture)
{
    size_t count = 0;
    for (int state = RS_PROGRESS_DONE; state < RS_PROGRESS_COUNT; state++)
        count += capture->counts[state];
    return count;
}

size_t members_distinct(const struct rs_coord_capture *capture)
{
    size_t count = 0;
    for (size_t i = 0; i < capture->rank_count; i++)
        count += i == 0 || capture->ranks[capture->order[i - 1]].rank !=
                               capture->ranks[capture->order[i]].rank;
    return count;
}

bool member_lacks_steps(const struct rs_coord_capture *capture, const struct rs_coord_rank *rank)
{
    return adapter_can(&rank->adapter, RS_CAP_KNOWS_STEP) && rank->steps_done > 0 &&
           rank->steps_done < capture->steps;
}

/* Its raw data is on the way; that what it recorded is too little is known. Steps of a rank that sends parts of them are counted
 * when its last part is there, which may be a moment before its own word of how many there were. */
static bool is_short_already(const struct rs_coord_capture *capture,
                             const struct rs_coord_rank *rank)
{
    if (!rank->is_summarised || rs_progress_is_final(rank->state))
        return false;
    const bool has_parts = adapter_can(&rank->adapter, RS_CAP_STEP_PARTS);
    return rank->is_summary_short || (!has_parts && member_lacks_steps(capture, rank));
}

/* `word`: of rs_progress_word(); NULL: those of whom findings know already that they recorded less than was asked. The first of
 * them; NULL: none. */
static const struct rs_coord_rank *name_members(const struct rs_coord_capture *capture,
                                                const char *word, char *text, size_t bytes)
{
    enum { NAMED_MAX = 12 };
    size_t used = 0;
    size_t count = 0;
    size_t all = 0;
    int64_t last = -1;
    const struct rs_coord_rank *first = NULL;
    text[0] = '\0';
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[capture->order[i]];
        const bool is_one = word ? strcmp(rs_progress_word(rank->state, rank->text), word) == 0
                                 : is_short_already(capture, rank);
        all += is_one;
        first = is_one && !first ? rank : first;
        if (!is_one || (int64_t)rank->rank == last || count >= NAMED_MAX || used >= bytes)
            continue;
        last = rank->rank;
        count++;
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? ", " : "", rank->rank);
    }
    if (all > count && used < bytes)
        (void)snprintf(text + used, bytes - used, " and %zu more", all - count);
    return first;
}

/* ---- sources ------------------------------------------------------------------------------------------ */

bool rs_coord_can(const struct rs_coord_capture *capture, enum rs_capability capability)
{
    return (capture->capabilities & capability) != 0;
}

void capture_add_adapter(struct rs_coord_capture *capture, const struct rs_adapter *adapter)
{
    capture->capabilities |= adapter->capabilities;
    rs_adapter_add_name(adapter->name, capture->adapters, sizeof capture->adapters);
}

void rs_coord_source(const struct rs_coord_capture *capture, char text[RS_COORD_SOURCE_BYTES])
{
    (void)snprintf(text, RS_COORD_SOURCE_BYTES, "%s",
                   capture->is_files ? "files" : capture->adapters);
}

void rs_coord_set_source(struct rs_coord_capture *capture, const char *source)
{
    capture->is_files = strcmp(source, "files") == 0;
    (void)snprintf(capture->adapters, sizeof capture->adapters, "%s",
                   capture->is_files ? "" : source);
    capture->capabilities = rs_adapter_capabilities_of(capture->adapters);
}

/* ---- writing down, closing ------------------------------------------------------------------------------ */

void capture_save(struct rs_coord *coord, struct rs_coord_capture *capture)
{
    if (!capture->is_changed || capture->is_closing) /* nothing is written behind its close */
        return;
    const bool must = capture->closed_ns != 0;
    if (!coord->options.ops->save(coord->options.self, capture, must))
        return;
    capture->is_changed = false;
    for (size_t i = 0; i < capture->rank_count; i++)
        capture->ranks[i].is_changed = false;
}

/* A sentence that goes on. */
static void append(struct rs_coord_capture *capture, const char *format, ...) RS_PRINTF(2, 3);

static void append(struct rs_coord_capture *capture, const char *format, ...)
{
    const size_t used = strlen(capture->reason);
    const size_t room = sizeof capture->reason - used;
    const int comma = used ? snprintf(capture->reason + used, room, "; ") : 0;
    va_list arguments;
    if (comma < 0 || (size_t)comma >= room)
        return;
    va_start(arguments, format);
    (void)vsnprintf(capture->reason + used + comma, room - (size_t)comma, format, arguments);
    va_end(arguments);
}

static void explain_strays(struct rs_coord_capture *capture)
{
    char strays[200];
    if (rs_coord_can(capture, RS_CAP_STEP_ROUNDUP) &&
        rs_coord_strays(capture, strays, sizeof strays))
        append(capture,
               "not the same time: %s than the others; a larger --roundup than %u brings them "
               "together",
               strays, capture->profile.roundup);
}

static void explain(struct rs_coord_capture *capture)
{
    static const char *const bad[] = {"lost", "stored raw", "refused", "partial"};
    char names[160];
    capture->reason[0] = '\0';
    if (*capture->remark)
        append(capture, "%.400s", capture->remark);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (name_members(capture, bad[i], names, sizeof names))
            append(capture, "%s: rank %s", bad[i], names);
    }
    /* What that one had is not here; where all of it came again, it does not matter. */
    if (*capture->taken_from && *capture->reason)
        append(capture, "taken over from %.300s", capture->taken_from);
    explain_strays(capture);
    const size_t distinct = members_distinct(capture);
    if (capture->is_files && distinct < capture->world)
        append(capture, "%zu of %u ranks came", distinct, capture->world);
    if (!distinct && !*capture->reason) /* a folder whose row could not be written */
        append(capture, "nothing of it is stored: the disk failed when it began");
}

/* A rank that was given up may still be armed: nobody waits for what it would record, and its next capture does. */
static void call_back_lost(struct rs_coord *coord, struct rs_coord_capture *capture)
{
    if (!capture->is_files && rs_coord_can(capture, RS_CAP_CANCEL_AFTER_DELIVERY))
        messages_cancel(coord, capture, 1u << RS_PROGRESS_LOST, "it was given up");
}

/* A rank, and what was told of it last. */
struct clocked {
    const struct rs_coord_seen *seen;
    struct rs_coord_rank *rank;
};

static int by_host(const void *a_, const void *b_)
{
    const struct clocked *a = a_, *b = b_;
    const int nodes = strcmp(a->seen->node, b->seen->node);
    return nodes ? nodes : strcmp(a->seen->host, b->seen->host);
}

/* Ranks of one host have one clock. Each was measured when it was told of last, and between two such measurements the figure moves by what a
 * message is under way longer: the newest counts for all, or two of one host would be apart by that. */
static void take_clock_of(struct clocked *ranks, size_t count)
{
    const struct rs_coord_seen *newest = NULL;
    for (size_t i = 0; i < count; i++)
        if (ranks[i].seen->clock_bound_ns &&
            (!newest || ranks[i].seen->last_seen_ns > newest->last_seen_ns))
            newest = ranks[i].seen;
    for (size_t i = 0; newest && i < count; i++)
        ranks[i].rank->clock_offset_ns = newest->clock_offset_ns;
}

/* A clock that was not measured is taken as it is. */
static void take_clocks(const struct rs_coord *coord, struct rs_coord_capture *capture)
{
    struct clocked *ranks = rs_mem_calloc(capture->rank_count + 1, sizeof *ranks);
    size_t count = 0;
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        const struct rs_coord_seen *seen = seen_of(coord, capture, rank);
        rank->clock_offset_ns = seen && seen->clock_bound_ns ? seen->clock_offset_ns : 0;
        if (ranks && seen)
            ranks[count++] = (struct clocked){.seen = seen, .rank = rank};
    }
    if (count > 1)
        qsort(ranks, count, sizeof *ranks, by_host);
    for (size_t i = 0, end = 0; i < count; i = end) {
        for (end = i + 1; end < count && by_host(&ranks[i], &ranks[end]) == 0;)
            end++;
        take_clock_of(ranks + i, end - i);
    }
    rs_mem_free(ranks);
}

void capture_see_short(const struct rs_coord *coord, struct rs_coord_capture *capture)
{
    char names[160];
    take_clocks(coord, capture);
    capture->reason[0] = '\0';
    const struct rs_coord_rank *first = name_members(capture, NULL, names, sizeof names);
    if (first && *first->text)
        append(capture, "less than was asked: rank %s (%.300s)", names, first->text);
    else if (first && first->steps_done && first->steps_done < capture->steps)
        append(capture, "less than was asked: rank %s (it recorded %lld of %u steps)", names,
               (long long)first->steps_done, capture->steps);
    else if (first)
        append(capture, "less than was asked: rank %s", names);
    explain_strays(capture);
}

void capture_close(struct rs_coord *coord, struct rs_coord_capture *capture)
{
    const size_t done = capture->counts[RS_PROGRESS_DONE];
    const bool has_begun = capture->state != RS_CAPTURE_QUEUED;
    const struct rs_coord_ops *ops = coord->options.ops;
    capture->is_joining = ops->may_close && !ops->may_close(coord->options.self, capture);
    if (capture->is_joining)
        return;
    const enum rs_capture_state before = capture->state;
    take_clocks(coord, capture);
    if (capture->is_stopped && !capture->was_stopped && done == capture->rank_count)
        capture->remark[0] = '\0'; /* they were done before they heard of it */
    explain(capture);
    if (done + capture->counts[RS_PROGRESS_PARTIAL] == 0)
        capture->state = RS_CAPTURE_FAILED;
    else if (done < capture->rank_count && capture->was_stopped)
        capture->state = RS_CAPTURE_STOPPED;
    else if (done < capture->rank_count || *capture->reason)
        capture->state = RS_CAPTURE_PARTIAL;
    else
        capture->state = RS_CAPTURE_COMPLETE;
    capture->closed_ns = rs_time_realtime();
    capture->is_changed = true;
    log_more(capture);
    if (capture->state != before) /* else its row could not be written, and it is closed anew */
        rs_log_info("capture %s is %s%s%s", capture->id, rs_capture_state_text(capture->state),
                    *capture->reason ? ": " : "", capture->reason);
    capture_save(coord, capture);
    capture->is_closing = true;
    if (has_begun)
        call_back_lost(coord, capture);
    coord->options.ops->close(coord->options.self, capture);
}
