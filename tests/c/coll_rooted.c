/* MPI_Gatherv and MPI_Scatterv whose blocks are of any lengths: short ones go by slots within a node, others by messages, in
 * one call, too; with gaps on either side, in place, from and to all ranks, behind others that run ahead; blocks that don't fit
 * are errors, after which the communicator can be used.
 *
 * ranks: 1 2 3 5
 * variants: shm shm-2copy tcp
 * timeout: 60
 */
#include "coll.h"

enum { MOST = 6000, ROUNDS = 3, PAST = 0x5a };

/* Bytes on both sides of what the first line of a slot, and a slot, have room for. */
static const int lengths[] = {0, 1, 8, 39, 40, 41, 48, 56, 57, 100, 959, 960, 961, 1023, 1024, 1025, MOST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static unsigned char *all, *own;
static int counts[8], places[8];

static unsigned char byte(int of, int i, int k)
{
    return (unsigned char)(of * 41 + i * 7 + (i >> 8) * 3 + k * 11 + 1);
}

/* Block of rank r in case c: of mixed lengths, or all the same. */
static int length(int r, int c)
{
    return c < LENGTHS ? lengths[c] : lengths[(r * 5 + c) % LENGTHS];
}

/* Places of the blocks, with gaps between them, in another order than the ranks'. */
static int lay_out(int c)
{
    int at = 3;
    for (int r = size - 1; r >= 0; r--) {
        counts[r] = length(r, c);
        places[r] = at;
        at += counts[r] + 5;
    }
    return at;
}

static void gatherv(MPI_Comm comm, int c, int root, int in_place, int k)
{
    int bytes = lay_out(c), leads = rank == root;
    memset(all, PAST, bytes);
    unsigned char *mine = leads && in_place ? all + places[rank] : own;
    for (int i = 0; i < counts[rank]; i++)
        mine[i] = byte(rank, i, k);
    if (leads)
        OK(MPI_Gatherv(in_place ? MPI_IN_PLACE : own, counts[rank], MPI_BYTE, all, counts, places, MPI_BYTE, root, comm));
    else
        OK(MPI_Gatherv(own, counts[rank], MPI_BYTE, NULL, NULL, NULL, MPI_DATATYPE_NULL, root, comm));
    int right = 1;
    for (int r = 0; r < size && leads; r++) {
        for (int i = 0; i < counts[r]; i++)
            right &= all[places[r] + i] == byte(r, i, k);
        for (int i = 1; i <= 3; i++)
            right &= all[places[r] - i] == PAST && all[places[r] + counts[r] + i - 1] == PAST;
    }
    for (int i = 0; i < bytes && !leads; i++)
        right &= all[i] == PAST;
    CHECK(right, "gatherv, case %d, root %d, in place %d, round %d", c, root, in_place, k);
}

static void scatterv(MPI_Comm comm, int c, int root, int in_place, int k)
{
    lay_out(c);
    int leads = rank == root, right = 1;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < counts[r]; i++)
            all[places[r] + i] = byte(r, i, k);
    memset(own, PAST, counts[rank] + 16);
    if (leads)
        OK(MPI_Scatterv(all, counts, places, MPI_BYTE, in_place ? MPI_IN_PLACE : own, counts[rank], MPI_BYTE, root, comm));
    else
        OK(MPI_Scatterv(NULL, NULL, NULL, MPI_DATATYPE_NULL, own, counts[rank], MPI_BYTE, root, comm));
    for (int i = 0; i < counts[rank] && !(leads && in_place); i++)
        right &= own[i] == byte(rank, i, k);
    for (int i = 0; i < 16; i++)
        right &= own[(leads && in_place ? 0 : counts[rank]) + i] == PAST;
    CHECK(right, "scatterv, case %d, root %d, in place %d, round %d", c, root, in_place, k);
}

