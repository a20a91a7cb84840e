/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.json: what was read, what became of it, and the digest of every other deliverable. The only
 * document with paths and ids; written last, so whoever finds it finds the others whole.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *rs_output_state_text(enum rs_output_state state)
{
    static const char *const texts[] = {"whole", "partial", "skipped", "failed"};
    return texts[state];
}

static char *copy_or_null(const char *text)
{
    return text ? rs_mem_strdup(text) : NULL;
}

enum rs_status rs_output_file_init(struct rs_output_file *file, const char *path,
                                   enum rs_output_state state, const char *reason)
{
    *file = (struct rs_output_file){.state = state, .rank = -1};
    file->path = rs_mem_strdup(path);
    file->reason = copy_or_null(reason);
    if (file->path && (file->reason || !reason))
        return RS_OK;
    rs_output_file_fini(file);
    return RS_NOMEM;
}

static enum rs_status copy_drops(struct rs_output_file *file, const struct rs_summary *summary)
{
    const struct rs_trace_info *trace = &summary->trace;
    file->drops = rs_mem_calloc(trace->drop_count + 1, sizeof *file->drops);
    if (!file->drops)
        return RS_NOMEM;
    for (size_t i = 0; i < trace->drop_count; i++) {
        struct rs_output_drop *drop = &file->drops[file->drop_count++];
        drop->reason = rs_mem_strdup(rs_strtab_text(&summary->strings, trace->drops[i].reason));
        drop->count = trace->drops[i].count;
        if (!drop->reason)
            return RS_NOMEM;
    }
    return RS_OK;
}

static enum rs_status copy_text(char **text_p, const struct rs_summary *summary, rs_str id)
{
    if (id == RS_STR_NONE)
        return RS_OK;
    *text_p = rs_mem_strdup(rs_strtab_text(&summary->strings, id));
    return *text_p ? RS_OK : RS_NOMEM;
}

enum rs_status rs_output_file_of(struct rs_output_file *file, const char *path,
                                 const struct rs_summary *summary)
{
    const struct rs_trace_info *trace = &summary->trace;
    struct rs_output_file made;
    enum rs_status status = rs_output_file_init(
        &made, path, trace->is_partial ? RS_OUTPUT_PARTIAL : RS_OUTPUT_WHOLE, NULL);
    if (status != RS_OK)
        return status;
    if (trace->vendor &&
        (copy_text(&made.framework, summary, trace->vendor->framework) != RS_OK ||
         copy_text(&made.framework_version, summary, trace->vendor->framework_version) != RS_OK ||
         copy_text(&made.cann_version, summary, trace->vendor->cann_version) != RS_OK)) {
        rs_output_file_fini(&made);
        return RS_NOMEM;
    }
    made.rank = trace->rank;
    made.rank_source = trace->rank_source;
    made.step_origin = summary->step_origin;
    made.has_time_base = trace->has_time_base;
    made.events_read = trace->events_read;
    made.rows_read = trace->rows_read;
    made.input_bytes = trace->input_bytes;
    made.raw_bytes = trace->raw_bytes;
    if (copy_text(&made.reason, summary, trace->partial_reason) != RS_OK ||
        copy_text(&made.generation, summary, trace->generation) != RS_OK ||
        copy_text(&made.host, summary, trace->host) != RS_OK ||
        copy_drops(&made, summary) != RS_OK) {
        rs_output_file_fini(&made);
        return RS_NOMEM;
    }
    *file = made;
    return RS_OK;
}

void rs_output_file_fini(struct rs_output_file *file)
{
    rs_mem_free(file->path);
    rs_mem_free(file->reason);
    rs_mem_free(file->generation);
    rs_mem_free(file->host);
    rs_mem_free(file->framework);
    rs_mem_free(file->framework_version);
    rs_mem_free(file->cann_version);
    for (size_t i = 0; i < file->drop_count; i++)
        rs_mem_free(file->drops[i].reason);
    rs_mem_free(file->drops);
    *file = (struct rs_output_file){0};
}

/* --- the document ---------------------------------------------------------------------------------- */

static void put_text(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    if (text)
        rs_json_out_string(json, text);
    else
        rs_json_out_null(json);
}

static void put_int(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    if (value != RS_NULL)
        rs_json_out_int(json, value);
    else
        rs_json_out_null(json);
}

static void put_bool(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    rs_json_out_bool(json, value == 1);
}

