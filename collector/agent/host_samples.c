/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/host_samples.h"

#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PROC_BYTES = 64 << 10,
    BATCH_ROWS = 512,
    PORTS_MAX = 16, /* network cards of a node; further ones are left out */
    PORT_BYTES = 48,
    RDMA_WORD_BYTES = 4, /* the unit of port_rcv_data */
};

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
    const char *name;
    uint32_t of;  /* enum rs_host_sys */
    bool is_rate; /* what is read grows: the value is how much in a second */
} kinds[VALUE_COUNT] = {
    [CPU] = {"process CPU %", RS_HOST_SYS_CPU, true},
    [MEMORY] = {"process memory bytes", RS_HOST_SYS_MEM, false},
    [SWAP] = {"process swap bytes", RS_HOST_SYS_MEM, false},
    [DISK_READ] = {"process disk read B/s", RS_HOST_SYS_DISK, true},
    [DISK_WRITE] = {"process disk write B/s", RS_HOST_SYS_DISK, true},
    [NETWORK_RECEIVE] = {"host network receive B/s", RS_HOST_SYS_NETWORK, true},
    [NETWORK_TRANSMIT] = {"host network transmit B/s", RS_HOST_SYS_NETWORK, true},
};

/* A port has two values behind those: received, transmitted. */
enum { VALUES_MAX = VALUE_COUNT + 2 * PORTS_MAX };

/* Where nothing could be read. */
static const int64_t unknown_value = INT64_MIN;

struct rs_host_samples {
    int64_t pid;
    struct rs_host_plan plan;
    bool is_closed; /* read back from a file: takes no more */
    rs_ns due_at;   /* monotonic */
    bool has_before;
    rs_ns before_at;                   /* monotonic */
    int64_t before[VALUES_MAX];        /* as read */
    const char *why;                   /* static */
    char ports[PORTS_MAX][PORT_BYTES]; /* "NIC eth0", "RDMA mlx5_0/1" */
    char folders[PORTS_MAX][256];      /* of an RDMA port's counters; "" a NIC */
    size_t port_count;
    /* A ring of the newest: a Unix time and its values each. */
    int64_t *held;
    size_t first, count, capacity; /* in samples, but the last: in numbers */
};

static size_t value_count(const struct rs_host_samples *samples)
{
    return VALUE_COUNT + 2 * samples->port_count;
}

/* Of sample `index` from the oldest on: its time, then its values. It has turned only when it is as long as it will be. */
static int64_t *sample_at(const struct rs_host_samples *samples, size_t index)
{
    return samples->held +
           (samples->first + index) % RS_HOST_SAMPLES_MAX * (1 + value_count(samples));
}

static bool is_rate(size_t value)
{
    return value >= VALUE_COUNT || kinds[value].is_rate;
}

bool rs_host_plan_is_empty(const struct rs_host_plan *plan)
{
    return !plan->set && !plan->has_ports;
}

struct rs_host_plan rs_host_plan_of(const Rankscope__CaptureRequest *request)
{
    const uint32_t sampled =
        RS_HOST_SYS_CPU | RS_HOST_SYS_MEM | RS_HOST_SYS_DISK | RS_HOST_SYS_NETWORK;
    struct rs_host_plan plan = {0};
    if (!request || !request->experimental)
        return plan;
    plan.set = request->experimental->host_sys & sampled;
    plan.has_ports = request->experimental->sys_io;
    plan.hz = request->sample_hz < 1 ? 1 : request->sample_hz > 100 ? 100 : request->sample_hz;
    return plan;
}

/* ---- ports ----------------------------------------------------------------------------------------------------- */

