/* Injects a fault at the N-th call by which a process changes files below a folder.
 *
 * An LD_PRELOAD library for glibc on 64-bit Linux; tests/faults.py builds it and is its face.
 *
 * What acts: the process that loads it first. It takes its settings out of the environment as it
 * starts, LD_PRELOAD with them, so what that process starts runs without the library, and a fork
 * (another pid) is left alone. So start the program itself under it, not a shell that starts it.
 *
 * What counts, in one sequence over all threads, from 1: each call at the foot of this file whose
 * file is one of FAULTS_FOLDERS or lies below one; open only with O_CREAT or O_TRUNC; rename and
 * link by either name. A file stands where its name stands: links in the folders are followed, one
 * in the last place is not. A call whose folder does not exist is not counted, since it must fail.
 * Not seen: mapped memory, stdio's own writes, symlink, copy_file_range, sendfile, pwritev.
 *
 *   FAULTS_FOLDERS  absolute, links resolved, joined by ":"
 *   FAULTS_LOG      gets a line a counted call, before it is done: number, name, size (bytes to
 *                   write or new length, else 0) and path below its folder ("." is the folder; of
 *                   two names the new one, if watched), parted by tabs
 *   FAULTS_AT       N; none: no call
 *   FAULTS_ONWARDS  set: every call from N on, not the N-th alone
 *   FAULTS_UNTIL    a file: while it exists nothing happens at any call, though all are counted
 *   FAULTS_MODE     what happens at that call:
 *     before        SIGKILL instead of it
 *     after         SIGKILL once it is done
 *     torn          half of the bytes, rounded down, then SIGKILL; as before if it writes none
 *     short         half of the bytes; what writes fewer than two is done in whole
 *     errno         it is not done and fails with the number FAULTS_ERRNO, if it is one to which
 *                   that can happen (see happens)
 */
#undef _FORTIFY_SOURCE /* it would define some of these functions inline */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { PASS, BEFORE, AFTER, TORN, SHORT, FAIL };
/* What a call does, as far as errors tell calls apart: bits. */
enum kind { NOTHING = 0, MAKE = 1, WRITE = 2, LINK = 4, SYNC = 8, RESIZE = 16, OTHER = 32 };
/* `path` as seen from the folder `fd`; without a path the file that `fd` is. */
struct place { int fd; const char *path; };

static struct {
    pid_t pid; /* 0, nobody's: not set up yet */
    const char *folders, *until;
    int log, error;
    unsigned long at;
    bool onwards;
    enum mode mode;
} settings;
static atomic_ulong calls;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Removes `name` from the environment and returns a copy of its value, or NULL. */
static char *taken(const char *name)
{
    char *value = getenv(name);
    value = value ? strdup(value) : NULL;
    unsetenv(name);
    return value;
}

static enum mode mode_named(const char *name)
{
    static const char *const names[] = {"", "before", "after", "torn", "short", "errno"};
    for (enum mode mode = PASS; mode <= FAIL; mode++)
        if (strcmp(names[mode], name) == 0)
            return mode;
    abort();
}

__attribute__((constructor)) static void set_up(void)
{
    char *folders = taken("FAULTS_FOLDERS"), *log = taken("FAULTS_LOG"), *at = taken("FAULTS_AT");
    char *mode = taken("FAULTS_MODE"), *error = taken("FAULTS_ERRNO");
    settings.until = taken("FAULTS_UNTIL");
    settings.onwards = taken("FAULTS_ONWARDS") != NULL;
    unsetenv("LD_PRELOAD");
    settings.folders = folders ? folders : "";
    settings.log = log ? REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    settings.at = at ? strtoul(at, NULL, 10) : ULONG_MAX;
    settings.mode = mode_named(mode ? mode : "");
    settings.error = error ? atoi(error) : 0;
    settings.pid = getpid();
}

