/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capture request: the union of what torch_npu, MindSpore and torch.profiler can be asked, once.
 *
 *     profiler_config.json --rs_request_from_config--+
 *     command line ---------rs_request_set ----------+--> struct rs_capture_request --rs_request_validate--> per rank:
 *     HTTP, library --------rs_request_from_json-----+        |                          accepted, queued,
 *                                                             |                          ineffective (why),
 *                                                             +--rs_request_to_config    refused (every rule)
 *                                                             +--rs_request_to_json
 *
 * Whatever way a request comes in, it is validated by one table of rules (rules.def) in one place. A refusal
 * lists every rule that was violated, never only the first. Everything here is a pure function of its arguments: no files, no
 * sockets, no clock; what has to be measured (free space, the step a rank is in) comes in with the ranks.
 *
 * Beside every member stand its unit, range, default and who honours it:
 *     N  native: programs that call librankscope, told over the collector
 *     K  Kineto: unmodified PyTorch jobs, told over Kineto's IPC
 *     A  Ascend: torch_npu's dynamic_profile, told by its profiler_config.json
 *     M  MindSpore's DynamicProfilerMonitor, told by its profiler_config.json
 *     I  in process: the framework's own profiler object, made by the program itself with this request
 *     S  the service itself, whatever the rank is
 * A member that a rank's profiler does not honour, and that is not at its default, makes that rank's answer
 * "ineffective" and says which.
 */
#ifndef RS_REQUEST_REQUEST_H
#define RS_REQUEST_REQUEST_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/request/adapter.h"
#include "common/request/rank_expr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RS_REQUEST_ID_BYTES = 64,
    RS_REQUEST_JOB_BYTES = 257,
    RS_REQUEST_PATH_BYTES = 1024,
    RS_REQUEST_NAME_BYTES =
        226, /* worker_name: shorter than 226, so that the directory's name fits 255 */
    RS_REQUEST_LIST_MAX = 1024,                /* items of a list of names, members of a map */
    RS_REQUEST_VALUE_MAX_BYTES = 4096,         /* of one metadata value */
    RS_REQUEST_METADATA_MAX_BYTES = 50 * 1024, /* of all metadata */
    RS_REQUEST_TEXT_MAX_BYTES =
        1 << 20, /* of a configuration file: what torch_npu's shared block holds */
    RS_REQUEST_READ_MAX_BYTES =
        4
        << 20, /* of a file that is read for it: a rule speaks of what is longer than that block */
};

/* ---- what our own triggers leave in a profiler_config.json: not an edit of a person -------------------------------- */

/* Key of `metadata` in torch_npu's file, and so of profiler_metadata.json: whose result a folder is. */
#define RS_ASCEND_METADATA_KEY "rankscope_capture"
/* What both steps of a MindSpore file say that is left behind where somebody may still look at it: beyond any training, and a
 * number that everybody can read. */
enum { RS_MINDSPORE_PARKED = 1000000000 };

/* ---- words -------------------------------------------------------------------------------------------------- */

enum rs_dialect { RS_DIALECT_ASCEND, RS_DIALECT_MINDSPORE, RS_DIALECT_TORCH };
enum rs_origin { RS_ORIGIN_CONFIG_FILE, RS_ORIGIN_DP_START, RS_ORIGIN_API, RS_ORIGIN_CLI };
enum rs_on_busy { RS_ON_BUSY_QUEUE, RS_ON_BUSY_REFUSE };

