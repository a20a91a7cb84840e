/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freq_analysis: ranks whose AI cores did not run at their usual frequency.
 *
 * Peer: the set of AICORE_FREQ values of a rank; {1800} is normal, {800, 1800} is a rank that
 * idled, everything else is abnormal, printed as a sorted list.
 *
 * Corrected: 1800 is one chip's number. The usual frequency is the one most samples of all ranks
 * have (the higher one when two are equal), so other chips are judged by their own.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>

enum { FREQ, SAMPLES, RANK };
#define KINDS "iii"
enum { USUAL = 1800, IDLE = 800 };

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    (void)run;
    const enum rs_status status = db_requires(in->profiler, "AICORE_FREQ.freq", err);
    if (status != RS_OK)
        return status;
    return frame_map(in, in->profiler, KINDS,
                     "SELECT CAST(freq AS INTEGER), count(*), ?3 FROM AICORE_FREQ "
                     "WHERE freq IS NOT NULL GROUP BY 1",
                     part_p, err);
}

/* The frequency with most samples. */
static enum rs_status find_usual(const struct frame *freqs, int64_t *usual_p)
{
    struct frame_order order;
    int64_t most = 0;
    const enum rs_status status = frame_order(freqs, (char[]){FREQ + 1, 0}, &order);
    if (status != RS_OK)
        return status;
    for (size_t at = 0, end = 0; at < order.count; at = end) {
        int64_t samples = 0;
        end = frame_group_end(freqs, &order, at);
        for (size_t i = at; i < end; i++)
            samples += frame_row(freqs, order.rows[i])[SAMPLES].i;
        if (samples >= most) {
            most = samples;
            *usual_p = frame_row(freqs, order.rows[at])[FREQ].i;
        }
    }
    frame_order_fini(&order);
    return RS_OK;
}

enum kind { NORMAL, FREE, ABNORMAL };

/* Order positions from..end are one rank's, ascending. */
static enum kind decide(const struct frame *freqs, const struct frame_order *order, size_t from,
                        size_t end, int64_t usual)
{
    const int64_t first = frame_row(freqs, order->rows[from])[FREQ].i;
    const int64_t last = frame_row(freqs, order->rows[end - 1])[FREQ].i;
    if (end - from == 1 && first == usual)
        return NORMAL;
    return end - from == 2 && first == IDLE && last == usual ? FREE : ABNORMAL;
}

static enum rs_status write_kind(struct run *run, const struct table *table, enum kind wanted,
                                 int64_t usual, struct rs_err *err)
{
    struct frame_state *state = run->state;
    struct frame_order order;
    struct rs_buf text = {0};
    size_t rows = 0;
    enum rs_status status = frame_order(&state->rows, (char[]){RANK + 1, FREQ + 1, 0}, &order);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort frequencies");
    frame_order_by(&order, (char[]){RANK + 1, 0});
    for (size_t at = 0, end = 0; at < order.count && status == RS_OK; at = end) {
        end = frame_group_end(&state->rows, &order, at);
        if (decide(&state->rows, &order, at, end, usual) != wanted)
            continue;
        if (rows++ == 0)
            status = table_begin(run, table, err);
        rs_buf_reset(&text);
        for (size_t i = at; i < end; i++)
            rs_buf_printf(&text, "%s%" PRId64, i == at ? "[" : ", ",
                          frame_row(&state->rows, order.rows[i])[FREQ].i);
        rs_buf_u8(&text, ']');
        const struct cell cells[] = {cell_int(frame_row(&state->rows, order.rows[at])[RANK].i),
                                     cell_text(rs_buf_text(&text))};
        if (status == RS_OK)
            status = table_row(run, cells, err);
    }
    rs_buf_fini(&text);
    frame_order_fini(&order);
    return status == RS_OK && rows ? table_end(run, err) : status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {{"rankId", 'i', NULL}, {"aicoreFrequency", 't', NULL}};
    static const struct table tables[] = {
        {"FreeFrequencyRanks", "free_frequency_ranks.csv", columns, 2, 1, false},
        {"AbnormalFrequencyRanks", "abnormal_frequency_ranks.csv", columns, 2, 1, false},
    };
    struct frame_state *state = run->state;
    int64_t usual = USUAL;
    enum rs_status status = run->options->compat ? RS_OK : find_usual(&state->rows, &usual);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to sort frequencies");
    status = write_kind(run, &tables[0], FREE, usual, err);
    return status == RS_OK ? write_kind(run, &tables[1], ABNORMAL, usual, err) : status;
}

const struct recipe recipe_freq_analysis = {
    .info = {"freq_analysis", "ranks whose AI cores did not run at their usual frequency",
             "FreeFrequencyRanks, AbnormalFrequencyRanks"},
    .folder = "FreqAnalysis",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct frame_state),
    .kinds = KINDS,
    FRAME_RECIPE,
    .map = map,
    .finish = finish,
};
