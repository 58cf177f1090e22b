! The standard ABI from Fortran (MPI-5.0 sections 21.2 and 21.4.1): its version as constants and as the library tells it, and
! the values of LOGICAL.
! ranks: 1
! variants: shm
! build: f08 -abi=standard -DF08
! build: mpi -abi=standard -DMODULE_MPI
! build: mpif -abi=standard
program abi_queries
#if defined(F08)
  use mpi_f08
#elif defined(MODULE_MPI)
  use mpi
#endif
  implicit none
#if !defined(F08) && !defined(MODULE_MPI)
  include 'mpif.h'
#endif
  integer :: major, minor, code, size
  logical :: yes, no, known

  call MPI_Init(code)
  call MPI_Abi_get_version(major, minor, code)
  call expect(major == MPI_ABI_VERSION .and. minor == MPI_ABI_SUBVERSION, 'version')
  call expect(MPI_ABI_VERSION == 1 .and. MPI_ABI_SUBVERSION == 0, 'constants')

  size = storage_size(yes) / 8
  yes = .false.
  no = .true.
  known = .false.
  call MPI_Abi_get_fortran_booleans(size, yes, no, known, code)
  call expect(code == MPI_SUCCESS, 'booleans')
  call expect(known, 'known')
  call expect(yes .and. .not. no, 'values')
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, code)
  call MPI_Abi_set_fortran_booleans(size, .true., .false., code)
  call expect(code == MPI_SUCCESS, 'the same values')
  call MPI_Finalize(code)
contains
  subroutine expect(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    integer :: error
    if (.not. good) then
      print '(2a)', 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 3, error)
    end if
  end subroutine
end program
