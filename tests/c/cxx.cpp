/* A program with MPI's C++ bindings (MPI-2.2): built by our mpicxx; by another library's, to run with
 * our libraries alone; and the same with that library's unmodified companion for C++.
 * build: own
 * build: foreign compiler=mpicxx.mpich
 * build: companion compiler=mpicxx.mpich library=companion
 * ranks: 1 2 3 4
 * variants: shm hydra
 */
#include <mpi.h>
/* After mpi.h, since others' headers don't bear macros named SEEK_SET. */
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
    int size[1], coords[1];
    bool wraps[1] = {false};
    ring.Get_topo(1, size, wraps, coords);
    CHECK(size[0] == dims[0] && wraps[0] && ring.Get_cart_rank(coords) == ring.Get_rank());
    const bool none[1] = {false};
    // Without a dimension each rank has a grid of its own.
    MPI::Cartcomm self = ring.Sub(none);
    CHECK(self.Get_size() == 1 && self.Get_dim() == 0);
    self.Free();
    ring.Free();

    twin.Free();
    CHECK(deleted == 2);
}

static void splits()
{
    const int rank = MPI::COMM_WORLD.Get_rank(), size = MPI::COMM_WORLD.Get_size();
    MPI::Intracomm half = MPI::COMM_WORLD.Split(rank % 2, -rank);
    CHECK(half != MPI::COMM_NULL && half.Get_size() == (size + 1 - rank % 2) / 2);
    CHECK(half.Get_rank() == half.Get_size() - 1 - rank / 2);
    MPI::Intracomm none = MPI::COMM_WORLD.Split(MPI::UNDEFINED, 0);
    CHECK(none == MPI::COMM_NULL);

    MPI::Group all = MPI::COMM_WORLD.Get_group(), few = half.Get_group();
    MPI::Group rest = MPI::Group::Difference(all, few);
    CHECK(rest.Get_size() == size - few.Get_size());
    int first = 0, found = -1;
    MPI::Group::Translate_ranks(few, 1, &first, all, &found);
    CHECK(found % 2 == rank % 2 && found >= rank);
    rest.Free();
    few.Free();
    all.Free();

    if (size > 1) {
        MPI::Intercomm other =
            half.Create_intercomm(half.Get_size() - 1, MPI::COMM_WORLD, 1 - rank % 2, 5);
        CHECK(other.Is_inter() && other.Get_remote_size() == size - half.Get_size());
        MPI::Intracomm merged = other.Merge(rank % 2 == 1);
        CHECK(merged.Get_size() == size);
        MPI::Comm &clone = merged.Clone();
        CHECK(MPI::Comm::Compare(clone, merged) == MPI::CONGRUENT);
        clone.Free();
        delete &clone;
        merged.Free();
        other.Free();
    }
    half.Free();
}

static void requests(MPI::Comm &comm)
{
    const int rank = comm.Get_rank(), size = comm.Get_size();
    const int many = 40;
    int sent[many], received[many], indices[many];
    MPI::Request sends[many], receives[many];
    MPI::Status statuses[many];
    for (int i = 0; i < many; i++) {
        sent[i] = 1000 * rank + i;
        receives[i] = comm.Irecv(&received[i], 1, MPI::INT, (rank + 1) % size, i);
    }
    for (int i = 0; i < many; i++)
        sends[i] = comm.Isend(&sent[i], 1, MPI::INT, (rank + size - 1) % size, i);
    const int one = MPI::Request::Waitany(many, receives, statuses[0]);
    CHECK(one >= 0 && one < many && receives[one] == MPI::REQUEST_NULL);
    CHECK(statuses[0].Get_tag() == one);
    const int some = MPI::Request::Waitsome(many, receives, indices, statuses);
    CHECK(some >= 1 && some < many);
    for (int i = 0; i < some; i++)
        CHECK(statuses[i].Get_tag() == indices[i] && received[indices[i]] % 1000 == indices[i]);
    MPI::Request::Waitall(many, receives, statuses);
    MPI::Request::Waitall(many, sends);
    CHECK(MPI::Request::Testall(many, sends));
    for (int i = 0; i < many; i++)
        CHECK(received[i] == 1000 * ((rank + 1) % size) + i && sends[i] == MPI::REQUEST_NULL);
}

static int queried, freed;

static int query(void *extra, MPI::Status &status)
{
    CHECK(extra == &queried);
    queried++;
    status.Set_elements(MPI::INT, 7);
    status.Set_cancelled(false);
    status.Set_source(MPI::UNDEFINED);
    status.Set_tag(11);
    return MPI::SUCCESS;
}

static int release(void *extra)
{
    CHECK(extra == &queried);
    freed++;
    return MPI::SUCCESS;
}

static int cancel(void *, bool)
{
    return MPI::SUCCESS;
}

static void generalized()
{
    MPI::Grequest request;
    /* Static in the standard, not so in others' headers. */
    request = request.Start(query, release, cancel, &queried);
    CHECK(!request.Test());
    request.Complete();
    MPI::Status status;
    request.Wait(status);
    CHECK(status.Get_count(MPI::INT) == 7 && status.Get_tag() == 11 && !status.Is_cancelled());
    CHECK(queried == 1 && freed == 1);
}

struct Particle {
    double at[3];
    int kind;
    bool alive;
};

