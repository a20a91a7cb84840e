/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/reduce/reduce.h"
#include "tests/support/make_events.h"
#include "tests/support/rs_test.h"

enum { HEADER_BYTES = 24 };

/* Two step rows and one operation that the vendor's tool has written about. */
static void make_vendor(struct make_events *e)
{
    struct rs_provenance *vendor = rs_provenance_new();
    if (!vendor)
        abort();
    e->info.vendor = vendor;
    vendor->framework = make_string(e, "torch_npu");
    vendor->cann_version = make_string(e, "8.3.RC1");
    make_events_must(
        rs_mem_grow((void **)&vendor->steps, &vendor->step_capacity, 2, sizeof *vendor->steps));
    make_events_must(
        rs_mem_grow((void **)&vendor->comms, &vendor->comm_capacity, 1, sizeof *vendor->comms));
    for (int i = 0; i < 2; i++) {
        struct rs_vendor_step *row = &vendor->steps[vendor->step_count++];
        *row = (struct rs_vendor_step){.step = make_string(e, i ? "101" : "100"), .device = 3};
        for (int k = 0; k < RS_VENDOR_STEP_FIELDS; k++)
            row->ps[k] = rs_vendor_ps(1000.25 + 10 * i + k, 1e6);
        row->ps[8] = RS_VENDOR_UNKNOWN;
    }
    vendor->comms[vendor->comm_count++] = (struct rs_vendor_comm){
        .step = make_string(e, "step100"),
        .group = make_string(e, "12345678901234567606"),
        .name = make_string(e, "hcom_allReduce__606_0_1"),
        .is_p2p = true,
        .start = INT64_C(1790857026000000250),
        .elapse = rs_vendor_ps(0.11262, 1e9),
        .transit = rs_vendor_ps(0.1, 1e9),
        .wait = RS_VENDOR_UNKNOWN,
        .synchronization = 0,
        .idle = -5,
    };
}

/* A recording with a row in every table of a summary. */
static void make_recording(struct make_events *e)
{
    const uint32_t host = make_host_lane(e, 11);
    const uint32_t gpu[2] = {make_device_lane(e, 0, 84), make_device_lane(e, 1, 0)};
    e->info.host = make_string(e, "n1");
    e->info.generation = make_string(e, "hand-built");
    e->info.base_ns = INT64_C(1790857026000000000);
    e->info.world_size = 4;
    make_events_must(rs_trace_info_drop(&e->info, &e->strings, "made up", 3));
    for (int step = 0; step < 4; step++) {
        char name[32];
        const rs_ns at = step * INT64_C(1000);
        snprintf(name, sizeof name, "ProfilerStep#%d", step + 100);
        make_row(e, RS_KIND_USER_ANNOTATION, name, host, at, at + 1000);
        make_launched(e, "gemm", host, at + 10, gpu[step & 1],
                      (struct make_span){at + 20, at + 600});
        make_launched(e, "Memset (Device)", host, at + 15, gpu[0],
                      (struct make_span){at + 600, at + 610});
        make_row(e, RS_KIND_CPU_OP, "c10d::broadcast_", host, at + 30, at + 90);
        make_inputs(e, NULL, NULL, "[\"\", \"\", \"1\", \"0\"]");
        make_launched(e, "ncclDevKernel_Broadcast_RING_LL(...)", host, at + 40, gpu[0],
                      (struct make_span){at + 500, at + 700});
        struct rs_comm *comm = make_comm(e, "broadcast");
        comm->group_name = make_string(e, step & 1 ? "tp" : "dp");
        comm->group_ranks = make_string(e, step & 1 ? "[0, 1]" : "[0, 2]");
        comm->dtype = make_string(e, "Float");
        comm->in_nelems = comm->out_nelems = 1000 + step;
        comm->seq = step;
        comm->comms_id = UINT64_MAX - (uint64_t)step;
        comm->has =
            RS_COMM_HAS_IN_NELEMS | RS_COMM_HAS_OUT_NELEMS | RS_COMM_HAS_SEQ | RS_COMM_HAS_COMMS_ID;
    }
    make_row(e, RS_KIND_COMM_TASK, "", host, 3100, 3200);
    make_correlation(e, 4);
    struct rs_comm *task = make_comm(e, NULL);
    task->src = 0;
    task->dst = 1;
    task->has = RS_COMM_HAS_SRC | RS_COMM_HAS_DST;
    make_row(e, RS_KIND_COMM, "ring", host, 3000, 3300);
    make_correlation(e, 4);
    make_comm(e, "all_reduce")->transport = make_string(e, "TCP");
    make_vendor(e);
}

