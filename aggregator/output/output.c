/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of deliverables, in the order in which they are written.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static enum rs_status report_json(const struct rs_analysis *analysis, struct sheet *sheet,
                                  struct rs_err *err)
{
    return rs_output_report_json(analysis, &sheet->buf, err);
}

static enum rs_status report_markdown(const struct rs_analysis *analysis, struct sheet *sheet,
                                      struct rs_err *err)
{
    return rs_output_report_markdown(analysis, &sheet->buf, err);
}

static enum rs_status job_communication(const struct rs_analysis *analysis, struct sheet *sheet,
                                        struct rs_err *err)
{
    return comm_document(&(struct view){.analysis = analysis}, sheet, err);
}

static enum rs_status job_matrix(const struct rs_analysis *analysis, struct sheet *sheet,
                                 struct rs_err *err)
{
    return matrix_document(&(struct view){.analysis = analysis}, sheet, err);
}

typedef enum rs_status document_fn(const struct rs_analysis *analysis, struct sheet *sheet,
                                   struct rs_err *err);

static const struct {
    const char *name;
    document_fn *write;
} documents[] = {
    {"rank_breakdown.csv", table_rank_breakdown},
    {"step_trace_time.csv", table_step_trace_time},
    {"step_breakdown.csv", table_step_breakdown},
    {"collectives.csv", table_collectives},
    {"communication.json", job_communication},
    {"communication_matrix.json", job_matrix},
    {"report.json", report_json},
    {"report.md", report_markdown},
};

enum { DOCUMENT_COUNT = sizeof documents / sizeof documents[0] };

static enum rs_status write_document(size_t index, const struct rs_analysis *analysis,
                                     const char *dir, struct rs_err *err)
{
    struct sheet sheet;
    enum rs_status status = sheet_open(&sheet, dir, documents[index].name, err);
    if (status != RS_OK)
        return status;
    status = documents[index].write(analysis, &sheet, err);
    return sheet_close(&sheet, status, err);
}

/* An old manifest would vouch for new files. */
static enum rs_status forget_manifest(const char *dir, struct rs_err *err)
{
    char *path = rs_file_join(dir, "manifest.json");
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory to write into %s", dir);
    enum rs_status status = RS_OK;
    if (unlink(path) != 0 && errno != ENOENT)
        status = rs_err_errno(err, "cannot replace %s", path);
    rs_mem_free(path);
    return status;
}

enum rs_status rs_output_write(const struct rs_output_input *input, const char *dir,
                               struct rs_err *err)
{
    const char *names[DOCUMENT_COUNT + 1];
    enum rs_status status = rs_file_make_dirs(dir, 0777, err);
    if (status == RS_OK)
        status = forget_manifest(dir, err);
    for (size_t i = 0; i < DOCUMENT_COUNT && status == RS_OK; i++) {
        names[i] = documents[i].name;
        status = write_document(i, input->analysis, dir, err);
    }
    if (status == RS_OK)
        status = database_write(&(struct view){.analysis = input->analysis}, input, dir, err);
    names[DOCUMENT_COUNT] = "analysis.db";
    if (status == RS_OK)
        status = manifest_write(input, dir, names, DOCUMENT_COUNT + 1, err);
    return status;
}
