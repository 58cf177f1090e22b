/*
 * mpicxx.h: the C++ bindings of MPI-2.2 (chapter 16 and annex A.4), which mpi.h includes.
 *
 * They left the standard with MPI-3.0; this header is for programs that still use them. Everything is
 * declared here and defined in libmpicxx.so.12, but for what fits in a line. Names, sizes and the
 * order of virtual functions are those of libraries of the MPICH ABI: programs that were compiled with
 * another header of that ABI run with this library.
 *
 * Programs that want the C interface alone define MPICH_SKIP_MPICXX before they include mpi.h.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef WEFT_MPICXX_H
#define WEFT_MPICXX_H

#include "mpi.h"
#include <stdio.h>

/* <stdio.h> has macros of these names, which would hide MPI::SEEK_SET. They become macros of names that
 * are stdio's values by themselves, and MPI's behind MPI::. */
#if defined(SEEK_SET) && defined(SEEK_CUR) && defined(SEEK_END)
const int weft_SEEK_SET = SEEK_SET;
const int weft_SEEK_CUR = SEEK_CUR;
const int weft_SEEK_END = SEEK_END;
#undef SEEK_SET
#undef SEEK_CUR
#undef SEEK_END
#define WEFT_STDIO_SEEK
#endif

/* Programs include mpi.h in blocks of extern "C". */
extern "C++" {

namespace MPI {

typedef MPI_Aint Aint;
typedef MPI_Offset Offset;

class Comm;
class Nullcomm;
class Intracomm;
class Intercomm;
class Cartcomm;
class Graphcomm;
class Distgraphcomm;
class Datatype;
class Errhandler;
class Exception;
class File;
class Group;
class Info;
class Op;
class Request;
class Prequest;
class Grequest;
class Status;
class Win;

typedef void User_function(const void *invec, void *inoutvec, int len, const Datatype &datatype);
typedef int Datarep_extent_function(const Datatype &datatype, Aint &file_extent, void *extra_state);
typedef int Datarep_conversion_function(void *userbuf, Datatype &datatype, int count, void *filebuf,
    Offset position, void *extra_state);

/* What a function throws under MPI::ERRORS_THROW_EXCEPTIONS. */
class Exception {
public:
    explicit Exception(int error_code);
    virtual ~Exception() {}
    int Get_error_code() const { return code; }
    int Get_error_class() const;
    const char *Get_error_string() const { return message; }

protected:
    int code;
    char message[MPI_MAX_ERROR_STRING];
};

class Datatype {
public:
    Datatype() : handle(MPI_DATATYPE_NULL) {}
    Datatype(MPI_Datatype other) : handle(other) {}
    Datatype(const Datatype &other) : handle(other.handle) {}
    virtual ~Datatype() {}
    Datatype &operator=(const Datatype &other) { handle = other.handle; return *this; }
    Datatype &operator=(MPI_Datatype other) { handle = other; return *this; }
    bool operator==(const Datatype &other) const { return handle == other.handle; }
    bool operator!=(const Datatype &other) const { return handle != other.handle; }
    operator MPI_Datatype() const { return handle; }

    virtual void Commit();
    virtual void Free();
    virtual Datatype Create_indexed(int count, const int blocklengths[], const int displacements[]) const;
    virtual Datatype Create_contiguous(int count) const;
    virtual Datatype Create_vector(int count, int blocklength, int stride) const;
    virtual int Pack_size(int incount, const Comm &comm) const;
    virtual void Pack(const void *inbuf, int incount, void *outbuf, int outsize, int &position,
        const Comm &comm) const;
    virtual int Get_size() const;
    virtual void Get_envelope(int &num_integers, int &num_addresses, int &num_datatypes,
        int &combiner) const;
    virtual Datatype Create_hvector(int count, int blocklength, Aint stride) const;
    virtual Datatype Create_resized(const Aint lb, const Aint extent) const;
    virtual Datatype Create_indexed_block(int count, int blocklength, const int displacements[]) const;
    virtual Aint Pack_external_size(const char *datarep, int incount) const;
    virtual Datatype Create_hindexed(int count, const int blocklengths[],
        const Aint displacements[]) const;
    virtual bool Get_attr(int type_keyval, void *attribute_val) const;
    virtual void Get_true_extent(Aint &true_lb, Aint &true_extent) const;
    virtual Datatype Create_darray(int size, int rank, int ndims, const int gsizes[],
        const int distribs[], const int dargs[], const int psizes[], int order) const;
    virtual void Get_contents(int max_integers, int max_addresses, int max_datatypes, int integers[],
        Aint addresses[], Datatype datatypes[]) const;
    virtual void Set_attr(int type_keyval, const void *attribute_val);
    virtual void Set_name(const char *type_name);
    virtual Datatype Create_subarray(int ndims, const int sizes[], const int subsizes[],
        const int starts[], int order) const;
    virtual void Unpack_external(const char *datarep, const void *inbuf, Aint insize, Aint &position,
        void *outbuf, int outcount) const;
    virtual void Pack_external(const char *datarep, const void *inbuf, int incount, void *outbuf,
        Aint outsize, Aint &position) const;
    virtual void Get_extent(Aint &lb, Aint &extent) const;
    virtual void Delete_attr(int type_keyval);
    virtual void Get_name(char *type_name, int &resultlen) const;

    void Unpack(const void *inbuf, int insize, void *outbuf, int outcount, int &position,
        const Comm &comm) const;
    Datatype Dup() const;
    static Datatype Create_struct(int count, const int blocklengths[], const Aint displacements[],
        const Datatype types[]);
    static Datatype Create_f90_integer(int range);
    static Datatype Create_f90_real(int precision, int range);
    static Datatype Create_f90_complex(int precision, int range);
    static Datatype Match_size(int typeclass, int size);

    typedef int Copy_attr_function(const Datatype &oldtype, int type_keyval, void *extra_state,
        void *attribute_val_in, void *attribute_val_out, bool &flag);
    typedef int Delete_attr_function(Datatype &type, int type_keyval, void *attribute_val,
        void *extra_state);
    static int Create_keyval(Copy_attr_function *copy, Delete_attr_function *remove,
        void *extra_state);
    static void Free_keyval(int &type_keyval);
    static int NULL_COPY_FN(const Datatype &, int, void *, void *, void *, bool &flag);
    static int NULL_DELETE_FN(Datatype &, int, void *, void *);
    static int DUP_FN(const Datatype &, int, void *, void *in, void *out, bool &flag);

protected:
    MPI_Datatype handle;
};

class Info {
public:
    Info() : handle(MPI_INFO_NULL) {}
    Info(MPI_Info other) : handle(other) {}
    Info(const Info &other) : handle(other.handle) {}
    virtual ~Info() {}
    Info &operator=(const Info &other) { handle = other.handle; return *this; }
    Info &operator=(MPI_Info other) { handle = other; return *this; }
    bool operator==(const Info &other) const { return handle == other.handle; }
    bool operator!=(const Info &other) const { return handle != other.handle; }
    operator MPI_Info() const { return handle; }

    virtual void Delete(const char *key);
    virtual void Get_nthkey(int n, char *key) const;
    virtual void Free();
    virtual void Set(const char *key, const char *value);
    virtual bool Get_valuelen(const char *key, int &valuelen) const;
    virtual bool Get(const char *key, int valuelen, char *value) const;
    virtual int Get_nkeys() const;

    static Info Create();
    Info Dup() const;

protected:
    MPI_Info handle;
};

class Status {
public:
    Status() : handle() {}
    Status(const MPI_Status &other) : handle(other) {}
    Status(const Status &other) : handle(other.handle) {}
    virtual ~Status() {}
    Status &operator=(const Status &other) { handle = other.handle; return *this; }
    Status &operator=(const MPI_Status &other) { handle = other; return *this; }
    operator MPI_Status() const { return handle; }

    virtual bool Is_cancelled() const;
    virtual int Get_elements(const Datatype &datatype) const;
    virtual int Get_count(const Datatype &datatype) const;
    virtual void Set_cancelled(bool flag);
    virtual void Set_elements(const Datatype &datatype, int count);

    int Get_source() const { return handle.MPI_SOURCE; }
    int Get_tag() const { return handle.MPI_TAG; }
    int Get_error() const { return handle.MPI_ERROR; }
    void Set_source(int source) { handle.MPI_SOURCE = source; }
    void Set_tag(int tag) { handle.MPI_TAG = tag; }
    void Set_error(int error) { handle.MPI_ERROR = error; }

protected:
    MPI_Status handle;

    /* They have it filled in by the C interface. */
    friend class Comm;
    friend class Request;
    friend class File;
};

class Group {
public:
    Group() : handle(MPI_GROUP_NULL) {}
    Group(MPI_Group other) : handle(other) {}
    Group(const Group &other) : handle(other.handle) {}
    virtual ~Group() {}
    Group &operator=(const Group &other) { handle = other.handle; return *this; }
    Group &operator=(MPI_Group other) { handle = other; return *this; }
    bool operator==(const Group &other) const { return handle == other.handle; }
    bool operator!=(const Group &other) const { return handle != other.handle; }
    operator MPI_Group() const { return handle; }

    virtual Group Excl(int n, const int ranks[]) const;
    virtual int Get_rank() const;
    virtual void Free();
    virtual Group Range_excl(int n, const int ranges[][3]) const;
    virtual Group Range_incl(int n, const int ranges[][3]) const;
    virtual Group Incl(int n, const int ranks[]) const;
    virtual int Get_size() const;

    static void Translate_ranks(const Group &group1, int n, const int ranks1[], const Group &group2,
        int ranks2[]);
    static int Compare(const Group &group1, const Group &group2);
    static Group Union(const Group &group1, const Group &group2);
    static Group Intersect(const Group &group1, const Group &group2);
    static Group Difference(const Group &group1, const Group &group2);

protected:
    MPI_Group handle;
};

class Op {
public:
    Op() : handle(MPI_OP_NULL) {}
    Op(MPI_Op other) : handle(other) {}
    Op(const Op &other) : handle(other.handle) {}
    virtual ~Op() {}
    Op &operator=(const Op &other) { handle = other.handle; return *this; }
    Op &operator=(MPI_Op other) { handle = other; return *this; }
    bool operator==(const Op &other) const { return handle == other.handle; }
    bool operator!=(const Op &other) const { return handle != other.handle; }
    operator MPI_Op() const { return handle; }

    virtual void Free();
    virtual bool Is_commutative() const;
    virtual void Reduce_local(const void *inbuf, void *inoutbuf, int count,
        const Datatype &datatype) const;

    void Init(User_function *function, bool commute);

protected:
    MPI_Op handle;
};

class Errhandler {
public:
    Errhandler() : handle(MPI_ERRHANDLER_NULL) {}
    Errhandler(MPI_Errhandler other) : handle(other) {}
    Errhandler(const Errhandler &other) : handle(other.handle) {}
    virtual ~Errhandler() {}
    Errhandler &operator=(const Errhandler &other) { handle = other.handle; return *this; }
    Errhandler &operator=(MPI_Errhandler other) { handle = other; return *this; }
    bool operator==(const Errhandler &other) const { return handle == other.handle; }
    bool operator!=(const Errhandler &other) const { return handle != other.handle; }
    operator MPI_Errhandler() const { return handle; }

    virtual void Free();

protected:
    MPI_Errhandler handle;
};

class Request {
public:
    Request() : handle(MPI_REQUEST_NULL) {}
    Request(MPI_Request other) : handle(other) {}
    Request(const Request &other) : handle(other.handle) {}
    virtual ~Request() {}
    Request &operator=(const Request &other) { handle = other.handle; return *this; }
    Request &operator=(MPI_Request other) { handle = other; return *this; }
    bool operator==(const Request &other) const { return handle == other.handle; }
    bool operator!=(const Request &other) const { return handle != other.handle; }
    operator MPI_Request() const { return handle; }

    virtual void Free();
    virtual void Wait(Status &status);
    virtual void Wait();
    virtual bool Test(Status &status);
    virtual bool Test();
    virtual void Cancel() const;
    virtual bool Get_status(Status &status) const;
    virtual bool Get_status() const;

    static int Waitany(int count, Request requests[], Status &status);
    static int Waitany(int count, Request requests[]);
    static bool Testany(int count, Request requests[], int &index, Status &status);
    static bool Testany(int count, Request requests[], int &index);
    static void Waitall(int count, Request requests[], Status statuses[]);
    static void Waitall(int count, Request requests[]);
    static bool Testall(int count, Request requests[], Status statuses[]);
    static bool Testall(int count, Request requests[]);
    static int Waitsome(int incount, Request requests[], int indices[], Status statuses[]);
    static int Waitsome(int incount, Request requests[], int indices[]);
    static int Testsome(int incount, Request requests[], int indices[], Status statuses[]);
    static int Testsome(int incount, Request requests[], int indices[]);

protected:
    MPI_Request handle;
};

class Prequest : public Request {
public:
    Prequest() {}
    Prequest(MPI_Request other) : Request(other) {}
    Prequest(const Request &other) : Request(other) {}
    Prequest(const Prequest &other) : Request(other) {}
    virtual ~Prequest() {}
    Prequest &operator=(const Prequest &other) { handle = other.handle; return *this; }
    Prequest &operator=(const Request &other) { handle = other; return *this; }
    Prequest &operator=(MPI_Request other) { handle = other; return *this; }

    virtual void Start();
    static void Startall(int count, Prequest requests[]);
};

class Comm {
public:
    Comm() : handle(MPI_COMM_NULL) {}
    Comm(MPI_Comm other) : handle(other) {}
    Comm(const Comm &other) : handle(other.handle) {}
    virtual ~Comm() {}
    Comm &operator=(const Comm &other) { handle = other.handle; return *this; }
    Comm &operator=(MPI_Comm other) { handle = other; return *this; }
    bool operator==(const Comm &other) const { return handle == other.handle; }
    bool operator!=(const Comm &other) const { return handle != other.handle; }
    operator MPI_Comm() const { return handle; }

    virtual Group Get_group() const;
    virtual int Get_rank() const;
    virtual Prequest Bsend_init(const void *buf, int count, const Datatype &datatype, int dest,
        int tag) const;
    virtual Prequest Ssend_init(const void *buf, int count, const Datatype &datatype, int dest,
        int tag) const;
    virtual bool Is_inter() const;
    virtual Prequest Rsend_init(const void *buf, int count, const Datatype &datatype, int dest,
        int tag) const;
    virtual Request Ibsend(const void *buf, int count, const Datatype &datatype, int dest,
        int tag) const;
    virtual void Abort(int errorcode) const;
    virtual void Free();
    virtual Prequest Send_init(const void *buf, int count, const Datatype &datatype, int dest,
        int tag) const;
    virtual void Recv(void *buf, int count, const Datatype &datatype, int source, int tag,
        Status &status) const;
    virtual void Recv(void *buf, int count, const Datatype &datatype, int source, int tag) const;
    virtual void Sendrecv(const void *sendbuf, int sendcount, const Datatype &sendtype, int dest,
        int sendtag, void *recvbuf, int recvcount, const Datatype &recvtype, int source, int recvtag,
        Status &status) const;
    virtual void Sendrecv(const void *sendbuf, int sendcount, const Datatype &sendtype, int dest,
        int sendtag, void *recvbuf, int recvcount, const Datatype &recvtype, int source,
        int recvtag) const;
    virtual void Sendrecv_replace(void *buf, int count, const Datatype &datatype, int dest,
        int sendtag, int source, int recvtag, Status &status) const;
    virtual void Sendrecv_replace(void *buf, int count, const Datatype &datatype, int dest,
        int sendtag, int source, int recvtag) const;
    virtual int Get_topology() const;
    virtual Request Isend(const void *buf, int count, const Datatype &datatype, int dest,
        int tag) const;
    virtual void Probe(int source, int tag, Status &status) const;
    virtual void Probe(int source, int tag) const;
    virtual int Get_size() const;
    virtual Request Issend(const void *buf, int count, const Datatype &datatype, int dest,
        int tag) const;
    virtual void Set_errhandler(const Errhandler &errhandler);
    virtual void Send(const void *buf, int count, const Datatype &datatype, int dest, int tag) const;
    virtual Request Irsend(const void *buf, int count, const Datatype &datatype, int dest,
        int tag) const;
    virtual void Ssend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const;
    virtual Prequest Recv_init(void *buf, int count, const Datatype &datatype, int source,
        int tag) const;
    virtual bool Iprobe(int source, int tag, Status &status) const;
    virtual bool Iprobe(int source, int tag) const;
    virtual void Bsend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const;
    virtual Request Irecv(void *buf, int count, const Datatype &datatype, int source, int tag) const;
    virtual Errhandler Get_errhandler() const;
    virtual void Rsend(const void *buf, int count, const Datatype &datatype, int dest, int tag) const;
    virtual void Gatherv(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
        const int recvcounts[], const int displs[], const Datatype &recvtype, int root) const;
    virtual void Disconnect();
    virtual void Allreduce(const void *sendbuf, void *recvbuf, int count, const Datatype &datatype,
        const Op &op) const;
    virtual void Alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[],
        const Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[],
        const Datatype recvtypes[]) const;
    virtual void Alltoall(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
        int recvcount, const Datatype &recvtype) const;
    virtual bool Get_attr(int comm_keyval, void *attribute_val) const;
    virtual void Barrier() const;
    virtual void Bcast(void *buffer, int count, const Datatype &datatype, int root) const;
    virtual void Set_attr(int comm_keyval, const void *attribute_val);
    void Set_attr(int comm_keyval, const void *attribute_val) const
    {
        /* Constant in the standard, and not so in this ABI. */
        const_cast<Comm *>(this)->Set_attr(comm_keyval, attribute_val);
    }
    virtual void Set_name(const char *comm_name);
    virtual void Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[],
        const Datatype &sendtype, void *recvbuf, const int recvcounts[], const int rdispls[],
        const Datatype &recvtype) const;
    virtual void Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[],
        const Datatype &datatype, const Op &op) const;
    virtual void Scatter(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
        int recvcount, const Datatype &recvtype, int root) const;
    virtual void Gather(const void *sendbuf, int sendcount, const Datatype &sendtype, void *recvbuf,
        int recvcount, const Datatype &recvtype, int root) const;
    virtual void Reduce(const void *sendbuf, void *recvbuf, int count, const Datatype &datatype,
        const Op &op, int root) const;
    virtual void Allgather(const void *sendbuf, int sendcount, const Datatype &sendtype,
        void *recvbuf, int recvcount, const Datatype &recvtype) const;
    virtual void Delete_attr(int comm_keyval);
    virtual void Scatterv(const void *sendbuf, const int sendcounts[], const int displs[],
        const Datatype &sendtype, void *recvbuf, int recvcount, const Datatype &recvtype,
        int root) const;
    virtual void Get_name(char *comm_name, int &resultlen) const;
    virtual void Allgatherv(const void *sendbuf, int sendcount, const Datatype &sendtype,
        void *recvbuf, const int recvcounts[], const int displs[], const Datatype &recvtype) const;
    virtual Comm &Clone() const = 0;
    virtual void Call_errhandler(int errorcode) const;
    virtual void Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount,
        const Datatype &datatype, const Op &op) const;

    static int Compare(const Comm &comm1, const Comm &comm2);
    static Intercomm Get_parent();
    static Intercomm Join(int fd);

    typedef void Errhandler_function(Comm &, int *, ...);
    typedef Errhandler_function Errhandler_fn;
    static Errhandler Create_errhandler(Errhandler_function *function);

    typedef int Copy_attr_function(const Comm &oldcomm, int comm_keyval, void *extra_state,
        void *attribute_val_in, void *attribute_val_out, bool &flag);
    typedef int Delete_attr_function(Comm &comm, int comm_keyval, void *attribute_val,
        void *extra_state);
    static int Create_keyval(Copy_attr_function *copy, Delete_attr_function *remove,
        void *extra_state);
    static void Free_keyval(int &comm_keyval);
    static int NULL_COPY_FN(const Comm &, int, void *, void *, void *, bool &flag);
    static int NULL_DELETE_FN(Comm &, int, void *, void *);
    static int DUP_FN(const Comm &, int, void *, void *in, void *out, bool &flag);

