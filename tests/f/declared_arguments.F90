! Arguments as the standard names and declares them: what a program with explicit interfaces depends on.
! ranks: 1
! variants: shm
! build: f08 -DF08
! build: mpi
program declared_arguments
#if defined(F08)
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: code, error
#if defined(F08)
  type(MPI_Status) :: status, other
  integer :: plain(MPI_STATUS_SIZE)
  type(MPI_Request) :: request
#else
  integer :: status(MPI_STATUS_SIZE)
#endif

  call MPI_Init(code)
  ! MPI-4.1 section 3.2.5 and 13.3: the argument is named err.
  call MPI_Status_set_error(status=status, err=MPI_ERR_TRUNCATE, ierror=code)
  error = MPI_SUCCESS
  call MPI_Status_get_error(status=status, err=error, ierror=code)
  call expect(error == MPI_ERR_TRUNCATE, 'error of a status')
#if defined(F08)
  call expect(status%MPI_ERROR == MPI_ERR_TRUNCATE, 'its field')

  ! Section 19.3.5.
  call MPI_Status_f082f(status, plain, code)
  call MPI_Status_f2f08(plain, other, code)
  call expect(other%MPI_ERROR == MPI_ERR_TRUNCATE, 'conversion')

  ! Section 3.8.4: a routine that only reads the request may cancel it.
  call MPI_Irecv(error, 1, MPI_INTEGER, 0, 0, MPI_COMM_SELF, request, code)
  call cancel(request)
  call MPI_Wait(request, status, code)
  call neighbors
#endif
  call MPI_Finalize(code)
contains
#if defined(F08)
  subroutine cancel(request)
    type(MPI_Request), intent(in) :: request
    call MPI_Cancel(request, code)
    call expect(code == MPI_SUCCESS, 'cancel')
  end subroutine

  ! Section 8.5.5: without weights the constant may stand for the array, which is not written.
  subroutine neighbors
    type(MPI_Comm) :: graph
    integer :: sources(1), destinations(1)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, [0], MPI_UNWEIGHTED, 1, [0], MPI_UNWEIGHTED, &
                                        MPI_INFO_NULL, .false., graph, code)
    call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED, code)
    call expect(code == MPI_SUCCESS .and. sources(1) == 0 .and. destinations(1) == 0, 'neighbors')
    call MPI_Comm_free(graph, code)
  end subroutine
#endif

  subroutine expect(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (.not. good) then
      print '(2a)', 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 3, code)
    end if
  end subroutine
end program
