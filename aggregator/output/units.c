/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates and ratios as text, and numbers for people. Exact decimals of ns and bytes: aggregator/model.
 */
#include "aggregator/output/output_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void cut_zeros(char *text)
{
    size_t length = strlen(text);
    if (!strchr(text, '.'))
        return;
    while (length && text[length - 1] == '0')
        text[--length] = '\0';
    if (length && text[length - 1] == '.')
        text[--length] = '\0';
    if (strcmp(text, "-0") == 0)
        memcpy(text, "0", 2);
}

static void four_decimals(char text[UNIT_TEXT_BYTES], double value)
{
    (void)snprintf(text, UNIT_TEXT_BYTES, "%.4f", value);
    cut_zeros(text);
}

void unit_gb_per_s(char text[UNIT_TEXT_BYTES], int64_t bytes, rs_dur time)
{
    four_decimals(text, (double)bytes / (double)time); /* bytes/ns = 10^9 bytes/s */
}

void unit_ratio(char text[UNIT_TEXT_BYTES], rs_dur part, rs_dur rest)
{
    const double whole = (double)part + (double)rest;
    four_decimals(text, whole > 0 ? (double)part / whole : 0);
}

/* Three digits: 1.23, 12.3, 123. */
static void three_digits(char text[UNIT_TEXT_BYTES], double value, const char *unit)
{
    const double size = value < 0 ? -value : value;
    const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    (void)snprintf(text, UNIT_TEXT_BYTES, "%.*f %s", decimals, value, unit);
}

void unit_people_time(char text[UNIT_TEXT_BYTES], int64_t ns)
{
    const double size = ns < 0 ? -(double)ns : (double)ns;
    if (size < 1000)
        (void)snprintf(text, UNIT_TEXT_BYTES, "%d ns", (int)ns);
    else if (size < 999.5e3)
        three_digits(text, (double)ns / 1e3, "us");
    else if (size < 999.5e6)
        three_digits(text, (double)ns / 1e6, "ms");
    else
        three_digits(text, (double)ns / 1e9, "s");
}

void unit_people_bytes(char text[UNIT_TEXT_BYTES], int64_t bytes)
{
    const double size = (double)bytes;
    if (bytes < 1000)
        (void)snprintf(text, UNIT_TEXT_BYTES, "%d B", (int)bytes);
    else if (size < 999.5e3)
        three_digits(text, size / 1e3, "kB");
    else if (size < 999.5e6)
        three_digits(text, size / 1e6, "MB");
    else if (size < 999.5e9)
        three_digits(text, size / 1e9, "GB");
    else
        three_digits(text, size / 1e12, "TB");
}

void unit_people_rate(char text[UNIT_TEXT_BYTES], double bytes_per_s)
{
    const double rate = bytes_per_s / 1e9;
    if (rate < 0.9995)
        (void)snprintf(text, UNIT_TEXT_BYTES, "%.*f GB/s", rate < 0.00995 ? 5 : 3, rate);
    else
        three_digits(text, rate, "GB/s");
}
