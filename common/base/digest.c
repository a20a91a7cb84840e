/* SPDX-License-Identifier: Apache-2.0 */
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

static uint32_t crc_table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
        crc_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_table[k][i] = (crc_table[k - 1][i] >> 8) ^ crc_table[0][crc_table[k - 1][i] & 0xff];
}

static uint64_t load_u64(const uint8_t *from)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)from[i] << (8 * i);
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
__attribute__((target("sse4.2"))) static uint32_t crc_by_machine(uint32_t crc, const uint8_t *data,
                                                                 size_t length)
{
    uint64_t wide = crc;
    for (; length >= 8; data += 8, length -= 8)
        wide = _mm_crc32_u64(wide, load_u64(data));
    uint32_t narrow = (uint32_t)wide;
    for (; length; data++, length--)
        narrow = _mm_crc32_u8(narrow, *data);
    return narrow;
}

static int has_machine(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
__attribute__((target("+crc"))) static uint32_t crc_by_machine(uint32_t crc, const uint8_t *data,
                                                               size_t length)
{
    for (; length >= 8; data += 8, length -= 8)
        crc = __crc32cd(crc, load_u64(data));
    for (; length; data++, length--)
        crc = __crc32cb(crc, *data);
    return crc;
}

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
