/* SPDX-License-Identifier: Apache-2.0 */
/* Where others reach an address that is served here. */
#ifndef RS_DAEMON_REACH_H
#define RS_DAEMON_REACH_H

#include <stdbool.h>
#include <stddef.h>

/* "0.0.0.0:PORT" and "[::]:PORT" mean every address of this host, and none to others: HOST stands in their place. What stands before "://"
 * stays. False: it does not fit. */
bool rs_reach_text(const char *served, const char *host, char *text_p, size_t size);

/* Which of the addresses that are served others are told: the first that is not of this machine alone, else the first HOST:PORT, else the
 * first. `count` is not 0. */
size_t rs_reach_choose(const char *const *served, size_t count);

#endif
