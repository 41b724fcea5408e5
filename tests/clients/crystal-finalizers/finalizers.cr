# Crystal: finalize methods run once, only for the dead, for nearly all of them (a conservative stack
# may hold one in ten); weak references lose the dead and keep the living; dropped files give their
# descriptors back; `free`d and reallocated buffers keep their contents. Exits 1 when wrong.
require "weak_ref"

def wrong(what) : NoReturn
  STDERR.puts "wrong: #{what}"
  exit 1
end

def check(condition, what)
  wrong(what) unless condition
end

TOTAL = 4000

module Tally
  class_getter runs = StaticArray(Int32, 4000).new(0)
  class_property ran = 0
  class_property broken = 0

  def self.note(id)
    pointerof(@@runs).value[id] += 1
    @@ran += 1
  end
end

class Thing
  getter id : Int32
  @check : Int32

  def initialize(@id)
    @check = @id * 3 + 1
  end

  def finalize
    Tally.broken += 1 unless @check == @id * 3 + 1
    Tally.note @id
  end
end

@[NoInline]
def scrub(depth : Int32) : Int32
  room = StaticArray(Int32, 64).new(depth)
  depth == 0 ? room[0] : room[depth % 64] + scrub(depth - 1)
end

@[NoInline]
def make_things : Array(Thing)
  kept = [] of Thing
  TOTAL.times do |i|
    thing = Thing.new(i)
    kept << thing if i % 4 == 0
  end
  kept
end

def collect_until(enough : Int32)
  50.times do
    scrub 500
    GC.collect
    return if Tally.ran >= enough
  end
end

kept = make_things
droppable = TOTAL - kept.size
collect_until droppable - TOTAL // 10
check Tally.ran >= droppable - TOTAL // 10, "finalizers ran: #{Tally.ran}"
check Tally.broken == 0, "contents"
TOTAL.times do |i|
  check Tally.runs[i] <= 1, "ran twice: #{i}"
  check Tally.runs[i] == 0, "ran for a living one: #{i}" if i % 4 == 0
end
kept.each_with_index { |thing, i| check thing.id == 4 * i, "kept #{i}" }
puts "things: finalized once each, the living ones not"

# Weak references.
class Leaf
  getter id : Int32
  getter text : String

  def initialize(@id)
    @text = "leaf #{@id}"
  end
end

@[NoInline]
def make_references(held : Array(Leaf)) : Array(WeakRef(Leaf))
  Array.new(TOTAL) do |i|
    leaf = Leaf.new(i)
    held << leaf if i % 5 == 0
    WeakRef.new(leaf)
  end
end

held = [] of Leaf
references = make_references(held)
4.times { scrub 500; GC.collect }
alive = references.count { |reference| reference.value }
check alive >= held.size, "weak references lost the living"
check alive <= held.size + TOTAL // 10, "weak references kept the dead: #{alive - held.size}"
held.each do |leaf|
  check references[leaf.id].value.same?(leaf) && leaf.text == "leaf #{leaf.id}", "weak reference #{leaf.id}"
end
puts "weak references: the living are there, the rest is gone"

# Files that are dropped without being closed; the run script allows few descriptors.
@[NoInline]
def open_and_drop(n) : Int32
  sum = 0
  n.times { sum += 1 if File.open("/proc/self/stat").read_char }
  sum
end

characters = 0
40.times do
  characters += open_and_drop 40
  scrub 500
  GC.collect
end
puts "files: #{characters} characters from as many dropped files"

# Buffers that grow by reallocation, small to large, and keep what is in them.
blocks = Array.new(200) { |k| Pointer(UInt8).malloc(k + 1) { |i| (i &+ k).to_u8! } }
sizes = Array.new(200) { |k| k + 1 }
10.times do |round|
  blocks.each_index do |k|
    old = sizes[k]
    grown = old * 2 + 3
    block = blocks[k].realloc(grown)
    old.times { |i| wrong("block #{k} at #{i}") unless block[i] == (i &+ k).to_u8! }
    (old...grown).each { |i| block[i] = (i &+ k).to_u8! }
    blocks[k], sizes[k] = block, grown
  end
  GC.collect if round % 4 == 0
  200.times { |i| Bytes.new(5000 * (i % 7)) }
end
puts "buffers: #{sizes.sum} bytes"
