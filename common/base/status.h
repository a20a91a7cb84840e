/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outcomes: one vocabulary for the whole program.
 *
 * 0 is done; > 0 is done, and there is something to know; < 0 is not done, and
 * nothing was changed. The list below is the only place where a code, its name
 * and its sentence are written.
 */
#ifndef RS_BASE_STATUS_H
#define RS_BASE_STATUS_H

/* clang-format off */
#define RS_STATUS_LIST(X) \
    X(RS_OK,          0, "done") \
    X(RS_END,         1, "there is no more") \
    X(RS_AGAIN,       2, "nothing now, ask again later") \
    X(RS_PARTIAL,     3, "done in part, what is missing is named") \
    X(RS_NOMEM,      -1, "out of memory") \
    X(RS_IO,         -2, "the system refused an input or output") \
    X(RS_FORMAT,     -3, "the bytes are not what their format says") \
    X(RS_LIMIT,      -4, "a limit was reached") \
    X(RS_INVALID,    -5, "the request or argument is not valid") \
    X(RS_NOTFOUND,   -6, "there is no such thing") \
    X(RS_EXISTS,     -7, "it exists already") \
    X(RS_REFUSED,    -8, "refused by policy, permission or space") \
    X(RS_UNREACHABLE,-9, "the other side cannot be reached") \
    X(RS_VERSION,   -10, "the other side speaks another version") \
    X(RS_TIMEOUT,   -11, "it did not happen in time") \
    X(RS_CANCELLED, -12, "cancelled or interrupted")
/* clang-format on */

enum rs_status {
#define X(code, value, text) code = (value),
    RS_STATUS_LIST(X)
#undef X
};

/* The result of a function so marked must be looked at. */
#define RS_MUST_CHECK __attribute__((warn_unused_result))
#define RS_PRINTF(format_index, first_argument)                                                    \
    __attribute__((format(printf, format_index, first_argument)))

/* The code's own spelling ("RS_IO") and its sentence. Never NULL. */
const char *rs_status_name(enum rs_status status);
const char *rs_status_text(enum rs_status status);

#endif
