/* Accumulates with empty datatypes have no effect for any operation: their elements have no predefined datatype, which
 * does not count as several.
 *
 * ranks: 1 2
 * variants: shm tcp
 */
#include "rma.h"

static MPI_Datatype empty(int how)
{
    MPI_Datatype type;
    int none[2] = {0, 0};
    MPI_Aint at[2] = {0, 16};
    MPI_Datatype mixed[2] = {MPI_INT, MPI_DOUBLE};
    if (how == 0) {
        OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &type));
    } else {
        OK(MPI_Type_create_struct(2, none, at, mixed, &type));
    }
    OK(MPI_Type_commit(&type));
    return type;
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), to = (rank + 1) % world_size();
    for (int kind = CREATED; kind < KINDS; kind++) {
        struct window w = window_make((enum kind)kind, 64, 1);
        for (int how = 0; how < 2; how++) {
            MPI_Datatype type = empty(how);
            int one = 1, two = 2;
            MPI_Aint at = w.start[to];
            MPI_Request request;
            OK(MPI_Win_lock_all(0, w.win));
            OK(MPI_Accumulate(&one, 1, type, to, at, 3, type, MPI_SUM, w.win));
            OK(MPI_Accumulate(&one, 0, MPI_INT, to, at, 1, type, MPI_REPLACE, w.win));
            OK(MPI_Get_accumulate(&one, 1, type, &two, 1, type, to, at, 1, type, MPI_BAND, w.win));
            OK(MPI_Get_accumulate(NULL, 0, MPI_INT, &two, 1, type, to, at, 1, type, MPI_NO_OP, w.win));
            OK(MPI_Raccumulate(&one, 1, type, to, at, 1, type, MPI_MAX, w.win, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            OK(MPI_Rget_accumulate(&one, 1, type, &two, 0, MPI_INT, to, at, 1, type, MPI_PROD, w.win,
                                   &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            OK(MPI_Win_unlock_all(w.win));
            CHECK_EQ(two, 2);
            OK(MPI_Type_free(&type));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < 64; i++) {
            CHECK_EQ(w.base[i], 0);
        }
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
