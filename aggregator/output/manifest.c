/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.json: what was read, what became of it, and the digest of every other deliverable. The only
 * document with paths and ids; written last, so whoever finds it finds the others whole.
 */
#include "aggregator/output/output_priv.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"

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
    if (trace->said &&
        (copy_text(&made.framework, summary, trace->said->framework) != RS_OK ||
         copy_text(&made.framework_version, summary, trace->said->framework_version) != RS_OK ||
         copy_text(&made.cann_version, summary, trace->said->cann_version) != RS_OK)) {
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
    rs_json_out_int(json, value);
}

static void put_read(struct rs_json_out *json, const struct rs_output_file *file)
{
    put_text(json, "rank_source", rs_rank_source_text(file->rank_source));
    put_text(json, "step_origin", rs_step_origin_text(file->step_origin));
    put_text(json, "format", file->generation);
    put_text(json, "host", file->host);
    if (file->framework) {
        rs_json_out_key(json, "vendor");
        rs_json_out_object(json);
        put_text(json, "framework", file->framework);
        put_text(json, "framework_version", file->framework_version);
        put_text(json, "cann_version", file->cann_version);
        rs_json_out_end(json);
    }
    rs_json_out_key(json, "has_time_base");
    rs_json_out_bool(json, file->has_time_base);
    put_int(json, "events_read", file->events_read);
    put_int(json, "rows_read", file->rows_read);
    put_int(json, "input_bytes", file->input_bytes);
    put_int(json, "raw_bytes", file->raw_bytes);
    rs_json_out_key(json, "dropped");
    rs_json_out_object(json);
    for (size_t i = 0; i < file->drop_count; i++)
        put_int(json, file->drops[i].reason, file->drops[i].count);
    rs_json_out_end(json);
}

static void put_file(struct rs_json_out *json, const struct rs_output_file *file)
{
    rs_json_out_object(json);
    put_text(json, "path", file->path);
    rs_json_out_key(json, "rank");
    if (file->rank >= 0)
        rs_json_out_int(json, file->rank);
    else
        rs_json_out_null(json);
    put_text(json, "state", rs_output_state_text(file->state));
    if (file->reason)
        put_text(json, "reason", file->reason);
    if (file->state == RS_OUTPUT_WHOLE || file->state == RS_OUTPUT_PARTIAL)
        put_read(json, file);
    rs_json_out_end(json);
}

static void put_groups(struct rs_json_out *json, const struct rs_analysis *analysis)
{
    rs_json_out_key(json, "groups");
    rs_json_out_array(json);
    for (size_t i = 0; i < analysis->group_count; i++) {
        const struct rs_job_group *group = &analysis->groups[i];
        char hash[COMM_HASH_BYTES];
        comm_group_hash(hash, group->text ? group->text : "");
        rs_json_out_object(json);
        put_text(json, "name", group->text ? group->text : "");
        put_text(json, "hash", hash);
        rs_json_out_key(json, "ranks");
        if (group->ranks) {
            rs_json_out_array(json);
            for (size_t k = 0; k < group->rank_count; k++)
                rs_json_out_int(json, group->ranks[k]);
            rs_json_out_end(json);
        } else {
            rs_json_out_null(json);
        }
        rs_json_out_key(json, "size");
        if (group->size >= 0)
            rs_json_out_int(json, group->size);
        else
            rs_json_out_null(json);
        rs_json_out_key(json, "is_inferred");
        rs_json_out_bool(json, group->is_inferred);
        rs_json_out_key(json, "is_ambiguous");
        rs_json_out_bool(json, group->is_ambiguous);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_notes(struct rs_json_out *json, const struct rs_output_input *input)
{
    rs_json_out_key(json, "notes");
    rs_json_out_array(json);
    for (size_t i = 0; i < input->note_count; i++)
        rs_json_out_string(json, input->notes[i]);
    for (size_t i = 0; i < input->analysis->note_count; i++)
        rs_json_out_string(json, input->analysis->notes[i]);
    rs_json_out_end(json);
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

static enum rs_status put_document(struct rs_json_out *json, const struct rs_output_input *input,
                                   const char *dir, const char *const *names, size_t name_count,
                                   struct rs_err *err)
{
    rs_json_out_object(json);
    put_int(json, "schema_version", RS_OUTPUT_SCHEMA_VERSION);
    put_text(json, "program", "rankscope " RS_PROGRAM_VERSION);
    put_text(json, "run", input->run);
    put_text(json, "capture", input->capture);
    rs_json_out_key(json, "request");
    if (input->request)
        rs_json_out_number(json, input->request); /* JSON as it is */
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "inputs");
    rs_json_out_array(json);
    for (size_t i = 0; i < input->file_count; i++)
        put_file(json, &input->files[i]);
    rs_json_out_end(json);
    put_groups(json, input->analysis);
    put_notes(json, input);
    rs_json_out_key(json, "deliverables");
    rs_json_out_array(json);
    for (size_t i = 0; i < name_count; i++) {
        const enum rs_status status = put_deliverable(json, dir, names[i], err);
        if (status != RS_OK)
            return status;
    }
    rs_json_out_end(json);
    rs_json_out_end(json);
    return RS_OK;
}

enum rs_status manifest_write(const struct rs_output_input *input, const char *dir,
                              const char *const *names, size_t name_count, struct rs_err *err)
{
    struct sheet sheet;
    struct rs_json_out json;
    enum rs_status status = sheet_open(&sheet, dir, "manifest.json", err);
    if (status != RS_OK)
        return status;
    rs_json_out_init(&json, &sheet.buf, 2);
    status = put_document(&json, input, dir, names, name_count, err);
    rs_buf_u8(&sheet.buf, '\n');
    return sheet_close(&sheet, status, err);
}
