/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of rank expressions: recursive descent, one function per line of the grammar.
 *
 * The text is a stranger's: its length, its nesting and every number are bounded before they are used.
 */
#include "common/request/rank_expr.h"

#include "common/base/mem.h"
#include "common/request/rank_expr_priv.h"

#include <stdlib.h>
#include <string.h>

static const char *const role_names[RS_ROLE_COUNT] = {"dp", "tp", "pp", "ep", "cp"};

const char *rs_rank_role_name(enum rs_rank_role_kind role)
{
    return role_names[role];
}

struct parser {
    struct rs_rank_expr *expr;
    const char *text; /* expr->text: terminated */
    size_t at;
    unsigned depth;
    bool is_behind_value; /* what was read last is the value of a role or a node's name */
    struct rs_err *err;
};

static enum rs_status expected(struct parser *p, const char *what)
{
    const char *found = &p->text[p->at];
    if (!*found)
        return rs_err_set(p->err, RS_INVALID,
                          "rank expression, column %zu: expected %s, found the end", p->at + 1,
                          what);
    return rs_err_set(p->err, RS_INVALID,
                      "rank expression, column %zu: expected %s, found \"%.20s\"", p->at + 1, what,
                      found);
}

static void skip_space(struct parser *p)
{
    while (p->text[p->at] == ' ' || p->text[p->at] == '\t' || p->text[p->at] == '\n' ||
           p->text[p->at] == '\r')
        p->at++;
}

