/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One capture at a time: its reads are taken into arrays, findings are told to the ranks and hosts that they name, then the rows of the
 * view are made.
 *
 *     rank        --> ranks[]      with the host, by name in `hosts`, whose numbers stay the same over all captures
 *     rank_steps  --> steps[]      by rank and device
 *     finding, finding_place --> findings[], places[]      texts in `texts`, emptied for each capture
 *                                     |
 *                                     +--> names a rank: its count; its host: this capture's marks
 *     marks --> hosts' counts, and one entry per (host, run): a run counts once, however many captures it has
 */
#include "aggregator/output/history.h"

#include "aggregator/output/output_priv.h"
#include "common/base/mem.h"
#include "common/base/slots.h"
#include "common/base/strtab.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A capture of an unknown run is a run of its own: above all numbers of names. */
enum { NAMED_BYTES = 400, FIRST_UNKNOWN_RUN = 1 << 30 };

struct rank_facts {
    int64_t rank;
    rs_str host; /* RS_STR_NONE: unknown */
    int64_t steps, findings, hints;
    int64_t told; /* the finding that it was counted for last */
    bool is_wanted;
};

struct finding_facts {
    struct rs_row_finding row; /* its texts lie in `texts` */
    size_t place_first, place_count;
    bool is_sure;  /* worth fixing, and not weak */
    bool is_names; /* all that it is about are ranks, links and hosts */
};

struct host_facts {
    int64_t captures, named, hinted;
    int64_t first_named_ns, last_named_ns, cost_ns;
    char *last_capture, *last_kind;
    /* of the capture at hand */
    bool is_met, is_joined, is_seen, is_named, is_hinted;
};

struct host_run {
    uint32_t host, run;
    bool is_named, is_hinted;
};

struct rs_history {
    enum rs_history_view view;
    const struct rs_table *table;
    uint32_t *wanted_ranks;
    size_t wanted_rank_count, wanted_host_count; /* the hosts' names are the first of `hosts` */
    struct rs_strtab texts, hosts, runs;
    uint32_t unknown_runs;
    /* one capture */
    struct rank_facts *ranks;
    struct rs_row_rank_steps *steps;
    struct finding_facts *findings;
    struct rs_row_finding_place *places;
    size_t rank_count, rank_capacity, step_count, step_capacity, finding_count, finding_capacity,
        place_count, place_capacity;
    size_t place_finding; /* the finding that the last place was of */
    /* all of them */
    struct host_facts *by_host; /* by number of the name */
    size_t by_host_count, by_host_capacity;
    uint32_t *met; /* hosts with marks of the capture at hand: few of many */
    size_t met_count, met_capacity;
    int64_t joined_hosts; /* of these, with a rank that was joined */
    struct host_run *host_runs;
    size_t host_run_count, host_run_capacity;
    struct rs_slots host_run_slots;
};

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "no memory for the history of captures");
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static enum rs_status add_text(struct rs_strtab *table, const char *text, rs_str *id_p)
{
    *id_p = RS_STR_NONE;
    return text ? rs_strtab_add(table, text, strlen(text), id_p) : RS_OK;
}

static enum rs_status copy_filter(struct rs_history *history,
                                  const struct rs_history_filter *filter, struct rs_err *err)
{
    history->wanted_ranks = rs_mem_calloc(filter->rank_count + 1, sizeof *history->wanted_ranks);
    if (!history->wanted_ranks)
        return no_memory(err);
    for (size_t i = 0; i < filter->rank_count; i++)
        history->wanted_ranks[history->wanted_rank_count++] = filter->ranks[i];
    for (size_t i = 0; i < filter->host_count; i++) {
        rs_str id;
        if (!*filter->hosts[i]) /* it would choose all of them */
            return rs_err_set(err, RS_INVALID, "a host that is asked for has an empty name");
        if (add_text(&history->hosts, filter->hosts[i], &id) < 0)
            return no_memory(err);
    }
    history->wanted_host_count = history->hosts.count - 1; /* the first is the empty one */
    return RS_OK;
}