enum rs_activity { /* a set */
                   RS_ACTIVITY_CPU = 1,
                   RS_ACTIVITY_NPU = 2,
                   RS_ACTIVITY_CUDA = 4,
                   RS_ACTIVITY_XPU = 8,
                   RS_ACTIVITY_MTIA = 16,
};
enum rs_export_type { RS_EXPORT_TEXT = 1, RS_EXPORT_DB = 2 }; /* a set */
enum rs_profiler_level { RS_LEVEL_NONE, RS_LEVEL_0, RS_LEVEL_1, RS_LEVEL_2 };
enum rs_aic_metrics {
    RS_AIC_BY_LEVEL, /* not said: AiCoreNone below Level1, else PipeUtilization */
    RS_AIC_NONE,
    RS_AIC_PIPE_UTILIZATION,
    RS_AIC_ARITHMETIC_UTILIZATION,
    RS_AIC_MEMORY,
    RS_AIC_MEMORY_L0,
    RS_AIC_RESOURCE_CONFLICT_RATIO,
    RS_AIC_MEMORY_UB,
    RS_AIC_L2_CACHE,
    RS_AIC_MEMORY_ACCESS,
};
enum rs_host_sys { /* a set */
                   RS_HOST_SYS_CPU = 1,
                   RS_HOST_SYS_MEM = 2,
                   RS_HOST_SYS_DISK = 4,
                   RS_HOST_SYS_NETWORK = 8,
                   RS_HOST_SYS_OSRT = 16,
};
enum rs_profile_framework {
    RS_FRAMEWORK_ALL,
    RS_FRAMEWORK_TIME,
    RS_FRAMEWORK_MEMORY,
    RS_FRAMEWORK_NONE
};

/* ---- the request -------------------------------------------------------------------------------------------- */

struct rs_request_ranks {
    uint32_t *items; /* ascending, without repeats */
    size_t count, capacity;
};
struct rs_request_texts {
    char **items;
    size_t count, capacity;
};
struct rs_request_pair {
    char *key, *value;
};
struct rs_request_pairs {
    struct rs_request_pair *items; /* in the order they were given; a key once */
    size_t count, capacity;
};
struct rs_optional_u32 {
    bool is_set;
    uint32_t value; /* 0 when not set */
};
struct rs_optional_u64 {
    bool is_set;
    uint64_t value;
};
struct rs_optional_double {
    bool is_set;
    double value;
};

struct rs_request_schedule {
    /* Steps skipped at the start of every repetition. 0..2^31-1; 0. [N I] */
    uint32_t wait;
    /* Steps run with the profiler on and thrown away. 0..2^31-1; not set (0); 0 is advised against; has to be
     * said in the torch dialect. [N K A I] */
    struct rs_optional_u32 warmup;
    /* Steps recorded. 1..2^31-1; 1. [all] */
    uint32_t active;
    /* Repetitions of wait + warmup + active; 0 without end. 0..2^31-1; 1 (0 from the API). What is triggered runs
     * once: other values are advised against. [I] */
    uint32_t repeat;
    /* Steps skipped once, before anything. 0..2^31-1; 0. [N I] */
    uint32_t skip_first;
};

struct rs_request_experimental {
    /* Set of enum rs_export_type: text writes csv, json and databases, db databases only. text. [A M I] */
    uint32_t export_type;
    /* How much the device tells. Level0. [A M I] */
    enum rs_profiler_level profiler_level;
    /* Counters of the AI cores; below Level1 an explicit one is reset. By level. [A M I] */
    enum rs_aic_metrics aic_metrics;
    bool l2_cache;       /* cache counters, l2_cache.csv. off [A M I] */
    bool op_attr;        /* attributes of aclnn operators; db and Level0 or above only. off [A I] */
    bool record_op_args; /* operator statistics for AOE tuning; alone. off [A I] */
    bool sys_io;         /* NIC and RoCE samples. off [N K A M I] */
    bool sys_interconnection; /* HCCS, PCIe and chip-to-chip bandwidth. off [A M I] */
    bool data_simplification; /* surplus files are removed after export. on [A M I] */
    /* Garbage collections longer than this are recorded. ms, >= 0, finite; not set (none); 0 keeps all. [A I] */
    struct rs_optional_double gc_detect_threshold_ms;
    bool mstx; /* custom markers; msprof_tx is its old name. off [A M I] */
    /* Marker domains: only these, or all but these; need mstx; include wins. [] [A M I] */
    struct rs_request_texts mstx_domain_include, mstx_domain_exclude;
    /* Set of enum rs_host_sys: what a rank takes of its host. Of N and K the collector samples all but osrt. none. [N K A M I] */
    uint32_t host_sys;
    /* Name -> value, handed to torch's own experimental config; torch dialect only. {} [I] */
    struct rs_request_pairs extra;
};

