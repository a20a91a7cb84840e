/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs are for people: one line on stderr, lower case, noun then value.
 *
 * Three forms. Text: "2026-11-22T21:47:56.123Z warn spool: ...", UTC. JSON: an object a line with the members "time" (the
 * same), "level", "tag" and "message". Journal: "<4>spool: ...", as sd-daemon(3) says, without a time since the
 * journal stamps it. Where nothing was chosen, it is the journal's form when stderr is the journal's socket, else text.
 *
 * Levels say how often a line may come: error, once per decision that loses data or needs
 * a person; warn, rate-limited by its caller; info, per process, run or rank coming and
 * going; debug, per chunk or window. The tag is `#define RS_LOG_TAG "spool"` before the include.
 * Any thread; a line is written whole. Control bytes are escaped.
 */
#ifndef RS_BASE_LOG_H
#define RS_BASE_LOG_H

#include "common/base/err.h"
#include "common/base/status.h"

enum rs_log_level { RS_LOG_ERROR, RS_LOG_WARN, RS_LOG_INFO, RS_LOG_DEBUG };

enum rs_log_format { RS_LOG_AUTO, RS_LOG_TEXT, RS_LOG_JSON, RS_LOG_JOURNAL };

/* "auto", "text", "json" or "journal"; RS_INVALID names them. Before any thread. */
enum rs_status rs_log_set_format(const char *name, struct rs_err *err);
void rs_log_set_level(enum rs_log_level level); /* before any thread; default RS_LOG_WARN */
enum rs_log_level rs_log_level(void);
void rs_log_write(enum rs_log_level level, const char *tag, const char *text, ...) RS_PRINTF(3, 4);

#define rs_log_error(...) rs_log_write(RS_LOG_ERROR, RS_LOG_TAG, __VA_ARGS__)
#define rs_log_warn(...)  rs_log_write(RS_LOG_WARN, RS_LOG_TAG, __VA_ARGS__)
#define rs_log_info(...)  rs_log_write(RS_LOG_INFO, RS_LOG_TAG, __VA_ARGS__)
#define rs_log_debug(...) rs_log_write(RS_LOG_DEBUG, RS_LOG_TAG, __VA_ARGS__)

#endif
