/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flight recorder dump: from plain values to calls and groups.
 *
 *   {version, comm_lib_version, pg_config{name: {name, desc, ranks "[0, 1]"}}, pg_status{pg_id: {last_...}},
 *    entries[{record_id, pg_id, process_group (name, desc), collective_seq_id, p2p_seq_id, op_id, profiling_name, ...}],
 *    nccl_comm_state{...}}
 *
 * A call is taken when its dictionary closes, wherever it stands; so a truncated dump gives every call that is whole, and
 * memory does not grow with the ring. Sizes, types and frames repeat from call to call: their text is made once for each
 * different tree of values, found by its hash. Fields that we do not know are stepped over; a field of another type than
 * ours makes the call a bad one, which is counted and left out.
 */
#include "collector/source/flight.h"

#include "collector/source/flight_priv.h"
#include "common/base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- words ------------------------------------------------------------------------------------------------------ */

/* clang-format off */
#define WORDS(X) \
    X(RECORD_ID, "record_id") X(PG_ID, "pg_id") X(PROCESS_GROUP, "process_group") \
    X(COLLECTIVE_SEQ, "collective_seq_id") X(P2P_SEQ, "p2p_seq_id") X(SEQ, "seq_id") \
    X(NAME_OF_CALL, "profiling_name") X(CREATED, "time_created_ns") X(DURATION, "duration_ms") \
    X(IN_SIZES, "input_sizes") X(OUT_SIZES, "output_sizes") X(IN_TYPES, "input_dtypes") X(OUT_TYPES, "output_dtypes") \
    X(STATE, "state") X(STARTED_AT, "time_discovered_started_ns") X(COMPLETED_AT, "time_discovered_completed_ns") \
    X(RETIRED, "retired") X(TIMEOUT, "timeout_ms") X(IS_P2P, "is_p2p") X(FRAMES, "frames") \
    X(FRAME_NAME, "name") X(FILENAME, "filename") X(LINE, "line") X(DESC, "desc") X(RANKS, "ranks") \
    X(VERSION, "version") X(PG_CONFIG, "pg_config") X(PG_STATUS, "pg_status") X(ENTRIES, "entries") \
    X(LAST_ENQUEUED, "last_enqueued_collective") X(LAST_STARTED, "last_started_collective") \
    X(LAST_COMPLETED, "last_completed_collective") \
    X(SCHEDULED, "scheduled") X(STARTED, "started") X(COMPLETED, "completed")
/* clang-format on */

enum word {
    WORD_NEW, /* not looked up yet */
#define X(name, text) WORD_##name,
    WORDS(X)
#undef X
        WORD_COUNT,
    WORD_OTHER = -1,
};

static const char *const words[] = {[WORD_NEW] = "",
#define X(name, text) [WORD_##name] = text,
                                    WORDS(X)
#undef X
};

static int32_t find_word(struct rs_pickle_text *text)
{
    text->word = WORD_OTHER;
    for (int32_t i = 1; i < WORD_COUNT; i++)
        if (strlen(words[i]) == text->length && memcmp(words[i], text->bytes, text->length) == 0)
            text->word = i;
    return text->word;
}

static inline int32_t word_of(struct rs_pickle *pickle, struct rs_pickle_value value)
{
    if (value.kind != RS_PICKLE_TEXT)
        return WORD_OTHER;
    struct rs_pickle_text *text = &pickle->texts[value.index];
    return text->word == WORD_NEW ? find_word(text) : text->word;
}

/* --- values ----------------------------------------------------------------------------------------------------- */

enum { NODES_MAX = 4096, TEXT_MAX = 16384, NAME_MAX_BYTES = 1024, RANKS_MAX = 1 << 20 };

static enum rs_status id_of(struct rs_flight_reader *reader, struct rs_pickle_value value,
                            rs_str *id_p)
{
    *id_p = RS_STR_EMPTY;
    if (value.kind != RS_PICKLE_TEXT)
        return RS_OK;
    struct rs_pickle_text *text = &reader->pickle.texts[value.index];
    if (!text->id && text->length) {
        const size_t length = text->length < NAME_MAX_BYTES ? text->length : NAME_MAX_BYTES;
        const enum rs_status status =
            rs_strtab_add(&reader->set->strings, text->bytes, length, &text->id);
        if (status != RS_OK)
            return status;
    }
    *id_p = text->id;
    return RS_OK;
}

