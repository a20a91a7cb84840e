/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of the server: sessions, and what they share.
 *
 * A session lives from accept until its link is closed *and* its last job came back from ingest:
 * jobs lend texts of its streams and carry pointers to it.
 */
#ifndef RS_SERVER_PRIV_H
#define RS_SERVER_PRIV_H

#include "aggregator/model/columns.h"
#include "aggregator/server/audit.h"
#include "aggregator/server/bounds.h"
#include "aggregator/server/catalogue_feed.h"
#include "aggregator/server/host_clock.h"
#include "aggregator/server/pool.h"
#include "aggregator/server/quota.h"
#include "aggregator/server/server.h"
#include "aggregator/server/store_share.h"
#include "aggregator/store/fleet.h"
#include "aggregator/store/fleet_captures.h"
#include "common/base/counters.h"

#include <pthread.h>

struct outbox_item {
    struct outbox_item *next;
    struct rs_buf buf;
};

/* One stream of a collector, between Open and the end of the link. */
struct stream {
    uint32_t handle;
    char *run, *incarnation, *host, *origin, *key, *asked_capture;
    uint32_t rank, world;
    enum rs_stream_lane lane;
    rs_seq first_seq;
    rs_dur settle_ns;
    char capture[RS_STORE_ID_BYTES];
    struct rs_store_stream *stored; /* from ingest's answer; NULL before */
    rs_seq durable_seq;
    bool is_ack_due;
    bool is_ended;                /* its last chunk is durable: forgotten with the Ack of it */
    size_t job_count;             /* at ingest */
    bool is_waiting, is_of_hello; /* its capture is being created: then it is opened */
    bool is_held;                 /* its collector keeps it: nobody wants it yet */
    bool is_settled; /* its capture is where all aggregators read it, and all of the stream in it */
    bool is_asking;  /* the database is asked whose its capture is: then it is looked up again */
    struct store_share
        *share; /* on whose account its chunks are; NULL: nobody's, or it is not open */
    /* A chunk was refused: those behind it are left unread until the wanted one comes. */
    enum rs_wire_refusal refusal; /* to be told with the next Ack */
    bool is_refusing;
    unsigned generation; /* of refusals: jobs of an older one say nothing new */
    rs_seq wanted_seq;
    char *reason;
};

enum session_kind { SESSION_COLLECTOR, SESSION_ASK };

struct session {
    struct session *next;
    struct rs_server *server;
    struct rs_link *link; /* NULL: closed */
    enum session_kind kind;
    struct rs_identity identity; /* of the other side, as its link brought it */
    struct quota *quota;         /* of the identity */
    bool has_hello, is_failed, is_paused, is_ended;
    bool is_choked; /* not read: it does not take its answers */
    rs_ns opened_at;
    rs_ns choked_at;     /* since when its outbox is over the bound; 0 it is not */
    size_t outbox_bytes; /* of all items */
    size_t job_count;    /* at ingest */
    struct outbox_item *outbox, **outbox_last_p;

    /* collector */
    char node[RS_COORD_TEXT_BYTES];
    char collector[RS_COORD_TEXT_BYTES];
    uint32_t minor; /* version of the collector */
    char told_elsewhere
        [RS_STORE_ID_BYTES]; /* the last capture of which the log says that its data stays there */
    bool must_settle;        /* it keeps what is acknowledged until it is told */
    bool is_delivery;        /* its ranks are at another aggregator */
    struct home *homes;      /* aggregators that it belongs to rather than to us; homes.c */
    size_t home_count;
    struct rs_adapter *adapters; /* owned; what it announced, or what its version stands for */
    size_t adapter_count;
    struct stream **streams; /* by handle, ascending */
    size_t stream_count, stream_capacity;
    size_t ack_due_count;
    bool has_warned;             /* of a rank that is left out */
    bool has_misreported;        /* of ranks that it was not asked for: said once */
    Rankscope__Welcome *welcome; /* waits until every Open of the Hello is answered */
    size_t welcome_pending;
    char call_back
        [RS_COORD_ID_BYTES]; /* capture that it came back with, and that was stopped meanwhile */
    char called_back[RS_COORD_ID_BYTES];  /* the last such capture that it was told of */
    rs_ns peer_sent_ns, peer_received_ns; /* of its last heartbeat */
    struct host_clock clock;              /* of its host, as against ours */
    struct collector_counters *counters;  /* as it told last; NULL: nothing yet; ask_counters.c */

