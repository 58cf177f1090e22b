/* Functions of the program's that the C interface is to call: it gets told to do so by way of a
 * function here, which makes objects of handles. */
#include "call.h"

/* What libmpi has for companions (mpi-table/functions.mpi). */
typedef int CopyProxy(MPI_Comm_copy_attr_function *copy, int handle, int keyval, void *extra_state,
    int form, void *value, void **copied, int *flag);
typedef int DeleteProxy(MPI_Comm_delete_attr_function *remove, int handle, int keyval, int form,
    void *value, void *extra_state);
typedef void OpProxy(const void *in, void *inout, int count, MPI_Datatype datatype,
    MPI_User_function *function);
typedef void ErrhandlerProxy(int kind, void *handle, int *code, void (*function)());
extern "C" {
void MPII_Keyval_set_proxy(int keyval, CopyProxy *copy, DeleteProxy *remove);
void MPII_Op_set_cxx(MPI_Op op, OpProxy *call);
void MPII_Errhandler_set_cxx(MPI_Errhandler errhandler, ErrhandlerProxy *call);
}

using weft::call;
using weft::check;

namespace {

enum Kind { COMM = 1, DATATYPE = 3, WIN = 8 };

/* Bits 26 to 29 of a handle tell what it is of. */
Kind kind_of(int handle)
{
    return static_cast<Kind>(static_cast<unsigned>(handle) >> 26 & 15);
}

/* Calls `act` with a communicator of the class that it is of. */
template <class Act> int with_comm(MPI_Comm handle, Act act)
{
    int inter = 0, topology = MPI_UNDEFINED;
    PMPI_Comm_test_inter(handle, &inter);
    if (inter) {
        MPI::Intercomm comm(handle);
        return act(comm);
    }
    PMPI_Topo_test(handle, &topology);
    if (topology == MPI_CART) {
        MPI::Cartcomm comm(handle);
        return act(comm);
    }
    if (topology == MPI_GRAPH) {
        MPI::Graphcomm comm(handle);
        return act(comm);
    }
    if (topology == MPI_DIST_GRAPH) {
        MPI::Distgraphcomm comm(handle);
        return act(comm);
    }
    MPI::Intracomm comm(handle);
    return act(comm);
}

/* What a key was made with goes through the C interface as a function of C. */
template <class To, class From> To *as(From *function)
{
    return reinterpret_cast<To *>(reinterpret_cast<void (*)()>(function));
}

struct Copy {
    MPI_Comm_copy_attr_function *function;
    int keyval;
    void *extra_state, *value, *copied;
    bool flag;

    template <class Object, class Function> int run(Function *typed, const Object &object)
    {
        return typed(object, keyval, extra_state, value, &copied, flag);
    }
    int operator()(MPI::Comm &comm)
    {
        return run(as<MPI::Comm::Copy_attr_function>(function), comm);
    }
};

int call_copy(MPI_Comm_copy_attr_function *function, int handle, int keyval, void *extra_state, int,
    void *value, void **copied, int *flag)
{
    Copy copy = {function, keyval, extra_state, value, NULL, false};
    int code = MPI_SUCCESS;
    switch (kind_of(handle)) {
    case COMM:
        code = with_comm<Copy &>(handle, copy);
        break;
    case DATATYPE:
        code = copy.run(as<MPI::Datatype::Copy_attr_function>(function), MPI::Datatype(handle));
        break;
    case WIN:
        code = copy.run(as<MPI::Win::Copy_attr_function>(function), MPI::Win(handle));
        break;
    }
    *flag = copy.flag;
    if (copy.flag)
        *copied = copy.copied;
    return code;
}

struct Delete {
    MPI_Comm_delete_attr_function *function;
    int keyval;
    void *value, *extra_state;

    int operator()(MPI::Comm &comm)
    {
        return as<MPI::Comm::Delete_attr_function>(function)(comm, keyval, value, extra_state);
    }
};

int call_delete(MPI_Comm_delete_attr_function *function, int handle, int keyval, int, void *value,
    void *extra_state)
{
    switch (kind_of(handle)) {
    case COMM: {
        Delete remove = {function, keyval, value, extra_state};
        return with_comm<Delete &>(handle, remove);
    }
    case DATATYPE: {
        MPI::Datatype type(handle);
        return as<MPI::Datatype::Delete_attr_function>(function)(type, keyval, value, extra_state);
    }
    case WIN: {
        MPI::Win win(handle);
        return as<MPI::Win::Delete_attr_function>(function)(win, keyval, value, extra_state);
    }
    }
    return MPI_SUCCESS;
}

void call_op(const void *in, void *inout, int count, MPI_Datatype datatype, MPI_User_function *function)
{
    as<MPI::User_function>(function)(in, inout, count, MPI::Datatype(datatype));
}

struct Handle {
    MPI::Comm::Errhandler_function *function;
    int *code;

