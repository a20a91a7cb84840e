/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For how long a process was kept waiting for a core: it tells a machine that is busy from a job that became slower.
 */
#ifndef RS_BASE_RUN_DELAY_H
#define RS_BASE_RUN_DELAY_H

#include "common/base/time.h"

#include <stdint.h>

/* Since it was started, its first thread: ready to run, and without a core. 0: unknown (no such process, or a kernel that does not
 * say it). Reads a file of /proc; any thread. */
rs_dur rs_run_delay(int64_t pid);

#endif
