/* Some ranks write small pieces by data sieving, which writes back what stands between, while others write
 * just that in calls of their own: nothing is lost, whoever comes first.
 * ranks: 2 4
 * variants: shm
 * timeout: 60
 * case: automatic
 * case: enable
 */
#include "io.h"

enum { PIECE = 16, PIECES = 200, ROUNDS = 6 };

static unsigned char data[PIECE * PIECES], back[PIECE * PIECES];

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), ranks = world_size();
    const char *path = io_path("sieve");
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_ds_write", argv[1]));
    OK(MPI_Info_set(info, "ind_wr_buffer_size", "3000"));
    MPI_Datatype piece, every;
    OK(MPI_Type_contiguous(PIECE, MPI_BYTE, &piece));
    OK(MPI_Type_create_resized(piece, 0, PIECE * ranks, &every));
    OK(MPI_Type_commit(&every));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_File file;
        MPI_Request request;
        OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
        OK(MPI_File_set_view(file, rank % 2 ? 0 : PIECE * rank, MPI_BYTE, rank % 2 ? MPI_BYTE : every,
                             "native", MPI_INFO_NULL));
        fill(data, sizeof data, (uint64_t)(round * 10 + rank));
        if (rank % 2) {
            /* Each piece by itself, from the end to the beginning in every other round. */
            for (int i = 0; i < PIECES; i++) {
                int k = round % 2 ? PIECES - 1 - i : i;
                MPI_Offset at = ((MPI_Offset)k * ranks + rank) * PIECE;
                OK(MPI_File_write_at(file, at, data + k * PIECE, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
            }
        } else if (round % 3) {
            OK(MPI_File_write_at(file, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_File_iwrite_at(file, 0, data, sizeof data, MPI_BYTE, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_File_set_view(file, PIECE * rank, MPI_BYTE, every, "native", MPI_INFO_NULL));
        OK(MPI_File_read_at(file, 0, back, sizeof back, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(data, back, sizeof data) == 0);
        OK(MPI_File_close(&file));
    }
    if (rank == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    OK(MPI_Type_free(&piece));
    OK(MPI_Type_free(&every));
    OK(MPI_Info_free(&info));
    OK(MPI_Finalize());
    return 0;
}
