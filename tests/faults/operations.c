/* Lets the k-th file operation below some folders fail, for every library of a process.
 *
 * Loaded with LD_PRELOAD.  An operation counts when it can change a file (open for writing, write,
 * fsync, rename, link, mkdir) and its path lies below one of the folders given to fault_watch, so
 * that the k-th operation is the same one in every run.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char watched[4096];
static long counted, wanted;
static int what; /* an errno, or -1: half of a write is written, then the disk is full */
static int lasting; /* a full disk stays full */

void fault_watch(const char *folder) { snprintf(watched, sizeof watched, "%s", folder); }
void fault_set(long k, int error, int stays) { counted = 0; wanted = k; what = error; lasting = stays; }
long fault_count(void) { return counted; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int below(const char *path) {
    return watched[0] && path && strstr(path, watched) != NULL;
}

static int below_fd(int fd) {
    char link[64], path[4096];
    if (!watched[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return below(path);
}

/* Nonzero when this operation has to fail. */
static int fails(void) {
    long now = __sync_add_and_fetch(&counted, 1);
    if (wanted <= 0 || !(now == wanted || (lasting && now > wanted))) return 0;
    errno = what < 0 ? ENOSPC : what;
    return 1;
}

#define WRITING (O_WRONLY | O_RDWR | O_CREAT)
#define OPEN(name, ...)                                                        \
    int name(const char *path, int flags, ...) {                               \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        if ((flags & WRITING) && below(path) && fails()) return -1;            \
        return REAL(name)(path, flags, mode);                                  \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                           \
    int name(int at, const char *path, int flags, ...) {                       \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        if ((flags & WRITING) && below(path) && fails()) return -1;            \
        return REAL(name)(at, path, flags, mode);                              \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t n) {
    if (below_fd(fd) && fails()) {
        if (what < 0 && n > 1) return REAL(write)(fd, data, n / 2);
        return -1;
    }
    return REAL(write)(fd, data, n);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    if (below_fd(fd) && fails()) {
        if (what < 0 && n > 1) return REAL(pwrite)(fd, data, n / 2, at);
        return -1;
    }
    return REAL(pwrite)(fd, data, n, at);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    if (below_fd(fd) && fails()) {
        if (what < 0 && n > 1) return REAL(pwrite64)(fd, data, n / 2, at);
        return -1;
    }
    return REAL(pwrite64)(fd, data, n, at);
}
ssize_t writev(int fd, const struct iovec *parts, int n) {
    return below_fd(fd) && fails() ? -1 : REAL(writev)(fd, parts, n);
}
int fsync(int fd) { return below_fd(fd) && fails() ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return below_fd(fd) && fails() ? -1 : REAL(fdatasync)(fd); }
int rename(const char *a, const char *b) { return below(b) && fails() ? -1 : REAL(rename)(a, b); }
int renameat(int i, const char *a, int j, const char *b) {
    return below(b) && fails() ? -1 : REAL(renameat)(i, a, j, b);
}
int link(const char *a, const char *b) { return below(b) && fails() ? -1 : REAL(link)(a, b); }
int linkat(int i, const char *a, int j, const char *b, int flags) {
    return below(b) && fails() ? -1 : REAL(linkat)(i, a, j, b, flags);
}
int mkdir(const char *path, mode_t mode) {
    return below(path) && fails() ? -1 : REAL(mkdir)(path, mode);
}
int mkdirat(int at, const char *path, mode_t mode) {
    return below(path) && fails() ? -1 : REAL(mkdirat)(at, path, mode);
}
