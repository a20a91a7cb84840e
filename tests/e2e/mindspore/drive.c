/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MindSpore trigger alone, driven by lines on stdin: for test_mindspore.py and test_rules.py.
 *
 *   drive RESULT_ROOT RUN WAY [DIR...]       WAY: step, callback, unknown; DIR: --mindspore-config
 *     arm ID START STEPS all|0,2 SECONDS [force] [move]     cancel ID     release     probe RANK     quit
 *
 * One line of JSON per answer and per change of a rank.
 */
#include "ascend/adapter/mindspore.h"
#include "common/base/json_out.h"
#include "common/base/log.h"
#include "common/base/mem.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MAX = 256, LINE_BYTES = 1024 };

struct driver {
    struct rs_config_trigger *trigger;
    const char *run;
    struct rs_config_rank before[RANKS_MAX];
    size_t before_count;
    char line[LINE_BYTES];
    size_t length;
};

static void print_line(struct rs_buf *buf)
{
    (void)printf("%s\n", rs_buf_text(buf));
    (void)fflush(stdout);
    rs_buf_fini(buf);
}

static void answer(const char *what, enum rs_status status, const struct rs_err *err)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "answer");
    rs_json_out_string(&json, what);
    rs_json_out_key(&json, "status");
    rs_json_out_string(&json, rs_status_name(status));
    rs_json_out_key(&json, "text");
    rs_json_out_string(&json, status < 0 ? err->text : "");
    rs_json_out_end(&json);
    print_line(&buf);
}

static void print_rank(const struct rs_config_rank *rank)
{
    const struct {
        const char *key, *text;
    } texts[] = {
        {"state", rs_config_state_text(rank->state)},
        {"capture", rank->capture_id},
        {"why", rank->why},
        {"note", rank->note},
        {"result", rank->result_dir},
        {"unresponsive", rank->is_unresponsive ? rank->unresponsive_because : ""},
        {"dir", rank->config_dir},
    };
    const struct {
        const char *key;
        int64_t number;
    } numbers[] = {
        {"rank", rank->rank},
        {"pid", rank->process.pid},
        {"start", rank->start_step},
        {"started", rank->started_step},
        {"stopped", rank->stopped_step},
        {"step", rank->step},
        {"step_ns", rank->step_ns},
        {"gone", rank->is_gone},
        {"rewrites", rank->rewrite_count},
        {"step_at", rank->step_at},
    };
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        rs_json_out_key(&json, numbers[i].key);
        rs_json_out_int(&json, numbers[i].number);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        rs_json_out_key(&json, texts[i].key);
        rs_json_out_string(&json, texts[i].text);
    }
    rs_json_out_end(&json);
    print_line(&buf);
}

static bool is_ours(const struct driver *driver, const struct rs_config_rank *rank)
{
    return strcmp(rank->run, driver->run) == 0;
}

static bool is_same(const struct rs_config_rank *a, const struct rs_config_rank *b)
{
    return a->process.pid == b->process.pid && a->state == b->state &&
           a->is_unresponsive == b->is_unresponsive && a->is_gone == b->is_gone &&
           a->step == b->step && a->start_step == b->start_step &&
           strcmp(a->config_dir, b->config_dir) == 0 && strcmp(a->note, b->note) == 0 &&
           strcmp(a->unresponsive_because, b->unresponsive_because) == 0;
}

static void print_changes(struct driver *driver)
{
    size_t count = 0;
    size_t kept = 0;
    static struct rs_config_rank now[RANKS_MAX];
    const struct rs_config_rank *ranks = rs_config_trigger_ranks(driver->trigger, &count);
    for (size_t i = 0; i < count && kept < RANKS_MAX; i++) {
        bool is_known = false;
        if (!is_ours(driver, &ranks[i]))
            continue;
        for (size_t j = 0; j < driver->before_count; j++)
            is_known |= is_same(&ranks[i], &driver->before[j]);
        if (!is_known)
            print_rank(&ranks[i]);
        now[kept++] = ranks[i];
    }
    memcpy(driver->before, now, kept * sizeof now[0]);
    driver->before_count = kept;
}

static size_t targets_of(const struct driver *driver, const char *which,
                         struct rs_config_target *targets)
{
    size_t count = 0;
    size_t chosen = 0;
    const struct rs_config_rank *ranks = rs_config_trigger_ranks(driver->trigger, &count);
    for (size_t i = 0; i < count && chosen < RANKS_MAX; i++) {
        char word[32];
        char list[LINE_BYTES + 2];
        (void)snprintf(word, sizeof word, ",%d,", ranks[i].rank);
        (void)snprintf(list, sizeof list, ",%s,", which);
        if (is_ours(driver, &ranks[i]) && !ranks[i].is_gone &&
            (strcmp(which, "all") == 0 || strstr(list, word)))
            targets[chosen++] = (struct rs_config_target){
                .pid = ranks[i].process.pid, .start_ticks = ranks[i].process.start_ticks};
    }
    return chosen;
}

