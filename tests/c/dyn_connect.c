/* MPI_Open_port, MPI_Comm_accept, MPI_Comm_connect and MPI_Comm_disconnect (MPI-3.1 sections 10.4 and 10.5.4) between
 * the halves of a job, also several times, and with wrong arguments.
 * ranks: 2 3 4
 * stdout: connected
 */
#include "fails.h"

static void talk(MPI_Comm inter, int sends)
{
    int rank, remote, data[3] = {0, 0, 0};
    MPI_Comm_rank(inter, &rank);
    OK(MPI_Comm_remote_size(inter, &remote));
    if (rank == 0) {
        MPI_Status status;
        if (sends) {
            int mine[3] = {4, 5, 6};
            OK(MPI_Ssend(mine, 3, MPI_INT, 0, 9, inter));
            OK(MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status));
            CHECK(data[0] == 77 && status.MPI_TAG == 10 && status.MPI_SOURCE == 0);
        } else {
            OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status));
            OK(MPI_Recv(data, 3, MPI_INT, 0, 9, inter, &status));
            CHECK(data[0] == 4 && data[2] == 6);
            data[0] = 77;
            OK(MPI_Send(data, 1, MPI_INT, 0, 10, inter));
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int serves = rank < (size + 1) / 2, leader = (size + 1) / 2;
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, serves, 0, &half);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);

    char port[MPI_MAX_PORT_NAME] = "";
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, leader, 0, MPI_COMM_WORLD);
    } else if (rank == leader) {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int round = 0; round < 5; round++) {
        MPI_Comm inter, both;
        if (serves)
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
        else
            OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
        int flag;
        OK(MPI_Comm_test_inter(inter, &flag));
        CHECK(flag);
        talk(inter, serves);
        OK(MPI_Intercomm_merge(inter, !serves, &both));
        int result;
        OK(MPI_Comm_compare(both, MPI_COMM_WORLD, &result));
        CHECK(result == MPI_CONGRUENT);
        OK(MPI_Barrier(both));
        OK(MPI_Comm_disconnect(&both));
        CHECK(both == MPI_COMM_NULL);
        OK(MPI_Comm_disconnect(&inter));
        CHECK(inter == MPI_COMM_NULL);
    }

    /* What is wrong. */
    MPI_Comm none = MPI_COMM_SELF;
    FAILS(MPI_Comm_accept(port, MPI_INFO_NULL, size, half, &none), MPI_ERR_ROOT);
    FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, -1, half, &none), MPI_ERR_ROOT);
    FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_NULL, &none), MPI_ERR_COMM);
    FAILS(MPI_Comm_accept("nonsense", MPI_INFO_NULL, 0, half, &none), MPI_ERR_PORT);
    CHECK(none == MPI_COMM_NULL);
    FAILS(MPI_Comm_connect("nonsense", MPI_INFO_NULL, 0, half, &none), MPI_ERR_PORT);
    FAILS(MPI_Comm_accept(NULL, MPI_INFO_NULL, 0, MPI_COMM_SELF, &none), MPI_ERR_ARG);
    FAILS(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, NULL), MPI_ERR_ARG);
    FAILS(MPI_Open_port((MPI_Info)12345, port), MPI_ERR_INFO);
    FAILS(MPI_Open_port(MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    FAILS(MPI_Close_port("nonsense"), MPI_ERR_PORT);
    FAILS(MPI_Comm_disconnect(&none), MPI_ERR_COMM);
    /* Nobody accepts; who does so later doesn't meet those who have gone. */
    MPI_Info patience;
    MPI_Info_create(&patience);
    MPI_Info_set(patience, "timeout", "1");
    none = MPI_COMM_SELF;
    if (!serves)
        FAILS(MPI_Comm_connect(port, patience, 0, half, &none), MPI_ERR_PORT);
    CHECK(serves || none == MPI_COMM_NULL);
    MPI_Info_set(patience, "timeout", "60");
    MPI_Barrier(MPI_COMM_WORLD);
    if (serves)
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &none));
    else
        OK(MPI_Comm_connect(port, patience, 0, half, &none));
    OK(MPI_Comm_disconnect(&none));
    MPI_Info_free(&patience);
    if (rank == 0) {
        OK(MPI_Close_port(port));
        FAILS(MPI_Close_port(port), MPI_ERR_PORT);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &none), MPI_ERR_PORT);

    MPI_Comm parent = MPI_COMM_SELF;
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    FAILS(MPI_Comm_get_parent(NULL), MPI_ERR_ARG);

    MPI_Comm_free(&half);
    if (rank == 0)
        printf("connected\n");
    MPI_Finalize();
    return 0;
}