static bool take_char(struct parser *p, char wanted)
{
    skip_space(p);
    if (p->text[p->at] != wanted)
        return false;
    p->at++;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static enum rs_status new_node(struct parser *p, struct expr_node node, uint32_t *index_p)
{
    struct rs_rank_expr *expr = p->expr;
    node.next = EXPR_NONE;
    const enum rs_status status =
        rs_mem_grow((void **)&expr->nodes, &expr->capacity, expr->count + 1, sizeof *expr->nodes);
    if (status < 0)
        return rs_err_set(p->err, status, "no memory for a rank expression");
    *index_p = (uint32_t)expr->count;
    expr->nodes[expr->count++] = node;
    return RS_OK;
}

static enum rs_status take_number(struct parser *p, uint32_t max, const char *what,
                                  uint32_t *number_p)
{
    uint64_t number = 0;
    skip_space(p);
    if (!is_digit(p->text[p->at]))
        return expected(p, what);
    const size_t start = p->at;
    for (; is_digit(p->text[p->at]); p->at++) {
        number = number * 10 + (uint64_t)(p->text[p->at] - '0');
        if (number > max)
            return rs_err_set(p->err, RS_INVALID,
                              "rank expression, column %zu: expected a number up to %u", start + 1,
                              max);
    }
    *number_p = (uint32_t)number;
    return RS_OK;
}

/* N or N-M */
static enum rs_status take_range(struct parser *p, const char *what, struct expr_node *node)
{
    enum rs_status status = take_number(p, RS_RANK_MAX, what, &node->first);
    if (status < 0)
        return status;
    node->last = node->first;
    if (!take_char(p, '-'))
        return RS_OK;
    skip_space(p);
    const size_t start = p->at;
    status = take_number(p, RS_RANK_MAX, "the last number of a range", &node->last);
    if (status == RS_OK && node->last < node->first)
        return rs_err_set(p->err, RS_INVALID,
                          "rank expression, column %zu: expected a number from %u on, found %u",
                          start + 1, node->first, node->last);
    return status;
}

static enum rs_status take_role_value(struct parser *p, struct expr_node *node)
{
    skip_space(p);
    const char *at = &p->text[p->at];
    if (strncmp(at, "last", 4) == 0 && !is_letter(at[4]) && !is_digit(at[4])) {
        node->is_last = true;
        p->at += 4;
        return RS_OK;
    }
    return take_range(p, "a number, a range a-b or \"last\"", node);
}

static bool is_node_char(char c)
{
    return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-' || c == ':';
}

static enum rs_status take_node_name(struct parser *p, struct expr_node *node)
{
    skip_space(p);
    const size_t start = p->at;
    while (is_node_char(p->text[p->at]))
        p->at++;
    node->name = (uint32_t)start;
    node->length = (uint32_t)(p->at - start);
    if (p->text[p->at] == '*') {
        node->is_prefix = true;
        p->at++;
    }
    if (!node->length && !node->is_prefix)
        return expected(p, "the name of a node");
    if (node->length > RS_RANK_EXPR_NODE_MAX_BYTES)
        return rs_err_set(p->err, RS_INVALID,
                          "rank expression, column %zu: the name of a node has at most %d bytes",
                          start + 1, RS_RANK_EXPR_NODE_MAX_BYTES);
    return RS_OK;
}

/* P% with up to six decimals, above 0 and up to 100: exact, in units of 1e-8. */
static enum rs_status take_percent(struct parser *p, struct expr_node *node)
{
    skip_space(p);
    const size_t start = p->at;
    uint32_t whole = 0;
    enum rs_status status = take_number(p, 100, "a percentage such as 1%", &whole);
    if (status < 0)
        return status;
    uint64_t units = (uint64_t)whole * 1000000;
    if (p->text[p->at] == '.') {
        uint64_t place = 100000;
        p->at++;
        if (!is_digit(p->text[p->at]))
            return expected(p, "a digit");
        for (; is_digit(p->text[p->at]); p->at++, place /= 10) {
            if (!place)
                return expected(p, "\"%\" (at most six decimals)");
            units += place * (uint64_t)(p->text[p->at] - '0');
        }
    }
    if (!take_char(p, '%'))
        return expected(p, "\"%\"");
    if (!units || units > SAMPLE_WHOLE)
        return rs_err_set(
            p->err, RS_INVALID,
            "rank expression, column %zu: expected a percentage above 0 and up to 100", start + 1);
    node->units = units;
    return RS_OK;
}

static enum rs_status take_count(struct parser *p, struct expr_node *node)
{
    skip_space(p);
    const size_t start = p->at;
    const enum rs_status status = take_number(p, RS_RANK_MAX, "a number from 1 on", &node->first);
    if (status == RS_OK && !node->first)
        return rs_err_set(p->err, RS_INVALID,
                          "rank expression, column %zu: expected a number from 1 on, found 0",
                          start + 1);
    return status;
}

static const char atom_wanted[] =
    "a rank, \"all\", node=, dp=, tp=, pp=, ep=, cp=, one-per-node, every=, sample=, slowest=, \"!\" or \"(\"";

enum { WORD_BYTES = 16 };

/* The word at the parser's place, lower case letters and dashes; "" when there is none or it is no word of ours. */
static size_t peek_word(const struct parser *p, char word[WORD_BYTES])
{
    size_t length = 0;
    const char *at = &p->text[p->at];
    while (is_letter(at[length]) || is_digit(at[length]) || at[length] == '-' || at[length] == '_')
        length++;
    word[0] = '\0';
    if (length < WORD_BYTES) {
        memcpy(word, at, length);
        word[length] = '\0';
    }
    return length;
}

static enum rs_status parse_assigned(struct parser *p, struct expr_node *node)
{
    if (!take_char(p, '='))
        return expected(p, "\"=\"");
    if (node->kind == EXPR_NODE)
        return take_node_name(p, node);
    if (node->kind == EXPR_ROLE)
        return take_role_value(p, node);
    if (node->kind == EXPR_SAMPLE)
        return take_percent(p, node);
    return take_count(p, node);
}

static enum rs_status parse_atom(struct parser *p, uint32_t *index_p)
{
    static const struct {
        const char *name;
        enum expr_kind kind;
        bool is_assigned;
    } words[] = {
        {"all", EXPR_ALL, false},      {"one-per-node", EXPR_ONE_PER_NODE, false},
        {"node", EXPR_NODE, true},     {"every", EXPR_EVERY, true},
        {"sample", EXPR_SAMPLE, true}, {"slowest", EXPR_SLOWEST, true},
    };
    struct expr_node node = {.child = EXPR_NONE, .kind = EXPR_RANGE};
    enum rs_status status = RS_OK;
    skip_space(p);
    p->is_behind_value = false;
    if (is_digit(p->text[p->at])) {
        status = take_range(p, "a rank", &node);
        return status < 0 ? status : new_node(p, node, index_p);
    }
    char word[WORD_BYTES];
    const size_t length = peek_word(p, word);
    bool is_assigned = false, is_known = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && !is_known; i++)
        if ((is_known = strcmp(word, words[i].name) == 0)) {
            node.kind = words[i].kind;
            is_assigned = words[i].is_assigned;
        }
    for (int i = 0; i < RS_ROLE_COUNT && !is_known; i++)
        if ((is_known = strcmp(word, role_names[i]) == 0)) {
            node.kind = EXPR_ROLE;
            node.role = (enum rs_rank_role_kind)i;
            is_assigned = true;
        }
    if (!is_known)
        return expected(p, atom_wanted);
    p->at += length;
    if (is_assigned)
        status = parse_assigned(p, &node);
    p->is_behind_value = node.kind == EXPR_ROLE || node.kind == EXPR_NODE;
    return status < 0 ? status : new_node(p, node, index_p);
}

