/* Files. */
#include "call.h"

using weft::call;
using weft::check;

namespace MPI {

File File::Open(const Intracomm &comm, const char *filename, int amode, const Info &info)
{
    MPI_File file = MPI_FILE_NULL;
    check(CALL(MPI_File_open, MPI_Comm(comm), filename, amode, MPI_Info(info), &file));
    return file;
}

void File::Delete(const char *filename, const Info &info)
{
    check(CALL(MPI_File_delete, filename, MPI_Info(info)));
}

void File::Set_view(Offset disp, const Datatype &etype, const Datatype filetype,
    const char *datarep, const Info &info)
{
    check(CALL(MPI_File_set_view, handle, disp, MPI_Datatype(etype), MPI_Datatype(filetype),
        datarep, MPI_Info(info)));
}

Offset File::Get_byte_offset(const Offset offset) const
{
    MPI_Offset told = 0;
    check(CALL(MPI_File_get_byte_offset, handle, offset, &told));
    return told;
}

void File::Get_view(Offset &disp, Datatype &etype, Datatype &filetype, char *datarep) const
{
    MPI_Datatype elements = MPI_DATATYPE_NULL, pattern = MPI_DATATYPE_NULL;
    check(CALL(MPI_File_get_view, handle, &disp, &elements, &pattern, datarep));
    etype = elements;
    filetype = pattern;
}

} // namespace MPI
