/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there one link that moves its messages much more slowly than links of its kind move theirs?
 *
 * Definition. A message's time is its sending side, the receiver's lateness taken out (links.c); where a receiver
 * came in the middle that is a lower bound, and the message is left out. Links are of one kind when they have
 * the same transport and carry messages of like size (one power of four) for the same type of operation: how
 * a program sends makes a difference of its own (hops of a ring 11 GB/s, sends 5 GB/s, measured). A link is judged by what the
 * fastest tenth of its messages reaches: a busy machine holds up most messages of a link at times, a
 * slow link is slow always. Its reference is the median of the other links' same figure.
 *
 * Thresholds, all of which must hold:
 *   - at least 3 links of the kind, 3 steps, 4 messages of at least 16 KiB
 *   - the fastest tenth reaches less than half of the reference, and so do 3 of 4 of all its messages in
 *     4 of 5 steps
 *   - its rate is a plateau: the fastest tenth is at most 4 times its own median. Measured, 8 ranks on 2 cores
 *     with others on them, TCP on loopback: a link limited to 200 MB/s has 79 to 187 (median) and 185 to 201
 *     (fastest tenth); free links have 110 to 5000 and 3000 to 9000
 *   - it costs 2 % of a step, or 0.3 % when its fastest tenth stays below a quarter of the reference:
 *     messages x bytes x (1 / its median - 1 / reference). The median, because single messages on a busy
 *     machine are held up for tens of ms. On loopback a factor of two between free links is the processor's cache
 *     (6 against 13 GB/s, measured, at 0.4 % of a step): that small a difference must cost more to be named
 *
 * One finding per link: its kinds of messages and its two directions are evidence of the same wire. The direction named
 * is the slow one, from the lower rank when both are; the cost is the dearer direction's, all its kinds together, since
 * both may be busy at the same time.
 *
 * False alarms accepted: links that are slower by design but of the same transport (another switch), where
 * the files do not say so. Not seen: a slow network that slows all links alike.
 */
#include "aggregator/analysis/findings_priv.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MIN = 4, LINKS_MIN = 3, BYTES_MIN = 16384 };

/* One link's messages of one size. */
struct candidate {
    int32_t src, dst;
    uint32_t size_class;
    uint8_t op_type;
    const char *transport;
    size_t first, count; /* into the sorted messages */
    double fast, median; /* bytes per second */
    double reference;
    size_t slow_steps, steps;
    rs_dur cost; /* per step */
    bool is_out; /* stands out */
};

struct sheet {
    struct link_message *messages; /* sorted copy: timed ones within the steps that count */
    size_t message_count;
    struct candidate *items;
    size_t count, capacity;
    double *scratch;
};

static uint32_t size_class_of(int64_t bytes)
{
    uint32_t class = 0;
    for (; bytes >= 4; bytes /= 4) {
        class ++;
    }
    return class;
}

static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_kind(const struct link_message *a, const struct link_message *b)
{
    int order = strcmp(a->transport, b->transport);
    order = order != 0 ? order : compare_i64(a->op_type, b->op_type);
    return order != 0 ? order : compare_i64(size_class_of(a->bytes), size_class_of(b->bytes));
}

