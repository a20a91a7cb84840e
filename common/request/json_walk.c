/* SPDX-License-Identifier: Apache-2.0 */
#include "common/request/json_walk.h"

#include <string.h>

void json_walk_init(struct json_walk *walk, const char *text, size_t length)
{
    *walk = (struct json_walk){.text = text, .length = length, .place = {.line = 1, .column = 1}};
}

static char peek(const struct json_walk *walk)
{
    if (walk->place.at < walk->length)
        return walk->text[walk->place.at];
    return '\0';
}

static void advance(struct json_walk *walk)
{
    if (walk->place.at >= walk->length)
        return;
    const unsigned char c = (unsigned char)walk->text[walk->place.at++];
    if (c == '\n') {
        walk->place.line++;
        walk->place.column = 1;
    } else if (walk->place.at >= walk->length ||
               ((unsigned char)walk->text[walk->place.at] & 0xc0) != 0x80) {
        walk->place.column++; /* the character's last byte */
    }
}

static void skip_blank(struct json_walk *walk, bool and_commas)
{
    for (;;) {
        const char c = peek(walk);
        if (walk->place.at >= walk->length ||
            !(c == ' ' || c == '\t' || c == '\r' || c == '\n' || (and_commas && c == ',')))
            return;
        advance(walk);
    }
}

static void skip_string(struct json_walk *walk)
{
    advance(walk);
    while (walk->place.at < walk->length && peek(walk) != '"') {
        if (peek(walk) == '\\')
            advance(walk);
        advance(walk);
    }
    advance(walk);
}

void json_walk_enter(struct json_walk *walk)
{
    skip_blank(walk, false);
    advance(walk);
}

bool json_walk_member(struct json_walk *walk, struct json_place *key_p)
{
    skip_blank(walk, true);
    *key_p = walk->place;
    if (peek(walk) != '"')
        return false;
    skip_string(walk);
    skip_blank(walk, false);
    advance(walk); /* the colon */
    skip_blank(walk, false);
    return true;
}

bool json_walk_element(struct json_walk *walk)
{
    skip_blank(walk, true);
    return walk->place.at < walk->length && peek(walk) != ']';
}

void json_walk_leave(struct json_walk *walk)
{
    skip_blank(walk, true);
    advance(walk);
}

static bool ends_scalar(char c)
{
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void json_walk_skip(struct json_walk *walk)
{
    size_t depth = 0;
    skip_blank(walk, false);
    do {
        const char c = peek(walk);
        if (c == '"') {
            skip_string(walk);
        } else if (c == '{' || c == '[') {
            depth++;
            advance(walk);
        } else if (depth && (c == '}' || c == ']')) {
            depth--;
            advance(walk);
        } else if (depth) {
            advance(walk);
        } else {
            while (walk->place.at < walk->length && !ends_scalar(peek(walk)))
                advance(walk);
        }
    } while (depth && walk->place.at < walk->length);
}
