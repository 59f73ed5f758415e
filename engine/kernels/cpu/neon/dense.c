/* Formats without blocks. */
#include "engine/kernels/cpu/x86/dense.h"
