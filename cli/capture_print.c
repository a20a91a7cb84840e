/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures as people and programs read them. Unknown is null, or "-".
 */
#include "cli/capture.h"
#include "cli/cli.h"
#include "common/answer/answer.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "common/base/utf8.h"
#include "common/wire/wire.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void time_text(rs_ns ns, char *text, size_t bytes)
{
    const time_t seconds = (time_t)(ns / RS_NS_PER_S);
    struct tm parts = {0};
    if (!ns || !gmtime_r(&seconds, &parts) || !strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &parts))
        (void)snprintf(text, bytes, "-");
}

Rankscope__CaptureInfo *capture_info_copy(const Rankscope__CaptureInfo *info)
{
    const size_t bytes = rankscope__capture_info__get_packed_size(info);
    uint8_t *packed = rs_mem_calloc(bytes + 1, 1);
    Rankscope__CaptureInfo *copy = NULL;
    if (packed) {
        (void)rankscope__capture_info__pack(info, packed);
        copy = rankscope__capture_info__unpack(NULL, bytes, packed);
    }
    rs_mem_free(packed);
    return copy;
}

/* The reason of a partial capture begins with its state. */
static void print_state(const Rankscope__CaptureInfo *info)
{
    const char *state = rs_capture_state_text((enum rs_capture_state)info->state);
    if (strncmp(info->reason, state, strlen(state)) == 0)
        printf("state      %.400s\n", info->reason);
    else
        printf("state      %s%s%.400s\n", state, *info->reason ? ": " : "", info->reason);
}

/* "provisional: 4 of 5 ranks, 4 still recording, up to step 117: Rank 3 is slow: ..." */
static void print_findings(const Rankscope__CaptureInfo *info)
{
    const Rankscope__CaptureFindings *findings = info->findings;
    if (!findings)
        return;
    printf("findings   %s%u of %zu ranks", findings->is_provisional ? "provisional: " : "",
           findings->ranks, info->n_ranks);
    if (findings->recording)
        printf(", %u still recording", findings->recording);
    if (findings->last_step != INT64_MIN)
        printf(", up to step %" PRId64, findings->last_step);
    if (findings->findings)
        printf(": %.400s%s\n", findings->headline,
               findings->findings > 1 ? "; more in the report" : "");
    else
        printf(": nobody is named\n");
}

/* Why a watch made it: "rank 3 takes 9.1 ms a step for its own work, ..." */
static void print_watch(const Rankscope__CaptureInfo *info)
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
            printf("watch      %s\n", text);
        json_decref(why);
    }
}

/* Where it is, when that is not all in a folder of the aggregator that was asked. */
static void print_place(const Rankscope__CaptureInfo *info)
{
    if (*info->archive)
        printf("archived   at %.600s\n", info->archive);
    if (*info->rows)
        printf("rows       %.500s\n", info->rows);
    if (*info->aggregator)
        printf("aggregator %.40s%s%.200s\n", info->aggregator,
               *info->aggregator_address ? " at " : ", which is not reached from here",
               info->aggregator_address);
}

static void print_facts(const Rankscope__CaptureInfo *info)
{
    char created[32];
    char closed[32];
    time_text(info->created_ns, created, sizeof created);
    time_text(info->closed_ns, closed, sizeof closed);
    printf("capture    %s\n", info->id);
    printf("run        %.200s\n", info->run);
    print_state(info);
    print_watch(info);
    printf("source     %.40s\n", info->source);
    print_place(info);
    if (*info->raw && strcmp(info->raw, "all") != 0)
        printf("raw data   of %s%.200s; the rest: rankscope fetch %s\n",
               strcmp(info->raw, "none") == 0 ? "" : "ranks ", info->raw, info->id);
    if (info->steps && info->start_step >= 0)
        printf("steps      %u from step %" PRId64 "\n", info->steps, info->start_step);
    else if (info->steps && info->roundup)
        printf("steps      %u from a multiple of %u\n", info->steps, info->roundup);
    else if (info->steps)
        printf("steps      %u\n", info->steps);
    if (info->duration_ns)
        printf("duration   %" PRId64 ".%03" PRId64 " s\n", info->duration_ns / RS_NS_PER_S,
               info->duration_ns % RS_NS_PER_S / RS_NS_PER_MS);
    if (info->world)
        printf("world      %u\n", info->world);
    print_findings(info);
    printf("created    %s\nclosed     %s\ndirectory  %s\n", created, closed, info->directory);
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        const size_t length = strlen(rank->host);
        const bool has_host =
            strncmp(rank->incarnation, rank->host, length) == 0 && rank->incarnation[length] == ':';
        printf("rank %-5u %-9s%s%.40s%s%.60s%s%.300s\n", rank->rank,
               rs_progress_word((enum rs_progress_state)rank->state, rank->text),
               has_host || !length ? "" : " ", has_host ? "" : rank->host,
               *rank->incarnation ? " " : "", rank->incarnation, *rank->text ? "  " : "",
               rank->text);
    }
}

static void print_json(const Rankscope__CaptureInfo *info)
{
    struct rs_buf buf = {0};
    rs_answer_capture(info, 2, &buf);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

void capture_print_info(const Rankscope__CaptureInfo *info, bool as_json)
{
    if (as_json)
        print_json(info);
    else
        print_facts(info);
}

/* What is to be known of ranks that are done: once, however many say it. */
static void report_done(const Rankscope__CaptureInfo *info, size_t index)
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
        rs_cli_note("capture", "rank %u and %zu more: %s", rank->rank, more, rank->text);
    else
        rs_cli_note("capture", "rank %u: %s", rank->rank, rank->text);
}