static enum rs_status try_reduce(struct make_events *e, struct rs_summary *summary)
{
    struct rs_reduce *reducer = NULL;
    struct rs_err err;
    enum rs_status status = rs_reduce_new(&e->strings, &e->lanes, &reducer);
    if (status == RS_OK)
        status = rs_reduce_add(reducer, &e->batch, &err);
    if (status == RS_OK)
        status = rs_reduce_finish(reducer, &e->info, summary, &err);
    rs_reduce_free(&reducer);
    return status;
}

static void make_summary(struct rs_summary *summary, struct rs_buf *bytes)
{
    struct make_events e;
    struct rs_err err;
    make_events_init(&e);
    make_recording(&e);
    assert_ok(try_reduce(&e, summary));
    make_events_fini(&e);
    if (bytes)
        assert_ok(rs_summary_encode(summary, bytes, &err));
}

static void seal(struct rs_buf *bytes)
{
    const uint32_t crc = rs_crc32c(0, bytes->data + 16, bytes->length - 16);
    for (int i = 0; i < 4; i++)
        bytes->data[12 + i] = (uint8_t)(crc >> (8 * i));
}

static void a_summary_survives_its_bytes(void **unused)
{
    (void)unused;
    struct rs_summary made, read;
    struct rs_buf bytes = {0}, again = {0};
    struct rs_err err;
    make_summary(&made, &bytes);
    assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err));
    assert_ok(rs_summary_encode(&read, &again, &err));
    assert_int_equal(bytes.length, again.length);
    assert_memory_equal(bytes.data, again.data, bytes.length);
    assert_int_equal(made.step_count, 8);
    assert_int_equal(read.step_count, made.step_count);
    assert_int_equal(made.device_count, 2);
    for (size_t i = 0; i < made.device_count; i++) {
        assert_int_equal(read.devices[i].device, made.devices[i].device);
        assert_int_equal(read.devices[i].window_end, made.devices[i].window_end);
        assert_int_equal(read.devices[i].busy, made.devices[i].busy);
        assert_int_equal(read.devices[i].overlapped, made.devices[i].overlapped);
    }
    for (size_t i = 0; i < made.step_count; i++) {
        assert_int_equal(read.steps[i].step, made.steps[i].step);
        assert_int_equal(read.steps[i].preparing, made.steps[i].preparing);
        assert_int_equal(read.steps[i].idle_tail, made.steps[i].idle_tail);
        assert_int_equal(read.steps[i].window_start, made.steps[i].window_start);
        assert_int_equal(read.steps[i].cpu_ns, made.steps[i].cpu_ns);
        assert_int_equal(read.steps[i].has_work, made.steps[i].has_work);
    }
    assert_int_equal(made.op_count, 5);
    assert_int_equal(read.op_count, made.op_count);
    for (size_t i = 0; i < made.op_count; i++) {
        const struct rs_comm_op *a = &made.ops[i], *b = &read.ops[i];
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->flags, b->flags);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->start, b->start);
        assert_int_equal(a->end, b->end);
        assert_int_equal(a->root, b->root);
        assert_int_equal(a->task_count, b->task_count);
        assert_true(a->comms_id == b->comms_id && a->shape_hash == b->shape_hash);
        assert_string_equal(rs_strtab_text(&made.strings, a->name),
                            rs_strtab_text(&read.strings, b->name));
    }
    assert_int_equal(made.span_count, 8);
    assert_int_equal(read.span_count, made.span_count);
    for (size_t i = 0; i < made.span_count; i++) {
        const struct rs_span_row *a = &made.spans[i], *b = &read.spans[i];
        assert_int_equal(a->step, b->step);
        assert_int_equal(a->order, b->order);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->launch_first, b->launch_first);
        assert_int_equal(a->launch_last, b->launch_last);
        assert_int_equal(a->start, b->start);
        assert_int_equal(a->end, b->end);
        assert_int_equal(a->busy, b->busy);
        assert_int_equal(a->count, b->count);
        assert_true(a->signature == b->signature);
        assert_int_equal(a->top_ns, b->top_ns);
        assert_string_equal(rs_strtab_text(&made.strings, a->top_name),
                            rs_strtab_text(&read.strings, b->top_name));
    }
    assert_int_equal(read.ops[0].root, 2); /* rank 1 of [0, 2] */
    assert_int_equal(read.group_count, 2);
    assert_int_equal(read.groups[0].ranks[1], 2);
    assert_int_equal(read.task_count, 1);
    assert_int_equal(read.tasks[0].dst, 1);
    assert_int_equal(read.kernel_count, made.kernel_count);
    assert_int_equal(read.trace.base_ns, INT64_C(1790857026000000000));
    assert_string_equal(rs_strtab_text(&read.strings, read.trace.host), "n1");
    assert_int_equal(read.trace.drops[0].count, 3);
    assert_int_equal(read.step_origin, RS_STEPS_PROFILER_STEP);
    rs_summary_fini(&made);
    rs_summary_fini(&read);
    rs_buf_fini(&bytes);
    rs_buf_fini(&again);
}

