/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an aggregator's rows of captures are: in each capture's folder (SQLite), or in a ClickHouse. Everybody in it who opens rows opens
 * them here, and does not know which.
 *
 *     no place (NULL)      DIR/rows.db, as row_store.h has it
 *     a ClickHouse         its database; DIR/rows.at says how far that is, and what lacks in the capture
 *
 * rows.at is one word and what belongs to it, so that nobody has to ask the database what it holds:
 *
 *     (none) --begin()--> WRITING --end()--> SO FAR --end(all of a closed one)--> WHOLE
 *                            |  cut off, refused, away: it stays as it is           |
 *     closed, and it never became WHOLE --owe()--> OWED --end(all)--> WHOLE <-------+
 *                                                    ^ rankscope rebuild
 *
 * A database that is away is asked by one at a time, more and more rarely (half a minute at most); all others are told at once that it is
 * away. Any thread; a capture is written by one at a time.
 */
#ifndef RS_STORE_ROW_PLACE_H
#define RS_STORE_ROW_PLACE_H

#include "aggregator/store/clickhouse.h"
#include "common/base/buf.h"

#define RS_ROW_PLACE_FILE "rows.at"

struct rs_row_place;

/* Copies. Asks it once: that it is away, or fails itself, is no failure of this (it may pass), but RS_INVALID, RS_REFUSED, RS_VERSION,
 * RS_NOMEM are. */
RS_MUST_CHECK enum rs_status rs_row_place_open(const struct rs_clickhouse_options *options,
                                               struct rs_row_place **place_p, struct rs_err *err);
void rs_row_place_close(struct rs_row_place **place_p);
/* Its address, without a password: there is none in it. */
const char *rs_row_place_url(const struct rs_row_place *place);
/* 0: it answers, as far as anybody knows. Else when it is asked again (monotonic); *why_p: copied. */
rs_ns rs_row_place_retry_at(struct rs_row_place *place, char *why_p, size_t size);

/* ---- of a capture, by its folder; `place` NULL: the folder itself -------------------------------------------------- */

/* It is not closed, and rows of what was joined so far are there. */
bool rs_row_place_is_joining(const struct rs_row_place *place, const char *dir);
/* All of its rows are there (in a ClickHouse; never without). */
bool rs_row_place_is_whole(const struct rs_row_place *place, const char *dir);
/* Rows are, or may be, in the place. */
bool rs_row_place_has_some(const struct rs_row_place *place, const char *dir);
/* Closed, and its rows are not there, not all, or not as they would be made now. Durable. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_row_place_owe(const struct rs_row_place *place, const char *dir,
                                              struct rs_err *err);
bool rs_row_place_is_owed(const struct rs_row_place *place, const char *dir);
/* What is in the folder says that rows are in some place, whichever: they are to be made again. For who rebuilds a folder. */
void rs_row_place_made_again(const char *dir);

/* For people: "in URL", "so far in URL", "are on their way to URL", "wait for URL: why"; "": none was written there. */
void rs_row_place_say(struct rs_row_place *place, const char *dir, char *text_p, size_t size);

/* What was noted of the capture when its rows became whole. */
struct rs_row_notes {
    char **lines; /* rs_mem_free(), each and the list */
    size_t count, capacity;
    bool is_partial;
};
/* RS_NOTFOUND: it is not whole. */
RS_MUST_CHECK enum rs_status rs_row_place_notes(const struct rs_row_place *place, const char *dir,
                                                struct rs_row_notes *notes, struct rs_err *err);
/* A line more; false: no memory. */
bool rs_row_notes_add(struct rs_row_notes *notes, const char *line);
void rs_row_notes_fini(struct rs_row_notes *notes);
/* "partial" or "complete", then a line each: as text, and back. RS_NOMEM. */
void rs_row_notes_put(const struct rs_row_notes *notes, struct rs_buf *buf);
RS_MUST_CHECK enum rs_status rs_row_notes_take(const char *text, struct rs_row_notes *notes_p,
                                               struct rs_err *err);

/* As rs_row_store_open() to read. RS_UNREACHABLE: it is away. */
RS_MUST_CHECK enum rs_status rs_row_place_read(struct rs_row_place *place, const char *capture,
                                               const char *dir, struct rs_row_store **rows_p,
                                               struct rs_err *err);

/* One join into it. */
struct rs_row_writing {
    struct rs_row_store *rows; /* to write into; lent until rs_row_place_end() */
    struct rs_row_place *place;
    struct rs_clickhouse_known *known;
    char capture[64];
    const char *dir; /* lent until then */
    bool is_away;    /* the place is the reason of a failure, not the capture */
};
/* As rs_row_store_open() to write; in a ClickHouse units count at the end. Pairs with rs_row_place_end(), when it fails, too. */
RS_MUST_CHECK enum rs_status rs_row_place_begin(struct rs_row_place *place, const char *capture,
                                                const char *dir, struct rs_row_writing *writing_p,
                                                struct rs_err *err);
/* Ends it; `status` is of what was done in between, and returned unless this fails. `notes` NULL: rows so far; else all rows of a capture
 * that is closed, and what is noted of it: units that were not written now go. */
RS_MUST_CHECK enum rs_status rs_row_place_end(struct rs_row_writing *writing, enum rs_status status,
                                              const struct rs_row_notes *notes, struct rs_err *err);

/* What is in the place of a capture that is to be removed goes; of one whose rows are in another database nobody is asked. Without a
 * place that is the folder's own affair. RS_UNREACHABLE. */
RS_MUST_CHECK enum rs_status rs_row_place_remove(struct rs_row_place *place, const char *capture,
                                                 const char *dir, struct rs_err *err);

#endif
