/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank's own work between its communication: spans (summary.h, struct rs_span_row).
 *
 *   cuts      communication calls, host waits, bounds of steps, by host time, all threads together; calls that make a stream
 *             wait for another one, for what is launched behind them begins whenever that one has come so far (where a writer
 *             leaves these out: rows that begin right where communication of another stream ends); and between two
 *             of these the launches at which computing goes on on another stream: what runs there may be an operation that
 *             no name tells, and the stream that it came from may wait for it
 *   spans     device rows of one stream that were launched between the same two cuts
 *   order     one counter over calls, host waits and spans, by host time
 *
 * A stream runs in order of launch, so walking its rows by start (place.c sorted them) meets the spans one
 * after another: a row either belongs to the span that is open on its stream, or opens the next. The walk goes backwards, because
 * a row without a launch row takes that of the next one on its stream.
 *
 * Memory: 8 bytes a device row while this runs (24 while cuts are looked for), and the spans: one a stream between two cuts. A rank without a
 * device is the business of spans_host.c.
 */
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/reduce/reduce_priv.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- names inside a span ---- */

enum rs_status span_names_init(struct span_names *names, const struct rs_reduce *reduce)
{
    *names = (struct span_names){0};
    names->time = rs_mem_calloc(reduce->strings->count + 1, sizeof *names->time);
    return names->time ? RS_OK : RS_NOMEM;
}

void span_names_fini(struct span_names *names)
{
    rs_mem_free(names->time);
    rs_mem_free(names->touched);
}

/* A time of 0 is kept as 1, so that the name is known to be there. */
enum rs_status span_names_add(struct span_names *names, rs_str name, rs_dur length)
{
    if (!names->time[name]) {
        const enum rs_status status = rs_mem_grow((void **)&names->touched, &names->capacity,
                                                  names->count + 1, sizeof *names->touched);
        if (status != RS_OK)
            return status;
        names->touched[names->count++] = name;
    }
    names->time[name] = sum_clamped(names->time[name], length ? length : 1);
    return RS_OK;
}

static bool is_before(const struct rs_reduce *reduce, rs_str a, rs_str b)
{
    return b == RS_STR_NONE ||
           strcmp(rs_strtab_text(reduce->strings, a), rs_strtab_text(reduce->strings, b)) < 0;
}

void span_names_take(struct span_names *names, const struct rs_reduce *reduce,
                     struct rs_span_row *span)
{
    span->top_name = RS_STR_NONE;
    span->top_ns = 0;
    for (size_t i = 0; i < names->count; i++) {
        const rs_str name = names->touched[i];
        const rs_dur time = names->time[name];
        if (time > span->top_ns ||
            (time == span->top_ns && is_before(reduce, name, span->top_name))) {
            span->top_name = name;
            span->top_ns = time;
        }
        names->time[name] = 0;
    }
    names->count = 0;
}

/* ---- cuts ---- */

