/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is different in a MindSpore directory:
 *
 *   database   no PYTORCH_API, and STEP_TIME only in some versions: without it the whole recording is one step. Steps
 *              are then taken from the text form, when that is there too and names them
 *   text       the same layers in trace_view.json; communication.json and kernel_details.csv as in torch_npu
 *   rank       always in profiler_info_R.json
 *
 * Its own Stage and Bubble count sends too (reference 2.7); ours are those of the database algorithm for every
 * framework, so that ranks can be compared.
 */
#include "ascend/source/mindspore.h"

#include "ascend/format/db.h"
#include "ascend/source/ascend.h"

static bool db_has_steps(const struct rs_ascend_rank *rank)
{
    struct rs_ascend_db *db = NULL;
    struct sqlite3_stmt *rows = NULL;
    bool has_steps = false;
    if (rs_ascend_db_open(rank->profiler_db, &db, NULL) != RS_OK)
        return true; /* its reader will say what is wrong with it */
    if (rs_ascend_db_has_table(db, "STEP_TIME") &&
        rs_ascend_db_prepare(db, "SELECT 1 FROM STEP_TIME LIMIT 1", &rows, NULL) == RS_OK)
        has_steps = rs_ascend_db_step(db, rows, NULL) == RS_OK;
    rs_ascend_db_finish(&rows);
    rs_ascend_db_close(&db);
    return has_steps;
}

enum rs_status rs_mindspore_read(const struct rs_ascend_rank *rank, unsigned flags,
                                 struct rs_source_stream *stream, struct rs_sink sink,
                                 struct rs_err *err)
{
    const bool has_text = (rank->forms & RS_ASCEND_F_TEXT) != 0;
    if (rank->profiler_db && (!has_text || db_has_steps(rank)))
        return rs_ascend_db_read(rank, flags, stream, sink, err);
    if (has_text)
        return rs_ascend_text_read(rank, flags, stream, sink, err);
    return rs_err_set(err, RS_NOTFOUND, "%s holds neither a database nor a trace of a rank",
                      rank->dir);
}
