/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The torch_npu trigger against light ranks (tests/e2e/light_npu.c): real processes, a real shared block, a real monitor, real
 * files; quick steps and a quick poll, so that hundreds of files fit into a test. Time goes on when the test says so
 * (job_clock.h), for the ranks, their monitor and the trigger alike: what is awaited happens, however busy the machine is.
 */
#include "ascend/adapter/ascend.h"
#include "common/base/file.h"
#include "tests/support/job_clock.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 16, PATH_BYTES = 512, TICK_MS = 25 };

struct job {
    char root[64], cfg[128], results[128], block[64];
    pid_t launcher, pids[RANKS_MAX];
    int ranks;
    int input;    /* of the launcher: closing it ends the ranks */
    FILE *output; /* of the launcher */
    struct rs_config_trigger *trigger;
};

/* ---- time -------------------------------------------------------------------------------------------------------- */

static struct {
    char folder[64], path[96];
    struct job_clock *clock; /* of all jobs of a case */
} job_time;

static int clock_setup(void **state)
{
    (void)state;
    tmp_dir_make(job_time.folder);
    (void)snprintf(job_time.path, sizeof job_time.path, "%s/clock", job_time.folder);
    job_time.clock = job_clock_map(job_time.path, true);
    return job_time.clock ? 0 : -1;
}

static int clock_teardown(void **state)
{
    (void)state;
    (void)munmap(job_time.clock, sizeof *job_time.clock);
    tmp_dir_remove(job_time.folder);
    return 0;
}

static rs_ns job_monotonic(void)
{
    return job_time.clock->base_monotonic_ns + atomic_load(&job_time.clock->now_ns);
}

static rs_ns job_realtime(void)
{
    return job_time.clock->base_realtime_ns + atomic_load(&job_time.clock->now_ns);
}

static void pause_ms(int64_t ms)
{
    if (!job_clock_advance(job_time.clock, ms * RS_NS_PER_MS))
        fail_msg("a process of the job computes for a minute");
}

/* Beside this program. */
static void client_path(char path[PATH_BYTES])
{
    const ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - 16);
    assert_true(length > 0);
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    (void)snprintf(slash, 16, "/light_npu");
    if (access(path, X_OK) != 0)
        fail_msg("%s is not built", path);
}

struct shape {
    int ranks;
    const char *step_us, *log_bytes, *block;
    bool by_environment, is_old, is_reversed;
};

