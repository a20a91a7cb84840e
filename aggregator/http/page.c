/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page itself: files that the build put into the program, for anybody. They hold nothing of any capture; what the page then
 * asks, it asks as whoever looks at it.
 */
#include "aggregator/http/page.h"

#include "aggregator/http/api_priv.h"

#include <string.h>

static const char *type_of(const char *path)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };
    const char *end = strrchr(path, '.');
    for (size_t i = 0; end && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(end, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

void route_page(struct api_ask *ask)
{
    const char *path = ask->request->path;
    const char *wanted = strcmp(path, "/") == 0 ? "/index.html" : path;
    for (const struct page_file *file = page_files; file->path; file++) {
        if (strcmp(file->path, wanted) != 0)
            continue;
        ask->answer->type = type_of(file->path);
        ask->answer->is_page = true;
        rs_buf_bytes(&ask->answer->body, file->data, file->size);
        return;
    }
    rs_http_problem_as(ask->answer, 404,
                       page_files->path
                           ? "the page has no such file"
                           : "this program was built without the page (npm was not "
                             "there); the API is at /api/v1, see /api/v1/openapi.json");
}
