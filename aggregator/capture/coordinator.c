/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/capture/coordinator.h"

#include "aggregator/capture/plan.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "capture"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct rs_coord {
    struct rs_coord_options options;
    struct rs_coord_seen *seen;
    size_t seen_count, seen_capacity;
    struct rs_coord_capture **captures;
    size_t capture_count, capture_capacity;
};

enum { MARGIN_MIN_STEPS = 2, MARGIN_MAX_STEPS = 100000 };

static const rs_dur duration_max_ns = 300 * (rs_dur)RS_NS_PER_S; /* unless forced */
/* A Kineto rank's collector knows its deadline and tells its end; this much later it is not believed any more. */
static const rs_dur kineto_grace_ns = 30 * (rs_dur)RS_NS_PER_S;
static const rs_dur kineto_patience_ns = 600 * (rs_dur)RS_NS_PER_S; /* deadline not known */

static rs_dur or_default(rs_dur value, rs_dur fallback)
{
    return value ? value : fallback;
}

enum rs_status rs_coord_new(const struct rs_coord_options *options, struct rs_coord **coord_p,
                            struct rs_err *err)
{
    struct rs_coord *coord = rs_mem_calloc(1, sizeof *coord);
    if (!coord)
        return rs_err_set(err, RS_NOMEM, "no memory for the coordinator");
    coord->options = *options;
    struct rs_coord_options *own = &coord->options;
    own->arm_timeout_ns = or_default(own->arm_timeout_ns, 5 * (rs_dur)RS_NS_PER_S);
    own->silence_ns = or_default(own->silence_ns, 60 * (rs_dur)RS_NS_PER_S);
    own->gone_ns = or_default(own->gone_ns, 15 * (rs_dur)RS_NS_PER_S);
    own->abandon_ns = or_default(own->abandon_ns, 60 * (rs_dur)RS_NS_PER_S);
    own->lead_ns = or_default(own->lead_ns, 500 * (rs_dur)RS_NS_PER_MS);
    if (!own->realtime)
        own->realtime = rs_time_realtime;
    *coord_p = coord;
    return RS_OK;
}

static void free_capture(struct rs_coord_capture *capture)
{
    rs_mem_free(capture->ranks);
    rs_mem_free(capture);
}

void rs_coord_free(struct rs_coord **coord_p)
{
    struct rs_coord *coord = *coord_p;
    if (!coord)
        return;
    *coord_p = NULL;
    for (size_t i = 0; i < coord->capture_count; i++)
        free_capture(coord->captures[i]);
    rs_mem_free(coord->captures);
    rs_mem_free(coord->seen);
    rs_mem_free(coord);
}

/* ---- ranks ------------------------------------------------------------------------------------------ */

enum rs_status rs_coord_see(struct rs_coord *coord, const struct rs_coord_seen *seen, rs_ns now)
{
    for (size_t i = 0; i < coord->seen_count; i++) {
        struct rs_coord_seen *known = &coord->seen[i];
        if (known->rank == seen->rank && strcmp(known->run, seen->run) == 0 &&
            strcmp(known->incarnation, seen->incarnation) == 0) {
            *known = *seen;
            known->heard_at = now;
            return RS_OK;
        }
    }
    const enum rs_status status = rs_mem_grow((void **)&coord->seen, &coord->seen_capacity,
                                              coord->seen_count + 1, sizeof *coord->seen);
    if (status < 0)
        return status;
    coord->seen[coord->seen_count] = *seen;
    coord->seen[coord->seen_count++].heard_at = now;
    return RS_OK;
}

void rs_coord_link_gone(struct rs_coord *coord, const void *link, rs_ns now)
{
    for (size_t i = 0; i < coord->seen_count; i++) {
        if (coord->seen[i].link == link) {
            coord->seen[i].link = NULL;
            coord->seen[i].heard_at = now;
        }
    }
}

size_t rs_coord_seen_count(const struct rs_coord *coord)
{
    return coord->seen_count;
}

const struct rs_coord_seen *rs_coord_seen(const struct rs_coord *coord, size_t index)
{
    return index < coord->seen_count ? &coord->seen[index] : NULL;
}

static bool is_live(const struct rs_coord_seen *seen)
{
    return seen->link && seen->can_capture && seen->state != RS_RANK_GONE;
}

static const struct rs_coord_seen *find_seen(const struct rs_coord *coord, const char *run,
                                             uint32_t rank, const char *incarnation)
{
    for (size_t i = 0; i < coord->seen_count; i++) {
        const struct rs_coord_seen *seen = &coord->seen[i];
        if (seen->rank == rank && strcmp(seen->run, run) == 0 &&
            (!incarnation || strcmp(seen->incarnation, incarnation) == 0))
            return seen;
    }
    return NULL;
}

/* The newest live incarnation of a rank. */
static const struct rs_coord_seen *find_live(const struct rs_coord *coord, const char *run,
                                             uint32_t rank)
{
    const struct rs_coord_seen *found = NULL;
    for (size_t i = 0; i < coord->seen_count; i++) {
        const struct rs_coord_seen *seen = &coord->seen[i];
        if (is_live(seen) && seen->rank == rank && strcmp(seen->run, run) == 0)
            found = seen;
    }
    return found;
}

