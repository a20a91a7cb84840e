/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same run as files in Kineto form: kernels one by one, calls, launches, waits, steps, data loading.
 */
#include "tests/bench/culprits/record.h"

#include <stdio.h>
#include <string.h>

struct tracer {
    const struct job *job;
    uint32_t rank;
    FILE *file;
    int64_t correlation;
    unsigned pid;
    bool has_any;
    char group[4096]; /* arguments of the newest operation */
};

static double us(const struct tracer *tracer, int64_t at)
{
    return (double)job_clock(tracer->job, tracer->rank, at) / 1e3;
}

static void event(struct tracer *tracer, const char *category, const char *name, bool on_device,
                  int64_t thread, int64_t start, int64_t end, const char *arguments)
{
    const double from = us(tracer, start), to = us(tracer, end);
    (void)fprintf(
        tracer->file,
        "%s\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %u, \"tid\": %lld, "
        "\"ts\": %.3f, \"dur\": %.3f, \"args\": {%s}}",
        tracer->has_any ? "," : "", category, name,
        on_device ? tracer->rank % tracer->job->host_size : tracer->pid, (long long)thread, from,
        to - from, arguments);
    tracer->has_any = true;
}

static void kernel(struct tracer *tracer, const struct item *item, const char *name, int64_t launch,
                   int64_t start, int64_t end, const char *more)
{
    char arguments[4608];
    const int64_t correlation = tracer->correlation++;
    (void)snprintf(arguments, sizeof arguments, "\"correlation\": %lld", (long long)correlation);
    event(tracer, "cuda_runtime", "cudaLaunchKernel", false, tracer->pid, launch, launch + 2000,
          arguments);
    (void)snprintf(arguments, sizeof arguments,
                   "\"device\": %u, \"context\": 1, \"stream\": %lld, \"correlation\": %lld%s%s",
                   tracer->rank % tracer->job->host_size, (long long)record_stream(item),
                   (long long)correlation, more[0] != 0 ? ", " : "", more);
    event(tracer, "kernel", name, true, record_stream(item), start, end, arguments);
}

static void add_work(struct tracer *tracer, const struct item *item)
{
    static const char *const names[] = {
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits>",
        "void cuApplyLayerNorm<c10::BFloat16, float>"};
    /* of an embedding and of a loss; both run the layers' product as well */
    static const char *const end_names[] = {
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
        "void at::native::indexSelectLargeIndex<c10::BFloat16, long>",
        "void cunn_SoftMaxForward<8, float, float, float>",
        "void nll_loss_forward_reduce_cuda_kernel_2d<float, float>"};
    const char *const *of_item = item->is_end ? end_names : names;
    const int64_t length = item->end - item->start;
    for (uint32_t n = 0; n < item->kernels; n++) {
        const int64_t before = (int64_t)(item->kernels - 1 - n) * 4000;
        kernel(tracer, item, of_item[n % 4], item->launch - before,
               item->start + length * n / item->kernels,
               item->start + length * (n + 1) / item->kernels, "");
    }
}

static void set_arguments(struct tracer *tracer, const struct item *item)
{
    static const char *const names[] = {"allreduce", "_reduce_scatter_base", "_allgather_base",
                                        "send", "recv"};
    const struct job *job = tracer->job;
    tracer->group[0] = 0;
    if (!job->has_arguments) {
        return;
    }
    char ranks[3072] = "";
    size_t used = 0;
    const uint32_t group = item->group != NOBODY ? item->group : 0;
    const struct group *own = &job->groups[group];
    for (size_t i = 0; i < own->count && used + 16 < sizeof ranks; i++) {
        used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%u", i > 0 ? ", " : "",
                                 own->ranks[i]);
    }
    int at = snprintf(
        tracer->group, sizeof tracer->group,
        "\"Collective name\": \"%s\", \"In msg nelems\": %lld, \"Out msg nelems\": %lld, \"Group size\": %zu, "
        "\"dtype\": \"BFloat16\", \"Process Group Name\": \"%s\", \"Process Group Description\": \"undefined\", "
        "\"Process Group Ranks\": \"[%s]\"",
        names[item->op], (long long)(item->bytes / 2 > 0 ? item->bytes / 2 : 1),
        (long long)(item->bytes / 2 > 0 ? item->bytes / 2 : 1), own->count, own->name, ranks);
    if (item->group == NOBODY && at > 0) {
        at += snprintf(tracer->group + at, sizeof tracer->group - (size_t)at, ", \"%s Rank\": %u",
                       item->op == OP_SEND ? "Dst" : "Src", item->peer);
    }
    if (job->has_hosts && item->group != NOBODY && at > 0) {
        (void)snprintf(tracer->group + at, sizeof tracer->group - (size_t)at, ", \"Seq\": %u",
                       job->meetings[item->meeting].first);
    }
}

