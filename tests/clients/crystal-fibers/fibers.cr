# Crystal: fibers. Each holds the only pointers to its data on its own stack while it waits and
# others allocate and collect; fibers end and their stacks are used again; exceptions unwind deep
# fibers; child processes are forked and read from. Exits 1 when wrong.

def wrong(what) : NoReturn
  STDERR.puts "wrong: #{what}"
  exit 1
end

def check(condition, what)
  wrong(what) unless condition
end

class Cell
  getter value : Int32
  getter text : String
  property rest : Cell?

  def initialize(@value, @text, @rest)
  end
end

def list(id : Int32, n : Int32) : Cell?
  head = nil
  n.times { |i| head = Cell.new(id * n + i, "cell #{id} #{i}", head) }
  head
end

def check_list(cell : Cell?, id : Int32, n : Int32)
  (n - 1).downto(0) do |i|
    found = cell || wrong("list of #{id} ends at #{i}")
    check found.value == id * n + i && found.text == "cell #{id} #{i}", "list of #{id} at #{i}"
    cell = found.rest
  end
  check cell.nil?, "list of #{id} is too long"
end

def churn(n)
  n.times { |i| Array.new(8) { |k| "#{i} #{k}" } }
end

# A thousand fibers, all waiting at the same time with a list each.
done = Channel(Int32).new
go = Array.new(1000) { Channel(Nil).new }
1000.times do |id|
  spawn do
    mine = list(id, 20)
    go[id].receive
    check_list mine, id, 20
    done.send id
  end
end
Fiber.yield
5.times { churn 3000; GC.collect }
sum = 0
go.each &.send(nil)
1000.times { sum += done.receive }
check sum == 999 * 1000 // 2, "ids"
puts "waiting fibers: #{sum}"

# Fibers that come and go, on stacks that are used again.
count = 0
60.times do |round|
  50.times do |i|
    spawn do
      mine = list(i, 30)
      Fiber.yield
      check_list mine, i, 30
      done.send 1
    end
  end
  GC.collect if round % 10 == 0
  50.times { count += done.receive }
end
puts "passing fibers: #{count}"

# Deep recursion in fibers, with a collection at the bottom, and an exception from there.
def deep(n : Int32, id : Int32) : Int32
  mine = list(id, 3)
  if n == 0
    GC.collect
    raise "bottom of #{id}"
  end
  begin
    deep(n - 1, id + 1)
  ensure
    check_list mine, id, 3
  end
end
messages = [] of String
texts = Channel(String).new
12.times do |i|
  spawn do
    begin
      deep(400, i * 1000)
    rescue error
      texts.send error.message || "none"
    end
  end
end
12.times { messages << texts.receive }
check messages.sort == (0...12).map { |i| "bottom of #{i * 1000 + 400}" }.sort, "messages"
puts "deep fibers: #{messages.size}"

# Producers and consumers with select and timeouts.
numbers = Channel(Array(Int32)).new(4)
quit = Channel(Nil).new
3.times { |k| spawn { 500.times { |i| numbers.send Array.new(10) { |j| k + i + j } }; quit.send nil } }
total = 0_i64
finished = 0
while finished < 3
  select
  when batch = numbers.receive
    total += batch.sum
  when quit.receive
    finished += 1
  end
end
numbers.close
while batch = numbers.receive?
  total += batch.sum
end
expected = (0...3).sum { |k| (0...500).sum { |i| (0...10).sum { |j| k + i + j } } }
check total == expected, "select: #{total} of #{expected}"
puts "select: #{total}"

# Child processes, forked from a program with a heap, read from by fibers.
kept = list(7, 5000)
outputs = Channel(Int32).new
6.times do |i|
  spawn do
    text = String.build { |io| Process.run("seq", [(2000 + i).to_s], output: io) }
    outputs.send text.lines.sum(&.to_i)
  end
end
churn 5000
GC.collect
sums = Array.new(6) { outputs.receive }.sort
check sums == (0...6).map { |i| (2000 + i) * (2001 + i) // 2 }, "children"
check_list kept, 7, 5000
puts "children: #{sums}"
