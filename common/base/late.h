/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that is opened when it is first needed.
 *
 * Some libraries bring dozens of others along, which take the loader longer than many a verb needs for its work: a program that reads
 * files and never speaks to anybody does not pay for them. So the program is not linked with them; a table of pointers takes the place
 * of what the linker would fill.
 */
#ifndef RS_BASE_LATE_H
#define RS_BASE_LATE_H

#include "common/base/err.h"

#include <stddef.h>

/* Opens the library for good, and fills `functions`, `count` pointers one behind the other, with the functions of these names. RS_IO: it
 * is not there, or has not all of them; the table is of no use then. Who calls guards the table. */
RS_MUST_CHECK enum rs_status rs_late_open(const char *library, const char *const *names,
                                          size_t count, void *functions, struct rs_err *err);

#endif
