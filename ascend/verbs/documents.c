/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/verbs/documents.h"

#include "aggregator/store/store.h"
#include "ascend/source/ascend_documents.h"
#include "cli/cli.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/chunk/chunk.h"

#include <stdio.h>
#include <string.h>

/* Documents stand at the end of a recording, but any chunk may hold some. */
static enum rs_status read_stream(const struct rs_stored *stored, size_t index,
                                  struct rs_ascend_documents *documents, bool *is_whole_p,
                                  struct rs_err *err)
{
    struct rs_chunk_reader reader;
    const struct rs_stored_stream *stream = rs_stored_stream(stored, index);
    enum rs_status status = rs_chunk_reader_init(&reader, 0);
    *is_whole_p = stream->is_ended && !stream->missing_count;
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory to read a stream");
    for (uint64_t i = 0; i < stream->chunk_count && status == RS_OK; i++) {
        struct rs_stored_chunk chunk;
        const struct rs_batch *batch = NULL;
        if (rs_stored_chunk(stored, index, i, true, &chunk, NULL) != RS_OK) {
            *is_whole_p = false;
            break; /* what came before the damage counts */
        }
        if (chunk.flags & RS_ENVELOPE_LOSS)
            continue;
        if (rs_chunk_read(&reader, chunk.bytes, &batch, NULL, NULL) != RS_OK) {
            *is_whole_p = false;
            break;
        }
        if (batch)
            status = rs_ascend_documents_take(documents, batch, err);
    }
    rs_chunk_reader_fini(&reader);
    return status;
}

/* DIR/rank_R_N when several streams might bring folders of one name: two hosts, two recordings. */
static enum rs_status restore_stream(const char *verb, const struct rs_stored *stored, size_t index,
                                     const char *dir, struct rs_documents_result *result,
                                     struct rs_err *err)
{
    struct rs_ascend_documents *documents = NULL;
    struct rs_buf path = {0};
    struct rs_err why = {0};
    const struct rs_stored_stream *stream = rs_stored_stream(stored, index);
    bool is_whole = true;
    rs_buf_printf(&path, "%s/rank_%u_%zu", dir, (unsigned)stream->rank, index);
    enum rs_status status = path.failed
                                ? rs_err_set(err, RS_NOMEM, "no memory to put documents back")
                                : rs_ascend_documents_new(rs_buf_text(&path), &documents, err);
    rs_buf_fini(&path);
    if (status != RS_OK)
        return status;
    status = read_stream(stored, index, documents, &is_whole, &why);
    if (rs_ascend_documents_count(documents))
        result->ranks++;
    else
        result->others++;
    rs_ascend_documents_free(&documents);
    if (status == RS_NOMEM || status == RS_IO)
        return rs_err_set(err, status, "%s", why.text);
    if (status != RS_OK || !is_whole) {
        result->is_partial = true;
        rs_cli_note(verb, "rank %u: %s", (unsigned)stream->rank,
                    status != RS_OK ? why.text
                                    : "its stream is not whole; documents may be missing");
    }
    return RS_OK;
}

enum rs_status rs_documents_restore(const char *verb, const char *capture, const char *dir,
                                    struct rs_documents_result *result_p, struct rs_err *err)
{
    struct rs_stored *stored = NULL;
    *result_p = (struct rs_documents_result){0};
    enum rs_status status = rs_store_open_capture(capture, &stored, err);
    if (status < 0)
        return status;
    status = rs_file_make_dirs(dir, RS_FOLDER_MODE, err);
    const size_t count = rs_stored_stream_count(stored);
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = restore_stream(verb, stored, i, dir, result_p, err);
    rs_stored_close(&stored);
    return status;
}