size_t span_cuts_at(const struct span_cuts *cuts, rs_ns instant)
{
    size_t low = 0, high = cuts->count; /* first cut behind the instant */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (cuts->items[middle].key <= instant)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Streams that take turns kernel by kernel are two programs side by side: no more changes, or waits, than this are looked at
 * between two other cuts, so that spans stay few. */
enum { CHANGES_MOST = 256 };

/* Launches of computing rows by time: each with its row. */
static enum rs_status launches_by_time(const struct rs_reduce *reduce, struct sort_item **items_p,
                                       size_t *count_p)
{
    struct sort_item *items = rs_mem_calloc(reduce->work.count + 1, sizeof *items);
    size_t count = 0;
    if (!items)
        return RS_NOMEM;
    for (size_t i = 0; i < reduce->work.count; i++) {
        const struct reduce_work *work = &reduce->work.items[i];
        const struct reduce_launch *launch = work_launch(reduce, work);
        if (work->work_class == RS_WORK_COMPUTING && launch)
            items[count++] = (struct sort_item){launch->start, i};
    }
    const enum rs_status status = sort_items(items, count);
    if (status != RS_OK) {
        rs_mem_free(items);
        return status;
    }
    *items_p = items;
    *count_p = count;
    return RS_OK;
}

/* Adds instants, ascending, to the cuts: CHANGES_MOST between two of those that are there. */
static enum rs_status add_cuts(struct span_cuts *cuts, const struct sort_item *added, size_t count)
{
    struct span_cuts all = {.items = rs_mem_calloc(cuts->count + count + 1, sizeof *all.items)};
    size_t next = 0;
    if (!all.items)
        return RS_NOMEM;
    for (size_t i = 0; i <= cuts->count; i++) {
        const size_t first = all.count;
        for (; next < count && (i == cuts->count || added[next].key < cuts->items[i].key); next++) {
            const bool is_new = !all.count || all.items[all.count - 1].key != added[next].key;
            if (is_new && all.count < first + CHANGES_MOST)
                all.items[all.count++].key = added[next].key;
        }
        if (i < cuts->count)
            all.items[all.count++].key = cuts->items[i].key;
    }
    rs_mem_free(cuts->items);
    *cuts = all;
    return RS_OK;
}

/* Where computing of a device goes on on another stream, between two of the cuts that are there. */
static enum rs_status cut_at_changes(const struct rs_reduce *reduce, struct span_cuts *cuts)
{
    struct sort_item *launches = NULL;
    uint32_t *lane = NULL; /* [slot] newest */
    size_t count = 0, next = 0, changes = 0;
    enum rs_status status = launches_by_time(reduce, &launches, &count);
    if (status == RS_OK) {
        lane = rs_mem_calloc(reduce->slot_count + 1, sizeof *lane);
        status = lane ? RS_OK : RS_NOMEM;
    }
    for (size_t i = 0; status == RS_OK && i <= cuts->count; i++) {
        for (size_t slot = 0; slot < reduce->slot_count; slot++)
            lane[slot] = REDUCE_NONE;
        for (; next < count && (i == cuts->count || launches[next].key < cuts->items[i].key);
             next++) {
            const struct reduce_work *work = &reduce->work.items[launches[next].value];
            const uint32_t before = lane[work->slot];
            lane[work->slot] = work->lane;
            if (before != REDUCE_NONE && before != work->lane)
                launches[changes++] = launches[next]; /* those before are not asked again */
        }
    }
    if (status == RS_OK)
        status = add_cuts(cuts, launches, changes);
    rs_mem_free(launches);
    rs_mem_free(lane);
    return status;
}

/* Where a stream is made to wait for another one. */
static enum rs_status cut_at_stream_waits(const struct rs_reduce *reduce, struct span_cuts *cuts)
{
    const size_t count = reduce->stream_waits.count;
    struct sort_item *waits = rs_mem_calloc(count + 1, sizeof *waits);
    enum rs_status status = waits ? RS_OK : RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < count; i++)
        waits[i].key = reduce->stream_waits.items[i];
    if (status == RS_OK)
        status = sort_items(waits, count);
    if (status == RS_OK && count)
        status = add_cuts(cuts, waits, count);
    rs_mem_free(waits);
    return status;
}

static enum rs_status build_cuts(const struct rs_reduce *reduce, struct span_cuts *cuts)
{
    const struct rs_summary *summary = reduce->summary;
    const size_t most = summary->op_count + reduce->waits.count + 2 * reduce->steps.count;
    *cuts = (struct span_cuts){.items = rs_mem_calloc(most + 1, sizeof *cuts->items)};
    if (!cuts->items)
        return RS_NOMEM;
    for (size_t i = 0; i < summary->op_count; i++)
        cuts->items[cuts->count++].key = summary->ops[i].call_start;
    for (size_t i = 0; i < reduce->waits.count; i++)
        cuts->items[cuts->count++].key = reduce->waits.items[i].start;
    for (size_t i = 0; reduce->step_origin != RS_STEPS_NONE && i < reduce->steps.count; i++) {
        cuts->items[cuts->count++].key = reduce->steps.items[i].host_start;
        cuts->items[cuts->count++].key = reduce->steps.items[i].host_end;
    }
    const enum rs_status status = sort_items(cuts->items, cuts->count);
    if (status != RS_OK)
        return status;
    size_t kept = 0;
    for (size_t i = 0; i < cuts->count; i++) {
        if (!kept || cuts->items[kept - 1].key != cuts->items[i].key)
            cuts->items[kept++].key = cuts->items[i].key;
    }
    cuts->count = kept;
    if (!reduce->has_device_work)
        return RS_OK;
    const enum rs_status waits = cut_at_stream_waits(reduce, cuts);
    return waits == RS_OK ? cut_at_changes(reduce, cuts) : waits;
}

