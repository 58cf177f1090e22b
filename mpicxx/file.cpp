/* Files. */
#include "call.h"

using weft::call;

namespace MPI {

/* What a function of the C interface returned for this file. */
#define CHECK(code)                                \
    do {                                           \
        const int returned = (code);               \
        if (returned != MPI_SUCCESS)               \
            weft::raise_file(handle, returned);    \
    } while (0)

File File::Open(const Intracomm &comm, const char *filename, int amode, const Info &info)
{
    MPI_File file = MPI_FILE_NULL;
    const int code = CALL(MPI_File_open, MPI_Comm(comm), filename, amode, MPI_Info(info), &file);
    if (code != MPI_SUCCESS)
        weft::raise_file(MPI_FILE_NULL, code);
    return file;
}

void File::Delete(const char *filename, const Info &info)
{
    const int code = CALL(MPI_File_delete, filename, MPI_Info(info));
    if (code != MPI_SUCCESS)
        weft::raise_file(MPI_FILE_NULL, code);
}

void File::Close()
{
    CHECK(CALL(MPI_File_close, &handle));
}

void File::Read(void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_read, handle, buf, count, MPI_Datatype(datatype), &status.handle));
}

void File::Read(void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read, handle, buf, count, MPI_Datatype(datatype), MPI_STATUS_IGNORE));
}

void File::Read_at(Offset offset, void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_read_at, handle, offset, buf, count, MPI_Datatype(datatype),
        &status.handle));
}

void File::Read_at(Offset offset, void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read_at, handle, offset, buf, count, MPI_Datatype(datatype),
        MPI_STATUS_IGNORE));
}

void File::Read_all(void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_read_all, handle, buf, count, MPI_Datatype(datatype), &status.handle));
}

void File::Read_all(void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read_all, handle, buf, count, MPI_Datatype(datatype), MPI_STATUS_IGNORE));
}

void File::Read_at_all(Offset offset, void *buf, int count, const Datatype &datatype,
    Status &status)
{
    CHECK(CALL(MPI_File_read_at_all, handle, offset, buf, count, MPI_Datatype(datatype),
        &status.handle));
}

void File::Read_at_all(Offset offset, void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read_at_all, handle, offset, buf, count, MPI_Datatype(datatype),
        MPI_STATUS_IGNORE));
}

void File::Read_shared(void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_read_shared, handle, buf, count, MPI_Datatype(datatype), &status.handle));
}

void File::Read_shared(void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read_shared, handle, buf, count, MPI_Datatype(datatype),
        MPI_STATUS_IGNORE));
}

void File::Read_ordered(void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_read_ordered, handle, buf, count, MPI_Datatype(datatype), &status.handle));
}

void File::Read_ordered(void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read_ordered, handle, buf, count, MPI_Datatype(datatype),
        MPI_STATUS_IGNORE));
}

void File::Read_all_begin(void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read_all_begin, handle, buf, count, MPI_Datatype(datatype)));
}

void File::Read_all_end(void *buf, Status &status)
{
    CHECK(CALL(MPI_File_read_all_end, handle, buf, &status.handle));
}

void File::Read_all_end(void *buf)
{
    CHECK(CALL(MPI_File_read_all_end, handle, buf, MPI_STATUS_IGNORE));
}

void File::Read_at_all_begin(Offset offset, void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read_at_all_begin, handle, offset, buf, count, MPI_Datatype(datatype)));
}

void File::Read_at_all_end(void *buf, Status &status)
{
    CHECK(CALL(MPI_File_read_at_all_end, handle, buf, &status.handle));
}

void File::Read_at_all_end(void *buf)
{
    CHECK(CALL(MPI_File_read_at_all_end, handle, buf, MPI_STATUS_IGNORE));
}

void File::Read_ordered_begin(void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_read_ordered_begin, handle, buf, count, MPI_Datatype(datatype)));
}

void File::Read_ordered_end(void *buf, Status &status)
{
    CHECK(CALL(MPI_File_read_ordered_end, handle, buf, &status.handle));
}

void File::Read_ordered_end(void *buf)
{
    CHECK(CALL(MPI_File_read_ordered_end, handle, buf, MPI_STATUS_IGNORE));
}

