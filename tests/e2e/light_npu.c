/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that follow torch_npu's dynamic_profile rules, without torch: small, quick, and exact about what went wrong.
 *
 *     light_npu --cfg DIR --ranks 8 [--steps N] [--step-us US] [--poll-ms MS] [--block NAME] [--env] [--no-parser] [--old] [--log-bytes B]
 *               [--reversed] [--clock FILE]
 *
 * The launcher starts one process per rank, prints "rank=R pid=P", and ends them when its standard input closes. As
 * in the vendor's code (2.14.0):
 *
 *   one rank makes the shared block (4 bytes of time, then JSON padded with blanks) and forks the monitor, which publishes the
 *   file whenever its time of change in whole seconds differs from the last; what is no JSON object is published as
 *   invalid and an empty file as all defaults
 *   a rank looks at every step: a time that is newer is taken before the JSON is read; "Start step will be set to N." is
 *   logged whoever is listed; a listed rank keeps it until its counter is N; past it, it is dropped without a line in the log
 *   a profile makes its folder when it begins, its two documents when it ends
 *
 * Steps begin at multiples of the step time since the launch, so ranks count alike as in a job with collectives. What the vendor's
 * parser would write is a small trace of the recorded steps, if parsing was asked for and not switched off by a rank list.
 *
 * --clock: time is what the test says (tests/support/job_clock.h): nothing rests on the machine's pace.
 * --reversed: the last rank is started first. --old: as versions that say nothing when they take a file. At its end each rank prints: rank=R steps=S seen=N torn=T invalid=I dropped=D profiles=P
 */
#include "tests/support/job_clock.h"

#include <jansson.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20, TEXT_BYTES = 1024, RANKS_MAX = 64, ROLL_BYTES = 200 * 1024 };

struct settings {
    char cfg[512];
    char block[64];
    char clock[512]; /* "": the system's */
    int ranks, rank;
    int64_t steps, step_us, poll_ms, log_bytes, t0_ns;
    bool by_environment, has_no_parser, is_old, is_reversed;
};

struct profile { /* what a rank took */
    json_t *config;
    int64_t start_step, active, warmup;
};

struct rank {
    struct settings settings;
    char host[256], log_path[1000];
    int log_fd;
    uint8_t *block;
    bool is_creator;
    pid_t monitor;
    int64_t last, counter;
    struct profile pending, running;
    int64_t steps_left, began_ns;
    char result[TEXT_BYTES];
    int64_t seen, torn, invalid, dropped, profiles;
};

static volatile sig_atomic_t must_end;

static void on_end(int number)
{
    (void)number;
    must_end = 1;
}

/* The test's clock. A process sees the instant that it last slept for, not the one that the test has come to since. */
static struct {
    struct job_clock *clock; /* NULL: the system's */
    int slot;
    int64_t now_ns;
} job_time = {.slot = -1};

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    if (job_time.clock)
        return job_time.now_ns + (clock == CLOCK_REALTIME ? job_time.clock->base_realtime_ns
                                                          : job_time.clock->base_monotonic_ns);
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Not clock_nanosleep(): the thread sanitizer does not know it and keeps a signal back until a call that it knows. */
static void sleep_until(int64_t at_ns)
{
    if (job_time.clock) {
        const int64_t until = at_ns - job_time.clock->base_monotonic_ns;
        if (job_clock_sleep(job_time.clock, job_time.slot, until, &must_end) &&
            until > job_time.now_ns)
            job_time.now_ns = until;
        return;
    }
    const int64_t left = at_ns - now_ns(CLOCK_MONOTONIC);
    const struct timespec span = {.tv_sec = left > 0 ? left / 1000000000 : 0,
                                  .tv_nsec = left > 0 ? left % 1000000000 : 0};
    (void)nanosleep(&span, NULL);
}

/* ---- logs --------------------------------------------------------------------------------------------------- */

static void stamp(char text[32])
{
    const int64_t now = now_ns(CLOCK_REALTIME);
    const time_t seconds = now / 1000000000;
    struct tm local;
    (void)localtime_r(&seconds, &local);
    const size_t length = strftime(text, 32, "%Y-%m-%d %H:%M:%S", &local);
    (void)snprintf(text + length, 32 - length, ",%03d", (int)(now / 1000000 % 1000));
}

