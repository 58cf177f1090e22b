/* What a debugger looks at: a function that is called with the rank, and with an argument ranks that stay where they
 * are until there is a file of that name. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int world_rank;

__attribute__((noinline)) static int work(int number) {
    int result = 40 + number;
    return result;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    printf("rank %d is here\n", world_rank);
    fflush(stdout);
    while (argc > 1 && access(argv[1], F_OK) != 0)
        usleep(10000);
    int result = work(world_rank), sum;
    MPI_Allreduce(&result, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d has %d of %d\n", world_rank, result, sum);
    MPI_Finalize();
    return 0;
}
