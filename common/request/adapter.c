/* SPDX-License-Identifier: Apache-2.0 */
#include "common/request/adapter.h"

#include "common/request/request_priv.h"

#include <stdio.h>
#include <string.h>

_Static_assert(FIELD_COUNT <= 64 * RS_ADAPTER_HONOURS_WORDS, "a member has no bit");

static const struct {
    const char *name, *title;
    uint32_t capabilities;
    uint32_t activities;
} shipped[] = {
    [RS_PROFILER_NATIVE] = {"native", "librankscope",
                            RS_CAP_KNOWS_STEP | RS_CAP_PUSH | RS_CAP_DURATION |
                                RS_CAP_CANCEL_AFTER_DELIVERY | RS_CAP_SKIPS | RS_CAP_STEP_PARTS |
                                RS_CAP_TELLS_STEP,
                            0},
    [RS_PROFILER_KINETO] = {"kineto", "Kineto's on-demand trigger",
                            RS_CAP_POLLS | RS_CAP_STEP_ROUNDUP | RS_CAP_WALL_CLOCK |
                                RS_CAP_DURATION | RS_CAP_WRITES_FILES | RS_CAP_RECORDS_WARMUP |
                                RS_CAP_SHAPES_FOR_BYTES,
                            RS_ACTIVITY_CPU | RS_ACTIVITY_CUDA | RS_ACTIVITY_XPU |
                                RS_ACTIVITY_MTIA},
    [RS_PROFILER_ASCEND] = {"ascend", "torch_npu's dynamic_profile",
                            RS_CAP_KNOWS_STEP | RS_CAP_POLLS | RS_CAP_WRITES_FILES |
                                RS_CAP_RECORDS_WARMUP,
                            RS_ACTIVITY_CPU | RS_ACTIVITY_NPU},
    [RS_PROFILER_MINDSPORE] = {"mindspore", "MindSpore's monitor",
                               RS_CAP_KNOWS_STEP | RS_CAP_POLLS | RS_CAP_WRITES_FILES |
                                   RS_CAP_WHOLE_JOB | RS_CAP_NO_REPEAT,
                               RS_ACTIVITY_CPU | RS_ACTIVITY_NPU},
    [RS_PROFILER_IN_PROCESS] = {"in_process", "an in-process profiler", RS_CAP_KNOWS_STEP, 0},
};
enum { SHIPPED_COUNT = sizeof shipped / sizeof shipped[0] };

bool rs_adapter_known(uint32_t number, struct rs_adapter *adapter_p)
{
    *adapter_p = (struct rs_adapter){.number = number};
    if (number >= SHIPPED_COUNT)
        return false;
    adapter_p->capabilities = shipped[number].capabilities;
    (void)snprintf(adapter_p->name, sizeof adapter_p->name, "%s", shipped[number].name);
    (void)snprintf(adapter_p->title, sizeof adapter_p->title, "%s", shipped[number].title);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (request_fields[i].honoured_by & 1U << number)
            adapter_p->honours[i / 64] |= UINT64_C(1) << i % 64;
    return true;
}

uint32_t rs_adapter_activities(uint32_t number)
{
    return number < SHIPPED_COUNT ? shipped[number].activities : 0;
}

const char *rs_adapter_name(uint32_t number)
{
    return number < SHIPPED_COUNT ? shipped[number].name : "unknown";
}

/* SHIPPED_COUNT: none of ours. */
static uint32_t number_of(const char *name, size_t length)
{
    uint32_t number = 0;
    while (number < SHIPPED_COUNT &&
           (strncmp(shipped[number].name, name, length) != 0 || shipped[number].name[length]))
        number++;
    return number;
}

uint32_t rs_adapter_capabilities_of(const char *names)
{
    uint32_t capabilities = 0;
    while (*names) {
        const size_t length = strcspn(names, "+");
        const uint32_t number = number_of(names, length);
        capabilities |= number < SHIPPED_COUNT ? shipped[number].capabilities : 0;
        names += length + (names[length] == '+');
    }
    return capabilities;
}

void rs_adapter_add_name(const char *name, char *names, size_t bytes)
{
    const size_t length = strlen(name);
    const size_t used = strlen(names);
    const uint32_t number = number_of(name, length);
    size_t at = 0;
    size_t before = SIZE_MAX; /* where the first of a higher number stands */
    if (!length)
        return;
    while (at < used) {
        const size_t one = strcspn(names + at, "+");
        if (one == length && strncmp(names + at, name, length) == 0)
            return;
        if (before == SIZE_MAX && number_of(names + at, one) > number)
            before = at;
        at += one + (names[at + one] == '+');
    }
    if (used + length + 2 > bytes)
        return;
    if (before == SIZE_MAX) {
        (void)snprintf(names + used, bytes - used, "%s%s", used ? "+" : "", name);
        return;
    }
    memmove(names + before + length + 1, names + before, used - before + 1);
    memcpy(names + before, name, length);
    names[before + length] = '+';
}

bool rs_adapter_is_name(const char *name)
{
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return length > 0 && length < RS_ADAPTER_NAME_BYTES && !name[length];
}

bool rs_adapter_honours(const struct rs_adapter *adapter, size_t member)
{
    return member < FIELD_COUNT && (adapter->honours[member / 64] >> member % 64 & 1);
}

void rs_adapter_add_honoured(struct rs_adapter *adapter, const char *member)
{
    char name[RS_REQUEST_MEMBER_BYTES];
    for (size_t i = 0; rs_request_member(i, name); i++)
        if (strcmp(name, member) == 0)
            adapter->honours[i / 64] |= UINT64_C(1) << i % 64;
}
