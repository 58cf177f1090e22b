/* Error handlers of files, and what the system refuses: a full device, a limit, a read-only file system, a
 * file that is gone meanwhile (MPI-3.1 section 13.7).
 * ranks: 1 4
 * local: error handlers of files
 */
#include "io.h"
#include <signal.h>
#include <sys/resource.h>

static int calls;
static MPI_File last;

static void handler(MPI_File *file, int *code, ...) {
    (void)code;
    calls++;
    last = *file;
}

static void handlers(const char *path) {
    MPI_Errhandler mine, got;
    MPI_File file, other;
    char byte = 0;
    OK(MPI_File_create_errhandler(handler, &mine));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    OK(MPI_File_get_errhandler(file, &got));
    CHECK_EQ(got, MPI_ERRORS_RETURN);
    OK(MPI_File_set_errhandler(file, mine));
    FAILS(MPI_File_write_at(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CHECK(calls == 1 && last == file);
    OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    CHECK_EQ(calls, 2);
    /* The default one's is another, which new files inherit. */
    FAILS(MPI_File_open(MPI_COMM_WORLD, "", MPI_MODE_RDWR, MPI_INFO_NULL, &other), MPI_ERR_NO_SUCH_FILE);
    CHECK_EQ(calls, 2);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    FAILS(MPI_File_open(MPI_COMM_WORLD, "", MPI_MODE_RDWR, MPI_INFO_NULL, &other), MPI_ERR_NO_SUCH_FILE);
    CHECK(calls == 3 && last == MPI_FILE_NULL);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &other));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    FAILS(MPI_File_write_at(other, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    CHECK(calls == 4 && last == other);
    OK(MPI_File_close(&other));
    OK(MPI_Errhandler_free(&mine));
    /* Handles of Fortran. */
    MPI_Fint number = MPI_File_c2f(file);
    CHECK(MPI_File_f2c(number) == file);
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    OK(MPI_File_close(&file));
}

static void full(int rank, int ranks) {
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    enum { LEN = 1 << 16 };
    static char data[LEN];
    char text[MPI_MAX_ERROR_STRING];
    int len;
    OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    int code = MPI_File_write_at(file, 0, data, LEN, MPI_BYTE, &status);
    CHECK_EQ(class_of(code), MPI_ERR_NO_SPACE);
    OK(MPI_Error_string(code, text, &len));
    CHECK(strstr(text, "/dev/full") != NULL);
    /* A request tells it when it is waited for, and the file's handler counts. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_File_iwrite_at(file, 0, data, LEN, MPI_BYTE, &request));
    FAILS(MPI_Wait(&request, &status), MPI_ERR_NO_SPACE);
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_File_close(&file));
    /* In two phases all ranks are told, also those whose data had place. */
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_Info_set(info, "cb_nodes", "1"));
    OK(MPI_Info_set(info, "cb_buffer_size", "10000"));
    OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, info, &file));
    OK(MPI_Info_free(&info));
    MPI_Offset at = (MPI_Offset)rank * LEN;
    if (ranks > 1) {
        FAILS(MPI_File_write_at_all(file, at, data, rank ? LEN : 0, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
        OK(MPI_File_write_at_all_begin(file, at, data, LEN, MPI_BYTE));
        FAILS(MPI_File_write_at_all_end(file, data, &status), MPI_ERR_NO_SPACE);
        FAILS(MPI_File_write_ordered(file, data, LEN, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
    }
    OK(MPI_File_close(&file));
}

/* A write that the system cuts short goes on, and what does not fit is an error. */
static void limited(const char *path, int rank) {
    MPI_File file;
    MPI_Status status;
    struct rlimit before, limit = {100000, RLIM_INFINITY};
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    enum { LEN = 70000 };
    static char data[LEN];
    memset(data, 'a' + rank, LEN);
    OK(MPI_File_write_at(file, 0, data, LEN, MPI_BYTE, &status));
    FAILS(MPI_File_write_at(file, LEN, data, LEN, MPI_BYTE, &status), MPI_ERR_IO);
    FAILS(MPI_File_set_size(file, 200000), MPI_ERR_IO);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    static char back[LEN];
    OK(MPI_File_read_at(file, 0, back, LEN, MPI_BYTE, &status));
    CHECK(memcmp(data, back, LEN) == 0);
    /* The name goes, the open file stays; deleting it again is an error. */
    CHECK(unlink(path) == 0);
    OK(MPI_File_write_at(file, LEN, data, LEN, MPI_BYTE, &status));
    OK(MPI_File_read_at(file, LEN, back, LEN, MPI_BYTE, &status));
    CHECK_EQ(io_count(&status, MPI_BYTE), LEN);
    OK(MPI_File_close(&file));
    FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    /* It is gone, as it is to be; what can't be deleted is an error. */
    CHECK(unlink(path) == 0);
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    MPI_File copy = file;
    int code = MPI_File_close(&file);
    CHECK(code != MPI_SUCCESS && file == MPI_FILE_NULL);
    CHECK(rmdir(path) == 0);
    FAILS(MPI_File_close(&copy), MPI_ERR_FILE); /* it is closed all the same */
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int rank = world_rank(), ranks = world_size();
    const char *path = io_path("errors");
    handlers(path);
    full(rank, ranks);
    char own[300];
    snprintf(own, sizeof own, "%s-%d", path, rank);
    limited(own, rank);
    MPI_File file;
    /* A program that runs can't be written; without rights that is another error. */
    int code = MPI_File_open(MPI_COMM_SELF, argv[0], MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_FILE_IN_USE || class_of(code) == MPI_ERR_ACCESS);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    OK(MPI_Finalize());
    return 0;
}
