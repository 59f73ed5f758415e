/* Markup, checked without a browser. */
#ifndef TESTS_BATCH_WELL_FORMED_H
#define TESTS_BATCH_WELL_FORMED_H

#include <stdbool.h>

/* Just enough of XML: tags nest, attributes are quoted, no bare '<', '&' or control character. */
bool well_formed(const char *text);

#endif
