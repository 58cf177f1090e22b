/* Names of services and files by the C++ bindings.
 *
 * ranks: 1
 * variants: shm
 */
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

static void check(bool good)
{
    if (!good)
        std::abort();
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    MPI::COMM_WORLD.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    char port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME] = "";
    MPI::Open_port(MPI::INFO_NULL, port);
    MPI::Publish_name("service", MPI::INFO_NULL, port);
    MPI::Lookup_name("service", MPI::INFO_NULL, found);
    check(std::strcmp(port, found) == 0);
    MPI::Unpublish_name("service", MPI::INFO_NULL, port);
    bool caught = false;
    try {
        MPI::Lookup_name("service", MPI::INFO_NULL, found);
    } catch (MPI::Exception &error) {
        caught = error.Get_error_class() == MPI_ERR_NAME && std::strstr(error.Get_error_string(), "service") != NULL;
    }
    check(caught);
    MPI::Close_port(port);

    const char *folder = std::getenv("TMPDIR");
    const std::string name = std::string(folder ? folder : "/tmp") + "/weft-cxx-" + std::to_string(getpid());
    MPI::FILE_NULL.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    MPI::File file = MPI::File::Open(MPI::COMM_WORLD, name.c_str(),
                                     MPI::MODE_CREATE | MPI::MODE_RDWR | MPI::MODE_DELETE_ON_CLOSE, MPI::INFO_NULL);
    int value = 42, got = 0;
    MPI::Status status;
    file.Write_at(4, &value, 1, MPI::INT, status);
    file.Read_at(4, &got, 1, MPI::INT, status);
    check(got == 42 && status.Get_count(MPI::INT) == 1 && file.Get_size() == 8);
    file.Close();
    caught = false;
    try {
        MPI::File::Open(MPI::COMM_WORLD, name.c_str(), MPI::MODE_RDONLY, MPI::INFO_NULL);
    } catch (MPI::Exception &error) {
        caught = error.Get_error_class() == MPI_ERR_NO_SUCH_FILE;
    }
    check(caught);
    MPI::Finalize();
    return 0;
}
