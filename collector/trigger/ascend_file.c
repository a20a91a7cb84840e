/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file: what stands in it, and the time it is written with.
 *
 * It always names its ranks, also when these are all there are: a rank that is not listed keeps what it has, so that a
 * file for some never disturbs the others. Where several hosts share one folder each collector writes for its own ranks; the
 * file of the same capture is then extended, and whoever finds its ranks missing writes it once more.
 */
#include "collector/trigger/ascend_priv.h"
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
    /* A file says itself whether it wants its results parsed. Whoever else asks wants a report, and only
     * parsed results can be read. */
    const bool parses = request->origin != RS_ORIGIN_CONFIG_FILE || request->analyse;
    enum rs_status status = rs_request_to_config(request, RS_CONFIG_TORCH_NPU, text, err);
    if (status == RS_OK)
        status = set_text(text, "prof_dir", result, err);
    if (status == RS_OK)
        status = set_key(text, "analyse", parses ? "true" : "false", err);
    if (status == RS_OK)
        status = set_key(text, "async_mode", parses ? "true" : "false", err);
    if (status == RS_OK)
        status = set_text(text, "metadata." RS_ASCEND_METADATA_KEY, id, err);
    return status;
}

/* ---- the file that is there ---------------------------------------------------------------------------------- */

static void path_of(const struct place *place, char path[RS_CONFIG_PATH_BYTES + 32])
{
    (void)snprintf(path, RS_CONFIG_PATH_BYTES + 32, "%s/%s", place->local, file_name);
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

static void read_present(const struct tell *tell, struct present *present)
{
    char path[RS_CONFIG_PATH_BYTES + 32];
    char id[RS_CONFIG_CAPTURE_BYTES + 4];
    char number[32];
    static const char list_key[] = "\"rank_list\": [";
    *present = (struct present){0};
    path_of(tell->place, path);
    (void)snprintf(id, sizeof id, "\"%s\"", tell->id);
    (void)snprintf(number, sizeof number, "%" PRId64, tell->start_step);
    if (rs_file_read_regular(path, RS_REQUEST_TEXT_MAX_BYTES, &present->text, NULL) != RS_OK)
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

enum file_is npu_file_is(const struct trigger *trigger, const struct tell *tell)
{
    struct present present;
    enum file_is is = FILE_IS_OURS;
    read_present(tell, &present);
    if (!present.is_ours)
        is = FILE_IS_FOREIGN;
    for (size_t i = 0; is == FILE_IS_OURS && present.is_rank && i < trigger->member_count; i++) {
        const struct member *member = trigger->members[i];
        if (member->tell == tell && !is_listed(&present, member->shown.rank))
            is = FILE_LACKS_RANKS;
    }
    rs_buf_fini(&present.text);
    return is;
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

/* "[1,3]": the ranks of this tell, and those that another collector wrote for the same capture. */
static void list_ranks(const struct trigger *trigger, const struct tell *tell, struct rs_buf *list)
{
    struct present other;
    const char *comma = "";
    read_present(tell, &other);
    rs_buf_string(list, "[");
    for (size_t i = 0; i < trigger->member_count; i++) {
        if (trigger->members[i]->tell != tell)
            continue;
        rs_buf_printf(list, "%s%d", comma, trigger->members[i]->shown.rank);
        comma = ",";
    }
    const char *at = other.list;
    for (int32_t rank = other.is_ours ? next_rank(&at) : -1; rank >= 0; rank = next_rank(&at)) {
        bool is_own = false;
        for (size_t i = 0; i < trigger->member_count; i++)
            is_own |= trigger->members[i]->place == tell->place &&
                      trigger->members[i]->shown.rank == rank;
        if (is_own) /* listed above, or not wanted any more */
            continue;
        rs_buf_printf(list, "%s%d", comma, rank);
        comma = ",";
    }
    rs_buf_string(list, "]");
    rs_buf_fini(&other.text);
}

/* Later than every earlier version and than the second in which any of its ranks began to listen. */
static int64_t choose_second(const struct trigger *trigger, const struct place *place)
{
    char path[RS_CONFIG_PATH_BYTES + 32];
    struct stat info;
    int64_t second = trigger->realtime() / RS_NS_PER_S;
    path_of(place, path);
    /* Beyond what the block can say no later one could be told: such a time is nobody's. */
    if (stat(path, &info) == 0 && info.st_mtim.tv_sec >= second &&
        info.st_mtim.tv_sec < (int64_t)UINT32_MAX)
        second = info.st_mtim.tv_sec + 1;
    if (place->last_second >= second)
        second = place->last_second + 1;
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct member *member = trigger->members[i];
        const int64_t began = member->shown.init_ns / RS_NS_PER_S;
        if (member->place == place && began >= second)
            second = began + 1;
    }
    return second;
}

enum rs_status npu_write(struct trigger *trigger, struct tell *tell, struct rs_err *err)
{
    char path[RS_CONFIG_PATH_BYTES + 32];
    char number[32];
    struct rs_buf text = {0};
    struct rs_buf list = {0};
    path_of(tell->place, path);
    list_ranks(trigger, tell, &list);
    rs_buf_bytes(&text, tell->text.data, tell->text.length);
    (void)snprintf(number, sizeof number, "%" PRId64, tell->start_step);
    enum rs_status status = list.failed || text.failed
                                ? rs_err_set(err, RS_NOMEM, "no memory for a configuration")
                                : set_key(&text, "start_step", number, err);
    if (status == RS_OK)
        status = set_key(&text, "is_rank", tell->is_everybody ? "false" : "true", err);
    if (status == RS_OK)
        status = set_key(&text, "rank_list", tell->is_everybody ? "[]" : rs_buf_text(&list), err);
    if (status == RS_OK) {
        const struct timespec when = {.tv_sec = choose_second(trigger, tell->place)};
        status = rs_config_write(path, text.data, text.length, &when, &tell->owner, err);
        if (status == RS_OK)
            tell->place->last_second = when.tv_sec;
    }
    if (status == RS_OK) {
        tell->is_written = true;
        tell->written_at = tell->checked_at = trigger->monotonic();
    }
    rs_buf_fini(&list);
    rs_buf_fini(&text);
    return status;
}
