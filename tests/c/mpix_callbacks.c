/* Operations and error handlers with a state of their own, and when its destructor is called.
 * ranks: 1 2
 * local: operations and error handlers
 */
#include "fails.h"

typedef struct {
    int calls, ends, code; /* calls of the function and of the destructor, the latest error */
    int factor;
    MPI_Datatype datatype;
    MPI_Count most;
    MPI_Comm comm;
    MPI_Win win;
    MPI_File file;
    MPI_Session session;
} State;

static int rank, size;

static void end(void *extra) {
    State *state = extra;
    state->ends++;
}

/* inout = in + inout + factor, for ints. */
static void plus(void *in, void *inout, MPI_Count len, MPI_Datatype datatype, void *extra) {
    State *state = extra;
    int *a = in, *b = inout;
    CHECK_EQ(state->ends, 0);
    CHECK(datatype == state->datatype);
    state->calls++;
    if (len > state->most) state->most = len;
    int each = datatype == MPI_INT ? 1 : 2;
    for (MPI_Count i = 0; i < each * len; i++) b[i] += a[i] + state->factor;
}

static State state_of(int factor) {
    State state;
    memset(&state, 0, sizeof state);
    state.factor = factor;
    state.datatype = MPI_INT;
    return state;
}

/* By progress, at the latest. */
static void await_end(State *state) {
    for (int i = 0; i < 1000 && !state->ends; i++) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
    CHECK_EQ(state->ends, 1);
}

