/* SPDX-License-Identifier: Apache-2.0 */
/* What a certificate says when nobody says otherwise. */
#include "common/base/time.h"
#include "common/trust/authority.h"

#include <string.h>
#include <unistd.h>

size_t rs_authority_own_hosts(const char *hosts[RS_AUTHORITY_HOSTS_MAX], char own[256])
{
    static const char *const always[] = {"localhost", "127.0.0.1", "::1"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        hosts[count++] = always[i];
    own[0] = own[255] = '\0';
    if (gethostname(own, 255) == 0 && rs_identity_is_name(own) && strcmp(own, "localhost") != 0)
        hosts[count++] = own;
    return count;
}

rs_dur rs_authority_usual_ns(enum rs_party party)
{
    const rs_dur day = 86400 * (rs_dur)RS_NS_PER_S;
    return party == RS_PARTY_NODE ? 14 * day : party == RS_PARTY_AGGREGATOR ? 365 * day : 90 * day;
}
