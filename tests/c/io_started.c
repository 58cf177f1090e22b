/* Nonblocking collective accesses: aggregated if ranks' data are interleaved, several in progress with others,
 * completed in any order, and with errors.
 * ranks: 1 2 4
 * timeout: 60
 */
#include "io.h"

enum { PIECE = 64, PIECES = 100, MINE = PIECE * PIECES, MANY = 5 };

static int rank, ranks;
static MPI_Datatype every; /* one piece of each rank in turn */

/* What rank `of` has in access number `n`. */
static unsigned char *data_of(int of, int n) {
    unsigned char *data = allocate(MINE);
    fill(data, MINE, (uint64_t)(1000 * n + of + 1));
    return data;
}

static void set_view(MPI_File file, const char *representation) {
    OK(MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, every, representation, MPI_INFO_NULL));
}

static MPI_File open_file(const char *path, int mode, const char *buffering) {
    MPI_File file;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", buffering));
    OK(MPI_Info_set(info, "romio_cb_read", buffering));
    OK(MPI_Info_set(info, "cb_buffer_size", "5000")); /* several rounds */
    OK(MPI_File_open(MPI_COMM_WORLD, path, mode, info, &file));
    OK(MPI_Info_free(&info));
    return file;
}

/* That the file has what all ranks wrote in the first `accesses`. */
static void check_file(const char *path, int accesses, int empty) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int n = 0; n < accesses; n++)
        for (int of = 0; of < ranks; of++) {
            unsigned char *data = data_of(of, n), piece[PIECE];
            for (int i = 0; i < PIECES && (n != empty || of != 0); i++) {
                off_t at = ((off_t)n * PIECES + i) * ranks * PIECE + (off_t)of * PIECE;
                CHECK_EQ(io_slurp(path, piece, PIECE, at), PIECE);
                CHECK(memcmp(piece, data + i * PIECE, PIECE) == 0);
            }
            free(data);
        }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Several at once, one of them blocking, one without data on rank 0; waited for from the last to the first. */
static void several(const char *path, const char *buffering) {
    MPI_File file = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE, buffering);
    MPI_Request requests[MANY];
    MPI_Status status;
    unsigned char *data[MANY];
    set_view(file, "native");
    for (int n = 0; n < MANY; n++) {
        data[n] = data_of(rank, n);
        MPI_Offset at = (MPI_Offset)n * MINE;
        requests[n] = MPI_REQUEST_NULL;
        if (n == 2)
            OK(MPI_File_write_at_all(file, at, data[n], MINE, MPI_BYTE, &status));
        else
            OK(MPI_File_iwrite_at_all(file, at, data[n], n == 3 && rank == 0 ? 0 : MINE, MPI_BYTE, &requests[n]));
    }
    for (int n = MANY; n-- > 0;) {
        if (n % 2 == 0) {
            OK(MPI_Wait(&requests[n], &status));
        } else {
            int done = 0;
            while (!done)
                OK(MPI_Test(&requests[n], &done, &status));
        }
        CHECK(requests[n] == MPI_REQUEST_NULL);
        if (n != 2)
            CHECK_EQ(io_count(&status, MPI_BYTE), n == 3 && rank == 0 ? 0 : MINE);
    }
    check_file(path, MANY, 3);

    /* The same for reading, by the individual pointer, with one that ends behind the file. */
    unsigned char *back = allocate(MANY * MINE);
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    for (int n = 0; n < MANY; n++)
        OK(MPI_File_iread_all(file, back + n * MINE, MINE, MPI_BYTE, &requests[n]));
    MPI_Status statuses[MANY];
    OK(MPI_Waitall(MANY, requests, statuses));
    for (int n = 0; n < MANY; n++) {
        CHECK_EQ(io_count(&statuses[n], MPI_BYTE), MINE);
        if (n != 3 || rank != 0)
            CHECK(memcmp(back + n * MINE, data[n], MINE) == 0);
    }
    MPI_Request last;
    OK(MPI_File_iread_at_all(file, (MANY - 1) * MINE + MINE / 2, back, MINE, MPI_BYTE, &last));
    OK(MPI_Wait(&last, &status));
    CHECK_EQ(io_count(&status, MPI_BYTE), MINE / 2);
    CHECK(memcmp(back, data[MANY - 1] + MINE / 2, MINE / 2) == 0);

    /* Begun and ended, while others are under way. */
    OK(MPI_File_iwrite_at_all(file, 0, data[0], MINE, MPI_BYTE, &requests[0]));
    OK(MPI_File_write_at_all_begin(file, MINE, data[1], MINE, MPI_BYTE));
    FAILS(MPI_File_write_at_all(file, MINE, data[1], MINE, MPI_BYTE, &status), MPI_ERR_IO);
    OK(MPI_File_write_at_all_end(file, data[1], &status));
    CHECK_EQ(io_count(&status, MPI_BYTE), MINE);
    OK(MPI_File_iread_at_all(file, 2 * MINE, back, MINE, MPI_BYTE, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    CHECK(memcmp(back, data[2], MINE) == 0);
    check_file(path, MANY, 3);

    /* What is collective on the file waits for those that were started. */
    OK(MPI_File_iwrite_at_all(file, 0, data[0], MINE, MPI_BYTE, &requests[0]));
    OK(MPI_File_sync(file));
    check_file(path, 1, -1);
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_File_close(&file));
    for (int n = 0; n < MANY; n++)
        free(data[n]);
    free(back);
}

