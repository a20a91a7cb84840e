/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents over a link. Two questions, each on a link of its own:
 *
 *     AskDocuments --> join pool: rs_documents_make(), of the capture's folder, or rs_documents_make_of_rows(), where another
 *                                 aggregator has that and is gone --> DocumentList (generation, names, sizes, SHA-256), last
 *     AskDocument  --> the pinned set of that generation --> read pool: a page --> Data --> sent? the next page --> ... last
 *
 * The thread of the links only passes on what the pools made: one page is under way at a time, and the next is read when the
 * link has taken the last, so a slow reader holds one page of memory. A set that is no longer kept is RS_NOTFOUND: the client
 * asks for the list again.
 */
#include "aggregator/server/documents.h"
#include "aggregator/server/live.h"
#include "aggregator/server/server_priv.h"
#include "aggregator/store/row_place.h"
#include "common/base/file.h"
#include "common/base/lend.h"
#include "common/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = (1 << 20) - 1024 }; /* a message of at most 1 MiB */

struct transfer {
    struct rs_document_set *set; /* pinned */
    char *path;
    uint64_t offset, size;
    bool is_reading;
};

struct document_job {
    struct pool_job base;
    struct rs_err err;
    enum rs_status status;
    /* a list */
    char capture[RS_STORE_ID_BYTES];
    char *capture_dir;
    struct rs_document_options options;
    struct live *live; /* NULL: closed */
    bool is_elsewhere; /* its rows alone can be read from here; these three of it: */
    int64_t version;
    struct rs_row_notes notes;
    struct rs_document_set *set; /* pinned */
    /* a page */
    char *path;
    uint64_t offset;
    size_t length;
    uint8_t *bytes;
};

static void free_job(struct document_job *job)
{
    live_free(&job->live);
    rs_row_notes_fini(&job->notes);
    rs_mem_free(job->capture_dir);
    rs_mem_free(job->path);
    rs_mem_free(job->bytes);
    rs_mem_free(job);
}

static struct document_job *job_of(struct pool_job *base)
{
    return (struct document_job *)base; /* its first member */
}

static void refuse(struct session *session, enum rs_status status, const char *text)
{
    struct rs_err err = {0};
    (void)rs_err_set(&err, status, "%s", text);
    ask_refuse(session, &err);
}

static enum rs_status options_of(const Rankscope__DocumentOptions *message,
                                 struct rs_document_options *options, struct rs_err *err)
{
    *options = (struct rs_document_options){.style = {.width = 96}};
    if (!message)
        return RS_OK;
    if (message->report > RS_DELIVER_JSON)
        return rs_err_set(err, RS_INVALID, "there is no report of kind %u", message->report);
    options->assume_common_clock = message->assume_common_clock;
    options->has_deliverables = message->deliverables;
    options->is_raw = message->raw;
    options->report = (enum rs_deliver_report)message->report;
    if (message->width)
        options->style.width = message->width < 60    ? 60
                               : message->width > 100 ? 100
                                                      : message->width;
    options->style.has_colour = message->has_colour;
    options->style.has_utf8 = message->has_utf8;
    return RS_OK;
}

/* ---- the list ----------------------------------------------------------------------------------------------------- */

static enum rs_status make_of_rows(struct document_job *job)
{
    struct rs_server *server = job->base.server;
    struct rs_row_store *rows = NULL;
    enum rs_status status =
        rs_row_place_read(server->options.rows, job->capture, job->capture_dir, &rows, &job->err);
    const struct rs_document_rows from = {
        .rows = rows, .version = job->version, .notes = &job->notes};
    if (status == RS_OK)
        status = rs_documents_make_of_rows(server->documents, job->capture, &from, &job->options,
                                           &job->set, &job->err);
    rs_row_store_close(&rows);
    return status;
}

static void make_list(struct rs_pool_job *pool_job)
{
    struct document_job *job = (struct document_job *)pool_job;
    if (job->is_elsewhere) {
        job->status = make_of_rows(job);
        return;
    }
    job->status = archiving_check(&job->base, job->capture, job->capture_dir, &job->err);
    if (job->status == RS_OK)
        job->status =
            rs_documents_make(job->base.server->documents, job->capture, job->capture_dir,
                              &job->options, live_facts_of(job->live), &job->set, &job->err);
}

