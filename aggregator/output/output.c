/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of deliverables, in the order in which they are written.
 */
#include "aggregator/analysis/rows.h"
#include "aggregator/output/output_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static enum rs_status report_json(const struct rs_analysis *analysis, struct output_file *file,
                                  struct rs_err *err)
{
    return rs_output_report_json(analysis, &file->buf, err);
}

static enum rs_status report_markdown(const struct rs_analysis *analysis, struct output_file *file,
                                      struct rs_err *err)
{
    return rs_output_report_markdown(analysis, &file->buf, err);
}

static enum rs_status report_html(const struct rs_analysis *analysis, struct output_file *file,
                                  struct rs_err *err)
{
    return rs_output_report_html(analysis, &file->buf, err);
}

static enum rs_status job_communication(const struct job *job, struct output_file *file,
                                        struct rs_err *err)
{
    return comm_document(&(struct view){.job = job}, file, err);
}

static enum rs_status job_matrix(const struct job *job, struct output_file *file,
                                 struct rs_err *err)
{
    return matrix_document(&(struct view){.job = job}, file, err);
}

typedef enum rs_status document_fn(const struct rs_analysis *analysis, struct output_file *file,
                                   struct rs_err *err);

typedef enum rs_status job_fn(const struct job *job, struct output_file *file, struct rs_err *err);

typedef enum rs_status reads_fn(struct rs_row_store *rows, struct output_file *file,
                                struct rs_err *err);

/* Each is one read as CSV, made from several reads, or (the reports, until all they say are rows) from the analysis. */
static const struct {
    const char *name;
    enum rs_read read; /* when the others are NULL */
    reads_fn *of_reads;
    job_fn *of_job; /* of reads, too: of operations step by step */
    document_fn *write;
} documents[] = {
    {.name = "rank_breakdown.csv", .read = RS_READ_RANK_BREAKDOWN},
    {.name = "step_trace_time.csv", .of_reads = table_step_trace_time},
    {.name = "step_breakdown.csv", .read = RS_READ_STEP_BREAKDOWN},
    {.name = "collectives.csv", .read = RS_READ_COLLECTIVES},
    {.name = "communication.json", .of_job = job_communication},
    {.name = "communication_matrix.json", .of_job = job_matrix},
    {.name = "clock.json", .of_reads = clock_document},
    {.name = "report.json", .write = report_json},
    {.name = "report.md", .write = report_markdown},
    {.name = "report.html", .write = report_html},
};

enum { DOCUMENT_COUNT = sizeof documents / sizeof documents[0] };

/* What documents are made from. */
struct sources {
    const struct rs_analysis *analysis;
    struct rs_row_store *rows;
    struct job *job; /* of the rows */
};

static enum rs_status write_document(size_t index, const struct sources *from, const char *dir,
                                     struct rs_err *err)
{
    struct output_file file;
    enum rs_status status = output_file_open(&file, dir, documents[index].name, err);
    if (status != RS_OK)
        return status;
    if (documents[index].write)
        status = documents[index].write(from->analysis, &file, err);
    else if (documents[index].of_job)
        status = documents[index].of_job(from->job, &file, err);
    else if (documents[index].of_reads)
        status = documents[index].of_reads(from->rows, &file, err);
    else
        status = table_of_read(from->rows, documents[index].read, &file, err);
    return output_file_close(&file, status, err);
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

static enum rs_status write_all(const struct sources *from, const char *dir, struct rs_err *err)
{
    const char *names[DOCUMENT_COUNT + 1];
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < DOCUMENT_COUNT && status == RS_OK; i++) {
        names[i] = documents[i].name;
        status = write_document(i, from, dir, err);
    }
    if (status == RS_OK)
        status = database_write(&(struct view){.job = from->job}, dir, err);
    names[DOCUMENT_COUNT] = "analysis.db";
    if (status == RS_OK)
        status = manifest_write(from->rows, dir, names, DOCUMENT_COUNT + 1, err);
    return status;
}

enum rs_status rs_output_write(const struct rs_output_input *input, const char *dir,
                               struct rs_err *err)
{
    struct sources from = {.analysis = input->analysis};
    enum rs_status status = rs_file_make_dirs(dir, RS_FOLDER_MODE, err);
    if (status == RS_OK) {
        rs_file_sweep(dir);
        status = forget_manifest(dir, err);
    }
    if (status == RS_OK)
        status = rs_row_store_open(NULL, RS_ROWS_PRIVATE, &from.rows, err);
    if (status == RS_OK)
        status = rs_output_rows(input, from.rows, err);
    if (status == RS_OK)
        status = job_open(from.rows, &from.job, err);
    if (status == RS_OK)
        status = write_all(&from, dir, err);
    job_close(&from.job);
    rs_row_store_close(&from.rows);
    return status;
}