/* ---- spans of devices ---- */

struct rs_span_row span_none(void)
{
    return (struct rs_span_row){.step = RS_STEP_NONE,
                                .device = -1,
                                .stream = -1,
                                .thread = -1,
                                .kind = RS_SPAN_COMPUTING,
                                .launch_first = RS_SPAN_NO_LAUNCH,
                                .launch_last = RS_SPAN_NO_LAUNCH,
                                .top_name = RS_STR_NONE};
}

enum rs_status span_push(struct rs_reduce *reduce, const struct rs_span_row *span)
{
    struct rs_summary *summary = reduce->summary;
    if (summary->span_count >= REDUCE_NONE - 1)
        return RS_LIMIT;
    const enum rs_status status = rs_mem_grow((void **)&summary->spans, &summary->span_capacity,
                                              summary->span_count + 1, sizeof *summary->spans);
    if (status == RS_OK)
        summary->spans[summary->span_count++] = *span;
    return status;
}

/* The walk of one device: what is open on each lane. */
struct lane_state {
    uint32_t span; /* index into summary->spans, or REDUCE_NONE */
    size_t between;
    rs_ns next_launch; /* of the row behind, on this lane */
};

struct device_walk {
    struct rs_reduce *reduce;
    const struct span_cuts *cuts;
    struct lane_state *lanes;
    uint32_t *span_of; /* [rows of the device], by place in `order` */
    uint8_t *begins;   /* [the same] a span begins here whatever the cuts say; NULL: nowhere */
    uint32_t *rows;    /* work rows by span */
    size_t *first;     /* [spans + 1] bounds in `rows` */
    rs_ns *keys;       /* by span: where it stands in the order */
    size_t key_capacity;
    struct span_names names;
};

/* What communication lets go begins within so much of its end. */
static const rs_dur let_go_ns = 50 * (rs_dur)RS_NS_PER_US;

static bool is_own(const struct reduce_work *work)
{
    return work->work_class == RS_WORK_COMPUTING || work->work_class == RS_WORK_MEMORY;
}

static enum rs_status open_span(struct device_walk *walk, const struct reduce_work *work,
                                struct lane_state *lane)
{
    struct rs_reduce *reduce = walk->reduce;
    struct rs_span_row span = span_none();
    const size_t at = reduce->summary->span_count;
    span.device = reduce->slots[work->slot];
    span.stream = reduce->lanes->items[work->lane].thread;
    span.kind = RS_SPAN_MEMORY;
    span.start = work->start;
    span.end = work->end;
    enum rs_status status = span_push(reduce, &span);
    if (status == RS_OK)
        status = rs_mem_grow((void **)&walk->keys, &walk->key_capacity, at + 1, sizeof *walk->keys);
    if (status == RS_OK)
        lane->span = (uint32_t)at;
    return status;
}

/* As span_cuts_at(): most rows lie between the same two cuts as the one before on their stream. */
static size_t cuts_near(const struct span_cuts *cuts, rs_ns instant, size_t guess)
{
    const bool is_there = guess <= cuts->count &&
                          (guess == 0 || cuts->items[guess - 1].key <= instant) &&
                          (guess == cuts->count || instant < cuts->items[guess].key);
    return is_there ? guess : span_cuts_at(cuts, instant);
}

