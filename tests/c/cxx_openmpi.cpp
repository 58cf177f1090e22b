/* A program in C++ that Open MPI's mpicxx compiled with the bindings of MPI-2.2, and uses of them what is not inline: the
 * constructor of communicators, freeing datatypes and windows, and operations of functions that get objects.
 * compiler: mpicxx.openmpi
 * cflags: -Wno-error
 * variants: shm
 * ranks: 1 3
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

static int calls, wrong;

/* Adds; asks the datatype by a virtual function. */
static void add(const void *in, void *inout, int len, const MPI::Datatype &datatype)
{
    calls++;
    if (MPI_Datatype(datatype) != MPI_INT || datatype.Get_size() != int(sizeof(int)))
        wrong++;
    for (int i = 0; i < len; i++)
        static_cast<int *>(inout)[i] += static_cast<const int *>(in)[i];
}

/* Keeps what comes first: not commutative. */
static void first(const void *in, void *inout, int len, const MPI::Datatype &datatype)
{
    if (datatype.Get_size() != 2 * int(sizeof(int)))
        wrong++;
    for (int i = 0; i < 2 * len; i++)
        static_cast<int *>(inout)[i] = static_cast<const int *>(in)[i];
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    MPI::Intracomm none;
    CHECK(MPI_Comm(none) == MPI_COMM_NULL);
    MPI::Intracomm world(MPI_COMM_WORLD);
    CHECK(world.Get_rank() == rank && world.Get_size() == size);

    MPI::Op op;
    op.Init(add, true);
    int mine[3] = {rank, 1, 10 * rank}, sum[3] = {-1, -1, -1};
    world.Allreduce(mine, sum, 3, MPI::Datatype(MPI_INT), op);
    CHECK(sum[0] == size * (size - 1) / 2 && sum[1] == size && sum[2] == 10 * sum[0]);
    CHECK(wrong == 0);
    int twice[2] = {1, 2};
    op.Reduce_local(mine, twice, 2, MPI::Datatype(MPI_INT));
    CHECK(twice[0] == 1 + rank && twice[1] == 3 && calls > 0 && wrong == 0);
    op.Free();
    CHECK(MPI_Op(op) == MPI_OP_NULL);

    /* A datatype of the program's, and an operation that C made besides. */
    MPI_Datatype handle;
    MPI_Type_contiguous(2, MPI_INT, &handle);
    MPI::Datatype pair(handle);
    pair.Commit();
    op.Init(first, false);
    int two[2] = {rank, rank + 100}, kept[2] = {-1, -1};
    MPI_Allreduce(two, kept, 1, handle, op, MPI_COMM_WORLD);
    CHECK(kept[0] == 0 && kept[1] == 100 && wrong == 0);
    op.Free();
    pair.Free();
    CHECK(MPI_Datatype(pair) == MPI_DATATYPE_NULL);

    /* Freed twice: an error. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    pair.Free();
    CHECK(MPI_Datatype(pair) == MPI_DATATYPE_NULL);

    int *base;
    MPI_Win made;
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &made);
    MPI::Win win(made);
    win.Fence(0);
    win.Put(&rank, 1, MPI::Datatype(MPI_INT), (rank + 1) % size, 0, 1, MPI::Datatype(MPI_INT));
    win.Fence(0);
    CHECK(*base == (rank + size - 1) % size);
    win.Free();
    CHECK(MPI_Win(win) == MPI_WIN_NULL);

    MPI_Finalize();
    return 0;
}
