/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/daemon/reach.h"

#include "common/wire/link.h"

#include <stdio.h>
#include <string.h>

bool rs_reach_text(const char *served, const char *host, char *text_p, size_t size)
{
    const char *scheme_end = strstr(served, "://");
    const size_t scheme = scheme_end ? (size_t)(scheme_end - served) + 3 : 0;
    const char *port = strrchr(served, ':');
    const bool is_every =
        strncmp(served + scheme, "0.0.0.0:", 8) == 0 || strncmp(served + scheme, "[::]:", 5) == 0;
    const int length = is_every
                           ? snprintf(text_p, size, "%.*s%s%s", (int)scheme, served, host, port)
                           : snprintf(text_p, size, "%s", served);
    return length >= 0 && (size_t)length < size;
}

size_t rs_reach_choose(const char *const *served, size_t count)
{
    size_t chosen = 0;
    bool has_port = false;
    for (size_t i = 0; i < count; i++) {
        struct rs_address address;
        if (rs_address_parse(served[i], &address, NULL) < 0 || address.is_unix)
            continue;
        if (!address.is_loopback)
            return i;
        if (!has_port)
            chosen = i;
        has_port = true;
    }
    return chosen;
}
