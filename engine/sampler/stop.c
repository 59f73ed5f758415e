#include <string.h>

#include "base/alloc.h"
#include "engine/sampler/sampler.h"

struct stop_string {
    char *text;
    size_t len;
};

struct stop_rules {
    size_t n;
    struct stop_string *stop; /* [n] */
};

int stop_rules_new(struct stop_rules **ret, const struct str *stop, size_t n_stop, struct error *e)
{
    struct stop_rules *r = mem_zalloc(sizeof(*r));
    if (r)
        r->stop = mem_array(n_stop, sizeof(*r->stop));
    int rc = 0;
    if (!r || !r->stop)
        rc = error_set(e, ERROR_NOMEM, "no memory for %zu stop strings", n_stop);
    for (size_t i = 0; rc == 0 && i < n_stop; i++) {
        char *copy = stop[i].len > 0 ? mem_strndup(stop[i].ptr, stop[i].len) : NULL;
        if (copy)
            r->stop[r->n++] = (struct stop_string){.text = copy, .len = stop[i].len};
        else if (stop[i].len == 0)
            rc = error_set(e, ERROR_INVALID, "stop string %zu of %zu is empty", i + 1, n_stop);
        else
            rc = error_set(e, ERROR_NOMEM, "no memory for %zu stop strings", n_stop);
    }
    if (rc < 0) {
        stop_rules_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void stop_rules_free(struct stop_rules *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++)
        mem_free(r->stop[i].text);
    mem_free(r->stop);
    mem_free(r);
}

/* Length of the longest stop string that ends at `end`; 0: none does. */
static size_t longest_ending_at(const struct stop_rules *r, struct str answer, size_t end)
{
    size_t longest = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct stop_string s = r->stop[i];
        if (s.len > longest && s.len <= end && memcmp(answer.ptr + end - s.len, s.text, s.len) == 0)
            longest = s.len;
    }
    return longest;
}

/* How many bytes at the end of the answer could begin a stop string. */
static size_t held_back(const struct stop_rules *r, struct str answer)
{
    size_t held = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct stop_string s = r->stop[i];
        for (size_t n = MIN_OF(s.len - 1, answer.len); n > held; n--) {
            if (memcmp(answer.ptr + answer.len - n, s.text, n) == 0)
                held = n;
        }
    }
    return held;
}

bool stop_rules_check(const struct stop_rules *r, struct str answer, size_t new_from,
                      size_t *ret_safe)
{
    for (size_t end = new_from + 1; end <= answer.len; end++) {
        size_t n = longest_ending_at(r, answer, end);
        if (n > 0) {
            *ret_safe = end - n;
            return true;
        }
    }
    *ret_safe = answer.len - held_back(r, answer);
    return false;
}
