/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of other tools: named, so that nobody takes them for empty. */
#include "collector/source/discover_priv.h"

#include <string.h>

/* All words of one line are there, none of `without`. */
struct mark {
    const char *what;
    char opens_with; /* 0: anything */
    const char *words[3];
    const char *without;
};

static const struct mark marks[] = {
    {"an execution trace of PyTorch (Chakra)", '{', {"\"nodes\"", "\"schema\""}, "\"traceEvents\""},
    {"a memory snapshot of PyTorch", '{', {"\"device_traces\"", "\"segments\""}, "\"traceEvents\""},
    {"a trace of JAX, TensorFlow or XProf",
     '{',
     {"\"traceEvents\"", "\"/device:"},
     "\"schemaVersion\""},
    {"a trace of JAX, TensorFlow or XProf",
     '{',
     {"\"traceEvents\"", "\"/host:CPU\""},
     "\"schemaVersion\""},
    {"a timeline of TensorFlow", '{', {"\"traceEvents\"", "/job:localhost/"}, "\"schemaVersion\""},
    {"a trace of JAX, TensorFlow or XProf",
     '{',
     {"\"highres-ticks\"", "\"traceEvents\""},
     "\"schemaVersion\""},
    {"a trace of Perfetto", '{', {"\"traceEvents\"", "\"trace-config\""}, "\"schemaVersion\""},
    {"a trace of Perfetto", '{', {"\"traceEvents\"", "\"systemTraceEvents\""}, "\"schemaVersion\""},
    {"a trace of Perfetto", '{', {"\"traceEvents\"", "\"clock-domain\""}, "\"schemaVersion\""},
    {"an export of Nsight Systems", '{', {"\"CudaEvent\""}, "\"traceEvents\""},
    {"an export of Nsight Systems", '{', {"\"TraceProcessEvent\""}, "\"traceEvents\""},
    {"an export of Nsight Systems", '{', {"\"StringTable\"", "\"ThreadNames\""}, "\"traceEvents\""},
    {"an export of Nsight Systems", '[', {"\"Start (ns)\"", "\"Duration (ns)\""}, "\"ph\""},
};

static bool has(const char *text, size_t length, const char *word)
{
    return memmem(text, length, word, strlen(word)) != NULL;
}

/* Lists of numbers in lists, nothing named: [[times], [[sizes], ...]] and the raw form [[time, action, ...], ...]. */
static bool is_memory_timeline(const char *text, size_t length)
{
    size_t at = 0, depth = 0;
    for (; at < length && at < 64; at++) {
        if (text[at] == '[')
            depth++;
        else if (text[at] != ' ' && text[at] != '\n' && text[at] != '\r' && text[at] != '\t')
            break;
    }
    return depth >= 2 && at < length && text[at] >= '0' && text[at] <= '9';
}

const char *foreign_profile(const char *text, size_t length)
{
    static const char sqlite[] = "SQLite format 3";
    if (length >= sizeof sqlite && memcmp(text, sqlite, sizeof sqlite) == 0 &&
        has(text, length, "CUPTI_ACTIVITY_KIND"))
        return "an export of Nsight Systems";
    if (is_memory_timeline(text, length))
        return "a memory timeline of PyTorch";
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const struct mark *mark = &marks[i];
        bool fits = *text == mark->opens_with && !has(text, length, mark->without);
        for (size_t k = 0; fits && k < 3 && mark->words[k]; k++)
            fits = has(text, length, mark->words[k]);
        if (fits)
            return mark->what;
    }
    return NULL;
}
