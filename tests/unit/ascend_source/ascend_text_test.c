/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form: both generations of layers, tables with every kind of quoting, what is missing or cut.
 */
#include "ascend/source/csv.h"
#include "tests/unit/ascend_source/ascend_support.h"

#define T(us) (INT64_C(1750000000000000000) + (us)*1000)
#define U     "1750000000000"

#define NAME(pid, what)                                                                            \
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" #pid                                        \
    ",\"tid\":0,\"args\":{\"name\":\"" what "\"}},"
#define LABEL(pid, what)                                                                           \
    "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":" #pid                                      \
    ",\"tid\":0,\"args\":{\"labels\":\"" what "\"}},"
#define THREAD(pid, tid, what)                                                                     \
    "{\"name\":\"thread_name\",\"pid\":" #pid ",\"tid\":" #tid ",\"args\":{\"name\":\"" what       \
    "\"},\"ph\":\"M\"},"
#define ROW(pid, tid, name, ts, dur, args)                                                         \
    "{\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":" #tid ",\"ts\":\"" U ts "\",\"dur\":" dur    \
    ",\"args\":{" args "},\"ph\":\"X\"}"

/* Names stand behind the rows that need them, as they may. */
#define TRACE(hccl, label)                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   \
    "[{\"ph\":\"X\",\"name\":\"ProfilerStep#7\",\"pid\":1,\"tid\":5,\"ts\":\"" U                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
    "000.000\",\"dur\":200.0,"                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               \
    "\"cat\":\"cpu_op\",\"args\":{}},"                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       \
    "{\"ph\":\"s\",\"bp\":\"e\",\"name\":\"torch_to_npu\",\"id\":1750000000000050500,\"pid\":1,\"tid\":5,"                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   \
    "\"ts\":\"" U "005.000\",\"cat\":\"async_npu\"}," ROW(                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   \
        2, 6, "Node@launch",                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 \
        "010.000", "2.0", "\"connection_id\": 100") "," ROW(3, 9, "MatMul_1", "050.500", "9.4996", "\"Task Type\":\"AI_CORE\",\"note\":\"} , {\\\" \",\"connection_id\":100") "," ROW(3,                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     \
                                                                                                                                                                                      9,                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     \
                                                                                                                                                                                      "EVENT_RECORD",                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        \
                                                                                                                                                                                      "049.000", "0.5", "\"Task Type\":\"EVENT_RECORD_SQE\",\"connection_id\":100") "," ROW(3, 8, "MEMCPY_ASYNC", "055.000", "1", "\"Task Type\":\"SDMA_SQE\",\"connection_id\":103") "," ROW(4,                                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
                                                                                                                                                                                                                                                                                                                                                                              0,                                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
                                                                                                                                                                                                                                                                                                                                                                              "hcom_receive__606_0_1", "070.000", "50.00003125", "\"connection_id\":101,\"data_type\":\"FP16\",\"count\":1000") "," ROW(4,                                                                                                                                                                                                                                                                                                                                                                   \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        2,                                                                                                                                                                                                                                                                                                                                                                   \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        "Memcpy",                                                                                                                                                                                                                                                                                                                                                            \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        "080.000", "10.5", "\"task type\":\"Memcpy\",\"src rank\":1,\"dst rank\":0,\"size(Byte)\":2000,\"link type\":\"HCCS\"") "," ROW(5, 0, "Computing", "050.500", "9.5", "") "," ROW(5, 1, "Communication", "070.000", "50.0", "") "," ROW(5, 2, "Communication(Not Overlapped)", "070.000", "50.0", "") "," ROW(5, 3, "Free", "060.000", "10.0", "") "," NAME(1,        \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   "Python") \
        NAME(2, "CANN") NAME(3, "Ascend Hardware") NAME(4, hccl) NAME(                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       \
            5, "Overlap Analysis") LABEL(3, label) LABEL(4, label) LABEL(5, label)                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                           \
            THREAD(4, 0, "Group 0 Communication") THREAD(4, 1, "Plane 0") THREAD(                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            \
                4, 2,                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        \
                "Plane 1") "{\"ph\":\"C\",\"name\":\"NPU MEM\",\"pid\":6,\"tid\":0,\"ts\":17.5,\"args\":{\"KB\":0.0}}]"

static const char groups[] =
    "{\"parallel_group_info\":{\"comm0\":{\"group_name\":\"pp\",\"group_rank\":1,"
    "\"global_ranks\":[0,2]}},\"trace_id\":\"cap-1\"}";

