/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks for our own bugs. A failed check says what and where, and ends the process; the
 * supervisor starts it again and the spool recovers. A stranger's bytes are never checked
 * this way: they get a status.
 */
#ifndef RS_BASE_CHECK_H
#define RS_BASE_CHECK_H

typedef void rs_check_fail_fn(const char *expression, const char *file, int line,
                              const char *function);

/* Tests replace what happens on failure (it must not return). NULL restores abort(). */
void rs_check_on_fail(rs_check_fail_fn *fail);

_Noreturn void rs_check_failed(const char *expression, const char *file, int line,
                               const char *function);

#define RS_CHECK(expression)                                                                       \
    ((expression) ? (void)0 : rs_check_failed(#expression, __FILE__, __LINE__, __func__))

#ifdef NDEBUG
#    define RS_DCHECK(expression) ((void)sizeof(expression))
#else
#    define RS_DCHECK(expression) RS_CHECK(expression)
#endif

#endif
