/*
 * A sparse matrix times a tall dense one, by broadcasts, by gets, and by gets with stolen work.
 *
 *     mpicc -O2 -o rma_sparse rma_sparse.c && mpiexec -n 4 ./rma_sparse [ROWS]
 *
 * Each rank has ROWS rows of the sparse matrix A in tiles, of B and of the product C. The first ranks' rows have more
 * entries. Bulk-synchronous: each block of B is broadcast in turn, and all ranks multiply their tiles with it. By gets:
 * each rank reads the blocks as it needs them, beginning with its own. Stealing: the tiles of a row of A are tasks which
 * a counter deals out; a rank that is done reads others' tiles and adds to their part of C. Prints milliseconds.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 32, MOST = 24, ROUNDS = 5, NONE = -1 };

static int rank, size, rows = 512;
static int32_t *a; /* tiles; in each MOST columns of each row, of which the last are NONE */
static int64_t *b, *c, *next;
static MPI_Win win_a, win_b, win_c, win_next;

static int32_t *tile_of(int32_t *tiles, int j) { return tiles + (size_t)j * rows * MOST; }

static void multiply(const int32_t *tile, const int64_t *block, int64_t *sums)
{
    for (int i = 0; i < rows; i++)
        for (int e = 0; e < MOST && tile[i * MOST + e] != NONE; e++)
            for (int w = 0; w < WIDTH; w++)
                sums[i * WIDTH + w] += block[tile[i * MOST + e] * WIDTH + w];
}

static void get_block(int of, int64_t *block)
{
    MPI_Get(block, rows * WIDTH, MPI_INT64_T, of, 0, rows * WIDTH, MPI_INT64_T, win_b);
    MPI_Win_flush(of, win_b);
}

static void bulk(int64_t *block)
{
    for (int j = 0; j < size; j++) {
        MPI_Bcast(j == rank ? b : block, rows * WIDTH, MPI_INT64_T, j, MPI_COMM_WORLD);
        multiply(tile_of(a, j), j == rank ? b : block, c);
    }
}

static void by_gets(int64_t *block)
{
    for (int n = 0; n < size; n++) {
        int j = (rank + n) % size;
        if (j != rank)
            get_block(j, block);
        multiply(tile_of(a, j), j == rank ? b : block, c);
    }
}

static void stealing(int64_t *block, int32_t *tile, int64_t *sums)
{
    const int n = rows * MOST;
    for (int k = 0; k < size; k++) {
        int of = (rank + k) % size;
        for (;;) {
            int64_t one = 1, task;
            MPI_Fetch_and_op(&one, &task, MPI_INT64_T, of, 0, MPI_SUM, win_next);
            MPI_Win_flush(of, win_next);
            if (task >= size)
                break;
            int j = (int)((of + task) % size);
            if (of != rank)
                MPI_Get(tile, n, MPI_INT32_T, of, (MPI_Aint)j * n, n, MPI_INT32_T, win_a);
            if (j != rank)
                get_block(j, block);
            MPI_Win_flush(of, win_a);
            memset(sums, 0, sizeof(int64_t) * rows * WIDTH);
            multiply(of == rank ? tile_of(a, j) : tile, j == rank ? b : block, sums);
            MPI_Accumulate(sums, rows * WIDTH, MPI_INT64_T, of, 0, rows * WIDTH, MPI_INT64_T, MPI_SUM, win_c);
            MPI_Win_flush(of, win_c);
        }
    }
}

int main(int argc, char **argv)
{
    double best[3];
    int64_t sums[3], whole[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows = argc > 1 ? atoi(argv[1]) : rows;
    if (rows < 1 || rows > 1 << 16)
        MPI_Abort(MPI_COMM_WORLD, 2);
    size_t dense = (size_t)rows * WIDTH * 8, sparse = (size_t)size * rows * MOST;
    MPI_Win_allocate(sparse * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &a, &win_a);
    MPI_Win_allocate(dense, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &b, &win_b);
    MPI_Win_allocate(dense, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &c, &win_c);
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &next, &win_next);
    MPI_Win all[4] = {win_a, win_b, win_c, win_next};
    for (int i = 0; i < 4; i++)
        MPI_Win_lock_all(0, all[i]);
    int64_t *block = malloc(dense), *part = malloc(dense);
    int32_t *tile = malloc((size_t)rows * MOST * 4);
    if (!block || !part || !tile)
        MPI_Abort(MPI_COMM_WORLD, 1);
    uint64_t x = (uint64_t)rank + 1;
    int filled = MOST / (rank + 1); /* of a row, on average half of it */
    for (size_t e = 0; e < sparse; e++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        int is_filled = (int)(e % MOST) < (int)(e / MOST % (filled + 1));
        a[e] = is_filled ? (int32_t)((x >> 33) % (uint64_t)rows) : NONE;
    }
    for (int i = 0; i < rows * WIDTH; i++)
        b[i] = (rank * 31 + i) % 17;
    for (int how = 0; how < 3; how++) {
        best[how] = 1e9;
        for (int round = 0; round < ROUNDS; round++) {
            memset(c, 0, dense);
            *next = 0;
            for (int i = 0; i < 4; i++)
                MPI_Win_sync(all[i]);
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            if (how == 0)
                bulk(block);
            else if (how == 1)
                by_gets(block);
            else
                stealing(block, tile, part);
            MPI_Barrier(MPI_COMM_WORLD);
            double took = (MPI_Wtime() - start) * 1e3;
            MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            best[how] = took < best[how] ? took : best[how];
            MPI_Win_sync(win_c);
        }
        sums[how] = 0;
        for (int i = 0; i < rows * WIDTH; i++)
            sums[how] += c[i] * (i % 13 + 1);
    }
    MPI_Allreduce(sums, whole, 3, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (whole[0] != whole[1] || whole[0] != whole[2] || whole[0] == 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        printf("%d ranks, %d rows each: broadcasts %.2f ms, gets %.2f, stealing %.2f\n", size, rows, best[0], best[1],
               best[2]);
    for (int i = 0; i < 4; i++) {
        MPI_Win_unlock_all(all[i]);
        MPI_Win_free(&all[i]);
    }
    MPI_Finalize();
    return 0;
}
