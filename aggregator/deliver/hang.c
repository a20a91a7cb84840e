/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture of flight recorders -> who did not arrive -> report and files.
 *
 *     capture's folder/dumps.flight --> set of dumps --> aggregator/analysis/hang --> aggregator/output/hang_*
 */
#include "aggregator/analysis/hang/hang.h"

#include "aggregator/analysis/rows.h"
#include "aggregator/deliver/deliver.h"
#include "aggregator/output/hang_report.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/flight/pack.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { FILE_MAX_BYTES = 1 << 30 };

struct noter {
    rs_deliver_print_fn *print;
    void *self;
};

static void RS_PRINTF(2, 3) tell(const struct noter *noter, const char *format, ...)
{
    char line[2048];
    va_list args;
    if (!noter->print)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    noter->print(noter->self, line);
}

/* What is missing; true: something is. */
static bool tell_partial(const struct rs_hang *hang, const struct noter *noter)
{
    const struct rs_flight_set *set = hang->set;
    for (size_t i = 0; i < set->note_count; i++)
        tell(noter, "%s", set->notes[i]);
    for (size_t i = 0; i < set->dump_count; i++) {
        const struct rs_flight_dump *dump = &set->dumps[i];
        if (dump->problem)
            tell(noter, "%s: %s", dump->path, dump->problem);
        if (dump->bad_entries)
            tell(noter, "%s: %" PRId64 " calls have another form than ours and were left out",
                 dump->path, dump->bad_entries);
    }
    if (hang->silent_count)
        tell(noter, "%zu of %" PRId32 " ranks left no dump", hang->silent_count, hang->world_size);
    return hang->silent_count || hang->stale_dumps || hang->partial_dumps ||
           hang->state == RS_HANG_UNDECIDED;
}

static enum rs_status hand_over(const struct rs_hang *hang,
                                const struct rs_deliver_options *options,
                                struct rs_deliver_result *result, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (options->out_dir)
        status = rs_output_hang_write(hang, options->out_dir, err);
    if (status == RS_OK && options->rows)
        status = rs_hang_rows(hang, RS_ROWS_CAPTURE, options->rows, err);
    if (status == RS_OK && options->report == RS_DELIVER_TEXT)
        status = rs_output_hang_text(hang, options->style, &result->report, err);
    if (status == RS_OK && options->report == RS_DELIVER_JSON)
        status = rs_output_hang_json(hang, &result->report, err);
    result->shares = rs_mem_calloc(hang->finding_count + 1, sizeof *result->shares);
    if (!result->shares)
        return status < 0 ? status : rs_err_set(err, RS_NOMEM, "no memory for the report");
    for (size_t i = 0; i < hang->finding_count && hang->state == RS_HANG_HUNG; i++)
        result->shares[result->share_count++] = 1; /* nothing goes on at all */
    return status;
}

enum rs_status rs_deliver_hang_set(const struct rs_flight_set *set,
                                   const struct rs_hang_options *how,
                                   const struct rs_deliver_options *options,
                                   rs_deliver_print_fn *print, void *print_self,
                                   struct rs_deliver_result *result_p, struct rs_err *err)
{
    const struct noter noter = {.print = print, .self = print_self};
    struct rs_deliver_result result = {.is_partial = false};
    struct rs_hang *hang = NULL;
    enum rs_status status = rs_hang_new(set, how, &hang, err);
    if (status == RS_OK)
        status = hand_over(hang, options, &result, err);
    if (status == RS_OK) {
        result.is_partial = tell_partial(hang, &noter);
        *result_p = result;
    } else {
        rs_deliver_result_fini(&result);
    }
    rs_hang_free(&hang);
    return status;
}

enum rs_status rs_deliver_hang(const char *dir, const struct rs_deliver_options *options,
                               rs_deliver_print_fn *print, void *print_self,
                               struct rs_deliver_result *result_p, struct rs_err *err)
{
    const struct noter noter = {.print = print, .self = print_self};
    struct rs_buf bytes = {0};
    struct rs_flight_set set;
    size_t damaged = 0;
    char *path = rs_file_join(dir, RS_FLIGHT_FILE_NAME);
    enum rs_status status = path ? rs_file_read(path, FILE_MAX_BYTES, &bytes, err)
                                 : rs_err_set(err, RS_NOMEM, "no memory for dumps");
    rs_mem_free(path);
    if (status < 0) {
        rs_buf_fini(&bytes);
        return status == RS_NOTFOUND ? RS_END : status;
    }
    status = rs_flight_set_init(&set) == RS_OK ? RS_OK
                                               : rs_err_set(err, RS_NOMEM, "no memory for dumps");
    if (status == RS_OK) {
        status = rs_flight_file_read(bytes.data, bytes.length, &set, &damaged, err);
        rs_buf_fini(&bytes);
        if (status == RS_OK && !set.dump_count) {
            for (size_t i = 0; i < set.note_count; i++)
                tell(&noter, "%s", set.notes[i]);
            status = rs_err_set(err, RS_REFUSED, "no rank of this job could be asked");
        }
        const struct rs_hang_options how = {.assume_common_clock = options->assume_common_clock};
        if (status == RS_OK)
            status = rs_deliver_hang_set(&set, &how, options, print, print_self, result_p, err);
        if (status == RS_OK && (damaged || set.note_count)) /* ranks or nodes that said nothing */
            result_p->is_partial = true;
        rs_flight_set_fini(&set);
    }
    rs_buf_fini(&bytes);
    return status;
}