static void launch(struct job *job, const struct shape *shape)
{
    char client[PATH_BYTES], ranks[16];
    int in[2], out[2];
    client_path(client);
    (void)snprintf(ranks, sizeof ranks, "%d", shape->ranks);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    job->ranks = shape->ranks;
    job->launcher = fork();
    if (job->launcher == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        for (int i = 3; i < 64; i++)
            (void)close(i);
        (void)execl(client, client, "--cfg", job->cfg, "--ranks", ranks, "--poll-ms", "10",
                    "--step-us", shape->step_us, "--log-bytes", shape->log_bytes, "--block",
                    job->block, "--clock", job_time.path,
                    shape->is_reversed      ? "--reversed"
                    : shape->is_old         ? "--old"
                    : shape->by_environment ? "--env"
                                            : (char *)NULL,
                    (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    job->input = in[1];
    job->output = fdopen(out[0], "r");
    for (int i = 0; i < shape->ranks; i++) {
        int rank = -1, pid = 0;
        assert_int_equal(fscanf(job->output, " rank=%d pid=%d", &rank, &pid), 2);
        job->pids[rank] = pid;
    }
}

static void open_trigger(struct job *job)
{
    const struct rs_config_trigger_options options = {
        .result_root = job->results, .monotonic = job_monotonic, .realtime = job_realtime};
    struct rs_err err = {0};
    assert_ok(rs_ascend_trigger_open(&options, &job->trigger, &err));
}

static void start(struct job *job, const struct shape *shape)
{
    *job = (struct job){0};
    tmp_dir_make(job->root);
    (void)snprintf(job->cfg, sizeof job->cfg, "%s/cfg", job->root);
    (void)snprintf(job->results, sizeof job->results, "%s/results", job->root);
    if (shape->block)
        (void)snprintf(job->block, sizeof job->block, "%s", shape->block);
    else
        (void)snprintf(job->block, sizeof job->block, "DynamicProfileNpuShm-t%d-%ld", (int)getpid(),
                       (long)(rs_time_monotonic() % 1000000));
    assert_int_equal(mkdir(job->cfg, 0750), 0);
    assert_int_equal(mkdir(job->results, 0755), 0);
    launch(job, shape);
    open_trigger(job);
}

struct sums {
    int64_t seen_least, seen_most, torn, invalid, dropped, profiles[RANKS_MAX];
    int reported; /* ranks that came to their end */
};

/* Monitors of killed ranks live on. */
static void end_orphans(const struct job *job)
{
    char folder[PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "%s/log", job->cfg);
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        const char *tail = strstr(entry->d_name, "_rank_");
        if (strncmp(entry->d_name, "monitor_dp_", 11) != 0 || !tail)
            continue;
        while (tail > entry->d_name && tail[-1] != '_')
            tail--;
        const pid_t pid = (pid_t)strtol(tail, NULL, 10);
        if (pid > 1)
            (void)kill(pid, SIGKILL);
    }
    if (dir)
        (void)closedir(dir);
}

static struct sums stop(struct job *job)
{
    struct sums sums = {.seen_least = INT64_MAX};
    int rank;
    int64_t steps, seen, torn, invalid, dropped, profiles;
    char path[128];
    (void)close(job->input);
    while (fscanf(job->output,
                  " rank=%d steps=%" SCNd64 " seen=%" SCNd64 " torn=%" SCNd64 " invalid=%" SCNd64
                  " dropped=%" SCNd64 " profiles=%" SCNd64,
                  &rank, &steps, &seen, &torn, &invalid, &dropped, &profiles) == 7) {
        sums.reported++;
        sums.seen_least = seen < sums.seen_least ? seen : sums.seen_least;
        sums.seen_most = seen > sums.seen_most ? seen : sums.seen_most;
        sums.torn += torn;
        sums.invalid += invalid;
        sums.dropped += dropped;
        sums.profiles[rank] = profiles;
    }
    (void)fclose(job->output);
    (void)waitpid(job->launcher, NULL, 0);
    end_orphans(job);
    rs_config_trigger_close(&job->trigger);
    (void)snprintf(path, sizeof path, "/dev/shm/%s", job->block);
    (void)unlink(path);
    tmp_dir_remove(job->root);
    return sums;
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

static const struct rs_config_rank *rank_of(const struct job *job, int rank)
{
    size_t count = 0;
    const struct rs_config_rank *ranks = rs_config_trigger_ranks(job->trigger, &count);
    for (size_t i = 0; i < count; i++)
        if (ranks[i].process.pid == job->pids[rank])
            return &ranks[i];
    return NULL;
}

static struct rs_config_target target_of(const struct job *job, int rank)
{
    const struct rs_config_rank *found = rank_of(job, rank);
    if (!found)
        fail_msg("rank %d is not seen", rank);
    return (struct rs_config_target){found->process.pid, found->process.start_ticks};
}

typedef bool condition_fn(const struct job *job, int rank);

static bool is_seen(const struct job *job, int rank)
{
    return rank_of(job, rank) && rank_of(job, rank)->init_ns;
}
static bool is_counted(const struct job *job, int rank)
{
    return rank_of(job, rank)->step >= 0 && !rank_of(job, rank)->is_probing;
}
static bool is_over(const struct job *job, int rank)
{
    return rank_of(job, rank)->state == RS_CONFIG_STATE_WRITTEN ||
           rank_of(job, rank)->state == RS_CONFIG_STATE_FAILED;
}
static bool has_accepted(const struct job *job, int rank)
{
    return rank_of(job, rank)->state == RS_CONFIG_STATE_ACCEPTED;
}
static bool is_recording(const struct job *job, int rank)
{
    return rank_of(job, rank)->state == RS_CONFIG_STATE_RECORDING;
}
static bool is_unresponsive(const struct job *job, int rank)
{
    return rank_of(job, rank) && rank_of(job, rank)->is_unresponsive;
}

/* Ticks until it holds for all ranks of the set; fails after `seconds`. */
static void wait_for(const struct job *job, unsigned set, condition_fn *holds, const char *what,
                     int seconds)
{
    const rs_ns until = job_monotonic() + seconds * (rs_dur)RS_NS_PER_S;
    for (;;) {
        bool is_all = true;
        rs_config_trigger_tick(job->trigger);
        for (int i = 0; i < job->ranks; i++)
            is_all = is_all && (!(set & 1u << i) || holds(job, i));
        if (is_all)
            return;
        if (job_monotonic() > until)
            fail_msg("not in %d s of the job: %s", seconds, what);
        pause_ms(TICK_MS);
    }
}

static unsigned all_of(const struct job *job)
{
    return (1u << job->ranks) - 1;
}

static void find_step(const struct job *job)
{
    struct rs_err err = {0};
    const struct rs_config_target target = target_of(job, 0);
    pause_ms(300); /* beyond step 11, whose line makes one profile enough */
    assert_ok(rs_config_trigger_probe(job->trigger, &target, &err));
    wait_for(job, 1, is_counted, "the step of rank 0", 20);
    assert_true(rank_of(job, 0)->step_ns > 0);
    pause_ms(2 *
             TICK_MS); /* every rank has looked at that file, too, before the next one is written */
}

static enum rs_status arm_at(const struct job *job, const char *id, unsigned set, int64_t step,
                             bool may_move, struct rs_err *err)
{
    struct rs_capture_request request;
    struct rs_config_target targets[RANKS_MAX];
    size_t count = 0;
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    request.schedule.active = 2;
    for (int i = 0; i < job->ranks; i++)
        if (set & 1u << i)
            targets[count++] = target_of(job, i);
    const struct rs_config_arm arm = {.capture_id = id,
                                      .request = &request,
                                      .start_step = step,
                                      .may_move = may_move,
                                      .targets = targets,
                                      .target_count = count,
                                      .deadline = 30 * (rs_dur)RS_NS_PER_S};
    const enum rs_status status = rs_config_trigger_arm(job->trigger, &arm, err);
    rs_request_fini(&request);
    return status;
}

/* So many steps from now. */
static int64_t arm(const struct job *job, const char *id, unsigned set, int64_t ahead)
{
    struct rs_err err = {0};
    const int64_t step = rs_config_rank_step_at(rank_of(job, 0), job_realtime()) + ahead;
    if (arm_at(job, id, set, step, true, &err) != RS_OK)
        fail_msg("%s: %s", id, err.text);
    return step;
}

static void release(const struct job *job, unsigned set)
{
    for (int i = 0; i < job->ranks; i++) {
        if (!(set & 1u << i))
            continue;
        const struct rs_config_target target = target_of(job, i);
        rs_config_trigger_release(job->trigger, &target);
    }
}

static void assert_says(const char *text, const char *wanted)
{
    if (!strstr(text, wanted))
        fail_msg("\"%s\" does not say \"%s\"", text, wanted);
}

static void assert_written(const struct job *job, int rank)
{
    if (rank_of(job, rank)->state != RS_CONFIG_STATE_WRITTEN)
        fail_msg("rank %d is %s: %s", rank, rs_config_state_text(rank_of(job, rank)->state),
                 rank_of(job, rank)->why);
}

static const struct shape quick = {.ranks = 8, .step_us = "3000", .log_bytes = "4096"};
static const struct shape few = {
    .ranks = 4, .step_us = "5000", .log_bytes = "200000", .by_environment = true};

/* ---- the tests --------------------------------------------------------------------------------------------------- */

/* All of them begin at the same step; those that were not chosen do not begin; logs roll over in between. */
static void two_hundred_files_none_torn_or_missed(void **state)
{
    (void)state;
    enum { FILES = 200 };
    struct job job;
    int64_t expected[RANKS_MAX] = {0};
    int64_t rewrites = 0;
    start(&job, &quick);
    wait_for(&job, all_of(&job), is_seen, "eight ranks", 20);
    find_step(&job);
    expected[0] = 1; /* the probe: the line of step 11 and one profile are enough */
    for (int i = 0; i < FILES; i++) {
        char id[32];
        const unsigned set = i % 3 == 0 ? all_of(&job) : ((unsigned)i * 37u % 255u + 1u);
        (void)snprintf(id, sizeof id, "capture-%d", i);
        const int64_t asked = arm(&job, id, set, 60);
        wait_for(&job, set, is_over, id, 40);
        int64_t first = -1;
        for (int r = 0; r < job.ranks; r++) {
            const struct rs_config_rank *rank = rank_of(&job, r);
            if (!(set & 1u << r))
                continue;
            if (rank->state != RS_CONFIG_STATE_WRITTEN)
                fail_msg("file %d, rank %d: %s", i, r, rank->why);
            first = first < 0 ? rank->started_step : first;
            assert_int_equal(rank->started_step, first);
            assert_int_equal(rank->stopped_step, first + 2);
            assert_true(first == asked || rank->rewrite_count > 0);
            rewrites += rank->rewrite_count && first != asked && r == __builtin_ctz(set);
            expected[r]++;
        }
        release(&job, set);
    }
    const struct sums sums = stop(&job);
    print_message("%d files: every rank saw %" PRId64 ", torn %" PRId64 ", invalid %" PRId64
                  "; %" PRId64 " were notified once more because their step was over\n",
                  FILES, sums.seen_least, sums.torn, sums.invalid, rewrites);
    assert_int_equal(sums.reported, 8);
    assert_int_equal(sums.seen_least, sums.seen_most);
    assert_true(sums.seen_least >= FILES + 1);
    assert_int_equal(sums.torn + sums.invalid, 0);
    for (int r = 0; r < 8; r++)
        assert_int_equal(sums.profiles[r], expected[r]);
}

static void a_cancelled_file_starts_nothing(void **state)
{
    (void)state;
    struct job job;
    struct rs_err err = {0};
    start(&job, &few);
    wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
    find_step(&job);
    (void)arm(&job, "far", all_of(&job), 400);
    wait_for(&job, all_of(&job), has_accepted, "the far file", 20);
    assert_ok(rs_config_trigger_cancel(job.trigger, "far", &err));
    for (int i = 0; i < 4; i++)
        assert_int_equal(rank_of(&job, i)->state, RS_CONFIG_STATE_IDLE);
    /* Nothing else is written until that was taken. */
    assert_status(arm_at(&job, "next", 1, 1 << 20, false, &err), RS_EXISTS);
    for (int i = 0; i < 40; i++) {
        rs_config_trigger_tick(job.trigger);
        pause_ms(10);
    }
    (void)arm(&job, "next", 0xA, 60);
    wait_for(&job, 0xA, is_over, "the next file", 20);
    assert_written(&job, 1);
    for (int i = 0; i < 200; i++) { /* beyond the step of the far one */
        rs_config_trigger_tick(job.trigger);
        pause_ms(10);
    }
    const struct sums sums = stop(&job);
    assert_int_equal(sums.profiles[0], 1); /* the probe */
    assert_int_equal(sums.profiles[1], 1);
    assert_int_equal(sums.profiles[2], 0);
    assert_int_equal(sums.profiles[3], 1);
}

static void a_step_that_is_over_is_moved_or_named(void **state)
{
    (void)state;
    struct job job;
    struct rs_err err = {0};
    start(&job, &few);
    wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
    find_step(&job);
    assert_ok(arm_at(&job, "moved", all_of(&job), 5, true, &err));
    wait_for(&job, all_of(&job), is_over, "a moved start", 40);
    for (int i = 0; i < 4; i++) {
        assert_written(&job, i);
        assert_true(rank_of(&job, i)->rewrite_count > 0);
        assert_int_equal(rank_of(&job, i)->started_step, rank_of(&job, 0)->started_step);
    }
    release(&job, all_of(&job));
    assert_ok(arm_at(&job, "named", all_of(&job), 6, false, &err));
    wait_for(&job, all_of(&job), is_over, "a start that is over", 40);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rank_of(&job, i)->state, RS_CONFIG_STATE_FAILED);
        assert_says(rank_of(&job, i)->why, "did not begin at step 6");
    }
    (void)stop(&job);
}

static void a_killed_rank_is_named_and_the_others_go_on(void **state)
{
    (void)state;
    struct job job;
    start(&job, &few);
    wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
    find_step(&job);
    (void)arm(&job, "killed", all_of(&job), 150);
    wait_for(&job, all_of(&job), has_accepted, "the file", 20);
    assert_int_equal(kill(job.pids[2], SIGKILL), 0);
    wait_for(&job, all_of(&job), is_over, "the capture", 30);
    assert_int_equal(rank_of(&job, 2)->state, RS_CONFIG_STATE_FAILED);
    assert_says(rank_of(&job, 2)->why, "its process ended before step");
    for (int i = 0; i < 4; i++)
        if (i != 2)
            assert_written(&job, i);
    (void)stop(&job);
}

/* The monitor of a killed rank serves the others; of one that ended normally nobody is served any more. */
static void the_creator_may_be_killed_but_not_end(void **state)
{
    (void)state;
    for (int is_kill = 1; is_kill >= 0; is_kill--) {
        struct job job;
        struct rs_err err = {0};
        char log[PATH_BYTES], line[256] = "";
        int creator = -1;
        start(&job, &few);
        wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
        find_step(&job);
        for (int i = 0; i < 4; i++) {
            char host[128];
            (void)gethostname(host, sizeof host);
            (void)snprintf(log, sizeof log, "%s/log/dp_%s_%d_rank_%d.log", job.cfg, host,
                           (int)job.pids[i], i);
            FILE *file = fopen(log, "r");
            assert_non_null(file);
            if (fgets(line, sizeof line, file) && strstr(line, "created"))
                creator = i;
            (void)fclose(file);
        }
        assert_true(creator >= 0);
        assert_int_equal(kill(job.pids[creator], is_kill ? SIGKILL : SIGUSR1), 0);
        for (int i = 0; i < 60; i++) { /* the monitor is seen with the next look at processes */
            rs_config_trigger_tick(job.trigger);
            pause_ms(50);
        }
        const unsigned others = all_of(&job) & ~(1u << creator);
        const int witness = creator == 0 ? 1 : 0;
        assert_true(rank_of(&job, witness)->step > 0); /* also when the one that told it is gone */
        const int64_t step = rs_config_rank_step_at(rank_of(&job, witness), job_realtime()) + 100;
        if (is_kill) {
            char monitor[PATH_BYTES];
            if (arm_at(&job, "orphan", others, step, true, &err) != RS_OK)
                fail_msg("%s", err.text);
            assert_says(rank_of(&job, witness)->note,
                        "the rank that started the monitor was killed");
            wait_for(&job, others, is_over, "a capture by an orphan", 30);
            assert_written(&job, witness);
            /* It would stay for ever, as the vendor's does. */
            const char *at = strstr(rank_of(&job, witness)->note, "process ");
            (void)snprintf(monitor, sizeof monitor, "%s", at + strlen("process "));
            assert_int_equal(kill((pid_t)strtol(monitor, NULL, 10), SIGKILL), 0);
        } else {
            wait_for(&job, 1u << witness, is_unresponsive, "nobody serves the job", 30);
            assert_status(arm_at(&job, "nobody", others, step, true, &err), RS_REFUSED);
            assert_says(err.text, "has ended, and its monitor with it");
        }
        (void)stop(&job);
    }
}

static void a_left_block_is_explained(void **state)
{
    (void)state;
    struct job first, second;
    struct rs_err err = {0};
    start(&first, &few);
    wait_for(&first, all_of(&first), is_seen, "four ranks", 20);
    /* Another job of the same hour: the same block. */
    struct shape same = few;
    same.block = first.block;
    start(&second, &same);
    wait_for(&second, all_of(&second), is_unresponsive, "the second job is unresponsive", 30);
    assert_says(rank_of(&second, 0)->unresponsive_because, "another job of this user");
    assert_says(rank_of(&second, 0)->unresponsive_because, first.cfg);
    /* Its first job is killed with everything that belongs to it, but for the block. */
    for (int i = 0; i < 4; i++)
        assert_int_equal(kill(first.pids[i], SIGKILL), 0);
    pause_ms(200);
    for (int i = 0; i < 300 && !strstr(rank_of(&second, 0)->unresponsive_because, "still serves");
         i++) {
        rs_config_trigger_tick(second.trigger);
        pause_ms(50);
    }
    assert_says(rank_of(&second, 0)->unresponsive_because, "of a job that was killed");
    const char *at = strstr(rank_of(&second, 0)->unresponsive_because, "(process ");
    assert_non_null(at);
    assert_int_equal(kill((pid_t)strtol(at + strlen("(process "), NULL, 10), SIGKILL), 0);
    pause_ms(200);
    for (int i = 0;
         i < 300 && !strstr(rank_of(&second, 0)->unresponsive_because, "no process reads"); i++) {
        rs_config_trigger_tick(second.trigger);
        pause_ms(50);
    }
    assert_says(rank_of(&second, 0)->unresponsive_because, "remove the block");
    assert_status(arm_at(&second, "unresponsive", all_of(&second), 1 << 20, false, &err),
                  RS_REFUSED);
    assert_says(err.text, "left by a job that was killed");
    (void)stop(&second);
    (void)stop(&first);
}

/* Their start is the first word of them, of a probe and of a capture. */
static void versions_that_say_nothing_are_captured_too(void **state)
{
    (void)state;
    struct job job;
    static const struct shape old = {
        .ranks = 4, .step_us = "20000", .log_bytes = "200000", .is_old = true};
    start(&job, &old);
    wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
    find_step(&job);
    const int64_t step = arm(&job, "silent", 0xA, 500); /* longer than a word is waited for */
    wait_for(&job, 0xA, has_accepted, "that it is taken to have taken it", 30);
    wait_for(&job, 0xA, is_over, "the capture", 40);
    assert_written(&job, 1);
    assert_written(&job, 3);
    assert_int_equal(rank_of(&job, 1)->started_step, step);
    assert_int_equal(rank_of(&job, 3)->started_step, step);
    (void)stop(&job);
}

static void another_program_that_writes_is_noticed(void **state)
{
    (void)state;
    struct job job;
    char path[PATH_BYTES];
    static const char theirs[] = "{\"start_step\": 99999999, \"active\": 1}";
    start(&job, &few);
    wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
    find_step(&job);
    (void)arm(&job, "mine", all_of(&job), 600);
    wait_for(&job, all_of(&job), has_accepted, "the file", 20);
    (void)snprintf(path, sizeof path, "%s/profiler_config.json", job.cfg);
    const struct timespec when = {.tv_sec = job_realtime() / RS_NS_PER_S + 5};
    struct rs_err err = {0};
    assert_ok(rs_config_write(path, theirs, sizeof theirs - 1, &when,
                              &(struct rs_user){.uid = getuid(), .gid = getgid()}, &err));
    wait_for(&job, all_of(&job), is_over, "the end", 20);
    assert_int_equal(rank_of(&job, 3)->state, RS_CONFIG_STATE_FAILED);
    assert_says(rank_of(&job, 3)->why, "another program's profiler_config.json");
    (void)stop(&job);
}

static void read_config(const struct job *job, struct rs_buf *text)
{
    char path[PATH_BYTES];
    struct rs_err err = {0};
    (void)snprintf(path, sizeof path, "%s/profiler_config.json", job->cfg);
    rs_buf_reset(text);
    assert_ok(rs_file_read(path, 1 << 20, text, &err));
}

/* Several hosts, one folder: another collector writes the file of the same capture for its own ranks. */
static void a_shared_file_comes_to_name_everybody(void **state)
{
    (void)state;
    struct job job;
    struct rs_buf text = {0}, theirs = {0};
    struct rs_err err = {0};
    char path[PATH_BYTES];
    static const char own_list[] = "\"rank_list\": [0,1,2,3]"; /* whoever was found first */
    static const struct shape reversed = {
        .ranks = 4, .step_us = "5000", .log_bytes = "200000", .is_reversed = true};
    start(&job, &reversed);
    wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
    find_step(&job);
    const int64_t step = arm(&job, "shared", all_of(&job), 600);
    read_config(&job, &text);
    const char *list = strstr(rs_buf_text(&text), own_list);
    assert_non_null(list);
    /* the other's version, without our ranks, comes after ours was taken: these keep what they have */
    wait_for(&job, all_of(&job), has_accepted, "the file", 20);
    rs_buf_bytes(&theirs, text.data, (size_t)(list - rs_buf_text(&text)));
    rs_buf_string(&theirs, "\"rank_list\": [17]");
    rs_buf_string(&theirs, list + sizeof own_list - 1);
    (void)snprintf(path, sizeof path, "%s/profiler_config.json", job.cfg);
    const struct timespec when = {.tv_sec = job_realtime() / RS_NS_PER_S + 5};
    assert_ok(rs_config_write(path, rs_buf_text(&theirs), theirs.length, &when,
                              &(struct rs_user){.uid = getuid(), .gid = getgid()}, &err));
    for (int i = 0; i < 20; i++) {
        rs_config_trigger_tick(job.trigger);
        pause_ms(10);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rank_of(&job, i)->state, RS_CONFIG_STATE_ACCEPTED);
        assert_int_equal(rank_of(&job, i)->rewrite_count, 0);
    }
    assert_ok(rs_config_trigger_cancel(job.trigger, "shared", &err));
    for (int i = 0; i < 40; i++) {
        rs_config_trigger_tick(job.trigger);
        pause_ms(10);
    }
    /* it is there before ours: both lists stand in what we write */
    const struct timespec later = {.tv_sec = job_realtime() / RS_NS_PER_S + 20};
    assert_ok(rs_config_write(path, rs_buf_text(&theirs), theirs.length, &later,
                              &(struct rs_user){.uid = getuid(), .gid = getgid()}, &err));
    pause_ms(300);
    assert_ok(arm_at(&job, "shared", 0xA, step, false, &err));
    read_config(&job, &text);
    assert_says(rs_buf_text(&text), "\"rank_list\": [1,3,17]");
    rs_buf_fini(&text);
    rs_buf_fini(&theirs);
    (void)stop(&job);
}

