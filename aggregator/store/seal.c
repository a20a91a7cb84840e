/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals: whether the catalogue's rows of a closed capture are those that were written.
 *
 *     a capture is closed   its row and its ranks' rows --read back, encoded, XXH3--> seal, in the same transaction
 *     it is opened again    the seal goes
 *     the store is opened   every closed capture has a seal that fits, nobody else has one; else the catalogue is damaged: it is kept
 *                           aside and made again from the captures' folders (rebuild.c)
 *
 * SQLite's own check finds pages that contradict each other. Garbage inside a text or a number contradicts nothing, and was shown as if
 * it had been said. Rows of open captures are not sealed (they change with every message), nor are the positions of streams, nor the
 * names of what was removed.
 */
#include "aggregator/store/store_priv.h"
#include "common/base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

struct digesting {
    XXH3_state_t *state;
    struct rs_buf buf;
    bool has_failed;
};

static void add(struct digesting *digesting)
{
    digesting->has_failed |= digesting->buf.failed;
    if (!digesting->has_failed)
        (void)XXH3_64bits_update(digesting->state, digesting->buf.data, digesting->buf.length);
}

static bool add_rank(void *self, const struct rs_capture_rank *rank)
{
    struct digesting *digesting = self;
    facts_encode_ranks(rank, 1, &digesting->buf);
    add(digesting);
    return true;
}

/* Of what the catalogue has of it now. */
static enum rs_status digest_of(struct catalogue *catalogue, const char *id, uint64_t *digest_p,
                                struct rs_err *err)
{
    struct digesting digesting = {.state = XXH3_createState()};
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    enum rs_status status = RS_NOMEM;
    if (digesting.state && facts) {
        (void)XXH3_64bits_reset(digesting.state);
        status = catalogue_find(catalogue, id, facts, err);
    }
    if (status == RS_OK) {
        facts_encode(facts, 0, &digesting.buf);
        add(&digesting);
        status = catalogue_list_ranks(catalogue, id, add_rank, &digesting, err);
    }
    if (status == RS_OK && digesting.has_failed)
        status = RS_NOMEM;
    if (status == RS_OK)
        *digest_p = XXH3_64bits_digest(digesting.state);
    rs_buf_fini(&digesting.buf);
    rs_mem_free(facts);
    (void)XXH3_freeState(digesting.state);
    return status == RS_NOMEM ? rs_err_set(err, status, "no memory to seal a capture's rows")
                              : status;
}

enum rs_status seal_put(struct catalogue *catalogue, const char *id, struct rs_err *err)
{
    uint64_t digest = 0;
    const enum rs_status status = digest_of(catalogue, id, &digest, err);
    return status == RS_OK ? catalogue_put_seal(catalogue, id, digest, err) : status;
}

/* All of them first: asking for rows while they are listed would need the list's statement twice. */
struct seal_list {
    struct seal {
        char id[RS_STORE_ID_BYTES];
        bool is_closed, is_sealed;
        uint64_t digest;
    } * items;
    size_t count, capacity;
    bool has_failed;
};

static bool add_seal(void *self, const char *id, bool is_closed, const uint64_t *digest)
{
    struct seal_list *list = self;
    if (rs_mem_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items) <
        0) {
        list->has_failed = true;
        return false;
    }
    struct seal *seal = &list->items[list->count++];
    *seal = (struct seal){
        .is_closed = is_closed, .is_sealed = digest != NULL, .digest = digest ? *digest : 0};
    (void)snprintf(seal->id, sizeof seal->id, "%s", id);
    return true;
}

static enum rs_status check(struct catalogue *catalogue, const struct seal *seal,
                            struct rs_err *err)
{
    uint64_t digest = 0;
    enum rs_status status = RS_OK;
    if (seal->is_closed && seal->is_sealed)
        status = digest_of(catalogue, seal->id, &digest, err);
    if (status != RS_OK && status != RS_NOTFOUND)
        return status;
    return status == RS_OK && seal->is_closed == seal->is_sealed && digest == seal->digest
               ? RS_OK
               : rs_err_set(err, RS_FORMAT,
                            "catalogue.db is damaged: what it says of capture %.63s is not what "
                            "was written",
                            seal->id);
}

enum rs_status seals_check(struct catalogue *catalogue, bool must_make, struct rs_err *err)
{
    struct seal_list list = {0};
    enum rs_status status = catalogue_list_seals(catalogue, add_seal, &list, err);
    if (status == RS_OK && list.has_failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to check the catalogue");
    for (size_t i = 0; i < list.count && status == RS_OK; i++) {
        if (!must_make)
            status = check(catalogue, &list.items[i], err);
        else if (list.items[i].is_closed)
            status = seal_put(catalogue, list.items[i].id, err);
    }
    rs_mem_free(list.items);
    if (status == RS_NOTFOUND) /* a name that cannot be looked up is no name that was written */
        status = rs_err_set(err, RS_FORMAT,
                            "catalogue.db is damaged: it names a capture that it does not have");
    return status;
}
