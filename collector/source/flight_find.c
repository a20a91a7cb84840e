/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files are dumps, and whose.
 *
 * Every regular file of the folders is looked at by its first bytes. Whose a dump is: the map, a pattern, a number behind
 * "rank" in its name, else the number its name ends with, because PyTorch puts the rank behind what the user chose
 * (TORCH_FR_DUMP_TEMP_FILE; default ~/.cache/torch/comm_lib_trace_rank_). A host's name before it does no harm:
 * "trace_node-17_3" is rank 3. Where the prefix ends in a digit the number is too large for the job's groups: then the
 * file is refused with the two options rather than read as another's.
 */
#include "collector/source/discover.h"
#include "collector/source/flight.h"
#include "collector/source/flight_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 65536, MAP_MAX_BYTES = 64 << 20, NUMBER_DIGITS = 9 };

struct finding {
    const struct rs_flight_find_options *options;
    struct rs_flight_reader *reader;
    struct rs_flight_set *set;
    struct rs_flight_found *found;
    json_t *map;
};

/* --- ranks ------------------------------------------------------------------------------------------------------ */

/* The number a name ends with, before ".json", ".pickle", ".pkl" or ".bin"; -1 none. */
static int32_t rank_at_end(const char *name)
{
    static const char *const endings[] = {".json", ".pickle", ".pkl", ".bin", ".dump"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t ending = strlen(endings[i]);
        if (length > ending && strcmp(name + length - ending, endings[i]) == 0)
            length -= ending;
    }
    size_t first = length;
    while (first && name[first - 1] >= '0' && name[first - 1] <= '9')
        first--;
    if (first == length || length - first > NUMBER_DIGITS)
        return -1;
    int32_t rank = 0;
    for (size_t i = first; i < length; i++)
        rank = rank * 10 + (name[i] - '0');
    return rank;
}

static enum rs_status read_map(struct finding *finding, struct rs_err *err)
{
    const char *path = finding->options->rank_map_path;
    if (!path)
        return RS_OK;
    struct rs_buf text = {0};
    json_error_t wrong;
    enum rs_status status = rs_file_read(path, MAP_MAX_BYTES, &text, err);
    if (status == RS_OK) {
        finding->map = json_loadb(rs_buf_text(&text), text.length, JSON_REJECT_DUPLICATES, &wrong);
        if (!json_is_object(finding->map))
            status = rs_err_set(err, RS_INVALID,
                                "--rank-map %s: expected {\"FILE\": RANK or null, ...}", path);
    }
    rs_buf_fini(&text);
    return status;
}

static enum rs_status check_patterns(const struct rs_flight_find_options *options,
                                     struct rs_err *err)
{
    for (size_t i = 0; i < options->rank_from_count; i++) {
        const char *star = strchr(options->rank_from[i], '*');
        if (!*options->rank_from[i] || (star && strchr(star + 1, '*')))
            return rs_err_set(err, RS_INVALID,
                              "--rank-from \"%s\": the text before the number, or one * for it",
                              options->rank_from[i]);
    }
    return RS_OK;
}

/* Do its name, a pattern or the map say that this file is a rank's dump? Then it is one, whatever its bytes are: one that
 * cannot be read is a damaged dump and not a stranger's file. */
static bool is_named_as_dump(const struct finding *finding, const char *path, const char *relative)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const struct rs_flight_find_options *options = finding->options;
    const json_t *line = json_object_get(finding->map, relative);
    line = line ? line : json_object_get(finding->map, name);
    line = line ? line : json_object_get(finding->map, path);
    if (line)
        return json_is_integer(line);
    if (options->rank_from_count &&
        rs_rank_of_name(relative, options->rank_from, options->rank_from_count) >= 0)
        return true;
    return rank_at_end(name) >= 0 && (strstr(name, "trace") || strstr(name, "rank"));
}

/* RS_END: the map says that it is no rank. */
static enum rs_status rank_of(const struct finding *finding, const char *path, const char *relative,
                              struct rs_flight_dump *dump)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const json_t *line = json_object_get(finding->map, relative);
    line = line ? line : json_object_get(finding->map, name);
    line = line ? line : json_object_get(finding->map, path);
    if (json_is_null(line))
        return RS_END;
    if (json_is_integer(line) && json_integer_value(line) >= 0 &&
        json_integer_value(line) <= INT32_MAX) {
        dump->rank = (int32_t)json_integer_value(line);
        dump->rank_source = RS_FLIGHT_RANK_MAP;
        return RS_OK;
    }
    const int32_t by_pattern =
        rs_rank_of_name(relative, finding->options->rank_from, finding->options->rank_from_count);
    dump->rank = by_pattern;
    dump->rank_source =
        finding->options->rank_from_count ? RS_FLIGHT_RANK_PATTERN : RS_FLIGHT_RANK_NAME;
    if (dump->rank < 0) {
        dump->rank = rank_at_end(name);
        dump->rank_source = RS_FLIGHT_RANK_NAME;
    }
    return RS_OK;
}

