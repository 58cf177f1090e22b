! Point-to-point, completion, collectives, statuses and strings with mpif.h and module mpi: compiled
! against ours, and unmodified programs of another library on our libraries, with its Fortran library.
! ranks: 2 3
! variants: shm ofi
! build: mpif -DMPIF
! build: mpi
! build: existing compiler=mpif90.mpich
! build: existing_mpif compiler=mpif90.mpich -DMPIF
! build: companion compiler=mpif90.mpich library=companion -DCOMPANION
program basics
#ifdef MPIF
  implicit none
  include 'mpif.h'
#else
  use mpi
  implicit none
#endif
  external :: check
  integer :: rank, ranks, ierr, right, left
  call MPI_INIT(ierr)
  call check(ierr == MPI_SUCCESS, 'init')
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  call messages
  call completion
  call collectives
  call strings
  call groups
  call topologies
  call datatypes
  call errors
  call MPI_FINALIZE(ierr)
contains

  subroutine messages
    integer :: status(MPI_STATUS_SIZE), count, value(3), request
    double precision :: x
    logical :: flag
    character(len=5) :: text
    call MPI_SENDRECV([rank, 7, 9], 3, MPI_INTEGER, right, 5, value, 3, MPI_INTEGER, &
      left, 5, MPI_COMM_WORLD, status, ierr)
    call check(all(value == [left, 7, 9]), 'sendrecv')
    call check(status(MPI_SOURCE) == left .and. status(MPI_TAG) == 5, 'status')
    call MPI_GET_COUNT(status, MPI_INTEGER, count, ierr)
    call check(count == 3, 'count')
    call MPI_GET_ELEMENTS(status, MPI_INTEGER, count, ierr)
    call check(count == 3, 'elements')
    call MPI_TEST_CANCELLED(status, flag, ierr)
    call check(.not. flag, 'cancelled')
    x = rank * 0.5d0
    call MPI_ISEND(x, 1, MPI_DOUBLE_PRECISION, right, 6, MPI_COMM_WORLD, request, ierr)
    call MPI_PROBE(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, status, ierr)
    call check(status(MPI_SOURCE) == left, 'probe')
    call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
    call check(request == MPI_REQUEST_NULL, 'request')
    call MPI_RECV(x, 1, MPI_DOUBLE_PRECISION, left, MPI_ANY_TAG, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierr)
    call check(x == left * 0.5d0, 'recv')
    text = 'abcde'
    call MPI_SENDRECV_REPLACE(text, 5, MPI_CHARACTER, right, 8, left, 8, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierr)
    call check(text == 'abcde', 'characters')
    call MPI_IPROBE(left, 99, MPI_COMM_WORLD, flag, status, ierr)
    call check(.not. flag, 'iprobe')
    call MPI_RECV(x, 1, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 0, MPI_COMM_WORLD, status, ierr)
    call check(status(MPI_SOURCE) == MPI_PROC_NULL, 'no process')
  end subroutine

  subroutine completion
    integer :: requests(4), statuses(MPI_STATUS_SIZE, 4), index, indices(4), outcount, i
    integer :: values(4), status(MPI_STATUS_SIZE)
    logical :: flag, seen(4)
    do i = 1, 4
      call MPI_IRECV(values(i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i), ierr)
    end do
    call MPI_TESTANY(4, requests, index, flag, status, ierr)
    call check(.not. flag, 'testany before')
    call MPI_BARRIER(MPI_COMM_WORLD, ierr)
    call MPI_SEND(30, 1, MPI_INTEGER, right, 3, MPI_COMM_WORLD, ierr)
    call MPI_WAITANY(4, requests, index, status, ierr)
    call check(index == 3 .and. values(3) == 30, 'waitany counts from 1')
    call check(requests(3) == MPI_REQUEST_NULL, 'waitany request')
    call MPI_BARRIER(MPI_COMM_WORLD, ierr)
    call MPI_SEND(10, 1, MPI_INTEGER, right, 1, MPI_COMM_WORLD, ierr)
    call MPI_SEND(40, 1, MPI_INTEGER, right, 4, MPI_COMM_WORLD, ierr)
    seen = .false.
    do while (count(seen) < 2)
      call MPI_WAITSOME(4, requests, outcount, indices, statuses, ierr)
      do i = 1, outcount
        seen(indices(i)) = .true.
        call check(statuses(MPI_TAG, i) == indices(i), 'waitsome')
      end do
    end do
    call check(seen(1) .and. seen(4) .and. .not. seen(2), 'waitsome counts from 1')
    call MPI_BARRIER(MPI_COMM_WORLD, ierr)
    call MPI_SEND(20, 1, MPI_INTEGER, right, 2, MPI_COMM_WORLD, ierr)
    flag = .false.
    do while (.not. flag)
      call MPI_TESTALL(4, requests, flag, MPI_STATUSES_IGNORE, ierr)
    end do
    call check(all(values == [10, 20, 30, 40]), 'values')
    call MPI_WAITANY(4, requests, index, MPI_STATUS_IGNORE, ierr)
