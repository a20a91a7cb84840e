/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MindSpore's dynamic profiler writes where others can read it: lines on stdout, names of result folders, the pair
 * of steps in its file and in its block. All of it comes from a job and is hostile until parsed. Any thread.
 */
#ifndef RS_TRIGGER_MINDSPORE_TEXT_H
#define RS_TRIGGER_MINDSPORE_TEXT_H

#include "ascend/adapter/mindspore.h"

/* start_step and stop_step as MindSpore has them; both -1: never. */
struct mindspore_pair {
    int64_t start, stop;
};

/* Sets the pair from a JSON text's members "start_step" and "stop_step" (what is missing is -1, as MindSpore takes it). False:
 * there is neither. The text need not be whole. */
bool mindspore_pair_read(const char *text, struct mindspore_pair *pair_p);

/* The pair that records `count` steps from `first` on. With an unknown way the callback's is taken. */
struct mindspore_pair mindspore_pair_for(int64_t first, int64_t count, enum rs_mindspore_way way);
/* The first step that such a pair records. */
int64_t mindspore_pair_first(const struct mindspore_pair *pair, enum rs_mindspore_way way);

enum mindspore_line_kind { MINDSPORE_LINE_INIT, MINDSPORE_LINE_START, MINDSPORE_LINE_STOP };
struct mindspore_line {
    enum mindspore_line_kind kind;
    char dir[RS_CONFIG_PATH_BYTES]; /* INIT: the folder of the configuration file */
    int64_t rank, start, stop;      /* START; STOP has rank and stop */
};
/* A line without its end. False: none of the three. */
bool mindspore_line_parse(const char *line, size_t length, struct mindspore_line *line_p);

/* "rank3_start20_stop22". */
bool mindspore_folder_name(const char *name, int64_t *rank_p, struct mindspore_pair *pair_p);
/* "HOST_4711_20261121183819687_ascend_ms": pid in the job's own count, and when it was made (the name's time is UTC). */
bool mindspore_result_name(const char *name, int64_t *pid_p, rs_ns *made_p);
/* "DynamicProfileShm2026112118", at the end of a path; " (deleted)" may follow. */
bool mindspore_block_name(const char *path, char name_p[32]);

#endif
