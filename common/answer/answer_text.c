/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an aggregator answers, as people read it. Unknown is "-", and texts of others are cut to what a line holds.
 */
#include "common/answer/answer_text.h"

#include "common/answer/answer.h"
#include "common/base/time.h"
#include "common/base/utf8.h"
#include "common/request/roles.h"
#include "common/wire/wire.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- a capture ------------------------------------------------------------------------------------------- */

/* The reason of a partial capture begins with its state. */
static void put_state(struct rs_buf *buf, const Rankscope__CaptureInfo *info)
{
    const char *state = rs_capture_state_text((enum rs_capture_state)info->state);
    if (strncmp(info->reason, state, strlen(state)) == 0)
        rs_buf_printf(buf, "state      %.400s\n", info->reason);
    else
        rs_buf_printf(buf, "state      %s%s%.400s\n", state, *info->reason ? ": " : "",
                      info->reason);
}

/* "provisional: 4 of 5 ranks, 4 still recording, up to step 117: Rank 3 is slow: ..." */
static void put_findings(struct rs_buf *buf, const Rankscope__CaptureInfo *info)
{
    const Rankscope__CaptureFindings *findings = info->findings;
    if (!findings)
        return;
    rs_buf_printf(buf, "findings   %s%u of %zu ranks",
                  findings->is_provisional ? "provisional: " : "", findings->ranks, info->n_ranks);
    if (findings->recording)
        rs_buf_printf(buf, ", %u still recording", findings->recording);
    if (findings->last_step != INT64_MIN)
        rs_buf_printf(buf, ", up to step %" PRId64, findings->last_step);
    if (findings->findings)
        rs_buf_printf(buf, ": %.400s%s\n", findings->headline,
                      findings->findings > 1 ? "; more in the report" : "");
    else
        rs_buf_printf(buf, ": nobody is named\n");
}

/* Why a watch made it: "rank 3 takes 9.1 ms a step for its own work, ..." */
static void put_watch(struct rs_buf *buf, const Rankscope__CaptureInfo *info)
{
    const size_t count = info->request ? info->request->n_metadata : 0;
    for (size_t i = 0; i < count; i++) {
        const Rankscope__RequestPair *pair = info->request->metadata[i];
        json_t *why = strcmp(pair->key, "watch") == 0 ? json_loads(pair->value, 0, NULL) : NULL;
        const char *reason = json_string_value(json_object_get(why, "reason"));
        char text[400];
        (void)snprintf(text, sizeof text, "%s", reason ? reason : "");
        rs_utf8_plain(text); /* anybody may have written it */
        if (*text)
            rs_buf_printf(buf, "watch      %s\n", text);
        json_decref(why);
    }
}

/* Where it is, when that is not all in a folder of the aggregator that was asked. */
static void put_place(struct rs_buf *buf, const Rankscope__CaptureInfo *info)
{
    if (*info->archive)
        rs_buf_printf(buf, "archived   at %.600s\n", info->archive);
    if (*info->rows)
        rs_buf_printf(buf, "rows       %.500s\n", info->rows);
    if (*info->aggregator)
        rs_buf_printf(buf, "aggregator %.40s%s%.200s\n", info->aggregator,
                      *info->aggregator_address ? " at " : ", which is not reached from here",
                      info->aggregator_address);
    if (*info->taken_from)
        rs_buf_printf(buf, "taken over from %.300s\n", info->taken_from);
    if (*info->given_up_to)
        rs_buf_printf(buf, "taken over by aggregator %.40s: this is what it left here\n",
                      info->given_up_to);
}