/* Numbers may stand as text (pg_status in JSON, thread ids). */
static bool number_of(const struct rs_pickle *pickle, struct rs_pickle_value value,
                      int64_t *number_p)
{
    if (value.kind == RS_PICKLE_INT || value.kind == RS_PICKLE_BOOL) {
        *number_p = value.number;
        return true;
    }
    if (value.kind != RS_PICKLE_TEXT)
        return false;
    const struct rs_pickle_text *text = &pickle->texts[value.index];
    size_t at = text->length && text->bytes[0] == '-';
    int64_t number = 0;
    if (at == text->length || text->length > 18)
        return false;
    for (; at < text->length; at++) {
        if (text->bytes[at] < '0' || text->bytes[at] > '9')
            return false;
        number = number * 10 + (text->bytes[at] - '0');
    }
    *number_p = text->bytes[0] == '-' ? -number : number;
    return true;
}

static inline uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Texts, and containers of the memo, count by where they stand: libtorch writes each once. False: too many values to look at. */
static bool hash_tree(const struct rs_pickle *pickle, struct rs_pickle_value value, unsigned *left,
                      uint64_t *hash)
{
    if (!(*left)--)
        return false;
    *hash = mix(*hash, value.kind);
    if (value.kind < RS_PICKLE_LIST || value.kind > RS_PICKLE_DICT) {
        *hash = mix(*hash, value.kind == RS_PICKLE_TEXT ? value.index : (uint64_t)value.number);
        return true;
    }
    size_t count;
    const struct rs_pickle_value *items = rs_pickle_items(pickle, value, &count);
    *hash = mix(*hash, count);
    if (pickle->objects[value.index].is_in_memo) { /* it is itself: frames that many calls share */
        *hash = mix(*hash, value.index);
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        /* Depth is bounded by the limit of the machine, unless a container holds itself: then by `left`. */
        if (!hash_tree(pickle, items[i], left, hash))
            return false;
    }
    return true;
}

static void forget_all(struct rs_flight_reader *reader)
{
    memset(reader->sizes, 0, sizeof reader->sizes);
    memset(reader->names, 0, sizeof reader->names);
    memset(reader->frames, 0, sizeof reader->frames);
    memset(reader->groups, 0, sizeof reader->groups);
    memset(reader->calls, 0, sizeof reader->calls);
    reader->memo_changes = reader->pickle.memo_changes;
}

/* Where the cache has this value (true), or is to have it, with the key already there. NULL: it cannot be told. */
static struct flight_cached *find(struct rs_flight_reader *reader, struct flight_cached *cache,
                                  struct rs_pickle_value value, bool *is_known_p)
{
    struct flight_cached key = {.hash = 1};
    if (value.kind == RS_PICKLE_SPAN) {
        if (reader->memo_changes != reader->pickle.memo_changes)
            forget_all(reader);
        key.bytes = reader->pickle.data + value.number;
        key.length = value.index;
        key.hash = (uint64_t)value.number * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    } else {
        unsigned left = NODES_MAX;
        if (!hash_tree(&reader->pickle, value, &left, &key.hash))
            return NULL;
    }
    /* Files of one job are of one layout: two values that want one place would drive each other out in all of them. */
    struct flight_cached *set = &cache[key.hash % (FLIGHT_CACHE / FLIGHT_WAYS) * FLIGHT_WAYS];
    struct flight_cached *slot = NULL;
    for (size_t i = 0; i < FLIGHT_WAYS; i++) {
        struct flight_cached *way = &set[i];
        *is_known_p = way->is_used && way->hash == key.hash && way->bytes == key.bytes &&
                      way->length == key.length;
        if (*is_known_p)
            return way;
        if (!way->is_used && !slot)
            slot = way;
    }
    if (!slot)
        slot = &set[reader->next_way++ % FLIGHT_WAYS];
    *slot = key;
    return slot;
}

/* A span's value; anything else is its own. RS_FORMAT: the span is wrong. RS_NOMEM. */
static enum rs_status unfolded(struct rs_flight_reader *reader, struct rs_pickle_value *value)
{
    if (value->kind != RS_PICKLE_SPAN)
        return RS_OK;
    const enum rs_status status = rs_pickle_unfold(&reader->pickle, *value, value);
    return status == RS_LIMIT ? RS_FORMAT : status; /* the machine will come to the limit again */
}

