/* 3 GiB, and 5 thousand million elements, in one call (MPI-4.0 chapter 14, large counts). The memory is the same
 * two megabytes again and again, the files are one that swallows everything and one with a hole, so neither
 * memory nor disk is needed.
 * ranks: 1 2
 * variants: shm
 * alone: yes
 * timeout: 240
 */
#define _GNU_SOURCE
#include "io.h"
#include <sys/mman.h>

static const MPI_Count MANY = 5000000000;
enum { WINDOW = 2 << 20 };

/* Room for `size` bytes, all of which are one piece of memory. */
static char *folded(size_t size) {
    int memory = memfd_create("folded", 0);
    CHECK(memory >= 0 && ftruncate(memory, WINDOW) == 0);
    size_t all = (size + WINDOW - 1) / WINDOW * WINDOW;
    char *room = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(room != MAP_FAILED);
    for (size_t at = 0; at < all; at += WINDOW)
        CHECK(mmap(room + at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) ==
              room + at);
    close(memory);
    return room;
}

static void moved(MPI_Status *status, MPI_Datatype type, MPI_Count want) {
    MPI_Count count;
    OK(MPI_Get_count_c(status, type, &count));
    CHECK(count == want);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    char *room = folded((size_t)MANY);
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset place;

    OK(MPI_File_open(MPI_COMM_WORLD, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_write_c(file, room, MANY, MPI_BYTE, &status));
    moved(&status, MPI_BYTE, MANY);
    OK(MPI_File_get_position(file, &place));
    CHECK(place == MANY);
    OK(MPI_File_write_at_all_c(file, rank * MANY, room, MANY, MPI_BYTE, &status));
    moved(&status, MPI_BYTE, MANY);
    OK(MPI_File_iwrite_at_c(file, 1, room, (MPI_Count)3 << 30, MPI_BYTE, &request));
    OK(MPI_Wait(&request, &status));
    moved(&status, MPI_BYTE, (MPI_Count)3 << 30);
    OK(MPI_File_close(&file));

    /* A hole of 3 GiB with something behind it, in memory if there is such a folder. */
    const MPI_Count size = (MPI_Count)3 << 30;
    if (io_exists("/dev/shm"))
        CHECK(setenv("TMPDIR", "/dev/shm", 1) == 0);
    const char *path = io_path("huge");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_set_size(file, size - 1));
    OK(MPI_File_write_at_all(file, size - 1, "x", 1, MPI_CHAR, &status));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        memset(room, 1, WINDOW);
        OK(MPI_File_read_at_c(file, 0, room, MANY, MPI_BYTE, &status));
        moved(&status, MPI_BYTE, size); /* the file has no more */
        CHECK_EQ(room[size - 1], 'x');
        CHECK(all_bytes(room, WINDOW - 1, 0));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_close(&file));
    OK(MPI_Finalize());
    return 0;
}
