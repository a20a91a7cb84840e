/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums: CRC-32C where bytes rest or travel, SHA-256 where a person compares files.
 */
#ifndef RS_BASE_DIGEST_H
#define RS_BASE_DIGEST_H

#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli, reflected, as in RFC 3720). Start with 0; feed the last result to go on.
 * Uses the processor's instruction where it has one. */
uint32_t rs_crc32c(uint32_t crc, const void *data, size_t length);
/* Of two runs of bytes that follow each other, from the sum of either (each begun with 0): without reading them again. */
uint32_t rs_crc32c_join(uint32_t first, uint32_t second, size_t second_length);

enum { RS_SHA256_BYTES = 32, RS_SHA256_HEX_BYTES = 65 };

/* SHA-256 as lower-case hex with a NUL. RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_sha256_hex(const void *data, size_t length,
                                           char hex_p[RS_SHA256_HEX_BYTES]);
/* The same of a file, streamed. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_sha256_file(const char *path, char hex_p[RS_SHA256_HEX_BYTES],
                                            struct rs_err *err);

#endif
