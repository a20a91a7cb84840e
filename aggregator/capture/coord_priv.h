/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of the coordinator.
 *
 *   coordinator.c  life, messages, streams, stop     seen.c      every rank that was told of
 *   start.c        from a request to a capture      members.c   a capture's ranks, closing it
 *   commit.c       the start, messages per collector deadline.c  what time moves; the queue
 *   plan.c         when askers begin together       owners.c    whose the runs are
 *   recall.c       a start that somebody missed
 *
 * Nothing here looks at all ranks for each rank: tables are found by hash (seen.c) or in order (members.c).
 */
#ifndef RS_CAPTURE_COORD_PRIV_H
#define RS_CAPTURE_COORD_PRIV_H

#include "aggregator/capture/coordinator.h"
#include "common/request/roles.h"

struct seen_table {
    struct rs_coord_seen *items;
    size_t count, capacity;
    uint32_t *slots; /* index + 1 by hash of run and rank, open addressing; 0 free */
    size_t slot_count;
    uint32_t generation; /* of the places of items, from 1: others since some have left */
};

/* Whose the runs are; by name, ascending (owners.c). */
struct owner_table {
    struct owner {
        char run[RS_COORD_TEXT_BYTES], user[RS_COORD_USER_BYTES];
        bool is_known; /* a rank of it is in the table of ranks: of a sweep */
    } * *items;
    size_t count, capacity;
};

struct rs_coord {
    struct rs_coord_options options;
    char *roles;            /* text; owned; NULL none */
    struct rs_roles parsed; /* of it, for a world of parsed_world ranks */
    bool is_parsed;
    uint32_t parsed_world;
    struct seen_table seen;
    struct seen_link {
        const void *link;
        rs_ns last_seen_ns;  /* monotonic: its last heartbeat, whatever ranks that named */
        rs_ns first_seen_ns; /* monotonic: its first heartbeat */
        rs_dur next_ns;      /* until the next, as it said; 0: it did not */
        rs_dur late_ns;      /* how much later than it should one came lately, at most */
        rs_ns late_at;       /* monotonic: when that was */
        rs_ns resumed_at;    /* monotonic: its first heartbeat after a silence; 0: never */
    } * links;
    size_t link_count, link_capacity;
    struct owner_table owners;
    rs_ns seen_swept_at;
    rs_ns ticked_at;  /* 0: never */
    rs_ns resumed_at; /* this process had stood still until then; 0: never */
    struct rs_coord_capture **captures;
    size_t capture_count, capture_capacity;
};

/* ---- seen.c ------------------------------------------------------------------------------------------- */

bool seen_is_live(const struct rs_coord_seen *seen);
/* `incarnation` NULL: any. NULL: there is none. */
struct rs_coord_seen *seen_find(const struct rs_coord *coord, const char *run, uint32_t rank,
                                const char *incarnation);
/* Of a member of a capture: every tick asks for all of them, so where it stood last is kept with the member. */
struct rs_coord_seen *seen_of(const struct rs_coord *coord, const struct rs_coord_capture *capture,
                              struct rs_coord_rank *rank);
/* The newest live incarnation of a rank. */
struct rs_coord_seen *seen_find_live(const struct rs_coord *coord, const char *run, uint32_t rank);
/* When its collector was heard last, of this rank or of others; without a link, of this rank. */
rs_ns seen_link_at(const struct rs_coord *coord, const struct rs_coord_seen *seen);
/* When its collector was there again last: over a new link, or over the same after a silence, with all that it had to send until then
 * still behind; 0: never. */
rs_ns seen_back_at(const struct rs_coord *coord, const struct rs_coord_seen *seen);
/* How late a heartbeat of its node came lately, at most: so late a message to it may come. 0: on time, or not known. */
rs_dur seen_lateness(const struct rs_coord *coord, const struct rs_coord_seen *seen, rs_ns now);
/* Its link broke in silence: it may come back with all that it has. */
bool seen_is_unreachable(const struct rs_coord *coord, const struct rs_coord_seen *seen);
/* Ranks that nobody has told of for long leave the table. */
void seen_sweep(struct rs_coord *coord, rs_ns now);
/* Runs with live ranks, as "a, b"; how many. `user`: of that one; "" of all. */
size_t seen_name_runs(const struct rs_coord *coord, const char *user, char *text, size_t bytes);
/* The coordinator's file of roles for a world of that size; NULL: there is none. */
const struct rs_roles *seen_roles(struct rs_coord *coord, uint32_t world);
void seen_fini(struct seen_table *table);
/* Numbers of a collector's message, brought to where sums and products of them fit: a step (-1 unknown), a length of up
 * to an hour, an instant of up to `latest`. */
int64_t reported_step(int64_t step);
rs_dur reported_length(rs_dur length);
rs_ns reported_instant(rs_ns instant, rs_ns latest);

static inline bool adapter_can(const struct rs_adapter *adapter, enum rs_capability capability)
{
    return (adapter->capabilities & capability) != 0;
}

/* ---- owners.c ------------------------------------------------------------------------------------------ */