void rs_answer_capture_text(const Rankscope__CaptureInfo *info, struct rs_buf *buf)
{
    char created[RS_TIME_TEXT_BYTES];
    char closed[RS_TIME_TEXT_BYTES];
    rs_time_text(info->created_ns, created);
    rs_time_text(info->closed_ns, closed);
    rs_buf_printf(buf, "capture    %s\n", info->id);
    rs_buf_printf(buf, "run        %.200s\n", info->run);
    put_state(buf, info);
    put_watch(buf, info);
    rs_buf_printf(buf, "source     %.40s\n", info->source);
    put_place(buf, info);
    if (*info->raw && strcmp(info->raw, "all") != 0)
        rs_buf_printf(buf, "raw data   of %s%.200s; the rest: rankscope fetch %s\n",
                      strcmp(info->raw, "none") == 0 ? "" : "ranks ", info->raw, info->id);
    if (info->steps && info->start_step >= 0)
        rs_buf_printf(buf, "steps      %u from step %" PRId64 "\n", info->steps, info->start_step);
    else if (info->steps && info->roundup)
        rs_buf_printf(buf, "steps      %u from a multiple of %u\n", info->steps, info->roundup);
    else if (info->steps)
        rs_buf_printf(buf, "steps      %u\n", info->steps);
    if (info->duration_ns)
        rs_buf_printf(buf, "duration   %" PRId64 ".%03" PRId64 " s\n",
                      info->duration_ns / RS_NS_PER_S,
                      info->duration_ns % RS_NS_PER_S / RS_NS_PER_MS);
    if (info->world)
        rs_buf_printf(buf, "world      %u\n", info->world);
    put_findings(buf, info);
    rs_buf_printf(buf, "created    %s\nclosed     %s\ndirectory  %s\n", created, closed,
                  info->directory);
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        const size_t length = strlen(rank->host);
        const bool has_host =
            strncmp(rank->incarnation, rank->host, length) == 0 && rank->incarnation[length] == ':';
        rs_buf_printf(buf, "rank %-5u %-9s%s%.40s%s%.60s%s%.300s\n", rank->rank,
                      rs_progress_word((enum rs_progress_state)rank->state, rank->text),
                      has_host || !length ? "" : " ", has_host ? "" : rank->host,
                      *rank->incarnation ? " " : "", rank->incarnation, *rank->text ? "  " : "",
                      rank->text);
    }
}

/* ---- how its ranks ended --------------------------------------------------------------------------------- */

struct noter {
    void (*print)(void *self, const char *line);
    void *self;
};

static void tell(const struct noter *noter, const char *format, ...) RS_PRINTF(2, 3);

static void tell(const struct noter *noter, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    noter->print(noter->self, line);
}

/* What is to be known of ranks that are done: once, however many say it. */
static void tell_done(const struct noter *noter, const Rankscope__CaptureInfo *info, size_t index)
{
    const Rankscope__CaptureRank *rank = info->ranks[index];
    size_t more = 0;
    if (!*rank->text)
        return;
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *other = info->ranks[i];
        if (i == index || other->state != RS_PROGRESS_DONE || strcmp(other->text, rank->text) != 0)
            continue;
        if (i < index)
            return;
        more++;
    }
    if (more)
        tell(noter, "rank %u and %zu more: %s", rank->rank, more, rank->text);
    else
        tell(noter, "rank %u: %s", rank->rank, rank->text);
}

static bool is_same_end(const Rankscope__CaptureRank *a, const Rankscope__CaptureRank *b)
{
    return a->state == b->state && strcmp(a->text, b->text) == 0;
}

/* One line for the ranks that ended as info->ranks[index] did, when they are more than a few: "0-3,9". True: they are
 * reported, now or at the first of them. The reply lists ranks in ascending order. */
static bool tell_many(const struct noter *noter, const Rankscope__CaptureInfo *info, size_t index)
{
    enum { FEW = 4 };
    const Rankscope__CaptureRank *rank = info->ranks[index];
    struct rs_buf list = {0};
    size_t count = 0;
    size_t first = info->n_ranks;
    for (size_t i = 0; i < info->n_ranks; i++) {
        if (!is_same_end(info->ranks[i], rank))
            continue;
        count++;
        first = i < first ? i : first;
        size_t last = i;
        while (last + 1 < info->n_ranks && is_same_end(info->ranks[last + 1], rank) &&
               info->ranks[last + 1]->rank == info->ranks[last]->rank + 1)
            last++;
        count += last - i;
        rs_buf_printf(&list, last > i ? "%s%u-%u" : "%s%u", list.length ? "," : "",
                      info->ranks[i]->rank, info->ranks[last]->rank);
        i = last;
    }
    if (count > FEW && first == index)
        tell(noter, "ranks %.400s%s are %s%s%s", rs_buf_text(&list), list.length > 400 ? "..." : "",
             rs_progress_word((enum rs_progress_state)rank->state, rank->text),
             *rank->text ? ": " : "", rank->text);
    rs_buf_fini(&list);
    return count > FEW;
}

