! Subroutines of the program that the library calls: operations, attribute functions, error handlers,
! generalized requests; and attributes between Fortran and C (section 17.2.7).
! ranks: 2
! variants: shm
! with: parts/attributes.c
! build: mpif -DMPIF
! build: mpi
! build: existing compiler=mpif90.mpich
! build: companion compiler=mpif90.mpich library=companion -DCOMPANION
module counters
  implicit none
  integer :: copied = 0, deleted = 0, errors = 0, last = 0, freed = 0, cancelled = 0
end module

program callbacks
#ifdef MPIF
  use counters
  implicit none
  include 'mpif.h'
#else
  use mpi
  use counters
  implicit none
#endif
  external :: check, add_up, copy_new, delete_new, copy_old, delete_old, on_error, query, free, cancel
  external :: c_sees, c_sets, c_ignores
  integer :: rank, ierr, provided
  call MPI_INIT_THREAD(MPI_THREAD_SERIALIZED, provided, ierr)
  call check(provided >= MPI_THREAD_SERIALIZED, 'init_thread')
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call operations
  call attributes
  call old_attributes
  call predefined_attributes
  call windows
#ifndef MPIF
  call memory
#endif
  call with_c
  call error_handlers
  call generalized_requests
  call MPI_FINALIZE(ierr)
