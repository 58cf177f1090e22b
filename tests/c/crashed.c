/* A rank that crashes says where; a program's own handler stays.
 * ranks: 2
 * variants: shm
 * timeout: 20
 * case: fault
 * exit: 139
 * stderr: Weft: rank 1 of 2 (
 * stderr: got SIGSEGV at address 0x8:
 * stderr: inner
 * stderr: crashed.c:3
 * stderr: was killed by signal 11, SIGSEGV
 * case: own
 * stdout: own handler
 * stderr: exited with code 0 without calling MPI_Finalize
 */
#include "check.h"
#include <signal.h>
#include <string.h>

static void handler(int number) {
    (void)number;
    static const char text[] = "own handler\n";
    if (write(1, text, sizeof text - 1) < 0)
        _exit(1);
    _exit(0);
}

static volatile int calls;

static __attribute__((noinline)) int inner(volatile int *address) {
    calls++;
    return *address;
}

int main(int argc, char **argv) {
    int own = argc > 1 && strcmp(argv[1], "own") == 0;
    if (own)
        signal(SIGSEGV, handler);
    OK(MPI_Init(&argc, &argv));
    if (world_rank() == 1 || own)
        return inner((volatile int *)8);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    return 0;
}
