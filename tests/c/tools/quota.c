/* A quota on files whose names have "quota" in them: 300,000 bytes. A write that crosses
 * the limit is short, one beyond it fails (write(2), EDQUOT), as with a kernel's quota, which not every machine has.
 * Preallocation succeeds up to the limit, fails beyond it, and keeps the allocated part, as on ext4. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROOM = 300000 };

static int counts(int file) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0)
        return 0;
    name[length] = 0;
    return strstr(name, "quota") != NULL;
}

static ssize_t bounded(int file, const void *data, size_t size, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real)
        real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
    if (size > 0 && counts(file)) {
        if (at >= ROOM) {
            errno = EDQUOT;
            return -1;
        }
        if (size > (size_t)(ROOM - at))
            size = (size_t)(ROOM - at);
    }
    return real(file, data, size, at);
}

static ssize_t bounded_list(int file, const struct iovec *pieces, int count, off_t at) {
    ssize_t sum = 0;
    for (int i = 0; i < count; i++) {
        ssize_t done = bounded(file, pieces[i].iov_base, pieces[i].iov_len, at + sum);
        if (done < 0)
            return sum ? sum : -1;
        sum += done;
        if ((size_t)done < pieces[i].iov_len)
            break;
    }
    return sum;
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    return bounded(file, data, size, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t at) {
    return bounded(file, data, size, at);
}

ssize_t pwritev(int file, const struct iovec *pieces, int count, off_t at) {
    return bounded_list(file, pieces, count, at);
}

ssize_t pwritev64(int file, const struct iovec *pieces, int count, off_t at) {
    return bounded_list(file, pieces, count, at);
}

static int bounded_room(int file, off_t at, off_t size) {
    static int (*real)(int, off_t, off_t);
    if (!real)
        real = (int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, "posix_fallocate64");
    if (size <= ROOM - at || !counts(file))
        return real(file, at, size);
    int code = at < ROOM ? real(file, at, ROOM - at) : 0;
    return code ? code : EDQUOT;
}

int posix_fallocate(int file, off_t at, off_t size) {
    return bounded_room(file, at, size);
}

int posix_fallocate64(int file, off_t at, off_t size) {
    return bounded_room(file, at, size);
}
