/* Formats whose elements are looked up in a grid. */
#include "engine/kernels/cpu/vector/iq1_m.h"
#include "engine/kernels/cpu/vector/iq1_s.h"
#include "engine/kernels/cpu/vector/iq2_s.h"
#include "engine/kernels/cpu/vector/iq2_xs.h"
#include "engine/kernels/cpu/vector/iq2_xxs.h"
#include "engine/kernels/cpu/vector/iq3_s.h"
#include "engine/kernels/cpu/vector/iq3_xxs.h"
