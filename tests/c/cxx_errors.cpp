/* Whose error handler throws (MPI-2.2, sections 8.3 and 16.1.8): that of the communicator that an operation
 * was started on, also in a wait for it; that of MPI::COMM_SELF or MPI::COMM_WORLD for what belongs to no
 * object; and nothing that a handler of the program's has dealt with, which is called once.
 * ranks: 1 2
 * variants: shm
 * throws: yes
 */
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            std::fprintf(stderr, "line %d: %s is not so\n", __LINE__, #condition);    \
            std::abort();                                                             \
        }                                                                             \
    } while (0)

/* The class of what a statement throws. */
#define THROWN(statement)                              \
    do {                                               \
        thrown = MPI::SUCCESS;                         \
        try {                                          \
            statement;                                 \
        } catch (MPI::Exception & error) {             \
            thrown = error.Get_error_class();          \
        }                                              \
    } while (0)

static int thrown, handled;

static void handle(MPI::Comm &, int *code, ...)
{
    CHECK(MPI::Get_error_class(*code) == MPI::ERR_TRUNCATE || MPI::Get_error_class(*code) == MPI::ERR_TAG);
    handled++;
}

struct Own {
    int code;
};

static void own(MPI::Win &, int *code, ...)
{
    Own error = {*code};
    throw error;
}

static const int sent[4] = {1, 2, 3, 4};
static int received;

/* A receive that is too short, and what it needs. */
static MPI::Request too_short(const MPI::Comm &comm)
{
    const int rank = comm.Get_rank();
    MPI::Request request = comm.Irecv(&received, 1, MPI::INT, rank, 3);
    comm.Send(sent, 4, MPI::INT, rank, 3);
    return request;
}

/* The handler of MPI::COMM_WORLD is another one here, and must not be called. */
static void waits(MPI::Intracomm &comm)
{
    MPI::Status status, statuses[2];
    MPI::Request request = too_short(comm);
    THROWN(request.Wait());
    CHECK(thrown == MPI::ERR_TRUNCATE && request == MPI::REQUEST_NULL);
    request = too_short(comm);
    THROWN(request.Wait(status));
    CHECK(thrown == MPI::ERR_TRUNCATE);
    request = too_short(comm);
    THROWN(while (!request.Test(status)) {});
    CHECK(thrown == MPI::ERR_TRUNCATE);
    MPI::Request both[2];
    both[1] = too_short(comm);
    THROWN(MPI::Request::Waitany(2, both, status));
    CHECK(thrown == MPI::ERR_TRUNCATE && both[1] == MPI::REQUEST_NULL);
    both[0] = too_short(comm);
    THROWN(MPI::Request::Waitall(2, both, statuses));
    CHECK(thrown == MPI::ERR_IN_STATUS && both[0] == MPI::REQUEST_NULL);
    CHECK(MPI::Get_error_class(statuses[0].Get_error()) == MPI::ERR_TRUNCATE);
    CHECK(statuses[1].Get_error() == MPI::SUCCESS);
}

/* The communicator is freed before the wait. */
static void freed()
{
    MPI::Intracomm comm = MPI::COMM_SELF.Dup();
    comm.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    MPI::Request request = too_short(comm);
    comm.Free();
    THROWN(request.Wait());
    CHECK(thrown == MPI::ERR_TRUNCATE);
}

static void others(MPI::Intracomm &comm)
{
    /* What its own handler deals with is not thrown because that of MPI::COMM_WORLD throws. */
    MPI::COMM_WORLD.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    comm.Set_errhandler(MPI::ERRORS_RETURN);
    MPI::Request request = too_short(comm);
    THROWN(request.Wait());
    CHECK(thrown == MPI::SUCCESS);
    THROWN(comm.Call_errhandler(MPI::ERR_TAG));
    CHECK(thrown == MPI::SUCCESS);

    MPI::Errhandler handler = MPI::Comm::Create_errhandler(handle);
    comm.Set_errhandler(handler);
    handler.Free();
    request = too_short(comm);
    THROWN(request.Wait());
    CHECK(thrown == MPI::SUCCESS && handled == 1);
    THROWN(comm.Call_errhandler(MPI::ERR_TAG));
    CHECK(thrown == MPI::SUCCESS && handled == 2);
    comm.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    THROWN(comm.Call_errhandler(MPI::ERR_TAG));
    CHECK(thrown == MPI::ERR_TAG && handled == 2);
}

