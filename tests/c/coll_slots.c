/* Collectives in slots: more communicators than get slots, roots in rotation with a late rank, lengths on
 * both sides of every limit.
 *
 * ranks: 2 4 5
 * variants: shm shm-2copy
 */
#define _DEFAULT_SOURCE
#include "coll.h"
#include <unistd.h>

static const int lengths[] = {0, 1, 12, 13, 1000, 8192, 8193, 40000, 300001};
static int data[300001], sums[300001], all[5 * 300001];

static void round_of(MPI_Comm comm, int number)
{
    int rank, size;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    int n = lengths[number % 9], root = number % size;
    for (int i = 0; i < n; i++)
        data[i] = rank == root ? i + number : -1;
    OK(MPI_Bcast(data, n, MPI_INT, root, comm));
    for (int i = 0; i < n; i++)
        CHECK(data[i] == i + number, "bcast %d: [%d] is %d", n, i, data[i]);
    for (int i = 0; i < n; i++)
        data[i] = i + rank;
    OK(MPI_Allreduce(data, sums, n, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < n; i++)
        CHECK(sums[i] == size * i + size * (size - 1) / 2, "sum %d: [%d] is %d", n, i, sums[i]);
    OK(MPI_Allgather(data, n, MPI_INT, all, n, MPI_INT, comm));
    for (int from = 0; from < size; from++)
        for (int i = 0; i < n; i++)
            CHECK(all[from * n + i] == i + from, "block %d of %d: [%d]", from, n, i);
    OK(MPI_Barrier(comm));
}

int main(void)
{
    int rank;
    OK(MPI_Init(NULL, NULL));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    for (int number = 0; number < 45; number++) {
        if (rank == number % 3)
            usleep(200);
        round_of(MPI_COMM_WORLD, number);
    }
    enum { MANY = 70 };
    MPI_Comm comms[MANY];
    for (int i = 0; i < MANY; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int number = 0; number < 8; number++)
        for (int i = 0; i < MANY; i++)
            round_of(comms[i], number % 5);
    for (int i = 0; i < MANY; i++)
        OK(MPI_Comm_free(&comms[i]));
    MPI_Finalize();
    return 0;
}
