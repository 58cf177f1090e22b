/* Calls of few handles, many times: `handles KIND ROUNDS`, by a single process. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const char *kind = argc > 2 ? argv[1] : "";
    int rounds = argc > 2 ? atoi(argv[2]) : 0, rank;
    long one = 1, other, *base;
    MPI_Request sent, received;
    MPI_Win win;
    MPI_Win_allocate(sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < rounds; i++) {
        if (strcmp(kind, "rank") == 0) {
            MPI_Comm_rank(MPI_COMM_SELF, &rank);
        } else if (strcmp(kind, "wait") == 0) {
            sent = MPI_REQUEST_NULL;
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
        } else if (strcmp(kind, "put") == 0) {
            MPI_Put(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        } else {
            MPI_Irecv(&other, 1, MPI_LONG, 0, 1, MPI_COMM_SELF, &received);
            MPI_Isend(&one, 1, MPI_LONG, 0, 1, MPI_COMM_SELF, &sent);
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
            MPI_Wait(&received, MPI_STATUS_IGNORE);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
