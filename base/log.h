/*
 * Log lines on stderr: "level module event key=value...", one event a line.
 *
 * Libraries log at debug only. Request bodies are never logged. The level is the program's one
 * piece of global state. Thread safe (one write(2) a line). A closed log pipe never stops anything.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/compiler.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);
/* Under systemd (JOURNAL_STREAM) lines start with the <n> priority prefix. */
void log_set_journal(bool on);
void log_event(enum log_level level, const char *module, const char *fmt, ...) ATTR_PRINTF(3, 4);

#endif
