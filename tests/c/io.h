/* What the tests of files share: a name that all ranks know, and what is in a file. */
#ifndef IO_H
#define IO_H

#include "fails.h"
#include <fcntl.h>
#include <sys/stat.h>

static char io_name[256];

/* A name for a file of this run, the same on all ranks. */
static UNUSED const char *io_path(const char *what) {
    long long id[2] = {0, 0};
    if (world_rank() == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        id[0] = getpid();
        id[1] = now.tv_nsec;
    }
    OK(MPI_Bcast(id, 2, MPI_LONG_LONG, 0, MPI_COMM_WORLD));
    const char *folder = getenv("TMPDIR");
    snprintf(io_name, sizeof io_name, "%s/weft-io-%s-%lld-%lld", folder ? folder : "/tmp", what, id[0],
             id[1]);
    return io_name;
}

/* The file's bytes as the system has them: how many were read. */
static UNUSED ssize_t io_slurp(const char *path, void *data, size_t size, off_t at) {
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    size_t done = 0;
    while (done < size) {
        ssize_t more = pread(file, (char *)data + done, size - done, at + (off_t)done);
        CHECK(more >= 0);
        if (more == 0)
            break;
        done += (size_t)more;
    }
    close(file);
    return (ssize_t)done;
}

static UNUSED int io_exists(const char *path) {
    struct stat told;
    return stat(path, &told) == 0;
}

static UNUSED int io_count(MPI_Status *status, MPI_Datatype type) {
    int count;
    OK(MPI_Get_count(status, type, &count));
    return count;
}

#endif
