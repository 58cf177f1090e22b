/* Messages without elements need no datatype, as with MPICH and its derivatives: to a rank, to MPI_PROC_NULL,
 * persistent and partitioned. With elements MPI_DATATYPE_NULL is an error, also with MPI_PROC_NULL.
 * ranks: 1 2
 */
#include "fails.h"

static MPI_Datatype none = MPI_DATATYPE_NULL;
static MPI_Comm comm = MPI_COMM_WORLD;
static MPI_Status status;
static int data[4];

static void empty(int peer) {
    int count = -1;
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 0);
    CHECK_EQ(status.MPI_SOURCE, peer);
}

static void done(MPI_Request *request) {
    OK(MPI_Wait(request, &status));
}

static void with(int to, int from) {
    MPI_Request request, receive;
    MPI_Message message;
    OK(MPI_Irecv(data, 0, none, from, 1, comm, &receive));
    OK(MPI_Send(data, 0, none, to, 1, comm));
    done(&receive);
    empty(from);
    OK(MPI_Irecv(NULL, 0, none, from, 1, comm, &receive));
    OK(MPI_Ssend(NULL, 0, none, to, 1, comm));
    done(&receive);
    OK(MPI_Bsend(NULL, 0, none, to, 1, comm));
    OK(MPI_Recv(NULL, 0, none, from, 1, comm, &status));
    empty(from);
    OK(MPI_Rsend(NULL, 0, none, to, 1, comm));
    OK(MPI_Mprobe(from, 1, comm, &message, &status));
    OK(MPI_Mrecv(NULL, 0, none, &message, &status));
    empty(from);
    OK(MPI_Isend(NULL, 0, none, to, 1, comm, &request));
    done(&request);
    OK(MPI_Mprobe(from, 1, comm, &message, &status));
    OK(MPI_Imrecv(NULL, 0, none, &message, &receive));
    done(&receive);
    empty(from);
    OK(MPI_Irsend(NULL, 0, none, to, 1, comm, &request));
    done(&request);
    OK(MPI_Recv(data, 0, none, from, 1, comm, MPI_STATUS_IGNORE));
    OK(MPI_Ibsend(NULL, 0, none, to, 1, comm, &request));
    done(&request);
    OK(MPI_Recv(data, 0, MPI_INT, from, 1, comm, MPI_STATUS_IGNORE));
    OK(MPI_Issend(data, 0, none, to, 1, comm, &request));
    OK(MPI_Recv(data, 0, none, from, 1, comm, MPI_STATUS_IGNORE));
    done(&request);
    OK(MPI_Sendrecv(NULL, 0, none, to, 1, NULL, 0, none, from, 1, comm, &status));
    empty(from);
    OK(MPI_Sendrecv_replace(NULL, 0, none, to, 1, from, 1, comm, &status));
    empty(from);
    OK(MPI_Isendrecv(NULL, 0, none, to, 1, NULL, 0, none, from, 1, comm, &request));
    done(&request);
    empty(from);
    OK(MPI_Isendrecv_replace(NULL, 0, none, to, 1, from, 1, comm, &request));
    done(&request);
    empty(from);

    MPI_Request sends[5];
    OK(MPI_Send_init(NULL, 0, none, to, 2, comm, &sends[0]));
    OK(MPI_Bsend_init(NULL, 0, none, to, 2, comm, &sends[1]));
    OK(MPI_Rsend_init(NULL, 0, none, to, 2, comm, &sends[2]));
    OK(MPI_Ssend_init(NULL, 0, none, to, 2, comm, &sends[3]));
    OK(MPI_Psend_init(NULL, 2, 0, none, to, 3, comm, MPI_INFO_NULL, &sends[4]));
    OK(MPI_Recv_init(NULL, 0, none, from, 2, comm, &receive));
    for (int i = 0; i < 4; i++) {
        OK(MPI_Start(&receive));
        OK(MPI_Start(&sends[i]));
        done(&receive);
        empty(from);
        done(&sends[i]);
    }
    OK(MPI_Request_free(&receive));
    OK(MPI_Precv_init(NULL, 1, 0, none, from, 3, comm, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&receive));
    OK(MPI_Start(&sends[4]));
    if (to != MPI_PROC_NULL) {
        OK(MPI_Pready_range(0, 1, sends[4]));
    }
    done(&receive);
    empty(from);
    done(&sends[4]);
    OK(MPI_Request_free(&receive));
    for (int i = 0; i < 5; i++) {
        OK(MPI_Request_free(&sends[i]));
    }
}

static void wrong(int peer) {
    MPI_Request request;
    MPI_Info info = MPI_INFO_NULL;
    FAILS(MPI_Send(data, 1, none, peer, 1, comm), MPI_ERR_TYPE);
    FAILS(MPI_Irecv(data, 1, none, peer, 1, comm, &request), MPI_ERR_TYPE);
    FAILS(MPI_Recv(data, 1, none, peer, 1, comm, &status), MPI_ERR_TYPE);
    FAILS(MPI_Send(data, -1, none, peer, 1, comm), MPI_ERR_COUNT);
    FAILS(MPI_Recv_init(data, 1, none, peer, 1, comm, &request), MPI_ERR_TYPE);
    FAILS(MPI_Psend_init(data, 1, 1, none, peer, 1, comm, info, &request), MPI_ERR_TYPE);
    FAILS(MPI_Precv_init(data, 1, 1, none, peer, 1, comm, info, &request), MPI_ERR_TYPE);
    FAILS(MPI_Isendrecv(data, 1, none, peer, 1, data, 0, none, peer, 1, comm, &request),
          MPI_ERR_TYPE);
}

int main(int argc, char **argv) {
    static char attached[MPI_BSEND_OVERHEAD * 4];
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Buffer_attach(attached, sizeof attached));
    with((rank + 1) % size, (rank + size - 1) % size);
    with(MPI_PROC_NULL, MPI_PROC_NULL);
    wrong(rank);
    wrong(MPI_PROC_NULL);
    OK(MPI_Finalize());
    return 0;
}
