/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file: what stands in it, and the time it is written with.
 *
 * It always names its ranks, also when these are all there are: a rank that is not listed keeps what it has, so that a
 * file for some never disturbs the others. Where several hosts share one folder each collector writes for its own ranks; the
 * file of the same capture is then extended, and whoever finds its ranks missing writes it once more.
 */
#include "ascend/adapter/ascend_priv.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char file_name[] = "profiler_config.json";

/* Sets one key of the text. `value` is JSON. */
static enum rs_status set_key(struct rs_buf *text, const char *key, const char *value,
                              struct rs_err *err)
{
    struct rs_buf next = {0};
    const struct rs_config_text config = {rs_buf_text(text), text->length, RS_CONFIG_TORCH_NPU};
    const enum rs_status status = rs_request_config_edit(&config, key, value, &next, err);
    if (status == RS_OK) {
        rs_buf_fini(text);
        *text = next;
    } else {
        rs_buf_fini(&next);
    }
    return status;
}

static enum rs_status set_text(struct rs_buf *text, const char *key, const char *value,
                               struct rs_err *err)
{
    struct rs_buf quoted = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &quoted, 0);
    rs_json_out_string(&json, value);
    const enum rs_status status = quoted.failed
                                      ? rs_err_set(err, RS_NOMEM, "no memory for a configuration")
                                      : set_key(text, key, rs_buf_text(&quoted), err);
    rs_buf_fini(&quoted);
    return status;
}

enum rs_status npu_text(const struct rs_capture_request *request, const char *id,
                        const char *result, struct rs_buf *text, struct rs_err *err)
{
    /* With a list of ranks, which always stands in the file, nobody parses but beside the training. */
    const bool parses = rs_request_parses(request);
    const bool is_beside = parses || request->async_mode;
    enum rs_status status = rs_request_to_config(request, RS_CONFIG_TORCH_NPU, text, err);
    if (status == RS_OK)
        status = set_text(text, "prof_dir", result, err);
    if (status == RS_OK)
        status = set_key(text, "analyse", parses ? "true" : "false", err);
    if (status == RS_OK)
        status = set_key(text, "async_mode", is_beside ? "true" : "false", err);
    if (status == RS_OK)
        status = set_text(text, "metadata." RS_ASCEND_METADATA_KEY, id, err);
    return status;
}

/* ---- the file that is there ---------------------------------------------------------------------------------- */

static void path_of(const struct config_dir *config_dir, char path[RS_CONFIG_PATH_BYTES + 32])
{
    (void)snprintf(path, RS_CONFIG_PATH_BYTES + 32, "%s/%s", config_dir->local, file_name);
}

/* What a file of this program's making says. Only those are looked into, so their own spelling is enough; what is
 * spelled otherwise is somebody else's. */
struct present {
    bool is_ours; /* same capture, same start */
    bool is_rank;
    struct rs_buf text;
    const char *list; /* behind its '['; in text */
};

static bool has_member(const char *text, const char *key, const char *value)
{
    char member[RS_CONFIG_CAPTURE_BYTES + 64];
    const int length = snprintf(member, sizeof member, "\"%s\": %s", key, value);
    const char *at = strstr(text, member);
    return at && (at[length] < '0' || at[length] > '9');
}

static void read_present(const struct notice *notice, struct present *present)
{
    char path[RS_CONFIG_PATH_BYTES + 32];
    char id[RS_CONFIG_CAPTURE_BYTES + 4];
    char number[32];
    static const char list_key[] = "\"rank_list\": [";
    *present = (struct present){0};
    path_of(notice->config_dir, path);
    (void)snprintf(id, sizeof id, "\"%s\"", notice->id);
    (void)snprintf(number, sizeof number, "%" PRId64, notice->start_step);
    if (rs_config_read(path, &notice->owner, RS_REQUEST_TEXT_MAX_BYTES, &present->text, NULL) !=
        RS_OK)
        return;
    const char *text = rs_buf_text(&present->text);
    const char *list = strstr(text, list_key);
    present->list = list ? list + sizeof list_key - 1 : NULL;
    present->is_rank = has_member(text, "is_rank", "true");
    present->is_ours = list && has_member(text, RS_ASCEND_METADATA_KEY, id) &&
                       has_member(text, "start_step", number);
}

/* The next rank of a list at *at; -1: there is none. */
static int32_t next_rank(const char **at)
{
    char *end;
    while (**at == ' ' || **at == ',')
        (*at)++;
    if (**at < '0' || **at > '9')
        return -1;
    const unsigned long rank = strtoul(*at, &end, 10);
    *at = end;
    return rank <= INT32_MAX ? (int32_t)rank : -1;
}

static bool is_listed(const struct present *present, int32_t wanted)
{
    const char *at = present->list;
    for (int32_t rank = next_rank(&at); rank >= 0; rank = next_rank(&at))
        if (rank == wanted)
            return true;
    return false;
}

