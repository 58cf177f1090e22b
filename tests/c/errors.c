/* Wrong arguments give errors of the right class and with a text, and do no harm.
 * ranks: 1 2
 * variants: shm ofi single
 */
#include "check.h"

static int data[8];

#define FAILS(class_, call)                                                                        \
    do {                                                                                           \
        int code = call;                                                                           \
        char text[MPI_MAX_ERROR_STRING] = "";                                                      \
        int length = -1;                                                                           \
        CHECK(code != MPI_SUCCESS);                                                                \
        CHECK_EQ(class_of(code), class_);                                                          \
        OK(MPI_Error_string(code, text, &length));                                                 \
        CHECK(length > 10 && length < MPI_MAX_ERROR_STRING);                                       \
        CHECK_EQ(length, strlen(text));                                                            \
    } while (0)

/* Handles that nobody ever gave out. */
static const int garbage[] = {0, 1, -1, 12345, 0x7fffffff, -2147483647 - 1, 0x44000002, 0x4c0000ff,
                              (int)0x84000000u, (int)0x84ffffffu, (int)0x8c00ffffu, (int)0x98000000u,
                              (int)0xac000000u, (int)0x5c000000u};

static void sends(MPI_Comm comm, int size) {
    MPI_Request request = 4711;
    for (int way = 0; way < 8; way++) {
#define SEND(class_, buffer, count, type, dest, tag, comm)                                         \
    switch (way) {                                                                                 \
    case 0:                                                                                        \
        FAILS(class_, MPI_Send(buffer, count, type, dest, tag, comm));                             \
        break;                                                                                     \
    case 1:                                                                                        \
        FAILS(class_, MPI_Ssend(buffer, count, type, dest, tag, comm));                            \
        break;                                                                                     \
    case 2:                                                                                        \
        FAILS(class_, MPI_Rsend(buffer, count, type, dest, tag, comm));                            \
        break;                                                                                     \
    case 3:                                                                                        \
        FAILS(class_, MPI_Bsend(buffer, count, type, dest, tag, comm));                            \
        break;                                                                                     \
    case 4:                                                                                        \
        FAILS(class_, MPI_Isend(buffer, count, type, dest, tag, comm, &request));                  \
        break;                                                                                     \
    case 5:                                                                                        \
        FAILS(class_, MPI_Issend(buffer, count, type, dest, tag, comm, &request));                 \
        break;                                                                                     \
    case 6:                                                                                        \
        FAILS(class_, MPI_Irsend(buffer, count, type, dest, tag, comm, &request));                 \
        break;                                                                                     \
    default:                                                                                       \
        FAILS(class_, MPI_Ibsend(buffer, count, type, dest, tag, comm, &request));                 \
    }
        SEND(MPI_ERR_COUNT, data, -1, MPI_INT, 0, 0, comm);
        SEND(MPI_ERR_BUFFER, NULL, 1, MPI_INT, 0, 0, comm);
        SEND(MPI_ERR_RANK, data, 1, MPI_INT, size, 0, comm);
        SEND(MPI_ERR_RANK, data, 1, MPI_INT, -5, 0, comm);
        SEND(MPI_ERR_RANK, data, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm);
        SEND(MPI_ERR_TAG, data, 1, MPI_INT, 0, -1, comm);
        SEND(MPI_ERR_TAG, data, 1, MPI_INT, 0, MPI_ANY_TAG, comm);
        SEND(MPI_ERR_TYPE, data, 1, MPI_DATATYPE_NULL, 0, 0, comm);
        SEND(MPI_ERR_COMM, data, 1, MPI_INT, 0, 0, MPI_COMM_NULL);
        for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
            SEND(MPI_ERR_COMM, data, 1, MPI_INT, 0, 0, (MPI_Comm)garbage[i]);
            SEND(MPI_ERR_TYPE, data, 1, (MPI_Datatype)garbage[i], 0, 0, comm);
        }
    }
    CHECK_EQ(request, 4711);
    FAILS(MPI_ERR_ARG, MPI_Isend(data, 1, MPI_INT, 0, 0, comm, NULL));
}