Request File::Iread(void *buf, int count, const Datatype &datatype)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(CALL(MPI_File_iread, handle, buf, count, MPI_Datatype(datatype), &request));
    return request;
}

Request File::Iread_at(Offset offset, void *buf, int count, const Datatype &datatype)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(CALL(MPI_File_iread_at, handle, offset, buf, count, MPI_Datatype(datatype), &request));
    return request;
}

Request File::Iread_shared(void *buf, int count, const Datatype &datatype)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(CALL(MPI_File_iread_shared, handle, buf, count, MPI_Datatype(datatype), &request));
    return request;
}

void File::Write(const void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_write, handle, buf, count, MPI_Datatype(datatype), &status.handle));
}

void File::Write(const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write, handle, buf, count, MPI_Datatype(datatype), MPI_STATUS_IGNORE));
}

void File::Write_at(Offset offset, const void *buf, int count, const Datatype &datatype,
    Status &status)
{
    CHECK(CALL(MPI_File_write_at, handle, offset, buf, count, MPI_Datatype(datatype),
        &status.handle));
}

void File::Write_at(Offset offset, const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write_at, handle, offset, buf, count, MPI_Datatype(datatype),
        MPI_STATUS_IGNORE));
}

void File::Write_all(const void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_write_all, handle, buf, count, MPI_Datatype(datatype), &status.handle));
}

void File::Write_all(const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write_all, handle, buf, count, MPI_Datatype(datatype), MPI_STATUS_IGNORE));
}

void File::Write_at_all(Offset offset, const void *buf, int count, const Datatype &datatype,
    Status &status)
{
    CHECK(CALL(MPI_File_write_at_all, handle, offset, buf, count, MPI_Datatype(datatype),
        &status.handle));
}

void File::Write_at_all(Offset offset, const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write_at_all, handle, offset, buf, count, MPI_Datatype(datatype),
        MPI_STATUS_IGNORE));
}

void File::Write_shared(const void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_write_shared, handle, buf, count, MPI_Datatype(datatype), &status.handle));
}

void File::Write_shared(const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write_shared, handle, buf, count, MPI_Datatype(datatype),
        MPI_STATUS_IGNORE));
}

void File::Write_ordered(const void *buf, int count, const Datatype &datatype, Status &status)
{
    CHECK(CALL(MPI_File_write_ordered, handle, buf, count, MPI_Datatype(datatype), &status.handle));
}

void File::Write_ordered(const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write_ordered, handle, buf, count, MPI_Datatype(datatype),
        MPI_STATUS_IGNORE));
}

void File::Write_all_begin(const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write_all_begin, handle, buf, count, MPI_Datatype(datatype)));
}

void File::Write_all_end(const void *buf, Status &status)
{
    CHECK(CALL(MPI_File_write_all_end, handle, buf, &status.handle));
}

void File::Write_all_end(const void *buf)
{
    CHECK(CALL(MPI_File_write_all_end, handle, buf, MPI_STATUS_IGNORE));
}

void File::Write_at_all_begin(Offset offset, const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write_at_all_begin, handle, offset, buf, count, MPI_Datatype(datatype)));
}

void File::Write_at_all_end(const void *buf, Status &status)
{
    CHECK(CALL(MPI_File_write_at_all_end, handle, buf, &status.handle));
}

void File::Write_at_all_end(const void *buf)
{
    CHECK(CALL(MPI_File_write_at_all_end, handle, buf, MPI_STATUS_IGNORE));
}

void File::Write_ordered_begin(const void *buf, int count, const Datatype &datatype)
{
    CHECK(CALL(MPI_File_write_ordered_begin, handle, buf, count, MPI_Datatype(datatype)));
}

void File::Write_ordered_end(const void *buf, Status &status)
{
    CHECK(CALL(MPI_File_write_ordered_end, handle, buf, &status.handle));
}

void File::Write_ordered_end(const void *buf)
{
    CHECK(CALL(MPI_File_write_ordered_end, handle, buf, MPI_STATUS_IGNORE));
}

