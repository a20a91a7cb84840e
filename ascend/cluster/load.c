/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank at a time on each worker: its files become compact structs, their text is dropped.
 *
 *     ops, links   analysis.db, else the json files         whichever is whole
 *     steps        StepTraceTime, else step_trace_time.csv
 *     metadata     META_DATA of the profiler database, else profiler_metadata.json
 *     place        HOST_INFO, RANK_DEVICE_MAP
 *
 * What one source cannot give another may; only when none can is the part missing, with the first
 * source's sentence. The workers share a counter and nothing else.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

struct loader {
    struct run *run;
    unsigned wanted; /* enum rs_ascend_comm_part */
    atomic_size_t next;
};

/* A worker's memory for the file at hand. */
struct scratch {
    struct rs_buf text;
    struct rs_ascend_comm ops;           /* when no text document wants them */
    struct rs_ascend_comm_memory memory; /* for the rank's own */
    struct adder adder;
};

void rank_data_fini(struct rank_data *rank)
{
    rs_ascend_comm_fini(&rank->comm);
    rs_ascend_steps_fini(&rank->steps);
    if (rank->has_meta)
        rs_ascend_metadata_fini(&rank->meta);
    rs_ascend_place_fini(&rank->place);
    totals_fini(&rank->totals);
    rs_buf_fini(&rank->reason);
    rs_mem_free(rank->group_of);
    rs_mem_free(rank->step_of);
    rs_mem_free(rank->name_of);
}

static void complain(struct rank_data *rank, const char *text)
{
    if (!*text)
        return;
    rs_buf_printf(&rank->reason, "%s%s", rank->reason.length ? "; " : "", text);
}

/* The json file of a part in ASCEND_PROFILER_OUTPUT. */
static enum rs_status read_text_part(const struct rank_data *rank, struct rs_ascend_comm *comm,
                                     enum rs_ascend_comm_part part, struct rs_buf *scratch,
                                     struct rs_err *err)
{
    const char *name =
        part == RS_ASCEND_COMM_OPS ? "communication.json" : "communication_matrix.json";
    char *path = rank->vendor->output ? rs_file_join(rank->vendor->output, name) : NULL;
    if (!path)
        return rs_err_set(err, rank->vendor->output ? RS_NOMEM : RS_NOTFOUND, "no %s", name);
    enum rs_status status = access(path, F_OK) == 0
                                ? rs_ascend_comm_read_text(comm, part, path, scratch, err)
                                : rs_err_set(err, RS_NOTFOUND, "no %s", name);
    rs_mem_free(path);
    return status;
}

/* A part is in neither form; or it is, and something is wrong with it. */
static void miss_part(struct rank_data *rank, enum rs_ascend_comm_part part,
                      const struct rs_err *db_err, const struct rs_err *text_err)
{
    const bool is_db_worse = db_err->status != RS_NOTFOUND;
    if (!is_db_worse && text_err->status == RS_NOTFOUND)
        return; /* not there: bad only if other ranks have it */
    rank->bad_parts |= (unsigned)part;
    complain(rank, is_db_worse ? db_err->text : text_err->text);
}

/* Into sums and rows. Operations that are not to be kept do not even get into `comm`, which is the worker's then. */
static enum rs_status read_ops(struct rank_data *rank, struct rs_ascend_comm *comm,
                               struct rs_ascend_db *db, struct rs_err *db_err,
                               struct scratch *scratch)
{
    struct adder *adder = &scratch->adder;
    const struct rs_ascend_comm_visitor visitor = totals_visitor(adder);
    struct rs_err text_err = {0};
    const bool is_kept = comm == &rank->comm;
    enum rs_status status = db_err->status;
    if (db)
        status = is_kept ? rs_ascend_comm_read_db(comm, RS_ASCEND_COMM_OPS, db, db_err)
                         : rs_ascend_comm_visit_db(comm, db, &visitor, db_err);
    rank->is_db |= status == RS_OK;
    if (status != RS_OK) {
        totals_begin(adder, rank, comm, adder->rows);
        if (read_text_part(rank, comm, RS_ASCEND_COMM_OPS, &scratch->text, &text_err) != RS_OK)
            miss_part(rank, RS_ASCEND_COMM_OPS, db_err, &text_err);
    }
    complain(rank, rs_buf_text(&comm->flaws));
    rs_buf_reset(&comm->flaws); /* links may come into the same */
    return totals_add_all(adder);
}

