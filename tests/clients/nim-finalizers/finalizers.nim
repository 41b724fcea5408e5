## Nim: finalizers on the Boehm collector run once, only for the dead, for nearly all of them (one
## in ten may be held by a conservative stack); lists a million long and rings are kept and dropped
## whole; interior pointers keep their sequence. Exits 1 when wrong.

proc fail(what: string) {.noreturn.} =
  stderr.writeLine("wrong: " & what)
  quit(1)

const total = 4000
var runs: array[total, int]
var ran = 0

type
  Thing = ref object
    id: int
    check: int

proc finish(thing: Thing) =
  if thing.check != thing.id * 3 + 1: fail("contents of a dead thing")
  inc runs[thing.id]
  inc ran

proc scrub(depth: int): int {.noinline.} =
  var room: array[64, int]
  room[depth mod 64] = depth
  if depth == 0: 0 else: 1 + scrub(depth - 1) + room[(depth + 1) mod 64]

proc makeThings(): seq[Thing] {.noinline.} =
  for i in 0 ..< total:
    var thing: Thing
    new(thing, finish)
    thing.id = i
    thing.check = i * 3 + 1
    if i mod 4 == 0: result.add thing

proc collect(enough: int) =
  for tries in 1 .. 50:
    discard scrub(500)
    GC_fullCollect()
    if ran >= enough: return

proc things() =
  var kept = makeThings()
  let droppable = total - kept.len
  collect(droppable - total div 10)
  if ran < droppable - total div 10: fail("finalizers ran: " & $ran)
  for i in 0 ..< total:
    if runs[i] > 1: fail("ran twice: " & $i)
    if i mod 4 == 0 and runs[i] > 0: fail("ran for a living one: " & $i)
  for i, thing in kept:
    if thing.id != 4 * i or thing.check != 12 * i + 1: fail("kept: " & $i)
  echo "things: finalized once each, the living ones not"

type
  Link = ref object
    next, other: Link
    value: int

proc chain(n: int): Link {.noinline.} =
  for i in 1 .. n:
    result = Link(next: result, value: i)

proc ring(n: int): Link {.noinline.} =
  result = chain(n)
  var last = result
  while last.next != nil:
    last.next.other = last
    last = last.next
  last.next = result
  result.other = last

proc links() =
  let kept = chain(1_000_000)
  var sum = 0
  for round in 1 .. 10:
    let dropped = ring(100_000)
    sum += dropped.other.value
    GC_fullCollect()
  var node = kept
  var expected = 1_000_000
  while node != nil:
    if node.value != expected: fail("chain at " & $expected)
    dec expected
    node = node.next
  if expected != 0: fail("length of the chain")
  let whole = ring(50_000)
  GC_fullCollect()
  node = whole
  for i in 1 .. 50_000:
    if node.next.other != node: fail("ring")
    node = node.next
  if node != whole: fail("ring does not close")
  echo "links: the chain and the ring are whole, ", sum, " rings dropped"

proc interior(): ptr int {.noinline.} =
  var numbers = newSeq[int](5000)
  for i in 0 ..< numbers.len: numbers[i] = i * 7
  addr numbers[3210]

proc interiors() =
  let inside = interior()
  for i in 1 .. 20:
    discard scrub(300)
    discard chain(20_000)
    GC_fullCollect()
  let base = cast[ptr UncheckedArray[int]](cast[int](inside) - 3210 * sizeof(int))
  for i in 0 ..< 5000:
    if base[i] != i * 7: fail("interior pointer at " & $i)
  echo "interior: the sequence is whole"

things()
links()
interiors()
