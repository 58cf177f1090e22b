/* What the parts of the library have in common: calls of the C interface, what becomes of their error
 * codes, and arrays of C handles. */
#ifndef WEFT_CALL_H
#define WEFT_CALL_H

#include "mpi.h"
/* Functions that this version of libmpi lacks, as weak references: a newer one may have them. */
#include "missing.h"

#include <cstddef>

namespace weft __attribute__((visibility("hidden"))) {

/* MPI::ERRORS_THROW_EXCEPTIONS: the C interface returns codes under it. */
const MPI_Errhandler THROW = 0x54000002;

/* Throws the error that a function of the C interface has returned if its handler is THROW: the C
 * interface alone knows whose error it was, as of requests, and has called any other handler. */
void raise(int code);
/* A function that libmpi lacks: calls the handler of MPI_COMM_WORLD and returns the code. */
int missing(const char *name);

inline void check(int code)
{
    if (code != MPI_SUCCESS)
        raise(code);
}

/* Calls a function of the C interface that may not be there. */
template <class... Parameters, class... Arguments>
int call(const char *name, int (*function)(Parameters...), Arguments... arguments)
{
    return function ? function(arguments...) : missing(name);
}
#define CALL(function, ...) call(#function, function, __VA_ARGS__)

/* Asks something of a communicator before a call. False if that was an error, which a handler has dealt
 * with: the call would call it again. */
inline bool asked(int &answer, int (*function)(MPI_Comm, int *), MPI_Comm comm)
{
    const int none = -99;
    int told = none;
    check(function(comm, &told));
    if (told == none)
        return false;
    answer = told;
    return true;
}

/* An array of handles, numbers or statuses of C; on the stack if it is short. */
template <class T> class Array {
public:
    explicit Array(int count) : items(few)
    {
        if (count > FEW)
            items = new T[count];
    }

    /* With the same elements as one of C++. */
    template <class From> Array(int count, const From *from) : items(few)
    {
        if (count > FEW)
            items = new T[count];
        for (int i = 0; from && i < count; i++)
            items[i] = from[i];
    }

    ~Array()
    {
        if (items != few)
            delete[] items;
    }

    operator T *() { return items; }

    template <class To> void tell(int count, To *to) const
    {
        for (int i = 0; i < count; i++)
            to[i] = items[i];
    }

private:
    enum { FEW = 32 };
    T *items;
    T few[FEW];

    Array(const Array &);
    Array &operator=(const Array &);
};

} // namespace weft

#endif