static void log_open(struct rank *rank, bool is_monitor)
{
    char folder[600];
    (void)snprintf(folder, sizeof folder, "%s/log", rank->settings.cfg);
    (void)mkdir(folder, 0750);
    (void)snprintf(rank->log_path, sizeof rank->log_path, "%s/%sdp_%s_%d_rank_%d.log", folder,
                   is_monitor ? "monitor_" : "", rank->host, (int)getpid(), rank->settings.rank);
    rank->log_fd = open(rank->log_path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0640);
}

static void say(struct rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct rank *rank, const char *format, ...)
{
    char message[512], line[800], time_text[32], backup[1010];
    struct stat info;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    stamp(time_text);
    const int length =
        snprintf(line, sizeof line, "%s [INFO] [%d] _dynamic_profiler_utils.py: %s\n", time_text,
                 (int)getpid(), message);
    if (fstat(rank->log_fd, &info) == 0 && info.st_size + length > rank->settings.log_bytes) {
        (void)snprintf(backup, sizeof backup, "%s.1", rank->log_path);
        (void)close(rank->log_fd);
        (void)rename(rank->log_path, backup);
        rank->log_fd = open(rank->log_path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0640);
    }
    (void)!write(rank->log_fd, line, (size_t)length);
}

/* ---- the monitor -------------------------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *length_p)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        if (fd >= 0)
            (void)close(fd);
        return NULL;
    }
    char *text = calloc((size_t)info.st_size + 1, 1);
    const ssize_t got = text ? read(fd, text, (size_t)info.st_size) : -1;
    (void)close(fd);
    *length_p = got > 0 ? (size_t)got : 0;
    return text;
}

static void publish(struct rank *rank, const char *path, uint32_t seconds)
{
    size_t length = 0;
    char *text = read_file(path, &length);
    json_error_t error;
    json_t *config = length ? json_loadb(text, length, 0, &error) : json_object();
    const bool is_valid = json_is_object(config);
    if (!is_valid) {
        json_decref(config);
        config = json_object();
    }
    json_object_set_new(config, "is_valid", json_boolean(is_valid));
    say(rank, "Dynamic profiler process load json %s", is_valid ? "success" : "failed");
    char *packed = json_dumps(config, 0);
    uint8_t *bytes = calloc(1, BLOCK_BYTES);
    if (packed && bytes && strlen(packed) + 4 <= BLOCK_BYTES) {
        memset(bytes, ' ', BLOCK_BYTES);
        memcpy(bytes, &seconds, 4);
        memcpy(bytes + 4, packed, strlen(packed));
        memcpy(rank->block, bytes, BLOCK_BYTES);
    }
    free(bytes);
    free(packed);
    free(text);
    json_decref(config);
}

static void run_monitor(struct rank *rank, int64_t last)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/profiler_config.json", rank->settings.cfg);
    (void)prctl(PR_SET_NAME, "DynMonitorProc");
    (void)close(0);
    (void)close(1);
    (void)close(2); /* an orphan must not keep the launcher's reader waiting */
    log_open(rank, true);
    while (!must_end) {
        struct stat info;
        if (stat(path, &info) != 0) {
            say(rank, "Dynamic profiler cfg json not exists");
        } else if (info.st_mtim.tv_sec != last) {
            last = info.st_mtim.tv_sec;
            publish(rank, path, (uint32_t)last);
        }
        sleep_until(now_ns(CLOCK_MONOTONIC) + rank->settings.poll_ms * 1000000);
    }
    say(rank, "Dynamic profiler process done");
    _exit(0);
}

/* ---- the block ---------------------------------------------------------------------------------------------- */

static void write_template(struct rank *rank, int64_t *mtime_p)
{
    static const char template[] =
        "{\n    \"activities\": [\n        \"CPU\",\n        \"NPU\"\n    ],\n    \"start_step\": "
        "0\n}\n";
    char path[600];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/profiler_config.json", rank->settings.cfg);
    const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0640);
    if (fd >= 0) {
        (void)!write(fd, template, sizeof template - 1);
        (void)close(fd);
    }
    *mtime_p = stat(path, &info) == 0 ? info.st_mtim.tv_sec : 0;
}

