/* A process that is busy with calls that never wait for long progresses a long send that it has started before.
 * MPI-5.0 section 2.9.
 * ranks: 3
 * variants: shm-2copy tcp
 * timeout: 30
 * case: messages-own
 * case: messages-one
 * case: late-own
 * case: late-one
 * case: memory-own
 * case: memory-one
 * case: collectives-own
 * case: collectives-one
 */
#include "vcis.h"

enum { BYTES = 8 << 20, ARRIVED = 1 };

/* Whether rank 2 knows, by `comm`, that rank 1 has the long message. */
static void hear(MPI_Comm comm, int *known) {
    if (!*known) {
        OK(MPI_Iprobe(1, ARRIVED, comm, known, MPI_STATUS_IGNORE));
    }
}

/* Exchanges messages until rank 2 knows. If rank 0 is late, it finds its messages and never waits. */
static void exchange(int rank, int late, MPI_Comm comm) {
    for (int done = 0, none = 0; !done;) {
        if (rank == 2) {
            OK(MPI_Recv(&none, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE));
            hear(comm, &done);
            OK(MPI_Send(&done, 1, MPI_INT, 0, 0, comm));
        } else {
            OK(MPI_Send(&none, 1, MPI_INT, 2, 0, comm));
            nap(late ? 0.0005 : 0);
            OK(MPI_Recv(&done, 1, MPI_INT, 2, 0, comm, MPI_STATUS_IGNORE));
        }
    }
}

/* Calls collectives until rank 2 knows. Rank 0 is late. */
static void agree(int rank, MPI_Comm pair, MPI_Comm comm) {
    for (int known = 0, done = 0; !done;) {
        if (rank == 2) {
            hear(comm, &known);
        } else {
            nap(0.0005);
        }
        OK(MPI_Allreduce(&known, &done, 1, MPI_INT, MPI_MAX, pair));
    }
}

/* Reads rank 0's own memory until rank 2 has changed it. */
static void look(int rank, MPI_Win win, MPI_Comm comm) {
    int value = 0, none = 0, one = 1;
    if (rank == 2) {
        OK(MPI_Probe(1, ARRIVED, comm, MPI_STATUS_IGNORE));
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        return;
    }
    while (value == 0) {
        OK(MPI_Fetch_and_op(&none, &value, MPI_INT, 0, 0, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
    }
}

int main(int argc, char **argv) {
    int provided, *base;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(argc, 2);
    int rank = world_rank();
    const char *kind = strtok(argv[1], "-");
    const char *vcis = strcmp(strtok(NULL, "-"), "own") == 0 ? "weft_num_vcis=1" : "";
    MPI_Comm first = dup_with(MPI_COMM_WORLD, vcis), second = dup_with(MPI_COMM_WORLD, vcis), pair;
    MPI_Win win;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 1, 0, &pair));
    MPI_Info info = hints(vcis);
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Info_free(&info));
    *base = 0;
    char *data = allocate(BYTES);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0) {
        fill(data, BYTES, 7);
        OK(MPI_Isend(data, BYTES, MPI_CHAR, 1, 0, first, &request));
    }
    if (rank == 1) {
        nap(0.3);
        OK(MPI_Recv(data, BYTES, MPI_CHAR, 0, 0, first, MPI_STATUS_IGNORE));
        CHECK(is_filled(data, BYTES, 7));
        OK(MPI_Send(NULL, 0, MPI_INT, 2, ARRIVED, second));
    } else if (strcmp(kind, "memory") == 0) {
        look(rank, win, second);
    } else if (strcmp(kind, "collectives") == 0) {
        agree(rank, pair, second);
    } else {
        exchange(rank, strcmp(kind, "late") == 0, second);
    }
    if (rank == 2) {
        OK(MPI_Recv(NULL, 0, MPI_INT, 1, ARRIVED, second, MPI_STATUS_IGNORE));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&pair));
    OK(MPI_Comm_free(&first));
    OK(MPI_Comm_free(&second));
    free(data);
    OK(MPI_Finalize());
    return 0;
}
