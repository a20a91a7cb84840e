/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a rank without a trace: what its own step figures, its operations and, where there is one, its table of operators
 * say together.
 *
 *   official figures    Preparing |<------------- Stage + Bubble ------------->|        Computing, Overlapped, Free: sums
 *   operations                              [==== a ====]   [== b ==] [= c =]
 *   without a table              [ work ]               [work]      []        [work]
 *
 * The first and the last piece of work lie where the extent of the figures reaches beyond the operations: before the first one as
 * far as the step before leaves room, the rest behind the last one. What the operations leave free is work but for what
 * the figures call free, which stands before each piece in equal parts; what was computed under operations is put under those of
 * the one communicator that has the time for it and moves most, in equal parts. So every sum is the profiler's own, the time between two operations is
 * exact, and only how idle time and overlapped work spread inside a step is not known: the rank says so.
 *
 * A step is whole only if its figures and its rows agree: operations cover what the figures call communication, lie inside
 * their extent, and leave room for the computing. Else it stays a guess, and the reason is the rank's.
 */
#include "ascend/source/ascend_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPUTING, EXPOSED, OVERLAPPED, COMMUNICATION, FREE, STAGE, BUBBLE, EXCLUDED, PREPARING };
enum { PS_PER_NS = 1000, INFERRED_STREAM = 1 << 21 };

struct piece {
    rs_ns start, end;
};

/* A row of the files, by the step they put it into. */
struct placed {
    int64_t step;
    rs_ns start, end;
    const char *hash; /* of an operation's communicator; NULL: an operator, or not told */
    int64_t moved;    /* bytes over links; -1 unknown */
    bool is_op;
};

/* A row of the step figures; several devices have several of a step. */
struct own_step {
    int64_t step;
    const struct rs_vendor_step *figures;
};

struct settling {
    struct text_reader *reader;
    LIST(struct placed) rows;   /* by step, then start */
    LIST(struct own_step) owns; /* by step */
};

/* The step at hand. */
struct shape {
    struct host_step *step;
    rs_dur figures[RS_VENDOR_STEP_FIELDS]; /* ns */
    int64_t device;
    rs_ns first, last;         /* of its rows; then of its work */
    rs_ns free_from;           /* the end of the step before */
    const struct placed *rows; /* of the step */
    size_t row_count;
    LIST(struct piece) ops;    /* by start; then without overlaps */
    LIST(struct piece) listed; /* work of the table, the same way */
    rs_dur covered;            /* by operations */
};

