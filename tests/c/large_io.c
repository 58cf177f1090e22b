/* Access to files with large counts (MPI-4.0 chapter 14): every function reads or writes what its form with ints does,
 * rejects invalid counts, and passes large counts to a data representation's functions.
 *
 * ranks: 1 2
 * timeout: 30
 */
#include "io.h"

#define HUGE_COUNT ((MPI_Count)1 << 62)
#define MANY ((MPI_Count)5000000000)
enum { N = 5 };

static int rank, size;
static MPI_File fh;
static int data[N], got[N];
static MPI_Status status;
static MPI_Request request;

static void check_count(int count) {
    MPI_Count large;
    OK(MPI_Get_count_c(&status, MPI_INT, &large));
    CHECK_EQ(large, count);
}

/* What was written is read, and the file is behind it. */
static void check_got(int from) {
    check_count(N);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(got[i], from * 100 + i);
    }
    memset(got, -1, sizeof got);
}

static void finish(void) {
    OK(MPI_Wait(&request, &status));
}

#define REFUSED(function, ...)                                                                     \
    do {                                                                                           \
        MPI_Count counts[] = {-1, -MANY, HUGE_COUNT};                                              \
        for (int c = 0; c < 3; c++) {                                                              \
            MPI_Count count = counts[c];                                                           \
            FAILS(function(__VA_ARGS__), MPI_ERR_COUNT);                                           \
        }                                                                                          \
    } while (0)

static void explicit_offsets(void) {
    MPI_Offset at = rank * (MPI_Offset)sizeof data;
    OK(MPI_File_write_at_c(fh, at, data, N, MPI_INT, &status));
    check_count(N);
    OK(MPI_File_read_at_c(fh, at, got, N, MPI_INT, &status));
    check_got(rank);
    OK(MPI_File_write_at_all_c(fh, at, data, N, MPI_INT, &status));
    OK(MPI_File_read_at_all_c(fh, at, got, N, MPI_INT, &status));
    check_got(rank);
    OK(MPI_File_iwrite_at_c(fh, at, data, N, MPI_INT, &request));
    finish();
    OK(MPI_File_iread_at_c(fh, at, got, N, MPI_INT, &request));
    finish();
    check_got(rank);
    OK(MPI_File_iwrite_at_all_c(fh, at, data, N, MPI_INT, &request));
    finish();
    OK(MPI_File_iread_at_all_c(fh, at, got, N, MPI_INT, &request));
    finish();
    check_got(rank);
    OK(MPI_File_write_at_all_begin_c(fh, at, data, N, MPI_INT));
    OK(MPI_File_write_at_all_end(fh, data, &status));
    OK(MPI_File_read_at_all_begin_c(fh, at, got, N, MPI_INT));
    OK(MPI_File_read_at_all_end(fh, got, &status));
    check_got(rank);
    REFUSED(MPI_File_write_at_c, fh, at, data, count, MPI_INT, &status);
    REFUSED(MPI_File_read_at_c, fh, at, got, count, MPI_INT, &status);
    REFUSED(MPI_File_write_at_all_c, fh, at, data, count, MPI_INT, &status);
    REFUSED(MPI_File_read_at_all_c, fh, at, got, count, MPI_INT, &status);
    REFUSED(MPI_File_iwrite_at_c, fh, at, data, count, MPI_INT, &request);
    REFUSED(MPI_File_iread_at_c, fh, at, got, count, MPI_INT, &request);
}

static void rewind_all(void) {
    OK(MPI_File_sync(fh));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek(fh, rank * (MPI_Offset)sizeof data, MPI_SEEK_SET));
}

static void own_pointers(void) {
    rewind_all();
    OK(MPI_File_write_c(fh, data, N, MPI_INT, &status));
    rewind_all();
    OK(MPI_File_read_c(fh, got, N, MPI_INT, &status));
    check_got(rank);
    rewind_all();
    OK(MPI_File_write_all_c(fh, data, N, MPI_INT, &status));
    rewind_all();
    OK(MPI_File_read_all_c(fh, got, N, MPI_INT, &status));
    check_got(rank);
    rewind_all();
    OK(MPI_File_iwrite_c(fh, data, N, MPI_INT, &request));
    finish();
    rewind_all();
    OK(MPI_File_iread_c(fh, got, N, MPI_INT, &request));
    finish();
    check_got(rank);
    rewind_all();
    OK(MPI_File_iwrite_all_c(fh, data, N, MPI_INT, &request));
    finish();
    rewind_all();
    OK(MPI_File_iread_all_c(fh, got, N, MPI_INT, &request));
    finish();
    check_got(rank);
    rewind_all();
    OK(MPI_File_write_all_begin_c(fh, data, N, MPI_INT));
    OK(MPI_File_write_all_end(fh, data, &status));
    rewind_all();
    OK(MPI_File_read_all_begin_c(fh, got, N, MPI_INT));
    OK(MPI_File_read_all_end(fh, got, &status));
    check_got(rank);
    REFUSED(MPI_File_write_c, fh, data, count, MPI_INT, &status);
    REFUSED(MPI_File_read_c, fh, got, count, MPI_INT, &status);
    REFUSED(MPI_File_iwrite_c, fh, data, count, MPI_INT, &request);
    REFUSED(MPI_File_iread_c, fh, got, count, MPI_INT, &request);
    REFUSED(MPI_File_write_all_c, fh, data, count, MPI_INT, &status);
    REFUSED(MPI_File_read_all_c, fh, got, count, MPI_INT, &status);
}

