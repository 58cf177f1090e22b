/*
 * A 3-D Fourier transform whose transposition is by puts that overlap with computing, or by MPI_Alltoall.
 *
 *     mpicc -O2 -o rma_fft rma_fft.c -lm && mpiexec -n 4 ./rma_fft [EDGE]
 *
 * Each rank has planes of a cube. It transforms them, writes each to the ranks that go on with it as soon as it is done,
 * and transforms the third dimension after a fence. The edge is a power of two that the ranks divide. Prints the time
 * of both, after a comparison of their results.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, n = 64, planes;
static double complex *roots, *cube, *turned, *packed, *line;
static MPI_Win win;

static void fft(double complex *data, int stride)
{
    for (int i = 0; i < n; i++)
        line[i] = data[(size_t)i * stride];
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex other = line[i];
            line[i] = line[j];
            line[j] = other;
        }
    }
    for (int len = 2; len <= n; len *= 2)
        for (int at = 0; at < n; at += len)
            for (int k = 0; k < len / 2; k++) {
                double complex even = line[at + k], odd = roots[k * (n / len)] * line[at + k + len / 2];
                line[at + k] = even + odd;
                line[at + k + len / 2] = even - odd;
            }
    for (int i = 0; i < n; i++)
        data[(size_t)i * stride] = line[i];
}

static void plane(double complex *data)
{
    for (int i = 0; i < n; i++)
        fft(data + (size_t)i * n, 1);
    for (int i = 0; i < n; i++)
        fft(data + i, n);
}

/* Rows of each plane go to the rank that has them: there plane z is at z, with `planes` rows of n. */
static void transform(int one_sided)
{
    const int block = planes * n;
    if (one_sided)
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    for (int z = 0; z < planes; z++) {
        double complex *from = cube + (size_t)z * n * n;
        plane(from);
        for (int to = 0; to < size; to++) {
            if (one_sided)
                MPI_Put(from + (size_t)to * block, block, MPI_C_DOUBLE_COMPLEX, to,
                        (MPI_Aint)(rank * planes + z) * block, block, MPI_C_DOUBLE_COMPLEX, win);
            else
                memcpy(packed + ((size_t)to * planes + z) * block, from + (size_t)to * block, block * sizeof *from);
        }
    }
    if (one_sided)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    else
        MPI_Alltoall(packed, planes * block, MPI_C_DOUBLE_COMPLEX, turned, planes * block, MPI_C_DOUBLE_COMPLEX,
                     MPI_COMM_WORLD);
    for (int i = 0; i < block; i++)
        fft(turned + i, block);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        n = atoi(argv[1]);
    if (n < 2 || n & (n - 1) || n % size)
        MPI_Abort(MPI_COMM_WORLD, 2);
    planes = n / size;
    const size_t all = (size_t)planes * n * n;
    roots = malloc((size_t)n * sizeof *roots), line = malloc((size_t)n * sizeof *line);
    cube = malloc(all * sizeof *cube), packed = malloc(all * sizeof *packed);
    double complex *first = malloc(all * sizeof *first);
    for (int i = 0; i < n; i++)
        roots[i] = cexp(-2 * acos(-1) * I * i / n);
    MPI_Win_allocate((MPI_Aint)(all * sizeof *turned), sizeof *turned, MPI_INFO_NULL, MPI_COMM_WORLD, &turned, &win);
    double least[2] = {1e9, 1e9}, worst = 0;
    for (int turn = 0; turn < 10; turn++) {
        for (size_t i = 0; i < all; i++)
            cube[i] = sin((double)(i + all * (size_t)rank));
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        transform(turn % 2);
        MPI_Barrier(MPI_COMM_WORLD);
        least[turn % 2] = fmin(least[turn % 2], MPI_Wtime() - start);
        if (turn == 0)
            memcpy(first, turned, all * sizeof *first);
        for (size_t i = 0; i < all; i++)
            worst = fmax(worst, cabs(turned[i] - first[i]));
    }
    if (worst > 1e-9)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        printf("%d ranks, %d^3: puts %.2f ms, MPI_Alltoall %.2f ms\n", size, n, least[1] * 1e3, least[0] * 1e3);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
