/* Tells the launcher's process sets that this process is in, as a session sees them, and makes a communicator of each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void good(int right, const char *what) {
    if (!right) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}

int main(void) {
    MPI_Session session;
    int count, told = 0;
    good(!MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), "session");
    good(!MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count), "number of sets");
    for (int n = 0; n < count; n++) {
        char name[MPI_MAX_PSET_NAME_LEN], text[20];
        int length = sizeof name, size, rank, flag, room = sizeof text, sum = 0;
        good(!MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, name), "name");
        if (strchr(name, ':') != NULL) {
            continue;
        }
        told++;
        MPI_Info info;
        MPI_Group group;
        MPI_Comm comm;
        good(!MPI_Session_get_pset_info(session, name, &info), "info");
        good(!MPI_Info_get_string(info, "mpi_size", &room, text, &flag) && flag, "size");
        MPI_Info_free(&info);
        good(!MPI_Group_from_session_pset(session, name, &group), "group");
        MPI_Group_size(group, &size);
        MPI_Group_rank(group, &rank);
        good(size == atoi(text), "sizes are the same");
        if (rank != MPI_UNDEFINED) {
            good(!MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), "comm");
            good(!MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm), "sum");
            good(sum == size * (size - 1) / 2, "ranks");
            MPI_Comm_free(&comm);
            printf("rank %d of %d in %s\n", rank, size, name);
        }
        MPI_Group_free(&group);
    }
    printf("%d sets\n", told);
    MPI_Group group;
    good(MPI_Group_from_session_pset(session, "nobody", &group) != MPI_SUCCESS, "a set that there is not");
    MPI_Session_finalize(&session);
    return 0;
}
