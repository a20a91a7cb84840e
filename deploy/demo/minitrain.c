/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minitrain: a real training job of several processes on one machine, small enough for two cores.
 *
 * This process is the launcher: it opens a listening socket per rank, forks the ranks, passes SIGTERM on as "stop
 * at a step that none of you has reached", waits, and judges: did the loss go down, are the weights of
 * each data-parallel group the same bits?
 */
#include "deploy/demo/job.h"
#include "deploy/demo/pipe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STOP_MARGIN = 4, STEPS_TO_JUDGE = 30 };

static void listen_for_all(int world, int *listeners, uint16_t *ports)
{
    for (int rank = 0; rank < world; rank++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;
        listeners[rank] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (listeners[rank] < 0 ||
            bind(listeners[rank], (struct sockaddr *)&address, sizeof address) != 0 ||
            listen(listeners[rank], 8) != 0 ||
            getsockname(listeners[rank], (struct sockaddr *)&address, &length) != 0)
            pipe_fail("listen");
        ports[rank] = ntohs(address.sin_port);
    }
}

/* What the launcher waits for; blocked, so that none can slip by between two waits. */
static sigset_t signals_of_interest(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    return set;
}

static void become_rank(const struct options *options, int rank, const int *listeners,
                        const uint16_t *ports, struct board *board)
{
    char name[16];
    sigset_t set = signals_of_interest();
    signal(SIGTERM, SIG_IGN); /* the launcher tells when to stop */
    signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(name, sizeof name, "rank%d", rank);
    prctl(PR_SET_NAME, name);
    exit(rank_run(options, rank, listeners, ports, board)); /* NOLINT(concurrency-mt-unsafe) */
}

/* No rank has begun the step after the one that begins next: all of them stop at the same place. */
static void set_stop(const struct options *options, struct board *board)
{
    uint64_t furthest = 0;
    for (int rank = 0; rank < options->dp * options->pp; rank++)
        if (board->step[rank] > furthest)
            furthest = board->step[rank];
    board->stop_at = furthest + STOP_MARGIN;
}

static void kill_all(const pid_t *children, int world)
{
    for (int rank = 0; rank < world; rank++)
        if (children[rank] > 0)
            kill(children[rank], SIGKILL);
}

static int forget_child(pid_t *children, int world, pid_t child)
{
    for (int rank = 0; rank < world; rank++)
        if (children[rank] == child) {
            children[rank] = 0;
            return rank;
        }
    return -1;
}

/* Collects who has ended; how many. One that fails takes the others with it. */
static int collect(pid_t *children, int world, bool *is_good_p)
{
    int count = 0;
    int status = 0;
    pid_t child = 0;
    while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
        count++;
        int rank = forget_child(children, world, child);
        if (status == 0 || !*is_good_p)
            continue;
        fprintf(stderr, "minitrain: rank %d ended with status %d\n", rank, status);
        kill_all(children, world);
        *is_good_p = false;
    }
    return count;
}

/* True when all ended well. */
static bool wait_for_all(const struct options *options, pid_t *children, struct board *board)
{
    sigset_t set = signals_of_interest();
    int world = options->dp * options->pp;
    bool is_good = true;
    for (int left = world; left > 0;) {
        int number = sigwaitinfo(&set, NULL);
        if (number == SIGCHLD)
            left -= collect(children, world, &is_good);
        else if (number > 0 && board->stop_at == UINT64_MAX)
            set_stop(options, board);
        else if (number < 0 && errno != EINTR)
            pipe_fail("wait");
    }
    return is_good;
}

static int judge(const struct options *options, const struct board *board)
{
    uint64_t steps = board->steps_done;
    double first = (double)board->first_loss / 1e9;
    double last = (double)board->last_loss / 1e9;
    bool are_equal = true;
    for (int rank = 0; rank < options->dp * options->pp; rank++)
        are_equal = are_equal && board->digest[rank] == board->digest[rank - rank % options->dp];
    printf("steps %llu, loss %.4f -> %.4f, weights of each group %s\n", (unsigned long long)steps,
           first, last, are_equal ? "identical" : "DIFFER");
    if (!are_equal)
        return 1;
    if (steps >= STEPS_TO_JUDGE && !(last < first)) {
        fprintf(stderr, "minitrain: the loss did not go down\n");
        return 1;
    }
    return 0;
}

int main(int count, char **arguments)
{
    static struct options options;
    static int listeners[MAX_WORLD];
    static uint16_t ports[MAX_WORLD];
    static pid_t children[MAX_WORLD];
    int code = options_read(count, arguments, &options);
    if (code != 0)
        return code < 0 ? 0 : code;
    if (options.only_links) {
        links_print(&options);
        return 0;
    }
    void *page =
        mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        pipe_fail("memory");
    struct board *board = page;
    board->stop_at = UINT64_MAX;
    sigset_t set = signals_of_interest();
    sigprocmask(SIG_BLOCK, &set, NULL);
    int world = options.dp * options.pp;
    listen_for_all(world, listeners, ports);
    fflush(NULL);
    for (int rank = 0; rank < world; rank++) {
        children[rank] = fork();
        if (children[rank] < 0)
            pipe_fail("fork");
        if (children[rank] == 0)
            become_rank(&options, rank, listeners, ports, board);
    }
    bool is_good = wait_for_all(&options, children, board);
    return is_good ? judge(&options, board) : 1;
}
