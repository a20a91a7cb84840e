/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the spool share: its index in memory, its records on disk.
 *
 *   entry      one stream as it was declared; several of one incarnation and lane share its sequence
 *   item       one chunk of an entry that waits, in order of numbers; it points into a segment
 *   folder     the log of one raw entry, of the summary lane, or of an earlier program's spool
 *   segment    one file of a folder, mapped; it goes when no item of it waits
 *
 * Two locks: `write_lock` makes puts one after the other and is held while a record is written;
 * `lock` guards the index and is held for moments. Order: write_lock, then lock.
 */
#ifndef RS_SPOOL_SPOOL_PRIV_H
#define RS_SPOOL_SPOOL_PRIV_H

#include "collector/spool/spool.h"
#include "common/base/buf.h"
#include "common/base/reclog.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECORD_ENTRY = 1, RECORD_CHUNK = 2 };
enum { CHUNK_MAX_BYTES = 1024 * 1024, TEXT_MAX_BYTES = 4096, SEGMENT_MIN_BYTES = 64 * 1024 };
/* Flags of an ENTRY record. Without EXTENDED it is of an earlier program: no lane, first number or time. */
enum { ENTRY_ENDED = 1, ENTRY_KEEPS = 2, ENTRY_EXTENDED = 4, ENTRY_OWNED = 8 };

/* One incarnation's numbers in one lane, shared by its entries. */
struct sequence {
    char *run, *incarnation;
    uint32_t rank;
    enum rs_stream_lane lane;
    rs_seq last;
    unsigned entry_count;
};

struct segment {
    uint32_t number;
    char *path;
    const uint8_t *map; /* the whole file and what it may grow to */
    size_t map_bytes;
    uint64_t length;
    uint64_t waiting_count; /* chunks not acknowledged */
};

/* A log of segments. `log` is guarded by write_lock, the rest by lock. */
struct folder {
    char *dir;
    bool is_raw;              /* of one entry; removed with it */
    struct rs_reclog log;     /* of the newest segment; fd -1: the next put begins a new one */
    struct segment *segments; /* oldest first; the last is written to */
    size_t segment_count, segment_capacity;
    uint32_t last_segment; /* number */
    bool has_lost_segment; /* one could not be read at all */
};

/* A chunk that waits. */
struct item {
    rs_seq seq;
    uint32_t segment; /* number */
    uint32_t payload_offset, payload_length;
    uint32_t skipped_bytes; /* damage before it */
    uint16_t flags;
};

struct entry {
    uint32_t id;
    struct sequence *sequence;
    struct folder *folder;
    char *capture, *capture_key, *host, *origin;
    uint32_t world;
    rs_dur settle_ns;
    rs_ns made_ns; /* realtime */
    int64_t user;  /* 0 not known */
    bool is_ended, keeps_sequence, is_dropped, is_held, is_evicted;
    rs_seq first_seq, end_seq;
    rs_seq acked_seq; /* items up to here are gone */
    rs_seq
        stored_seq; /* durable elsewhere up to here; items between the two are kept. Not written down: it is told again */
    uint64_t put_count;
    struct rs_loss loss; /* to be told before the next chunk */
    struct item *items;  /* items[item_head .. item_count) wait */
    size_t item_head, item_count, item_capacity;
};

struct rs_spool {
    char *dir;
    char id[33];
    int lock_fd;
    struct rs_spool_options options;
    void (*on_put)(void *self);
    void *on_put_self;

    pthread_mutex_t write_lock;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_room;
    struct sequence **sequences;
    size_t sequence_count, sequence_capacity;
    struct entry **entries; /* by id */
    size_t entry_count, entry_capacity;
    uint32_t next_entry;
    struct folder *summary;
    struct folder *earlier; /* of an earlier program; NULL: none */
    uint32_t *lost;         /* ids of entries that were dropped or evicted */
    size_t lost_count, lost_capacity;
    struct rs_spool_stats stats;
};

/* ---- index.c: what waits, of whom. Callers hold `lock`. ---------------------------------------------- */

/* NULL: there is none. */
struct entry *spool_find_entry(const struct rs_spool *spool, uint32_t id);
/* Adds an entry under this id; copies the texts. NULL: no memory. */
struct entry *spool_add_entry(struct rs_spool *spool, uint32_t id,
                              const struct rs_spool_source *source);
/* Takes it out of the index and frees it; its folder is the caller's business. */
void spool_remove_entry(struct rs_spool *spool, struct entry *entry);
void spool_free_all(struct rs_spool *spool);
/* Entries of which nothing will be asked any more go, with their folders. */
void spool_retire_entries(struct rs_spool *spool);
/* RS_NOMEM. */
enum rs_status spool_add_item(struct rs_spool *spool, struct entry *entry, const struct item *item);
/* Chunks up to `seq` need not wait any more; how many bytes they had. */
uint64_t spool_settle(struct rs_spool *spool, struct entry *entry, rs_seq seq);
/* Those from `seq` on. */
void spool_unput(struct rs_spool *spool, struct entry *entry, rs_seq seq);

/* ---- segments.c: the files --------------------------------------------------------------------------- */

enum rs_status spool_append_entry(struct rs_reclog *log, const struct entry *entry,
                                  struct rs_err *err);
/* The next text of an entry record, kept in `texts`; "" with view->failed when it is too long. */
const char *spool_take_text(struct rs_view *view, struct rs_buf *texts);
/* `name` within the spool, "" the spool itself; makes the directory. NULL: err says why. */
struct folder *spool_folder_new(struct rs_spool *spool, const char *name, struct rs_err *err);
/* Of a raw entry. */
struct folder *spool_raw_folder_new(struct rs_spool *spool, uint32_t entry, struct rs_err *err);
void spool_folder_free(struct folder **folder_p);
/* Unlinks its segments, and, of a raw entry, the directory; frees it. */
void spool_folder_remove(struct rs_spool *spool, struct folder **folder_p);
/* rs_mem_free(); NULL: no memory. */
char *spool_segment_path(const struct folder *folder, uint32_t number);
/* On RS_OK the segment owns `path`. */
enum rs_status spool_map_segment(struct rs_spool *spool, struct folder *folder, uint32_t number,
                                 char *path, uint64_t length, struct rs_err *err);
struct segment *spool_find_segment(const struct folder *folder, uint32_t number);
/* Old segments whose chunks are all acknowledged go; the newest stays. */
void spool_free_segments(struct rs_spool *spool, struct folder *folder);
/* Begins a new segment with all entries of the folder in it. Holds write_lock and lock. */
enum rs_status spool_begin_segment(struct rs_spool *spool, struct folder *folder,
                                   struct rs_err *err);

/* ---- recover.c --------------------------------------------------------------------------------------- */

/* Reads what is in the directory, and begins the summary lane. RS_IO, RS_NOMEM. Damage is moved aside and told, not
 * answered. */
enum rs_status spool_recover(struct rs_spool *spool, struct rs_err *err);

#endif
