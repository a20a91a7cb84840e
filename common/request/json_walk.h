/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where things stand in a JSON text: line, column and byte, which jansson tells for broken texts only.
 *
 * A walk goes over a text that was parsed without complaint, in step with the tree: members come
 * in the order of the text in both. On any other text it stays within its bounds and says nothing useful. Lines and
 * columns count from 1; a column is a character, not a byte.
 */
#ifndef RS_REQUEST_JSON_WALK_H
#define RS_REQUEST_JSON_WALK_H

#include <stdbool.h>
#include <stddef.h>

struct json_place {
    unsigned line, column; /* line 0: nowhere */
    size_t at;             /* byte */
};

struct json_walk {
    const char *text;
    size_t length;
    struct json_place place;
};

void json_walk_init(struct json_walk *walk, const char *text, size_t length);
/* At a value: past the "{" or "[" it starts with. */
void json_walk_enter(struct json_walk *walk);
/* Inside an object: the place of the next key, and on to its value. False: at its end. */
bool json_walk_member(struct json_walk *walk, struct json_place *key_p);
/* Inside an array: on to the next element. False: at its end. */
bool json_walk_element(struct json_walk *walk);
/* At a value: past it. */
void json_walk_skip(struct json_walk *walk);
/* Inside an object or array, behind its last: past its end. */
void json_walk_leave(struct json_walk *walk);

#endif