protected:
    MPI_Comm handle;
};

/* The class of MPI::COMM_NULL. */
class Nullcomm : public Comm {
public:
    Nullcomm() {}
    Nullcomm(MPI_Comm other) : Comm(other) {}
    Nullcomm(const Nullcomm &other) : Comm(other) {}
    virtual ~Nullcomm() {}
    Nullcomm &operator=(const Nullcomm &other) { handle = other.handle; return *this; }
    virtual Nullcomm &Clone() const;
};

class Intercomm : public Comm {
public:
    Intercomm() {}
    Intercomm(MPI_Comm other) : Comm(other) {}
    Intercomm(const Nullcomm &other) : Comm(other) {}
    Intercomm(const Intercomm &other) : Comm(other) {}
    virtual ~Intercomm() {}
    Intercomm &operator=(const Intercomm &other) { handle = other.handle; return *this; }
    Intercomm &operator=(const Nullcomm &other) { handle = other; return *this; }
    Intercomm &operator=(MPI_Comm other) { handle = other; return *this; }

    virtual Intercomm &Clone() const;
    virtual Intracomm Merge(bool high) const;
    virtual Group Get_remote_group() const;
    virtual int Get_remote_size() const;
    virtual Intercomm Split(int color, int key) const;

    Intercomm Create(const Group &group) const;
    Intercomm Dup() const;
};

