/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http/http_late.h"

#include "common/base/late.h"

#include <pthread.h>
#include <stdbool.h>

struct mhd_late mhd_late;
struct gnutls_late gnutls_late;

#define X(name) #name,
static const char *const mhd_names[] = {MHD_LATE_FUNCTIONS};
static const char *const gnutls_names[] = {GNUTLS_LATE_FUNCTIONS};
#undef X
enum {
    MHD_COUNT = sizeof mhd_names / sizeof mhd_names[0],
    GNUTLS_COUNT = sizeof gnutls_names / sizeof gnutls_names[0],
};
_Static_assert(sizeof mhd_late == MHD_COUNT * sizeof(void *) &&
                   sizeof gnutls_late == GNUTLS_COUNT * sizeof(void *),
               "pointers, one behind the other");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the tables until they are filled */
static bool is_filled;

enum rs_status http_late_open(struct rs_err *err)
{
    (void)pthread_mutex_lock(&lock);
    enum rs_status status = RS_OK;
    if (!is_filled)
        status = rs_late_open(RS_GNUTLS_LIBRARY, gnutls_names, GNUTLS_COUNT, &gnutls_late, err);
    if (!is_filled && status == RS_OK)
        status = rs_late_open(RS_MICROHTTPD_LIBRARY, mhd_names, MHD_COUNT, &mhd_late, err);
    is_filled = status == RS_OK;
    (void)pthread_mutex_unlock(&lock);
    return status;
}
