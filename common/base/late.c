/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/late.h"

#include <dlfcn.h>
#include <string.h>

enum rs_status rs_late_open(const char *library, const char *const *names, size_t count,
                            void *functions, struct rs_err *err)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); /* it stays to the end */
    if (!handle)
        return rs_err_set(err, RS_IO, "cannot open %s: %.300s", library, dlerror());
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(handle, names[i]);
        if (!function)
            return rs_err_set(err, RS_IO, "%s has no %s", library, names[i]);
        memcpy((char *)functions + i * sizeof function, &function, sizeof function);
    }
    return RS_OK;
}
