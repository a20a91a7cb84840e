/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of files says what a capture is: names, sizes, digests. It is made from the folder before anything is sent, written to
 * the archive when all of them are there, and kept in the folder as archived.json.
 *
 *     folder --walk, digest--> list --each that lacks there--> PUT --> archive.json --> archived.json, archive --> lanes unlinked
 *                                                                                            |
 *     .tmp-FILE <--GET, goes on where it was cut off-- each that lacks here <----------------'
 *        `--SHA-256 is right--> FILE; wrong: removed, RS_FORMAT
 *
 * Files get the time back that they had: caches of what was made from them hold.
 */
#include "aggregator/archive/archive.h"

#include "aggregator/archive/s3.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "archive"
#include "common/base/log.h"
#include "common/curl/curl.h"

#include <jansson.h>
#include <openssl/crypto.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LIST_MAX_BYTES = 64 << 20,
    FILES_MAX = 1 << 20,
    NAME_BYTES = 256,
    KEY_BYTES = 1024,
    CREDENTIALS_MAX_BYTES = 8192,
    DEPTH_MAX = 4,
};

static const char list_name[] = RS_ARCHIVE_LIST_NAME;
static const char list_key[] = "archive.json"; /* in the archive */
static const char place_name[] = RS_ARCHIVE_PLACE_NAME;

struct rs_archive {
    struct rs_s3_shared shared;
    char *url, *prefix; /* prefix: "" or "a/b/" */
    char *endpoint, *bucket, *region, *ca_file;
    struct rs_buf credentials; /* lines, each with a NUL instead of its end */
};

/* ---- settings ----------------------------------------------------------------------------------------------------- */

static bool is_word(const char *text, const char *more)
{
    for (; *text; text++)
        if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
              (*text >= '0' && *text <= '9') || strchr(more, *text)))
            return false;
    return true;
}

static enum rs_status parse_url(struct rs_archive *archive, const char *url, struct rs_err *err)
{
    static const char scheme[] = "s3://";
    const char *bucket = url + sizeof scheme - 1;
    if (strncmp(url, scheme, sizeof scheme - 1) != 0 || !*bucket || *bucket == '/')
        return rs_err_set(err, RS_INVALID,
                          "an archive is s3://BUCKET or s3://BUCKET/PREFIX, not \"%.200s\"", url);
    const size_t length = strcspn(bucket, "/");
    const char *prefix = bucket + length;
    while (*prefix == '/')
        prefix++;
    size_t prefix_length = strlen(prefix);
    while (prefix_length && prefix[prefix_length - 1] == '/')
        prefix_length--;
    struct rs_buf folder = {0}, whole = {0};
    rs_buf_bytes(&folder, prefix, prefix_length);
    if (prefix_length)
        rs_buf_u8(&folder, '/');
    archive->bucket = rs_mem_strndup(bucket, length);
    archive->prefix = folder.failed ? NULL : rs_mem_strdup(rs_buf_text(&folder));
    rs_buf_printf(&whole, "s3://%s%s%.*s", archive->bucket ? archive->bucket : "",
                  prefix_length ? "/" : "", (int)prefix_length, prefix);
    archive->url = whole.failed ? NULL : rs_mem_strdup(rs_buf_text(&whole));
    rs_buf_fini(&folder);
    rs_buf_fini(&whole);
    if (!archive->bucket || !archive->prefix || !archive->url)
        return rs_err_set(err, RS_NOMEM, "no memory for an archive");
    if (!is_word(archive->bucket, ".-_") || !is_word(archive->prefix, "/._-+") ||
        strstr(archive->prefix, "//") || strlen(archive->prefix) > KEY_BYTES / 2)
        return rs_err_set(
            err, RS_INVALID,
            "the archive \"%.200s\": bucket and prefix consist of a-z, A-Z, 0-9 and . _ - +", url);
    return RS_OK;
}

static bool is_loopback(const char *host)
{
    struct in_addr address;
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/* What a capture tells of a job is nobody else's: plain HTTP does not leave this machine. */
static enum rs_status check_endpoint(const char *endpoint, struct rs_err *err)
{
    CURLU *parts = curl_url();
    char *host = NULL, *scheme = NULL, *path = NULL;
    enum rs_status status = RS_OK;
    if (!parts || curl_url_set(parts, CURLUPART_URL, endpoint, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_PATH, &path, 0) != CURLUE_OK || strcmp(path, "/") != 0 ||
        strpbrk(endpoint, "?#@"))
        status = rs_err_set(
            err, RS_INVALID,
            "the archive's endpoint is https://HOST or https://HOST:PORT, not \"%.200s\"",
            endpoint);
    else if (strcmp(scheme, "https") != 0 && (strcmp(scheme, "http") != 0 || !is_loopback(host)))
        status = rs_err_set(
            err, RS_REFUSED,
            "the archive's endpoint %.200s: beyond this machine only https:// is spoken", endpoint);
    curl_free(host);
    curl_free(scheme);
    curl_free(path);
    curl_url_cleanup(parts);
    return status;
}

static enum rs_status read_credentials(struct rs_archive *archive, const char *path,
                                       struct rs_err *err)
{
    struct stat info;
    const char **const places[] = {&archive->shared.key_id, &archive->shared.secret,
                                   &archive->shared.session_token};
    if (stat(path, &info) == 0 && (info.st_mode & 077))
        return rs_err_set(err, RS_REFUSED,
                          "%s: others may read it: make it 0600, it holds a secret", path);
    const enum rs_status status =
        rs_file_read(path, CREDENTIALS_MAX_BYTES, &archive->credentials, err);
    if (status < 0)
        return status;
    rs_buf_u8(&archive->credentials, '\0');
    if (archive->credentials.failed)
        return rs_err_set(err, RS_NOMEM, "no memory for an archive");
    char *line = (char *)archive->credentials.data;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && *line; i++) {
        const size_t length = strcspn(line, "\r\n");
        const bool is_last = line[length] == '\0';
        line[length] = '\0';
        *places[i] = line;
        line += length + (is_last ? 0 : 1);
        line += strspn(line, "\r\n");
    }
    return *archive->shared.key_id && *archive->shared.secret
               ? RS_OK
               : rs_err_set(err, RS_INVALID,
                            "%s: its first line is the key's id, its second one the secret", path);
}

static enum rs_status find_credentials(struct rs_archive *archive, const char *path,
                                       struct rs_err *err)
{
    struct rs_s3_shared *shared = &archive->shared;
    shared->key_id = shared->secret = shared->session_token = "";
    if (path)
        return read_credentials(archive, path, err);
    const char *id =
        getenv("AWS_ACCESS_KEY_ID"); /* NOLINT(concurrency-mt-unsafe): nobody sets it */
    const char *secret = getenv("AWS_SECRET_ACCESS_KEY"); /* NOLINT(concurrency-mt-unsafe) */
    const char *token = getenv("AWS_SESSION_TOKEN");      /* NOLINT(concurrency-mt-unsafe) */
    if (!id || !*id || !secret || !*secret)
        return rs_err_set(
            err, RS_INVALID,
            "the archive needs credentials: --archive-credentials FILE, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY");
    shared->key_id = id;
    shared->secret = secret;
    shared->session_token = token ? token : "";
    return RS_OK;
}

static enum rs_status fill(struct rs_archive *archive, const struct rs_archive_options *options,
                           struct rs_err *err)
{
    const char *region = options->region ? options->region : "us-east-1";
    char amazon[256];
    (void)snprintf(amazon, sizeof amazon, "https://s3.%.100s.amazonaws.com", region);
    enum rs_status status = parse_url(archive, options->url, err);
    if (status == RS_OK && (!*region || strlen(region) > 63 || !is_word(region, "-")))
        status = rs_err_set(err, RS_INVALID, "\"%.100s\" is no region", region);
    archive->endpoint = rs_mem_strdup(options->endpoint ? options->endpoint : amazon);
    archive->region = rs_mem_strdup(region);
    archive->ca_file = rs_mem_strdup(options->ca_file ? options->ca_file : "");
    if (status == RS_OK && (!archive->endpoint || !archive->region || !archive->ca_file))
        status = rs_err_set(err, RS_NOMEM, "no memory for an archive");
    if (status == RS_OK)
        status = check_endpoint(archive->endpoint, err);
    if (status == RS_OK && *archive->ca_file && access(archive->ca_file, R_OK) < 0)
        status = rs_err_errno(err, "cannot read %s", archive->ca_file);
    if (status < 0)
        return status;
    while (*archive->endpoint && archive->endpoint[strlen(archive->endpoint) - 1] == '/')
        archive->endpoint[strlen(archive->endpoint) - 1] = '\0';
    archive->shared.endpoint = archive->endpoint;
    archive->shared.bucket = archive->bucket;
    archive->shared.region = archive->region;
    archive->shared.ca_file = archive->ca_file;
    archive->shared.retry_ns = options->retry_ns ? options->retry_ns : RS_NS_PER_S / 2;
    return find_credentials(archive, options->credentials, err);
}

enum rs_status rs_archive_open(const struct rs_archive_options *options,
                               struct rs_archive **archive_p, struct rs_err *err)
{
    *archive_p = NULL;
    if (!options->url)
        return RS_OK;
    struct rs_archive *archive = rs_mem_calloc(1, sizeof *archive);
    if (!archive)
        return rs_err_set(err, RS_NOMEM, "no memory for an archive");
    enum rs_status status = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
                                ? RS_OK
                                : rs_err_set(err, RS_IO, "libcurl cannot be used");
    if (status == RS_OK)
        status = fill(archive, options, err);
    if (status < 0)
        rs_archive_close(&archive);
    *archive_p = archive;
    return status;
}

void rs_archive_stop(struct rs_archive *archive)
{
    if (archive)
        atomic_store(&archive->shared.is_stopped, true);
}

void rs_archive_close(struct rs_archive **archive_p)
{
    struct rs_archive *archive = *archive_p;
    *archive_p = NULL;
    if (!archive)
        return;
    if (archive->credentials.data)
        OPENSSL_cleanse(archive->credentials.data, archive->credentials.capacity);
    rs_buf_fini(&archive->credentials);
    rs_mem_free(archive->url);
    rs_mem_free(archive->prefix);
    rs_mem_free(archive->endpoint);
    rs_mem_free(archive->bucket);
    rs_mem_free(archive->region);
    rs_mem_free(archive->ca_file);
    rs_mem_free(archive);
}

const char *rs_archive_url(const struct rs_archive *archive)
{
    return archive->url;
}

/* ---- the list ------------------------------------------------------------------------------------------------------- */

struct item {
    char *name;
    uint64_t size;
    rs_ns mtime;
    char sha256[RS_SHA256_HEX_BYTES]; /* "": not yet */
};

struct list {
    struct item *items;
    size_t count, capacity;
    uint64_t bytes;
};

static void free_list(struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        rs_mem_free(list->items[i].name);
    rs_mem_free(list->items);
    *list = (struct list){0};
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool is_lane(const char *name)
{
    return begins(name, "segments/") || begins(name, "summaries/");
}

/* Rows are joined again by whoever asks for them; the two last ones say where the capture is. */
static bool is_derived(const char *name)
{
    return begins(name, "rows.db") || begins(name, "rows.at") || begins(name, "members/") ||
           strcmp(name, list_name) == 0 || strcmp(name, place_name) == 0 || strstr(name, ".tmp-") ||
           strstr(name, "-wal") || strstr(name, "-shm") || strcmp(name, "restored") == 0;
}

/* A path below a folder: nothing in it leads anywhere else. */
static bool is_good_name(const char *name)
{
    bool is_begin = true;
    if (!*name || strlen(name) >= NAME_BYTES || !is_word(name, "/._-+"))
        return false;
    for (const char *p = name; *p; p++) {
        if (is_begin && (*p == '.' || *p == '/'))
            return false;
        is_begin = *p == '/';
    }
    return !is_begin;
}

static enum rs_status add_item(struct list *list, const char *name, uint64_t size, rs_ns mtime,
                               struct rs_err *err)
{
    if (list->count >= FILES_MAX)
        return rs_err_set(err, RS_LIMIT, "a capture has more than %d files", FILES_MAX);
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items) <
        0)
        return rs_err_set(err, RS_NOMEM, "no memory for a list of files");
    struct item *item = &list->items[list->count];
    *item = (struct item){.name = rs_mem_strdup(name), .size = size, .mtime = mtime};
    if (!item->name)
        return rs_err_set(err, RS_NOMEM, "no memory for a list of files");
    list->count++;
    list->bytes += size;
    return RS_OK;
}

static enum rs_status walk(const char *dir, const char *prefix, int depth, struct list *list,
                           struct rs_err *err)
{
    DIR *stream = opendir(dir);
    enum rs_status status = stream ? RS_OK : rs_err_errno(err, "cannot read the folder %s", dir);
    for (const struct dirent *entry = stream ? readdir(stream) : NULL; entry && status == RS_OK;
         entry = readdir(stream)) { /* NOLINT(concurrency-mt-unsafe): a stream of our own */
        struct stat info;
        char name[NAME_BYTES * 2];
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        const int length = snprintf(name, sizeof name, "%s%s%s", prefix, entry->d_name,
                                    S_ISDIR(info.st_mode) ? "/" : "");
        if (is_derived(name))
            continue;
        if (S_ISREG(info.st_mode) && ((size_t)length >= sizeof name || !is_good_name(name)))
            status = rs_err_set(err, RS_INVALID, "%s/%.200s cannot be archived under its name", dir,
                                entry->d_name);
        else if (S_ISREG(info.st_mode))
            status = add_item(list, name, (uint64_t)info.st_size, rs_time_of(&info.st_mtim), err);
        else if (S_ISDIR(info.st_mode) && depth < DEPTH_MAX) {
            char *path = rs_file_join(dir, entry->d_name);
            status = path ? walk(path, name, depth + 1, list, err)
                          : rs_err_set(err, RS_NOMEM, "no memory for a list of files");
            rs_mem_free(path);
        }
    }
    if (stream)
        (void)closedir(stream);
    return status;
}

static int by_name(const void *a_, const void *b_)
{
    const struct item *a = a_, *b = b_;
    return strcmp(a->name, b->name);
}

static enum rs_status list_folder(const char *dir, struct list *list, struct rs_err *err)
{
    enum rs_status status = walk(dir, "", 0, list, err);
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, by_name);
    for (size_t i = 0; i < list->count && status == RS_OK; i++) {
        char *path = rs_file_join(dir, list->items[i].name);
        status = path ? rs_sha256_file(path, list->items[i].sha256, err)
                      : rs_err_set(err, RS_NOMEM, "no memory for a list of files");
        rs_mem_free(path);
    }
    return status;
}

static void print_list(const struct rs_archive *archive, const char *id, const struct list *list,
                       struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 1);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "capture");
    rs_json_out_string(&json, id);
    rs_json_out_key(&json, "location");
    char location[KEY_BYTES];
    (void)snprintf(location, sizeof location, "%s/%s", archive->url, id);
    rs_json_out_string(&json, location);
    rs_json_out_key(&json, "files");
    rs_json_out_array(&json);
    for (size_t i = 0; i < list->count; i++) {
        const struct item *item = &list->items[i];
        rs_json_out_object(&json);
        rs_json_out_key(&json, "name");
        rs_json_out_string(&json, item->name);
        rs_json_out_key(&json, "size");
        rs_json_out_uint(&json, item->size);
        rs_json_out_key(&json, "mtime_ns");
        rs_json_out_int(&json, item->mtime);
        rs_json_out_key(&json, "sha256");
        rs_json_out_string(&json, item->sha256);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_buf_u8(buf, '\n');
}

static bool is_hex(const char *text)
{
    return strlen(text) == RS_SHA256_HEX_BYTES - 1 &&
           text[strspn(text, "0123456789abcdef")] == '\0';
}

/* Somebody else may have written it: a name must not lead out of the folder. */
static enum rs_status parse_list(const char *text, size_t length, const char *from,
                                 struct list *list, struct rs_err *err)
{
    json_error_t where;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    const json_t *files = json_object_get(root, "files");
    enum rs_status status = RS_OK;
    if (!root)
        status = rs_err_set(err, RS_FORMAT, "%s: %s, line %d", from, where.text, where.line);
    else if (json_integer_value(json_object_get(root, "schema_version")) != 1)
        status =
            rs_err_set(err, RS_VERSION,
                       "%s is of another version of Rankscope: schema_version 1 is read", from);
    else if (!json_is_array(files))
        status = rs_err_set(err, RS_FORMAT, "%s has no list of files", from);
    for (size_t i = 0; status == RS_OK && i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        const char *name = json_string_value(json_object_get(file, "name"));
        const char *sha256 = json_string_value(json_object_get(file, "sha256"));
        const json_t *size = json_object_get(file, "size");
        const json_t *mtime = json_object_get(file, "mtime_ns");
        if (!name || !sha256 || !is_good_name(name) || is_derived(name) || !is_hex(sha256) ||
            !json_is_integer(size) || json_integer_value(size) < 0 || !json_is_integer(mtime)) {
            status = rs_err_set(
                err, RS_FORMAT,
                "%s: file %zu of its list has no name, size, mtime_ns or sha256 that can be taken",
                from, i);
            break;
        }
        status = add_item(list, name, (uint64_t)json_integer_value(size), json_integer_value(mtime),
                          err);
        if (status == RS_OK)
            memcpy(list->items[list->count - 1].sha256, sha256, RS_SHA256_HEX_BYTES);
    }
    json_decref(root);
    return status;
}

/* RS_NOTFOUND: it was never archived. */
static enum rs_status read_list(const char *dir, struct list *list, struct rs_err *err)
{
    struct rs_buf buf = {0};
    char *path = rs_file_join(dir, list_name);
    enum rs_status status = path ? rs_file_read(path, LIST_MAX_BYTES, &buf, err)
                                 : rs_err_set(err, RS_NOMEM, "no memory for a list of files");
    if (status == RS_OK)
        status = parse_list(rs_buf_text(&buf), buf.length, path, list, err);
    rs_buf_fini(&buf);
    rs_mem_free(path);
    return status;
}

/* RS_END: it is whole here. RS_REFUSED: it is archived elsewhere than this archive would look. `archive` NULL: wherever. */
static enum rs_status look_at_place(const struct rs_archive *archive, const char *id,
                                    const char *dir, struct rs_err *err)
{
    struct rs_buf buf = {0};
    char expected[KEY_BYTES];
    char *path = rs_file_join(dir, place_name);
    enum rs_status status = path ? rs_file_read(path, KEY_BYTES, &buf, err)
                                 : rs_err_set(err, RS_NOMEM, "no memory for an archive");
    if (status == RS_OK && archive) {
        const char *place = rs_buf_text(&buf);
        (void)snprintf(expected, sizeof expected, "%s/%s\n", archive->url, id);
        if (strcmp(place, expected) != 0)
            status =
                rs_err_set(err, RS_REFUSED,
                           "capture %s is archived at %.*s, and this aggregator's archive is %s",
                           id, (int)strcspn(place, "\n"), place, archive->url);
    }
    rs_buf_fini(&buf);
    rs_mem_free(path);
    return status == RS_NOTFOUND ? RS_END : status;
}

/* ---- moving --------------------------------------------------------------------------------------------------------- */

struct moving {
    struct rs_s3 *s3;
    const struct rs_archive_progress *progress;
    uint64_t done, all;
};

static void moved(void *self, uint64_t bytes)
{
    struct moving *moving = self;
    moving->done += bytes;
    if (moving->progress && moving->progress->moved)
        moving->progress->moved(moving->progress->self, moving->done, moving->all);
}

static enum rs_status key_of(const struct rs_archive *archive, const char *id, const char *name,
                             char key_p[KEY_BYTES], struct rs_err *err)
{
    const int length = snprintf(key_p, KEY_BYTES, "%s%s/%s", archive->prefix, id, name);
    return length > 0 && length < KEY_BYTES
               ? RS_OK
               : rs_err_set(err, RS_INVALID, "the key of %s/%s is too long", id, name);
}

static enum rs_status send_item(const struct rs_archive *archive, const char *id, const char *dir,
                                const struct item *item, struct moving *moving, struct rs_err *err)
{
    char key[KEY_BYTES];
    struct rs_s3_object there;
    char *path = rs_file_join(dir, item->name);
    enum rs_status status = path ? key_of(archive, id, item->name, key, err)
                                 : rs_err_set(err, RS_NOMEM, "no memory to archive a capture");
    enum rs_status found = RS_NOTFOUND;
    if (status == RS_OK) {
        found = rs_s3_head(moving->s3, key, &there, err);
        status = found == RS_NOTFOUND ? RS_OK : found;
    }
    if (status == RS_OK && found == RS_OK && there.size == item->size &&
        strcmp(there.sha256, item->sha256) == 0)
        moved(moving, item->size);
    else if (status == RS_OK)
        status =
            rs_s3_put_file(moving->s3, key, path, item->size, item->sha256, moved, moving, err);
    rs_mem_free(path);
    return status;
}

static enum rs_status write_list(const char *dir, const struct rs_buf *text, struct rs_err *err)
{
    char *path = rs_file_join(dir, list_name);
    const enum rs_status status = path
                                      ? rs_file_replace(path, text->data, text->length, true, err)
                                      : rs_err_set(err, RS_NOMEM, "no memory to archive a capture");
    rs_mem_free(path);
    return status;
}

enum rs_status rs_archive_upload(struct rs_archive *archive, const char *id, const char *dir,
                                 const struct rs_archive_progress *progress, struct rs_err *err)
{
    struct list list = {0};
    struct rs_buf text = {0};
    char key[KEY_BYTES], sha256[RS_SHA256_HEX_BYTES];
    struct moving moving = {.progress = progress};
    enum rs_status status = look_at_place(archive, id, dir, err);
    if (status != RS_END)
        return status; /* all of it is there, and maybe not all of it here */
    status = rs_s3_open(&archive->shared, &moving.s3, err);
    if (status == RS_OK)
        status = list_folder(dir, &list, err);
    moving.all = list.bytes;
    for (size_t i = 0; i < list.count && status == RS_OK; i++)
        status = send_item(archive, id, dir, &list.items[i], &moving, err);
    if (status == RS_OK) {
        print_list(archive, id, &list, &text);
        status = key_of(archive, id, list_key, key, err);
    }
    if (status == RS_OK && (text.failed || rs_sha256_hex(text.data, text.length, sha256) < 0))
        status = rs_err_set(err, RS_NOMEM, "no memory to archive a capture");
    if (status == RS_OK)
        status = rs_s3_put(moving.s3, key, text.data, text.length, sha256, err);
    if (status == RS_OK)
        status = write_list(dir, &text, err);
    rs_buf_fini(&text);
    free_list(&list);
    rs_s3_close(&moving.s3);
    return status;
}

enum rs_status rs_archive_let_go(const struct rs_archive *archive, const char *id, const char *dir,
                                 struct rs_err *err)
{
    struct list list = {0};
    char line[KEY_BYTES];
    char *place = rs_file_join(dir, place_name);
    const int length = snprintf(line, sizeof line, "%s/%s\n", archive->url, id);
    enum rs_status status = read_list(dir, &list, err);
    if (status == RS_OK)
        status = place ? rs_file_replace(place, line, (size_t)length, true, err)
                       : rs_err_set(err, RS_NOMEM, "no memory to archive a capture");
    for (size_t i = 0; i < list.count && status == RS_OK; i++) {
        if (!is_lane(list.items[i].name))
            continue;
        char *path = rs_file_join(dir, list.items[i].name);
        if (!path)
            status = rs_err_set(err, RS_NOMEM, "no memory to archive a capture");
        else if (unlink(path) < 0 && errno != ENOENT)
            status = rs_err_errno(err, "cannot remove %s, which is archived", path);
        rs_mem_free(path);
    }
    rs_mem_free(place);
    free_list(&list);
    return status;
}

/* ---- and back --------------------------------------------------------------------------------------------------------- */

static bool is_here(const char *path, const struct item *item)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == item->size;
}

static enum rs_status make_folder_of(const char *path, struct rs_err *err)
{
    char *folder = rs_mem_strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    enum rs_status status = RS_OK;
    if (!folder)
        return rs_err_set(err, RS_NOMEM, "no memory to fetch a capture");
    if (slash) {
        *slash = '\0';
        status = rs_file_make_dirs(folder, RS_FOLDER_MODE, err);
    }
    rs_mem_free(folder);
    return status;
}

/* It has its name when it is what was sent, and its old time: what was made from it still is. */
static enum rs_status take_over(const char *part, const char *path, const struct item *item,
                                struct rs_err *err)
{
    char sha256[RS_SHA256_HEX_BYTES];
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_NOW},
        {.tv_sec = (time_t)(item->mtime / RS_NS_PER_S), .tv_nsec = item->mtime % RS_NS_PER_S}};
    enum rs_status status = rs_sha256_file(part, sha256, err);
    if (status == RS_OK && strcmp(sha256, item->sha256) != 0) {
        (void)unlink(part);
        return rs_err_set(
            err, RS_FORMAT,
            "%s came back from the archive with the SHA-256 %.16s..., and was sent with %.16s...",
            item->name, sha256, item->sha256);
    }
    if (status == RS_OK)
        status = rs_file_set_mode(part, err);
    if (status == RS_OK && item->mtime >= 0)
        (void)utimensat(AT_FDCWD, part, times, AT_SYMLINK_NOFOLLOW);
    if (status == RS_OK && rename(part, path) < 0)
        status = rs_err_errno(err, "cannot rename %s", part);
    return status;
}

static enum rs_status fetch_item(const struct rs_archive *archive, const char *id, const char *dir,
                                 const struct item *item, struct moving *moving, struct rs_err *err)
{
    char key[KEY_BYTES];
    char *path = rs_file_join(dir, item->name);
    struct rs_buf part = {0};
    rs_buf_printf(&part, "%s.tmp-fetch", path ? path : "");
    enum rs_status status = path && !part.failed
                                ? key_of(archive, id, item->name, key, err)
                                : rs_err_set(err, RS_NOMEM, "no memory to fetch a capture");
    if (status == RS_OK && is_here(path, item)) {
        moved(moving, item->size);
    } else if (status == RS_OK) {
        status = make_folder_of(path, err);
        if (status == RS_OK)
            status =
                rs_s3_get_file(moving->s3, key, rs_buf_text(&part), item->size, moved, moving, err);
        if (status == RS_OK)
            status = take_over(rs_buf_text(&part), path, item, err);
    }
    rs_buf_fini(&part);
    rs_mem_free(path);
    return status;
}

static enum rs_status fetch_list(const struct rs_archive *archive, const char *id, const char *dir,
                                 const struct list *list, struct moving *moving, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    moving->all = list->bytes;
    for (size_t i = 0; i < list->count && status == RS_OK; i++)
        status = fetch_item(archive, id, dir, &list->items[i], moving, err);
    return status;
}

/* Nothing lacks: nobody is asked. */
static bool all_here(const char *dir, const struct list *list)
{
    bool is_fine = true;
    for (size_t i = 0; i < list->count && is_fine; i++) {
        char *path = rs_file_join(dir, list->items[i].name);
        is_fine = path && is_here(path, &list->items[i]);
        rs_mem_free(path);
    }
    return is_fine;
}

enum rs_status rs_archive_fetch(struct rs_archive *archive, const char *id, const char *dir,
                                const struct rs_archive_progress *progress, struct rs_err *err)
{
    struct list list = {0};
    struct moving moving = {.progress = progress};
    enum rs_status status = look_at_place(archive, id, dir, err);
    if (status == RS_END)
        return RS_OK;
    if (status == RS_OK)
        status = read_list(dir, &list, err);
    if (status == RS_OK && !all_here(dir, &list)) {
        status =
            archive
                ? rs_s3_open(&archive->shared, &moving.s3, err)
                : rs_err_set(
                      err, RS_REFUSED,
                      "capture %s is archived, and this aggregator has no --archive to fetch it from",
                      id);
        if (status == RS_OK)
            status = fetch_list(archive, id, dir, &list, &moving, err);
    }
    rs_s3_close(&moving.s3);
    free_list(&list);
    return status;
}

static void unlink_in(const char *dir, const char *name)
{
    char *path = rs_file_join(dir, name);
    if (path)
        (void)unlink(path);
    rs_mem_free(path);
}

/* From the list in the archive into a folder beside, which gets its name when all of it is there. */
static enum rs_status restore_new(struct rs_archive *archive, const char *id, const char *dir,
                                  const struct rs_archive_progress *progress, struct rs_err *err)
{
    struct list list = {0};
    struct rs_buf text = {0}, beside = {0};
    char key[KEY_BYTES];
    struct moving moving = {.progress = progress};
    const char *slash = strrchr(dir, '/');
    rs_buf_printf(&beside, "%.*s.restoring-%s", slash ? (int)(slash - dir + 1) : 0, dir, id);
    enum rs_status status = beside.failed
                                ? rs_err_set(err, RS_NOMEM, "no memory to fetch a capture")
                                : key_of(archive, id, list_key, key, err);
    if (status == RS_OK)
        status = rs_s3_open(&archive->shared, &moving.s3, err);
    if (status == RS_OK)
        status = rs_s3_get(moving.s3, key, LIST_MAX_BYTES, &text, err);
    if (status == RS_NOTFOUND)
        status = rs_err_set(err, RS_NOTFOUND, "there is no capture %s, neither here nor in %s", id,
                            archive->url);
    if (status == RS_OK)
        status = parse_list(rs_buf_text(&text), text.length, key, &list, err);
    if (status == RS_OK)
        status = fetch_list(archive, id, rs_buf_text(&beside), &list, &moving, err);
    if (status == RS_OK)
        status = write_list(rs_buf_text(&beside), &text, err); /* it is there, too */
    if (status == RS_OK)
        status = rs_file_sync_dir(rs_buf_text(&beside), err);
    if (status == RS_OK && rename(rs_buf_text(&beside), dir) < 0)
        status = rs_err_errno(err, "cannot rename %s", rs_buf_text(&beside));
    rs_s3_close(&moving.s3);
    rs_buf_fini(&text);
    rs_buf_fini(&beside);
    free_list(&list);
    return status;
}

enum rs_status rs_archive_restore(struct rs_archive *archive, const char *id, const char *dir,
                                  const struct rs_archive_progress *progress, struct rs_err *err)
{
    if (access(dir, F_OK) < 0)
        return restore_new(archive, id, dir, progress, err);
    const enum rs_status status = rs_archive_fetch(archive, id, dir, progress, err);
    if (status < 0)
        return status;
    unlink_in(dir, place_name);
    return rs_file_sync_dir(dir, err);
}

/* ---- away ------------------------------------------------------------------------------------------------------------- */

struct removal {
    struct rs_s3 *s3;
    struct rs_err *err;
    enum rs_status status;
};

static bool remove_one(void *self, const char *key, uint64_t size)
{
    struct removal *removal = self;
    (void)size;
    removal->status = rs_s3_remove(removal->s3, key, removal->err);
    return removal->status == RS_OK;
}

enum rs_status rs_archive_remove(struct rs_archive *archive, const char *id, struct rs_err *err)
{
    char key[KEY_BYTES];
    struct removal removal = {.err = err};
    enum rs_status status = key_of(archive, id, list_key, key, err);
    if (status == RS_OK)
        status = rs_s3_open(&archive->shared, &removal.s3, err);
    if (status == RS_OK)
        status = rs_s3_remove(removal.s3, key, err);
    if (status == RS_OK)
        status = key_of(archive, id, "", key, err);
    if (status == RS_OK)
        status = rs_s3_list(removal.s3, key, remove_one, &removal, err);
    if (status == RS_OK)
        status = removal.status;
    rs_s3_close(&removal.s3);
    return status;
}
