/* The program itself as memory: its code and that of its libraries, which are files like others. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

/*
 * Brings in what of it has not been used yet, some MiB: under a limit of memory a page that is first
 * needed in the middle of the work would wait for the disk then. Where the kernel cannot (before Linux
 * 5.14) nothing happens.
 */
void program_fetch(void);

#endif