/* One row, met before all rows of its lane that start earlier. */
static enum rs_status take_row(struct device_walk *walk, const struct reduce_work *work,
                               uint32_t *span_p)
{
    struct rs_reduce *reduce = walk->reduce;
    struct lane_state *lane = &walk->lanes[work->lane];
    const struct reduce_launch *launched = work_launch(reduce, work);
    rs_ns launch = work->start < lane->next_launch ? work->start : lane->next_launch;
    if (launched)
        launch = launched->start;
    lane->next_launch = launch;
    const size_t between = cuts_near(walk->cuts, launch, lane->between);
    if (lane->span == REDUCE_NONE || lane->between != between) {
        const enum rs_status status = open_span(walk, work, lane);
        if (status != RS_OK)
            return status;
        lane->between = between;
        walk->keys[lane->span] = launch;
    }
    struct rs_span_row *span = &reduce->summary->spans[lane->span];
    if (launch < walk->keys[lane->span])
        walk->keys[lane->span] = launch;
    if (launched) {
        const bool is_first =
            span->launch_first == RS_SPAN_NO_LAUNCH || launch < span->launch_first;
        if (span->launch_last == RS_SPAN_NO_LAUNCH || launch > span->launch_last)
            span->launch_last = launch;
        if (is_first) {
            span->launch_first = launch;
            span->thread = reduce->lanes->items[launched->lane].thread;
        }
    }
    /* rows come from the last to the first: the step that stays is that of the first */
    if (work->step != REDUCE_NONE)
        span->step = reduce->steps.items[work->step].number;
    if (work->work_class == RS_WORK_COMPUTING)
        span->kind = RS_SPAN_COMPUTING;
    span->count++;
    *span_p = lane->span;
    return RS_OK;
}

/* Times, names and signature of one span, from its rows by start. */
static enum rs_status fill_span(struct device_walk *walk, struct rs_span_row *span,
                                const uint32_t *rows, size_t count)
{
    const struct rs_reduce *reduce = walk->reduce;
    rs_ns until = RS_NS_MIN;
    for (size_t i = 0; i < count; i++) {
        const struct reduce_work *work = &reduce->work.items[rows[i]];
        const rs_ns from = work->start > until ? work->start : until;
        const char *name = rs_strtab_text(reduce->strings, work->name);
        RS_CHECK(name); /* the analyser cannot know it */
        span->start = work->start < span->start ? work->start : span->start;
        span->end = work->end > span->end ? work->end : span->end;
        span->busy += work->end > from ? work->end - from : 0;
        until = work->end > until ? work->end : until;
        span->signature =
            XXH64(name, rs_strtab_length(reduce->strings, work->name), span->signature);
        const enum rs_status status =
            span_names_add(&walk->names, work->name, work->end - work->start);
        if (status != RS_OK)
            return status;
    }
    span_names_take(&walk->names, reduce, span);
    return RS_OK;
}

/* The rows of each span together, each in order of start: counting sort, as they are in that order already. */
static enum rs_status fill_spans(struct device_walk *walk, size_t slot, size_t first_span)
{
    struct rs_reduce *reduce = walk->reduce;
    struct rs_summary *summary = reduce->summary;
    const size_t from = reduce->slot_first[slot];
    const size_t count = reduce->slot_first[slot + 1] - from;
    const size_t spans = summary->span_count - first_span;
    size_t *next = rs_mem_calloc(spans + 1, sizeof *next);
    uint32_t *rows = rs_mem_calloc(count + 1, sizeof *rows);
    enum rs_status status = next && rows ? RS_OK : RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < count; i++) {
        if (walk->span_of[i] != REDUCE_NONE)
            next[walk->span_of[i] - first_span + 1]++;
    }
    for (size_t i = 0; status == RS_OK && i < spans; i++)
        next[i + 1] += next[i];
    for (size_t i = 0; status == RS_OK && i < count; i++) {
        if (walk->span_of[i] != REDUCE_NONE)
            rows[next[walk->span_of[i] - first_span]++] = reduce->order[from + i];
    }
    size_t begin = 0;
    for (size_t i = 0; status == RS_OK && i < spans; i++) { /* next[i]: now where the next begins */
        status = fill_span(walk, &summary->spans[first_span + i], rows + begin, next[i] - begin);
        begin = next[i];
    }
    rs_mem_free(next);
    rs_mem_free(rows);
    return status;
}

/* When communication of a device ended, in the order of its rows; how often. */
static size_t communication_ends(const struct rs_reduce *reduce, size_t from, size_t count,
                                 struct sort_item *ends)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const struct reduce_work *work = &reduce->work.items[reduce->order[from + i]];
        if (work->work_class == RS_WORK_COMMUNICATION)
            ends[found++] = (struct sort_item){work->end, i};
    }
    return found;
}

