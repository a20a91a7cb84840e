/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the ranks of this node for their flight recorders, over what each job offers.
 *
 *   1. the control plane: torch's worker server on a unix socket that the process listens on (found by its descriptors, so
 *      no variable has to name it). Answers without any Python of the job, a rank in an endless loop too; gives the Python
 *      stacks besides.
 *   2. the dump pipe (TORCH_NCCL_DEBUG_INFO_PIPE_FILE): one byte, then the file that the process writes.
 *   3. a file that it wrote already, where it was told to (TORCH_FR_DUMP_TEMP_FILE and its older name) or by default.
 *
 * Any other rank cannot be asked, and the reason says what to set. Only processes of the user who asks, or all for root.
 * A process is never stopped or traced. The ranks of a node are asked side by side, each within the limit: one that does not
 * answer costs the others nothing.
 */
#ifndef RS_AGENT_FLIGHT_ASK_H
#define RS_AGENT_FLIGHT_ASK_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/flight/flight.h"

#include <sys/types.h>

enum rs_flight_way {
    RS_FLIGHT_WAY_NONE,
    RS_FLIGHT_WAY_SOCKET,
    RS_FLIGHT_WAY_PIPE,
    RS_FLIGHT_WAY_FILE,
};
const char *rs_flight_way_text(enum rs_flight_way way); /* "control plane", ... */

enum { RS_FLIGHT_PATH_BYTES = 512, RS_FLIGHT_WHY_BYTES = 400 };

/* What a process offers. */
struct rs_flight_offer {
    pid_t pid;
    uid_t uid; /* whose it is: sockets, pipes and files are opened with his rights */
    int32_t rank;
    char run[128];
    char socket[RS_FLIGHT_PATH_BYTES]; /* as seen from here, through /proc/PID/root; "" none */
    char silent
        [RS_FLIGHT_PATH_BYTES]; /* a socket that it listens on and that gave no answer; "" none */
    char pipe[RS_FLIGHT_PATH_BYTES];
    char file[RS_FLIGHT_PATH_BYTES]; /* where a dump is, or would be */
    bool has_file;                   /* and it was written by this process */
    rs_ns written_ns;                /* when, realtime; only with newer_than_ns, else 0 */
    bool is_off;                     /* TORCH_FR_BUFFER_SIZE is 0: nothing is recorded */
    enum rs_flight_way way;
    char why[RS_FLIGHT_WHY_BYTES]; /* of WAY_NONE: what to set */
};

/* What this process offers; nothing is asked of it but a list of handlers. RS_NOTFOUND: no such process. */
RS_MUST_CHECK enum rs_status rs_flight_offer(pid_t pid, struct rs_flight_offer *offer_p,
                                             struct rs_err *err);

struct rs_flight_ask_options {
    const char *run;         /* NULL: any */
    const char *run_default; /* of processes that name none; NULL: "" */
    const int32_t *ranks;    /* these only, sorted; NULL: all */
    size_t rank_count;
    const char *keep_dir; /* what came is kept there, too, a file a rank; NULL: not */
    const char *host;     /* NULL: its name */
    rs_dur limit_ns;      /* for the whole node; 0: 4 s */
    rs_ns
        newer_than_ns; /* not 0: nobody is asked; WAY_FILE for those who wrote a dump since then, the set is empty */
    /* One rank is through: its dump is the set's only one, with the host's name and the time of asking; an empty set: the
     * offer says why. Lent for the call; never two calls at once, each on a thread of its own. RS_NOMEM ends the asking. */
    enum rs_status (*on_rank)(void *self, const struct rs_flight_offer *offer,
                              const struct rs_flight_set *set);
    void *self;
};

/* Asks all ranks of this node that the options choose, of whichever runs. *count_p: ranks found. RS_NOMEM, RS_IO. */
RS_MUST_CHECK enum rs_status rs_flight_ask_ranks(const struct rs_flight_ask_options *options,
                                                 size_t *count_p, struct rs_err *err);

/* The dump that a process wrote before it ended, through its open file: as asking brings it. RS_AGAIN: it holds no call. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_flight_take_left(int fd, const struct rs_flight_offer *offer,
                                                 const char *host, struct rs_flight_set *set,
                                                 struct rs_err *err);

struct rs_flight_asked {
    struct rs_flight_offer *offers; /* of every rank found; freed with rs_flight_asked_fini() */
    size_t count, capacity;
    size_t answered;
};

/* The same into one set, which is sorted then, for one job: `run` NULL is the only one. RS_NOTFOUND: no rank here; RS_INVALID:
 * several runs, they are named. RS_NOMEM, RS_IO. */
RS_MUST_CHECK enum rs_status rs_flight_ask_node(const char *run, const char *keep_dir,
                                                struct rs_flight_set *set,
                                                struct rs_flight_asked *asked_p,
                                                struct rs_err *err);
void rs_flight_asked_fini(struct rs_flight_asked *asked);

#endif