void rs_answer_capture_ends(const Rankscope__CaptureInfo *info,
                            void (*print)(void *self, const char *line), void *self)
{
    const struct noter noter = {.print = print, .self = self};
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        if (rank->state > RS_PROGRESS_DONE && tell_many(&noter, info, i))
            continue;
        if (rank->state > RS_PROGRESS_DONE)
            tell(&noter, "rank %u is %s%s%s", rank->rank,
                 rs_progress_word((enum rs_progress_state)rank->state, rank->text),
                 *rank->text ? ": " : "", rank->text);
        else if (rank->state == RS_PROGRESS_DONE)
            tell_done(&noter, info, i);
    }
}

/* ---- its progress ---------------------------------------------------------------------------------------- */

/* When iterations from a multiple begin, and what that rests on. */
static size_t begin_text(const Rankscope__CaptureInfo *info, char *text, size_t bytes)
{
    const rs_dur until = info->begin_by_ns - rs_time_realtime();
    size_t used =
        (size_t)snprintf(text, bytes, "; begins at a multiple of %u iterations", info->roundup);
    if (info->step_ns > 0 && until > 0 && used < bytes)
        used += (size_t)snprintf(
            text + used, bytes - used, ", within %" PRId64 " s (a step was measured: %.4g s)",
            until / RS_NS_PER_S + 1, (double)info->step_ns / (double)RS_NS_PER_S);
    return used;
}

/* When it begins by the clock, and how well the clocks of its hosts are known. */
static size_t instant_text(const Rankscope__CaptureInfo *info, rs_dur until, char *text,
                           size_t bytes)
{
    const double ms = (double)info->start_bound_ns / (double)RS_NS_PER_MS;
    size_t used =
        (size_t)snprintf(text, bytes, "; begins in %" PRId64 " s", until / RS_NS_PER_S + 1);
    if (info->start_bound_ns > 0 && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used,
                                 " (hosts within %.3g ms, as their clocks were measured)", ms);
    return used;
}

void rs_answer_capture_line(const Rankscope__CaptureInfo *info, char *line, size_t bytes)
{
    const char *waiting = "";
    const Rankscope__CaptureRank *unreachable = NULL;
    size_t counts[RS_PROGRESS_COUNT] = {0};
    size_t raw = 0;
    int64_t least = -1;
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        const bool is_raw =
            rs_progress_is_stored_raw((enum rs_progress_state)rank->state, rank->text);
        raw += is_raw;
        if (rank->state < RS_PROGRESS_COUNT && !is_raw)
            counts[rank->state]++;
        if (rank->state == RS_PROGRESS_WAITING && *rank->text)
            waiting = rank->text;
        if (!rs_progress_is_final((enum rs_progress_state)rank->state) &&
            strncmp(rank->text, RS_UNREACHABLE_TEXT, sizeof RS_UNREACHABLE_TEXT - 1) == 0)
            unreachable = rank;
        if (!rs_progress_is_final((enum rs_progress_state)rank->state) &&
            (least < 0 || rank->steps_done < least))
            least = rank->steps_done;
    }
    size_t used = (size_t)snprintf(line, bytes, "%s %s", info->id,
                                   rs_capture_state_text((enum rs_capture_state)info->state));
    if (info->start_step >= 0 && used < bytes)
        used +=
            (size_t)snprintf(line + used, bytes - used, " from step %" PRId64, info->start_step);
    for (size_t i = 0; i < RS_PROGRESS_COUNT && used < bytes; i++)
        if (counts[i])
            used += (size_t)snprintf(line + used, bytes - used, ", %zu %s", counts[i],
                                     rs_progress_state_text((enum rs_progress_state)i));
    if (raw && used < bytes)
        used += (size_t)snprintf(line + used, bytes - used, ", %zu stored raw", raw);
    const rs_dur until = info->start_time_ns - rs_time_realtime();
    if (counts[RS_PROGRESS_ARMED] + counts[RS_PROGRESS_DELIVERED] && used < bytes) {
        if (info->roundup && info->state == RS_CAPTURE_RECORDING)
            used += begin_text(info, line + used, bytes - used);
        else if (info->start_time_ns && until > 0)
            used += instant_text(info, until, line + used, bytes - used);
    }
    if (info->state == RS_CAPTURE_ARMING && *waiting && used < bytes)
        used += (size_t)snprintf(line + used, bytes - used, "; %.160s", waiting);
    if (unreachable && used < bytes)
        used += (size_t)snprintf(line + used, bytes - used, "; rank %u: %.160s", unreachable->rank,
                                 unreachable->text);
    if (info->state == RS_CAPTURE_QUEUED && used < bytes)
        (void)snprintf(line + used, bytes - used, "; %.120s", info->reason);
    else if (info->steps && least > 0 && used < bytes)
        (void)snprintf(line + used, bytes - used, " (slowest %" PRId64 " of %u steps)", least,
                       info->steps);
}

