/* A process is lost while others wait in persistent collectives and partitioned communication with it: each start of
 * these fails in bounded time, and the others continue together.
 * ranks: 4
 * variants: shm ofi ucx hosts ucx-hosts
 * waits: yes
 * launcher: -disable-auto-cleanup
 * timeout: 30
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: barrier
 * case: allreduce
 * case: alltoall
 * case: several
 * case: receive
 * case: send
 */
#include "check.h"
#include <signal.h>

/* More bytes than pipes within a node have room for: what has room has been sent, whether it is received or not. */
enum { COUNT = 5000, LOST = 2, SEVERAL = 4, BYTES = 8 * 400000 };
static int mine[4 * COUNT], all[4 * COUNT];
static char data[BYTES];

static void must_fail(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    CHECK_EQ(class, MPIX_ERR_PROC_FAILED);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), many = 1, flag;
    const char *what = argv[1];
    MPI_Comm others, world = MPI_COMM_WORLD;
    MPI_Info none = MPI_INFO_NULL;
    MPI_Request requests[SEVERAL];
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split(world, rank == LOST, rank, &others));
    int receives = strcmp(what, "receive") == 0, sends = strcmp(what, "send") == 0;
    if (strcmp(what, "barrier") == 0) {
        OK(MPI_Barrier_init(world, none, &requests[0]));
    } else if (strcmp(what, "allreduce") == 0) {
        OK(MPI_Allreduce_init(mine, all, 10, MPI_INT, MPI_SUM, world, none, &requests[0]));
    } else if (strcmp(what, "alltoall") == 0) {
        OK(MPI_Alltoall_init(mine, COUNT, MPI_INT, all, COUNT, MPI_INT, world, none, &requests[0]));
    } else if (strcmp(what, "several") == 0) {
        for (many = 0; many < SEVERAL; many++) {
            OK(MPI_Allreduce_init(mine, all + 10 * many, 10, MPI_INT, MPI_SUM, world, none, &requests[many]));
        }
    } else if (rank == LOST ? sends : receives) {
        OK(MPI_Precv_init(data, 4, BYTES / 4, MPI_CHAR, rank == LOST ? 0 : LOST, rank == LOST ? 0 : rank, world,
                          none, &requests[0]));
    } else {
        OK(MPI_Psend_init(data, 8, BYTES / 8, MPI_CHAR, rank == LOST ? 0 : LOST, rank == LOST ? 0 : rank, world,
                          none, &requests[0]));
    }
    int marks = rank == LOST ? receives : sends;
    /* Once with all of them; of partitioned, with rank 0. */
    if (!(receives || sends) || rank == LOST || rank == 0) {
        OK(MPI_Startall(many, requests));
        if (marks) {
            OK(MPI_Pready_range(0, 7, requests[0]));
        }
        OK(MPI_Waitall(many, requests, MPI_STATUSES_IGNORE));
    }
    barrier_left_last_by(LOST, world);
    if (rank == LOST) {
        if (receives) {
            OK(MPI_Start(&requests[0]));
            OK(MPI_Pready_range(0, 2, requests[0]));
        }
        nap(0.05); /* the others wait, by then */
        raise(SIGKILL);
    }
    double began = MPI_Wtime();
    for (int round = 0; round < 2; round++) {
        OK(MPI_Startall(many, requests));
        if (sends) {
            OK(MPI_Pready_range(0, 7, requests[0]));
        }
        for (int i = many; i-- > 0;) {
            if (i % 2) {
                int code = MPI_SUCCESS;
                for (flag = 0; !flag && code == MPI_SUCCESS;) {
                    code = MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
                }
                must_fail(code);
            } else {
                must_fail(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
            }
        }
    }
    CHECK(MPI_Wtime() - began < 8);
    for (int i = 0; i < many; i++) {
        OK(MPI_Request_free(&requests[i]));
    }
    /* The others go on together. */
    int sum = 0;
    OK(MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, others, none, &requests[0]));
    OK(MPI_Start(&requests[0]));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    CHECK_EQ(sum, 0 + 1 + 3);
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Comm_free(&others));
    /* After a loss MPI_Finalize waits for nobody, and who leaves first would be one more that is lost. */
    nap(0.5);
    OK(MPI_Finalize());
    return 0;
}
