// Pauses: bench/pauses.c on Java: the same tree of maps, the same operations, the same line at the end. Usage: java Pauses SIZE [RATE [SECONDS]].
// Choose the collector and the heap on java's command line: -XX:+UseG1GC (or UseZGC) -Xmx4g. Stops are those that the JVM tells of after each collection, in whole milliseconds; ZGC counts
// its stops apart from its cycles, G1's are its collections but for the two short stops of concurrent marking.
import com.sun.management.GarbageCollectionNotificationInfo;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.NotificationEmitter;
import javax.management.openmbean.CompositeData;

public final class Pauses {
    static final int DIGIT_BITS = 6;
    static final int MAP_ENTRIES = 1 << DIGIT_BITS;
    static final int NOTE_BYTES = 24;
    // What the C program requests for each, so that all have as many keys.
    static final long VALUE_BYTES = 32;
    static final long ENTRY_BYTES = 32;
    static final long MAP_BYTES = 16 + MAP_ENTRIES * 8;

    static final class Value {
        final long key;
        final long revision;
        final long sum;
        final byte[] note = new byte[NOTE_BYTES];

        Value(long key, long revision) {
            this.key = key;
            this.revision = revision;
            sum = sumOf(key, revision);
            java.util.Arrays.fill(note, 0, NOTE_BYTES - 1, letter());
        }

        byte letter() {
            return (byte) ('a' + Long.remainderUnsigned(sum, 26));
        }

        boolean isRight(long wanted) {
            return key == wanted && sum == sumOf(wanted, revision) && note[0] == letter() && note[NOTE_BYTES - 2] == letter() && note[NOTE_BYTES - 1] == 0;
        }
    }

    static final class Entry {
        final Entry next;
        final long digit;
        // A Value in a leaf map, else the next Map.
        Object content;
        long uses;

        Entry(Entry next, long digit) {
            this.next = next;
            this.digit = digit;
        }
    }

    static final class Map {
        final Entry[] buckets = new Entry[MAP_ENTRIES];
        long entries;

        Map() {
            bytes += MAP_BYTES;
        }

        static int bucketOf(long digit) {
            return (int) Long.remainderUnsigned(mix(digit), MAP_ENTRIES);
        }

        Entry find(long digit) {
            Entry entry = buckets[bucketOf(digit)];
            while (entry != null && entry.digit != digit) {
                entry = entry.next;
            }
            return entry;
        }

        // The entry for `digit`, made when it is not there.
        Entry entry(long digit) {
            Entry entry = find(digit);
            if (entry == null) {
                entry = new Entry(buckets[bucketOf(digit)], digit);
                buckets[bucketOf(digit)] = entry;
                entries++;
                bytes += ENTRY_BYTES;
            }
            return entry;
        }
    }

    // 64 bytes with the header.
    static final class Link {
        final Link next;
        long first;
        long second;
        long third;
        long fourth;
        long fifth;
        long sixth;

        Link(Link next) {
            this.next = next;
        }
    }

    // Buckets of 3 %, as in C, so that percentiles say the same.
    static final class Times {
        final long[] counts = new long[2048];
        long total;
        long longest;

        void add(long took) {
            int power = took < 64 ? 0 : 58 - Long.numberOfLeadingZeros(took);
            counts[power * 32 + (int) (took >> power)]++;
            total++;
            longest = Math.max(longest, took);
        }

        double quantile(double fraction) {
            long seen = 0;
            for (int bucket = 0; bucket < counts.length; bucket++) {
                seen += counts[bucket];
                if (seen > total * fraction) {
                    int power = bucket < 64 ? 0 : bucket / 32 - 1;
                    return ((long) (bucket - power * 32 + 1) << power) * 1e-3;
                }
            }
            return longest * 1e-3;
        }
    }

    static Map root;
    static int levels = 1;
    static long keys;
    static long bytes;
    static Link chain;

    static long mix(long word) {
        word ^= word >>> 32;
        word *= 0xd6e8feb86659fd93L;
        word ^= word >>> 32;
        word *= 0xd6e8feb86659fd93L;
        return word ^ word >>> 32;
    }

    static long sumOf(long key, long revision) {
        return mix(key * 31 + revision);
    }

    static long digitOf(long key, int level) {
        return key >>> DIGIT_BITS * level & MAP_ENTRIES - 1;
    }