enum rs_status rs_history_new(enum rs_history_view view, const struct rs_history_filter *filter,
                              struct rs_history **history_p, struct rs_err *err)
{
    if (view == RS_HISTORY_HOSTS && filter->rank_count)
        return rs_err_set(err, RS_INVALID,
                          "hosts over all captures cannot be chosen by ranks: "
                          "a rank may be on another host in each");
    struct rs_history *history = rs_mem_calloc(1, sizeof *history);
    if (!history)
        return no_memory(err);
    history->view = view;
    history->table = rs_history_def(view)->table;
    enum rs_status status = RS_OK;
    if (rs_strtab_init(&history->texts, 0) < 0 || rs_strtab_init(&history->hosts, 0) < 0 ||
        rs_strtab_init(&history->runs, 0) < 0)
        status = no_memory(err);
    if (status == RS_OK)
        status = copy_filter(history, filter, err);
    if (status == RS_OK)
        *history_p = history;
    else
        rs_history_free(&history);
    return status;
}

void rs_history_free(struct rs_history **history_p)
{
    struct rs_history *history = *history_p;
    if (!history)
        return;
    for (size_t i = 0; i < history->by_host_count; i++) {
        rs_mem_free(history->by_host[i].last_capture);
        rs_mem_free(history->by_host[i].last_kind);
    }
    rs_strtab_fini(&history->texts);
    rs_strtab_fini(&history->hosts);
    rs_strtab_fini(&history->runs);
    rs_slots_fini(&history->host_run_slots);
    rs_mem_free(history->wanted_ranks);
    rs_mem_free(history->ranks);
    rs_mem_free(history->steps);
    rs_mem_free(history->findings);
    rs_mem_free(history->places);
    rs_mem_free(history->by_host);
    rs_mem_free(history->met);
    rs_mem_free(history->host_runs);
    rs_mem_free(history);
    *history_p = NULL;
}

/* ---- one capture's reads ----------------------------------------------------------------------------------------------- */

static bool is_wanted_host(const struct rs_history *history, rs_str host)
{
    return !history->wanted_host_count ||
           (host != RS_STR_NONE && host > 0 && host <= history->wanted_host_count);
}

static bool is_wanted(const struct rs_history *history, int64_t rank, rs_str host)
{
    bool is_it = !history->wanted_rank_count;
    for (size_t i = 0; i < history->wanted_rank_count && !is_it; i++)
        is_it = history->wanted_ranks[i] == rank;
    return is_it && is_wanted_host(history, host);
}

static bool has_filter(const struct rs_history *history)
{
    return history->wanted_rank_count || history->wanted_host_count;
}

/* A row; its texts go with the next. RS_NOMEM, RS_FORMAT. */
typedef enum rs_status take_fn(struct rs_history *history, const void *row);

static enum rs_status take_rank(struct rs_history *history, const void *row_)
{
    const struct rs_row_rank *row = row_;
    rs_str host;
    if (history->rank_count && history->ranks[history->rank_count - 1].rank == row->rank)
        return RS_OK; /* another part of it */
    if (rs_mem_grow((void **)&history->ranks, &history->rank_capacity, history->rank_count + 1,
                    sizeof *history->ranks) < 0 ||
        add_text(&history->hosts, row->host && *row->host ? row->host : NULL, &host) < 0)
        return RS_NOMEM;
    history->ranks[history->rank_count++] = (struct rank_facts){
        .rank = row->rank, .host = host, .is_wanted = is_wanted(history, row->rank, host)};
    return RS_OK;
}