static bool read_number(const char *folder, const char *name, int64_t *number_p)
{
    char path[320];
    struct rs_buf text = {0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    const bool is_read = rs_file_read(path, 64, &text, NULL) == RS_OK && text.length;
    if (is_read)
        *number_p = (int64_t)strtoull(rs_buf_text(&text), NULL, 10);
    rs_buf_fini(&text);
    return is_read;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Names in a folder, in order, but those that begin with a dot; how many. */
static size_t list_names(const char *path, char (*names)[64], size_t most)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    size_t count = 0;
    while (dir && count < most && (entry = rs_dir_next(dir)))
        if (entry->d_name[0] != '.')
            (void)snprintf(names[count++], sizeof *names, "%.63s", entry->d_name);
    if (dir)
        (void)closedir(dir);
    if (count)
        qsort(names, count, sizeof *names, by_name);
    return count;
}

static void find_rdma(struct rs_host_samples *samples, const char *root)
{
    char devices[PORTS_MAX][64], numbers[PORTS_MAX][64], path[200];
    int64_t ignored;
    (void)snprintf(path, sizeof path, "%.64s/class/infiniband", root);
    const size_t device_count = list_names(path, devices, PORTS_MAX);
    for (size_t i = 0; i < device_count; i++) {
        (void)snprintf(path, sizeof path, "%.64s/class/infiniband/%s/ports", root, devices[i]);
        const size_t number_count = list_names(path, numbers, PORTS_MAX);
        for (size_t k = 0; k < number_count && samples->port_count < PORTS_MAX; k++) {
            char *folder = samples->folders[samples->port_count];
            (void)snprintf(folder, sizeof samples->folders[0], "%s/%.16s/counters", path,
                           numbers[k]);
            if (!read_number(folder, "port_rcv_data", &ignored))
                continue;
            (void)snprintf(samples->ports[samples->port_count++], PORT_BYTES, "RDMA %.24s/%.8s",
                           devices[i], numbers[k]);
        }
    }
}

/* The next interface of /proc/PID/net/dev but loopback, with what it received and transmitted; NULL: there is none. Behind it the next
 * line begins. */
static const char *next_interface(const char *line, char name[32], int64_t bytes[2])
{
    for (; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        while (*line == ' ')
            line++;
        const char *colon = strchr(line, ':');
        const char *end = strchr(line, '\n');
        if (!colon || (end && colon > end) || strncmp(line, "lo:", 3) == 0)
            continue;
        char *at = NULL;
        (void)snprintf(name, 32, "%.*s", (int)(colon - line < 31 ? colon - line : 31), line);
        bytes[0] = (int64_t)strtoull(colon + 1, &at, 10);
        for (int field = 0; field < 8; field++) /* the ninth number */
            bytes[1] = (int64_t)strtoull(at, &at, 10);
        return end ? end + 1 : line + strlen(line);
    }
    return NULL;
}

static bool read_proc(const struct rs_host_samples *samples, const char *name, struct rs_buf *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/%s", samples->pid, name);
    return rs_file_read(path, PROC_BYTES, text, NULL) == RS_OK;
}

static void find_nics(struct rs_host_samples *samples)
{
    struct rs_buf text = {0};
    char name[32];
    int64_t ignored[2];
    const char *line = read_proc(samples, "net/dev", &text) ? rs_buf_text(&text) : NULL;
    while (samples->port_count < PORTS_MAX && (line = next_interface(line, name, ignored)))
        (void)snprintf(samples->ports[samples->port_count++], PORT_BYTES, "NIC %s", name);
    rs_buf_fini(&text);
}

enum rs_status rs_host_samples_new(int64_t pid, struct rs_host_plan plan,
                                   struct rs_host_samples **samples_p)
{
    struct rs_host_samples *samples = rs_mem_calloc(1, sizeof *samples);
    if (!samples)
        return RS_NOMEM;
    samples->pid = pid;
    samples->plan = plan;
    samples->plan.sys_root = NULL;
    samples->why = "";
    if (plan.has_ports) {
        find_rdma(samples, plan.sys_root ? plan.sys_root : "/sys");
        find_nics(samples);
    }
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

/* The number behind "NAME:" at the beginning of a line; unknown_value: there is none. */
static int64_t number_of(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            return strtoll(line + length + 1, NULL, 10);
    }
    return unknown_value;
}

/* CPU time of all its threads so far, ns: the kernel's clock of a process may be read by anybody. */
static void read_cpu(const struct rs_host_samples *samples, int64_t read[VALUES_MAX])
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid((pid_t)samples->pid, &clock) == 0 && clock_gettime(clock, &time) == 0)
        read[CPU] = time.tv_sec * (int64_t)RS_NS_PER_S + time.tv_nsec;
}

static void read_memory(const struct rs_host_samples *samples, int64_t read[VALUES_MAX])
{
    struct rs_buf text = {0};
    if (read_proc(samples, "status", &text)) {
        const int64_t resident = number_of(rs_buf_text(&text), "VmRSS");
        const int64_t swapped = number_of(rs_buf_text(&text), "VmSwap");
        read[MEMORY] =
            resident >= 0 ? resident * 1024 : unknown_value; /* the kernel's kB are KiB */
        read[SWAP] = swapped >= 0 ? swapped * 1024 : unknown_value;
    }
    rs_buf_fini(&text);
}

static void read_disk(struct rs_host_samples *samples, int64_t read[VALUES_MAX])
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

