/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures as they outlive the process: rows of the store's catalogue, and small documents in each capture's folder.
 *
 *     catalogue     id, run, state, times, reason; a row for each rank of it           what lists read, in one look
 *     request.json  what was asked for                                                  read when somebody asks for that capture
 *     owner, raw    a line each: whose it is, whose raw data is wanted
 *     claim         a line: how often another aggregator took it over, and from whom the last time
 *     given-up      a line: the aggregator that took it over from this one
 *
 * Only ingest's CLOSE job closes a capture, behind its sync: what is saved here before says that it is open still, so that a crash in
 * between has it joined and closed anew.
 */
#include "aggregator/server/capture_journal.h"

#include "aggregator/archive/archive.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/replace.h"

#define RS_LOG_TAG "aggregator"
#include "common/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum rs_capture_state state_of(const char *text)
{
    for (int i = 0; i < RS_CAPTURE_STATE_COUNT; i++)
        if (strcmp(text, rs_capture_state_text((enum rs_capture_state)i)) == 0)
            return (enum rs_capture_state)i;
    /* the word of an earlier program */
    return strcmp(text, "arming") == 0 ? RS_CAPTURE_ARMING : RS_CAPTURE_FAILED;
}

static void facts_of(void *self, const struct rs_coord_capture *capture,
                     struct rs_capture_facts *facts)
{
    (void)self;
    *facts = (struct rs_capture_facts){.is_closed = rs_capture_state_is_closed(capture->state),
                                       .created_ns = capture->created_ns,
                                       .closed_ns = capture->closed_ns,
                                       .start_step = capture->start_step,
                                       .steps = capture->steps,
                                       .world = capture->world,
                                       .settle_ns = capture->settle_ns};
    (void)snprintf(facts->id, sizeof facts->id, "%s", capture->id);
    (void)snprintf(facts->run, sizeof facts->run, "%s", capture->run);
    (void)snprintf(facts->key, sizeof facts->key, "%.4095s", capture->key);
    char source[RS_COORD_SOURCE_BYTES];
    rs_coord_source(capture, source);
    (void)snprintf(facts->source, sizeof facts->source, "%s", source);
    (void)snprintf(facts->state, sizeof facts->state, "%s", rs_capture_state_text(capture->state));
    (void)snprintf(facts->reason, sizeof facts->reason, "%s", capture->reason);
}

static void capture_of(const struct rs_store *store, const struct rs_capture_facts *facts,
                       struct rs_coord_capture *capture)
{
    *capture = (struct rs_coord_capture){.state = state_of(facts->state),
                                         .created_ns = facts->created_ns,
                                         .closed_ns = facts->closed_ns,
                                         .start_step = facts->start_step,
                                         .steps = facts->steps,
                                         .world = facts->world,
                                         .settle_ns = facts->settle_ns};
    rs_coord_set_source(capture, facts->source);
    (void)snprintf(capture->id, sizeof capture->id, "%s", facts->id);
    (void)snprintf(capture->run, sizeof capture->run, "%.256s", facts->run);
    (void)snprintf(capture->key, sizeof capture->key, "%s", facts->key);
    (void)snprintf(capture->reason, sizeof capture->reason, "%s", facts->reason);
    char *dir = rs_store_capture_dir(store, facts->id);
    (void)snprintf(capture->directory, sizeof capture->directory, "%s", dir ? dir : "");
    rs_mem_free(dir);
}

/* ---- the request, as a document beside the segments ----------------------------------------------------- */

static const char request_name[] = "request.json";

/* What is written must be read again after a restart: a request whose document is too long for that is not begun. */
static enum rs_status print_request(const struct rs_capture_request *request, struct rs_buf *buf,
                                    struct rs_err *err)
{
    rs_request_to_json(request, 2, buf);
    rs_buf_u8(buf, '\n');
    if (buf->length > RS_REQUEST_TEXT_MAX_BYTES) {
        rs_buf_reset(buf);
        rs_request_to_json(request, 0, buf);
    }
    if (buf->failed)
        return rs_err_set(err, RS_NOMEM, "no memory for a request");
    if (buf->length > RS_REQUEST_TEXT_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "the request is a document of %zu bytes: at most %d",
                          buf->length, RS_REQUEST_TEXT_MAX_BYTES);
    return RS_OK;
}

