/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of dumps: keeping it, and the few facts about a dump that follow from its calls alone.
 */
#include "common/flight/flight.h"

#include "common/base/check.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

const char *rs_flight_op_text(enum rs_flight_op op)
{
    switch (op) {
    case RS_FLIGHT_OTHER:
        return "other";
    case RS_FLIGHT_ALL_REDUCE:
        return "all_reduce";
    case RS_FLIGHT_ALL_GATHER:
        return "all_gather";
    case RS_FLIGHT_REDUCE_SCATTER:
        return "reduce_scatter";
    case RS_FLIGHT_ALL_TO_ALL:
        return "all_to_all";
    case RS_FLIGHT_BARRIER:
        return "barrier";
    case RS_FLIGHT_BROADCAST:
        return "broadcast";
    case RS_FLIGHT_REDUCE:
        return "reduce";
    case RS_FLIGHT_GATHER:
        return "gather";
    case RS_FLIGHT_SCATTER:
        return "scatter";
    case RS_FLIGHT_SEND:
        return "send";
    case RS_FLIGHT_RECV:
        return "recv";
    case RS_FLIGHT_COALESCED:
        return "coalesced";
    }
    return "other";
}

enum rs_status rs_flight_set_init(struct rs_flight_set *set)
{
    *set = (struct rs_flight_set){0};
    return rs_strtab_init(&set->strings, 0);
}

static void dump_fini(struct rs_flight_dump *dump)
{
    for (size_t i = 0; i < dump->group_count; i++)
        rs_mem_free(dump->groups[i].ranks);
    rs_mem_free(dump->groups);
    rs_mem_free(dump->path);
    rs_mem_free(dump->host);
    rs_mem_free(dump->stack);
    rs_mem_free(dump->problem);
}

void rs_flight_set_fini(struct rs_flight_set *set)
{
    for (size_t i = 0; i < set->dump_count; i++)
        dump_fini(&set->dumps[i]);
    for (size_t i = 0; i < set->note_count; i++)
        rs_mem_free(set->notes[i]);
    rs_mem_free(set->dumps);
    rs_mem_free(set->entries);
    rs_mem_free(set->witnesses);
    rs_mem_free(set->notes);
    rs_strtab_fini(&set->strings);
    *set = (struct rs_flight_set){0};
}

enum rs_status rs_flight_begin(struct rs_flight_set *set, const char *path,
                               struct rs_flight_dump **dump_p)
{
    enum rs_status status = rs_mem_grow((void **)&set->dumps, &set->dump_capacity,
                                        set->dump_count + 1, sizeof *set->dumps);
    char *copy = status == RS_OK ? rs_mem_strdup(path) : NULL;
    char *host = copy ? rs_mem_strdup("") : NULL;
    if (!host) {
        rs_mem_free(copy);
        return RS_NOMEM;
    }
    set->dumps[set->dump_count] = (struct rs_flight_dump){.path = copy,
                                                          .host = host,
                                                          .rank = -1,
                                                          .taken_ns = RS_FLIGHT_UNKNOWN,
                                                          .dropped = RS_FLIGHT_UNKNOWN,
                                                          .entry_first = set->entry_count};
    *dump_p = &set->dumps[set->dump_count++];
    return RS_OK;
}

static struct rs_flight_dump *last_dump(struct rs_flight_set *set)
{
    RS_CHECK(set->dump_count);
    return &set->dumps[set->dump_count - 1];
}

void rs_flight_drop_last(struct rs_flight_set *set)
{
    struct rs_flight_dump *dump = last_dump(set);
    set->entry_count = dump->entry_first;
    dump_fini(dump);
    set->dump_count--;
}

static int64_t sane(int64_t ns)
{
    return ns >= 0 && ns <= RS_FLIGHT_TIME_MAX ? ns : RS_FLIGHT_UNKNOWN;
}

