/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/analysis/vendor_values.h"

#include <string.h>

bool rs_vendor_has_digits(const rs_str *digits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (digits[i] != RS_STR_NONE && digits[i] != RS_STR_EMPTY)
            return true;
    return false;
}

bool rs_vendor_has_steps(const struct rs_summary *summary)
{
    const struct rs_provenance *vendor = summary->trace.vendor;
    return vendor && vendor->step_count &&
           rs_vendor_has_digits(vendor->steps[0].digits, RS_VENDOR_STEP_FIELDS);
}

static const char *skip_digits(const char *at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

/* JSON's grammar of numbers. */
static bool is_number(const char *text)
{
    text += *text == '-';
    if (*text < '0' || *text > '9')
        return false;
    text = *text == '0' ? text + 1 : skip_digits(text);
    if (*text == '.') {
        if (text[1] < '0' || text[1] > '9')
            return false;
        text = skip_digits(text + 1);
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        if (*text < '0' || *text > '9')
            return false;
        text = skip_digits(text);
    }
    return !*text;
}

const char *rs_vendor_digits(const struct rs_summary *summary, rs_str id)
{
    if (id == RS_STR_NONE)
        return NULL;
    const char *text = rs_strtab_text(&summary->strings, id);
    return is_number(text) ? text : NULL;
}

const char *rs_vendor_text(const struct rs_summary *summary, rs_str id)
{
    return id == RS_STR_NONE ? "" : rs_strtab_text(&summary->strings, id);
}

int64_t rs_vendor_device(const struct rs_summary *summary, const struct rs_vendor_step *step)
{
    if (step->device >= 0)
        return step->device;
    int64_t device = summary->step_count ? summary->steps[0].device : -1;
    for (size_t i = 1; i < summary->step_count; i++)
        if (summary->steps[i].device != device)
            device = -1;
    return device;
}

int64_t rs_vendor_step_number(const char *text)
{
    int64_t number = 0;
    if (strncmp(text, "step", 4) == 0)
        text += 4;
    if (!*text || strlen(text) > 18)
        return RS_STEP_NONE;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (*text - '0');
    return *text ? RS_STEP_NONE : number;
}
