/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small files of a rank's directory that no event can replace: what the vendor's analysis says of each operation and
 * link, whose groups they are, where the rank ran. A lossless reading emits them among the events; whoever has the
 * stream puts them back, so that the official cluster output of a streamed job is that of its files.
 *
 *     communication.json  communication_matrix.json  step_trace_time.csv  analysis.db  communication_analyzer.db
 *     profiler_info_R.json  profiler_metadata.json
 *     ascend_*_profiler_R.db   only META_DATA, HOST_INFO, RANK_DEVICE_MAP, NPU_INFO: the rest is events
 *
 * A row of kind METADATA and name "vendor document" holds a piece; its extra are the members
 *
 *     "folder": "node7_4711_20260102030405006_ascend_pt", "document": "analysis.db", "bytes": 28672,
 *     "part": 0, "parts": 2, "deflate": "<base64>"
 *
 * Pieces of one document follow each other. Nothing is computed from them here.
 */
#ifndef RS_SOURCE_ASCEND_DOCUMENTS_H
#define RS_SOURCE_ASCEND_DOCUMENTS_H

#include "common/event/event.h"

/* One stream's documents on their way back into a folder. One thread. */
struct rs_ascend_documents;

/* Writes DIR/FOLDER/..., which is made when the first document is whole. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_ascend_documents_new(const char *dir,
                                                     struct rs_ascend_documents **documents_p,
                                                     struct rs_err *err);
void rs_ascend_documents_free(struct rs_ascend_documents **documents_p);

/* Takes the pieces among a batch's rows; whatever else is in it is passed over. RS_FORMAT: a piece that does not fit what
 * came before, or a name that no reader of ours writes; RS_LIMIT; RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_ascend_documents_take(struct rs_ascend_documents *documents,
                                                      const struct rs_batch *batch,
                                                      struct rs_err *err);
/* How many were written whole. */
size_t rs_ascend_documents_count(const struct rs_ascend_documents *documents);

#endif
