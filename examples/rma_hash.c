/*
 * A distributed hash table with one-sided calls and by messages.
 *
 *     mpicc -O2 -o rma_hash rma_hash.c && mpiexec -n 4 ./rma_hash [KEYS]
 *
 * One-sided: a compare-and-swap fills the key's slot; where that is taken, a fetch-and-add reserves an element of the
 * overflow area, which a put fills and a compare-and-swap links into the slot's list. By messages: keys are sorted by
 * owner, exchanged with MPI_Alltoallv, and inserted by their owners. Prints microseconds a key.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 1 << 14, NEXT_FREE = 0, FIRST = 1 }; /* a slot or an overflow element: key, index of the next */

static int rank, size;
static int64_t *table, keys = 10000;
static MPI_Win win;

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

static int64_t swap(int64_t expected, int64_t new, int owner, int64_t at)
{
    int64_t old;
    MPI_Compare_and_swap(&new, &expected, &old, MPI_INT64_T, owner, at, win);
    MPI_Win_flush(owner, win);
    return old;
}

static void insert(int64_t key)
{
    const uint64_t hash = mix((uint64_t)key);
    const int owner = (int)(hash % (uint64_t)size);
    const int64_t slot = FIRST + 2 * (int64_t)((hash >> 20) % SLOTS);
    if (swap(0, key, owner, slot) == 0)
        return;
    int64_t one = 1, place, head = 0, found;
    MPI_Fetch_and_op(&one, &place, MPI_INT64_T, owner, NEXT_FREE, MPI_SUM, win);
    MPI_Win_flush(owner, win);
    place = FIRST + 2 * (SLOTS + place);
    for (;; head = found) {
        int64_t element[2] = {key, head};
        MPI_Put(element, 2, MPI_INT64_T, owner, place, 2, MPI_INT64_T, win);
        MPI_Win_flush(owner, win);
        found = swap(head, place, owner, slot + 1);
        if (found == head)
            return;
    }
}

static void by_messages(void)
{
    int *counts = calloc((size_t)size * 4, sizeof *counts), *places = counts + size, *theirs = places + size;
    int64_t *all = malloc((size_t)keys * 8);
    int total = 0, *at = theirs + size;
    for (int64_t i = 0; i < keys; i++)
        counts[mix((uint64_t)(rank * keys + i + 1)) % (uint64_t)size]++;
    for (int i = 1; i < size; i++)
        places[i] = places[i - 1] + counts[i - 1];
    for (int i = 0; i < size; i++)
        at[i] = places[i];
    for (int64_t i = 0; i < keys; i++)
        all[at[mix((uint64_t)(rank * keys + i + 1)) % (uint64_t)size]++] = rank * keys + i + 1;
    MPI_Alltoall(counts, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        at[i] = total;
        total += theirs[i];
    }
    int64_t *mine = malloc((size_t)total * 8 + 8);
    MPI_Alltoallv(all, counts, places, MPI_INT64_T, mine, theirs, at, MPI_INT64_T, MPI_COMM_WORLD);
    for (int i = 0; i < total; i++) {
        int64_t *slot = table + FIRST + 2 * ((mix((uint64_t)mine[i]) >> 20) % SLOTS);
        if (slot[0]) {
            int64_t place = FIRST + 2 * (SLOTS + table[NEXT_FREE]++);
            table[place] = mine[i];
            table[place + 1] = slot[1];
            slot[1] = place;
        } else {
            slot[0] = mine[i];
        }
    }
    free(counts), free(all), free(mine);
}

/* The number and the sum of all keys in this rank's part. */
static void count(int64_t sum[2])
{
    for (int64_t slot = FIRST; slot < FIRST + 2 * SLOTS; slot += 2)
        for (int64_t at = slot; at && table[at]; at = table[at + 1]) {
            sum[0]++;
            sum[1] += table[at];
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        keys = atoll(argv[1]);
    const int64_t words = FIRST + 2 * (SLOTS + keys * size);
    double took[2];
    for (int how = 0; how < 2; how++) {
        MPI_Win_allocate(words * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &table, &win);
        for (int64_t i = 0; i < words; i++)
            table[i] = 0;
        MPI_Win_lock_all(0, win);
        MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
        took[how] = MPI_Wtime();
        for (int64_t i = 0; i < keys && !how; i++)
            insert(rank * keys + i + 1);
        if (how)
            by_messages();
        MPI_Barrier(MPI_COMM_WORLD);
        took[how] = (MPI_Wtime() - took[how]) * 1e6 / (double)keys;
        MPI_Win_sync(win);
        int64_t sum[2] = {0, 0}, all = keys * size;
        count(sum);
        MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (sum[0] != all || sum[1] != all * (all + 1) / 2)
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
    }
    if (rank == 0)
        printf("%d ranks, %lld keys each: one-sided %.2f us a key, messages %.2f us\n", size, (long long)keys, took[0],
               took[1]);
    MPI_Finalize();
    return 0;
}
