/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: hand-made frames are protobuf's own bytes; what is none is refused. */
#include "common/wire/wire.h"

#include "common/wire/link.h"
#include "tests/support/rs_test.h"

#include <string.h>

/* The whole message by hand. */
static struct rs_frame *chunk_frame(uint32_t handle, uint64_t seq, uint32_t flags, const char *text)
{
    struct rs_buf buf = {0};
    rs_wire_chunk_head(&buf, handle, seq, flags, strlen(text));
    rs_buf_string(&buf, text);
    assert_false(buf.failed);
    struct rs_frame *frame = rs_frame_of(buf.data, buf.length);
    assert_non_null(frame);
    rs_buf_fini(&buf);
    return frame;
}

static void a_chunk_by_hand_is_what_protobuf_reads(void **state)
{
    (void)state;
    static const uint64_t seqs[] = {1, 127, 128, 300, 1u << 20, UINT64_MAX};
    for (size_t i = 0; i < sizeof seqs / sizeof seqs[0]; i++) {
        struct rs_frame *frame =
            chunk_frame((uint32_t)i * 1000 + 1, seqs[i], (uint32_t)i, "payload");
        struct rs_message message;
        assert_ok(rs_message_unpack(&message, &rankscope__up__descriptor, frame, NULL));
        const Rankscope__Up *up = (const Rankscope__Up *)message.body;
        assert_int_equal(up->message_case, RANKSCOPE__UP__MESSAGE_CHUNK);
        assert_int_equal(up->chunk->handle, i * 1000 + 1);
        assert_true(up->chunk->seq == seqs[i]);
        assert_int_equal(up->chunk->flags, i);
        assert_int_equal(up->chunk->payload.len, 7);
        rs_message_fini(&message);
        rs_frame_free(&frame);
    }
}

static void a_chunk_of_protobuf_is_what_the_hand_reads(void **state)
{
    (void)state;
    uint8_t payload[300];
    memset(payload, 7, sizeof payload);
    Rankscope__Chunk chunk = RANKSCOPE__CHUNK__INIT;
    chunk.handle = 5;
    chunk.seq = 77;
    chunk.flags = RS_ENVELOPE_LAST;
    chunk.payload = (ProtobufCBinaryData){.data = payload, .len = sizeof payload};
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_CHUNK;
    up.chunk = &chunk;
    struct rs_buf buf = {0};
    rs_wire_pack(&up.base, &buf);
    struct rs_frame *frame = rs_frame_of(buf.data, buf.length);
    struct rs_chunk_message message;
    assert_true(rs_wire_is_chunk(frame));
    assert_ok(rs_wire_chunk_parse(frame, &message, NULL));
    assert_int_equal(message.handle, 5);
    assert_int_equal(message.seq, 77);
    assert_int_equal(message.flags, RS_ENVELOPE_LAST);
    assert_int_equal(message.payload_length, sizeof payload);
    assert_int_equal(message.payload_offset + sizeof payload, frame->length);
    rs_frame_free(&frame);
    rs_buf_fini(&buf);
}

static void a_chunk_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct rs_frame *whole = chunk_frame(300, 70000, 1, "some bytes of payload");
    uint8_t bytes[128];
    const size_t length = rs_frame_copy(whole, 0, bytes, sizeof bytes);
    rs_frame_free(&whole);
    for (size_t cut = 0; cut < length; cut++) {
        struct rs_frame *frame = rs_frame_of(bytes, cut);
        struct rs_chunk_message message;
        assert_status(rs_wire_chunk_parse(frame, &message, NULL), RS_FORMAT);
        rs_frame_free(&frame);
    }
}

static void a_message_that_would_eat_memory_is_refused(void **state)
{
    (void)state;
    /* 2 MiB of empty submessages would become some hundred MB of pointers and structs. */
    const size_t count = 1 << 20;
    struct rs_buf inside = {0};
    for (size_t i = 0; i < count; i++)
        rs_buf_u16(&inside, 0x0022); /* Heartbeat.ranks, length 0 */
    struct rs_buf buf = {0};
    rs_buf_varint(&buf, (3 << 3) | 2);
    rs_buf_varint(&buf, inside.length);
    rs_buf_bytes(&buf, inside.data, inside.length);
    struct rs_frame *frame = rs_frame_of(buf.data, buf.length);
    struct rs_message message;
    struct rs_err err = {0};
    assert_status(rs_message_unpack(&message, &rankscope__up__descriptor, frame, &err), RS_FORMAT);
    rs_message_fini(&message);
    rs_frame_free(&frame);
    rs_buf_fini(&inside);
    rs_buf_fini(&buf);
}