/* What was dropped of the inputs, in their order: the row that is next. */
struct drops {
    struct rows_reading reading;
    const struct rs_row_coverage *next;
};

static enum rs_status next_drop(struct drops *drops, struct rs_err *err)
{
    const void *row = NULL;
    enum rs_status status;
    do
        status = rows_reading_next(&drops->reading, &row, err);
    while (status == RS_OK && row &&
           strcmp(((const struct rs_row_coverage *)row)->what, "dropped") != 0);
    drops->next = row;
    return status;
}

static enum rs_status put_drops(struct rs_json_out *json, int64_t input_no, struct drops *drops,
                                struct rs_err *err)
{
    enum rs_status status = RS_OK;
    rs_json_out_key(json, "dropped");
    rs_json_out_object(json);
    while (status == RS_OK && drops->next && drops->next->input_no <= input_no) {
        if (drops->next->input_no == input_no)
            put_int(json, drops->next->reason, drops->next->count);
        status = next_drop(drops, err);
    }
    rs_json_out_end(json);
    return status;
}

static enum rs_status put_read(struct rs_json_out *json, const struct rs_row_input *input,
                               struct drops *drops, struct rs_err *err)
{
    put_text(json, "rank_source", input->rank_source);
    put_text(json, "step_origin", input->step_origin);
    put_text(json, "format", input->format);
    put_text(json, "host", input->host);
    if (input->framework) {
        rs_json_out_key(json, "vendor");
        rs_json_out_object(json);
        put_text(json, "framework", input->framework);
        put_text(json, "framework_version", input->framework_version);
        put_text(json, "cann_version", input->cann_version);
        rs_json_out_end(json);
    }
    put_bool(json, "has_time_base", input->has_time_base);
    put_int(json, "events_read", input->events_read);
    put_int(json, "rows_read", input->rows_read);
    put_int(json, "input_bytes", input->input_bytes);
    put_int(json, "raw_bytes", input->raw_bytes);
    return put_drops(json, input->input_no, drops, err);
}

static enum rs_status put_file(struct rs_json_out *json, const struct rs_row_input *input,
                               struct drops *drops, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    rs_json_out_object(json);
    put_text(json, "path", input->path);
    put_int(json, "rank", input->rank);
    put_text(json, "state", input->state);
    if (input->reason)
        put_text(json, "reason", input->reason);
    if (input->rank_source) /* it was read */
        status = put_read(json, input, drops, err);
    rs_json_out_end(json);
    return status;
}

static enum rs_status put_inputs(struct rs_json_out *json, struct rs_row_store *rows,
                                 struct rs_err *err)
{
    struct rows_reading inputs = {0};
    struct drops drops = {.next = NULL};
    const void *row = NULL;
    rs_json_out_key(json, "inputs");
    rs_json_out_array(json);
    enum rs_status status = rows_reading_open(&inputs, rows, RS_READ_INPUTS, err);
    if (status == RS_OK)
        status = rows_reading_open(&drops.reading, rows, RS_READ_COVERAGE, err);
    if (status == RS_OK)
        status = next_drop(&drops, err);
    while (status == RS_OK && (status = rows_reading_next(&inputs, &row, err)) == RS_OK && row)
        status = put_file(json, row, &drops, err);
    rows_reading_close(&inputs);
    rows_reading_close(&drops.reading);
    rs_json_out_end(json);
    return status;
}

/* "0-3,8" -> [0, 1, 2, 3, 8] */
static void put_ranks(struct rs_json_out *json, const char *ranks)
{
    rs_json_out_key(json, "ranks");
    if (!ranks) {
        rs_json_out_null(json);
        return;
    }
    rs_json_out_array(json);
    for (const char *at = ranks; *at;) {
        char *end = NULL;
        const long first = strtol(at, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long rank = first; rank <= last; rank++)
            rs_json_out_int(json, rank);
        if (end == at)
            break;
        at = end + (*end == ',');
    }
    rs_json_out_end(json);
}

static enum rs_status put_groups(struct rs_json_out *json, struct rs_row_store *rows,
                                 struct rs_err *err)
{
    struct rows_reading groups = {0};
    const void *row = NULL;
    rs_json_out_key(json, "groups");
    rs_json_out_array(json);
    enum rs_status status = rows_reading_open(&groups, rows, RS_READ_GROUPS, err);
    while (status == RS_OK && (status = rows_reading_next(&groups, &row, err)) == RS_OK && row) {
        const struct rs_row_groups *group = row;
        char hash[COMM_HASH_BYTES];
        comm_group_hash(hash, group->name);
        rs_json_out_object(json);
        put_text(json, "name", group->name);
        put_text(json, "hash", hash);
        put_ranks(json, group->ranks);
        put_int(json, "size", group->size);
        put_bool(json, "is_inferred", group->is_inferred);
        put_bool(json, "is_ambiguous", group->is_ambiguous);
        rs_json_out_end(json);
    }
    rows_reading_close(&groups);
    rs_json_out_end(json);
    return status;
}

