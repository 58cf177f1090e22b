/* Some ranks write small blocks by data sieving, which rewrites the gaps, while others write these gaps: no write
 * is lost in any order.
 * ranks: 2 4
 * variants: shm
 * timeout: 60
 * case: automatic 16
 * case: enable 16
 * case: automatic 300
 */
#include "io.h"

enum { LONGEST = 300, PIECES = 200, ROUNDS = 6 };

static unsigned char data[LONGEST * PIECES], back[LONGEST * PIECES];

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    char choice[16];
    int length;
    CHECK_EQ(sscanf(argv[1], "%15s %d", choice, &length), 2);
    CHECK(length <= LONGEST);
    int bytes = length * PIECES;
    int rank = world_rank(), ranks = world_size();
    const char *path = io_path("sieve");
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_ds_write", choice));
    OK(MPI_Info_set(info, "ind_wr_buffer_size", length > 16 ? "100000" : "3000"));
    MPI_Datatype piece, every;
    OK(MPI_Type_contiguous(length, MPI_BYTE, &piece));
    OK(MPI_Type_create_resized(piece, 0, length * ranks, &every));
    OK(MPI_Type_commit(&every));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_File file;
        MPI_Request request;
        /* In some rounds all have pieces of the same stretches to sieve at the same time. */
        int alone = rank % 2 && round % 3 != 1;
        OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
        OK(MPI_File_set_view(file, alone ? 0 : length * rank, MPI_BYTE, alone ? MPI_BYTE : every,
                             "native", MPI_INFO_NULL));
        fill(data, bytes, (uint64_t)(round * 10 + rank));
        if (alone) {
            /* Each piece by itself, from the end to the beginning in every other round. */
            for (int i = 0; i < PIECES; i++) {
                int k = round % 2 ? PIECES - 1 - i : i;
                MPI_Offset at = ((MPI_Offset)k * ranks + rank) * length;
                OK(MPI_File_write_at(file, at, data + k * length, length, MPI_BYTE, MPI_STATUS_IGNORE));
            }
        } else if (round % 3) {
            OK(MPI_File_write_at(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_File_iwrite_at(file, 0, data, bytes, MPI_BYTE, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_File_set_view(file, length * rank, MPI_BYTE, every, "native", MPI_INFO_NULL));
        OK(MPI_File_read_at(file, 0, back, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(data, back, bytes) == 0);
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
