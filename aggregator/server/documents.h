/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents of captures, made where the data lies and kept for the next who asks.
 *
 *     rs_documents_make()  on a join thread: capture's folder --deliver--> DATA/documents/N/ (files, sizes, SHA-256)
 *                          or, of a closed one that is whole, from its rows, where the report alone is wanted
 *     rs_documents_find()  any thread: the set that a list named, while it is kept
 *
 * A capture that is closed is joined once: its set has rows, deliverables and a report, whichever was asked for.
 *
 * A set belongs to (capture, options, generation); the generation is a hash of the names, sizes and times of the capture's
 * files (but its derived rows), so a capture that goes on has a new one with every chunk. Sets over the limit of bytes go, least recently used
 * first, but none that is pinned. The folder is emptied on opening: everything in it can be made again.
 */
#ifndef RS_SERVER_DOCUMENTS_H
#define RS_SERVER_DOCUMENTS_H

#include "aggregator/deliver/deliver.h"
#include "aggregator/store/row_place.h"
#include "aggregator/store/store.h"
#include "common/base/digest.h"

struct rs_documents;

struct rs_document_options {
    bool assume_common_clock;
    bool has_deliverables;
    bool is_raw; /* the capture's own files: listed, not copied */
    bool
        has_rows; /* a row store in the set's folder, which is no document: for tables (ask_table.c) */
    enum rs_deliver_report report;
    struct rs_output_style style;
};

struct rs_document {
    char *name; /* below the set's folder */
    uint64_t size;
    char sha256[RS_SHA256_HEX_BYTES]; /* "" for raw files */
};

/* Lent while it is pinned; nothing of it changes then. `options` are what it was made with: all that was wanted, and maybe more. */
struct rs_document_set {
    struct rs_document_set *next;
    char capture[RS_STORE_ID_BYTES];
    struct rs_document_options options;
    uint64_t generation;
    char *dir;
    struct rs_document *items;
    size_t count, capacity;
    char **lines; /* what is missing, for the user */
    size_t line_count, line_capacity;
    double *shares;
    size_t share_count;
    bool is_partial, is_provisional, has_failed;
    uint64_t bytes;
    uint64_t used_at; /* a counter; guarded by the lock, as `pins` */
    unsigned pin_count;
};

/* Empties and creates `dir`. limit_bytes 0: 2 GiB. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_documents_open(const char *dir, uint64_t limit_bytes,
                                               struct rs_documents **documents_p,
                                               struct rs_err *err);
/* Tables are read elsewhere: sets have rows only where they are asked for. Before the first set. */
void rs_documents_have_rows_elsewhere(struct rs_documents *documents);
/* No set may be pinned. Of NULL is allowed. */
void rs_documents_close(struct rs_documents **documents_p);

/* Makes the set, or finds it made, and pins it. `live`: what is known of a capture that goes on; NULL: closed. One call per
 * capture at a time. RS_NOTFOUND: there is no such capture, or no
 * rank of it can be read. */
RS_MUST_CHECK enum rs_status rs_documents_make(struct rs_documents *documents, const char *capture,
                                               const char *capture_dir,
                                               const struct rs_document_options *options,
                                               const struct rs_deliver_live *live,
                                               struct rs_document_set **set_p, struct rs_err *err);
/* The same of a capture whose folder is not here, from its rows: a set with the report alone. `rows`: open for reading, of this thread, lent;
 * `version`: changes when the rows do; `notes`: what its owner noted of them, lines of the set. As rs_deliver_report_of_rows(). */
struct rs_document_rows {
    struct rs_row_store *rows;
    int64_t version;
    const struct rs_row_notes *notes;
};
RS_MUST_CHECK enum rs_status rs_documents_make_of_rows(
    struct rs_documents *documents, const char *capture, const struct rs_document_rows *from,
    const struct rs_document_options *options, struct rs_document_set **set_p, struct rs_err *err);
/* Pins the set; NULL: it is not kept (any more). Any thread. */
struct rs_document_set *rs_documents_find(struct rs_documents *documents, const char *capture,
                                          const struct rs_document_options *options,
                                          uint64_t generation);
/* Any thread; of NULL is allowed. */
void rs_documents_unpin(struct rs_documents *documents, struct rs_document_set *set);

/* Whether a set's document of that name is of what is wanted: a set may hold more. */
bool rs_document_is_wanted(const struct rs_document_options *want, const char *name);

/* Whether `name` may be a document's: parts of letters, digits, ".", "_", "-" and "+", none beginning with ".", at most four. */
bool rs_document_name_is_good(const char *name);

#endif
