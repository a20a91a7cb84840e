/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of one collective that called different things: another operation, another size, another type.
 *
 * The majority is right, the minority is named; two against two, or one against one, names the group with both, unless the calls
 * before tell that one of them, and only one, left its program here (course.c). Where the
 * numbers of elements may differ by design (all_to_all, scatter, gather, lists of uneven tensors) only the kind counts, of all_to_all the type, too.
 * Looked at: every collective that is open somewhere, and of those that ended the ones whose size must be equal, from the
 * newest back over what all rings hold. The first of each group is named: behind it everything is shifted.
 */
#include "aggregator/analysis/hang/hang_priv.h"
#include "common/base/mem.h"

#include <string.h>

enum { LOOK_BACK = 4096 };

/* What must be equal of a call; 0 means "says nothing". */
struct shape {
    uint8_t op;
    rs_str name; /* only of operations that we do not know */
    int64_t numel;
    rs_str dtypes;
};

static struct shape shape_of(const struct rs_flight_entry *entry)
{
    struct shape shape = {.op = entry->op, .numel = -1, .dtypes = entry->dtypes};
    switch ((enum rs_flight_op)entry->op) {
    case RS_FLIGHT_ALL_REDUCE:
    case RS_FLIGHT_BROADCAST:
    case RS_FLIGHT_REDUCE:
    case RS_FLIGHT_ALL_GATHER:
        shape.numel = entry->in_numel;
        break;
    case RS_FLIGHT_REDUCE_SCATTER:
        shape.numel = entry->out_numel;
        break;
    case RS_FLIGHT_OTHER:
    case RS_FLIGHT_COALESCED:
        shape.name = entry->name;
        shape.dtypes = RS_STR_EMPTY;
        break;
    case RS_FLIGHT_ALL_TO_ALL:
        break; /* each says its own sizes, but of one type */
    case RS_FLIGHT_BARRIER:
    case RS_FLIGHT_GATHER:
    case RS_FLIGHT_SCATTER:
    case RS_FLIGHT_SEND:
    case RS_FLIGHT_RECV:
        shape.dtypes = RS_STR_EMPTY;
        break;
    }
    return shape;
}

static bool is_equal(const struct shape *a, const struct shape *b)
{
    if (a->op != b->op || a->name != b->name)
        return false;
    const bool sizes = a->numel < 0 || b->numel < 0 || a->numel == b->numel;
    const bool types = !a->dtypes || !b->dtypes || a->dtypes == b->dtypes;
    return sizes && types;
}

/* Over on everybody who has it: then only what must be equal, and would have made nonsense, counts. */
static bool may_differ(const struct rs_flight_entry *entry)
{
    return entry->op != RS_FLIGHT_ALL_REDUCE && entry->op != RS_FLIGHT_BROADCAST &&
           entry->op != RS_FLIGHT_REDUCE;
}

struct seen {
    struct shape shape;
    size_t count;
};

enum { SHAPES = 16 };

struct census {
    struct seen shapes[SHAPES];
    size_t shape_count, members;
    bool is_open;
    bool has_more; /* shapes than there is room for */
};

static void take(struct census *census, const struct rs_flight_entry *entry)
{
    const struct shape shape = shape_of(entry);
    census->members++;
    for (size_t i = 0; i < census->shape_count; i++)
        if (is_equal(&census->shapes[i].shape, &shape)) {
            census->shapes[i].count++;
            return;
        }
    census->has_more = census->has_more || census->shape_count == SHAPES;
    if (census->shape_count < SHAPES)
        census->shapes[census->shape_count++] = (struct seen){.shape = shape, .count = 1};
}

/* The shape of the majority, if there is one: of two members that differ neither counts, and a majority is not used up. */
static struct shape majority_shape(const struct hang_work *work, const struct hang_team *team,
                                   int64_t seq)
{
    struct shape shape = {.numel = -1};
    size_t left = 0;
    for (size_t m = 0; m < team->member_count; m++) {
        const struct rs_flight_entry *call = hang_call(work, &team->members[m], seq);
        if (!call)
            continue;
        const struct shape own = shape_of(call);
        shape = left ? shape : own;
        left = is_equal(&shape, &own) ? left + 1 : left - 1;
    }
    return shape;
}