/* Ranks that nobody has told of for long leave the table. */
static void drop_seen(struct rs_coord *coord, rs_ns now)
{
    size_t kept = 0;
    for (size_t i = 0; i < coord->seen_count; i++) {
        const struct rs_coord_seen *seen = &coord->seen[i];
        const bool is_old = now - seen->heard_at > 4 * coord->options.gone_ns;
        if (!(is_old && (!seen->link || seen->state == RS_RANK_GONE)))
            coord->seen[kept++] = *seen;
    }
    coord->seen_count = kept;
}

/* ---- captures: finding and adding ---------------------------------------------------------------------- */

struct rs_coord_capture *rs_coord_find(struct rs_coord *coord, const char *id)
{
    for (size_t i = 0; i < coord->capture_count; i++)
        if (strcmp(coord->captures[i]->id, id) == 0)
            return coord->captures[i];
    return NULL;
}

static enum rs_status add_capture(struct rs_coord *coord, struct rs_coord_capture *capture)
{
    const enum rs_status status =
        rs_mem_grow((void **)&coord->captures, &coord->capture_capacity, coord->capture_count + 1,
                    sizeof(struct rs_coord_capture *));
    if (status == RS_OK)
        coord->captures[coord->capture_count++] = capture;
    return status;
}

void rs_coord_closed(struct rs_coord *coord, const char *id)
{
    for (size_t i = 0; i < coord->capture_count; i++) {
        if (strcmp(coord->captures[i]->id, id) == 0) {
            free_capture(coord->captures[i]);
            coord->captures[i] = coord->captures[--coord->capture_count];
            return;
        }
    }
}

const char *rs_coord_source(const struct rs_coord_capture *capture)
{
    if (capture->is_files)
        return "files";
    if (!capture->has_kineto)
        return "native";
    return capture->has_native ? "native+kineto" : "kineto";
}

void rs_coord_set_source(struct rs_coord_capture *capture, const char *source)
{
    capture->is_files = strcmp(source, "files") == 0;
    capture->has_native = strstr(source, "native") != NULL;
    capture->has_kineto = strstr(source, "kineto") != NULL;
}

static struct rs_coord_rank *find_rank(struct rs_coord_capture *capture, uint32_t rank,
                                       const char *incarnation)
{
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *item = &capture->ranks[i];
        if (item->rank == rank && (!incarnation || strcmp(item->incarnation, incarnation) == 0))
            return item;
    }
    return NULL;
}

static enum rs_status add_rank(struct rs_coord_capture *capture, uint32_t rank,
                               const char *incarnation, const char *host, rs_ns now,
                               struct rs_coord_rank **rank_p)
{
    const enum rs_status status = rs_mem_grow((void **)&capture->ranks, &capture->rank_capacity,
                                              capture->rank_count + 1, sizeof *capture->ranks);
    if (status < 0)
        return status;
    struct rs_coord_rank *item = &capture->ranks[capture->rank_count++];
    *item = (struct rs_coord_rank){.rank = rank, .step = -1, .moved_at = now, .is_changed = true};
    (void)snprintf(item->incarnation, sizeof item->incarnation, "%s", incarnation);
    (void)snprintf(item->host, sizeof item->host, "%s", host);
    *rank_p = item;
    return RS_OK;
}

static void move_rank(struct rs_coord_capture *capture, struct rs_coord_rank *rank,
                      enum rs_progress_state state, const char *text, rs_ns now)
{
    if (*capture->id && rank->state != state && rs_progress_is_final(state) &&
        state != RS_PROGRESS_DONE)
        rs_log_info("capture %s: rank %u is %s%s%s", capture->id, rank->rank,
                    rs_progress_state_text(state), *text ? ": " : "", text);
    rank->state = state;
    if (text != rank->text)
        (void)snprintf(rank->text, sizeof rank->text, "%s", text);
    rank->moved_at = now;
    rank->is_changed = true;
    capture->moved_at = now;
    capture->is_changed = true;
}

static void save(struct rs_coord *coord, struct rs_coord_capture *capture)
{
    if (!capture->is_changed)
        return;
    coord->options.ops->save(coord->options.self, capture);
    capture->is_changed = false;
    for (size_t i = 0; i < capture->rank_count; i++)
        capture->ranks[i].is_changed = false;
}

/* ---- closing --------------------------------------------------------------------------------------------- */

static size_t count_state(const struct rs_coord_capture *capture, enum rs_progress_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < capture->rank_count; i++)
        count += capture->ranks[i].state == state;
    return count;
}

/* The lowest rank in a state that is above `after`; -1 none. */
static int64_t next_rank(const struct rs_coord_capture *capture, enum rs_progress_state state,
                         int64_t after)
{
    int64_t found = -1;
    for (size_t i = 0; i < capture->rank_count; i++) {
        const int64_t rank = capture->ranks[i].rank;
        if (capture->ranks[i].state == state && rank > after && (found < 0 || rank < found))
            found = rank;
    }
    return found;
}

