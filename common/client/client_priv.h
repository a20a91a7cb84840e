/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the room: whether an address that an aggregator named is asked. */
#ifndef RS_CLIENT_CLIENT_PRIV_H
#define RS_CLIENT_CLIENT_PRIV_H

#include "common/wire/link.h"

/* The address that the one at `asked` named, guarded as our own certificates allow. False: it is none, or not to be asked from here. A socket or
 * a loopback address is one of the machine of who named it: when that is not ours, somebody else may serve it here. */
bool client_may_follow(const struct rs_address *asked, const char *named,
                       struct rs_address *address_p);

#endif
