/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/thread.h"

static _Thread_local enum rs_thread here = RS_THREAD_ANY;

void rs_thread_is(enum rs_thread thread)
{
    here = thread;
}

enum rs_thread rs_thread_here(void)
{
    return here;
}
