/* Memory that is freed and allocated again (MPI-4.1 section 10.2), of any size: the new block is private to the
 * program, even if a process forked in between still uses its parent's freed memory, and a window on it uses the new
 * memory.
 * ranks: 1 2
 * local: memory of the process
 */
#include "check.h"
#include <sys/wait.h>

static char *take(MPI_Aint size, char with) {
    char *memory;
    OK(MPI_Alloc_mem(size, MPI_INFO_NULL, &memory));
    memset(memory, with, size);
    return memory;
}

static void check(const char *memory, MPI_Aint size, char with) {
    for (MPI_Aint i = 0; i < size; i++)
        CHECK_EQ(memory[i], with);
}

/* Many of many sizes, of which at any time some are in use. */
static void many(void) {
    enum { PIECES = 24, TURNS = 400 };
    static char *pieces[PIECES];
    static MPI_Aint sizes[PIECES];
    unsigned random = 7;
    for (int turn = 0; turn < TURNS; turn++) {
        random = random * 1103515245 + 12345;
        int which = random / 65536 % PIECES;
        if (pieces[which]) {
            check(pieces[which], sizes[which], which);
            OK(MPI_Free_mem(pieces[which]));
            pieces[which] = NULL;
        } else {
            sizes[which] = (1 << 15) + (random / 7 % 40) * 5000;
            pieces[which] = take(sizes[which], which);
        }
    }
    for (int which = 0; which < PIECES; which++)
        if (pieces[which]) {
            check(pieces[which], sizes[which], which);
            OK(MPI_Free_mem(pieces[which]));
        }
}

/* The child has memory that its parent frees, asks for again and writes to. */
static void forked(MPI_Aint size) {
    char *memory = take(size, 1), word = 'x';
    int go[2];
    CHECK_EQ(pipe(go), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (read(go[0], &word, 1) != 1)
            _exit(1);
        for (MPI_Aint i = 0; i < size; i++)
            if (memory[i] != 1)
                _exit(2);
        _exit(0);
    }
    OK(MPI_Free_mem(memory));
    char *again = take(size, 2), *more = take(size, 3);
    CHECK_EQ(write(go[1], &word, 1), 1);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    check(again, size, 2);
    check(more, size, 3);
    OK(MPI_Free_mem(again));
    OK(MPI_Free_mem(more));
    CHECK_EQ(close(go[0]), 0);
    CHECK_EQ(close(go[1]), 0);
}

/* Others reach the memory that the window was made of, and no other. */
static void windows(MPI_Aint size) {
    int rank = world_rank(), right = (rank + 1) % world_size();
    for (int turn = 0; turn < 5; turn++) {
        char *memory = take(size - turn, 4), *other = take(size - turn, 5), mine = 10 + turn;
        MPI_Win win;
        OK(MPI_Win_create(memory, size - turn, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_fence(0, win));
        OK(MPI_Put(&mine, 1, MPI_CHAR, right, size - turn - 1, 1, MPI_CHAR, win));
        OK(MPI_Win_fence(0, win));
        CHECK_EQ(memory[size - turn - 1], mine);
        check(memory, size - turn - 1, 4);
        check(other, size - turn, 5);
        OK(MPI_Win_free(&win));
        OK(MPI_Free_mem(memory));
        OK(MPI_Free_mem(other));
    }
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    many();
    forked(1 << 20);
    forked(1 << 16);
    forked(3 << 20);
    windows(1 << 17);
    windows(2 << 20);
    /* What has been freed is no memory any more. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    char *memory = take(1 << 18, 6);
    OK(MPI_Free_mem(memory));
    CHECK_EQ(class_of(MPI_Free_mem(memory)), MPI_ERR_BASE);
    OK(MPI_Finalize());
    return 0;
}
