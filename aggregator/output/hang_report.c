/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of a hang for people, at three in the morning: the culprit, its node, since when, who waits, the line of the
 * program; then what to do; then who waits for whom, and what nobody can know.
 */
#include "aggregator/output/hang_report.h"

#include "aggregator/output/doc.h"
#include "aggregator/output/units.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RANKS_TOLD = 24,
    RANGES_IN_TABLE = 4,
    WAITS_SHOWN = 24,
    NODES_SHOWN = 16,
    FRAMES_SHOWN = 3,
    LINE_BYTES = 1024
};

/* --- words ------------------------------------------------------------------------------------------------------ */

/* "12:03:11.250 UTC" */
static void put_clock(char text[UNIT_TEXT_BYTES], int64_t ns)
{
    const time_t seconds = (time_t)(ns / 1000000000);
    struct tm parts;
    if (ns < 0 || !gmtime_r(&seconds, &parts)) {
        (void)snprintf(text, UNIT_TEXT_BYTES, "an unknown time");
        return;
    }
    (void)snprintf(text, UNIT_TEXT_BYTES, "%02d:%02d:%02d.%03d UTC", parts.tm_hour, parts.tm_min,
                   parts.tm_sec, (int)(ns % 1000000000 / 1000000));
}

/* "0-3, 8, 12" */
static void put_ranks(struct rs_buf *text, const int32_t *ranks, size_t count, size_t limit)
{
    size_t told = 0;
    for (size_t i = 0; i < count; told++) {
        size_t end = i;
        while (end + 1 < count && ranks[end + 1] == ranks[end] + 1)
            end++;
        if (told == limit) {
            rs_buf_string(text, ", ...");
            return;
        }
        rs_buf_printf(text, i ? ", %" PRId32 : "%" PRId32, ranks[i]);
        if (end > i)
            rs_buf_printf(text, end == i + 1 ? ", %" PRId32 : "-%" PRId32, ranks[end]);
        i = end + 1;
    }
}

static const char *group_text(const struct rs_hang *hang, uint32_t group)
{
    return group < hang->group_count ? hang->groups[group].text : "?";
}

static const struct rs_evidence *evidence_of(const struct rs_finding *finding,
                                             enum rs_evidence_what what)
{
    for (size_t i = 0; i < finding->evidence_count; i++)
        if (finding->evidence[i].what == what)
            return &finding->evidence[i];
    return NULL;
}

static const struct rs_flight_dump *dump_of(const struct rs_hang *hang, int64_t rank)
{
    for (size_t i = 0; i < hang->set->dump_count; i++)
        if (hang->set->dumps[i].rank == rank)
            return &hang->set->dumps[i];
    return NULL;
}

