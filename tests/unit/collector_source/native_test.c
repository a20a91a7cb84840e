/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native source against real processes that carry librankscope: what they record arrives as batches, and
 * what they do to themselves (kill -9, lies) harms nobody else.
 */
#include "collector/source/native.h"

#include "collector/lib/layout.h"
#include "collector/lib/rankscope.h"
#include "tests/support/rs_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 10000, MAX_ROWS = 4096 };

/* One row, as a test looks at it. */
struct row {
    enum rs_kind kind;
    unsigned flags;
    char name[32];
    rs_ns start, end;
    int64_t correlation, bytes, cpu_ns;
    bool has_comm;
    struct rs_comm comm;
    char group[32], ranks[32], collective[32], transport[16];
};

struct rig {
    char folder[64];
    char path[80];
    struct rs_native *native;
    struct rs_source_stream stream;
    struct row rows[MAX_ROWS];
    size_t row_count;
};
static struct rig rig;

static int source_is_open(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    snprintf(rig.folder, sizeof rig.folder, "/tmp/rs-native-XXXXXX");
    assert_non_null(mkdtemp(rig.folder));
    snprintf(rig.path, sizeof rig.path, "%.60s/collector.sock", rig.folder);
    assert_ok(rs_native_open(rig.path, &rig.native, NULL));
    assert_ok(rs_source_stream_init(&rig.stream));
    return 0;
}

static int source_is_closed(void **state)
{
    (void)state;
    rs_native_close(&rig.native);
    rs_source_stream_fini(&rig.stream);
    assert_int_equal(rmdir(rig.folder), 0); /* the socket is gone */
    return 0;
}

static void nap_ms(long ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&nap, NULL);
}

/* ---- the job ---- */

enum job_end { JOB_FINISHES, JOB_IS_KILLED, JOB_JUST_EXITS };

struct job {
    int rank;
    const char *run;
    uint64_t steps;
    uint64_t skip;    /* no step has this number; 0: all are made */
    uint64_t kill_at; /* in the middle of this step */
    uint64_t
        hold_at; /* it waits before this step until release_job(): a test that is late finds it there */
    enum job_end end;
    int flood; /* extra marks per step */
    bool says; /* what it is, as metadata, and what it allocates */
};

static atomic_bool *is_released; /* shared with the job's process */

static void release_job(void)
{
    assert_ok(rs_native_poll(rig.native, 0, NULL));
    atomic_store(is_released, true);
}

static void job_step(const struct job *job, uint64_t step)
{
    const int32_t ranks[] = {0, 1};
    uint32_t forward = rankscope_name("forward", RANKSCOPE_CPU_TIME);
    struct rankscope_comm reduce = {.group = rankscope_group("dp0", ranks, 2),
                                    .sequence = step,
                                    .bytes = 4096,
                                    .peer = RANKSCOPE_UNKNOWN,
                                    .type = RANKSCOPE_ALL_REDUCE,
                                    .transport = RANKSCOPE_TCP};
    struct rankscope_comm give = {.group = reduce.group,
                                  .sequence = 2 * step,
                                  .bytes = 64,
                                  .peer = 1 - job->rank,
                                  .type = job->rank == 0 ? RANKSCOPE_SEND : RANKSCOPE_RECV};
    struct rankscope_task hop = {.bytes = 1024, .peer = 1 - job->rank, .is_send = 1};
    rankscope_op_begin(forward);
    nap_ms(1);
    rankscope_op_end();
    rankscope_comm_begin(&give);
    rankscope_comm_end();
    for (int i = 0; i < job->flood; i++)
        rankscope_mark(forward);
    rankscope_comm_begin(&reduce);
    int task = rankscope_task_begin(&hop);
    if (job->end == JOB_IS_KILLED && step == job->kill_at && rankscope_is_recording())
        kill(getpid(), SIGKILL);
    rankscope_task_end(task);
    rankscope_comm_end();
    if (job->says) {
        struct rankscope_memory block = {
            .bytes = 4096, .address = 77, .device = 1, .device_type = RANKSCOPE_DEVICE_CUDA};
        rankscope_memory(&block);
        block.bytes = -block.bytes;
        rankscope_memory(&block);
    }
}

