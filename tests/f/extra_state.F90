! The extra state of callbacks is the program's own variable, as in the libraries that programs of this
! ABI were built with: who changes it sees the change in the other place.
! ranks: 1
! variants: shm
! build: mpi
! build: f08 -DF08
! build: existing compiler=mpif90.mpich
! build: existing_f08 compiler=mpif90.mpich -DF08
module extra_callbacks
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: calls = 0, deletes = 0
contains
  subroutine expect(found, wanted)
    integer(kind=MPI_ADDRESS_KIND), intent(in) :: found
    integer, intent(in) :: wanted
    integer :: ierr
    calls = calls + 1
    if (found /= wanted) then
      write (0, *) 'call', calls, ': extra state is', found, 'and not', wanted
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine
  subroutine q(extra, st, ierr)
    integer(kind=MPI_ADDRESS_KIND) :: extra
#ifdef F08
    type(MPI_Status) :: st
#else
    integer :: st(MPI_STATUS_SIZE)
#endif
    integer :: ierr
    call expect(extra, 20)
    extra = extra + 1
    call MPI_Status_set_elements(st, MPI_BYTE, 0, ierr)
    call MPI_Status_set_cancelled(st, .false., ierr)
    ierr = MPI_SUCCESS
  end subroutine
  subroutine f(extra, ierr)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierr
    call expect(extra, 21)
    extra = extra + 1
    ierr = MPI_SUCCESS
  end subroutine
  subroutine c(extra, complete, ierr)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierr
    ierr = MPI_SUCCESS
  end subroutine
  subroutine d(comm, key, val, extra, ierr)
#ifdef F08
    type(MPI_Comm) :: comm
#else
    integer :: comm
#endif
    integer :: key, ierr
    integer(kind=MPI_ADDRESS_KIND) :: val, extra
    call expect(extra, 41 + deletes)
    deletes = deletes + 1
    if (val /= 5) call MPI_Abort(MPI_COMM_WORLD, 2, ierr)
    extra = extra + 1
    ierr = MPI_SUCCESS
  end subroutine
  subroutine cp(comm, key, extra, vin, vout, flag, ierr)
#ifdef F08
    type(MPI_Comm) :: comm
#else
    integer :: comm
#endif
    integer :: key, ierr
    integer(kind=MPI_ADDRESS_KIND) :: vin, vout, extra
    logical :: flag
    call expect(extra, 40)
    extra = extra + 1
    vout = vin
    flag = .true.
    ierr = MPI_SUCCESS
  end subroutine
end module extra_callbacks
program extra_state
  use extra_callbacks
  implicit none
  integer :: ierr, key
  integer(kind=MPI_ADDRESS_KIND) :: extra, v
#ifdef F08
  type(MPI_Request) :: r
  type(MPI_Comm) :: n
#else
  integer :: r, n
#endif
  call MPI_Init(ierr)
  extra = 10
  call MPI_Grequest_start(q, f, c, extra, r, ierr)
  extra = 20
  call MPI_Grequest_complete(r, ierr)
  call MPI_Wait(r, MPI_STATUS_IGNORE, ierr)
  call expect(extra, 22)
  extra = 30
  call MPI_Comm_create_keyval(cp, d, key, extra, ierr)
  v = 5
  extra = 40
  call MPI_Comm_set_attr(MPI_COMM_SELF, key, v, ierr)
  call MPI_Comm_dup(MPI_COMM_SELF, n, ierr)
  call MPI_Comm_delete_attr(MPI_COMM_SELF, key, ierr)
  call MPI_Comm_free(n, ierr)
  call expect(extra, 43)
  if (calls /= 7) call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
  call MPI_Finalize(ierr)
end program extra_state
