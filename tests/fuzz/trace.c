/* Any bytes as a trace of experts: refused, or every visit is within what the header says. */
#include "engine/experts/trace.h"

#include "tests/fuzz/fuzz.h"

static void read_all(const struct trace *t)
{
    struct trace_visit v;
    uint32_t n_visits = 0;
    for (size_t at = 0; trace_next(t, &at, &v); n_visits++) {
        demand(v.layer < t->header.n_layers && v.n <= (uint64_t)v.n_rows * t->header.n_used);
        for (uint32_t i = 0; i < v.n; i++)
            demand(v.ids[i] < t->header.n_experts);
    }
    demand(n_visits == t->n_visits);
}

FUZZ(trace)
{
    char path[64];
    const int fd = fuzz_file(bytes, n, path);
    struct trace t = {0};
    struct error e = {0};
    if (trace_read(&t, path, &e) == 0)
        read_all(&t);
    else
        demand(t.bytes.ptr == NULL && e.text[0] != '\0');
    trace_release(&t);
    close(fd);
}
