/*
 * What decoding one sequence will read, before anything is loaded.
 *
 * The model of the cache: W consecutive tokens of a sequence touch D(W) of a layer's n experts, as W^0.75
 * independent choices of k would:
 *
 *     D(W) = n (1 - (1 - k/n)^(W^0.75))
 *
 * The exponent is fitted to what was measured of Kimi-K3 (896 experts, 16 used): neighbours share 0.37
 * (here 0.33), 12 tokens touch 98 to 109 (98), 32 touch 190 (193). C slots of a layer hold what the last W
 * tokens touched, with D(W) = C; the next token finds there all but D'(W) of its k. That gives hit rates of
 * 0.57, 0.62 and 0.68 for 67, 101 and 125 slots where a simulation of such routing gave 0.54, 0.60 to 0.64
 * and 0.66 to 0.69; close to C = k it is 0.1 too low. A model that routes otherwise is off by more.
 */
#ifndef ENGINE_LOCAL_FORECAST_H
#define ENGINE_LOCAL_FORECAST_H

/* Of the experts that a token wants, the share that is in memory; slots of a layer, on average. */
double forecast_hit_rate(double slots, double n_experts, double n_used);

#endif