/* Ints two apart on one side, in a row on the other. */
static void gaps(MPI_Comm comm, int n, int root, int k)
{
    MPI_Datatype apart;
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &apart));
    OK(MPI_Type_commit(&apart));
    int *out = ints((size_t)2 * n * size), *in = ints((size_t)2 * n), spread = (rank + k) % 2, wide = (root + k) % 3 == 0;
    for (int i = 0; i < 2 * n; i++)
        in[i] = -1;
    for (int i = 0; i < n; i++)
        in[spread ? 2 * i : i] = value(rank, i, k);
    for (int i = 0; i < 2 * n * size; i++)
        out[i] = -2;
    for (int r = 0; r < size; r++) {
        counts[r] = n;
        places[r] = r * n;
    }
    OK(MPI_Gatherv(in, n, spread ? apart : MPI_INT, out, counts, places, wide ? apart : MPI_INT, root, comm));
    for (int i = 0; rank == root && i < n * size; i++) {
        CHECK(out[wide ? 2 * i : i] == value(i / n, i % n, k), "gaps, %d elements, element %d, round %d", n, i, k);
        CHECK(!wide || out[2 * i + 1] == -2, "a gap was written");
    }
    for (int i = 0; i < n * size; i++)
        out[wide ? 2 * i : i] = value(i % n, i / n, k);
    for (int i = 0; i < 2 * n; i++)
        in[i] = -1;
    OK(MPI_Scatterv(out, counts, places, wide ? apart : MPI_INT, in, n, spread ? apart : MPI_INT, root, comm));
    for (int i = 0; i < n; i++) {
        CHECK(in[spread ? 2 * i : i] == value(i, rank, k), "gaps, %d elements, element %d, round %d", n, i, k);
        CHECK(!spread || in[2 * i + 1] == -1, "a gap was written");
    }
    OK(MPI_Type_free(&apart));
    free(out);
    free(in);
}

/* Who only gives runs ahead by more calls than there are slots; a block of nothing follows one of something. */
static void ahead(MPI_Comm comm)
{
    for (int k = 0; k < 600; k++) {
        scatterv(comm, k % 3 ? 0 : 4, k / 100 % size, 0, k);
        gatherv(comm, k % 5 ? 2 : LENGTHS + 1, 0, 0, k);
    }
}

/* A block that is longer than there is room for it. */
static void too_long(MPI_Comm comm, int n)
{
    int class;
    for (int r = 0; r < size; r++) {
        counts[r] = r == size - 1 ? n - 1 : n;
        places[r] = r * n;
    }
    memset(all, PAST, (size_t)size * n);
    int code = MPI_Gatherv(own, n, MPI_BYTE, all, counts, places, MPI_BYTE, 0, comm);
    MPI_Error_class(code, &class);
    CHECK(class == (rank == 0 ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "gatherv of %d: class %d", n, class);
    CHECK(rank || all[size * n - 1] == PAST, "gatherv of %d: written past the block", n);
    memset(own, PAST, n);
    counts[size - 1] = n;
    code = MPI_Scatterv(all, counts, places, MPI_BYTE, own, rank == size - 1 ? n - 1 : n, MPI_BYTE, 0, comm);
    MPI_Error_class(code, &class);
    CHECK(class == (rank == size - 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "scatterv of %d: class %d", n, class);
    CHECK(own[n - 1] == PAST || rank < size - 1, "scatterv of %d: written past the block", n);
    gatherv(comm, 5, 0, 0, n);
    scatterv(comm, 5, 0, 0, n);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    all = malloc((size_t)(MOST + 16) * (size + 1));
    own = malloc(MOST + 16);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int k = 0; k < ROUNDS; k++)
        for (int c = 0; c < 2 * LENGTHS; c++)
            for (int root = 0; root < size; root++) {
                gatherv(MPI_COMM_WORLD, c, root, (k + c) % 2, k);
                scatterv(MPI_COMM_WORLD, c, root, (k + c) % 2, k);
            }
    for (int k = 0; k < 6; k++)
        for (int n = 1; n < 2000; n = 3 * n + 1)
            gaps(MPI_COMM_WORLD, n, k % size, k);
    ahead(MPI_COMM_WORLD);
    if (size > 1) {
        too_long(MPI_COMM_WORLD, 20);
        too_long(MPI_COMM_WORLD, 500);
        too_long(MPI_COMM_WORLD, MOST);
    }
    free(all);
    free(own);
    MPI_Finalize();
    return 0;
}
