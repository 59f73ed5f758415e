/* Formats whose elements are looked up in a grid. */
#include "engine/kernels/cpu/x86/iq1_m.h"
#include "engine/kernels/cpu/x86/iq1_s.h"
#include "engine/kernels/cpu/x86/iq2_s.h"
#include "engine/kernels/cpu/x86/iq2_xs.h"
#include "engine/kernels/cpu/x86/iq2_xxs.h"
#include "engine/kernels/cpu/x86/iq3_s.h"
#include "engine/kernels/cpu/x86/iq3_xxs.h"
