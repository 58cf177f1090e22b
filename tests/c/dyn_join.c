/* MPI_Comm_join (MPI-3.1 section 10.5.5): two ranks join over a socket of the program, which can use it again
 * afterwards; wrong sockets are errors.
 * ranks: 2
 * stdout: joined
 */
#include "fails.h"

#include <arpa/inet.h>
#include <sys/socket.h>

/* A TCP connection between the two ranks, and in each a pair of sockets. */
static int connected(int rank) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    if (rank == 0) {
        CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0);
        CHECK(getsockname(fd, (struct sockaddr *)&at, &length) == 0);
        OK(MPI_Send(&at, sizeof at, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
        int taken = accept(fd, NULL, NULL);
        CHECK(taken >= 0);
        close(fd);
        return taken;
    }
    OK(MPI_Recv(&at, sizeof at, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    int fd = connected(rank);
    for (int round = 0; round < 3; round++) {
        MPI_Comm inter, all;
        OK(MPI_Comm_join(fd, &inter));
        int size, mine = rank + 10, theirs = -1;
        OK(MPI_Comm_remote_size(inter, &size));
        CHECK_EQ(size, 1);
        OK(MPI_Sendrecv(&mine, 1, MPI_INT, 0, 1, &theirs, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
        CHECK_EQ(theirs, 11 - rank);
        OK(MPI_Intercomm_merge(inter, rank, &all));
        OK(MPI_Comm_rank(all, &mine));
        CHECK_EQ(mine, rank);
        OK(MPI_Comm_disconnect(&all));
        OK(MPI_Comm_disconnect(&inter));
        /* The socket is as it was: nothing in it, and still in blocking mode. */
        char word[6] = "";
        CHECK(write(fd, "hello", 6) == 6);
        CHECK(recv(fd, word, 6, MSG_WAITALL) == 6 && strcmp(word, "hello") == 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }

    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Comm none = MPI_COMM_SELF;
    FAILS(MPI_Comm_join(fd, NULL), MPI_ERR_ARG);
    FAILS(MPI_Comm_join(-1, &none), MPI_ERR_ARG);
    CHECK_EQ(none, MPI_COMM_NULL);
    int ends[2];
    CHECK(pipe(ends) == 0);
    FAILS(MPI_Comm_join(ends[0], &none), MPI_ERR_ARG);
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(write(pair[1], "something that is not MPI", 26) == 26);
    FAILS(MPI_Comm_join(pair[0], &none), MPI_ERR_ARG);
    close(pair[1]);
    FAILS(MPI_Comm_join(pair[0], &none), MPI_ERR_ARG);
    if (rank == 0) {
        printf("joined\n");
    }
    OK(MPI_Finalize());
    return 0;
}
