/* Spawns a copy of itself and accepts it at a port, again and again: visited SECONDS. Each time it waits for a while in
   MPI_Comm_accept, where strangers may find the port (see flood.c). */
#include "../check.h"

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    MPI_Comm parent, other;
    char port[MPI_MAX_PORT_NAME] = "";
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        OK(MPI_Recv(port, sizeof port, MPI_CHAR, 0, 1, parent, MPI_STATUS_IGNORE));
        nap(1);
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        OK(MPI_Comm_disconnect(&other));
        OK(MPI_Comm_disconnect(&parent));
        OK(MPI_Finalize());
        return 0;
    }
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    double begin = MPI_Wtime();
    do {
        OK(MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &parent, MPI_ERRCODES_IGNORE));
        OK(MPI_Send(port, sizeof port, MPI_CHAR, 0, 1, parent));
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        FILE *file = fopen("/proc/self/status", "r");
        CHECK(file != NULL);
        fclose(file);
        OK(MPI_Comm_disconnect(&other));
        OK(MPI_Comm_disconnect(&parent));
    } while (MPI_Wtime() - begin < atof(argv[1]));
    OK(MPI_Close_port(port));
    printf("only those who were meant came\n");
    OK(MPI_Finalize());
    return 0;
}
