/* Really much data in one call: a message, a broadcast, a put and a get of many MPI_CHAR, and a file of as many, written
 * and read, in /tmp (or $TMPDIR); all of it is checked.
 *
 *     mpiexec -n 2 ./large_data 3221225472 both      3 GiB in memory on both sides
 *     mpiexec -n 2 ./large_data 5000000000 thin      5 G elements in memory on one side only
 *
 * "thin": the other side has one block, described as often as there are bytes by a datatype without a stride. Its
 * length is no power of two, so that an offset that lost its high bits is seen. Without arguments, as the suite
 * runs it, it is little data.
 *
 * ranks: 2
 * cflags: -O2
 * timeout: 60
 */
#include "io.h"

#define BLOCK 1000003

static int rank;
static size_t count;
static int thin;
static unsigned char *real, *block;
static MPI_Datatype blocks;
static double started;

/* The byte at a place: of a block, or of everything. */
static unsigned char byte_at(size_t at, int periodic) {
    uint64_t x = periodic ? at % BLOCK : at;
    return (unsigned char)((x * 0x9e3779b97f4a7c15u) >> 56) ^ (unsigned char)(x >> 32);
}

static void make(unsigned char *data, size_t size, int periodic) {
    for (size_t i = 0; i < size; i++) {
        data[i] = byte_at(i, periodic);
    }
}

static void check(const unsigned char *data, size_t size, int periodic, size_t from) {
    for (size_t i = 0; i < size; i++) {
        if (data[i] != byte_at(from + i, periodic)) {
            fprintf(stderr, "byte %zu of %zu is wrong\n", i, size);
            CHECK(!"the data is right");
        }
    }
}

static void step(const char *what, int more) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    double now = MPI_Wtime();
    if (rank == 0 && more) {
        printf("%-28s %6.2f s\n", what, now - started);
        fflush(stdout);
    }
    started = MPI_Wtime();
}

/* One side's buffer: everything, or the block as often as that takes. */
struct Side {
    void *data;
    MPI_Count count;
    MPI_Datatype type;
};

static struct Side side(int is_real) {
    struct Side everything = {real, (MPI_Count)count, MPI_CHAR}, one = {block, 1, blocks};
    return is_real || !thin ? everything : one;
}

/* What came is what `from` sent. A block received again and again is at last the last one. */
static void check_got(int is_real, int sent_real) {
    if (is_real || !thin) {
        check(real, count, thin && !sent_real, 0);
    } else {
        check(block, BLOCK, 0, count - BLOCK);
    }
}

/* Sends from rank 0 to 1; `first` says whether it is rank 0 that has everything. */
static void transfers(int first, int more) {
    int is_real = first == (rank == 0);
    struct Side mine = side(is_real);
    MPI_Count got;
    MPI_Status status;
    for (int what = 0; what < 2; what++) {
        if (rank == 0) {
            is_real || !thin ? make(real, count, 0) : make(block, BLOCK, 1);
        } else if (is_real || !thin) {
            memset(real, 0, count);
        }
        step("preparing", 0);
        if (what == 1) {
            OK(MPI_Bcast_c(mine.data, mine.count, mine.type, 0, MPI_COMM_WORLD));
        } else if (rank == 0) {
            OK(MPI_Send_c(mine.data, mine.count, mine.type, 1, 3, MPI_COMM_WORLD));
        } else {
            OK(MPI_Recv_c(mine.data, mine.count, mine.type, 0, 3, MPI_COMM_WORLD, &status));
            OK(MPI_Get_count_c(&status, MPI_CHAR, &got));
            CHECK_EQ(got, count);
        }
        step(what ? "broadcast" : "message", more);
        if (rank == 1) {
            check_got(is_real, first);
        }
    }
}