static void add_op(struct tracer *tracer, const struct item *item)
{
    static const char *const calls[] = {"c10d::allreduce_", "c10d::_reduce_scatter_base_",
                                        "c10d::_allgather_base_", "c10d::send", "c10d::recv_"};
    static const char *const kernels[] = {
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"};
    if (item->is_hidden) {
        kernel(tracer, item, "void fused_matmul_exchange_kernel<c10::BFloat16, 128>", item->launch,
               item->start, item->end, "");
        return;
    }
    set_arguments(tracer, item);
    event(tracer, "cpu_op", calls[item->op], false, tracer->pid, item->launch - 15000,
          item->launch + 4000, "");
    event(tracer, "cpu_op", "record_param_comms", false, tracer->pid, item->launch - 13000,
          item->launch + 3000, tracer->group);
    kernel(tracer, item, kernels[item->op], item->launch, item->start, item->end, tracer->group);
}

static void add_sync(struct tracer *tracer, const struct item *item)
{
    char arguments[96];
    (void)snprintf(arguments, sizeof arguments, "\"correlation\": %lld",
                   (long long)tracer->correlation++);
    event(tracer, "cuda_runtime", "cudaDeviceSynchronize", false, tracer->pid, item->start,
          item->end, arguments);
}

static void add_steps(struct tracer *tracer)
{
    const struct job *job = tracer->job;
    for (uint32_t k = 1; k <= job->steps; k++) {
        const size_t at = (size_t)tracer->rank * (job->steps + 1) + k;
        char name[48];
        (void)snprintf(name, sizeof name, "ProfilerStep#%u", k);
        event(tracer, "user_annotation", name, false, tracer->pid, job->step_start[at],
              job->step_end[at], "");
        event(tracer, "user_annotation",
              "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", false, tracer->pid,
              job->step_start[at] + 1000, job->step_start[at] + 1000 + job->inputs[at], "");
    }
}

static void write_head(struct tracer *tracer)
{
    const struct job *job = tracer->job;
    (void)fprintf(
        tracer->file,
        "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": %u, \"name\": \"NVIDIA H100 80GB HBM3\"}], "
        "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %u, \"world_size\": %u},",
        tracer->rank % job->host_size, tracer->rank, job->ranks);
    if (job->has_hosts) {
        (void)fprintf(tracer->file, " \"host_name\": \"node%03u\",", job_host(job, tracer->rank));
    }
    (void)fprintf(
        tracer->file,
        " \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": 1750000000000000000, \"traceEvents\": [");
}

static bool write_rank(struct tracer *tracer)
{
    const struct job *job = tracer->job;
    write_head(tracer);
    add_steps(tracer);
    for (size_t i = job->first[tracer->rank]; i < job->first[tracer->rank + 1]; i++) {
        const struct item *item = &job->items[i];
        if (item->step == 0) {
            continue;
        }
        switch ((enum item_kind)item->kind) {
        case ITEM_WORK:
            add_work(tracer, item);
            break;
        case ITEM_OP:
            add_op(tracer, item);
            break;
        case ITEM_SYNC:
            add_sync(tracer, item);
            break;
        }
    }
    return fprintf(tracer->file, "\n]}\n") > 0;
}

bool record_traces(const struct job *job, const char *folder)
{
    for (uint32_t r = 0; r < job->ranks; r++) {
        char path[4096];
        if (r == job->missing) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/rank%05u.pt.trace.json", folder, r);
        struct tracer tracer = {.job = job, .rank = r, .correlation = 1, .pid = 4000 + r};
        tracer.file = fopen(path, "w");
        const bool written = tracer.file != NULL && write_rank(&tracer);
        if ((tracer.file != NULL && fclose(tracer.file) != 0) || !written) {
            perror(path);
            return false;
        }
    }
    return true;
}
