/* As loss_collective, in collectives that go by writes over a network: with a member lost they end with an error,
 * also where pieces of long data are under way.
 * ranks: 4
 * variants: tcp ofi
 * waits: yes
 * launcher: -disable-auto-cleanup
 * env: WEFT_SHM=0
 * env: WEFT_COLL=bcast=rdma,reduce=rdma,allreduce=rdma,allgather=rdma,alltoall=rdma
 * timeout: 20
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: bcast
 * case: reduce
 * case: allreduce
 * case: allgather
 * case: alltoall
 */
#include "check.h"
#include <signal.h>

enum { COUNT = 200000, ROOT = 2 };
static int mine[4 * COUNT], all[4 * COUNT];

static int call(const char *which, MPI_Comm comm) {
    if (strcmp(which, "bcast") == 0)
        return MPI_Bcast(all, COUNT, MPI_INT, ROOT, comm);
    if (strcmp(which, "reduce") == 0)
        return MPI_Reduce(mine, all, COUNT, MPI_INT, MPI_SUM, 1, comm);
    if (strcmp(which, "allreduce") == 0)
        return MPI_Allreduce(mine, all, COUNT, MPI_INT, MPI_SUM, comm);
    if (strcmp(which, "allgather") == 0)
        return MPI_Allgather(mine, COUNT, MPI_INT, all, COUNT, MPI_INT, comm);
    return MPI_Alltoall(mine, 2000, MPI_INT, all, 2000, MPI_INT, comm);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), code = MPI_SUCCESS, class, sum = 0;
    MPI_Comm others;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &others));
    for (int i = 0; i < 5; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++)
        OK(call(argv[1], MPI_COMM_WORLD));
    barrier_left_last_by(2, MPI_COMM_WORLD);
    if (rank == 2) {
        nap(0.05); /* the others wait, by then */
        raise(SIGKILL);
    }
    double began = MPI_Wtime();
    /* A rank that gives only may be through with several. */
    for (int i = 0; i < 100 && code == MPI_SUCCESS; i++)
        code = call(argv[1], MPI_COMM_WORLD);
    OK(MPI_Error_class(code, &class));
    CHECK_EQ(class, MPIX_ERR_PROC_FAILED);
    CHECK(MPI_Wtime() - began < 8);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, others));
    CHECK_EQ(sum, 0 + 1 + 3);
    OK(MPI_Comm_free(&others));
    OK(MPI_Finalize());
    return 0;
}