static bool open_block(struct rank *rank, int64_t *mtime_p)
{
    char name[80];
    (void)snprintf(name, sizeof name, "/%s", rank->settings.block);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    rank->is_creator = fd >= 0;
    if (rank->is_creator && ftruncate(fd, BLOCK_BYTES) != 0)
        return false;
    for (int tries = 0; fd < 0 && tries < 500; tries++) {
        struct stat info;
        fd = shm_open(name, O_RDWR, 0600);
        if (fd >= 0 && (fstat(fd, &info) != 0 || info.st_size < BLOCK_BYTES)) {
            (void)close(fd); /* its maker is at work */
            fd = -1;
            sleep_until(now_ns(CLOCK_MONOTONIC) + 2000000);
        }
    }
    if (fd < 0)
        return false;
    rank->block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (rank->block == MAP_FAILED)
        return false;
    say(rank, "Rank %d shared memory is %s.", rank->settings.rank,
        rank->is_creator ? "created" : "connected");
    if (rank->is_creator)
        write_template(rank, mtime_p);
    return true;
}

static bool start_listening(struct rank *rank)
{
    int64_t mtime = 0;
    log_open(rank, false);
    if (rank->log_fd < 0 || !open_block(rank, &mtime))
        return false;
    rank->last = now_ns(CLOCK_REALTIME) / 1000000000;
    if (rank->is_creator) {
        const int slot = job_time.clock ? job_clock_claim(job_time.clock) : -1;
        rank->monitor = fork();
        if (rank->monitor == 0) {
            job_time.slot = slot;
            run_monitor(rank, mtime);
        }
        if (slot >= 0)
            job_clock_give(job_time.clock, slot, rank->monitor);
        say(rank, "Dynamic monitor process has been created by rank %d.", rank->settings.rank);
    } else {
        say(rank, "Rank %d no need to create process.", rank->settings.rank);
    }
    return true;
}

static void stop_listening(struct rank *rank)
{
    char name[80];
    if (!rank->is_creator)
        return;
    (void)kill(rank->monitor, SIGTERM);
    (void)waitpid(rank->monitor, NULL, 0);
    (void)snprintf(name, sizeof name, "/%s", rank->settings.block);
    (void)shm_unlink(name);
    say(rank, "Rank %d unlink shm", rank->settings.rank);
}

/* ---- results ------------------------------------------------------------------------------------------------ */

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[TEXT_BYTES + 300];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    if (!file)
        return;
    (void)fputs(text, file);
    (void)fclose(file);
}