/* Whether communication ended just before. */
static bool is_let_go(const struct sort_item *ends, size_t count, rs_ns start)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ends[middle].key <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && start - ends[low - 1].key <= let_go_ns;
}

/*
 * Older writers leave out the calls that make a stream wait. Then what shows a wait must do: a row that was launched, and whose
 * stream was free, and that begins right where communication of another stream ends.
 */
static enum rs_status find_waits(struct device_walk *walk, size_t slot)
{
    const struct rs_reduce *reduce = walk->reduce;
    const size_t from = reduce->slot_first[slot], count = reduce->slot_first[slot + 1] - from;
    if (reduce->stream_waits.count)
        return RS_OK;
    struct sort_item *ends = rs_mem_calloc(count + 1, sizeof *ends);
    rs_ns *until = rs_mem_calloc(reduce->lanes->count + 1, sizeof *until);
    walk->begins = rs_mem_calloc(count + 1, 1);
    enum rs_status status = ends && until && walk->begins ? RS_OK : RS_NOMEM;
    const size_t end_count = status == RS_OK ? communication_ends(reduce, from, count, ends) : 0;
    if (status == RS_OK)
        status = sort_items(ends, end_count);
    for (size_t i = 0; status == RS_OK && i < reduce->lanes->count; i++)
        until[i] = RS_NS_MIN;
    for (size_t i = 0; status == RS_OK && end_count && i < count; i++) {
        const struct reduce_work *work = &reduce->work.items[reduce->order[from + i]];
        const struct reduce_launch *launched = work_launch(reduce, work);
        const rs_ns launch = launched ? launched->start : work->start;
        rs_ns *lane = &until[work->lane];
        const rs_ns ready = launch > *lane ? launch : *lane;
        walk->begins[i] = is_own(work) && ready < work->start - let_go_ns &&
                          is_let_go(ends, end_count, work->start);
        *lane = work->end > *lane ? work->end : *lane;
    }
    rs_mem_free(ends);
    rs_mem_free(until);
    return status;
}

static enum rs_status walk_device(struct device_walk *walk, size_t slot)
{
    struct rs_reduce *reduce = walk->reduce;
    const size_t from = reduce->slot_first[slot];
    const size_t count = reduce->slot_first[slot + 1] - from;
    const size_t first_span = reduce->summary->span_count;
    enum rs_status status = RS_OK;
    walk->span_of = rs_mem_calloc(count + 1, sizeof *walk->span_of);
    if (!walk->span_of)
        return RS_NOMEM;
    status = find_waits(walk, slot);
    for (size_t i = 0; i < reduce->lanes->count; i++)
        walk->lanes[i] = (struct lane_state){.span = REDUCE_NONE, .next_launch = RS_NS_MAX};
    for (size_t i = count; status == RS_OK && i-- > 0;) {
        const struct reduce_work *work = &reduce->work.items[reduce->order[from + i]];
        walk->span_of[i] = REDUCE_NONE;
        if (is_own(work))
            status = take_row(walk, work, &walk->span_of[i]);
        /* What communicates on the stream parts its spans, and so does what waited. */
        if (!is_own(work) || (walk->begins && walk->begins[i]))
            walk->lanes[work->lane].span = REDUCE_NONE;
    }
    rs_mem_free(walk->begins);
    walk->begins = NULL;
    if (status == RS_OK)
        status = fill_spans(walk, slot, first_span);
    rs_mem_free(walk->span_of);
    walk->span_of = NULL;
    return status;
}

/* ---- host waits of a rank with devices ---- */

