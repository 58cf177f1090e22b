/* Ranks of a job, a spawned process and a rank that accepts a port send each other a word, short and within much data:
   marked WORD. Run on two ranks. */
#include "../check.h"

#define MUCH 300000

/* Sends the word from rank 0 of the group that sends to all of the other, by each way that data takes. */
static void pass(MPI_Comm comm, int from, int to, int sends, const char *word) {
    size_t length = strlen(word);
    static char data[MUCH], got[MUCH];
    for (size_t i = 0; i < MUCH; i++) {
        data[i] = word[i % (length + 1)];
    }
    for (int size = 200; size <= MUCH; size = size < MUCH ? MUCH : MUCH + 1) {
        if (sends) {
            OK(MPI_Send(data, size, MPI_CHAR, to, 3, comm));
            OK(MPI_Recv(got, size, MPI_CHAR, to, 4, comm, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Recv(got, size, MPI_CHAR, from, 3, comm, MPI_STATUS_IGNORE));
            OK(MPI_Send(got, size, MPI_CHAR, from, 4, comm));
        }
        CHECK(memcmp(got, data, (size_t)size) == 0);
    }
}

/* Writes the word to the window of rank 1, and reads it back. */
static void put(const char *word) {
    char *memory, got[200] = "";
    MPI_Win win;
    OK(MPI_Win_allocate(200, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    OK(MPI_Win_fence(0, win));
    if (world_rank() == 0) {
        OK(MPI_Put(word, (int)strlen(word) + 1, MPI_CHAR, 1, 0, (int)strlen(word) + 1, MPI_CHAR, win));
    }
    OK(MPI_Win_fence(0, win));
    if (world_rank() == 0) {
        OK(MPI_Get(got, 200, MPI_CHAR, 1, 0, 200, MPI_CHAR, win));
    }
    OK(MPI_Win_fence(0, win));
    CHECK(strcmp(world_rank() == 0 ? got : memory, word) == 0);
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    MPI_Comm parent, inter;
    OK(MPI_Init(&argc, &argv));
    CHECK(argc == 2);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        pass(parent, 0, 0, 0, argv[1]);
        OK(MPI_Comm_disconnect(&parent));
        OK(MPI_Finalize());
        return 0;
    }
    int rank = world_rank();
    pass(MPI_COMM_WORLD, 0, 1, rank == 0, argv[1]);
    put(argv[1]);
    OK(MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    if (rank == 0) {
        pass(inter, 0, 0, 1, argv[1]);
    }
    OK(MPI_Comm_disconnect(&inter));
    char port[MPI_MAX_PORT_NAME] = "";
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 5, MPI_COMM_WORLD));
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        OK(MPI_Close_port(port));
    } else {
        OK(MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    }
    pass(inter, 0, 0, rank == 0, argv[1]);
    OK(MPI_Comm_disconnect(&inter));
    if (rank == 0) {
        printf("passed\n");
    }
    OK(MPI_Finalize());
    return 0;
}