static enum rs_status write_request(const struct rs_coord_capture *capture,
                                    const struct rs_buf *document, struct rs_err *err)
{
    char *path = rs_file_join(capture->directory, request_name);
    const enum rs_status status = path ? rs_file_create(path, document->data, document->length, err)
                                       : rs_err_set(err, RS_NOMEM, "no memory for a request");
    rs_mem_free(path);
    return status;
}

static const char raw_name[] = "raw";
static const char owner_name[] = "owner";
static const char account_name[] = "account";
static const char claim_name[] = "claim";

/* A document of one line in the folder of a capture, so that it is there after a rebuild, too. `must_sync`: also after a power cut. */
static enum rs_status write_line(const struct rs_coord_capture *capture, const char *name,
                                 const char *line, bool must_sync, struct rs_err *err)
{
    char text[RS_COORD_RAW_BYTES + 1];
    const int length = snprintf(text, sizeof text, "%s\n", line);
    char *path = rs_file_join(capture->directory, name);
    const enum rs_status status = path ? rs_file_replace(path, text, (size_t)length, must_sync, err)
                                       : rs_err_set(err, RS_NOMEM, "no memory for a capture");
    rs_mem_free(path);
    return status;
}

static void read_line(const char *directory, const char *name, char *line, size_t bytes)
{
    struct rs_buf buf = {0};
    char *path = rs_file_join(directory, name);
    if (path && rs_file_read(path, bytes, &buf, NULL) == RS_OK) {
        const char *text = rs_buf_text(&buf);
        const size_t length = strcspn(text, "\n");
        (void)snprintf(line, bytes, "%.*s", (int)length, text);
    }
    rs_buf_fini(&buf);
    rs_mem_free(path);
}

/* Whose raw data is wanted; no file: all. */
static enum rs_status write_raw(const struct rs_coord_capture *capture, struct rs_err *err)
{
    if (!*capture->directory || !*capture->raw || strcmp(capture->raw, "all") == 0)
        return RS_OK;
    return write_line(capture, raw_name, capture->raw, true, err);
}

static void read_raw(struct rs_coord_capture *capture)
{
    read_line(capture->directory, raw_name, capture->raw, sizeof capture->raw);
}

/* Whose it is; no file: nobody's own. */
static enum rs_status write_owner(const struct rs_coord_capture *capture, struct rs_err *err)
{
    return *capture->directory && *capture->owner
               ? write_line(capture, owner_name, capture->owner, true, err)
               : RS_OK;
}

/* On whose account it is kept, where that is not its owner's; no file: nobody's. A slow disk is not waited for: streams wait for
 * the capture. */
static enum rs_status write_account(const struct rs_coord_capture *capture, struct rs_err *err)
{
    return *capture->directory && *capture->account && !*capture->owner
               ? write_line(capture, account_name, capture->account, false, err)
               : RS_OK;
}

/* How often it was taken over, and from whom; no file: it was begun here. */
static enum rs_status write_claim(const struct rs_coord_capture *capture, struct rs_err *err)
{
    char line[RS_COORD_TAKEN_BYTES + 16];
    (void)snprintf(line, sizeof line, "%" PRIu32 " %s", capture->claim, capture->taken_from);
    return *capture->directory && capture->claim ? write_line(capture, claim_name, line, true, err)
                                                 : RS_OK;
}

static void read_claim(struct rs_coord_capture *capture)
{
    char line[RS_COORD_TAKEN_BYTES + 16] = "";
    char *rest = line;
    read_line(capture->directory, claim_name, line, sizeof line);
    read_line(capture->directory, RS_CAPTURE_GIVEN_UP_NAME, capture->given_up_to,
              sizeof capture->given_up_to);
    capture->claim = (uint32_t)strtoul(line, &rest, 10);
    (void)snprintf(capture->taken_from, sizeof capture->taken_from, "%.*s",
                   RS_COORD_TAKEN_BYTES - 1, *rest ? rest + 1 : "");
}

