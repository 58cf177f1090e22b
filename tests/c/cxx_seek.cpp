/* MPI::SEEK_SET and stdio's SEEK_SET beside each other, whichever header comes first.
 * ranks: 1
 * variants: shm
 * build: before -DBEFORE
 * build: after
 * build: old -DBEFORE -std=c++98
 * build: gone -DBEFORE -DGONE
 */
#ifdef BEFORE
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>
#endif
#ifdef GONE
#undef SEEK_SET
#undef SEEK_CUR
#undef SEEK_END
#endif
#include <mpi.h>
#ifndef BEFORE
#include <cstdio>
#include <unistd.h>
#endif
#include <cstdlib>
#ifdef GONE
#define STDIO_SET 0
#define STDIO_END 2
#else
#define STDIO_SET SEEK_SET
#define STDIO_END SEEK_END
#endif

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition);             \
            std::abort();                                                                          \
        }                                                                                          \
    } while (0)

static int which(int whence)
{
    switch (whence) {
    case STDIO_SET: return 0;
    case STDIO_END: return 2;
    default: return -1;
    }
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    CHECK(MPI::SEEK_SET == MPI_SEEK_SET && MPI::SEEK_CUR == MPI_SEEK_CUR);
    CHECK(MPI::SEEK_END == MPI_SEEK_END);
    CHECK(which(0) == 0 && which(2) == 2 && which(MPI::SEEK_SET) == -1);
    std::FILE *plain = std::tmpfile();
    CHECK(plain && std::fputs("abc", plain) >= 0);
    CHECK(std::fseek(plain, 0, STDIO_END) == 0 && std::ftell(plain) == 3);
    CHECK(std::fseek(plain, 1, STDIO_SET) == 0 && std::fgetc(plain) == 'b');
    std::fclose(plain);

    MPI::File file = MPI::File::Open(MPI::COMM_SELF, "cxx_seek.data",
                                     MPI::MODE_CREATE | MPI::MODE_RDWR | MPI::MODE_DELETE_ON_CLOSE,
                                     MPI::INFO_NULL);
    file.Set_size(10);
    file.Seek(-3, MPI::SEEK_END);
    file.Seek(1, MPI::SEEK_CUR);
    CHECK(file.Get_position() == 8);
    file.Seek(2, MPI::SEEK_SET);
    CHECK(file.Get_position() == 2);
    file.Close();
    MPI::Finalize();
    return 0;
}