/* Those of what was read first, then those of the join. */
static enum rs_status put_notes(struct rs_json_out *json, struct rs_row_store *rows,
                                struct rs_err *err)
{
    enum rs_status status = RS_OK;
    rs_json_out_key(json, "notes");
    rs_json_out_array(json);
    for (int is_of_input = 1; is_of_input >= 0 && status == RS_OK; is_of_input--) {
        struct rows_reading notes = {0};
        const void *row = NULL;
        status = rows_reading_open(&notes, rows, RS_READ_NOTES, err);
        while (status == RS_OK && (status = rows_reading_next(&notes, &row, err)) == RS_OK && row) {
            const struct rs_row_note *note = row;
            if (note->is_of_input == is_of_input)
                rs_json_out_string(json, note->text);
        }
        rows_reading_close(&notes);
    }
    rs_json_out_end(json);
    return status;
}

static enum rs_status put_head(struct rs_json_out *json, struct rs_row_store *rows,
                               struct rs_err *err)
{
    struct rows_reading captures = {0};
    const void *row = NULL;
    enum rs_status status = rows_reading_open(&captures, rows, RS_READ_CAPTURE, err);
    if (status == RS_OK)
        status = rows_reading_next(&captures, &row, err);
    const struct rs_row_capture *capture = row;
    put_int(json, "schema_version", RS_OUTPUT_SCHEMA_VERSION);
    put_text(json, "program", "rankscope " RS_PROGRAM_VERSION);
    put_text(json, "run", capture ? capture->run : NULL);
    put_text(json, "capture", capture ? capture->id : NULL);
    rs_json_out_key(json, "request");
    if (capture && capture->request)
        rs_json_out_number(json, capture->request); /* JSON as it is */
    else
        rs_json_out_null(json);
    rows_reading_close(&captures);
    return status;
}

static enum rs_status put_deliverable(struct rs_json_out *json, const char *dir, const char *name,
                                      struct rs_err *err)
{
    char hex[RS_SHA256_HEX_BYTES];
    struct stat info;
    char *path = rs_file_join(dir, name);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for manifest.json");
    enum rs_status status = rs_sha256_file(path, hex, err);
    if (status == RS_OK && stat(path, &info) != 0)
        status = rs_err_errno(err, "cannot read %s", path);
    rs_mem_free(path);
    if (status != RS_OK)
        return status;
    rs_json_out_object(json);
    put_text(json, "name", name);
    put_int(json, "bytes", info.st_size);
    put_text(json, "sha256", hex);
    rs_json_out_end(json);
    return RS_OK;
}

static enum rs_status put_deliverables(struct rs_json_out *json, const char *dir,
                                       const char *const *names, size_t name_count,
                                       struct rs_err *err)
{
    enum rs_status status = RS_OK;
    rs_json_out_key(json, "deliverables");
    rs_json_out_array(json);
    for (size_t i = 0; i < name_count && status == RS_OK; i++)
        status = put_deliverable(json, dir, names[i], err);
    rs_json_out_end(json);
    return status;
}

enum rs_status manifest_write(struct rs_row_store *rows, const char *dir, const char *const *names,
                              size_t name_count, struct rs_err *err)
{
    struct output_file file;
    struct rs_json_out json;
    enum rs_status status = output_file_open(&file, dir, "manifest.json", err);
    if (status != RS_OK)
        return status;
    rs_json_out_init(&json, &file.buf, 2);
    rs_json_out_object(&json);
    status = put_head(&json, rows, err);
    if (status == RS_OK)
        status = put_inputs(&json, rows, err);
    if (status == RS_OK)
        status = put_groups(&json, rows, err);
    if (status == RS_OK)
        status = put_notes(&json, rows, err);
    if (status == RS_OK)
        status = put_deliverables(&json, dir, names, name_count, err);
    rs_json_out_end(&json);
    rs_buf_u8(&file.buf, '\n');
    return output_file_close(&file, status, err);
}
