/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a corpus folder through a fuzz target without libFuzzer, so that every crash once
 * found stays a regression test in ordinary builds.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0;
    size_t got = 0;
    do {
        uint8_t *grown = realloc(data, size + 65536);
        if (!grown)
            abort();
        data = grown;
        got = fread(data + size, 1, 65536, file);
        size += got;
    } while (got);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    int failures = 0;
    size_t files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            perror(argv[i]);
            return 1;
        }
        struct dirent *entry;
        while ((entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe): one thread */
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            (void)snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            failures += replay_file(path);
            files++;
        }
        (void)closedir(dir);
    }
    printf("%zu inputs replayed\n", files);
    return failures || !files;
}
