// pauses.go: bench/pauses.c in Go: the same tree of maps, the same operations, the same line at the end.
//
// Arguments: SIZE [RATE [SECONDS]]. Stops are those that the runtime counts, as buckets of its own: the longest is the upper edge of the highest that is in use.
package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

type value struct {
	key, revision, sum uint64
	note               *[noteBytes]byte
}

// An entry of a leaf map has a value, others have the next map.
type entry struct {
	next  *entry
	digit uint64
	value *value
	below *node
	uses  uint64
}

type node struct {
	buckets *[mapEntries]*entry
	entries uint64
}

const (
	digitBits  = 6
	mapEntries = 1 << digitBits
	noteBytes  = 24
	// What the C program requests for each, so that all have as many keys.
	valueBytes, entryBytes, mapBytes = 32, 32, 16 + mapEntries*8
)

var (
	root   *node
	levels uint = 1
	keys   uint64
	bytes  uint64
)

func mix(word uint64) uint64 {
	word ^= word >> 32
	word *= 0xd6e8feb86659fd93
	word ^= word >> 32
	word *= 0xd6e8feb86659fd93
	return word ^ word>>32
}

func sumOf(key, revision uint64) uint64 { return mix(key*31 + revision) }

func makeValue(key, revision uint64) *value {
	made := &value{key: key, revision: revision, sum: sumOf(key, revision), note: new([noteBytes]byte)}
	letter := byte('a' + made.sum%26)
	for place := 0; place < noteBytes-1; place++ {
		made.note[place] = letter
	}
	return made
}

func (found *value) isRight(key uint64) bool {
	letter := byte('a' + found.sum%26)
	return found.key == key && found.sum == sumOf(key, found.revision) && found.note[0] == letter &&
		found.note[noteBytes-2] == letter && found.note[noteBytes-1] == 0
}

func makeNode() *node {
	bytes += mapBytes
	return &node{buckets: new([mapEntries]*entry)}
}

func (here *node) find(digit uint64) *entry {
	found := here.buckets[mix(digit)%mapEntries]
	for found != nil && found.digit != digit {
		found = found.next
	}
	return found
}

// The entry for digit, made when it is not there.
func (here *node) entry(digit uint64) *entry {
	if found := here.find(digit); found != nil {
		return found
	}
	bucket := &here.buckets[mix(digit)%mapEntries]
	made := &entry{next: *bucket, digit: digit}
	*bucket = made
	here.entries++
	bytes += entryBytes
	return made
}

func digitOf(key uint64, level uint) uint64 { return key >> (digitBits * level) & (mapEntries - 1) }

func find(key uint64) *entry {
	here := root
	for level := levels - 1; level > 0; level-- {
		found := here.find(digitOf(key, level))
		if found == nil {
			return nil
		}
		here = found.below
	}
	return here.find(digitOf(key, 0))
}

func build(wanted uint64) {
	for (wanted/88)>>(digitBits*levels) != 0 {
		levels++
	}
	root = makeNode()
	for bytes < wanted {
		key := keys
		keys++
		here := root
		for level := levels - 1; level > 0; level-- {
			found := here.entry(digitOf(key, level))
			if found.below == nil {
				found.below = makeNode()
			}
			here = found.below
		}
		here.entry(digitOf(key, 0)).value = makeValue(key, 0)
		bytes += valueBytes + noteBytes
	}
}

func replaceOne(random *uint64) bool {
	*random ^= *random >> 12
	*random ^= *random << 25
	*random ^= *random >> 27
	key := (*random * 2685821657736338717 >> 11) % keys
	found := find(key)
	if found == nil {
		return false
	}
	right := found.value.isRight(key)
	found.value = makeValue(key, found.value.revision+1)
	found.uses++
	return right
}

// Buckets of 3 %, as in C, so that percentiles say the same.
type times struct {
	counts         [2048]uint64
	total, longest uint64
}

func (all *times) add(took uint64) {
	power := uint(0)
	for took>>power >= 64 {
		power++
	}
	all.counts[uint64(power)*32+took>>power]++
	all.total++
	if took > all.longest {
		all.longest = took
	}
}

func (all *times) quantile(fraction float64) float64 {
	seen := uint64(0)
	for bucket, count := range all.counts {
		seen += count
		if float64(seen) > float64(all.total)*fraction {
			power := 0
			if bucket >= 64 {
				power = bucket/32 - 1
			}
			return float64((bucket-power*32+1)<<power) * 1e-3
		}
	}
	return float64(all.longest) * 1e-3
}

// The longest stop so far, in milliseconds.
func stops() (longest float64) {
	sample := []metrics.Sample{{Name: "/gc/pauses:seconds"}}
	metrics.Read(sample)
	histogram := sample[0].Value.Float64Histogram()
	for index, count := range histogram.Counts {
		if edge := histogram.Buckets[index+1]; count > 0 && !math.IsInf(edge, 0) {
			longest = edge * 1e3
		}
	}
	return longest
}

// Argument index, or fallback when it was not given; K, M and G are powers of 1024.
func argument(index int, fallback uint64) uint64 {
	if index >= len(os.Args) {
		return fallback
	}
	text, shift := os.Args[index], 0
	if unit := strings.IndexByte("KMG", text[len(text)-1]); unit >= 0 {
		text, shift = text[:len(text)-1], 10*(unit+1)
	}
	number, err := strconv.ParseUint(text, 10, 40)
	if err != nil || number == 0 {
		fmt.Fprintln(os.Stderr, "usage: pauses SIZE [RATE [SECONDS]]; SIZE is a number of bytes such as 200M or 1G")
		os.Exit(2)
	}
	return number << shift
}

var chain *link

type link struct {
	next *link
	rest [7]uint64
}

func main() {
	wanted, rate, seconds := argument(1, 200<<20), argument(2, 200_000), argument(3, 10)
	build(wanted)

	var operation times
	var operations, wrong uint64
	random := uint64(0x5eed)
	began := time.Now()
	end := time.Duration(seconds) * time.Second
	at := time.Duration(0)
	for at < end {
		due := time.Duration(float64(operations) * 1e9 / float64(rate))
		for at < due && at < end {
			at = time.Since(began)
		}
		if at >= end {
			break
		}
		started := at
		if !replaceOne(&random) {
			wrong++
		}
		chain = nil
		for garbage := 0; garbage < 16; garbage++ {
			chain = &link{next: chain}
		}
		at = time.Since(began)
		operations++
		operation.add(uint64(at - started))
	}
	perSecond := float64(operations) / at.Seconds()

	right := uint64(0)
	for key := uint64(0); key < keys; key++ {
		if found := find(key); found != nil && found.value.isRight(key) {
			right++
		}
	}
	var collections debug.GCStats
	debug.ReadGCStats(&collections)
	ok := wrong == 0 && right == keys && operations > 0
	fmt.Printf(`{"program": "pauses", "live_bytes": %d, "keys": %d, "right": %d, "wrong": %d, "wanted_per_second": %d, "operations_per_second": %.0f, `+
		`"operation_us": {"p50": %.2f, "p99": %.2f, "p999": %.2f, "max": %.2f}, "collections": %d, "longest_stop_ms": %.3f, "library_version": %q, "ok": %t}`+"\n",
		bytes, keys, right, wrong, rate, perSecond, operation.quantile(0.5), operation.quantile(0.99), operation.quantile(0.999), float64(operation.longest)*1e-3,
		collections.NumGC, stops(), strings.TrimPrefix(runtime.Version(), "go"), ok)
	if !ok {
		os.Exit(1)
	}
}