/* The capture's request; it stays NULL when there is none that can be read. */
static void read_request(struct rs_coord_capture *capture)
{
    struct rs_buf buf = {0};
    struct rs_request_notes notes = {0};
    struct rs_err err = {0};
    char *path = rs_file_join(capture->directory, request_name);
    struct rs_capture_request *request = rs_mem_calloc(1, sizeof *request);
    enum rs_status status = path && request ? RS_OK : RS_NOMEM;
    if (status == RS_OK)
        status = rs_file_read(path, RS_REQUEST_TEXT_MAX_BYTES, &buf, &err);
    if (status == RS_OK)
        status = rs_request_from_json(rs_buf_text(&buf), buf.length, request, &notes, &err);
    if (status == RS_OK) {
        capture->request = request;
        request = NULL;
    } else if (status != RS_NOTFOUND) {
        rs_log_warn("the request of capture %s cannot be read: %s", capture->id, err.text);
    }
    rs_mem_free(request);
    rs_mem_free(path);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&buf);
}

static void take_plan(struct rs_coord_capture *capture)
{
    const struct rs_capture_request *request = capture->request;
    if (!request)
        return;
    capture->profile = (struct rs_coord_profile){
        .roundup = request->roundup, .timeout_ns = (rs_dur)request->timeout_ms * RS_NS_PER_MS};
    capture->duration_ns = (rs_dur)request->duration_ms * RS_NS_PER_MS;
}

/* Its row is there, and nothing will ever come of it: it must not look as if it went on. */
static void give_up(struct rs_store *store, struct rs_capture_facts *facts, const char *why)
{
    struct rs_err ignored = {0};
    facts->is_closed = true;
    facts->closed_ns = rs_time_realtime();
    (void)snprintf(facts->state, sizeof facts->state, "%s",
                   rs_capture_state_text(RS_CAPTURE_FAILED));
    (void)snprintf(facts->reason, sizeof facts->reason, "%.500s", why);
    if (rs_store_update_capture(store, facts, &ignored) < 0)
        rs_log_error("capture %s cannot be written down: %s", facts->id, ignored.text);
}

static enum rs_status name(void *self, struct rs_coord_capture *capture, struct rs_err *err)
{
    struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    struct rs_buf document = {0};
    if (!facts)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    facts_of(self, capture, facts);
    enum rs_status status =
        capture->request ? print_request(capture->request, &document, err) : RS_OK;
    if (status == RS_OK)
        status = rs_store_name_capture(store, facts, err);
    if (status == RS_OK) {
        (void)snprintf(capture->id, sizeof capture->id, "%s", facts->id);
        capture->created_ns = facts->created_ns;
        char *dir = rs_store_capture_dir(store, facts->id);
        (void)snprintf(capture->directory, sizeof capture->directory, "%s", dir ? dir : "");
        rs_mem_free(dir);
    }
    rs_buf_fini(&document);
    rs_mem_free(facts);
    return status;
}

static void fill_row(const struct rs_coord_rank *rank, struct rs_capture_rank *row)
{
    *row = (struct rs_capture_rank){
        .rank = rank->rank, .state = rank->state, .steps_done = rank->steps_done};
    (void)snprintf(row->incarnation, sizeof row->incarnation, "%s", rank->incarnation);
    (void)snprintf(row->host, sizeof row->host, "%s", rank->host);
    (void)snprintf(row->text, sizeof row->text, "%s", rank->text);
}

/* Rows that changed; many of them in pieces, so that a capture of thousands needs no memory for all at once. */
static enum rs_status save_ranks(struct rs_store *store, const struct rs_coord_capture *capture,
                                 struct rs_err *err)
{
    enum { ROWS = 256 };
    struct rs_capture_rank *rows = rs_mem_calloc(ROWS, sizeof *rows);
    enum rs_status status = rows ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory for ranks");
    size_t count = 0;
    for (size_t i = 0; i < capture->rank_count && status == RS_OK; i++) {
        if (capture->ranks[i].is_changed)
            fill_row(&capture->ranks[i], &rows[count++]);
        if (count == ROWS) {
            status = rs_store_put_ranks(store, capture->id, rows, count, err);
            count = 0;
        }
    }
    if (count && status == RS_OK)
        status = rs_store_put_ranks(store, capture->id, rows, count, err);
    rs_mem_free(rows);
    return status;
}

