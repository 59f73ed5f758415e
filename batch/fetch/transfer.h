/*
 * One request: for what a file is (its first byte), or for the rest of a segment of it.
 *
 * Writes what arrives straight into the part's file and counts it there, but only after the headers
 * were judged; where bytes are there already the last of them are asked for again and compared. How it
 * ended is one of five outcomes, with a sentence.
 *
 * Owns the curl handle (kept for the next request) and, while active, a descriptor. The part and the
 * strings of the order outlive the request. Callbacks run inside curl_multi_perform, so all of it is
 * on one thread.
 */
#ifndef BATCH_FETCH_TRANSFER_H
#define BATCH_FETCH_TRANSFER_H

#include "batch/fetch/answer.h"
#include "batch/fetch/library.h"
#include "batch/fetch/part.h"

struct transfer_order {
    const char *url;
    const char *token; /* NULL: none */
    struct part *part; /* NULL: only asks what the file is */
    uint32_t segment;
    const struct remote *remote; /* as known so far; NULL when asking */
    bool ranged;                 /* else the whole file from its beginning */
    bool hashed;
    int64_t stall_us;
};

enum transfer_kind {
    TRANSFER_DONE,
    TRANSFER_AGAIN,   /* cut, stalled, overloaded */
    TRANSFER_LIES,    /* do without ranges */
    TRANSFER_CHANGED, /* another file now */
    TRANSFER_FAILED,  /* trying again is no use */
    TRANSFER_BROKEN,  /* the disk: nothing else will go better */
};

struct transfer_outcome {
    enum transfer_kind kind;
    int64_t retry_after_s; /* -1: the server did not say */
    struct error why;
};

struct transfer {
    const struct curl_library *curl;
    CURL *easy;
    CURLM *multi;
    struct curl_slist *headers;
    char message[CURL_ERROR_SIZE];
    void *owner; /* the caller's; NULL: idle */
    struct transfer_order order;
    struct question question;
    struct answer answer;
    enum verdict verdict;
    bool judged;
    bool enough;          /* ended by us, having what it was for */
    bool excess, differs; /* more bytes than there are; others than are there */
    int fd;
    uint64_t position, fresh; /* of the next byte; of the first that is new */
    uint64_t end;
    struct error error;  /* of the disk */
    int64_t mark_us;     /* since then ... */
    uint64_t mark_bytes; /* ... so many came */
};

int transfer_init(struct transfer *t, const struct curl_library *curl, CURLM *multi,
                  struct error *e);
void transfer_release(struct transfer *t); /* a zeroed one is fine */

int transfer_start(struct transfer *t, void *owner, const struct transfer_order *order,
                   struct error *e);
/* Whether fewer bytes came than any living connection would bring. */
bool transfer_stalled(struct transfer *t, int64_t now_us);
/* After curl said `code`, or on our own account (CURLE_OPERATION_TIMEDOUT). Idle afterwards. */
void transfer_end(struct transfer *t, CURLcode code, struct transfer_outcome *ret);

#endif
