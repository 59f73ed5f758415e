/* Formats with super-blocks of 256 elements. */
#include "engine/kernels/cpu/vector/iq4_xs.h"
#include "engine/kernels/cpu/vector/q2_k.h"
#include "engine/kernels/cpu/vector/q3_k.h"
#include "engine/kernels/cpu/vector/q4_k.h"
#include "engine/kernels/cpu/vector/q5_k.h"
#include "engine/kernels/cpu/vector/q6_k.h"
#include "engine/kernels/cpu/vector/tq1_0.h"
#include "engine/kernels/cpu/vector/tq2_0.h"
