/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which PyTorch a process runs, and whether that one can be told to record from outside.
 *
 * Seen from outside only: the libtorch*.so that it has mapped, and beside it the folder torch-X.Y.Z.dist-info that
 * every installation leaves (through /proc/PID/root, so that containers count too). Any thread.
 */
#ifndef RS_TRIGGER_TORCH_H
#define RS_TRIGGER_TORCH_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RS_TORCH_TEXT_BYTES = 64, RS_TORCH_PATH_BYTES = 1024 };

struct rs_torch {
    char library[RS_TORCH_PATH_BYTES]; /* as the process sees it */
    char version[RS_TORCH_TEXT_BYTES]; /* "2.15.0", "2.1.0+cu118"; "" not found */
    int32_t major, minor;              /* -1 unknown */
    bool has_cuda;                     /* a CUDA driver is mapped, too */
};

/* RS_NOTFOUND: it has no libtorch mapped. RS_REFUSED: its memory map may not be read. */
RS_MUST_CHECK enum rs_status rs_torch_find(pid_t pid, struct rs_torch *torch_p, struct rs_err *err);

/* A version's way with the daemon (started with the variable set): false: it will not register. `sentence_p`: why, or what
 * to know; static, NULL nothing. */
bool rs_torch_can_attach(const struct rs_torch *torch, const char **sentence_p);

/* The same from a memory map's text and without looking for the folder: fills library and has_cuda. */
bool rs_torch_from_maps(const char *maps, struct rs_torch *torch);
/* "2.15.0+cpu" -> 2, 15. */
void rs_torch_set_version(struct rs_torch *torch, const char *version);

#endif
