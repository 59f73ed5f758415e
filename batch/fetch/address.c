#include "batch/fetch/address.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

/* "-00001-of-00034.gguf" */
#define SPLIT_LEN 20
#define SPLIT_DIGITS 5

static const char *after_scheme(const char *url)
{
    const char *at = strstr(url, "://");
    return at ? at + 3 : url;
}

static size_t host_len(const char *host)
{
    return strcspn(host, "/?#");
}

/* The last part of the path, as it stands in the URL; a name alone is that of a path. */
static struct str last_part(const char *url)
{
    const char *path = after_scheme(url);
    path += path != url ? host_len(path) : 0;
    const size_t len = strcspn(path, "?#");
    size_t from = len;
    while (from > 0 && path[from - 1] != '/')
        from--;
    return str_slice(path + from, len - from);
}

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Length of what was decoded; the name does not fit when it is ADDRESS_NAME_MAX. */
static size_t decode(struct str part, char out[ADDRESS_NAME_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < part.len && n < ADDRESS_NAME_MAX; i++) {
        char c = part.ptr[i];
        if (c == '%' && i + 2 < part.len && hex_value(part.ptr[i + 1]) >= 0 &&
            hex_value(part.ptr[i + 2]) >= 0) {
            c = (char)(hex_value(part.ptr[i + 1]) * 16 + hex_value(part.ptr[i + 2]));
            i += 2;
        }
        out[n++] = c;
    }
    return n;
}

int address_name(const char *url, char out[ADDRESS_NAME_MAX], struct error *e)
{
    char name[ADDRESS_NAME_MAX];
    char plain[ADDRESS_MAX];
    const size_t n = decode(last_part(url), name);
    bool good = n > 0 && n < ADDRESS_NAME_MAX && name[0] != '.' && name[0] != '-';
    for (size_t i = 0; good && i < n; i++)
        good =
            (unsigned char)name[i] >= ' ' && name[i] != 0x7f && name[i] != '/' && name[i] != '\\';
    address_plain(url, plain);
    if (!good)
        return error_set(e, ERROR_USAGE, "'%.400s' ends in no name that a file could have", plain);
    memcpy(out, name, n);
    out[n] = '\0';
    return 0;
}

/* Reads five digits; 0: they are none. */
static unsigned five_digits(const char *at)
{
    unsigned n = 0;
    for (int i = 0; i < SPLIT_DIGITS; i++) {
        if (!isdigit((unsigned char)at[i]))
            return 0;
        n = n * 10 + (unsigned)(at[i] - '0');
    }
    return n;
}

bool address_is_split(const char *url, unsigned *ret_n)
{
    const struct str last = last_part(url);
    if (last.len <= SPLIT_LEN)
        return false;
    const char *tail = last.ptr + last.len - SPLIT_LEN;
    const unsigned part = five_digits(tail + 1);
    const unsigned n = five_digits(tail + 10);
    if (tail[0] != '-' || strncmp(tail + 6, "-of-", 4) != 0 ||
        strncmp(tail + 15, ".gguf", 5) != 0 || part == 0 || part > n)
        return false;
    *ret_n = n;
    return true;
}

void address_part(const char *url, unsigned i, char out[ADDRESS_MAX])
{
    const struct str last = last_part(url);
    char digits[16];
    snprintf(out, ADDRESS_MAX, "%s", url);
    snprintf(digits, sizeof(digits), "%05u", i);
    const size_t at = (size_t)(last.ptr - url) + last.len - SPLIT_LEN + 1;
    memcpy(out + at, digits, SPLIT_DIGITS);
}

/* What stands between "://" and the path, without a user. */
static struct str host_of(const char *url)
{
    const char *host = after_scheme(url);
    struct str all = str_slice(host, host_len(host));
    for (size_t i = all.len; i > 0; i--) {
        if (all.ptr[i - 1] == '@')
            return str_slice(all.ptr + i, all.len - i);
    }
    return all;
}

void address_host(const char *url, char out[ADDRESS_MAX])
{
    const struct str host = host_of(url);
    snprintf(out, ADDRESS_MAX, "%.*s", (int)host.len, host.ptr);
}

void address_plain(const char *url, char out[ADDRESS_MAX])
{
    const struct str host = host_of(url);
    const size_t rest = strcspn(host.ptr, "?#");
    snprintf(out, ADDRESS_MAX, "%.*s%.*s", (int)(after_scheme(url) - url), url, (int)rest,
             host.ptr);
}

int address_check(const char *url, struct error *e)
{
    const size_t len = strlen(url);
    char plain[ADDRESS_MAX];
    address_plain(url, plain);
    if (strncasecmp(url, "https://", 8) != 0 && strncasecmp(url, "http://", 7) != 0)
        return error_set(e, ERROR_USAGE, "'%.200s' is no URL of https:// or http://", plain);
    if (len >= ADDRESS_MAX)
        return error_set(e, ERROR_USAGE, "'%.80s...': a URL of %zu bytes, limit %d", plain, len,
                         ADDRESS_MAX - 1);
    for (const char *c = url; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return error_set(e, ERROR_USAGE, "'%.200s': a blank or control character in a URL",
                             plain);
    }
    if (host_of(url).len == 0)
        return error_set(e, ERROR_USAGE, "'%.200s' names no host", plain);
    return 0;
}

bool address_private(const char *url)
{
    static const char *const here[] = {"localhost", "127.0.0.1", "[::1]"};
    const struct str host = host_of(url);
    bool local = false;
    for (size_t i = 0; i < ARRAY_LEN(here); i++) {
        const size_t n = strlen(here[i]);
        local = local || (host.len >= n && strncasecmp(host.ptr, here[i], n) == 0 &&
                          (host.len == n || host.ptr[n] == ':'));
    }
    return local || strncasecmp(url, "https://", 8) == 0;
}