/* "0, 3 and 5 more" of the ranks in a state. */
static void name_ranks(const struct rs_coord_capture *capture, enum rs_progress_state state,
                       char *text, size_t bytes)
{
    enum { NAMED_MAX = 12 };
    size_t used = 0;
    size_t count = 0;
    text[0] = '\0';
    for (int64_t rank = next_rank(capture, state, -1); rank >= 0 && count < NAMED_MAX;
         rank = next_rank(capture, state, rank), count++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, used ? ", " : "", rank);
    const size_t all = count_state(capture, state);
    if (all > count)
        (void)snprintf(text + used, bytes - used, " and %zu more", all - count);
}

static size_t count_ranks(const struct rs_coord_capture *capture)
{
    size_t count = 0;
    for (size_t i = 0; i < capture->rank_count; i++) {
        size_t j = 0;
        while (j < i && capture->ranks[j].rank != capture->ranks[i].rank)
            j++;
        count += j == i;
    }
    return count;
}

static void explain(struct rs_coord_capture *capture)
{
    static const enum rs_progress_state bad[] = {RS_PROGRESS_LOST, RS_PROGRESS_REFUSED,
                                                 RS_PROGRESS_PARTIAL};
    size_t used = 0;
    capture->reason[0] = '\0';
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char names[160];
        name_ranks(capture, bad[i], names, sizeof names);
        if (*names && used < sizeof capture->reason)
            used += (size_t)snprintf(capture->reason + used, sizeof capture->reason - used,
                                     "%s%s: rank %s", used ? "; " : "",
                                     rs_progress_state_text(bad[i]), names);
    }
    const size_t distinct = count_ranks(capture);
    char strays[200];
    if (capture->has_kineto && used < sizeof capture->reason &&
        rs_coord_strays(capture, strays, sizeof strays))
        used += (size_t)snprintf(capture->reason + used, sizeof capture->reason - used,
                                 "%snot the same time: %s than the others; a larger --roundup "
                                 "than %u brings them together",
                                 used ? "; " : "", strays, capture->profile.roundup);
    if (capture->is_files && distinct < capture->world && used < sizeof capture->reason)
        (void)snprintf(capture->reason + used, sizeof capture->reason - used,
                       "%s%zu of %u ranks came", used ? "; " : "", distinct, capture->world);
}

/* A native rank that was given up may still be armed: nobody waits for what it would record, and its next capture does. */
static void call_back_lost(struct rs_coord *coord, const struct rs_coord_capture *capture)
{
    const void *last = NULL;
    for (size_t i = 0; i < capture->rank_count && !capture->is_files; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        const struct rs_coord_seen *seen =
            rank->state == RS_PROGRESS_LOST && rank->kind == RS_RANK_NATIVE
                ? find_seen(coord, capture->run, rank->rank, rank->incarnation)
                : NULL;
        if (seen && seen->link && seen->link != last)
            coord->options.ops->cancel(coord->options.self, seen->link, capture, "it was given up");
        last = seen && seen->link ? seen->link : last;
    }
}

static void close_capture(struct rs_coord *coord, struct rs_coord_capture *capture)
{
    const size_t done = count_state(capture, RS_PROGRESS_DONE);
    const size_t partial = count_state(capture, RS_PROGRESS_PARTIAL);
    explain(capture);
    if (done + partial == 0)
        capture->state = RS_CAPTURE_FAILED;
    else if (done < capture->rank_count || *capture->reason)
        capture->state = RS_CAPTURE_PARTIAL;
    else
        capture->state = RS_CAPTURE_COMPLETE;
    capture->closed_ns = rs_time_realtime();
    capture->is_closing = true;
    capture->is_changed = true;
    rs_log_info("capture %s is %s%s%s", capture->id, rs_capture_state_text(capture->state),
                *capture->reason ? ": " : "", capture->reason);
    save(coord, capture);
    call_back_lost(coord, capture);
    coord->options.ops->close(coord->options.self, capture);
}

static rs_ns tick_arming(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);
static rs_ns tick_recording(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);
static rs_ns tick_collecting(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);

/* ---- native captures ------------------------------------------------------------------------------------ */

/* Runs with live ranks, as "a, b"; how many. */
static size_t name_runs(const struct rs_coord *coord, char *text, size_t bytes)
{
    size_t count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < coord->seen_count; i++) {
        if (!is_live(&coord->seen[i]))
            continue;
        size_t j = 0;
        while (j < i &&
               !(is_live(&coord->seen[j]) && strcmp(coord->seen[j].run, coord->seen[i].run) == 0))
            j++;
        if (j < i)
            continue;
        count++;
        if (used + 80 < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%.60s", used ? ", " : "",
                                     coord->seen[i].run);
    }
    return count;
}

