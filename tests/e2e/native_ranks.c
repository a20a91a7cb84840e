/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of many small ranks: one process each, linked with librankscope, that computes by sleeping.
 *
 *     native_ranks --world 1000 --sockets 8 --socket /run/x/c --step-ms 500
 *
 * Rank r is a process of its own and comes to the collector at SOCKET<r * sockets / world>. All ranks are in step n from
 * t0 + n * step on, as ranks in lock step are; a rank that was held up, or stopped (SIGSTOP), makes every step that it missed
 * when it goes on. In every step:
 * --ops operators in half of it, then an all-reduce over all ranks with one hop. Of --slow-rank they take nearly
 * all of it, and the others' all-reduce waits for it.
 *
 * The numbers of steps go on by one, or by --by. --memory BYTES: of its allocator every step says that so much came, and went.
 *
 * --first and --count start some of the ranks of the world, --t0-ns says when all of its parts begin (CLOCK_MONOTONIC): so a
 * job runs on several hosts.
 *
 * Prints one line of JSON when all ranks run: {"pids": [...]} in order of the ranks. Goes on until its stdin is closed, or for
 * --seconds; then ends all ranks. A rank never outlives this program (PR_SET_PDEATHSIG).
 */
#include "collector/lib/rankscope.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORLD_MAX = 65536, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