/* "[16, 4]" of numbers, and how many elements that is: -1 when it is no list of numbers, or beyond 63 bits. */
static int64_t put_dims(struct rs_flight_reader *reader, struct rs_pickle_value value)
{
    size_t count;
    const struct rs_pickle_value *items = rs_pickle_items(&reader->pickle, value, &count);
    int64_t numel = value.kind == RS_PICKLE_LIST || value.kind == RS_PICKLE_TUPLE ? 1 : -1;
    rs_buf_string(&reader->text, "[");
    for (size_t i = 0; i < count && reader->text.length < TEXT_MAX; i++) {
        const bool is_number = items[i].kind == RS_PICKLE_INT && items[i].number >= 0;
        if (is_number)
            rs_buf_printf(&reader->text, i ? ", %" PRId64 : "%" PRId64, items[i].number);
        if (!is_number || numel < 0 || __builtin_mul_overflow(numel, items[i].number, &numel))
            numel = -1;
    }
    rs_buf_string(&reader->text, "]");
    return numel;
}

/* [[16], [4, 4]] -> "[16] [4, 4]". */
static enum rs_status take_sizes(struct rs_flight_reader *reader, struct rs_pickle_value value,
                                 int64_t *numel_p, rs_str *id_p)
{
    bool is_known;
    *numel_p = -1;
    *id_p = RS_STR_EMPTY;
    if (value.kind != RS_PICKLE_LIST && value.kind != RS_PICKLE_SPAN)
        return RS_OK;
    struct flight_cached *slot = find(reader, reader->sizes, value, &is_known);
    if (!slot)
        return RS_OK;
    if (!is_known) {
        size_t count;
        enum rs_status status = unfolded(reader, &value);
        if (status != RS_OK || value.kind != RS_PICKLE_LIST)
            return status;
        const struct rs_pickle_value *items = rs_pickle_items(&reader->pickle, value, &count);
        int64_t sum = 0;
        rs_buf_reset(&reader->text);
        for (size_t i = 0; i < count && reader->text.length < TEXT_MAX; i++) {
            rs_buf_string(&reader->text, i ? " " : "");
            const int64_t numel = put_dims(reader, items[i]);
            if (numel < 0 || sum < 0 || __builtin_add_overflow(sum, numel, &sum))
                sum = -1;
        }
        status = rs_strtab_add(&reader->set->strings, rs_buf_text(&reader->text),
                               reader->text.length, &slot->id);
        if (status != RS_OK)
            return status;
        slot->numel = sum;
        slot->is_used = true;
    }
    *numel_p = slot->numel;
    *id_p = slot->id;
    return RS_OK;
}

static void put_text(struct rs_flight_reader *reader, struct rs_pickle_value value)
{
    if (value.kind != RS_PICKLE_TEXT)
        return;
    const struct rs_pickle_text *text = &reader->pickle.texts[value.index];
    rs_buf_bytes(&reader->text, text->bytes,
                 text->length < NAME_MAX_BYTES ? text->length : NAME_MAX_BYTES);
}

/* ["Float", "Float"] -> "Float Float". */
static void put_types(struct rs_flight_reader *reader, const struct rs_pickle_value *items,
                      size_t count)
{
    for (size_t i = 0; i < count && reader->text.length < TEXT_MAX; i++) {
        rs_buf_string(&reader->text, i ? " " : "");
        put_text(reader, items[i]);
    }
}

/* [{name, filename, line}] -> "name (filename:line)" a line, innermost first. */
static void put_frames(struct rs_flight_reader *reader, const struct rs_pickle_value *items,
                       size_t count)
{
    struct rs_pickle *pickle = &reader->pickle;
    for (size_t i = 0; i < count && reader->text.length < TEXT_MAX; i++) {
        struct rs_pickle_value name = {0}, file = {0}, line = {0};
        size_t pairs;
        const struct rs_pickle_value *pair = rs_pickle_items(pickle, items[i], &pairs);
        for (size_t k = 0; items[i].kind == RS_PICKLE_DICT && k + 1 < pairs; k += 2) {
            const int32_t word = word_of(pickle, pair[k]);
            if (word == WORD_FRAME_NAME)
                name = pair[k + 1];
            else if (word == WORD_FILENAME)
                file = pair[k + 1];
            else if (word == WORD_LINE)
                line = pair[k + 1];
        }
        rs_buf_string(&reader->text, i ? "\n" : "");
        put_text(reader, name);
        rs_buf_string(&reader->text, " (");
        put_text(reader, file);
        if (line.kind == RS_PICKLE_INT)
            rs_buf_printf(&reader->text, ":%" PRId64, line.number);
        rs_buf_string(&reader->text, ")");
    }
}

