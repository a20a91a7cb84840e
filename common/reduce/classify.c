/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/classify.h"

#include "common/reduce/classes.h"

#include <string.h>

enum where { STARTS, CONTAINS };

struct family {
    const char *text;
    size_t length;
    enum where where;
    enum rs_work_class work_class;
};

struct word {
    const char *text;
    enum rs_op_type type;
};

static const struct family families[] = {
#define FAMILY(where, text, work_class) {text, sizeof(text) - 1, where, RS_WORK_##work_class},
#include "common/reduce/comm_names.def"
};

static const struct word words[] = {
#define WORD(text, type) {text, RS_OP_##type},
#include "common/reduce/comm_names.def"
};

const char *rs_work_class_text(enum rs_work_class work_class)
{
    switch (work_class) {
    case RS_WORK_NONE:
        return "none";
    case RS_WORK_COMPUTING:
        return "computing";
    case RS_WORK_COMMUNICATION:
        return "communication";
    case RS_WORK_MEMORY:
        return "memory";
    case RS_WORK_WAITING:
        return "waiting";
    }
    return "?";
}

static bool starts_with(const char *name, size_t length, const char *text)
{
    const size_t text_length = strlen(text);
    return length >= text_length && memcmp(name, text, text_length) == 0;
}

enum { NAME_BYTES = 512 };

/*
 * Where the '<' of template arguments is closed: behind its '>', or `end` when it is not. What stands in parentheses is
 * an expression, in which '>' compares: "gemm<(N > 4), 2>". "->" closes nothing.
 */
static const char *skip_template(const char *at, const char *end)
{
    size_t depth = 0, parentheses = 0;
    for (; at < end; at++) {
        if (*at == '(')
            parentheses++;
        else if (*at == ')')
            parentheses -= parentheses > 0;
        else if (*at == '<' && !parentheses)
            depth++;
        else if (*at == '>' && !parentheses && at[-1] != '-' && --depth == 0)
            return at + 1;
    }
    return end;
}

/* Of an operator's name that holds '<' or '>', its length; 0 for others ("operator()" ends like every name). */
static size_t operator_length(const char *name, size_t length)
{
    static const char word[] = "operator";
    static const char *const signs[] = {"<=>", "<<=", ">>=", "<<", ">>",
                                        "<=",  ">=",  "->",  "<",  ">"};
    const size_t count = sizeof word - 1;
    if (!starts_with(name, length, word))
        return 0;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (starts_with(name + count, length - count, signs[i]))
            return count + strlen(signs[i]);
    }
    return 0;
}

/* A function's name without what it is made for: template arguments, and all from its argument list on
 * ("(anonymous namespace)" is none). What stands there would name other things: a copy kernel made for
 * an nvshmem type is no communication. */
static size_t bare_name(const char *name, size_t length, char out[NAME_BYTES])
{
    const char *const end = name + length;
    size_t count = 0;
    for (const char *at = name; at < end && count < NAME_BYTES;) {
        const size_t left = (size_t)(end - at);
        size_t taken = operator_length(at, left);
        if (!taken && *at == '<') {
            at = skip_template(at, end);
            continue;
        }
        if (*at == '(' && !starts_with(at, left, "(anonymous"))
            break;
        for (taken = taken ? taken : 1; taken && count < NAME_BYTES; taken--)
            out[count++] = *at++;
    }
    return count;
}

/* The same without a leading "void ", which templates' names have. */
static const char *called_name(const char *name, size_t length, char text[NAME_BYTES],
                               size_t *count_p)
{
    *count_p = bare_name(name, length, text);
    if (!starts_with(text, *count_p, "void "))
        return text;
    *count_p -= 5;
    return text + 5;
}

