/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a capture and its report. Two questions: the list, made on the server's pool unless it is there, then one document,
 * page by page as the client takes it. A capture that goes on may change between the two: then the list is asked for again.
 */
#include "aggregator/http/api_priv.h"
#include "aggregator/http/page.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/wire/wire.h"

#include <stdio.h>
#include <string.h>

enum { TRIES = 4, TEXT_COLUMNS = 100, REPORT_TEXT = 1, REPORT_JSON = 2 };

static const char report_name[] = "report"; /* of the document that a command prints */

static Rankscope__Reply *read_list(struct api_ask *ask, Rankscope__DocumentOptions *options)
{
    Rankscope__AskDocuments question = RANKSCOPE__ASK_DOCUMENTS__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    if (!rs_wire_is_capture_id(ask->id)) {
        rs_http_problem_as(ask->answer, 404, "that is no name of a capture");
        return NULL;
    }
    question.capture = ask->id;
    question.options = options;
    message.message_case = RANKSCOPE__ASK__MESSAGE_DOCUMENTS;
    message.documents = &question;
    return api_ask(ask, &message, RANKSCOPE__REPLY__MESSAGE_DOCUMENTS);
}

/* ---- the list ------------------------------------------------------------------------------------------------------ */

static void put_list(struct api_ask *ask, const Rankscope__DocumentList *list)
{
    struct rs_buf body = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &body, 0);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "generation");
    rs_json_out_uint(&json, list->generation);
    rs_json_out_key(&json, "is_partial");
    rs_json_out_bool(&json, list->is_partial);
    rs_json_out_key(&json, "is_provisional");
    rs_json_out_bool(&json, list->is_provisional);
    rs_json_out_key(&json, "notes");
    rs_json_out_array(&json);
    for (size_t i = 0; i < list->n_lines; i++)
        rs_json_out_string(&json, list->lines[i]);
    rs_json_out_end(&json);
    rs_json_out_key(&json, "files");
    rs_json_out_array(&json);
    for (size_t i = 0; i < list->n_documents; i++) {
        const Rankscope__Document *document = list->documents[i];
        rs_json_out_object(&json);
        rs_json_out_key(&json, "name");
        rs_json_out_string(&json, document->name);
        rs_json_out_key(&json, "bytes");
        rs_json_out_uint(&json, document->size);
        rs_json_out_key(&json, "sha256");
        if (*document->sha256)
            rs_json_out_string(&json, document->sha256);
        else
            rs_json_out_null(&json);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    api_json(ask, &body);
}

static bool fill_options(struct api_ask *ask, Rankscope__DocumentOptions *options)
{
    bool is_raw = false, has_common_clock = false;
    rankscope__document_options__init(options);
    if (!api_flag(ask, "raw", &is_raw) || !api_flag(ask, "assume_common_clock", &has_common_clock))
        return false;
    options->assume_common_clock = has_common_clock && !is_raw;
    options->raw = is_raw;
    options->deliverables = !is_raw;
    return true;
}

void route_files(struct api_ask *ask)
{
    Rankscope__DocumentOptions options;
    Rankscope__Reply *reply = fill_options(ask, &options) ? read_list(ask, &options) : NULL;
    if (!reply)
        return;
    put_list(ask, reply->documents);
    rankscope__reply__free_unpacked(reply, NULL);
}

/* ---- one ----------------------------------------------------------------------------------------------------------- */

struct download {
    struct rs_call *call;
    Rankscope__Reply *first;
    uint64_t left;
    bool is_over;
};

static void end_download(void *self)
{
    struct download *download = self;
    rs_call_end(&download->call);
    if (download->first)
        rankscope__reply__free_unpacked(download->first, NULL);
    rs_mem_free(download);
}

static enum rs_status next_page(void *self, struct rs_buf *buf)
{
    struct download *download = self;
    Rankscope__Reply *reply = download->first;
    struct rs_err err = {0};
    enum rs_status status = RS_OK;
    if (download->is_over) /* cut short is not whole: the client must see it */
        return download->left ? RS_FORMAT : RS_END;
    download->first = NULL;
    while (!reply && (status == RS_OK || status == RS_AGAIN))
        status = rs_call_next(download->call, rs_time_monotonic() + RS_NS_PER_S, &reply, &err);
    if (!reply)
        return status == RS_END && !download->left ? RS_END : RS_UNREACHABLE;
    download->is_over = reply->last;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_DATA) {
        const ProtobufCBinaryData bytes = reply->data->bytes;
        rs_buf_bytes(buf, bytes.data, bytes.len);
        download->left -= bytes.len < download->left ? bytes.len : download->left;
    }
    rankscope__reply__free_unpacked(reply, NULL);
    return RS_OK;
}

static const Rankscope__Document *find(const Rankscope__DocumentList *list, const char *name)
{
    for (size_t i = 0; i < list->n_documents; i++)
        if (strcmp(list->documents[i]->name, name) == 0)
            return list->documents[i];
    return NULL;
}

/* Begins to send a document of the list. RS_NOTFOUND: it is not kept any more; any other failure is the answer already. */
static enum rs_status send_document(struct api_ask *ask, Rankscope__DocumentOptions *options,
                                    uint64_t generation, const Rankscope__Document *document)
{
    Rankscope__AskDocument question = RANKSCOPE__ASK_DOCUMENT__INIT;
    Rankscope__Ask message = RANKSCOPE__ASK__INIT;
    struct rs_err err = {0};
    struct download *download = rs_mem_calloc(1, sizeof *download);
    if (!download) {
        rs_http_problem_as(ask->answer, 500, "out of memory");
        return RS_NOMEM;
    }
    question.capture = ask->id;
    question.options = options;
    question.name = document->name;
    question.generation = generation;
    question.size = document->size;
    message.message_case = RANKSCOPE__ASK__MESSAGE_DOCUMENT;
    message.document = &question;
    download->left = document->size;
    download->call = api_begin(ask, &message);
    if (download->call)
        download->first = api_next(ask, download->call, &err);
    if (!download->first) {
        const bool is_over = download->call && err.status >= 0; /* without a page */
        end_download(download);
        if (is_over && document->size)
            rs_http_problem_as(ask->answer, 500, "the aggregator sent nothing of it");
        return is_over ? RS_OK : err.status < 0 ? err.status : RS_UNREACHABLE;
    }
    ask->answer->next = next_page;
    ask->answer->end = end_download;
    ask->answer->self = download;
    return RS_OK;
}

