/* Messages on different communicators never mix, nor do those of a freed one get lost.
 * ranks: 2 4
 */
#include "check.h"

enum { COMMS = 12, EACH = 40 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    MPI_Comm comms[COMMS];
    comms[0] = MPI_COMM_WORLD;
    for (int i = 1; i < COMMS; i++) {
        if (i % 3 == 2) {
            OK(MPI_Comm_split(comms[i - 2], 0, -rank, &comms[i]));
        } else {
            OK(MPI_Comm_dup(comms[i / 2], &comms[i]));
        }
    }
    static int out[COMMS][EACH], in[COMMS][EACH];
    static MPI_Request requests[2 * COMMS * EACH];
    uint64_t state = 17 + (uint64_t)rank;
    int count = 0, number, right[COMMS], left[COMMS];
    for (int c = 0; c < COMMS; c++) {
        OK(MPI_Comm_rank(comms[c], &number));
        right[c] = (number + 1) % size, left[c] = (number + size - 1) % size;
        for (int i = 0; i < EACH; i++) {
            out[c][i] = c * 1000 + i;
        }
    }
    /* All with one tag; sends in a random order of communicators, receives with wildcards in another. */
    int sent[COMMS] = {0}, posted[COMMS] = {0};
    for (int i = 0; i < COMMS * EACH; i++) {
        int c = (int)random_below(&state, COMMS);
        while (sent[c] == EACH) {
            c = (c + 1) % COMMS;
        }
        OK(MPI_Isend(&out[c][sent[c]++], 1, MPI_INT, right[c], 5, comms[c], &requests[count++]));
        c = (int)random_below(&state, COMMS);
        while (posted[c] == EACH) {
            c = (c + 1) % COMMS;
        }
        OK(MPI_Irecv(&in[c][posted[c]++], 1, MPI_INT, c % 2 ? MPI_ANY_SOURCE : left[c],
                     c % 3 ? MPI_ANY_TAG : 5, comms[c], &requests[count++]));
    }
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    for (int c = 0; c < COMMS; c++) {
        for (int i = 0; i < EACH; i++) {
            CHECK_EQ(in[c][i], c * 1000 + i);
        }
    }
    for (int c = COMMS - 1; c > 1; c--) {
        OK(MPI_Comm_free(&comms[c]));
    }

    /* Freed while operations are under way: they go on. */
    static char large_out[300000], large_in[300000];
    MPI_Request two[4];
    MPI_Comm comm = comms[1];
    int value = rank, got = -1;
    fill(large_out, sizeof large_out, (uint64_t)rank);
    OK(MPI_Irecv(large_in, sizeof large_in, MPI_CHAR, left[1], 1, comm, &two[0]));
    OK(MPI_Irecv(&got, 1, MPI_INT, left[1], 2, comm, &two[1]));
    OK(MPI_Isend(large_out, sizeof large_out, MPI_CHAR, right[1], 1, comm, &two[2]));
    OK(MPI_Isend(&value, 1, MPI_INT, right[1], 2, comm, &two[3]));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Waitall(4, two, MPI_STATUSES_IGNORE));
    CHECK_EQ(got, left[1]);
    CHECK(is_filled(large_in, sizeof large_in, (uint64_t)left[1]));
    OK(MPI_Finalize());
    return 0;
}