enum rs_status rs_flight_add(struct rs_flight_set *set, const struct rs_flight_entry *entry)
{
    if (set->entry_count == set->entry_capacity) {
        const enum rs_status status = rs_mem_grow((void **)&set->entries, &set->entry_capacity,
                                                  set->entry_count + 1, sizeof *set->entries);
        if (status != RS_OK)
            return status;
    }
    struct rs_flight_entry *own = &set->entries[set->entry_count++];
    *own = *entry;
    own->created_ns = sane(own->created_ns);
    own->started_ns = sane(own->started_ns);
    own->completed_ns = sane(own->completed_ns);
    own->duration_ns = sane(own->duration_ns);
    own->timeout_ns = sane(own->timeout_ns);
    last_dump(set)->entry_count++;
    return RS_OK;
}

void rs_flight_expect(struct rs_flight_set *set, size_t dumps)
{
    static const size_t most_bytes = 1u << 30, huge_bytes = 2u << 20;
    const size_t each = set->dump_count ? last_dump(set)->entry_count : 0;
    if (!each || dumps > most_bytes / sizeof *set->entries / each ||
        rs_mem_grow((void **)&set->entries, &set->entry_capacity, set->entry_count + dumps * each,
                    sizeof *set->entries) < 0)
        return;
    const uintptr_t begin = (uintptr_t)set->entries;
    const uintptr_t first = (begin + huge_bytes - 1) / huge_bytes * huge_bytes;
    const uintptr_t end =
        (begin + set->entry_capacity * sizeof *set->entries) / huge_bytes * huge_bytes;
    if (first < end) /* where it is refused, small pages do */
        (void)madvise((uint8_t *)set->entries + (first - begin), end - first, MADV_HUGEPAGE);
}

enum rs_status rs_flight_group_of(struct rs_flight_set *set, rs_str name, rs_str desc,
                                  uint32_t *index_p)
{
    struct rs_flight_dump *dump = last_dump(set);
    for (size_t i = 0; i < dump->group_count; i++) {
        if (dump->groups[i].name == name && dump->groups[i].desc == desc) {
            *index_p = (uint32_t)i;
            return RS_OK;
        }
    }
    const enum rs_status status = rs_mem_grow((void **)&dump->groups, &dump->group_capacity,
                                              dump->group_count + 1, sizeof *dump->groups);
    if (status != RS_OK)
        return status;
    *index_p = (uint32_t)dump->group_count;
    dump->groups[dump->group_count++] =
        (struct rs_flight_group){.name = name,
                                 .desc = desc,
                                 .pg_id = -1,
                                 .last_enqueued = RS_FLIGHT_UNKNOWN,
                                 .last_started = RS_FLIGHT_UNKNOWN,
                                 .last_completed = RS_FLIGHT_UNKNOWN};
    return RS_OK;
}

static int by_record(const void *a, const void *b)
{
    const struct rs_flight_entry *x = a, *y = b;
    return (x->record_id > y->record_id) - (x->record_id < y->record_id);
}

static bool is_backend(const struct rs_flight_set *set, const struct rs_flight_dump *dump,
                       const char *name)
{
    return strcmp(rs_strtab_text(&set->strings, dump->backend), name) == 0;
}