static pid_t start_job(const struct job *job)
{
    if (!is_released)
        is_released = mmap(NULL, sizeof *is_released, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(is_released, MAP_FAILED);
    atomic_store(is_released, false);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    struct rankscope_config config = RANKSCOPE_CONFIG_INIT;
    config.rank = job->rank;
    config.world_size = 2;
    config.pp = 1;
    config.run = job->run;
    config.socket_path = rig.path;
    config.ring_bytes = RS_RING_MIN_BYTES;
    if (rankscope_init(&config) != 0)
        _exit(3);
    if (job->says &&
        (rankscope_metadata("model", "first") != 0 ||
         rankscope_metadata_json("sizes", "{\"tp\": [2, 4]}") != 0 ||
         rankscope_metadata("model", "a \"7b\"\n") != 0 || rankscope_name("after", 0) == 0))
        _exit(4);
    for (uint64_t step = 0; step < job->steps; step++) {
        while (job->hold_at && step == job->hold_at && !atomic_load(is_released))
            nap_ms(1);
        if (job->skip && step == job->skip)
            continue;
        rankscope_step(step);
        job_step(job, step);
    }
    if (job->end == JOB_FINISHES)
        rankscope_fini();
    _exit(0);
}

static void reap(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

/* ---- the collector ---- */

static const struct rs_native_rank *wait_for_rank(int rank)
{
    for (int waited = 0; waited < WAIT_MS; waited += 5) {
        assert_ok(rs_native_poll(rig.native, 5, NULL));
        for (size_t i = 0; i < rs_native_count(rig.native); i++) {
            const struct rs_native_rank *shown = rs_native_at(rig.native, i);
            if (shown->rank == rank && shown->has_step)
                return shown;
        }
    }
    fail_msg("rank %d did not come", rank);
    return NULL;
}

static void keep_comm(struct row *row, const struct rs_batch *batch, size_t i)
{
    const struct rs_comm *comm = &batch->comms[batch->comm[i]];
    row->has_comm = true;
    row->comm = *comm;
    snprintf(row->group, sizeof row->group, "%s", rs_strtab_text(batch->strings, comm->group_name));
    snprintf(row->ranks, sizeof row->ranks, "%s",
             rs_strtab_text(batch->strings, comm->group_ranks));
    snprintf(row->collective, sizeof row->collective, "%s",
             rs_strtab_text(batch->strings, comm->collective));
    snprintf(row->transport, sizeof row->transport, "%s",
             rs_strtab_text(batch->strings, comm->transport));
}

static char newest_extra[128]; /* of the newest row that has some */

static enum rs_status keep_rows(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct rig *kept = self;
    assert_ok(rs_batch_check(batch, err));
    for (size_t i = 0; i < batch->count; i++) {
        if (kept->row_count == MAX_ROWS)
            return RS_OK;
        struct row *row = &kept->rows[kept->row_count++];
        *row = (struct row){.kind = (enum rs_kind)batch->kind[i],
                            .flags = batch->flags[i],
                            .start = batch->start[i],
                            .end = batch->end[i],
                            .correlation = batch->correlation[i],
                            .bytes = batch->bytes[i],
                            .cpu_ns = batch->cpu_ns[i]};
        snprintf(row->name, sizeof row->name, "%s", rs_strtab_text(batch->strings, batch->name[i]));
        if (batch->comm[i] != RS_NO_COMM)
            keep_comm(row, batch, i);
        if (batch->extra_length[i])
            snprintf(newest_extra, sizeof newest_extra, "%.*s", (int)batch->extra_length[i],
                     batch->extra + batch->extra_offset[i]);
    }
    return RS_OK;
}

static enum rs_status drain_to_the_end(uint64_t id)
{
    struct rs_sink sink = {.batch = keep_rows, .self = &rig};
    struct rs_err err = {0};
    for (int waited = 0; waited < WAIT_MS; waited += 5) {
        assert_ok(rs_native_poll(rig.native, 5, NULL));
        enum rs_status status = rs_native_drain(rig.native, id, sink, &err);
        if (status != RS_OK)
            return status;
    }
    fail_msg("the capture did not end");
    return RS_TIMEOUT;
}

static size_t count_kind(enum rs_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < rig.row_count; i++)
        count += rig.rows[i].kind == kind ? 1 : 0;
    return count;
}

static const struct row *first_of(enum rs_kind kind, const char *collective)
{
    for (size_t i = 0; i < rig.row_count; i++)
        if (rig.rows[i].kind == kind &&
            (collective == NULL || strcmp(rig.rows[i].collective, collective) == 0))
            return &rig.rows[i];
    fail_msg("no row of kind %s %s", rs_kind_text(kind), collective != NULL ? collective : "");
    return NULL;
}

/* ---- tests ---- */

static void a_capture_of_three_steps_arrives_whole(void **state)
{
    (void)state;
    struct job job = {.rank = 0, .run = "three", .steps = 100000, .end = JOB_JUST_EXITS};
    pid_t child = start_job(&job);
    const struct rs_native_rank *shown = wait_for_rank(0);
    assert_string_equal(shown->run, "three");
    assert_int_equal(shown->pid, child);
    assert_int_equal(shown->pp, 1);
    assert_int_equal(shown->world_size, 2);
    assert_true(shown->start_time > 0);
    uint64_t id = shown->id;
    rs_ns before = rs_time_realtime();
    struct rs_native_request request = {
        .capture = "c1", .start_step = shown->step + 200, .stop_step = shown->step + 203};
    assert_ok(rs_native_arm(rig.native, id, &request, &rig.stream, NULL));
    assert_status(rs_native_arm(rig.native, id, &request, &rig.stream, NULL), RS_EXISTS);
    assert_status(drain_to_the_end(id), RS_END);
    shown = rs_native_find(rig.native, id);
    assert_int_equal(shown->state, RS_NATIVE_CAPTURED);
    assert_int_equal(shown->first_step, request.start_step);
    assert_int_equal(shown->next_step, request.stop_step);
    assert_int_equal(count_kind(RS_KIND_STEP), 3);
    assert_int_equal(count_kind(RS_KIND_OP), 3);
    assert_int_equal(count_kind(RS_KIND_COMM), 6);
    assert_int_equal(count_kind(RS_KIND_COMM_TASK), 3);
    assert_int_equal(rig.row_count, 15);
    assert_int_equal(shown->events, 15);
    assert_int_equal(first_of(RS_KIND_STEP, NULL)->correlation, request.start_step);
    const struct row *op = first_of(RS_KIND_OP, NULL);
    assert_string_equal(op->name, "forward");
    assert_in_range(op->end - op->start, 1000000, 500000000);
    assert_in_range(op->cpu_ns, 0, 1000000); /* it slept */
    assert_in_range(op->start, before, rs_time_realtime());
    rs_native_release(rig.native, id);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void communication_carries_group_peers_and_hops(void **state)
{
    (void)state;
    struct job job = {.rank = 0, .run = "comm", .steps = 100000, .end = JOB_JUST_EXITS};
    pid_t child = start_job(&job);
    uint64_t id = wait_for_rank(0)->id;
    struct rs_native_request request = {.capture = "c2", .start_step = 0, .stop_step = 2};
    assert_ok(rs_native_arm(rig.native, id, &request, &rig.stream, NULL));
    assert_status(drain_to_the_end(id), RS_END);
    const struct row *reduce = first_of(RS_KIND_COMM, "all_reduce");
    const struct row *send = first_of(RS_KIND_COMM, "send");
    const struct row *hop = first_of(RS_KIND_COMM_TASK, NULL);
    assert_string_equal(reduce->group, "dp0");
    assert_string_equal(reduce->ranks, "[0, 1]");
    assert_string_equal(reduce->name, "all_reduce");
    assert_string_equal(reduce->transport, "TCP");
    assert_int_equal(reduce->comm.group_size, 2);
    assert_int_equal(reduce->comm.bytes, 4096);
    assert_true(reduce->comm.has & RS_COMM_HAS_SEQ);
    assert_false(reduce->comm.has & (RS_COMM_HAS_SRC | RS_COMM_HAS_DST));
    assert_int_equal(send->comm.src, 0);
    assert_int_equal(send->comm.dst, 1);
    assert_int_equal(hop->correlation, reduce->correlation);
    assert_true(hop->correlation > 0);
    assert_int_equal(hop->comm.bytes, 1024);
    assert_int_equal(hop->comm.src, 0);
    assert_int_equal(hop->comm.dst, 1);
    assert_true(hop->start >= reduce->start && hop->end <= reduce->end);
    const struct rs_trace_info *info = &rig.stream.info;
    assert_int_equal(info->rank, 0);
    assert_int_equal(info->world_size, 2);
    assert_true(info->has_time_base && info->base_ns == 0 && !info->is_partial);
    assert_int_equal(info->group_count, 1);
    assert_int_equal(info->groups[0].ranks[1], 1);
    assert_string_equal(rs_strtab_text(&rig.stream.strings, info->trace_id), "c2");
    assert_non_null(strstr(rs_strtab_text(&rig.stream.strings, info->metadata), "\"pp\":1"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void what_a_program_says_of_itself_is_kept(void **state)
{
    (void)state;
    struct job job = {
        .rank = 0, .run = "says", .steps = 100000, .end = JOB_JUST_EXITS, .says = true};
    pid_t child = start_job(&job);
    uint64_t id = wait_for_rank(0)->id;
    struct rs_native_request request = {.capture = "c3", .start_step = 0, .stop_step = 1};
    assert_ok(rs_native_arm(rig.native, id, &request, &rig.stream, NULL));
    assert_status(drain_to_the_end(id), RS_END);
    const char *metadata = rs_strtab_text(&rig.stream.strings, rig.stream.info.metadata);
    assert_non_null(
        strstr(metadata, "\"metadata\":{\"model\":\"a \\\"7b\\\"\\n\",\"sizes\":{\"tp\":[2,4]}}"));
    assert_string_equal(first_of(RS_KIND_OP, NULL)->name, "forward"); /* names kept their numbers */
    assert_int_equal(count_kind(RS_KIND_MEMORY), 2);
    assert_int_equal(first_of(RS_KIND_MEMORY, NULL)->bytes, 4096);
    assert_true(first_of(RS_KIND_MEMORY, NULL)->flags & RS_EVENT_NO_END);
    assert_string_equal(newest_extra, "\"Device Type\": 1, \"Device Id\": 1, \"Addr\": 77");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void a_process_killed_in_the_middle_leaves_what_it_did_and_was_doing(void **state)
{
    (void)state;
    struct job job = {.rank = 1,
                      .run = "killed",
                      .steps = 100000,
                      .kill_at = 200,
                      .hold_at = 150,
                      .end = JOB_IS_KILLED};
    pid_t child = start_job(&job);
    uint64_t id = wait_for_rank(1)->id;
    struct rs_native_request request = {.capture = "c", .start_step = 198, .stop_step = 300};
    assert_ok(rs_native_arm(rig.native, id, &request, &rig.stream, NULL));
    release_job();
    assert_status(drain_to_the_end(id), RS_PARTIAL);
    const struct rs_native_rank *shown = rs_native_find(rig.native, id);
    assert_int_equal(shown->life, RS_NATIVE_DIED);
    assert_int_equal(shown->state, RS_NATIVE_LOST);
    assert_int_equal(count_kind(RS_KIND_STEP), 3); /* two whole, one cut */
    assert_int_equal(count_kind(RS_KIND_COMM), 6); /* the last all_reduce is open */
    size_t open = 0;
    for (size_t i = 0; i < rig.row_count; i++) {
        if ((rig.rows[i].flags & RS_EVENT_UNFINISHED) == 0)
            continue;
        open++;
        if (rig.rows[i].kind == RS_KIND_STEP)
            assert_int_equal(rig.rows[i].correlation, 200);
        else
            assert_true(rig.rows[i].has_comm);
    }
    assert_int_equal(open, 3); /* step, collective, hop */
    assert_true(rig.stream.info.is_partial);
    rs_native_release(rig.native, id);
    reap(child);
}

static void a_job_that_ends_early_is_captured_up_to_there(void **state)
{
    (void)state;
    struct job job = {.rank = 0, .run = "short", .steps = 300, .hold_at = 250, .end = JOB_FINISHES};
    pid_t child = start_job(&job);
    uint64_t id = wait_for_rank(0)->id;
    struct rs_native_request request = {.capture = "c", .start_step = 295, .stop_step = 1000};
    assert_ok(rs_native_arm(rig.native, id, &request, &rig.stream, NULL));
    release_job();
    assert_status(drain_to_the_end(id), RS_END);
    assert_int_equal(rs_native_find(rig.native, id)->life, RS_NATIVE_FINISHED);
    assert_int_equal(rs_native_find(rig.native, id)->next_step, 300);
    assert_int_equal(count_kind(RS_KIND_STEP), 5);
    reap(child);
}

static void a_number_that_no_step_has_is_not_counted(void **state)
{
    (void)state;
    struct job job = {.rank = 0,
                      .run = "skips",
                      .steps = 300,
                      .skip = 252,
                      .hold_at = 250,
                      .end = JOB_JUST_EXITS};
    pid_t child = start_job(&job);
    uint64_t id = wait_for_rank(0)->id;
    const struct rs_native_request request = {.capture = "c1", .start_step = 250, .stop_step = 255};
    assert_ok(rs_native_arm(rig.native, id, &request, &rig.stream, NULL));
    release_job();
    assert_status(drain_to_the_end(id), RS_END);
    const struct rs_native_rank *shown = rs_native_find(rig.native, id);
    assert_int_equal(shown->state, RS_NATIVE_CAPTURED);
    assert_int_equal(shown->next_step - shown->first_step, 5);
    assert_int_equal(shown->steps, 4);
    assert_int_equal(count_kind(RS_KIND_STEP), 4);
    rs_native_release(rig.native, id);
    reap(child);
}

/* A poll serves so many processes: of those that it has not come to, the state in shared memory is newer than what they sent. */
static void a_ring_that_was_announced_is_read_though_no_poll_came_to_it(void **state)
{
    (void)state;
    struct job job = {
        .rank = 0, .run = "unread", .steps = 300, .hold_at = 250, .end = JOB_JUST_EXITS};
    pid_t child = start_job(&job);
    uint64_t id = wait_for_rank(0)->id;
    const struct rs_native_request request = {.capture = "c1", .start_step = 250, .stop_step = 253};
    assert_ok(rs_native_arm(rig.native, id, &request, &rig.stream, NULL));
    release_job();
    const struct rs_sink sink = {.batch = keep_rows, .self = &rig};
    enum rs_status status = RS_OK;
    for (int waited = 0; status == RS_OK && waited < WAIT_MS; waited += 5) {
        nap_ms(5);
        status = rs_native_drain(rig.native, id, sink, NULL);
    }
    assert_status(status, RS_END);
    assert_int_equal(rs_native_find(rig.native, id)->steps, 3);
    assert_int_equal(count_kind(RS_KIND_STEP), 3);
    rs_native_release(rig.native, id);
    reap(child);
}

static void steps_gone_by_are_missed_and_stop_ends_a_recording(void **state)
{
    (void)state;
    struct job job = {.rank = 0, .run = "late", .steps = 100000, .end = JOB_JUST_EXITS};
    pid_t child = start_job(&job);
    uint64_t id = wait_for_rank(0)->id;
    while (rs_native_find(rig.native, id)->step < 10)
        assert_ok(rs_native_poll(rig.native, 5, NULL));
    struct rs_native_request past = {.capture = "p", .start_step = 1, .stop_step = 3};
    assert_ok(rs_native_arm(rig.native, id, &past, &rig.stream, NULL));
    assert_status(drain_to_the_end(id), RS_END);
    assert_int_equal(rs_native_find(rig.native, id)->state, RS_NATIVE_MISSED);
    assert_int_equal(rig.row_count, 0);
    rs_native_release(rig.native, id);
    rs_source_stream_fini(&rig.stream);
    assert_ok(rs_source_stream_init(&rig.stream));
    struct rs_native_request endless = {.capture = "e", .start_step = 0, .stop_step = 1000000};
    assert_ok(rs_native_arm(rig.native, id, &endless, &rig.stream, NULL));
    while (rs_native_find(rig.native, id)->state != RS_NATIVE_RECORDING)
        assert_ok(rs_native_poll(rig.native, 5, NULL));
    rs_native_stop(rig.native, id);
    assert_status(drain_to_the_end(id), RS_END);
    assert_int_equal(rs_native_find(rig.native, id)->state, RS_NATIVE_CAPTURED);
    assert_true(count_kind(RS_KIND_STEP) >= 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void losses_of_a_slow_drain_are_reported(void **state)
{
    (void)state;
    struct job job = {
        .rank = 0, .run = "flood", .steps = 100000, .end = JOB_JUST_EXITS, .flood = 5000};
    pid_t child = start_job(&job);
    uint64_t id = wait_for_rank(0)->id;
    struct rs_native_request request = {.capture = "f", .start_step = 0, .stop_step = 5};
    assert_ok(rs_native_arm(rig.native, id, &request, &rig.stream, NULL));
    while (rs_native_find(rig.native, id)->state != RS_NATIVE_CAPTURED)
        assert_ok(rs_native_poll(rig.native, 5, NULL)); /* and nobody drains */
    assert_status(drain_to_the_end(id), RS_PARTIAL);
    int64_t lost = rs_native_find(rig.native, id)->lost;
    assert_true(lost > 10000);
    assert_int_equal(rig.stream.info.drop_count, 1);
    assert_int_equal(rig.stream.info.drops[0].count, lost);
    assert_int_equal(rig.stream.info.events_read, rig.row_count);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void a_run_without_a_name_gets_one_from_the_session(void **state)
{
    (void)state;
    struct job job = {.rank = 0, .run = "", .steps = 100000, .end = JOB_JUST_EXITS};
    pid_t child = start_job(&job);
    const struct rs_native_rank *shown = wait_for_rank(0);
    char session[32];
    snprintf(session, sizeof session, "-%d-", (int)getsid(0));
    assert_non_null(strstr(shown->run, session));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static int call_source(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", rig.path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void send_with(int socket_fd, const void *message, size_t length, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    char copy[1024] = {0};
    memcpy(copy, message, length);
    struct iovec part = {.iov_base = copy, .iov_len = length};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&header);
        if (head == NULL)
            fail();
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    assert_int_equal(sendmsg(socket_fd, &header, 0), (ssize_t)length);
}

static void strangers_with_bad_messages_are_turned_away_alone(void **state)
{
    (void)state;
    struct job job = {.rank = 0, .run = "honest", .steps = 100000, .end = JOB_JUST_EXITS};
    pid_t child = start_job(&job);
    (void)wait_for_rank(0);
    struct rs_hello hello = {.magic = RS_HELLO_MAGIC,
                             .version = RS_LAYOUT_VERSION,
                             .message_bytes = sizeof hello,
                             .clock_kind = RS_CLOCK_MONOTONIC,
                             .control_bytes = RS_CONTROL_BYTES,
                             .rank = 5,
                             .world_size = -1};
    struct rs_attach attach = {
        .magic = RS_ATTACH_MAGIC, .version = 1, .message_bytes = sizeof attach};
    int memory = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    for (int lie = 0; lie < 6; lie++) {
        int fd = call_source();
        struct rs_hello bad = hello;
        bad.rank = lie == 2 ? -1 : 5;
        bad.version = lie == 3 ? 99 : RS_LAYOUT_VERSION;
        bad.clock_kind = lie == 4 ? 7 : RS_CLOCK_MONOTONIC;
        if (lie == 0)
            send_with(fd, "garbage", 7, memory);
        else if (lie == 1)
            send_with(fd, &attach, sizeof attach, memory);
        else
            send_with(fd, &bad, sizeof bad, lie == 5 ? -1 : memory);
        for (int i = 0; i < 10; i++)
            assert_ok(rs_native_poll(rig.native, 5, NULL));
        char byte = 0;
        assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0); /* closed */
        close(fd);
    }
    close(memory);
    assert_int_equal(rs_native_count(rig.native), 1);
    assert_int_equal(rs_native_at(rig.native, 0)->life, RS_NATIVE_ALIVE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* A thread whose ring could not be sent has ended: what it did is missing in the capture that was under way, and in no other. Whatever
 * number of rings a process claims. */
static void a_ring_that_never_comes_is_told_once(void **state)
{
    (void)state;
    int memory = memfd_create("claims", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(memory, RS_CONTROL_BYTES), 0);
    assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    struct rs_control *control =
        mmap(NULL, RS_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    assert_ptr_not_equal(control, MAP_FAILED);
    control->magic = RS_CONTROL_MAGIC;
    control->version = RS_LAYOUT_VERSION;
    control->header_bytes = RS_CONTROL_HEADER_BYTES;
    control->names_bytes = RS_CONTROL_NAMES_BYTES;
    atomic_store(&control->step_count, 6);
    atomic_store(&control->step, 5);
    const struct rs_hello hello = {.magic = RS_HELLO_MAGIC,
                                   .version = RS_LAYOUT_VERSION,
                                   .message_bytes = sizeof hello,
                                   .clock_kind = RS_CLOCK_MONOTONIC,
                                   .control_bytes = RS_CONTROL_BYTES,
                                   .rank = 0,
                                   .world_size = -1,
                                   .run = "claims"};
    const int fd = call_source();
    send_with(fd, &hello, sizeof hello, memory);
    const uint64_t id = wait_for_rank(0)->id;
    for (uint64_t n = 1; n <= 2; n++) {
        struct rs_source_stream stream;
        assert_ok(rs_source_stream_init(&stream));
        const struct rs_native_request request = {
            .capture = "c", .start_step = 10 * n, .stop_step = 10 * n + 3};
        assert_ok(rs_native_arm(rig.native, id, &request, &stream, NULL));
        atomic_store(&control->ring_count, UINT32_MAX);
        atomic_store(&control->first_step, 10 * n);
        atomic_store(&control->next_step, 10 * n + 3);
        atomic_store(&control->capture_state, RS_LIB_CAPTURED);
        atomic_store(&control->capture_seq, atomic_load(&control->request_seq));
        assert_status(drain_to_the_end(id), n == 1 ? RS_PARTIAL : RS_END);
        rs_native_release(rig.native, id);
        rs_source_stream_fini(&stream);
    }
    (void)munmap(control, RS_CONTROL_BYTES);
    close(memory);
    close(fd);
}

static void a_socket_in_use_is_refused_and_a_stale_one_replaced(void **state)
{
    (void)state;
    struct rs_native *second = NULL;
    assert_status(rs_native_open(rig.path, &second, NULL), RS_EXISTS);
    char stale[80];
    snprintf(stale, sizeof stale, "%.60s/stale.sock", rig.folder);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", stale);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    assert_ok(rs_native_open(stale, &second, NULL));
    rs_native_close(&second);
    assert_int_equal(access(stale, F_OK), -1);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* No descriptor is free for who wants to connect: polls wait as long as they may, instead of coming back at once for ever;
 * later it is taken. */
static void who_cannot_be_accepted_yet_does_not_keep_the_poll_busy(void **state)
{
    (void)state;
    enum { POLLS = 5, POLL_MS = 40 };
    struct rlimit limit;
    struct rlimit none = {0};
    const int client = connect_to(rig.path);
    const int next = dup(client);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_ok(rs_native_poll(rig.native, POLL_MS, NULL)); /* finds out */
    const rs_ns begin = rs_time_monotonic();
    for (int i = 0; i < POLLS; i++)
        assert_ok(rs_native_poll(rig.native, POLL_MS, NULL));
    const rs_dur waited = rs_time_monotonic() - begin;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    (void)close(next);
    assert_true(waited >= (POLLS - 1) * POLL_MS * (rs_dur)RS_NS_PER_MS);
    char answer = 0;
    ssize_t got = -1;
    assert_int_equal(send(client, "?", 1, MSG_NOSIGNAL), 1);
    for (int i = 0; i < 1000 && got < 0; i++) {
        assert_ok(rs_native_poll(rig.native, 20, NULL));
        got = recv(client, &answer, 1, MSG_DONTWAIT);
    }
    assert_int_equal(got, 0); /* it was taken, read, and turned away for what it said */
    (void)close(client);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, source_is_open, source_is_closed)
    const struct CMUnitTest tests[] = {
        TEST(who_cannot_be_accepted_yet_does_not_keep_the_poll_busy),
        TEST(a_capture_of_three_steps_arrives_whole),
        TEST(communication_carries_group_peers_and_hops),
        TEST(what_a_program_says_of_itself_is_kept),
        TEST(a_process_killed_in_the_middle_leaves_what_it_did_and_was_doing),
        TEST(a_job_that_ends_early_is_captured_up_to_there),
        TEST(a_number_that_no_step_has_is_not_counted),
        TEST(a_ring_that_never_comes_is_told_once),
        TEST(a_ring_that_was_announced_is_read_though_no_poll_came_to_it),
        TEST(steps_gone_by_are_missed_and_stop_ends_a_recording),
        TEST(losses_of_a_slow_drain_are_reported),
        TEST(a_run_without_a_name_gets_one_from_the_session),
        TEST(strangers_with_bad_messages_are_turned_away_alone),
        TEST(a_socket_in_use_is_refused_and_a_stale_one_replaced),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
