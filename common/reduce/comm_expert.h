/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel of an exchange between experts (DeepEP) is it? Any thread. */
#ifndef RS_REDUCE_COMM_EXPERT_H
#define RS_REDUCE_COMM_EXPERT_H

#include <stddef.h>

enum comm_expert {
    COMM_EXPERT_NONE,
    COMM_EXPERT_LAYOUT, /* counts and places of tokens: the rank by itself */
    COMM_EXPERT_NOTIFY, /* tells the others how many come, and waits for them */
    COMM_EXPERT_MOVE,   /* dispatch, combine */
};

/* By the demangled name of a kernel; it need not end in a NUL. */
enum comm_expert comm_expert_of(const char *name, size_t length);

#endif