    /* command line */
    char follow[RS_COORD_ID_BYTES]; /* capture whose changes it wants */
    bool is_follow_due, is_follow_last;
    struct rank_cursor *rank_cursor; /* of a table of ranks that goes on; ask.c */
    struct lister *lister;           /* of a list of captures that goes on; ask_list.c */
    struct transfer *transfer;       /* of a document; ask_documents.c */
    struct table_reader *table;      /* of a read; ask_table.c */
};

/* What a pool does, for a session unless that is NULL: run on a thread of the pool, finish on the server's, where it is freed. */
struct pool_job {
    struct rs_pool_job base; /* first: the pool hands it back */
    struct rs_server *server;
    struct session *session;
    void (*finish)(struct pool_job *job);
    struct rs_err before; /* status < 0: what had to be done first came to nothing (archiving.c) */
};

struct chunk_job {
    struct rs_ingest_job base;
    struct session *session; /* NULL: of the server itself */
    struct stream *stream;
    struct rs_frame *frame;
    bool is_of_hello;
    unsigned generation;            /* of the stream, when it was put */
    struct rs_capture_facts *facts; /* CLOSE */
};

struct rs_server {
    struct rs_loop *loop;
    struct rs_server_options options;
    struct rs_server_journal journal;
    struct rs_ingest *ingest;
    struct rs_coord *coord;
    struct rs_documents *documents; /* NULL: none are made */
    struct store_shares shares;     /* what each keeps on the disk; store_share.h */
    rs_ns resume_at; /* a session that rests (quota.h) may be read again; RS_NS_MAX none */
    struct rs_pool *join_pool, *read_pool, *store_pool;
    struct rs_pool *archive_pool;        /* NULL: there is no archive */
    struct archiving *archivings;        /* under way; archiving.c */
    struct hang *hangs;                  /* that are being looked at; hang.c */
    struct hang_watch *hang_watch;       /* NULL: nobody watches; hang_watch.c */
    struct step_watch *step_watch;       /* NULL: nobody watches; step_watch.c */
    struct missing_watch *missing_watch; /* NULL: nobody would be told; missing_watch.c */
    struct join *joins;                  /* of open captures; live_join.c */
    struct owed *owed;                   /* closed captures whose rows lack; rows_owed.c */
    struct catalogue_feed *feed;         /* NULL: nobody else hears of captures; catalogue_feed.c */
    struct creating *creating;           /* captures that are not written yet; writing.c */
    struct writing *unsynced;            /* of these, rows that are written and not durable */
    bool is_syncing;                     /* and a sync is on its way */
    rs_ns homes_at;                      /* when it is looked whether collectors go home; homes.c */
    struct whose_entry *whose; /* captures that collectors named, and that are not here; whose.c */
    struct session *sessions;
    struct quotas quotas;
    size_t session_count;
    size_t server_job_count; /* CLOSE jobs at ingest */
    size_t
        closed_join_count; /* captures that are joined, or wait for it, since they were closed; closed_join.c */
    bool is_draining;
    rs_ns next_tick;
    rs_ns ticked_at;        /* the last one ended */
    rs_dur tick_cost_ns;    /* CPU time of it */
    rs_ns swept_at;         /* sessions, for what takes too long */
    rs_ns checked_at;       /* identities, for what is no longer believed */
    struct rs_audit *audit; /* NULL: none is kept */
    rs_ns retention_looked_at;
    rs_ns retention_at;   /* when captures are looked at for what may go; retention.c */
    bool is_looking_back; /* that is under way */

    pthread_mutex_t mailbox_lock; /* guards the mailbox: ingest puts, server takes */
    struct rs_pool_job *pool_mailbox,
        **pool_mailbox_last_p; /* pools put, server takes; the same lock */
    struct rs_ingest_job *mailbox, **mailbox_last_p;
};

/* session.c */
void session_post(struct session *session, const ProtobufCMessage *message);
/* Takes the bytes of `buf`. */
void session_post_packed(struct session *session, struct rs_buf *buf);
void session_cancel(struct session *session, const struct rs_coord_capture *capture,
                    const char *reason);
void session_pump(struct session *session);
void session_fail(struct session *session, enum rs_status status, const char *reason);
/* Whether its next chunk may be taken; and takes it, if it waited for that. */
bool session_may_read(const struct session *session);
void session_resume(struct session *session);
/* Closes those that take too long. */
void sessions_sweep(struct rs_server *server, rs_ns now);
/* Closes those whose certificate expired or was revoked since they came. */
void sessions_check(struct rs_server *server);
/* Frees it when its link and its jobs are gone; true: it is gone. */
bool session_reap(struct session *session);
extern const struct rs_link_user collector_user;
extern const struct rs_link_user ask_user;

