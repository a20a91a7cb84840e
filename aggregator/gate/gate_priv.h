/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of the gate: sessions, and what they share.
 *
 * A session lives from accept until its link is closed *and* its last job came back from ingest:
 * jobs lend texts of its streams and carry pointers to it.
 */
#ifndef RS_GATE_GATE_PRIV_H
#define RS_GATE_GATE_PRIV_H

#include "aggregator/gate/gate.h"

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
    rs_dur settle_ns;
    char capture[RS_STORE_ID_BYTES];
    struct rs_store_stream *stored; /* from ingest's answer; NULL before */
    rs_seq durable_seq;
    bool is_ack_due;
};

enum session_kind { SESSION_COLLECTOR, SESSION_ASK };

struct session {
    struct session *next;
    struct rs_gate *gate;
    struct rs_link *link; /* NULL: closed */
    enum session_kind kind;
    bool has_hello, is_failed, is_paused, is_ended;
    size_t job_count; /* at ingest */
    struct outbox_item *outbox, **outbox_last_p;

    /* collector */
    char node[RS_COORD_TEXT_BYTES];
    char collector[RS_COORD_TEXT_BYTES];
    struct stream **streams; /* by handle, ascending */
    size_t stream_count, stream_capacity;
    size_t ack_due_count;
    bool has_warned;             /* of a rank that is left out */
    Rankscope__Welcome *welcome; /* waits until every Open of the Hello is answered */
    size_t welcome_pending;
    char call_back
        [RS_COORD_ID_BYTES]; /* capture that it came back with, and that was stopped meanwhile */
    rs_ns peer_sent_ns, peer_received_ns; /* of its last heartbeat */

    /* command line */
    char follow[RS_COORD_ID_BYTES]; /* capture whose changes it wants */
    bool is_follow_due, is_follow_last;
};

struct chunk_job {
    struct rs_ingest_job base;
    struct session *session; /* NULL: of the gate itself */
    struct stream *stream;
    struct rs_frame *frame;
    bool is_of_hello;
    struct rs_capture_facts *facts; /* CLOSE */
};

struct rs_gate {
    struct rs_loop *loop;
    struct rs_gate_options options;
    struct rs_gate_book book;
    struct rs_ingest *ingest;
    struct rs_coord *coord;
    struct session *sessions;
    size_t session_count;
    size_t gate_job_count; /* CLOSE jobs at ingest */
    bool is_draining;
    rs_ns next_tick;

    pthread_mutex_t mail_lock; /* guards the mailbox: ingest puts, gate takes */
    struct rs_ingest_job *mail, **mail_last_p;
};

/* session.c */
void session_post(struct session *session, const ProtobufCMessage *message);
void session_cancel(struct session *session, const struct rs_coord_capture *capture,
                    const char *reason);
void session_pump(struct session *session);
void session_fail(struct session *session, enum rs_status status, const char *reason);
/* Frees it when its link and its jobs are gone; true: it is gone. */
bool session_reap(struct session *session);
extern const struct rs_link_user collector_user;
extern const struct rs_link_user ask_user;

/* collector.c */
void collector_job_done(struct session *session, struct chunk_job *job);
void collector_post_acks(struct session *session);
void collector_free_streams(struct session *session);

/* ask.c */
void ask_pump(struct session *session);
void ask_capture_changed(struct rs_gate *gate, const char *id, bool is_closed);

/* gate.c */
struct chunk_job *gate_job_new(struct session *session, enum rs_ingest_kind kind);
void gate_job_put(struct rs_gate *gate, struct chunk_job *job);
void gate_tick_soon(struct rs_gate *gate);

#endif