class Intracomm : public Comm {
public:
    Intracomm() {}
    Intracomm(MPI_Comm other) : Comm(other) {}
    Intracomm(const Nullcomm &other) : Comm(other) {}
    Intracomm(const Intracomm &other) : Comm(other) {}
    virtual ~Intracomm() {}
    Intracomm &operator=(const Intracomm &other) { handle = other.handle; return *this; }
    Intracomm &operator=(const Nullcomm &other) { handle = other; return *this; }
    Intracomm &operator=(MPI_Comm other) { handle = other; return *this; }

    virtual Intracomm &Clone() const;
    virtual Intercomm Create_intercomm(int local_leader, const Comm &peer_comm, int remote_leader,
        int tag) const;
    virtual Intracomm Split(int color, int key) const;
    virtual Graphcomm Create_graph(int nnodes, const int index[], const int edges[],
        bool reorder) const;
    virtual Cartcomm Create_cart(int ndims, const int dims[], const bool periods[],
        bool reorder) const;
    virtual Intracomm Create(const Group &group) const;
    virtual void Scan(const void *sendbuf, void *recvbuf, int count, const Datatype &datatype,
        const Op &op) const;
    virtual void Exscan(const void *sendbuf, void *recvbuf, int count, const Datatype &datatype,
        const Op &op) const;
    virtual Intercomm Accept(const char *port_name, const Info &info, int root) const;
    virtual Intercomm Connect(const char *port_name, const Info &info, int root) const;

