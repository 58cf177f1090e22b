/*
 * K-mer counting and contig generation, as in genome assembly, with a hash table by one-sided calls.
 *
 *     mpicc -O2 -o rma_kmers rma_kmers.c && mpiexec -n 2 ./rma_kmers [CONTIGS]
 *
 * A synthetic genome has CONTIGS stretches of LENGTH bases, and two reads of each. Counting inserts all k-mers of the
 * reads: a compare-and-swap claims a slot at the k-mer's owner, and a fetch-and-add counts; by messages, k-mers travel
 * to their owners in one MPI_Alltoallv, which insert them. Contigs are then walked from their first k-mers: a get finds
 * each next one. Counts and lengths are checked. Prints microseconds for a k-mer.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { K = 21, LENGTH = 512, READS = 2, NONE = 4 };
#define FULL ((int64_t)1 << 62)

static int rank, size, contigs = 64;
static int64_t slots; /* of a rank; each has a k-mer with the base after it, and a count */
static int64_t *table;
static MPI_Win win;

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

static int64_t base(int64_t at) { return (int64_t)(mix((uint64_t)at + 1) & 3); }

/* The word of a slot: the k-mer at a place of a contig, and the base after it. */
static int64_t word(int contig, int place)
{
    int64_t first = (int64_t)contig * LENGTH + place, kmer = 0;
    for (int i = 0; i < K; i++)
        kmer = kmer << 2 | base(first + i);
    return FULL | kmer << 3 | (place + K < LENGTH ? base(first + K) : NONE);
}

static int owner(int64_t word) { return (int)(mix((uint64_t)word >> 3) % (uint64_t)size); }
static int64_t first_slot(int64_t word) { return (int64_t)(mix(~((uint64_t)word >> 3)) % (uint64_t)slots); }

static void insert(int64_t new)
{
    int64_t none = 0, old, one = 1;
    int to = owner(new);
    for (int64_t slot = first_slot(new);; slot = (slot + 1) % slots) {
        MPI_Compare_and_swap(&new, &none, &old, MPI_INT64_T, to, 2 * slot, win);
        MPI_Win_flush(to, win);
        if (old == 0 || old == new) {
            MPI_Fetch_and_op(&one, &old, MPI_INT64_T, to, 2 * slot + 1, MPI_SUM, win);
            MPI_Win_flush(to, win);
            return;
        }
    }
}

static void insert_here(int64_t new)
{
    int64_t slot = first_slot(new);
    while (table[2 * slot] && table[2 * slot] != new)
        slot = (slot + 1) % slots;
    table[2 * slot] = new;
    table[2 * slot + 1]++;
}

/* Finds a k-mer, and returns its slot's word; 0 if there is none. */
static int64_t find(int64_t kmer)
{
    int64_t key = FULL | kmer << 3, entry[2];
    int from = owner(key);
    for (int64_t slot = first_slot(key);; slot = (slot + 1) % slots) {
        MPI_Get(entry, 2, MPI_INT64_T, from, 2 * slot, 2, MPI_INT64_T, win);
        MPI_Win_flush(from, win);
        if (entry[0] == 0 || entry[0] >> 3 == key >> 3) {
            if (entry[0] && entry[1] != READS)
                MPI_Abort(MPI_COMM_WORLD, 1);
            return entry[0];
        }
    }
}

static void by_messages(const int64_t *words, int n)
{
    int *counts = calloc(4 * (size_t)size, sizeof *counts), *at = counts + size, *in = at + size, *in_at = in + size;
    int64_t *sorted = malloc(8 * (size_t)n + 8);
    for (int i = 0; i < n; i++)
        counts[owner(words[i])]++;
    MPI_Alltoall(counts, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    int total = in[0];
    for (int r = 1; r < size; r++) {
        at[r] = at[r - 1] + counts[r - 1];
        in_at[r] = in_at[r - 1] + in[r - 1];
        total += in[r];
    }
    int64_t *came = malloc(8 * (size_t)total + 8);
    for (int i = 0; i < n; i++)
        sorted[at[owner(words[i])]++] = words[i];
    for (int r = 0; r < size; r++)
        at[r] -= counts[r];
    MPI_Alltoallv(sorted, counts, at, MPI_INT64_T, came, in, in_at, MPI_INT64_T, MPI_COMM_WORLD);
    for (int i = 0; i < total; i++)
        insert_here(came[i]);
    MPI_Win_sync(win);
    free(sorted);
    free(came);
    free(counts);
}

int main(int argc, char **argv)
{
    const int nodes = LENGTH - K + 1;
    double took[2], start, walked;
    int n = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    contigs = argc > 1 ? atoi(argv[1]) : contigs;
    if (contigs < 1 || contigs > 1 << 20)
        MPI_Abort(MPI_COMM_WORLD, 2);
    slots = 2 * ((int64_t)contigs * nodes / size + 64);
    MPI_Win_allocate(16 * slots, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &table, &win);
    MPI_Win_lock_all(0, win);
    int64_t *words = malloc(8 * (size_t)READS * nodes * (contigs / size + 1));
    /* A rank has its contigs' first reads and the second ones of the next rank's. */
    for (int read = 0; read < READS; read++)
        for (int contig = (rank + read) % size; contig < contigs; contig += size)
            for (int place = 0; place < nodes; place++)
                words[n++] = word(contig, place);
    for (int how = 1; how >= 0; how--) {
        memset(table, 0, 16 * slots);
        MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        if (how)
            by_messages(words, n);
        else
            for (int i = 0; i < n; i++)
                insert(words[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        took[how] = (MPI_Wtime() - start) * 1e6 / (n + !n);
    }
    int64_t steps = 0, all;
    start = MPI_Wtime();
    for (int contig = rank; contig < contigs; contig += size) {
        int64_t at = word(contig, 0), length = 1;
        while ((at & 7) != NONE) {
            int64_t kmer = (at & ~FULL) >> 3, mask = ((int64_t)1 << 2 * K) - 1;
            at = find((kmer << 2 | (at & 7)) & mask);
            length++;
        }
        if (length != nodes)
            MPI_Abort(MPI_COMM_WORLD, 1);
        steps += length - 1;
    }
    walked = (MPI_Wtime() - start) * 1e6 / (steps + !steps);
    MPI_Allreduce(&steps, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d contigs of %lld k-mers in all: count %.3f us, by messages %.3f us; walk %.3f us\n", size,
               contigs, (long long)(all + contigs), took[0], took[1], walked);
    free(words);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
