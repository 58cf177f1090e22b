! Data representations whose conversion subroutines are Fortran's (MPI-3.1 section 13.5.3): integers of 4
! bytes lie in the file negated, as numbers of 8 bytes.
! ranks: 1 2
! variants: shm
! build: mpifh -DMPIFH
! build: mpi
! build: f08 -DF08
! build: large -DF08 -DLARGE
! build: existing compiler=mpif90.mpich -DEXISTING
! build: existing_f08 compiler=mpif90.mpich -DF08
#ifdef LARGE
#define COUNT_KIND MPI_COUNT_KIND
#define NOTHING MPI_CONVERSION_FN_NULL_C
#define REGISTER MPI_Register_datarep_c
#else
#define NOTHING MPI_CONVERSION_FN_NULL
#define REGISTER MPI_Register_datarep
#define COUNT_KIND kind(0)
#endif
module representation
#ifdef F08
  use mpi_f08
  use iso_c_binding
#elif !defined(MPIFH)
  use mpi
#endif
  implicit none
#ifdef MPIFH
  include 'mpif.h'
#endif
  integer :: reads = 0, writes = 0, extents = 0
contains
  subroutine told(extra, ierr)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierr
    ierr = MPI_SUCCESS
    if (extra /= 77) then
      write (0, *) 'extra state is', extra
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine

  subroutine length(datatype, extent, extra, ierr)
#ifdef F08
    type(MPI_Datatype) :: datatype
#else
    integer :: datatype
#endif
    integer(kind=MPI_ADDRESS_KIND) :: extent, extra
    integer :: ierr
    call told(extra, ierr)
    extents = extents + 1
    extent = 8
    if (datatype /= MPI_INTEGER) ierr = MPI_ERR_TYPE
  end subroutine

#ifdef F08
  subroutine from_file(user, datatype, count, filed, position, extra, ierr)
    type(c_ptr), value :: user, filed
    type(MPI_Datatype) :: datatype
    integer(kind=COUNT_KIND) :: count
    integer, pointer :: values(:)
    integer(kind=8), pointer :: stored(:)
#else
  subroutine from_file(values, datatype, count, stored, position, extra, ierr)
    integer :: values(*)
    integer(kind=8) :: stored(*)
    integer :: datatype
    integer :: count
#endif
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierr
    integer :: i
#ifdef F08
    call c_f_pointer(user, values, [position + count])
    call c_f_pointer(filed, stored, [count])
#endif
    call told(extra, ierr)
    reads = reads + 1
    if (datatype /= MPI_INTEGER) ierr = MPI_ERR_TYPE
    do i = 1, int(count)
      values(int(position) + i) = int(-stored(i))
    end do
  end subroutine

#ifdef F08
  subroutine to_file(user, datatype, count, filed, position, extra, ierr)
    type(c_ptr), value :: user, filed
    type(MPI_Datatype) :: datatype
    integer(kind=COUNT_KIND) :: count
    integer, pointer :: values(:)
    integer(kind=8), pointer :: stored(:)
#else
  subroutine to_file(values, datatype, count, stored, position, extra, ierr)
    integer :: values(*)
    integer(kind=8) :: stored(*)
    integer :: datatype
    integer :: count
#endif
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierr
    integer :: i
#ifdef F08
    call c_f_pointer(user, values, [position + count])
    call c_f_pointer(filed, stored, [count])
#endif
    call told(extra, ierr)
    writes = writes + 1
    do i = 1, int(count)
      ! This number can't be written.
      if (values(int(position) + i) == -1) ierr = MPI_ERR_CONVERSION
      stored(i) = -values(int(position) + i)
    end do
  end subroutine
end module

program main
  use representation
  implicit none
#ifdef EXISTING
  ! The module mpi of that library lacks it.
  external :: MPI_CONVERSION_FN_NULL
#endif
  integer, parameter :: many = 10
  character(len=40) :: path
  integer(kind=MPI_ADDRESS_KIND) :: extra
  integer(kind=MPI_OFFSET_KIND) :: at
  integer :: values(many), back(many), rank, ranks, class, ierr, i
  integer(kind=8) :: stored(many)
#ifdef F08
  type(MPI_File) :: file
#else
  integer :: file
#endif
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  extra = 77
  call REGISTER('negated ', from_file, to_file, length, extra, ierr)
  call want(ierr, MPI_SUCCESS)
  ! A name can't be given twice, nor one of the standard's.
  call REGISTER('negated', from_file, to_file, length, extra, ierr)
  call want(ierr, MPI_ERR_DUP_DATAREP)
  call REGISTER('native', from_file, to_file, length, extra, ierr)
  call want(ierr, MPI_ERR_DUP_DATAREP)
  call REGISTER('read only', from_file, NOTHING, length, extra, ierr)
  call want(ierr, MPI_SUCCESS)
  if (rank == 0) then
    call system_clock(i)
    write (path, '(a,i0,a,i0)') '/tmp/weft-datarep-', i, '-', ranks
  end if
  call MPI_Bcast(path, len(path), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
  call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR + MPI_MODE_CREATE, MPI_INFO_NULL, file, ierr)
  call want(ierr, MPI_SUCCESS)
  at = 0
  call MPI_File_set_view(file, at, MPI_INTEGER, MPI_INTEGER, 'negated', MPI_INFO_NULL, ierr)
  call want(ierr, MPI_SUCCESS)
  values = [(100 * rank + i, i = 1, many)]
  at = rank * many
  call MPI_File_write_at(file, at, values, many, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call want(ierr, MPI_SUCCESS)
  back = 0
  call MPI_File_read_at(file, at, back, many, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call want(ierr, MPI_SUCCESS)
  if (any(back /= values)) call wrong('what was read')
  ! What a subroutine returns is the call's result.
  values(3) = -1
  call MPI_File_write_at(file, at, values, many, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call want(ierr, MPI_ERR_CONVERSION)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  at = 0
  call MPI_File_set_view(file, at, MPI_INTEGER8, MPI_INTEGER8, 'native', MPI_INFO_NULL, ierr)
  at = rank * many
  call MPI_File_read_at(file, at, stored, many, MPI_INTEGER8, MPI_STATUS_IGNORE, ierr)
  call want(ierr, MPI_SUCCESS)
  if (any(stored /= [(-100 * rank - i, i = 1, many)])) call wrong('what the file has')
  if (reads /= 1 .or. writes /= 2 .or. extents == 0) call wrong('the number of calls')
  ! Lengths differ, and there is nothing that converts in this direction.
  at = 0
  call MPI_File_set_view(file, at, MPI_INTEGER, MPI_INTEGER, 'read only', MPI_INFO_NULL, ierr)
  call want(ierr, MPI_SUCCESS)
  at = rank * many
  call MPI_File_read_at(file, at, back, many, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call want(ierr, MPI_SUCCESS)
  if (back(many) /= 100 * rank + many) call wrong('what was read only')
  call MPI_File_write_at(file, at, back, many, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call want(ierr, MPI_ERR_CONVERSION)
  call MPI_File_close(file, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) call MPI_File_delete(path, MPI_INFO_NULL, ierr)
  call MPI_Finalize(ierr)
contains
  subroutine want(code, wanted)
    integer, intent(in) :: code, wanted
    call MPI_Error_class(code, class, ierr)
    if (class /= wanted) then
      write (0, *) 'class', class, 'and not', wanted
      call wrong('an error code')
    end if
  end subroutine
  subroutine wrong(what)
    character(len=*), intent(in) :: what
    write (0, *) 'rank', rank, ':', what, 'is wrong'
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine
end program