static int by_rank(const void *a_, const void *b_)
{
    const struct rank_facts *a = a_, *b = b_;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* NULL: it is not among those that were joined. */
static struct rank_facts *find_rank(const struct rs_history *history, int64_t rank)
{
    const struct rank_facts wanted = {.rank = rank};
    return history->rank_count ? bsearch(&wanted, history->ranks, history->rank_count,
                                         sizeof *history->ranks, by_rank)
                               : NULL;
}

static enum rs_status take_steps(struct rs_history *history, const void *row_)
{
    const struct rs_row_rank_steps *row = row_;
    struct rank_facts *rank = find_rank(history, row->rank);
    if (rs_mem_grow((void **)&history->steps, &history->step_capacity, history->step_count + 1,
                    sizeof *history->steps) < 0)
        return RS_NOMEM;
    history->steps[history->step_count++] = *row;
    if (rank && row->steps > rank->steps)
        rank->steps = row->steps;
    return RS_OK;
}

/* Texts of rows go with the next of them. */
static enum rs_status keep_text(struct rs_history *history, const char **text)
{
    rs_str id;
    if (!*text)
        return RS_OK;
    if (add_text(&history->texts, *text, &id) < 0)
        return RS_NOMEM;
    *text = rs_strtab_text(&history->texts, id);
    return RS_OK;
}

static enum rs_status take_finding(struct rs_history *history, const void *row_)
{
    const struct rs_row_finding *row = row_;
    if (rs_mem_grow((void **)&history->findings, &history->finding_capacity,
                    history->finding_count + 1, sizeof *history->findings) < 0)
        return RS_NOMEM;
    if (!row->kind || !row->confidence)
        return RS_FORMAT;
    struct finding_facts *finding = &history->findings[history->finding_count];
    *finding = (struct finding_facts){.row = *row};
    if (keep_text(history, &finding->row.kind) < 0 ||
        keep_text(history, &finding->row.confidence) < 0)
        return RS_NOMEM;
    history->finding_count++;
    finding->is_sure = row->is_worth_fixing == 1 && strcmp(finding->row.confidence, "weak") != 0;
    finding->is_names =
        strcmp(finding->row.kind, "imbalance") != 0 && strcmp(finding->row.kind, "jitter") != 0;
    return RS_OK;
}

static bool is_of_members(const struct rs_row_finding_place *place)
{
    static const char *const kinds[] = {"rank", "pair", "link", "host"};
    bool is_it = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        is_it = is_it || strcmp(place->where_kind, kinds[i]) == 0;
    return is_it;
}

/* They come in the order of findings, which come in that of their numbers. */
static enum rs_status take_place(struct rs_history *history, const void *row_)
{
    const struct rs_row_finding_place *row = row_;
    if (rs_mem_grow((void **)&history->places, &history->place_capacity, history->place_count + 1,
                    sizeof *history->places) < 0)
        return RS_NOMEM;
    if (!row->where_kind)
        return RS_FORMAT;
    struct rs_row_finding_place *place = &history->places[history->place_count];
    *place = *row;
    if (keep_text(history, &place->where_kind) < 0 || keep_text(history, &place->name) < 0)
        return RS_NOMEM;
    size_t at = history->place_finding;
    while (at < history->finding_count && history->findings[at].row.finding_no < place->finding_no)
        at++;
    history->place_finding = at;
    if (at < history->finding_count && history->findings[at].row.finding_no == place->finding_no) {
        struct finding_facts *finding = &history->findings[at];
        if (!finding->place_count++)
            finding->place_first = history->place_count;
        if (place->is_also == 0 && !is_of_members(place))
            finding->is_names = false;
    }
    history->place_count++;
    return RS_OK;
}

static enum rs_status take_read(struct rs_history *history, struct rs_row_store *rows,
                                enum rs_read read, take_fn *take, struct rs_err *err)
{
    struct rows_reading reading = {0};
    const void *row = NULL;
    enum rs_status status = rows_reading_open(&reading, rows, read, err);
    while (status == RS_OK && (status = rows_reading_next(&reading, &row, err)) == RS_OK && row) {
        status = take(history, row);
        if (status == RS_FORMAT)
            status = rs_err_set(err, RS_FORMAT, "a row of %s lacks what every row of it has",
                                rs_read_def(read)->name);
        else if (status < 0)
            status = no_memory(err);
    }
    rows_reading_close(&reading);
    return status;
}

static enum rs_status take_capture(struct rs_history *history, struct rs_row_store *rows,
                                   struct rs_err *err)
{
    static const struct {
        enum rs_read read;
        take_fn *take;
    } reads[] = {{RS_READ_RANKS, take_rank},
                 {RS_READ_RANK_STEPS, take_steps},
                 {RS_READ_FINDINGS, take_finding},
                 {RS_READ_FINDING_PLACES, take_place}};
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof reads / sizeof reads[0] && status == RS_OK; i++)
        status = take_read(history, rows, reads[i].read, reads[i].take, err);
    return status;
}