/* One operation with all that the format has, and the vendor's sum, which has neither start nor bandwidth. */
static void communication_json(const struct place *place, const char *hash, const char *transit)
{
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "{\"step7\":{\"p2p\":{\"hcom_receive__606_0_1@%s\":{\"Communication Time Info\":"
        "{\"Start Timestamp(us)\":1750000000000070.0,\"Elapse Time(ms)\":0.05,%s"
        "\"Wait Time(ms)\":9,\"Synchronization Time(ms)\":8,\"Idle Time(ms)\":0.04,"
        "\"Wait Time Ratio\":0.9989,\"Synchronization Time Ratio\":0.9988},"
        "\"Communication Bandwidth Info\":{}},\"Total Op Info\":"
        "{\"Communication Time Info\":{\"Elapse Time(ms)\":0.05,\"Transit Time(ms)\":0.01,"
        "\"Wait Time(ms)\":9,\"Synchronization Time(ms)\":8,\"Idle Time(ms)\":0.04,"
        "\"Wait Time Ratio\":0.9989,\"Synchronization Time Ratio\":0.9988},"
        "\"Communication Bandwidth Info\":{}}},\"collective\":{}}}",
        hash, transit);
    put_file(place->output, "communication.json", text);
}

#define TRANSIT "\"Transit Time(ms)\":0.01,"

static void both_generations_of_layers_are_read(void **state)
{
    (void)state;
    static const char *const traces[] = {TRACE("HCCL", "NPU"), TRACE("Communication", "NPU 3")};
    char hash[RS_ASCEND_HASH_BYTES];
    rs_ascend_group_hash("comm0", hash);
    for (int i = 0; i < 2; i++) {
        struct place place;
        make_place(&place, 2);
        put_file(place.output, "trace_view.json", traces[i]);
        put_file(place.rank, "profiler_metadata.json", groups);
        communication_json(&place, hash, TRANSIT);
        struct seen *seen = read_place(&place, 0);
        assert_status(seen->status, RS_OK);
        assert_int_equal(the_row(seen, RS_KIND_USER_ANNOTATION, "ProfilerStep#7")->end, T(200));
        const struct seen_row *kernel = the_row(seen, RS_KIND_KERNEL, "MatMul_1");
        assert_int_equal(kernel->start, T(50) + 500);
        assert_int_equal(kernel->end - kernel->start, 9500); /* rounded, not cut */
        assert_int_equal(kernel->correlation, 100);
        assert_int_equal(kernel->lane.device, i ? 3 : 0);
        assert_int_equal(the_row(seen, RS_KIND_STEP_WINDOW, "ProfilerStep")->start, T(49));
        assert_int_equal(the_row(seen, RS_KIND_MEMCPY, "MEMCPY_ASYNC")->correlation, 103);
        const struct seen_row *op = the_row(seen, RS_KIND_KERNEL, "hcom_receive__606_0_1");
        assert_string_equal(op->group, hash);
        assert_string_equal(op->ranks, "[0, 2]");
        assert_int_equal(op->comm.src, 0);
        assert_int_equal(op->comm.out_nelems, 1000);
        assert_int_equal(op->end, T(120));
        const struct seen_row *hop = the_row(seen, RS_KIND_COMM_TASK, "hcom_receive__606_0_1");
        assert_int_equal(hop->comm.src, 2);
        assert_int_equal(hop->comm.dst, 0);
        assert_int_equal(hop->end - hop->start, 10500);
        assert_string_equal(rs_strtab_text(&seen->stream.strings, seen->stream.info.host), "node7");
        assert_string_equal(rs_strtab_text(&seen->stream.strings, seen->stream.info.trace_id),
                            "cap-1");
        forget(seen);
        tmp_dir_remove(place.root);
    }
}

static const struct seen_row *row_of(const struct seen *seen, const char *category,
                                     const char *name, size_t nth)
{
    for (size_t i = 0; i < seen->count; i++)
        if (strcmp(seen->rows[i].category, category) == 0 &&
            strcmp(seen->rows[i].name, name) == 0 && nth-- == 0)
            return &seen->rows[i];
    fail_msg("no row %zu of %s %s", nth, category, name);
    return NULL;
}

