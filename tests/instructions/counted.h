/*
 * Phases of counted calls between two ranks, one of which runs under callgrind.
 *
 * callgrind collects only inside functions called counted_*, and writes what it has collected when
 * mark_phase() is entered. Each call is made around MPI and around empty functions, with few and
 * with many iterations: the difference of the differences is the cost of the call alone. A line
 * "KIND ITERATIONS NAME" on standard output describes the phase that each mark ends.
 */
#ifndef COUNTED_H
#define COUNTED_H

#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNTED __attribute__((noinline)) int

enum { FEW = 256, MANY = 1280, WARM_UP = 256 };

/* Ends the job unless all codes of calls, combined by |, are MPI_SUCCESS. */
static void no_error(int codes) {
    if (codes != MPI_SUCCESS) {
        fprintf(stderr, "counted: MPI returned the code %d\n", codes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Writes down what was collected, and starts from zero. */
__attribute__((noinline)) void mark_phase(const char *kind, int iterations, const char *name);

void mark_phase(const char *kind, int iterations, const char *name) {
    printf("%s %d %s\n", kind, iterations, name);
}

/* Starts MPI with two ranks and returns this one. `multiple` asks for MPI_THREAD_MULTIPLE. */
static int start(int multiple) {
    int rank, size, level = MPI_THREAD_MULTIPLE;
    no_error(multiple ? MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level)
                      : MPI_Init(NULL, NULL));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2 || level != MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "counted: %d ranks with thread level %d instead of 2 with %d\n", size, level,
                MPI_THREAD_MULTIPLE);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return rank;
}

/* Counters in the page: receives that are posted, messages that are sent. */
static struct {
    unsigned long posted, sent;
} *page;

static inline void map_page(const char *path) {
    int file = open(path, O_RDWR);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || page == MAP_FAILED) {
        perror(path);
        exit(1);
    }
}

static inline void publish(unsigned long *counter, unsigned long number) {
    __atomic_store_n(counter, number, __ATOMIC_RELEASE);
}

/* Waits for a counter. The other rank may need this core. */
static inline void await(unsigned long *counter, unsigned long number) {
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < number) {
        sched_yield();
    }
}

#endif
