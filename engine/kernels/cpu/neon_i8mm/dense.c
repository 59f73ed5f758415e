/* Formats without blocks. */
#include "engine/kernels/cpu/vector/dense.h"