    Intracomm Dup() const;
    Intercomm Spawn(const char *command, const char *argv[], int maxprocs, const Info &info,
        int root) const;
    Intercomm Spawn(const char *command, const char *argv[], int maxprocs, const Info &info, int root,
        int errcodes[]) const;
    Intercomm Spawn_multiple(int count, const char *commands[], const char **argvs[],
        const int maxprocs[], const Info infos[], int root);
    Intercomm Spawn_multiple(int count, const char *commands[], const char **argvs[],
        const int maxprocs[], const Info infos[], int root, int errcodes[]);
    Distgraphcomm Dist_graph_create_adjacent(int indegree, const int sources[],
        const int sourceweights[], int outdegree, const int destinations[], const int destweights[],
        const Info &info, bool reorder) const;
    Distgraphcomm Dist_graph_create_adjacent(int indegree, const int sources[], int outdegree,
        const int destinations[], const Info &info, bool reorder) const;
    Distgraphcomm Dist_graph_create(int n, const int sources[], const int degrees[],
        const int destinations[], const int weights[], const Info &info, bool reorder) const;
    Distgraphcomm Dist_graph_create(int n, const int sources[], const int degrees[],
        const int destinations[], const Info &info, bool reorder) const;
};

class Cartcomm : public Intracomm {
public:
    Cartcomm() {}
    Cartcomm(MPI_Comm other) : Intracomm(other) {}
    Cartcomm(const Nullcomm &other) : Intracomm(other) {}
    Cartcomm(const Cartcomm &other) : Intracomm(other) {}
    virtual ~Cartcomm() {}
    Cartcomm &operator=(const Cartcomm &other) { handle = other.handle; return *this; }
    Cartcomm &operator=(const Nullcomm &other) { handle = other; return *this; }
    Cartcomm &operator=(MPI_Comm other) { handle = other; return *this; }

    virtual Cartcomm &Clone() const;
    virtual void Get_coords(int rank, int maxdims, int coords[]) const;
    virtual int Get_cart_rank(const int coords[]) const;
    virtual int Get_dim() const;
    virtual void Get_topo(int maxdims, int dims[], bool periods[], int coords[]) const;
    virtual int Map(int ndims, const int dims[], const bool periods[]) const;
    virtual Cartcomm Sub(const bool remain_dims[]) const;
    virtual void Shift(int direction, int disp, int &rank_source, int &rank_dest) const;

