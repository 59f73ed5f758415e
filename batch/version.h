/* The version of the program, in one place. */
#ifndef BATCH_VERSION_H
#define BATCH_VERSION_H

#define NOCTURNE_VERSION "0.1.0"

#endif