static void read_links(struct rank_data *rank, struct rs_ascend_db *db, struct rs_err *db_err,
                       struct scratch *scratch)
{
    struct rs_err text_err = {0};
    enum rs_status status = db_err->status;
    if (db)
        status = rs_ascend_comm_read_db(&rank->comm, RS_ASCEND_COMM_LINKS, db, db_err);
    rank->is_db |= status == RS_OK;
    if (status != RS_OK &&
        read_text_part(rank, &rank->comm, RS_ASCEND_COMM_LINKS, &scratch->text, &text_err) != RS_OK)
        miss_part(rank, RS_ASCEND_COMM_LINKS, db_err, &text_err);
    complain(rank, rs_buf_text(&rank->comm.flaws));
    rs_buf_reset(&rank->comm.flaws);
}

static void read_steps(struct rank_data *rank, struct rs_ascend_db *db)
{
    struct rs_err err = {0};
    enum rs_status status = RS_NOTFOUND;
    if (db)
        status = rs_ascend_steps_read_db(db, &rank->steps, &err);
    if (status == RS_OK)
        complain(rank, rs_buf_text(&rank->steps.flaws));
    rank->has_db_steps = status == RS_OK && rank->steps.count;
    if (status == RS_OK || !rank->vendor->output)
        return;
    char *path = rs_file_join(rank->vendor->output, "step_trace_time.csv");
    if (path && access(path, F_OK) == 0)
        status = rs_ascend_steps_read_csv(path, &rank->steps, &err);
    rs_mem_free(path);
    if (status == RS_OK)
        complain(rank, rs_buf_text(&rank->steps.flaws));
    if (status != RS_OK && status != RS_NOTFOUND)
        complain(rank, err.text);
}

/* One read transaction for all questions to a database: else each takes and drops the file's locks. */
static void hold_still(struct rs_ascend_db *db)
{
    sqlite3_stmt *stmt = NULL;
    if (rs_ascend_db_prepare(db, "BEGIN", &stmt, NULL) == RS_OK &&
        rs_ascend_db_step(db, stmt, NULL) != RS_END)
        rs_ascend_db_finish(&stmt); /* then without: it only is slower */
    rs_ascend_db_finish(&stmt);
}

static void read_metadata(struct rank_data *rank)
{
    struct rs_ascend_db *db = NULL;
    struct rs_err err = {0};
    enum rs_status status = RS_NOTFOUND;
    if (rank->vendor->profiler_db) {
        status = rs_ascend_db_open(rank->vendor->profiler_db, &db, &err);
        if (status == RS_OK) {
            hold_still(db);
            rs_ascend_place_fini(&rank->place);
            status = rs_ascend_place_read(db, &rank->place, &err);
        }
        if (status == RS_OK) {
            status = rs_ascend_db_metadata(db, &rank->meta, &err);
            rank->has_meta = status == RS_OK;
        }
        rs_ascend_db_close(&db);
        if (status != RS_OK && status != RS_NOTFOUND)
            complain(rank, err.text);
    }
    if (!rank->has_meta && rank->vendor->metadata) {
        status = rs_ascend_metadata_read(rank->vendor, &rank->meta, &err);
        rank->has_meta = status == RS_OK;
        if (status != RS_OK && status != RS_NOTFOUND)
            complain(rank, err.text);
    }
}

static bool is_readable(struct rank_data *rank)
{
    const struct rs_ascend_rank *vendor = rank->vendor;
    if (vendor->forms & (RS_ASCEND_F_DB | RS_ASCEND_F_TEXT)) {
        if (vendor->state != RS_ASCEND_FINISHED)
            complain(rank, "the directory is not finished: profiler_info has no end");
        return true;
    }
    complain(rank, vendor->state == RS_ASCEND_UNPARSED
                       ? "only raw data: not parsed by the vendor's tool yet"
                       : "not finished: being collected or parsed, or broken off");
    return false;
}

static void give_up(struct loader *loader, struct rank_data *rank, const char *why)
{
    rank->bad_parts = loader->wanted;
    complain(rank, why);
}

/* What analysis.db and the text beside it hold. `db` NULL: `err` says why. */
static enum rs_status read_analysis(struct loader *loader, struct rank_data *rank,
                                    struct rs_ascend_comm *ops, struct rs_ascend_db *db,
                                    const struct rs_err *err, struct scratch *scratch)
{
    enum rs_status status = RS_OK;
    if (db)
        hold_still(db);
    if (loader->wanted & RS_ASCEND_COMM_OPS) {
        struct rs_err ops_err = *err;
        status = read_ops(rank, ops, db, &ops_err, scratch);
    }
    if (loader->wanted & RS_ASCEND_COMM_LINKS) {
        struct rs_err links_err = *err;
        read_links(rank, db, &links_err, scratch);
    }
    read_steps(rank, db);
    const enum rs_status ended = totals_end(&scratch->adder);
    return status == RS_OK ? ended : status;
}

