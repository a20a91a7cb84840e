/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/host_samples.h"

#include "common/base/file.h"
#include "common/base/mem.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROC_BYTES = 64 << 10, BATCH_ROWS = 512 };

/* Order of the values of a sample. */
enum value {
    CPU,
    MEMORY,
    SWAP,
    DISK_READ,
    DISK_WRITE,
    NETWORK_RECEIVE,
    NETWORK_TRANSMIT,
    VALUE_COUNT,
};

static const struct {
    uint32_t of; /* enum rs_host_sys */
    const char *name;
    bool is_rate; /* what is read grows: the value is how much in a second */
} kinds[VALUE_COUNT] = {
    [CPU] = {RS_HOST_SYS_CPU, "process CPU %", true},
    [MEMORY] = {RS_HOST_SYS_MEM, "process memory bytes", false},
    [SWAP] = {RS_HOST_SYS_MEM, "process swap bytes", false},
    [DISK_READ] = {RS_HOST_SYS_DISK, "process disk read B/s", true},
    [DISK_WRITE] = {RS_HOST_SYS_DISK, "process disk write B/s", true},
    [NETWORK_RECEIVE] = {RS_HOST_SYS_NETWORK, "host network receive B/s", true},
    [NETWORK_TRANSMIT] = {RS_HOST_SYS_NETWORK, "host network transmit B/s", true},
};

/* UNKNOWN where nothing could be read. */
struct sample {
    rs_ns at; /* Unix */
    int64_t values[VALUE_COUNT];
};
static const int64_t UNKNOWN = INT64_MIN;

struct rs_host_samples {
    int64_t pid;
    struct rs_host_plan plan;
    bool is_closed; /* read back from a file: takes no more */
    rs_ns due_at;   /* monotonic */
    bool has_before;
    rs_ns before_at;             /* monotonic */
    int64_t before[VALUE_COUNT]; /* as read */
    const char *why;             /* static */
    struct sample *held;         /* a ring of the newest */
    size_t first, count, capacity;
};

struct rs_host_plan rs_host_plan_of(const Rankscope__CaptureRequest *request)
{
    const uint32_t sampled =
        RS_HOST_SYS_CPU | RS_HOST_SYS_MEM | RS_HOST_SYS_DISK | RS_HOST_SYS_NETWORK;
    struct rs_host_plan plan = {0};
    if (!request || !request->experimental)
        return plan;
    plan.set = request->experimental->host_sys & sampled;
    plan.hz = request->sample_hz < 1 ? 1 : request->sample_hz > 100 ? 100 : request->sample_hz;
    return plan;
}

enum rs_status rs_host_samples_new(int64_t pid, struct rs_host_plan plan,
                                   struct rs_host_samples **samples_p)
{
    struct rs_host_samples *samples = rs_mem_calloc(1, sizeof *samples);
    if (!samples)
        return RS_NOMEM;
    samples->pid = pid;
    samples->plan = plan;
    samples->why = "";
    *samples_p = samples;
    return RS_OK;
}

void rs_host_samples_free(struct rs_host_samples **samples_p)
{
    struct rs_host_samples *samples = *samples_p;
    *samples_p = NULL;
    if (samples)
        rs_mem_free(samples->held);
    rs_mem_free(samples);
}

const char *rs_host_samples_why(const struct rs_host_samples *samples)
{
    return samples->why;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static bool read_proc(const struct rs_host_samples *samples, const char *name, struct rs_buf *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/%s", samples->pid, name);
    return rs_file_read(path, PROC_BYTES, text, NULL) == RS_OK;
}

/* The number behind "NAME:" at the beginning of a line; UNKNOWN: there is none. */
static int64_t number_of(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            return strtoll(line + length + 1, NULL, 10);
    }
    return UNKNOWN;
}