static void receives(MPI_Comm comm, int size) {
    MPI_Request request = 4711;
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    int flag;
    FAILS(MPI_ERR_COUNT, MPI_Recv(data, -1, MPI_INT, 0, 0, comm, &status));
    FAILS(MPI_ERR_BUFFER, MPI_Recv(NULL, 1, MPI_INT, 0, 0, comm, &status));
    FAILS(MPI_ERR_RANK, MPI_Recv(data, 1, MPI_INT, size, 0, comm, &status));
    FAILS(MPI_ERR_RANK, MPI_Recv(data, 1, MPI_INT, -17, 0, comm, &status));
    FAILS(MPI_ERR_TAG, MPI_Recv(data, 1, MPI_INT, 0, -2, comm, &status));
    FAILS(MPI_ERR_TYPE, MPI_Recv(data, 1, MPI_DATATYPE_NULL, 0, 0, comm, &status));
    FAILS(MPI_ERR_COMM, MPI_Recv(data, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &status));
    FAILS(MPI_ERR_COUNT, MPI_Irecv(data, -1, MPI_INT, 0, 0, comm, &request));
    FAILS(MPI_ERR_BUFFER, MPI_Irecv(NULL, 1, MPI_INT, 0, 0, comm, &request));
    FAILS(MPI_ERR_RANK, MPI_Irecv(data, 1, MPI_INT, size, 0, comm, &request));
    FAILS(MPI_ERR_TAG, MPI_Irecv(data, 1, MPI_INT, 0, -2, comm, &request));
    FAILS(MPI_ERR_RANK, MPI_Probe(size, 0, comm, &status));
    FAILS(MPI_ERR_TAG, MPI_Probe(0, -2, comm, &status));
    FAILS(MPI_ERR_RANK, MPI_Iprobe(-9, 0, comm, &flag, &status));
    FAILS(MPI_ERR_COMM, MPI_Iprobe(0, 0, MPI_COMM_NULL, &flag, &status));
    FAILS(MPI_ERR_ARG, MPI_Iprobe(0, 0, comm, NULL, &status));
    FAILS(MPI_ERR_RANK, MPI_Mprobe(size, 0, comm, &message, &status));
    FAILS(MPI_ERR_TAG, MPI_Improbe(0, -2, comm, &flag, &message, &status));
    FAILS(MPI_ERR_REQUEST, MPI_Mrecv(data, 1, MPI_INT, &message, &status));
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        FAILS(MPI_ERR_COMM, MPI_Recv(data, 1, MPI_INT, 0, 0, (MPI_Comm)garbage[i], &status));
        FAILS(MPI_ERR_TYPE, MPI_Recv(data, 1, (MPI_Datatype)garbage[i], 0, 0, comm, &status));
        message = (MPI_Message)garbage[i];
        FAILS(MPI_ERR_REQUEST, MPI_Mrecv(data, 1, MPI_INT, &message, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Imrecv(data, 1, MPI_INT, &message, &request));
    }
    CHECK_EQ(request, 4711);
    FAILS(MPI_ERR_COUNT, MPI_Sendrecv(data, 1, MPI_INT, 0, 0, data + 1, -3, MPI_INT, 0, 0, comm,
                                      &status));
    FAILS(MPI_ERR_RANK, MPI_Sendrecv(data, 1, MPI_INT, 0, 0, data + 1, 1, MPI_INT, size, 0, comm,
                                     &status));
    FAILS(MPI_ERR_TAG, MPI_Sendrecv_replace(data, 1, MPI_INT, 0, -1, 0, 0, comm, &status));
    int count;
    FAILS(MPI_ERR_TYPE, MPI_Get_count(&status, MPI_DATATYPE_NULL, &count));
    FAILS(MPI_ERR_ARG, MPI_Get_count(&status, MPI_INT, NULL));
}

