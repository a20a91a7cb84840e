/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C and SHA-256. The first guards every chunk, so it is computed by the processor where it can (SSE 4.2, ARMv8), in three lanes whose
 * sums are joined by a table; by a table of bytes elsewhere. The second is OpenSSL's.
 */
#include "common/base/digest.h"

#include <openssl/evp.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#    include <nmmintrin.h>
#elif defined(__aarch64__)
#    include <arm_acle.h>
#    include <sys/auxv.h>
#    define RS_HWCAP_CRC32 (1UL << 7)
#endif

#define POLYNOMIAL 0x82f63b78u

static uint32_t crc_table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
        crc_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_table[k][i] = (crc_table[k - 1][i] >> 8) ^ crc_table[0][crc_table[k - 1][i] & 0xff];
}

static uint64_t load_u64(const uint8_t *from)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t value;
    memcpy(&value, from, sizeof value); /* one load; the loop below is eight */
#else
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)from[i] << (8 * i);
#endif
    return value;
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *data, size_t length)
{
    (void)pthread_once(&table_once, make_table);
    for (; length >= 8; data += 8, length -= 8) {
        const uint64_t word = load_u64(data) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= crc_table[7 - k][(word >> (8 * k)) & 0xff];
    }
    for (; length; data++, length--)
        crc = (crc >> 8) ^ crc_table[0][(crc ^ *data) & 0xff];
    return crc;
}

#if defined(__x86_64__)
#    define CRC_TARGET         __attribute__((target("sse4.2")))
#    define CRC_U64(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#    define CRC_U8(crc, byte)  _mm_crc32_u8((crc), (byte))
#elif defined(__aarch64__)
#    define CRC_TARGET         __attribute__((target("+crc")))
#    define CRC_U64(crc, word) __crc32cd((crc), (word))
#    define CRC_U8(crc, byte)  __crc32cb((crc), (byte))
#endif

#if defined(CRC_TARGET)
/*
 * The instruction takes three cycles and one may start in each: three lanes run side by side, and
 * are joined by what a lane's worth of zero bytes does to a register, which is linear and hence a table. Lanes are short: what does
 * not fill three goes at a third of the speed, and chunks come from gRPC in pieces of 8 KiB.
 */
enum { LANE_BYTES = 256 };

static uint32_t lane_table[4][256];
static pthread_once_t lane_once = PTHREAD_ONCE_INIT;

static void make_lane_table(void)
{
    static const uint8_t zeros[LANE_BYTES];
    for (uint32_t bit = 0; bit < 32; bit++) {
        const uint32_t shifted = crc_by_table(1u << bit, zeros, LANE_BYTES);
        for (uint32_t value = 0; value < 256; value++)
            if (value & (1u << (bit % 8)))
                lane_table[bit / 8][value] ^= shifted;
    }
}

static uint32_t skip_lane(uint32_t crc)
{
    return lane_table[0][crc & 0xff] ^ lane_table[1][(crc >> 8) & 0xff] ^
           lane_table[2][(crc >> 16) & 0xff] ^ lane_table[3][crc >> 24];
}

CRC_TARGET static uint32_t crc_of_lanes(uint32_t crc, const uint8_t *data)
{
    uint32_t second = 0;
    uint32_t third = 0;
    for (size_t i = 0; i < LANE_BYTES; i += 8) {
        crc = CRC_U64(crc, load_u64(data + i));
        second = CRC_U64(second, load_u64(data + LANE_BYTES + i));
        third = CRC_U64(third, load_u64(data + (size_t)2 * LANE_BYTES + i));
    }
    return skip_lane(skip_lane(crc) ^ second) ^ third;
}

CRC_TARGET static uint32_t crc_by_machine(uint32_t crc, const uint8_t *data, size_t length)
{
    if (length >= (size_t)3 * LANE_BYTES)
        (void)pthread_once(&lane_once, make_lane_table);
    for (; length >= (size_t)3 * LANE_BYTES;
         data += (size_t)3 * LANE_BYTES, length -= (size_t)3 * LANE_BYTES)
        crc = crc_of_lanes(crc, data);
    for (; length >= 8; data += 8, length -= 8)
        crc = CRC_U64(crc, load_u64(data));
    for (; length; data++, length--)
        crc = CRC_U8(crc, *data);
    return crc;
}
#endif

#if defined(__x86_64__)
static int has_machine(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
static int has_machine(void)
{
    return (getauxval(AT_HWCAP) & RS_HWCAP_CRC32) != 0;
}
#else
static uint32_t crc_by_machine(uint32_t crc, const uint8_t *data, size_t length)
{
    return crc_by_table(crc, data, length);
}

static int has_machine(void)
{
    return 0;
}
#endif

uint32_t rs_crc32c(uint32_t crc, const void *data, size_t length)
{
    crc = ~crc;
    crc = has_machine() ? crc_by_machine(crc, data, length) : crc_by_table(crc, data, length);
    return ~crc;
}

/* The product of two polynomials modulo that of the sum; as in the sum, the highest bit is x to the power of 0. */
static uint32_t multiply(uint32_t left, uint32_t right)
{
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        product ^= left & bit ? right : 0;
        right = (right >> 1) ^ (right & 1 ? POLYNOMIAL : 0);
    }
    return product;
}

/* Bytes that follow move a sum up by x to the power of 8 each, and what they hold is added. */
uint32_t rs_crc32c_join(uint32_t first, uint32_t second, size_t second_length)
{
    uint32_t square = 1u << (31 - 8);
    for (; second_length; second_length >>= 1, square = multiply(square, square))
        if (second_length & 1)
            first = multiply(first, square);
    return first ^ second;
}

static void to_hex(const unsigned char digest[RS_SHA256_BYTES], char hex_p[RS_SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < RS_SHA256_BYTES; i++) {
        hex_p[2 * i] = digits[digest[i] >> 4];
        hex_p[2 * i + 1] = digits[digest[i] & 15];
    }
    hex_p[RS_SHA256_HEX_BYTES - 1] = '\0';
}

enum rs_status rs_sha256_hex(const void *data, size_t length, char hex_p[RS_SHA256_HEX_BYTES])
{
    unsigned char digest[RS_SHA256_BYTES];
    if (EVP_Digest(data, length, digest, NULL, EVP_sha256(), NULL) != 1)
        return RS_NOMEM;
    to_hex(digest, hex_p);
    return RS_OK;
}

static enum rs_status digest_fd(int fd, const char *path, EVP_MD_CTX *context, struct rs_err *err)
{
    unsigned char block[64 * 1024];
    for (;;) {
        const ssize_t got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return rs_err_errno(err, "cannot read %s", path);
        if (got == 0)
            return RS_OK;
        if (EVP_DigestUpdate(context, block, (size_t)got) != 1)
            return rs_err_set(err, RS_NOMEM, "no memory to digest %s", path);
    }
}

enum rs_status rs_sha256_file(const char *path, char hex_p[RS_SHA256_HEX_BYTES], struct rs_err *err)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        return rs_err_set(err, RS_NOMEM, "no memory to digest %s", path);
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        EVP_MD_CTX_free(context);
        return rs_err_errno(err, "cannot open %s", path);
    }
    enum rs_status status = digest_fd(fd, path, context, err);
    (void)close(fd);
    unsigned char digest[RS_SHA256_BYTES];
    if (status == RS_OK && EVP_DigestFinal_ex(context, digest, NULL) != 1)
        status = rs_err_set(err, RS_NOMEM, "no memory to digest %s", path);
    if (status == RS_OK)
        to_hex(digest, hex_p);
    EVP_MD_CTX_free(context);
    return status;
}
