/* Every function that reads, writes or moves a pointer, used rightly and wrongly (MPI-3.1 section 13.4).
 * ranks: 1 4
 */
#include "io.h"

static MPI_File file;
static int rank, ranks;

/* As rank `who` wrote it with this number. */
static int value(int who, int number, int index) {
    return who * 1000000 + number * 1000 + index;
}

enum { N = 10 };
static int out[N], in[N];

static void prepare(int number) {
    for (int i = 0; i < N; i++) {
        out[i] = value(rank, number, i);
        in[i] = -1;
    }
}

static void compare(MPI_Status *status, int number) {
    CHECK_EQ(io_count(status, MPI_INT), N);
    for (int i = 0; i < N; i++)
        CHECK_EQ(in[i], value(rank, number, i));
}

static void explicit(void) {
    MPI_Status status;
    MPI_Offset at = (MPI_Offset)rank * N;
    prepare(1);
    OK(MPI_File_write_at(file, at, out, N, MPI_INT, &status));
    CHECK_EQ(io_count(&status, MPI_INT), N);
    OK(MPI_File_read_at(file, at, in, N, MPI_INT, &status));
    compare(&status, 1);
    prepare(2);
    OK(MPI_File_write_at_all(file, at, out, N, MPI_INT, &status));
    CHECK_EQ(io_count(&status, MPI_INT), N);
    OK(MPI_File_read_at_all(file, at, in, N, MPI_INT, &status));
    compare(&status, 2);
    /* Neither data nor a status is fine. */
    OK(MPI_File_write_at(file, 1, NULL, 0, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, 1, NULL, 0, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Datatype raw;
    OK(MPI_Type_contiguous(2, MPI_INT, &raw));
    FAILS(MPI_File_write_at(file, -1, out, N, MPI_INT, &status), MPI_ERR_ARG);
    FAILS(MPI_File_read_at(file, -5, in, N, MPI_INT, &status), MPI_ERR_ARG);
    FAILS(MPI_File_write_at(file, 0, out, -1, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_write_at(file, 0, NULL, 1, MPI_INT, &status), MPI_ERR_BUFFER);
    FAILS(MPI_File_write_at(file, 0, out, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE);
    FAILS(MPI_File_read_at(file, 0, in, 1, raw, &status), MPI_ERR_TYPE);
    FAILS(MPI_File_read_at(file, 0, in, 3, MPI_BYTE, &status), MPI_ERR_TYPE); /* part of an etype */
    FAILS(MPI_File_write_at(MPI_FILE_NULL, 0, out, N, MPI_INT, &status), MPI_ERR_FILE);
    FAILS(MPI_File_write_at((MPI_File)&status, 0, out, N, MPI_INT, &status), MPI_ERR_FILE);
    FAILS(MPI_File_write_at(file, INT64_MAX, out, N, MPI_INT, &status), MPI_ERR_ARG);
    OK(MPI_Type_free(&raw));
    /* In a collective call the others find out, too, and don't wait. */
    int last = rank == ranks - 1;
    FAILS(MPI_File_write_at_all(file, 0, out, last ? -1 : N, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_read_at_all(file, last ? -1 : 0, in, N, MPI_INT, &status), MPI_ERR_ARG);
}

static void individual(void) {
    MPI_Status status;
    MPI_Offset at = (MPI_Offset)rank * N, told;
    prepare(3);
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_write(file, out, N, MPI_INT, &status));
    OK(MPI_File_get_position(file, &told));
    CHECK_EQ(told, at + N);
    OK(MPI_File_seek(file, -N, MPI_SEEK_CUR));
    OK(MPI_File_read(file, in, N, MPI_INT, &status));
    compare(&status, 3);
    prepare(4);
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_write_all(file, out, N, MPI_INT, &status));
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_read_all(file, in, N, MPI_INT, &status));
    compare(&status, 4);
    /* At the end a read has nothing, and the pointer stays. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &told));
    CHECK_EQ(told, (MPI_Offset)ranks * N);
    OK(MPI_File_seek(file, -2, MPI_SEEK_END));
    OK(MPI_File_read(file, in, N, MPI_INT, &status));
    CHECK_EQ(io_count(&status, MPI_INT), 2);
    OK(MPI_File_read(file, in, N, MPI_INT, &status));
    CHECK_EQ(io_count(&status, MPI_INT), 0);
    OK(MPI_File_get_position(file, &told));
    CHECK_EQ(told, (MPI_Offset)ranks * N);
    FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    FAILS(MPI_File_seek(file, 0, 7), MPI_ERR_ARG);
    FAILS(MPI_File_seek(MPI_FILE_NULL, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    FAILS(MPI_File_get_position(file, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_read(file, in, -1, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_write(file, NULL, 1, MPI_INT, &status), MPI_ERR_BUFFER);
    int last = rank == ranks - 1;
    FAILS(MPI_File_write_all(file, out, N, last ? MPI_DATATYPE_NULL : MPI_INT, &status), MPI_ERR_TYPE);
    FAILS(MPI_File_read_all(file, last ? NULL : in, N, MPI_INT, &status), MPI_ERR_BUFFER);
    OK(MPI_File_get_byte_offset(file, 3, &told));
    CHECK_EQ(told, 12);
    FAILS(MPI_File_get_byte_offset(file, -1, &told), MPI_ERR_ARG);
    FAILS(MPI_File_get_byte_offset(file, 1, NULL), MPI_ERR_ARG);
}

static void nonblocking(void) {
    MPI_Status status;
    MPI_Request request = MPI_REQUEST_NULL, both[2];
    MPI_Offset at = (MPI_Offset)rank * N;
    int flag = 0;
    prepare(5);
    OK(MPI_File_iwrite_at(file, at, out, N, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_EQ(io_count(&status, MPI_INT), N);
    OK(MPI_File_iread_at(file, at, in, N, MPI_INT, &request));
    while (!flag)
        OK(MPI_Test(&request, &flag, &status));
    compare(&status, 5);
    prepare(6);
    OK(MPI_File_iwrite_at_all(file, at, out, N, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_File_iread_at_all(file, at, in, N, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    compare(&status, 6);
    prepare(7);
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_iwrite(file, out, N / 2, MPI_INT, &both[0]));
    OK(MPI_File_iwrite(file, out + N / 2, N - N / 2, MPI_INT, &both[1]));
    OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_iread(file, in, N, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    compare(&status, 7);
    prepare(8);
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_iwrite_all(file, out, N, MPI_INT, &request));
    OK(MPI_Waitany(1, &request, &flag, &status));
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_iread_all(file, in, N, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    compare(&status, 8);
    /* Many at once. */
    enum { MANY = 200 };
    static int many[MANY], back[MANY];
    MPI_Request requests[MANY];
    for (int i = 0; i < MANY; i++) {
        many[i] = value(rank, 9, i);
        OK(MPI_File_iwrite_at(file, 1000 + (MPI_Offset)rank * MANY + i, &many[i], 1, MPI_INT, &requests[i]));
    }
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++)
        OK(MPI_File_iread_at(file, 1000 + (MPI_Offset)rank * MANY + i, &back[i], 1, MPI_INT, &requests[i]));
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    CHECK(memcmp(many, back, sizeof many) == 0);
    FAILS(MPI_File_iwrite_at(file, -1, out, N, MPI_INT, &request), MPI_ERR_ARG);
    FAILS(MPI_File_iread_at(file, 0, in, -1, MPI_INT, &request), MPI_ERR_COUNT);
    FAILS(MPI_File_iwrite_at_all(file, 0, NULL, 1, MPI_INT, &request), MPI_ERR_BUFFER);
    FAILS(MPI_File_iread_at_all(file, 0, in, 1, MPI_INT, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_iwrite(file, out, 1, MPI_DATATYPE_NULL, &request), MPI_ERR_TYPE);
    FAILS(MPI_File_iread(MPI_FILE_NULL, in, 1, MPI_INT, &request), MPI_ERR_FILE);
    FAILS(MPI_File_iwrite_all(file, out, -2, MPI_INT, &request), MPI_ERR_COUNT);
    FAILS(MPI_File_iread_all(file, NULL, 2, MPI_INT, &request), MPI_ERR_BUFFER);
    OK(MPI_File_iread_at(file, 0, in, 1, MPI_INT, &request));
    int code = MPI_Cancel(&request);
    CHECK(code == MPI_SUCCESS || class_of(code) == MPI_ERR_REQUEST); /* complete, or not to be cancelled */
    OK(MPI_Wait(&request, &status));
}

static void split(void) {
    MPI_Status status;
    MPI_Offset at = (MPI_Offset)rank * N;
    prepare(10);
    OK(MPI_File_write_at_all_begin(file, at, out, N, MPI_INT));
    /* One at a time, ended by its own function with its own buffer. */
    FAILS(MPI_File_write_all_begin(file, out, N, MPI_INT), MPI_ERR_IO);
    FAILS(MPI_File_write_all(file, out, N, MPI_INT, &status), MPI_ERR_IO);
    FAILS(MPI_File_close(&file), MPI_ERR_OTHER);
    FAILS(MPI_File_write_all_end(file, out, &status), MPI_ERR_IO);
    FAILS(MPI_File_write_at_all_end(file, in, &status), MPI_ERR_BUFFER);
    OK(MPI_File_write_at_all_end(file, out, &status));
    CHECK_EQ(io_count(&status, MPI_INT), N);
    OK(MPI_File_read_at_all_begin(file, at, in, N, MPI_INT));
    OK(MPI_File_read_at_all_end(file, in, &status));
    compare(&status, 10);
    prepare(11);
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_write_all_begin(file, out, N, MPI_INT));
    OK(MPI_File_write_all_end(file, out, &status));
    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    OK(MPI_File_read_all_begin(file, in, N, MPI_INT));
    FAILS(MPI_File_read_at_all_end(file, in, &status), MPI_ERR_IO);
    OK(MPI_File_read_all_end(file, in, &status));
    compare(&status, 11);
    FAILS(MPI_File_read_all_end(file, in, &status), MPI_ERR_IO);
    FAILS(MPI_File_read_ordered_end(file, in, &status), MPI_ERR_IO);
    FAILS(MPI_File_write_ordered_end(file, in, &status), MPI_ERR_IO);
    FAILS(MPI_File_write_at_all_end(file, in, &status), MPI_ERR_IO);
    FAILS(MPI_File_write_at_all_begin(file, -1, out, N, MPI_INT), MPI_ERR_ARG);
    FAILS(MPI_File_read_at_all_begin(file, 0, in, -1, MPI_INT), MPI_ERR_COUNT);
    FAILS(MPI_File_write_all_begin(file, NULL, N, MPI_INT), MPI_ERR_BUFFER);
    FAILS(MPI_File_read_all_begin(file, in, N, MPI_DATATYPE_NULL), MPI_ERR_TYPE);
}

static void atomicity(void) {
    int flag = -1;
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK_EQ(flag, 0);
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK_EQ(flag, 1);
    FAILS(MPI_File_get_atomicity(file, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_set_atomicity(MPI_FILE_NULL, 1), MPI_ERR_FILE);
    if (ranks > 1) {
        FAILS(MPI_File_set_atomicity(file, rank == 0), MPI_ERR_NOT_SAME);
    }
    /* All write the same place; whoever reads finds one rank's data, unmixed. */
    enum { LONG = 100000 };
    static int same[LONG];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < LONG; i++)
            same[i] = rank;
        OK(MPI_File_write_at(file, 0, same, LONG, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(file, 0, same, LONG, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 1; i < LONG; i++)
            CHECK_EQ(same[i], same[0]);
        OK(MPI_File_write_at_all(file, 0, same, LONG, MPI_INT, MPI_STATUS_IGNORE));
    }
    OK(MPI_File_set_atomicity(file, 0));
}

static void sequential(const char *path) {
    MPI_File one;
    MPI_Offset at;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE,
                     MPI_INFO_NULL, &one));
    OK(MPI_File_write_shared(one, out, 1, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_File_write(one, out, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_write_at(one, 0, out, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_seek(one, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_seek_shared(one, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_get_position(one, &at), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_get_position_shared(one, &at), MPI_ERR_UNSUPPORTED_OPERATION);
    /* The one that is allowed (MPI-3.1 section 13.4.3). */
    OK(MPI_File_get_byte_offset(one, 3, &at));
    CHECK_EQ(at, 3);
    FAILS(MPI_File_set_size(one, 0), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_set_view(one, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    OK(MPI_File_set_view(one, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_Datatype etype, filetype;
    char name[MPI_MAX_DATAREP_STRING];
    OK(MPI_File_get_view(one, &at, &etype, &filetype, name));
    CHECK_EQ(at, 4 * ranks);
    OK(MPI_File_close(&one));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    rank = world_rank();
    ranks = world_size();
    const char *path = io_path("access");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    explicit();
    individual();
    nonblocking();
    split();
    atomicity();
    sequential(path);
    OK(MPI_File_close(&file));
    CHECK(!io_exists(path));
    OK(MPI_Finalize());
    return 0;
}