static void forget_capture(struct rs_history *history)
{
    rs_strtab_reset(&history->texts);
    history->joined_hosts = 0;
    history->place_finding = 0;
    history->rank_count = history->step_count = history->finding_count = history->place_count = 0;
}

/* ---- who is named ------------------------------------------------------------------------------------------------------- */

/* It is met in this capture. NULL: no memory. */
static struct host_facts *facts_of_host(struct rs_history *history, rs_str host)
{
    const size_t count = history->hosts.count;
    if (rs_mem_grow((void **)&history->by_host, &history->by_host_capacity, count,
                    sizeof *history->by_host) < 0)
        return NULL;
    for (; history->by_host_count < count; history->by_host_count++)
        history->by_host[history->by_host_count] = (struct host_facts){
            .first_named_ns = RS_NULL, .last_named_ns = RS_NULL, .cost_ns = RS_NULL};
    struct host_facts *facts = &history->by_host[host];
    if (facts->is_met)
        return facts;
    if (rs_mem_grow((void **)&history->met, &history->met_capacity, history->met_count + 1,
                    sizeof *history->met) < 0)
        return NULL;
    history->met[history->met_count++] = host;
    facts->is_met = true;
    return facts;
}

static enum rs_status name_host(struct rs_history *history, rs_str host,
                                const struct finding_facts *finding,
                                const struct rs_history_capture *capture)
{
    struct host_facts *facts = host == RS_STR_NONE ? NULL : facts_of_host(history, host);
    if (!facts)
        return host == RS_STR_NONE ? RS_OK : RS_NOMEM;
    facts->is_seen = true;
    facts->is_hinted = facts->is_hinted || !finding->is_sure;
    if (!finding->is_sure)
        return RS_OK;
    if (!facts->is_named) { /* the first in the order of fixing is told */
        char *id = rs_mem_strdup(capture->id), *kind = rs_mem_strdup(finding->row.kind);
        if (!id || !kind) {
            rs_mem_free(id);
            rs_mem_free(kind);
            return RS_NOMEM;
        }
        rs_mem_free(facts->last_capture);
        rs_mem_free(facts->last_kind);
        facts->last_capture = id;
        facts->last_kind = kind;
        if (facts->first_named_ns == RS_NULL)
            facts->first_named_ns = capture->created_ns;
        facts->last_named_ns = capture->created_ns;
    }
    facts->is_named = true;
    if (finding->row.cost_ns_per_step != RS_NULL &&
        (facts->cost_ns == RS_NULL || finding->row.cost_ns_per_step > facts->cost_ns))
        facts->cost_ns = finding->row.cost_ns_per_step;
    return RS_OK;
}

static enum rs_status name_rank(struct rs_history *history, int64_t number,
                                const struct finding_facts *finding,
                                const struct rs_history_capture *capture)
{
    struct rank_facts *rank = number == RS_NULL ? NULL : find_rank(history, number);
    if (!rank || rank->told == finding->row.finding_no)
        return RS_OK;
    rank->told = finding->row.finding_no;
    rank->findings += finding->is_sure;
    rank->hints += !finding->is_sure;
    return name_host(history, rank->host, finding, capture);
}

static enum rs_status name_place(struct rs_history *history,
                                 const struct rs_row_finding_place *place,
                                 const struct finding_facts *finding,
                                 const struct rs_history_capture *capture)
{
    rs_str host = RS_STR_NONE;
    enum rs_status status = name_rank(history, place->rank, finding, capture);
    if (status == RS_OK)
        status = name_rank(history, place->src, finding, capture);
    if (status == RS_OK)
        status = name_rank(history, place->dst, finding, capture);
    if (status == RS_OK && strcmp(place->where_kind, "host") == 0 && place->name && *place->name)
        status = add_text(&history->hosts, place->name, &host);
    return status == RS_OK ? name_host(history, host, finding, capture) : status;
}