static void make_folders(const char *path)
{
    char copy[TEXT_BYTES];
    (void)snprintf(copy, sizeof copy, "%s", path);
    for (char *at = strchr(copy + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(copy, 0750);
        *at = '/';
    }
    (void)mkdir(copy, 0750);
}

static void begin_result(struct rank *rank)
{
    const char *folder = json_string_value(json_object_get(rank->running.config, "prof_dir"));
    const int64_t now = now_ns(CLOCK_REALTIME);
    const time_t seconds = now / 1000000000;
    struct tm local;
    char digits[32];
    (void)localtime_r(&seconds, &local);
    (void)strftime(digits, sizeof digits, "%Y%m%d%H%M%S", &local);
    (void)snprintf(rank->result, sizeof rank->result, "%.600s/%.200s_%d_%s%03d_ascend_pt",
                   folder ? folder : ".", rank->host, (int)getpid(), digits,
                   (int)(now / 1000000 % 1000));
    make_folders(rank->result);
    rank->began_ns = now;
}

/* What the vendor's parser makes of it, as small as it can be: the recorded steps, one operator in each. */
static void write_parsed(const struct rank *rank, int64_t first, int64_t end_ns)
{
    char folder[TEXT_BYTES + 64], text[4096];
    const int64_t steps = rank->running.active;
    const int64_t length = (end_ns - rank->began_ns) / (steps ? steps : 1);
    size_t at = 0;
    (void)snprintf(folder, sizeof folder, "%s/ASCEND_PROFILER_OUTPUT", rank->result);
    (void)mkdir(folder, 0750);
    at += (size_t)snprintf(text + at, sizeof text - at, "[");
    for (int64_t i = 0; i < steps && at < sizeof text - 800; i++) {
        const int64_t start = rank->began_ns + i * length;
        at += (size_t)snprintf(
            text + at, sizeof text - at,
            "{\"ph\":\"X\",\"name\":\"ProfilerStep#%" PRId64
            "\",\"pid\":1,\"tid\":5,\"ts\":\"%" PRId64 ".%03d\",\"dur\":%" PRId64
            ",\"cat\":\"cpu_op\",\"args\":{}},"
            "{\"name\":\"Node@launch\",\"pid\":2,\"tid\":6,\"ts\":\"%" PRId64
            ".000\",\"dur\":1.0,\"args\":{\"connection_id\":%d},\"ph\":\"X\"},"
            "{\"name\":\"MatMul_1\",\"pid\":3,\"tid\":9,\"ts\":\"%" PRId64 ".000\",\"dur\":%" PRId64
            ",\"args\":{\"Task Type\":\"AI_CORE\",\"connection_id\":%d},\"ph\":\"X\"},",
            first + i, start / 1000, (int)(start % 1000), length / 1000, start / 1000 + 1,
            (int)(100 + i), start / 1000 + 3, length / 2000, (int)(100 + i));
    }
    (void)snprintf(
        text + at, sizeof text - at,
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":"
        "\"Python\"}},{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"tid\":0,"
        "\"args\":{\"name\":\"CANN\"}},{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,"
        "\"tid\":0,\"args\":{\"name\":\"Ascend Hardware\"}},{\"ph\":\"M\",\"name\":"
        "\"process_labels\",\"pid\":3,\"tid\":0,\"args\":{\"labels\":\"NPU\"}}]");
    put_file(folder, "trace_view.json", text);
    put_file(folder, "analyse.done", "");
}

static bool asks(const struct profile *profile, const char *key)
{
    return json_is_true(json_object_get(profile->config, key));
}

static void end_result(struct rank *rank)
{
    char name[64], text[512];
    const int64_t now = now_ns(CLOCK_REALTIME);
    const bool is_parsed = !rank->settings.has_no_parser && asks(&rank->running, "analyse") &&
                           (!asks(&rank->running, "is_rank") || asks(&rank->running, "async_mode"));
    char raw[TEXT_BYTES + 16];
    (void)snprintf(raw, sizeof raw, "%s/FRAMEWORK", rank->result);
    (void)mkdir(raw, 0750);
    put_file(raw, "torch.op_range", "raw");
    const json_t *metadata = json_object_get(rank->running.config, "metadata");
    char *told = json_is_object(metadata) ? json_dumps(metadata, 0) : NULL;
    put_file(rank->result, "profiler_metadata.json", told ? told : "{}");
    free(told);
    (void)snprintf(name, sizeof name, "profiler_info_%d.json", rank->settings.rank);
    (void)snprintf(text, sizeof text,
                   "{\"config\": {}, \"start_info\": {\"freq\": 100}, \"end_info\": "
                   "{\"collectionTimeEnd\": %" PRId64 "}, \"rank_id\": \"%d\"}",
                   now, rank->settings.rank);
    if (is_parsed)
        write_parsed(rank, rank->running.start_step + rank->running.warmup, now);
    put_file(rank->result, name, text);
}

/* ---- a step ------------------------------------------------------------------------------------------------- */

static int64_t number_of(const json_t *config, const char *key, int64_t least, int64_t fallback)
{
    const json_t *value = json_object_get(config, key);
    return json_is_integer(value) && json_integer_value(value) >= least ? json_integer_value(value)
                                                                        : fallback;
}

static bool is_listed(const json_t *config, int rank)
{
    const json_t *list = json_object_get(config, "rank_list");
    if (!json_is_true(json_object_get(config, "is_rank")))
        return true;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_integer(json_array_get(list, i)) &&
            json_integer_value(json_array_get(list, i)) == rank)
            return true;
    return false;
}

static void drop(struct profile *profile)
{
    json_decref(profile->config);
    *profile = (struct profile){0};
}

