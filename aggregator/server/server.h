/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server: takes links, gives each a session, and stands between them, ingest and the coordinator.
 *
 *                        +--> session (collector) --- jobs ---> ingest ---+
 *     link --accept-->   |        ^  acks, messages                        | done: mailbox + wake
 *                        |        +---------------------------------------+
 *                        |        +--- ranks, armed, progress, ended ---> coordinator
 *                        +--> session (command line) --- ask, reply ------^
 *
 * An Ack is written only from a job that ingest reported as done, that is after its fdatasync. When
 * ingest's queue is full, a session does not take its next message: HTTP/2 then stops the collector.
 *
 * One thread: the one that calls rs_server_step(). Bytes of a peer can close that peer's link and nothing
 * else.
 */
#ifndef RS_SERVER_H
#define RS_SERVER_H

#include "aggregator/archive/archive.h"
#include "aggregator/capture/coordinator.h"
#include "aggregator/ingest/ingest.h"
#include "common/wire/link.h"

struct rs_server;
struct rs_row_place;
struct rs_lease;
struct quota_limits;

/* Of a capture that is read. */
enum { RS_JOURNAL_RANKS = 1, RS_JOURNAL_REQUEST = 2, RS_JOURNAL_ALL = 3 };

/* Where captures are written down (over the store; the server knows no rows). Called on the server's thread, but for
 * `create`, `sync`, `save` and `remove`, which are called on the thread that writes, in the order in which they were asked for, and `find`, `heads`
 * and `list`, which are called on any. */
struct rs_server_journal {
    /* A new capture: fills id (unless it has one), directory, created_ns. Refuses what could not be written. Touches no disk,
     * but for a capture that brings its id: RS_EXISTS. */
    enum rs_status (*name)(void *self, struct rs_coord_capture *capture, struct rs_err *err);
    /* Of a copy, without ranks: durable when it returns, or where there is one with the next sync(). */
    enum rs_status (*create)(void *self, struct rs_coord_capture *capture, struct rs_err *err);
    /* Makes durable what create() wrote. NULL: that did it. */
    enum rs_status (*sync)(void *self, struct rs_err *err);
    /* Of a copy with the ranks that changed. */
    enum rs_status (*save)(void *self, const struct rs_coord_capture *capture, struct rs_err *err);
    /* Fills facts as ingest's CLOSE job wants them. */
    void (*facts)(void *self, const struct rs_coord_capture *capture,
                  struct rs_capture_facts *facts_p);
    /* A capture, by copy (rs_coord_capture_fini()), with its ranks where `parts` has RS_JOURNAL_RANKS, and its request where it has
     * RS_JOURNAL_REQUEST (of one that is not closed always). RS_NOTFOUND. */
    enum rs_status (*find)(void *self, const char *id, unsigned parts,
                           struct rs_coord_capture *capture_p, struct rs_err *err);
    /* The name of the user whose capture it is; "": nobody's own, or there is none. NULL: none has an owner. */
    void (*owner)(void *self, const char *id, char owner_p[RS_COORD_USER_BYTES]);
    /* On whose account it is kept: "user/OWNER", or who began it ("node/gpu-017"); "": nobody's, or there is none. Any thread. NULL: none
     * has an account. */
    void (*account)(void *self, const char *id, char account_p[RS_COORD_ACCOUNT_BYTES]);
    /* Whether another aggregator has taken it over from this one. NULL: none does. */
    bool (*is_given_up)(void *self, const char *id);
    /* The other way round: that one is lost. `claim` and `from` as in struct rs_coord_capture; durable. On the thread that writes. */
    enum rs_status (*take_back)(void *self, const char *id, uint32_t claim, const char *from,
                                struct rs_err *err);
    /* The name of the run whose capture it is; "": there is none. NULL: nobody knows. */
    void (*run)(void *self, const char *id, char run_p[RS_COORD_TEXT_BYTES]);
    /* Whether there was a capture of that name, and it was removed; NULL: nobody knows. */
    bool (*was_removed)(void *self, const char *id);
    /* Every capture, oldest first, ranks too (lent for the call); visit returns false to end. */
    enum rs_status (*list)(void *self,
                           bool (*visit)(void *visitor, const struct rs_coord_capture *capture),
                           void *visitor, struct rs_err *err);
    /* Every capture, oldest first, without its ranks and its request: in one look, for who goes through thousands. closed_ns is 0
     * until it is closed. `visit` may not write. NULL: list() does it. */
    enum rs_status (*heads)(void *self,
                            bool (*visit)(void *visitor, const struct rs_coord_capture *capture),
                            void *visitor, struct rs_err *err);
    /* How many ranks find() would bring. NULL: find() does it. */
    size_t (*count_ranks)(void *self, const char *id);
    /* A capture that is closed goes, with all that is stored of it. On the thread that writes. NULL: none does. */
    enum rs_status (*remove)(void *self, const char *id, struct rs_err *err);
    /* A capture is closed, and all of it on disk. May be NULL. */
    void (*closed)(void *self, const struct rs_capture_facts *facts);
    /* As struct rs_coord_ops; NULL: nothing is known. */
    bool (*earlier_roles)(void *self, const char *run, struct rs_roles *roles_p);
    void *self;
};

/* The standing watch for hangs (hang_watch.c). */
struct rs_server_hang_rules {
    bool is_on;
    int64_t steps;       /* no rank moved for so many median steps; 0: 10 */
    rs_dur min_wait_ns;  /* and at least so long; 0: 10 s */
    rs_dur cool_down_ns; /* of one run, after an incident; 0: 10 min */
    int64_t per_day;     /* captures in 24 h, of all runs; at most 1000; 0: 20 */
};