static enum rs_status choose_run(const struct rs_coord *coord, const char *asked, char *run,
                                 size_t bytes, struct rs_err *err)
{
    char names[400];
    const size_t count = name_runs(coord, names, sizeof names);
    if (count == 0)
        return rs_err_set(err, RS_NOTFOUND, "no live rank is known that can record");
    if (!*asked && count > 1)
        return rs_err_set(err, RS_INVALID, "which run is not clear, give --run: %s", names);
    for (size_t i = 0; i < coord->seen_count; i++) {
        const struct rs_coord_seen *seen = &coord->seen[i];
        if (is_live(seen) && (!*asked || strcmp(seen->run, asked) == 0)) {
            (void)snprintf(run, bytes, "%s", seen->run);
            return RS_OK;
        }
    }
    return rs_err_set(err, RS_NOTFOUND, "there is no run %.60s; there is: %s", asked, names);
}

static enum rs_status take_rank(struct rs_coord *coord, struct rs_coord_capture *capture,
                                uint32_t number, rs_ns now, struct rs_err *err)
{
    const struct rs_coord_seen *seen = find_live(coord, capture->run, number);
    struct rs_coord_rank *rank = NULL;
    if (add_rank(capture, number, seen ? seen->incarnation : "", seen ? seen->host : "", now,
                 &rank) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture's ranks");
    if (!seen) {
        move_rank(capture, rank, RS_PROGRESS_REFUSED, "there is no such live rank in this run",
                  now);
        return RS_OK;
    }
    /* Its collector may not have told yet that a capture is over: then PREPARE finds out. */
    const struct rs_coord_capture *other = rs_coord_find(coord, seen->capture);
    if (other && !other->is_closing)
        return rs_err_set(err, RS_REFUSED, "rank %u records for capture %s already", number,
                          seen->capture);
    rank->step = seen->step;
    rank->kind = seen->kind;
    capture->has_native = capture->has_native || seen->kind == RS_RANK_NATIVE;
    capture->has_kineto = capture->has_kineto || seen->kind == RS_RANK_KINETO;
    return RS_OK;
}

static enum rs_status take_ranks(struct rs_coord *coord, struct rs_coord_capture *capture,
                                 const char *expression, rs_ns now, struct rs_err *err)
{
    bool is_all = false;
    uint32_t *ranks = NULL;
    size_t count = 0;
    enum rs_status status = rs_rank_expression(expression, &is_all, &ranks, &count, err);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = take_rank(coord, capture, ranks[i], now, err);
    for (size_t i = 0; is_all && i < coord->seen_count && status == RS_OK; i++) {
        const struct rs_coord_seen *seen = &coord->seen[i];
        if (is_live(seen) && strcmp(seen->run, capture->run) == 0 &&
            !find_rank(capture, seen->rank, NULL))
            status = take_rank(coord, capture, seen->rank, now, err);
        if (seen->world > capture->world && strcmp(seen->run, capture->run) == 0)
            capture->world = seen->world;
    }
    rs_mem_free(ranks);
    if (status == RS_OK && count_state(capture, RS_PROGRESS_WAITING) == 0)
        return rs_err_set(err, RS_NOTFOUND, "none of the ranks \"%.60s\" is live in run %.60s",
                          expression, capture->run);
    return status;
}

/* Calls one of the letters' functions for each collector, with the ranks of it that are of `kind` and in `state`. */
static enum rs_status for_each_link(struct rs_coord *coord, struct rs_coord_capture *capture,
                                    enum rs_rank_kind kind, enum rs_progress_state state,
                                    rs_coord_letter_fn *send)
{
    uint32_t *numbers = rs_mem_calloc(capture->rank_count, sizeof *numbers);
    const void **links = rs_mem_calloc(capture->rank_count, sizeof *links);
    enum rs_status status = numbers && links ? RS_OK : RS_NOMEM;
    for (size_t i = 0; i < capture->rank_count && status == RS_OK; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        const struct rs_coord_seen *seen =
            find_seen(coord, capture->run, rank->rank, rank->incarnation);
        links[i] = seen && rank->state == state && rank->kind == kind ? seen->link : NULL;
    }
    for (size_t i = 0; i < capture->rank_count && status == RS_OK; i++) {
        const void *link = links[i];
        size_t count = 0;
        for (size_t j = i; link && j < capture->rank_count; j++) {
            if (links[j] != link)
                continue;
            links[j] = NULL;
            numbers[count++] = capture->ranks[j].rank;
        }
        if (link)
            send(coord->options.self, link, capture, kind, numbers, count);
    }
    rs_mem_free(numbers);
    rs_mem_free(links);
    return status;
}

static enum rs_status for_each_kind(struct rs_coord *coord, struct rs_coord_capture *capture,
                                    enum rs_progress_state state, rs_coord_letter_fn *send)
{
    enum rs_status status = RS_OK;
    if (capture->has_native)
        status = for_each_link(coord, capture, RS_RANK_NATIVE, state, send);
    if (capture->has_kineto && status == RS_OK)
        status = for_each_link(coord, capture, RS_RANK_KINETO, state, send);
    return status;
}

static enum rs_status check_request(const struct rs_coord_request *request, struct rs_err *err)
{
    if (request->steps == 0 && request->duration_ns <= 0)
        return rs_err_set(err, RS_INVALID,
                          "give how many steps to record (--steps N), or how long (--duration D)");
    if (request->steps && request->duration_ns)
        return rs_err_set(err, RS_INVALID, "--steps and --duration exclude each other");
    if (request->duration_ns && request->has_start_step)
        return rs_err_set(err, RS_INVALID, "--start-step goes with --steps, not with --duration");
    if (request->duration_ns && request->duration_ns < RS_NS_PER_MS)
        return rs_err_set(err, RS_INVALID, "--duration is shorter than a millisecond");
    if (request->duration_ns > duration_max_ns && !request->profile.is_forced)
        return rs_err_set(
            err, RS_REFUSED,
            "--duration is longer than 5 minutes, which fills disks: --force does it");
    return RS_OK;
}

enum rs_status rs_coord_start(struct rs_coord *coord, const struct rs_coord_request *request,
                              rs_ns now, struct rs_coord_capture **capture_p, struct rs_err *err)
{
    const enum rs_status valid = check_request(request, err);
    if (valid < 0)
        return valid;
    struct rs_coord_capture *capture = rs_mem_calloc(1, sizeof *capture);
    if (!capture)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    capture->steps = request->steps;
    capture->duration_ns = request->duration_ns;
    capture->profile = request->profile;
    capture->start_step = request->has_start_step ? request->start_step : -1;
    capture->state = RS_CAPTURE_ARMING;
    capture->opened_at = capture->moved_at = now;
    enum rs_status status = choose_run(coord, request->run, capture->run, sizeof capture->run, err);
    if (status == RS_OK)
        status = take_ranks(coord, capture, request->ranks, now, err);
    if (status == RS_OK && request->has_start_step && capture->has_kineto)
        status = rs_err_set(err, RS_INVALID,
                            "--start-step needs ranks that tell their step; PyTorch ranks do not: "
                            "use --roundup");
    for (size_t i = 0; status == RS_OK && request->has_start_step && i < capture->rank_count; i++)
        if (capture->ranks[i].state == RS_PROGRESS_WAITING &&
            capture->ranks[i].step >= request->start_step)
            status =
                rs_err_set(err, RS_INVALID, "step %" PRId64 " is past: rank %u is in step %" PRId64,
                           request->start_step, capture->ranks[i].rank, capture->ranks[i].step);
    if (status == RS_OK)
        status = coord->options.ops->create(coord->options.self, capture, err);
    if (status == RS_OK && add_capture(coord, capture) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for a capture");
    if (status < 0) {
        free_capture(capture);
        return status;
    }
    capture->is_changed = true;
    save(coord, capture);
    (void)for_each_kind(coord, capture, RS_PROGRESS_WAITING, coord->options.ops->prepare);
    *capture_p = capture;
    return RS_OK;
}

/* Steps between "now" of the foremost rank and the start, so that COMMIT is there in time. */
static int64_t margin_of(const struct rs_coord *coord, const struct rs_coord_capture *capture)
{
    rs_dur shortest = 0;
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->state == RS_PROGRESS_ARMED && rank->kind == RS_RANK_NATIVE &&
            rank->step_duration_ns > 0 && (shortest == 0 || rank->step_duration_ns < shortest))
            shortest = rank->step_duration_ns;
    }
    if (shortest == 0)
        return MARGIN_MIN_STEPS;
    const int64_t margin = MARGIN_MIN_STEPS + coord->options.lead_ns / shortest;
    return margin < MARGIN_MAX_STEPS ? margin : MARGIN_MAX_STEPS;
}

