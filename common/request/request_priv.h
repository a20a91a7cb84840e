/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of members: one line each, read by defaults, documents, comparison and checks alike.
 */
#ifndef RS_REQUEST_REQUEST_PRIV_H
#define RS_REQUEST_REQUEST_PRIV_H

#include "common/request/json_walk.h"
#include "common/request/request.h"

#include <jansson.h>

#include <stdarg.h>

enum field_kind {
    FIELD_TEXT, /* char[size] */
    FIELD_BOOL, /* bool */
    FIELD_U32,  /* uint32_t */
    FIELD_I32,  /* int32_t */
    FIELD_I64,  /* int64_t */
    FIELD_ENUM, /* an enum: one of `names` */
    FIELD_SET,  /* uint32_t: bits of `names` */
    FIELD_OPT_U32,
    FIELD_OPT_U64,
    FIELD_OPT_DOUBLE,
    FIELD_RANKS, /* struct rs_request_ranks */
    FIELD_TEXTS, /* struct rs_request_texts */
    FIELD_PAIRS, /* struct rs_request_pairs: strings */
    FIELD_JSONS, /* struct rs_request_pairs: values are JSON text */
};

/* Who honours a member: see the letters in request.h. */
enum {
    BY_N = 1 << RS_PROFILER_NATIVE,
    BY_K = 1 << RS_PROFILER_KINETO,
    BY_A = 1 << RS_PROFILER_ASCEND,
    BY_M = 1 << RS_PROFILER_MINDSPORE,
    BY_I = 1 << RS_PROFILER_IN_PROCESS,
    BY_S = BY_N | BY_K | BY_A | BY_M | BY_I,
};

struct field_name {
    const char *name;
    uint32_t value; /* of the enum; bit of a set */
};

struct field_names {
    const char *class_name; /* "ProfilerLevel": accepted as a prefix; "" none */
    bool folds_case;
    size_t count;
    struct field_name items[10];
};

/* Indices of members the code speaks of; the table in fields.c is in this order. */
enum field_index {
    F_CAPTURE_ID,
    F_DIALECT,
    F_ORIGIN,
    F_JOB_ID,
    F_RANKS,
    F_IS_RANK,
    F_RANK_LIST,
    F_START_STEP,
    F_MAX_STEP,
    F_START_TIME,
    F_DURATION,
    F_WAIT,
    F_WARMUP,
    F_ACTIVE,
    F_REPEAT,
    F_SKIP_FIRST,
    F_ACTIVITIES,
    F_RECORD_SHAPES,
    F_WITH_STACK,
    F_WITH_MODULES,
    F_WITH_FLOPS,
    F_PROFILE_MEMORY,
    F_EXPORT_TYPE,
    F_LEVEL,
    F_AIC,
    F_L2_CACHE,
    F_OP_ATTR,
    F_RECORD_OP_ARGS,
    F_SYS_IO,
    F_SYS_INTERCONNECTION,
    F_DATA_SIMPLIFICATION,
    F_GC,
    F_MSTX,
    F_MSTX_INCLUDE,
    F_MSTX_EXCLUDE,
    F_HOST_SYS,
    F_EXTRA,
    F_SAMPLE_HZ,
    F_OP_TIME,
    F_COMMUNICATION,
    F_AICORE,
    F_PARALLEL_STRATEGY,
    F_DATA_PROCESS,
    F_START_PROFILE,
    F_SYNC_ENABLE,
    F_PROFILE_FRAMEWORK,
    F_ANALYSE_MODE,
    F_TIMELINE_LIMIT,
    F_PROF_DIR,
    F_SPOOL_DIR,
    F_WORKER_NAME,
    F_ANALYSE,
    F_ASYNC_MODE,
    F_AGGREGATE,
    F_USE_GZIP,
    F_PRETTY,
    F_MAX_DURATION,
    F_HEADROOM,
    F_FORCE,
    F_ON_BUSY,
    F_ROUNDUP,
    F_TIMEOUT,
    F_METADATA,
    F_ENV_ALLOW,
    FIELD_COUNT
};

struct field {
    const char *group; /* "schedule"; "" none */
    const char *name;
    size_t offset;
    size_t size;      /* FIELD_TEXT */
    int64_t min, max; /* numbers */
    const struct field_names *names;
    enum field_kind kind;
    uint32_t honoured_by;
};