static void look(struct rank *rank)
{
    uint32_t seconds;
    memcpy(&seconds, rank->block, 4);
    if ((int64_t)seconds <= rank->last)
        return;
    rank->last = seconds;
    rank->seen++;
    size_t length = BLOCK_BYTES - 4;
    while (length && rank->block[4 + length - 1] == ' ')
        length--;
    json_error_t error;
    json_t *config = json_loadb((const char *)rank->block + 4, length, 0, &error);
    if (!config) {
        rank->torn++;
        say(rank, "Share memory bytes to json error: %s", error.text);
        return;
    }
    const int64_t start = number_of(config, "start_step", -1, 0);
    if (!rank->settings.is_old)
        say(rank, "Start step will be set to %" PRId64 ".", start);
    if (!json_is_true(json_object_get(config, "is_valid"))) {
        rank->invalid++;
        json_decref(config);
        return;
    }
    if (!is_listed(config, rank->settings.rank)) {
        say(rank, "Rank %d not in valid rank_list!", rank->settings.rank);
        json_decref(config);
        return;
    }
    drop(&rank->pending);
    rank->pending = (struct profile){.config = config,
                                     .start_step = start,
                                     .active = number_of(config, "active", 1, 1),
                                     .warmup = number_of(config, "warmup", 0, 0)};
}

static void begin(struct rank *rank)
{
    rank->running = rank->pending;
    rank->pending = (struct profile){0};
    rank->running.start_step = rank->counter;
    rank->steps_left = rank->running.active + rank->running.warmup;
    begin_result(rank);
    rank->profiles++;
    say(rank, "Start Dynamic Profiler at %" PRId64 " step.", rank->counter);
}

static void end(struct rank *rank)
{
    end_result(rank);
    drop(&rank->running);
    say(rank, "Stop Dynamic Profiler at %" PRId64 " step.", rank->counter);
}

static void step(struct rank *rank)
{
    rank->counter++;
    look(rank);
    if (rank->counter == 11 && rank->is_creator)
        say(rank, "Dynamic profiling monitor process poll interval time change to 1s");
    if (rank->running.config) {
        if (--rank->steps_left == 0)
            end(rank);
        return;
    }
    if (!rank->pending.config)
        return;
    if (rank->pending.start_step == -1 || rank->counter == rank->pending.start_step) {
        begin(rank);
    } else if (rank->counter > rank->pending.start_step) {
        rank->dropped++;
        drop(&rank->pending);
    }
}

static int run_rank(const struct settings *settings)
{
    struct rank rank = {.settings = *settings, .log_fd = -1};
    const struct sigaction ends = {.sa_handler = on_end};
    (void)sigaction(SIGUSR1, &ends, NULL);
    (void)sigaction(SIGTERM, &ends, NULL);
    (void)gethostname(rank.host, sizeof rank.host - 1);
    if (!start_listening(&rank)) {
        (void)fprintf(stderr, "rank %d cannot listen: %s\n", settings->rank, strerror(errno));
        return 1;
    }
    while (!must_end && (settings->steps == 0 || rank.counter < settings->steps)) {
        sleep_until(settings->t0_ns + (rank.counter + 1) * settings->step_us * 1000);
        step(&rank);
    }
    if (rank.running.config)
        end_result(&rank); /* as at exit: no line says so */
    drop(&rank.running);
    drop(&rank.pending);
    stop_listening(&rank);
    (void)printf("rank=%d steps=%" PRId64 " seen=%" PRId64 " torn=%" PRId64 " invalid=%" PRId64
                 " dropped=%" PRId64 " profiles=%" PRId64 "\n",
                 settings->rank, rank.counter, rank.seen, rank.torn, rank.invalid, rank.dropped,
                 rank.profiles);
    return 0;
}

/* ---- the launcher -------------------------------------------------------------------------------------------- */

static pid_t launch(const struct settings *settings, int number, char **argv)
{
    const int slot = job_time.clock ? job_clock_claim(job_time.clock) : -1;
    const pid_t pid = fork();
    if (pid > 0 && slot >= 0)
        job_clock_give(job_time.clock, slot, pid);
    if (pid != 0)
        return pid;
    char rank[16], world[16], t0[32], slot_text[16];
    (void)snprintf(slot_text, sizeof slot_text, "%d", slot);
    (void)setenv("LIGHT_NPU_SLOT", slot_text, 1);
    (void)snprintf(rank, sizeof rank, "%d", number);
    (void)snprintf(world, sizeof world, "%d", settings->ranks);
    (void)snprintf(t0, sizeof t0, "%" PRId64, settings->t0_ns);
    (void)setenv("RANK", rank, 1);
    (void)setenv("LOCAL_RANK", rank, 1);
    (void)setenv("WORLD_SIZE", world, 1);
    (void)setenv("LIGHT_NPU_T0", t0, 1);
    (void)setenv("LIGHT_NPU_BLOCK", settings->block, 1);
    if (settings->by_environment)
        (void)setenv("PROF_CONFIG_PATH", settings->cfg, 1);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)execv("/proc/self/exe", argv);
    _exit(127);
}