static void rewind_shared(void) {
    OK(MPI_File_sync(fh));
    OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void shared_pointer(void) {
    rewind_shared();
    OK(MPI_File_write_ordered_c(fh, data, N, MPI_INT, &status));
    rewind_shared();
    OK(MPI_File_read_ordered_c(fh, got, N, MPI_INT, &status));
    check_got(rank);
    rewind_shared();
    OK(MPI_File_write_ordered_begin_c(fh, data, N, MPI_INT));
    OK(MPI_File_write_ordered_end(fh, data, &status));
    rewind_shared();
    OK(MPI_File_read_ordered_begin_c(fh, got, N, MPI_INT));
    OK(MPI_File_read_ordered_end(fh, got, &status));
    check_got(rank);
    rewind_shared();
    for (int turn = 0; turn < size; turn++) {
        if (turn == rank) {
            OK(MPI_File_write_shared_c(fh, data, N, MPI_INT, &status));
            check_count(N);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    rewind_shared();
    for (int turn = 0; turn < size; turn++) {
        if (turn == rank) {
            OK(MPI_File_read_shared_c(fh, got, N, MPI_INT, &status));
            check_got(rank);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    rewind_shared();
    for (int turn = 0; turn < size; turn++) {
        if (turn == rank) {
            OK(MPI_File_iwrite_shared_c(fh, data, N, MPI_INT, &request));
            finish();
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    rewind_shared();
    for (int turn = 0; turn < size; turn++) {
        if (turn == rank) {
            OK(MPI_File_iread_shared_c(fh, got, N, MPI_INT, &request));
            finish();
            check_got(rank);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    REFUSED(MPI_File_write_shared_c, fh, data, count, MPI_INT, &status);
    REFUSED(MPI_File_read_shared_c, fh, got, count, MPI_INT, &status);
    REFUSED(MPI_File_iwrite_shared_c, fh, data, count, MPI_INT, &request);
    REFUSED(MPI_File_iread_shared_c, fh, got, count, MPI_INT, &request);
    REFUSED(MPI_File_write_ordered_c, fh, data, count, MPI_INT, &status);
    REFUSED(MPI_File_read_ordered_c, fh, got, count, MPI_INT, &status);
}

/* Integers that are one larger in the file. */
static MPI_Count told;

static int convert(void *user, MPI_Datatype type, MPI_Count count, void *file, MPI_Offset at,
                   void *state) {
    int *here = user, *there = file;
    CHECK_EQ(type, MPI_INT);
    CHECK(state == &told);
    for (MPI_Count i = 0; i < count; i++) {
        there[i] = here[at + i] + 1;
    }
    told += count;
    return MPI_SUCCESS;
}

static int convert_back(void *user, MPI_Datatype type, MPI_Count count, void *file, MPI_Offset at,
                        void *state) {
    int *here = user, *there = file;
    (void)type, (void)state;
    for (MPI_Count i = 0; i < count; i++) {
        here[at + i] = there[i] - 1;
    }
    return MPI_SUCCESS;
}

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *state) {
    int length;
    (void)state;
    OK(MPI_Type_size(type, &length));
    *bytes = length;
    return MPI_SUCCESS;
}

static void representation(const char *path) {
    int raw;
    MPI_Count bytes;
    OK(MPI_Register_datarep_c("one more", convert_back, convert, extent, &told));
    FAILS(MPI_Register_datarep_c("one more", convert_back, convert, extent, &told),
          MPI_ERR_DUP_DATAREP);
    FAILS(MPI_Register_datarep_c("native", NULL, NULL, extent, NULL), MPI_ERR_DUP_DATAREP);
    FAILS(MPI_Register_datarep_c("other", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C, NULL,
                                 NULL),
          MPI_ERR_ARG);
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "one more", MPI_INFO_NULL));
    OK(MPI_File_write_at_all_c(fh, rank * N, data, N, MPI_INT, &status));
    CHECK(told >= N);
    OK(MPI_File_read_at_all_c(fh, rank * N, got, N, MPI_INT, &status));
    check_got(rank);
    OK(MPI_File_get_type_extent_c(fh, MPI_INT, &bytes));
    CHECK_EQ(bytes, sizeof(int));
    FAILS(MPI_File_get_type_extent_c(fh, MPI_INT, NULL), MPI_ERR_ARG);
    OK(MPI_File_sync(fh));
    CHECK_EQ(io_slurp(path, &raw, sizeof raw, rank * (off_t)sizeof data), sizeof raw);
    CHECK_EQ(raw, data[0] + 1);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    for (int i = 0; i < N; i++) {
        data[i] = rank * 100 + i;
    }
    const char *path = io_path("large");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &fh));
    OK(MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN));
    explicit_offsets();
    own_pointers();
    shared_pointer();
    representation(path);
    OK(MPI_File_close(&fh));
    FAILS(MPI_File_read_c(MPI_FILE_NULL, got, 1, MPI_INT, &status), MPI_ERR_FILE);
    OK(MPI_Finalize());
    return 0;
}
