/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/grpc_late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

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

static enum rs_status fill(struct rs_err *err)
{
    void *library = dlopen(RS_GRPC_LIBRARY, RTLD_NOW | RTLD_LOCAL); /* it stays to the end */
    if (!library)
        return rs_err_set(err, RS_IO, "cannot open gRPC: %.300s", dlerror());
    for (size_t i = 0; i < COUNT; i++) {
        void *function = dlsym(library, names[i]);
        if (!function)
            return rs_err_set(err, RS_IO, "%s has no %s", RS_GRPC_LIBRARY, names[i]);
        memcpy((char *)&grpc_late + i * sizeof function, &function, sizeof function);
    }
    is_filled = true;
    return RS_OK;
}

enum rs_status grpc_late_open(struct rs_err *err)
{
    (void)pthread_mutex_lock(&lock);
    const enum rs_status status = is_filled ? RS_OK : fill(err);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