static void operations(void) {
    MPI_Op op, other;
    MPI_Datatype pair;
    MPI_Request request;
    State state = state_of(100), second = state_of(1000);
    int in[4] = {1, 2, 3, 4}, out[4], commutes = -1;
    int sum = size * (size + 1) / 2;

    OK(MPIX_Op_create_x(plus, end, 1, &state, &op));
    OK(MPIX_Op_create_x(plus, end, 0, &second, &other));
    OK(MPI_Op_commutative(op, &commutes));
    CHECK_EQ(commutes, 1);
    OK(MPI_Op_commutative(other, &commutes));
    CHECK_EQ(commutes, 0);

    /* Two operations of one function, each with its state. */
    int one[2] = {1, 2}, two[2] = {10, 20};
    OK(MPI_Reduce_local(one, two, 2, MPI_INT, op));
    CHECK(two[0] == 111 && two[1] == 122 && state.calls == 1 && state.most == 2);
    OK(MPI_Reduce_local(one, two, 2, MPI_INT, other));
    CHECK(two[0] == 1112 && two[1] == 1124 && second.calls == 1 && state.calls == 1);

    /* Often enough that whatever is kept for calls to come is kept. */
    for (int round = 0; round < 12; round++) {
        int mine = rank + 1;
        OK(MPI_Allreduce(&mine, out, 1, MPI_INT, op, MPI_COMM_WORLD));
        CHECK_EQ(out[0], sum + 100 * (size - 1));
        OK(MPI_Iallreduce(&mine, out, 1, MPI_INT, op, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(out[0], sum + 100 * (size - 1));
    }
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    second.datatype = pair;
    OK(MPI_Allreduce(in, out, 2, pair, other, MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++) CHECK_EQ(out[i], size * in[i] + 1000 * (size - 1));

    CHECK(state.ends == 0 && second.ends == 0);
    OK(MPI_Op_free(&op));
    CHECK_EQ(op, MPI_OP_NULL);
    CHECK(state.ends == 1 && second.ends == 0);
    OK(MPI_Op_free(&other));
    CHECK(state.ends == 1 && second.ends == 1);
    OK(MPI_Type_free(&pair));

    /* Freed while it is used: gone when that is over, and not before. */
    for (int round = 0; round < 12; round++) {
        int mine = rank + 1;
        state = state_of(5);
        OK(MPIX_Op_create_x(plus, end, 1, &state, &op));
        if (round % 3 == 2) {
            OK(MPI_Allreduce_init(&mine, out, 1, MPI_INT, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            OK(MPI_Op_free(&op));
            for (int i = 0; i < 3; i++) {
                OK(MPI_Start(&request));
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                CHECK_EQ(out[0], sum + 5 * (size - 1));
            }
            CHECK_EQ(state.ends, 0);
            OK(MPI_Request_free(&request));
        } else {
            if (rank == 0) nap(0.001);
            OK(MPI_Iallreduce(&mine, out, 1, MPI_INT, op, MPI_COMM_WORLD, &request));
            OK(MPI_Op_free(&op));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_EQ(out[0], sum + 5 * (size - 1));
        }
        await_end(&state);
        barrier(MPI_COMM_WORLD);
    }

    /* There need not be a destructor. */
    state = state_of(1);
    OK(MPIX_Op_create_x(plus, NULL, 1, &state, &op));
    OK(MPI_Reduce_local(one, two, 1, MPI_INT, op));
    CHECK_EQ(state.calls, 1);
    OK(MPI_Op_free(&op));
    CHECK_EQ(state.ends, 0);
    FAILS(MPIX_Op_create_x(NULL, end, 1, &state, &op), MPI_ERR_ARG);
    FAILS(MPIX_Op_create_x(plus, end, 1, &state, NULL), MPI_ERR_ARG);
    CHECK_EQ(state.ends, 0);
}

static void on_comm(MPI_Comm comm, int code, void *extra) {
    State *state = extra;
    CHECK_EQ(state->ends, 0);
    state->calls++;
    state->code = code;
    state->comm = comm;
}

static void on_win(MPI_Win win, int code, void *extra) {
    State *state = extra;
    state->calls++;
    state->code = code;
    state->win = win;
}

static void on_file(MPI_File file, int code, void *extra) {
    State *state = extra;
    state->calls++;
    state->code = code;
    state->file = file;
}

static void on_session(MPI_Session session, int code, void *extra) {
    State *state = extra;
    state->calls++;
    state->code = code;
    state->session = session;
}

/* Replaces itself: its state is there until it returns. */
static void on_comm_once(MPI_Comm comm, int code, void *extra) {
    State *state = extra;
    state->calls++;
    state->code = code;
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_EQ(state->ends, 0);
}

static void handlers(void) {
    MPI_Comm comm, copy;
    MPI_Win win;
    MPI_File file;
    MPI_Session session;
    MPI_Errhandler handler, again;
    char name[] = "/tmp/weft-mpix-callbacks-XXXXXX";
    int data = 0, code;
    State state = state_of(0);

    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPIX_Comm_create_errhandler_x(on_comm, end, &state, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    code = MPI_Send(&data, -1, MPI_INT, 0, 0, comm);
    CHECK_EQ(class_of(code), MPI_ERR_COUNT);
    CHECK(state.calls == 1 && state.code == code && state.comm == comm);
    OK(MPI_Comm_call_errhandler(comm, MPI_ERR_IO));
    CHECK(state.calls == 2 && state.code == MPI_ERR_IO);
    /* A communicator that is made of it has it, too; it ends with the last. */
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Comm_get_errhandler(copy, &again));
    CHECK(again == handler);
    OK(MPI_Errhandler_free(&again));
    OK(MPI_Errhandler_free(&handler));
    CHECK_EQ(handler, MPI_ERRHANDLER_NULL);
    OK(MPI_Comm_free(&comm));
    CHECK_EQ(state.ends, 0);
    FAILS(MPI_Send(&data, 1, MPI_INT, size, 0, copy), MPI_ERR_RANK);
    CHECK(state.calls == 3 && state.comm == copy);
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    await_end(&state);

    state = state_of(0);
    OK(MPIX_Comm_create_errhandler_x(on_comm_once, end, &state, &handler));
    OK(MPI_Comm_set_errhandler(copy, handler));
    OK(MPI_Errhandler_free(&handler));
    FAILS(MPI_Send(&data, 1, MPI_INT, size, 0, copy), MPI_ERR_RANK);
    CHECK_EQ(state.calls, 1);
    await_end(&state);
    FAILS(MPI_Send(&data, 1, MPI_INT, size, 0, copy), MPI_ERR_RANK);
    CHECK_EQ(state.calls, 1);

    /* Never attached, and without a destructor. */
    state = state_of(0);
    OK(MPIX_Comm_create_errhandler_x(on_comm, end, &state, &handler));
    OK(MPI_Errhandler_free(&handler));
    CHECK_EQ(state.ends, 1);
    OK(MPIX_Comm_create_errhandler_x(on_comm, NULL, &state, &handler));
    OK(MPI_Comm_set_errhandler(copy, handler));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Comm_free(&copy));
    CHECK_EQ(state.ends, 1);

    state = state_of(0);
    OK(MPI_Win_create(&data, sizeof data, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPIX_Win_create_errhandler_x(on_win, end, &state, &handler));
    FAILS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler), MPI_ERR_ERRHANDLER);
    OK(MPI_Win_set_errhandler(win, handler));
    OK(MPI_Errhandler_free(&handler));
    FAILS(MPI_Put(&data, 1, MPI_INT, size, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    CHECK(state.calls == 1 && state.win == win && class_of(state.code) == MPI_ERR_RANK);
    CHECK_EQ(state.ends, 0);
    OK(MPI_Win_free(&win));
    await_end(&state);

    state = state_of(0);
    int descriptor = mkstemp(name);
    CHECK(descriptor >= 0);
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPIX_File_create_errhandler_x(on_file, end, &state, &handler));
    OK(MPI_File_set_errhandler(file, handler));
    OK(MPI_Errhandler_free(&handler));
    FAILS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    CHECK(state.calls == 1 && state.file == file && class_of(state.code) == MPI_ERR_ARG);
    CHECK_EQ(state.ends, 0);
    OK(MPI_File_close(&file));
    await_end(&state);
    close(descriptor);
    unlink(name);

    state = state_of(0);
    OK(MPIX_Session_create_errhandler_x(on_session, end, &state, &handler));
    OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK(state.calls == 1 && state.session == session && state.code == MPI_ERR_OTHER);
    CHECK_EQ(state.ends, 0);
    OK(MPI_Session_finalize(&session));
    await_end(&state);
}

int main(int argc, char **argv) {
    static State early, late;
    MPI_Errhandler before, after;
    MPI_Op kept;
    /* Handlers are there before MPI_Init and after MPI_Finalize (MPI-4.1 section 9.3). */
    early = late = state_of(0);
    OK(MPIX_Session_create_errhandler_x(on_session, end, &early, &before));
    OK(MPI_Errhandler_free(&before));
    CHECK_EQ(early.ends, 1);
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    operations();
    handlers();
    OK(MPIX_Session_create_errhandler_x(on_session, end, &late, &after));
    OK(MPIX_Op_create_x(plus, NULL, 1, &late, &kept));
    OK(MPI_Finalize());
    CHECK_EQ(late.ends, 0);
    OK(MPI_Errhandler_free(&after));
    CHECK_EQ(late.ends, 1);
    return 0;
}
