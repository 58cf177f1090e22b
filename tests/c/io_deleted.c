/* A file that is deleted, or replaced by another, while it is open: those who have it open go on with it, the
 * name is free, and deleting again is an error of class MPI_ERR_NO_SUCH_FILE (but not by
 * MPI_MODE_DELETE_ON_CLOSE: the file is gone, as it is to be).
 * ranks: 1 3
 * variants: shm tcp hosts
 */
#include "io.h"

enum { N = 1000 };

static int out[N], in[N];
static MPI_Status status;

static void write_and_read(MPI_File file, int rank, int number) {
    for (int i = 0; i < N; i++)
        out[i] = number * 100000 + rank * N + i;
    memset(in, -1, sizeof in);
    OK(MPI_File_write_at_all(file, rank * (int)sizeof out, out, N, MPI_INT, &status));
    OK(MPI_File_read_at_all(file, rank * (int)sizeof out, in, N, MPI_INT, &status));
    CHECK_EQ(io_count(&status, MPI_INT), N);
    CHECK(memcmp(out, in, sizeof out) == 0);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int rank = world_rank(), ranks = world_size();
    const char *path = io_path("deleted");
    int flags = MPI_MODE_RDWR | MPI_MODE_CREATE;
    MPI_File file, other;
    MPI_Offset size, place;

    OK(MPI_File_open(MPI_COMM_WORLD, path, flags | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    write_and_read(file, rank, 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPI_File_delete(path, MPI_INFO_NULL));
        FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    write_and_read(file, rank, 2);
    OK(MPI_File_sync(file));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, ranks * (int)sizeof out);
    OK(MPI_File_write_ordered(file, &rank, 1, MPI_INT, &status));
    OK(MPI_File_get_position_shared(file, &place));
    CHECK_EQ(place, ranks * (int)sizeof(int));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_read_at(file, rank * (int)sizeof(int), in, 1, MPI_INT, &status));
    CHECK_EQ(in[0], rank);

    /* The name is free: another file has it now, and each keeps its own data. */
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &other), MPI_ERR_NO_SUCH_FILE);
    OK(MPI_File_open(MPI_COMM_WORLD, path, flags, MPI_INFO_NULL, &other));
    OK(MPI_File_get_size(other, &size));
    CHECK_EQ(size, 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    write_and_read(other, rank, 3);
    OK(MPI_File_read_at(file, rank * (int)sizeof(int), in, 1, MPI_INT, &status));
    CHECK_EQ(in[0], rank);
    OK(MPI_File_close(&other));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* There is nothing left to delete, as it is to be. */
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL);
    CHECK(!io_exists(path));
    OK(MPI_Finalize());
    return 0;
}