/* The run is that user's from now on. RS_EXISTS: it is another one's. RS_NOMEM. */
RS_MUST_CHECK enum rs_status owner_claim(struct rs_coord *coord, const char *run, const char *user);
/* Runs without a rank in the table are nobody's. */
void owners_sweep(struct rs_coord *coord);
void owners_fini(struct owner_table *table);

/* ---- members.c ----------------------------------------------------------------------------------------- */

struct rs_coord_rank *member_find(const struct rs_coord_capture *capture, uint32_t rank,
                                  const char *incarnation);
/* The incarnation of a rank that is not done; NULL: there is none. A rank whose process was started again while the
 * capture waited is in it twice. */
struct rs_coord_rank *member_find_open(const struct rs_coord_capture *capture, uint32_t rank);
RS_MUST_CHECK enum rs_status member_add(struct rs_coord_capture *capture,
                                        const struct rs_coord_rank *rank, rs_ns now,
                                        struct rs_coord_rank **rank_p);
void member_move(struct rs_coord_capture *capture, struct rs_coord_rank *rank,
                 enum rs_progress_state state, const char *text, rs_ns now);
/* Says since when a rank is unreachable, and until when it is waited for; or that it is there again. true: that is news. */
bool member_is_unreachable(const struct rs_coord_rank *rank);
bool member_set_unreachable(struct rs_coord_capture *capture, struct rs_coord_rank *rank,
                            bool is_unreachable, rs_ns since_realtime, rs_ns until_realtime);
/* Ranks that are final. */
size_t members_final(const struct rs_coord_capture *capture);
/* Rank numbers, each once. */
size_t members_distinct(const struct rs_coord_capture *capture);
/* A rank of that adapter takes part. */
void capture_add_adapter(struct rs_coord_capture *capture, const struct rs_adapter *adapter);
struct rs_coord_capture *capture_new(void);
void capture_free(struct rs_coord_capture *capture);
RS_MUST_CHECK enum rs_status capture_add(struct rs_coord *coord, struct rs_coord_capture *capture);
/* What is durable is judged by what it holds. A collector that reads files judges them itself, where it cannot say how many steps
 * there were (0). */
bool member_lacks_steps(const struct rs_coord_capture *capture, const struct rs_coord_rank *rank);
/* Writes it down when something changed. */
void capture_save(struct rs_coord *coord, struct rs_coord_capture *capture);
void capture_close(struct rs_coord *coord, struct rs_coord_capture *capture);
/* Its reason says of whom it is known already, when findings are, that he recorded less than was asked, or another time than the
 * others, as far as windows are known; "" of nobody. */
void capture_see_short(const struct rs_coord *coord, struct rs_coord_capture *capture);

/* ---- raw_policy.c --------------------------------------------------------------------------------------- */

/* `text` as the command line has it (NULL, "": all), put as a list of those of `rows` that it chooses. RS_INVALID, RS_LIMIT,
 * RS_NOMEM. */
RS_MUST_CHECK enum rs_status raw_policy_set(struct rs_coord_capture *capture, const char *text,
                                            const struct rs_rank_row *rows, size_t count,
                                            struct rs_err *err);

/* ---- start.c -------------------------------------------------------------------------------------------- */

/* True: the rank is in an open capture other than `but` and not done with it. */
bool rank_is_busy(const struct rs_coord *coord, const char *run, uint32_t rank,
                  const struct rs_coord_capture *but);
/* What waits in the run, or NULL. */
struct rs_coord_capture *queue_find(const struct rs_coord *coord, const char *run);
/* Its ranks are free: PREPARE goes out, or it is closed because nobody can. */
void queue_start(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);

/* ---- commit.c ------------------------------------------------------------------------------------------- */

/* Calls `send` for each collector and adapter of the ranks in `state`. Without memory nobody is written to, and their
 * silence is told at the deadline. */
void messages_send(struct rs_coord *coord, struct rs_coord_capture *capture,
                   enum rs_progress_state state, rs_coord_message_fn *send);
/* Once for each collector with a rank whose state is one of the set `states` (1 << state). */
void messages_cancel(struct rs_coord *coord, struct rs_coord_capture *capture, uint32_t states,
                     const char *reason);
/* To all of its ranks, those included whose collectors are at another aggregator by now. */
void messages_cancel_all(struct rs_coord *coord, struct rs_coord_capture *capture,
                         const char *reason);
/* Fixes the start and arms. */
void capture_commit(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);

/* ---- recall.c ------------------------------------------------------------------------------------------- */

/* Takes a start back that somebody did not hear of (the capture is ARMING then); when to call again, RS_NS_MAX: need not. */
rs_ns tick_start(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);

/* ---- deadline.c ----------------------------------------------------------------------------------------- */

/* Each moves one capture on and says when to be called again. */
rs_ns tick_arming(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);
rs_ns tick_recording(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);
rs_ns tick_collecting(struct rs_coord *coord, struct rs_coord_capture *capture, rs_ns now);
/* Drops what waits: closed as failed, with the reason. */
void queue_drop(struct rs_coord *coord, struct rs_coord_capture *capture, const char *why,
                rs_ns now);

#endif
