/*
 * libcurl, loaded by the one command that needs it.
 *
 * Linked into the program it would bring thirty libraries with it for every command: 7.3 ms instead of
 * 1.5 ms from start to end, and 9.2 MB resident instead of 3.0 in the worker.
 *
 * Owns nothing that could be given back: a library with TLS inside is not unloaded again. One thread.
 */
#ifndef BATCH_FETCH_LIBRARY_H
#define BATCH_FETCH_LIBRARY_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/error.h"

#define CURL_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(global_init)                                                                          \
    FUNCTION(global_cleanup)                                                                       \
    FUNCTION(easy_init)                                                                            \
    FUNCTION(easy_reset)                                                                           \
    FUNCTION(easy_setopt)                                                                          \
    FUNCTION(easy_getinfo)                                                                         \
    FUNCTION(easy_strerror)                                                                        \
    FUNCTION(easy_cleanup)                                                                         \
    FUNCTION(slist_append)                                                                         \
    FUNCTION(slist_free_all)                                                                       \
    FUNCTION(multi_init)                                                                           \
    FUNCTION(multi_add_handle)                                                                     \
    FUNCTION(multi_remove_handle)                                                                  \
    FUNCTION(multi_perform)                                                                        \
    FUNCTION(multi_poll)                                                                           \
    FUNCTION(multi_wakeup)                                                                         \
    FUNCTION(multi_info_read)                                                                      \
    FUNCTION(multi_strerror)                                                                       \
    FUNCTION(multi_cleanup)

/* c->easy_init() is curl_easy_init(), and so on. */
struct curl_library {
#define FUNCTION(name) __typeof__(curl_##name) *name;
    CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* Loads it and starts it up; ERROR_UNSUPPORTED where it is not installed. */
int curl_library_open(struct curl_library *c, struct error *e);
void curl_library_close(const struct curl_library *c); /* a zeroed one is fine */

#endif
