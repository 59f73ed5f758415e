/*
 * How many machines a crowd of users needs: arithmetic only.
 *
 * A machine writes for some hours a day and is busy for a part of them (utilisation); what users ask
 * for in a day, divided by that, rounded up, is the number of machines. Power, price and storage are
 * that many times a machine's: each keeps a checkpoint of its own.
 *
 * Two rates, because a machine serves several streams at once: all of them together decide how many
 * machines, one alone how long a person waits. Owns nothing. Pure.
 */
#ifndef BATCH_FARM_H
#define BATCH_FARM_H

#include <stdint.h>

#include "base/error.h"

struct farm_machine {
    double tokens_per_s; /* written, all streams together */
    double stream_tokens_per_s;
    double prompt_s; /* before the first token */
    double hours;    /* a day */
    double utilisation;
    double watts;
    double price; /* USD */
    uint64_t checkpoint_bytes;
};

struct farm_demand {
    double users;
    double requests; /* of a user, a day */
    double tokens;   /* of an answer */
};

struct farm_size {
    double tokens_per_day;
    double machine_tokens_per_day;
    double machines; /* whole */
    double latency_s;
    double watts;
    double cost; /* USD */
    double storage_bytes;
};

/* ERROR_INVALID when no number of machines that one could count would do. */
int farm_size(const struct farm_machine *m, const struct farm_demand *d, struct farm_size *ret,
              struct error *e);

#endif
