/* Communicators: communication. */
#include "call.h"

using weft::Array;

namespace MPI {

/* What a function of the C interface returned for this communicator. */
#define CHECK(code)                                \
    do {                                           \
        const int returned = (code);               \
        if (returned != MPI_SUCCESS)               \
            weft::raise_comm(handle, returned);    \
    } while (0)

void Comm::Send(const void *buf, int count, const Datatype &datatype, int dest, int tag) const
{
    CHECK(MPI_Send(buf, count, datatype, dest, tag, handle));
}

void Comm::Bsend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const
{
    CHECK(MPI_Bsend(buf, count, datatype, dest, tag, handle));
}

void Comm::Ssend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const
{
    CHECK(MPI_Ssend(buf, count, datatype, dest, tag, handle));
}

void Comm::Rsend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const
{
    CHECK(MPI_Rsend(buf, count, datatype, dest, tag, handle));
}

Request Comm::Isend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Isend(buf, count, datatype, dest, tag, handle, &request));
    return request;
}

Request Comm::Ibsend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Ibsend(buf, count, datatype, dest, tag, handle, &request));
    return request;
}

Request Comm::Issend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Issend(buf, count, datatype, dest, tag, handle, &request));
    return request;
}

Request Comm::Irsend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Irsend(buf, count, datatype, dest, tag, handle, &request));
    return request;
}

Prequest Comm::Send_init(const void *buf, int count, const Datatype &datatype, int dest,
    int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Send_init(buf, count, datatype, dest, tag, handle, &request));
    return request;
}

Prequest Comm::Bsend_init(const void *buf, int count, const Datatype &datatype, int dest,
    int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Bsend_init(buf, count, datatype, dest, tag, handle, &request));
    return request;
}

Prequest Comm::Ssend_init(const void *buf, int count, const Datatype &datatype, int dest,
    int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Ssend_init(buf, count, datatype, dest, tag, handle, &request));
    return request;
}

Prequest Comm::Rsend_init(const void *buf, int count, const Datatype &datatype, int dest,
    int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Rsend_init(buf, count, datatype, dest, tag, handle, &request));
    return request;
}

Request Comm::Irecv(void *buf, int count, const Datatype &datatype, int source, int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Irecv(buf, count, datatype, source, tag, handle, &request));
    return request;
}

Prequest Comm::Recv_init(void *buf, int count, const Datatype &datatype, int source, int tag) const
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Recv_init(buf, count, datatype, source, tag, handle, &request));
    return request;
}

void Comm::Recv(void *buf, int count, const Datatype &datatype, int source, int tag,
    Status &status) const
{
    CHECK(MPI_Recv(buf, count, datatype, source, tag, handle, &status.handle));
}

void Comm::Recv(void *buf, int count, const Datatype &datatype, int source, int tag) const
{
    CHECK(MPI_Recv(buf, count, datatype, source, tag, handle, MPI_STATUS_IGNORE));
}

void Comm::Sendrecv(const void *sendbuf, int sendcount, const Datatype &sendtype, int dest, int sendtag,
    void *recvbuf, int recvcount, const Datatype &recvtype, int source, int recvtag,
    Status &status) const
{
    CHECK(MPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
        source, recvtag, handle, &status.handle));
}

void Comm::Sendrecv(const void *sendbuf, int sendcount, const Datatype &sendtype, int dest, int sendtag,
    void *recvbuf, int recvcount, const Datatype &recvtype, int source, int recvtag) const
{
    CHECK(MPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
        source, recvtag, handle, MPI_STATUS_IGNORE));
}

void Comm::Sendrecv_replace(void *buf, int count, const Datatype &datatype, int dest, int sendtag,
    int source, int recvtag, Status &status) const
{
    CHECK(MPI_Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, handle,
        &status.handle));
}

void Comm::Sendrecv_replace(void *buf, int count, const Datatype &datatype, int dest, int sendtag,
    int source, int recvtag) const
{
    CHECK(MPI_Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, handle,
        MPI_STATUS_IGNORE));
}

void Comm::Probe(int source, int tag, Status &status) const
{
    CHECK(MPI_Probe(source, tag, handle, &status.handle));
}

