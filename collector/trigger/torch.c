/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/torch.h"

#include "common/base/buf.h"
#include "common/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAPS_LIMIT_BYTES = 32 * 1024 * 1024 };

/* The path of one line of a map: from its first '/' to its end. */
static size_t path_of(const char *line, size_t length, const char **path_p)
{
    const char *slash = memchr(line, '/', length);
    *path_p = slash;
    return slash ? length - (size_t)(slash - line) : 0;
}

static bool starts_with(const char *text, size_t length, const char *prefix)
{
    return length >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
}

/* libtorch.so, libtorch_cpu.so, libtorch_python.so, ... */
static bool is_libtorch(const char *path, size_t length)
{
    const char *name = path;
    for (size_t i = 0; i < length; i++)
        if (path[i] == '/')
            name = path + i + 1;
    const size_t rest = length - (size_t)(name - path);
    if (!starts_with(name, rest, "libtorch") || rest == strlen("libtorch"))
        return false;
    const char next = name[strlen("libtorch")];
    return (next == '.' || next == '_') && memmem(name, rest, ".so", 3) != NULL;
}

bool rs_torch_from_maps(const char *maps, struct rs_torch *torch)
{
    torch->library[0] = '\0';
    torch->has_cuda = false;
    for (const char *line = maps; *line;) {
        const char *end = strchrnul(line, '\n');
        const char *path = NULL;
        const size_t length = path_of(line, (size_t)(end - line), &path);
        if (length && memmem(path, length, "/libcuda.so", strlen("/libcuda.so")))
            torch->has_cuda = true;
        if (!torch->library[0] && length && length < sizeof torch->library &&
            is_libtorch(path, length))
            (void)snprintf(torch->library, sizeof torch->library, "%.*s", (int)length, path);
        line = *end ? end + 1 : end;
    }
    return torch->library[0] != '\0';
}

void rs_torch_set_version(struct rs_torch *torch, const char *version)
{
    (void)snprintf(torch->version, sizeof torch->version, "%s", version);
    torch->major = torch->minor = -1;
    char *end = NULL;
    errno = 0;
    const long major = strtol(version, &end, 10);
    if (errno || end == version || *end != '.' || major < 0 || major > 10000)
        return;
    const char *second = end + 1;
    const long minor = strtol(second, &end, 10);
    if (errno || end == second || minor < 0 || minor > 10000)
        return;
    torch->major = (int32_t)major;
    torch->minor = (int32_t)minor;
}

/* .../site-packages/torch/lib/libtorch_cpu.so -> .../site-packages, whose torch-X.Y.Z.dist-info tells. */
static void find_version(pid_t pid, struct rs_torch *torch)
{
    char folder[RS_TORCH_PATH_BYTES + 64];
    (void)snprintf(folder, sizeof folder, "/proc/%d/root%s", (int)pid, torch->library);
    for (int i = 0; i < 3; i++) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    const char *suffix = ".dist-info";
    struct dirent *entry;
    while ((entry = rs_dir_next(dir))) {
        const char *name = entry->d_name;
        const size_t length = strlen(name);
        if (strncmp(name, "torch-", 6) != 0 || length < 6 + strlen(suffix) ||
            strcmp(name + length - strlen(suffix), suffix) != 0)
            continue;
        char version[RS_TORCH_TEXT_BYTES];
        (void)snprintf(version, sizeof version, "%.*s", (int)(length - 6 - strlen(suffix)),
                       name + 6);
        rs_torch_set_version(torch, version);
        break;
    }
    (void)closedir(dir);
}

enum rs_status rs_torch_find(pid_t pid, struct rs_torch *torch_p, struct rs_err *err)
{
    struct rs_torch torch = {.major = -1, .minor = -1};
    struct rs_buf buf = {0};
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    enum rs_status status = rs_file_read(path, MAPS_LIMIT_BYTES, &buf, NULL);
    if (status == RS_IO)
        status =
            rs_err_set(err, RS_REFUSED, "the memory map of process %d may not be read", (int)pid);
    else if (status != RS_OK || !rs_torch_from_maps(rs_buf_text(&buf), &torch))
        status = rs_err_set(err, RS_NOTFOUND, "process %d has no PyTorch", (int)pid);
    if (status == RS_OK) {
        find_version(pid, &torch);
        *torch_p = torch;
    }
    rs_buf_fini(&buf);
    return status;
}

bool rs_torch_can_attach(const struct rs_torch *torch, const char **sentence_p)
{
    const int32_t minor = torch->minor;
    *sentence_p = NULL;
    if (torch->major < 0) {
        *sentence_p = "its version is not known; since 2.7 PyTorch can be attached to";
        return true;
    }
    if (torch->major < 2) {
        *sentence_p = "this PyTorch is too old to ask a daemon; 2.7 and later do";
        return false;
    }
    if (torch->major > 2)
        return true;
    if (minor <= 2) {
        *sentence_p = torch->has_cuda
                          ? "PyTorch 2.0 to 2.2 asks a daemon from its first CUDA context on"
                          : "PyTorch 2.0 to 2.2 does not ask a daemon without CUDA: too old";
        return torch->has_cuda;
    }
    if (minor <= 6) {
        *sentence_p =
            "PyTorch 2.3 to 2.6 often crashes at start when it is to ask a daemon; use 2.7 or "
            "later";
        return true;
    }
    if (minor <= 9)
        *sentence_p =
            "PyTorch 2.7 to 2.9 may crash at start when it is to ask a daemon (a race, mended "
            "in 2.10)";
    return true;
}
