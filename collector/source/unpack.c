/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/source/unpack.h"

#include "common/base/mem.h"

#include <zstd.h>

#include <bzlib.h>
#include <lzma.h>
#include <string.h>

#define XZ_MEMORY_MAX (UINT64_C(128) * 1024 * 1024)
enum { ZSTD_WINDOW_LOG_MAX = 27 };

struct unpack {
    enum unpack_kind kind;
    bool is_between;
    ZSTD_DCtx *zstd;
    lzma_stream xz;
    bz_stream bzip2;
    bool has_bzip2;
};

enum unpack_kind unpack_kind_of(const uint8_t *head, size_t count)
{
    static const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd}, xz[] = {0xfd, '7', 'z', 'X', 'Z', 0};
    if (count >= sizeof zstd && memcmp(head, zstd, sizeof zstd) == 0)
        return UNPACK_ZSTD;
    if (count >= sizeof xz && memcmp(head, xz, sizeof xz) == 0)
        return UNPACK_XZ;
    if (count >= 4 && memcmp(head, "BZh", 3) == 0 && head[3] >= '1' && head[3] <= '9')
        return UNPACK_BZIP2;
    return UNPACK_NONE;
}

const char *unpack_name(enum unpack_kind kind)
{
    static const char *const names[] = {[UNPACK_NONE] = "plain",
                                        [UNPACK_ZSTD] = "zstd",
                                        [UNPACK_XZ] = "xz",
                                        [UNPACK_BZIP2] = "bzip2"};
    return names[kind];
}

static bool start(struct unpack *unpack)
{
    switch (unpack->kind) {
    case UNPACK_ZSTD:
        unpack->zstd = ZSTD_createDCtx();
        return unpack->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(
                                   unpack->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX));
    case UNPACK_XZ:
        return lzma_stream_decoder(&unpack->xz, XZ_MEMORY_MAX, LZMA_CONCATENATED) == LZMA_OK;
    case UNPACK_BZIP2:
        unpack->has_bzip2 = BZ2_bzDecompressInit(&unpack->bzip2, 0, 0) == BZ_OK;
        return unpack->has_bzip2;
    case UNPACK_NONE:
        break;
    }
    return false;
}

enum rs_status unpack_new(enum unpack_kind kind, struct unpack **unpack_p)
{
    struct unpack *unpack = rs_mem_calloc(1, sizeof *unpack);
    if (!unpack)
        return RS_NOMEM;
    unpack->kind = kind;
    unpack->xz = (lzma_stream)LZMA_STREAM_INIT;
    if (!start(unpack)) {
        unpack_free(&unpack);
        return RS_NOMEM;
    }
    *unpack_p = unpack;
    return RS_OK;
}

void unpack_free(struct unpack **unpack_p)
{
    struct unpack *unpack = *unpack_p;
    if (!unpack)
        return;
    (void)ZSTD_freeDCtx(unpack->zstd);
    lzma_end(&unpack->xz);
    if (unpack->has_bzip2)
        (void)BZ2_bzDecompressEnd(&unpack->bzip2);
    rs_mem_free(unpack);
    *unpack_p = NULL;
}

static enum rs_status zstd_some(struct unpack *unpack, struct unpack_io *io)
{
    ZSTD_inBuffer in = {io->in, io->in_count, 0};
    ZSTD_outBuffer out = {io->out, io->out_count, 0};
    const size_t left = ZSTD_decompressStream(unpack->zstd, &out, &in);
    io->in += in.pos;
    io->in_count -= in.pos;
    io->out += out.pos;
    io->out_count -= out.pos;
    if (in.pos || out.pos) /* else: what is said of a frame that has not begun */
        unpack->is_between = left == 0;
    return ZSTD_isError(left) ? RS_FORMAT : RS_OK;
}

static enum rs_status xz_some(struct unpack *unpack, struct unpack_io *io)
{
    lzma_stream *xz = &unpack->xz;
    xz->next_in = io->in;
    xz->avail_in = io->in_count;
    xz->next_out = io->out;
    xz->avail_out = io->out_count;
    const lzma_ret code = lzma_code(xz, io->is_last ? LZMA_FINISH : LZMA_RUN);
    io->in = xz->next_in;
    io->in_count = xz->avail_in;
    io->out = xz->next_out;
    io->out_count = xz->avail_out;
    unpack->is_between = code == LZMA_STREAM_END;
    return code == LZMA_OK || code == LZMA_STREAM_END || code == LZMA_BUF_ERROR ? RS_OK : RS_FORMAT;
}

static enum rs_status bzip2_some(struct unpack *unpack, struct unpack_io *io)
{
    bz_stream *bzip2 = &unpack->bzip2;
    if (unpack->is_between && io->in_count) { /* another stream begins */
        (void)BZ2_bzDecompressEnd(bzip2);
        *bzip2 = (bz_stream){0};
        unpack->has_bzip2 = BZ2_bzDecompressInit(bzip2, 0, 0) == BZ_OK;
        if (!unpack->has_bzip2)
            return RS_FORMAT;
    }
    const unsigned in_count = io->in_count < UINT32_MAX ? (unsigned)io->in_count : UINT32_MAX;
    const unsigned out_count = io->out_count < UINT32_MAX ? (unsigned)io->out_count : UINT32_MAX;
    if (!in_count && unpack->is_between)
        return RS_OK;
    union {
        const uint8_t *read_only;
        char *text;
    } in = {.read_only = io->in}; /* bzlib only reads it */
    bzip2->next_in = in.text;
    bzip2->avail_in = in_count;
    bzip2->next_out = (char *)io->out;
    bzip2->avail_out = out_count;
    const int code = BZ2_bzDecompress(bzip2);
    io->in += in_count - bzip2->avail_in;
    io->in_count -= in_count - bzip2->avail_in;
    io->out += out_count - bzip2->avail_out;
    io->out_count -= out_count - bzip2->avail_out;
    unpack->is_between = code == BZ_STREAM_END;
    return code == BZ_OK || code == BZ_STREAM_END ? RS_OK : RS_FORMAT;
}

enum rs_status unpack_some(struct unpack *unpack, struct unpack_io *io)
{
    switch (unpack->kind) {
    case UNPACK_ZSTD:
        return zstd_some(unpack, io);
    case UNPACK_XZ:
        return xz_some(unpack, io);
    case UNPACK_BZIP2:
        return bzip2_some(unpack, io);
    case UNPACK_NONE:
        break;
    }
    return RS_FORMAT;
}

bool unpack_may_end(const struct unpack *unpack)
{
    return unpack->is_between;
}