typedef void put_fn(struct rs_flight_reader *reader, const struct rs_pickle_value *items,
                    size_t count);

static enum rs_status take_list(struct rs_flight_reader *reader, struct rs_pickle_value value,
                                struct flight_cached *cache, put_fn *put, rs_str *id_p)
{
    bool is_known;
    *id_p = RS_STR_EMPTY;
    if (value.kind != RS_PICKLE_LIST && value.kind != RS_PICKLE_SPAN)
        return RS_OK;
    struct flight_cached *slot = find(reader, cache, value, &is_known);
    if (!slot)
        return RS_OK;
    if (!is_known) {
        size_t count;
        enum rs_status status = unfolded(reader, &value);
        if (status != RS_OK || value.kind != RS_PICKLE_LIST)
            return status;
        const struct rs_pickle_value *items = rs_pickle_items(&reader->pickle, value, &count);
        rs_buf_reset(&reader->text);
        put(reader, items, count);
        status = rs_strtab_add(&reader->set->strings, rs_buf_text(&reader->text),
                               reader->text.length, &slot->id);
        if (status != RS_OK)
            return status;
        slot->is_used = true;
    }
    *id_p = slot->id;
    return RS_OK;
}

/* --- a call ----------------------------------------------------------------------------------------------------- */

/* The values of a call by their words; only those that `has` has a bit of are set. */
struct fields {
    uint64_t has;
    struct rs_pickle_value at[WORD_COUNT];
};
static_assert(WORD_COUNT <= 64, "a bit for each word");

static inline bool has_field(const struct fields *fields, enum word word)
{
    return fields->has >> word & 1;
}

static inline struct rs_pickle_value field(const struct fields *fields, enum word word)
{
    return has_field(fields, word) ? fields->at[word] : (struct rs_pickle_value){0};
}

static int64_t time_field(const struct rs_flight_reader *reader, const struct fields *fields,
                          enum word word)
{
    const struct rs_pickle_value value = field(fields, word);
    if (value.kind != RS_PICKLE_INT || (reader->is_json && !value.number))
        return RS_FLIGHT_UNKNOWN;
    return value.number;
}

static int64_t ms_field(const struct fields *fields, enum word word)
{
    const struct rs_pickle_value value = field(fields, word);
    double ms = -1;
    if (value.kind == RS_PICKLE_INT)
        ms = (double)value.number;
    else if (value.kind == RS_PICKLE_FLOAT)
        ms = value.real;
    return ms >= 0 && ms < 9e12 ? (int64_t)(ms * 1e6) : RS_FLIGHT_UNKNOWN;
}

static bool flag_field(const struct fields *fields, enum word word)
{
    const struct rs_pickle_value value = field(fields, word);
    return (value.kind == RS_PICKLE_BOOL || value.kind == RS_PICKLE_INT) && value.number;
}

/* (name, description), or in dumps that lack it the number of the group. */
static enum rs_status find_group(struct rs_flight_reader *reader, struct rs_pickle_value value,
                                 int64_t pg_id, uint32_t *group_p)
{
    struct rs_pickle_value pair[2] = {{0}, {0}};
    size_t count;
    const struct rs_pickle_value *items = rs_pickle_items(&reader->pickle, value, &count);
    for (size_t i = 0; i < 2 && i < count; i++)
        pair[i] = items[i];
    rs_str name = RS_STR_EMPTY, desc = RS_STR_EMPTY;
    enum rs_status status = id_of(reader, pair[0], &name);
    if (status == RS_OK)
        status = id_of(reader, pair[1], &desc);
    if (status == RS_OK && pair[0].kind != RS_PICKLE_TEXT) {
        char text[32];
        const int length = snprintf(text, sizeof text, "%" PRId64, pg_id);
        status = rs_strtab_add(&reader->set->strings, text, (size_t)length, &name);
    }
    return status == RS_OK ? rs_flight_group_of(reader->set, name, desc, group_p) : status;
}