    Cartcomm Dup() const;
};

class Graphcomm : public Intracomm {
public:
    Graphcomm() {}
    Graphcomm(MPI_Comm other) : Intracomm(other) {}
    Graphcomm(const Nullcomm &other) : Intracomm(other) {}
    Graphcomm(const Graphcomm &other) : Intracomm(other) {}
    virtual ~Graphcomm() {}
    Graphcomm &operator=(const Graphcomm &other) { handle = other.handle; return *this; }
    Graphcomm &operator=(const Nullcomm &other) { handle = other; return *this; }
    Graphcomm &operator=(MPI_Comm other) { handle = other; return *this; }

    virtual Graphcomm &Clone() const;
    virtual void Get_dims(int nnodes[], int nedges[]) const;
    virtual void Get_topo(int maxindex, int maxedges, int index[], int edges[]) const;
    virtual int Map(int nnodes, const int index[], const int edges[]) const;
    virtual void Get_neighbors(int rank, int maxneighbors, int neighbors[]) const;
    virtual int Get_neighbors_count(int rank) const;

    Graphcomm Dup() const;
};

class Distgraphcomm : public Intracomm {
public:
    Distgraphcomm() {}
    Distgraphcomm(MPI_Comm other) : Intracomm(other) {}
    Distgraphcomm(const Nullcomm &other) : Intracomm(other) {}
    Distgraphcomm(const Distgraphcomm &other) : Intracomm(other) {}
    virtual ~Distgraphcomm() {}
    Distgraphcomm &operator=(const Distgraphcomm &other) { handle = other.handle; return *this; }
    Distgraphcomm &operator=(const Nullcomm &other) { handle = other; return *this; }
    Distgraphcomm &operator=(MPI_Comm other) { handle = other; return *this; }

    virtual Distgraphcomm &Clone() const;
    /* The degrees of this process; `rank` has no meaning (MPI-2.2, section 7.5.5). */
    virtual void Get_dist_neighbors_count(int rank, int indegree[], int outdegree[],
        bool &weighted) const;
    virtual void Get_dist_neighbors(int maxindegree, int sources[], int sourceweights[],
        int maxoutdegree, int destinations[], int destweights[]) const;

    Distgraphcomm Dup() const;
};

class Grequest : public Request {
public:
    Grequest() {}
    Grequest(MPI_Request other) : Request(other) {}
    Grequest(const Request &other) : Request(other) {}
    Grequest(const Grequest &other) : Request(other) {}
    virtual ~Grequest() {}
    Grequest &operator=(const Grequest &other) { handle = other.handle; return *this; }
    Grequest &operator=(const Request &other) { handle = other; return *this; }
    Grequest &operator=(MPI_Request other) { handle = other; return *this; }

    virtual void Complete();

    typedef int Query_function(void *extra_state, Status &status);
    typedef int Free_function(void *extra_state);
    typedef int Cancel_function(void *extra_state, bool complete);
    static Grequest Start(Query_function *query, Free_function *free, Cancel_function *cancel,
        void *extra_state)
    {
        return Begin(query, free, cancel, extra_state);
    }

protected:
    /* The name `Start` is a member function that isn't static in this ABI. */
    static Grequest Begin(Query_function *query, Free_function *free, Cancel_function *cancel,
        void *extra_state);
};

class Win {
public:
    Win() : handle(MPI_WIN_NULL) {}
    Win(MPI_Win other) : handle(other) {}
    Win(const Win &other) : handle(other.handle) {}
    virtual ~Win() {}
    Win &operator=(const Win &other) { handle = other.handle; return *this; }
    Win &operator=(MPI_Win other) { handle = other; return *this; }
    bool operator==(const Win &other) const { return handle == other.handle; }
    bool operator!=(const Win &other) const { return handle != other.handle; }
    operator MPI_Win() const { return handle; }

    virtual Group Get_group() const;
    virtual void Fence(int assert) const;
    virtual void Start(const Group &group, int assert) const;
    virtual void Free();
    virtual void Put(const void *origin_addr, int origin_count, const Datatype &origin_datatype,
        int target_rank, Aint target_disp, int target_count, const Datatype &target_datatype) const;
    virtual void Wait() const;
    virtual bool Test() const;
    virtual void Get(void *origin_addr, int origin_count, const Datatype &origin_datatype,
        int target_rank, Aint target_disp, int target_count, const Datatype &target_datatype) const;
    virtual bool Get_attr(int win_keyval, void *attribute_val) const;
    virtual void Set_attr(int win_keyval, const void *attribute_val);
    virtual void Complete() const;
    virtual void Set_errhandler(const Errhandler &errhandler);
    virtual void Set_name(const char *win_name);
    virtual void Accumulate(const void *origin_addr, int origin_count,
        const Datatype &origin_datatype, int target_rank, Aint target_disp, int target_count,
        const Datatype &target_datatype, const Op &op) const;
    virtual void Post(const Group &group, int assert) const;
    virtual void Unlock(int rank) const;
    virtual void Delete_attr(int win_keyval);
    virtual void Lock(int lock_type, int rank, int assert) const;
    virtual Errhandler Get_errhandler() const;
    virtual void Get_name(char *win_name, int &resultlen) const;
    virtual void Call_errhandler(int errorcode) const;

    static Win Create(const void *base, Aint size, int disp_unit, const Info &info,
        const Intracomm &comm);

    typedef void Errhandler_function(Win &, int *, ...);
    typedef Errhandler_function Errhandler_fn;
    static Errhandler Create_errhandler(Errhandler_function *function);

    typedef int Copy_attr_function(const Win &oldwin, int win_keyval, void *extra_state,
        void *attribute_val_in, void *attribute_val_out, bool &flag);
    typedef int Delete_attr_function(Win &win, int win_keyval, void *attribute_val,
        void *extra_state);
    static int Create_keyval(Copy_attr_function *copy, Delete_attr_function *remove,
        void *extra_state);
    static void Free_keyval(int &win_keyval);
    static int NULL_COPY_FN(const Win &, int, void *, void *, void *, bool &flag);
    static int NULL_DELETE_FN(Win &, int, void *, void *);
    static int DUP_FN(const Win &, int, void *, void *in, void *out, bool &flag);

protected:
    MPI_Win handle;
};

