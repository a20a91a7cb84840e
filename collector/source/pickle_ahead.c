/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dictionary told from its bytes, without the machine.
 *
 * The calls of a dump are thousands of dictionaries of one form: keys that the memo has, numbers, a few short lists. Run
 * code by code each costs some eighty pushes and six containers, which are then looked at once. Here it is gone through
 * once, and a container is only measured:
 *
 *   }(  h19 K07  h28 h29  h2b ](](M..ee  h68 h09 h0a 86  ..  u
 *       key int  key text key span       key span                items, as dict_done() gets them
 *
 * A span is a value that stays what it is in the file; rs_pickle_unfold() runs it through the machine, once for all calls
 * that have the same bytes. Two spans of the same bytes are the same value as long as the memo has not changed
 * (memo_changes), because what may stand in one is narrow: no texts, nothing put into the memo, no dictionary (dict_done()
 * is to get each of them), and only lists that are filled where they are made. What else there is (a text seen for the first
 * time, floats in lists, other codes, the last bytes of the file) is not judged here: false, and the machine goes through
 * the dictionary from its beginning, and says what is wrong and where. So nothing becomes legal by this file that was not,
 * seen by the caller or not (fuzz_flight compares both ways).
 *
 * A byte is looked at here at most once: there is no dictionary in a dictionary that this file goes through.
 */
#include "collector/source/pickle_priv.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    DEPTH_MAX = 8,
    SPAN_MAX = 1 << 20, /* bytes of a list */
    ROOM = 16,          /* no code here and its number, with the code behind it, is longer */
};

static inline bool memo_has(const struct rs_pickle *p, size_t index)
{
    return index < p->memo_count && p->memo[index].kind != RS_PICKLE_MARK;
}

/* As the machine: there, and not so deep that lists around it are beyond the limit. */
static inline bool may_stand_in_list(const struct rs_pickle *p, size_t index)
{
    if (!memo_has(p, index))
        return false;
    const struct rs_pickle_value value = p->memo[index];
    return value.kind < RS_PICKLE_LIST ||
           p->objects[value.index].depth + DEPTH_MAX <= p->limits.depth;
}

/* Where the list that begins at `at` ends; 0: it is not plain. */
static size_t list_end(const struct rs_pickle *p, size_t at)
{
    const uint8_t *data = p->data;
    const size_t first = at;
    unsigned open = 0;
    do {
        while (p->length - at >= ROOM && data[at] == BINGET && open) {
            if (!may_stand_in_list(p, data[at + 1]))
                return 0;
            at += 2;
        }
        if (p->length - at < ROOM || at - first > SPAN_MAX)
            return 0;
        switch (data[at]) {
        case EMPTY_LIST:
            at++;
            if (data[at] == MARK) {
                if (open == DEPTH_MAX)
                    return 0;
                open++;
                at++;
            }
            break;
        case APPENDS:
            open--;
            at++;
            break;
        case BININT1:
            at += 2;
            break;
        case BININT2:
            at += 3;
            break;
        case LONG_BINGET:
            if (!may_stand_in_list(p, pickle_u32_at(data + at + 1)))
                return 0;
            at += 5;
            break;
        case BININT:
            at += 5;
            break;
        case LONG1:
            if (data[at + 1] > 8)
                return 0;
            at += 2 + (size_t)data[at + 1];
            break;
        case NONE:
        case NEWTRUE:
        case NEWFALSE:
            at++;
            break;
        default:
            return 0;
        }
    } while (open);
    return at;
}

static inline struct rs_pickle_value span(size_t first, size_t end)
{
    return (struct rs_pickle_value){
        .kind = RS_PICKLE_SPAN, .index = (uint32_t)(end - first), .number = (int64_t)first};
}

/* The first place where these bytes stand, as far as the table knows. */
static struct rs_pickle_value first_of(struct rs_pickle *p, size_t at, size_t end)
{
    const uint64_t hash = XXH3_64bits(p->data + at, end - at);
    struct rs_pickle_seen *seen = &p->spans[hash % RS_PICKLE_SEEN];
    if (seen->length != end - at || memcmp(p->data + seen->first, p->data + at, end - at) != 0)
        *seen = (struct rs_pickle_seen){.first = at, .length = (uint32_t)(end - at)};
    return span(seen->first, seen->first + seen->length);
}

