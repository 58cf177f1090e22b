/* Performance variables of the tool interface (MPI-5.0 section 15.3.7): sessions, handles, and the counters of each
 * path.
 * ranks: 2
 */
#include "check.h"

enum { LARGE = 1 << 20, SMALL = 100 };
static int rank;
static MPI_T_pvar_session session;

static int find(const char *name, int class_) {
    int index = -1;
    OK(MPI_T_pvar_get_index(name, class_, &index));
    return index;
}

static MPI_T_pvar_handle open_(MPI_T_pvar_session in, const char *name, int class_) {
    MPI_T_pvar_handle handle = NULL;
    int count = -1;
    OK(MPI_T_pvar_handle_alloc(in, find(name, class_), NULL, &handle, &count));
    CHECK_EQ(count, 1);
    return handle;
}

static unsigned long read_(MPI_T_pvar_session in, MPI_T_pvar_handle handle) {
    unsigned long value = 12345;
    OK(MPI_T_pvar_read(in, handle, &value));
    return value;
}

static void table(void) {
    int num = 0;
    OK(MPI_T_pvar_get_num(&num));
    CHECK(num >= 10);
    for (int i = 0; i < num; i++) {
        char name[64], desc[512];
        int name_len = sizeof name, desc_len = sizeof desc, verbosity, class_, bind, readonly;
        int continuous, atomic, same;
        MPI_Datatype datatype;
        MPI_T_enum enumeration;
        OK(MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class_, &datatype, &enumeration,
                               desc, &desc_len, &bind, &readonly, &continuous, &atomic));
        CHECK(name_len == (int)strlen(name) + 1 && desc_len == (int)strlen(desc) + 1);
        CHECK(datatype == MPI_UNSIGNED_LONG && enumeration == MPI_T_ENUM_NULL);
        CHECK_EQ(bind, MPI_T_BIND_NO_OBJECT);
        CHECK(class_ >= MPI_T_PVAR_CLASS_STATE && class_ <= MPI_T_PVAR_CLASS_GENERIC);
        OK(MPI_T_pvar_get_index(name, class_, &same));
        CHECK_EQ(same, i);
        /* Another class is another variable. */
        CHECK_EQ(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_TIMER, &same),
                 MPI_T_ERR_INVALID_NAME);
        OK(MPI_T_pvar_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                               NULL));
        unsigned long value = 3;
        MPI_T_pvar_handle handle;
        OK(MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &same));
        if (continuous) {
            CHECK_EQ(MPI_T_pvar_start(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
            CHECK_EQ(MPI_T_pvar_stop(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
        } else {
            OK(MPI_T_pvar_start(session, handle));
            OK(MPI_T_pvar_stop(session, handle));
        }
        if (readonly) {
            CHECK_EQ(MPI_T_pvar_write(session, handle, &value), MPI_T_ERR_PVAR_NO_WRITE);
            CHECK_EQ(MPI_T_pvar_reset(session, handle), MPI_T_ERR_PVAR_NO_WRITE);
        } else {
            OK(MPI_T_pvar_write(session, handle, &value));
            CHECK_EQ(read_(session, handle), 3);
        }
        if (atomic) {
            OK(MPI_T_pvar_readreset(session, handle, &value));
            CHECK_EQ(value, 3);
            CHECK_EQ(read_(session, handle), 0);
        } else {
            CHECK_EQ(MPI_T_pvar_readreset(session, handle, &value), MPI_T_ERR_PVAR_NO_ATOMIC);
        }
        OK(MPI_T_pvar_handle_free(session, &handle));
        CHECK(handle == MPI_T_PVAR_HANDLE_NULL);
    }
    CHECK_EQ(MPI_T_pvar_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                 NULL, NULL),
             MPI_T_ERR_INVALID_INDEX);
}

static void wrong(void) {
    MPI_T_pvar_session other, gone;
    MPI_T_pvar_handle handle, copy;
    unsigned long value;
    int count, level = find("unexpected_messages", MPI_T_PVAR_CLASS_LEVEL);
    OK(MPI_T_pvar_session_create(&other));
    handle = open_(session, "eager_self_sent", MPI_T_PVAR_CLASS_COUNTER);
    CHECK_EQ(MPI_T_pvar_read(other, handle, &value), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_start(other, handle), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_handle_free(other, &handle), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_read(MPI_T_PVAR_SESSION_NULL, handle, &value), MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_read(session, MPI_T_PVAR_HANDLE_NULL, &value), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_read(session, MPI_T_PVAR_ALL_HANDLES, &value), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_write(session, MPI_T_PVAR_ALL_HANDLES, &value), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_readreset(session, MPI_T_PVAR_ALL_HANDLES, &value),
             MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_read(session, handle, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_write(session, handle, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_readreset(session, handle, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_handle_alloc(MPI_T_PVAR_SESSION_NULL, level, NULL, &copy, &count),
             MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, 9999, NULL, &copy, &count), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, level, NULL, NULL, &count), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_session_create(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_get_index("nothing", MPI_T_PVAR_CLASS_LEVEL, &count),
             MPI_T_ERR_INVALID_NAME);
    copy = handle;
    OK(MPI_T_pvar_handle_free(session, &handle));
    CHECK_EQ(MPI_T_pvar_handle_free(session, &handle), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_handle_free(session, &copy), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_handle_free(session, NULL), MPI_T_ERR_INVALID);
    gone = other;
    OK(MPI_T_pvar_session_free(&other));
    CHECK(other == MPI_T_PVAR_SESSION_NULL);
    CHECK_EQ(MPI_T_pvar_session_free(&other), MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_session_free(&gone), MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_start(gone, MPI_T_PVAR_ALL_HANDLES), MPI_T_ERR_INVALID_SESSION);
}

/* To oneself, so that it is known what is where when. */
static void queues(void) {
    MPI_T_pvar_handle messages = open_(session, "unexpected_messages", MPI_T_PVAR_CLASS_LEVEL);
    MPI_T_pvar_handle bytes = open_(session, "unexpected_bytes", MPI_T_PVAR_CLASS_LEVEL);
    MPI_T_pvar_handle posted = open_(session, "posted_receives", MPI_T_PVAR_CLASS_LEVEL);
    MPI_T_pvar_handle peak =
        open_(session, "unexpected_bytes_peak", MPI_T_PVAR_CLASS_HIGHWATERMARK);
    MPI_T_pvar_handle second =
        open_(session, "unexpected_bytes_peak", MPI_T_PVAR_CLASS_HIGHWATERMARK);
    unsigned long first_messages = read_(session, messages), first_bytes = read_(session, bytes);
    unsigned long first_posted = read_(session, posted);
    MPI_Request requests[3];
    char data[3 * SMALL] = {0};
    int flag;
    OK(MPI_T_pvar_start(session, peak));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Send(data, SMALL, MPI_CHAR, 0, 1, MPI_COMM_SELF));
    }
    OK(MPI_Iprobe(0, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE)); /* takes them in */
    CHECK_EQ(read_(session, messages), first_messages + 3);
    CHECK_EQ(read_(session, bytes), first_bytes + 3 * SMALL);
    CHECK(read_(session, peak) >= 3 * SMALL);
    CHECK_EQ(read_(session, second), 0); /* not started */
    for (int i = 0; i < 3; i++) {
        OK(MPI_Recv(data, SMALL, MPI_CHAR, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    }
    CHECK_EQ(read_(session, messages), first_messages);
    CHECK_EQ(read_(session, bytes), first_bytes);
    CHECK(read_(session, peak) >= 3 * SMALL);
    /* Started later, the peak of before is not its own; and it changes nothing for the first. */
    OK(MPI_T_pvar_start(session, second));
    CHECK_EQ(read_(session, second), first_bytes);
    OK(MPI_T_pvar_reset(session, second));
    CHECK(read_(session, peak) >= 3 * SMALL);
    OK(MPI_T_pvar_stop(session, second));
    OK(MPI_T_pvar_reset(session, peak));
    CHECK_EQ(read_(session, peak), first_bytes);
    for (int i = 0; i < 3; i++) {
        OK(MPI_Irecv(data + i * SMALL, SMALL, MPI_CHAR, 0, 1, MPI_COMM_SELF, &requests[i]));
    }
    CHECK_EQ(read_(session, posted), first_posted + 3);
    OK(MPI_Cancel(&requests[0]));
    CHECK_EQ(read_(session, posted), first_posted + 2);
    for (int i = 0; i < 2; i++) {
        OK(MPI_Send(data, SMALL, MPI_CHAR, 0, 1, MPI_COMM_SELF));
    }
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(read_(session, posted), first_posted);
    CHECK(read_(session, open_(session, "vcis_open", MPI_T_PVAR_CLASS_LEVEL)) >= 1);
}

/* Starting, stopping and resetting, each session for itself. */
static void counting(void) {
    MPI_T_pvar_session other;
    OK(MPI_T_pvar_session_create(&other));
    MPI_T_pvar_handle one = open_(session, "eager_self_sent", MPI_T_PVAR_CLASS_COUNTER);
    MPI_T_pvar_handle two = open_(other, "eager_self_sent", MPI_T_PVAR_CLASS_COUNTER);
    MPI_T_pvar_handle bytes = open_(other, "eager_bytes_received", MPI_T_PVAR_CLASS_AGGREGATE);
    MPI_T_pvar_handle level = open_(other, "unexpected_bytes", MPI_T_PVAR_CLASS_LEVEL);
    char data[SMALL] = {0};
    unsigned long value;
    (void)level;
    for (int round = 0; round < 4; round++) {
        if (round == 1) {
            OK(MPI_T_pvar_start(session, one));
            OK(MPI_T_pvar_start(session, one)); /* again: nothing */
        } else if (round == 2) {
            OK(MPI_T_pvar_start(other, MPI_T_PVAR_ALL_HANDLES));
        } else if (round == 3) {
            OK(MPI_T_pvar_stop(session, one));
        }
        MPI_Request request;
        OK(MPI_Irecv(data, SMALL, MPI_CHAR, 0, 1, MPI_COMM_SELF, &request));
        OK(MPI_Send(data, SMALL, MPI_CHAR, 0, 1, MPI_COMM_SELF));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    CHECK_EQ(read_(session, one), 2);
    CHECK_EQ(read_(other, two), 2);
    CHECK_EQ(read_(other, bytes), 2 * SMALL);
    value = 1000;
    OK(MPI_T_pvar_write(other, two, &value));
    OK(MPI_Sendrecv(data, 1, MPI_CHAR, 0, 1, data + 1, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF,
                    MPI_STATUS_IGNORE));
    OK(MPI_T_pvar_readreset(other, two, &value));
    CHECK_EQ(value, 1001);
    CHECK_EQ(read_(other, two), 0);
    OK(MPI_Sendrecv(data, 1, MPI_CHAR, 0, 1, data + 1, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(read_(other, two), 1);
    OK(MPI_T_pvar_reset(other, MPI_T_PVAR_ALL_HANDLES));
    CHECK_EQ(read_(other, two), 0);
    CHECK_EQ(read_(other, bytes), 0);
    CHECK_EQ(read_(session, one), 2);
    OK(MPI_T_pvar_stop(other, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_session_free(&other));
}

/* Between two processes: which way messages go depends on their size and the transport. */
static void paths(void) {
    static const char *const names[] = {"eager_shm_sent", "eager_net_sent",       "rendezvous_sent",
                                        "streamed_sent",  "single_copy_received", "unexpected_arrived"};
    enum { SHM, NET, RENDEZVOUS, STREAMED, FETCHED, UNEXPECTED, NAMES };
    MPI_T_pvar_handle handles[NAMES], sums[3];
    MPI_T_pvar_session own;
    char *data = allocate(LARGE);
    memset(data, rank, LARGE);
    OK(MPI_T_pvar_session_create(&own));
    for (int i = 0; i < NAMES; i++) {
        handles[i] = open_(own, names[i], MPI_T_PVAR_CLASS_COUNTER);
    }
    sums[0] = open_(own, "rendezvous_bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE);
    sums[1] = open_(own, "streamed_bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE);
    sums[2] = open_(own, "single_copy_bytes_received", MPI_T_PVAR_CLASS_AGGREGATE);
    barrier(MPI_COMM_WORLD);
    OK(MPI_T_pvar_start(own, MPI_T_PVAR_ALL_HANDLES));
    for (int i = 0; i < 10; i++) {
        if (rank == 0) {
            OK(MPI_Send(data, SMALL, MPI_CHAR, 1, 1, MPI_COMM_WORLD));
            OK(MPI_Send(data, LARGE, MPI_CHAR, 1, 2, MPI_COMM_WORLD));
        } else {
            OK(MPI_Recv(data, SMALL, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Recv(data, LARGE, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
    barrier(MPI_COMM_WORLD);
    unsigned long all = read_(own, handles[SHM]) + read_(own, handles[NET]);
    unsigned long mine[3] = {read_(own, handles[RENDEZVOUS]), read_(own, handles[STREAMED]),
                             read_(own, handles[FETCHED])};
    unsigned long theirs[3];
    CHECK(all >= (rank == 0 ? 10u : 1u) && all <= 12u);
    CHECK(read_(own, handles[SHM]) == 0 || read_(own, handles[NET]) == 0);
    CHECK_EQ(mine[0], rank == 0 ? 10 : 0);
    CHECK_EQ(read_(own, sums[0]), (long)mine[0] * LARGE);
    CHECK_EQ(read_(own, sums[1]), (long)mine[1] * LARGE);
    CHECK_EQ(read_(own, sums[2]), (long)mine[2] * LARGE);
    OK(MPI_Sendrecv(mine, 3, MPI_UNSIGNED_LONG, 1 - rank, 3, theirs, 3, MPI_UNSIGNED_LONG, 1 - rank,
                    3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (rank == 0) {
        CHECK_EQ(mine[1] + theirs[2], 10); /* each was read or streamed */
    } else {
        CHECK(read_(own, handles[UNEXPECTED]) <= 24);
    }
    OK(MPI_T_pvar_session_free(&own));
    free(data);
}

int main(int argc, char **argv) {
    int provided;
    unsigned long value;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    /* MPI is not up: nothing has happened. */
    MPI_T_pvar_handle early = open_(session, "eager_self_sent", MPI_T_PVAR_CLASS_COUNTER);
    OK(MPI_T_pvar_start(session, early));
    CHECK_EQ(read_(session, early), 0);
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    /* MPI runs without locks: other threads had better not look in at any time. */
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_SERIALIZED);
    OK(MPI_T_finalize());
    table();
    wrong();
    /* One after the other, so that no message of the other rank's comes in between. */
    for (int turn = 0; turn < 2; turn++) {
        if (turn == rank) {
            queues();
            OK(MPI_Send(NULL, 0, MPI_CHAR, 1 - rank, 8, MPI_COMM_WORLD));
        } else {
            OK(MPI_Recv(NULL, 0, MPI_CHAR, 1 - rank, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
    counting();
    paths();
    CHECK(read_(session, early) > 0);
    OK(MPI_Finalize());
    OK(MPI_T_pvar_read(session, early, &value));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    CHECK_EQ(MPI_T_pvar_session_create(&session), MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}
