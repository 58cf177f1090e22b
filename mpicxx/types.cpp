/* Datatypes, operations, info objects, error handlers. */
#include "call.h"

using weft::Array;
using weft::check;

namespace MPI {

void Datatype::Commit()
{
    check(MPI_Type_commit(&handle));
}

void Datatype::Free()
{
    check(MPI_Type_free(&handle));
}

Datatype Datatype::Dup() const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_dup(handle, &type));
    return type;
}

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

Datatype Datatype::Create_hvector(int count, int blocklength, Aint stride) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_hvector(count, blocklength, stride, handle, &type));
    return type;
}

Datatype Datatype::Create_indexed(int count, const int blocklengths[], const int displacements[]) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_indexed(count, blocklengths, displacements, handle, &type));
    return type;
}

Datatype Datatype::Create_hindexed(int count, const int blocklengths[],
    const Aint displacements[]) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_hindexed(count, blocklengths, displacements, handle, &type));
    return type;
}

Datatype Datatype::Create_indexed_block(int count, int blocklength, const int displacements[]) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_indexed_block(count, blocklength, displacements, handle, &type));
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

Datatype Datatype::Create_subarray(int ndims, const int sizes[], const int subsizes[],
    const int starts[], int order) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_subarray(ndims, sizes, subsizes, starts, order, handle, &type));
    return type;
}

Datatype Datatype::Create_darray(int size, int rank, int ndims, const int gsizes[],
    const int distribs[], const int dargs[], const int psizes[], int order) const
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_darray(size, rank, ndims, gsizes, distribs, dargs, psizes, order, handle,
        &type));
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

int Datatype::Get_size() const
{
    int size = 0;
    check(MPI_Type_size(handle, &size));
    return size;
}

void Datatype::Get_extent(Aint &lb, Aint &extent) const
{
    check(MPI_Type_get_extent(handle, &lb, &extent));
}

void Datatype::Get_true_extent(Aint &true_lb, Aint &true_extent) const
{
    check(MPI_Type_get_true_extent(handle, &true_lb, &true_extent));
}

void Datatype::Get_envelope(int &num_integers, int &num_addresses, int &num_datatypes,
    int &combiner) const
{
    check(MPI_Type_get_envelope(handle, &num_integers, &num_addresses, &num_datatypes, &combiner));
}

void Datatype::Get_contents(int max_integers, int max_addresses, int max_datatypes, int integers[],
    Aint addresses[], Datatype datatypes[]) const
{
    int num_integers = 0, num_addresses = 0, num_datatypes = 0, combiner = 0;
    check(PMPI_Type_get_envelope(handle, &num_integers, &num_addresses, &num_datatypes, &combiner));
    Array<MPI_Datatype> types(max_datatypes);
    check(MPI_Type_get_contents(handle, max_integers, max_addresses, max_datatypes, integers,
        addresses, types));
    types.tell(num_datatypes < max_datatypes ? num_datatypes : max_datatypes, datatypes);
}

int Datatype::Pack_size(int incount, const Comm &comm) const
{
    int size = 0;
    check(MPI_Pack_size(incount, handle, comm, &size));
    return size;
}

void Datatype::Pack(const void *inbuf, int incount, void *outbuf, int outsize, int &position,
    const Comm &comm) const
{
    check(MPI_Pack(inbuf, incount, handle, outbuf, outsize, &position, comm));
}

void Datatype::Unpack(const void *inbuf, int insize, void *outbuf, int outcount, int &position,
    const Comm &comm) const
{
    check(MPI_Unpack(inbuf, insize, &position, outbuf, outcount, handle, comm));
}

Aint Datatype::Pack_external_size(const char *datarep, int incount) const
{
    Aint size = 0;
    check(MPI_Pack_external_size(datarep, incount, handle, &size));
    return size;
}

void Datatype::Pack_external(const char *datarep, const void *inbuf, int incount, void *outbuf,
    Aint outsize, Aint &position) const
{
    check(MPI_Pack_external(datarep, inbuf, incount, handle, outbuf, outsize, &position));
}

void Datatype::Unpack_external(const char *datarep, const void *inbuf, Aint insize, Aint &position,
    void *outbuf, int outcount) const
{
    check(MPI_Unpack_external(datarep, inbuf, insize, &position, outbuf, outcount, handle));
}

bool Datatype::Get_attr(int type_keyval, void *attribute_val) const
{
    int flag = 0;
    check(MPI_Type_get_attr(handle, type_keyval, attribute_val, &flag));
    return flag != 0;
}

void Datatype::Set_attr(int type_keyval, const void *attribute_val)
{
    check(MPI_Type_set_attr(handle, type_keyval, const_cast<void *>(attribute_val)));
}

void Datatype::Delete_attr(int type_keyval)
{
    check(MPI_Type_delete_attr(handle, type_keyval));
}

void Datatype::Set_name(const char *type_name)
{
    check(MPI_Type_set_name(handle, type_name));
}

void Datatype::Get_name(char *type_name, int &resultlen) const
{
    check(MPI_Type_get_name(handle, type_name, &resultlen));
}

void Op::Free()
{
    check(MPI_Op_free(&handle));
}

bool Op::Is_commutative() const
{
    int commute = 0;
    check(MPI_Op_commutative(handle, &commute));
    return commute != 0;
}

void Op::Reduce_local(const void *inbuf, void *inoutbuf, int count, const Datatype &datatype) const
{
    check(MPI_Reduce_local(inbuf, inoutbuf, count, datatype, handle));
}

Info Info::Create()
{
    MPI_Info info = MPI_INFO_NULL;
    check(MPI_Info_create(&info));
    return info;
}

Info Info::Dup() const
{
    MPI_Info info = MPI_INFO_NULL;
    check(MPI_Info_dup(handle, &info));
    return info;
}

void Info::Free()
{
    check(MPI_Info_free(&handle));
}

void Info::Set(const char *key, const char *value)
{
    check(MPI_Info_set(handle, key, value));
}

void Info::Delete(const char *key)
{
    check(MPI_Info_delete(handle, key));
}

bool Info::Get(const char *key, int valuelen, char *value) const
{
    int flag = 0;
    check(MPI_Info_get(handle, key, valuelen, value, &flag));
    return flag != 0;
}

bool Info::Get_valuelen(const char *key, int &valuelen) const
{
    int flag = 0;
    check(MPI_Info_get_valuelen(handle, key, &valuelen, &flag));
    return flag != 0;
}

int Info::Get_nkeys() const
{
    int nkeys = 0;
    check(MPI_Info_get_nkeys(handle, &nkeys));
    return nkeys;
}

void Info::Get_nthkey(int n, char *key) const
{
    check(MPI_Info_get_nthkey(handle, n, key));
}

void Errhandler::Free()
{
    check(MPI_Errhandler_free(&handle));
}

} // namespace MPI
