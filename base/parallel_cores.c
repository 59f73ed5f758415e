#include <sched.h>
#include <unistd.h>

#include "base/parallel.h"

int parallel_cores(void)
{
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof(mask), &mask) == 0)
        return CPU_COUNT(&mask);
    /* More than 1,024 processors: the mask does not fit and the kernel refuses. */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}
