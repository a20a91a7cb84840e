/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/offline/recordings.h"

#include "common/base/mem.h"
#include "common/chunk/chunk.h"

/* ---- which there are ----------------------------------------------------------------------------------------------- */

enum rs_status rs_recordings_of_files(const char *const *paths, size_t count,
                                      const struct rs_discover_options *how,
                                      struct rs_recordings *recordings_p, struct rs_err *err)
{
    *recordings_p = (struct rs_recordings){0};
    const enum rs_status status = rs_discover(paths, count, how, &recordings_p->inputs, err);
    if (status != RS_OK)
        return status;
    recordings_p->items =
        rs_mem_calloc(recordings_p->inputs.count + 1, sizeof *recordings_p->items);
    if (!recordings_p->items)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < recordings_p->inputs.count; i++)
        if (recordings_p->inputs.items[i].state == RS_INPUT_CANDIDATE)
            recordings_p->items[recordings_p->count++] =
                (struct rs_recording){.input = &recordings_p->inputs.items[i], .rank = -1};
    return RS_OK;
}

enum rs_status rs_recordings_of_capture(const char *dir, struct rs_recordings *recordings_p,
                                        struct rs_err *err)
{
    *recordings_p = (struct rs_recordings){0};
    const enum rs_status status = rs_store_open_capture(dir, &recordings_p->stored, err);
    if (status < 0)
        return status;
    const size_t count = rs_stored_stream_count(recordings_p->stored);
    recordings_p->items = rs_mem_calloc(count + 1, sizeof *recordings_p->items);
    if (!recordings_p->items)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < count; i++)
        recordings_p->items[recordings_p->count++] = (struct rs_recording){
            .stream = i, .rank = (int32_t)rs_stored_stream(recordings_p->stored, i)->rank};
    return RS_OK;
}

void rs_recordings_close(struct rs_recordings *recordings)
{
    rs_inputs_fini(&recordings->inputs);
    if (recordings->stored)
        rs_stored_close(&recordings->stored);
    rs_mem_free(recordings->items);
    *recordings = (struct rs_recordings){0};
}

/* ---- reading one --------------------------------------------------------------------------------------------------- */

static enum rs_status begin(const struct rs_taker *to, const struct rs_strtab *strings,
                            const struct rs_lanes *lanes, struct rs_err *err)
{
    return to->begin ? to->begin(to->self, strings, lanes, err) : RS_OK;
}

static enum rs_status end(const struct rs_taker *to, const struct rs_trace_info *info,
                          struct rs_err *err)
{
    return to->end ? to->end(to->self, info, err) : RS_OK;
}

static enum rs_status read_chunks(const struct rs_stored *stored, size_t stream,
                                  struct rs_chunk_reader *reader, const struct rs_taker *to,
                                  struct rs_err *err)
{
    const uint64_t count = rs_stored_stream(stored, stream)->chunk_count;
    for (uint64_t i = 0; i < count; i++) {
        struct rs_stored_chunk chunk;
        const struct rs_batch *batch = NULL;
        enum rs_status status = RS_OK;
        if (rs_stored_chunk(stored, stream, i, true, &chunk, NULL) != RS_OK)
            break; /* what came before the damage counts */
        if (chunk.flags & RS_ENVELOPE_LOSS)
            continue;
        if (rs_chunk_read(reader, chunk.bytes, &batch, NULL, NULL) != RS_OK)
            break;
        if (batch && to->batch)
            status = to->batch(to->self, batch, err);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status read_stream(const struct rs_stored *stored, size_t stream,
                                  const struct rs_taker *to, struct rs_err *err)
{
    struct rs_chunk_reader reader;
    enum rs_status status = rs_chunk_reader_init(&reader, 0);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to read a stream");
    status = begin(to, &reader.strings, &reader.lanes, err);
    if (status == RS_OK)
        status = read_chunks(stored, stream, &reader, to, err);
    if (status == RS_OK && !reader.has_end)
        reader.info.is_partial = true;
    const bool is_partial = reader.info.is_partial;
    if (status == RS_OK)
        status = end(to, &reader.info, err);
    rs_chunk_reader_fini(&reader);
    return status == RS_OK && is_partial ? RS_PARTIAL : status;
}

static enum rs_status drop(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    (void)self;
    (void)batch;
    (void)err;
    return RS_OK;
}

static enum rs_status read_file(const struct rs_input *input, unsigned flags,
                                const struct rs_taker *to, struct rs_err *err)
{
    struct rs_source_stream stream;
    const struct rs_sink sink = {.batch = to->batch ? to->batch : drop, .self = to->self};
    enum rs_status status = rs_source_stream_init(&stream);
    if (status != RS_OK)
        return rs_err_set(err, status, "out of memory");
    status = begin(to, &stream.strings, &stream.lanes, err);
    if (status == RS_OK)
        status = rs_input_read(input, flags, &stream, sink, err);
    if (status == RS_OK || status == RS_PARTIAL) {
        const enum rs_status ended = end(to, &stream.info, err);
        status = ended == RS_OK ? status : ended;
    }
    rs_source_stream_fini(&stream);
    return status; /* NOLINT(clang-analyzer-core.StackAddressEscape): end() was the last to look at it */
}

enum rs_status rs_recording_read(const struct rs_recordings *recordings,
                                 const struct rs_recording *recording, unsigned flags,
                                 const struct rs_taker *taker, struct rs_err *err)
{
    return recording->input ? read_file(recording->input, flags, taker, err)
                            : read_stream(recordings->stored, recording->stream, taker, err);
}

/* ---- whose it is --------------------------------------------------------------------------------------------------- */

/* Beside the taker's own: when the events were, and what the file says of its rank. */
struct survey {
    const struct rs_taker *to;
    struct rs_input *input;
    const struct rs_strtab *strings;
    rs_ns first, last;
    bool is_partial, has_recorded;
};

static enum rs_status survey_begin(void *self, const struct rs_strtab *strings,
                                   const struct rs_lanes *lanes, struct rs_err *err)
{
    struct survey *survey = self;
    survey->strings = strings;
    return begin(survey->to, strings, lanes, err);
}

static enum rs_status survey_batch(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct survey *survey = self;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->flags[i] & RS_EVENT_NO_END)
            continue; /* metadata rows stand at time 0 */
        survey->first = batch->start[i] < survey->first ? batch->start[i] : survey->first;
        survey->last = batch->end[i] > survey->last ? batch->end[i] : survey->last;
    }
    return survey->to->batch ? survey->to->batch(survey->to->self, batch, err) : RS_OK;
}