/* Of every interface, and of all together. */
static void read_network(const struct rs_host_samples *samples, int64_t read[VALUES_MAX])
{
    struct rs_buf text = {0};
    char name[32];
    int64_t bytes[2], sum[2] = {0, 0};
    const bool is_read = read_proc(samples, "net/dev", &text);
    const char *line = is_read ? rs_buf_text(&text) : NULL;
    while ((line = next_interface(line, name, bytes))) {
        sum[0] += bytes[0];
        sum[1] += bytes[1];
        for (size_t i = 0; i < samples->port_count; i++)
            if (!*samples->folders[i] && strcmp(samples->ports[i] + strlen("NIC "), name) == 0)
                memcpy(&read[VALUE_COUNT + 2 * i], bytes, sizeof bytes);
    }
    if (is_read && samples->plan.set & RS_HOST_SYS_NETWORK) {
        read[NETWORK_RECEIVE] = sum[0];
        read[NETWORK_TRANSMIT] = sum[1];
    }
    rs_buf_fini(&text);
}

static void read_rdma(const struct rs_host_samples *samples, int64_t read[VALUES_MAX])
{
    static const char *const names[] = {"port_rcv_data", "port_xmit_data"};
    int64_t words = 0;
    for (size_t i = 0; i < samples->port_count; i++)
        for (size_t k = 0; k < 2 && *samples->folders[i]; k++)
            if (read_number(samples->folders[i], names[k], &words) && words >= 0 &&
                words <= INT64_MAX / RDMA_WORD_BYTES)
                read[VALUE_COUNT + 2 * i + k] = words * RDMA_WORD_BYTES;
}

/* ---- a sample ------------------------------------------------------------------------------------------------- */

/* What is read is a sum since some beginning; a smaller one than before is of another process, or an interface went. */
static int64_t rate(size_t value, int64_t now, int64_t before, rs_dur stretch)
{
    if (now == unknown_value || before == unknown_value || now < before || stretch <= 0)
        return unknown_value;
    const double in_a_second = (double)(now - before) * 1e9 / (double)stretch;
    return (int64_t)(value == CPU ? in_a_second / 1e7 + 0.5 : in_a_second + 0.5); /* ns/s: % */
}

/* NULL: no memory. */
static int64_t *new_sample(struct rs_host_samples *samples)
{
    const size_t numbers = 1 + value_count(samples);
    if (samples->count == RS_HOST_SAMPLES_MAX) { /* the oldest goes */
        samples->first = (samples->first + 1) % RS_HOST_SAMPLES_MAX;
        samples->count--;
    } else if (rs_mem_grow((void **)&samples->held, &samples->capacity,
                           (samples->count + 1) * numbers, sizeof *samples->held) < 0) {
        return NULL;
    }
    return sample_at(samples, samples->count++);
}

static void read_all(struct rs_host_samples *samples, int64_t read[VALUES_MAX])
{
    for (size_t i = 0; i < VALUES_MAX; i++)
        read[i] = unknown_value;
    if (samples->plan.set & RS_HOST_SYS_CPU)
        read_cpu(samples, read);
    if (samples->plan.set & RS_HOST_SYS_MEM)
        read_memory(samples, read);
    if (samples->plan.set & RS_HOST_SYS_DISK)
        read_disk(samples, read);
    if (samples->plan.set & RS_HOST_SYS_NETWORK || samples->plan.has_ports)
        read_network(samples, read);
    read_rdma(samples, read);
}

void rs_host_samples_look(struct rs_host_samples *samples)
{
    const rs_ns now = rs_time_monotonic();
    int64_t read[VALUES_MAX];
    if (rs_host_plan_is_empty(&samples->plan) || samples->is_closed || now < samples->due_at)
        return;
    samples->due_at = now + RS_NS_PER_S / samples->plan.hz;
    if (samples->pid <= 0) { /* 0 would mean ourselves */
        samples->why = "what it takes of its host cannot be seen from the collector (another "
                       "namespace of processes)";
        return;
    }
    read_all(samples, read);
    int64_t *sample = new_sample(samples);
    if (!sample)
        return;
    sample[0] = rs_time_realtime();
    for (size_t i = 0; i < value_count(samples); i++)
        sample[1 + i] = !is_rate(i) ? read[i]
                        : samples->has_before
                            ? rate(i, read[i], samples->before[i], now - samples->before_at)
                            : unknown_value;
    memcpy(samples->before, read, sizeof read);
    samples->before_at = now;
    samples->has_before = true;
}

/* ---- kept over a kill ------------------------------------------------------------------------------------------ */

/* Its first bytes; then the samples as they are held. */
struct head {
    char magic[8];
    int64_t pid;
    uint32_t set, ports;
    char names[PORTS_MAX][PORT_BYTES];
};
static const char magic[8] = "rs-host1";

