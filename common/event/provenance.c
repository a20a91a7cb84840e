/* SPDX-License-Identifier: Apache-2.0 */
#include "common/event/provenance.h"

#include "common/base/mem.h"

#include <math.h>

struct rs_provenance *rs_provenance_new(void)
{
    struct rs_provenance *made = rs_mem_calloc(1, sizeof *made);
    if (made)
        made->framework = made->framework_version = made->cann_version = RS_STR_NONE;
    return made;
}

void rs_provenance_free(struct rs_provenance **provenance_p)
{
    struct rs_provenance *provenance = *provenance_p;
    if (provenance) {
        rs_mem_free(provenance->steps);
        rs_mem_free(provenance->comms);
        rs_mem_free(provenance->bands);
        rs_mem_free(provenance->links);
    }
    rs_mem_free(provenance);
    *provenance_p = NULL;
}

int64_t rs_vendor_ps(double value, double ps_per_unit)
{
    const double ps = value * ps_per_unit;
    if (!(fabs(ps) < (double)RS_VENDOR_LIMIT))
        return RS_VENDOR_UNKNOWN;
    return llround(ps);
}

struct renaming {
    struct rs_strtab *to;
    const struct rs_strtab *from;
    enum rs_status status; /* first failure */
};

static rs_str renamed(struct renaming *renaming, rs_str id)
{
    rs_str ours = RS_STR_NONE;
    if (id != RS_STR_NONE && renaming->status == RS_OK)
        renaming->status = rs_strtab_add(renaming->to, rs_strtab_text(renaming->from, id),
                                         rs_strtab_length(renaming->from, id), &ours);
    return ours;
}

static void rename_all(struct renaming *renaming, rs_str *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ids[i] = renamed(renaming, ids[i]);
}

static void add_bands(struct renaming *renaming, struct rs_provenance *to,
                      const struct rs_provenance *from)
{
    for (size_t i = 0; i < from->band_count; i++) {
        struct rs_vendor_band row = from->bands[i];
        row.transport = renamed(renaming, row.transport);
        rename_all(renaming, row.fields, RS_VENDOR_BAND_FIELDS);
        rename_all(renaming, row.package, RS_VENDOR_PACKAGE_FIELDS);
        to->bands[to->band_count++] = row;
    }
}

static void add_links(struct renaming *renaming, struct rs_provenance *to,
                      const struct rs_provenance *from)
{
    for (size_t i = 0; i < from->link_count; i++) {
        struct rs_vendor_link row = from->links[i];
        row.step = renamed(renaming, row.step);
        row.group = renamed(renaming, row.group);
        row.kind = renamed(renaming, row.kind);
        row.transport = renamed(renaming, row.transport);
        row.op_name = renamed(renaming, row.op_name);
        rename_all(renaming, row.fields, RS_VENDOR_LINK_FIELDS);
        to->links[to->link_count++] = row;
    }
}

static rs_str kept_if_same(rs_str a, rs_str b)
{
    return a == b ? a : RS_STR_NONE;
}

enum rs_status rs_provenance_add(struct rs_provenance **to_p, struct rs_strtab *to_strings,
                                 const struct rs_provenance *from,
                                 const struct rs_strtab *from_strings)
{
    struct renaming renaming = {.to = to_strings, .from = from_strings};
    const bool is_first = !*to_p;
    if (!from)
        return RS_OK;
    if (is_first)
        *to_p = rs_provenance_new();
    struct rs_provenance *to = *to_p;
    if (!to ||
        rs_mem_grow((void **)&to->steps, &to->step_capacity, to->step_count + from->step_count,
                    sizeof *to->steps) != RS_OK ||
        rs_mem_grow((void **)&to->comms, &to->comm_capacity, to->comm_count + from->comm_count,
                    sizeof *to->comms) != RS_OK ||
        rs_mem_grow((void **)&to->bands, &to->band_capacity, to->band_count + from->band_count,
                    sizeof *to->bands) != RS_OK ||
        rs_mem_grow((void **)&to->links, &to->link_capacity, to->link_count + from->link_count,
                    sizeof *to->links) != RS_OK)
        return RS_NOMEM;
    const rs_str framework = renamed(&renaming, from->framework);
    const rs_str framework_version = renamed(&renaming, from->framework_version);
    const rs_str cann_version = renamed(&renaming, from->cann_version);
    to->framework = is_first ? framework : kept_if_same(to->framework, framework);
    to->framework_version =
        is_first ? framework_version : kept_if_same(to->framework_version, framework_version);
    to->cann_version = is_first ? cann_version : kept_if_same(to->cann_version, cann_version);
    to->has_text_steps = to->has_text_steps || from->has_text_steps;
    for (size_t i = 0; i < from->step_count; i++) {
        struct rs_vendor_step row = from->steps[i];
        row.step = renamed(&renaming, row.step);
        rename_all(&renaming, row.digits, RS_VENDOR_STEP_FIELDS);
        to->steps[to->step_count++] = row;
    }
    for (size_t i = 0; i < from->comm_count; i++) {
        struct rs_vendor_comm row = from->comms[i];
        row.step = renamed(&renaming, row.step);
        row.group = renamed(&renaming, row.group);
        row.name = renamed(&renaming, row.name);
        rename_all(&renaming, row.digits, RS_VENDOR_TIMES);
        to->comms[to->comm_count++] = row;
    }
    add_bands(&renaming, to, from);
    add_links(&renaming, to, from);
    return renaming.status;
}
