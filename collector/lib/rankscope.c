/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of librankscope in a process: init, step boundaries, requests to record, fork, fini.
 *
 * At a step boundary, and nowhere else, the library looks up from the job: it closes the step, publishes how far
 * the rank is, reads the collector's request, turns recording on or off, and once a second
 * cares for the connection. Without a collector that is some 100 ns a step, and one connect() a second.
 */
#include "collector/lib/client_priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECOND_NS = 1000000000, ANCHOR_EVERY_NS = 100000000, MEAN_WEIGHT = 8 };

struct rankscope_priv_client rankscope_priv_client = {.socket_fd = -1, .control_fd = -1};

/* ---- init ---- */

static const char *first_of(const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *value = getenv(*names); /* NOLINT(concurrency-mt-unsafe) */
        if (value != NULL && value[0] != '\0')
            return value;
    }
    return NULL;
}

static int32_t number_of(const char *const *names)
{
    const char *text = first_of(names);
    if (text == NULL)
        return RANKSCOPE_UNKNOWN;
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    bool is_good = errno == 0 && *end == '\0' && value >= 0 && value <= INT32_MAX;
    return is_good ? (int32_t)value : RANKSCOPE_UNKNOWN;
}

/* The run's name by contracts section 1; "" leaves it to the collector. */
static int find_run(const char *given, char run[RS_LIB_RUN_BYTES])
{
    static const char *const own[] = {"RANKSCOPE_RUN", NULL};
    static const char *const elastic[] = {"TORCHELASTIC_RUN_ID", NULL};
    static const char *const slurm[] = {"SLURM_JOB_ID", NULL};
    static const char *const address[] = {"MASTER_ADDR", NULL};
    static const char *const port[] = {"MASTER_PORT", NULL};
    const char *name = given != NULL ? given : first_of(own);
    if (name == NULL) {
        name = first_of(elastic);
        if (name != NULL && strcmp(name, "none") == 0)
            name = NULL;
    }
    if (name == NULL)
        name = first_of(slurm);
    int length = 0;
    if (name != NULL)
        length = snprintf(run, RS_LIB_RUN_BYTES, "%s", name);
    else if (first_of(address) != NULL && first_of(port) != NULL)
        length = snprintf(run, RS_LIB_RUN_BYTES, "%s:%s", first_of(address), first_of(port));
    return length >= RS_LIB_RUN_BYTES ? -EINVAL : 0;
}

static int fill_hello(const struct rankscope_config *config, struct rs_hello *hello)
{
    static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK",
                                        NULL};
    static const char *const sizes[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS",
                                        "PMI_SIZE", NULL};
    *hello = (struct rs_hello){
        .magic = RS_HELLO_MAGIC,
        .version = RS_LAYOUT_VERSION,
        .message_bytes = sizeof *hello,
        .clock_kind = rankscope_priv_clock_kind,
        .control_bytes = RS_CONTROL_BYTES,
        .pid = getpid(),
        .started_ns = (int64_t)rankscope_priv_system_ns(CLOCK_REALTIME),
        .rank = config->rank >= 0 ? config->rank : number_of(ranks),
        .world_size = config->world_size > 0 ? config->world_size : number_of(sizes),
        .dp = config->dp,
        .pp = config->pp,
        .tp = config->tp,
    };
    if (hello->rank < 0 || (hello->world_size >= 0 && hello->rank >= hello->world_size))
        return -EINVAL;
    /* Slurm's name of the node is the one that its users know it by; several may be one machine. */
    static const char *const nodes[] = {"SLURMD_NODENAME", NULL};
    const char *node = first_of(nodes);
    if (node != NULL)
        snprintf(hello->host, sizeof hello->host, "%s", node);
    else if (gethostname(hello->host, sizeof hello->host - 1) != 0)
        hello->host[0] = '\0';
    snprintf(hello->program, sizeof hello->program, "%s", program_invocation_short_name);
    return find_run(config->run, hello->run);
}

static size_t ring_bytes_of(const struct rankscope_config *config)
{
    static const char *const names[] = {"RANKSCOPE_RING_BYTES", NULL};
    size_t wanted = config->ring_bytes;
    int32_t setting = number_of(names);
    if (wanted == 0 && setting > 0)
        wanted = (size_t)setting;
    if (wanted == 0)
        wanted = RS_RING_DEFAULT_BYTES;
    size_t bytes = RS_RING_MIN_BYTES;
    while (bytes < wanted && bytes < RS_RING_MAX_BYTES)
        bytes *= 2;
    return bytes;
}