static enum rs_status take_group(struct rs_flight_reader *reader, const struct fields *fields,
                                 int64_t pg_id, struct rs_flight_entry *entry)
{
    struct rs_pickle_value value = field(fields, WORD_PROCESS_GROUP);
    struct flight_cached *slot = NULL;
    bool is_known = false;
    enum rs_status status = RS_OK;
    if (value.kind == RS_PICKLE_SPAN) {
        slot = find(reader, reader->groups, value, &is_known);
        status = is_known ? RS_OK : unfolded(reader, &value);
    }
    if (status == RS_OK && is_known)
        entry->group = (uint32_t)slot->numel;
    else if (status == RS_OK)
        status = find_group(reader, value, pg_id, &entry->group);
    if (status != RS_OK)
        return status;
    if (slot && !is_known) {
        size_t count;
        const struct rs_pickle_value *items = rs_pickle_items(&reader->pickle, value, &count);
        slot->numel = entry->group;
        slot->is_used = count && items[0].kind == RS_PICKLE_TEXT; /* else pg_id has a say */
    }
    reader->set->dumps[reader->set->dump_count - 1].groups[entry->group].pg_id = pg_id;
    return RS_OK;
}

/* The name is read once for each text. */
static enum rs_status take_name(struct rs_flight_reader *reader, struct rs_pickle_value value,
                                struct rs_flight_entry *entry)
{
    struct flight_name *known = &reader->calls[value.index % FLIGHT_CALLS];
    if (!known->is_used || known->text != value.index) {
        const struct rs_pickle_text *text = &reader->pickle.texts[value.index];
        struct rs_flight_dump *dump = &reader->set->dumps[reader->set->dump_count - 1];
        *known = (struct flight_name){.name = rs_flight_name_read(text->bytes, text->length),
                                      .text = value.index};
        enum rs_status status = id_of(reader, value, &known->id);
        if (status == RS_OK && !dump->backend && known->name.backend_length)
            status = rs_strtab_add(&reader->set->strings, text->bytes, known->name.backend_length,
                                   &dump->backend);
        if (status != RS_OK)
            return status;
        known->is_used = true;
    }
    entry->op = (uint8_t)known->name.op;
    entry->peer_src = known->name.src;
    entry->peer_dst = known->name.dst;
    entry->name = known->id;
    return RS_OK;
}

static uint8_t state_of(struct rs_flight_reader *reader, struct rs_pickle_value value)
{
    const int32_t word = word_of(&reader->pickle, value);
    return word == WORD_COMPLETED ? RS_FLIGHT_COMPLETED
           : word == WORD_STARTED ? RS_FLIGHT_STARTED
                                  : RS_FLIGHT_SCHEDULED;
}

static enum rs_status take_lists(struct rs_flight_reader *reader, const struct fields *fields,
                                 struct rs_flight_entry *entry)
{
    rs_str out;
    enum rs_status status =
        take_sizes(reader, field(fields, WORD_IN_SIZES), &entry->in_numel, &entry->sizes);
    if (status == RS_OK)
        status = take_sizes(reader, field(fields, WORD_OUT_SIZES), &entry->out_numel, &out);
    if (status == RS_OK && !entry->sizes)
        entry->sizes = out; /* receives have only an output */
    if (status == RS_OK)
        status = take_list(reader, field(fields, WORD_IN_TYPES), reader->names, put_types,
                           &entry->dtypes);
    if (status == RS_OK && !entry->dtypes)
        status = take_list(reader, field(fields, WORD_OUT_TYPES), reader->names, put_types,
                           &entry->dtypes);
    if (status == RS_OK)
        status = take_list(reader, field(fields, WORD_FRAMES), reader->frames, put_frames,
                           &entry->frames);
    return status;
}

/* False: a field that we need is of another type. */
static bool take_numbers(struct rs_flight_reader *reader, const struct fields *fields,
                         struct rs_flight_entry *entry, int64_t *pg_id_p)
{
    const struct rs_pickle *pickle = &reader->pickle;
    const bool is_p2p = flag_field(fields, WORD_IS_P2P);
    enum word seq = is_p2p && has_field(fields, WORD_P2P_SEQ) ? WORD_P2P_SEQ
                    : has_field(fields, WORD_COLLECTIVE_SEQ)  ? WORD_COLLECTIVE_SEQ
                                                              : WORD_SEQ;
    *pg_id_p = -1;
    (void)number_of(pickle, field(fields, WORD_PG_ID), pg_id_p);
    entry->flags = (uint8_t)((is_p2p ? RS_FLIGHT_P2P : 0) |
                             (flag_field(fields, WORD_RETIRED) ? RS_FLIGHT_RETIRED : 0));
    entry->created_ns = time_field(reader, fields, WORD_CREATED);
    entry->started_ns = time_field(reader, fields, WORD_STARTED_AT);
    entry->completed_ns = time_field(reader, fields, WORD_COMPLETED_AT);
    entry->duration_ns = ms_field(fields, WORD_DURATION);
    entry->timeout_ns = ms_field(fields, WORD_TIMEOUT);
    return has_field(fields, seq) && number_of(pickle, field(fields, seq), &entry->seq) &&
           number_of(pickle, field(fields, WORD_RECORD_ID), &entry->record_id) &&
           entry->record_id >= 0 && entry->seq >= 0;
}

