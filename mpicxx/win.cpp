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

void Win::Set_attr(int win_keyval, const void *attribute_val)
{
    CHECK(MPI_Win_set_attr(handle, win_keyval, const_cast<void *>(attribute_val)));
}

} // namespace MPI