static void put_tables(const struct place *place)
{
    put_file(
        place->output, "memory_record.csv",
        "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Stream Ptr,Device Type\r\n"
        "PTA,1750000000000080.250\t,1.5,2.0,17,NPU:3\r\n"
        "APP,1750000000000081.000\t,,4.0,,NPU:3\r\n"
        "APP,no time,,4.0,,NPU:3\r\n"
        "APP,1750000000000082.000\t,,,,NPU:3");
    put_file(place->output,
             "operator_memory.csv", /* columns in an order of their own, one of them new */
             "New,Release Time(us),Name,Size(KB),Allocation Time(us),Device Type\n"
             "\"\"\"a, b\"\"\",1750000000000090.0\t,aten::empty,0.5,1750000000000085.0\t,NPU:3\n"
             ",,aten::add,2,1750000000000086.0,NPU:3\n");
    put_file(
        place->output, "nic.csv",
        "Device_id,Timestamp(us),Bandwidth(MB/s),rxPacket/s,funcId\n3,1750000000000095,12500,7,0\n");
    put_file(place->output, "operator_details_slice_1.csv",
             "Name,Input Shapes,Call Stack,Host Self Duration(us)\n"
             "aten::mm,\"\"\"32,3\"\"\",\"f(x):\n  g\",3.5\n");
    put_file(place->output, "hccs.csv", "Mode,Max,Min,Average\nTx(MB/s),5,N/A,2.5\n");
    put_file(place->output, "minddata.csv", "what\n1\n");
    put_file(place->output, "memory_recording.csv", "what\n1\n"); /* begins like a known one */
}

static int64_t dropped(const struct seen *seen, const char *reason)
{
    const struct rs_trace_info *info = &seen->stream.info;
    for (size_t i = 0; i < info->drop_count; i++)
        if (strcmp(rs_strtab_text(&seen->stream.strings, info->drops[i].reason), reason) == 0)
            return info->drops[i].count;
    return 0;
}

static void tables_are_for_the_lossless_reading(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    put_file(place.output, "trace_view.json", TRACE("HCCL", "NPU 3"));
    put_tables(&place);
    struct seen *brief = read_place(&place, 0);
    struct seen *seen = read_place(&place, RS_SOURCE_LOSSLESS);
    assert_status(seen->status, RS_OK);
    assert_int_equal(count_kind(brief, RS_KIND_COUNTER) + count_kind(brief, RS_KIND_MEMORY), 0);
    assert_int_equal(brief->stream.info.rows_read, seen->stream.info.rows_read);
    assert_int_equal(brief->stream.info.events_read, seen->stream.info.events_read);
    const struct seen_row *row = row_of(seen, "memory_record", "memory allocated", 0);
    assert_int_equal(row->kind, RS_KIND_COUNTER);
    assert_int_equal(row->start, T(80) + 250);
    assert_int_equal(row->bytes, 1572864);
    assert_int_equal(row->lane.device, 3);
    assert_non_null(strstr(row->extra, "\"Component\":\"PTA\""));
    assert_non_null(strstr(row->extra, "\"Stream Ptr\":17"));
    row = row_of(seen, "memory_record", "memory reserved", 1);
    assert_int_equal(row->bytes, 4194304);
    assert_non_null(strstr(row->extra, "\"Component\":\"APP\""));
    assert_int_equal(row_of(seen, "memory_record", "memory", 0)->bytes, -1);
    row = row_of(seen, "operator_memory", "aten::empty", 0);
    assert_int_equal(row->kind, RS_KIND_MEMORY);
    assert_int_equal(row->bytes, 512);
    assert_int_equal(row->start, T(85));
    assert_non_null(strstr(row->extra, "\"New\":\"\\\"a, b\\\"\""));
    row = row_of(seen, "operator_memory", "aten::empty", 1);
    assert_int_equal(row->bytes, -512);
    assert_int_equal(row->start, T(90));
    assert_string_equal(row->extra, "");
    assert_int_equal(row_of(seen, "operator_memory", "aten::add", 0)->bytes, 2048);
    assert_int_equal(count_kind(seen, RS_KIND_MEMORY), 3); /* aten::add is never released */
    row = row_of(seen, "nic", "NIC", 0);
    assert_int_equal(row->start, T(95));
    assert_non_null(strstr(row->extra, "\"rxPacket/s\":7"));
    row = row_of(seen, "operator_details", "aten::mm", 0);
    assert_int_equal(row->lane.kind, RS_LANE_HOST);
    assert_non_null(strstr(row->extra, "f(x):\\n  g"));
    row = row_of(seen, "hccs", "Tx(MB/s)", 0);
    assert_true(row->end > row->start);
    assert_non_null(strstr(row->extra, "\"Min\":\"N/A\""));
    row = the_row(seen, RS_KIND_COUNTER, "NPU MEM"); /* of the trace */
    assert_string_equal(row->extra, "\"KB\":0.0");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dropped(i ? seen : brief, "a table that is not known: minddata.csv"), 1);
        assert_int_equal(
            dropped(i ? seen : brief, "a table that is not known: memory_recording.csv"), 1);
    }
    forget(brief);
    forget(seen);
    tmp_dir_remove(place.root);
}

