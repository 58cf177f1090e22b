/* ranks: 2 3
 * cflags: -pthread
 */
/* Several threads open sessions and make communicators of the same group at once, told apart by their
 * strings, in another order on each process (MPI-4.1 sections 7.4.2 and 11.3). */
#include <pthread.h>

#include "fails.h"

#define THREADS 4
#define ROUNDS 10

static void *work(void *argument) {
    int number = *(int *)argument;
    char tag[32];
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
        OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
        int rank, size, got = -1;
        OK(MPI_Group_rank(group, &rank));
        nap((double)((rank * 7 + number * 3 + round) % 5) / 2000);
        snprintf(tag, sizeof tag, "thread %d", number);
        OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
        OK(MPI_Comm_size(comm, &size));
        int mine = number * 1000 + round;
        OK(MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT,
                        (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(got, mine);
        int sum;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, mine * size);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Group_free(&group));
        OK(MPI_Session_finalize(&session));
        FAILS(MPI_Session_get_info(MPI_SESSION_NULL, &info), MPI_ERR_SESSION);
    }
    OK(MPI_Info_free(&info));
    return NULL;
}

int main(void) {
    setenv("WEFT_INITIAL_ERRHANDLER", "mpi_errors_return", 1);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