static void arm(struct driver *driver, char *words[])
{
    struct rs_config_target targets[RANKS_MAX];
    struct rs_capture_request request;
    struct rs_err err = {0};
    if (!words[5])
        exit(2);
    if (rs_request_init(&request, RS_DIALECT_MINDSPORE, RS_ORIGIN_CLI) < 0)
        exit(1);
    request.schedule.active = (uint32_t)strtoul(words[3], NULL, 10);
    const struct rs_config_arm how = {
        .capture_id = words[1],
        .request = &request,
        .start_step = strtoll(words[2], NULL, 10),
        .targets = targets,
        .target_count = targets_of(driver, words[4], targets),
        .deadline = strtoll(words[5], NULL, 10) * RS_NS_PER_S,
        .may_move = words[6] &&
                    (strcmp(words[6], "move") == 0 || (words[7] && strcmp(words[7], "move") == 0)),
    };
    request.force = words[6] && strcmp(words[6], "force") == 0;
    const enum rs_status status = rs_config_trigger_arm(driver->trigger, &how, &err);
    answer(words[1], status, &err);
    rs_request_fini(&request);
}

static void obey(struct driver *driver, char *text)
{
    char *words[10] = {NULL};
    struct rs_err err = {0};
    char *rest = text;
    for (size_t i = 0; i < 9; i++) {
        words[i] = strsep(&rest, " ");
        if (!words[i])
            break;
    }
    if (strcmp(words[0], "arm") == 0) {
        arm(driver, words);
    } else if (strcmp(words[0], "cancel") == 0 && words[1]) {
        answer("cancel", rs_config_trigger_cancel(driver->trigger, words[1], &err), &err);
    } else if (strcmp(words[0], "probe") == 0) {
        struct rs_config_target targets[RANKS_MAX];
        if (targets_of(driver, words[1], targets))
            answer("probe", rs_config_trigger_probe(driver->trigger, targets, &err), &err);
    } else if (strcmp(words[0], "release") == 0) {
        for (size_t i = 0; i < driver->before_count; i++)
            rs_config_trigger_release(
                driver->trigger, &(struct rs_config_target){driver->before[i].process.pid,
                                                            driver->before[i].process.start_ticks});
        answer("release", RS_OK, &err);
    } else {
        exit(2);
    }
}

/* False: end of input, or "quit". */
static bool read_orders(struct driver *driver)
{
    const ssize_t got =
        read(STDIN_FILENO, driver->line + driver->length, sizeof driver->line - driver->length - 1);
    if (got <= 0)
        return false;
    driver->length += (size_t)got;
    driver->line[driver->length] = '\0';
    for (char *end = strchr(driver->line, '\n'); end; end = strchr(driver->line, '\n')) {
        *end = '\0';
        if (strcmp(driver->line, "quit") == 0)
            return false;
        print_changes(driver);
        obey(driver, driver->line);
        driver->length -= (size_t)(end + 1 - driver->line);
        memmove(driver->line, end + 1, driver->length + 1);
    }
    return driver->length + 1 < sizeof driver->line;
}

int main(int argc, char **argv)
{
    static struct driver driver;
    enum rs_mindspore_way way = RS_MINDSPORE_WAY_UNKNOWN;
    struct rs_err err;
    if (argc < 4)
        return 2;
    const bool has_way = rs_mindspore_way_from_text(argv[3], &way);
    rs_log_set_level(RS_LOG_INFO);
    driver.run = argv[2];
    const struct rs_config_trigger_options options = {.dirs = (const char *const *)(argv + 4),
                                                      .dir_count = (size_t)(argc - 4),
                                                      .result_root = argv[1],
                                                      .way = has_way ? argv[3] : NULL};
    if (rs_mindspore_trigger_open(&options, &driver.trigger, &err) < 0)
        return 1;
    for (bool is_open = true; is_open;) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        const int ready = poll(&in, 1, 50);
        rs_config_trigger_tick(driver.trigger);
        print_changes(&driver);
        if (ready > 0)
            is_open = read_orders(&driver);
    }
    rs_config_trigger_close(&driver.trigger);
    return 0;
}
