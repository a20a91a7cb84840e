/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trust/token.h"

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/trust/trust_priv.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_RAW_BYTES = 32, FILE_MAX_BYTES = 512, TOKENS_MAX = 4096 };

const char rs_token_serial[] = "token-";

static const char magic[] = "rst1.";
static const char run_word[] = "run ";
static const rs_dur look_after_ns = RS_NS_PER_S;
/* A folder's time is of the system's tick: a change as close to the last look as this may have been missed by it. */
static const rs_dur tick_ns = RS_NS_PER_S / 20;

struct token {
    struct rs_token_item item;
    char digest[RS_SHA256_HEX_BYTES];
};

struct rs_tokens {
    char dir[TRUST_PATH_BYTES];
    pthread_mutex_t lock; /* guards everything below */
    struct token *items;  /* by ID */
    size_t count, capacity;
    rs_ns looked_at; /* monotonic */
};

enum rs_status rs_tokens_open(const char *dir, struct rs_tokens **tokens_p, struct rs_err *err)
{
    struct rs_tokens *tokens = rs_mem_calloc(1, sizeof *tokens);
    if (!tokens)
        return rs_err_set(err, RS_NOMEM, "no memory for tokens");
    if ((size_t)snprintf(tokens->dir, sizeof tokens->dir, "%s", dir) >= sizeof tokens->dir - 64) {
        rs_mem_free(tokens);
        return rs_err_set(err, RS_INVALID, "the path of the tokens is too long");
    }
    (void)pthread_mutex_init(&tokens->lock, NULL);
    *tokens_p = tokens;
    return RS_OK;
}

void rs_tokens_close(struct rs_tokens **tokens_p)
{
    struct rs_tokens *tokens = *tokens_p;
    *tokens_p = NULL;
    if (!tokens)
        return;
    (void)pthread_mutex_destroy(&tokens->lock);
    rs_mem_free(tokens->items);
    rs_mem_free(tokens);
}

/* ---- making ------------------------------------------------------------------------------------------------------- */

static enum rs_status write_token(const struct rs_tokens *tokens, const struct token *token,
                                  struct rs_err *err)
{
    char line[FILE_MAX_BYTES], path[TRUST_PATH_BYTES + 32], temporary[TRUST_PATH_BYTES + 64];
    const bool has_run = *token->item.run != '\0';
    const int length = snprintf(line, sizeof line, "%s %s %lld %lld %s\n%s%s%s", token->digest,
                                rs_party_name(token->item.party), (long long)token->item.created_at,
                                (long long)token->item.expires_at, token->item.name,
                                has_run ? run_word : "", token->item.run, has_run ? "\n" : "");
    (void)snprintf(path, sizeof path, "%s/%s", tokens->dir, token->item.id);
    (void)snprintf(temporary, sizeof temporary, "%s/.%s.tmp-%ld", tokens->dir, token->item.id,
                   (long)getpid());
    enum rs_status status = rs_file_make_dirs(tokens->dir, 0700, err);
    if (status < 0)
        return status;
    char parent[TRUST_PATH_BYTES + 8];
    (void)snprintf(parent, sizeof parent, "%s/..", tokens->dir);
    trust_follow_owner(tokens->dir, parent);
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return rs_err_errno(err, "cannot create %s", temporary);
    status = rs_file_write_all(fd, line, (size_t)length, temporary, err);
    if (status == RS_OK && fsync(fd) < 0)
        status = rs_err_errno(err, "cannot write %s", temporary);
    (void)close(fd);
    trust_follow_owner(temporary, tokens->dir);
    if (status == RS_OK && rename(temporary, path) < 0)
        status = rs_err_errno(err, "cannot rename %s", temporary);
    if (status < 0)
        (void)unlink(temporary);
    return status == RS_OK ? rs_file_sync_dir(tokens->dir, err) : status;
}

/* Of people and programs that ask; nodes and aggregators have certificates. */
static bool is_for(enum rs_party party)
{
    return party == RS_PARTY_USER || party == RS_PARTY_VIEWER || party == RS_PARTY_OPERATOR;
}