static int by_start(const void *a_, const void *b_)
{
    const struct piece *a = a_, *b = b_;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static int by_rows(const void *a_, const void *b_)
{
    const struct host_step *a = a_, *b = b_;
    return (a->host_start > b->host_start) - (a->host_start < b->host_start);
}

/* The union, in place; its length. */
static rs_dur unite(struct piece *pieces, size_t *count_p)
{
    size_t kept = 0;
    rs_dur sum = 0;
    if (*count_p)
        qsort(pieces, *count_p, sizeof *pieces, by_start);
    for (size_t i = 0; i < *count_p; i++) {
        if (kept && pieces[i].start <= pieces[kept - 1].end) {
            if (pieces[i].end > pieces[kept - 1].end)
                pieces[kept - 1].end = pieces[i].end;
        } else {
            pieces[kept++] = pieces[i];
        }
    }
    for (size_t i = 0; i < kept; i++)
        sum += pieces[i].end - pieces[i].start;
    *count_p = kept;
    return sum;
}

/* ---- do the files agree ---- */

/* Times of text are doubles of us: a quarter of a us each, and the sums of many. */
static bool is_near(rs_dur a, rs_dur b, size_t rows)
{
    const rs_dur slack = (rs_dur)(1000 + 500 * rows), by = llabs(a - b);
    return by <= slack || by <= b / 1000;
}

/* NULL: they do; else which figure they do not. */
static const char *disagrees(struct shape *shape, const struct text_reader *reader)
{
    const rs_dur *own = shape->figures;
    const size_t rows = shape->ops.count + shape->listed.count;
    const rs_dur extent = own[STAGE] + own[BUBBLE];
    if (!is_near(shape->covered, own[COMMUNICATION], rows))
        return "Communication";
    if (shape->last - shape->first > extent && !is_near(shape->last - shape->first, extent, rows))
        return "Stage";
    if (reader->has_table)
        return is_near(unite(shape->listed.items, &shape->listed.count), own[COMPUTING], rows)
                   ? NULL
                   : "Computing";
    const rs_dur between = extent - own[COMMUNICATION], work = own[COMPUTING] - own[OVERLAPPED];
    if (work > between && !is_near(work, between, rows))
        return "Computing";
    return own[OVERLAPPED] <= own[COMMUNICATION] ? NULL : "Overlapped";
}

/* ---- the work ---- */

static enum rs_status emit_piece(struct text_reader *reader, const struct shape *shape, rs_ns start,
                                 rs_ns end, struct rs_err *err)
{
    struct ascend *a = &reader->a;
    struct ascend_row row = {.kind = RS_KIND_KERNEL,
                             .flags = RS_EVENT_COMPUTING,
                             .start = start,
                             .end = end,
                             .correlation = -1,
                             .external_id = -1,
                             .bytes = -1};
    if (end <= start)
        return RS_OK;
    enum rs_status status = ascend_text(a, "computing that no file lists", &row.name);
    if (status == RS_OK)
        status = ascend_text(a, "kernel", &row.category);
    if (status == RS_OK)
        status = ascend_device_lane(a, shape->device, INFERRED_STREAM, NULL, &row.lane);
    size_t at;
    ascend_text_widen(reader, start, end);
    return status == RS_OK ? ascend_emit(a, &row, &at, err) : ascend_text_fail(reader, status, err);
}

/* Where the extent of the figures reaches beyond the operations. */
static void stretch(struct shape *shape)
{
    const rs_dur beyond =
        shape->figures[STAGE] + shape->figures[BUBBLE] - (shape->last - shape->first);
    if (beyond <= 0)
        return;
    const rs_dur room = shape->free_from == RS_NS_MIN ? beyond : shape->first - shape->free_from;
    const rs_dur before = beyond < room ? beyond : room > 0 ? room : 0;
    shape->first -= before;
    shape->last += beyond - before;
}

static int by_length(const void *a_, const void *b_)
{
    const struct piece *a = a_, *b = b_;
    const rs_dur x = a->end - a->start, y = b->end - b->start;
    return x != y ? (x < y ? -1 : 1) : by_start(a_, b_);
}

/* `total` in equal parts, as far as they fit: the part of the piece at `at`, of those sorted by length. */
static rs_dur part_of(const struct piece *pieces, size_t count, size_t at, rs_dur *total)
{
    const rs_dur room = pieces[at].end - pieces[at].start, part = *total / (rs_dur)(count - at);
    const rs_dur taken = part < room ? part : room;
    *total -= taken;
    return taken;
}

/* What the operations leave free, `work` of it in all. Idle comes before each piece, in equal parts: a launch takes its
 * time whatever is launched, and a gap no longer than that holds no work. */
static enum rs_status emit_between(struct text_reader *reader, const struct shape *shape,
                                   rs_dur work, struct rs_err *err)
{
    LIST(struct piece) gaps = {0};
    rs_dur idle = -work;
    rs_ns from = shape->first;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i <= shape->ops.count && status == RS_OK; i++) {
        const rs_ns to = i < shape->ops.count ? shape->ops.items[i].start : shape->last;
        if (to > from) {
            idle += to - from;
            PUSH(&gaps, status, (struct piece){from, to});
        }
        if (i < shape->ops.count)
            from = shape->ops.items[i].end;
    }
    status = ascend_text_fail(reader, status, err);
    idle = idle > 0 ? idle : 0;
    if (gaps.count)
        qsort(gaps.items, gaps.count, sizeof *gaps.items, by_length);
    for (size_t i = 0; i < gaps.count && status == RS_OK; i++)
        status = emit_piece(reader, shape,
                            gaps.items[i].start + part_of(gaps.items, gaps.count, i, &idle),
                            gaps.items[i].end, err);
    rs_mem_free(gaps.items);
    return status;
}

struct under {
    const char *hash;
    rs_dur time;
    int64_t moved, ops;
};

/* Large transfers are what is worth computing beside; of equals the one with less time for it. */
static bool is_better(const struct under *a, const struct under *b)
{
    const int64_t x = a->moved / a->ops, y = b->moved / b->ops;
    return x != y ? x > y : a->time < b->time;
}

/* The communicator under whose operations the overlapped work ran: they have room for all of it, and move most for each.
 * NULL: none has the room, so all of them. */
static const char *group_under(const struct shape *shape, rs_dur work)
{
    enum { GROUPS = 64 };
    struct under groups[GROUPS];
    const struct under *best = NULL;
    size_t count = 0;
    for (size_t i = 0; i < shape->row_count; i++) {
        const struct placed *row = &shape->rows[i];
        size_t at = 0;
        while (row->hash && at < count && strcmp(groups[at].hash, row->hash) != 0)
            at++;
        if (!row->hash || at == GROUPS)
            continue;
        if (at == count)
            groups[count++] = (struct under){.hash = row->hash};
        groups[at].time += row->end - row->start;
        groups[at].ops++;
        groups[at].moved += row->moved > 0 ? row->moved : 0;
    }
    for (size_t i = 0; i < count; i++) {
        const bool has_room = groups[i].time >= work || is_near(groups[i].time, work, 2 * count);
        if (has_room && (!best || is_better(&groups[i], best)))
            best = &groups[i];
    }
    return best ? best->hash : NULL;
}