static void requests(MPI_Comm comm) {
    MPI_Request request, array[3];
    MPI_Status status, statuses[3];
    int flag, index, count, indices[3];
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        request = (MPI_Request)garbage[i];
        FAILS(MPI_ERR_REQUEST, MPI_Wait(&request, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Test(&request, &flag, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Request_free(&request));
        FAILS(MPI_ERR_REQUEST, MPI_Cancel(&request));
        FAILS(MPI_ERR_REQUEST, MPI_Request_get_status(request, &flag, &status));
        array[0] = array[2] = MPI_REQUEST_NULL, array[1] = request;
        FAILS(MPI_ERR_REQUEST, MPI_Waitall(3, array, statuses));
        FAILS(MPI_ERR_REQUEST, MPI_Testall(3, array, &flag, statuses));
        FAILS(MPI_ERR_REQUEST, MPI_Waitany(3, array, &index, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Testany(3, array, &index, &flag, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Waitsome(3, array, &count, indices, statuses));
        FAILS(MPI_ERR_REQUEST, MPI_Testsome(3, array, &count, indices, statuses));
    }
    request = MPI_REQUEST_NULL;
    FAILS(MPI_ERR_REQUEST, MPI_Request_free(&request));
    FAILS(MPI_ERR_REQUEST, MPI_Cancel(&request));
    FAILS(MPI_ERR_COUNT, MPI_Waitall(-1, array, statuses));
    FAILS(MPI_ERR_ARG, MPI_Waitall(1, NULL, statuses));
    FAILS(MPI_ERR_ARG, MPI_Wait(NULL, &status));
    /* A handle that was one, and is used once more. */
    MPI_Request old;
    OK(MPI_Irecv(data, 1, MPI_INT, MPI_ANY_SOURCE, 77, comm, &request));
    old = request;
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    FAILS(MPI_ERR_REQUEST, MPI_Wait(&old, &status));
}

static void communicators(void) {
    MPI_Comm comm, copy;
    int value;
    char name[MPI_MAX_OBJECT_NAME];
    for (size_t i = 0; i <= sizeof garbage / sizeof *garbage; i++) {
        MPI_Comm wrong = i == 0 ? MPI_COMM_NULL : (MPI_Comm)garbage[i - 1];
        FAILS(MPI_ERR_COMM, MPI_Comm_rank(wrong, &value));
        FAILS(MPI_ERR_COMM, MPI_Comm_size(wrong, &value));
        FAILS(MPI_ERR_COMM, MPI_Comm_dup(wrong, &copy));
        FAILS(MPI_ERR_COMM, MPI_Comm_split(wrong, 0, 0, &copy));
        FAILS(MPI_ERR_COMM, MPI_Comm_free(&wrong));
        FAILS(MPI_ERR_COMM, MPI_Comm_compare(wrong, MPI_COMM_WORLD, &value));
        FAILS(MPI_ERR_COMM, MPI_Comm_compare(MPI_COMM_WORLD, wrong, &value));
        /* The null handle has a name (MPI-4.1 section 7.8). */
        if (wrong != MPI_COMM_NULL)
            FAILS(MPI_ERR_COMM, MPI_Comm_get_name(wrong, name, &value));
        FAILS(MPI_ERR_COMM, MPI_Barrier(wrong));
    }
    FAILS(MPI_ERR_ARG, MPI_Comm_rank(MPI_COMM_WORLD, NULL));
    FAILS(MPI_ERR_ARG, MPI_Comm_dup(MPI_COMM_SELF, NULL));
    FAILS(MPI_ERR_ARG, MPI_Comm_split(MPI_COMM_SELF, -7, 0, &copy));
    FAILS(MPI_ERR_ARG, MPI_Comm_split_type(MPI_COMM_SELF, 12345, 0, MPI_INFO_NULL, &copy));
    comm = MPI_COMM_WORLD;
    FAILS(MPI_ERR_COMM, MPI_Comm_free(&comm));
    comm = MPI_COMM_SELF;
    FAILS(MPI_ERR_COMM, MPI_Comm_free(&comm));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    copy = comm;
    OK(MPI_Comm_free(&comm));
    FAILS(MPI_ERR_COMM, MPI_Comm_rank(copy, &value));
    FAILS(MPI_ERR_COMM, MPI_Send(data, 1, MPI_INT, 0, 0, copy));
    FAILS(MPI_ERR_COMM, MPI_Comm_free(&copy));
    FAILS(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL));
    FAILS(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_WORLD, (MPI_Errhandler)4711));
}

/* Every class has a text with its name; other numbers are errors. */
static void texts(void) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class_;
    for (int code = 0; code <= 54; code++) {
        if (MPI_Error_class(code, &class_) == MPI_SUCCESS) {
            CHECK_EQ(class_, code);
            OK(MPI_Error_string(code, text, &length));
            CHECK(strncmp(text, "MPI", 3) == 0);
        }
    }
    FAILS(MPI_ERR_ARG, MPI_Error_class(-3, &class_));
    FAILS(MPI_ERR_ARG, MPI_Error_string(2147483647, text, &length));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int size = world_size(), rank = world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    sends(MPI_COMM_WORLD, size);
    receives(MPI_COMM_WORLD, size);
    requests(MPI_COMM_WORLD);
    communicators();
    texts();
    /* Nothing of all that has been sent, and communication works. */
    int flag = -1, got = -1;
    MPI_Comm quiet;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &quiet));
    barrier(quiet);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    barrier(quiet);
    OK(MPI_Comm_free(&quiet));
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT,
                    (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(got, (rank + size - 1) % size);
    /* A send of nothing needs no buffer. */
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, rank, 0, NULL, 0, MPI_INT, rank, 0, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    OK(MPI_Finalize());
    return 0;
}
