/* A thousand windows at the same time, and a window with 64 GB of addresses.
 *
 * ranks: 2
 * variants: shm ofi
 * alone: yes
 * timeout: 60
 */
#include <sys/mman.h>

#include "rma.h"

#define WINDOWS 1000
/* Making them takes many messages, which are slow over sockets where other work wants the cores: after so
 * many seconds they are enough, from FEWEST on. */
#define SECONDS 10
#define FEWEST 50

static MPI_Win wins[WINDOWS];
static int *bases[WINDOWS];

static void thousand(void)
{
    int rank = world_rank(), other = 1 - rank;
    double end = MPI_Wtime() + SECONDS;
    int windows = 0, more = 1;
    while (more) {
        int i = windows++;
        OK(MPI_Win_allocate(8 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &bases[i],
                            &wins[i]));
        bases[i][0] = bases[i][1] = 0;
        more = windows < WINDOWS;
        if (windows % FEWEST == 0) {
            more = more && MPI_Wtime() < end;
            OK(MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD));
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < windows; i++) {
        int value = 2 * i + rank, one = i, old;
        OK(MPI_Win_lock_all(0, wins[i]));
        OK(MPI_Put(&value, 1, MPI_INT, other, 0, 1, MPI_INT, wins[i]));
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT, other, 1, MPI_SUM, wins[i]));
    }
    for (int i = 0; i < windows; i++) {
        OK(MPI_Win_unlock_all(wins[i]));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < windows; i++) {
        CHECK_EQ(bases[i][0], 2 * i + other);
        CHECK_EQ(bases[i][1], i);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < windows; i++) {
        OK(MPI_Win_free(&wins[i]));
    }
}

static void huge(void)
{
    const size_t bytes = (size_t)64 << 30;
    int rank = world_rank(), other = 1 - rank;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MPI_Win win;
    MPI_Aint mine, starts[2];
    CHECK(memory != MAP_FAILED);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_attach(win, memory, (MPI_Aint)bytes));
    OK(MPI_Get_address(memory, &mine));
    OK(MPI_Allgather(&mine, 1, MPI_AINT, starts, 1, MPI_AINT, MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 64; i++) {
        /* Everywhere, the last bytes too. */
        MPI_Aint at = (MPI_Aint)(((size_t)i + 1) << 30) - 8 * (i + 1) - 8 * rank * 64;
        int64_t value = 1000 * rank + i, one = 1, old = -1;
        OK(MPI_Put(&value, 1, MPI_INT64_T, other, starts[other] + at, 1, MPI_INT64_T, win));
        OK(MPI_Win_flush(other, win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, other, starts[other] + at, MPI_SUM, win));
        OK(MPI_Win_flush(other, win));
        CHECK_EQ(old, value);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 64; i++) {
        size_t at = (((size_t)i + 1) << 30) - 8 * ((size_t)i + 1) - 8 * (size_t)other * 64;
        CHECK_EQ(*(int64_t *)(memory + at), 1000 * other + i + 1);
    }
    OK(MPI_Win_detach(win, memory));
    OK(MPI_Win_free(&win));
    CHECK(munmap(memory, bytes) == 0);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    thousand();
    huge();
    OK(MPI_Finalize());
    return 0;
}