static void reply_list(struct session *session, const struct rs_document_options *want,
                       const struct rs_document_set *set)
{
    size_t count = 0;
    Rankscope__DocumentList list = RANKSCOPE__DOCUMENT_LIST__INIT;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    Rankscope__Document *items = rs_mem_calloc(set->count + 1, sizeof *items);
    Rankscope__Document **pointers = rs_mem_calloc(set->count + 1, sizeof(Rankscope__Document *));
    if (!items || !pointers) {
        rs_mem_free(items);
        rs_mem_free(pointers);
        refuse(session, RS_NOMEM, "out of memory");
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        if (!rs_document_is_wanted(want, set->items[i].name))
            continue;
        rankscope__document__init(&items[count]);
        items[count].name = set->items[i].name;
        items[count].size = set->items[i].size;
        items[count].sha256 = rs_lend(set->items[i].sha256);
        pointers[count] = &items[count];
        count++;
    }
    list.generation = set->generation;
    list.documents = pointers;
    list.n_documents = count;
    list.is_partial = set->is_partial;
    list.is_provisional = set->is_provisional;
    list.lines = set->lines;
    list.n_lines = set->line_count;
    list.shares = set->shares;
    list.n_shares = set->share_count;
    reply.last = true;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_DOCUMENTS;
    reply.documents = &list;
    session->is_ended = true;
    session_post(session, &reply.base);
    rs_mem_free(items);
    rs_mem_free(pointers);
}

