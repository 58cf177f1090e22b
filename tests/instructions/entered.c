/*
 * Single calls of rank 0 between two ranks, to see which functions they enter: `entered PAGE`. PAGE
 * is a file of 4096 bytes, through which the ranks tell each other what they have done.
 */
#include "counted.h"

enum { TAG = 7, CALLS = 20, LONGEST = 1 << 20 };

static const int lengths[] = {8, 8 << 10, 64 << 10, LONGEST};

enum { LENGTHS = sizeof lengths / sizeof *lengths };

static char data[LONGEST];
static MPI_Win window;

/* Messages until now, in both directions. */
static unsigned long number;

COUNTED counted_isend(int length, MPI_Request *request) {
    return MPI_Isend(data, length, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, request);
}

COUNTED counted_irecv(int length, MPI_Request *request) {
    return MPI_Irecv(data, length, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, request);
}

COUNTED counted_put(int length) {
    return MPI_Put(data, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
}

/* Ends a phase before the last call and one after it, which is named. */
static void mark(int call, const char *name, int length) {
    char title[64];
    snprintf(title, sizeof title, "%s of %d B", name ? name : "before", length);
    if (call == CALLS - 1) {
        mark_phase(name ? "real" : "warm-up", 1, title);
    }
}

/* The receiver waits for the page and not in MPI, where it would sleep and have to be woken. */
static void sends(int rank, int length) {
    for (int call = 0; call < CALLS; call++) {
        MPI_Request request;
        number++;
        if (rank == 0) {
            mark(call, NULL, 0);
            no_error(counted_isend(length, &request));
            mark(call, "Isend", length);
            publish(&page->sent, number);
            no_error(MPI_Wait(&request, MPI_STATUS_IGNORE));
            await(&page->posted, number);
        } else {
            await(&page->sent, number);
            no_error(MPI_Recv(data, length, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            publish(&page->posted, number);
        }
    }
}

static void receives(int rank, int length) {
    for (int call = 0; call < CALLS; call++) {
        MPI_Request request;
        number++;
        if (rank == 0) {
            mark(call, NULL, 0);
            no_error(counted_irecv(length, &request));
            mark(call, "Irecv", length);
            publish(&page->posted, number);
            no_error(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            await(&page->posted, number);
            no_error(MPI_Send(data, length, MPI_BYTE, 0, TAG, MPI_COMM_WORLD));
        }
    }
}

static void puts_of(int rank, int length) {
    void *memory;
    no_error(MPI_Win_allocate(LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    no_error(MPI_Win_lock_all(MPI_MODE_NOCHECK, window));
    for (int call = 0; call < CALLS && rank == 0; call++) {
        mark(call, NULL, 0);
        no_error(counted_put(length));
        mark(call, "Put", length);
        no_error(MPI_Win_flush(1, window));
    }
    no_error(MPI_Win_unlock_all(window));
    no_error(MPI_Win_free(&window));
}

int main(int argc, char **argv) {
    map_page(argc > 1 ? argv[1] : "");
    const int rank = start(0);
    for (int i = 0; i < LENGTHS; i++) {
        sends(rank, lengths[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    receives(rank, lengths[0]);
    puts_of(rank, lengths[0]);
    MPI_Finalize();
    return 0;
}