/* A job that is started again in its folder counts from its own beginning. */
static void the_step_of_the_job_before_is_not_believed(void **state)
{
    (void)state;
    struct job job;
    char path[128];
    start(&job, &few);
    wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
    find_step(&job);
    (void)close(job.input);
    (void)fclose(job.output);
    (void)waitpid(job.launcher, NULL, 0);
    end_orphans(&job);
    (void)snprintf(path, sizeof path, "/dev/shm/%s", job.block);
    (void)unlink(path);
    launch(&job, &few);
    wait_for(&job, all_of(&job), is_seen, "four ranks, again", 20);
    assert_int_equal(rank_of(&job, 0)->step, -1);
    find_step(&job);
    (void)stop(&job);
}

static void a_rank_that_dies_recording_is_told_apart(void **state)
{
    (void)state;
    struct job job;
    struct rs_err err = {0};
    struct rs_capture_request request;
    start(&job, &few);
    wait_for(&job, all_of(&job), is_seen, "four ranks", 20);
    find_step(&job);
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    request.schedule.active = 300;
    const struct rs_config_target targets[] = {target_of(&job, 1), target_of(&job, 2)};
    const struct rs_config_arm arm = {
        .capture_id = "long",
        .request = &request,
        .start_step = rs_config_rank_step_at(rank_of(&job, 1), job_realtime()) + 60,
        .may_move = true,
        .targets = targets,
        .target_count = 2,
        .deadline = 30 * (rs_dur)RS_NS_PER_S};
    assert_ok(rs_config_trigger_arm(job.trigger, &arm, &err));
    rs_request_fini(&request);
    wait_for(&job, 6, is_recording, "recording", 20);
    assert_int_equal(kill(job.pids[1], SIGKILL), 0);
    assert_int_equal(kill(job.pids[2], SIGUSR1),
                     0); /* as at a normal end: the profiler closes its result */
    wait_for(&job, 6, is_over, "the end", 20);
    assert_int_equal(rank_of(&job, 1)->state, RS_CONFIG_STATE_FAILED);
    assert_says(rank_of(&job, 1)->why, "ended while it recorded");
    assert_written(&job, 2);
    assert_says(rank_of(&job, 2)->note, "before the last step");
    (void)stop(&job);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, clock_setup, clock_teardown)

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        CASE(a_cancelled_file_starts_nothing),
        CASE(a_step_that_is_over_is_moved_or_named),
        CASE(a_killed_rank_is_named_and_the_others_go_on),
        CASE(the_creator_may_be_killed_but_not_end),
        CASE(a_left_block_is_explained),
        CASE(versions_that_say_nothing_are_captured_too),
        CASE(another_program_that_writes_is_noticed),
        CASE(a_shared_file_comes_to_name_everybody),
        CASE(the_step_of_the_job_before_is_not_believed),
        CASE(a_rank_that_dies_recording_is_told_apart),
        CASE(two_hundred_files_none_torn_or_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
