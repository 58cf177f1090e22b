! Parts of arrays for which gfortran has no descriptor of its own, in module mpi_f08: components, also of polymorphic
! arrays, parts of strings, pointers to them, vector subscripts, expressions. gfortran passes temporary copies: blocking
! calls and nonblocking sends use them, operations that would write to one after the call refuse it. Polymorphic arrays
! as a whole, whose descriptors have the size of the declared type.
! ranks: 1 2
! variants: shm tcp
! cflags: -fcheck=no-array-temps
! build: own -O0
! build: optimized -O2
! build: abi -abi=standard -O0
! build: gfortran-11 -fc=gfortran-11 -DCOPIES
module parts
  use mpi_f08
  implicit none
  type point
    double precision :: weight
    integer :: number
    integer :: corners(3)
  end type
  type, extends(point) :: named
    character(len=20) :: name
  end type
  integer :: rank, ranks, next, last
contains

  subroutine of_class(from, to)
    class(point), intent(in), asynchronous :: from(:)
    class(point), intent(inout), asynchronous :: to(:)
    type(MPI_Request) :: requests(2)
    integer, asynchronous :: got(size(from))
    call MPI_Sendrecv(from%number, size(from), MPI_INTEGER, next, 1, to%number, size(to), MPI_INTEGER, last, 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(to%number == from%number - rank + last), 'a component of a polymorphic array')
    call MPI_Sendrecv(from(2:)%number, size(from) - 1, MPI_INTEGER, next, 1, to(:size(to) - 1)%number, size(to) - 1, &
      MPI_INTEGER, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(to(:size(to) - 1)%number == from(2:)%number - rank + last), 'a component of a part of it')
