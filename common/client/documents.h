/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents of a capture, fetched from the aggregator that holds it: the asker needs no right on its disk.
 *
 *     rs_client_documents_list()  --AskDocuments--> names, sizes, SHA-256; what is missing
 *     rs_client_documents_save()  --AskDocument each--> DIR/NAME, whole and with the right digest, or not at all
 *     rs_client_document_read()   the same into memory
 *
 * A name that would lead out of DIR is refused: the other side is not trusted with paths.
 */
#ifndef RS_CLIENT_DOCUMENTS_H
#define RS_CLIENT_DOCUMENTS_H

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/wire/link.h"

struct rs_client_document_options {
    bool assume_common_clock;
    bool has_deliverables; /* all of them */
    bool is_raw;           /* the capture's own files */
    uint32_t report;       /* 0 none, 1 text, 2 JSON: the document rs_client_report_name */
    unsigned width;        /* of the text */
    bool has_colour, has_utf8;
    const char
        *dir; /* of rs_client_documents_fetch(): where all but the report goes; NULL: nowhere */
};

extern const char rs_client_report_name[];

struct rs_client_document {
    char *name;
    uint64_t size;
    char sha256[RS_SHA256_HEX_BYTES]; /* "": not known beforehand */
};

struct rs_client_documents {
    struct rs_address address;
    char *capture;
    struct rs_client_document_options options;
    uint64_t generation;
    struct rs_client_document *items;
    size_t count;
    char **lines; /* what is missing, for the user */
    size_t line_count;
    double *shares; /* of a step, per finding */
    size_t share_count;
    bool is_partial, is_provisional;
};

/* Asks until the aggregator has made them. RS_UNREACHABLE, RS_NOTFOUND: it knows no such capture, RS_VERSION: it is too old to
 * make documents; RS_CANCELLED: Ctrl-C. On RS_OK the list is the caller's. */
RS_MUST_CHECK enum rs_status
rs_client_documents_list(const struct rs_address *address, const char *capture,
                         const struct rs_client_document_options *options,
                         struct rs_client_documents *documents_p, struct rs_err *err);
void rs_client_documents_fini(struct rs_client_documents *documents); /* zeroed is allowed */

/* Appends one document. RS_NOTFOUND: it is not kept any more, list again. RS_FORMAT: its digest is another. */
RS_MUST_CHECK enum rs_status rs_client_document_read(const struct rs_client_documents *documents,
                                                     const struct rs_client_document *document,
                                                     struct rs_buf *buf, struct rs_err *err);
/* Writes all but the report into `dir`, which is created. What was written before a failure stays. */
RS_MUST_CHECK enum rs_status rs_client_documents_save(const struct rs_client_documents *documents,
                                                      const char *dir, struct rs_err *err);

/* Lists and fetches: the report appended to `report`, all else into options->dir. The list is the caller's, also on failure. As the above; RS_FORMAT, too: a report was wanted and none is there. */
RS_MUST_CHECK enum rs_status
rs_client_documents_fetch(const struct rs_address *address, const char *capture,
                          const struct rs_client_document_options *options,
                          struct rs_client_documents *documents_p, struct rs_buf *report,
                          struct rs_err *err);

#endif