/* collector.c */
void collector_job_done(struct session *session, struct chunk_job *job);
void collector_post_acks(struct session *session);
/* Streams that wait for the capture are opened, or refused with the text. */
void collector_capture_created(struct rs_server *server, const char *id, enum rs_status status,
                               const char *text);
void collector_free_streams(struct session *session);
/* Its rows are where all aggregators read them: nobody has to keep it. */
void collector_settled(struct rs_server *server, const char *id);
/* Collectors that have streams of it open find out whose it is when they come back. */
void collector_give_up(struct rs_server *server, const char *id);
/* Tells collectors that bring data of the capture, and are at another aggregator with its ranks, that it is called off. */
void collector_cancel_elsewhere(struct rs_server *server, const struct rs_coord_capture *capture,
                                const char *reason);
/* Streams that wait for whose the capture is. */
void collector_look_again(struct rs_server *server, const char *id);
/* Held streams of the capture that are wanted now go on. */
void collector_release(struct session *session, const struct rs_coord_capture *capture);

/* ask.c */
void ask_refuse(struct session *session, const struct rs_err *err);
/* The same, and who has what was asked for is reached there; "": nowhere. */
void ask_redirect(struct session *session, const struct rs_err *err, const char *address);
/* Whether it may be asked, and the answer. `others`: captures of other aggregators, for questions over all of them (lent for the call; NULL:
 * none); away: why they are not known, "" they are. */
void ask_answer(struct session *session, const Rankscope__Ask *ask,
                const struct rs_fleet_captures *others, const char *away);
void ask_pump(struct session *session);
/* err->status < 0: it came to nothing, who follows it is refused. */
void ask_capture_created(struct rs_server *server, const char *id, const struct rs_err *err);
/* Its state to who follows it, without an id: it is not kept. */
void ask_capture_told(struct rs_server *server, const char *id,
                      const struct rs_coord_capture *capture);
void ask_capture_changed(struct rs_server *server, const char *id, bool is_closed);

void ask_ranks_pump(struct session *session);
void ask_cursor_free(struct session *session);
/* Whose runs and captures it may see; NULL: all. Lent by the session. */
const char *ask_user_of(const struct session *session);
/* What an answer says of a capture, without ranks their number alone; to be freed as protobuf-c frees; NULL: no memory. */
Rankscope__CaptureInfo *ask_copy_info(const struct rs_server *server,
                                      const struct rs_coord_capture *capture, bool with_ranks,
                                      size_t *bytes_p);

/* What an answer says of a capture as the journal has it, appended, packed. Any thread. False: no memory. */
bool ask_pack_info(const struct rs_server *server, const struct rs_coord_capture *capture,
                   bool with_ranks, struct rs_buf *buf);

/* elsewhere.c */
/* Whether the answer takes the database, for captures of other aggregators: ask_answer() comes later then, or what they have. */
bool elsewhere_takes(struct session *session, const Rankscope__Ask *ask);
/* Another aggregator, as the lease's thread heard of it. */
struct elsewhere_member {
    char id[RS_FLEET_ID_BYTES];
    char address[RS_FLEET_ADDRESS_BYTES]; /* where it is reached from here; "": nowhere */
    char text[512];                       /* for people */
    bool is_living;
};
void elsewhere_who(struct rs_server *server, const char *id, struct elsewhere_member *member_p);
/* Whether the capture is here, or was and is removed. */
bool elsewhere_is_here(struct rs_server *server, const char *id);
/* What another aggregator wrote of its capture; freed as protobuf-c frees. NULL: it cannot be read, or there is no memory. */
Rankscope__CaptureInfo *elsewhere_info(struct rs_server *server,
                                       const struct rs_fleet_capture *capture,
                                       struct rs_view packed);