/* A row without a time or a size is there, and the first row of a table tells its columns. */
static void no_row_of_a_table_is_lost(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    put_file(place.output, "trace_view.json", TRACE("HCCL", "NPU 3"));
    put_file(place.output, "kernel_details.csv",
             "Step Id,Device_id,Stream ID,Name,Accelerator Core,Start Time(us),Duration(us),"
             "Wait Time(us),aic_mac_ratio\n"
             "7,3,2,MatMul_1,AI_CORE,1750000000000050.500,9.500,,0.25\n");
    put_file(place.output, "memory_record.csv",
             "Component,Timestamp(us),Total Allocated(MB),Device Type\n"
             "WORKSPACE,,,NPU:3\nAPP,N/A,2.0,NPU:3\n");
    put_file(place.output, "operator_memory.csv",
             "Name,Size(KB),Allocation Time(us),Release Time(us),Device Type\n"
             "aten::add,,1750000000000086.0,,NPU:3\ncann::x,-2,,,NPU:3\n");
    struct seen *seen = read_place(&place, RS_SOURCE_LOSSLESS);
    assert_status(seen->status, RS_OK);
    const struct seen_row *row = row_of(seen, "kernel_details", "MatMul_1", 0);
    assert_int_equal(row->kind, RS_KIND_COUNTER);
    assert_int_equal(row->start, T(50) + 500);
    assert_string_equal(row->extra,
                        "\"Step Id\":7,\"Device_id\":3,\"Stream ID\":2,\"Name\":\"MatMul_1\","
                        "\"Accelerator Core\":\"AI_CORE\",\"Start Time(us)\":1750000000000050.500,"
                        "\"Duration(us)\":9.500,\"Wait Time(us)\":\"\",\"aic_mac_ratio\":0.25");
    row = row_of(seen, "memory_record", "memory", 0);
    assert_true(row->flags & RS_EVENT_NO_TIME);
    assert_string_equal(row->extra, "\"Component\":\"WORKSPACE\",\"Timestamp(us)\":\"\","
                                    "\"Total Allocated(MB)\":\"\",\"Device Type\":\"NPU:3\"");
    assert_non_null(strstr(row_of(seen, "memory_record", "memory allocated", 0)->extra,
                           "\"Timestamp(us)\":\"N/A\""));
    row = row_of(seen, "operator_memory", "aten::add", 0);
    assert_int_equal(row->kind, RS_KIND_COUNTER); /* no size: no event of the allocator */
    assert_non_null(strstr(row->extra, "\"Allocation Time(us)\":1750000000000086.0"));
    assert_non_null(
        strstr(row_of(seen, "operator_memory", "cann::x", 0)->extra, "\"Size(KB)\":-2"));
    forget(seen);
    tmp_dir_remove(place.root);
}

static void arguments_and_flows_travel(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    put_file(
        place.output, "trace_view.json",
        "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5,\"tid\":0,\"args\":{\"name\":\"Python\"}},"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":6,\"tid\":0,\"args\":{\"name\":"
        "\"Ascend Hardware\"}},"
        "{\"ph\":\"X\",\"name\":\"aten::mm\",\"pid\":5,\"tid\":8,\"ts\":\"1750000000000010.000\","
        "\"dur\":2,\"cat\":\"cpu_op\",\"args\":{\"Sequence number\":4,\n\"Input Dims\":\"2,3\","
        "\"Call stack\":\"a.py(1): f;\\r\\nb.py(2): g\"}},"
        "{\"ph\":\"s\",\"name\":\"torch_to_npu\",\"cat\":\"async_npu\",\"id\":77,\"pid\":5,\"tid\":8,"
        "\"ts\":\"1750000000000010.000\"},"
        "{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"torch_to_npu\",\"cat\":\"async_npu\",\"id\":\"77\","
        "\"pid\":6,\"tid\":2,\"ts\":\"1750000000000020.000\"}]");
    struct seen *brief = read_place(&place, 0);
    struct seen *seen = read_place(&place, RS_SOURCE_LOSSLESS);
    assert_string_equal(the_row(seen, RS_KIND_CPU_OP, "aten::mm")->extra,
                        "\"Sequence number\":4, \"Input Dims\":\"2,3\","
                        "\"Call stack\":\"a.py(1): f;\\r\\nb.py(2): g\"");
    const struct seen_row *start = the_row(seen, RS_KIND_FLOW_START, "torch_to_npu");
    const struct seen_row *end = the_row(seen, RS_KIND_FLOW_END, "torch_to_npu");
    assert_string_equal(start->category, "async_npu");
    assert_int_equal(start->correlation, 77);
    assert_int_equal(start->lane.kind, RS_LANE_HOST);
    assert_int_equal(end->correlation, 77);
    assert_int_equal(end->start, T(20));
    assert_int_equal(end->lane.thread, 2);
    assert_int_equal(count_kind(brief, RS_KIND_FLOW_START), 0);
    assert_int_equal(brief->stream.info.events_read, seen->stream.info.events_read);
    forget(brief);
    forget(seen);
    tmp_dir_remove(place.root);
}

