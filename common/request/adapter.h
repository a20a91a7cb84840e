/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an adapter of a collector can do: the part that speaks to one profiler. Collectors announce theirs, and whoever plans a
 * capture goes by these words, never by which profiler it is. So a new one needs no line in the aggregator.
 *
 *   announced    Hello.adapters --> a struct rs_adapter per number; RankState.kind is the number of a rank's adapter
 *   not          a collector of minor version 2 or 1 announces nothing: rs_adapter_known() says what its numbers 0 to 3 meant
 *
 * Any thread; nothing here is owned.
 */
#ifndef RS_REQUEST_ADAPTER_H
#define RS_REQUEST_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The adapters that come with this program, by their numbers on the wire. IN_PROCESS is no collector's: a program that profiles
 * itself and reads our request documents. */
enum rs_profiler {
    RS_PROFILER_NATIVE,
    RS_PROFILER_KINETO,
    RS_PROFILER_ASCEND,
    RS_PROFILER_MINDSPORE,
    RS_PROFILER_IN_PROCESS,
};
enum {
    RS_ADAPTER_SHIPPED = RS_PROFILER_IN_PROCESS
}; /* numbers below it are adapters of collectors */

enum rs_capability { /* a set; what a later version adds is left unread */
                     RS_CAP_KNOWS_STEP = 1 << 0, /* begins at the step it is told */
                     RS_CAP_PUSH = 1 << 1,       /* can be notified at any time */
                     RS_CAP_POLLS = 1
                                    << 2, /* asks, or looks, every now and then; Armed says when */
                     RS_CAP_STEP_ROUNDUP =
                         1
                         << 3, /* begins at a multiple of its own count of steps, which it tells nobody */
                     RS_CAP_WALL_CLOCK = 1 << 4, /* begins and ends at instants */
                     RS_CAP_DURATION =
                         1
                         << 5, /* takes a duration and a start time; without WALL_CLOCK as whole steps */
                     RS_CAP_WHOLE_JOB = 1 << 6, /* all ranks of a job record, or none */
                     RS_CAP_CANCEL_AFTER_DELIVERY =
                         1 << 7, /* can be called back when it was told already */
                     RS_CAP_WRITES_FILES =
                         1
                         << 8, /* its profiler lives in the program, writes files and is switched on and off */
                     RS_CAP_RECORDS_WARMUP = 1 << 9, /* makes the warm-up of a schedule itself */
                     RS_CAP_SKIPS = 1
                                    << 10, /* skip_first and wait of a schedule, as a later start */
                     RS_CAP_STEP_PARTS =
                         1
                         << 11, /* its stream is of the steps asked for and whole unless it says partial */
                     RS_CAP_NO_REPEAT = 1 << 12, /* does not take the same start and end twice */
                     RS_CAP_SHAPES_FOR_BYTES =
                         1 << 13, /* bytes of messages are known with record_shapes only */
                     RS_CAP_TELLS_STEP = 1 << 14, /* where a rank is, is known as long as it runs */
};

enum { RS_ADAPTER_NAME_BYTES = 24, RS_ADAPTER_TITLE_BYTES = 64, RS_ADAPTER_HONOURS_WORDS = 2 };

struct rs_adapter {
    uint32_t number;                    /* at its collector */
    uint32_t capabilities;              /* set of enum rs_capability */
    char name[RS_ADAPTER_NAME_BYTES];   /* "kineto": a to z, digits, "_" and "-" */
    char title[RS_ADAPTER_TITLE_BYTES]; /* its profiler, in a sentence: "MindSpore's monitor" */
    uint64_t honours
        [RS_ADAPTER_HONOURS_WORDS]; /* members of a request that it honours, by rs_request_member()'s index */
};

/* One that comes with the program. False: no such number. */
bool rs_adapter_known(uint32_t number, struct rs_adapter *adapter_p);
/* What its profiler can record: set of enum rs_activity; 0: it is not known. */
uint32_t rs_adapter_activities(uint32_t number);
/* "native"; "unknown" for a number that is none of theirs. Static. */
const char *rs_adapter_name(uint32_t number);
/* The capabilities of all that a text like "native+kineto" names and that come with the program, together. */
uint32_t rs_adapter_capabilities_of(const char *names);
/* Adds a name to such a text, in the order of numbers; no name stands twice, and one that has no room is left out. */
void rs_adapter_add_name(const char *name, char *names, size_t bytes);

bool rs_adapter_is_name(const char *name);
bool rs_adapter_honours(const struct rs_adapter *adapter, size_t member);
/* By name of the member ("schedule.active"); one that is not known is left out. */
void rs_adapter_add_honoured(struct rs_adapter *adapter, const char *member);

#endif