/* What belongs to no object, or to one that is not there. */
static void objects(MPI::Intracomm &comm)
{
    THROWN(MPI::INT.Create_contiguous(-1));
    CHECK(thrown == MPI::ERR_COUNT);
    MPI::Intracomm gone = comm.Dup(), name = gone;
    gone.Free();
    THROWN(name.Barrier());
    CHECK(thrown == MPI::ERR_COMM);
    THROWN(name.Call_errhandler(MPI::ERR_TAG));
    CHECK(thrown == MPI::ERR_COMM);

    MPI::COMM_WORLD.Set_errhandler(MPI::ERRORS_RETURN);
    THROWN(MPI::INT.Create_contiguous(-1));
    CHECK(thrown == MPI::SUCCESS);
    MPI::COMM_SELF.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    THROWN(MPI::INT.Create_contiguous(-1));
    CHECK(thrown == MPI::ERR_COUNT);
}

static int calls;

static void count(MPI::Comm &, int *, ...)
{
    calls++;
}

#define CALLS(statement)       \
    do {                       \
        calls = 0;             \
        statement;             \
        CHECK(calls == 1);     \
    } while (0)

/* One error is one call of the handler. */
static void once(MPI::Intracomm &comm)
{
    MPI::Errhandler handler = MPI::Comm::Create_errhandler(count);
    comm.Set_errhandler(handler);
    MPI::COMM_SELF.Set_errhandler(handler);
    MPI::COMM_WORLD.Set_errhandler(handler);
    handler.Free();
    MPI::Intracomm twin = MPI::COMM_SELF.Dup(), gone = twin;
    twin.Free();

    MPI::Cartcomm grids[3] = {MPI_Comm(comm), MPI_COMM_NULL, MPI_Comm(gone)};
    MPI::Datatype types[4], none;
    MPI::Aint addresses[4];
    int numbers[4] = {0, 0, 0, 0}, ranks[4] = {0, 0, 0, 0};
    bool truths[4] = {false, false, false, false};
    for (int i = 0; i < 3; i++) {
        CALLS(grids[i].Get_dim());
        CALLS(grids[i].Get_topo(4, numbers, truths, ranks));
        CALLS(grids[i].Sub(truths));
    }
    for (int i = 1; i < 3; i++) {
        CALLS(grids[i].Alltoallw(NULL, numbers, numbers, types, NULL, numbers, numbers, types));
        CALLS(grids[i].Spawn_multiple(1, NULL, NULL, numbers, NULL, 0));
    }
    CALLS(none.Get_contents(4, 4, 4, numbers, addresses, types));
    CALLS(MPI::INT.Get_contents(4, 4, 4, numbers, addresses, types));
    MPI::COMM_SELF.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
}

static void windows(MPI::Intracomm &comm)
{
    int memory = 0;
    MPI::Win win = MPI::Win::Create(&memory, sizeof memory, 1, MPI::INFO_NULL, comm);
    win.Set_errhandler(MPI::Win::Create_errhandler(own));
    int code = MPI::SUCCESS;
    try {
        win.Put(&memory, -1, MPI::INT, 0, 0, 1, MPI::INT);
    } catch (Own &error) {
        code = error.code;
    }
    CHECK(MPI::Get_error_class(code) == MPI::ERR_COUNT);
    win.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    THROWN(win.Put(&memory, -1, MPI::INT, 0, 0, 1, MPI::INT));
    CHECK(thrown == MPI::ERR_COUNT);
    THROWN(win.Call_errhandler(MPI::ERR_TAG));
    CHECK(thrown == MPI::ERR_TAG);
    win.Free();

    MPI::FILE_NULL.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    THROWN(MPI::File::Delete("/there/is/no/such/file", MPI::INFO_NULL));
    CHECK(thrown == MPI::ERR_NO_SUCH_FILE);
    THROWN(MPI::FILE_NULL.Call_errhandler(MPI::ERR_TAG));
    CHECK(thrown == MPI::ERR_TAG);
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    MPI::Intracomm comm = MPI::COMM_WORLD.Dup();
    comm.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    waits(comm);
    freed();
    others(comm);
    objects(comm);
    once(comm);
    windows(comm);
    comm.Free();
    MPI::Finalize();
    return 0;
}
