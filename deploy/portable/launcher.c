/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bin/rankscope of the portable build: starts lib/rankscope/rankscope with the C library and the libraries that lie beside it,
 * so that what the machine has, and how old it is, does not matter. Linked statically, so this program needs none itself.
 *
 *     PREFIX/bin/rankscope                  this
 *     PREFIX/lib/rankscope/loader           ld.so of the system it was built on
 *     PREFIX/lib/rankscope/rankscope        the program
 *     PREFIX/lib/rankscope/lib*.so.N        its libraries
 *
 * The environment is left alone (no LD_LIBRARY_PATH): `rankscope run` starts the user's programs with it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
}

int main(int argc, char **argv)
{
    char own[PATH_MAX], folder[PATH_MAX + 16], loader[PATH_MAX + 32], program[PATH_MAX + 32];
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0) {
        (void)fprintf(stderr,
                      "rankscope: cannot find out where it is installed (/proc/self/exe): %s\n",
                      strerror(errno));
        return 3;
    }
    own[length] = 0;
    cut_last(own); /* the program's name */
    cut_last(own); /* bin */
    (void)snprintf(folder, sizeof folder, "%s/lib/rankscope", own);
    (void)snprintf(loader, sizeof loader, "%s/loader", folder);
    (void)snprintf(program, sizeof program, "%s/rankscope", folder);
    char **words = calloc((size_t)argc + 8, sizeof *words);
    if (!words) {
        (void)fputs("rankscope: out of memory\n", stderr);
        return 3;
    }
    size_t count = 0;
    words[count++] = loader;
    words[count++] =
        (char[]){"--inhibit-cache"}; /* the machine's list of libraries is of another C library */
    words[count++] = (char[]){"--library-path"};
    words[count++] = folder;
    words[count++] = (char[]){"--argv0"};
    words[count++] = argc > 0 ? argv[0] : (char[]){"rankscope"};
    words[count++] = program;
    for (int i = 1; i < argc; i++)
        words[count++] = argv[i];
    (void)execv(loader, words);
    (void)fprintf(
        stderr,
        "rankscope: cannot start %s: %s; the folders bin and lib of the portable build belong together\n",
        loader, strerror(errno));
    return 3;
}