/* Whether `place` could be found; its absolute path is then in `full`. */
static bool located(struct place place, char full[2 * PATH_MAX])
{
    char name[2 * PATH_MAX];
    if (place.path == NULL) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", place.fd);
        ssize_t length = readlink(name, full, PATH_MAX);
        full[length < 0 ? 0 : length] = '\0';
        return length > 0;
    }
    if (strlen(place.path) >= PATH_MAX)
        return false;
    if (place.path[0] == '/')
        strcpy(name, place.path);
    else if (place.fd == AT_FDCWD)
        sprintf(name, "./%s", place.path);
    else
        sprintf(name, "/proc/self/fd/%d/%s", place.fd, place.path);
    for (size_t end = strlen(name); end > 1 && name[end - 1] == '/'; end--)
        name[end - 1] = '\0';
    char *slash = strrchr(name, '/');
    if (slash == NULL) /* "./" of an empty path */
        return false;
    *slash = '\0';
    if (realpath(slash == name ? "/" : name, full) == NULL)
        return false;
    strcat(strcat(full, "/"), slash + 1);
    return true;
}

/* The part of `full` below the watched folder that holds it, or NULL. */
static const char *below(const char *full)
{
    size_t length;
    for (const char *each = settings.folders; *each; each += length + (each[length] == ':')) {
        length = strcspn(each, ":");
        if (strncmp(full, each, length) == 0 && full[length] == '\0')
            return ".";
        if (strncmp(full, each, length) == 0 && full[length] == '/')
            return full + length + 1;
    }
    return NULL;
}