class File {
public:
    File() : handle(MPI_FILE_NULL) {}
    File(MPI_File other) : handle(other) {}
    File(const File &other) : handle(other.handle) {}
    virtual ~File() {}
    File &operator=(const File &other) { handle = other.handle; return *this; }
    File &operator=(MPI_File other) { handle = other; return *this; }
    bool operator==(const File &other) const { return handle == other.handle; }
    bool operator!=(const File &other) const { return handle != other.handle; }
    operator MPI_File() const { return handle; }

    virtual Aint Get_type_extent(const Datatype &datatype) const;
    virtual void Read_ordered_end(void *buf, Status &status);
    virtual void Read_ordered_end(void *buf);
    virtual void Seek_shared(Offset offset, int whence);
    virtual void Read_ordered(void *buf, int count, const Datatype &datatype, Status &status);
    virtual void Read_ordered(void *buf, int count, const Datatype &datatype);
    virtual Request Iread_shared(void *buf, int count, const Datatype &datatype);
    virtual Info Get_info() const;
    virtual void Write_ordered_begin(const void *buf, int count, const Datatype &datatype);
    virtual void Set_info(const Info &info);
    virtual void Write_ordered(const void *buf, int count, const Datatype &datatype, Status &status);
    virtual void Write_ordered(const void *buf, int count, const Datatype &datatype);
    virtual void Sync();
    virtual void Read(void *buf, int count, const Datatype &datatype, Status &status);
    virtual void Read(void *buf, int count, const Datatype &datatype);
    virtual void Write_all(const void *buf, int count, const Datatype &datatype, Status &status);
    virtual void Write_all(const void *buf, int count, const Datatype &datatype);
    virtual Offset Get_size() const;
    virtual void Write_all_end(const void *buf, Status &status);
    virtual void Write_all_end(const void *buf);
    virtual void Read_ordered_begin(void *buf, int count, const Datatype &datatype);
    virtual Request Iread_at(Offset offset, void *buf, int count, const Datatype &datatype);
    virtual void Write_at_all_end(const void *buf, Status &status);
    virtual void Write_at_all_end(const void *buf);
    virtual Offset Get_position_shared() const;
    virtual void Write_shared(const void *buf, int count, const Datatype &datatype, Status &status);
    virtual void Write_shared(const void *buf, int count, const Datatype &datatype);
    virtual Request Iwrite_at(Offset offset, const void *buf, int count, const Datatype &datatype);
    virtual void Get_view(Offset &disp, Datatype &etype, Datatype &filetype, char *datarep) const;
    virtual void Write_all_begin(const void *buf, int count, const Datatype &datatype);
    virtual void Read_all_end(void *buf, Status &status);
    virtual void Read_all_end(void *buf);
    virtual Offset Get_byte_offset(const Offset offset) const;
    virtual Request Iread(void *buf, int count, const Datatype &datatype);
    virtual void Read_at_all_end(void *buf, Status &status);
    virtual void Read_at_all_end(void *buf);
    virtual void Write_at(Offset offset, const void *buf, int count, const Datatype &datatype,
        Status &status);
    virtual void Write_at(Offset offset, const void *buf, int count, const Datatype &datatype);
    virtual void Write_at_all_begin(Offset offset, const void *buf, int count,
        const Datatype &datatype);
    virtual Errhandler Get_errhandler() const;
    virtual int Get_amode() const;
    virtual void Set_atomicity(bool flag);
    virtual Group Get_group() const;
    virtual Offset Get_position() const;
    virtual void Seek(Offset offset, int whence);
    virtual void Read_all_begin(void *buf, int count, const Datatype &datatype);
    virtual void Read_at_all_begin(Offset offset, void *buf, int count, const Datatype &datatype);
    virtual void Read_all(void *buf, int count, const Datatype &datatype, Status &status);
    virtual void Read_all(void *buf, int count, const Datatype &datatype);
    virtual void Preallocate(Offset size);
    virtual void Read_at_all(Offset offset, void *buf, int count, const Datatype &datatype,
        Status &status);
    virtual void Read_at_all(Offset offset, void *buf, int count, const Datatype &datatype);
    virtual void Read_shared(void *buf, int count, const Datatype &datatype, Status &status);
    virtual void Read_shared(void *buf, int count, const Datatype &datatype);
    virtual Request Iwrite(const void *buf, int count, const Datatype &datatype);
    virtual Request Iwrite_shared(const void *buf, int count, const Datatype &datatype);
    virtual void Set_errhandler(const Errhandler &errhandler);
    virtual void Write_at_all(Offset offset, const void *buf, int count, const Datatype &datatype,
        Status &status);
    virtual void Write_at_all(Offset offset, const void *buf, int count, const Datatype &datatype);
    virtual void Set_size(Offset size);
    virtual void Set_view(Offset disp, const Datatype &etype, const Datatype filetype,
        const char *datarep, const Info &info);
    virtual void Read_at(Offset offset, void *buf, int count, const Datatype &datatype,
        Status &status);
    virtual void Read_at(Offset offset, void *buf, int count, const Datatype &datatype);
    virtual void Close();
    virtual void Write_ordered_end(const void *buf, Status &status);
    virtual void Write_ordered_end(const void *buf);
    virtual void Write(const void *buf, int count, const Datatype &datatype, Status &status);
    virtual void Write(const void *buf, int count, const Datatype &datatype);
    virtual bool Get_atomicity() const;
    virtual void Call_errhandler(int errorcode) const;

    static File Open(const Intracomm &comm, const char *filename, int amode, const Info &info);
    static void Delete(const char *filename, const Info &info);

    typedef void Errhandler_function(File &, int *, ...);
    typedef Errhandler_function Errhandler_fn;
    static Errhandler Create_errhandler(Errhandler_function *function);

protected:
    MPI_File handle;
};