static void bytes_that_are_anybodys_are_read_within_the_same_limits(void **state)
{
    (void)state;
    Rankscope__CaptureInfo info = RANKSCOPE__CAPTURE_INFO__INIT;
    struct rs_buf small = {0}, ranks = {0}, large = {0};
    const ProtobufCMessageDescriptor *kind = &rankscope__capture_info__descriptor;
    rs_wire_pack(&info.base, &small);
    ProtobufCMessage *empty = rs_wire_unpack(kind, small.data, small.length);
    assert_non_null(empty);
    protobuf_c_message_free_unpacked(empty, NULL);
    for (size_t i = 0; i < 1 << 20; i++)
        rs_buf_u16(&ranks, 0x0062); /* CaptureInfo.ranks, length 0 */
    assert_null(rs_wire_unpack(kind, ranks.data, ranks.length));
    ProtobufCMessage *few = rs_wire_unpack(kind, ranks.data, 2000);
    assert_non_null(few);
    assert_int_equal(((const Rankscope__CaptureInfo *)few)->n_ranks, 1000);
    protobuf_c_message_free_unpacked(few, NULL);
    rs_buf_u16(&large, 0x0012); /* CaptureInfo.run, length 0, again and again: the last counts */
    while (large.length <= RS_WIRE_MESSAGE_MAX_BYTES)
        rs_buf_u16(&large, 0x0012);
    assert_null(rs_wire_unpack(kind, large.data, large.length));
    assert_null(rs_wire_unpack(kind, "\x0a\xff", 2)); /* more than there is */
    rs_buf_fini(&small);
    rs_buf_fini(&ranks);
    rs_buf_fini(&large);
}

static void versions_from_the_oldest_to_the_next_are_understood(void **state)
{
    (void)state;
    Rankscope__Version version;
    rs_wire_own_version(&version);
    assert_ok(rs_wire_check_version(&version, "it", NULL));
    version.minor = RS_WIRE_MINOR + 1;
    assert_ok(rs_wire_check_version(&version, "it", NULL));
    version.minor = RS_WIRE_MINOR_OLDEST;
    assert_ok(rs_wire_check_version(&version, "it", NULL));
    version.minor = RS_WIRE_MINOR + 2;
    assert_status(rs_wire_check_version(&version, "it", NULL), RS_VERSION);
    version.minor = RS_WIRE_MINOR_OLDEST - 1;
    assert_status(rs_wire_check_version(&version, "it", NULL), RS_VERSION);
    rs_wire_own_version(&version);
    version.major++;
    assert_status(rs_wire_check_version(&version, "it", NULL), RS_VERSION);
    assert_status(rs_wire_check_version(NULL, "it", NULL), RS_VERSION);
}

static void addresses_are_a_socket_or_a_host_and_a_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *target;
        bool is_loopback;
    } good[] = {
        {"unix:/run/x.sock", "unix:/run/x.sock", true},
        {"127.0.0.1:7070", "ipv4:127.0.0.1:7070", true},
        {"localhost:1", "ipv4:127.0.0.1:1", true},
        {"[::1]:7070", "ipv6:[::1]:7070", true},
        {"127.9.8.7:0", "ipv4:127.9.8.7:0", true},
        {"10.0.0.1:7070", "ipv4:10.0.0.1:7070", false},
        {"0.0.0.0:7070", "ipv4:0.0.0.0:7070", false},
        {"[2001:db8::1]:1", "ipv6:[2001:db8::1]:1", false},
        {"agg-1.cluster:80", "dns:///agg-1.cluster:80", false},
    };
    static const char *const wrong[] = {"",
                                        "unix:",
                                        "7070",
                                        ":7070",
                                        "127.0.0.1:",
                                        "127.0.0.1:x",
                                        "127.0.0.1:65536",
                                        "127.0.0.1:-1",
                                        "a/b:80",
                                        "dns:///x:80",
                                        "-x:80",
                                        "a%2f:80",
                                        "[]:80"};
    struct rs_address address;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(rs_address_parse(good[i].text, &address, NULL));
        assert_string_equal(address.target, good[i].target);
        assert_int_equal(address.is_loopback, good[i].is_loopback);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_status(rs_address_parse(wrong[i], &address, NULL), RS_INVALID);
}

