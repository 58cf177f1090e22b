/* A first session opened after MPI_Finalize (MPI-4.1 chapter 11): between hosts its processes need addresses that were
 * not exchanged before.
 * ranks: 1 2 5
 * variants: shm tcp hosts */
#include "fails.h"

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int size, sum, one = 1;
    OK(MPI_Init(&argc, &argv));
    world_rank();
    OK(MPI_Finalize());
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Group_size(group, &size));
    OK(MPI_Comm_create_from_group(group, "after", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    return 0;
}