static enum rs_status create(void *self, struct rs_coord_capture *capture, struct rs_err *err)
{
    struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    struct rs_buf document = {0};
    if (!facts)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    facts_of(self, capture, facts);
    enum rs_status status =
        capture->request ? print_request(capture->request, &document, err) : RS_OK;
    if (status == RS_OK)
        status = rs_store_create_capture(store, facts, err);
    if (status == RS_OK) {
        if (capture->request)
            status = write_request(capture, &document, err);
        if (status == RS_OK)
            status = write_raw(capture, err);
        if (status == RS_OK)
            status = write_owner(capture, err);
        if (status == RS_OK)
            status = write_account(capture, err);
        if (status == RS_OK)
            status = write_claim(capture, err);
        /* Who asked is answered behind this: a daemon that is killed now must know whom it was to ask. */
        if (status == RS_OK)
            status = save_ranks(store, capture, err);
        if (status < 0)
            give_up(store, facts, err ? err->text : "its request cannot be written down");
    }
    rs_buf_fini(&document);
    rs_mem_free(facts);
    return status;
}

static enum rs_status sync_created(void *self, struct rs_err *err)
{
    return rs_store_sync_captures(((struct rs_capture_journal *)self)->store, err);
}

/* Only a fetch changes it. */
static enum rs_status save_raw(const struct rs_coord_capture *capture, struct rs_err *err)
{
    struct rs_coord_capture *before = rs_mem_calloc(1, sizeof *before);
    if (!before)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    memcpy(before->directory, capture->directory, sizeof before->directory);
    read_raw(before);
    const bool is_same = strcmp(before->raw, capture->raw) == 0 ||
                         (!*before->raw && strcmp(capture->raw, "all") == 0);
    rs_mem_free(before);
    return is_same ? RS_OK : write_raw(capture, err);
}

static enum rs_status save(void *self, const struct rs_coord_capture *capture, struct rs_err *err)
{
    struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    if (!facts)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    facts_of(self, capture, facts);
    facts->is_closed = false; /* only ingest's CLOSE job closes, after its sync */
    /* Ranks first: a capture that says how it ended has none that are still on their way. */
    enum rs_status status = save_ranks(store, capture, err);
    if (status == RS_OK)
        status = rs_store_update_capture(store, facts, err);
    if (status == RS_OK)
        status = save_raw(capture, err);
    rs_mem_free(facts);
    return status;
}

static bool add_rank(void *self, const struct rs_capture_rank *row)
{
    struct rs_coord_capture *capture = self;
    if (rs_mem_grow((void **)&capture->ranks, &capture->rank_capacity, capture->rank_count + 1,
                    sizeof *capture->ranks) < 0)
        return false;
    struct rs_coord_rank *rank = &capture->ranks[capture->rank_count++];
    *rank = (struct rs_coord_rank){.rank = row->rank,
                                   .step = -1,
                                   .steps_done = row->steps_done,
                                   .state = row->state < RS_PROGRESS_COUNT
                                                ? (enum rs_progress_state)row->state
                                                : RS_PROGRESS_LOST};
    (void)snprintf(rank->incarnation, sizeof rank->incarnation, "%.256s", row->incarnation);
    (void)snprintf(rank->host, sizeof rank->host, "%.256s", row->host);
    (void)snprintf(rank->text, sizeof rank->text, "%s", row->text);
    return true;
}

/* A closed capture's request is read only when somebody asks for that capture. */
static enum rs_status find_one(struct rs_store *store, const char *id, unsigned parts,
                               struct rs_coord_capture *capture_p, struct rs_err *err)
{
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    if (!facts)
        return rs_err_set(err, RS_NOMEM, "no memory for a capture");
    enum rs_status status = rs_store_find_capture(store, id, facts, err);
    if (status == RS_OK) {
        capture_of(store, facts, capture_p);
        read_raw(capture_p);
        read_claim(capture_p);
        read_line(capture_p->directory, owner_name, capture_p->owner, sizeof capture_p->owner);
        read_line(capture_p->directory, account_name, capture_p->account,
                  sizeof capture_p->account);
        if (facts->is_closed)
            read_line(capture_p->directory, RS_ARCHIVE_PLACE_NAME, capture_p->archive,
                      sizeof capture_p->archive);
        if (!capture_p->is_files && ((parts & RS_JOURNAL_REQUEST) || !facts->is_closed)) {
            read_request(capture_p);
            take_plan(capture_p);
        }
        if (parts & RS_JOURNAL_RANKS)
            status = rs_store_list_ranks(store, id, add_rank, capture_p, err);
        if (status < 0)
            rs_coord_capture_fini(capture_p);
    }
    rs_mem_free(facts);
    return status;
}

static enum rs_status remove_one(void *self, const char *id, struct rs_err *err)
{
    return rs_store_remove_capture(((struct rs_capture_journal *)self)->store, id, err);
}

