! Allocatable arrays that an assignment from an intrinsic function has allocated, in module mpi_f08: gfortran leaves the
! span in their descriptors undefined. Every such function with messages, reductions, windows and files.
! ranks: 1 2
! variants: shm tcp
! cflags: -ffree-line-length-none
! timeout: 60
! build: own -O0
! build: optimized -O2
! build: abi -abi=standard -O0
! build: abi-optimized -abi=standard -O2
! build: gfortran-11 -fc=gfortran-11 -O0
module arrays
  use mpi_f08
  implicit none
  integer :: rank, ranks, next, last
  integer :: b(6, 4)
  type(MPI_File) :: file
contains

  ! Leaves numbers on the stack that are no spans, or those of other arrays.
  subroutine scribble(number)
    integer, intent(in) :: number
    integer(kind=MPI_ADDRESS_KIND), volatile :: waste(2000)
    waste = number
  end subroutine

#define ZERO 0
#define DATATYPE MPI_INTEGER
#define OP MPI_SUM
#define DECLARE integer :: n, i, bytes; integer, allocatable, asynchronous :: want(:), got(:); \
  type(MPI_Request) :: requests(2); type(MPI_Win) :: win

#define ELEMENTS :
  subroutine of_reshape
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = reshape(b, [24])
#define NAME 'reshape'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_pack
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = pack(b, b > 3)
#define NAME 'pack'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_unpack
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = unpack(b(:, 1), [(mod(i, 2) == 0, i = 1, 12)], [(-i, i = 1, 12)])
#define NAME 'unpack'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_cshift
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = cshift(b(:, 2), 2)
#define NAME 'cshift'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_eoshift
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = eoshift(b(:, 2), 2)
#define NAME 'eoshift'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_maxloc
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = maxloc(b, 1)
#define NAME 'maxloc'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_minloc
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = minloc(b)
#define NAME 'minloc'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_findloc
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = findloc(b, 9, 1)
#define NAME 'findloc'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_maxval
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = maxval(b, 1)
#define NAME 'maxval'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_minval
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = minval(b, 2)
#define NAME 'minval'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_sum
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = sum(b, 1)
#define NAME 'sum'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_product
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = product(b, 2)
#define NAME 'product'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_count
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = count(mod(b, 5) < 3, 1)
#define NAME 'count'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_iany
    DECLARE
    integer, allocatable, asynchronous :: m(:)
    m = iany(b, 1)
#define NAME 'iany'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

#undef ELEMENTS
#define ELEMENTS :, :
  subroutine of_transpose
    DECLARE
    integer, allocatable, asynchronous :: m(:, :)
    m = transpose(b)
#define NAME 'transpose'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_matmul
    DECLARE
    integer, allocatable, asynchronous :: m(:, :)
    m = matmul(b, transpose(b))
#define NAME 'matmul'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_spread
    DECLARE
    integer, allocatable, asynchronous :: m(:, :)
    m = spread(b(:, 3), 2, 3)
#define NAME 'spread'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

#undef DECLARE
#undef ELEMENTS
#undef ZERO
#undef DATATYPE
#undef OP
#define DECLARE integer :: n, i, bytes; logical, allocatable, asynchronous :: want(:), got(:); \
  type(MPI_Request) :: requests(2); type(MPI_Win) :: win
#define ZERO .false.
#define DATATYPE MPI_LOGICAL
#define OP MPI_LOR
#define ELEMENTS :
  subroutine of_any
    DECLARE
    logical, allocatable, asynchronous :: m(:)
    m = any(mod(b, 5) == 0, 2)
#define NAME 'any'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

  subroutine of_all
    DECLARE
    logical, allocatable, asynchronous :: m(:)
    m = all(b < 14, 1)
#define NAME 'all'
#include "parts/every_call.inc"
#undef NAME
  end subroutine

#undef DECLARE
#undef ZERO
#undef DATATYPE
#undef OP
#define DECLARE integer :: n, i, bytes; double precision, allocatable, asynchronous :: want(:), got(:); \
  type(MPI_Request) :: requests(2); type(MPI_Win) :: win
#define ZERO 0d0
#define DATATYPE MPI_DOUBLE_PRECISION
#define OP MPI_SUM
  subroutine of_norm2
    DECLARE
    double precision, allocatable, asynchronous :: m(:)
    m = norm2(dble(b), 1)
#define NAME 'norm2'
#include "parts/every_call.inc"
#undef NAME
  end subroutine
end module

program assigned_arrays
  use arrays
  implicit none
  integer :: i, number
  integer, parameter :: numbers(2) = [8, 777]
  character(len=100) :: name
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  next = modulo(rank + 1, ranks)
  last = modulo(rank - 1, ranks)
  b = reshape([(i, i = 1, 24)], [6, 4])
  write (name, '(a, i0)') 'assigned_arrays.', rank
  call MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  do i = 1, size(numbers)
    number = numbers(i)
    call scribble(number); call of_reshape
    call scribble(number); call of_pack
    call scribble(number); call of_unpack
    call scribble(number); call of_cshift
    call scribble(number); call of_eoshift
    call scribble(number); call of_maxloc
    call scribble(number); call of_minloc
    call scribble(number); call of_findloc
    call scribble(number); call of_maxval
    call scribble(number); call of_minval
    call scribble(number); call of_sum
    call scribble(number); call of_product
    call scribble(number); call of_count
    call scribble(number); call of_iany
    call scribble(number); call of_transpose
    call scribble(number); call of_matmul
    call scribble(number); call of_spread
    call scribble(number); call of_any
    call scribble(number); call of_all
    call scribble(number); call of_norm2
  end do
  call MPI_File_close(file)
  call MPI_Finalize()
end program

#include "check.inc"