static void the_same_events_give_the_same_bytes(void **unused)
{
    (void)unused;
    struct rs_summary summary;
    struct rs_buf first = {0}, second = {0};
    make_summary(&summary, &first);
    rs_summary_fini(&summary);
    make_summary(&summary, &second);
    rs_summary_fini(&summary);
    /* correlation ids of the two differ: no trace of them is in the bytes */
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.data, second.data, first.length);
    rs_buf_fini(&first);
    rs_buf_fini(&second);
}

/* The header as SUMMARY.md draws it, and the smallest body there is. */
static void an_empty_summary_is_as_documented(void **unused)
{
    (void)unused;
    struct rs_summary summary, read;
    struct rs_buf bytes = {0};
    struct rs_err err;
    assert_ok(rs_summary_init(&summary));
    assert_ok(rs_summary_encode(&summary, &bytes, &err));
    static const uint8_t body[] = {
        0,                               /* strings */
        0x01, 0x00, 0x01,                /* rank -1, source unknown, world size -1 */
        0xfe, 0xff, 0xff, 0xff, 0x1f,    /* host: 2^32 - 1, zigzag */
        0xfe, 0xff, 0xff, 0xff, 0x1f,    /* trace_id */
        0xfe, 0xff, 0xff, 0xff, 0x1f,    /* backend */
        0xfe, 0xff, 0xff, 0xff, 0x1f,    /* generation */
        0xfe, 0xff, 0xff, 0xff, 0x1f,    /* metadata */
        0,    0,    0,                   /* has_time_base, base_ns, is_partial */
        0xfe, 0xff, 0xff, 0xff, 0x1f,    /* partial_reason */
        0,    0,    0,    0,             /* events, rows, input and raw bytes */
        0,    0,                         /* drops, groups */
        0,    0,    0,                   /* origin, start, end */
        0,    0,    0,    0,    0,    0, /* six tables, */
        0,                               /* and the spans */
        0,                               /* no vendor has said anything */
    };
    assert_int_equal(bytes.length, HEADER_BYTES + sizeof body);
    assert_memory_equal(bytes.data, "RSSUMMRY\3\0\0\0", 12);
    assert_int_equal(bytes.data[16], sizeof body);
    assert_memory_equal(bytes.data + HEADER_BYTES, body, sizeof body);
    assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err));
    assert_int_equal(read.trace.rank, -1);
    rs_summary_fini(&read);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
}