/* gloo's states stay "scheduled": what is over is retired. Elsewhere a retired call that did not complete was given up. */
void rs_flight_end(struct rs_flight_set *set)
{
    struct rs_flight_dump *dump = last_dump(set);
    if (!dump->entry_count)
        return;
    struct rs_flight_entry *entries = set->entries + dump->entry_first;
    bool is_sorted = true;
    dump->is_half_blind = is_backend(set, dump, "gloo");
    for (size_t i = 0; i < dump->entry_count; i++) {
        struct rs_flight_entry *entry = &entries[i];
        is_sorted = is_sorted && (i == 0 || entries[i - 1].record_id <= entry->record_id);
        dump->knows_starts = dump->knows_starts || entry->started_ns != RS_FLIGHT_UNKNOWN ||
                             entry->state == RS_FLIGHT_STARTED;
        if (dump->is_half_blind && entry->state == RS_FLIGHT_COMPLETED)
            dump->is_half_blind = false; /* a gloo that has learnt to say it */
    }
    if (!is_sorted)
        qsort(entries, dump->entry_count, sizeof *entries, by_record);
    for (size_t i = 0; i < dump->entry_count; i++) {
        struct rs_flight_entry *entry = &entries[i];
        dump->is_sparse = dump->is_sparse || (i && entry->record_id > entries[i - 1].record_id + 1);
        if (!dump->is_half_blind && (entry->flags & RS_FLIGHT_RETIRED) &&
            entry->state != RS_FLIGHT_COMPLETED)
            entry->flags |= RS_FLIGHT_TIMED_OUT;
    }
    dump->dropped = entries[0].record_id;
}

bool rs_flight_is_done(const struct rs_flight_dump *dump, const struct rs_flight_entry *entry)
{
    if (dump->is_half_blind)
        return entry->flags & RS_FLIGHT_RETIRED;
    return entry->state == RS_FLIGHT_COMPLETED;
}

enum rs_status rs_flight_witness_add(struct rs_flight_set *set,
                                     const struct rs_flight_witness *witness)
{
    const enum rs_status status = rs_mem_grow((void **)&set->witnesses, &set->witness_capacity,
                                              set->witness_count + 1, sizeof *set->witnesses);
    if (status == RS_OK)
        set->witnesses[set->witness_count++] = *witness;
    return status;
}

static RS_PRINTF(1, 0) char *sentence(const char *format, va_list arguments)
{
    char text[1024];
    (void)vsnprintf(text, sizeof text, format, arguments);
    return rs_mem_strdup(text);
}

enum rs_status rs_flight_note(struct rs_flight_set *set, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = sentence(format, arguments);
    va_end(arguments);
    const enum rs_status status = text ? rs_mem_grow((void **)&set->notes, &set->note_capacity,
                                                     set->note_count + 1, sizeof *set->notes)
                                       : RS_NOMEM;
    if (status != RS_OK)
        rs_mem_free(text);
    else
        set->notes[set->note_count++] = text;
    return status;
}

enum rs_status rs_flight_problem(struct rs_flight_dump *dump, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = sentence(format, arguments);
    va_end(arguments);
    if (!text)
        return RS_NOMEM;
    rs_mem_free(dump->problem);
    dump->problem = text;
    return RS_OK;
}

/* By rank; of one rank the newest first, and the longer of equally old ones. */
static int by_rank(const void *a, const void *b)
{
    const struct rs_flight_dump *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->taken_ns != y->taken_ns)
        return x->taken_ns > y->taken_ns ? -1 : 1;
    if (x->entry_count != y->entry_count)
        return x->entry_count > y->entry_count ? -1 : 1;
    return strcmp(x->path, y->path);
}

enum rs_status rs_flight_set_sort(struct rs_flight_set *set)
{
    if (set->dump_count)
        qsort(set->dumps, set->dump_count, sizeof *set->dumps, by_rank);
    size_t kept = 0;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < set->dump_count; i++) {
        struct rs_flight_dump *dump = &set->dumps[i];
        const struct rs_flight_dump *before = kept ? &set->dumps[kept - 1] : NULL;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as many as are counted */
        if (before && before->rank == dump->rank) {
            if (status == RS_OK)
                status = rs_flight_note(set,
                                        "rank %" PRId32 " stands in %.200s and in %.200s; the "
                                        "newer, the first, was taken",
                                        dump->rank, before->path, dump->path);
            dump_fini(dump);
            continue;
        }
        if (kept != i)
            set->dumps[kept] = *dump; /* NOLINT(clang-analyzer-core.NullDereference): as above */
        kept++;
    }
    set->dump_count = kept;
    return status;
}

