/* Threads that move the individual file pointer of one file concurrently, by relative seeks and by accesses, as if in
 * some serial order (MPI-4.1 sections 11.6.1 and 14.4.2).
 * ranks: 1
 * local: file pointers
 * cflags: -pthread
 * timeout: 60
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20000 };
static MPI_File file;

static void *move(void *argument) {
    char byte = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (argument) {
            OK(MPI_File_seek(file, 1, MPI_SEEK_CUR));
        } else {
            OK(MPI_File_write(file, &byte, 1, MPI_CHAR, MPI_STATUS_IGNORE));
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t threads[THREADS];
    char name[] = "/tmp/weft-seek-XXXXXX";
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    int made = mkstemp(name);
    CHECK(made >= 0);
    close(made);
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    for (intptr_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, move, (void *)(i % 2)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    MPI_Offset offset;
    OK(MPI_File_get_position(file, &offset));
    CHECK_EQ(offset, THREADS * ROUNDS);
    OK(MPI_File_close(&file));
    OK(MPI_Finalize());
    return 0;
}