/* The vendor's own figures stand beside the events, from whichever file has them. */
static void the_vendors_figures_are_kept(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    put_file(place.output, "trace_view.json", TRACE("HCCL", "NPU 3"));
    communication_json(&place, "12345678901234567606", TRANSIT);
    put_file(place.output, "step_trace_time.csv",
             "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,"
             "Stage,Bubble,Communication(Not Overlapped and Exclude Receive),Preparing\r\n"
             "3,7,9.5\t,50.25,0.0,50.25,10.000000000000002,70.0,50.0,0.25,1.0\r\n");
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_OK);
    const struct rs_provenance *vendor = seen->stream.info.vendor;
    const struct rs_strtab *strings = &seen->stream.strings;
    assert_non_null(vendor);
    assert_string_equal(rs_strtab_text(strings, vendor->framework), "torch_npu");
    assert_string_equal(rs_strtab_text(strings, vendor->framework_version), "2.7.1");
    assert_string_equal(rs_strtab_text(strings, vendor->cann_version), "8.3.RC1");
    assert_int_equal(vendor->step_count, 1);
    assert_string_equal(rs_strtab_text(strings, vendor->steps[0].step), "7");
    assert_int_equal(vendor->steps[0].device, 3);
    static const int64_t us[] = {9500000,  50250000, 0,      50250000, 10000000,
                                 70000000, 50000000, 250000, 1000000};
    static const char *const digits[] = {"9.5",  "50.25", "0.0",  "50.25", "10.000000000000002",
                                         "70.0", "50.0",  "0.25", "1.0"};
    for (size_t i = 0; i < RS_VENDOR_STEP_FIELDS; i++)
        assert_int_equal(vendor->steps[0].ps[i], us[i]);
    for (size_t i = 0; i < RS_VENDOR_STEP_FIELDS; i++) /* digit by digit, as the file has them */
        assert_string_equal(rs_strtab_text(strings, vendor->steps[0].digits[i]), digits[i]);
    assert_int_equal(vendor->comm_count, 2);
    assert_true(!vendor->comms[0].is_total && vendor->comms[1].is_total); /* "Total Op Info" */
    const struct rs_vendor_comm *comm = &vendor->comms[0];
    assert_string_equal(rs_strtab_text(strings, comm->name), "hcom_receive__606_0_1");
    assert_string_equal(rs_strtab_text(strings, comm->group), "12345678901234567606");
    assert_string_equal(rs_strtab_text(strings, comm->step), "step7");
    assert_true(comm->is_p2p);
    assert_int_equal(comm->start, T(70));
    assert_int_equal(comm->elapse, 50000000);
    assert_int_equal(comm->wait, INT64_C(9000000000));
    assert_int_equal(comm->transit, 10000000);
    assert_int_equal(comm->idle, 40000000);
    forget(seen);

    static const char *const lacking[] = {"", "\"Transit Time\":0.01,",
                                          "\"Transit Time(ms)\":null,"};
    for (size_t i = 0; i < sizeof lacking / sizeof lacking[0];
         i++) { /* unknown, and said; never 0 */
        communication_json(&place, "12345678901234567606", lacking[i]);
        seen = read_place(&place, 0);
        assert_status(seen->status, RS_PARTIAL);
        assert_non_null(
            strstr(rs_strtab_text(&seen->stream.strings, seen->stream.info.partial_reason),
                   "not every operation has a usable \"Transit Time(ms)\""));
        assert_true(seen->stream.info.vendor->comms[0].transit == RS_VENDOR_UNKNOWN);
        forget(seen);
    }

    /* keys that are a step and a number of megabytes: what is not is said */
    static const char *const odd[][2] = {{"the step7", "a step is named otherwise"},
                                         {"step", ""},
                                         {"step7", "a size in \"Size Distribution\" is no number"}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "{\"%s\":{\"p2p\":{},\"collective\":{\"Total Op Info\":{"
                       "\"Communication Time Info\":{\"Elapse Time(ms)\":0.05,\"Transit Time(ms)\":"
                       "0.01,\"Wait Time(ms)\":9,\"Synchronization Time(ms)\":8,"
                       "\"Idle Time(ms)\":0.04,\"Wait Time Ratio\":0.9,"
                       "\"Synchronization Time Ratio\":0.9},\"Communication Bandwidth Info\":{"
                       "\"HCCS\":{\"Transit Size(MB)\":1,\"Transit Time(ms)\":1,"
                       "\"Size Distribution\":{\"%s1.25\":[1,1.0]}}}}}}}",
                       odd[i][0], i == 2 ? "soon " : "");
        put_file(place.output, "communication.json", text);
        seen = read_place(&place, 0);
        assert_status(seen->status, odd[i][1][0] ? RS_PARTIAL : RS_OK);
        if (odd[i][1][0])
            assert_non_null(
                strstr(rs_strtab_text(&seen->stream.strings, seen->stream.info.partial_reason),
                       odd[i][1]));
        forget(seen);
    }

    put_file(place.output, "communication.json",
             "{\"step7\": [1, 2"); /* damaged: reported, not fatal */
    put_file(place.output, "step_trace_time.csv", "nothing of the kind");
    seen = read_place(&place, 0);
    assert_int_equal(seen->stream.info.vendor->comm_count, 0);
    assert_int_equal(seen->stream.info.vendor->step_count, 0);
    bool is_reported = false;
    for (size_t i = 0; i < seen->stream.info.drop_count; i++)
        is_reported =
            is_reported ||
            strcmp(rs_strtab_text(&seen->stream.strings, seen->stream.info.drops[i].reason),
                   "a file of the vendor's own figures that cannot be read") == 0;
    assert_true(is_reported);
    forget(seen);
    tmp_dir_remove(place.root);
}

