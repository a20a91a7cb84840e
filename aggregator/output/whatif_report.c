/* SPDX-License-Identifier: Apache-2.0 */
/* The first sentence says who, or that it is nobody and what it is instead; the tables behind it are the evidence. */
#include "aggregator/output/whatif_report.h"

#include "common/base/json_out.h"

#include <math.h>

enum { ROWS_SHOWN = 16 };
#define PERCENT   100.0
#define NS_PER_MS 1e6
#define TOGETHER  0.9 /* forward and backward of a microbatch vary together: the study's threshold */

static void put_part(struct rs_buf *buf, const struct rs_whatif_part *part)
{
    if (part->dp_rank >= 0)
        rs_buf_printf(buf, "dp rank %d%s", (int)part->dp_rank, part->stage >= 0 ? " " : "");
    if (part->stage >= 0)
        rs_buf_printf(buf, "stage %d", (int)part->stage);
    if (part->rank >= 0)
        rs_buf_printf(buf, " (rank %d)", (int)part->rank);
}

static void put_share(struct rs_buf *buf, double share)
{
    if (isnan(share))
        rs_buf_printf(buf, "%9s", "");
    else
        rs_buf_printf(buf, "%7.1f %%", share * PERCENT);
}

static void put_rows(struct rs_buf *buf, const char *title, const struct rs_whatif_part *parts,
                     size_t count)
{
    rs_buf_printf(buf, "\n%-34s %9s %9s %12s\n", title, "slowdown", "of loss", "computing");
    for (size_t i = 0; i < count && i < ROWS_SHOWN; i++) {
        const size_t begin = buf->length;
        rs_buf_string(buf, "  ");
        put_part(buf, &parts[i]);
        const int pad = 34 - (int)(buf->length - begin);
        rs_buf_printf(buf, "%*s %9.4f ", pad > 0 ? pad : 0, "", parts[i].slowdown);
        put_share(buf, parts[i].share);
        if (isfinite(parts[i].factor))
            rs_buf_printf(buf, "      x%.2f", parts[i].factor);
        rs_buf_string(buf, "\n");
    }
    if (count > ROWS_SHOWN)
        rs_buf_printf(buf, "  %zu more: --json\n", count - ROWS_SHOWN);
}

static const struct rs_whatif_part *best_of(const struct rs_whatif_part *parts, size_t count)
{
    const struct rs_whatif_part *best = parts;
    for (size_t i = 1; i < count; i++)
        if (parts[i].share > best->share)
            best = &parts[i];
    return best;
}

static void put_nobody(struct rs_buf *buf, const struct rs_whatif *whatif)
{
    rs_buf_string(
        buf,
        "No single culprit: the most that one worker, stage or dp rank explains of the loss is ");
    put_part(buf, best_of(whatif->workers, whatif->worker_count));
    rs_buf_printf(buf, " with %.1f %%, ",
                  best_of(whatif->workers, whatif->worker_count)->share * PERCENT);
    put_part(buf, best_of(whatif->stages, whatif->stage_count));
    rs_buf_printf(buf, " with %.1f %%, ",
                  best_of(whatif->stages, whatif->stage_count)->share * PERCENT);
    put_part(buf, best_of(whatif->dp_ranks, whatif->dp_count));
    rs_buf_printf(buf, " with %.1f %%.\n",
                  best_of(whatif->dp_ranks, whatif->dp_count)->share * PERCENT);
    if (whatif->verdict == RS_WHATIF_VARYING)
        rs_buf_printf(
            buf,
            "It is variation: were each worker's operations of a type all of equal length, %.1f %% of the "
            "loss would be gone.\n",
            whatif->varying_share * PERCENT);
    else
        rs_buf_printf(
            buf,
            "It is lasting differences between many workers: evening out the operations within each worker "
            "would remove only %.1f %% of the loss.\n",
            whatif->varying_share * PERCENT);
    if (whatif->microbatch_correlation >= TOGETHER)
        rs_buf_printf(
            buf,
            "Forward and backward of the same microbatch vary together (correlation %.2f): microbatches hold "
            "unequal work, as sequences of unequal length do. Balance them.\n",
            whatif->microbatch_correlation);
    if (whatif->kind_count)
        rs_buf_printf(
            buf,
            "By operation, %s weighs most: alone it would make the job %.4f times as long as the ideal.\n",
            whatif->kinds[0].name, whatif->kinds[0].slowdown);
}

