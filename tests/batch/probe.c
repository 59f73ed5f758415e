/* Rates of disk and memory: something plausible, and nothing taken that the budget does not have. */
#include "batch/probe.h"

#include "base/parallel.h"
#include "tests/engine/local_kit.h"
#include "tests/test.h"

TEST(probe_measures_and_gives_its_memory_back)
{
    char path[4096];
    struct error e = {0};
    struct probe p = {0};
    struct ledger *l;
    kit_model("F16", path);
    CHECK_INT(parallel_set_threads(2), 0);
    CHECK_OK(ledger_new(&l, 100u << 20, &e), &e);
    CHECK_OK(probe_run(path, l, &p, &e), &e);
    CHECK(p.disk_bytes_per_s > 1e6 && p.memory_bytes_per_s > 1e8);
    CHECK_INT(ledger_total(l), 0);
    CHECK_ERROR(probe_run("none.gguf", l, &p, &e), &e, ERROR_NOTFOUND, "none.gguf");
    ledger_free(l);
    CHECK_OK(ledger_new(&l, 1u << 20, &e), &e);
    CHECK_ERROR(probe_run(path, l, &p, &e), &e, ERROR_BUDGET, "measuring");
    ledger_free(l);
}
