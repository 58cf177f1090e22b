/*
 * Halo exchange of a lattice in four dimensions, as in MILC, by puts and by messages.
 *
 *     mpicc -O2 -o rma_halo rma_halo.c && mpiexec -n 2 ./rma_halo [SIDE]
 *
 * Each rank has SIDE^4 sites of six numbers and needs eight faces of its neighbours in a step. One-sided: faces are put
 * into the neighbours' memory, each then gets one added to its counter, and there are two sets of faces, so that a
 * neighbour may be a step ahead. Prints microseconds a step, and those of the exchange.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 200, SITE = 6, FACES = 8, HEAD = 64 };

static int rank, side = 8, face, neighbour[FACES];
static double *here, *next, *out, *faces; /* sites, faces to send, and two sets of faces that came */
static int64_t *counts;                   /* faces that came, by set */
static MPI_Win win;
static double exchanging;

/* The site at a place of a face: side 0 or 1 of dimension d. */
static int site(int d, int at_end, int place)
{
    int low = 1;
    for (int i = 0; i < d; i++)
        low *= side;
    return place / low * low * side + (at_end ? side - 1 : 0) * low + place % low;
}

static void pack(void)
{
    for (int f = 0; f < FACES; f++)
        for (int place = 0; place < face; place++)
            for (int i = 0; i < SITE; i++)
                out[(f * face + place) * SITE + i] = here[site(f / 2, f % 2, place) * SITE + i];
}

static double *by_puts(int step)
{
    int set = step % 2, n = face * SITE;
    int64_t one = 1, old, wanted = FACES * (step / 2 + 1);
    for (int f = 0; f < FACES; f++)
        MPI_Put(out + f * n, n, MPI_DOUBLE, neighbour[f], HEAD + (set * FACES + (f ^ 1)) * n * 8, n, MPI_DOUBLE, win);
    MPI_Win_flush_all(win);
    for (int f = 0; f < FACES; f++)
        MPI_Accumulate(&one, 1, MPI_INT64_T, neighbour[f], set * 8, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_flush_all(win);
    do {
        MPI_Fetch_and_op(NULL, &old, MPI_INT64_T, rank, set * 8, MPI_NO_OP, win);
        MPI_Win_flush(rank, win);
    } while (old < wanted);
    MPI_Win_sync(win);
    return faces + set * FACES * n;
}

static double *by_messages(void)
{
    int n = face * SITE;
    MPI_Request requests[2 * FACES];
    for (int f = 0; f < FACES; f++)
        MPI_Irecv(faces + f * n, n, MPI_DOUBLE, neighbour[f], f, MPI_COMM_WORLD, &requests[f]);
    for (int f = 0; f < FACES; f++)
        MPI_Isend(out + f * n, n, MPI_DOUBLE, neighbour[f], f ^ 1, MPI_COMM_WORLD, &requests[FACES + f]);
    MPI_Waitall(2 * FACES, requests, MPI_STATUSES_IGNORE);
    return faces;
}

/* Each site becomes the mean of its neighbours. */
static void compute(const double *came)
{
    for (int d = 0, low = 1; d < 4; d++, low *= side)
        for (int s = 0; s < face * side; s++) {
            int c = s / low % side, place = s / (low * side) * low + s % low;
            const double *before = c ? here + (s - low) * SITE : came + (2 * d * face + place) * SITE;
            const double *after = c < side - 1 ? here + (s + low) * SITE : came + ((2 * d + 1) * face + place) * SITE;
            for (int i = 0; i < SITE; i++)
                next[s * SITE + i] = (d ? next[s * SITE + i] : 0) + (before[i] + after[i]) / 8;
        }
    double *swap = here;
    here = next;
    next = swap;
}

int main(int argc, char **argv)
{
    int size, dims[4] = {0}, periods[4] = {1, 1, 1, 1};
    double took[2], parts[2], sums[2] = {0, 0}, whole[2];
    MPI_Comm grid;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    side = argc > 1 ? atoi(argv[1]) : side;
    if (side < 2 || side > 32)
        MPI_Abort(MPI_COMM_WORLD, 2);
    face = side * side * side;
    MPI_Dims_create(size, 4, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 4, dims, periods, 0, &grid);
    for (int d = 0; d < 4; d++)
        MPI_Cart_shift(grid, d, 1, &neighbour[2 * d], &neighbour[2 * d + 1]);
    size_t bytes = (size_t)face * SITE * 8;
    here = malloc(bytes * side);
    next = malloc(bytes * side);
    out = malloc(bytes * FACES);
    if (!here || !next || !out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_allocate(HEAD + 2 * FACES * bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &counts, &win);
    faces = (double *)((char *)counts + HEAD);
    counts[0] = counts[1] = 0;
    MPI_Win_lock_all(0, win);
    for (int how = 0; how < 2; how++) {
        for (int i = 0; i < face * side * SITE; i++)
            here[i] = (rank * 37 + i) % 101;
        MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
        exchanging = 0;
        took[how] = MPI_Wtime();
        for (int step = 0; step < STEPS; step++) {
            pack();
            double start = MPI_Wtime();
            double *came = how ? by_messages() : by_puts(step);
            exchanging += MPI_Wtime() - start;
            compute(came);
        }
        took[how] = (MPI_Wtime() - took[how]) * 1e6 / STEPS;
        parts[how] = exchanging * 1e6 / STEPS;
        for (int i = 0; i < face * side * SITE; i++)
            sums[how] += here[i] * (i % 7);
    }
    MPI_Allreduce(sums, whole, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (whole[0] != whole[1])
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        printf("%d ranks, %d^4 sites: puts %.1f us (exchange %.1f), messages %.1f us (%.1f)\n", size, side, took[0],
               parts[0], took[1], parts[1]);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