    int operator()(MPI::Comm &comm)
    {
        function(comm, code);
        return MPI_SUCCESS;
    }
};

void call_errhandler(int kind, void *handle, int *code, void (*function)())
{
    switch (kind) {
    case 0: {
        Handle act = {as<MPI::Comm::Errhandler_function>(function), code};
        with_comm<Handle &>(*static_cast<MPI_Comm *>(handle), act);
        break;
    }
    case 1: {
        MPI::File file(*static_cast<MPI_File *>(handle));
        as<MPI::File::Errhandler_function>(function)(file, code);
        break;
    }
    case 2: {
        MPI::Win win(*static_cast<MPI_Win *>(handle));
        as<MPI::Win::Errhandler_function>(function)(win, code);
        break;
    }
    }
}

/* The functions of a generalized request; `call_free` ends it. */
struct Generalized {
    MPI::Grequest::Query_function *query;
    MPI::Grequest::Free_function *free;
    MPI::Grequest::Cancel_function *cancel;
    void *extra_state;
};

int call_query(void *state, MPI_Status *status)
{
    Generalized *request = static_cast<Generalized *>(state);
    MPI::Status filled(*status);
    const int code = request->query(request->extra_state, filled);
    *status = filled;
    return code;
}

int call_free(void *state)
{
    Generalized *request = static_cast<Generalized *>(state);
    const int code = request->free(request->extra_state);
    delete request;
    return code;
}

int call_cancel(void *state, int complete)
{
    Generalized *request = static_cast<Generalized *>(state);
    return request->cancel(request->extra_state, complete != 0);
}

/* The functions of a data representation; those live as long as the process. */
struct Representation {
    MPI::Datarep_conversion_function *read, *write;
    MPI::Datarep_extent_function *extent;
    void *extra_state;
};

int call_read(void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position,
    void *state)
{
    Representation *representation = static_cast<Representation *>(state);
    MPI::Datatype type(datatype);
    return representation->read(userbuf, type, count, filebuf, position, representation->extra_state);
}

int call_write(void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position,
    void *state)
{
    Representation *representation = static_cast<Representation *>(state);
    MPI::Datatype type(datatype);
    return representation->write(userbuf, type, count, filebuf, position, representation->extra_state);
}

int call_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state)
{
    Representation *representation = static_cast<Representation *>(state);
    return representation->extent(MPI::Datatype(datatype), *extent, representation->extra_state);
}

} // namespace

