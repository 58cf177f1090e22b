/* Runs wrong programs under mpiexec -check, which reports each mistake with its call site and a remedy.
 * ranks: 2
 * variants: shm tcp
 * launcher: -check
 * cflags: -g
 * case: types
 * stderr: rank 1, MPI_Recv, called by types at
 * stderr: the receive expects 4 MPI_FLOAT, but the message from rank 0 with tag 7 has 4 MPI_INT (sent by MPI_Send, called by types at
 * stderr: use the same datatypes
 * case: types_derived
 * stderr: the receive expects 2 MPI_DOUBLE, 1 MPI_INT (1 of a datatype of MPI_Type_create_struct)
 * stderr: has 1 MPI_INT, 2 MPI_DOUBLE (1 of a datatype of MPI_Type_create_struct)
 * case: types_any
 * stderr: rank 1, MPI_Irecv, called by types_any at
 * stderr: the receive expects 1 MPI_DOUBLE, but the message from rank 0 with tag 1 has 2 MPI_INT
 * case: types_probed
 * stderr: rank 1, MPI_Mrecv, called by types_probed at
 * stderr: the receive expects 1 MPI_UNSIGNED, but the message from rank 0 with tag 3 has 1 MPI_INT
 * case: types_persistent
 * stderr: rank 1, MPI_Recv_init, called by types_persistent at
 * stderr: the receive expects 1 MPI_FLOAT
 * case: order
 * exit: 1
 * stderr: the members of MPI_COMM_WORLD call different collectives (number 1 on it):
 * stderr: rank 0: MPI_Barrier, called by order at
 * stderr: rank 1: MPI_Bcast, called by order at
 * case: order_after_types
 * exit: 1
 * stderr: the receive expects 4 MPI_FLOAT, but the message from rank 0 with tag 7 has 4 MPI_INT (sent by MPI_Send, called by order_after_types at
 * stderr: a message has other types than its receive, 1 more time than shown
 * stderr: the members of MPI_COMM_WORLD call different collectives (number 1 on it):
 * case: abort_after_types
 * exit: 3
 * stderr: the receive expects 4 MPI_FLOAT, but the message from rank 0 with tag 7 has 4 MPI_INT (sent by MPI_Send, called by abort_after_types at
 * case: roots
 * exit: 1
 * stderr: name different roots:
 * stderr: , root 1
 * case: ops
 * stderr: name different operations:
 * stderr: MPI_MAX
 * case: amounts
 * exit: 1
 * stderr: disagree about the data of MPI_Gather:
 * stderr: rank 1 gives 2 elements of 8 bytes in all (MPI_Gather, called by amounts at
 * stderr: rank 0 expects 1 elements of 4 bytes
 * case: reduced_types
 * stderr: disagree about the data of MPI_Allreduce:
 * stderr: The datatypes differ
 * case: nonblocking
 * exit: 1
 * stderr: call different collectives
 * stderr: rank 0: MPI_Ibarrier, called by nonblocking at
 * stderr: rank 1: MPI_Ibcast, called by nonblocking at
 * case: split
 * exit: 1
 * stderr: call different collectives
 * stderr: a communicator (ranks are those in it)
 * case: overlap
 * stderr: rank 1, MPI_Irecv, called by overlap at
 * stderr: is in use by an operation that is not complete (MPI_Irecv, called by overlap at
 * stderr: both write to it
 * case: overlap_send
 * stderr: this call writes to it while the other sends it
 * case: changed
 * stderr: rank 0, MPI_Isend, called by changed at
 * stderr: was changed before the operation was complete (by MPI_Wait, called by changed at
 * case: changed_long
 * stderr: was changed before the operation was complete (by MPI_Waitall, called by changed_long at
 * case: gone
 * stderr: was given back before the operation was complete
 * case: leaks
 * stderr: rank 0, MPI_Comm_dup, called by leaks at
 * stderr: a communicator was made here and not freed before MPI_Finalize; call MPI_Comm_free
 * stderr: 3 datatypes were made here
 * stderr: MPI_Group_free
 * stderr: MPI_Op_free
 * stderr: MPI_Info_free
 * stderr: MPI_Win_free
 * stderr: MPI_File_close
 * stderr: MPI_Errhandler_free
 * case: requests
 * stderr: rank 1, MPI_Irecv, called by requests at
 * stderr: a request made here was not completed before MPI_Finalize; call MPI_Wait
 * stderr: rank 0, MPI_Send_init, called by requests at
 * stderr: a persistent request made here was not freed before MPI_Finalize; call MPI_Request_free
 * case: unmatched
 * stderr: rank 1, MPI_Finalize: 2 messages from rank 0 with tag 9 (1 MPI_INT, sent by MPI_Send, called by unmatched at
 * stderr: were never received
 * case: right
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int rank;
static int ints[1 << 18];
static double doubles[64];

static void types(void)
{
    float floats[4];
    if (rank == 0)
        MPI_Send(ints, 4, MPI_INT, 1, 7, MPI_COMM_WORLD);
    else
        MPI_Recv(floats, 4, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void types_derived(void)
{
    struct { int i; double d[2]; } first = { 1, { 2, 3 } };
    struct { double d[2]; int i; } second;
    MPI_Datatype type, parts[2] = { MPI_INT, MPI_DOUBLE }, other[2] = { MPI_DOUBLE, MPI_INT };
    int lengths[2] = { 1, 2 }, other_lengths[2] = { 2, 1 };
    MPI_Aint places[2] = { 0, offsetof(__typeof__(first), d) }, other_places[2] = { 0, offsetof(__typeof__(second), i) };
    if (rank == 0) {
        MPI_Type_create_struct(2, lengths, places, parts, &type);
        MPI_Type_commit(&type);
        MPI_Send(&first, 1, type, 1, 7, MPI_COMM_WORLD);
    } else {
        MPI_Type_create_struct(2, other_lengths, other_places, other, &type);
        MPI_Type_commit(&type);
        MPI_Recv(&second, 1, type, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&type);
}

/* The receive for any tag was posted first and gets the first message, though it is completed last. */
static void types_any(void)
{
    MPI_Request requests[2];
    if (rank == 0) {
        MPI_Send(ints, 2, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Send(ints, 3, MPI_INT, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Irecv(doubles, 1, MPI_DOUBLE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(ints, 3, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
}

static void types_probed(void)
{
    if (rank == 0) {
        MPI_Send(ints, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
    } else {
        MPI_Message message;
        MPI_Mprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(ints, 1, MPI_UNSIGNED, &message, MPI_STATUS_IGNORE);
    }
}

static void types_persistent(void)
{
    float got;
    MPI_Request request;
    if (rank == 0)
        MPI_Send_init(ints, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &request);
    else
        MPI_Recv_init(&got, 1, MPI_FLOAT, 0, 3, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

static void order(void)
{
    if (rank == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        MPI_Bcast(ints, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

/* The job ends before the reports about the messages come by themselves. */
static void order_after_types(void)
{
    float floats[4];
    for (int i = 0; i < 2; i++) {
        if (rank == 0)
            MPI_Send(ints, 4, MPI_INT, 1, 7, MPI_COMM_WORLD);
        else
            MPI_Recv(floats, 4, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    order();
}

static void abort_after_types(void)
{
    float floats[4];
    if (rank == 0) {
        MPI_Send(ints, 4, MPI_INT, 1, 7, MPI_COMM_WORLD);
        MPI_Recv(ints, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(floats, 4, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void roots(void)
{
    MPI_Bcast(ints, 1, MPI_INT, rank, MPI_COMM_WORLD);
}

static void ops(void)
{
    int sum;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, rank == 0 ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD);
}

static void amounts(void)
{
    MPI_Gather(doubles, 1 + rank, MPI_FLOAT, ints, 1, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void reduced_types(void)
{
    MPI_Allreduce(doubles, doubles + 8, 1, rank == 0 ? MPI_INT : MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void nonblocking(void)
{
    MPI_Request request;
    if (rank == 0)
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
    else
        MPI_Ibcast(ints, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    /* The library may notice by itself when this rank waits. */
    if (rank == 1)
        sleep(2);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void split(void)
{
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    if (rank == 0)
        MPI_Barrier(comm);
    else
        MPI_Allreduce(&rank, ints, 1, MPI_INT, MPI_SUM, comm);
}

static void overlap(void)
{
    MPI_Request requests[2];
    if (rank == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Send(ints, 8, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Send(ints, 8, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else {
        MPI_Irecv(ints, 8, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(ints + 7, 8, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void overlap_send(void)
{
    MPI_Request request;
    MPI_Isend(ints, 4, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, &request);
    MPI_Recv(ints, 4, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void changed(void)
{
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(ints, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        ints[0] = 5;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(ints, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Of a column of a matrix. */
static void changed_long(void)
{
    MPI_Request requests[2];
    MPI_Datatype column;
    MPI_Type_vector(512, 1, 512, MPI_INT, &column);
    MPI_Type_commit(&column);
    if (rank == 0) {
        MPI_Isend(ints, 1, column, 1, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(ints + 1, 1, column, 1, 1, MPI_COMM_WORLD, &requests[1]);
        ints[2] = 4;
        ints[512 * 511 + 1] = 5;
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else {
        MPI_Recv(ints, 1, column, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(ints, 1, column, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&column);
}

static void gone(void)
{
    MPI_Request request;
    if (rank == 0) {
        int *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MPI_Isend(memory, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        munmap(memory, 4096);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(ints, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
}

static void leaks(void)
{
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Op op;
    MPI_Info info;
    MPI_Win win;
    MPI_File file;
    MPI_Errhandler handler;
    char name[64];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 3; i++)
        MPI_Type_contiguous(i, MPI_INT, &type);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Op_create(add, 1, &op);
    MPI_Info_create(&info);
    MPI_Win_create(ints, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)add, &handler);
    snprintf(name, sizeof name, "/tmp/weft-checked-%d", rank);
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    remove(name);
}

static void requests(void)
{
    MPI_Request request;
    if (rank == 0)
        MPI_Send_init(ints, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    else
        MPI_Irecv(ints, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
}

static void unmatched(void)
{
    if (rank == 0)
        for (int i = 0; i < 2; i++)
            MPI_Send(ints, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
}

/* What might look wrong and is not. */
static void right(void)
{
    MPI_Request requests[4];
    MPI_Datatype column, row;
    int peer = 1 - rank;
    /* Requests that were complete at once are alike; these are copied, too. */
    for (int i = 0; i < 4; i++) {
        MPI_Request request;
        MPI_Isend(ints + i, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &request);
        requests[3 - i] = request;
    }
    for (int i = 0; i < 4; i++)
        MPI_Recv(ints + 16 + i, 4, MPI_INT32_T, peer, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    /* Columns of a matrix lie between each other, and a part of what may come is enough. */
    MPI_Type_vector(8, 1, 8, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_contiguous(4, MPI_INT, &row);
    MPI_Type_commit(&row);
    MPI_Irecv(ints, 1, column, peer, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(ints + 1, 1, column, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(ints + 64, 2, row, peer, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(ints + 64, 3, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Type_free(&column);
    MPI_Type_free(&row);
    /* Untyped data matches any; nobody sends to nobody. */
    MPI_Sendrecv(ints, 4, MPI_INT, peer, 2, doubles, 16, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(ints, 4, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD);
    /* A receive that is cancelled. */
    int flag;
    MPI_Status status;
    MPI_Irecv(ints, 1, MPI_INT, peer, 77, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    if (!flag)
        abort();
    /* Collectives in place, with counts of their own, and nonblocking ones before blocking ones. */
    int counts[2] = { 1, 2 }, displs[2] = { 0, 1 };
    MPI_Iallreduce(MPI_IN_PLACE, ints, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Allgatherv(ints + 8, counts[rank], MPI_INT, ints + 16, counts, displs, MPI_INT, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Gather(rank == 0 ? MPI_IN_PLACE : ints, 4, MPI_INT, ints, 4, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Alltoall(ints, 2, MPI_INT, ints + 64, 1, MPI_2INT, MPI_COMM_SELF);
    MPI_Comm halves, twin;
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &halves);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    if (rank == 0)
        MPI_Barrier(halves);
    MPI_Barrier(twin);
    MPI_Comm_free(&halves);
    MPI_Comm_free(&twin);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } cases[] = {
        { "types", types }, { "types_derived", types_derived }, { "types_any", types_any },
        { "types_probed", types_probed }, { "types_persistent", types_persistent }, { "order", order },
        { "order_after_types", order_after_types }, { "abort_after_types", abort_after_types },
        { "roots", roots }, { "ops", ops }, { "amounts", amounts }, { "reduced_types", reduced_types },
        { "nonblocking", nonblocking }, { "split", split }, { "overlap", overlap },
        { "overlap_send", overlap_send }, { "changed", changed }, { "changed_long", changed_long },
        { "gone", gone }, { "leaks", leaks }, { "requests", requests }, { "unmatched", unmatched },
        { "right", right },
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            MPI_Finalize();
            return 0;
        }
    return 9;
}