/* Frames of the user's program first: the library's own lines say nothing about where it is. */
static bool is_library(const char *line, size_t length)
{
    static const char *const parts[] = {"/site-packages/torch/", "/dist-packages/torch/",
                                        "torch/distributed/", "<frozen ", "/lib/python3"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (memmem(line, length, parts[i], strlen(parts[i])))
            return true;
    return false;
}

/* "train_step (train.py:88) < main (train.py:120)" */
static void put_stack(struct rs_buf *text, const char *frames)
{
    size_t told = 0;
    for (int library = 0; library < 2 && !told; library++) {
        for (const char *line = frames; *line && told < FRAMES_SHOWN;) {
            const size_t length = strcspn(line, "\n");
            if (library || !is_library(line, length)) {
                rs_buf_string(text, told++ ? ", called by " : "");
                rs_buf_bytes(text, line, length);
            }
            line += length + (line[length] == '\n');
        }
    }
}

static void subject(const struct rs_hang *hang, const struct rs_finding *finding,
                    struct rs_buf *text)
{
    int32_t ranks[RANKS_TOLD + 1];
    size_t count = 0;
    for (size_t i = 0; i < finding->place_count && count < RANKS_TOLD; i++)
        if (finding->places[i].kind == RS_PLACE_RANK)
            ranks[count++] = finding->places[i].rank;
    if (!count) {
        rs_buf_printf(text, "Group %s",
                      finding->place_count ? group_text(hang, finding->places[0].group) : "?");
        return;
    }
    rs_buf_string(text, count == 1 ? "Rank " : "Ranks ");
    put_ranks(text, ranks, count, RANKS_TOLD);
    for (size_t i = 0; i < finding->also_count; i++)
        if (finding->also[i].kind == RS_PLACE_HOST)
            rs_buf_printf(text, " on node %s", finding->also[i].text);
}

static const char *verdict(const struct rs_finding *finding, bool is_one)
{
    switch (finding->kind) {
    case RS_FINDING_HANG:
        return evidence_of(finding, RS_EVIDENCE_INSIDE)
                   ? "is stuck inside a call that all its members are in"
                   : "did not arrive";
    case RS_FINDING_MISMATCH:
        return evidence_of(finding, RS_EVIDENCE_DIFFERS) && is_one
                   ? "called something else than the others"
                   : "called different things as the same call";
    case RS_FINDING_DEADLOCK:
        return is_one ? "left the order of calls, and waits for those who wait for it"
                      : "wait for each other: their calls cross";
    case RS_FINDING_SILENT_RANK:
        return is_one ? "left no dump, and the others wait for it"
                      : "left no dumps, and the others wait for them";
    case RS_FINDING_SLOW_RANK:
        return "comes late again and again";
    case RS_FINDING_SLOW_LINK:
    case RS_FINDING_SLOW_GROUP:
    case RS_FINDING_SLOW_STAGE:
    case RS_FINDING_SLOW_HOST:
    case RS_FINDING_DATA_STALL:
    case RS_FINDING_HOST_GAP:
    case RS_FINDING_IMBALANCE:
    case RS_FINDING_JITTER:
    case RS_FINDING_OP:
        break;
    }
    return "stands out";
}

/* --- evidence as sentences -------------------------------------------------------------------------------------- */

static void put_since(struct rs_buf *text, const struct rs_evidence *evidence)
{
    char clock[UNIT_TEXT_BYTES], time[UNIT_TEXT_BYTES];
    if (evidence->start_ns != RS_NULL) {
        put_clock(clock, evidence->start_ns);
        rs_buf_printf(text, " since %s", clock);
    }
    if (evidence->dur_ns != RS_NULL) {
        unit_people_time(time, evidence->dur_ns);
        rs_buf_printf(text, " (for %s when the dump was made)", time);
    }
}

static void say_missing(const struct rs_hang *hang, const struct rs_evidence *e,
                        struct rs_buf *text)
{
    rs_buf_printf(text, "Rank %" PRId64 " waits for it in %s, call %" PRId64 " of group %s",
                  e->peer, e->name ? e->name : "a call", e->step, group_text(hang, e->group));
    put_since(text, e);
    if (e->seen != RS_NULL)
        rs_buf_printf(text, "; %" PRId64 " of %" PRId64 " members are in it", e->seen, e->of);
    rs_buf_string(text, ".");
    if (e->what == RS_EVIDENCE_NO_DUMP || e->seen == RS_NULL)
        return; /* of sends and receives no number is common to both sides */
    if (e->reference != RS_NULL)
        rs_buf_printf(text, " Rank %" PRId64 " got as far as call %" PRId64 " of that group.",
                      e->rank, e->reference);
    else
        rs_buf_printf(text, " Rank %" PRId64 " recorded no call of that group.", e->rank);
}

static void say_last_call(const struct rs_hang *hang, const struct rs_evidence *e,
                          struct rs_buf *text)
{
    char clock[UNIT_TEXT_BYTES];
    rs_buf_printf(text,
                  "The last call that rank %" PRId64 " recorded: %s, call %" PRId64 " of group %s",
                  e->rank, e->name, e->step, group_text(hang, e->group));
    if (e->start_ns != RS_NULL) {
        put_clock(clock, e->start_ns);
        rs_buf_printf(text, ", at %s", clock);
    }
    rs_buf_string(text, ".");
}

static void say_late(const struct rs_hang *hang, const struct rs_evidence *e, struct rs_buf *text)
{
    char late[UNIT_TEXT_BYTES], noise[UNIT_TEXT_BYTES];
    unit_people_time(late, e->value);
    unit_people_time(noise, e->bound);
    rs_buf_printf(text,
                  "In group %s it was last in %" PRId64 " of %" PRId64
                  " calls, by %s in the median; the others differ by at most %s.",
                  group_text(hang, e->group), e->seen, e->of, late, noise);
}

static void say_not_known(const struct rs_evidence *e, struct rs_buf *text)
{
    const char *what = e->name ? e->name : "";
    if (strcmp(what, "no_dump") == 0)
        rs_buf_printf(text,
                      "%" PRId64 " of %" PRId64
                      " ranks left no dump: what happened there is not known.",
                      e->value, e->of);
    else if (strcmp(what, "older_dump") == 0)
        rs_buf_printf(text,
                      "%" PRId64 " of %" PRId64
                      " dumps are older than what others saw: those ranks were not judged.",
                      e->value, e->of);
    else if (strcmp(what, "truncated_dump") == 0)
        rs_buf_printf(text,
                      "%" PRId64 " of %" PRId64 " dumps are truncated: their last calls are lost.",
                      e->value, e->of);
    else if (strcmp(what, "calls_before") == 0)
        rs_buf_string(text, "The calls of this group before it are in no ring any more: if one of "
                            "them was called differently, it is that one which holds the group.");
    else
        rs_buf_string(text,
                      "gloo records no sends and receives: a rank that waits in one looks as if it "
                      "did not wait.");
}

static void say(const struct rs_hang *hang, const struct rs_finding *finding,
                const struct rs_evidence *e, struct rs_buf *text)
{
    switch (e->what) {
    case RS_EVIDENCE_NOT_CALLED:
    case RS_EVIDENCE_NO_DUMP:
        say_missing(hang, e, text);
        return;
    case RS_EVIDENCE_WAITS_FOR:
        rs_buf_printf(text, "Rank %" PRId64 " is in %s, call %" PRId64 " of group %s,", e->rank,
                      e->name ? e->name : "a call", e->step, group_text(hang, e->group));
        rs_buf_printf(text, " and waits there for rank %" PRId64, e->peer);
        put_since(text, e);
        rs_buf_string(text, ".");
        return;
    case RS_EVIDENCE_BLOCKED:
        rs_buf_printf(text, "%" PRId64 " of %" PRId64 " ranks wait for %s in the end.", e->value,
                      e->of, finding->place_count == 1 ? "it" : "them");
        return;
    case RS_EVIDENCE_LAST_CALL:
        say_last_call(hang, e, text);
        return;
    case RS_EVIDENCE_STACK:
        if (e->peer != RS_NULL)
            rs_buf_printf(text, "Rank %" PRId64 " makes that call in ", e->rank);
        else if (e->step == RS_NULL)
            rs_buf_printf(text, "Rank %" PRId64 " is now in ", e->rank);
        else
            rs_buf_printf(text, "Rank %" PRId64 " made it in ", e->rank);
        put_stack(text, e->name);
        rs_buf_string(text, ".");
        return;
    case RS_EVIDENCE_DIFFERS:
        rs_buf_printf(text,
                      "Rank %" PRId64 " called %s (so did %" PRId64 " of %" PRId64
                      ") as call %" PRId64 " of group %s",
                      e->rank, e->name, e->seen, e->of, e->step, group_text(hang, e->group));
        put_since(text, e);
        rs_buf_string(text, ".");
        return;
    case RS_EVIDENCE_OFF_COURSE:
        rs_buf_printf(text,
                      "Rank %" PRId64 " left its program: it called %s in group %s where it called "
                      "something else in all %" PRId64
                      " rounds before that its recorder still has.",
                      e->rank, e->name, group_text(hang, e->group), e->of);
        return;
    case RS_EVIDENCE_INSIDE:
        rs_buf_printf(text,
                      "All %" PRId64 " members are in %s, call %" PRId64
                      " of it, and nobody is through: a device, a driver or the network %s",
                      e->of, e->name, e->step,
                      finding->confidence == RS_CONFIDENCE_EXACT ? "holds it, not a program"
                                                                 : "may hold it");
        put_since(text, e);
        rs_buf_string(text, ".");
        return;
    case RS_EVIDENCE_LATE:
        say_late(hang, e, text);
        return;
    case RS_EVIDENCE_WITNESS:
        rs_buf_printf(text, "NCCL says of rank %" PRId64 ": %s", e->rank, e->name ? e->name : "");
        if (e->value != RS_NULL)
            rs_buf_printf(text, ", %" PRId64 " calls, its peers up to %" PRId64, e->value,
                          e->reference);
        rs_buf_string(text, ".");
        return;
    case RS_EVIDENCE_NOT_KNOWN:
        say_not_known(e, text);
        return;
    case RS_EVIDENCE_OWN_WORK:
    case RS_EVIDENCE_STAGE_WORK:
    case RS_EVIDENCE_TRANSFER:
    case RS_EVIDENCE_HOST_HEAD:
    case RS_EVIDENCE_WAITING:
    case RS_EVIDENCE_LOOK_AT:
    case RS_EVIDENCE_KERNELS:
    case RS_EVIDENCE_REBALANCED:
    case RS_EVIDENCE_LOAD:
    case RS_EVIDENCE_SPREAD:
        return;
    }
}

/* --- the document ----------------------------------------------------------------------------------------------- */

/* Where the culprit runs, when its host is not known: the file its dump came from names the node on most clusters. */
static void put_where(struct doc *doc, const struct rs_hang *hang, const struct rs_finding *finding)
{
    for (size_t i = 0; i < finding->place_count && i < 4; i++) {
        const struct rs_flight_dump *dump = finding->places[i].kind == RS_PLACE_RANK
                                                ? dump_of(hang, finding->places[i].rank)
                                                : NULL;
        if (dump && !finding->also_count)
            doc_bullet(doc, "The dump of rank %" PRId32 ": %s", dump->rank, dump->path);
    }
}

/* Where to type what: the process is known where the rank itself was asked. */
static void put_process(struct doc *doc, const struct rs_hang *hang,
                        const struct rs_finding *finding)
{
    for (size_t i = 0; i < finding->place_count && i < 4; i++) {
        const struct rs_flight_dump *dump = finding->places[i].kind == RS_PLACE_RANK
                                                ? dump_of(hang, finding->places[i].rank)
                                                : NULL;
        if (dump && dump->pid > 0)
            doc_bullet(doc,
                       "Rank %" PRId32 " is process %" PRId32 "%s%s: py-spy dump --pid %" PRId32
                       " says there where it is.",
                       dump->rank, dump->pid, *dump->host ? " on " : "", dump->host, dump->pid);
        else if (dump && finding->kind == RS_FINDING_HANG)
            doc_bullet(doc,
                       "py-spy dump --pid PID says where rank %" PRId32
                       " is; its dump does not tell the process.",
                       dump->rank);
    }
}

static const char *advice(const struct rs_finding *finding)
{
    switch (finding->kind) {
    case RS_FINDING_HANG:
        return evidence_of(finding, RS_EVIDENCE_INSIDE)
                   ? "Look at the devices and links of this group (nvidia-smi, dmesg for Xid, the "
                     "switch's counters); NCCL's RAS (ncclras) names a dead peer if there is one."
                   : "Look at this process first. If it is gone or does not answer, its node is the "
                     "one to drain.";
    case RS_FINDING_MISMATCH:
        return "This is the program: control flow or data of the named rank differs from the "
               "others'. Restarting without a change will hang again.";
    case RS_FINDING_DEADLOCK:
        return "This is the program: the two orders of calls above must be the same on all ranks. No "
               "node is at fault.";
    case RS_FINDING_SILENT_RANK:
        return "Probable, not proved. Is its process alive, is its node reachable? A rank that died "
               "leaves no dump: look there first.";
    case RS_FINDING_SLOW_RANK:
        return "The job is not hung. Record steps (rankscope capture) to see what this rank does.";
    case RS_FINDING_SLOW_LINK:
    case RS_FINDING_SLOW_GROUP:
    case RS_FINDING_SLOW_STAGE:
    case RS_FINDING_SLOW_HOST:
    case RS_FINDING_DATA_STALL:
    case RS_FINDING_HOST_GAP:
    case RS_FINDING_IMBALANCE:
    case RS_FINDING_JITTER:
    case RS_FINDING_OP:
        break;
    }
    return "";
}

static void put_finding(struct doc *doc, const struct rs_hang *hang, size_t index)
{
    const struct rs_finding *finding = &hang->findings[index];
    size_t ranks = 0;
    for (size_t i = 0; i < finding->place_count; i++)
        ranks += finding->places[i].kind == RS_PLACE_RANK;
    struct rs_buf text = {0}, cost = {0};
    subject(hang, finding, &text);
    rs_buf_printf(&text, " %s.", verdict(finding, ranks <= 1));
    const struct rs_evidence *blocked = evidence_of(finding, RS_EVIDENCE_BLOCKED);
    if (blocked)
        rs_buf_printf(&cost,
                      "%" PRId64 " of %" PRId64 " ranks wait in the end (%s, confidence %s).",
                      blocked->value, blocked->of, rs_finding_kind_text(finding->kind),
                      rs_confidence_text(finding->confidence));
    else
        rs_buf_printf(&cost, "(%s, confidence %s)", rs_finding_kind_text(finding->kind),
                      rs_confidence_text(finding->confidence));
    doc_finding(doc, index + 1, rs_buf_text(&text), rs_buf_text(&cost));
    put_where(doc, hang, finding);
    for (size_t i = 0; i < finding->evidence_count; i++) {
        if (finding->evidence[i].what == RS_EVIDENCE_BLOCKED)
            continue;
        rs_buf_reset(&text);
        say(hang, finding, &finding->evidence[i], &text);
        if (text.length)
            doc_bullet(doc, "%s", rs_buf_text(&text));
    }
    put_process(doc, hang, finding);
    doc_bullet(doc, "%s", advice(finding));
    rs_buf_fini(&text);
    rs_buf_fini(&cost);
}

/* Nobody waits, and somebody is not there: where a process dies, gloo ends its neighbours' calls with an error. */
static void put_absent(struct doc *doc, const struct rs_hang *hang)
{
    struct rs_buf text = {0};
    put_ranks(&text, hang->silent, hang->silent_count, RANKS_TOLD);
    doc_paragraph(
        doc, DOC_PLAIN,
        "Of rank%s %s there is nothing. A process that was killed leaves no dump and gives no answer: "
        "look whether it lives, unless it was not asked. If it does not, the logs of the others have "
        "an error in the call in which they lost it.",
        hang->silent_count == 1 ? "" : "s", rs_buf_text(&text));
    rs_buf_fini(&text);
}

static void put_nobody(struct doc *doc, const struct rs_hang *hang)
{
    char longest[UNIT_TEXT_BYTES], limit[UNIT_TEXT_BYTES];
    doc_heading(doc, "Nobody is named", "");
    unit_people_time(limit, hang->limit_ns);
    switch (hang->state) {
    case RS_HANG_NOTHING:
        doc_paragraph(
            doc, DOC_PLAIN,
            "No call is open that another rank did not see end: as far as these dumps go, the "
            "job does not hang.");
        if (hang->silent_count)
            put_absent(doc, hang);
        return;
    case RS_HANG_IN_FLIGHT:
        if (hang->longest_wait_ns != RS_NULL) {
            unit_people_time(longest, hang->longest_wait_ns);
            doc_paragraph(
                doc, DOC_PLAIN,
                "%zu calls are open, the longest for %s when its dump was made. That is no "
                "hang yet: the limit is %s, from this job's own pauses (--min-wait).",
                hang->wait_count, longest, limit);
        } else {
            doc_paragraph(doc, DOC_PLAIN,
                          "%zu calls are open, and all members are in them: they may be under way. "
                          "How long they waited is not known, because the files are not as the "
                          "job wrote them.",
                          hang->wait_count);
        }
        return;
    case RS_HANG_UNDECIDED:
        doc_paragraph(doc, DOC_PLAIN,
                      "%zu calls wait for ranks that cannot be judged: their dumps are missing, "
                      "truncated, or older than the others'. Fetch the dumps again, all at once.",
                      hang->wait_count);
        return;
    case RS_HANG_HUNG:
        return;
    }
}

/* Waits in the same call are one row. */
static int by_call(const void *a, const void *b)
{
    const struct rs_hang_wait *x = *(const struct rs_hang_wait *const *)a;
    const struct rs_hang_wait *y = *(const struct rs_hang_wait *const *)b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->is_p2p != y->is_p2p)
        return x->is_p2p ? 1 : -1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool is_one_call(const struct rs_hang_wait *a, const struct rs_hang_wait *b)
{
    return a->group == b->group && !a->is_p2p && !b->is_p2p && a->seq == b->seq;
}

static void put_row(struct doc *doc, const struct rs_hang *hang,
                    const struct rs_hang_wait *const *waits, size_t count)
{
    struct rs_buf text = {0};
    int32_t ranks[RANKS_TOLD * 2];
    size_t told = 0;
    int64_t since = RS_NULL;
    for (size_t i = 0; i < count; i++) {
        if (told < (size_t)RANKS_TOLD * 2)
            ranks[told++] = waits[i]->rank;
        if (waits[i]->since_ns != RS_NULL && (since == RS_NULL || waits[i]->since_ns < since))
            since = waits[i]->since_ns;
    }
    doc_cell(doc, DOC_PLAIN, "%s", group_text(hang, waits[0]->group));
    doc_cell(doc, DOC_PLAIN, "%s", rs_flight_op_text(waits[0]->op));
    doc_cell(doc, DOC_PLAIN, "%" PRId64, waits[0]->seq);
    put_ranks(&text, ranks, told, RANGES_IN_TABLE);
    if (count > 4)
        rs_buf_printf(&text, " (%zu)", count);
    doc_cell(doc, DOC_PLAIN, "%s", rs_buf_text(&text));
    if (waits[0]->for_count)
        doc_cell(doc, DOC_STRONG, waits[0]->for_count > 1 ? "%" PRId32 " and %zu more" : "%" PRId32,
                 waits[0]->for_rank, waits[0]->for_count - 1);
    else
        doc_cell(doc, DOC_DIM, "all are in");
    char clock[UNIT_TEXT_BYTES] = "-";
    if (since != RS_NULL)
        put_clock(clock, since);
    doc_cell(doc, DOC_PLAIN, "%s", clock);
    rs_buf_fini(&text);
}

static enum rs_status put_waits(struct doc *doc, const struct rs_hang *hang)
{
    if (!hang->wait_count)
        return RS_OK;
    const struct rs_hang_wait **waits =
        rs_mem_calloc(hang->wait_count, sizeof(const struct rs_hang_wait *));
    if (!waits)
        return RS_NOMEM;
    for (size_t i = 0; i < hang->wait_count; i++)
        waits[i] = &hang->waits[i];
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are sorted */
    qsort(waits, hang->wait_count, sizeof(const struct rs_hang_wait *), by_call);
    doc_heading(doc, "Who waits for whom", "");
    doc_table_begin(doc);
    doc_column(doc, DOC_LEFT, "group");
    doc_column(doc, DOC_LEFT, "call");
    doc_column(doc, DOC_RIGHT, "number");
    doc_column(doc, DOC_LEFT, "ranks in it");
    doc_column(doc, DOC_LEFT, "wait for");
    doc_column(doc, DOC_LEFT, "since");
    size_t rows = 0, left = 0;
    for (size_t i = 0; i < hang->wait_count;) {
        size_t end = i + 1;
        while (end < hang->wait_count && is_one_call(waits[i], waits[end]))
            end++;
        if (rows++ < WAITS_SHOWN)
            put_row(doc, hang, waits + i, end - i);
        else
            left++;
        i = end;
    }
    doc_table_end(doc);
    if (left)
        doc_paragraph(doc, DOC_DIM, "%zu more are in hang.json.", left);
    rs_mem_free(waits);
    return RS_OK;
}

/* --- nodes ------------------------------------------------------------------------------------------------------ */

struct node_row {
    const char *host;
    size_t first, count; /* of the dumps, sorted by host */
    size_t named, waiting;
};

static int by_host(const void *a_, const void *b_)
{
    const struct rs_flight_dump *a = *(const struct rs_flight_dump *const *)a_;
    const struct rs_flight_dump *b = *(const struct rs_flight_dump *const *)b_;
    const int order = strcmp(a->host, b->host);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* Those with a named rank first, then in order of their first rank. */
static int by_blame(const void *a_, const void *b_)
{
    const struct node_row *a = a_, *b = b_;
    if (!a->named != !b->named)
        return a->named ? -1 : 1;
    return strcmp(a->host, b->host);
}

static bool is_named(const struct rs_hang *hang, int32_t rank)
{
    for (size_t i = 0; i < hang->finding_count; i++)
        for (size_t k = 0; k < hang->findings[i].place_count; k++)
            if (hang->findings[i].places[k].kind == RS_PLACE_RANK &&
                hang->findings[i].places[k].rank == rank)
                return true;
    return false;
}

static int by_wait_rank(const void *key, const void *wait)
{
    const int32_t rank = *(const int32_t *)key, other = ((const struct rs_hang_wait *)wait)->rank;
    return (rank > other) - (rank < other);
}

static bool waits(const struct rs_hang *hang, int32_t rank)
{
    return hang->wait_count &&
           bsearch(&rank, hang->waits, hang->wait_count, sizeof *hang->waits, by_wait_rank) != NULL;
}

static void put_node_row(struct doc *doc, const struct rs_flight_dump *const *dumps,
                         const struct rs_hang *hang, const struct node_row *row)
{
    int32_t ranks[RANKS_TOLD * 2], named[RANKS_TOLD];
    size_t rank_count = 0, named_count = 0;
    struct rs_buf text = {0};
    for (size_t i = row->first; i < row->first + row->count; i++) {
        if (rank_count < (size_t)RANKS_TOLD * 2)
            ranks[rank_count++] = dumps[i]->rank;
        if (is_named(hang, dumps[i]->rank) && named_count < RANKS_TOLD)
            named[named_count++] = dumps[i]->rank;
    }
    doc_cell(doc, row->named ? DOC_ALARM : DOC_PLAIN, "%s", row->host);
    put_ranks(&text, ranks, rank_count, RANGES_IN_TABLE);
    doc_cell(doc, DOC_PLAIN, "%s", rs_buf_text(&text));
    rs_buf_reset(&text);
    put_ranks(&text, named, named_count, RANGES_IN_TABLE);
    doc_cell(doc, row->named ? DOC_ALARM : DOC_DIM, "%s", row->named ? rs_buf_text(&text) : "-");
    doc_cell(doc, DOC_PLAIN, "%zu of %zu", row->waiting, row->count);
    rs_buf_fini(&text);
}

static void put_node_table(struct doc *doc, const struct rs_hang *hang,
                           const struct rs_flight_dump *const *dumps, struct node_row *rows,
                           size_t count)
{
    doc_heading(doc, "Nodes", "");
    doc_table_begin(doc);
    doc_column(doc, DOC_LEFT, "node");
    doc_column(doc, DOC_LEFT, "ranks");
    doc_column(doc, DOC_LEFT, "named");
    doc_column(doc, DOC_RIGHT, "ranks that wait");
    for (size_t i = 0; i < count && i < NODES_SHOWN; i++)
        put_node_row(doc, dumps, hang, &rows[i]);
    doc_table_end(doc);
    if (count > NODES_SHOWN)
        doc_paragraph(doc, DOC_DIM, "%zu more nodes have no named rank, or are in hang.json.",
                      count - NODES_SHOWN);
}

/* Which node it is about; nothing when hosts are not known, or there is but one. */
static enum rs_status put_nodes(struct doc *doc, const struct rs_hang *hang)
{
    const struct rs_flight_set *set = hang->set;
    const struct rs_flight_dump **dumps =
        rs_mem_calloc(set->dump_count + 1, sizeof(const struct rs_flight_dump *));
    struct node_row *rows = rs_mem_calloc(set->dump_count + 1, sizeof *rows);
    size_t count = 0, known = 0;
    if (!dumps || !rows) {
        rs_mem_free(dumps);
        rs_mem_free(rows);
        return RS_NOMEM;
    }
    for (size_t i = 0; i < set->dump_count; i++)
        if (*set->dumps[i].host)
            dumps[known++] = &set->dumps[i];
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are sorted */
    qsort(dumps, known, sizeof(const struct rs_flight_dump *), by_host);
    for (size_t i = 0; i < known; i++) {
        if (!count || strcmp(rows[count - 1].host, dumps[i]->host) != 0)
            rows[count++] = (struct node_row){.host = dumps[i]->host, .first = i};
        struct node_row *row = &rows[count - 1];
        row->count++;
        row->named += is_named(hang, dumps[i]->rank);
        row->waiting += waits(hang, dumps[i]->rank);
    }
    qsort(rows, count, sizeof *rows, by_blame);
    if (count > 1 && hang->finding_count)
        put_node_table(doc, hang, dumps, rows, count);
    rs_mem_free(dumps);
    rs_mem_free(rows);
    return RS_OK;
}

static void put_coverage(struct doc *doc, const struct rs_hang *hang)
{
    const struct rs_flight_set *set = hang->set;
    struct rs_buf text = {0};
    doc_heading(doc, "What was seen", "");
    doc_bullet(doc,
               "%zu dumps of %" PRId32 " ranks, %zu calls; %" PRId64
               " older ones were dropped by the "
               "rings and are not counted as missing.",
               set->dump_count, hang->world_size, set->entry_count, hang->dropped_calls);
    if (hang->silent_count) {
        put_ranks(&text, hang->silent, hang->silent_count, RANKS_TOLD);
        doc_bullet(doc, "No dump of rank%s %s.", hang->silent_count == 1 ? "" : "s",
                   rs_buf_text(&text));
    }
    for (size_t i = 0; i < set->dump_count; i++)
        if (set->dumps[i].problem)
            doc_bullet(doc, "Rank %" PRId32 ": %s", set->dumps[i].rank, set->dumps[i].problem);
    if (hang->stale_dumps)
        doc_bullet(doc, "%zu dumps are older than the others': those ranks were not judged.",
                   hang->stale_dumps);
    if (hang->is_half_blind)
        doc_bullet(doc, "gloo records no sends and receives, and no times of completion.");
    if (set->witness_count)
        doc_bullet(doc, "%zu statements of NCCL itself (RAS, Inspector).", set->witness_count);
    rs_buf_fini(&text);
}

static struct doc *make_doc(const struct rs_hang *hang)
{
    const struct rs_flight_set *set = hang->set;
    struct doc *doc = doc_new();
    if (!doc)
        return NULL;
    const char *backend =
        set->dump_count ? rs_strtab_text(&set->strings, set->dumps[0].backend) : "";
    doc_title(doc, "Rankscope  %" PRId32 " rank%s, %zu dump%s%s%s: %s", hang->world_size,
              hang->world_size == 1 ? "" : "s", set->dump_count, set->dump_count == 1 ? "" : "s",
              *backend ? " of " : "", backend,
              hang->state == RS_HANG_HUNG ? "the job hangs"
              : hang->state == RS_HANG_NOTHING
                  ? hang->silent_count ? "nobody waits, somebody is missing" : "no hang"
              : hang->state == RS_HANG_IN_FLIGHT ? "calls are under way"
                                                 : "cannot be decided");
    for (size_t i = 0; i < hang->finding_count; i++)
        put_finding(doc, hang, i);
    if (hang->untold_count)
        doc_paragraph(doc, DOC_PLAIN,
                      "Others wait for %zu more rank%s or circle%s of ranks, which are not listed.",
                      hang->untold_count, hang->untold_count == 1 ? "" : "s",
                      hang->untold_count == 1 ? "" : "s");
    if (!hang->finding_count || hang->state == RS_HANG_UNDECIDED)
        put_nobody(doc, hang);
    if (put_nodes(doc, hang) != RS_OK || put_waits(doc, hang) != RS_OK) {
        doc_free(&doc);
        return NULL;
    }
    put_coverage(doc, hang);
    if (doc_failed(doc))
        doc_free(&doc);
    return doc;
}

enum form { FORM_TEXT, FORM_MARKDOWN, FORM_HTML };

static enum rs_status render(const struct rs_hang *hang, enum form form,
                             struct rs_output_style style, struct rs_buf *buf, struct rs_err *err)
{
    struct doc *doc = make_doc(hang);
    if (!doc)
        return rs_err_set(err, RS_NOMEM, "no memory for the report");
    if (form == FORM_TEXT)
        doc_as_text(doc, style, buf);
    else if (form == FORM_MARKDOWN)
        doc_as_markdown(doc, buf);
    else
        doc_as_html(doc, NULL, buf);
    doc_free(&doc);
    return buf->failed ? rs_err_set(err, RS_NOMEM, "no memory for the report") : RS_OK;
}

enum rs_status rs_output_hang_text(const struct rs_hang *hang, struct rs_output_style style,
                                   struct rs_buf *buf, struct rs_err *err)
{
    return render(hang, FORM_TEXT, style, buf, err);
}

enum rs_status rs_output_hang_markdown(const struct rs_hang *hang, struct rs_buf *buf,
                                       struct rs_err *err)
{
    return render(hang, FORM_MARKDOWN, (struct rs_output_style){.width = 0}, buf, err);
}

enum rs_status rs_output_hang_html(const struct rs_hang *hang, struct rs_buf *buf,
                                   struct rs_err *err)
{
    return render(hang, FORM_HTML, (struct rs_output_style){.width = 0}, buf, err);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static enum rs_status write_file(const char *dir, const char *name, const struct rs_buf *buf,
                                 struct rs_err *err)
{
    char *path = rs_file_join(dir, name);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory");
    const enum rs_status status = rs_file_replace(path, buf->data, buf->length, false, err);
    rs_mem_free(path);
    return status;
}

enum rs_status rs_output_hang_write(const struct rs_hang *hang, const char *dir, struct rs_err *err)
{
    const struct rs_output_style plain = {.width = 96};
    struct rs_buf buf = {0};
    enum rs_status status = rs_file_make_dirs(dir, RS_FOLDER_MODE, err);
    if (status == RS_OK)
        rs_file_sweep(dir);
    if (status == RS_OK)
        status = rs_output_hang_json(hang, &buf, err);
    if (status == RS_OK)
        status = write_file(dir, "hang.json", &buf, err);
    rs_buf_reset(&buf);
    if (status == RS_OK)
        status = rs_output_hang_markdown(hang, &buf, err);
    if (status == RS_OK)
        status = write_file(dir, "hang.md", &buf, err);
    rs_buf_reset(&buf);
    if (status == RS_OK)
        status = rs_output_hang_text(hang, plain, &buf, err);
    if (status == RS_OK)
        status = write_file(dir, "hang.txt", &buf, err);
    rs_buf_reset(&buf);
    if (status == RS_OK)
        status = rs_output_hang_html(hang, &buf, err);
    if (status == RS_OK)
        status = write_file(dir, "report.html", &buf, err);
    rs_buf_fini(&buf);
    return status;
}
