! Module mpi_f08: large counts by the generic names (MPI-4.0 section 19.1.5), told apart by the kind of the
! arguments; array sections with gaps; what has no form of its own, because a large count is an address.
! ranks: 2
! variants: shm
module large_callbacks
  use mpi_f08
  implicit none
  integer(kind=MPI_COUNT_KIND) :: seen = 0
contains
  subroutine add_up(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer(kind=MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
    seen = seen + len
  end subroutine
end module

program large
  use, intrinsic :: iso_c_binding, only: c_ptr, c_loc, c_null_ptr
  use mpi_f08
  use large_callbacks
  implicit none
  integer, parameter :: ck = MPI_COUNT_KIND, ak = MPI_ADDRESS_KIND
  integer(kind=ck), parameter :: many = 5000000000_ck
  integer :: rank, ranks, other, code, small, class, i
  integer, asynchronous :: data(8), got(8), grid(4, 6), column(6)
  integer(kind=ck) :: count, size, lb, extent, nums(4), blocks(2), places(2), limits(8)
  integer(kind=ak) :: displs(2), addresses(1)
  integer :: combiner, ints(8)
  type(MPI_Status) :: status
  type(MPI_Request) :: request, both(2)
  type(MPI_Datatype) :: made, types(1)
  type(MPI_Op) :: op
  type(MPI_Win) :: win
  type(c_ptr) :: start
  integer, target :: attached(4096)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  other = 1 - rank
  data = [(rank * 100 + i, i = 1, 8)]

  ! Point-to-point, with and without the optional error code.
  call MPI_Isend(data, 8_ck, MPI_INTEGER, other, 1, MPI_COMM_WORLD, request)
  call MPI_Recv(got, 8_ck, MPI_INTEGER, other, 1, MPI_COMM_WORLD, status, code)
  call check(code == MPI_SUCCESS, 'a receive')
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check(all(got == data - rank * 100 + other * 100), 'what was received')
  call MPI_Get_count(status, MPI_INTEGER, count)
  call check(count == 8, 'a large count')
  call MPI_Get_count(status, MPI_INTEGER, small)
  call check(small == 8, 'a small count')
  call MPI_Sendrecv(data, 3_ck, MPI_INTEGER, other, 2, got, 8_ck, MPI_INTEGER, other, 2, &
    MPI_COMM_WORLD, status)
  call MPI_Get_elements(status, MPI_INTEGER, count)
  call check(count == 3, 'elements')
  call MPI_Send(data, many, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD)
  call MPI_Send(data, -many, MPI_INTEGER, other, 0, MPI_COMM_WORLD, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_COUNT, 'a negative large count')
  call MPI_Status_set_elements(status, MPI_INTEGER, many)
  call MPI_Get_count(status, MPI_INTEGER, count)
  call check(count == many, 'a count beyond ints')

  ! Sections with gaps: a row of a matrix, also nonblocking.
  grid = 0
  grid(2, :) = [(rank * 10 + i, i = 1, 6)]
  call MPI_Irecv(grid(4, :), 6_ck, MPI_INTEGER, other, 3, MPI_COMM_WORLD, both(1))
  call MPI_Isend(grid(2, :), 6_ck, MPI_INTEGER, other, 3, MPI_COMM_WORLD, both(2))
  call MPI_Waitall(2, both, MPI_STATUSES_IGNORE)
  call check(all(grid(4, :) == [(other * 10 + i, i = 1, 6)]), 'a row')
  call check(all(grid(3, :) == 0), 'the row beside it')
  column = grid(2, :)
  call MPI_Bcast(grid(1, ::2), 3_ck, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call MPI_Allreduce(MPI_IN_PLACE, column, 6_ck, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(all(column == [(10 + 2 * i, i = 1, 6)]), 'a sum')

  ! Counts and displacements of all ranks.
  blocks = [1, 2]
  displs = [4, 0]
  got = -1
  call MPI_Allgatherv(data, blocks(rank + 1), MPI_INTEGER, got, blocks, displs, MPI_INTEGER, &
    MPI_COMM_WORLD)
  call check(got(5) == 1 .and. got(1) == 101 .and. got(2) == 102 .and. got(3) == -1, 'gathered')

  ! Datatypes.
  call MPI_Type_contiguous(many, MPI_INTEGER, made)
  call MPI_Type_size(made, size)
  call check(size == 4 * many, 'a size')
  call MPI_Type_size(made, small)
  call check(small == MPI_UNDEFINED, 'a size beyond ints')
  call MPI_Type_get_extent(made, lb, extent)
  call check(extent == 4 * many, 'an extent')
  call MPI_Type_get_envelope(made, nums(1), nums(2), nums(3), nums(4), combiner)
  call check(all(nums == [0, 0, 1, 1]) .and. combiner == MPI_COMBINER_CONTIGUOUS, 'an envelope')
  call MPI_Type_get_contents(made, 8_ck, 1_ck, 8_ck, 1_ck, ints, addresses, limits, types)
  call check(limits(1) == many, 'contents')
  call MPI_Type_free(made)
  places = [0_ck, many]
  call MPI_Type_indexed(2_ck, blocks, places, MPI_INTEGER, made)
  call MPI_Type_size(made, size)
  call check(size == 12, 'an indexed type')
  call MPI_Type_free(made)
  call MPI_Type_create_resized(MPI_INTEGER, 0_ak, 3 * many, made)
  call MPI_Type_free(made)

  ! Operations of the program's, which have a name of their own.
  call MPI_Op_create_c(add_up, .true., op)
  call MPI_Allreduce(data, got, 8_ck, MPI_INTEGER, op, MPI_COMM_WORLD)
  call check(all(got == [(100 + 2 * i, i = 1, 8)]), 'an operation')
  call MPI_Reduce_local(data, got, 8_ck, MPI_INTEGER, op)
  call check(seen >= 8, 'how much it was told')
  call MPI_Op_free(op)

  ! One-sided, packing, buffers.
  got = 0
  call MPI_Win_create(got, 32_ak, 4_ak, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_fence(0, win)
  call MPI_Put(data, 2_ck, MPI_INTEGER, other, 1_ak, 2_ck, MPI_INTEGER, win)
  call MPI_Win_fence(0, win)
  call check(got(2) == other * 100 + 1 .and. got(4) == 0, 'a put')
  call MPI_Win_free(win)
  call MPI_Pack_size(8_ck, MPI_INTEGER, MPI_COMM_WORLD, size)
  call check(size >= 32, 'a size for packing')
  count = 0
  call MPI_Pack(data, 2_ck, MPI_INTEGER, attached, 64_ck, count, MPI_COMM_WORLD)
  call check(count == 8, 'a position')
  size = 4 * 4096
  call MPI_Buffer_attach(attached, size)
  call MPI_Bsend(data, 1_ck, MPI_INTEGER, other, 5, MPI_COMM_WORLD)
  call MPI_Recv(got, 1_ck, MPI_INTEGER, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  size = 0
  call MPI_Buffer_detach(start, size)
  ! As numbers, because the compiler believes that nobody else has the address.
  call check(size == 4 * 4096 .and. transfer(start, 0_ak) == transfer(c_loc(attached), 0_ak), &
    'a buffer')
  call MPI_Comm_attach_buffer(MPI_COMM_WORLD, attached, size)
  size = 0
  start = c_null_ptr
  call MPI_Comm_detach_buffer(MPI_COMM_WORLD, start, size)
  call check(size == 4 * 4096 .and. transfer(start, 0_ak) == transfer(c_loc(attached), 0_ak), &
    'a buffer of a communicator')
  call MPI_Comm_attach_buffer(MPI_COMM_WORLD, attached, 4096)
  start = c_null_ptr
  call MPI_Comm_detach_buffer(MPI_COMM_WORLD, start, small)
  call check(small == 4096 .and. transfer(start, 0_ak) == transfer(c_loc(attached), 0_ak), &
    'a buffer of a communicator, with an int')
  call MPI_Finalize()
end program large

include 'check.inc'