static void put_verdict(struct rs_buf *buf, const struct rs_whatif *whatif)
{
    const double loss = whatif->step_ns - whatif->ideal_ns;
    switch (whatif->verdict) {
    case RS_WHATIF_NO_LOSS:
        rs_buf_string(buf, "Nobody to name: less than 1 % of a step could be gained.\n");
        return;
    case RS_WHATIF_WORKER:
    case RS_WHATIF_STAGE:
    case RS_WHATIF_DP_RANK:
        rs_buf_string(buf, "Culprit: ");
        put_part(buf, &whatif->culprit);
        rs_buf_printf(
            buf,
            " explains %.1f %% of the loss: as fast as the mean, a step would be %.3f ms (%.1f %%) shorter",
            whatif->culprit.share * PERCENT, whatif->culprit.share * loss / NS_PER_MS,
            whatif->culprit.share * loss / whatif->step_ns * PERCENT);
        if (isfinite(whatif->culprit.factor))
            rs_buf_printf(buf, "; it computes x%.2f as long as its peers", whatif->culprit.factor);
        rs_buf_string(buf, ".\n");
        if (whatif->verdict == RS_WHATIF_STAGE)
            rs_buf_string(
                buf,
                "No single worker in it does: the stage is slow in every dp rank, so move layers off it.\n");
        return;
    case RS_WHATIF_WORKERS:
        rs_buf_printf(
            buf,
            "Culprits: %zu workers together explain %.1f %% of the loss, none of them alone:\n",
            whatif->set_count, whatif->set_share * PERCENT);
        for (size_t i = 0; i < whatif->set_count; i++) {
            rs_buf_string(buf, "  ");
            put_part(buf, &whatif->workers[i]);
            rs_buf_string(buf, "\n");
        }
        return;
    case RS_WHATIF_VARYING:
    case RS_WHATIF_SPREAD:
        put_nobody(buf, whatif);
        return;
    }
}

static enum rs_status end(const struct rs_buf *buf, struct rs_err *err)
{
    return buf->failed ? rs_err_set(err, RS_NOMEM, "no memory for the report") : RS_OK;
}

enum rs_status rs_output_whatif_text(const struct rs_whatif *whatif, struct rs_buf *buf,
                                     struct rs_err *err)
{
    put_verdict(buf, whatif);
    rs_buf_printf(
        buf,
        "\nslowdown S  %.4f   step %.3f ms, ideal %.3f ms, over %zu steps of %zu workers (%zu dp ranks, %zu stages)\n"
        "replay      %+.2f %% against the recorded step of %.3f ms; pauses between operations are left out\n",
        whatif->slowdown, whatif->step_ns / NS_PER_MS, whatif->ideal_ns / NS_PER_MS,
        whatif->step_count, whatif->worker_count, whatif->dp_count, whatif->stage_count,
        (whatif->step_ns / whatif->recorded_ns - 1) * PERCENT, whatif->recorded_ns / NS_PER_MS);
    if (!isnan(whatif->m_w))
        rs_buf_printf(buf,
                      "M_W         %.4f   of the loss by the worst %zu of the workers (3 %%)\n"
                      "M_S         %.4f   of the loss by the last stage\n",
                      whatif->m_w, whatif->worst_count, whatif->m_s);
    put_rows(buf, "workers, the worst first", whatif->workers, whatif->worker_count);
    put_rows(buf, "stages", whatif->stages, whatif->stage_count);
    put_rows(buf, "dp ranks", whatif->dp_ranks, whatif->dp_count);
    rs_buf_printf(buf, "\n%-34s %9s %9s\n", "operations", "slowdown", "of loss");
    for (size_t i = 0; i < whatif->kind_count; i++) {
        rs_buf_printf(buf, "  %-32s %9.4f ", whatif->kinds[i].name, whatif->kinds[i].slowdown);
        put_share(buf, whatif->kinds[i].share);
        rs_buf_string(buf, "\n");
    }
    rs_buf_string(
        buf,
        "\nslowdown: with only that part's times kept and all else ideal (of a worker: the smaller of its stage's "
        "and its dp rank's)\nof loss: what goes of the loss with that part ideal\n");
    return end(buf, err);
}