static enum rs_status survey_end(void *self, const struct rs_trace_info *info, struct rs_err *err)
{
    struct survey *survey = self;
    enum rs_status status = end(survey->to, info, err);
    if (status != RS_OK)
        return status;
    struct rs_err why = {0};
    if (info->is_partial && info->partial_reason != RS_STR_NONE)
        (void)rs_err_set(&why, RS_PARTIAL, "%s",
                         rs_strtab_text(survey->strings, info->partial_reason));
    const struct rs_input_result result = {.status = info->is_partial ? RS_PARTIAL : RS_OK,
                                           .failure = &why,
                                           .info = info,
                                           .strings = survey->strings,
                                           .first = survey->first,
                                           .last = survey->last};
    survey->has_recorded = true;
    status = rs_input_record(survey->input, &result);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "out of memory");
}

static bool is_of_file(enum rs_status status)
{
    return status != RS_NOMEM && status != RS_CANCELLED && status != RS_INVALID;
}

enum rs_status rs_recordings_survey(struct rs_recordings *recordings,
                                    struct rs_recording *recording, const struct rs_taker *taker,
                                    struct rs_err *err)
{
    static const struct rs_taker nobody = {0};
    struct survey survey = {.to = taker ? taker : &nobody,
                            .input = recording->input,
                            .first = RS_NS_MAX,
                            .last = RS_NS_MIN};
    const struct rs_taker to = {survey_begin, survey_batch, survey_end, &survey};
    struct rs_err why = {0};
    enum rs_status status = RS_OK;
    if (!recording->input) {
        status = taker ? rs_recording_read(recordings, recording, 0, taker, err) : RS_OK;
        return status == RS_PARTIAL ? RS_OK : status;
    }
    status = rs_recording_read(recordings, recording, 0, &to, &why);
    if (!is_of_file(status))
        return rs_err_set(err, status, "%s", why.text);
    if (survey.has_recorded)
        return RS_OK;
    const struct rs_input_result result = {
        .status = status, .failure = &why, .first = RS_NS_MAX, .last = RS_NS_MIN};
    status = rs_input_record(recording->input, &result);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "out of memory");
}

enum rs_status rs_recordings_settle(struct rs_recordings *recordings, struct rs_err *err)
{
    const enum rs_status status = rs_inputs_resolve(&recordings->inputs, err);
    for (size_t i = 0; status == RS_OK && i < recordings->count; i++) {
        const struct rs_input *input = recordings->items[i].input;
        if (input)
            recordings->items[i].rank =
                input->state == RS_INPUT_WHOLE || input->state == RS_INPUT_PARTIAL ? input->rank
                                                                                   : -1;
    }
    return status;
}
