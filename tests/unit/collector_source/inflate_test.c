/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rs_test.h"
/**/
#include "collector/source/inflate.h"
#include "tests/unit/collector_source/kineto_support.h"

#include <zlib.h>

/* Appends `text` as a gzip member. */
static void add_member(struct rs_buf *file, const void *text, size_t length)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t bound = deflateBound(&stream, length) + 64;
    uint8_t *out = rs_buf_reserve(file, bound);
    assert_non_null(out);
    stream.next_in = (Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)length;
    stream.next_out = out;
    stream.avail_out = (uInt)bound;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    rs_buf_commit(file, bound - stream.avail_out);
    (void)deflateEnd(&stream);
}

static void make_text(struct rs_buf *text, size_t length, uint32_t seed)
{
    while (text->length < length) {
        seed = seed * 1664525 + 1013904223;
        rs_buf_printf(text, "%u ", seed >> (seed >> 27));
    }
}

/* Reads all of a file of these bytes in pieces of `step`. */
static void read_back(const struct rs_buf *file, size_t step, struct rs_buf *text,
                      char problem[160])
{
    int fd;
    char path[64];
    struct input input;
    bytes_as_file(file->data, file->length, &fd, path);
    assert_ok(input_open(&input, path, NULL));
    size_t count;
    do {
        uint8_t *room = rs_buf_reserve(text, step);
        assert_non_null(room);
        assert_ok(input_read(&input, (char *)room, step, &count, NULL));
        rs_buf_commit(text, count);
    } while (count);
    assert_int_equal(input.raw_bytes, text->length);
    memcpy(problem, input.problem, 160);
    input_close(&input);
    (void)close(fd);
}

static void members_follow_each_other_and_padding_ends_them(void **state)
{
    static const size_t steps[] = {1000, 65536, 1 << 20};
    (void)state;
    struct rs_buf text = {0};
    struct rs_buf file = {0};
    make_text(&text, 900000, 1);
    add_member(&file, text.data, 400000);
    add_member(&file, text.data + 400000, 1);
    add_member(&file, "", 0);
    add_member(&file, text.data + 400001, text.length - 400001);
    for (int padded = 0; padded < 2; padded++) {
        for (size_t i = 0; i < 3; i++) {
            struct rs_buf back = {0};
            char problem[160];
            read_back(&file, steps[i], &back, problem);
            assert_string_equal(problem, "");
            assert_int_equal(back.length, text.length);
            assert_memory_equal(back.data, text.data, text.length);
            rs_buf_fini(&back);
        }
        static const char zeros[1000];
        rs_buf_bytes(&file, zeros, sizeof zeros);
    }
    rs_buf_fini(&file);
    rs_buf_fini(&text);
}

static void a_cut_member_gives_its_beginning(void **state)
{
    (void)state;
    struct rs_buf text = {0};
    struct rs_buf file = {0};
    make_text(&text, 300000, 7);
    add_member(&file, text.data, text.length);
    const size_t whole = file.length;
    size_t longest = 0;
    for (size_t cut = 2; cut < whole; cut += 1 + cut / 50) {
        struct rs_buf back = {0};
        char problem[160];
        file.length = cut;
        read_back(&file, 65536, &back, problem);
        assert_string_not_equal(problem, "");
        assert_true(back.length <= text.length);
        assert_memory_equal(back.data ? back.data : text.data, text.data, back.length);
        longest = back.length > longest ? back.length : longest;
        rs_buf_fini(&back);
    }
    assert_true(longest > text.length / 2);
    file.length = whole;
    rs_buf_fini(&file);
    rs_buf_fini(&text);
}

static void damage_is_found(void **state)
{
    (void)state;
    struct rs_buf text = {0};
    struct rs_buf file = {0};
    make_text(&text, 300000, 9);
    add_member(&file, text.data, text.length);
    file.data[file.length - 6] ^= 1; /* in the checksum */
    struct rs_buf back = {0};
    char problem[160];
    read_back(&file, 65536, &back, problem);
    assert_non_null(strstr(problem, "checksum"));
    rs_buf_fini(&back);
    file.data[file.length - 6] ^= 1;
    rs_buf_string(&file, "something else");
    struct rs_buf again = {0};
    read_back(&file, 65536, &again, problem);
    assert_non_null(strstr(problem, "other bytes"));
    assert_int_equal(again.length, text.length);
    rs_buf_fini(&again);
    rs_buf_fini(&file);
    rs_buf_fini(&text);
}

static void plain_bytes_come_as_they_are(void **state)
{
    static const char *const texts[] = {"", "x", "\x1f", "\x1f\x8c", "abc"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct rs_buf file = {0};
        struct rs_buf back = {0};
        char problem[160];
        rs_buf_string(&file, texts[i]);
        read_back(&file, 1, &back, problem);
        assert_string_equal(problem, "");
        assert_string_equal(rs_buf_text(&back), texts[i]);
        rs_buf_fini(&file);
        rs_buf_fini(&back);
    }
}

static void a_gzip_trace_that_is_cut_is_partial_and_says_where(void **state)
{
    (void)state;
    struct rs_buf text = {0};
    struct rs_buf file = {0};
    rs_buf_string(&text, "{\"baseTimeNanoseconds\": 5, \"traceEvents\": [");
    for (unsigned i = 0; i < 20000; i++)
        rs_buf_printf(
            &text,
            "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"n%u\", \"pid\": 1, \"tid\": 2, "
            "\"ts\": %u.%03u, \"dur\": 1}",
            i ? "," : "", i * 2654435761U, i, i * 7919U % 1000);
    rs_buf_string(&text, "]}");
    add_member(&file, text.data, text.length);
    struct kept kept;
    kept_read_bytes(&kept, file.data, file.length, 0);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.count, 20000);
    kept_fini(&kept);
    kept_read_bytes(&kept, file.data, file.length / 2, 0);
    assert_status(kept.status, RS_PARTIAL);
    assert_true(kept.count > 1000 && kept.count < 20000);
    assert_true(kept.stream.info.has_time_base);
    const char *why = rs_strtab_text(&kept.stream.strings, kept.stream.info.partial_reason);
    assert_non_null(strstr(why, "ends early at byte"));
    kept_fini(&kept);
    rs_buf_fini(&file);
    rs_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_follow_each_other_and_padding_ends_them),
        cmocka_unit_test(a_cut_member_gives_its_beginning),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(plain_bytes_come_as_they_are),
        cmocka_unit_test(a_gzip_trace_that_is_cut_is_partial_and_says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