bool flight_take_entry(void *self, struct rs_pickle *pickle, const struct rs_pickle_value *items,
                       size_t count, enum rs_status *status_p)
{
    enum { FEWEST_FIELDS = 6 };
    struct rs_flight_reader *reader = self;
    struct fields fields;
    if (count < (size_t)2 * FEWEST_FIELDS)
        return false;
    fields.has = 0;
    for (size_t i = 0; i + 1 < count; i += 2) {
        const int32_t word = word_of(pickle, items[i]);
        if (word > 0) {
            fields.at[word] = items[i + 1];
            fields.has |= UINT64_C(1) << word;
        }
    }
    if (!has_field(&fields, WORD_RECORD_ID) || !has_field(&fields, WORD_NAME_OF_CALL))
        return false;
    struct rs_flight_entry entry = {.group = RS_FLIGHT_NO_GROUP};
    int64_t pg_id;
    if (field(&fields, WORD_NAME_OF_CALL).kind != RS_PICKLE_TEXT ||
        !take_numbers(reader, &fields, &entry, &pg_id)) {
        reader->set->dumps[reader->set->dump_count - 1].bad_entries++;
        return true;
    }
    entry.state = state_of(reader, field(&fields, WORD_STATE));
    *status_p = take_name(reader, field(&fields, WORD_NAME_OF_CALL), &entry);
    if (*status_p == RS_OK)
        *status_p = take_group(reader, &fields, pg_id, &entry);
    if (*status_p == RS_OK)
        *status_p = take_lists(reader, &fields, &entry);
    if (*status_p == RS_FORMAT ||
        *status_p == RS_LIMIT) { /* a span is wrong: where, the machine says */
        *status_p = RS_OK;
        return false;
    }
    if (*status_p == RS_OK)
        *status_p = rs_flight_add(reader->set, &entry);
    return true;
}

/* --- the rest of a dump ----------------------------------------------------------------------------------------- */

static struct rs_pickle_value pair_of(struct rs_pickle *pickle, const struct rs_pickle_value *items,
                                      size_t count, enum word word)
{
    for (size_t i = 0; i + 1 < count; i += 2)
        if (word_of(pickle, items[i]) == (int32_t)word)
            return items[i + 1];
    return (struct rs_pickle_value){0};
}

/* "[0, 1, 17]", a text; some writers give the list itself. */
static enum rs_status take_ranks(struct rs_flight_reader *reader, struct rs_pickle_value value,
                                 struct rs_flight_group *group)
{
    int32_t *ranks = NULL;
    size_t count = 0, capacity = 0;
    size_t item_count;
    const struct rs_pickle_value *items = rs_pickle_items(&reader->pickle, value, &item_count);
    const struct rs_pickle_text *text =
        value.kind == RS_PICKLE_TEXT ? &reader->pickle.texts[value.index] : NULL;
    size_t at = 0;
    enum rs_status status = RS_OK;
    while (status == RS_OK && count < RANKS_MAX) {
        int64_t number = -1;
        if (text) {
            while (at < text->length && (text->bytes[at] < '0' || text->bytes[at] > '9'))
                at++;
            if (at == text->length)
                break;
            for (number = 0; at < text->length && text->bytes[at] >= '0' &&
                             text->bytes[at] <= '9' && number <= INT32_MAX;
                 at++)
                number = number * 10 + (text->bytes[at] - '0');
        } else if (count < item_count && items[count].kind == RS_PICKLE_INT) {
            number = items[count].number;
        } else {
            break;
        }
        if (number < 0 || number > INT32_MAX)
            break;
        status = rs_mem_grow((void **)&ranks, &capacity, count + 1, sizeof *ranks);
        if (status == RS_OK)
            ranks[count++] = (int32_t)number;
    }
    rs_mem_free(group->ranks);
    group->ranks = ranks;
    group->rank_count = count;
    return status;
}

/* A gloo of 2.15 has one entry without a name, which every group overwrites: kept as it is, it says that these ranks are
 * ranks of the job. */
