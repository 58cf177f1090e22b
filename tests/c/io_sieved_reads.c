/* Ranks that read separate pieces of one range concurrently: each gets the current data after earlier
 * writes, at different places, and at a file's end inside the range.
 * ranks: 1 2 4 5
 * timeout: 60
 */
#include "io.h"

#include <unistd.h>

enum { PIECE = 512, PIECES = 2048 };

static int rank, ranks;

/* The byte at a place after `version` writes. */
static unsigned char byte(long place, int version) {
    return (unsigned char)(place ^ (place >> 9) * 31 ^ version * 77);
}

static void write_whole(MPI_File file, int version) {
    if (rank == 0) {
        long size = (long)PIECE * PIECES * ranks;
        unsigned char *all = malloc((size_t)size);
        for (long i = 0; i < size; i++)
            all[i] = byte(i, version);
        OK(MPI_File_write_at(file, 0, all, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
        free(all);
    }
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Reads `pieces` of this rank's blocks from `first` on, of which `there` bytes exist. */
static void look(MPI_File file, long first, long pieces, long there, int version) {
    MPI_Status status;
    int count;
    unsigned char *data = malloc((size_t)(pieces * PIECE));
    memset(data, 0, (size_t)(pieces * PIECE));
    OK(MPI_File_read_at(file, first * PIECE, data, (int)(pieces * PIECE), MPI_BYTE, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == there);
    for (long i = 0; i < there; i++) {
        long piece = first + i / PIECE;
        CHECK(data[i] == byte((piece * ranks + rank) * PIECE + i % PIECE, version));
    }
    free(data);
}

int main(int argc, char **argv) {
    MPI_File file, other;
    MPI_Datatype pieces;
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    ranks = world_size();
    const char *path = io_path("sieved_reads");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &other));
    OK(MPI_Type_vector(1, PIECE, PIECE, MPI_BYTE, &pieces));
    MPI_Datatype one = pieces;
    OK(MPI_Type_create_resized(one, 0, (MPI_Aint)PIECE * ranks, &pieces));
    OK(MPI_Type_free(&one));
    OK(MPI_Type_commit(&pieces));
    OK(MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, pieces, "native", MPI_INFO_NULL));

    /* All the same; what was written since by another opening of the file is there. */
    for (int version = 0; version < 4; version++) {
        write_whole(other, version);
        look(file, 0, PIECES, (long)PIECES * PIECE, version);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    /* Each from another place on, in several calls, one of them late. */
    for (long first = 100L * rank; first + 700 <= PIECES; first += 350 + 50 * rank)
        look(file, first, 700, 700L * PIECE, 3);
    if (rank == ranks - 1)
        usleep(20000);
    look(file, 1, PIECES - 1, (PIECES - 1L) * PIECE, 3);
    OK(MPI_Barrier(MPI_COMM_WORLD));

    /* The file ends in a piece of rank 0. */
    long whole = PIECES / 2;
    OK(MPI_File_set_size(other, whole * PIECE * ranks + 100));
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    look(file, 0, PIECES, whole * PIECE + (rank == 0 ? 100 : 0), 3);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    look(file, whole + 1, 900, 0, 3);

    OK(MPI_Type_free(&pieces));
    OK(MPI_File_close(&other));
    OK(MPI_File_close(&file));
    if (rank == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    OK(MPI_Finalize());
    return 0;
}