/* whose.c */
enum whose_kind {
    WHOSE_NOBODYS, /* no aggregator knows of it */
    WHOSE_ANOTHERS,
    WHOSE_LOST, /* the aggregator that has it is away for longer than its lease */
    WHOSE_REMOVED,
    WHOSE_UNKNOWN /* the database does not say */
};
struct whose {
    enum whose_kind kind;
    struct elsewhere_member member; /* ANOTHERS, LOST */
    bool is_closed;                 /* ANOTHERS: and the capture is over there */
    char owner
        [RS_COORD_USER_BYTES]; /* ANOTHERS, LOST: the user whose it is; "" nobody's own, or not known */
    char why[512];             /* UNKNOWN */
    uint32_t claim;            /* ANOTHERS, LOST: how often it was taken over */
    struct rs_view
        info; /* ANOTHERS, LOST: what that one wrote of it, ranks and all; empty: nothing yet */
};
/* Whether there are others who may have a capture that is not here. */
bool whose_is_shared(const struct rs_server *server);
/* Whose a capture is that is not here; lent until the next call. NULL: the database is asked, and collector_look_again() comes when it has
 * answered. Thread: the server's, as of the rest. */
const struct whose *whose_of(struct rs_server *server, const char *id);
void whose_fini(struct rs_server *server);
/* Before rows of a capture in the folder `dir` are written: RS_EXISTS, another aggregator has taken it over, which is written down.
 * RS_OK, too, when the database does not say. On a thread of a pool. */
RS_MUST_CHECK enum rs_status whose_check(struct rs_server *server, const char *id, const char *dir,
                                         struct elsewhere_member *member_p);
/* Whether it was. Thread: the server's. */
bool whose_is_given_up(const struct rs_server *server, const char *id);
/* What is open of it is closed, and its collectors are told. */
void whose_give_up(struct rs_server *server, const char *id, const struct elsewhere_member *member);

/* One that was given up is taken back when it is WHOSE_LOST: true, collector_look_again() comes. */
bool whose_take_back(struct rs_server *server, const char *id, const struct whose *whose);

/* takeover.c */
/* Begins a capture here that is WHOSE_LOST, as its aggregator told of it last. RS_FORMAT: it cannot be read. RS_EXISTS, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status takeover(struct rs_server *server, const char *id,
                                      const struct whose *whose, struct rs_err *err);

/* homes.c */
/* Keeps in mind which aggregators come before us in the collector's list. RS_NOMEM. */
RS_MUST_CHECK enum rs_status homes_take(struct session *session, const Rankscope__Hello *hello,
                                        struct rs_err *err);
/* The address, as the collector has it, of one of them that lives, or may be back soon; lent by the session. NULL: it stays. */
const char *homes_before(const struct session *session);
/* When to call again at the latest. */
rs_ns homes_tick(struct rs_server *server, rs_ns now);
void homes_free(struct session *session);

/* ask_list.c */
void ask_list(struct session *session, const Rankscope__AskList *ask,
              const struct rs_fleet_captures *others, const char *away);
void ask_list_pump(struct session *session);
void ask_list_free(struct session *session);

/* ask_counters.c */
void ask_counters(struct session *session);
void counters_take(struct session *session, const Rankscope__Heartbeat *heartbeat);

/* ask_aggregators.c */
void ask_aggregators(struct session *session);

/* What is known of a capture, as the last answer. */
void ask_show(struct session *session, const char *id);
/* RS_NOTFOUND: there is no such capture. */
RS_MUST_CHECK enum rs_status ask_is_closed(struct session *session, const char *id,
                                           bool *is_closed_p, struct rs_err *err);

/* archiving.c */
void ask_archive(struct session *session, const Rankscope__AskArchive *ask);
/* Nobody asked, but it is time: `why` is a constant text. */
void archiving_begin(struct rs_server *server, const char *id, const char *why);
/* What was fetched of an archived capture goes from here again. */
void archiving_forget_cache(struct rs_server *server, const char *id);
/* By its folder: it is archived; it is, and what was fetched of it was not needed for a day. */
bool archiving_is_away(const char *dir);
bool archiving_is_stale(const char *dir, rs_ns now);
rs_ns archiving_here_since(const char *dir, rs_ns closed_ns);
/* Puts a job that reads the capture's folder into the join pool, behind what has to be fetched for it. As server_pool_put(). */
RS_MUST_CHECK enum rs_status archiving_put_join(struct session *session, struct pool_job *then,
                                                const char *id, const char *dir);
/* In such a job, first: that all of the folder is here. */
RS_MUST_CHECK enum rs_status archiving_check(const struct pool_job *base, const char *id,
                                             const char *dir, struct rs_err *err);
/* What is in the archive of a capture that is removed goes first. On a thread of a pool. */
RS_MUST_CHECK enum rs_status archiving_remove(struct rs_server *server, const char *id,
                                              struct rs_err *err);