static enum rs_status parse_union(struct parser *p, uint32_t *index_p);

static enum rs_status parse_one(struct parser *p, uint32_t *index_p)
{
    skip_space(p);
    const size_t start = p->at;
    const char c = p->text[p->at];
    if (c != '!' && c != '(')
        return parse_atom(p, index_p);
    if (p->depth == RS_RANK_EXPR_MAX_DEPTH)
        return rs_err_set(
            p->err, RS_LIMIT,
            "rank expression, column %zu: more than %d \"(\" and \"!\" inside one another",
            start + 1, RS_RANK_EXPR_MAX_DEPTH);
    p->at++;
    p->depth++;
    enum rs_status status = c == '!' ? parse_one(p, index_p) : parse_union(p, index_p);
    p->depth--;
    if (status < 0)
        return status;
    if (c == '(') {
        p->is_behind_value = false;
        return take_char(p, ')') ? RS_OK
                                 : expected(p, "\")\" or an operator (\"|\", \",\", \"&\")");
    }
    const struct expr_node *inner = &p->expr->nodes[*index_p];
    if (inner->kind == EXPR_NOT) { /* !!x is x */
        *index_p = inner->child;
        return RS_OK;
    }
    return new_node(p, (struct expr_node){.kind = EXPR_NOT, .child = *index_p}, index_p);
}

/* Children as they come; the parent is made when there is a second one. */
struct family {
    enum expr_kind kind;
    uint32_t parent, last; /* EXPR_NONE: no parent yet, `last` is the only child */
};

static uint32_t last_sibling(const struct rs_rank_expr *expr, uint32_t index)
{
    while (expr->nodes[index].next != EXPR_NONE)
        index = expr->nodes[index].next;
    return index;
}

/* First and last of what `index` brings: its own children when it is of the family's kind. */
static enum rs_status adopt(struct parser *p, struct family *family, uint32_t index)
{
    struct rs_rank_expr *expr = p->expr;
    if (family->last == EXPR_NONE) {
        family->last = index;
        return RS_OK;
    }
    if (family->parent == EXPR_NONE) {
        const uint32_t only = family->last;
        const bool is_same = expr->nodes[only].kind == family->kind;
        if (is_same) {
            family->parent = only;
            family->last = last_sibling(expr, expr->nodes[only].child);
        } else {
            const enum rs_status status = new_node(
                p, (struct expr_node){.kind = family->kind, .child = only}, &family->parent);
            if (status < 0)
                return status;
        }
    }
    const uint32_t first =
        expr->nodes[index].kind == family->kind ? expr->nodes[index].child : index;
    expr->nodes[family->last].next = first;
    family->last = last_sibling(expr, first);
    return RS_OK;
}

