/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flight recorder dump of any bytes, read and judged. Promises held here: no crash, no memory beyond the limits, a
 * refused dump leaves nothing, every index that the analysis follows is one of the set; and a pickle says the same whether
 * its dictionaries are told from their bytes or run code by code.
 */
#include "aggregator/analysis/hang/hang.h"
#include "collector/source/flight_priv.h"
#include "common/base/check.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same_text(const struct rs_flight_set *a, rs_str x, const struct rs_flight_set *b,
                      rs_str y)
{
    return strcmp(rs_strtab_text(&a->strings, x), rs_strtab_text(&b->strings, y)) == 0;
}

static void compare_entries(const struct rs_flight_set *a, const struct rs_flight_set *b)
{
    RS_CHECK(a->entry_count == b->entry_count && a->dump_count == b->dump_count);
    for (size_t d = 0; d < a->dump_count; d++)
        RS_CHECK(a->dumps[d].bad_entries == b->dumps[d].bad_entries);
    for (size_t i = 0; i < a->entry_count; i++) {
        const struct rs_flight_entry *x = &a->entries[i], *y = &b->entries[i];
        RS_CHECK(x->record_id == y->record_id && x->seq == y->seq && x->group == y->group);
        RS_CHECK(x->created_ns == y->created_ns && x->started_ns == y->started_ns);
        RS_CHECK(x->completed_ns == y->completed_ns && x->duration_ns == y->duration_ns);
        RS_CHECK(x->timeout_ns == y->timeout_ns && x->in_numel == y->in_numel);
        RS_CHECK(x->out_numel == y->out_numel && x->peer_src == y->peer_src);
        RS_CHECK(x->peer_dst == y->peer_dst && x->op == y->op && x->state == y->state);
        RS_CHECK(x->flags == y->flags && same_text(a, x->name, b, y->name));
        RS_CHECK(same_text(a, x->sizes, b, y->sizes) && same_text(a, x->dtypes, b, y->dtypes));
        RS_CHECK(same_text(a, x->frames, b, y->frames));
    }
}

static void compare_both_ways(struct rs_flight_reader *reader, const uint8_t *data, size_t size)
{
    struct rs_flight_set sets[2];
    enum rs_status said[2];
    struct rs_err errs[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        RS_CHECK(rs_flight_set_init(&sets[i]) == RS_OK);
        reader->is_eager = i;
        said[i] = rs_flight_read(reader, data, size, "fuzz", &sets[i], &errs[i]);
    }
    reader->is_eager = false;
    RS_CHECK(said[0] == said[1] && strcmp(errs[0].text, errs[1].text) == 0);
    compare_entries(&sets[0], &sets[1]);
    for (int i = 0; i < 2; i++)
        rs_flight_set_fini(&sets[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rs_flight_reader *reader;
    struct rs_flight_set set;
    struct rs_err err = {0};
    RS_CHECK(reader || rs_flight_reader_new(&reader) == RS_OK);
    RS_CHECK(rs_flight_set_init(&set) == RS_OK);
    compare_both_ways(reader, data, size);
    /* The same dump as two ranks: the second is the first one a little later. */
    for (int rank = 0; rank < 2; rank++) {
        const size_t length = rank ? size - size / 8 : size;
        const enum rs_status status = rs_flight_read(reader, data, length, "fuzz", &set, &err);
        if (status < 0) {
            RS_CHECK(err.text[0]);
            RS_CHECK(set.dump_count <= (size_t)rank);
            const enum rs_status said =
                rs_flight_read_witness((const char *)data, length, "fuzz", &set, &err);
            RS_CHECK(said == RS_OK || err.text[0]);
        } else {
            set.dumps[set.dump_count - 1].rank = rank;
        }
    }
    for (size_t d = 0; d < set.dump_count; d++)
        for (size_t i = 0; i < set.dumps[d].entry_count; i++)
            RS_CHECK(set.entries[set.dumps[d].entry_first + i].group < set.dumps[d].group_count);
    struct rs_hang *hang = NULL;
    RS_CHECK(rs_flight_set_sort(&set) == RS_OK);
    RS_CHECK(rs_hang_new(&set, NULL, &hang, &err) == RS_OK);
    rs_hang_free(&hang);
    rs_flight_set_fini(&set);
    return 0;
}