/* The foremost step of the native ranks that are armed; -1 none. */
static int64_t foremost_step(const struct rs_coord *coord, const struct rs_coord_capture *capture)
{
    int64_t foremost = -1;
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[i];
        /* Heartbeats since ARMED may know better. */
        const struct rs_coord_seen *seen =
            find_seen(coord, capture->run, rank->rank, rank->incarnation);
        if (rank->state != RS_PROGRESS_ARMED || rank->kind != RS_RANK_NATIVE)
            continue;
        if (rank->step > foremost)
            foremost = rank->step;
        if (seen && seen->step > foremost)
            foremost = seen->step;
    }
    return foremost;
}

/* Native ranks record whole steps: those that fill the duration, from the step at its start on. A rank that
 * does not know how long its steps are cannot. */
static void plan_native_duration(struct rs_coord *coord, struct rs_coord_capture *capture,
                                 rs_ns now)
{
    rs_dur longest = 0;
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->kind != RS_RANK_NATIVE || rank->state != RS_PROGRESS_ARMED)
            continue;
        if (rank->step_duration_ns <= 0)
            move_rank(capture, rank, RS_PROGRESS_REFUSED,
                      "it records whole steps, and how long one is, is not known yet: use --steps",
                      now);
        else if (rank->step_duration_ns > longest)
            longest = rank->step_duration_ns;
    }
    if (!longest)
        return;
    const int64_t steps = (capture->duration_ns + longest - 1) / longest;
    capture->native_steps = steps > 1000000 ? 1000000 : (uint32_t)steps;
    const rs_dur until = capture->start_time_ns - coord->options.realtime();
    const int64_t ahead = until > 0 ? until / longest : 0;
    const int64_t margin = margin_of(coord, capture);
    capture->start_step = foremost_step(coord, capture) + (ahead > margin ? ahead : margin);
}

