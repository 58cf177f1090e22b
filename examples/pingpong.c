/*
 * How fast two ranks talk: latency and bandwidth by message size.
 *
 *     mpicc -O2 -o pingpong pingpong.c
 *     mpiexec -n 2 ./pingpong
 *
 * Latency is half the time of a message to the other rank and back. Bandwidth is that of many
 * messages under way at once, in one direction. What arrives is checked.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST (4 * 1024 * 1024)
#define WINDOW 32

static int rank;

/* Half a round trip in seconds. */
static double latency(char *buffer, int size, int rounds)
{
    double start = 0.0;
    for (int round = -rounds / 10; round < rounds; round++) {
        if (round == 0)
            start = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(buffer, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) / (2.0 * rounds);
}

/* Bytes per second from rank 0 to rank 1. */
static double bandwidth(char *buffer, int size, int rounds)
{
    MPI_Request requests[WINDOW];
    double start = 0.0;
    for (int round = -1; round < rounds; round++) {
        if (round == 0)
            start = MPI_Wtime();
        for (int i = 0; i < WINDOW; i++) {
            if (rank == 0)
                MPI_Isend(buffer, size, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(buffer, size, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
    }
    return (double)size * WINDOW * rounds / (MPI_Wtime() - start);
}

/* Sends a pattern from rank 0 to rank 1; rank 1 ends the job if something else arrives. */
static void check(char *buffer, int size)
{
    if (rank == 0) {
        for (int i = 0; i < size; i++)
            buffer[i] = (char)(i * 31 + size);
        MPI_Send(buffer, size, MPI_CHAR, 1, 4, MPI_COMM_WORLD);
    } else {
        MPI_Status status;
        int count = -1;
        memset(buffer, 0, (size_t)size);
        MPI_Recv(buffer, size, MPI_CHAR, 0, 4, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_CHAR, &count);
        for (int i = 0; i < size || count != size; i++) {
            if (count != size || buffer[i] != (char)(i * 31 + size)) {
                fprintf(stderr, "pingpong: of %d bytes %d arrived, byte %d is wrong\n", size,
                        count, i);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
}

int main(int argc, char **argv)
{
    int ranks, length;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    char *buffer = malloc(LARGEST);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || buffer == NULL) {
        if (rank == 0)
            fprintf(stderr, "pingpong: this program runs on two ranks: mpiexec -n 2 %s\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(buffer, 1, LARGEST);

    if (rank == 0) {
        MPI_Get_library_version(version, &length);
        version[strcspn(version, "\n")] = '\0';
        printf("%s\n%10s %14s %16s\n", version, "bytes", "latency (us)", "bandwidth (MB/s)");
    }
    for (int size = 1; size <= LARGEST; size *= 4) {
        int rounds = size <= 4096 ? 10000 : 40960000 / size + 10;
        double seconds, rate;
        check(buffer, size);
        seconds = latency(buffer, size, rounds);
        rate = bandwidth(buffer, size, rounds / WINDOW + 2);
        if (rank == 0) {
            printf("%10d %14.2f %16.1f\n", size, seconds * 1e6, rate * 1e-6);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    free(buffer);
    return 0;
}
