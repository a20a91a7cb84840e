/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs (cli/verbs.def), also for those that speak of all of them: completion, man pages, `config show`. */
#ifndef RS_CLI_VERBS_H
#define RS_CLI_VERBS_H

#include "cli/options/args.h"

struct rs_verb {
    const char *name; /* of a sub-verb with its verb's: "certs init" */
    const char *sentence;
    const struct rs_args *args; /* its grammar, by which it is run; NULL: `run`, or its sub-verbs */
    int (*run)(int argc, char **argv); /* main's signature, argv[0] is the verb */
    const char *words;                 /* operands that are words, for completion; NULL none */
    const char *about;                 /* what its sub-verbs are for */
};

#define V(name, ...)       extern const struct rs_args rs_grammar_##name;
#define S(verb, name, ...) extern const struct rs_args rs_grammar_##verb##_##name;
#define G(name, run_, ...)
#include "cli/verbs.def"
#undef V
#undef S
#undef G
int rs_cmd_config(int argc, char **argv);

/* In the order of the help; NULL behind the last. */
const struct rs_verb *rs_verb_at(size_t index);
/* Its sub-verbs; NULL behind the last. */
const struct rs_verb *rs_verb_sub(const struct rs_verb *verb, size_t index);
/* The sub-verb of that name, without its verb's; NULL: there is none. */
const struct rs_verb *rs_verb_sub_named(const struct rs_verb *verb, const char *name);

/* Runs it: parses by its grammar, holds the operands against it and hands them on; the exit code. */
int rs_verb_run(const struct rs_verb *verb, int argc, char **argv);
/* Hands its grammar, or those of its sub-verbs, to `describe`. */
void rs_verb_describe(const struct rs_verb *verb, rs_args_describe_fn *describe, void *self);

/* Verbs of a wing, which stand before the last of the help. Once, before rs_cli_main(); keeps the pointer. */
void rs_verbs_add(const struct rs_verb *verbs, size_t count);

/* What main() does: runs the verb of argv[1], or prints what there is; the exit code. */
int rs_cli_main(int argc, char **argv);

#endif
