! Arrays whose descriptors have an undefined span, as gfortran 13 and 14 pass local allocatable arrays that an assignment
! from an intrinsic function has allocated: the descriptors are made here, so that any gfortran tests it. Sends all of a
! block of malloc's, by its elements, and every second integer of one, by the span.
! ranks: 1
! variants: shm
! build: own
! build: abi -abi=standard
module descriptors
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  type, bind(C) :: descriptor
    type(c_ptr) :: base
    integer(c_size_t) :: offset, element
    integer(c_int) :: version
    integer(c_int8_t) :: rank, kind
    integer(c_int16_t) :: attribute
    integer(c_size_t) :: span, stride, lower, upper
  end type
  interface
    subroutine sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, comm, &
        status, ierror) bind(C, name='mpi_sendrecv_f08ts_')
      import
      type(descriptor) :: sendbuf, recvbuf
      integer(c_int) :: sendcount, dest, sendtag, recvcount, source, recvtag, ierror
      type(MPI_Datatype) :: sendtype, recvtype
      type(MPI_Comm) :: comm
      type(MPI_Status) :: status
    end subroutine
    function malloc(bytes) bind(C)
      import
      integer(c_size_t), value :: bytes
      type(c_ptr) :: malloc
    end function
    subroutine free(block) bind(C)
      import
      type(c_ptr), value :: block
    end subroutine
  end interface
contains
  function of_integers(base, length, span) result(array)
    type(c_ptr), intent(in) :: base
    integer, intent(in) :: length, span
    type(descriptor) :: array
    array = descriptor(base, -1, 4, 0, 1_c_int8_t, 1_c_int8_t, 0_c_int16_t, span, 1, 1, length)
  end function
end module

program undefined_span
  use descriptors
  implicit none
  integer, parameter :: spans(4) = [8, 16, 777, 8000]
  integer :: length, i, j
  ! Blocks of 48 bytes follow each other: one of 256 begins a page.
  type(c_ptr) :: blocks(1024)
  call MPI_Init()
  do i = 1, size(spans)
    do length = 1, 400
      call allocated(length, spans(i))
    end do
    call allocated(50000, spans(i))
    call allocated(3000000, spans(i))
    do j = 1, size(blocks)
      blocks(j) = malloc(40_c_size_t)
    end do
    do j = 1, size(blocks)
      call whole(blocks(j), 10, spans(i))
      call free(blocks(j))
    end do
  end do
  call components(50)
  call MPI_Finalize()
contains

  subroutine allocated(length, span)
    integer, intent(in) :: length, span
    type(c_ptr) :: block
    block = malloc(int(length, c_size_t) * 4)
    call whole(block, length, span)
    call free(block)
  end subroutine

  subroutine whole(block, length, span)
    type(c_ptr), intent(in) :: block
    integer, intent(in) :: length, span
    integer, pointer :: array(:)
    integer, target :: got(length)
    integer :: j, ierror
    type(MPI_Status) :: status
    call c_f_pointer(block, array, [length])
    array = [(j, j = 1, length)]
    got = 0
    call sendrecv(of_integers(block, length, span), length, MPI_INTEGER, 0, 1, of_integers(c_loc(got), length, 4), length, &
      MPI_INTEGER, 0, 1, MPI_COMM_SELF, status, ierror)
    call check(all(got == [(j, j = 1, length)]), 'a whole block')
  end subroutine

  ! The first components of pairs of integers.
  subroutine components(length)
    integer, intent(in) :: length
    integer, pointer :: pairs(:, :)
    integer, target :: got(length)
    integer :: j, ierror
    type(c_ptr) :: block
    type(MPI_Status) :: status
    block = malloc(int(length, c_size_t) * 8)
    call c_f_pointer(block, pairs, [2, length])
    pairs(1, :) = [(j, j = 1, length)]
    pairs(2, :) = 0
    got = 0
    call sendrecv(of_integers(block, length, 8), length, MPI_INTEGER, 0, 1, of_integers(c_loc(got), length, 4), length, &
      MPI_INTEGER, 0, 1, MPI_COMM_SELF, status, ierror)
    call check(all(got == [(j, j = 1, length)]), 'components')
    call free(block)
  end subroutine
end program

#include "check.inc"