static enum rs_status read_rank(struct loader *loader, struct rank_data *rank,
                                struct rs_ascend_comm *ops, struct scratch *scratch,
                                struct rank_rows *rows)
{
    struct rs_ascend_db *db = NULL;
    struct rs_err err = {.status = RS_NOTFOUND};
    const char *path = rank->vendor->analysis_db;
    if (path && rs_ascend_db_open(path, &db, &err) != RS_OK)
        db = NULL; /* `err` says why; the text may do */
    rs_ascend_comm_borrow(&rank->comm, &scratch->memory);
    totals_begin(&scratch->adder, rank, ops, rows);
    enum rs_status status = read_analysis(loader, rank, ops, db, &err, scratch);
    rs_ascend_db_close(&db);
    if (status == RS_OK && ops != &rank->comm) {
        rank->comm.parts |= ops->parts;
        status = totals_rename(rank, ops);
    }
    rs_ascend_comm_settle(&rank->comm, &scratch->memory);
    return status;
}

/* ---- analysis.db when it is the rank's turn ---- */

/* Of who holds the file. */
struct later {
    struct loader *loader;
    struct copier *copier;
    struct scratch scratch;
};

/* Operations go from one database into the other, unless somebody else wants them. */
static bool can_wait(const struct loader *loader, const struct rank_data *rank)
{
    return loader->run->later && loader->wanted & RS_ASCEND_COMM_OPS && rank->vendor->analysis_db &&
           rank->vendor->state == RS_ASCEND_FINISHED;
}

/* Copied by SQLite. RS_INVALID: it cannot be, and nothing was read. */
static enum rs_status copy_later(struct later *later, struct rank_data *rank, struct bulk *bulk)
{
    struct rs_ascend_db *db = NULL;
    struct rs_err err = {0};
    if (bulk_attach(bulk, rank->vendor->analysis_db, &db, &err) != RS_OK)
        return RS_INVALID;
    enum rs_status status = copy_rank(later->copier, bulk, db, rank);
    if (status == RS_OK) {
        rank->is_db = true;
        rank->comm.parts |= RS_ASCEND_COMM_OPS;
        rs_ascend_comm_borrow(&rank->comm, &later->scratch.memory);
        if (later->loader->wanted & RS_ASCEND_COMM_LINKS)
            read_links(rank, db, &err, &later->scratch);
        read_steps(rank, db);
        rs_ascend_comm_settle(&rank->comm, &later->scratch.memory);
        status = copy_end(later->copier);
    }
    rs_ascend_db_close(&db);
    bulk_detach(bulk);
    return status;
}

void load_later(struct run *run, size_t rank_index, struct bulk *bulk, struct rank_rows *rows)
{
    struct later *later = run->later;
    struct scratch *scratch = &later->scratch;
    struct rank_data *rank = &run->ranks[rank_index];
    struct rs_buf rest = rank->reason; /* what was said of its metadata comes last */
    rank->reason = (struct rs_buf){0};
    enum rs_status status = copy_later(later, rank, bulk);
    if (status != RS_OK && status != RS_NOMEM) {
        status = !scratch->ops.names.count ? rs_ascend_comm_init(&scratch->ops) : RS_OK;
        if (status == RS_OK) {
            rs_ascend_comm_reset(&scratch->ops);
            status = read_rank(later->loader, rank, &scratch->ops, scratch, rows);
        }
    }
    if (status != RS_OK)
        give_up(later->loader, rank, "no memory for its sums");
    complain(rank, rs_buf_text(&rest));
    rs_buf_fini(&rest);
}

/* `rows`: where the operations go, NULL: no database is written. Unless a text document wants them too, they
 * are in the worker's memory only. */
static void load_one(struct loader *loader, struct rank_data *rank, struct scratch *scratch,
                     struct rank_rows *rows)
{
    const bool is_kept = loader->run->wants_text;
    struct rs_ascend_comm *ops = is_kept ? &rank->comm : &scratch->ops;
    if (rs_ascend_comm_init(&rank->comm) != RS_OK ||
        (!ops->names.count && rs_ascend_comm_init(ops) != RS_OK)) {
        give_up(loader, rank, "no memory");
        return;
    }
    if (!is_readable(rank)) {
        rank->bad_parts = loader->wanted;
        return;
    }
    if (!is_kept)
        rs_ascend_comm_reset(ops);
    if (rows && can_wait(loader, rank))
        rows->is_later = true;
    else if (read_rank(loader, rank, ops, scratch, rows) != RS_OK)
        give_up(loader, rank, "no memory for its sums");
    read_metadata(rank);
}

