/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of the API (OpenAPI 3.1), out of the tables of routes and of reads: it cannot say anything else than they do.
 */
#include "aggregator/http/api_priv.h"
#include "aggregator/model/columns.h"
#include "aggregator/model/reads.h"
#include "common/base/json_out.h"

#include <string.h>

static void key_text(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    rs_json_out_string(json, text);
}

static void put_parameter(struct rs_json_out *json, const char *name, size_t length,
                          const char *where)
{
    rs_json_out_object(json);
    rs_json_out_key(json, "name");
    rs_json_out_bytes(json, name, length);
    key_text(json, "in", where);
    rs_json_out_key(json, "required");
    rs_json_out_bool(json, strcmp(where, "path") == 0);
    rs_json_out_key(json, "schema");
    rs_json_out_object(json);
    key_text(json, "type", "string");
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static void put_parameters(struct rs_json_out *json, const struct api_route *route)
{
    rs_json_out_key(json, "parameters");
    rs_json_out_array(json);
    for (const char *at = strchr(route->path, '{'); at; at = strchr(at + 1, '{'))
        put_parameter(json, at + 1, strcspn(at + 1, ".}"), "path");
    for (const char *at = route->parameters; *at;) {
        const size_t length = strcspn(at, " ");
        put_parameter(json, at, length, "query");
        at += length + (at[length] == ' ');
    }
    rs_json_out_end(json);
}

static void put_content(struct rs_json_out *json, const char *type)
{
    rs_json_out_key(json, "content");
    rs_json_out_object(json);
    rs_json_out_key(json, type);
    rs_json_out_object(json);
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static void put_responses(struct rs_json_out *json, const struct api_route *route)
{
    static const char *const types[] = {"text/plain",       "text/plain",
                                        "application/json", "text/event-stream",
                                        "text/html",        "application/octet-stream"};
    rs_json_out_key(json, "responses");
    rs_json_out_object(json);
    rs_json_out_key(json, "200");
    rs_json_out_object(json);
    key_text(json, "description", route->sentence);
    put_content(json, types[route->type]);
    rs_json_out_end(json);
    rs_json_out_key(json, "default");
    rs_json_out_object(json);
    key_text(json, "description", "what went wrong");
    put_content(json, "application/problem+json");
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static void put_operation(struct rs_json_out *json, const struct api_route *route)
{
    static const char *const methods[] = {"get", "post", "delete"};
    static const char *const access[] = {"anybody", "a viewer or an operator", "an operator"};
    rs_json_out_key(json, methods[route->method]);
    rs_json_out_object(json);
    key_text(json, "summary", route->sentence);
    key_text(json, "x-may-ask", access[route->access]);
    put_parameters(json, route);
    if (route->method == RS_HTTP_POST) {
        rs_json_out_key(json, "requestBody");
        rs_json_out_object(json);
        put_content(json, "application/json");
        rs_json_out_end(json);
    }
    put_responses(json, route);
    if (route->access == API_OPEN) {
        rs_json_out_key(json, "security");
        rs_json_out_array(json);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

/* "{name...}" is "{name}" there. */
static void key_path(struct rs_json_out *json, const char *path)
{
    const char *dots = strstr(path, "...}");
    char text[API_PARAMETER_BYTES];
    size_t length = dots ? (size_t)(dots - path) : strlen(path);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): used with its length */
    memcpy(text, path, length);
    if (dots)
        text[length++] = '}';
    rs_json_out_key_bytes(json, text, length);
}

static void put_paths(struct rs_json_out *json)
{
    rs_json_out_key(json, "paths");
    rs_json_out_object(json);
    for (size_t i = 0; i < api_route_count; i++) {
        if (i && strcmp(api_routes[i].path, api_routes[i - 1].path) == 0)
            continue; /* was put with the one before */
        key_path(json, api_routes[i].path);
        rs_json_out_object(json);
        for (size_t k = i;
             k < api_route_count && strcmp(api_routes[k].path, api_routes[i].path) == 0; k++)
            put_operation(json, &api_routes[k]);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_components(struct rs_json_out *json)
{
    rs_json_out_key(json, "components");
    rs_json_out_object(json);
    rs_json_out_key(json, "securitySchemes");
    rs_json_out_object(json);
    rs_json_out_key(json, "token");
    rs_json_out_object(json);
    key_text(json, "type", "http");
    key_text(json, "scheme", "bearer");
    rs_json_out_end(json);
    rs_json_out_key(json, "certificate");
    rs_json_out_object(json);
    key_text(json, "type", "mutualTLS");
    rs_json_out_end(json);
    rs_json_out_end(json);
    rs_json_out_key(json, "schemas");
    rs_json_out_object(json);
    for (enum rs_read read = 0; read < RS_READ_COUNT; read++) {
        struct rs_buf schema = {0};
        rs_json_schema(rs_read_def(read)->result, &schema);
        rs_json_out_key(json, rs_read_def(read)->name);
        rs_json_out_number(json, rs_buf_text(&schema)); /* JSON as it is */
        rs_buf_fini(&schema);
    }
    rs_json_out_end(json);
    rs_json_out_end(json);
}

void route_openapi(struct api_ask *ask)
{
    struct rs_buf body = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &body, 0);
    rs_json_out_object(&json);
    key_text(&json, "openapi", "3.1.0");
    rs_json_out_key(&json, "info");
    rs_json_out_object(&json);
    key_text(&json, "title", "Rankscope");
    key_text(&json, "version", RS_PROGRAM_VERSION);
    key_text(&json, "description",
             "What the aggregator knows and does. Times are nanoseconds since the Unix epoch, "
             "unknown is null.");
    rs_json_out_end(&json);
    rs_json_out_key(&json, "security");
    rs_json_out_array(&json);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "token");
    rs_json_out_array(&json);
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "certificate");
    rs_json_out_array(&json);
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    put_paths(&json);
    put_components(&json);
    rs_json_out_end(&json);
    api_json(ask, &body);
}