static void count_shapes(const struct hang_work *work, const struct hang_team *team, int64_t seq,
                         struct census *census)
{
    for (size_t m = 0; m < team->member_count; m++) {
        const struct hang_member *member = &team->members[m];
        const struct rs_flight_dump *dump = hang_dump(work, &work->nodes[member->node]);
        const struct rs_flight_entry *call = dump ? hang_call(work, member, seq) : NULL;
        if (!call)
            continue;
        take(census, call);
        census->is_open = census->is_open || !rs_flight_is_done(dump, call);
    }
}

static struct census take_census(const struct hang_work *work, const struct hang_team *team,
                                 int64_t seq)
{
    struct census census = {.shape_count = 0};
    count_shapes(work, team, seq, &census);
    if (census.has_more) { /* the majority has to be among those that are counted */
        census = (struct census){.shapes = {{.shape = majority_shape(work, team, seq)}},
                                 .shape_count = 1};
        count_shapes(work, team, seq, &census);
    }
    return census;
}

/* The shape that most have; NULL: no majority. */
static const struct seen *majority(const struct census *census)
{
    const struct seen *most = &census->shapes[0];
    for (size_t i = 1; i < census->shape_count; i++)
        if (census->shapes[i].count > most->count)
            most = &census->shapes[i];
    return 2 * most->count > census->members ? most : NULL;
}

/* Of a group without a majority the only member that left its program; HANG_NO_NODE: none, or several. */
static uint32_t only_deviant(const struct hang_work *work, const struct hang_team *team,
                             int64_t seq)
{
    uint32_t found = HANG_NO_NODE;
    for (size_t m = 0; m < team->member_count; m++) {
        const uint32_t node = team->members[m].node;
        size_t rounds;
        if (!hang_call(work, &team->members[m], seq))
            return HANG_NO_NODE; /* its part in this is not known */
        if (!hang_off_course(work, &work->nodes[node], &rounds))
            continue;
        if (found != HANG_NO_NODE)
            return HANG_NO_NODE;
        found = node;
    }
    return found;
}

static enum rs_status add_off_course(const struct hang_work *work, struct rs_finding *finding,
                                     const struct hang_node *node)
{
    size_t rounds;
    const struct rs_flight_entry *call = hang_off_course(work, node, &rounds);
    struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_OFF_COURSE);
    struct rs_buf text = {0};
    evidence.rank = node->rank;
    evidence.group = node->teams[call->group];
    evidence.of = (int64_t)rounds;
    evidence.step = call->seq;
    hang_describe(work, call, &text);
    const enum rs_status status = hang_add_evidence(finding, evidence, rs_buf_text(&text));
    rs_buf_fini(&text);
    return status;
}

static enum rs_status tell(struct hang_work *work, uint32_t index, int64_t seq,
                           const struct census *census)
{
    enum { TOLD = 16 };
    const struct hang_team *team = &work->teams[index];
    const struct seen *most = majority(census);
    const uint32_t deviant =
        !most && census->is_open ? only_deviant(work, team, seq) : HANG_NO_NODE;
    struct rs_finding *finding = hang_add_finding(
        work->hang, RS_FINDING_MISMATCH, most ? RS_CONFIDENCE_EXACT : RS_CONFIDENCE_BOUNDED);
    enum rs_status status = finding ? RS_OK : RS_NOMEM;
    struct rs_buf text = {0};
    size_t told = 0;
    bool has_common = false;
    for (size_t m = 0; m < team->member_count && status == RS_OK; m++) {
        const struct hang_member *member = &team->members[m];
        const struct hang_node *node = &work->nodes[member->node];
        const struct rs_flight_entry *call = hang_call(work, member, seq);
        if (!call)
            continue;
        const struct shape shape = shape_of(call);
        const bool is_common = most && is_equal(&most->shape, &shape);
        if (!is_common && (deviant == HANG_NO_NODE || deviant == member->node))
            status = hang_add_rank(finding, node->rank);
        if (is_common ? has_common : told++ >= TOLD)
            continue;
        has_common = has_common || is_common;
        struct rs_evidence evidence = hang_evidence(RS_EVIDENCE_DIFFERS);
        evidence.rank = node->rank;
        evidence.group = index;
        evidence.step = seq;
        evidence.of = (int64_t)census->members;
        for (size_t i = 0; i < census->shape_count; i++)
            if (is_equal(&census->shapes[i].shape, &shape)) {
                evidence.seen = (int64_t)census->shapes[i].count;
                break;
            }
        if (call->created_ns != RS_FLIGHT_UNKNOWN)
            evidence.start_ns = call->created_ns;
        rs_buf_reset(&text);
        hang_describe(work, call, &text);
        if (status == RS_OK)
            status = hang_add_evidence(finding, evidence, rs_buf_text(&text));
        if (status == RS_OK && call->frames) {
            struct rs_evidence stack = hang_evidence(RS_EVIDENCE_STACK);
            stack.rank = node->rank;
            stack.step = seq;
            stack.group = index;
            status = hang_add_evidence(finding, stack,
                                       rs_strtab_text(&work->set->strings, call->frames));
        }
    }
    if (status == RS_OK && deviant != HANG_NO_NODE)
        status = add_off_course(work, finding, &work->nodes[deviant]);
    if (status == RS_OK)
        status = hang_add_group(work->hang, finding, index);
    rs_buf_fini(&text);
    return status;
}