    static Entry find(long key) {
        Map map = root;
        for (int level = levels - 1; level > 0; level--) {
            Entry entry = map.find(digitOf(key, level));
            if (entry == null) {
                return null;
            }
            map = (Map) entry.content;
        }
        return map.find(digitOf(key, 0));
    }

    static void build(long wanted) {
        while (wanted / 88 >>> DIGIT_BITS * levels != 0) {
            levels++;
        }
        root = new Map();
        while (bytes < wanted) {
            long key = keys++;
            Map map = root;
            for (int level = levels - 1; level > 0; level--) {
                Entry entry = map.entry(digitOf(key, level));
                if (entry.content == null) {
                    entry.content = new Map();
                }
                map = (Map) entry.content;
            }
            map.entry(digitOf(key, 0)).content = new Value(key, 0);
            bytes += VALUE_BYTES + NOTE_BYTES;
        }
    }

    static boolean replaceOne(long random) {
        long key = (random * 2685821657736338717L >>> 11) % keys;
        Entry entry = find(key);
        if (entry == null) {
            return false;
        }
        Value value = (Value) entry.content;
        boolean right = value.isRight(key);
        entry.content = new Value(key, value.revision + 1);
        entry.uses++;
        return right;
    }

    static long sizeOf(String text) {
        int unit = "KMG".indexOf(text.charAt(text.length() - 1));
        return Long.parseLong(unit < 0 ? text : text.substring(0, text.length() - 1)) << 10 * (unit + 1);
    }

    public static void main(String[] arguments) throws InterruptedException {
        if (arguments.length < 1 || arguments.length > 3) {
            System.err.println("usage: java Pauses SIZE [RATE [SECONDS]]; SIZE is a number of bytes such as 200M or 1G");
            System.exit(2);
        }
        long wanted = sizeOf(arguments[0]);
        long rate = arguments.length > 1 ? Long.parseLong(arguments[1]) : 200_000;
        long end = (arguments.length > 2 ? Long.parseLong(arguments[2]) : 10) * 1_000_000_000L;
        AtomicLong longestStop = new AtomicLong();
        AtomicLong collections = new AtomicLong();
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            // ZGC has a bean for its cycles, which do not stop the program, and one for its stops.
            if (collector.getName().endsWith("Cycles")) {
                continue;
            }
            ((NotificationEmitter) collector).addNotificationListener((notification, handback) -> {
                var told = GarbageCollectionNotificationInfo.from((CompositeData) notification.getUserData());
                longestStop.accumulateAndGet(told.getGcInfo().getDuration(), Math::max);
                collections.incrementAndGet();
            }, null, null);
        }
        build(wanted);

        Times times = new Times();
        long operations = 0;
        long wrong = 0;
        long random = 0x5eed;
        long began = System.nanoTime();
        long at = 0;
        while (at < end) {
            long due = (long) (operations * 1e9 / rate);
            while (at < due && at < end) {
                at = System.nanoTime() - began;
            }
            if (at >= end) {
                break;
            }
            long started = at;
            random ^= random >>> 12;
            random ^= random << 25;
            random ^= random >>> 27;
            if (!replaceOne(random)) {
                wrong++;
            }
            chain = null;
            for (int garbage = 0; garbage < 16; garbage++) {
                chain = new Link(chain);
            }
            at = System.nanoTime() - began;
            operations++;
            times.add(at - started);
        }
        double perSecond = operations / (at * 1e-9);

        long right = 0;
        for (long key = 0; key < keys; key++) {
            Entry entry = find(key);
            if (entry != null && ((Value) entry.content).isRight(key)) {
                right++;
            }
        }
        // Notifications come from another thread, a little later.
        Thread.sleep(100);
        boolean ok = wrong == 0 && right == keys && operations > 0;
        System.out.printf(
            "{\"program\": \"pauses\", \"live_bytes\": %d, \"keys\": %d, \"right\": %d, \"wrong\": %d, \"wanted_per_second\": %d, \"operations_per_second\": %.0f, "
                + "\"operation_us\": {\"p50\": %.2f, \"p99\": %.2f, \"p999\": %.2f, \"max\": %.2f}, \"stops_told\": %d, \"longest_stop_ms\": %d, \"library_version\": \"%s\", \"ok\": %s}%n",
            bytes, keys, right, wrong, rate, perSecond, times.quantile(0.5), times.quantile(0.99), times.quantile(0.999), times.longest * 1e-3, collections.get(),
            longestStop.get(), System.getProperty("java.version"), ok);
        System.exit(ok ? 0 : 1);
    }
}
