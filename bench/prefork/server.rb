#!/usr/bin/env ruby
# The server of server.c in Ruby, for scale: same table, same requests, same commands on standard input. usage: server.rb ENTRIES WORKERS COLLECTIONS
# Ruby does not tell marking from sweeping here, nor how long a pause was: a collection's whole time stands for both.
require 'socket'

STREETS = ['High Street', 'Station Road', 'Mill Lane', 'Church Walk', "Queen's Terrace"].freeze
TOWNS = %w[Newbridge Ashford Kingsbury Whitby Longmarsh Eastwick Hale].freeze
NAMES = %w[street town county postcode telephone].freeze

def postcode_of(number)
  area = number % 676
  unit = number / 60_840 % 6760
  format('%c%c%d %d%c%c', 65 + area / 26, 65 + area % 26, number / 676 % 90 + 10, unit / 676, 65 + unit / 26 % 26, 65 + unit % 26)
end

def load_table(entries)
  table = {}
  entries.times do |number|
    postcode = postcode_of(number)
    table[postcode] = ["#{number % 250 + 1} #{STREETS[number % 5]}", TOWNS[number % 7].dup, "County #{number % 97}", postcode,
                       format('+44 20 %07d', number)]
  end
  table
end

def answer(table, request)
  fields = table[request]
  return "unknown\n" unless fields

  NAMES.zip(fields).map { |name, field| "#{name}=#{field}" }.join('; ') + "\n"
end

def microseconds
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond)
end

def collect
  began = microseconds
  GC.start
  (microseconds - began).round
end

def obey(control)
  case control.getc
  when 'c' then control.write("#{collect} 0")
  when 'p' then control.write((GC::Profiler.raw_data.map { |one| one[:GC_TIME] }.max.to_f * 1e6).round.to_s)
  when 'a' then control.write(format('%.3f', $answering / $answered))
  else exit!(0)
  end
end

# Of this worker: microseconds spent in making answers, and how many.
$answering = 0.0
$answered = 0

def timed_answer(table, request)
  began = microseconds
  made = answer(table, request)
  $answering += microseconds - began
  $answered += 1
  made
end

def work(table, listener, control)
  GC::Profiler.enable
  connections = []
  loop do
    ready, = IO.select([control, *connections, *(connections.size < 2 ? [listener] : [])])
    ready.each do |one|
      if one == control
        obey(control)
      elsif one == listener
        accepted = listener.accept_nonblock(exception: false)
        next if accepted == :wait_readable

        accepted.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
        connections << accepted
      elsif (line = one.gets)
        one.write(timed_answer(table, line.chomp))
      else
        one.close
        connections.delete(one)
      end
    end
  end
end

abort 'usage: server.rb ENTRIES WORKERS COLLECTIONS' unless ARGV.size >= 3
entries, workers, collections = ARGV.first(3).map(&:to_i)
table = load_table(entries)
puts ['parent', *Array.new(collections) { [collect, 0] }].join(' ')
listener = TCPServer.new('127.0.0.1', 0)
listener.listen(128)
controls = []
children = Array.new(workers) do
  ours, theirs = UNIXSocket.pair
  child = fork { work(table, listener, theirs) }
  theirs.close
  controls << ours
  child
end
puts ['ready', listener.addr[1], *children].join(' ')
$stdout.flush
while (command = $stdin.gets)&.chomp != 'quit' && command
  case command.chomp
  when 'collect', 'pauses', 'answers'
    puts(controls.map { |control| control.write(command[0]) && control.readpartial(500) }.join(' '))
  when 'live' then puts(GC.stat(:heap_live_slots) * GC::INTERNAL_CONSTANTS[:RVALUE_SIZE])
  when 'fork'
    times = Array.new(10) do
      began = microseconds
      child = fork { exit!(0) }
      took = (microseconds - began).round
      Process.wait(child)
      took
    end
    puts times.join(' ')
  else puts '? want collect, pauses, answers, live, fork or quit'
  end
  $stdout.flush
end
controls.each { |control| control.write('q') }
children.each { |child| Process.wait(child) }