/* Numbers that at least two members have: [*first, *last]; false: none. */
static bool common_range(const struct hang_work *work, const struct hang_team *team, int64_t *first,
                         int64_t *last)
{
    int64_t low = INT64_MAX, high = -1;
    for (size_t m = 0; m < team->member_count; m++) {
        const struct hang_member *member = &team->members[m];
        if (!member->count)
            continue;
        const uint32_t *calls = work->calls + member->first;
        const int64_t begin = work->set->entries[calls[0]].seq;
        const int64_t end = work->set->entries[calls[member->count - 1]].seq;
        low = begin < low ? begin : low;
        high = end > high ? end : high;
    }
    *last = high;
    *first = high - low > LOOK_BACK ? high - LOOK_BACK : low;
    return high >= 0;
}

/* Cheaper than a census of each number: each member against the one before it. True: worth a census. */
static bool any_differs(const struct hang_work *work, const struct hang_team *team, int64_t from,
                        int64_t to, int64_t *at)
{
    int64_t lowest = INT64_MAX;
    const struct hang_member *before = NULL;
    for (size_t m = 0; m < team->member_count; m++) {
        const struct hang_member *member = &team->members[m];
        if (!member->count)
            continue;
        size_t a = 0, b = 0;
        const uint32_t *mine = work->calls + member->first;
        const uint32_t *theirs = before ? work->calls + before->first : mine;
        while (before && a < member->count && b < before->count) {
            const struct rs_flight_entry *x = &work->set->entries[mine[a]];
            const struct rs_flight_entry *y = &work->set->entries[theirs[b]];
            if (x->seq != y->seq) {
                if (x->seq < y->seq)
                    a++;
                else
                    b++;
                continue;
            }
            if (x->seq >= from && x->seq <= to && x->seq < lowest) {
                const struct shape p = shape_of(x), q = shape_of(y);
                if (!is_equal(&p, &q))
                    lowest = x->seq;
            }
            a++;
            b++;
        }
        before = member;
    }
    *at = lowest;
    return lowest != INT64_MAX;
}

enum rs_status hang_find_mismatches(struct hang_work *work)
{
    enum rs_status status = RS_OK;
    for (uint32_t t = 0; t < work->hang->group_count && status == RS_OK; t++) {
        const struct hang_team *team = &work->teams[t];
        int64_t from, to, at;
        if (!common_range(work, team, &from, &to))
            continue;
        while (status == RS_OK && any_differs(work, team, from, to, &at)) {
            const struct census census = take_census(work, team, at);
            bool counts = census.is_open && team->done_seq < at;
            for (size_t i = 1; i < census.shape_count && !counts; i++) {
                /* Ended: kinds differ, or sizes of an operation that cannot live with it. */
                const struct rs_flight_entry of = {.op = census.shapes[i].shape.op};
                counts = !may_differ(&of) || census.shapes[i].shape.op != census.shapes[0].shape.op;
            }
            if (counts && census.shape_count > 1) {
                work->has_open_mismatch = work->has_open_mismatch || census.is_open;
                status = tell(work, t, at, &census);
                break;
            }
            from = at + 1;
        }
    }
    return status;
}