static void commit(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    if (capture->has_kineto)
        rs_coord_plan(capture, coord->options.realtime());
    capture->native_steps = capture->steps;
    if (capture->has_native && capture->duration_ns) {
        plan_native_duration(coord, capture, now);
    } else if (capture->has_native) {
        const int64_t foremost = foremost_step(coord, capture);
        if (capture->start_step < 0 || capture->start_step <= foremost)
            capture->start_step = foremost + margin_of(coord, capture);
    }
    capture->state = RS_CAPTURE_RECORDING;
    capture->committed_at = now;
    capture->is_changed = true;
    (void)for_each_kind(coord, capture, RS_PROGRESS_ARMED, coord->options.ops->commit);
    save(coord, capture);
}

/* Moves one capture on as far as its ranks allow; deadlines are the tick's. Cheap: it comes with every letter. */
static void advance(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    size_t final = 0;
    for (size_t i = 0; i < capture->rank_count; i++)
        final += rs_progress_is_final(capture->ranks[i].state);
    if (capture->is_closing)
        return;
    if (capture->state == RS_CAPTURE_ARMING) {
        if (count_state(capture, RS_PROGRESS_WAITING) == 0)
            (void)tick_arming(coord, capture, now);
    } else if (final == capture->rank_count) {
        (void)(capture->is_files ? tick_collecting(coord, capture, now)
                                 : tick_recording(coord, capture, now));
    }
    if (!capture->is_closing)
        save(coord, capture);
}

void rs_coord_armed(struct rs_coord *coord, const char *id, const struct rs_coord_armed *armed,
                    rs_ns now)
{
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank =
        capture ? find_rank(capture, armed->rank, armed->incarnation) : NULL;
    if (!rank || rank->state != RS_PROGRESS_WAITING)
        return;
    rank->step = armed->step;
    rank->step_duration_ns = armed->step_duration_ns;
    rank->next_poll_ns = armed->next_poll_ns;
    rank->poll_period_ns = armed->poll_period_ns;
    rank->lead_ns = armed->lead_ns;
    if (*armed->refused)
        move_rank(capture, rank, RS_PROGRESS_REFUSED, armed->refused, now);
    else
        move_rank(capture, rank, RS_PROGRESS_ARMED, armed->warning ? armed->warning : "", now);
    advance(coord, capture, now);
}

void rs_coord_progress(struct rs_coord *coord, const char *id, const struct rs_coord_told *told,
                       rs_ns now)
{
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? find_rank(capture, told->rank, NULL) : NULL;
    enum rs_progress_state state = told->state;
    if (!rank || rs_progress_is_final(rank->state))
        return;
    if (rank->steps_done < told->steps_done)
        rank->steps_done = told->steps_done;
    if (told->window_end_ns > told->window_start_ns) {
        rank->window_start_ns = told->window_start_ns;
        rank->window_end_ns = told->window_end_ns;
    }
    /* Only what is durable makes a rank done; a collector's word is not enough. */
    if (state == RS_PROGRESS_DONE || state == RS_PROGRESS_PARTIAL)
        state = RS_PROGRESS_SENDING;
    if (state >= rank->state && (unsigned)state < RS_PROGRESS_COUNT)
        move_rank(capture, rank, state, told->text, now);
    advance(coord, capture, now);
}

enum rs_status rs_coord_stop(struct rs_coord *coord, const char *id, rs_ns now, struct rs_err *err)
{
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    if (!capture || capture->is_closing)
        return rs_err_set(err, RS_NOTFOUND, "capture %.63s is not open", id);
    if (capture->is_files) {
        for (size_t i = 0; i < capture->rank_count; i++)
            if (!rs_progress_is_final(capture->ranks[i].state))
                move_rank(capture, &capture->ranks[i], RS_PROGRESS_LOST, "stopped by request", now);
        close_capture(coord, capture);
        return RS_OK;
    }
    for (size_t i = 0; i < coord->seen_count; i++) {
        const struct rs_coord_seen *seen = &coord->seen[i];
        size_t j = 0;
        while (j < i && coord->seen[j].link != seen->link)
            j++;
        if (seen->link && j == i)
            coord->options.ops->cancel(coord->options.self, seen->link, capture,
                                       "stopped by request");
    }
    for (size_t i = 0; i < capture->rank_count; i++)
        if (capture->ranks[i].state == RS_PROGRESS_WAITING)
            move_rank(capture, &capture->ranks[i], RS_PROGRESS_LOST, "stopped by request", now);
    (void)rs_coord_tick(coord, now);
    return RS_OK;
}

/* ---- streams ------------------------------------------------------------------------------------------- */

static struct rs_coord_capture *find_key(const struct rs_coord *coord, const char *run,
                                         const char *key)
{
    for (size_t i = 0; i < coord->capture_count; i++) {
        struct rs_coord_capture *capture = coord->captures[i];
        if (capture->is_files && !capture->is_closing && strcmp(capture->run, run) == 0 &&
            strcmp(capture->key, key) == 0)
            return capture;
    }
    return NULL;
}

