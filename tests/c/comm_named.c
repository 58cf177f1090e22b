/* Communicators that are named and freed again and again leave nothing behind (MPI-4.1 section
 * 7.8: the name belongs to the communicator).
 * ranks: 1 2
 */
#include "check.h"

#include <malloc.h>
#include <string.h>

enum { MANY = 4000 };

static void name_and_free(int count) {
    char name[MPI_MAX_OBJECT_NAME];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < count; i++) {
        MPI_Comm comm;
        OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
        OK(MPI_Comm_set_name(comm, name));
        if (i % 2)
            OK(MPI_Comm_free(&comm));
        else
            OK(MPI_Comm_disconnect(&comm));
    }
}

int main(void) {
    OK(MPI_Init(NULL, NULL));
    name_and_free(100);
    size_t before = mallinfo2().uordblks;
    name_and_free(MANY);
    size_t after = mallinfo2().uordblks;
    /* A fourth of what the names alone take. */
    CHECK(after < before + MANY * MPI_MAX_OBJECT_NAME / 4);
    OK(MPI_Finalize());
    return 0;
}