/* A list and where it ends, 0: not plain. Most stood here before: the first bytes tell which, and where all of its bytes stand
 * again it ends in the same place. */
static size_t take_list(struct rs_pickle *p, size_t at, struct rs_pickle_value *value_p)
{
    uint64_t head;
    memcpy(&head, p->data + at, sizeof head);
    struct rs_pickle_seen *seen =
        &p->lists[head * UINT64_C(0x9E3779B97F4A7C15) >> 32 & (RS_PICKLE_SEEN - 1)];
    if (seen->length && seen->length <= p->length - at &&
        memcmp(p->data + seen->first, p->data + at, seen->length) == 0) {
        *value_p = span(seen->first, seen->first + seen->length);
        return at + seen->length;
    }
    const size_t end = list_end(p, at);
    if (!end)
        return 0;
    *value_p = first_of(p, at, end);
    if (end - at >= sizeof head / 2)
        *seen = (struct rs_pickle_seen){.first = (size_t)value_p->number, .length = value_p->index};
    return end;
}

bool pickle_ahead(struct rs_pickle *p, struct rs_pickle_value items[PICKLE_AHEAD_ITEMS],
                  size_t *count_p, size_t *end_p)
{
    const uint8_t *data = p->data;
    size_t starts[PICKLE_AHEAD_ITEMS]; /* of the items */
    size_t count = 0, at = p->at + 2, index;
    if (p->length - p->at < ROOM || data[p->at] != EMPTY_DICT || data[p->at + 1] != MARK)
        return false;
    if (p->seen_changes != p->memo_changes) {
        memset(p->lists, 0, sizeof p->lists);
        memset(p->spans, 0, sizeof p->spans);
        p->seen_changes = p->memo_changes;
    }
    for (;;) {
        if (p->length - at < ROOM || count == PICKLE_AHEAD_ITEMS)
            return false;
        struct rs_pickle_value *top = &items[count];
        starts[count] = at;
        /* Apart from the rest: every key and many a value, and a branch that is guessed right costs nothing. */
        if (data[at] == BINGET) {
            if (!memo_has(p, data[at + 1]))
                return false;
            *top = p->memo[data[at + 1]];
            at += 2;
            count++;
            continue;
        }
        switch (data[at]) {
        case LONG_BINGET:
            index = pickle_u32_at(data + at + 1);
            if (!memo_has(p, index))
                return false;
            *top = p->memo[index];
            at += 5;
            break;
        case BININT1:
            *top = (struct rs_pickle_value){.kind = RS_PICKLE_INT, .number = data[at + 1]};
            at += 2;
            break;
        case BININT2:
            *top = (struct rs_pickle_value){.kind = RS_PICKLE_INT,
                                            .number = data[at + 1] | data[at + 2] << 8};
            at += 3;
            break;
        case BININT:
            *top = (struct rs_pickle_value){.kind = RS_PICKLE_INT,
                                            .number = (int32_t)pickle_u32_at(data + at + 1)};
            at += 5;
            break;
        case LONG1:
            if (data[at + 1] > 8)
                return false;
            *top = (struct rs_pickle_value){.kind = RS_PICKLE_INT,
                                            .number = pickle_long_at(data + at + 2, data[at + 1])};
            at += 2 + (size_t)data[at + 1];
            break;
        case BINFLOAT:
            *top = (struct rs_pickle_value){.kind = RS_PICKLE_FLOAT,
                                            .real = pickle_float_at(data + at + 1)};
            at += 9;
            break;
        case NONE:
            *top = (struct rs_pickle_value){.kind = RS_PICKLE_NONE};
            at++;
            break;
        case NEWTRUE:
        case NEWFALSE:
            *top = (struct rs_pickle_value){.kind = RS_PICKLE_BOOL, .number = data[at] == NEWTRUE};
            at++;
            break;
        case EMPTY_LIST:
            at = take_list(p, at, top);
            if (!at)
                return false;
            break;
        case TUPLE2: /* of the two before it: plain values only */
            if (count < 2 || items[count - 1].kind >= RS_PICKLE_LIST ||
                items[count - 2].kind >= RS_PICKLE_LIST)
                return false;
            count -= 2;
            at++;
            items[count] = first_of(p, starts[count], at);
            break;
        case SETITEMS:
            *count_p = count;
            *end_p = at + 1;
            return count % 2 == 0;
        default:
            return false;
        }
        count++;
    }
}
