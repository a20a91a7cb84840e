/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/classes.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <string.h>

struct line {
    char text[RS_CLASSES_TEXT_MAX + 1];
    size_t length;
    bool is_start; /* the name starts with it; else it contains it */
    enum rs_work_class work_class;
    enum rs_op_type type;
};

/* Written before threads are, read by all. */
static struct {
    struct line *lines;
    size_t count, capacity;
} table;

enum { WORDS_MAX = 4 };

/* Words of a line up to its comment; WORDS_MAX + 1 when there are more than that. */
static size_t split(char *at, char *words[WORDS_MAX])
{
    static const char blanks[] = " \t\r";
    size_t count = 0;
    at[strcspn(at, "#")] = '\0';
    for (at += strspn(at, blanks); *at; at += strspn(at, blanks)) {
        if (count == WORDS_MAX)
            return WORDS_MAX + 1;
        words[count++] = at;
        at += strcspn(at, blanks);
        if (*at)
            *at++ = '\0';
    }
    return count;
}

static bool find_class(const char *word, enum rs_work_class *class_p)
{
    static const enum rs_work_class known[] = {RS_WORK_COMPUTING, RS_WORK_COMMUNICATION,
                                               RS_WORK_MEMORY, RS_WORK_WAITING};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(word, rs_work_class_text(known[i])) == 0) {
            *class_p = known[i];
            return true;
        }
    }
    return false;
}

static bool find_type(const char *word, enum rs_op_type *type_p)
{
    for (int type = 0; type < RS_OP_TYPE_COUNT; type++) {
        if (strcmp(word, rs_op_type_text((enum rs_op_type)type)) == 0) {
            *type_p = (enum rs_op_type)type;
            return true;
        }
    }
    return false;
}

/* What is wrong with a line; NULL: nothing. */
static const char *read_line(char *const words[WORDS_MAX], size_t count, struct line *line)
{
    *line = (struct line){.type = RS_OP_UNKNOWN};
    if (count < 3 || count > WORDS_MAX)
        return "expected: class, where, text, and for communication the type of operation";
    if (!find_class(words[0], &line->work_class))
        return "the class is computing, communication, memory or waiting";
    line->is_start = strcmp(words[1], "starts") == 0;
    if (!line->is_start && strcmp(words[1], "contains") != 0)
        return "where is starts or contains";
    line->length = strlen(words[2]);
    if (line->length > RS_CLASSES_TEXT_MAX)
        return "the text is longer than 200 bytes";
    memcpy(line->text, words[2], line->length + 1);
    if (count == 4 && line->work_class != RS_WORK_COMMUNICATION)
        return "only communication has a type";
    if (count == 4 && !find_type(words[3], &line->type))
        return "there is no such type of operation (all_reduce, all_gather, reduce_scatter, "
               "all_to_all, broadcast, reduce, gather, scatter, send, recv, send_recv, barrier)";
    return NULL;
}

static enum rs_status add(const struct line *line)
{
    enum rs_status status =
        rs_mem_grow((void **)&table.lines, &table.capacity, table.count + 1, sizeof *table.lines);
    if (status == RS_OK)
        table.lines[table.count++] = *line;
    return status;
}

static enum rs_status read_all(const char *path, char *text, size_t length, struct rs_err *err)
{
    size_t number = 0;
    if (memchr(text, '\0', length))
        return rs_err_set(err, RS_INVALID, "%s: is no text", path);
    for (char *at = text, *next = NULL; at; at = next) {
        char *words[WORDS_MAX] = {0};
        struct line line;
        number++;
        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        const size_t count = split(at, words);
        if (!count)
            continue;
        const char *wrong = read_line(words, count, &line);
        if (wrong)
            return rs_err_set(err, RS_INVALID, "%s:%zu: %s", path, number, wrong);
        if (table.count == RS_CLASSES_MAX)
            return rs_err_set(err, RS_INVALID, "%s:%zu: more than %d lines", path, number,
                              RS_CLASSES_MAX);
        if (add(&line) != RS_OK)
            return rs_err_set(err, RS_NOMEM, "no memory for the classes in %s", path);
    }
    return RS_OK;
}

enum rs_status rs_classes_load(const char *path, struct rs_err *err)
{
    rs_classes_forget();
    if (!path)
        return RS_OK;
    struct rs_buf buf = {0};
    enum rs_status status = rs_file_read_regular(path, RS_CLASSES_FILE_MAX, &buf, err);
    const size_t length = buf.length;
    rs_buf_u8(&buf, 0);
    if (status == RS_OK && buf.failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to read %s", path);
    if (status == RS_OK)
        status = read_all(path, (char *)buf.data, length, err);
    rs_buf_fini(&buf);
    if (status != RS_OK)
        rs_classes_forget();
    return status;
}

void rs_classes_forget(void)
{
    rs_mem_free(table.lines);
    table.lines = NULL;
    table.count = table.capacity = 0;
}

bool rs_classes_find(const char *bare, size_t length, enum rs_work_class *class_p,
                     enum rs_op_type *type_p)
{
    for (size_t i = 0; i < table.count; i++) {
        const struct line *line = &table.lines[i];
        const bool fits =
            line->is_start ? length >= line->length && memcmp(bare, line->text, line->length) == 0
                           : memmem(bare, length, line->text, line->length) != NULL;
        if (fits) {
            *class_p = line->work_class;
            *type_p = line->type;
            return true;
        }
    }
    return false;
}
