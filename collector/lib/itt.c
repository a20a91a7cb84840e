/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges and marks by their text, with the depths that ITT promises. A range is the library's own: recorded by rankscope_range_push().
 */
#include "collector/lib/client_priv.h"

#include <errno.h>

/* Ranges of this thread that are open, recorded or not; initial-exec as in record.c: a library that is loaded late has no room of its own. */
static _Thread_local int open_ranges __attribute__((tls_model("initial-exec")));

static bool is_ascii(const char *text)
{
    if (text == NULL || text[0] == '\0')
        return false;
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            return false;
    return true;
}

int rankscope_itt_is_available(void)
{
    return atomic_load_explicit(&rankscope_priv_client.control, memory_order_relaxed) != NULL;
}

int rankscope_itt_mark(const char *text)
{
    if (!is_ascii(text))
        return -EINVAL;
    if (rankscope_is_recording())
        rankscope_record_mark(rankscope_name(text, 0));
    return 0;
}

int rankscope_itt_range_push(const char *text)
{
    if (!is_ascii(text))
        return -EINVAL;
    if (rankscope_is_recording())
        rankscope_record_range_push(rankscope_name(text, 0));
    return open_ranges++;
}

int rankscope_itt_range_pop(void)
{
    if (open_ranges == 0)
        return -ENOENT;
    rankscope_range_pop();
    return --open_ranges;
}