static enum rs_status parse_both(struct parser *p, uint32_t *index_p)
{
    struct family family = {.kind = EXPR_BOTH, .parent = EXPR_NONE, .last = EXPR_NONE};
    do {
        uint32_t index = EXPR_NONE;
        enum rs_status status = parse_one(p, &index);
        if (status == RS_OK)
            status = adopt(p, &family, index);
        if (status < 0)
            return status;
    } while (take_char(p, '&'));
    *index_p = family.parent == EXPR_NONE ? family.last : family.parent;
    return RS_OK;
}

/* `tp=0,1`: reported, with both readings. */
static enum rs_status refuse_ambiguous(struct parser *p)
{
    skip_space(p);
    if (!is_digit(p->text[p->at]))
        return RS_OK;
    return rs_err_set(
        p->err, RS_INVALID,
        "rank expression, column %zu: a number behind a comma behind a value could be "
        "a rank or another value; expected \"tp=0 | 1\" for rank 1, or \"tp=0 | tp=1\"",
        p->at + 1);
}

static enum rs_status parse_union(struct parser *p, uint32_t *index_p)
{
    struct family family = {.kind = EXPR_UNION, .parent = EXPR_NONE, .last = EXPR_NONE};
    for (;;) {
        uint32_t index = EXPR_NONE;
        enum rs_status status = parse_both(p, &index);
        if (status == RS_OK)
            status = adopt(p, &family, index);
        if (status < 0)
            return status;
        const bool is_comma = take_char(p, ',');
        if (!is_comma && !take_char(p, '|'))
            break;
        if (is_comma && p->is_behind_value) {
            status = refuse_ambiguous(p);
            if (status < 0)
                return status;
        }
    }
    *index_p = family.parent == EXPR_NONE ? family.last : family.parent;
    return RS_OK;
}

static enum rs_status parse_whole(struct parser *p)
{
    enum rs_status status = parse_union(p, &p->expr->root);
    skip_space(p);
    if (status == RS_OK && p->text[p->at])
        status = expected(p, "an operator (\"|\", \",\", \"&\") or the end");
    return status;
}

enum rs_status rs_rank_expr_parse(const char *text, size_t length, struct rs_rank_expr **expr_p,
                                  struct rs_err *err)
{
    if (length > RS_RANK_EXPR_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "a rank expression has at most %d bytes",
                          RS_RANK_EXPR_MAX_BYTES);
    struct rs_rank_expr *expr = rs_mem_calloc(1, sizeof *expr);
    if (!expr)
        return rs_err_set(err, RS_NOMEM, "no memory for a rank expression");
    if (length)
        memcpy(expr->text, text, length);
    struct parser parser = {.expr = expr, .text = expr->text, .err = err};
    const char *nul = length ? memchr(text, '\0', length) : NULL;
    enum rs_status status =
        nul ? rs_err_set(err, RS_INVALID, "rank expression, column %zu: a NUL byte",
                         (size_t)(nul - text) + 1)
            : parse_whole(&parser);
    if (status < 0)
        rs_rank_expr_free(&expr);
    else
        *expr_p = expr;
    return status;
}

void rs_rank_expr_free(struct rs_rank_expr **expr_p)
{
    if (!*expr_p)
        return;
    rs_mem_free((*expr_p)->nodes);
    rs_mem_free(*expr_p);
    *expr_p = NULL;
}

bool rs_rank_expr_is_all(const struct rs_rank_expr *expr)
{
    const struct expr_node *root = &expr->nodes[expr->root];
    if (root->kind == EXPR_ALL)
        return true;
    if (root->kind != EXPR_UNION)
        return false;
    for (uint32_t i = root->child; i != EXPR_NONE; i = expr->nodes[i].next)
        if (expr->nodes[i].kind == EXPR_ALL)
            return true;
    return false;
}
