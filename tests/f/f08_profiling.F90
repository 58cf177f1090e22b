! PMPI_ names in module mpi_f08 (section 14.2): ours, and those that programs ask for which were built
! with another library's module.
! ranks: 2
! variants: shm
! build: own
! build: existing compiler=mpif90.mpich
program f08_profiling
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_loc
  implicit none
  external :: check
  integer :: rank, size, other, x, got(4), total, n
  double precision :: before
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  type(MPI_Comm) :: copy
  type(MPI_Datatype) :: pair
  type(MPI_Win) :: win
  integer, asynchronous :: room(8)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  call PMPI_Init()
  before = PMPI_Wtime()
  call PMPI_Comm_rank(MPI_COMM_WORLD, rank)
  call PMPI_Comm_size(MPI_COMM_WORLD, size)
  other = 1 - rank
  x = 10 + rank
  call PMPI_Irecv(got, 1, MPI_INTEGER, other, 3, MPI_COMM_WORLD, request)
  call PMPI_Send(x, 1, MPI_INTEGER, other, 3, MPI_COMM_WORLD)
  call PMPI_Wait(request, status)
  call check(got(1) == 10 + other .and. status%MPI_SOURCE == other, 'messages')
  call PMPI_Get_count(status, MPI_INTEGER, n)
  call check(n == 1, 'count')
  call PMPI_Allreduce(x, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(total == 21, 'reduction')
  got = 0
  call PMPI_Allgather(x, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD)
  call check(got(1) == 10 .and. got(2) == 11, 'allgather')
  call PMPI_Comm_dup(MPI_COMM_WORLD, copy)
  call PMPI_Comm_set_name(copy, 'a copy')
  call PMPI_Comm_get_name(copy, name, n)
  call check(name(1:n) == 'a copy', 'names')
  call PMPI_Type_contiguous(2, MPI_INTEGER, pair)
  call PMPI_Type_commit(pair)
  call PMPI_Type_free(pair)
  room = -1
  call PMPI_Win_create(room, 32_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, copy, win)
  call PMPI_Win_fence(0, win)
  call PMPI_Put(x, 1, MPI_INTEGER, other, 2_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
  call PMPI_Win_fence(0, win)
  call PMPI_F_sync_reg(room)
  call check(room(3) == 10 + other, 'put')
  call PMPI_Win_free(win)
  call PMPI_Comm_free(copy)
  call PMPI_Barrier(MPI_COMM_WORLD)
  call check(PMPI_Wtime() >= before, 'clock')
  call PMPI_Finalize()
end program

include 'check.inc'