/* ---- captures -------------------------------------------------------------------------------------------- */

void rs_answer_captures_text(const Rankscope__CaptureList *list, struct rs_buf *buf)
{
    if (list->n_captures == 0) {
        rs_buf_printf(buf, "no capture\n");
        return;
    }
    size_t width = 3, id_width = 22;
    bool has_others = false;
    for (size_t i = 0; i < list->n_captures; i++) {
        const size_t length = strnlen(list->captures[i]->run, 40);
        const size_t id_length = strnlen(list->captures[i]->id, 63);
        width = length > width ? length : width;
        id_width = id_length > id_width ? id_length : id_width;
        has_others = has_others || *list->captures[i]->aggregator;
    }
    const int run = (int)width, id = (int)id_width;
    rs_buf_printf(buf, "%-*s %-*s %-9s %-6s %5s %5s  %s%s\n", id, "ID", run, "RUN", "STATE",
                  "SOURCE", "RANKS", "STEPS", has_others ? "CREATED               " : "CREATED",
                  has_others ? "AGGREGATOR" : "");
    for (size_t i = 0; i < list->n_captures; i++) {
        const Rankscope__CaptureInfo *info = list->captures[i];
        char created[RS_TIME_TEXT_BYTES];
        char steps[16] = "-";
        rs_time_text(info->created_ns, created);
        if (info->steps)
            (void)snprintf(steps, sizeof steps, "%u", info->steps);
        const size_t ranks = info->n_ranks ? info->n_ranks : info->rank_count;
        rs_buf_printf(buf, "%-*.63s %-*.40s %-9s %-6.10s %5zu %5s  %s%s%.16s\n", id, info->id, run,
                      info->run, rs_capture_state_text((enum rs_capture_state)info->state),
                      info->source, ranks, steps, created, *info->aggregator ? "  " : "",
                      info->aggregator);
    }
}

/* ---- ranks ----------------------------------------------------------------------------------------------- */

/* "tp=0 pp=1"; "" when nothing is known. */
static void roles_text(const Rankscope__RankState *rank, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < rank->n_role && i < RS_ROLE_COUNT && used < bytes; i++)
        if (rank->role[i] >= 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s=%d", used ? " " : "",
                                     rs_rank_role_name((enum rs_rank_role_kind)i), rank->role[i]);
}

/* Widths of the columns whose texts have no usual length. */
struct widths {
    int run, host, kind, state, roles; /* roles 0: nobody has one */
};

static int wider(int width, const char *text, int most)
{
    const int length = (int)strnlen(text, (size_t)most);
    return length > width ? length : width;
}

static struct widths widths_of(const Rankscope__RankState *const *ranks, size_t count)
{
    struct widths w = {.run = 3, .host = 4, .kind = 4, .state = 5};
    char roles[80];
    for (size_t i = 0; i < count; i++) {
        const Rankscope__RankState *rank = ranks[i];
        w.run = wider(w.run, rank->run, 40);
        w.host = wider(w.host, rank->host, 40);
        w.kind = wider(w.kind, rs_answer_adapter(rank), 20);
        w.state = wider(w.state, rs_rank_state_text((enum rs_rank_state)rank->state), 20);
        roles_text(rank, roles, sizeof roles);
        if (*roles)
            w.roles = wider(w.roles ? w.roles : 5, roles, 60);
    }
    return w;
}

