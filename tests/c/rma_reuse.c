/* Windows whose shared memory is reused: several at a time, of all kinds, freed in any order, on communicators of all
 * and some ranks; none has another's content or memory.
 * ranks: 2 3 5
 * timeout: 60
 */
#include "check.h"

enum { KINDS = 4, AT_ONCE = 24, ROUNDS = 40, BYTES = 600 };

typedef struct {
    MPI_Win win;
    MPI_Comm comm;
    int kind, rank, ranks;
    unsigned char *memory;
    MPI_Aint at; /* of a dynamic one: where the neighbour's memory is */
} Window;

static Window windows[AT_ONCE];
static MPI_Comm halves;

static int next_of(const Window *one) {
    return (one->rank + 1) % one->ranks;
}

static void make(Window *one, int kind, MPI_Comm comm) {
    one->kind = kind;
    one->comm = comm;
    one->at = 0;
    OK(MPI_Comm_rank(comm, &one->rank));
    OK(MPI_Comm_size(comm, &one->ranks));
    if (kind == 0) {
        one->memory = allocate(BYTES);
        OK(MPI_Win_create(one->memory, BYTES, 1, MPI_INFO_NULL, comm, &one->win));
    } else if (kind == 1) {
        OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, comm, &one->memory, &one->win));
    } else if (kind == 2) {
        OK(MPI_Win_allocate_shared(BYTES, 1, MPI_INFO_NULL, comm, &one->memory, &one->win));
    } else {
        MPI_Aint own, all[16];
        one->memory = allocate(BYTES);
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &one->win));
        OK(MPI_Win_attach(one->win, one->memory, BYTES));
        OK(MPI_Get_address(one->memory, &own));
        OK(MPI_Allgather(&own, 1, MPI_AINT, all, 1, MPI_AINT, comm));
        one->at = all[next_of(one)];
    }
}

/* Everyone fills the neighbour's memory with bytes of his own, which stay until the window is freed. */
static unsigned char value(int number, int from) {
    return (unsigned char)(1 + (17 * number + from) % 250);
}

static void use(Window *one, int number) {
    unsigned char data[BYTES];
    int to = next_of(one), one_more = 1, before;
    memset(data, value(number, one->rank), sizeof data);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, one->win));
    OK(MPI_Put(data, BYTES - 8, MPI_BYTE, to, one->at, BYTES - 8, MPI_BYTE, one->win));
    OK(MPI_Win_unlock(to, one->win));
    /* The last bytes are counted up by all: that needs the words for accumulates. */
    OK(MPI_Win_fence(0, one->win));
    memset(one->memory + BYTES - 8, 0, 8);
    OK(MPI_Win_fence(0, one->win));
    OK(MPI_Fetch_and_op(&one_more, &before, MPI_INT, to, one->at + BYTES - 8, MPI_SUM, one->win));
    OK(MPI_Accumulate(&one_more, 1, MPI_INT, to, one->at + BYTES - 4, 1, MPI_INT, MPI_SUM, one->win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, one->win));
    CHECK_EQ(before, 0);
}

static void check(Window *one, int number) {
    int from = (one->rank + one->ranks - 1) % one->ranks, counts[2];
    OK(MPI_Win_lock(MPI_LOCK_SHARED, one->rank, 0, one->win));
    for (int i = 0; i < BYTES - 8; i++)
        CHECK_EQ(one->memory[i], value(number, from));
    memcpy(counts, one->memory + BYTES - 8, 8);
    CHECK_EQ(counts[0], 1);
    CHECK_EQ(counts[1], 1);
    OK(MPI_Win_unlock(one->rank, one->win));
}

static void end(Window *one) {
    OK(MPI_Win_free(&one->win));
    if (one->kind == 0 || one->kind == 3)
        free(one->memory);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    check_rank = world_rank();
    OK(MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, 0, &halves));
    int numbers[AT_ONCE], made = 0, number = 0;
    /* The same on all ranks, as the order of collective calls must be. */
    for (int round = 0; round < ROUNDS; round++) {
        int more = 1 + (round * 7) % AT_ONCE;
        while (made < more) {
            MPI_Comm comm = number % 3 == 2 ? halves : MPI_COMM_WORLD;
            make(windows + made, number % KINDS, comm);
            use(windows + made, number);
            numbers[made++] = number++;
        }
        for (int i = 0; i < made; i++)
            check(windows + i, numbers[i]);
        for (int ends = 1 + (round * 5) % made; ends > 0; ends--) {
            int which = (round * 3 + ends) % made;
            end(windows + which);
            windows[which] = windows[--made];
            numbers[which] = numbers[made];
        }
    }
    while (made > 0)
        end(windows + --made);
    OK(MPI_Comm_free(&halves));
    OK(MPI_Finalize());
    return 0;
}