void Comm::Probe(int source, int tag) const
{
    CHECK(MPI_Probe(source, tag, handle, MPI_STATUS_IGNORE));
}

bool Comm::Iprobe(int source, int tag, Status &status) const
{
    int flag = 0;
    CHECK(MPI_Iprobe(source, tag, handle, &flag, &status.handle));
    return flag != 0;
}

bool Comm::Iprobe(int source, int tag) const
{
    int flag = 0;
    CHECK(MPI_Iprobe(source, tag, handle, &flag, MPI_STATUS_IGNORE));
    return flag != 0;
}

void Comm::Barrier() const
{
    CHECK(MPI_Barrier(handle));
}

void Comm::Bcast(void *buffer, int count, const Datatype &datatype, int root) const
{
    CHECK(MPI_Bcast(buffer, count, datatype, root, handle));
}

void Comm::Gather(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
    int recvcount, const Datatype &recvtype, int root) const
{
    CHECK(MPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, handle));
}

void Comm::Gatherv(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
    const int recvcounts[], const int displs[], const Datatype &recvtype, int root) const
{
    CHECK(MPI_Gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root,
        handle));
}

void Comm::Scatter(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
    int recvcount, const Datatype &recvtype, int root) const
{
    CHECK(MPI_Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, handle));
}

void Comm::Scatterv(const void *sendbuf, const int sendcounts[], const int displs[],
    const Datatype &sendtype, void *recvbuf, int recvcount, const Datatype &recvtype, int root) const
{
    CHECK(MPI_Scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root,
        handle));
}

void Comm::Allgather(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
    int recvcount, const Datatype &recvtype) const
{
    CHECK(MPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, handle));
}

void Comm::Allgatherv(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
    const int recvcounts[], const int displs[], const Datatype &recvtype) const
{
    CHECK(MPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, handle));
}

void Comm::Alltoall(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
    int recvcount, const Datatype &recvtype) const
{
    CHECK(MPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, handle));
}

void Comm::Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[],
    const Datatype &sendtype, void *recvbuf, const int recvcounts[], const int rdispls[],
    const Datatype &recvtype) const
{
    CHECK(MPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
        handle));
}

void Comm::Alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[],
    const Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[],
    const Datatype recvtypes[]) const
{
    int inter = 0, size = 0;
    CHECK(PMPI_Comm_test_inter(handle, &inter));
    CHECK(inter ? PMPI_Comm_remote_size(handle, &size) : PMPI_Comm_size(handle, &size));
    Array<MPI_Datatype> sent(size, sendbuf == MPI_IN_PLACE ? NULL : sendtypes);
    Array<MPI_Datatype> received(size, recvtypes);
    CHECK(MPI_Alltoallw(sendbuf, sendcounts, sdispls, sent, recvbuf, recvcounts, rdispls, received,
        handle));
}

void Comm::Reduce(const void *sendbuf, void *recvbuf, int count, const Datatype &datatype, const Op &op,
    int root) const
{
    CHECK(MPI_Reduce(sendbuf, recvbuf, count, datatype, op, root, handle));
}

void Comm::Allreduce(const void *sendbuf, void *recvbuf, int count, const Datatype &datatype,
    const Op &op) const
{
    CHECK(MPI_Allreduce(sendbuf, recvbuf, count, datatype, op, handle));
}

void Comm::Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[],
    const Datatype &datatype, const Op &op) const
{
    CHECK(MPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, handle));
}

void Comm::Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount,
    const Datatype &datatype, const Op &op) const
{
    CHECK(MPI_Reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, handle));
}

void Intracomm::Scan(const void *sendbuf, void *recvbuf, int count, const Datatype &datatype,
    const Op &op) const
{
    CHECK(MPI_Scan(sendbuf, recvbuf, count, datatype, op, handle));
}

void Intracomm::Exscan(const void *sendbuf, void *recvbuf, int count, const Datatype &datatype,
    const Op &op) const
{
    CHECK(MPI_Exscan(sendbuf, recvbuf, count, datatype, op, handle));
}

} // namespace MPI