/* A process is a member of every group it made calls in; a rank that is in none of them is a misread name. */
static bool is_member(const struct rs_flight_set *set, const struct rs_flight_dump *dump)
{
    bool is_any = false;
    for (size_t i = 0; i < dump->entry_count; i++) {
        const struct rs_flight_group *group =
            &dump->groups[set->entries[dump->entry_first + i].group];
        if (!group->rank_count)
            continue;
        is_any = true;
        for (size_t k = 0; k < group->rank_count; k++)
            if (group->ranks[k] == dump->rank)
                return true;
    }
    return !is_any;
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static enum rs_status settle(struct finding *finding, const char *path, const char *relative,
                             const struct stat *about, struct rs_err *err)
{
    struct rs_flight_set *set = finding->set;
    struct rs_flight_dump *dump = &set->dumps[set->dump_count - 1];
    const enum rs_status status = rank_of(finding, path, relative, dump);
    if (status == RS_END) {
        rs_flight_drop_last(set);
        finding->found->skipped++;
        return RS_OK;
    }
    if (dump->rank < 0 || !is_member(set, dump)) {
        const int32_t rank = dump->rank;
        rs_flight_drop_last(set);
        if (rank < 0)
            return rs_err_set(
                err, RS_INVALID,
                "%s does not say whose dump it is: give --rank-from PATTERN (the text "
                "before the number) or --rank-map FILE",
                path);
        return rs_err_set(err, RS_INVALID,
                          "%s would be rank %" PRId32
                          ", which is in none of the groups it made calls in: give --rank-from "
                          "PATTERN (the text before the number) or --rank-map FILE",
                          path, rank);
    }
    dump->taken_ns = rs_file_changed_ns(about);
    finding->found->dumps++;
    finding->found->partial += dump->is_partial;
    return RS_OK;
}

static enum rs_status failed(struct finding *finding, const char *path, enum rs_status status,
                             const struct rs_err *said, struct rs_err *err)
{
    if (status == RS_NOMEM)
        return rs_err_set(err, status, "%s", said->text);
    finding->found->failed++;
    return rs_flight_note(finding->set, "%s: %s", path, said->text) == RS_OK
               ? RS_OK
               : rs_err_set(err, RS_NOMEM, "no memory");
}

/* The first bytes tell what is worth reading: a pickle, or JSON with a word of ours near its beginning. */
static bool looks_promising(const char *head, size_t length)
{
    static const char *const words[] = {
        "\"entries\"",       "\"pg_config\"", "\"pg_status\"", "\"comm_lib_version\"",
        "\"communicators\"", "\"coll_perf\"", "\"p2p_perf\"",  "\"dump_stats\""};
    size_t blank = 0;
    if (length > 1 && (uint8_t)head[0] == 0x80)
        return true;
    while (blank < length && strchr(" \t\r\n", head[blank]) && head[blank])
        blank++;
    if (blank == length || head[blank] != '{')
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (memmem(head, length, words[i], strlen(words[i])))
            return true;
    return false;
}

/* JSON of somebody else is no damaged dump: profilers write such files beside ours, with ranks in their names. */
static bool is_json(const char *head, size_t length)
{
    size_t blank = 0;
    while (blank < length && head[blank] && strchr(" \t\r\n", head[blank]))
        blank++;
    return blank < length && (head[blank] == '{' || head[blank] == '[');
}

static enum rs_status read_whole(struct finding *finding, int fd, const char *path,
                                 const char *relative, const struct stat *about, struct rs_err *err)
{
    struct rs_buf *file = &finding->reader->file;
    const size_t size = (size_t)about->st_size;
    rs_buf_reset(file);
    if (about->st_size > RS_FLIGHT_FILE_MAX)
        return rs_err_set(err, RS_LIMIT, "it is larger than %d MiB", RS_FLIGHT_FILE_MAX >> 20);
    uint8_t *room = rs_buf_reserve(file, size + 1);
    if (!room)
        return rs_err_set(err, RS_NOMEM, "no memory for %zu bytes", size);
    size_t got = 0;
    while (got < size) {
        const ssize_t more = read(fd, room + got, size - got);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return rs_err_errno(err, "cannot read %s", path);
        if (more == 0)
            break;
        if (got == 0 && !looks_promising((const char *)room,
                                         (size_t)more < HEAD_BYTES ? (size_t)more : HEAD_BYTES))
            return is_json((const char *)room, (size_t)more) ||
                           !is_named_as_dump(finding, path, relative)
                       ? RS_END
                       : rs_err_set(err, RS_FORMAT,
                                    "damaged: a rank's dump by its name, which begins with 0x80 (a "
                                    "pickle) or { (JSON); byte 0 is 0x%02x",
                                    room[0]);
        got += (size_t)more;
    }
    rs_buf_commit(file, got);
    return got ? RS_OK
               : rs_err_set(err, RS_FORMAT, "it is empty: the process died before it wrote");
}

static enum rs_status read_bytes(struct finding *finding, const char *path, const char *relative,
                                 const struct stat *about, struct rs_err *err)
{
    const struct rs_buf *file = &finding->reader->file;
    struct rs_err said = {0};
    enum rs_status status =
        rs_flight_read(finding->reader, file->data, file->length, path, finding->set, &said);
    if (status >= 0)
        return settle(finding, path, relative, about, err);
    if (status != RS_NOTFOUND)
        return failed(finding, path, status, &said, err);
    struct rs_err other = {0};
    status =
        rs_flight_read_witness((const char *)file->data, file->length, path, finding->set, &other);
    if (status >= 0) {
        finding->found->witnesses++;
        return RS_OK;
    }
    if (status == RS_NOTFOUND && !is_json((const char *)file->data, file->length) &&
        is_named_as_dump(finding, path, relative)) {
        (void)rs_err_set(&other, RS_FORMAT, "damaged: a rank's dump by its name, but %s",
                         said.text);
        return failed(finding, path, RS_FORMAT, &other, err);
    }
    if (status == RS_NOTFOUND) {
        finding->found->skipped++;
        return RS_OK;
    }
    return failed(finding, path, status, &other, err);
}

/* Links, pipes and devices are not followed: what lies in such folders belongs to others. An empty file counts as a
 * dump that failed when its name says that it is one. */
static enum rs_status read_file(struct finding *finding, const char *path, const char *relative,
                                struct rs_err *err)
{
    struct stat about;
    struct rs_err said = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &about) != 0) {
        const enum rs_status status = rs_err_errno(&said, "cannot open it");
        if (fd >= 0)
            (void)close(fd);
        return failed(finding, path, status, &said, err);
    }
    enum rs_status status = RS_END;
    if (S_ISREG(about.st_mode) && (about.st_size || strstr(path, "trace") || strstr(path, "rank")))
        status = read_whole(finding, fd, path, relative, &about, &said);
    (void)close(fd);
    if (status == RS_END) {
        finding->found->skipped++;
        return RS_OK;
    }
    return status == RS_OK ? read_bytes(finding, path, relative, &about, err)
                           : failed(finding, path, status, &said, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of a folder, sorted; freed by the caller. */
static enum rs_status list(const char *path, char ***names_p, size_t *count_p, struct rs_err *err)
{
    char **names = NULL;
    size_t count = 0, capacity = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return rs_err_errno(err, "cannot open the folder %s", path);
    enum rs_status status = RS_OK;
    for (const struct dirent *item = rs_dir_next(dir); item && status == RS_OK;
         item = rs_dir_next(dir)) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        status = rs_mem_grow((void **)&names, &capacity, count + 1, sizeof *names);
        char *copy = status == RS_OK ? rs_mem_strdup(item->d_name) : NULL;
        if (copy)
            names[count++] = copy;
        else
            status = rs_err_set(err, RS_NOMEM, "no memory");
    }
    (void)closedir(dir);
    if (count)
        /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are sorted */
        qsort(names, count, sizeof *names, by_name);
    *names_p = names;
    *count_p = count;
    return status;
}

