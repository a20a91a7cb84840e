/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/settings.h"

#include "common/base/mem.h"

#include <openssl/conf.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

static struct {
    struct rs_setting *items;
    size_t count, room;
    char *files[RS_SETTINGS_FILES_MAX];
    size_t file_count;
    bool is_loaded;
} settings;

static enum rs_status keep(const char *file, const char *section, const CONF_VALUE *value,
                           struct rs_err *err)
{
    if (rs_mem_grow((void **)&settings.items, &settings.room, settings.count + 1,
                    sizeof *settings.items) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for the settings of %s", file);
    struct rs_setting *item = &settings.items[settings.count];
    *item = (struct rs_setting){.key = rs_mem_strdup(value->name),
                                .value = rs_mem_strdup(value->value ? value->value : ""),
                                .file = file,
                                .section = rs_mem_strdup(section)};
    if (!item->key || !item->value || !item->section)
        return rs_err_set(err, RS_NOMEM, "no memory for the settings of %s", file);
    settings.count++;
    return RS_OK;
}

static enum rs_status keep_section(const CONF *conf, const char *file, const char *section,
                                   struct rs_err *err)
{
    enum rs_status status = RS_OK;
    STACK_OF(CONF_VALUE) *values = NCONF_get_section(conf, section);
    const int count = values ? sk_CONF_VALUE_num(values) : 0;
    if (strcmp(section, "default") == 0 && count)
        return rs_err_set(
            err, RS_INVALID,
            "%s: \"%.80s\" stands before the first [section]: a verb's name, or [common]", file,
            sk_CONF_VALUE_value(values, 0)->name);
    for (int i = 0; i < count && status == RS_OK; i++)
        status = keep(file, section, sk_CONF_VALUE_value(values, i), err);
    return status;
}

static enum rs_status read_file(const char *path, struct rs_err *err)
{
    struct stat info;
    /* OpenSSL would wait for ever at a FIFO. */
    if (stat(path, &info) != 0)
        return rs_err_set(err, RS_INVALID, "there is no settings file %s", path);
    if (!S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode))
        return rs_err_set(err, RS_INVALID, "the settings file %s is not a file", path);
    if (settings.file_count == RS_SETTINGS_FILES_MAX)
        return rs_err_set(err, RS_LIMIT, "more than %d settings files", RS_SETTINGS_FILES_MAX);
    char *kept = rs_mem_strdup(path);
    CONF *conf = NCONF_new(NULL);
    STACK_OF(OPENSSL_CSTRING) *names = NULL;
    enum rs_status status = RS_OK;
    long line = 0;
    if (!kept || !conf) {
        status = rs_err_set(err, RS_NOMEM, "no memory to read %s", path);
    } else if (NCONF_load(conf, path, &line) <= 0) {
        status = line > 0 ? rs_err_set(err, RS_INVALID,
                                       "%s, line %ld: not understood; expected [section], or key = "
                                       "value ('$' and '\\' are written \\$ and \\\\)",
                                       path, line)
                          : rs_err_set(err, RS_IO, "cannot read the settings file %s", path);
    } else {
        settings.files[settings.file_count++] = kept;
        names = NCONF_get_section_names(conf);
        for (int i = 0; i < sk_OPENSSL_CSTRING_num(names) && status == RS_OK; i++)
            status = keep_section(conf, kept, sk_OPENSSL_CSTRING_value(names, i), err);
        kept = NULL;
    }
    sk_OPENSSL_CSTRING_free(names);
    NCONF_free(conf);
    rs_mem_free(kept);
    return status;
}

static enum rs_status read_folder(const char *folder, struct rs_err *err)
{
    char pattern[PATH_BYTES];
    glob_t found = {0};
    if (snprintf(pattern, sizeof pattern, "%s/*.conf", folder) >= (int)sizeof pattern)
        return RS_OK;
    enum rs_status status = RS_OK;
    /* sorted by name; NOLINTNEXTLINE(concurrency-mt-unsafe): settings are read before there is a second thread */
    const int outcome = glob(pattern, GLOB_ERR, NULL, &found);
    if (outcome == GLOB_NOSPACE)
        status = rs_err_set(err, RS_NOMEM, "no memory to look into %s", folder);
    for (size_t i = 0; outcome == 0 && i < found.gl_pathc && status == RS_OK; i++)
        status = read_file(found.gl_pathv[i], err);
    globfree(&found);
    return status;
}

/* Read before there is any second thread. */
static const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe) */
}

enum rs_status rs_settings_load(struct rs_err *err)
{
    if (settings.is_loaded)
        return RS_OK;
    const char *only = variable("RANKSCOPE_CONFIG");
    const char *config = variable("XDG_CONFIG_HOME");
    const char *home = variable("HOME");
    char folder[PATH_BYTES] = "";
    enum rs_status status = RS_OK;
    if (only) {
        status = *only ? read_file(only, err) : RS_OK;
    } else {
        status = read_folder("/etc/rankscope", err);
        if (config && *config)
            (void)snprintf(folder, sizeof folder, "%s/rankscope", config);
        else if (home && *home)
            (void)snprintf(folder, sizeof folder, "%s/.config/rankscope", home);
        if (status == RS_OK && *folder)
            status = read_folder(folder, err);
    }
    settings.is_loaded = status == RS_OK;
    return status;
}

const struct rs_setting *rs_settings_find(const char *verb, const char *key)
{
    const struct rs_setting *found = NULL;
    bool is_own = false;
    for (size_t i = 0; i < settings.count; i++) {
        const struct rs_setting *item = &settings.items[i];
        const bool own = strcmp(item->section, verb) == 0;
        if (strcmp(item->key, key) != 0 || (!own && strcmp(item->section, "common") != 0))
            continue;
        if (own || !is_own)
            found = item;
        is_own = is_own || own;
    }
    return found;
}

const struct rs_setting *rs_settings_at(size_t index)
{
    return index < settings.count ? &settings.items[index] : NULL;
}

const char *rs_settings_file(size_t index)
{
    return index < settings.file_count ? settings.files[index] : NULL;
}
