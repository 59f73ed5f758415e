/*
 * URLs, as far as a download needs them: the file's name, the other parts of a split model, the host,
 * and a form without secrets that may be shown and kept.
 *
 * Owns nothing. Pure.
 */
#ifndef BATCH_FETCH_ADDRESS_H
#define BATCH_FETCH_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define ADDRESS_MAX 4096
/* Of a file's name with its NUL: what is put behind it must fit the file system's 255, too. */
#define ADDRESS_NAME_MAX 224

/* Whether it is http or https, with a host, short enough and without blanks and control characters. */
int address_check(const char *url, struct error *e);
/* The name of the file: the last part of the path. One that could be a folder or hide is refused. */
int address_name(const char *url, char out[ADDRESS_NAME_MAX], struct error *e);
/* Whether the URL, or name, is of a part of a split model, NAME-00001-of-00034.gguf, and of how many. */
bool address_is_split(const char *url, unsigned *ret_n);
/* That of part i, from 1, given that of any part of a split model. */
void address_part(const char *url, unsigned i, char out[ADDRESS_MAX]);
/* Without user, password, query and fragment, where tokens and signatures stand. */
void address_plain(const char *url, char out[ADDRESS_MAX]);
/* "host" or "host:port", without a user. */
void address_host(const char *url, char out[ADDRESS_MAX]);
/* Whether nobody on the way can read what is sent: https, or this machine. */
bool address_private(const char *url);

#endif
