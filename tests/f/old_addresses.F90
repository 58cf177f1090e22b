! Addresses and distances as INTEGERs, which the routines that MPI-3.0 removed give (MPI-2.2 section 15.1): what doesn't fit is an
! error, and its lower half is good for distances.
! ranks: 1
! variants: shm
! build: mpif -DMPIF
! build: mpi
program old_addresses
#if defined(MPIF)
  implicit none
  include 'mpif.h'
#else
  use mpi
  implicit none
#endif
  external :: check
  integer, target :: memory(100)
  integer :: first, second, code, class, ierr, big, extent
  integer(kind=MPI_ADDRESS_KIND) :: whole
  call MPI_INIT(ierr)
  memory = 0
  call MPI_ADDRESS(memory(1), first, code)
  call MPI_GET_ADDRESS(memory(1), whole, ierr)
  if (whole == int(whole)) then
    call check(code == MPI_SUCCESS .and. first == whole, 'an address that fits')
  else
    call MPI_ERROR_CLASS(code, class, ierr)
    call check(class == MPI_ERR_VALUE_TOO_LARGE, 'an address that does not fit')
  end if
  call MPI_ADDRESS(memory(100), second, code)
  call check(second - first == 396, 'the distance of two addresses')
  call MPI_TYPE_CONTIGUOUS(1000, MPI_DOUBLE_PRECISION, big, ierr)
  call MPI_TYPE_EXTENT(big, extent, code)
  call check(code == MPI_SUCCESS .and. extent == 8000, 'an extent')
  call MPI_TYPE_FREE(big, ierr)
  call MPI_TYPE_CONTIGUOUS(2**29, MPI_DOUBLE_PRECISION, big, ierr)
  call MPI_TYPE_EXTENT(big, extent, code)
  call MPI_ERROR_CLASS(code, class, ierr)
  call check(class == MPI_ERR_VALUE_TOO_LARGE, 'an extent that does not fit')
  call MPI_TYPE_FREE(big, ierr)
  call MPI_FINALIZE(ierr)
end program old_addresses
include 'check.inc'