/* The stream that a wait was for. */
static void find_stream(const struct rs_reduce *reduce, const struct sort_item *syncs,
                        int64_t correlation, struct rs_span_row *span)
{
    size_t low = 0, high = reduce->syncs.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (syncs[middle].key < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    if (correlation < 0 || low == reduce->syncs.count || syncs[low].key != correlation)
        return;
    const struct rs_lane *lane = &reduce->lanes->items[reduce->syncs.items[syncs[low].value].lane];
    span->device = lane->device;
    span->stream = lane->thread;
}

/* A driver call inside a runtime call is the same wait. */
static enum rs_status drop_nested_waits(struct rs_reduce *reduce)
{
    const size_t count = reduce->waits.count;
    struct sort_item *items = rs_mem_calloc(count + 1, sizeof *items);
    struct reduce_wait *kept = rs_mem_calloc(count + 1, sizeof *kept);
    rs_ns *until = rs_mem_calloc(reduce->lanes->count + 1, sizeof *until);
    enum rs_status status = items && kept && until ? RS_OK : RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < count; i++)
        items[i] = (struct sort_item){reduce->waits.items[i].start, i};
    if (status == RS_OK)
        status = sort_items(items, count);
    for (size_t i = 0; status == RS_OK && i < reduce->lanes->count; i++)
        until[i] = RS_NS_MIN;
    size_t left = 0;
    for (size_t i = 0; status == RS_OK && i < count; i++) {
        const struct reduce_wait wait = reduce->waits.items[items[i].value];
        if (wait.start < until[wait.lane])
            continue;
        until[wait.lane] = wait.end;
        kept[left++] = wait;
    }
    if (status == RS_OK && count) {
        memcpy(reduce->waits.items, kept, left * sizeof *kept);
        reduce->waits.count = left;
    }
    rs_mem_free(items);
    rs_mem_free(kept);
    rs_mem_free(until);
    return status;
}

static enum rs_status push_waits(struct rs_reduce *reduce)
{
    const size_t count = reduce->syncs.count;
    struct sort_item *syncs = rs_mem_calloc(count + 1, sizeof *syncs);
    if (!syncs)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++)
        syncs[i] = (struct sort_item){reduce->syncs.items[i].correlation, i};
    enum rs_status status = sort_items(syncs, count);
    for (size_t i = 0; status == RS_OK && i < reduce->waits.count; i++) {
        const struct reduce_wait *wait = &reduce->waits.items[i];
        const uint32_t step = windows_find(&reduce->host_windows, wait->start);
        struct rs_span_row span = span_none();
        span.kind = RS_SPAN_HOST_WAIT;
        span.step = step == REDUCE_NONE ? RS_STEP_NONE : reduce->steps.items[step].number;
        span.thread = reduce->lanes->items[wait->lane].thread;
        span.start = span.launch_first = span.launch_last = wait->start;
        span.end = wait->end;
        find_stream(reduce, syncs, wait->correlation, &span);
        status = span_push(reduce, &span);
    }
    rs_mem_free(syncs);
    return status;
}

static enum rs_status spans_of_devices(struct rs_reduce *reduce, const struct span_cuts *cuts,
                                       struct device_walk *walk)
{
    enum rs_status status = span_names_init(&walk->names, reduce);
    walk->reduce = reduce;
    walk->cuts = cuts;
    walk->lanes = rs_mem_calloc(reduce->lanes->count + 1, sizeof *walk->lanes);
    if (!walk->lanes)
        status = RS_NOMEM;
    for (size_t slot = 0; status == RS_OK && slot < reduce->slot_count; slot++)
        status = walk_device(walk, slot);
    rs_mem_free(walk->lanes);
    span_names_fini(&walk->names);
    return status == RS_OK ? push_waits(reduce) : status;
}

/* ---- order ---- */

enum { LEADS_CALL, LEADS_WAIT, LEADS_WORK };