static void datatypes()
{
    const int rank = MPI::COMM_WORLD.Get_rank(), size = MPI::COMM_WORLD.Get_size();
    Particle all[8];
    const int lengths[3] = {3, 1, 1};
    const MPI::Aint start = MPI::Get_address(&all[0]);
    const MPI::Aint places[3] = {MPI::Get_address(&all[0].at) - start,
        MPI::Get_address(&all[0].kind) - start, MPI::Get_address(&all[0].alive) - start};
    const MPI::Datatype types[3] = {MPI::DOUBLE, MPI::INT, MPI::BOOL};
    MPI::Datatype packed = MPI::Datatype::Create_struct(3, lengths, places, types);
    MPI::Datatype type = packed.Create_resized(0, sizeof(Particle));
    type.Commit();
    int integers, addresses, datatypes, combiner;
    packed.Get_envelope(integers, addresses, datatypes, combiner);
    CHECK(combiner == MPI::COMBINER_STRUCT && integers == 4 && addresses == 3 && datatypes == 3);
    int numbers[4];
    MPI::Aint displacements[3];
    MPI::Datatype members[3];
    packed.Get_contents(4, 3, 3, numbers, displacements, members);
    CHECK(numbers[1] == 3 && displacements[1] == places[1] && members[2] == MPI::BOOL);
    packed.Free();

    std::memset(static_cast<void *>(all), 0, sizeof all);
    for (int i = 0; i < 8 && rank == 0; i++) {
        all[i].at[2] = i / 2.0;
        all[i].kind = i;
        all[i].alive = i % 2 == 1;
    }
    MPI::COMM_WORLD.Bcast(all, 8, type, 0);
    for (int i = 0; i < 8; i++)
        CHECK(all[i].at[2] == i / 2.0 && all[i].kind == i && all[i].alive == (i % 2 == 1));
    type.Free();

    bool alive = rank == size - 1, any = false;
    MPI::COMM_WORLD.Allreduce(&alive, &any, 1, MPI::BOOL, MPI::LOR);
    CHECK(any);

    int counts[4] = {1, 1, 1, 1}, places_of_ints[4] = {0, 4, 8, 12};
    MPI::Datatype each[4] = {MPI::INT, MPI::INT, MPI::INT, MPI::INT};
    int out[4], in[4];
    for (int i = 0; i < 4; i++)
        out[i] = 10 * rank + i;
    MPI::COMM_WORLD.Alltoallw(out, counts, places_of_ints, each, in, counts, places_of_ints, each);
    for (int i = 0; i < size; i++)
        CHECK(in[i] == 10 * i + rank);
}

static void windows()
{
    const int rank = MPI::COMM_WORLD.Get_rank(), size = MPI::COMM_WORLD.Get_size();
    int mine[2] = {-1, 0}, one = 1;
    MPI::Win win = MPI::Win::Create(mine, sizeof mine, sizeof(int), MPI::INFO_NULL, MPI::COMM_WORLD);
    win.Fence(0);
    win.Put(&rank, 1, MPI::INT, (rank + 1) % size, 0, 1, MPI::INT);
    win.Accumulate(&one, 1, MPI::INT, 0, 1, 1, MPI::INT, MPI::SUM);
    win.Fence(0);
    CHECK(mine[0] == (rank + size - 1) % size && mine[1] == (rank == 0 ? size : 0));
    void *base = NULL;
    CHECK(win.Get_attr(MPI::WIN_BASE, &base) && base == mine);
    win.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    bool caught = false;
    try {
        win.Put(&one, 1, MPI::INT, size, 0, 1, MPI::INT);
    } catch (MPI::Exception &error) {
        caught = error.Get_error_class() == MPI::ERR_RANK;
    }
    CHECK(caught);
    win.Fence(0);
    win.Free();
}

static void environment()
{
    CHECK(MPI::Is_initialized() && MPI::Is_thread_main());
    MPI::Info info = MPI::Info::Create();
    info.Set("colour", "green");
    char value[16], key[MPI_MAX_INFO_KEY];
    int length = 0;
    CHECK(info.Get("colour", 15, value) && std::strcmp(value, "green") == 0);
    CHECK(info.Get_valuelen("colour", length) && length == 5 && info.Get_nkeys() == 1);
    info.Get_nthkey(0, key);
    CHECK(std::strcmp(key, "colour") == 0);
    info.Free();

    int *upper = NULL;
    CHECK(MPI::COMM_WORLD.Get_attr(MPI::TAG_UB, &upper) && *upper >= 32767);
    int dims[2] = {0, 0};
    MPI::Compute_dims(4, 2, dims);
    CHECK(dims[0] == 2 && dims[1] == 2);
    char space[200 + MPI_BSEND_OVERHEAD];
    void *back = NULL;
    MPI::Attach_buffer(space, sizeof space);
    CHECK(MPI::Detach_buffer(back) == static_cast<int>(sizeof space) && back == space);
    const int extra = MPI::Add_error_code(MPI::Add_error_class());
    MPI::Add_error_string(extra, "one of ours");
    char text[MPI_MAX_ERROR_STRING];
    MPI::Get_error_string(extra, text, length);
    CHECK(std::strcmp(text, "one of ours") == 0);
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
    requests(MPI::COMM_WORLD);
    generalized();
    collectives();
    datatypes();
    windows();
    environment();
    splits();
    communicators();
    errors();
    MPI::Finalize();
    CHECK(MPI::Is_finalized());
    return 0;
}
