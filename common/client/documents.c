/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/documents.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char rs_client_report_name[] = "report";

/* ---- the list ------------------------------------------------------------------------------------------------------ */

/* A path below a folder: no absolute one, no part that begins with ".", nothing that steers a terminal. */
static bool is_good_name(const char *name)
{
    bool is_begin = true;
    for (const char *p = name; *p; p++) {
        if ((unsigned char)*p <= 0x20 || *p == 0x7f || *p == '\\' ||
            (is_begin && (*p == '.' || *p == '/')))
            return false;
        is_begin = *p == '/';
    }
    return !is_begin && strlen(name) < 256;
}

void rs_client_documents_fini(struct rs_client_documents *documents)
{
    for (size_t i = 0; i < documents->count; i++)
        rs_mem_free(documents->items[i].name);
    for (size_t i = 0; i < documents->line_count; i++)
        rs_mem_free(documents->lines[i]);
    rs_mem_free(documents->items);
    rs_mem_free(documents->lines);
    rs_mem_free(documents->shares);
    rs_mem_free(documents->capture);
    *documents = (struct rs_client_documents){0};
}

struct listing {
    struct rs_client_documents *documents;
    enum rs_status status;
    struct rs_err err;
    bool is_there;
};

static enum rs_status take_items(struct rs_client_documents *documents,
                                 const Rankscope__DocumentList *list, struct rs_err *err)
{
    documents->items = rs_mem_calloc(list->n_documents + 1, sizeof *documents->items);
    if (!documents->items)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < list->n_documents; i++) {
        const Rankscope__Document *from = list->documents[i];
        struct rs_client_document *to = &documents->items[documents->count];
        if (!is_good_name(from->name))
            return rs_err_set(err, RS_FORMAT,
                              "the aggregator names a document that is no file name");
        to->name = rs_mem_strdup(from->name);
        to->size = from->size;
        (void)snprintf(to->sha256, sizeof to->sha256, "%s", from->sha256);
        if (!to->name)
            return rs_err_set(err, RS_NOMEM, "out of memory");
        documents->count++;
    }
    return RS_OK;
}

static enum rs_status take_list(struct rs_client_documents *documents,
                                const Rankscope__DocumentList *list, struct rs_err *err)
{
    documents->generation = list->generation;
    documents->is_partial = list->is_partial;
    documents->is_provisional = list->is_provisional;
    documents->lines = rs_mem_calloc(list->n_lines + 1, sizeof(char *));
    documents->shares = rs_mem_calloc(list->n_shares + 1, sizeof *documents->shares);
    if (!documents->lines || !documents->shares)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    for (size_t i = 0; i < list->n_lines; i++) {
        documents->lines[i] = rs_mem_strdup(list->lines[i]);
        if (!documents->lines[i])
            return rs_err_set(err, RS_NOMEM, "out of memory");
        documents->line_count++;
    }
    for (size_t i = 0; i < list->n_shares; i++)
        documents->shares[documents->share_count++] = list->shares[i];
    return take_items(documents, list, err);
}

static bool on_list(void *self, const Rankscope__Reply *reply)
{
    struct listing *listing = self;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_DOCUMENTS && !listing->is_there) {
        listing->is_there = true;
        listing->status = take_list(listing->documents, reply->documents, &listing->err);
    }
    return listing->status == RS_OK;
}

static void fill_options(const struct rs_client_document_options *options,
                         Rankscope__DocumentOptions *message)
{
    rankscope__document_options__init(message);
    message->assume_common_clock = options->assume_common_clock;
    message->deliverables = options->has_deliverables;
    message->report = options->report;
    message->width = options->width;
    message->has_colour = options->has_colour;
    message->has_utf8 = options->has_utf8;
    message->raw = options->is_raw;
}

enum rs_status rs_client_documents_list(const struct rs_address *address, const char *capture,
                                        const struct rs_client_document_options *options,
                                        struct rs_client_documents *documents_p, struct rs_err *err)
{
    struct rs_client_documents documents = {.address = *address, .options = *options};
    struct listing listing = {.documents = &documents};
    Rankscope__DocumentOptions how;
    Rankscope__AskDocuments question = RANKSCOPE__ASK_DOCUMENTS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    documents.capture = rs_mem_strdup(capture);
    if (!documents.capture)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    fill_options(options, &how);
    question.capture = documents.capture;
    question.options = &how;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_DOCUMENTS;
    ask.documents = &question;
    enum rs_status status = rs_client_ask(address, &ask, on_list, &listing, err);
    if (status == RS_OK && listing.status < 0)
        status = rs_err_set(err, listing.status, "%s", listing.err.text);
    if (status == RS_OK && !listing.is_there)
        status = rs_err_set(err, RS_FORMAT, "the aggregator answers without a list of documents");
    if (status < 0)
        rs_client_documents_fini(&documents);
    else
        *documents_p = documents;
    return status;
}

