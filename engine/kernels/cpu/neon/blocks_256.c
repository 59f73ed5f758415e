/* Formats with super-blocks of 256 elements. */
#include "engine/kernels/cpu/x86/iq4_xs.h"
#include "engine/kernels/cpu/x86/q2_k.h"
#include "engine/kernels/cpu/x86/q3_k.h"
#include "engine/kernels/cpu/x86/q4_k.h"
#include "engine/kernels/cpu/x86/q5_k.h"
#include "engine/kernels/cpu/x86/q6_k.h"
#include "engine/kernels/cpu/x86/tq1_0.h"
#include "engine/kernels/cpu/x86/tq2_0.h"