static bool is_same_end(const Rankscope__CaptureRank *a, const Rankscope__CaptureRank *b)
{
    return a->state == b->state && strcmp(a->text, b->text) == 0;
}

/* One line for the ranks that ended as info->ranks[index] did, when they are more than a few: "0-3,9". True: they are
 * reported, now or at the first of them. The reply lists ranks in ascending order. */
static bool report_many(const Rankscope__CaptureInfo *info, size_t index)
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
        rs_cli_note("capture", "ranks %.400s%s are %s%s%s", rs_buf_text(&list),
                    list.length > 400 ? "..." : "",
                    rs_progress_word((enum rs_progress_state)rank->state, rank->text),
                    *rank->text ? ": " : "", rank->text);
    rs_buf_fini(&list);
    return count > FEW;
}

void capture_report_ranks(const Rankscope__CaptureInfo *info)
{
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        if (rank->state > RS_PROGRESS_DONE && report_many(info, i))
            continue;
        if (rank->state > RS_PROGRESS_DONE)
            rs_cli_note("capture", "rank %u is %s%s%s", rank->rank,
                        rs_progress_word((enum rs_progress_state)rank->state, rank->text),
                        *rank->text ? ": " : "", rank->text);
        else if (rank->state == RS_PROGRESS_DONE)
            report_done(info, i);
    }
}

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

void capture_progress_line(const Rankscope__CaptureInfo *info, char *line, size_t bytes)
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

static void print_table(const Rankscope__CaptureList *list)
{
    if (list->n_captures == 0) {
        printf("no capture\n");
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
    printf("%-*s %-*s %-9s %-6s %5s %5s  %s%s\n", id, "ID", run, "RUN", "STATE", "SOURCE", "RANKS",
           "STEPS", has_others ? "CREATED               " : "CREATED",
           has_others ? "AGGREGATOR" : "");
    for (size_t i = 0; i < list->n_captures; i++) {
        const Rankscope__CaptureInfo *info = list->captures[i];
        char created[32];
        char steps[16] = "-";
        time_text(info->created_ns, created, sizeof created);
        if (info->steps)
            (void)snprintf(steps, sizeof steps, "%u", info->steps);
        const size_t ranks = info->n_ranks ? info->n_ranks : info->rank_count;
        printf("%-*.63s %-*.40s %-9s %-6.10s %5zu %5s  %s%s%.16s\n", id, info->id, run, info->run,
               rs_capture_state_text((enum rs_capture_state)info->state), info->source, ranks,
               steps, created, *info->aggregator ? "  " : "", info->aggregator);
    }
}

static void print_list_json(const Rankscope__CaptureList *list)
{
    struct rs_buf buf = {0};
    rs_answer_captures((const Rankscope__CaptureInfo *const *)list->captures, list->n_captures,
                       list->away, 2, &buf);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

void capture_print_list(const Rankscope__CaptureList *list, bool as_json)
{
    if (as_json)
        print_list_json(list);
    else
        print_table(list);
}

/* ---- answers ---------------------------------------------------------------------------------------------- */

/* On a terminal, lines are broken between words, the rest further in. */
static void print_lines(FILE *to, const char *text)
{
    const size_t width = isatty(fileno(to)) ? rs_cli_width(to) : SIZE_MAX;
    while (*text) {
        size_t left = strcspn(text, "\n");
        const size_t indent = strspn(text, " ") + 4;
        size_t room = width;
        while (left > room) {
            size_t cut = room;
            while (cut > indent && text[cut] != ' ')
                cut--;
            if (text[cut] != ' ')
                break; /* one long word */
            fprintf(to, "%.*s\n%*s", (int)cut, text, (int)indent, "");
            text += cut + 1;
            left -= cut + 1;
            room = width - indent;
        }
        fprintf(to, "%.*s\n", (int)left, text);
        text += left;
        text += *text == '\n';
    }
}

void capture_print_answer(const struct rs_request_answer *answer, bool as_json)
{
    struct rs_buf buf = {0};
    if (as_json) {
        rs_request_answer_to_json(answer, 2, &buf);
        rs_buf_u8(&buf, '\n');
    } else {
        rs_request_answer_print(answer, &buf);
    }
    if (as_json)
        printf("%s", rs_buf_text(&buf));
    else
        print_lines(stdout, rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

/* Counts of what is left stay right: advice is neither refused nor ineffective. */
static void drop_advice(struct rs_request_notes *notes)
{
    size_t kept = 0;
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i].rule != RS_RULE_WARMUP_ZERO &&
            notes->items[i].rule != RS_RULE_MS_NO_STEP)
            notes->items[kept++] = notes->items[i];
    notes->count = kept;
}

void capture_report_answer(struct rs_request_answer *answer)
{
    struct rs_buf buf = {0};
    bool is_plain = answer->decision_count[RS_DECISION_ACCEPTED] == answer->count;
    drop_advice(&answer->notes);
    for (size_t i = 0; i < answer->count; i++) {
        drop_advice(&answer->ranks[i].notes);
        is_plain = is_plain && answer->ranks[i].notes.count == 0;
    }
    if (is_plain && !answer->notes.count)
        return;
    rs_request_answer_print(answer, &buf);
    print_lines(stderr, rs_buf_text(&buf));
    rs_buf_fini(&buf);
}