/* Environment, memory, processes */
void Init(int &argc, char **&argv);
void Init();
int Init_thread(int &argc, char **&argv, int required);
int Init_thread(int required);
bool Is_thread_main();
int Query_thread();
void Finalize();
bool Is_initialized();
bool Is_finalized();
void Get_version(int &version, int &subversion);
void Get_processor_name(char *name, int &resultlen);
double Wtime();
double Wtick();
void Pcontrol(const int level, ...);
int Get_error_class(int errorcode);
void Get_error_string(int errorcode, char *string, int &resultlen);
int Add_error_class();
int Add_error_code(int errorclass);
void Add_error_string(int errorcode, const char *string);
void *Alloc_mem(Aint size, const Info &info);
void Free_mem(void *base);
Aint Get_address(const void *location);
void Attach_buffer(void *buffer, int size);
int Detach_buffer(void *&buffer);
void Compute_dims(int nnodes, int ndims, int dims[]);
void Open_port(const Info &info, char *port_name);
void Close_port(const char *port_name);
void Publish_name(const char *service_name, const Info &info, const char *port_name);
void Unpublish_name(const char *service_name, const Info &info, const char *port_name);
void Lookup_name(const char *service_name, const Info &info, char *port_name);
void Register_datarep(const char *datarep, Datarep_conversion_function *read,
    Datarep_conversion_function *write, Datarep_extent_function *extent, void *extra_state);

/* Objects */
extern Intracomm COMM_WORLD, COMM_SELF;
extern const Nullcomm COMM_NULL;
extern const Group GROUP_NULL, GROUP_EMPTY;
extern const Request REQUEST_NULL;
extern const Errhandler ERRHANDLER_NULL, ERRORS_RETURN, ERRORS_ARE_FATAL, ERRORS_THROW_EXCEPTIONS;
extern const Info INFO_NULL;
extern const Win WIN_NULL;
extern File FILE_NULL;
extern const Op OP_NULL, MAX, MIN, SUM, PROD, LAND, BAND, LOR, BOR, LXOR, BXOR, MAXLOC, MINLOC,
    REPLACE;
extern Datatype DATATYPE_NULL, CHAR, SHORT, INT, LONG, LONG_LONG, LONG_LONG_INT, SIGNED_CHAR,
    UNSIGNED_CHAR, UNSIGNED_SHORT, UNSIGNED, UNSIGNED_LONG, UNSIGNED_LONG_LONG, FLOAT, DOUBLE,
    LONG_DOUBLE, WCHAR, BOOL, COMPLEX, DOUBLE_COMPLEX, LONG_DOUBLE_COMPLEX, BYTE, PACKED, FLOAT_INT,
    DOUBLE_INT, LONG_INT, TWOINT, SHORT_INT, LONG_DOUBLE_INT, CHARACTER, LOGICAL, INTEGER, REAL,
    DOUBLE_PRECISION, F_COMPLEX, F_DOUBLE_COMPLEX, TWOREAL, TWODOUBLE_PRECISION, TWOINTEGER,
    INTEGER1, INTEGER2, INTEGER4, INTEGER8, INTEGER16, REAL4, REAL8, REAL16, COMPLEX8, COMPLEX16,
    COMPLEX32, LB, UB;
/* The others of MPI-2.2, annex A.1, which other headers of this ABI lack. */
extern Datatype INT8_T, INT16_T, INT32_T, INT64_T, UINT8_T, UINT16_T, UINT32_T, UINT64_T, AINT,
    OFFSET, REAL2, F_COMPLEX4, F_COMPLEX8, F_COMPLEX16, F_COMPLEX32;

/* Numbers. They are known when a program is compiled (MPI-2.2, section 2.5.4), to be lengths of
 * arrays; the library has them as variables, too, for programs compiled with another header. */
#ifdef WEFT_DEFINES_CONSTANTS
#define WEFT_CONSTANT(name) extern const int name = MPI_##name;
#else
#define WEFT_CONSTANT(name) const int name = MPI_##name;
#endif

/* Error classes */
WEFT_CONSTANT(SUCCESS) WEFT_CONSTANT(ERR_BUFFER) WEFT_CONSTANT(ERR_COUNT) WEFT_CONSTANT(ERR_TYPE)
WEFT_CONSTANT(ERR_TAG) WEFT_CONSTANT(ERR_COMM) WEFT_CONSTANT(ERR_RANK) WEFT_CONSTANT(ERR_ROOT)
WEFT_CONSTANT(ERR_GROUP) WEFT_CONSTANT(ERR_OP) WEFT_CONSTANT(ERR_TOPOLOGY) WEFT_CONSTANT(ERR_DIMS)
WEFT_CONSTANT(ERR_ARG) WEFT_CONSTANT(ERR_UNKNOWN) WEFT_CONSTANT(ERR_TRUNCATE) WEFT_CONSTANT(ERR_OTHER)
WEFT_CONSTANT(ERR_INTERN) WEFT_CONSTANT(ERR_IN_STATUS) WEFT_CONSTANT(ERR_PENDING)
WEFT_CONSTANT(ERR_REQUEST) WEFT_CONSTANT(ERR_ACCESS) WEFT_CONSTANT(ERR_AMODE)
WEFT_CONSTANT(ERR_BAD_FILE) WEFT_CONSTANT(ERR_CONVERSION) WEFT_CONSTANT(ERR_DUP_DATAREP)
WEFT_CONSTANT(ERR_FILE_EXISTS) WEFT_CONSTANT(ERR_FILE_IN_USE) WEFT_CONSTANT(ERR_FILE)
WEFT_CONSTANT(ERR_INFO) WEFT_CONSTANT(ERR_INFO_KEY) WEFT_CONSTANT(ERR_INFO_VALUE)
WEFT_CONSTANT(ERR_INFO_NOKEY) WEFT_CONSTANT(ERR_IO) WEFT_CONSTANT(ERR_NAME) WEFT_CONSTANT(ERR_NO_MEM)
WEFT_CONSTANT(ERR_NOT_SAME) WEFT_CONSTANT(ERR_NO_SPACE) WEFT_CONSTANT(ERR_NO_SUCH_FILE)
WEFT_CONSTANT(ERR_PORT) WEFT_CONSTANT(ERR_QUOTA) WEFT_CONSTANT(ERR_READ_ONLY) WEFT_CONSTANT(ERR_SERVICE)
WEFT_CONSTANT(ERR_SPAWN) WEFT_CONSTANT(ERR_UNSUPPORTED_DATAREP) WEFT_CONSTANT(ERR_UNSUPPORTED_OPERATION)
WEFT_CONSTANT(ERR_WIN) WEFT_CONSTANT(ERR_BASE) WEFT_CONSTANT(ERR_LOCKTYPE) WEFT_CONSTANT(ERR_KEYVAL)
WEFT_CONSTANT(ERR_RMA_CONFLICT) WEFT_CONSTANT(ERR_RMA_SYNC) WEFT_CONSTANT(ERR_SIZE)
WEFT_CONSTANT(ERR_DISP) WEFT_CONSTANT(ERR_ASSERT) WEFT_CONSTANT(ERR_LASTCODE)