static enum rs_status name_all(struct rs_history *history, const struct rs_history_capture *capture)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < history->finding_count; i++) {
        const struct finding_facts *finding = &history->findings[i];
        for (size_t k = 0; finding->is_names && k < finding->place_count && status == RS_OK; k++)
            status =
                name_place(history, &history->places[finding->place_first + k], finding, capture);
    }
    for (size_t i = 0; i < history->rank_count && status == RS_OK; i++) {
        const struct rank_facts *rank = &history->ranks[i];
        if (rank->host == RS_STR_NONE)
            continue;
        struct host_facts *host = facts_of_host(history, rank->host);
        if (!host)
            return RS_NOMEM;
        history->joined_hosts += !host->is_joined;
        host->is_joined = true;
        host->is_seen = host->is_seen || rank->steps; /* without: nothing could be found of it */
    }
    return status;
}

static bool is_same_host_run(const void *self, uint32_t index, const void *wanted_)
{
    const struct host_run *have = &((const struct rs_history *)self)->host_runs[index];
    const struct host_run *wanted = wanted_;
    return have->host == wanted->host && have->run == wanted->run;
}

/* The run counts once for the host. */
static enum rs_status count_run(struct rs_history *history, const struct host_run *run)
{
    const uint64_t hash = rs_slots_mix(rs_slots_mix(0, run->host), run->run);
    uint32_t at = rs_slots_find(&history->host_run_slots, hash, is_same_host_run, history, run);
    if (at == RS_SLOTS_NONE) {
        if (history->host_run_count >= RS_SLOTS_NONE ||
            rs_mem_grow((void **)&history->host_runs, &history->host_run_capacity,
                        history->host_run_count + 1, sizeof *history->host_runs) < 0)
            return RS_NOMEM;
        at = (uint32_t)history->host_run_count;
        if (rs_slots_put(&history->host_run_slots, hash, at) < 0)
            return RS_NOMEM;
        history->host_runs[history->host_run_count++] = *run;
    }
    history->host_runs[at].is_named = history->host_runs[at].is_named || run->is_named;
    history->host_runs[at].is_hinted = history->host_runs[at].is_hinted || run->is_hinted;
    return RS_OK;
}

