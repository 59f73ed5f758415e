/*
 * A web server on this machine that misbehaves to order: one file, one fault.
 *
 * A thread for each connection. What is atomic may be set and read at any time.
 */
#ifndef TESTS_BATCH_WEB_H
#define TESTS_BATCH_WEB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum web_fault {
    WEB_HONEST,
    WEB_CUT,         /* the first answers with bytes end in the middle */
    WEB_CUT_OFTEN,   /* no answer brings more than 40,000 bytes */
    WEB_STALL,       /* the first answers stop in the middle and stay open */
    WEB_NO_RANGES,   /* always the whole file */
    WEB_RANGES_ONCE, /* ranges when asked, the whole file when fetched */
    WEB_SHIFTED,     /* another Content-Range than asked for, with its bytes */
    WEB_WRONG_TOTAL, /* Content-Range of a larger file */
    WEB_UNSAID,      /* 206 without Content-Range */
    WEB_LIES,        /* the right Content-Range with the bytes from the beginning */
    WEB_LIES_AND_CUTS,
    WEB_CORRUPT_ONCE, /* one byte, in the first answer that has it */
    WEB_CORRUPT,      /* always */
    WEB_SHORT,        /* fewer bytes than Content-Length says, always */
    WEB_SHORT_LENGTH, /* Content-Length and bytes fewer than Content-Range says */
    WEB_LONG,         /* more bytes than there are, without Content-Length */
    WEB_CHANGES,      /* another file with another ETag from the fourth answer on */
    WEB_KEEPS_CHANGING,
    WEB_CHANGES_SILENTLY, /* another file under the same ETag */
    WEB_BUSY,             /* the first answers are 503 and 429 */
    WEB_DOWN,             /* always 503 */
    WEB_DOWN_LONG,        /* and wants an hour between requests */
    WEB_NO_LENGTH,        /* the whole file, and no word of its size */
    WEB_PAGE,             /* an HTML page */
    WEB_ENCODED,          /* Content-Encoding: gzip */
    WEB_DENIED,
    WEB_GONE,
    WEB_NOISE, /* no HTTP at all */
    WEB_HUGE,  /* a size that no disk has */
    WEB_FAULTS
};

struct web {
    int listener;
    pthread_t thread;
    atomic_int serving; /* connections */
    int port;
    atomic_int
        redirect_port; /* not 0: to that port of "localhost", with what it says of the file */
    _Atomic enum web_fault fault;
    const char *_Atomic gone;           /* that name is not there; NULL: every one is */
    atomic_bool etag, modified, linked; /* what it says of the file */
    atomic_bool wrong_hash;             /* linked, and not this one's */
    unsigned char *bytes;               /* [size] */
    size_t size;
    char sha256[65], changed_sha256[65];
    atomic_bool corrupted;
    atomic_int answers; /* with bytes of more than one */
    atomic_int requests;
    atomic_int tokens; /* requests that carried a token */
    atomic_llong sent_bytes;
};

/* A file of that size. */
void web_start(struct web *w, size_t size);
/* Waits until every connection is closed. */
void web_stop(struct web *w);
/* The file as it is in the end: changed or not. */
void web_bytes(const struct web *w, bool changed, unsigned char *out);

#endif
