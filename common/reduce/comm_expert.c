/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/comm_expert.h"

#include <stdbool.h>
#include <string.h>

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_word(const char *word, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(word, wanted, length) == 0;
}

/* The function behind "deep_ep::intranode::", or behind its names of before; *length_p 0: there is none. */
static const char *function_of(const char *name, size_t length, size_t *length_p)
{
    static const char room[] = "deep_ep::", before[] = "dpsk::ep::";
    const char *end = name + length;
    const char *at = memmem(name, length, room, sizeof room - 1);
    *length_p = 0;
    if (!at)
        at = memmem(name, length, before, sizeof before - 1);
    while (at) {
        const char *word = at;
        while (at < end && is_name_char(*at))
            at++;
        if (end - at < 2 || at[0] != ':' || at[1] != ':') {
            *length_p = (size_t)(at - word);
            return word;
        }
        at += 2;
    }
    return name;
}

enum comm_expert comm_expert_of(const char *name, size_t length)
{
    static const char notify[] = "notify_", cached[] = "cached_notify";
    size_t size;
    const char *word = function_of(name, length, &size);
    if (is_word(word, size, "dispatch") || is_word(word, size, "combine"))
        return COMM_EXPERT_MOVE;
    if ((size >= sizeof notify - 1 && memcmp(word, notify, sizeof notify - 1) == 0) ||
        (size >= sizeof cached - 1 && memcmp(word, cached, sizeof cached - 1) == 0))
        return COMM_EXPERT_NOTIFY;
    return is_word(word, size, "get_dispatch_layout") ? COMM_EXPERT_LAYOUT : COMM_EXPERT_NONE;
}
