/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings files: the third source of an option, behind the command line and RANKSCOPE_* variables.
 *
 *     [common]                            # every verb that has the option
 *     connect = unix:/run/rankscope/aggregator.sock
 *     [aggregator]                        # one verb; "capture", "report", ... likewise
 *     data = /srv/rankscope
 *     verbose = yes
 *
 * A key is the name of an option without its dashes, a section the name of a verb. Read are
 * /etc/rankscope/ *.conf and then $XDG_CONFIG_HOME/rankscope/ *.conf (~/.config), by name; the later one counts.
 * RANKSCOPE_CONFIG=FILE names the only file instead, RANKSCOPE_CONFIG= none. The syntax is that of OpenSSL's
 * configuration files (NCONF): '#' begins a comment, '$' and '\' are escaped by '\'.
 *
 * Loaded once, before there is any second thread; what is handed out lives as long as the process.
 */
#ifndef RS_CLI_SETTINGS_H
#define RS_CLI_SETTINGS_H

#include "common/base/err.h"

#include <stddef.h>

enum { RS_SETTINGS_FILES_MAX = 64 };

struct rs_setting {
    const char *key, *value;
    const char *file;    /* where it stands */
    const char *section; /* "common" or the verb */
};

/* Reads the files on the first call. RS_INVALID: a file that is not in this syntax, with its line. RS_IO: one that
 * cannot be read. A file that is not there is no error, unless RANKSCOPE_CONFIG names it. */
RS_MUST_CHECK enum rs_status rs_settings_load(struct rs_err *err);

/* What the files say of option `key` of `verb`: its own section counts over [common]; NULL when they say nothing.
 * Lends until the process ends. Only after rs_settings_load() was RS_OK. */
const struct rs_setting *rs_settings_find(const char *verb, const char *key);

/* All of them in the order they count (a later one replaces an earlier one); NULL behind the last. */
const struct rs_setting *rs_settings_at(size_t index);

/* The files that were read; NULL behind the last. */
const char *rs_settings_file(size_t index);

#endif