/* ---- one document ----------------------------------------------------------------------------------------------------- */

struct fetching {
    const struct rs_client_document *document;
    struct rs_buf *buf; /* into memory, */
    int fd;             /* or into a file */
    const char *path;
    uint64_t offset;
    enum rs_status status;
    struct rs_err err;
};

static bool on_data(void *self, const Rankscope__Reply *reply)
{
    struct fetching *fetching = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_DATA)
        return true;
    const Rankscope__Data *data = reply->data;
    if (data->offset != fetching->offset ||
        data->bytes.len > fetching->document->size - fetching->offset)
        fetching->status = rs_err_set(&fetching->err, RS_FORMAT, "%s came in pages that do not fit",
                                      fetching->document->name);
    else if (fetching->buf)
        rs_buf_bytes(fetching->buf, data->bytes.data, data->bytes.len);
    else
        fetching->status = rs_file_write_all(fetching->fd, data->bytes.data, data->bytes.len,
                                             fetching->path, &fetching->err);
    if (fetching->buf && fetching->buf->failed)
        fetching->status = rs_err_set(&fetching->err, RS_NOMEM, "out of memory");
    fetching->offset += data->bytes.len;
    return fetching->status == RS_OK;
}

static enum rs_status fetch(const struct rs_client_documents *documents, struct fetching *fetching,
                            struct rs_err *err)
{
    Rankscope__DocumentOptions how;
    Rankscope__AskDocument question = RANKSCOPE__ASK_DOCUMENT__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    fill_options(&documents->options, &how);
    question.capture = documents->capture;
    question.options = &how;
    question.name = fetching->document->name;
    question.generation = documents->generation;
    question.size = fetching->document->size;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_DOCUMENT;
    ask.document = &question;
    enum rs_status status = rs_client_ask(&documents->address, &ask, on_data, fetching, err);
    if (status == RS_OK && fetching->status < 0)
        status = rs_err_set(err, fetching->status, "%s", fetching->err.text);
    if (status == RS_OK && fetching->offset != fetching->document->size)
        status = rs_err_set(err, RS_FORMAT, "%s came shorter than it is", fetching->document->name);
    return status;
}

static enum rs_status check_digest(const struct rs_client_document *document, const char *sha256,
                                   struct rs_err *err)
{
    return !*document->sha256 || strcmp(document->sha256, sha256) == 0
               ? RS_OK
               : rs_err_set(err, RS_FORMAT, "%s came with another SHA-256 than was announced",
                            document->name);
}

enum rs_status rs_client_document_read(const struct rs_client_documents *documents,
                                       const struct rs_client_document *document,
                                       struct rs_buf *buf, struct rs_err *err)
{
    char sha256[RS_SHA256_HEX_BYTES];
    const size_t before = buf->length;
    struct fetching fetching = {.document = document, .buf = buf, .fd = -1};
    enum rs_status status = fetch(documents, &fetching, err);
    if (status == RS_OK &&
        rs_sha256_hex(buf->data ? buf->data + before : NULL, buf->length - before, sha256) < 0)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    return status == RS_OK ? check_digest(document, sha256, err) : status;
}

/* The folder of PATH, as far as it lies below the one that is there. */
static enum rs_status make_folder_of(char *path, struct rs_err *err)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return RS_OK;
    *slash = '\0';
    const enum rs_status status = rs_file_make_dirs(path, RS_FOLDER_MODE, err);
    *slash = '/';
    return status;
}

