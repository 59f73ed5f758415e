/* A machine made of files: what the code finds below the folder "root" instead of below "/". */
#ifndef TESTS_BATCH_ROOT_H
#define TESTS_BATCH_ROOT_H

#include <stddef.h>

/* root/PATH is that text from now on; its folders are made. */
void root_put(const char *path, const char *text);
/* The same with any bytes. */
void root_put_bytes(const char *path, const char *bytes, size_t n);

#endif
