#include "base/program.h"

#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* of linux/mman.h, for older C libraries */
#endif

static int fetch_segments(struct dl_phdr_info *info, size_t size, void *context)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    (void)context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD)
            continue;
        const uintptr_t from = (info->dlpi_addr + p->p_vaddr) / page * page;
        const uintptr_t to = info->dlpi_addr + p->p_vaddr + p->p_filesz;
        (void)madvise((void *)from, to - from, MADV_POPULATE_READ);
    }
    return 0;
}

void program_fetch(void)
{
    (void)dl_iterate_phdr(fetch_segments, NULL);
}
