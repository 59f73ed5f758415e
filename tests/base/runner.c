#include <stdlib.h>
#include <sys/wait.h>

#include "tests/test.h"

/* Runs this test program again and keeps what it prints in `out`; its exit status. */
static int run_again(const char *args, char out[4096])
{
    char command[8192];
    const char *program = test_program();
    int folder = (int)(strrchr(program, '/') - program);
    snprintf(command, sizeof(command), "'%.*s/tests/run' %s", folder, program, args);
    FILE *f = popen(command, "r");
    CHECK(f != NULL);
    size_t got = fread(out, 1, 4095, f);
    out[got] = '\0';
    return WEXITSTATUS(pclose(f));
}

TEST(runner_fails_when_nothing_is_selected)
{
    char out[4096];
    CHECK_INT(run_again("no-test-has-this-name", out), 1);
    CHECK_STR(out, "no test was run; --list shows all, and 'make cli-test' runs the transcripts\n0 "
                   "passed, 0 failed, 0 skipped\n");
}

TEST(runner_refuses_unknown_options)
{
    char out[4096];
    CHECK_INT(run_again("--nonsense 2>&1", out), 2);
    CHECK(strstr(out, "usage:"));
}

/* Passes, unless the next test asks it to show the runner another outcome. */
TEST_FOR(runner_sample_outcome, 1)
{
    const char *asked = getenv("NOCTURNE_TEST_RUNNER");
    const char *wanted = asked ? asked : "pass";
    if (strcmp(wanted, "fail") == 0)
        CHECK_INT(1 + 1, 3);
    if (strcmp(wanted, "skip") == 0)
        SKIP("because");
    if (strcmp(wanted, "crash") == 0)
        abort();
    if (strcmp(wanted, "hang") == 0)
        pause();
    test_note("a note");
}

TEST(runner_tells_every_outcome)
{
    static const struct {
        const char *wanted;
        int status;
        const char *says;
        const char *counts;
    } cases[] = {
        {"pass", 0, "a note", "1 passed, 0 failed, 0 skipped\n"},
        {"fail", 1, "1 + 1 is 2, want 3", "0 passed, 1 failed, 0 skipped\n"},
        {"skip", 0, "skipped: ", "0 passed, 0 failed, 1 skipped\n"},
        {"crash", 1, "killed by signal 6", "0 passed, 1 failed, 0 skipped\n"},
        {"hang", 1, "still running after", "0 passed, 1 failed, 0 skipped\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[4096];
        setenv("NOCTURNE_TEST_RUNNER", cases[i].wanted, 1);
        CHECK_INT(run_again("runner_sample_outcome", out), cases[i].status);
        CHECK(strstr(out, cases[i].says));
        size_t tail = strlen(cases[i].counts);
        CHECK(strlen(out) > tail);
        CHECK_STR(out + strlen(out) - tail, cases[i].counts);
    }
}