static void put_row(struct rs_buf *buf, const Rankscope__RankState *rank, const struct widths *w)
{
    const rs_dur ago = rs_time_realtime() - rank->seen_ns;
    char step[24] = "-";
    char duration[24] = "-";
    char world[16] = "?";
    char roles[80];
    if (rank->step >= 0)
        (void)snprintf(step, sizeof step, "%" PRId64, rank->step);
    if (rank->step_duration_ns > 0)
        (void)snprintf(duration, sizeof duration, "%.*f",
                       rank->step_duration_ns < RS_NS_PER_S / 10 ? 3 : 1,
                       (double)rank->step_duration_ns / RS_NS_PER_MS);
    if (rank->world)
        (void)snprintf(world, sizeof world, "%u", rank->world);
    roles_text(rank, roles, sizeof roles);
    rs_buf_printf(buf, "%-*.40s %5u %5s  %-*.40s %7u  %-*s  %-*s %7s %8s  ", w->run, rank->run,
                  rank->rank, world, w->host, rank->host, rank->pid, w->kind,
                  rs_answer_adapter(rank), w->state,
                  rs_rank_state_text((enum rs_rank_state)rank->state), step, duration);
    if (w->roles)
        rs_buf_printf(buf, "%-*.60s  ", w->roles, *roles ? roles : "-");
    rs_buf_printf(buf, "%" PRId64 " s\n", ago > 0 ? ago / RS_NS_PER_S : 0);
}

void rs_answer_ranks_text(const Rankscope__RankState *const *ranks, size_t rank_count,
                          bool is_chosen, size_t row_max, struct rs_buf *buf)
{
    if (rank_count == 0) {
        rs_buf_printf(buf, "%s", is_chosen ? "no rank is meant by that\n" : "no rank is known\n");
        return;
    }
    const struct widths w = widths_of(ranks, rank_count);
    rs_buf_printf(buf, "%-*s %5s %5s  %-*s %7s  %-*s  %-*s %7s %8s  ", w.run, "RUN", "RANK",
                  "WORLD", w.host, "HOST", "PID", w.kind, "KIND", w.state, "STATE", "STEP",
                  "STEP ms");
    if (w.roles)
        rs_buf_printf(buf, "%-*s  ", w.roles, "ROLES");
    rs_buf_printf(buf, "AGO\n");
    const size_t count = row_max && rank_count > row_max ? row_max : rank_count;
    for (size_t i = 0; i < count; i++)
        put_row(buf, ranks[i], &w);
    if (count < rank_count)
        rs_buf_printf(buf, "... and %zu more; --ranks slowest=%zu shows those that count\n",
                      rank_count - count, count);
}

/* ---- aggregators and counters ---------------------------------------------------------------------------- */

static void put_count(int64_t count, char text[24])
{
    if (count < 0)
        (void)snprintf(text, 24, "-");
    else
        (void)snprintf(text, 24, "%" PRId64, count);
}

void rs_answer_aggregators_text(const Rankscope__AggregatorTable *table, struct rs_buf *buf)
{
    int host = sizeof "HOST" - 1, address = sizeof "ADDRESS" - 1;
    for (size_t i = 0; i < table->n_aggregators; i++) {
        host = wider(host, table->aggregators[i]->host, INT16_MAX);
        address = wider(address, table->aggregators[i]->address, INT16_MAX);
    }
    rs_buf_printf(buf, "  %-16s  %-*s  %-*s  %-7s  %-20s  %-20s  %8s  %5s  %s\n", "AGGREGATOR",
                  host, "HOST", address, "ADDRESS", "STATE", "SINCE", "SEEN", "CAPTURES", "OPEN",
                  "VERSION");
    for (size_t i = 0; i < table->n_aggregators; i++) {
        const Rankscope__AggregatorState *one = table->aggregators[i];
        char began[RS_TIME_TEXT_BYTES], seen[RS_TIME_TEXT_BYTES], captures[24], open[24];
        rs_time_text(one->began_ns, began);
        rs_time_text(one->seen_ns, seen);
        put_count(one->captures, captures);
        put_count(one->open, open);
        rs_buf_printf(buf, "%c %-16s  %-*s  %-*s  %-7s  %-20s  %-20s  %8s  %5s  %s\n",
                      one->is_self ? '*' : ' ', one->id, host, one->host, address, one->address,
                      one->state, began, seen, captures, open, one->version);
    }
}

void rs_answer_counters_text(const struct rs_counter_set *set, struct rs_buf *buf)
{
    rs_buf_printf(buf, "%s%s%s%s%s\n", set->daemon, *set->node ? " on " : "", set->node,
                  *set->instance ? ", spool " : "", set->instance);
    for (unsigned i = 0; i < RS_COUNT_END; i++) {
        const struct rs_counter_info *info = rs_counter_info((enum rs_counter)i);
        if (set->has[i])
            rs_buf_printf(buf, "  %-24s %16" PRIu64 " %-6s %s\n", info->name, set->values[i],
                          info->unit, info->help);
    }
}
