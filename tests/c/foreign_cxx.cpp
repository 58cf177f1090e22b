/* A program with MPI's C++ bindings (MPI-2.2), compiled and linked by another library's mpicxx, and
 * that library's unmodified companion for C++: ours is put in place of libmpi alone.
 * compiler: mpicxx.mpich
 * ranks: 1 2 3
 * variants: shm hydra
 */
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            std::fprintf(stderr, "line %d: %s is not so\n", __LINE__, #condition);    \
            std::abort();                                                             \
        }                                                                             \
    } while (0)

static int handled;

static void handle(MPI::Comm &comm, int *code, ...)
{
    CHECK(comm.Get_size() == MPI::COMM_WORLD.Get_size());
    CHECK(MPI::Get_error_class(*code) == MPI::ERR_RANK);
    handled++;
}

static void larger(const void *in, void *inout, int count, const MPI::Datatype &type)
{
    CHECK(type == MPI::INT);
    const int *from = static_cast<const int *>(in);
    int *to = static_cast<int *>(inout);
    for (int i = 0; i < count; i++)
        if (from[i] > to[i])
            to[i] = from[i];
}

static int copied, deleted;

static int copy(const MPI::Comm &, int, void *extra, void *in, void *out, bool &flag)
{
    CHECK(extra == &copied);
    copied++;
    *static_cast<void **>(out) = in;
    flag = true;
    return MPI::SUCCESS;
}

static int remove(MPI::Comm &, int, void *, void *)
{
    deleted++;
    return MPI::SUCCESS;
}

/* Calls go through the table of virtual functions. */
static void messages(MPI::Comm &comm)
{
    const int rank = comm.Get_rank(), size = comm.Get_size();
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int sent = rank, received = -1;
    MPI::Request request = comm.Isend(&sent, 1, MPI::INT, to, 3);
    MPI::Status status;
    comm.Recv(&received, 1, MPI::INT, MPI::ANY_SOURCE, MPI::ANY_TAG, status);
    request.Wait();
    CHECK(received == from && status.Get_source() == from && status.Get_tag() == 3);
    CHECK(status.Get_count(MPI::INT) == 1);

    MPI::Prequest send = comm.Send_init(&sent, 1, MPI::INT, to, 4);
    for (int round = 0; round < 3; round++) {
        sent = 100 * round + rank;
        send.Start();
        comm.Recv(&received, 1, MPI::INT, from, 4);
        send.Wait();
        CHECK(received == 100 * round + from);
    }
    send.Free();
}

static void collectives()
{
    const int rank = MPI::COMM_WORLD.Get_rank(), size = MPI::COMM_WORLD.Get_size();
    int one = rank, sum = -1, most = -1;
    MPI::COMM_WORLD.Allreduce(&one, &sum, 1, MPI::INT, MPI::SUM);
    CHECK(sum == size * (size - 1) / 2);
    MPI::Op op;
    op.Init(larger, true);
    MPI::COMM_WORLD.Allreduce(&one, &most, 1, MPI::INT, op);
    CHECK(most == size - 1);
    op.Free();

    MPI::Datatype pair = MPI::INT.Create_contiguous(2);
    pair.Commit();
    int both[2] = {rank, -rank};
    MPI::COMM_WORLD.Bcast(both, 1, pair, size - 1);
    CHECK(both[0] == size - 1 && both[1] == 1 - size);
    pair.Free();
}

static void communicators()
{
    const int keyval = MPI::Comm::Create_keyval(copy, remove, &copied);
    int value = 7;
    MPI::Intracomm twin = MPI::COMM_WORLD.Dup();
    twin.Set_attr(keyval, &value);
    {
        MPI::Intracomm third = twin.Dup();
        void *got = NULL;
        CHECK(third.Get_attr(keyval, &got) && got == &value);
        third.Free();
    }
    CHECK(copied == 1 && deleted == 1);

    const int dims[1] = {MPI::COMM_WORLD.Get_size()};
    const bool periods[1] = {true};
    MPI::Cartcomm ring = MPI::COMM_WORLD.Create_cart(1, dims, periods, false);
    int from, to;
    ring.Shift(0, 1, from, to);
    CHECK(to == (ring.Get_rank() + 1) % dims[0]);
    CHECK(ring.Get_topology() == MPI::CART);
    ring.Free();

    twin.Free();
    CHECK(deleted == 2);
}

static void errors()
{
    int value = 0;
    MPI::Intracomm twin = MPI::COMM_WORLD.Dup();
    twin.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    CHECK(twin.Get_errhandler() == MPI::ERRORS_THROW_EXCEPTIONS);
    bool caught = false;
    try {
        twin.Send(&value, 1, MPI::INT, 1000, 0);
    } catch (MPI::Exception &error) {
        caught = error.Get_error_class() == MPI::ERR_RANK &&
                 std::strstr(error.Get_error_string(), "1000") != NULL;
    }
    CHECK(caught);

    MPI::Errhandler handler = MPI::Comm::Create_errhandler(handle);
    twin.Set_errhandler(handler);
    handler.Free();
    try {
        twin.Send(&value, 1, MPI::INT, 1000, 0);
    } catch (...) {
        CHECK(!"a handler of the program's throws nothing");
    }
    CHECK(handled >= 1);
    twin.Free();
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    int version, subversion;
    MPI::Get_version(version, subversion);
    CHECK(version >= 3);
    messages(MPI::COMM_WORLD);
    collectives();
    communicators();
    errors();
    MPI::Finalize();
    CHECK(MPI::Is_finalized());
    return 0;
}