static void owner_of(void *self, const char *id, char owner_p[RS_COORD_USER_BYTES])
{
    const struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    char *dir = rs_wire_is_capture_id(id) ? rs_store_capture_dir(store, id) : NULL;
    *owner_p = '\0';
    if (dir)
        read_line(dir, owner_name, owner_p, RS_COORD_USER_BYTES);
    rs_mem_free(dir);
}

static bool is_given_up(void *self, const char *id)
{
    const struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    char to[RS_COORD_AGGREGATOR_BYTES] = "";
    char *dir = rs_wire_is_capture_id(id) ? rs_store_capture_dir(store, id) : NULL;
    if (dir)
        read_line(dir, RS_CAPTURE_GIVEN_UP_NAME, to, sizeof to);
    rs_mem_free(dir);
    return *to;
}

/* The claim first: with both there it is still the other one's. */
static enum rs_status take_back(void *self, const char *id, uint32_t claim, const char *from,
                                struct rs_err *err)
{
    const struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    struct rs_coord_capture *capture = rs_mem_calloc(1, sizeof *capture);
    char *dir = rs_store_capture_dir(store, id);
    char *mark = dir ? rs_file_join(dir, RS_CAPTURE_GIVEN_UP_NAME) : NULL;
    enum rs_status status =
        capture && mark ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory for a capture");
    if (status == RS_OK) {
        capture->claim = claim;
        (void)snprintf(capture->directory, sizeof capture->directory, "%s", dir);
        (void)snprintf(capture->taken_from, sizeof capture->taken_from, "%.300s", from);
        status = write_claim(capture, err);
    }
    if (status == RS_OK && unlink(mark) < 0 && errno != ENOENT)
        status = rs_err_errno(err, "cannot remove %s", mark);
    rs_mem_free(mark);
    rs_mem_free(dir);
    rs_mem_free(capture);
    return status;
}

static void account_of(void *self, const char *id, char account_p[RS_COORD_ACCOUNT_BYTES])
{
    const struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    char owner[RS_COORD_USER_BYTES];
    char *dir = rs_wire_is_capture_id(id) ? rs_store_capture_dir(store, id) : NULL;
    *account_p = '\0';
    owner_of(self, id, owner);
    if (*owner)
        (void)snprintf(account_p, RS_COORD_ACCOUNT_BYTES, "user/%s", owner);
    else if (dir)
        read_line(dir, account_name, account_p, RS_COORD_ACCOUNT_BYTES);
    rs_mem_free(dir);
}

static void run_of(void *self, const char *id, char run_p[RS_COORD_TEXT_BYTES])
{
    struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    *run_p = '\0';
    if (facts && rs_wire_is_capture_id(id) &&
        rs_store_find_capture(store, id, facts, NULL) == RS_OK)
        (void)snprintf(run_p, RS_COORD_TEXT_BYTES, "%.256s", facts->run);
    rs_mem_free(facts);
}

static enum rs_status find(void *self, const char *id, unsigned parts,
                           struct rs_coord_capture *capture_p, struct rs_err *err)
{
    return find_one(((struct rs_capture_journal *)self)->store, id, parts, capture_p, err);
}

static bool was_removed(void *self, const char *id)
{
    return rs_store_was_removed(((struct rs_capture_journal *)self)->store, id);
}

/* Ids first, rows after: a visitor may write, and the listing must not be open meanwhile. */
struct id_list {
    char (*items)[RS_STORE_ID_BYTES];
    size_t count, capacity;
    bool has_failed;
};

static bool add_id(void *self, const struct rs_capture_facts *facts)
{
    struct id_list *list = self;
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items) <
        0) {
        list->has_failed = true;
        return false;
    }
    memcpy(list->items[list->count++], facts->id, sizeof facts->id);
    return true;
}

static enum rs_status list(void *self,
                           bool (*visit)(void *visitor, const struct rs_coord_capture *capture),
                           void *visitor, struct rs_err *err)
{
    struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    struct id_list ids = {0};
    struct rs_coord_capture *capture = rs_mem_calloc(1, sizeof *capture);
    enum rs_status status = rs_store_list_captures(store, add_id, &ids, err);
    if (status == RS_OK && (ids.has_failed || !capture))
        status = rs_err_set(err, RS_NOMEM, "no memory to list captures");
    bool goes_on = true;
    for (size_t i = 0; i < ids.count && status == RS_OK && goes_on; i++) {
        status = find_one(store, ids.items[i], RS_JOURNAL_RANKS, capture, err);
        if (status < 0)
            break;
        goes_on = visit(visitor, capture);
        rs_coord_capture_fini(capture);
    }
    rs_mem_free(capture);
    rs_mem_free(ids.items);
    return status;
}