struct rs_request_mindspore {
    bool op_time;               /* operator times; without it, nothing of four others. on [I] */
    bool profile_communication; /* communication of several devices; needs op_time. off [I] */
    /* AI core counters by number: -1 none, 0 arithmetic, 1 pipe, 2 memory, 3 L0, 4 conflict, 5 UB. -1..5;
     * 0; needs op_time. [I] */
    int32_t aicore_metrics;
    bool parallel_strategy; /* parallel strategy as metadata. on (off in the file). [M I] */
    bool data_process;      /* data preparation. on [I] */
    bool start_profile;     /* collection starts with the object. on [I] */
    bool sync_enable;       /* GPU: times from the host around the call. on [I] */
    enum rs_profile_framework profile_framework; /* host information. all [I] */
    /* The file's analyse_mode: -1 not online, 0 while the program waits, 1 beside it. -1..1; -1. [M] */
    int32_t analyse_mode;
};

struct rs_capture_request {
    /* Name of the capture: letters, digits, ".", "_", "-", at most 63. "" (the server makes one of 26). [S] */
    char capture_id[RS_REQUEST_ID_BYTES];
    /* Chooses defaults that differ, and how analyse, warm-up and MindSpore's switches are read. ascend. [S] */
    enum rs_dialect dialect;
    /* Which way it came in; decides defaults and what happens when one runs already. Set by the entry. [S] */
    enum rs_origin origin;
    /* The run. "" (the only one). [S] */
    char job_id[RS_REQUEST_JOB_BYTES];
    /* Rank expression (rank_expr.h); with is_rank both must hold. "all". [S] */
    char ranks[RS_RANK_EXPR_MAX_BYTES + 1];
    bool is_rank; /* only ranks in rank_list. off. [S] */
    /* Ranks; read only with is_rank: then an empty one captures nothing. 0..2^24; []. [S] */
    struct rs_request_ranks rank_list;
    /* Step: 0 none (nothing starts), -1 the next step all ranks can make, > 0 that step: later than the one a rank is in.
     * -1..2^53; 0 (-1 from the command line). [N K A M I] */
    int64_t start_step;
    /* Last step of the training, when known; turns the checks of start and sizing on. 1..2^53; not set. [S] */
    struct rs_optional_u64 max_step;
    /* Start by the clock instead of by a step. ns since 1970; 0 (not). [N K] */
    int64_t start_time_ns;
    /* Length instead of a number of steps. ms; 0 (steps). [N K] */
    uint32_t duration_ms;
    struct rs_request_schedule schedule;
    /* Set of enum rs_activity: what is recorded. Empty: all the rank has. [K A M I] */
    uint32_t activities;
    bool record_shapes; /* shapes and types of operator inputs; needs CPU. off [K A M I] */
    bool with_stack;    /* call stacks; needs CPU; inflates times. off [K A M I] */
    bool with_modules;  /* module hierarchy; needs CPU; inflates times. off [K A I] */
    bool with_flops;    /* floating point work; needs CPU. off [K A I] */
    bool
        profile_memory; /* allocations: of the framework with CPU, of the device with NPU. off [K A M I] */
    struct rs_request_experimental experimental;
    /* Samples of host_sys and sys_io. Hz, 1..100; 10. [N K I] */
    uint32_t sample_hz;
    struct rs_request_mindspore mindspore;
    /* Largest timeline file. 10^6 bytes, >= 1; 500. [I] */
    uint32_t timeline_limit_mb;
    /* Where results end up: a destination, never written while recording. Components of letters, digits,
     * "_", "."; no "..". "./" ("./data" for MindSpore's own profiler). What is triggered goes to the collector. [I] */
    char prof_dir[RS_REQUEST_PATH_BYTES];
    /* Where profilers write: on a local file system. Same characters. "" (the collector's). [I] */
    char spool_dir[RS_REQUEST_PATH_BYTES];
    /* Name of a rank's results, unique in the capture: {hostname}, {pid}, {rank} are filled in. < 226 bytes;
     * "" ({hostname}_{pid}). [I] */
    char worker_name[RS_REQUEST_NAME_BYTES];
    /* The profiler parses its data itself. off in files, on from the API. With is_rank it is off unless async_mode. [A M I] */
    bool analyse;
    bool async_mode; /* parsing does not hold the program up. off [A M I] */
    bool
        aggregate; /* ranks that only their own profiler can read parse, whatever analyse says. on [M I] */
    bool use_gzip; /* exported traces are compressed. off [I] */
    bool pretty;   /* exported JSON is indented. off [I] */
    /* The capture is stopped after this long. s, 1..86400; 300; above 300 needs force. [S] */
    uint32_t max_duration_s;
    /* Free disk and memory are to be so many times the estimated raw size. 1..1000; 20. [S] */
    uint32_t headroom_factor;
    bool force; /* override limits that may be overridden. off [S] */
    /* A rank that records already: wait in its one slot, or refuse. queue. [S] */
    enum rs_on_busy on_busy;
    /* Iteration captures begin at the next multiple of so many iterations; 0: chosen. 0..1000000; 0. [K] */
    uint32_t roundup;
    /* From the request to a complete result of a rank; later it is given up; 0: chosen. ms; 0. [S] */
    uint32_t timeout_ms;
    /* Name -> JSON text, kept with the results; distributed_args {tp, pp, dp} gives roles. {} [S] */
    struct rs_request_pairs metadata;
    /* Environment variables kept with the results: names, never a wildcard. The four of torch_npu. [I] */
    struct rs_request_texts env_allow;
};

