/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that a user's own library names: lines of a file that stand before the built-in table (comm_names.def).
 *
 *     # class       where     text            type of operation
 *     communication contains  my_lib::a2a_    all_to_all
 *     communication starts    OurAllReduce    all_reduce
 *     computing     contains  fused_allgather_gemm
 *     waiting       starts    spin_until
 *
 * A line: class (computing, communication, memory, waiting), where (starts, contains), a text without spaces, and for
 * communication the type, if the name does not tell it (all_reduce, all_gather, ..., as in collectives.csv). '#' begins a comment.
 * The first line that fits decides. Names are compared as the built-in table compares them: without a leading "void ", without
 * template arguments and argument list.
 */
#ifndef RS_REDUCE_CLASSES_H
#define RS_REDUCE_CLASSES_H

#include "common/base/err.h"
#include "common/reduce/classify.h"

enum { RS_CLASSES_FILE_MAX = 64 * 1024, RS_CLASSES_MAX = 1024, RS_CLASSES_TEXT_MAX = 200 };

/* Reads the file and makes it this process's table; NULL is none. Before the first thread that classifies, once: what it makes
 * stays until the process ends. RS_INVALID with file, line and what was expected; RS_NOTFOUND, RS_IO: the file. */
RS_MUST_CHECK enum rs_status rs_classes_load(const char *path, struct rs_err *err);

/* Forgets the table: for tests. */
void rs_classes_forget(void);

/* The first line that fits a bare name. False: none. *type_p is RS_OP_UNKNOWN where the line tells none. Any thread. */
bool rs_classes_find(const char *bare, size_t length, enum rs_work_class *class_p,
                     enum rs_op_type *type_p);

#endif