static int run_launcher(const struct settings *settings, char **argv)
{
    pid_t pids[RANKS_MAX];
    int failed = 0;
    char byte;
    for (int i = 0; i < settings->ranks; i++) {
        const int number = settings->is_reversed ? settings->ranks - 1 - i : i;
        pids[i] = launch(settings, number, argv);
        (void)printf("rank=%d pid=%d\n", number, (int)pids[i]);
    }
    (void)fflush(stdout);
    if (settings->steps == 0)
        while (read(0, &byte, 1) > 0)
            ;
    for (int i = 0; i < settings->ranks; i++) {
        int status = 0;
        if (settings->steps == 0)
            (void)kill(pids[i], SIGUSR1);
        (void)waitpid(pids[i], &status, 0);
        failed |= status != 0;
    }
    return failed;
}

static bool take_options(struct settings *settings, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--env") == 0 || strcmp(argv[i], "--no-parser") == 0 ||
            strcmp(argv[i], "--old") == 0 || strcmp(argv[i], "--reversed") == 0) {
            settings->by_environment |= argv[i][2] == 'e';
            settings->has_no_parser |= argv[i][2] == 'n';
            settings->is_old |= argv[i][2] == 'o';
            settings->is_reversed |= argv[i][2] == 'r';
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--cfg") == 0)
            (void)snprintf(settings->cfg, sizeof settings->cfg, "%s", value);
        else if (strcmp(argv[i - 1], "--block") == 0)
            (void)snprintf(settings->block, sizeof settings->block, "%s", value);
        else if (strcmp(argv[i - 1], "--clock") == 0)
            (void)snprintf(settings->clock, sizeof settings->clock, "%s", value);
        else if (strcmp(argv[i - 1], "--ranks") == 0)
            settings->ranks = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--steps") == 0)
            settings->steps = strtoll(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--step-us") == 0)
            settings->step_us = strtoll(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--poll-ms") == 0)
            settings->poll_ms = strtoll(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--log-bytes") == 0)
            settings->log_bytes = strtoll(value, NULL, 10);
        else
            return false;
    }
    return *settings->cfg && settings->ranks > 0 && settings->ranks <= RANKS_MAX;
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .ranks = 1, .rank = -1, .step_us = 10000, .poll_ms = 50, .log_bytes = ROLL_BYTES};
    const char *t0 = getenv("LIGHT_NPU_T0");
    const char *block = getenv("LIGHT_NPU_BLOCK");
    const char *rank = getenv("RANK");
    if (!take_options(&settings, argc, argv)) {
        (void)fprintf(stderr, "usage: light_npu --cfg DIR --ranks N [...]\n");
        return 2;
    }
    if (*settings.clock) {
        const char *slot = getenv("LIGHT_NPU_SLOT");
        job_time.clock = job_clock_map(settings.clock, false);
        if (!job_time.clock) {
            (void)fprintf(stderr, "light_npu: cannot map the clock %s\n", settings.clock);
            return 2;
        }
        job_time.slot = slot ? (int)strtol(slot, NULL, 10) : -1;
        job_time.now_ns = atomic_load(&job_time.clock->now_ns);
    }
    if (t0 && block && rank) {
        settings.rank = (int)strtol(rank, NULL, 10);
        settings.t0_ns = strtoll(t0, NULL, 10);
        (void)snprintf(settings.block, sizeof settings.block, "%s", block);
        return run_rank(&settings);
    }
    settings.t0_ns = now_ns(CLOCK_MONOTONIC);
    if (!*settings.block)
        (void)snprintf(settings.block, sizeof settings.block, "DynamicProfileNpuShm-light-%d",
                       (int)getpid());
    return run_launcher(&settings, argv);
}
