/* Many submit at once while a worker works. */
#include <signal.h>

#include "tests/fault/kit.h"

#define SUBMITTERS 8
#define ROUNDS 2
#define JOBS 15

TEST(submitters_in_parallel_beside_a_worker_lose_nothing)
{
    pid_t pid[SUBMITTERS];
    drill_model(1024);
    for (int i = 0; i < SUBMITTERS; i++) {
        char path[32], name[32];
        snprintf(path, sizeof(path), "jobs%d.jsonl", i);
        snprintf(name, sizeof(name), "of%d", i);
        drill_write_jobs(path, &(struct drill_jobs){.n = JOBS, .max_tokens = 4, .name = name});
    }
    CHECK_INT(drill("many.db", "submit -q jobs0.jsonl --batch first >/dev/null"), 0);
    pid_t worker = drill_start("many.db", DRILL_RUN "--slots 8");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SUBMITTERS; i++)
            pid[i] = drill_start("many.db", "submit -q --force jobs%d.jsonl >>ids.txt", i);
        for (int i = 0; i < SUBMITTERS; i++)
            CHECK_INT(drill_wait(pid[i]), 0);
    }
    CHECK_INT(drill("many.db", "wait --timeout 300s"), 0);
    kill(worker, SIGTERM);
    CHECK_INT(drill_wait(worker), 0);
    CHECK_INT(drill_count("ids.txt", "\n"), SUBMITTERS * ROUNDS);
    drill_check_all_done("many.db", JOBS + SUBMITTERS * ROUNDS * JOBS);
    CHECK_INT(drill("many.db", "export -o all.jsonl"), 0);
    CHECK_INT(drill_count("all.jsonl", "\"finish_reason\":"), JOBS + SUBMITTERS * ROUNDS * JOBS);
}
