/*
 * All time of the program: everything that asks what time it is asks here.
 *
 * Stays true: wall time is only for records, deadlines and windows; durations and leases use
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME. Tests shift or freeze the clocks with clock_test_*.
 * Thread safe.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_wall_us(void); /* since 1970, UTC */
int64_t clock_mono_us(void);
int64_t clock_boot_us(void); /* CLOCK_BOOTTIME: counts suspended time too */
void clock_sleep_us(int64_t us);
/* The kernel's boot id, 36 characters and a NUL. "unknown" where /proc does not tell. */
void clock_boot_id(char out[37]);
/* Start time of a process in clock ticks after boot (field 22 of /proc/PID/stat); 0 if it is gone. */
uint64_t clock_process_start(int pid);
/* "2026-11-30T22:00:00Z" */
const char *clock_format(int64_t wall_us, char out[32]);

/* UUIDv7 (RFC 9562): 48-bit milliseconds, then libuuid's random bytes; never goes back in a process. */
void clock_uuid7(uint8_t out[16]);
const char *clock_uuid_text(const uint8_t id[16], char out[37]);
/* 0, or -1 when the text is not a UUID. */
int clock_uuid_parse(const char *text, uint8_t out[16]);

void clock_test_shift(int64_t wall_us, int64_t boot_us);

#endif