static enum rs_status begin_files(struct rs_coord *coord, const struct rs_coord_stream *stream,
                                  rs_ns now, struct rs_coord_capture **capture_p,
                                  struct rs_err *err)
{
    struct rs_coord_capture *capture = rs_mem_calloc(1, sizeof *capture);
    if (!capture)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    (void)snprintf(capture->run, sizeof capture->run, "%s", stream->run);
    (void)snprintf(capture->key, sizeof capture->key, "%s", stream->key);
    capture->is_files = true;
    capture->state = RS_CAPTURE_COLLECTING;
    capture->start_step = -1;
    capture->settle_ns = stream->settle_ns;
    capture->opened_at = capture->moved_at = now;
    capture->is_changed = true;
    enum rs_status status = coord->options.ops->create(coord->options.self, capture, err);
    if (status == RS_OK && add_capture(coord, capture) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for a capture");
    if (status < 0) {
        free_capture(capture);
        return status;
    }
    *capture_p = capture;
    return RS_OK;
}

enum rs_status rs_coord_stream_opened(struct rs_coord *coord, const struct rs_coord_stream *stream,
                                      rs_ns now, struct rs_coord_capture **capture_p,
                                      struct rs_err *err)
{
    struct rs_coord_capture *capture = NULL;
    enum rs_status status = RS_OK;
    if (*stream->capture) {
        capture = rs_coord_find(coord, stream->capture);
        if (!capture)
            return rs_err_set(err, RS_NOTFOUND, "there is no capture %.63s", stream->capture);
    } else {
        capture = find_key(coord, stream->run, stream->key);
        if (!capture)
            status = begin_files(coord, stream, now, &capture, err);
    }
    if (status < 0)
        return status;
    struct rs_coord_rank *rank = find_rank(capture, stream->rank, stream->incarnation);
    if (!rank && add_rank(capture, stream->rank, stream->incarnation, stream->host, now, &rank) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture's ranks");
    if (rank->state < RS_PROGRESS_SENDING && capture->is_files)
        move_rank(capture, rank, RS_PROGRESS_SENDING, "", now);
    if (stream->world > capture->world)
        capture->world = stream->world;
    if (stream->settle_ns > capture->settle_ns)
        capture->settle_ns = stream->settle_ns;
    capture->moved_at = now;
    capture->is_changed = true;
    save(coord, capture);
    *capture_p = capture;
    return RS_OK;
}

void rs_coord_stored(struct rs_coord *coord, const char *id, uint32_t number,
                     const char *incarnation, uint64_t chunks, uint64_t bytes, rs_ns now)
{
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? find_rank(capture, number, incarnation) : NULL;
    if (!rank)
        return;
    rank->chunks += chunks;
    rank->bytes += bytes;
    rank->moved_at = now;
    capture->moved_at = now;
}

void rs_coord_ended(struct rs_coord *coord, const char *id, uint32_t number,
                    const char *incarnation, bool is_partial, rs_ns now)
{
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? find_rank(capture, number, incarnation) : NULL;
    if (!rank)
        return;
    if (capture->steps && !is_partial && rank->kind == RS_RANK_NATIVE)
        rank->steps_done = capture->steps;
    move_rank(capture, rank, is_partial ? RS_PROGRESS_PARTIAL : RS_PROGRESS_DONE, rank->text, now);
    advance(coord, capture, now);
}

enum rs_status rs_coord_load(struct rs_coord *coord, const struct rs_coord_capture *from, rs_ns now,
                             struct rs_err *err)
{
    if (rs_coord_find(coord, from->id))
        return RS_OK;
    struct rs_coord_capture *capture = rs_mem_calloc(1, sizeof *capture);
    if (!capture)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    *capture = *from;
    capture->ranks = NULL;
    capture->rank_count = capture->rank_capacity = 0;
    capture->is_closing = false;
    if (capture->is_files)
        capture->state = RS_CAPTURE_COLLECTING;
    else if (rs_capture_state_is_closed(capture->state) || from->start_step >= 0)
        capture->state = RS_CAPTURE_RECORDING;
    capture->opened_at = capture->moved_at = capture->committed_at = now;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < from->rank_count && status == RS_OK; i++) {
        struct rs_coord_rank *rank = NULL;
        status = add_rank(capture, from->ranks[i].rank, from->ranks[i].incarnation,
                          from->ranks[i].host, now, &rank);
        if (status == RS_OK) {
            *rank = from->ranks[i];
            rank->moved_at = now;
            if (!capture->has_native && capture->has_kineto)
                rank->kind = RS_RANK_KINETO;
        }
    }
    if (status == RS_OK)
        status = add_capture(coord, capture);
    if (status < 0) {
        free_capture(capture);
        return rs_err_set(err, status, "no memory for a capture");
    }
    return RS_OK;
}

/* ---- time -------------------------------------------------------------------------------------------------- */

static void lose(struct rs_coord_capture *capture, struct rs_coord_rank *rank, const char *text,
                 rs_ns now)
{
    move_rank(capture, rank, RS_PROGRESS_LOST, text, now);
}

/* With what its collector last had to say of it. */
static void lose_silent(struct rs_coord_capture *capture, struct rs_coord_rank *rank,
                        const char *why, rs_ns now)
{
    char text[RS_COORD_REASON_BYTES];
    (void)snprintf(text, sizeof text, "%s%s%.300s", why, *rank->text ? ": " : "", rank->text);
    lose(capture, rank, text, now);
}

/* When this rank will be given up, if nothing comes; and why. */
static rs_ns give_up_at(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                        const struct rs_coord_rank *rank, const char **why_p)
{
    const struct rs_coord_seen *seen =
        find_seen(coord, capture->run, rank->rank, rank->incarnation);
    rs_ns moved = rank->moved_at;
    if (seen && !seen->link) {
        *why_p = "its collector is gone";
        return (seen->heard_at > moved ? seen->heard_at : moved) + coord->options.gone_ns;
    }
    if (seen && seen->state == RS_RANK_GONE) {
        *why_p = "its process ended and nothing more came from it";
        return moved + coord->options.gone_ns;
    }
    if (rank->kind == RS_RANK_KINETO) {
        if (seen && !*seen->capture && rank->state < RS_PROGRESS_SENDING &&
            seen->heard_at > moved + coord->options.gone_ns / 3) {
            *why_p = "its collector was started again in the middle and does not know of it; its "
                     "trace, if one is written, stays in the collector's trace folder";
            return moved + coord->options.gone_ns;
        }
        *why_p = "nothing came from it in time";
        const rs_dur timeout =
            capture->profile.timeout_ns ? capture->profile.timeout_ns : kineto_patience_ns;
        return (moved > capture->committed_at + timeout ? moved : capture->committed_at + timeout) +
               kineto_grace_ns;
    }
    if (capture->profile.timeout_ns) {
        *why_p = "it did not finish in time";
        const rs_ns deadline = capture->committed_at + capture->profile.timeout_ns;
        return moved > deadline ? moved : deadline;
    }
    *why_p = "it stayed silent";
    /* An armed rank may have far to go to the start step. */
    rs_dur patience = coord->options.silence_ns;
    if (seen && seen->step_duration_ns > 0 && seen->step < capture->start_step)
        patience += 4 * seen->step_duration_ns * (capture->start_step - seen->step);
    if (rank->step_duration_ns > 0)
        patience += 20 * rank->step_duration_ns;
    return moved + patience;
}

static rs_ns tick_arming(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    const rs_ns deadline = capture->opened_at + coord->options.arm_timeout_ns;
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rank->state != RS_PROGRESS_WAITING)
            continue;
        if (now < deadline)
            return deadline;
        lose(capture, rank, "it did not answer in time", now);
    }
    if (count_state(capture, RS_PROGRESS_ARMED) == 0)
        close_capture(coord, capture);
    else
        commit(coord, capture, now);
    return now;
}

