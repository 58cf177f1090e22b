/* Leniencies of all libraries of this ABI that programs rely on: names of null handles, detaching without an attached
 * buffer, errors of windows without an error handler, and keys of one character more than the maximum.
 *
 * ranks: 2
 * variants: shm
 */
#include "fails.h"

static void names(void) {
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    OK(MPI_Comm_get_name(MPI_COMM_NULL, name, &length));
    CHECK(strcmp(name, "MPI_COMM_NULL") == 0 && length == 13);
    OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
    CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0 && length == 17);
    OK(MPI_Win_get_name(MPI_WIN_NULL, name, &length));
    CHECK(strcmp(name, "MPI_WIN_NULL") == 0 && length == 12);
    FAILS(MPI_Comm_set_name(MPI_COMM_NULL, "x"), MPI_ERR_COMM);
    FAILS(MPI_Comm_get_name(MPI_COMM_NULL, NULL, &length), MPI_ERR_ARG);
}

static void buffers(void) {
    void *back = &back;
    int size = -1;
    OK(MPI_Buffer_detach(&back, &size));
    CHECK(back == NULL && size == 0);
    OK(MPI_Buffer_flush());
    back = &back, size = -1;
    OK(MPI_Comm_detach_buffer(MPI_COMM_WORLD, &back, &size));
    CHECK(back == NULL && size == 0);
    MPI_Request request;
    OK(MPI_Comm_iflush_buffer(MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int data = 0;
    FAILS(MPI_Bsend(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
}

static void windows(void) {
    int memory = 0;
    MPI_Win win;
    OK(MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Errhandler handler;
    OK(MPI_Win_get_errhandler(win, &handler));
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 99, 0, win), MPI_ERR_RANK);
    OK(MPI_Win_fence(0, win));
    FAILS(MPI_Put(&memory, 1, MPI_INT, 0, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    FAILS(MPI_Put(&memory, 1, MPI_INT, 0, 1, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
}

static void keys(void) {
    struct {
        char key[MPI_MAX_INFO_KEY];
        char behind;
    } found = {.behind = 42};
    char key[MPI_MAX_INFO_KEY + 1];
    memset(key, 'k', sizeof key);
    key[MPI_MAX_INFO_KEY - 1] = '\0';
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, key, "fits"));
    OK(MPI_Info_get_nthkey(info, 0, found.key));
    CHECK(strcmp(found.key, key) == 0);
    OK(MPI_Info_delete(info, key));
    key[MPI_MAX_INFO_KEY - 1] = 'k';
    key[MPI_MAX_INFO_KEY] = '\0';
    OK(MPI_Info_set(info, key, "does not"));
    OK(MPI_Info_get_nthkey(info, 0, found.key));
    CHECK_EQ(strlen(found.key), MPI_MAX_INFO_KEY - 1);
    CHECK_EQ(found.behind, 42);
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    names();
    buffers();
    windows();
    keys();
    OK(MPI_Finalize());
    return 0;
}
