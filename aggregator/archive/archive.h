/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures in object storage.
 *
 *     captures/ID/   here                                    PREFIX/ID/   there
 *     --upload-->    all of its files but derived ones, archive.json last: with it, it is whole
 *     --let go-->    `archived.json` (what is there), `archive` (where); segments and summaries go from here
 *     <--fetch--     what somebody asks for, each file held against its SHA-256 before it has its name
 *     <--restore--   all; then it is a capture like any other again; what is there stays there, and goes when it is removed
 *
 * Each of these may be cut off anywhere and asked for again: what is there is not sent twice, nothing goes from here before all
 * of it is there. Files of a closed capture do not change; who calls sees to it that only one of these runs for a capture.
 *
 * Any thread; each call may take as long as a network does.
 */
#ifndef RS_ARCHIVE_H
#define RS_ARCHIVE_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rs_archive;

/* In a capture's folder: where it is archived, one line (it is not whole here as long as this file is here), and what is there. */
#define RS_ARCHIVE_PLACE_NAME "archive"
#define RS_ARCHIVE_LIST_NAME  "archived.json"

struct rs_archive_options {
    const char *url;      /* s3://BUCKET or s3://BUCKET/PREFIX */
    const char *endpoint; /* NULL: AWS's of the region */
    const char *region;   /* NULL: us-east-1 */
    const char *
        credentials; /* file: two lines, key id and secret, maybe a third, session token; NULL: AWS_ACCESS_KEY_ID, ... */
    const char *ca_file; /* NULL: the system's */
    rs_dur retry_ns;     /* before the second try; 0: 500 ms */
};

/* Copies. Asks nobody yet. With url NULL *archive_p is NULL. RS_INVALID, RS_REFUSED (plain http beyond loopback, or a file of
 * credentials that others may read), RS_NOTFOUND, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_archive_open(const struct rs_archive_options *options,
                                             struct rs_archive **archive_p, struct rs_err *err);
/* Ends what is under way with RS_CANCELLED, and whatever is begun later. Of NULL is allowed. */
void rs_archive_stop(struct rs_archive *archive);
/* Nothing may be under way. Of NULL is allowed. */
void rs_archive_close(struct rs_archive **archive_p);
/* "s3://BUCKET/PREFIX", without a slash at its end. */
const char *rs_archive_url(const struct rs_archive *archive);

/* How far it is. Called on the caller's thread. */
struct rs_archive_progress {
    void (*moved)(void *self, uint64_t done_bytes, uint64_t all_bytes);
    void *self;
};

/* The capture's folder to the archive. RS_INVALID: a file whose name cannot be a key. Else as aggregator/archive/s3.h. */
RS_MUST_CHECK enum rs_status rs_archive_upload(struct rs_archive *archive, const char *id,
                                               const char *dir,
                                               const struct rs_archive_progress *progress,
                                               struct rs_err *err);
/* After an upload: the lanes go from here. RS_IO. */
RS_MUST_CHECK enum rs_status rs_archive_let_go(const struct rs_archive *archive, const char *id,
                                               const char *dir, struct rs_err *err);

/* What lacks here comes back; RS_OK also when nothing does, or the capture is not archived. `archive` NULL: only looks. RS_FORMAT: what
 * came is not what was sent, or archived.json is damaged. RS_REFUSED: something lacks, and there is no archive. */
RS_MUST_CHECK enum rs_status rs_archive_fetch(struct rs_archive *archive, const char *id,
                                              const char *dir,
                                              const struct rs_archive_progress *progress,
                                              struct rs_err *err);
/* All of it comes back, and the folder is whole again. A folder that is not there is made: `dir` appears whole. RS_NOTFOUND:
 * neither here nor there. */
RS_MUST_CHECK enum rs_status rs_archive_restore(struct rs_archive *archive, const char *id,
                                                const char *dir,
                                                const struct rs_archive_progress *progress,
                                                struct rs_err *err);
/* Removes what is there of the capture, its list first. RS_OK also when there was nothing. */
RS_MUST_CHECK enum rs_status rs_archive_remove(struct rs_archive *archive, const char *id,
                                               struct rs_err *err);

#endif
