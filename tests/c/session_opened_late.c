/* A thread opens a session while another is in MPI_Finalize already; the messages that it sends are received after that
 * (MPI-4.1 sections 11.2.2 and 11.3). A port that it opens stays open.
 * ranks: 2
 * variants: shm tcp
 * timeout: 60
 * stdout: received
 */
#include "fails.h"

#include <pthread.h>

/* More than a receiver keeps for later. */
#define COUNT 40000
#define LENGTH 250

static int data[COUNT][LENGTH];

static MPI_Comm of_all(MPI_Session session) {
    MPI_Group group;
    MPI_Comm comm;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "late", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    OK(MPI_Group_free(&group));
    return comm;
}

static MPI_Session opened(void) {
    MPI_Info info;
    MPI_Session session;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"));
    OK(MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Info_free(&info));
    return session;
}

static void *late(void *unused) {
    char port[MPI_MAX_PORT_NAME];
    static MPI_Request requests[COUNT];
    (void)unused;
    /* The other thread waits for rank 1 by now. */
    usleep(300000);
    MPI_Session session = opened();
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    MPI_Comm comm = of_all(session);
    for (int i = 0; i < COUNT; i++) {
        data[i][0] = i;
        OK(MPI_Isend(data[i], LENGTH, MPI_INT, 1, 0, comm, &requests[i]));
    }
    OK(MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Close_port(port));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Session_finalize(&session));
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    if (world_rank() == 0) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, late, NULL), 0);
        OK(MPI_Finalize());
        CHECK_EQ(pthread_join(thread, NULL), 0);
        return 0;
    }
    MPI_Session session = opened();
    MPI_Comm comm = of_all(session);
    OK(MPI_Finalize());
    for (int i = 0; i < COUNT; i++) {
        OK(MPI_Recv(data[0], LENGTH, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(data[0][0], i);
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Session_finalize(&session));
    printf("received\n");
    return 0;
}
