/* Asks, before every file operation below a folder, what is to happen to it; for every library of a
 * process.
 *
 * Loaded with LD_PRELOAD.  An operation counts when it changes what is on the disk (open for
 * writing, write, fsync, truncate, chmod, rename, link, mkdir, unlink, rmdir) and its path lies
 * below the folder given to fault_watch.  The answer is 0 (go on), an errno, or one of the numbers
 * below.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define HALF (-1)        /* half of a write is written, then the disk is full */
#define AFTERWARDS 1000  /* 1000 + a signal: the operation is done, then the signal is sent */
#define HALFWAY 2000     /* 2000 + a signal: half of a write is done, then the signal is sent */

static char watched[4096];
static int (*ask)(const char *operation);
static int stuck;   /* what every later operation answers: a full disk stays full */
static int inside;  /* operations of the one who answers do not count */
static long unasked; /* operations of other threads, at which nobody can be asked */

void fault_watch(const char *folder) { snprintf(watched, sizeof watched, "%s", folder); }
void fault_ask(int (*answer)(const char *)) { ask = answer; }
void fault_lasts(int error) { stuck = error; ask = NULL; }
long fault_unasked(void) { return unasked; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int within(const char *path) {
    size_t n = strlen(watched);
    return strncmp(path, watched, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int below_fd(int fd) {
    char link[64], path[4096];
    if (!watched[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return within(path);
}

static int below(int at, const char *path) {
    char here[4096];
    if (!watched[0] || !path) return 0;
    if (path[0] == '/') return within(path);
    if (at != AT_FDCWD) return below_fd(at);
    return getcwd(here, sizeof here) != NULL && within(here);
}

/* What is to happen to this operation; those that free space succeed on a full disk. */
static int decided(const char *operation, int frees) {
    if (stuck) return frees ? 0 : stuck;
    if (!ask || inside) return 0;
    if (syscall(SYS_gettid) != getpid()) { __sync_add_and_fetch(&unasked, 1); return 0; }
    inside = 1;
    int answer = ask(operation);
    inside = 0;
    return answer;
}

static int fails(int answer) {
    if (answer == 0 || answer >= AFTERWARDS) return 0;
    errno = answer == HALF ? ENOSPC : answer;
    return 1;
}

static void signalled(int answer) {
    int before = errno;
    if (answer >= AFTERWARDS) kill(getpid(), answer % 1000);
    errno = before;
}

/* An operation that is done whole or not at all. */
#define WHOLE(type, operation, frees, counts, call)                                       \
    do {                                                                                  \
        int answer = (counts) ? decided(operation, frees) : 0;                            \
        if (fails(answer)) return -1;                                                     \
        type result = call;                                                               \
        signalled(answer);                                                                \
        return result;                                                                    \
    } while (0)

#define WRITING (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define MODE                                                                              \
    va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest)
#define OPEN(name)                                                                        \
    int name(const char *path, int flags, ...) {                                          \
        MODE;                                                                             \
        WHOLE(int, "open", 0, (flags & WRITING) && below(AT_FDCWD, path), REAL(name)(path, flags, mode)); \
    }
#define OPENAT(name)                                                                      \
    int name(int at, const char *path, int flags, ...) {                                  \
        MODE;                                                                             \
        WHOLE(int, "open", 0, (flags & WRITING) && below(at, path), REAL(name)(at, path, flags, mode)); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* A write, which may be done by half. */
#define PART(call, half)                                                                  \
    do {                                                                                  \
        int answer = below_fd(fd) ? decided("write", 0) : 0;                              \
        if ((answer == HALF || answer >= HALFWAY) && n > 1) {                             \
            ssize_t result = half;                                                        \
            signalled(answer);                                                            \
            return result;                                                                \
        }                                                                                 \
        if (fails(answer)) return -1;                                                     \
        ssize_t result = call;                                                            \
        signalled(answer);                                                                \
        return result;                                                                    \
    } while (0)

ssize_t write(int fd, const void *data, size_t n) {
    PART(REAL(write)(fd, data, n), REAL(write)(fd, data, n / 2));
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    PART(REAL(pwrite)(fd, data, n, at), REAL(pwrite)(fd, data, n / 2, at));
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    PART(REAL(pwrite64)(fd, data, n, at), REAL(pwrite64)(fd, data, n / 2, at));
}
ssize_t writev(int fd, const struct iovec *parts, int n) {
    PART(REAL(writev)(fd, parts, n), REAL(writev)(fd, parts, n / 2));
}

int fsync(int fd) { WHOLE(int, "fsync", 0, below_fd(fd), REAL(fsync)(fd)); }
int fdatasync(int fd) { WHOLE(int, "fsync", 0, below_fd(fd), REAL(fdatasync)(fd)); }
int ftruncate(int fd, off_t n) { WHOLE(int, "truncate", 0, below_fd(fd), REAL(ftruncate)(fd, n)); }
int ftruncate64(int fd, off64_t n) {
    WHOLE(int, "truncate", 0, below_fd(fd), REAL(ftruncate64)(fd, n));
}
int chmod(const char *path, mode_t mode) {
    WHOLE(int, "chmod", 0, below(AT_FDCWD, path), REAL(chmod)(path, mode));
}
int fchmod(int fd, mode_t mode) { WHOLE(int, "chmod", 0, below_fd(fd), REAL(fchmod)(fd, mode)); }
int fchmodat(int at, const char *path, mode_t mode, int flags) {
    WHOLE(int, "chmod", 0, below(at, path), REAL(fchmodat)(at, path, mode, flags));
}
int rename(const char *a, const char *b) {
    WHOLE(int, "rename", 0, below(AT_FDCWD, b), REAL(rename)(a, b));
}
int renameat(int i, const char *a, int j, const char *b) {
    WHOLE(int, "rename", 0, below(j, b), REAL(renameat)(i, a, j, b));
}
int link(const char *a, const char *b) {
    WHOLE(int, "link", 0, below(AT_FDCWD, b), REAL(link)(a, b));
}
int linkat(int i, const char *a, int j, const char *b, int flags) {
    WHOLE(int, "link", 0, below(j, b), REAL(linkat)(i, a, j, b, flags));
}
int mkdir(const char *path, mode_t mode) {
    WHOLE(int, "mkdir", 0, below(AT_FDCWD, path), REAL(mkdir)(path, mode));
}
int mkdirat(int at, const char *path, mode_t mode) {
    WHOLE(int, "mkdir", 0, below(at, path), REAL(mkdirat)(at, path, mode));
}
int unlink(const char *path) {
    WHOLE(int, "unlink", 1, below(AT_FDCWD, path), REAL(unlink)(path));
}
int unlinkat(int at, const char *path, int flags) {
    WHOLE(int, "unlink", 1, below(at, path), REAL(unlinkat)(at, path, flags));
}
int rmdir(const char *path) {
    WHOLE(int, "rmdir", 1, below(AT_FDCWD, path), REAL(rmdir)(path));
}