/* "CPU, CUDA": the names of a set of enum rs_activity, as far as they fit. */
void rs_request_activity_names(uint32_t activities, char *text, size_t size);

/* Defaults of the dialect and the origin. RS_NOMEM (`request` is then zeroed). */
RS_MUST_CHECK enum rs_status rs_request_init(struct rs_capture_request *request,
                                             enum rs_dialect dialect, enum rs_origin origin);
/* A zeroed one is allowed. */
void rs_request_fini(struct rs_capture_request *request);
bool rs_request_equal(const struct rs_capture_request *a, const struct rs_capture_request *b);
/* For what was filled in by hand or by a peer: enumerations, sets, texts and lists are what they may be, so that everything else
 * here may be called with it. RS_INVALID names the member. Rules are rs_request_check()'s matter. */
RS_MUST_CHECK enum rs_status rs_request_is_sound(const struct rs_capture_request *request,
                                                 struct rs_err *err);
/* A copy of its own. RS_NOMEM (`copy` is then zeroed). */
RS_MUST_CHECK enum rs_status rs_request_copy(const struct rs_capture_request *request,
                                             struct rs_capture_request *copy);

/* What aic_metrics comes to: never RS_AIC_BY_LEVEL, AiCoreNone below Level1. */
enum rs_aic_metrics rs_request_aic_metrics(const struct rs_capture_request *request);
/* Whether ranks parse by themselves: not with is_rank, unless async_mode. */
bool rs_request_analyses(const struct rs_capture_request *request);
/* Whether torch_npu ranks that we trigger parse. A file says itself whether it wants its results parsed; whoever else asks wants a
 * report, and only parsed results can be read. */
bool rs_request_parses(const struct rs_capture_request *request);

/* ---- rules and notes ---------------------------------------------------------------------------------------- */

enum rs_severity {
    RS_SEVERITY_WARNING,     /* reported, changes nothing */
    RS_SEVERITY_INEFFECTIVE, /* accepted, and something asked for will not happen */
    RS_SEVERITY_REFUSED,
};

enum rs_request_rule {
#define X(id, name, severity, field, source, sentence) RS_RULE_##id,
#include "common/request/rules.def"
#undef X
    RS_RULE_COUNT
};

struct rs_rule {
    const char *name; /* "start-step-passed": what scripts match */
    enum rs_severity severity;
    const char *field;    /* member it is about, "" several */
    const char *source;   /* rows of the documents it comes from */
    const char *sentence; /* what holds, in one sentence */
};

/* Lends; for ever. */
const struct rs_rule *rs_request_rule(enum rs_request_rule rule);
const char *rs_severity_name(enum rs_severity severity); /* "warning", "ineffective", "error" */

struct rs_request_note {
    enum rs_request_rule rule;
    char field[64];        /* key of the document it came from, or member: "schedule.active" */
    char text[256];        /* what is the case here; "" when the rule's sentence says all */
    unsigned line, column; /* place in the document, from 1; 0: there is none */
};

/* Zeroed is empty. After RS_REQUEST_NOTES_MAX the rest is only counted. */
enum { RS_REQUEST_NOTES_MAX = 256 };
struct rs_request_notes {
    struct rs_request_note *items;
    size_t count, capacity;
    size_t refusal_count; /* of severity refused, those beyond the limit too */
    size_t ineffective_count;
    size_t left_off_count;
    bool failed; /* no memory: checked by those who return a status */
};

