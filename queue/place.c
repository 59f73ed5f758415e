#include "queue/place.h"

#include <errno.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

#define FUSE_TYPE 0x65735546L
#define MOUNTS_MAX_BYTES (4u << 20)

/* Types from statfs(2) and linux/magic.h; only the low 32 bits count. */
static const struct {
    uint32_t type;
    const char *name;
} network_types[] = {
    {0x6969, "NFS"},      {0x517b, "SMB"},        {0xff534d42, "CIFS"},     {0xfe534d42, "SMB"},
    {0x00c36400, "Ceph"}, {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},     {0x5346414f, "AFS"},
    {0x6b414653, "AFS"},  {0x19830326, "BeeGFS"}, {0x20030528, "OrangeFS"}, {0x7461636f, "OCFS2"},
    {0x01161970, "GFS2"}, {0x73757245, "Coda"},   {0x564c, "NCP"},
};

static const char *const network_fuses[] = {
    "fuse.sshfs",     "fuse.rclone",  "fuse.s3fs",     "fuse.glusterfs", "fuse.ceph",
    "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.davfs",    "fuse.curlftpfs", "fuse.juicefs",
    "fuse.goofys",    "fuse.mfs",     "fuse.smbnetfs", "fuse.nfs",       "fuse.gvfsd-fuse",
};

const char *place_network_name(long statfs_type, const char *mount_type)
{
    for (size_t i = 0; i < ARRAY_LEN(network_types); i++) {
        if (network_types[i].type == (uint32_t)statfs_type)
            return network_types[i].name;
    }
    if (statfs_type != FUSE_TYPE || !mount_type)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(network_fuses); i++) {
        if (strcmp(network_fuses[i], mount_type) == 0)
            return network_fuses[i];
    }
    return NULL;
}

/* Type of the mount that holds the device, from /proc/self/mountinfo: "... 0:52 ... - TYPE ...". */
static void find_mount_type(dev_t device, char out[64])
{
    struct buf text;
    char wanted[32];
    out[0] = '\0';
    buf_init(&text, MOUNTS_MAX_BYTES);
    snprintf(wanted, sizeof(wanted), "%u:%u", major(device), minor(device));
    if (file_read_all("/proc/self/mountinfo", MOUNTS_MAX_BYTES, &text, NULL) != 0)
        goto out;
    char *rest = NULL;
    for (char *line = strtok_r(text.ptr, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char dev[32];
        const char *dash = strstr(line, " - ");
        if (dash && sscanf(line, "%*d %*d %31s", dev) == 1 && strcmp(dev, wanted) == 0)
            sscanf(dash + 3, "%63s", out);
    }
out:
    buf_release(&text);
}

static int check_network(const char *path, const char *folder, struct error *e)
{
    struct statfs fs;
    struct stat st;
    char mount_type[64];
    if (statfs(folder, &fs) != 0 || stat(folder, &st) != 0) {
        enum error_code code = errno == ENOENT ? ERROR_NOTFOUND : ERROR_IO;
        return error_sys(e, code, errno, "database %s: folder %s", path, folder);
    }
    mount_type[0] = '\0';
    if ((long)fs.f_type == FUSE_TYPE)
        find_mount_type(st.st_dev, mount_type);
    const char *name = place_network_name((long)fs.f_type, mount_type);
    if (!name)
        return 0;
    return error_set(
        e, ERROR_CONFIG,
        "database %s: %s is on a network file system (%s); the queue needs a local disk"
        " of one host",
        path, folder, name);
}

static const char *user_name(uid_t uid, char out[64])
{
    struct passwd entry;
    struct passwd *found = NULL;
    char space[1024];
    if (getpwuid_r(uid, &entry, space, sizeof(space), &found) == 0 && found)
        snprintf(out, 64, "%s", found->pw_name);
    else
        snprintf(out, 64, "uid %u", (unsigned)uid);
    return out;
}

static int check_writable(const char *path, const char *what, struct error *e)
{
    struct stat st;
    char owner[64];
    char self[64];
    if (stat(what, &st) != 0)
        return 0; /* a file that is not there yet */
    uid_t me = geteuid();
    bool ours = euidaccess(what, W_OK) == 0;
    /* Root may write it, but would leave a -wal that the owner cannot. */
    if (!ours && errno == EROFS)
        return error_sys(e, ERROR_CONFIG, errno, "database %s: %s cannot be written", path, what);
    if (ours && (me != 0 || st.st_uid == 0 || S_ISDIR(st.st_mode)))
        return 0;
    return error_set(e, ERROR_CONFIG,
                     "database %s: %s belongs to %s and cannot be used by %s; run as its owner or"
                     " choose another --db",
                     path, what, user_name(st.st_uid, owner), user_name(me, self));
}

int place_check(const char *path, struct error *e)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    const char *start = slash ? path : ".";
    char *folder = mem_strndup(start, slash ? MAX_OF(len, (size_t)1) : 1);
    if (!folder)
        return error_set(e, ERROR_NOMEM, "database %s: no memory to check its folder", path);
    int rc = check_network(path, folder, e);
    if (rc == 0)
        rc = check_writable(path, folder, e);
    if (rc == 0)
        rc = check_writable(path, path, e);
    mem_free(folder);
    return rc;
}