contains

  subroutine operations
    integer :: op, x(3)
    logical :: commutes
    call MPI_OP_CREATE(add_up, .true., op, ierr)
    call MPI_OP_COMMUTATIVE(op, commutes, ierr)
    call check(commutes, 'commutes')
    x = [rank, 10, 100 * rank]
    call MPI_ALLREDUCE(MPI_IN_PLACE, x, 3, MPI_INTEGER, op, MPI_COMM_WORLD, ierr)
    call check(all(x == [1, 20, 100]), 'operation')
    call MPI_OP_FREE(op, ierr)
    call check(op == MPI_OP_NULL, 'freed operation')
  end subroutine

  subroutine attributes
    integer :: key, silent, dup, comm, copy
    integer(kind=MPI_ADDRESS_KIND) :: extra, value
    logical :: flag
    extra = 1000000000000_MPI_ADDRESS_KIND
    call MPI_COMM_CREATE_KEYVAL(copy_new, delete_new, key, extra, ierr)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, silent, extra, ierr)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, dup, extra, ierr)
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
    call MPI_COMM_GET_ATTR(comm, key, value, flag, ierr)
    call check(.not. flag, 'no attribute')
    value = 5000000000_MPI_ADDRESS_KIND
    call MPI_COMM_SET_ATTR(comm, key, value, ierr)
    call MPI_COMM_SET_ATTR(comm, silent, value, ierr)
    call MPI_COMM_SET_ATTR(comm, dup, value, ierr)
    value = 0
    call MPI_COMM_GET_ATTR(comm, key, value, flag, ierr)
    call check(flag .and. value == 5000000000_MPI_ADDRESS_KIND, 'attribute')
    call MPI_COMM_DUP(comm, copy, ierr)
    call check(copied == 1, 'copied')
    call MPI_COMM_GET_ATTR(copy, key, value, flag, ierr)
    call check(flag .and. value == 5000000001_MPI_ADDRESS_KIND, 'copy')
    call MPI_COMM_GET_ATTR(copy, silent, value, flag, ierr)
    call check(.not. flag, 'no copy')
    call MPI_COMM_GET_ATTR(copy, dup, value, flag, ierr)
    call check(flag .and. value == 5000000000_MPI_ADDRESS_KIND, 'predefined copy')
    call MPI_COMM_FREE(copy, ierr)
    call check(deleted == 1, 'deleted')
    call MPI_COMM_DELETE_ATTR(comm, key, ierr)
    call check(deleted == 2, 'deleted again')
    call MPI_COMM_FREE(comm, ierr)
    call MPI_COMM_FREE_KEYVAL(key, ierr)
    call check(key == MPI_KEYVAL_INVALID, 'freed key')
    call MPI_TYPE_CREATE_KEYVAL(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, key, extra, ierr)
    call MPI_TYPE_SET_ATTR(MPI_INTEGER, key, 77_MPI_ADDRESS_KIND, ierr)
    call MPI_TYPE_DUP(MPI_INTEGER, copy, ierr)
    call MPI_TYPE_GET_ATTR(copy, key, value, flag, ierr)
    call check(flag .and. value == 77, 'attribute of a datatype')
    call MPI_TYPE_FREE(copy, ierr)
    call MPI_TYPE_DELETE_ATTR(MPI_INTEGER, key, ierr)
  end subroutine

  subroutine old_attributes
    integer :: key, comm, copy, value
    logical :: flag
    integer(kind=MPI_ADDRESS_KIND) :: wide
    copied = 0
    deleted = 0
    call MPI_KEYVAL_CREATE(copy_old, delete_old, key, 42, ierr)
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
    call MPI_ATTR_PUT(comm, key, -7, ierr)
    call MPI_ATTR_GET(comm, key, value, flag, ierr)
    call check(flag .and. value == -7, 'old attribute')
    call MPI_COMM_GET_ATTR(comm, key, wide, flag, ierr)
    call check(flag .and. wide == -7, 'sign extended')
    call MPI_COMM_DUP(comm, copy, ierr)
    call MPI_ATTR_GET(copy, key, value, flag, ierr)
    call check(copied == 1 .and. flag .and. value == -6, 'old copy')
    call MPI_COMM_FREE(copy, ierr)
    call MPI_ATTR_DELETE(comm, key, ierr)
    call check(deleted == 2, 'old delete')
    call MPI_COMM_FREE(comm, ierr)
    call MPI_KEYVAL_FREE(key, ierr)
    call MPI_KEYVAL_CREATE(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, 0, ierr)
    call MPI_ATTR_PUT(MPI_COMM_SELF, key, 9, ierr)
    call MPI_COMM_DUP(MPI_COMM_SELF, copy, ierr)
    call MPI_ATTR_GET(copy, key, value, flag, ierr)
    call check(flag .and. value == 9, 'old predefined copy')
    call MPI_COMM_FREE(copy, ierr)
    call MPI_ATTR_DELETE(MPI_COMM_SELF, key, ierr)
  end subroutine

  subroutine predefined_attributes
    integer :: value
    integer(kind=MPI_ADDRESS_KIND) :: wide
    logical :: flag
    call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
    call check(flag .and. value >= 32767, 'old tag_ub')
    call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, wide, flag, ierr)
    call check(flag .and. wide == value, 'tag_ub')
    call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, wide, flag, ierr)
    call check(flag .and. (wide == 0 .or. wide == 1), 'wtime_is_global')
    call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_HOST, wide, flag, ierr)
    call check(flag .and. wide == MPI_PROC_NULL, 'host')
  end subroutine

  subroutine windows
    integer :: win
    integer, asynchronous :: memory(10), origin(1)
    integer(kind=MPI_ADDRESS_KIND) :: value, here
    logical :: flag
    call MPI_WIN_CREATE(memory, 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
    call MPI_WIN_GET_ATTR(win, MPI_WIN_SIZE, value, flag, ierr)
    call check(flag .and. value == 40, 'size of a window')
    call MPI_WIN_GET_ATTR(win, MPI_WIN_DISP_UNIT, value, flag, ierr)
    call check(flag .and. value == 4, 'unit of a window')
    call MPI_GET_ADDRESS(memory, here, ierr)
    call MPI_WIN_GET_ATTR(win, MPI_WIN_BASE, value, flag, ierr)
    call check(flag .and. value == here, 'base of a window')
    memory = rank
    call MPI_WIN_FENCE(0, win, ierr)
    origin = 50 + rank
    call MPI_PUT(origin, 1, MPI_INTEGER, 1 - rank, 3_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, ierr)
    call MPI_WIN_FENCE(0, win, ierr)
    call check(memory(4) == 51 - rank .and. memory(3) == rank, 'put')
    call MPI_WIN_FREE(win, ierr)
  end subroutine

#ifndef MPIF
  ! Memory by address and by TYPE(C_PTR); sizes of variables.
  subroutine memory
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    integer(kind=MPI_ADDRESS_KIND) :: address, here
    type(c_ptr) :: place
    integer, pointer :: numbers(:)
    integer :: win, size
    double precision :: x(2)
    call MPI_ALLOC_MEM(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, place, ierr)
    call c_f_pointer(place, numbers, [20])
    numbers = 3
    call check(sum(numbers) == 60, 'allocated memory')
    call MPI_FREE_MEM(numbers, ierr)
    call check(ierr == MPI_SUCCESS, 'freed memory')
    call MPI_WIN_ALLOCATE(80_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, address, win, ierr)
    call check(address /= 0, 'address of a window')
    call MPI_WIN_FREE(win, ierr)
    call MPI_WIN_ALLOCATE(80_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, place, win, ierr)
    call c_f_pointer(place, numbers, [20])
    call MPI_GET_ADDRESS(numbers, here, ierr)
    call check(here /= 0, 'pointer to a window')
    call MPI_WIN_FREE(win, ierr)
    call MPI_SIZEOF(x, size, ierr)
    call check(size == 8, 'size of double precision')
#ifndef COMPANION
    ! That library expects an error code.
    call MPI_F_SYNC_REG(x)
#endif
  end subroutine
#endif

  ! C gets Fortran's attributes by address, Fortran C's as addresses.
  subroutine with_c
    integer :: key, old
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    logical :: flag
    extra = 0
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, key, extra, ierr)
    call MPI_KEYVAL_CREATE(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, old, 0, ierr)
    call MPI_COMM_SET_ATTR(MPI_COMM_WORLD, key, -123456789012345_MPI_ADDRESS_KIND, ierr)
    call MPI_ATTR_PUT(MPI_COMM_WORLD, old, -12345, ierr)
    call c_sees(key, old, ierr)
    call check(ierr == 0, 'C sees attributes by address')
    call c_ignores(MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, ierr)
    call check(ierr == 0, 'C knows ignored statuses')
    call c_sets(key, ierr)
    call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, key, value, flag, ierr)
    call check(flag .and. value == 987654321098_MPI_ADDRESS_KIND, 'an address of C')
    call MPI_ATTR_GET(MPI_COMM_WORLD, key, old, flag, ierr)
    call check(flag .and. old == -188156982, 'the lower half of an address of C')
    call MPI_COMM_DELETE_ATTR(MPI_COMM_WORLD, key, ierr)
  end subroutine

  subroutine error_handlers
    integer :: handler, comm, class, code
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
    call MPI_COMM_CREATE_ERRHANDLER(on_error, handler, ierr)
    call MPI_COMM_SET_ERRHANDLER(comm, handler, ierr)
    call MPI_ERRHANDLER_FREE(handler, ierr)
    call MPI_SEND(rank, 1, MPI_INTEGER, 99, 0, comm, code)
    call check(errors == 1, 'error handler')
    call MPI_ERROR_CLASS(last, class, ierr)
    call check(class == MPI_ERR_RANK .and. last == code, 'class of the error')
    call MPI_COMM_CALL_ERRHANDLER(comm, MPI_ERR_OTHER, ierr)
    call check(errors == 2 .and. last == MPI_ERR_OTHER, 'called error handler')
    call MPI_COMM_FREE(comm, ierr)
  end subroutine

  subroutine generalized_requests
    integer :: request, status(MPI_STATUS_SIZE), count
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: flag
    extra = 31
    call MPI_GREQUEST_START(query, free, cancel, extra, request, ierr)
    call MPI_TEST(request, flag, status, ierr)
    call check(.not. flag, 'incomplete')
    call MPI_CANCEL(request, ierr)
    call check(cancelled == 1, 'cancel')
    call MPI_GREQUEST_COMPLETE(request, ierr)
    call MPI_WAIT(request, status, ierr)
    call check(freed == 31, 'free')
    call MPI_GET_COUNT(status, MPI_INTEGER, count, ierr)
    call check(count == 31 .and. status(MPI_TAG) == 4, 'query')
  end subroutine