/* CPU time of all its threads so far, ns: the kernel's clock of a process may be read by anybody. */
static void read_cpu(const struct rs_host_samples *samples, int64_t read[VALUE_COUNT])
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid((pid_t)samples->pid, &clock) == 0 && clock_gettime(clock, &time) == 0)
        read[CPU] = time.tv_sec * (int64_t)RS_NS_PER_S + time.tv_nsec;
}

static void read_memory(const struct rs_host_samples *samples, int64_t read[VALUE_COUNT])
{
    struct rs_buf text = {0};
    if (read_proc(samples, "status", &text)) {
        const int64_t resident = number_of(rs_buf_text(&text), "VmRSS");
        const int64_t swapped = number_of(rs_buf_text(&text), "VmSwap");
        read[MEMORY] = resident >= 0 ? resident * 1024 : UNKNOWN; /* the kernel's kB are KiB */
        read[SWAP] = swapped >= 0 ? swapped * 1024 : UNKNOWN;
    }
    rs_buf_fini(&text);
}

static void read_disk(struct rs_host_samples *samples, int64_t read[VALUE_COUNT])
{
    struct rs_buf text = {0};
    if (read_proc(samples, "io", &text)) {
        read[DISK_READ] = number_of(rs_buf_text(&text), "read_bytes");
        read[DISK_WRITE] = number_of(rs_buf_text(&text), "write_bytes");
    } else {
        samples->why = "host_sys disk: only root, or its user, may read what it reads and writes "
                       "(/proc/PID/io); there are no values of it";
    }
    rs_buf_fini(&text);
}

/* "  eth0: RECEIVED 7 more TRANSMITTED ..." of every interface but loopback. */
static void read_network(const struct rs_host_samples *samples, int64_t read[VALUE_COUNT])
{
    struct rs_buf text = {0};
    if (!read_proc(samples, "net/dev", &text)) {
        rs_buf_fini(&text);
        return;
    }
    read[NETWORK_RECEIVE] = read[NETWORK_TRANSMIT] = 0;
    for (const char *line = rs_buf_text(&text); line; line = strchr(line, '\n')) {
        line += *line == '\n';
        while (*line == ' ')
            line++;
        const char *colon = strchr(line, ':');
        const char *end = strchr(line, '\n');
        if (!colon || (end && colon > end) || strncmp(line, "lo:", 3) == 0)
            continue;
        char *at = NULL;
        read[NETWORK_RECEIVE] += (int64_t)strtoull(colon + 1, &at, 10);
        uint64_t number = 0;
        for (int field = 0; field < 8; field++) /* the ninth */
            number = strtoull(at, &at, 10);
        read[NETWORK_TRANSMIT] += (int64_t)number;
    }
    rs_buf_fini(&text);
}

/* ---- a sample ------------------------------------------------------------------------------------------------- */

/* What is read is a sum since some beginning; a smaller one than before is of another process, or an interface went. */
static int64_t rate(enum value value, int64_t now, int64_t before, rs_dur stretch)
{
    if (now == UNKNOWN || before == UNKNOWN || now < before || stretch <= 0)
        return UNKNOWN;
    const double in_a_second = (double)(now - before) * 1e9 / (double)stretch;
    return (int64_t)(value == CPU ? in_a_second / 1e7 + 0.5 : in_a_second + 0.5); /* ns/s: % */
}

static struct sample *new_sample(struct rs_host_samples *samples)
{
    if (samples->count == RS_HOST_SAMPLES_MAX) { /* the oldest goes */
        samples->first = (samples->first + 1) % RS_HOST_SAMPLES_MAX;
        samples->count--;
    } else if (rs_mem_grow((void **)&samples->held, &samples->capacity, samples->count + 1,
                           sizeof *samples->held) < 0) {
        return NULL;
    }
    /* It has turned only when it is as long as it will be. */
    return &samples->held[(samples->first + samples->count++) % RS_HOST_SAMPLES_MAX];
}