/* At Level0 there is no communication.json: the digits of the name find the group of the metadata. */
static void name_finds_group_without_communication_json(void **state)
{
    (void)state;
    struct place place;
    char hash[RS_ASCEND_HASH_BYTES];
    char text[8192];
    make_place(&place, 2);
    rs_ascend_group_hash("comm0", hash);
    (void)snprintf(text, sizeof text, "%s", TRACE("Communication", "NPU 3"));
    for (char *at = text; (at = strstr(at, "__606_")); at++)
        memcpy(at + 2, hash + strlen(hash) - 3, 3);
    put_file(place.output, "trace_view.json", text);
    put_file(place.rank, "profiler_metadata.json", groups);
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_OK);
    size_t found = 0;
    for (size_t i = 0; i < seen->count; i++)
        found += seen->rows[i].kind == RS_KIND_KERNEL &&
                 (seen->rows[i].flags & RS_EVENT_COMMUNICATION) &&
                 strcmp(seen->rows[i].group, hash) == 0;
    assert_int_equal(found, 1);
    forget(seen);
    tmp_dir_remove(place.root);
}

static void operators_are_those_of_the_table(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    put_file(place.output, "trace_view.json", TRACE("HCCL", "NPU 3"));
    put_file(place.output, "kernel_details.csv",
             "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Stream ID,"
             "Input Shapes\r\n"
             "7,3,MatMul_1,MatMul,AI_CORE," U "050.500\t,9.5,9,\"\"\"32,3,224,224\"\"\"\r\n"
             "7,3,\"odd, \"\"named\"\"\r\nkernel\",X,AI_VECTOR_CORE," U "062.000\t,1.25\t,9,N/A\r\n"
             "7,3,hcom_receive__606_0_1,X,COMMUNICATION," U "070.000\t,50.0,9,N/A\r\n");
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_OK);
    assert_int_equal(count_kind(seen, RS_KIND_KERNEL), 3); /* two operators, one of HCCL */
    assert_int_equal(the_row(seen, RS_KIND_KERNEL, "MatMul_1")->correlation, 100);
    const struct seen_row *odd = the_row(seen, RS_KIND_KERNEL, "odd, \"named\"\r\nkernel");
    assert_int_equal(odd->start, T(62));
    assert_int_equal(odd->end - odd->start, 1250);
    forget(seen);
    tmp_dir_remove(place.root);
}