static enum rs_status walk(struct finding *finding, const char *path, size_t base, unsigned depth,
                           struct rs_err *err)
{
    char **names = NULL;
    size_t count = 0;
    enum rs_status status = list(path, &names, &count, err);
    if (status == RS_IO && depth) { /* a folder that is closed to us stops nothing else */
        const struct rs_err said = *err;
        return failed(finding, path, status, &said, err);
    }
    bool had_dumps = finding->set->dump_count > 0;
    for (size_t i = 0; i < count; i++) {
        char *child = status == RS_OK ? rs_file_join(path, names[i]) : NULL;
        struct stat about;
        if (status == RS_OK && !child)
            status = rs_err_set(err, RS_NOMEM, "no memory");
        if (child && lstat(child, &about) == 0) {
            if (S_ISDIR(about.st_mode) && depth < RS_DISCOVER_DEPTH)
                status = walk(finding, child, base, depth + 1, err);
            else if (S_ISREG(about.st_mode))
                status = read_file(finding, child, child + base, err);
            if (!had_dumps && finding->set->dump_count == 1)
                rs_flight_expect(finding->set, count - i - 1); /* dumps of a job are alike */
            had_dumps = finding->set->dump_count > 0;
        }
        rs_mem_free(child);
        rs_mem_free(names[i]);
    }
    rs_mem_free(names);
    return status;
}