static void scratch_fini(struct scratch *scratch)
{
    rs_ascend_comm_fini(&scratch->ops);
    rs_ascend_comm_memory_fini(&scratch->memory);
    adder_fini(&scratch->adder);
    rs_buf_fini(&scratch->text);
}

static void *work(void *argument)
{
    struct loader *loader = argument;
    struct run *run = loader->run;
    struct scratch scratch = {0};
    for (;;) {
        const size_t index = atomic_fetch_add(&loader->next, 1);
        if (index >= run->rank_count)
            break;
        struct rank_rows *rows = run->db ? db_take_rows(run->db) : NULL;
        load_one(loader, &run->ranks[index], &scratch, rows);
        if (rows)
            db_give_rows(run, index, rows);
    }
    scratch_fini(&scratch);
    return NULL;
}

static unsigned thread_count(const struct run *run)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = run->options->jobs ? run->options->jobs
                   : processors > 0   ? (size_t)processors
                                      : 1;
    if (count > run->rank_count)
        count = run->rank_count;
    return count > THREADS_MAX ? THREADS_MAX : (unsigned)count;
}

/* A part that others have and this one has not is missing; one that nobody has is not. */
static void find_gaps(struct run *run)
{
    static const char *const names[] = {"no operations (communication.json, CommAnalyzerTime)",
                                        "no links (communication_matrix.json, CommAnalyzerMatrix)"};
    unsigned seen = 0;
    bool any_steps = false;
    for (size_t i = 0; i < run->rank_count; i++) {
        seen |= run->ranks[i].comm.parts;
        any_steps |= run->ranks[i].steps.count > 0;
    }
    for (size_t i = 0; i < run->rank_count; i++) {
        struct rank_data *rank = &run->ranks[i];
        for (unsigned p = 0; p < 2; p++)
            if (seen & ~rank->comm.parts & ~rank->bad_parts & 1U << p)
                complain(rank, names[p]);
        if (any_steps && rank->steps.count == 0 && !rank->reason.length)
            complain(rank, "no step times (step_trace_time.csv, StepTraceTime)");
        run->reals |= rank->reals;
    }
}

void unload_ranks(struct run *run)
{
    for (size_t i = 0; i < run->rank_count; i++)
        rank_data_fini(&run->ranks[i]);
    rs_mem_free(run->ranks);
    run->ranks = NULL;
    run->rank_count = 0;
    run->reals = 0;
}

enum rs_status load_ranks(struct run *run, const struct rs_ascend_list *list, struct rs_err *err)
{
    struct loader loader = {.run = run, .wanted = RS_ASCEND_COMM_OPS | RS_ASCEND_COMM_LINKS};
    pthread_t threads[THREADS_MAX];
    unsigned started = 0;
    if (run->options->mode == RS_CLUSTER_COMMUNICATION_TIME)
        loader.wanted = RS_ASCEND_COMM_OPS;
    if (run->options->mode == RS_CLUSTER_COMMUNICATION_MATRIX)
        loader.wanted = RS_ASCEND_COMM_LINKS;
    run->ranks = rs_mem_calloc(list->count, sizeof *run->ranks);
    if (!run->ranks)
        return rs_err_set(err, RS_NOMEM, "no memory for %zu ranks", list->count);
    for (size_t i = 0; i < list->count; i++) {
        if (list->ranks[i].framework == RS_ASCEND_MSMONITOR)
            continue; /* an always-on database has no communication analysis */
        struct rank_data *rank = &run->ranks[run->rank_count++];
        rank->vendor = &list->ranks[i];
        rank->rank = list->ranks[i].rank;
        rank->place.device = -1;
        rank->skips_unknown = run->options->compat;
    }
    struct later later = {.loader = &loader};
    if (run->db && !run->wants_text && copier_new(&later.copier) == RS_OK)
        run->later = &later;
    for (const unsigned wanted = thread_count(run); started + 1 < wanted; started++)
        if (pthread_create(&threads[started], NULL, work, &loader) != 0)
            break; /* fewer do */
    (void)work(&loader);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    run->later = NULL;
    copier_free(&later.copier);
    scratch_fini(&later.scratch);
    find_gaps(run);
    return RS_OK;
}
