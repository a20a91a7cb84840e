/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Were the ranks set up alike?
 *
 * An Ascend profiler keeps some variables of each rank's environment (HCCL_RDMA_TC, HCCL_ALGO, ...) and what the user added to
 * its metadata. Of a job all ranks should have the same: one whose traffic has another class, or whose allocator is
 * another, is slow for a reason that no event shows. A note tells who differs.
 *
 * Of the environment every difference is told. What users add may be each rank's own by design (a name, its coordinates), so a
 * member is told only where more than half of at least three ranks agree. Ranks that say nothing are not compared.
 */
#include "aggregator/analysis/analysis_priv.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTES_MAX = 16, VALUE_SHOWN_BYTES = 48 };

struct setting {
    int32_t rank;
    const char *value; /* as text; "": not set */
};

struct settings {
    struct join *join;
    json_t **roots; /* [summary_count] NULL: it says nothing */
    char **texts;   /* values that are no strings, printed; rs_mem has no part in them */
    size_t text_count, text_capacity;
    struct setting *items;
    size_t count;
    size_t notes, left_out;
};

static int by_value(const void *a_, const void *b_)
{
    const struct setting *a = a_, *b = b_;
    const int order = strcmp(a->value, b->value);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* A value as text that lives as long as the settings. */
static enum rs_status text_of(struct settings *settings, const json_t *value, const char **text_p)
{
    *text_p = json_string_value(value);
    if (*text_p)
        return RS_OK;
    const enum rs_status status = rs_mem_grow((void **)&settings->texts, &settings->text_capacity,
                                              settings->text_count + 1, sizeof *settings->texts);
    char *text = status == RS_OK ? json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS |
                                                         JSON_COMPACT | JSON_REAL_PRECISION(15))
                                 : NULL;
    if (!text)
        return RS_NOMEM;
    settings->texts[settings->text_count++] = text;
    *text_p = text;
    return RS_OK;
}

/* Ranks as "0-3,8"; the rest is counted. */
static void print_ranks(const struct setting *items, size_t count, char *text, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used + 40 < bytes;) {
        size_t end = i + 1;
        while (end < count && items[end].rank == items[end - 1].rank + 1)
            end++;
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%" PRId32, i ? "," : "", items[i].rank);
        if (end - i > 1)
            used += (size_t)snprintf(text + used, bytes - used, "-%" PRId32, items[end - 1].rank);
        i = end;
        if (i < count && used + 40 >= bytes)
            (void)snprintf(text + used, bytes - used, " and %zu more", count - i);
    }
}

static void show(const char *value, char *text, size_t bytes)
{
    if (!*value)
        (void)snprintf(text, bytes, "not set");
    else
        (void)snprintf(text, bytes, "\"%.*s%s\"", VALUE_SHOWN_BYTES, value,
                       strlen(value) > VALUE_SHOWN_BYTES ? "..." : "");
}

/* `first` to `end` have one value, all others another. */
static enum rs_status note_value(struct settings *settings, const char *name, size_t first,
                                 size_t end, size_t usual, size_t usual_count)
{
    char ranks[128] = "", value[80], most[80];
    const char *own = settings->items[first].value, *theirs = settings->items[usual].value;
    if (settings->notes == NOTES_MAX) {
        settings->left_out++;
        return RS_OK;
    }
    settings->notes++;
    print_ranks(&settings->items[first], end - first, ranks, sizeof ranks);
    show(own, value, sizeof value);
    show(theirs, most, sizeof most);
    return join_note(
        settings->join,
        "%.64s is %s on rank%s %s, and %s on %zu other%s: the ranks of a job should be "
        "set up alike.",
        name, value, end - first == 1 ? "" : "s", ranks, most, usual_count,
        usual_count == 1 ? "" : "s");
}

