/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/counters.h"

#include "common/base/check.h"
#include "common/base/utf8.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KIND_COUNTER, KIND_GAUGE };

static const struct rs_counter_info infos[RS_COUNT_END] = {
#define X(suffix, text, kind, of, whose, sentence)                                                 \
    [RS_COUNT_##suffix] = {.name = (text),                                                         \
                           .unit = (of),                                                           \
                           .help = (sentence),                                                     \
                           .is_gauge = KIND_##kind == KIND_GAUGE,                                  \
                           .who = RS_COUNT_##whose},
#include "common/base/counters.def"
#undef X
};

static _Atomic uint64_t values[RS_COUNT_END];

const struct rs_counter_info *rs_counter_info(enum rs_counter counter)
{
    RS_CHECK(counter < RS_COUNT_END);
    return &infos[counter];
}

enum rs_counter rs_counter_find(const char *name)
{
    for (size_t i = 0; i < RS_COUNT_END; i++)
        if (strcmp(infos[i].name, name) == 0)
            return (enum rs_counter)i;
    return RS_COUNT_END;
}

void rs_count(enum rs_counter counter, uint64_t more)
{
    (void)atomic_fetch_add_explicit(&values[counter], more, memory_order_relaxed);
}

void rs_count_set(enum rs_counter counter, uint64_t value)
{
    atomic_store_explicit(&values[counter], value, memory_order_relaxed);
}

uint64_t rs_count_read(enum rs_counter counter)
{
    return atomic_load_explicit(&values[counter], memory_order_relaxed);
}

void rs_count_process(void)
{
    uint64_t total_pages = 0;
    uint64_t resident_pages = 0;
    const long page = sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    /* NOLINTNEXTLINE(cert-err34-c): lines of the kernel */
    if (file && fscanf(file, "%" SCNu64 " %" SCNu64, &total_pages, &resident_pages) == 2 &&
        page > 0)
        rs_count_set(RS_COUNT_PROCESS_RESIDENT, resident_pages * (uint64_t)page);
    if (file)
        (void)fclose(file);
}

/* ---- Prometheus ---------------------------------------------------------------------------------------------- */

/* "spool.lost" of bytes that only grow: rankscope_spool_lost_bytes_total. */
static void put_name(const struct rs_counter_info *info, struct rs_buf *buf)
{
    rs_buf_string(buf, "rankscope_");
    for (const char *at = info->name; *at; at++)
        rs_buf_u8(buf, (uint8_t)(*at == '.' ? '_' : *at));
    if (*info->unit)
        rs_buf_printf(buf, "_%s", info->unit);
    if (!info->is_gauge)
        rs_buf_string(buf, "_total");
}

/* Texts of collectors are theirs to choose. */
void rs_prometheus_label(const char *name, const char *value, struct rs_buf *buf)
{
    struct rs_buf clean = {0};
    size_t length = 0;
    const char *text = rs_utf8_clean(value, strlen(value), &clean, &length);
    rs_buf_printf(buf, "%s=\"", name);
    for (const char *at = text; at < text + length; at++) {
        if (*at == '\\' || *at == '"')
            rs_buf_u8(buf, '\\');
        if (*at == '\n')
            rs_buf_string(buf, "\\n");
        else
            rs_buf_u8(buf, (uint8_t)*at);
    }
    rs_buf_string(buf, "\"");
    buf->failed |= clean.failed;
    rs_buf_fini(&clean);
}

static void put_sample(enum rs_counter counter, const struct rs_counter_set *set,
                       struct rs_buf *buf)
{
    put_name(&infos[counter], buf);
    rs_buf_string(buf, "{");
    rs_prometheus_label("daemon", set->daemon, buf);
    if (*set->node) {
        rs_buf_string(buf, ",");
        rs_prometheus_label("node", set->node, buf);
    }
    if (*set->instance) {
        rs_buf_string(buf, ",");
        rs_prometheus_label("collector", set->instance, buf);
    }
    rs_buf_printf(buf, "} %" PRIu64 "\n", set->values[counter]);
}

void rs_counters_prometheus(const struct rs_counter_set *sets, size_t count, struct rs_buf *buf)
{
    for (unsigned counter = 0; counter < RS_COUNT_END; counter++) {
        const struct rs_counter_info *info = &infos[counter];
        bool is_known = false;
        for (size_t i = 0; i < count; i++)
            is_known |= sets[i].has[counter];
        if (!is_known)
            continue;
        rs_buf_string(buf, "# HELP ");
        put_name(info, buf);
        rs_buf_printf(buf, " %s.\n# TYPE ", info->help);
        put_name(info, buf);
        rs_buf_printf(buf, " %s\n", info->is_gauge ? "gauge" : "counter");
        for (size_t i = 0; i < count; i++)
            if (sets[i].has[counter])
                put_sample((enum rs_counter)counter, &sets[i], buf);
    }
}
