! A library that a program opens: calls with constants that are known by their addresses. Counts what is wrong.
subroutine part(wrong) bind(C)
  use, intrinsic :: iso_c_binding, only: c_int
#if defined(F08)
  use mpi_f08
#elif !defined(MPIF)
  use mpi
#endif
  implicit none
#if defined(MPIF)
  include 'mpif.h'
#endif
  integer(c_int), intent(out) :: wrong
  integer :: ranks, ierr
#if defined(FIRST)
  wrong = 0
  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
#else
  integer :: x(3), y(1)
  integer(kind=MPI_ADDRESS_KIND) :: place
#if defined(F08)
  type(MPI_Comm) :: graph
#else
  integer :: graph
#endif
  logical :: weighted
  integer :: before
  wrong = 0
#if defined(BEGINS)
  call MPI_Init(ierr)
#endif
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  x = [1, 2, 3]
  call MPI_Allreduce(MPI_IN_PLACE, x, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (any(x /= [1, 2, 3] * ranks)) wrong = wrong + 1
  call MPI_Get_address(MPI_BOTTOM, place, ierr)
  if (place /= 0) wrong = wrong + 10
  y = 7
#if defined(F08)
  before = MPI_STATUS_IGNORE%MPI_TAG
#else
  before = MPI_STATUS_IGNORE(MPI_TAG)
#endif
  call MPI_Sendrecv(y, 1, MPI_INTEGER, 0, 77, x, 1, MPI_INTEGER, 0, 77, MPI_COMM_SELF, MPI_STATUS_IGNORE, ierr)
#if defined(F08)
  if (MPI_STATUS_IGNORE%MPI_TAG /= before) wrong = wrong + 100
#else
  if (MPI_STATUS_IGNORE(MPI_TAG) /= before) wrong = wrong + 100
#endif
  call MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, [0], MPI_UNWEIGHTED, 1, [0], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., &
                                      graph, ierr)
  call MPI_Dist_graph_neighbors_count(graph, x(1), x(2), weighted, ierr)
  if (weighted) wrong = wrong + 1000
  call MPI_Comm_free(graph, ierr)
#endif
#if defined(LAST)
  call MPI_Finalize(ierr)
#endif
end subroutine
