/* Error codes of the C interface as exceptions. */
#include "call.h"

#include <cstring>

extern "C" int MPII_Missing(const char *function);

namespace weft {

/* Whether a handler that was asked for is the one that throws; gives it back. */
static bool throws(int asked, MPI_Errhandler &handler)
{
    if (asked != MPI_SUCCESS)
        return false;
    if (handler == THROW)
        return true;
    const bool predefined = (static_cast<unsigned>(handler) >> 30) == 1;
    if (!predefined)
        PMPI_Errhandler_free(&handler);
    return false;
}

/* It was the handler of MPI_COMM_WORLD that saw an error of a null communicator. */
void raise_comm(MPI_Comm comm, int code)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    if (comm == MPI_COMM_NULL)
        comm = MPI_COMM_WORLD;
    if (throws(PMPI_Comm_get_errhandler(comm, &handler), handler))
        throw MPI::Exception(code);
}

void raise_win(MPI_Win win, int code)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    if (win == MPI_WIN_NULL)
        raise_comm(MPI_COMM_WORLD, code);
    else if (throws(PMPI_Win_get_errhandler(win, &handler), handler))
        throw MPI::Exception(code);
}

void raise_file(MPI_File file, int code)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    if (throws(PMPI_File_get_errhandler(file, &handler), handler))
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

/* A handler of the program's is called; one that throws is not known to the C interface. */
void Comm::Call_errhandler(int errorcode) const
{
    weft::raise_comm(handle, errorcode);
    MPI_Comm_call_errhandler(handle, errorcode);
}

void Win::Call_errhandler(int errorcode) const
{
    weft::raise_win(handle, errorcode);
    MPI_Win_call_errhandler(handle, errorcode);
}

void File::Call_errhandler(int errorcode) const
{
    weft::raise_file(handle, errorcode);
    MPI_File_call_errhandler(handle, errorcode);
}

/* The next two are called by programs that were compiled with another header of this ABI. */
void MPIR_Call_world_errhand(int errorcode)
{
    COMM_WORLD.Call_errhandler(errorcode);
}

/* Datatypes of C++ have their names from the start. */
void MPIR_CXX_InitDatatypeNames()
{
}

} // namespace MPI
