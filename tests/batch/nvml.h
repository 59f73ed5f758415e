/* The stand-in for NVIDIA's library (tests/fixtures/nvml), for this process and for the program. */
#ifndef TESTS_BATCH_NVML_H
#define TESTS_BATCH_NVML_H

#include "base/compiler.h"

/* What it says from now on; the program finds it when it is started afterwards. */
void nvml_says(const char *fmt, ...) ATTR_PRINTF(1, 2);
/* The same, and this process's own dlopen finds it. */
void nvml_load(void);

#endif
