/*
 * Counted calls that send and receive 8 bytes, and collectives: `messages PAGE SIDE [multiple]`.
 *
 * PAGE is a file of 4096 bytes, through which the ranks tell each other what they have done without
 * sending a message.
 */
#include "counted.h"

#include <time.h>

enum { SIZE = 8, TAG = 7, ACK = 9, OTHER_TAG = 8, BATCH = 16, WINDOW = 64 };

/* MPI's functions, or empty ones. */
struct calls {
    int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*irecv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*wait)(MPI_Request *, MPI_Status *);
    int (*waitall)(int, MPI_Request *, MPI_Status *);
    int (*recv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
    int (*barrier)(MPI_Comm);
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*bcast)(void *, int, MPI_Datatype, int, MPI_Comm);
    int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
    int (*allgather)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
    int (*alltoall)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
    int (*gather)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm);
    int (*scatter)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm);
};

static int none(void) {
    return 0;
}

#define NONE ((void *)none)

static const struct calls mpi = {
    MPI_Isend, MPI_Irecv,  MPI_Wait,      MPI_Waitall,  MPI_Recv,   MPI_Barrier, MPI_Allreduce,
    MPI_Bcast, MPI_Reduce, MPI_Allgather, MPI_Alltoall, MPI_Gather, MPI_Scatter,
};
static const struct calls empty = {
    NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
};

/* Read anew for each phase, so that the compiler can't tell MPI from empty functions. */
static const struct calls *volatile both[] = {&empty, &mpi};

static int rank, peer;
static char buffers[WINDOW][SIZE];
static MPI_Request requests[WINDOW];

static inline int isend(const struct calls *calls, int at) {
    return calls->isend(buffers[at], SIZE, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[at]);
}

static inline int irecv(const struct calls *calls, int at) {
    return calls->irecv(buffers[at], SIZE, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[at]);
}

static inline int wait(const struct calls *calls) {
    return calls->wait(requests, MPI_STATUS_IGNORE);
}

COUNTED counted_isend_wait(const struct calls *calls) {
    int code = isend(calls, 0);
    return code | wait(calls);
}

COUNTED counted_isend(const struct calls *calls) {
    return isend(calls, 0);
}

COUNTED counted_irecv(const struct calls *calls) {
    return irecv(calls, 0);
}

COUNTED counted_wait(const struct calls *calls) {
    return wait(calls);
}

