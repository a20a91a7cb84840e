/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope doctor`: for each PyTorch, torch_npu and MindSpore process on this node: which rank it is, and whether it can
 * be captured; if not, why not, in words that mend it. And what a capture rests on: the socket, the trace folder, the clock.
 *
 * PyTorch ranks are judged here (Kineto's way); torch_npu and MindSpore ranks, which are told by a file, by their triggers,
 * which look at the file's folder, the shared block and the monitor behind it.
 *
 * It only looks: nothing is bound, signalled or written. What may not be looked at (another user's processes) is said to
 * be so.
 */
#include "collector/agent/doctor.h"

#include "collector/trigger/config_trigger.h"
#include "collector/trigger/kineto_config.h"
#include "collector/trigger/kineto_socket.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/paths.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <unistd.h>

/* ---- looking ------------------------------------------------------------------------------------------------ */

static void RS_PRINTF(3, 0) add(char (*list)[RS_DOCTOR_SENTENCE_BYTES], size_t *count,
                                const char *format, va_list arguments)
{
    if (*count < RS_DOCTOR_SENTENCES_MAX)
        (void)vsnprintf(list[(*count)++], RS_DOCTOR_SENTENCE_BYTES, format, arguments);
}

static void reason(struct rs_doctor_patient *patient, const char *format, ...) RS_PRINTF(2, 3);
static void note(struct rs_doctor_patient *patient, const char *format, ...) RS_PRINTF(2, 3);

static void reason(struct rs_doctor_patient *patient, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(patient->reasons, &patient->reason_count, format, arguments);
    va_end(arguments);
}

static void note(struct rs_doctor_patient *patient, const char *format, ...)
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
static bool is_elsewhere(const struct rs_doctor *doctor, pid_t pid, const char *kind)
{
    char own[64];
    char theirs[64];
    namespace_of(doctor->server.pid ? doctor->server.pid : getpid(), kind, own, sizeof own);
    namespace_of(pid, kind, theirs, sizeof theirs);
    return *own && *theirs && strcmp(own, theirs) != 0;
}

static struct rs_doctor_server find_server(const char *dir)
{
    struct rs_doctor_server server = {0};
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
static void look_at_socket(const struct rs_doctor *doctor, struct rs_doctor_patient *patient)
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
    const struct rs_doctor_server server = find_server(*dir ? dir : NULL);
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

static void look_at_folder(const struct rs_doctor *doctor, struct rs_doctor_patient *patient)
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

/* A job on NPUs: its device is recorded by torch_npu's own profiler only. */
static void examine_npu(struct rs_doctor_patient *patient)
{
    if (!*patient->config_dir)
        reason(
            patient,
            "it trains on NPUs (torch_npu) and was started without PROF_CONFIG_PATH: start it with "
            "PROF_CONFIG_PATH=DIR (a folder that it may write), or let it call dp.init(DIR)");
}

static void examine(const struct rs_doctor *doctor, struct rs_doctor_patient *patient)
{
    const struct rs_process *process = &patient->process;
    const char *sentence = NULL;
    if (strcmp(patient->framework, "torch_npu") == 0) {
        examine_npu(patient);
        return;
    }
    if (strcmp(patient->framework, "mindspore") == 0) {
        if (process->dumps_data)
            note(patient,
                 "it dumps data (MINDSPORE_DUMP_CONFIG is set): that takes its time, and a "
                 "capture shows how long things take with it; switch it off first");
        if (!*patient->config_dir)
            reason(
                patient,
                "it made no DynamicProfilerMonitor that can be seen: the training script makes one "
                "(cfg_path names a folder), and calls its step() or hands it to Model.train()");
        return;
    }
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
    patient->has_offer = rs_flight_offer(process->pid, &patient->offer, NULL) == RS_OK;
}

/* ---- finding -------------------------------------------------------------------------------------------------- */

static bool is_patient(void *self, pid_t pid, uint64_t start_ticks)
{
    const struct rs_doctor *doctor = self;
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->patients[i].process.pid == pid &&
            doctor->patients[i].process.start_ticks == start_ticks)
            return true;
    return false;
}

/* Has it a file of such a name mapped? */
static bool maps_hold(pid_t pid, const char *name)
{
    struct rs_buf buf = {0};
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    const bool holds = rs_file_read(path, (size_t)32 << 20, &buf, NULL) == RS_OK &&
                       strstr(rs_buf_text(&buf), name);
    rs_buf_fini(&buf);
    return holds;
}

static struct rs_doctor_patient *add_patient(struct rs_doctor *doctor,
                                             const struct rs_doctor_patient *fresh)
{
    if (rs_mem_grow((void **)&doctor->patients, &doctor->capacity, doctor->count + 1,
                    sizeof *doctor->patients) != RS_OK)
        return NULL;
    doctor->patients[doctor->count] = *fresh;
    return &doctor->patients[doctor->count++];
}

/* false: it is no process that this is about. */
static bool look_at_process(struct rs_doctor *doctor, pid_t pid, struct rs_doctor_patient *patient)
{
    *patient = (struct rs_doctor_patient){.framework = "torch", .step = -1};
    const enum rs_status seen = rs_torch_find(pid, &patient->torch, NULL);
    doctor->hidden_count += seen == RS_REFUSED;
    if (seen == RS_NOTFOUND && maps_hold(pid, "libmindspore"))
        patient->framework = "mindspore";
    else if (seen != RS_OK)
        return false;
    else if (maps_hold(pid, "libtorch_npu"))
        patient->framework = "torch_npu";
    return rs_process_read(pid, &patient->process, NULL) == RS_OK;
}

static enum rs_status find_patients(struct rs_doctor *doctor, struct rs_err *err)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return rs_err_errno(err, "cannot list /proc");
    enum rs_status status = RS_OK;
    struct dirent *entry;
    while (status == RS_OK && (entry = rs_dir_next(proc))) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct rs_doctor_patient patient;
        if (pid > 0 && look_at_process(doctor, pid, &patient) && !add_patient(doctor, &patient))
            status = rs_err_set(err, RS_NOMEM, "no memory for a list of processes");
    }
    (void)closedir(proc);
    return status;
}

/* ---- ranks that are told by a file -------------------------------------------------------------------------------- */

static struct rs_doctor_patient *find_patient(struct rs_doctor *doctor, pid_t pid)
{
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->patients[i].process.pid == pid)
            return &doctor->patients[i];
    return NULL;
}

/* Its umask; *is_open_p: it leaves others the right to write to what the process makes. */
static unsigned open_umask(pid_t pid, bool *is_open_p)
{
    char path[64];
    struct rs_buf text = {0};
    unsigned mask = 0;
    *is_open_p = false;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (rs_file_read(path, (size_t)64 << 10, &text, NULL) == RS_OK) {
        const char *line = strstr(rs_buf_text(&text), "\nUmask:");
        if (line)
            mask = (unsigned)strtoul(line + strlen("\nUmask:"), NULL, 8);
        *is_open_p = line && !(mask & S_IWOTH);
    }
    rs_buf_fini(&text);
    return mask;
}

static void look_at_umask(struct rs_doctor_patient *patient)
{
    bool is_open;
    const unsigned mask = open_umask(patient->process.pid, &is_open);
    if (is_open)
        note(patient,
             "its umask is %04o, so everybody may write to what its profiler leaves: start it with "
             "0027 or more",
             mask);
}

static void take_rank(struct rs_doctor *doctor, const struct rs_config_rank *rank,
                      const char *framework)
{
    struct rs_doctor_patient fresh = {.process = rank->process,
                                      .torch = {.major = -1, .minor = -1}};
    struct rs_doctor_patient *patient = find_patient(doctor, rank->process.pid);
    if (!patient)
        patient = add_patient(doctor, &fresh);
    if (!patient)
        return;
    patient->framework = framework;
    patient->step = rank->step;
    patient->is_rank = true;
    look_at_umask(patient);
    if (rs_file_is_everybodys(rank->config_dir))
        note(patient, "everybody may write to %s: whoever does decides what it records",
             rank->config_dir);
    if (patient->process.rank < 0)
        patient->process.rank = rank->rank;
    if (patient->process.world_size < 0)
        patient->process.world_size = rank->world;
    if (!patient->process.run[0])
        (void)snprintf(patient->process.run, sizeof patient->process.run, "%s", rank->run);
    (void)snprintf(patient->config_dir, sizeof patient->config_dir, "%s", rank->config_dir);
    if (rank->is_unresponsive)
        reason(patient, "%s", rank->unresponsive_because);
    if (rank->is_busy)
        note(patient, "it profiles for somebody else now");
    if (*rank->note)
        note(patient, "%s", rank->note);
}

/* One look of a trigger that has nothing in hand: it reads, and changes nothing. */
static void take_ranks(struct rs_doctor *doctor, struct rs_config_trigger *trigger,
                       const char *framework)
{
    size_t count = 0;
    rs_config_trigger_tick(trigger);
    const struct rs_config_rank *ranks = rs_config_trigger_ranks(trigger, &count);
    for (size_t i = 0; i < count; i++)
        if (!ranks[i].is_gone)
            take_rank(doctor, &ranks[i], framework);
    rs_config_trigger_close(&trigger);
}

static enum rs_status find_config_ranks(struct rs_doctor *doctor, struct rs_err *err)
{
    const struct rs_config_trigger_options options = {.result_root = doctor->trace_dir};
    struct rs_config_trigger *trigger = NULL;
    static const char *const kinds[] = {RS_CONFIG_TORCH_NPU_NAME, RS_CONFIG_MINDSPORE_NAME};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == RS_OK; i++) {
        if (!rs_config_has_kind(kinds[i]))
            continue;
        status = rs_config_trigger_open(kinds[i], &options, &trigger, err);
        if (status == RS_OK)
            take_ranks(doctor, trigger, kinds[i]);
    }
    return status;
}

static int by_rank(const void *left, const void *right)
{
    const struct rs_process *a = &((const struct rs_doctor_patient *)left)->process;
    const struct rs_process *b = &((const struct rs_doctor_patient *)right)->process;
    const int order = strcmp(a->run, b->run);
    if (order)
        return order;
    if (a->rank != b->rank) /* those without one last */
        return (uint32_t)a->rank < (uint32_t)b->rank ? -1 : 1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

static void check_all(struct rs_doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++) {
        struct rs_doctor_patient *patient = &doctor->patients[i];
        const bool has_trigger = *patient->config_dir; /* that says it is a rank */
        const bool is_known = !has_trigger && patient->process.has_environ;
        if (is_known && patient->process.rank < 0)
            patient->why_no_rank =
                "a launcher, or a single process: it has no rank variable (a single one that "
                "is to be captured is started with RANK=0 WORLD_SIZE=1)";
        else if (is_known && rs_process_rank_holder(&patient->process, is_patient, doctor))
            patient->why_no_rank = "a data loader or helper: it inherited its parent's rank";
        else
            patient->is_rank = true;
        if (patient->is_rank)
            examine(doctor, patient);
    }
    if (doctor->count)
        qsort(doctor->patients, doctor->count, sizeof *doctor->patients, by_rank);
}

/* ---- folders of ours ------------------------------------------------------------------------------------------ */

static void look_at_rights(struct rs_doctor *doctor, const char *path, const char *so_what)
{
    if (!rs_file_is_everybodys(path) || doctor->open_count == RS_DOCTOR_OPEN_MAX)
        return;
    struct rs_doctor_open *open = &doctor->open[doctor->open_count++];
    (void)snprintf(open->path, sizeof open->path, "%.1023s", path);
    open->so_what = so_what;
}

/* By default: what --data and --spool of this node's daemons name is told by them when they start. */
static void look_at_folders(struct rs_doctor *doctor)
{
    char path[RS_PATHS_BYTES];
    look_at_rights(doctor, doctor->trace_dir, "no collector starts with it");
    if (rs_paths_runtime_dir(path, false, NULL) == RS_OK)
        look_at_rights(doctor, path, "another's socket can take the place of the daemons' own");
    if (rs_paths_data_dir(path, NULL) == RS_OK)
        look_at_rights(doctor, path, "captures, tokens and certificates can be changed there");
}

/* ---- the clock ------------------------------------------------------------------------------------------------ */

static struct rs_doctor_clock look_at_clock(void)
{
    struct timex state = {0};
    const int result = adjtimex(&state);
    return (struct rs_doctor_clock){.is_known = result >= 0,
                                    .is_synchronised = result >= 0 && result != TIME_ERROR &&
                                                       !(state.status & STA_UNSYNC),
                                    .max_error_us = state.maxerror};
}

/* ---- the door ------------------------------------------------------------------------------------------------- */

enum rs_status rs_doctor_look(struct rs_doctor *doctor, struct rs_err *err)
{
    if (doctor->socket_dir && !*doctor->socket_dir)
        doctor->socket_dir = NULL;
    if (!doctor->trace_dir) {
        rs_tracedir_default(doctor->trace_default);
        doctor->trace_dir = doctor->trace_default;
    }
    doctor->server = find_server(doctor->socket_dir);
    enum rs_status status = find_patients(doctor, err);
    if (status == RS_OK)
        status = find_config_ranks(doctor, err);
    if (status == RS_OK)
        status = rs_tracedir_look(doctor->trace_dir, &doctor->folder, err);
    if (status < 0)
        return status;
    check_all(doctor);
    look_at_folders(doctor);
    doctor->clock = look_at_clock();
    return RS_OK;
}

void rs_doctor_fini(struct rs_doctor *doctor)
{
    rs_mem_free(doctor->patients);
    doctor->patients = NULL;
    doctor->count = doctor->capacity = 0;
}