extern const struct field request_fields[FIELD_COUNT];

static inline void *field_at(struct rs_capture_request *request, const struct field *field)
{
    return (char *)request + field->offset;
}
static inline const void *field_of(const struct rs_capture_request *request,
                                   const struct field *field)
{
    return (const char *)request + field->offset;
}

/* "schedule.active". */
void field_path(const struct field *field, char *path, size_t size);
/* FIELD_COUNT when there is none. `group` "" none. */
size_t field_find(const char *group, const char *name);
bool field_equal(const struct field *field, const struct rs_capture_request *a,
                 const struct rs_capture_request *b);
/* The name's index in names; names->count when it is none. "ProfilerLevel.Level1" and, where case folds, "TEXT" are accepted. */
size_t field_name_find(const struct field_names *names, const char *text);
const char *field_name_of(const struct field_names *names, uint32_t value);

void ranks_fini(struct rs_request_ranks *ranks);
void texts_fini(struct rs_request_texts *texts);
void pairs_fini(struct rs_request_pairs *pairs);
/* RS_NOMEM leaves the list as it was. Ranks stay sorted and single; a text that is there is left out; a pair's value is replaced. */
RS_MUST_CHECK enum rs_status ranks_add(struct rs_request_ranks *ranks, uint32_t rank);
RS_MUST_CHECK enum rs_status texts_add(struct rs_request_texts *texts, const char *text);
RS_MUST_CHECK enum rs_status pairs_set(struct rs_request_pairs *pairs, const char *key,
                                       const char *value);

/* Edit distance; at most 32 bytes of each count. */
size_t word_distance(const char *a, const char *b);
/* Words nearer than this are worth a question. */
enum { WORD_NEAR = 4 };

/* ---- notes --------------------------------------------------------------------------------------------------- */

/* For `format, ...` where the rule's sentence says all. */
#define NO_DETAIL "%s", ""

/* `field` is a member, FIELD_COUNT: the rule's own. */
void note_add(struct rs_request_notes *notes, enum rs_request_rule rule, size_t field,
              const char *format, ...) RS_PRINTF(4, 5);
/* With a place and a key of a document. */
void note_at(struct rs_request_notes *notes, enum rs_request_rule rule, const char *key,
             const struct json_place *place, const char *format, ...) RS_PRINTF(5, 6);

/* ---- reading documents ------------------------------------------------------------------------------------------ */

/* What a reading of one document goes about with. */
struct reading {
    struct json_walk walk; /* in step with the tree */
    struct rs_capture_request *request;
    struct rs_request_notes *notes;
    struct json_place places[FIELD_COUNT]; /* of values; line 0: not in the document */
    char keys[FIELD_COUNT][64];            /* as the document spells them */
    bool is_config;  /* one of the profilers' files: names of ours are unknown there */
    bool has_places; /* false: a word of the command line */
};

/* Parses; RS_INVALID with a note. *root_p is to be json_decref()ed. */
RS_MUST_CHECK enum rs_status reading_open(struct reading *reading, const char *text, size_t length,
                                          json_t **root_p);
/* Sets a member from a value at which the walk stands; the walk goes past it. What is wrong is a note. */
void reading_value(struct reading *reading, size_t index, const char *key, json_t *value);
/* Notes an unknown key with the nearest of `names` (NULL behind the last). */
void reading_unknown(struct reading *reading, const char *key, const struct json_place *place,
                     const char *const *names);
/* Gives notes from `first` on that speak of members the key and place they have in the document. */
void reading_place_notes(struct reading *reading, size_t first);
/* The first refusal into err. RS_OK, RS_INVALID, RS_NOMEM. */
RS_MUST_CHECK enum rs_status reading_result(const struct rs_request_notes *notes,
                                            struct rs_err *err);

/* The value a word of the command line stands for, as the member's kind has it; NULL: no memory. What is no value
 * of that kind comes back as the string it is, for reading_value() to complain about. */
json_t *value_of_word(const struct field *field, const char *word);

/* JSON of one member's value. */
struct rs_json_out;
void field_write(const struct field *field, const struct rs_capture_request *request,
                 struct rs_json_out *json);
void text_write_json(struct rs_json_out *json, const char *json_text);

#endif
