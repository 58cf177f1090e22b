/* Leaders that call MPI_Intercomm_create_from_groups with different strings wait for each other for ever: both say with what
 * string, and which one the other has given. The strings of another pair of leaders are left out.
 * ranks: 4
 * variants: shm tcp
 * timeout: 25
 * idle: yes
 * exit: 3
 * stderr: in MPI_Intercomm_create_from_groups with stringtag 'model-1' for the other group's leader, process 0. It has called it with 'model-0'.
 * stderr: in MPI_Intercomm_create_from_groups with stringtag 'model-0' for the other group's leader, process 1. It has called it with 'model-1'.
 * stderr: in MPI_Intercomm_create_from_groups with stringtag 'model-3' for the other group's leader, process 0. All
 * stderr: members of both groups must call it with the same stringtag, and their leaders must name each other
 */
#include "check.h"
#include <unistd.h>

static MPI_Group only(MPI_Group all, int rank) {
    MPI_Group group;
    OK(MPI_Group_incl(all, 1, &rank, &group));
    return group;
}

int main(void) {
    MPI_Session session;
    MPI_Group all, remote;
    MPI_Comm comm;
    char tag[] = "model-0";
    int rank;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    OK(MPI_Group_rank(all, &rank));
    /* Strings that agree, between ranks that meet again below. */
    OK(MPI_Intercomm_create_from_groups(only(all, rank), 0, only(all, rank ^ 1), 0, "pair", MPI_INFO_NULL,
                                        MPI_ERRORS_ARE_FATAL, &comm));
    OK(MPI_Barrier(comm));
    if (rank == 2) {
        /* Ends the job once the others have waited for 10 s and have said so. */
        sleep(14);
        _exit(3);
    }
    /* Rank 3 waits for rank 0, which waits for rank 1. */
    remote = only(all, rank == 0);
    tag[6] += rank;
    OK(MPI_Intercomm_create_from_groups(only(all, rank), 0, remote, 0, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    return 77;
}
