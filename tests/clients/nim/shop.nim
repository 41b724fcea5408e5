## Nim: the timed client. A small shop: orders arrive, are kept in tables and search trees, change,
## leave again; the state is written as JSON and parsed back; random binary trees are built and
## dropped. Totals are kept twice, in the data and in plain numbers. Exits 1 when they differ.

import std/[algorithm, json, sequtils, strutils, tables]

proc fail(what: string) {.noreturn.} =
  stderr.writeLine("wrong: " & what)
  quit(1)

proc check(condition: bool, what: string) =
  if not condition: fail(what)

# A small generator of its own, so that the numbers are the same everywhere.
var state = 88172645463325252'u64
proc below(n: int): int =
  state = state xor (state shl 13)
  state = state xor (state shr 7)
  state = state xor (state shl 17)
  int(state mod uint64(n))

# Part 1: binary trees, most dropped at once, one kept.
type
  Node = ref object
    left, right: Node

proc grow(depth: int): Node =
  if depth == 0: Node()
  else: Node(left: grow(depth - 1), right: grow(depth - 1))

proc count(node: Node): int =
  if node.left.isNil: 1
  else: 1 + count(node.left) + count(node.right)

proc trees(deepest: int) =
  let kept = grow(deepest)
  var depth = 4
  while depth <= deepest:
    let rounds = 1 shl (deepest - depth + 4)
    var nodes = 0
    for round in 1 .. rounds:
      nodes += count(grow(depth))
    check(nodes == rounds * ((1 shl (depth + 1)) - 1), "nodes at depth " & $depth)
    echo rounds, " trees of depth ", depth, ": ", nodes, " nodes"
    depth += 4
  check(count(kept) == (1 shl (deepest + 1)) - 1, "the kept tree")

# Part 2: customers in a treap keyed by name, orders in a table, lines in sequences.
type
  Line = object
    article: string
    pieces, price: int
  Order = ref object
    id: int
    lines: seq[Line]
    customer: Customer
  Customer = ref object
    name: string
    priority: int
    orders: seq[Order]
    smaller, greater: Customer

proc name(i: int): string = "customer " & toHex(i * 2654435761, 8)

proc insert(tree: var Customer, fresh: Customer) =
  if tree.isNil:
    tree = fresh
  elif fresh.name < tree.name:
    insert(tree.smaller, fresh)
    if tree.smaller.priority > tree.priority:
      let up = tree.smaller
      tree.smaller = up.greater
      up.greater = tree
      tree = up
  else:
    insert(tree.greater, fresh)
    if tree.greater.priority > tree.priority:
      let up = tree.greater
      tree.greater = up.smaller
      up.smaller = tree
      tree = up

proc find(tree: Customer, name: string): Customer =
  result = tree
  while not result.isNil and result.name != name:
    result = if name < result.name: result.smaller else: result.greater

iterator walk(tree: Customer): Customer =
  var stack: seq[Customer]
  var node = tree
  while node != nil or stack.len > 0:
    while node != nil:
      stack.add node
      node = node.smaller
    node = stack.pop()
    yield node
    node = node.greater

proc total(order: Order): int =
  for line in order.lines: result += line.pieces * line.price

proc toJson(order: Order): JsonNode =
  result = %*{"id": order.id, "customer": order.customer.name, "lines": []}
  for line in order.lines:
    result["lines"].add(%*{"article": line.article, "pieces": line.pieces, "price": line.price})

proc shop(customers, steps: int) =
  var tree: Customer
  for i in 0 ..< customers:
    insert(tree, Customer(name: name(i), priority: below(1 shl 30)))
  var open = initTable[int, Order]()
  var expected = 0
  var removed = 0
  for step in 1 .. steps:
    let order = Order(id: step, customer: find(tree, name(below(customers))))
    check(order.customer != nil, "customer")
    for k in 0 .. below(5):
      order.lines.add Line(article: "article " & $(below(5000)), pieces: 1 + below(9), price: below(10000))
    expected += total(order)
    open[step] = order
    order.customer.orders.add order
    if open.len > 24000:
      let victim = step - 24000
      let old = open[victim]
      expected -= total(old)
      old.customer.orders.keepItIf(it.id != victim)
      open.del(victim)
      inc removed
    if step mod 5000 == 0:
      var texts: seq[string]
      for id in step - 400 .. step:
        texts.add $toJson(open[id])
      for i, text in texts:
        let parsed = parseJson(text)
        let order = open[step - 400 + i]
        check(parsed["id"].getInt == order.id, "JSON id")
        check(parsed["customer"].getStr == order.customer.name, "JSON customer")
        var sum = 0
        for line in parsed["lines"]: sum += line["pieces"].getInt * line["price"].getInt
        check(sum == total(order), "JSON lines")
  var byTable, byTree, previous = 0
  for order in open.values: byTable += total(order)
  var last = ""
  for customer in walk(tree):
    check(customer.name > last, "order of names")
    last = customer.name
    inc previous
    for order in customer.orders:
      check(open[order.id] == order, "order of customer")
      byTree += total(order)
  check(byTable == expected and byTree == expected, "totals")
  check(previous == customers, "customers")
  echo "shop: ", open.len, " orders open, ", removed, " gone, worth ", expected

# Part 3: words, counted, grouped by closures, sorted and joined.
proc words(rounds: int) =
  var counts = initCountTable[string]()
  var length = 0
  for round in 1 .. rounds:
    let text = toSeq(1 .. 400).mapIt(toOct(below(4096), 4)).join(" ")
    length += text.len
    for word in text.split(' '):
      counts.inc word
  var pairs = toSeq(counts.pairs)
  pairs.sort(proc (a, b: (string, int)): int =
    result = cmp(b[1], a[1])
    if result == 0: result = cmp(a[0], b[0]))
  var sum = 0
  for (word, count) in pairs: sum += count
  check(sum == rounds * 400, "words")
  check(length == rounds * (400 * 5 - 1), "text")
  echo "words: ", pairs.len, " distinct, ", sum, " in all"

trees(19)
shop(16000, 260000)
words(3000)
