/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that are ended by who they are of. */
#include "common/base/buf.h"
#include "common/base/time.h"
#include "common/trust/authority.h"

#include <string.h>

struct picking {
    const char *wanted; /* "PARTY/NAME" or a serial number */
    struct rs_buf serials;
    size_t count;
};

/* Of those that count still. */
static void pick_item(void *self, const struct rs_authority_item *item)
{
    struct picking *picking = self;
    char who[RS_IDENTITY_TEXT_BYTES];
    rs_identity_text(&item->identity, who);
    if (item->is_revoked || rs_time_realtime() >= item->identity.expires_at ||
        (strcmp(who, picking->wanted) != 0 && strcmp(item->identity.serial, picking->wanted) != 0))
        return;
    rs_buf_bytes(&picking->serials, item->identity.serial, sizeof item->identity.serial);
    picking->count++;
}

enum rs_status rs_authority_revoke_named(struct rs_authority *authority, const char *wanted,
                                         void (*each)(void *self, const char *wanted,
                                                      const char *serial),
                                         void *self, struct rs_err *err)
{
    struct picking picking = {.wanted = wanted};
    enum rs_status status = rs_authority_list(authority, pick_item, &picking, err);
    if (status == RS_OK && picking.serials.failed)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    if (status == RS_OK && !picking.count)
        status = rs_err_set(err, RS_NOTFOUND,
                            "no certificate that counts is of \"%.80s\": PARTY/NAME or a serial "
                            "number is expected, as rankscope certs show prints them",
                            wanted);
    for (size_t i = 0; i < picking.count && status == RS_OK; i++) {
        const char *serial = (const char *)picking.serials.data + i * RS_IDENTITY_SERIAL_BYTES;
        status = rs_authority_revoke(authority, serial, err);
        if (status == RS_OK)
            each(self, wanted, serial);
    }
    rs_buf_fini(&picking.serials);
    return status;
}
