/* Requests and statuses. */
#include "call.h"

using weft::Array;
using weft::check;

namespace MPI {

bool Status::Is_cancelled() const
{
    int flag = 0;
    check(MPI_Test_cancelled(&handle, &flag));
    return flag != 0;
}

int Status::Get_count(const Datatype &datatype) const
{
    int count = MPI_UNDEFINED;
    check(MPI_Get_count(&handle, datatype, &count));
    return count;
}

int Status::Get_elements(const Datatype &datatype) const
{
    int count = MPI_UNDEFINED;
    check(MPI_Get_elements(&handle, datatype, &count));
    return count;
}

void Status::Set_cancelled(bool flag)
{
    check(MPI_Status_set_cancelled(&handle, flag));
}

void Status::Set_elements(const Datatype &datatype, int count)
{
    check(MPI_Status_set_elements(&handle, datatype, count));
}

void Request::Free()
{
    check(MPI_Request_free(&handle));
}

void Request::Wait(Status &status)
{
    check(MPI_Wait(&handle, &status.handle));
}

void Request::Wait()
{
    check(MPI_Wait(&handle, MPI_STATUS_IGNORE));
}

bool Request::Test(Status &status)
{
    int flag = 0;
    check(MPI_Test(&handle, &flag, &status.handle));
    return flag != 0;
}

bool Request::Test()
{
    int flag = 0;
    check(MPI_Test(&handle, &flag, MPI_STATUS_IGNORE));
    return flag != 0;
}

void Request::Cancel() const
{
    MPI_Request request = handle;
    check(MPI_Cancel(&request));
}

bool Request::Get_status(Status &status) const
{
    int flag = 0;
    check(MPI_Request_get_status(handle, &flag, &status.handle));
    return flag != 0;
}

bool Request::Get_status() const
{
    int flag = 0;
    check(MPI_Request_get_status(handle, &flag, MPI_STATUS_IGNORE));
    return flag != 0;
}

/* The requests are told what has become of them before an error is thrown. */

static int wait_any(int count, Request requests[], MPI_Status *status)
{
    int index = MPI_UNDEFINED;
    Array<MPI_Request> handles(count, requests);
    const int code = MPI_Waitany(count, handles, &index, status);
    handles.tell(count, requests);
    check(code);
    return index;
}

int Request::Waitany(int count, Request requests[], Status &status)
{
    return wait_any(count, requests, &status.handle);
}

int Request::Waitany(int count, Request requests[])
{
    return wait_any(count, requests, MPI_STATUS_IGNORE);
}

static bool test_any(int count, Request requests[], int &index, MPI_Status *status)
{
    int flag = 0;
    Array<MPI_Request> handles(count, requests);
    const int code = MPI_Testany(count, handles, &index, &flag, status);
    handles.tell(count, requests);
    check(code);
    return flag != 0;
}

bool Request::Testany(int count, Request requests[], int &index, Status &status)
{
    return test_any(count, requests, index, &status.handle);
}

bool Request::Testany(int count, Request requests[], int &index)
{
    return test_any(count, requests, index, MPI_STATUS_IGNORE);
}

void Request::Waitall(int count, Request requests[], Status statuses[])
{
    Array<MPI_Request> handles(count, requests);
    Array<MPI_Status> filled(count, statuses);
    const int code = MPI_Waitall(count, handles, filled);
    handles.tell(count, requests);
    filled.tell(count, statuses);
    check(code);
}

void Request::Waitall(int count, Request requests[])
{
    Array<MPI_Request> handles(count, requests);
    const int code = MPI_Waitall(count, handles, MPI_STATUSES_IGNORE);
    handles.tell(count, requests);
    check(code);
}

bool Request::Testall(int count, Request requests[], Status statuses[])
{
    int flag = 0;
    Array<MPI_Request> handles(count, requests);
    Array<MPI_Status> filled(count, statuses);
    const int code = MPI_Testall(count, handles, &flag, filled);
    handles.tell(count, requests);
    filled.tell(count, statuses);
    check(code);
    return flag != 0;
}

bool Request::Testall(int count, Request requests[])
{
    int flag = 0;
    Array<MPI_Request> handles(count, requests);
    const int code = MPI_Testall(count, handles, &flag, MPI_STATUSES_IGNORE);
    handles.tell(count, requests);
    check(code);
    return flag != 0;
}

/* MPI_Waitsome or MPI_Testsome. */
typedef int Some(int, MPI_Request *, int *, int *, MPI_Status *);

static int some(Some *function, int incount, Request requests[], int indices[], Status statuses[])
{
    int outcount = MPI_UNDEFINED;
    Array<MPI_Request> handles(incount, requests);
    Array<MPI_Status> filled(incount, statuses);
    const int code = function(incount, handles, &outcount, indices, filled);
    handles.tell(incount, requests);
    filled.tell(outcount, statuses);
    check(code);
    return outcount;
}

static int some(Some *function, int incount, Request requests[], int indices[])
{
    int outcount = MPI_UNDEFINED;
    Array<MPI_Request> handles(incount, requests);
    const int code = function(incount, handles, &outcount, indices, MPI_STATUSES_IGNORE);
    handles.tell(incount, requests);
    check(code);
    return outcount;
}

int Request::Waitsome(int incount, Request requests[], int indices[], Status statuses[])
{
    return some(MPI_Waitsome, incount, requests, indices, statuses);
}

int Request::Waitsome(int incount, Request requests[], int indices[])
{
    return some(MPI_Waitsome, incount, requests, indices);
}

int Request::Testsome(int incount, Request requests[], int indices[], Status statuses[])
{
    return some(MPI_Testsome, incount, requests, indices, statuses);
}

int Request::Testsome(int incount, Request requests[], int indices[])
{
    return some(MPI_Testsome, incount, requests, indices);
}

void Prequest::Start()
{
    check(MPI_Start(&handle));
}

void Prequest::Startall(int count, Prequest requests[])
{
    Array<MPI_Request> handles(count, requests);
    const int code = MPI_Startall(count, handles);
    for (int i = 0; i < count; i++)
        requests[i] = handles[i];
    check(code);
}

} // namespace MPI