void rs_host_samples_look(struct rs_host_samples *samples)
{
    const rs_ns now = rs_time_monotonic();
    if (!samples->plan.set || samples->is_closed || now < samples->due_at)
        return;
    samples->due_at = now + RS_NS_PER_S / samples->plan.hz;
    int64_t read[VALUE_COUNT];
    for (size_t i = 0; i < VALUE_COUNT; i++)
        read[i] = UNKNOWN;
    if (samples->plan.set & RS_HOST_SYS_CPU)
        read_cpu(samples, read);
    if (samples->plan.set & RS_HOST_SYS_MEM)
        read_memory(samples, read);
    if (samples->plan.set & RS_HOST_SYS_DISK)
        read_disk(samples, read);
    if (samples->plan.set & RS_HOST_SYS_NETWORK)
        read_network(samples, read);
    struct sample *sample = new_sample(samples);
    if (!sample)
        return;
    sample->at = rs_time_realtime();
    for (size_t i = 0; i < VALUE_COUNT; i++)
        sample->values[i] = !kinds[i].is_rate     ? read[i]
                            : samples->has_before ? rate((enum value)i, read[i], samples->before[i],
                                                         now - samples->before_at)
                                                  : UNKNOWN;
    memcpy(samples->before, read, sizeof read);
    samples->before_at = now;
    samples->has_before = true;
}

/* ---- kept over a kill ------------------------------------------------------------------------------------------ */

/* Its first bytes; then the samples as they are held. */
struct head {
    char magic[8];
    int64_t pid;
    uint32_t set, values;
};
static const char magic[8] = "rs-host1";

enum rs_status rs_host_samples_save(const struct rs_host_samples *samples, const char *path,
                                    struct rs_err *err)
{
    struct head head = {.pid = samples->pid, .set = samples->plan.set, .values = VALUE_COUNT};
    struct rs_buf buf = {0};
    memcpy(head.magic, magic, sizeof head.magic);
    rs_buf_bytes(&buf, &head, sizeof head);
    for (size_t i = 0; i < samples->count; i++)
        rs_buf_bytes(&buf, &samples->held[(samples->first + i) % RS_HOST_SAMPLES_MAX],
                     sizeof *samples->held);
    const enum rs_status status = buf.failed
                                      ? rs_err_set(err, RS_NOMEM, "no memory for samples")
                                      : rs_file_replace(path, buf.data, buf.length, false, err);
    rs_buf_fini(&buf);
    return status;
}