/* --- names of calls ------------------------------------------------------------------------------------------- */

struct op_word {
    const char *word;
    enum rs_flight_op op;
};

/* By what the word begins with, longer words first: the backends have a dozen spellings each. */
static const struct op_word op_words[] = {
    {"all_reduce_barrier", RS_FLIGHT_BARRIER},
    {"all_reduce", RS_FLIGHT_ALL_REDUCE},
    {"allreduce", RS_FLIGHT_ALL_REDUCE},
    {"_all_gather_base", RS_FLIGHT_ALL_GATHER},
    {"_allgather_base", RS_FLIGHT_ALL_GATHER},
    {"all_gather", RS_FLIGHT_ALL_GATHER},
    {"allgather", RS_FLIGHT_ALL_GATHER},
    {"_reduce_scatter_base", RS_FLIGHT_REDUCE_SCATTER},
    {"reduce_scatter", RS_FLIGHT_REDUCE_SCATTER},
    {"all_to_all", RS_FLIGHT_ALL_TO_ALL},
    {"alltoall", RS_FLIGHT_ALL_TO_ALL},
    {"barrier", RS_FLIGHT_BARRIER},
    {"_broadcast_oop", RS_FLIGHT_BROADCAST},
    {"broadcast", RS_FLIGHT_BROADCAST},
    {"_reduce_oop", RS_FLIGHT_REDUCE},
    {"reduce", RS_FLIGHT_REDUCE},
    {"gather", RS_FLIGHT_GATHER},
    {"scatter", RS_FLIGHT_SCATTER},
    {"send", RS_FLIGHT_SEND},
    {"recv", RS_FLIGHT_RECV},
    {"coalesced", RS_FLIGHT_COALESCED},
};

static int32_t read_rank(const char **at, const char *end)
{
    int64_t value = -1;
    while (*at < end && **at >= '0' && **at <= '9') {
        value = (value < 0 ? 0 : value) * 10 + (**at - '0');
        if (value > INT32_MAX)
            return -1;
        (*at)++;
    }
    return (int32_t)value;
}

/* "1->2" is from 1 to 2, "3<-0" from 0 to 3, "3<-?" from anybody. */
static void read_peers(const char *at, const char *end, struct rs_flight_name *name)
{
    while (at < end && *at == ' ')
        at++;
    const int32_t left = read_rank(&at, end);
    if (end - at < 2)
        return;
    const bool is_to = at[0] == '-' && at[1] == '>', is_from = at[0] == '<' && at[1] == '-';
    at += 2;
    const int32_t right = read_rank(&at, end);
    if (is_to) {
        name->src = left;
        name->dst = right;
    } else if (is_from) {
        name->src = right;
        name->dst = left;
    }
}

struct rs_flight_name rs_flight_name_read(const char *text, size_t length)
{
    size_t colon = length;
    while (colon && text[colon - 1] != ':')
        colon--;
    struct rs_flight_name name = {.op_text = text + colon,
                                  .op_length = length - colon,
                                  .backend_length = colon ? colon - 1 : 0,
                                  .op = RS_FLIGHT_OTHER,
                                  .src = -1,
                                  .dst = -1};
    for (size_t i = 0; i < sizeof op_words / sizeof op_words[0]; i++) {
        const size_t word = strlen(op_words[i].word);
        if (name.op_length >= word && strncasecmp(name.op_text, op_words[i].word, word) == 0) {
            name.op = op_words[i].op;
            if (name.op == RS_FLIGHT_SEND || name.op == RS_FLIGHT_RECV)
                read_peers(name.op_text + word, text + length, &name);
            break;
        }
    }
    /* "nccl:all_reduce:coalesced": the backend is what stands before the first colon. */
    for (size_t i = 0; i < name.backend_length; i++)
        if (text[i] == ':')
            name.backend_length = i;
    return name;
}