static void tcp_takes_certificates_or_a_word_for_plain_text_here(void **state)
{
    (void)state;
    static const char *const texts[] = {"unix:/run/x.sock", "127.0.0.1:7070", "[::1]:7070",
                                        "10.0.0.1:7070", "agg:7070"};
    struct rs_address address;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const bool is_unix = i == 0;
        const bool is_here = i < 3;
        assert_ok(rs_address_parse(texts[i], &address, NULL));
        assert_int_equal(address.guard, is_unix ? RS_ADDRESS_LOCAL : RS_ADDRESS_UNGUARDED);
        assert_status(rs_address_guard(&address, NULL, false, NULL), is_unix ? RS_OK : RS_REFUSED);
        assert_status(rs_address_guard(&address, NULL, true, NULL), is_here ? RS_OK : RS_REFUSED);
        assert_int_equal(address.guard, is_here ? RS_ADDRESS_LOCAL : RS_ADDRESS_UNGUARDED);
        assert_ok(rs_address_guard(&address, "/certs", false, NULL));
        assert_int_equal(address.guard, is_unix ? RS_ADDRESS_LOCAL : RS_ADDRESS_MUTUAL);
    }
}

static void a_name_that_would_leave_its_folder_is_no_captures(void **state)
{
    (void)state;
    static const char *const good[] = {"20260102-030405-a1b2c3", "x", "a.b-c_9", "-", "a.."};
    static const char *const bad[] = {"",     ".",   "..", "../x",     "a/b",  "/",
                                      "a\nb", "a b", ".x", "\xc3\xa9", "a\\b", "a:b"};
    char text[65];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(rs_wire_is_capture_id(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(rs_wire_is_capture_id(bad[i]));
    memset(text, 'a', 64);
    text[64] = '\0';
    assert_false(rs_wire_is_capture_id(text));
    text[63] = '\0';
    assert_true(rs_wire_is_capture_id(text));
}

static void a_lost_link_is_told_in_plain_words(void **state)
{
    (void)state;
    static const struct {
        const char *said, *told;
    } cases[] = {
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7996: Failed to connect to "
         "remote host: Connection refused",
         "Connection refused"},
        {"failed to connect to all addresses; last error: UNKNOWN: unix:/run/x.sock: No such file or directory",
         "No such file or directory"},
        {"failed to connect to all addresses", "the link was closed"},
        {"Trying to connect an http1.x server",
         "who answers there speaks HTTP/1; an aggregator does so on its --http port only"},
        {"DNS resolution failed for x:1: C-ares status is not ARES_SUCCESS qtype=A name=x is_balancer=0: Domain "
         "name not found",
         "there is no host of that name"},
        {"recvmsg:Connection reset by peer", "Connection reset by peer"},
        {"Socket closed", "the link was closed"},
        {"", "the link was closed"},
        {"this node's certificate was revoked: ask for another", /* what a peer of ours said */
         "this node's certificate was revoked: ask for another"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(rs_link_plain(cases[i].said), cases[i].told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_by_hand_is_what_protobuf_reads),
        cmocka_unit_test(a_chunk_of_protobuf_is_what_the_hand_reads),
        cmocka_unit_test(a_chunk_cut_anywhere_is_refused),
        cmocka_unit_test(a_message_that_would_eat_memory_is_refused),
        cmocka_unit_test(bytes_that_are_anybodys_are_read_within_the_same_limits),
        cmocka_unit_test(versions_from_the_oldest_to_the_next_are_understood),
        cmocka_unit_test(addresses_are_a_socket_or_a_host_and_a_port),
        cmocka_unit_test(tcp_takes_certificates_or_a_word_for_plain_text_here),
        cmocka_unit_test(a_name_that_would_leave_its_folder_is_no_captures),
        cmocka_unit_test(a_lost_link_is_told_in_plain_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
