/* Datatypes, operations, info objects, error handlers. */
#include "call.h"

using weft::Array;
using weft::check;

namespace MPI {

Datatype Datatype::Create_contiguous(int count) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(count, handle, &type));
    return type;
}

Datatype Datatype::Create_vector(int count, int blocklength, int stride) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_vector(count, blocklength, stride, handle, &type));
    return type;
}

Datatype Datatype::Create_indexed(int count, const int blocklengths[], const int displacements[]) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_indexed(count, blocklengths, displacements, handle, &type));
    return type;
}

Datatype Datatype::Create_struct(int count, const int blocklengths[], const Aint displacements[],
    const Datatype types[])
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    Array<MPI_Datatype> members(count, types);
    check(MPI_Type_create_struct(count, blocklengths, displacements, members, &type));
    return type;
}

Datatype Datatype::Create_resized(const Aint lb, const Aint extent) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_resized(handle, lb, extent, &type));
    return type;
}

Datatype Datatype::Create_f90_integer(int range)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_f90_integer(range, &type));
    return type;
}

Datatype Datatype::Create_f90_real(int precision, int range)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_f90_real(precision, range, &type));
    return type;
}

Datatype Datatype::Create_f90_complex(int precision, int range)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_f90_complex(precision, range, &type));
    return type;
}

Datatype Datatype::Match_size(int typeclass, int size)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_match_size(typeclass, size, &type));
    return type;
}

void Datatype::Get_contents(int max_integers, int max_addresses, int max_datatypes, int integers[],
    Aint addresses[], Datatype datatypes[]) const
{
    /* No datatype is made of null ones: what the call leaves so is none of them. */
    Array<MPI_Datatype> types(max_datatypes);
    for (int i = 0; i < max_datatypes; i++)
        types[i] = MPI_DATATYPE_NULL;
    check(MPI_Type_get_contents(handle, max_integers, max_addresses, max_datatypes, integers,
        addresses, types));
    for (int i = 0; i < max_datatypes && types[i] != MPI_DATATYPE_NULL; i++)
        datatypes[i] = types[i];
}

void Datatype::Unpack(const void *inbuf, int insize, void *outbuf, int outcount, int &position,
    const Comm &comm) const
{
    check(MPI_Unpack(inbuf, insize, &position, outbuf, outcount, handle, comm));
}

void Datatype::Set_attr(int type_keyval, const void *attribute_val)
{
    check(MPI_Type_set_attr(handle, type_keyval, const_cast<void *>(attribute_val)));
}

bool Op::Is_commutative() const
{
    int commute = 0;
    check(MPI_Op_commutative(handle, &commute));
    return commute != 0;
}

Info Info::Create()
{
    MPI_Info info = MPI_INFO_NULL;
    check(MPI_Info_create(&info));
    return info;
}

void Errhandler::Free()
{
    check(MPI_Errhandler_free(&handle));
}

} // namespace MPI