#ifndef COMPANION
    ! That library adds one to it.
    call check(index == MPI_UNDEFINED, 'nothing to wait for')
#endif
    call MPI_TESTSOME(4, requests, outcount, indices, MPI_STATUSES_IGNORE, ierr)
    call check(outcount == MPI_UNDEFINED, 'nothing to test')
    do i = 1, 2
      call MPI_RECV_INIT(values(i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i), ierr)
      call MPI_SEND_INIT(rank, 1, MPI_INTEGER, right, i, MPI_COMM_WORLD, requests(i + 2), ierr)
    end do
    call MPI_STARTALL(4, requests, ierr)
    call MPI_WAITALL(4, requests, statuses, ierr)
    call check(all(values(1:2) == left), 'persistent')
    call check(all(statuses(MPI_TAG, 1:2) == [1, 2]), 'statuses')
    do i = 1, 4
      call MPI_REQUEST_FREE(requests(i), ierr)
    end do
  end subroutine

  subroutine collectives
    integer :: x(8), total(8), i, counts(8), displs(8), request
    real :: r(2)
    x = rank + 1
    call MPI_ALLREDUCE(MPI_IN_PLACE, x, 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(all(x == ranks * (ranks + 1) / 2), 'allreduce in place')
    x = rank
    call MPI_REDUCE(x, total, 8, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD, ierr)
    if (rank == 0) call check(all(total == ranks - 1), 'reduce')
    x = -1
    x(rank + 1) = rank
    call MPI_ALLGATHER(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, 1, MPI_INTEGER, &
      MPI_COMM_WORLD, ierr)
    call check(all(x(1:ranks) == [(i, i = 0, ranks - 1)]), 'allgather in place')
    counts = 1
    displs = [(2 * i, i = 0, 7)]
    total = -1
    if (ranks <= 4) then
      call MPI_GATHERV(rank, 1, MPI_INTEGER, total, counts, displs, MPI_INTEGER, 0, &
        MPI_COMM_WORLD, ierr)
      if (rank == 0) call check(all(total(1:2 * ranks:2) == x(1:ranks)), 'gatherv')
    end if
    if (rank == 0) then
      call MPI_SCATTER(x, 1, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    else
      call MPI_SCATTER(MPI_BOTTOM, 0, MPI_INTEGER, total, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
      call check(total(1) == rank, 'scatter in place')
    end if
    r = [real(rank), 1.0]
    call MPI_IALLREDUCE(MPI_IN_PLACE, r, 2, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, request, ierr)
    call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
    call check(nint(r(2)) == ranks, 'iallreduce')
    r = [real(rank), 100.0]
    call MPI_ALLREDUCE(MPI_IN_PLACE, r, 1, MPI_2REAL, MPI_MAXLOC, MPI_COMM_WORLD, ierr)
    call check(r(1) == ranks - 1, 'maxloc')
  end subroutine

  subroutine strings
    character(len=MPI_MAX_PROCESSOR_NAME) :: name
    character(len=MPI_MAX_ERROR_STRING) :: text
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
    character(len=4) :: little
    character(len=20) :: value
    integer :: length, info, comm, n
    logical :: flag
    call MPI_GET_PROCESSOR_NAME(name, length, ierr)
    call check(length > 0 .and. name(length + 1:) == ' ', 'processor name')
    call MPI_GET_LIBRARY_VERSION(version, length, ierr)
    call check(index(version, 'Weft') > 0, 'library version')
    call MPI_ERROR_STRING(MPI_ERR_COUNT, text, length, ierr)
    call check(len_trim(text) == length, 'error string')
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
    call MPI_COMM_SET_NAME(comm, 'a name   ', ierr)
    call MPI_COMM_GET_NAME(comm, name, length, ierr)
    call check(length == 6 .and. name == 'a name', 'name')
    call MPI_COMM_GET_NAME(comm, little, length, ierr)
    call check(little == 'a na', 'cut off')
    call MPI_COMM_FREE(comm, ierr)
    call check(comm == MPI_COMM_NULL, 'freed')
    call MPI_INFO_CREATE(info, ierr)
    call MPI_INFO_SET(info, '  key ', ' value  ', ierr)
    call MPI_INFO_GET(info, 'key', 20, value, flag, ierr)
    call check(flag .and. value == 'value' .and. value(1:1) == 'v', 'info')
    call MPI_INFO_GET(info, 'other', 20, value, flag, ierr)
    call check(.not. flag, 'no info')
    call MPI_INFO_GET_VALUELEN(info, 'key', length, flag, ierr)
    call check(flag .and. length == 5, 'length of info')
    call MPI_INFO_GET_NKEYS(info, n, ierr)
    call check(n == 1, 'keys')
    value = 'x'
    call MPI_INFO_GET_NTHKEY(info, 0, value, ierr)
    call check(value == 'key', 'key')
    call MPI_INFO_FREE(info, ierr)
  end subroutine

  subroutine groups
    integer :: world, group, n, r(1), comm, i, ranges(3, 1), result
    call MPI_COMM_GROUP(MPI_COMM_WORLD, world, ierr)
    call MPI_GROUP_SIZE(world, n, ierr)
    call check(n == ranks, 'group')
    call MPI_GROUP_INCL(world, 1, [ranks - 1], group, ierr)
    call MPI_GROUP_TRANSLATE_RANKS(group, 1, [0], world, r, ierr)
    call check(r(1) == ranks - 1, 'translated')
    call MPI_GROUP_FREE(group, ierr)
    ranges(:, 1) = [0, ranks - 1, 2]
    call MPI_GROUP_RANGE_INCL(world, 1, ranges, group, ierr)
    call MPI_GROUP_SIZE(group, n, ierr)
    call check(n == (ranks + 1) / 2, 'ranges')
    call MPI_COMM_CREATE(MPI_COMM_WORLD, group, comm, ierr)
    call check((comm == MPI_COMM_NULL) .eqv. (mod(rank, 2) == 1), 'create')
    if (comm /= MPI_COMM_NULL) call MPI_COMM_FREE(comm, ierr)
    call MPI_GROUP_COMPARE(world, world, result, ierr)
    call check(result == MPI_IDENT, 'compare')
    call MPI_GROUP_FREE(group, ierr)
    call MPI_GROUP_FREE(world, ierr)
    call MPI_COMM_SPLIT(MPI_COMM_WORLD, mod(rank, 2), -rank, comm, ierr)
    call MPI_COMM_RANK(comm, i, ierr)
    call check(i == (ranks - 1 - rank) / 2, 'split')
    call MPI_COMM_FREE(comm, ierr)
  end subroutine

  subroutine topologies
    integer :: comm, dims(2), coords(2), source, dest, n, m, neighbors(2), w(2)
    logical :: periods(2), weighted
    call MPI_CART_CREATE(MPI_COMM_WORLD, 2, [ranks, 1], [.true., .false.], .false., comm, ierr)
    call MPI_CART_GET(comm, 2, dims, periods, coords, ierr)
    call check(all(dims == [ranks, 1]) .and. periods(1) .and. .not. periods(2), 'cart')
    call check(coords(1) == rank, 'coords')
    call MPI_CART_SHIFT(comm, 0, 1, source, dest, ierr)
    call check(source == left .and. dest == right, 'shift')
    call MPI_COMM_FREE(comm, ierr)
    call MPI_DIST_GRAPH_CREATE_ADJACENT(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], &
      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., comm, ierr)
    call MPI_DIST_GRAPH_NEIGHBORS_COUNT(comm, n, m, weighted, ierr)
    call check(n == 1 .and. m == 1 .and. .not. weighted, 'unweighted')
    call MPI_COMM_FREE(comm, ierr)
    call MPI_DIST_GRAPH_CREATE_ADJACENT(MPI_COMM_WORLD, 1, [left], [5], 1, [right], [6], &
      MPI_INFO_NULL, .false., comm, ierr)
    call MPI_DIST_GRAPH_NEIGHBORS(comm, 1, neighbors(1:1), w(1:1), 1, neighbors(2:2), w(2:2), ierr)
    call check(all(neighbors == [left, right]) .and. all(w == [5, 6]), 'weighted')
    call MPI_COMM_FREE(comm, ierr)
  end subroutine

  subroutine datatypes
    integer :: column, both, n, a(4, 4), b(4, 4), i, position
    integer(kind=MPI_ADDRESS_KIND) :: lb, extent, first, second
    character(len=64) :: packed
    a = reshape([(i, i = 1, 16)], [4, 4])
    b = 0
    call MPI_TYPE_VECTOR(4, 1, 4, MPI_INTEGER, column, ierr)
    call MPI_TYPE_COMMIT(column, ierr)
    call MPI_SENDRECV(a(2, 1), 1, column, right, 1, b(2, 1), 1, column, left, 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call check(all(b(2, :) == a(2, :)) .and. sum(b) == sum(a(2, :)), 'row')
    call MPI_TYPE_GET_EXTENT(column, lb, extent, ierr)
    call check(lb == 0 .and. extent == 52, 'extent')
    call MPI_TYPE_SIZE(column, n, ierr)
    call check(n == 16, 'size')
    call MPI_TYPE_FREE(column, ierr)
    call MPI_GET_ADDRESS(a(1, 1), first, ierr)
    call MPI_GET_ADDRESS(b(1, 1), second, ierr)
    call MPI_TYPE_CREATE_STRUCT(2, [1, 2], [first, second], [MPI_INTEGER, MPI_INTEGER], both, ierr)
    call MPI_TYPE_COMMIT(both, ierr)
    b = 5
    call MPI_BCAST(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD, ierr)
    call check(ierr == MPI_SUCCESS, 'absolute addresses')
    call MPI_TYPE_FREE(both, ierr)
    position = 0
    call MPI_PACK(a, 4, MPI_INTEGER, packed, 64, position, MPI_COMM_WORLD, ierr)
    call check(position == 16, 'pack')
    position = 0
    b = 0
    call MPI_UNPACK(packed, 64, position, b, 4, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    call check(all(b(:, 1) == [1, 2, 3, 4]), 'unpack')
    call MPI_TYPE_CREATE_F90_REAL(15, 300, column, ierr)
    call MPI_TYPE_SIZE(column, n, ierr)
    call check(n == 8, 'real of 15 digits')
  end subroutine

  subroutine errors
    integer :: class, code
    call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
    call MPI_SEND(rank, -1, MPI_INTEGER, right, 0, MPI_COMM_WORLD, code)
    call check(code /= MPI_SUCCESS, 'wrong count')
    call MPI_ERROR_CLASS(code, class, ierr)
    call check(class == MPI_ERR_COUNT, 'class')
    call check(MPI_WTIME() > 0 .and. MPI_WTICK() > 0, 'time')
#ifndef COMPANION
    ! It has no argument for an error code (MPI-4.1 section 15.2.4).
    call MPI_PCONTROL(1)
#endif
    call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, ierr)
  end subroutine
end program basics

include 'check.inc'