/* One rank has a single run, the others pieces: it moves its own, and helps the others all the same. */
static void unlike(const char *path) {
    MPI_File file = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE, "automatic");
    MPI_Request request;
    MPI_Status status;
    unsigned char *data = data_of(rank, 0), *back = allocate(MINE);
    int single = rank == 0;
    MPI_Offset far = (MPI_Offset)MINE * (ranks + 1);
    OK(MPI_File_set_view(file, single ? far : (MPI_Offset)rank * PIECE, MPI_BYTE, single ? MPI_BYTE : every, "native",
                         MPI_INFO_NULL));
    OK(MPI_File_iwrite_at_all(file, 0, data, MINE, MPI_BYTE, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(io_count(&status, MPI_BYTE), MINE);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_iread_at_all(file, 0, back, MINE, MPI_BYTE, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(io_count(&status, MPI_BYTE), MINE);
    CHECK(memcmp(back, data, MINE) == 0);
    OK(MPI_File_close(&file));
    free(data);
    free(back);
}

/* A single run of each rank gets to the file while nobody is in MPI. */
static void by_itself(const char *path) {
    MPI_File file = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE, "automatic");
    MPI_Request request;
    unsigned char *data = data_of(rank, 7), *back = allocate(MINE);
    MPI_Offset at = (MPI_Offset)MINE * (2 * ranks + rank);
    OK(MPI_File_iwrite_at_all(file, at, data, MINE, MPI_BYTE, &request));
    int there = 0;
    for (int i = 0; i < 2000 && !there; i++) {
        nap(0.005);
        there = io_slurp(path, back, MINE, at) == MINE && memcmp(back, data, MINE) == 0;
    }
    CHECK(there);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    free(data);
    free(back);
}

/* Data of another representation, in two files at once that ranks take in different order. */
static void converted(const char *path) {
    char other[300];
    snprintf(other, sizeof other, "%s-2", path);
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    MPI_File files[2] = {open_file(path, mode, "enable"), open_file(other, mode, "automatic")};
    MPI_Datatype two, unit;
    OK(MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)sizeof(int) * ranks, &two));
    OK(MPI_Type_commit(&two));
    unit = MPI_INT;
    int out[MINE], in[2][MINE];
    for (int i = 0; i < MINE; i++)
        out[i] = i * ranks + rank;
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++)
        OK(MPI_File_set_view(files[i], (MPI_Offset)rank * 4, unit, two, "external32", MPI_INFO_NULL));
    for (int i = 0; i < 2; i++) {
        int which = (i + rank) % 2;
        OK(MPI_File_iwrite_all(files[which], out, MINE, MPI_INT, &requests[which]));
    }
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    unsigned char bytes[4];
    CHECK_EQ(io_slurp(path, bytes, 4, 4L * 300 * ranks + 4 * (ranks - 1)), 4);
    int value = 300 * ranks + ranks - 1;
    CHECK_EQ(bytes[3], value & 255);
    CHECK_EQ(bytes[2], value >> 8);
    for (int i = 0; i < 2; i++) {
        int which = (i + rank) % 2;
        OK(MPI_File_iread_at_all(files[which], 0, in[which], MINE, MPI_INT, &requests[which]));
    }
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK(memcmp(in[0], out, sizeof out) == 0);
    CHECK(memcmp(in[1], out, sizeof out) == 0);
    OK(MPI_Type_free(&two));
    OK(MPI_File_close(&files[0]));
    OK(MPI_File_close(&files[1]));
}

