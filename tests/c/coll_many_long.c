/* Collectives whose data wrap around in the memory of the shared slots, with any order of waiting ranks: each call
 * gets its own data.
 *
 * ranks: 2 3 4
 * variants: shm
 * timeout: 60
 */
#include "coll.h"

enum { ROUNDS = 4000, WORDS = 2100, ROOM = 4 * WORDS, STRIDE = 53 };

static int own[ROOM], got[ROOM];

static void fill(int *words, int count, int seed)
{
    for (int i = 0; i < count; i += STRIDE)
        words[i] = seed + 7 * i;
}

/* Whether `words` are what `times` ranks have filled with this seed in sum. */
static void check(const int *words, int count, int seed, int times, int round)
{
    for (int i = 0; i < count; i += STRIDE)
        CHECK(words[i] == times * (seed + 7 * i), "round %d, word %d: %d", round, i, words[i]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int k = 0; k < ROUNDS; k++) {
        int root = k % size;
        fill(got, WORDS, rank == root ? k : -1);
        OK(MPI_Bcast(got, WORDS, MPI_INT, root, MPI_COMM_WORLD));
        check(got, WORDS, k, 1, k);
        fill(own, WORDS, k + 1);
        OK(MPI_Allreduce(own, got, WORDS, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        check(got, WORDS, k + 1, size, k);
        for (int to = 0; to < size; to++)
            fill(own + to * WORDS, WORDS, 1000 * rank + to + k);
        OK(MPI_Alltoall(own, WORDS, MPI_INT, got, WORDS, MPI_INT, MPI_COMM_WORLD));
        for (int from = 0; from < size; from++)
            check(got + from * WORDS, WORDS, 1000 * from + rank + k, 1, k);
        fill(own, WORDS, k + 2);
        OK(MPI_Reduce(own, got, WORDS, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
        if (rank == root)
            check(got, WORDS, k + 2, size, k);
        /* Who gives may run ahead. */
        fill(own, WORDS, k + rank);
        OK(MPI_Gather(own, WORDS, MPI_INT, got, WORDS, MPI_INT, 0, MPI_COMM_WORLD));
        for (int from = 0; from < size && rank == 0; from++)
            check(got + from * WORDS, WORDS, k + from, 1, k);
    }
    MPI_Finalize();
    return 0;
}