static rs_ns tick_recording(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    rs_ns next = RS_NS_MAX;
    for (size_t i = 0; i < capture->rank_count; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (rs_progress_is_final(rank->state))
            continue;
        const char *why = "";
        const rs_ns at = give_up_at(coord, capture, rank, &why);
        if (now >= at)
            lose_silent(capture, rank, why, now);
        else if (at < next)
            next = at;
    }
    if (next == RS_NS_MAX)
        close_capture(coord, capture);
    return next;
}

static rs_ns tick_collecting(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now)
{
    size_t open_count = 0;
    for (size_t i = 0; i < capture->rank_count; i++)
        open_count += !rs_progress_is_final(capture->ranks[i].state);
    if (!open_count && capture->world && capture->rank_count >= capture->world &&
        count_ranks(capture) >= capture->world) {
        close_capture(coord, capture);
        return now;
    }
    rs_dur patience = capture->settle_ns;
    if (open_count && patience < coord->options.abandon_ns)
        patience = coord->options.abandon_ns;
    if (now < capture->moved_at + patience)
        return capture->moved_at + patience;
    for (size_t i = 0; i < capture->rank_count; i++)
        if (!rs_progress_is_final(capture->ranks[i].state))
            lose(capture, &capture->ranks[i], "its stream did not go on", now);
    close_capture(coord, capture);
    return now;
}

rs_ns rs_coord_tick(struct rs_coord *coord, rs_ns now)
{
    rs_ns next = RS_NS_MAX;
    drop_seen(coord, now);
    for (size_t i = 0; i < coord->capture_count; i++) {
        struct rs_coord_capture *capture = coord->captures[i];
        if (capture->is_closing)
            continue;
        rs_ns at = RS_NS_MAX;
        if (capture->is_files)
            at = tick_collecting(coord, capture, now);
        else if (capture->state == RS_CAPTURE_ARMING)
            at = tick_arming(coord, capture, now);
        else
            at = tick_recording(coord, capture, now);
        if (!capture->is_closing)
            save(coord, capture);
        if (at < next)
            next = at;
    }
    return next;
}