Request File::Iwrite(const void *buf, int count, const Datatype &datatype)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(CALL(MPI_File_iwrite, handle, buf, count, MPI_Datatype(datatype), &request));
    return request;
}

Request File::Iwrite_at(Offset offset, const void *buf, int count, const Datatype &datatype)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(CALL(MPI_File_iwrite_at, handle, offset, buf, count, MPI_Datatype(datatype), &request));
    return request;
}

Request File::Iwrite_shared(const void *buf, int count, const Datatype &datatype)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(CALL(MPI_File_iwrite_shared, handle, buf, count, MPI_Datatype(datatype), &request));
    return request;
}

void File::Seek(Offset offset, int whence)
{
    CHECK(CALL(MPI_File_seek, handle, offset, whence));
}

void File::Seek_shared(Offset offset, int whence)
{
    CHECK(CALL(MPI_File_seek_shared, handle, offset, whence));
}

void File::Set_size(Offset size)
{
    CHECK(CALL(MPI_File_set_size, handle, size));
}

void File::Preallocate(Offset size)
{
    CHECK(CALL(MPI_File_preallocate, handle, size));
}

void File::Sync()
{
    CHECK(CALL(MPI_File_sync, handle));
}

void File::Set_info(const Info &info)
{
    CHECK(CALL(MPI_File_set_info, handle, MPI_Info(info)));
}

void File::Set_atomicity(bool flag)
{
    CHECK(CALL(MPI_File_set_atomicity, handle, int(flag)));
}

void File::Set_view(Offset disp, const Datatype &etype, const Datatype filetype,
    const char *datarep, const Info &info)
{
    CHECK(CALL(MPI_File_set_view, handle, disp, MPI_Datatype(etype), MPI_Datatype(filetype),
        datarep, MPI_Info(info)));
}

Offset File::Get_size() const
{
    MPI_Offset told = 0;
    CHECK(CALL(MPI_File_get_size, handle, &told));
    return told;
}

Offset File::Get_position() const
{
    MPI_Offset told = 0;
    CHECK(CALL(MPI_File_get_position, handle, &told));
    return told;
}

Offset File::Get_position_shared() const
{
    MPI_Offset told = 0;
    CHECK(CALL(MPI_File_get_position_shared, handle, &told));
    return told;
}

Offset File::Get_byte_offset(const Offset offset) const
{
    MPI_Offset told = 0;
    CHECK(CALL(MPI_File_get_byte_offset, handle, offset, &told));
    return told;
}

Aint File::Get_type_extent(const Datatype &datatype) const
{
    MPI_Aint told = 0;
    CHECK(CALL(MPI_File_get_type_extent, handle, MPI_Datatype(datatype), &told));
    return told;
}

int File::Get_amode() const
{
    int told = 0;
    CHECK(CALL(MPI_File_get_amode, handle, &told));
    return told;
}

Group File::Get_group() const
{
    MPI_Group told = MPI_GROUP_NULL;
    CHECK(CALL(MPI_File_get_group, handle, &told));
    return told;
}

Info File::Get_info() const
{
    MPI_Info told = MPI_INFO_NULL;
    CHECK(CALL(MPI_File_get_info, handle, &told));
    return told;
}

bool File::Get_atomicity() const
{
    int flag = 0;
    CHECK(CALL(MPI_File_get_atomicity, handle, &flag));
    return flag != 0;
}

void File::Get_view(Offset &disp, Datatype &etype, Datatype &filetype, char *datarep) const
{
    MPI_Datatype elements = MPI_DATATYPE_NULL, pattern = MPI_DATATYPE_NULL;
    CHECK(CALL(MPI_File_get_view, handle, &disp, &elements, &pattern, datarep));
    etype = elements;
    filetype = pattern;
}

void File::Set_errhandler(const Errhandler &errhandler)
{
    CHECK(MPI_File_set_errhandler(handle, errhandler));
}

Errhandler File::Get_errhandler() const
{
    MPI_Errhandler errhandler = MPI_ERRHANDLER_NULL;
    CHECK(MPI_File_get_errhandler(handle, &errhandler));
    return errhandler;
}

} // namespace MPI