static void number(struct rs_json_out *json, const char *key, double value)
{
    rs_json_out_key(json, key);
    if (isnan(value))
        rs_json_out_null(json);
    else
        rs_json_out_double(json, value);
}

static void integer(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    rs_json_out_int(json, value);
}

static void json_part(struct rs_json_out *json, const struct rs_whatif_part *part)
{
    rs_json_out_object(json);
    if (part->dp_rank >= 0)
        integer(json, "dp_rank", part->dp_rank);
    if (part->stage >= 0)
        integer(json, "stage", part->stage);
    if (part->rank >= 0)
        integer(json, "rank", part->rank);
    number(json, "slowdown", part->slowdown);
    number(json, "share", part->share);
    number(json, "factor", part->factor);
    rs_json_out_end(json);
}

static void json_parts(struct rs_json_out *json, const char *key,
                       const struct rs_whatif_part *parts, size_t count)
{
    rs_json_out_key(json, key);
    rs_json_out_array(json);
    for (size_t i = 0; i < count; i++)
        json_part(json, &parts[i]);
    rs_json_out_end(json);
}

enum rs_status rs_output_whatif_json(const struct rs_whatif *whatif, struct rs_buf *buf,
                                     struct rs_err *err)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 2);
    rs_json_out_object(&json);
    integer(&json, "schema_version", 1);
    rs_json_out_key(&json, "verdict");
    rs_json_out_string(&json, rs_whatif_verdict_text(whatif->verdict));
    const bool is_set = whatif->verdict == RS_WHATIF_WORKERS;
    const bool is_part = whatif->verdict == RS_WHATIF_WORKER ||
                         whatif->verdict == RS_WHATIF_STAGE || whatif->verdict == RS_WHATIF_DP_RANK;
    json_parts(&json, "culprits", is_set ? whatif->workers : &whatif->culprit,
               is_set ? whatif->set_count : is_part);
    number(&json, "culprits_share",
           is_set    ? whatif->set_share
           : is_part ? whatif->culprit.share
                     : (double)NAN);
    integer(&json, "steps", (int64_t)whatif->step_count);
    integer(&json, "skipped_steps", (int64_t)whatif->skipped_steps);
    number(&json, "step_ns", whatif->step_ns);
    number(&json, "ideal_ns", whatif->ideal_ns);
    number(&json, "recorded_ns", whatif->recorded_ns);
    number(&json, "slowdown", whatif->slowdown);
    number(&json, "m_w", whatif->m_w);
    number(&json, "m_s", whatif->m_s);
    integer(&json, "worst_workers", (int64_t)whatif->worst_count);
    number(&json, "varying_share", whatif->varying_share);
    number(&json, "microbatch_correlation", whatif->microbatch_correlation);
    json_parts(&json, "workers", whatif->workers, whatif->worker_count);
    json_parts(&json, "stages", whatif->stages, whatif->stage_count);
    json_parts(&json, "dp_ranks", whatif->dp_ranks, whatif->dp_count);
    rs_json_out_key(&json, "operations");
    rs_json_out_array(&json);
    for (size_t i = 0; i < whatif->kind_count; i++) {
        rs_json_out_object(&json);
        rs_json_out_key(&json, "optype");
        rs_json_out_string(&json, whatif->kinds[i].name);
        number(&json, "slowdown", whatif->kinds[i].slowdown);
        number(&json, "share", whatif->kinds[i].share);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_buf_string(buf, "\n");
    return end(buf, err);
}