void rs_request_notes_fini(struct rs_request_notes *notes);
/* RS_OK: nothing is refused. RS_REFUSED: what is, is a limit that `force` overrides. RS_INVALID: something else, too. */
enum rs_status rs_request_notes_status(const struct rs_request_notes *notes);
/* "error: active: ... [out-of-range]" without place and end of line; the word is the rule's, as rules.def has it. */
void rs_request_note_print(const struct rs_request_note *note, struct rs_buf *buf);
/* "FILE:LINE:COLUMN: error: ..." a line each, of those that are wanted; NULL: of all, and how many were left off. */
void rs_request_notes_print(const char *path, const struct rs_request_notes *notes,
                            bool (*is_wanted)(const struct rs_request_note *note),
                            struct rs_buf *buf);
/* A list of objects, where a value is due. */
struct rs_json_out;
void rs_request_notes_to_json(const struct rs_request_notes *notes, struct rs_json_out *json);

/* ---- profiler_config.json ------------------------------------------------------------------------------------- */

enum rs_config_framework { RS_CONFIG_DETECT, RS_CONFIG_TORCH_NPU, RS_CONFIG_MINDSPORE };
const char *rs_config_framework_name(enum rs_config_framework framework);

/* Reads a file's text, checks it against the documents and against every rule that needs no rank. RS_OK: the caller owns what is in
 * `request`; `notes` may hold warnings. RS_INVALID: `notes` holds every error with its line and column, `err` the first;
 * `request` is zeroed. *framework_p comes in as what is known and goes out as what it was taken for. */
RS_MUST_CHECK enum rs_status rs_request_from_config(const char *text, size_t length,
                                                    enum rs_config_framework *framework_p,
                                                    struct rs_capture_request *request,
                                                    struct rs_request_notes *notes,
                                                    struct rs_err *err);

/* Appends the file that says this request: every documented key, in the documented order. RS_INVALID when the file cannot say
 * it (MindSpore: start_step -1). */
RS_MUST_CHECK enum rs_status rs_request_to_config(const struct rs_capture_request *request,
                                                  enum rs_config_framework framework,
                                                  struct rs_buf *buf, struct rs_err *err);

/* Appends the template: what rs_request_to_config() makes of the defaults. */
RS_MUST_CHECK enum rs_status rs_config_template(enum rs_config_framework framework,
                                                struct rs_buf *buf, struct rs_err *err);
/* Appends what was found in the file as a document, with the request that it becomes; NULL: it is not valid. */
void rs_config_document(const char *path, enum rs_config_framework framework,
                        const struct rs_request_notes *notes,
                        const struct rs_capture_request *request, struct rs_buf *buf);

/* A file that is edited. Lends the text. */
struct rs_config_text {
    const char *text;
    size_t length;
    enum rs_config_framework framework; /* not RS_CONFIG_DETECT */
};

/* Appends the text with one key set and everything else left byte for byte as it was. `key`: "active",
 * "experimental_config.mstx" or, where it is clear, "mstx"; "metadata.NAME". `value`: JSON, or a bare word, or for lists
 * "1,3" and "1,3-5". RS_INVALID (also: the text is no JSON object), RS_NOTFOUND (no such key: the sentence has the
 * nearest). The result is not validated. */
RS_MUST_CHECK enum rs_status rs_request_config_edit(const struct rs_config_text *config,
                                                    const char *key, const char *value,
                                                    struct rs_buf *buf, struct rs_err *err);
/* Sets every "KEY=VALUE" (NULL behind the last) in the file's text, and validates what it becomes: `notes` as of rs_request_from_config().
 * RS_INVALID, RS_NOTFOUND: the text is not to be written. */
RS_MUST_CHECK enum rs_status rs_config_edit_all(const char *path, struct rs_buf *text,
                                                enum rs_config_framework framework,
                                                char *const *settings,
                                                struct rs_request_notes *notes, struct rs_err *err);

/* ---- the request's own document -------------------------------------------------------------------------------- */

/* docs/schema/capture_request.schema.json. Same request, same bytes. */
void rs_request_to_json(const struct rs_capture_request *request, unsigned indent_count,
                        struct rs_buf *buf);