enum rs_status rs_host_samples_save(const struct rs_host_samples *samples, const char *path,
                                    struct rs_err *err)
{
    struct head head = {
        .pid = samples->pid, .set = samples->plan.set, .ports = (uint32_t)samples->port_count};
    struct rs_buf buf = {0};
    memcpy(head.magic, magic, sizeof head.magic);
    memcpy(head.names, samples->ports, sizeof head.names);
    rs_buf_bytes(&buf, &head, sizeof head);
    for (size_t i = 0; i < samples->count; i++)
        rs_buf_bytes(&buf, sample_at(samples, i),
                     (1 + value_count(samples)) * sizeof *samples->held);
    const enum rs_status status = buf.failed
                                      ? rs_err_set(err, RS_NOMEM, "no memory for samples")
                                      : rs_file_replace(path, buf.data, buf.length, false, err);
    rs_buf_fini(&buf);
    return status;
}

static enum rs_status take_file(struct rs_host_samples *samples, const struct rs_buf *text,
                                const char *path, struct rs_err *err)
{
    struct head head = {.ports = PORTS_MAX + 1};
    if (text->length >= sizeof head)
        memcpy(&head, text->data, sizeof head);
    if (head.ports > PORTS_MAX || memcmp(head.magic, magic, sizeof head.magic) != 0)
        return rs_err_set(err, RS_FORMAT, "%s holds no samples", path);
    samples->port_count = head.ports;
    const size_t bytes = text->length - sizeof head;
    const size_t each = (1 + value_count(samples)) * sizeof *samples->held;
    if (bytes % each || bytes / each > RS_HOST_SAMPLES_MAX)
        return rs_err_set(err, RS_FORMAT, "%s holds no samples", path);
    if (bytes && rs_mem_grow((void **)&samples->held, &samples->capacity,
                             bytes / sizeof *samples->held, sizeof *samples->held) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for samples");
    if (bytes)
        memcpy(samples->held, (const char *)text->data + sizeof head, bytes);
    for (size_t i = 0; i < samples->port_count; i++)
        (void)snprintf(samples->ports[i], PORT_BYTES, "%.*s", PORT_BYTES - 1, head.names[i]);
    samples->count = bytes / each;
    samples->pid = head.pid;
    samples->plan.set = head.set;
    samples->is_closed = true;
    return RS_OK;
}

enum rs_status rs_host_samples_load(const char *path, struct rs_host_samples **samples_p,
                                    struct rs_err *err)
{
    const size_t limit_bytes =
        (size_t)RS_HOST_SAMPLES_MAX * (1 + VALUES_MAX) * sizeof(int64_t) + sizeof(struct head);
    struct rs_host_samples *samples = NULL;
    struct rs_buf text = {0};
    enum rs_status status = rs_file_read(path, limit_bytes, &text, err);
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
    rs_str category, names[VALUES_MAX];
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
    for (size_t i = 0; i < 2 * samples->port_count && status >= 0; i++) {
        char name[PORT_BYTES + 16];
        const int length = snprintf(name, sizeof name, "%s %s B/s", samples->ports[i / 2],
                                    i % 2 ? "transmit" : "receive");
        status = rs_strtab_add(&stream->strings, name, (size_t)length, &e->names[VALUE_COUNT + i]);
    }
    if (status >= 0)
        status = rs_lanes_find(&stream->lanes, &lane, &e->lane);
    return status >= 0 ? rs_batch_init(&e->batch, &stream->strings, &stream->lanes, BATCH_ROWS)
                       : status;
}

static enum rs_status put_sample(struct emitting *e, const int64_t *sample, size_t values,
                                 rs_ns base_ns, struct rs_err *err)
{
    enum rs_status status = e->batch.count + values > e->batch.capacity ? hand_over(e, err) : RS_OK;
    for (size_t i = 0; i < values && status >= 0; i++)
        if (sample[1 + i] != unknown_value && put_row(e, sample[0] - base_ns, i, sample[1 + i]) < 0)
            status = rs_err_set(err, RS_NOMEM, "no memory for samples of a host");
    return status;
}

enum rs_status rs_host_samples_emit(struct rs_host_samples *samples,
                                    struct rs_source_stream *stream,
                                    const struct rs_host_window *window, struct rs_sink sink,
                                    struct rs_err *err)
{
    struct emitting e = {.sink = sink};
    if (!samples->count)
        return RS_OK;
    enum rs_status status = begin(&e, samples, stream);
    if (status < 0)
        status = rs_err_set(err, RS_NOMEM, "no memory for samples of a host");
    for (size_t i = 0; i < samples->count && status >= 0; i++) {
        const int64_t *sample = sample_at(samples, i);
        if (sample[0] >= window->from_ns && sample[0] <= window->to_ns)
            status = put_sample(&e, sample, value_count(samples), window->base_ns, err);
    }
    if (status >= 0)
        status = hand_over(&e, err);
    rs_batch_fini(&e.batch);
    samples->first = samples->count = 0;
    return status < 0 ? status : RS_OK;
}