static enum rs_status take_file(struct rs_host_samples *samples, const struct rs_buf *text,
                                const char *path, struct rs_err *err)
{
    struct head head;
    const size_t bytes = text->length > sizeof head ? text->length - sizeof head : 0;
    const size_t count = bytes / sizeof *samples->held;
    if (text->length >= sizeof head)
        memcpy(&head, text->data, sizeof head);
    if (text->length < sizeof head || memcmp(head.magic, magic, sizeof head.magic) != 0 ||
        head.values != VALUE_COUNT || count > RS_HOST_SAMPLES_MAX ||
        count * sizeof *samples->held != bytes)
        return rs_err_set(err, RS_FORMAT, "%s holds no samples", path);
    if (count &&
        rs_mem_grow((void **)&samples->held, &samples->capacity, count, sizeof *samples->held) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for samples");
    if (count)
        memcpy(samples->held, (const char *)text->data + sizeof head, bytes);
    samples->count = count;
    samples->pid = head.pid;
    samples->plan.set = head.set;
    samples->is_closed = true;
    return RS_OK;
}

enum rs_status rs_host_samples_load(const char *path, struct rs_host_samples **samples_p,
                                    struct rs_err *err)
{
    enum { LIMIT_BYTES = RS_HOST_SAMPLES_MAX * sizeof(struct sample) + sizeof(struct head) };
    struct rs_host_samples *samples = NULL;
    struct rs_buf text = {0};
    enum rs_status status = rs_file_read(path, LIMIT_BYTES, &text, err);
    if (status == RS_OK && rs_host_samples_new(0, (struct rs_host_plan){0}, &samples) < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for samples");
    if (status == RS_OK)
        status = take_file(samples, &text, path, err);
    if (status == RS_OK)
        *samples_p = samples;
    else
        rs_host_samples_free(&samples);
    rs_buf_fini(&text);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

struct emitting {
    struct rs_batch batch;
    struct rs_sink sink;
    rs_str category, names[VALUE_COUNT];
    uint32_t lane;
};

static enum rs_status hand_over(struct emitting *e, struct rs_err *err)
{
    const enum rs_status status =
        e->batch.count ? e->sink.batch(e->sink.self, &e->batch, err) : RS_OK;
    rs_batch_reset(&e->batch);
    return status;
}

static enum rs_status put_row(struct emitting *e, rs_ns at, size_t kind, int64_t value)
{
    char args[40];
    size_t row = 0;
    const int length = snprintf(args, sizeof args, "\"value\":%" PRId64, value);
    if (rs_batch_row(&e->batch, &row) < 0)
        return RS_NOMEM;
    e->batch.kind[row] = RS_KIND_COUNTER;
    e->batch.flags[row] = RS_EVENT_NO_END;
    e->batch.phase[row] = 'C';
    e->batch.category[row] = e->category;
    e->batch.name[row] = e->names[kind];
    e->batch.lane[row] = e->lane;
    e->batch.start[row] = e->batch.end[row] = at;
    e->batch.bytes[row] = value;
    return rs_batch_extra(&e->batch, row, args, (size_t)length);
}

static enum rs_status begin(struct emitting *e, const struct rs_host_samples *samples,
                            struct rs_source_stream *stream)
{
    static const char category[] = "host_sys";
    const struct rs_lane lane = {.kind = RS_LANE_HOST,
                                 .device = -1,
                                 .process = samples->pid,
                                 .process_text = RS_STR_NONE,
                                 .thread_text = RS_STR_NONE};
    enum rs_status status =
        rs_strtab_add(&stream->strings, category, sizeof category - 1, &e->category);
    for (size_t i = 0; i < VALUE_COUNT && status >= 0; i++)
        if (kinds[i].of & samples->plan.set)
            status =
                rs_strtab_add(&stream->strings, kinds[i].name, strlen(kinds[i].name), &e->names[i]);
    if (status >= 0)
        status = rs_lanes_find(&stream->lanes, &lane, &e->lane);
    return status >= 0 ? rs_batch_init(&e->batch, &stream->strings, &stream->lanes, BATCH_ROWS)
                       : status;
}

static enum rs_status put_sample(struct emitting *e, const struct sample *sample, rs_ns base_ns,
                                 struct rs_err *err)
{
    enum rs_status status =
        e->batch.count + VALUE_COUNT > e->batch.capacity ? hand_over(e, err) : RS_OK;
    for (size_t i = 0; i < VALUE_COUNT && status >= 0; i++)
        if (sample->values[i] != UNKNOWN &&
            put_row(e, sample->at - base_ns, i, sample->values[i]) < 0)
            status = rs_err_set(err, RS_NOMEM, "no memory for samples of a host");
    return status;
}

enum rs_status rs_host_samples_emit(struct rs_host_samples *samples,
                                    struct rs_source_stream *stream, rs_ns base_ns, rs_ns from_ns,
                                    rs_ns to_ns, struct rs_sink sink, struct rs_err *err)
{
    struct emitting e = {.sink = sink};
    if (!samples->count)
        return RS_OK;
    enum rs_status status = begin(&e, samples, stream);
    if (status < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for samples of a host");
    for (size_t i = 0; i < samples->count && status >= 0; i++) {
        const struct sample *sample = &samples->held[(samples->first + i) % RS_HOST_SAMPLES_MAX];
        if (sample->at >= from_ns && sample->at <= to_ns)
            status = put_sample(&e, sample, base_ns, err);
    }
    if (status >= 0)
        status = hand_over(&e, err);
    rs_batch_fini(&e.batch);
    samples->first = samples->count = 0;
    return status < 0 ? status : RS_OK;
}
