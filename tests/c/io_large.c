/* Files beyond 4 GiB (sparse ones), displacements beyond 2^31, and filetypes with extents beyond that.
 * ranks: 1 3
 * variants: shm
 * alone: yes
 */
#include "io.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), ranks = world_size();
    const char *path = io_path("large");
    MPI_File file;
    MPI_Status status;
    MPI_Offset size, at;
    const MPI_Offset far = 5000000000;
    enum { N = 1000 };
    static int out[N], in[N];
    for (int i = 0; i < N; i++)
        out[i] = rank * N + i;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_write_at_all(file, far + rank * 4 * N, out, N, MPI_INT, &status));
    OK(MPI_File_get_size(file, &size));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, far + ranks * 4 * N);
    OK(MPI_File_read_at_all(file, far + rank * 4 * N, in, N, MPI_INT, &status));
    CHECK(memcmp(out, in, sizeof in) == 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* One int every 3 GiB, from beyond 2^31 on. */
    MPI_Datatype wide;
    OK(MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)3 << 30, &wide));
    OK(MPI_Type_commit(&wide));
    MPI_Offset disp = ((MPI_Offset)1 << 32) + 4 * rank;
    OK(MPI_File_set_view(file, disp, MPI_INT, wide, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, 5, &at));
    CHECK_EQ(at, disp + 5 * ((MPI_Offset)3 << 30));
    OK(MPI_File_write_all(file, out, 6, MPI_INT, &status));
    memset(in, 0, sizeof in);
    OK(MPI_File_read_at_all(file, 0, in, 6, MPI_INT, &status));
    CHECK_EQ(io_count(&status, MPI_INT), 6);
    CHECK(memcmp(out, in, 6 * sizeof(int)) == 0);
    int back;
    CHECK_EQ(io_slurp(path, &back, 4, disp + 4 * ((off_t)3 << 30)), 4);
    CHECK_EQ(back, out[4]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, ((MPI_Offset)1 << 32) + 5 * ((MPI_Offset)3 << 30) + 4 * ranks);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &at));
    CHECK_EQ(at, 6);
    OK(MPI_Type_free(&wide));
    /* More than 2^31 bytes in one access: a datatype whose data is one block again and again. */
    if (ranks == 1) {
        enum { BLOCK = 1 << 20, COUNT = 2100 };
        char *block = allocate(BLOCK);
        fill(block, BLOCK, 9);
        MPI_Datatype again;
        OK(MPI_Type_create_hvector(COUNT, BLOCK, 0, MPI_BYTE, &again));
        OK(MPI_Type_commit(&again));
        OK(MPI_File_close(&file));
        /* In memory, for speed. */
        char name[300];
        snprintf(name, sizeof name, "/dev/shm%s", strrchr(path, '/'));
        OK(MPI_File_open(MPI_COMM_WORLD, name,
                         MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
        OK(MPI_File_write_at(file, 0, block, 1, again, &status));
        MPI_Count bytes;
        OK(MPI_Get_elements_x(&status, MPI_BYTE, &bytes));
        CHECK_EQ(bytes, (MPI_Count)BLOCK * COUNT);
        OK(MPI_File_get_size(file, &size));
        CHECK_EQ(size, (MPI_Offset)BLOCK * COUNT);
        char *last = allocate(BLOCK);
        OK(MPI_File_read_at(file, (MPI_Offset)BLOCK * (COUNT - 1), last, BLOCK, MPI_BYTE, &status));
        CHECK(memcmp(block, last, BLOCK) == 0);
        OK(MPI_Type_free(&again));
        free(block);
        free(last);
    }
    OK(MPI_File_close(&file));
    OK(MPI_Finalize());
    return 0;
}
