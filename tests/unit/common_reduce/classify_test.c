/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reduce/classify.h"

#include "common/reduce/comm_expert.h"
#include "common/reduce/dims.h"
#include "tests/support/rs_test.h"

#include <string.h>

struct kernel_case {
    const char *name;
    enum rs_work_class work_class;
    enum rs_op_type type; /* of communication */
};

static void kernels_of_every_library_get_their_class(void **unused)
{
    (void)unused;
    static const struct kernel_case cases[] = {
        {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
         RS_WORK_COMMUNICATION, RS_OP_ALL_REDUCE},
        {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", RS_WORK_COMMUNICATION,
         RS_OP_SEND_RECV},
        {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         RS_WORK_COMMUNICATION, RS_OP_REDUCE_SCATTER},
        {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", RS_WORK_COMMUNICATION,
         RS_OP_ALL_GATHER},
        {"ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", RS_WORK_COMMUNICATION,
         RS_OP_BROADCAST},
        {"ncclDevKernel_Reduce_Sum_f32_RING_LL(...)", RS_WORK_COMMUNICATION, RS_OP_REDUCE},
        {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", RS_WORK_COMMUNICATION,
         RS_OP_UNKNOWN},
        {"void ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sumf32()", RS_WORK_COMMUNICATION,
         RS_OP_ALL_REDUCE},
        {"rcclGenericKernel<1, false>(ncclDevKernelArgs*)", RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        {"hcom_allReduce__721_0_1", RS_WORK_COMMUNICATION, RS_OP_ALL_REDUCE},
        {"hcom_receive__721_3_1", RS_WORK_COMMUNICATION, RS_OP_RECV},
        {"hcom_send__721_3_1", RS_WORK_COMMUNICATION, RS_OP_SEND},
        {"hcom_batchSendRecv__721_3_1", RS_WORK_COMMUNICATION, RS_OP_SEND_RECV},
        {"oneccl_allreduce_ring_kernel", RS_WORK_COMMUNICATION, RS_OP_ALL_REDUCE},
        {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", RS_WORK_COMMUNICATION,
         RS_OP_UNKNOWN},
        {"void dpsk::ep::internode::combine<true>(int)", RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        {"nvshmemi_barrier_threadgroup", RS_WORK_COMMUNICATION, RS_OP_BARRIER},
        {"mscclKernel_Sum_float_LL128(ncclDevComm*)", RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)",
         RS_WORK_COMMUNICATION, RS_OP_ALL_REDUCE},
        {"void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(tensorrt_llm::kernels::AllReduceParams)",
         RS_WORK_COMMUNICATION, RS_OP_ALL_REDUCE},
        {"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>()",
         RS_WORK_COMMUNICATION, RS_OP_ALL_REDUCE},
        {"void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
         RS_WORK_COMMUNICATION, RS_OP_ALL_REDUCE},
        {"void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16, false>(args)",
         RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        {"EpCombineIntraNodeKernel_bf16", RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        {"void hybrid_ep::dispatch_kernel<4, 2>(int)", RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        {"void pplx::dispatch<1>(int)", RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        {"a2a_dispatch_send_kernel", RS_WORK_COMMUNICATION, RS_OP_ALL_TO_ALL},
        {"void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)", RS_WORK_COMPUTING,
         RS_OP_UNKNOWN},
        {"void tensorrt_llm::kernels::moeA2ADispatchKernel<8, true>(int)", RS_WORK_COMMUNICATION,
         RS_OP_ALL_TO_ALL},
        {"void one_shot_allreduce<float, 8>(float*)", RS_WORK_COMMUNICATION, RS_OP_ALL_REDUCE},
        {"void aiter::reduce_scatter_cross_device_store<bf16, 8>(int)", RS_WORK_COMMUNICATION,
         RS_OP_REDUCE_SCATTER},
        {"void c10d::nvshmem_extension::allToAllV(void*, void*)", RS_WORK_COMMUNICATION,
         RS_OP_ALL_TO_ALL},
        {"exchangeSplitAndOffset_2d", RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        /* a '>' that closes no template, and names that hold one */
        {"void fused<(N > 4), 2>::allreduce_fusion_kernel<int>()", RS_WORK_COMMUNICATION,
         RS_OP_ALL_REDUCE},
        {"void run<decltype(f)->g, 1> nvshmem_put(int)", RS_WORK_COMMUNICATION, RS_OP_UNKNOWN},
        {"void lib::operator<<(nccl_like&)", RS_WORK_COMPUTING, RS_OP_UNKNOWN},
        {"void lib::operator<< <nvshmem::t>(int)", RS_WORK_COMPUTING, RS_OP_UNKNOWN},
        {"void lib::operator-><nvshmem::t>(int)", RS_WORK_COMPUTING, RS_OP_UNKNOWN},
        {"void copy<nvshmem::type, (a < b)>(int)", RS_WORK_COMPUTING, RS_OP_UNKNOWN},
        {"dma_request", RS_WORK_MEMORY, RS_OP_UNKNOWN},
        {"event_wait", RS_WORK_WAITING, RS_OP_UNKNOWN},
        {"Memcpy DtoD (Device -> Device)", RS_WORK_MEMORY, RS_OP_UNKNOWN},
        {"hipMemcpyAsync", RS_WORK_MEMORY, RS_OP_UNKNOWN},
        {"Memset (Device)", RS_WORK_MEMORY, RS_OP_UNKNOWN},
        {"hipKernel_gemm", RS_WORK_COMPUTING, RS_OP_UNKNOWN},
        {"void at::native::reduce_kernel<128, 4>(at::native::ReduceOp<float>)", RS_WORK_COMPUTING,
         RS_OP_REDUCE},
        {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<int>(int*)",
         RS_WORK_COMPUTING, RS_OP_UNKNOWN},
        {"void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)", RS_WORK_COMPUTING,
         RS_OP_SCATTER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t length = strlen(cases[i].name);
        print_message("%s\n", cases[i].name);
        assert_int_equal(rs_classify_kernel(cases[i].name, length), cases[i].work_class);
        if (cases[i].work_class == RS_WORK_COMMUNICATION)
            assert_int_equal(rs_op_type_of_name(cases[i].name, length), cases[i].type);
    }
}

static void calls_and_arguments_name_their_operation(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        enum rs_op_type type;
    } cases[] = {
        {"c10d::allreduce_", RS_OP_ALL_REDUCE},
        {"c10d::_allgather_base_", RS_OP_ALL_GATHER},
        {"c10d::allgather_into_tensor_coalesced_", RS_OP_ALL_GATHER},
        {"c10d::_reduce_scatter_base_", RS_OP_REDUCE_SCATTER},
        {"c10d::alltoall_base_", RS_OP_ALL_TO_ALL},
        {"c10d::recv_any_source_", RS_OP_RECV},
        {"c10d::barrier", RS_OP_BARRIER},
        {"gloo:all_to_all", RS_OP_ALL_TO_ALL},
        {"nccl:send 0->1", RS_OP_SEND},
        {"nccl:recv 1<-0", RS_OP_RECV},
        {"allreduce", RS_OP_ALL_REDUCE},
        {"_broadcast_oop", RS_OP_BROADCAST},
        {"all_to_allv", RS_OP_ALL_TO_ALL},
        {"wait", RS_OP_UNKNOWN},
        {"init", RS_OP_UNKNOWN},
        {"coalesced", RS_OP_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(rs_op_type_of_name(cases[i].name, strlen(cases[i].name)), cases[i].type);
    for (int type = 0; type < RS_OP_TYPE_COUNT; type++) {
        const char *text = rs_op_type_text((enum rs_op_type)type);
        assert_int_equal(rs_op_type_of_text(text, strlen(text)), type);
    }
}

static enum rs_host_name host(const char *name)
{
    return rs_classify_host(name, strlen(name));
}

static void host_rows_are_told_apart(void **unused)
{
    (void)unused;
    assert_int_equal(host("ProfilerStep#12"), RS_HOST_PROFILER_STEP);
    assert_int_equal(host("Optimizer.step#AdamW.step"), RS_HOST_OPTIMIZER_STEP);
    assert_int_equal(host("Optimizer.zero_grad#AdamW.zero_grad"), RS_HOST_PLAIN);
    assert_int_equal(host("gloo:all_reduce"), RS_HOST_GLOO);
    assert_int_equal(host("nccl:all_reduce"), RS_HOST_ANNOTATION);
    assert_int_equal(host("c10d::allreduce_"), RS_HOST_CALL);
    assert_int_equal(host("c10d::work_wait"), RS_HOST_CALL_OTHER);
    assert_int_equal(host("_c10d_functional::wait_tensor"), RS_HOST_CALL_OTHER);
    assert_int_equal(host("record_param_comms"), RS_HOST_PARAM_COMMS);
    assert_int_equal(host("aten::mm"), RS_HOST_PLAIN);
    assert_int_equal(host(""), RS_HOST_PLAIN);
    int64_t number = -1;
    assert_true(rs_profiler_step_number("ProfilerStep#551", 16, &number));
    assert_int_equal(number, 551);
    assert_false(rs_profiler_step_number("ProfilerStep#", 13, &number));
    assert_false(rs_profiler_step_number("ProfilerStep#1x", 15, &number));
    assert_false(rs_profiler_step_number("ProfilerStep#9999999999999999999", 32, &number));
}

static struct text t(const char *text)
{
    return (struct text){text, strlen(text)};
}

static void dims_are_read_and_nonsense_is_unknown(void **unused)
{
    (void)unused;
    assert_int_equal(dims_elements(t("[256, 256]")), 65536);
    assert_int_equal(dims_elements(t("[[10],[10], [2,2]]")), 24);
    assert_int_equal(dims_elements(t("[0]")), 0);
    assert_int_equal(dims_elements(t("[]")), -1);
    assert_int_equal(dims_elements(t("[[1], 2]")), -1);
    assert_int_equal(dims_elements(t("[-1]")), -1);
    assert_int_equal(dims_elements(t("[1048576, 1048576, 1048576]")), -1);
    assert_int_equal(dims_elements(t("[[[[[[[[[[[[1]]]]]]]]]]]]")), -1);
    assert_int_equal(dims_elements(t("[1, 2")), -1);
    assert_int_equal(dims_elements(t("\"[3, 4]\"")), 12);
    struct text element;
    assert_true(dims_element(t("[[1,2], \"a,b\", 7]"), 1, &element));
    assert_int_equal(element.length, 3);
    assert_memory_equal(element.bytes, "a,b", 3);
    assert_true(dims_element(t("[[1,2], \"a,b\", 7]"), 0, &element));
    assert_int_equal(dims_elements(element), 2);
    assert_false(dims_element(t("[[1,2], \"a,b\", 7]"), 3, &element));
    assert_int_equal(dims_count(t("[[1,2], \"a\\\",b\", 7]")), 3);
    uint64_t by_name = 0, by_type = 1;
    assert_int_equal(dims_type_bytes(t("BFloat16"), &by_name), 2);
    assert_int_equal(dims_type_bytes(t("c10::BFloat16"), &by_type), 2);
    assert_true(by_name == by_type);
    assert_int_equal(dims_type_bytes(t("TensorList"), &by_type), 0);
    assert_true(by_type == 0);
}

static void kernels_of_experts_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum comm_expert part;
    } cases[] = {
        {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", COMM_EXPERT_MOVE},
        {"void deep_ep::internode::combine<false, 8, __nv_bfloat16>(int4*)", COMM_EXPERT_MOVE},
        {"void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)", COMM_EXPERT_MOVE},
        {"void dpsk::ep::internode::combine<true>(int)", COMM_EXPERT_MOVE},
        {"void deep_ep::intranode::notify_dispatch<8>(int const*, int*)", COMM_EXPERT_NOTIFY},
        {"void deep_ep::intranode::cached_notify_combine<8>(void**, int*)", COMM_EXPERT_NOTIFY},
        {"void deep_ep::internode::cached_notify<true>(int)", COMM_EXPERT_NOTIFY},
        {"void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)", COMM_EXPERT_LAYOUT},
        {"void deep_ep::internode_ll::clean_low_latency_buffer<256>(long*)", COMM_EXPERT_NONE},
        {"void deep_ep::", COMM_EXPERT_NONE},
        {"deep_ep::dispatcher()", COMM_EXPERT_NONE},
        {"void pplx::dispatch<1>(int)", COMM_EXPERT_NONE},
        {"dispatch", COMM_EXPERT_NONE},
        {"", COMM_EXPERT_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (comm_expert_of(cases[i].name, strlen(cases[i].name)) != cases[i].part)
            fail_msg("%s", cases[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_experts_are_told_apart),
        cmocka_unit_test(kernels_of_every_library_get_their_class),
        cmocka_unit_test(calls_and_arguments_name_their_operation),
        cmocka_unit_test(host_rows_are_told_apart),
        cmocka_unit_test(dims_are_read_and_nonsense_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