static const char *type_of(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"}, {".md", "text/markdown; charset=utf-8"},
        {".json", "application/json"},         {".csv", "text/csv; charset=utf-8"},
        {".txt", "text/plain; charset=utf-8"}, {".db", "application/vnd.sqlite3"},
    };
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const size_t end = strlen(types[i].end);
        if (length > end && strcmp(name + length - end, types[i].end) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}

/* A name behind the last "/", of signs that need no quoting. */
static void name_file(struct rs_http_answer *answer, const char *name)
{
    const char *slash = strrchr(name, '/');
    size_t used = 0;
    for (const char *p = slash ? slash + 1 : name; *p && used < sizeof answer->file - 1; p++) {
        const bool is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                              (*p >= '0' && *p <= '9') || strchr("._-", *p);
        answer->file[used++] = (char)(is_plain ? *p : '_');
    }
    answer->file[used] = '\0';
}

static bool is_shown(const char *type)
{
    return strncmp(type, "text/", 5) == 0 || strcmp(type, "application/json") == 0;
}

/* Whether the client has this very document: then nothing is sent. */
static bool has_it(struct api_ask *ask, const Rankscope__Document *document)
{
    const char *known = rs_http_header(ask->request, "If-None-Match");
    char etag[RS_HTTP_ETAG_BYTES];
    if (!*document->sha256)
        return false;
    (void)snprintf(ask->answer->etag, sizeof ask->answer->etag, "%.64s", document->sha256);
    (void)snprintf(etag, sizeof etag, "\"%.64s\"", document->sha256);
    if (!known || !strstr(known, etag))
        return false;
    ask->answer->status = 304;
    return true;
}

/* Our own report has a script, which stands in its text; another HTML page has none. */
static const char *script_of(const Rankscope__DocumentOptions *options, const char *name)
{
    const bool is_report = options->deliverables && strcmp(name, "report.html") == 0;
    return is_report && *page_report_sha256 ? page_report_sha256 : NULL;
}

/* Finds the document and sends it; `type` NULL: by its name. */
static void answer_document(struct api_ask *ask, Rankscope__DocumentOptions *options,
                            const char *name, const char *type)
{
    enum rs_status status = RS_NOTFOUND;
    for (int i = 0; i < TRIES && status == RS_NOTFOUND; i++) {
        rs_buf_reset(&ask->answer->body); /* of the last try */
        ask->answer->status = 200;
        Rankscope__Reply *reply = read_list(ask, options);
        if (!reply)
            return;
        const Rankscope__Document *document = find(reply->documents, name);
        ask->answer->type = type ? type : type_of(name);
        ask->answer->script_sha256 = script_of(options, name);
        if (!document) {
            rs_http_problem_as(ask->answer, 404, "the capture has no such file");
            status = RS_OK;
        } else if (has_it(ask, document)) {
            status = RS_OK;
        } else {
            const char *shown = ask->answer->type;
            status = send_document(ask, options, reply->documents->generation, document);
            if (status == RS_OK && (options->raw || !is_shown(shown)))
                name_file(ask->answer, name);
        }
        rankscope__reply__free_unpacked(reply, NULL);
    }
}

void route_file(struct api_ask *ask)
{
    Rankscope__DocumentOptions options;
    if (fill_options(ask, &options))
        answer_document(ask, &options, ask->rest, NULL);
}

/* ---- the report ----------------------------------------------------------------------------------------------------- */

/* By ?format=, else by what the client would like best, as far as it says so. */
static const char *format_of(const struct api_ask *ask)
{
    const char *format = rs_http_query(ask->request, "format");
    const char *accept = rs_http_header(ask->request, "Accept");
    if (format)
        return format;
    if (accept && strncmp(accept, "application/json", 16) == 0)
        return "json";
    if (accept && strncmp(accept, "text/markdown", 13) == 0)
        return "md";
    return accept && strncmp(accept, "text/plain", 10) == 0 ? "text" : "html";
}

void route_report(struct api_ask *ask)
{
    Rankscope__DocumentOptions options = RANKSCOPE__DOCUMENT_OPTIONS__INIT;
    const char *format = format_of(ask);
    bool has_common_clock = false;
    if (!api_flag(ask, "assume_common_clock", &has_common_clock))
        return;
    options.assume_common_clock = has_common_clock;
    if (strcmp(format, "html") == 0 || strcmp(format, "md") == 0) {
        options.deliverables = true;
        answer_document(ask, &options, *format == 'h' ? "report.html" : "report.md", NULL);
    } else if (strcmp(format, "json") == 0) {
        options.report = REPORT_JSON;
        answer_document(ask, &options, report_name, "application/json");
    } else if (strcmp(format, "text") == 0) {
        options.report = REPORT_TEXT;
        options.width = TEXT_COLUMNS;
        options.has_utf8 = true;
        answer_document(ask, &options, report_name, "text/plain; charset=utf-8");
    } else {
        rs_http_problem_as(ask->answer, 400, "format is html, md, text or json");
    }
}
