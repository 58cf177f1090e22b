/* Windows. */
#include "call.h"

using weft::check;

namespace MPI {

/* What a function of the C interface returned for this window. */
#define CHECK(code)                               \
    do {                                          \
        const int returned = (code);              \
        if (returned != MPI_SUCCESS)              \
            weft::raise_win(handle, returned);    \
    } while (0)

Win Win::Create(const void *base, Aint size, int disp_unit, const Info &info, const Intracomm &comm)
{
    MPI_Win win = MPI_WIN_NULL;
    const int code = MPI_Win_create(const_cast<void *>(base), size, disp_unit, info, comm, &win);
    if (code != MPI_SUCCESS)
        weft::raise_comm(comm, code);
    return win;
}

void Win::Free()
{
    CHECK(MPI_Win_free(&handle));
}

Group Win::Get_group() const
{
    MPI_Group group = MPI_GROUP_NULL;
    CHECK(MPI_Win_get_group(handle, &group));
    return group;
}

void Win::Put(const void *origin_addr, int origin_count, const Datatype &origin_datatype,
    int target_rank, Aint target_disp, int target_count, const Datatype &target_datatype) const
{
    CHECK(MPI_Put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
        target_datatype, handle));
}

void Win::Get(void *origin_addr, int origin_count, const Datatype &origin_datatype, int target_rank,
    Aint target_disp, int target_count, const Datatype &target_datatype) const
{
    CHECK(MPI_Get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
        target_datatype, handle));
}

void Win::Accumulate(const void *origin_addr, int origin_count, const Datatype &origin_datatype,
    int target_rank, Aint target_disp, int target_count, const Datatype &target_datatype,
    const Op &op) const
{
    CHECK(MPI_Accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
        target_count, target_datatype, op, handle));
}

void Win::Fence(int assert) const
{
    CHECK(MPI_Win_fence(assert, handle));
}

void Win::Start(const Group &group, int assert) const
{
    CHECK(MPI_Win_start(group, assert, handle));
}

void Win::Complete() const
{
    CHECK(MPI_Win_complete(handle));
}

void Win::Post(const Group &group, int assert) const
{
    CHECK(MPI_Win_post(group, assert, handle));
}

void Win::Wait() const
{
    CHECK(MPI_Win_wait(handle));
}

bool Win::Test() const
{
    int flag = 0;
    CHECK(MPI_Win_test(handle, &flag));
    return flag != 0;
}

void Win::Lock(int lock_type, int rank, int assert) const
{
    CHECK(MPI_Win_lock(lock_type, rank, assert, handle));
}

void Win::Unlock(int rank) const
{
    CHECK(MPI_Win_unlock(rank, handle));
}

void Win::Set_errhandler(const Errhandler &errhandler)
{
    CHECK(MPI_Win_set_errhandler(handle, errhandler));
}

Errhandler Win::Get_errhandler() const
{
    MPI_Errhandler errhandler = MPI_ERRHANDLER_NULL;
    CHECK(MPI_Win_get_errhandler(handle, &errhandler));
    return errhandler;
}

void Win::Set_name(const char *win_name)
{
    CHECK(MPI_Win_set_name(handle, win_name));
}

void Win::Get_name(char *win_name, int &resultlen) const
{
    CHECK(MPI_Win_get_name(handle, win_name, &resultlen));
}

bool Win::Get_attr(int win_keyval, void *attribute_val) const
{
    int flag = 0;
    CHECK(MPI_Win_get_attr(handle, win_keyval, attribute_val, &flag));
    return flag != 0;
}

void Win::Set_attr(int win_keyval, const void *attribute_val)
{
    CHECK(MPI_Win_set_attr(handle, win_keyval, const_cast<void *>(attribute_val)));
}

void Win::Delete_attr(int win_keyval)
{
    CHECK(MPI_Win_delete_attr(handle, win_keyval));
}

} // namespace MPI
