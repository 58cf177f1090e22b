/* A quota that is exhausted in the middle of a write: the failed part is an error of class MPI_ERR_QUOTA on all ranks
 * concerned, and data of successful writes are in the file. Preallocation beyond the quota leaves nothing behind.
 * ranks: 1 4
 * variants: shm
 * preload: quota.c
 * case: together
 * case: alone
 */
#include "io.h"

enum { ROOM = 300000, PIECE = 1000, PIECES = 20, PART = PIECE * PIECES };

static unsigned char data[PART], back[PART];

/* Rounds of interleaved pieces until a write fails. Returns how many succeeded. */
static int fill_up(MPI_File file, int rank, int ranks, int together) {
    MPI_Status status;
    for (int round = 0;; round++) {
        CHECK(round <= ROOM / PART + 1);
        fill(data, PART, (uint64_t)(100 * round + rank));
        int code = together ? MPI_File_write_all(file, data, PART, MPI_BYTE, &status)
                            : MPI_File_write(file, data, PART, MPI_BYTE, &status);
        int failed = code != MPI_SUCCESS, most, least;
        if (failed)
            CHECK_EQ(class_of(code), MPI_ERR_QUOTA);
        else
            CHECK_EQ(io_count(&status, MPI_BYTE), PART);
        OK(MPI_Allreduce(&failed, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        OK(MPI_Allreduce(&failed, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        if (together)
            CHECK_EQ(most, least);
        if (most) {
            CHECK((round + 1) * ranks * PART > ROOM);
            return round;
        }
    }
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int rank = world_rank(), ranks = world_size(), together = strcmp(argv[1], "together") == 0;
    const char *path = io_path("quota");
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", together ? "enable" : "disable"));
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info,
                     &file));
    OK(MPI_Info_free(&info));
    /* Room that there isn't: all of it or nothing (MPI-4.1, 14.2.5). */
    MPI_Offset size;
    FAILS(MPI_File_preallocate(file, ROOM + 1), MPI_ERR_QUOTA);
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 0);
    OK(MPI_File_preallocate(file, PIECE));
    FAILS(MPI_File_preallocate(file, (MPI_Offset)1 << 40), MPI_ERR_QUOTA);
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, PIECE);
    MPI_Datatype pieces;
    OK(MPI_Type_vector(1, PIECE, PIECE, MPI_BYTE, &pieces));
    MPI_Datatype view;
    OK(MPI_Type_create_resized(pieces, 0, (MPI_Aint)PIECE * ranks, &view));
    OK(MPI_Type_commit(&view));
    OK(MPI_File_set_view(file, (MPI_Offset)PIECE * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
    OK(MPI_Type_free(&view));
    OK(MPI_Type_free(&pieces));
    int good = fill_up(file, rank, ranks, together);
    for (int round = 0; round < good; round++) {
        MPI_Status status;
        fill(data, PART, (uint64_t)(100 * round + rank));
        OK(MPI_File_read_at(file, (MPI_Offset)round * PART, back, PART, MPI_BYTE, &status));
        CHECK_EQ(io_count(&status, MPI_BYTE), PART);
        CHECK(memcmp(data, back, PART) == 0);
    }
    /* The same of nonblocking writes, by their requests. */
    MPI_Request request;
    OK(MPI_File_iwrite_at(file, ROOM / ranks + PART, data, PART, MPI_BYTE, &request));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_QUOTA);
    OK(MPI_File_write_at_all_begin(file, 0, data, PART, MPI_BYTE));
    OK(MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_close(&file));
    OK(MPI_Finalize());
    return 0;
}