enum file_is npu_file_is(const struct trigger *trigger, const struct notice *notice)
{
    struct present present;
    enum file_is is = FILE_IS_OURS;
    read_present(notice, &present);
    if (!present.is_ours)
        is = FILE_IS_FOREIGN;
    for (size_t i = 0; is == FILE_IS_OURS && present.is_rank && i < trigger->member_count; i++) {
        const struct member *member = trigger->members[i];
        if (member->notice == notice && !is_listed(&present, member->shown.rank))
            is = FILE_LACKS_RANKS;
    }
    rs_buf_fini(&present.text);
    return is;
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

struct rank_list {
    int32_t *items;
    size_t count, capacity;
    bool is_short; /* no memory for one of them */
};

static void list_add(struct rank_list *ranks, int32_t rank)
{
    if (rs_mem_grow((void **)&ranks->items, &ranks->capacity, ranks->count + 1,
                    sizeof *ranks->items) < 0)
        ranks->is_short = true;
    else
        ranks->items[ranks->count++] = rank;
}

static int by_number(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left;
    const int32_t b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

/* Listed by ourselves, or not wanted any more. */
static bool is_own_rank(const struct trigger *trigger, const struct config_dir *config_dir,
                        int32_t rank)
{
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i]->config_dir == config_dir &&
            trigger->members[i]->shown.rank == rank)
            return true;
    return false;
}

/* "[1,3]": the ranks of this notice, and those that another collector wrote for the same capture; in their order, in
 * whichever order their processes were found. */
static void list_ranks(const struct trigger *trigger, const struct notice *notice,
                       struct rs_buf *list)
{
    struct present other;
    struct rank_list ranks = {0};
    read_present(notice, &other);
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i]->notice == notice)
            list_add(&ranks, trigger->members[i]->shown.rank);
    const char *at = other.list;
    for (int32_t rank = other.is_ours ? next_rank(&at) : -1; rank >= 0; rank = next_rank(&at))
        if (!is_own_rank(trigger, notice->config_dir, rank))
            list_add(&ranks, rank);
    if (ranks.count)
        qsort(ranks.items, ranks.count, sizeof *ranks.items, by_number);
    rs_buf_string(list, "[");
    for (size_t i = 0; i < ranks.count; i++)
        if (i == 0 || ranks.items[i] != ranks.items[i - 1])
            rs_buf_printf(list, "%s%d", i ? "," : "", (int)ranks.items[i]);
    rs_buf_string(list, "]");
    list->failed |= ranks.is_short;
    rs_mem_free(ranks.items);
    rs_buf_fini(&other.text);
}

/* Later than every earlier version and than the second in which any of its ranks began to listen. */
static int64_t choose_second(const struct trigger *trigger, const struct config_dir *config_dir)
{
    char path[RS_CONFIG_PATH_BYTES + 32];
    struct stat info;
    int64_t second = trigger->realtime() / RS_NS_PER_S;
    path_of(config_dir, path);
    /* Beyond what the block can say no later one could be told: such a time is nobody's. */
    if (stat(path, &info) == 0 && info.st_mtim.tv_sec >= second &&
        info.st_mtim.tv_sec < (int64_t)UINT32_MAX)
        second = info.st_mtim.tv_sec + 1;
    if (config_dir->last_second >= second)
        second = config_dir->last_second + 1;
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct member *member = trigger->members[i];
        const int64_t began = member->shown.init_ns / RS_NS_PER_S;
        if (member->config_dir == config_dir && began >= second)
            second = began + 1;
    }
    return second;
}

enum rs_status npu_write(struct trigger *trigger, struct notice *notice, struct rs_err *err)
{
    char path[RS_CONFIG_PATH_BYTES + 32];
    char number[32];
    struct rs_buf text = {0};
    struct rs_buf list = {0};
    path_of(notice->config_dir, path);
    list_ranks(trigger, notice, &list);
    rs_buf_bytes(&text, notice->text.data, notice->text.length);
    (void)snprintf(number, sizeof number, "%" PRId64, notice->start_step);
    enum rs_status status = list.failed || text.failed
                                ? rs_err_set(err, RS_NOMEM, "no memory for a configuration")
                                : set_key(&text, "start_step", number, err);
    if (status == RS_OK)
        status = set_key(&text, "is_rank", notice->is_everybody ? "false" : "true", err);
    if (status == RS_OK)
        status = set_key(&text, "rank_list", notice->is_everybody ? "[]" : rs_buf_text(&list), err);
    if (status == RS_OK) {
        const struct timespec when = {.tv_sec = choose_second(trigger, notice->config_dir)};
        status = rs_config_write(path, text.data, text.length, &when, &notice->owner, err);
        if (status == RS_OK)
            notice->config_dir->last_second = when.tv_sec;
    }
    if (status == RS_OK) {
        notice->is_written = true;
        notice->written_at = notice->checked_at = trigger->monotonic();
    }
    rs_buf_fini(&list);
    rs_buf_fini(&text);
    return status;
}
