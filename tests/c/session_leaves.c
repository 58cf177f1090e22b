/* A process that has closed its session, and so has nothing to do with others any more, does not go before what it has
 * sent is received (MPI-4.1 section 11.3.1: the sends are complete, and no receiver need hurry).
 * ranks: 2
 * timeout: 30
 */
#include "check.h"

static const int lengths[] = {100, 9000, 100000, 300000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

int main(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank;
    char *data = allocate(1 << 20);
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "leaves", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(comm, &rank));
    for (int i = 0; i < LENGTHS; i++) {
        if (rank == 0) {
            fill(data, (size_t)lengths[i], (uint64_t)i);
            OK(MPI_Send(data, lengths[i], MPI_CHAR, 1, i, comm));
        } else {
            /* The first comes long after the sender has gone, if it goes. */
            nap(i == 0 ? 3.0 : 0.2);
            OK(MPI_Recv(data, lengths[i], MPI_CHAR, 0, i, comm, MPI_STATUS_IGNORE));
            CHECK(is_filled(data, (size_t)lengths[i], (uint64_t)i));
        }
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Session_finalize(&session));
    return 0;
}