static enum rs_status count_hosts(struct rs_history *history,
                                  const struct rs_history_capture *capture)
{
    rs_str run = FIRST_UNKNOWN_RUN + history->unknown_runs;
    if (*capture->run && add_text(&history->runs, capture->run, &run) < 0)
        return RS_NOMEM;
    history->unknown_runs += !*capture->run;
    for (size_t i = 0; i < history->met_count; i++) {
        struct host_facts *host = &history->by_host[history->met[i]];
        const struct host_run host_run = {history->met[i], run, host->is_named, host->is_hinted};
        if (host->is_seen && count_run(history, &host_run) < 0)
            return RS_NOMEM;
        host->captures += host->is_seen;
        host->named += host->is_named;
        host->hinted += host->is_hinted && !host->is_named;
        host->is_met = host->is_joined = host->is_seen = host->is_named = host->is_hinted = false;
    }
    history->met_count = 0;
    return RS_OK;
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

static const char *host_text(const struct rs_history *history, rs_str host)
{
    return host == RS_STR_NONE ? NULL : rs_strtab_text(&history->hosts, host);
}

static const char *known_text(const char *text)
{
    return text && *text ? text : NULL;
}

static void put_one_place(struct rs_buf *buf, const struct rs_row_finding_place *place)
{
    if (strcmp(place->where_kind, "rank") == 0)
        rs_buf_printf(buf, "rank %" PRId64, place->rank);
    else if (strcmp(place->where_kind, "pair") == 0 || strcmp(place->where_kind, "link") == 0)
        rs_buf_printf(buf, "%s %" PRId64 "-%" PRId64, place->where_kind, place->src, place->dst);
    else if (strcmp(place->where_kind, "stage") == 0)
        rs_buf_printf(buf, "stage %" PRId64, place->stage);
    else if (strcmp(place->where_kind, "worker") == 0)
        rs_buf_printf(buf, "worker %" PRId64 " stage %" PRId64, place->dp, place->stage);
    else
        rs_buf_printf(buf, "%s %s", place->where_kind, place->name ? place->name : "?");
}

/* "rank 3, rank 5, host n1"; cut off where it would be long. */
static void put_named(const struct rs_history *history, const struct finding_facts *finding,
                      struct rs_buf *buf)
{
    bool has_any = false;
    for (size_t i = 0; i < finding->place_count; i++) {
        const struct rs_row_finding_place *place = &history->places[finding->place_first + i];
        if (place->is_also)
            continue;
        if (buf->length > NAMED_BYTES) {
            rs_buf_string(buf, ", ...");
            return;
        }
        rs_buf_string(buf, has_any ? ", " : "");
        put_one_place(buf, place);
        has_any = true;
    }
}

/* The first that is worth fixing and not weak; NULL: none is. */
static const struct finding_facts *first_finding(const struct rs_history *history)
{
    for (size_t i = 0; i < history->finding_count; i++)
        if (history->findings[i].is_sure)
            return &history->findings[i];
    return NULL;
}

static void fill_finding(const struct rs_history *history, struct rs_row_history_captures *row,
                         struct rs_block *block)
{
    const struct finding_facts *first = first_finding(history);
    struct rs_buf named = {0};
    row->findings = row->hints = 0;
    for (size_t i = 0; i < history->finding_count; i++) {
        row->findings += history->findings[i].is_sure;
        row->hints += !history->findings[i].is_sure;
    }
    if (!first)
        return;
    put_named(history, first, &named);
    rs_block_text(block, &row->kind, first->row.kind);
    rs_block_text(block, &row->named, known_text(rs_buf_text(&named)));
    rs_block_text(block, &row->confidence, first->row.confidence);
    row->cost_ns_per_step = first->row.cost_ns_per_step;
    row->share = first->row.share;
    block->has_failed = block->has_failed || named.failed;
    rs_buf_fini(&named);
}

static void put_capture(const struct rs_history *history, const struct rs_history_capture *capture,
                        bool has_rows, struct rs_block *block)
{
    int64_t steps = 0, sum = 0, count = 0;
    bool is_wanted = !has_filter(history);
    for (size_t i = 0; i < history->rank_count; i++) {
        is_wanted = is_wanted || history->ranks[i].is_wanted;
        steps = history->ranks[i].steps > steps ? history->ranks[i].steps : steps;
    }
    struct rs_row_history_captures *row = is_wanted ? rs_block_add(block) : NULL;
    if (!row)
        return; /* the block's end says that there was no memory */
    row->created_ns = capture->created_ns;
    rs_block_text(block, &row->capture, capture->id);
    rs_block_text(block, &row->run, known_text(capture->run));
    rs_block_text(block, &row->source, known_text(capture->source));
    rs_block_text(block, &row->state, capture->state);
    rs_block_text(block, &row->rows, has_rows ? "here" : capture->without);
    if (!has_rows)
        return;
    for (size_t i = 0; i < history->step_count; i++) {
        if (__builtin_add_overflow(sum, history->steps[i].window_sum_ns, &sum))
            return; /* no time of a job: its rows are damaged */
        count += history->steps[i].steps;
    }
    row->ranks = (int64_t)history->rank_count;
    row->hosts = history->joined_hosts;
    row->steps = steps;
    row->step_ns = count ? sum / count : RS_NULL;
    fill_finding(history, row, block);
}

static void put_rank(const struct rs_history *history, const struct rs_history_capture *capture,
                     const struct rank_facts *rank, const struct rs_row_rank_steps *steps,
                     struct rs_block *block)
{
    struct rs_row_history_ranks *row = rs_block_add(block);
    if (!row)
        return;
    row->created_ns = capture->created_ns;
    rs_block_text(block, &row->capture, capture->id);
    rs_block_text(block, &row->run, known_text(capture->run));
    rs_block_text(block, &row->host, host_text(history, rank->host));
    row->rank = rank->rank;
    row->findings = rank->findings;
    row->hints = rank->hints;
    row->steps = 0;
    if (!steps || steps->steps <= 0)
        return;
    row->device = steps->device;
    row->steps = steps->steps;
    row->step_ns = steps->window_sum_ns / steps->steps;
    row->computing_ns = steps->computing_sum_ns / steps->steps;
    row->exposed_ns = steps->exposed_sum_ns / steps->steps;
    row->memory_ns = steps->memory_sum_ns / steps->steps;
    row->idle_head_ns = steps->idle_head_sum_ns / steps->steps;
    row->idle_inside_ns = steps->idle_inside_sum_ns / steps->steps;
    row->idle_tail_ns = steps->idle_tail_sum_ns / steps->steps;
}

/* Both are in the order of ranks. */
static void put_ranks(const struct rs_history *history, const struct rs_history_capture *capture,
                      struct rs_block *block)
{
    size_t at = 0;
    for (size_t i = 0; i < history->rank_count; i++) {
        const struct rank_facts *rank = &history->ranks[i];
        bool has_any = false;
        while (at < history->step_count && history->steps[at].rank < rank->rank)
            at++;
        for (; at < history->step_count && history->steps[at].rank == rank->rank; at++) {
            if (rank->is_wanted)
                put_rank(history, capture, rank, &history->steps[at], block);
            has_any = true;
        }
        if (!has_any && rank->is_wanted)
            put_rank(history, capture, rank, NULL, block);
    }
}

static rs_str host_of_rank(const struct rs_history *history, int64_t number)
{
    const struct rank_facts *rank = number == RS_NULL ? NULL : find_rank(history, number);
    return rank ? rank->host : RS_STR_NONE;
}

static bool is_rank_wanted(const struct rs_history *history, int64_t number)
{
    const struct rank_facts *rank = number == RS_NULL ? NULL : find_rank(history, number);
    return rank && rank->is_wanted;
}

static bool is_place_wanted(const struct rs_history *history,
                            const struct rs_row_finding_place *place)
{
    if (!has_filter(history))
        return true;
    if (!place)
        return false;
    if (strcmp(place->where_kind, "host") == 0)
        return !history->wanted_rank_count && place->name &&
               is_wanted_host(history,
                              rs_strtab_find(&history->hosts, place->name, strlen(place->name)));
    return is_rank_wanted(history, place->rank) || is_rank_wanted(history, place->src) ||
           is_rank_wanted(history, place->dst);
}

static void put_finding(const struct rs_history *history, const struct rs_history_capture *capture,
                        const struct finding_facts *finding,
                        const struct rs_row_finding_place *place, struct rs_block *block)
{
    struct rs_row_history_findings *row =
        is_place_wanted(history, place) ? rs_block_add(block) : NULL;
    if (!row)
        return;
    row->created_ns = capture->created_ns;
    rs_block_text(block, &row->capture, capture->id);
    rs_block_text(block, &row->run, known_text(capture->run));
    row->finding_no = finding->row.finding_no;
    rs_block_text(block, &row->kind, finding->row.kind);
    rs_block_text(block, &row->confidence, finding->row.confidence);
    row->is_worth_fixing = finding->row.is_worth_fixing;
    row->cost_ns_per_step = finding->row.cost_ns_per_step;
    row->share = finding->row.share;
    if (!place)
        return;
    const char *host =
        strcmp(place->where_kind, "host") == 0
            ? place->name
            : host_text(history,
                        host_of_rank(history, place->rank != RS_NULL ? place->rank : place->src));
    row->place_no = place->place_no;
    row->is_also = place->is_also;
    rs_block_text(block, &row->where_kind, place->where_kind);
    row->rank = place->rank;
    row->src = place->src;
    row->dst = place->dst;
    row->stage = place->stage;
    row->dp = place->dp;
    rs_block_text(block, &row->name, place->name);
    rs_block_text(block, &row->host, host);
    rs_block_text(block, &row->dst_host, host_text(history, host_of_rank(history, place->dst)));
}

static void put_findings(const struct rs_history *history, const struct rs_history_capture *capture,
                         struct rs_block *block)
{
    for (size_t i = 0; i < history->finding_count; i++) {
        const struct finding_facts *finding = &history->findings[i];
        for (size_t k = 0; k < finding->place_count; k++)
            put_finding(history, capture, finding, &history->places[finding->place_first + k],
                        block);
        if (!finding->place_count)
            put_finding(history, capture, finding, NULL, block);
    }
}

enum rs_status rs_history_add(struct rs_history *history, const struct rs_history_capture *capture,
                              struct rs_row_store *rows, struct rs_block *block, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    forget_capture(history);
    rs_block_begin(block, history->table);
    if (rows)
        status = take_capture(history, rows, err);
    if (rows && status == RS_OK && name_all(history, capture) < 0)
        status = no_memory(err);
    if (status == RS_OK && history->view == RS_HISTORY_CAPTURES)
        put_capture(history, capture, rows != NULL, block);
    else if (status == RS_OK && history->view == RS_HISTORY_RANKS)
        put_ranks(history, capture, block);
    else if (status == RS_OK && history->view == RS_HISTORY_FINDINGS)
        put_findings(history, capture, block);
    if (rows && status == RS_OK && count_hosts(history, capture) < 0)
        status = no_memory(err);
    if (rs_block_end(block) < 0 && status == RS_OK)
        status = no_memory(err);
    if (status < 0)
        block->count = 0;
    return status;
}

/* ---- hosts --------------------------------------------------------------------------------------------------------------- */

struct host_order {
    const struct rs_history *history;
    uint32_t host;
};

/* Most often named first, then by name. */
static int by_named(const void *a_, const void *b_)
{
    const struct host_order *a = a_, *b = b_;
    const struct host_facts *left = &a->history->by_host[a->host],
                            *right = &b->history->by_host[b->host];
    if (left->named != right->named)
        return left->named > right->named ? -1 : 1;
    return strcmp(host_text(a->history, a->host), host_text(b->history, b->host));
}

static void put_host(const struct rs_history *history, uint32_t host, const int64_t runs[3],
                     struct rs_block *block)
{
    const struct host_facts *facts = &history->by_host[host];
    struct rs_row_history_hosts *row = rs_block_add(block);
    if (!row)
        return;
    rs_block_text(block, &row->host, host_text(history, host));
    row->runs = runs[0];
    row->runs_named = runs[1];
    row->runs_hinted = runs[2];
    row->captures = facts->captures;
    row->captures_named = facts->named;
    row->captures_hinted = facts->hinted;
    row->first_named_ns = facts->first_named_ns;
    row->last_named_ns = facts->last_named_ns;
    rs_block_text(block, &row->last_capture, facts->last_capture);
    rs_block_text(block, &row->last_kind, facts->last_kind);
    row->cost_ns_per_step = facts->cost_ns;
}

enum rs_status rs_history_end(struct rs_history *history, struct rs_block *block,
                              struct rs_err *err)
{
    const size_t count = history->view == RS_HISTORY_HOSTS ? history->by_host_count : 0;
    struct host_order *order = rs_mem_calloc(count + 1, sizeof *order);
    int64_t(*runs)[3] = rs_mem_calloc(count + 1, sizeof *runs);
    size_t shown = 0;
    rs_block_begin(block, history->table);
    for (size_t i = 0; order && runs && i < count; i++)
        if (history->by_host[i].captures && is_wanted_host(history, (rs_str)i))
            order[shown++] = (struct host_order){history, (uint32_t)i};
    for (size_t i = 0; runs && count && i < history->host_run_count; i++) {
        const struct host_run *run = &history->host_runs[i];
        runs[run->host][0]++;
        runs[run->host][1] += run->is_named;
        runs[run->host][2] += run->is_hinted && !run->is_named;
    }
    if (order && shown > 1)
        qsort(order, shown, sizeof *order, by_named);
    for (size_t i = 0; order && runs && i < shown; i++)
        put_host(history, order[i].host, runs[order[i].host], block);
    const bool has_failed = !order || !runs;
    rs_mem_free(order);
    rs_mem_free(runs);
    if (rs_block_end(block) == RS_OK && !has_failed)
        return RS_OK;
    block->count = 0;
    return no_memory(err);
}