static void without_a_trace_operations_remain_and_steps_are_partial(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    communication_json(&place, "12345678901234567606", TRANSIT);
    put_file(
        place.output, "step_trace_time.csv",
        "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
        "Communication(Not Overlapped and Exclude Receive),Preparing\r\n7,1,2,3,4,5,6,7,8,9\r\n");
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_PARTIAL);
    const struct rs_trace_info *info = &seen->stream.info;
    assert_true(info->is_partial);
    const char *why = rs_strtab_text(&seen->stream.strings, info->partial_reason);
    assert_non_null(strstr(why, "no trace_view.json"));
    assert_non_null(strstr(why, "computing is not known"));
    assert_non_null(strstr(why, "the profiler's own"));
    assert_int_equal(info->vendor->step_count, 1);
    const struct seen_row *op = the_row(seen, RS_KIND_KERNEL, "hcom_receive__606_0_1");
    assert_string_equal(op->group, "12345678901234567606");
    assert_int_equal(op->start, T(70));
    assert_int_equal(op->end, T(120));
    const struct seen_row *step = the_row(seen, RS_KIND_USER_ANNOTATION, "ProfilerStep#7");
    assert_true(step->flags & RS_EVENT_UNFINISHED);
    forget(seen);
    tmp_dir_remove(place.root);
}

/* kernel_details.csv alone: operators, operations and steps are its own. */
static void without_a_trace_the_kernel_table_tells_computing_and_steps(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    put_file(place.rank, "profiler_metadata.json", groups);
    put_file(place.output, "kernel_details.csv",
             "Step Id,Device_id,Name,Accelerator Core,Start Time(us),Duration(us)\n"
             "7,3,MatMul_1,AI_CORE," U "050.500\t,9.5\n"
             "7,3,hcom_receive__606_0_1,COMMUNICATION," U "070.000\t,50.0\n"
             "8,3,MatMul_2,AI_CORE," U "150.000\t,10\n");
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_PARTIAL);
    const char *why = rs_strtab_text(&seen->stream.strings, seen->stream.info.partial_reason);
    assert_null(strstr(why, "computing is not known"));
    assert_null(strstr(why, "the profiler's own"));
    assert_int_equal(count_kind(seen, RS_KIND_KERNEL), 3);
    assert_true(the_row(seen, RS_KIND_KERNEL, "MatMul_2")->flags & RS_EVENT_COMPUTING);
    const struct seen_row *op = the_row(seen, RS_KIND_KERNEL, "hcom_receive__606_0_1");
    assert_true(op->has_comm && op->flags & RS_EVENT_COMMUNICATION);
    assert_int_equal(op->lane.device, 3);
    const struct seen_row *step = the_row(seen, RS_KIND_USER_ANNOTATION, "ProfilerStep#7");
    assert_int_equal(step->start, T(50) + 500);
    assert_int_equal(step->end, T(120));
    (void)the_row(seen, RS_KIND_USER_ANNOTATION, "ProfilerStep#8");
    forget(seen);
    tmp_dir_remove(place.root);
}

/* MindSpore's profiler of a CPU: operators of the host, times and lengths as strings, no step. */
static void operators_of_a_cpu_are_its_work(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    put_file(place.output, "trace_view.json",
             "[{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 2, \"tid\": 0, \"args\": "
             "{\"name\": \"CPU OP\"}}, {\"ph\": \"X\", \"name\": \"Default/BiasAdd-op0\", "
             "\"pid\": 2, \"tid\": 7, \"ts\": \"1750000000000050.070\", \"dur\": \"24.516\", "
             "\"cat\": \"\", \"args\": {\"type\": \"HostCpuOps\"}}]");
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_OK);
    const struct seen_row *row = the_row(seen, RS_KIND_CPU_OP, "Default/BiasAdd-op0");
    assert_int_equal(row->start, T(50) + 70);
    assert_int_equal(row->end - row->start, 24516);
    assert_int_equal(row->lane.thread, 7);
    forget(seen);
    tmp_dir_remove(place.root);
}

static void cut_files_give_what_is_whole(void **state)
{
    (void)state;
    static const char trace[] = TRACE("HCCL", "NPU 3");
    /* names first, so that the rows before the cut are known */
    const char *names = strstr(trace, "{\"ph\":\"M\"");
    char text[sizeof trace * 2];
    (void)snprintf(text, sizeof text, "[%s", names);
    char *end = strrchr(text, ']');
    (void)snprintf(end, sizeof text - (size_t)(end - text), ",%s", trace + 1);
    char *cut = strstr(text, "hcom_receive");
    assert_non_null(cut);
    *cut = '\0';
    struct place place;
    make_place(&place, 2);
    put_file(place.output, "trace_view.json", text);
    put_file(place.output, "communication.json", "{\"step7\":{\"p2p\":{\"hcom_rec");
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_PARTIAL);
    assert_true(seen->stream.info.is_partial);
    assert_int_equal(the_row(seen, RS_KIND_KERNEL, "MatMul_1")->start, T(50) + 500);
    assert_int_equal(count_kind(seen, RS_KIND_KERNEL), 1);
    forget(seen);
    tmp_dir_remove(place.root);
}