static void publish_anchor(struct rs_control *control)
{
    uint64_t ticks = 0;
    int64_t realtime_ns = 0;
    rankscope_priv_anchor(&ticks, &realtime_ns);
    uint64_t total = atomic_load_explicit(&control->anchor_total, memory_order_relaxed);
    struct rs_anchor *anchor = &control->anchors[total % RS_CONTROL_ANCHOR_COUNT];
    atomic_store_explicit(&anchor->ticks, ticks, memory_order_relaxed);
    atomic_store_explicit(&anchor->realtime_ns, realtime_ns, memory_order_relaxed);
    atomic_store_explicit(&control->anchor_total, total + 1, memory_order_release);
}

static void describe(struct rs_control *control)
{
    control->magic = RS_CONTROL_MAGIC;
    control->version = RS_LAYOUT_VERSION;
    control->header_bytes = RS_CONTROL_HEADER_BYTES;
    control->names_bytes = RS_CONTROL_NAMES_BYTES;
    control->clock_kind = rankscope_priv_clock_kind;
    atomic_store_explicit(&control->state, RS_LIB_RUNNING, memory_order_relaxed);
    publish_anchor(control);
}

/* In the child: nothing of the parent's is ours. Its mappings are not here (MADV_DONTFORK). */
static void forget_parent(void)
{
    struct rankscope_priv_client *client = &rankscope_priv_client;
    __atomic_store_n(&rankscope_recording_epoch, 0, __ATOMIC_RELEASE);
    atomic_store_explicit(&client->lock, 0, memory_order_relaxed); /* its holder is not here */
    rankscope_priv_rings_drop();
    rankscope_priv_record_forget();
    if (client->socket_fd >= 0)
        close(client->socket_fd);
    if (client->control_fd >= 0)
        close(client->control_fd);
    uint32_t epochs = client->epochs;
    memset(client, 0, sizeof *client);
    client->socket_fd = -1;
    client->control_fd = -1;
    client->epochs = epochs;
}

int rankscope_init(const struct rankscope_config *config)
{
    static const struct rankscope_config all_unknown = RANKSCOPE_CONFIG_INIT;
    static const char *const off[] = {"RANKSCOPE_DISABLE", NULL};
    static bool is_fork_watched;
    struct rankscope_priv_client *client = &rankscope_priv_client;
    if (config == NULL)
        config = &all_unknown;
    if (config->struct_bytes != sizeof *config)
        return -EINVAL;
    if (client->is_ready)
        return -EALREADY;
    if (first_of(off) != NULL && strcmp(first_of(off), "0") != 0)
        return 0;
    rankscope_priv_clock_init();
    int status = fill_hello(config, &client->hello);
    if (status == 0)
        status = rankscope_priv_address(config->socket_path, &client->address);
    if (status != 0)
        return status;
    if (!is_fork_watched && pthread_atfork(NULL, NULL, forget_parent) != 0)
        return -ENOMEM;
    is_fork_watched = true;
    void *map = NULL;
    int fd = rankscope_priv_memory("rankscope-control", RS_CONTROL_BYTES, &map);
    if (fd < 0)
        return fd;
    describe(map);
    client->has_fixed_address = config->socket_path != NULL;
    client->ring_bytes = ring_bytes_of(config);
    client->request_seq = 0;
    client->in_step = false;
    client->name_count = 0;
    client->group_count = 0;
    rankscope_priv_lock();
    client->control = map;
    client->control_fd = fd;
    rankscope_priv_unlock();
    client->is_ready = true;
    rankscope_priv_connect();
    client->next_try_ns = rankscope_priv_system_ns(CLOCK_MONOTONIC) + SECOND_NS;
    return 0;
}

/* ---- recording ---- */

static void set_capture_state(struct rs_control *control, enum rs_lib_capture_state state)
{
    atomic_store_explicit(&control->capture_state, (uint32_t)state, memory_order_release);
}

static void start_recording(struct rankscope_priv_client *client, uint64_t step, uint64_t ticks)
{
    uint32_t epoch = ++client->epochs;
    if (epoch == 0)
        epoch = ++client->epochs; /* 0 is "off" */
    atomic_store_explicit(&client->control->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&client->control->first_step, step, memory_order_relaxed);
    atomic_store_explicit(&client->control->first_ticks, ticks, memory_order_relaxed);
    publish_anchor(client->control);
    set_capture_state(client->control, RS_LIB_RECORDING);
    __atomic_store_n(&rankscope_recording_epoch, epoch, __ATOMIC_RELEASE);
}

