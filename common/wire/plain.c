/* SPDX-License-Identifier: Apache-2.0 */
/* Why a link could not be made or was lost, in the system's words. The transport tells its own story around them: which
 * addresses it tried, through which of its layers. Sentences that a peer of ours sent are left as they are. */
#include "common/wire/link.h"

#include <string.h>

const char *rs_link_plain(const char *reason)
{
    static const struct {
        const char *part, *plain;
    } known[] = {
        {"http1.x",
         "who answers there speaks HTTP/1; an aggregator does so on its --http port only"},
        {"keepalive", "it has stopped answering"},
        {"Domain name not found", "there is no host of that name"},
        {"Socket closed", "the link was closed"},
        {"Endpoint closing", "the link was closed"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(reason, known[i].part))
            return known[i].plain;
    static const char *const prefixes[] = {"failed to connect to all addresses",
                                           "recvmsg:", "DNS resolution failed"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(reason, prefixes[i], strlen(prefixes[i])) != 0)
            continue;
        const char *last = strrchr(reason, ':'); /* what happened stands last */
        if (last)
            last += strspn(last, ": ");
        return last && *last ? last : "the link was closed";
    }
    return *reason ? reason : "the link was closed";
}