/* Calls, waits and spans by time; keys[i] where it differs from the start of span i. */
static enum rs_status number_all(struct rs_reduce *reduce, const rs_ns *keys, size_t key_count)
{
    struct rs_summary *summary = reduce->summary;
    const size_t ops = summary->op_count, spans = summary->span_count;
    struct sort_item *items = rs_mem_calloc(ops + spans + 1, sizeof *items);
    struct rs_span_row *copy = rs_mem_calloc(spans + 1, sizeof *copy);
    enum rs_status status = items && copy ? RS_OK : RS_NOMEM;
    size_t count = 0;
    for (int rank = LEADS_CALL; status == RS_OK && rank <= LEADS_WORK; rank++) {
        for (size_t i = 0; rank == LEADS_CALL && i < ops; i++)
            items[count++] = (struct sort_item){summary->ops[i].call_start, i};
        for (size_t i = 0; rank != LEADS_CALL && i < spans; i++) {
            const struct rs_span_row *span = &summary->spans[i];
            if ((span->kind == RS_SPAN_HOST_WAIT) == (rank == LEADS_WAIT))
                /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as many as are counted */
                items[count++] = (struct sort_item){i < key_count ? keys[i] : span->start, ops + i};
        }
    }
    if (status == RS_OK)
        status = sort_items(items, count);
    size_t kept = 0;
    for (size_t i = 0; status == RS_OK && i < count; i++) {
        if (items[i].value < ops) {
            summary->ops[items[i].value].call_order = (int64_t)i;
            continue;
        }
        copy[kept] = summary->spans[items[i].value - ops];
        copy[kept++].order = (int64_t)i;
    }
    if (status == RS_OK && spans)
        memcpy(summary->spans, copy, spans * sizeof *copy);
    rs_mem_free(items);
    rs_mem_free(copy);
    return status;
}

/* ---- input ---- */

static void lower(rs_ns *instant, rs_ns other)
{
    *instant = other < *instant ? other : *instant;
}

/* Of each step: time in data loader ranges before its first launch or call, and behind it. */
static enum rs_status input_of_steps(struct rs_reduce *reduce)
{
    struct rs_summary *summary = reduce->summary;
    const size_t steps = reduce->steps.count;
    if (!reduce->inputs.count || !steps)
        return RS_OK;
    rs_ns *first = rs_mem_calloc(steps, sizeof *first);
    enum rs_status status = first ? intervals_normalise(&reduce->inputs) : RS_NOMEM;
    for (size_t i = 0; status == RS_OK && i < steps; i++)
        first[i] = reduce->steps.items[i].host_end;
    for (size_t i = 0; status == RS_OK && i < reduce->work.count; i++) {
        const struct reduce_work *work = &reduce->work.items[i];
        const struct reduce_launch *launch = work_launch(reduce, work);
        if (launch && work->step != REDUCE_NONE)
            lower(&first[work->step], launch->start);
    }
    for (size_t i = 0; status == RS_OK && i < summary->op_count; i++) {
        const uint32_t step = windows_find(&reduce->host_windows, summary->ops[i].call_start);
        if (step != REDUCE_NONE)
            lower(&first[step], summary->ops[i].call_start);
    }
    const size_t slots = steps ? summary->step_count / steps : 0;
    for (size_t i = 0; status == RS_OK && i < steps; i++) {
        struct interval until = {reduce->steps.items[i].host_start, first[i]};
        const struct intervals head = {.items = &until, .count = until.end > until.start};
        struct interval from = {head.count ? until.end : until.start,
                                reduce->steps.items[i].host_end};
        const struct intervals rest = {.items = &from, .count = from.end > from.start};
        const rs_dur input = intervals_overlap(&reduce->inputs, &head);
        const rs_dur inside = intervals_overlap(&reduce->inputs, &rest);
        for (size_t slot = 0; slot < slots; slot++) {
            summary->steps[i * slots + slot].input_ns = input;
            summary->steps[i * slots + slot].input_inside_ns = inside;
        }
    }
    rs_mem_free(first);
    return status;
}

enum rs_status spans_build(struct rs_reduce *reduce)
{
    struct span_cuts cuts = {0};
    struct device_walk walk = {0};
    enum rs_status status = drop_nested_waits(reduce);
    if (status == RS_OK)
        status = build_cuts(reduce, &cuts);
    if (status == RS_OK)
        status = reduce->has_device_work ? spans_of_devices(reduce, &cuts, &walk)
                                         : spans_of_host(reduce, &cuts);
    /* the waits stand behind the spans of devices, and have their start for a key */
    const size_t keyed = reduce->has_device_work && status == RS_OK
                             ? reduce->summary->span_count - reduce->waits.count
                             : 0;
    if (status == RS_OK)
        status = number_all(reduce, walk.keys, keyed);
    if (status == RS_OK)
        status = input_of_steps(reduce);
    rs_mem_free(walk.keys);
    rs_mem_free(cuts.items);
    return status;
}
