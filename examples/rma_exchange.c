/*
 * Sparse exchange with one-sided calls and by messages: each rank sends to a few ranks that don't know it.
 *
 *     mpicc -O2 -o rma_exchange rma_exchange.c && mpiexec -n 4 ./rma_exchange [NEIGHBOURS]
 *
 * One-sided: a fetch-and-add reserves a slot at the target, a put fills it, and a barrier ends the round. By messages:
 * synchronous sends, and a nonblocking barrier once they are received. Prints microseconds a round.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 1000, SLOTS = 4096 };

static int rank, size, neighbours = 6;
static int64_t *inbox; /* the number of items, and the items */
static MPI_Win win;

static int target(int round, int i)
{
    uint64_t x = ((uint64_t)rank << 40 | (uint64_t)round << 8 | (uint64_t)i) * 0x9E3779B97F4A7C15u;
    return (int)((x >> 33) % (uint64_t)size);
}

static int64_t one_sided(int round)
{
    int64_t one = 1, at[64], item = rank + 1, sum = 0;
    inbox[0] = 0;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < neighbours; i++)
        MPI_Fetch_and_op(&one, &at[i], MPI_INT64_T, target(round, i), 0, MPI_SUM, win);
    MPI_Win_flush_all(win);
    for (int i = 0; i < neighbours; i++)
        MPI_Put(&item, 1, MPI_INT64_T, target(round, i), 1 + at[i] % SLOTS, 1, MPI_INT64_T, win);
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (int64_t i = 0; i < inbox[0]; i++)
        sum += inbox[1 + i];
    return sum;
}

static int64_t by_messages(int round)
{
    int64_t item = rank + 1, found, sum = 0;
    MPI_Request sends[64], barrier = MPI_REQUEST_NULL;
    for (int i = 0; i < neighbours; i++)
        MPI_Issend(&item, 1, MPI_INT64_T, target(round, i), round, MPI_COMM_WORLD, &sends[i]);
    for (int done = 0; !done;) {
        int flag;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &flag, &status);
        if (flag) {
            MPI_Recv(&found, 1, MPI_INT64_T, status.MPI_SOURCE, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += found;
        }
        if (barrier != MPI_REQUEST_NULL) {
            MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
        } else {
            MPI_Testall(neighbours, sends, &flag, MPI_STATUSES_IGNORE);
            if (flag)
                MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
        }
    }
    return sum;
}

int main(int argc, char **argv)
{
    double took[2];
    int64_t sums[2] = {0, 0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        neighbours = atoi(argv[1]);
    if (neighbours < 1 || neighbours > 64 || neighbours * size > SLOTS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Win_allocate((1 + SLOTS) * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &inbox, &win);
    MPI_Win_lock_all(0, win);
    for (int how = 0; how < 2; how++) {
        MPI_Barrier(MPI_COMM_WORLD);
        took[how] = MPI_Wtime();
        for (int round = 0; round < ROUNDS; round++)
            sums[how] += how ? by_messages(round) : one_sided(round);
        took[how] = (MPI_Wtime() - took[how]) * 1e6 / ROUNDS;
    }
    if (sums[0] != sums[1])
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        printf("%d ranks, %d neighbours: one-sided %.1f us, messages %.1f us\n", size, neighbours, took[0], took[1]);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
