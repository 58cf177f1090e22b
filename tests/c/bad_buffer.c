/* A buffer whose memory is not fully mapped is an error of the operation on both sides if both lack the data; no
 * process counts as lost, and later messages arrive.
 * variants: shm shm-2copy tcp ofi
 * timeout: 20
 */
#include "check.h"
#include <sys/mman.h>

enum { LEN = 4 << 20, HOLE = 1 << 20, PAGE = 4096 };

static char *memory(void) {
    char *start = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    memset(start, 7, LEN);
    return start;
}

static void check_text(int code, const char *part) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    OK(MPI_Error_string(code, text, &len));
    if (!strstr(text, part))
        fprintf(stderr, "%s\n", text);
    CHECK(strstr(text, part) != NULL);
}

/* Rank 0 sends to rank 1, which rank has the bad buffer: with a page that is not there, or closed. */
static void transfer(int rank, int whose, int nonblocking, int closed) {
    char *good = memory(), *bad = memory(), *mine = rank == whose ? bad : good;
    CHECK_EQ(closed ? mprotect(bad + HOLE, PAGE, PROT_NONE) : munmap(bad + HOLE, PAGE), 0);
    int code;
    MPI_Request request;
    if (nonblocking) {
        if (rank == 0)
            OK(MPI_Isend(mine, LEN, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request));
        else
            OK(MPI_Irecv(mine, LEN, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request));
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        code = MPI_Send(mine, LEN, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
    } else {
        code = MPI_Recv(mine, LEN, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    /* A sender whose data was read, or taken, has done its part. */
    if (rank == 0 && whose == 1) {
        OK(code);
    } else {
        CHECK_EQ(class_of(code), MPI_ERR_BUFFER);
        char address[32];
        snprintf(address, sizeof address, "%p", (void *)(bad + HOLE));
        if (rank == whose)
            check_text(code, address);
        check_text(code, rank == whose ? "argument buf" : "send buffer of rank 0");
    }
    /* Nobody is lost. */
    char *other = memory();
    OK(MPI_Sendrecv(good, LEN, MPI_BYTE, 1 - rank, 6, other, LEN, MPI_BYTE, 1 - rank, 6, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* The memory stays mapped: a page closed in the midst of a range that was in use isn't always noticed. */
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int whose = 0; whose < 2; whose++)
        for (int nonblocking = 0; nonblocking < 2; nonblocking++)
            for (int closed = 0; closed < 2; closed++)
                transfer(rank, whose, nonblocking, closed);
    OK(MPI_Finalize());
    return 0;
}
