/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What doctor found, for programs (JSON) and for people: run by run, rank by rank, whether it can be captured, and if not why, and what
 * to do; then this node. The same facts in both: struct rs_doctor.
 */
#include "collector/agent/doctor.h"
#include "common/base/json_out.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- for programs --------------------------------------------------------------------------------------------- */

/* Negative: unknown. */
static void put_number(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_put_known(json, key, value, value >= 0);
}

static void json_list(struct rs_json_out *json, const char *key,
                      const char (*list)[RS_DOCTOR_SENTENCE_BYTES], size_t count)
{
    rs_json_put_array(json, key);
    for (size_t i = 0; i < count; i++)
        rs_json_out_string(json, list[i]);
    rs_json_out_end(json);
}

static void json_patient(struct rs_json_out *json, const struct rs_doctor_patient *patient)
{
    const struct rs_process *process = &patient->process;
    rs_json_out_object(json);
    put_number(json, "pid", process->pid);
    rs_json_put_text(json, "command", process->command);
    put_number(json, "uid", process->uid);
    rs_json_put_text(json, "framework", patient->framework);
    rs_json_put_text(json, "version", patient->torch.version);
    rs_json_put_text(json, "run", process->run);
    put_number(json, "rank", process->rank);
    put_number(json, "world", process->world_size);
    put_number(json, "step", patient->step);
    rs_json_put_text(json, "config_dir", patient->config_dir);
    rs_json_put_bool(json, "is_rank", patient->is_rank);
    rs_json_put_text(json, "why_no_rank", patient->why_no_rank);
    rs_json_put_bool(json, "attachable", patient->is_rank && patient->reason_count == 0);
    json_list(json, "reasons", patient->reasons, patient->reason_count);
    json_list(json, "notes", patient->notes, patient->note_count);
    if (!patient->has_offer) { /* could `rankscope hang --local` explain one */
        rs_json_put_null(json, "hang");
    } else {
        rs_json_put_object(json, "hang");
        rs_json_put_bool(json, "explainable", patient->offer.way != RS_FLIGHT_WAY_NONE);
        rs_json_put_text(json, "way", rs_flight_way_text(patient->offer.way));
        rs_json_put_text(json, "why_not", patient->offer.why);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void json_place(struct rs_json_out *json, const struct rs_doctor *doctor)
{
    const struct rs_doctor_server *server = &doctor->server;
    rs_json_put_object(json, "socket");
    rs_json_put_text(json, "directory", doctor->socket_dir);
    rs_json_put_bool(json, "served", server->is_there);
    rs_json_put_text(json, "served_by", server->is_there ? server->text : NULL);
    rs_json_put_bool(json, "is_collector", server->is_there && server->is_ours);
    rs_json_out_end(json);
    rs_json_put_object(json, "trace_folder");
    rs_json_put_text(json, "path", doctor->trace_dir);
    put_number(json, "free_bytes", doctor->folder.free_bytes);
    rs_json_put_text(json, "network_file_system", doctor->folder.network);
    rs_json_out_end(json);
    rs_json_put_array(json, "open_folders"); /* that everybody may write to */
    for (size_t i = 0; i < doctor->open_count; i++)
        rs_json_out_string(json, doctor->open[i].path);
    rs_json_out_end(json);
    rs_json_put_object(json, "clock");
    if (doctor->clock.is_known)
        rs_json_put_bool(json, "synchronised", doctor->clock.is_synchronised);
    else
        rs_json_put_null(json, "synchronised");
    put_number(json, "max_error_us", doctor->clock.is_known ? doctor->clock.max_error_us : -1);
    rs_json_out_end(json);
}

void rs_doctor_json(const struct rs_doctor *doctor, struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 2);
    rs_json_out_object(&json);
    rs_json_put_int(&json, "schema_version", 1);
    json_place(&json, doctor);
    rs_json_put_array(&json, "processes");
    for (size_t i = 0; i < doctor->count; i++)
        json_patient(&json, &doctor->patients[i]);
    rs_json_out_end(&json);
    rs_json_put_uint(&json, "hidden_processes", doctor->hidden_count);
    rs_json_out_end(&json);
}

/* ---- for people ------------------------------------------------------------------------------------------------ */

enum { INDENT_COLUMNS = 12, PLACE_COLUMNS = 14 };

struct page {
    struct rs_buf *buf;
    int width, fact_width;
};

/* A sentence in lines that fit, behind what stands in the line already. */
static void put_words(struct rs_buf *buf, int column, int width, const char *text)
{
    const int first = column;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (column > first && column + 1 + length > width) {
            rs_buf_printf(buf, "\n%*s", first, "");
            column = first;
        } else if (column > first) {
            rs_buf_u8(buf, ' ');
            column++;
        }
        rs_buf_bytes(buf, text, (size_t)length);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    rs_buf_u8(buf, '\n');
}

static void put_sentence(const struct page *page, const char *before, const char *text)
{
    rs_buf_printf(page->buf, "%*s%s", INDENT_COLUMNS, "", before);
    put_words(page->buf, INDENT_COLUMNS + (int)strlen(before), page->width, text);
}

static void put_patient(const struct page *page, const struct rs_doctor_patient *patient)
{
    char who[32] = "no rank";
    char what[96];
    if (patient->is_rank && patient->process.rank >= 0)
        (void)snprintf(who, sizeof who, "rank %d", patient->process.rank);
    else if (patient->is_rank)
        (void)snprintf(who, sizeof who, "rank ?");
    (void)snprintf(what, sizeof what, "%s %s", patient->framework, patient->torch.version);
    rs_buf_printf(page->buf, "  %-8s  process %-8d  %-18s  %s\n", who, (int)patient->process.pid,
                  what,
                  !patient->is_rank            ? "is not captured"
                  : patient->reason_count == 0 ? "can be captured"
                                               : "cannot be captured");
    if (!patient->is_rank)
        put_sentence(page, "", patient->why_no_rank);
    for (size_t i = 0; i < patient->reason_count; i++)
        put_sentence(page, "- ", patient->reasons[i]);
    for (size_t i = 0; i < patient->note_count; i++)
        put_sentence(page, "note: ", patient->notes[i]);
    if (patient->has_offer && patient->offer.way == RS_FLIGHT_WAY_NONE) {
        char text[RS_FLIGHT_WHY_BYTES + 64];
        (void)snprintf(text, sizeof text, "a hang of it could not be explained now: %s",
                       patient->offer.why);
        put_sentence(page, "note: ", text);
    }
}

static void put_run(const struct page *page, const struct rs_doctor *doctor, size_t first)
{
    const char *run = doctor->patients[first].process.run;
    size_t ranks = 0;
    size_t good = 0;
    size_t end = first;
    for (; end < doctor->count && strcmp(doctor->patients[end].process.run, run) == 0; end++) {
        ranks += doctor->patients[end].is_rank;
        good += doctor->patients[end].is_rank && doctor->patients[end].reason_count == 0;
    }
    const int32_t world = doctor->patients[end - 1].process.world_size;
    rs_buf_printf(page->buf, "\nrun %s: ", *run ? run : "(none named)");
    if (world > 0)
        rs_buf_printf(page->buf, "%zu of its %d ranks are on this node, ", ranks, world);
    rs_buf_printf(page->buf, "%zu of %zu can be captured\n", good, ranks);
    for (size_t i = first; i < end; i++)
        put_patient(page, &doctor->patients[i]);
}

/* "socket        SENTENCE", "trace folder  SENTENCE". */
static void put_fact(const struct page *page, const char *name, const char *format, ...)
    RS_PRINTF(3, 4);

static void put_fact(const struct page *page, const char *name, const char *format, ...)
{
    char text[2 * RS_DOCTOR_SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rs_buf_printf(page->buf, "%-*s", PLACE_COLUMNS, name);
    put_words(page->buf, PLACE_COLUMNS, page->fact_width, text);
}

static void put_socket(const struct page *page, const struct rs_doctor *doctor)
{
    const struct rs_doctor_server *server = &doctor->server;
    const char *dir = doctor->socket_dir ? doctor->socket_dir : "";
    const char *name = doctor->socket_dir ? "/dynolog" : "abstract \"dynolog\"";
    if (!server->is_there)
        put_fact(page, "socket", "%s%s: nobody answers; start `rankscope collector%s%s`", dir, name,
                 *dir ? " --kineto-socket-dir " : "", dir);
    else if (server->is_ours)
        put_fact(page, "socket", "%s%s: a collector answers, %s", dir, name, server->text);
    else
        put_fact(page, "socket",
                 "%s%s: another daemon answers, %s; PyTorch ranks that ask here cannot be "
                 "captured until it is stopped",
                 dir, name, server->text);
}

static void put_place(const struct page *page, const struct rs_doctor *doctor)
{
    const struct rs_tracedir_facts *folder = &doctor->folder;
    const struct rs_doctor_clock *clock = &doctor->clock;
    put_socket(page, doctor);
    put_fact(page, "trace folder", "%s: %" PRId64 " MiB free%s", doctor->trace_dir,
             folder->free_bytes / (INT64_C(1024) * 1024),
             folder->free_bytes < RS_DOCTOR_LITTLE_SPACE_BYTES
                 ? "; captures of some busy ranks will be refused for want of room"
                 : "");
    if (folder->network)
        put_fact(page, "",
                 "it is on %s, which ranks should not wait for: captures are refused; name a "
                 "local one (collector --trace-dir)",
                 folder->network);
    for (size_t i = 0; i < doctor->open_count; i++)
        put_fact(page, "rights", "everybody may write to %s: %s (chmod o-w)", doctor->open[i].path,
                 doctor->open[i].so_what);
    if (!clock->is_known)
        put_fact(page, "clock", "its state may not be read");
    else if (clock->is_synchronised)
        put_fact(page, "clock", "synchronised, within %" PRId64 " us", clock->max_error_us);
    else
        put_fact(page, "clock",
                 "not synchronised (no NTP or PTP): captures by the clock over several "
                 "hosts may begin apart");
}

void rs_doctor_text(const struct rs_doctor *doctor, unsigned width, unsigned fact_width,
                    struct rs_buf *buf)
{
    const struct page of = {.buf = buf, .width = (int)width, .fact_width = (int)fact_width};
    const struct page *page = &of;
    put_place(page, doctor);
    for (size_t i = 0; i < doctor->count; i++)
        if (i == 0 ||
            strcmp(doctor->patients[i - 1].process.run, doctor->patients[i].process.run) != 0)
            put_run(page, doctor, i);
    if (doctor->count == 0)
        rs_buf_printf(page->buf, "\nno PyTorch, torch_npu or MindSpore process is seen\n");
    if (doctor->hidden_count)
        rs_buf_printf(page->buf, "\n%zu process%s may not be looked at%s\n", doctor->hidden_count,
                      doctor->hidden_count == 1 ? "" : "es",
                      geteuid() ? "; as root more is seen" : ", even as root");
}