static enum rs_status take_config(struct rs_flight_reader *reader, struct rs_pickle_value config)
{
    struct rs_pickle *pickle = &reader->pickle;
    size_t count;
    const struct rs_pickle_value *items = rs_pickle_items(pickle, config, &count);
    enum rs_status status = RS_OK;
    for (size_t i = 0; config.kind == RS_PICKLE_DICT && i + 1 < count && status == RS_OK; i += 2) {
        size_t pairs;
        const struct rs_pickle_value *pair = rs_pickle_items(pickle, items[i + 1], &pairs);
        rs_str name = RS_STR_EMPTY, desc = RS_STR_EMPTY;
        status = id_of(reader, items[i], &name);
        if (status != RS_OK || items[i + 1].kind != RS_PICKLE_DICT)
            continue;
        status = id_of(reader, pair_of(pickle, pair, pairs, WORD_DESC), &desc);
        const struct rs_pickle_value ranks = pair_of(pickle, pair, pairs, WORD_RANKS);
        struct rs_flight_dump *dump = &reader->set->dumps[reader->set->dump_count - 1];
        bool is_there = false;
        for (size_t g = 0; g < dump->group_count && status == RS_OK; g++) {
            /* A description that differs between the two places is still the same group of this process. */
            if (dump->groups[g].name == name) {
                status = take_ranks(reader, ranks, &dump->groups[g]);
                is_there = true;
            }
        }
        uint32_t index;
        if (status == RS_OK && !is_there) {
            status = rs_flight_group_of(reader->set, name, desc, &index);
            dump = &reader->set->dumps[reader->set->dump_count - 1];
            if (status == RS_OK)
                status = take_ranks(reader, ranks, &dump->groups[index]);
        }
    }
    return status;
}

static int64_t status_number(struct rs_pickle *pickle, const struct rs_pickle_value *pair,
                             size_t pairs, enum word word)
{
    int64_t number;
    if (!number_of(pickle, pair_of(pickle, pair, pairs, word), &number) || number < 0)
        return RS_FLIGHT_UNKNOWN;
    return number;
}

static void take_status(struct rs_flight_reader *reader, struct rs_pickle_value all)
{
    struct rs_pickle *pickle = &reader->pickle;
    struct rs_flight_dump *dump = &reader->set->dumps[reader->set->dump_count - 1];
    size_t count;
    const struct rs_pickle_value *items = rs_pickle_items(pickle, all, &count);
    for (size_t i = 0; all.kind == RS_PICKLE_DICT && i + 1 < count; i += 2) {
        int64_t pg_id;
        size_t pairs;
        const struct rs_pickle_value *pair = rs_pickle_items(pickle, items[i + 1], &pairs);
        if (!number_of(pickle, items[i], &pg_id) || items[i + 1].kind != RS_PICKLE_DICT)
            continue;
        for (size_t g = 0; g < dump->group_count; g++) {
            struct rs_flight_group *group = &dump->groups[g];
            if (group->pg_id != pg_id)
                continue;
            group->last_enqueued = status_number(pickle, pair, pairs, WORD_LAST_ENQUEUED);
            group->last_started = status_number(pickle, pair, pairs, WORD_LAST_STARTED);
            group->last_completed = status_number(pickle, pair, pairs, WORD_LAST_COMPLETED);
        }
    }
}

static bool is_version_2(const struct rs_pickle *pickle, struct rs_pickle_value value)
{
    if (value.kind != RS_PICKLE_TEXT)
        return value.kind == RS_PICKLE_NONE; /* truncated before it */
    const struct rs_pickle_text *text = &pickle->texts[value.index];
    return text->length && text->bytes[0] == '2' && (text->length == 1 || text->bytes[1] == '.');
}