/* Rank 0 puts to a window of rank 1, and gets it back. */
static void window(int more) {
    MPI_Win win;
    struct Side mine = side(0);
    MPI_Request request;
    if (rank == 0) {
        thin ? make(block, BLOCK, 1) : make(real, count, 0);
    } else {
        memset(real, 0, count);
    }
    OK(MPI_Win_create_c(real, rank == 1 ? (MPI_Aint)count : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                        &win));
    OK(MPI_Win_fence(0, win));
    step("preparing", 0);
    if (rank == 0) {
        OK(MPI_Put_c(mine.data, mine.count, mine.type, 1, 0, (MPI_Count)count, MPI_CHAR, win));
    }
    OK(MPI_Win_fence(0, win));
    step("put", more);
    if (rank == 1) {
        check(real, count, thin, 0);
        make(real, count, 0);
    } else {
        thin ? (void)memset(block, 0, BLOCK) : (void)memset(real, 0, count);
    }
    step("checking", 0);
    OK(MPI_Win_fence(0, win));
    if (rank == 0) {
        OK(MPI_Get_c(mine.data, mine.count, mine.type, 1, 0, (MPI_Count)count, MPI_CHAR, win));
    }
    OK(MPI_Win_fence(0, win));
    step("get", more);
    if (rank == 0) {
        check_got(0, 1);
        thin ? make(block, BLOCK, 1) : make(real, count, 0);
    }
    OK(MPI_Win_lock_all(0, win));
    if (rank == 0) {
        OK(MPI_Rput_c(mine.data, mine.count, mine.type, 1, 0, (MPI_Count)count, MPI_CHAR, win,
                      &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 1) {
        check(real, count, thin, 0);
    }
    OK(MPI_Win_free(&win));
}

/* Rank 0 writes a file, which rank 1 reads, by itself and with rank 0, who reads nothing. */
static void file(int more) {
    struct Side mine = side(0);
    MPI_File file;
    MPI_Status status;
    MPI_Count got;
    const char *name = io_path("large-data");
    if (rank == 0) {
        thin ? make(block, BLOCK, 1) : make(real, count, 0);
    }
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    OK(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file));
    step("preparing", 0);
    if (rank == 0) {
        OK(MPI_File_write_at_c(file, 5, mine.data, mine.count, mine.type, &status));
        OK(MPI_Get_elements_c(&status, mine.type, &got));
        CHECK_EQ(got, count);
    }
    step("file written", more);
    for (int together = 0; together < 2; together++) {
        if (rank == 1) {
            memset(real, 0, count);
        }
        step("preparing", 0);
        if (together) {
            MPI_Count wanted = rank == 1 ? (MPI_Count)count : 0;
            OK(MPI_File_read_at_all_c(file, 5, real, wanted, MPI_CHAR, &status));
        } else if (rank == 1) {
            OK(MPI_File_read_at_c(file, 5, real, (MPI_Count)count, MPI_CHAR, &status));
        }
        step(together ? "file read together" : "file read", more);
        if (rank == 1) {
            OK(MPI_Get_count_c(&status, MPI_CHAR, &got));
            CHECK_EQ(got, count);
            check(real, count, thin, 0);
        }
    }
    OK(MPI_File_close(&file));
}

static void all(int more) {
    block = allocate(BLOCK);
    OK(MPI_Type_create_hvector_c((MPI_Count)count / BLOCK, BLOCK, 0, MPI_CHAR, &blocks));
    OK(MPI_Type_commit(&blocks));
    for (int first = 0; first < 2; first++) {
        int is_real = first == (rank == 0);
        real = is_real || !thin ? allocate(count) : NULL;
        transfers(first, more);
        if (first == 0) {
            window(more);
            file(more);
        }
        free(real);
        real = NULL;
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Type_free(&blocks));
    free(block);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    CHECK_EQ(world_size(), 2);
    int more = argc > 2;
    count = more ? strtoull(argv[1], NULL, 0) : 3 * BLOCK;
    count += (BLOCK - count % BLOCK) % BLOCK;
    for (thin = 0; thin < 2; thin++) {
        if (!more || thin == (strcmp(argv[2], "thin") == 0)) {
            all(more);
        }
    }
    OK(MPI_Finalize());
    return 0;
}