COUNTED counted_waitall(const struct calls *calls) {
    return calls->waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

COUNTED counted_send_window(const struct calls *calls) {
    int codes = 0;
    for (int i = 0; i < WINDOW; i++) {
        codes |= isend(calls, i);
    }
    return codes | calls->waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

COUNTED counted_receive_window(const struct calls *calls) {
    int codes = 0;
    for (int i = 0; i < WINDOW; i++) {
        codes |= irecv(calls, i);
    }
    return codes;
}

static void send(int tag) {
    no_error(MPI_Send(buffers[0], SIZE, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
}

static void receive(int tag) {
    no_error(MPI_Recv(buffers[0], SIZE, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* A message by the counted rank. PART says which calls are counted. */
enum part { BOTH, START, WAIT };

static int send_one(const struct calls *calls, enum part part) {
    static int sent;
    int codes;
    if (part == BOTH) {
        codes = counted_isend_wait(calls);
    } else if (part == START) {
        codes = counted_isend(calls);
        codes |= wait(calls);
    } else {
        codes = isend(calls, 0);
        codes |= counted_wait(calls);
    }
    /* The receiver acknowledges each batch, so that it always has room. */
    if (calls == &mpi && ++sent % BATCH == 0) {
        receive(ACK);
    }
    return codes;
}

/* The message has been sent when the wait begins. */
static int receive_one(const struct calls *calls, enum part part) {
    static unsigned long received;
    int codes = part == WAIT ? irecv(calls, 0) : counted_irecv(calls);
    if (calls == &mpi) {
        publish(&page->posted, ++received);
        await(&page->sent, received);
    }
    return codes | (part == START ? wait(calls) : counted_wait(calls));
}

static int send_window(const struct calls *calls, enum part part) {
    int codes = counted_send_window(calls);
    (void)part;
    if (calls == &mpi) {
        receive(ACK);
    }
    return codes;
}

static int receive_window(const struct calls *calls, enum part part) {
    static unsigned long received;
    int codes = counted_receive_window(calls);
    (void)part;
    if (calls == &mpi) {
        publish(&page->posted, ++received);
        await(&page->sent, received);
    }
    return codes | counted_waitall(calls);
}

/* What the other rank does for `number` messages. */
static void take(unsigned long number) {
    receive(TAG);
    if (number % BATCH == 0) {
        send(ACK);
    }
}

static void give(unsigned long number) {
    await(&page->posted, number);
    send(TAG);
    publish(&page->sent, number);
}

static void take_window(unsigned long number) {
    (void)number;
    for (int i = 0; i < WINDOW; i++) {
        receive(TAG);
    }
    send(ACK);
}

static void give_window(unsigned long number) {
    await(&page->posted, number);
    for (int i = 0; i < WINDOW; i++) {
        send(TAG);
    }
    publish(&page->sent, number);
}

/* Sides of messages: the counted rank, its calls, the other rank's part, messages per call. */
static const struct side {
    const char *name;
    int counted;
    int (*call)(const struct calls *, enum part);
    void (*other)(unsigned long);
    int messages;
    const char *parts[3];
} sides[] = {
    {"send", 0, send_one, take, 1, {"Isend+Wait", "Isend", "Wait (send)"}},
    {"receive", 1, receive_one, give, 1, {"Irecv+Wait, posted", "Irecv", "Wait (receive)"}},
    {"send-window", 0, send_window, take_window, WINDOW, {"Window, send"}},
    {"receive-window", 1, receive_window, give_window, WINDOW, {"Window, receive"}},
};

static void phase(const struct side *side, enum part part, int real, int iterations) {
    const struct calls *calls = both[real];
    for (int i = 0; i < iterations; i++) {
        no_error(side->call(calls, part));
    }
}

static void run_side(const struct side *side) {
    const int few = FEW / side->messages, many = MANY / side->messages;
    const int warm_up = WARM_UP / (side->messages == 1 ? 1 : BATCH);
    if (rank != side->counted) {
        unsigned long messages = warm_up;
        for (int part = 0; part < 3; part++) {
            messages += side->parts[part] ? few + many : 0;
        }
        for (unsigned long number = 1; number <= messages; number++) {
            side->other(number);
        }
        return;
    }
    phase(side, BOTH, 1, warm_up);
    mark_phase("warm-up", warm_up, "-");
    for (int part = 0; part < 3 && side->parts[part]; part++) {
        for (int real = 0; real < 2; real++) {
            for (int n = few; n <= many; n += many - few) {
                phase(side, part, real, n);
                mark_phase(real ? "real" : "empty", n * side->messages, side->parts[part]);
            }
        }
    }
}

/*
 * Calls of rank 1 that find what they wait for. Broadcasts and scatters come from rank 0, reductions
 * and gathers go to rank 1.
 */
static const char *const blocking[] = {
    "Recv, there",     "Barrier, last",  "Allreduce, last", "Bcast, last",   "Reduce, last",
    "Allgather, last", "Alltoall, last", "Gather, last",    "Scatter, last", "Recv, passed by",
    "Allreduce, new count",
};

enum { KINDS = sizeof blocking / sizeof *blocking, RECV = 0, RECV_PASSED_BY = 9 };

/* An allreduce of another number of elements in each call, which no plan of the communicator's is for. */
enum { NEW_COUNT = 10, ELEMENTS = 128 };

COUNTED counted_blocking(const struct calls *calls, int kind, int count, long long *data) {
    static const long long given[ELEMENTS];
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_INT64_T;
    switch (kind) {
    case RECV:
    case RECV_PASSED_BY: return calls->recv(data, 1, type, 0, TAG, comm, MPI_STATUS_IGNORE);
    case 1: return calls->barrier(comm);
    case 2: return calls->allreduce(given, data, 1, type, MPI_SUM, comm);
    case 3: return calls->bcast(data, 1, type, 0, comm);
    case 4: return calls->reduce(given, data, 1, type, MPI_SUM, 1, comm);
    case 5: return calls->allgather(given, 1, type, data, 1, type, comm);
    case 6: return calls->alltoall(given, 1, type, data, 1, type, comm);
    case 7: return calls->gather(given, 1, type, data, 1, type, 1, comm);
    case NEW_COUNT: return calls->allreduce(given, data, count, type, MPI_SUM, comm);
    default: return calls->scatter(given, 1, type, data, 1, type, 0, comm);
    }
}

/* One call of both ranks, rank 1 last, some time after rank 0 if `nap`. */
static void call_last(int kind, int nap) {
    static unsigned long number;
    static int calls_of[KINDS];
    long long data[ELEMENTS];
    const int count = ++calls_of[kind];
    const int receives = kind == RECV || kind == RECV_PASSED_BY;
    number++;
    if (rank == 0) {
        if (receives) {
            send(TAG);
        }
        if (kind == RECV_PASSED_BY) {
            send(OTHER_TAG);
        }
        publish(&page->sent, number);
        if (receives) {
            await(&page->posted, number);
        } else {
            no_error(counted_blocking(both[1], kind, count, data));
        }
    } else {
        await(&page->sent, number);
        if (nap) {
            nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
        }
        if (kind == RECV_PASSED_BY) {
            receive(OTHER_TAG);
        }
        no_error(counted_blocking(both[1], kind, count, data));
        publish(&page->posted, number);
    }
}

/* Whether rank 0 has come is a matter of time, so each call has a phase of its own. */
static void run_blocking(void) {
    long long data[ELEMENTS];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 64; i++) {
            call_last(kind, 0);
        }
    }
    if (rank == 1) {
        mark_phase("warm-up", 64 * KINDS, "-");
    }
    for (int kind = 0; kind < KINDS; kind++) {
        if (rank == 1) {
            no_error(counted_blocking(both[0], kind, 1, data));
            mark_phase("empty", 1, blocking[kind]);
        }
        for (int i = 0; i < 10; i++) {
            call_last(kind, 1);
            if (rank == 1) {
                mark_phase("real", 1, blocking[kind]);
            }
        }
    }
}

int main(int argc, char **argv) {
    const char *name = argc > 2 ? argv[2] : "";
    map_page(argc > 2 ? argv[1] : "");
    rank = start(argc > 3);
    peer = 1 - rank;
    memset(buffers, 1, sizeof buffers);
    for (int i = 0; i < WINDOW; i++) {
        requests[i] = MPI_REQUEST_NULL;
    }
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        if (strcmp(sides[i].name, name) == 0) {
            run_side(&sides[i]);
        }
    }
    if (strcmp(name, "blocking") == 0) {
        run_blocking();
    }
    MPI_Finalize();
    return 0;
}
