! Calls that complete operations of which some have failed: flags, indices from 1, counts and statuses are there with the error
! (MPI-3.1 sections 3.7.3 and 3.7.5). The failing operations are receives into too little room.
! ranks: 1
! variants: shm
! build: mpif -DMPIF
! build: mpi
! build: f08 -DF08
! build: existing compiler=mpif90.mpich
! build: existing_f08 compiler=mpif90.mpich -DF08
program completion_errors
#if defined(F08)
  use mpi_f08
  implicit none
  type(MPI_Request) :: requests(3), sends(3)
  type(MPI_Status) :: status, statuses(3)
  type(MPI_File) :: file
#define ERROR_OF(i) statuses(i)%MPI_ERROR
#define TAG_OF(i) statuses(i)%MPI_TAG
#elif defined(MPIF)
  implicit none
  include 'mpif.h'
  integer :: requests(3), sends(3), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 3), file
#define ERROR_OF(i) statuses(MPI_ERROR, i)
#define TAG_OF(i) statuses(MPI_TAG, i)
#else
  use mpi
  implicit none
  integer :: requests(3), sends(3), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 3), file
#define ERROR_OF(i) statuses(MPI_ERROR, i)
#define TAG_OF(i) statuses(MPI_TAG, i)
#endif
  external :: check
  integer :: ierr, code, index, indices(3), many, i
  integer :: from(2, 3), to(2, 3)
  logical :: flag
  call MPI_INIT(ierr)
  call MPI_COMM_SET_ERRHANDLER(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierr)
  call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)

  call begin
  call MPI_WAIT(requests(2), status, code)
  call check(class_of(code) == MPI_ERR_TRUNCATE, 'wait')
  call finish

  call begin
  flag = .false.
  code = MPI_SUCCESS
  do i = 1, 1000000
    call MPI_TEST(requests(2), flag, status, code)
    if (flag .or. code /= MPI_SUCCESS) exit
  end do
  call check(class_of(code) == MPI_ERR_TRUNCATE, 'test')
  call check(flag, 'test: the flag')
  call finish

  call begin
  index = 77
  call MPI_WAIT(requests(1), status, ierr)
  call MPI_WAIT(requests(3), status, ierr)
  call MPI_WAITANY(3, requests, index, status, code)
  call check(class_of(code) == MPI_ERR_TRUNCATE, 'waitany')
  call check(index == 2, 'waitany: the index')
  call finish

  call begin
  call MPI_WAIT(requests(1), status, ierr)
  call MPI_WAIT(requests(3), status, ierr)
  index = 77
  flag = .false.
  do i = 1, 1000000
    call MPI_TESTANY(3, requests, index, flag, status, code)
    if (flag .or. code /= MPI_SUCCESS) exit
  end do
  call check(class_of(code) == MPI_ERR_TRUNCATE, 'testany')
  call check(flag .and. index == 2, 'testany: the index')
  call finish

  call begin
  call MPI_WAIT(requests(1), status, ierr)
  call MPI_WAIT(requests(3), status, ierr)
  indices = 77
  call MPI_WAITSOME(3, requests, many, indices, statuses, code)
  call check(class_of(code) == MPI_ERR_IN_STATUS, 'waitsome')
  call check(many == 1 .and. indices(1) == 2 .and. indices(2) == 77, 'waitsome: the index')
  call check(class_of(ERROR_OF(1)) == MPI_ERR_TRUNCATE, 'waitsome: the status')
  call check(TAG_OF(1) == 2, 'waitsome: the tag')
  call finish

  call begin
  call MPI_WAIT(requests(1), status, ierr)
  call MPI_WAIT(requests(3), status, ierr)
  indices = 77
  do i = 1, 1000000
    call MPI_TESTSOME(3, requests, many, indices, statuses, code)
    if (many /= 0) exit
  end do
  call check(class_of(code) == MPI_ERR_IN_STATUS, 'testsome')
  call check(many == 1 .and. indices(1) == 2 .and. indices(2) == 77, 'testsome: the index')
  call finish

  call begin
  flag = .false.
  do i = 1, 1000000
    call MPI_TESTALL(3, requests, flag, statuses, code)
    if (flag .or. code /= MPI_SUCCESS) exit
  end do
  call check(class_of(code) == MPI_ERR_IN_STATUS, 'testall')
  call check(flag, 'testall: the flag')
  call check(class_of(ERROR_OF(2)) == MPI_ERR_TRUNCATE, 'testall: the status')
  call finish

  call begin
  call MPI_WAITALL(3, requests, statuses, code)
  call check(class_of(code) == MPI_ERR_IN_STATUS, 'waitall')
  call check(class_of(ERROR_OF(2)) == MPI_ERR_TRUNCATE, 'waitall: the status')
  call check(ERROR_OF(3) == MPI_SUCCESS, 'waitall: the other status')
  call finish

  ! Where nothing could be looked at indices stay what they were.
  indices = 77
  many = 2
  call MPI_WAITSOME(-1, requests, many, indices, statuses, code)
  call check(code /= MPI_SUCCESS .and. all(indices == 77), 'no requests')

  ! The handle of a file that could not be opened, as it is in C.
  call MPI_FILE_OPEN(MPI_COMM_SELF, '/nowhere/completion_errors', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
  call check(code /= MPI_SUCCESS .and. file == MPI_FILE_NULL, 'no file')
  call MPI_FINALIZE(ierr)
contains

  integer function class_of(code)
    integer, intent(in) :: code
    integer :: ierr
    call MPI_ERROR_CLASS(code, class_of, ierr)
  end function

  ! Three receives of one integer, and three messages, of which the second has two.
  subroutine begin
    integer :: i
    from = 5
    do i = 1, 3
      call MPI_IRECV(to(1, i), 1, MPI_INTEGER, 0, i, MPI_COMM_SELF, requests(i), ierr)
    end do
    do i = 1, 3
      call MPI_ISEND(from(1, i), merge(2, 1, i == 2), MPI_INTEGER, 0, i, MPI_COMM_SELF, sends(i), ierr)
    end do
  end subroutine

  subroutine finish
    integer :: i
    do i = 1, 3
      call MPI_WAIT(requests(i), MPI_STATUS_IGNORE, ierr)
      call MPI_WAIT(sends(i), MPI_STATUS_IGNORE, ierr)
    end do
  end subroutine
end program completion_errors
include 'check.inc'