/* As rs_request_from_config(); members that are missing have the defaults of its dialect (ascend)
 * and origin (cli). */
RS_MUST_CHECK enum rs_status rs_request_from_json(const char *text, size_t length,
                                                  struct rs_capture_request *request,
                                                  struct rs_request_notes *notes,
                                                  struct rs_err *err);
/* One member from a word, as the command line has it: "schedule.active", "3"; lists with commas. What is wrong goes to
 * `notes`. RS_OK, RS_INVALID, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_request_set(struct rs_capture_request *request, const char *member,
                                            const char *value, struct rs_request_notes *notes);
/* Name of member `index` ("schedule.active"), for help texts and tests. False: it is behind the last. */
enum { RS_REQUEST_MEMBER_BYTES = 64 };
bool rs_request_member(size_t index, char name[RS_REQUEST_MEMBER_BYTES]);

/* ---- the answer ------------------------------------------------------------------------------------------------ */

/* What is known of a rank when it is asked. Zeroed members mean "not known" and are not held against it, but
 * row.role (-1 unknown). Lends its strings. */
struct rs_request_rank {
    struct rs_rank_row row;
    const struct rs_adapter *adapter; /* not NULL */
    bool is_busy;                     /* records already, or is armed */
    bool has_pending;                 /* its one slot is taken */
    bool
        is_pending_other; /* ... by what another file, or no file, asked for: an edit does not replace it */
    bool is_step_known;                         /* the next two are meant */
    int64_t step;                               /* it is in */
    uint32_t world;                             /* ranks of the run; 0 unknown */
    uint32_t activities;                        /* it can record; 0 unknown */
    uint16_t glibc_major, glibc_minor;          /* 0 unknown */
    int64_t free_disk_bytes, free_memory_bytes; /* where it spools; 0 unknown */
    int64_t estimated_bytes; /* raw size of this capture on this rank; 0 unknown */
    int64_t last_start,
        last_stop; /* adapters without repetition: the pair it was told last; 0 none */
};

enum rs_decision {
    RS_DECISION_ACCEPTED,
    RS_DECISION_QUEUED,
    RS_DECISION_INEFFECTIVE,
    RS_DECISION_REFUSED
};
const char *rs_decision_name(enum rs_decision decision);

struct rs_rank_answer {
    uint32_t rank;
    enum rs_decision decision;
    struct rs_request_notes notes; /* of this rank alone */
};

/* Zeroed is empty. A rank's reasons are the request's notes and its own. */
struct rs_request_answer {
    struct rs_request_notes notes; /* of the request, for every rank */
    struct rs_rank_answer *ranks;  /* the chosen ones, ascending */
    size_t count, capacity;
    struct rs_rank_set chosen; /* with the ranks and names nobody knows */
    size_t decision_count[RS_DECISION_REFUSED + 1];
};

struct rs_request_policy {
    bool is_path_relaxed; /* "-" and " " in paths, too */
    uint64_t sample_seed; /* of sample= in rank expressions */
};

/* Validates the request for every rank of the table that it chooses. RS_OK: all are accepted, queued or ineffective and all that was
 * named is known. RS_PARTIAL: some are not, or something named is unknown. RS_REFUSED: none can go on (also: none was chosen).
 * RS_INVALID: the table is no table. RS_NOMEM. The answer (zeroed, or used before) is filled in the first three cases. */
RS_MUST_CHECK enum rs_status rs_request_validate(const struct rs_capture_request *request,
                                                 const struct rs_request_rank *ranks, size_t count,
                                                 const struct rs_request_policy *policy,
                                                 struct rs_request_answer *answer,
                                                 struct rs_err *err);
/* The rules that need no rank. `notes` is added to. RS_OK, RS_INVALID (refused), RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_request_check(const struct rs_capture_request *request,
                                              const struct rs_request_policy *policy,
                                              struct rs_request_notes *notes);
void rs_request_answer_fini(struct rs_request_answer *answer);

/* For --dry-run: ranks with the same answer on one line; the same as a document. */
void rs_request_answer_print(const struct rs_request_answer *answer, struct rs_buf *buf);
void rs_request_answer_to_json(const struct rs_request_answer *answer, unsigned indent_count,
                               struct rs_buf *buf);

#endif