enum rs_status flight_take_root(struct rs_flight_reader *reader,
                                const struct rs_pickle_value *items, size_t count,
                                struct rs_err *err)
{
    struct rs_pickle *pickle = &reader->pickle;
    const struct rs_pickle_value version = pair_of(pickle, items, count, WORD_VERSION);
    const struct rs_pickle_value config = pair_of(pickle, items, count, WORD_PG_CONFIG);
    const struct rs_flight_dump *dump = &reader->set->dumps[reader->set->dump_count - 1];
    bool has_entries = dump->entry_count || dump->bad_entries;
    for (size_t i = 0; i + 1 < count; i += 2)
        has_entries = has_entries || word_of(pickle, items[i]) == WORD_ENTRIES;
    if (!has_entries && version.kind == RS_PICKLE_NONE && config.kind == RS_PICKLE_NONE)
        return rs_err_set(err, RS_NOTFOUND, "no flight recorder dump: neither entries nor version");
    if (!is_version_2(pickle, version)) {
        rs_buf_reset(&reader->text);
        put_text(reader, version);
        return rs_err_set(err, RS_VERSION, "flight recorder format \"%.40s\"; 2.x is what we know",
                          rs_buf_text(&reader->text));
    }
    rs_str id;
    enum rs_status status = id_of(reader, version, &id);
    reader->set->dumps[reader->set->dump_count - 1].version = id;
    if (status == RS_OK)
        status = take_config(reader, config);
    take_status(reader, pair_of(pickle, items, count, WORD_PG_STATUS));
    return status == RS_NOMEM ? rs_err_set(err, status, "no memory for a dump") : status;
}

/* --- bytes ------------------------------------------------------------------------------------------------------ */

enum rs_status rs_flight_reader_new(struct rs_flight_reader **reader_p)
{
    struct rs_flight_reader *reader = rs_mem_calloc(1, sizeof *reader);
    if (!reader)
        return RS_NOMEM;
    rs_pickle_init(&reader->pickle);
    *reader_p = reader;
    return RS_OK;
}

void rs_flight_reader_free(struct rs_flight_reader **reader_p)
{
    if (!*reader_p)
        return;
    rs_pickle_fini(&(*reader_p)->pickle);
    rs_buf_fini(&(*reader_p)->text);
    rs_buf_fini(&(*reader_p)->file);
    rs_mem_free(*reader_p);
    *reader_p = NULL;
}

static enum rs_status read_pickle(struct rs_flight_reader *reader, const void *data, size_t length,
                                  struct rs_err *err)
{
    struct rs_pickle *pickle = &reader->pickle;
    struct rs_pickle_value root = {0};
    size_t count = 0;
    pickle->dict_done = flight_take_entry;
    pickle->self = reader;
    pickle->is_lazy = !reader->is_eager;
    const enum rs_status status = rs_pickle_read(pickle, data, length, &root, err);
    if (status < 0)
        return status;
    const struct rs_pickle_value *items = status == RS_PARTIAL
                                              ? rs_pickle_open_dict(pickle, &count)
                                              : rs_pickle_items(pickle, root, &count);
    if (status == RS_OK && root.kind != RS_PICKLE_DICT)
        return rs_err_set(err, RS_NOTFOUND, "a pickle, but no flight recorder dump");
    const enum rs_status taken = flight_take_root(reader, items, count, err);
    return taken == RS_OK ? status : taken;
}

enum rs_status rs_flight_read(struct rs_flight_reader *reader, const void *data, size_t length,
                              const char *path, struct rs_flight_set *set, struct rs_err *err)
{
    const uint8_t *bytes = data;
    struct rs_flight_dump *dump;
    struct rs_err said = {0};
    size_t blank = 0;
    while (blank < length && (bytes[blank] == ' ' || bytes[blank] == '\n' || bytes[blank] == '\r' ||
                              bytes[blank] == '\t'))
        blank++;
    const bool is_pickle = length && bytes[0] == 0x80;
    if (!is_pickle && (blank == length || bytes[blank] != '{'))
        return rs_err_set(err, RS_NOTFOUND, "neither a pickle nor JSON");
    if (rs_flight_begin(set, path, &dump) != RS_OK)
        return rs_err_set(err, RS_NOMEM, "no memory for a dump");
    forget_all(reader);
    reader->set = set;
    reader->is_json = !is_pickle;
    const union {
        const void *in;
        const char *out;
    } text = {.in = data};
    enum rs_status status = is_pickle ? read_pickle(reader, data, length, &said)
                                      : flight_read_json(reader, text.out, length, &said);
    dump = &set->dumps[set->dump_count - 1];
    if (status >= 0) {
        dump->is_partial = status == RS_PARTIAL;
        if (dump->is_partial)
            status = rs_flight_problem(dump, "truncated: %s", said.text) == RS_OK ? RS_PARTIAL
                                                                                  : RS_NOMEM;
        rs_flight_end(set);
    }
    if (status < 0) {
        rs_flight_drop_last(set);
        return rs_err_set(err, status, "%s", said.text[0] ? said.text : "no memory for a dump");
    }
    return status;
}
