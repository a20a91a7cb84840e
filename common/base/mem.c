/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/mem.h"

#include "common/base/counters.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static rs_mem_gate_fn *allocation_gate;

void rs_mem_set_gate(rs_mem_gate_fn *gate)
{
    allocation_gate = gate;
}

static bool may_allocate(void)
{
    return !allocation_gate || allocation_gate();
}

static void *counted(void *memory)
{
    if (!memory)
        rs_count(RS_COUNT_MEM_FAILED, 1);
    return memory;
}

void *rs_mem_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !may_allocate())
        return NULL;
    return counted(calloc(count ? count : 1, size ? size : 1));
}

void *rs_mem_realloc(void *memory, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !may_allocate())
        return NULL;
    return counted(realloc(memory, bytes ? bytes : 1));
}

void rs_mem_free(void *memory)
{
    free(memory);
}

char *rs_mem_strndup(const char *text, size_t length)
{
    if (length == SIZE_MAX || !may_allocate())
        return NULL;
    char *copy = counted(malloc(length + 1));
    if (!copy)
        return NULL;
    if (length)
        memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *rs_mem_strdup(const char *text)
{
    return rs_mem_strndup(text, strlen(text));
}

enum rs_status rs_mem_grow(void **array_p, size_t *capacity_p, size_t need, size_t element_bytes)
{
    if (need <= *capacity_p)
        return RS_OK;
    size_t capacity = *capacity_p ? *capacity_p : 8;
    while (capacity < need) {
        if (capacity > SIZE_MAX / 2)
            return RS_NOMEM;
        capacity *= 2;
    }
    void *grown = rs_mem_realloc(*array_p, capacity, element_bytes);
    if (!grown)
        return RS_NOMEM;
    *array_p = grown;
    *capacity_p = capacity;
    return RS_OK;
}