RS_MUST_CHECK enum rs_status archiving_start(struct rs_server *server, struct rs_err *err);
rs_ns archiving_tick(struct rs_server *server, rs_ns now);
/* What is under way ends soon. */
void archiving_drain(struct rs_server *server);

/* ask_documents.c */
/* `other`: of an aggregator that is gone, whose rows are where ours are: the report alone. */
void ask_documents(struct session *session, const Rankscope__AskDocuments *ask,
                   const struct rs_fleet_capture *other);
void ask_document(struct session *session, const Rankscope__AskDocument *ask);
void ask_document_pump(struct session *session);
void ask_transfer_free(struct session *session);

/* ask_table.c */
/* `other`: the rows of a capture of another aggregator, which are in the place of rows (lent for the call); NULL: of one that is here. */
void ask_table(struct session *session, const Rankscope__AskTable *ask,
               const struct rs_fleet_capture *other);
void ask_table_pump(struct session *session);
void ask_table_free(struct session *session);

/* Rows that are no capture's, sent as a table's pages. */
struct table_source {
    const struct rs_table *table;
    /* Replaces what the block held by the next rows, never none; RS_END: there are no more. On a thread of the read pool. It may add
     * to the lines, and say that the rows are partial. */
    enum rs_status (*next)(struct table_source *source, struct rs_block *block, struct rs_err *err);
    void (*close)(void *self); /* on any thread */
    void *self;
    uint64_t generation; /* other rows have another one */
    char **lines;        /* what lacks, for the user: taken, and freed by rs_mem_free() */
    size_t line_count, line_capacity;
    bool is_partial;
};
/* Answers with them; closes the source in any case. limit 0: all. */
void ask_table_of(struct session *session, const struct table_source *source, const char *cursor,
                  uint64_t limit);

/* ask_history.c; `user`: whose captures only; NULL: all */
void ask_history(struct session *session, const Rankscope__AskHistory *ask, const char *user,
                 const struct rs_fleet_captures *others, const char *away);

/* ask_query.c; `other`: as of ask_table() */
void ask_query(struct session *session, const Rankscope__AskQuery *ask,
               const struct rs_fleet_capture *other);

/* closed_join.c: a capture was closed, and nobody asked yet. */
void closed_join(struct rs_server *server, const char *id);

/* rows_owed.c; with a place of rows (options.rows) only */
/* The capture is closed, and its rows are not all there, or not as they are now. */
void rows_owed_add(struct rs_server *server, const char *id);
/* When to call again at the latest. */
rs_ns rows_owed_tick(struct rs_server *server, rs_ns now);
size_t rows_owed_count(const struct rs_server *server);
void rows_owed_fini(struct rs_server *server);
/* Joins all of a closed capture into the place, unless that was done. In a job of that capture on the join pool. RS_UNREACHABLE: it is
 * away. */
RS_MUST_CHECK enum rs_status rows_make(struct rs_server *server, const char *id, const char *dir,
                                       struct rs_err *err);
/* What is in the place of a capture that is removed goes first. On a thread of a pool. */
RS_MUST_CHECK enum rs_status rows_remove(struct rs_server *server, const char *id,
                                         struct rs_err *err);
/* Where the rows of a capture are, for `capture show`; "" in its folder. */
void rows_say(const struct rs_server *server, const char *dir, char *text, size_t size);

/* ask_certificate.c */
void ask_certificate(struct session *session, const Rankscope__AskCertificate *ask);

/* rights.c */
/* What a question is called in the audit log; RS_REFUSED: the session may not ask it, which is written there. */
RS_MUST_CHECK enum rs_status rights_to_ask(struct session *session, const Rankscope__Ask *ask,
                                           struct rs_err *err);
/* The same of a capture of another aggregator, whose run and owner these are. */
RS_MUST_CHECK enum rs_status rights_to_ask_other(struct session *session, const Rankscope__Ask *ask,
                                                 const char *run, const char *owner,
                                                 struct rs_err *err);
/* Whether the session may ask this at all, whatever capture it is of. */
bool rights_may(const struct session *session, const Rankscope__Ask *ask);
/* The capture that the question is of; NULL: it is of none, or of all. Lent by the question. */
const char *rights_capture_of(const struct session *session, const Rankscope__Ask *ask);
/* That it speaks as the collector of the node. */
RS_MUST_CHECK enum rs_status rights_of_collector(struct session *session, const char *node,
                                                 struct rs_err *err);