/* Whether the error of the settings can come from a call of this kind on this file. */
static bool happens(enum kind kind, const char *full)
{
    switch (settings.error) {
    case ENOSPC:
    case EDQUOT: /* opening what exists takes no room */
        return kind & (MAKE | WRITE | LINK | SYNC) && !(kind == MAKE && access(full, F_OK) == 0);
    case EROFS:
        return !(kind & (SYNC | RESIZE));
    default:
        return true;
    }
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* Counts a call and returns how to do it; sets errno for FAIL. Does not return if BEFORE. */
static enum mode planned(const char *name, enum kind kind, size_t size, struct place place,
                         struct place other)
{
    char full[2 * PATH_MAX];
    const char *path = NULL;
    if (kind == NOTHING || getpid() != settings.pid)
        return PASS;
    if (located(place, full))
        path = below(full);
    if (path == NULL && other.path != NULL && located(other, full))
        path = below(full);
    if (path == NULL)
        return PASS;
    unsigned long number = atomic_fetch_add(&calls, 1) + 1;
    if (settings.log >= 0)
        dprintf(settings.log, "%lu\t%s\t%zu\t%s\n", number, name, size, path);
    if (settings.onwards ? number < settings.at : number != settings.at)
        return PASS;
    if (settings.until && access(settings.until, F_OK) == 0)
        return PASS;
    if (settings.mode == BEFORE || (settings.mode == TORN && (kind != WRITE || size == 0)))
        die();
    if (settings.mode == SHORT && (kind != WRITE || size < 2))
        return PASS;
    if (settings.mode == FAIL && !happens(kind, full))
        return PASS;
    errno = settings.mode == FAIL ? settings.error : errno;
    return settings.mode;
}

/* Returns the result of a call that was done, if the process lives on. */
static ssize_t survived(enum mode mode, ssize_t result)
{
    if (mode == AFTER || mode == TORN)
        die();
    return result;
}

static struct place at(int fd, const char *path)
{
    return (struct place){fd, path};
}

#define FD(fd) at(fd, NULL)
#define PATH(path) at(AT_FDCWD, path)
#define HALVED(size) (mode == TORN || mode == SHORT ? (size) / 2 : (size))

/* Defines the function `name` around the C library's; `arguments` may use `mode`. */
#define CALL(type, name, parameters, arguments, kind, size, place, other) \
    type name parameters \
    { \
        enum mode mode = planned(#name, kind, size, place, other); \
        return mode == FAIL ? -1 : survived(mode, REAL(name) arguments); \
    }
#define CHANGE(name, parameters, arguments, kind, size, place) \
    CALL(int, name, parameters, arguments, kind, size, place, FD(-1))
#define MOVE(name, parameters, arguments, to, from) \
    CALL(int, name, parameters, arguments, LINK, 0, to, from)
#define PUT(name, parameters, arguments) \
    CALL(ssize_t, name, parameters, arguments, WRITE, size, FD(fd), FD(-1))
#define OPEN(name, parameters, arguments, place) \
    int name parameters \
    { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t rights = __OPEN_NEEDS_MODE(flags) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        enum kind kind = flags & O_CREAT ? MAKE : flags & O_TRUNC ? OTHER : NOTHING; \
        enum mode mode = planned(#name, kind, 0, place, FD(-1)); \
        return mode == FAIL ? -1 : survived(mode, REAL(name) arguments); \
    }

PUT(write, (int fd, const void *from, size_t size), (fd, from, HALVED(size)))
PUT(pwrite, (int fd, const void *from, size_t size, off_t to), (fd, from, HALVED(size), to))
PUT(pwrite64, (int fd, const void *from, size_t size, off64_t to), (fd, from, HALVED(size), to))

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    enum mode mode = planned("writev", WRITE, size, FD(fd), FD(-1));
    if (mode == FAIL)
        return -1;
    if (mode != TORN && mode != SHORT)
        return survived(mode, REAL(writev)(fd, parts, count));
    struct iovec kept[count]; /* not empty: there are bytes */
    size_t left = size / 2;
    for (int i = 0; i < count; i++) {
        kept[i] = parts[i];
        kept[i].iov_len = parts[i].iov_len < left ? parts[i].iov_len : left;
        left -= kept[i].iov_len;
    }
    return survived(mode, REAL(writev)(fd, kept, count));
}

OPEN(open, (const char *path, int flags, ...), (path, flags, rights), PATH(path))
OPEN(open64, (const char *path, int flags, ...), (path, flags, rights), PATH(path))
OPEN(openat, (int fd, const char *path, int flags, ...), (fd, path, flags, rights), at(fd, path))
OPEN(openat64, (int fd, const char *path, int flags, ...), (fd, path, flags, rights), at(fd, path))

CHANGE(mkdir, (const char *path, mode_t rights), (path, rights), MAKE, 0, PATH(path))
CHANGE(mkdirat, (int fd, const char *path, mode_t rights), (fd, path, rights), MAKE, 0,
       at(fd, path))
CHANGE(fsync, (int fd), (fd), SYNC, 0, FD(fd))
CHANGE(fdatasync, (int fd), (fd), SYNC, 0, FD(fd))
CHANGE(ftruncate, (int fd, off_t length), (fd, length), RESIZE, length, FD(fd))
CHANGE(ftruncate64, (int fd, off64_t length), (fd, length), RESIZE, length, FD(fd))
CHANGE(truncate, (const char *path, off_t length), (path, length), OTHER, length, PATH(path))
CHANGE(truncate64, (const char *path, off64_t length), (path, length), OTHER, length, PATH(path))
CHANGE(chmod, (const char *path, mode_t rights), (path, rights), OTHER, 0, PATH(path))
CHANGE(fchmod, (int fd, mode_t rights), (fd, rights), OTHER, 0, FD(fd))
CHANGE(unlink, (const char *path), (path), OTHER, 0, PATH(path))
CHANGE(unlinkat, (int fd, const char *path, int flags), (fd, path, flags), OTHER, 0, at(fd, path))
CHANGE(rmdir, (const char *path), (path), OTHER, 0, PATH(path))
MOVE(rename, (const char *from, const char *to), (from, to), PATH(to), PATH(from))
MOVE(renameat, (int fd, const char *from, int to_fd, const char *to), (fd, from, to_fd, to),
     at(to_fd, to), at(fd, from))
MOVE(renameat2, (int fd, const char *from, int to_fd, const char *to, unsigned flags),
     (fd, from, to_fd, to, flags), at(to_fd, to), at(fd, from))
MOVE(link, (const char *from, const char *to), (from, to), PATH(to), PATH(from))
MOVE(linkat, (int fd, const char *from, int to_fd, const char *to, int flags),
     (fd, from, to_fd, to, flags), at(to_fd, to), at(fd, from))
