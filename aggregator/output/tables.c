/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four CSV files, column for column as users know them: integers are ns, decimals us with
 * three decimals, an empty cell is "unknown".
 */
#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <string.h>

/* RFC 4180: quoted when it holds a comma, a quote or a line end. */
static void put_text(struct rs_buf *buf, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        rs_buf_string(buf, text);
        return;
    }
    rs_buf_u8(buf, '"');
    for (; *text; text++) {
        if (*text == '"')
            rs_buf_u8(buf, '"');
        rs_buf_u8(buf, (uint8_t)*text);
    }
    rs_buf_u8(buf, '"');
}

static void put_us(struct rs_buf *buf, int64_t ns)
{
    char text[UNIT_TEXT_BYTES];
    unit_us(text, ns);
    rs_buf_u8(buf, ',');
    rs_buf_string(buf, text);
}

/* A comma, and the number unless it is unknown. */
static void put_int(struct rs_buf *buf, int64_t value, bool is_known)
{
    rs_buf_u8(buf, ',');
    if (is_known)
        rs_buf_printf(buf, "%" PRId64, value);
}

enum rs_status table_rank_breakdown(const struct rs_analysis *analysis, struct sheet *sheet,
                                    struct rs_err *err)
{
    rs_buf_string(&sheet->buf, "Rank,Device,Window(ns),Busy(ns),Idle(ns),Computing(ns),"
                               "Communication(ns),Memory(ns),Overlapped(ns),"
                               "ExposedCommunication(ns)\n");
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        for (size_t k = 0; k < summary->device_count; k++) {
            const struct rs_device_row *d = &summary->devices[k];
            const rs_dur window = d->window_end - d->window_start;
            rs_buf_printf(&sheet->buf,
                          "%" PRId32 ",%" PRId32 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                          ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n",
                          summary->trace.rank, d->device, window, d->busy, window - d->busy,
                          d->computing, d->communication, d->memory, d->overlapped,
                          d->communication - d->overlapped);
            const enum rs_status status = sheet_drain(sheet, err);
            if (status != RS_OK)
                return status;
        }
    }
    return RS_OK;
}

/* Forgets the steps of a summary that are numbered `step`. `*hint_p` is where the last one was: rows of
 * one step come together, so most calls end at once. */
static void forget_step(const struct rs_summary *summary, int64_t step, bool *known, size_t *hint_p)
{
    if (*hint_p < summary->step_count && summary->steps[*hint_p].step == step && !known[*hint_p])
        return;
    for (size_t k = 0; k < summary->step_count; k++) {
        if (summary->steps[k].step != step)
            continue;
        known[k] = false;
        *hint_p = k;
    }
}

/* The wait of a point-to-point row is unknown across clock domains; then so is the step's sum. */
static void mark_unknown(const struct rs_analysis *analysis, const size_t *first, size_t *hints,
                         bool *known)
{
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        if (!op->is_p2p || op->has_wait)
            continue;
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            const uint32_t s = analysis->rows[r].summary;
            forget_step(analysis->summaries[s], comm_op_of(analysis, &analysis->rows[r])->step,
                        known + first[s], &hints[s]);
        }
    }
}

enum rs_status p2p_known_new(const struct rs_analysis *analysis, bool **known_p)
{
    size_t total = 0;
    size_t *first = rs_mem_calloc(2 * analysis->summary_count + 1, sizeof *first);
    if (!first)
        return RS_NOMEM;
    for (size_t i = 0; i < analysis->summary_count; i++) {
        first[i] = total;
        total += analysis->summaries[i]->step_count;
    }
    bool *known = rs_mem_calloc(total + 1, sizeof *known);
    if (known) {
        for (size_t i = 0; i < analysis->summary_count; i++)
            memset(known + first[i], analysis->ranks[i].takes_part,
                   analysis->summaries[i]->step_count);
        mark_unknown(analysis, first, first + analysis->summary_count, known);
        *known_p = known;
    }
    rs_mem_free(first);
    return known ? RS_OK : RS_NOMEM;
}

static void put_step_trace_row(struct rs_buf *buf, int32_t rank, const struct rs_step_row *step)
{
    rs_buf_printf(buf, "%" PRId32 ",%" PRId32 ",%" PRId64, rank, step->device, step->step);
    put_us(buf, step->computing);
    put_us(buf, step->communication_not_overlapped);
    put_us(buf, step->overlapped);
    put_us(buf, step->communication);
    put_us(buf, step->free);
    put_us(buf, step->stage);
    put_us(buf, step->bubble);
    put_us(buf, step->communication_not_overlapped_exclude_receive);
    if (step->has_work)
        put_us(buf, step->preparing);
    else
        rs_buf_u8(buf, ',');
}