struct options {
    const char *socket, *run;
    long world, sockets, step_ms, ring_bytes, seconds, slow_rank, ops, first, count, t0_ns, by,
        memory;
};

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void sleep_until(int64_t at)
{
    const struct timespec until = {.tv_sec = (time_t)(at / NS_PER_S),
                                   .tv_nsec = (long)(at % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static void allocate(long bytes)
{
    const struct rankscope_memory block = {.bytes = bytes,
                                           .address = 64,
                                           .device = RANKSCOPE_UNKNOWN,
                                           .device_type = RANKSCOPE_DEVICE_CPU};
    if (bytes)
        rankscope_memory(&block);
}

/* One rank, until it is killed. */
static void be_rank(const struct options *options, int32_t rank, int64_t t0)
{
    char path[108];
    (void)snprintf(path, sizeof path, "%.90s%ld", options->socket,
                   rank * options->sockets / options->world);
    struct rankscope_config config = RANKSCOPE_CONFIG_INIT;
    config.run = options->run;
    config.socket_path = path;
    config.rank = rank;
    config.world_size = (int32_t)options->world;
    config.ring_bytes = (size_t)options->ring_bytes;
    const int failure = rankscope_init(&config);
    if (failure) {
        fprintf(stderr, "rank %d: %s\n", rank, strerror(-failure));
        _exit(1);
    }
    (void)rankscope_metadata_json("job", "{\"kind\": \"native_ranks\"}");
    const uint32_t forward = rankscope_name("forward", 0);
    int32_t *ranks = calloc((size_t)options->world, sizeof *ranks);
    for (int32_t i = 0; ranks && i < options->world; i++)
        ranks[i] = i;
    const uint32_t group = ranks ? rankscope_group("dp", ranks, (size_t)options->world) : 0;
    free(ranks);
    const int64_t step_ns = (int64_t)options->step_ms * NS_PER_MS;
    for (int64_t step = 0;; step++) {
        const int64_t begin = t0 + step * step_ns;
        sleep_until(begin);
        rankscope_step((uint64_t)(step * options->by));
        const int64_t own = rank == options->slow_rank ? step_ns / 16 * 15 : step_ns / 2;
        for (long i = 1; i <= options->ops; i++) {
            rankscope_op_begin(forward);
            sleep_until(begin + own / options->ops * i);
            rankscope_op_end();
        }
        const struct rankscope_comm comm = {.group = group,
                                            .sequence = (uint64_t)step,
                                            .bytes = 4096,
                                            .peer = RANKSCOPE_UNKNOWN,
                                            .type = RANKSCOPE_ALL_REDUCE,
                                            .transport = RANKSCOPE_TCP};
        const struct rankscope_task task = {.bytes = 4096,
                                            .peer = (int32_t)((rank + 1) % options->world),
                                            .is_send = 1,
                                            .transport = RANKSCOPE_TCP};
        rankscope_comm_begin(&comm);
        rankscope_task_end(rankscope_task_begin(&task));
        if (options->slow_rank >= 0)
            sleep_until(begin + step_ns / 16 * 15);
        rankscope_comm_end();
        allocate(options->memory);
        allocate(-options->memory);
    }
}

static bool parse(struct options *options, int argc, char **argv)
{
    const struct {
        const char *name;
        const char **text;
        long *number;
    } known[] = {
        {"--socket", &options->socket, NULL},   {"--run", &options->run, NULL},
        {"--world", NULL, &options->world},     {"--sockets", NULL, &options->sockets},
        {"--step-ms", NULL, &options->step_ms}, {"--ring-bytes", NULL, &options->ring_bytes},
        {"--seconds", NULL, &options->seconds}, {"--slow-rank", NULL, &options->slow_rank},
        {"--ops", NULL, &options->ops},         {"--first", NULL, &options->first},
        {"--count", NULL, &options->count},     {"--t0-ns", NULL, &options->t0_ns},
        {"--by", NULL, &options->by},           {"--memory", NULL, &options->memory}};
    for (int i = 1; i < argc; i += 2) {
        size_t j = 0;
        while (j < sizeof known / sizeof known[0] && strcmp(argv[i], known[j].name) != 0)
            j++;
        if (j == sizeof known / sizeof known[0] || i + 1 == argc)
            return false;
        if (known[j].text)
            *known[j].text = argv[i + 1];
        else
            *known[j].number = strtol(argv[i + 1], NULL, 10);
    }
    if (!options->count)
        options->count = options->world - options->first;
    return options->first >= 0 && options->count > 0 &&
           options->first + options->count <= options->world && options->socket &&
           options->world > 0 && options->world <= WORLD_MAX && options->sockets > 0 &&
           options->step_ms > 0 && options->ops > 0;
}

/* Starts all ranks; 0, or how it failed. */
static int start_all(const struct options *options, pid_t *pids)
{
    const pid_t parent = getpid();
    const int64_t t0 = options->t0_ns ? options->t0_ns : now_ns() + NS_PER_S;
    for (long i = 0; i < options->count; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            return errno;
        if (pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                be_rank(options, (int32_t)(options->first + i), t0);
            _exit(0);
        }
    }
    return 0;
}

static void wait_for_end(long seconds)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    const int64_t end = now_ns() + (int64_t)seconds * NS_PER_S;
    char bytes[64];
    while (now_ns() < end) {
        const int ready = poll(&input, 1, 100);
        if (ready > 0 && read(STDIN_FILENO, bytes, sizeof bytes) <= 0)
            return;
        if (ready < 0 && errno != EINTR)
            return;
    }
}

int main(int argc, char **argv)
{
    struct options options = {.run = "thousand",
                              .world = 8,
                              .sockets = 1,
                              .step_ms = 500,
                              .ring_bytes = 65536,
                              .seconds = 600,
                              .slow_rank = -1,
                              .by = 1,
                              .ops = 1};
    if (!parse(&options, argc, argv)) {
        fprintf(
            stderr,
            "usage: native_ranks --socket PREFIX [--world N] [--sockets N] [--step-ms N] [--run NAME] "
            "[--ring-bytes N] [--seconds N] [--slow-rank R] [--ops N] "
            "[--first R] [--count N] [--t0-ns NS] [--by N] [--memory BYTES]\n");
        return 2;
    }
    pid_t *pids = calloc((size_t)options.world, sizeof *pids);
    const int failure = pids ? start_all(&options, pids) : ENOMEM;
    if (failure)
        fprintf(stderr, "native_ranks: %s\n", strerror(failure));
    if (!failure) {
        for (long i = 0; i < options.count; i++)
            printf("%s%d", i ? ", " : "{\"pids\": [", (int)pids[i]);
        printf("]}\n");
        (void)fflush(stdout);
        wait_for_end(options.seconds);
    }
    for (long i = 0; pids && i < options.count; i++)
        if (pids[i] > 0)
            (void)kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    free(pids);
    return failure ? 1 : 0;
}
