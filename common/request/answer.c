/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers as people and programs read them. In the text, neighbours with the same answer share a line: a thousand
 * ranks that are all accepted are one line.
 */
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/request/request.h"

#include <inttypes.h>
#include <string.h>

static bool notes_equal(const struct rs_request_notes *a, const struct rs_request_notes *b)
{
    if (a->count != b->count || a->left_off_count != b->left_off_count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->items[i].rule != b->items[i].rule ||
            strcmp(a->items[i].field, b->items[i].field) != 0 ||
            strcmp(a->items[i].text, b->items[i].text) != 0)
            return false;
    return true;
}

static bool answers_equal(const struct rs_rank_answer *a, const struct rs_rank_answer *b)
{
    return a->decision == b->decision && notes_equal(&a->notes, &b->notes);
}

static void print_notes(const struct rs_request_notes *notes, struct rs_buf *buf)
{
    for (size_t i = 0; i < notes->count; i++) {
        rs_buf_string(buf, "  ");
        rs_request_note_print(&notes->items[i], buf);
        rs_buf_u8(buf, '\n');
    }
    if (notes->left_off_count)
        rs_buf_printf(buf, "  and %zu more\n", notes->left_off_count);
}

/* The ranks from `first` on that have its answer, as "0,3-7"; they are told then. */
static void print_alike(const struct rs_request_answer *answer, size_t first, bool *is_reported,
                        struct rs_buf *buf)
{
    const struct rs_rank_answer *ranks = answer->ranks;
    size_t i = first;
    bool is_behind = false;
    rs_buf_string(buf, "ranks ");
    while (i < answer->count) {
        if (is_reported[i] || !answers_equal(&ranks[first], &ranks[i])) {
            i++;
            continue;
        }
        const uint32_t from = ranks[i].rank;
        uint32_t to = from;
        is_reported[i] = true;
        while (++i < answer->count && ranks[i].rank == to + 1 &&
               answers_equal(&ranks[first], &ranks[i])) {
            to = ranks[i].rank;
            is_reported[i] = true;
        }
        rs_buf_printf(buf, "%s%" PRIu32, is_behind ? "," : "", from);
        if (to > from)
            rs_buf_printf(buf, "-%" PRIu32, to);
        is_behind = true;
    }
    rs_buf_printf(buf, ": %s\n", rs_decision_name(ranks[first].decision));
    print_notes(&ranks[first].notes, buf);
}

/* So many different answers are told in full; each costs a look at all ranks. */
enum { KINDS_MAX = 64 };

static void print_ranks(const struct rs_request_answer *answer, struct rs_buf *buf)
{
    bool *is_reported = rs_mem_calloc(answer->count ? answer->count : 1, sizeof *is_reported);
    size_t kinds = 0, left = 0;
    if (!is_reported) {
        buf->failed = true;
        return;
    }
    for (size_t i = 0; i < answer->count; i++) {
        if (is_reported[i])
            continue;
        if (kinds++ < KINDS_MAX)
            print_alike(answer, i, is_reported, buf);
        else
            left++;
    }
    if (left)
        rs_buf_printf(buf, "and %zu more ranks with other answers; the JSON form has them all\n",
                      left);
    rs_mem_free(is_reported);
}

void rs_request_answer_print(const struct rs_request_answer *answer, struct rs_buf *buf)
{
    if (answer->notes.count) {
        rs_buf_string(buf, "request:\n");
        print_notes(&answer->notes, buf);
    }
    print_ranks(answer, buf);
    rs_buf_printf(buf, "%zu ranks: %zu accepted, %zu queued, %zu ineffective, %zu refused\n",
                  answer->count, answer->decision_count[RS_DECISION_ACCEPTED],
                  answer->decision_count[RS_DECISION_QUEUED],
                  answer->decision_count[RS_DECISION_INEFFECTIVE],
                  answer->decision_count[RS_DECISION_REFUSED]);
    if (answer->decision_count[RS_DECISION_INEFFECTIVE])
        rs_buf_string(buf, "ineffective: accepted, but what is named will not happen\n");
}

void rs_request_notes_to_json(const struct rs_request_notes *notes, struct rs_json_out *json)
{
    rs_json_out_array(json);
    for (size_t i = 0; i < notes->count; i++) {
        const struct rs_request_note *note = &notes->items[i];
        const struct rs_rule *rule = rs_request_rule(note->rule);
        rs_json_out_object(json);
        rs_json_out_key(json, "rule");
        rs_json_out_string(json, rule->name);
        rs_json_out_key(json, "severity");
        rs_json_out_string(json, rs_severity_name(rule->severity));
        rs_json_out_key(json, "field");
        rs_json_out_string(json, note->field);
        if (note->line) {
            rs_json_out_key(json, "line");
            rs_json_out_uint(json, note->line);
            rs_json_out_key(json, "column");
            rs_json_out_uint(json, note->column);
        }
        rs_json_out_key(json, "sentence");
        rs_json_out_string(json, rule->sentence);
        rs_json_out_key(json, "detail");
        rs_json_out_string(json, note->text);
        rs_json_out_key(json, "source");
        rs_json_out_string(json, rule->source);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void unknown_to_json(const struct rs_rank_set *chosen, struct rs_json_out *json)
{
    rs_json_out_key(json, "unknown_ranks");
    rs_json_out_array(json);
    for (size_t i = 0; i < chosen->unknown_count; i++) {
        rs_json_out_array(json);
        rs_json_out_uint(json, chosen->unknown[i].first);
        rs_json_out_uint(json, chosen->unknown[i].last);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

void rs_request_answer_to_json(const struct rs_request_answer *answer, unsigned indent_count,
                               struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, indent_count);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "notes");
    rs_request_notes_to_json(&answer->notes, &json);
    unknown_to_json(&answer->chosen, &json);
    rs_json_out_key(&json, "ranks");
    rs_json_out_array(&json);
    for (size_t i = 0; i < answer->count; i++) {
        const struct rs_rank_answer *one = &answer->ranks[i];
        rs_json_out_object(&json);
        rs_json_out_key(&json, "rank");
        rs_json_out_uint(&json, one->rank);
        rs_json_out_key(&json, "verdict");
        rs_json_out_string(&json, rs_decision_name(one->decision));
        rs_json_out_key(&json, "notes");
        rs_request_notes_to_json(&one->notes, &json);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
}