static void list_made(struct pool_job *base)
{
    struct document_job *job = job_of(base);
    struct session *session = base->session;
    if (job->base.base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    if (session->link && job->status == RS_OK)
        reply_list(session, &job->options, job->set);
    else if (session->link)
        ask_refuse(session, &job->err);
    rs_documents_unpin(session->server->documents, job->set);
    free_job(job);
}

static enum rs_status take_other(struct document_job *job, const struct rs_fleet_capture *other)
{
    job->is_elsewhere = true;
    job->version = other->version;
    return rs_row_notes_take(other->notes, &job->notes, &job->err);
}

void ask_documents(struct session *session, const Rankscope__AskDocuments *ask,
                   const struct rs_fleet_capture *other)
{
    struct rs_server *server = session->server;
    struct document_job *job = rs_mem_calloc(1, sizeof *job);
    if (!job) {
        refuse(session, RS_NOMEM, "out of memory");
        return;
    }
    enum rs_status status = options_of(ask->options, &job->options, &job->err);
    if (status == RS_OK && !server->documents)
        status = rs_err_set(&job->err, RS_REFUSED, "this aggregator makes no documents");
    if (status == RS_OK && !rs_wire_is_capture_id(ask->capture))
        status = rs_err_set(&job->err, RS_INVALID, "that is no name of a capture");
    if (status == RS_OK) {
        (void)snprintf(job->capture, sizeof job->capture, "%s", ask->capture);
        job->capture_dir = rs_store_capture_dir(server->options.store, ask->capture);
        if (!job->capture_dir || live_of(server, ask->capture, &job->live) < 0)
            status = rs_err_set(&job->err, RS_NOMEM, "out of memory");
    }
    if (status == RS_OK && other)
        status = take_other(job, other);
    job->base.finish = list_made;
    job->base.base.run = make_list;
    (void)snprintf(job->base.base.key, sizeof job->base.base.key, "%s", job->capture);
    if (status == RS_OK &&
        (other ? server_pool_put(session, server->join_pool, &job->base)
               : archiving_put_join(session, &job->base, job->capture, job->capture_dir)) < 0)
        status = rs_err_set(&job->err, RS_LIMIT,
                            "too many wait for documents of this aggregator: try again");
    if (status < 0) {
        ask_refuse(session, &job->err);
        free_job(job);
    }
}

/* ---- a document ---------------------------------------------------------------------------------------------------- */

/* Pages are read at their offset: an open capture's files grow behind what was listed. */
static void read_page(struct rs_pool_job *pool_job)
{
    struct document_job *job = (struct document_job *)pool_job;
    job->bytes = rs_mem_calloc(job->length + 1, 1);
    const int fd = open(job->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    job->status = RS_OK;
    if (!job->bytes)
        job->status = rs_err_set(&job->err, RS_NOMEM, "out of memory");
    else if (fd < 0)
        job->status = rs_err_errno(&job->err, "a document cannot be opened");
    for (size_t done = 0; job->status == RS_OK && done < job->length;) {
        const ssize_t got =
            pread(fd, job->bytes + done, job->length - done, (off_t)(job->offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            job->status = rs_err_errno(&job->err, "a document cannot be read");
        else if (got == 0)
            job->status = rs_err_set(&job->err, RS_IO, "a document is shorter than it was");
        else
            done += (size_t)got;
    }
    if (fd >= 0)
        (void)close(fd);
}

static void page_read(struct pool_job *base)
{
    struct document_job *job = job_of(base);
    struct session *session = base->session;
    struct transfer *transfer = session->transfer;
    if (job->base.base.was_dropped)
        job->status = rs_err_set(&job->err, RS_UNREACHABLE, "the aggregator stops");
    transfer->is_reading = false;
    if (session->link && job->status < 0) {
        ask_refuse(session, &job->err);
    } else if (session->link) {
        Rankscope__Data data = RANKSCOPE__DATA__INIT;
        Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
        data.offset = job->offset;
        data.bytes.data = job->bytes;
        data.bytes.len = job->length;
        transfer->offset += job->length;
        reply.last = transfer->offset >= transfer->size;
        reply.message_case = RANKSCOPE__REPLY__MESSAGE_DATA;
        reply.data = &data;
        session->is_ended = reply.last;
        session_post(session, &reply.base);
        ask_document_pump(session);
    }
    free_job(job);
}

void ask_document_pump(struct session *session)
{
    struct transfer *transfer = session->transfer;
    if (!transfer || transfer->is_reading || session->outbox || !session->link ||
        session->is_ended || session->is_failed)
        return;
    struct document_job *job = rs_mem_calloc(1, sizeof *job);
    char *path = rs_mem_strdup(transfer->path);
    if (!job || !path) {
        rs_mem_free(job);
        rs_mem_free(path);
        refuse(session, RS_NOMEM, "out of memory");
        return;
    }
    const uint64_t left = transfer->size - transfer->offset;
    job->path = path;
    job->offset = transfer->offset;
    job->length = left < PAGE_BYTES ? (size_t)left : PAGE_BYTES;
    job->base.finish = page_read;
    job->base.base.run = read_page;
    transfer->is_reading = true;
    if (server_pool_put(session, session->server->read_pool, &job->base) < 0) {
        transfer->is_reading = false;
        refuse(session, RS_LIMIT, "too many read documents of this aggregator: try again");
        free_job(job);
    }
}

void ask_transfer_free(struct session *session)
{
    struct transfer *transfer = session->transfer;
    if (!transfer)
        return;
    session->transfer = NULL;
    rs_documents_unpin(session->server->documents, transfer->set);
    rs_mem_free(transfer->path);
    rs_mem_free(transfer);
}

static const struct rs_document *find_item(const struct rs_document_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->items[i].name, name) == 0)
            return &set->items[i];
    return NULL;
}

void ask_document(struct session *session, const Rankscope__AskDocument *ask)
{
    struct rs_server *server = session->server;
    struct rs_document_options options;
    struct rs_err err = {0};
    if (options_of(ask->options, &options, &err) < 0) {
        ask_refuse(session, &err);
        return;
    }
    struct rs_document_set *set =
        server->documents
            ? rs_documents_find(server->documents, ask->capture, &options, ask->generation)
            : NULL;
    if (!set) {
        refuse(session, RS_NOTFOUND,
               "the documents of this list are not kept: ask for the list again");
        return;
    }
    const struct rs_document *item =
        rs_document_is_wanted(&options, ask->name) ? find_item(set, ask->name) : NULL;
    struct transfer *transfer = rs_mem_calloc(1, sizeof *transfer);
    char *path = item ? rs_file_join(set->dir, item->name) : NULL;
    if (!item || !transfer || !path) {
        rs_documents_unpin(server->documents, set);
        rs_mem_free(transfer);
        rs_mem_free(path);
        refuse(session, item ? RS_NOMEM : RS_NOTFOUND,
               item ? "out of memory" : "there is no such document");
        return;
    }
    *transfer = (struct transfer){.set = set, .path = path, .size = item->size};
    session->transfer = transfer;
    ask_document_pump(session);
}
