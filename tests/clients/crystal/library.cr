# Crystal: the timed client. A library of books: a splay of hashes, arrays and strings that is
# filled, changed and searched; JSON written and parsed; binary trees built and dropped; fibers that
# pass fresh objects through channels. Totals are kept twice, in the data and in plain numbers.
# Exits 1 when they differ.
require "json"

def wrong(what) : NoReturn
  STDERR.puts "wrong: #{what}"
  exit 1
end

def check(condition, what)
  wrong(what) unless condition
end

# A small generator of its own, so that the numbers are the same everywhere.
class Numbers
  def initialize(@state : UInt64)
  end

  def below(n : Int32) : Int32
    @state ^= @state << 13
    @state ^= @state >> 7
    @state ^= @state << 17
    (@state % n.to_u64).to_i32
  end
end

# Part 1: binary trees.
class Node
  getter left : Node?
  getter right : Node?

  def initialize(depth : Int32)
    if depth > 0
      @left = Node.new(depth - 1)
      @right = Node.new(depth - 1)
    end
  end

  def count : Int32
    left, right = @left, @right
    return 1 unless left && right
    1 + left.count + right.count
  end
end

def trees(deepest)
  kept = Node.new(deepest)
  4.step(to: deepest, by: 4) do |depth|
    rounds = 1 << (deepest - depth + 4)
    nodes = 0_i64
    rounds.times { nodes += Node.new(depth).count }
    check nodes == rounds.to_i64 * ((1 << (depth + 1)) - 1), "nodes at depth #{depth}"
    puts "#{rounds} trees of depth #{depth}: #{nodes} nodes"
  end
  check kept.count == (1 << (deepest + 1)) - 1, "the kept tree"
end

# Part 2: books by number, by author and by word of the title.
class Book
  include JSON::Serializable
  getter number : Int32
  getter author : String
  getter title : Array(String)
  property lent : Int64

  def initialize(@number, @author, @title, @lent = 0_i64)
  end
end

def library(steps, most)
  numbers = Numbers.new(88172645463325252_u64)
  books = {} of Int32 => Book
  by_author = Hash(String, Array(Book)).new { |hash, key| hash[key] = [] of Book }
  by_word = Hash(String, Set(Int32)).new { |hash, key| hash[key] = Set(Int32).new }
  lent = 0_i64
  texts = 0
  (1..steps).each do |step|
    book = Book.new(step, "author #{numbers.below(700)}",
      Array.new(2 + numbers.below(4)) { "word#{numbers.below(3000).to_s(36)}" })
    books[step] = book
    by_author[book.author] << book
    book.title.each { |word| by_word[word] << step }
    other = step - numbers.below({step, most}.min)
    if found = books[other]?
      found.lent += step
      lent += step
    end
    if step > most
      gone = books.delete(step - most) || wrong("missing #{step - most}")
      lent -= gone.lent
      by_author[gone.author].reject! { |candidate| candidate.same?(gone) }
      gone.title.each { |word| by_word[word].delete(gone.number) }
    end
    if step % 2500 == 0
      sample = (step - 300..step).map { |number| books[number] }
      text = sample.to_json
      again = Array(Book).from_json(text)
      texts += text.size
      sample.zip(again) do |a, b|
        check a.number == b.number && a.author == b.author && a.title == b.title && a.lent == b.lent, "JSON"
      end
    end
  end
  check books.size == most, "books"
  check books.each_value.sum(&.lent) == lent, "lent by number"
  check by_author.each_value.sum { |list| list.sum(0_i64, &.lent) } == lent, "lent by author"
  books.each_value { |book| book.title.each { |word| check by_word[word].includes?(book.number), "word" } }
  pairs = by_word.each_value.sum(&.size)
  check pairs == books.each_value.sum(&.title.uniq.size), "words"
  puts "library: #{books.size} books, #{lent} lent, #{pairs} words, #{texts} characters of JSON"
end

# Part 3: fibers in a chain, each transforming what the one before it sends.
class Parcel
  getter route : Array(Int32)
  getter text : String

  def initialize(@route, @text)
  end
end

def fibers(stages, parcels)
  first = Channel(Parcel).new(16)
  channel = first
  stages.times do |stage|
    from, to = channel, Channel(Parcel).new(16)
    spawn do
      while parcel = from.receive?
        to.send Parcel.new(parcel.route + [stage], "#{parcel.text}.#{stage}")
      end
      to.close
    end
    channel = to
  end
  spawn do
    parcels.times { |number| first.send Parcel.new([number], "parcel #{number}") }
    first.close
  end
  arrived = 0
  length = 0
  suffix = String.build { |text| stages.times { |stage| text << '.' << stage } }
  while parcel = channel.receive?
    check parcel.route.size == stages + 1 && parcel.route[0] == arrived, "route of #{arrived}"
    check parcel.text == "parcel #{arrived}#{suffix}", "text of #{arrived}"
    length += parcel.text.size
    arrived += 1
  end
  check arrived == parcels, "parcels"
  puts "fibers: #{arrived} parcels, #{length} characters"
end

trees 19
library 400_000, 80_000
fibers 40, 12_000
