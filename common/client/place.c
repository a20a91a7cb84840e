/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/place.h"

#include "common/base/file.h"
#include "common/base/paths.h"
#include "common/client/client.h"
#include "common/client/documents.h"
#include "common/wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- where a capture is ----------------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* DATA/captures/ID; DATA as the aggregator's own default. False: it is not there. */
static bool find_folder(const char *data, const char *id, struct rs_client_place *place)
{
    char usual[RS_PATHS_BYTES];
    if (!data && rs_paths_data_dir(usual, NULL) != RS_OK)
        return false;
    const int length =
        snprintf(place->dir, sizeof place->dir, "%s/captures/%s", data ? data : usual, id);
    return length > 0 && (size_t)length < sizeof place->dir && is_folder(place->dir);
}

enum rs_status rs_client_place_of(const char *word, const char *data, const char *connect,
                                  struct rs_client_place *place_p, struct rs_err *err)
{
    struct rs_client_place place = {.dir = ""};
    if (is_folder(word)) {
        if ((size_t)snprintf(place.dir, sizeof place.dir, "%s", word) >= sizeof place.dir)
            return rs_err_set(err, RS_INVALID, "the path of that folder is too long");
        *place_p = place;
        return RS_OK;
    }
    /* An id is one name, never a way out of the folder of captures. */
    if (strchr(word, '/') || *word == '.')
        return rs_err_set(err, RS_NOTFOUND, "there is no folder %.600s", word);
    const bool is_here = find_folder(data, word, &place);
    if (data) {
        if (!is_here)
            return rs_err_set(err, RS_NOTFOUND, "there is no capture %.100s in %.600s", word, data);
        *place_p = place;
        return RS_OK;
    }
    const enum rs_status status = rs_client_address(connect, &place.address, err);
    if (status < 0)
        return status;
    if (connect || !is_here || rs_client_is_there(&place.address))
        place.dir[0] = '\0';
    *place_p = place;
    return RS_OK;
}

/* ---- a folder that is carried away --------------------------------------------------------------------------------- */

static enum rs_status carry(const struct rs_address *address, const char *capture,
                            struct rs_client_carried *carried_p, struct rs_err *err)
{
    struct rs_client_document_options how = {.is_raw = true};
    struct rs_client_documents documents = {.count = 0};
    struct rs_buf unused = {0};
    struct rs_client_carried carried = {.is_temporary = true};
    const char *temporary = getenv("TMPDIR");
    (void)snprintf(carried.dir, sizeof carried.dir, "%.4000s/rankscope-XXXXXX",
                   temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(carried.dir))
        return rs_err_errno(err, "cannot create a folder like %s", carried.dir);
    how.dir = carried.dir;
    const enum rs_status status =
        rs_client_documents_fetch(address, capture, &how, &documents, &unused, err);
    rs_client_documents_fini(&documents);
    rs_buf_fini(&unused);
    if (status < 0)
        rs_client_carried_remove(&carried);
    else
        *carried_p = carried;
    return status;
}

void rs_client_carried_remove(struct rs_client_carried *carried)
{
    if (carried->is_temporary)
        (void)!rs_file_remove_tree(carried->dir, NULL);
    *carried = (struct rs_client_carried){.dir = ""};
}

static bool is_capture(const char *dir)
{
    char path[4096 + 16];
    (void)snprintf(path, sizeof path, "%.4095s/segments", dir);
    return is_folder(path);
}

/* DATA/captures/ID, if it is there. */
static bool find_in(const char *data, const char *id, struct rs_client_carried *carried)
{
    (void)snprintf(carried->dir, sizeof carried->dir, "%.3900s/captures/%.100s", data, id);
    return is_capture(carried->dir);
}

bool rs_client_is_capture(const char *word)
{
    return access(word, F_OK) == 0 ? is_capture(word) : rs_wire_is_capture_id(word);
}

enum rs_status rs_client_carry(const char *word, const char *data, const char *connect,
                               struct rs_client_carried *carried_p, struct rs_err *err)
{
    struct rs_client_carried carried = {.dir = ""};
    struct rs_address address;
    char usual[RS_PATHS_BYTES];
    enum rs_status status = RS_OK;
    if (access(word, F_OK) == 0 || !rs_wire_is_capture_id(word)) {
        (void)snprintf(carried.dir, sizeof carried.dir, "%.4095s", word);
        status = is_capture(word)
                     ? RS_OK
                     : rs_err_set(err, RS_NOTFOUND, "%.600s is no folder of a capture", word);
    } else if (data) {
        status =
            find_in(data, word, &carried)
                ? RS_OK
                : rs_err_set(err, RS_NOTFOUND, "there is no capture %.100s in %.600s", word, data);
    } else {
        status = rs_client_address(connect, &address, err);
        const bool is_asked = status == RS_OK && (connect || rs_client_is_there(&address));
        if (is_asked)
            status = carry(&address, word, &carried, err);
        else if (status == RS_OK &&
                 (rs_paths_data_dir(usual, NULL) < 0 || !find_in(usual, word, &carried)))
            status = rs_err_set(err, RS_NOTFOUND,
                                "no aggregator answers at %s, and %.100s is no capture here",
                                address.text, word);
    }
    if (status == RS_OK)
        *carried_p = carried;
    return status;
}
