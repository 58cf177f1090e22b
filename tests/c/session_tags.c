/* Members of a group that call MPI_Comm_create_from_group with different strings wait for each other for ever: those who wait
 * say with what string, and which one the first member has given.
 * ranks: 3
 * variants: shm tcp
 * timeout: 25
 * idle: yes
 * exit: 3
 * stderr: in MPI_Comm_create_from_group with stringtag 'model-1' for the group's first member, process 0. Other members have called it with 'model-0'.
 * stderr: in MPI_Comm_create_from_group with stringtag 'model-2'
 * stderr: members must call it with the same stringtag and group
 */
#include "check.h"
#include <signal.h>
#include <unistd.h>

/* Ends the job once the others have waited for 10 s and have said so. */
static void end(int signal) {
    _exit(signal == SIGALRM ? 3 : 4);
}

int main(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    char tag[] = "model-0";
    int rank;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Group_rank(group, &rank));
    tag[6] += rank;
    if (rank == 2) {
        signal(SIGALRM, end);
        alarm(13);
    }
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    OK(MPI_Barrier(comm));
    return 77;
}
