/* Nonblocking accesses, both of lengths done by the system immediately and of lengths done by threads: data, counts at
 * the end of a file, many accesses completed in any order, completion by tests alone, atomic mode, and a process with
 * one core. On a disk's and on a memory file system.
 * ranks: 1 2
 * local: files
 * timeout: 60
 */
#define _GNU_SOURCE
#include "io.h"
#include <sched.h>

static const int lengths[] = {0, 1, 4096, 65536, 65537, 300000};
enum { LENGTHS = sizeof lengths / sizeof *lengths, MOST = 300000, MANY = 40 };

static int rank, ranks;
static unsigned char *out, *in;

static MPI_Offset own(int index) {
    return ((MPI_Offset)index * ranks + rank) * MOST;
}

static void until_done(MPI_Request *request, MPI_Status *status) {
    for (int done = 0; !done;)
        OK(MPI_Test(request, &done, status));
}

/* Each length by itself, waited for or tested for. */
static void each(MPI_File file, const char *path, int tests) {
    for (int i = 0; i < LENGTHS; i++) {
        MPI_Request request;
        MPI_Status status;
        fill(out, (size_t)lengths[i], (uint64_t)(10 * i + rank + 1 + 100 * tests));
        OK(MPI_File_iwrite_at(file, own(i), out, lengths[i], MPI_BYTE, &request));
        if (tests)
            until_done(&request, &status);
        else
            OK(MPI_Wait(&request, &status));
        CHECK_EQ(io_count(&status, MPI_BYTE), lengths[i]);
        /* It is in the file when the request is complete. */
        memset(in, 0, MOST);
        CHECK_EQ(io_slurp(path, in, (size_t)lengths[i], own(i)), lengths[i]);
        CHECK(memcmp(in, out, (size_t)lengths[i]) == 0);
        memset(in, 0, MOST);
        OK(MPI_File_iread_at(file, own(i), in, lengths[i], MPI_BYTE, &request));
        if (tests)
            until_done(&request, &status);
        else
            OK(MPI_Wait(&request, &status));
        CHECK_EQ(io_count(&status, MPI_BYTE), lengths[i]);
        CHECK(memcmp(in, out, (size_t)lengths[i]) == 0);
    }
}

/* Many under way, short ones and long ones, the last waited for first. */
static void many(MPI_File file) {
    MPI_Request requests[MANY];
    MPI_Status status;
    unsigned char *data = allocate((size_t)MANY * 70000), *found = allocate((size_t)MANY * 70000);
    MPI_Offset at = (MPI_Offset)MOST * (20 * ranks + 10 * rank);
    fill(data, (size_t)MANY * 70000, (uint64_t)rank + 7);
    for (int i = 0; i < MANY; i++)
        OK(MPI_File_iwrite_at(file, at + i * 70000, data + i * 70000, i % 3 ? 1000 + i : 70000, MPI_BYTE,
                              requests + i));
    for (int i = MANY - 1; i >= 0; i--) {
        OK(MPI_Wait(requests + i, &status));
        CHECK_EQ(io_count(&status, MPI_BYTE), i % 3 ? 1000 + i : 70000);
    }
    for (int i = 0; i < MANY; i++)
        OK(MPI_File_iread_at(file, at + i * 70000, found + i * 70000, i % 3 ? 1000 + i : 70000, MPI_BYTE,
                             requests + i));
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++)
        CHECK(memcmp(data + i * 70000, found + i * 70000, (size_t)(i % 3 ? 1000 + i : 70000)) == 0);
    free(data);
    free(found);
}

/* Reads that begin before the end of the file and go beyond it, and that begin behind it. */
static void at_the_end(MPI_File file) {
    MPI_Offset size;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_get_size(file, &size));
    for (int before = 0; before <= 100; before += 50) {
        memset(in, 1, 200);
        OK(MPI_File_iread_at(file, size - before, in, 200, MPI_BYTE, &request));
        OK(MPI_Wait(&request, &status));
        CHECK_EQ(io_count(&status, MPI_BYTE), before);
        for (int i = before; i < 200; i++)
            CHECK_EQ(in[i], 1);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Of individual pointers and of memory with gaps, and collective ones. */
static void others(MPI_File file) {
    MPI_Datatype gaps;
    MPI_Request request;
    MPI_Status status;
    int numbers[200], found[200];
    OK(MPI_Type_vector(100, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int i = 0; i < 200; i++) {
        numbers[i] = 1000 * rank + i;
        found[i] = -1;
    }
    OK(MPI_File_seek(file, own(0), MPI_SEEK_SET));
    OK(MPI_File_iwrite(file, numbers, 1, gaps, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(io_count(&status, MPI_INT), 100);
    OK(MPI_File_seek(file, own(0), MPI_SEEK_SET));
    for (int half = 0; half < 2; half++) {
        OK(MPI_File_iread(file, found + 50 * half, 50, MPI_INT, &request));
        OK(MPI_Wait(&request, &status));
        CHECK_EQ(io_count(&status, MPI_INT), 50);
    }
    for (int i = 0; i < 100; i++)
        CHECK_EQ(found[i], 1000 * rank + 2 * i);
    OK(MPI_File_iwrite_at_all(file, own(1), numbers, 200, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(io_count(&status, MPI_INT), 200);
    OK(MPI_File_iread_at_all(file, own(1), found, 200, MPI_INT, &request));
    until_done(&request, &status);
    CHECK_EQ(io_count(&status, MPI_INT), 200);
    CHECK(memcmp(found, numbers, sizeof numbers) == 0);
    OK(MPI_Type_free(&gaps));
}

static void with(const char *path) {
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    each(file, path, 0);
    each(file, path, 1);
    many(file);
    at_the_end(file);
    others(file);
    OK(MPI_File_set_atomicity(file, 1));
    each(file, path, 0);
    OK(MPI_File_set_atomicity(file, 0));
    OK(MPI_File_close(&file));
}

/* What may not be written is refused, by the call or by the request. */
static void refused(const char *path) {
    MPI_File file;
    MPI_Request request;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    FAILS(MPI_File_iread_at(file, 0, in, 10, MPI_BYTE, &request), MPI_ERR_ACCESS);
    FAILS(MPI_File_iwrite_at(file, -1, out, 10, MPI_BYTE, &request), MPI_ERR_ARG);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    check_rank = rank = world_rank();
    ranks = world_size();
    out = allocate(MOST);
    in = allocate(MOST);
    const char *given = getenv("TMPDIR");
    char folder[200];
    snprintf(folder, sizeof folder, "%s", given ? given : "/tmp");
    with(io_path("at-once"));
    refused(io_path("at-once"));
    OK(setenv("TMPDIR", "/dev/shm", 1));
    with(io_path("at-once"));
    /* Threads that are made from here on have no other core, either. */
    cpu_set_t cores;
    CHECK_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
    for (int core = 0, found = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &cores) && found++)
            CPU_CLR(core, &cores);
    }
    CHECK_EQ(sched_setaffinity(0, sizeof cores, &cores), 0);
    OK(setenv("TMPDIR", folder, 1));
    with(io_path("at-once"));
    free(out);
    free(in);
    OK(MPI_Finalize());
    return 0;
}
