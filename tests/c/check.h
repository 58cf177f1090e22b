/* What the test programs share: checks, reproducible data and random numbers, a barrier. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __GNUC__
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#endif

static UNUSED int check_rank = -1;

/* What a random run was made from, to be shown when it fails. */
static UNUSED uint64_t check_seed;

/* Ends the job if `condition` does not hold. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_failed(__FILE__, __LINE__, #condition, 0, 0, 0);                                 \
        }                                                                                          \
    } while (0)

/* The same for two integers that are to be equal, which are shown. */
#define CHECK_EQ(one, two)                                                                         \
    do {                                                                                           \
        long long check_one = (long long)(one), check_two = (long long)(two);                      \
        if (check_one != check_two) {                                                              \
            check_failed(__FILE__, __LINE__, #one " == " #two, 1, check_one, check_two);           \
        }                                                                                          \
    } while (0)

/* An MPI call that must succeed. */
#define OK(call) CHECK_EQ(call, MPI_SUCCESS)

static UNUSED void check_failed(const char *file, int line, const char *what, int numbers,
                                long long one, long long two) {
    const char *slash = strrchr(file, '/');
    fprintf(stderr, "%s:%d: rank %d: %s does not hold", slash ? slash + 1 : file, line, check_rank,
            what);
    if (numbers) {
        fprintf(stderr, ": %lld and %lld", one, two);
    }
    if (check_seed) {
        fprintf(stderr, " (WEFT_TEST_SEED=%llu)", (unsigned long long)check_seed);
    }
    fprintf(stderr, "\n");
    fflush(stderr);
    int up = 0, down = 0;
    MPI_Initialized(&up);
    MPI_Finalized(&down);
    if (up && !down) {
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    _exit(99);
}

/* The error class of a code. */
static UNUSED int class_of(int code) {
    int class_;
    OK(MPI_Error_class(code, &class_));
    return class_;
}

static UNUSED int world_rank(void) {
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &check_rank));
    return check_rank;
}

/* A barrier that rank `last` leaves last, so that what ends it then can't overtake its part of the barrier. */
static UNUSED void barrier_left_last_by(int last, MPI_Comm comm) {
    int rank, size;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Barrier(comm));
    if (rank != last) {
        OK(MPI_Send(NULL, 0, MPI_INT, last, 30001, comm));
    }
    for (int i = 1; rank == last && i < size; i++) {
        OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 30001, comm, MPI_STATUS_IGNORE));
    }
}

static UNUSED int world_size(void) {
    int size;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    return size;
}

/* Random numbers, the same for the same seed (splitmix64). */
static inline UNUSED uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* From 0 to `limit` - 1. */
static UNUSED uint64_t random_below(uint64_t *state, uint64_t limit) {
    return next_random(state) % limit;
}

/* A seed: from the environment to repeat a run, else a new one. */
static UNUSED uint64_t choose_seed(void) {
    const char *text = getenv("WEFT_TEST_SEED");
    if (text) {
        return strtoull(text, NULL, 0);
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) & 0xffffffffu;
}

/* Data that tells from where on it was made, so that shifted or mixed messages are seen. */
static UNUSED void fill(void *data, size_t size, uint64_t seed) {
    unsigned char *bytes = data;
    uint64_t state = seed;
    size_t at = 0;
    while (at + 8 <= size) {
        uint64_t word = next_random(&state);
        memcpy(bytes + at, &word, 8);
        at += 8;
    }
    uint64_t word = next_random(&state);
    memcpy(bytes + at, &word, size - at);
}

/* Whether data is as `fill` made it. */
static UNUSED int is_filled(const void *data, size_t size, uint64_t seed) {
    const unsigned char *bytes = data;
    uint64_t state = seed;
    size_t at = 0;
    while (at + 8 <= size) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        if (word != next_random(&state)) {
            return 0;
        }
        at += 8;
    }
    uint64_t word = next_random(&state);
    return memcmp(bytes + at, &word, size - at) == 0;
}

/* Whether all bytes are `value`. */
static UNUSED int all_bytes(const void *data, size_t size, int value) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != (unsigned char)value) {
            return 0;
        }
    }
    return 1;
}

static UNUSED void *allocate(size_t size) {
    void *memory = malloc(size ? size : 1);
    CHECK(memory != NULL);
    return memory;
}

static UNUSED void nap(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&time, &time) != 0) {
    }
}

#define BARRIER_TAG 32767

/* A barrier of messages, for programs that are not about collectives. */
static UNUSED void barrier(MPI_Comm comm) {
    int rank, size;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    for (int step = 1; step < size; step *= 2) {
        OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, (rank + step) % size, BARRIER_TAG, NULL, 0, MPI_BYTE,
                        (rank - step + size) % size, BARRIER_TAG, comm, MPI_STATUS_IGNORE));
    }
}

#endif
