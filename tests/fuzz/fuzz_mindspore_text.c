/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a job of MindSpore prints, names or writes: what is accepted obeys mindspore_text.h.
 */
#include "ascend/adapter/mindspore_text.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_names(const char *text)
{
    int64_t number = -1;
    rs_ns made = -1;
    char name[32] = "";
    struct mindspore_pair pair;
    if (mindspore_folder_name(text, &number, &pair))
        RS_CHECK(number >= 0);
    if (mindspore_result_name(text, &number, &made))
        RS_CHECK(number > 0 && made >= 0 && made < INT64_C(7289654400) * RS_NS_PER_S);
    if (mindspore_block_name(text, name))
        RS_CHECK(strlen(name) == strlen("DynamicProfileShm2026112118"));
    if (!mindspore_pair_read(text, &pair))
        RS_CHECK(pair.start == -1 && pair.stop == -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mindspore_line line;
    char *text =
        rs_mem_strndup((const char *)data, size); /* with a NUL behind, and bytes for a sanitizer */
    if (!text)
        return 0;
    if (mindspore_line_parse(text, size, &line) && line.kind == MINDSPORE_LINE_INIT)
        RS_CHECK(line.dir[0] == '/' && memchr(line.dir, '\0', sizeof line.dir));
    check_names(text);
    rs_mem_free(text);
    return 0;
}
