/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope doctor`: for each PyTorch process on this node: which rank it is, and whether it can be captured; if not,
 * why not, in words that mend it. And what a capture rests on: the socket, the trace folder, the clock.
 *
 * It only looks: nothing is bound, signalled or written. What may not be looked at (another user's processes) is said to
 * be so.
 */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/tracedir.h"
#include "collector/trigger/kineto_config.h"
#include "collector/trigger/kineto_socket.h"
#include "collector/trigger/process.h"
#include "collector/trigger/torch.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

enum { SENTENCES_MAX = 8, SENTENCE_BYTES = 320 };

struct patient {
    struct rs_process process;
    struct rs_torch torch;
    bool is_rank; /* else why_no_rank */
    const char *why_no_rank;
    char reasons[SENTENCES_MAX][SENTENCE_BYTES]; /* why it cannot be attached to; none: it can */
    size_t reason_count;
    char notes[SENTENCES_MAX][SENTENCE_BYTES];
    size_t note_count;
};

/* Who answers on a socket of the profiler's. */
struct server {
    bool is_there, is_ours;
    pid_t pid; /* 0 unknown */
    char text[128];
};

struct doctor {
    bool as_json, is_quiet;
    const char *trace_dir, *socket_dir;
    char trace_default[RS_TRACEDIR_BYTES];
    struct server server; /* of the collector's address */
    struct patient *patients;
    size_t count, capacity;
    size_t hidden_count; /* processes whose maps may not be read */
};

/* ---- looking ------------------------------------------------------------------------------------------------ */

static void add(char (*list)[SENTENCE_BYTES], size_t *count, const char *format, va_list arguments)
{
    if (*count < SENTENCES_MAX)
        (void)vsnprintf(list[(*count)++], SENTENCE_BYTES, format, arguments);
}

static void reason(struct patient *patient, const char *format, ...) RS_PRINTF(2, 3);
static void note(struct patient *patient, const char *format, ...) RS_PRINTF(2, 3);

static void reason(struct patient *patient, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(patient->reasons, &patient->reason_count, format, arguments);
    va_end(arguments);
}

static void note(struct patient *patient, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(patient->notes, &patient->note_count, format, arguments);
    va_end(arguments);
}

/* "net:[4026531840]"; "" when it may not be read. */
static void namespace_of(pid_t pid, const char *kind, char *text, size_t bytes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, kind);
    const ssize_t length = readlink(path, text, bytes - 1);
    text[length > 0 ? length : 0] = '\0';
}

/* Does it live in another namespace than the collector (or, without one, than we)? */
static bool is_elsewhere(const struct doctor *doctor, pid_t pid, const char *kind)
{
    char own[64];
    char theirs[64];
    namespace_of(doctor->server.pid ? doctor->server.pid : getpid(), kind, own, sizeof own);
    namespace_of(pid, kind, theirs, sizeof theirs);
    return *own && *theirs && strcmp(own, theirs) != 0;
}

static struct server find_server(const char *dir)
{
    struct server server = {0};
    char path[64];
    char own[RS_TRACEDIR_BYTES] = "";
    char theirs[RS_TRACEDIR_BYTES] = "";
    server.is_there =
        rs_kineto_socket_holder(dir, "dynolog", &server.pid, server.text, sizeof server.text);
    (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)server.pid);
    server.is_ours = server.is_there; /* it may not be looked at: no accusation */
    if (server.pid && readlink(path, theirs, sizeof theirs - 1) > 0 &&
        readlink("/proc/self/exe", own, sizeof own - 1) > 0) {
        const char *name = strrchr(theirs, '/');
        server.is_ours = strcmp(own, theirs) == 0 || (name && strncmp(name, "/rankscope", 10) == 0);
    }
    return server;
}

/* It asks where its own environment says: is that where a collector answers? */
static void look_at_socket(const struct doctor *doctor, struct patient *patient)
{
    const char *dir = patient->process.socket_dir;
    if (!*dir && is_elsewhere(doctor, patient->process.pid, "net")) {
        reason(
            patient,
            "it is in another network namespace (a container), where the collector's socket is not "
            "seen: share a directory with it (run --socket-dir, collector --kineto-socket-dir), or "
            "give it the host's network");
        return;
    }
    const struct server server = find_server(*dir ? dir : NULL);
    if (!server.is_there)
        reason(
            patient,
            "nobody answers on the profiler's socket it asks (%s%s): start `rankscope collector%s%s`",
            *dir ? dir : "abstract \"dynolog\"", *dir ? "/dynolog" : "",
            *dir ? " --kineto-socket-dir " : "", dir);
    else if (!server.is_ours)
        reason(patient,
               "the profiler's socket is served by %s, not by a collector of Rankscope: stop that",
               server.text);
}

/* Since the middle of 2026 (2.14 has the rule, or not, by the day it was built; 2.15 has it). */
static bool has_path_rule(const struct rs_torch *torch)
{
    return torch->major < 0 || torch->major > 2 || (torch->major == 2 && torch->minor >= 14);
}

static void look_at_folder(const struct doctor *doctor, struct patient *patient)
{
    const struct rs_process *process = &patient->process;
    char path[RS_TRACEDIR_BYTES + 8];
    (void)snprintf(path, sizeof path, "%s/x.json", doctor->trace_dir);
    if (has_path_rule(&patient->torch) && !rs_kineto_path_is_allowed(path, process->trace_dir))
        reason(
            patient,
            "it may write traces below /tmp and its KINETO_ONDEMAND_TRACE_DIR (%s) only, not to %s: start "
            "it with run --trace-dir, or the collector with another --trace-dir",
            *process->trace_dir ? process->trace_dir : "not set", doctor->trace_dir);
    if (is_elsewhere(doctor, process->pid, "mnt"))
        note(patient,
             "it has file systems of its own: %s must be the same folder inside and outside",
             doctor->trace_dir);
    if (process->uid != geteuid() && geteuid() != 0)
        reason(patient,
               "it belongs to user %u: a collector of user %u cannot give it a trace folder; run "
               "the collector as root or as that user",
               (unsigned)process->uid, (unsigned)geteuid());
}

static void examine(const struct doctor *doctor, struct patient *patient)
{
    const struct rs_process *process = &patient->process;
    const char *sentence = NULL;
    if (!process->has_environ) {
        reason(
            patient,
            "its environment may not be read, so neither its rank nor its settings are known: run doctor "
            "and collector as root or as user %u",
            (unsigned)process->uid);
        return;
    }
    if (!process->uses_daemon)
        reason(patient,
               "KINETO_USE_DAEMON is not set in it: start the job with `rankscope run -- ...`");
    if (!rs_torch_can_attach(&patient->torch, &sentence))
        reason(patient, "%s", sentence);
    else if (sentence)
        note(patient, "%s", sentence);
    look_at_socket(doctor, patient);
    look_at_folder(doctor, patient);
}

/* ---- finding -------------------------------------------------------------------------------------------------- */

static bool is_patient(void *self, pid_t pid, uint64_t start_ticks)
{
    const struct doctor *doctor = self;
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->patients[i].process.pid == pid &&
            doctor->patients[i].process.start_ticks == start_ticks)
            return true;
    return false;
}

static enum rs_status find_patients(struct doctor *doctor, struct rs_err *err)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return rs_err_errno(err, "cannot list /proc");
    enum rs_status status = RS_OK;
    struct dirent *entry;
    while (status == RS_OK &&
           (entry = readdir(proc))) { /* NOLINT(concurrency-mt-unsafe): own DIR */
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct patient patient = {0};
        if (pid <= 0)
            continue;
        const enum rs_status seen = rs_torch_find(pid, &patient.torch, NULL);
        doctor->hidden_count += seen == RS_REFUSED;
        if (seen != RS_OK || rs_process_read(pid, &patient.process, NULL) != RS_OK)
            continue;
        status = rs_mem_grow((void **)&doctor->patients, &doctor->capacity, doctor->count + 1,
                             sizeof *doctor->patients);
        if (status == RS_OK)
            doctor->patients[doctor->count++] = patient;
        else
            status = rs_err_set(err, RS_NOMEM, "no memory for a list of processes");
    }
    (void)closedir(proc);
    return status;
}

static int by_rank(const void *left, const void *right)
{
    const struct rs_process *a = &((const struct patient *)left)->process;
    const struct rs_process *b = &((const struct patient *)right)->process;
    const int order = strcmp(a->run, b->run);
    if (order)
        return order;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

static void judge_all(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++) {
        struct patient *patient = &doctor->patients[i];
        if (patient->process.has_environ && patient->process.rank < 0)
            patient->why_no_rank = "a launcher, or a single process: it has no rank variable";
        else if (patient->process.has_environ &&
                 rs_process_rank_holder(&patient->process, is_patient, doctor))
            patient->why_no_rank = "a data loader or helper: it inherited its parent's rank";
        else
            patient->is_rank = true;
        if (patient->is_rank)
            examine(doctor, patient);
    }
    if (doctor->count)
        qsort(doctor->patients, doctor->count, sizeof *doctor->patients, by_rank);
}

/* ---- the clock ------------------------------------------------------------------------------------------------ */

struct clock_state {
    bool is_known, is_synchronised;
    int64_t max_error_us;
};

static struct clock_state look_at_clock(void)
{
    struct timex state = {0};
    const int result = adjtimex(&state);
    return (struct clock_state){.is_known = result >= 0,
                                .is_synchronised = result >= 0 && result != TIME_ERROR &&
                                                   !(state.status & STA_UNSYNC),
                                .max_error_us = state.maxerror};
}

/* ---- saying --------------------------------------------------------------------------------------------------- */

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

static void json_list(struct rs_json_out *json, const char *key, char (*list)[SENTENCE_BYTES],
                      size_t count)
{
    rs_json_out_key(json, key);
    rs_json_out_array(json);
    for (size_t i = 0; i < count; i++)
        rs_json_out_string(json, list[i]);
    rs_json_out_end(json);
}

static void json_patient(struct rs_json_out *json, struct patient *patient)
{
    const struct rs_process *process = &patient->process;
    rs_json_out_object(json);
    rs_json_out_key(json, "pid");
    rs_json_out_int(json, process->pid);
    json_text(json, "command", process->command);
    rs_json_out_key(json, "uid");
    rs_json_out_int(json, process->uid);
    json_text(json, "framework", "torch");
    json_text(json, "version", patient->torch.version);
    json_text(json, "run", process->run);
    json_number(json, "rank", process->rank);
    json_number(json, "world", process->world_size);
    rs_json_out_key(json, "is_rank");
    rs_json_out_bool(json, patient->is_rank);
    json_text(json, "why_no_rank", patient->why_no_rank);
    rs_json_out_key(json, "attachable");
    rs_json_out_bool(json, patient->is_rank && patient->reason_count == 0);
    json_list(json, "reasons", patient->reasons, patient->reason_count);
    json_list(json, "notes", patient->notes, patient->note_count);
    rs_json_out_end(json);
}

static void print_json(struct doctor *doctor, const struct rs_tracedir_facts *facts,
                       const struct clock_state *clock)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "socket");
    rs_json_out_object(&json);
    json_text(&json, "directory", doctor->socket_dir);
    rs_json_out_key(&json, "served");
    rs_json_out_bool(&json, doctor->server.is_there);
    json_text(&json, "served_by", doctor->server.is_there ? doctor->server.text : NULL);
    rs_json_out_key(&json, "is_collector");
    rs_json_out_bool(&json, doctor->server.is_there && doctor->server.is_ours);
    rs_json_out_end(&json);
    rs_json_out_key(&json, "trace_folder");
    rs_json_out_object(&json);
    json_text(&json, "path", doctor->trace_dir);
    json_number(&json, "free_bytes", facts->free_bytes);
    json_text(&json, "network_file_system", facts->network);
    rs_json_out_end(&json);
    rs_json_out_key(&json, "clock");
    rs_json_out_object(&json);
    rs_json_out_key(&json, "synchronised");
    if (clock->is_known)
        rs_json_out_bool(&json, clock->is_synchronised);
    else
        rs_json_out_null(&json);
    json_number(&json, "max_error_us", clock->is_known ? clock->max_error_us : -1);
    rs_json_out_end(&json);
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

static void print_patient(const struct patient *patient)
{
    const struct rs_process *process = &patient->process;
    char who[64] = "not a rank";
    if (patient->is_rank && process->rank >= 0 && process->world_size > 0)
        (void)snprintf(who, sizeof who, "rank %d of %d", process->rank, process->world_size);
    else if (patient->is_rank && process->rank >= 0)
        (void)snprintf(who, sizeof who, "rank %d", process->rank);
    else if (patient->is_rank)
        (void)snprintf(who, sizeof who, "rank unknown");
    printf("process %-8d %-14s torch %-10s %s\n", (int)process->pid, who,
           *patient->torch.version ? patient->torch.version : "?",
           !patient->is_rank            ? patient->why_no_rank
           : patient->reason_count == 0 ? "can be captured"
                                        : "cannot be captured:");
    for (size_t i = 0; i < patient->reason_count; i++)
        printf("    - %s\n", patient->reasons[i]);
    for (size_t i = 0; i < patient->note_count; i++)
        printf("    note: %s\n", patient->notes[i]);
}

static void print_text(const struct doctor *doctor, const struct rs_tracedir_facts *facts,
                       const struct clock_state *clock)
{
    const char *run = NULL;
    printf("socket        %s%s: %s\n", doctor->socket_dir ? doctor->socket_dir : "abstract",
           doctor->socket_dir ? "/dynolog" : " \"dynolog\"",
           !doctor->server.is_there ? "nobody answers; start `rankscope collector`"
                                    : doctor->server.text);
    printf("trace folder  %s: %" PRId64 " MiB free%s%s\n", doctor->trace_dir,
           facts->free_bytes / (1024 * 1024), facts->network ? "; refused, it is on " : "",
           facts->network ? facts->network : "");
    if (!clock->is_known)
        printf("clock         its state may not be read\n");
    else if (clock->is_synchronised)
        printf("clock         synchronised, within %" PRId64 " us\n", clock->max_error_us);
    else
        printf(
            "clock         not synchronised: duration captures over several hosts may begin apart\n");
    for (size_t i = 0; i < doctor->count; i++) {
        const char *own = doctor->patients[i].process.run;
        if (!run || strcmp(run, own) != 0)
            printf("\nrun %s\n", *own ? own : "(none named)");
        run = own;
        print_patient(&doctor->patients[i]);
    }
    if (doctor->count == 0)
        printf("\nno PyTorch process is seen\n");
    if (doctor->hidden_count)
        printf("\n%zu processes may not be looked at; as root more is seen\n",
               doctor->hidden_count);
}

/* ---- the verb ------------------------------------------------------------------------------------------------- */

static int visit(struct doctor *doctor)
{
    struct rs_err err = {0};
    struct rs_tracedir_facts facts = {0};
    doctor->server = find_server(doctor->socket_dir);
    enum rs_status status = find_patients(doctor, &err);
    if (status == RS_OK)
        status = rs_tracedir_look(doctor->trace_dir, &facts, &err);
    if (status < 0) {
        rs_mem_free(doctor->patients);
        return rs_cli_fail("doctor", &err);
    }
    judge_all(doctor);
    const struct clock_state clock = look_at_clock();
    if (doctor->as_json)
        print_json(doctor, &facts, &clock);
    else if (!doctor->is_quiet)
        print_text(doctor, &facts, &clock);
    size_t ranks = 0;
    size_t good = 0;
    for (size_t i = 0; i < doctor->count; i++) {
        ranks += doctor->patients[i].is_rank;
        good += doctor->patients[i].is_rank && doctor->patients[i].reason_count == 0;
    }
    rs_mem_free(doctor->patients);
    return ranks && good == ranks && !facts.network ? RS_EXIT_COMPLETE : RS_EXIT_PARTIAL;
}

int rs_cmd_doctor(int argc, char **argv)
{
    struct doctor doctor = {0};
    const struct rs_arg items[] = {
        {.name = "trace-dir",
         .kind = RS_ARG_TEXT,
         .target = &doctor.trace_dir,
         .value = "DIR",
         .environment = "RANKSCOPE_TRACE_DIR",
         .help = "the collector's (default /tmp/rankscope-traces-UID)"},
        {.name = "kineto-socket-dir",
         .kind = RS_ARG_TEXT,
         .target = &doctor.socket_dir,
         .value = "DIR",
         .environment = "KINETO_IPC_SOCKET_DIR",
         .help = "the collector's (default: abstract sockets)"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &doctor.as_json,
         .help = "print JSON; unknown is null"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &doctor.is_quiet,
         .help = "print nothing: the exit code tells"},
    };
    const struct rs_args args = {
        .verb = "doctor",
        .operands = "",
        .summary =
            "Says for each PyTorch process on this node which rank it is and whether it can be captured, and "
            "if not, why not; and looks at the trace folder and the clock. Changes nothing.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue = "  rankscope doctor\n"
                    "  rankscope doctor --json\n"
                    "\n"
                    "Exit: 0 every rank can be captured, 1 some cannot, or there is none.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && first < argc)
        status = rs_err_set(&err, RS_INVALID, "\"%s\" is not expected here", argv[first]);
    if (status < 0)
        return rs_cli_fail("doctor", &err);
    if (doctor.socket_dir && !*doctor.socket_dir)
        doctor.socket_dir = NULL;
    if (!doctor.trace_dir) {
        rs_tracedir_default(doctor.trace_default);
        doctor.trace_dir = doctor.trace_default;
    }
    return visit(&doctor);
}