#ifndef COPIES
    call MPI_Irecv(got, size(got), MPI_INTEGER, last, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(from%number, size(from), MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(got == from%number - rank + last), 'a component of a polymorphic array later')
#endif
  end subroutine

  ! All of it, by its storage.
  subroutine whole_class(from, to)
    class(point), intent(in) :: from(:)
    class(point), intent(inout) :: to(:)
    integer :: bytes
    bytes = storage_size(from) / 8 * size(from)
    call MPI_Sendrecv(from, bytes, MPI_BYTE, next, 1, to, bytes, MPI_BYTE, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine

  ! A pointer of which the compiler does not see that it points to a component.
  subroutine pointed(from, to)
    integer, pointer, intent(in) :: from(:), to(:)
    type(MPI_Request) :: requests(2)
#ifndef COPIES
    call MPI_Sendrecv(from, size(from), MPI_INTEGER, next, 1, to, size(to), MPI_INTEGER, last, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check(all(to == from - rank + last), 'a pointer to a component')
    to = -1
    call MPI_Irecv(to, size(to), MPI_INTEGER, last, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(from, size(from), MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(to == from - rank + last), 'a pointer to a component later')
#endif
  end subroutine
end module

program parts_of_arrays
  use parts
  implicit none
  type(point), target, asynchronous :: points(5), others(5)
  type(named), target, asynchronous :: names(4), namesakes(4)
  class(point), allocatable :: made(:), into(:)
  character(len=7) :: words(4), letters(4)
  complex :: pairs(6)
  integer, pointer :: from(:), to(:)
  integer, target, asynchronous :: numbers(12), got(12)
  type(MPI_Request) :: requests(2), request
  integer :: i, code, class, bytes
  integer(kind=MPI_ADDRESS_KIND) :: address
  type(MPI_Win) :: win
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  next = modulo(rank + 1, ranks)
  last = modulo(rank - 1, ranks)
  points = [(point(i, 10 * i + rank, [100, 200, 300] + i + rank), i = 1, 5)]
  others = [(point(0, 0, 0), i = 1, 5)]
  names = [(named(i, 10 * i + rank, [100, 200, 300] + i + rank, 'a name'), i = 1, 4)]
  namesakes = [(named(0, 0, 0, ''), i = 1, 4)]
  numbers = [(100 * i + rank, i = 1, 12)]

  call of_class(points, others)
  call of_class(points(::2), others(::2))
  call of_class(names, namesakes)
  call of_class(names(::2), namesakes(::2))
  allocate(made(4), source=names)
  allocate(into(4), source=namesakes)
  call of_class(made, into)
  call whole_class(names, namesakes)
  call check(all(namesakes%number == names%number - rank + last) .and. all(namesakes%name == 'a name'), 'all of a class')
  call whole_class(points, others)
  call check(all(others%number == points%number - rank + last) .and. all(others%weight == points%weight), 'all of a type')

  call MPI_Sendrecv(points(:)%number, 5, MPI_INTEGER, next, 1, others(5:1:-1)%corners(1), 5, MPI_INTEGER, last, 1, &
    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(others(5:1:-1)%corners(1) == points%number - rank + last), 'components')
  from => points%number
  to => others%corners(2)
  call pointed(from, to)
  call MPI_Sendrecv(from, 5, MPI_INTEGER, next, 1, to, 5, MPI_INTEGER, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(to == points%number - rank + last), 'pointers to components')

  words = ['abcdefg', 'hijklmn', 'opqrstu', 'vwxyz12']
  letters = '-------'
  call MPI_Sendrecv(words(:)(2:4), 12, MPI_CHARACTER, next, 1, letters(:)(3:5), 12, MPI_CHARACTER, last, 1, &
    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(letters == ['--bcd--', '--ijk--', '--pqr--', '--wxy--']), 'parts of strings')
  call MPI_Allreduce(MPI_IN_PLACE, points(:)%number, 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(all(points%number == [(ranks * 10 * i + ranks * (ranks - 1) / 2, i = 1, 5)]), 'reduced components')

  pairs = [(cmplx(i, 10 * i), i = 1, 6)]
  call MPI_Sendrecv(pairs(4:)%re, 3, MPI_REAL, next, 1, pairs(::2)%re, 3, MPI_REAL, last, 1, MPI_COMM_WORLD, &
    MPI_STATUS_IGNORE)
  call check(all(pairs == [(4, 10), (2, 20), (5, 30), (4, 40), (6, 50), (6, 60)]), 'real parts')
  got = 0
  call MPI_Sendrecv(numbers([7, 1, 12]), 3, MPI_INTEGER, next, 1, got, 12, MPI_INTEGER, last, 1, MPI_COMM_WORLD, &
    MPI_STATUS_IGNORE)
  call check(all(got(:3) == [700, 100, 1200] + last), 'a vector subscript')
  call MPI_Sendrecv(numbers + 1, 12, MPI_INTEGER, next, 1, got, 12, MPI_INTEGER, last, 1, MPI_COMM_WORLD, &
    MPI_STATUS_IGNORE)
  call check(all(got == numbers - rank + last + 1), 'an expression')

#ifdef COPIES
  call check(.not. MPI_SUBARRAYS_SUPPORTED, 'what is supported')
#else
  call check(MPI_SUBARRAYS_SUPPORTED, 'what is supported')
  got = 0
  call MPI_Irecv(got, 12, MPI_INTEGER, last, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(numbers + 1, 12, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(2))
  numbers = 0
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all(got == [(100 * i + last + 1, i = 1, 12)]), 'an expression later')

  ! Arrays whose lower bounds are 0 are not taken for copies.
  call zero_based

  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  request = MPI_REQUEST_NULL
  call MPI_Irecv(points%number, 5, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, request, code)
  call refused('a nonblocking receive')
  call MPI_Recv_init(points%number, 5, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, request, code)
  call refused('a persistent receive')
  call MPI_Send_init(points%number, 5, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, request, code)
  call refused('a persistent send')
  call MPI_Ibcast(words(:)(2:3), 8, MPI_CHARACTER, 0, MPI_COMM_SELF, request, code)
  call refused('a nonblocking broadcast')
  call MPI_Ireduce(points%number, points%corners(1), 5, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_SELF, request, code)
  call refused('a nonblocking reduction')
  from => points%number
  call MPI_Irecv(from, 5_MPI_COUNT_KIND, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, request, code)
  call refused('a nonblocking receive with a large count')
  call MPI_Get_address(points%number, address, code)
  call refused('an address')
  call MPI_Win_create(points%number, 20_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, win, code)
  call refused('a window')
  call MPI_Sizeof(got(1), bytes)
  call MPI_Win_create(got, 12_MPI_ADDRESS_KIND * bytes, bytes, MPI_INFO_NULL, MPI_COMM_SELF, win)
  call MPI_Win_fence(0, win)
  call MPI_Put(points%number, 5, MPI_INTEGER, 0, 0_MPI_ADDRESS_KIND, 5, MPI_INTEGER, win, code)
  call refused('a put')
  call MPI_Win_fence(0, win)
  call MPI_Win_free(win)
#endif
  call MPI_Finalize()
contains

  subroutine refused(what)
    character(len=*), intent(in) :: what
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: length
    call check(code /= MPI_SUCCESS, what//' is not refused')
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_BUFFER, what//': the class')
    call MPI_Error_string(code, text, length)
    call check(index(text, 'temporary copy') > 0, what//': the text')
    call check(request == MPI_REQUEST_NULL, what//': the request')
  end subroutine

  subroutine zero_based
    integer, asynchronous :: still(0:5), square(0:2, 0:1)
    integer, allocatable, asynchronous :: made(:)
    integer, pointer, asynchronous :: pointed(:)
    allocate(made(0:5), pointed(0:5))
    still = rank
    made = -1
    pointed = -1
    square = -1
    call MPI_Irecv(made, 6, MPI_INTEGER, last, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(still, 6, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call MPI_Irecv(pointed, 6, MPI_INTEGER, last, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(still, 6, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call MPI_Irecv(square, 6, MPI_INTEGER, last, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(still, 6, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(made == last) .and. all(pointed == last) .and. all(square == last), 'arrays from 0 on')
    deallocate(made, pointed)
  end subroutine
end program

#include "check.inc"
