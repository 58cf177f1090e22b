/* Without an error handler of the program an error ends the job. The message names the function and the call site, and
 * describes the error.
 * ranks: 2
 * variants: shm
 * stderr: mpiexec: rank 1 on
 * stderr: Weft: MPI_
 * case: count
 * exit: 2
 * stderr: MPI_Send(buf=0x
 * stderr: count=-1, datatype=MPI_INT, dest=0, tag=3, comm=MPI_COMM_WORLD) failed on rank 1 of 2
 * stderr: MPI_ERR_COUNT: count is -1; it must be 0 or more.
 * stderr: the error handler of MPI_COMM_WORLD is MPI_ERRORS_ARE_FATAL
 * case: buffer
 * exit: 1
 * stderr: MPI_Irecv(buf=NULL, count=5, datatype=MPI_DOUBLE, source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD, request=0x
 * stderr: MPI_ERR_BUFFER: the buffer is NULL, but 5 elements of 8 bytes
 * case: type
 * exit: 3
 * stderr: MPI_Isend(
 * stderr: MPI_ERR_TYPE: datatype is MPI_DATATYPE_NULL
 * case: tag
 * exit: 4
 * stderr: MPI_Ssend(
 * stderr: MPI_ERR_TAG: tag is -7; it must be from 0 to
 * case: comm
 * exit: 5
 * stderr: MPI_Comm_dup(comm=MPI_COMM_NULL
 * stderr: MPI_ERR_COMM: comm is MPI_COMM_NULL
 * case: rank
 * exit: 6
 * stderr: MPI_Recv(
 * stderr: MPI_ERR_RANK: source is 2; in a communicator of 2 it must be from 0 to 1
 * case: request
 * exit: 19
 * stderr: MPI_Wait(
 * stderr: MPI_ERR_REQUEST: request 0x1267 does not exist
 * case: truncate
 * exit: 14
 * stderr: MPI_Recv(
 * stderr: MPI_ERR_TRUNCATE: a message of 100 bytes from rank 0 with tag 5 arrived for a receive buffer of 40 bytes
 * case: before
 * exit: 15
 * stderr: MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=0x
 * stderr: it was called before MPI_Init
 * case: after
 * exit: 15
 * stderr: MPI_Send(
 * stderr: it was called after MPI_Finalize
 * case: twice
 * exit: 15
 * stderr: MPI_Init(
 * stderr: can be called once only
 */
#include "check.h"

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    const char *name = argv[1];
    int data[100] = {0}, rank = 1;
    MPI_Request request = 4711;
    MPI_Comm comm;
    if (strcmp(name, "before") == 0) {
        if (strcmp(getenv("PMI_RANK") ? getenv("PMI_RANK") : "1", "1") == 0) {
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        }
        nap(10);
        return 0;
    }
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    if (strcmp(name, "after") == 0) {
        OK(MPI_Finalize());
        if (rank == 1) {
            MPI_Send(data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        }
        return 0;
    }
    if (rank == 0) {
        if (strcmp(name, "truncate") == 0) {
            MPI_Send(data, 25, MPI_INT, 1, 5, MPI_COMM_WORLD);
        }
        MPI_Recv(data, 1, MPI_INT, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(name, "count") == 0) {
        MPI_Send(data, -1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    } else if (strcmp(name, "buffer") == 0) {
        MPI_Irecv(NULL, 5, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    } else if (strcmp(name, "type") == 0) {
        MPI_Isend(data, 1, MPI_DATATYPE_NULL, 0, 3, MPI_COMM_WORLD, &request);
    } else if (strcmp(name, "tag") == 0) {
        MPI_Ssend(data, 1, MPI_INT, 0, -7, MPI_COMM_WORLD);
    } else if (strcmp(name, "comm") == 0) {
        MPI_Comm_dup(MPI_COMM_NULL, &comm);
    } else if (strcmp(name, "rank") == 0) {
        MPI_Recv(data, 1, MPI_INT, 2, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(name, "request") == 0) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(name, "truncate") == 0) {
        MPI_Recv(data, 10, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(name, "twice") == 0) {
        MPI_Init(&argc, &argv);
    }
    return 77;
}
