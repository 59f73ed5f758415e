/*
 * What the headers of a response say, and whether that is what was asked for.
 *
 * Nothing a server says is believed because it said so: a range must be the one that was asked for,
 * of a file of the size that is known, with the validators that the first answer had. What is left
 * (bytes that are not those of the file, under headers that are right) only a hash can tell.
 *
 * Headers of all responses in a chain of redirects go through one struct answer: each status line
 * begins anew, but what a hub says of the file before it redirects (X-Linked-Etag, X-Linked-Size) stays.
 *
 * Owns nothing. Pure.
 */
#ifndef BATCH_FETCH_ANSWER_H
#define BATCH_FETCH_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "batch/fetch/list.h"

#define VALIDATOR_MAX 200

/* What a file on a server is: two responses about the same bytes say the same. */
struct remote {
    uint64_t size;                /* FETCH_UNKNOWN */
    char etag[VALIDATOR_MAX];     /* as sent, with its quotes; "" none */
    char modified[VALIDATOR_MAX]; /* Last-Modified; "" none */
    char linked_sha256[65];       /* X-Linked-Etag; "" none */
};

struct answer {
    int status;
    uint64_t length; /* Content-Length; FETCH_UNKNOWN */
    bool has_range;  /* Content-Range, well formed */
    bool range_unsatisfied;
    uint64_t first, last, total; /* total FETCH_UNKNOWN: '*' */
    bool encoded;                /* Content-Encoding: the bytes are not the file's */
    bool parts;                  /* multipart: likewise */
    bool html;
    int64_t retry_after_s; /* -1: none */
    struct remote remote;  /* its size is the linked one only */
};

void answer_init(struct answer *a);
/* One line, with or without its line end. */
void answer_line(struct answer *a, struct str line);

/*
 * 1: the same file, 0: another one, -1: they have nothing in common to tell by. A hub's hash is
 * stronger than what the servers behind it say, which may differ among them.
 */
int remote_same(const struct remote *a, const struct remote *b);
/* The SHA-256 that the server names: X-Linked-Etag, or an ETag that looks like one; else "". */
void remote_sha256(const struct remote *r, char out[65]);
/* Whether something is there to compare later answers with. */
bool remote_has_validator(const struct remote *r);
/* The header value for If-Range, or "": weak tags may not stand there. */
const char *remote_if_range(const struct remote *r);

enum verdict {
    VERDICT_OK,
    VERDICT_LIES,    /* its ranges cannot be trusted */
    VERDICT_CHANGED, /* another file than before */
    VERDICT_LATER,   /* try again: overloaded, failing */
    VERDICT_DENIED,  /* 401, 403 */
    VERDICT_GONE,    /* 404, 410 */
    VERDICT_REFUSED, /* anything else */
};

/* What was asked for. */
struct question {
    bool ranged;
    uint64_t first, last;
    const struct remote *remote; /* as it was; NULL: nothing is known */
    bool hashed;                 /* a SHA-256 will tell in the end */
};

enum verdict answer_judge(const struct answer *a, const struct question *q);
/* The size of the whole file that the answer tells; FETCH_UNKNOWN. */
uint64_t answer_size(const struct answer *a);
/* What was wrong with it, in words: "206 with bytes 0-9/100 for 10-19/100". */
const char *answer_text(const struct answer *a, const struct question *q, char out[200]);

#endif