static int compare_messages(const void *left, const void *right)
{
    const struct link_message *a = left, *b = right;
    int order = compare_kind(a, b);
    order = order != 0 ? order : compare_i64(a->src, b->src);
    order = order != 0 ? order : compare_i64(a->dst, b->dst);
    return order != 0 ? order : compare_i64(a->step, b->step);
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double rate_of(const struct link_message *message)
{
    return (double)message->bytes * 1e9 / (double)message->sending_ns;
}

static enum rs_status copy_messages(const struct figures *fg, const struct link_messages *from,
                                    struct sheet *sheet)
{
    sheet->messages = rs_mem_calloc(from->count + 1, sizeof *sheet->messages);
    sheet->scratch = rs_mem_calloc(from->count + 1, sizeof *sheet->scratch);
    if (sheet->messages == NULL || sheet->scratch == NULL) {
        return RS_NOMEM;
    }
    for (size_t i = 0; i < from->count; i++) {
        const struct link_message *message = &from->items[i];
        if (message->sending_ns > 0 && !message->is_lower_bound && message->bytes >= BYTES_MIN &&
            figures_step(fg, message->step) != SIZE_MAX) {
            sheet->messages[sheet->message_count++] = *message;
        }
    }
    if (sheet->message_count > 0) {
        qsort(sheet->messages, sheet->message_count, sizeof *sheet->messages, compare_messages);
    }
    return RS_OK;
}

static enum rs_status cut_candidates(struct sheet *sheet)
{
    for (size_t begin = 0; begin < sheet->message_count;) {
        const struct link_message *first = &sheet->messages[begin];
        size_t end = begin;
        while (end < sheet->message_count && compare_kind(first, &sheet->messages[end]) == 0 &&
               sheet->messages[end].src == first->src && sheet->messages[end].dst == first->dst) {
            sheet->scratch[end - begin] = rate_of(&sheet->messages[end]);
            end++;
        }
        if (end - begin >= MESSAGES_MIN) {
            if (rs_mem_grow((void **)&sheet->items, &sheet->capacity, sheet->count + 1,
                            sizeof *sheet->items) != RS_OK) {
                return RS_NOMEM;
            }
            qsort(sheet->scratch, end - begin, sizeof *sheet->scratch, compare_doubles);
            sheet->items[sheet->count++] = (struct candidate){
                .src = first->src,
                .dst = first->dst,
                .size_class = size_class_of(first->bytes),
                .op_type = first->op_type,
                .transport = first->transport,
                .first = begin,
                .count = end - begin,
                .fast = sheet->scratch[(end - begin) * 9 / 10],
                .median = sheet->scratch[(end - begin) / 2],
            };
        }
        begin = end;
    }
    return RS_OK;
}

static bool same_kind(const struct candidate *a, const struct candidate *b)
{
    return a->size_class == b->size_class && a->op_type == b->op_type &&
           strcmp(a->transport, b->transport) == 0;
}

/* Steps in which 3 of 4 messages stay below half of the reference, and the mean cost. */
static void measure(const struct figures *fg, const struct sheet *sheet,
                    struct candidate *candidate)
{
    double bytes = 0;
    for (size_t i = candidate->first; i < candidate->first + candidate->count;) {
        const int64_t step = sheet->messages[i].step;
        size_t slow = 0, total = 0;
        for (; i < candidate->first + candidate->count && sheet->messages[i].step == step; i++) {
            slow += rate_of(&sheet->messages[i]) * 2 < candidate->reference;
            bytes += (double)sheet->messages[i].bytes;
            total++;
        }
        candidate->steps++;
        candidate->slow_steps += slow * 4 >= total * 3;
    }
    const double lost = bytes * 1e9 * (1 / candidate->median - 1 / candidate->reference);
    candidate->cost = lost > 0 ? (rs_dur)(lost / (double)fg->step_count) : 0;
}

/* items[begin, end) are links of one kind: each one's reference is the median of the others. */
static void compare_links(const struct figures *fg, struct sheet *sheet, size_t begin, size_t end)
{
    const size_t count = end - begin;
    for (size_t i = begin; i < end; i++) {
        sheet->scratch[i - begin] = sheet->items[i].fast;
    }
    qsort(sheet->scratch, count, sizeof *sheet->scratch, compare_doubles);
    for (size_t i = begin; i < end && count >= LINKS_MIN; i++) {
        /* Without item i, the lower middle of the rest: its place moves when i stands at or before it. */
        const size_t middle = (count - 2) / 2;
        const bool is_below = sheet->items[i].fast <= sheet->scratch[middle];
        sheet->items[i].reference = sheet->scratch[is_below ? middle + 1 : middle];
        measure(fg, sheet, &sheet->items[i]);
    }
}

/* A small difference must cost more than a large one to be worth a name. */
static bool is_dear(const struct figures *fg, const struct candidate *candidate)
{
    const rs_dur per_mille = candidate->fast * 4 < candidate->reference ? 3 : 20;
    return candidate->cost * 1000 >= fg->mean_step * per_mille;
}

static bool stands_out(const struct figures *fg, const struct candidate *candidate)
{
    return candidate->reference > 0 && candidate->fast * 2 < candidate->reference &&
           candidate->fast <= candidate->median * 4 && candidate->steps >= STEPS_FOR_A_HABIT &&
           candidate->slow_steps * 5 >= candidate->steps * 4 && is_dear(fg, candidate);
}

static bool same_link(const struct candidate *a, const struct candidate *b)
{
    return (a->src == b->src && a->dst == b->dst) || (a->src == b->dst && a->dst == b->src);
}

static enum rs_status say_kind(const struct sheet *sheet, const struct candidate *candidate,
                               struct rs_finding *finding)
{
    size_t links = 0;
    for (size_t k = 0; k < sheet->count; k++) {
        links += same_kind(candidate, &sheet->items[k]);
    }
    return verdict_say(
        finding,
        "Link %d -> %d: the fastest tenth of its %zu messages reaches %.0f MB/s, the "
        "median %.0f MB/s; of the %zu other links that carry messages of this size, the "
        "median one reaches %.0f MB/s.",
        (int)candidate->src, (int)candidate->dst, candidate->count, candidate->fast / 1e6,
        candidate->median / 1e6, links - 1, candidate->reference / 1e6);
}

/* What the link of `first` is blamed for: all its kinds that stand out, the dearest one first. */
static enum rs_status name(const struct figures *fg, const struct sheet *sheet,
                           const struct candidate *first, struct verdicts *verdicts)
{
    const struct candidate *end = sheet->items + sheet->count, *dearest = first;
    rs_dur there = 0, back = 0; /* as `first` goes, and against it */
    struct rs_finding *finding;
    enum rs_status status = verdict_add(verdicts, RS_FINDING_SLOW_LINK, &finding);
    if (status != RS_OK) {
        return status;
    }
    for (const struct candidate *other = first; other < end; other++) {
        if (!other->is_out || !same_link(first, other)) {
            continue;
        }
        *(other->src == first->src ? &there : &back) += other->cost;
        dearest = other->cost > dearest->cost ? other : dearest;
    }
    const bool is_both = there > 0 && back > 0;
    const bool is_turned = is_both ? first->src > first->dst : false;
    finding->where = RS_WHERE_LINK;
    finding->src = is_turned ? first->dst : first->src;
    finding->dst = is_turned ? first->src : first->dst;
    finding->cost_ns_per_step = there > back ? there : back;
    finding->share =
        fg->mean_step > 0 ? (double)finding->cost_ns_per_step / (double)fg->mean_step : 0;
    status = say_kind(sheet, dearest, finding);
    if (status == RS_OK) {
        status = verdict_say(finding,
                             "So in %zu of %zu steps; waiting for a late receiver is taken out.",
                             dearest->slow_steps, dearest->steps);
    }
    if (status == RS_OK && is_both) {
        status = verdict_say(finding, "Slow in both directions; the cost is the dearer one's.");
    }
    for (const struct candidate *other = first; other < end && status == RS_OK; other++) {
        if (other != dearest && other->is_out && same_link(first, other)) {
            status = say_kind(sheet, other, finding);
        }
    }
    return status;
}

/* Has an earlier one of its link been named? */
static bool is_named(const struct sheet *sheet, const struct candidate *candidate)
{
    for (const struct candidate *other = sheet->items; other < candidate; other++) {
        if (other->is_out && same_link(other, candidate)) {
            return true;
        }
    }
    return false;
}

static void say_not(const struct candidate *slowest, struct verdicts *verdicts)
{
    rs_buf_printf(
        &verdicts->reasons,
        " Slowest link among its kind: %d -> %d, the fastest tenth of its messages reaches %.0f "
        "MB/s where other links reach %.0f MB/s.",
        (int)slowest->src, (int)slowest->dst, slowest->fast / 1e6, slowest->reference / 1e6);
}

static enum rs_status judge(const struct figures *fg, struct sheet *sheet,
                            struct verdicts *verdicts)
{
    const struct candidate *slowest = NULL;
    for (size_t i = 0; i < sheet->count; i++) {
        struct candidate *candidate = &sheet->items[i];
        candidate->is_out = stands_out(fg, candidate);
        if (candidate->reference > 0 &&
            (slowest == NULL ||
             candidate->fast / candidate->reference < slowest->fast / slowest->reference)) {
            slowest = candidate;
        }
    }
    for (size_t i = 0; i < sheet->count; i++) {
        const struct candidate *candidate = &sheet->items[i];
        if (candidate->is_out && !is_named(sheet, candidate)) {
            const enum rs_status status = name(fg, sheet, candidate, verdicts);
            if (status != RS_OK) {
                return status;
            }
        }
    }
    if (slowest != NULL) {
        say_not(slowest, verdicts);
    }
    return RS_OK;
}

enum rs_status slow_link_ask(const struct figures *fg, const struct link_messages *messages,
                             struct verdicts *verdicts)
{
    struct sheet sheet = {0};
    enum rs_status status = copy_messages(fg, messages, &sheet);
    if (status == RS_OK) {
        status = cut_candidates(&sheet);
    }
    for (size_t begin = 0; begin < sheet.count && status == RS_OK;) {
        size_t end = begin + 1;
        while (end < sheet.count && same_kind(&sheet.items[begin], &sheet.items[end])) {
            end++;
        }
        compare_links(fg, &sheet, begin, end);
        begin = end;
    }
    if (status == RS_OK) {
        status = judge(fg, &sheet, verdicts);
    }
    rs_mem_free(sheet.messages);
    rs_mem_free(sheet.items);
    rs_mem_free(sheet.scratch);
    return status;
}
