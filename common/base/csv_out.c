/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/csv_out.h"

#include "common/base/utf8.h"

#include <string.h>

static void put_quoted(struct rs_buf *buf, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        rs_buf_string(buf, text);
        return;
    }
    rs_buf_u8(buf, '"');
    for (const char *p = text; *p; p++) {
        if (*p == '"')
            rs_buf_u8(buf, '"');
        rs_buf_u8(buf, (uint8_t)*p);
    }
    rs_buf_u8(buf, '"');
}

void rs_csv_text(struct rs_buf *buf, const char *text)
{
    const char *p = text;
    while (*p >= 0x20 && *p < 0x7f)
        p++;
    if (!*p) {
        put_quoted(buf, text);
        return;
    }
    struct rs_buf clean = {0};
    rs_utf8_escape(&clean, text, strlen(text), "\r\n");
    rs_buf_u8(&clean, 0);
    if (!clean.failed)
        put_quoted(buf, (const char *)clean.data);
    buf->failed = buf->failed || clean.failed;
    rs_buf_fini(&clean);
}