/* Work that ran while operations did, from the start of each: equal parts, as far as they fit (what is computed beside a
 * bucket does not grow because somebody is late for it). Where operations overlap each other, their union is what holds it. */
static enum rs_status emit_under(struct text_reader *reader, const struct shape *shape, rs_dur work,
                                 struct rs_err *err)
{
    LIST(struct piece) ops = {0};
    enum rs_status status = RS_OK;
    const char *hash = work > 0 ? group_under(shape, work) : NULL;
    for (size_t i = 0; i < shape->row_count && work > 0 && status == RS_OK; i++) {
        const struct placed *row = &shape->rows[i];
        if (row->is_op && (!hash || (row->hash && strcmp(row->hash, hash) == 0)))
            PUSH(&ops, status, (struct piece){row->start, row->end});
    }
    status = ascend_text_fail(reader, status, err);
    (void)unite(ops.items, &ops.count);
    if (ops.count)
        qsort(ops.items, ops.count, sizeof *ops.items, by_length);
    for (size_t i = 0; i < ops.count && status == RS_OK; i++) {
        const rs_ns start = ops.items[i].start;
        status =
            emit_piece(reader, shape, start, start + part_of(ops.items, ops.count, i, &work), err);
    }
    rs_mem_free(ops.items);
    return status;
}

/* ---- one step ---- */

static int by_step(const void *a_, const void *b_)
{
    const struct own_step *a = a_, *b = b_;
    return (a->step > b->step) - (a->step < b->step);
}

static int by_place(const void *a_, const void *b_)
{
    const struct placed *a = a_, *b = b_;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

/* NULL: none, or of several devices: which one an operation ran on is not told. */
static const struct rs_vendor_step *figures_of(const struct settling *settling, int64_t number)
{
    size_t low = 0, high = settling->owns.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (settling->owns.items[middle].step < number)
            low = middle + 1;
        else
            high = middle;
    }
    const struct own_step *own = settling->owns.items + low;
    const size_t left = settling->owns.count - low;
    return left && own->step == number && (left == 1 || own[1].step != number) ? own->figures
                                                                               : NULL;
}

static void rows_of(const struct settling *settling, struct shape *shape)
{
    const int64_t number = shape->step->number;
    size_t low = 0, high = settling->rows.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (settling->rows.items[middle].step < number)
            low = middle + 1;
        else
            high = middle;
    }
    shape->rows = settling->rows.items + low;
    shape->row_count = 0;
    while (low + shape->row_count < settling->rows.count &&
           shape->rows[shape->row_count].step == number)
        shape->row_count++;
}

/* Documents of communication name no device: it is the one that the figures name. */
static void settle_device(struct text_reader *reader)
{
    const struct rs_provenance *vendor = reader->a.stream->info.vendor;
    const int64_t device = vendor && vendor->step_count ? vendor->steps[0].device : -1;
    for (size_t i = 0; vendor && i < vendor->step_count; i++)
        if (vendor->steps[i].device != device)
            return;
    for (size_t i = 0; i < reader->ops.count && reader->json.count && device >= 0; i++)
        reader->ops.items[i].op.device = device;
}

/* Rows of the files and of the figures, by step. */
static enum rs_status sort_all(struct settling *settling)
{
    struct text_reader *reader = settling->reader;
    const struct rs_provenance *vendor = reader->a.stream->info.vendor;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < reader->ops.count && status == RS_OK; i++) {
        const struct hccl_op *op = &reader->ops.items[i];
        const struct json_op *told = op->op.id >= 0 && (size_t)op->op.id < reader->json.count
                                         ? &reader->json.items[op->op.id]
                                         : NULL;
        PUSH(&settling->rows, status,
             (struct placed){op->step, op->op.start, op->op.end, told ? told->hash : NULL,
                             told ? told->moved : -1, true});
    }
    for (size_t i = 0; i < reader->listed.count && status == RS_OK; i++)
        PUSH(&settling->rows, status,
             (struct placed){reader->listed.items[i].step, reader->listed.items[i].start,
                             reader->listed.items[i].end, NULL, -1, false});
    for (size_t i = 0; vendor && i < vendor->step_count && status == RS_OK; i++) {
        const char *text = rs_strtab_text(&reader->a.stream->strings, vendor->steps[i].step);
        char *end;
        const long long number = strtoll(text, &end, 10);
        if (*text && !*end)
            PUSH(&settling->owns, status, (struct own_step){number, &vendor->steps[i]});
    }
    if (status == RS_OK && settling->rows.count)
        qsort(settling->rows.items, settling->rows.count, sizeof *settling->rows.items, by_place);
    if (status == RS_OK && settling->owns.count)
        qsort(settling->owns.items, settling->owns.count, sizeof *settling->owns.items, by_step);
    return status;
}

