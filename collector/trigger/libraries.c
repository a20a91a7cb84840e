/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/libraries.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/slots.h"
#include "common/request/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    MAPS_LIMIT_BYTES = 32 << 20,
    LIBC_LIMIT_BYTES = 16 << 20,
    LOOKS_MAX = 2,
    FILES_MAX = 8,
};

static const rs_dur look_again_ns = 30 * (rs_dur)RS_NS_PER_S;
static const rs_dur forget_ns = 300 * (rs_dur)RS_NS_PER_S;

struct known { /* of one process */
    pid_t pid;
    uint64_t incarnation; /* its hash */
    struct rs_libraries libraries;
    unsigned looks;
    rs_ns looked_at, asked_at;
};

struct libc_file { /* one file serves many processes */
    dev_t device;
    ino_t inode;
    uint32_t glibc;
};

struct rs_library_cache {
    struct known *items;
    size_t count, capacity;
    struct rs_slots slots; /* of items, by pid and incarnation */
    rs_ns swept_at;
    struct libc_file files[FILES_MAX]; /* a ring */
    size_t file_count;
};

struct rs_library_cache *rs_library_cache_new(void)
{
    return rs_mem_calloc(1, sizeof(struct rs_library_cache));
}

void rs_library_cache_free(struct rs_library_cache **cache)
{
    if (!*cache)
        return;
    rs_slots_fini(&(*cache)->slots);
    rs_mem_free((*cache)->items);
    rs_mem_free(*cache);
    *cache = NULL;
}

/* ---- what a map says ----------------------------------------------------------------------------------------- */

static bool has_prefix(const char *name, size_t length, const char *prefix)
{
    return length >= strlen(prefix) && memcmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_libc(const char *name, size_t length)
{
    return (length == strlen("libc.so.6") && has_prefix(name, length, "libc.so.6")) ||
           (has_prefix(name, length, "libc-2.") && memmem(name, length, ".so", 3));
}

/* Drivers and builds with which PyTorch records CUDA: ROCm's device rows have that name, too. */
static bool is_of_cuda(const char *name, size_t length)
{
    static const char *const prefixes[] = {"libtorch_cuda", "libtorch_hip", "libcuda.so",
                                           "libcudart",     "libcupti",     "libamdhip64"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (has_prefix(name, length, prefixes[i]))
            return true;
    return false;
}

static bool is_of_xpu(const char *name, size_t length)
{
    return has_prefix(name, length, "libtorch_xpu") || has_prefix(name, length, "libze_loader");
}

uint32_t rs_libraries_from_maps(const char *maps, char libc[RS_LIBRARIES_PATH_BYTES])
{
    bool has_torch = false, has_cuda = false, has_xpu = false;
    libc[0] = '\0';
    for (const char *line = maps; *line;) {
        const char *end = strchrnul(line, '\n');
        const char *path = memchr(line, '/', (size_t)(end - line));
        const char *slash = path ? memrchr(path, '/', (size_t)(end - path)) : NULL;
        if (slash) {
            const char *name = slash + 1;
            const size_t length = (size_t)(end - name);
            /* of a build in parts only: one library may hold everything */
            has_torch = has_torch || has_prefix(name, length, "libtorch_cpu.so");
            has_cuda = has_cuda || is_of_cuda(name, length);
            has_xpu = has_xpu || is_of_xpu(name, length);
            if (!libc[0] && is_libc(name, length) && end - path < RS_LIBRARIES_PATH_BYTES)
                (void)snprintf(libc, RS_LIBRARIES_PATH_BYTES, "%.*s", (int)(end - path), path);
        }
        line = *end ? end + 1 : end;
    }
    if (!has_torch)
        return 0;
    return RS_ACTIVITY_CPU | RS_ACTIVITY_NPU | RS_ACTIVITY_MTIA |
           (has_cuda ? RS_ACTIVITY_CUDA : 0U) | (has_xpu ? RS_ACTIVITY_XPU : 0U);
}

/* "2.36" of "2.36.\n" or of "2.31.so". */
static uint32_t version_of(const char *text)
{
    char *rest = NULL;
    const unsigned long major = strtoul(text, &rest, 10);
    const unsigned long minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;
    return major && major <= UINT16_MAX && minor <= UINT16_MAX ? (uint32_t)(major << 16 | minor)
                                                               : 0;
}

uint32_t rs_libraries_glibc(const char *bytes, size_t length)
{
    static const char name[] = "GNU C Library", word[] = "release version ";
    enum { BANNER_BYTES = 256, VERSION_BYTES = 16 };
    const char *end = bytes + length;
    for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), name, sizeof name - 1));) {
        const size_t left = (size_t)(end - at);
        const char *version =
            memmem(at, left < BANNER_BYTES ? left : BANNER_BYTES, word, sizeof word - 1);
        char text[VERSION_BYTES] = "";
        at += sizeof name - 1;
        if (!version)
            continue;
        version += sizeof word - 1;
        const size_t rest = (size_t)(end - version);
        memcpy(text, version, rest < sizeof text - 1 ? rest : sizeof text - 1);
        return version_of(text);
    }
    return 0;
}