static void a_flipped_bit_is_found_out(void **unused)
{
    (void)unused;
    struct rs_summary summary, read;
    struct rs_buf bytes = {0};
    struct rs_err err;
    make_summary(&summary, &bytes);
    for (size_t bit = 0; bit < bytes.length * 8; bit++) {
        bytes.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_true(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err) < 0);
        bytes.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    for (size_t length = 0; length < bytes.length; length++)
        assert_status(rs_summary_decode(rs_view_of(bytes.data, length), &read, &err), RS_FORMAT);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
}

/* With a good checksum over bad bytes: whatever is read keeps its promises. */
static void a_liar_is_refused_or_harmless(void **unused)
{
    (void)unused;
    struct rs_summary summary, read;
    struct rs_buf bytes = {0};
    struct rs_err err;
    size_t refused = 0;
    make_summary(&summary, &bytes);
    for (size_t at = HEADER_BYTES; at < bytes.length; at++) {
        static const uint8_t lies[] = {0x00, 0x7f, 0x80, 0xff, 0x01};
        const uint8_t honest = bytes.data[at];
        for (size_t i = 0; i < sizeof lies; i++) {
            bytes.data[at] = lies[i];
            seal(&bytes);
            if (rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err) != RS_OK) {
                refused++;
                continue;
            }
            for (size_t k = 0; k < read.op_count; k++) {
                assert_true(read.ops[k].end >= read.ops[k].start);
                assert_true(read.ops[k].type < RS_OP_TYPE_COUNT);
                assert_true(read.ops[k].group == RS_NO_GROUP ||
                            read.ops[k].group < read.group_count);
                assert_true((uint64_t)read.ops[k].task_first + read.ops[k].task_count <=
                            read.task_count);
                assert_true(read.ops[k].name == RS_STR_NONE ||
                            read.ops[k].name < read.strings.count);
            }
            const struct rs_provenance *vendor = read.trace.vendor;
            for (size_t k = 0; vendor && k < vendor->comm_count; k++) {
                assert_true(vendor->comms[k].name == RS_STR_NONE ||
                            vendor->comms[k].name < read.strings.count);
                assert_true(vendor->comms[k].wait >= -RS_VENDOR_LIMIT &&
                            vendor->comms[k].wait <= RS_VENDOR_LIMIT);
            }
            rs_summary_fini(&read);
        }
        bytes.data[at] = honest;
    }
    assert_true(refused > bytes.length);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
}

static void what_the_vendor_reported_comes_back(void **unused)
{
    (void)unused;
    struct rs_summary made, read;
    struct rs_buf bytes = {0};
    struct rs_err err;
    make_summary(&made, &bytes);
    assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err));
    const struct rs_provenance *vendor = read.trace.vendor;
    assert_non_null(vendor);
    assert_string_equal(rs_strtab_text(&read.strings, vendor->framework), "torch_npu");
    assert_string_equal(rs_strtab_text(&read.strings, vendor->cann_version), "8.3.RC1");
    assert_true(vendor->framework_version == RS_STR_NONE);
    assert_int_equal(vendor->step_count, 2);
    assert_string_equal(rs_strtab_text(&read.strings, vendor->steps[1].step), "101");
    assert_int_equal(vendor->steps[1].device, 3);
    assert_int_equal(vendor->steps[1].ps[0], INT64_C(1010250000));
    assert_int_equal(vendor->steps[1].ps[7], INT64_C(1017250000));
    assert_true(vendor->steps[1].ps[8] == RS_VENDOR_UNKNOWN);
    assert_int_equal(vendor->comm_count, 1);
    assert_string_equal(rs_strtab_text(&read.strings, vendor->comms[0].name),
                        "hcom_allReduce__606_0_1");
    assert_string_equal(rs_strtab_text(&read.strings, vendor->comms[0].group),
                        "12345678901234567606");
    assert_true(vendor->comms[0].is_p2p);
    assert_int_equal(vendor->comms[0].start, INT64_C(1790857026000000250));
    assert_int_equal(vendor->comms[0].elapse, 112620000);
    assert_true(vendor->comms[0].wait == RS_VENDOR_UNKNOWN);
    assert_int_equal(vendor->comms[0].idle, -5);
    rs_summary_fini(&made);
    rs_summary_fini(&read);
    rs_buf_fini(&bytes);
}

