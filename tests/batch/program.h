/* The program under test as a child, for tests of commands. */
#ifndef TESTS_BATCH_PROGRAM_H
#define TESTS_BATCH_PROGRAM_H

#include <stddef.h>

/* Runs `nocturne ARGUMENTS`; what it printed on both streams goes to out. Returns the exit status. */
int program_run(const char *arguments, char *out, size_t size);

#endif