/* ---- a process ------------------------------------------------------------------------------------------------- */

static uint32_t glibc_of_file(struct rs_library_cache *cache, pid_t pid, const char *libc)
{
    char path[RS_LIBRARIES_PATH_BYTES + 64];
    struct stat info;
    struct rs_buf bytes = {0};
    const char *name = strrchr(libc, '/');
    if (!name)
        return 0;
    if (strncmp(name, "/libc-2.", strlen("/libc-2.")) == 0)
        return version_of(name + strlen("/libc-"));
    (void)snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, libc);
    if (stat(path, &info) != 0)
        return 0;
    for (size_t i = 0; i < cache->file_count && i < FILES_MAX; i++)
        if (cache->files[i].device == info.st_dev && cache->files[i].inode == info.st_ino)
            return cache->files[i].glibc;
    const uint32_t glibc = rs_file_read_regular(path, LIBC_LIMIT_BYTES, &bytes, NULL) == RS_OK
                               ? rs_libraries_glibc(rs_buf_text(&bytes), bytes.length)
                               : 0;
    rs_buf_fini(&bytes);
    cache->files[cache->file_count++ % FILES_MAX] =
        (struct libc_file){info.st_dev, info.st_ino, glibc};
    return glibc;
}

static void look(struct rs_library_cache *cache, struct known *known, rs_ns now)
{
    char path[64], libc[RS_LIBRARIES_PATH_BYTES];
    struct rs_buf maps = {0};
    known->looks++;
    known->looked_at = now;
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)known->pid);
    if (rs_file_read(path, MAPS_LIMIT_BYTES, &maps, NULL) == RS_OK) {
        known->libraries.activities = rs_libraries_from_maps(rs_buf_text(&maps), libc);
        known->libraries.glibc = glibc_of_file(cache, known->pid, libc);
    }
    rs_buf_fini(&maps);
}

/* ---- what is remembered ----------------------------------------------------------------------------------------- */

static bool is_same(const void *self, uint32_t index, const void *wanted)
{
    const struct known *known = &((const struct rs_library_cache *)self)->items[index];
    const struct known *other = wanted;
    return known->pid == other->pid && known->incarnation == other->incarnation;
}

static uint64_t hash_of(const struct known *known)
{
    return rs_slots_mix(rs_slots_mix(0, (uint64_t)known->pid), known->incarnation);
}

/* Leaves out those that nobody has asked for lately. Without memory for the index all are looked at anew. */
static void sweep(struct rs_library_cache *cache, rs_ns now)
{
    size_t kept = 0;
    rs_slots_fini(&cache->slots);
    for (size_t i = 0; i < cache->count; i++) {
        if (now - cache->items[i].asked_at >= forget_ns ||
            rs_slots_put(&cache->slots, hash_of(&cache->items[i]), (uint32_t)kept) != RS_OK)
            continue;
        cache->items[kept++] = cache->items[i];
    }
    cache->count = kept;
    cache->swept_at = now;
}

/* Its place, made when it is new; NULL: no memory. */
static struct known *place_of(struct rs_library_cache *cache, const struct known *wanted)
{
    const uint32_t found = rs_slots_find(&cache->slots, hash_of(wanted), is_same, cache, wanted);
    if (found != RS_SLOTS_NONE)
        return &cache->items[found];
    if (rs_mem_grow((void **)&cache->items, &cache->capacity, cache->count + 1,
                    sizeof *cache->items) < 0 ||
        rs_slots_put(&cache->slots, hash_of(wanted), (uint32_t)cache->count) != RS_OK)
        return NULL;
    cache->items[cache->count] = *wanted;
    return &cache->items[cache->count++];
}

struct rs_libraries rs_libraries_of(struct rs_library_cache *cache, pid_t pid,
                                    const char *incarnation, rs_ns now)
{
    const struct known wanted = {.pid = pid,
                                 .incarnation = XXH3_64bits(incarnation, strlen(incarnation))};
    if (now - cache->swept_at >= forget_ns)
        sweep(cache, now);
    struct known *known = pid > 0 ? place_of(cache, &wanted) : NULL;
    if (!known)
        return (struct rs_libraries){0};
    known->asked_at = now;
    if (!known->looks || (known->looks < LOOKS_MAX && !known->libraries.activities &&
                          now - known->looked_at >= look_again_ns))
        look(cache, known, now);
    return known->libraries;
}
