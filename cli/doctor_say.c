/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What doctor found, for programs (--json) and for people: run by run, rank by rank, whether it can be captured, and if not why, and what
 * to do; then this node. The same facts in both: struct rs_doctor.
 */
#include "cli/cli.h"
#include "cli/doctor_priv.h"
#include "common/base/buf.h"
#include "common/base/json_out.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- for programs --------------------------------------------------------------------------------------------- */

static void json_text(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    if (text && *text)
        rs_json_out_string(json, text);
    else
        rs_json_out_null(json);
}

static void json_number(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    if (value >= 0)
        rs_json_out_int(json, value);
    else
        rs_json_out_null(json);
}

static void json_flag(struct rs_json_out *json, const char *key, bool value)
{
    rs_json_out_key(json, key);
    rs_json_out_bool(json, value);
}

static void json_list(struct rs_json_out *json, const char *key,
                      char (*list)[RS_DOCTOR_SENTENCE_BYTES], size_t count)
{
    rs_json_out_key(json, key);
    rs_json_out_array(json);
    for (size_t i = 0; i < count; i++)
        rs_json_out_string(json, list[i]);
    rs_json_out_end(json);
}

static void json_patient(struct rs_json_out *json, struct rs_doctor_patient *patient)
{
    const struct rs_process *process = &patient->process;
    rs_json_out_object(json);
    json_number(json, "pid", process->pid);
    json_text(json, "command", process->command);
    json_number(json, "uid", process->uid);
    json_text(json, "framework", patient->framework);
    json_text(json, "version", patient->torch.version);
    json_text(json, "run", process->run);
    json_number(json, "rank", process->rank);
    json_number(json, "world", process->world_size);
    json_number(json, "step", patient->step);
    json_text(json, "config_dir", patient->config_dir);
    json_flag(json, "is_rank", patient->is_rank);
    json_text(json, "why_no_rank", patient->why_no_rank);
    json_flag(json, "attachable", patient->is_rank && patient->reason_count == 0);
    json_list(json, "reasons", patient->reasons, patient->reason_count);
    json_list(json, "notes", patient->notes, patient->note_count);
    rs_json_out_key(json, "hang"); /* could `rankscope hang --local` explain one */
    if (!patient->has_offer) {
        rs_json_out_null(json);
    } else {
        rs_json_out_object(json);
        json_flag(json, "explainable", patient->offer.way != RS_FLIGHT_WAY_NONE);
        json_text(json, "way", rs_flight_way_text(patient->offer.way));
        json_text(json, "why_not", patient->offer.why);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void json_place(struct rs_json_out *json, const struct rs_doctor *doctor)
{
    const struct rs_doctor_server *server = &doctor->server;
    rs_json_out_key(json, "socket");
    rs_json_out_object(json);
    json_text(json, "directory", doctor->socket_dir);
    json_flag(json, "served", server->is_there);
    json_text(json, "served_by", server->is_there ? server->text : NULL);
    json_flag(json, "is_collector", server->is_there && server->is_ours);
    rs_json_out_end(json);
    rs_json_out_key(json, "trace_folder");
    rs_json_out_object(json);
    json_text(json, "path", doctor->trace_dir);
    json_number(json, "free_bytes", doctor->folder.free_bytes);
    json_text(json, "network_file_system", doctor->folder.network);
    rs_json_out_end(json);
    rs_json_out_key(json, "clock");
    rs_json_out_object(json);
    rs_json_out_key(json, "synchronised");
    if (doctor->clock.is_known)
        rs_json_out_bool(json, doctor->clock.is_synchronised);
    else
        rs_json_out_null(json);
    json_number(json, "max_error_us", doctor->clock.is_known ? doctor->clock.max_error_us : -1);
    rs_json_out_end(json);
}

void doctor_print_json(struct rs_doctor *doctor)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    json_number(&json, "schema_version", 1);
    json_place(&json, doctor);
    rs_json_out_key(&json, "processes");
    rs_json_out_array(&json);
    for (size_t i = 0; i < doctor->count; i++)
        json_patient(&json, &doctor->patients[i]);
    rs_json_out_end(&json);
    rs_json_out_key(&json, "hidden_processes");
    rs_json_out_uint(&json, doctor->hidden_count);
    rs_json_out_end(&json);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

/* ---- for people ------------------------------------------------------------------------------------------------ */

enum { INDENT_COLUMNS = 12, PLACE_COLUMNS = 14 };

/* A sentence in lines that fit, behind what stands in the line already. */
static void print_words(int column, int width, const char *text)
{
    const int first = column;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (column > first && column + 1 + length > width)
            column = printf("\n%*s", first, "") - 1;
        else if (column > first)
            column += printf(" ");
        column += printf("%.*s", length, text);
        text += length;
        text += strspn(text, " ");
    }
    printf("\n");
}

static void print_sentence(const char *before, const char *text)
{
    print_words(printf("%*s%s", INDENT_COLUMNS, "", before), (int)rs_cli_width(stdout), text);
}

static void print_patient(const struct rs_doctor_patient *patient)
{
    char who[32] = "no rank";
    char what[96];
    if (patient->is_rank && patient->process.rank >= 0)
        (void)snprintf(who, sizeof who, "rank %d", patient->process.rank);
    else if (patient->is_rank)
        (void)snprintf(who, sizeof who, "rank ?");
    (void)snprintf(what, sizeof what, "%s %s", patient->framework, patient->torch.version);
    printf("  %-8s  process %-8d  %-18s  %s\n", who, (int)patient->process.pid, what,
           !patient->is_rank            ? "is not captured"
           : patient->reason_count == 0 ? "can be captured"
                                        : "cannot be captured");
    if (!patient->is_rank)
        print_sentence("", patient->why_no_rank);
    for (size_t i = 0; i < patient->reason_count; i++)
        print_sentence("- ", patient->reasons[i]);
    for (size_t i = 0; i < patient->note_count; i++)
        print_sentence("note: ", patient->notes[i]);
    if (patient->has_offer && patient->offer.way == RS_FLIGHT_WAY_NONE) {
        char text[RS_FLIGHT_WHY_BYTES + 64];
        (void)snprintf(text, sizeof text, "a hang of it could not be explained now: %s",
                       patient->offer.why);
        print_sentence("note: ", text);
    }
}

static void print_run(const struct rs_doctor *doctor, size_t first)
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
    printf("\nrun %s: ", *run ? run : "(none named)");
    if (world > 0)
        printf("%zu of its %d ranks are on this node, ", ranks, world);
    printf("%zu of %zu can be captured\n", good, ranks);
    for (size_t i = first; i < end; i++)
        print_patient(&doctor->patients[i]);
}

