/* What the tests that read the golden set share. */
#ifndef TESTS_ENGINE_GOLDEN_KIT_H
#define TESTS_ENGINE_GOLDEN_KIT_H

#include <cjson/cJSON.h>

/* A JSON file of the set, whole; the test is skipped where there is none. */
cJSON *golden_json(const char *name);
/*
 * The whole set comes first where it is, before the part that is shipped: a long test never passes on
 * the part alone.
 */
void golden_use_whole_set(void);

#endif