enum rs_status table_step_trace_time(const struct rs_analysis *analysis, struct sheet *sheet,
                                     struct rs_err *err)
{
    bool *known = NULL;
    if (p2p_known_new(analysis, &known) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for step_trace_time.csv");
    rs_buf_string(&sheet->buf,
                  "Rank,Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,"
                  "Communication,Free,Stage,Bubble,"
                  "Communication(Not Overlapped and Exclude Receive),Preparing,P2PWait\n");
    enum rs_status status = RS_OK;
    size_t at = 0;
    for (size_t i = 0; i < analysis->summary_count && status == RS_OK; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        for (size_t k = 0; k < summary->step_count && status == RS_OK; k++, at++) {
            put_step_trace_row(&sheet->buf, summary->trace.rank, &summary->steps[k]);
            if (known[at])
                put_us(&sheet->buf, rs_analysis_p2p_wait(analysis, i, k));
            else
                rs_buf_u8(&sheet->buf, ',');
            rs_buf_u8(&sheet->buf, '\n');
            status = sheet_drain(sheet, err);
        }
    }
    rs_mem_free(known);
    return status;
}

enum rs_status table_step_breakdown(const struct rs_analysis *analysis, struct sheet *sheet,
                                    struct rs_err *err)
{
    rs_buf_string(&sheet->buf,
                  "Rank,Device,Step,Window(ns),Computing(ns),ExposedCommunication(ns),Memory(ns),"
                  "IdleHead(ns),IdleInside(ns),IdleTail(ns)\n");
    for (size_t i = 0; i < analysis->summary_count; i++) {
        const struct rs_summary *summary = analysis->summaries[i];
        for (size_t k = 0; k < summary->step_count; k++) {
            const struct rs_step_row *s = &summary->steps[k];
            rs_buf_printf(&sheet->buf,
                          "%" PRId32 ",%" PRId32 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                          ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n",
                          summary->trace.rank, s->device, s->step, s->window_end - s->window_start,
                          s->window_computing, s->window_exposed, s->window_memory, s->idle_head,
                          s->idle_inside, s->idle_tail);
            const enum rs_status status = sheet_drain(sheet, err);
            if (status != RS_OK)
                return status;
        }
    }
    return RS_OK;
}

static void put_collective_row(struct rs_buf *buf, const struct rs_analysis *analysis, size_t id,
                               const struct rs_job_row *row)
{
    const struct rs_job_op *op = &analysis->ops[id];
    const struct rs_comm_op *own = comm_op_of(analysis, row);
    if (op->step != RS_STEP_NONE)
        rs_buf_printf(buf, "%" PRId64, op->step);
    rs_buf_u8(buf, ',');
    put_text(buf, comm_group_text(analysis, op));
    rs_buf_printf(buf, ",%s", rs_op_type_text((enum rs_op_type)own->type));
    put_int(buf, op->seq, op->seq >= 0);
    rs_buf_printf(buf, ",%zu,%" PRId32 ",%" PRId64 ",%" PRId64, id, row->rank, own->start,
                  own->end);
    put_int(buf, own->bytes, own->bytes >= 0);
    put_int(buf, row->wait, op->has_wait);
    put_int(buf, row->transfer, op->has_wait && row->has_transfer);
    put_int(buf, op->last_rank, op->last_rank >= 0);
    put_int(buf, (int64_t)op->row_count, true);
    put_int(buf, op->ranks_expected, op->ranks_expected >= 0);
    rs_buf_string(buf, row->is_partial ? ",partial\n" : ",exact\n");
}

enum rs_status table_collectives(const struct rs_analysis *analysis, struct sheet *sheet,
                                 struct rs_err *err)
{
    rs_buf_string(&sheet->buf, "Step,Group,Op,Seq,OpId,Rank,Start(ns),End(ns),Bytes,Wait(ns),"
                               "Transfer(ns),LastRank,RanksSeen,RanksExpected,Coverage\n");
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++)
            put_collective_row(&sheet->buf, analysis, i, &analysis->rows[r]);
        const enum rs_status status = sheet_drain(sheet, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}
