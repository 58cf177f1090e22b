/* Windows. */
#include "call.h"

using weft::check;

namespace MPI {

Win Win::Create(const void *base, Aint size, int disp_unit, const Info &info, const Intracomm &comm)
{
    MPI_Win win = MPI_WIN_NULL;
    check(MPI_Win_create(const_cast<void *>(base), size, disp_unit, info, comm, &win));
    return win;
}

void Win::Set_attr(int win_keyval, const void *attribute_val)
{
    check(MPI_Win_set_attr(handle, win_keyval, const_cast<void *>(attribute_val)));
}

} // namespace MPI
