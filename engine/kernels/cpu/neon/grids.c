/* Formats whose elements are looked up in a grid. */
#include "engine/kernels/cpu/neon/grids.h"
