/* A request that is complete leaves its number to another thread's before the call that completes it returns: the
 * handle becomes MPI_REQUEST_NULL all the same.
 * ranks: 1
 * variants: shm
 * timeout: 60
 * stdout: all null
 */
#include "check.h"

#include <pthread.h>

enum { WAYS = 8 };

static pthread_barrier_t both;

static int query(void *state, MPI_Status *status) {
    (void)state;
    OK(MPI_Status_set_elements(status, MPI_INT, 0));
    OK(MPI_Status_set_cancelled(status, 0));
    return MPI_SUCCESS;
}

/* Is called when the number is free already. The other thread takes it. */
static int done(void *state) {
    (void)state;
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void *make(void *unused) {
    MPI_Request all[WAYS];
    (void)unused;
    for (int i = 0; i < WAYS; i++) {
        pthread_barrier_wait(&both);
        OK(MPI_Send_init(NULL, 0, MPI_INT, 0, 0, MPI_COMM_SELF, &all[i]));
        pthread_barrier_wait(&both);
    }
    for (int i = 0; i < WAYS; i++) {
        OK(MPI_Request_free(&all[i]));
    }
    return NULL;
}

static void complete(int way, MPI_Request *request) {
    int flag = 0, index = -1, count = 0;
    switch (way) {
    case 0: OK(MPI_Wait(request, MPI_STATUS_IGNORE)); break;
    case 1: OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE)); break;
    case 2: OK(MPI_Waitall(1, request, MPI_STATUSES_IGNORE)); break;
    case 3: OK(MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE)); break;
    case 4: OK(MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE)); break;
    case 5: OK(MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE)); break;
    case 6: OK(MPI_Waitsome(1, request, &count, &index, MPI_STATUSES_IGNORE)); break;
    case 7: OK(MPI_Testsome(1, request, &count, &index, MPI_STATUSES_IGNORE)); break;
    }
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    pthread_t maker;
    CHECK_EQ(pthread_barrier_init(&both, NULL, 2), 0);
    CHECK_EQ(pthread_create(&maker, NULL, make, NULL), 0);
    for (int way = 0; way < WAYS; way++) {
        MPI_Request request;
        OK(MPI_Grequest_start(query, done, cancel, NULL, &request));
        OK(MPI_Grequest_complete(request));
        complete(way, &request);
        CHECK(request == MPI_REQUEST_NULL);
    }
    CHECK_EQ(pthread_join(maker, NULL), 0);
    printf("all null\n");
    OK(MPI_Finalize());
    return 0;
}