/* Ranks, tags, colours */
WEFT_CONSTANT(UNDEFINED) WEFT_CONSTANT(ROOT) WEFT_CONSTANT(ANY_SOURCE) WEFT_CONSTANT(ANY_TAG)
WEFT_CONSTANT(PROC_NULL) WEFT_CONSTANT(BSEND_OVERHEAD) WEFT_CONSTANT(KEYVAL_INVALID)

/* Lengths of strings */
WEFT_CONSTANT(MAX_DATAREP_STRING) WEFT_CONSTANT(MAX_OBJECT_NAME) WEFT_CONSTANT(MAX_PROCESSOR_NAME)
WEFT_CONSTANT(MAX_INFO_KEY) WEFT_CONSTANT(MAX_PORT_NAME) WEFT_CONSTANT(MAX_ERROR_STRING)
WEFT_CONSTANT(MAX_INFO_VAL)

/* Results of comparisons, topologies, levels of threads */
WEFT_CONSTANT(IDENT) WEFT_CONSTANT(THREAD_SINGLE) WEFT_CONSTANT(CONGRUENT) WEFT_CONSTANT(GRAPH) WEFT_CONSTANT(DIST_GRAPH)
WEFT_CONSTANT(THREAD_FUNNELED) WEFT_CONSTANT(CART) WEFT_CONSTANT(SIMILAR)
WEFT_CONSTANT(THREAD_SERIALIZED) WEFT_CONSTANT(THREAD_MULTIPLE) WEFT_CONSTANT(UNEQUAL)

/* Predefined attributes */
WEFT_CONSTANT(TAG_UB) WEFT_CONSTANT(HOST) WEFT_CONSTANT(IO) WEFT_CONSTANT(WTIME_IS_GLOBAL)
WEFT_CONSTANT(UNIVERSE_SIZE) WEFT_CONSTANT(LASTUSEDCODE) WEFT_CONSTANT(APPNUM) WEFT_CONSTANT(WIN_BASE)
WEFT_CONSTANT(WIN_SIZE) WEFT_CONSTANT(WIN_DISP_UNIT)

/* Datatypes */
WEFT_CONSTANT(DISTRIBUTE_DFLT_DARG) WEFT_CONSTANT(COMBINER_NAMED) WEFT_CONSTANT(TYPECLASS_REAL)
WEFT_CONSTANT(COMBINER_DUP) WEFT_CONSTANT(TYPECLASS_INTEGER) WEFT_CONSTANT(COMBINER_CONTIGUOUS)
WEFT_CONSTANT(TYPECLASS_COMPLEX) WEFT_CONSTANT(COMBINER_VECTOR) WEFT_CONSTANT(COMBINER_HVECTOR_INTEGER)
WEFT_CONSTANT(COMBINER_HVECTOR) WEFT_CONSTANT(COMBINER_INDEXED) WEFT_CONSTANT(COMBINER_HINDEXED_INTEGER)
WEFT_CONSTANT(COMBINER_HINDEXED) WEFT_CONSTANT(COMBINER_INDEXED_BLOCK)
WEFT_CONSTANT(COMBINER_STRUCT_INTEGER) WEFT_CONSTANT(COMBINER_STRUCT) WEFT_CONSTANT(COMBINER_SUBARRAY)
WEFT_CONSTANT(COMBINER_DARRAY) WEFT_CONSTANT(COMBINER_F90_REAL) WEFT_CONSTANT(COMBINER_F90_COMPLEX)
WEFT_CONSTANT(COMBINER_F90_INTEGER) WEFT_CONSTANT(COMBINER_RESIZED)
WEFT_CONSTANT(COMBINER_HINDEXED_BLOCK) WEFT_CONSTANT(ORDER_C) WEFT_CONSTANT(ORDER_FORTRAN)
WEFT_CONSTANT(DISTRIBUTE_BLOCK) WEFT_CONSTANT(DISTRIBUTE_CYCLIC) WEFT_CONSTANT(DISTRIBUTE_NONE)

/* Windows and files */
WEFT_CONSTANT(MODE_CREATE) WEFT_CONSTANT(MODE_RDONLY) WEFT_CONSTANT(MODE_WRONLY)
WEFT_CONSTANT(MODE_RDWR) WEFT_CONSTANT(MODE_DELETE_ON_CLOSE) WEFT_CONSTANT(MODE_UNIQUE_OPEN)
WEFT_CONSTANT(MODE_EXCL) WEFT_CONSTANT(MODE_APPEND) WEFT_CONSTANT(LOCK_EXCLUSIVE)
WEFT_CONSTANT(LOCK_SHARED) WEFT_CONSTANT(MODE_SEQUENTIAL) WEFT_CONSTANT(SEEK_SET)
WEFT_CONSTANT(SEEK_CUR) WEFT_CONSTANT(SEEK_END) WEFT_CONSTANT(MODE_NOCHECK) WEFT_CONSTANT(MODE_NOSTORE)
WEFT_CONSTANT(MODE_NOPUT) WEFT_CONSTANT(MODE_NOPRECEDE) WEFT_CONSTANT(MODE_NOSUCCEED)

/* Kinds of communicators */
WEFT_CONSTANT(COMM_TYPE_SHARED)

#undef WEFT_CONSTANT

#ifdef WEFT_STDIO_SEEK
const int weft_SEEK_SET = MPI_SEEK_SET;
const int weft_SEEK_CUR = MPI_SEEK_CUR;
const int weft_SEEK_END = MPI_SEEK_END;
#endif

/* Addresses, displacements, no function, no arguments */
extern void *const BOTTOM;
extern void *const IN_PLACE;
extern const Offset DISPLACEMENT_CURRENT;
Datarep_conversion_function *const CONVERSION_FN_NULL = 0;
extern const char **const ARGV_NULL;
extern const char ***const ARGVS_NULL;

} // namespace MPI

} // extern "C++"

#ifdef WEFT_STDIO_SEEK
#undef WEFT_STDIO_SEEK
#define SEEK_SET weft_SEEK_SET
#define SEEK_CUR weft_SEEK_CUR
#define SEEK_END weft_SEEK_END
#endif

#endif /* WEFT_MPICXX_H */
