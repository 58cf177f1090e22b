! Module mpi_f08: handles with types, optional error codes, statuses, callbacks, array sections with
! gaps in blocking and nonblocking calls.
! ranks: 2
! variants: shm ofi
! with: parts/attributes.c
! build: own
! build: existing compiler=mpif90.mpich -DEXISTING
module f08_callbacks
  use mpi_f08
  implicit none
  integer :: copied = 0, deleted = 0, errors = 0, freed = 0
contains
  subroutine add_up(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
  end subroutine
  subroutine copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, &
      ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    copied = copied + 1
    attribute_val_out = attribute_val_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deleted = deleted + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine on_error(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    errors = errors + 1
  end subroutine
  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state))
    call MPI_Status_set_cancelled(status, .true.)
    ierror = MPI_SUCCESS
  end subroutine
  subroutine release(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    freed = freed + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine
end module

program f08
  use mpi_f08
  use f08_callbacks
  implicit none
  integer :: rank, ranks, other, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  other = 1 - rank
  call basics
  call with_c
  call sections
  call unfinished_sections
  call collective_sections
  call callbacks
  call memory
#ifndef EXISTING
  call check(MPI_SUBARRAYS_SUPPORTED .and. MPI_ASYNC_PROTECTS_NONBLOCKING, 'what is supported')
#endif
  call sizes
  call refused
  call MPI_Finalize()
contains

  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (.not. good) then
      print '(2a)', 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 3)
    end if
  end subroutine

  subroutine basics
    type(MPI_Status) :: status, statuses(2)
    type(MPI_Request) :: requests(2), request
    type(MPI_Comm) :: comm
    type(MPI_Info) :: info
    type(MPI_Datatype) :: double
    type(MPI_Op) :: op
    integer :: x, y, count, index, old(MPI_STATUS_SIZE), length, ierr
    logical :: flag
    character(len=MPI_MAX_PROCESSOR_NAME) :: name
    character(len=8) :: value
    x = rank
    call MPI_Sendrecv(x, 1, MPI_INTEGER, other, 3, y, 1, MPI_INTEGER, other, MPI_ANY_TAG, &
      MPI_COMM_WORLD, status, ierr)
    call check(ierr == MPI_SUCCESS .and. y == other, 'sendrecv')
    call check(status%MPI_SOURCE == other .and. status%MPI_TAG == 3, 'status')
    call MPI_Get_count(status, MPI_INTEGER, count)
    call check(count == 1, 'count')
    call MPI_Status_f082f(status, old)
    call check(old(MPI_SOURCE) == other .and. old(MPI_TAG) == 3, 'f082f')
    old(MPI_TAG) = 9
    call MPI_Status_f2f08(old, status)
    call check(status%MPI_TAG == 9, 'f2f08')
    call MPI_Irecv(y, 1, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(x, 1, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, statuses)
    call check(statuses(1)%MPI_SOURCE == other, 'statuses')
    call check(requests(1) == MPI_REQUEST_NULL, 'handles can be compared')
    call MPI_Irecv(y, 1, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Send(x, 1, MPI_INTEGER, other, 1, MPI_COMM_WORLD)
    call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE)
    call check(index == 2, 'waitany counts from 1')
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call check(x == 1, 'in place')
    call MPI_Iallreduce(MPI_IN_PLACE, x, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(x == 2, 'nonblocking in place')
    call MPI_Get_processor_name(name, length)
    call check(name(length + 1:) == ' ', 'processor name')
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call check(comm /= MPI_COMM_WORLD, 'dup')
    call MPI_Comm_set_name(comm, 'eight ')
    call MPI_Comm_get_name(comm, name, length)
    call check(name == 'eight' .and. length == 5, 'name')
    call MPI_Comm_free(comm)
    call check(comm%MPI_VAL == MPI_COMM_NULL%MPI_VAL, 'freed')
    call MPI_Info_create(info)
    call MPI_Info_set(info, ' key', 'value ')
    call MPI_Info_get(info, 'key', 8, value, flag)
    call check(flag .and. value == 'value', 'info')
    call MPI_Info_free(info)
    call MPI_Type_contiguous(2, MPI_INTEGER, double)
    call MPI_Type_commit(double)
    call MPI_Type_free(double)
    call MPI_Op_create(add_up, .true., op)
    x = 5
    call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INTEGER, op, MPI_COMM_WORLD)
    call check(x == 10, 'operation')
    call MPI_Op_free(op)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., comm)
    call MPI_Cart_shift(comm, 0, 1, x, y)
    call check(x == other .and. y == other, 'cart')
    call MPI_Comm_free(comm)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [other], MPI_UNWEIGHTED, 1, [other], &
      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., comm)
    call MPI_Dist_graph_neighbors_count(comm, x, y, flag)
    call check(.not. flag, 'unweighted')
    call MPI_Comm_free(comm)
    call check(MPI_Wtime() > 0, 'time')
  end subroutine

  subroutine with_c
    interface
      subroutine c_ignores_f08(status, statuses, wrong)
        import
        type(MPI_Status) :: status, statuses(*)
        integer :: wrong
      end subroutine
    end interface
    integer :: wrong
    call c_ignores_f08(MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, wrong)
    call check(wrong == 0, 'C knows ignored statuses')
  end subroutine

  subroutine sections
    integer :: a(10, 10), b(10, 10), c(4, 4, 4), d(4, 4, 4), v(10)
    type(MPI_Status) :: status
    integer :: n
    a = reshape([(i + 1000 * rank, i = 1, 100)], [10, 10])
    ! A row, to a column.
    b = -1
    call MPI_Sendrecv(a(3, :), 10, MPI_INTEGER, other, 0, b(:, 2), 10, MPI_INTEGER, other, 0, &
      MPI_COMM_WORLD, status)
    call check(all(b(:, 2) == a(3, :) - 1000 * rank + 1000 * other), 'row to column')
    call check(count(b == -1) == 90, 'nothing but the column')
    call MPI_Get_count(status, MPI_INTEGER, n)
    call check(n == 10, 'count of a row')
    ! Every second, backwards.
    b = -1
    v = [(i, i = 1, 10)]
    call MPI_Sendrecv(v(10:2:-2), 5, MPI_INTEGER, other, 0, b(1:9:2, 1), 5, MPI_INTEGER, other, 0, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(b(1:9:2, 1) == [10, 8, 6, 4, 2]) .and. count(b == -1) == 95, 'backwards')
    ! A block.
    b = -1
    call MPI_Sendrecv(a(2:4, 5:8), 12, MPI_INTEGER, other, 0, b(7:9, 1:4), 12, MPI_INTEGER, other, &
      0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(b(7:9, 1:4) == a(2:4, 5:8) + 1000 * (other - rank)), 'block')
    call check(count(b == -1) == 88, 'nothing but the block')
    ! Part of a block: two columns and one element of a third.
    b = -1
    call MPI_Sendrecv(a(2:4, 5:8), 7, MPI_INTEGER, other, 0, b(7:9, 1:4), 7, MPI_INTEGER, other, &
      0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(b(7:9, 1:2) == a(2:4, 5:6) + 1000 * (other - rank)), 'part of a block')
    call check(b(7, 3) == a(2, 7) + 1000 * (other - rank) .and. count(b == -1) == 93, 'and no more')
    ! Three dimensions.
    c = reshape([(i + 100 * rank, i = 1, 64)], [4, 4, 4])
    d = 0
    call MPI_Sendrecv(c(1:3:2, 2:4, 1:4:3), 12, MPI_INTEGER, other, 0, d(2:4:2, 1:3, 3:4), 12, &
      MPI_INTEGER, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(d(2:4:2, 1:3, 3:4) == c(1:3:2, 2:4, 1:4:3) + 100 * (other - rank)), 'cube')
    call check(count(d == 0) == 52, 'nothing but the cube')
    ! Bytes, and an element of several.
    b = -1
    call MPI_Sendrecv(a(3, 1:5), 20, MPI_BYTE, other, 0, b(5, 1:5), 20, MPI_BYTE, other, 0, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(b(5, 1:5) == a(3, 1:5) + 1000 * (other - rank)), 'bytes of a row')
    call assumed(a(1:9:2, 1:9:2))
  end subroutine

  ! Assumed shape, and assumed size.
  subroutine assumed(x)
    integer, intent(in) :: x(:, :)
    integer :: y(5, 5)
    call MPI_Sendrecv(x, 25, MPI_INTEGER, other, 0, y, 25, MPI_INTEGER, other, 0, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check(all(y == x + 1000 * (other - rank)), 'assumed shape')
    call sized(y, 25)
  end subroutine
  subroutine sized(x, n)
    integer, intent(in) :: n
    integer, intent(inout) :: x(5, *)
    integer :: before
    before = x(5, 5)
    call MPI_Sendrecv_replace(x, n, MPI_INTEGER, other, 0, other, 0, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check(x(5, 5) == before + 1000 * (rank - other), 'assumed size')
  end subroutine

  subroutine unfinished_sections
    integer, asynchronous :: a(100, 100), b(100, 100)
    type(MPI_Request) :: requests(4)
    a = reshape([(i * (rank + 1), i = 1, 10000)], [100, 100])
    b = 0
    call MPI_Irecv(b(1:100:3, 5), 34, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Irecv(b(1:50, 51:100:2), 1250, MPI_INTEGER, other, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Isend(a(7, 1:34), 34, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(3))
    call MPI_Issend(a(1:100:2, 2:100:4), 1250, MPI_INTEGER, other, 2, MPI_COMM_WORLD, requests(4))
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE)
    call check(all(b(1:100:3, 5) * (rank + 1) == a(7, 1:34) * (other + 1)), 'row, nonblocking')
    call check(all(b(1:50, 51:100:2) * (rank + 1) == a(1:100:2, 2:100:4) * (other + 1)), &
      'block, nonblocking')
    call check(count(b /= 0) == 1284, 'and nothing else')
    b = 0
    if (rank == 0) b(2, :) = [(i, i = 1, 100)]
    call MPI_Ibcast(b(2, :), 100, MPI_INTEGER, 0, MPI_COMM_WORLD, requests(1))
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check(all(b(2, :) == [(i, i = 1, 100)]) .and. count(b /= 0) == 100, 'ibcast of a row')
    b = 0
    call MPI_Iallgather(a(1, 1:10), 10, MPI_INTEGER, b(4, 1:20), 10, MPI_INTEGER, MPI_COMM_WORLD, &
      requests(1))
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check(all(b(4, 1:10) * (rank + 1) == a(1, 1:10)), 'iallgather of a row')
    call check(all(b(4, 11:20) * (rank + 1) == 2 * a(1, 1:10)), 'iallgather of another row')
  end subroutine

  subroutine collective_sections
    integer :: a(6, 6), b(6, 6), total(3, 3)
    a = rank + 1
    b = 0
    call MPI_Allreduce(a(1:6:2, 1:6:2), total, 9, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call check(all(total == 3), 'allreduce of a section')
    call MPI_Allreduce(MPI_IN_PLACE, a(2, :), 6, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    call check(all(a(2, :) == 2) .and. all(a(1, :) == rank + 1), 'allreduce into a row')
    call MPI_Gatherv(a(1, 1:2), 2, MPI_INTEGER, b(3, :), [2, 2], [4, 0], MPI_INTEGER, 0, &
      MPI_COMM_WORLD)
    if (rank == 0) call check(all(b(3, :) == [2, 2, 0, 0, 1, 1]), 'gatherv into a row')
    b = 0
    call MPI_Allgather(a(1:2, 1:3:2), 4, MPI_INTEGER, b(1:4:3, 1:6), 4, MPI_INTEGER, MPI_COMM_WORLD)
    call check(all(b(1, 1:2) == 1) .and. all(b(4, 3:4) == 2), 'allgather into a block')
    call MPI_Scatter(b, 0, MPI_INTEGER, b, 0, MPI_INTEGER, 0, MPI_COMM_WORLD)
  end subroutine

  subroutine callbacks
    type(MPI_Comm) :: comm, dup
    type(MPI_Errhandler) :: handler
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer :: key, code, n
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    logical :: flag
    extra = 2
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_create_keyval(copy, delete, key, extra)
    call MPI_Comm_set_attr(comm, key, 40_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(comm, dup)
    call MPI_Comm_get_attr(dup, key, value, flag)
    call check(flag .and. value == 42 .and. copied == 1, 'attribute')
    call MPI_Comm_free(dup)
    call check(deleted == 1, 'deleted')
    call MPI_Comm_delete_attr(comm, key)
    call MPI_Comm_free_keyval(key)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, extra)
    call MPI_Comm_set_attr(comm, key, 40_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(comm, dup)
    call MPI_Comm_get_attr(dup, key, value, flag)
    call check(flag .and. value == 40, 'predefined copy')
    call MPI_Comm_free(dup)
    call MPI_Comm_create_errhandler(on_error, handler)
    call MPI_Comm_set_errhandler(comm, handler)
    call MPI_Send(n, 1, MPI_INTEGER, 99, 0, comm, code)
    call check(errors == 1 .and. code /= MPI_SUCCESS, 'error handler')
    call MPI_Comm_free(comm)
    extra = 12
    call MPI_Grequest_start(query, release, cancel, extra, request)
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Get_count(status, MPI_INTEGER, n)
    call MPI_Test_cancelled(status, flag)
    call check(n == 12 .and. flag .and. freed == 1, 'generalized request')
  end subroutine

  subroutine memory
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr) :: place
    type(MPI_Win) :: win
    integer, pointer :: numbers(:)
    integer, asynchronous :: origin(10)
    integer(kind=MPI_ADDRESS_KIND) :: one, two
    integer, target :: buffer(200)
    integer :: size
    call MPI_Win_allocate(40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, place, win)
    call c_f_pointer(place, numbers, [10])
    numbers = 0
    origin = [(i, i = 1, 10)]
    call MPI_Win_fence(0, win)
    ! Every second element.
    call MPI_Put(origin(1:10:2), 5, MPI_INTEGER, other, 2_MPI_ADDRESS_KIND, 5, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call check(all(numbers == [0, 0, 1, 3, 5, 7, 9, 0, 0, 0]), 'put of a section')
    call MPI_Get_address(numbers(1), one)
    call MPI_Get_address(numbers(3), two)
    call check(MPI_Aint_diff(two, one) == 8 .and. MPI_Aint_add(one, 8_MPI_ADDRESS_KIND) == two, &
      'addresses')
    call MPI_Win_free(win)
    call MPI_Buffer_attach(buffer, 800)
    call MPI_Bsend(rank, 1, MPI_INTEGER, other, 3, MPI_COMM_WORLD)
    call MPI_Recv(size, 1, MPI_INTEGER, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Buffer_detach(place, size)
    call check(size == 800, 'buffer')
  end subroutine

  subroutine sizes
    double precision :: x(3)
    complex :: z
    integer :: n
    call MPI_Sizeof(x, n)
    call check(n == 8, 'size of double precision')
    call MPI_Sizeof(z, n)
    call check(n == 8, 'size of complex')
  end subroutine

  ! What can't be done is an error that says so.
  subroutine refused
    integer :: a(4, 4), b(2, 2), code, class, length
    type(MPI_Request) :: request
    type(MPI_Comm) :: comm
    type(MPI_Datatype) :: open
    type(MPI_Errhandler) :: handler
    character(len=MPI_MAX_ERROR_STRING) :: text
    a = 1
    call MPI_Iallreduce(a(1:4:2, 1:4:2), b, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(b == ranks), 'a section in a nonblocking reduction')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    call MPI_Psend_init(a(1:4:2, 1:4:2), 2, 2_MPI_COUNT_KIND, MPI_INTEGER, other, 1, MPI_COMM_WORLD, MPI_INFO_NULL, request, code)
    call MPI_Error_class(code, class)
    call MPI_Error_string(code, text, length)
    call check(class == MPI_ERR_BUFFER .and. index(text, 'gaps') > 0, 'refused')
    ! A wrong count is one for a section with gaps, too.
    call MPI_Isend(a(1, :), -1, MPI_INTEGER, other, 1, MPI_COMM_WORLD, request, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_COUNT, 'a negative count')
    call MPI_Allgather(a(1, :), -1, MPI_INTEGER, b(1, :), 1, MPI_INTEGER, MPI_COMM_WORLD, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_COUNT, 'a negative count to all')
    ! So is a wrong datatype, of which the call's own communicator is told, once.
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
    call MPI_Comm_dup(MPI_COMM_SELF, comm)
    call MPI_Comm_create_errhandler(on_error, handler)
    call MPI_Comm_set_errhandler(comm, handler)
    call MPI_Errhandler_free(handler)
    errors = 0
    call MPI_Send(a(1, :), 4, MPI_DATATYPE_NULL, 0, 1, comm, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_TYPE .and. errors == 1, 'no datatype')
    call MPI_Type_contiguous(2, MPI_INTEGER, open)
    call MPI_Send(a(1, :), 2, open, 0, 1, comm, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_TYPE .and. errors == 2, 'a datatype that is not committed')
    call MPI_Send(a(1:4:2, :), 3, open, 0, 1, comm, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_TYPE .and. errors == 3, 'and part of a block')
    call MPI_Type_free(open)
    call MPI_Comm_free(comm)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
  end subroutine
end program