/* A line of text that fits. Runs may have other names, but no token. */
static bool is_run(const char *run)
{
    const size_t length = strlen(run);
    if (length == 0 || length >= RS_IDENTITY_RUN_BYTES)
        return false;
    for (const char *at = run; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return false;
    return true;
}

static enum rs_status check_wish(const struct rs_token_wish *wish, rs_ns now, struct rs_err *err)
{
    if (!is_for(wish->party))
        return rs_err_set(err, RS_INVALID, "a token is a viewer's or an operator's");
    if (!rs_identity_is_name(wish->name))
        return rs_err_set(err, RS_INVALID, "\"%.80s\" is no name for a token", wish->name);
    if (wish->run && !is_run(wish->run))
        return rs_err_set(err, RS_INVALID,
                          "a token's run has 1 to %d bytes, and no control characters",
                          RS_IDENTITY_RUN_BYTES - 1);
    if (wish->expires_at <= now)
        return rs_err_set(err, RS_INVALID, "the token would be over already");
    return RS_OK;
}

enum rs_status rs_tokens_make(struct rs_tokens *tokens, const struct rs_token_wish *wish,
                              struct rs_buf *text, struct rs_err *err)
{
    unsigned char raw[SECRET_RAW_BYTES];
    struct token token = {.item = {.party = wish->party,
                                   .created_at = rs_time_realtime(),
                                   .expires_at = wish->expires_at}};
    struct rs_buf secret = {0};
    const enum rs_status checked = check_wish(wish, token.item.created_at, err);
    if (checked < 0)
        return checked;
    if (RAND_bytes(raw, sizeof raw) != 1)
        return rs_err_set(err, RS_IO, "OpenSSL cannot make a token: %s", trust_last_error());
    (void)snprintf(token.item.name, sizeof token.item.name, "%s", wish->name);
    (void)snprintf(token.item.run, sizeof token.item.run, "%s", wish->run ? wish->run : "");
    rs_buf_string(&secret, magic);
    for (size_t i = 0; i < sizeof raw; i++)
        rs_buf_printf(&secret, "%02x", raw[i]);
    enum rs_status status =
        secret.failed || rs_sha256_hex(secret.data, secret.length, token.digest) < 0
            ? rs_err_set(err, RS_NOMEM, "no memory for a token")
            : RS_OK;
    (void)snprintf(token.item.id, sizeof token.item.id, "%.12s", token.digest);
    if (status == RS_OK)
        status = write_token(tokens, &token, err);
    if (status == RS_OK)
        rs_buf_bytes(text, secret.data, secret.length);
    if (secret.data)
        OPENSSL_cleanse(secret.data, secret.length);
    rs_buf_fini(&secret);
    OPENSSL_cleanse(raw, sizeof raw);
    return status == RS_OK && text->failed ? rs_err_set(err, RS_NOMEM, "no memory for a token")
                                           : status;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* What stands behind the first line: nothing, or a run. */
static bool parse_run(const char *text, struct token *token)
{
    if (!*text)
        return true;
    if (strncmp(text, run_word, sizeof run_word - 1) != 0)
        return false;
    text += sizeof run_word - 1;
    const size_t length = strcspn(text, "\n");
    if (length >= sizeof token->item.run || strcmp(text + length, "\n") != 0)
        return false;
    (void)snprintf(token->item.run, sizeof token->item.run, "%.*s", (int)length, text);
    return is_run(token->item.run);
}

/* Of a file that write_token() wrote; anything else is no token. */
static bool parse(const char *line, const char *id, struct token *token_p)
{
    struct token token = {.item = {.name = ""}};
    char party[16];
    long long created = 0, expires = 0;
    struct rs_err ignored;
    int used = 0;
    /* NOLINTNEXTLINE(cert-err34-c): this program's own line, in a folder that nobody else writes */
    if (sscanf(line, "%64[0-9a-f] %15s %lld %lld %63s %n", token.digest, party, &created, &expires,
               token.item.name, &used) != 5 ||
        !parse_run(line + used, &token))
        return false;
    if (strlen(token.digest) != RS_SHA256_HEX_BYTES - 1 || strncmp(token.digest, id, 12) != 0 ||
        !rs_identity_is_name(token.item.name) ||
        rs_party_parse(party, &token.item.party, &ignored) < 0 || !is_for(token.item.party))
        return false;
    token.item.created_at = created;
    token.item.expires_at = expires;
    (void)snprintf(token.item.id, sizeof token.item.id, "%.12s", id);
    *token_p = token;
    return true;
}

static bool is_id(const char *name)
{
    return strlen(name) == RS_TOKEN_ID_BYTES - 1 &&
           strspn(name, "0123456789abcdef") == strlen(name);
}

static int by_id(const void *left, const void *right)
{
    return strcmp(((const struct token *)left)->item.id, ((const struct token *)right)->item.id);
}

/* With the lock. No folder: no tokens. One that cannot be read does not count. */
static enum rs_status look(struct rs_tokens *tokens, struct rs_err *err)
{
    DIR *dir = opendir(tokens->dir);
    tokens->count = 0;
    tokens->looked_at = rs_time_monotonic();
    if (!dir)
        return errno == ENOENT ? RS_OK : rs_err_errno(err, "cannot open %s", tokens->dir);
    enum rs_status status = RS_OK;
    for (const struct dirent *entry = rs_dir_next(dir); entry && status == RS_OK;
         entry = rs_dir_next(dir)) {
        char path[TRUST_PATH_BYTES + 300];
        struct rs_buf text = {0};
        struct token token;
        if (!is_id(entry->d_name))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", tokens->dir, entry->d_name);
        if (rs_file_read_regular(path, FILE_MAX_BYTES, &text, NULL) == RS_OK &&
            parse(rs_buf_text(&text), entry->d_name, &token)) {
            if (tokens->count >= TOKENS_MAX)
                status = rs_err_set(err, RS_LIMIT, "there are more than %d tokens in %s",
                                    TOKENS_MAX, tokens->dir);
            else if (rs_mem_grow((void **)&tokens->items, &tokens->capacity, tokens->count + 1,
                                 sizeof *tokens->items) < 0)
                status = rs_err_set(err, RS_NOMEM, "no memory for tokens");
            else
                tokens->items[tokens->count++] = token;
        }
        rs_buf_fini(&text);
    }
    (void)closedir(dir);
    if (tokens->count)
        qsort(tokens->items, tokens->count, sizeof *tokens->items, by_id);
    return status;
}

/* With the lock. */
static enum rs_status look_again(struct rs_tokens *tokens, rs_dur after_ns, struct rs_err *err)
{
    return tokens->looked_at && rs_time_monotonic() - tokens->looked_at < after_ns
               ? RS_OK
               : look(tokens, err);
}

enum rs_status rs_tokens_list(struct rs_tokens *tokens,
                              void (*visit)(void *self, const struct rs_token_item *item),
                              void *self, struct rs_err *err)
{
    (void)pthread_mutex_lock(&tokens->lock);
    const enum rs_status status = look(tokens, err);
    for (size_t i = 0; status == RS_OK && i < tokens->count; i++)
        visit(self, &tokens->items[i].item);
    (void)pthread_mutex_unlock(&tokens->lock);
    return status;
}

static bool is_meant(const struct token *token, const char *word)
{
    char who[RS_IDENTITY_TEXT_BYTES];
    (void)snprintf(who, sizeof who, "%s/%s", rs_party_name(token->item.party), token->item.name);
    return strcmp(word, token->item.id) == 0 || strcmp(word, who) == 0;
}

enum rs_status rs_tokens_revoke(struct rs_tokens *tokens, const char *word, size_t *count_p,
                                struct rs_err *err)
{
    *count_p = 0;
    (void)pthread_mutex_lock(&tokens->lock);
    enum rs_status status = look(tokens, err);
    for (size_t i = 0; status == RS_OK && i < tokens->count; i++) {
        char path[TRUST_PATH_BYTES + 32];
        if (!is_meant(&tokens->items[i], word))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", tokens->dir, tokens->items[i].item.id);
        if (unlink(path) < 0 && errno != ENOENT)
            status = rs_err_errno(err, "cannot remove %s", path);
        else
            (*count_p)++;
    }
    if (status == RS_OK && *count_p)
        status = rs_file_sync_dir(tokens->dir, err);
    (void)pthread_mutex_unlock(&tokens->lock);
    if (status == RS_OK && !*count_p)
        status = rs_err_set(err, RS_NOTFOUND,
                            "there is no token \"%.80s\": give its ID, or PARTY/NAME", word);
    return status;
}

/* ---- believing ---------------------------------------------------------------------------------------------------- */

/* With the lock. Whether something may have come into the folder since the last look. */
static bool has_changed(const struct rs_tokens *tokens)
{
    struct stat info;
    if (stat(tokens->dir, &info) < 0)
        return false;
    const rs_ns changed = rs_file_changed_ns(&info);
    const rs_ns looked = rs_time_realtime() - (rs_time_monotonic() - tokens->looked_at);
    return changed + tick_ns > looked;
}

/* With the lock. All are compared, whichever it is. */
static void find(const struct rs_tokens *tokens, const char digest[RS_SHA256_HEX_BYTES],
                 struct token *found)
{
    for (size_t i = 0; i < tokens->count; i++)
        if (CRYPTO_memcmp(tokens->items[i].digest, digest, RS_SHA256_HEX_BYTES) == 0)
            *found = tokens->items[i];
}

enum rs_status rs_tokens_identify(struct rs_tokens *tokens, const char *text, rs_ns now,
                                  struct rs_identity *identity_p, struct rs_err *err)
{
    char digest[RS_SHA256_HEX_BYTES];
    struct token found = {.item = {.name = ""}};
    if (strlen(text) > RS_TOKEN_MAX_BYTES)
        return rs_err_set(err, RS_REFUSED, "this is no token of this service");
    if (rs_sha256_hex(text, strlen(text), digest) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for a token");
    (void)pthread_mutex_lock(&tokens->lock);
    enum rs_status status = look_again(tokens, look_after_ns, err);
    if (status == RS_OK)
        find(tokens, digest, &found);
    if (status == RS_OK && !*found.item.id && has_changed(tokens)) { /* it may be a moment old */
        status = look(tokens, err);
        find(tokens, digest, &found);
    }
    (void)pthread_mutex_unlock(&tokens->lock);
    if (status < 0)
        return status;
    if (!*found.item.id)
        return rs_err_set(err, RS_REFUSED, "this is no token of this service, or it was revoked");
    if (now >= found.item.expires_at)
        return rs_err_set(err, RS_REFUSED, "the token %s of %s is over", found.item.id,
                          found.item.name);
    struct rs_identity identity = {.party = found.item.party,
                                   .begins_at = found.item.created_at,
                                   .expires_at = found.item.expires_at};
    (void)snprintf(identity.name, sizeof identity.name, "%s", found.item.name);
    (void)snprintf(identity.run, sizeof identity.run, "%s", found.item.run);
    (void)snprintf(identity.serial, sizeof identity.serial, "%s%s", rs_token_serial, found.item.id);
    *identity_p = identity;
    return RS_OK;
}

enum rs_status rs_tokens_check(struct rs_tokens *tokens, const struct rs_identity *identity,
                               rs_ns now, struct rs_err *err)
{
    const char *id = identity->serial + strlen(rs_token_serial);
    bool is_there = false;
    (void)pthread_mutex_lock(&tokens->lock);
    const enum rs_status status = look_again(tokens, look_after_ns, err);
    for (size_t i = 0; status == RS_OK && i < tokens->count; i++)
        is_there |= strcmp(tokens->items[i].item.id, id) == 0;
    (void)pthread_mutex_unlock(&tokens->lock);
    if (status < 0)
        return status;
    if (!is_there)
        return rs_err_set(err, RS_REFUSED, "the token was revoked");
    return now < identity->expires_at ? RS_OK : rs_err_set(err, RS_REFUSED, "the token is over");
}