static void wrong(const char *path) {
    MPI_File file = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE, "enable");
    MPI_Request request;
    unsigned char *data = data_of(rank, 0);
    set_view(file, "native");
    /* The rank with the wrong argument is told at once, the others when they wait. */
    int last = rank == ranks - 1;
    if (last) {
        FAILS(MPI_File_iwrite_at_all(file, 0, data, -1, MPI_BYTE, &request), MPI_ERR_COUNT);
        FAILS(MPI_File_iread_at_all(file, -5, data, MINE, MPI_BYTE, &request), MPI_ERR_ARG);
        FAILS(MPI_File_iwrite_all(file, NULL, MINE, MPI_BYTE, &request), MPI_ERR_BUFFER);
        FAILS(MPI_File_iread_all(file, data, MINE, MPI_DATATYPE_NULL, &request), MPI_ERR_TYPE);
    } else {
        MPI_Request four[4];
        int classes[4] = {MPI_ERR_COUNT, MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_TYPE};
        OK(MPI_File_iwrite_at_all(file, 0, data, MINE, MPI_BYTE, &four[0]));
        OK(MPI_File_iread_at_all(file, 0, data, MINE, MPI_BYTE, &four[1]));
        OK(MPI_File_iwrite_all(file, data, MINE, MPI_BYTE, &four[2]));
        OK(MPI_File_iread_all(file, data, MINE, MPI_BYTE, &four[3]));
        for (int i = 0; i < 4; i++)
            FAILS(MPI_Wait(&four[i], MPI_STATUS_IGNORE), classes[i]);
    }
    FAILS(MPI_File_iwrite_at_all(MPI_FILE_NULL, 0, data, 1, MPI_BYTE, &request), MPI_ERR_FILE);
    OK(MPI_File_close(&file));
    /* What one rank is told as an aggregator, all are. */
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "cb_nodes", "1"));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, info, &file));
    OK(MPI_Info_free(&info));
    set_view(file, "native");
    OK(MPI_File_iwrite_at_all(file, 0, data, MINE, MPI_BYTE, &request));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    OK(MPI_File_iwrite_all(file, data, rank ? MINE : 0, MPI_BYTE, &request));
    if (ranks > 1)
        FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    else
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    free(data);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    ranks = world_size();
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Datatype piece;
    OK(MPI_Type_contiguous(PIECE, MPI_BYTE, &piece));
    OK(MPI_Type_create_resized(piece, 0, (MPI_Aint)PIECE * ranks, &every));
    OK(MPI_Type_commit(&every));
    OK(MPI_Type_free(&piece));
    const char *path = io_path("started");
    static const char *buffering[] = {"automatic", "enable", "disable"};
    for (int i = 0; i < 3; i++)
        several(path, buffering[i]);
    unlike(path);
    by_itself(path);
    wrong(path);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    converted(path);
    OK(MPI_Type_free(&every));
    OK(MPI_Finalize());
    return 0;
}