static enum rs_status read_path(struct finding *finding, const char *path, struct rs_err *err)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return rs_err_set(err, errno == ENOENT ? RS_NOTFOUND : RS_IO, "%s: %s", path,
                          errno == ENOENT ? "there is no such file or folder"
                                          : "it cannot be looked at");
    const char *slash = strrchr(path, '/');
    return S_ISDIR(about.st_mode)
               ? walk(finding, path, strlen(path) + (path[strlen(path) - 1] != '/'), 0, err)
               : read_file(finding, path, slash ? slash + 1 : path, err);
}

/* --- hosts in the names of files ---------------------------------------------------------------------------------- */

/* The file's name without the rank at its end, and where that stands; 0: the name does not end so. */
static size_t stem_of(const struct rs_flight_dump *dump, const char **name_p)
{
    char digits[16];
    const char *slash = strrchr(dump->path, '/');
    const char *name = slash ? slash + 1 : dump->path;
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".json") == 0)
        length -= 5;
    const size_t count = (size_t)snprintf(digits, sizeof digits, "%" PRId32, dump->rank);
    *name_p = name;
    if (length < count + 2 || memcmp(name + length - count, digits, count) != 0 ||
        !strchr("_.", name[length - count - 1]))
        return 0;
    return length - count - 1;
}

/* A name that a machine may have, and not a word that only says what the number behind it is. */
static bool is_host(const char *text, size_t length)
{
    static const char *const words[] = {"rank", "trace", "dump", "worker", "nccl"};
    bool has_alpha = false, has_digit = false;
    for (size_t i = 0; i < length; i++) {
        has_alpha = has_alpha || ((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z');
        has_digit = has_digit || (text[i] >= '0' && text[i] <= '9');
        if (text[i] == ' ' || text[i] == '_')
            return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (memmem(text, length, words[i], strlen(words[i])))
            return false;
    return has_alpha && has_digit && length > 1 && length < 256;
}

/* PyTorch's files say no host; users put it before the rank ("trace_node-004_32"). It is taken for one where all files have the
 * form PREFIX HOST _ RANK with the same prefix, and there are several hosts with different ranks: else nobody knows. */
static enum rs_status find_hosts(struct rs_flight_set *set)
{
    const char *first = NULL;
    size_t prefix = 0;
    bool differ = false;
    for (size_t i = 0; i < set->dump_count; i++) {
        const char *name;
        const size_t stem = stem_of(&set->dumps[i], &name);
        if (!stem || *set->dumps[i].host)
            return RS_OK;
        size_t begin = stem;
        while (begin && !strchr("_.", name[begin - 1]))
            begin--;
        if (!is_host(name + begin, stem - begin))
            return RS_OK;
        if (first && (begin != prefix || memcmp(first, name, prefix) != 0))
            return RS_OK;
        differ = differ || (first && strncmp(first + prefix, name + begin, stem - begin + 1) != 0);
        if (!first)
            first = name;
        prefix = begin;
    }
    for (size_t i = 0; i < set->dump_count && differ; i++) {
        const char *name;
        const size_t stem = stem_of(&set->dumps[i], &name);
        char *host = rs_mem_calloc(stem - prefix + 1, 1);
        if (!host)
            return RS_NOMEM;
        memcpy(host, name + prefix, stem - prefix);
        rs_mem_free(set->dumps[i].host);
        set->dumps[i].host = host;
    }
    return RS_OK;
}

enum rs_status rs_flight_find(const char *const *paths, size_t path_count,
                              const struct rs_flight_find_options *options,
                              struct rs_flight_set *set, struct rs_flight_found *found_p,
                              struct rs_err *err)
{
    static const struct rs_flight_find_options none = {0};
    struct rs_flight_found found = {0};
    struct finding finding = {.options = options ? options : &none, .set = set, .found = &found};
    enum rs_status status = check_patterns(finding.options, err);
    if (status == RS_OK)
        status = read_map(&finding, err);
    if (status == RS_OK && rs_flight_reader_new(&finding.reader) != RS_OK)
        status = rs_err_set(err, RS_NOMEM, "no memory");
    for (size_t i = 0; i < path_count && status == RS_OK; i++)
        status = read_path(&finding, paths[i], err);
    if (status == RS_OK && (rs_flight_set_sort(set) != RS_OK || find_hosts(set) != RS_OK))
        status = rs_err_set(err, RS_NOMEM, "no memory");
    rs_flight_reader_free(&finding.reader);
    json_decref(finding.map);
    if (status == RS_OK) {
        *found_p = found;
        if (found.failed || found.partial)
            status = RS_PARTIAL;
    }
    return status;
}
