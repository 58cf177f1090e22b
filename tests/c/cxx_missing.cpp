/* What the C++ bindings have and this library has not yet says which function that is.
 *
 * ranks: 1
 * variants: shm
 * case: codes
 * case: fatal
 * exit: 44
 * stderr: Weft: MPI_Publish_name() failed on rank 0 of 1
 * stderr: MPI_Publish_name is not in this version of the library
 */
#include <mpi.h>

#include <cstdlib>
#include <cstring>

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    if (std::strcmp(argv[1], "codes") == 0) {
        MPI::COMM_WORLD.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
        bool caught = false;
        try {
            MPI::Publish_name("service", MPI::INFO_NULL, "port");
        } catch (MPI::Exception &error) {
            caught = error.Get_error_class() == MPI_ERR_UNSUPPORTED_OPERATION &&
                     std::strstr(error.Get_error_string(), "MPI_Publish_name") != NULL;
        }
        if (!caught)
            std::abort();
        MPI::COMM_WORLD.Set_errhandler(MPI::ERRORS_ARE_FATAL);
    } else {
        MPI::Publish_name("service", MPI::INFO_NULL, "port");
    }
    MPI::Finalize();
    return 0;
}