struct head_listing {
    struct rs_store *store;
    bool (*visit)(void *visitor, const struct rs_coord_capture *capture);
    void *visitor;
    struct rs_coord_capture *capture; /* the one at hand */
};

static bool show_head(void *self, const struct rs_capture_facts *facts)
{
    const struct head_listing *listing = self;
    capture_of(listing->store, facts, listing->capture);
    if (!facts->is_closed)
        listing->capture->closed_ns = 0; /* it may be about to close */
    read_line(listing->capture->directory, owner_name, listing->capture->owner,
              sizeof listing->capture->owner);
    const bool goes_on = listing->visit(listing->visitor, listing->capture);
    rs_coord_capture_fini(listing->capture);
    return goes_on;
}

static enum rs_status heads(void *self,
                            bool (*visit)(void *visitor, const struct rs_coord_capture *capture),
                            void *visitor, struct rs_err *err)
{
    struct rs_store *store = ((struct rs_capture_journal *)self)->store;
    struct head_listing listing = {store, visit, visitor,
                                   rs_mem_calloc(1, sizeof *listing.capture)};
    const enum rs_status status = listing.capture
                                      ? rs_store_list_captures(store, show_head, &listing, err)
                                      : rs_err_set(err, RS_NOMEM, "no memory to list captures");
    rs_mem_free(listing.capture);
    return status;
}

static size_t count_ranks(void *self, const char *id)
{
    return rs_store_count_ranks(((struct rs_capture_journal *)self)->store, id);
}

static bool earlier_roles(void *self, const char *run, struct rs_roles *roles_p)
{
    struct rs_capture_journal *journal = self;
    return journal->infer && rs_infer_roles_of(journal->infer, run, roles_p);
}

static void infer_closed(void *self, const struct rs_capture_facts *facts)
{
    const struct rs_capture_journal *journal = self;
    char *dir = journal->infer ? rs_store_capture_dir(journal->store, facts->id) : NULL;
    if (dir && strcmp(facts->state, rs_capture_state_text(RS_CAPTURE_FAILED)) != 0)
        rs_infer_roles_capture(journal->infer, facts->run, dir);
    rs_mem_free(dir);
}

struct rs_server_journal rs_capture_journal_interface(struct rs_capture_journal *journal)
{
    return (struct rs_server_journal){.name = name,
                                      .create = create,
                                      .sync = sync_created,
                                      .save = save,
                                      .facts = facts_of,
                                      .remove = remove_one,
                                      .find = find,
                                      .owner = owner_of,
                                      .account = account_of,
                                      .is_given_up = is_given_up,
                                      .take_back = take_back,
                                      .run = run_of,
                                      .was_removed = was_removed,
                                      .list = list,
                                      .heads = heads,
                                      .count_ranks = count_ranks,
                                      .closed = infer_closed,
                                      .earlier_roles = earlier_roles,
                                      .self = journal};
}

enum { INFER_MAX = 16 }; /* captures read at start: the newest */

struct inference {
    struct rs_capture_journal *journal;
    size_t closed, skipped;
};

static bool count_closed(void *self, const struct rs_capture_facts *facts)
{
    struct inference *inference = self;
    inference->closed += facts->is_closed;
    return true;
}

static bool infer_one(void *self, const struct rs_capture_facts *facts)
{
    struct inference *inference = self;
    if (facts->is_closed && inference->skipped + INFER_MAX < inference->closed)
        inference->skipped++;
    else if (facts->is_closed)
        infer_closed(inference->journal, facts);
    return true;
}

enum rs_status rs_capture_journal_infer_roles(struct rs_capture_journal *journal,
                                              struct rs_err *err)
{
    struct inference inference = {.journal = journal};
    const enum rs_status status =
        rs_store_list_captures(journal->store, count_closed, &inference, err);
    return status == RS_OK ? rs_store_list_captures(journal->store, infer_one, &inference, err)
                           : status;
}