enum rs_work_class rs_classify_kernel(const char *name, size_t length)
{
    char text[NAME_BYTES];
    size_t count;
    const char *bare = called_name(name, length, text, &count);
    enum rs_work_class own;
    enum rs_op_type type;
    if (rs_classes_find(bare, count, &own, &type))
        return own;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family *family = &families[i];
        const bool fits = family->where == STARTS
                              ? starts_with(bare, count, family->text)
                              : memmem(bare, count, family->text, family->length) != NULL;
        if (fits)
            return family->work_class;
    }
    return RS_WORK_COMPUTING;
}

/* Lower case letters and digits only; `text` may hold `name`. */
static size_t keep_alphanumeric(char text[NAME_BYTES], const char *name, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        const char c = name[i];
        if (c >= 'A' && c <= 'Z')
            text[count++] = (char)(c - 'A' + 'a');
        else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            text[count++] = c;
    }
    return count;
}

enum rs_op_type rs_op_type_of_name(const char *name, size_t length)
{
    char text[NAME_BYTES];
    size_t count;
    const char *bare = called_name(name, length, text, &count);
    enum rs_work_class own;
    enum rs_op_type type;
    if (rs_classes_find(bare, count, &own, &type) && type != RS_OP_UNKNOWN)
        return type;
    count = keep_alphanumeric(text, bare, count);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (memmem(text, count, words[i].text, strlen(words[i].text)))
            return words[i].type;
    }
    return RS_OP_UNKNOWN;
}

enum rs_op_type rs_op_type_of_text(const char *text, size_t length)
{
    for (int type = 0; type < RS_OP_TYPE_COUNT; type++) {
        const char *known = rs_op_type_text((enum rs_op_type)type);
        if (strlen(known) == length && memcmp(known, text, length) == 0)
            return (enum rs_op_type)type;
    }
    return rs_op_type_of_name(text, length);
}

enum rs_host_name rs_classify_host(const char *name, size_t length)
{
    static const char *const annotations[] = {"nccl:", "rccl:", "hccl:", "xccl:", "ucc:", "mpi:"};
    if (!length)
        return RS_HOST_PLAIN;
    if (starts_with(name, length, "ProfilerStep#"))
        return RS_HOST_PROFILER_STEP;
    if (starts_with(name, length, "Optimizer.step#"))
        return RS_HOST_OPTIMIZER_STEP;
    if (starts_with(name, length, "gloo:"))
        return RS_HOST_GLOO;
    if (starts_with(name, length, "c10d::"))
        return rs_op_type_of_name(name + 6, length - 6) == RS_OP_UNKNOWN ? RS_HOST_CALL_OTHER
                                                                         : RS_HOST_CALL;
    if (starts_with(name, length, "_c10d_functional::") ||
        starts_with(name, length, "c10d_functional::"))
        return RS_HOST_CALL_OTHER;
    if (length == 18 && memcmp(name, "record_param_comms", 18) == 0)
        return RS_HOST_PARAM_COMMS;
    for (size_t i = 0; i < sizeof annotations / sizeof *annotations; i++) {
        if (starts_with(name, length, annotations[i]))
            return RS_HOST_ANNOTATION;
    }
    return RS_HOST_PLAIN;
}

bool rs_classify_is_wait(const char *name, size_t length)
{
    static const char *const copies[] = {"cudaMemcpy", "hipMemcpy", "cuMemcpy"};
    if (memmem(name, length, "Synchronize", 11))
        return true;
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        if (starts_with(name, length, copies[i]))
            return !memmem(name, length, "Async", 5);
    }
    return false;
}

bool rs_classify_is_stream_wait(const char *name, size_t length)
{
    return memmem(name, length, "StreamWaitEvent", 15) != NULL;
}

bool rs_profiler_step_number(const char *name, size_t length, int64_t *number_p)
{
    const size_t prefix = sizeof "ProfilerStep#" - 1;
    if (length <= prefix || length > prefix + 18 || !starts_with(name, length, "ProfilerStep#"))
        return false;
    int64_t number = 0;
    for (size_t i = prefix; i < length; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        number = number * 10 + (name[i] - '0');
    }
    *number_p = number;
    return true;
}
