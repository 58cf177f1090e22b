/* What tests of several ranks in a process have in common. */
#ifndef POINTS_H
#define POINTS_H
#include "fails.h"

enum { TALK_ROUNDS = 25, TALK_LARGE = 30000 };

/* Messages between all of `total` ranks, with wildcards, short and long ones. */
static inline void talk(MPI_Comm comm, int me, int total) {
    char *out = allocate(TALK_LARGE), *in = allocate(TALK_LARGE);
    for (int round = 0; round < TALK_ROUNDS; round++) {
        /* To everybody in turn, so that endpoints of one process meet too. */
        int to = (me + round) % total, from = (me + total * TALK_ROUNDS - round) % total, count;
        int bytes = round % 6 == 5 ? TALK_LARGE - me : round * 3 + me;
        uint64_t key = (uint64_t)round << 16;
        MPI_Request request;
        MPI_Status status;
        fill(out, (size_t)bytes, key + (uint64_t)me);
        OK((round % 4 ? MPI_Isend : MPI_Issend)(out, bytes, MPI_CHAR, to, round, comm, &request));
        if (round % 3 == 0) {
            OK(MPI_Probe(MPI_ANY_SOURCE, round, comm, &status));
            CHECK_EQ(status.MPI_SOURCE, from);
        }
        OK(MPI_Recv(in, TALK_LARGE, MPI_CHAR, round % 2 ? from : MPI_ANY_SOURCE, round, comm, &status));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(status.MPI_SOURCE, from);
        CHECK_EQ(count, round % 6 == 5 ? TALK_LARGE - from : round * 3 + from);
        CHECK(is_filled(in, (size_t)count, key + (uint64_t)from));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    free(out);
    free(in);
}

#endif