namespace MPI {

int Comm::Create_keyval(Copy_attr_function *copy, Delete_attr_function *remove, void *extra_state)
{
    int keyval = MPI_KEYVAL_INVALID;
    check(MPI_Comm_create_keyval(as<MPI_Comm_copy_attr_function>(copy),
        as<MPI_Comm_delete_attr_function>(remove), &keyval, extra_state));
    MPII_Keyval_set_proxy(keyval, call_copy, call_delete);
    return keyval;
}

int Datatype::Create_keyval(Copy_attr_function *copy, Delete_attr_function *remove, void *extra_state)
{
    int keyval = MPI_KEYVAL_INVALID;
    check(MPI_Type_create_keyval(as<MPI_Type_copy_attr_function>(copy),
        as<MPI_Type_delete_attr_function>(remove), &keyval, extra_state));
    MPII_Keyval_set_proxy(keyval, call_copy, call_delete);
    return keyval;
}

int Win::Create_keyval(Copy_attr_function *copy, Delete_attr_function *remove, void *extra_state)
{
    int keyval = MPI_KEYVAL_INVALID;
    check(MPI_Win_create_keyval(as<MPI_Win_copy_attr_function>(copy),
        as<MPI_Win_delete_attr_function>(remove), &keyval, extra_state));
    MPII_Keyval_set_proxy(keyval, call_copy, call_delete);
    return keyval;
}

void Comm::Free_keyval(int &comm_keyval)
{
    check(MPI_Comm_free_keyval(&comm_keyval));
}

void Datatype::Free_keyval(int &type_keyval)
{
    check(MPI_Type_free_keyval(&type_keyval));
}

void Win::Free_keyval(int &win_keyval)
{
    check(MPI_Win_free_keyval(&win_keyval));
}

int Comm::NULL_COPY_FN(const Comm &, int, void *, void *, void *, bool &flag)
{
    flag = false;
    return MPI_SUCCESS;
}

int Datatype::NULL_COPY_FN(const Datatype &, int, void *, void *, void *, bool &flag)
{
    flag = false;
    return MPI_SUCCESS;
}

int Win::NULL_COPY_FN(const Win &, int, void *, void *, void *, bool &flag)
{
    flag = false;
    return MPI_SUCCESS;
}

int Comm::DUP_FN(const Comm &, int, void *, void *in, void *out, bool &flag)
{
    *static_cast<void **>(out) = in;
    flag = true;
    return MPI_SUCCESS;
}

int Datatype::DUP_FN(const Datatype &, int, void *, void *in, void *out, bool &flag)
{
    *static_cast<void **>(out) = in;
    flag = true;
    return MPI_SUCCESS;
}

int Win::DUP_FN(const Win &, int, void *, void *in, void *out, bool &flag)
{
    *static_cast<void **>(out) = in;
    flag = true;
    return MPI_SUCCESS;
}

int Comm::NULL_DELETE_FN(Comm &, int, void *, void *)
{
    return MPI_SUCCESS;
}

int Datatype::NULL_DELETE_FN(Datatype &, int, void *, void *)
{
    return MPI_SUCCESS;
}

int Win::NULL_DELETE_FN(Win &, int, void *, void *)
{
    return MPI_SUCCESS;
}

Errhandler Comm::Create_errhandler(Errhandler_function *function)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    check(MPI_Comm_create_errhandler(as<MPI_Comm_errhandler_function>(function), &handler));
    MPII_Errhandler_set_cxx(handler, call_errhandler);
    return handler;
}

Errhandler Win::Create_errhandler(Errhandler_function *function)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    check(MPI_Win_create_errhandler(as<MPI_Win_errhandler_function>(function), &handler));
    MPII_Errhandler_set_cxx(handler, call_errhandler);
    return handler;
}

Errhandler File::Create_errhandler(Errhandler_function *function)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    check(MPI_File_create_errhandler(as<MPI_File_errhandler_function>(function), &handler));
    MPII_Errhandler_set_cxx(handler, call_errhandler);
    return handler;
}

void Op::Init(User_function *function, bool commute)
{
    check(MPI_Op_create(as<MPI_User_function>(function), commute, &handle));
    MPII_Op_set_cxx(handle, call_op);
}

Grequest Grequest::Begin(Query_function *query, Free_function *free, Cancel_function *cancel,
    void *extra_state)
{
    Generalized *state = new Generalized();
    state->query = query;
    state->free = free;
    state->cancel = cancel;
    state->extra_state = extra_state;
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Grequest_start(call_query, call_free, call_cancel, state, &request);
    if (code != MPI_SUCCESS)
        delete state;
    check(code);
    return request;
}

/* MPI::Grequest::Start for programs that were compiled with another header of this ABI: there it is
 * called with an object, though the standard has it static. */
class Foreign : Grequest {
public:
    static Grequest start(Grequest *, Query_function *query, Free_function *free,
        Cancel_function *cancel, void *extra_state)
        __asm__("_ZN3MPI8Grequest5StartEPFiPvRNS_6StatusEEPFiS1_EPFiS1_bES1_");
};

Grequest Foreign::start(Grequest *, Query_function *query, Free_function *free,
    Cancel_function *cancel, void *extra_state)
{
    return Begin(query, free, cancel, extra_state);
}

void Grequest::Complete()
{
    check(MPI_Grequest_complete(handle));
}

void Register_datarep(const char *datarep, Datarep_conversion_function *read,
    Datarep_conversion_function *write, Datarep_extent_function *extent, void *extra_state)
{
    Representation *state = new Representation();
    state->read = read;
    state->write = write;
    state->extent = extent;
    state->extra_state = extra_state;
    check(CALL(MPI_Register_datarep, datarep, read ? call_read : NULL, write ? call_write : NULL,
        call_extent, static_cast<void *>(state)));
}

} // namespace MPI
