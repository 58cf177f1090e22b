/* Error codes of the C interface as exceptions. */
#include "call.h"

#include <cstring>

/* What libmpi has for companions (mpi-table/functions.mpi). */
extern "C" {
int MPII_Missing(const char *function);
int MPII_Thrown();
}

namespace weft {

void raise(int code)
{
    if (MPII_Thrown())
        throw MPI::Exception(code);
}

int missing(const char *name)
{
    return MPII_Missing(name);
}

} // namespace weft

namespace MPI {

Exception::Exception(int error_code) : code(error_code)
{
    int length = 0;
    if (PMPI_Error_string(code, message, &length) != MPI_SUCCESS)
        std::strcpy(message, "an unknown error");
}

int Exception::Get_error_class() const
{
    return MPI::Get_error_class(code);
}

/* The C interface returns success here, whichever handler it has called. */
static void call_errhandler(int code, int errorcode)
{
    weft::check(code);
    weft::raise(errorcode);
}

void Comm::Call_errhandler(int errorcode) const
{
    call_errhandler(MPI_Comm_call_errhandler(handle, errorcode), errorcode);
}

void Win::Call_errhandler(int errorcode) const
{
    call_errhandler(MPI_Win_call_errhandler(handle, errorcode), errorcode);
}

void File::Call_errhandler(int errorcode) const
{
    call_errhandler(MPI_File_call_errhandler(handle, errorcode), errorcode);
}

/* The next two are called by programs that were compiled with another header of this ABI; this one after
 * a function of the C interface has returned an error, and called its handler. */
void MPIR_Call_world_errhand(int errorcode)
{
    weft::raise(errorcode);
}

/* Datatypes of C++ have their names from the start. */
void MPIR_CXX_InitDatatypeNames()
{
}

} // namespace MPI