/* Whether the capture is of the user of that name. */
bool server_is_owner(const struct rs_server *server, const char *id, const char *user);
/* The user for whose processes alone the session is a collector; NULL: for all of its node. */
const char *rights_own_user(const struct session *session);
/* The run that was asked for; where none was, the one that the session is bound to; "": any. Lent by both. */
const char *rights_run(const struct session *session, const char *asked);
/* Counts and writes down that it was refused. */
void rights_refused(const struct session *session, const char *what, const char *subject,
                    const char *why);

/* hang.c */
void hang_ask(struct session *session, const Rankscope__AskHang *ask);
void hang_flight(struct session *session, const Rankscope__Flight *flight);
void hang_link_gone(struct rs_server *server, const void *link);
/* When to call again at the latest. */
rs_ns hang_tick(struct rs_server *server, rs_ns now);
void hang_fini(struct rs_server *server);
/* Asks for the server itself: of `run` ("" any) who wrote a dump since newer_than_ns, or, when that is 0, all of it for a
 * capture whose reason says `why`. hang_watch_*() below is told what came of it. */
RS_MUST_CHECK enum rs_status hang_begin(struct rs_server *server, const char *run,
                                        rs_ns newer_than_ns, const char *why, struct rs_err *err);

/* hang_watch.c; all of them do nothing when nobody watches */
RS_MUST_CHECK enum rs_status hang_watch_start(struct rs_server *server, struct rs_err *err);
rs_ns hang_watch_tick(struct rs_server *server, rs_ns now);
/* A rank of run `name` wrote a dump; then the node answers are all there. */
void hang_watch_dump(struct rs_server *server, const char *name, rs_ns written_ns);
void hang_watch_looked(struct rs_server *server);
/* All ranks of run `name` were asked. `capture` NULL: nothing is kept, `text` says why. has_dumps: one of them at least. is_own: as
 * the watch wanted. */
void hang_watch_asked(struct rs_server *server, const char *name, const char *capture,
                      const char *text, bool has_dumps, bool is_own);
void hang_watch_fini(struct rs_server *server);

/* step_watch.c; all of them do nothing when nobody watches */
RS_MUST_CHECK enum rs_status step_watch_start(struct rs_server *server, struct rs_err *err);
rs_ns step_watch_tick(struct rs_server *server, rs_ns now);
void step_watch_fini(struct rs_server *server);
/* For step_probe.c: the rules, filled in; the probe whose capture that is, NULL: nobody waits for it any more. */
const struct rs_server_step_rules *step_watch_rules(const struct rs_server *server);
struct step_probe *step_watch_probe(struct rs_server *server, const char *capture);

/* missing_watch.c; all of them do nothing when nobody would be told */
RS_MUST_CHECK enum rs_status missing_watch_start(struct rs_server *server, struct rs_err *err);
rs_ns missing_watch_tick(struct rs_server *server, rs_ns now);
void missing_watch_fini(struct rs_server *server);

/* retention.c */
/* A capture was closed: look again soon. */
void retention_soon(struct rs_server *server);
/* When to call again at the latest. */
rs_ns retention_tick(struct rs_server *server, rs_ns now);

/* writing.c */
RS_MUST_CHECK enum rs_status writing_start(struct rs_server *server, struct rs_err *err);
void writing_stop(struct rs_server *server);
void writing_fini(struct rs_server *server);
RS_MUST_CHECK enum rs_status writing_create(struct rs_server *server,
                                            struct rs_coord_capture *capture, struct rs_err *err);
/* False: no memory. */
bool writing_save(struct rs_server *server, const struct rs_coord_capture *capture);
bool writing_close(struct rs_server *server, const struct rs_coord_capture *capture);
bool writing_is_creating(struct rs_server *server, const char *id);
/* session_post() once the capture is there. */
void writing_post(struct rs_server *server, const char *id, struct session *session,
                  const ProtobufCMessage *message);

/* server.c */
void server_pool_done(void *self, struct rs_pool_job *job);
struct session *server_find_session(const struct rs_server *server, const void *link);
/* Puts the CLOSE job of a capture whose rows are written. */
void server_close_at_ingest(struct rs_server *server, const char *id);
/* Counts among the session's jobs until finish. RS_LIMIT: the pool's queue is full; the job is the caller's. */
RS_MUST_CHECK enum rs_status server_pool_put(struct session *session, struct rs_pool *pool,
                                             struct pool_job *job);
struct chunk_job *server_job_new(struct session *session, enum rs_ingest_kind kind);
void server_job_put(struct rs_server *server, struct chunk_job *job);
void server_tick_soon(struct rs_server *server);

#endif