end program

subroutine add_up(invec, inoutvec, len, datatype)
#ifdef MPIF
  implicit none
  include 'mpif.h'
#else
  use mpi, only: MPI_INTEGER
  implicit none
#endif
  integer :: len, datatype, invec(len), inoutvec(len)
  external :: check
  call check(datatype == MPI_INTEGER, 'datatype of an operation')
  inoutvec = inoutvec + invec
end subroutine

subroutine copy_new(comm, key, extra, value, new, flag, ierr)
  use counters
  implicit none
  integer :: comm, key, ierr
  integer*8 :: extra, value, new
  logical :: flag
  external :: check
  call check(extra == 1000000000000_8, 'extra state')
  copied = copied + 1
  new = value + 1
  flag = .true.
  ierr = 0
end subroutine

subroutine delete_new(comm, key, value, extra, ierr)
  use counters
  implicit none
  integer :: comm, key, ierr
  integer*8 :: value, extra
  external :: check
  call check(value == 5000000000_8 .or. value == 5000000001_8, 'value to delete')
  deleted = deleted + 1
  ierr = 0
end subroutine

subroutine copy_old(comm, key, extra, value, new, flag, ierr)
  use counters
  implicit none
  integer :: comm, key, extra, value, new, ierr
  logical :: flag
  external :: check
  call check(extra == 42, 'old extra state')
  copied = copied + 1
  new = value + 1
  flag = .true.
  ierr = 0
end subroutine

subroutine delete_old(comm, key, value, extra, ierr)
  use counters
  implicit none
  integer :: comm, key, value, extra, ierr
  external :: check
  call check(value == -7 .or. value == -6, 'old value to delete')
  deleted = deleted + 1
  ierr = 0
end subroutine

subroutine on_error(comm, code)
  use counters
  implicit none
  integer :: comm, code
  errors = errors + 1
  last = code
end subroutine

subroutine query(extra, status, ierr)
#ifdef MPIF
  implicit none
  include 'mpif.h'
#else
  use mpi, only: MPI_INTEGER, MPI_STATUS_SIZE, MPI_SOURCE, MPI_TAG
  implicit none
#endif
  integer :: status(MPI_STATUS_SIZE), ierr
  integer*8 :: extra
  external :: MPI_STATUS_SET_ELEMENTS, MPI_STATUS_SET_CANCELLED
  call MPI_STATUS_SET_ELEMENTS(status, MPI_INTEGER, int(extra), ierr)
  call MPI_STATUS_SET_CANCELLED(status, .false., ierr)
  status(MPI_SOURCE) = 1
  status(MPI_TAG) = 4
  ierr = 0
end subroutine

subroutine free(extra, ierr)
  use counters
  implicit none
  integer*8 :: extra
  integer :: ierr
  freed = int(extra)
  ierr = 0
end subroutine

subroutine cancel(extra, complete, ierr)
  use counters
  implicit none
  integer*8 :: extra
  logical :: complete
  integer :: ierr
  external :: check
  call check(extra == 31 .and. .not. complete, 'state of a request to cancel')
  cancelled = cancelled + 1
  ierr = 0
end subroutine

include 'check.inc'
