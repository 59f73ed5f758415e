#include "tests/batch/program.h"

#include <sys/wait.h>

#include "tests/test.h"

int program_run(const char *arguments, char *out, size_t size)
{
    char line[24000];
    snprintf(line, sizeof(line), "exec 2>&1; %s %s", test_program(), arguments);
    FILE *pipe = popen(line, "r");
    CHECK(pipe != NULL);
    size_t n = fread(out, 1, size - 1, pipe);
    out[n] = '\0';
    int status = pclose(pipe);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}