static bool take_figures(const struct rs_vendor_step *own, struct shape *shape)
{
    for (int i = 0; i < RS_VENDOR_STEP_FIELDS; i++) {
        if (own->ps[i] == RS_VENDOR_UNKNOWN)
            return false;
        shape->figures[i] = own->ps[i] / PS_PER_NS;
    }
    shape->device = own->device >= 0 ? own->device : 0;
    return shape->figures[COMPUTING] >= 0 && shape->figures[OVERLAPPED] >= 0 &&
           shape->figures[PREPARING] >= 0 && shape->figures[STAGE] + shape->figures[BUBBLE] > 0;
}

static enum rs_status gather(const struct settling *settling, struct shape *shape,
                             struct rs_err *err)
{
    enum rs_status status = RS_OK;
    shape->ops.count = shape->listed.count = 0;
    shape->first = RS_NS_MAX;
    shape->last = RS_NS_MIN;
    rows_of(settling, shape);
    for (size_t i = 0; i < shape->row_count && status == RS_OK; i++) {
        const struct placed *row = &shape->rows[i];
        if (row->is_op)
            PUSH(&shape->ops, status, (struct piece){row->start, row->end});
        else
            PUSH(&shape->listed, status, (struct piece){row->start, row->end});
        shape->first = row->start < shape->first ? row->start : shape->first;
        shape->last = row->end > shape->last ? row->end : shape->last;
    }
    shape->covered = unite(shape->ops.items, &shape->ops.count);
    return ascend_text_fail(settling->reader, status, err);
}

static void tell(struct text_reader *reader, const struct shape *shape, const char *figure)
{
    char text[160];
    (void)snprintf(text, sizeof text,
                   "%s of step %" PRId64
                   " is not what its files list: how its time was spent is not known",
                   figure, shape->step->number);
    ascend_flaw(&reader->a, text);
}

static enum rs_status settle_step(struct settling *settling, struct shape *shape,
                                  struct rs_err *err)
{
    struct text_reader *reader = settling->reader;
    struct host_step *step = shape->step;
    const struct rs_vendor_step *own = figures_of(settling, step->number);
    if (!own || !take_figures(own, shape))
        return RS_OK;
    enum rs_status status = gather(settling, shape, err);
    if (status != RS_OK || shape->first >= shape->last)
        return status;
    const char *figure = disagrees(shape, reader);
    if (figure) {
        tell(reader, shape, figure);
        return status;
    }
    if (!reader->has_table) {
        const rs_dur *figures = shape->figures;
        stretch(shape);
        status = emit_between(reader, shape, figures[COMPUTING] - figures[OVERLAPPED], err);
        if (status == RS_OK)
            status = emit_under(reader, shape, figures[OVERLAPPED], err);
        reader->has_inferred = true;
    }
    /* a host that runs ahead began the step while the device was at the one before */
    step->host_start = shape->first - shape->figures[PREPARING];
    if (step->host_start < shape->free_from)
        step->host_start = shape->free_from;
    step->host_end = shape->last;
    step->is_guess = false;
    return status;
}

/* A step lasts until the next begins: windows of a rank without launches are those of its steps. */
static void close_gaps(struct text_reader *reader)
{
    for (size_t i = 0; i + 1 < reader->steps.count; i++) {
        struct host_step *step = &reader->steps.items[i];
        const struct host_step *next = step + 1;
        if (!step->is_guess && !next->is_guess && next->host_start > step->host_end)
            step->host_end = next->host_start;
    }
}

enum rs_status ascend_text_settle_steps(struct text_reader *reader, struct rs_err *err)
{
    struct settling settling = {.reader = reader};
    struct shape shape = {.free_from = RS_NS_MIN};
    settle_device(reader);
    enum rs_status status = ascend_text_fail(reader, sort_all(&settling), err);
    if (reader->steps.count)
        qsort(reader->steps.items, reader->steps.count, sizeof *reader->steps.items, by_rows);
    for (size_t i = 0; i < reader->steps.count && status == RS_OK; i++) {
        shape.step = &reader->steps.items[i];
        status = settle_step(&settling, &shape, err);
        if (shape.step->host_end > shape.free_from)
            shape.free_from = shape.step->host_end;
    }
    close_gaps(reader);
    rs_mem_free(settling.rows.items);
    rs_mem_free(settling.owns.items);
    rs_mem_free(shape.ops.items);
    rs_mem_free(shape.listed.items);
    return status;
}
