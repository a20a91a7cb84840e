/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs, also for those that speak of all of them: completion, man pages, `config show`. */
#ifndef RS_CLI_VERBS_H
#define RS_CLI_VERBS_H

#include <stddef.h>

enum { RS_SUBVERBS_MAX = 6 };

struct rs_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *sentence;
    const char *words;                     /* operands that are words, for completion; NULL none */
    const char *subverbs[RS_SUBVERBS_MAX]; /* each with options of its own; NULL behind the last */
};

/* In the order of the help; NULL behind the last. */
const struct rs_verb *rs_verb_at(size_t index);

/* Verbs of a wing, which stand before the last of the help. Once, before rs_cli_main(); keeps the pointer. */
void rs_verbs_add(const struct rs_verb *verbs, size_t count);

/* What main() does: runs the verb of argv[1], or prints what there is; the exit code. */
int rs_cli_main(int argc, char **argv);

#endif
