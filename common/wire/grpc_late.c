/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/grpc_late.h"

#include "common/base/late.h"

#include <pthread.h>
#include <stdbool.h>

struct grpc_late grpc_late;

static const char *const names[] = {
#define X(name) #name,
    GRPC_LATE_FUNCTIONS
#undef X
};
enum { COUNT = sizeof names / sizeof names[0] };
_Static_assert(sizeof grpc_late == COUNT * sizeof(void *),
               "pointers to functions, one behind the other");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the table until it is filled */
static bool is_filled;

enum rs_status grpc_late_open(struct rs_err *err)
{
    (void)pthread_mutex_lock(&lock);
    const enum rs_status status =
        is_filled ? RS_OK : rs_late_open(RS_GRPC_LIBRARY, names, COUNT, &grpc_late, err);
    is_filled = status == RS_OK;
    (void)pthread_mutex_unlock(&lock);
    return status;
}