/* The values of one name, collected in `items`. */
static enum rs_status compare(struct settings *settings, const char *name, bool is_environment)
{
    size_t usual = 0, usual_count = 0;
    enum rs_status status = RS_OK;
    qsort(settings->items, settings->count, sizeof *settings->items, by_value);
    for (size_t i = 0, end; i < settings->count; i = end) {
        for (end = i + 1; end < settings->count &&
                          strcmp(settings->items[end].value, settings->items[i].value) == 0;)
            end++;
        if (end - i > usual_count) {
            usual = i;
            usual_count = end - i;
        }
    }
    if (usual_count == settings->count || (!is_environment && usual_count * 2 <= settings->count) ||
        (!is_environment && settings->count < 3))
        return RS_OK;
    for (size_t i = 0, end; i < settings->count && status == RS_OK; i = end) {
        for (end = i + 1; end < settings->count &&
                          strcmp(settings->items[end].value, settings->items[i].value) == 0;)
            end++;
        if (i != usual)
            status = note_value(settings, name, i, end, usual, usual_count);
    }
    return status;
}

static const json_t *object_of(const struct settings *settings, size_t summary, const char *inside)
{
    const json_t *root = settings->roots[summary];
    return inside ? json_object_get(root, inside) : root;
}

static bool is_seen_before(const struct settings *settings, size_t summary, const char *inside,
                           const char *name)
{
    for (size_t i = 0; i < summary; i++)
        if (json_object_get(object_of(settings, i, inside), name))
            return true;
    return false;
}

/* What says who a rank is, and what Rankscope itself put there. */
static bool is_of_each_rank(const char *name)
{
    static const char *const names[] = {"trace_id", "distributed_args", "pp_info", "ENV_VARIABLES"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return strncmp(name, "rankscope", 9) == 0;
}

static enum rs_status compare_name(struct settings *settings, const char *inside, const char *name)
{
    const struct rs_analysis *out = settings->join->out;
    settings->count = 0;
    for (size_t i = 0; i < out->summary_count; i++) {
        const json_t *object = object_of(settings, i, inside);
        const json_t *value = json_object_get(object, name);
        struct setting *item = &settings->items[settings->count];
        if (!object)
            continue;
        *item = (struct setting){out->summaries[i]->trace.rank, ""};
        if (value && text_of(settings, value, &item->value) != RS_OK)
            return RS_NOMEM;
        settings->count++;
    }
    return settings->count > 1 ? compare(settings, name, inside != NULL) : RS_OK;
}

/* All names that some rank has, each once. */
static enum rs_status compare_all(struct settings *settings, const char *inside)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < settings->join->out->summary_count && status == RS_OK; i++) {
        json_t *object = settings->roots[i];
        if (inside)
            object = json_object_get(object, inside);
        const char *name;
        json_t *value;
        json_object_foreach(object, name, value)
        {
            if (status != RS_OK || (!inside && is_of_each_rank(name)) ||
                is_seen_before(settings, i, inside, name))
                continue;
            status = compare_name(settings, inside, name);
        }
    }
    return status;
}

static bool load(struct settings *settings)
{
    const struct rs_analysis *out = settings->join->out;
    size_t known = 0;
    for (size_t i = 0; i < out->summary_count; i++) {
        const struct rs_summary *summary = out->summaries[i];
        if (summary->trace.metadata == RS_STR_NONE)
            continue;
        settings->roots[i] = json_loads(rs_strtab_text(&summary->strings, summary->trace.metadata),
                                        JSON_REJECT_DUPLICATES, NULL);
        known += json_is_object(settings->roots[i]);
    }
    return known > 1;
}

enum rs_status settings_notes(struct join *join)
{
    const size_t count = join->out->summary_count;
    struct settings settings = {.join = join};
    settings.roots = rs_mem_calloc(count + 1, sizeof(json_t *));
    settings.items = rs_mem_calloc(count + 1, sizeof *settings.items);
    enum rs_status status = settings.roots && settings.items ? RS_OK : RS_NOMEM;
    if (status == RS_OK && load(&settings)) {
        status = compare_all(&settings, "ENV_VARIABLES");
        if (status == RS_OK)
            status = compare_all(&settings, NULL);
    }
    if (status == RS_OK && settings.left_out)
        status =
            join_note(join, "%zu more values of settings differ between ranks.", settings.left_out);
    for (size_t i = 0; settings.roots && i < count; i++)
        json_decref(settings.roots[i]);
    for (size_t i = 0; i < settings.text_count; i++)
        free(settings.texts[i]);
    rs_mem_free(settings.roots);
    rs_mem_free(settings.items);
    rs_mem_free(settings.texts);
    return status;
}