/* The standing watch for steps that begin to take longer (step_watch.c). */
struct rs_server_step_rules {
    bool is_on;
    double longer_by;      /* part of the usual length; 0: 0.15 */
    int64_t steps;         /* of a capture; 0: 5 */
    rs_dur cool_down_ns;   /* of one run, after a capture; 0: 10 min */
    int64_t per_day;       /* captures in 24 h, of all runs; at most 1000; 0: 10 */
    bool has_probes;       /* ranks that tell no steps are recorded now and then (step_probe.h) */
    double probe_share;    /* of the time, that this may disturb a job at most; 0: 0.01 */
    rs_dur probe_every_ns; /* a run not more often than that; 0: 1 min */
};

struct rs_server_options {
    struct rs_loop *loop; /* keeps a pointer to it */
    struct rs_store *store;
    const struct rs_server_journal *journal; /* copies it */
    uint64_t credit_bytes;                   /* of one collector; 0: RS_WIRE_CREDIT_DEFAULT_BYTES */
    uint64_t credit_total_bytes;             /* of all; 0: 256 MiB */
    uint64_t queue_bytes;                    /* of ingest; 0: its default */
    rs_dur heartbeat_ns;                     /* 0: 500 ms */
    rs_dur first_message_ns, outbox_ns;      /* bounds.h; 0: as it says */
    size_t outbox_bytes, reply_bytes;        /* the same */
    const struct quota_limits
        *limits; /* of every identity (quota.h), keeps a pointer to it; NULL: by party */
    const char
        *documents_dir;       /* lent for the call; made and emptied; NULL: documents are refused */
    uint64_t documents_bytes; /* of what is kept there; 0: 2 GiB */
    const struct rs_coord_options *coord; /* times only; NULL: defaults */
    struct rs_server_hang_rules hang;
    struct rs_server_step_rules step_watch;
    struct rs_row_place
        *rows; /* where rows are; keeps a pointer to it; NULL: in the captures' folders */
    struct rs_lease
        *lease; /* who else writes where rows are; keeps a pointer to it; NULL: nobody is known */
    struct rs_archive *archive; /* keeps a pointer to it; NULL: nothing is archived */
    rs_dur
        archive_ns; /* closed captures go there so long after they were closed; 0: when they are told to */
    rs_dur missing_ns;   /* on_alarm is told of ranks that are missing for so long; 0: 30 s */
    rs_dur keep_ns;      /* of closed captures, since they were closed; 0: for ever */
    uint64_t keep_bytes; /* of all captures; the oldest closed ones go; 0: no limit */
    uint64_t
        keep_bytes_each; /* of the captures on one account (store_share.h): more is refused; 0: no limit */
    /* A capture was closed: what was found in it (NULL: nothing was joined), before it is forgotten. Lent. May be NULL. */
    void (*on_closed)(void *self, const struct rs_capture_facts *facts, const char *headline);
    void *closed_self;
    /* Something of a run that lives is worth telling ("regression", "rank_missing"): a sentence, and the capture that was started for it, ""
     * none. Lent. May be NULL. */
    void (*on_alarm)(void *self, const char *event, const char *run, const char *capture,
                     const char *text);
    void *alarm_self;
    const char *audit_path; /* lent for the call; NULL: no audit log */
    /* Signs certificates of who joins or renews; keeps a pointer to it; NULL: nobody can. */
    struct rs_authority *authority;
    const char *
        stream_port; /* ":7070" for who joined; keeps a pointer to it, it may be filled in later; NULL: "" */
    /* RS_REFUSED: an identity of a session does not count any more; identity NULL: look for what is new. NULL: all count. */
    enum rs_status (*check_identity)(void *self, const struct rs_identity *identity,
                                     struct rs_err *err);
    void *check_self;
};

/* Starts ingest; loads the captures that the journal says are open. */
RS_MUST_CHECK enum rs_status rs_server_new(const struct rs_server_options *options,
                                           struct rs_server **server_p, struct rs_err *err);
/* Every link must be gone (rs_server_session_count() is 0). */
void rs_server_free(struct rs_server **server_p);

/* An rs_accept_fn: gives the link a session. `self` is the server. */
bool rs_server_accept(void *self, struct rs_link *link, const char *method);

/* Counts and writes into the audit log that somebody was refused before a link of his reached the server. Any thread. */
void rs_server_refused(struct rs_server *server, const struct rs_identity *who, const char *from,
                       const char *what, const char *why);

/* Runs the loop once and everything that is due, at most until `until` (monotonic). RS_IO when ingest is
 * broken: stop, the data on disk is right up to the last ack. */
RS_MUST_CHECK enum rs_status rs_server_step(struct rs_server *server, rs_ns until,
                                            struct rs_err *err);

/* Says goodbye to every collector and takes no new sessions; go on with rs_server_step() until
 * rs_server_session_count() is 0. */
void rs_server_drain(struct rs_server *server);
size_t rs_server_session_count(const struct rs_server *server);
/* What is held for peers now: bytes of answers that they have not taken, streams of their links. */
struct rs_server_held {
    size_t outbox_bytes, streams;
};
struct rs_server_held rs_server_held(const struct rs_server *server);
struct rs_ingest_stats rs_server_ingest_stats(const struct rs_server *server);

#endif
