! Array sections with gaps that no datatype describes as the call needs them, in operations that go on after it:
! reductions, counts and displacements in sections of two dimensions, derived datatypes with gaps of their own; all
! ways to complete them; split collective access to files.
! ranks: 1 2 3
! variants: shm tcp
program sections_later
  use mpi_f08
  implicit none
  integer, parameter :: n = 3, m = 4
  integer :: rank, size, next, last, i, round, count, index, total
  integer, asynchronous :: a(2 * n, 3 * m), b(2 * n, 3 * m), c(2 * n, 3 * m)
  integer, allocatable, asynchronous :: big(:, :), got(:, :)
  integer, allocatable :: counts(:), places(:)
  integer :: indices(3)
  logical :: flag
  type(MPI_Request) :: requests(3), request
  type(MPI_Status) :: status, statuses(3)
  integer, asynchronous :: window(20)
  type(MPI_Datatype) :: gaps, pairs
  type(MPI_Win) :: win
  type(MPI_File) :: file
  character(len=100) :: name

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  next = modulo(rank + 1, size)
  last = modulo(rank - 1 + size, size)
  total = size * (size - 1) / 2
  count = n * m

  ! Reductions, completed in every way. What lies between stays, and what the program changes there meanwhile.
  do round = 1, 8
    call fill()
    call MPI_Iallreduce(a(1::2, 1::3), b(2::2, 3::3), count, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    b(1, 1) = round
    flag = .false.
    select case (round)
    case (1)
      call MPI_Wait(request, status)
    case (2)
      do while (.not. flag)
        call MPI_Test(request, flag, MPI_STATUS_IGNORE)
      end do
    case (3)
      requests = [MPI_REQUEST_NULL, request, MPI_REQUEST_NULL]
      call MPI_Waitany(3, requests, index, status)
      call check(index == 2, 'the index')
      request = requests(2)
    case (4)
      requests = [MPI_REQUEST_NULL, MPI_REQUEST_NULL, request]
      call MPI_Waitsome(3, requests, i, indices, statuses)
      call check(i == 1 .and. indices(1) == 3, 'the indices')
      request = requests(3)
    case (5)
      requests = [request, MPI_REQUEST_NULL, MPI_REQUEST_NULL]
      do while (.not. flag)
        call MPI_Testall(3, requests, flag, MPI_STATUSES_IGNORE)
      end do
      request = requests(1)
    case (6)
      do while (.not. flag)
        call MPI_Request_get_status(request, flag, status)
      end do
      call check(b(2, 3) == sums(1), 'what has arrived can be seen before the request is gone')
      call MPI_Wait(request, status)
    case (7)
      requests = [request, MPI_REQUEST_NULL, MPI_REQUEST_NULL]
      do while (.not. flag)
        call MPI_Testany(3, requests, index, flag, status)
      end do
      request = requests(1)
    case (8)
      requests = [request, MPI_REQUEST_NULL, MPI_REQUEST_NULL]
      call MPI_Waitall(3, requests, statuses)
      request = requests(1)
    end select
    call check(request == MPI_REQUEST_NULL, 'the request is gone')
    call check(all(reshape(b(2::2, 3::3), [count]) == [(sums(i), i = 1, count)]), 'sums in a section')
    call check(b(1, 1) == round, 'what the program has set meanwhile')
    b(1, 1) = -1
    b(2::2, 3::3) = -1
    call check(all(b == -1), 'what lies between')
  end do

  ! Only the first elements are used: the others are the program's.
  call fill()
  call MPI_Iallreduce(a(1::2, 1::3), b(2::2, 3::3), 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
  b(2 * n, 3 * m) = 5
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check(b(4, 3) == sums(2) .and. b(2 * n, 3 * m) == 5, 'part of a section')

  ! In place, and a persistent one that is started again with other data.
  call fill()
  call MPI_Allreduce_init(MPI_IN_PLACE, a(1::2, 1::3), count, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
  call MPI_Allreduce_init(c(2::2, 2::3), b(2::2, 3::3), count, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
  do round = 1, 4
    call fill()
    a(1, 1) = round * (rank + 1)
    c = round * 10 + rank
    call MPI_Startall(2, requests)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(a(1, 1) == round * (total + size), 'a persistent sum in place')
    call check(a(3, 1) == sums(2) .and. a(2, 1) == -2, 'the rest of it')
    call check(b(2, 3) == round * 10 + size - 1 .and. b(1, 1) == -1, 'a persistent maximum')
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))
  call check(requests(1) == MPI_REQUEST_NULL, 'freed')

  ! Counts and displacements in sections of two dimensions.
  allocate (counts(size), places(size), big(4, 4 * size), got(4, 4 * size))
  counts = 3
  places = [(5 * (i - 1), i = 1, size)]
  got = -1
  do i = 1, 4 * size
    big(:, i) = [100 * i + rank, 100 * i + 10 + rank, 100 * i + 20 + rank, 100 * i + 30 + rank]
  end do
  call MPI_Ialltoallv(big(1::2, 1::1), counts, places, MPI_INTEGER, got(2::2, 1::1), counts, places, MPI_INTEGER, &
    MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check(section(got, 2, 5 * last) == section(big, 1, 5 * rank) - rank + last, 'from the rank before')
  call check(section(got, 2, 5 * last + 2) == section(big, 1, 5 * rank + 2) - rank + last, 'its last element')
  call check(section(got, 2, 5 * last + 3) == -1 .and. all(got(1, :) == -1), 'nothing more')

  ! A datatype with gaps takes elements of the section.
  call MPI_Type_vector(2, 1, 2, MPI_INTEGER, gaps)
  call MPI_Type_commit(gaps)
  call fill()
  call MPI_Irecv(b(2::2, 3::3), 2, gaps, last, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(1::2, 1::3), 2, gaps, next, 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, statuses)
  call check(b(2, 3) == 1 + last .and. b(6, 3) == 3 + last .and. b(2, 6) == 4 + last .and. b(6, 6) == 6 + last, 'elements')
  call check(b(4, 3) == -1 .and. b(4, 6) == -1 .and. b(2, 9) == -1, 'gaps of the datatype')
  call MPI_Get_count(statuses(1), gaps, i)
  call check(i == 2, 'the count')

  ! One-sided calls, with a datatype that has gaps, and with one whose elements are those of the section.
  call MPI_Type_contiguous(2, MPI_INTEGER, pairs)
  call MPI_Type_commit(pairs)
  call fill()
  window = 0
  call MPI_Win_create(window, 4_MPI_ADDRESS_KIND * 20, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_fence(0, win)
  call MPI_Put(a(1::2, 1::3), 2, gaps, next, 0_MPI_ADDRESS_KIND, 4, MPI_INTEGER, win)
  call MPI_Accumulate(a(1::2, 1::3), 2, gaps, next, 4_MPI_ADDRESS_KIND, 4, MPI_INTEGER, MPI_SUM, win)
  call MPI_Accumulate(a(1::2, 1::3), 2, pairs, next, 8_MPI_ADDRESS_KIND, 2, pairs, MPI_SUM, win)
  call MPI_Win_fence(0, win)
  call check(all(window(1:4) == [1, 3, 4, 6] + last) .and. all(window(5:8) == [1, 3, 4, 6] + last), 'put and added')
  call check(all(window(9:12) == [1, 2, 3, 4] + last) .and. window(13) == 0, 'pairs')
  call MPI_Get(b(2::2, 3::3), 2, gaps, next, 8_MPI_ADDRESS_KIND, 4, MPI_INTEGER, win)
  call MPI_Win_fence(0, win)
  call check(b(2, 3) == 1 + rank .and. b(6, 3) == 2 + rank .and. b(2, 6) == 3 + rank .and. b(6, 6) == 4 + rank, 'got')
  call check(b(4, 3) == -1 .and. b(4, 6) == -1 .and. b(1, 1) == -1, 'nothing else')
  call MPI_Win_free(win)
  call MPI_Type_free(pairs)

  ! Files: both halves of a split access are given the section.
  call fill()
  write (name, '(a, i0)') 'sections_later.', size
  call MPI_File_open(MPI_COMM_WORLD, trim(name), MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  call MPI_File_set_view(file, 4_MPI_OFFSET_KIND * count * rank, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
  call MPI_File_write_all_begin(file, a(1::2, 1::3), count, MPI_INTEGER)
  call MPI_File_write_all_end(file, a(1::2, 1::3), status)
  call MPI_File_seek(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)
  call MPI_File_read_all_begin(file, b(2::2, 3::3), count, MPI_INTEGER)
  call MPI_File_read_all_end(file, b(2::2, 3::3), status)
  call check(all(reshape(b(2::2, 3::3), [count]) == [(i + rank, i = 1, count)]), 'read by a split access')
  call fill()
  call MPI_File_read_at_all_begin(file, 0_MPI_OFFSET_KIND, b(2::2, 3::3), 2, gaps)
  call MPI_File_read_at_all_end(file, b(2::2, 3::3), status)
  call check(b(2, 3) == 1 + rank .and. b(6, 3) == 2 + rank .and. b(2, 6) == 3 + rank .and. b(6, 6) == 4 + rank, 'with gaps')
  call check(b(4, 3) == -1 .and. b(1, 1) == -1, 'between them')
  call MPI_File_seek_shared(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)
  call MPI_File_read_ordered_begin(file, c(1::2, 1::3), 1, MPI_INTEGER)
  call MPI_File_read_ordered_end(file, c(1::2, 1::3), status)
  call check(c(1, 1) /= -3 .and. c(2, 1) == -3, 'in order')
  call MPI_File_iread_at(file, 0_MPI_OFFSET_KIND, c(1::2, 1::3), 2, gaps, request)
  call MPI_Wait(request, status)
  call check(c(5, 1) == 2 + rank .and. c(3, 1) == -3, 'read without waiting')
  call MPI_File_close(file)
  call MPI_Type_free(gaps)
  call MPI_Finalize()
contains
  subroutine fill()
    integer :: k
    a = -2
    a(1::2, 1::3) = reshape([(k + rank, k = 1, n * m)], [n, m])
    b = -1
    c = -3
  end subroutine fill
  integer function sums(k)
    integer, intent(in) :: k
    sums = size * k + total
  end function sums
  ! Element `at` of every second row, from row `first` on.
  integer function section(array, first, at)
    integer, intent(in) :: array(:, :), first, at
    section = array(first + 2 * modulo(at, 2), 1 + at / 2)
  end function section
end program sections_later

#include "check.inc"