/* Stage counts from the first event of any kind, Free too; a receive is bubble. */
static void text_figures_follow_the_vendors_sums(void **state)
{
    (void)state;
    struct place place;
    char path[400];
    struct rs_err err = {0};
    struct rs_ascend_figures *figures = NULL;
    size_t count = 0;
    make_place(&place, 2);
    put_file(place.output, "trace_view.json", TRACE("Communication", "NPU 3"));
    (void)snprintf(path, sizeof path, "%s/trace_view.json", place.output);
    assert_ok(rs_ascend_text_figures(path, &figures, &count, &err));
    assert_int_equal(count, 1);
    assert_int_equal(figures[0].device, 3);
    assert_int_equal(figures[0].step, 7);
    assert_true(figures[0].computing == 9.5);
    assert_true(figures[0].communication == 50.0);
    assert_true(figures[0].overlapped == 0.0);
    assert_true(figures[0].free == 10.0);
    assert_true(figures[0].bubble == 50.00003125);
    assert_true(figures[0].communication_not_overlapped_exclude_receive == 0.0);
    assert_true(figures[0].stage == 69.5 - 50.00003125); /* us since 1970 hold quarters only */
    assert_true(figures[0].preparing == 50.5);
    rs_mem_free(figures);
    tmp_dir_remove(place.root);
}

static void tables_are_cut_up_as_written(void **state)
{
    (void)state;
    struct place place;
    char path[400];
    struct csv csv;
    struct rs_err err = {0};
    make_place(&place, 0);
    put_file(place.output, "t.csv",
             "\xef\xbb\xbfName, Value ,\"Quoted, too\"\n\n a\t,1\t,\"x\ny\"\r\nb,,\"\"\"\"\n,last");
    (void)snprintf(path, sizeof path, "%s/t.csv", place.output);
    assert_ok(csv_open(&csv, path, &err));
    assert_int_equal(csv_column(&csv, "Name"), 0);
    assert_int_equal(csv_column(&csv, "Value"), 1);
    assert_int_equal(csv_column(&csv, "Quoted, too"), 2);
    assert_int_equal(csv_column(&csv, "none"), CSV_NO_COLUMN);
    assert_true(csv_next(&csv));
    assert_string_equal(csv_cell(&csv, 0), "a");
    assert_string_equal(csv_cell(&csv, 1), "1");
    assert_string_equal(csv_cell(&csv, 2), "x\ny");
    assert_true(csv_next(&csv));
    assert_string_equal(csv_cell(&csv, 0), "b");
    assert_string_equal(csv_cell(&csv, 1), "");
    assert_string_equal(csv_cell(&csv, 2), "\"");
    assert_true(csv_next(&csv));
    assert_string_equal(csv_cell(&csv, 1), "last");
    assert_string_equal(csv_cell(&csv, 2), "");
    assert_false(csv_next(&csv));
    csv_close(&csv);
    put_file(place.output, "t.csv", "A,B\n1,2\n3,\"cut");
    assert_ok(csv_open(&csv, path, &err));
    assert_true(csv_next(&csv));
    assert_false(csv_next(&csv));
    assert_true(csv.is_cut);
    csv_close(&csv);
    put_file(place.output, "t.csv", "");
    assert_ok(csv_open(&csv, path, &err));
    assert_false(csv_next(&csv));
    csv_close(&csv);
    tmp_dir_remove(place.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_generations_of_layers_are_read),
        cmocka_unit_test(name_finds_group_without_communication_json),
        cmocka_unit_test(the_vendors_figures_are_kept),
        cmocka_unit_test(tables_are_for_the_lossless_reading),
        cmocka_unit_test(no_row_of_a_table_is_lost),
        cmocka_unit_test(arguments_and_flows_travel),
        cmocka_unit_test(operators_are_those_of_the_table),
        cmocka_unit_test(without_a_trace_operations_remain_and_steps_are_partial),
        cmocka_unit_test(without_a_trace_the_kernel_table_tells_computing_and_steps),
        cmocka_unit_test(operators_of_a_cpu_are_its_work),
        cmocka_unit_test(cut_files_give_what_is_whole),
        cmocka_unit_test(text_figures_follow_the_vendors_sums),
        cmocka_unit_test(tables_are_cut_up_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
