/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a terminal can show, and waiting in front of one. Any thread, but rs_terminal_pause(): the one that has the signals blocked.
 */
#ifndef RS_BASE_TERMINAL_H
#define RS_BASE_TERMINAL_H

#include "common/base/time.h"

#include <stdbool.h>
#include <stdio.h>

/* Colours and animation are for people: a terminal, NO_COLOR not set, TERM not "dumb". */
bool rs_terminal_wants_colour(FILE *stream);
/* The locale can show box drawings and blocks. */
bool rs_terminal_wants_utf8(void);
/* Columns, within 60..100; 96 when it is none. */
unsigned rs_terminal_width(FILE *stream);

/* Waits; false: Ctrl-C. */
bool rs_terminal_pause(rs_dur length);

#endif