/* Version 1 ended before the appendix. An appendix of another version is not guessed at. */
static void summaries_without_the_appendix_are_read(void **unused)
{
    (void)unused;
    struct rs_summary summary, read;
    struct rs_buf bytes = {0};
    struct rs_err err;
    assert_ok(rs_summary_init(&summary));
    assert_ok(rs_summary_encode(&summary, &bytes, &err));
    bytes.data[bytes.length - 1] = 4; /* the version of the appendix */
    seal(&bytes);
    assert_status(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err), RS_VERSION);
    bytes.length -= 2; /* and the empty table of spans, which came later */
    bytes.data[16] -= 2;
    seal(&bytes);
    assert_status(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err), RS_FORMAT);
    bytes.data[8] = 1;
    seal(&bytes);
    assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err));
    assert_null(read.trace.vendor);
    rs_summary_fini(&read);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
}

/* Version 2: no spans, and steps without their last column. The column is found by what changes with it. */
static void summaries_without_spans_are_read(void **unused)
{
    (void)unused;
    struct rs_summary summary, read;
    struct rs_buf bytes = {0}, other = {0};
    struct rs_err err;
    assert_ok(rs_summary_init(&summary));
    assert_ok(
        rs_mem_grow((void **)&summary.steps, &summary.step_capacity, 1, sizeof *summary.steps));
    summary.steps[0] =
        (struct rs_step_row){.step = 7, .host_end = 1000, .cpu_ns = -1, .input_ns = 5};
    summary.step_count = 1;
    assert_ok(rs_summary_encode(&summary, &bytes, &err));
    summary.steps[0].input_ns = 6;
    assert_ok(rs_summary_encode(&summary, &other, &err));
    assert_int_equal(bytes.length, other.length);
    size_t at = HEADER_BYTES;
    while (bytes.data[at] == other.data[at])
        at++;
    memmove(bytes.data + at, bytes.data + at + 1, bytes.length - at - 1);
    bytes.length -= 2; /* the column; the spans' count, which was the last but one */
    bytes.data[bytes.length - 1] = 0;
    bytes.data[16] -= 2;
    seal(&bytes);
    assert_status(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err), RS_FORMAT);
    bytes.data[8] = 2;
    assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err));
    assert_int_equal(read.step_count, 1);
    assert_int_equal(read.steps[0].step, 7);
    assert_int_equal(read.steps[0].host_end, 1000);
    assert_int_equal(read.steps[0].cpu_ns, -1);
    assert_int_equal(read.steps[0].input_ns, -1); /* nobody has looked */
    assert_int_equal(read.span_count, 0);
    rs_summary_fini(&read);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
    rs_buf_fini(&other);
}

/* Version 4 is version 3 and when the profile was written; without that it is version 3, to the byte. */
static void the_end_of_writing_makes_version_4(void **unused)
{
    (void)unused;
    struct rs_summary summary, read;
    struct rs_buf bytes = {0}, before = {0};
    struct rs_err err;
    make_summary(&summary, &before);
    assert_int_equal(before.data[8], 3);
    summary.trace.written_ns = INT64_C(1700000000123456789);
    assert_ok(rs_summary_encode(&summary, &bytes, &err));
    assert_int_equal(bytes.data[8], 4);
    assert_memory_equal(bytes.data + HEADER_BYTES, before.data + HEADER_BYTES,
                        before.length - HEADER_BYTES);
    assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err));
    assert_true(read.trace.written_ns == summary.trace.written_ns);
    assert_false(read.is_of_older_format);
    rs_summary_fini(&read);
    bytes.data[8] = 3;
    seal(&bytes);
    assert_status(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err), RS_FORMAT);
    before.data[8] = 4;
    seal(&before);
    assert_status(rs_summary_decode(rs_view_of(before.data, before.length), &read, &err),
                  RS_FORMAT);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
    rs_buf_fini(&before);
}

