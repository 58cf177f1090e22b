/* What the C++ bindings have at compile time: numbers for lengths of arrays (MPI-2.2, section 2.5.4), which
 * are those of C, names of datatypes (annex A.1), and attributes set on a constant communicator (section
 * 6.7.2).
 * ranks: 1
 * variants: shm
 */
#include <mpi.h>

#include <cstdlib>
#include <cstring>

static struct {
    char processor[MPI::MAX_PROCESSOR_NAME], port[MPI::MAX_PORT_NAME], text[MPI::MAX_ERROR_STRING],
        datarep[MPI::MAX_DATAREP_STRING], key[MPI::MAX_INFO_KEY], value[MPI::MAX_INFO_VAL],
        name[MPI::MAX_OBJECT_NAME], overhead[MPI::BSEND_OVERHEAD];
} lengths;

static void check(bool good)
{
    if (!good)
        std::abort();
}

static bool is_rank(int error_class)
{
    switch (error_class) {
    case MPI::SUCCESS:
    case MPI::ERR_TAG:
        return false;
    case MPI::ERR_RANK:
        return true;
    default:
        return false;
    }
}

static void set(const MPI::Comm &comm, int key_of_ours, void *attribute)
{
    comm.Set_attr(key_of_ours, attribute);
}

static int extent(const MPI::Datatype &type, MPI::Aint &file_extent, void *)
{
    MPI::Aint lower;
    type.Get_extent(lower, file_extent);
    return MPI::SUCCESS;
}

int main(int argc, char **argv)
{
    check(sizeof lengths.processor == MPI_MAX_PROCESSOR_NAME);
    check(sizeof lengths.port == MPI_MAX_PORT_NAME);
    check(sizeof lengths.text == MPI_MAX_ERROR_STRING);
    check(sizeof lengths.datarep == MPI_MAX_DATAREP_STRING);
    check(sizeof lengths.key == MPI_MAX_INFO_KEY && sizeof lengths.value == MPI_MAX_INFO_VAL);
    check(sizeof lengths.name == MPI_MAX_OBJECT_NAME && sizeof lengths.overhead == MPI_BSEND_OVERHEAD);
    check(is_rank(MPI_ERR_RANK) && !is_rank(MPI_SUCCESS));
    check(MPI::SEEK_SET == MPI_SEEK_SET && MPI::COMBINER_DARRAY == MPI_COMBINER_DARRAY);
    const int &bound = MPI::TAG_UB;
    check(bound == MPI_TAG_UB);

    MPI::Init(argc, argv);
    int length = 0;
    MPI::Get_processor_name(lengths.processor, length);
    check(length > 0 && std::strlen(lengths.processor) == static_cast<std::size_t>(length));

    check(MPI::INTEGER16.Get_size() == 16 && MPI::REAL2.Get_size() == 2);
    check(MPI::INT8_T.Get_size() == 1 && MPI::INT16_T.Get_size() == 2 && MPI::INT32_T.Get_size() == 4);
    check(MPI::INT64_T.Get_size() == 8 && MPI::UINT8_T.Get_size() == 1 && MPI::UINT16_T.Get_size() == 2);
    check(MPI::UINT32_T.Get_size() == 4 && MPI::UINT64_T.Get_size() == 8);
    check(MPI::AINT.Get_size() == int(sizeof(MPI::Aint)) && MPI::OFFSET.Get_size() == int(sizeof(MPI::Offset)));
    check(MPI::F_COMPLEX4.Get_size() == 4 && MPI::F_COMPLEX8 == MPI::COMPLEX8);
    check(MPI::F_COMPLEX16 == MPI::COMPLEX16 && MPI::F_COMPLEX32 == MPI::COMPLEX32);

    /* Without conversions (section 13.5.3). */
    MPI::Register_datarep("plain", MPI::CONVERSION_FN_NULL, MPI::CONVERSION_FN_NULL, extent, NULL);

    int here = 0;
    void *found = NULL;
    int own = MPI::Comm::Create_keyval(MPI::Comm::NULL_COPY_FN, MPI::Comm::NULL_DELETE_FN, NULL);
    MPI::Intracomm twin = MPI::COMM_SELF.Dup();
    set(twin, own, &here);
    check(twin.Get_attr(own, &found) && found == &here);
    MPI::Comm::Free_keyval(own);
    twin.Free();
    MPI::Finalize();
    return 0;
}