/* "socket        SENTENCE", "trace folder  SENTENCE". */
static void print_fact(const char *name, const char *format, ...) RS_PRINTF(2, 3);

static void print_fact(const char *name, const char *format, ...)
{
    char text[2 * RS_DOCTOR_SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* one line where a program reads it */
    const int width = isatty(STDOUT_FILENO) ? (int)rs_cli_width(stdout) : INT_MAX;
    print_words(printf("%-*s", PLACE_COLUMNS, name), width, text);
}

static void print_socket(const struct rs_doctor *doctor)
{
    const struct rs_doctor_server *server = &doctor->server;
    const char *dir = doctor->socket_dir ? doctor->socket_dir : "";
    const char *name = doctor->socket_dir ? "/dynolog" : "abstract \"dynolog\"";
    if (!server->is_there)
        print_fact("socket", "%s%s: nobody answers; start `rankscope collector%s%s`", dir, name,
                   *dir ? " --kineto-socket-dir " : "", dir);
    else if (server->is_ours)
        print_fact("socket", "%s%s: a collector answers, %s", dir, name, server->text);
    else
        print_fact("socket",
                   "%s%s: another daemon answers, %s; PyTorch ranks that ask here cannot be "
                   "captured until it is stopped",
                   dir, name, server->text);
}

static void print_place(const struct rs_doctor *doctor)
{
    const struct rs_tracedir_facts *folder = &doctor->folder;
    const struct rs_doctor_clock *clock = &doctor->clock;
    print_socket(doctor);
    print_fact("trace folder", "%s: %" PRId64 " MiB free%s", doctor->trace_dir,
               folder->free_bytes / (INT64_C(1024) * 1024),
               folder->free_bytes < RS_DOCTOR_LITTLE_SPACE_BYTES
                   ? "; captures of some busy ranks will be refused for want of room"
                   : "");
    if (folder->network)
        print_fact("",
                   "it is on %s, which ranks should not wait for: captures are refused; name a "
                   "local one (collector --trace-dir)",
                   folder->network);
    if (!clock->is_known)
        print_fact("clock", "its state may not be read");
    else if (clock->is_synchronised)
        print_fact("clock", "synchronised, within %" PRId64 " us", clock->max_error_us);
    else
        print_fact("clock", "not synchronised (no NTP or PTP): captures by the clock over several "
                            "hosts may begin apart");
}

void doctor_print_text(const struct rs_doctor *doctor)
{
    print_place(doctor);
    for (size_t i = 0; i < doctor->count; i++)
        if (i == 0 ||
            strcmp(doctor->patients[i - 1].process.run, doctor->patients[i].process.run) != 0)
            print_run(doctor, i);
    if (doctor->count == 0)
        printf("\nno PyTorch, torch_npu or MindSpore process is seen\n");
    if (doctor->hidden_count)
        printf("\n%zu process%s may not be looked at%s\n", doctor->hidden_count,
               doctor->hidden_count == 1 ? "" : "es",
               geteuid() ? "; as root more is seen" : ", even as root");
}