static enum rs_status save_as(const struct rs_client_documents *documents,
                              const struct rs_client_document *document, const char *path,
                              const char *temporary, struct rs_err *err)
{
    char sha256[RS_SHA256_HEX_BYTES];
    struct fetching fetching = {
        .document = document,
        .path = temporary,
        .fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, RS_FILE_MODE)};
    if (fetching.fd < 0 || fchmod(fetching.fd, RS_FILE_MODE) != 0)
        return rs_err_errno(err, "cannot create %s", temporary);
    enum rs_status status = fetch(documents, &fetching, err);
    if (close(fetching.fd) < 0 && status == RS_OK)
        status = rs_err_errno(err, "cannot write %s", temporary);
    if (status == RS_OK)
        status = rs_sha256_file(temporary, sha256, err);
    if (status == RS_OK)
        status = check_digest(document, sha256, err);
    if (status == RS_OK && rename(temporary, path) < 0)
        status = rs_err_errno(err, "cannot rename %s", temporary);
    if (status < 0)
        (void)unlink(temporary);
    return status;
}

static enum rs_status save_one(const struct rs_client_documents *documents,
                               const struct rs_client_document *document, const char *dir,
                               struct rs_err *err)
{
    struct rs_buf temporary = {0};
    char *path = rs_file_join(dir, document->name);
    if (path)
        rs_buf_printf(&temporary, "%s.tmp-%d", path, (int)getpid());
    enum rs_status status = !path || temporary.failed ? rs_err_set(err, RS_NOMEM, "out of memory")
                                                      : make_folder_of(path, err);
    if (status == RS_OK)
        status = save_as(documents, document, path, rs_buf_text(&temporary), err);
    rs_buf_fini(&temporary);
    rs_mem_free(path);
    return status;
}

static const char manifest_name[] = "manifest.json";

/* An old manifest would vouch for new files. */
static enum rs_status forget_manifest(const char *dir, struct rs_err *err)
{
    char *path = rs_file_join(dir, manifest_name);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "out of memory");
    const enum rs_status status =
        unlink(path) < 0 && errno != ENOENT ? rs_err_errno(err, "cannot replace %s", path) : RS_OK;
    rs_mem_free(path);
    return status;
}

enum rs_status rs_client_documents_save(const struct rs_client_documents *documents,
                                        const char *dir, struct rs_err *err)
{
    const struct rs_client_document *manifest = NULL;
    enum rs_status status = rs_file_make_dirs(dir, RS_FOLDER_MODE, err);
    if (status == RS_OK)
        rs_file_sweep(dir);
    if (status == RS_OK && !documents->options.is_raw)
        status = forget_manifest(dir, err);
    for (size_t i = 0; i < documents->count && status == RS_OK; i++) {
        const struct rs_client_document *item = &documents->items[i];
        if (strcmp(item->name, manifest_name) == 0)
            manifest = item; /* last: it says that all others are there */
        else if (strcmp(item->name, rs_client_report_name) != 0)
            status = save_one(documents, item, dir, err);
    }
    return status == RS_OK && manifest ? save_one(documents, manifest, dir, err) : status;
}

/* ---- all of it ------------------------------------------------------------------------------------------------ */

/* A capture that goes on changes between the list and the documents: then the list is asked for again, a few times. */
enum { TRIES = 4 };

static const struct rs_client_document *find_report(const struct rs_client_documents *documents)
{
    for (size_t i = 0; i < documents->count; i++)
        if (strcmp(documents->items[i].name, rs_client_report_name) == 0)
            return &documents->items[i];
    return NULL;
}

static enum rs_status fetch_all(const struct rs_client_documents *documents, const char *out_dir,
                                struct rs_buf *report, struct rs_err *err)
{
    const struct rs_client_document *document = find_report(documents);
    enum rs_status status = RS_OK;
    if (documents->options.report && !document)
        return rs_err_set(err, RS_FORMAT, "the aggregator made no report");
    rs_buf_reset(report);
    if (document)
        status = rs_client_document_read(documents, document, report, err);
    return status == RS_OK && out_dir ? rs_client_documents_save(documents, out_dir, err) : status;
}

enum rs_status rs_client_documents_fetch(const struct rs_address *address, const char *capture,
                                         const struct rs_client_document_options *how,
                                         struct rs_client_documents *documents_p,
                                         struct rs_buf *report, struct rs_err *err)
{
    enum rs_status status = RS_NOTFOUND;
    for (int i = 0; i < TRIES && status == RS_NOTFOUND; i++) {
        rs_client_documents_fini(documents_p);
        status = rs_client_documents_list(address, capture, how, documents_p, err);
        if (status < 0)
            return status;
        status = fetch_all(documents_p, how->dir, report, err);
    }
    return status;
}