static void stop_recording(struct rankscope_priv_client *client, uint64_t next_step)
{
    __atomic_store_n(&rankscope_recording_epoch, 0, __ATOMIC_RELEASE);
    publish_anchor(client->control);
    atomic_store_explicit(&client->control->step_start_ticks, 0, memory_order_relaxed);
    atomic_store_explicit(&client->control->next_step, next_step, memory_order_relaxed);
    set_capture_state(client->control, RS_LIB_CAPTURED);
}

static bool is_recording(void)
{
    return __atomic_load_n(&rankscope_recording_epoch, __ATOMIC_RELAXED) != 0;
}

/* A request not yet acted on becomes ours. Pairs with rs_control_request(), which makes the number odd
 * while it writes: an acquire load that sees a new value sees the odd number, too. */
static void take_request(struct rankscope_priv_client *client, uint64_t step)
{
    struct rs_control *control = client->control;
    uint64_t seq = atomic_load_explicit(&control->request_seq, memory_order_acquire);
    if (seq == client->request_seq || seq % 2 != 0)
        return;
    uint64_t start_step = atomic_load_explicit(&control->start_step, memory_order_acquire);
    uint64_t stop_step = atomic_load_explicit(&control->stop_step, memory_order_acquire);
    if (atomic_load_explicit(&control->request_seq, memory_order_relaxed) != seq)
        return; /* being rewritten: at the next boundary */
    client->start_step = start_step;
    client->stop_step = stop_step;
    bool was_recording = is_recording();
    if (was_recording)
        stop_recording(client, step);
    if (stop_step != 0)
        set_capture_state(control, RS_LIB_ARMED);
    else if (!was_recording)
        set_capture_state(control, RS_LIB_MISSED);
    client->request_seq = seq;
    atomic_store_explicit(&control->capture_seq, seq, memory_order_release);
}

/* A start of "next" comes with a number of steps in the place of the last one. */
static void resolve_next(struct rankscope_priv_client *client, uint64_t step)
{
    if (client->start_step != RS_LIB_START_NEXT)
        return;
    client->start_step = step;
    bool is_past = client->stop_step > UINT64_MAX - step;
    client->stop_step = is_past ? UINT64_MAX : step + client->stop_step;
}

static void steer(struct rankscope_priv_client *client, uint64_t step, uint64_t ticks)
{
    take_request(client, step);
    uint32_t state = atomic_load_explicit(&client->control->capture_state, memory_order_relaxed);
    if (state == RS_LIB_RECORDING && step >= client->stop_step)
        stop_recording(client, step);
    if (state != RS_LIB_ARMED)
        return;
    resolve_next(client, step);
    if (step >= client->stop_step)
        set_capture_state(client->control, RS_LIB_MISSED);
    else if (step >= client->start_step)
        start_recording(client, step, ticks);
}

/* ---- step boundaries ---- */

static void close_step(struct rankscope_priv_client *client, uint64_t ticks)
{
    if (!client->in_step || !client->is_step_whole || !is_recording())
        return;
    const struct rankscope_priv_step step = {
        .number = client->step,
        .start = client->step_ticks,
        .end = ticks,
        .cpu_ns = rankscope_priv_system_ns(CLOCK_THREAD_CPUTIME_ID) - client->step_cpu_ns};
    rankscope_priv_record_step(&step);
}

static void publish_progress(struct rankscope_priv_client *client, uint64_t step, uint64_t now_ns)
{
    struct rs_control *control = client->control;
    if (client->in_step) {
        uint64_t took = now_ns - client->step_ns;
        uint64_t mean = atomic_load_explicit(&control->mean_step_ns, memory_order_relaxed);
        mean = mean == 0 ? took : mean - mean / MEAN_WEIGHT + took / MEAN_WEIGHT;
        atomic_store_explicit(&control->mean_step_ns, mean, memory_order_relaxed);
    }
    uint64_t count = atomic_load_explicit(&control->step_count, memory_order_relaxed);
    atomic_store_explicit(&control->step, step, memory_order_relaxed);
    atomic_store_explicit(&control->heartbeat_ns, (int64_t)rankscope_priv_system_ns(CLOCK_REALTIME),
                          memory_order_relaxed);
    atomic_store_explicit(&control->step_count, count + 1, memory_order_release);
}

