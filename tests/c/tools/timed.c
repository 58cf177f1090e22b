/* What the profile library is to show: rank 0 comes late to each reduction, and data goes around. */
#include <mpi.h>
#include <unistd.h>

enum { ROUNDS = 20, BYTES = 1000, MANY = 10000 };

int main(int argc, char **argv) {
    int rank, size;
    double in = 1, sum;
    static char data[BYTES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        if (rank == 0)
            usleep(5000);
        MPI_Allreduce(&in, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Irecv(data, BYTES, MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &request);
        MPI_Send(data, BYTES, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    /* More than goes into one piece of the timeline. */
    for (int i = 0, inter; i < MANY; i++)
        MPI_Comm_test_inter(MPI_COMM_WORLD, &inter);
    /* Datatypes of other sizes, of which each may have the handle that the one before had, however that was freed. */
    for (int i = 0; i < 4; i++) {
        static char more[3000];
        static const int bytes[] = {1000, 3000, 500, 2500};
        MPI_Datatype type;
        MPI_Type_contiguous(bytes[i], MPI_BYTE, &type);
        MPI_Type_commit(&type);
        MPI_Bcast(more, 1, type, 0, MPI_COMM_WORLD);
        MPI_Bcast(more, 1, type, 0, MPI_COMM_WORLD);
        if (i % 2 == 0)
            MPI_Type_free(&type);
        else
            PMPI_Type_free(&type);
    }
    return MPI_Finalize();
}
