/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/status.h"

const char *rs_status_name(enum rs_status status)
{
    switch (status) {
#define X(code, value, text)                                                                       \
    case code:                                                                                     \
        return #code;
        RS_STATUS_LIST(X)
#undef X
    }
    return "RS_?";
}

const char *rs_status_text(enum rs_status status)
{
    switch (status) {
#define X(code, value, text)                                                                       \
    case code:                                                                                     \
        return text;
        RS_STATUS_LIST(X)
#undef X
    }
    return "unknown outcome";
}