/* What of the step that ends was not communication. Written before step_count, which rs_control_progress() reads around it. */
static void publish_own(struct rankscope_priv_client *client, uint64_t ticks, uint64_t now_ns)
{
    struct rs_control *control = client->control;
    uint64_t waited = 0;
    bool is_known = rankscope_priv_record_waited(ticks, &waited);
    uint64_t length = ticks - client->step_began;
    client->step_began = ticks;
    if (!client->in_step || !is_known || length == 0)
        return;
    if (waited > length)
        waited = length;
    uint64_t own = atomic_load_explicit(&control->own_ns, memory_order_relaxed);
    double part = (double)(length - waited) / (double)length;
    own += (uint64_t)((double)(now_ns - client->step_ns) * part);
    atomic_store_explicit(&control->own_ns, own, memory_order_relaxed);
}

static void care_for_connection(struct rankscope_priv_client *client, uint64_t now_ns)
{
    if (client->socket_fd < 0) {
        if (now_ns >= client->next_try_ns) {
            client->next_try_ns = now_ns + SECOND_NS;
            rankscope_priv_connect();
        }
    } else if (now_ns >= client->next_check_ns) {
        client->next_check_ns = now_ns + ANCHOR_EVERY_NS;
        rankscope_priv_check_connection();
        if (client->socket_fd < 0)
            client->next_try_ns = now_ns + SECOND_NS;
        publish_anchor(client->control);
        rankscope_priv_rings_sweep();
    }
}

static void open_step(struct rankscope_priv_client *client, uint64_t step, uint64_t now_ns)
{
    client->in_step = true;
    client->step = step;
    client->step_ns = now_ns;
    client->is_step_whole = is_recording();
    if (!client->is_step_whole)
        return;
    client->step_cpu_ns = rankscope_priv_system_ns(CLOCK_THREAD_CPUTIME_ID);
    client->step_ticks = rankscope_priv_ticks();
    atomic_store_explicit(&client->control->step_start_ticks, client->step_ticks,
                          memory_order_release);
}

void rankscope_step(uint64_t number)
{
    struct rankscope_priv_client *client = &rankscope_priv_client;
    if (!client->is_ready)
        return;
    uint64_t ticks = rankscope_priv_ticks();
    uint64_t now_ns = rankscope_priv_system_ns(CLOCK_MONOTONIC);
    close_step(client, ticks);
    publish_own(client, ticks, now_ns);
    publish_progress(client, number, now_ns);
    care_for_connection(client, now_ns);
    if (client->socket_fd >= 0)
        steer(client, number, ticks);
    else if (is_recording())
        stop_recording(client, number); /* nobody drains */
    open_step(client, number, now_ns);
}

void rankscope_fini(void)
{
    struct rankscope_priv_client *client = &rankscope_priv_client;
    if (!client->is_ready)
        return;
    uint64_t ticks = rankscope_priv_ticks();
    close_step(client, ticks);
    if (is_recording())
        stop_recording(client, client->step + 1);
    atomic_store_explicit(&client->control->state, RS_LIB_FINISHED, memory_order_release);
    client->is_ready = false;
    rankscope_priv_disconnect();
    rankscope_priv_lock();
    client->control = NULL; /* stays mapped: another thread may be counting a loss in it */
    close(client->control_fd);
    client->control_fd = -1;
    rankscope_priv_unlock();
}

/* ---- about ---- */

const char *rankscope_clock_name(void)
{
    rankscope_priv_clock_init();
    return rankscope_priv_clock_text(rankscope_priv_clock_kind);
}

uint64_t rankscope_lost_count(void)
{
    struct rankscope_priv_client *client = &rankscope_priv_client;
    rankscope_priv_lock();
    struct rs_control *control = client->control;
    uint64_t lost = client->lost_in_closed;
    if (control != NULL)
        lost += atomic_load_explicit(&control->lost_without_ring, memory_order_relaxed);
    for (size_t i = 0; i < RS_LIB_MAX_RINGS; i++)
        if (client->slots[i].ring != NULL)
            lost += atomic_load_explicit(&client->slots[i].ring->lost, memory_order_relaxed);
    rankscope_priv_unlock();
    return lost;
}

int rankscope_is_connected(void)
{
    return rankscope_priv_client.socket_fd >= 0;
}