/* Version 5 is version 4, also without an end of writing, and data loading within steps; where there was none it is as before. */
static void loading_within_steps_makes_version_5(void **unused)
{
    (void)unused;
    struct rs_summary summary, read;
    struct rs_buf bytes = {0}, before = {0};
    struct rs_err err;
    make_summary(&summary, &before);
    assert_true(summary.step_count > 1);
    for (size_t i = 0; i < summary.step_count; i++)
        summary.steps[i].input_inside_ns = i == 1 ? 123456 : -1;
    for (int i = 0; i < 2; i++) {
        summary.trace.written_ns = i * INT64_C(1700000000123456789);
        bytes.length = 0;
        assert_ok(rs_summary_encode(&summary, &bytes, &err));
        assert_int_equal(bytes.data[8], 5);
        assert_ok(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err));
        assert_true(read.trace.written_ns == summary.trace.written_ns);
        for (size_t k = 0; k < summary.step_count; k++)
            assert_int_equal(read.steps[k].input_inside_ns, k == 1 ? 123456 : -1);
        rs_summary_fini(&read);
    }
    bytes.data[bytes.length - 1] = 3; /* -2: neither a time nor unknown */
    seal(&bytes);
    assert_status(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err), RS_FORMAT);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
    rs_buf_fini(&before);
}

static void another_version_is_reported(void **unused)
{
    (void)unused;
    struct rs_summary summary, read;
    struct rs_buf bytes = {0};
    struct rs_err err;
    make_summary(&summary, &bytes);
    bytes.data[8] = 6;
    assert_status(rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err), RS_VERSION);
    rs_summary_fini(&summary);
    rs_buf_fini(&bytes);
}

/* ---- no memory ---- */

static size_t allowed;

static bool gate(void)
{
    if (!allowed)
        return false;
    allowed--;
    return true;
}

static void each_failing_allocation_is_a_status(void **unused)
{
    (void)unused;
    struct make_events e;
    struct rs_summary summary, read;
    struct rs_err err;
    struct rs_buf bytes = {0};
    make_events_init(&e);
    make_recording(&e);
    enum rs_status status = RS_NOMEM;
    size_t tries = 0;
    for (; status == RS_NOMEM; tries++) {
        allowed = tries;
        rs_mem_set_gate(gate);
        status = try_reduce(&e, &summary);
        rs_mem_set_gate(NULL);
    }
    assert_ok(status);
    assert_true(tries > 50);
    assert_ok(rs_summary_encode(&summary, &bytes, &err));
    status = RS_NOMEM;
    for (tries = 0; status == RS_NOMEM; tries++) {
        allowed = tries;
        rs_mem_set_gate(gate);
        status = rs_summary_decode(rs_view_of(bytes.data, bytes.length), &read, &err);
        rs_mem_set_gate(NULL);
    }
    assert_ok(status);
    assert_true(tries > 10);
    rs_summary_fini(&summary);
    rs_summary_fini(&read);
    rs_buf_fini(&bytes);
    make_events_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_summary_survives_its_bytes),
        cmocka_unit_test(the_same_events_give_the_same_bytes),
        cmocka_unit_test(an_empty_summary_is_as_documented),
        cmocka_unit_test(a_flipped_bit_is_found_out),
        cmocka_unit_test(a_liar_is_refused_or_harmless),
        cmocka_unit_test(what_the_vendor_reported_comes_back),
        cmocka_unit_test(summaries_without_the_appendix_are_read),
        cmocka_unit_test(summaries_without_spans_are_read),
        cmocka_unit_test(the_end_of_writing_makes_version_4),
        cmocka_unit_test(loading_within_steps_makes_version_5),
        cmocka_unit_test(another_version_is_reported),
        cmocka_unit_test(each_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
