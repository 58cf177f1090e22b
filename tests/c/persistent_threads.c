/* Threads start persistent requests while another completes any of them and a third queries their status (MPI-4.1
 * sections 3.7.5, 3.7.6, 3.9 and 11.6): a request started during a query is complete only after its message has
 * arrived.
 * ranks: 2
 * variants: shm tcp
 * cflags: -pthread
 * timeout: 60
 */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { STARTERS = 3, ROUNDS = 1500, PARTS = 4 };
/* Of each starter a receive, a send, and partitioned ones of both kinds. */
enum { KINDS = 4, ALL = STARTERS * KINDS };
static int rank;
static int in[STARTERS], out[STARTERS], parts_in[STARTERS][PARTS], parts_out[STARTERS][PARTS];
static MPI_Request requests[ALL];
static atomic_int completed[ALL], over;

static void *start(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        /* Handles of one's own: the array is the other thread's. */
        MPI_Request mine[KINDS];
        for (int kind = 0; kind < KINDS; kind++) {
            mine[kind] = requests[me * KINDS + kind];
        }
        in[me] = -1;
        out[me] = round;
        for (int part = 0; part < PARTS; part++) {
            parts_in[me][part] = -1;
            parts_out[me][part] = round;
        }
        for (int kind = 0; kind < KINDS; kind++) {
            OK(MPI_Start(&mine[kind]));
        }
        for (int part = 0; part < PARTS; part++) {
            OK(MPI_Pready(part, mine[3]));
        }
        for (int kind = 0; kind < KINDS; kind++) {
            while (atomic_load(&completed[me * KINDS + kind]) == round) {
                sched_yield();
            }
            CHECK_EQ(atomic_load(&completed[me * KINDS + kind]), round + 1);
        }
    }
    return NULL;
}

static void note(int index) {
    int starter = index / KINDS, round = completed[index];
    if (index % KINDS == 0) {
        CHECK_EQ(in[starter], round);
    }
    if (index % KINDS == 2) {
        for (int part = 0; part < PARTS; part++) {
            CHECK_EQ(parts_in[starter][part], round);
        }
    }
    atomic_store(&completed[index], round + 1);
}

static void *complete(void *argument) {
    MPI_Request all[ALL];
    memcpy(all, requests, sizeof all);
    (void)argument;
    for (int turn = 0, left = ALL * ROUNDS; left > 0; turn++) {
        int count = 0, flag, indices[ALL];
        switch (turn % 4) {
        case 0:
            OK(MPI_Testsome(ALL, all, &count, indices, MPI_STATUSES_IGNORE));
            break;
        case 1:
            OK(MPI_Waitsome(ALL, all, &count, indices, MPI_STATUSES_IGNORE));
            break;
        case 2:
            OK(MPI_Testany(ALL, all, indices, &flag, MPI_STATUS_IGNORE));
            count = flag && indices[0] != MPI_UNDEFINED;
            break;
        case 3:
            OK(MPI_Waitany(ALL, all, indices, MPI_STATUS_IGNORE));
            count = indices[0] != MPI_UNDEFINED;
            break;
        }
        count = count == MPI_UNDEFINED ? 0 : count;
        for (int i = 0; i < count; i++) {
            note(indices[i]);
        }
        left -= count;
        if (count == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void *look(void *argument) {
    (void)argument;
    for (int i = 0; !atomic_load(&over); i++) {
        int flag;
        MPI_Status status;
        OK(MPI_Request_get_status(requests[i % ALL], &flag, &status));
        if (i % ALL % KINDS == 2) {
            OK(MPI_Parrived(requests[i % ALL], i % PARTS, &flag));
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank();
    int other = 1 - rank;
    for (int i = 0; i < STARTERS; i++) {
        MPI_Request *mine = &requests[i * KINDS];
        OK(MPI_Recv_init(&in[i], 1, MPI_INT, other, i, MPI_COMM_WORLD, &mine[0]));
        OK(MPI_Send_init(&out[i], 1, MPI_INT, other, i, MPI_COMM_WORLD, &mine[1]));
        OK(MPI_Precv_init(parts_in[i], PARTS, 1, MPI_INT, other, i, MPI_COMM_WORLD, MPI_INFO_NULL, &mine[2]));
        OK(MPI_Psend_init(parts_out[i], PARTS, 1, MPI_INT, other, i, MPI_COMM_WORLD, MPI_INFO_NULL, &mine[3]));
    }
    pthread_t starters[STARTERS], completer, looker;
    CHECK_EQ(pthread_create(&completer, NULL, complete, NULL), 0);
    CHECK_EQ(pthread_create(&looker, NULL, look, NULL), 0);
    for (intptr_t i = 0; i < STARTERS; i++) {
        CHECK_EQ(pthread_create(&starters[i], NULL, start, (void *)i), 0);
    }
    for (int i = 0; i < STARTERS; i++) {
        CHECK_EQ(pthread_join(starters[i], NULL), 0);
    }
    CHECK_EQ(pthread_join(completer, NULL), 0);
    atomic_store(&over, 1);
    CHECK_EQ(pthread_join(looker, NULL), 0);
    for (int i = 0; i < ALL; i++) {
        OK(MPI_Request_free(&requests[i]));
    }
    OK(MPI_Finalize());
    return 0;
}
